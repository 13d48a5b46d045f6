"""Replies of this wire, whole or streamed, told to the builder."""

from __future__ import annotations

from typing import Any

from dragoman.events import Event
from dragoman.types import Failure, JsonObject
from dragoman.wire.anthropic.failures import read_failure
from dragoman.wire.anthropic.words import STOPS, WIRE, add_usage, read_own_usage, read_usage, without
from dragoman.wire.assembly import ReplyBuilder
from dragoman.wire.codec import Prepared, Reader
from dragoman.wire.quirks import Quirks
from dragoman.wire.sse import SseBroken, SseEvent
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, parse

_MESSAGE_FIELDS = ("id", "type", "role", "model", "content", "stop_reason", "usage")
# Blocks whose deltas have a meaning for us; any other block is kept as it comes.
_READ = ("tool_use", "text", "thinking")


class _Block:
    """A block that began and has not ended."""

    __slots__ = ("citations", "fields", "index", "key", "kind", "pieces", "said", "signature")

    def __init__(self, fields: JsonObject, index: Any, key: Any) -> None:
        self.fields = dict(fields)
        self.kind = as_text(fields.get("type"))
        self.index = index
        self.key = key
        self.said = False
        self.signature = ""
        self.citations: list[Any] = []
        self.pieces: list[str] = []


class MessageReader(Reader):
    """Reads the frames of one reply. Blocks are known by their index, and an index may come twice or not at all."""

    def __init__(self, sent: Prepared | None, quirks: Quirks) -> None:
        self._builder = ReplyBuilder(WIRE, sent, masks_length=quirks.masks_length)
        self._needs_final_frame = quirks.final_frame
        self._blocks: dict[int, _Block] = {}
        self._latest: _Block | None = None
        self._opened = 0
        self._usage: JsonObject = {}
        self._own: JsonObject = {}
        self._stop = ""

    # ---- frames -----------------------------------------------------------------------------------------------------

    def read(self, frame: Any) -> list[Event]:
        if self._builder.ended:
            return []
        if isinstance(frame, SseEvent):
            self._read_event(frame)
        elif isinstance(frame, SseBroken):
            self._fail(Failure("server_error", f"an event could not be read: {frame.why}"))
        return self._builder.take()

    def close(self) -> list[Event]:
        if not self._builder.ended:
            self._end()
        return self._builder.take()

    def _read_event(self, event: SseEvent) -> None:
        if not event.data:
            return
        if event.data.strip() == "[DONE]":
            self._finish_well()
            return
        frame = parse(event.data)
        if frame is BROKEN:
            # Half a frame at the end of the stream is a cut, and `close` reports it.
            if event.complete and event.event != "ping":
                self._fail(Failure("server_error", "an event of the stream is no JSON"))
        elif isinstance(frame, dict):
            kind = as_text(frame.get("type")) or ("error" if "error" in frame else event.event or "")
            self._take(kind, frame)

    def _take(self, kind: str, frame: JsonObject) -> None:
        if kind == "content_block_delta":
            self._extend(self._find(frame.get("index")), as_dict(frame.get("delta")))
        elif kind == "content_block_start":
            self._open(as_dict(frame.get("content_block")), frame.get("index"))
        elif kind == "content_block_stop":
            block = self._find(frame.get("index"))
            if block is not None:
                self._finish(block)
        elif kind == "message_start":
            message = as_dict(frame.get("message"))
            self._builder.start(message.get("model"), message.get("id"))
            self._take_end(message, message.get("usage"))
        elif kind == "message_delta":
            delta = as_dict(frame.get("delta"))
            self._take_end({**without(frame, "type", "delta"), **delta}, frame.get("usage"))
        elif kind == "message_stop":
            self._finish_well()
        elif kind == "error":
            self._fail(read_failure(None, frame))

    # ---- whole ------------------------------------------------------------------------------------------------------

    def read_whole(self, body: JsonObject) -> list[Event]:
        content = body.get("content")
        if body.get("type") == "error" or "error" in body:
            self._fail(read_failure(None, body))
            return self._builder.take()
        if not isinstance(content, list | str):
            self._fail(Failure("server_error", "the answer holds no message", body=body))
            return self._builder.take()
        self._builder.start(body.get("model"), body.get("id"))
        for entry in [content] if isinstance(content, str) else content:
            if isinstance(entry, str):
                entry = {"type": "text", "text": entry}
            if isinstance(entry, dict):
                self._open(entry, None, is_whole=True)
                if self._latest is not None:
                    self._finish(self._latest)
        self._take_end(body, body.get("usage"))
        self._finish_well()
        return self._builder.take()

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _find(self, index: Any) -> _Block | None:
        """The open block of an index; without a usable one, the block that began last."""
        return self._blocks.get(index, self._latest) if isinstance(index, int) else self._latest

    def _open(self, fields: JsonObject, index: Any, *, is_whole: bool = False) -> None:
        opened = self._blocks.get(index) if isinstance(index, int) else None
        if opened is not None and opened.kind == "tool_use" and fields.get("id") and opened.fields == fields:
            return  # the same beginning twice is one call
        if self._latest is not None and self._latest.kind != "tool_use":
            # Only one block is open at a time, whether or not the server said that this one ended.
            self._finish(self._latest)
        self._opened += 1
        block = _Block(fields, index, ("block", self._opened))
        self._latest = block
        if isinstance(index, int):
            self._blocks[index] = block
        if block.kind == "tool_use":
            self._open_call(block, is_whole=is_whole)
        elif block.kind in ("text", "thinking"):
            self._extend(block, {name: fields[name] for name in ("text", "thinking", "signature") if name in fields})
            block.citations += as_list(fields.get("citations"))

    def _open_call(self, block: _Block, *, is_whole: bool) -> None:
        fields = block.fields
        extra = without(fields, "type", "id", "name", "input")
        self._builder.open_call(block.key, fields.get("id"), fields.get("name"), extra)
        if is_whole:
            self._builder.call_delta(block.key, arguments=fields.get("input"))
        else:
            # The vendor begins with an empty object and sends the rest in pieces; others send it all at once here.
            self._builder.set_arguments(block.key, fields.get("input"))

    def _extend(self, block: _Block | None, delta: JsonObject) -> None:
        for name, value in delta.items():
            if name == "type":
                continue
            if name == "text":
                self._builder.text(value)
            elif name == "thinking":
                self._builder.thinking(value)
                if block is not None:
                    block.said = block.said or bool(value)
            elif name == "partial_json":
                self._add_json(block, value)
            elif block is not None and isinstance(value, str) and name == "signature":
                block.signature += value
            elif block is not None and name == "citation":
                block.citations.append(value)
            elif block is not None and block.kind not in _READ:
                block.fields[name] = value

    def _add_json(self, block: _Block | None, piece: Any) -> None:
        if block is not None and block.kind not in _READ:
            block.pieces.append(as_text(piece))
        elif block is not None and block.kind == "tool_use":
            self._builder.call_delta(block.key, arguments=as_text(piece))
        elif piece:
            # Arguments of a call that never began: the builder reports it as broken.
            self._builder.call_delta(None, arguments=as_text(piece))

    def _finish(self, block: _Block) -> None:
        builder = self._builder
        if block.kind == "tool_use":
            builder.close_call(block.key)
        elif block.kind == "text":
            builder.end_part("text", {"citations": block.citations} if block.citations else None)
        elif block.kind == "thinking":
            builder.end_part("thinking", {"signature": block.signature} if block.said or block.signature else None)
        elif block.kind == "redacted_thinking":
            data = as_text(block.fields.get("data"))
            builder.end_part("thinking", {"data": data} if data else None)
        elif block.kind:
            builder.end_part("text", {"block": _with_input(block)})
        if isinstance(block.index, int) and self._blocks.get(block.index) is block:
            del self._blocks[block.index]
        if self._latest is block:
            self._latest = None

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _take_end(self, fields: JsonObject, usage: Any) -> None:
        add_usage(self._usage, usage)
        self._own.update(without(fields, *_MESSAGE_FIELDS))
        reason = fields.get("stop_reason")
        if isinstance(reason, str) and reason:
            self._stop = reason
            if not self._needs_final_frame:
                self._builder.terminate()

    def _fail(self, failure: Failure) -> None:
        self._builder.fail(failure)
        self._end()

    def _finish_well(self) -> None:
        """The last frame came: a block that the server forgot to end is complete all the same."""
        if self._latest is not None and self._latest.kind != "tool_use":
            self._finish(self._latest)
        self._builder.terminate()
        self._end()

    def _end(self) -> None:
        if self._usage:
            self._builder.usage(read_usage(self._usage))
        counts = read_own_usage(self._usage)
        extra = {**self._own, **({"usage": counts} if counts else {})}
        if self._stop:
            extra = {"reason": self._stop, **extra}
        if extra:
            self._builder.stop(STOPS.get(self._stop, "unknown"), extra)
        self._builder.end()


def _with_input(block: _Block) -> JsonObject:
    """A block that is kept as it is, with the input that came in pieces."""
    given = parse("".join(block.pieces)) if block.pieces else BROKEN
    return {**block.fields, "input": given} if isinstance(given, dict) else block.fields
