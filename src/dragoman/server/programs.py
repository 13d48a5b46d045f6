"""How agent programs and official clients are told to use a gateway."""

from __future__ import annotations

import json
from collections.abc import Callable
from shlex import quote

from msgspec import Struct

PLACEHOLDER_KEY = "dragoman"
"""The key of a client, for a gateway without keys. Most programs do not start without one."""


FILE = "FILE"
"""The argument that stands for the file of a setup."""


class Setup(Struct, frozen=True):
    """What one program needs: variables, arguments, and a file that an argument names."""

    command: str
    variables: dict[str, str] = {}
    arguments: tuple[str, ...] = ()
    file_name: str = ""
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
    # Not `-m`, so that the user may add one.
    chosen = ("-c", f"model={json.dumps(model)}") if model else ()
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
    added = {"model": f"dragoman/{name}", "small_model": f"dragoman/{name}", "provider": {"dragoman": row}}
    # opencode merges this value with the files of the user.
    return Setup("opencode", {"OPENCODE_CONFIG_CONTENT": json.dumps(added)})


def _qwen(url: str, model: str, key: str) -> Setup:
    variables = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key, "OPENAI_MODEL": model or "default"}
    return Setup("qwen", variables, ("--auth-type", "openai"))


def _gemini(url: str, model: str, key: str) -> Setup:
    # Without a name the program first asks a model which model to use.
    variables = {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": key, "GEMINI_MODEL": model or "default"}
    return Setup("gemini", variables)


def _pi_provider(url: str, name: str, key: str) -> dict[str, object]:
    model = {
        "id": name,
        "name": name,
        "reasoning": False,
        "input": ["text"],
        "contextWindow": 128000,
        "maxTokens": 16384,
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    }
    return {"baseUrl": f"{url}/v1", "api": "openai-completions", "apiKey": key, "models": [model]}


def _pi(url: str, model: str, key: str) -> Setup:
    name = model or "default"
    # An extension adds a provider and leaves the user's own settings, logins and sessions in place.
    row = json.dumps(_pi_provider(url, name, key), indent=2)
    extension = f'export default (pi) => pi.registerProvider("dragoman", {row});\n'
    arguments = ("--extension", FILE, "--provider", "dragoman", "--model", name)
    return Setup("pi", arguments=arguments, file_name="dragoman.js", file=extension)


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
    "pi": _pi,
    "goose": _goose,
}
"""The programs that `dragoman launch` starts."""


def write_command(setup: Setup) -> str:
    """Return the line for a shell that starts a program."""
    words = [f"{name}={quote(value)}" for name, value in setup.variables.items()]
    return " ".join([*words, setup.command, *map(quote, setup.arguments)])


def _ollama_header(key: str) -> str:
    """The client of Ollama has no key of its own."""
    return "" if key == PLACEHOLDER_KEY else f', headers={{"Authorization": "Bearer {key}"}}'


def list_clients(url: str, model: str, key: str) -> list[tuple[str, str]]:
    """Return the lines of the start message: a program or a client, and how it is told the address."""
    rows = [(name, write_command(write(url, model, key))) for name, write in PROGRAMS.items() if name != "pi"]
    chosen = model or "NAME"
    providers = json.dumps({"providers": {"dragoman": _pi_provider(url, chosen, key)}})
    rows += [
        ("pi", f"pi --provider dragoman --model {quote(chosen)}, with this in ~/.pi/agent/models.json: {providers}"),
        ("cline", f"cline auth -p openai-compatible -b {url}/v1 -k {key} -m {quote(chosen)}"),
        ("openai", f'OpenAI(base_url="{url}/v1", api_key="{key}")'),
        ("anthropic", f'Anthropic(base_url="{url}", api_key="{key}")'),
        ("google-genai", f'Client(api_key="{key}", http_options={{"base_url": "{url}"}})'),
        ("ollama", f'Client(host="{url}"{_ollama_header(key)})'),
    ]
    return rows
