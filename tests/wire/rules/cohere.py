"""The rules of a request to Cohere's v2 chat."""

from __future__ import annotations

from typing import Any

from tests.wire.rules.openai_chat import NAME
from tests.wire.rules.options import Options
from tests.wire.rules.schemas import object_schema
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    boolean,
    both,
    data_or_web_address,
    integer,
    mapping,
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
from tests.wire.rules.turns import answered_calls, unique_tool_names

WORD: Check = text(least=1)
_TEXT = record({"type": WORD, "text": text()})
_IMAGE = record(
    {
        "type": WORD,
        "image_url": record({"url": data_or_web_address}, {"detail": one_of("auto", "low", "high")}),
    }
)
_DOCUMENT = record({"type": WORD, "document": record({"data": mapping}, {"id": WORD})})
_CALL = record(
    {
        "id": WORD,
        "type": one_of("function"),
        "function": record({"name": NAME, "arguments": object_text}),
    }
)


def _says_something(message: Any, spot: Spot) -> None:
    if not message.get("content") and not message.get("tool_calls"):
        spot.say("needs content or calls")
    if message.get("tool_plan") and not message.get("tool_calls"):
        spot.say("has a tool_plan, but makes no calls")


_THOUGHTS = record({"type": WORD, "thinking": text()})
_MESSAGE = tagged(
    "role",
    {
        "system": record({"role": WORD, "content": text_or(array(tagged("type", {"text": _TEXT}), least=1))}),
        "user": record(
            {"role": WORD, "content": text_or(array(tagged("type", {"text": _TEXT, "image_url": _IMAGE}), least=1))}
        ),
        "assistant": both(
            record(
                {"role": WORD},
                {
                    "tool_plan": text(),
                    "tool_calls": array(_CALL, least=1),
                    "content": nullable(
                        text_or(array(tagged("type", {"text": _TEXT, "thinking": _THOUGHTS}), least=1))
                    ),
                    "citations": array(mapping),
                },
            ),
            _says_something,
        ),
        "tool": record(
            {
                "role": WORD,
                "tool_call_id": WORD,
                "content": text_or(array(tagged("type", {"text": _TEXT, "document": _DOCUMENT}), least=1)),
            }
        ),
    },
)
_FUNCTION = record({"name": NAME}, {"description": text(), "parameters": object_schema})
_TOOL = tagged("type", {"function": record({"type": WORD, "function": _FUNCTION})})
_REQUEST = record(
    {"model": WORD, "messages": array(_MESSAGE, least=1)},
    {
        "tools": array(_TOOL),
        "strict_tools": boolean,
        "tool_choice": one_of("REQUIRED", "NONE"),
        "thinking": record({"type": one_of("enabled", "disabled")}, {"token_budget": integer(1)}),
        "stream": boolean,
        "max_tokens": integer(0),
        "stop_sequences": array(text(), most=5),
        "seed": integer(0),
        "k": integer(0),
        **dict.fromkeys(("temperature", "p", "frequency_penalty", "presence_penalty"), numeric),
        **pad("documents", "citation_options", "response_format", "safety_mode", "logprobs", "priority"),
    },
)


def check(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """Judge a whole request."""
    _REQUEST(body, spot)
    if spot.found:
        return
    answered_calls(body["messages"], spot.at("messages"))
    unique_tool_names(body, spot)
    if "tool_choice" in body and not body.get("tools"):
        spot.at("tool_choice").say("is only allowed when tools are offered")
