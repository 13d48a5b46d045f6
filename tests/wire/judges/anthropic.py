"""The official Anthropic client as the judge of the Messages API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import anthropic
from anthropic import Anthropic
from anthropic.types import Message, Usage
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
from tests.wire.judges import scenes
from tests.wire.judges.seen import Seen
from tests.wire.judges.shapes import Shape, explain
from tests.wire.judges.transport import ADDRESS, REFUSAL, Connection, agree, connect, fail, given, object_of

MODEL = "claude-opus-5-5"
MAX_TOKENS = 4096
_WHOLE = Shape(MessageCreateParamsNonStreaming)
_STREAMED = Shape(MessageCreateParamsStreaming)
_ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": MAX_TOKENS,
    "messages": [{"role": "user", "content": scenes.HELLO}],
}
# The field of a block that each kind of delta adds to.
_FIELDS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def validate_request(body: dict[str, Any]) -> None:
    """Raise unless the body fits the TypedDicts of the SDK, with no key that they do not name."""
    (_STREAMED if body.get("stream") else _WHOLE).check(body)


def read_whole(body: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Seen:
    """Let the client ask for a message and get `body` as the answer."""
    with connect(body, status=status, headers=headers) as connection, _client_on(connection) as client:
        try:
            return _see(client.messages.create(**_ASKED))
        except anthropic.APIError as error:
            return _see_error(error)


def read_stream(chunks: Sequence[bytes]) -> Seen:
    """Let the client read the stream twice: event by event, and with its helper that builds the message."""
    by_event, by_helper = _read_events(chunks), _read_with_helper(chunks)
    agree(by_event, by_helper, "messages.create(stream=True) and messages.stream()")
    return by_helper


def sent() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What the client really sends, scene by scene, with what each request says."""
    return [(label, _send(asked), words) for label, asked, words in _scenes()]


@contextmanager
def _client_on(connection: Connection) -> Iterator[Anthropic]:
    """The official client, strict: an answer that does not fit its types is an error and not a half-empty object."""
    with Anthropic(
        api_key="none",
        base_url=ADDRESS,
        max_retries=0,
        http_client=connection.client,
        _strict_response_validation=True,
    ) as client:
        yield client


def _see_error(error: anthropic.APIError) -> Seen:
    """The error as a program sees it; an answer that the client cannot read is a fault of the answer and is raised."""
    if isinstance(error, anthropic.APIResponseValidationError):
        raise AssertionError(f"{error.message}\n{explain(error.__cause__)}") from error
    if not isinstance(error, anthropic.APIStatusError):
        return Seen(error=(type(error).__name__, None, error.message))
    return Seen(
        error=(type(error).__name__, error.status_code, error.api_message or error.message),
        extra=given(type=error.type, retry_after=error.response.headers.get("retry-after")),
    )


def _read_events(chunks: Sequence[bytes]) -> Seen:
    with connect(chunks) as connection, _client_on(connection) as client:
        try:
            with client.messages.create(**_ASKED, stream=True) as stream:
                return _fold(stream)
        except anthropic.APIError as error:
            return _see_error(error)


def _read_with_helper(chunks: Sequence[bytes]) -> Seen:
    with connect(chunks) as connection, _client_on(connection) as client:
        try:
            with client.messages.stream(**_ASKED) as stream:
                return _see(stream.get_final_message())
        except anthropic.APIError as error:
            return _see_error(error)


def _see(message: Message) -> Seen:
    # By value: the helper builds blocks of other classes, with the same fields, than a whole answer has.
    blocks = [block.model_dump() for block in message.content]
    return _see_blocks(blocks, message.model, message.stop_reason, message.usage.model_dump())


def _see_blocks(blocks: Sequence[Mapping[str, Any]], model: str, stop: str | None, usage: Mapping[str, Any]) -> Seen:
    kinds = {block["type"] for block in blocks} - {"text", "thinking", "redacted_thinking", "tool_use"}
    if kinds:
        fail("content", f"blocks of type {sorted(kinds)}")
    thinking = [block for block in blocks if block["type"] == "thinking"]
    return Seen(
        text="".join(block["text"] for block in blocks if block["type"] == "text"),
        thinking="".join(block["thinking"] for block in thinking),
        calls=tuple((block["id"], block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"),
        usage=(usage["input_tokens"], usage["output_tokens"]),
        stop=stop or "",
        model=model,
        extra=given(
            signatures=tuple(block["signature"] for block in thinking),
            redacted=tuple(block["data"] for block in blocks if block["type"] == "redacted_thinking"),
            cache_read_tokens=usage.get("cache_read_input_tokens"),
            cache_write_tokens=usage.get("cache_creation_input_tokens"),
        ),
    )


def _fold(stream: Iterable[Any]) -> Seen:
    """Put the events together by hand, and hold them to the order: one block open at a time, counted from 0."""
    message: Message | None = None
    blocks: list[dict[str, Any]] = []
    usage: dict[str, Any] = {}
    stop: str | None = None
    written = ""
    is_open = False
    for event in stream:
        if message is None or event.type == "message_start":
            message, usage = _begin(event, message)
        elif event.type == "content_block_start":
            if is_open or event.index != len(blocks):
                fail("content_block_start", f"block {event.index} after {len(blocks)}, still open: {is_open}")
            blocks.append(event.content_block.model_dump())
            is_open, written = True, ""
        elif event.type in {"content_block_delta", "content_block_stop"}:
            if not is_open or event.index != len(blocks) - 1:
                fail(event.type, f"for block {event.index}, open is {len(blocks) - 1 if is_open else None}")
            if event.type == "content_block_delta":
                written += _add(event.delta, blocks[-1])
            else:
                is_open = False
                _finish(blocks[-1], written)
        elif event.type == "message_delta":
            stop = event.delta.stop_reason
            usage |= given(**event.usage.model_dump())
    assert message is not None, "the stream holds no message"
    return _see_blocks(blocks, message.model, stop, usage)


def _begin(event: Any, message: Message | None) -> tuple[Message, dict[str, Any]]:
    if event.type != "message_start" or message is not None:
        fail(event.type, "a message begins with message_start, and only once")
    if event.message.content:
        fail("message_start", "the message is not empty")
    started: Message = event.message
    usage: Usage = started.usage
    return started, usage.model_dump()


def _add(delta: Any, block: dict[str, Any]) -> str:
    """Add a delta to its block; the JSON of a call is handed back, for it is whole only at the end."""
    if delta.type == "input_json_delta":
        if block["type"] != "tool_use":
            fail("input_json_delta", f"in a block of type {block['type']!r}")
        return str(delta.partial_json)
    field = _FIELDS.get(delta.type)
    if field is None or field not in block:
        fail(delta.type, f"in a block of type {block['type']!r}")
    block[field] += getattr(delta, field)
    return ""


def _finish(block: dict[str, Any], written: str) -> None:
    if block["type"] == "tool_use" and written:
        block["input"] = object_of(written, f"input of {block['name']}")


def _send(asked: dict[str, Any]) -> dict[str, Any]:
    with connect(REFUSAL, status=400) as connection, _client_on(connection) as client:
        with suppress(anthropic.BadRequestError):
            client.messages.create(**(_ASKED | asked))
        return connection.bodies[-1]


def _tools() -> list[dict[str, Any]]:
    return [
        {"name": name, "description": description, "input_schema": parameters}
        for name, description, parameters in scenes.TOOLS
    ]


def _said(**changes: Any) -> dict[str, Any]:
    return scenes.said(MODEL, **({"max_tokens": MAX_TOKENS} | changes))


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _call(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def _result(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content} | more


def _image() -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": scenes.PIXEL}}


_Scene = tuple[str, dict[str, Any], dict[str, Any]]


def _scenes() -> Iterator[_Scene]:
    yield "plain", {}, _said()
    yield "stream", {"stream": True}, _said(stream=True)
    yield "system", {"system": scenes.SYSTEM}, _said(system=scenes.SYSTEM)
    cached = [_text(scenes.SYSTEM) | {"cache_control": {"type": "ephemeral"}}]
    yield "system_blocks", {"system": cached}, _said(system=scenes.SYSTEM)
    yield "unicode", {"messages": [_user(scenes.UNICODE)]}, _said(texts=[scenes.UNICODE])
    silence = [_user(scenes.HELLO), {"role": "assistant", "content": ""}, _user("Still there?")]
    yield "empty_text", {"messages": silence}, _said(texts=[scenes.HELLO, "Still there?"])
    parts = [_text("What is it?"), _image()]
    yield "image", {"messages": [_user(parts)]}, _said(texts=["What is it?"], images=1)
    yield "reasoning", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}}, _said()
    yield "thinking_budget", {"thinking": {"type": "enabled", "budget_tokens": 1024}}, _said()
    yield from _tool_scenes()
    yield from _history_scenes()


def _tool_scenes() -> Iterator[_Scene]:
    tools = {"tools": _tools()}
    yield "tools", tools, _said(tools=scenes.NAMES)
    for choice, kind in (("auto", "auto"), ("none", "none"), ("required", "any")):
        words = _said(tools=scenes.NAMES, tool_choice=choice)
        yield f"tool_choice_{choice}", tools | {"tool_choice": {"type": kind}}, words
    words = _said(tools=scenes.NAMES, tool_choice={"name": "ping"})
    yield "tool_choice_named", tools | {"tool_choice": {"type": "tool", "name": "ping"}}, words
    alone = {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}
    yield "no_parallel", tools | alone, _said(tools=scenes.NAMES, tool_choice="auto", parallel=False)


def _history_scenes() -> Iterator[_Scene]:
    tools = {"tools": _tools()}
    calls = [("toolu_1", "get_weather", scenes.PARIS), ("toolu_2", "get_weather", scenes.OSLO)]
    made = [_call(*call) for call in calls]
    results = _user([_result("toolu_1", "sunny"), _result("toolu_2", [_text("grå")]), _text("And now?")])
    words = _said(
        texts=[scenes.HELLO, "And now?"],
        tools=scenes.NAMES,
        calls=calls,
        results=[("toolu_1", "sunny", False), ("toolu_2", "grå", False)],
    )
    asked = [_user(scenes.HELLO), _assistant(_text("Both at once."), *made), results]
    yield "parallel_calls", tools | {"messages": asked}, words
    thought = {"type": "thinking", "thinking": scenes.THOUGHT, "signature": "EqQBsigned"}
    hidden = {"type": "redacted_thinking", "data": "EmwKsecret"}
    yield (
        "replayed_reasoning",
        tools | {"messages": [_user(scenes.HELLO), _assistant(thought, hidden, *made), results]},
        words | {"reasoning": [(scenes.THOUGHT, "EqQBsigned"), ("", "EmwKsecret")]},
    )
    call = ("toolu_3", "ping", scenes.NOTHING)
    for label, result, text, images in (
        ("no_argument_call", _result("toolu_3", "pong"), "pong", 0),
        ("error_result", _result("toolu_3", "no route", is_error=True), "no route", 0),
        ("image_result", _result("toolu_3", [_text("a map"), _image()]), "a map", 1),
    ):
        told = [("toolu_3", text, label == "error_result")]
        words = _said(tools=scenes.NAMES, calls=[call], results=told, images=images)
        yield label, tools | {"messages": [_user(scenes.HELLO), _assistant(_call(*call)), _user([result])]}, words
