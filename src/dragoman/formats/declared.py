"""Rows out of declarations: the `response_template` that a model ships with its tokenizer becomes a Format.

A declaration lists fields (`thinking`, `content`, `tool_calls`), each with the markers around it and with what stands
between them. Its patterns are translated into templates and never run: what a template says can be read while it
grows, at the same cost for every piece. What has no translation is refused, with its place in the declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from msgspec import structs

from dragoman.errors import ConfigError
from dragoman.formats.compiler import compile_entry
from dragoman.formats.cursor import Cursor, Reader, write_json
from dragoman.formats.envelope import ARGUMENT_KEYS, NAME_KEYS
from dragoman.formats.markers import Markers
from dragoman.formats.odd.arguments import Arguments
from dragoman.formats.odd.gemma import GemmaCalls, GemmaWriter
from dragoman.formats.odd.stretches import run_value
from dragoman.formats.row import Format
from dragoman.formats.steps import ReadArguments, ReadSlot, Scope, Step, Waiting, announce
from dragoman.formats.template import TemplateError, compile_template
from dragoman.types import ToolCall

_HEAD = ("version", "defaults", "fields", "start_anchor", "start_anchor_pattern")
_FIELD = ("open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional")
_THINKING = ("thinking", "reasoning_content", "reasoning")
_QUOTES = [["'", "'"]]
_ARGUMENTS = {
    "json": ("unquoted_keys", "string_delims", "allow_non_json"),
    "xml-inline": ("tag_pattern", "value_parser"),
    "kv-lines": ("line_sep", "kv_sep", "value_parser"),
}
_has_hole = re.compile(r"\{(?:name|id|type|args|calls?|key|value|gap)\}|\{[*?]|[*?]\}").search
_placeholder = re.compile(r"\{(\w+(?:\.\w+)*)\}\Z").match
_tags = re.compile(r"<([A-Za-z][\w:.\-]*)").findall
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
        groups = {number: holes.get(group, f"?{group}") for group, number in tree.state.groupdict.items()}
        variants = _write(tree, groups)
    except (re.error, TypeError, RecursionError, TemplateError) as error:
        _refuse(path, f"{pattern!r} cannot be written as a template: {error}", _REWRITE)
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
    if kind == "IN" and all(str(each) == "LITERAL" for each, _ in value):
        return [chr(each) for _, each in value]
    if kind == "AT" and str(value) in ("AT_BEGINNING", "AT_BEGINNING_STRING", "AT_END", "AT_END_STRING"):
        return [""]  # the start and the end of a reply need no marker
    if kind == "BRANCH":
        return [text for branch in value[1] for text in _write(branch, groups)]
    if kind == "SUBPATTERN":
        hole = groups.get(value[0], "")
        if hole.startswith("?"):
            raise TemplateError(f"the group {hole[1:]!r} is no part of a call")
        # What a group may match is not asked: a hole reaches up to the text behind it.
        return ["{" + hole + "}"] if hole else _write(value[3], groups)
    if kind in ("MAX_REPEAT", "MIN_REPEAT"):
        return _write_repeat(value[0], value[1], value[2], groups)
    raise TemplateError(f"{kind.lower()} has no counterpart")


def _write_repeat(least: int, most: int, nodes: Sequence[tuple[Any, Any]], groups: Mapping[int, str]) -> list[str]:
    kind, value = nodes[0]
    blank = "\n" if least == 0 else " "  # a line break in a template is read as any white space, also none
    if str(kind) == "IN" and [str(each) for _, each in value] == ["CATEGORY_SPACE"]:
        return [blank]
    if str(kind) in ("ANY", "IN", "NOT_LITERAL") and most > 1:
        return ["{gap}"]
    pieces = _write(nodes, groups)
    if all(text.isspace() for text in pieces):
        return [blank]
    if (least, most) != (0, 1):
        raise TemplateError("a repetition has no counterpart")
    return ["{?" + pieces[0] + "?}"] if len(pieces) == 1 else [*pieces, ""]


def _read_shape(field: Mapping[str, Any], path: str) -> tuple[dict[str, str], tuple[str, str], bool]:
    """Where a transform finds the parts of a call: groups of the opener as holes, or members of JSON, or of a list."""
    each = bool(field.get("transform_each"))
    node = field.get("transform", "{content}")
    node = node[0] if isinstance(node, list) and len(node) == 1 else node
    outer = node if isinstance(node, Mapping) else {}
    node = outer.get("function", node)
    if node == "{content}" and not each:
        return {}, ("name", "arguments"), False
    stated = {**outer, **node} if isinstance(node, Mapping) else {}
    found = {key: _placeholder(value) for key, value in stated.items() if isinstance(value, str)}
    paths = {key: match[1].split(".") for key, match in found.items() if match is not None}
    name, arguments, identity = (paths.pop(key, []) for key in ("name", "arguments", "id"))
    if not paths and len(name) == 1 and arguments == ["content"] and not each:
        return {name[0]: "name"} | {group: "id" for group in identity}, ("name", "arguments"), False
    if not each and name[:1] == arguments[:1] == ["content"]:
        name, arguments = name[1:], arguments[1:]
    if paths or name not in [[key] for key in NAME_KEYS] or arguments not in [[key] for key in ARGUMENT_KEYS]:
        hint = f"names are read from a group, {', '.join(NAME_KEYS)}; arguments from {', '.join(ARGUMENT_KEYS)}"
        _refuse(f"{path}.transform", "it does not say where a call has its name and its arguments", hint)
    return {}, (name[0], arguments[0]), each


def _add_calls(row: Format, field: Mapping[str, Any], path: str) -> Format:
    (holes, keys, each), content = _read_shape(field, path), field.get("content", "text")
    if content not in _ARGUMENTS or (content != "json" and not holes):
        _refuse(f"{path}.content", f"{content!r} holds no calls", "calls are JSON, or arguments behind a captured name")
    arguments = _allow(field.get("content_args", {}), _ARGUMENTS[content], f"{path}.content_args")
    heads = [text.lstrip() for text in _sources(field, path, "open", holes)]
    closers = [text.strip() for text in _literals(field, path, "close")]
    closers.sort(key=lambda text: len(compile_template(text)))  # only a closer of one part can have other spellings
    if not heads or (content != "json" and not closers) or (closers[1:] and len(compile_template(closers[0])) > 1):
        _refuse(path, "calls need a marker that opens them and, but for JSON, one that closes them", _REWRITE)
    row = structs.replace(row, keys=keys, spellings={closers[0]: tuple(closers[1:])} if closers[1:] else {})
    if content == "json" and arguments.get("string_delims", _QUOTES) != _QUOTES:
        return _add_dialect(row, heads, closers, arguments["string_delims"], f"{path}.content_args.string_delims")
    payload = "{args}" if holes else "{calls}" if each else "{call}"
    if content != "json":
        row = structs.replace(row, untyped_is_text=not _reads_json(arguments, f"{path}.content_args.value_parser"))
    if content == "xml-inline":
        tags = _sources(arguments, f"{path}.content_args", "tag", {"key": "key", "value": "value"})
        if len(tags) != 1:
            _refuse(f"{path}.content_args.tag_pattern", "not one pattern with a key and a value", _REWRITE)
        payload = f"\n{{*{tags[0]}\n*}}" if "\n" in tags[0] else f"{{*{tags[0]}*}}"
    sources = [head.replace("{name}{gap}", "{name}") + payload + _close(head, closers) for head in heads]
    row = structs.replace(row, template=sources[0], also=tuple(sources[1:]))
    try:
        entries = [compile_entry(row, source) for source in sources]
    except TemplateError as error:
        _refuse(path, str(error), _REWRITE)
    if any("{gap}" in source for source in sources):
        _refuse(path, "text that is passed over may only follow the name", _REWRITE)
    if content == "kv-lines":
        lines = _ReadLines(arguments, closers, untyped_is_text=row.untyped_is_text)
        for entry in entries:
            entry.steps = tuple(lines.replace(step) for step in entry.steps)
        return structs.replace(
            row, template="", also=(), entries=tuple(entries), writer=partial(lines.write, sources[0])
        )
    loose = [entry for entry, head in zip(entries, heads, strict=True) if "{gap}" in head]
    for entry in loose:
        entry.steps = tuple(
            _ReadFirstWord(step.kind, step.stops) if type(step) is ReadSlot else step for step in entry.steps
        )
    return structs.replace(row, entries=tuple(loose))


def _close(head: str, closers: Sequence[str]) -> str:
    """What ends a call: elements that the opener opens and the closer does not mention are closed before it."""
    closing = closers[0] if closers else ""
    tags = [tag for tag in reversed(_tags(head)) if "</" in closing and f"</{tag}>" not in closing]
    return "".join(f"{{?</{tag}>?}}" for tag in tags) + closing


def _add_dialect(row: Format, heads: list[str], closers: list[str], quotes: Any, path: str) -> Format:
    if len(heads) != 1 or not heads[0].endswith("call:{name}") or len(closers) != 1 or quotes != [[quotes[0][0]] * 2]:
        _refuse(path, "such strings are read behind `call:` and a name only", "register a row with its own reader")
    entry = GemmaCalls(row.name, heads[0].removesuffix("call:{name}"), closers[0], quotes[0][0])
    return structs.replace(row, entries=(entry,), writer=GemmaWriter(entry))


def _reads_json(arguments: Mapping[str, Any], path: str) -> bool:
    parser = _allow(arguments.get("value_parser") or {}, ("name", "args"), path)
    if parser.get("name", "text") not in ("text", "json"):
        _refuse(f"{path}.name", "the tools' schemas say the types of values", 'use "json" or "text"')
    _allow(parser.get("args", {}), ("allow_non_json", "strip"), f"{path}.args")
    return parser.get("name") == "json"


class _ReadFirstWord(ReadSlot):
    """A name with something behind it that the declaration passes over: channels, formats."""

    def _fill(self, text: str, scope: Scope) -> None:
        super()._fill((text.split() or [""])[0], scope)


class _ReadLines(Waiting):
    """Arguments as lines with a key and a value each."""

    def __init__(self, arguments: Mapping[str, Any], closers: Sequence[str], *, untyped_is_text: bool) -> None:
        self.line_end, self.colon = arguments.get("line_sep", "\n"), arguments.get("kv_sep", ":")
        self.stops = Markers((self.line_end, *closers))
        self.untyped_is_text = untyped_is_text

    def replace(self, step: Step) -> Step:
        if type(step) is ReadSlot and step.stops.literals == {"{"}:
            return ReadSlot(step.kind, self.stops)  # no text ends the name, so its line does
        return self if isinstance(step, ReadArguments) else step

    def run(self, cursor: Cursor, scope: Scope) -> Reader:
        announce(cursor, scope)
        arguments, marker = Arguments(scope.tool), self.line_end
        while marker == self.line_end:
            mark = cursor.begin()
            marker = yield from run_value(cursor, self.stops, streamed=False)
            self._take(cursor.since(mark), arguments, cursor)
            cursor.position += len(marker) if marker == self.line_end else 0
        cursor.delta("}" if arguments.read else "{}")
        scope.arguments = arguments.read

    def _take(self, line: str, arguments: Arguments, cursor: Cursor) -> None:
        key, colon, text = line.partition(self.colon)
        if not colon or not key.strip():
            if line.strip():
                cursor.repair("skipped_text")
        elif self.untyped_is_text and not arguments.declares(key.strip()):
            arguments.add(cursor, key.strip(), text.strip())
        else:
            arguments.add_text(cursor, key.strip(), text.strip())

    def write(self, source: str, calls: Sequence[ToolCall]) -> str:
        written = ""
        for call in calls:
            values = (
                (key, each if isinstance(each, str) else write_json(each)) for key, each in call.arguments.items()
            )
            lines = "".join(f"{key}{self.colon} {value}{self.line_end}" for key, value in values)
            written += source.replace("{name}", call.name).replace("{args}", self.line_end + lines)
        return written
