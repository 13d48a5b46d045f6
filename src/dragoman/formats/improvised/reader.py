"""Reads an improvised call at the start of a line: markup, an offered name, arguments that satisfy its schema.

Models without training for a format, and models whose format a server destroyed, invent wrappers. No list of wrappers
can be complete, so this reader has none. It relies on what all improvised calls share: the name of an offered tool in
the place of a name, and arguments that satisfy the schema of that tool, in one of five notations (`arguments.py`).
What surrounds the call decides how far it can be trusted:

- `marked`: tags, sigils, bracketed labels or the label of a fence are before the name, and nothing else is on the
  lines of the call.
- `message`: the call is the whole message.
- `last_line`: the last line is nothing but `NAME(...)`.

Anything else is not a call here. `dragoman.formats.loose` still finds it, as a suspect.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.improvised.arguments import SIGIL, Arguments, begins, fit, read_after
from dragoman.formats.loose.calls import OPENING, read_object, read_value
from dragoman.formats.loose.candidates import OfferedNames
from dragoman.types import Tool

Region = Literal["marked", "message", "last_line"]

# --------------------------------------------------------------------------------------------------------------------
# What may be before the name: tags, tokens, brackets, sigils, and words that label a call.

_LABELS = (
    "call calls tool tools tool_call tool_calls toolcall tool-call tool_use tool_code function functions function_call "
    "function_calls functioncall invoke action name tool_name function_name commentary assistant analysis channel to "
    "recipient default_api api json use request type command tool_request begin start"
).split()
_label = re.compile(
    rf"(?:(?:{'|'.join(sorted(_LABELS, key=len, reverse=True))})\b[ \t]*){{1,3}}(?=[:=\]|>}}\"'(])", re.IGNORECASE
).match
_blank = re.compile(r"[ \t\r]*(?:\n[ \t\r]*){0,2}").match
_token = re.compile(r"<[|｜][^|｜<>\n]{1,60}[|｜]>").match
_tag_word = re.compile(rf"<\s?{SIGIL}([^\W\d][\w.\-]{{0,99}})").match
_tag_rest = re.compile(r"""(?:"[^"\n]{0,200}"|'[^'\n]{0,200}'|[^<>"'\n]){0,200}>""").match
_whole_tag = re.compile(r"""<(?:"[^"\n]{0,200}"|'[^'\n]{0,200}'|[^<>"'\n]){0,200}>""").match
_named_attribute = re.compile(
    r"""(?:\s+[\w\-]+\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'|[^\s<>"']+))*?\s+(?:name|tool|function|tool_name|fn|action)\s*=\s*["']?"""
).match
_suffix = re.compile(r"\s*[=:\s]\s*[\"']?").match
_fence = re.compile(r"(`{3,}|~{3,})([\w\-]*)[ \t]*\r?\n").match
_name = re.compile(r"[^\W\d](?:[\w\-]|[.:/](?=[^\W\d])|\\_)*").match
_name_element = re.compile(r"(?:name|tool|function|tool_name|function_name|toolname|action|invoke)\Z").match
_SIGILS = "@/!$|｜["
_NEUTRAL = "]:=>\"'`,(~"
_CALL_LABELS = frozenset(fold for fold in _LABELS if fold not in ("json", "type", "name"))
PROSE_TAGS = frozenset(
    "a abbr article aside b blockquote body br button center cite code dd del details div dl dt em example examples "
    "figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i img ins kbd label li link main mark meta nav ol p "
    "pre q quote s samp script section small span strike strong style sub summary sup svg table tbody td th thead "
    "title tr tt u ul var video".split()
)
"""Tags of HTML and of prose. They are not the markup of a call."""
_LONGEST_TAG = 300
_LONGEST_LABEL = 60
_LOOK_AHEAD = 420
_MOST_TOKENS = 24


class ImprovisedCall(Struct, frozen=True):
    """A call, its end, and the region that its surroundings give it."""

    name: str
    arguments: Arguments
    end: int
    region: Region


class _Head(Struct):
    """The state of the walk over what is before the name."""

    position: int
    marked: bool = False
    fence: str = ""
    tag: str = ""
    """The word of the tag whose text is the next thing: the name may be the text of <name>."""


class _More(Exception):
    """The text ends before the decision."""


class ImprovisedReader:
    """Reads calls of the offered tools."""

    def __init__(self, offered: OfferedNames) -> None:
        self._offered = offered

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        """Whether a name and the beginning of its arguments follow; None if more text is needed."""
        try:
            return self._find_name(text, at, final=final) is not None
        except _More:
            return None

    def read(self, text: str, at: int, *, is_first: bool) -> ImprovisedCall | None:
        """Read the call at `at`, the first character of a line, in a text that is complete.

        `is_first`: nothing but blanks is before it in the message.
        """
        found = self._find_name(text, at, final=True)
        if found is None:
            return None
        head, tool, position, in_tag, word = found
        read = self._read_arguments(text, head, tool, position, in_tag=in_tag, word=word)
        if read is None or _has_placeholder(read):
            return None
        end = _skip_closers(text, read.end, head)
        if not _ends_line(text, end) or (read.is_open and end == read.end and text[end:].strip()):
            return None
        region = _region(text, at, end, head, read, is_first=is_first)
        return None if region is None else ImprovisedCall(tool.name, read, end, region)

    def _read_arguments(
        self, text: str, head: _Head, tool: Tool, position: int, *, in_tag: bool, word: str
    ) -> Arguments | None:
        if text.startswith("{", position) and head.position == position:
            return _read_envelope(text, position, self._offered)
        read = read_after(text, position, tool, in_tag=in_tag, tag=word)
        return None if read is None else fit(read, tool)

    # ---- the walk to the name ----------------------------------------------------------------------------------------

    def _find_name(self, text: str, at: int, *, final: bool) -> tuple[_Head, Tool, int, bool, str] | None:
        """Return the head, the tool, the position after its name, and whether and in which tag the name is."""
        head = _Head(at)
        for _ in range(_MOST_TOKENS):
            position = head.position = _blank(text, head.position).end()  # type: ignore[union-attr]
            if position >= len(text):
                return self._stop(final=final)
            character = text[position]
            if character == "<":
                found = self._take_tag(text, head, final=final)
            elif character == "{":
                return self._take_object(text, head, final=final)
            elif character in "`~" and position == at:
                found = self._take_fence(text, head, final=final)
            else:
                found = self._take_name(text, head, final=final)
            if found is not None:
                return found
            if head.position == position:
                return None
        return None

    def _stop(self, *, final: bool) -> None:
        if not final:
            raise _More

    def _require(self, text: str, position: int, *, final: bool) -> None:
        """Wait if the token at the position may continue after the text at hand."""
        if not final and position >= len(text):
            raise _More

    def _take_fence(self, text: str, head: _Head, *, final: bool) -> None:
        if not final and len(text) - head.position < _LONGEST_LABEL and "\n" not in text[head.position :]:
            raise _More
        fence = _fence(text, head.position)
        if fence is not None and fence[2].lower() in _CALL_LABELS:
            head.fence, head.position, head.marked = fence[1], fence.end(), True

    def _take_tag(self, text: str, head: _Head, *, final: bool) -> tuple[_Head, Tool, int, bool, str] | None:
        position = head.position
        token = _token(text, position)
        if token is not None:
            head.position, head.marked = token.end(), True
            return None
        if not final and len(text) - position < _LONGEST_TAG and _whole_tag(text, position) is None:
            raise _More
        word = _tag_word(text, position)
        if word is None or word[1].lower() in PROSE_TAGS:
            return None
        self._require(text, word.end(), final=final)
        tool = self._offered.find(word[1])
        if tool is not None and not _name_element(word[1]):
            head.marked = True
            return self._check(text, head, tool, word.end(), in_tag=True, word=word[1], final=final)
        for before in (_named_attribute, _suffix):
            lead = before(text, word.end())
            name = _name(text, lead.end()) if lead is not None else None
            tool = self._offered.find(name[0]) if name is not None else None
            if tool is not None and name is not None:
                head.marked = True
                return self._check(text, head, tool, name.end(), in_tag=True, word="", final=final)
        rest = _tag_rest(text, word.end(), position + _LONGEST_TAG)
        if rest is not None and not rest[0].endswith("/>"):
            head.position, head.marked, head.tag = rest.end(), True, word[1]
        return None

    def _take_object(self, text: str, head: _Head, *, final: bool) -> tuple[_Head, Tool, int, bool, str] | None:
        """A JSON object after a mark: the envelope is read as a whole, later."""
        if not head.marked or OPENING.match(text, head.position) is None:
            return self._stop(final=final or len(text) - head.position > 40) if head.marked else None
        mentioned = re.compile(r"""["']([\w.\-:/]{1,100})["']""").finditer(text, head.position, head.position + 2000)
        for match in mentioned:
            tool = self._offered.find(match[1])
            if tool is not None:
                return head, tool, head.position, False, ""
        return self._stop(final=final or len(text) - head.position > 2000)

    def _take_name(self, text: str, head: _Head, *, final: bool) -> tuple[_Head, Tool, int, bool, str] | None:
        position = head.position
        label = _label(text, position)
        if label is not None:
            self._require(text, label.end() + 1, final=final)
            after = text[label.end() : label.end() + 2]
            head.position = label.end()
            head.marked = head.marked or (after[:1] in (":", "=") and not after[1:].isspace() and len(after) == 2)
            return None
        name = _name(text, position)
        if name is not None:
            self._require(text, name.end(), final=final)
            end = name.end()
            tool = self._offered.find(name[0])
            if tool is None and ":" in name[0]:
                # call:NAME, default_api:NAME. The part after the last colon is the name.
                tool, head.marked = self._offered.find(name[0].rpartition(":")[2]), True
            if tool is not None:
                return self._check(text, head, tool, end, in_tag=False, word="", final=final)
            if not final and len(text) - position < _LONGEST_LABEL and "\n" not in text[position:]:
                raise _More  # it may be the first of two words of a label
            return None
        character = text[position]
        if character in _SIGILS or (character in _NEUTRAL and head.marked):
            head.position += 1
            head.marked = head.marked or character in _SIGILS
        return None

    def _check(
        self, text: str, head: _Head, tool: Tool, position: int, *, in_tag: bool, word: str, final: bool
    ) -> tuple[_Head, Tool, int, bool, str] | None:
        if not final and len(text) - position < _LOOK_AHEAD:
            raise _More
        if not begins(text, position, tool, in_tag=in_tag):
            return None
        if text.startswith("<", position):
            head.marked = True
        return head, tool, position, in_tag, word


def _read_envelope(text: str, position: int, offered: OfferedNames) -> Arguments | None:
    try:
        value, end, repairs = read_value(text, position)
    except Unreadable:
        return None
    stated = read_object(value, offered) if isinstance(value, dict) else None
    if stated is None:
        return None
    return fit(Arguments(stated.arguments, end, "json", [*repairs, *stated.repairs]), stated.tool)


# --------------------------------------------------------------------------------------------------------------------
# What is after the arguments, and around the call.

_closers = re.compile(
    rf"""\s*(?:
      </\s?{SIGIL}([^\W\d][\w.\-]{{0,99}})\s*/?[|｜]{{0,2}}>
    | <[|｜][^|｜<>\n]{{1,60}}[|｜]>
    | \[/[\w\- ]{{1,40}}\]
    | [\])}}>|;]
    )""",
    re.VERBOSE,
).match
_fence_end = re.compile(r"\s*(?:`{3,}|~{3,})").match
_placeholder = re.compile(r"<[^<>\n]{1,60}>|\.{3}|…|\[[^\[\]\n]{1,60}\]|\{\{?[^{}\n]{0,60}\}?\}|YOUR_\w+|\?+")


def _skip_closers(text: str, position: int, head: _Head) -> int:
    """Move over the closing tags, tokens and brackets of the wrapper."""
    for _ in range(_MOST_TOKENS):
        found = _closers(text, position)
        if found is None or (found[1] and found[1].lower() in PROSE_TAGS):
            break
        position = found.end()
    ended = _fence_end(text, position) if head.fence else None
    return position if ended is None else ended.end()


def _ends_line(text: str, position: int) -> bool:
    stop = text.find("\n", position)
    return not text[position : len(text) if stop < 0 else stop].strip()


def _region(text: str, at: int, end: int, head: _Head, read: Arguments, *, is_first: bool) -> Region | None:
    if head.marked:
        return "marked"
    is_last = not text[end:].strip()
    if is_first and is_last and read.notation != "none":
        return "message"
    return "last_line" if is_last and read.notation == "python" and not head.fence else None


def _has_placeholder(read: Arguments) -> bool:
    """Whether a value stands for another one, as in an example: <path>, ..., YOUR_QUERY."""
    return any(isinstance(value, str) and _placeholder.fullmatch(value.strip()) for value in read.values.values())
