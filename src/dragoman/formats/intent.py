"""Which calls without a marker are meant: the name and the arguments alone do not make a call.

`auto` and the loose scanner share these rules, so loose mode reads the lists of calls in Python that `auto` reads.
It remains to distinguish a call, its repetition, a signature, a program that uses the name, and an invented
continuation of the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import Any

from dragoman.formats.envelope import properties_of, required_of
from dragoman.types import JsonObject, Tool

TYPE_NAMES = frozenset(
    ("str", "string", "int", "integer", "float", "number", "bool", "boolean", "list", "array", "dict", "object", "any")
)
"""Names of types: a value that is one belongs to a signature or a definition."""

# After an answer: the model writes as the user, or starts to write a program.
ANOTHER_MATTER = re.compile(
    r"^[ \t]*(?:"
    r"#{1,6}[ \t]*(?:Instruction|User|Human)\b"
    r"|(?:User|Human|USER|HUMAN)[ \t]*:"
    r"|(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(|class[ \t]+\w+[ \t]*[:(]"
    r"|\#[ \t]*[\w/\-]+\.(?:py|js|ts|md|txt)\b"
    r")"
    r"|<\|(?:im_start|start_header_id)\|>[ \t]*user|<\|user\|>|\[INST\]|<start_of_turn>[ \t]*user",
    re.MULTILINE,
)
_INNER_CALL = re.compile(r"([^\W\d][\w.\\]*)\(")
_KIND_NAMES = {"string": frozenset(("string", "str", "text", "any")), "null": frozenset(("null", "none", "any"))}


def is_meant(
    tool: Tool,
    arguments: JsonObject,
    repairs: Container[str],
    find: Callable[[str], Tool | None],
    *,
    is_plain: bool,
) -> bool:
    """Whether all required arguments are there, with values; `is_plain`: the call is not in a program or a sentence."""
    properties = properties_of(tool)
    for name in required_of(tool):
        if name not in arguments or (arguments[name] is None and not _accepts(properties.get(name), "null")):
            return False
    return "expression_as_text" not in repairs or (is_plain and _is_literal(arguments, properties, find))


def _is_literal(arguments: JsonObject, properties: dict[str, Any], find: Callable[[str], Tool | None]) -> bool:
    """Whether the values that are not literals can be read as strings: words and formulas, but no variables.

    In a program or a sentence, a bare word is a variable or a parameter. In a call on its own, it may be a string
    without quotes, unless it is the name of its own parameter, a type, or the result of another call.
    """
    for name, value in arguments.items():
        if not isinstance(value, str):
            continue
        if not _accepts(properties.get(name), "string") or value == name or value in TYPE_NAMES:
            return False
        inner = _INNER_CALL.search(value)
        # A word such as YOUR_QUERY is read, so that the model can be told; extraction does not let it count.
        if _is_placeholder(value, words=False) or (inner is not None and find(inner[1]) is not None):
            return False
    return True


PROSE_TAGS = frozenset(
    re.findall(
        r"\w+",
        "a abbr article aside b blockquote body br button center cite code dd del details div dl dt em example "
        "examples figure font footer form h1 h2 h3 h4 h5 h6 head header hr html i img ins kbd label li link main "
        "mark meta nav ol p pre q quote s samp script section small span strike strong style sub summary sup svg "
        "table tbody td th thead title tr tt u ul var video ",
    )
)
"""Tags of HTML and of prose. They are not the markup of a call, and a value that is one is not a placeholder."""
_placeholder = re.compile(
    r"<{1,3}([A-Za-z][\w \-./]{0,60})>{1,3}|\.{3}|…|\[[A-Za-z]+(?:[ _][A-Za-z]+)*\]|\{\{?\s*[A-Za-z_][\w .]{0,60}\}?\}"
    r"|\?+|_+|(?P<word>\$[A-Z][A-Z_]+|(?i:your)[_\-]\w+|MY_[A-Z_]+|YOUR(?: [A-Z]+)+|[A-Z][A-Z_]+_HERE"
    r"|(?i:(?:your |the )?(?:\w+ ){0,3}(?:argument|code|command|contents?|id|input|message|name|parameter|path|pattern"
    r"|prompt|query|question|text|title|url|value) here))"
)
_DEEPEST = 4


def _is_placeholder(text: str, *, words: bool) -> bool:
    found = _placeholder.fullmatch(text.strip()) if len(text) < 200 else None
    return found is not None and (words or not found["word"]) and (found[1] or "").lower() not in PROSE_TAGS


def has_placeholder(value: Any, depth: int = 0) -> bool:
    """Whether a value, or a part of it, stands for another one: <path>, ..., YOUR_QUERY, $CITY, [city], {id}, ?."""
    if isinstance(value, str):
        return _is_placeholder(value, words=True)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth < _DEEPEST and any(has_placeholder(each, depth + 1) for each in inner)


def _accepts(schema: Any, kind: str) -> bool:
    """Whether the `type` of a property accepts a value of that kind."""
    if not isinstance(schema, dict):
        return True
    declared = schema.get("type")
    if declared is None or (kind == "null" and schema.get("nullable")):
        return True
    names = declared if isinstance(declared, list) else [declared]
    return any(str(name).lower() in _KIND_NAMES[kind] for name in names)


def spell(name: str, arguments: JsonObject) -> str:
    """Return a text that is equal for equal calls."""
    return name + repr(sorted(arguments.items()))


class Said:
    """The calls without a marker that a reply contains so far, and the text after them.

    Calls in a row form a group. A group may contain a call twice, but a call of an earlier group is a repetition.
    """

    __slots__ = ("_earlier", "_group", "_text", "_unspelled")

    def __init__(self) -> None:
        self._earlier: set[str] = set()
        self._group: set[str] = set()
        self._unspelled: list[tuple[str, JsonObject]] = []  # of the group; in most replies, no other group follows
        self._text: list[str] = []

    def hear(self, text: str) -> None:
        self._text.append(text)

    def begin_group(self) -> bool:
        """Begin a group; return False if the text before it turned to another matter, so that the answer was over."""
        self.spell_all()
        self._earlier |= self._group
        self._group = set()
        if not self._text:
            return True
        text = "".join(self._text)
        is_over = ANOTHER_MATTER.search(text) is not None
        self._text = [text if is_over else text[text.rfind("\n") + 1 :]]
        return not is_over

    def spell_all(self) -> None:
        """Spell the calls that were added, because their arguments may change from now on."""
        self._group.update([spell(name, arguments) for name, arguments in self._unspelled])
        self._unspelled.clear()

    def repeats(self, name: str, arguments: JsonObject) -> bool:
        return bool(self._earlier) and spell(name, arguments) in self._earlier

    def add(self, name: str, arguments: JsonObject) -> None:
        self._unspelled.append((name, arguments))
