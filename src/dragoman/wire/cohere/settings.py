"""The options of a request under the names that Cohere gives them, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.cohere.words import WIRE
from dragoman.wire.options import find_unsaid, keep_unknown
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_dict, as_list

_SAMPLING = {
    "temperature": "temperature",
    "top_p": "p",
    "top_k": "k",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_MOST_STOPS = 5
_CHOICES = {"REQUIRED": "required", "NONE": "none", "AUTO": "auto"}

# ---- ours to theirs ------------------------------------------------------------------------------------------------


def write_settings(options: Mapping[str, Any], quirks: Quirks, losses: list[Loss], *, with_tools: bool) -> JsonObject:
    """Everything in a body that is neither conversation nor tools."""
    fields: JsonObject = {}
    # There are no cache markers to set here: the server keeps prompts by itself.
    taken = {"max_tokens", "stop", "stream", "cache", "response_format", "reasoning"}
    taken |= {"tool_choice", "parallel_tool_calls"}
    if isinstance(options.get("max_tokens"), int):
        fields[quirks.max_tokens_field or "max_tokens"] = options["max_tokens"]
    if quirks.sends_sampling:
        fields.update({name: options[ours] for ours, name in _SAMPLING.items() if options.get(ours) is not None})
        taken |= set(_SAMPLING)
    fields.update(_write_stops(options.get("stop"), losses))
    fields.update(_write_format(as_dict(options.get("response_format")), losses, with_tools=with_tools))
    fields.update(_write_thinking(as_dict(options.get("reasoning")), losses))
    # Said in any case: the path is the same for both.
    fields["stream"] = bool(options.get("stream"))
    losses += find_unsaid(options, taken, WIRE)
    own = as_dict(options.get(WIRE))
    return {**fields, **{name: value for name, value in own.items() if name != "tools"}}


def _write_stops(given: Any, losses: list[Loss]) -> JsonObject:
    stops = [given] if isinstance(given, str) else as_list(given)
    if len(stops) > _MOST_STOPS:
        losses.append(Loss("dropped", "options", f"stop: only the first {_MOST_STOPS} of {len(stops)} texts are sent"))
    return {"stop_sequences": stops[:_MOST_STOPS]} if stops else {}


def _write_format(wanted: JsonObject, losses: list[Loss], *, with_tools: bool) -> JsonObject:
    kind = wanted.get("type")
    if kind not in ("json", "json_schema"):
        return {}
    if with_tools:
        losses.append(Loss("dropped", "options", f"response_format is refused on {WIRE} when tools are offered"))
        return {}
    unsaid = [name for name in ("name", "strict") if wanted.get(name) is not None]
    if unsaid:
        losses.append(Loss("dropped", "options", f"response_format: {', '.join(unsaid)} has no place on {WIRE}"))
    schema = {"json_schema": as_dict(wanted.get("schema"))} if kind == "json_schema" else {}
    return {"response_format": {"type": "json_object", **schema}}


def _write_thinking(reasoning: JsonObject, losses: list[Loss]) -> JsonObject:
    if reasoning.get("summary") is not None:
        losses.append(Loss("dropped", "options", f"reasoning: a summary has no place on {WIRE}"))
    budget, effort = reasoning.get("budget"), reasoning.get("effort")
    if reasoning.get("enabled") is False or effort == "none" or budget == 0:
        return {"thinking": {"type": "disabled"}}
    if isinstance(budget, int) and budget > 0:
        return {"thinking": {"type": "enabled", "token_budget": budget}}
    if isinstance(effort, str):
        losses.append(Loss("approximated", "options", f"reasoning: effort {effort!r} became plain thinking"))
        return {"thinking": {"type": "enabled"}}
    if reasoning.get("enabled") is True:
        return {"thinking": {"type": "enabled"}}
    if reasoning.keys() - {"summary"}:
        losses.append(Loss("dropped", "options", f"reasoning: {', '.join(sorted(reasoning))} has no place on {WIRE}"))
    return {}


# ---- theirs to ours ------------------------------------------------------------------------------------------------


def read_settings(body: JsonObject, others: list[JsonObject]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name, or an odd value, stands under the name of the wire."""
    options: dict[str, Any] = {}
    read = {"model", "messages", "tools", "stream"}
    for ours, name in (*_SAMPLING.items(), ("max_tokens", "max_tokens")):
        value = body.get(name)
        if isinstance(value, int if ours == "max_tokens" else int | float) and not isinstance(value, bool):
            options[ours] = value
            read.add(name)
    stops = body.get("stop_sequences")
    if isinstance(stops, list) and stops and all(isinstance(stop, str) for stop in stops):
        options["stop"] = stops
        read.add("stop_sequences")
    choice = body.get("tool_choice")
    if isinstance(choice, str) and choice.upper() in _CHOICES:
        options["tool_choice"] = _CHOICES[choice.upper()]
        read.add("tool_choice")
    for name, value in (("response_format", _read_format(body)), ("thinking", _read_thinking(body))):
        if value:
            options["reasoning" if name == "thinking" else name] = value
            read.add(name)
    if body.get("stream") is True:
        options["stream"] = True
    own = {name: value for name, value in keep_unknown(body, frozenset(read)).items() if value is not None}
    if others:
        own["tools"] = others
    return {**options, WIRE: own} if own else options


def _read_format(body: JsonObject) -> JsonObject:
    wanted = as_dict(body.get("response_format"))
    if wanted == {"type": "json_object"}:
        return {"type": "json"}
    schema = wanted.get("json_schema")
    if wanted.get("type") == "json_object" and isinstance(schema, dict) and len(wanted) == 2:
        return {"type": "json_schema", "schema": schema}
    return {}


def _read_thinking(body: JsonObject) -> JsonObject:
    thinking = as_dict(body.get("thinking"))
    if thinking in ({"type": "enabled"}, {"type": "disabled"}):
        return {"enabled": thinking["type"] == "enabled"}
    budget = thinking.get("token_budget")
    told = isinstance(budget, int) and not isinstance(budget, bool) and budget > 0
    if told and thinking.get("type") == "enabled" and len(thinking) == 2:
        return {"budget": budget}
    return {}
