"""Watching runs: a log of JSON lines, spans of OpenTelemetry, and what was used.

A listener is anything that can be called with the id of a run and one of its events: `listener(run_id, event)`. It is
called in the order of the events, does not wait, and may be shared by many runs.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.agent.events import RunEvent
from dragoman.telemetry.log import Bounds, JsonLog, as_record
from dragoman.telemetry.otel import OpenTelemetry
from dragoman.telemetry.usage import Total, UsageTotals

Listener = Callable[[str, RunEvent], None]

__all__ = ["Bounds", "JsonLog", "Listener", "OpenTelemetry", "Total", "UsageTotals", "as_record"]
