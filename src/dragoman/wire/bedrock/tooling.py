"""The tools of a request: `toolConfig`, and what a choice among them becomes."""

from __future__ import annotations

from msgspec import Struct

from dragoman.types import InvalidCall as Invalid
from dragoman.types import JsonObject, Message, Request, ToolCall
from dragoman.wire.bedrock.words import WIRE
from dragoman.wire.offering import Offer
from dragoman.wire.options import Choice, read_choice
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_dict, dicts


class Tooling(Struct, frozen=True):
    """The `toolConfig` of a body (empty: none is sent), and the choice that it makes."""

    config: JsonObject
    choice: JsonObject


def write_definitions(offered: Offer, strict: bool) -> list[JsonObject]:
    """Every tool as a `toolSpec`. A description may not be empty: the name has to do."""
    definitions = []
    for entry in offered.tools:
        spec: JsonObject = {
            "name": entry.name,
            "description": entry.tool.description if entry.tool.description.strip() else entry.name,
            "inputSchema": {"json": entry.schema},
        }
        if entry.tool.metadata:
            spec.update(as_dict(entry.tool.metadata.get(WIRE)))
        definitions.append({"toolSpec": {**spec, "strict": True} if strict else spec})
    return definitions


def write_tools(
    request: Request, messages: list[Message], offered: Offer, quirks: Quirks, losses: list[Loss], *, free: bool
) -> Tooling:
    """What a request says of tools. `free`: the model thinks within a budget, and no call can be demanded."""
    own = list(dicts(as_dict(request.options.get(WIRE)).get("tools")))
    definitions = write_definitions(offered, quirks.strict_tools)
    choice = read_choice(request.options)
    if choice is not None and choice.mode == "none":
        if not _names_called(messages):
            return Tooling({}, {})
        losses.append(Loss("approximated", "options", "tool_choice none: the history needs its tools; it became auto"))
        choice = None
    if not definitions and (called := _names_called(messages)):
        losses.append(
            Loss("inserted", "tools", "bare definitions of the tools that the history calls: they must be sent")
        )
        definitions = [_define(name) for name in called]
    if not definitions and not any("systemTool" in entry for entry in own):
        return Tooling({}, {})
    if choice is None:
        return Tooling({"tools": [*definitions, *own]}, {})
    definitions, chosen = _choose(choice, offered, definitions, quirks, losses)
    if free and not chosen.keys() <= {"auto"}:
        losses.append(Loss("approximated", "options", "tool_choice: no call can be demanded of a model that thinks"))
        chosen = {"auto": {}}
    return Tooling({"tools": [*definitions, *own], **({"toolChoice": chosen} if chosen else {})}, chosen)


def _names_called(messages: list[Message]) -> list[str]:
    calls = (part for message in messages for part in message.parts if isinstance(part, ToolCall | Invalid))
    return list(dict.fromkeys(call.name for call in calls))


def _define(name: str) -> JsonObject:
    return {"toolSpec": {"name": name, "description": name, "inputSchema": {"json": {"type": "object"}}}}


def _choose(
    choice: Choice, offered: Offer, definitions: list[JsonObject], quirks: Quirks, losses: list[Loss]
) -> tuple[list[JsonObject], JsonObject]:
    """The definitions to offer, and the `toolChoice`."""
    names = [name for ours in choice.names if (name := offered.name_of(ours)) is not None]
    if choice.names and not names:
        losses.append(Loss("approximated", "options", "tool_choice names no tool that is offered; it became auto"))
        return definitions, _write_mode("auto", quirks, losses)
    if choice.kind == "named" and "named" in quirks.tool_choice:
        return definitions, {"tool": {"name": names[0]}}
    if names:
        losses.append(Loss("approximated", "options", "tool_choice: only the tools that it allows are offered"))
        definitions = [entry for entry in definitions if entry["toolSpec"]["name"] in names]
    return definitions, _write_mode(choice.mode, quirks, losses)


def _write_mode(mode: str, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    if mode in quirks.tool_choice:
        return {"any": {}} if mode == "required" else {"auto": {}}
    if mode != "auto":
        losses.append(Loss("approximated", "options", f"tool_choice {mode!r} is not honoured here; it is left out"))
    return {}
