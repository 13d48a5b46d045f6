"""Declared formats: conversion of the `response_template` of a model's tokenizer to a Format.

A declaration lists fields (`thinking`, `content`, `tool_calls`), each with the markers around it and the content
between them. Its patterns are translated to templates and never run, because the engine can stream a template at the
same cost for every piece. A pattern without a translation raises ConfigError with its path in the declaration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from msgspec import structs

from dragoman.errors import ConfigError
from dragoman.formats.cursor import Cursor, Markers, Reader
from dragoman.formats.envelope import ARGUMENT_KEYS, ID_KEYS, NAME_KEYS
from dragoman.formats.plan import compile_entry
from dragoman.formats.readers.arguments import Arguments, run_value
from dragoman.formats.readers.gemma import GemmaCalls
from dragoman.formats.steps import ReadArguments, ReadSlot, Scope, Step, Waiting, announce
from dragoman.formats.template import Format, TemplateError, compile_template
from dragoman.formats.thinking import THINKING_FIELDS

_HEAD = ("version", "defaults", "fields", "start_anchor", "start_anchor_pattern")
_FIELD = ("open", "open_pattern", "close", "close_pattern", "content", "content_args", "repeats", "join", "optional")
_ARGUMENTS = {
    "json": ("unquoted_keys", "string_delims", "allow_non_json"),
    "xml-inline": ("tag_pattern", "value_parser"),
    "kv-lines": ("line_sep", "kv_sep", "value_parser"),
}
_has_hole = re.compile(r"\{(?:name|id|type|args|calls?|key|value|gap)\}|\{[*?]|[*?]\}").search
_is_placeholder = re.compile(r"\{[\w.]+\}\Z").match
_first_word = re.compile(r"\s*([\w.\-:/]*)").match
_find_group = re.compile(r"\((?:\?:|(?!\?))((?:[^()\\]|\\.)*)\)(\??)(?![*+{?])").search
_split_choices = re.compile(r"(?<!\\)\|").split
_NAMED = re.compile(r"\(\?P<(\w+)>(?:[^()\[\\]|\\.|\[\^?\]?(?:\\.|[^\]\\])*\])*\)", re.DOTALL)
_PIECE = re.compile(
    r"""(?P<blank>(?:\\[sntr]|[ \n\t]|\[(?:\\[sntr]|[ ])+\])[*+?]\??|\\s)
      | (?P<gap>(?:\.|\\[wWdDS]|\[(?:\\.|[^\]\\])+\])[*+]\??) | (?P<edge>\^|\$|\\[AZ])
      | \\(?P<mark>[^a-zA-Z0-9]) | \\(?P<control>[ntr]) | (?P<plain>(?!\{[\d,])[^\\()\[\]|.*+?^$])""",
    re.VERBOSE,
)
_BRACES = str.maketrans({"\ue000": "{", "\ue001": "}", "\ue002": "{?", "\ue003": "?}"})
"""Placeholders for the parts of a template during the translation of a pattern, which has braces of its own."""
_REWRITE = "use fixed texts, white space, groups and alternatives, or register a row of your own"


def from_response_template(name: str, declaration: Mapping[str, Any]) -> Format:
    """Make the row that a declaration describes, for `register`. A whole tokenizer config is accepted as well.

    Raises ConfigError for a part without an equivalent in a template, and names the part of the declaration.
    """
    if "fields" not in declaration and isinstance(declaration.get("response_template"), Mapping):
        declaration = declaration["response_template"]
    if "fields" not in declaration and not declaration.keys().isdisjoint(("response_schema", "properties", "x-regex")):
        _refuse("response_schema", "patterns over a whole reply cannot be streamed", "declare a response_template")
    _allow(declaration, _HEAD, "")
    version, fields = declaration.get("version", 1), declaration.get("fields")
    if version != 1:
        _refuse("version", f"{version!r} is not known", "only version 1 is")
    if not isinstance(fields, Mapping) or not fields:
        _refuse("fields", "not an object with at least one field", "give the response_template, or a tokenizer config")
    row = Format(name=name, thinking=(), separator="")
    if all(isinstance(field, Mapping) and ("open" in field or "open_pattern" in field) for field in fields.values()):
        # The declaration says nothing about the text between the fields, where the start of a message may occur again.
        anchors = tuple(_sources({**declaration, "start_anchor_pattern": None}, "", "start_anchor"))
        row = structs.replace(row, drop=anchors)
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
            _refuse(f"{path}.{key}", "has no equivalent in a template", f"understood are {', '.join(known)}")
    return part


def _add_field(row: Format, key: str, field: Any, path: str) -> Format:
    if key not in ("content", "tool_calls", *THINKING_FIELDS):
        _refuse(path, "a reply has thinking, content and tool_calls, nothing else", "leave the field out")
    _allow(field, (*_FIELD, "transform", "transform_each") if key == "tool_calls" else _FIELD, path)
    if field.get("optional", True) is not True:
        _refuse(f"{path}.optional", "no part of a reply is required here", "leave it out and check the parsed reply")
    if key == "tool_calls":
        return _add_calls(row, field, path)
    if field.get("content", "text") != "text":
        _refuse(f"{path}.content", "this field is read as text", 'declare it as "text"')
    _allow(field.get("content_args", {}), ("strip",), f"{path}.content_args")
    openers, closers = _sources(field, path, "open"), _sources(field, path, "close")
    if key == "content":
        return structs.replace(row, drop=(*row.drop, *openers, *closers))
    if not openers or len(closers) != 1:
        _refuse(path, "thinking needs an opener and one closer", "if the prompt opens it, use starts_in_thinking=True")
    return structs.replace(row, thinking=(*row.thinking, *((opener, closers[0]) for opener in openers)))


def _sources(part: Mapping[str, Any], path: str, key: str, holes: Mapping[str, str] | None = None) -> list[str]:
    """Return the value of `key` or `key_pattern` as template pieces, one per alternative; without holes, as texts."""
    if part.get(f"{key}_pattern") is not None:
        path = f"{path}.{key}_pattern"
        ways = [text.strip() for text in _translate(part[f"{key}_pattern"], path, holes or {})]
        if key in part or (holes is None and any(map(_has_hole, ways))):
            _refuse(path, "this must be fixed text, and stated once", f"list the markers under {key!r}")
        return [text for text in ways if text]
    stated = part.get(key, "eos")
    texts = [stated] if isinstance(stated, str) else list(stated if isinstance(stated, Sequence) else ())
    if not texts or not all(isinstance(text, str) and text.strip() and not _has_hole(text) for text in texts):
        _refuse(f"{path}.{key}", "neither a string nor a list of strings", "give the marker as the model writes it")
    return [] if texts == ["eos"] else texts


def _translate(pattern: Any, path: str, holes: Mapping[str, str]) -> list[str]:
    """Translate a pattern to template pieces. The pattern inside a named group is ignored: the hole reads the value."""
    try:
        re.compile(pattern)
    except (re.error, TypeError, RecursionError) as error:
        _refuse(path, f"not a regular expression: {error}", "correct the declaration")
    growing, ways = [_NAMED.sub(lambda group: f"\ue000{holes.get(group[1], '?')}\ue001", pattern)], list[str]()
    while growing and len(ways) + len(growing) < 20:
        way = growing.pop(0)
        group = _find_group(way)
        if group is None:
            ways += _split_choices(way)
            continue
        choices = _split_choices(group[1])
        if group[2]:
            choices = [*choices, ""] if choices[1:] else [f"\ue002{choices[0]}\ue003"]
        growing[:0] = [way[: group.start()] + choice + way[group.end() :] for choice in choices]
    texts: dict[str, None] = {}
    for way in ways:
        pieces = list(_PIECE.finditer(way))
        text = re.sub(r"[ \t]*\n\s*", "\n", "".join(map(_write_piece, pieces)))
        if growing or "".join(piece.group() for piece in pieces) != way or _has_hole(text) or "\ue000?" in text:
            _refuse(path, f"{pattern!r} cannot be written as a template", _REWRITE)
        texts[text.translate(_BRACES)] = None
    return list(texts)


def _write_piece(piece: re.Match[str]) -> str:
    text = piece.group()
    if piece.lastgroup == "blank":  # a line break in a template matches any white space, also none
        return " " if "+" in text or text == "\\s" else "\n"
    known = {"gap": "\ue000gap\ue001", "edge": "", "control": {"n": "\n", "t": "\t", "r": "\r"}.get(text[-1], "")}
    return known.get(str(piece.lastgroup), text[-1])


def _read_shape(field: Mapping[str, Any], path: str) -> tuple[dict[str, str], tuple[str, str], bool]:
    """Return where a transform finds the parts of a call: groups of the opener, or members of a JSON object or list."""
    each, node = bool(field.get("transform_each")), field.get("transform", "{content}")
    outer = node if isinstance(node, Mapping) else {}
    node = outer.get("function", node)
    if node == "{content}" and not each:
        return {}, ("name", "arguments"), False
    stated = {**outer, **node} if isinstance(node, Mapping) else {}
    paths = {key: str(value)[1:-1].split(".") for key, value in stated.items() if _is_placeholder(str(value))}
    name, arguments, identity = (paths.pop(key, []) for key in ("name", "arguments", "id"))
    if not paths and len(name) == 1 and arguments == ["content"] and not each:
        return {name[0]: "name"} | {group: "id" for group in identity}, ("name", "arguments"), False
    if not each and name[:1] == arguments[:1] == ["content"]:
        name, arguments = name[1:], arguments[1:]
    fits = len(name) == len(arguments) == 1 and name[0] in NAME_KEYS and arguments[0] in ARGUMENT_KEYS
    if paths or not fits or not {*identity[-1:]} <= {*ID_KEYS}:
        hint = f"known members are {', '.join((*NAME_KEYS, *ARGUMENT_KEYS, *ID_KEYS))}"
        _refuse(f"{path}.transform", "it does not say where a call has its name and its arguments", hint)
    return {}, (name[0], arguments[0]), each


def _add_calls(row: Format, field: Mapping[str, Any], path: str) -> Format:
    (holes, keys, each), content = _read_shape(field, path), str(field.get("content", "text"))
    if content not in _ARGUMENTS or (content != "json" and not holes):
        _refuse(f"{path}.content", f"{content!r} holds no calls", "calls are JSON, or arguments after a captured name")
    arguments = _allow(field.get("content_args", {}), _ARGUMENTS[content], f"{path}.content_args")
    heads = [text.lstrip() for text in _sources(field, path, "open", holes)]
    if not heads or any(head.count(f"{{{hole}}}") != 1 for head in heads for hole in holes.values()):
        _refuse(f"{path}.open", "the opener is missing, or it lacks a group that the transform uses", _REWRITE)
    closers = [text.strip() for text in _sources(field, path, "close")]
    closers.sort(key=lambda text: len(compile_template(text)))  # only a single literal can have other spellings
    if (content != "json" and not closers) or (closers[1:] and len(compile_template(closers[0])) > 1):
        _refuse(f"{path}.close", "neither one closer nor several plain ones", _REWRITE)
    row = structs.replace(row, keys=keys, spellings={closers[0]: tuple(closers[1:])} if closers[1:] else {})
    if arguments.get("string_delims"):
        return _add_dialect(row, heads[0], closers, arguments["string_delims"], f"{path}.content_args.string_delims")
    payload = "{args}" if holes else "{calls}" if each else "{call}"
    if content != "json":
        row = structs.replace(row, untyped_is_text=not _reads_json(arguments, f"{path}.content_args.value_parser"))
    if content == "xml-inline":
        payload = _write_tags(arguments, f"{path}.content_args")
    sources = [head.replace("{name}{gap}", "{name}") + payload + _close(head, closers) for head in heads]
    row = structs.replace(row, template=sources[0], also=tuple(sources[1:]))
    try:
        entries = [compile_entry(row, source) for source in sources]
        if any("{gap}" in source for source in sources):
            raise TemplateError("skipped text may only follow the name")
    except ValueError as error:
        _refuse(path, str(error), _REWRITE)
    if content == "kv-lines":
        lines = _ReadLines(arguments, closers, untyped_is_text=row.untyped_is_text)
        for entry in entries:
            entry.steps = tuple(lines.replace(step) for step in entry.steps)
        template = sources[0].replace("{args}", lines.template)
        return structs.replace(row, template=template, template_is_read=False, also=(), entries=tuple(entries))
    loose = [entry for entry, head in zip(entries, heads, strict=True) if "{gap}" in head]
    for entry in loose:
        entry.steps = tuple(_ReadFirstWord.replace(step) for step in entry.steps)
    return structs.replace(row, entries=tuple(loose))


def _write_tags(arguments: Mapping[str, Any], path: str) -> str:
    tags = _sources(arguments, path, "tag", {"key": "key", "value": "value"})
    if len(tags) != 1 or tags[0].count("{key}") != 1 or tags[0].count("{value}") != 1:
        _refuse(f"{path}.tag_pattern", "not exactly one tag with a key and a value", _REWRITE)
    return f"\n{{*{tags[0]}\n*}}" if "\n" in tags[0] else f"{{*{tags[0]}*}}"


def _reads_json(arguments: Mapping[str, Any], path: str) -> bool:
    parser = _allow(arguments.get("value_parser") or {}, ("name", "args"), path)
    if parser.get("name", "text") not in ("text", "json"):
        _refuse(f"{path}.name", "the schemas of the tools define the types of values", 'use "json" or "text"')
    _allow(parser.get("args", {}), ("allow_non_json", "strip"), f"{path}.args")
    return parser.get("name") == "json"


def _close(head: str, closers: Sequence[str]) -> str:
    """Return the closer of a call. Elements that the opener opens and the closer omits are closed before it."""
    closing = closers[0] if closers else ""
    tags = reversed(re.findall(r"<([A-Za-z][\w:.\-]*)", head) if "</" in closing else [])
    return "".join(f"{{?</{tag}>?}}" for tag in tags if f"</{tag}>" not in closing) + closing


def _add_dialect(row: Format, head: str, closers: list[str], quotes: Any, path: str) -> Format:
    match quotes, closers:
        case [[str(quote), other]], [closer] if quote == other and quote[1:] and head.endswith("call:{name}"):
            entry = GemmaCalls(row.name, head.removesuffix("call:{name}"), closer, quote)
            template = f"{head}{{args}}{closer}"
            return structs.replace(
                row, template=template, template_is_read=False, notation="gemma", quote=quote, entries=(entry,)
            )
    _refuse(path, "such strings are read only after `call:` and a name", "register a row of your own")


class _ReadFirstWord(ReadSlot):
    """Reads a name that is followed by text that the declaration skips, such as a channel or a format."""

    @classmethod
    def replace(cls, step: Step) -> Step:
        return cls(step.kind, step.stops) if type(step) is ReadSlot else step

    def _fill(self, text: str, cursor: Cursor, scope: Scope) -> None:
        super()._fill(_first_word(text)[1], cursor, scope)  # type: ignore[index]  # it matches any text


class _ReadLines(Waiting):
    """Reads arguments as lines with a key and a value each."""

    def __init__(self, said: Mapping[str, Any], closers: Sequence[str], *, untyped_is_text: bool) -> None:
        self.untyped_is_text = untyped_is_text
        self.line_end, self.colon = str(said.get("line_sep") or "\n"), str(said.get("kv_sep") or ":")
        self.template = f"{self.line_end}{{*{{key}}{self.colon} {{value}}{self.line_end}*}}"
        self.stops = Markers((self.line_end, *closers))

    def replace(self, step: Step) -> Step:
        if type(step) is ReadSlot and step.stops.literals == {"{"}:
            return ReadSlot(step.kind, self.stops)  # no literal ends the name, so the line end does
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
        key, _, text = (part.strip() for part in line.partition(self.colon))
        if key and self.colon in line:
            is_text = self.untyped_is_text and not arguments.declares(key)
            (arguments.add if is_text else arguments.add_text)(cursor, key, text)
        elif line.strip():
            cursor.repair("skipped_text")
