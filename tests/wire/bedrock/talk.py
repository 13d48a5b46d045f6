"""Words that the tests of Converse share: a model, tools, frames, and JSON that was damaged."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from hypothesis import strategies as st
from tests.wire.judges import bedrock as judge
from tests.wire.judges.answers import bedrock_block, to_frame, to_frames
from tests.wire.rules import violations

from dragoman.stage import collect
from dragoman.types import Message, Reply, Request, Text, Tool, ToolCall, ToolResult
from dragoman.wire.bedrock import Bedrock
from dragoman.wire.codec import Prepared
from dragoman.wire.quirks import DEFAULTS, Quirks

__all__ = ["PIXEL", "bedrock_block", "judge", "to_frame", "to_frames"]

CLAUDE = "anthropic.claude-sonnet-4-5-v1:0"
NOVA = "amazon.nova-pro-v1:0"
LLAMA = "meta.llama3-1-70b-instruct-v1:0"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = Tool("weather", "Forecast for a city", CITY)
PING = Tool("ping")
END = ("metadata", {"usage": {"inputTokens": 11, "outputTokens": 7, "totalTokens": 18}, "metrics": {"latencyMs": 1}})
START: tuple[str, dict[str, Any]] = ("messageStart", {"role": "assistant"})


def user(*parts: Any) -> Message:
    return Message("user", [Text(part) if isinstance(part, str) else part for part in parts])


def assistant(*parts: Any) -> Message:
    return Message("assistant", user(*parts).parts)


def results(*parts: ToolResult) -> Message:
    return Message("tool", list(parts))


def call(id: str = "t1", name: str = "weather", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


def ask(*messages: Message, model: str = CLAUDE, tools: Any = (), **options: Any) -> Request:
    return Request(model, list(messages) or [user("Hi")], list(tools), options)


def prepare(request: Request, quirks: Quirks = DEFAULTS) -> Prepared:
    """The request as it is sent, which both judges have to accept."""
    prepared = Bedrock(quirks).prepare(request)
    assert violations("bedrock", prepared.body, model=request.model) == []
    judge.validate_request(prepared.body)
    return prepared


def encode(request: Request, quirks: Quirks = DEFAULTS) -> dict[str, Any]:
    return prepare(request, quirks).body


def told(prepared: Prepared) -> list[str]:
    return [f"{loss.rule} {loss}" for loss in prepared.losses]


def stop(reason: str = "end_turn", **more: Any) -> tuple[str, dict[str, Any]]:
    return ("messageStop", {"stopReason": reason, **more})


def call_block(index: Any, id: str, name: str, *pieces: Any) -> list[tuple[str, dict[str, Any]]]:
    deltas = [{"toolUse": {"input": piece}} for piece in pieces]
    return bedrock_block(index, *deltas, toolUse={"toolUseId": id, "name": name})


def events_of(*frames: tuple[str, dict[str, Any]]) -> list[Any]:
    return collect(Bedrock().reply_stream(), to_frames(*frames))


def whole(*content: Any, reason: str = "end_turn", **more: Any) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": list(content)}},
        "stopReason": reason,
        **END[1],
        **more,
    }


def calls_in(message: Message) -> list[ToolCall]:
    return [part for part in message.parts if isinstance(part, ToolCall)]


def said(reply: Reply) -> list[tuple[str, str, dict[str, Any]]]:
    return [(part.id, part.name, part.arguments) for part in reply.calls]


# ---- damage ----------------------------------------------------------------------------------------------------------

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


_LEAVE_OUT, _SAY_TWICE = object(), object()
_CHANGES = st.one_of(st.sampled_from([_LEAVE_OUT, _SAY_TWICE]), _ANYTHING)


@st.composite
def damaged(draw: st.DrawFn, value: Any) -> Any:
    """The JSON value with some of what stands in it replaced, left out or said twice."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(value))
        if places:
            holder, key = draw(st.sampled_from(places))
            _change(holder, key, draw(_CHANGES))
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every object or list, with each of its keys."""
    keys: Iterable[Any] = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _change(holder: Any, key: Any, change: Any) -> None:
    if change is _LEAVE_OUT:
        del holder[key]
    elif change is not _SAY_TWICE:
        holder[key] = change
    elif isinstance(holder, list):
        holder.insert(key, holder[key])
