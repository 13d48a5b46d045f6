"""The server side of Anthropic Messages: reads requests and writes replies."""

from __future__ import annotations

from typing import Any

from dragoman.events import (
    CallEnded,
    Event,
    PartEnded,
    PartReceived,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
)
from dragoman.types import (
    Failure,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Reply,
    StopReason,
    Text,
    Thinking,
    Tool,
    ToolCall,
    Usage,
)
from dragoman.wire.aliases import Identifier
from dragoman.wire.anthropic.parts import (
    RULES,
    own,
    read_call,
    read_contents,
    read_plain,
    read_result,
    read_thinking,
    without,
    word_for,
    wrap,
    write_error,
    write_thinking,
    write_usage,
)
from dragoman.wire.event_order import describe_broken, describe_invalid
from dragoman.wire.values import as_blocks, as_dict, as_list, as_text, dicts, find_stop_sequence, write
from dragoman.wire.writer import StreamWriter

# --------------------------------------------------------------------------------------------------------------------
# The body of a request, as a client sent it, read into a request.


def read_system(system: Any, *, inside: bool = False) -> list[Message]:
    """Instructions at the top of a body, or inside of the conversation: a text or a list of blocks."""
    texts: list[Part] = [part for part in read_contents(system) if isinstance(part, Text) and (part.text or part.extra)]
    return [Message("system", texts, wrap({"role": "system"} if inside else {}))] if texts else []


class ConversationReader:
    """Reads the messages of one body: ids made where there are none, results apart from the user's words."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self._made = 0
        self._waiting: dict[str, None] = {}  # the calls of the last assistant message that have no result yet

    def read(self, messages: Any) -> list[Message]:
        entries = list(dicts(messages))
        self._taken = {
            as_text(block.get("id")) for entry in entries for block in dicts(entry.get("content")) if "id" in block
        }
        for entry in entries:
            role, content = entry.get("role"), entry.get("content")
            blocks = as_blocks(content)
            if role == "assistant":
                self._read_assistant(blocks)
            elif role == "system":
                self._messages += read_system(content, inside=True)
            else:
                self._read_user(blocks)
        return self._messages

    def _read_assistant(self, blocks: list[Any]) -> None:
        parts: list[Part] = []
        self._waiting = {}
        for block in blocks:
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "tool_use":
                call = read_call(block, self._make_id(block))
                self._names[call.id] = call.name
                self._waiting[call.id] = None
                parts.append(call)
            elif kind in ("thinking", "redacted_thinking"):
                thought = read_thinking(block)
                parts += [thought] if thought is not None else []
            elif isinstance(block, dict | str):
                parts.append(read_plain(block))
        self._messages.append(Message("assistant", _without_empty(parts)))

    def _make_id(self, block: JsonObject) -> str:
        if as_text(block.get("id")):
            return ""
        self._made += 1
        while f"call_{self._made}" in self._taken:
            self._made += 1
        return f"call_{self._made}"

    def _read_user(self, blocks: list[Any]) -> None:
        words: list[Part] = []
        for block in blocks:
            if isinstance(block, dict) and block.get("type") == "tool_result":
                self._add_user(words)
                words = []
                self._add_result(block)
            elif isinstance(block, dict | str):
                words.append(read_plain(block))
        self._add_user(words)

    def _add_user(self, words: list[Part]) -> None:
        parts = _without_empty(words)
        if parts:
            self._messages.append(Message("user", parts))

    def _add_result(self, block: JsonObject) -> None:
        identity = as_text(block.get("tool_use_id")) or next(iter(self._waiting), "")
        self._waiting.pop(identity, None)
        result = read_result(block, identity, self._names.get(identity, ""))
        if self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.append(result)
        else:
            self._messages.append(Message("tool", [result]))


def _without_empty(parts: list[Part]) -> list[Part]:
    return [part for part in parts if not isinstance(part, Text) or part.text or part.extra]


def read_tools(tools: Any) -> tuple[list[Tool], list[Any]]:
    """The tools that a caller runs; and all in order, those by name and the provider's as they are."""
    ours: list[Tool] = []
    others: list[Any] = []
    for entry in dicts(tools):
        name = as_text(entry.get("name"))
        if name and entry.get("type") in (None, "custom"):
            description = as_text(entry.get("description"))
            schema = as_dict(entry.get("input_schema"))
            rest = without(entry, "name", "description", "input_schema")
            ours.append(Tool(name, description, schema, metadata=wrap(rest)))
            others.append(name)
        elif entry:
            others.append(entry)
    return ours, others


# --------------------------------------------------------------------------------------------------------------------
# Replies written as messages: whole, and as a stream of events.


def _note_media(part: Image | File) -> str:
    """A model cannot give images or files on this wire: the words that stand for one."""
    kind = "image" if isinstance(part, Image) else "file"
    return f"[{kind}: {part.url}]" if part.url else f"[{kind}: it cannot be shown here]"


def _start_call(call: ToolCall, identifier: Identifier, reply: str) -> JsonObject:
    identity = identifier.identify(call.id, reply=reply)
    return {"type": "tool_use", "id": identity, "name": call.name, "input": {}, **own(call.extra)}


def _write_end(stop: StopReason, extra: dict[str, Any], has_calls: bool) -> JsonObject:
    rest = without(own(extra), "reason", "usage", "stop_sequence")
    matched = find_stop_sequence(stop, extra) or None
    return {"stop_reason": word_for(stop, extra, has_calls), "stop_sequence": matched, **rest}


def _write_usage(usage: Usage, extra: dict[str, Any]) -> JsonObject:
    return {**as_dict(own(extra).get("usage")), **write_usage(usage)}


# ---- whole -----------------------------------------------------------------------------------------------------------


def write_message(reply: Reply) -> JsonObject:
    """A whole reply as a message."""
    blocks = _ContentWriter(reply.id).write(reply.message.parts)
    has_calls = any(block.get("type") == "tool_use" for block in blocks)
    return {
        "id": reply.id or "msg_0",
        "type": "message",
        "role": "assistant",
        "model": reply.model,
        "content": blocks,
        **_write_end(reply.stop, reply.extra, has_calls),
        "usage": _write_usage(reply.usage, reply.extra),
    }


class _ContentWriter:
    """Writes the blocks of a whole message, in the same places where the stream has them."""

    def __init__(self, id: str) -> None:
        self._id = id
        self._blocks: list[JsonObject] = []
        self._identifier = Identifier(RULES.ids)
        self._note = ""  # the words for broken calls continue in the text behind them

    def write(self, parts: list[Part]) -> list[JsonObject]:
        for part in parts:
            if isinstance(part, InvalidCall):
                self._note += describe_invalid(part)
            elif isinstance(part, ToolCall) and not part.complete:
                self._note += describe_broken(part.name, "it is not complete")
            elif isinstance(part, Text):
                extra = own(part.extra)
                self._add_text(part.text, as_list(extra.get("citations")))
                self._add(as_dict(extra.get("block")))
            else:
                self._add_text()
                self._write(part)
        self._add_text()
        return self._blocks

    def _add_text(self, text: str = "", citations: list[Any] | None = None) -> None:
        if self._note or text:
            cited = {"citations": citations} if citations else {}
            self._add({"type": "text", "text": self._note + text, **cited})
        self._note = ""

    def _write(self, part: Part) -> None:
        if isinstance(part, Thinking):
            self._add(write_thinking(part))
        elif isinstance(part, ToolCall):
            self._add({**_start_call(part, self._identifier, self._id), "input": part.arguments})
        elif isinstance(part, Image | File):
            self._add_text(_note_media(part))

    def _add(self, block: JsonObject | None) -> None:
        if block:
            self._blocks.append(block)


# ---- streamed --------------------------------------------------------------------------------------------------------


class EventWriter(StreamWriter[JsonObject]):
    """A Stage from events to the bytes of a stream: blocks counted from 0, one open at a time, arguments whole."""

    repeats_frames = True

    def __init__(self, model: str, id: str) -> None:
        super().__init__(RULES.ids, model=model, id=id)
        self._has_calls = False
        self._index = -1
        self._open = ""  # the kind of the block that is open

    def _write_part(self, event: Event) -> list[JsonObject]:
        if isinstance(event, TextDelta):
            return self._grow("text", event.text)
        if isinstance(event, ThinkingDelta):
            return self._grow("thinking", event.text)
        if isinstance(event, PartEnded):
            extra = own(event.extra)
            return self._end_text(extra) if event.kind == "text" else self._end_thinking(extra)
        if isinstance(event, CallEnded):
            return self._write_call(event.call)
        if isinstance(event, PartReceived):
            return [*self._stop(), *self._grow("text", _note_media(event.part)), *self._stop()]
        return []

    # ---- frames -----------------------------------------------------------------------------------------------------

    def _frame(self, kind: str, **fields: Any) -> JsonObject:
        return {"type": kind, **fields}

    def _start(self) -> list[JsonObject]:
        message: JsonObject = {
            "id": self._id or "msg_0",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": write_usage(self._usage),
        }
        return [self._frame("message_start", message=message)]

    def _end(self, event: ReplyEnded) -> list[JsonObject]:
        pieces = self._stop()
        self._closed = True
        delta = _write_end(event.stop, event.extra, self._has_calls)
        usage = _write_usage(self._usage, event.extra)
        return [*pieces, self._frame("message_delta", delta=delta, usage=usage), self._frame("message_stop")]

    def _fail(self, failure: Failure) -> list[JsonObject]:
        pieces = self._stop()
        self._closed = True
        return [*pieces, self._frame("error", error=write_error(failure)["error"])]

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _open_block(self, block: JsonObject) -> list[JsonObject]:
        pieces = self._stop()
        self._index += 1
        self._open = as_text(block.get("type")) or "unknown"
        return [*pieces, self._frame("content_block_start", index=self._index, content_block=block)]

    def _delta(self, kind: str, **fields: Any) -> JsonObject:
        return self._frame("content_block_delta", index=self._index, delta={"type": kind, **fields})

    def _stop(self) -> list[JsonObject]:
        if not self._open:
            return []
        self._open = ""
        return [self._frame("content_block_stop", index=self._index)]

    def _grow(self, kind: str, text: str) -> list[JsonObject]:
        if not text:
            return []
        pieces = [] if self._open == kind else self._open_block(_EMPTY[kind])
        pieces.append(self._delta(f"{kind}_delta", **{kind: text}))
        return pieces

    def _end_text(self, extra: JsonObject) -> list[JsonObject]:
        pieces: list[JsonObject] = []
        if self._open == "text":
            pieces += [self._delta("citations_delta", citation=entry) for entry in as_list(extra.get("citations"))]
        pieces += self._stop()
        block = as_dict(extra.get("block"))
        return pieces + self._write_block(block) if block else pieces

    def _end_thinking(self, extra: JsonObject) -> list[JsonObject]:
        if self._open != "thinking":
            block = write_thinking(Thinking("", {RULES.wire: extra}))
            if block is None:
                return self._stop()
            if block["type"] == "redacted_thinking":
                return [*self._open_block(block), *self._stop()]
        pieces = [] if self._open == "thinking" else self._open_block(_EMPTY["thinking"])
        signature = as_text(extra.get("signature"))
        return [*pieces, *([self._delta("signature_delta", signature=signature)] if signature else []), *self._stop()]

    def _write_call(self, call: ToolCall) -> list[JsonObject]:
        if not call.complete:
            return self._grow("text", describe_broken(call.name, "it is not complete"))
        self._has_calls = True
        return self._write_block({**_start_call(call, self._identifier, self._id), "input": call.arguments})

    def _write_block(self, block: JsonObject) -> list[JsonObject]:
        """A whole block. Clients take an input from its pieces alone, and not from the start of the block."""
        given = block.get("input")
        if not isinstance(given, dict):
            return [*self._open_block(block), *self._stop()]
        pieces = self._open_block({**block, "input": {}})
        return [*pieces, self._delta("input_json_delta", partial_json=write(given)), *self._stop()]


_EMPTY: dict[str, JsonObject] = {
    "text": {"type": "text", "text": ""},
    "thinking": {"type": "thinking", "thinking": "", "signature": ""},
}
