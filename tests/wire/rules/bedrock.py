"""The rules of a request to Bedrock's Converse."""

from __future__ import annotations

import re
from typing import Any

from tests.wire.rules.options import Options
from tests.wire.rules.schemas import object_schema
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    base64_text,
    boolean,
    by_key,
    integer,
    mapping,
    must_be_offered,
    numeric,
    one_of,
    pad,
    record,
    tagged,
    text,
    unique,
)

NAME = text(pattern=r"[a-zA-Z0-9_-]+", most=64, least=1)
CALL_ID = text(pattern=r"[a-zA-Z0-9_.:-]+", most=64, least=1)
WORD: Check = text(least=1)
_BLANK_FREE = text(blank=False)


def _bytes(value: Any, spot: Spot) -> None:
    """Bytes, which travel as base64 in the JSON body; the Python client takes them as they are."""
    if not (isinstance(value, bytes) and value):
        base64_text(value, spot)


_SOURCE = by_key({"bytes": _bytes, "s3Location": record({"uri": WORD}, {"bucketOwner": WORD})})
_CACHE_POINT = record({"type": one_of("default")}, {"ttl": one_of("5m", "1h")})
_IMAGE = record({"format": one_of("png", "jpeg", "gif", "webp"), "source": _SOURCE})
_DOCUMENT = record(
    {"name": text(least=1, most=200), "source": by_key({"bytes": _bytes, **pad("s3Location", "text", "content")})},
    {
        "format": one_of("pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"),
        "context": text(),
        "citations": mapping,
    },
)
_FILES: dict[str, Check] = {
    "text": _BLANK_FREE,
    "image": _IMAGE,
    "document": _DOCUMENT,
    "video": record({"format": WORD, "source": _SOURCE}),
    "searchResult": mapping,
}
_USE = record({"toolUseId": CALL_ID, "name": NAME, "input": mapping}, {"type": one_of("server_tool_use")})
_RESULT = record(
    {"toolUseId": CALL_ID, "content": array(by_key({**_FILES, "json": mapping}))},
    {"status": one_of("success", "error"), "type": WORD},
)
_REASONING = by_key({"reasoningText": record({"text": text()}, {"signature": WORD}), "redactedContent": _bytes})
_USER_BLOCK = by_key(
    {
        **_FILES,
        "toolResult": _RESULT,
        "cachePoint": _CACHE_POINT,
        **dict.fromkeys(("audio", "guardContent", "toolAddition", "toolRemoval"), mapping),
    }
)
_ASSISTANT_BLOCK = by_key(
    {
        "text": _BLANK_FREE,
        "toolUse": _USE,
        "reasoningContent": _REASONING,
        "cachePoint": _CACHE_POINT,
        **dict.fromkeys(("image", "audio", "citationsContent"), mapping),
    }
)
_MESSAGE = tagged(
    "role",
    {
        "user": record({"role": WORD, "content": array(_USER_BLOCK, least=1)}),
        "assistant": record({"role": WORD, "content": array(_ASSISTANT_BLOCK, least=1)}),
    },
)
_SPEC = record({"name": NAME, "inputSchema": record({"json": object_schema})}, {"description": WORD, "strict": boolean})
_TOOL = by_key({"toolSpec": _SPEC, "cachePoint": _CACHE_POINT, "systemTool": record({"name": NAME})})
_CHOICE = by_key({"auto": record({}), "any": record({}), "tool": record({"name": NAME})})
_REQUEST = record(
    {"messages": array(_MESSAGE, least=1)},
    {
        "system": array(by_key({"text": _BLANK_FREE, "cachePoint": _CACHE_POINT, "guardContent": mapping})),
        "inferenceConfig": record(
            {},
            {"maxTokens": integer(1), "temperature": numeric, "topP": numeric, "stopSequences": array(text(least=1))},
        ),
        "toolConfig": record({"tools": array(_TOOL, least=1)}, {"toolChoice": _CHOICE}),
        "additionalModelRequestFields": mapping,
        "additionalModelResponseFieldPaths": array(text()),
        "outputConfig": record({}, {"textFormat": mapping, "effort": text()}),
        **pad("guardrailConfig", "promptVariables", "requestMetadata", "performanceConfig", "serviceTier"),
    },
)


def check(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """Judge a whole request."""
    _REQUEST(body, spot)
    if spot.found:
        return
    messages, place = body["messages"], spot.at("messages")
    if messages[0]["role"] != "user":
        place.at(0).say("the first message must be from the user")
    for position in range(1, len(messages)):
        if messages[position]["role"] == messages[position - 1]["role"]:
            place.at(position).say("roles must alternate between user and assistant")
    _check_pairs(messages, place)
    _check_tools(body, spot)
    _check_marks(body, spot)
    if re.search("claude|anthropic", options.model):
        _check_claude(body, spot, options)


def _of(message: dict[str, Any], kind: str) -> list[tuple[int, dict[str, Any]]]:
    return [(position, block[kind]) for position, block in enumerate(message["content"]) if kind in block]


def _check_pairs(messages: list[dict[str, Any]], spot: Spot) -> None:
    """Results stand in the message right after their calls: all of them, and before anything else."""
    expected: list[str] = []
    for position, message in enumerate(messages):
        place = spot.at(position)
        results = _of(message, "toolResult")
        answered = [result["toolUseId"] for _, result in results]
        unique(answered, [place.at("content", number) for number, _ in results], "answered toolUseId")
        for identity in expected:
            if identity not in answered:
                place.say(f"must hold the toolResult of {identity!r}, which the message before it called")
        for number, result in results:
            if result["toolUseId"] not in expected:
                place.at("content", number).say("is a toolResult without a toolUse in the message before it")
        if results and results[-1][0] >= len(results):
            place.say("must hold its toolResult blocks before all other blocks")
        uses = [(number, use) for number, use in _of(message, "toolUse") if "type" not in use]
        unique([use["toolUseId"] for _, use in uses], [place.at("content", number) for number, _ in uses], "toolUseId")
        for number, _ in _of(message, "reasoningContent"):
            if uses and number > uses[0][0]:
                place.at("content", number).say("is reasoning after a toolUse; it must stand before it")
        expected = [use["toolUseId"] for _, use in uses]
    for identity in expected:
        spot.at(len(messages) - 1).say(f"the toolUse {identity!r} is not answered by a following user message")


def _check_tools(body: dict[str, Any], spot: Spot) -> None:
    if "toolConfig" not in body:
        if any(_of(message, kind) for message in body["messages"] for kind in ("toolUse", "toolResult")):
            spot.say("needs toolConfig, for the history holds tool blocks")
        return
    config, names, places = body["toolConfig"], [], []
    for position, tool in enumerate(config["tools"]):
        for key in set(tool) & {"toolSpec", "systemTool"}:
            names.append(tool[key]["name"])
            places.append(spot.at("toolConfig", "tools", position))
    unique(names, places, "tool name")
    if "tool" in config.get("toolChoice", {}):
        must_be_offered(config["toolChoice"]["tool"]["name"], names, spot.at("toolConfig", "toolChoice"))


def _check_marks(body: dict[str, Any], spot: Spot) -> None:
    blocks = [*body.get("toolConfig", {}).get("tools", []), *body.get("system", [])]
    blocks += [block for message in body["messages"] for block in message["content"]]
    marks = sum("cachePoint" in block for block in blocks)
    if marks > 4:
        spot.say(f"at most 4 cachePoint blocks are allowed, not {marks}")


def _check_claude(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """What Claude wants beside the rules of Bedrock: signed reasoning, and plain names of properties."""
    for position, message in enumerate(body["messages"]):
        for number, reasoning in _of(message, "reasoningContent"):
            if not options.unsigned and not reasoning.get("reasoningText", {"signature": "-"}).get("signature"):
                spot.at("messages", position, "content", number).say("is reasoning of Claude without its signature")
    for position, tool in enumerate(body.get("toolConfig", {}).get("tools", [])):
        schema = tool.get("toolSpec", {}).get("inputSchema", {}).get("json", {})
        for name in schema.get("properties", {}):
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
                spot.at("toolConfig", "tools", position).say(
                    f"the property name {name!r} must match [a-zA-Z0-9_.-]{{1,64}}"
                )
