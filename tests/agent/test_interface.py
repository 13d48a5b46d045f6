"""The interface of `Agent`: keywords, failures, types at run time."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import socket
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.agent.runs import agent, wait

import dragoman
from dragoman import Agent, Connection, Context, Message, Reply, RunFailed, Safety
from dragoman.agent import Limits
from dragoman.agent.events import RunEnded
from dragoman.agent.result import CATEGORIES, HINTS
from dragoman.client.retry import Retries
from dragoman.errors import ConfigError
from dragoman.journal import MemoryJournal
from dragoman.keywords import UnknownKeyword
from dragoman.testing import Fault, ScriptedModel, Upstream, call
from dragoman.types import RequestOptions, Text
from dragoman.wire import registry

ONCE = Connection(retries=Retries(attempts=1))


@dragoman.tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


# ---- parameters ------------------------------------------------------------------------------------------------------


ROWS = {"Format", "Profile", "Provider", "Quirks", "ApprovalRequest"}
"""Rows of tables, where a field is a column and nobody gives them all, and a record that nobody but the agent makes."""


def public_callables() -> Iterator[tuple[str, Any]]:
    """Every function, class and method that a package of dragoman exports."""
    exported = [getattr(dragoman, name) for name in dragoman.__all__]
    for package in [dragoman, *filter(is_module, exported)]:
        for name in getattr(package, "__all__", ()):
            value = getattr(package, name)
            if callable(value) and name not in ROWS and not is_error(value):
                yield name, value
                methods = vars(value).items() if isinstance(value, type) else ()
                yield from ((f"{name}.{each}", method) for each, method in methods if inspect.isfunction(method))


def is_module(value: Any) -> bool:
    return isinstance(value, ModuleType)


def is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def count_parameters(function: Any) -> int:
    try:
        return len([name for name in inspect.signature(function).parameters if name != "self"])
    except ValueError:  # A class of C has no signature.
        return 0


def test_no_public_callable_has_too_many_parameters() -> None:
    counted = {name: count_parameters(value) for name, value in public_callables()}
    assert counted.pop("Agent") <= 24
    assert counted.pop("Agent.__init__") <= 24
    assert len(counted) > 300
    assert {name: number for name, number in counted.items() if number > 15} == {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Agent("ollama:x", sytem="?"), "did you mean 'system'?"),  # type: ignore[call-arg]
        (lambda: agent(["hi"]).run("hi", anser=str), "did you mean 'answer'?"),  # type: ignore[call-arg]
        (lambda: agent(["hi"]).stream("hi", sesion="s"), "did you mean 'session'?"),  # type: ignore[call-arg]
        (lambda: agent(["hi"]).resume("run", limit=None), "did you mean 'limits'?"),  # type: ignore[call-arg]
        (lambda: dragoman.ask("ollama:x", "hi", temperatur=1), "did you mean 'temperature'?"),  # type: ignore[call-arg]
        (lambda: dragoman.ask("ollama:x", "hi", max_token=1), "did you mean 'max_tokens'?"),  # type: ignore[call-arg]
        (lambda: list(dragoman.stream("ollama:x", "hi", headers={})), "has no parameter 'headers'"),  # type: ignore[call-arg]
    ],
)
def test_an_unknown_keyword_raises_and_names_the_nearest(make: Any, message: str) -> None:
    with pytest.raises(UnknownKeyword) as caught:
        make()
    assert isinstance(caught.value, TypeError)
    assert message in str(caught.value)
    assert caught.value.next_step


def test_a_keyword_that_moved_is_named_with_its_new_place() -> None:
    with pytest.raises(UnknownKeyword) as caught:
        Agent("ollama:x", trust="strict")  # type: ignore[call-arg]
    assert caught.value.next_step == "write safety=Safety(trust=...)"


def test_the_error_names_the_method_that_was_called() -> None:
    with pytest.raises(UnknownKeyword, match=r"^Agent\.run\(\) has no parameter"):
        agent(["hi"]).run("hi", anser=str)  # type: ignore[call-arg]
    with pytest.raises(UnknownKeyword, match=r"^ask\(\) has no parameter"):
        dragoman.ask("ollama:x", "hi", temperatur=1)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["connection", "safety", "context"])
def test_a_value_of_another_type_is_refused_with_the_right_one(name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Agent("ollama:x", **{name: {"trust": "strict"}})  # type: ignore[arg-type]
    assert f"write {name}=" in caught.value.next_step


def test_the_options_of_a_request_name_every_wire() -> None:
    assert set(registry.names()) <= set(RequestOptions.__annotations__)


def test_a_model_that_is_no_name_is_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError) as caught:
        Agent(lambda request: Reply(Message.assistant("hi")))  # type: ignore[arg-type]
    assert "not function" in str(caught.value)
    assert "Connection(transport=...)" in caught.value.next_step


# ---- failures --------------------------------------------------------------------------------------------------------


def closed_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


FAULTS = {
    "wrong key": (401, "Incorrect API key provided", "unauthorized", "check the key"),
    "unknown model": (404, "The model `x` does not exist", "provider_failed", "check the name of the model"),
}


README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
EXAMPLE = "\n".join(re.findall(r"```python\n(.*?)```", README, re.DOTALL)[:2])


def run_the_example(url: str) -> RunFailed:
    """The agent of the README, with another endpoint: what it raises."""
    source = EXAMPLE.replace('"ollama:qwen3"', f'"custom:x", base_url={url!r}, key="k"')
    source = re.sub(r"^# (agent\.run\(.*)$", r"print(\1)", source, flags=re.MULTILINE)
    assert url in source and "print(agent.run(" in source
    with pytest.raises(RunFailed) as caught:
        exec(source, {})
    return caught.value


def test_the_readme_example_raises_at_a_closed_port() -> None:
    failure = run_the_example(closed_port())
    assert failure.outcome.kind == "provider_failed"
    assert "check the address, and check that the server is running" in failure.next_step
    assert failure.result.outcome is failure.outcome


@pytest.mark.parametrize("case", FAULTS)
def test_the_readme_example_raises_when_the_endpoint_refuses(case: str) -> None:
    status, message, kind, hint = FAULTS[case]
    body = json.dumps({"error": {"message": message}})
    with Upstream([Fault("status", status=status, body=body)], loop=True) as upstream:
        failure = run_the_example(upstream.endpoint().base_url)
    assert failure.outcome.kind == kind
    assert message in str(failure)
    assert hint in failure.next_step


def test_a_hint_is_shown_in_a_traceback() -> None:
    with pytest.raises(RunFailed) as caught:
        Agent("custom:x", base_url=closed_port(), key="k", connection=ONCE).run("hi")
    shown = "".join(traceback.format_exception(caught.value))
    assert "hint: check the address, and check that the server is running" in shown


def test_every_outcome_but_success_has_a_hint() -> None:
    assert HINTS.keys() == {kind for kind, category in CATEGORIES.items() if category != "success"}


def test_every_way_to_run_raises_without_check_false() -> None:
    def failing() -> Agent:
        return agent([call("greet", name="Bob")], greet, loop=True, limits=Limits(turns=1))

    with pytest.raises(RunFailed):
        failing().run("hi")
    with pytest.raises(RunFailed):
        asyncio.run(failing().arun("hi"))
    with pytest.raises(RunFailed):
        failing().start("hi").wait()
    assert failing().run("hi", check=False).outcome.kind == "turn_limit"
    assert failing().start("hi").wait(check=False).outcome.kind == "turn_limit"


def test_a_resumed_run_that_fails_raises() -> None:
    journal = MemoryJournal()
    agent([call("greet", name="Bob")], greet, journal=journal, limits=Limits(turns=1)).run(
        "hi", run_id="run_a", check=False
    )
    with pytest.raises(RunFailed):
        agent([], greet, journal=journal).resume("run_a", limits=Limits(turns=1))


def test_a_stream_of_events_ends_with_the_outcome_and_does_not_raise() -> None:
    made = agent([call("greet", name="Bob")], greet, loop=True, limits=Limits(turns=1))
    last = list(made.stream("hi"))[-1]
    assert isinstance(last, RunEnded) and last.result.outcome.kind == "turn_limit"


def test_a_run_that_waits_for_an_approval_does_not_raise() -> None:
    made = agent([call("greet", name="Bob")], greet, journal=MemoryJournal(), ask=["greet"], defer_approvals=True)
    assert made.run("hi").outcome.kind == "awaiting_approval"


# ---- text ------------------------------------------------------------------------------------------------------------


def test_a_stream_of_text_has_neither_reasoning_nor_arguments() -> None:
    script = [[dragoman.Thinking("They want a greeting."), call("greet", name="Bob")], "Hello Bob."]
    made = Agent("ollama:x", [greet], connection=Connection(transport=ScriptedModel(script, deltas=3)))
    assert "".join(made.stream("hi").text_stream()) == "Hello Bob."


def test_a_stream_of_text_raises_at_the_end_of_a_failed_run() -> None:
    made = agent(["Half an ans"], limits=Limits(turns=1), answer=int)
    pieces: list[str] = []
    with pytest.raises(RunFailed):
        pieces += made.stream("hi").text_stream()


# ---- messages and data -----------------------------------------------------------------------------------------------


def test_a_message_takes_text_for_its_parts() -> None:
    assert Message("user", "hi") == Message.user("hi") == Message("user", [Text("hi")])  # type: ignore[arg-type]
    assert Message.assistant("a", Text("b")).text == "ab"
    assert Message.system("Be kind.").role == "system"


@dataclass
class Database:
    url: str


def test_a_context_with_declared_data_reaches_the_tool() -> None:
    @dragoman.tool
    def look_up(city: str, context: Context[Database] | None = None) -> str:
        """Look a city up."""
        assert context is not None
        return f"{context.data.url}/{city}"

    assert next(iter(dragoman.Toolset.of([look_up]) or ())).parameters["properties"].keys() == {"city"}
    made = agent([call("look_up", city="Paris"), "done"], look_up)
    assert made.run("hi", data=Database("db:")).results[0].content == "db:/Paris"


def test_an_agent_may_have_an_answer_of_its_own() -> None:
    @dataclass
    class Forecast:
        degrees: float

    made = agent([call("final_answer", answer={"degrees": 21})], answer=Forecast)
    assert made.run("Is it warm?").data == Forecast(21.0)


# ---- problems --------------------------------------------------------------------------------------------------------


def test_a_resumed_run_remembers_the_problems_that_its_driver_saw() -> None:
    journal = MemoryJournal()

    def fail(run_id: str, event: object) -> None:
        raise ValueError("no more paper")

    first = agent(
        [call("greet", name="Bob")], greet, journal=journal, ask=["greet"], defer_approvals=True, listeners=[fail]
    )
    assert first.run("hi", run_id="run_a").outcome.kind == "awaiting_approval"
    second = agent(["done"], greet, journal=journal, approve=lambda request: True, ask=["greet"])
    problems = second.resume("run_a").problems
    assert [problem.kind for problem in problems] == ["listener_failed"]


def test_safety_refuses_what_cannot_be_meant() -> None:
    with pytest.raises(ConfigError):
        Safety(secrets="hunter2")
    with pytest.raises(ConfigError):
        Safety(approval_seconds=0)


def test_a_cancelled_run_raises_without_check_false() -> None:
    run = agent(["done"]).start("hi")
    run.cancel("no longer needed")
    with pytest.raises(RunFailed, match="no longer needed"):
        wait(run.result())
