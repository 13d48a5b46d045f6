"""One task of an agent program, against a scripted model that writes its calls as text."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from tests.clients.programs import Program, Run
from tests.clients.spellings import write_call
from tests.server.gateways import gateway_to

from dragoman.testing import ScriptedModel, Upstream
from dragoman.types import Request, Text, Tool, ToolResult

SECONDS = 120.0
MOST_REQUESTS = 12
"""A program that sends more is in a loop."""
ANSWER = "The file is there now."
_QUOTED = "The file is there 'now.'"
SHELLS = {"bash", "shell", "run_shell_command", "exec_command", "run_commands", "exec", "execute", "execute_bash"}
"""The names of the tools that run commands, in lower case."""
COMMANDS = ("command", "cmd", "commands", "input")
Way = Literal["gateway", "launch", "alone"]
"""Through a gateway, by `dragoman launch`, or directly at the model."""


class Outcome(Struct, frozen=True):
    """What came of a task."""

    code: int | None
    """The exit code, or None after the time limit."""
    made: bool
    """The file has the content that the model asked for."""
    output: str
    errors: str
    requests: int
    wires: tuple[str, ...]

    @property
    def fault(self) -> str:
        """Why the task counts as failed, or nothing."""
        said = (self.output + self.errors)[-400:]
        ended = "did not end" if self.code is None else f"ended with {self.code}"
        if not self.made:
            return f"the command did not run; the program {ended} after {self.requests} requests: {said!r}"
        if self.code != 0:
            return f"the program {ended} after {self.requests} requests: {said!r}"
        if ANSWER not in self.output:
            return f"the answer is missing: {said!r}"
        return f"the program sent {self.requests} requests" if self.requests > MOST_REQUESTS else ""

    @property
    def shows_markup(self) -> bool:
        """The user sees the text of the call."""
        return bool(re.search(r"</?(tool_call|function)\b|\"arguments\":", self.output + self.errors))


# ---- the model -------------------------------------------------------------------------------------------------------


def find_shell(request: Request) -> Tool | None:
    """Return the tool that runs commands."""
    return next((tool for tool in request.tools if tool.name.lower().rpartition("__")[2] in SHELLS), None)


def fill(tool: Tool, command: str) -> dict[str, Any]:
    """Return arguments for a tool that runs commands: the command, and what else the schema requires."""
    schema: dict[str, Any] = dict(tool.parameters)
    properties: dict[str, Any] = schema.get("properties") or {}
    key = next(name for name in COMMANDS if name in properties)
    filled: dict[str, Any] = {key: [command] if properties[key].get("type") == "array" else command}
    if key == "input":
        # A tool of Codex takes a program that calls the other tools.
        filled[key] = f"text(await tools.exec_command({json.dumps({'cmd': command})}));"
    others = {"boolean": False, "integer": 10, "number": 10, "array": [], "object": {}}
    for name in schema.get("required") or ():
        row = properties.get(name) or {}
        filled.setdefault(name, (row.get("enum") or [others.get(row.get("type"), "Make a file")])[0])
    return filled


def script_for(program: Program, spelling: str, secret: str) -> ScriptedModel:
    """A model that asks for a command until it has its result, and then answers."""

    def reply(request: Request) -> str:
        results = [part for message in request.messages for part in message.parts if isinstance(part, ToolResult)]
        tool = find_shell(request)
        if tool is None:
            return "A title"
        if not results:
            return write_call(spelling, tool.name, fill(tool, f"echo {secret} > made.txt && cat made.txt"))
        if not any(secret in _text_of(result) for result in results):
            return "It failed."
        if program.last_command:
            # Quoted, so that the output has the answer and the command has not.
            return write_call(spelling, tool.name, fill(tool, f"{program.last_command} {_QUOTED}"))
        return ANSWER

    return ScriptedModel(reply, loop=True, deltas=5)


def _text_of(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "".join(part.text for part in result.content if isinstance(part, Text))


# ---- the program -----------------------------------------------------------------------------------------------------


def do_task(
    program: Program, wire: str, spelling: str, way: Way, binaries: list[Path], scratch: Path, private: bool
) -> Outcome:
    """Let a program do its task in the empty folder `scratch`."""
    secret = secrets.token_hex(8)
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream(script_for(program, spelling, secret)))
        gateway = stack.enter_context(gateway_to(upstream.endpoint())) if way == "gateway" else None
        run = program.start(gateway.url if gateway else upstream.url.removesuffix("/v1"), wire)
        if way == "launch":
            launch = [sys.executable, "-m", "dragoman", "launch", "--to", upstream.url, program.name, *program.once]
            run = Run(launch)
        run = Run(run.command, {**program.quiet, **run.variables}, {**program.files, **run.files})
        code = _start(run, scratch, binaries, private)
        (scratch / "requests.json").write_bytes(msgspec.json.encode(upstream.bodies))
        wires = {str(report["wire"]) for report in gateway.reports} if gateway else set()
        made = scratch / "work/made.txt"
        return Outcome(
            code,
            made.exists() and made.read_text(encoding="utf-8").strip() == secret,
            (scratch / "output").read_text(encoding="utf-8", errors="replace"),
            (scratch / "errors").read_text(encoding="utf-8", errors="replace"),
            len(upstream.requests),
            tuple(sorted(wires)),
        )


def _start(run: Run, scratch: Path, binaries: list[Path], private: bool) -> int | None:
    """Run a program to its end or to the time limit. Nothing of its process group stays."""
    home, work = scratch / "home", scratch / "work"
    for folder in (home, work):
        folder.mkdir(parents=True)
    for place, content in run.files.items():
        path = scratch / place if place.startswith("work/") else home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    variables = {name: value.replace("$HOME", str(home)) for name, value in run.variables.items()}
    path_of_programs = os.pathsep.join([*map(str, binaries), os.environ.get("PATH", "")])
    basic = {"PATH": path_of_programs, "HOME": str(home), "TERM": "dumb", "PYTHONPATH": os.pathsep.join(sys.path)}
    if "dragoman" not in run.command:
        del basic["PYTHONPATH"]
    if not private:
        closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
        basic |= {**closed, "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}
    command = [word.replace("$HOME", str(home)) for word in run.command]
    # Files instead of pipes: a process in the background that keeps a pipe open would hold up the test.
    with (scratch / "output").open("wb") as output, (scratch / "errors").open("wb") as errors:
        process = subprocess.Popen(
            command,
            env={**basic, **variables},
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            return process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# ---- the network -----------------------------------------------------------------------------------------------------


def private_network() -> list[str]:
    """Return the words before a command that leave it only the loopback, and end all its processes with it.

    Nothing is returned if the system does not allow it.
    """
    words = ["unshare", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        words.append("--map-root-user")
    words += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    with suppress(OSError):
        if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
            return words
    return []
