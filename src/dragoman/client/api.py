"""`dragoman.ask` and `dragoman.stream`: one request to a model, in one line; `aask` and `astream` are for async code.

They raise a typed error if the reply failed. Tools are offered in the tool mode of the endpoint, and calls are read
from fields or from the text; nothing is run. For several requests, use an Agent or a Client.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Unpack

from msgspec import Struct, structs

from dragoman import providers
from dragoman.client import portal
from dragoman.client.client import Client, shared_transport
from dragoman.client.facts import shared_facts
from dragoman.client.own_models import Model, as_endpoint
from dragoman.client.retry import NOTICES, ModelReplaced, RequestPrepared, RequestRetried, Retries
from dragoman.client.transport import Transport
from dragoman.errors import ChoiceIgnored
from dragoman.events import CallBroken, CallEnded, CallRefused, Event, ReplyEnded, ReplyFailed, UsageReported
from dragoman.extraction import Extractor
from dragoman.extraction.responses import read_messages
from dragoman.extraction.tool_mode import (
    ComposedRequest,
    answer_parts,
    choose_tool_mode,
    compose,
    find_breach,
    judge_ends,
    open_reader,
)
from dragoman.keywords import known_keywords
from dragoman.logs import get_log
from dragoman.providers import Facts
from dragoman.providers.attachments import check_media
from dragoman.providers.facts import learn_from_failure
from dragoman.replies import ReplyFolder
from dragoman.toolset import Toolset
from dragoman.types import Failure, InvalidCall, Message, Reply, RequestOptions, Text, ToolCall, ToolModeName
from dragoman.wire.failures import as_error

Prompt = str | Message | Iterable[Message | Mapping[str, Any]]
_WORDS_OF_CHANCE = 8
_log = get_log("client")


class _Question(Struct):
    client: Client
    composed: ComposedRequest
    messages: list[Message]
    timeout: float | None
    facts: Facts | None = None

    @property
    def deadline(self) -> float | None:
        return None if self.timeout is None else time.monotonic() + self.timeout

    def open_reader(self) -> Extractor | None:
        """Return the extractor for calls; None without tools, because the reply then needs no extraction."""
        return open_reader(self.composed, self.messages) if len(self.composed.chosen_mode.tools) else None


@known_keywords(extra=RequestOptions.__annotations__)
async def aask(
    model: Model,
    prompt: Prompt,
    *,
    tools: Iterable[object] | None = None,
    system: str | None = None,
    key: str | None = None,
    base_url: str | None = None,
    transport: Transport | None = None,
    timeout: float | None = None,
    retries: Retries | None = None,
    tool_mode: ToolModeName = "auto",
    text_calls: bool = True,
    **options: Unpack[RequestOptions],
) -> Reply:
    """Send a request and return the reply. `prompt` is a text or messages.

    `model` has the form `provider:model`, or is an Endpoint or a model of your own, such as a `ScriptedModel`.

    With `text_calls=False`, only native calls count. Further arguments are options of the request (temperature,
    max_tokens, tool_choice, ...). Fields of one wire are under its name: `anthropic={"service_tier": "auto"}`.
    """
    given = (model, prompt, tools, system, key, base_url, transport, timeout, retries)
    question = _prepare(*given, tool_mode, text_calls, options)
    reply, reader = await _receive(question)
    if reply.failure is not None and tool_mode == "auto" and _rejects_tools(question, reply.failure):
        question = _prepare(*given, "text", text_calls, options)
        reply, reader = await _receive(question)
    if reply.failure is not None:
        raise as_error(reply.failure)
    settled = reply if reader is None else _settle(reply, reader)
    _require_choice(question.composed, _names_of(settled))
    return settled


async def _receive(question: _Question) -> tuple[Reply, Extractor | None]:
    reader = question.open_reader()
    folding = ReplyFolder()
    async for event in question.client.stream(question.composed.request, whole=True, deadline=question.deadline):
        if isinstance(event, NOTICES):
            _log_losses(event)
            continue
        if reader is None:
            folding.add(event)
        else:
            reader.feed(event)
    if reader is not None:
        reader.close()
    return (folding.reply() if reader is None else reader.reply), reader


def _log_losses(event: RequestPrepared | RequestRetried | ModelReplaced) -> None:
    """Log what the wire could not express: a reply has no field for it."""
    if isinstance(event, RequestPrepared):
        for loss in event.losses:
            _log.info("%s: the request was changed: %s", event.model, loss)


def _rejects_tools(question: _Question, failure: Failure) -> bool:
    """Whether the endpoint rejected the native tools, and says so. The fact is kept, and the tools are sent as text."""
    if question.composed.chosen_mode.mode != "native":
        return False
    fact = learn_from_failure(failure)
    if fact is None or fact.native_tool_calls is not False:
        return False
    endpoint = question.client.endpoint
    if question.facts is not None:
        question.facts.put(endpoint.base_url, endpoint.model, fact)
    return True


@known_keywords(extra=RequestOptions.__annotations__)
def astream(
    model: Model,
    prompt: Prompt,
    *,
    tools: Iterable[object] | None = None,
    system: str | None = None,
    key: str | None = None,
    base_url: str | None = None,
    transport: Transport | None = None,
    timeout: float | None = None,
    retries: Retries | None = None,
    tool_mode: ToolModeName = "auto",
    text_calls: bool = True,
    **options: Unpack[RequestOptions],
) -> AsyncIterator[Event]:
    """Yield the events of a reply as they arrive; the arguments are those of `ask`."""
    given = (model, prompt, tools, system, key, base_url, transport, timeout, retries)
    again = (lambda: _prepare(*given, "text", text_calls, options)) if tool_mode == "auto" else None
    return _listen(_prepare(*given, tool_mode, text_calls, options), again)


ask = known_keywords(extra=RequestOptions.__annotations__)(
    portal.blocking(
        aask,
        "ask",
        """Send a request and wait for the reply: `ask("ollama:qwen3", "Why is the sky blue?").text`.

    The arguments are those of `aask`. It also works inside a running event loop, as in a notebook.
    """,
    )
)
_blocking_stream = portal.blocking_iterator(
    astream,
    "stream",
    """Yield the events of a reply as they arrive; the arguments are those of `aask`.

    The connection is closed when the caller leaves the loop.
    """,
)
stream = known_keywords(extra=RequestOptions.__annotations__)(_blocking_stream)


_HELD_BACK = (CallEnded, CallBroken, CallRefused, UsageReported, ReplyEnded)


async def _listen(question: _Question, again: Callable[[], _Question] | None = None) -> AsyncGenerator[Event]:
    """Yield the events of a reply: text as it arrives, calls at the end, when it is known which of them count.

    `again` returns the question with the tools as text, for an endpoint that rejects them.
    """
    reader = question.open_reader()
    folding = ReplyFolder()
    ends: list[Event] = []
    async with aclosing(question.client.stream(question.composed.request, deadline=question.deadline)) as events:
        async for event in events:
            if isinstance(event, NOTICES):
                _log_losses(event)
                continue
            if isinstance(event, ReplyFailed) and (reader is None or not reader.recovers(event.failure)):
                if again is not None and _rejects_tools(question, event.failure):
                    async with aclosing(_listen(again())) as others:
                        async for each in others:
                            yield each
                    return
                raise as_error(event.failure)
            for each in [event] if reader is None else reader.feed(event):
                if isinstance(each, _HELD_BACK):
                    ends.append(each)
                else:
                    folding.add(each)
                    yield each
    for each in ends if reader is None else _judge(reader, ends, folding):
        folding.add(each)
        yield each
    _require_choice(question.composed, _names_of(folding.reply()))


def _judge(reader: Extractor, ends: list[Event], folding: ReplyFolder) -> Iterator[Event]:
    """Yield the remaining events, when it is known which calls count.

    The caller adds each event to `folding` before it asks for the next one.
    """
    for each in reader.close():
        if isinstance(each, _HELD_BACK):
            ends.append(each)
        else:
            yield each
    settled = _settle(reader.reply, reader)
    parts = settled.message.parts
    yield from judge_ends(ends, reader.extraction, parts)
    for each in ends:
        if isinstance(each, UsageReported):
            yield each
        elif isinstance(each, ReplyEnded):
            same = folding.reply().message.parts == parts
            yield ReplyEnded(settled.stop, settled.extra, None if same else parts)


def _names_of(reply: Reply) -> list[str]:
    return [part.name for part in reply.message.parts if isinstance(part, ToolCall | InvalidCall)]


def _prepare(
    model: Model,
    prompt: Prompt,
    tools: Iterable[object] | None,
    system: str | None,
    key: str | None,
    base_url: str | None,
    transport: Transport | None,
    timeout: float | None,
    retries: Retries | None,
    tool_mode: ToolModeName,
    text_calls: bool,
    options: Mapping[str, Any],
) -> _Question:
    found, own = as_endpoint(model)
    transport = transport or own
    facts = shared_facts(os.environ) if transport is None and isinstance(found, str) else None
    endpoint = providers.resolve(found, base_url=base_url or "", facts=facts) if isinstance(found, str) else found
    chosen_mode = choose_tool_mode(endpoint, Toolset.of(tools) or Toolset(()), tool_mode, text_calls=text_calls)
    messages = _read_prompt(prompt, system)
    check_media(messages, endpoint)
    boundaries = [secrets.token_hex(4) for _ in range(_WORDS_OF_CHANCE)] if chosen_mode.mode else []
    composed = compose(messages, chosen_mode, options, boundaries=boundaries)
    endpoint = composed.chosen_mode.endpoint
    client = Client(endpoint, transport=transport or shared_transport(endpoint), key=key, retries=retries)
    return _Question(client, composed, messages, timeout, facts)


def _read_prompt(prompt: Prompt, system: str | None) -> list[Message]:
    head = [Message("system", [Text(system)])] if system else []
    if isinstance(prompt, str):
        return [*head, Message("user", [Text(prompt)])]
    return [*head, *([prompt] if isinstance(prompt, Message) else read_messages(prompt))]


def _require_choice(composed: ComposedRequest, called: list[str]) -> None:
    """Raise ChoiceIgnored if the reply does not follow the tool choice."""
    breach = find_breach(composed, called)
    if breach:
        raise ChoiceIgnored(breach)


def _settle(reply: Reply, reader: Extractor) -> Reply:
    """Return the reply with the calls that count, native or from the text."""
    found = reader.extraction
    parts = answer_parts(reply.message.parts, found.text, [*found.calls, *found.invalid])
    stop = "tool_calls" if found.calls and reply.stop == "end" else reply.stop
    return structs.replace(reply, message=structs.replace(reply.message, parts=parts), stop=stop)
