"""The spans of one run: which event begins one, which ends it, and what is written on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from dragoman.agent.events import (
    ApprovalGiven,
    Asked,
    Noticed,
    RunEnded,
    RunEvent,
    RunStarted,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from dragoman.client.retry import RequestRetried
from dragoman.events import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.providers.registry import shipped
from dragoman.telemetry import conventions as names
from dragoman.telemetry.records import as_record
from dragoman.telemetry.values import Plainer
from dragoman.types import ToolCall, Usage

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

UNFINISHED = "unfinished"
"""The type of error of a span whose end was never told."""
_DELTAS = (TextDelta, ThinkingDelta, ArgumentsDelta, CallStarted)


class Recorder(Protocol):
    def tokens(self, kind: str, count: int, attributes: dict[str, Any]) -> None: ...

    def seconds(self, seconds: float, attributes: dict[str, Any]) -> None: ...


class SpanMaker:
    """What all runs share: the tracer, the metrics, and whether content is recorded."""

    def __init__(
        self,
        *,
        tracer: Tracer,
        record: Recorder,
        plainer: Plainer | None,
        agent_name: str,
        clock: Callable[[], float],
    ) -> None:
        self.tracer = tracer
        self.record = record
        self.plainer = plainer
        self.agent_name = agent_name
        self.clock = clock

    def content(self, value: Any) -> str:
        """A value as JSON, bounded and scrubbed; only where content is recorded."""
        plain = self.plainer.value(value) if self.plainer else None
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


class _Timed:
    """A span, when it began, and the attributes that its metrics carry."""

    def __init__(self, maker: SpanMaker, span: Span, metric: dict[str, Any]) -> None:
        self._maker = maker
        self.span = span
        self.metric = metric
        self.began = maker.clock()

    def end(self, error: str = "", message: str = "") -> None:
        from opentelemetry.trace import Status, StatusCode

        if error:
            self.span.set_attribute(names.ERROR_TYPE, error)
            self.span.set_status(Status(StatusCode.ERROR, message or error))
            self.metric[names.ERROR_TYPE] = error
        self._maker.record.seconds(self._maker.clock() - self.began, self.metric)
        self.span.end()


class _Chat(_Timed):
    """The span of one request, and what came of its reply so far."""

    def __init__(self, maker: SpanMaker, span: Span, metric: dict[str, Any]) -> None:
        super().__init__(maker, span, metric)
        self.has_begun = False
        self.error = ""
        self.message = ""
        self.text: list[str] = []
        self.room = maker.plainer.longest_text if maker.plainer else 0
        self.calls: list[ToolCall] = []


class RunSpans:
    """Takes the events of one run, in order."""

    def __init__(self, maker: SpanMaker, run_id: str, started: RunStarted) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        self._maker = maker
        provider, model = _named(started)
        self._common = {names.PROVIDER: names.provider_name(provider)} if provider else {}
        metric = {names.OPERATION: names.INVOKE_AGENT, **self._common, names.REQUEST_MODEL: model}
        attributes = {**metric, names.RUN_ID: run_id, names.CONVERSATION: started.session or run_id}
        title = names.INVOKE_AGENT
        if maker.agent_name:
            attributes[names.AGENT_NAME] = maker.agent_name
            title = f"{title} {maker.agent_name}"
        # No context is given: the run hangs below whatever span is current where it was started.
        span = maker.tracer.start_span(title, kind=SpanKind.INTERNAL, attributes=attributes)
        self._run = _Timed(maker, span, metric)
        self._below: Context = set_span_in_context(span)
        self._conversation = attributes[names.CONVERSATION]
        self._chat: _Chat | None = None
        self._tools: dict[str, _Timed] = {}
        self.is_over = False

    def take(self, event: RunEvent) -> None:
        """Begin, fill or end the span that an event is about."""
        handle = _HANDLERS.get(type(event))
        if handle is not None:
            handle(self, event)

    def abandon(self) -> None:
        """End everything, as nobody will tell how it ended."""
        self._end_children()
        self._run.end(UNFINISHED, "the end of the run was not told")
        self.is_over = True

    # ---- requests --------------------------------------------------------------------------------------------------

    def asked(self, event: Asked) -> None:
        from opentelemetry.trace import SpanKind

        self._end_chat()
        provider, model = _named(event)
        common = {names.PROVIDER: names.provider_name(provider)} if provider else self._common
        metric = {names.OPERATION: names.CHAT, **common, names.REQUEST_MODEL: model}
        attributes: dict[str, Any] = {**metric, names.CONVERSATION: self._conversation, names.TURN: event.turn}
        if event.mode:
            attributes[names.TOOL_MODE] = event.mode
        span = self._maker.tracer.start_span(
            f"{names.CHAT} {model}", context=self._below, kind=SpanKind.CLIENT, attributes=attributes
        )
        self._chat = _Chat(self._maker, span, metric)

    def retried(self, event: RequestRetried) -> None:
        attributes = {"attempt": event.attempt, "wait": event.wait, names.ERROR_TYPE: event.failure.kind}
        (self._chat or self._run).span.add_event("dragoman.request_retried", attributes)

    def replied(self, event: ReplyStarted) -> None:
        if self._chat is None:
            return
        if event.model:
            self._chat.span.set_attribute(names.RESPONSE_MODEL, event.model)
            self._chat.metric[names.RESPONSE_MODEL] = event.model
        if event.id:
            self._chat.span.set_attribute(names.RESPONSE_ID, event.id)

    def received(self, event: TextDelta | ThinkingDelta | ArgumentsDelta | CallStarted) -> None:
        chat = self._chat
        if chat is None:
            return
        if not chat.has_begun:
            chat.has_begun = True
            chat.span.set_attribute(names.FIRST_CHUNK, self._maker.clock() - chat.began)
        if isinstance(event, TextDelta) and chat.room > 0:
            chat.text.append(event.text[: chat.room])
            chat.room -= len(event.text)

    def called(self, event: CallEnded) -> None:
        if self._chat is not None and self._maker.plainer is not None:
            self._chat.calls.append(event.call)

    def used(self, event: UsageReported) -> None:
        if self._chat is not None:
            _write_usage(self._chat.span, event.usage)
            self._maker.record.tokens("input", event.usage.input_tokens, self._chat.metric)
            self._maker.record.tokens("output", event.usage.output_tokens, self._chat.metric)

    def failed(self, event: ReplyFailed) -> None:
        if self._chat is not None:
            self._chat.error = event.failure.kind
            # The message of a provider may repeat what it was sent.
            self._chat.message = self._maker.content(event.failure.message) if self._maker.plainer else ""

    def reply_ended(self, event: ReplyEnded) -> None:
        if self._chat is not None:
            self._chat.span.set_attribute(names.FINISH_REASONS, [names.FINISH.get(event.stop, event.stop)])
            self._end_chat(names.FINISH.get(event.stop, event.stop))

    def turn_ended(self, event: TurnEnded) -> None:
        self._end_chat()

    def _end_chat(self, finish: str = "") -> None:
        chat, self._chat = self._chat, None
        if chat is None:
            return
        if self._maker.plainer is not None and (chat.text or chat.calls):
            parts: list[dict[str, Any]] = []
            if chat.text:
                parts.append({"type": "text", "content": "".join(chat.text)})
            parts += [
                {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
                for call in chat.calls
            ]
            message = [{"role": "assistant", "parts": parts, "finish_reason": finish}]
            chat.span.set_attribute(names.OUTPUT_MESSAGES, self._maker.content(message))
        chat.end(chat.error, chat.message)

    # ---- tools -----------------------------------------------------------------------------------------------------

    def tool_started(self, event: ToolStarted) -> None:
        from opentelemetry.trace import SpanKind

        # The first tool runs when the reply is over, also where nobody told its end.
        self._end_chat()
        call = event.call
        metric: dict[str, Any] = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: call.name}
        attributes: dict[str, Any] = {
            **metric,
            names.TOOL_TYPE: "function",
            names.TOOL_CALL_ID: call.id,
            names.CONVERSATION: self._conversation,
            names.TURN: event.turn,
        }
        if self._maker.plainer is not None:
            attributes[names.TOOL_ARGUMENTS] = self._maker.content(call.arguments)
        span = self._maker.tracer.start_span(
            f"{names.EXECUTE_TOOL} {call.name}", context=self._below, kind=SpanKind.INTERNAL, attributes=attributes
        )
        before = self._tools.pop(call.id, None)
        if before is not None:
            before.end(UNFINISHED)
        self._tools[call.id] = _Timed(self._maker, span, metric)

    def tool_ended(self, event: ToolEnded) -> None:
        tool = self._tools.pop(event.call.id, None)
        if tool is None:
            attributes = {names.TOOL_NAME: event.call.name, names.TOOL_CALL_ID: event.call.id}
            self._run.span.add_event("dragoman.call_not_run", attributes)
            return
        if self._maker.plainer is not None:
            result = as_record(event, self._maker.plainer)["result"]
            tool.span.set_attribute(names.TOOL_RESULT, self._maker.content(result["content"]))
        tool.end("tool_error" if event.result.is_error else "")

    # ---- the run ---------------------------------------------------------------------------------------------------

    def decided(self, event: ApprovalGiven) -> None:
        call = event.call
        attributes: dict[str, Any] = {
            names.TOOL_NAME: call.name,
            names.TOOL_CALL_ID: call.id,
            "approved": event.approved,
        }
        self._run.span.add_event("dragoman.approval", attributes)

    def noticed(self, event: Noticed) -> None:
        attributes: dict[str, Any] = {"kind": event.kind, names.TURN: event.turn}
        if self._maker.plainer is not None:
            attributes["message"] = self._maker.plainer.text(event.message)
        self._run.span.add_event("dragoman.noticed", attributes)

    def run_ended(self, event: RunEnded) -> None:
        self._end_children()
        result = event.result
        span = self._run.span
        _write_usage(span, result.usage)
        span.set_attributes({names.TURNS: result.turns, names.OUTCOME: result.outcome.kind})
        if result.cost is not None:
            span.set_attribute(names.COST, result.cost)
        if result.model:
            span.set_attribute(names.RESPONSE_MODEL, split_model(result.model)[1])
        self._run.end("" if result.outcome.is_success else result.outcome.kind)
        self.is_over = True

    def _end_children(self) -> None:
        if self._chat is not None and not self._chat.error:
            self._chat.error = UNFINISHED
        self._end_chat()
        for tool in self._tools.values():
            tool.end(UNFINISHED)
        self._tools.clear()


_HANDLERS: dict[type, Callable[[RunSpans, Any], None]] = {
    Asked: RunSpans.asked,
    RequestRetried: RunSpans.retried,
    ReplyStarted: RunSpans.replied,
    **dict.fromkeys(_DELTAS, RunSpans.received),
    CallEnded: RunSpans.called,
    UsageReported: RunSpans.used,
    ReplyFailed: RunSpans.failed,
    ReplyEnded: RunSpans.reply_ended,
    TurnEnded: RunSpans.turn_ended,
    ToolStarted: RunSpans.tool_started,
    ToolEnded: RunSpans.tool_ended,
    ApprovalGiven: RunSpans.decided,
    Noticed: RunSpans.noticed,
    RunEnded: RunSpans.run_ended,
}


def split_model(model: str) -> tuple[str, str]:
    """The provider, empty if it is not named, and the model. Models have colons of their own: `qwen3:8b`."""
    provider, colon, rest = model.partition(":")
    known = provider.partition("@")[0]
    return (known, rest) if colon and rest and known in shipped() else ("", model)


def _named(event: RunStarted | Asked) -> tuple[str, str]:
    """The provider and the model of an event, which may name them apart or as `provider:model`."""
    provider: str = getattr(event, "provider", "")
    return (provider, event.model) if provider else split_model(event.model)


def _write_usage(span: Span, usage: Usage) -> None:
    span.set_attributes({names.INPUT_TOKENS: usage.input_tokens, names.OUTPUT_TOKENS: usage.output_tokens})
    for name, count in (
        (names.CACHE_READ_TOKENS, usage.cached_tokens),
        (names.CACHE_WRITE_TOKENS, usage.cache_write_tokens),
        (names.REASONING_TOKENS, usage.reasoning_tokens),
    ):
        if count:
            span.set_attribute(name, count)
