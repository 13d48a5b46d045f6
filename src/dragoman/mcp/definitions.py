"""Tool definitions of servers: checked, cleaned, and pinned by digest."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, nearest
from dragoman.jsonschema.untrusted import BadSchema, TextRules, accept_schema, words_in
from dragoman.mcp.protocol import Limits, clean_line, clean_text, has_hidden
from dragoman.mcp.servers import Server
from dragoman.state_files import change_file
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Arguments that are repeated in HTTP headers, where a schema asks for it (`x-mcp-header`), for whoever routes.

_MARK = "x-mcp-header"
_is_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}").fullmatch
_is_plain = re.compile(r"[\x20-\x7e]*").fullmatch
_is_wrapped = re.compile(r"=\?base64\?.*\?=").fullmatch
_KINDS = frozenset({"string", "integer", "boolean"})


def header_parameters(schema: JsonObject) -> dict[str, tuple[str, ...]]:
    """The headers that a schema asks for, each with the way to its argument. Raises BadSchema for one that is wrong."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[tuple[tuple[str, ...], JsonObject]] = [((), schema)]
    while waiting:
        way, node = waiting.pop()
        if _MARK in node:
            name = node[_MARK]
            if not way or not isinstance(name, str) or _is_token(name) is None or node.get("type") not in _KINDS:
                raise BadSchema(f"its schema asks for a header in a wrong way ({_MARK})")
            header = f"Mcp-Param-{name}"
            if header.lower() in map(str.lower, found):
                raise BadSchema(f"its schema asks for the header {header} twice")
            found[header] = way
        properties = node.get("properties")
        if isinstance(properties, dict):
            waiting += [((*way, key), inner) for key, inner in properties.items() if isinstance(inner, dict)]
    return found


def write_headers(wanted: dict[str, tuple[str, ...]], arguments: JsonObject) -> dict[str, str]:
    """The headers for one call; an argument that is not there has none."""
    headers = {}
    for header, way in wanted.items():
        value: Any = arguments
        for step in way:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            headers[header] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            headers[header] = write_value(str(value))
    return headers


def write_value(text: str) -> str:
    """Text as the value of a header; what a header cannot hold is wrapped in base64."""
    if _is_plain(text) and text == text.strip() and _is_wrapped(text) is None:
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


# --------------------------------------------------------------------------------------------------------------------
# What a server says of its tools: read, judged, and given a digest by which any later change is seen.

_is_name = re.compile(r"[A-Za-z0-9_./-]{1,128}").fullmatch
_TEXT_RULES = TextRules(has_hidden, clean_text, clean_line)
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Definition(Struct, frozen=True):
    """One tool of a server, fit to be offered."""

    server: str
    name: str
    description: str
    parameters: JsonObject
    hints: JsonObject
    """What the server claims about its tool; nobody checked it."""
    digest: str
    """Over all that the server said of the tool, as it said it, and over what the server is."""
    said: JsonObject
    """That, as it was said, for whoever compares two definitions."""
    headers: dict[str, tuple[str, ...]] = {}
    """Headers that repeat an argument, each with the way to it."""

    @property
    def key(self) -> str:
        return f"{self.server}/{self.name}"

    def texts(self) -> list[str]:
        """Every text of it that a model may come to read, as it was said and as it is shown."""
        return list(dict.fromkeys(filter(None, [self.description, *words_in(self.parameters), *words_in(self.said)])))


def read_definitions(server: Server, listed: list[Any], limits: Limits) -> tuple[list[Definition], list[str]]:
    """The tools of a list, and what was wrong with those that are left out."""
    found: list[Definition] = []
    problems: list[str] = []
    names = Counter(each.get("name") for each in listed if isinstance(each, dict) and isinstance(each.get("name"), str))
    for each in listed[: limits.tools]:
        try:
            definition = _read(server, each, limits)
            if names[definition.name] > 1:
                raise BadSchema("it is listed twice, and no call could say which is meant")
            found.append(definition)
        except BadSchema as problem:
            name = each.get("name") if isinstance(each, dict) else None
            problems.append(f"{server.name}: the tool {clean_line(name, 80)!r} is left out: {problem}")
    if len(listed) > limits.tools:
        problems.append(f"{server.name}: {len(listed)} tools, of which the first {limits.tools} are used")
    return found, list(dict.fromkeys(problems))


def _read(server: Server, said: Any, limits: Limits) -> Definition:
    if not isinstance(said, dict):
        raise BadSchema("it is no object")
    name, description = said.get("name"), said.get("description", "")
    if not isinstance(name, str) or _is_name(name) is None:
        # Rules are written with names. One with `*` in it would allow more than the tool that it names.
        raise BadSchema("its name is not made of 1 to 128 letters, digits and the signs _ - . / of ASCII")
    annotations = said.get("annotations")
    claims = annotations if isinstance(annotations, dict) else {}
    hints = {key: claims[key] for key in _HINTS if isinstance(claims.get(key), bool)}
    schema = said.get("inputSchema")
    parameters = accept_schema(schema, _TEXT_RULES, most_bytes=limits.schema_bytes, most_levels=limits.schema_depth)
    description = description if isinstance(description, str) else ""
    whole = {"name": name, "description": description, "inputSchema": schema, "annotations": claims}
    # The same words from another program or address are another definition.
    digested = msgspec.json.encode({"definition": whole, "server": server.identity()}, order="sorted")
    digest = hashlib.sha256(digested).hexdigest()
    shown = clean_text(description, limits.description_characters)
    return Definition(server.name, name, shown, parameters, hints, digest, whole, header_parameters(parameters))


# --------------------------------------------------------------------------------------------------------------------
# Definitions of tools, remembered: a tool that changes after it was first seen stays off until a person approves it.
#
# A definition is recorded when it is first seen (`new`), and a person may approve it (`approved`). Only what is
# approved may claim that it changes nothing. The file belongs to the user, like the configuration; it holds what
# servers said of their tools, and no secret.

PinState = Literal["new", "approved", "changed"]
_VERSION = 1
_LARGEST = 64 * 1024 * 1024


class SeenDefinition(Struct, frozen=True):
    """A definition as a server gave it."""

    digest: str
    definition: JsonObject = {}


class Pin(Struct, frozen=True):
    """What is remembered of one tool."""

    server: str
    tool: str
    held: SeenDefinition
    """The definition that counts."""
    approved: bool = False
    pending: SeenDefinition | None = None
    """Another one that was seen since; the tool is off until it is approved."""

    @property
    def key(self) -> str:
        return f"{self.server}/{self.tool}"

    @property
    def state(self) -> PinState:
        if self.pending is not None:
            return "changed"
        return "approved" if self.approved else "new"


class _File(Struct, frozen=True):
    version: int
    pins: list[Pin]


class Pins:
    """The pins of a user, in a file or, without a path, for as long as this value lives."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._kept: dict[str, Pin] = {}

    def read(self) -> dict[str, Pin]:
        """Every pin by its `SERVER/TOOL`. Raises ConfigError for a file that is damaged."""
        return dict(self._kept) if self.path is None else _read_file(self.path)

    def see(self, definitions: Iterable[Definition]) -> dict[str, Pin]:
        """Record what servers say of their tools now, and give the pin of each."""
        with self._changing() as pins:
            seen = {each.key: _seen(pins.get(each.key), each) for each in definitions}
            pins.update(seen)
        return seen

    def approve(self, key: str, *, digest: str | None = None) -> Pin:
        """Approve the newest definition of `SERVER/TOOL`; with `digest`, only if it is still that one."""
        with self._changing() as pins:
            pin = _find(pins, key)
            wanted = pin.pending or pin.held
            if digest is not None and digest != wanted.digest:
                raise ConfigError(f"{key} has changed again since it was shown", hint="look at it once more")
            pins[key] = Pin(pin.server, pin.tool, wanted, approved=True)
            return pins[key]

    def forget(self, key: str) -> None:
        """Forget a tool: it counts as new when it is seen again."""
        with self._changing() as pins:
            del pins[_find(pins, key).key]

    @contextlib.contextmanager
    def _changing(self) -> Iterator[dict[str, Pin]]:
        """The pins, to be changed in place; what was changed is kept. One process at a time."""
        if self.path is None:
            yield self._kept
            return
        with change_file(self.path, _read_file, _write_pins) as pins:
            yield pins


def approve_pin(path: str | os.PathLike[str], key: str, *, digest: str | None = None) -> Pin:
    """Approve the newest definition of `SERVER/TOOL` in a file of pins."""
    return Pins(path).approve(key, digest=digest)


def list_pins(path: str | os.PathLike[str]) -> list[Pin]:
    """Every pin of a file, in the order of their names."""
    return [pin for _, pin in sorted(Pins(path).read().items())]


def _seen(pin: Pin | None, definition: Definition) -> Pin:
    sighting = SeenDefinition(definition.digest, definition.said)
    if pin is None:
        return Pin(definition.server, definition.name, sighting)
    # It may have changed, and changed back: what was approved is approved.
    return replace(pin, pending=None if pin.held.digest == sighting.digest else sighting)


def _find(pins: dict[str, Pin], key: str) -> Pin:
    if key not in pins:
        guess = nearest(key, pins)
        raise ConfigError(
            f"no MCP tool {key!r} was seen so far" + (f"; did you mean {guess!r}?" if guess else ""),
            hint="write it as SERVER/TOOL",
        )
    return pins[key]


# ---- the file ------------------------------------------------------------------------------------------------------


def _read_file(path: Path) -> dict[str, Pin]:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise ConfigError(f"{path} cannot be read: {problem.strerror}", hint="check its permissions") from None
    try:
        found = msgspec.json.decode(data, type=_File) if len(data) <= _LARGEST else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
        raise _damaged(path, str(problem)) from None
    if found is None or found.version != _VERSION:
        raise _damaged(path, "too large" if found is None else f"version {found.version} is not known here")
    return {pin.key: pin for pin in found.pins}


def _damaged(path: Path, why: str) -> ConfigError:
    # Going on without it would turn every change since into something seen for the first time.
    return ConfigError(
        f"the pins of MCP tools in {path} cannot be read: {why}",
        hint="put back a copy of the file; or move it away, and every tool counts as new",
    )


def _write_pins(pins: dict[str, Pin]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(_File(_VERSION, [pins[key] for key in sorted(pins)])))
