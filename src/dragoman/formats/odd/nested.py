"""Elements inside elements, and the values that they stand for by their schema."""

from __future__ import annotations

from typing import Any

from dragoman.args.coercion import read_text
from dragoman.formats.cursor import Spoilt
from dragoman.types import JsonObject


class Element:
    """A tag with the text or the children inside it."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[Element] = []

    def value(self, schema: JsonObject | None, root: JsonObject | None) -> Any:
        """The value by its schema. Depth is bounded by the reader, so that recursion is safe."""
        if not self.children:
            return read_text(self.text, schema, root=root).value
        if self._is_list(schema, root):
            items = _pick(schema, root, "items")
            return [child.value(items, root) for child in self.children]
        properties = _pick(schema, root, "properties") or {}
        value: JsonObject = {}
        for child in self.children:
            if child.name in value:
                raise Spoilt(f"{child.name!r} comes twice in {self.name!r}")
            inner = properties.get(child.name)
            value[child.name] = child.value(inner if isinstance(inner, dict) else None, root)
        return value

    def _is_list(self, schema: JsonObject | None, root: JsonObject | None) -> bool:
        if any(child.name != "item" for child in self.children):
            return False
        properties = _pick(schema, root, "properties")
        return _pick(schema, root, "items") is not None or not (properties and "item" in properties)


def _pick(schema: JsonObject | None, root: JsonObject | None, keyword: str) -> JsonObject | None:
    """A keyword of the schema, or of the first branch of a union that has it."""
    pending = [schema]
    for _ in range(50):
        if not pending:
            break
        here = pending.pop(0)
        if not isinstance(here, dict):
            continue
        if isinstance(here.get(keyword), dict):
            found: JsonObject = here[keyword]
            return found
        pending.extend(
            branch
            for union in ("anyOf", "oneOf", "allOf")
            if isinstance(here.get(union), list)
            for branch in here[union]
        )
        pending.append(_follow(here.get("$ref"), root))
    return None


def _follow(reference: object, root: JsonObject | None) -> JsonObject | None:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node: Any = root
    for step in reference[2:].split("/"):
        node = node.get(step) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None
