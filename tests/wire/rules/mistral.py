"""The rules of a request to Mistral's chat completions."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.openai_chat import NAME
from tests.wire.rules.options import Options
from tests.wire.rules.schemas import object_schema
from tests.wire.rules.shapes import (
    Check,
    Spot,
    anything,
    array,
    boolean,
    both,
    data_or_web_address,
    integer,
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
)
from tests.wire.rules.turns import answered_calls, offered_names, unique_tool_names

CALL_ID = text(pattern=r"[a-zA-Z0-9]{9}", why="9 letters and digits")
WORD: Check = text(least=1)


def _arguments(value: Any, spot: Spot) -> None:
    """An object, or the JSON text of one."""
    if not isinstance(value, dict):
        object_text(value, spot)


def _address(value: Any, spot: Spot) -> None:
    """An image's address, alone or in an object with its detail."""
    if isinstance(value, str):
        data_or_web_address(value, spot)
    else:
        record({"url": data_or_web_address}, {"detail": one_of("auto", "low", "high")})(value, spot)


_TEXT = record({"type": WORD, "text": text()})
_REFERENCE = record({"type": WORD, "reference_ids": array(anything)})
_THINKING = record(
    {"type": WORD, "thinking": array(tagged("type", {"text": _TEXT, "reference": _REFERENCE}))},
    {"signature": nullable(text()), "closed": boolean},
)
_CHUNK = tagged(
    "type",
    {
        "text": _TEXT,
        "image_url": record({"type": WORD, "image_url": _address}),
        "document_url": record({"type": WORD, "document_url": data_or_web_address}, pad("document_name")),
        "reference": _REFERENCE,
        "file": record({"type": WORD, "file_id": WORD}),
        "thinking": _THINKING,
        "input_audio": record({"type": WORD}, pad("input_audio")),
    },
)
_CHUNKS = text_or(array(_CHUNK))
_CALL = record(
    {"id": CALL_ID, "function": record({"name": NAME, "arguments": _arguments})},
    {"type": one_of("function"), "index": integer()},
)


def _says_something(message: Any, spot: Spot) -> None:
    if not message.get("content") and not message.get("tool_calls"):
        spot.say("needs content or calls")


_MESSAGE = tagged(
    "role",
    {
        "system": record(
            {"role": WORD, "content": text_or(array(tagged("type", {"text": _TEXT, "thinking": _THINKING})))}
        ),
        "user": record({"role": WORD, "content": _CHUNKS}),
        "assistant": both(
            record(
                {"role": WORD},
                {"content": nullable(_CHUNKS), "tool_calls": nullable(array(_CALL, least=1)), "prefix": boolean},
            ),
            _says_something,
        ),
        "tool": record({"role": WORD, "tool_call_id": CALL_ID, "content": _CHUNKS}, {"name": NAME}),
    },
)
_FUNCTION = record({"name": NAME, "parameters": object_schema}, {"description": text(), "strict": boolean})
_TOOL = tagged("type", {"function": record({"type": WORD, "function": _FUNCTION})})
_CHOICE = text_or(
    record({"function": record({"name": NAME})}, {"type": one_of("function")}),
    plain=one_of("auto", "none", "any", "required"),
)
_REQUEST = record(
    {"model": WORD, "messages": array(_MESSAGE, least=1)},
    {
        "tools": nullable(array(_TOOL)),
        "tool_choice": _CHOICE,
        "parallel_tool_calls": boolean,
        "max_tokens": nullable(integer(0)),
        "random_seed": nullable(integer(0)),
        "stop": text_or(array(text())),
        "stream": boolean,
        "reasoning_effort": nullable(text()),
        **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), nullable(numeric)),
        **pad("metadata", "response_format", "min_tokens", "repetition_penalty", "top_k", "logprobs", "top_logprobs"),
        **pad("prompt_logprobs", "top_prompt_logprobs", "n", "prediction", "prompt_mode", "guardrails", "safe_prompt"),
        **pad("prompt_cache_key", "service_tier"),
    },
)


def check(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """Judge a whole request."""
    _REQUEST(body, spot)
    if spot.found:
        return
    _check_order(body["messages"], spot.at("messages"))
    answered_calls(body["messages"], spot.at("messages"))
    unique_tool_names(body, spot)
    if isinstance(body.get("tool_choice"), dict):
        must_be_offered(body["tool_choice"]["function"]["name"], offered_names(body), spot.at("tool_choice"))


def _check_order(messages: list[dict[str, Any]], spot: Spot) -> None:
    """A system message only at the start, nothing but the assistant after results, and a turn left to answer."""
    for position, message in enumerate(messages):
        before = messages[position - 1]["role"] if position else ""
        if message["role"] == "system" and position:
            spot.at(position).say("a system message may only be the first message")
        elif message["role"] == "user" and before == "tool":
            spot.at(position).say("a user message may not follow a tool message")
    last = messages[-1]
    if last["role"] not in {"user", "tool"} and not last.get("prefix"):
        spot.at(len(messages) - 1).say("the last message must be from the user or a tool, or be a prefix")
