"""What a parser looks for: the openers of its formats and everything else that is not text, compiled once."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from dragoman.formats.compiler import compile_entries
from dragoman.formats.cursor import Cursor, Reader, Spoilt
from dragoman.formats.entry import Entry, MarkedEntry
from dragoman.formats.lines import Lines, is_word
from dragoman.formats.markers import Markers
from dragoman.formats.row import Format


class SectionEntry(MarkedEntry):
    """The tag before all calls of a reply: framing, if a call or the closing tag follows; text otherwise."""

    def __init__(self, row: Format, opener: str, inside: Iterable[str]) -> None:
        self.format = row.name
        self.openers = (opener,)
        self._opener = Markers(self.openers)
        self._inside = Markers(inside)

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        found, _ = yield from cursor.look(self._inside)
        if found is None:
            raise Spoilt("no call follows the opening tag")
        cursor.drop()


class Lane:
    """A stretch of text with one meaning, and the markers that can end it or stand in it."""

    def __init__(self, markers: Iterable[str], *, closer: str | None = None, lines: Lines | None = None) -> None:
        if lines is not None and lines.watched:
            self.markers = Markers((*markers, "\n"), line_gate=lines.gate, line_words=lines.words or ())
        else:
            self.markers = Markers(markers)
        self.closer = closer


_NO_MARKER = "\0\0no marker\0\0"


def _sections(row: Format) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if row.section is None:
        return (), ()
    opener, closer = (tag.strip() for tag in row.section)
    ends = (closer, *row.spellings.get(closer, ())) if closer else ()
    return (opener, *row.spellings.get(opener, ())), ends


class Plan:
    """The union of some rows. The first row that can read an opener wins."""

    def __init__(
        self,
        rows: Iterable[Format],
        *,
        named: bool,
        unmarked: bool = True,
        thinking: Iterable[tuple[str, str]] = (),
        entries: Iterable[Entry] = (),
    ) -> None:
        self._takes_unmarked = unmarked
        self.openers: dict[str, list[Entry]] = {}
        self.section_ends: set[str] = set()
        self.drops: set[str] = set()
        self.thinking: dict[str, str] = dict(thinking)
        self.line_entries: list[Entry] = []
        self.message_entries: list[Entry] = []
        self._lanes: dict[tuple[str, bool], Lane] = {}
        self._choices: dict[tuple[str, str], tuple[Entry, ...]] = {}
        compiled = [(row, compile_entries(row, named=named)) for row in rows]
        for row, row_entries in compiled:
            self._add(row, row_entries)
        for row, row_entries in compiled:
            self._add_section(row, row_entries)
        for entry in entries:
            for opener in entry.openers:
                self.openers.setdefault(opener, []).append(entry)
        self.thinking_ends = frozenset(self.thinking.values()) - self.openers.keys() - self.drops
        self._watch_text()

    def _watch_text(self) -> None:
        """Make the lane of plain text from everything that may interrupt it."""
        markers = {*self.openers, *self.section_ends, *self.drops, *self.thinking, *self.thinking_ends}
        words = sorted(filter(is_word, markers))
        places = {entry.place for entries in self.openers.values() for entry in entries}
        self.lines = Lines(self.line_entries, words, watched="line" in places)
        symbols = markers - set(words) or {_NO_MARKER}
        self.text = Lane(symbols, lines=self.lines)

    def extend(self, rows: Iterable[Format]) -> Plan:
        """This plan with more rows, tried after its own.

        Where they bring no new marker, the search itself is shared: that makes a row for a single reply cheap.
        """
        plan = copy(self)
        plan.openers = {opener: list(entries) for opener, entries in self.openers.items()}
        plan.section_ends, plan.drops, plan.thinking = set(self.section_ends), set(self.drops), dict(self.thinking)
        plan.line_entries, plan.message_entries = list(self.line_entries), list(self.message_entries)
        plan._choices = {}
        compiled = [(row, compile_entries(row, named=True)) for row in rows]
        for row, entries in compiled:
            plan._add(row, entries)
        for row, entries in compiled:
            plan._add_section(row, entries)
        if not plan._looks_like(self):
            plan._lanes = {}
            plan.thinking_ends = frozenset(plan.thinking.values()) - plan.openers.keys() - plan.drops
            plan._watch_text()
        return plan

    def _looks_like(self, other: Plan) -> bool:
        """Whether the same things are looked for, whoever reads on from there."""
        return (
            self.openers.keys() == other.openers.keys()
            and (self.section_ends, self.drops, self.thinking) == (other.section_ends, other.drops, other.thinking)
            and self.line_entries == other.line_entries
        )

    def _add(self, row: Format, row_entries: tuple[Entry, ...]) -> None:
        seen = {
            (entry.openers, getattr(entry, "source", None)) for entries in self.openers.values() for entry in entries
        }
        for entry in row_entries:
            if not entry.openers:
                if not self._takes_unmarked and not getattr(entry, "keeps_envelope", False):
                    continue
                (self.line_entries if entry.place == "line" else self.message_entries).append(entry)
            elif (entry.openers, getattr(entry, "source", None)) not in seen or not getattr(entry, "source", None):
                for opener in entry.openers:
                    self.openers.setdefault(opener, []).append(entry)
        self.drops.update(row.drop)
        for opener, closer in row.thinking:
            self.thinking.setdefault(opener, closer)

    def _add_section(self, row: Format, entries: tuple[Entry, ...]) -> None:
        starts, ends = _sections(row)
        self.section_ends.update(ends)
        inside = {opener for entry in entries for opener in entry.openers if len(opener) > 1}
        for start in starts:
            if inside:
                self.openers.setdefault(start, []).append(SectionEntry(row, start, (*inside, *ends)))

    def choose(self, opener: str, character: str) -> tuple[Entry, ...]:
        """The entries of an opener that can make something of what follows it; all of them if nothing is there yet."""
        key = (opener, character if character in "{[<(" else "n")
        chosen = self._choices.get(key)
        if chosen is None:
            entries = self.openers.get(opener, ())
            chosen = tuple(entry for entry in entries if not character or key[1] in getattr(entry, "follows", key[1]))
            self._choices[key] = chosen
        return chosen

    @property
    def has_gates(self) -> bool:
        """Whether there are formats without a marker, which must be tried where a message or a line begins."""
        return self.lines.gated or bool(self.message_entries)

    @property
    def first_thinking_end(self) -> str:
        return next(iter(self.thinking.values()), "</think>")

    def thinking_lane(self, closer: str, reports_calls: bool) -> Lane:
        """The lane behind a think tag: only its own closer ends it; openers are noticed so that they can be refused."""
        lane = self._lanes.get((closer, reports_calls))
        if lane is None:
            markers = (closer, *self.openers) if reports_calls else (closer,)
            lane = Lane(markers, closer=closer)
            if closer in self.thinking.values():
                self._lanes[closer, reports_calls] = lane  # a closer that the text made up is not worth keeping
        return lane
