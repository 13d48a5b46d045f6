"""How agent programs and official clients are told to use a gateway."""

from __future__ import annotations

import json
from collections.abc import Callable
from shlex import quote

from msgspec import Struct

PLACEHOLDER_KEY = "dragoman"
"""The key of a client, for a gateway without keys. Most programs do not start without one."""


class Setup(Struct, frozen=True):
    """What one program needs: variables, arguments, and a configuration file with the variable that names it."""

    command: str
    variables: dict[str, str] = {}
    arguments: tuple[str, ...] = ()
    file_variable: str = ""
    """The variable that names a configuration file."""
    file: str = ""
    """The content of that file."""


Write = Callable[[str, str, str], Setup]
"""Writes the setup for a URL, a model and a key."""


def _claude(url: str, model: str, key: str) -> Setup:
    variables = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": key}
    named = {"ANTHROPIC_MODEL": model, "ANTHROPIC_SMALL_FAST_MODEL": model} if model else {}
    return Setup("claude", {**variables, **named})


def _codex(url: str, model: str, key: str) -> Setup:
    provider = (
        f'model_providers.dragoman={{name="dragoman", base_url="{url}/v1", env_key="DRAGOMAN_KEY", '
        'wire_api="responses"}'
    )
    chosen = ("-m", model) if model else ()
    arguments = ("-c", "model_provider=dragoman", "-c", provider, *chosen)
    return Setup("codex", {"DRAGOMAN_KEY": key}, arguments)


def _opencode(url: str, model: str, key: str) -> Setup:
    name = model or "default"
    row = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "dragoman",
        "options": {"baseURL": f"{url}/v1", "apiKey": key},
        "models": {name: {"name": name, "tool_call": True}},
    }
    file = {"model": f"dragoman/{name}", "small_model": f"dragoman/{name}", "provider": {"dragoman": row}}
    return Setup("opencode", file_variable="OPENCODE_CONFIG", file=json.dumps(file, indent=2))


def _qwen(url: str, model: str, key: str) -> Setup:
    variables = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key, "OPENAI_MODEL": model or "default"}
    return Setup("qwen", variables, ("--auth-type", "openai"))


def _gemini(url: str, model: str, key: str) -> Setup:
    chosen = ("-m", model) if model else ()
    return Setup("gemini", {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": key}, chosen)


def _goose(url: str, model: str, key: str) -> Setup:
    return Setup(
        "goose",
        {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": model or "default",
            "OPENAI_HOST": url,
            "OPENAI_BASE_PATH": "v1/chat/completions",
            "OPENAI_API_KEY": key,
        },
    )


PROGRAMS: dict[str, Write] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
    "qwen": _qwen,
    "gemini": _gemini,
    "goose": _goose,
}
"""The programs that `dragoman launch` starts."""


def write_command(setup: Setup) -> str:
    """Return the line for a shell that starts a program."""
    words = [f"{name}={quote(value)}" for name, value in setup.variables.items()]
    if setup.file_variable:
        words.append(f"{setup.file_variable}=FILE")
    return " ".join([*words, setup.command, *map(quote, setup.arguments)])


def _ollama_header(key: str) -> str:
    """The client of Ollama has no key of its own."""
    return "" if key == PLACEHOLDER_KEY else f', headers={{"Authorization": "Bearer {key}"}}'


def list_clients(url: str, model: str, key: str) -> list[tuple[str, str]]:
    """Return the lines of the start message: a program or a client, and how it is told the address."""
    rows = [(name, write_command(write(url, model, key))) for name, write in PROGRAMS.items() if name != "opencode"]
    rows.insert(2, ("opencode", f"dragoman launch --to {url}/v1 opencode"))
    chosen = model or "NAME"
    rows += [
        ("pi", f'in ~/.pi/agent/models.json: "baseUrl": "{url}/v1", "api": "openai-completions", "id": "{chosen}"'),
        ("cline", f'provider "openai-compatible", base URL {url}/v1, model {chosen}'),
        ("openai", f'OpenAI(base_url="{url}/v1", api_key="{key}")'),
        ("anthropic", f'Anthropic(base_url="{url}", api_key="{key}")'),
        ("google-genai", f'Client(api_key="{key}", http_options={{"base_url": "{url}"}})'),
        ("ollama", f'Client(host="{url}"{_ollama_header(key)})'),
    ]
    return rows
