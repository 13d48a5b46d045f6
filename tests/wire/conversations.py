"""Requests and replies that every wire has to carry, and what they say in neutral words."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.types import (
    Image,
    InvalidCall,
    Message,
    Part,
    Reply,
    Request,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire import names
from dragoman.wire.aliases import Aliases

WIRES = names()

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
ODD_TEXT = 'Grüße, 世界 🌍 \u2028 \u2029 \x85 "quoted" \\ \t end'
# Nine letters and digits: an id that every wire takes as it is.
FIRST, SECOND = "abc123XYZ", "def456UVW"

WEATHER = Tool(
    "get_weather",
    "Forecast for a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
PING = Tool("ping", "Answer at once", {"type": "object", "properties": {}})
TOOLS = [WEATHER, PING]


def reply(*parts: Any, stop: Any = "end", usage: Usage = Usage(12, 7)) -> Reply:  # noqa: B008
    return Reply(Message("assistant", list(parts)), usage, stop, model="model-1", id="reply-1")


REPLIES: dict[str, Reply] = {
    "text": reply(Text("Hello there.")),
    "empty text": reply(),
    "unicode": reply(Text(ODD_TEXT), ToolCall(FIRST, "get_weather", {"city": ODD_TEXT}), stop="tool_calls"),
    "no-argument call": reply(ToolCall(FIRST, "ping", {}), stop="tool_calls"),
    "parallel calls": reply(
        Text("Let me look."),
        ToolCall(FIRST, "get_weather", {"city": "Paris", "days": 2}),
        ToolCall(SECOND, "get_weather", {"city": "Oslo", "list": [1, {"a": None}], "flag": True, "x": 1.5}),
        stop="tool_calls",
    ),
    "reasoning": reply(Thinking("Think first."), Text("Then speak.")),
    "reasoning before a call": reply(Thinking("I need the weather."), ToolCall(FIRST, "ping", {}), stop="tool_calls"),
    "cut by the limit": reply(Text("Once upon"), stop="length"),
}


def history() -> list[Message]:
    """A conversation with two calls at once, one of which failed."""
    return [
        Message("system", [Text("Be brief.")]),
        Message("user", [Text("Weather in Paris and Oslo?")]),
        Message(
            "assistant",
            [
                Text("Let me look."),
                ToolCall(FIRST, "get_weather", {"city": "Paris", "days": 2}),
                ToolCall(SECOND, "get_weather", {"city": "Oslo"}),
            ],
        ),
        Message(
            "tool",
            [ToolResult(FIRST, "get_weather", "12 degrees"), ToolResult(SECOND, "get_weather", "no such city", True)],
        ),
        Message("user", [Text("And now?")]),
    ]


REQUESTS: dict[str, Request] = {
    "plain": Request("model-1", [Message("user", [Text("Hello")])], options={"max_tokens": 100}),
    "stream": Request("model-1", [Message("user", [Text("Hello")])], options={"max_tokens": 100, "stream": True}),
    "unicode": Request("model-1", [Message("user", [Text(ODD_TEXT)])], TOOLS),
    "tools": Request("model-1", [Message("user", [Text("Hello")])], TOOLS),
    "auto": Request("model-1", [Message("user", [Text("Hello")])], TOOLS, {"tool_choice": "auto"}),
    "none": Request("model-1", [Message("user", [Text("Hello")])], TOOLS, {"tool_choice": "none"}),
    "required": Request("model-1", [Message("user", [Text("Hello")])], TOOLS, {"tool_choice": "required"}),
    "named": Request("model-1", [Message("user", [Text("Hello")])], TOOLS, {"tool_choice": {"name": "ping"}}),
    "one at a time": Request("model-1", [Message("user", [Text("Hello")])], TOOLS, {"parallel_tool_calls": False}),
    "sampling": Request(
        "model-1",
        [Message("user", [Text("Hello")])],
        options={"temperature": 0.5, "top_p": 0.9, "stop": ["END"], "max_tokens": 50},
    ),
    "history": Request("model-1", history(), TOOLS),
    "cached": Request("model-1", history(), TOOLS, {"cache": True}),
    "a call without arguments": Request(
        "model-1",
        [
            Message("user", [Text("Ping it.")]),
            Message("assistant", [ToolCall(FIRST, "ping", {})]),
            Message("tool", [ToolResult(FIRST, "ping", "pong")]),
        ],
        TOOLS,
    ),
    "image": Request("model-1", [Message("user", [Text("What is this?"), Image(None, PIXEL, "image/png")])]),
    "image in a result": Request(
        "model-1",
        [
            Message("user", [Text("Ping it.")]),
            Message("assistant", [ToolCall(FIRST, "ping", {})]),
            Message("tool", [ToolResult(FIRST, "ping", [Text("see"), Image(None, PIXEL, "image/png")])]),
            Message("user", [Text("What is it?")]),
        ],
        TOOLS,
    ),
    "a dangling call": Request(
        "model-1",
        [Message("user", [Text("Ping it.")]), Message("assistant", [ToolCall(FIRST, "ping", {})])],
        TOOLS,
    ),
    "a result without a call": Request(
        "model-1",
        [Message("user", [Text("Hello")]), Message("tool", [ToolResult("gone", "ping", "pong")])],
        TOOLS,
    ),
    "a call that could not be read": Request(
        "model-1",
        [
            Message("user", [Text("Ping it.")]),
            Message("assistant", [InvalidCall(FIRST, "ping", '{"a": ', ())]),
            Message("user", [Text("Again.")]),
        ],
        TOOLS,
    ),
    "two users in a row": Request(
        "model-1",
        [
            Message("user", [Text("One.")]),
            Message("user", [Text("Two.")]),
            Message("assistant", [Text("Yes?")]),
            Message("user", [Text("Three.")]),
        ],
    ),
    "the assistant speaks first": Request(
        "model-1", [Message("assistant", [Text("Welcome.")]), Message("user", [Text("Hello")])]
    ),
    "a late system message": Request(
        "model-1",
        [Message("user", [Text("Hello")]), Message("system", [Text("Be brief.")]), Message("user", [Text("Go on.")])],
    ),
    "foreign reasoning": Request(
        "model-1",
        [
            Message("user", [Text("Hello")]),
            Message("assistant", [Thinking("hm", {"elsewhere": {"signature": "x"}}), Text("Hi.")]),
            Message("user", [Text("Go on.")]),
        ],
    ),
    "odd names and ids": Request(
        "model-1",
        [
            Message("user", [Text("Go.")]),
            Message("assistant", [ToolCall("functions.files.read:0", "files.read/all things", {"p": 1})]),
            Message("tool", [ToolResult("functions.files.read:0", "files.read/all things", "ok")]),
        ],
        [Tool("files.read/all things", "Read"), Tool("x" * 80, "Long"), Tool("7zip", "Digit first")],
    ),
}


def describe(request: Request) -> dict[str, Any]:
    """What a request says, in the neutral words of the judges."""
    parts = [part for message in request.messages for part in message.parts]
    options = request.options
    return {
        "model": request.model,
        "system": "\n".join(message.text for message in request.messages if message.role == "system"),
        "texts": [
            part.text
            for message in request.messages
            if message.role == "user"
            for part in message.parts
            if isinstance(part, Text)
        ],
        "tools": [tool.name for tool in request.tools],
        "tool_choice": options.get("tool_choice"),
        "calls": [(part.wire_id, part.name, part.arguments) for part in parts if isinstance(part, ToolCall)],
        "results": [(part.call_id, words(part), part.is_error) for part in parts if isinstance(part, ToolResult)],
        "images": sum(isinstance(part, Image) for part in parts)
        + sum(isinstance(inner, Image) for part in parts if isinstance(part, ToolResult) for inner in part.content),
        "stream": options.get("stream", False),
        "max_tokens": options.get("max_tokens"),
        "parallel": options.get("parallel_tool_calls"),
    }


def words(result: ToolResult) -> str:
    """The text of a result."""
    if isinstance(result.content, str):
        return result.content
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


# --------------------------------------------------------------------------------------------------------------------
# A request read from a wire, under the names and ids that it had before it was written there.


def restore_request(request: Request, aliases: Aliases) -> Request:
    """Undo the renaming of tools and calls that `aliases` tells of."""
    if not aliases.names and all(wire == ours for wire, ours in aliases.ids.items()):
        return request
    return replace(
        request,
        messages=[_restore_message(message, aliases) for message in request.messages],
        tools=[replace(tool, name=aliases.name(tool.name)) for tool in request.tools],
        options=_restore_choice(request.options, aliases),
    )


def _restore_message(message: Message, aliases: Aliases) -> Message:
    return replace(message, parts=[_restore_part(part, aliases) for part in message.parts])


def _restore_part(part: Part, aliases: Aliases) -> Part:
    if isinstance(part, ToolCall | InvalidCall):
        return replace(part, id=aliases.ids.get(part.id, part.id), name=aliases.name(part.name))
    if isinstance(part, ToolResult):
        identity = aliases.ids.get(part.call_id, part.call_id)
        return replace(part, call_id=identity, name=aliases.name(part.name))
    return part


def _restore_choice(options: dict[str, Any], aliases: Aliases) -> dict[str, Any]:
    choice = options.get("tool_choice")
    if not isinstance(choice, dict):
        return options
    restored = dict(choice)
    if isinstance(choice.get("name"), str):
        restored["name"] = aliases.name(choice["name"])
    if isinstance(choice.get("names"), list):
        restored["names"] = [aliases.name(name) for name in choice["names"]]
    return {**options, "tool_choice": restored}
