"""Journal records of the machine's inputs, and the decisions that a replay reads from them. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.agent.config import RunConfig
from dragoman.agent.protocol import Approved, Compacted, Denied, Input, Replied, Reviewed, ToolAnswered
from dragoman.journal.journal import Record
from dragoman.policy import Decision
from dragoman.secrets import HumanSink
from dragoman.types import Message, Tool, ToolCall, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# Encoding of the inputs, of the header and of the end of a run.

_MOST_SHOWN = 2000


class Header(Struct, frozen=True):
    """The start of a run: everything that the configuration of the agent does not contain.

    A run that continues a session stores only what it adds. The conversation before it is `before`, a slice [start,
    stop) of the messages at the end of the parent run, between `lead` and `messages`. So a journal grows linearly with
    its runs.
    """

    seed: str
    messages: list[Message]
    model: str = ""
    tools: list[str] = field(default_factory=list)
    task: str = ""
    version: int = 2
    mode: str = ""
    """The tool mode at the start. The agent may have learned another one since."""
    options: dict[str, Any] = field(default_factory=dict)
    lead: list[Message] = field(default_factory=list)
    before: tuple[int, int] | None = None
    """None: `messages` is the whole conversation, as in the first format and after a run that has no end."""
    agent: str = ""
    """The name of the agent, if it has one."""

    def start(self, parent: Sequence[Message]) -> list[Message]:
        """Return the conversation at the start of the run. `parent` is the one at the end of the parent run."""
        if self.before is None:
            return self.messages
        return [*self.lead, *parent[slice(*self.before)], *self.messages]


class Started(Struct, frozen=True):
    """A call was about to run. `request` is the id of the approval that it used, if it needed one."""

    name: str
    arguments: dict[str, Any]
    at: float = 0.0
    request: str = ""


class Ended(Struct, frozen=True):
    """The end of a run. The conversation is the first `kept` messages of its start, then `messages`."""

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
    """Return the lead and the slice of `before` with which `conversation` begins; None if it lacks them."""
    lead: list[Message] = []
    first = 0
    if conversation and before and conversation[0] != before[0] and conversation[0].role == "system":
        # The system prompt of the agent is the first message. It replaced an older one.
        lead = conversation[:1]
        first = 1 if before[0].role == "system" else 0
    length = len(before) - first
    if not before or conversation[len(lead) : len(lead) + length] != before[first:]:
        return None
    return lead, (first, len(before))


def count_common(one: Sequence[Message], other: Sequence[Message]) -> int:
    """Return the number of messages that both have in common at the start."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _shown(value: Any) -> Any:
    """Return a text for a value that JSON cannot represent, such as tool data for the caller."""
    try:
        return repr(value)[:_MOST_SHOWN]
    except Exception:  # `repr` of a developer's class may fail as well.
        return f"<{type(value).__name__}>"


_encoder = msgspec.json.Encoder(enc_hook=_shown)
_inputs: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Input)


def encode(value: Any) -> bytes:
    """Encode the body of a record."""
    try:
        return _encoder.encode(value)
    except (UnicodeError, OverflowError, ValueError, TypeError, RecursionError):
        pass
    try:
        return _encode_slowly(value)
    except (ValueError, TypeError, RecursionError):
        # Only tool data can be self-referential or have keys that are not strings.
        return _encode_slowly(_with_text_results(value))


def _encode_slowly(value: Any) -> bytes:
    """Encode lone surrogates and integers over 64 bits, which the fast encoder rejects."""
    plain = msgspec.to_builtins(value, enc_hook=_shown)
    return json.dumps(plain, default=_shown).encode()


def _with_text_results(value: Any) -> Any:
    """Return the value with tool data replaced by text."""
    if isinstance(value, ToolAnswered):
        return replace(value, result=_with_text_data(value.result))
    if isinstance(value, Ended | Header | Compacted):
        messages = [replace(message, parts=list(map(_with_text_data, message.parts))) for message in value.messages]
        return replace(value, messages=messages)
    return value


def _with_text_data(part: Any) -> Any:
    return replace(part, data=_shown(part.data)) if isinstance(part, ToolResult) and part.data is not None else part


def decode(body: bytes, kind: Any = Input) -> Any:
    """Decode the body of a record: an input, or a value of another type."""
    try:
        return _inputs.decode(body) if kind is Input else msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeError):
        # The slow encoder wrote it. Strict types are unnecessary for our own records.
        return msgspec.convert(json.loads(body), kind)  # noqa: TID251


_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError, RecursionError, OverflowError)


def is_kept(value: Any) -> bool:
    """Whether a record keeps a value as it is: JSON has no form for it otherwise, or another one."""
    try:
        kept: bool = decode(encode(value), type(value)) == value
    except _UNREADABLE:
        return False
    return kept


def check_readable(value: Any, what: str) -> None:
    """Raise TypeError if nobody could read a record of this value again."""
    try:
        decode(encode(value), type(value))
    except _UNREADABLE as problem:
        raise TypeError(f"{what}: {problem}") from problem


# The journal stores arguments and texts as they were, also the secrets that were registered with the agent. Another
# process does not know these secrets. So a body ends with the places where they stand, and a reader for people hides
# them there.

_PLACES = re.compile(rb',"redactions":(\[(?:\[\d+,\d+,"[a-z0-9_]*"\],?)+\])\}\Z')


def note_secrets(body: bytes, sink: HumanSink | None) -> bytes:
    """Return the body of a record with the places of the known secrets in it."""
    places = sink.known_spans(body.decode()) if sink is not None and body.endswith(b"}") else []
    return body[:-1] + b',"redactions":' + msgspec.json.encode(places) + b"}" if places else body


def hide_noted(body: bytes) -> bytes:
    """Return the body of a record for a person, with the noted secrets hidden."""
    found = _PLACES.search(body)
    if found is None:
        return body
    text = body[: found.start()].decode() + "}"
    pieces: list[str] = []
    at = 0
    for start, end, kind in msgspec.json.decode(found[1], type=list[tuple[int, int, str]]):
        pieces += [text[at:start], f"[redacted:{kind}]"]
        at = end
    return "".join([*pieces, text[at:]]).encode()


def kind_of(told: Input) -> tuple[Any, str]:
    """Return the kind of the record for an input, and the id of its call."""
    if isinstance(told, Replied):
        return "reply", ""
    if isinstance(told, Approved):
        return "approved", told.call_id
    if isinstance(told, Denied):
        return "denied", told.call_id
    if isinstance(told, ToolAnswered):
        # A call whose arguments could not be converted, or whose deadline had passed, was never started: it cannot
        # finish.
        return ("finished" if told.ran and not told.is_mistake else "input"), told.call_id
    # Only an input that settles a call names it. A call that was only reviewed is still open.
    return "input", told.call_id if isinstance(told, Reviewed) and told.verdict != "go" else ""


CANCELLATION = b'{"type":"cancelled"'
"""How the body of a record of a cancellation begins."""


def is_cancellation(record: Record) -> bool:
    """Whether the record is that of a cancellation. The run ends with it."""
    return record.kind == "input" and record.body.startswith(CANCELLATION)


def canonical(value: Any) -> bytes:
    """Encode a value as JSON that is equal for equal values: sorted keys; 1, true and "1" differ."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (UnicodeError, OverflowError, ValueError, TypeError, RecursionError):
        # A lone surrogate, an integer over 64 bits, or a value that JSON cannot represent.
        plain = msgspec.to_builtins(value, enc_hook=repr)
        return json.dumps(plain, sort_keys=True, default=repr).encode()


# --------------------------------------------------------------------------------------------------------------------
# The earlier decisions of a run that is replayed, according to its records. Pure.
#
# The rules may have changed: the run may be resumed in another mode, or with an additional rule. The old decisions stay
# valid: a denied call does not run, and a call that has run does not run again.

_TELLING = {"approved": "ask", "denied": "ask", "finished": "allow", "input": "allow"}
"""The decision on a call, by the kind of the first record about the call after the decision."""
_WAS_DENIED = "it was denied when the run came to it, before it was resumed"


class Past:
    """The records of a run, and the position of the replay in them."""

    def __init__(self, records: Sequence[Record], config: RunConfig) -> None:
        self._records = records
        self._config = config
        self._place = 0
        self._calls: list[ToolCall] = []

    def reach(self, record: Record, told: Input) -> None:
        """Note that the replay has reached this record."""
        self._place = record.number
        if isinstance(told, Replied):
            self._calls = list(told.found.calls)

    def correct(self, now: Decision, call: ToolCall, tool: Tool) -> Decision:
        """Return the recorded decision on a call, if there is one; otherwise the decision `now`."""
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
            # The call does not run again: the model learns that its outcome is unknown.
            return replace(now, verdict="allow")
        # A stored answer is read first, even if no approval would be needed now: it may be a denial.
        return replace(now, verdict="ask") if "answered" in seen and now.verdict == "allow" else now

    def _find_behind(self, call: ToolCall) -> set[str]:
        """Return the calls that cannot have started before this one was settled. Safe calls run concurrently."""
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
