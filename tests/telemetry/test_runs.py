"""The listeners on a real run, driven by a scripted model."""

from __future__ import annotations

import io
import json

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import dragoman
from dragoman.agent import Agent, Connection
from dragoman.telemetry import JsonLog, OpenTelemetry, UsageTotals
from dragoman.testing import ScriptedModel
from dragoman.types import ToolCall, Usage


@dragoman.tool(parallel_safe=True)
def weather(city: str) -> str:
    """The weather of a city."""
    return f"12 degrees in {city}"


def test_a_run_is_logged_traced_and_counted() -> None:
    calls = [ToolCall("a", "weather", {"city": "Paris"}), ToolCall("b", "weather", {"city": "Rome"})]
    model = ScriptedModel([calls, "It is cold."], usage=Usage(100, 10))
    exporter, provider, stream, totals = InMemorySpanExporter(), TracerProvider(), io.StringIO(), UsageTotals()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    listeners = [JsonLog(stream), OpenTelemetry(provider), totals]
    result = Agent("ollama:qwen3", [weather], connection=Connection(transport=model), listeners=listeners).run(
        "Is it warm?"
    )
    provider.shutdown()

    assert (result.text, [problem for problem in result.problems if problem.kind == "listener_failed"]) == (
        "It is cold.",
        [],
    )
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (lines[0]["type"], lines[-1]["type"]) == ("RunStarted", "RunEnded")
    assert [line["type"] for line in lines].count("ToolEnded") == 2
    assert {line["run"] for line in lines} == {result.run_id}
    spans = exporter.get_finished_spans()
    assert sorted(span.name for span in spans) == [
        "chat qwen3",
        "chat qwen3",
        "execute_tool weather",
        "execute_tool weather",
        "invoke_agent",
    ]
    assert not [span.name for span in spans if "error.type" in span.attributes]
    assert totals.as_data()["total"]["usage"]["input_tokens"] == 200
