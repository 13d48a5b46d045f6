"""The official Mistral client as the judge of Mistral's chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import httpx2
from mistralai.client import Mistral
from mistralai.client.errors import HTTPValidationError, MistralError, ResponseValidationError
from mistralai.client.models import (
    ChatCompletionRequest,
    ChatCompletionStreamRequest,
    CompletionEvent,
    ToolCall,
    UsageInfo,
)
from tests.wire.judges import scenes
from tests.wire.judges.seen import Seen
from tests.wire.judges.shapes import Shape, explain
from tests.wire.judges.transport import ADDRESS, REFUSAL, Connection, connect, fail, given, object_of

MODEL = "mistral-large-latest"
_WHOLE = Shape(ChatCompletionRequest, models=True)
_STREAMED = Shape(ChatCompletionStreamRequest, models=True)
_ASKED: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": scenes.HELLO}]}
# What the client gives as the id of a call that has none.
_NO_ID = "null"


def validate_request(body: dict[str, Any]) -> None:
    """Raise unless the body fits the models of the SDK, with no key that they do not name (the server refuses it)."""
    (_STREAMED if body.get("stream") else _WHOLE).check(body)


def read_whole(body: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Seen:
    """Let the client ask for a completion and get `body` as the answer."""
    with connect(body, status=status, headers=headers) as connection, _client_on(connection) as client:
        try:
            completion = client.chat.complete(**_ASKED)
        except MistralError as error:
            return _see_error(error)
    choice = completion.choices[0]
    if choice.message is None:
        fail("choices.0", "no message")
    reading = _Reading()
    reading.add_content(choice.message.content)
    reading.add_calls(choice.message.tool_calls or [])
    return reading.see(model=completion.model, stop=choice.finish_reason, usage=completion.usage)


def read_stream(chunks: Sequence[bytes]) -> Seen:
    """Let the client read the stream; it has one way only, event by event."""
    with connect(chunks) as connection, _client_on(connection) as client:
        try:
            with client.chat.stream(**_ASKED) as stream:
                return _fold(stream)
        except MistralError as error:
            return _see_error(error)


def sent() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What the client really sends, scene by scene, with what each request says."""
    return [(label, _send(asked), words) for label, asked, words in _scenes()]


@contextmanager
def _client_on(connection: Connection) -> Iterator[Mistral]:
    # The asynchronous half is never used, but left out it would be made for the network.
    unused = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)), trust_env=False)
    with Mistral(
        api_key="none", server_url=ADDRESS, client=connection.client, async_client=unused, retry_config=None
    ) as client:
        yield client


def _see_error(error: MistralError) -> Seen:
    """The error as a program sees it; an answer that the client cannot read is a fault of the answer and is raised.

    The client has no word for an error inside a stream: it calls it a chunk that does not fit, and hands it over.
    """
    told = json.loads(error.body)
    if isinstance(error, ResponseValidationError):
        told = told.get("data", told)
        if not isinstance(told, dict) or told.get("object") != "error":
            raise AssertionError(f"the answer does not fit\n{explain(error.__cause__)}") from error
    message = error.message if isinstance(error, HTTPValidationError) else told.get("message") or error.message
    return Seen(
        error=(type(error).__name__, error.status_code, str(message)),
        extra=given(type=told.get("type"), code=told.get("code"), retry_after=error.headers.get("retry-after")),
    )


class _Reading:
    """What was read of one answer so far, whole or in deltas."""

    def __init__(self) -> None:
        self.text = ""
        self.thinking = ""
        self.signatures: list[str] = []
        # By index: id, name, arguments as text or as an object.
        self.calls: dict[int, tuple[str, str, Any]] = {}

    def add_content(self, content: Any) -> None:
        if isinstance(content, str):
            self.text += content
            return
        for chunk in content or []:
            if chunk.type == "text":
                self.text += chunk.text
            elif chunk.type == "thinking":
                self.thinking += "".join(part.text for part in chunk.thinking)
                self.signatures += [chunk.signature] if chunk.signature else []
            else:
                fail("content", f"a chunk of type {chunk.type!r}")

    def add_calls(self, calls: Iterable[ToolCall]) -> None:
        """Whole calls: each has its own index, or, when all say 0 for want of one, its place in the list."""
        for call in calls:
            index = call.index if call.index not in self.calls and call.index is not None else len(self.calls)
            self.calls[index] = (call.id or _NO_ID, call.function.name, call.function.arguments)

    def add_pieces(self, calls: Iterable[ToolCall]) -> None:
        """Calls of a delta: a known index goes on with the arguments of that call."""
        for call in calls:
            index = call.index or 0
            if index not in self.calls:
                self.add_calls([call])
                continue
            id, name, arguments = self.calls[index]
            if call.id not in {id, _NO_ID}:
                fail("tool_calls", f"two calls at index {index}: {id!r} and {call.id!r}")
            self.calls[index] = (id, name, arguments + call.function.arguments)

    def see(self, *, model: str, stop: str | None, usage: UsageInfo | None) -> Seen:
        return Seen(
            text=self.text,
            thinking=self.thinking,
            calls=tuple(
                (None if id == _NO_ID else id, name, _arguments(name, arguments))
                for _, (id, name, arguments) in sorted(self.calls.items())
            ),
            usage=(usage.prompt_tokens or 0, usage.completion_tokens or 0) if usage else None,
            stop=stop or "",
            model=model,
            extra=given(signatures=tuple(self.signatures)),
        )


def _arguments(name: str, arguments: Any) -> dict[str, Any]:
    """The one wire of the four where the arguments are text or an object, as the server likes."""
    return dict(arguments) if isinstance(arguments, dict) else object_of(arguments, f"arguments of {name}")


def _fold(stream: Iterable[CompletionEvent]) -> Seen:
    reading = _Reading()
    model = stop = ""
    usage: UsageInfo | None = None
    for event in stream:
        model = model or event.data.model
        usage = event.data.usage or usage
        for choice in event.data.choices:
            reading.add_content(choice.delta.content)
            reading.add_pieces(choice.delta.tool_calls or [])
            stop = choice.finish_reason or stop
    return reading.see(model=model, stop=stop, usage=usage)


def _send(asked: dict[str, Any]) -> dict[str, Any]:
    asked = _ASKED | asked
    with connect(REFUSAL, status=400) as connection, _client_on(connection) as client:
        with suppress(MistralError):
            if asked.pop("stream", False):
                client.chat.stream(**asked)
            else:
                client.chat.complete(**asked)
        return connection.bodies[-1]


def _tools() -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
        for name, description, parameters in scenes.TOOLS
    ]


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _assistant(content: Any, *calls: tuple[str, str, Any]) -> dict[str, Any]:
    made = [{"id": id, "function": {"name": name, "arguments": arguments}} for id, name, arguments in calls]
    return {"role": "assistant", "content": content, "tool_calls": made}


def _result(id: str, name: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "name": name, "content": content}


_Scene = tuple[str, dict[str, Any], dict[str, Any]]


def _scenes() -> Iterator[_Scene]:
    yield "plain", {"max_tokens": 100}, scenes.said(MODEL, max_tokens=100)
    yield "stream", {"stream": True}, scenes.said(MODEL, stream=True)
    system = [{"role": "system", "content": scenes.SYSTEM}, _user(scenes.HELLO)]
    yield "system", {"messages": system}, scenes.said(MODEL, system=scenes.SYSTEM)
    yield "unicode", {"messages": [_user(scenes.UNICODE)]}, scenes.said(MODEL, texts=[scenes.UNICODE])
    silence = [_user(scenes.HELLO), {"role": "assistant", "content": ""}, _user("Still there?")]
    yield "empty_text", {"messages": silence}, scenes.said(MODEL, texts=[scenes.HELLO, "Still there?"])
    picture = {"type": "image_url", "image_url": f"data:image/png;base64,{scenes.PIXEL}"}
    parts = [{"type": "text", "text": "What is it?"}, picture]
    yield "image", {"messages": [_user(parts)]}, scenes.said(MODEL, texts=["What is it?"], images=1)
    yield "reasoning", {"prompt_mode": "reasoning", "reasoning_effort": "high"}, scenes.said(MODEL)
    yield from _tool_scenes()
    yield from _history_scenes()


def _tool_scenes() -> Iterator[_Scene]:
    tools = {"tools": _tools()}
    yield "tools", tools, scenes.said(MODEL, tools=scenes.NAMES)
    for choice, word in (("auto", "auto"), ("none", "none"), ("required", "required"), ("any", "required")):
        words = scenes.said(MODEL, tools=scenes.NAMES, tool_choice=word)
        yield f"tool_choice_{choice}", tools | {"tool_choice": choice}, words
    named = {"type": "function", "function": {"name": "ping"}}
    words = scenes.said(MODEL, tools=scenes.NAMES, tool_choice={"name": "ping"})
    yield "tool_choice_named", tools | {"tool_choice": named}, words
    words = scenes.said(MODEL, tools=scenes.NAMES, parallel=False)
    yield "no_parallel", tools | {"parallel_tool_calls": False}, words


def _history_scenes() -> Iterator[_Scene]:
    tools = {"tools": _tools()}
    calls = [("callParis", "get_weather", scenes.PARIS), ("call0rsta", "get_weather", scenes.OSLO)]
    # Once as an object and once as text: the types allow both.
    written = [calls[0], ("call0rsta", "get_weather", json.dumps(scenes.OSLO))]
    results = [
        _result("callParis", "get_weather", "sunny"),
        _result("call0rsta", "get_weather", [{"type": "text", "text": "grå"}]),
    ]
    words = scenes.said(
        MODEL, tools=scenes.NAMES, calls=calls, results=[("callParis", "sunny", False), ("call0rsta", "grå", False)]
    )
    asked = [_user(scenes.HELLO), _assistant(None, *written), *results]
    yield "parallel_calls", tools | {"messages": asked}, words
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": scenes.THOUGHT}], "signature": "signed"}
    content = [thought, {"type": "text", "text": "Both at once."}]
    yield (
        "replayed_reasoning",
        tools | {"messages": [_user(scenes.HELLO), _assistant(content, *written), *results]},
        words | {"reasoning": [(scenes.THOUGHT, "signed")]},
    )
    call = ("callPing1", "ping", scenes.NOTHING)
    # This wire has no flag for an error: the text alone says so.
    for label, text in (("no_argument_call", "pong"), ("error_result", "Error: no route")):
        messages = [
            _user(scenes.HELLO),
            _assistant("", ("callPing1", "ping", "{}")),
            _result("callPing1", "ping", text),
        ]
        words = scenes.said(MODEL, tools=scenes.NAMES, calls=[call], results=[("callPing1", text, False)])
        yield label, tools | {"messages": messages}, words
