"""Fault 44: a run of three tools is killed at every write of its journal, and resumed in a new process.

No call is lost, nothing that must not be repeated happens twice, ids pair up, the conversation is valid on every wire.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.journal import crash_program
from tests.wire.rules import WIRES, violations

import dragoman
from dragoman.agent.records import Ended, decode
from dragoman.agent.turn import UNKNOWN_OUTCOME
from dragoman.journal import Record, order_faults
from dragoman.types import Message, Request, ToolCall, ToolResult

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that can be forked and killed")

CALLS = ["call_look", "call_note", "call_send"]
LINES = {"call_note": "noted", "call_send": "sent"}
ANSWERS = {"call_look": "a desk", "call_note": "written", "call_send": "on its way"}


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def read_run(case: Path, database: str) -> list[Record]:
    with crash_program.open_store(case, database) as journal:
        return asyncio.run(journal.read(case.name))


def check_journal(records: list[Record]) -> None:
    """Check the guaranteed order of records, over all processes of the run."""
    assert order_faults(records) == []
    assert records[-1].kind == "ended"
    finished = [record.call_id for record in records if record.kind == "finished"]
    assert sorted(finished) == CALLS, "every call has exactly one end"
    delivered = [call for record in records if record.kind == "delivered" for call in record.calls]
    assert sorted(delivered) == CALLS


def check_effects(case: Path, results: dict[str, ToolResult]) -> list[str]:
    """Check that no effect happened twice, and each reported one happened. Return the calls with an unknown outcome."""
    effects = lines(case / "effects")
    unknown = []
    for call_id, line in LINES.items():
        assert effects.count(line) <= 1, f"{line} happened twice"
        if results[call_id].content == UNKNOWN_OUTCOME:
            assert results[call_id].is_error
            unknown.append(call_id)
        else:
            assert results[call_id].content == ANSWERS[call_id]
            assert effects.count(line) == 1, f"{line} is reported and never happened"
    assert results["call_look"].content == ANSWERS["call_look"], "what may be repeated is repeated"
    assert lines(case / "looks")
    return unknown


def check_conversation(messages: list[Message]) -> dict[str, ToolResult]:
    """Check that each call occurs once, with one result, in order."""
    parts = [part for message in messages for part in message.parts]
    assert [part.id for part in parts if isinstance(part, ToolCall)] == CALLS
    results = [part for part in parts if isinstance(part, ToolResult)]
    assert [result.call_id for result in results] == CALLS
    assert messages[-1].role == "assistant"
    assert messages[-1].text == "Done."
    return {result.call_id: result for result in results}


@cache
def check_wires(conversation: bytes) -> None:
    """Check that each wire accepts the conversation, with rules that do not depend on our encoders."""
    messages = decode(conversation, list[Message])
    tools = [{"name": name, "description": name, "schema": {"type": "object"}} for name in ("look", "note", "send")]
    again = [*messages, Message("user", [dragoman.types.Text("Go on.")])]
    for name in WIRES:
        body = dragoman.wire.get(name).encode_request(
            Request("some-model", again, [dragoman.toolset.as_tool(tool) for tool in tools])
        )
        assert violations(name, body) == []


def check_case(case: Path, database: str) -> list[str]:
    records = read_run(case, database)
    check_journal(records)
    ended: Ended = decode(records[-1].body, Ended)
    assert ended.kind == "answered"
    results = check_conversation(ended.messages)
    check_wires(dragoman.agent.records.encode(ended.messages))
    return check_effects(case, results)


@pytest.mark.parametrize(
    ("store", "moment"),
    [
        ("sqlite", "after"),
        ("postgres", "before"),
        pytest.param("sqlite", "before", marks=pytest.mark.full),
        pytest.param("postgres", "after", marks=pytest.mark.full),
    ],
)
def test_a_kill_at_every_write(
    tmp_path: Path, root: Path, moment: str, store: str, request: pytest.FixtureRequest
) -> None:
    program = Path(crash_program.__file__)
    database = [request.getfixturevalue("postgres").new_database()] if store == "postgres" else []
    # What happens after a second kill does not depend on the store.
    stride = "0" if database else "9"
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), moment, stride, *database],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"},
    )
    assert done.returncode == 0, done.stderr
    cases = {told["case"]: told["killed"] for told in map(json.loads, done.stdout.splitlines())}
    single = {name: killed for name, killed in cases.items() if name.count("-") == 1}
    # begin, 3 starts (one with its reply), 3 ends, a reply before an approval, the approval, the end with the last
    # reply, and the release: all of them were hit, and one more.
    assert list(single.values()) == [True] * 11 + [False]
    unknown = {name: check_case(tmp_path / name, *database or [""]) for name in cases}
    # Only a kill between the start of a call and its end leaves the outcome open: one write per effect.
    assert sorted(call for name in single for call in unknown[name]) == sorted(LINES)
    for name in cases:
        asked = lines(tmp_path / name / "approvals")
        # An approval that is on record is not asked for again; one that was lost with its process is.
        assert 1 <= len(asked) <= name.count("-") + 1
