"""A call, taken apart into what must stand together in a text for the text to hold that call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dragoman.trust.echo_views import MARKS, bones, compact, piece, unescape, view
from dragoman.types import ToolCall

_MOST_LEAVES = 200
_hump = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Leaf:
    """A value of a call: the ways in which it may be written, and the key it belongs to."""

    __slots__ = ("forms", "key", "weight")

    def __init__(self, key: str, forms: tuple[str, ...]) -> None:
        self.key = key
        self.forms = forms
        self.weight = len(forms[0])


class Quarry:
    """What is looked for: a name, keys and values, each as it reads in the plain view of a text."""

    __slots__ = ("_compacted", "is_vague", "keys", "leaves", "names", "optional", "raw", "weight")

    def __init__(self, call: ToolCall) -> None:
        self.names = _spellings(call.name)
        self.keys: dict[str, None] = {}
        self.optional: set[str] = set()
        """Keys without a value, which some formats leave out."""
        self.leaves: list[Leaf] = []
        self.is_vague = False
        """Some value consists of punctuation alone, and the view cannot tell it from another."""
        self._collect(call)
        self.weight = sum(leaf.weight for leaf in self.leaves) + sum(map(len, self.keys))
        self.raw = _read_raw(call)
        self._compacted: Quarry | None = None

    @property
    def has_arguments(self) -> bool:
        return bool(self.keys or self.leaves or self.is_vague)

    @property
    def compacted(self) -> Quarry:
        """The same for texts whose words may be broken anywhere."""
        if self._compacted is None:
            other = object.__new__(Quarry)
            other.names = tuple({compact(name): None for name in self.names})
            other.keys = dict.fromkeys(map(compact, self.keys))
            other.optional = set(map(compact, self.optional))
            other.leaves = [Leaf(compact(leaf.key), tuple(map(compact, leaf.forms))) for leaf in self.leaves]
            other.is_vague = self.is_vague
            other.weight = sum(leaf.weight for leaf in other.leaves) + sum(map(len, other.keys))
            other.raw = compact(self.raw)
            other._compacted = other
            self._compacted = other
        return self._compacted

    def _collect(self, call: ToolCall) -> None:
        written = {piece(_spell(change.after)): _spell(change.before) for change in call.changes}
        for key, value in _walk(call.arguments):
            plain = piece(key)
            if value is None:
                self.optional.add(plain)
                continue
            if plain:
                self.keys[plain] = None
            text = _spell(value)
            forms = [form for form in map(piece, _forms(value, text)) if form]
            if forms and forms[0] in written:
                # As the model wrote it, before it was made to fit the schema.
                forms.append(piece(written[forms[0]]) or forms[0])
            if forms:
                self.leaves.append(Leaf(plain, tuple(dict.fromkeys(forms))))
            elif text.strip():
                self.is_vague = True
            if len(self.leaves) >= _MOST_LEAVES:
                return


def fingerprint(call: ToolCall) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The same for two calls that say the same, however they were spelt."""
    leaves = sorted((piece(key), _spell(value).strip().casefold()) for key, value in _walk(call.arguments))
    return bones(unescape(call.name)), tuple(leaves)


def _walk(arguments: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every value that is no container, with the nearest key above it. A container that is empty is an empty text."""
    pending: list[tuple[str, Any]] = [(str(key), value) for key, value in reversed(arguments.items())]
    while pending:
        key, value = pending.pop()
        if isinstance(value, dict) and value:
            yield key, ""
            pending += [(str(inner), each) for inner, each in reversed(value.items())]
        elif isinstance(value, list | tuple) and value:
            pending += [(key, each) for each in reversed(value)]
        else:
            yield key, "" if isinstance(value, dict | list | tuple) else value


def _spell(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    try:
        return str(value)
    except Exception:
        # More digits than Python is willing to write.
        return ""


def _forms(value: object, text: str) -> tuple[str, ...]:
    if isinstance(value, float):
        return text, repr(value)
    return (text,)


def _spellings(name: str) -> tuple[str, ...]:
    """A name as its words, and as one word: dashes, underscores, dots and humps are written in many ways."""
    words = piece(name)
    humps = piece(_hump.sub(" ", name))
    return tuple(form for form in dict.fromkeys((words, humps, bones(unescape(name)))) if form)


def _read_raw(call: ToolCall) -> str:
    """The call as it was written. A native call has only its arguments there, and those alone are no call."""
    if call.provenance is None or call.provenance.channel == "native" or not call.raw:
        return ""
    # An empty pair at the end is part of what it says.
    return view(unescape(call.raw)).strip(MARKS[:3])
