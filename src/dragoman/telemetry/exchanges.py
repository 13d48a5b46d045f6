"""OpenTelemetry spans of exchanges: one for each request to a gateway, or through a transport of an SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from dragoman import __version__
from dragoman.extras import missing_extra
from dragoman.pipeline.report import Report
from dragoman.telemetry import otel
from dragoman.types import FAILURE_CAUSES

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

EXCHANGE = "dragoman.exchange.id"
CLIENT = "dragoman.client"


class Spans:
    """Starts and ends the spans. They contain names and numbers, and no content."""

    def __init__(self, provider: TracerProvider | None = None, *, kind: Literal["server", "client"] = "server") -> None:
        """`provider` is the one of the process unless it is given."""
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "opentelemetry":
                raise
            raise missing_extra("telemetry needs opentelemetry-api", "otel") from None
        self._kind = trace.SpanKind[kind.upper()]
        self._tracer = trace.get_tracer(
            "dragoman.server" if kind == "server" else "dragoman.integrations", __version__, tracer_provider=provider
        )
        self._read = TraceContextTextMapPropagator().extract

    def start(self, report: Report, headers: Mapping[str, str] | None = None) -> Callable[[], None]:
        """Start the span of an exchange, and return what ends it with what the report says.

        It is below the span that a client names in `traceparent`, or below the current one without `headers`.
        """
        context = None if headers is None else self._read(headers)
        span = self._tracer.start_span(f"chat {report.requested_model}".strip(), context=context, kind=self._kind)
        return partial(self._end, span, report)

    def _end(self, span: Span, report: Report) -> None:
        from opentelemetry.trace import Status, StatusCode

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
