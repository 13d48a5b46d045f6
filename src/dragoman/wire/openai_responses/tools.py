"""Tools and the choice among them: ours as the wire wants them, and a client's as ours.

Only functions are tools for everyone. The rest of what a client offers (custom tools, web search, ...) is kept as it
is for its own wire. Functions inside a `namespace`, or added by an `additional_tools` item, are ordinary tools too;
on their own wire they stay where they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from dragoman.types import JsonObject, Tool
from dragoman.wire.offering import Offer, Offered
from dragoman.wire.openai_responses.words import WIRE
from dragoman.wire.options import Choice
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_dict, as_list, as_text, dicts

_OWN_FIELDS = ("strict", "defer_loading", "allowed_callers", "output_schema")
_MODES = frozenset({"auto", "none", "required"})


# ---- writing -------------------------------------------------------------------------------------------------------


def write_definition(offered: Offered, *, strict: bool) -> JsonObject:
    """One function; both `parameters` and `strict` are always said, for silence about `strict` means "try it"."""
    tool = offered.tool
    written: JsonObject = {"type": "function", "name": offered.name}
    if tool.description:
        written["description"] = tool.description
    written["parameters"] = offered.schema
    written["strict"] = strict
    own = as_dict(tool.metadata.get(WIRE)) if tool.metadata else {}
    if own:
        written.update({name: own[name] for name in _OWN_FIELDS if name in own})
        written["strict"] = strict or own.get("strict") is True
    return written


def write_tools(offer: Offer, others: list[Any], items: Iterable[JsonObject], *, strict: bool) -> list[Any]:
    """All tools: the functions, but for those that `others` or the items of the input already hold, then `others`."""
    there = set(_find_nested(others)) | {
        name for item in items if item.get("type") == "additional_tools" for name in _find_added(item)
    }
    functions = [
        write_definition(offered, strict=strict)
        for offered in offer.tools
        if (_namespace_of(offered.tool), offered.name) not in there
    ]
    return [*functions, *others]


def _namespace_of(tool: Tool) -> str | None:
    """The place of a function: a namespace, `""` for an item of the input, None for the list of tools itself."""
    if not tool.metadata:
        return None
    if as_dict(tool.metadata.get(WIRE)).get("added") is True:
        return ""
    return as_text(tool.metadata.get("namespace")) or None


def _find_nested(tools: Iterable[Any]) -> Iterator[tuple[str | None, str]]:
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            for inner in dicts(tool.get("tools")):
                yield as_text(tool.get("name")), as_text(inner.get("name"))


def _find_added(item: JsonObject) -> Iterator[tuple[str | None, str]]:
    for tool in dicts(item.get("tools")):
        if tool.get("type") == "namespace":
            yield from (("", name) for _, name in _find_nested([tool]))
        else:
            yield "", as_text(tool.get("name"))


def custom_tools(tools: Iterable[Any]) -> list[Tool]:
    """A client's custom tools as tools that take one text: a call of one is no call of an unknown tool."""
    found: list[Tool] = []
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            found += custom_tools(as_list(tool.get("tools")))
        elif isinstance(tool, dict) and tool.get("type") == "custom" and as_text(tool.get("name")):
            found.append(Tool(tool["name"], as_text(tool.get("description"))))
    return found


# ---- the choice ----------------------------------------------------------------------------------------------------


def write_choice(choice: Choice, offer: Offer, quirks: Quirks, losses: list[Loss]) -> tuple[Any, list[str] | None]:
    """The field `tool_choice` (None: leave it out), and the only tools to send (None: all of them)."""

    def approximate(words: str) -> None:
        losses.append(Loss("approximated", "options", words))

    names: list[str] = []
    for ours in choice.names:
        name = offer.name_of(ours)
        if name is None:
            approximate(f"tool_choice names {ours}, which is not offered")
        else:
            names.append(name)
    if choice.names and not names:
        return "auto", None
    kind = Choice(choice.mode, tuple(names)).kind
    if names:
        if "named" not in quirks.tool_choice:
            approximate("tool_choice cannot name tools here: only those that it names are sent")
            required = choice.mode == "required" and "required" in quirks.tool_choice
            return ("required" if required else None), names
        if kind == "named":
            return {"type": "function", "name": names[0]}, None
        allowed = [{"type": "function", "name": name} for name in names]
        return {"type": "allowed_tools", "mode": choice.mode, "tools": allowed}, None
    if kind in quirks.tool_choice:
        return kind, None
    if kind == "none":
        approximate("tool_choice none is not honoured here: no tools are sent")
        return None, []
    if kind == "required":
        approximate("tool_choice required is not honoured here: the model is free to answer without a call")
    return None, None


def read_choice(given: Any) -> Any:
    """The neutral tool choice; None for what only this wire knows (a custom or hosted tool)."""
    if isinstance(given, str):
        return given if given in _MODES else None
    choice = as_dict(given)
    if choice.get("type") == "function" and as_text(choice.get("name")):
        return {"name": choice["name"]}
    if choice.get("type") != "allowed_tools":
        return None
    tools = as_list(choice.get("tools"))
    names = [as_text(as_dict(tool).get("name")) for tool in tools if as_dict(tool).get("type") == "function"]
    if not names or len(names) != len(tools) or not all(names):
        return None
    return {"mode": "required" if choice.get("mode") == "required" else "auto", "names": names}


# ---- reading -------------------------------------------------------------------------------------------------------


def read_tools(given: Any, added: Iterable[JsonObject] = ()) -> tuple[list[Tool], list[JsonObject]]:
    """The functions that a client offers, wherever they stand, and its tools of other kinds as they are."""
    tools: list[Tool] = []
    others: list[JsonObject] = []
    for entry in dicts(given):
        if entry.get("type", "function") == "function" and as_text(entry.get("name")):
            tools.append(_read_function(entry))
        else:
            others.append(entry)
            tools += _read_namespace(entry, {})
    for item in added:
        for entry in dicts(item.get("tools")):
            if entry.get("type") == "function" and as_text(entry.get("name")):
                tools.append(_read_function(entry, added=True))
            else:
                tools += _read_namespace(entry, {"added": True})
    return tools, others


def _read_namespace(entry: JsonObject, marks: JsonObject) -> Iterator[Tool]:
    if entry.get("type") == "namespace":
        for inner in dicts(entry.get("tools")):
            if inner.get("type", "function") == "function" and as_text(inner.get("name")):
                yield _read_function(inner, namespace=as_text(entry.get("name")), **marks)


def _read_function(entry: JsonObject, *, namespace: str = "", added: bool = False) -> Tool:
    own = {name: entry[name] for name in _OWN_FIELDS if entry.get(name) not in (None, False)}
    if added:
        own["added"] = True
    metadata: dict[str, Any] = {"namespace": namespace} if namespace else {}
    if own:
        metadata[WIRE] = own
    parameters = as_dict(entry.get("parameters"))
    return Tool(entry["name"], as_text(entry.get("description")), parameters, metadata=metadata)
