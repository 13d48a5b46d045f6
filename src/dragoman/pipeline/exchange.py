"""One exchange: a request of a client, sent to an endpoint, and the repaired reply as events or as a whole.

This module contains no server. It takes a decoded request and yields events, and a codec writes them for the client.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Protocol, TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from dragoman.client.retry import NOTICES, ClientEvent, ModelReplaced, RequestPrepared, RequestRetried
from dragoman.errors import DragomanError
from dragoman.events import (
    CallEnded,
    CallRefused,
    Event,
    RefusalDelta,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.extraction import Extraction
from dragoman.extraction.leaks import TurnMemory, rewrite_leaks
from dragoman.extraction.offers import choose_offer, describe_found, find_tools, found_tools, search_tool
from dragoman.extraction.responses import ConversationContext
from dragoman.extraction.tool_mode import (
    ComposedRequest,
    ToolMode,
    choose_tool_mode,
    compose,
    is_written_as_text,
    limit_for,
)
from dragoman.pipeline.report import Report
from dragoman.pipeline.requests import settle_fields
from dragoman.pipeline.signatures import SIGNED, ReasoningSigner, restore_reasoning
from dragoman.pipeline.translator import ReplyTranslator, Verdict
from dragoman.providers import Endpoint, Fact
from dragoman.providers.facts import MOST_CHARACTERS_PER_TOKEN, learn_from_failure
from dragoman.replies import add_usage, fold
from dragoman.toolset import SharedTools, Toolset
from dragoman.types import (
    FAILURE_CAUSES,
    Failure,
    Message,
    Part,
    Reply,
    Request,
    Text,
    Thinking,
    Tool,
    ToolModeName,
    ToolResult,
    TrustName,
    Usage,
)

_MOST_SEARCHES = 4
_MOST_CHOICES = 16
"""The endpoints for which the choice of tools is kept, for each list of tools."""
_NOTHING = Usage()
_BOUNDARIES = 512
"""The most turns with results in one conversation in text."""


class Observer(Protocol):
    """Is told about the requests to an endpoint, for the balance of load, health and learned facts."""

    def started(self) -> None: ...

    def ended(self, failure: Failure | None) -> None: ...

    def learned(self, endpoint: Endpoint, fact: Fact) -> None: ...


class Sender(Protocol):
    """Sends requests to one endpoint: a `Client`, or the transport of an SDK that was pointed at it."""

    @property
    def endpoint(self) -> Endpoint: ...

    async def fetch(self, request: Request) -> tuple[list[RequestPrepared | RequestRetried], list[Event]]: ...

    def stream_batches(self, request: Request) -> AsyncGenerator[Sequence[ClientEvent]]: ...


class Backend(Struct, frozen=True):
    """An endpoint with the client that sends to it, and how its replies are read."""

    client: Sender
    tool_mode: ToolModeName = "auto"
    trust: TrustName = "compat"
    repair_turns: int = 1
    observer: Observer | None = None


class Exchange:
    """One request and its reply. `stream` yields events for the client, `ask` returns the whole reply."""

    def __init__(
        self,
        request: Request,
        backends: Sequence[Backend],
        report: Report,
        *,
        secret: bytes = b"",
        memory: TurnMemory | None = None,
        watch: Callable[[ComposedRequest, Verdict], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`backends` are tried in order, until one answers. `secret` makes the boundaries of results in text
        unpredictable, and equal in every turn of a conversation. `memory` keeps what was read in earlier turns.
        `watch` is told what was found in each reply."""
        self.report = report
        self.reply_id = ""
        """The id that the endpoint gave the last reply."""
        self.reply_model = ""
        """The model that the endpoint named in the last reply."""
        self._asked = request
        self._backends = list(backends)
        self._use(self._backends.pop(0))
        self._delivered = False
        self._first: Verdict | None = None
        """The reply before a repair turn, with what the client has not received of it."""
        self._has_words = False
        self._is_continued = False
        """Whether the next words come from another reply than those before."""
        self.has_fallen_back = False
        """Whether a repair turn failed, and the reply before it was passed on."""
        self._secret = secret
        self._memory = memory
        self._watch = watch
        self._clock = clock
        self._began = clock()
        self._usage = Usage()
        self._repairs = 0
        self._finder: Tool | None = None
        self._searches = 0

    def _use(self, backend: Backend) -> None:
        """Ask this endpoint from now on, in its own wire."""
        self._backend = backend
        self._request, left_out = settle_fields(self._asked, self.report.wire, self.wire)
        self.report.add_losses(left_out)

    @property
    def wire(self) -> str:
        """The wire of the endpoint that answers."""
        return self._backend.client.endpoint.wire

    async def ask(self) -> Reply:
        """Return the whole reply."""
        events: list[Event] = []
        messages: list[Message] | None = self._read_history()
        while messages is not None:
            composed = self._prepare(messages)
            if not isinstance(composed, ComposedRequest):
                events += composed
                break
            translator = self._open_translator(composed, messages)
            try:
                received = await self._fetch(composed)
            except Exception as error:
                received = [self._endure(error)]
            ready, verdict = translator.translate(received)
            # A repair turn that fails leaves nothing behind: the client has received nothing yet.
            self._delivered = self._first is None and (self._delivered or bool(ready))
            ended, messages = self._go_on(verdict, composed, messages)
            if not self.has_fallen_back:
                events += self._set_apart(ready)
            events += self._set_apart(ended)
        if self.report.wire in SIGNED:
            signer = ReasoningSigner(self.report.wire)
            events = [each for event in events for each in signer.feed(event)]
        return fold(events)

    def stream(self) -> AsyncGenerator[list[Event]]:
        """Yield the events of the reply, in the order in which the client receives them."""
        self.report.streamed = True
        return self._sign() if self.report.wire in SIGNED else self._translate()

    async def _sign(self) -> AsyncGenerator[list[Event]]:
        """Yield the events with signatures, for a client whose wire needs them."""
        signer = ReasoningSigner(self.report.wire)
        async with aclosing(self._translate()) as batches:
            async for batch in batches:
                yield [each for event in batch for each in signer.feed(event)]

    # ---- turns ------------------------------------------------------------------------------------------------------

    async def _translate(self) -> AsyncGenerator[list[Event]]:
        messages: list[Message] | None = self._read_history()
        while messages is not None:
            composed = self._prepare(messages)
            if not isinstance(composed, ComposedRequest):
                yield composed
                return
            translator = self._open_translator(composed, messages)
            try:
                async with aclosing(self._send(composed, translator)) as batches:
                    async for batch in batches:
                        self._delivered = True
                        # Nearly all batches follow the first words of their reply.
                        yield batch if self._has_words and not self._is_continued else self._set_apart(batch)
            except Exception as error:
                translator.feed(self._endure(error))
            ended, messages = self._go_on(translator.close(), composed, messages)
            if ended:
                yield self._set_apart(ended)

    def _set_apart(self, events: list[Event]) -> list[Event]:
        """Return events with an empty line before the first words of another reply in the same message."""
        place = next((place for place, event in enumerate(events) if _is_word(event)), None)
        if place is None:
            return events
        is_first, self._is_continued, self._has_words = self._is_continued, False, True
        return [*events[:place], TextDelta("\n\n"), *events[place:]] if is_first else events

    def _prepare(self, messages: list[Message]) -> ComposedRequest | list[Event]:
        """Return the next request; the end of the reply if there can be none."""
        self._is_continued = self._has_words
        try:
            composed = self._compose(messages)
        except DragomanError as error:
            return self._fail(Failure("bad_request", str(error), 400))
        too_long = self._find_overflow(composed)
        return composed if too_long is None else self._fail(too_long)

    def _go_on(
        self, verdict: Verdict, composed: ComposedRequest, messages: list[Message]
    ) -> tuple[list[Event], list[Message] | None]:
        """Return what the client receives now, and the conversation of another request; None if this was the last."""
        failure = verdict.failure
        if failure is not None and not self._delivered:
            if self._first is not None:
                return self._fall_back(failure.kind), None
            if self._try_again(failure, composed):
                return [], messages
        searched = self._search(verdict)
        turn = verdict.repair if self._repairs < self._backend.repair_turns else None
        self._note(verdict)
        if self._watch is not None:
            self._watch(composed, verdict if turn is None else replace(verdict, calls=[]))
        if searched:
            return verdict.events, [*messages, *searched]
        if turn is None:
            if self._first is not None and verdict.is_blank:
                return self._fall_back("the second reply was empty"), None
            return self._end(verdict), None
        self._repairs += 1
        self.report.repair_turn = turn.why
        self._first = replace(verdict, events=turn.held)
        self._delivered = False
        return turn.sent, [*messages, *turn.messages]

    def _endure(self, error: Exception) -> ReplyFailed:
        """Return the failure of a repair turn whose request raised an error. All other errors are raised again."""
        if self._first is None or self._delivered:
            raise error
        return ReplyFailed(Failure("unreachable", type(error).__name__))

    def _fall_back(self, why: str) -> list[Event]:
        """Return the end of the reply that a repair turn should have corrected, and did not."""
        assert self._first is not None
        self.has_fallen_back = True
        report = self.report
        report.notes.append(f"{report.repair_turn}; the repair turn failed ({why}), so the first reply was passed on")
        report.repair_turn = ""
        return self._end(self._first)

    def _open_translator(self, composed: ComposedRequest, messages: list[Message]) -> ReplyTranslator | _Forwarder:
        tools = composed.chosen_mode.tools
        if not len(tools):
            return _Forwarder()
        is_single = self._request.options.get("parallel_tool_calls") is False
        return ReplyTranslator(composed, ConversationContext(messages, tools), is_single=is_single)

    def _read_history(self) -> list[Message]:
        """Return the messages of the client, as the model should see them."""
        messages = restore_reasoning(self._request.messages, self.report.wire)
        if not self._request.tools or "assistant" not in [message.role for message in messages]:
            return messages
        clean = rewrite_leaks(messages, self._request.tools, memory=self._memory)
        self.report.rewritten = len(clean.rewrites)
        self.report.notes += map(str, clean.rewrites)
        return clean.messages

    def _try_again(self, failure: Failure, composed: ComposedRequest) -> bool:
        """Prepare another attempt after a failure without output: the tools as text, or the next endpoint."""
        endpoint = composed.chosen_mode.endpoint
        fact = learn_from_failure(failure)
        if fact is not None and fact.native_tool_calls is False and composed.chosen_mode.mode == "native":
            self._backend = replace(self._backend, tool_mode="text")
            self.report.notes.append(f"the endpoint accepts no tools, so they were sent as text: {fact.why}")
            if self._backend.observer is not None:
                self._backend.observer.learned(endpoint, fact)
            return True
        # The key belongs to the endpoint, not to the request, so another endpoint may help.
        is_final = FAILURE_CAUSES.get(failure.kind) == "request" and failure.kind != "unauthorized"
        if not self._backends or is_final:
            return False
        self.report.retries.append(f"{self.report.model}: {failure.kind}: {failure.message}"[:300])
        self._use(self._backends.pop(0))
        return True

    def _compose(self, messages: list[Message]) -> ComposedRequest:
        request = self._request
        mode = self._choose_mode(messages)
        boundaries: Iterator[str] | tuple[str, ...] = ()
        if is_written_as_text(messages, mode, request.options):
            boundaries = self._make_boundaries(messages)
        composed = compose(messages, mode, request.options, boundaries=boundaries)
        self._describe(composed.chosen_mode)
        self.report.add_losses(composed.losses)
        return composed

    def _choose_mode(self, messages: list[Message]) -> ToolMode:
        """Choose the tool mode, and the tools that are described if all of them are too many."""
        backend, tools = self._backend, self._request.tools
        endpoint, key = backend.client.endpoint, (id(backend.client), backend.tool_mode, backend.trust)
        kept: dict[Any, Any] = tools.derived if isinstance(tools, SharedTools) else {}
        chosen: _ChosenTools | None = kept.get(key)
        if chosen is None or chosen.endpoint is not endpoint:
            if len(kept) >= _MOST_CHOICES:
                kept.clear()
            chosen = kept[key] = _choose_tools(endpoint, Toolset(tools), backend)
        self._finder = chosen.finder
        if not chosen.why:
            return chosen.mode
        if chosen.why not in self.report.notes:
            self.report.notes.append(chosen.why)
        found = found_tools(messages, chosen.tools)
        return replace(chosen.mode, found=tuple(tool for tool in found if not chosen.mode.shows(tool.name)))

    def _is_search(self, event: Event) -> TypeGuard[CallEnded]:
        return isinstance(event, CallEnded) and self._finder is not None and event.call.name == self._finder.name

    def _search(self, verdict: Verdict) -> list[Message]:
        """Return the turns of a search for tools, which the client does not see. It has its own tools only.

        A search beside other calls is left out: the model can search again when it has their results.
        """
        if self._finder is None or verdict.failure is not None:
            return []
        name = self._finder.name
        searches = [call for call in verdict.calls if call.name == name]
        if not searches:
            return []
        others = len(verdict.calls) - len(searches)
        verdict.calls[:] = [call for call in verdict.calls if call.name != name]
        verdict.events[:] = [
            CallRefused(event.call, "the gateway searches", event.index) if self._is_search(event) else event
            for event in verdict.events
        ]
        self._searches += 1
        if others or self._searches > _MOST_SEARCHES:
            self.report.notes.append("a search for tools was left out")
            return []
        self.report.notes += [f"the model searched for tools: {call.arguments.get('query')!r}" for call in searches]
        tools = Toolset(self._request.tools)
        results: list[Part] = [
            ToolResult(call.id, name, describe_found(find_tools(tools, str(call.arguments.get("query", "")))))
            for call in searches
        ]
        return [Message("assistant", [*verdict.message.parts, *searches]), Message("tool", results)]

    def _find_overflow(self, composed: ComposedRequest) -> Failure | None:
        """Return the failure if the request cannot fit into a known context window.

        Some servers cut a prompt that is too long without a word. The estimate is the least that it can be, so that no
        request is refused that fits.
        """
        window = composed.chosen_mode.endpoint.quirks.context_window
        if not window:
            return None
        tokens = count_least(composed.request)
        if tokens <= window:
            return None
        return Failure("context_too_long", f"prompt is too long: at least {tokens} tokens > {window} maximum", 400)

    def _describe(self, mode: ToolMode) -> None:
        report, endpoint = self.report, mode.endpoint
        report.model = f"{endpoint.provider.name}:{endpoint.model}"
        report.tool_mode = mode.mode
        report.tools = len(mode.tools)

    def _make_boundaries(self, messages: list[Message]) -> Iterator[str]:
        """Yield the boundaries of the results: the same ones in every turn, so that a prompt cache recognises them."""
        first = next((message.text for message in messages if message.role == "user"), "")
        for number in range(_BOUNDARIES):
            seed = f"{number}\0{first}".encode("utf-8", "replace")
            yield hmac.new(self._secret, seed, hashlib.sha256).hexdigest()[:12]

    async def _fetch(self, composed: ComposedRequest) -> list[Event]:
        """Send a request for a whole reply, and return its events."""
        observer = self._backend.observer
        if observer is not None:
            observer.started()
        failure: Failure | None = None
        try:
            notices, received = await self._backend.client.fetch(composed.request)
            for notice in notices:
                self._note_client(notice)
            for event in received:
                if type(event) is ReplyFailed:
                    failure = event.failure
                elif type(event) is ReplyStarted:
                    self.reply_id, self.reply_model = event.id, event.model
        finally:
            if observer is not None:
                observer.ended(failure)
        return received

    async def _send(
        self, composed: ComposedRequest, translator: ReplyTranslator | _Forwarder
    ) -> AsyncGenerator[list[Event]]:
        observer = self._backend.observer
        if observer is not None:
            observer.started()
        failure: Failure | None = None
        try:
            async with aclosing(self._backend.client.stream_batches(composed.request)) as batches:
                async for batch in batches:
                    ready: list[Event] = []
                    for event in batch:
                        if isinstance(event, NOTICES):
                            self._note_client(event)
                            continue
                        if isinstance(event, ReplyFailed):
                            failure = event.failure
                        elif isinstance(event, ReplyStarted):
                            self.reply_id, self.reply_model = event.id, event.model
                        ready += translator.feed(event)
                    if ready:
                        yield ready
        finally:
            if observer is not None:
                observer.ended(failure)

    def _note_client(self, event: RequestPrepared | RequestRetried | ModelReplaced) -> None:
        if isinstance(event, RequestPrepared):
            self.report.add_losses(event.losses)
            self.report.model = event.model
        elif isinstance(event, RequestRetried):
            self.report.retries.append(f"{event.model}: {event.failure.kind} in attempt {event.attempt}")

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _note(self, verdict: Verdict) -> None:
        report = self.report
        report.add_extraction(verdict.extraction)
        report.notes += verdict.notes
        self._usage = verdict.usage if self._usage == _NOTHING else add_usage(self._usage, verdict.usage)
        report.usage = self._usage

    def _end(self, verdict: Verdict) -> list[Event]:
        report = self.report
        for call in verdict.calls:
            report.add_call(call)
        report.stop = verdict.stop
        report.seconds = round(self._clock() - self._began, 4)
        failed: list[Event] = []
        if (failure := verdict.failure) is not None:
            if failure.kind == "unauthorized":
                # The client would otherwise believe that its own key is wrong, and ask its user for another one.
                said = f"the endpoint of {report.model} refused the key of the gateway: {failure.message}"
                failure = replace(failure, message=said)
            report.fail(failure)
            failed.append(ReplyFailed(failure))
        return [*verdict.events, *failed, UsageReported(self._usage), ReplyEnded(verdict.stop, verdict.extra)]

    def _fail(self, failure: Failure) -> list[Event]:
        if self._first is not None:
            return self._fall_back(failure.kind)
        self.report.fail(failure)
        return [ReplyFailed(failure), ReplyEnded("error")]


def _is_word(event: Event) -> bool:
    return isinstance(event, TextDelta) and not event.text.isspace() and event.text != ""


class _ChosenTools(Struct, frozen=True):
    """What an endpoint is told of the tools of a request. It does not depend on the messages."""

    endpoint: Endpoint
    tools: Toolset
    mode: ToolMode
    why: str = ""
    """Why not all of them are described in full; empty if they are."""
    finder: Tool | None = None


def _choose_tools(endpoint: Endpoint, tools: Toolset, backend: Backend) -> _ChosenTools:
    mode = choose_tool_mode(endpoint, tools, backend.tool_mode, trust=backend.trust)
    window = endpoint.quirks.context_window or None
    if not mode.mode or (mode.mode == "native" and window is None):
        # A large model with native tools gets what the client sent.
        return _ChosenTools(endpoint, tools, mode)
    offer = choose_offer(tools, limit_for(window, native=mode.mode == "native"), window=window)
    if not len(offer.deferred) and not offer.is_compact:
        return _ChosenTools(endpoint, tools, mode)
    finder = search_tool(tools, offer.deferred) if len(offer.deferred) else None
    added = [finder] if finder is not None else []
    shown, every = Toolset([*offer.shown, *added]), Toolset([*tools, *added])
    mode = choose_tool_mode(endpoint, every, backend.tool_mode, trust=backend.trust, shown=shown)
    return _ChosenTools(endpoint, tools, mode, offer.why, finder)


def count_least(request: Request) -> int:
    """Return the tokens that a request has at least."""
    texts = (part for message in request.messages for part in message.parts)
    size = sum(_measure(part) for part in texts) + sum(len(tool.description) for tool in request.tools)
    return size // MOST_CHARACTERS_PER_TOKEN


def _measure(part: Part) -> int:
    if isinstance(part, Text | Thinking):
        return len(part.text)
    if isinstance(part, ToolResult):
        content = part.content
        return len(content) if isinstance(content, str) else sum(_measure(each) for each in content)
    return 0


class _Forwarder:
    """Passes on a reply to a request without tools."""

    def __init__(self) -> None:
        self._verdict: dict[str, Any] = {}
        self._calls: list[Event] = []
        self._has_refused = False

    def feed(self, event: Event, /) -> list[Event]:
        if isinstance(event, ReplyStarted):
            return []
        if isinstance(event, UsageReported):
            self._verdict["usage"] = event.usage
        elif isinstance(event, ReplyFailed):
            self._verdict["failure"] = event.failure
        elif isinstance(event, ReplyEnded):
            self._verdict |= {"stop": event.stop, "extra": event.extra}
        elif isinstance(event, CallEnded):
            self._calls.append(event)
        else:
            if type(event) is RefusalDelta:
                self._has_refused = True
            return [event]
        return []

    def translate(self, events: Sequence[Event]) -> tuple[list[Event], Verdict]:
        return [passed for event in events for passed in self.feed(event)], self.close()

    def close(self) -> Verdict:
        if self._has_refused and self._verdict.get("stop") == "end":
            # Other wires have no field for a refusal, but a reason to stop.
            self._verdict["stop"] = "refusal"
        return Verdict(self._calls, [], Extraction(), **self._verdict)
