"""What a tool of a server gave back, as a result of ours. Whatever it holds, something is shown for it."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Any

import msgspec

from dragoman.mcp.errors import ServerFault
from dragoman.mcp.limits import Limits
from dragoman.mcp.texts import clean_line
from dragoman.tools.json_values import whole
from dragoman.types import File, Image, JsonObject, Text, ToolResult

Part = Text | Image | File
_is_media_type = re.compile(r"[a-z]+/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}").fullmatch


def read_result(result: JsonObject, limits: Limits) -> ToolResult:
    """The result of a call: `content` for the model, `structuredContent` as data for the caller."""
    if result.get("resultType", "complete") != "complete":
        raise ServerFault("the server asks for something that only a person could answer, which is not offered to it")
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    parts = [_part_of(block) for block in blocks[: limits.result_parts]]
    if len(blocks) > limits.result_parts:
        parts.append(Text(f"[{len(blocks) - limits.result_parts} more parts left out]"))
    data = result.get("structuredContent")
    if not parts and data is not None:
        parts.append(Text(msgspec.json.encode(data).decode()))
    texts = [part.text for part in parts if isinstance(part, Text)]
    return ToolResult(
        "",
        content="\n".join(texts) if len(texts) == len(parts) else parts,
        is_error=result.get("isError") is True,
        data=data,
    )


def _part_of(block: Any) -> Part:
    if not isinstance(block, dict):
        return Text("[a part that is no object, left out]")
    kind = block.get("type")
    text, data = block.get("text"), block.get("data")
    if kind == "text" and isinstance(text, str):
        return Text(whole(text))
    if kind in ("image", "audio"):
        return _media(kind, data, block.get("mimeType"))
    if kind == "resource_link":
        return Text(_link(block))
    resource = block.get("resource")
    if kind == "resource" and isinstance(resource, dict):
        return _resource(resource)
    return Text(f"[a part of the unknown kind {clean_line(kind, 40)!r}, left out]")


def _media(kind: str, data: Any, media_type: Any) -> Part:
    if not _is_base64(data) or not _is_type(media_type, kind):
        return Text(f"[an {kind} that cannot be read, left out]")
    if kind == "image":
        return Image(data=data, media_type=media_type)
    return File(f"audio.{media_type.partition('/')[2]}", data, media_type=media_type)


def _link(block: JsonObject) -> str:
    """A link is shown and not followed: the address is the server's choice."""
    words = [clean_line(block.get(key), 200) for key in ("name", "uri", "mimeType", "description")]
    return f"[link to a resource: {', '.join(filter(None, words))}]"


def _resource(resource: JsonObject) -> Part:
    text, blob, media_type = resource.get("text"), resource.get("blob"), resource.get("mimeType")
    name = clean_line(resource.get("uri"), 200) or "resource"
    if isinstance(text, str):
        return Text(whole(text))
    if not _is_base64(blob):
        return Text(f"[the resource {name} cannot be read, left out]")
    if _is_type(media_type, "image"):
        return Image(data=blob, media_type=media_type)
    is_known = isinstance(media_type, str) and _is_media_type(media_type) is not None
    return File(name, blob, media_type=media_type if is_known else None)


def _is_base64(data: Any) -> bool:
    try:
        return isinstance(data, str) and bool(b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return False


def _is_type(media_type: Any, kind: str) -> bool:
    return isinstance(media_type, str) and media_type.startswith(f"{kind}/") and _is_media_type(media_type) is not None
