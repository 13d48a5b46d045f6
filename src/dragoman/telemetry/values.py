"""Values as they may be written down: plain, bounded, and without the secrets that are known."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dragoman.secrets import HumanSink
from dragoman.secrets.registered import SHORTEST


def hide_known(secrets: Iterable[str]) -> HumanSink:
    """What hides these secrets, and whatever looks like one, from the readers of a log."""
    return HumanSink([secret for secret in secrets if len("".join(secret.split())) >= SHORTEST])


class Bounds(msgspec.Struct, frozen=True):
    """How much of a value is kept; what is left out is always said."""

    text: int = 2_000
    entries: int = 100
    depth: int = 12


class Plainer:
    """Makes anything JSON: texts scrubbed and cut, long lists and deep nesting ended with a word about it."""

    def __init__(self, sink: HumanSink, bounds: Bounds) -> None:
        self._sink = sink
        self._bounds = bounds

    def text(self, text: str, length: int | None = None) -> str:
        """A text, scrubbed and then cut. `length` is its whole length, where only its beginning is at hand."""
        whole = len(text) if length is None else length
        most = self._bounds.text
        if whole <= most:
            return self._sink.text(text)
        # A secret may lie across the cut: read a little further, scrub, and then drop what could be half of one.
        margin = self._sink.longest
        beginning = self._sink.text(text[: most + margin])
        kept = beginning[: max(0, min(most, len(beginning) - margin))]
        return f"{kept}… [cut, {whole} characters in all]"

    @property
    def longest_text(self) -> int:
        """How much of the beginning of a text is enough for `text`."""
        return self._bounds.text + self._sink.longest

    def value(self, value: Any, depth: int = 0) -> Any:
        """Any value as JSON."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else str(value)
        if depth >= self._bounds.depth:
            return f"… [{type(value).__name__} nested deeper than {depth} cut]"
        if isinstance(value, msgspec.Struct):
            return self._mapping(msgspec.structs.asdict(value), depth)
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._entries(list(value), depth)
        if isinstance(value, bytes | bytearray):
            return f"[{len(value)} bytes]"
        # Somebody else's object: its own words may fail or never end, so only its kind is told.
        return f"[{type(value).__name__}]"

    def _mapping(self, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for position, (key, each) in enumerate(value.items()):
            if position >= self._bounds.entries:
                plain["…"] = f"[{len(value) - position} of {len(value)} entries cut]"
                break
            plain[self.text(str(key))] = self.value(each, depth + 1)
        return plain

    def _entries(self, values: list[Any], depth: int) -> list[Any]:
        kept = [self.value(each, depth + 1) for each in values[: self._bounds.entries]]
        if len(values) > len(kept):
            kept.append(f"… [{len(values) - len(kept)} of {len(values)} entries cut]")
        return kept
