"""OpenTelemetry spans of a gateway: one for each exchange, below the span that the client names in `traceparent`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from dragoman import __version__
from dragoman.errors import ConfigError
from dragoman.pipeline.report import Report
from dragoman.types import FAILURE_CAUSES

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

EXCHANGE = "dragoman.exchange.id"
CLIENT = "dragoman.client"


class Spans:
    """Starts and ends the spans. They contain names and numbers, and no content."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        """`provider` is the one of the process unless it is given."""
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "opentelemetry":
                raise
            raise ConfigError("OpenTelemetry is not installed", hint="pip install 'dragoman[otel]'") from None
        self._kind = trace.SpanKind.SERVER
        self._tracer = trace.get_tracer("dragoman.server", __version__, tracer_provider=provider)
        self._read = TraceContextTextMapPropagator().extract

    def start(self, headers: Mapping[str, str], report: Report) -> Span:
        """Start the span of an exchange. Without a readable `traceparent` it begins a trace of its own."""
        return self._tracer.start_span(
            f"chat {report.requested_model}".strip(), context=self._read(headers), kind=self._kind
        )

    def end(self, span: Span, report: Report) -> None:
        """End a span with what the report says."""
        from opentelemetry.trace import Status, StatusCode

        from dragoman.telemetry import otel

        provider, _, model = report.model.partition(":")
        usage = report.usage
        values: dict[str, Any] = {
            otel.OPERATION: otel.CHAT,
            otel.PROVIDER: otel.provider_name(provider),
            otel.REQUEST_MODEL: report.requested_model,
            otel.RESPONSE_MODEL: model,
            otel.TOOL_MODE: report.tool_mode,
            otel.INPUT_TOKENS: usage.input_tokens,
            otel.OUTPUT_TOKENS: usage.output_tokens,
            EXCHANGE: report.id,
            CLIENT: report.client,
        }
        if report.stop:
            values[otel.FINISH_REASONS] = (otel.FINISH.get(report.stop, report.stop),)
        if report.failure:
            # The kind only: the message of an endpoint can contain anything.
            kind = report.failure.partition(":")[0]
            values[otel.ERROR_TYPE] = kind if kind in FAILURE_CAUSES else "server_error"
            span.set_status(Status(StatusCode.ERROR))
        span.set_attributes({name: value for name, value in values.items() if value not in ("", None)})
        span.end()


def start_span(spans: Spans | None, headers: Mapping[str, str], report: Report) -> Callable[[], None]:
    """Start the span of an exchange, and return what ends it. Without telemetry both do nothing."""
    return partial(spans.end, spans.start(headers, report), report) if spans is not None else _do_nothing


def _do_nothing() -> None:
    pass
