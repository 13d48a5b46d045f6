"""The options of a request: `inferenceConfig`, `outputConfig`, and the fields that only one family of models has.

Converse passes `additionalModelRequestFields` on to the model. What Claude and Nova take there is written for them;
for other models it is only what the caller gives as this wire's own.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.types import JsonObject, Request
from dragoman.wire.bedrock.tooling import Tooling
from dragoman.wire.bedrock.words import WIRE, family_of
from dragoman.wire.options import find_unsaid
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_dict, as_list, write

_LEAST_BUDGET = 1024
_LABEL = re.compile(r"[a-zA-Z0-9\s:_@$#=/+,.-]{1,256}")
_MOST_LABELS = 16


def write_options(
    request: Request, tooling: Tooling, thinking: JsonObject, quirks: Quirks, losses: list[Loss]
) -> JsonObject:
    """Everything in a body that is neither conversation nor tools; `thinking` is what `write_thinking` gave."""
    options = request.options
    taken = {"stream", "cache", "tool_choice", "parallel_tool_calls", "reasoning", "response_format", "metadata"}
    fields: JsonObject = {
        "inferenceConfig": _write_inference(options, quirks, taken, losses),
        "outputConfig": _write_output(options, losses),
        "additionalModelRequestFields": {
            **thinking,
            **_write_additional(request, tooling, quirks, taken, losses),
        },
        "requestMetadata": _write_labels(as_dict(options.get("metadata")), losses),
    }
    losses += find_unsaid(options, taken, WIRE)
    for name, value in as_dict(options.get(WIRE)).items():
        if name != "tools":
            # What the caller says in this wire's own words goes beside what we wrote, and before it.
            mine = fields.get(name)
            fields[name] = {**mine, **value} if isinstance(mine, dict) and isinstance(value, dict) else value
    return {name: value for name, value in fields.items() if value != {}}


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _write_inference(options: dict[str, Any], quirks: Quirks, taken: set[str], losses: list[Loss]) -> JsonObject:
    fields: JsonObject = {}
    if _is_count(options.get("max_tokens")):
        taken.add("max_tokens")
        fields["maxTokens"] = options["max_tokens"]
    if quirks.sends_sampling:
        taken |= {"temperature", "top_p"}
        for ours, name in (("temperature", "temperature"), ("top_p", "topP")):
            value = options.get(ours)
            if isinstance(value, int | float):
                fields[name] = min(value, 1)
                if value > 1:
                    losses.append(Loss("approximated", "options", f"{ours} {value} became 1, the most on this wire"))
    taken.add("stop")
    stops = options.get("stop")
    words = [word for word in as_list(stops if isinstance(stops, list) else [stops]) if isinstance(word, str) and word]
    if words:
        fields["stopSequences"] = words
    return fields


def _write_output(options: dict[str, Any], losses: list[Loss]) -> JsonObject:
    fields: JsonObject = {}
    wanted = as_dict(options.get("response_format"))
    if wanted.get("type") == "json_schema":
        named = {name: wanted[name] for name in ("name", "description") if isinstance(wanted.get(name), str)}
        definition = {"schema": write(as_dict(wanted.get("schema"))), **named}
        fields["textFormat"] = {"type": "json_schema", "structure": {"jsonSchema": definition}}
    elif wanted:
        losses.append(Loss("dropped", "options", "response_format: this wire knows only JSON by a schema"))
    effort = as_dict(options.get("reasoning")).get("effort")
    if isinstance(effort, str) and effort:
        fields["effort"] = effort
    return fields


# ---- fields of one family of models ----------------------------------------------------------------------------------


def _write_additional(
    request: Request, tooling: Tooling, quirks: Quirks, taken: set[str], losses: list[Loss]
) -> JsonObject:
    options, family = request.options, family_of(request.model)
    fields: JsonObject = {}
    top_k = options.get("top_k")
    if quirks.sends_sampling and _is_count(top_k) and family:
        taken.add("top_k")
        fields.update({"top_k": top_k} if family == "claude" else {"inferenceConfig": {"topK": top_k}})
    if options.get("parallel_tool_calls") is False and tooling.config:
        if family == "claude" and quirks.parallel_flag:
            fields["tool_choice"] = {**_in_claude_words(tooling.choice), "disable_parallel_tool_use": True}
        else:
            losses.append(Loss("dropped", "options", "this model has no switch against parallel calls"))
    return fields


def _in_claude_words(choice: JsonObject) -> JsonObject:
    if "tool" in choice:
        return {"type": "tool", "name": choice["tool"]["name"]}
    return {"type": "any"} if "any" in choice else {"type": "auto"}


def write_thinking(request: Request, losses: list[Loss]) -> JsonObject:
    """How the model shall think, in the words of Claude; an effort is said elsewhere, and to every model."""
    reasoning = as_dict(request.options.get("reasoning"))
    said = {name for name, value in reasoning.items() if value is not None} - {"effort"}
    if not said:
        return {}
    if family_of(request.model) != "claude":
        losses.append(
            Loss("dropped", "options", f"reasoning: only an effort can be said to this model, not {_list(said)}")
        )
        return {}
    if "summary" in said:
        losses.append(Loss("dropped", "options", "reasoning: a summary cannot be asked for"))
    if reasoning.get("enabled") is False:
        return {"thinking": {"type": "disabled"}}
    budget = reasoning.get("budget")
    if _is_count(budget):
        return _write_budget(budget, request.options.get("max_tokens"), losses)
    return {"thinking": {"type": "adaptive"}} if reasoning.get("enabled") is True else {}


def _write_budget(budget: Any, limit: Any, losses: list[Loss]) -> JsonObject:
    """A budget of thinking is at least 1024 tokens, and less than the whole reply may have."""
    fitting = max(budget, _LEAST_BUDGET)
    if _is_count(limit) and fitting >= limit:
        fitting = limit - 1
    if fitting < _LEAST_BUDGET:
        losses.append(Loss("dropped", "options", f"reasoning: max_tokens {limit} leaves no room for a budget"))
        return {}
    if fitting != budget:
        losses.append(Loss("approximated", "options", f"reasoning: the budget {budget} became {fitting}"))
    return {"thinking": {"type": "enabled", "budget_tokens": fitting}}


def _list(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _write_labels(metadata: JsonObject, losses: list[Loss]) -> JsonObject:
    """Labels for the log of requests: short texts, sixteen at the most."""
    labels = {name: value for name, value in metadata.items() if _is_label(name) and _is_label(value)}
    labels = dict(list(labels.items())[:_MOST_LABELS])
    if len(labels) < len(metadata):
        losses.append(
            Loss("dropped", "options", f"metadata: {len(metadata) - len(labels)} labels do not fit this wire")
        )
    return labels


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and _LABEL.fullmatch(value) is not None
