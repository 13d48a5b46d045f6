"""Everything in a body that is neither conversation nor tools: limits, sampling, thinking, the form of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.types import JsonObject, Tool
from dragoman.wire.anthropic.words import WIRE, own, without
from dragoman.wire.options import find_unsaid
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.schemas import compile_schema
from dragoman.wire.values import as_dict, as_list, as_text

DEFAULT_LIMIT = 4096
_LEAST_BUDGET = 1024
_SAMPLING = ("temperature", "top_p", "top_k")
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})

# ---- ours to the wire's ----------------------------------------------------------------------------------------------


class SettingsWriter:
    """Writes the options of one request; `fields` is what goes into the body, `limit` the most tokens."""

    def __init__(self, options: Mapping[str, Any], quirks: Quirks, losses: list[Loss], *, is_forced: bool) -> None:
        self._options = options
        self._quirks = quirks
        self._losses = losses
        self._is_forced = is_forced
        self._taken = {"max_tokens", "stop", "stream", "tool_choice", "parallel_tool_calls", "cache"}
        said = options.get("max_tokens")
        self._said_limit = isinstance(said, int) and not isinstance(said, bool) and said >= 0
        self.limit: int = said if isinstance(said, int) and self._said_limit else DEFAULT_LIMIT
        self.fields: JsonObject = {}

    def write(self) -> None:
        options = self._options
        self._write_thinking()
        self._write_format()
        self._write_sampling()
        self._write_stop()
        if isinstance(options.get("user"), str):
            self._taken.add("user")
            self.fields["metadata"] = {"user_id": options["user"]}
        if isinstance(options.get("stream"), bool):
            self.fields["stream"] = options["stream"]
        self._losses += find_unsaid(options, self._taken, WIRE)
        self.fields = {self._quirks.max_tokens_field or "max_tokens": self.limit, **self.fields}

    def _report(self, rule: str, detail: str) -> None:
        self._losses.append(Loss(rule, "options", detail))

    def _write_sampling(self) -> None:
        if not self._quirks.sends_sampling:
            return
        for name in _SAMPLING:
            value = self._options.get(name)
            if value is not None:
                self._taken.add(name)
                self.fields[name] = value
        if isinstance(self.fields.get("temperature"), int | float) and self.fields["temperature"] > 1:
            self._report("approximated", "temperature goes up to 1 on this wire")
            self.fields["temperature"] = 1

    def _write_stop(self) -> None:
        given = self._options.get("stop")
        texts = [given] if isinstance(given, str) else [text for text in as_list(given) if isinstance(text, str)]
        kept = [text for text in texts if text and not text.isspace()]
        if len(kept) < len(texts):
            self._report("dropped", "stop: blank text, which this wire refuses")
        if kept:
            self.fields["stop_sequences"] = kept

    def _write_format(self) -> None:
        wanted = as_dict(self._options.get("response_format"))
        schema = wanted.get("schema")
        if wanted.get("type") != "json_schema" or not isinstance(schema, dict):
            return
        self._taken.add("response_format")
        compiled = compile_schema(Tool("response_format", "", schema), "anthropic_strict")
        self._losses += compiled.losses
        if compiled.schema is not None:
            form = {"type": "json_schema", "schema": compiled.schema}
            self.fields["output_config"] = {**self.fields.get("output_config", {}), "format": form}

    # ---- thinking ---------------------------------------------------------------------------------------------------

    def _write_thinking(self) -> None:
        asked = as_dict(self._options.get("reasoning"))
        if not asked:
            return
        self._taken.add("reasoning")
        effort, budget = asked.get("effort"), asked.get("budget")
        if isinstance(effort, str) and effort != "none":
            self._write_effort(effort)
        if asked.get("enabled") is False or effort == "none" or (budget == 0 and budget is not False):
            self.fields["thinking"] = {"type": "disabled"}
            return
        display = {"display": "summarized"} if asked.get("summary") not in (None, False, "none") else {}
        if isinstance(budget, int) and not isinstance(budget, bool) and budget > 0:
            self._write_budget(budget, display)
        else:
            self.fields["thinking"] = {"type": "adaptive", **display}

    def _write_effort(self, effort: str) -> None:
        known = "low" if effort == "minimal" else effort
        if known != effort:
            self._report("approximated", f"reasoning effort {effort!r} became {known!r}")
        if known in _EFFORTS:
            self.fields["output_config"] = {"effort": known}
        else:
            self._report("dropped", f"reasoning effort {effort!r} is not known to this wire")

    def _write_budget(self, budget: int, display: JsonObject) -> None:
        if self._is_forced:
            self._report("dropped", "reasoning: a budget and a forced choice of tool exclude one another")
            return
        if not self._said_limit:
            # The limit counts the thinking too.
            self.limit += budget
        wanted = min(max(budget, _LEAST_BUDGET), self.limit - 1)
        if wanted < _LEAST_BUDGET:
            self._report("dropped", f"reasoning: max_tokens leaves no room for {_LEAST_BUDGET} tokens of it")
            return
        if wanted != budget:
            self._report("approximated", f"the reasoning budget became {wanted}")
        self.fields["thinking"] = {"type": "enabled", "budget_tokens": wanted, **display}


def merge_own(body: JsonObject, options: Mapping[str, Any]) -> JsonObject:
    """The body with the fields that the caller gave for this wire: objects are joined, None takes a field out."""
    merged = dict(body)
    for name, value in own(dict(options)).items():
        if name == "tools":
            continue
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = {**merged[name], **value}
        else:
            merged[name] = value
    return merged


# ---- the wire's to ours ----------------------------------------------------------------------------------------------

_KNOWN = ("model", "messages", "system", "tools", "stream", "max_tokens", "stop_sequences", "tool_choice")
_READ_APART = ("thinking", "output_config", "metadata")


def read_settings(body: JsonObject, others: list[JsonObject]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name stands under the name of this wire."""
    options: dict[str, Any] = {}
    rest = without(body, *_KNOWN, *_SAMPLING, *_READ_APART)
    limit = body.get("max_tokens")
    if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0:
        options["max_tokens"] = limit
    for name in _SAMPLING:
        if isinstance(body.get(name), int | float):
            options[name] = body[name]
    stop = [text for text in as_list(body.get("stop_sequences")) if isinstance(text, str)]
    if stop:
        options["stop"] = stop
    if isinstance(body.get("stream"), bool):
        options["stream"] = body["stream"]
    options.update(_read_choice(body.get("tool_choice")))
    _read_reasoning(as_dict(body.get("thinking")), as_dict(body.get("output_config")), options, rest)
    metadata = as_dict(body.get("metadata"))
    if isinstance(metadata.get("user_id"), str):
        options["user"] = metadata["user_id"]
        metadata = without(metadata, "user_id")
    if metadata:
        rest["metadata"] = metadata
    if others:
        rest["tools"] = others
    if rest:
        options[WIRE] = rest
    return options


def _read_choice(given: Any) -> dict[str, Any]:
    choice = as_dict(given)
    options: dict[str, Any] = {}
    mode = {"auto": "auto", "any": "required", "none": "none"}.get(as_text(choice.get("type")))
    if mode is not None:
        options["tool_choice"] = mode
    elif choice.get("type") == "tool" and isinstance(choice.get("name"), str):
        options["tool_choice"] = {"name": choice["name"]}
    if isinstance(choice.get("disable_parallel_tool_use"), bool):
        options["parallel_tool_calls"] = not choice["disable_parallel_tool_use"]
    return options


def _read_reasoning(thinking: JsonObject, output: JsonObject, options: dict[str, Any], rest: JsonObject) -> None:
    asked: JsonObject = {}
    kind, budget = thinking.get("type"), thinking.get("budget_tokens")
    if isinstance(output.get("effort"), str):
        asked["effort"] = output["effort"]
    left = without(thinking, "type")
    if kind == "disabled":
        asked = {**asked, "enabled": False}
    elif kind == "enabled" and isinstance(budget, int) and not isinstance(budget, bool) and budget > 0:
        asked["budget"] = budget
        left.pop("budget_tokens")
    elif kind == "adaptive":
        asked = asked or {"enabled": True}
    else:
        left = without(thinking)
        if asked and not thinking:
            # An effort alone: it says nothing about thinking, and goes back to this wire without any.
            rest["thinking"] = None
    if left.get("display") == "summarized" and asked and kind in ("enabled", "adaptive"):
        asked["summary"] = "auto"
        left.pop("display")
    if left:
        rest["thinking"] = left
    if asked:
        options["reasoning"] = asked
    _read_format(without(output, "effort"), options, rest)


def _read_format(output: JsonObject, options: dict[str, Any], rest: JsonObject) -> None:
    form = as_dict(output.get("format"))
    if form.get("type") == "json_schema" and isinstance(form.get("schema"), dict):
        options["response_format"] = {"type": "json_schema", "schema": form["schema"]}
        output = without(output, "format")
    if output:
        rest["output_config"] = output
