"""The markers behind a call, and what to make of it when they are missing, crossed or foreign."""

from __future__ import annotations

import re
from collections.abc import Generator

from dragoman.formats.cursor import BLANK_LIMIT, Cursor, Reader, Spoilt
from dragoman.formats.markers import Markers
from dragoman.formats.steps import Scope, Waiting, line_ends

_foreign_closer = re.compile(r"</[\w:.\-]{1,40}>").match
_closer_begin = re.compile(r"</?[\w:.\-]{0,40}\Z").match
_TAG = Markers(["</"])


class ReadClosers(Waiting):
    """The markers behind the payload. A model may leave one out; then the repair is named."""

    def __init__(
        self, closers: tuple[tuple[Markers, bool], ...], *, required: bool, own_line: bool, tags: bool
    ) -> None:
        self.closers = tuple(markers for markers, _ in closers)
        self.optional = tuple(optional for _, optional in closers)
        self.required = required
        self.own_line = own_line
        self.tags = tags
        self.suffixes = tuple(
            Markers(literal for later in self.closers[index:] for literal in later) for index in range(len(closers))
        )

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        index = 0
        closed = False
        while index < len(self.closers):
            seen = cursor.look_now(self.suffixes[index])
            found, ahead = seen or (yield from cursor.look(self.suffixes[index]))
            if found is not None and self.own_line:
                alone = yield from self._is_alone(cursor, ahead, len(found))
                found = found if alone else None
            if found is None:
                if not all(self.optional[index:]):
                    yield from self._close_for_the_model(cursor, closed)
                return
            matched = next(k for k in range(index, len(self.closers)) if found in self.closers[k].literals)
            if not all(self.optional[index:matched]):
                cursor.repair("closed_wrapper")
            cursor.position += ahead + len(found)
            closed = True
            index = matched + 1

    def _close_for_the_model(self, cursor: Cursor, closed: bool) -> Reader:
        if self.tags and not closed:
            length = yield from self._find_foreign_closer(cursor)
            if length:
                cursor.position += length
                cursor.repair("foreign_closer")
                return
        if self.required and not closed:
            raise Spoilt("the call was not closed")
        cursor.repair("closed_wrapper")

    def _find_foreign_closer(self, cursor: Cursor) -> Generator[None, None, int]:
        found, ahead = yield from cursor.look(_TAG)
        if found is None:
            return 0
        while True:
            at = cursor.position + ahead
            match = _foreign_closer(cursor.text, at)
            if match is not None:
                return match.end() - cursor.position
            if cursor.final or _closer_begin(cursor.text, at) is None:
                return 0
            yield

    def _is_alone(self, cursor: Cursor, ahead: int, length: int) -> Generator[None, None, bool]:
        if "\n" not in cursor.text[cursor.position : cursor.position + ahead]:
            return False
        while True:
            match = line_ends(cursor.text, cursor.position + ahead + length)
            if match is None or match.end() - match.start() > BLANK_LIMIT:
                return False
            if match.group(1) or cursor.final:
                return True
            yield
