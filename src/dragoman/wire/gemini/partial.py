"""A call whose arguments come in pieces, each with the place where it belongs, as Vertex streams them."""

from __future__ import annotations

import re
from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.gemini.parts import tell
from dragoman.wire.gemini.words import camel
from dragoman.wire.values import BROKEN, as_text, dicts, parse

_DEEPEST = 64
_step = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,9})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""").match
_unescape = re.compile(r"\\(.)", re.DOTALL).sub


def read_path(path: str) -> list[str | int] | None:
    """The steps of a JSON path such as `$.places[0]['name']`; None for one that cannot be followed."""
    steps: list[str | int] = []
    position = 1
    while position < len(path):
        found = _step(path, position)
        if found is None or len(steps) == _DEEPEST:
            return None
        bare, index, *quoted = found.groups()
        name = next((_unescape(r"\1", text) for text in quoted if text is not None), bare)
        steps.append(int(index) if index is not None else name)
        position = found.end()
    return steps if path.startswith("$") and steps else None


class PartialCall:
    """The arguments of one call in the making. `sound` is False once a piece came that fits nowhere."""

    def __init__(self, arguments: Any) -> None:
        copied = parse(tell(arguments)) if isinstance(arguments, dict) else {}
        self._root: JsonObject = copied if copied is not BROKEN else {}
        self._growing: dict[str, tuple[Any, str | int, list[str]]] = {}  # texts that will continue, by their path
        self.sound = True

    def add(self, pieces: Any) -> None:
        for piece in dicts(pieces):
            self._add(camel(piece))

    def _add(self, piece: JsonObject) -> None:
        path = as_text(piece.get("jsonPath"))
        text = piece.get("stringValue")
        growing = self._growing.get(path)
        if growing is not None and (text is None or isinstance(text, str)):
            growing[2].append(text or "")
        else:
            place = self._make_place(path)
            if place is None:
                self.sound = False
                return
            container, key = place
            if isinstance(text, str):
                growing = self._growing[path] = (container, key, [text])
            else:
                container[key] = _value_of(piece)
        if growing is not None and piece.get("willContinue") is not True:
            self._settle(path)

    def _settle(self, path: str) -> None:
        container, key, pieces = self._growing.pop(path)
        container[key] = "".join(pieces)

    def _make_place(self, path: str) -> tuple[Any, str | int] | None:
        """The container and key that a path leads to, with everything on the way there."""
        steps = read_path(path)
        if steps is None:
            return None
        at: Any = self._root
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if not _takes(at, step):
                return None
            fresh: Any = None if following is None else [] if isinstance(following, int) else {}
            if isinstance(at, list) and step == len(at):
                at.append(fresh)
            elif isinstance(at, dict) and step not in at:
                at[step] = fresh
            if following is None:
                return at, step
            at = at[step]
        return None

    @property
    def is_growing(self) -> bool:
        """Whether a text was announced to continue and has not ended."""
        return bool(self._growing)

    def finish(self) -> JsonObject:
        """The arguments as far as they came."""
        for path in list(self._growing):
            self._settle(path)
        return self._root


def _takes(container: Any, step: str | int) -> bool:
    """Whether a step can be made here: names into objects, and in lists no further than one behind the last."""
    if isinstance(step, int):
        return isinstance(container, list) and step <= len(container)
    return isinstance(container, dict)


def _value_of(piece: JsonObject) -> Any:
    for name in ("numberValue", "boolValue"):
        if piece.get(name) is not None:
            return piece[name]
    return None
