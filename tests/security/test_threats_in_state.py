"""Threats 22 and 23: what is read back from the journal, and what comes with the package."""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.security.attacks import arun_agent

import dragoman
from dragoman.agent import Agent, Approval, Connection, Safety
from dragoman.agent.approvals import answer_request, list_requests
from dragoman.errors import DragomanError
from dragoman.journal import SqliteJournal
from dragoman.testing import ScriptedModel, call

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))

# ---- 22 --------------------------------------------------------------------------------------------------------------

LIVING = {
    "lc": 1,
    "type": "constructor",
    "id": ["antigravity", "Anything"],
    "kwargs": {"x": 1},
    "__class__": "antigravity.Anything",
    "__reduce__": ["os.system", ["touch PWNED"]],
    "py/object": "antigravity.Anything",
    "$type": "System.Diagnostics.Process",
    "!!python/object/apply:os.system": ["touch PWNED"],
    "{{7*7}}": "${7*7} #{7*7} %(x)s {0.__class__}",
}
"""What some reader of stored state takes for the name of a class, a call or a template."""
NAMES = (
    "'; DROP TABLE runs; --",
    "x' OR '1'='1",
    '" UNION SELECT * FROM records --',
    "%",
    "_",
    "*",
    "../../etc/passwd",
    "a\x00b",
    "\u202e\x1b[2J",
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with SqliteJournal(tmp_path / "journal.db") as made:
        yield made


def test_threat_22_what_looks_like_a_class_in_the_journal_stays_data(journal: SqliteJournal) -> None:
    got: list[Any] = []

    @dragoman.tool(requires_approval=True)
    def keep(value: dict[str, Any]) -> dict[str, Any]:
        """Keeps."""
        got.append(value)
        return value

    def agent() -> Agent:
        model = ScriptedModel(
            lambda request: "Done." if request.messages[-1].role == "tool" else call("keep", value=LIVING), loop=True
        )
        return Agent(
            model.endpoint(),
            [keep],
            connection=Connection(transport=model),
            journal=journal,
            safety=Safety(defer_approvals=True),
        )

    async def scenario() -> Any:
        parked = await agent().arun("Keep it.", run_id="run_1", session="s")
        assert parked.outcome.kind == "awaiting_approval"
        (request,) = await list_requests(journal)
        assert request.call.arguments == {"value": LIVING}
        await answer_request(journal, request.id, Approval(True), now=request.asked)
        return await agent().aresume("run_1")

    result = asyncio.run(scenario())
    assert got == [LIVING] and result.outcome.kind == "answered"
    assert "antigravity" not in sys.modules
    assert "49" not in str(result.results[0].content)


def test_threat_22_the_name_of_a_session_is_a_name_and_nothing_else(journal: SqliteJournal) -> None:
    async def scenario() -> None:
        await arun_agent(["mine"], journal=journal, session="kept")
        for name in NAMES:
            try:
                outcome = await arun_agent(["theirs"], journal=journal, session=name)
            except DragomanError:
                continue  # refused with a reason is as good
            assert [run.run_id for run in await journal.runs(name)] == [outcome.result.run_id], name
            await journal.delete(name)
        assert [run.session for run in await journal.runs()] == ["kept"]

    asyncio.run(scenario())


def test_threat_22_a_record_that_somebody_changed_is_noticed_and_nothing_runs(tmp_path: Path) -> None:
    ran: list[str] = []

    @dragoman.tool(requires_approval=True)
    def deploy(where: str) -> str:
        """Deploy."""
        ran.append(where)
        return "deployed"

    def agent() -> Agent:
        model = ScriptedModel([call("deploy", where="staging"), "Done."])
        return Agent(
            model.endpoint(),
            [deploy],
            connection=Connection(transport=model),
            journal=tmp_path / "journal.db",
            safety=Safety(defer_approvals=True),
        )

    first = agent()
    run_id = first.run("Deploy.").run_id
    first.close()
    with sqlite3.connect(tmp_path / "journal.db") as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for (guard,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {guard}")
        changed = 0
        for table in tables:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            if "body" in columns:
                forged = "CAST(replace(CAST(body AS TEXT), 'staging', 'mallory') AS BLOB)"
                query = f"UPDATE {table} SET body = {forged} WHERE instr(CAST(body AS TEXT), 'staging') > 0"
                changed += database.execute(query).rowcount
    database.close()
    assert changed > 0
    second = agent()
    try:
        with pytest.raises(DragomanError):
            second.resume(run_id, approve=lambda request: True)
    finally:
        second.close()
    assert ran == []


def test_threat_22_nothing_in_the_source_turns_stored_text_into_code() -> None:
    loader = r"^\s*(?:import|from) (?:pickle|marshal|shelve|dill|yaml|jsonpickle|cloudpickle)\b"
    banned = re.compile(rf"{loader}|(?<![\w.])(?:eval|exec)\(", re.MULTILINE)
    found = {path.name for path in SOURCES if banned.search(path.read_text(encoding="utf-8"))}
    # The launcher of the sandbox is told by its own parent, in memory, what to close off; nothing of that is stored.
    assert found == {"landlock.py", "enter.py"}


# ---- 23 --------------------------------------------------------------------------------------------------------------


def test_threat_23_the_core_needs_three_packages_and_no_more() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[^A-Za-z0-9_.-]", line)[0] for line in project["dependencies"]}
    assert names == {"msgspec", "jsonschema-rs", "docstring-parser"}
    given = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    assert not [line for line in given if "@" in line or "git+" in line or "://" in line], "all come from the index"


def test_threat_23_the_wheel_holds_the_package_alone_and_nothing_that_runs_by_itself() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"] == {"packages": ["src/dragoman"]}, "no data outside the package, and no build hooks"
    inside = [path for path in (ROOT / "src" / "dragoman").rglob("*") if path.is_file()]
    kept = [path for path in inside if not any(part.startswith((".", "__pycache__")) for part in path.parts[-4:])]
    # Files for a browser, which Python never runs, are in folders of the server.
    server = ROOT / "src" / "dragoman" / "server"
    pages = [path for path in kept if path.parent.name == "static" and path.parents[2] == server]
    assert {path.suffix for path in pages} <= {".css", ".js", ".svg"}
    kinds = {path.suffix for path in kept if path not in pages}
    assert kinds <= {".py", ".typed", ".toml", ".json", ".gz", ".md", ".txt"}, "no .pth, nothing compiled"
    assert not [path for path in SOURCES if path.name in ("sitecustomize.py", "usercustomize.py")]


WATCH = """
import sys
seen = []
quiet = ("socket.", "subprocess.", "os.system", "os.exec", "os.posix_spawn", "os.fork", "urllib.", "http.", "shutil.",
         "os.remove", "os.rename", "os.mkdir", "sqlite3.connect", "ftplib.", "smtplib.")
def watch(event, arguments):
    if event.startswith(quiet):
        seen.append(event)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        seen.append(f"open {arguments[0]}")
sys.addaudithook(watch)
import importlib, pkgutil, dragoman
count = 0
for found in pkgutil.walk_packages(dragoman.__path__, "dragoman."):
    if found.name.rpartition(".")[2] != "__main__":
        try:
            importlib.import_module(found.name)
            count += 1
        except ImportError as problem:
            assert problem.name and not problem.name.startswith("dragoman"), problem
print(count, *seen)
"""


def test_threat_23_importing_all_of_it_opens_no_connection_starts_nothing_and_writes_nothing() -> None:
    command = [sys.executable, "-B", "-W", "ignore", "-c", WATCH]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, *seen = done.stdout.split(maxsplit=1)
    assert int(count) == len(SOURCES) - 2, "every module but the package itself and `__main__`"
    assert seen == []
