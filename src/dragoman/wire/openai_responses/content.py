"""Texts, images and files as this wire writes them in messages and results, and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.types import File, Image, JsonObject, Part, Text
from dragoman.wire.openai_responses.words import WIRE
from dragoman.wire.report import Loss
from dragoman.wire.texts import split_data_url
from dragoman.wire.values import as_dict, as_text, write

_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_OWN = ("file_id", "prompt_cache_breakpoint")
# How base64 of the common kinds begins.
_MAGIC = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi0", "application/pdf"),
)


# ---- writing -------------------------------------------------------------------------------------------------------


def write_content(parts: Iterable[Part], losses: list[Loss]) -> str | list[JsonObject]:
    """The content of a message: a text where it is nothing but one, else a list."""
    given = list(parts)
    if not given:
        return ""
    if len(given) == 1 and isinstance(given[0], Text) and WIRE not in given[0].extra:
        return given[0].text
    return write_parts(given, losses)


def write_parts(parts: Iterable[Part], losses: list[Loss]) -> list[JsonObject]:
    return [_write_part(part, losses) for part in parts if isinstance(part, Text | Image | File)]


def _write_part(part: Text | Image | File, losses: list[Loss]) -> JsonObject:
    own = as_dict(part.extra.get(WIRE))
    whole = own.get("part")
    if isinstance(whole, dict):
        return whole
    kept = {name: own[name] for name in _OWN if name in own}
    if isinstance(part, Text):
        kept.pop("file_id", None)
        return {"type": "input_text", "text": part.text, **kept}
    if isinstance(part, Image):
        return _write_image(part, {"detail": as_text(own.get("detail"), "auto"), **kept}, losses)
    if own.get("detail") is not None:
        kept["detail"] = own["detail"]
    return _write_file(part, kept, losses)


def _write_image(image: Image, kept: JsonObject, losses: list[Loss]) -> JsonObject:
    if image.data is not None:
        kept.pop("file_id", None)
        media = image.media_type or _find_media(image.data)
        if media is None:
            media = "image/png"
            losses.append(Loss("guessed", "image", "an image without a media type is sent as image/png"))
        return {"type": "input_image", "image_url": f"data:{media};base64,{image.data}", **kept}
    if image.url:
        kept.pop("file_id", None)
        return {"type": "input_image", "image_url": image.url, **kept}
    if "file_id" in kept:
        return {"type": "input_image", **kept}
    return _write_missing("image", "", losses)


def _write_file(file: File, kept: JsonObject, losses: list[Loss]) -> JsonObject:
    named = {"filename": file.name} if file.name else {}
    if file.data is not None:
        kept.pop("file_id", None)
        media = file.media_type or _find_media(file.data) or "application/octet-stream"
        return {"type": "input_file", **named, "file_data": f"data:{media};base64,{file.data}", **kept}
    if file.url:
        kept.pop("file_id", None)
        # An address has its name in itself: the API refuses a second one.
        return {"type": "input_file", "file_url": file.url, **kept}
    if "file_id" in kept:
        return {"type": "input_file", **kept}
    return _write_missing("file", file.name, losses)


def _write_missing(kind: str, name: str, losses: list[Loss]) -> JsonObject:
    losses.append(Loss("dropped", kind, f"the {kind} {name} has neither data nor an address that this wire can use"))
    return {"type": "input_text", "text": f"[{kind} {name}: not available]".replace(" :", ":")}


def _find_media(data: str) -> str | None:
    return next((media for magic, media in _MAGIC if data.startswith(magic)), None)


# ---- reading -------------------------------------------------------------------------------------------------------


def read_content(content: Any) -> list[Text | Image | File]:
    """The parts of a content, which is a text or a list of parts."""
    if isinstance(content, str):
        return [Text(content)]
    entries = content if isinstance(content, list) else [content] if isinstance(content, dict) else []
    return [part for entry in entries if (part := _read_part(entry)) is not None]


def _read_part(entry: Any) -> Text | Image | File | None:
    if isinstance(entry, str):
        return Text(entry)
    if not isinstance(entry, dict):
        return None
    kind = entry.get("type")
    own = {name: entry[name] for name in _OWN if entry.get(name) is not None}
    if kind == "input_image":
        return _read_image(entry, own)
    if kind == "input_file":
        return _read_file(entry, own)
    if isinstance(kind, str) and kind in _TEXTS and isinstance(entry.get("text"), str):
        own.pop("file_id", None)
        return Text(entry["text"], {WIRE: own} if own else {})
    if kind == "input_audio":
        sound = as_dict(entry.get("input_audio"))
        format = as_text(sound.get("format"), "wav")
        data = sound.get("data")
        return File(f"audio.{format}", as_text(data) or None, None, f"audio/{format}", {WIRE: {"part": entry}})
    # A kind that is not known here: its own wire gets it back as it was, others see what it said.
    return Text(write(entry), {WIRE: {"part": entry}})


def _read_image(entry: JsonObject, own: JsonObject) -> Image:
    if entry.get("detail") not in (None, "auto"):
        own["detail"] = entry["detail"]
    extra = {WIRE: own} if own else {}
    address = entry.get("image_url")
    url = as_text(address.get("url") if isinstance(address, dict) else address)
    inside = split_data_url(url)
    if inside is not None:
        return Image(None, inside[1], inside[0] or None, extra)
    return Image(url or None, extra=extra)


def _read_file(entry: JsonObject, own: JsonObject) -> File:
    if entry.get("detail") is not None:
        own["detail"] = entry["detail"]
    extra = {WIRE: own} if own else {}
    name = as_text(entry.get("filename"))
    data = entry.get("file_data")
    if isinstance(data, str):
        media, plain = split_data_url(data) or ("", data)
        return File(name, plain, None, media or None, extra)
    return File(name, None, as_text(entry.get("file_url")) or None, None, extra)
