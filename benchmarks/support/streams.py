"""Streamed replies as the providers write them: half of the chunks text, half of them the arguments of a call.

They are written here by hand, not by our own encoders, so that what is read is what a server sends. Gemini and Ollama
give calls whole; their streams are text with one call at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
from benchmarks.support.conversations import MODEL, words

from dragoman.events import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Event,
    ReplyEnded,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.types import JsonObject, ToolCall, Usage
from dragoman.wire import eventstream

_write = msgspec.json.Encoder().encode
_TOOL = "write_documents"
_CALL = "call00001"


def chunks(wire: str, count: int) -> list[bytes]:
    """The pieces of bytes of one streamed reply, about this many."""
    return _STREAMS[wire](words(count // 2), _arguments(count - count // 2))


def events(count: int) -> list[Event]:
    """The events of one streamed reply, about this many."""
    text, arguments = words(count // 2), _arguments(count - count // 2)
    call = ToolCall(_CALL, _TOOL, msgspec.json.decode("".join(arguments)), wire_id=_CALL)
    return [
        ReplyStarted(MODEL, "reply-1"),
        *(TextDelta(piece) for piece in text),
        CallStarted(0, _TOOL, _CALL),
        *(ArgumentsDelta(0, piece) for piece in arguments),
        CallEnded(0, call),
        UsageReported(Usage(1200, count)),
        ReplyEnded("tool_calls"),
    ]


def bodies(wire: str, pieces: Sequence[bytes]) -> list[bytes]:
    """The JSON texts in the chunks of a stream, without their framing."""
    if wire == "bedrock":
        decoder = eventstream.EventStreamDecoder()
        frames = [frame for piece in pieces for frame in decoder.feed(piece)]
        return [frame.payload for frame in frames if isinstance(frame, eventstream.Frame)]
    if wire == "ollama":
        return list(pieces)
    lines = (line for piece in pieces for line in piece.split(b"\n"))
    return [line[6:] for line in lines if line.startswith(b"data: {")]


def _arguments(count: int) -> list[str]:
    """The arguments of one call with a long text, in pieces."""
    return ['{"path": "log/tide.txt", "content": "', *words(max(1, count - 2)), '"}']


def _sse(data: JsonObject, event: str = "") -> bytes:
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + _write(data) + b"\n\n"


def _openai_chat(text: list[str], arguments: list[str]) -> list[bytes]:
    def chunk(delta: JsonObject, finish: str | None = None) -> bytes:
        head = {"id": "chatcmpl-AbCdEf0123456789", "object": "chat.completion.chunk", "created": 1767225600}
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _sse({**head, "model": MODEL, "system_fingerprint": "fp_0123456789", "choices": [choice]})

    def part(function: JsonObject, **rest: str) -> bytes:
        return chunk({"tool_calls": [{"index": 0, **rest, "function": function}]})

    usage = {"prompt_tokens": 1200, "completion_tokens": 140, "total_tokens": 1340}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": piece}) for piece in text),
        part({"name": _TOOL, "arguments": ""}, id=_CALL, type="function"),
        *(part({"arguments": piece}) for piece in arguments),
        chunk({}, "tool_calls"),
        _sse({"id": "chatcmpl-AbCdEf0123456789", "object": "chat.completion.chunk", "choices": [], "usage": usage}),
        b"data: [DONE]\n\n",
    ]


def _mistral(text: list[str], arguments: list[str]) -> list[bytes]:
    def chunk(delta: JsonObject, finish: str | None = None, **rest: JsonObject) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        head = {"id": "cmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1767225600}
        return _sse({**head, "model": MODEL, "choices": [choice], **rest})

    def part(piece: str) -> bytes:
        call = {"id": _CALL, "function": {"name": _TOOL, "arguments": piece}, "index": 0}
        return chunk({"role": "assistant", "content": "", "tool_calls": [call]})

    usage = {"prompt_tokens": 1200, "completion_tokens": 140, "total_tokens": 1340}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": piece}) for piece in text),
        *map(part, arguments),
        chunk({"content": ""}, "tool_calls", usage=usage),
        b"data: [DONE]\n\n",
    ]


def _anthropic(text: list[str], arguments: list[str]) -> list[bytes]:
    def event(kind: str, **rest: object) -> bytes:
        return _sse({"type": kind, **rest}, kind)

    def delta(index: int, kind: str, key: str, piece: str) -> bytes:
        return event("content_block_delta", index=index, delta={"type": kind, key: piece})

    message: JsonObject = {"id": "msg_0123456789", "type": "message", "role": "assistant", "model": MODEL}
    message |= {"content": [], "stop_reason": None, "stop_sequence": None}
    message["usage"] = {"input_tokens": 1200, "output_tokens": 1}
    call = {"type": "tool_use", "id": _CALL, "name": _TOOL, "input": {}}
    return [
        event("message_start", message=message),
        event("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        *(delta(0, "text_delta", "text", piece) for piece in text),
        event("content_block_stop", index=0),
        event("content_block_start", index=1, content_block=call),
        *(delta(1, "input_json_delta", "partial_json", piece) for piece in arguments),
        event("content_block_stop", index=1),
        event("message_delta", delta={"stop_reason": "tool_use", "stop_sequence": None}, usage={"output_tokens": 140}),
        event("message_stop"),
    ]


def _gemini(text: list[str], arguments: list[str]) -> list[bytes]:
    def chunk(part: JsonObject, **rest: str) -> bytes:
        candidate = {"content": {"parts": [part], "role": "model"}, **rest, "index": 0}
        usage = {"promptTokenCount": 1200, "candidatesTokenCount": 140, "totalTokenCount": 1340}
        return _sse({"candidates": [candidate], "usageMetadata": usage, "modelVersion": MODEL, "responseId": "r-1"})

    call = {"name": _TOOL, "args": msgspec.json.decode("".join(arguments))}
    texts = [chunk({"text": piece}) for piece in text + words(len(arguments))]
    return [*texts, chunk({"functionCall": call}, finishReason="STOP")]


def _ollama(text: list[str], arguments: list[str]) -> list[bytes]:
    def line(message: JsonObject, **rest: object) -> bytes:
        head = {"model": MODEL, "created_at": "2026-01-01T00:00:00.123456789Z"}
        return _write({**head, "message": {"role": "assistant", **message}, **rest}) + b"\n"

    call = {"function": {"name": _TOOL, "arguments": msgspec.json.decode("".join(arguments))}}
    counts = {"total_duration": 5_000_000_000, "prompt_eval_count": 1200, "eval_count": 140}
    return [
        *(line({"content": piece}, done=False) for piece in text + words(len(arguments))),
        line({"content": "", "tool_calls": [call]}, done=False),
        line({"content": ""}, done=True, done_reason="stop", **counts),
    ]


def _bedrock(text: list[str], arguments: list[str]) -> list[bytes]:
    def event(kind: str, **payload: object) -> bytes:
        headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
        # The service pads its events, so that their length does not tell the text.
        return eventstream.encode(headers, _write({**payload, "p": "abcdefghijklmnopqrstuvwxyz"}))

    def delta(index: int, delta: JsonObject) -> bytes:
        return event("contentBlockDelta", contentBlockIndex=index, delta=delta)

    usage = {"inputTokens": 1200, "outputTokens": 140, "totalTokens": 1340}
    return [
        event("messageStart", role="assistant"),
        *(delta(0, {"text": piece}) for piece in text),
        event("contentBlockStop", contentBlockIndex=0),
        event("contentBlockStart", contentBlockIndex=1, start={"toolUse": {"toolUseId": _CALL, "name": _TOOL}}),
        *(delta(1, {"toolUse": {"input": piece}}) for piece in arguments),
        event("contentBlockStop", contentBlockIndex=1),
        event("messageStop", stopReason="tool_use"),
        event("metadata", usage=usage, metrics={"latencyMs": 900}),
    ]


def _cohere(text: list[str], arguments: list[str]) -> list[bytes]:
    def event(kind: str, index: int | None = None, **rest: object) -> bytes:
        place = {} if index is None else {"index": index}
        return _sse({"type": kind, **place, **rest}, kind)

    def delta(kind: str, message: JsonObject) -> bytes:
        return event(kind, 0, delta={"message": message})

    call = {"id": _CALL, "type": "function", "function": {"name": _TOOL, "arguments": ""}}
    tokens = {"input_tokens": 1200, "output_tokens": 140}
    start = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    return [
        event("message-start", id="0123456789", delta={"message": start}),
        delta("content-start", {"content": {"type": "text", "text": ""}}),
        *(delta("content-delta", {"content": {"text": piece}}) for piece in text),
        event("content-end", 0),
        delta("tool-call-start", {"tool_calls": call}),
        *(delta("tool-call-delta", {"tool_calls": {"function": {"arguments": piece}}}) for piece in arguments),
        event("tool-call-end", 0),
        event("message-end", delta={"finish_reason": "TOOL_CALL", "usage": {"billed_units": tokens, "tokens": tokens}}),
    ]


def _openai_responses(text: list[str], arguments: list[str]) -> list[bytes]:
    number = iter(range(10**9))

    def event(kind: str, **rest: object) -> bytes:
        return _sse({"type": kind, "sequence_number": next(number), **rest}, kind)

    said, written = "".join(text), "".join(arguments)
    message: JsonObject = {"id": "msg_0123456789", "type": "message", "role": "assistant"}
    call: JsonObject = {"id": "fc_0123456789", "type": "function_call", "call_id": _CALL, "name": _TOOL}
    answer = {"type": "output_text", "text": said, "annotations": []}
    done = [
        {**message, "status": "completed", "content": [answer]},
        {**call, "status": "completed", "arguments": written},
    ]
    usage = {"input_tokens": 1200, "output_tokens": 140, "total_tokens": 1340}
    response: JsonObject = {"id": "resp_0123456789", "object": "response", "created_at": 1767225600, "model": MODEL}
    where = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    inside = {"item_id": call["id"], "output_index": 1}
    return [
        event("response.created", response={**response, "status": "in_progress", "output": []}),
        event("response.output_item.added", output_index=0, item={**message, "status": "in_progress", "content": []}),
        event("response.content_part.added", **where, part={**answer, "text": ""}),
        *(event("response.output_text.delta", **where, delta=piece, logprobs=[]) for piece in text),
        event("response.output_text.done", **where, text=said, logprobs=[]),
        event("response.content_part.done", **where, part=answer),
        event("response.output_item.done", output_index=0, item=done[0]),
        event("response.output_item.added", output_index=1, item={**call, "status": "in_progress", "arguments": ""}),
        *(event("response.function_call_arguments.delta", **inside, delta=piece) for piece in arguments),
        event("response.function_call_arguments.done", **inside, arguments=written),
        event("response.output_item.done", output_index=1, item=done[1]),
        event("response.completed", response={**response, "status": "completed", "output": done, "usage": usage}),
    ]


_STREAMS: dict[str, Callable[[list[str], list[str]], list[bytes]]] = {
    "openai_chat": _openai_chat,
    "openai_responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
    "bedrock": _bedrock,
    "mistral": _mistral,
    "cohere": _cohere,
}
