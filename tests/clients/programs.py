"""Agent programs: how each is installed, told the address of a gateway, and given a task."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

TASK = "Write a file with the shell tool."
COMMAND = "echo made by a tool > made.txt"
"""The command that the scripted model wants to run."""


class Run(Struct, frozen=True):
    """How a program is started: its command line, its variables, and files below its home folder."""

    command: list[str]
    variables: dict[str, str] = {}
    files: dict[str, str] = {}


class Program(Struct, frozen=True):
    """An agent program: its packages at npm, its tool that runs commands, and how it is started for a URL."""

    name: str
    packages: tuple[str, ...]
    wire: str
    tool: str
    argument: str
    start: Callable[[str], Run]
    install: tuple[str, ...] = ()
    """A script of the package that npm does not run by itself, below `node_modules`."""


def _claude(url: str) -> Run:
    quiet = {
        name: "1"
        for name in (
            "IS_SANDBOX",
            "DISABLE_TELEMETRY",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "DISABLE_AUTOUPDATER",
            "DISABLE_ERROR_REPORTING",
        )
    }
    return Run(
        ["claude", "-p", TASK, "--allowedTools", "Bash", "--output-format", "text"],
        {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "dummy", **quiet},
    )


_CODEX = """model = "scripted"
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.gateway]
name = "gateway"
base_url = "{url}/v1"
env_key = "GATEWAY_KEY"
wire_api = "responses"
"""


def _codex(url: str) -> Run:
    return Run(
        ["codex", "exec", "--skip-git-repo-check", TASK],
        {"GATEWAY_KEY": "dummy", "CODEX_HOME": "$HOME/.codex"},
        {".codex/config.toml": _CODEX.format(url=url)},
    )


PROGRAMS = (
    Program(
        "claude",
        ("@anthropic-ai/claude-code",),
        "anthropic",
        "Bash",
        "command",
        _claude,
        ("@anthropic-ai/claude-code/install.cjs",),
    ),
    Program("codex", ("@openai/codex",), "openai_responses", "exec_command", "cmd", _codex),
)


def prepare(run: Run, home: Path, binaries: Path) -> tuple[list[str], dict[str, str]]:
    """Write the files of a program, and return its command and its whole environment. Nothing else is passed on."""
    for place, content in run.files.items():
        path = home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    variables = {name: value.replace("$HOME", str(home)) for name, value in run.variables.items()}
    path = os.pathsep.join([str(binaries), os.environ.get("PATH", "")])
    return run.command, {"PATH": path, "HOME": str(home), "TERM": "dumb", **variables}
