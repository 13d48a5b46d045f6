"""The blocks of a message: our parts as this wire writes them, and back."""

from __future__ import annotations

from typing import Any

from dragoman.args.loader import Loaded, load
from dragoman.types import (
    Fault,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Part,
    Provenance,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.wire.anthropic.media import read_document, read_image, write_media
from dragoman.wire.anthropic.words import WIRE, own, without, wrap
from dragoman.wire.report import Loss
from dragoman.wire.values import as_list, as_text, dicts

_CALLS = (ToolCall, InvalidCall)

# ---- ours to the wire's ----------------------------------------------------------------------------------------------


def write_block(part: Part, losses: list[Loss]) -> JsonObject | None:
    """One part as a block; None for a part of which nothing is left to write."""
    if isinstance(part, Text):
        return write_text(part)
    if isinstance(part, _CALLS):
        return write_call(part)
    if isinstance(part, ToolResult):
        return write_result(part, losses)
    if isinstance(part, Thinking):
        return write_thinking(part)
    return write_media(part, losses)


def write_text(part: Text) -> JsonObject | None:
    if not part.extra:
        return {"type": "text", "text": part.text} if part.text else None
    extra = own(part.extra)
    block = extra.get("block")
    if isinstance(block, dict):
        # A block that has no neutral form goes back as it came.
        return block
    return {"type": "text", "text": part.text, **extra} if part.text else None


def write_thinking(part: Thinking) -> JsonObject | None:
    extra = own(part.extra)
    data, signature = extra.get("data"), as_text(extra.get("signature"))
    if isinstance(data, str) and not part.text:
        return {"type": "redacted_thinking", "data": data}
    if not part.text and not signature:
        return None
    return {"type": "thinking", "thinking": part.text, "signature": signature}


def write_call(call: ToolCall | InvalidCall) -> JsonObject:
    """A call that could not be read goes out without arguments; it never ran."""
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    block: JsonObject = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
    return {**block, **own(call.extra)} if call.extra else block


def write_result(result: ToolResult, losses: list[Loss]) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": result.call_id, "content": ""}
    if isinstance(result.content, str):
        block["content"] = result.content
    else:
        block["content"] = _write_contents(result.content, losses) or ""
    if result.is_error:
        block["is_error"] = True
    return {**block, **own(result.extra)} if result.extra else block


def _write_contents(content: list[Text | Image | File], losses: list[Loss]) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    for part in content:
        if isinstance(part, Text) and part.text.isspace():
            losses.append(Loss("dropped", "history", "blank text in a result, which this wire refuses"))
            continue
        block = write_text(part) if isinstance(part, Text) else write_media(part, losses)
        if block is not None:
            blocks.append(block)
    return blocks


# ---- the wire's to ours ----------------------------------------------------------------------------------------------


def read_contents(content: Any) -> list[Text | Image | File]:
    """The parts of a content that holds neither calls nor results, whatever form it has."""
    if isinstance(content, str):
        return [Text(content)]
    return [read_plain(block) for block in as_list(content) if isinstance(block, dict | str)]


def read_plain(block: JsonObject | str) -> Text | Image | File:
    if isinstance(block, str):
        return Text(block)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return Text(block["text"], wrap(without(block, "type", "text")))
    if kind == "image":
        return read_image(block)
    if kind == "document":
        return read_document(block)
    return Text(_find_words(block), {WIRE: {"block": block}})


def _find_words(block: JsonObject) -> str:
    """What a block of an unknown kind says in words, for whoever cannot take the block itself."""
    if block.get("type") == "search_result":
        words = [as_text(block.get("title")), as_text(block.get("source"))]
        words += [as_text(entry.get("text")) for entry in dicts(block.get("content"))]
        return "\n".join(filter(None, words))
    return as_text(block.get("text"))


def read_thinking(block: JsonObject) -> Thinking | None:
    if block.get("type") == "redacted_thinking":
        data = as_text(block.get("data"))
        return Thinking("", {WIRE: {"data": data}}) if data else None
    text, signature = as_text(block.get("thinking")), as_text(block.get("signature"))
    return Thinking(text, {WIRE: {"signature": signature}}) if text or signature else None


def read_call(block: JsonObject, fallback: str) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back."""
    given = block.get("id")
    wire_id = given if isinstance(given, str) and given else None
    name, arguments = as_text(block.get("name")), block.get("input")
    extra = wrap(without(block, "type", "id", "name", "input"))
    # An object needs no reading; anything else is not as the wire has it.
    loaded = Loaded(arguments) if isinstance(arguments, dict) else load(arguments)
    provenance = Provenance("native", WIRE)
    if loaded.value is None or not name:
        faults = loaded.errors or (Fault("$", "the call names no tool"),)
        raw = as_text(arguments)
        return InvalidCall(wire_id or fallback, name, raw, faults, provenance, extra, wire_id)
    return ToolCall(
        wire_id or fallback,
        name,
        loaded.value,
        repairs=loaded.repairs,
        provenance=provenance,
        extra=extra,
        wire_id=wire_id,
    )


def read_result(block: JsonObject, identity: str, name: str) -> ToolResult:
    content = block.get("content")
    return ToolResult(
        identity,
        name,
        content if isinstance(content, str) else read_contents(content) or "",
        is_error=block.get("is_error") is True,
        extra=wrap(without(block, "type", "tool_use_id", "content", "is_error")),
    )
