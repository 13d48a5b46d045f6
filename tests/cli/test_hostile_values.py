"""Values that paint, turn, hide or break lines, in every place where a person reads.

The commands are enumerated from the table of commands, and the events from the table of the view: a new one fails here
until it has a row.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cli.conftest import Command, Terminal

import dragoman as library
from dragoman.agent import Connection
from dragoman.agent import events as run_events
from dragoman.agent.agent import Agent
from dragoman.agent.approvals import ApprovalRequest
from dragoman.agent.records import Header, encode
from dragoman.agent.result import Outcome, RunResult
from dragoman.cli import screen
from dragoman.cli.app import COMMANDS, _NoticeHandler
from dragoman.cli.approval_prompt import TerminalApprover, make_ask_user
from dragoman.cli.render import ScreenView
from dragoman.cli.server_login import pins_file
from dragoman.client.retry import RequestRetried
from dragoman.errors import ConfigError
from dragoman.events import (
    CallBroken,
    CallRefused,
    CallStarted,
    PartReceived,
    RefusalDelta,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
)
from dragoman.journal import Entry, SqliteJournal
from dragoman.journal.audit import AuditLog
from dragoman.mcp import Pins
from dragoman.mcp.definitions import Pin, SeenDefinition
from dragoman.telemetry.log import _print_to_standard_error
from dragoman.testing import ScriptedModel, call, calls
from dragoman.types import Failure, File, InvalidCall, Message, Operand, Text, ToolCall, ToolResult

FORGED = "FORGED"
HOSTILE = {
    "escape sequence": "\x1b[2J\x1b]0;title\x07",
    "control": "a\b\b\x00\x7f\x0e",
    "c1": "\x9b31m\x90q\x9c\x84",
    "carriage return": f"x\r{FORGED}",
    "line feed": f"x\n{FORGED}",
    "line ends": f"x\u2028{FORGED}\u2029{FORGED}\x85{FORGED}\x0b{FORGED}\x0c{FORGED}\x1c{FORGED}\x1e{FORGED}",
    "question": f'y"\n  digest: 0\n{FORGED}  y = yes, n = no (a reason may follow): ',
    "bidi": "\u202ecod.exe\u202c\u202d\u200e\u200f\u061c",
    "isolates": "\u2066x\u2067y\u2068z\u2069",
    "zero width": "r\u200bm\u200c\u200d\u2060\ufeff\u00ad",
    "blank letters": "\u3164\u115f\u1160\uffa0\u2800\u17b4\u17b5\u180e\u034f",
    "tags": "\U000e0001\U000e0041\U000e007f",
    "selectors": "a\ufe0f\ufe00\U000e0100",
    "surrogates": "\ud800\udc00 \udfff",
    "others": "\ufff9\ue000\uffff\U0010ffff\U0001d173",
}
BLANK_LETTERS = set("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0") | {
    chr(code) for code in (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
}


def check(text: str, *, prose: bool = False) -> None:
    """What was printed has no invisible character but line feeds, and no line that a value began."""
    odd = {
        character
        for character in text
        if character != "\n"
        and (
            unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") or character in BLANK_LETTERS
        )
    }
    assert not odd, f"{odd} in {text!r}"
    if not prose:
        assert not [line for line in text.split("\n") if line.lstrip().startswith(FORGED)], text


@pytest.fixture(params=HOSTILE.values(), ids=list(HOSTILE))
def value(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, folder in (("HOME", ""), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DRAGOMAN_MODELS", str(tmp_path / "models"))
    for name in ("DRAGOMAN_CONFIG", "DRAGOMAN_MODEL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def hostile_request(value: str) -> ApprovalRequest:
    arguments = {"command": value, value: "name", "nested": {value: [value]}, "lines": f"first\n{value}\nlast"}
    operands = (
        Operand("path", value, "write", f"/real/{value}", inside=False, protected=True),
        Operand("command", value, "run"),
        Operand("url", f"https://h/{value}", "read", f"https://h/{value}", inside=False),
    )
    return ApprovalRequest(
        id="apr_aaaa",
        call=ToolCall("c1", f"tool{value}", arguments),
        why=f"because {value}",
        digest="a" * 64,
        asked=time.time() - 5,
        operands=operands,
        suggestion=f"bash({value})",
        arguments=arguments,
    )


def put_request(home: Path, value: str) -> None:
    async def work() -> None:
        path = home / "state" / "dragoman" / "journal.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        with SqliteJournal(path) as journal:
            header = Header(seed="s", messages=[Message("user", [Text(value)])], task=value)
            token = await journal.begin("run_1", "desk", encode(header))
            asked = Entry("asked", encode(hostile_request(value)), "c1")
            await journal.append("run_1", [Entry("reply", b"{}", calls=("c1",)), asked], token=token)
            await journal.release("run_1", token=token)

    asyncio.run(work())


def put_session(home: Path, value: str) -> None:
    """A run whose task, text, calls, results and outcome are hostile."""

    @library.tool
    async def look(place: str) -> str:
        """Look at a place."""
        return f"{place}: {value}"

    @library.tool(requires_approval=True)
    async def burn(what: str) -> str:
        """Burn something."""
        return "ashes"

    async def work() -> None:
        path = home / "state" / "dragoman" / "journal.db"
        path.parent.mkdir(parents=True, exist_ok=True)
        with SqliteJournal(path) as journal:
            plain = f"It says {value.encode('utf-8', 'replace').decode()}"
            model = ScriptedModel(
                [
                    calls(call("look", place=plain), call("burn", what=plain), call("fly", to=plain), say=plain),
                    f"End {plain}",
                ]
            )
            agent = Agent(model.endpoint(), [look, burn], journal=journal, connection=Connection(transport=model))
            await agent.arun(plain, session="trip", run_id="run-1")

    asyncio.run(work())


def put_pins(value: str) -> str:
    path = pins_file(os.environ)
    assert path is not None
    plain = value.encode("utf-8", "replace").decode()
    before = SeenDefinition("a" * 64, {"name": plain, "description": plain})
    with Pins(path)._changing() as kept:
        kept.pins[f"srv/{plain}"] = Pin("srv", plain, before, approved=True, pending=before)
        kept.pins["srv/other"] = Pin("srv", "other", before)
    return f"srv/{plain}"


def put_audit(home: Path, value: str) -> Path:
    path = home / "state" / "dragoman" / "audit.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    AuditLog(path).append("started", run="run_1", call="c1", tool=value, reason=value)
    with path.open("ab") as file:  # a line that somebody else wrote
        file.write(json.dumps({"n": 2, "kind": value, "run": value, "tool": value}).encode() + b"\n")
    return path


# ---- the commands: each is called with hostile arguments, and with hostile data where it shows some ------------------

Scene = Callable[[Command, Path, str], Iterator[Any]]


def _parse(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
    name = json.dumps(value)
    text = (
        f'{value} <tool_call>{{"name": {name}, "arguments": {{"a": {name}}}}}</tool_call> <tool_call>{{"name": {value}'
    )
    text += f"<think>{value}</think>"
    data = text.encode("utf-8", "surrogatepass")
    yield dragoman("parse", "--explain", "--loose", stdin=data)
    yield dragoman("parse", "--json", "--explain", stdin=data)
    yield dragoman("parse", "--format", value)
    yield dragoman("parse", value)


def _convert(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
    body = {"model": "m", "messages": [{"role": "user", "content": value}], value: 1, "logit_bias": {value: 1}}
    data = json.dumps(body).encode()
    for more in ([], ["--report"], ["--json"]):
        yield dragoman("convert", "--from", "openai", "--to", "anthropic", *more, stdin=data)
    yield dragoman("convert", "--from", value, "--to", "gemini", stdin=data)


def _config(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
    text = json.dumps(value.encode("utf-8", "replace").decode())
    config = home / "config" / "dragoman"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        f"model = {text.replace(chr(127), '')}\nallow = [{text.replace(chr(127), '')}]\n"
    )
    yield dragoman("config", "show")
    yield dragoman("config", "show", "--json")


def _approvals(name: str, *more: str) -> Scene:
    def scene(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
        put_request(home, value)
        yield dragoman("approvals", name, *more)
        yield dragoman("approvals", name, *more, "--json")
        yield dragoman("approvals", name, value, *more[1:])

    return scene


def _mcp(name: str) -> Scene:
    def scene(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
        key = put_pins(value)
        yield dragoman("approvals", "mcp", name, *([] if name == "list" else [key]))
        yield dragoman("approvals", "mcp", name, value)

    return scene


HOSTILE = """
import json, sys
value = json.loads(sys.argv[1])
row = {"name": value, "title": value, "uri": "x:" + value, "description": value, "arguments": [{"name": value}]}
tool = {"name": "good", "description": value, "inputSchema": {"type": "object"}}
results = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}, "prompts": {}}},
    "tools/list": {"tools": [tool, {**tool, "name": value}]},
    "resources/list": {"resources": [row]},
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "y:" + value, "mimeType": value}]},
    "prompts/list": {"prompts": [row]},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        result = results.get(asked["method"])
        answer = {"result": result} if result else {"error": {"code": -32601, "message": value}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
"""An MCP server that says the value wherever it can."""


def _servers(name: str) -> Scene:
    def scene(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
        plain = value.encode("utf-8", "replace").decode()
        said = json.dumps(plain)
        config = home / "config" / "dragoman"
        config.mkdir(parents=True)
        (config / "config.toml").write_text(
            f"[mcp.bad]\ncommand = {json.dumps([sys.executable, '-I', '-S', '-c', HOSTILE, said])}\n"
            f"[mcp.web]\nurl = 'http://127.0.0.1:1/'\n[mcp.{said.replace(chr(127), '')}]\nurl = 'x'\n"
        )
        end = {"add": ["https://example.org/"], "login": ["--yes"]}.get(name, [])
        yield dragoman("mcp", name, *([] if name == "list" else ["web" if "log" in name else "bad"]), *end)
        yield dragoman("mcp", name, *([] if name == "list" else [value]), *end)
        if name in ("list", "test"):
            yield dragoman("mcp", name, *(["bad"] if name == "test" else []), "--json")

    return scene


def _audit(name: str) -> Scene:
    def scene(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
        put_audit(home, value)
        yield dragoman("audit", name)
        yield dragoman("audit", name, "--json")
        yield dragoman("audit", name, value)

    return scene


def _sessions(name: str, *more: str) -> Scene:
    def scene(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
        put_session(home, value)
        yield dragoman("sessions", name, *more)
        yield dragoman("sessions", name, *([value, *more[1:]] if more else ["--journal", value]))

    return scene


def _logs(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
    put_session(home, value)
    yield dragoman("logs", "run-1")
    yield dragoman("logs", "run-1", "--json")
    yield dragoman("logs", value)


def _batch(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
    tasks = home / "tasks.jsonl"
    for line in (value, json.dumps({"id": value, "task": 1}), json.dumps([value])):
        tasks.write_bytes(line.encode("utf-8", "surrogatepass"))
        yield dragoman("batch", str(tasks), "-m", "local")
    yield dragoman("batch", value)


def _argument(*words: str, end: tuple[str, ...] = ()) -> Scene:
    """A command that shows no data of others: only its own arguments, in an error."""

    def scene(dragoman: Command, home: Path, value: str) -> Iterator[Any]:
        yield dragoman(*words, value, *end)
        yield dragoman(*words, f"--{value}")

    return scene


SCENES: dict[str, Scene] = {
    "chat": _argument("chat", "-m"),
    "convert": _convert,
    "demo": _argument("demo"),
    "doctor": _argument("doctor"),
    "formats": _argument("formats"),
    "keys": _argument("keys"),
    "launch": _argument("launch", "-m", "local"),
    **{f"mcp {name}": _servers(name) for name in ("add", "remove", "list", "test", "login", "logout")},
    "models": _argument("models"),
    "parse": _parse,
    "providers": _argument("providers"),
    "run": _argument("run", "go", "-m"),
    "prompts": _argument("prompts"),
    "scrub": _argument("scrub"),
    "serve keys add": _argument("serve", "keys", "add"),
    "serve keys list": _argument("serve", "keys", "list", "--keys"),
    "serve keys revoke": _argument("serve", "keys", "revoke"),
    "approvals keys add": _argument("approvals", "keys", "add"),
    "approvals keys list": _argument("approvals", "keys", "list", "--keys"),
    "approvals keys revoke": _argument("approvals", "keys", "revoke"),
    "approvals serve": _argument("approvals", "serve", "--port", "99999", "--keys"),
    "approvals list": _approvals("list"),
    "approvals show": _approvals("show", "apr_aaaa"),
    "approvals approve": _approvals("approve", "--all", "--yes", "--always"),
    "approvals deny": _approvals("deny", "apr_aaaa", "--reason", "\x1b[2J\u202e"),
    "approvals answer": _approvals("answer", "apr_aaaa", "\x1b[2J\u202e"),
    "approvals mcp list": _mcp("list"),
    "approvals mcp show": _mcp("show"),
    "approvals mcp approve": _mcp("approve"),
    "approvals mcp forget": _mcp("forget"),
    "batch": _batch,
    "cancel": _argument("cancel"),
    "logs": _logs,
    "status": _argument("status"),
    "submit": _argument("submit", "clerk"),
    "worker": _argument("worker"),
    "audit verify": _audit("verify"),
    "audit show": _audit("show"),
    "config show": _config,
    "config init": _argument("config", "init"),
    "config path": _argument("config", "path"),
    "sessions list": _sessions("list"),
    "sessions search": _sessions("search", "a"),
    "sessions show": _sessions("show", "trip"),
    "sessions fork": _sessions("fork", "trip", "new\u3164"),
    "sessions export": _sessions("export", "trip"),
    "sessions delete": _sessions("delete", "trip", "--yes"),
    "local list": _argument("local", "list"),
    "local add": _argument("local", "add"),
    "local remove": _argument("local", "remove"),
    "local path": _argument("local", "path"),
}
PROSE = {"parse", "sessions show"}
"""They print the text of the model or the task with its own line feeds, indented."""


def leaves(command: Any, path: tuple[str, ...]) -> Iterator[str]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield " ".join(path)
        return
    for name, each in inner.items():
        yield from leaves(each, (*path, name))


def test_every_command_has_a_scene() -> None:
    assert {name for row in COMMANDS for name in leaves(row.load(), (row.name,))} == set(SCENES)


@pytest.mark.parametrize("name", SCENES)
def test_a_command(name: str, dragoman: Command, home: Path, value: str) -> None:
    seen = 0
    for done in SCENES[name](dragoman, home, value):
        if name != "sessions export":  # in a pipe it is for programs
            check(done.out, prose=name in PROSE)
        check(done.err, prose=True)
        assert not any(line.startswith(FORGED) for line in done.err.split("\n")), "a line of a message is indented"
        seen += bool(done.out or done.err)
    assert seen


# ---- the view of a run -----------------------------------------------------------------------------------------------


def samples(value: str) -> dict[type, list[Any]]:
    made = ToolCall("c1", value, {"a": value, value: 1}, raw=value)
    broken = InvalidCall("c2", value, "unknown_tool", value)
    results = [ToolResult("c1", value), ToolResult("c1", f"error: {value}", is_error=True)]
    results.append(ToolResult("c1", [Text(value), File(name=value, media_type=value, data=b"x")]))
    failure = Failure("network", value)
    outcomes = [Outcome("answered"), Outcome("error", value), Outcome("awaiting_approval", value)]
    return {
        run_events.RunStarted: [run_events.RunStarted(value, value, value, resumed=True)],
        run_events.Asked: [run_events.Asked(1, value)],
        RequestRetried: [RequestRetried(1, 1.0, failure)],
        TextDelta: [TextDelta(value)],
        RefusalDelta: [RefusalDelta(value)],
        ThinkingDelta: [ThinkingDelta(value)],
        CallStarted: [CallStarted(0, value, "c1")],
        CallBroken: [CallBroken(value, value, (0, 1), value, value)],
        CallRefused: [CallRefused(made, value)],
        PartReceived: [PartReceived(File(name=value, media_type=value, data=b"x"))],
        ReplyEnded: [ReplyEnded("stop")],
        run_events.ApprovalNeeded: [run_events.ApprovalNeeded(made, value)],
        run_events.ToolStarted: [run_events.ToolStarted(made)],
        run_events.ToolProgressed: [run_events.ToolProgressed("c1", value, value, 0.5)],
        run_events.ToolEnded: [run_events.ToolEnded(each, result) for each in (made, broken) for result in results],
        run_events.Noticed: [run_events.Noticed("kind", value)],
        run_events.RunEnded: [run_events.RunEnded(RunResult(each, text=value)) for each in outcomes],
    }


def make_terminal(monkeypatch: pytest.MonkeyPatch, width: int = 0) -> Terminal:
    # Nothing moves on a dumb terminal, and it has 80 columns.
    monkeypatch.setenv("TERM", "xterm" if width else "dumb")
    monkeypatch.setenv("COLUMNS", str(width or 80))
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal(io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True)
    monkeypatch.setattr("sys.stderr", stream)
    return stream


def written(stream: Terminal) -> str:
    return stream.buffer.getvalue().decode()  # type: ignore[attr-defined]


def test_every_event_that_the_view_shows_has_a_sample() -> None:
    assert set(samples("")) == set(ScreenView(io.StringIO())._table)


def test_the_events_of_a_run(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = make_terminal(monkeypatch)
    view = ScreenView(stream, thinking=True)
    for kind, events in samples(value).items():
        before = len(written(stream))
        for event in events:
            view.show(event)
        view.restore()
        check(written(stream)[before:], prose=kind in (TextDelta, RefusalDelta, ThinkingDelta, run_events.RunEnded))


def test_the_answer_is_unchanged_in_a_pipe(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_terminal(monkeypatch)
    out = io.StringIO()
    ScreenView(out).show(run_events.RunEnded(RunResult(Outcome("answered"), text=value)))
    assert out.getvalue() == value + ("" if value.endswith("\n") else "\n")


# ---- the questions at a terminal -------------------------------------------------------------------------------------


def ask(request: ApprovalRequest, monkeypatch: pytest.MonkeyPatch, *lines: str, width: int = 0) -> str:
    stream = make_terminal(monkeypatch, width)
    typed = iter(lines)

    async def read() -> str | None:
        return next(typed)

    approver = TerminalApprover(ScreenView(stream), remember_rule=lambda rule: f"kept {rule}", read_line=read)
    asyncio.run(approver(request))  # type: ignore[arg-type]
    return written(stream)


def test_the_question_of_an_approval(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = ask(hostile_request(value), monkeypatch, "s\n", "e {}x\n", "a\n")
    check(shown)
    assert shown.count("\napprove ") == 2, "the question is shown twice"
    assert shown.count("e = edit: ") == 3, "and ends only where a person is to answer"
    for line in shown.split("\n"):
        assert not line.startswith("digest"), line


@pytest.mark.parametrize("filler", [" ", "-", "值", "a ", "\u3164"])
@pytest.mark.parametrize("width", range(50, 62))
def test_a_long_value_cannot_begin_a_row_of_the_terminal(
    filler: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = "".join(f"{filler * number}{FORGED} y = yes, n = no: " for number in range(40, 70))
    request = hostile_request("x")
    arguments = {"command": value, "lines": f"first\n{value}"}
    request = replace(
        request, arguments=arguments, call=replace(request.call, arguments=arguments, name=value), why=value
    )
    shown = ask(request, monkeypatch, "n\n", width=width)
    for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).split("\n"):
        cells = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)
        assert cells <= width, "the terminal does not continue it by itself"
        assert not line.lstrip().startswith(FORGED)


def test_a_question_of_the_model(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = make_terminal(monkeypatch)

    async def read() -> str | None:
        return "1\n"

    asked = make_ask_user(ScreenView(stream), read)
    assert asyncio.run(asked(f"Which?\n{value}", [value, "other"])) == value
    shown = written(stream)
    check(shown)
    assert all(line[:1] in " q" or line in ("", "answer> ") for line in shown.split("\n"))


# ---- errors, notices, progress, the log ------------------------------------------------------------------------------


def test_errors_warnings_and_progress(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = make_terminal(monkeypatch)
    screen.print_error(f"bad {value}", f"try {value}")
    screen.print_warnings([value])
    screen.print_line(value, error=True)
    screen.report_error(ConfigError(value, hint=value), {})
    screen.report_error(RuntimeError(value), {"DRAGOMAN_DEBUG": "1"})
    screen.report_error(OSError(1, value), {})
    _print_to_standard_error(value)
    # Not through the logger: the report of a test would hold half a character, which a worker cannot send.
    _NoticeHandler().emit(logging.makeLogRecord({"msg": "%s", "args": (value,)}))
    monkeypatch.setattr(stream, "isatty", lambda: False)
    with screen.ProgressLine() as progress:
        progress(value, 1, 2)
    check(written(stream), prose=True)
    for line in written(stream).split("\n"):
        assert not line.startswith(FORGED), "a line of a message is indented"


def test_a_path_is_unchanged_in_a_pipe_only(value: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    screen.print_path(value.replace("\ud800", "").replace("\udc00", "").replace("\udfff", ""))
    assert capsys.readouterr().out.rstrip("\n").encode() in (value + "\n").encode("utf-8", "ignore")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    screen.print_path(value)
    check(capsys.readouterr().out)


def test_an_export_at_a_terminal(value: str, home: Path, dragoman: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    put_session(home, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    done = dragoman("sessions", "export", "trip")
    check(done.out)
    assert [json.loads(line) for line in done.out.splitlines()]
