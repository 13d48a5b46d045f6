r"""The parser: one engine that takes text in pieces, in any format, and returns events.

A format is a row of the catalogue: a template with holes, such as `<tool_call>\n{call}\n</tool_call>`.

**From a row to a plan.** `template.py` parses a template into nodes: literals, white space, holes, optional parts and
repeated parts. `plan.py` compiles the nodes to steps (`steps.py`, `pairs.py`). An `Entry` holds the steps and the
openers, which are the literals that can begin the call. A format that no template can describe has entries with
readers of their own (`readers/`, `unmarked.py`). A `Plan` is the union of the entries of one row (a named format) or
of all rows (`auto`). The registry compiles it once. It holds no state of a reply.

**Markers and gates.** The openers, section tags, think tags and dropped tokens of a plan are the alternatives of one
regular expression (`Markers` in `cursor.py`). So one scan finds the openers of all formats. If several entries share
an opener, the parser tries them in the order of the rows, and the first that can read the text wins. An entry without
an opener (bare JSON, `name(...)`, a line of text) is tried at a gate only: at the start of the message or of a line.
There, only the name of an offered tool makes a call; without tools, any name does. `LineFilter` decides from the first
characters of a line whether the gate must look at it, so lines of prose pass without a stop.

**The cursor.** `Parser` is a `Cursor`. A reader is a generator that moves `position` through `text` and yields when it
needs more text; the parser appends the next piece and resumes it. `forget` removes the text before `position` from
the buffer, so an index is not valid after a yield. `begin` returns a mark, `since` returns the text from a mark, and
`return_to` goes back to it. A *tile* is the stretch of input that will become one event or one call. A reader that
waits inside a long string sets `quiet`: a piece without a significant character then becomes a delta at once, and the
reader is not resumed.

**`now` and `run`.** Each step has two forms. `now` executes the step if the text at hand is sufficient, and returns
False otherwise. `run` is the generator, which waits. A text that arrives whole runs almost without generators.

**Commitment.** A reader that has called `commit` or `start_call` has decided that its text is a call. Three exceptions
end a reader early:

- `NotACall`: the text is not a call of this format. The parser returns to the opener and tries the next entry. If none
  is left, the opener is text, and the scan continues one character after its start. If `CallStarted` is already out,
  the call is broken instead.
- `BrokenCall`: before commitment it is the same as `NotACall`. After it, the call becomes `CallBroken`. `read_or_skip`
  first moves to the end of the broken call, so that the parser reads the next call.
- `Truncated`, a `BrokenCall`: the text ended inside the call. Such a call never becomes `CallEnded`.

**Three JSON readers.** The strict decoder (`args/decoder.py`: msgspec for short objects, else the C scanner of the
standard library) is the fastest, but it needs a complete value: on a value that grows, it would start again with each
piece. `JsonScanner` (`jsonscan.py`) is resumable. It reads each character once, finds the end of the value, and fails
at the first wrong token; then the strict decoder decodes the complete text. The tolerant reader (`args/tolerant.py`)
reads malformed JSON and names each repair. Malformed JSON does not show where it ends, so `json_reader.py` first moves
to the next closer or opener of the format, and then repairs that text once.

**Invariants** (`tests/formats/test_laws.py`, `tests/formats/test_linear.py`):

- Chunking: `Markers` reports a marker that the end of the text may cut, and the parser holds it back. A reader yields
  instead of deciding on an incomplete text. Only `close` sets `final`, which gives the end of the text a meaning.
- Conservation: each character leaves in exactly one event. Text leaves in `_release` and the `_pass` methods, markers
  in `_drop_marker`, and everything that a reader consumed in `_close_tile`.
- Totality: a reader raises only the three exceptions above, and `_step` catches them. Nesting has a fixed limit.
- Linearity: the scan continues at `_scan_from`, and goes back only to an opener whose readers failed. Slots
  (`SLOT_LIMIT`) and blanks (`BLANK_LIMIT`) are bounded, and `gave_up` allows bare JSON one search to the end only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    CallStarted,
    Event,
    MarkerDropped,
    TextDelta,
    ThinkingDelta,
)
from dragoman.formats.cursor import (
    BLANK_LIMIT,
    IMPROVISED,
    BrokenCall,
    Cursor,
    Mark,
    NotACall,
    Reader,
    Truncated,
    escape,
    skip_blanks,
)
from dragoman.formats.plan import WAITS, WAKES, LexerState, LineFilter, Plan, is_word
from dragoman.formats.template import Entry
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

# --------------------------------------------------------------------------------------------------------------------
# The result of a parse: the events, folded into text, thinking, calls, refused calls and broken calls.

_PASSED_OVER = (ArgumentsDelta, CallStarted, MarkerDropped)


class Parsed(Struct, frozen=True):
    """What a text contains: the text for the user, thinking, the calls, and what is not a call."""

    text: str
    thinking: str
    calls: list[ToolCall]
    refused: list[CallRefused]
    broken: list[CallBroken]
    events: list[Event]


def fold(events: Iterable[Event]) -> Parsed:
    """Fold events into a `Parsed`. The result does not depend on how the text was cut into pieces."""
    kept = list(events)
    text: list[str] = []
    thinking: list[str] = []
    calls: list[ToolCall] = []
    refused: list[CallRefused] = []
    broken: list[CallBroken] = []
    for event in kept:
        # Most events are deltas of arguments, which the calls contain as well, so the loop skips them first.
        if isinstance(event, _PASSED_OVER):
            continue
        if isinstance(event, TextDelta):
            text.append(event.text)
        elif isinstance(event, CallEnded):
            calls.append(event.call)
        elif isinstance(event, ThinkingDelta):
            thinking.append(event.text)
        elif isinstance(event, CallRefused):
            refused.append(event)
        elif isinstance(event, CallBroken):
            broken.append(event)
    return Parsed("".join(text), "".join(thinking), calls, refused, broken, kept)


# --------------------------------------------------------------------------------------------------------------------
# The engine. It searches for the markers of its plan, releases as text whatever cannot become one, and gives the rest
# to the readers. A piece of plain text, or of a long string argument, passes without a scan by a reader. So a piece
# costs the same at the start of a reply and after a megabyte of it.

IN_THINKING = "it is inside thinking"
_indent = re.compile(r"[ \t]*").match
_MOST_REPEATED, _SHORTEST_REPEATED = 4, 6
"""How often an opener may be repeated, and its minimal length. Shorter ones are brackets, which have a meaning each."""


class Attempt(Struct, frozen=True):
    """What the parser did with one opener, and why: one entry of `formats.explain`."""

    span: tuple[int, int]
    opener: str
    format: str
    verdict: str
    why: str


class Parser(Cursor):
    """A stage that turns pieces of text into events."""

    __slots__ = (
        "_after_call",
        "_at_gate",
        "_attempts",
        "_filter",
        "_head",
        "_kind",
        "_lane",
        "_line_is_blank",
        "_mentions",
        "_message_is_blank",
        "_narrow",
        "_opener",
        "_opener_offset",
        "_plan",
        "_reader",
        "_reports_thinking",
        "_scan_from",
        "_text_wakes",
        "_tried_from",
        "_untried",
        "_wakes",
    )

    def __init__(
        self,
        plan: Plan,
        tools: Toolset | None = None,
        *,
        calls_in_thinking: str = "report",
        starts_in_thinking: bool = False,
        attempts: list[Attempt] | None = None,
    ) -> None:
        super().__init__(tools)
        self._plan = plan
        self._lane = plan.text
        self._reader: Reader | None = None
        self._untried: Sequence[Entry] = ()
        self._opener = ""
        self._opener_offset = 0  # the distance from the start of the tile to the opener
        self._tried_from = 0
        self._scan_from = 0
        self._wakes: Callable[[str], re.Match[str] | None] | None = None
        self._text_wakes: Callable[[str], re.Match[str] | None] | None = None
        self._kind = ""
        self._filter: LineFilter | None = None
        self._head: str | None = None  # the beginning of a line that is still too short to classify
        self._after_call = False
        self._line_is_blank = True
        self._message_is_blank = True
        self._mentions: bool | None = None
        self._narrow: LexerState | None = None
        self._at_gate = plan.has_gates
        self._reports_thinking = calls_in_thinking == "report"
        self._attempts = attempts
        if starts_in_thinking:
            self._enter_thinking(plan.first_thinking_end)

    # ---- the stage -------------------------------------------------------------------------------------------------

    def feed(self, piece: str, /) -> list[Event]:
        """Take the next piece; return the events that are certain now."""
        wakes = self._text_wakes
        if wakes is not None:
            woken = wakes(piece)
            if woken is None:
                self.base += len(piece)
                return [TextDelta(piece)] if piece else []
            if woken.group() == "\n":
                return self._take_line(piece, woken.end())
            return self._take(piece)
        wakes = self._wakes
        if wakes is not None:
            return self._pass(piece) if wakes(piece) is None else self._take(piece)
        return self._take(piece) if self._head is None else self._extend_head(piece)

    def _take(self, piece: str) -> list[Event]:
        self.forget()
        self.text = self.text + piece if self.text else piece
        self.out = []
        self._drain()
        return self.out

    def close(self, rest: str = "") -> list[Event]:
        """End the text, with this last piece; return the events for everything that was undecided."""
        self.forget()
        self.text += (self._head or "") + rest
        self._head = None
        self.final = True
        self.out = []
        self._drain()
        return self.out

    def forget(self) -> None:
        shift = self.position
        super().forget()
        self._scan_from = self._scan_from - shift if self._scan_from > shift else 0

    def _pass(self, piece: str) -> list[Event]:
        """Emit a piece in which nothing can begin or end."""
        if not piece:
            return []
        kind = self._kind
        if self.text:
            self.forget()
        self.base += len(piece)
        if kind == "thinking":
            return [ThinkingDelta(piece)]
        if kind == "text":
            return [TextDelta(piece)]
        self._pieces.append(piece)
        if kind == "silent" or self.refusing or self.started is None:
            return []
        return [ArgumentsDelta(self.index, piece if kind == "json" else escape(piece)[1:-1])]

    def _take_line(self, piece: str, end: int) -> list[Event]:
        """Take a piece of text in which a line ends. The beginning of the next line decides whether it is only text."""
        verdict = self._line_filter.judge(piece[end:])
        if verdict == WAITS:
            self._head = piece[end:]
            self._text_wakes = None
            self._line_is_blank = True
            self._at_gate = self._plan.lines.gated
            self.base += end
            return [TextDelta(piece[:end])]
        return self._take_judged(piece, verdict)

    def _extend_head(self, piece: str) -> list[Event]:
        """Extend the beginning of a line, and judge it again."""
        assert self._head is not None
        head = self._head + piece
        end = head.rfind("\n") + 1
        if end and head[:end].isspace():
            return self._take_line(head, end)  # the line is blank, and the next one begins
        verdict = self._line_filter.judge(head)
        if verdict == WAITS:
            self._head = head
            return []
        return self._take_judged(head, verdict)

    def _take_judged(self, piece: str, verdict: int) -> list[Event]:
        """Take a piece that ends with the beginning of a line, on which the verdict is known."""
        self._head = None
        if verdict == WAKES:
            return self._take(piece)
        self._line_is_blank = self._at_gate = False
        self._text_wakes = self._lane.markers.wakes
        self.base += len(piece)
        return [TextDelta(piece)]

    @property
    def _line_filter(self) -> LineFilter:
        if self._filter is None:
            self._filter = LineFilter(self._plan.lines, self._plan.text.markers, self.tools)
        return self._filter

    def _drain(self) -> None:
        while self._step() if self._reader is not None else self._scan():
            pass
        self._wakes = self._text_wakes = None
        if self.position == len(self.text) and not self.final:
            if self._reader is not None:
                if self.quiet is not None:
                    self._wakes, self._kind = self.quiet
            elif self._lane.closer is not None:
                self._wakes, self._kind = self._lane.markers.wakes, "thinking"
            elif self.said is None and not (
                self._after_call or self._at_gate or (self._line_is_blank and self._plan.lines.watched)
            ):
                self.forget()
                self._text_wakes = self._lane.markers.wakes

    # ---- text and thinking -----------------------------------------------------------------------------------------

    def _scan(self) -> bool:
        """Find the next marker and act on it. Return False if no text is left to scan."""
        if self._lane.closer is None and (self._after_call or self._at_gate):
            decided = self._scan_start()
            if decided is not None:
                return decided
        lane = self._lane
        while True:
            hit = lane.markers.find(self.text, self._scan_from, final=self.final)
            if hit is None:
                self._release(len(self.text))
                return False
            at, marker = hit
            if marker is None:
                self._release(at)
                return False
            if marker != "\n" or lane.closer is not None:
                return self._meet(marker, at, at)
            if self.final and lane is not self._plan.ungated:
                narrow = self._find_narrow(at)
                if narrow is not lane:
                    lane = self._lane = narrow
                    continue
            if self._begins_nothing(at + 1):
                self._scan_from = at + 1
                continue
            self._pass_line(at + 1)
            self._at_gate = self._plan.lines.gated
            return True

    def _find_narrow(self, at: int) -> LexerState:
        """Return the state for the lines of a complete text, from a position on, that stops at the fewest of them."""
        plan = self._plan
        if not self._names_a_tool(at):
            self._narrow = plan.ungated
        elif self._narrow is None:
            self._narrow = plan.marked if not self.base and plan.needs_marks(self.text) else plan.text
        return self._narrow

    def _begins_nothing(self, start: int) -> bool:
        """Whether a look at the beginning of a line shows that it is plain text. The text must be complete."""
        lines = self._plan.lines
        if not self.final or not lines.gated:
            return False
        if not self._names_a_tool(start):
            at = _indent(self.text, start).end()  # type: ignore[union-attr]
            return lines.words is None or lines.words.at(self.text, at, final=True)[0] is None
        if not self._line_filter.may_gate(self.text, start):
            return True
        at = skip_blanks(self.text, start).end()  # type: ignore[union-attr]
        if self._message_is_blank and not self.text[self.position : start].isspace():
            self._message_is_blank = False
        if lines.words is not None and lines.words.at(self.text, at, final=True)[0] is not None:
            return False
        return not self._message_is_blank and not any([entry.begins(self, at) for entry in lines.entries])

    def _names_a_tool(self, at: int) -> bool:
        """Whether a line at a position or after it may be a call without a marker.

        In a text that arrived whole, it needs an offered name.
        """
        if self._mentions is None:
            tools, text = self.tools, self.text
            is_whole = self.final and not self.base and tools is not None
            self._mentions = not is_whole or (
                tools is not None
                and tools.is_mentioned(text)
                and any([entry.may_occur(self) for entry in self._plan.lines.entries])
            )
        return self._mentions and (not self._plan.lines.are_named or self.may_name(at))

    def _scan_start(self) -> bool | None:
        """Scan after a call, or at the start of the message or of a line: the first token decides about the blanks."""
        at = skip_blanks(self.text, max(self._scan_from, self.position)).end()  # type: ignore[union-attr]
        if at == len(self.text) and self.final:
            self._after_call = self._at_gate = False
            return None
        self._hold_blanks(at)
        if at == len(self.text):
            return False
        found, growing = self._find_at(at)
        if growing:
            return False
        # After the beginning of the message, what has no marker cannot begin at one.
        is_open = self._at_gate and (found is None or (self._message_is_blank and not self._after_call))
        if is_open and (self._message_is_blank or self._line_is_blank or self.text.find("\n", self.position, at) >= 0):
            tried = self._try_gate(at, found)
            if tried is not None:
                return tried
        self._at_gate = False
        if found is not None and (self._after_call or is_word(found)):
            return self._meet(found, at, self.position if self._after_call else at)
        self._after_call = False
        return None

    def _hold_blanks(self, at: int) -> None:
        """Hold the blanks after a call until the next token is known, up to a limit; release other blanks as text."""
        if self._after_call and at - self.position <= BLANK_LIMIT:
            self._scan_from = at
        elif at == len(self.text) or self._after_call:
            self._release(at)
            self._after_call = False

    def _find_at(self, at: int) -> tuple[str | None, bool]:
        """Return the marker at this position. At the start of a line, it may be a plain word."""
        found, growing = self._lane.markers.at(self.text, at, final=self.final)
        words = self._plan.lines.words
        if found is None and not growing and words is not None:
            return words.at(self.text, at, final=self.final)
        return found, growing

    def _try_gate(self, at: int, found: str | None) -> bool | None:
        """Try the unmarked formats that may begin here. Return None if there are none."""
        entries = self._gate_entries(at, marked=found is not None)
        if entries is None:
            return False
        if not entries:
            return None
        if found is not None and is_word(found):
            entries += self._plan.openers.get(found, ())
        self._at_gate = False
        if not self._after_call:
            self._release(at)
        self._try(entries, self.position, at, "")
        return True

    def _gate_entries(self, at: int, *, marked: bool) -> list[Entry] | None:
        """Return the unmarked formats that may begin here; None if more text is needed."""
        plan = self._plan
        if not self._message_is_blank or self._after_call:
            candidates = plan.line_entries
        elif self.final:
            candidates = plan.begin_message(self.text, at)
        else:
            candidates = [*plan.message_entries, *plan.line_entries]
        last = plan.improvised if self.final else None
        entries: list[Entry] = []
        for entry in candidates:
            if marked and entry.place == "line":
                continue
            if entry is last and entries:
                entries.append(entry)
                continue
            begins = entry.begins(self, at)
            if begins is None:
                return None
            if begins and (entry.place != "line" or self._names_a_tool(at)):
                entries.append(entry)
        return entries

    def _meet(self, marker: str, at: int, tile_start: int) -> bool:
        """Act on a marker. Blanks between two calls belong to the second one: its tile starts before them."""
        plan = self._plan
        if self._lane.closer is not None and marker == self._lane.closer:
            self._drop_marker(at, len(marker))
            self._lane, self.refusing, self.region = plan.text, "", "answer"
            self._at_gate = plan.has_gates
            return True
        if marker in plan.openers:
            end = at + len(marker)
            # A complete text shows with one search that the opener is not repeated.
            is_single = self.final and self.text.find(marker, end, end + BLANK_LIMIT + len(marker)) < 0
            last = at if is_single else self._find_repeated(marker, at)
            entries = None if last is None else self._choose_at(marker, at, last)
            if last is None or entries is None:
                self._release(tile_start)
                self._scan_from = at
                self._at_gate = is_word(marker)  # only a gate finds it again
                return False
            if entries:
                self._release(tile_start)
                self._try(entries, tile_start, last, marker)
                return True
        elif marker in plan.thinking:
            self._drop_marker(at, len(marker))
            self._enter_thinking(plan.thinking[marker])
            return True
        elif marker not in plan.section_ends or self._after_call:
            self.section = None
            start = tile_start if self._after_call else at
            self._drop_marker(start, at + len(marker) - start)
            return True
        why = "it is not alone on its line" if marker in plan.openers else "it closes nothing"
        self._note(self.base + at, marker, "", "text", why)
        self._scan_from = at + 1
        self._after_call = False
        return True

    def _choose_at(self, marker: str, at: int, last: int) -> Sequence[Entry] | None:
        """Return the entries that may read a marker at its place in the line. At its start, it may be improvised.

        The marker may be repeated: then `last` is its last place, where the entries begin. None: more text is needed.
        """
        entries = self._choose(marker, last)
        if self._lane.closer is not None:
            return entries  # no call counts inside thinking, so the parser does not track lines there
        improvised = self._plan.improvised if len(marker) > 1 else None
        if improvised is None and all([entry.place != "line" for entry in entries]):
            return entries
        if not self._begins_line(at):
            return [entry for entry in entries if entry.place != "line"]
        if improvised is None:
            return entries
        # If the text is complete, the reader is asked after the others failed, because its answer is expensive.
        begins = bool(entries and self.final) or self._may_improvise(improvised, last)
        if begins is None:
            return None
        return (*entries, improvised) if begins else entries

    def _may_improvise(self, improvised: Entry, at: int) -> bool | None:
        return self.tools is None or improvised.begins(self, at)

    def _find_repeated(self, marker: str, at: int) -> int | None:
        """Return the last of several equal openers in a row; None if more text is needed. The others are residue."""
        text = self.text
        if len(marker) < _SHORTEST_REPEATED or is_word(marker):
            return at
        for _ in range(_MOST_REPEATED):
            behind = skip_blanks(text, at + len(marker), at + len(marker) + BLANK_LIMIT).end()  # type: ignore[union-attr]
            if text.startswith(marker, behind):
                at = behind
            elif self.final or not marker.startswith(text[behind : behind + len(marker)]):
                return at
            else:
                return None
        return at

    @property
    def begins_message(self) -> bool:
        return self._message_is_blank

    @property
    def begins_line(self) -> bool:
        return self._line_is_blank

    @property
    def follows_call(self) -> bool:
        return self._after_call

    def enter_thinking(self, closer: str) -> None:
        self.drop()
        self._enter_thinking(closer)

    def _choose(self, marker: str, at: int) -> Sequence[Entry]:
        if self._attempts is not None:
            return self._plan.choose(marker, "", self.section)  # an explanation lists every entry
        behind = skip_blanks(self.text, at + len(marker)).end()  # type: ignore[union-attr]
        return self._plan.choose(marker, self.text[behind : behind + 1], self.section)

    def _enter_thinking(self, closer: str) -> None:
        self._lane = self._plan.thinking_lane(closer, self._reports_thinking)
        self.refusing, self.region = IN_THINKING, "thinking"
        self._after_call = False

    def _begins_line(self, at: int) -> bool:
        if not self._after_call:
            # After a call there are only blanks up to here. Elsewhere, the characters before the marker are text.
            self._release(at)
        return self._line_is_blank

    def _release(self, end: int) -> None:
        """Emit everything up to `end` as text or thinking."""
        if end > self.position:
            piece = self.text[self.position : end]
            if self._lane.closer is not None:
                self.out.append(ThinkingDelta(piece))
            else:
                self.out.append(TextDelta(piece))
                self._watch_line(piece)
            self.position = end
        self._mark = self.position
        self._scan_from = max(self._scan_from, end)

    def _pass_line(self, end: int) -> None:
        """Move to the start of a line. If the text is complete, what is before it leaves later, in one piece."""
        if not self.final:
            self._release(end)
            return
        self._line_is_blank = True
        self._scan_from = end

    def _watch_line(self, piece: str) -> None:
        """Track whether the current line, and the message, are still blank."""
        if self.said is not None:
            self.said.hear(piece)
        newline = piece.rfind("\n")
        blank = not piece[newline + 1 :].strip(" \t")
        self._line_is_blank = blank and (newline >= 0 or self._line_is_blank)
        if self._message_is_blank and not piece.isspace():
            self._message_is_blank = False

    def _drop_marker(self, at: int, length: int) -> None:
        self._release(at)
        # The answer begins after the end of the thinking, also if its beginning is missing.
        if self._line_is_blank or self.text[at : at + length] in self._plan.thinking_ends:
            self._at_gate = self._plan.has_gates
        self.position = at + length
        self.out.append(MarkerDropped(self.text[at : self.position]))
        self._mark = self._scan_from = self.position
        self._line_is_blank = True

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _try(self, entries: Sequence[Entry], tile_start: int, at: int, opener: str) -> None:
        self.open_tile(tile_start)
        self._opener = opener
        self._opener_offset = at - tile_start
        self._tried_from = self._tile_start
        self._untried = entries
        self._try_next(at)

    def _try_next(self, at: int) -> None:
        entry, *self._untried = self._untried
        self.position = at
        self.format = entry.format
        self.committed = self.ended = False
        self.name = None
        self.repairs = []
        if not self.refusing:
            self.region = "message" if entry.place == "message" else "answer"
        self._reader = entry.read(self)

    def _step(self) -> bool:
        """Resume the reader. Return False if it waits for more text."""
        assert self._reader is not None
        try:
            next(self._reader)
            return False
        except StopIteration:
            self.drop()
            self._settle()
        except (NotACall, BrokenCall) as failure:
            self.quiet = None
            if self.started is None and (not self.committed or isinstance(failure, NotACall)):
                self._step_back(str(failure))
            else:
                self._give_up(str(failure), is_cut=isinstance(failure, Truncated))
        return True

    def _step_back(self, why: str) -> None:
        """The text is not a call of this format: try the next entry with the same opener, or make the opener text."""
        self.return_to(Mark(0, self._tile_start))
        if self._tile_start != self._tried_from:
            # Calls were reported already; only the text after them is not a call.
            self._settle()
            return
        opener = self.position + self._opener_offset
        if self.format != IMPROVISED:  # it is tried at many lines of prose
            self._note(self.base + opener, self._opener, self.format, "text", why)
        untried = self._untried
        is_late = untried and self.final and untried[0] is self._plan.improvised
        if is_late and not self._may_improvise(untried[0], opener):
            self._untried = untried[1:]
        if self._untried:
            self._try_next(opener)
            return
        self._reader = None
        self._after_call = False
        self._scan_from = opener + (1 if self._opener else 0)

    def _give_up(self, why: str, *, is_cut: bool) -> None:
        """The text is a call, and it cannot be repaired: report it as broken."""
        if self.refusing:
            # A broken draft inside thinking is not worth a report.
            self.out.append(ThinkingDelta(self._close_tile()[0]))
            self.started, self.committed, self.ended, self.repairs = None, False, False, []
        else:
            self._note(self._tile_start, self._opener, self.format, "broken", why)
            self.break_call(why, is_cut=is_cut)
        self._settle()

    def _settle(self) -> None:
        self._reader = None
        self.quiet = None
        self._mark = self._scan_from = self.position
        self._line_is_blank = True
        if self._lane.closer is None:
            self._after_call = True
            self._at_gate = self._plan.lines.gated

    # ---- explanation -------------------------------------------------------------------------------------------------

    def _note(self, start: int, opener: str, format_name: str, verdict: str, why: str) -> None:
        if self._attempts is not None:
            self._attempts.append(Attempt((start, start + len(opener)), opener, format_name, verdict, why))

    def note(self, start: int, verdict: str, why: str) -> None:
        self._note(start, self._opener, self.format, verdict, why)
