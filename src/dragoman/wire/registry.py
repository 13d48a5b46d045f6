"""The registry of wires, with the properties that do not need the codec.

This is the only list of the wires. A codec is imported on first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from dragoman.entry_points import EntryPoint, load_entry_points
from dragoman.errors import ConfigError, UnknownProvider
from dragoman.wire.codec import Codec
from dragoman.wire.quirks import DEFAULTS, Quirks


class WireRow(Struct, frozen=True):
    """One wire. `codec` is the name of a class in the package of `dragoman.wire` with the name of the wire."""

    codec: str
    path: str
    """The end of the path of a request, as a regular expression. The groups `model` and `stream` are for wires that
    say these in the path."""
    stream_type: str = "text/event-stream"
    """The content type of a streamed reply."""
    call_reasons: tuple[str, ...] = ()
    """The words for "the model stopped to call a tool"; empty where the wire has none."""
    call_ids: bool = True
    """Every call has an id; otherwise calls and results are paired by name and order."""

    @property
    def streams_objects(self) -> bool:
        """Whether a stream begins with an object, as a whole body does."""
        return self.stream_type == "application/x-ndjson"


ROWS: dict[str, WireRow] = {
    "openai_chat": WireRow("OpenAIChat", r"/chat/completions$", call_reasons=("tool_calls", "function_call")),
    "openai_responses": WireRow("OpenAIResponses", r"/responses$"),
    "anthropic": WireRow("Anthropic", r"/messages$", call_reasons=("tool_use",)),
    "gemini": WireRow("Gemini", r"(?:/models?/(?P<model>.+?))?:(?P<stream>stream)?[gG]enerateContent$", call_ids=False),
    "ollama": WireRow("Ollama", r"/api/chat$", "application/x-ndjson", call_ids=False),
    "bedrock": WireRow(
        "Bedrock",
        r"(?:/models?/(?P<model>.+?))?/converse(?P<stream>-stream)?$",
        "application/vnd.amazon.eventstream",
        call_reasons=("tool_use",),
    ),
    "mistral": WireRow("Mistral", r"/chat/completions$", call_reasons=("tool_calls",)),
    "cohere": WireRow("Cohere", r"/chat$", call_reasons=("TOOL_CALL",)),
}
_registered: dict[str, type[Codec]] = {}
_loaded: dict[str, type[Codec]] = {}
_ALIASES = {"openai": "openai_chat", "responses": "openai_responses"}


def names() -> list[str]:
    """Return the names of all wires."""
    return list(ROWS)


def match_path(path: str) -> list[str]:
    """Return the wires whose requests have this path. Two wires can have the same one."""
    found = {name: match.end() - match.start() for name, row in ROWS.items() if (match := re.search(row.path, path))}
    # The paths of several wires have the same end, so the longest counts.
    return [name for name, length in found.items() if length == max(found.values())]


def read_path(name: str, path: str) -> tuple[str, bool]:
    """Return the model that the path of a request names, and whether it asks for a stream."""
    found = re.search(ROWS[name].path, path) if name in ROWS else None
    said = found.groupdict() if found else {}
    return unquote(said.get("model") or ""), bool(said.get("stream"))


ENTRY_POINTS = "dragoman.wire"
_problems: list[tuple[str, ...]] = []


def knows(name: str, *, installed: bool = False) -> bool:
    """Whether there is a wire with this name; with `installed`, wires of other installed packages count too."""
    if name in ROWS or name in _ALIASES:
        return True
    if not installed:
        return False
    if not _problems:
        load_installed()
    return name in ROWS


def load_installed(points: Iterable[EntryPoint] | None = None) -> tuple[str, ...]:
    """Register the wires of installed packages (group `dragoman.wire`). Return the problems.

    A value is the class of a codec with its row: `class Acme(Codec): row = WireRow("Acme", r"/acme$")`. An unknown name
    of a wire calls this function.
    """
    _problems.append(load_entry_points(ENTRY_POINTS, _take, points))
    return _problems[-1]


def _take(codec: Any) -> None:
    row = getattr(codec, "row", None)
    if not isinstance(codec, type) or not issubclass(codec, Codec) or not isinstance(row, WireRow):
        raise ConfigError(f"{codec!r} is not the class of a codec with a WireRow as `row`"[:200])
    register(codec, row)


def get(name: str, quirks: Quirks = DEFAULTS) -> Codec:
    """Return the codec of a wire, for an endpoint with these quirks."""
    key = _ALIASES.get(name, name)
    if not knows(key, installed=True):
        problems = "".join(f"; {each}" for found in _problems for each in found)
        raise UnknownProvider(name, names(), hint=f"the wires are {', '.join(names())}{problems}")
    codec: type[Codec] | None = _registered.get(key)
    if codec is None:
        codec = _loaded.get(key)
        if codec is None or codec.__name__ != ROWS[key].codec:
            codec = _loaded[key] = getattr(import_module(f"dragoman.wire.{key}"), ROWS[key].codec)
    return codec(quirks)


def register(codec: type[Codec], row: WireRow) -> None:
    """Add a wire under the name of its codec. The row of a provider can then refer to it."""
    name = codec.name
    if knows(name) and _registered.get(name) is not codec:
        raise ConfigError(f"there is a wire named {name!r} already", hint="give the codec another name")
    ROWS[name] = row
    _registered[name] = codec
