"""Build the requests of a run, and adapt when the endpoint rejects tools or needs another wire."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.config import RunConfig, SeededNonces
from dragoman.agent.replies import judge_failure, rejects_tools
from dragoman.extraction import Extraction
from dragoman.extraction.judge import RECOVERED
from dragoman.extraction.leaks import settle_confirmed
from dragoman.extraction.offers import choose_offer, compact_tool, found_tools, search_tool
from dragoman.extraction.suspects import NOTICE
from dragoman.extraction.tool_mode import (
    COMPACT,
    ComposedRequest,
    Mode,
    ToolMode,
    choose_tool_mode,
    compose,
    is_written_as_text,
    limit_for,
    rechoose,
)
from dragoman.providers import Endpoint, Fact, learn_from_usage
from dragoman.providers.facts import learn_from_failure
from dragoman.toolset import Toolset
from dragoman.types import Failure, InvalidCall, Message, Reply, Request, Text, Tool, ToolCall, ToolModeName
from dragoman.wire.options import Choice, read_choice

# --------------------------------------------------------------------------------------------------------------------
# Requests of a run: endpoint, tool mode and options. Failures of the endpoint can change all three.

_ESCALATION = 4
"""The factor for `max_tokens` after a model used all its tokens for reasoning."""
_SPARE_BOUNDARIES = 4


def _may_leak(message: Message) -> bool:
    """Whether a message is a notice about a leaked call, or has words next to a call."""
    parts = message.parts
    if message.role == "user":
        return bool(parts) and isinstance(parts[0], Text) and parts[0].text.startswith(NOTICE)
    return len(parts) > 1 and {Text, ToolCall} <= set(map(type, parts))


class LearnedFact(Struct, frozen=True):
    """A fact that a failure revealed. An unsure one is stored only after a request succeeded with it."""

    fact: Fact
    endpoint: Endpoint
    is_sure: bool
    words: str


class RequestBuilder:
    """Builds the requests of one run, and keeps what it learns about the endpoint."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._options = dict(config.options)
        self._fallbacks = list(config.fallbacks)
        self._nonces = SeededNonces(config.seed)
        self._boundaries: tuple[str, ...] = ()
        self._taught: set[tuple[str, str, bool | None]] = set()
        self._unsure: LearnedFact | None = None
        self._has_native_calls = False
        self._text_replies = 0
        self._has_escalated = False
        self._retries: ToolMode | None = None
        self._noted: set[tuple[str, str]] = set()
        self._news: list[tuple[str, str]] = []
        self._plain = Toolset([tool for tool in config.tools if tool is not config.search])
        self._found: dict[str, Tool] = {}
        self._defers = self._is_compact = False
        self._chosen_mode = config.chosen_mode or self._settle(config.endpoint, config.tool_mode)

    @property
    def endpoint(self) -> Endpoint:
        """The current endpoint."""
        return self._chosen_mode.endpoint

    @property
    def mode(self) -> Mode:
        """The tool mode."""
        return self._chosen_mode.mode

    @property
    def described(self) -> Sequence[Tool]:
        """The tools that the requests describe, as far as they do not change."""
        return self._chosen_mode.described.tools

    @property
    def max_tokens(self) -> int | None:
        return self._options.get("max_tokens")

    def write(
        self, messages: Sequence[Message], nudge: str | None = None, *, offers_tools: bool = True
    ) -> ComposedRequest:
        """Build the next request. `nudge` is a last message that is not part of the conversation."""
        chosen_mode = self._load(messages, self._retries or self._chosen_mode)
        if not offers_tools:
            chosen_mode = choose_tool_mode(self.endpoint, Toolset(()), trust=self._config.trust)
        conversation = [*self._clean(messages), *([Message("user", [Text(nudge)])] if nudge is not None else [])]
        nonce = self._nonces.next() if self._config.nonce and chosen_mode.mode == "text" else None
        boundaries = self._draw_boundaries(conversation, chosen_mode)
        composed = compose(conversation, chosen_mode, self._options, nonce=nonce, boundaries=boundaries)
        self._boundaries = composed.boundaries or self._boundaries
        for loss in composed.losses:
            if loss.rule == COMPACT:
                self.note("compact_prompt", loss.detail)
        return composed

    def _clean(self, messages: Sequence[Message]) -> list[Message]:
        """Return the conversation as the model receives it: it does not learn the form of calls that leaked."""
        if not self._config.text_calls or not any(map(_may_leak, messages)):
            return list(messages)
        clean = settle_confirmed(messages, self._config.tools, aliases=self._config.aliases)
        for rewrite in clean.rewrites:
            self.note("history_rewritten", str(rewrite))
        return clean.messages

    def note(self, kind: str, words: str) -> None:
        """Keep what changed a request, until the machine takes it. The same words count once."""
        if (kind, words) not in self._noted:
            self._noted.add((kind, words))
            self._news.append((kind, words))

    def take_news(self) -> list[tuple[str, str]]:
        """Return what changed the requests since the last call, as kinds and words."""
        news, self._news = self._news, []
        return news

    def _draw_boundaries(self, messages: Sequence[Message], chosen_mode: ToolMode) -> tuple[str, ...]:
        """Return one boundary for each turn with results. Old ones stay, so that a prompt cache still matches."""
        if not is_written_as_text(messages, chosen_mode, self._options):
            return ()
        # A message contains results, or calls that will get results.
        needed = sum(
            message.role == "tool" or any(isinstance(part, ToolCall | InvalidCall) for part in message.parts)
            for message in messages
        )
        missing = needed + _SPARE_BOUNDARIES - len(self._boundaries)
        fresh = tuple(self._nonces.next() for _ in range(missing))
        return self._boundaries + fresh

    def _settle(self, endpoint: Endpoint, mode: ToolModeName) -> ToolMode:
        config = self._config
        chosen = choose_tool_mode(
            endpoint,
            config.tools,
            mode,
            trust=config.trust,
            aliases=config.aliases,
            prompt=config.context.tool_prompt,
            text_calls=config.text_calls,
            shown=self._plain if config.search is not None else None,
        )
        shown = self._choose_shown(chosen)
        return chosen if shown is None else rechoose(replace(chosen, shown=shown), mode)

    def _choose_shown(self, chosen: ToolMode) -> Toolset | None:
        """Return the tools to describe, if that is not all of them, or if their definitions are to be short."""
        config, prompt, is_native = self._config, self._config.context.tool_prompt, chosen.mode == "native"
        if not chosen.mode or (config.search is None and not is_native):
            return None
        keep = {*(read_choice(self._options) or Choice()).names, *([config.answer.name] if config.answer else [])}
        # A model that only follows examples cannot search.
        may_search = config.search is not None and (prompt.defer is not None or not chosen.endpoint.profile.weak)
        limit = limit_for(config.window, native=is_native, asked=prompt.defer) if may_search else None
        offer = choose_offer(
            self._plain,
            limit,
            window=config.window,
            # In text mode the instructions are shortened, and not the definitions. Only the size counts here.
            compact=prompt.compact if is_native else True,
            keep=keep,
        )
        if offer.why and (is_native or len(offer.deferred)):
            self.note("tools_deferred" if len(offer.deferred) else "compact_definitions", offer.why)
        shown = list(offer.shown if is_native else (tool for tool in self._plain if tool.name in offer.shown.names))
        self._is_compact = offer.is_compact and is_native
        self._defers = bool(len(offer.deferred))
        if config.search is None and not self._is_compact:
            return None
        return Toolset([*shown, *([search_tool(self._plain, offer.deferred)] if self._defers else [])])

    def _load(self, messages: Sequence[Message], chosen: ToolMode) -> ToolMode:
        """Return the tool mode with the tools that the model has found so far. None of them is ever left out again."""
        if not self._defers or chosen.shown is None:
            return chosen
        for tool in found_tools(messages, self._plain):
            self._found.setdefault(tool.name, compact_tool(tool) if self._is_compact else tool)
        return replace(chosen, found=tuple(self._found[name] for name in self._found if not chosen.shows(name)))

    # ---- adaptation --------------------------------------------------------------------------------------------------

    def relax_choice(self) -> None:
        """The required call has run: from now on the model may answer."""
        choice = read_choice(self._options)
        if choice is not None and choice.mode == "required":
            self._options["tool_choice"] = "auto"

    def escalate(self, spent: int) -> int | None:
        """Raise `max_tokens` once. Return the new limit, or None if that is impossible."""
        limit = self.max_tokens or spent
        if self._has_escalated or not limit:
            return None
        self._has_escalated = True
        self._options["max_tokens"] = int(limit) * _ESCALATION
        return int(limit) * _ESCALATION

    def replace_model(self, failure: Failure) -> str | None:
        """Switch to the next fallback model, if there is one and the request itself is not the cause of the failure."""
        if judge_failure(failure).category != "retryable" or not self._fallbacks:
            return None
        before = self.endpoint.model
        self._chosen_mode = self._settle(self._fallbacks.pop(0), self._config.tool_mode)
        self._unsure = self._retries = None
        return f"{before} failed ({failure.message or failure.kind}); {self.endpoint.model} replaces it"

    def retry_otherwise(self, failure: Failure) -> str | None:
        """Repeat a request whose reply the endpoint could not read: once, and as text if that is allowed."""
        if self._retries is not None or not self.mode:
            return None
        may_change = self.mode == "native" and self._config.tool_mode == "auto" and self._config.text_calls
        self._retries = rechoose(self._chosen_mode, "text") if may_change else self._chosen_mode
        how = "with the tools as text" if may_change else "unchanged"
        return f"the endpoint could not read a call of the model ({failure.message[:200]}); it is asked again, {how}"

    def end_retry(self) -> None:
        """The repeated request succeeded: the next ones are as before."""
        self._retries = None

    def relearn(self, failure: Failure) -> LearnedFact | None:
        """Adapt to an endpoint that rejects native tools or needs another wire; None if that is not the cause.

        A fact that another run learned while this one waited in a journal also counts, once.
        """
        config, before = self._config, self.endpoint
        fact = learn_from_failure(failure)
        if fact is not None and fact.quirks:
            return self._adopt(fact)
        is_sure = fact is not None
        if fact is None and self.mode == "native" and rejects_tools(failure):
            fact = Fact(native_tool_calls=False, why=failure.message[:200])
        forces_native = config.tool_mode == "native" or not config.text_calls
        if fact is None or not self.mode or forces_native or self._unsure is not None:
            return None
        mark = (before.base_url, fact.wire, fact.native_tool_calls)
        if mark in self._taught or (config.tool_mode == "text" and fact.native_tool_calls is False):
            return None
        endpoint = config.resettle(before, fact) if config.resettle is not None else before
        if fact.wire and endpoint.wire != fact.wire:
            return None
        self._taught.add(mark)
        mode: ToolModeName = "text" if fact.native_tool_calls is False else config.tool_mode
        self._chosen_mode = self._settle(endpoint, mode)
        how = f"on the wire {endpoint.wire}" if fact.wire else "as text"
        words = f"the endpoint rejected the tools ({fact.why or failure.message}); they are now offered {how}"
        learned = LearnedFact(fact, before, is_sure, words)
        self._unsure = None if is_sure else learned
        return learned

    def _adopt(self, fact: Fact) -> LearnedFact | None:
        """Apply flags of an endpoint that a failure revealed, such as a missing system role."""
        before = self.endpoint
        endpoint = self._config.resettle(before, fact) if self._config.resettle is not None else before
        if endpoint.quirks == before.quirks:
            return None
        # The mode in use stays: it may have been learned in this run.
        self._chosen_mode = rechoose(self._chosen_mode, self.mode or "auto", endpoint)
        flags = ", ".join(f"{name} = {value}" for name, value in fact.quirks.items())
        return LearnedFact(fact, before, True, f"the endpoint rejected the messages ({fact.why}); now {flags}")

    def doubt(self, reply: Reply, found: Extraction, request: Request) -> LearnedFact | None:
        """Adapt to a server of one's own that accepts native tools, but does not pass them on; None without evidence.

        The evidence: the reported tokens cannot hold the definitions, or the calls of the model are in its text.
        """
        if self.mode != "native" or self._config.tool_mode != "auto" or not self.endpoint.is_own_server:
            return None
        if any(isinstance(part, ToolCall | InvalidCall) for part in reply.message.parts):
            self._has_native_calls = True
        if self._has_native_calls or not request.tools or any(RECOVERED in call.repairs for call in found.calls):
            # A server that could not read a call has passed the tools on.
            return None
        fact = self._learn_from_calls(found)
        if fact is None and not self._text_replies:
            # After a call in text, the tokens say nothing new, and a reply without a call may be the answer.
            fact = learn_from_usage(request.messages, request.tools, reply.usage.input_tokens)
        if fact is None:
            return None
        before, when = self.endpoint, "from the next run on"
        if self._text_replies != 1:
            endpoint = self._config.resettle(before, fact) if self._config.resettle is not None else before
            self._chosen_mode = self._settle(endpoint, "text")
            when = "now"
        words = f"the endpoint ignored the tools ({fact.why}); {when} they are offered as text"
        return LearnedFact(fact, before, True, words)

    def _learn_from_calls(self, found: Extraction) -> Fact | None:
        """The fact that calls come as text. The first such reply changes only later runs: it was read, and to write the
        conversation in another way costs the prompt cache."""
        if not any(call.provenance is not None and call.provenance.channel == "text" for call in found.calls):
            return None
        self._text_replies += 1
        return Fact(native_tool_calls=False, why="the model wrote its calls as text")

    def confirm(self) -> LearnedFact | None:
        """A request succeeded: return the unsure fact, which is now worth storing."""
        fact, self._unsure = self._unsure, None
        return fact
