"""The official `cohere` client (ClientV2) as the judge of our v2 chat wire.

The client builds its models from an answer without looking at the values, and skips an event that it cannot read.
So an answer is held against its types here as well, and an event that the client skipped is an error.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import cohere
import msgspec
from cohere.core.api_error import ApiError
from cohere.types.chat_message_start_event_delta_message import ChatMessageStartEventDeltaMessage
from cohere.v2.raw_client import RawV2Client
from cohere.v2.types.v2chat_response import V2ChatResponse
from cohere.v2.types.v2chat_stream_response import V2ChatStreamResponse
from tests.wire.judges import scenes
from tests.wire.judges.inprocess import Line, whole
from tests.wire.judges.seen import Seen
from tests.wire.judges.strict import Misfit, check, check_keys
from tests.wire.judges.transport import given, object_of

MODEL = "command-a-03-2025"
_EVENTS = {"content-type": "text/event-stream"}

# The server begins with an empty message of which the client's type knows the role alone.
SERVER_KEYS: dict[type, dict[str, Any]] = {
    ChatMessageStartEventDeltaMessage: {"content": list, "tool_plan": str, "tool_calls": list, "citations": list}
}


def validate_request(body: dict[str, Any]) -> None:
    """Raise unless the body has only the parameters of `chat`, of the types that the client gives them."""
    known = typing.get_type_hints(RawV2Client.chat)
    known = {key: wanted for key, wanted in known.items() if key not in {"request_options", "return"}}
    check_keys(body, {**known, "stream": bool}, required=("model", "messages"))


def read_whole(body: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Seen:
    """What the client makes of a whole answer."""
    with whole(body, status, headers).client() as http:
        try:
            answer = _client(http).chat(model=MODEL, messages=[_user("Hi")])
        except ApiError as error:
            return _failed(error)
    check(body, V2ChatResponse)
    message, content = answer.message, answer.message.content or []
    calls = [
        (call.id, call.function.name or "", object_of(call.function.arguments or "", f"arguments of {call.id}"))
        for call in message.tool_calls or []
        if call.function
    ]
    return Seen(
        text="".join(part.text for part in content if part.type == "text"),
        thinking="".join(part.thinking for part in content if part.type == "thinking"),
        calls=tuple(calls),
        usage=_usage(answer.usage),
        stop=answer.finish_reason,
        extra=given(tool_plan=message.tool_plan, id=answer.id),
    )


def read_stream(chunks: list[bytes]) -> Seen:
    """What the client makes of a streamed answer."""
    with Line(chunks, headers=_EVENTS).client() as http:
        try:
            events: list[Any] = list(_client(http).chat_stream(model=MODEL, messages=[_user("Hi")]))
        except ApiError as error:
            return _failed(error)
    data = [line.removeprefix(b"data:").strip() for line in b"".join(chunks).splitlines() if line.startswith(b"data:")]
    data = [item for item in data if item != b"[DONE]"]
    for number, item in enumerate(data):
        check(msgspec.json.decode(item), V2ChatStreamResponse, f"event {number}", SERVER_KEYS)
    if len(data) != len(events):
        raise Misfit("$", f"of {len(data)} events the client skipped {len(data) - len(events)}")
    return _collect(events)


def _client(http: Any) -> cohere.ClientV2:
    return cohere.ClientV2(
        "dummy-key",
        base_url="http://judge.invalid",
        client_name="judge",
        max_retries=0,
        httpx_client=http,
        log_warning_experimental_features=False,
    )


def _collect(events: list[Any]) -> Seen:
    texts: list[str] = []
    thoughts: list[str] = []
    plan: list[str] = []
    begun: dict[int, list[str]] = {}
    calls: list[tuple[str, str, dict[str, Any]]] = []
    end: Any = None
    for event in events:
        if event.type in {"content-start", "content-delta"}:
            content = event.delta.message.content
            texts.append(content.text or "")
            thoughts.append(content.thinking or "")
        elif event.type == "tool-plan-delta":
            plan.append(event.delta.message.tool_plan)
        elif event.type == "tool-call-start":
            call = event.delta.message.tool_calls
            begun[event.index] = [call.id, call.function.name, call.function.arguments or ""]
        elif event.type == "tool-call-delta":
            begun[event.index][2] += event.delta.message.tool_calls.function.arguments
        elif event.type == "tool-call-end":
            # A call that never ends is none.
            id, name, raw = begun.pop(event.index)
            calls.append((id, name, object_of(raw, f"arguments of {id}")))
        elif event.type == "message-end":
            end = event.delta
    seen = Seen(
        text="".join(texts),
        thinking="".join(thoughts),
        calls=tuple(calls),
        usage=_usage(end.usage) if end else None,
        stop=(end.finish_reason or "") if end else "",
        extra=given(tool_plan="".join(plan), id=getattr(events[0], "id", None) if events else None),
    )
    if end and end.error:
        return msgspec.structs.replace(seen, error=("message-end", None, end.error))
    return seen


def _usage(usage: Any) -> tuple[int, int] | None:
    """The tokens as the model saw them, else those that are billed."""
    counted = usage and (usage.tokens or usage.billed_units)
    return (int(counted.input_tokens or 0), int(counted.output_tokens or 0)) if counted else None


def _failed(error: ApiError) -> Seen:
    body = error.body
    message = body.get("message", "") if isinstance(body, dict) else str(body)
    return Seen(error=(type(error).__name__, error.status_code, message))


# ---- what the client sends ----------------------------------------------------------------------------------------

_Scene = tuple[str, dict[str, Any], dict[str, Any]]
_Call = tuple[str, str, dict[str, Any]]
_TOOLS = [
    cohere.ToolV2(function=cohere.ToolV2Function(name=name, description=description, parameters=parameters))
    for name, description, parameters in scenes.TOOLS
]
_ANSWER = {"id": "a", "finish_reason": "COMPLETE", "message": {"role": "assistant", "content": []}}


def sent() -> list[_Scene]:
    """(label, body, what was said) for everything that the client was made to send."""
    return [(label, _send(asked, stream=words["stream"]), words) for label, asked, words in _scenes()]


def _send(asked: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    asked = {"model": MODEL, "messages": [_user(scenes.HELLO)]} | asked
    line = Line([], headers=_EVENTS) if stream else whole(_ANSWER)
    with line.client() as http:
        client = _client(http)
        if stream:
            list(client.chat_stream(**asked))
        else:
            client.chat(**asked)
    [(_, body)] = line.asked
    return body


def _said(**changes: Any) -> dict[str, Any]:
    return scenes.said(MODEL, **changes)


def _user(content: Any) -> cohere.UserChatMessageV2:
    return cohere.UserChatMessageV2(content=content)


def _assistant(*calls: _Call, **more: Any) -> cohere.AssistantChatMessageV2:
    made: Any = []
    for id, name, arguments in calls:
        function = cohere.ToolCallV2Function(name=name, arguments=msgspec.json.encode(arguments).decode())
        made.append(cohere.ToolCallV2(id=id, function=function))
    # A None that is given is sent as null, so what there is not is not given.
    return cohere.AssistantChatMessageV2(**({"tool_calls": made} | more if made else more))


def _result(id: str, content: Any) -> cohere.ToolChatMessageV2:
    return cohere.ToolChatMessageV2(tool_call_id=id, content=content)


def _scenes() -> Iterator[_Scene]:
    yield "plain", {}, _said()
    yield "stream", {}, _said(stream=True)
    yield "max_tokens", {"max_tokens": 64}, _said(max_tokens=64)
    system = cohere.SystemChatMessageV2(content=scenes.SYSTEM)
    yield "system", {"messages": [system, _user(scenes.HELLO)]}, _said(system=scenes.SYSTEM)
    yield "unicode", {"messages": [_user(scenes.UNICODE)]}, _said(texts=[scenes.UNICODE])
    silence = [_user(scenes.HELLO), _assistant(content=""), _user("Still there?")]
    yield "empty_text", {"messages": silence}, _said(texts=[scenes.HELLO, "Still there?"])
    image = cohere.ImageUrlContent(image_url=cohere.ImageUrl(url=f"data:image/png;base64,{scenes.PIXEL}"))
    parts = [cohere.TextContent(text="What is it?"), image]
    yield "image", {"messages": [_user(parts)]}, _said(texts=["What is it?"], images=1)
    yield "reasoning", {"thinking": cohere.Thinking(type="enabled", token_budget=1024)}, _said()
    yield "reasoning_off", {"thinking": cohere.Thinking(type="disabled")}, _said()
    yield "tools", {"tools": _TOOLS}, _said(tools=scenes.NAMES)
    for choice in ("required", "none"):
        words = _said(tools=scenes.NAMES, tool_choice=choice)
        yield f"tool_choice_{choice}", {"tools": _TOOLS, "tool_choice": choice.upper()}, words
    yield from _history_scenes()


def _history_scenes() -> Iterator[_Scene]:
    calls = [("call_1", "get_weather", scenes.PARIS), ("call_2", "get_weather", scenes.OSLO)]
    results = [_result("call_1", "sunny"), _result("call_2", [cohere.TextToolContent(text="grå")])]
    words = _said(
        texts=[scenes.HELLO, "And now?"],
        tools=scenes.NAMES,
        calls=calls,
        results=[("call_1", "sunny", False), ("call_2", "grå", False)],
    )
    thought = [cohere.ThinkingAssistantMessageV2ContentOneItem(thinking=scenes.THOUGHT)]
    for label, more, reasoning in (
        ("parallel_calls", {}, []),
        ("replayed_reasoning", {"content": thought}, [(scenes.THOUGHT, None)]),
        # What the model thought before it called has a place of its own on this wire.
        ("tool_plan", {"tool_plan": scenes.THOUGHT}, [(scenes.THOUGHT, None)]),
    ):
        asked = [_user(scenes.HELLO), _assistant(*calls, **more), *results, _user("And now?")]
        yield label, {"tools": _TOOLS, "messages": asked}, words | {"reasoning": reasoning}
    ping = ("call_3", "ping", scenes.NOTHING)
    # The wire has no mark for an error: it is text.
    for label, text in (("no_argument_call", "pong"), ("error_result", "Error: no route")):
        asked = [_user(scenes.HELLO), _assistant(ping), _result("call_3", text)]
        words = _said(tools=scenes.NAMES, calls=[ping], results=[("call_3", text, False)])
        yield label, {"tools": _TOOLS, "messages": asked}, words
