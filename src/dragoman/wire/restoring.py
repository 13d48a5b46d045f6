"""A request read from a wire, under the names and ids that it had before it was written there."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.types import InvalidCall, Message, Part, Request, ToolCall, ToolResult
from dragoman.wire.aliases import Aliases


def restore_request(request: Request, aliases: Aliases) -> Request:
    """Undo the renaming of tools and calls that `aliases` tells of."""
    if not aliases.names and all(wire == ours for wire, ours in aliases.ids.items()):
        return request
    return replace(
        request,
        messages=[_restore_message(message, aliases) for message in request.messages],
        tools=[replace(tool, name=aliases.name(tool.name)) for tool in request.tools],
        options=_restore_choice(request.options, aliases),
    )


def _restore_message(message: Message, aliases: Aliases) -> Message:
    return replace(message, parts=[_restore_part(part, aliases) for part in message.parts])


def _restore_part(part: Part, aliases: Aliases) -> Part:
    if isinstance(part, ToolCall | InvalidCall):
        return replace(part, id=aliases.ids.get(part.id, part.id), name=aliases.name(part.name))
    if isinstance(part, ToolResult):
        identity = aliases.ids.get(part.call_id, part.call_id)
        return replace(part, call_id=identity, name=aliases.name(part.name))
    return part


def _restore_choice(options: dict[str, Any], aliases: Aliases) -> dict[str, Any]:
    choice = options.get("tool_choice")
    if not isinstance(choice, dict):
        return options
    restored = dict(choice)
    if isinstance(choice.get("name"), str):
        restored["name"] = aliases.name(choice["name"])
    if isinstance(choice.get("names"), list):
        restored["names"] = [aliases.name(name) for name in choice["names"]]
    return {**options, "tool_choice": restored}
