"""Hides secrets that are known beforehand, however they are written and wherever a line breaks them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from dragoman.errors import ConfigError
from dragoman.scrubbing.encodings import needles, squeeze
from dragoman.scrubbing.outbox import Outbox
from dragoman.scrubbing.styles import Render
from dragoman.scrubbing.view import Span
from dragoman.scrubbing.wording import word_set

SHORTEST: Final = 6
_STEP: Final = 131_072
_HEAD: Final = 3
# A form at least this long is also found when blanks or breaks stand in it.
_STRETCHES: Final = 12
_RANK: Final = 9
# Spans that overlap in a row are cut at this length, so that they can be let go.
_LONGEST: Final = 65_536

_PIECES = re.compile(r"\S+")
_NAME = re.compile(r"[^a-z0-9]+")
# Not a secret although it may stand where one is expected: keys of local servers, and stand-ins.
_STAND_INS: Final = word_set(
    """
    ollama lmstudio lm-studio not-needed no-key-required no-key none null empty dummy default localhost local test
    placeholder changeme password secret api-key apikey api_key your-api-key your_api_key unused
    """
)


class Secrets:
    """Known secrets with all their forms, worked out once and shared by every scrubber that gets them."""

    __slots__ = ("_forms", "_heads", "_short", "longest", "shortest", "values")

    def __init__(self, secrets: Iterable[str] | Mapping[str, str] = ()) -> None:
        named = secrets.items() if isinstance(secrets, Mapping) else (("secret", value) for value in secrets)
        self._forms: dict[str, str] = {}
        self.values: set[str] = set()
        for name, value in named:
            _check(name, value)
            self.values.add(value.strip())
            kind = _NAME.sub("_", name.lower()).strip("_")[:40] or "secret"
            for form in needles(value):
                self._forms.setdefault(form, kind)
        self.longest = max(map(len, self._forms), default=0)
        self.shortest = min(map(len, self._forms), default=0)
        self._heads: dict[str, list[str]] = {}
        self._short: set[str] = set()
        for form in self._forms:
            self._heads.setdefault(form[:_HEAD], []).append(form)
            self._short.update(form[:size] for size in range(1, _HEAD))

    def __bool__(self) -> bool:
        return bool(self._forms)

    def may_occur(self, text: str) -> bool:
        """False only where no form stands in the text; most are too short for one, or have no beginning of one."""
        if len(text) < self.shortest or not self._forms:
            return False
        squeezed = squeeze(text)
        return any(head in squeezed for head in self._heads) and next(self.find(squeezed), None) is not None

    def find(self, squeezed: str) -> Iterator[tuple[int, int, str]]:
        """Every form in a text without blanks: where it begins and ends, and its kind."""
        for form, kind in self._forms.items():
            at = squeezed.find(form)
            while at >= 0:
                yield at, at + len(form), kind
                at = squeezed.find(form, at + 1)

    def begins(self, squeezed: str) -> int:
        """Where the end of a text without blanks may be the beginning of a form; its length if nowhere."""
        size = len(squeezed)
        lowest = max(0, size - self.longest + 1)
        best = size
        for head, forms in self._heads.items():
            at = squeezed.find(head, lowest)
            while 0 <= at < best:
                tail = squeezed[at:]
                if any(len(form) > len(tail) and form.startswith(tail) for form in forms):
                    best = at
                at = squeezed.find(head, at + 1)
        for length in range(1, _HEAD):
            if squeezed[-length:] in self._short:
                best = min(best, size - length)
        return max(best, 0)


def _check(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"a registered secret must be a string, not {type(value).__name__}")
    if len(squeeze(value)) < SHORTEST:
        raise ConfigError(
            f"the registered secret {name!r} is shorter than {SHORTEST} characters: hiding it would hide ordinary text",
            hint="register longer secrets only; `worth_hiding(value)` says which are",
        )


def worth_hiding(value: str | None) -> bool:
    """Whether a value of a configuration is a secret: long enough, and no stand-in for one."""
    if value is None or len(squeeze(value)) < 8 or value.strip().lower() in _STAND_INS:
        return False
    return len(set(value)) > 3


class RegisteredStage:
    """Hides the known secrets of a text that comes in pieces."""

    def __init__(self, secrets: Secrets, render: Render) -> None:
        self._secrets = secrets
        self._box = Outbox(render)

    def feed(self, piece: str) -> str:
        return "".join(self._take(piece[at : at + _STEP]) for at in range(0, len(piece), _STEP))

    def close(self) -> str:
        return self._release(final=True)

    def _take(self, piece: str) -> str:
        self._box.text += piece
        return self._release(final=False)

    def _release(self, *, final: bool) -> str:
        box = self._box
        held = box.text[box.done :]
        squeezed = squeeze(held)
        place = _placer(held, box.done)
        box.spans = []
        for first, last, kind in self._secrets.find(squeezed):
            start, end = place(first), place(last - 1) + 1
            exact = end - start == last - first or box.text[start:end] in self._secrets.values
            if last - first >= _STRETCHES or exact:
                box.spans.append(Span(start, end, kind, _RANK))
        if final:
            return box.release(len(box.text))[0]
        begins = self._secrets.begins(squeezed)
        return box.release(place(begins) if begins < len(squeezed) else len(box.text))[0]


def _placer(held: str, offset: int) -> Callable[[int], int]:
    """Says where a character of the text without blanks stands in the text. The table is made when it is needed."""
    starts: list[int] = []
    places: list[int] = []

    def place(index: int) -> int:
        if not starts:
            total = 0
            for piece in _PIECES.finditer(held):
                starts.append(total)
                places.append(piece.start())
                total += piece.end() - piece.start()
        at = bisect_right(starts, index) - 1
        return offset + places[at] + index - starts[at]

    return place
