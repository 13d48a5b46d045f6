"""Images and documents: ours as blocks of this wire, and back."""

from __future__ import annotations

import base64
import binascii

from dragoman.types import File, Image, JsonObject
from dragoman.wire.anthropic.words import own, without, wrap
from dragoman.wire.report import Loss
from dragoman.wire.texts import split_data_url
from dragoman.wire.values import as_dict, as_text

_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
# How the base64 of these types begins: for data that came without its type.
_BEGINNINGS = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi", _PDF),
)


def _find_type(part: Image | File, data: str) -> str:
    if part.media_type:
        plain = part.media_type.partition(";")[0].strip().lower()
        return "image/jpeg" if plain == "image/jpg" else plain
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), "")


def write_media(part: Image | File, losses: list[Loss]) -> JsonObject:
    """An image or a document as a block; a note in its place where this wire cannot take it."""
    extra = own(part.extra)
    kind = "image" if isinstance(part, Image) else "document"
    source = as_dict(extra.get("source")) or _write_source(part)
    if source is None:
        label = f"{part.media_type or 'unknown'} {'image' if kind == 'image' else 'file'}"
        losses.append(Loss("dropped", "history", f"this wire takes no {label}"))
        name = f" {part.name}" if isinstance(part, File) and part.name else ""
        return {"type": "text", "text": f"[{label}{name}: it could not be sent]"}
    if as_text(source.get("media_type")) in _PICTURES:
        kind = "image"
    title = {"title": part.name} if isinstance(part, File) and part.name and kind == "document" else {}
    return {"type": kind, "source": source, **title, **{key: extra[key] for key in extra if key != "source"}}


def _write_source(part: Image | File) -> JsonObject | None:
    data, kind = part.data, part.media_type
    if data is None:
        url = part.url or ""
        held = split_data_url(url)
        if held is None:
            return {"type": "url", "url": url} if url.startswith(("https://", "http://")) else None
        kind, data = held
    kind = _find_type(part, data) if part.data is not None else kind
    if kind in _PICTURES or (kind == _PDF and isinstance(part, File)):
        return {"type": "base64", "media_type": kind, "data": data}
    if isinstance(part, File) and kind and (kind.startswith("text/") or kind == "application/json"):
        return _write_text(data)
    return None


def _write_text(data: str) -> JsonObject | None:
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    return {"type": "text", "media_type": "text/plain", "data": text}


def read_image(block: JsonObject) -> Image:
    source = as_dict(block.get("source"))
    extra = without(block, "type", "source")
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return Image(None, source["data"], as_text(source.get("media_type")) or None, wrap(extra))
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Image(source["url"], extra=wrap(extra))
    # A stored file, or a kind of source that came later: only this wire can follow it.
    return Image(extra=wrap({"source": source, **extra}))


def read_document(block: JsonObject) -> File:
    source = as_dict(block.get("source"))
    name = as_text(block.get("title"))
    extra = without(block, "type", "source", "title")
    data, kind = source.get("data"), as_text(source.get("media_type"))
    if source.get("type") == "base64" and isinstance(data, str):
        return File(name, data, None, kind or None, wrap(extra))
    if source.get("type") == "text" and isinstance(data, str):
        written = base64.b64encode(data.encode("utf-8", "replace")).decode()
        return File(name, written, None, "text/plain", wrap(extra))
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return File(name, None, source["url"], None, wrap(extra))
    return File(name, extra=wrap({"source": source, **extra}))
