"""More agent programs, which are told the address of a gateway by their own settings."""

from __future__ import annotations

import json
import shlex

from tests.clients.programs import (
    ANTHROPIC,
    CHAT,
    KEY,
    LAUNCHABLE,
    MODEL,
    RESPONSES,
    TASK,
    Program,
    Run,
    ai_sdk_settings,
    as_json,
    base_of,
    on,
)

from dragoman.server.programs import list_clients

_THREE_WIRES = (CHAT, RESPONSES, ANTHROPIC)

_KILO_QUIET = {
    "KILO_TELEMETRY_LEVEL": "off",
    **on(
        "KILO_DISABLE_AUTOUPDATE",
        "KILO_DISABLE_MODELS_FETCH",
        "KILO_DISABLE_LSP_DOWNLOAD",
        "KILO_DISABLE_SHARE",
        "KILO_DISABLE_SESSION_INGEST",
        "KILO_DISABLE_PRESENCE",
        "KILO_DISABLE_CODEBASE_INDEXING",
        "KILO_DISABLE_DEFAULT_PLUGINS",
    ),
}


def _kilo(url: str, wire: str) -> Run:
    command = ["kilo", "run", "--auto", "-m", f"gateway/{MODEL}", TASK]
    return Run(command, {}, {".config/kilo/kilo.json": ai_sdk_settings(url, wire)})


_CLINE_FOLDER = ".cline/data/settings"
_CLINE_FILE = as_json({"telemetryOptOut": True, "autoUpdateEnabled": False})
# Without the first variable, a process in the background stays after the end.
_CLINE_QUIET = {"CLINE_SESSION_BACKEND_MODE": "local", "E2E_TEST": "true"}
_CLINE_NAMES = {CHAT: "openai-compatible", RESPONSES: "openai-native", ANTHROPIC: "anthropic"}


def _cline(url: str, wire: str) -> Run:
    name = _CLINE_NAMES[wire]
    once = ["cline", "-P", name, "-m", MODEL, "--auto-approve", "true", "-t", "90", TASK]
    if wire == CHAT:
        return Run(["sh", "-c", f"{dict(list_clients(url, MODEL, KEY))['cline']} && {shlex.join(once)}"])
    row = {
        "settings": {"provider": name, "apiKey": KEY, "model": MODEL, "baseUrl": f"{url}/v1"},
        "updatedAt": "2026-01-01T00:00:00.000Z",
        "tokenSource": "manual",
    }
    providers = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: row}}
    return Run(once, {}, {f"{_CLINE_FOLDER}/providers.json": as_json(providers)})


_COPILOT_QUIET = {"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false"}


def _copilot(url: str, wire: str) -> Run:
    variables = {
        "COPILOT_PROVIDER_BASE_URL": base_of(url, wire),
        "COPILOT_PROVIDER_TYPE": "anthropic" if wire == ANTHROPIC else "openai",
        "COPILOT_PROVIDER_WIRE_API": "responses" if wire == RESPONSES else "completions",
        "COPILOT_PROVIDER_API_KEY": KEY,
        "COPILOT_MODEL": MODEL,
    }
    return Run(["copilot", "-p", TASK, "--allow-all-tools", "--no-color"], variables)


_DROID_QUIET = {
    **on("FACTORY_AIRGAP_ENABLED", "DO_NOT_TRACK"),
    "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false",
    "OTEL_SDK_DISABLED": "true",
}
_DROID_NAMES = {CHAT: "generic-chat-completion-api", RESPONSES: "openai", ANTHROPIC: "anthropic"}


def _droid(url: str, wire: str) -> Run:
    row = {
        "model": MODEL,
        "displayName": MODEL,
        "baseUrl": base_of(url, wire),
        "apiKey": KEY,
        "provider": _DROID_NAMES[wire],
        "maxOutputTokens": 8000,
    }
    files = {".factory/settings.json": as_json({"customModels": [row], "cloudSessionSync": False})}
    return Run(["droid", "exec", "--skip-permissions-unsafe", "-m", f"custom:{MODEL}-0", TASK], {}, files)


def _continue(url: str, wire: str) -> Run:
    row = {
        "name": MODEL,
        "provider": "anthropic" if wire == ANTHROPIC else "openai",
        "model": MODEL,
        "apiBase": f"{url}/v1/" if wire == ANTHROPIC else f"{url}/v1",
        "apiKey": KEY,
        "roles": ["chat"],
        "capabilities": ["tool_use"],
    }
    # JSON is also YAML.
    settings = {"name": "gateway", "version": "1.0.0", "schema": "v1", "models": [row]}
    place = ".continue/config.yaml"
    return Run(["cn", "-p", "--auto", "--config", f"$HOME/{place}", TASK], {}, {place: as_json(settings)})


def _nanocoder(url: str, wire: str) -> Run:
    row = {"name": "gateway", "baseUrl": f"{url}/v1", "apiKey": KEY, "models": [MODEL]}
    files = {"work/agents.config.json": as_json({"nanocoder": {"providers": [row]}})}
    chosen = ["--provider", "gateway", "--model", MODEL, "--trust-directory", "--mode", "yolo"]
    return Run(["nanocoder", *chosen, "run", TASK], {}, files)


_MINI_QUIET = {
    "MSWEA_CONFIGURED": "true",
    "MSWEA_COST_TRACKING": "ignore_errors",
    "MSWEA_SILENT_STARTUP": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}


def _mini(url: str, wire: str) -> Run:
    command = ["mini", "-y", "--exit-immediately", "-m", f"openai/{MODEL}", "-t", TASK, "-o", "$HOME/run.json"]
    return Run(command, {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY})


def _gptme(url: str, wire: str) -> Run:
    command = ["gptme", "--non-interactive", "--no-confirm", "--tool-format", "tool", "-m", f"local/{MODEL}", TASK]
    return Run(command, {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY})


_LLM_TOOLS = '''
import subprocess

def shell(command: str) -> str:
    """Run a command."""
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout
'''


def _llm(url: str, wire: str) -> Run:
    row = {"model_id": MODEL, "model_name": MODEL, "api_base": f"{url}/v1", "supports_tools": True}
    files = {"llm/extra-openai-models.yaml": json.dumps([row])}
    command = ["llm", "prompt", "-m", MODEL, "--td", "--functions", _LLM_TOOLS, TASK]
    return Run(command, {"LLM_USER_PATH": "$HOME/llm"}, files)


PROGRAMS = (
    *LAUNCHABLE,
    Program(
        "kilo",
        "Kilo CLI",
        ("@kilocode/cli@7.7.7",),
        (CHAT, ANTHROPIC),
        _kilo,
        scripts=("@kilocode/cli/postinstall.mjs",),
        quiet=_KILO_QUIET,
    ),
    Program(
        "cline",
        "Cline CLI",
        ("cline@3.0.65",),
        _THREE_WIRES,
        _cline,
        quiet=_CLINE_QUIET,
        files={f"{_CLINE_FOLDER}/global-settings.json": _CLINE_FILE},
    ),
    Program("copilot", "Copilot CLI", ("@github/copilot@1.0.102",), _THREE_WIRES, _copilot, quiet=_COPILOT_QUIET),
    Program(
        "droid",
        "Factory droid",
        ("droid@0.215.0",),
        _THREE_WIRES,
        _droid,
        scripts=("droid/install.js",),
        quiet=_DROID_QUIET,
    ),
    Program(
        "continue",
        "Continue CLI",
        ("@continuedev/cli@1.5.47",),
        (CHAT, ANTHROPIC),
        _continue,
        quiet=on("CONTINUE_TELEMETRY_ENABLED", "CONTINUE_CLI_ENABLE_TELEMETRY", value="0"),
    ),
    Program(
        "nanocoder",
        "nanocoder",
        ("@nanocollective/nanocoder@1.30.0",),
        (CHAT,),
        _nanocoder,
        newer_node=True,
        quiet=on("NANOCODER_TRUST_DIRECTORY"),
    ),
    Program(
        "mini-swe-agent",
        "mini-swe-agent",
        ("mini-swe-agent==2.4.6", "mcp"),
        (CHAT,),
        _mini,
        source="pip",
        quiet=_MINI_QUIET,
        last_command="echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && echo",
    ),
    Program("gptme", "gptme", ("gptme==0.35.1",), (CHAT,), _gptme, source="pip"),
    Program("llm", "llm", ("llm==0.36",), (CHAT,), _llm, source="pip"),
)
