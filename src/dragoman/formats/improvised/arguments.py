"""The arguments of an improvised call, in one of five notations: JSON, pairs, elements, attributes, Python."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from dragoman.args.coercion import coerce, read_text
from dragoman.args.loader import find_faults
from dragoman.args.tolerant import TolerantReader, repair
from dragoman.args.tolerant_scalars import Unreadable
from dragoman.formats.entities import decode_entities
from dragoman.formats.envelope import ARGUMENT_KEYS, is_plain_text, properties_of, required_of, schema_of
from dragoman.formats.intent import PROSE_TAGS, TYPE_NAMES
from dragoman.formats.loose.calls import read_arguments as read_python
from dragoman.formats.loose.calls import read_value
from dragoman.formats.nested import read_nested
from dragoman.formats.readers.arguments import single_parameter
from dragoman.jsonschema.fit import fits_plainly
from dragoman.toolset import fold
from dragoman.types import Change, JsonObject, Tool

MOST_PAIRS = 100
"""The maximal number of arguments of one call."""
SIGIL = (
    r"(?:[|｜‖]{1,2}\s?)?(?:(?:(?:[A-Z][A-Z0-9_]{1,19}|dsml)\s?[|｜‖]{1,2}\s?|DSML\s)(?=[a-z]))?"
    r"(?:[^\W\d]\w{0,19}:(?=\w))?"
)
"""The bars, a word in capitals as that of DeepSeek, and the prefix of a namespace, before the word of a tag."""

_CONTAINERS = "|".join((*ARGUMENT_KEYS, "body"))
_KEY = r"[^\W\d][\w.\-]{0,99}"


class Arguments(Struct):
    """The arguments that were read, where they end, and how they were written."""

    values: JsonObject
    end: int
    notation: str
    repairs: list[str] = field(default_factory=list)
    changes: tuple[Change, ...] = ()
    is_open: bool = False
    """The last value has no end of its own: it is complete only if the wrapper, or the message, ends after it."""


def fit(read: Arguments, tool: Tool, *, is_stated: bool) -> Arguments | None:
    """Return the arguments coerced to the schema; None if they do not satisfy it, or name other parameters.

    `is_stated`: an envelope has keys for the name and for the arguments. Then a tool may leave its parameters open.
    """
    declared = {fold(name) for name in properties_of(tool)}
    is_open = is_stated and "properties" not in (tool.parameters or {})
    if not is_open and any(fold(key) not in declared for key in read.values):
        return None
    if tool.parameters and not fits_plainly(read.values, tool.parameters):
        coerced = coerce(read.values, tool.parameters)
        if not isinstance(coerced.value, dict) or find_faults(coerced.value, tool.parameters):
            return None
        read.values, read.changes = coerced.value, coerced.changes
    return read


# --------------------------------------------------------------------------------------------------------------------
# Between the name and the arguments: the end of a label, of a quotation or of a tag, and a word for "arguments".

_glue = re.compile(
    rf"""(?:
      \s++
    | [:!#@]\d{{1,4}}\b
    | \[(?:TOOL_)?(?:ARGS|ARGUMENTS|PARAMS|PARAMETERS|INPUT|CALL_ID)\](?:[\w\-]{{1,80}}(?=\[))?
    | (?<=\w)\[(?i:arg(?:ument)?s|param(?:eter)?s|input)\]
    | ["'`*\]】>|｜:：,=;}}%]
    | \[\s*\] | \)(?=\s*\{{)
    | ->|→|⇒|=>
    | [ \t]?\((?i:id:?\s?)?(?:call|toolu|id|chatcmpl)[\w\-]{{1,80}}\)
    | \((?:json|code)\b[^()\n]{{0,20}}\)(?=\s*\{{)
    | (?:id|call_id|tool_call_id)\s*[=:]\s*["']?[\w\-]{{1,80}}["']?
    | </{SIGIL}[\w.:\-]{{1,60}}\s*[|｜]{{0,2}}>
    | <[|｜][^|｜<>\s]{{1,40}}[|｜]>
    | ([\u2600-\u27bf])[A-Za-z_]{{1,20}}\1
    | <!\[CDATA\[(?=\s*\{{)
    | <(?:[a-z]{{1,20}}:)(?:tool_)?(?:{_CONTAINERS})>
    | <{SIGIL}(?i:{_CONTAINERS}|code)(?:\s+type\s*=\s*["']\w+["'])?\s*[|｜]{{0,2}}>
    | ["'`*]*(?i:{_CONTAINERS}|Action\ Input|Arguments|Parameters|Input|Args|参数|引数|매개변수|Argumentos
        |Par[áâ]metros|Paramètres|Argumente|Eingabe|Argomenti|Parametri|Параметры|Аргументы|入力|输入|入参|Entrada
        |Entrée|Ввод)["'`*]*\s*[:：=]
    | (?:(?:commentary|analysis|final)\s+)?(?:json|JSON|constrain|code|commentary)(?=\s*[{{<])
    | [^\x00-\x7f]{{1,40}}(?=json\s*\{{)
    | ```\w{{0,10}}\s
    )*+""",
    re.VERBOSE,
).match
_GLUE_LIMIT = 300
_input_begins = re.compile(rf"<{SIGIL}({_CONTAINERS})\s*[|｜]{{0,2}}>\s*\Z").search
_mark_between = re.compile(r"<[|｜]|\[[A-Z]").search
_closing = re.compile(r"\s*</").match
_code_ends = re.compile(r"\s*</code>").match
_pair_starts = re.compile(rf"[\"'`*]*({_KEY})[\"'`*]*[ \t]*[=:]").match


def begins(text: str, position: int, tool: Tool, *, in_tag: bool) -> bool:
    """Whether the arguments of the tool may begin after its name; a look at a few characters decides."""
    if text.startswith("(", position) or (in_tag and _tag_ends(text, position) is not None):
        return True
    at = _skip_glue(text, position)
    if text[at : at + 1] in ("{", "<") or text.find("<code>", position, at) >= 0:
        return True
    if any(found(text, at) for found in (_key_ends, _cut_item)) or _token_pair(text, position) is not None:
        return True
    if _input_begins(text[position:at]) is not None:
        return True
    pair = _pair_starts(text, at)
    if pair is not None and find_declared(pair[1], tool) is not None:
        return True
    return in_tag or (not required_of(tool) and at > position)


def has_token(text: str, position: int) -> bool:
    """Whether a token of a format is between a name and its arguments. Only the token before the name is missing."""
    mark = _mark_between(text, position, position + _GLUE_LIMIT) if text[position : position + 1] != "(" else None
    return mark is not None and mark.start() < _skip_glue(text, position)


def read_after(
    text: str, position: int, tool: Tool, closers: Closers, *, in_tag: bool, tag: str = ""
) -> Arguments | None:
    """Read the arguments after a name. `in_tag`: the name is inside a tag; `tag` is the word of that tag."""
    if text.startswith(("(", " ("), position):
        read = _read_python(text, text.index("(", position) + 1, tool)
        if read is not None:
            return read
    given: JsonObject = {}
    repairs: list[str] = []
    if in_tag:
        attributes = read_attributes(text, position, tool)
        if attributes is None:
            return _read_body(text, position, tool, closers, "") or _read_braces(text, position, tool)
        given, position, repairs, closed = attributes
        if closed:
            return Arguments(given, position, "attributes", repairs)
    read = _read_body(text, position, tool, closers, tag) if not (given and _closes(text, position)) else None
    if read is None and in_tag and not given:
        read = _read_headless(text, position, tool, closers)
    if read is None and given and tag:
        read = _read_missing(text, position, tool, closers, tag, given)
    if read is None:
        return Arguments(given, position, "attributes", repairs) if given and in_tag else None
    read.values = given | read.values
    read.repairs = [*repairs, *read.repairs]
    return read


def _closes(text: str, position: int) -> bool:
    return _closing(text, position) is not None


def _skip_glue(text: str, position: int) -> int:
    found = _glue(text, position, position + _GLUE_LIMIT)
    return position if found is None else found.end()


def _read_body(text: str, position: int, tool: Tool, closers: Closers, tag: str) -> Arguments | None:
    if _token_pair(text, position) is not None:
        return _read_token_pairs(text, position, tool)
    at = _skip_glue(text, position)
    if text.find("<code>", position, at) >= 0:
        return _read_code(text, at, tool, closers)
    character = text[at : at + 1]
    if character == "{":
        return _read_json(text, at, tool)
    if character == "<" or _half_keyed(text, at) is not None or _cut_item(text, at) is not None:
        read = read_elements(text, at, tool, closers)
        if read is not None:
            return read
    elif character == "(":
        return _read_python(text, at + 1, tool)
    pairs = read_pairs(text, at, tool)
    if pairs is not None:
        return pairs
    inside = _input_begins(text[position:at])
    if inside is not None:
        return _read_text(text, at, tool, closers, inside[1])
    if tag:
        return _read_text(text, position, tool, closers, tag)
    return None if required_of(tool) else Arguments({}, position, "none")


def _read_code(text: str, position: int, tool: Tool, closers: Closers) -> Arguments | None:
    """Read NAME<code>...</code>: the arguments, the call in Python, or the only required string."""
    if text.startswith(tool.name, position) and text.startswith("(", position + len(tool.name)):
        position += len(tool.name)
    read = _read_body(text, position, tool, closers, "")
    if read is None or read.notation == "none":
        return _read_text(text, position, tool, closers, "code")
    ended = _code_ends(text, read.end)
    read.end = read.end if ended is None else ended.end()
    return read


# --------------------------------------------------------------------------------------------------------------------
# JSON and Python.


_ENDS = ('"', "}", "]", "'")
_UNSURE = frozenset(("closed_string", "surrounding_text", "escaped_quotes"))
"""Repairs that, in a text without its last brackets, may hide that a value or a key was cut off."""


def read_closed(text: str, position: int) -> tuple[Any, int, list[str]] | None:
    """Read a value; if only its closing brackets are missing at the end of the text, supply them."""
    try:
        return read_value(text, position)
    except Unreadable:
        rest = text[position:].rstrip()
    if not rest.endswith(_ENDS):
        return None
    mended = repair(rest)
    if mended.error is not None or not _UNSURE.isdisjoint(mended.rules):
        return None
    return mended.value, position + len(rest), [*mended.rules, "closed_wrapper"]


def _read_json(text: str, position: int, tool: Tool) -> Arguments | None:
    read = read_closed(text, position)
    if read is None:
        return _read_enclosed(text, position + 1, tool, "}")
    if not isinstance(read[0], dict):
        return None
    value, end, repairs = read
    declared = properties_of(tool)
    if len(value) == 1 and not declared.keys() & value.keys():
        ((key, inner),) = value.items()
        if key in ARGUMENT_KEYS and isinstance(inner, dict):
            value = inner
    return Arguments(value, end, "json", list(repairs))


def _read_python(text: str, position: int, tool: Tool) -> Arguments | None:
    repairs: list[str] = []
    try:
        read = read_python(text, position, tool)
    except Unreadable:
        rest = text[position:].rstrip()
        if not rest.endswith(_ENDS):
            return _read_enclosed(text, position, tool, ")")
        try:
            read = read_python(rest + ")", 0, tool)
        except Unreadable:
            return None
        if read is not None:
            read.end, repairs = position + len(rest), ["closed_wrapper"]
    if read is None or "expression_as_text" in read.repairs:
        return _read_enclosed(text, position, tool, ")")
    return Arguments(read.arguments, read.end, "python", [*read.repairs, *repairs])


def _read_braces(text: str, position: int, tool: Tool) -> Arguments | None:
    """Read NAME{key:value,key:value} inside a tag, with values without quotes."""
    if not text.startswith("{", position):
        return None
    read = read_pairs(text, _blank_run(text, position + 1), tool)
    end = _blank_run(text, read.end) if read is not None else 0
    if read is None or not text.startswith("}", end):
        return None
    return Arguments(read.values, end + 1, "json", [*read.repairs, "unquoted_value"])


def _read_enclosed(text: str, position: int, tool: Tool, closer: str) -> Arguments | None:
    """Read (key=value, value) or {key: value, value}: a value without quotes that contains a comma.

    Nothing that is a variable or an expression in a program contains a comma that no bracket encloses.
    """
    read = read_pairs(text, _blank_run(text, position), tool)
    if read is None:
        return None
    texts = [value for value in read.values.values() if isinstance(value, str) and "," in value]
    pieces = [part.strip() for value in texts for part in value.split(",")]
    if not pieces or any(find_declared(part, tool) or part in TYPE_NAMES for part in pieces):
        return None  # the names of parameters and types belong to a signature
    end = _blank_run(text, read.end)
    if not text.startswith(closer, end):
        return None
    return Arguments(read.values, end + 1, "python", [*read.repairs, "unquoted_value"])


# --------------------------------------------------------------------------------------------------------------------
# Attributes: key="value" inside the tag of the name.

_attribute = re.compile(rf"""[\s,]*({_KEY})\s*=\s*(?:"([^"<>]*)"|'([^'<>]*)'|([^\s"'<>/]+))""").match
_long_attribute = re.compile(rf"""[\s,]*({_KEY})\s*=\s*(["'])""").match
_tag_ends = re.compile(r"""["'\s|｜]*(/?)\s*[|｜]{0,2}>""").match
_IGNORED = frozenset(("id", "type", "call_id", "string", "index", "name", "format"))


def read_attributes(text: str, position: int, tool: Tool) -> tuple[JsonObject, int, list[str], bool] | None:
    """Read the rest of a tag: the arguments, its end, the repairs, and whether it is self-closing."""
    values: JsonObject = {}
    repairs: list[str] = []
    if text[position : position + 1] in ('"', "'"):
        position += 1
    for _ in range(MOST_PAIRS):
        ends = _tag_ends(text, position)
        if ends is not None:
            return values, ends.end(), repairs, bool(ends[1])
        found = _attribute(text, position)
        if found is not None:
            key, raw, position = found[1], next(group for group in found.groups()[1:] if group is not None), found.end()
        else:
            long = _long_attribute(text, position)
            if long is None:
                return None
            end = _attribute_end(text, long.end(), long[2])
            if end < 0:
                return None
            key, raw, position = long[1], text[long.end() : end], end + 1
        name = find_declared(key, tool)
        if name is not None:
            values[name] = read_typed(decode_entities(raw), tool, name)
        elif key in ARGUMENT_KEYS and raw.lstrip().startswith("{"):
            inner = _read_json(decode_entities(raw), decode_entities(raw).index("{"), tool)
            if inner is None:
                return None
            values |= inner.values
        elif key in _IGNORED:
            repairs.append("dropped_attribute")
        else:
            return None
    return None


def _attribute_end(text: str, start: int, quote: str) -> int:
    """Return the quote that closes a value with angle brackets in it: the first one that a tag end or a key follows."""
    for found in re.compile(re.escape(quote) + rf"(?=\s*/?\s*>|\s+{_KEY}\s*=)").finditer(text, start, start + 100_000):
        return found.start()
    return -1


# --------------------------------------------------------------------------------------------------------------------
# Elements: <key>value</key>, <parameter name="key">value</parameter>, or a key and a value in two elements.

_item = re.compile(
    rf"""<\s?{SIGIL}({_KEY})
        (?: \s*[=:]\s*["']?({_KEY})["']? )?
        (?: \s+(?!(?:name|key|param|parameter)\s*=)[\w\-]+\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'|[^\s<>"']+) )*
        (?: \s+(?:name|key|param|parameter)\s*=\s*["']?({_KEY})["']? )?
        (?: \s+[\w\-]+\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'|[^\s<>"']+) )*
        \s*[|｜]{{0,2}}>""",
    re.VERBOSE,
).match
_container = re.compile(
    rf"[\s,]*(?:</?{SIGIL}(?i:{_CONTAINERS})\s*[|｜]{{0,2}}>|</?{SIGIL}(?:parameter|param|arg)s?\s*>(?=\s*<))"
).match
_is_parameter = re.compile(r"(?:parameter|param|argument|arg)\Z").match
_attribute_values = re.compile(rf"""=\s*["']?({_KEY})""").findall
_outer_tag = re.compile(rf"<({_KEY})>\s*(?=<[^/!])").match
_outer_end = re.compile(rf"[\s,]*</({_KEY})\s*>").match
_MOST_OUTER = 3
_PREFIX = r"(?:[a-z]\w{0,19}[_:|])?"
"""The prefix with which some families begin the words of all their tags: <longcat_arg_key>."""
_keyed_value = re.compile(
    rf"""<({_PREFIX}(?:arg_key|key|name|param_name|parameter_name|arg_name|k))>\s*({_KEY})\s*(?:</\1>)?\s*
        (?:<type>[^<>]{{0,40}}</type>\s*)?
        <({_PREFIX}(?:arg_value|value|param_value|parameter_value|val|v))>""",
    re.VERBOSE,
).match
_half_keyed = re.compile(rf"(?:<[\w:|]{{1,40}}>\s*)?()({_KEY})\s*</{_PREFIX}arg_key>\s*<({_PREFIX}arg_value)>").match
"""Matches a key whose opening tag is missing, or is another tag."""
_key_ends = re.compile(rf"(?:<[\w:|]{{1,40}}>\s*)?{_KEY}\s*</{_PREFIX}arg_key>").match
_cut_item = re.compile(rf"(parameter|param|argument)\s+name\s*=\s*[\"']({_KEY})[\"']\s*>").match
"""Matches the tag of an argument without its first bracket."""
_any_tag = re.compile(rf"</?{SIGIL}[^\W\d][\w.\-]*[^<>]*>").search
_blanks = re.compile(r"[\s,]*").match
_own_lines = re.compile(r"\A[ \t]*\r?\n|\r?\n[ \t]*\Z").sub


class Closers:
    """Finds closing tags. A tag that is missing from one place on is missing from all later ones."""

    __slots__ = ("_missing",)
    _MOST = 64

    def __init__(self) -> None:
        self._missing: set[str] = set()

    def find(self, text: str, word: str, start: int, *, is_cut: bool = False) -> re.Match[str] | None:
        """Return the next closing tag. `is_cut`: its first bracket is missing, as that of the opening tag."""
        key = word + ">" if is_cut else word
        if key in self._missing or len(self._missing) >= self._MOST:
            return None
        found = (_cut_closer if is_cut else _closer)(word).search(text, start)
        if found is None:
            self._missing.add(key)
        return found


@lru_cache(256)
def _closer(word: str) -> re.Pattern[str]:
    return re.compile(rf"<\s?/\s?{SIGIL}{re.escape(word)}\s*[|｜]{{0,2}}>")


@lru_cache(16)
def _cut_closer(word: str) -> re.Pattern[str]:
    return re.compile(rf"(?:</?|/)?{word}>")


def read_elements(text: str, position: int, tool: Tool, closers: Closers) -> Arguments | None:
    """Read one element for each argument; stop at the first tag that is not one."""
    values: JsonObject = {}
    repairs: list[str] = []
    end = position
    outer: list[str] = []
    for _ in range(MOST_PAIRS):
        end = _skip_containers(text, end, outer)
        at = _blanks(text, end).end()  # type: ignore[union-attr]
        opened = _open_item(text, at, tool, repairs)
        if opened is None:
            around = _outer_tag(text, at) if not values and len(outer) < _MOST_OUTER else None
            if around is None or around[1].lower() in PROSE_TAGS:
                break
            outer.append(around[1])
            end = around.end()
            continue
        key, word, start = opened
        closed = closers.find(text, word, start, is_cut=text[at] != "<" and _cut_item(text, at) is not None)
        if closed is None:
            stop = _any_tag(text, start)
            if stop is None:
                return None
            repairs.append("closed_wrapper")
            raw = text[start : stop.start()]
            # The opener instead of the closer: <key>value<key>
            is_end = stop[0].startswith("</") or stop[0] == text[at:start].strip()
            end = stop.end() if is_end else stop.start()
        else:
            raw, end = text[start : closed.start()], closed.end()
        if key in values:
            repairs.append("repeated_argument")
        values[key] = _element_value(raw, tool, key, repairs)
    if not values:
        return _elements_in_json(text, end, tool)
    if outer and not _closes(text, end):
        return None  # more follows in an element that no tool has, as in a document
    return Arguments(values, end, "elements", repairs)


def _skip_containers(text: str, position: int, outer: list[str]) -> int:
    """Move over the tags of containers, also of those that models invent, as <file> in <args><file><path>."""
    while True:
        skipped = _container(text, position)
        if skipped is None and outer:
            ended = _outer_end(text, position)
            skipped = ended if ended is not None and ended[1] in outer else None
        if skipped is None:
            return position
        position = skipped.end()


def _elements_in_json(text: str, position: int, tool: Tool) -> Arguments | None:
    at = _blanks(text, position).end()  # type: ignore[union-attr]
    return _read_json(text, at, tool) if text.startswith("{", at) and at > position else None


def _open_item(text: str, position: int, tool: Tool, repairs: list[str]) -> tuple[str, str, int] | None:
    """Return the argument that an element holds, the word of the tag that ends it, and the start of its value."""
    keyed = _keyed_value(text, position)
    half = _half_keyed(text, position) if keyed is None else None
    cut = _cut_item(text, position) if keyed is None and half is None else None
    if half is not None or cut is not None:
        repairs.append("missing_marker")
    if cut is not None:
        key = find_declared(cut[2], tool)
        return None if key is None else (key, cut[1], cut.end())
    keyed = keyed or half
    if keyed is not None:
        key = find_declared(keyed[2], tool)
        return None if key is None else (key, keyed[3], keyed.end())
    found = _item(text, position)
    if found is None:
        return None
    key = find_declared(found[2] or found[3] or found[1], tool)
    if key is None and _is_parameter(found[1]) is not None:
        # The word of the attribute is misspelt: <parameter rname="key">.
        keys = {find_declared(written, tool) for written in _attribute_values(found[0])} - {None}
        key = keys.pop() if len(keys) == 1 else None
    return None if key is None else (key, found[1], found.end())


def _element_value(raw: str, tool: Tool, key: str, repairs: list[str]) -> Any:
    raw = _own_lines("", raw)
    if "\n" not in raw:
        raw = raw.strip()
    if raw.lstrip().startswith("<![CDATA[") and raw.rstrip().endswith("]]>"):
        return read_typed(raw.strip()[9:-3], tool, key)
    nested = read_nested(raw, schema_of(tool, key), tool.parameters)
    if nested is not None:
        return nested
    if "&" in raw and (plain := decode_entities(raw)) != raw:
        repairs.append("decoded_entities")
        raw = plain
    return read_typed(raw, tool, key)


def _read_text(text: str, position: int, tool: Tool, closers: Closers, tag: str) -> Arguments | None:
    """Read <NAME>text</NAME>: the value of the only required parameter, if that is a string."""
    key = single_parameter(tool)
    closed = closers.find(text, tag, position)
    if closed is None:
        return None
    raw = text[position : closed.start()]
    if not raw.strip():
        return None if required_of(tool) else Arguments({}, closed.end(), "none")
    if key is None or not is_plain_text(schema_of(tool, key)) or _any_tag(raw.lstrip()[:100]) is not None:
        return None
    return Arguments({key: raw.strip()}, closed.end(), "text", ["text_as_argument"])


def _read_headless(text: str, position: int, tool: Tool, closers: Closers) -> Arguments | None:
    """Read <function=NAME>text</parameter>: a value without the tag before it, of the only required parameter."""
    key = single_parameter(tool)
    closed = closers.find(text, "parameter", position)
    if closed is None or key is None or not is_plain_text(schema_of(tool, key)):
        return None
    raw = text[position : closed.start()]
    if not raw.strip() or "</" in raw or "<parameter" in raw or raw.lstrip().startswith("{"):
        return None
    raw = _own_lines("", raw)
    return Arguments({key: raw.strip() if "\n" not in raw else raw}, closed.end(), "elements", ["missing_marker"])


def _read_missing(
    text: str, position: int, tool: Tool, closers: Closers, tag: str, given: JsonObject
) -> Arguments | None:
    """Read <NAME key="value">text</NAME>: the text is the only required string that the attributes do not give."""
    missing = [key for key in required_of(tool) if key not in given]
    closed = closers.find(text, tag, position)
    if closed is None or len(missing) != 1 or not is_plain_text(schema_of(tool, missing[0])):
        return None
    raw = text[position : closed.start()]
    if not raw.strip() or f"<{tag}" in raw:
        return None
    raw = _own_lines("", raw)
    value = raw.strip() if "\n" not in raw else raw
    return Arguments({missing[0]: value}, closed.start(), "elements", ["text_as_argument"])


def holds_text(text: str, position: int, name: str, tool: Tool) -> bool:
    """Whether a fence with the name of a tool may hold the text of its only required parameter.

    A plain word may be the name of a language, so such a fence holds a program.
    """
    key = single_parameter(tool)
    if key is None or name.isalpha() or not is_plain_text(schema_of(tool, key)):
        return False
    return text[position : position + _GLUE_LIMIT].lstrip()[:1] not in ("", "{", "[", "<", "`", "~")


def read_fenced(text: str, position: int, tool: Tool, fence: str) -> Arguments | None:
    """Read the text of a fence with the name of a tool, up to the end of the fence."""
    key = single_parameter(tool)
    end = text.find("\n" + fence, position)
    raw = text[position:end].strip() if end >= 0 else ""
    if key is None or not raw or not is_plain_text(schema_of(tool, key)):
        return None
    return Arguments({key: raw}, end, "text", ["text_as_argument"])


# --------------------------------------------------------------------------------------------------------------------
# Pairs with a token before each: <|sep|>key, and the value on the next lines.

_token_pair = re.compile(rf"\s*(<[|｜][^|｜<>\n]{{1,40}}[|｜]>)({_KEY})[ \t]*(?:\r?\n|:)").match
_next_token = re.compile(r"<[|｜][^|｜<>\n]{1,40}[|｜]>").search


def _read_token_pairs(text: str, position: int, tool: Tool) -> Arguments | None:
    values: JsonObject = {}
    end = position
    separator = ""
    while (pair := _token_pair(text, end)) is not None and len(values) < MOST_PAIRS:
        key = find_declared(pair[2], tool)
        stop = _next_token(text, pair.end())
        if key is None or key in values or stop is None or (separator and pair[1] != separator):
            return None
        raw = text[pair.end() : stop.start()]
        values[key] = read_typed(_own_lines("", raw).strip(" ") if "\n" in raw else raw.strip(), tool, key)
        separator, end = pair[1], stop.start()
    return Arguments(values, end, "pairs", ["key_value_pairs"])


# --------------------------------------------------------------------------------------------------------------------
# Pairs: key=value, key: value; on one line, or on a line each.

_between = re.compile(r"[ \t]*[,;&|]?[ \t]*(?:\r?\n[ \t]*(?:[-*][ \t]+)?)?").match
_scalar = re.compile(r"(?:-?\d[\d.eE+\-]*|true|false|null|None|True|False)(?=[\s,;&\]\)}<|]|\Z)").match
_BARE_END = re.compile(r"[\n<]")
_line_mark = re.compile(r"[ \t]*([|｜]|([@!$%:#~*=|｜])\2+)").match
"""Matches the sigil at the beginning of a line that may be repeated at its end."""


def read_pairs(text: str, position: int, tool: Tool) -> Arguments | None:
    """Read key=value or key: value as long as the keys are parameters of the tool."""
    values: JsonObject = {}
    repairs: list[str] = []
    end, is_open = position, False
    at = position
    while len(values) < MOST_PAIRS:
        pair = _pair_starts(text, at)
        key = None if pair is None else find_declared(pair[1], tool)
        if pair is None or key is None or key in values:
            break
        start = _blank_run(text, pair.end())
        value = _read_pair_value(text, start, tool, key)
        if value is None:
            return None
        values[key], end, is_open = value
        at = _between(text, end).end()  # type: ignore[union-attr]
    if not values:
        return None
    return Arguments(values, end, "pairs", ["key_value_pairs", *repairs], (), is_open)


def _blank_run(text: str, position: int) -> int:
    while text[position : position + 1] in (" ", "\t"):
        position += 1
    return position


def _read_pair_value(text: str, start: int, tool: Tool, key: str) -> tuple[Any, int, bool] | None:
    """Return the value, its end, and whether only the end of the line or of the wrapper ends it."""
    character = text[start : start + 1]
    if character in ('"', "'", "{", "["):
        try:
            value, end = TolerantReader(text, python=character == "'").value(start)
        except Unreadable:
            return None
        return value, end, False
    scalar = _scalar(text, start)
    if scalar is not None:
        return read_typed(scalar[0], tool, key), scalar.end(), False
    end = _bare_end(text, start, tool, key)
    raw = text[start:end].rstrip().rstrip(",;")
    if not raw or (raw[-1] in "\"'" and raw.count(raw[-1]) % 2):
        return None  # the quote belongs to something around the pair
    return read_typed(raw, tool, key), start + len(raw), True


def _bare_end(text: str, start: int, tool: Tool, key: str) -> int:
    """Return the end of a value without quotes: the next key of the tool, a closing bracket, or the end of the line."""
    stop = _BARE_END.search(text, start, start + 20_000)
    end = stop.start() if stop is not None else min(len(text), start + 20_000)
    following = _next_key(tool).search(text, start, end)
    if following is not None:
        return following.start()
    line = text[start:end].rstrip()
    mark = _line_mark(text, text.rfind("\n", 0, start) + 1)
    if mark is not None and line.endswith(mark[1]):
        # @@NAME key=value@@: what is before the name is after the value, too.
        return start + len(line.removesuffix(mark[1]).rstrip())
    closed = line.rstrip("])}|;, ")
    return start + (len(closed) if _is_unbalanced(line) else len(line))


def _is_unbalanced(line: str) -> bool:
    """Whether the line closes a bracket that it did not open, as the end of a label does."""
    return any(line.count(closing) > line.count(opening) for opening, closing in ("[]", "()", "{}"))


def _next_key(tool: Tool) -> re.Pattern[str]:
    return _key_pattern(tuple(properties_of(tool)))


@lru_cache(256)
def _key_pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    listed = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or r"(?!)"
    return re.compile(rf"[\s,;&|]+[\"'`]?(?:{listed})[\"'`]?\s*[=:]")


# --------------------------------------------------------------------------------------------------------------------
# Keys and values according to the schema.


def find_declared(key: str, tool: Tool) -> str | None:
    """Return the parameter that a key names."""
    properties = properties_of(tool)
    if key in properties:
        return key
    folded = fold(key)
    same = [name for name in properties if fold(name) == folded]
    return same[0] if len(same) == 1 else None


def read_typed(raw: str, tool: Tool, key: str) -> Any:
    """Return the value that a text without quotes is, according to the schema of its parameter."""
    schema = schema_of(tool, key)
    text = raw if is_plain_text(schema) else raw.strip()
    return read_text(text, schema, root=tool.parameters).value
