"""The options of a request: from the neutral names to the fields of the body, and back."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.openai_responses.tools import read_choice
from dragoman.wire.openai_responses.words import WIRE
from dragoman.wire.options import keep_unknown
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_dict, as_text

# Up to how many tokens of thought an effort stands for.
_EFFORTS = ((0, "none"), (2048, "low"), (8192, "medium"))
_KNOWN = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "stream"}
    | {"max_output_tokens", "temperature", "top_p", "user", "metadata"}
)
_SAME = ("temperature", "top_p", "user", "metadata")
_FORMAT_FIELDS = ("name", "schema", "strict", "description")


# ---- writing -------------------------------------------------------------------------------------------------------


def write_settings(options: dict[str, Any], quirks: Quirks, losses: list[Loss]) -> tuple[JsonObject, set[str]]:
    """The fields of the body for these options, and the names of those that found their place."""
    fields: JsonObject = {}
    taken = {"stream", "cache", "reasoning", "response_format", "max_tokens", "user", "metadata"}
    if options.get("max_tokens") is not None:
        fields[quirks.max_tokens_field or "max_output_tokens"] = options["max_tokens"]
    if quirks.sends_sampling:
        taken |= {"temperature", "top_p"}
    fields |= {name: options[name] for name in _SAME if name in taken and options.get(name) is not None}
    reasoning = _write_reasoning(as_dict(options.get("reasoning")), losses)
    if reasoning:
        fields["reasoning"] = reasoning
    format = _write_format(as_dict(options.get("response_format")), losses)
    if format:
        fields["text"] = {"format": format}
    if isinstance(options.get("cache"), str):
        losses.append(Loss("approximated", "options", "the prompt cache of this wire has its own time to live"))
    if options.get("stream"):
        fields["stream"] = True
    return fields, taken


def _write_reasoning(wanted: JsonObject, losses: list[Loss]) -> JsonObject:
    fields: JsonObject = {}
    budget = wanted.get("budget")
    if isinstance(wanted.get("effort"), str):
        fields["effort"] = wanted["effort"]
    elif wanted.get("enabled") is False:
        fields["effort"] = "none"
    elif isinstance(budget, int) and not isinstance(budget, bool):
        fields["effort"] = next((effort for most, effort in _EFFORTS if budget <= most), "high")
        losses.append(
            Loss("approximated", "options", f"a reasoning budget of {budget} tokens is effort {fields['effort']}")
        )
    if isinstance(wanted.get("summary"), str):
        fields["summary"] = wanted["summary"]
    return fields


def _write_format(wanted: JsonObject, losses: list[Loss]) -> JsonObject | None:
    if wanted.get("type") == "json":
        return {"type": "json_object"}
    if wanted.get("type") == "json_schema":
        kept = {name: wanted[name] for name in _FORMAT_FIELDS if wanted.get(name) is not None}
        return {"type": "json_schema", "name": "answer", "schema": {}, **kept}
    if wanted:
        losses.append(Loss("dropped", "options", f"response_format {wanted.get('type')!r} is not known"))
    return None


def merge_own(body: JsonObject, own: JsonObject) -> JsonObject:
    """The body with the fields that only this wire has; they overrule, and None takes a field out."""
    merged = dict(body)
    for name, value in own.items():
        if name == "tools":
            continue
        if value is None:
            merged.pop(name, None)
        elif name in ("reasoning", "text") and isinstance(value, dict):
            merged[name] = {**as_dict(merged.get(name)), **value}
        else:
            merged[name] = value
    return merged


# ---- reading -------------------------------------------------------------------------------------------------------


def read_settings(body: JsonObject, others: list[JsonObject]) -> dict[str, Any]:
    """The options of a body; what has no neutral name stands under the name of the wire."""
    options: dict[str, Any] = {name: body[name] for name in _SAME if body.get(name) is not None}
    own = keep_unknown(body, _KNOWN)
    limit = body.get("max_output_tokens")
    if isinstance(limit, int) and not isinstance(limit, bool):
        options["max_tokens"] = limit
    for name in ("parallel_tool_calls", "stream"):
        if isinstance(body.get(name), bool):
            options[name] = body[name]
    _read_choice(body.get("tool_choice"), options, own)
    _read_reasoning(as_dict(body.get("reasoning")), options, own)
    _read_text(as_dict(body.get("text")), options, own)
    if others:
        own["tools"] = others
    if own:
        options[WIRE] = own
    return options


def _read_choice(given: Any, options: dict[str, Any], own: JsonObject) -> None:
    choice = read_choice(given)
    if choice is not None:
        options["tool_choice"] = choice
    elif isinstance(given, str | dict) and given:
        own["tool_choice"] = given


def _read_reasoning(given: JsonObject, options: dict[str, Any], own: JsonObject) -> None:
    wanted: JsonObject = {}
    effort = given.get("effort")
    if isinstance(effort, str):
        wanted = {"enabled": False} if effort == "none" else {"effort": effort}
    if as_text(given.get("summary")):
        wanted["summary"] = given["summary"]
    if wanted:
        options["reasoning"] = wanted
    rest = {name: value for name, value in given.items() if name not in ("effort", "summary") and value is not None}
    if rest:
        own["reasoning"] = rest


def _read_text(given: JsonObject, options: dict[str, Any], own: JsonObject) -> None:
    rest = {name: value for name, value in given.items() if value is not None}
    format = as_dict(given.get("format"))
    if format.get("type") == "json_object":
        options["response_format"] = {"type": "json"}
        del rest["format"]
    elif format.get("type") == "json_schema":
        kept = {name: format[name] for name in _FORMAT_FIELDS if format.get(name) is not None}
        options["response_format"] = {"type": "json_schema", **kept}
        del rest["format"]
    if rest:
        own["text"] = rest
