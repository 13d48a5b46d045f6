"""Inputs of the machine as journal records, and the past of a run read from them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.agent.config import RunConfig
from dragoman.agent.protocol import Approved, Compacted, Denied, Input, Replied, Reviewed, ToolAnswered
from dragoman.journal.journal import Record
from dragoman.policy import Decision
from dragoman.types import Message, Tool, ToolCall, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# Inputs of the machine as they stand in the journal, and a run brought back from them.

_MOST_SHOWN = 2000


class Header(Struct, frozen=True):
    """What a run was begun with, as far as it is not known from the agent itself.

    A run that continues a session stores what it adds. The conversation before it is `before`, a slice [start, stop)
    of the messages at the end of the parent run, between `lead` and `messages`: a journal grows linearly with its runs.
    """

    seed: str
    messages: list[Message]
    model: str = ""
    tools: list[str] = field(default_factory=list)
    task: str = ""
    version: int = 2
    mode: str = ""
    """How the tools were offered at first; the agent may have learned otherwise since."""
    options: dict[str, Any] = field(default_factory=dict)
    lead: list[Message] = field(default_factory=list)
    before: tuple[int, int] | None = None
    """None: `messages` is the whole conversation, as in the first format and after a run that has no end."""

    def start(self, parent: Sequence[Message]) -> list[Message]:
        """The conversation that the run was begun with; `parent` is the one at the end of the parent run."""
        if self.before is None:
            return self.messages
        return [*self.lead, *parent[slice(*self.before)], *self.messages]


class Started(Struct, frozen=True):
    """A call was about to run. `request` is the approval that it used up, where there had to be one."""

    name: str
    arguments: dict[str, Any]
    at: float = 0.0
    request: str = ""


class Ended(Struct, frozen=True):
    """How the run ended, and what was said: the first `kept` messages of its start, then `messages`."""

    kind: str
    category: str
    reason: str
    text: str
    messages: list[Message]
    turns: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    cost: float | None = None
    kept: int = 0


def refer(conversation: list[Message], before: list[Message]) -> tuple[list[Message], tuple[int, int]] | None:
    """The lead and the slice of `before` that `conversation` begins with; None where it is not found there."""
    lead: list[Message] = []
    first = 0
    if conversation and before and conversation[0] != before[0] and conversation[0].role == "system":
        # The system prompt of the agent is in front; an older one gave way to it.
        lead = conversation[:1]
        first = 1 if before[0].role == "system" else 0
    length = len(before) - first
    if not before or conversation[len(lead) : len(lead) + length] != before[first:]:
        return None
    return lead, (first, len(before))


def count_common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """How many messages both begin with."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _shown(value: Any) -> Any:
    """What JSON cannot hold (the data of a tool, for its caller) is kept as words."""
    try:
        return repr(value)[:_MOST_SHOWN]
    except Exception:  # The words of a class of the developer's may fail as well.
        return f"<{type(value).__name__}>"


_encoder = msgspec.json.Encoder(enc_hook=_shown)
_inputs: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Input)


def encode(value: Any) -> bytes:
    """A record's body."""
    try:
        return _encoder.encode(value)
    except (UnicodeError, OverflowError, ValueError, TypeError, RecursionError):
        pass
    try:
        return _encode_slowly(value)
    except (ValueError, TypeError, RecursionError):
        # Only the data of a tool can hold itself, or keys that are no words.
        return _encode_slowly(_with_words(value))


def _encode_slowly(value: Any) -> bytes:
    """Half a character, or a number of more than 64 bits: rare, and this encoder writes both."""
    plain = msgspec.to_builtins(value, enc_hook=_shown)
    return json.dumps(plain, default=_shown).encode()


def _with_words(value: Any) -> Any:
    """The same, with words in the place of the data of tools."""
    if isinstance(value, ToolAnswered):
        return replace(value, result=_worded(value.result))
    if isinstance(value, Ended | Header | Compacted):
        messages = [replace(message, parts=list(map(_worded, message.parts))) for message in value.messages]
        return replace(value, messages=messages)
    return value


def _worded(part: Any) -> Any:
    return replace(part, data=_shown(part.data)) if isinstance(part, ToolResult) and part.data is not None else part


def decode(body: bytes, kind: Any = Input) -> Any:
    """What a record's body holds: an input, or whatever else is written in one."""
    try:
        return _inputs.decode(body) if kind is Input else msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeError):
        # Written by the other encoder; strictness is not needed for what we wrote ourselves.
        return msgspec.convert(json.loads(body), kind)  # noqa: TID251


def kind_of(told: Input) -> tuple[Any, str]:
    """Under which kind an input is recorded, and which call it is about."""
    if isinstance(told, Replied):
        return "reply", ""
    if isinstance(told, Approved):
        return "approved", told.call_id
    if isinstance(told, Denied):
        return "denied", told.call_id
    if isinstance(told, ToolAnswered):
        # A call whose arguments could not be converted, or whose time was over, was never started: it cannot finish.
        return ("finished" if told.ran and not told.is_mistake else "input"), told.call_id
    # Only a call that was answered by it is named: one that was merely looked at is still open.
    return "input", told.call_id if isinstance(told, Reviewed) and told.verdict != "go" else ""


def canonical(value: Any) -> bytes:
    """A value as JSON that is the same whenever the value is: keys in order, 1 and true and "1" kept apart."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (UnicodeError, OverflowError, ValueError, TypeError, RecursionError):
        # Half a character, a number of more than 64 bits, or something that is no JSON at all.
        plain = msgspec.to_builtins(value, enc_hook=repr)
        return json.dumps(plain, sort_keys=True, default=repr).encode()


# --------------------------------------------------------------------------------------------------------------------
# What became of the calls of a run that is brought back, as its records tell it. Pure.
#
# The rules may be others by now: somebody resumes with another mode, or kept a rule meanwhile. What happened under
# the old ones has happened: a call that was denied is not run after all, and one that has run is not run twice.

_TELLING = {"approved": "ask", "denied": "ask", "finished": "allow", "input": "allow"}
"""What was decided on a call, by the first record about it that stands behind the decision."""
_WAS_DENIED = "it was denied when the run came to it, before it was resumed"


class Past:
    """The records of a run, and how far they have been told again."""

    def __init__(self, records: Sequence[Record], config: RunConfig) -> None:
        self._records = records
        self._config = config
        self._place = 0
        self._calls: list[ToolCall] = []

    def reach(self, record: Record, told: Input) -> None:
        """This one is told next."""
        self._place = record.number
        if isinstance(told, Replied):
            self._calls = list(told.found.calls)

    def correct(self, now: Decision, call: ToolCall, tool: Tool) -> Decision:
        """What was decided on a call then, where it is known; else what is decided `now`."""
        behind = self._find_behind(call)
        seen: set[str] = set()
        for number in range(self._place + 1, len(self._records)):
            record = self._records[number]
            if record.kind == "reply" or record.call_id in behind:
                is_denied = now.verdict == "deny" or (now.verdict == "ask" and not self._config.has_approver)
                return now if is_denied else Decision("deny", _WAS_DENIED, "the journal", "replayed")
            if record.call_id == call.id:
                seen.add(record.kind)
                if record.kind in _TELLING:
                    return replace(now, verdict=_TELLING[record.kind])
        if "started" in seen and not (tool.repeatable or tool.read_only):
            # It is not run again: the model is told that its outcome is unknown.
            return replace(now, verdict="allow")
        # An answer that waits is read first, also where no question would be asked any more: it may be a denial.
        return replace(now, verdict="ask") if "answered" in seen and now.verdict == "allow" else now

    def _find_behind(self, call: ToolCall) -> set[str]:
        """The calls that cannot have begun before this one was settled; safe ones run beside one another."""
        ids = [each.id for each in self._calls]
        if call.id not in ids:
            return set()
        place = ids.index(call.id)
        while place < len(ids) and self._is_safe(self._calls[place]):
            place += 1
        return set(ids[max(place, ids.index(call.id) + 1) :])

    def _is_safe(self, call: ToolCall) -> bool:
        tool = self._config.tools.find(call.name)
        return tool is not None and tool.parallel_safe
