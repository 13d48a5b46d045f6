"""The official AWS client (`botocore`, bedrock-runtime) as the judge of our Converse wire.

The model is in the path of a request, and whether to stream is in it too. `botocore` checks what its caller gives:
names, types, required members, unions; `aws_shapes` adds what it leaves to the server.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import unquote

import botocore.session  # type: ignore[import-untyped]
import msgspec
from botocore.awsrequest import AWSResponse  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import ClientError  # type: ignore[import-untyped]
from tests.wire.judges import scenes
from tests.wire.judges.aws_shapes import check_events, check_shape
from tests.wire.judges.seen import Seen
from tests.wire.judges.transport import given, object_of

MODEL = "anthropic.claude-sonnet-4-5-v1:0"
_HI = [{"role": "user", "content": [{"text": "Hi"}]}]
_FRAMES = {"content-type": "application/vnd.amazon.eventstream"}


def validate_request(body: dict[str, Any]) -> None:
    """Raise unless the body fits the input of Converse, and with it that of ConverseStream."""
    for operation in ("Converse", "ConverseStream"):
        shape = _service().operation_model(operation).input_shape
        check_shape({"modelId": MODEL, **body}, shape, "$")


def read_whole(body: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Seen:
    """What the client makes of a whole answer."""
    with _Line([msgspec.json.encode(body)], status, {"content-type": "application/json", **(headers or {})}):
        try:
            answer = _client().converse(modelId=MODEL, messages=_HI)
        except ClientError as error:
            return _failed(Seen(), error)
    check_shape(body, _service().operation_model("Converse").output_shape, "$")
    blocks: list[dict[str, Any]] = answer["output"]["message"]["content"]
    return _collect(blocks, answer["stopReason"], answer["usage"])


def read_stream(chunks: list[bytes]) -> Seen:
    """What the client makes of a streamed answer."""
    check_events(chunks, _service().operation_model("ConverseStream").output_shape.members["stream"])
    blocks: dict[int, dict[str, Any]] = {}
    stop, usage = "", None
    with _Line(chunks, 200, _FRAMES):
        stream = _client().converse_stream(modelId=MODEL, messages=_HI)["stream"]
        try:
            for event in stream:
                if "contentBlockStart" in event:
                    _start(blocks, event["contentBlockStart"])
                elif "contentBlockDelta" in event:
                    _extend(blocks, event["contentBlockDelta"])
                elif "contentBlockStop" in event:
                    _finish(blocks, event["contentBlockStop"]["contentBlockIndex"])
                elif "messageStop" in event:
                    stop = event["messageStop"]["stopReason"]
                elif "metadata" in event:
                    usage = event["metadata"]["usage"]
        except ClientError as error:
            return _failed(_collect(_in_order(blocks), stop, usage), error)
        finally:
            stream.close()
    return _collect(_in_order(blocks), stop, usage)


class _Line:
    """Takes the place of the network while it is entered: it keeps the requests and gives one prepared answer."""

    def __init__(self, chunks: list[bytes], status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._chunks = chunks
        self._status = status
        self._headers = headers or {}

    def __enter__(self) -> _Line:
        _client().meta.events.register("before-send.bedrock-runtime", self._answer)
        return self

    def __exit__(self, *_: object) -> None:
        _client().meta.events.unregister("before-send.bedrock-runtime", self._answer)

    def _answer(self, request: Any, **_: Any) -> Any:
        path = unquote(request.url.removeprefix("https://judge.invalid"))
        self.asked.append((path, msgspec.json.decode(request.body)))
        return AWSResponse(request.url, self._status, self._headers, _Raw(self._chunks))


class _Raw:
    """The body of an answer, as the client wants to read it."""

    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = chunks

    def stream(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        self._chunks = []


@cache
def _client() -> Any:
    # The configuration of whoever runs the tests (files, profile) has no say here.
    session = botocore.session.Session(session_vars={"profile": (None, None, None, None)})
    session.set_config_variable("config_file", os.devnull)
    session.set_config_variable("credentials_file", os.devnull)
    return session.create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url="https://judge.invalid",
        aws_access_key_id="dummy",
        aws_secret_access_key="dummy",
        config=Config(retries={"total_max_attempts": 1}),
    )


def forget_client() -> None:
    """Have the next request make its client anew: making it takes long, so one is kept."""
    _client.cache_clear()


def _service() -> Any:
    return _client().meta.service_model


# ---- answers ------------------------------------------------------------------------------------------------------


def _start(blocks: dict[int, dict[str, Any]], event: dict[str, Any]) -> None:
    if tool := event["start"].get("toolUse"):
        blocks[event["contentBlockIndex"]] = {"toolUse": {**tool, "input": ""}}


def _extend(blocks: dict[int, dict[str, Any]], event: dict[str, Any]) -> None:
    block, delta = blocks.setdefault(event["contentBlockIndex"], {}), event["delta"]
    if "text" in delta:
        block["text"] = block.get("text", "") + delta["text"]
    elif "toolUse" in delta:
        block["toolUse"]["input"] += delta["toolUse"]["input"]
    elif "reasoningContent" in delta:
        [(kind, piece)] = delta["reasoningContent"].items()
        reasoning = block.setdefault("reasoningContent", {})
        if kind == "redactedContent":
            reasoning[kind] = reasoning.get(kind, b"") + piece
        else:
            inner = reasoning.setdefault("reasoningText", {})
            inner[kind] = inner.get(kind, "") + piece


def _finish(blocks: dict[int, dict[str, Any]], index: int) -> None:
    """Read the arguments of a call from their text (a call without arguments may have no text at all)."""
    if call := blocks.get(index, {}).get("toolUse"):
        call["input"] = object_of(call["input"] or "{}", f"input of {call['toolUseId']}")


def _in_order(blocks: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The blocks as a whole answer has them; a call that never stopped is none."""
    whole = [block for _, block in sorted(blocks.items())]
    return [block for block in whole if not isinstance(block.get("toolUse", {}).get("input"), str)]


def _collect(blocks: list[dict[str, Any]], stop: str, usage: dict[str, int] | None) -> Seen:
    reasoning = [block["reasoningContent"] for block in blocks if "reasoningContent" in block]
    readable = [item["reasoningText"] for item in reasoning if "reasoningText" in item]
    calls = [block["toolUse"] for block in blocks if "toolUse" in block]
    return Seen(
        text="".join(block.get("text", "") for block in blocks),
        thinking="".join(item.get("text", "") for item in readable),
        calls=tuple((call["toolUseId"], call["name"], call["input"]) for call in calls),
        usage=(usage["inputTokens"], usage["outputTokens"]) if usage else None,
        stop=stop,
        extra=given(
            signatures=tuple(item["signature"] for item in readable if "signature" in item),
            redacted=tuple(item["redactedContent"] for item in reasoning if "redactedContent" in item),
            cache_read=(usage or {}).get("cacheReadInputTokens"),
            cache_write=(usage or {}).get("cacheWriteInputTokens"),
        ),
    )


def _failed(so_far: Seen, error: Any) -> Seen:
    """An error inside a stream has no status; there the client's one class leaves the kind to `extra["code"]`."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    said = error.response["Error"]
    return msgspec.structs.replace(
        so_far,
        error=(type(error).__name__, status, said.get("Message", "")),
        extra={**so_far.extra, "code": said.get("Code")},
    )


# ---- what the client sends ----------------------------------------------------------------------------------------

_Scene = tuple[str, dict[str, Any], dict[str, Any]]
_HIDDEN = b"\xff\xfe opaque"
_TOOLS = [
    {"toolSpec": {"name": name, "description": description, "inputSchema": {"json": parameters}}}
    for name, description, parameters in scenes.TOOLS
]


def sent() -> list[_Scene]:
    """(label, body, what was said) for everything that the client was made to send; model and stream as in its URL."""
    return [(label, _send(asked, words), words) for label, asked, words in _scenes()]


def _send(asked: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    asked = {"modelId": MODEL, "messages": [_user(scenes.HELLO)]} | asked
    with _Line([] if words["stream"] else [b"{}"], headers=_FRAMES if words["stream"] else None) as line:
        if words["stream"]:
            _client().converse_stream(**asked)["stream"].close()
        else:
            _client().converse(**asked)
    [(path, body)] = line.asked
    assert path == f"/model/{words['model']}/converse{'-stream' if words['stream'] else ''}", path
    return body


def _said(**changes: Any) -> dict[str, Any]:
    return scenes.said(MODEL, **changes)


def _user(*content: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "content": [{"text": part} if isinstance(part, str) else part for part in content]}


def _assistant(*content: dict[str, Any] | str) -> dict[str, Any]:
    return _user(*content) | {"role": "assistant"}


def _call(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"toolUse": {"toolUseId": id, "name": name, "input": arguments}}


def _result(id: str, *content: dict[str, Any] | str, **more: str) -> dict[str, Any]:
    return {"toolResult": {"toolUseId": id, "content": _user(*content)["content"], **more}}


def _image() -> dict[str, Any]:
    return {"image": {"format": "png", "source": {"bytes": base64.b64decode(scenes.PIXEL)}}}


def _scenes() -> Iterator[_Scene]:
    yield "plain", {}, _said()
    yield "stream", {}, _said(stream=True)
    yield "max_tokens", {"inferenceConfig": {"maxTokens": 64}}, _said(max_tokens=64)
    yield "system", {"system": [{"text": scenes.SYSTEM}]}, _said(system=scenes.SYSTEM)
    yield "unicode", {"messages": [_user(scenes.UNICODE)]}, _said(texts=[scenes.UNICODE])
    silence = [_user(scenes.HELLO), _assistant(""), _user("Still there?")]
    yield "empty_text", {"messages": silence}, _said(texts=[scenes.HELLO, "Still there?"])
    yield "image", {"messages": [_user("What is it?", _image())]}, _said(texts=["What is it?"], images=1)
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    yield "reasoning", {"additionalModelRequestFields": thinking}, _said()
    yield "tools", {"toolConfig": {"tools": _TOOLS}}, _said(tools=scenes.NAMES)
    kinds: list[tuple[str, dict[str, Any], Any]] = [
        ("auto", {"auto": {}}, "auto"),
        ("required", {"any": {}}, "required"),
        ("named", {"tool": {"name": "ping"}}, {"name": "ping"}),
    ]
    for label, given_choice, choice in kinds:
        config = {"toolConfig": {"tools": _TOOLS, "toolChoice": given_choice}}
        yield f"tool_choice_{label}", config, _said(tools=scenes.NAMES, tool_choice=choice)
    # Converse has no such flag; for a Claude model it goes past Converse, in the vendor's own words.
    alone = {"additionalModelRequestFields": {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}}
    config = {"toolConfig": {"tools": _TOOLS, "toolChoice": {"auto": {}}}}
    yield "no_parallel", config | alone, _said(tools=scenes.NAMES, tool_choice="auto", parallel=False)
    yield from _history_scenes()


def _history_scenes() -> Iterator[_Scene]:
    tools = {"toolConfig": {"tools": _TOOLS}}
    calls = [("tooluse_1", "get_weather", scenes.PARIS), ("tooluse_2", "get_weather", scenes.OSLO)]
    made = [_call(*call) for call in calls]
    results = _user(_result("tooluse_1", "sunny"), _result("tooluse_2", "grå", status="success"), "And now?")
    words = _said(
        texts=[scenes.HELLO, "And now?"],
        tools=scenes.NAMES,
        calls=calls,
        results=[("tooluse_1", "sunny", False), ("tooluse_2", "grå", False)],
    )
    asked = [_user(scenes.HELLO), _assistant("Both at once.", *made), results]
    yield "parallel_calls", tools | {"messages": asked}, words
    thought = {"reasoningContent": {"reasoningText": {"text": scenes.THOUGHT, "signature": "EqQBsigned"}}}
    hidden = {"reasoningContent": {"redactedContent": _HIDDEN}}
    reasoning = [(scenes.THOUGHT, "EqQBsigned"), ("", base64.b64encode(_HIDDEN).decode())]
    asked = [_user(scenes.HELLO), _assistant(thought, hidden, *made), results]
    yield "replayed_reasoning", tools | {"messages": asked}, words | {"reasoning": reasoning}
    ping = ("tooluse_3", "ping", scenes.NOTHING)
    for label, result, text, images in (
        ("no_argument_call", _result("tooluse_3", "pong"), "pong", 0),
        ("error_result", _result("tooluse_3", "no route", status="error"), "no route", 0),
        ("image_result", _result("tooluse_3", "a map", _image()), "a map", 1),
    ):
        told = [("tooluse_3", text, label == "error_result")]
        asked = [_user(scenes.HELLO), _assistant(_call(*ping)), _user(result)]
        words = _said(tools=scenes.NAMES, calls=[ping], results=told, images=images)
        yield label, tools | {"messages": asked}, words
