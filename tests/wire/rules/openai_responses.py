"""The rules of a request to OpenAI's Responses."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.options import Options
from tests.wire.rules.schemas import object_schema, openai_strict
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    boolean,
    both,
    data_or_web_address,
    integer,
    mapping,
    must_be_offered,
    nullable,
    numeric,
    object_text,
    one_of,
    pad,
    record,
    tagged,
    text,
    text_or,
    unique,
)

NAME = text(pattern=r"[a-zA-Z0-9_-]+", most=64, least=1)
CALL_ID = text(most=64, least=1)
WORD: Check = text(least=1)
_STATUS = one_of("in_progress", "completed", "incomplete")
_CALLER = tagged("type", {"direct": record({"type": WORD}), "program": record({"type": WORD, "caller_id": WORD})})


def _item_id(prefix: str) -> Check:
    return text(pattern=rf"{prefix}_.+", most=64, least=1, why=f"an id that begins with {prefix}_")


def _one_source(*keys: str) -> Check:
    def check(value: Any, spot: Spot) -> None:
        if sum(value.get(key) is not None for key in keys) != 1:
            spot.say(f"must hold exactly one of {', '.join(keys)}")

    return check


_TEXT = record({"type": WORD, "text": text()})
_IMAGE = both(
    record(
        {"type": WORD},
        {
            "image_url": nullable(data_or_web_address),
            "file_id": nullable(WORD),
            "detail": one_of("low", "high", "auto", "original"),
        },
    ),
    _one_source("image_url", "file_id"),
)
_FILE = both(
    record({"type": WORD}, {**dict.fromkeys(("file_id", "file_url", "file_data", "filename"), nullable(WORD))}),
    _one_source("file_id", "file_url", "file_data"),
)
_MEDIA = {"input_text": _TEXT, "input_image": _IMAGE, "input_file": _FILE}
_SAID = tagged("type", {**_MEDIA, "input_audio": record({"type": WORD, "input_audio": mapping})})
_ANSWERED = tagged(
    "type",
    {
        "output_text": record({"type": WORD, "text": text()}, {"annotations": array(mapping), **pad("logprobs")}),
        "refusal": record({"type": WORD, "refusal": text()}),
    },
)
_PROMPT = record(
    {"role": WORD, "content": text_or(array(_SAID, least=1))}, {"type": one_of("message"), "status": _STATUS}
)
_MESSAGE = tagged(
    "role",
    {
        **dict.fromkeys(("user", "system", "developer"), _PROMPT),
        "assistant": record(
            {"role": WORD, "content": text_or(array(_ANSWERED, least=1))},
            {
                "type": one_of("message"),
                "id": _item_id("msg"),
                "status": _STATUS,
                "phase": nullable(one_of("commentary", "final_answer")),
            },
        ),
    },
)

_OUTPUT = text_or(array(tagged("type", _MEDIA)))
_MAY_CALL = {"status": _STATUS, "namespace": WORD, "async": boolean, "caller": nullable(_CALLER)}
_MAY_ANSWER = {"id": WORD, "status": _STATUS, "caller": nullable(_CALLER), "name": WORD, "namespace": WORD}
_FUNCTION_CALL = record(
    {"type": WORD, "call_id": CALL_ID, "name": NAME, "arguments": object_text}, {"id": _item_id("fc"), **_MAY_CALL}
)
_CUSTOM_CALL = record({"type": WORD, "call_id": CALL_ID, "name": NAME, "input": text()}, {"id": WORD, **_MAY_CALL})
_ANSWER = record({"type": WORD, "call_id": CALL_ID, "output": _OUTPUT}, _MAY_ANSWER)
_REASONING = record(
    {"type": WORD, "id": _item_id("rs"), "summary": array(tagged("type", {"summary_text": _TEXT}))},
    {
        "content": array(tagged("type", {"reasoning_text": _TEXT})),
        "encrypted_content": nullable(WORD),
        "status": _STATUS,
    },
)

_CALLS = {"function_call": "function_call_output", "custom_tool_call": "custom_tool_call_output"}
_OTHER_ITEMS = [
    "item_reference",
    "additional_tools",
    "compaction",
    "file_search_call",
    "computer_call",
    "computer_call_output",
    "web_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "local_shell_call",
    "local_shell_call_output",
    "shell_call",
    "shell_call_output",
    "apply_patch_call",
    "apply_patch_call_output",
    "mcp_list_tools",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_call",
    "tool_search_call",
    "tool_search_output",
    "program",
    "program_output",
]
_ITEM = tagged(
    "type",
    {
        "message": _MESSAGE,
        "function_call": _FUNCTION_CALL,
        "function_call_output": _ANSWER,
        "custom_tool_call": _CUSTOM_CALL,
        "custom_tool_call_output": _ANSWER,
        "reasoning": _REASONING,
        **dict.fromkeys(_OTHER_ITEMS, mapping),
    },
    default="message",
)

_FUNCTION = record(
    {"type": WORD, "name": NAME, "parameters": nullable(object_schema), "strict": nullable(boolean)},
    {
        "description": nullable(text()),
        "defer_loading": boolean,
        "allowed_callers": array(one_of("direct", "programmatic")),
        "output_schema": mapping,
    },
)
_GRAMMAR = {"type": WORD, "definition": text(), "syntax": one_of("lark", "regex")}
_CUSTOM = record(
    {"type": WORD, "name": NAME},
    {
        "description": text(),
        "defer_loading": boolean,
        "format": tagged("type", {"text": record({"type": WORD}), "grammar": record(_GRAMMAR)}),
        **pad("allowed_callers"),
    },
)
_OWN_TOOLS = {"function": _FUNCTION, "custom": _CUSTOM}
_HOSTED = [
    "tool_search",
    "mcp",
    "web_search",
    "file_search",
    "code_interpreter",
    "image_generation",
    "computer",
    "shell",
    "local_shell",
    "apply_patch",
    "programmatic_tool_calling",
]
_NAMESPACE = record(
    {"type": WORD, "name": NAME, "description": text(), "tools": array(tagged("type", _OWN_TOOLS), least=1)}
)
_TOOL = tagged("type", {**_OWN_TOOLS, "namespace": _NAMESPACE, **dict.fromkeys(_HOSTED, mapping)})

_NAMED = dict.fromkeys(("function", "custom"), record({"type": WORD, "name": NAME}))
_PICKED = tagged("type", {**_NAMED, **dict.fromkeys(_HOSTED, mapping)})
_CHOICE = text_or(
    tagged(
        "type",
        {
            **_NAMED,
            **dict.fromkeys(_HOSTED, record({"type": WORD})),
            "mcp": record({"type": WORD, "server_label": WORD}, {"name": nullable(WORD)}),
            "allowed_tools": record(
                {"type": WORD, "mode": one_of("auto", "required"), "tools": array(_PICKED, least=1)}
            ),
        },
    ),
    plain=one_of("none", "auto", "required"),
)
_EFFORT = nullable(one_of("none", "minimal", "low", "medium", "high", "xhigh", "max"))
_REASONS = record(
    {},
    {
        "effort": _EFFORT,
        "summary": nullable(one_of("auto", "concise", "detailed")),
        "context": nullable(one_of("auto", "current_turn", "all_turns")),
        **pad("mode"),
    },
)

_REQUEST = record(
    {"model": WORD, "input": text_or(array(_ITEM, least=1))},
    {
        "instructions": nullable(text()),
        "tools": array(_TOOL),
        "tool_choice": _CHOICE,
        "parallel_tool_calls": nullable(boolean),
        "reasoning": nullable(_REASONS),
        "max_output_tokens": nullable(integer(1)),
        "max_tool_calls": nullable(integer(1)),
        "previous_response_id": nullable(WORD),
        "store": nullable(boolean),
        "stream": nullable(boolean),
        "stream_options": nullable(record({}, {"include_obfuscation": boolean})),
        "include": nullable(array(WORD)),
        "truncation": nullable(one_of("auto", "disabled")),
        "temperature": nullable(numeric),
        "top_p": nullable(numeric),
        "text": record({}, {"format": mapping, **pad("verbosity")}),
        **dict.fromkeys(("prompt_cache_key", "safety_identifier", "user", "service_tier"), nullable(text())),
        **pad("background", "context_management", "conversation", "metadata", "moderation", "prompt", "image"),
        **pad("prompt_cache_options", "prompt_cache_retention", "top_logprobs", "access_programs"),
    },
)


def check(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """Judge a whole request."""
    _REQUEST(body, spot)
    if spot.found:
        return
    if isinstance(body["input"], list):
        remembered = bool(body.get("previous_response_id") or body.get("conversation"))
        _check_pairs(body["input"], spot.at("input"), remembered=remembered)
        _check_reasoning(body["input"], spot.at("input"), stored=body.get("store") is not False)
    _check_tools(body, spot)


def _check_pairs(items: list[dict[str, Any]], spot: Spot, *, remembered: bool) -> None:
    """Every call has its output after it, and every output its call before it."""
    waiting: dict[str, tuple[int, dict[str, Any]]] = {}
    done: set[str] = set()
    for position, item in enumerate(items):
        place, kind, identity = spot.at(position), item.get("type"), item.get("call_id")
        if kind in _CALLS:
            if identity in waiting or identity in done:
                place.say(f"repeats the call id {identity!r}")
            else:
                waiting[str(identity)] = (position, item)
        elif kind in _CALLS.values():
            call = waiting.pop(str(identity), (0, None))[1]
            if call is not None:
                done.add(str(identity))
                _check_answer(call, item, place)
            elif identity in done:
                place.say(f"answers the call {identity!r} a second time")
            elif not remembered:
                place.say(f"answers the call {identity!r}, which does not stand before it")
    for identity, (position, _) in waiting.items():
        spot.at(position).say(f"the call {identity!r} has no output in the input")


def _check_answer(call: dict[str, Any], answer: dict[str, Any], spot: Spot) -> None:
    if _CALLS[call["type"]] != answer["type"]:
        spot.say(f"answers a {call['type']} and so must be a {_CALLS[call['type']]}")
    if call.get("caller") != answer.get("caller"):
        spot.say("must echo the caller of its call")


def _check_reasoning(items: list[dict[str, Any]], spot: Spot, *, stored: bool) -> None:
    """Reasoning is whole, and stands before the call or message that it led to."""
    places = [position for position, item in enumerate(items) if item.get("type") == "reasoning"]
    unique([items[place]["id"] for place in places], [spot.at(place) for place in places], "reasoning id")
    for position in places:
        following = items[position + 1] if position + 1 < len(items) else {}
        kind = following.get("type", "message" if following else "")
        if kind.endswith("_output") or (following.get("role", "assistant") != "assistant") or not kind:
            spot.at(position).say("is reasoning without the item that has to follow it")
        if not stored and not items[position].get("encrypted_content"):
            spot.at(position).say("needs encrypted_content, for nothing is stored (store: false)")


def _check_tools(body: dict[str, Any], spot: Spot) -> None:
    names, places = [], []
    for position, tool in enumerate(body.get("tools") or []):
        place = spot.at("tools", position)
        if tool["type"] in {"function", "custom", "namespace"}:
            names.append(tool["name"])
            places.append(place)
        for inner in tool["tools"] if tool["type"] == "namespace" else [tool]:
            if inner.get("strict") and inner.get("parameters") is not None:
                openai_strict(inner["parameters"], place.at("parameters"))
    unique(names, places, "tool name")
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        for tool in choice["tools"] if choice["type"] == "allowed_tools" else [choice]:
            if tool["type"] in {"function", "custom"}:
                must_be_offered(tool["name"], names, spot.at("tool_choice"))
