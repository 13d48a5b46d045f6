"""The first run of an agent in a process: its imports happen when the agent is created."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from dragoman import Agent, Safety, wire
from dragoman.agent import agent as agent_module
from dragoman.testing import ScriptedModel

PROGRAM = """
import asyncio, json, sys
import dragoman
from dragoman.client.transport import HttpResponse

FRAMES = json.loads(sys.argv[2])

class Reply:
    status, headers = 200, {"content-type": sys.argv[3], "content-length": "1"}
    def __init__(self, body): self._body = body
    async def pieces(self):
        yield self._body
    async def close(self): pass

class Replies:
    async def send(self, request, timeouts): return Reply(FRAMES.pop(0).encode())
    async def close(self): pass

@dragoman.tool
def weather(city: str) -> str:
    "The weather in a city."
    return "sunny"

settings = json.loads(sys.argv[1])
streams = settings.pop("streams", False)
connection = dragoman.Connection(transport=Replies())
place = {"base_url": "http://a.invalid/v1", "key": "k"}
agent = dragoman.Agent("custom:m", [weather], connection=connection, **place, **settings)
before = set(sys.modules)

async def main():
    if not streams:
        return await agent.arun("Is it warm in Paris?")
    run = agent.stream("Is it warm in Paris?")
    async for event in run:
        pass
    return run.outcome

result = asyncio.run(main())
print(json.dumps([result.text, len(result.results), sorted(set(sys.modules) - before)]))
"""
CALL = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
NATIVE = [{"tool_calls": [CALL]}, {"content": "Yes."}]
TEXT = [
    {"content": 'Sure.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'},
    {"content": "Yes."},
]


def whole(message: dict[str, object]) -> str:
    return json.dumps({"choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}]})


def streamed(message: dict[str, object]) -> str:
    calls = [{"index": 0, **each} for each in message.get("tool_calls", ())]  # type: ignore[attr-defined]
    delta = {**message, **({"tool_calls": calls} if calls else {})}
    frames = [
        {"choices": [{"index": 0, "delta": delta}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    return "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames) + "data: [DONE]\n\n"


@pytest.mark.parametrize("kind", ["native", "stream", "text", "journal"])
def test_the_first_run_imports_nothing(kind: str, tmp_path: Path) -> None:
    settings: dict[str, object] = {"streams": kind == "stream"}
    if kind == "text":
        settings["tool_mode"] = "text"
    if kind == "journal":
        settings["journal"] = str(tmp_path / "runs.db")
    messages = TEXT if kind == "text" else NATIVE
    bodies = [streamed(each) if kind == "stream" else whole(each) for each in messages]
    of_type = "text/event-stream" if kind == "stream" else "application/json"
    command = [sys.executable, "-c", PROGRAM, json.dumps(settings), json.dumps(bodies), of_type]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    text, results, imported = json.loads(ran.stdout)
    assert (text, results) == ("Yes.", 1)
    heavy = [name for name in imported if not name.startswith("encodings.")]
    assert heavy == [], "the event loop would have to wait for these"


def test_an_agent_without_a_transport_loads_the_http_client_when_it_is_created(tmp_path: Path) -> None:
    program = (
        "import sys, dragoman; dragoman.Agent('ollama:x'); print('dragoman.client.http.connection' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ran.stdout == "True\n"


def test_the_dry_run_works_on_every_wire_in_every_mode(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_module, "_dry_runs", set())
    caplog.set_level(logging.DEBUG, "dragoman.agent")
    for name in wire.names():
        for native in (True, False):
            for settings in ({}, {"text_calls": False}, {"safety": Safety(nonce=True)}):
                Agent(ScriptedModel([], wire=name, native=native), [print_place], **settings)  # type: ignore[arg-type]
    assert len(agent_module._dry_runs) >= 2 * len(wire.names()) - 1
    assert caplog.messages == []


def print_place(place: str) -> None:
    """Print a place."""
    raise AssertionError("a dry run calls no tool")
