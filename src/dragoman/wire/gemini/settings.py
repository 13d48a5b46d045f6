"""The body of generateContent, as a client sent it, read into a request: tools and options."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject, Tool
from dragoman.wire.gemini.config import NAMES
from dragoman.wire.gemini.parameters import read_parameters, read_schema
from dragoman.wire.gemini.parts import WIRE
from dragoman.wire.gemini.words import LEVELS, camel
from dragoman.wire.options import Choice, keep_unknown, write_choice
from dragoman.wire.values import as_dict, as_list, as_text, dicts

_KNOWN = frozenset(
    {"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "functionDeclarations"}
)
_DECLARED = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_EFFORTS = {level: effort for effort, level in LEVELS.items() if level == effort.upper()}


# ---- tools -----------------------------------------------------------------------------------------------------------


def read_tools(body: JsonObject) -> tuple[list[Tool], list[JsonObject]]:
    """The functions, and the tools of other kinds as they are."""
    tools: list[Tool] = []
    others: list[JsonObject] = []
    given = body.get("tools")
    for entry in [given] if isinstance(given, dict) else dicts(given):
        group = camel(entry)
        tools += [tool for declared in dicts(group.get("functionDeclarations")) if (tool := _read_tool(declared))]
        rest = {name: value for name, value in group.items() if name != "functionDeclarations"}
        if rest:
            others.append(rest)
    return tools, others


def _read_tool(given: JsonObject) -> Tool | None:
    declared = camel(given)
    name = as_text(declared.get("name"))
    own = {key: value for key, value in declared.items() if key not in _DECLARED and value is not None}
    metadata = {WIRE: own} if own else {}
    parameters = read_parameters(declared)
    return Tool(name, as_text(declared.get("description")), parameters, metadata=metadata) if name else None


# ---- options ---------------------------------------------------------------------------------------------------------


def read_options(given: JsonObject, others: list[JsonObject]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name stands under the name of the wire."""
    body = camel(given)
    own = keep_unknown(body, _KNOWN)
    options: dict[str, Any] = {}
    config = dict(camel(as_dict(body.get("generationConfig"))))
    options.update(_take_config(config))
    if config:
        own["generationConfig"] = config
    calling = dict(camel(as_dict(body.get("toolConfig"))))
    options.update(_take_choice(calling))
    if calling:
        own["toolConfig"] = calling
    if others:
        own["tools"] = others
    if own:
        options[WIRE] = own
    return options


def _take_config(config: JsonObject) -> dict[str, Any]:
    """Take out of the configuration what has a neutral name; what is left is this wire's own."""
    options: dict[str, Any] = {}
    for ours, name in {"max_tokens": "maxOutputTokens", **NAMES}.items():
        value = config.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            options[ours] = config.pop(name)
    stop = config.get("stopSequences")
    if isinstance(stop, list) and stop and all(isinstance(entry, str) for entry in stop):
        options["stop"] = config.pop("stopSequences")
    thinking = dict(camel(as_dict(config.pop("thinkingConfig", None))))
    reasoning = _take_thinking(thinking)
    if reasoning:
        options["reasoning"] = reasoning
    if thinking:
        config["thinkingConfig"] = thinking
    wanted = _take_format(config)
    if wanted:
        options["response_format"] = wanted
    return options


def _take_thinking(thinking: JsonObject) -> JsonObject:
    reasoning: JsonObject = {}
    budget = thinking.get("thinkingBudget")
    level = _EFFORTS.get(as_text(thinking.get("thinkingLevel")).upper())
    if isinstance(budget, int) and not isinstance(budget, bool):
        del thinking["thinkingBudget"]
        reasoning.update({"enabled": budget == -1} if budget in (0, -1) else {"budget": budget})
    elif level is not None:
        del thinking["thinkingLevel"]
        reasoning["effort"] = level
    if thinking.get("includeThoughts") is True:
        del thinking["includeThoughts"]
        reasoning["summary"] = "auto"
    return reasoning


def _take_format(config: JsonObject) -> JsonObject:
    if config.get("responseMimeType") != "application/json":
        return {}
    del config["responseMimeType"]
    if isinstance(config.get("responseJsonSchema"), dict):
        return {"type": "json_schema", "schema": config.pop("responseJsonSchema")}
    if isinstance(config.get("responseSchema"), dict):
        # In this wire's own dialect: kept as it is for this wire, and translated for all others.
        return {"type": "json_schema", "schema": read_schema(config["responseSchema"])}
    return {"type": "json"}


def _take_choice(config: JsonObject) -> dict[str, Any]:
    calling = dict(camel(as_dict(config.pop("functionCallingConfig", None))))
    given = as_text(calling.get("mode")).upper()
    names = tuple(name for name in as_list(calling.get("allowedFunctionNames")) if isinstance(name, str) and name)
    mode = {"AUTO": "auto", "NONE": "none", "ANY": "required", "VALIDATED": "auto"}.get(given)
    if mode is not None:
        calling.pop("allowedFunctionNames", None)
        # Without names, VALIDATED is a demand on the calls that only this wire knows.
        if given != "VALIDATED" or names:
            del calling["mode"]
    if calling:
        config["functionCallingConfig"] = calling
    if mode is None:
        return {}
    return {"tool_choice": write_choice(Choice(mode, names if given in ("ANY", "VALIDATED") else ()))}
