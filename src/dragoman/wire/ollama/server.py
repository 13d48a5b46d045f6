"""The server side of Ollama's chat: reads requests and writes replies."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dragoman.events import (
    CallEnded,
    Event,
    PartReceived,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
)
from dragoman.media import find_base64_type
from dragoman.types import (
    Failure,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Reply,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire import framing
from dragoman.wire.aliases import FREE_IDS
from dragoman.wire.event_order import describe_invalid
from dragoman.wire.failures import status_of
from dragoman.wire.ollama.client import OPTIONS, finish_of, write_call
from dragoman.wire.openai_chat.parts import read_call
from dragoman.wire.options import add_own, keep_unknown
from dragoman.wire.values import as_dict, as_list, as_text, as_words, describe, dicts, join_thinking
from dragoman.wire.writer import StreamWriter

# --------------------------------------------------------------------------------------------------------------------
# The body of `/api/chat`, as a client sent it, read into a request.

WIRE = "ollama"
_MESSAGE = frozenset({"role", "content", "thinking", "images", "tool_calls", "tool_name", "name", "tool_call_id"})
_KNOWN = frozenset({"model", "messages", "tools", "stream", "format", "options", "think"})


class MessageReader:
    """Reads the messages of one body; calls without ids get one, and results find their call by name and order."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._open: list[ToolCall | InvalidCall] = []
        self._made = 0
        self._taken: set[str] = set()

    def read(self, entries: Any) -> list[Message]:
        given = list(dicts(entries))
        self._taken = {as_text(call.get("id")) for entry in given for call in dicts(entry.get("tool_calls"))}
        for entry in given:
            if entry.get("role") == "tool":
                self._add_result(entry)
            elif entry.get("role") == "assistant":
                self._messages.append(Message("assistant", self._read_assistant(entry), _own(entry)))
            else:
                system = entry.get("role") == "system"
                self._messages.append(Message("system" if system else "user", _read_parts(entry), _own(entry)))
        return self._messages

    def _read_assistant(self, entry: JsonObject) -> list[Part]:
        parts: list[Part] = []
        if as_text(entry.get("thinking")):
            parts.append(Thinking(entry["thinking"], {WIRE: {"field": "thinking"}}))
        parts += [part for part in _read_parts(entry) if not isinstance(part, Text) or part.text]
        self._open = [read_call(call, WIRE, self._make_id()) for call in dicts(entry.get("tool_calls"))]
        return [*parts, *self._open]

    def _make_id(self) -> str:
        self._made += 1
        while f"call_{self._made}" in self._taken:
            self._made += 1
        return f"call_{self._made}"

    def _add_result(self, entry: JsonObject) -> None:
        identity = as_text(entry.get("tool_call_id"))
        name = as_text(entry.get("tool_name")) or as_text(entry.get("name"))
        call = next((call for call in self._open if _answers(call, identity, name)), None)
        if call is not None:
            self._open.remove(call)
            identity, name = call.id, call.name
        parts = _read_parts(entry)
        images = any(isinstance(part, Image) for part in parts)
        content: Any = parts if images else as_words(entry.get("content"))
        result = ToolResult(identity, name, content, extra=_own(entry))
        if self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.append(result)
        else:
            self._messages.append(Message("tool", [result]))


def _own(entry: JsonObject) -> dict[str, Any]:
    """What only this wire understands of a message."""
    own = {name: value for name, value in keep_unknown(entry, _MESSAGE).items() if value is not None}
    return {WIRE: own} if own else {}


def _answers(call: ToolCall | InvalidCall, identity: str, name: str) -> bool:
    return call.id == identity if identity else not name or call.name == name


def _read_parts(entry: JsonObject) -> list[Part]:
    text = Text(as_words(entry.get("content")))
    images = [
        Image(None, data, find_base64_type(data)) for data in as_list(entry.get("images")) if isinstance(data, str)
    ]
    return [text, *images] if text.text or not images else [*images]


def read_options(body: JsonObject, others: list[Any]) -> dict[str, Any]:
    rest = dict(as_dict(body.get("options")))
    options = OPTIONS.take(rest)
    if body.get("stream", True) is not False:
        options["stream"] = True
    think = body.get("think")
    if think is not None:
        options["reasoning"] = {"effort": think} if isinstance(think, str) else {"enabled": bool(think)}
    wanted = body.get("format")
    if wanted == "json":
        options["response_format"] = {"type": "json"}
    elif isinstance(wanted, dict) and wanted:
        options["response_format"] = {"type": "json_schema", "schema": wanted}
    own = keep_unknown(body, _KNOWN)
    own.update({"options": rest} if rest else {})
    return add_own(options, own, others, WIRE)


# --------------------------------------------------------------------------------------------------------------------
# Replies written as Ollama writes them: one JSON line per event, or one body.


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    return status_of(failure), {"error": describe(failure, "the input length exceeds the context length")}


def write_time(created: int) -> str:
    return datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_end(stop: StopReason, usage: Usage) -> JsonObject:
    """The fields that only the last line has."""
    return {
        "done": True,
        "done_reason": finish_of(stop),
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": usage.input_tokens,
        "prompt_eval_duration": 0,
        "eval_count": usage.output_tokens,
        "eval_duration": 0,
    }


def _number(call: ToolCall, index: int) -> JsonObject:
    written = write_call(call)
    return {**written, "function": {"index": index, **written["function"]}}


def write_reply(reply: Reply, created: int) -> JsonObject:
    """A whole reply: one body that ends like the last line of a stream."""
    parts = [Text(describe_invalid(part)) if isinstance(part, InvalidCall) else part for part in reply.message.parts]
    content = "".join(part.text for part in parts if isinstance(part, Text))
    message: JsonObject = {"role": "assistant", "content": content}
    thinking = join_thinking(parts)
    message.update({"thinking": thinking} if thinking else {})
    images = [part.data for part in parts if isinstance(part, Image) and part.data]
    message.update({"images": images} if images else {})
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if calls:
        message["tool_calls"] = [_number(call, index) for index, call in enumerate(calls)]
    head = {"model": reply.model, "created_at": write_time(created), "message": message}
    return {**head, **write_end(reply.stop, reply.usage)}


class LineWriter(StreamWriter[JsonObject]):
    """A Stage from events to the lines of a streamed reply."""

    repeats_frames = True

    def __init__(self, model: str, created: int) -> None:
        super().__init__(FREE_IDS, model=model)
        self._created = write_time(created)
        self._calls = 0

    def _encode(self, frame: JsonObject) -> bytes:
        return framing.encode_ndjson(frame)

    def _write_part(self, event: Event) -> list[JsonObject]:
        if isinstance(event, TextDelta) and event.text:
            return [self._line({"content": event.text})]
        if isinstance(event, ThinkingDelta) and event.text:
            return [self._line({"content": "", "thinking": event.text})]
        if isinstance(event, CallEnded):
            self._calls += 1
            return [self._line({"content": "", "tool_calls": [_number(event.call, self._calls - 1)]})]
        if isinstance(event, PartReceived) and isinstance(event.part, Image) and event.part.data:
            return [self._line({"content": "", "images": [event.part.data]})]
        return []

    def write_empty(self) -> bytes:
        """Return a line without content."""
        return self._encode(self._line({"content": ""}))

    def _end(self, event: ReplyEnded) -> list[JsonObject]:
        self._closed = True
        return [self._line({"content": ""}, write_end(event.stop, self._usage))]

    def _line(self, message: JsonObject, end: JsonObject | None = None) -> JsonObject:
        head = {"model": self._model, "created_at": self._created, "message": {"role": "assistant", **message}}
        return {**head, **(end or {"done": False})}

    def _fail(self, failure: Failure) -> list[JsonObject]:
        self._closed = True
        return [write_failure(failure)[1]]
