"""Telemetry of runs: a log of JSON lines, OpenTelemetry spans, and usage totals.

A listener is a callable that receives the id of a run and one of its events: `listener(run_id, event)`. It is called
in the order of the events. It must not block, and several runs may share it.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.agent.events import RunEvent
from dragoman.telemetry.log import Bounds, JsonLog, as_record
from dragoman.telemetry.otel import OpenTelemetry
from dragoman.telemetry.usage import Total, UsageTotals

Listener = Callable[[str, RunEvent], None]
"""A function that receives the id of a run and each of its events."""

__all__ = ["Bounds", "JsonLog", "Listener", "OpenTelemetry", "Total", "UsageTotals", "as_record"]
