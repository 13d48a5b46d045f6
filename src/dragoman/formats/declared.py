"""Rows out of declarations: the `response_template` that a model ships with its tokenizer becomes a Format.

A declaration lists fields (`thinking`, `content`, `tool_calls`), each with the markers around it and with what stands
between them. Its patterns are translated into templates and never run: what a template says can be read while it
grows, at the same cost for every piece. What has no translation is refused, with its place in the declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from msgspec import structs

from dragoman.args.reading import read_text
from dragoman.errors import ConfigError
from dragoman.formats.compiler import compile_entry
from dragoman.formats.cursor import Cursor, Cut, Reader, write_json
from dragoman.formats.envelope import ARGUMENT_KEYS, NAME_KEYS
from dragoman.formats.jsonbody import run_to
from dragoman.formats.markers import Markers
from dragoman.formats.odd.gemma import GemmaCalls, GemmaWriter
from dragoman.formats.row import Format
from dragoman.formats.steps import ReadArguments, ReadSlot, Scope, Waiting, announce
from dragoman.formats.template import TemplateError, compile_template
from dragoman.types import ToolCall

_HEAD = ("version", "defaults", "fields", "start_anchor", "start_anchor_pattern")
_FIELD = ("open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional")
_THINKING = ("thinking", "reasoning_content", "reasoning")
_PLAIN_QUOTES = [["'", "'"]]
_has_hole = re.compile(r"\{(?:name|id|type|args|calls?|key|value|gap)\}|\{[*?]|[*?]\}").search
_placeholder = re.compile(r"\{(\w+(?:\.\w+)*)\}\Z").match
_tags = re.compile(r"<([A-Za-z][\w:.\-]*)").findall
_first_word = re.compile(r"\s*[\w.\-:/]+").match
_REWRITE = "use fixed texts, white space, groups and alternatives, or register a row of your own"


def from_response_template(name: str, declaration: Mapping[str, Any]) -> Format:
    """The row that a declaration describes, to be given to `register`; a whole tokenizer config will do as well.

    Raises ConfigError for whatever has no counterpart here, and names the part of the declaration.
    """
    if "fields" not in declaration and isinstance(declaration.get("response_template"), Mapping):
        declaration = declaration["response_template"]
    if "fields" not in declaration and not declaration.keys().isdisjoint(("response_schema", "properties", "x-regex")):
        why = "patterns over the whole reply cannot be read piece by piece"
        _refuse("response_schema", why, "declare a response_template, whose fields have `open` and `close`")
    _allow(declaration, _HEAD, "")
    if declaration.get("version", 1) != 1:
        _refuse("version", f"{declaration['version']!r} is not known", "only version 1 is")
    fields = declaration.get("fields")
    if not isinstance(fields, Mapping) or not fields:
        _refuse("fields", "not an object with at least one field", "give the response_template, or a tokenizer config")
    row = Format(name=name, thinking=(), separator="")
    if all(isinstance(field, Mapping) and ("open" in field or "open_pattern" in field) for field in fields.values()):
        # Nothing is declared for the text between the fields, and the start of a message may come again there.
        row = structs.replace(row, drop=_literals(declaration, "", "start_anchor"))
    for key, field in fields.items():
        row = _add_field(row, key, field, f"fields.{key}")
    return structs.replace(row, drop=tuple(dict.fromkeys(row.drop)))


def _refuse(path: str, why: str, hint: str) -> NoReturn:
    raise ConfigError(f"response_template: {path.lstrip('.')}: {why}", hint=hint)


def _allow(part: Any, known: Sequence[str], path: str) -> Mapping[str, Any]:
    if not isinstance(part, Mapping):
        _refuse(path, "not an object", f"it may have {', '.join(known)}")
    for key in part:
        if key not in known:
            _refuse(f"{path}.{key}", "has no counterpart here", f"understood are {', '.join(known)}")
    return part


def _add_field(row: Format, key: str, field: Any, path: str) -> Format:
    if key not in ("content", "tool_calls", *_THINKING):
        _refuse(path, "a reply has thinking, content and tool_calls, nothing else", "leave the field out")
    _allow(field, (*_FIELD, "transform", "transform_each") if key == "tool_calls" else _FIELD, path)
    if field.get("optional", True) is not True:
        _refuse(f"{path}.optional", "no part of a reply is required here", "leave it out and check the parsed reply")
    if key == "tool_calls":
        return _add_calls(row, field, path)
    if field.get("content", "text") != "text":
        _refuse(f"{path}.content", "this field is read as text", 'declare it as "text"')
    _allow(field.get("content_args", {}), ("strip",), f"{path}.content_args")
    openers, closers = _literals(field, path, "open"), _literals(field, path, "close")
    if key == "content":
        return structs.replace(row, drop=(*row.drop, *openers, *closers))
    if not openers or len(closers) != 1:
        hint = "give `open` and `close`; where the prompt opens the thinking, parse with starts_in_thinking=True"
        _refuse(path, "thinking needs a marker that opens it and one that closes it", hint)
    return structs.replace(row, thinking=(*row.thinking, *((opener, closers[0]) for opener in openers)))


# ---- markers and patterns --------------------------------------------------------------------------------------------


def _sources(part: Mapping[str, Any], path: str, key: str, holes: Mapping[str, str]) -> list[str]:
    """What stands under `key` or `key_pattern`, as pieces of templates: one for each way to write it."""
    if f"{key}_pattern" in part:
        if key in part:
            _refuse(f"{path}.{key}", "stands beside a pattern for the same place", "give one of the two")
        return [text.strip() for text in _translate(part[f"{key}_pattern"], f"{path}.{key}_pattern", holes)]
    texts = [part.get(key, "eos")] if isinstance(part.get(key, ""), str) else part[key]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text.strip() for text in texts):
        _refuse(f"{path}.{key}", "neither a text nor a list of texts", "give the marker as the model writes it")
    for text in filter(_has_hole, texts):
        _refuse(f"{path}.{key}", f"{text!r} means something else in a template", "register a row with its own reader")
    return [] if texts == ["eos"] else texts


def _literals(part: Mapping[str, Any], path: str, key: str) -> tuple[str, ...]:
    """The same where it must be fixed text."""
    texts = _sources(part, path, key, {})
    for text in filter(_has_hole, texts):
        _refuse(f"{path}.{key}_pattern", f"{text!r} is no fixed text", f"list the markers under {key!r}")
    return tuple(dict.fromkeys(filter(None, texts)))


def _translate(pattern: Any, path: str, holes: Mapping[str, str]) -> list[str]:
    from re import _parser  # type: ignore[attr-defined]  # it alone knows the syntax, and only declarations need it

    try:
        tree = _parser.parse(pattern)
    except (re.error, TypeError, RecursionError) as error:
        _refuse(path, f"no regular expression: {error}", "correct the declaration")
    groups = {number: holes.get(group, f"?{group}") for group, number in tree.state.groupdict.items()}
    try:
        variants = _write(tree, groups)
    except TemplateError as error:
        _refuse(path, f"{error} in {pattern!r} cannot be written as a template", _REWRITE)
    return [re.sub(r"[ \t]*\n\s*", "\n", text) for text in dict.fromkeys(variants)]


def _write(nodes: Iterable[tuple[Any, Any]], groups: Mapping[int, str]) -> list[str]:
    """A part of a regular expression as pieces of a template, one for each way through its alternatives."""
    variants = [""]
    for kind, value in nodes:
        pieces = _write_node(str(kind), value, groups)
        variants = [before + piece for before in variants for piece in pieces]
        if len(variants) > 16:
            raise TemplateError("so many alternatives")
    return variants


def _write_node(kind: str, value: Any, groups: Mapping[int, str]) -> list[str]:
    if kind == "LITERAL":
        return [chr(value)]
    if kind == "AT" and str(value) in ("AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING"):
        return [""]  # the start and the end of a reply need no marker
    if kind == "BRANCH":
        return [text for branch in value[1] for text in _write(branch, groups)]
    if kind == "SUBPATTERN":
        hole = groups.get(value[0], "")
        if hole.startswith("?"):
            raise TemplateError(f"the group {hole[1:]!r}, which is neither the name nor the id of a call,")
        # What a group may match is not asked: a hole reaches up to the text behind it.
        return ["{" + hole + "}"] if hole else _write(value[3], groups)
    if kind == "IN" and all(str(each) == "LITERAL" for each, _ in value):
        return [chr(each) for _, each in value]
    if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _write_repeat(*value, groups)
    raise TemplateError(f"a part ({kind.lower()})")


def _write_repeat(least: int, most: int, nodes: Sequence[tuple[Any, Any]], groups: Mapping[int, str]) -> list[str]:
    kind, value = nodes[0] if len(nodes) == 1 else ("", None)
    is_class = str(kind) in ("ANY", "IN", "NOT_LITERAL")
    if str(kind) == "IN" and [str(each) for _, each in value] == ["CATEGORY_SPACE"]:
        return ["\n" if least == 0 else " "]  # a line break in a template is read as any white space, also none
    if is_class and most > 1:
        return ["{gap}"]
    pieces = _write(nodes, groups)
    if all(text.isspace() for text in pieces):
        return ["\n" if least == 0 else " "]
    if (least, most) != (0, 1):
        raise TemplateError("a repetition")
    return ["{?" + pieces[0] + "?}"] if len(pieces) == 1 else [*pieces, ""]


# ---- calls -----------------------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """Where a transform finds the parts of a call: in groups of the opener, or in members of the JSON."""

    holes: Mapping[str, str] = {}
    keys: tuple[str, str] = ("name", "arguments")
    each: bool = False


def _read_shape(field: Mapping[str, Any], path: str) -> _Shape:
    each = bool(field.get("transform_each"))
    node = field.get("transform", "{content}")
    node = node[0] if isinstance(node, list) and len(node) == 1 else node
    outer = node if isinstance(node, Mapping) else {}
    node = outer.get("function", node)
    if node == "{content}" and not each:
        return _Shape()
    stated = {**outer, **node} if isinstance(node, Mapping) else {}
    found = {key: _placeholder(value) for key, value in stated.items() if isinstance(value, str)}
    paths = {key: match[1].split(".") for key, match in found.items() if match is not None}
    name, arguments, identity = (paths.pop(key, []) for key in ("name", "arguments", "id"))
    if not paths and len(name) == 1 and arguments == ["content"] and not each:
        return _Shape({name[0]: "name"} | {group: "id" for group in identity})
    if not each and name[:1] == arguments[:1] == ["content"]:
        name, arguments = name[1:], arguments[1:]
    if paths or name not in [[key] for key in NAME_KEYS] or arguments not in [[key] for key in ARGUMENT_KEYS]:
        hint = f"names are read from a group, {', '.join(NAME_KEYS)}; arguments from {', '.join(ARGUMENT_KEYS)}"
        _refuse(f"{path}.transform", "it does not say where a call has its name and its arguments", hint)
    return _Shape({}, (name[0], arguments[0]), each)


def _add_calls(row: Format, field: Mapping[str, Any], path: str) -> Format:
    shape, content = _read_shape(field, path), field.get("content", "text")
    if content != "json" and not (shape.holes and content in ("xml-inline", "kv-lines")):
        _refuse(f"{path}.content", f"{content!r} holds no calls", "calls are JSON, or arguments behind a captured name")
    # A marker that may stand before the opener is framing of its own.
    parts = [re.fullmatch(r"(?:\{\?([^{]+)\?\})?\s*(.*)", text, re.DOTALL) for text in _sources(field, path, "open", shape.holes)]
    heads = [part[2] for part in parts if part]
    row = structs.replace(row, keys=shape.keys, drop=(*row.drop, *(part[1] for part in parts if part and part[1])))
    closers = sorted((text.strip() for text in _literals(field, path, "close")), key=lambda text: len(compile_template(text)))
    arguments, where = field.get("content_args", {}), f"{path}.content_args"
    _allow(arguments, _ARGUMENTS[content], where)
    if content == "json" and arguments.get("string_delims", _PLAIN_QUOTES) != _PLAIN_QUOTES:
        return _add_dialect(row, heads, closers, arguments["string_delims"], f"{where}.string_delims")
    ...
