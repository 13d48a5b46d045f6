"""Spans of a text that hold a secret, and the output with these spans hidden."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from dragoman.errors import ConfigError, did_you_mean
from dragoman.secrets.vendors import word_set

# --------------------------------------------------------------------------------------------------------------------
# How a hidden secret is shown: by its kind, or by its first four characters as older programs do.

# The kind, the value, and whether it stood without quotes where text needs them: a number of JSON.
Render = Callable[[str, str, bool], str]


def by_kind(kind: str, value: str, bare: bool = False) -> str:
    """`[redacted:github_token]`: nothing of the value is left."""
    return f'"[redacted:{kind}]"' if bare else f"[redacted:{kind}]"


def by_beginning(kind: str, value: str, bare: bool = False) -> str:
    """`ghp_*[REDACTED]`: the first four characters, if the value is longer than four."""
    beginning = value[:4] if len(value) > 4 else ""
    # A piece of an escape would break the JSON around it, and a break the line.
    if not beginning.isprintable() or any(mark in beginning for mark in "\\\"'[*"):
        beginning = ""
    return f'"{beginning}*[REDACTED]"' if bare else f"{beginning}*[REDACTED]"


STYLES: Final[dict[str, Render]] = {"kind": by_kind, "seed": by_beginning}


def get_style(name: str) -> Render:
    """The way of showing with this name."""
    try:
        return STYLES[name]
    except KeyError:
        known = ", ".join(STYLES)
        raise ConfigError(
            f"unknown style of scrubbing {name!r}{did_you_mean(name, STYLES)}",
            hint=f"use one of: {known}",
        ) from None


# --------------------------------------------------------------------------------------------------------------------
# A stretch of text as the rules see it: the text, a copy in lower case to search, and its runs of characters.

# How far a rule looks: back from where it starts, along a run, and ahead.
BEHIND: Final = 512
RUN: Final = 128
VALUE: Final = 16_384
AHEAD: Final = VALUE + 1024
# More than any pattern looks ahead, or than a name is long.
_OVERLAP: Final = 128

_LOWER: Final = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))
# The characters of identifiers and tokens become `a`, all others blanks.
_RUNS: Final = bytes(97 if (chr(byte).isalnum() and byte < 128) or chr(byte) in "_-." else 32 for byte in range(256))

_COLOUR = re.compile(r"(?:\x1b|\\e|u001[bB]|x1[bB]|033)\[[0-9;]*\Z")
_ESCAPED: Final = frozenset("nrtbf")
_ENCODED: Final = word_set("20 3D 3d 22 27 3A 3a 26 2F 2f 0A 0a 3B 3b 7C 7c")


class Span(NamedTuple):
    """A part of the text to hide. A higher rank knows better what it is; `bare` needs quotes to stay JSON."""

    start: int
    end: int
    kind: str
    rank: int
    bare: bool = False


TOKEN, CONTEXT = 2, 1


class View:
    """A stretch of text, prepared once for all rules. Positions are the same in all three forms."""

    __slots__ = ("_found", "_reached", "low", "runs", "seen", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        raw = text.encode("latin-1", "replace")
        self.low = raw.translate(_LOWER)
        self.runs = raw.translate(_RUNS)
        self._reached: dict[re.Pattern[str], tuple[int, int]] = {}
        self._found: dict[re.Pattern[str], tuple[int, int, str]] = {}
        self.seen: set[int] = set()
        """Where a list of pairs was read already."""

    def reach(self, pattern: re.Pattern[str], start: int, stop: int) -> int:
        """Where the pattern ends that matches at `start`. It is one that ends at the same place from everywhere in it.

        A text may have names in a value, and values of these names that end where it ends. It is read once.
        """
        first, last = self._reached.get(pattern, (0, 0))
        inside = first <= start < last - _OVERLAP and last <= stop
        found = pattern.match(self.text, last - _OVERLAP if inside else start, stop)
        end = found.end() if found else start
        self._reached[pattern] = (first if inside else start, end)
        return end

    def resume(self, pattern: re.Pattern[str], start: int, stop: int) -> int:
        """From where a search up to `stop` finds what no earlier one found, or found in part."""
        first, last = self._reached.get(pattern, (0, 0))
        inside = first <= start < last - VALUE // 16
        self._reached[pattern] = (first if inside else start, max(last, stop) if inside else stop)
        return last - VALUE // 16 if inside else start

    def last_before(self, pattern: re.Pattern[str], position: int) -> str:
        """The last match before a position, in its line and as far back as rules may look; empty if there is none."""
        lowest = self.line_start(position)
        until, at, word = self._found.get(pattern, (position + 1, -1, ""))
        start = max(lowest, until - _OVERLAP) if until <= position else lowest
        for found in pattern.finditer(self.text, start, position):
            at, word = found.start(), found.group()
        self._found[pattern] = (position, at, word)
        return word if lowest <= at < position else ""

    def run_start(self, position: int) -> int:
        """Where the run of characters around a position begins."""
        lowest = max(0, position - RUN)
        return max(self.runs.rfind(b" ", lowest, position) + 1, lowest)

    def run_end(self, position: int, stop: int) -> int:
        """Where the run of characters around a position ends."""
        found = self.runs.find(b" ", position, stop)
        return stop if found < 0 else found

    def line_start(self, position: int) -> int:
        """Where the line of a position begins, as far back as rules may look."""
        lowest = max(0, position - BEHIND)
        return max(self.text.rfind("\n", lowest, position) + 1, lowest)

    def skip_escape(self, start: int) -> int:
        r"""Where a run really begins that follows a backslash, a percent or a colour: `\n`, `%3D`, `\x1b[31m`."""
        text = self.text
        if start == 0:
            return start
        before = text[start - 1]
        if before == "\\" and text[start : start + 1] in _ESCAPED:
            return start + 1
        if before == "\\" and text[start : start + 1] in {"u", "x"}:
            return start + (5 if text[start] == "u" else 3)
        if before == "%" and text[start : start + 2] in _ENCODED:
            return start + 2
        if before in "[;" and _COLOUR.search(text, max(0, start - 16), start):
            return _skip_colour(text, start)
        return start


def _skip_colour(text: str, start: int) -> int:
    end = start
    while end < len(text) and end - start < 12 and text[end] in "0123456789":
        end += 1
    return end + 1 if end < len(text) and text[end] == "m" else start


# --------------------------------------------------------------------------------------------------------------------
# Text on its way out: it is held until it is known what in it is secret, and leaves with that hidden.

_ESCAPE_BEFORE = re.compile(r"(?<!\\)(?:\\\\){0,32}\\(?:u[0-9a-fA-F]{0,3})?\Z")
_UNICODE = re.compile(r"u[0-9a-fA-F]{4}")
_LOOSE_END = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")


class RedactedOutput:
    """Holds text and the spans to hide in it. Positions count from the first character that is still held."""

    __slots__ = ("_render", "done", "spans", "text")

    def __init__(self, render: Render) -> None:
        self.text = ""
        self.done = 0
        self.spans: list[Span] = []
        self._render = render

    def release(self, limit: int) -> tuple[str, int]:
        """Let the text before `limit` go, and say by how much all positions moved.

        A span that reaches over the limit is held back as a whole: another one may still be joined to it.
        """
        merged = _merge(self.spans)
        pieces: list[str] = []
        kept: list[Span] = []
        at = self.done
        for span in merged:
            if span.end > limit:
                limit = min(limit, max(span.start, at))
                kept.append(span)
            else:
                start, end = self._fit(max(span.start, at), span.end)
                if start < end:
                    pieces.append(self.text[at:start])
                    pieces.append(self._render(span.kind, self.text[start:end], span.bare))
                    at = end
        if limit > at:
            pieces.append(self.text[at:limit])
            at = limit
        self.done = at
        return "".join(pieces), self._trim(kept)

    def _fit(self, start: int, end: int) -> tuple[int, int]:
        r"""Keep whole escapes on both sides: `\n` before a secret stays `\n`, so that JSON stays JSON."""
        text = self.text
        before = _ESCAPE_BEFORE.search(text, max(0, start - 64), start)
        if before:
            escape = text.rfind("\\", 0, start)
            unicode = _UNICODE.match(text, escape + 1)
            start = unicode.end() if unicode else max(start, escape + 2)
        if end > start and text[end - 1] == "\\" and _LOOSE_END.search(text, max(start, end - 64), end):
            end -= 1
        return start, end

    def _trim(self, kept: list[Span]) -> int:
        shift = max(0, self.done - BEHIND)
        if shift:
            self.text = self.text[shift:]
            self.done -= shift
            kept = [span._replace(start=span.start - shift, end=span.end - shift) for span in kept]
        self.spans = kept
        return shift


def _merge(spans: list[Span]) -> list[Span]:
    """The spans in order; those that overlap become one, of the kind that knows best."""
    if len(spans) < 2:
        return spans
    merged: list[Span] = []
    for span in sorted(spans):
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(span)
            continue
        best = span if span.rank > last.rank else last
        merged[-1] = Span(last.start, max(last.end, span.end), best.kind, best.rank, last.bare and span.bare)
    return merged
