"""Reads an improvised call at the start of a line: markup, an offered name, arguments that satisfy its schema.

Models without training for a format, and models whose format a server destroyed, invent wrappers. No list of wrappers
can be complete, so this reader has none. It relies on what all improvised calls share: the name of an offered tool in
the place of a name, and arguments that satisfy the schema of that tool, in one of five notations (`arguments.py`).
What surrounds the call decides how far it can be trusted:

- `marked`: tags, sigils, bracketed labels or the label of a fence surround the call, and nothing else is on its lines.
- `message`: the call is the whole message.
- `last_line`: the last line is nothing but `NAME(...)`.

Anything else is not a call here. The loose scanner still finds it, as a suspect.
"""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct

from dragoman.formats.envelope import properties_of
from dragoman.formats.improvised.arguments import (
    SIGIL,
    Arguments,
    Closers,
    begins,
    fit,
    has_token,
    holds_text,
    read_after,
    read_fenced,
)
from dragoman.formats.improvised.envelopes import Stated, may_state, named_in, read_envelopes
from dragoman.formats.improvised.marks import LONGEST_MARK, match_mark
from dragoman.formats.improvised.source import Sources, Words, escaped_start
from dragoman.formats.improvised.surroundings import (
    MOST_TOKENS,
    Head,
    Name,
    Region,
    closes_call,
    closing_mark_after,
    code_begins,
    content_tag,
    describe,
    end_of_wrapper,
    ends_line,
    fence_after,
    find_region,
    lacks_end,
    logged,
    next_wrapper,
    setting,
    skip_closers,
    skip_tags,
)
from dragoman.formats.intent import PROSE_TAGS, has_placeholder
from dragoman.formats.loose.calls import declares
from dragoman.formats.loose.candidates import OfferedNames
from dragoman.formats.template import match_name
from dragoman.toolset import has_namespace
from dragoman.types import Tool

# --------------------------------------------------------------------------------------------------------------------
# What may be before the name: tags, tokens, brackets, sigils, and words that label a call.

# fmt: off
LABELS = (
    "call", "calls", "calling", "tool", "tools", "tool_call", "tool_calls", "toolcall", "toolcalls", "tool-call",
    "tool-calls", "tool_use", "tool_code", "function", "functions", "function_call", "function_calls", "functioncall",
    "invoke", "action", "name", "tool_name", "function_name", "commentary", "assistant", "assistantcommentary",
    "analysis", "channel", "to", "recipient", "default_api", "api", "json", "use", "request", "type", "command",
    "tool_request", "begin", "start", "antml",
    # The same words in other languages
    "工具", "调用", "调用工具", "工具调用", "函数", "函数调用", "ツール", "関数", "도구", "함수", "herramienta",
    "función", "acción", "llamada", "ferramenta", "função", "chamada", "werkzeug", "funktion", "aufruf", "outil",
    "fonction", "appel", "strumento", "funzione", "инструмент", "функция", "вызов",
)
# fmt: on
LABEL_SET = frozenset(LABELS)
_NOT_A_MARK = frozenset(("json", "type", "name"))
_CALL_LABELS = LABEL_SET - _NOT_A_MARK
_FENCE_LABELS = _CALL_LABELS | {"homeassistant"}


def _join_labels() -> str:
    """Return a pattern of all labels, in any case. It looks at the first letter before it tries the labels with it."""
    rests: dict[str, list[str]] = {}
    for label in sorted(LABELS, key=len, reverse=True):
        rests.setdefault(label[0], []).append(label[1:])
    return "|".join(f"[{first}{first.upper()}](?i:{'|'.join(rest)})" for first, rest in rests.items())


ANY_LABEL = _join_labels()
_OPENING, _CLOSING = "[【「『«⟦〔〖", "\\]】」』»⟧〕〗"
"""Brackets around a label, for a class of characters."""
match_label = re.compile(
    rf"(?:(?:{ANY_LABEL})\b[ \t]*){{1,3}}"
    rf"(?:[:：=](?P<blank>[ \t*]*)|(?=[{_CLOSING}|>}}%\"'(\n]|:\*|<[|｜]|[{{\[]\s*[{{\"']))"
).match
_heading = re.compile(rf"(?:#{{1,6}}|[-*]|\*{{2,3}})[ \t]*(?=(?:{ANY_LABEL})\b)|\*{{2,3}}(?=\w)").match
"""Matches the markup of a heading, a list or bold text before a label, at the beginning of a message."""
_doubled = re.compile(r"(?:%{2,3}|:{2,3}|@{2,3})[ \t]*").match
_may_mark = re.compile(r"##|==|--|\[{0,2}[A-Z]{3}").match
_doubled_object = re.compile(r"\{\{\s*[\"'“]").match
_object_in_tag = re.compile(r"\s*(?=[{\[]\s*[\"'{])").match
_bracket_word = re.compile(r"[A-Za-z_]{2,20}:?[ \t]+").match
_blank = re.compile(r"[ \t\r]*(?:\n[ \t\r]*){0,2}").match
_token = re.compile(r"<[|｜][^|｜<>\n]{1,60}[|｜]>|\[unused\d{1,3}\]|([\u2600-\u27bf])[A-Za-z_]{1,20}\1:?").match
_tag_word = re.compile(rf"<{{1,3}}\s?\[?{SIGIL}([^\W\d][\w.\-]{{0,99}})").match
_blank_in_name = re.compile(r"<([^\W\d]\w*(?: \w+){1,3})>").match
_tag_rest = re.compile(r"""(?:"[^"\n]{0,200}"|'[^'\n]{0,200}'|[^<>"'\n]){0,200}>{1,3}""").match
_whole_tag = re.compile(r"""<{1,3}(?:"[^"\n]{0,200}"|'[^'\n]{0,200}'|[^<>"'\n]){0,200}>(?!>)(?=.)""", re.DOTALL).match
_named_attribute = re.compile(
    r"""(?:\s+[\w\-]+\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'|[^\s<>"']+))*?
        \s+(?:name|tool|function|tool_name|fn|action)\s*=\s*["']?\s*""",
    re.VERBOSE,
).match
_typed_attribute = re.compile(r"""[^<>\n]*?\s(?:type|id)\s*=\s*["']?\s*""").match
_suffix = re.compile(r"\s*[=:\s(]\s*[\"']?").match
_fence = re.compile(
    r"(?!~{3,}[ \t]?[\w\-.:]*[ \t]\{)(`{3,}|~{3,})[ \t]?"
    r"(?:(?:json|xml|yaml|text)[ \t]+(?=\w*(?:tool|call|function)))?([\w\-.:]*)[ \t]*(?:\r?\n|(?<=\w[ \t])(?=\{))"
).match
_markup_begins = re.compile(r"<|\[(?!\s*[\"'][^\W\d][\w.\-]*[\"']\s*,)").match
_list_may_begin = re.compile(r"(?:\[[^,{(]*)?\Z").match
_name_element = re.compile(
    r"(?:[a-z]{1,20}[:_])?(?:name|tool|function|tool_name|function_name|toolname|action|invoke)\Z", re.IGNORECASE
).match
_side_element = re.compile(r"<([\w:.\-]{0,60}id|server(?:_name)?)>[^<>\n]{0,100}</\1>").match
"""Matches an element that a wrapper has before the name of the tool."""
_unmarked = re.compile(r"""\{(?!\{)|\[\s*[{"']|(?:\[\s+)?[^\W\d][\w.\-\\]*[ \t]?\(""").match
"""Matches the beginnings of lines that only a closing tag can make a marked call."""
_NEUTRAL = "]】」』»⟧〕〗}*:=>\"'`,(~|｜"
_capital_label = re.compile(r"[A-Z]{2,}_[A-Z_]*[A-Z][ \t]*[:：]").match
"""Matches a label that is a mark by its spelling: TOOL_CALL: ..."""
_half_tag = re.compile(
    r"""(?:[a-z]{1,20}:)?(?:invoke|function|tool|tool_call|action)\s+(?:name|tool|function)\s*=\s*["']?\s*"""
).match
"""Matches a tag without its first bracket, up to the name."""
_named_token = re.compile(r"""<[|｜][\w \-]{1,40}[=:]\s*["']?([^\W\d][\w.\-]{0,99})["']?\s*[|｜]>""").match
_LONGEST_TAG = 300
_LONGEST_LABEL = 60
_LOOK_AHEAD = 420
_MOST_WORDS = 3
_READ_AGAIN, _FREE = 16, 65_536
"""The budget for failed attempts: a multiple of the length of the text, and as much as short texts never need."""


class ImprovisedCall(Struct, frozen=True):
    """A call, its end, and the region that its surroundings give it."""

    name: str
    arguments: Arguments
    end: int
    region: Region


class Work:
    """What failed attempts have cost. An attempt may read up to the end of the text, so their number is limited."""

    __slots__ = ("_failed", "_last", "_mark", "closers")

    def __init__(self) -> None:
        self._failed = 0
        self._last: str | None = None
        self._mark: int | None = 0  # how far from the end of the text the next closing mark is, if it is still ahead
        self.closers = Closers()

    def may_close(self, text: str, position: int) -> bool:
        """Whether a closing mark follows in a text that is complete. Every part of the text is searched once."""
        if self._mark is not None and (not self._mark or len(text) - self._mark < position):
            found = closing_mark_after(text, position)
            self._mark = None if found is None else len(text) - found.start()
        return self._mark is not None

    def last_character(self, text: str) -> str:
        """Return the last character of a text that is complete, apart from blanks."""
        if self._last is None:
            self._last = text.rstrip()[-1:]
        return self._last

    def charge(self, text: str, position: int) -> None:
        self._failed += len(text) - position

    def is_spent(self, length: int) -> bool:
        return self._failed > _READ_AGAIN * length + _FREE


class _More(Exception):
    """The text ends before the decision."""


begins_pairs = re.compile(r"\s*[\w.\-]+(?:[ \t]\w+)?[ \t]*(?:[:=][^({\n]*)?(?:\n(?!\s*[({\[])|\Z)").match
"""Matches a message whose first line is a pair or a lone word without brackets, as calls in lines of pairs begin."""
_ENDS_OF_CALL = frozenset(")]}\"'>」")
"""The last characters of calls in JSON and Python without markup, also if the brackets or the quotes are tokens."""
_SCANNED = ("json", "python")
"""The notations that the loose scanner reads without markup."""


_has_escapes = re.compile(r"[\[{]\s*&(?:quot|#34|#x22);").search


def needs_marks(text: str, *, marked_only: bool) -> bool:
    """Whether a complete text shows that no line of it but the first begins a call without markup before the name.

    After such a call, a closing mark follows, or it is the last line in Python.
    """
    if not marked_only and text.rstrip()[-1:] in _ENDS_OF_CALL:
        return False
    return closing_mark_after(text) is None and not ("&" in text and _has_escapes(text))


class ImprovisedReader:
    """Reads calls of the offered tools."""

    def __init__(self, offered: OfferedNames, *, marked_only: bool = False) -> None:
        self._offered = offered
        self._is_open = offered.open
        """No tools were given: only an object that states its name, in a wrapper for calls, can be a call."""
        self._marked_only = marked_only
        self._work = Work()
        self._sources = Sources()

    def begins(self, text: str, at: int, *, final: bool, is_first: bool) -> bool | None:
        """Whether a name and the beginning of its arguments follow; None if more text is needed."""
        try:
            source = self._sources.find(text, at, self._tags_of, final=final)
            if source is None:
                return None
            name = self._find_name(source.text, source.inner(at), final=final, is_first=is_first)
            if name is None and not final and text.startswith("[", at) and source.text is not text:
                # Only the end of the text shows whether a word in square brackets is closed as a tag is.
                name = self._find_name(text, at, final=False, is_first=is_first)
        except _More:
            return None
        if name is None:
            return False
        # Without markup before the name, only a closing tag makes it a marked call.
        if name.head.marked or not self._marked_only or not final:
            return True
        return (is_first and begins_pairs(text) is not None) or self._work.may_close(text, at)

    def _tags_of(self, word: str) -> Words:
        """Return the words of the tags of a call whose first tag has this word; empty if that one is none."""
        tool = None if self._is_open else self._offered.find(word)
        if tool is not None:
            return word, *properties_of(tool)
        return (word,) if not self._is_open and _wrapper_word(word) is not None else ()

    def may_begin(self, text: str, at: int, *, is_first: bool) -> bool:
        """Whether a line of a complete text may begin a call: a look at its first characters rejects most lines."""
        character = text[at : at + 1]
        if character in ("`", "~") and not is_first:
            return self._is_labelled_fence(text, at)
        if character == "<" and _token(text, at) is None and _is_prose_tag(_tag_word(text, at)):
            return False
        if not self._marked_only:
            return not self._is_text(text, at, is_first=is_first)
        fence = _fence(text, at) if is_first else None
        if fence is not None and not self._is_labelled_fence(text, at):
            inner = _unmarked(text, _blank(text, fence.end()).end())  # type: ignore[union-attr]
            return inner is None or inner[0][-1] == '"' or self._work.may_close(text, at)
        if _unmarked(text, at) is None:
            return True
        return (is_first and begins_pairs(text) is not None) or self._work.may_close(text, at)

    def _is_text(self, text: str, at: int, *, is_first: bool) -> bool:
        """Whether the end of a complete text shows that no call begins at a line without markup.

        Such a call is the whole message, or the last line in Python, or a closing mark follows it.
        """
        fence = _fence(text, at) if is_first else None
        if fence is not None:
            if fence[2].lower() in _FENCE_LABELS or self._labelled(fence[2]) is not None:
                return False
            at = _blank(text, fence.end()).end()  # type: ignore[union-attr]
        found = _unmarked(text, at)
        if found is None or escaped_start(text, at) is not None or self._work.may_close(text, at):
            return False
        opening = found[0][-1]
        if opening == "(":
            return not is_first and self._work.last_character(text) not in _ENDS_OF_CALL
        if opening == '"':
            return False  # the name may follow the quote
        if fence is not None:
            return self._work.last_character(text) != fence[1][0]
        return not is_first or self._work.last_character(text) not in _ENDS_OF_CALL

    def may_name(self, text: str, at: int, *, is_first: bool) -> bool:
        """Whether a line of a complete text may begin with markup, a label or a name: a look at its first word."""
        if text[at] in "`~" and not is_first:
            return self._is_labelled_fence(text, at)
        name = match_name(text, at)
        if name is None:
            return True
        written = name[0]
        if has_namespace(written) is None:
            may_be_named = self._offered.may_be(written)
        else:
            may_be_named = ":" in written or written.endswith(".call") or self._offered.find(written) is not None
        return may_be_named or match_label(text, at) is not None

    def _is_labelled_fence(self, text: str, at: int) -> bool:
        fence = _fence(text, at)
        return fence is not None and (fence[2].lower() in _FENCE_LABELS or self._labelled(fence[2]) is not None)

    def find_name(self, text: str, at: int, *, is_first: bool) -> str | None:
        """Return the tool that a line of a complete text seems to call; None if it calls none."""
        source = self._sources.find(text, at, self._tags_of, final=True)
        assert source is not None
        name = self._find_name(source.text, source.inner(at), final=True, is_first=is_first)
        if name is None:
            return None
        return name.tool.name if name.tool is not None else named_in(source.text, name.end, self._offered)

    def read(self, text: str, at: int, *, is_first: bool, follows_call: bool = False) -> list[ImprovisedCall]:
        """Read the calls at `at`, the first character of a line, in a text that is complete; empty if there is none.

        `is_first`: nothing but blanks is before it in the message. `follows_call`: another call is directly before it.
        """
        if self._work.is_spent(len(text)) or (not self._marked_only and self._is_text(text, at, is_first=is_first)):
            return []
        source = self._sources.find(text, at, self._tags_of, final=True)
        assert source is not None
        plain, start = source.text, source.inner(at)
        if text.endswith('<|"'):
            return []  # the text ends inside the token of a quote
        name = self._find_name(plain, start, final=True, is_first=is_first)
        calls = [] if name is None else self._read_calls(plain, name, follows_call)
        if not calls and (name is not None or plain is not text):
            self._work.charge(plain, start)
        for call in calls:
            call.arguments.repairs = source.mend(call.arguments.repairs)
        return [ImprovisedCall(call.name, call.arguments, source.outer(call.end), call.region) for call in calls]

    def _read_calls(self, text: str, name: Name, follows_call: bool) -> list[ImprovisedCall]:
        stated = self._read_arguments(text, name) if not name.head.is_shown else []
        if not stated:
            return []
        last, head = stated[-1].arguments, name.head
        if not head.fence and fence_after(text, name.end) is not None:
            head.fence = "```"
        end = skip_closers(text, last.end, head) if head.marked or head.fence else skip_tags(text, last.end)
        is_logged = text[head.position - 1 : head.position] == "[" and logged(text, name.end) is not None
        if is_logged and not (head.is_first and not text[end:].strip()):
            return []  # [NAME] and settings behind it, as in a log
        if not self._is_over(text, end, head, last) or not self._is_alone(text, end, head, last, follows_call):
            return []
        region = find_region(text, end, head, last, stated[-1].tool)
        if region is None or (self._marked_only and region != "marked" and last.notation in _SCANNED):
            return []
        is_stated = name.tool is None and head.marked
        if not all(
            fit(one.arguments, one.tool, is_stated=is_stated) and not has_placeholder(one.arguments.values)
            for one in stated
        ):
            return []
        if region == "message":
            end = len(text)  # the blanks after a message that is a call say nothing
        for one in stated:
            one.arguments.repairs += describe(text, name, one.arguments)
        ends = [one.arguments.end for one in stated[:-1]] + [end]
        return [
            ImprovisedCall(one.tool.name, one.arguments, edge, region) for one, edge in zip(stated, ends, strict=True)
        ]

    def _is_over(self, text: str, end: int, head: Head, last: Arguments) -> bool:
        """Whether the call is complete. If only its closing tag is missing, report the repair."""
        if last.is_open and end == last.end and text[end:].strip():
            return False
        if head.fence and not head.marked and text[end - 1 : end] != head.fence[0]:
            return False  # the fence is open, so the message may go on
        if head.fence and head.fence not in text[last.end : end]:
            last.repairs.append("closed_wrapper")
        if head.has_spoken and end_of_wrapper(text, last.end, head) is None:
            return False
        if lacks_end(text, end, head, last):
            is_cut = last.is_open and (head.has_tag or bool(head.fence))
            if last.notation == "none" or is_cut or self._has_more(text, end, head):
                return False  # the arguments may have been cut off, or the wrapper contains more than a call
            last.repairs.append("closed_wrapper")
        return True

    def _is_alone(self, text: str, end: int, head: Head, last: Arguments, follows_call: bool) -> bool:
        """Whether nothing but calls is on the lines of the call. A closing tag without an opener marks it as well."""
        if last.notation == "text" and text[end:].strip():
            return False  # an element with a plain word as its name is a call only at the end
        if not head.marked and closes_call(text, last.end):
            if text[end:].strip() and not (follows_call and self._continues(text, end)):
                return False  # without an opener, only calls around it and the end of the message show what was meant
            head.marked = True
        return ends_line(text, end) or self._continues(text, end)

    def _read_arguments(self, text: str, name: Name) -> list[Stated]:
        if name.tool is None:
            return read_envelopes(text, name.end, self._offered)
        read = read_after(text, name.end, name.tool, self._work.closers, in_tag=name.in_tag, tag=name.tag)
        if read is None and name.head.fence and name.end == name.head.position:
            read = read_fenced(text, name.end, name.tool, name.head.fence)
        return [] if read is None else [Stated(name.tool, read)]

    def _has_more(self, text: str, end: int, head: Head) -> bool:
        """Whether the wrapper ends later, and what is between the call and its end is not another call."""
        if not head.tag or self._continues(text, end):
            return False
        return self._work.closers.find(text, head.tag, end) is not None

    def _continues(self, text: str, position: int) -> bool:
        """Whether another call begins on the same line."""
        at = _blank(text, position).end()  # type: ignore[union-attr]
        if next_wrapper(text, at) is not None:
            return True
        return self._find_name(text, at, final=True, is_first=False) is not None

    # ---- the walk to the name ----------------------------------------------------------------------------------------

    def _find_name(self, text: str, at: int, *, final: bool, is_first: bool) -> Name | None:
        head = Head(at, is_first, at)
        for _ in range(MOST_TOKENS):
            position = head.position = _blank(text, head.position).end()  # type: ignore[union-attr]
            if position >= len(text):
                _require(text, position, final=final)
                return None
            character = text[position]
            if _may_mark(text, position) is not None and _take_mark(text, head, final=final):
                continue
            if character == "<":
                found = self._take_tag(text, head, final=final)
            elif character in "{[" and (found := self._take_object(text, head, final=final)) is not None:
                pass
            elif character in "`~":
                found = self._take_fence(text, head, final=final)
            else:
                found = self._take_word(text, head, final=final)
            if found is not None:
                return found
            if head.position == position and not _skip_words(text, head, final=final):
                return None
        return None

    def _take_fence(self, text: str, head: Head, *, final: bool) -> Name | None:
        if not final and len(text) - head.position < _LONGEST_LABEL and "\n" not in text[head.position :]:
            raise _More
        fence = _fence(text, head.position)
        if fence is None or content_tag(fence[2]) is not None:
            return None
        tool = self._labelled(fence[2])
        if not final and len(text) - fence.end() < _LONGEST_LABEL and _list_may_begin(text, fence.end()) is not None:
            raise _More
        if fence[2].lower() in _FENCE_LABELS or tool is not None:
            head.marked = head.may_speak = True
        elif not head.marked and (not head.is_first or _markup_begins(text, fence.end()) is not None):
            return None  # the parser reads the markup inside the fence
        else:
            head.is_inner_fence = head.marked
        head.fence, head.position = fence[1], fence.end()
        if tool is None:
            return None
        name = self._check(text, head, tool, fence.end(), final=final)
        return name or (Name(head, tool, fence.end()) if holds_text(text, fence.end(), fence[2], tool) else None)

    def _labelled(self, label: str) -> Tool | None:
        """Return the tool that the label of a fence names."""
        name = "" if self._is_open else label.rpartition(":")[2]
        return self._offered.find(name) if name and self._offered.may_begin(name) else None

    def _take_tag(self, text: str, head: Head, *, final: bool) -> Name | None:
        position = head.position
        token = _token(text, position)
        if token is not None:
            named = _named_token(text, position) if not self._is_open else None
            tool = self._offered.find(named[1]) if named is not None else None
            head.position, head.marked = token.end(), True
            return None if tool is None else self._check(text, head, tool, token.end(), final=final)
        if not final and len(text) - position < _LONGEST_TAG and _whole_tag(text, position) is None:
            raise _More
        word = _tag_word(text, position)
        if word is None or _is_prose_tag(word):
            return None
        aside = _side_element(text, position) if head.has_tag else None
        if aside is not None:
            head.position = aside.end()
            return None
        for written, end in () if self._is_open else self._names_in_tag(text, position, word):
            tool = self._offered.find(written)
            if tool is not None:
                head.marked = head.has_tag = True
                tag = written if end <= word.end() or " " in written else ""
                return self._check(text, head, tool, end, in_tag=True, tag=tag, final=final)
        if _wrapper_word(word[1]) is not None and (inner := _object_in_tag(text, word.end())) is not None:
            head.position, head.marked, head.holds_object = inner.end(), True, True
            return None
        rest = _tag_rest(text, word.end(), position + _LONGEST_TAG)
        if rest is not None and not rest[0].endswith("/>"):
            head.position, head.marked, head.has_tag = rest.end(), True, True
            head.may_speak, head.tag = _wrapper_word(word[1]) is not None, word[1]
        return None

    def _names_in_tag(self, text: str, position: int, word: re.Match[str]) -> list[tuple[str, int]]:
        """Return what may be the name in a tag: its word, an attribute, or what follows the word."""
        names: list[tuple[str, int]] = []
        spaced = _blank_in_name(text, position)
        if spaced is not None:
            names.append((spaced[1], spaced.end() - 1))
        if not _name_element(word[1]):
            names.append((word[1], word.end()))
        if text.startswith("/", word.end()) and _wrapper_word(word[1]) is not None:
            slashed = match_name(text, word.end() + 1)
            names += [] if slashed is None else [(slashed[0], slashed.end())]
        for before in (_named_attribute, _typed_attribute, _suffix):
            lead = before(text, word.end(), word.end() + _LONGEST_TAG)
            name = match_name(text, lead.end()) if lead is not None else None
            if name is not None:
                names.append((name[0], name.end()))
        return names

    def _take_object(self, text: str, head: Head, *, final: bool) -> Name | None:
        """Take a JSON object, or a list of them, that may state calls. It is read as a whole, later."""
        if self._is_open and not head.marked:
            return None
        stated = may_state(text, head.position, self._offered, final=final)
        if stated is None:
            raise _More
        return Name(head, None, head.position) if stated else None

    def _take_word(self, text: str, head: Head, *, final: bool) -> Name | None:
        position = head.position
        if not final and len(text) - position < _LONGEST_LABEL and "\n" not in text[position:]:
            raise _More  # a label may have several words
        label = match_label(text, position)
        if label is not None:
            head.position = label.end()
            # A bracket behind the label has lost the one before it.
            half = position == head.start and text[label.end() : label.end() + 1] in ("]", "】")
            head.marked = head.marked or half or label["blank"] == "" or _capital_label(text, position) is not None
            return None
        half_tag = _half_tag(text, position) if not self._is_open else None
        written_in_tag = match_name(text, half_tag.end()) if half_tag is not None else None
        tool = self._offered.find(written_in_tag[0]) if written_in_tag is not None else None
        if tool is not None and written_in_tag is not None:
            head.marked = head.has_tag = head.lacks_marker = True
            return self._check(text, head, tool, written_in_tag.end(), in_tag=True, final=final)
        name = match_name(text, position)
        if name is None:
            self._take_sigil(text, head)
            return None
        if self._is_open:
            return None
        written = name[0]
        tool = self._offered.find(written)
        head.is_shown = head.is_shown or declares(written) is not None
        if tool is None and ":" in written:
            # default_api:NAME. The part after the last colon is the name.
            tool, head.marked = self._offered.find(written.rpartition(":")[2]), True
        if tool is None and written.endswith(".call"):
            tool = self._offered.find(written[: -len(".call")])
        end = name.end()
        if tool is None and text.startswith("</", end):
            tool, end = self._split_key(written, position)
        if tool is not None:
            return self._check(text, head, tool, end, final=final)
        word = _bracket_word(text, position) if head.words else None
        if word is not None:
            head.position, head.words = word.end(), head.words - 1
        return None

    def _split_key(self, written: str, position: int) -> tuple[Tool | None, int]:
        """Return the tool of a name to which the key of its first argument is glued, and the end of the name."""
        found = [
            tool
            for tool in self._offered.tools or ()
            if written.startswith(tool.name) and written[len(tool.name) :] in properties_of(tool)
        ]
        return (found[0], position + len(found[0].name)) if len(found) == 1 else (None, 0)

    def _take_sigil(self, text: str, head: Head) -> None:
        position = head.position
        character, following = text[position], text[position + 1 : position + 2]
        token = _token(text, position)
        if token is not None:
            head.position, head.marked = token.end(), True
            return
        heading = _heading(text, position) if head.is_first and not (head.marked or head.fence) else None
        doubled = _doubled(text, position) if character in "%:@" else None
        if heading is not None:
            head.position = heading.end()
        elif doubled is not None:
            head.position, head.marked, head.words = doubled.end(), True, _MOST_WORDS
        elif character in "[【" or (character in _OPENING and match_label(text, position + 1) is not None):
            # A list of objects or of numbers is not a label.
            head.marked = head.marked or following.isalpha() or following in ("[", "/")
            head.position, head.words = position + 1, _MOST_WORDS
        elif text.startswith("{{", position) and _doubled_object(text, position) is None:
            head.position, head.marked = position + 2, True
        elif character == "/" and following in ("/", "*"):
            return  # a comment
        elif character in "@/!$|｜" or _is_symbol(character):
            head.position, head.marked = position + 1, True
        elif character in _NEUTRAL and (head.marked or character == '"'):
            head.position += 1

    def _check(
        self, text: str, head: Head, tool: Tool, position: int, *, in_tag: bool = False, tag: str = "", final: bool
    ) -> Name | None:
        """Return the name if the beginning of its arguments follows."""
        if not final and len(text) - position < _LOOK_AHEAD:
            raise _More
        if not begins(text, position, tool, in_tag=in_tag):
            return None
        if not head.has_tag and code_begins(text, position) is not None:
            return None  # a name before code, as in prose with HTML
        if text.startswith("(", position) and head.words == _MOST_WORDS and text[head.position - 1] == "[":
            return None  # [NAME(...)] is a list of calls in Python, which other formats read
        if not head.marked and has_token(text, position):
            head.marked = head.lacks_marker = True
        if text.startswith("<", position):
            head.marked = True
        if text[head.position - 1 : head.position] == "[" and setting(text, position) is not None:
            return None  # [NAME] and settings below it, as in a configuration file
        return Name(head, tool, position, in_tag, tag)


def _take_mark(text: str, head: Head, *, final: bool) -> bool:
    """Move over a line that is nothing but the mark of a call."""
    position = head.position
    # A stream does not keep what is before the walk: a line, or a call that ends on this one.
    if text[max(head.start, position - _LONGEST_LABEL) : position].rpartition("\n")[2].strip():
        return False
    if not final and len(text) - position < LONGEST_MARK and "\n" not in text[position:]:
        raise _More
    mark = match_mark(text, position)
    if mark is None:
        return False
    head.position, head.marked = mark.end(), True
    return True


def _is_prose_tag(word: re.Match[str] | None) -> bool:
    """Whether a bracket begins no tag, or a tag of HTML, of a result or of reasoning."""
    return word is None or word[1].lower() in PROSE_TAGS or content_tag(word[1]) is not None


_wrapper_word = re.compile(
    r"(?:[a-z]{1,20}[_:\-])?(?:(?:tool|function|action)[_\-]?(?:calls?|use|code|request|invocation|invoke)?|calls?|invoke)\Z",
    re.IGNORECASE,
).match
"""Matches the words of tags that models put around calls. In the plural, `tools` are definitions."""
_reasoning = re.compile(r"\s*<(think|thinking|thought|reasoning|scratchpad)>").match
_said = re.compile(r"[^<{\[`]{0,400}").match
_code_fence = re.compile(r"```\w{0,10}[ \t]*\r?\n").match
_MOST_SAID, _MOST_REASONING = 400, 20_000


def _skip_words(text: str, head: Head, *, final: bool) -> bool:
    """Move over the words, or the reasoning, between the opener of a wrapper for calls and the JSON of a call."""
    if not head.may_speak or head.has_spoken:
        return False
    at = head.position
    thought = _reasoning(text, at)
    if thought is not None:
        closer = f"</{thought[1]}>"
        stop = text.find(closer, thought.end(), thought.end() + _MOST_REASONING)
        if stop < 0:
            if not final and len(text) - thought.end() <= _MOST_REASONING:
                raise _More
            return False
        at = stop + len(closer)
    said = _said(text, at)
    at = at if said is None else said.end()
    if not final and len(text) - at < _LONGEST_LABEL and len(text) - head.position < _MOST_SAID + _MOST_REASONING:
        raise _More
    if text[at : at + 1] not in ("{", "[") and (text[at : at + 1] != "`" or _code_fence(text, at) is None):
        return False
    head.position, head.has_spoken = at, True
    return True


def _require(text: str, position: int, *, final: bool) -> None:
    """Wait if the token at the position may continue after the text at hand."""
    if not final and position >= len(text):
        raise _More


def _is_symbol(character: str) -> bool:
    """Whether a character is a pictograph, an arrow or a bullet of a terminal, which programs print before a call."""
    return character in "»›❯\ufe0f\u200d" or (ord(character) > 0x2000 and unicodedata.category(character) in _SYMBOLS)


_SYMBOLS = ("So", "Sm")
