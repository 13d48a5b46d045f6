"""What surrounds an improvised call: the state of the walk to its name, and what follows its arguments."""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

from dragoman.formats.improvised.arguments import SIGIL, Arguments
from dragoman.formats.improvised.marks import ends_call, mark_after
from dragoman.formats.intent import PROSE_TAGS
from dragoman.types import Tool

Region = Literal["marked", "message", "last_line"]

content_tag = re.compile(r"result|response|output|observation|think|thought|reason", re.IGNORECASE).search
"""Matches tags around results and reasoning, in which a call does not count."""
MOST_TOKENS = 24


class Head(Struct):
    """The state of the walk over what is before the name."""

    position: int
    is_first: bool
    start: int = -1
    """Where the walk began."""
    marked: bool = False
    fence: str = ""
    is_inner_fence: bool = False
    """The fence is inside a wrapper, and its label says nothing about a call."""
    has_tag: bool = False
    """A tag is open."""
    tag: str = ""
    """The word of the innermost tag that has no name of a tool."""
    words: int = 0
    """How many more plain words may be inside the bracket of a label."""
    may_speak: bool = False
    """A tag or a fence for calls is open, in which a model may say something before the call."""
    has_spoken: bool = False
    lacks_marker: bool = False
    """A token of a format follows the name, but none is before it."""
    holds_object: bool = False
    """The call is inside the tag itself: <tool_call {"name": ...}>."""
    is_shown: bool = False
    """A word before the name says that it is the declaration of a tool."""


class Name(Struct, frozen=True):
    """An offered name in the place of a name. In an envelope, which states its name itself, the tool is None."""

    head: Head
    tool: Tool | None
    end: int
    in_tag: bool = False
    tag: str = ""
    """The word of the tag, if it is the name of the tool."""


# --------------------------------------------------------------------------------------------------------------------
# What is after the arguments, and around the call.

_closers = re.compile(
    rf"""\s*(?:
      <\s?/\s?{SIGIL}(?!s>)([^\W\d][\w.:\- ]{{0,99}})\s*/?[|｜]{{0,2}}>
    | <[|｜][^|｜<>\n]{{1,60}}[|｜]>
    | <[\w:]{{1,60}}[|｜]>
    | (?:</s>|<(?:eos|eom|eot|end_[a-z]{{1,20}}(?:_[a-z]{{1,20}})?)>)(?=\s*\Z) | \[unused\d{{1,3}}\]
    | (?P<star>[\u2600-\u27bf])[A-Za-z_]{{1,20}}(?P=star):?(?=\s*\Z)
    | <{{2,3}}\[?/?(?:END|end|/)[\w\- ]{{1,40}}\]?>{{2,3}}
    | [\[【「『«⟦〔〖]{{1,2}}(?:/|END[ _\-])[\w\- ]{{1,40}}[\]】」』»⟧〕〗]{{1,2}} | \{{\{{/[\w\- ]{{1,40}}\}}\}}
    | (%%|::)/?[\w\- ]{{1,40}}(?:%%|::)?(?=\s|\Z)
    | (?P<run>[@!$%:\#~=])(?P=run)+(?=\s|\Z)
    | (?:invoke|function|tool_call)> | />
    | [\])}}>|;】」』»⟧〕〗] | (?<=[\]}}])"(?=\s*(?:<|`|\Z)) | (?<=[\]\)}}])`(?!`)
    )""",
    re.VERBOSE,
).match
setting = re.compile(r"\][ \t]*\r?\n\s*[\w.\-]+[ \t]*[=:]").match
logged = re.compile(r"\][ \t]+[\w.\-]+[=:]").match
closing_mark_after = re.compile(r"</|[\[【「『«⟦〔〖]/|\|>|｜>").search
_closing_mark = re.compile(
    rf"\s*(?:</\s?{SIGIL}(?!(?:s|think\w*)\s*>)[^\W\d]|<[|｜]/|<[|｜]?\w*(?:tool|call)\w*[|｜]>|\[/)", re.IGNORECASE
).match
next_wrapper = re.compile(rf"<{SIGIL}(?:[a-z]{{1,20}}[_:\-])?(?:tool|function|invoke)", re.IGNORECASE).match
code_begins = re.compile(r"\s*<code>").match
fence_after = re.compile(r"[\s*:\]】>\"'`]{0,8}?\n\s*```\w{0,10}\s").match
_fence_end = re.compile(r"\s*(?:`{3,}|~{3,})").match


def skip_closers(text: str, position: int, head: Head) -> int:
    """Move over the closing tags, tokens, brackets and the fence of the wrapper."""
    fence = head.fence
    for _ in range(MOST_TOKENS):
        ended = _fence_end(text, position) if fence else None
        if ended is not None:
            fence, position = "", ended.end()
            continue
        mark = mark_after(text, position)
        if mark is not None and not ends_call(mark):
            break  # it begins the next call
        found = mark or _closers(text, position)
        if found is None or (found[1] and found[1].lower() in PROSE_TAGS):
            break
        position = found.end()
    return position


_end_of_tag = re.compile(rf"\s*<\s?/\s?{SIGIL}[^\W\d]").match


def end_of_wrapper(text: str, position: int, head: Head) -> re.Match[str] | None:
    """Return the closing tag or fence directly after a call."""
    return _end_of_tag(text, position) or (_fence_end(text, position) if head.fence else None)


_tag_end = re.compile(r"\s*/?>").match
_closes_tag = re.compile(r"<\s?/|/>|[\])]").search
_ends_call = re.compile(r"<\s?/|/>|%%|::|[\])}]|<[|｜]|[|｜]>|>>|```|~~~").search


def lacks_end(text: str, end: int, head: Head, read: Arguments) -> bool:
    """Whether nothing shows that the call is over: its tag, or a notation without an end of its own, is not closed."""
    if head.holds_object:
        return _tag_end(text, read.end) is None
    if read.notation == "none":
        is_closed = _closes_tag(text, max(read.end - 2, 0), end) is not None
        return not is_closed or (not head.has_tag and bool(text[end:].strip()))
    if read.notation == "text" or _ends_call(text, read.end - 2 if read.notation == "attributes" else read.end, end):
        return False
    return head.has_tag or (read.notation in ("pairs", "elements") and not text[end:].strip())


def describe(text: str, name: Name, read: Arguments) -> list[str]:
    """Return the repairs that the place of the call demands."""
    repairs = ["surrounding_text"] if name.head.has_spoken else []
    if name.head.lacks_marker:
        repairs.append("missing_marker")
    if name.head.is_inner_fence and not repairs:
        repairs.append("markdown_fence")
    is_bare = name.tool is not None and not name.in_tag and not name.head.marked and read.notation == "json"
    return [*repairs, "name_before_braces"] if is_bare and _braces(text, name.end) is not None else repairs


_braces = re.compile(r"[ \t]*\{").match


def closes_call(text: str, position: int) -> bool:
    """Whether a closing tag or token of a call follows, and not one of a result or of reasoning."""
    mark = _closing_mark(text, position)
    return mark is not None and content_tag(text[mark.end() - 1 : mark.end() + 40].partition(">")[0]) is None


def skip_tags(text: str, position: int) -> int:
    """Move over closing tags only: without an opener, a bracket belongs to something else."""
    return skip_closers(text, position, Head(position, is_first=False)) if _closing_mark(text, position) else position


def ends_line(text: str, position: int) -> bool:
    stop = text.find("\n", position)
    return not text[position : len(text) if stop < 0 else stop].strip()


def find_region(text: str, end: int, head: Head, read: Arguments, tool: Tool) -> Region | None:
    if head.marked:
        return "marked"
    is_last = not text[end:].strip()
    if head.is_first and is_last and read.notation != "none":
        return "message"
    return "last_line" if is_last and read.notation == "python" and not head.fence and not tool.is_exec else None
