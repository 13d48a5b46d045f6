"""Spans of the GenAI conventions: their names, parents and attributes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.telemetry.conftest import MODEL, call, ended, reply, send, started, tool_ended, whole_run

from dragoman.agent.events import ApprovalGiven, Asked, Noticed, RunEvent, RunStarted, ToolStarted, TurnEnded
from dragoman.client.retry import RequestRetried
from dragoman.events import CallEnded, ReplyEnded, ReplyFailed, TextDelta
from dragoman.telemetry import OpenTelemetry, otel
from dragoman.types import Failure, Usage


class Watch:
    """A listener, and what it exported."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader])
        self.seconds = 0.0
        self.listener = OpenTelemetry(self.provider, self.meters, clock=self.tick, **options)

    def tick(self) -> float:
        self.seconds += 1.0
        return self.seconds

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self.exporter.get_finished_spans()}

    def one(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return span


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.meters.shutdown()
    made.provider.shutdown()


def parent_of(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def id_of(span: ReadableSpan) -> int:
    return span.get_span_context().span_id


def test_a_run_is_a_span_with_its_requests_and_tools_below(watch: Watch) -> None:
    send(watch.listener, whole_run(session="trip"))
    finished = watch.exporter.get_finished_spans()
    assert [span.name for span in finished] == ["chat qwen3", "execute_tool weather", "chat qwen3", "invoke_agent"]
    run = finished[-1]
    assert parent_of(run) is None
    assert {parent_of(span) for span in finished[:-1]} == {id_of(run)}
    assert {span.get_span_context().trace_id for span in finished} == {run.get_span_context().trace_id}
    assert [span.kind for span in finished] == [
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
    ]
    assert {span.attributes["gen_ai.conversation.id"] for span in finished} == {"trip"}


def test_what_is_written_on_them(watch: Watch) -> None:
    send(watch.listener, whole_run())
    first, tool, _, run = watch.exporter.get_finished_spans()
    assert dict(first.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "ollama",
        "gen_ai.request.model": "qwen3",
        "gen_ai.response.model": "qwen3:8b",
        "gen_ai.response.id": "reply-1",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.conversation.id": "run-1",
        "dragoman.turn": 1,
        "dragoman.tool_mode": "native",
    }
    assert dict(tool.attributes) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "weather",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "call_weather_1",
        "gen_ai.conversation.id": "run-1",
        "dragoman.turn": 1,
    }
    assert dict(run.attributes) == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "ollama",
        "gen_ai.request.model": "qwen3",
        "gen_ai.response.model": "qwen3",
        "gen_ai.conversation.id": "run-1",
        "gen_ai.usage.input_tokens": 20,
        "gen_ai.usage.output_tokens": 10,
        "dragoman.run.id": "run-1",
        "dragoman.run.turns": 2,
        "dragoman.outcome": "answered",
        "dragoman.cost.usd": 0.25,
    }
    assert run.status.status_code == StatusCode.UNSET


def test_tools_side_by_side_have_the_same_parent_and_their_own_ends(watch: Watch) -> None:
    one, two = call("weather", 1), call("weather", 2)
    send(
        watch.listener,
        [
            started(),
            *reply(1, calls=[one, two]),
            ToolStarted(one, 1),
            ToolStarted(two, 1),
            tool_ended(two, "no", is_error=True),
            tool_ended(one),
            ended(),
        ],
    )
    _, second, first, run = watch.exporter.get_finished_spans()
    assert [span.attributes["gen_ai.tool.call.id"] for span in (second, first)] == [two.id, one.id]
    assert {parent_of(first), parent_of(second)} == {id_of(run)}
    assert second.attributes["error.type"] == "tool_error"
    assert (second.status.status_code, first.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)


def test_runs_at_the_same_time_are_kept_apart(watch: Watch) -> None:
    runs = {name: iter(whole_run(name)) for name in ("one", "two", "three")}
    for _ in range(len(whole_run())):
        for name, events in runs.items():
            watch.listener(name, next(events))
    finished = watch.exporter.get_finished_spans()
    roots = {span.attributes["dragoman.run.id"]: id_of(span) for span in finished if span.name == "invoke_agent"}
    assert set(roots) == set(runs)
    for name, root in roots.items():
        children = [span for span in finished if parent_of(span) == root]
        assert len(children) == 3
        assert {span.attributes["gen_ai.conversation.id"] for span in children} == {name}


def test_a_run_hangs_below_the_callers_span_and_leaves_the_context_alone(watch: Watch) -> None:
    from opentelemetry import trace

    tracer = watch.provider.get_tracer("caller")
    with tracer.start_as_current_span("request") as outer:
        for event in whole_run():
            watch.listener("run-1", event)
            assert trace.get_current_span() is outer
    assert parent_of(watch.one("invoke_agent")) == outer.get_span_context().span_id


@pytest.mark.parametrize("with_end", [True, False])
def test_a_failed_reply_is_an_error_of_its_kind(watch: Watch, with_end: bool) -> None:
    failed: list[RunEvent] = [
        started(),
        Asked(1, MODEL),
        RequestRetried(1, 0.5, Failure("overloaded")),
        ReplyFailed(Failure("rate_limited", "secret prompt")),
    ]
    send(watch.listener, [*failed, *([ReplyEnded("error")] if with_end else []), ended("provider_failed")])
    chat, run = watch.one("chat qwen3"), watch.one("invoke_agent")
    assert (chat.attributes["error.type"], chat.status.status_code) == ("rate_limited", StatusCode.ERROR)
    assert chat.status.description == "rate_limited"
    assert [event.name for event in chat.events] == ["dragoman.request_retried"]
    assert (run.attributes["error.type"], run.status.status_code) == ("provider_failed", StatusCode.ERROR)


def test_a_second_model_has_its_own_name_and_provider(watch: Watch) -> None:
    send(watch.listener, [started(), Asked(1, "qwen3:8b"), Asked(1, "mistral:large"), ReplyEnded(), ended()])
    chats = [span for span in watch.exporter.get_finished_spans() if span.name.startswith("chat")]
    told = [(span.name, span.attributes["gen_ai.provider.name"]) for span in chats]
    assert told == [("chat qwen3:8b", "ollama"), ("chat large", "mistral_ai")]


class AskedThere(Asked, frozen=True):
    provider: str = "bedrock"


def test_a_provider_that_is_named_apart(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(otel._ON_RUN, AskedThere, otel.RunSpans.asked)
    send(watch.listener, [started(), AskedThere(1, "us.anthropic.claude-opus:0"), ReplyEnded(), ended()])
    (chat,) = [span for span in watch.exporter.get_finished_spans() if span.name.startswith("chat")]
    assert chat.attributes["gen_ai.provider.name"] == "aws.bedrock"
    assert chat.attributes["gen_ai.request.model"] == "us.anthropic.claude-opus:0"


def test_what_was_begun_and_never_ended_is_ended_with_the_run(watch: Watch) -> None:
    hanging = call("slow")
    send(watch.listener, [started(), Asked(1, MODEL), ToolStarted(hanging), Asked(2, MODEL), ended("cancelled")])
    assert watch.one("execute_tool slow").attributes["error.type"] == "unfinished"
    last = [span for span in watch.exporter.get_finished_spans() if span.name == "chat qwen3"][-1]
    assert last.attributes["error.type"] == "unfinished"
    assert watch.one("invoke_agent").attributes["error.type"] == "cancelled"


def test_runs_that_never_end_are_given_up(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.telemetry.otel._MOST_RUNS", 2)
    for number in range(4):
        watch.listener(f"run-{number}", RunStarted(f"run-{number}", MODEL))
    assert len(watch.exporter.get_finished_spans()) == 2
    watch.listener.close()
    assert {span.attributes["error.type"] for span in watch.exporter.get_finished_spans()} == {"unfinished"}
    assert len(watch.exporter.get_finished_spans()) == 4


def test_calls_that_did_not_run_approvals_and_notices_are_events_of_the_run(watch: Watch) -> None:
    refused = call("shell")
    send(
        watch.listener,
        [
            started(),
            ApprovalGiven(refused, False, "no"),
            tool_ended(refused, ran=False),
            Noticed("looping", "the same call"),
            TurnEnded(1, Usage()),
            ended(),
        ],
    )
    run = watch.one("invoke_agent")
    assert [event.name for event in run.events] == [
        "dragoman.approval",
        "dragoman.call_not_run",
        "dragoman.noticed",
    ]
    assert "message" not in run.events[2].attributes


def test_content_is_recorded_only_when_asked_for() -> None:
    events = [
        started(),
        Asked(1, MODEL),
        TextDelta("my sk-secret-key and more"),
        CallEnded(0, call("x", key="sk-secret-key")),
        ReplyEnded("tool_calls"),
        ToolStarted(call("x", key="sk-secret-key")),
        tool_ended(call("x"), "got sk-secret-key"),
        ended(),
    ]
    silent, telling = Watch(), Watch(capture_content=True, secrets=["sk-secret-key"], agent_name="scout")
    for each in (silent, telling):
        send(each.listener, events)
    contents = ("gen_ai.output.messages", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    for span in silent.exporter.get_finished_spans():
        assert not set(contents) & set(span.attributes)
    told = telling.spans()
    assert told["execute_tool x"].attributes["gen_ai.tool.call.result"] == "got [redacted:secret]"
    assert told["execute_tool x"].attributes["gen_ai.tool.call.arguments"] == '{"key": "[redacted:secret]"}'
    assert '"content": "my [redacted:secret] and more"' in told["chat qwen3"].attributes["gen_ai.output.messages"]
    assert told["invoke_agent scout"].attributes["gen_ai.agent.name"] == "scout"
    for each in (silent, telling):
        each.meters.shutdown()
        each.provider.shutdown()


def test_metrics_of_tokens_and_durations(watch: Watch) -> None:
    send(watch.listener, whole_run())
    data = watch.reader.get_metrics_data()
    (metrics,) = [scope.metrics for resource in data.resource_metrics for scope in resource.scope_metrics]
    by_name = {metric.name: metric for metric in metrics}
    tokens = {
        point.attributes["gen_ai.token.type"]: point.sum
        for point in by_name["gen_ai.client.token.usage"].data.data_points
    }
    assert tokens == {"input": 20, "output": 10}
    durations = by_name["gen_ai.client.operation.duration"].data.data_points
    assert {point.attributes["gen_ai.operation.name"]: point.count for point in durations} == {
        "chat": 2,
        "execute_tool": 1,
        "invoke_agent": 1,
    }


def test_without_the_extra_it_says_how_to_get_it() -> None:
    code = (
        "import sys\nsys.modules['opentelemetry'] = None\nfrom dragoman.telemetry import OpenTelemetry\n"
        "from dragoman.errors import ConfigError\n"
        "try:\n    OpenTelemetry()\nexcept ConfigError as error:\n    print(error.explain())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (
        done.stdout
        == 'telemetry needs opentelemetry-api, which is not installed\nhint: install it: pip install "dragoman[otel]"\n'
    )


def test_importing_telemetry_loads_no_opentelemetry() -> None:
    code = "import sys, dragoman.telemetry\nassert not [name for name in sys.modules if 'opentelemetry' in name]"
    subprocess.run([sys.executable, "-c", code], check=True)
