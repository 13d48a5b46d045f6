"""Build the requests of a run, and adapt when the endpoint rejects tools or needs another wire."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from dragoman.agent.config import RunConfig, SeededNonces
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
from dragoman.types import Failure, InvalidCall, Message, Text, ToolCall, ToolModeName
from dragoman.wire.options import read_choice

# --------------------------------------------------------------------------------------------------------------------
# Requests of a run: endpoint, tool mode and options. Failures of the endpoint can change all three.

_ESCALATION = 4
"""The factor for `max_tokens` after a model used all its tokens for reasoning."""
_SPARE_BOUNDARIES = 4


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
        self._has_escalated = False
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
    def max_tokens(self) -> int | None:
        return self._options.get("max_tokens")

    def write(
        self, messages: Sequence[Message], nudge: str | None = None, *, offers_tools: bool = True
    ) -> ComposedRequest:
        """Build the next request. `nudge` is a last message that is not part of the conversation."""
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
        return choose_tool_mode(endpoint, config.tools, mode, trust=config.trust, aliases=config.aliases)

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
        self._unsure = None
        return f"{before} failed ({failure.message or failure.kind}); {self.endpoint.model} replaces it"

    def relearn(self, failure: Failure) -> LearnedFact | None:
        """Adapt to an endpoint that rejects native tools or needs another wire; None if that is not the cause.

        A fact that another run learned while this one waited in a journal also counts, once.
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
        words = f"the endpoint rejected the tools ({fact.why or failure.message}); they are now offered {how}"
        learned = LearnedFact(fact, before, is_sure, words)
        self._unsure = None if is_sure else learned
        return learned

    def confirm(self) -> LearnedFact | None:
        """A request succeeded: return the unsure fact, which is now worth storing."""
        fact, self._unsure = self._unsure, None
        return fact
