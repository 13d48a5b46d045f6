"""`Undo`: reverts, in the arguments of a call, the changes that the compiler made to the schema."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field

from dragoman.jsonschema.fit import resembles
from dragoman.jsonschema.keywords import child_path
from dragoman.types import Change, JsonObject

_MAX_DEPTH = 200
"""Below this depth, arguments stay unchanged: no compiled schema is so deep."""


class Branch(Struct, frozen=True):
    """One branch of a union; its changes are reverted only in values that fit it."""

    schema: JsonObject
    undo: Undo


class Undo(Struct, frozen=True):
    """The changes to revert in a value and its parts. It is falsy if there are none."""

    absent: frozenset[str] = frozenset()
    """Properties, by their names on the wire, for which null means "absent"."""
    names: dict[str, str] = field(default_factory=dict)
    """The original names of renamed properties."""
    values: dict[str, Any] = field(default_factory=dict)
    """The original values of an enum that was written as strings."""
    pairs: bool = False
    """The value is an object that was written as a list of keys and values."""
    members: dict[str, Undo] = field(default_factory=dict)
    items: Undo | None = None
    prefix: tuple[Undo, ...] = ()
    others: Undo | None = None
    """For the values of all properties that are not in `members`."""
    branches: tuple[Branch, ...] = ()
    every: tuple[Undo, ...] = ()
    """All of these, one after the other."""
    reference: str = ""
    """The name of the definition whose Undo applies."""
    definitions: dict[str, Undo] = field(default_factory=dict)
    root: JsonObject = field(default_factory=dict)
    """The compiled schema, for the references in branches."""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in _ACTIONS)


_ACTIONS = [name for name in Undo.__struct_fields__ if name not in ("definitions", "root")]
NOTHING_TO_UNDO = Undo()


def restore(arguments: JsonObject, undo: Undo) -> tuple[JsonObject, tuple[Change, ...]]:
    """Return the arguments in the form of the tool's own schema, and the changes."""
    if not undo:
        return arguments, ()
    way = _Way(undo)
    restored = way.undo(arguments, undo, "$", 0)
    # The root of every compiled schema is an object, and no rule above makes anything else of one.
    return (restored if isinstance(restored, dict) else arguments), tuple(way.changes)


class _Way:
    """One walk through arguments."""

    __slots__ = ("_definitions", "_root", "changes")

    def __init__(self, undo: Undo) -> None:
        self._root = undo.root
        self._definitions = undo.definitions
        self.changes: list[Change] = []

    def undo(self, value: Any, undo: Undo, path: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            return value
        if undo.reference:
            known = self._definitions.get(undo.reference)
            return value if known is None else self.undo(value, known, path, depth + 1)
        for each in undo.every:
            value = self.undo(value, each, path, depth + 1)
        for branch in undo.branches:
            if resembles(value, branch.schema, self._root):
                value = self.undo(value, branch.undo, path, depth + 1)
                break
        if isinstance(value, str):
            return self._undo_text(value, undo, path)
        if isinstance(value, list):
            value = self._undo_list(value, undo, path, depth)
            return self._undo_pairs(value, undo, path) if undo.pairs else value
        return self._undo_object(value, undo, path, depth) if isinstance(value, dict) else value

    def _undo_text(self, value: str, undo: Undo, path: str) -> Any:
        if value not in undo.values:
            return value
        meant = undo.values[value]
        self.changes.append(Change(path, "text_to_enum_value", value, meant))
        return meant

    def _undo_list(self, value: list[Any], undo: Undo, path: str, depth: int) -> list[Any]:
        if undo.items is None and not undo.prefix:
            return value
        restored = []
        for position, item in enumerate(value):
            inner = undo.prefix[position] if position < len(undo.prefix) else undo.items
            restored.append(self.undo(item, inner, child_path(path, position), depth + 1) if inner else item)
        return restored

    def _undo_pairs(self, value: list[Any], undo: Undo, path: str) -> Any:
        restored: JsonObject = {}
        for pair in value:
            if not isinstance(pair, dict) or pair.keys() != {"key", "value"} or not isinstance(pair["key"], str):
                return value
            if pair["key"] in restored:
                return value
            restored[pair["key"]] = pair["value"]
        self.changes.append(Change(path, "pairs_to_object", value, restored))
        return restored

    def _undo_object(self, value: JsonObject, undo: Undo, path: str, depth: int) -> JsonObject:
        restored: JsonObject = {}
        for name, member in value.items():
            true_name = undo.names.get(name, name)
            place = child_path(path, true_name)
            if member is None and name in undo.absent:
                self.changes.append(Change(place, "null_to_absent", None, None))
                continue
            if true_name != name:
                if true_name in value:
                    true_name = name
                else:
                    self.changes.append(Change(place, "name_restored", name, true_name))
            inner = undo.members.get(name, undo.others)
            restored[true_name] = self.undo(member, inner, place, depth + 1) if inner else member
        return restored
