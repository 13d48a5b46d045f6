"""Agent programs: how each is installed, told the address of a gateway, and given a task."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from dragoman.server.programs import PROGRAMS as LAUNCHED
from dragoman.server.programs import list_clients

TASK = "Write a file with the shell tool."
MODEL = "scripted"
KEY = "dummy"
CHAT, RESPONSES, ANTHROPIC, GEMINI = "openai_chat", "openai_responses", "anthropic", "gemini"


class Run(Struct, frozen=True):
    """How a program is started: its command line, its variables, and files below its home folder."""

    command: list[str]
    variables: dict[str, str] = {}
    files: dict[str, str] = {}
    """A name that begins with `work/` is below the working folder."""


Start = Callable[[str, str], Run]
"""Returns how a program is started for a URL and a wire."""


class Program(Struct, frozen=True):
    """An agent program: its packages, the wires that it speaks, and how it is started for a URL and a wire."""

    name: str
    title: str
    packages: tuple[str, ...]
    """The first one is the program itself, with its version."""
    wires: tuple[str, ...]
    start: Start
    spellings: int = 3
    source: Literal["npm", "pip"] = "npm"
    scripts: tuple[str, ...] = ()
    """Scripts of the packages that npm does not run by itself, below `node_modules`."""
    newer_node: bool = False
    """It needs a newer version of Node than others."""
    last_command: str = ""
    """It ends only after this command, which prints the answer that follows it."""
    quiet: dict[str, str] = {}
    """Variables against telemetry, updates and questions."""
    files: dict[str, str] = {}
    """Settings below the home folder against the same."""
    once: tuple[str, ...] = ()
    """The arguments for one task, for a program that `dragoman launch` starts."""

    @property
    def version(self) -> str:
        return self.packages[0].rpartition("@")[2].rpartition("==")[2]


def as_json(value: Any) -> str:
    return json.dumps(value, indent=2)


def base_of(url: str, wire: str, *, anthropic: str = "") -> str:
    """Return the base URL for a wire. Clients differ in whether they add `/v1` for Anthropic."""
    return url + {ANTHROPIC: anthropic, GEMINI: "/v1beta"}.get(wire, "/v1")


def printed(name: str, url: str, once: tuple[str, ...]) -> list[str]:
    """Return the line of the start message, with the arguments for one task, as a command for a shell."""
    return ["sh", "-c", f"{dict(list_clients(url, MODEL, KEY))[name]} {shlex.join(once)}"]


def on(*names: str, value: str = "1") -> dict[str, str]:
    return dict.fromkeys(names, value)


# ---- programs that `dragoman launch` knows ---------------------------------------------------------------------------

_CLAUDE = ("-p", TASK, "--allowedTools", "Bash", "--output-format", "text")
_CLAUDE_QUIET = on(
    "IS_SANDBOX",
    "DISABLE_TELEMETRY",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
)


def _claude(url: str, wire: str) -> Run:
    return Run(printed("claude", url, _CLAUDE))


_CODEX = ("exec", "--skip-git-repo-check", TASK)
_CODEX_FILE = 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n'


def _codex(url: str, wire: str) -> Run:
    return Run(printed("codex", url, _CODEX))


_AI_SDK = {
    CHAT: "@ai-sdk/openai-compatible",
    RESPONSES: "@ai-sdk/openai",
    ANTHROPIC: "@ai-sdk/anthropic",
    GEMINI: "@ai-sdk/google",
}
_OPENCODE = ("run", "--title", "t", TASK)
_OPENCODE_QUIET = on(
    "OPENCODE_DISABLE_AUTOUPDATE",
    "OPENCODE_DISABLE_MODELS_FETCH",
    "OPENCODE_DISABLE_LSP_DOWNLOAD",
    "OPENCODE_DISABLE_SHARE",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS",
)


def ai_sdk_settings(url: str, wire: str) -> str:
    """The settings of opencode and its descendants."""
    row = {
        "npm": _AI_SDK[wire],
        "name": "gateway",
        "options": {"baseURL": base_of(url, wire, anthropic="/v1"), "apiKey": KEY},
        "models": {MODEL: {"name": MODEL, "tool_call": True, "limit": {"context": 100000, "output": 8000}}},
    }
    chosen = {"model": f"gateway/{MODEL}", "small_model": f"gateway/{MODEL}", "enabled_providers": ["gateway"]}
    return as_json(
        {"autoupdate": False, "share": "disabled", "permission": "allow", **chosen, "provider": {"gateway": row}}
    )


def _opencode(url: str, wire: str) -> Run:
    if wire == CHAT:
        return Run(printed("opencode", url, _OPENCODE))
    return Run(["opencode", *_OPENCODE], {}, {".config/opencode/opencode.json": ai_sdk_settings(url, wire)})


_QWEN = ("--yolo", "-p", TASK)
_NO_STATISTICS = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}
_QWEN_FILE = as_json({**_NO_STATISTICS, "general": {"enableAutoUpdate": False}})


def _qwen(url: str, wire: str) -> Run:
    if wire == CHAT:
        return Run(printed("qwen", url, _QWEN))
    kind, prefix, base = {
        RESPONSES: ("openai-responses", "OPENAI", "OPENAI_BASE_URL"),
        ANTHROPIC: ("anthropic", "ANTHROPIC", "ANTHROPIC_BASE_URL"),
        GEMINI: ("gemini", "GEMINI", "GOOGLE_GEMINI_BASE_URL"),
    }[wire]
    address = f"{url}/v1" if wire == RESPONSES else url
    variables = {base: address, f"{prefix}_API_KEY": KEY, f"{prefix}_MODEL": MODEL}
    return Run(["qwen", "--auth-type", kind, "-m", MODEL, *_QWEN], variables)


_GEMINI = ("--yolo", "-p", TASK)
_GEMINI_FILE = as_json(
    {
        **_NO_STATISTICS,
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True, "disableUpdateNag": True},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
    }
)


def _gemini(url: str, wire: str) -> Run:
    return Run(printed("gemini", url, _GEMINI))


_PI = ("-p", TASK)
_PI_QUIET = {"PI_OFFLINE": "1", "PI_SKIP_VERSION_CHECK": "1", "PI_TELEMETRY": "0"}
_PI_APIS = {RESPONSES: "openai-responses", ANTHROPIC: "anthropic-messages", GEMINI: "google-generative-ai"}


def _pi(url: str, wire: str) -> Run:
    line, _, content = dict(list_clients(url, MODEL, KEY))["pi"].partition(", with this in ~/.pi/agent/models.json: ")
    if wire != CHAT:
        found = json.loads(content)
        found["providers"]["dragoman"].update(api=_PI_APIS[wire], baseUrl=base_of(url, wire))
        content = json.dumps(found)
    return Run(["sh", "-c", f"{line} {shlex.join(_PI)}"], {}, {".pi/agent/models.json": content})


_GOOSE = ("run", "--no-session", "--quiet", "--with-builtin", "developer", "-t", TASK)
_GOOSE_QUIET = {"GOOSE_MODE": "auto", "GOOSE_DISABLE_KEYRING": "1", "GOOSE_TELEMETRY_ENABLED": "false"}


def _goose(url: str, wire: str) -> Run:
    if wire == CHAT:
        return Run(printed("goose", url, _GOOSE))
    provider, prefix = {RESPONSES: ("openai", "OPENAI"), ANTHROPIC: ("anthropic", "ANTHROPIC")}.get(
        wire, ("google", "GOOGLE")
    )
    variables = {
        "GOOSE_PROVIDER": provider,
        "GOOSE_MODEL": MODEL,
        f"{prefix}_HOST": url,
        f"{prefix}_API_KEY": KEY,
        **({"OPENAI_BASE_PATH": "v1/responses"} if wire == RESPONSES else {}),
    }
    return Run(["goose", *_GOOSE], variables)


FOUR_WIRES = (CHAT, RESPONSES, ANTHROPIC, GEMINI)
LAUNCHABLE = (
    Program(
        "claude",
        "Claude Code",
        ("@anthropic-ai/claude-code@2.1.325",),
        (ANTHROPIC,),
        _claude,
        10,
        scripts=("@anthropic-ai/claude-code/install.cjs",),
        quiet=_CLAUDE_QUIET,
        once=_CLAUDE,
    ),
    Program(
        "codex",
        "Codex",
        ("@openai/codex@0.166.0",),
        (RESPONSES,),
        _codex,
        10,
        files={".codex/config.toml": _CODEX_FILE},
        once=_CODEX,
    ),
    Program(
        "opencode",
        "opencode",
        ("opencode-ai@1.18.33",),
        FOUR_WIRES,
        _opencode,
        10,
        scripts=("opencode-ai/postinstall.mjs",),
        quiet=_OPENCODE_QUIET,
        once=_OPENCODE,
    ),
    Program(
        "qwen",
        "Qwen Code",
        ("@qwen-code/qwen-code@0.24.4",),
        FOUR_WIRES,
        _qwen,
        10,
        newer_node=True,
        quiet=on("QWEN_CODE_SUPPRESS_YOLO_WARNING"),
        files={".qwen/settings.json": _QWEN_FILE},
        once=_QWEN,
    ),
    Program(
        "gemini",
        "Gemini CLI",
        ("@google/gemini-cli@0.61.0",),
        (GEMINI,),
        _gemini,
        10,
        quiet=on("GEMINI_CLI_TRUST_WORKSPACE", value="true"),
        files={".gemini/settings.json": _GEMINI_FILE},
        once=_GEMINI,
    ),
    Program("pi", "pi", ("@mariozechner/pi-coding-agent@0.73.1",), FOUR_WIRES, _pi, 10, quiet=_PI_QUIET, once=_PI),
    Program("goose", "goose", ("@aaif/goose@0.20.1",), FOUR_WIRES, _goose, 10, quiet=_GOOSE_QUIET, once=_GOOSE),
)
assert {program.name for program in LAUNCHABLE} == LAUNCHED.keys()
