"""The rules of a request to OpenAI's Chat Completions."""

from __future__ import annotations

import re
from typing import Any

from tests.wire.rules.options import Options
from tests.wire.rules.schemas import object_schema, openai_strict
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    base64_text,
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
from tests.wire.rules.turns import answered_calls, offered_names, strict_functions, unique_tool_names

NAME = text(pattern=r"[a-zA-Z0-9_-]+", most=64, least=1)
CALL_ID = text(most=64, least=1)
WORD: Check = text(least=1)

_MARK = {"prompt_cache_breakpoint": record({"mode": one_of("explicit")})}
_TEXT = record({"type": one_of("text"), "text": text()}, _MARK)
_IMAGE = record(
    {
        "type": one_of("image_url"),
        "image_url": record({"url": data_or_web_address}, {"detail": one_of("auto", "low", "high", "original")}),
    },
    _MARK,
)
_AUDIO = record(
    {"type": one_of("input_audio"), "input_audio": record({"data": base64_text, "format": one_of("wav", "mp3")})}, _MARK
)
_FILE = record(
    {"type": one_of("file"), "file": record({}, {"file_id": WORD, "file_data": WORD, "filename": WORD})}, _MARK
)
_REFUSAL = record({"type": one_of("refusal"), "refusal": text()})

_TEXT_ONLY = text_or(array(tagged("type", {"text": _TEXT}), least=1))
_USER_PARTS = tagged("type", {"text": _TEXT, "image_url": _IMAGE, "input_audio": _AUDIO, "file": _FILE})
_ASSISTANT_PARTS = tagged("type", {"text": _TEXT, "refusal": _REFUSAL})

_CALL = tagged(
    "type",
    {
        "function": record(
            {"id": CALL_ID, "type": WORD, "function": record({"name": NAME, "arguments": object_text})},
        ),
        "custom": record({"id": CALL_ID, "type": WORD, "custom": record({"name": NAME, "input": text()})}),
    },
)


def _says_something(message: Any, spot: Spot) -> None:
    if message.get("content") is None and not message.get("tool_calls") and not message.get("refusal"):
        spot.say("needs content, for it makes no calls")


_PROMPT = record({"role": WORD, "content": _TEXT_ONLY}, {"name": WORD})
MESSAGE = tagged(
    "role",
    {
        "system": _PROMPT,
        "developer": _PROMPT,
        "user": record({"role": WORD, "content": text_or(array(_USER_PARTS, least=1))}, {"name": WORD}),
        "assistant": both(
            record(
                {"role": WORD},
                {
                    "content": nullable(text_or(array(_ASSISTANT_PARTS, least=1))),
                    "refusal": nullable(text()),
                    "tool_calls": array(_CALL, least=1),
                    "name": WORD,
                    **pad("audio"),
                },
            ),
            _says_something,
        ),
        "tool": record({"role": WORD, "tool_call_id": CALL_ID, "content": _TEXT_ONLY}),
    },
)

_GRAMMAR = record({"definition": text(), "syntax": one_of("lark", "regex")})
_FORMAT = tagged("type", {"text": record({"type": WORD}), "grammar": record({"type": WORD, "grammar": _GRAMMAR})})
_FUNCTION = record({"name": NAME}, {"description": text(), "parameters": object_schema, "strict": nullable(boolean)})
TOOL = tagged(
    "type",
    {
        "function": record({"type": WORD, "function": _FUNCTION}),
        "custom": record({"type": WORD, "custom": record({"name": NAME}, {"description": text(), "format": _FORMAT})}),
    },
)

_NAMED = {
    "function": record({"type": WORD, "function": record({"name": NAME})}),
    "custom": record({"type": WORD, "custom": record({"name": NAME})}),
}
_ALLOWED = record({"mode": one_of("auto", "required"), "tools": array(tagged("type", _NAMED), least=1)})
_CHOICE = text_or(
    tagged("type", {**_NAMED, "allowed_tools": record({"type": WORD, "allowed_tools": _ALLOWED})}),
    plain=one_of("none", "auto", "required"),
)

_REQUEST = record(
    {"model": WORD, "messages": array(MESSAGE, least=1)},
    {
        "tools": array(TOOL, least=1, most=128),
        "tool_choice": _CHOICE,
        "parallel_tool_calls": boolean,
        "reasoning_effort": nullable(one_of("none", "minimal", "low", "medium", "high", "xhigh", "max")),
        "max_completion_tokens": nullable(integer(1)),
        "max_tokens": nullable(integer(1)),
        "stream": boolean,
        "stream_options": nullable(record({}, {"include_usage": boolean, "include_obfuscation": boolean})),
        "stop": nullable(text_or(array(text(), most=4))),
        "n": nullable(integer(1)),
        "seed": nullable(integer(-(2**63))),
        **dict.fromkeys(("temperature", "top_p", "frequency_penalty", "presence_penalty"), nullable(numeric)),
        "prompt_cache_options": record({}, {"mode": one_of("implicit", "explicit"), "ttl": text()}),
        **dict.fromkeys(("prompt_cache_key", "user", "safety_identifier"), text()),
        "response_format": tagged(
            "type",
            {
                "text": record({"type": WORD}),
                "json_object": record({"type": WORD}),
                "json_schema": record({"type": WORD, "json_schema": record({"name": NAME}, open_=True)}),
            },
        ),
        **pad("audio", "logit_bias", "logprobs", "metadata", "modalities", "moderation", "prediction", "store"),
        **pad("prompt_cache_retention", "service_tier", "top_logprobs", "verbosity", "web_search_options"),
    },
)


def check(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """Judge a whole request."""
    _REQUEST(body, spot)
    if spot.found:
        return
    answered_calls(body["messages"], spot.at("messages"))
    unique_tool_names(body, spot)
    strict_functions(body, spot, openai_strict)
    _check_choice(body, spot)
    _check_marks(body["messages"], spot.at("messages"))
    _check_model(body, spot, options.model or body["model"])
    if body.get("stream_options") and not body.get("stream"):
        spot.at("stream_options").say("is only allowed when stream is true")


def _check_choice(body: dict[str, Any], spot: Spot) -> None:
    for key in ("tool_choice", "parallel_tool_calls"):
        if key in body and not body.get("tools"):
            spot.at(key).say("is only allowed when tools are offered")
            return
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        inner = choice[choice["type"]]
        for tool in inner["tools"] if choice["type"] == "allowed_tools" else [choice]:
            must_be_offered(tool[tool["type"]]["name"], offered_names(body), spot.at("tool_choice"))


def _check_marks(messages: list[dict[str, Any]], spot: Spot) -> None:
    parts = [part for message in messages if isinstance(message.get("content"), list) for part in message["content"]]
    marks = sum("prompt_cache_breakpoint" in part for part in parts)
    if marks > 4:
        spot.say(f"at most 4 cache breakpoints are allowed, not {marks}")


def _check_model(body: dict[str, Any], spot: Spot, model: str) -> None:
    """What single families of models refuse."""
    name = model.rsplit("/", 1)[-1]
    if "max_tokens" in body and re.match(r"o\d|gpt-([5-9]|\d\d)", name):
        spot.at("max_tokens").say("is refused by reasoning models, which want max_completion_tokens")
    version = re.match(r"gpt-(\d+)\.(\d+)", name)
    late = version is not None and (int(version[1]), int(version[2])) >= (5, 4)
    functions = any(tool["type"] == "function" for tool in body.get("tools") or [])
    if late and functions and body.get("reasoning_effort") != "none":
        spot.say("gpt-5.4 and later take function tools here only with reasoning_effort 'none'")
