"""Build the requests of a run, and adapt when the endpoint rejects tools or needs another wire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from dragoman.agent.config import RunConfig, SeededNonces
from dragoman.agent.records import canonical
from dragoman.agent.replies import judge_failure, learn_from, rejects_tools
from dragoman.extraction.tool_mode import (
    ComposedRequest,
    Mode,
    ToolMode,
    choose_tool_mode,
    compose,
    is_written_as_text,
)
from dragoman.providers import Endpoint, Fact
from dragoman.toolset import Toolset
from dragoman.types import Failure, InvalidCall, Message, Text, Tool, ToolCall, ToolModeName, ToolResult
from dragoman.wire.options import read_choice

# --------------------------------------------------------------------------------------------------------------------
# What strangers wrote before anything was said: the definitions of tools that come from servers.

_FOREIGN = "mcp:"


def untrusted_tool_texts(tools: Iterable[Tool]) -> list[Message]:
    """Definitions of strangers as content of the conversation, so that a call that stands in one is an echo of it."""
    return [
        Message("tool", [ToolResult("", f"the definition of {tool.name}", text)])
        for tool in tools
        if str(tool.metadata.get("origin", "")).startswith(_FOREIGN)
        for text in (tool.description, canonical(tool.parameters).decode("utf-8", "replace"))
    ]


# --------------------------------------------------------------------------------------------------------------------
# How the model is asked: at which endpoint, in which manner, with which options. An endpoint may teach otherwise.

_ESCALATION = 4
"""How much more a model may write that spent all its tokens on thinking."""
_SPARE_BOUNDARIES = 4


class LearnedFact(Struct, frozen=True):
    """What a failure taught. One that is not sure is remembered when a request has gone through with it."""

    fact: Fact
    endpoint: Endpoint
    is_sure: bool
    words: str


class RequestBuilder:
    """Writes the requests of one run, and keeps what was learned of whoever is asked."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._options = dict(config.options)
        self._fallbacks = list(config.fallbacks)
        self._nonces = SeededNonces(config.seed)
        self._boundaries: tuple[str, ...] = ()
        self._taught: set[tuple[str, str, bool | None]] = set()
        self._unsure: LearnedFact | None = None
        self._has_escalated = False
        self._chosen_mode = config.chosen_mode or self._settle(config.endpoint, config.tool_mode)

    @property
    def endpoint(self) -> Endpoint:
        """Who is asked."""
        return self._chosen_mode.endpoint

    @property
    def mode(self) -> Mode:
        """How the tools are offered."""
        return self._chosen_mode.mode

    @property
    def max_tokens(self) -> int | None:
        return self._options.get("max_tokens")

    def write(
        self, messages: Sequence[Message], nudge: str | None = None, *, offers_tools: bool = True
    ) -> ComposedRequest:
        """The next request. `nudge` is a last word that is not part of the conversation."""
        chosen_mode = self._chosen_mode
        if not offers_tools:
            chosen_mode = choose_tool_mode(self.endpoint, Toolset(()), trust=self._config.trust)
        conversation = [*messages, *([Message("user", [Text(nudge)])] if nudge is not None else [])]
        nonce = self._nonces.next() if self._config.nonce and chosen_mode.mode == "text" else None
        boundaries = self._draw_boundaries(conversation, chosen_mode)
        composed = compose(conversation, chosen_mode, self._options, nonce=nonce, boundaries=boundaries)
        self._boundaries = composed.boundaries or self._boundaries
        return composed

    def _draw_boundaries(self, messages: Sequence[Message], chosen_mode: ToolMode) -> tuple[str, ...]:
        """One random word for each turn with results; the old ones stay, so that prompts keep their beginning."""
        if not is_written_as_text(messages, chosen_mode, self._options):
            return ()
        # Results stand in a message, or are owed for it.
        needed = sum(
            message.role == "tool" or any(isinstance(part, ToolCall | InvalidCall) for part in message.parts)
            for message in messages
        )
        missing = needed + _SPARE_BOUNDARIES - len(self._boundaries)
        fresh = tuple(self._nonces.next() for _ in range(missing))
        return self._boundaries + fresh

    def _settle(self, endpoint: Endpoint, mode: ToolModeName) -> ToolMode:
        config = self._config
        return choose_tool_mode(endpoint, config.tools, mode, trust=config.trust, aliases=config.aliases)

    # ---- what changes ------------------------------------------------------------------------------------------------

    def relax_choice(self) -> None:
        """A call was demanded and has run: from here on the model may answer."""
        choice = read_choice(self._options)
        if choice is not None and choice.mode == "required":
            self._options["tool_choice"] = "auto"

    def escalate(self, spent: int) -> int | None:
        """Let the model write more, once; how much, or None where that cannot be."""
        limit = self.max_tokens or spent
        if self._has_escalated or not limit:
            return None
        self._has_escalated = True
        self._options["max_tokens"] = int(limit) * _ESCALATION
        return int(limit) * _ESCALATION

    def replace_model(self, failure: Failure) -> str | None:
        """Go on with the next model, if there is one and the failure is not the request's own fault."""
        if judge_failure(failure).category != "retryable" or not self._fallbacks:
            return None
        before = self.endpoint.model
        self._chosen_mode = self._settle(self._fallbacks.pop(0), self._config.tool_mode)
        self._unsure = None
        return f"{before} failed ({failure.message or failure.kind}); {self.endpoint.model} goes on"

    def relearn(self, failure: Failure) -> LearnedFact | None:
        """Speak otherwise to an endpoint that rejects native tools or wants another wire; None if that is not it.

        A lesson that was learned before (by another run, while this one lay in a journal) counts as well, once.
        """
        config, before = self._config, self.endpoint
        fact = learn_from(failure)
        is_sure = fact is not None
        if fact is None and self.mode == "native" and rejects_tools(failure):
            fact = Fact(native_tool_calls=False, why=failure.message[:200])
        if fact is None or not self.mode or config.tool_mode == "native" or self._unsure is not None:
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
        words = f"the endpoint rejected the tools ({fact.why or failure.message}); they are offered {how} from here on"
        learned = LearnedFact(fact, before, is_sure, words)
        self._unsure = None if is_sure else learned
        return learned

    def confirm(self) -> LearnedFact | None:
        """A request went through: what was not sure before is worth remembering now."""
        fact, self._unsure = self._unsure, None
        return fact
