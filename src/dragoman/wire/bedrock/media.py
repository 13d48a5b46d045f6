"""Images and documents as Converse carries them: a format and its bytes, or a place in S3."""

from __future__ import annotations

import base64
import re
from typing import Any

from dragoman.types import File, Image, JsonObject
from dragoman.wire.bedrock.words import WIRE, own
from dragoman.wire.texts import split_data_url
from dragoman.wire.values import as_dict, as_text, dicts

_IMAGES = ("png", "jpeg", "gif", "webp")
_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
_DOCUMENT_FORMATS = {media_type: format for format, media_type in _DOCUMENTS.items()}
_READABLE = re.compile(r"text/.*|application/(.*\+)?(json|xml|yaml|toml)|application/x-(yaml|toml)")
# Bedrock takes letters, digits, single blanks, hyphens and brackets in the name of a document.
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9\s()\[\]-]")
_LONGEST_NAME = 200
_NOT_OF_DOCUMENT = ("block", "cachePoint", "location")


def as_blob(value: Any) -> str:
    """Bytes as JSON carries them; whoever reads answers with the AWS client has them as they are."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else as_text(value)


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_image(image: Image) -> JsonObject | None:
    """The block of an image, or None where Converse has no form for it (an address in the web, another format)."""
    media_type, source = _find_source(image)
    format = _image_format(media_type or "", image.url or "")
    return {"image": {"format": format, "source": source}} if source and format else None


def _image_format(media_type: str, url: str) -> str:
    name = media_type.partition("/")[2].lower() if media_type.startswith("image/") else url.rpartition(".")[2].lower()
    name = "jpeg" if name == "jpg" else name
    return name if name in _IMAGES else ""


def write_document(file: File, taken: dict[str, int]) -> JsonObject | None:
    """The block of a document under a name that is not taken yet, or None where Converse has no form for it.

    `taken` counts how often each name was given: two documents of one name are refused.
    """
    media_type, source = _find_source(file)
    format = _document_format(media_type or "", file.name)
    if not source or not format:
        return None
    name = _tell_apart(clean_name(file.name, format), taken)
    rest = {key: value for key, value in own(file.extra).items() if key not in _NOT_OF_DOCUMENT}
    return {"document": {"format": format, "name": name, "source": source, **rest}}


def _document_format(media_type: str, name: str) -> str:
    plain = media_type.partition(";")[0].strip().lower()
    if plain in _DOCUMENT_FORMATS:
        return _DOCUMENT_FORMATS[plain]
    ending = name.rpartition(".")[2].lower()
    if plain in ("", "application/octet-stream") and ending in _DOCUMENTS:
        return ending
    return "txt" if _READABLE.fullmatch(plain) else ""


def clean_name(name: str, format: str) -> str:
    """A name that Bedrock takes: without the ending that the format says anyway, and without other signs."""
    stem = name.removesuffix(f".{format}")
    return " ".join(_NOT_IN_NAMES.sub(" ", stem).split())[:_LONGEST_NAME].strip() or "document"


def _tell_apart(name: str, taken: dict[str, int]) -> str:
    unique = name
    while unique in taken:
        taken[name] += 1
        unique = f"{name[: _LONGEST_NAME - 8]} {taken[name]}"
    taken[unique] = 1
    return unique


def _find_source(part: Image | File) -> tuple[str | None, JsonObject]:
    """The media type and the `source` of a part; an empty one for an address that Bedrock cannot read."""
    if part.data:
        return part.media_type, {"bytes": part.data}
    url = part.url or ""
    if url.startswith("s3://"):
        return part.media_type, {"s3Location": {"uri": url, **as_dict(own(part.extra).get("location"))}}
    inline = split_data_url(url)
    return (inline[0], {"bytes": inline[1]}) if inline and inline[1] else (part.media_type, {})


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_image(block: JsonObject) -> Image:
    """The image of an `image` block."""
    image = as_dict(block.get("image"))
    format = as_text(image.get("format"))
    media_type = f"image/{format}" if format else None
    data, url, location = _read_source(image.get("source"))
    extra = {WIRE: {"location": location}} if location else {}
    return Image(url, data, media_type, extra)


def read_document(block: JsonObject) -> File:
    """The file of a `document` block; one whose source is text goes back to this wire as it came."""
    document = as_dict(block.get("document"))
    format = as_text(document.get("format"))
    media_type = _DOCUMENTS.get(format, f"application/{format}" if format else None)
    data, url, _ = _read_source(document.get("source"))
    rest = {name: value for name, value in document.items() if name not in ("format", "name", "source")}
    kept: JsonObject = rest
    if data is None or format not in _DOCUMENTS:
        kept = {"block": block}
        data = data or _read_words(as_dict(document.get("source")))
        media_type = media_type or "text/plain"
    extra = {WIRE: kept} if kept else {}
    return File(as_text(document.get("name")), data, url, media_type, extra)


def read_other(kind: str, block: JsonObject) -> File:
    """A video or a recording: a file to everyone else, and the same block again to this wire."""
    body = as_dict(block.get(kind))
    data, url, _ = _read_source(body.get("source"))
    return File(kind, data, url, f"{kind}/{as_text(body.get('format')) or '*'}", {WIRE: {"block": block}})


def _read_source(value: Any) -> tuple[str | None, str | None, JsonObject]:
    source = as_dict(value)
    location = as_dict(source.get("s3Location"))
    rest = {name: entry for name, entry in location.items() if name != "uri"}
    return as_blob(source.get("bytes")) or None, as_text(location.get("uri")) or None, rest


def _read_words(source: JsonObject) -> str | None:
    text = as_text(source.get("text")) or "\n".join(
        as_text(entry.get("text")) for entry in dicts(source.get("content"))
    )
    return base64.b64encode(text.encode("utf-8", "replace")).decode() if text else None
