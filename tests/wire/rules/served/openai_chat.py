"""What a server of Chat Completions sends; Mistral's is a relative with its own words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.wire.rules.served.common import DONE, WORD, Frame, agrees, in_order, judge_frames, loose, whole_arguments
from tests.wire.rules.shapes import (
    Check,
    Spot,
    array,
    integer,
    nullable,
    one_of,
    text,
    text_or,
    unique,
)


@dataclass(frozen=True)
class Dialect:
    """Where OpenAI and Mistral differ."""

    finish_reasons: tuple[str, ...]
    cut_reasons: tuple[str, ...]
    call_id: Check = WORD
    error: Check = field(default=loose({"error": loose({"message": text()}, {"type": nullable(text())})}))
    error_key: str = "error"
    finish_alone: bool = True
    usage_apart: bool = True
    content: Check = field(default=nullable(text()))


OPENAI = Dialect(
    finish_reasons=("stop", "length", "tool_calls", "content_filter", "function_call"),
    cut_reasons=("length", "content_filter"),
)
MISTRAL = Dialect(
    finish_reasons=("stop", "length", "model_length", "error", "tool_calls"),
    cut_reasons=("length", "model_length", "error"),
    call_id=text(pattern=r"[a-zA-Z0-9]{9}", why="9 letters and digits"),
    error=loose({"object": one_of("error"), "message": lambda value, spot: None}),
    error_key="object",
    finish_alone=False,
    usage_apart=False,
    content=nullable(text_or(array(loose({"type": WORD})))),
)

_USAGE = loose({"prompt_tokens": integer(), "completion_tokens": integer(), "total_tokens": integer()})


def _usage(value: Any, spot: Spot) -> None:
    before = len(spot.found)
    _USAGE(value, spot)
    if len(spot.found) == before and value["prompt_tokens"] + value["completion_tokens"] != value["total_tokens"]:
        spot.at("total_tokens").say("must be the sum of prompt_tokens and completion_tokens")


def _is_error(data: dict[str, Any], dialect: Dialect) -> bool:
    return "error" in data or data.get(dialect.error_key) == "error"


def _head(kind: str) -> dict[str, Check]:
    return {"id": WORD, "object": one_of(kind), "created": integer(), "model": text()}


def reply(body: dict[str, Any], spot: Spot, dialect: Dialect = OPENAI) -> None:
    """Judge a whole reply."""
    if _is_error(body, dialect):
        dialect.error(body, spot)
        return
    call = loose(
        {"id": dialect.call_id, "function": loose({"name": WORD, "arguments": text()})}, {"type": one_of("function")}
    )
    message = loose(
        {"role": one_of("assistant"), "content": dialect.content},
        {"tool_calls": nullable(array(call, least=1)), "refusal": nullable(text())},
    )
    choice = loose({"index": integer(), "message": message, "finish_reason": one_of(*dialect.finish_reasons)})
    head = {**_head("chat.completion"), "choices": array(choice, least=1)}
    loose(head, {"usage": _usage})(body, spot)
    if spot.found:
        return
    in_order([choice["index"] for choice in body["choices"]], spot.at("choices"), "choices")
    for position, choice in enumerate(body["choices"]):
        _check_calls(choice, spot.at("choices", position), dialect)


def _check_calls(choice: dict[str, Any], spot: Spot, dialect: Dialect) -> None:
    calls, reason = choice["message"].get("tool_calls") or [], choice["finish_reason"]
    places = [spot.at("message", "tool_calls", position) for position in range(len(calls))]
    unique([call["id"] for call in calls], places, "call id")
    for call, place in zip(calls, places, strict=True):
        whole_arguments(
            call["function"]["arguments"], place.at("function", "arguments"), cut=reason in dialect.cut_reasons
        )
    agrees(bool(calls), reason, "tool_calls", spot.at("finish_reason"), others=dialect.cut_reasons)


_CALL_DELTA = loose({"index": integer()}, {"id": text(), "function": loose({}, {"name": text(), "arguments": text()})})


def stream(frames: list[Frame], spot: Spot, dialect: Dialect = OPENAI) -> None:
    """Judge a stream of chunks."""
    delta = loose({}, {"role": one_of("assistant"), "content": dialect.content, "tool_calls": array(_CALL_DELTA)})
    choice = loose({"index": integer(), "delta": delta}, {"finish_reason": nullable(one_of(*dialect.finish_reasons))})
    chunk = loose({**_head("chat.completion.chunk"), "choices": array(choice, most=1)}, {"usage": nullable(_usage)})

    def shape(data: dict[str, Any]) -> Check | None:
        if data == DONE:
            return None
        return dialect.error if _is_error(data, dialect) else chunk

    if judge_frames(frames, spot, shape):
        _Order(spot, dialect).read(frames)


class _Order:
    """The order of the chunks: role, pieces, finish, usage, end."""

    def __init__(self, spot: Spot, dialect: Dialect) -> None:
        self.spot, self.dialect = spot, dialect
        self.reason = ""
        self.usage = self.failed = self.ended = self.begun = False
        self.promised_usage = False
        self.calls: list[list[Any]] = []
        self.identity: Any = None

    def read(self, frames: list[Frame]) -> None:
        for position, (_, data) in enumerate(frames):
            place = self.spot.at(position)
            if self.ended:
                place.say("stands after [DONE]")
            elif data == DONE:
                self.ended = True
            elif self.failed:
                place.say("stands after an error")
            elif _is_error(data, self.dialect):
                self.failed = True
            else:
                self._chunk(data, place)
        if not self.failed:
            self._end()

    def _end(self) -> None:
        if not self.reason:
            self.spot.say("lacks a chunk with a finish_reason")
        if not self.ended:
            self.spot.say("must end with [DONE]")
        if self.promised_usage and not self.usage:
            self.spot.say("lacks the chunk with the usage, which its other chunks promise")
        for position, (_, arguments) in enumerate(self.calls):
            cut = self.reason in self.dialect.cut_reasons
            whole_arguments(arguments, self.spot.at(f"call {position}"), cut=cut)
        agrees(bool(self.calls), self.reason, "tool_calls", self.spot, others=("", *self.dialect.cut_reasons))
        identities = [identity for identity, _ in self.calls]
        unique(identities, [self.spot] * len(identities), "call id")

    def _chunk(self, data: dict[str, Any], place: Spot) -> None:
        identity = (data["id"], data["model"], data["created"])
        if self.identity not in {None, identity}:
            place.say("must have the id, model and time of the chunks before it")
        self.identity = identity
        self.promised_usage |= "usage" in data
        if not data["choices"]:
            if data.get("usage") is None:
                place.say("has neither a choice nor usage")
            elif not self.reason:
                place.say("the usage must come after the finish_reason")
        if data.get("usage") is not None:
            self.usage = True
            if data["choices"] and self.dialect.usage_apart:
                place.say("the usage must stand in a chunk of its own with empty choices")
        for choice in data["choices"]:
            self._choice(choice, place)

    def _choice(self, choice: dict[str, Any], place: Spot) -> None:
        delta, reason = choice["delta"], choice.get("finish_reason")
        if not self.begun and delta.get("role") != "assistant":
            place.say("the first chunk must carry the role")
        self.begun = True
        if self.reason:
            place.say("stands after the finish_reason")
        for call in delta.get("tool_calls", []):
            self._call(call, place)
        if reason is not None:
            self.reason = reason
            if self.dialect.finish_alone and delta:
                place.say("the chunk with the finish_reason must have an empty delta")

    def _call(self, call: dict[str, Any], place: Spot) -> None:
        function = call.get("function", {})
        if call["index"] == len(self.calls):
            self.dialect.call_id(call.get("id"), place.at("id"))
            if not function.get("name") or "arguments" not in function:
                place.say("the first piece of a call must have its name and a string of arguments")
            if self.dialect is OPENAI and call.get("type") != "function":
                place.say("the first piece of a call must have the type 'function'")
            self.calls.append([call.get("id"), function.get("arguments", "")])
        elif call["index"] == len(self.calls) - 1:
            if "id" in call or "name" in function:
                place.say("a later piece of a call must have nothing but arguments")
            self.calls[-1][1] += function.get("arguments", "")
        else:
            place.say(f"index {call['index']}: calls must come one after the other, counted from 0")
