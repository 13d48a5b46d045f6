"""Reading what a command is given: the model's text and the tools that were offered to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from dragoman.errors import ConfigError
from dragoman.toolset import Toolset

STANDARD_INPUT = "-"


def read_text(path: str | None) -> str:
    """The text of a file, or of standard input when there is no file or it is `-`."""
    if path is None and sys.stdin.isatty():
        raise ConfigError(
            "there is no text to read",
            hint="name a file (dragoman parse reply.txt), pipe text in, or type it after: dragoman parse -",
        )
    data = sys.stdin.buffer.read() if path in (None, STANDARD_INPUT) else _read_file(path or "")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # Not an error: a model's output that was cut inside a character can still be read.
        print(f"note: byte {error.start} is not UTF-8; such bytes are read as U+FFFD", file=sys.stderr)
        return data.decode("utf-8-sig", "replace")


def read_json(path: str | None) -> Any:
    """The JSON value of a file, or of standard input."""
    if path is None and sys.stdin.isatty():
        raise ConfigError("there is no JSON to read", hint="name a file, or pipe it in")
    data = sys.stdin.buffer.read() if path in (None, STANDARD_INPUT) else _read_file(path or "")
    try:
        return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        name = "standard input" if path in (None, STANDARD_INPUT) else path
        raise ConfigError(f"{name} is not JSON: {error}", hint="give the body of a request as JSON") from None


def read_tools(path: str | None) -> Toolset | None:
    """The tools of a JSON file: a list of tools, one tool, or an object that has the list under `tools`."""
    if path is None:
        return None
    try:
        value: Any = msgspec.json.decode(_read_file(path))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not JSON: {error}", hint=_TOOLS_HINT) from None
    if isinstance(value, dict) and isinstance(value.get("tools"), list):
        value = value["tools"]
    if not isinstance(value, list | dict):
        raise ConfigError(f"{path} holds no tools but {_name_of(value)}", hint=_TOOLS_HINT)
    return Toolset.of(value)


_TOOLS_HINT = 'it holds a list such as [{"name": "...", "description": "...", "parameters": {"type": "object"}}]'


def _read_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        why = (error.strerror or "unreadable").lower()
        raise ConfigError(f"cannot read {path}: {why}", hint="check the path; - reads standard input") from None
    except ValueError as error:
        raise ConfigError(f"cannot read {path!r}: {error}", hint="check the path") from None


def _name_of(value: object) -> str:
    return "null" if value is None else f"a {type(value).__name__}"
