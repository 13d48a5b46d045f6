"""`dragoman doctor --tools`: models compared on the tools of the user, against a scripted server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import Desk
from tests.doctor.clinic import Clinic

from dragoman.testing import Upstream, call
from dragoman.testing.script import Scripted
from dragoman.types import Request, ToolResult, Usage

TOOLS = """\
import dragoman

def fail(*_):
    open("ran", "w").close()
    return "it ran"

@dragoman.tool
def weather(city: str, days: int = 1) -> str:
    "The weather in a city."
    return fail()

@dragoman.tool(requires_approval=True)
def clock(city: str) -> str:
    "The time in a city."
    return fail()
"""
CASES = [
    {"task": "Is it warm in Rome?", "tool": "weather", "arguments": {"city": "Rome"}, "result": "21 degrees"},
    {"task": "And in Oslo, for two days?", "tool": "weather", "arguments": {"city": "Oslo", "days": 2}},
    {"task": "Say hello.", "calls": []},
    {"task": "What time is it in Rome, and is it warm?", "calls": [{"tool": "clock"}, {"tool": "weather"}]},
]
RIGHT: dict[str, Any] = {
    "Is it warm in Rome?": call("weather", city="Rome", days=1),
    "And in Oslo, for two days?": call("weather", city="Oslo", days=2),
    "Say hello.": "Hello.",
    "What time is it in Rome, and is it warm?": [call("clock", city="Rome"), call("weather", city="Rome")],
}
WRONG: dict[str, Any] = {
    "Is it warm in Rome?": call("weather", city="Paris"),
    "And in Oslo, for two days?": call("clock", city="Oslo"),
    "Say hello.": call("weather", city="Paris"),
    "What time is it in Rome, and is it warm?": call("clock", city="Rome"),
}


def answer(request: Request, body: dict[str, Any]) -> Scripted:
    if any(isinstance(part, ToolResult) for message in request.messages for part in message.parts):
        return "There it is."
    return (RIGHT if body["model"] == "good" else WRONG).get(request.messages[-1].text, "I do not know.")


async def never(request: Request) -> Scripted:
    await asyncio.Event().wait()
    return "never"


def hang_at_the_second(request: Request, body: dict[str, Any]) -> Any:
    return never(request) if body["model"] == "bad" and "Oslo" in request.messages[1].text else answer(request, body)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.write("mine.py", TOOLS)
    desk.write("cases.jsonl", "".join(json.dumps(case) + "\n" for case in CASES))
    return desk


def compared(url: str, *more: str) -> tuple[str, ...]:
    models = ("-m", "llamacpp:good", "-m", "llamacpp:bad")
    return ("doctor", "--tools", "mine.py", *models, "--base-url", url, *more)


@pytest.fixture
def here(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands in this process work in the folder of the desk, too."""
    monkeypatch.chdir(desk.folder)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, desk.environment[name])


@pytest.mark.usefixtures("here")
def test_each_model_gets_its_score_and_no_tool_runs(desk: Desk, dragoman: Any) -> None:
    with Upstream(Clinic(answer, usage=Usage(20, 10))) as upstream:
        done = dragoman(*compared(upstream.url, "--cases", "cases.jsonl", "--json"))
        shown = dragoman(*compared(upstream.url, "--cases", "cases.jsonl"))
    assert (done.code, done.err) == (0, "")
    assert done.data["complete"] and done.data["source"] == "from cases.jsonl"
    good, bad = done.data["models"]
    assert (good["model"], good["right_tool"], good["right_arguments"], good["turns"]) == ("llamacpp:good", 4, 4, 1.75)
    assert (bad["model"], bad["right_tool"], bad["right_arguments"], bad["turns"]) == ("llamacpp:bad", 1, 0, 2.0)
    assert good["usage"]["input_tokens"] == 7 * 20 and len(good["trials"]) == len(CASES)
    assert bad["trials"][0]["calls"] == [{"tool": "weather", "arguments": {"city": "Paris"}}]
    lines = shown.out.splitlines()
    assert lines[0] == "4 cases from cases.jsonl; the tools do not run"
    assert lines[3].split()[:4] == ["llamacpp:good", "4/4", "4/4", "1.8"]
    assert lines[4].split()[:4] == ["llamacpp:bad", "1/4", "0/4", "2.0"]
    assert '    wrong arguments: weather({"city": "Paris"})' in lines
    assert lines[-1] == "best: llamacpp:good (4 of 4 cases right)"
    assert not (desk.folder / "ran").exists()


@pytest.mark.usefixtures("here")
def test_where_cases_come_from_is_said(desk: Desk, dragoman: Any) -> None:
    listed = f"{TOOLS}\nCASES = {CASES[:1]!r}\n"
    desk.write("listed.py", listed)
    desk.write("cases.toml", '[[cases]]\ntask = "Is it warm in Rome?"\ntool = "weather"\narguments = {city = "Rome"}\n')
    desk.write("cases.json", json.dumps(CASES))
    with Upstream(Clinic(answer)) as upstream:
        for arguments, words in (
            (("-t", "listed.py"), "1 case from listed.py, CASES"),
            (("-t", "listed.py", "--cases", "cases.json"), "4 cases from cases.json"),
            (("-t", "mine.py", "--cases", "cases.toml"), "1 case from cases.toml"),
            (("-t", "mine.py"), "2 cases derived from the schemas of the tools"),
        ):
            done = dragoman("doctor", "llamacpp:good", "--base-url", upstream.url, *arguments)
            assert done.code == 0 and words in done.out.splitlines()[0], (arguments, done)


@pytest.mark.usefixtures("here")
def test_wrong_cases_and_options_are_named(desk: Desk, dragoman: Any) -> None:
    desk.write("cases.json", json.dumps(CASES))
    wanted = [
        (("-t", "mine.py", "--cases", "none.json"), "cannot read none.json"),
        (("--cases", "cases.json"), "--cases is for a comparison"),
        (("-m", "a", "-m", "b"), "one model is examined at a time"),
    ]
    for number, (row, words) in enumerate(
        [
            ({"task": "x"}, "case 1 names neither"),
            ({"task": "x", "tool": "wether"}, "did you mean 'weather'?"),
            ({"task": "x", "tool": "weather", "arguments": {"town": "Rome"}}, "the arguments of weather"),
            ({"tool": "weather"}, "missing required field `task`"),
            ({"task": "x", "tools": "weather"}, "unknown field `tools`"),
        ]
    ):
        name = f"bad{number}.json"
        desk.write(name, json.dumps([row]))
        wanted.append((("-t", "mine.py", "--cases", name), words))
    for arguments, words in wanted:
        done = dragoman("doctor", "llamacpp:good", *arguments)
        assert done.code == 2 and words in done.err.splitlines()[0], (arguments, done)
        assert done.err.splitlines()[1].startswith("hint: "), done.err


@pytest.mark.usefixtures("here")
def test_an_endpoint_that_does_not_answer_is_left_after_one_case(desk: Desk, dragoman: Any) -> None:
    with Upstream(Clinic(answer)) as upstream:
        desk.write(
            "config/dragoman/config.toml",
            f'[providers.up]\nbase_url = "{upstream.url}"\n[providers.down]\nbase_url = "http://127.0.0.1:1"\n',
        )
        cases = ("--tools", "mine.py", "--cases", "cases.jsonl")
        done = dragoman("doctor", *cases, "-m", "down:m", "-m", "up:good")
        alone = dragoman("doctor", *cases, "-m", "down:m", "--json")
    assert done.code == 0 and ["down:m", "failed"] in [line.split()[:2] for line in done.out.splitlines()]
    assert "cannot connect" in done.out
    assert alone.code == 4 and [len(each["trials"]) for each in alone.data["models"]] == [1]


@pytest.mark.parametrize("columns", ["40", "80"])
def test_an_interrupt_leaves_a_partial_table_that_fits(desk: Desk, columns: str) -> None:
    with Upstream(Clinic(hang_at_the_second)) as upstream:
        arguments = compared(upstream.url, "--cases", "cases.jsonl")
        with desk.at_terminal(*arguments, COLUMNS=columns, NO_COLOR="1") as terminal:
            terminal.wait_for("llamacpp:bad, case 2")
            terminal.interrupt()
            assert terminal.wait() == 130
    shown = [line for line in terminal.text.splitlines() if "case 2" not in line]
    assert "interrupted; the table is partial" in shown
    rows = " ".join(" ".join(shown).split())
    assert "tool 1/1* args 0/1*" in rows if columns == "40" else "llamacpp:bad 1/1* 0/1*" in rows
    assert max(map(len, shown)) <= int(columns)
