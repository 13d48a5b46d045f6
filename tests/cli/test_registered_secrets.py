"""Secrets that were registered with an agent, in what other processes show of its runs."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from tests.cli.conftest import Command

import dragoman as library
from dragoman.agent import Connection, Safety
from dragoman.agent.agent import Agent
from dragoman.agent.approvals import find_request, list_requests
from dragoman.agent.records import decode, encode, hide_noted, note_secrets
from dragoman.journal import SqliteJournal
from dragoman.secrets import HumanSink
from dragoman.testing import ScriptedModel, call, calls

# None of them has a form that a rule knows.
SECRETS = {"plain": "maple quartz lantern", "odd": 'say "friend" \\ enter\n& go', "umlaut": "größer als alles"}
FORMS = [form for value in SECRETS.values() for form in (value, base64.b64encode(value.encode()).decode())]


@library.tool
async def look(place: str) -> str:
    """Look at a place."""
    return f"{place}: empty"


@library.tool(requires_approval=True)
async def burn(what: str) -> str:
    """Burn something."""
    return "ashes"


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run that ended and a run that waits for an approval, with the secrets in every text."""
    path = tmp_path_factory.mktemp("journal") / "journal.db"
    everything = " ; ".join(FORMS)

    async def scene() -> None:
        with SqliteJournal(path) as store:
            replies = [
                calls(call("look", place=everything), say=f"I look: {everything}"),
                f"Done: {everything}",
                calls(call("burn", what=everything), call("fly", to=everything), say=everything),
            ]
            model = ScriptedModel(replies)
            agent = Agent(
                model.endpoint(),
                [look, burn],
                journal=store,
                connection=Connection(transport=model),
                safety=Safety(secrets=SECRETS, defer_approvals=True),
            )
            await agent.arun(f"Look at {everything}", session="trip", run_id="run-1")
            waiting = await agent.arun(f"Burn {everything}", session="trip", run_id="run-2")
            assert waiting.outcome.kind == "awaiting_approval"

    asyncio.run(scene())
    return str(path)


def request_id(path: str) -> str:
    async def work() -> str:
        with SqliteJournal(path) as store:
            (request,) = await list_requests(store)
            return request.id

    return asyncio.run(work())


@pytest.mark.parametrize(
    "arguments",
    [
        ("approvals", "list"),
        ("approvals", "list", "--json"),
        ("approvals", "show", "ID"),
        ("approvals", "show", "ID", "--json"),
        ("sessions", "list"),
        ("sessions", "list", "--json"),
        ("sessions", "show", "trip"),
        ("sessions", "show", "trip", "--json"),
    ],
    ids=" ".join,
)
def test_no_registered_secret_is_shown(
    arguments: tuple[str, ...], dragoman: Command, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    words = [request_id(journal) if word == "ID" else word for word in arguments]
    done = dragoman(*words, "--journal", journal)
    assert done.code == 0, done.err
    shown = "".join((done.out + done.err).replace("\\n", " ").replace('\\"', '"').replace("\\\\", "\\").split())
    for form in FORMS:
        assert "".join(form.split()) not in shown, form
    for part in ("quartz", "friend", "größer"):
        assert part not in done.out
    assert "[redacted:" in done.out or "list" in arguments


def test_the_run_itself_keeps_them(journal: str) -> None:
    async def work() -> None:
        with SqliteJournal(journal) as store:
            (request,) = await list_requests(store)
            assert SECRETS["plain"] in request.call.arguments["what"]
            shown = await find_request(store, request.id, shown=True)
            assert shown.hidden == ("what",)
            assert (shown.digest, shown.id, shown.run_id) == (request.digest, request.id, request.run_id)
            assert SECRETS["plain"] not in repr(shown)

    asyncio.run(work())


def test_the_places_in_a_record_do_not_change_its_value() -> None:
    sink = HumanSink(SECRETS)
    for value in ({"a": SECRETS["odd"], "b": [SECRETS["umlaut"]]}, {"lone": "\ud800 " + SECRETS["plain"]}):
        body = encode(value)
        noted = note_secrets(body, sink)
        assert noted != body
        assert {name: each for name, each in decode(noted, dict).items() if name != "redactions"} == value
        shown = str(decode(hide_noted(noted), dict))
        assert not any(secret in shown for secret in SECRETS.values()) and "[redacted:" in shown
    assert note_secrets(b"{}", sink) == b"{}" == hide_noted(b"{}")
    forged = encode({"text": ',"redactions":[[0,5,"x"]]}'})
    assert hide_noted(forged) == forged
