"""Odd outputs of models and hosts, and the judgement of what a program makes of them.

A row is a reply of the chat API with one fault that has been seen in practice. A program decides each cell from what
reached the tools, what the model was sent next, and how the run ended. Nobody judges by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

Verdict = Literal["right", "asked again", "clear error", "silent loss", "wrong call", "crash"]
MEANINGS: dict[Verdict, str] = {
    "right": "exactly the right calls ran, once each, and the run ended with an answer; nothing ran if the reply is an "
    "answer",
    "asked again": "nothing wrong ran, and the model was sent the fault and could try again",
    "clear error": "nothing wrong ran, and the run ended with an exception of the library's own type",
    "silent loss": "a call was lost, and neither the model nor the program was told",
    "wrong call": "a tool ran with other arguments than the model meant, or twice, or although the call was cut off",
    "crash": "the run ended with an exception of another type (TypeError, KeyError, JSONDecodeError), or did not end",
}
GOOD: tuple[Verdict, ...] = ("right", "asked again", "clear error")

PARIS = ["weather", {"city": "Paris", "days": 1}]
OSLO = ["weather", {"city": "Oslo", "days": 1}]
ARGUMENTS = '{"city": "Paris"}'
ANSWER = "It is sunny in Paris."


class Call(NamedTuple):
    """A call in a reply. `arguments` is what stands in the field; an id of None leaves the field out."""

    arguments: Any = ARGUMENTS
    name: str = "weather"
    id: str | None = "call_1"


class Odd(NamedTuple):
    """One odd reply, and what a careful reader makes of it."""

    title: str
    calls: Sequence[Call] = ()
    text: str | None = None
    thoughts: str = ""
    finish: str | None = "tool_calls"
    wanted: Sequence[Any] = (PARIS,)
    """The calls that have to run; none: it is a fault that cannot be mended, unless `answers`."""
    answers: bool = False
    """The reply is an answer, and no call may be made of it."""
    fault: Literal["", "error frame", "cut"] = ""
    """How the stream ends. Then the same request a second time gets a good reply."""
    modes: Sequence[str] = ("whole", "streamed")
    same_index: bool = False


def in_tags(city: str) -> str:
    return '<tool_call>\n{"name": "weather", "arguments": {"city": "' + city + '"}}\n</tool_call>'


ODD_OUTPUTS: tuple[Odd, ...] = (
    Odd("a well-formed call", [Call()]),
    Odd("finish reason `stop` with a call", [Call()], finish="stop"),
    Odd("no id", [Call(id=None)]),
    Odd("two calls with the same id", [Call(), Call('{"city": "Oslo"}')], wanted=[PARIS, OSLO]),
    Odd(
        "two calls with the same index",
        [Call(), Call('{"city": "Oslo"}', id="call_2")],
        wanted=[PARIS, OSLO],
        modes=["streamed"],
        same_index=True,
    ),
    Odd("arguments are an object", [Call({"city": "Paris"})]),
    Odd("arguments are JSON inside JSON", [Call(json.dumps(ARGUMENTS))]),
    Odd("arguments are null, tool without parameters", [Call(None, "cities")], wanted=[["cities", {}]]),
    Odd("arguments are empty, tool without parameters", [Call("", "cities")], wanted=[["cities", {}]]),
    Odd("a trailing comma", [Call('{"city": "Paris",}')]),
    Odd("single quotes", [Call("{'city': 'Paris'}")]),
    Odd(
        '"5" for an integer',
        [Call('{"city": "Paris", "days": "5"}')],
        wanted=[["weather", {"city": "Paris", "days": 5}]],
    ),
    Odd("a required argument is missing", [Call('{"days": 2}')], wanted=[]),
    Odd("arguments cut off, finish reason `length`", [Call('{"city": "Par')], finish="length", wanted=[]),
    Odd("complete JSON, finish reason `length`", [Call('{"city": "Par"}')], finish="length", wanted=[]),
    Odd("an empty name", [Call(name="")], wanted=[]),
    Odd("an unknown tool", [Call(name="forecast_for_moon")], wanted=[]),
    Odd("the name in other case: `Weather`", [Call(name="Weather")]),
    Odd("the name with a prefix: `functions.weather`", [Call(name="functions.weather")]),
    Odd("a call as text, in `<tool_call>`", text="I look it up.\n" + in_tags("Paris"), finish="stop"),
    Odd(
        "two calls in one text",
        text=in_tags("Paris") + "\n" + in_tags("Oslo"),
        finish="stop",
        wanted=[PARIS, OSLO],
    ),
    Odd(
        "the whole text is a JSON code block with a call",
        text='```json\n{"name": "weather", "arguments": {"city": "Paris"}}\n```',
        finish="stop",
    ),
    Odd(
        "a call in the reasoning, no text",
        thoughts="The user asks for Paris.\n" + in_tags("Paris"),
        text="",
        finish="stop",
    ),
    Odd(
        "a draft call in the reasoning, then an answer",
        thoughts="I could call this:\n" + in_tags("Oslo") + "\nNo, I know the answer.",
        text=ANSWER,
        finish="stop",
        wanted=[],
        answers=True,
    ),
    Odd(
        "an answer that quotes a call as an example",
        text='To ask for the weather, a model writes `<tool_call>{"name": "weather", "arguments": {"city": "Oslo"}}'
        "</tool_call>` and waits for the result.",
        finish="stop",
        wanted=[],
        answers=True,
    ),
    Odd("neither text nor a call", text="", finish="stop", wanted=[]),
    Odd("an error frame in the stream", [Call()], fault="error frame", modes=["streamed"]),
    Odd("a stream that ends inside the arguments", [Call()], fault="cut", modes=["streamed"]),
)
GOOD_REPLY = Odd("a good reply", [Call()])
LAST_REPLY = Odd("the answer", text=ANSWER, finish="stop", wanted=[])

# ---- on the wire -----------------------------------------------------------------------------------------------------

_HEAD = {"id": "chatcmpl-1", "created": 1, "model": "m"}
_USAGE = {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60}


def whole_body(odd: Odd) -> bytes:
    """The reply as one body."""
    message: dict[str, Any] = {"role": "assistant", "content": odd.text}
    if odd.thoughts:
        message["reasoning_content"] = odd.thoughts
    if odd.calls:
        message["tool_calls"] = [_write_call(call) for call in odd.calls]
    choice = {"index": 0, "message": message, "finish_reason": odd.finish}
    return json.dumps({**_HEAD, "object": "chat.completion", "choices": [choice], "usage": _USAGE}).encode()


def stream_frames(odd: Odd) -> list[bytes]:
    """The reply as server-sent events. Text comes in pieces of seven characters."""
    frames = [_frame({"role": "assistant", "content": "" if odd.calls else None})]
    frames += [_frame({"reasoning_content": piece}) for piece in _pieces(odd.thoughts)]
    frames += [_frame({"content": piece}) for piece in _pieces(odd.text or "")]
    for number, call in enumerate(odd.calls):
        index = 0 if odd.same_index else number
        frames += [_frame({"tool_calls": [{"index": index, **delta}]}) for delta in _call_deltas(call)]
    if odd.fault == "error frame":
        error = {"error": {"message": "the engine ran out of memory", "type": "server_error", "code": 500}}
        return [*frames[:-1], b"data: " + json.dumps(error).encode() + b"\n\n", b"data: [DONE]\n\n"]
    if odd.fault == "cut":
        return frames[:-1]
    usage = {**_HEAD, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE}
    return [*frames, _frame({}, odd.finish), b"data: " + json.dumps(usage).encode() + b"\n\n", b"data: [DONE]\n\n"]


def _write_call(call: Call, **fields: Any) -> dict[str, Any]:
    written = {"type": "function", "function": {"name": call.name, "arguments": call.arguments, **fields}}
    return written if call.id is None else {"id": call.id, **written}


def _call_deltas(call: Call) -> Iterator[dict[str, Any]]:
    if not isinstance(call.arguments, str):
        yield _write_call(call)
        return
    yield _write_call(call, arguments="")
    for piece in _pieces(call.arguments):
        yield {"function": {"arguments": piece}}


def _frame(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    body = {**_HEAD, "object": "chat.completion.chunk", "choices": [choice]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _pieces(text: str) -> list[str]:
    return [text[start : start + 7] for start in range(0, len(text), 7)]


# ---- the judgement ---------------------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """How a run ended: the calls that reached a tool, the answer, and the error if one was raised."""

    ran: list[Any]
    answer: str = ""
    raised: dict[str, Any] | None = None
    stuck: str = ""
    """Why there is no answer at all: the process ended, or did not answer."""


def judge(odd: Odd, ending: Ending, requests: Sequence[dict[str, Any]], own: Sequence[str]) -> Verdict:
    """Decide one cell. `own` are the packages whose exceptions are the library's own, `requests` what the host saw."""
    wanted = [list(call) for call in odd.wanted]
    if any(call not in wanted for call in ending.ran) or len(ending.ran) > len(wanted):
        return "wrong call"
    if ending.stuck:
        return "crash"
    if ending.raised is not None:
        return "clear error" if is_own(ending.raised, own) else "crash"
    if odd.answers:
        return "right" if ending.answer.strip() else "silent loss"
    if wanted and sorted(map(repr, ending.ran)) == sorted(map(repr, wanted)):
        return "right"
    return "asked again" if was_told(requests, len(ending.ran)) else "silent loss"


def is_own(raised: dict[str, Any], own: Sequence[str]) -> bool:
    """Whether a class of the error belongs to these packages."""
    return any(kind.startswith(tuple(f"{package}." for package in own)) for kind in raised["kinds"])


def was_told(requests: Sequence[dict[str, Any]], ran: int) -> bool:
    """Whether a later request tells the model more than the results of the calls that ran."""
    return any(len(news(request)) > ran for request in requests)


def news(request: dict[str, Any]) -> list[Any]:
    """The messages of a request for the model that are no part of the task: results, and words about its reply."""
    messages = request.get("messages", [])
    asked = [place for place, message in enumerate(messages) if message.get("role") == "user"]
    later = messages[asked[0] + 1 :] if asked else []
    return [message for message in later if message.get("role") in ("tool", "user", "function")]
