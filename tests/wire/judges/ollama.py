"""The official `ollama` client as the judge of our /api/chat wire.

Its types know less than the server: they have no id of a call, no `tool_call_id`, and of a tool's schema only the
first level. What the server is known to read beyond them is listed in `SERVER_KEYS` and accepted in a request; the
client drops it from an answer, so the calls of a `Seen` have no ids here.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import msgspec
import ollama
from ollama._types import ChatRequest
from tests.wire.judges import scenes
from tests.wire.judges.inprocess import Line, whole
from tests.wire.judges.seen import Seen
from tests.wire.judges.strict import check

MODEL = "qwen3:8b"
_Property = ollama.Tool.Function.Parameters.Property

SERVER_KEYS: dict[type, dict[str, Any]] = {
    ChatRequest: {"truncate": bool, "shift": bool},
    # The client's Image is a path or bytes in Python and a base64 string on the wire.
    ollama.Message: {"tool_call_id": str, "images": list[bytes]},
    ollama.Message.ToolCall: {"id": str},
    ollama.Message.ToolCall.Function: {"index": int},
    _Property: {"anyOf": list[_Property], "properties": dict[str, _Property], "required": list[str]},
}


def validate_request(body: dict[str, Any]) -> None:
    """Raise unless the body fits the client's ChatRequest, or the keys that the server reads beyond it."""
    ChatRequest.model_validate(body)
    check(body, ChatRequest, extras=SERVER_KEYS)


def read_whole(body: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Seen:
    """What the client makes of a whole answer."""
    with _client(whole(body, status, headers)) as client:
        try:
            answer = client.chat(MODEL, [{"role": "user", "content": "Hi"}])
        except ollama.ResponseError as error:
            return _failed(Seen(), error)
    check(body, ollama.ChatResponse, extras=SERVER_KEYS)
    return _collect([answer])


def read_stream(chunks: list[bytes]) -> Seen:
    """What the client makes of a streamed answer."""
    lines: list[ollama.ChatResponse] = []
    with _client(Line(chunks, headers={"content-type": "application/x-ndjson"})) as client:
        try:
            lines.extend(client.chat(MODEL, [{"role": "user", "content": "Hi"}], stream=True))
        except ollama.ResponseError as error:
            return _failed(_collect(lines), error)
    for number, line in enumerate(b"".join(chunks).splitlines()):
        check(msgspec.json.decode(line), ollama.ChatResponse, f"line {number}", SERVER_KEYS)
    return _collect(lines)


def _client(line: Line) -> ollama.Client:
    return ollama.Client("http://judge.invalid", transport=httpx.MockTransport(line.answer))


def _collect(lines: list[ollama.ChatResponse]) -> Seen:
    if not lines:
        return Seen()
    last = lines[-1]
    calls = [call.function for line in lines for call in line.message.tool_calls or ()]
    counted = last.prompt_eval_count is not None or last.eval_count is not None
    return Seen(
        text="".join(line.message.content or "" for line in lines),
        thinking="".join(line.message.thinking or "" for line in lines),
        calls=tuple((None, call.name, dict(call.arguments)) for call in calls),
        usage=(last.prompt_eval_count or 0, last.eval_count or 0) if counted else None,
        stop=last.done_reason or "",
        model=last.model or "",
        extra={"done": last.done},
    )


def _failed(so_far: Seen, error: ollama.ResponseError) -> Seen:
    # The client says -1 when the error came inside a stream that had begun well.
    status = None if error.status_code == -1 else error.status_code
    return msgspec.structs.replace(so_far, error=(type(error).__name__, status, error.error))


# ---- what the client sends ----------------------------------------------------------------------------------------

_Scene = tuple[str, dict[str, Any], dict[str, Any]]
_TOOLS = [
    {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
    for name, description, parameters in scenes.TOOLS
]


def sent() -> list[_Scene]:
    """(label, body, what was said) for everything that the client was made to send."""
    return [(label, _send(asked), words) for label, asked, words in _scenes()]


def _send(asked: dict[str, Any]) -> dict[str, Any]:
    line = whole({"message": {"role": "assistant", "content": ""}, "done": True})
    with _client(line) as client:
        answer: Any = client.chat(MODEL, **({"messages": [_user(scenes.HELLO)]} | asked))
        if asked.get("stream"):
            list(answer)
    [(_, body)] = line.asked
    return body


def _said(**changes: Any) -> dict[str, Any]:
    return scenes.said(MODEL, **changes)


def _user(text: str, **more: Any) -> ollama.Message:
    return ollama.Message(role="user", content=text, **more)


def _assistant(text: str | None, *calls: tuple[None, str, dict[str, Any]], **more: Any) -> ollama.Message:
    made = [
        ollama.Message.ToolCall(function=ollama.Message.ToolCall.Function(name=name, arguments=arguments))
        for _, name, arguments in calls
    ]
    return ollama.Message(role="assistant", content=text, tool_calls=made or None, **more)


def _result(name: str, text: str, **more: Any) -> ollama.Message:
    return ollama.Message(role="tool", content=text, tool_name=name, **more)


def _scenes() -> Iterator[_Scene]:
    image = {"images": [ollama.Image(value=base64.b64decode(scenes.PIXEL))]}
    yield "plain", {}, _said()
    yield "stream", {"stream": True}, _said(stream=True)
    yield "max_tokens", {"options": {"num_predict": 64, "num_ctx": 8192}}, _said(max_tokens=64)
    system = ollama.Message(role="system", content=scenes.SYSTEM)
    yield "system", {"messages": [system, _user(scenes.HELLO)]}, _said(system=scenes.SYSTEM)
    yield "unicode", {"messages": [_user(scenes.UNICODE)]}, _said(texts=[scenes.UNICODE])
    # The client leaves an empty content out.
    silence = [{"role": "user", "content": scenes.HELLO}, {"role": "assistant", "content": ""}, _user("Still there?")]
    yield "empty_text", {"messages": silence}, _said(texts=[scenes.HELLO, "Still there?"])
    yield "image", {"messages": [_user("What is it?", **image)]}, _said(texts=["What is it?"], images=1)
    yield "reasoning", {"think": True}, _said()
    yield "reasoning_effort", {"think": "high"}, _said()
    yield "reasoning_off", {"think": False}, _said()
    # There is no tool_choice and no flag for parallel calls on this wire.
    yield "tools", {"tools": _TOOLS}, _said(tools=scenes.NAMES)
    yield from _history_scenes(image)


def _history_scenes(image: dict[str, Any]) -> Iterator[_Scene]:
    calls = [(None, "get_weather", scenes.PARIS), (None, "get_weather", scenes.OSLO)]
    results = [_result("get_weather", "sunny"), _result("get_weather", "grå")]
    words = _said(
        texts=[scenes.HELLO, "And now?"],
        tools=scenes.NAMES,
        calls=calls,
        results=[(None, "sunny", False), (None, "grå", False)],
    )
    for label, thought, reasoning in (
        ("parallel_calls", None, []),
        ("replayed_reasoning", scenes.THOUGHT, [(scenes.THOUGHT, None)]),
    ):
        made = _assistant("Both at once.", *calls, thinking=thought)
        asked = [_user(scenes.HELLO), made, *results, _user("And now?")]
        yield label, {"tools": _TOOLS, "messages": asked}, words | {"reasoning": reasoning}
    ping = (None, "ping", scenes.NOTHING)
    for label, result, text, images in (
        ("no_argument_call", _result("ping", "pong"), "pong", 0),
        # The wire has no mark for an error: it is text.
        ("error_result", _result("ping", "Error: no route"), "Error: no route", 0),
        ("image_result", _result("ping", "a map", **image), "a map", 1),
    ):
        asked = [_user(scenes.HELLO), _assistant(None, ping), result]
        words = _said(tools=scenes.NAMES, calls=[ping], results=[(None, text, False)], images=images)
        yield label, {"tools": _TOOLS, "messages": asked}, words
