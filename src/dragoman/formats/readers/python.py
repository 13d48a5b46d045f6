"""The reader of calls in Python: `[f(a=1), g()]`, one call per line, with markers or without."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable

from msgspec import Struct

from dragoman.args.tolerant import TolerantReader
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.cursor import BrokenCall, Cursor, Mark, Markers, NotACall, PassThrough, Reader, Truncated
from dragoman.formats.envelope import by_position, unwrap_arguments
from dragoman.formats.intent import Said, is_meant
from dragoman.formats.json_reader import JsonBody, read_closed_calls, run_to
from dragoman.formats.steps import read_or_skip
from dragoman.formats.template import Entry, Place, UnmarkedEntry
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# The end of a Python call: a resumable scan over its arguments that tracks strings and brackets.

MAX_DEPTH = 100
# Without a marker, any `[name(` may begin a call. Arguments contain few parentheses, so many of them mean that it is
# not a call. That limits the search in a text with many such beginnings.
MAX_PARENTHESES = 5
_OPENING = {"(": ")", "[": "]", "{": "}"}
_QUOTES = ("'''", '"""', "'", '"')


class Landmarks:
    """The significant characters inside arguments, in code and in each kind of string; `ends` are the closers."""

    def __init__(self, ends: Iterable[str] = ()) -> None:
        self.ends = frozenset(ends)
        self.code = Markers((*_OPENING, *_OPENING.values(), *_QUOTES, *self.ends))
        self.inside = {quote: Markers((quote, "\\", *self.ends)) for quote in _QUOTES}


class ParenthesisScanner:
    """A scan from the index after an opening parenthesis; it stops after the one that closes it.

    It also stops at a closer of the calls (`at_end`). Then a bracket or a quote is missing, unless the closer is part
    of a string: the caller decides, and may continue after it.
    """

    __slots__ = ("_landmarks", "_open", "_parentheses", "_quote", "at_end", "done", "failed")

    def __init__(self, landmarks: Landmarks) -> None:
        self._landmarks = landmarks
        self._open = [")"]
        self._parentheses = MAX_DEPTH if landmarks.ends else MAX_PARENTHESES
        self._quote = ""
        self.at_end = ""
        self.done = False
        self.failed: str | None = None

    @property
    def in_string(self) -> bool:
        return bool(self._quote)

    @property
    def wakes(self) -> Callable[[str], re.Match[str] | None]:
        """A piece in which this finds nothing leaves the scanner as it is and need not be scanned."""
        return self._markers.wakes

    @property
    def _markers(self) -> Markers:
        return self._landmarks.inside[self._quote] if self._quote else self._landmarks.code

    def scan(self, text: str, position: int, *, final: bool) -> int:
        """Continue from `position`; return the index up to which the text is scanned."""
        self.at_end = ""
        while not self.done and self.failed is None:
            hit = self._markers.find(text, position, final=final)
            if hit is None:
                return len(text)
            position, found = hit
            if found is None:
                return position
            if found in self._landmarks.ends:
                self.at_end = found
                return position
            if found == "\\":
                if position + 1 >= len(text):
                    return position
                position += 2
            else:
                self._take(found)
                position += len(found)
        return position

    def _take(self, found: str) -> None:
        if self._quote:
            self._quote = ""
        elif found in _QUOTES:
            self._quote = found
        elif found in _OPENING:
            self._open.append(_OPENING[found])
            if len(self._open) > MAX_DEPTH or (found == "(" and self._open.count(")") > self._parentheses):
                self.failed = "nested too deep"
        elif self._open.pop() != found:
            self.failed = f"{found!r} closes nothing"
        else:
            self.done = not self._open


# --------------------------------------------------------------------------------------------------------------------
# The calls in Python.
#
# The reader holds the arguments of a call until its closing parenthesis, then reads them as a whole. Between markers, a
# call with a missing quote or bracket can be repaired, because the marker shows where the calls end.

_STRING = r"""\"(?!"")[^"\\]*+\"|'(?!'')[^'\\]*+'"""
_FLAT = rf"""(?:[^()\[\]{{}}"']++|{_STRING})*+"""
_plain_arguments = re.compile(rf"{_FLAT}(?:(?:\[{_FLAT}\]|\{{{_FLAT}\}}){_FLAT})*+\)").match
"""Matches arguments up to their parenthesis, if no brackets in them are nested and no string has an escape."""
_NAME_LIMIT = 200
_NAME = r"[^\W\d][\w.\-]*+(?:\\_[\w.\-]*+)*+"
_name = re.compile(_NAME).match
_growing_name = re.compile(rf"(?:{_NAME}\\?)?\Z").match
_name_start = re.compile(r"[^\W\d]").match
_blank = re.compile(r"[ \t]*").match
_assigned = re.compile(r"=(?!=)").match
_plain_call = re.compile(rf"(?:{_NAME}[ \t]*=[ \t]*)?{_NAME}[ \t]*\(").match
_statement_call = re.compile(rf"(?:{_NAME}[ \t]*=[ \t]*)?(?:print\([ \t]*)*+{_NAME}[ \t]*\(").match
_STATEMENT_LIMIT = 300


class PythonStyle:
    """How a format writes Python: the closers after its calls, and what may be around each call."""

    def __init__(
        self, *, ends: tuple[str, ...] = (), gated: bool = False, code: bool = False, method: str = ""
    ) -> None:
        self.ends = Markers(ends) if ends else None
        self.closers = Markers(end.strip() for end in ends) if ends else None
        """The same without the line break that some require before them, for use after skipped blanks."""
        self.landmarks = Landmarks(ends)
        self.marked = bool(ends)
        """Between markers, the text is a call in any case; without markers, it may still turn out to be text."""
        self.gated = gated
        """Only offered names make a call."""
        self.code = code
        """Calls are statements of a program: `print(f())` and `x = f()` are unwrapped, other lines are skipped."""
        self.method = method
        """A method of the tool that the model calls instead of the tool itself: `.call`."""
        self.lines = Markers(("\n", *ends))


class PythonCall(Struct, frozen=True):
    """A call that has been read, before it is reported."""

    name: str
    arguments: JsonObject
    rules: tuple[str, ...]

    @property
    def doubtful(self) -> bool:
        """Whether its end was inferred from the text after a quote: a truncated text may look the same."""
        return "escaped_quotes" in self.rules

    def report(self, cursor: Cursor) -> None:
        cursor.repair(*self.rules)
        cursor.finish_call(self.name, self.arguments)


class PythonReader:
    """Reads the calls of one text in sequence."""

    def __init__(self, cursor: Cursor, style: PythonStyle) -> None:
        self.cursor = cursor
        self.style = style
        self.in_list = False
        # A repair reads ahead to the end of the calls, so it is not tried for every call of a long list.
        self._attempts = 3

    # ---- the name --------------------------------------------------------------------------------------------------

    def read_call(self) -> Generator[None, None, PythonCall]:
        """Read one call, up to and including its last parenthesis."""
        cursor = self.cursor
        wrappers = 0
        while True:
            plain = _name(cursor.text, cursor.position) if cursor.final and not self.style.marked else None
            if plain is not None:
                name, cursor.position = plain.group(), plain.end()
                following = cursor.text[plain.end() : plain.end() + 1]
            else:
                name = yield from self._read_name()
                following = yield from self._next_on_line()
            if following == "(" and self.style.code and name == "print" and cursor.find_tool(name) is None:
                wrappers += 1
            elif following != "=" or not self.style.code or _assigned(cursor.text, cursor.position) is None:
                break
            cursor.position += 1
            yield from cursor.peek()
        if following != "(":
            raise NotACall(f"no arguments follow {name[:40]!r}")
        call = yield from self._read_arguments(self._settle_name(name))
        for _ in range(wrappers):
            if (yield from cursor.peek()) != ")":
                raise (
                    Truncated
                    if cursor.final and cursor.position >= len(cursor.text)
                    else BrokenCall("a parenthesis is not closed")
                )
            cursor.position += 1
        return call

    def _read_name(self) -> Generator[None, None, str]:
        cursor = self.cursor
        while True:
            if cursor.final or _growing_name(cursor.text, cursor.position) is None:
                match = _name(cursor.text, cursor.position)
                if match is None:
                    raise NotACall("not a tool name")
                cursor.position = match.end()
                return match.group()
            if len(cursor.text) - cursor.position > _NAME_LIMIT:
                raise NotACall("the name is too long")
            yield

    def _next_on_line(self) -> Generator[None, None, str]:
        """Move to the character after a name, and return it. Without markers, the parenthesis follows directly."""
        cursor = self.cursor
        while True:
            if self.style.marked:
                cursor.position = _blank(cursor.text, cursor.position).end()  # type: ignore[union-attr]
            # Two characters distinguish `=` from `==`.
            if len(cursor.text) - cursor.position > (1 if self.style.code else 0) or cursor.final:
                return cursor.text[cursor.position : cursor.position + 1]
            if cursor.text.startswith("(", cursor.position):
                return "("
            yield

    def _settle_name(self, name: str) -> str:
        cursor, style = self.cursor, self.style
        name = name.replace("\\_", "_")
        if style.code:
            name = name.removeprefix("default_api.")
        if style.method and cursor.find_tool(name) is None:
            if name.endswith(style.method) and name != style.method:
                name = name.removesuffix(style.method)
            else:
                raise NotACall(f"{name[:40]!r} is neither an offered tool nor a built-in one")
        if style.gated:
            cursor.require_offered(name)
        if style.marked:
            cursor.commit()
        return name

    # ---- the arguments -----------------------------------------------------------------------------------------------

    def _read_arguments(self, name: str) -> Generator[None, None, PythonCall]:
        cursor = self.cursor
        cursor.position += 1
        mark = cursor.begin()
        if cursor.final and not self.style.marked:
            plain = _plain_arguments(cursor.text, cursor.position)
            if plain is not None:
                cursor.position = plain.end()
                return (yield from self._settle(name, mark))
        scanner = ParenthesisScanner(self.style.landmarks)
        while True:
            cursor.position = scanner.scan(cursor.text, cursor.position, final=cursor.final)
            if scanner.done:
                return (yield from self._settle(name, mark))
            if scanner.failed is not None or (scanner.at_end and not scanner.in_string):
                return (yield from self._mend(name, mark, scanner.failed or "a bracket is not closed"))
            if scanner.at_end:
                call = self._try_quotes(name, mark)
                if call is not None:
                    return call
                cursor.position += len(scanner.at_end)
                continue
            if cursor.position == len(cursor.text):
                cursor.quiet = PassThrough(scanner.wakes, "silent")
            if cursor.final and self.style.marked and not scanner.in_string:
                return self._close_at_end(name, mark)
            yield from cursor.need()
            cursor.quiet = None

    def _close_at_end(self, name: str, mark: Mark) -> PythonCall:
        """Add the brackets of a call with which the text ended. Inside a value, the text is truncated."""
        cursor = self.cursor
        cursor.quiet = None
        text = cursor.since(mark)
        try:
            call, _ = self._understand(name, text, closing=True)
        except (Unreadable, BrokenCall):
            call = None
        if call is None or _value_over(text) is None or not _AT_THE_END.issuperset(call.rules):
            cursor.ended = True
            raise Truncated
        return PythonCall(call.name, call.arguments, (*call.rules, "closed_wrapper"))

    def _settle(self, name: str, mark: Mark) -> Generator[None, None, PythonCall]:
        text = self.cursor.since(mark)
        try:
            call, end = self._understand(name, text)
        except Unreadable as unreadable:
            return (yield from self._mend(name, mark, unreadable.why))
        if end < len(text):
            self._move_behind(mark, end)
        return call

    def _try_quotes(self, name: str, mark: Mark) -> PythonCall | None:
        """A closer inside what seems to be a string: try whether an earlier quote was not escaped."""
        self._attempts -= 1
        if self._attempts < 0:
            return None
        try:
            call, end = self._understand(name, self.cursor.since(mark))
        except Unreadable:
            return None
        self._move_behind(mark, end)
        return call

    def _mend(self, name: str, mark: Mark, why: str) -> Generator[None, None, PythonCall]:
        """Read everything up to the closer. The call is complete, so missing brackets and quotes can be added."""
        cursor = self.cursor
        if self.style.ends is None:
            raise BrokenCall(why)
        found = yield from run_to(cursor, self.style.ends)
        if not found:
            raise Truncated
        self._attempts -= 2
        if self._attempts < 0:
            raise BrokenCall(why)
        text = self.cursor.since(mark)
        if self.in_list:
            text = text.rstrip().removesuffix("]")
        try:
            call, end = self._understand(name, text, closing=True)
        except Unreadable as unreadable:
            raise BrokenCall(unreadable.why) from None
        self._move_behind(mark, end)
        return call

    def _move_behind(self, mark: Mark, length: int) -> None:
        """Move to the position so many characters after the mark."""
        self.cursor.return_to(mark)
        self.cursor.position += length

    def _understand(self, name: str, text: str, *, closing: bool = False) -> tuple[PythonCall, int]:
        reader = TolerantReader(text, python=True, closing=closing)
        positional, keywords, end = reader.arguments(0)
        rules = tuple(reader.rules)
        if "closed_string" in rules:
            # The end of a string without a closing quote is unknown.
            raise Unreadable("string without end", end)
        if positional:
            named = by_position(positional, keywords, self.cursor.find_tool(name))
            if named is None:
                raise BrokenCall("positional arguments, and no schema that names them")
            keywords, rules = named, (*rules, "positional_arguments")
        return PythonCall(name, keywords, rules), end

    # ---- from call to call -------------------------------------------------------------------------------------------

    def read_calls(self, held: list[tuple[PythonCall, int]] | None = None) -> Generator[None, None, PythonCall]:
        """Read calls. Report all but the last; return the last, because the closer of its wrapper may follow.

        With `held`, the calls before the last are added to it with their ends instead.
        """
        cursor = self.cursor
        self.in_list = (cursor.peek_now() or (yield from cursor.peek())) == "["
        if self.in_list:
            cursor.position += 1
        if self.in_list or self.style.code:
            character = cursor.peek_now() or (yield from cursor.peek())
            if character == "#":
                yield from self._skip_comments()
        call = yield from self.read_call()
        while True:
            more, rules = yield from self._reach_next()
            if rules:
                call = PythonCall(call.name, call.arguments, (*call.rules, *rules))
            if not more:
                return call
            if held is not None:
                held.append((call, cursor.base + cursor.position))
                call = yield from self.read_call()
                continue
            call.report(cursor)
            cursor.commit()
            try:
                call = yield from self.read_call()
            except NotACall as not_a_call:
                # The calls before it have been reported, so it is too late to read all of it as text.
                cursor.ended = cursor.final and cursor.position >= len(cursor.text)
                raise BrokenCall(str(not_a_call)) from None

    def _reach_next(self) -> Generator[None, None, tuple[bool, tuple[str, ...]]]:
        """Move to the next call, or to the end of the last one; return whether there is one, and the repairs."""
        cursor, style = self.cursor, self.style
        rules: tuple[str, ...] = ()
        separated = False
        while True:
            character = cursor.peek_now() or (yield from cursor.peek())
            if character == "#" and (style.code or self.in_list):
                yield from self._skip_comments()
                character = yield from cursor.peek()
            if character == "," or (character == ";" and style.marked):
                separated = True
                cursor.position += 1
            elif character == "]" and self.in_list:
                cursor.position += 1
                return False, rules
            elif style.code and character and not (yield from self._ends_here()):
                if (yield from self._is_statement_a_call()):
                    return True, rules
                rules = ("skipped_text",)
                yield from run_to(cursor, style.lines)
            else:
                break
        if character and _name_start(character) and not style.code and (separated or style.marked):
            return True, () if separated or not self.in_list else ("missing_comma",)
        if self.in_list and character and not style.marked:
            if style.gated and _name_start(character):
                return True, ("missing_comma",)
            raise BrokenCall(f"{character!r} where the list should continue or end")
        return False, (*rules, "closed_wrapper") if self.in_list else rules

    def _ends_here(self) -> Generator[None, None, bool]:
        if self.style.closers is None:
            return False
        found, _ = yield from self.cursor.look(self.style.closers)
        return found is not None

    def _is_statement_a_call(self) -> Generator[None, None, bool]:
        """Whether the line that begins here looks like a call."""
        cursor = self.cursor
        begins = _plain_call if cursor.find_tool("print") is not None else _statement_call
        while True:
            if begins(cursor.text, cursor.position) is not None:
                return True
            end = cursor.position + _STATEMENT_LIMIT
            if cursor.final or len(cursor.text) > end or cursor.text.find("\n", cursor.position, end) >= 0:
                return False
            yield

    def _skip_comments(self) -> Reader:
        while (yield from self.cursor.peek()) == "#":
            yield from run_to(self.cursor, self.style.lines)


# --------------------------------------------------------------------------------------------------------------------
# The entries for calls in Python: after a marker, as a list, or as the whole message.

_ENTRY_NAME = r"[^\W\d](?:[\w.\-]|\\_){0,200}+"
_JSON = Markers(["{"])


class MarkedCalls(Entry):
    """Python between markers: a list of calls or consecutive calls; JSON is accepted as well."""

    def __init__(
        self,
        format_name: str,
        openers: tuple[str, ...],
        closers: tuple[str, ...],
        *,
        place: Place = "anywhere",
        closer_required: bool = True,
        json: bool = True,
        code: bool = False,
        method: str = "",
    ) -> None:
        self.format = format_name
        self.openers = openers
        self.place: Place = place
        self.follows = "[n<{" if json else "[n"
        self._opener = Markers(openers)
        self._closers = Markers(closer.strip() for closer in closers)
        self._closer_required = closer_required
        self._style = PythonStyle(ends=closers, code=code, method=method)
        self._body = JsonBody(stops=Markers(closers)) if json else None

    def read(self, cursor: Cursor) -> Reader:
        yield from cursor.expect(self._opener)
        found, ahead = yield from cursor.look(self._closers)
        if found is not None and self.place == "anywhere" and self._body is not None:
            # Tokens without content are framing; an empty fence is text.
            cursor.position += ahead + len(found)
            return
        yield from read_or_skip(cursor, self._read_body(cursor), self._closers)

    def _read_body(self, cursor: Cursor) -> Reader:
        character = yield from cursor.peek()
        if character in ("{", "[") and self._body is not None:
            ahead = 1 if character == "[" else 0
            found, _ = yield from cursor.look(_JSON, ahead)
            if found is not None:
                yield from read_closed_calls(cursor, self._body, self._closers, required=self._closer_required)
                return
        call = yield from PythonReader(cursor, self._style).read_calls()
        if (yield from cursor.take(self._closers)) is None:
            if call.doubtful:
                raise Truncated
            if self._closer_required:
                cursor.repair("closed_wrapper")
        call.report(cursor)


_ends = re.compile(r"(?:```)?(?:\s*(?:<\|[\w/]{1,40}\|>|</s>|<eos>))*\s*\Z").match
_MOST_ENDS = 200
_value_over = re.compile(r"(?:[\"'}\]]|[=\[,\s](?:True|False|None))\s*\Z").search
_AT_THE_END = frozenset(("closed_brackets", "positional_arguments", "closed_wrapper"))
_line_over = re.compile(r"[ \t\r]*(?=\n|<|\Z)").match
_line_may_go_on = re.compile(r"[ \t\r]*\Z").match


def report_meant(cursor: Cursor, mark: Mark, calls: list[tuple[PythonCall, int]], *, is_plain: bool) -> None:
    """Report calls from the mark on. Each gets its own part of the text, up to its end.

    A call that is not meant is broken, so that the model is told; a repeated one is text.
    """
    said = Said() if cursor.said is None else cursor.said
    if not cursor.follows_call and not said.begin_group():
        raise NotACall("the answer was over before the list")
    meant = [_meant_arguments(cursor, call, is_plain=is_plain) for call, _ in calls]
    if all(one is not None and said.repeats(*one) for one in meant):
        raise NotACall("the reply contained the calls before")
    cursor.said = said
    cursor.return_to(mark)
    for (call, end), one in zip(calls, meant, strict=True):
        cursor.position = end - cursor.base
        if one is None:
            cursor.name = call.name
            cursor.break_call("a required argument has no value, or a value is a variable or a placeholder")
        elif said.repeats(*one):
            cursor.pass_as_text("the reply contained the call before")
        else:
            said.add(*one)
            call.report(cursor)
    if not cursor.final:
        said.spell_all()


def _meant_arguments(cursor: Cursor, call: PythonCall, *, is_plain: bool) -> tuple[str, JsonObject] | None:
    """Return the tool and the arguments of a call, by which it is compared; None if it is not meant."""
    tool = cursor.find_tool(call.name)
    if tool is None:
        return call.name, call.arguments  # no tools were given
    arguments, _ = unwrap_arguments(call.arguments, tool, cursor.find_tool)
    if not is_meant(tool, arguments, call.rules, cursor.find_tool, is_plain=is_plain):
        return None
    return tool.name, arguments


class ListedCalls(UnmarkedEntry):
    """`[f(a=1), g()]` without a marker. `gated`: only offered names make a call."""

    start = re.compile(rf"\[\s*{_ENTRY_NAME}\(")
    growing_start = re.compile(rf"\[\s*(?:{_ENTRY_NAME}\\?)?\Z")
    line_gate = r"\["
    line_characters = "["

    def __init__(self, format_name: str, *, openers: tuple[str, ...] = (), place: Place = "line", gated: bool) -> None:
        self.format = format_name
        self.openers = openers
        self.place: Place = place
        self._style = PythonStyle(gated=gated)
        self.may_echo = not gated

    def read(self, cursor: Cursor) -> Reader:
        mark = cursor.begin()
        held: list[tuple[PythonCall, int]] | None = [] if self._style.gated else None
        call = yield from PythonReader(cursor, self._style).read_calls(held)
        if call.doubtful and "closed_wrapper" in call.rules:
            raise Truncated
        if held is None:
            call.report(cursor)
            return
        while not cursor.final and _line_may_go_on(cursor.text, cursor.position) is not None:
            yield
        if _line_over(cursor.text, cursor.position) is None:
            raise NotACall("the line continues after the list")
        calls = [*held, (call, cursor.base + cursor.position)]
        # Only at the start of the message is it certain that the list is not part of a program.
        report_meant(cursor, mark, calls, is_plain=cursor.begins_message)


class MessageCalls(UnmarkedEntry):
    """A message that is one or several calls of offered tools and nothing else."""

    start = re.compile(rf"{_ENTRY_NAME}\(")
    growing_start = re.compile(rf"{_ENTRY_NAME}\\?\Z")
    _fenced = False

    def __init__(self, format_name: str) -> None:
        self.format = format_name
        self._style = PythonStyle(gated=True)

    def read(self, cursor: Cursor) -> Reader:
        mark = cursor.begin()
        if self._fenced:
            while (newline := cursor.text.find("\n", cursor.position)) < 0:
                yield from cursor.need()
            cursor.position = newline + 1
            yield from cursor.space()
        reader = PythonReader(cursor, self._style)
        calls: list[tuple[PythonCall, int]] = []
        while not calls or (yield from self._goes_on(cursor)):
            call = yield from reader.read_call()
            calls.append((call, cursor.base + cursor.position))
        if calls[-1][0].doubtful:
            raise Truncated
        if self._fenced or cursor.text[max(0, calls[-1][1] - cursor.base) : cursor.position].strip():
            last = calls.pop()[0]
            rules = (*last.rules, "markdown_fence") if self._fenced else last.rules
            calls.append((PythonCall(last.name, last.arguments, rules), cursor.base + cursor.position))
        report_meant(cursor, mark, calls, is_plain=not self._fenced)

    def _goes_on(self, cursor: Cursor) -> Generator[None, None, bool]:
        """Whether another call follows, on a line of its own or after a separator."""
        separated = False
        while True:
            if cursor.position >= len(cursor.text):
                if cursor.final and self._fenced:
                    raise NotACall("the fence was not closed")
                if cursor.final:
                    return False
                yield
                continue
            character = cursor.text[cursor.position]
            if character in "\n,;":
                separated = True
            elif not character.isspace():
                break
            cursor.position += 1
        if character in "<`" and (yield from self._ends_message(cursor)):
            return False
        if not separated:
            raise NotACall("the message continues after the call")
        return True

    def _ends_message(self, cursor: Cursor) -> Generator[None, None, bool]:
        """Whether only end tokens, and the end of a fence, follow."""
        while not cursor.final:
            if len(cursor.text) - cursor.position > _MOST_ENDS:
                return False
            yield
        match = _ends(cursor.text, cursor.position)
        if match is None or ("`" in match.group()) != self._fenced:
            return False
        cursor.position = len(cursor.text)
        return True


class FencedCalls(MessageCalls):
    """The same in a code fence: ```python ... ``` with nothing around it."""

    start = re.compile(rf"```[ \t]*(?:python|py)?[ \t]*\r?\n\s*{_ENTRY_NAME}\(")
    growing_start = re.compile(rf"`{{1,3}}[ \t]*[a-z]{{0,10}}[ \t\r]*(?:\n\s*(?:{_ENTRY_NAME}\\?)?)?\Z")
    _fenced = True
