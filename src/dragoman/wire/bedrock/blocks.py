"""The blocks of a message: our parts as Converse writes them, and back.

A block that has no neutral form rides whole in `extra["bedrock"]["block"]` and goes back to this wire as it came. A
cache point stands behind a block; it rides in the `extra` of the part in front of it.
"""

from __future__ import annotations

from typing import Any

from dragoman.args.loader import load
from dragoman.types import Fault, File, Image, InvalidCall, JsonObject, Part, Provenance, Text, Thinking, ToolCall
from dragoman.types import ToolResult as Result
from dragoman.wire.bedrock.media import as_blob, read_document, read_image, read_other, write_document, write_image
from dragoman.wire.bedrock.words import WIRE, own
from dragoman.wire.report import Loss
from dragoman.wire.values import as_dict, as_list, as_text, dicts, write

_CALLS = (ToolCall, InvalidCall)

# ---- writing ---------------------------------------------------------------------------------------------------------


class BlockWriter:
    """Writes the parts of one request; what Converse cannot hold is told in words, and in the report."""

    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._documents: dict[str, int] = {}

    def write(self, part: Part, where: str, *, documents: bool = True) -> list[JsonObject]:
        """The block of a part, and the cache point behind it. `documents` is whether they may stand here."""
        block = self._write(part, where, documents)
        if block is None:
            return []
        if not part.extra:
            return [block]
        point = own(part.extra).get("cachePoint")
        return [block, {"cachePoint": point}] if isinstance(point, dict) else [block]

    def _write(self, part: Part, where: str, documents: bool) -> JsonObject | None:
        kept = own(part.extra).get("block") if part.extra else None
        if isinstance(kept, dict) and kept:
            return kept
        if isinstance(part, Text):
            return write_text(part)
        if isinstance(part, _CALLS):
            return write_call(part)
        if isinstance(part, Result):
            return self.write_result(part, where)
        if isinstance(part, Thinking):
            return write_thinking(part)
        if isinstance(part, Image):
            return write_image(part) or self._put_in_words(part, where, "image")
        written = write_document(part, self._documents) if documents else None
        if written is None:
            return self._put_in_words(part, where, "file")
        self._check_name(part, written, where)
        return written

    def _put_in_words(self, part: Image | File, where: str, kind: str) -> JsonObject:
        self._losses.append(Loss("dropped", where, f"an {kind} that Converse cannot take is only named"))
        return {"text": describe(part)}

    def _check_name(self, file: File, written: JsonObject, where: str) -> None:
        name = written["document"]["name"]
        if name != file.name:
            self._losses.append(Loss("renamed", where, f"the document {file.name!r} is called {name!r} on this wire"))

    def write_result(self, result: Result, where: str = "result") -> JsonObject:
        answers = [Text(result.content)] if isinstance(result.content, str) else result.content
        content = [block for part in answers if (block := self._write_answer(part, where)) is not None]
        written: JsonObject = {"toolUseId": result.call_id, "content": content}
        if result.is_error:
            written["status"] = "error"
        return {"toolResult": written}

    def _write_answer(self, part: Text | Image | File, where: str) -> JsonObject | None:
        if not isinstance(part, Text):
            return self._write(part, where, documents=True)
        if part.extra and "json" in own(part.extra):
            return {"json": own(part.extra)["json"]}
        if part.text and part.text.isspace():
            self._losses.append(Loss("dropped", where, "a text of blanks alone"))
        return self._write(part, where, documents=True) if part.extra else write_text(part)


def describe(part: Image | File) -> str:
    """The words in place of an image or file that cannot be sent."""
    name = part.name if isinstance(part, File) else ""
    address = part.url if part.url and not part.url.startswith("data:") else ""
    kind = "image" if isinstance(part, Image) else "file"
    return f"[{kind}: {name or address or part.media_type or 'without a name'}]"


def write_text(part: Text) -> JsonObject | None:
    if not part.text or part.text.isspace():
        return None
    citations = own(part.extra).get("citations") if part.extra else None
    if isinstance(citations, list):
        return {"citationsContent": {"content": [{"text": part.text}], "citations": citations}}
    return {"text": part.text}


def write_thinking(part: Thinking) -> JsonObject | None:
    """A block of reasoning, or None where nothing of it can be shown."""
    opaque = own(part.extra)
    redacted = as_text(opaque.get("redacted"))
    if redacted:
        return {"reasoningContent": {"redactedContent": redacted}}
    signature = as_text(opaque.get("signature"))
    if not part.text and not signature:
        return None
    signed = {"signature": signature} if signature else {}
    return {"reasoningContent": {"reasoningText": {"text": part.text, **signed}}}


def write_call(call: ToolCall | InvalidCall) -> JsonObject:
    """A call. One that could not be read goes out without arguments; it never ran."""
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": arguments}}


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_block(block: JsonObject) -> Part:
    """Any block that is neither a call nor a result; one that holds nothing is an empty text."""
    if "text" in block or not any(isinstance(value, dict) for value in block.values()):
        return Text(as_text(block.get("text")))
    if "image" in block:
        return read_image(block)
    if "document" in block:
        return read_document(block)
    for kind in ("video", "audio"):
        if kind in block:
            return read_other(kind, block)
    if "citationsContent" in block:
        return Text(
            cited_words(block), {WIRE: {"citations": as_list(as_dict(block["citationsContent"]).get("citations"))}}
        )
    if "reasoningContent" in block:
        return read_thinking(block)
    return Text(_words_of(block), {WIRE: {"block": block}})


def read_thinking(block: JsonObject) -> Thinking:
    text, opaque = open_reasoning(block.get("reasoningContent"))
    return Thinking(text, {WIRE: opaque})


def open_reasoning(value: Any) -> tuple[str, JsonObject]:
    """The words of a `reasoningContent`, and what has to go back with them."""
    content = as_dict(value)
    redacted = as_blob(content.get("redactedContent"))
    if redacted:
        return "", {"redacted": redacted}
    inner = as_dict(content.get("reasoningText"))
    signature = as_text(inner.get("signature"))
    return as_text(inner.get("text")), {"field": "reasoningText", **({"signature": signature} if signature else {})}


def cited_words(block: JsonObject) -> str:
    content = as_dict(block.get("citationsContent")).get("content")
    return "".join(as_text(entry.get("text")) for entry in dicts(content))


def _words_of(block: JsonObject) -> str:
    """What other wires can be told of a block that only this one has."""
    found = as_dict(block.get("searchResult"))
    if found:
        words = [as_text(found.get("title")), as_text(found.get("source"))]
        words += [as_text(entry.get("text")) for entry in dicts(found.get("content"))]
        return "\n".join(filter(None, words))
    return as_text(as_dict(as_dict(block.get("guardContent")).get("text")).get("text"))


def read_call(use: JsonObject, fallback: str) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back."""
    wire_id = as_text(use.get("toolUseId")) or None
    name = as_text(use.get("name"))
    given = use.get("input")
    provenance = Provenance("native", WIRE)
    loaded = load(given)
    if loaded.value is None or not name:
        faults = loaded.errors or (Fault("$", "the call names no tool"),)
        raw = given if isinstance(given, str) else "" if given is None else write_value(given)
        return InvalidCall(wire_id or fallback, name, raw, faults, provenance, {}, wire_id)
    identity = wire_id or fallback
    return ToolCall(identity, name, loaded.value, repairs=loaded.repairs, provenance=provenance, wire_id=wire_id)


def write_value(value: Any) -> str:
    """JSON text of whatever a client sent."""
    try:
        return write(value)
    except RecursionError:
        return "[nested too deeply]"


def read_answers(content: Any) -> str | list[Text | Image | File]:
    """The content of a result: a text where it is nothing but one."""
    parts: list[Text | Image | File] = []
    for block in dicts(content):
        if "json" in block:
            # Only an object may stand there; anything else goes on as its text.
            kept = {WIRE: {"json": block["json"]}} if isinstance(block["json"], dict) else {}
            parts.append(Text(write_value(block["json"]), kept))
            continue
        part = read_block(block)
        if isinstance(part, Text | Image | File):
            parts.append(part)
    if len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].extra:
        return parts[0].text
    return parts or as_text(content)


def is_servers(use: JsonObject) -> bool:
    """Whether a call is one that the provider runs itself; nobody else may run it."""
    return bool(use.get("type"))
