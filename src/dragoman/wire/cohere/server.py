"""The server side of Cohere chat: reads requests and writes replies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.events import (
    CallEnded,
    Event,
    PartEnded,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.types import Failure, InvalidCall, JsonObject, Message, Part, Reply, ToolCall, ToolResult
from dragoman.wire.aliases import IdRule
from dragoman.wire.cohere.parts import (
    FINISHES,
    PLAN,
    THINKING,
    WIRE,
    read_answer,
    read_content,
    read_result_content,
    write_usage,
)
from dragoman.wire.openai_chat.parts import read_call
from dragoman.wire.values import as_dict, as_text, describe, dicts, write
from dragoman.wire.writer import StreamWriter

# --------------------------------------------------------------------------------------------------------------------
# The messages of a body of Cohere's chat, as a client sent them, read into ours.

_KNOWN = frozenset({"role", "content", PLAN, "tool_calls", "tool_call_id"})


class MessageReader:
    """Reads the messages of one body: ids made where there are none, results in one message, in order."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._taken: set[str] = set()
        self._made = 0
        self._names: dict[str, str] = {}
        self._waiting: dict[str, None] = {}  # the ids of calls without a result, in order

    def read(self, entries: Any) -> list[Message]:
        found = list(dicts(entries))
        self._taken = {_identity(call) for entry in found for call in dicts(entry.get("tool_calls"))}
        for entry in found:
            role = entry.get("role")
            if role == "tool":
                self._add_result(entry)
            elif role == "assistant":
                self._messages.append(Message("assistant", self._read_assistant(entry), _own(entry)))
            else:
                parts = read_content(entry.get("content"))
                known = "system" if role in ("system", "developer") else "user"
                self._messages.append(Message("system" if known == "system" else "user", parts, _own(entry)))
        return self._messages

    def _read_assistant(self, entry: JsonObject) -> list[Part]:
        parts = read_answer(entry)
        self._waiting = {}
        for call in dicts(entry.get("tool_calls")):
            parts.append(self._read_call(call))
        return parts

    def _read_call(self, entry: JsonObject) -> ToolCall | InvalidCall:
        call = read_call(entry, WIRE, "" if _identity(entry) else self._make_id())
        self._names[call.id] = call.name
        self._waiting[call.id] = None
        return call

    def _make_id(self) -> str:
        while True:
            self._made += 1
            if f"call_{self._made}" not in self._taken:
                return f"call_{self._made}"

    def _add_result(self, entry: JsonObject) -> None:
        identity = as_text(entry.get("tool_call_id")) or next(iter(self._waiting), "")
        self._waiting.pop(identity, None)
        content = read_result_content(entry.get("content"))
        result = ToolResult(identity, self._names.get(identity, ""), content, extra=_own(entry))
        if self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.append(result)
        else:
            self._messages.append(Message("tool", [result]))


def _identity(call: JsonObject) -> str:
    return as_text(call.get("id") or call.get("call_id"))


def _own(entry: JsonObject) -> dict[str, Any]:
    """What only this wire understands of a message: citations, above all."""
    own = {name: value for name, value in entry.items() if name not in _KNOWN and value is not None}
    return {WIRE: own} if own else {}


# --------------------------------------------------------------------------------------------------------------------
# Replies written as Cohere writes them: a stream of typed frames, and the same frames put together.

_NO_ID = "reply-0"


class FrameWriter(StreamWriter[JsonObject]):
    """A Stage from events to the bytes of a stream of typed frames.

    Calls come last, as they do in a whole message. Thoughts wait for the end of their part: only there it is said
    whether they were a plan.
    """

    def __init__(self, ids: IdRule, id: str = "") -> None:
        super().__init__(ids, id=id or _NO_ID)
        self._blocks = 0
        self._in_text = False
        self._answered = self._planned = False
        self._thoughts: list[str] = []
        self._calls: list[ToolCall] = []
        self._failure: Failure | None = None
        self._counted = False

    def _write(self, event: Event) -> list[JsonObject]:
        if isinstance(event, UsageReported) and not self._closed:
            self._counted = True
            return self._begin() + super()._write(event)
        return super()._write(event)

    def _start(self) -> list[JsonObject]:
        message = {"role": "assistant", "content": [], PLAN: "", "tool_calls": [], "citations": []}
        return [{"type": "message-start", "id": self._id, "delta": {"message": message}}]

    def _fail(self, failure: Failure) -> list[JsonObject]:
        # Written with the end, for that is where this wire speaks of errors and of usage.
        self._failure = self._failure or failure
        return []

    def _cut_off(self) -> list[JsonObject]:
        return super()._cut_off() + self._end(ReplyEnded("error"))

    def _write_part(self, event: Event) -> list[JsonObject]:
        if isinstance(event, TextDelta):
            return self._write_text(event.text) if event.text else []
        if isinstance(event, ThinkingDelta):
            self._thoughts.append(event.text)
            return self._end_text()
        if isinstance(event, PartEnded):
            own = as_dict(event.extra.get(WIRE))
            return self._end_thoughts(as_text(own.get("field"))) + self._end_text()
        if isinstance(event, CallEnded):
            self._calls.append(self._identifier.rename(event.call))
        return []

    # ---- content ----------------------------------------------------------------------------------------------------

    def _write_text(self, text: str) -> list[JsonObject]:
        frames = self._end_thoughts()
        if not self._in_text:
            self._in_text = self._answered = True
            frames.append(_frame("content-start", self._blocks, content={"type": "text", "text": ""}))
        frames.append(_frame("content-delta", self._blocks, content={"text": text}))
        return frames

    def _end_text(self) -> list[JsonObject]:
        if not self._in_text:
            return []
        self._in_text = False
        return [self._end_block()]

    def _end_block(self) -> JsonObject:
        self._blocks += 1
        return {"type": "content-end", "index": self._blocks - 1}

    def _end_thoughts(self, field: str = "") -> list[JsonObject]:
        pieces = [piece for piece in self._thoughts if piece]
        self._thoughts = []
        if not pieces:
            return []
        # A whole message has one plan, before the answer: what comes right behind it goes with it, and what would be
        # a plan behind the answer is a thought.
        if not self._answered and (field == PLAN or self._planned):
            self._planned = True
            return [{"type": "tool-plan-delta", "delta": {"message": {PLAN: piece}}} for piece in pieces]
        start = _frame("content-start", self._blocks, content={"type": THINKING, THINKING: ""})
        deltas = [_frame("content-delta", self._blocks, content={THINKING: piece}) for piece in pieces]
        return [start, *deltas, self._end_block()]

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _end(self, event: ReplyEnded) -> list[JsonObject]:
        self._closed = True
        own = as_dict(event.extra.get(WIRE))
        frames = self._end_thoughts() + self._end_text()
        for index, citation in enumerate(dicts(own.get("citations"))):
            frames += [_frame("citation-start", index, citations=citation), {"type": "citation-end", "index": index}]
        delta: JsonObject = {"finish_reason": as_text(own.get("reason")) or FINISHES[event.stop]}
        if self._failure is not None:
            reason = "TIMEOUT" if self._failure.kind == "timed_out" else "ERROR"
            delta = {"error": describe(self._failure), "finish_reason": reason}
        else:
            for index, call in enumerate(self._calls):
                frames += _write_call(call, index)
        if self._counted:
            delta["usage"] = write_usage(self._usage, as_dict(own.get("billed_units")))
        return [*frames, {"type": "message-end", "delta": delta}]


def _frame(kind: str, index: int, **message: Any) -> JsonObject:
    return {"type": kind, "index": index, "delta": {"message": message}}


def _write_call(call: ToolCall, index: int) -> list[JsonObject]:
    begun = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
    return [
        _frame("tool-call-start", index, tool_calls=begun),
        _frame("tool-call-delta", index, tool_calls={"function": {"arguments": write(call.arguments)}}),
        {"type": "tool-call-end", "index": index},
    ]


# ---- whole ---------------------------------------------------------------------------------------------------------


def write_reply(reply: Reply, ids: IdRule) -> JsonObject:
    """A whole reply: what its stream says, put together, so that the two cannot differ."""
    return _gather(FrameWriter(ids).write_reply(reply))


def _gather(frames: Iterable[JsonObject]) -> JsonObject:
    plan: list[str] = []
    blocks: list[JsonObject] = []
    pieces: list[str] = []
    calls: list[JsonObject] = []
    citations: list[JsonObject] = []
    body: JsonObject = {}
    for frame in frames:
        kind = frame["type"]
        message = as_dict(as_dict(frame.get("delta")).get("message"))
        if kind == "message-start":
            body["id"] = frame["id"]
        elif kind == "content-start":
            blocks.append(dict(message["content"]))
        elif kind == "content-delta":
            pieces += message["content"].values()
        elif kind == "content-end":
            blocks[-1][blocks[-1]["type"]] = "".join(pieces)
            pieces = []
        elif kind == "tool-plan-delta":
            plan.append(message[PLAN])
        elif kind == "tool-call-start":
            calls.append(message["tool_calls"])
        elif kind == "tool-call-delta":
            calls[-1]["function"]["arguments"] += message["tool_calls"]["function"]["arguments"]
        elif kind == "citation-start":
            citations.append(message["citations"])
        elif kind == "message-end":
            body.update(frame["delta"])
    body["message"] = _compose("".join(plan), blocks, calls, citations)
    return body


def _compose(plan: str, blocks: list[JsonObject], calls: list[JsonObject], citations: list[JsonObject]) -> JsonObject:
    message: JsonObject = {"role": "assistant"}
    if plan:
        message[PLAN] = plan
    if blocks or not calls:
        # Programs look at the first block without asking whether there is one.
        message["content"] = blocks or [{"type": "text", "text": ""}]
    if calls:
        message["tool_calls"] = calls
    if citations:
        message["citations"] = citations
    return message
