"""JSON objects that state calls themselves, under any keys, alone, in a list or in a wrapper."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.improvised.arguments import Arguments, find_declared, read_closed, read_typed
from dragoman.formats.loose.calls import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    ObjectCall,
    as_arguments,
    read_object,
    read_typed_object,
    read_value,
)
from dragoman.formats.loose.candidates import OfferedNames
from dragoman.types import JsonObject, Tool

_LOOK_AHEAD = 600
_MOST_CALLS = 64
_MOST_INNER = 8
_DEEPEST = 6
_object_begins = re.compile(
    r"(?:\[\s*)?\{(?:\s*(?:[\"'“`]|//|/\*|\w)|\{\s*[\"'“])|\[\s*[\"'][^\W\d][\w.\-:/]{0,99}[\"']\s*,"
).match
_object_may_begin = re.compile(
    r"(?:\[\s*)?(?:\{\{?\s*/?)?\Z|\[\s*[\"'](?:[^\W\d][\w.\-:/]{0,99}(?:[\"']\s{0,100})?)?\Z"
).match
_quoted = re.compile(r"""["'“`]([^\W\d][\w.\-:/]{0,99})\\?["'”`]""").finditer
_name_and_object = re.compile(
    rf"""\{{\s*(?:["']?(?:{"|".join((*NAME_KEYS, "type"))})["']?\s*[:=]\s*)?
        ["']([^\W\d][\w.\-:/]{{0,99}})["']\s*[:,=]?\s*
        (?:["']?(?:{"|".join(ARGUMENT_KEYS)})["']?\s*[:=]?\s*)?(?=\{{)""",
    re.VERBOSE,
).match
_STATED = frozenset(("name", "arguments", "id"))
"""The keys of a call whose tool nobody offered. An object with other keys may be a definition."""
_talks = re.compile(r"example|sample|schema|definition|expect|result|output|previous|history|tools\Z", re.I).search
"""Finds keys of objects that show a call and do not make it."""
_ends_object = re.compile(r"\s*\}").match
_arrows = re.compile(r"""\{\s*tool\s*=>\s*["']([^"'\n]{1,100})["']\s*,\s*(?:args|arguments)\s*=>\s*\{""").match
_option = re.compile(r"[\s,]*--([A-Za-z_][\w.\-]{0,99})[ \t]+").match
_bare_value = re.compile(r"[^\s\"'{}\[\]](?:(?!\s--|\n|\s*\}).)*").match
_ends_both = re.compile(r"\s*\}\s*\}").match


class Stated(Struct, frozen=True):
    """A call: its tool, and its arguments with the end of its text."""

    tool: Tool
    arguments: Arguments


def may_state(text: str, position: int, offered: OfferedNames, *, final: bool) -> bool | None:
    """Whether an object begins that has an offered name as one of its first strings; None if more text is needed."""
    if not final and _object_may_begin(text, position) is not None:
        return None
    if _object_begins(text, position) is None:
        return False
    if named_in(text, position, offered):
        return True
    return None if not final and len(text) - position < _LOOK_AHEAD else False


def named_in(text: str, position: int, offered: OfferedNames) -> str:
    """Return the offered name among the first strings of an object; empty if there is none."""
    for quoted in _quoted(text, position, position + _LOOK_AHEAD):
        tool = offered.find(quoted[1])
        if tool is not None:
            return tool.name
    return ""


def read_envelopes(text: str, position: int, offered: OfferedNames) -> list[Stated]:
    """Return the calls of the object or list at `position`; empty if not all of it is calls."""
    read = read_closed(text, position)
    calls = _calls_of(read[0], offered, 0) if read is not None else []
    if read is None or not calls:
        return _read_damaged(text, position, offered)
    _, end, repairs = read
    if len(calls) > _MOST_CALLS or ("closed_wrapper" in repairs and not all(call.arguments for call in calls)):
        return []  # too many, or arguments that may have been cut off
    ends = [end] if len(calls) == 1 else _ends_of(text, position, end, offered)
    if len(ends) != len(calls):
        return []
    ends[-1] = end
    return [
        Stated(call.tool, Arguments(call.arguments, edge, "json", [*repairs, *call.repairs]))
        for call, edge in zip(calls, ends, strict=True)
    ]


def _read_damaged(text: str, position: int, offered: OfferedNames) -> list[Stated]:
    """Read an object that is no JSON, because the key between the name and the arguments, or its colon, is missing."""
    arrows = _arrows(text, position)
    if arrows is not None:
        return _read_arrows(text, arrows, offered)
    named = _name_and_object(text, position)
    tool = offered.find(named[1]) if named is not None and not offered.open else None
    if named is None or tool is None:
        return []
    read = read_closed(text, named.end())
    ended = _ends_object(text, read[1]) if read is not None else None
    if read is None or ended is None or not isinstance(read[0], dict):
        return []
    return [Stated(tool, Arguments(read[0], ended.end(), "json", [*read[2], "name_before_braces"]))]


def _read_arrows(text: str, head: re.Match[str], offered: OfferedNames) -> list[Stated]:
    """Read {tool => "NAME", args => { --key "value" }}, which stands between markers in the format `perl`."""
    tool = offered.find(head[1]) if not offered.open else None
    arguments: JsonObject = {}
    at = head.end()
    while tool is not None and (option := _option(text, at)) is not None:
        key = find_declared(option[1], tool)
        quoted = read_closed(text, option.end()) if text[option.end() : option.end() + 1] in "\"'{[" else None
        bare = _bare_value(text, option.end())
        if key is None or key in arguments or (quoted or bare) is None:
            return []
        if quoted is not None:
            arguments[key], at = quoted[0], quoted[1]
        elif bare is not None:
            arguments[key], at = read_typed(bare[0].strip(), tool, key), bare.end()
    ended = _ends_both(text, at)
    if tool is None or ended is None:
        return []
    return [Stated(tool, Arguments(arguments, ended.end(), "json"))]


def _calls_of(value: Any, offered: OfferedNames, depth: int) -> list[ObjectCall]:
    """Return the calls that a value states. A list counts only if each of its items is a call."""
    if isinstance(value, list):
        items = _by_items(value, offered)
        if items is not None:
            return [items]
        said = [item for item in value if not _is_said(item)]
        found = [_calls_of(item, offered, depth + 1) for item in said] if depth < _DEEPEST else []
        return [call for calls in found for call in calls] if all(found) else []
    if not isinstance(value, dict) or (offered.open and not (value.keys() <= _STATED and "arguments" in value)):
        return []
    stated = read_object(value, offered) or _by_value(value, offered)
    if stated is not None:
        return [stated]
    if depth >= _DEEPEST or any(_talks(key) for key in value):
        return []
    listed = _only_member(value, offered) if len(value) == 1 else []
    if listed:
        return listed
    values: list[Any] = list(value.values())
    lists: list[Any] = [each for each in values if isinstance(each, list) and each and isinstance(each[0], dict)]
    inner = lists or [each for each in values if isinstance(each, dict)]
    stating = [calls for each in inner[:_MOST_INNER] if (calls := _calls_of(each, offered, depth + 1))]
    return stating[0] if len(stating) == 1 else []


_lists_calls = re.compile(r"(?:tool|function)?_?(?:calls|uses)\Z", re.IGNORECASE).match


def _only_member(value: JsonObject, offered: OfferedNames) -> list[ObjectCall]:
    """Return the calls in the only member of an object: typed items of a list of calls, or a call that is a string."""
    ((key, inner),) = value.items()
    if isinstance(inner, list) and _lists_calls(key) is not None:
        typed = [read_typed_object(item, offered) if isinstance(item, dict) else None for item in inner]
        return [call for call in typed if call is not None] if all(typed) else []
    if not isinstance(inner, str) or not inner.lstrip().startswith("{") or offered.open:
        return []
    try:
        decoded, end, repairs = read_value(inner, len(inner) - len(inner.lstrip()))
    except Unreadable:
        return []
    call = read_object(decoded, offered) if isinstance(decoded, dict) and not inner[end:].strip() else None
    return [] if call is None else [ObjectCall(call.tool, call.arguments, ["double_encoded", *repairs, *call.repairs])]


def _is_said(item: Any) -> bool:
    """Whether an item of a list of content is text or reasoning, which does not make the other items doubtful."""
    return isinstance(item, dict) and item.get("type") in ("text", "output_text", "thinking", "reasoning")


_pair = re.compile(r"\s*([^\W\d][\w.\-]{0,99})\s*[=:]\s*(.*)\Z", re.DOTALL).match


def _by_items(value: list[Any], offered: OfferedNames) -> ObjectCall | None:
    """Read ["NAME", "key=value", ...] or ["NAME", {...}]: a list that begins with an offered name."""
    tool = offered.find(value[0]) if len(value) > 1 and isinstance(value[0], str) and not offered.open else None
    if tool is None:
        return None
    if len(value) == 2 and isinstance(value[1], dict):
        return ObjectCall(tool, value[1], ["call_as_list"])
    arguments: JsonObject = {}
    for item in value[1:]:
        pair = _pair(item) if isinstance(item, str) else None
        key = find_declared(pair[1], tool) if pair is not None else None
        if pair is None or key is None or key in arguments:
            return None
        arguments[key] = read_typed(pair[2], tool, key)
    return ObjectCall(tool, arguments, ["call_as_list", "key_value_pairs"])


def _by_value(value: JsonObject, offered: OfferedNames) -> ObjectCall | None:
    """Read {"anything": "NAME", "anything": {...}}: one offered name, and one object for its arguments."""
    names = [(key, inner) for key, inner in value.items() if isinstance(inner, str) and offered.find(inner)]
    objects = [inner for inner in value.values() if isinstance(inner, dict)]
    if len(names) != 1 or len(objects) != 1 or names[0][0] in NAME_KEYS:
        return None
    tool = offered.find(names[0][1])
    assert tool is not None
    arguments, repairs = as_arguments(objects[0], tool)
    return None if arguments is None else ObjectCall(tool, arguments, [*repairs, "unusual_keys"])


def _states(value: JsonObject, offered: OfferedNames) -> bool:
    read = (read_object, _by_value, read_typed_object)
    return any(one(value, offered) is not None for one in read)


def _ends_of(text: str, position: int, end: int, offered: OfferedNames) -> list[int]:
    """Return the ends of the objects that state one call each."""
    ends: list[int] = []
    at = text.find("{", position)
    while 0 <= at < end and len(ends) <= _MOST_CALLS:
        try:
            value, edge, _ = read_value(text, at)
        except Unreadable:
            value, edge = None, 0
        if isinstance(value, dict) and _states(value, offered):
            ends.append(edge)
            at = text.find("{", edge)
        else:
            at = text.find("{", at + 1)
    return ends
