"""Text on its way out: it is held until it is known what in it is secret, and leaves with that hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dragoman.scrubbing.styles import Render
from dragoman.scrubbing.view import BEHIND, Span

_ESCAPE_BEFORE = re.compile(r"(?<!\\)(?:\\\\){0,32}\\(?:u[0-9a-fA-F]{0,3})?\Z")
_UNICODE = re.compile(r"u[0-9a-fA-F]{4}")
_LOOSE_END = re.compile(r"(?<!\\)(?:\\\\)*\\\Z")


class Outbox:
    """Holds text and the spans to hide in it. Positions count from the first character that is still held."""

    __slots__ = ("_render", "done", "spans", "text")

    def __init__(self, render: Render) -> None:
        self.text = ""
        self.done = 0
        self.spans: list[Span] = []
        self._render = render

    def hide(self, spans: Iterable[Span]) -> None:
        self.spans.extend(spans)

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
