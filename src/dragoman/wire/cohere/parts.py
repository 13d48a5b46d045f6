"""Content, options, errors and tables of Cohere chat, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.types import Failure, File, Image, JsonObject, Part, StopReason, Text, Thinking, ToolResult, Usage
from dragoman.wire.failures import Loss, fail, status_of
from dragoman.wire.openai_chat.parts import read_block, write_block
from dragoman.wire.options import SAMPLING, OptionTable, add_own, keep_unknown, report_format, unsupported_options
from dragoman.wire.quirks import Quirks
from dragoman.wire.values import as_count, as_dict, as_list, as_text, describe, invert_stops, mark_error, show

# --------------------------------------------------------------------------------------------------------------------
# Tables of Cohere's chat.

WIRE = "cohere"
PLAN = "tool_plan"
"""The field in which a model says what it is about to call; reasoning that is no block of the content."""
THINKING = "thinking"

_STOPS: dict[str, StopReason] = {
    "COMPLETE": "end",
    "STOP_SEQUENCE": "stop_sequence",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool_calls",
    "ERROR": "error",
    "TIMEOUT": "error",
}
FINISHES = invert_stops(_STOPS, "COMPLETE")
# With words of the first version of this API, which some servers still use.
STOPS: Mapping[str, StopReason] = {**_STOPS, "ERROR_LIMIT": "length", "ERROR_TOXIC": "refusal"}


def read_usage(value: Any) -> Usage | None:
    """The tokens as the model counted them; where a server tells only what it bills, that."""
    usage = as_dict(value)
    counts = as_dict(usage.get("tokens")) or as_dict(usage.get("billed_units"))
    if not counts:
        return None
    return Usage(
        as_count(counts.get("input_tokens")),
        as_count(counts.get("output_tokens")),
        as_count(usage.get("cached_tokens")),
    )


def find_billed(value: Any) -> JsonObject:
    """What is billed, where it is not what was counted."""
    usage = as_dict(value)
    billed = as_dict(usage.get("billed_units"))
    return {} if billed == as_dict(usage.get("tokens")) else billed


def write_usage(usage: Usage, billed: JsonObject) -> JsonObject:
    counts = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    cached = {"cached_tokens": usage.cached_tokens} if usage.cached_tokens else {}
    return {"billed_units": billed or counts, "tokens": counts, **cached}


# --------------------------------------------------------------------------------------------------------------------
# Cohere's errors: a flat object with a message, or the last frame of a stream.


def read_end(reason: str, error: Any) -> Failure:
    """What went wrong, by the last frame of a stream, or by the reason of a whole reply."""
    words = error or f"the reply ended with {reason}"
    # ERROR alone says nothing: then the words decide about the kind.
    return fail(words, code="" if reason == "ERROR" else reason)


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    return status_of(failure), {"message": describe(failure)}


# --------------------------------------------------------------------------------------------------------------------
# Parts of Cohere's messages: content, answers with their plan, and results with documents, both ways.

_WORDS = (Text, Thinking)

# ---- what users and systems say ------------------------------------------------------------------------------------


def read_content(content: Any) -> list[Part]:
    """The parts of a message's content, whatever form it has."""
    if isinstance(content, str):
        return [Text(content)]
    return [_read_part(block) for block in _blocks(content)]


def _blocks(content: Any) -> list[Any]:
    blocks = [content] if isinstance(content, dict) else as_list(content)
    return [block for block in blocks if isinstance(block, dict | str)]


def _read_part(block: JsonObject | str) -> Part:
    if isinstance(block, str) or block.get("type") in ("text", "image_url"):
        return read_block(block, WIRE)
    # A kind that has no neutral form goes back to this wire as it came.
    return Text("", {WIRE: {"block": block}})


# ---- what the assistant says ---------------------------------------------------------------------------------------


def read_answer(message: JsonObject) -> list[Part]:
    """Text and reasoning of an assistant message, in the order in which the model streams them.

    The plan stands in a field of its own: it comes behind the thoughts that open the content, and before the answer.
    """
    content = message.get("content")
    blocks = [content] if isinstance(content, str) else _blocks(content)
    parts = [part for block in blocks if (part := _read_said(block)) is not None]
    plan = as_text(message.get(PLAN))
    if plan:
        lead = next((place for place, part in enumerate(parts) if not isinstance(part, Thinking)), len(parts))
        parts.insert(lead, Thinking(plan, {WIRE: {"field": PLAN}}))
    return parts


def _read_said(block: JsonObject | str) -> Part | None:
    if isinstance(block, dict) and "type" not in block:
        block = {"type": THINKING if THINKING in block else "text", **block}
    if isinstance(block, dict) and block["type"] == THINKING:
        text = as_text(block.get(THINKING))
        return Thinking(text, {WIRE: {"field": THINKING}}) if text else None
    part = _read_part(block)
    return part if not isinstance(part, Text) or part.text or part.extra else None


def is_plan(part: Part) -> bool:
    return isinstance(part, Thinking) and as_dict(part.extra.get(WIRE)).get("field") == PLAN


def write_answer(parts: list[Part]) -> str | list[JsonObject]:
    """The content of an assistant message: a text where it is nothing but one, else blocks; the plan is left out."""
    said = [part for part in parts if not (part.extra and is_plan(part)) and not _is_blank(part)]
    if len(said) == 1 and isinstance(said[0], Text) and WIRE not in said[0].extra:
        return said[0].text
    blocks: list[JsonObject] = []
    for part in said:
        block = {"type": THINKING, THINKING: part.text} if isinstance(part, Thinking) else write_block(part, WIRE)
        if block is not None:
            blocks.append(block)
    return blocks


def _is_blank(part: Part) -> bool:
    if not isinstance(part, _WORDS) or part.text:
        return False
    return "block" not in as_dict(part.extra.get(WIRE))


# ---- what tools say ------------------------------------------------------------------------------------------------


def read_result_content(content: Any) -> str | list[Text | Image | File]:
    """The content of a result. A document is read as the JSON of its data, and remembered as it came."""
    if isinstance(content, str):
        return content
    blocks = _blocks(content)
    if not blocks:
        return "" if content is None or isinstance(content, list | dict) else show(content)
    return [_read_result_block(block) for block in blocks]


def _read_result_block(block: JsonObject | str) -> Text | Image | File:
    if isinstance(block, dict) and block.get("type") == "document":
        document = block.get("document")
        data = as_dict(document).get("data", document)
        return Text(data if isinstance(data, str) else show(data), {WIRE: {"block": block}})
    part = _read_part(block)
    return part if isinstance(part, Text | Image | File) else Text("")


def write_result_content(result: ToolResult, *, takes_images: bool = False) -> str | list[JsonObject]:
    """The content of a result; that it is an error is told in words, for there is no flag."""
    if isinstance(result.content, str):
        return mark_error(result, result.content)
    parts = [_fit_result(part, takes_images=takes_images) for part in result.content]
    first = parts[0] if parts else Text("")
    if result.is_error:
        if isinstance(first, Text) and WIRE not in first.extra:
            parts[:1] = [Text(mark_error(result, first.text))]
        else:
            parts.insert(0, Text("Error:"))
    return [block for part in parts if (block := write_block(part, WIRE)) is not None] or ""


def _fit_result(part: Any, *, takes_images: bool) -> Text | Image:
    """What a result can hold. Conversations have their media moved elsewhere; here they are at least named."""
    if isinstance(part, Text) or (isinstance(part, Image) and takes_images):
        return part
    if isinstance(part, File):
        return Text(f"[file {part.name}]")
    return Text(part if isinstance(part, str) else "[image]")


# --------------------------------------------------------------------------------------------------------------------
# The options of a request under the names that Cohere gives them, both ways.

_OPTIONS = OptionTable(
    {name: name for name in ("max_tokens", *SAMPLING)} | {"top_p": "p", "top_k": "k", "stop": "stop_sequences"},
    limits={"stop": 5},
)
_KNOWN = frozenset({"model", "messages", "tools", "stream"})
_CHOICES = {"REQUIRED": "required", "NONE": "none", "AUTO": "auto"}

# ---- ours to theirs ------------------------------------------------------------------------------------------------


def write_settings(options: Mapping[str, Any], quirks: Quirks, losses: list[Loss], *, with_tools: bool) -> JsonObject:
    """Everything in a body that is neither conversation nor tools."""
    # There are no cache markers to set here: the server keeps prompts by itself.
    taken = {"stream", "cache", "response_format", "reasoning", "tool_choice", "parallel_tool_calls"}
    fields = _OPTIONS.write(options, quirks, losses, taken)
    fields.update(_write_format(as_dict(options.get("response_format")), losses, with_tools=with_tools))
    fields.update(_write_thinking(as_dict(options.get("reasoning")), losses))
    # Said in any case: the path is the same for both.
    fields["stream"] = bool(options.get("stream"))
    losses += unsupported_options(options, taken, WIRE)
    own = as_dict(options.get(WIRE))
    return {**fields, **{name: value for name, value in own.items() if name != "tools"}}


def _write_format(wanted: JsonObject, losses: list[Loss], *, with_tools: bool) -> JsonObject:
    kind = wanted.get("type")
    if kind not in ("json", "json_schema"):
        return {}
    if with_tools:
        losses.append(Loss("dropped", "options", f"response_format is refused on {WIRE} when tools are offered"))
        return {}
    report_format(wanted, ("name", "strict", "description"), losses, WIRE)
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


def read_settings(body: JsonObject, others: list[Any]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name, or an odd value, stands under the name of the wire."""
    own = {name: value for name, value in keep_unknown(body, _KNOWN).items() if value is not None}
    options = _OPTIONS.take(own)
    choice = _CHOICES.get(as_text(body.get("tool_choice")).upper())
    found = (
        ("tool_choice", "tool_choice", choice),
        ("response_format", "response_format", _read_format(body)),
        ("reasoning", "thinking", _read_thinking(body)),
    )
    for option, name, value in found:
        if value:
            options[option] = value
            del own[name]
    if body.get("stream") is True:
        options["stream"] = True
    return add_own(options, own, others, WIRE)


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
