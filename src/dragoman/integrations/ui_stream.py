"""The events of a run as a stream for web front ends: the UI message stream of the Vercel AI SDK, or AG-UI.

Both are server-sent events with JSON. They tell the same story with other words, so `UiStream` follows the run and
decides what to tell, and a vocabulary writes it:

| the run | Vercel AI SDK | AG-UI |
|---|---|---|
| starts | `start` | `RUN_STARTED` |
| sends a request | `start-step` ... `finish-step` | `STEP_STARTED` ... `STEP_FINISHED` |
| text | `text-start`, `text-delta`, `text-end` | `TEXT_MESSAGE_START`, `_CONTENT`, `_END` |
| thinking | `reasoning-start`, `-delta`, `-end` | `REASONING_START`, `REASONING_MESSAGE_*`, `REASONING_END` |
| a call | `tool-input-start`, `-delta`, `-available` | `TOOL_CALL_START`, `_ARGS`, `_END` |
| a call that cannot run | `tool-input-error` | `TOOL_CALL_*` and its result |
| a result | `tool-output-available`, `-error`, `-denied` | `TOOL_CALL_RESULT` |
| needs an approval | `tool-approval-request` | the outcome of `RUN_FINISHED` is an interrupt, if the run waits |
| ends | `finish`; `abort` if it was cancelled | `RUN_FINISHED` |
| fails | `error`, `finish` | `RUN_ERROR` |
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Callable
from typing import Any, ClassVar, Literal

from dragoman.agent.events import ApprovalGiven, ApprovalNeeded, Asked, RunEnded, RunEvent, RunStarted, ToolEnded
from dragoman.agent.result import RunResult
from dragoman.errors import ConfigError
from dragoman.events import ArgumentsDelta, CallEnded, CallStarted, RefusalDelta, TextDelta, ThinkingDelta
from dragoman.types import InvalidCall, JsonObject, Text, ToolCall, ToolResult, Usage

Protocol = Literal["vercel", "ag_ui"]
Frames = list[JsonObject]
_UNUSED = "the call was not used"


class _Vocabulary(ABC):
    """The frames of one protocol. Each method returns the frames for one event."""

    headers: ClassVar[dict[str, str]] = {"content-type": "text/event-stream", "cache-control": "no-cache"}
    streams_arguments: ClassVar[bool] = False
    """Whether the pieces of arguments are sent as a preview, which the finished call replaces."""
    last: ClassVar[bytes] = b""
    """What follows the last frame."""

    @abstractmethod
    def start(self, run: str, thread: str) -> Frames: ...

    @abstractmethod
    def open_step(self, number: int) -> Frames: ...

    @abstractmethod
    def close_step(self, number: int) -> Frames: ...

    @abstractmethod
    def open_part(self, kind: str, id: str) -> Frames: ...

    @abstractmethod
    def add_to_part(self, kind: str, id: str, text: str) -> Frames: ...

    @abstractmethod
    def close_part(self, kind: str, id: str) -> Frames: ...

    @abstractmethod
    def open_call(self, id: str, name: str) -> Frames: ...

    def add_arguments(self, id: str, text: str) -> Frames:
        return []

    @abstractmethod
    def close_call(self, id: str, name: str, arguments: JsonObject) -> Frames: ...

    @abstractmethod
    def break_call(self, id: str, name: str, raw: str, why: str) -> Frames: ...

    def ask_approval(self, id: str, request: str, why: str) -> Frames:
        return []

    @abstractmethod
    def add_result(self, id: str, result: ToolResult, *, is_denied: bool) -> Frames: ...

    @abstractmethod
    def finish(self, result: RunResult[Any], waiting: dict[str, tuple[str, str]]) -> Frames: ...

    @abstractmethod
    def fail(self, message: str, code: str) -> Frames: ...


class _Vercel(_Vocabulary):
    """The UI message stream of the AI SDK, version 1 (AI SDK 5 and later)."""

    headers: ClassVar[dict[str, str]] = {
        **_Vocabulary.headers,
        "x-vercel-ai-ui-message-stream": "v1",
        "x-accel-buffering": "no",
    }
    streams_arguments = True
    last = b"data: [DONE]\n\n"
    _KINDS: ClassVar[dict[str, str]] = {"text": "text", "thinking": "reasoning"}

    def start(self, run: str, thread: str) -> Frames:
        return [{"type": "start", "messageId": run, "messageMetadata": {"threadId": thread}}]

    def open_step(self, number: int) -> Frames:
        return [{"type": "start-step"}]

    def close_step(self, number: int) -> Frames:
        return [{"type": "finish-step"}]

    def open_part(self, kind: str, id: str) -> Frames:
        return [{"type": f"{self._KINDS[kind]}-start", "id": id}]

    def add_to_part(self, kind: str, id: str, text: str) -> Frames:
        return [{"type": f"{self._KINDS[kind]}-delta", "id": id, "delta": text}]

    def close_part(self, kind: str, id: str) -> Frames:
        return [{"type": f"{self._KINDS[kind]}-end", "id": id}]

    def open_call(self, id: str, name: str) -> Frames:
        return [{"type": "tool-input-start", "toolCallId": id, "toolName": name}]

    def add_arguments(self, id: str, text: str) -> Frames:
        return [{"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": text}]

    def close_call(self, id: str, name: str, arguments: JsonObject) -> Frames:
        return [{"type": "tool-input-available", "toolCallId": id, "toolName": name, "input": arguments}]

    def break_call(self, id: str, name: str, raw: str, why: str) -> Frames:
        return [{"type": "tool-input-error", "toolCallId": id, "toolName": name, "input": raw, "errorText": why}]

    def ask_approval(self, id: str, request: str, why: str) -> Frames:
        return [{"type": "tool-approval-request", "approvalId": request, "toolCallId": id}]

    def add_result(self, id: str, result: ToolResult, *, is_denied: bool) -> Frames:
        if is_denied:
            return [{"type": "tool-output-denied", "toolCallId": id}]
        if result.is_error:
            return [{"type": "tool-output-error", "toolCallId": id, "errorText": _text_of(result)}]
        return [{"type": "tool-output-available", "toolCallId": id, "output": _text_of(result)}]

    def finish(self, result: RunResult[Any], waiting: dict[str, tuple[str, str]]) -> Frames:
        outcome = result.outcome
        if outcome.kind == "cancelled":
            return [{"type": "abort", "reason": outcome.reason}]
        reason = "stop" if outcome.is_success else "tool-calls"
        return [{"type": "finish", "finishReason": reason, "messageMetadata": {"usage": _count(result.usage)}}]

    def fail(self, message: str, code: str) -> Frames:
        return [{"type": "error", "errorText": message}, {"type": "finish", "finishReason": "error"}]


class _AgUi(_Vocabulary):
    """The Agent User Interaction protocol, version 1.0."""

    def __init__(self) -> None:
        self._run: JsonObject = {}

    def start(self, run: str, thread: str) -> Frames:
        self._run = {"threadId": thread, "runId": run}
        return [{"type": "RUN_STARTED", **self._run}]

    def open_step(self, number: int) -> Frames:
        return [{"type": "STEP_STARTED", "stepName": f"turn {number}"}]

    def close_step(self, number: int) -> Frames:
        return [{"type": "STEP_FINISHED", "stepName": f"turn {number}"}]

    def open_part(self, kind: str, id: str) -> Frames:
        if kind == "text":
            return [{"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}]
        started = {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
        return [{"type": "REASONING_START", "messageId": id}, started]

    def add_to_part(self, kind: str, id: str, text: str) -> Frames:
        name = "TEXT_MESSAGE_CONTENT" if kind == "text" else "REASONING_MESSAGE_CONTENT"
        return [{"type": name, "messageId": id, "delta": text}]

    def close_part(self, kind: str, id: str) -> Frames:
        if kind == "text":
            return [{"type": "TEXT_MESSAGE_END", "messageId": id}]
        return [{"type": "REASONING_MESSAGE_END", "messageId": id}, {"type": "REASONING_END", "messageId": id}]

    def open_call(self, id: str, name: str) -> Frames:
        return [{"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name}]

    def close_call(self, id: str, name: str, arguments: JsonObject) -> Frames:
        # A client joins the pieces, so a preview that the finished call contradicts could not be taken back.
        return [*self._add(id, json.dumps(arguments, ensure_ascii=False)), {"type": "TOOL_CALL_END", "toolCallId": id}]

    def _add(self, id: str, text: str) -> Frames:
        return [{"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": text}] if text else []

    def break_call(self, id: str, name: str, raw: str, why: str) -> Frames:
        ended: Frames = [*self._add(id, raw), {"type": "TOOL_CALL_END", "toolCallId": id}]
        return [*ended, *self.add_result(id, ToolResult(id, name, why, is_error=True), is_denied=False)]

    def add_result(self, id: str, result: ToolResult, *, is_denied: bool) -> Frames:
        said = {
            "messageId": f"{self._run.get('runId')}:{id}",
            "toolCallId": id,
            "content": _text_of(result),
            "role": "tool",
        }
        return [{"type": "TOOL_CALL_RESULT", **said}]

    def finish(self, result: RunResult[Any], waiting: dict[str, tuple[str, str]]) -> Frames:
        outcome: JsonObject = {"type": "cancelled" if result.outcome.kind == "cancelled" else "success"}
        if result.outcome.category == "waiting" and waiting:
            asked = [
                {"id": request, "reason": "approval", "message": why, "toolCallId": id}
                for request, (id, why) in waiting.items()
            ]
            outcome = {"type": "interrupt", "interrupts": asked}
        return [{"type": "RUN_FINISHED", **self._run, "outcome": outcome}]

    def fail(self, message: str, code: str) -> Frames:
        return [{"type": "RUN_ERROR", "message": message, "code": code}]


_PROTOCOLS: dict[str, Callable[[], _Vocabulary]] = {"vercel": _Vercel, "ag_ui": _AgUi}


class UiStream:
    """A stage from the events of one run to the bytes of a stream. `headers` are those of the HTTP response."""

    def __init__(self, protocol: Protocol = "vercel", *, thread_id: str = "", run_id: str = "") -> None:
        """The ids are those that a front end sent; otherwise the session and the id of the run."""
        if protocol not in _PROTOCOLS:
            raise ConfigError(f"there is no protocol {protocol!r}", hint=f"choose {' or '.join(_PROTOCOLS)}")
        self._words = _PROTOCOLS[protocol]()
        self.headers = dict(self._words.headers)
        self._thread, self._run = thread_id, run_id
        self._step = 0
        self._parts = 0
        self._part: tuple[str, str] | None = None
        """The kind and the id of the open part."""
        self._calls = _Calls()
        self._waiting: dict[str, tuple[str, str]] = {}
        """Approvals that nobody has given, by their request: the call and the reason."""
        self._has_started = False
        self._has_ended = False
        # A call that breaks or is refused has a result, which says why, if the model gets to know of it.
        self._handlers: dict[type[Any], Callable[[Any], Frames]] = {
            RunStarted: self._start,
            Asked: self._begin_step,
            TextDelta: lambda event: self._add_text("text", event.text),
            RefusalDelta: lambda event: self._add_text("text", event.text),
            ThinkingDelta: lambda event: self._add_text("thinking", event.text),
            CallStarted: lambda event: self._open_call(event.index, event.id, event.name),
            ArgumentsDelta: self._add_arguments,
            CallEnded: lambda event: self._end_call(event.index, event.call),
            ApprovalNeeded: self._ask_approval,
            ApprovalGiven: self._note_approval,
            ToolEnded: self._add_result,
            RunEnded: lambda event: self._end(event.result),
        }

    def feed(self, event: RunEvent, /) -> list[bytes]:
        """Take an event of the run, and return the bytes to send."""
        tell: Callable[[Any], Frames] | None = self._handlers.get(type(event))
        return _write(tell(event)) if tell is not None else []

    def close(self) -> list[bytes]:
        """End the stream. A run without an end has failed."""
        frames = [] if self._has_ended else self._fail("the run did not end", "unfinished")
        return [*_write(frames), *([self._words.last] if self._words.last else [])]

    async def write(self, events: AsyncIterable[RunEvent]) -> AsyncGenerator[bytes]:
        """Yield the stream of a run: `UiStream().write(agent.stream(task))` is the body of a response."""
        received = aiter(events)
        try:
            async for event in received:
                for frame in self.feed(event):
                    yield frame
        except Exception as error:
            # The message of an exception can contain anything, and a browser is not the place for it.
            for frame in [*_write(self._fail("the run failed", type(error).__name__)), *self.close()]:
                yield frame
            raise
        finally:
            # A run whose reader has gone ends at once.
            if isinstance(received, AsyncGenerator):
                await received.aclose()
        for frame in self.close():
            yield frame

    # ---- the events of a run -----------------------------------------------------------------------------------------

    def _start(self, event: RunStarted) -> Frames:
        if self._has_started:
            return []
        self._run = self._run or event.run_id
        return self._open(self._thread or event.session or self._run)

    def _open(self, thread: str) -> Frames:
        self._has_started = True
        return self._words.start(self._run, thread)

    def _begin_step(self, event: Asked) -> Frames:
        ended = self._end_step()
        self._step = event.turn
        self._calls.begin_turn(event.turn)
        return [*ended, *self._words.open_step(event.turn)]

    def _end_step(self) -> Frames:
        if not self._step:
            return []
        frames = self._close_part()
        for id, name in self._calls.left():
            frames += self._words.break_call(id, name, "", _UNUSED)
        frames += self._words.close_step(self._step)
        self._step = 0
        return frames

    def _add_text(self, kind: str, text: str) -> Frames:
        if not text:
            return []
        frames: Frames = []
        if self._part is None or self._part[0] != kind:
            frames = self._close_part()
            self._parts += 1
            # A front end keeps the messages of many runs, so their ids contain the run.
            self._part = (kind, f"{self._run}:{self._parts}")
            frames += self._words.open_part(*self._part)
        return [*frames, *self._words.add_to_part(*self._part, text)]

    def _close_part(self) -> Frames:
        part, self._part = self._part, None
        return [] if part is None else self._words.close_part(*part)

    def _open_call(self, index: int | None, id: str, name: str) -> Frames:
        return [*self._close_part(), *self._words.open_call(self._calls.open(index, id, name), name)]

    def _add_arguments(self, event: ArgumentsDelta) -> Frames:
        id = self._calls.by_index.get(event.index)
        return self._words.add_arguments(id, event.text) if id is not None and self._words.streams_arguments else []

    def _end_call(self, index: int, call: ToolCall) -> Frames:
        frames = [] if self._calls.is_open(call.id) else self._open_call(index, call.id, call.name)
        id = self._calls.close(call.id)
        return [*frames, *self._words.close_call(id, call.name, call.arguments)]

    def _ask_approval(self, event: ApprovalNeeded) -> Frames:
        id = self._calls.find(event.call.id)
        self._waiting[event.request] = (id, event.why)
        return self._words.ask_approval(id, event.request, event.why)

    def _note_approval(self, event: ApprovalGiven) -> Frames:
        self._waiting.pop(event.request, None)
        if not event.approved:
            self._calls.denied.add(event.call.id)
        return []

    def _add_result(self, event: ToolEnded) -> Frames:
        call, result = event.call, event.result
        frames: Frames = self._close_part()
        if not self._calls.is_known(call.id):
            frames += self._open_call(None, call.id, call.name)
        if self._calls.is_open(call.id):
            id = self._calls.close(call.id)
            if isinstance(call, InvalidCall):
                return [*frames, *self._words.break_call(id, call.name, call.raw, _text_of(result))]
            frames += self._words.close_call(id, call.name, call.arguments)
        id = self._calls.find(call.id)
        return [*frames, *self._words.add_result(id, result, is_denied=call.id in self._calls.denied)]

    def _end(self, result: RunResult[Any]) -> Frames:
        outcome = result.outcome
        if not outcome.is_success and outcome.category != "waiting" and outcome.kind != "cancelled":
            return self._fail(outcome.reason or outcome.kind, outcome.kind)
        self._has_ended = True
        return [*self._end_step(), *self._words.finish(result, self._waiting)]

    def _fail(self, message: str, code: str) -> Frames:
        if self._has_ended:
            return []
        self._has_ended = True
        started = [] if self._has_started else self._open(self._thread or self._run)
        return [*started, *self._end_step(), *self._words.fail(message, code)]


class _Calls:
    """The calls of a run, with ids that no other call of the run has. Some endpoints use the same ids in each turn."""

    def __init__(self) -> None:
        self.by_index: dict[int, str] = {}
        self.denied: set[str] = set()
        self._ids: dict[str, str] = {}
        """The ids of this turn: those of the run, and those of the stream."""
        self._open: dict[str, str] = {}
        """The names of the calls whose arguments are not complete."""
        self._used: set[str] = set()
        self._turn = 0

    def begin_turn(self, number: int) -> None:
        self._turn = number
        self.by_index.clear()
        self.denied.clear()
        self._ids.clear()
        self._open.clear()

    def open(self, index: int | None, id: str, name: str) -> str:
        shown = id if id not in self._used else f"{id}:{self._turn}"
        self._used.add(shown)
        self._ids[id] = shown
        self._open[id] = name
        if index is not None:
            self.by_index[index] = shown
        return shown

    def close(self, id: str) -> str:
        self._open.pop(id, None)
        return self._ids[id]

    def find(self, id: str) -> str:
        return self._ids.get(id, id)

    def is_known(self, id: str) -> bool:
        return id in self._ids

    def is_open(self, id: str) -> bool:
        return id in self._open

    def left(self) -> list[tuple[str, str]]:
        """Return the calls that never ended, and forget them."""
        left = [(self._ids[id], name) for id, name in self._open.items()]
        self._open.clear()
        return left


def _write(frames: Frames) -> list[bytes]:
    return [b"data: " + json.dumps(frame, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n" for frame in frames]


def _text_of(result: ToolResult) -> str:
    content = result.content
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, Text) else f"[{type(part).__name__.lower()}]" for part in content)


def _count(usage: Usage) -> JsonObject:
    return {"inputTokens": usage.input_tokens, "outputTokens": usage.output_tokens}
