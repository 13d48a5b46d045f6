"""Remembers what was hidden, so that a tool that writes can put it back exactly."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_PLACEHOLDER = re.compile(r"(\"?)(\[redacted:[a-z0-9_]{1,64}#(?P<tag>[A-Za-z0-9]{1,64}-)?(?P<number>\d{1,9})\])(\"?)")


class Restored(msgspec.Struct, frozen=True):
    """A text with its secrets put back, and the placeholders that nothing was known about."""

    text: str
    unknown: tuple[str, ...] = ()


class Vault:
    """The secrets of one run, by placeholder. The same secret of the same kind always has the same placeholder.

    `tag` goes into every placeholder. Give each run another one, so that a text that was scrubbed in one run says
    nothing in the next.
    """

    def __init__(self, tag: str = "") -> None:
        self._tag: Final = re.sub(r"[^A-Za-z0-9]", "", tag)
        self._values: list[str] = []
        self._bare: list[bool] = []
        self._numbers: dict[tuple[str, str, bool], int] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Vault({len(self._values)} secrets)"

    def hide(self, kind: str, value: str, bare: bool = False) -> str:
        """Keep a value; returns the placeholder to show instead of it, in quotes if the value had none."""
        key = (kind, value, bare)
        number = self._numbers.get(key)
        if number is None:
            self._values.append(value)
            self._bare.append(bare)
            number = self._numbers[key] = len(self._values)
        tag = f"{self._tag}-" if self._tag else ""
        placeholder = f"[redacted:{kind}#{tag}{number}]"
        return f'"{placeholder}"' if bare else placeholder

    def extend(self, value: str) -> None:
        """The value that was kept last goes on: it was too long to come in one piece."""
        if self._values and value:
            self._values[-1] += value

    def restore(self, text: str) -> Restored:
        """Put the hidden values back where their placeholders stand."""
        unknown: list[str] = []

        def put_back(found: re.Match[str]) -> str:
            opening, placeholder, closing = found[1], found[2], found[5]
            number = int(found["number"])
            if (found["tag"] or "").rstrip("-") != self._tag or not 1 <= number <= len(self._values):
                unknown.append(placeholder)
                return found.group()
            value = self._values[number - 1]
            return value if self._bare[number - 1] and opening and closing else f"{opening}{value}{closing}"

        return Restored(_PLACEHOLDER.sub(put_back, text), tuple(unknown))
