"""Finds text that looks like a call of an offered tool and was not read as one: the near misses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

from msgspec import Struct

from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.envelope import ARGUMENT_KEYS, NAME_KEYS, properties_of, required_of
from dragoman.formats.improvised.arguments import SIGIL, read_pairs
from dragoman.formats.improvised.entry import Improvised
from dragoman.formats.improvised.reader import ANY_LABEL, ImprovisedReader
from dragoman.formats.loose.calls import read_value
from dragoman.formats.loose.candidates import OfferedNames
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Tool

_line_starts = re.compile(rf"\n[ \t]*+(?={Improvised.line_gate})").finditer
_wrappers = re.compile(
    rf"<{SIGIL}/?(?:[a-z]{{1,20}}[_:\-])?(?:tool|function)[_\- ]?(?:calls?|use|code)\b[^<>\n]{{0,100}}>"
    r"|\[TOOL[_ ]?CALLS?[^\]\n]{0,40}\]|<[|｜][^|｜<>\n]{0,20}(?:tool|call)[^|｜<>\n]{0,30}[|｜]>"
    rf"|<{SIGIL}(?:invoke|function|parameter)[ =][^<>\n]{{1,100}}>",
    re.IGNORECASE,
).finditer
_functools = re.compile(r"functools\[\s*\{").finditer
_stated = re.compile(
    rf"""["'](?:{"|".join(NAME_KEYS)})["']\s*:\s*["']([^\W\d][\w.\-]{{0,99}})["']\s*,
        \s*["'](?:{"|".join(ARGUMENT_KEYS)})["']\s*:""",
    re.VERBOSE,
).search
_stated_anywhere = re.compile(
    rf"""["']\w{{1,30}}["']\s*:\s*["']([^\W\d][\w.\-]{{0,99}})["']\s*,
        \s*["'](?:{"|".join(ARGUMENT_KEYS)})["']\s*:\s*["'{{]""",
    re.VERBOSE,
).finditer
_nameless = re.compile(rf"<{SIGIL}(?:invoke|function|tool)\s*(?:name\s*)?=\s*(?:\"\s*\"|'\s*')?\s*/?>").finditer
_labelled = re.compile(
    rf"^[ \t]*[\[【<(]{{1,2}}[ \t]*(?:{ANY_LABEL})[ \t]*[:：=][ \t]*[\"']?([^\W\d][\w.\-]*)[\"']?"
    r"(?:[ \t]+[^\n\]]{1,200})?[ \t]*[\]】>)]{1,2}[ \t]*$",
    re.MULTILINE,
).finditer
_bracket_calls = re.compile(
    r"^[ \t]*\[(?:call|tool|tool_call|function|function_call|invoke)[ \t]*[:=][ \t]*([^\W\d][\w.\-:]{0,99})\][ \t]*\{",
    re.M,
).finditer
_nameless_token = re.compile(
    r"^[ \t]*<[|｜][^|｜<>\n]{0,30}(?:call|arg)[^|｜<>\n]{0,30}[|｜]>[ \t]*(?=\{)", re.M
).finditer
_named_pair = re.compile(r"""name\s*=\s*["']([^\W\d][\w.\-]{0,99})["']""").finditer
_arguments_pair = re.compile(
    rf"""\b(?:{"|".join(ARGUMENT_KEYS)})\s*=\s*["'{{]|(?:>\s*|\[param\w*\s)name\s*=\s*["']"""
).search
_pair_lines = re.compile(r"^[ \t]*([^\W\d][\w.\-]*)[ \t]+(?=[\w.\-]+[=:])", re.MULTILINE).finditer
_recipients = re.compile(r"\bto=(?:functions\.)?([^\W\d][\w.\-]{0,99})[^{\n]{0,60}\{").finditer
_bracketed = re.compile(
    rf"\n[ \t]*+(?:{ANY_LABEL})[ \t]*[:：][ \t]*([^\W\d][\w.\-]*)[ \t]*[\[【][^\n]*[\]】][ \t]*(?=\n|\Z)"
).finditer
_called_with = re.compile(
    r"\b(?:[Cc]all|[Ii]nvok|[Ee]xecut|[Rr]un|[Uu]s)\w{0,6}:?[ \t]+[`*\"']?([^\W\d][\w.\-]{0,99})[`*\"']?,?[ \t]+"
    r"(?:with[ \t]+)?(?=[\w.\-]+=)"
).finditer
_after_sentence = re.compile(
    r"[.!?:。！？…][ \t]?(?:<([^\W\d][\w.\-]{0,99})(?:\s[^<>\n]{0,200})?/?>|call:([^\W\d][\w.\-]{0,99})[({])"
).finditer
_OBJECT = re.compile(r"\{\s*[\"']([^\W\d][\w.\-]*)[\"']\s*:")
_objects, _object = _OBJECT.finditer, _OBJECT.match
_fence_begins = re.compile(r"```\w{0,10}[ \t]*\r?\n\s*\Z").match
_is_heading = re.compile(r"[ \t]*(?:#{1,6}[ \t]|\*\*|[-*][ \t])").match
_speaks_of_call = re.compile(r"\b(?:call|invok|execut|us(?:e|ing)\b|run|input|argument|param)", re.IGNORECASE).search
_lone_command = re.compile(r"\s*[@/!$|]{1,2}[ \t]?([^\W\d][\w.\-]*)[ \t]+\S[^\n]*\s*\Z").match
_list_begins = re.compile(r"[ \t]*\[\s*([^\W\d][\w.\-]*)\(").match
_words = re.compile(r"[^\W\d][\w.\-]*").finditer
_code_spans = re.compile(r"\s*(?:`[^`\n]+`\s*)+").fullmatch
_schema = re.compile(r"""["']description["']\s*:|["']properties["']\s*:\s*\{""").search
_NEAR = 300
_SENTENCE = 100
_MOST = 16


class Attempt(Struct, frozen=True):
    """A near miss: the tool that it seems to name (empty if it names none), its span, and why it is not a call."""

    name: str
    span: tuple[int, int]
    why: str


def find_attempts(text: str, tools: Toolset, is_taken: Callable[[tuple[int, int]], bool]) -> list[Attempt]:
    """Return the near misses outside the stretches that are taken, in order."""
    offered = OfferedNames(tools)
    found: list[Attempt] = []
    end = 0
    named = (*_named(text, offered, is_taken), *_told(text, offered)) if tools.is_mentioned(text) else ()
    all_found = [*named, *_marked(text, offered)]
    for attempt in sorted(all_found, key=lambda one: one.span):
        if attempt.span[0] >= end and not is_taken(attempt.span):
            found.append(attempt)
            end = attempt.span[1]
            if len(found) == _MOST:
                break
    return found or [attempt for attempt in _in_message(text, offered) if not is_taken(attempt.span)]


def _named(text: str, offered: OfferedNames, is_taken: Callable[[tuple[int, int]], bool]) -> Iterator[Attempt]:
    """Lines that begin like a call: markup, an offered name, and the beginning of arguments."""
    reader = ImprovisedReader(offered)
    first = len(text) - len(text.lstrip())
    for line in _line_starts("\n" + text):
        at = line.end() - 1
        is_first = at == first
        if is_taken((at, at + 1)):
            continue
        name = reader.find_name(text, at, is_first=is_first) if reader.may_name(text, at, is_first=is_first) else None
        if name is not None and not _is_definition(text, at):
            end = _end_of_fence(text, at) or _end_of_line(text, at)
            yield Attempt(name, (at, end), "its arguments cannot be read, or do not satisfy the schema")


def _end_of_fence(text: str, at: int) -> int:
    """Return the end of the fence that begins here; 0 if none begins."""
    mark = text[at : at + 3]
    if mark not in ("```", "~~~"):
        return 0
    closed = text.find("\n" + mark, at)
    return len(text) if closed < 0 else _end_of_line(text, closed + 1)


def _told(text: str, offered: OfferedNames) -> Iterator[Attempt]:
    """What names a tool and gives its arguments, or has the place of arguments, in no markup that a reader knows."""
    if "{" in text:
        for stated in _stated_anywhere(text):
            tool = offered.find(stated[1])
            start = max(text.rfind("{", max(0, stated.start() - _NEAR), stated.start()), 0) or stated.start()
            if tool is not None and not _is_definition(text, stated.end()):
                yield Attempt(tool.name, (start, _end_of_line(text, stated.end())), "it is inside other text")
        yield from _narrated(text, offered)
    yield from _addressed(text, offered)
    for label in _labelled(text):
        tool = offered.find(label[1])
        if tool is not None:
            yield Attempt(tool.name, label.span(), "its arguments are missing")
    for line in (*_pair_lines(text), *(_called_with(text) if "=" in text else ())):
        tool = offered.find(line[1]) if offered.may_begin(line[1]) else None
        read = read_pairs(text, line.end(), tool) if tool is not None else None
        if tool is not None and read is not None and read.values.keys() >= set(required_of(tool)):
            start = _start_of_line(text, line.start())
            yield Attempt(tool.name, (start, _end_of_line(text, read.end)), "nothing marks it as a call")


def _addressed(text: str, offered: OfferedNames) -> Iterator[Attempt]:
    """A name in the place of a recipient or of the attribute of an object, with the beginning of arguments."""
    for pair in _named_pair(text) if "=" in text else ():
        tool = offered.find(pair[1])
        near = text[max(0, pair.start() - _NEAR) : pair.end() + _NEAR]
        if tool is not None and _arguments_pair(near) is not None:
            start = _start_of_line(text, pair.start())
            yield Attempt(tool.name, (start, _end_of_line(text, pair.end())), "its markup cannot be read")
    for word in _recipients(text) if "to=" in text else ():
        tool = offered.find(word[1])
        if tool is not None:
            yield Attempt(tool.name, word.span(), "its markup cannot be read")
    for word in _bracketed("\n" + text) if "[" in text or "【" in text else ():
        tool = offered.find(word[1])
        if tool is not None:
            yield Attempt(tool.name, (word.start(), word.end() - 1), "its markup cannot be read")
    for word in _after_sentence(text) if "<" in text or "call:" in text else ():
        tool = offered.find(word[1] or word[2])
        if tool is not None:
            yield Attempt(tool.name, (word.start() + 1, _end_of_line(text, word.end())), "it is inside other text")


def _narrated(text: str, offered: OfferedNames) -> Iterator[Attempt]:
    """A sentence or a heading about a call, with the arguments of the tool: `I call NAME with {...}`."""
    for number, found in enumerate(_objects(text)):
        if number == _MOST:
            return
        head = text[max(0, found.start() - _SENTENCE) : found.start()]
        start = found.start()
        line = _line_before_fence(head)
        if line is not None:
            start += line - len(head)
            head = head[line:].partition("\n")[0]
        else:
            head = head.rpartition("\n")[2]
            if head.endswith("`"):
                start = _start_of_line(text, start)  # in a code span, it would belong to the code
        tool = next((tool for word in _words(head) if (tool := offered.find(word[0])) is not None), None)
        is_told = _speaks_of_call(head) is not None or (line is not None and _is_heading(head) is not None)
        # In a language that this module does not know, a name that is no plain word is enough.
        if tool is None or not (is_told or (line is None and not tool.name.isalpha())):
            continue
        if _may_be_arguments(text, found, tool):
            yield Attempt(tool.name, (start, _end_of_line(text, found.start())), "its arguments are in a sentence")


def _line_before_fence(text: str) -> int | None:
    """Return the start of the last line before the fence that begins at the end of a text; None if none begins."""
    fence = text.rfind("```")
    said = text[:fence].rstrip() if fence >= 0 and _fence_begins(text, fence) is not None else ""
    return said.rfind("\n") + 1 if said else None


def _may_be_arguments(text: str, found: re.Match[str], tool: Tool) -> bool:
    """Whether an object, which the end of the text may cut, has the keys of the arguments of a tool."""
    try:
        value, _, _ = read_value(text, found.start())
    except Unreadable as error:
        return error.cut and found[1] in properties_of(tool)
    return isinstance(value, dict) and set(required_of(tool)) <= value.keys() <= properties_of(tool).keys()


def _marked(text: str, offered: OfferedNames) -> Iterator[Attempt]:
    """Tags and tokens that models put around calls, with an offered name near them."""
    if "[" in text:
        yield from _in_brackets(text, offered)
    has_functools = "functools[" in text
    for tag in _nameless(text) if "<" in text and "=" in text else ():
        if tag.start() == _start_of_line(text, tag.start()):
            yield Attempt("", (tag.start(), _end_of_line(text, tag.end())), "it names no tool")
    if "<" not in text and "[T" not in text and "[t" not in text and not has_functools:
        return
    for token in islice(_nameless_token(text), _MOST):
        fitting = _object(text, token.end())
        if fitting is not None and any(_may_be_arguments(text, fitting, tool) for tool in offered.tools or ()):
            yield Attempt("", (token.start(), _end_of_line(text, token.end())), "it names no tool")
    for wrapper in (*_wrappers(text), *(_functools(text) if has_functools else ())):
        near = text[wrapper.start() : wrapper.end() + _NEAR]
        name = next((tool.name for word in _words(near) if (tool := offered.find(word[0])) is not None), None)
        span = (wrapper.start(), _end_of_line(text, wrapper.end()))
        unknown = _stated(near) if name is None and wrapper.start() == _start_of_line(text, wrapper.start()) else None
        if name is not None:
            yield Attempt(name, span, "its markup cannot be read")
        elif unknown is not None and not _is_definition(text, wrapper.start()):
            yield Attempt(unknown[1], span, f"there is no tool named {unknown[1]!r}")


def _in_brackets(text: str, offered: OfferedNames) -> Iterator[Attempt]:
    """[call:NAME]{...} for a tool that is not offered."""
    for call in _bracket_calls(text):
        name = call[1].rpartition(":")[2]
        if offered.find(name) is None and not _is_definition(text, call.start()):
            yield Attempt(name, (call.start(), _end_of_line(text, call.end())), f"there is no tool named {name!r}")


def _is_definition(text: str, at: int) -> bool:
    """Whether the schema of a tool follows, not a call of it."""
    return _schema(text, at, at + _NEAR) is not None


def _in_message(text: str, offered: OfferedNames) -> Iterator[Attempt]:
    """What is a near miss only if it is the whole message, or its first or last line."""
    start = len(text) - len(text.lstrip())
    for at in sorted({start, text.rstrip().rfind("\n") + 1}):
        listed = _list_begins(text, at)
        tool = offered.find(listed[1]) if listed is not None else None
        if tool is not None:
            yield Attempt(tool.name, (at, _end_of_line(text, at)), "its arguments cannot be read")
    if text.startswith("{", start):
        yield from _unnamed(text, start, offered)
        return
    command = _lone_command(text)
    tool = offered.find(command[1]) if command is not None and not command[1].isalpha() else None
    if tool is not None:
        yield Attempt(tool.name, (start, len(text)), "it has a name and no arguments with keys")
        return
    name, _, rest = text.strip().partition("\n")
    spans = _code_spans(text)
    if spans is not None:
        name, rest = next((word[0] for word in _words(text) if offered.find(word[0]) is not None), ""), text
    tool = offered.find(name.strip()) if name else None
    if tool is not None and rest.strip():
        yield Attempt(tool.name, (start, len(text)), "it has a name and no arguments with keys")


def _unnamed(text: str, start: int, offered: OfferedNames) -> Iterator[Attempt]:
    """A message that is one JSON object: arguments without a name, or a call of a tool that is not offered."""
    try:
        value, end, _ = read_value(text, start)
    except Unreadable:
        return
    if text[end:].strip() or not isinstance(value, dict) or not value:
        return
    named = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    if named is not None and any(isinstance(value.get(key), dict) for key in ARGUMENT_KEYS):
        yield Attempt(named, (start, end), f"there is no tool named {named!r}")
    elif _fits_a_tool(value, offered):
        yield Attempt("", (start, end), "it has the arguments of a tool and names none")


def _fits_a_tool(value: JsonObject, offered: OfferedNames) -> bool:
    tools = offered.tools or ()
    return any(
        required_of(tool) and set(required_of(tool)) <= value.keys() <= properties_of(tool).keys() for tool in tools
    )


def _start_of_line(text: str, position: int) -> int:
    """Return the first character of a line that is not a blank."""
    start = text.rfind("\n", 0, position) + 1
    return start + len(text[start:position]) - len(text[start:position].lstrip())


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
