"""The entry of the catalogue for improvised calls, which the parser tries at the start of a line."""

from __future__ import annotations

import re

from dragoman.formats.cursor import IMPROVISED, Cursor, Markers, NotACall, Reader
from dragoman.formats.improvised.marks import MARK_BEGINS, is_mark_word
from dragoman.formats.improvised.reader import (
    ANY_LABEL,
    LABEL_SET,
    ImprovisedReader,
    begins_pairs,
    match_label,
    needs_marks,
)
from dragoman.formats.json_reader import run_to
from dragoman.formats.loose.candidates import Found, OfferedNames
from dragoman.formats.template import Entry, NamedLine, match_name
from dragoman.toolset import Toolset

_nonce_opener = re.compile(r"<tool_call\s+id\s*=").match
_growing_nonce_opener = re.compile(
    r"<(?:t(?:o(?:o(?:l(?:_(?:c(?:a(?:l(?:l(?:\s+(?:i(?:d\s*)?)?)?)?)?)?)?)?)?)?)?)?\Z"
).match
_GATE = (
    r"[@/!$|｜\[{<«»【「『⟦〔〖]|%%|::|```|~~~|&[lq#]|[\u203a\u2190-\u2bff\U0001f300-\U0001faff]"
    rf"|[^\W\d][\w.\-:]*(?:[ \t]*(?:[({{<=:]|to=|name=)|!\d|\[[A-Z]{{3}}|\][a-z])|{MARK_BEGINS}"
)
_gate = re.compile(_GATE).match
_growing_gate = re.compile(
    r"(?:`{1,2}|~{1,2}|&|%|:|[#=\-]"
    r"|[^\W\d][\w.\-:]{0,200}(?:[ \t]{0,200}(?:to?|n(?:a(?:me?)?)?)?|\]|!|\[[A-Z]{0,2}|[>#=~\-]))\Z"
).match
_python_list = re.compile(r"\[[^\W\d][\w.\\]*\(").match
"""Matches the beginning of a list of calls in Python, which other formats read."""
_FIRST = "".join(sorted({label[0] + label[0].upper() for label in LABEL_SET}))
_line_marks = re.compile(
    rf"""\n[ \t]*+(?![\s"'}}\])\d,.+*(]|-(?!-))(?:
      (?P<sigil>[@/!$|｜]) | [<«»] | %% | :: | &[lq#] | \{{\{{
    | \[(?: \[ | [ \t\r\n]+[^\s{{"'\d\-\]] | (?![^\W\d][\w.\\]*\()[^\W\d_] )
    | (?:`{{3}}|~{{3}})(?!(?:python|py|json|javascript|js|bash|sh|text|xml|html|java|sql|yaml)?[ \t]*\r?(?:\n|\Z))
    | [\u2000-\U0010ffff]
    | {MARK_BEGINS}
    | [^\W\d][\w.\-]*+(?:[:/][^\W\d]|[\w.\-:/\\]*+(?:[ \t]*(?:<|to=|name=)|\[[A-Z]{{3}}|!\d))
    | (?=[{_FIRST}])(?:(?:{ANY_LABEL})\b[ \t]*){{1,3}}(?:(?P<label>[:：=])|[\]|>}}"'])
    )""",
    re.VERBOSE,
).search
"""Finds the beginning of a line that makes a call a marked one. It begins with a literal, so the search is fast."""
_MARKED_GATE = (
    r"[@/!$|｜<«»【「『⟦〔〖]|%%|::|&[lq#]|\{\{|\[(?!\s*[{'\d\-\]])|(?:`{3}|~{3})(?=[`~]*[ \t]?[\w\-.:])"
    r"|[\u203a\u2190-\u2bff\U0001f300-\U0001faff]|[^\W\d][\w.\-:/\\]*+(?:[ \t]*(?:<|to=|name=)|\[[A-Z]{3}|!\d)"
    rf"|[^\W\d][\w.\-]*+:[^\W\d]|{MARK_BEGINS}|(?=[{_FIRST}])(?:(?:{ANY_LABEL})\b[ \t]*){{1,3}}[:：=\]】|>}}%\"'(\n]"
)
"""Of the lines that the gate finds, those that markup, a label or a sigil makes a call."""
_blanks = re.compile(r"[ \t]*").match
_MOST_MARKS = 16
_LONGEST_LINE = 400
"""How far the mark of a line may reach behind its name."""
_nonce_end = Markers(["</tool_call>"])
LONGEST = 262_144
"""The maximal number of characters that the parser holds until the call is read."""


def _has_end_mark(text: str) -> bool:
    # The search for one character is far faster than that for two.
    return (
        ("<" in text and "</" in text)
        or (">" in text and ("|>" in text or "｜>" in text))
        or ("/" in text and "[/" in text)
    )


def _has_marks(cursor: Cursor) -> bool:
    text = cursor.text
    if _has_end_mark(text) or begins_pairs(text) is not None:
        return True
    lines = "\n" + text.lstrip()
    if lines[1:2] == '"':
        return True
    # A call contains its name, so no line after that of the last name begins one.
    limit = cursor.find_last_name() + _LONGEST_LINE if len(text) > _LONGEST_LINE else len(lines)
    end = 0
    for _ in range(_MOST_MARKS):
        mark = _line_marks(lines, end, limit)
        if mark is None:
            return False
        end = mark.end()
        if mark.lastgroup is None or _may_name(lines, end, cursor.tools):
            return True
    return True


def _may_name(text: str, at: int, tools: Toolset | None) -> bool:
    """Whether an offered name may follow a sigil or a label. Decorators and assignments in source code have none."""
    at = _blanks(text, at).end()  # type: ignore[union-attr]
    name = match_name(text, at)
    if tools is None or name is None or ":" in name[0] or match_label(text, at) is not None:
        return True
    return tools.find(name[0]) is not None or name[0].endswith(".call")


class Improvised(NamedLine):
    """A call of an offered tool in markup that no format describes. It is read when the reply has ended."""

    format = IMPROVISED
    line_gate = _GATE
    marked_gate = _MARKED_GATE
    line_characters = "@/!$|｜[<{&`~«»%:【「『⟦〔〖"
    doubled_characters = "#=-"
    is_mark = staticmethod(is_mark_word)
    line_labels = LABEL_SET
    match_label = staticmethod(match_label)

    def __init__(self, *, marked_only: bool = False) -> None:
        self._marked_only = marked_only
        """Calls without markup are left to the loose scanner, which sees the whole text."""

    def may_occur(self, cursor: Cursor) -> bool:
        if not self._marked_only:
            return True
        if cursor.has_marks is None:
            cursor.has_marks = _has_marks(cursor)
        return cursor.has_marks

    def _reader(self, cursor: Cursor, tools: Toolset | None) -> ImprovisedReader:
        if cursor.improvised is None:
            cursor.improvised = ImprovisedReader(OfferedNames(tools), marked_only=self._marked_only)
        reader: ImprovisedReader = cursor.improvised
        return reader

    def needs_marks(self, text: str) -> bool:
        return needs_marks(text, marked_only=self._marked_only)

    def begins(self, cursor: Cursor, at: int) -> bool | None:
        # The cheapest looks come first: the first word of a line rejects most prose.
        if cursor.final and _python_list(cursor.text, at) is not None:
            return False
        is_named = self._is_named(cursor, at)
        if not is_named:
            return is_named
        if cursor.final and not cursor.base and not (cursor.may_name(at) and self.may_occur(cursor)):
            return False
        return self.begins_call(cursor, at)

    def begins_call(self, cursor: Cursor, at: int) -> bool | None:
        if cursor.tools is None or _python_list(cursor.text, at) is not None:
            return False
        if not cursor.begins_message and _gate(cursor.text, at) is None:
            # In a stream, the parser also asks about lines that have not arrived yet.
            return None if not cursor.final and _growing_gate(cursor.text, at) is not None else False
        if not cursor.final or cursor.text.startswith("<tool_call", at):
            return True
        # The text is complete, so this decides.
        reader = self._reader(cursor, cursor.tools)
        is_first = cursor.begins_message
        return reader.may_begin(cursor.text, at, is_first=is_first) and reader.begins(
            cursor.text, at, final=True, is_first=is_first
        )

    def read(self, cursor: Cursor) -> Reader:
        if (yield from cursor.try_match(_nonce_opener, _growing_nonce_opener)) is not None:
            yield from self._pass_wrapper(cursor)
            return
        reader = self._reader(cursor, cursor.tools)
        is_first, follows_call = cursor.begins_message, cursor.follows_call
        while (begins := self._begins(reader, cursor, is_first=is_first)) is None:
            yield
        if not begins:
            raise NotACall("no offered name with arguments follows")
        mark = cursor.begin()
        while not cursor.final:
            cursor.position = len(cursor.text)  # the next piece is not appended to what is held
            if cursor.base + cursor.position - mark.offset > LONGEST:
                raise NotACall("the text is too long for a call without a known format")
            yield
        cursor.return_to(mark)
        calls = reader.read(cursor.text, cursor.position, is_first=is_first, follows_call=follows_call)
        if not calls:
            raise NotACall("the arguments do not satisfy the schema, or something else is on the lines of the call")
        for call in calls:
            cursor.position = call.end
            if not cursor.refusing:
                cursor.region = call.region
            cursor.repair(*call.arguments.repairs)
            cursor.finish_call(call.name, call.arguments.values, changes=call.arguments.changes)

    def _pass_wrapper(self, cursor: Cursor) -> Reader:
        """Make the wrapper of a nonce text as a whole: only its own format may read it, and the nonce may be old."""
        yield from run_to(cursor, _nonce_end)
        cursor.position += len("</tool_call>") if cursor.text.startswith("</tool_call>", cursor.position) else 0
        cursor.pass_as_text("the wrapper has the id of another turn")

    def _begins(self, reader: ImprovisedReader, cursor: Cursor, *, is_first: bool) -> bool | None:
        return reader.begins(cursor.text, cursor.position, final=cursor.final, is_first=is_first)


class Definitions(Entry):
    """`<tools>`: an improvised call may be in it. Otherwise it holds definitions, and nothing in it is a call."""

    format = IMPROVISED
    openers = ("<tools>",)
    _opener, _closer = Markers(openers), Markers(("</tools>",))

    def __init__(self) -> None:
        self._calls = Improvised()

    def read(self, cursor: Cursor) -> Reader:
        mark = cursor.begin()
        try:
            if not cursor.begins_line:
                raise NotACall("it does not begin a line")
            yield from self._calls.read(cursor)
        except NotACall:
            cursor.return_to(mark)
            yield from cursor.expect(self._opener)
            if (yield from run_to(cursor, self._closer)):
                yield from cursor.expect(self._closer)
            self._report_unknown(cursor, cursor.since(mark))

    def _report_unknown(self, cursor: Cursor, block: str) -> None:
        """Report a call of a tool that is not offered; anything else between the tags is text."""
        reader = ImprovisedReader(OfferedNames(None))
        begins = block.endswith("</tools>") and reader.begins(block, 0, final=True, is_first=False)
        calls = reader.read(block, 0, is_first=False) if begins else []
        if len(calls) != 1 or cursor.find_tool(calls[0].name) is not None:
            cursor.pass_as_text("a definition is not a call")
            return
        cursor.finish_call(calls[0].name, calls[0].arguments.values)


_may_be_call = re.compile(r"\s*(?:[{\[\"`*#\-]|\w+[ \t]?[:：]|[\w.\-:]+[ \t]*(?:[({→⇒]|[\-=]>))").match


def read_message(text: str, tools: Toolset | None) -> list[Found]:
    """Read a message that is an improvised call, as `auto` does; the engine of loose mode has read the marked ones."""
    start = len(text) - len(text.lstrip())
    if tools is None or len(text) > LONGEST or _may_be_call(text) is None or not tools.is_mentioned(text):
        return []
    if text[start].isalpha() and text.rstrip().endswith(")") and ".call(" not in text:
        return []  # a closed call in Python, which the scanner has judged
    reader = ImprovisedReader(OfferedNames(tools))
    if not reader.may_begin(text, start, is_first=True) or not reader.begins(text, start, final=True, is_first=True):
        return []
    found: list[Found] = []
    for call in reader.read(text, start, is_first=True):
        read = call.arguments
        repairs, changes = tuple(read.repairs), tuple(read.changes)
        found.append(Found(start, call.end, call.name, read.values, call.region, repairs, changes, True))
        start = call.end
    return found
