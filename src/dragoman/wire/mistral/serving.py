"""Replies written as Mistral writes them: thinking as a block of the content, usage in the last chunk."""

from __future__ import annotations

from typing import Any

from dragoman.events import PartEnded
from dragoman.types import Failure, InvalidCall, JsonObject, Reply, Text, Thinking, ToolCall
from dragoman.wire import sse
from dragoman.wire.aliases import Identifier, IdRule
from dragoman.wire.mistral.failures import write_failure
from dragoman.wire.openai_chat.parts import write_call
from dragoman.wire.openai_chat.reasoning import thinking_block
from dragoman.wire.openai_chat.serving import ChunkWriter, finish_of, renamed
from dragoman.wire.openai_chat.words import write_usage
from dragoman.wire.ordering import describe_invalid
from dragoman.wire.values import as_dict, write

_WIRE = "mistral"


def write_completion(reply: Reply, ids: IdRule, created: int) -> JsonObject:
    """A whole reply as Mistral's completion."""
    identifier = Identifier(ids)
    blocks: list[JsonObject] = []
    calls: list[JsonObject] = []
    for part in reply.message.parts:
        if isinstance(part, ToolCall):
            calls.append(write_call(renamed(part, identifier), _WIRE))
        elif isinstance(part, Thinking):
            blocks.append(thinking_block(part.text, as_dict(part.extra.get(_WIRE))))
        elif isinstance(part, Text | InvalidCall):
            text = part.text if isinstance(part, Text) else describe_invalid(part)
            blocks.append({"type": "text", "text": text})
    plain = all(block["type"] == "text" for block in blocks)
    content: Any = "".join(block["text"] for block in blocks) if plain else blocks
    message: JsonObject = {"role": "assistant", "content": content, "tool_calls": calls or None, "prefix": False}
    finish = finish_of(reply.stop, reply.extra, _WIRE)
    return {
        "id": reply.id or "cmpl-0",
        "object": "chat.completion",
        "created": created,
        "model": reply.model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": write_usage(reply.usage),
    }


class MistralWriter(ChunkWriter):
    """A Stage from events to the bytes of Mistral's stream."""

    def _write_thinking(self, text: str) -> JsonObject:
        return {"content": [thinking_block(text, {})]}

    def _end_part(self, event: PartEnded) -> list[bytes]:
        own = as_dict(event.extra.get(_WIRE))
        if event.kind == "thinking" and "signature" in own:
            return [self._chunk({"content": [thinking_block("", own)]})]
        return []

    def _chunk(self, delta: JsonObject, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        counts = {"usage": write_usage(self._usage)} if finish and self._include_usage else {}
        return sse.encode(None, write({**self._head, "choices": [choice], **counts}))

    def _finish(self, reason: str) -> list[bytes]:
        self._closed = True
        return [self._chunk({}, reason), sse.encode(None, "[DONE]")]

    def _fail(self, failure: Failure) -> list[bytes]:
        self._closed = True
        return [sse.encode(None, write(write_failure(failure)[1]))]
