"""Parts of chat messages: our texts, images, files and calls as this wire writes them, and back."""

from __future__ import annotations

from typing import Any

from dragoman.args.loader import load
from dragoman.types import Fault, File, Image, InvalidCall, JsonObject, Part, Provenance, Text, ToolCall
from dragoman.wire.texts import data_url, split_data_url
from dragoman.wire.values import as_dict, as_list, as_text, write

_ODD_FIELDS = frozenset({"custom", "extra_content"})

# ---- content -------------------------------------------------------------------------------------------------------


def write_content(parts: list[Part], wire: str) -> str | list[JsonObject]:
    """The content of a user message: a text where it is nothing but one, else a list of blocks."""
    if len(parts) == 1 and isinstance(parts[0], Text) and wire not in parts[0].extra:
        return parts[0].text
    return [block for part in parts if (block := write_block(part, wire)) is not None]


def write_block(part: Part, wire: str) -> JsonObject | None:
    if isinstance(part, Text) and not part.extra:
        return {"type": "text", "text": part.text}
    own = as_dict(getattr(part, "extra", {}).get(wire))
    if "block" in own:
        return as_dict(own["block"])
    if isinstance(part, Text):
        return {"type": "text", "text": part.text, **own}
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": data_url(part), **own}}
    if isinstance(part, File) and wire == "mistral":
        return {"type": "document_url", "document_url": data_url(part), "document_name": part.name, **own}
    if isinstance(part, File):
        file = {"file_data": data_url(part), "filename": part.name} if part.data or part.url else {}
        return {"type": "file", "file": {**file, **own}}
    return None


def read_content(content: Any, wire: str) -> list[Part]:
    """The parts of a message's content, whatever form it has."""
    if isinstance(content, str):
        return [Text(content)]
    return [read_block(block, wire) for block in as_list(content) if isinstance(block, dict | str)]


def read_block(block: JsonObject | str, wire: str) -> Part:
    if isinstance(block, str):
        return Text(block)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        own = {name: value for name, value in block.items() if name not in ("type", "text")}
        return Text(block["text"], {wire: own} if own else {})
    if kind == "image_url":
        return _read_image(block, wire)
    if kind == "document_url":
        url = as_text(block.get("document_url"))
        data = split_data_url(url)
        name = as_text(block.get("document_name"))
        return File(name, url=url) if data is None else File(name, data[1], None, data[0])
    if kind == "file":
        file = as_dict(block.get("file"))
        own = {name: value for name, value in file.items() if name not in ("file_data", "filename")}
        data = split_data_url(as_text(file.get("file_data")))
        name = as_text(file.get("filename"))
        extra = {wire: own} if own else {}
        if data is None:
            return File(name, url=as_text(file.get("file_data")) or None, extra=extra)
        return File(name, data[1], None, data[0], extra)
    # A kind that has no neutral form (audio) goes back to this wire as it came.
    return Text("", {wire: {"block": block}})


def _read_image(block: JsonObject, wire: str) -> Image:
    given = block.get("image_url")
    image = {"url": given} if isinstance(given, str) else as_dict(given)
    own = {name: value for name, value in image.items() if name != "url"}
    extra = {wire: own} if own else {}
    url = as_text(image.get("url"))
    data = split_data_url(url)
    return Image(url, extra=extra) if data is None else Image(None, data[1], data[0], extra)


# ---- calls -----------------------------------------------------------------------------------------------------------


def write_call(call: ToolCall | InvalidCall, wire: str) -> JsonObject:
    """A call of an assistant message. A call that could not be read goes out without arguments; it never ran."""
    own = as_dict(call.extra.get(wire)) if call.extra else {}
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    if own.get("type") == "custom":
        return {
            "id": call.id,
            "type": "custom",
            "custom": {"name": call.name, "input": as_text(arguments.get("input"))},
        }
    written: JsonObject = {"id": call.id, "type": "function"}
    written["function"] = {"name": call.name, "arguments": write(arguments)}
    return {**written, **{name: value for name, value in own.items() if name != "type"}} if own else written


def name_and_arguments(entry: JsonObject) -> tuple[Any, Any, JsonObject]:
    """The name, the arguments and this wire's own fields of a call, in the shapes that servers give it."""
    own: JsonObject = {}
    if not _ODD_FIELDS.isdisjoint(entry):
        custom = entry.get("custom")
        if isinstance(custom, dict):
            return custom.get("name"), {"input": as_text(custom.get("input"))}, {"type": "custom"}
        if isinstance(entry.get("extra_content"), dict):
            own["extra_content"] = entry["extra_content"]
    function = entry.get("function")
    body = function if isinstance(function, dict) else entry
    arguments = body["arguments"] if "arguments" in body else body.get("parameters")
    return body.get("name"), arguments, own


def read_call(entry: JsonObject, wire: str, fallback: str) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back."""
    name, arguments, own = name_and_arguments(entry)
    given = entry.get("id") or entry.get("call_id")
    wire_id = given if isinstance(given, str) else None
    extra = {wire: own} if own else {}
    label = as_text(name)
    loaded = load(arguments if isinstance(arguments, str | dict) else None)
    provenance = Provenance("native", wire)
    if loaded.value is None or not label:
        faults = loaded.errors or (Fault("$", "the call names no tool"),)
        return InvalidCall(wire_id or fallback, label, as_text(arguments), faults, provenance, extra, wire_id)
    return ToolCall(
        wire_id or fallback,
        label,
        loaded.value,
        repairs=loaded.repairs,
        provenance=provenance,
        extra=extra,
        wire_id=wire_id,
    )
