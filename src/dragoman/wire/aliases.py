"""Aliases: tool names and call ids in the form that a wire requires, and the mapping back."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.types import ToolCall

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_DIGEST_LENGTH = 7


class NameRule(Struct, frozen=True):
    """The rule for tool names: the forbidden characters, a pattern for the whole name, and the maximal length."""

    forbidden: str
    pattern: str
    limit: int


class IdRule(Struct, frozen=True):
    """The rule for the ids of calls."""

    pattern: str
    limit: int


PLAIN_NAMES = NameRule(r"[^a-zA-Z0-9_-]", r"[a-zA-Z0-9_-]+", 64)
"""OpenAI's rule, which most others share."""
FREE_NAMES = NameRule(r"(?!)", r"(?s).+", 1 << 30)
FREE_IDS = IdRule(r"(?s).+", 1 << 30)


class Aliases(Struct, frozen=True):
    """The names and ids of one encoded request, with the mapping from the wire's to ours."""

    names: dict[str, str] = field(default_factory=dict)
    """Name on the wire -> our name; only those that differ."""
    ids: dict[str, str] = field(default_factory=dict)
    """Id on the wire -> our id, for every call of the history."""
    undo: dict[str, Any] = field(default_factory=dict)
    """Our name of a tool -> what the schema compiler changed in its parameters."""

    def name(self, on_wire: str) -> str:
        return self.names.get(on_wire, on_wire)


def shorten(text: str, length: int) -> str:
    """Return a digest of letters and digits; equal texts give equal digests."""
    number = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big")
    word = ""
    for _ in range(length):
        number, rest = divmod(number, 62)
        word += _ALPHABET[rest]
    return word


class Namer:
    """Assigns tools their names on one wire. A valid name stays; another is rewritten, and a digest makes it unique."""

    def __init__(self, rule: NameRule, names: Iterable[str], limit: int = 0) -> None:
        self._limit = limit or rule.limit
        self._fits = re.compile(rule.pattern).fullmatch
        self._clean = re.compile(rule.forbidden).sub
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()
        self._is_fork = False
        self._back: dict[str, str] | None = None
        # Valid names are reserved first, so that no rewritten name can take their place.
        wanted = list(dict.fromkeys(names))
        for name in wanted:
            if self._is_fit(name):
                self._given[name] = name
                self._taken.add(name)
        for name in wanted:
            self.name(name)

    def fork(self) -> Namer:
        """Return a copy with the same names so far."""
        twin = Namer.__new__(Namer)
        twin.__dict__.update(self.__dict__)
        # Most conversations name no other tools, so the names are copied when one is added.
        twin._is_fork = True
        return twin

    def _is_fit(self, name: str) -> bool:
        return len(name) <= self._limit and self._fits(name) is not None

    def name(self, ours: str) -> str:
        """Return the name on the wire."""
        found = self._given.get(ours)
        if found is None:
            found = ours if self._is_fit(ours) and ours not in self._taken else self._rewrite(ours)
            if self._is_fork:
                self._given, self._taken, self._is_fork = self._given.copy(), self._taken.copy(), False
            self._given[ours] = found
            self._taken.add(found)
            self._back = None
        return found

    def _rewrite(self, ours: str) -> str:
        clean = self._clean("_", ours) or "_"
        if self._fits(clean) is None:
            clean = "_" + clean
        # A name that differs only in dots and slashes stays readable; it gets a digest only if it is not unique.
        if len(clean) <= self._limit and clean not in self._taken:
            return clean
        salt = 0
        while True:
            digest = shorten(f"{ours}\0{salt}" if salt else ours, _DIGEST_LENGTH)
            name = f"{clean[: self._limit - _DIGEST_LENGTH - 1]}_{digest}"
            if name not in self._taken:
                return name
            salt += 1

    @property
    def back(self) -> dict[str, str]:
        """Return the mapping from the wire's names to ours, for those that differ."""
        if self._back is None:
            self._back = {wire: ours for ours, wire in self._given.items() if wire != ours}
        return self._back


@lru_cache(maxsize=64)
def _fits(pattern: str) -> Callable[[str], re.Match[str] | None]:
    return re.compile(pattern).fullmatch


class Identifier:
    """Assigns calls their ids on one wire, unique within the request."""

    def __init__(self, rule: IdRule, pattern: str = "") -> None:
        self._fits = _fits(pattern or rule.pattern)
        self._limit = rule.limit
        self._taken: set[str] = set()
        self._salts: dict[str, int] = {}
        """The next salt for each text: all before it are taken."""
        self.back: dict[str, str] = {}
        """From the wire's ids to ours."""

    def identify(self, ours: str, *, reply: str = "", keep: bool = False) -> str:
        """Return the id on the wire for the next call; a second call with the same id gets another one.

        An id that is rewritten depends on the id of its `reply`: some models number the calls of each reply anew. With
        `keep` an id stays whatever its characters are.
        """
        if ours and len(ours) <= self._limit and ours not in self._taken and (keep or self._fits(ours)):
            found = ours
        else:
            found = self._make(f"{ours}\0{reply}" if reply else ours)
        self._taken.add(found)
        self.back[found] = ours
        return found

    def rename(self, call: ToolCall) -> ToolCall:
        """Return the call with the id that it has on the wire."""
        found = self.identify(call.id)
        return call if found == call.id else replace(call, id=found)

    def _make(self, ours: str) -> str:
        salt = self._salts.get(ours, 0)
        while True:
            # Nine letters and digits, which every provider accepts.
            word = shorten(f"{ours}\0{salt}" if salt else ours, 9)
            salt += 1
            if word not in self._taken:
                self._salts[ours] = salt
                return word
