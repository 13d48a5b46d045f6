"""What servers send: results of calls, resources and prompts. All of it is untrusted content."""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.mcp.protocol import Limits, ServerFault, clean_line, clean_text
from dragoman.tools.json_values import whole
from dragoman.types import File, Image, JsonObject, Message, Text, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# Results. Every part is shown in some form.

Part = Text | Image | File
_is_media_type = re.compile(r"[a-z]+/[a-z0-9][a-z0-9!#$&^_.+-]{0,100}").fullmatch


def read_result(result: JsonObject, limits: Limits) -> ToolResult:
    """Convert the result of a call: `content` is for the model, `structuredContent` is data for the caller."""
    content = result.get("content")
    blocks = content if isinstance(content, list) else []
    parts = [_part_of(block) for block in blocks[: limits.result_parts]]
    if len(blocks) > limits.result_parts:
        parts.append(Text(f"[{len(blocks) - limits.result_parts} more parts left out]"))
    data = result.get("structuredContent")
    if not parts and data is not None:
        parts.append(Text(msgspec.json.encode(data).decode()))
    texts = [part.text for part in parts if isinstance(part, Text)]
    shown = "\n".join(texts) if len(texts) == len(parts) else parts
    return ToolResult("", content=shown, is_error=result.get("isError") is True, data=data)


def _part_of(block: Any) -> Part:
    if not isinstance(block, dict):
        return Text("[a part that is no object, left out]")
    match block:
        case {"type": "text", "text": str(text)}:
            return Text(whole(text))
        case {"type": "image" | "audio" as kind}:
            return _media(kind, block.get("data"), block.get("mimeType"))
        case {"type": "resource_link"}:
            # A link is shown and not followed: the server chose the URL.
            words = [clean_line(block.get(key), 200) for key in ("name", "uri", "mimeType", "description")]
            return Text(f"[link to a resource: {', '.join(filter(None, words))}]")
        case {"type": "resource", "resource": dict(resource)}:
            return _resource(resource)
    return Text(f"[a part of the unknown kind {clean_line(block.get('type'), 40)!r}, left out]")


def _media(kind: str, data: Any, media_type: Any) -> Part:
    if not _is_base64(data) or not _is_type(media_type, kind):
        return Text(f"[an {kind} that cannot be read, left out]")
    if kind == "image":
        return Image(data=data, media_type=media_type)
    return File(f"audio.{media_type.partition('/')[2]}", data, media_type=media_type)


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


# --------------------------------------------------------------------------------------------------------------------
# Resources: data that a server offers by URI, and templates of URIs.


class Resource(Struct, frozen=True):
    """A resource of a server, or a template with `{name}` in its URI."""

    server: str
    uri: str
    name: str = ""
    description: str = ""
    media_type: str = ""
    is_template: bool = False


def read_resources(server: str, listed: list[Any], limits: Limits) -> list[Resource]:
    """Return the valid resources of a list."""
    found = []
    for each in listed[: limits.tools]:
        uri = (each.get("uri") or each.get("uriTemplate")) if isinstance(each, dict) else None
        if not isinstance(uri, str) or not uri or len(uri) > 2000:
            continue
        # The URI is sent back as it is, and only a cleaned one is shown.
        found.append(
            Resource(
                server,
                uri,
                clean_line(each.get("title") or each.get("name"), 200),
                clean_text(each.get("description"), limits.description_characters),
                clean_line(each.get("mimeType"), 100),
                is_template="uri" not in each,
            )
        )
    return found


def read_contents(result: JsonObject, limits: Limits) -> list[Part]:
    """Return the parts of a resource that was read."""
    contents = result.get("contents")
    if not isinstance(contents, list):
        raise ServerFault("the server sent a resource without contents")
    return [_part_of({"type": "resource", "resource": each}) for each in contents[: limits.result_parts]]


# --------------------------------------------------------------------------------------------------------------------
# Prompts: messages that a server offers, with arguments.


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class ServerPrompt(Struct, frozen=True):
    """A prompt of a server."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


def read_prompts(server: str, listed: list[Any], limits: Limits) -> list[ServerPrompt]:
    """Return the valid prompts of a list."""
    found = []
    for each in listed[: limits.tools]:
        name = each.get("name") if isinstance(each, dict) else None
        if not isinstance(name, str) or not name or len(name) > 200:
            continue
        rows = each.get("arguments")
        arguments = [
            PromptArgument(row["name"], clean_line(row.get("description"), 300), row.get("required") is True)
            for row in (rows if isinstance(rows, list) else [])[:50]
            if isinstance(row, dict) and isinstance(row.get("name"), str)
        ]
        description = clean_text(each.get("description") or each.get("title"), limits.description_characters)
        found.append(ServerPrompt(server, name, description, tuple(arguments)))
    return found


def read_messages(result: JsonObject, limits: Limits) -> list[Message]:
    """Return the messages of a prompt. They are marked as untrusted, so that the echo guard knows their calls."""
    # Imported late: it prepares the formats of every family.
    from dragoman.extraction.echo_reader import UNTRUSTED

    messages = result.get("messages")
    if not isinstance(messages, list):
        raise ServerFault("the server sent a prompt without messages")
    found = []
    for each in messages[: limits.result_parts]:
        role = each.get("role") if isinstance(each, dict) else None
        if role not in ("user", "assistant"):
            raise ServerFault("the server sent a prompt with a message that cannot be read")
        content = each.get("content")
        blocks = content if isinstance(content, list) else [content]
        parts = [_cleaned(_part_of(block)) for block in blocks[: limits.result_parts]]
        found.append(Message(role, [*parts], extra={UNTRUSTED: True}))
    return found


def _cleaned(part: Part) -> Part:
    return Text(clean_text(part.text, 1_000_000)) if isinstance(part, Text) else part
