"""The official OpenAI client as the judge of Chat Completions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import openai
from openai import OpenAI
from openai.types.chat import ChatCompletion, ChatCompletionChunk, ChatCompletionMessage
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from openai.types.completion_usage import CompletionUsage
from tests.wire.judges import scenes
from tests.wire.judges.seen import Seen
from tests.wire.judges.shapes import Shape, explain
from tests.wire.judges.transport import ADDRESS, REFUSAL, Connection, agree, connect, fail, given, object_of

MODEL = "gpt-5.6"
_WHOLE = Shape(CompletionCreateParamsNonStreaming)
_STREAMED = Shape(CompletionCreateParamsStreaming)
_ASKED: dict[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": scenes.HELLO}]}


def validate_request(body: dict[str, Any]) -> None:
    """Raise unless the body fits the TypedDicts of the SDK, with no key that they do not name."""
    (_STREAMED if body.get("stream") else _WHOLE).check(body)


def read_whole(body: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Seen:
    """Let the client ask for a completion and get `body` as the answer."""
    with connect(body, status=status, headers=headers) as connection, client_on(connection) as client:
        try:
            return _see(client.chat.completions.create(**_ASKED))
        except openai.APIError as error:
            return see_error(error)


def read_stream(chunks: Sequence[bytes]) -> Seen:
    """Let the client read the stream twice: chunk by chunk, and with its helper that builds the completion."""
    by_chunk, by_helper = _read_chunks(chunks), _read_with_helper(chunks)
    agree(by_chunk, by_helper, "chat.completions.create(stream=True) and chat.completions.stream()")
    return by_helper


def sent() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """What the client really sends, scene by scene, with what each request says."""
    return [(label, _send(asked), words) for label, asked, words in _scenes()]


@contextmanager
def client_on(connection: Connection) -> Iterator[OpenAI]:
    """The official client, strict: an answer that does not fit its types is an error and not a half-empty object."""
    with OpenAI(
        api_key="none",
        base_url=f"{ADDRESS}/v1",
        max_retries=0,
        http_client=connection.client,
        _strict_response_validation=True,
    ) as client:
        yield client


def see_error(error: openai.APIError) -> Seen:
    """The error as a program sees it; an answer that the client cannot read is a fault of the answer and is raised."""
    if isinstance(error, openai.APIResponseValidationError):
        raise AssertionError(f"{error.message}\n{explain(error.__cause__)}") from error
    status = error.status_code if isinstance(error, openai.APIStatusError) else None
    told = error.body.get("message") if isinstance(error.body, Mapping) else None
    retry_after = error.response.headers.get("retry-after") if isinstance(error, openai.APIStatusError) else None
    return Seen(
        error=(type(error).__name__, status, str(told or error.message)),
        extra=given(type=error.type, code=error.code, param=error.param, retry_after=retry_after),
    )


def _read_chunks(chunks: Sequence[bytes]) -> Seen:
    with connect(chunks) as connection, client_on(connection) as client:
        try:
            with client.chat.completions.create(**_ASKED, stream=True) as stream:
                return _fold(stream)
        except openai.APIError as error:
            return see_error(error)


def _read_with_helper(chunks: Sequence[bytes]) -> Seen:
    with connect(chunks) as connection, client_on(connection) as client:
        try:
            with client.chat.completions.stream(**_ASKED) as stream:
                return _see(stream.get_final_completion())
        except openai.LengthFinishReasonError as cut:
            # The helper raises for a reply that the limit cut; the completion rides in the error.
            return _see(cut.completion)
        except openai.APIError as error:
            return see_error(error)


def _see(completion: ChatCompletion) -> Seen:
    choice = completion.choices[0]
    calls = [(call.id, call.function.name, call.function.arguments) for call in _function_calls(choice.message)]
    return Seen(
        text=choice.message.content or "",
        thinking=_thinking(choice.message.model_extra),
        calls=_read_calls(calls),
        usage=_usage(completion.usage),
        stop=choice.finish_reason or "",
        model=completion.model,
        extra=given(refusal=choice.message.refusal, **_further_counts(completion.usage)),
    )


def _function_calls(message: ChatCompletionMessage) -> Iterator[Any]:
    for call in message.tool_calls or []:
        if call.type != "function":
            fail("tool_calls", f"a call of type {call.type!r}")
        yield call


def _read_calls(calls: Iterable[tuple[str, str, str]]) -> tuple[tuple[str, str, dict[str, Any]], ...]:
    return tuple((id, name, object_of(text, f"arguments of {name}")) for id, name, text in calls)


def _fold(stream: Iterable[ChatCompletionChunk]) -> Seen:
    """Put the chunks together as the API reference tells programs to: by the index of the call."""
    text: list[str] = []
    thinking: list[str] = []
    refusal: list[str] = []
    calls: dict[int, list[str]] = {}
    stop = model = ""
    usage: CompletionUsage | None = None
    for chunk in stream:
        model = model or chunk.model
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text.append(choice.delta.content or "")
            refusal.append(choice.delta.refusal or "")
            thinking.append(_thinking(choice.delta.model_extra))
            stop = choice.finish_reason or stop
            for piece in choice.delta.tool_calls or []:
                _add(piece, calls.setdefault(piece.index, ["", "", ""]))
    if sorted(calls) != list(range(len(calls))):
        fail("tool_calls", f"the indexes do not count from 0: {sorted(calls)}")
    return Seen(
        text="".join(text),
        thinking="".join(thinking),
        calls=_read_calls((id, name, arguments) for _, (id, name, arguments) in sorted(calls.items())),
        usage=_usage(usage),
        stop=stop,
        model=model,
        extra=given(refusal="".join(refusal), **_further_counts(usage)),
    )


def _add(piece: ChoiceDeltaToolCall, call: list[str]) -> None:
    """Add a piece to its call: id and name come once, only the arguments come in pieces."""
    function = piece.function
    for place, (what, value) in enumerate((("id", piece.id), ("name", function.name if function else None))):
        if value and call[place]:
            fail("tool_calls", f"{what} {value!r} twice at index {piece.index}")
        call[place] += value or ""
    call[2] += (function.arguments if function else None) or ""


def _thinking(extra: Mapping[str, Any] | None) -> str:
    # Not in the types, but the client keeps it: compatible servers say it by either name.
    extra = extra or {}
    return extra.get("reasoning_content") or extra.get("reasoning") or ""


def _usage(usage: CompletionUsage | None) -> tuple[int, int] | None:
    return (usage.prompt_tokens, usage.completion_tokens) if usage else None


def _further_counts(usage: CompletionUsage | None) -> dict[str, Any]:
    prompt = usage.prompt_tokens_details if usage else None
    completion = usage.completion_tokens_details if usage else None
    return given(
        cache_read_tokens=prompt.cached_tokens if prompt else None,
        cache_write_tokens=prompt.cache_write_tokens if prompt else None,
        reasoning_tokens=completion.reasoning_tokens if completion else None,
    )


def _send(asked: dict[str, Any]) -> dict[str, Any]:
    with connect(REFUSAL, status=400) as connection, client_on(connection) as client:
        with suppress(openai.BadRequestError):
            client.chat.completions.create(**(_ASKED | asked))
        return connection.bodies[-1]


def _tools() -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}
        for name, description, parameters in scenes.TOOLS
    ]


def _user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _assistant(*calls: tuple[str, str, dict[str, Any]], **more: Any) -> dict[str, Any]:
    made = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for id, name, arguments in calls
    ]
    return {"role": "assistant", "content": None, "tool_calls": made} | more


def _result(id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": content}


def _scenes() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    yield "plain", {"max_completion_tokens": 100}, scenes.said(MODEL, max_tokens=100)
    yield "stream", {"stream": True, "stream_options": {"include_usage": True}}, scenes.said(MODEL, stream=True)
    for role in ("system", "developer"):
        messages = [{"role": role, "content": scenes.SYSTEM}, _user(scenes.HELLO)]
        yield role, {"messages": messages}, scenes.said(MODEL, system=scenes.SYSTEM)
    yield "unicode", {"messages": [_user(scenes.UNICODE)]}, scenes.said(MODEL, texts=[scenes.UNICODE])
    silence = [_user(scenes.HELLO), {"role": "assistant", "content": ""}, _user("Still there?")]
    yield "empty_text", {"messages": silence}, scenes.said(MODEL, texts=[scenes.HELLO, "Still there?"])
    parts = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{scenes.PIXEL}"}},
    ]
    yield "image", {"messages": [_user(parts)]}, scenes.said(MODEL, texts=["What is it?"], images=1)
    yield "reasoning", {"reasoning_effort": "low"}, scenes.said(MODEL)
    yield from _tool_scenes()
    yield from _history_scenes()


def _tool_scenes() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    tools = {"tools": _tools()}
    yield "tools", tools, scenes.said(MODEL, tools=scenes.NAMES)
    for choice in ("auto", "none", "required"):
        words = scenes.said(MODEL, tools=scenes.NAMES, tool_choice=choice)
        yield f"tool_choice_{choice}", tools | {"tool_choice": choice}, words
    named = {"type": "function", "function": {"name": "ping"}}
    words = scenes.said(MODEL, tools=scenes.NAMES, tool_choice={"name": "ping"})
    yield "tool_choice_named", tools | {"tool_choice": named}, words
    words = scenes.said(MODEL, tools=scenes.NAMES, parallel=False)
    yield "no_parallel", tools | {"parallel_tool_calls": False}, words


def _history_scenes() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    tools = {"tools": _tools()}
    calls = [("call_1", "get_weather", scenes.PARIS), ("call_2", "get_weather", scenes.OSLO)]
    results = [_result("call_1", "sunny"), _result("call_2", [{"type": "text", "text": "grå"}])]
    words = scenes.said(
        MODEL, tools=scenes.NAMES, calls=calls, results=[("call_1", "sunny", False), ("call_2", "grå", False)]
    )
    yield "parallel_calls", tools | {"messages": [_user(scenes.HELLO), _assistant(*calls), *results]}, words
    # With the name that compatible servers use; the wire of OpenAI itself carries no reasoning.
    thoughtful = _assistant(*calls, reasoning_content=scenes.THOUGHT)
    yield (
        "replayed_reasoning",
        tools | {"messages": [_user(scenes.HELLO), thoughtful, *results]},
        words | {"reasoning": [(scenes.THOUGHT, None)]},
    )
    call = ("call_3", "ping", scenes.NOTHING)
    for label, text in (("no_argument_call", "pong"), ("error_result", "Error: no route")):
        messages = [_user(scenes.HELLO), _assistant(call, content="One moment."), _result("call_3", text)]
        # This wire has no flag for an error: the text alone says so.
        words = scenes.said(MODEL, tools=scenes.NAMES, calls=[call], results=[("call_3", text, False)])
        yield label, tools | {"messages": messages}, words
