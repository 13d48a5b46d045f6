"""Hides what the rules find, in text that comes in pieces: any way of cutting it gives the same result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from dragoman.scrubbing.blocks import LONGEST, Unfinished, key_block
from dragoman.scrubbing.outbox import Outbox
from dragoman.scrubbing.scanning import block_spans, find_hits, first_anchor
from dragoman.scrubbing.seed import seed_spans
from dragoman.scrubbing.styles import Render
from dragoman.scrubbing.view import AHEAD, BEHIND, VALUE, Span, View

# Longer pieces are taken in steps of this size, so that memory does not grow with them.
_STEP: Final = 131_072
# The farthest that a span begins before the place that gave it away; it never begins before a blank.
_BACK: Final = 160
# How much has to arrive before a text that does not come to an end is looked at again.
_PATIENCE: Final = 1024

_BLANKS: Final = " \t\n\r"
_REST = re.compile(r"[^\s\"'\\]*")


class RuleStage:
    """Hides what the rules find.

    A rule looks no further than the end of the next line, or a fixed number of characters if lines are long. So a place
    is decided when that much has come. Text in which no rule has anything to look for is let go word by word.
    """

    def __init__(self, render: Render, *, seed: bool = False, extend: Callable[[str], object] = len) -> None:
        self._extend = extend
        self._box = Outbox(render)
        self._seed = seed
        self._scanned = 0
        self._patient_until = 0
        self._swallowing = False

    def feed(self, piece: str) -> str:
        return "".join([self._take(piece[at : at + _STEP]) for at in range(0, len(piece), _STEP)])

    def close(self) -> str:
        return self._advance(final=True)

    def _take(self, piece: str) -> str:
        if self._swallowing:
            piece = self._swallow(piece)
            if not piece:
                return ""
        self._box.text += piece
        if len(self._box.text) < self._patient_until and "\n" not in piece:
            return ""
        return self._advance(final=False)

    def _advance(self, *, final: bool) -> str:
        box = self._box
        size = len(box.text)
        view = View(box.text)
        certain = size if final else self._find_certain(size)
        decided = self._decide(view, certain, final=final)
        self._patient_until = 0
        if decided == certain and not final:
            decided = self._find_harmless(view, certain)
        elif not final and not self._swallowing:
            self._patient_until = size + max(_PATIENCE, (size - decided) // 4)
        self._scanned = decided
        limit = size if final or self._swallowing else self._before(decided)
        out, shift = box.release(limit)
        self._scanned -= shift
        self._patient_until -= shift
        return out

    def _find_certain(self, size: int) -> int:
        """Up to where every place has the text that its rules may look at."""
        text = self._box.text
        line = text.rfind("\n", self._scanned)
        previous = text.rfind("\n", self._scanned, line) if line >= 0 else -1
        return max(previous + 1, size - AHEAD, self._scanned)

    def _find_harmless(self, view: View, certain: int) -> int:
        """Up to where the text after the certain part can go as well, because nothing in it calls for a rule."""
        text = view.text
        blank = max([text.rfind(mark, certain) for mark in _BLANKS])
        if blank < certain:
            return certain
        anchor = first_anchor(view, certain, blank + 1)
        if anchor <= blank:
            self._patient_until = len(text) + _PATIENCE
        return anchor

    def _decide(self, view: View, certain: int, *, final: bool) -> int:
        """Ask the rules at all places that are certain; returns up to where everything is decided."""
        text = view.text
        skip = until = stop = -1
        for place, rule, back in find_hits(view, self._scanned, certain):
            if place < skip:
                continue
            if place > until:
                stop, until = _horizon(text, place)
            if rule is block_spans:
                try:
                    spans: Iterable[Span] = key_block(view, place, final=final)
                except Unfinished:
                    return place
            else:
                spans = rule(view, place, stop, back)
            if self._seed:
                spans = (*spans, *seed_spans(view, place, stop))
            for span in spans:
                skip = max(skip, self._keep(span, text, final=final))
        return len(text) if self._swallowing else max(certain, skip)

    def _keep(self, span: Span, text: str, *, final: bool) -> int:
        """Hide a span; one that is longer than any value takes all that follows it, up to the next blank."""
        reached = -1
        if VALUE <= span.end - span.start < LONGEST:
            rest = _REST.match(text, span.end)
            reached = rest.end() if rest else span.end
            self._swallowing = reached == len(text) and not final
            span = span._replace(end=reached)
        self._box.spans.append(span)
        return reached

    def _before(self, place: int) -> int:
        """The last position that no span of a place from here on can reach back to."""
        lowest = max(self._box.done, place - _BACK)
        blank = max([self._box.text.rfind(mark, lowest, place) for mark in _BLANKS])
        return blank + 1 if blank >= 0 else lowest

    def _swallow(self, piece: str) -> str:
        """Drop the beginning of a piece that belongs to a value too long to hold."""
        rest = _REST.match(piece)
        end = rest.end() if rest else 0
        self._extend(piece[:end])
        self._swallowing = end == len(piece)
        box = self._box
        box.text = (box.text + piece[:end])[-BEHIND:]
        box.done = self._scanned = len(box.text)
        return piece[end:]


def _horizon(text: str, place: int) -> tuple[int, int]:
    """Up to where the rules at a place may look, and up to which place that holds."""
    farthest = place + AHEAD
    line = text.find("\n", place, farthest)
    if line >= 0:
        following = text.find("\n", line + 1, farthest)
        if following >= 0:
            return following, line
    return min(farthest, len(text)), place
