"""The official OpenAI client as the judge of the Responses API."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import openai
from openai.types.responses import Response, ResponseOutputItem, ResponseUsage
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
    ResponseCreateParamsStreaming,
)
from tests.wire.judges import scenes
from tests.wire.judges.openai_chat import client_on, see_error
from tests.wire.judges.seen import Seen
from tests.wire.judges.shapes import Shape
from tests.wire.judges.transport import REFUSAL, agree, connect, fail, given, object_of

MODEL = "gpt-5.6"
_WHOLE = Shape(ResponseCreateParamsNonStreaming)
_STREAMED = Shape(ResponseCreateParamsStreaming)
_ASKED: dict[str, Any] = {"model": MODEL, "input": scenes.HELLO}
_ENDS = {"response.completed", "response.incomplete", "response.failed"}
_NO_END = ("RuntimeError", None, "Didn't receive a `response.completed` event.")


def validate_request(body: dict[str, Any]) -> None:
    """Raise unless the body fits the TypedDicts of the SDK, with no key that they do not name."""
    (_STREAMED if body.get("stream") else _WHOLE).check(body)


def read_whole(body: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Seen:
    """Let the client ask for a response and get `body` as the answer."""
    with connect(body, status=status, headers=headers) as connection, client_on(connection) as client:
        try:
            return _see(client.responses.create(**_ASKED))
        except openai.APIError as error:
            return see_error(error)


def read_stream(chunks: Sequence[bytes]) -> Seen:
    """Let the client read the stream twice: event by event, and with its helper that builds the response.

    The events are held to more: what the deltas say, what the finished items say and what the final response says
    must be the same.
    """
    by_event, by_helper = _read_events(chunks), _read_with_helper(chunks)
    agree(by_event, by_helper, "responses.create(stream=True) and responses.stream()")
    return by_helper


def sent() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What the client really sends, scene by scene, with what each request says."""
    return [(label, _send(asked), words) for label, asked, words in _scenes()]


def _read_events(chunks: Sequence[bytes]) -> Seen:
    with connect(chunks) as connection, client_on(connection) as client:
        try:
            with client.responses.create(**_ASKED, stream=True) as stream:
                return _fold(stream)
        except openai.APIError as error:
            return see_error(error)


def _read_with_helper(chunks: Sequence[bytes]) -> Seen:
    with connect(chunks) as connection, client_on(connection) as client:
        try:
            with client.responses.stream(**_ASKED) as stream:
                events = list(stream)
                last: Any = events[-1] if events else None
                if last is not None and last.type == "response.completed":
                    return _see(stream.get_final_response())
                return _see_end(last)
        except openai.APIError as error:
            return see_error(error)


def _see_end(event: Any) -> Seen:
    """The last event of a stream: the response, an error, or anything else, which means that the stream was cut."""
    if event is not None and event.type == "error":
        return Seen(error=("ResponseErrorEvent", None, event.message), extra=given(code=event.code, param=event.param))
    if event is None or event.type not in _ENDS:
        return Seen(error=_NO_END)
    return _see(event.response)


def _see(response: Response) -> Seen:
    reason = response.incomplete_details.reason if response.incomplete_details else None
    text, thinking, calls, extra = _see_items(response.output)
    return Seen(
        text=text,
        thinking=thinking,
        calls=calls,
        usage=(response.usage.input_tokens, response.usage.output_tokens) if response.usage else None,
        stop=f"{response.status}/{reason}" if reason else response.status or "",
        model=response.model,
        error=("ResponseError", None, response.error.message) if response.error else None,
        extra=extra | given(code=response.error.code if response.error else None) | _further_counts(response.usage),
    )


_Calls = tuple[tuple[str | None, str, dict[str, Any]], ...]


def _see_items(items: Iterable[ResponseOutputItem]) -> tuple[str, str, _Calls, dict[str, Any]]:
    """Text, thinking, calls and the rest of the output items."""
    text: list[str] = []
    refusal: list[str] = []
    thinking: list[str] = []
    encrypted: list[str] = []
    calls: list[tuple[str, str, dict[str, Any]]] = []
    for item in items:
        if item.type == "message":
            for part in item.content:
                (text.append(part.text) if part.type == "output_text" else refusal.append(part.refusal))
        elif item.type == "reasoning":
            thinking += [part.text for part in item.summary] + [part.text for part in item.content or []]
            encrypted += [item.encrypted_content] if item.encrypted_content is not None else []
        elif item.type == "function_call":
            calls.append((item.call_id, item.name, object_of(item.arguments, f"arguments of {item.name}")))
        else:
            fail("output", f"an item of type {item.type!r}")
    extra = given(refusal="".join(refusal), encrypted=tuple(encrypted))
    return "".join(text), "".join(thinking), tuple(calls), extra


def _further_counts(usage: ResponseUsage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    return {
        "cache_read_tokens": usage.input_tokens_details.cached_tokens,
        "cache_write_tokens": usage.input_tokens_details.cache_write_tokens,
        "reasoning_tokens": usage.output_tokens_details.reasoning_tokens,
    }


def _fold(stream: Iterable[Any]) -> Seen:
    """Put the events together by their indexes, and hold deltas, finished items and the final response together."""
    pieces: dict[str, dict[tuple[int, int], str]] = defaultdict(lambda: defaultdict(str))
    done: dict[int, ResponseOutputItem] = {}
    event: Any = None
    number = -1
    for event in stream:
        if event.sequence_number <= number:
            fail(event.type, f"sequence number {event.sequence_number} after {number}")
        number = event.sequence_number
        if event.type == "response.output_item.done":
            done[event.output_index] = event.item
        elif event.type.endswith(".delta"):
            part = getattr(event, "content_index", getattr(event, "summary_index", 0))
            pieces[event.type][event.output_index, part] += event.delta
    seen = _see_end(event)
    if event is not None and event.type in _ENDS:
        text, thinking, calls, extra = _see_items(item for _, item in sorted(done.items()))
        finished = (seen.text, seen.thinking, seen.calls, {name: seen.extra[name] for name in extra})
        agree((text, thinking, calls, extra), finished, "response.output_item.done and the final response")
        agree(_join(pieces), _texts_of(done.values()), "the deltas and response.output_item.done")
    return seen


# What an item says in pieces: the texts by the kind of the delta, without those that are empty.
_Texts = dict[str, str]


def _join(pieces: dict[str, dict[tuple[int, int], str]]) -> _Texts:
    return given(**{kind: "".join(text for _, text in sorted(parts.items())) for kind, parts in pieces.items()})


def _texts_of(items: Iterable[ResponseOutputItem]) -> _Texts:
    texts: dict[str, str] = defaultdict(str)
    for item in items:
        if item.type == "message":
            for part in item.content:
                if part.type == "output_text":
                    texts["response.output_text.delta"] += part.text
                else:
                    texts["response.refusal.delta"] += part.refusal
        elif item.type == "reasoning":
            texts["response.reasoning_summary_text.delta"] += "".join(part.text for part in item.summary)
            texts["response.reasoning_text.delta"] += "".join(part.text for part in item.content or [])
        elif item.type == "function_call":
            texts["response.function_call_arguments.delta"] += item.arguments
    return given(**texts)


def _send(asked: dict[str, Any]) -> dict[str, Any]:
    with connect(REFUSAL, status=400) as connection, client_on(connection) as client:
        with suppress(openai.BadRequestError):
            client.responses.create(**(_ASKED | asked))
        return connection.bodies[-1]


def _tools() -> list[dict[str, Any]]:
    return [
        {"type": "function", "name": name, "description": description, "parameters": parameters, "strict": False}
        for name, description, parameters in scenes.TOOLS
    ]


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _call(id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": json.dumps(arguments)}


def _result(id: str, output: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": output}


def _image() -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{scenes.PIXEL}"}


def _scenes() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    yield "plain", {"max_output_tokens": 100}, scenes.said(MODEL, max_tokens=100)
    yield "stream", {"stream": True}, scenes.said(MODEL, stream=True)
    yield "system", {"instructions": scenes.SYSTEM}, scenes.said(MODEL, system=scenes.SYSTEM)
    developer = [{"role": "developer", "content": scenes.SYSTEM}, _user(scenes.HELLO)]
    yield "developer", {"input": developer}, scenes.said(MODEL, system=scenes.SYSTEM)
    yield "unicode", {"input": scenes.UNICODE}, scenes.said(MODEL, texts=[scenes.UNICODE])
    silence = [_user(scenes.HELLO), {"role": "assistant", "content": ""}, _user("Still there?")]
    yield "empty_text", {"input": silence}, scenes.said(MODEL, texts=[scenes.HELLO, "Still there?"])
    parts = [{"type": "input_text", "text": "What is it?"}, _image()]
    yield "image", {"input": [_user(parts)]}, scenes.said(MODEL, texts=["What is it?"], images=1)
    reasoning = {"reasoning": {"effort": "low", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}
    yield "reasoning", reasoning | {"store": False}, scenes.said(MODEL)
    yield from _tool_scenes()
    yield from _history_scenes()


def _tool_scenes() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    tools = {"tools": _tools()}
    yield "tools", tools, scenes.said(MODEL, tools=scenes.NAMES)
    for choice in ("auto", "none", "required"):
        words = scenes.said(MODEL, tools=scenes.NAMES, tool_choice=choice)
        yield f"tool_choice_{choice}", tools | {"tool_choice": choice}, words
    words = scenes.said(MODEL, tools=scenes.NAMES, tool_choice={"name": "ping"})
    yield "tool_choice_named", tools | {"tool_choice": {"type": "function", "name": "ping"}}, words
    words = scenes.said(MODEL, tools=scenes.NAMES, parallel=False)
    yield "no_parallel", tools | {"parallel_tool_calls": False}, words


def _history_scenes() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    tools = {"tools": _tools()}
    calls = [("call_1", "get_weather", scenes.PARIS), ("call_2", "get_weather", scenes.OSLO)]
    made = [_call(*call) for call in calls]
    results = [_result("call_1", "sunny"), _result("call_2", [{"type": "input_text", "text": "grå"}])]
    words = scenes.said(
        MODEL, tools=scenes.NAMES, calls=calls, results=[("call_1", "sunny", False), ("call_2", "grå", False)]
    )
    yield "parallel_calls", tools | {"input": [_user(scenes.HELLO), *made, *results]}, words
    thought = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": scenes.THOUGHT}],
        "encrypted_content": "gAAAAABsecret",
    }
    yield (
        "replayed_reasoning",
        tools | {"input": [_user(scenes.HELLO), thought, *made, *results]},
        words | {"reasoning": [(scenes.THOUGHT, "gAAAAABsecret")]},
    )
    call = ("call_3", "ping", scenes.NOTHING)
    # This wire has no flag for an error: the text alone says so.
    for label, output, text, images in (
        ("no_argument_call", "pong", "pong", 0),
        ("error_result", "Error: no route", "Error: no route", 0),
        ("image_result", [{"type": "input_text", "text": "a map"}, _image()], "a map", 1),
    ):
        words = scenes.said(MODEL, tools=scenes.NAMES, calls=[call], results=[("call_3", text, False)], images=images)
        yield label, tools | {"input": [_user(scenes.HELLO), _call(*call), _result("call_3", output)]}, words
