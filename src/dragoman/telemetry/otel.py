"""OpenTelemetry: spans for runs, requests and tools."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

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
    RefusalDelta,
    ReplyEnded,
    ReplyFailed,
    ReplyStarted,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.extras import missing_extra
from dragoman.providers.registry import shipped
from dragoman.telemetry.log import Bounds, JsonSafe, as_record, hide_known
from dragoman.types import ToolCall, Usage

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Span, TracerProvider


# --------------------------------------------------------------------------------------------------------------------
# The names of OpenTelemetry's GenAI conventions, in one place: they are new, and change.

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL_ID = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
TOKEN_TYPE = "gen_ai.token.type"
ERROR_TYPE = "error.type"

INVOKE_AGENT = "invoke_agent"
CHAT = "chat"
EXECUTE_TOOL = "execute_tool"

TOKEN_USAGE = "gen_ai.client.token.usage"
OPERATION_DURATION = "gen_ai.client.operation.duration"
TOKEN_BUCKETS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
DURATION_BUCKETS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)

# Attributes that the conventions do not define have the prefix of dragoman.
RUN_ID = "dragoman.run.id"
TURNS = "dragoman.run.turns"
TURN = "dragoman.turn"
COST = "dragoman.cost.usd"
OUTCOME = "dragoman.outcome"
TOOL_MODE = "dragoman.tool_mode"

FINISH = {
    "end": "stop",
    "stop_sequence": "stop",
    "tool_calls": "tool_call",
    "length": "length",
    "refusal": "content_filter",
    "error": "error",
}
"""Our stop reasons in the terms of the conventions; others are unchanged."""

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "azure_ai": "azure.ai.inference",
    "bedrock": "aws.bedrock",
    "codestral": "mistral_ai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "vertex": "gcp.vertex_ai",
    "watsonx": "ibm.watsonx.ai",
    "xai": "x_ai",
}


def provider_name(provider: str) -> str:
    """Return the name of a provider in the conventions, or our own if they have none."""
    return _PROVIDERS.get(provider, provider)


# --------------------------------------------------------------------------------------------------------------------
# The spans of one run: which event starts one, which ends it, and its attributes.

UNFINISHED = "unfinished"
"""The error type of a span without an end event."""


class _Instruments:
    """The two metrics of a client."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = meter.create_histogram(
            TOKEN_USAGE,
            unit="{token}",
            description="Tokens of one request, in or out",
            explicit_bucket_boundaries_advisory=TOKEN_BUCKETS,
        )
        self._seconds = meter.create_histogram(
            OPERATION_DURATION,
            unit="s",
            description="Duration of one request, run or call",
            explicit_bucket_boundaries_advisory=DURATION_BUCKETS,
        )

    def tokens(self, kind: str, count: int, attributes: dict[str, Any]) -> None:
        self._tokens.record(count, {**attributes, TOKEN_TYPE: kind})

    def seconds(self, seconds: float, attributes: dict[str, Any]) -> None:
        self._seconds.record(seconds, attributes)


class SpanMaker(Struct, frozen=True):
    """What all runs share: the tracer, the metrics, and whether content is recorded."""

    tracer: Any
    record: _Instruments
    json_safe: JsonSafe | None
    agent_name: str
    clock: Callable[[], float]

    def content(self, value: Any) -> str:
        """Return a value as JSON, bounded and redacted; only if content is recorded."""
        plain = self.json_safe.value(value) if self.json_safe else None
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


class _Timed:
    """A span, its start time, and the attributes of its metrics; for a request also its state so far."""

    def __init__(self, maker: SpanMaker, span: Span, metric: dict[str, Any]) -> None:
        self._maker = maker
        self.span = span
        self.metric = metric
        self.began = maker.clock()
        self.has_begun = False
        self.error = ""
        self.message = ""
        self.text: list[str] = []
        self.room = maker.json_safe.longest_text if maker.json_safe else 0
        self.calls: list[ToolCall] = []

    def end(self, error: str = "", message: str = "") -> None:
        from opentelemetry.trace import Status, StatusCode

        if error:
            self.span.set_attribute(ERROR_TYPE, error)
            self.span.set_status(Status(StatusCode.ERROR, message or error))
            self.metric[ERROR_TYPE] = error
        self._maker.record.seconds(self._maker.clock() - self.began, self.metric)
        self.span.end()


class RunSpans:
    """Takes the events of one run, in order."""

    def __init__(self, maker: SpanMaker, run_id: str, started: RunStarted) -> None:
        from opentelemetry.trace import set_span_in_context

        self._maker = maker
        self._below: Context | None = None
        self._conversation = started.session or run_id
        provider, model = _named(started)
        self._common = {PROVIDER: provider_name(provider)} if provider else {}
        title, named = INVOKE_AGENT, {}
        if maker.agent_name:
            title, named = f"{title} {maker.agent_name}", {AGENT_NAME: maker.agent_name}
        metric = {OPERATION: INVOKE_AGENT, **self._common, REQUEST_MODEL: model}
        # Without an explicit context, the parent is the current span at the start of the run.
        self._run = self._begin(title, "INTERNAL", metric, {RUN_ID: run_id, **named})
        self._below = set_span_in_context(self._run.span)
        self._chat: _Timed | None = None
        self._tools: dict[str, _Timed] = {}
        self.is_over = False

    def _begin(self, title: str, kind: str, metric: dict[str, Any], attributes: dict[str, Any]) -> _Timed:
        from opentelemetry.trace import SpanKind

        known = {**metric, CONVERSATION: self._conversation, **attributes}
        span = self._maker.tracer.start_span(title, context=self._below, kind=SpanKind[kind], attributes=known)
        return _Timed(self._maker, span, metric)

    def take(self, event: RunEvent) -> None:
        """Start, update or end the span of an event."""
        on_run, on_chat = _ON_RUN.get(type(event)), _ON_CHAT.get(type(event))
        if on_run is not None:
            on_run(self, event)
        elif on_chat is not None and self._chat is not None:
            on_chat(self, self._chat, event)

    def abandon(self) -> None:
        """End all spans, because no end event will arrive."""
        self._end_children()
        self._run.end(UNFINISHED, "the run has no end event")
        self.is_over = True

    # ---- requests --------------------------------------------------------------------------------------------------

    def asked(self, event: Asked) -> None:
        self._end_chat()
        provider, model = _named(event)
        common = {PROVIDER: provider_name(provider)} if provider else self._common
        mode = {TOOL_MODE: event.mode} if event.mode else {}
        metric = {OPERATION: CHAT, **common, REQUEST_MODEL: model}
        self._chat = self._begin(f"{CHAT} {model}", "CLIENT", metric, {TURN: event.turn, **mode})

    def retried(self, event: RequestRetried) -> None:
        attributes = {"attempt": event.attempt, "wait": event.wait, ERROR_TYPE: event.failure.kind}
        (self._chat or self._run).span.add_event("dragoman.request_retried", attributes)

    def replied(self, chat: _Timed, event: ReplyStarted) -> None:
        if event.model:
            chat.span.set_attribute(RESPONSE_MODEL, event.model)
            chat.metric[RESPONSE_MODEL] = event.model
        if event.id:
            chat.span.set_attribute(RESPONSE_ID, event.id)

    def received(self, chat: _Timed, event: TextDelta | ThinkingDelta | ArgumentsDelta | CallStarted) -> None:
        if not chat.has_begun:
            chat.has_begun = True
            chat.span.set_attribute(FIRST_CHUNK, self._maker.clock() - chat.began)
        if isinstance(event, TextDelta) and chat.room > 0:
            chat.text.append(event.text[: chat.room])
            chat.room -= len(event.text)

    def called(self, chat: _Timed, event: CallEnded) -> None:
        if self._maker.json_safe is not None:
            chat.calls.append(event.call)

    def used(self, chat: _Timed, event: UsageReported) -> None:
        _write_usage(chat.span, event.usage)
        self._maker.record.tokens("input", event.usage.input_tokens, chat.metric)
        self._maker.record.tokens("output", event.usage.output_tokens, chat.metric)

    def failed(self, chat: _Timed, event: ReplyFailed) -> None:
        chat.error = event.failure.kind
        # The message of a provider may repeat the request.
        chat.message = self._maker.content(event.failure.message) if self._maker.json_safe else ""

    def reply_ended(self, chat: _Timed, event: ReplyEnded) -> None:
        finish = FINISH.get(event.stop, event.stop)
        chat.span.set_attribute(FINISH_REASONS, [finish])
        self._end_chat(finish)

    def _end_chat(self, finish: str = "") -> None:
        chat, self._chat = self._chat, None
        if chat is None:
            return
        if self._maker.json_safe is not None and (chat.text or chat.calls):
            parts: list[dict[str, Any]] = []
            if chat.text:
                parts.append({"type": "text", "content": "".join(chat.text)})
            parts += [
                {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
                for call in chat.calls
            ]
            message = [{"role": "assistant", "parts": parts, "finish_reason": finish}]
            chat.span.set_attribute(OUTPUT_MESSAGES, self._maker.content(message))
        chat.end(chat.error, chat.message)

    # ---- tools -----------------------------------------------------------------------------------------------------

    def tool_started(self, event: ToolStarted) -> None:
        # The first tool starts after the reply, even if the end event of the reply is missing.
        self._end_chat()
        call = event.call
        attributes: dict[str, Any] = {TOOL_TYPE: "function", TOOL_CALL_ID: call.id, TURN: event.turn}
        if self._maker.json_safe is not None:
            attributes[TOOL_ARGUMENTS] = self._maker.content(call.arguments)
        metric = {OPERATION: EXECUTE_TOOL, TOOL_NAME: call.name}
        tool = self._begin(f"{EXECUTE_TOOL} {call.name}", "INTERNAL", metric, attributes)
        before = self._tools.pop(call.id, None)
        if before is not None:
            before.end(UNFINISHED)
        self._tools[call.id] = tool

    def tool_ended(self, event: ToolEnded) -> None:
        tool = self._tools.pop(event.call.id, None)
        if tool is None:
            attributes = {TOOL_NAME: event.call.name, TOOL_CALL_ID: event.call.id}
            self._run.span.add_event("dragoman.call_not_run", attributes)
            return
        if self._maker.json_safe is not None:
            result = as_record(event, self._maker.json_safe)["result"]
            tool.span.set_attribute(TOOL_RESULT, self._maker.content(result["content"]))
        tool.end("tool_error" if event.result.is_error else "")

    # ---- the run ---------------------------------------------------------------------------------------------------

    def decided(self, event: ApprovalGiven) -> None:
        attributes: dict[str, Any] = {TOOL_NAME: event.call.name, TOOL_CALL_ID: event.call.id}
        attributes["approved"] = event.approved
        self._run.span.add_event("dragoman.approval", attributes)

    def noticed(self, event: Noticed) -> None:
        attributes: dict[str, Any] = {"kind": event.kind, TURN: event.turn}
        if self._maker.json_safe is not None:
            attributes["message"] = self._maker.json_safe.text(event.message)
        self._run.span.add_event("dragoman.noticed", attributes)

    def run_ended(self, event: RunEnded) -> None:
        self._end_children()
        result, span = event.result, self._run.span
        _write_usage(span, result.usage)
        span.set_attributes({TURNS: result.turns, OUTCOME: result.outcome.kind})
        if result.cost is not None:
            span.set_attribute(COST, result.cost)
        if result.model:
            span.set_attribute(RESPONSE_MODEL, split_model(result.model)[1])
        self._run.end("" if result.outcome.is_success else result.outcome.kind)
        self.is_over = True

    def _end_children(self) -> None:
        if self._chat is not None and not self._chat.error:
            self._chat.error = UNFINISHED
        self._end_chat()
        for tool in self._tools.values():
            tool.end(UNFINISHED)
        self._tools.clear()


_ON_CHAT: dict[type, Callable[[RunSpans, _Timed, Any], None]] = {
    ReplyStarted: RunSpans.replied,
    **dict.fromkeys((TextDelta, RefusalDelta, ThinkingDelta, ArgumentsDelta, CallStarted), RunSpans.received),
    CallEnded: RunSpans.called,
    UsageReported: RunSpans.used,
    ReplyFailed: RunSpans.failed,
    ReplyEnded: RunSpans.reply_ended,
}
"""Events of a reply; they are ignored if no request is open."""
_ON_RUN: dict[type, Callable[[RunSpans, Any], None]] = {
    Asked: RunSpans.asked,
    RequestRetried: RunSpans.retried,
    TurnEnded: lambda spans, event: spans._end_chat(),
    ToolStarted: RunSpans.tool_started,
    ToolEnded: RunSpans.tool_ended,
    ApprovalGiven: RunSpans.decided,
    Noticed: RunSpans.noticed,
    RunEnded: RunSpans.run_ended,
}


def split_model(model: str) -> tuple[str, str]:
    """Return the provider, which may be empty, and the model. Names of models may contain colons: `qwen3:8b`."""
    provider, colon, rest = model.partition(":")
    known = provider.partition("@")[0]
    return (known, rest) if colon and rest and known in shipped() else ("", model)


def _named(event: RunStarted | Asked) -> tuple[str, str]:
    """Return the provider and the model of an event, which has them in two fields or as `provider:model`."""
    provider: str = getattr(event, "provider", "")
    return (provider, event.model) if provider else split_model(event.model)


def _write_usage(span: Span, usage: Usage) -> None:
    span.set_attributes({INPUT_TOKENS: usage.input_tokens, OUTPUT_TOKENS: usage.output_tokens})
    for name, count in (
        (CACHE_READ_TOKENS, usage.cached_tokens),
        (CACHE_WRITE_TOKENS, usage.cache_write_tokens),
        (REASONING_TOKENS, usage.reasoning_tokens),
    ):
        if count:
            span.set_attribute(name, count)


# --------------------------------------------------------------------------------------------------------------------
# OpenTelemetry: a span for every run, for every request in it and for every tool that ran.
#
#     invoke_agent
#     ├─ chat qwen3
#     ├─ execute_tool weather
#     ├─ execute_tool search        (beside the other, if they ran at the same time)
#     └─ chat qwen3
#
# Every span has an explicit parent. Nothing is attached to the current context, which belongs to the caller of the
# agent: only the span of the run reads it once, so that the run is a child of the request that started it. A span
# that a tool creates itself is therefore a sibling and not a child of `execute_tool`.

_MOST_RUNS = 10_000
"""The maximum number of unfinished runs; beyond it, the oldest is ended."""


class OpenTelemetry:
    """A listener that creates spans and metrics by the GenAI conventions. Several runs may share it.

    Without providers it uses the global ones. It records the content of messages and results only with
    `capture_content`, cut to a few thousand characters and without the `secrets`. It needs the extra `otel`.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        capture_content: bool = False,
        agent_name: str = "",
        secrets: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        try:
            from opentelemetry import metrics, trace
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "opentelemetry":
                raise
            raise missing_extra("telemetry needs opentelemetry-api", "otel") from None
        from dragoman import __version__

        self._maker = SpanMaker(
            tracer=trace.get_tracer("dragoman", __version__, tracer_provider),
            record=_Instruments(metrics.get_meter("dragoman", __version__, meter_provider)),
            json_safe=JsonSafe(hide_known(secrets), Bounds(text=4_000)) if capture_content else None,
            agent_name=agent_name,
            clock=clock,
        )
        self._runs: OrderedDict[str, RunSpans] = OrderedDict()

    def __call__(self, run_id: str, event: RunEvent) -> None:
        run = self._runs.get(run_id)
        if isinstance(event, RunStarted):
            if run is not None:
                run.abandon()
            self._runs[run_id] = RunSpans(self._maker, run_id, event)
            if len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)[1].abandon()
        elif run is not None:
            run.take(event)
            if run.is_over:
                del self._runs[run_id]

    def close(self) -> None:
        """End the spans of unfinished runs."""
        while self._runs:
            self._runs.popitem(last=False)[1].abandon()
