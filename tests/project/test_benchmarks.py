"""The benchmarks of the wires and of the start run to their end; what they find is for their reader to judge."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.support import conversations, streams
from benchmarks.support.comparison import WIRES as COMPARED

from dragoman import wire
from dragoman.replies import fold
from dragoman.stage import collect

ROOT = Path(__file__).resolve().parents[2]


def test_it_measures_the_wires_that_are_asked_for(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = [sys.executable, ROOT / "benchmarks" / "wires.py", "--without-litellm", "--passes", "1", "--rounds", "1"]
    done = subprocess.run(
        [*command, "--only", "ollama", "--only", "anthropic", "--json", figures],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(figures.read_text(encoding="utf-8"))["wires"]
    assert [row["wire"] for row in rows] == ["anthropic", "ollama"]
    assert all(cost > 0 for row in rows for cost in row.values() if isinstance(cost, float))


def test_it_measures_the_command_until_its_first_request(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "benchmarks" / "startup.py", "--rounds", "1", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    costs = {row["command"]: row["cpu_ms"] for row in json.loads(done.stdout)["rows"]}
    assert list(costs) == ["python -c pass", "import typer", "dragoman --version", "dragoman run, first request"]
    assert all(cost > 0 for cost in costs.values())


def test_it_knows_the_wires_that_it_compares() -> None:
    # LiteLLM need not have every wire; those that it does not have are measured alone.
    assert set(COMPARED) <= set(wire.names()) - {"openai_chat"}


@pytest.mark.parametrize("name", wire.names())
def test_its_streams_are_read_whole(name: str) -> None:
    reply = fold(collect(wire.get(name).reply_stream(), streams.chunks(name, 100)))
    assert (reply.stop, reply.failure, [call.name for call in reply.calls]) == ("tool_calls", None, ["write_documents"])
    assert reply.calls[0].arguments["content"].startswith(" The tide")
    assert reply.text.startswith(" The tide")


@pytest.mark.parametrize("length", [2, 50])
@pytest.mark.parametrize("name", wire.names())
def test_its_conversations_are_carried_whole(name: str, length: int) -> None:
    request = conversations.conversation(length)
    decoded = wire.get(name).decode_request(wire.get(name).encode_request(request), model=request.model)
    assert (len(request.messages), len(decoded.tools)) == (length, conversations.TOOL_COUNT)
    assert sum(len(message.parts) for message in decoded.messages) == sum(len(each.parts) for each in request.messages)
