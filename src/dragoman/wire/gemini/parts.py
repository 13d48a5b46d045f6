"""Parts of contents: our texts, thoughts, images, files and calls as this wire writes them, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from dragoman.args.loader import load
from dragoman.types import Fault, File, Image, InvalidCall, JsonObject, Part, Provenance, Text, Thinking, ToolCall
from dragoman.wire.gemini.words import camel
from dragoman.wire.texts import split_data_url
from dragoman.wire.values import as_dict, as_text, write

WIRE = "gemini"

_KINDS = ("functionCall", "functionResponse", "inlineData", "fileData", "text")
_IMAGES: Mapping[str, str] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
}
_FILES: Mapping[str, str] = {"pdf": "application/pdf", "txt": "text/plain", "csv": "text/csv", "html": "text/html"}
# How the base64 text of an image begins.
_STARTS = (("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("UklGR", "image/webp"), ("R0lGOD", "image/gif"))
_CALLS = (ToolCall, InvalidCall)
_CONTENTS = frozenset(_KINDS)
_BESIDE = frozenset({"thought", "thoughtSignature", *_KINDS})


def kind_of(part: JsonObject) -> str:
    """Which kind of part this is; empty for kinds that have no neutral form, such as code that the server ran."""
    for kind in _KINDS:
        if part.get(kind) is not None:
            return kind
    # A part with nothing but a signature is an empty text.
    return "" if part.keys() - {"thought", "thoughtSignature"} else "text"


def tell(value: Any) -> str:
    """Any value as JSON text; empty for what has no such text."""
    try:
        return write(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return ""


# ---- what only this wire understands -------------------------------------------------------------------------------


def read_own(part: JsonObject) -> JsonObject:
    """The fields beside the content of a part: its signature, and whatever else stands there."""
    own: JsonObject = {}
    if _CONTENTS.issuperset(part):
        return own
    if part.get("thought") is True:
        own["thought"] = True
    signature = part.get("thoughtSignature")
    if isinstance(signature, str) and signature:
        own["thought_signature"] = signature
    own.update({name: value for name, value in part.items() if name not in _BESIDE})
    return own


def own_of(part: Part) -> JsonObject:
    return as_dict(part.extra.get(WIRE))


def write_own(own: JsonObject) -> JsonObject:
    """The fields beside the content of a part, as they came."""
    fields = {name: value for name, value in own.items() if name not in ("thought_signature", "displayName", "part")}
    if "thought_signature" in own:
        fields["thoughtSignature"] = own["thought_signature"]
    return fields


def _extra(own: JsonObject) -> dict[str, Any]:
    return {WIRE: own} if own else {}


# ---- reading -------------------------------------------------------------------------------------------------------


def read_part(given: JsonObject) -> Text | Thinking | Image | File:
    """A part of a history that is neither call nor result."""
    part = camel(given)
    kind = kind_of(part)
    own = read_own(part)
    if kind == "text":
        text = as_text(part.get("text"))
        return Thinking(text, _extra(own)) if own.get("thought") else Text(text, _extra(own))
    if kind in ("inlineData", "fileData"):
        return read_media(part)
    # A kind that has no neutral form goes back to this wire as it came.
    return Text("", {WIRE: {"part": given}})


def read_media(part: JsonObject) -> Image | File:
    """An image or file: its data, or where it lies."""
    own = read_own(part)
    inline = part.get("inlineData")
    blob = camel(as_dict(inline if inline is not None else part.get("fileData")))
    name = as_text(blob.get("displayName"))
    if name:
        own["displayName"] = name
    media_type = as_text(blob.get("mimeType")) or None
    data = _standard(as_text(blob.get("data"))) if inline is not None else None
    url = as_text(blob.get("fileUri")) if inline is None else None
    if (media_type or _guess(url or "") or "image/").startswith("image/"):
        return Image(url, data, media_type, _extra(own))
    return File(name, data, url, media_type, _extra(own))


def _standard(data: str) -> str:
    """Base64 in the alphabet that all wires take: clients of this one also send the alphabet for addresses."""
    if "-" in data or "_" in data:
        data = data.replace("-", "+").replace("_", "/")
    return data + "=" * (-len(data) % 4)


def read_call(given: JsonObject) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back. Its id is empty where the client gave none."""
    part = camel(given)
    call = camel(as_dict(part.get("functionCall")))
    identity = as_text(call.get("id")) or None
    name = as_text(call.get("name"))
    arguments = call.get("args")
    extra = _extra(read_own(part))
    provenance = Provenance("native", WIRE)
    loaded = load(arguments)
    if loaded.value is None or not name:
        faults = loaded.errors or (Fault("$", "the call names no tool"),)
        raw = arguments if isinstance(arguments, str) else tell(arguments)
        return InvalidCall(identity or "", name, raw, faults, provenance, extra, identity)
    return ToolCall(
        identity or "",
        name,
        loaded.value,
        repairs=loaded.repairs,
        provenance=provenance,
        extra=extra,
        wire_id=identity,
    )


# ---- writing -------------------------------------------------------------------------------------------------------


def write_part(part: Part) -> JsonObject | None:
    """A part as it stands in a content; None for what cannot stand there."""
    if isinstance(part, Text) and not part.extra:
        return {"text": part.text}
    own = own_of(part)
    if "part" in own:
        return as_dict(own["part"])
    if isinstance(part, Text):
        return {"text": part.text, **write_own(own)}
    if isinstance(part, _CALLS):
        return write_call(part)
    if isinstance(part, Thinking):
        return {"text": part.text, **write_own({"thought": True, **own})}
    return write_media(part) if isinstance(part, Image | File) else None


def write_media(part: Image | File) -> JsonObject | None:
    own = own_of(part)
    named = {"displayName": own["displayName"]} if "displayName" in own else {}
    data, media_type = part.data, part.media_type
    held = split_data_url(part.url) if data is None and part.url else None
    if held is not None:
        media_type, data = held
    if data is not None:
        blob = {"mimeType": media_type or _recognise(part, data), "data": data, **named}
        return {"inlineData": blob, **write_own(own)}
    if not part.url:
        return None
    known = media_type or _guess(part.url)
    typed = {"mimeType": known} if known else {}
    return {"fileData": {"fileUri": part.url, **typed, **named}, **write_own(own)}


def write_call(call: ToolCall | InvalidCall) -> JsonObject:
    """A call. One that could not be read goes out without arguments; it never ran."""
    identity = {} if is_anonymous(call) else {"id": call.id}
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    written: JsonObject = {"functionCall": {**identity, "name": call.name, "args": arguments}}
    return {**written, **write_own(own_of(call))} if call.extra else written


def is_anonymous(call: ToolCall | InvalidCall) -> bool:
    """Whether this wire gave the call without an id; then it and its result are sent back without one."""
    return call.wire_id is None and call.provenance is not None and call.provenance.format == WIRE


def _guess(url: str) -> str:
    """The media type that the end of an address tells, as far as it tells one."""
    end = url.partition("?")[0].rpartition(".")[2].lower()
    return _IMAGES.get(end) or _FILES.get(end) or ""


def _recognise(part: Image | File, data: str) -> str:
    """The media type of data that came without one."""
    fallback = "image/png" if isinstance(part, Image) else _guess(part.name) or "application/octet-stream"
    return next((kind for start, kind in _STARTS if data.startswith(start)), fallback)
