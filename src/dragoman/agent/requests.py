"""Build the requests of a run, and adapt when the endpoint rejects tools or needs another wire."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from dragoman.agent.approvals import canonical
from dragoman.agent.config import Lots, Setup
from dragoman.agent.replies import judge_failure, learn_from, rejects_tools
from dragoman.extraction.tool_mode import Composed, Manner, Mode, ToolMode, compose, is_written_as_text, settle_manner
from dragoman.providers import Endpoint, Fact
from dragoman.toolset import Toolset
from dragoman.types import Failure, InvalidCall, Message, Text, Tool, ToolCall, ToolResult
from dragoman.wire.codec import read_choice

# --------------------------------------------------------------------------------------------------------------------
# What strangers wrote before anything was said: the definitions of tools that come from servers.

_FOREIGN = "mcp:"


def read_strangers(tools: Iterable[Tool]) -> list[Message]:
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


class Lesson(Struct, frozen=True):
    """What a failure taught. One that is not sure is remembered when a request has gone through with it."""

    fact: Fact
    endpoint: Endpoint
    is_sure: bool
    words: str


class Asking:
    """Writes the requests of one run, and keeps what was learned of whoever is asked."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._options = dict(setup.options)
        self._fallbacks = list(setup.fallbacks)
        self._lots = Lots(setup.seed)
        self._boundaries: tuple[str, ...] = ()
        self._taught: set[tuple[str, str, bool | None]] = set()
        self._unsure: Lesson | None = None
        self._has_escalated = False
        self._manner = setup.manner or self._settle(setup.endpoint, setup.tool_mode)

    @property
    def endpoint(self) -> Endpoint:
        """Who is asked."""
        return self._manner.endpoint

    @property
    def mode(self) -> Mode:
        """How the tools are offered."""
        return self._manner.mode

    @property
    def max_tokens(self) -> int | None:
        return self._options.get("max_tokens")

    def write(self, messages: Sequence[Message], nudge: str | None = None, *, offers_tools: bool = True) -> Composed:
        """The next request. `nudge` is a last word that is not part of the conversation."""
        manner = self._manner
        if not offers_tools:
            manner = settle_manner(self.endpoint, Toolset(()), trust=self._setup.trust)
        conversation = [*messages, *([Message("user", [Text(nudge)])] if nudge is not None else [])]
        nonce = self._lots.draw() if self._setup.nonce and manner.mode == "text" else None
        boundaries = self._draw_boundaries(conversation, manner)
        composed = compose(conversation, manner, self._options, nonce=nonce, boundaries=boundaries)
        self._boundaries = composed.boundaries or self._boundaries
        return composed

    def _draw_boundaries(self, messages: Sequence[Message], manner: Manner) -> tuple[str, ...]:
        """One random word for each turn with results; the old ones stay, so that prompts keep their beginning."""
        if not is_written_as_text(messages, manner, self._options):
            return ()
        needed = sum(map(_may_have_results, messages)) + _SPARE_BOUNDARIES
        fresh = tuple(self._lots.draw() for _ in range(max(0, needed - len(self._boundaries))))
        return self._boundaries + fresh

    def _settle(self, endpoint: Endpoint, mode: ToolMode) -> Manner:
        setup = self._setup
        return settle_manner(endpoint, setup.tools, mode, trust=setup.trust, aliases=setup.aliases)

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
        self._manner = self._settle(self._fallbacks.pop(0), self._setup.tool_mode)
        self._unsure = None
        return f"{before} failed ({failure.message or failure.kind}); {self.endpoint.model} goes on"

    def relearn(self, failure: Failure) -> Lesson | None:
        """Speak otherwise to an endpoint that rejects native tools or wants another wire; None if that is not it.

        A lesson that was learned before (by another run, while this one lay in a journal) counts as well, once.
        """
        setup, before = self._setup, self.endpoint
        fact = learn_from(failure)
        is_sure = fact is not None
        if fact is None and self.mode == "native" and rejects_tools(failure):
            fact = Fact(native_tool_calls=False, why=failure.message[:200])
        if fact is None or not self.mode or setup.tool_mode == "native" or self._unsure is not None:
            return None
        mark = (before.base_url, fact.wire, fact.native_tool_calls)
        if mark in self._taught or (setup.tool_mode == "text" and fact.native_tool_calls is False):
            return None
        endpoint = setup.resettle(before, fact) if setup.resettle is not None else before
        if fact.wire and endpoint.wire != fact.wire:
            return None
        self._taught.add(mark)
        mode: ToolMode = "text" if fact.native_tool_calls is False else setup.tool_mode
        self._manner = self._settle(endpoint, mode)
        how = f"on the wire {endpoint.wire}" if fact.wire else "as text"
        words = f"the endpoint rejected the tools ({fact.why or failure.message}); they are offered {how} from here on"
        lesson = Lesson(fact, before, is_sure, words)
        self._unsure = None if is_sure else lesson
        return lesson

    def confirm(self) -> Lesson | None:
        """A request went through: what was not sure before is worth remembering now."""
        lesson, self._unsure = self._unsure, None
        return lesson


def _may_have_results(message: Message) -> bool:
    """Whether results stand in a message, or are owed for it."""
    return message.role == "tool" or any(isinstance(part, ToolCall | InvalidCall) for part in message.parts)
