"""Tools and the choice among them, as a request to generateContent declares them."""

from __future__ import annotations

from dragoman.types import JsonObject, Request
from dragoman.wire.gemini.parts import WIRE
from dragoman.wire.offering import Offer
from dragoman.wire.options import Choice, read_choice
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_dict, dicts

MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


def write_definitions(offered: Offer, quirks: Quirks, names: list[str] | None = None) -> list[JsonObject]:
    """All declarations in one object, as the API wants them; `names` lets only some of them through."""
    key = "parametersJsonSchema" if quirks.json_schema else "parameters"
    declarations = []
    for entry in offered.tools:
        if names is not None and entry.name not in names:
            continue
        declaration: JsonObject = {"name": entry.name}
        if entry.tool.description:
            declaration["description"] = entry.tool.description
        if entry.schema:
            declaration[key] = entry.schema
        declarations.append({**declaration, **as_dict(entry.tool.metadata.get(WIRE))})
    # An empty list of declarations is refused.
    return [{"functionDeclarations": declarations}] if declarations else []


def write_tools(request: Request, offered: Offer, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The fields of a body that speak of tools."""
    own = list(dicts(as_dict(request.options.get(WIRE)).get("tools")))
    if request.options.get("parallel_tool_calls") is False and offered.tools:
        losses.append(Loss("dropped", "options", "this wire has no switch against parallel calls"))
    choice = read_choice(request.options)
    if choice is None or not offered.tools:
        tools = [*write_definitions(offered, quirks), *own]
        return {"tools": tools} if tools else {}
    names = [name for ours in choice.names if (name := offered.name_of(ours)) is not None]
    if choice.names and not names:
        losses.append(Loss("approximated", "options", "tool_choice names no tool that is offered; it became auto"))
        choice = Choice("auto")
    config, fewer = _write_choice(choice, names, quirks, losses)
    tools = [*write_definitions(offered, quirks, fewer), *own]
    fields: JsonObject = {"tools": tools} if tools else {}
    return {**fields, "toolConfig": {"functionCallingConfig": config}} if tools and config else fields


def _write_choice(
    choice: Choice, names: list[str], quirks: Quirks, losses: list[Loss]
) -> tuple[JsonObject, list[str] | None]:
    """How calls are to be made, and the names of the tools to declare where that can not be all of them."""
    kinds = quirks.tool_choice
    if choice.names and names:
        if choice.kind in kinds and "named" in kinds:
            # Only two modes take a list of names; VALIDATED is the one that leaves text open.
            mode = "ANY" if choice.mode == "required" else "VALIDATED"
            return {"mode": mode, "allowedFunctionNames": names}, None
        losses.append(Loss("approximated", "options", "tool_choice: only the tools that it allows are offered"))
        return _write_mode(choice.mode, quirks, losses), names
    if choice.mode == "none" and "none" not in kinds:
        losses.append(Loss("approximated", "options", "tool_choice 'none' is not honoured here; no tools are offered"))
        return {}, []
    return _write_mode(choice.mode, quirks, losses), None


def _write_mode(mode: str, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    if mode in quirks.tool_choice:
        return {"mode": MODES[mode]}
    if mode != "auto":
        losses.append(Loss("approximated", "options", f"tool_choice {mode!r} is not honoured here; it is left out"))
    return {}
