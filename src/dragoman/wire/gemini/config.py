"""Options of a request as the fields of generateContent that are neither conversation nor tools."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject, Request
from dragoman.wire.gemini.parts import WIRE
from dragoman.wire.gemini.words import BUDGETS, LEVELS, generation_of
from dragoman.wire.options import SAMPLING, find_unsaid
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_dict

NAMES = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_TAKEN = {"max_tokens", "stop", "stream", "tool_choice", "parallel_tool_calls", "reasoning", "response_format"}


def write_config(request: Request, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The neutral options, in this wire's words."""
    options = request.options
    config: JsonObject = {}
    taken = set(_TAKEN)
    if isinstance(options.get("max_tokens"), int):
        config["maxOutputTokens"] = options["max_tokens"]
    if quirks.sends_sampling:
        config.update({NAMES[ours]: options[ours] for ours in SAMPLING if options.get(ours) is not None})
        taken |= set(SAMPLING)
    if options.get("stop"):
        stop = options["stop"]
        config["stopSequences"] = [stop] if isinstance(stop, str) else list(stop)
    config.update(_write_format(as_dict(options.get("response_format")), losses))
    thinking = _write_thinking(as_dict(options.get("reasoning")), request.model, losses)
    if thinking:
        config["thinkingConfig"] = thinking
    losses += find_unsaid(options, taken, WIRE)
    return {"generationConfig": config} if config else {}


def _write_format(wanted: JsonObject, losses: list[Loss]) -> JsonObject:
    if wanted.get("type") not in ("json", "json_schema"):
        return {}
    config: JsonObject = {"responseMimeType": "application/json"}
    if wanted["type"] == "json_schema":
        config["responseJsonSchema"] = as_dict(wanted.get("schema"))
        if wanted.get("name"):
            losses.append(Loss("dropped", "options", f"{WIRE} has no place for the name of a response format"))
    return config


def _write_thinking(reasoning: JsonObject, model: str, losses: list[Loss]) -> JsonObject:
    config: JsonObject = {}
    if reasoning.get("summary"):
        config["includeThoughts"] = True
    effort = reasoning.get("effort")
    if reasoning.get("enabled") is False or effort == "none":
        return {**config, "thinkingBudget": 0}
    if isinstance(reasoning.get("budget"), int):
        return {**config, "thinkingBudget": reasoning["budget"]}
    if isinstance(effort, str):
        return {**config, **_write_effort(effort, model, losses)}
    if reasoning.get("enabled") is True:
        # The model decides how much.
        return {**config, "thinkingBudget": -1}
    return config


def _write_effort(effort: str, model: str, losses: list[Loss]) -> JsonObject:
    level = LEVELS.get(effort.lower())
    if level is None:
        losses.append(Loss("dropped", "options", f"reasoning: this wire knows no effort {effort!r}"))
        return {}
    if 0 < generation_of(model) < 3:
        losses.append(Loss("approximated", "options", f"reasoning: effort {effort} became a budget for {model}"))
        return {"thinkingBudget": BUDGETS[level]}
    if level != effort.upper():
        losses.append(Loss("approximated", "options", f"reasoning: effort {effort} became {level}"))
    return {"thinkingLevel": level}


def add_own(body: JsonObject, request: Request, losses: list[Loss]) -> JsonObject:
    """The body with the fields that only this wire has, which count before anything translated."""
    own = as_dict(request.options.get(WIRE))
    for name, value in own.items():
        if name != "tools":
            body[name] = _merge(body.get(name), value)
    config = as_dict(body.get("generationConfig"))
    if "responseSchema" in config:
        # The two forms of one schema exclude each other; this one came from the client itself.
        body["generationConfig"] = {name: value for name, value in config.items() if name != "responseJsonSchema"}
    if "cachedContent" in own:
        for name in ("systemInstruction", "tools", "toolConfig"):
            if body.pop(name, None) is not None:
                losses.append(Loss("dropped", name, "it has to be in the cache that the request names"))
    return body


def _merge(ours: Any, own: Any) -> Any:
    if not isinstance(ours, dict) or not isinstance(own, dict):
        return own
    merged = dict(ours)
    for name, value in own.items():
        merged[name] = _merge(merged.get(name), value)
    return merged
