"""Images and files among a tool's answers, known by what they are and not by which library made them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Any

from dragoman.tools.plain import json_text, whole
from dragoman.types import File, Image, Text

Part = Text | Image | File
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def media_part(value: Any) -> Part | None:
    """The part that an image or some bytes become; None for anything else."""
    if isinstance(value, Text | Image | File):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return part_of_bytes(bytes(value))
    # PIL's images and others can draw themselves for a notebook, which is all that is needed here.
    for method, media_type in (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg")):
        draw = getattr(type(value), method, None)
        if callable(draw):
            drawn = _drawn(draw, value)
            if drawn is not None:
                return Image(data=b64encode(drawn).decode(), media_type=media_type)
    return None


def _drawn(draw: Any, value: Any) -> bytes | None:
    try:
        drawn = draw(value)
    except Exception:  # Then it is no image after all.
        return None
    return drawn if isinstance(drawn, bytes) and drawn else None


def part_of_bytes(content: bytes) -> Part:
    """An image by its first bytes, else text if it is some, else a file."""
    media_type = _media_type(content)
    if media_type is not None:
        return Image(data=b64encode(content).decode(), media_type=media_type)
    if content.startswith(b"%PDF-"):
        return File("output.pdf", b64encode(content).decode(), media_type="application/pdf")
    try:
        return Text(content.decode())
    except UnicodeDecodeError:
        return File("output.bin", b64encode(content).decode(), media_type="application/octet-stream")


def _media_type(content: bytes) -> str | None:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in _IMAGES.items() if content.startswith(start)), None)


# ---- results of MCP servers ----------------------------------------------------------------------------------------


class McpResult:
    """A `CallToolResult`, whether it came as a dict or as an object of some SDK."""

    __slots__ = ("data", "is_error", "parts")

    def __init__(self, content: list[Any], is_error: bool, data: Any) -> None:
        self.parts = [_mcp_part(each) for each in content]
        self.is_error = is_error
        self.data = data


def mcp_result(value: Any) -> McpResult | None:
    """The value as a result of an MCP server; None when it is none."""
    content, is_error = _get(value, "content"), _get(value, "isError", "is_error")
    data = _get(value, "structuredContent", "structured_content")
    if not isinstance(content, list) or (not isinstance(is_error, bool) and data is None):
        return None
    return McpResult(content, is_error is True, data)


def _mcp_part(block: Any) -> Part:
    kind, data, media_type = _get(block, "type"), _get(block, "data"), _get(block, "mimeType", "mime_type")
    text = _get(block, "text")
    if kind == "text" and isinstance(text, str):
        return Text(whole(text))
    if kind == "image" and isinstance(data, str):
        return Image(data=data, media_type=media_type)
    if kind == "audio" and isinstance(data, str):
        return File("audio", data, media_type=media_type)
    if kind == "resource_link":
        return Text(str(_get(block, "uri") or ""))
    resource = _get(block, "resource")
    text, blob = _get(resource, "text"), _get(resource, "blob")
    if isinstance(text, str):
        return Text(whole(text))
    if isinstance(blob, str):
        return File(str(_get(resource, "uri") or "resource"), blob, media_type=_get(resource, "mimeType", "mime_type"))
    return Text(json_text(block))


def _get(source: Any, *names: str) -> Any:
    for name in names:
        value = source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)
        if value is not None:
            return value
    return None
