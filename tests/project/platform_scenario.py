"""What dragoman does on an emulated platform, as JSON. `test_platforms.py` runs it: `platform_scenario.py windows`."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pkgutil
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

PROGRAMS = ("dragoman.__main__", "dragoman.sandbox.attempts", "dragoman.sandbox.enter")
"""Programs that another process runs. `sandbox` starts the last two, on Linux."""


def import_everything() -> str:
    import dragoman

    names = [each.name for each in pkgutil.walk_packages(dragoman.__path__, "dragoman.") if each.name not in PROGRAMS]
    for name in [*names, "dragoman.__main__"]:
        # Modules of the extras say which extra they need; what is missing here must not be a module of POSIX.
        import_module(name)
    for name in dragoman.__all__:
        getattr(dragoman, name)
    return f"{len(names) > 300}"


def parse() -> str:
    from dragoman import formats

    calls = formats.parse('<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>').calls
    return " ".join(f"{call.name} {call.arguments}" for call in calls)


def convert_wires() -> str:
    from dragoman import wire

    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    decoded = wire.get("openai_chat").decode_request(request)
    return str(wire.get("anthropic").encode_request(decoded)["messages"])


def run_agent(*tools: Any, replies: list[Any] | None = None, mode: str = "default") -> Any:
    import dragoman
    from dragoman.testing import ScriptedModel, call

    @dragoman.tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return f"sunny in {city}"

    script = replies or [call("weather", city="Paris"), "Sunny."]
    safety = dragoman.Safety(audit="audit.jsonl")
    agent = dragoman.Agent(
        ScriptedModel(script), tools=[weather, *tools], journal="journal.db", safety=safety, mode=mode
    )
    return agent.run("Go.")


def result_of(tool: str, **arguments: Any) -> str:
    from dragoman import builtin
    from dragoman.testing import call

    found = getattr(builtin, builtin.NAMES[tool])
    result = run_agent(found, replies=[call(tool, **arguments), "Done."], mode="bypass")
    return next(part.content for message in result.messages if message.role == "tool" for part in message.parts)


def ask_over_http() -> str:
    import dragoman
    from dragoman.testing import Upstream

    with Upstream(["Hello."]) as upstream:
        return dragoman.ask("llamacpp:m", "Hi", base_url=upstream.url).text


def attach() -> str:
    import dragoman

    Path("note.txt").write_text("a note", encoding="utf-8")
    return dragoman.attach("note.txt").text  # type: ignore[union-attr]


def toolbox(*names: str) -> str:
    from dragoman import builtin

    return " ".join(tool.name for tool in builtin.toolbox(names or None))


def probe_sandbox() -> str:
    from dragoman import sandbox

    found = sandbox.find_sandbox()
    assert found.tier == "none"
    return str(sandbox.probe(found))


def handle_signals_of_the_gateway() -> str:
    from dragoman.server.process import handle_signals

    stops: list[bool] = []

    class Server:
        def stop(self, *, at_once: bool = False) -> None:
            stops.append(at_once)

    async def serve() -> None:
        handle_signals(Server(), None)  # type: ignore[arg-type]
        for _ in range(2):
            signal.raise_signal(signal.SIGTERM)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    previous = signal.getsignal(signal.SIGTERM)
    asyncio.run(serve())
    signal.signal(signal.SIGTERM, previous)
    return str(stops)


def command(*words: str) -> str:
    from dragoman.cli.app import run

    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = run(words)
    return f"{code}: {out.getvalue()}{errors.getvalue()}"


def run_command() -> str:
    from dragoman.testing import Upstream

    with Upstream(["Hello."]) as upstream:
        return command("run", "Hi", "-m", "llamacpp:m", "--base-url", upstream.url)


def run_batch() -> str:
    from dragoman.testing import Upstream

    Path("tasks.jsonl").write_text('"one"\n', encoding="utf-8")
    with Upstream(["Done."]) as upstream:
        said = command("batch", "tasks.jsonl", "-O", "results.jsonl", "-m", "llamacpp:m", "--base-url", upstream.url)
    return said[:2] + Path("results.jsonl").read_text(encoding="utf-8")


def serve_by_many() -> str:
    # Where processes can be forked, this would start them.
    return "" if hasattr(os, "fork") else command("serve", "--to", "http://127.0.0.1:1", "--workers", "2")


SCENARIO: dict[str, Callable[[], str]] = {
    "imports": import_everything,
    "parse": parse,
    "wires": convert_wires,
    "agent": lambda: str(run_agent().text),
    "ask": ask_over_http,
    "attach": attach,
    "all tools": toolbox,
    "named tools": lambda: toolbox("read", "finish"),
    "read": lambda: result_of("read", path="note.txt"),
    "bash": lambda: result_of("bash", command="echo ran"),
    "sandbox": probe_sandbox,
    "signals": handle_signals_of_the_gateway,
    "version": lambda: command("--version"),
    "run": run_command,
    "batch": run_batch,
    "sessions": lambda: command("sessions", "list"),
    "audit": lambda: command("audit", "verify", "audit.jsonl"),
    "doctor": lambda: command("doctor", "--sandbox"),
    "launch": lambda: command("launch", "--to", "http://127.0.0.1:1", "no-such-program"),
    "workers": serve_by_many,
}


def outcome(step: Callable[[], str]) -> str:
    try:
        return step()
    except Exception as error:
        return f"{type(error).__name__}: {error} | {getattr(error, 'next_step', '')}"


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.emulated_platform import become_macos, become_windows

    home = os.getcwd()
    os.environ |= {"HOME": home, "USERPROFILE": home, "APPDATA": home, "LOCALAPPDATA": home, "DRAGOMAN_FACTS": "off"}
    {"windows": become_windows, "macos": become_macos}[sys.argv[1]]()
    print(json.dumps({name: outcome(step) for name, step in SCENARIO.items()}))


if __name__ == "__main__":
    main()
