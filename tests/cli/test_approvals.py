"""`dragoman approvals`: what waits for somebody's word, all of what would run, and the answers, on a real journal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dragoman.agent.approvals import Approval, ApprovalRequest, answer_request, list_requests
from dragoman.agent.records import Header, encode
from dragoman.agent.review import user_name
from dragoman.cli.approval_prompt import format_span
from dragoman.journal import Entry, SqliteJournal
from dragoman.journal.verification import read_records, verify
from dragoman.types import Message, Operand, Text, ToolCall

HOUR = 3600.0
SECRET = "ghp_" + "x9Kq2mZ7Lw4Tn8Vb3Rc6Yd1Fs5Gh0Jp2QaWe"


def parked(
    name: str, call: str, tool: str = "bash", arguments: dict[str, Any] | None = None, **more: Any
) -> tuple[str, Entry]:
    told = {"asked": time.time() - 130, "expires": time.time() + 23.5 * HOUR, "why": "it may change files"} | more
    question = ApprovalRequest(
        id=f"apr_{name}",
        call=ToolCall(call, tool, arguments if arguments is not None else {"command": f"make {name}"}),
        digest=f"{name:0<64}",
        **told,
    )
    return call, Entry("asked", encode(question), call)


Ask = Callable[..., str]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Put runs that wait into the journal of the user: a name for each, and its questions."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "state" / "dragoman" / "journal.db"

    def put(run: str, *questions: tuple[str, Entry], task: str = "Tidy up.", free: bool = True) -> str:
        async def work() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with SqliteJournal(path) as journal:
                header = Header(seed="s", messages=[Message("user", [Text(task)])], task=task)
                token = await journal.begin(run, "desk", encode(header))
                planned = Entry("reply", b"{}", calls=tuple(call for call, _ in questions))
                await journal.append(run, [planned, *(entry for _, entry in questions)], token=token)
                if free:
                    await journal.release(run, token=token)

        asyncio.run(work())
        return str(path)

    return put


def answers(path: str) -> dict[str, Approval | None]:
    async def work() -> dict[str, Approval | None]:
        with SqliteJournal(path) as journal:
            found = {each.id: each.answer for each in await list_requests(journal)}
            assert all(
                given is None or (given.request, bool(given.at)) == (name, True) for name, given in found.items()
            )
            # What binds an answer to its request is checked above.
            return {name: given and replace(given, request="", digest="", at=None) for name, given in found.items()}

    return asyncio.run(work())


def audited(path: str) -> list[dict[str, Any]]:
    log = Path(path).with_name("audit.jsonl")
    assert verify(log).ok
    return read_records(log)


# ---- looking ---------------------------------------------------------------------------------------------------------


def test_nothing_waits(dragoman, ask: Ask) -> None:
    assert dragoman("approvals", "list").out == "nothing waits for approval\n"
    path = Path(ask("run_1"))
    assert dragoman("approvals", "list", "--json").data == []
    assert dragoman("approvals", "approve", "--all").out == "nothing waits for approval\n"
    assert not path.with_name("audit.jsonl").exists()


def test_what_waits(dragoman, ask: Ask) -> None:
    ask("run_1", parked("aaaa", "c1"), parked("bbbb", "c2", asked=time.time() - 10, expires=None))
    ask("run_2", parked("cccc", "c1", expires=time.time() - 5, asked=time.time() - 2 * 86_400 - 5))
    lines = dragoman("approvals", "list").out.splitlines()
    assert lines[0].split() == ["request", "state", "tool", "asked", "expires", "run", "about"]
    cells = [[cell for cell in line.split("  ") if cell] for line in lines[1:4]]
    assert [cell.strip() for cell in cells[0]] == [
        "apr_cccc", "expired", "bash", "2 days ago", "5 s ago", "run_2", 'command: make cccc',
    ]  # fmt: skip
    assert cells[1][0] == "apr_aaaa"
    assert [cell.strip() for cell in cells[1][3:5]] == ["2 min ago", "in 23 h"]
    assert cells[2][4].strip() == "never"


def test_answered_ones_are_listed_when_asked_for(dragoman, ask: Ask) -> None:
    ask("run_1", parked("aaaa", "c1"), parked("bbbb", "c2"))
    dragoman("approvals", "approve", "apr_aaaa")
    assert [each["id"] for each in dragoman("approvals", "list", "--json").data] == ["apr_bbbb"]
    every = dragoman("approvals", "list", "--all", "--json").data
    assert [(each["id"], each["state"]) for each in every] == [("apr_aaaa", "approved"), ("apr_bbbb", "open")]


def test_everything_that_would_run(dragoman, ask: Ask) -> None:
    operands = (
        Operand(
            "path",
            "notes.txt",
            "write",
            real="/srv/real/notes.txt",
            inside=False,
            protected=True,
            identity="8:1234",
            digest="ab" * 32,
        ),
        Operand("path", "new.txt", "write", real="/w/new.txt"),
        Operand("url", "http://10.0.0.1/", "send", real="http://10.0.0.1/", inside=False),
        Operand("command", "cat notes.txt", "run"),
    )
    arguments = {"path": "notes.txt", "lines": 3, "content": "first\nsecond\n  third"}
    ask(
        "run_1",
        parked("aaaa", "c1", "write", arguments, operands=operands, suggestion="write(notes.txt)"),
        task="Tidy my notes.",
    )
    done = dragoman("approvals", "show", "apr_a")
    for expected in (
        "apr_aaaa\n",
        "  state: open\n",
        "  why: it may change files\n",
        "  task: Tidy my notes.\n",
        "  asked: 2 min ago (",
        "  expires: in 23 h (",
        "  session: desk\n",
        "  run: run_1\n",
        f"  digest: {'aaaa':0<64}\n",
        "write would be called with\n",
        '  path: "notes.txt"\n',
        "  lines: 3\n",
        "    | first\n    | second\n    |   third\n",
        "  write notes.txt\n",
        "really /srv/real/notes.txt\n",
        "OUTSIDE the workspace\n",
        "file 8:1234\n",
        "PROTECTED",
        "content abababababab\n",
        "does not exist yet\n",
        "NOT a public address\n",
        "  run cat notes.txt\n",
        "dragoman approvals approve apr_aaaa\n",
        "--always  (from now on: write(notes.txt))\n",
        "dragoman approvals deny apr_aaaa --reason '...'\n",
    ):
        assert expected in done.out, expected
    assert "hidden" not in done.out and "\\uXXXX" not in done.out


def test_secrets_are_hidden_and_it_says_where(dragoman, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "plain-words-that-are-a-key")
    arguments = {"command": f"curl -H 'X: {SECRET}'", "more": ["a", {"b": "plain-words-that-are-a-key"}]}
    operands = (Operand("command", arguments["command"], "run"),)
    path = ask("run_1", parked("aaaa", "c1", arguments=arguments, operands=operands, why=f"because {SECRET}"))
    shown = dragoman("approvals", "show", "apr_aaaa")
    assert "command: a secret is hidden here" in shown.out
    assert "more[1].b: a secret is hidden here" in shown.out
    data = dragoman("approvals", "show", "apr_aaaa", "--json")
    assert data.data["hidden"] == ["command", "more[1].b"]
    listed = dragoman("approvals", "list")
    approved = dragoman("approvals", "approve", "apr_aaaa", "--arguments", f'{{"command": "echo {SECRET}"}}')
    for done in (shown, data, listed, approved, dragoman("approvals", "list", "--all", "--json")):
        assert SECRET not in done.out + done.err
        assert "plain-words" not in done.out + done.err
    assert SECRET not in Path(path).with_name("audit.jsonl").read_text()


def test_what_a_model_wrote_cannot_deceive_the_reader(dragoman, ask: Ask) -> None:
    hostile = "ls \x1b[2J\x1b]0;title\x07 \u202etxt.exe\u2066 zero\u200bwidth \U000e0041 \r overwritten \x9b31m"
    arguments = {"command": hostile, "two": "line\n  state: approved\x1b[1A", "na\x1bme": 1}
    ask("run_1", parked("aaaa", "c1", "ba\x1bsh", arguments, why=hostile), task=hostile)
    assert "invisible characters are written as \\uXXXX" in dragoman("approvals", "show", "apr_aaaa").out
    for words in (["show", "apr_aaaa"], ["list"], ["approve", "apr_aaaa"]):
        out = dragoman("approvals", *words).out
        seen = set(out) - {"\n"}
        assert all(letter.isprintable() for letter in seen), words
        assert "ba\\u001bsh" in out
    assert "\n    |   state: approved" in dragoman("approvals", "show", "apr_aaaa").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["show", "apr_zzzz"], "there is no open request 'apr_zzzz'"),
        (["show", "apr_aa"], "2 requests begin with 'apr_aa'"),
        (["approve", "apr_zzzz"], "there is no open request"),
        (["approve"], "name requests, or give --all"),
        (["approve", "apr_aaaa", "--all"], "--all and requests cannot be given together"),
        (["approve", "apr_aaaa", "--run", "run_1"], "--run needs --all"),
        (["approve", "--all"], "standard input is not a terminal"),
        (["approve", "apr_aaaa", "--rule", "bash(x", "--always"], "--rule and --always cannot"),
        (["approve", "apr_aaaa", "--rule", "bash(x"], "the rule 'bash(x' cannot be used: its bracket is not closed"),
        (["approve", "apr_aaaa", "--always"], "no rule matches exactly calls like apr_aaaa"),
        (["approve", "apr_aaaa", "apr_aabb", "--arguments", "{}"], "--arguments needs one request"),
        (["approve", "apr_aaaa", "--arguments", "{nope}"], "--arguments is not JSON"),
        (["approve", "apr_aaaa", "--arguments", "[1]"], "--arguments is not a JSON object"),
        (["approve", "apr_aaaa", "--arguments", "@nowhere"], "cannot read --arguments: no such file"),
        (["deny", "--journal", "nowhere", "apr_aaaa"], "there is no journal at nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_told_and_nothing_is_answered(dragoman, ask: Ask, words: list[str], message: str) -> None:
    path = ask("run_1", parked("aaaa", "c1"), parked("aabb", "c2"))
    done = dragoman("approvals", *words)
    assert done.code == 2
    assert f"error: {message}" in done.err
    assert "hint: " in done.err
    assert set(answers(path).values()) == {None}


# ---- answering -------------------------------------------------------------------------------------------------------


def test_approving_once(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1"))
    done = dragoman("approvals", "approve", "apr_aa")
    assert (done.code, done.err) == (0, "")
    approved, command, options = done.out.splitlines()
    assert approved == f"approved apr_aaaa (bash)  {'aaaa':0<64}"
    assert command == "resume with: dragoman run --resume run_1"
    assert "--tools and --base-url" in options, "the journal has neither"
    assert answers(path) == {"apr_aaaa": Approval(True, by="the user")}
    (record,) = audited(path)
    kept = {name: record[name] for name in record if name not in ("n", "at", "prev", "hash")}
    assert kept == {
        "kind": "approval_given",
        "run": "run_1",
        "call": "c1",
        "request": "apr_aaaa",
        "tool": "bash",
        "digest": f"{'aaaa':0<64}",
        "by": "the user",
        "user": user_name(),
        "verdict": "approved",
    }


def test_approving_as_a_rule(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1", suggestion="bash(make aaaa)"), parked("bbbb", "c2"))
    done = dragoman("approvals", "approve", "apr_aaaa", "--always", "--by", "Ada")
    assert "  bash(make aaaa) is allowed for the rest of this run\nrun_1 still waits for: apr_bbbb\n" in done.out
    assert dragoman("approvals", "approve", "apr_bbbb", "--rule", "bash(make *)").code == 0
    assert answers(path) == {
        "apr_aaaa": Approval(True, by="Ada", rule="bash(make aaaa)"),
        "apr_bbbb": Approval(True, by="the user", rule="bash(make *)"),
    }
    assert [(each["by"], each["rule"]) for each in audited(path)] == [
        ("Ada", "bash(make aaaa)"),
        ("the user", "bash(make *)"),
    ]


@pytest.mark.parametrize("from_file", [False, True], ids=["words", "file"])
def test_approving_with_other_arguments(dragoman, ask: Ask, write, from_file: bool) -> None:
    path = ask("run_1", parked("aaaa", "c1"))
    text = '{"command": "make -n", "times": 2}'
    given = "@" + write("arguments.json", text) if from_file else text
    assert dragoman("approvals", "approve", "apr_aaaa", "--arguments", given).code == 0
    assert answers(path)["apr_aaaa"] == Approval(True, arguments={"command": "make -n", "times": 2}, by="the user")
    assert audited(path)[0]["arguments"].startswith("sha256:")


def test_denying_with_a_reason(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1"), parked("bbbb", "c2"))
    done = dragoman("approvals", "deny", "apr_aaaa", "apr_bbbb", "apr_aaaa", "--reason", "use the test account")
    assert done.code == 0
    assert [line.split()[:2] for line in done.out.splitlines()[:2]] == [["denied", "apr_aaaa"], ["denied", "apr_bbbb"]]
    assert set(answers(path).values()) == {Approval(False, "use the test account", by="the user")}
    assert [each["verdict"] for each in audited(path)] == ["denied", "denied"]


def test_giving_the_result(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1"), parked("bbbb", "c2"))
    assert dragoman("approvals", "answer", "apr_aaaa", "it is 7").code == 0
    assert dragoman("approvals", "answer", "apr_bbbb", "-", stdin=b"two\nlines").code == 0
    results = {name: given and given.result for name, given in answers(path).items()}
    assert results == {"apr_aaaa": "it is 7", "apr_bbbb": "two\nlines"}
    assert [each["verdict"] for each in audited(path)] == ["answered", "answered"]
    assert "it is 7" not in Path(path).with_name("audit.jsonl").read_text()


def test_everything_of_a_run_with_every_digest_told_before(dragoman, ask: Ask) -> None:
    ask("run_1", parked("aaaa", "c1"), parked("bbbb", "c2"), parked("late", "c3", expires=time.time() - 1))
    path = ask("run_2", parked("cccc", "c1"))
    done = dragoman("approvals", "approve", "--all", "--run", "run_1", "--yes", "--json")
    assert done.code == 0
    for name in ("aaaa", "bbbb"):
        assert f"\n  {name:0<64}\n" in done.err
    assert "cccc" not in done.err and "late" not in done.err
    assert [(each["id"], each["verdict"], each["waiting"]) for each in done.data] == [
        ("apr_aaaa", "approved", []),
        ("apr_bbbb", "approved", []),
    ]
    assert {name for name, given in answers(path).items() if given} == {"apr_aaaa", "apr_bbbb"}


def test_the_rules_that_would_be_kept_are_told_before(dragoman, ask: Ask) -> None:
    ask("run_1", parked("aaaa", "c1", suggestion="bash(git push*)"))
    told = dragoman("approvals", "approve", "--all", "--always")
    assert "standard input is not a terminal" in told.err and "from now on: bash(git push*)" in told.err


@pytest.mark.parametrize(("typed", "answered"), [("y\n", True), ("n\n", False), ("", False)])
def test_everything_is_asked_about_at_a_terminal(dragoman, ask: Ask, monkeypatch, typed: str, answered: bool) -> None:
    path = ask("run_1", parked("aaaa", "c1"))
    monkeypatch.setattr("dragoman.cli.approvals._read_line", lambda: typed)
    done = dragoman("approvals", "deny", "--all", stdin=None)
    assert (done.code == 0) == answered
    assert (answers(path)["apr_aaaa"] is not None) == answered


# ---- answers that come too late (fault 49) ---------------------------------------------------------------------------


def ignored(path: str) -> list[tuple[str, str]]:
    return [(each["request"], each["reason"]) for each in audited(path) if each["kind"] == "approval_ignored"]


def test_an_answer_that_comes_too_late_is_refused_and_recorded(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1", expires=time.time() - 1), parked("bbbb", "c2"))
    done = dragoman("approvals", "approve", "apr_aaaa", "apr_bbbb")
    assert done.code == 1
    assert "error: apr_aaaa has expired\nhint: a run of a worker soon asks again; resume" in done.err
    assert done.out.startswith("approved apr_bbbb"), "the other one is answered all the same"
    assert answers(path)["apr_aaaa"] is None
    assert ignored(path) == [("apr_aaaa", "apr_aaaa has expired")]


def test_a_second_answer_is_refused_and_recorded(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1"))
    dragoman("approvals", "deny", "apr_aaaa")
    done = dragoman("approvals", "approve", "apr_aaaa", "--json")
    assert (done.code, done.data[0]["verdict"]) == (1, "refused")
    assert "error: the user has already denied apr_aaaa" in done.err
    assert answers(path)["apr_aaaa"] == Approval(False, by="the user")
    assert ignored(path) == [("apr_aaaa", "the user has already denied apr_aaaa")]


def test_a_run_that_is_held_by_another_process(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1"))

    with SqliteJournal(path) as holder:
        token = asyncio.run(holder.claim("run_1", "somebody"))
        done = dragoman("approvals", "approve", "apr_aaaa")
        assert done.code == 1
        assert "run_1" in done.err and "hint: " in done.err
        assert [name for name, _ in ignored(path)] == ["apr_aaaa"]
        asyncio.run(holder.release("run_1", token=token))
    assert dragoman("approvals", "approve", "apr_aaaa").code == 0


def test_a_run_that_has_gone_on(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1"))

    async def go_on() -> None:
        with SqliteJournal(path) as journal:
            token = await journal.claim("run_1", "somebody")
            await journal.append("run_1", [Entry("denied", b"{}", "c1")], token=token)
            await journal.release("run_1", token=token)

    asyncio.run(go_on())
    done = dragoman("approvals", "approve", "apr_aaaa")
    assert (done.code, "there is no open request 'apr_aaaa'" in done.err) == (2, True)


def test_two_people_at_once(ask: Ask) -> None:
    """Exactly one of them is first."""
    path = ask("run_1", parked("aaaa", "c1"))

    async def answer(approval: Approval) -> bool:
        from dragoman.errors import DragomanError

        try:
            with SqliteJournal(path) as journal:
                await answer_request(journal, "apr_aaaa", approval, now=time.time(), by="somebody")
        except DragomanError:
            return False
        return True

    async def both() -> list[bool]:
        return await asyncio.gather(answer(Approval(True)), answer(Approval(False)))

    assert sorted(asyncio.run(both())) == [False, True]


def test_a_log_that_cannot_be_written_is_told(dragoman, ask: Ask) -> None:
    path = ask("run_1", parked("aaaa", "c1"))
    Path(path).with_name("audit.jsonl").mkdir()
    done = dragoman("approvals", "approve", "apr_aaaa")
    assert done.code == 1
    assert "error: the audit log has no record of apr_aaaa" in done.err


# ---- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "in 0 s"),
        (59.9, "in 59 s"),
        (60, "in 1 min"),
        (23.5 * HOUR, "in 23 h"),
        (24 * HOUR, "in 1 day"),
        (49 * HOUR, "in 2 days"),
        (-1, "1 s ago"),
        (-3 * HOUR, "3 h ago"),
    ],
)
def test_spans_of_time(seconds: float, words: str) -> None:
    assert format_span(seconds) == words


def test_the_user_is_the_one_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = user_name()
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert user_name() == expected != "somebody-else"


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["approve", "--help"], ["deny", "--help"], ["answer", "--help"]], ids=" ".join
)
def test_the_help_teaches(dragoman, words: list[str]) -> None:
    done = dragoman("approvals", *words)
    assert done.code == 0
    assert ("--journal" in done.out) == (words not in ([], ["--help"]))
    if words in ([], ["--help"]):
        assert "dragoman run --resume" in done.out
