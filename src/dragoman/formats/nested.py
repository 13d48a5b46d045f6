"""Nested XML elements, and their values according to the schema."""

from __future__ import annotations

import re
from typing import Any

from dragoman.args.coercion import read_text
from dragoman.formats.cursor import BrokenCall
from dragoman.formats.entities import decode_entities
from dragoman.jsonschema.references import resolve
from dragoman.types import JsonObject


class Element:
    """A tag with its text or its children."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[Element] = []

    def value(self, schema: JsonObject | None, root: JsonObject | None) -> Any:
        """Return the value according to the schema. The reader limits the depth, so recursion is safe."""
        if not self.children:
            return read_text(self.text, schema, root=root).value
        if self._is_list(schema, root):
            items = _pick(schema, root, "items")
            return [child.value(items, root) for child in self.children]
        properties = _pick(schema, root, "properties") or {}
        value: JsonObject = {}
        for child in self.children:
            if child.name in value:
                raise BrokenCall(f"{child.name!r} comes twice in {self.name!r}")
            inner = properties.get(child.name)
            value[child.name] = child.value(inner if isinstance(inner, dict) else None, root)
        return value

    def _is_list(self, schema: JsonObject | None, root: JsonObject | None) -> bool:
        names = {child.name for child in self.children}
        properties, items = _pick(schema, root, "properties"), _pick(schema, root, "items")
        if names == {"item"}:
            return items is not None or not (properties and "item" in properties)
        return len(names) == 1 and items is not None and properties is None


def _pick(schema: JsonObject | None, root: JsonObject | None, keyword: str) -> JsonObject | None:
    """Return a keyword of the schema, or of the first branch of a union that has it."""
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
        target = resolve(here.get("$ref"), root)
        pending.append(target if isinstance(target, dict) else None)
    return None


_tag = re.compile(r"<(/?)([A-Za-z_][\w.\-]{0,99})\s*>").search
_DEEPEST, _MOST = 16, 10_000
_CONTAINERS = ("array", "object")


def read_nested(text: str, schema: JsonObject | None, root: JsonObject | None) -> Any:
    """Return the list or the object that a text of nested elements states; None if it is no such text.

    Only a parameter that is nothing but a list or an object can hold elements: in any other, they are text.
    """
    if schema is None or schema.get("type") not in _CONTAINERS or not text.lstrip().startswith("<"):
        return None
    stack = [Element("")]
    end = 0
    for _ in range(_MOST):
        tag = _tag(text, end)
        said = text[end : tag.start() if tag is not None else len(text)]
        if tag is None:
            return stack[0].value(schema, root) if len(stack) == 1 and not said.strip() else None
        here = stack[-1]
        is_leaf = bool(tag[1]) and not here.children
        if (said.strip() and not is_leaf) or len(stack) > _DEEPEST or (tag[1] and tag[2] != here.name):
            return None
        if tag[1]:
            here.text = "" if here.children else decode_entities(said.strip())
            stack.pop()
        else:
            here.children.append(child := Element(tag[2]))
            stack.append(child)
        end = tag.end()
    return None
