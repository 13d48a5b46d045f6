"""Tool definitions of servers: they are checked, cleaned, and pinned by digest."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, did_you_mean
from dragoman.jsonschema.untrusted import BadSchema, TextRules, accept_schema, words_in
from dragoman.mcp.protocol import Limits, clean_line, clean_text, has_hidden, has_token
from dragoman.mcp.servers import Server
from dragoman.state_files import change_file
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Arguments that are repeated in HTTP headers for routers, if a schema requests it (`x-mcp-header`).

_MARK = "x-mcp-header"
_is_token = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}").fullmatch
_is_plain = re.compile(r"[\x20-\x7e]*").fullmatch
_is_wrapped = re.compile(r"=\?base64\?.*\?=").fullmatch
_KINDS = frozenset({"string", "integer", "boolean"})


def header_parameters(schema: JsonObject) -> dict[str, tuple[str, ...]]:
    """Return the headers that a schema requests, each with the path of its argument. Raises BadSchema."""
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[tuple[tuple[str, ...], JsonObject]] = [((), schema)]
    while waiting:
        way, node = waiting.pop()
        if _MARK in node:
            name = node[_MARK]
            if not way or not isinstance(name, str) or _is_token(name) is None or node.get("type") not in _KINDS:
                raise BadSchema(f"its schema requests a header in a wrong way ({_MARK})")
            header = f"Mcp-Param-{name}"
            if header.lower() in map(str.lower, found):
                raise BadSchema(f"its schema requests the header {header} twice")
            found[header] = way
        properties = node.get("properties")
        if isinstance(properties, dict):
            waiting += [((*way, key), inner) for key, inner in properties.items() if isinstance(inner, dict)]
    return found


def write_headers(wanted: dict[str, tuple[str, ...]], arguments: JsonObject) -> dict[str, str]:
    """Return the headers for one call; a missing argument has none."""
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
    """Return a text as the value of a header; characters that a header cannot contain are encoded in base64."""
    if _is_plain(text) and text == text.strip() and _is_wrapped(text) is None:
        return text
    return f"=?base64?{base64.b64encode(text.encode('utf-8', 'replace')).decode()}?="


# --------------------------------------------------------------------------------------------------------------------
# The definitions of a server: they are parsed, checked, and get a digest that reveals later changes.

_is_name = re.compile(r"[A-Za-z0-9_./-]{1,128}").fullmatch
TEXT_RULES = TextRules(has_hidden, has_token, clean_text, clean_line)
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


class Definition(Struct, frozen=True):
    """One valid tool of a server."""

    server: str
    name: str
    description: str
    parameters: JsonObject
    hints: JsonObject
    """The claims of the server about its tool; they are not verified."""
    digest: str
    """The digest of the unchanged definition and of the identity of the server."""
    said: JsonObject
    """The unchanged definition, to compare two versions."""
    headers: dict[str, tuple[str, ...]] = {}
    """Headers that repeat an argument, each with the path of the argument."""

    @property
    def key(self) -> str:
        return f"{self.server}/{self.name}"

    def texts(self) -> list[str]:
        """Return every text that a model may read, both unchanged and cleaned."""
        return list(dict.fromkeys(filter(None, [self.description, *words_in(self.parameters), *words_in(self.said)])))


def read_definitions(server: Server, listed: list[Any], limits: Limits) -> tuple[list[Definition], list[str]]:
    """Return the valid tools of a list, and the problems of the others."""
    found: list[Definition] = []
    problems: list[str] = []
    names = Counter(each.get("name") for each in listed if isinstance(each, dict) and isinstance(each.get("name"), str))
    for each in listed[: limits.tools]:
        try:
            definition = _read(server, each, limits)
            if names[definition.name] > 1:
                raise BadSchema("it is listed twice, so a call would be ambiguous")
            found.append(definition)
        except BadSchema as problem:
            name = each.get("name") if isinstance(each, dict) else None
            problems.append(f"{server.name}: the tool {clean_line(name, 80)!r} is ignored: {problem}")
    if len(listed) > limits.tools:
        problems.append(f"{server.name}: it has {len(listed)} tools; only the first {limits.tools} are used")
    return found, list(dict.fromkeys(problems))


def _read(server: Server, said: Any, limits: Limits) -> Definition:
    if not isinstance(said, dict):
        raise BadSchema("it is not an object")
    name, description = said.get("name"), said.get("description", "")
    if not isinstance(name, str) or _is_name(name) is None:
        # Rules contain names. A name with `*` would match more than its own tool.
        raise BadSchema("its name must consist of 1 to 128 ASCII letters, digits and _ - . /")
    annotations = said.get("annotations")
    claims = annotations if isinstance(annotations, dict) else {}
    hints = {key: claims[key] for key in _HINTS if isinstance(claims.get(key), bool)}
    schema = said.get("inputSchema")
    parameters = accept_schema(schema, TEXT_RULES, most_bytes=limits.schema_bytes, most_levels=limits.schema_depth)
    description = description if isinstance(description, str) else ""
    whole = {"name": name, "description": description, "inputSchema": schema, "annotations": claims}
    # The same text from another program or URL is another definition.
    digested = msgspec.json.encode({"definition": whole, "server": server.identity()}, order="sorted")
    digest = hashlib.sha256(digested).hexdigest()
    shown = clean_text(description, limits.description_characters)
    return Definition(server.name, name, shown, parameters, hints, digest, whole, header_parameters(parameters))


# --------------------------------------------------------------------------------------------------------------------
# Pins: a tool whose definition changes after it was first seen is disabled until a user approves it.
#
# A definition is recorded when it is first seen (`new`), and a user may approve it (`approved`). Only an approved tool
# may count as read-only. The file belongs to the user, like the configuration. It contains definitions of tools, and
# no secrets.

PinState = Literal["new", "approved", "changed"]
"""The states of a pinned definition."""
_VERSION = 1
_LARGEST = 64 * 1024 * 1024
LIST_SECONDS = 86_400.0
"""How long a saved list of tools is used, if a server starts only when it is needed."""


class SeenDefinition(Struct, frozen=True):
    """A definition as a server sent it."""

    digest: str
    definition: JsonObject = {}


class Pin(Struct, frozen=True):
    """The saved definition of one tool."""

    server: str
    tool: str
    held: SeenDefinition
    """The valid definition."""
    approved: bool = False
    pending: SeenDefinition | None = None
    """A newer definition; the tool is disabled until it is approved."""

    @property
    def key(self) -> str:
        """The server and the tool, as `server/tool`."""
        return f"{self.server}/{self.tool}"

    @property
    def state(self) -> PinState:
        """Whether the definition is new, approved, or different from the approved one."""
        if self.pending is not None:
            return "changed"
        return "approved" if self.approved else "new"


class Listing(Struct, frozen=True):
    """The tools that a server listed, and when."""

    identity: str
    """A digest of the identity of the server."""
    tools: list[str]
    seconds: float
    """Since 1970."""


class _File(Struct, frozen=True):
    version: int
    pins: list[Pin]
    listed: dict[str, Listing] = {}


class _Content(Struct):
    pins: dict[str, Pin] = {}
    listed: dict[str, Listing] = {}


class Pins:
    """The pins of a user, in a file or, without a path, in memory."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._kept = _Content({}, {})

    def read(self) -> dict[str, Pin]:
        """Return all pins by `SERVER/TOOL`. Raises ConfigError for a damaged file."""
        return dict(self._read().pins)

    def see(self, definitions: Sequence[Definition], server: Server | None = None) -> dict[str, Pin]:
        """Record the current definitions, and return the pin of each. With a server, they are its whole list."""
        with self._changing() as content:
            pins = content.pins
            seen = {each.key: _seen(pins.get(each.key), each) for each in definitions}
            pins.update(seen)
            if server is not None:
                names = [each.name for each in definitions]
                # Whole seconds, never rounded up: a list from the future does not count.
                content.listed[server.name] = Listing(_identity(server), names, float(int(time.time())))
        return seen

    def recall(self, server: Server, limits: Limits) -> tuple[list[Definition], dict[str, Pin]] | None:
        """Return the tools that a server listed not long ago, and their pins; None if it has to be asked."""
        content = self._read()
        listing = content.listed.get(server.name)
        if listing is None or listing.identity != _identity(server):
            return None
        if not 0 <= time.time() - listing.seconds < LIST_SECONDS:
            return None
        pins = {name: content.pins.get(f"{server.name}/{name}") for name in listing.tools}
        found: list[Definition] = []
        for pin in pins.values():
            latest = None if pin is None else pin.pending or pin.held
            try:
                definition = None if latest is None else _read(server, latest.definition, limits)
            except BadSchema:
                return None
            if definition is None or latest is None or definition.digest != latest.digest:
                return None
            found.append(definition)
        return found, {pin.key: pin for pin in pins.values() if pin is not None}

    def approve(self, key: str, *, digest: str | None = None) -> Pin:
        """Approve the newest definition of `SERVER/TOOL`; with `digest`, only if it is still that one."""
        with self._changing() as content:
            pins = content.pins
            pin = _find(pins, key)
            wanted = pin.pending or pin.held
            if digest is not None and digest != wanted.digest:
                raise ConfigError(f"{key} has changed again since it was shown", hint="review it again")
            pins[key] = Pin(pin.server, pin.tool, wanted, approved=True)
            return pins[key]

    def forget(self, key: str) -> None:
        """Remove a pin: the tool counts as new when it is seen again."""
        with self._changing() as content:
            pin = _find(content.pins, key)
            del content.pins[pin.key]
            content.listed.pop(pin.server, None)

    def _read(self) -> _Content:
        return self._kept if self.path is None else _read_file(self.path)

    @contextlib.contextmanager
    def _changing(self) -> Iterator[_Content]:
        """Yield the content, to be changed in place, and save the changes. Other processes wait meanwhile."""
        if self.path is None:
            yield self._kept
            return
        with change_file(self.path, _read_file, _write_file) as content:
            yield content


def approve_pin(path: str | os.PathLike[str], key: str, *, digest: str | None = None) -> Pin:
    """Approve the newest definition of `SERVER/TOOL` in a file of pins."""
    return Pins(path).approve(key, digest=digest)


def list_pins(path: str | os.PathLike[str]) -> list[Pin]:
    """Return all pins of a file, ordered by name."""
    return [pin for _, pin in sorted(Pins(path).read().items())]


def _seen(pin: Pin | None, definition: Definition) -> Pin:
    sighting = SeenDefinition(definition.digest, definition.said)
    if pin is None:
        return Pin(definition.server, definition.name, sighting)
    # The definition may have changed back to the approved one, which is still approved.
    return replace(pin, pending=None if pin.held.digest == sighting.digest else sighting)


def _find(pins: dict[str, Pin], key: str) -> Pin:
    if key not in pins:
        raise ConfigError(
            f"unknown MCP tool {key!r}{did_you_mean(key, pins)}",
            hint="write it as SERVER/TOOL",
        )
    return pins[key]


# ---- the file ------------------------------------------------------------------------------------------------------


def _identity(server: Server) -> str:
    return hashlib.sha256(msgspec.json.encode(server.identity())).hexdigest()


def _read_file(path: Path) -> _Content:
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return _Content({}, {})
    except OSError as problem:
        raise ConfigError(f"cannot read {path}: {problem.strerror}", hint="check its permissions") from None
    try:
        found = msgspec.json.decode(data, type=_File) if len(data) <= _LARGEST else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as problem:
        raise _damaged(path, str(problem)) from None
    if found is None or found.version != _VERSION:
        raise _damaged(path, "too large" if found is None else f"version {found.version} is unknown")
    return _Content({pin.key: pin for pin in found.pins}, dict(found.listed))


def _damaged(path: Path, why: str) -> ConfigError:
    # Without the pins, every changed tool would count as new.
    return ConfigError(
        f"cannot read the pins of MCP tools in {path}: {why}",
        hint="restore a copy of the file; or remove it, and every tool counts as new",
    )


def _write_file(content: _Content) -> bytes:
    pins, listed = content.pins, dict(sorted(content.listed.items()))
    return msgspec.json.format(msgspec.json.encode(_File(_VERSION, [pins[key] for key in sorted(pins)], listed)))
