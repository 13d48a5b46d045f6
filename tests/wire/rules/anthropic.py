"""The rules of a request to Anthropic's Messages."""

from __future__ import annotations

import re
from typing import Any

from tests.wire.rules.options import Options
from tests.wire.rules.schemas import anthropic_strict, rooted_schema
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    base64_text,
    boolean,
    integer,
    mapping,
    must_be_offered,
    nullable,
    numeric,
    one_of,
    pad,
    record,
    tagged,
    text,
    text_or,
    unique,
)

NAME = text(pattern=r"[a-zA-Z0-9_-]+", most=128, least=1)
CALL_ID = text(pattern=r"[a-zA-Z0-9_-]+", least=1)
WORD: Check = text(least=1)
_BLANK_FREE = text(blank=False)
_MARK = {"cache_control": nullable(record({"type": one_of("ephemeral")}, {"ttl": one_of("5m", "1h")}))}

_PICTURES = one_of("image/jpeg", "image/png", "image/gif", "image/webp")
_ADDRESS = text(pattern=r"https?://.+", why="an http(s) address")
_URL = record({"type": WORD, "url": _ADDRESS})
_STORED = record({"type": WORD, "file_id": WORD})
_TEXT = record({"type": WORD, "text": _BLANK_FREE}, {**_MARK, **pad("citations")})
_IMAGE_SOURCE = tagged(
    "type",
    {"base64": record({"type": WORD, "media_type": _PICTURES, "data": base64_text}), "url": _URL, "file": _STORED},
)
_IMAGE = record({"type": WORD, "source": _IMAGE_SOURCE}, _MARK)
_DOCUMENT_SOURCE = tagged(
    "type",
    {
        "base64": record({"type": WORD, "media_type": one_of("application/pdf"), "data": base64_text}),
        "text": record({"type": WORD, "media_type": one_of("text/plain"), "data": text()}),
        "content": record({"type": WORD, "content": text_or(array(mapping))}),
        "url": _URL,
        "file": _STORED,
    },
)
_DOCUMENT = record(
    {"type": WORD, "source": _DOCUMENT_SOURCE},
    {"title": nullable(text()), "context": nullable(text()), **_MARK, **pad("citations")},
)
_SEARCH = record(
    {"type": WORD, "source": text(), "title": text(), "content": array(mapping)}, {**_MARK, **pad("citations")}
)

_RESULT_BLOCK = tagged(
    "type",
    {
        "text": _TEXT,
        "image": _IMAGE,
        "document": _DOCUMENT,
        "search_result": _SEARCH,
        "tool_reference": record({"type": WORD, "tool_name": NAME}, _MARK),
        "browser_state": mapping,
    },
)
_RESULT = record(
    {"type": WORD, "tool_use_id": CALL_ID},
    {"content": text_or(array(_RESULT_BLOCK)), "is_error": boolean, "toolset_name": WORD, **_MARK},
)
_USER_BLOCK = tagged(
    "type",
    {
        "text": _TEXT,
        "image": _IMAGE,
        "document": _DOCUMENT,
        "search_result": _SEARCH,
        "tool_result": _RESULT,
        "container_upload": mapping,
    },
)

_SERVER_RESULTS = [
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
]
_USE = record(
    {"type": WORD, "id": CALL_ID, "name": NAME, "input": mapping},
    {"caller": mapping, "toolset_name": WORD, **_MARK},
)


def _thinking(*, unsigned: bool) -> Check:
    signature = {} if unsigned else {"signature": WORD}
    return record({"type": WORD, "thinking": text(), **signature}, {"signature": text()} if unsigned else {})


def _assistant_block(*, unsigned: bool) -> Check:
    return tagged(
        "type",
        {
            "text": _TEXT,
            "thinking": _thinking(unsigned=unsigned),
            "redacted_thinking": record({"type": WORD, "data": WORD}),
            "tool_use": _USE,
            "server_tool_use": mapping,
            "container_upload": mapping,
            **dict.fromkeys(_SERVER_RESULTS, mapping),
        },
    )


def _message(*, unsigned: bool) -> Check:
    block = _assistant_block(unsigned=unsigned)
    return tagged(
        "role",
        {
            "user": record({"role": WORD, "content": text_or(array(_USER_BLOCK, least=1), plain=_BLANK_FREE)}),
            "assistant": record({"role": WORD, "content": text_or(array(block, least=1), plain=_BLANK_FREE)}),
        },
    )


_OWN_TOOL = record(
    {"name": NAME, "input_schema": rooted_schema},
    {
        "description": text(),
        "type": nullable(one_of("custom")),
        "strict": boolean,
        "defer_loading": boolean,
        "eager_input_streaming": nullable(boolean),
        "input_examples": array(mapping),
        "allowed_callers": array(WORD),
        **_MARK,
    },
)


def _tool(value: Any, spot: Spot) -> None:
    """A tool of the caller, or a tool of the server, whose type ends with a date."""
    if isinstance(value, dict) and re.search(r"_\d{8}$", str(value.get("type"))):
        record({"type": WORD}, {"name": NAME, **_MARK}, open_=True)(value, spot)
    else:
        _OWN_TOOL(value, spot)


_SOLO = {"disable_parallel_tool_use": boolean}
_CHOICE = tagged(
    "type",
    {
        "auto": record({"type": WORD}, _SOLO),
        "any": record({"type": WORD}, _SOLO),
        "tool": record({"type": WORD, "name": NAME}, _SOLO),
        "none": record({"type": WORD}),
    },
)
_DISPLAY = {"display": nullable(one_of("summarized", "omitted"))}
_THINKS = tagged(
    "type",
    {
        "adaptive": record({"type": WORD}, _DISPLAY),
        "enabled": record({"type": WORD, "budget_tokens": integer(1024)}, _DISPLAY),
        "disabled": record({"type": WORD}),
        "between_tools": record({"type": WORD}, _DISPLAY),
    },
)
_OUTPUT = record(
    {},
    {
        "effort": nullable(one_of("low", "medium", "high", "xhigh", "max")),
        "format": nullable(record({"type": one_of("json_schema"), "schema": mapping})),
    },
)


def _request(*, unsigned: bool) -> Check:
    return record(
        {"model": WORD, "max_tokens": integer(0), "messages": array(_message(unsigned=unsigned), least=1)},
        {
            "system": text_or(array(tagged("type", {"text": _TEXT}))),
            "tools": array(_tool),
            "tool_choice": _CHOICE,
            "thinking": _THINKS,
            "output_config": _OUTPUT,
            "stop_sequences": array(_BLANK_FREE),
            "metadata": record({}, {"user_id": nullable(text())}),
            "stream": boolean,
            **dict.fromkeys(("temperature", "top_p", "top_k"), numeric),
            **_MARK,
            **pad("service_tier", "speed", "container", "diagnostics", "inference_geo", "user_profile_id"),
            **pad("workspace_id"),
        },
    )


def check(body: dict[str, Any], spot: Spot, options: Options) -> None:
    """Judge a whole request."""
    _request(unsigned=options.unsigned)(body, spot)
    if spot.found:
        return
    messages, place = body["messages"], spot.at("messages")
    if messages[0]["role"] != "user":
        place.at(0).say("the first message must be from the user")
    _check_pairs(messages, place)
    _check_end(messages, place)
    _check_tools(body, spot)
    _check_choice(body, spot)
    _check_marks(body, spot)
    _check_model(body, spot, options.model or body["model"])


def _blocks(message: dict[str, Any], kind: str) -> list[tuple[int, dict[str, Any]]]:
    content = message["content"] if isinstance(message["content"], list) else []
    return [(position, block) for position, block in enumerate(content) if block["type"] == kind]


def _check_pairs(messages: list[dict[str, Any]], spot: Spot) -> None:
    """Results stand in the message right after their calls: all of them, and before anything else."""
    expected: list[str] = []
    uses: list[tuple[str, Spot]] = []
    for position, message in enumerate(messages):
        place = spot.at(position)
        results = _blocks(message, "tool_result")
        answered = [block["tool_use_id"] for _, block in results]
        unique(answered, [place.at("content", number) for number, _ in results], "answered tool_use id")
        for identity in expected:
            if identity not in answered:
                place.say(f"must hold the tool_result of {identity!r}, which the message before it called")
        for number, block in results:
            if block["tool_use_id"] not in expected:
                place.at("content", number).say("is a tool_result without a tool_use in the message before it")
        if results and results[-1][0] >= len(results):
            place.say("must hold its tool_result blocks before all other blocks")
        calls = _blocks(message, "tool_use")
        uses.extend((block["id"], place.at("content", number)) for number, block in calls)
        _check_thoughts(message, calls, place)
        expected = [block["id"] for _, block in calls]
    for identity in expected:
        spot.at(len(messages) - 1).say(f"the tool_use {identity!r} is not answered by a following user message")
    unique([identity for identity, _ in uses], [place for _, place in uses], "tool_use id")


def _check_thoughts(message: dict[str, Any], calls: list[tuple[int, dict[str, Any]]], spot: Spot) -> None:
    thoughts = _blocks(message, "thinking") + _blocks(message, "redacted_thinking")
    for number, _ in thoughts:
        if calls and number > calls[0][0]:
            spot.at("content", number).say("is thinking after a tool_use; it must stand before it")


def _check_end(messages: list[dict[str, Any]], spot: Spot) -> None:
    last = messages[-1]
    if last["role"] != "assistant":
        return
    content = last["content"]
    final = content if isinstance(content, str) else content[-1].get("text", "")
    if final != final.rstrip():
        spot.at(len(messages) - 1).say("the final assistant text must not end with white space")


def _check_tools(body: dict[str, Any], spot: Spot) -> None:
    tools = body.get("tools", [])
    places = [spot.at("tools", position) for position in range(len(tools))]
    unique([str(tool.get("name", position)) for position, tool in enumerate(tools)], places, "tool name")
    strict = [(tool, place) for tool, place in zip(tools, places, strict=True) if tool.get("strict")]
    for tool, place in strict:
        anthropic_strict(tool["input_schema"], place.at("input_schema"))
    if len(strict) > 20:
        spot.at("tools").say(f"at most 20 tools may be strict, not {len(strict)}")
    used = any(_blocks(message, kind) for message in body["messages"] for kind in ("tool_use", "tool_result"))
    if used and not tools:
        spot.say("needs tools, for the history holds tool blocks")


def _check_choice(body: dict[str, Any], spot: Spot) -> None:
    choice, thinking = body.get("tool_choice", {"type": "auto"}), body.get("thinking", {})
    if "tool_choice" in body and not body.get("tools"):
        spot.at("tool_choice").say("is only allowed when tools are offered")
    elif choice["type"] == "tool":
        must_be_offered(choice["name"], [tool.get("name") for tool in body["tools"]], spot.at("tool_choice"))
    if thinking.get("type") == "enabled":
        if thinking["budget_tokens"] >= body["max_tokens"]:
            spot.at("thinking", "budget_tokens").say("must be below max_tokens")
        if choice["type"] in {"any", "tool"}:
            spot.at("tool_choice").say("must not force a tool while thinking is enabled")


def _check_marks(body: dict[str, Any], spot: Spot) -> None:
    """At most four places of the whole request are marked for the cache."""
    pending: list[Any] = [body.get("tools", []), body.get("system", []), body["messages"]]
    marks = int(body.get("cache_control") is not None)
    while pending:
        value = pending.pop()
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            marks += value.get("cache_control") is not None
            pending.append(value.get("content"))
    if marks > 4:
        spot.say(f"at most 4 cache_control markers are allowed, not {marks}")


def _check_model(body: dict[str, Any], spot: Spot, model: str) -> None:
    """What single families of models refuse."""
    new = re.search(r"opus-(4[-.][78]|5)|haiku-5[-.]5", model)
    for key in ("temperature", "top_p", "top_k"):
        if new and key in body:
            spot.at(key).say(f"is refused by {model}")
    kind = body.get("thinking", {}).get("type")
    if (new and kind == "enabled") or (kind == "disabled" and re.search(r"sonnet-5[-.]5", model)):
        spot.at("thinking", "type").say(f"{kind!r} is refused by {model}")
    last = body["messages"][-1]
    if new and last["role"] == "assistant" and not _blocks(last, "server_tool_use"):
        spot.at("messages", len(body["messages"]) - 1).say(
            f"an answer that is begun by the caller is refused by {model}"
        )
