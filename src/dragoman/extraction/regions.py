"""The regions in which a call does not count: quotations, code, comments, tables, strings, reasoning, invented turns.

A call is somebody's text there: the model shows it, quotes it or considers it. The rules are those of Markdown and HTML
where they decide what a reader sees. `Regions` finds all regions of a text once, in linear time, and answers for any
offset. Markers inside a call do not open or close anything, because the call is one unit.

Weak models put their call into a code block or a code span. This is accepted if it cannot be a quotation: the message
is only that block, or the line is only that span. In a quotation, a comment, a table, a string of JSON, reasoning and
the turn of a user that the model invented, a call never counts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from dragoman.extraction.control_tokens import OWN_TURNS, TURN_ENDS, TURN_STARTS, control_strings
from dragoman.formats.thinking import pairs
from dragoman.formats.unmarked import RESULT_TAGS

Span = tuple[int, int]

_blanks = re.compile(r"\s*").match
_line_end = re.compile("\n").finditer
_letter = re.compile(r"[^\W\d_]").search


class Regions:
    """The regions of a text. `calls` are the spans of the calls in it."""

    def __init__(self, text: str, calls: Iterable[Span]) -> None:
        self._text = text
        own = SpanList(calls)
        self._calls = SpanList(_find_units(text, own))
        self._found: dict[str, SpanList] = {}
        blocks = Blocks(text, self._calls)
        fences = SpanList(blocks.fences)
        spans = self._spans = SpanList(_find_code_spans(text, self._calls, fences, blocks.breaks))
        self._code_or_call = SpanList([*spans, *self._calls])
        self._line_starts = [0, *(found.end() for found in _line_end(text))]
        self._words: dict[int, tuple[bool, list[Span]]] = {}
        self._turns = SpanList(_find_turns(text, _Plain(own, fences, spans)))
        plain = _Plain(self._calls, fences, spans)
        self._quoted = SpanList(_find_quotations(text, plain))
        elements = _find_elements(text, plain)
        is_all = len(blocks.fences) < 2 and not _has_words(text, self._calls, blocks.markers, elements)
        # A fence that is never closed may have been none.
        closed = SpanList(blocks.fences[:-1]) if blocks.is_open else fences
        self._keep("thinking", _find_reasoning(text, _Plain(self._calls, closed, spans)))
        self._keep("comment", (span for kind, span in elements if kind == "comment"))
        self._keep("quote", blocks.quotes)
        self._keep("quote", (span for kind, span in elements if kind == "quote"))
        if not is_all:
            self._keep("fence", blocks.fences)
            self._keep("code", blocks.indented)
            self._keep("code", (span for kind, span in elements if kind == "code"))
        self._keep("table", blocks.tables)
        self._keep("table", (span for kind, span in elements if kind == "table"))
        self._keep("string", _find_strings(text, plain))

    def _keep(self, kind: str, spans: Iterable[Span]) -> None:
        known = self._found.get(kind)
        merged = SpanList([*known, *spans] if known is not None else spans)
        if merged:
            self._found[kind] = merged

    def find(self, span: Span) -> str:
        """Return the region of a call: `answer`, `quote`, `fence`, `code`, `comment`, `table`, `string`, `thinking`."""
        if self._turns.covers(span[0]):
            return "quote"
        # Blanks before a call belong to it. The position of its first letter decides.
        start, end = self._calls.around(span[0]) or span
        blanks = _blanks(self._text, start)
        start = min(blanks.end(), end) if blanks else start
        region = self.at(start)
        if region == "answer" and self._is_in_quotes(start, end):
            return "quote"
        return region

    def at(self, offset: int) -> str:
        """Return the region of any offset of the text."""
        region = next((kind for kind, spans in self._found.items() if spans.covers(offset)), "answer")
        span = self._spans.around(offset) if region == "answer" else None
        return "code" if span is not None and self._is_in_sentence(span) else region

    def _is_in_sentence(self, span: Span) -> bool:
        """Whether words stand on the lines of a code span, before or after it. Calls are no words."""
        return any(self._has_words(line, span) for line in {self._line_of(span[0]), self._line_of(span[1])})

    def _line_of(self, offset: int) -> int:
        return bisect_right(self._line_starts, offset) - 1

    def _has_words(self, line: int, span: Span) -> bool:
        """Whether a line has words outside of this code span. Each line is examined once."""
        if line not in self._words:
            start = self._line_starts[line]
            end = self._line_starts[line + 1] if line + 1 < len(self._line_starts) else len(self._text)
            outside = bool(_letter(self._code_or_call.cut_out(self._text, start, end)))
            spans = [each for each in self._spans.within(start, end) if _letter(self._calls.cut_out(self._text, *each))]
            self._words[line] = outside, spans[:2]
        outside, spans = self._words[line]
        return outside or any(each != span for each in spans)

    def _is_in_quotes(self, start: int, end: int) -> bool:
        """Whether a call stands in quotation marks in a sentence."""
        while end > start and self._text[end - 1].isspace():
            end -= 1
        span = self._quoted.around(start)
        if span is not None and self._is_in_sentence(span):
            return True
        closers = _QUOTATION_MARKS.get(self._text[start - 1 : start], "") if start else ""
        closer = self._text[end : end + 1]
        return bool(closer) and closer in closers and self._is_in_sentence((start, end))


_QUOTATION_MARKS = {"'": "'", "`": "`'", "‘": "’", "‚": "‘’", "‹": "›", "「": "」", "『": "』"}


class SpanList:
    """Spans in order. Overlapping ones are joined."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._spans: list[Span] = []
        for start, end in sorted(spans):
            if self._spans and start < self._spans[-1][1]:
                self._spans[-1] = (self._spans[-1][0], max(end, self._spans[-1][1]))
            elif start < end:
                self._spans.append((start, end))
        self._starts = [start for start, _ in self._spans]

    def __iter__(self) -> Iterator[Span]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def around(self, offset: int) -> Span | None:
        """Return the span that contains this offset."""
        place = bisect_right(self._starts, offset) - 1
        return self._spans[place] if place >= 0 and offset < self._spans[place][1] else None

    def within(self, start: int, end: int) -> list[Span]:
        """Return the spans that begin between these offsets."""
        return self._spans[bisect_right(self._starts, start - 1) : bisect_right(self._starts, end - 1)]

    def meets(self, span: Span) -> bool:
        """Whether a span overlaps one of these."""
        place = bisect_right(self._starts, max(span[0], span[1] - 1)) - 1
        return place >= 0 and self._spans[place][1] > span[0] and self._spans[place][0] < span[1]

    def covers(self, offset: int) -> bool:
        return self.around(offset) is not None

    def first_from(self, offset: int) -> int | None:
        """Return the first start at or after this offset."""
        place = bisect_right(self._starts, offset - 1)
        return self._starts[place] if place < len(self._starts) else None

    def cut_out(self, text: str, start: int, end: int) -> str:
        """Return a part of the text without the spans."""
        kept: list[str] = []
        place = max(0, bisect_right(self._starts, start) - 1)
        for first, last in self._spans[place:]:
            if first >= end:
                break
            kept.append(text[start : max(start, first)])
            start = max(start, last)
        kept.append(text[start : max(start, end)])
        return "".join(kept)


def find_code(text: str) -> SpanList:
    """Return the code blocks and code spans of a text. A block that is never closed may have been none."""
    none = SpanList(())
    blocks = Blocks(text, none)
    fences = SpanList(blocks.fences[:-1] if blocks.is_open else blocks.fences)
    return SpanList([*fences, *_find_code_spans(text, none, fences, blocks.breaks)])


class _Plain:
    """The text that is neither in a call nor in code. Only there, tags and brackets have a meaning."""

    def __init__(self, calls: SpanList, fences: SpanList, spans: SpanList) -> None:
        self.calls = calls
        self._taken = SpanList([*calls, *fences, *spans])

    def has(self, offset: int) -> bool:
        return self._taken.around(offset) is None


# --------------------------------------------------------------------------------------------------------------------
# A call and the control strings directly around it, which the parser does not count as a part of the call.

_break = re.compile(r"\n[ \t\r]*\n").search


@cache
def _control_strings() -> tuple[re.Pattern[str], int]:
    """Return the pattern of all control strings that may surround a call, and the length of the longest."""
    known = [token for token in control_strings() if token[-1] in ">]|" and not _reasoning_tags().fullmatch(token)]
    alternatives = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    return re.compile(rf"(?:{alternatives})(?:(?<=message_model\|>)[\w.\-]{{1,100}})?"), max(map(len, known))


def _may_touch_token(text: str, calls: SpanList) -> bool:
    """Whether a control string may be directly before or after a call, or around its first character."""
    if not calls or "message_model" in text:
        return bool(calls)  # a name may follow this one
    tokens, longest = _control_strings()
    for start, end in calls:
        following = _blanks(text, end).end()  # type: ignore[union-attr]
        before = start
        while before and text[before - 1].isspace():
            before -= 1
        if tokens.match(text, following) or tokens.search(text, max(0, before - longest), start + longest):
            return True
    return False


def _find_units(text: str, calls: SpanList) -> list[Span]:
    """Return the calls, each with the control strings around it. The calls of one section are one unit."""
    if not _may_touch_token(text, calls):
        return list(calls)
    tokens = [found.span() for found in _control_strings()[0].finditer(text) if not calls.covers(found.start())]
    parts = sorted([*((span, True) for span in calls), *((span, False) for span in tokens)])
    units: list[tuple[Span, bool, bool]] = []  # the span, whether it contains a call, whether it begins with a token
    for span, is_call in parts:
        last = units[-1] if units else None
        gap = text[last[0][1] : span[0]] if last else "x"
        is_near = not gap.strip() and _break(gap) is None
        if last is not None and is_near and (last[2] or not is_call):
            units[-1] = ((last[0][0], span[1]), last[1] or is_call, last[2])
        else:
            units.append((span, is_call, not is_call))
    return [span for span, has_call, _ in units if has_call]


# --------------------------------------------------------------------------------------------------------------------
# Blocks of Markdown: quotations with their lazy continuations, fences, indented code and tables, also inside lists.

# The text after the opening backticks contains no backtick: otherwise it is inline code.
_fence = re.compile(r" {0,3}(`{3,}(?=[^`\n]*$)|~{3,})([^\n]*)", re.MULTILINE).match
_quote = re.compile(r" {0,3}> ?").match
_item = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?: {1,4}(?=\S)|[ \t]|(?=\n|\Z))").match
_indent = re.compile(r" *").match
# What cannot continue a paragraph. A tag can: only those of blocks of HTML begin something new.
_interrupts = re.compile(
    r" {0,3}(?:#{1,6}(?:\s|\Z)|(?:[-*_] *){3,}\s*\Z|```|~~~|</?(?:think|p|div|table|ul|ol|hr|h[1-6])\b)"
).match
_delimiter_row = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*\n?\Z").match


_ordinary = re.compile(r" *[^\s>`~#|<:\-*+_\d]").match
"""Matches a line that begins with no marker of a block."""
_NO_WORDS = 1 << 30


class Blocks:
    """Reads the lines of a text. A line that begins inside a call belongs to the call."""

    def __init__(self, text: str, calls: SpanList) -> None:
        self.quotes: list[Span] = []
        self.fences: list[Span] = []
        self.indented: list[Span] = []
        self.tables: list[Span] = []
        self.breaks: list[int] = []
        """The offsets of blank lines, which end a paragraph."""
        self.markers: list[Span] = []
        """The lines that open and close fences."""
        self._calls = calls
        self._opened: tuple[int, str, bool] | None = None
        self._is_paragraph = self._is_quoted = self._is_table = False
        self._indent = 0
        self._last_row: Span | None = None
        for line, position, least, has_call in self._own_lines(text):
            if has_call or not self._pass(line, position, least):
                self._read(line, position, least)
        self.is_open = self._opened is not None
        """The last fence is never closed."""
        if self._opened is not None:
            self.fences.append((self._opened[0], len(text)))

    def _own_lines(self, text: str) -> list[tuple[str, int, int, bool]]:
        """Return the lines after the reasoning, except those that begin inside a call: with their offsets, with the
        indentation of the words around them, and whether a call begins in them.

        Some models indent everything that they write. Code is indented more than the words before or after it.
        """
        lines: list[tuple[str, int, int, bool]] = []
        position, answer = 0, _leading_reasoning(text)
        calls = iter([*self._calls, (len(text) + 1, len(text) + 1)])
        call = next(calls)
        for line in text.splitlines(keepends=True):
            end = position + len(line)
            while call[1] <= position:
                call = next(calls)
            if call[0] >= end:
                if end > answer:
                    own = _NO_WORDS if _letter(line) is None else len(line) - len(line.lstrip())
                    lines.append((line, position, own, False))
            elif call[0] >= position and end > answer:
                lines.append((line, position, self._indentation(line, position), True))
            position = end
        levels = {own for _, _, own, _ in lines}
        levels.discard(_NO_WORDS)
        if len(levels) < 2:
            level = levels.pop() if levels else _NO_WORDS
            return [(line, at, level, has_call) for line, at, _, has_call in lines]
        before, after = (_carry(own for _, _, own, _ in lines[::step])[::step] for step in (1, -1))
        return [
            (line, at, first if first < second else second, has_call)
            for (line, at, _, has_call), first, second in zip(lines, before, after, strict=True)
        ]

    def _indentation(self, line: str, position: int) -> int:
        """Return the indentation of a line with words. A call is no words."""
        indentation = len(line) - len(line.lstrip())
        return _NO_WORDS if self._calls.covers(position + indentation) or _letter(line) is None else indentation

    def _pass(self, line: str, position: int, least: int) -> bool:
        """Read a line without a call that needs no look at its markers, as most do; return False if it needs one."""
        if self._indent or self._is_quoted or "|" in line or "\t" in line:
            return False
        content = line[least:] if least and least < len(line) and line[:least].isspace() else line
        is_ordinary = _ordinary(content) is not None
        if self._opened is not None:
            return not self._opened[2] and (is_ordinary or not content.strip())
        if is_ordinary:
            self._last_row = None
            if content.startswith("    ") and not self._is_paragraph:
                self.indented.append((position, position + len(line)))
            else:
                self._is_table, self._is_paragraph = False, True
            return True
        if not content.strip():
            self._is_paragraph = self._is_table = False
            self._last_row = None
            self.breaks.append(position)
            return True
        return False

    def _read(self, line: str, position: int, least: int) -> None:
        end = position + len(line)
        line = line[least:] if least < len(line) and line[:least].isspace() else line
        start = end - len(line)
        # The markers of a container stand before a call. What looks like them in a call belongs to it.
        call = self._calls.first_from(position)
        head = line.expandtabs(4) if "\t" in line[:8] else line
        limit = len(head) if call is None or call >= end or head is not line else max(0, call - start)
        content, is_quote = self._strip(head, limit)
        if self._opened is not None and self._read_fenced(content, position, end, is_quote=is_quote):
            return
        if not content.strip():
            self._is_paragraph = self._is_quoted = self._is_table = is_quote and self._is_quoted
            self._is_paragraph = False
            self.breaks.append(position)
            self._last_row = None
            if is_quote:
                self.quotes.append((position, end))
            return
        is_lazy = self._is_quoted and self._is_paragraph and not is_quote and not _interrupts(content)
        is_lazy = is_lazy and _item(line) is None
        if is_quote or is_lazy:
            self.quotes.append((position, end))
        found = _fence(content) if call is None or call > start else None
        if found:
            self._opened = (position, found[1], is_quote)
            self.markers.append((position, end))
            self._is_paragraph = self._is_quoted = False
            return
        self._read_text(content, (position, end))
        self._is_quoted = is_quote or is_lazy

    def _strip(self, line: str, limit: int) -> tuple[str, bool]:
        """Return the content of a line without the markers of quotations and list items, and whether it is quoted."""
        place, is_quote = 0, False
        blanks = len(_indent(line).group())  # type: ignore[union-attr]
        if self._indent and (blanks >= self._indent or not line.strip()):
            place = min(self._indent, blanks)
        elif line.strip() and not self._is_paragraph:
            self._indent = 0
        while place < limit:
            if marker := _quote(line, place, limit):
                is_quote = True
            elif marker := _item(line, place, limit):
                self._indent = 0 if is_quote else marker.end()
            else:
                break
            place = marker.end()
        return line[place:], is_quote

    def _read_fenced(self, content: str, position: int, end: int, *, is_quote: bool) -> bool:
        """Continue an open fence. Return False if the quotation that contained it is over."""
        assert self._opened is not None
        start, marker, was_quoted = self._opened
        if was_quoted and not is_quote:
            self.fences.append((start, position))
            self._opened = None
            return False
        if is_quote:
            self.quotes.append((position, end))
        found = _fence(content)
        # The same character, at least as often, and nothing after it.
        if found and found[1].startswith(marker) and not found[2].strip():
            self.fences.append((start, end))
            self.markers.append((position, end))
            self._opened = None
        return True

    def _read_text(self, content: str, span: Span) -> None:
        is_indented = content.startswith("    ") and not self._is_paragraph
        if is_indented:
            self.indented.append(span)
        elif _delimiter_row(content) and "|" in content and self._last_row is not None:
            self.tables += (self._last_row, span)
            self._is_table = True
        elif content.lstrip().startswith("|") or (self._is_table and "|" in content):
            self.tables += [span] if self._is_table or content.count("|") > 1 else []
        else:
            self._is_table = False
        self._last_row = span if "|" in content and not is_indented else None
        self._is_paragraph = not is_indented and _interrupts(content) is None


def _carry(indentations: Iterable[int]) -> list[int]:
    """Return for each line the indentation of the last words so far."""
    last, carried = _NO_WORDS, []
    for own in indentations:
        last = last if own == _NO_WORDS else own
        carried.append(last)
    return carried


def _has_words(text: str, calls: SpanList, markers: list[Span], elements: list[tuple[str, Span]]) -> bool:
    """Whether a message has anything besides calls, reasoning before them, and the markers of code blocks."""
    lead = _leading_reasoning(text)
    known = SpanList([*calls, *markers, *([(0, lead)] if lead else ())])
    rest = known.cut_out(text, 0, len(text)).strip()
    if elements:
        rest = _element.sub("", rest)
    return bool(rest.strip("`~ \t\r\n"))


# --------------------------------------------------------------------------------------------------------------------
# Code spans: backticks, closed by as many backticks in the same paragraph.

_backticks = re.compile(r"`+").finditer


def _find_code_spans(text: str, calls: SpanList, fences: SpanList, breaks: list[int]) -> list[Span]:
    if "`" not in text:
        return []
    runs = [run.span() for run in _backticks(text) if not calls.covers(run.start()) and not fences.covers(run.start())]
    # The next run of each length, from the end.
    following: dict[int, int] = {}
    closers: list[int | None] = [None] * len(runs)
    for place in range(len(runs) - 1, -1, -1):
        length = runs[place][1] - runs[place][0]
        closers[place] = following.get(length)
        following[length] = place
    spans: list[Span] = []
    place = 0
    while place < len(runs):
        start, end = runs[place]
        closer = closers[place]
        if closer is None or _is_broken(end, runs[closer][0], breaks) or text[start - 1 : start] == "\\":
            place += 1
            continue
        spans.append((start, runs[closer][1]))
        place = closer + 1
    return spans


def _is_broken(start: int, end: int, breaks: Sequence[int]) -> bool:
    place = bisect_right(breaks, start)
    return place < len(breaks) and breaks[place] < end


# --------------------------------------------------------------------------------------------------------------------
# Quotation marks, in one line. A call between them may have lines of its own.

_mark = re.compile(r'["“”„«»《》\n]').finditer
_opening_mark = re.compile(r'["“”„«»《]').search
_MARK_PAIRS = {'"': '"', "“": "”", "”": "”", "„": "“”", "«": "»", "»": "«»", "《": "》"}


def _touches_call(text: str, mark: int, line_end: int, calls: SpanList) -> bool:
    """Whether only this line end is between a quotation mark and a call."""
    blanks = _blanks(text, line_end, line_end + 80)
    following = blanks.end() if blanks is not None else line_end
    if line_end <= mark + 9 and not text[mark + 1 : line_end].strip() and calls.covers(following):
        return True
    before = line_end - 1
    while before > mark and text[before] in " \t\r":
        before -= 1
    return calls.covers(before) and text[following : following + 1] in _MARK_PAIRS[text[mark]]


def _find_quotations(text: str, plain: _Plain) -> list[Span]:
    found: list[Span] = []
    position = 0
    while (opener := _opening_mark(text, position)) is not None:
        start, position = opener.span()
        if not plain.has(start):
            continue
        for mark in _mark(text, position):
            if not plain.has(mark.start()):
                continue
            if mark[0] in _MARK_PAIRS[opener[0]]:
                found.append((start, mark.end()))
            elif mark[0] != "\n" or _touches_call(text, start, mark.start(), plain.calls):
                continue
            position = mark.end()
            break
        else:
            break
    return found


# --------------------------------------------------------------------------------------------------------------------
# Elements of HTML, and comments.

_CODE = "pre|code|samp|kbd|tt|xmp|listing|examples?|sample|snippet"
_QUOTES = "blockquote|quote|q|cite|details"
_RESULTS = "|".join(sorted(RESULT_TAGS, key=len, reverse=True))
_TABLES = "table|tr|td|th|caption"
_element = re.compile(rf"<!--|-->|<(/?)(?:({_CODE})|({_QUOTES}|{_RESULTS})|({_TABLES}))(?:\s[^<>]*)?>", re.IGNORECASE)
_ENDLESS = frozenset({"pre", "blockquote", "xmp", "listing"})


def _find_elements(text: str, plain: _Plain) -> list[tuple[str, Span]]:
    """Return the kind and span of each element. One that is never closed reaches to the end, if it is a block."""
    if "<" not in text:
        return []
    found: list[tuple[str, Span]] = []
    opened: list[tuple[str, str, int]] = []
    for tag in _element.finditer(text):
        if not plain.has(tag.start()):
            continue
        name = (tag[2] or tag[3] or tag[4] or "comment").lower()
        if opened and opened[-1][0] == "comment" and tag[0] != "-->":
            continue
        if tag[0] != "-->" and not tag[1]:
            kind = "code" if tag[2] else "quote" if tag[3] else "table" if tag[4] else "comment"
            opened.append((name, kind, tag.start()))
            continue
        place = next(
            (at for at in range(len(opened) - 1, max(-1, len(opened) - 20), -1) if opened[at][0] == name), None
        )
        if place is not None:
            found.append((opened[place][1], (opened[place][2], tag.end())))
            del opened[place:]
    found += [(kind, (start, len(text))) for name, kind, start in opened if name in _ENDLESS or kind == "comment"]
    return found


# --------------------------------------------------------------------------------------------------------------------
# Turns of others that the model invented: a model that does not stop writes the next message of the user as well.

_OTHERS = "(?:user|human|system|developer)"
_SILENT = rf"{OWN_TURNS}|<[|｜][^<>|｜\n]{{1,60}}[|｜]>|</?s>|<[be]os>|<end_of_turn>"
_TURN_OF_OTHERS = (
    rf"{TURN_STARTS}[ \t]{{0,4}}{_OTHERS}\b(?=[ \t]{{0,4}}(?:[\n<\[|]|\Z))"
    rf"|<[|｜]{_OTHERS}(?:_token)?[|｜]>(?=[ \t]{{0,4}}(?:\n|\Z))"
    rf"|(?:^|(?<=[>\]}}~]))[ \t]{{0,4}}(?:<[|｜]{_OTHERS}(?:_token)?[|｜]>|\[inst\])"
)


@cache
def _turn_patterns() -> tuple[re.Pattern[str], ...]:
    """Compile the starts of the turns of others, their ends, and the tokens that say nothing."""
    patterns = (_TURN_OF_OTHERS, rf"{TURN_ENDS}|\[/inst\]|(?={OWN_TURNS})", _SILENT)
    return tuple(re.compile(each, re.IGNORECASE | re.MULTILINE) for each in patterns)


def _find_turns(text: str, plain: _Plain) -> list[Span]:
    """Return the turns of others. After the model said something, all that follows such a turn is invented, too.

    Before that, they may be the prompt, which some servers repeat.
    """
    found: list[Span] = []
    if not any([mark in text for mark in ("<|", "<｜", "<start_of_turn>", "<role>", "bos>", "]~b]", "[|", "[INST]")]):
        return found
    starts, ends, silent = _turn_patterns()
    position = 0
    while (turn := starts.search(text, position)) is not None:
        if not plain.has(turn.end() - 1):
            position = turn.end()
            continue
        if _letter(silent.sub("", text[found[-1][1] if found else 0 : turn.start()])):
            return [*found, (turn.start(), len(text))]
        end = ends.search(text, turn.end())
        position = end.end() if end else len(text)
        found.append((turn.start(), position))
    return found


# --------------------------------------------------------------------------------------------------------------------
# Strings of JSON: a call in a string is a value.

_json_start = re.compile(r'[{\[]\s*+(?=["{\[]|-?\d[\d.eE+-]*+\s*+[,:]|(?:true|false|null)\s*+,)')
_json_token = re.compile(r'\s*+(?:("(?:[^"\\]|\\.)*+")|([{\[])|([}\]])|[:,]|[-+.\w]++)', re.DOTALL).match


def _find_strings(text: str, plain: _Plain) -> list[Span]:
    found: list[Span] = []
    position = 0
    while begun := _json_start.search(text, position):
        position = begun.end()
        if not plain.has(begun.start()):
            continue
        depth = 1
        while depth and (token := _json_token(text, position)) is not None:
            position = token.end()
            if token[1]:
                found.append(token.span(1))
            depth += 1 if token[2] else -1 if token[3] else 0
    return found


# --------------------------------------------------------------------------------------------------------------------
# Reasoning whose tags the parser does not know, or whose opening tag was in the prompt.

_WORDS_OF_REASONING = ("think", "thought", "reason", "scratch", "inner_suffix")
_says_thinking = re.compile("|".join(_WORDS_OF_REASONING), re.IGNORECASE).search


@cache
def _reasoning_tags() -> re.Pattern[str]:
    known = [pair for pair in pairs(named=True) if _says_thinking(pair[1])]
    # Models write these tags in capitals, or with a blank before the bracket.
    openers = "|".join(re.escape(opener).removesuffix(">") + r"\s{0,9}>" * opener.endswith(">") for opener, _ in known)
    closers = "|".join(re.escape(closer).removesuffix(">") + r"\s{0,9}>" * closer.endswith(">") for _, closer in known)
    suffixed = r"think:[\w.\-]{1,40}>"
    return re.compile(rf"({openers}|<{suffixed})|({closers}|</{suffixed})", re.IGNORECASE)


@cache
def _reasoning_ends() -> tuple[str, ...]:
    """The closing tags in small letters, without the bracket at the end."""
    ends = (closer for _, closer in pairs(named=True) if _says_thinking(closer))
    return ("</think:", *(end.removesuffix(">").lower() for end in ends))


@cache
def _reasoning_end_starts() -> frozenset[str]:
    """The symbols with which closing tags begin. The case of letters varies, so they are left out."""
    return frozenset(
        "" if end[0].isalpha() or end[1].isalpha() else end[:2] for end in _reasoning_ends() if end.isascii()
    )


def _find_reasoning(text: str, plain: _Plain) -> list[Span]:
    """Return the spans between tags, and the beginning of the text, if a closing tag without an opening one ends it."""
    found: list[Span] = []
    if not _may_reason(text):
        return found
    opened: int | None = None
    for tag in _reasoning_tags().finditer(text):
        if not plain.has(tag.start()):
            continue
        if not tag[2]:
            opened = tag.start() if opened is None else opened
        else:
            found.append((0 if opened is None else opened, tag.start()))
            opened = None
    return found


def _may_reason(text: str) -> bool:
    """Whether a text may contain a tag that closes reasoning. Each of them has one of a few words."""
    if not text.isascii():
        return True
    if not any([start in text for start in _reasoning_end_starts()]):
        return False
    lowered = text.lower()
    return any([word in lowered for word in _WORDS_OF_REASONING]) and any([tag in lowered for tag in _reasoning_ends()])


def _leading_reasoning(text: str) -> int:
    """Return the end of the reasoning with which a text begins; 0 if it begins with something else."""
    if not _may_reason(text):
        return 0
    tags = _reasoning_tags()
    first = tags.match(text.lstrip())
    if first is None or first[2]:
        return 0
    blanks = len(text) - len(text.lstrip())
    closer = next((tag for tag in tags.finditer(text, blanks + first.end()) if tag[2]), None)
    return closer.end() if closer is not None else 0


# --------------------------------------------------------------------------------------------------------------------
# Places that make a call an example.

_ENDS_SENTENCE = ".:!?…)>]}\"'`*_,;"
_GOES_ON = "([,;、，；"


def is_in_sentence(text: str, span: tuple[int, int], calls: SpanList) -> bool:
    """Whether words that a sentence connects are on both sides of a call, on its lines: then it is talked about."""
    line = text.rfind("\n", 0, span[0]) + 1
    stop = text.find("\n", span[1])
    before = calls.cut_out(text, line, span[0]).rstrip()
    after = calls.cut_out(text, span[1], len(text) if stop < 0 else stop).strip()
    return bool(before and after) and before[-1] not in _ENDS_SENTENCE and (after[0].isalnum() or after[0] in _GOES_ON)


_shows = re.compile(
    r"^\W*(?:e\.g\.|(?:for )?(?:example|instance)s?\b|samples?\b|templates?\b|usage\b|syntax\b)[^.!?\n]{0,60}[:,.]?\Z"
    r"|^\W*(?:\w+ ){0,2}(?:formats?|notations?)\W*:\Z"
    r"|\bdescribes? (?:it|this|them|the call)\b[^.\n]{0,40}:\Z"
    r"|\b(?:chat|console|log|message|model|output|page|reply|screen|server|terminal|transcript|user)s? (?:then )?"
    r"(?:(?:contain|display|emit|get|output|print|return|say|see|show|write)s?|(?:display|output|print|return|show)ed"
    r"|emitted|got|said|saw|sent|wrote)\W*\Z"
    r"|(?:\b(?:modell|modèle|modelo|modello|модель)\b|模型|モデル)[^.!?。\n]{0,30}[:：]\Z"
    r"|\b(?:was|were|looked like|read)(?: this)?\W*:\Z"
    r"|^\W*(?:actual|expected|observed)\b[^.!?\n]{0,60}:\Z"
    r"|^(?-i:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|TRACE|[DEFIW] \w+_\w+:)[^.!?\n]{0,120}[:=]\Z"
    r"|\b(?:leaked|unparsed)\b[^.!?\n]{0,40}[:=]\Z",
    re.IGNORECASE,
).search
"""Matches a line that announces an example, or what somebody has seen."""


_goes_on_about = re.compile(
    r"\s*(?:</[^<>\n]{1,60}>\s*|<[|｜][^<>\n]{1,60}[|｜]>\s*){0,4}"
    r"(?:is|are|was|were|which|would|looks?|means?|c'est|ist|es|是)\b(?! ?[:=(])"
).match
"""Matches text after a call that continues a sentence about it."""
_LONGEST_CLOSERS = 300
_opener = re.compile(r"<[^<>\n]{1,60}>\Z").search
_LONGEST_OPENER, _MOST_OPENERS = 62, 3
"""The tags of a wrapper before its first call are no line of text."""


def is_shown(text: str, span: tuple[int, int], calls: SpanList) -> bool:
    """Whether the line before a call that words follow, or before the calls around it, announces an example."""
    before = calls.cut_out(text, max(0, span[0] - 1000), span[0]).rstrip(" \t\r\n[](){},;")
    for _ in range(_MOST_OPENERS):
        opener = _opener(before, max(0, len(before) - _LONGEST_OPENER))
        if opener is None:
            break
        before = before[: opener.start()].rstrip()
    if _shows(before[before.rfind("\n") + 1 :]) is not None:
        return True
    after = calls.cut_out(text, span[1], span[1] + _LONGEST_CLOSERS)
    return _goes_on_about(after) is not None
