"""OpenTelemetry: a span for every run, for every request in it and for every tool that ran.

    invoke_agent
    ├─ chat qwen3
    ├─ execute_tool weather
    ├─ execute_tool search        (beside the other, if they ran at the same time)
    └─ chat qwen3

Every span is given its parent by hand. Nothing is attached to the current context, which belongs to whoever runs the
agent: only the span of the run asks for it once, so that a run hangs below the request that started it. A span that a
tool makes itself is therefore a sibling and not a child of `execute_tool`.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from dragoman.agent.events import RunEvent, RunStarted
from dragoman.errors import ConfigError
from dragoman.telemetry import conventions as names
from dragoman.telemetry.spans import RunSpans, SpanMaker
from dragoman.telemetry.values import Bounds, Plainer, hide_known

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import TracerProvider

_MOST_RUNS = 10_000
"""Runs that were begun and never ended, before the oldest of them is given up."""


class OpenTelemetry:
    """A listener that makes spans and metrics by the GenAI conventions. Many runs may share it.

    Without providers the global ones are used. What models and tools said is recorded only with `capture_content`,
    cut to a few thousand characters and without the `secrets`. It comes with the extra `otel`.
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
            raise ConfigError("OpenTelemetry is not installed", hint="pip install 'dragoman[otel]'") from None
        from dragoman import __version__

        self._maker = SpanMaker(
            tracer=trace.get_tracer("dragoman", __version__, tracer_provider),
            record=_Instruments(metrics.get_meter("dragoman", __version__, meter_provider)),
            plainer=Plainer(hide_known(secrets), Bounds(text=4_000)) if capture_content else None,
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
        """End the spans of runs that never ended."""
        while self._runs:
            self._runs.popitem(last=False)[1].abandon()


class _Instruments:
    """The two metrics of a client."""

    def __init__(self, meter: Meter) -> None:
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            unit="{token}",
            description="Tokens of one request, in or out",
            explicit_bucket_boundaries_advisory=names.TOKEN_BUCKETS,
        )
        self._seconds = meter.create_histogram(
            names.OPERATION_DURATION,
            unit="s",
            description="Duration of one request, run or call",
            explicit_bucket_boundaries_advisory=names.DURATION_BUCKETS,
        )

    def tokens(self, kind: str, count: int, attributes: dict[str, Any]) -> None:
        self._tokens.record(count, {**attributes, names.TOKEN_TYPE: kind})

    def seconds(self, seconds: float, attributes: dict[str, Any]) -> None:
        self._seconds.record(seconds, attributes)
