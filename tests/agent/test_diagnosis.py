"""Bugs in the developer's own code leave a traceback; tools and validators can ask the model for another attempt."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.agent.playbook import Playbook
from tests.agent.runs import agent, wait
from tests.agent.toolbox import weather

import dragoman
from dragoman import Limits, Retry, RunFailed, Stop
from dragoman.agent.events import RunEvent, ToolEnded
from dragoman.agent.protocol import AnswerChecked, CheckAnswer
from dragoman.agent.replies import answer_tool
from dragoman.errors import ConfigError, MissingKey
from dragoman.journal import MemoryJournal
from dragoman.logs import get_log, write_traceback
from dragoman.testing import ScriptedModel, call
from dragoman.tools import gather
from dragoman.toolset import Toolset
from dragoman.types import Failure

OWN_FRAMES = f"{Path(dragoman.__file__).parent}/"
"""Not a word of the path: the folder of the checkout may have any name."""
SECRET = "correct-horse-battery"
TOKEN = "sk-proj-" + "a1B2c3D4" * 6


@dragoman.tool
def broken(city: str) -> str:
    """A tool with a bug."""
    return {"known": f"{SECRET} {TOKEN}"}[city + SECRET]


@dragoman.tool
async def broken_async(city: str) -> str:
    """An async tool with a bug."""
    return broken(city)


@dragoman.tool
def broken_generator(city: str) -> Any:
    """A generator with a bug."""
    yield "begun"
    raise ValueError(f"{TOKEN} does not fit {city}")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@dragoman.tool
def unprintable(city: str) -> str:
    """A tool that raises an exception without words."""
    raise Unprintable


@dragoman.tool
def declined(city: str) -> str:
    """A tool that says why it failed."""
    raise dragoman.Error("closed today")


def watch(runs: dragoman.Agent, **settings: Any) -> tuple[dragoman.RunResult, list[RunEvent]]:
    events: list[RunEvent] = []
    return runs.run("hi", check=False, on_event=events.append, **settings), events


@pytest.mark.parametrize("tool", [broken, broken_async, broken_generator, unprintable], ids=lambda tool: tool.__name__)
def test_a_bug_in_a_tool_leaves_its_traceback_in_the_event_the_problems_and_the_log(
    tool: Any, caplog: pytest.LogCaptureFixture
) -> None:
    runs = agent([call(tool.__name__, city="Paris"), "done"], tool, secrets=[SECRET])
    result, events = watch(runs)
    assert result.text == "done", "the model continues"
    (ended,) = [event for event in events if isinstance(event, ToolEnded)]
    (problem,) = [each for each in result.problems if each.kind == "tool_raised"]
    (record,) = [each for each in caplog.records if each.name == "dragoman.tools"]
    assert record.levelno == logging.ERROR
    for place in (ended.error, problem.message, record.getMessage()):
        assert "Traceback (most recent call last)" in place
        assert f"in {tool.__name__}" in place and "test_diagnosis.py" in place
        assert OWN_FRAMES not in place, "our own frames say nothing about the bug"
        assert SECRET not in place and TOKEN not in place
    assert tool.__name__ in problem.message and "Traceback" not in str(result.results[0].content)


def test_an_error_that_the_tool_reports_on_purpose_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    result, events = watch(agent([call("declined", city="Paris"), "done"], declined))
    assert [event.error for event in events if isinstance(event, ToolEnded)] == [""]
    assert not caplog.records and "tool_raised" not in [problem.kind for problem in result.problems]


def test_a_bug_stays_known_after_the_run_is_resumed() -> None:
    journal = MemoryJournal()
    runs = agent([call("broken", city="Paris"), "done"], broken, journal=journal, secrets=[SECRET])
    result = runs.run("hi")
    again = runs.resume(result.run_id)
    assert [each.kind for each in again.problems] == [each.kind for each in result.problems]
    assert "tool_raised" in [each.kind for each in again.problems]


def fail(*given: Any, **named: Any) -> Any:
    raise LookupError(f"lost {SECRET}")


def makes(kind: type, name: str) -> object:
    return type("Mine", (kind,), {name: lambda self, *given: fail()})()


BUGS: dict[str, dict[str, Any]] = {
    "a hook": {"hooks": [makes(object, "before_model")]},
    "a hook after the answer": {"hooks": [makes(object, "after_answer")]},
    "a listener": {"listeners": [fail]},
    "the approver": {"approve": fail, "ask": ["weather"]},
    "the approver, which is asked": {"approve": lambda request: 3, "ask": ["weather"]},
    "the policy": {"policy": fail},
}


@pytest.mark.parametrize("what", BUGS)
def test_every_other_bug_of_the_developer_is_logged_with_its_traceback(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    runs = agent([call("weather", city="Paris"), "done"], weather, secrets=[SECRET], **BUGS[what])
    watch(runs)
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert logged and all(SECRET not in each for each in logged)
    assert any("in fail" in each or "is not an answer" in each for each in logged), logged


def test_retries_of_requests_and_failed_runs_are_logged_without_keys(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "dragoman")
    echo = Failure("overloaded", f"the key {TOKEN} of {SECRET} must wait", 503)
    once_more = dragoman.client.Retries(attempts=2, base=0.0)
    for address in ("http://a.invalid/v1", f"http://user:{SECRET}@a.invalid/v1?key={TOKEN}"):
        reach = dragoman.Connection(transport=ScriptedModel([echo], loop=True), retries=once_more)
        runs = dragoman.Agent(
            "custom:m", base_url=address, key=TOKEN, connection=reach, safety=dragoman.Safety(secrets=[SECRET])
        )
        with pytest.raises(RunFailed):
            runs.run("hi")
    names = {record.name for record in caplog.records}
    assert {"dragoman.client", "dragoman.agent"} <= names
    assert {logging.DEBUG, logging.WARNING} <= {record.levelno for record in caplog.records}
    assert not [each for each in caplog.messages if TOKEN in each or SECRET in each]


def test_nothing_is_written_unless_the_program_configures_it() -> None:
    program = (
        "import dragoman\n"
        "from dragoman.testing import ScriptedModel, call\n"
        "def bad() -> int:\n    'Bad.'\n    return 1 // 0\n"
        "model = ScriptedModel([call('bad'), 'done'])\n"
        "agent = dragoman.Agent(model.endpoint(), [bad], connection=dragoman.Connection(transport=model))\n"
        "print(agent.run('hi').text)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (ran.stdout, ran.stderr) == ("done\n", "")
    loud = program.replace("import dragoman\n", "import dragoman, logging\nlogging.basicConfig()\n", 1)
    assert "ZeroDivisionError" in subprocess.run([sys.executable, "-c", loud], capture_output=True, text=True).stderr


def test_a_traceback_without_a_frame_of_its_own_and_a_long_one_are_kept_within_bounds() -> None:
    assert write_traceback(ValueError("new")) == "ValueError: new"

    def deep(level: int) -> None:
        if level:
            deep(level - 1)
        raise ValueError("x" * 50_000 + "end")

    try:
        deep(300)
    except ValueError as problem:
        written = write_traceback(problem)
    assert len(written) < 10_000 and written.endswith("xend")
    try:
        raise ExceptionGroup("two", [ValueError("\ud800"), KeyError("b")])
    except ExceptionGroup as problem:
        assert "KeyError: 'b'" in write_traceback(problem)


# ---- a tool asks for another call ------------------------------------------------------------------------------------


@dragoman.tool
def book(day: str) -> str:
    """Book a day."""
    if not day.startswith("2026-"):
        raise Retry("the day has the form 2026-MM-DD")
    return f"booked {day}"


def test_a_tool_asks_the_model_to_call_it_again() -> None:
    runs = agent([call("book", day="Monday"), call("book", day="2026-05-04"), "Booked."], book)
    result, events = watch(runs)
    assert result.text == "Booked."
    assert [each.is_error for each in result.results] == [True, False]
    assert "2026-MM-DD" in str(result.results[0].content) and "again" in str(result.results[0].content)
    assert [event.error for event in events if isinstance(event, ToolEnded)] == ["", ""], "it is no bug"


def test_a_tool_may_ask_for_another_call_only_so_often_in_a_row() -> None:
    for repairs, attempts in ((0, 1), (2, 3), (4, 5)):
        model = ScriptedModel([call("book", day=f"day {number}") for number in range(9)])
        runs = dragoman.Agent(model.endpoint(), [book], connection=dragoman.Connection(transport=model))
        result = runs.run("hi", limits=Limits(repairs=repairs, turns=9), check=False)
        assert (result.outcome.kind, len(model.requests)) == ("mistake_limit", attempts)
        assert f"more often than {repairs} times" in result.outcome.reason


def test_only_retries_in_a_row_count_and_calls_of_one_reply_count_once() -> None:
    wrong, right = call("book", day="Monday"), call("book", day="2026-05-04")
    others = [call("book", day=f"{number}") for number in range(5)]
    replies = [others, wrong, right, wrong, [wrong, call("book", day="2026-05-05")], "Booked."]
    result = agent(replies, book).run("hi", limits=Limits(repairs=2))
    assert result.text == "Booked."


# ---- a validator rejects an answer -----------------------------------------------------------------------------------


@dataclass
class Forecast:
    city: str
    degrees: int


def check(answer: Forecast) -> Retry | None:
    return Retry("no city is that warm") if answer.degrees > 60 else None


async def check_later(answer: Forecast) -> None:
    await asyncio.sleep(0)
    if answer.degrees > 60:
        raise Retry("no city is that warm.")


HOT, WARM = {"city": "Paris", "degrees": 90}, {"city": "Paris", "degrees": 21}
VALIDATORS: list[Callable[[Any], object]] = [check, check_later, lambda answer: answer.degrees <= 60]


@pytest.mark.parametrize("validate", VALIDATORS)
def test_a_validator_rejects_an_answer_and_the_model_gives_another(validate: Callable[[Any], object]) -> None:
    for native in (True, False):
        for replies in (
            [[call("weather", city="Paris"), call("final_answer", answer=HOT)], call("final_answer", answer=WARM)],
            ['{"city": "Paris", "degrees": 90}', '{"city": "Paris", "degrees": 21}'],
        ):
            result = agent(replies, weather, native=native).run("hi", answer=Forecast, validate=validate)
            assert result.data == Forecast("Paris", 21)
            assert "not accepted" in str([message.parts for message in result.messages])


def test_a_validator_sees_the_text_where_no_form_was_asked_for() -> None:
    seen: list[str] = []

    class Polite:
        def after_answer(self, answer: str) -> Retry | None:
            seen.append(answer)
            return None if answer.startswith("Please") else Retry("say please")

    result = agent(["Wait.", "Please wait."], hooks=[Polite()]).run("hi")
    assert (result.text, seen) == ("Please wait.", ["Wait.", "Please wait."])
    assert "say please" in result.messages[-2].text
    stopping = agent(["Wait."]).run("hi", validate=lambda answer: Stop("enough"))
    assert stopping.outcome.kind == "stopped"


def test_attempts_to_answer_are_limited() -> None:
    runs = agent([call("final_answer", answer=HOT)], loop=True)
    with pytest.raises(RunFailed, match="no city is that warm") as caught:
        runs.run("hi", answer=Forecast, validate=check, limits=Limits(repairs=1))
    result = caught.value.result
    assert (result.outcome.kind, result.turns, result.data) == ("mistake_limit", 2, None)


def test_a_validator_with_a_bug_ends_the_run_and_no_value_counts_as_consent() -> None:
    for validate in (lambda answer: answer.nothing, lambda answer: "fine", lambda answer: 1):
        result = agent([call("final_answer", answer=WARM)]).run("hi", answer=Forecast, validate=validate, check=False)
        assert (result.outcome.kind, result.data) == ("hook_failed", None)
        assert [each.is_error for each in result.results] == [True], "the call has a result"


def test_a_run_that_waits_for_its_validator_is_restored_and_can_be_cancelled() -> None:
    form = answer_tool(Forecast, Toolset(gather([weather])))
    play = Playbook(weather, answer=form, validates=True).starts("hi").asks()
    play.replies(call("final_answer", answer=HOT))
    assert play._expect(CheckAnswer).answer == Forecast("Paris", 90)
    play.receives(AnswerChecked("too warm")).has_result("final_answer", "too warm", error=True, ran=False).asks()
    play.replies('{"city": "Paris", "degrees": 80}')._expect(CheckAnswer)
    play.receives(AnswerChecked("still too warm")).asks(hearing="still too warm")
    play.replies(call("final_answer", answer=WARM))._expect(CheckAnswer)
    assert play.receives(AnswerChecked()).ends("answered").data == Forecast("Paris", 21)
    cut = Playbook(weather, answer=form, validates=True).starts("hi").asks()
    cut.replies(call("final_answer", answer=WARM))._expect(CheckAnswer)
    assert cut.is_cancelled().ends("cancelled").data is None


def test_the_text_of_a_reply_that_ended_with_an_error_is_no_structured_answer() -> None:
    play = Playbook(answer=answer_tool(Forecast, Toolset([]))).starts("hi").asks()
    play.replies('{"city": "Paris", "degrees": 21}', stop="error").asks(hearing="ended with an error")
    play.replies('{"city": "Paris", "degrees": 21}').ends("answered")


def test_a_rejected_answer_stays_rejected_when_the_run_is_resumed_without_the_validator() -> None:
    journal = MemoryJournal()
    replies: list[Any] = [call("final_answer", answer=HOT), RuntimeError("the process ends here")]
    first = agent(replies, journal=journal)
    with pytest.raises(RuntimeError):
        wait(first.arun("hi", answer=Forecast, validate=check, run_id="run_1"))
    resumed = agent([call("final_answer", answer=WARM)], journal=journal).resume("run_1", answer=Forecast)
    assert resumed.data == Forecast("Paris", 21)


# ---- keys of fallbacks -----------------------------------------------------------------------------------------------


def test_a_fallback_without_a_key_is_found_when_the_agent_is_made() -> None:
    def make(environment: dict[str, str], **settings: Any) -> dragoman.Agent:
        connection = dragoman.Connection(environment=environment, **settings)
        return dragoman.Agent("ollama:x", fallbacks=["ollama:y", "anthropic:claude-x"], connection=connection)

    with pytest.raises(MissingKey, match="fallback anthropic:claude-x cannot be used: there is no key") as caught:
        make({})
    assert 'Connection(keys={"anthropic": ...})' in caught.value.next_step
    make({"ANTHROPIC_API_KEY": TOKEN})
    for name in ("anthropic", "anthropic:claude-x", "ANTHROPIC_API_KEY"):
        make({}, keys={name: TOKEN})
    with pytest.raises(ConfigError, match="incomplete"):
        dragoman.Agent("ollama:x", fallbacks=["azure:y"], connection=dragoman.Connection(environment={}))


def test_every_fallback_sends_its_own_key_and_none_is_shown() -> None:
    down = Failure("overloaded", "later", 503)
    model = ScriptedModel([down, down, down, f"hello, {TOKEN}3"])
    names = ["openai:a", "openai:b", "mistral:c"]
    keys = {"openai": f"{TOKEN}1", "openai:b": f"{TOKEN}2", "MISTRAL_API_KEY": f"{TOKEN}3"}
    once = dragoman.client.Retries(attempts=1)
    reach = dragoman.Connection(transport=model, environment={}, keys=keys, retries=once)
    runs = dragoman.Agent("groq:first", key=f"{TOKEN}0", fallbacks=names, connection=reach)
    result, events = watch(runs)
    sent = [exchange.sent.headers["Authorization"] for exchange in model.exchanges]
    assert sent == [f"Bearer {TOKEN}{number}" for number in range(4)]
    assert [each.kind for each in result.problems if each.kind == "model_replaced"] == ["model_replaced"] * 3
    assert not [event for event in events if TOKEN in repr(event)]


def test_the_problems_of_mcp_servers_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    program = f"import sys; print('{SECRET} is wrong', file=sys.stderr)"
    servers = [
        dragoman.mcp.StdioServer("missing", ["no-such-program"]),
        dragoman.mcp.StdioServer("broken", [sys.executable, "-c", program], {"TOKEN": SECRET}),
    ]
    with dragoman.mcp.connect(servers) as box:
        logged = [record.getMessage() for record in caplog.records if record.name == "dragoman.mcp"]
        assert sorted(logged) == sorted(box.problems) and {"missing", "broken"} <= {
            each.partition(":")[0] for each in logged
        }
    assert not [each for each in logged if SECRET in each]


def test_secrets_are_hidden_in_every_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Also in the lines of the gateway, of which all but the first word, the id, is kept when it was scrubbed."""
    log, secret = get_log("server"), "sk-proj-" + "a1B2" * 12
    caplog.set_level(logging.INFO, "dragoman.server")
    identity = f"ex_{'0a' * 12}"
    for said in (f"{identity} m -> {secret}", f"{identity} m -> {secret}", f"ex_{secret} m", f"{secret} {identity}"):
        log.info("%s", said)
    assert len(caplog.records) == 4
    assert secret not in caplog.text
    assert caplog.text.count(identity) == 3
