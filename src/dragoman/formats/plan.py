"""The plan of a parser: format rows compiled to entries and markers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from itertools import pairwise

from dragoman.formats.cursor import BrokenCall, Cursor, Markers, Reader
from dragoman.formats.json_reader import JsonBody
from dragoman.formats.pairs import OpenValue, ReadPairs, ReadValue, WholePair
from dragoman.formats.steps import (
    EndLine,
    Expect,
    ReadArguments,
    ReadClosers,
    ReadEnvelopes,
    ReadMaybe,
    ReadSlot,
    ReadTagName,
    RequireBlank,
    SkipSpace,
    Step,
    TemplateEntry,
)
from dragoman.formats.template import (
    Entry,
    Format,
    Hole,
    Literal,
    Many,
    Maybe,
    Node,
    Space,
    TemplateError,
    UnmarkedEntry,
    compile_template,
    first_kinds,
    first_literals,
    literals_after,
)
from dragoman.toolset import NAMESPACES, Toolset

# --------------------------------------------------------------------------------------------------------------------
# The starts of lines: what may begin only there, and which lines may pass unread.

PASSES, WAITS, WAKES = range(3)
"""The verdicts on the beginning of a line: it is plain text, it is too short to decide, or the parser must read it."""

_SHORT, _LONG, _MOST_VERDICTS = 8, 200, 1000
_line_start = re.compile(r"[ \t]*([^\W\d][\w.\-]*)?(.)?", re.DOTALL).match


def is_word(marker: str) -> bool:
    """Whether a marker is a plain word. Such a marker counts only at the start of a line, not inside a sentence.

    The few markers that begin outside Latin-1 are treated alike: they would slow down every search through prose.
    """
    return marker[0].isalpha() or ord(marker[0]) > 255


class LineStarts:
    """What can begin only a line: formats without a marker, and markers that are plain words."""

    def __init__(self, entries: Iterable[Entry], words: Iterable[str], *, watched: bool) -> None:
        self.entries = tuple(entries)
        words = tuple(words)
        self.words = Markers(words) if words else None
        labels = (label for entry in self.entries for label in entry.line_labels)
        named = NAMESPACES if any(entry.line_is_named for entry in self.entries) else ()
        self.word_starts = frozenset(word[:end] for word in (*words, *labels, *named) for end in range(len(word) + 1))
        self.gated = bool(self.entries) or self.words is not None
        self.watched = watched or self.gated
        """Whether the parser must track where lines begin."""
        gates = [entry.line_gate or r"\S" for entry in self.entries]
        self.gate = tuple(dict.fromkeys(gates))
        marked = [entry.marked_gate or gate for entry, gate in zip(self.entries, gates, strict=True)]
        self.marked_gate = tuple(dict.fromkeys(marked))
        self.first_characters = frozenset("".join(entry.line_characters for entry in self.entries))
        self.doubled_characters = frozenset("".join(entry.doubled_characters for entry in self.entries))
        self.open_to_names = any(entry.line_is_named for entry in self.entries)
        self.are_named = all(entry.line_is_named for entry in self.entries)
        """Whether every line that begins a call contains an offered name."""
        self.open_to_all = any(not entry.line_gate for entry in self.entries)


class LineFilter:
    """Decides from its beginning whether a line may pass as prose. When in doubt, the line does not pass."""

    def __init__(self, lines: LineStarts, markers: Markers, tools: Toolset | None) -> None:
        self._lines = lines
        # Its search is compiled on first use, and a complete text never needs it.
        self._markers = markers
        self._tools = tools
        self._verdicts: dict[str, int] = {}

    def judge(self, head: str) -> int:
        verdict = self._verdicts.get(head)
        if verdict is None:
            verdict = self._look(head)
            if len(head) <= _SHORT and len(self._verdicts) < _MOST_VERDICTS:
                self._verdicts[head] = verdict  # many lines begin alike, and the verdict never changes
        return verdict

    def _look(self, head: str) -> int:
        lines = self._lines
        start = _line_start(head)
        assert start is not None
        word, following = start.groups()
        if not following and not lines.open_to_all:
            if not word or self._may_begin(word) or (lines.open_to_names and word.isupper()):
                return WAITS if len(head) <= _LONG else WAKES
        elif self.may_gate(head, 0):
            return WAKES
        return PASSES if self._markers.wakes(head) is None else WAKES

    def may_gate(self, text: str, position: int) -> bool:
        """Whether something that begins only a line may begin at this line of a text; the line has arrived."""
        lines = self._lines
        start = _line_start(text, position)
        assert start is not None
        word, following = start.groups()
        if lines.open_to_all or not following:
            return True
        if word:
            if following in "!>#~" and "_" in word and word.isupper():
                return lines.open_to_names
            return following in "/> \t[]:：({<=!" and self._may_begin(word)
        if following in lines.first_characters or following in lines.word_starts:
            return True
        if following in lines.doubled_characters:
            return text[start.end() : start.end() + 1] in ("", following)
        return following > "\u2000" and lines.open_to_names  # a symbol may be the sigil of a call

    def _may_begin(self, word: str) -> bool:
        lines = self._lines
        if word in lines.word_starts or (word.isupper() and word.lower() in lines.word_starts):
            return True
        return lines.open_to_names and (self._tools is None or self._tools.may_begin(word))


# --------------------------------------------------------------------------------------------------------------------
# Compilation of a row to the entries that the engine runs.


def compile_entries(row: Format, *, named: bool) -> tuple[Entry, ...]:
    """Return the entries of a format: its template, its other spellings, its own readers."""
    sources = (row.template, *row.also) if row.template and row.template_is_read else row.also
    compiled = (compile_entry(row, source) for source in sources)
    return (*compiled, *row.entries, *(row.named_entries if named else ()))


def compile_entry(row: Format, source: str) -> TemplateEntry:
    nodes = compile_template(source, row.spellings)
    if not nodes or not isinstance(nodes[0], Literal):
        raise TemplateError(f"the template of {row.name!r} does not begin with a literal")
    payload = next((index for index, node in enumerate(nodes) if _is_payload(node)), None)
    if payload is None:
        raise TemplateError(f"the template of {row.name!r} has no hole for arguments")
    openers = nodes[0].spellings
    compiler = _Compiler(row, openers, nodes[payload + 1 :])
    steps: list[Step] = []
    for index, node in enumerate(nodes[: payload + 1]):
        if index and _closes_tag(nodes[index - 1], node):
            steps[-1] = ReadTagName("name")
        else:
            steps.extend(compiler.compile(node, nodes[index + 1 :]))
        if index == 0 and (row.own_lines or row.opens_line):
            steps.append(EndLine())
    steps.extend(compiler.closers(required=isinstance(nodes[payload], Many)))
    return TemplateEntry(
        row.name,
        openers,
        tuple(steps),
        place=row.place,
        source=source,
        stops=compiler.body.stops,
        follows=first_kinds(nodes[1:]),
    )


def _closes_tag(before: Node, node: Node) -> bool:
    return before in (Hole("name"), Hole("key")) and isinstance(node, Literal) and node.text == ">"


def _is_payload(node: Node) -> bool:
    return isinstance(node, Many) or (isinstance(node, Hole) and node.kind in ("args", "call", "calls"))


class _Compiler:
    def __init__(self, row: Format, openers: tuple[str, ...], tail: tuple[Node, ...]) -> None:
        self.row = row
        self.openers = openers
        self.closing = literals_after(tail)
        ends = (*(spelling for literal, _ in self.closing for spelling in literal.spellings), *row.section_ends)
        self.ends = Markers(ends) if ends else None
        stops = tuple("\n" + end if row.place == "line" and end in ("```", "~~~") else end for end in ends)
        self.body = JsonBody(
            stops=Markers((*stops, *openers)), name_is_key=row.name_is_key, bare=row.bare, strict=row.strict_envelope
        )

    def compile(self, node: Node, rest: tuple[Node, ...]) -> list[Step]:
        if isinstance(node, Literal):
            return [Expect(node.text, Markers(node.spellings))]
        if isinstance(node, Space):
            before_name = rest and isinstance(rest[0], Hole) and rest[0].kind == "name"
            return [RequireBlank() if before_name and "\n" not in node.text else SkipSpace()]
        if isinstance(node, Maybe):
            return [ReadMaybe(self._opening(node.body), self._sequence(node.body, rest))]
        if isinstance(node, Many):
            return [self._pairs(node)]
        if node.kind == "args":
            return [ReadArguments(self.body, self.ends)]
        if node.kind in ("call", "calls"):
            either = node.kind == "call" and not self.row.strict_envelope
            return [ReadEnvelopes(self.body, "{[" if either else "{" if node.kind == "call" else "[")]
        return [ReadSlot(node.kind, Markers(self._stops(rest)))]

    def _sequence(self, nodes: tuple[Node, ...], after: tuple[Node, ...]) -> tuple[Step, ...]:
        return tuple(
            step for index, node in enumerate(nodes) for step in self.compile(node, (*nodes[index + 1 :], *after))
        )

    def _stops(self, rest: tuple[Node, ...]) -> tuple[str, ...]:
        stops = first_literals(rest)
        if not stops and rest and isinstance(rest[0], Space) and "\n" in rest[0].text:
            return "\n", "\r\n"  # a key on a line of its own
        if not stops:
            raise TemplateError(f"a hole in the template of {self.row.name!r} has no end")
        return stops

    def _opening(self, body: tuple[Node, ...]) -> Markers:
        """How an optional or a repeated part begins. Without a literal, it cannot be told from other text."""
        first = first_literals(body)
        if not first or not all(first):
            raise TemplateError(
                f"a repeated or optional part in the template of {self.row.name!r} does not begin with a literal"
            )
        return Markers(first)

    def _check_pair(self, nodes: tuple[Node, ...]) -> None:
        """Refuse what the reader of arguments cannot read: a hole twice, or blanks that it would take for data."""
        holes = [node.kind for node in nodes if isinstance(node, Hole)]
        if len(holes) > len(set(holes)):
            raise TemplateError(f"a hole occurs twice in a repeated part of the template of {self.row.name!r}")
        for before, node in pairwise(nodes):
            if node == Hole("value") and isinstance(before, Space) and before.text not in ("\n", "\r\n"):
                raise TemplateError(f"only a line end may stand before a value in the template of {self.row.name!r}")

    def _pairs(self, node: Many) -> ReadPairs:
        first = self._opening(node.body)
        self._check_pair(node.body)
        if self.ends is None:
            raise TemplateError(f"the arguments in the template of {self.row.name!r} have no end")
        section = self.row.section[0].strip() if self.row.section else ""
        sections = (section, *self.row.spellings.get(section, ())) if section else ()
        landmarks = Markers((*first, *self.ends, *self.openers, *sections))
        whole = WholePair(node.body, first, self.ends)
        return ReadPairs(tuple(self._body(node.body, first, self.ends)), whole, first, self.ends, landmarks)

    def _body(self, nodes: tuple[Node, ...], first: Markers, ends: Markers) -> list[Step]:
        steps: list[Step] = []
        index = 0
        while index < len(nodes):
            node = nodes[index]
            if index and _closes_tag(nodes[index - 1], node):
                steps[-1] = ReadTagName("key")
            elif isinstance(node, Hole) and node.kind == "value":
                lead = nodes[index - 1]
                step, used = self._value(nodes[index + 1 :], lead.text if isinstance(lead, Space) else "", first, ends)
                if steps and isinstance(lead, Space):
                    steps.pop()  # white space next to a value is exact; ReadValue reads it
                elif isinstance(lead, Literal) and index >= 2 and not isinstance(nodes[index - 2], Hole):
                    closers = next(part for part in reversed(nodes[: index - 1]) if isinstance(part, Literal))
                    steps[-1] = OpenValue(Markers(lead.spellings), Markers((*first, *ends)), Markers(closers.spellings))
                steps.append(step)
                index += used
            else:
                steps.extend(self.compile(node, nodes[index + 1 :]))
            index += 1
        if isinstance(nodes[-1], Space):
            steps.pop()  # the next step skips white space in any case
        return steps

    def _value(self, rest: tuple[Node, ...], lead: str, first: Markers, ends: Markers) -> tuple[ReadValue, int]:
        trail = ""
        used = 0
        if rest and isinstance(rest[0], Space):
            trail = rest[0].text
            used = 1
        if len(rest) <= used or not isinstance(rest[used], Literal):
            raise TemplateError(f"a value in the template of {self.row.name!r} has no closer")
        closer = rest[used]
        assert isinstance(closer, Literal)
        step = ReadValue(
            lead,
            closer.spellings,
            trail,
            first=first,
            exits=ends,
            openers=self.openers,
            cdata=self.row.cdata,
            states_types=bool(self.row.type_words),
            unique=self.row.unique_keys,
            untyped_is_text=self.row.untyped_is_text,
        )
        return step, used + 1

    def closers(self, *, required: bool) -> list[Step]:
        if not self.closing:
            return []
        tags = any(literal.text.startswith("</") for literal, _ in self.closing)
        groups = tuple((Markers(literal.spellings), optional) for literal, optional in self.closing)
        return [ReadClosers(groups, required=required, own_line=self.row.own_lines, tags=tags)]


# --------------------------------------------------------------------------------------------------------------------
# The plan: the openers of some formats and all other markers, compiled once.


class SectionEntry(Entry):
    """The tag before all calls of a reply. It is framing if a call or the closing tag follows, and text otherwise."""

    def __init__(self, row: Format, opener: str, entries: tuple[Entry, ...]) -> None:
        self.format = row.name
        self.openers = (opener,)
        self._opener = Markers(self.openers)
        inside = (first for entry in entries for first in entry.openers if len(first) > 1)
        self._inside = Markers((*inside, *row.section_ends))
        self.entries = entries
        """The readers of its own calls. Other formats may share their openers."""

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        found, _ = yield from cursor.look(self._inside)
        if found is None:
            raise BrokenCall("no call follows the opening tag")
        cursor.drop()
        cursor.section = self


class LexerState:
    """A state of the scan (text, or thinking up to a closer), and the markers that matter in it."""

    def __init__(
        self,
        markers: Iterable[str],
        *,
        closer: str | None = None,
        lines: LineStarts | None = None,
        marked: bool = False,
    ) -> None:
        if lines is not None and lines.watched:
            gate = lines.marked_gate if marked else lines.gate
            self.markers = Markers((*markers, "\n"), line_gate=gate, line_words=lines.words or ())
        else:
            self.markers = Markers(markers)
        self.closer = closer


_NO_MARKER = "\0\0no marker\0\0"


def _is_known_by_start(entry: Entry) -> bool:
    """Whether the pattern of its start decides about an entry, if the text is complete."""
    return isinstance(entry, UnmarkedEntry) and type(entry).begins is UnmarkedEntry.begins


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
        improvised: Entry | None = None,
    ) -> None:
        self.improvised = improvised
        """The reader that gets whatever no entry of an opener at the start of a line can read."""
        self._takes_unmarked = unmarked
        self.openers: dict[str, list[Entry]] = {}
        self.section_ends: set[str] = set()
        self.drops: set[str] = set()
        self.thinking: dict[str, str] = dict(thinking)
        # Without its opener, a phrase that ends the reasoning of other models is only a phrase.
        self._phrases = {closer for closer in self.thinking.values() if closer[0].isalpha()}
        self.line_entries: list[Entry] = []
        self.message_entries: list[Entry] = []
        self._lanes: dict[tuple[str, bool], LexerState] = {}
        self._choices: dict[tuple[str, str, str], tuple[Entry, ...]] = {}
        self._extended: tuple[tuple[Format, ...], Plan] | None = None
        self._add_rows(rows, named=named)
        for entry in entries:
            for opener in entry.openers:
                # A marker that the rows drop or that ends reasoning keeps its meaning.
                if opener not in self.drops and opener not in self.thinking.values():
                    self.openers.setdefault(opener, []).append(entry)
        if improvised is not None and not named:
            self.line_entries.append(improvised)
        self._watch_text()
        self._watch_start()

    def _watch_text(self) -> None:
        """Build the state for plain text from all markers that may interrupt it."""
        self.thinking_ends = frozenset(self.thinking.values()) - self.openers.keys() - self.drops - self._phrases
        markers = {*self.openers, *self.section_ends, *self.drops, *self.thinking, *self.thinking_ends}
        words = sorted(filter(is_word, markers))
        places = {entry.place for entries in self.openers.values() for entry in entries}
        self.lines = LineStarts(self.line_entries, words, watched="line" in places)
        symbols = markers - set(words) or {_NO_MARKER}
        self.text = LexerState(symbols, lines=self.lines)
        self.ungated = LexerState(symbols, lines=LineStarts((), words, watched="line" in places))
        """The state for text in which no line begins a call without a marker."""
        self.marked = LexerState(symbols, lines=self.lines, marked=True)
        """The state for text that shows at its end that only a line with markup begins a call."""
        self._with_marks = [entry for entry in self.line_entries if entry.marked_gate]

    def _watch_start(self) -> None:
        """Join the beginnings of all entries that a complete message may begin with: one match rejects most of them."""
        entries = [*self.message_entries, *self.line_entries]
        starts: list[str] = []
        groups = 0
        self._from_start: dict[int, list[Entry]] = {}
        """The entries that may read what the group of a pattern matches: the ones before did not match."""
        for index, entry in enumerate(entries):
            if isinstance(entry, UnmarkedEntry):
                starts.append(f"({entry.start.pattern})")
                self._from_start[groups + 1] = [e for e in entries[:index] if not _is_known_by_start(e)] + entries[
                    index:
                ]
                groups += 1 + entry.start.groups
        self._starts = re.compile("|".join(starts) or "(?!)").match
        self._without_start = [entry for entry in entries if not _is_known_by_start(entry)]

    def begin_message(self, text: str, at: int) -> list[Entry]:
        """Return the entries without a marker that may read a complete message from `at` on."""
        start = self._starts(text, at)
        return self._without_start if start is None else self._from_start[start.lastindex or 0]

    def needs_marks(self, text: str) -> bool:
        """Whether the state `marked` is sufficient for a complete text."""
        return bool(self._with_marks) and all([entry.needs_marks(text) for entry in self._with_marks])

    def extend(self, rows: Iterable[Format]) -> Plan:
        """Return this plan with more rows, which the parser tries after its own.

        If the rows add no marker, both plans share the compiled search. That makes a row for a single reply cheap.
        The last plan is kept: a conversation is read with the same rows, message by message.
        """
        rows = tuple(rows)
        if self._extended is not None and list(map(id, self._extended[0])) == list(map(id, rows)):
            return self._extended[1]
        plan = copy(self)
        plan._extended = None
        plan.openers = {opener: list(entries) for opener, entries in self.openers.items()}
        plan.section_ends, plan.drops, plan.thinking = set(self.section_ends), set(self.drops), dict(self.thinking)
        plan.line_entries, plan.message_entries = list(self.line_entries), list(self.message_entries)
        plan._choices = {}
        plan._add_rows(rows, named=True)
        if not plan._looks_like(self):
            plan._lanes = {}
            plan._watch_text()
        plan._watch_start()
        self._extended = (rows, plan)
        return plan

    def _looks_like(self, other: Plan) -> bool:
        """Whether both plans search for the same markers, even if different entries read them."""
        return (
            self.openers.keys() == other.openers.keys()
            and (self.section_ends, self.drops, self.thinking) == (other.section_ends, other.drops, other.thinking)
            and self.line_entries == other.line_entries
        )

    def _add_rows(self, rows: Iterable[Format], *, named: bool) -> None:
        compiled = [(row, compile_entries(row, named=named)) for row in rows]
        for row, entries in compiled:
            self._add(row, entries)
        for row, entries in compiled:
            self._add_section(row, entries)

    def _add(self, row: Format, row_entries: tuple[Entry, ...]) -> None:
        seen = {(entry.openers, entry.source) for entries in self.openers.values() for entry in entries}
        for entry in row_entries:
            if not entry.openers:
                if not self._takes_unmarked and not entry.is_read_loosely:
                    continue
                (self.line_entries if entry.place == "line" else self.message_entries).append(entry)
            elif (entry.openers, entry.source) not in seen or not entry.source:
                for opener in entry.openers:
                    self.openers.setdefault(opener, []).append(entry)
        self.drops.update(row.drop)
        for opener, closer in row.thinking:
            self.thinking.setdefault(opener, closer)
            self._phrases.discard(closer)

    def _add_section(self, row: Format, entries: tuple[Entry, ...]) -> None:
        if row.section is None or not row.template_is_read:
            return
        self.section_ends.update(row.section_ends)
        start = row.section[0].strip()
        marked = any(len(opener) > 1 for entry in entries for opener in entry.openers)
        for spelling in (start, *row.spellings.get(start, ())) if marked else ():
            self.openers.setdefault(spelling, []).append(SectionEntry(row, spelling, entries))

    def choose(self, opener: str, character: str, section: SectionEntry | None = None) -> tuple[Entry, ...]:
        """Return the entries of an opener that can read the character after it; all of them if there is none yet.

        Inside a section, its own format comes first.
        """
        key = (opener, character if character in "{[<(" else "n", section.format if section is not None else "")
        chosen = self._choices.get(key)
        if chosen is None:
            entries = self.openers.get(opener, [])
            if section is not None:
                own = [entry for entry in section.entries if opener in entry.openers]
                entries = [*own, *(entry for entry in entries if entry not in own)]
            chosen = tuple(entry for entry in entries if not character or key[1] in entry.follows)
            self._choices[key] = chosen
        return chosen

    @property
    def has_gates(self) -> bool:
        """Whether there are formats without a marker, which the parser tries where a message or a line begins."""
        return self.lines.gated or bool(self.message_entries)

    def is_plain(self, text: str) -> bool:
        """Whether a whole text contains no marker, neither inside nor as the first word of a line."""
        if self.ungated.markers.find(text, 0, final=True) is not None:
            return False
        words = self.lines.words
        return words is None or words.at(text, len(text) - len(text.lstrip()), final=True)[0] is None

    @property
    def first_thinking_end(self) -> str:
        return next(iter(self.thinking.values()), "</think>")

    def thinking_lane(self, closer: str, reports_calls: bool) -> LexerState:
        """Return the state after a think tag. Only its own closer ends it; calls in it are found and refused."""
        lane = self._lanes.get((closer, reports_calls))
        if lane is None:
            markers = (closer, *self.openers) if reports_calls else (closer,)
            lane = LexerState(markers, closer=closer)
            if closer in self.thinking.values():
                self._lanes[closer, reports_calls] = lane  # a closer that comes from the text is not cached
        return lane
