"""Asking at the terminal: what is shown, and what a typed line means."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cli.conftest import Terminal

from dragoman.agent.approvals import LATER, Approval, ApprovalRequest
from dragoman.cli.approval_prompt import CommandApprover, TerminalApprover, make_ask_user, parse_answer
from dragoman.cli.render import ScreenView
from dragoman.cli.screen import summarise
from dragoman.errors import ConfigError
from dragoman.events import TextDelta
from dragoman.extraction.trust import find_doubt
from dragoman.types import Operand, Provenance, Tool, ToolCall

CALL = ToolCall("c1", "bash", {"command": "git push", "note": "x" * 3000})
REQUEST = ApprovalRequest(
    "apr_1",
    CALL,
    "it executes",
    operands=(Operand("path", "deploy.sh", "run", "/w/deploy.sh", identity="1:2", digest="f" * 64),),
    suggestion="bash(git push*)",
    run_id="run_1",
    arguments={"command": "git push [redacted:token]", "note": "x" * 3000},
)


def seed_rows(shared_data: Callable[[str], Path], key: str) -> list[dict[str, Any]]:
    with gzip.open(shared_data("seed_vectors.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["kind"] == "permission" and key in row["input"]]


def test_the_seed_reads_typed_lines_like_this(shared_data: Callable[[str], Path]) -> None:
    rows = seed_rows(shared_data, "cli_line")
    assert len(rows) == 4
    for row in rows:
        assert row["verdict"] == "keep"
        assert parse_answer(row["input"]["cli_line"]).choice == row["expected"]["decision"], row["id"]


def test_the_seed_summarises_arguments_like_this(shared_data: Callable[[str], Path]) -> None:
    rows = seed_rows(shared_data, "summarize_args")
    assert len(rows) == 1
    shown = summarise(rows[0]["input"]["summarize_args"])
    assert shown.startswith(rows[0]["expected"]["starts_with"])
    assert all(part in shown for part in rows[0]["expected"]["contains"])
    assert summarise({"text": "a" * 200}) == f"text: {'a' * 80}…"
    assert "\n" not in summarise({"text": "a\nb\x1b[2J"}) and "\x1b" not in summarise({"text": "a\x1b[2J"})


@pytest.mark.parametrize(
    ("line", "choice", "rest"),
    [
        ("y\n", "yes", ""),
        ("no use the test account\n", "no", "use the test account"),
        ("yes, but only once\n", "no", "yes, but only once"),
        ("always and ever\n", "no", "always and ever"),
        ("sure\n", "no", "sure"),
        ("\n", "no", ""),
        ('e {"command": "ls"}\n', "edit", '{"command": "ls"}'),
        ("L\n", "later", ""),
        ("r\n", "run", ""),
    ],
)
def test_a_typed_line(line: str, choice: str, rest: str) -> None:
    typed = parse_answer(line)
    assert (typed.choice, typed.rest) == (choice, rest)


class Desk:
    """A terminal at which these lines are typed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lines: str | None, can_defer: bool = False) -> None:
        self.out = io.BytesIO()
        stream = Terminal(self.out, encoding="utf-8", write_through=True)
        monkeypatch.setenv("TERM", "dumb")
        monkeypatch.setattr("sys.stderr", stream)
        typed = iter(lines)

        async def read() -> str | None:
            return next(typed)

        self.read = read
        self.view = ScreenView(stream)
        self.kept: list[str] = []

        def remember(rule: str) -> str:
            self.kept.append(rule)
            return f"{rule} is kept"

        self.question = TerminalApprover(self.view, remember_rule=remember, can_defer=can_defer, read_line=read)

    def ask(self, request: ApprovalRequest = REQUEST) -> Approval:
        return asyncio.run(self.question(request))  # type: ignore[arg-type]

    @property
    def text(self) -> str:
        return self.out.getvalue().decode()


def test_everything_that_would_run_is_shown_and_where_something_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, "s\n", "y\n")
    assert desk.ask() == Approval(True)
    shown = desk.text
    assert "it executes" in shown and "git push [redacted:token]" in shown
    assert "command: a secret is hidden here" in shown
    assert "deploy.sh" in shown and "/w/deploy.sh" in shown and "content ffffffffffff" in shown
    assert "(+1000 characters)" in shown and "x" * 3000 in shown.replace("\n  ... ", ""), (
        "cut at first, whole when asked for"
    )
    assert "a = bash(git push*) always" in shown


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("n\n", Approval(False, "the user said no")),
        ("not on a Sunday\n", Approval(False, "not on a Sunday")),
        ("r\n", Approval(True, rule="bash(git push*)")),
        (None, Approval(False, "the terminal was closed", by="default")),
        ('e {"command": "ls"}\n', Approval(True, arguments={"command": "ls"})),
    ],
    ids=["no", "words", "in this run", "closed", "edited"],
)
def test_what_an_answer_becomes(line: str | None, given: Approval, monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, line)
    assert desk.ask() == given
    assert desk.kept == []


def test_a_question_is_answered_and_denies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, "?\n", "help\n", "y\n")
    assert desk.ask() == Approval(True)
    assert desk.text.count("type one of the letters") == 2


def test_always_keeps_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, "a\n")
    assert desk.ask() == Approval(True, rule="bash(git push*)")
    assert desk.kept == ["bash(git push*)"]


def test_later_is_for_runs_that_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Desk(monkeypatch, "l\n", can_defer=True).ask() is LATER
    assert Desk(monkeypatch, "l\n").ask() == Approval(False, "the user wants to decide later")


def test_what_is_no_json_can_be_typed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    desk = Desk(monkeypatch, "e {broken\n", "e [1]\n", "e\n", "n\n")
    assert desk.ask().approved is False
    assert "not JSON" in desk.text and "arguments must be an object" in desk.text and "set EDITOR" in desk.text


def test_an_editor_changes_the_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/git push/git status/' \"$1\"\n", encoding="utf-8")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    answer = Desk(monkeypatch, "e\n").ask()
    assert answer.approved and answer.arguments == {"command": "git status", "note": "x" * 3000}


@pytest.mark.parametrize(
    ("rules", "can_defer", "given"),
    [
        ((), True, LATER),
        (("never",), True, Approval(False, "nothing is approved in this run (--approve never)", by="--approve")),
        (("ba*",), True, Approval(True, by="--approve")),
    ],
    ids=["waits", "never", "by name"],
)
def test_where_nobody_is_there(rules: tuple[str, ...], can_defer: bool, given: Approval) -> None:
    assert asyncio.run(CommandApprover(rules, can_defer=can_defer)(REQUEST)) == given


def test_a_name_does_not_approve_what_no_rule_lifts() -> None:
    hook = replace(REQUEST, operands=(Operand("path", ".git/hooks/pre-commit", "write", protected=True),))
    read = replace(CALL, provenance=Provenance("text", level="T2", verdict="ask"))
    unjudged = replace(CALL, provenance=Provenance("text"))
    tool = Tool("bash", metadata={"class": "exec"})
    doubtful = [replace(REQUEST, call=each, doubt=find_doubt(each, tool)) for each in (read, unjudged)]
    assert all(request.doubt for request in doubtful)
    for request in (hook, *doubtful):
        assert asyncio.run(CommandApprover(["bash"], can_defer=True)(request)) == LATER


def test_where_nobody_is_there_and_nothing_can_wait_the_denial_says_how_to_allow_it() -> None:
    given = asyncio.run(CommandApprover(())(REQUEST))
    assert not given.approved and given.by == "the settings of this run"
    assert "--allow 'bash(git push*)' or --approve bash" in given.reason


def test_two_words_that_contradict_each_other_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="both later and never"):
        CommandApprover(["never", "later"])


def test_two_questions_at_once_are_asked_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, "red\n", "y\n")
    answered: list[str | None] = []

    async def read_later() -> str | None:
        await asyncio.sleep(0)
        assert desk.text.count("answer> ") + desk.text.count("n = no") == len(answered) + 1
        answered.append(await desk.read())
        return answered[-1]

    async def ask_both() -> list[object]:
        ask, approve = make_ask_user(desk.view, read_later), TerminalApprover(desk.view, read_line=read_later)
        return await asyncio.gather(ask("Which?"), approve(REQUEST))

    assert asyncio.run(ask_both()) == ["red", Approval(True)]


def test_a_note_during_a_question_has_a_row_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C at a question: the note comes first, and then the question is cancelled."""
    desk = Desk(monkeypatch)

    async def interrupt() -> str | None:
        desk.view.note("ending this run")
        raise asyncio.CancelledError

    approve, ask = TerminalApprover(desk.view, read_line=interrupt), make_ask_user(desk.view, interrupt)
    for question in (approve(REQUEST), ask("Which?")):  # type: ignore[arg-type]
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(question)
    assert desk.text.count("\nnote: ending this run\n") == 2
    assert "\n\nnote" not in desk.text


def test_text_that_arrives_after_an_interrupt_is_not_shown_behind_its_note(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch)
    desk.view.show(TextDelta("one two "))
    desk.view.end()
    desk.view.show(TextDelta("three"))
    desk.view.restore()
    assert desk.text == "one two \nnote: ending this run; interrupt again to end the program at once\n"


def test_the_model_asks_a_question_and_a_number_is_one_of_the_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk(monkeypatch, "2\n", "something else\n", None)
    ask = make_ask_user(desk.view, desk.read)
    assert asyncio.run(ask("Which?", ["red", "blue"])) == "blue"
    assert asyncio.run(ask("Which?", ["red", "blue"])) == "something else"
    assert asyncio.run(ask("Which?")) == ""
    assert "1. red" in desk.text
