"""Which output item a frame speaks of: by its id, by its index, or by its order, for servers get all of these wrong."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.values import as_text


class OutputItem:
    """One item of the output, and what has come of it."""

    __slots__ = (
        "call_id",
        "done",
        "ended",
        "fields",
        "heard",
        "id",
        "key",
        "kind",
        "opened",
        "parts",
        "pieces",
        "refusals",
        "whole",
    )

    def __init__(self, number: int, kind: str, fields: JsonObject) -> None:
        self.key = ("item", number)
        self.kind = kind
        self.fields = fields
        self.id = as_text(fields.get("id"))
        self.call_id = as_text(fields.get("call_id"))
        self.done = False
        self.opened = False
        """Whether the builder knows of this call."""
        self.heard: set[tuple[str, int]] = set()
        """The parts of which text came."""
        self.ended: set[tuple[str, int]] = set()
        self.parts: dict[tuple[str, int], JsonObject] = {}
        self.refusals: set[tuple[str, int]] = set()
        self.pieces: list[str] = []
        """Arguments that came before the name, and the input of a custom call."""
        self.whole: Any = None

    @property
    def known(self) -> JsonObject:
        """What the beginning of a message said of it."""
        return {name: self.fields[name] for name in ("id", "phase") if self.fields.get(name) is not None}

    def refusal_at(self, place: tuple[str, int]) -> JsonObject:
        return {"type": "refusal" if place in self.refusals else "output_text"}


class Items:
    """All items of one response."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self._by_id: dict[str, OutputItem] = {}
        self._by_index: dict[int, OutputItem] = {}

    def find(self, frame: JsonObject, kind: str) -> OutputItem:
        """The item that a piece belongs to; a new one if none of its kind is there."""
        identity = frame.get("item_id")
        item = self._by_id.get(identity) if isinstance(identity, str) else None
        if item is None or item.kind != kind:
            item = self._at(frame)
        if item is None and "output_index" not in frame and self.all:
            item = self.all[-1]
        if item is None or item.kind != kind:
            item = self.add(frame, {"type": kind, **({"id": identity} if isinstance(identity, str) else {})})
        return item

    def add(self, frame: JsonObject, fields: JsonObject) -> OutputItem:
        item = OutputItem(len(self.all), as_text(fields.get("type")), fields)
        self.all.append(item)
        if item.id:
            self._by_id[item.id] = item
        index = frame.get("output_index")
        if type(index) is int:
            self._by_index[index] = item
        return item

    def close(self, frame: JsonObject, fields: JsonObject) -> OutputItem:
        """The item whose end this is. Some servers give it a new id, others number all items the same."""
        found = self._same(fields)
        if found is not None:
            return found
        item = self._at(frame)
        if item is None and "output_index" not in frame and self.all:
            item = self.all[-1]
        if item is None or item.done or not _may_be(item, fields):
            return self.add(frame, fields)
        item.call_id = item.call_id or as_text(fields.get("call_id"))
        return item

    def match(self, output: list[JsonObject]) -> list[tuple[OutputItem, JsonObject]]:
        """The final output beside what came of it: by id where possible, else in order; the rest had never come."""
        found = [self._same(fields) for fields in output]
        claimed = {id(item) for item in found if item is not None}
        free: dict[str, list[OutputItem]] = {}
        for item in reversed(self.all):
            if id(item) not in claimed:
                free.setdefault(item.kind, []).append(item)
        pairs: list[tuple[OutputItem, JsonObject]] = []
        for fields, same in zip(output, found, strict=True):
            waiting = free.get(as_text(fields.get("type"))) if same is None else None
            item = waiting.pop() if waiting and _may_be(waiting[-1], fields) else same or self.add({}, fields)
            item.call_id = item.call_id or as_text(fields.get("call_id"))
            pairs.append((item, fields))
        return pairs

    def _same(self, fields: JsonObject) -> OutputItem | None:
        item = self._by_id.get(as_text(fields.get("id")))
        return item if item is not None and _may_be(item, fields) else None

    def _at(self, frame: JsonObject) -> OutputItem | None:
        index = frame.get("output_index")
        return self._by_index.get(index) if type(index) is int else None


def _may_be(item: OutputItem, fields: JsonObject) -> bool:
    call_id = as_text(fields.get("call_id"))
    return item.kind == fields.get("type") and (not call_id or not item.call_id or call_id == item.call_id)
