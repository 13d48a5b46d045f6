"""How much work a reader does, counted without a clock: function calls, characters looked at, characters copied.

The package is loaded a second time with regular expressions, JSON scanners and text that count, so that nothing of
the measured code has to know about it. What a pattern reads before it fails is not counted: `benchmarks/hostile.py`
measures that.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from cProfile import Profile
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock


class Work(NamedTuple):
    calls: int
    looked_at: int
    copied: int


class _Meter:
    looked_at = 0
    copied = 0


_meter = _Meter()


class CountedText(str):
    """Text that counts how many of its characters are copied or searched through by its own methods."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> CountedText:
        part = CountedText(str.__getitem__(self, place))
        _meter.copied += len(part)
        return part

    def __add__(self, other: str) -> CountedText:
        joined = CountedText(str.__add__(self, other))
        _meter.copied += len(joined)
        return joined

    def __radd__(self, other: str) -> CountedText:
        joined = CountedText(str.__add__(other, self))
        _meter.copied += len(joined)
        return joined

    def __contains__(self, other: object) -> bool:
        place = str.find(self, str(other))
        _meter.looked_at += len(self) if place < 0 else place
        return place >= 0


class CountedBytes(bytes):
    """The same for bytes."""

    def __getitem__(self, place: Any) -> Any:
        part = bytes.__getitem__(self, place)
        if isinstance(part, int):
            return part
        _meter.copied += len(part)
        return CountedBytes(part)

    def __add__(self, other: Any) -> CountedBytes:
        joined = CountedBytes(bytes.__add__(self, bytes(other)))
        _meter.copied += len(joined)
        return joined


def _counted(result: Any) -> Any:
    if type(result) is str:
        return CountedText(result)
    return CountedBytes(result) if type(result) is bytes else result


def _copying(kind: type, name: str) -> Callable[..., Any]:
    original = getattr(kind, name)

    def method(self: Any, *given: Any, **options: Any) -> Any:
        _meter.looked_at += len(self)
        return _counted(original(self, *given, **options))

    return method


def _searching(kind: type, name: str) -> Callable[..., Any]:
    original = getattr(kind, name)

    def method(self: Any, wanted: Any, start: int = 0, end: int | None = None) -> Any:
        place = original(self, wanted, start, end)
        last = len(self) if end is None else min(end, len(self))
        _meter.looked_at += max(0, last - start if place < 0 else abs(place - (last if "r" in name else start)))
        return place

    return method


for _name in ("strip", "lstrip", "rstrip", "lower", "replace", "translate", "split", "splitlines", "isspace", "count"):
    setattr(CountedText, _name, _copying(str, _name))
    setattr(CountedBytes, _name, _copying(bytes, _name))
CountedText.encode = _copying(str, "encode")  # type: ignore[method-assign]
CountedBytes.decode = _copying(bytes, "decode")  # type: ignore[method-assign]
for _name in ("find", "rfind"):
    setattr(CountedText, _name, _searching(str, _name))
    setattr(CountedBytes, _name, _searching(bytes, _name))


class _CountedPattern:
    """A compiled pattern that counts how far it looked."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pattern, name)

    def _count(self, text: str, start: int, found: re.Match[str] | None, otherwise: int) -> re.Match[str] | None:
        _meter.looked_at += max(1, (found.end() if found else otherwise) - start)
        return found

    def search(self, text: str, start: int = 0, *end: int) -> re.Match[str] | None:
        return self._count(text, start, self._pattern.search(text, start, *end), min(len(text), *end, len(text)))

    def match(self, text: str, start: int = 0, *end: int) -> re.Match[str] | None:
        return self._count(text, start, self._pattern.match(text, start, *end), start)

    def fullmatch(self, text: str, start: int = 0, *end: int) -> re.Match[str] | None:
        return self._count(text, start, self._pattern.fullmatch(text, start, *end), start)

    def finditer(self, text: str, start: int = 0, *end: int) -> Iterator[re.Match[str]]:
        for found in self._pattern.finditer(text, start, *end):
            self._count(text, start, found, start)
            start = found.end()
            yield found

    def sub(self, replacement: Any, text: str, count: int = 0) -> str:
        _meter.looked_at += len(text)
        return self._pattern.sub(replacement, text, count)

    def split(self, text: str, maxsplit: int = 0) -> list[Any]:
        _meter.looked_at += len(text)
        return self._pattern.split(text, maxsplit)

    def findall(self, text: str) -> list[Any]:
        _meter.looked_at += len(text)
        return self._pattern.findall(text)


class _CountedDecoder(json.JSONDecoder):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        scan: Callable[[str, int], tuple[Any, int]] = self.scan_once  # type: ignore[has-type]

        def counted(text: str, start: int) -> tuple[Any, int]:
            end = start
            try:
                # As plain text: the standard library's own error counts lines, which is not our work.
                value, end = scan(str(text), start)
                return value, end
            except json.JSONDecodeError as error:
                end = max(end, error.pos, len(text) if "Unterminated" in error.msg else 0)
                raise
            finally:
                _meter.looked_at += end - start

        self.scan_once = counted


def _compile(pattern: Any, flags: int = 0) -> Any:
    compiled = _real_compile(pattern, flags)
    asked_by = sys._getframe(1).f_globals.get("__name__", "")
    return _CountedPattern(compiled) if asked_by.startswith("dragoman") else compiled


_real_compile = re.compile
_counted_modules: dict[str, ModuleType] = {}


@contextmanager
def counted(module: str = "dragoman.formats") -> Iterator[Any]:
    """A module of the package, loaded anew so that it counts; only inside this block."""
    ours = {name: module for name, module in sys.modules.items() if name.split(".")[0] == "dragoman"}
    for name in ours:
        del sys.modules[name]
    sys.modules.update(_counted_modules)
    try:
        with mock.patch.object(re, "compile", _compile), mock.patch.object(json, "JSONDecoder", _CountedDecoder):
            yield importlib.import_module(module)
            _counted_modules.update(
                {name: module for name, module in sys.modules.items() if name.split(".")[0] == "dragoman"}
            )
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == "dragoman"]:
            del sys.modules[name]
        sys.modules.update(ours)


def work_of(make_stage: Callable[[], Any], pieces: Iterable[str]) -> Work:
    """What it takes to feed these pieces and to close."""
    counted_pieces = [CountedText(piece) for piece in pieces]
    stage = make_stage()

    def run() -> None:
        for piece in counted_pieces:
            stage.feed(piece)
        stage.close()

    return work_of_call(run)


def work_of_call(run: Callable[[], Any]) -> Work:
    """What it takes to call this function."""
    _meter.looked_at = _meter.copied = 0
    profile = Profile(subcalls=False, builtins=True)
    profile.enable()
    try:
        run()
    finally:
        profile.disable()
    calls = sum(entry.callcount for entry in profile.getstats())
    return Work(calls, _meter.looked_at, _meter.copied)
