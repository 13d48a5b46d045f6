"""Definitions of tools, remembered: a tool that changes after it was first seen stays off until a person approves it.

A definition is recorded when it is first seen (`new`), and a person may approve it (`approved`). Only what is approved
may claim that it changes nothing. The file belongs to the user, like the configuration; it holds what servers said of
their tools, and no secret.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, nearest
from dragoman.mcp.definitions import Definition
from dragoman.types import JsonObject

PinState = Literal["new", "approved", "changed"]
_VERSION = 1
_LARGEST = 64 * 1024 * 1024


class Sighting(Struct, frozen=True):
    """A definition as a server gave it."""

    digest: str
    definition: JsonObject = {}


class Pin(Struct, frozen=True):
    """What is remembered of one tool."""

    server: str
    tool: str
    held: Sighting
    """The definition that counts."""
    approved: bool = False
    pending: Sighting | None = None
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
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(self.path):
            pins = _read_file(self.path)
            before = dict(pins)
            yield pins
            if pins != before:
                _write_file(self.path, pins)


def approve_pin(path: str | os.PathLike[str], key: str, *, digest: str | None = None) -> Pin:
    """Approve the newest definition of `SERVER/TOOL` in a file of pins."""
    return Pins(path).approve(key, digest=digest)


def list_pins(path: str | os.PathLike[str]) -> list[Pin]:
    """Every pin of a file, in the order of their names."""
    return [pin for _, pin in sorted(Pins(path).read().items())]


def _seen(pin: Pin | None, definition: Definition) -> Pin:
    sighting = Sighting(definition.digest, definition.said)
    if pin is None:
        return Pin(definition.server, definition.name, sighting)
    if pin.held.digest == sighting.digest:
        # It may have changed, and changed back: what was approved is approved.
        return replace(pin, pending=None)
    return replace(pin, pending=sighting)


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


def _write_file(path: Path, pins: dict[str, Pin]) -> None:
    data = msgspec.json.format(msgspec.json.encode(_File(_VERSION, [pins[key] for key in sorted(pins)])))
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # readable by its owner alone
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keep other processes from changing the file meanwhile, where the system can do that."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
