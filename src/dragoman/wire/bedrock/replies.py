"""Answers of Converse read: frames and whole bodies to events."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from dragoman.events import Event
from dragoman.types import JsonObject, StopReason
from dragoman.wire.assembly import ReplyBuilder
from dragoman.wire.bedrock.blocks import cited_words, is_servers, open_reasoning
from dragoman.wire.bedrock.failures import find_type, read_failure
from dragoman.wire.bedrock.media import as_blob, read_image
from dragoman.wire.bedrock.words import STOPS, WIRE, read_usage
from dragoman.wire.codec import Prepared, Reader
from dragoman.wire.eventstream import Frame
from dragoman.wire.quirks import Quirks
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, dicts, parse

_KEPT = ("additionalModelResponseFields", "trace", "metrics", "performanceConfig", "serviceTier")


class ConverseReader(Reader):
    """Reads one answer. Blocks come one after the other; a text has no start: its first piece begins it."""

    def __init__(self, sent: Prepared | None, quirks: Quirks) -> None:
        self._builder = ReplyBuilder(WIRE, sent, masks_length=quirks.masks_length)
        self._kind = ""  # of the open block
        self._index: Any = None
        self._thought = False
        self._signature: list[str] = []
        self._pieces: list[str] = []  # of what is only of use as a whole: hidden reasoning, an image, a server's call
        self._citations: list[Any] = []
        self._start: JsonObject = {}
        self._result: list[Any] = []
        self._stop: StopReason = "unknown"
        self._extra: JsonObject = {}
        self._stopped = self._counted = False
        self._readers: dict[Any, Callable[[JsonObject], None]] = {
            "messageStart": self._read_start,
            "contentBlockStart": self._read_block_start,
            "contentBlockDelta": self._read_delta,
            "contentBlockStop": self._read_block_stop,
            "messageStop": self._read_stop,
            "metadata": self._read_metadata,
        }

    # ---- frames -----------------------------------------------------------------------------------------------------

    def read(self, frame: Any) -> list[Event]:
        if isinstance(frame, Frame):
            self._read_frame(frame)
        elif frame.why != "cut":
            self._break(f"a frame of the stream was damaged ({frame.why})")
        return self._builder.take()

    def _read_frame(self, frame: Frame) -> None:
        headers = frame.headers
        kind = headers.get(":event-type")
        payload = parse(frame.payload) if frame.payload else {}
        if payload is BROKEN:
            self._break(f"a frame is not JSON: {frame.payload[:200].decode('utf-8', 'replace')}")
            return
        fields = as_dict(payload)
        if headers.get(":message-type") in ("exception", "error"):
            code = as_text(headers.get(":exception-type")) or as_text(headers.get(":error-code"))
            fields = fields or {"message": as_text(headers.get(":error-message"))}
            self._builder.fail(read_failure(None, fields, None, code))
            self._end()
            return
        if kind is None and len(fields) == 1:
            # Some gateways name the event in the payload alone.
            kind, fields = next((name, as_dict(value)) for name, value in fields.items())
        read = self._readers.get(kind)
        if read is not None and not self._builder.ended:
            read(fields)

    def _break(self, why: str) -> None:
        # Behind the end of the message only the counts can be lost.
        if not self._stopped:
            self._builder.fail(read_failure(None, {"message": why}))
        self._end()

    def close(self) -> list[Event]:
        self._end()
        return self._builder.take()

    def _read_start(self, fields: JsonObject) -> None:
        self._builder.start()

    def _read_block_start(self, fields: JsonObject) -> None:
        self._builder.start()
        index, start = fields.get("contentBlockIndex"), as_dict(fields.get("start"))
        use = as_dict(start.get("toolUse"))
        if use and not is_servers(use):
            self._open_call(index, use)
        elif start:
            kind = "image" if "image" in start else "opaque"
            self._switch(kind, index, anew=True)
            self._start = start

    def _open_call(self, index: Any, use: JsonObject) -> None:
        identity = use.get("toolUseId")
        said_before = self._kind == "call" and self._index == index and identity and identity == self._start.get("id")
        if not said_before:
            self._switch("call", index, anew=True)
            self._start = {"id": identity}
            self._builder.open_call(index, identity, use.get("name"))
        if use.get("input"):
            self._builder.call_delta(index, arguments=use["input"])

    def _read_delta(self, fields: JsonObject) -> None:
        index, delta = fields.get("contentBlockIndex"), as_dict(fields.get("delta"))
        if "text" in delta:
            self._switch("text", index)
            self._builder.text(delta["text"])
        elif "toolUse" in delta:
            self._read_call_delta(index, as_dict(delta["toolUse"]))
        elif "reasoningContent" in delta:
            self._read_reasoning(index, as_dict(delta["reasoningContent"]))
        else:
            self._read_rare(index, delta)

    def _read_call_delta(self, index: Any, use: JsonObject) -> None:
        if self._kind == "opaque":
            self._pieces.append(as_text(use.get("input")))
            return
        self._switch("call", index)
        self._builder.call_delta(index, use.get("toolUseId"), use.get("name"), use.get("input"))

    def _read_reasoning(self, index: Any, content: JsonObject) -> None:
        if "redactedContent" in content:
            self._switch("hidden", index)
            self._pieces.append(as_blob(content["redactedContent"]))
            return
        # Whole, as in a body that came in one piece, or in pieces.
        inner = as_dict(content.get("reasoningText")) or content
        self._switch("thinking", index)
        if as_text(inner.get("text")):
            self._thought = True
            self._builder.thinking(inner["text"])
        self._signature.append(as_text(inner.get("signature")))

    def _read_rare(self, index: Any, delta: JsonObject) -> None:
        if "citation" in delta:
            self._switch("text", index)
            self._citations.append(delta["citation"])
        elif "image" in delta and self._kind == "image":
            source = as_dict(as_dict(delta["image"]).get("source"))
            self._start = {**self._start, "source": source} if "bytes" not in source else self._start
            self._pieces.append(as_blob(source.get("bytes")))
        elif "toolResult" in delta and self._kind == "opaque":
            self._result += as_list(delta["toolResult"])

    def _read_block_stop(self, fields: JsonObject) -> None:
        index = fields.get("contentBlockIndex")
        if index is None or index == self._index:
            self._end_block()
        else:
            self._builder.close_call(index)

    def _read_stop(self, fields: JsonObject) -> None:
        self._builder.start()
        self._end_block()
        self._keep_stop(fields)
        self._stopped = True
        self._builder.terminate()
        if self._counted:
            self._end()

    def _read_metadata(self, fields: JsonObject) -> None:
        self._builder.start()
        self._keep_usage(fields)
        self._counted = True
        if self._stopped:
            self._end()

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _switch(self, kind: str, index: Any, *, anew: bool = False) -> None:
        """Go on with a block, or end the open one and begin this."""
        if anew or kind != self._kind or index != self._index:
            self._end_block()
            self._kind, self._index = kind, index

    def _end_block(self) -> None:
        kind, self._kind = self._kind, ""
        if kind == "text":
            citations, self._citations = self._citations, []
            self._builder.end_part("text", {"citations": citations} if citations else None)
        elif kind == "thinking":
            self._end_thinking()
        elif kind == "hidden":
            hidden = _join_blobs(self._take_pieces())
            if hidden:
                self._builder.end_part("thinking", {"redacted": hidden})
        elif kind == "call":
            self._builder.close_call(self._index)
        elif kind:
            self._end_rare(kind)

    def _end_thinking(self) -> None:
        signature, self._signature = "".join(self._signature), []
        thought, self._thought = self._thought, False
        if thought or signature:
            signed = {"signature": signature} if signature else {}
            self._builder.end_part("thinking", {"field": "reasoningText", **signed})

    def _end_rare(self, kind: str) -> None:
        start, self._start = self._start, {}
        pieces = self._take_pieces()
        if kind == "image":
            image = as_dict(start.get("image"))
            source = as_dict(start.get("source")) or {"bytes": _join_blobs(pieces)}
            self._builder.part(read_image({"image": {**image, "source": source}}))
            return
        result, self._result = self._result, []
        use, answer = start.get("toolUse"), start.get("toolResult")
        block = start
        if isinstance(use, dict):
            given = parse("".join(pieces)) if any(pieces) else {}
            block = {"toolUse": {**use, "input": {} if given is BROKEN else given}}
        elif isinstance(answer, dict):
            block = {"toolResult": {**answer, "content": result}}
        self._builder.end_part("text", {"block": block})

    def _take_pieces(self) -> list[str]:
        pieces, self._pieces = self._pieces, []
        return pieces

    # ---- whole bodies -----------------------------------------------------------------------------------------------

    def read_whole(self, body: JsonObject) -> list[Event]:
        output = body.get("output")
        if not isinstance(output, dict) and (
            find_type(body) or isinstance(body.get("message", body.get("Message")), str)
        ):
            self._builder.fail(read_failure(None, body))
        else:
            self._builder.start()
            content = as_dict(as_dict(output).get("message")).get("content")
            for block in [{"text": content}] if isinstance(content, str) else dicts(content):
                self._read_block(block)
            self._keep_usage(body)
            self._keep_stop(body)
            self._builder.terminate()
        self._end()
        return self._builder.take()

    def _read_block(self, block: JsonObject) -> None:
        builder = self._builder
        use = block.get("toolUse")
        if "text" in block:
            builder.text(block["text"])
            builder.end_part("text")
        elif isinstance(use, dict) and not is_servers(use):
            builder.whole_call(use.get("toolUseId"), use.get("name"), use.get("input"))
        elif "reasoningContent" in block:
            text, opaque = open_reasoning(block["reasoningContent"])
            if text or len(opaque) > 1 or "redacted" in opaque:
                builder.thinking(text)
                builder.end_part("thinking", opaque)
        elif "citationsContent" in block:
            builder.text(cited_words(block))
            citations = as_list(as_dict(block["citationsContent"]).get("citations"))
            builder.end_part("text", {"citations": citations} if citations else None)
        elif "image" in block:
            builder.part(read_image(block))
        elif block:
            builder.end_part("text", {"block": block})

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _keep_stop(self, fields: JsonObject) -> None:
        reason = fields.get("stopReason")
        if isinstance(reason, str) and reason:
            self._stop = STOPS.get(reason, "unknown")
            self._extra["reason"] = reason
        self._keep(fields)

    def _keep_usage(self, fields: JsonObject) -> None:
        usage = read_usage(fields.get("usage"))
        if usage is not None:
            self._builder.usage(usage)
        self._keep(fields)

    def _keep(self, fields: JsonObject) -> None:
        self._extra.update({name: fields[name] for name in _KEPT if fields.get(name)})

    def _end(self) -> None:
        if not self._builder.ended:
            self._end_block()
            self._builder.stop(self._stop, self._extra)
            self._builder.end()


def _join_blobs(pieces: list[str]) -> str:
    """Base64 of bytes that came in pieces, each with an end of its own."""
    if len(pieces) < 2:
        return "".join(pieces)
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except (binascii.Error, ValueError):
        return "".join(pieces)
