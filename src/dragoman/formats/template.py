"""`Format` (a row of the catalogue), the nodes of a parsed template, and `Entry`, the interface to the engine."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Literal as OneOf

from msgspec import Struct

from dragoman.formats.cursor import Cursor, Match, Reader
from dragoman.toolset import has_namespace

# --------------------------------------------------------------------------------------------------------------------
# A template is a call as the model writes it, with holes. This section parses a template into nodes.
#
#     <tool_call>\n{call}\n</tool_call>
#     <function={name}>\n{*<parameter={key}>\n{value}\n</parameter>\n*}</function>
#
# Holes: `{name}` `{id}` `{type}` short slots · `{args}` one JSON object · `{call}` one JSON envelope · `{calls}` a JSON
# list of envelopes · `{* ... *}` zero or more times, with `{key}` and `{value}` inside · `{? ... ?}` optional.
# White space in a template is rendered exactly and matches any white space, also none. Next to `{value}` it must match
# exactly, because a blank there may be the user's data.

SLOTS = ("name", "id", "key", "type")
_JSON_HOLES = {"args": ("{",), "call": ("{", "["), "calls": ("[", "{")}
_TOKEN = re.compile(r"(\{\*|\*\}|\{\?|\?\}|\{(?:name|id|type|args|call|calls|key|value)\}|\s+)")
# Closers are read one tag at a time, so that the reader accepts calls in which one of them is missing.
_BETWEEN_TAGS = re.compile(r"(?<=>)(?=<)|(?<=\])(?=\[)")


class Literal(Struct, frozen=True):
    text: str
    spellings: tuple[str, ...]
    """All texts that are read as this literal, its own text first."""


class Space(Struct, frozen=True):
    text: str


class Hole(Struct, frozen=True):
    kind: str


class Many(Struct, frozen=True):
    body: tuple[Node, ...]


class Maybe(Struct, frozen=True):
    body: tuple[Node, ...]


Node = Literal | Space | Hole | Many | Maybe


class TemplateError(ValueError):
    """A malformed template; the message names the part."""


def compile_template(source: str, spellings: Mapping[str, tuple[str, ...]] | None = None) -> tuple[Node, ...]:
    """Parse a template into nodes. `spellings` lists other texts that models write for its literals."""
    variants = spellings or {}
    stack: list[list[Node]] = [[]]
    openers: list[str] = []
    for part in _split(source):
        if part in ("{*", "{?"):
            openers.append(part)
            stack.append([])
        elif part in ("*}", "?}"):
            if not openers or openers.pop()[1] != part[0]:
                raise TemplateError(f"{part!r} closes nothing in {source!r}")
            body = tuple(stack.pop())
            stack[-1].append(Many(body) if part == "*}" else Maybe(body))
        elif part.isspace():
            stack[-1].append(Space(part))
        elif part[0] == "{" and part[-1] == "}" and part[1:-1].isalpha():
            stack[-1].append(Hole(part[1:-1]))
        else:
            for text in _BETWEEN_TAGS.split(part):
                stack[-1].append(Literal(text, (text, *variants.get(text, ()))))
    if openers:
        raise TemplateError(f"{openers[-1]!r} is not closed in {source!r}")
    return tuple(stack[0])


def _split(source: str) -> list[str]:
    """Split a source into literals, holes and white space. A blank in a literal (`<invoke name="`) is part of it."""
    parts = [part for part in _TOKEN.split(source) if part]
    joined: list[str] = []
    for index, part in enumerate(parts):
        follows_literal = bool(joined) and _is_literal(joined[-1])
        if (_is_literal(part) and follows_literal) or (
            part.isspace()
            and "\n" not in part
            and follows_literal
            and _is_literal("".join(parts[index + 1 : index + 2]))
        ):
            joined[-1] += part
        else:
            joined.append(part)
    return joined


def _is_literal(part: str) -> bool:
    return bool(part) and not part.isspace() and _TOKEN.fullmatch(part) is None


def first_literals(nodes: tuple[Node, ...]) -> tuple[str, ...]:
    """Return the literals that can come first, which end a slot before them."""
    found: list[str] = []
    for node in nodes:
        if isinstance(node, Literal):
            return (*found, *node.spellings)
        if isinstance(node, Many | Maybe):
            found.extend(first_literals(node.body))
        elif isinstance(node, Hole):
            return (*found, *_JSON_HOLES.get(node.kind, ()))
    return tuple(found)


def first_kinds(nodes: tuple[Node, ...]) -> str:
    """Return the characters that can come first after white space: each of `{[<(`, and `n` for any other character."""
    kinds = ""
    for node in nodes:
        if isinstance(node, Literal):
            return kinds + "".join(text[0] if text[0] in "{[<(" else "n" for text in node.spellings)
        if isinstance(node, Many | Maybe):
            kinds += first_kinds(node.body)
        elif isinstance(node, Hole) and node.kind in ("id", "type"):
            break  # their text may be anything, also empty
        elif isinstance(node, Hole):
            return kinds + {"call": "{[", "calls": "[", "args": "{n<["}.get(node.kind, "n")
    return kinds + "{[<(n"


def has_hole(nodes: tuple[Node, ...], *kinds: str) -> bool:
    """Whether the nodes contain one of these holes."""
    return any(
        node.kind in kinds
        if isinstance(node, Hole)
        else has_hole(node.body, *kinds)
        if isinstance(node, Many | Maybe)
        else False
        for node in nodes
    )


def literals_after(nodes: tuple[Node, ...]) -> tuple[tuple[Literal, bool], ...]:
    """Return the closers among the nodes after the payload: every literal in order, and whether it is optional."""
    found: list[tuple[Literal, bool]] = []
    for node in nodes:
        if isinstance(node, Literal):
            found.append((node, False))
        elif isinstance(node, Maybe):
            found.extend((literal, True) for literal, _ in literals_after(node.body))
    return tuple(found)


# --------------------------------------------------------------------------------------------------------------------
# An entry: the openers of a call, and the reader that starts at them.
#
# A template compiles to one Entry; an unusual format defines its own. The engine uses nothing but entries.

Place = OneOf["anywhere", "line", "message"]
"""Where an opener counts: anywhere, at the start of a line, or only as the start of the whole message."""


class Entry(ABC):
    """One way to write a call, as the engine sees it."""

    format: str
    """The name of its format."""
    openers: tuple[str, ...]
    """The literals that begin it. Empty for entries without a marker, which the engine tries at their `place`."""
    place: Place = "anywhere"
    source = ""
    """The template that it was compiled from, if any."""
    follows = "{[<(n"
    """The characters that can follow the opener and white space: each of `{[<(`, and `n` for any other character, such
    as the first one of a name. This and the next four attributes save attempts that must fail."""
    line_gate = ""
    """A pattern for the beginning of a line, for an entry without openers."""
    marked_gate = ""
    """The same for a text that `needs_marks`."""
    line_characters = ""
    doubled_characters = ""
    """Characters that begin its line if there are two of them."""
    line_is_named = False
    line_labels: Collection[str] = ()
    """Words other than names that may begin its line."""
    is_read_loosely = False
    """Loose mode uses this entry of `auto`: its scanner cannot read the notation, or would lose ids or text."""

    def may_occur(self, cursor: Cursor) -> bool:
        """For entries without openers: whether a complete text may contain such a call. False saves all attempts."""
        return True

    def needs_marks(self, text: str) -> bool:
        """For entries with a `marked_gate`: whether a complete text shows that no line but those begins a call."""
        return False

    def begins(self, cursor: Cursor, at: int) -> bool | None:
        """For entries without openers: whether a call may begin at an index; None if more text is needed."""
        return True

    @abstractmethod
    def read(self, cursor: Cursor) -> Reader:
        """Read from the opener. Report calls through the cursor, or raise NotACall or BrokenCall."""
        ...


START_LIMIT = 600
"""Characters that a call without a marker may begin with; most of them can only be white space."""
_START_AHEAD = 8


class UnmarkedEntry(Entry):
    """The base of entries without a marker: patterns for the beginning of a message or of a line."""

    openers: tuple[str, ...] = ()
    place: Place = "message"
    start: re.Pattern[str]
    growing_start: re.Pattern[str]
    """Matches text that may still become a start; it ends in `\\Z`."""
    may_echo = True
    """Directly behind a call of another format, without a blank, it is a call as well. False: it is an echo."""

    def begins(self, cursor: Cursor, at: int) -> bool | None:
        text = cursor.text
        if not self.may_echo and cursor.follows_call and at == cursor.position and cursor.format != self.format:
            return False
        found = self.start.match(text, at)
        if found is not None:
            return found.end() - at <= START_LIMIT
        # The patterns look ahead by a few characters.
        may_grow = not cursor.final and len(text) - at <= START_LIMIT + _START_AHEAD
        return None if may_grow and self.growing_start.match(text, at) else False


_first_word = re.compile(r"[^\W\d][\w.\-]*").match
match_name = re.compile(r"[^\W\d](?:[\w\-]|[.:/](?=[^\W\d])|\\_)*").match
_LONGEST_NAME = 300


class NamedLine(Entry):
    """The base of entries whose lines begin with markup, with one of the `line_labels`, or with an offered name."""

    openers: tuple[str, ...] = ()
    place: Place = "line"
    line_is_named = True
    match_label: Match
    """Matches a label with what follows it, in a text that is complete."""
    is_mark: Match
    """Matches a word that is a mark of its own."""

    def begins(self, cursor: Cursor, at: int) -> bool | None:
        is_named = self._is_named(cursor, at)
        return self.begins_call(cursor, at) if is_named else is_named

    def begins_call(self, cursor: Cursor, at: int) -> bool | None:
        """Decide about a line that begins with markup, a label or a name."""
        return True

    def _is_named(self, cursor: Cursor, at: int) -> bool | None:
        """Reject a line that begins with another word. Most lines of prose end here. None: more text is needed.

        Except for the first line, the parser judges the beginning of a line by the same word, before the rest of the
        line has arrived. So a name with an unknown namespace counts only at the start of the message.
        """
        tools = cursor.tools
        if tools is None:
            return False
        text = cursor.text
        word = _first_word(text, at)
        if word is None or word.end() >= len(text):
            return True
        if word[0].lower() in self.line_labels and not (cursor.final and self.match_label(text, at) is None):
            return True
        if not tools.may_begin(word[0]):
            if self.is_mark(word[0]) is not None:
                return True
            name = match_name(text, at, at + _LONGEST_NAME) if cursor.begins_message else None
            if name is not None and not cursor.final and name.end() > len(text) - 2 and len(text) - at < _LONGEST_NAME:
                return None  # the character after the name may separate a namespace
            if name is None or not has_namespace(name[0]):
                return False
            return ":" in name[0] or tools.find(name[0].removesuffix(".call")) is not None
        if not cursor.final:
            return True
        name = match_name(text, at)
        return name is None or has_namespace(name[0]) is not None or tools.may_be(name[0])


# --------------------------------------------------------------------------------------------------------------------
# A Format is a row: data that describes how a model family writes its calls.

THINK = (("<think>", "</think>"),)
_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_NO_WORDS: Mapping[str, str] = MappingProxyType({})


class Format(Struct, frozen=True):
    """One row of the catalogue. `render` writes the `template`; the parser also reads the templates in `also`."""

    name: str
    template: str = ""
    template_is_read: bool = True
    """Whether the parser reads the template. False: the `entries` read what the template writes."""
    notation: OneOf["json", "quoted", "elements", "python", "gemma"] = "json"
    """How the arguments are written. In Python, `{args}` is `key="value"` and `{calls}` is `[name(key="value")]`.

    `{value}` is a string without quotes, or JSON. `quoted`: always JSON. `elements`: lists and objects of strings are
    nested elements.
    """
    quote: str = ""
    """The token on both sides of a string in Gemma's notation, and before each tag of nested elements."""
    entities: bool = False
    """Holes between quotes are XML attributes; the renderer writes entities in them."""
    also: tuple[str, ...] = ()
    section: tuple[str, str] | None = None
    """The tags around all calls of a reply."""
    thinking: tuple[tuple[str, str], ...] = THINK
    drop: tuple[str, ...] = ()
    """Markers that carry no meaning: response wrappers, end-of-turn tokens."""
    keys: tuple[str, str] = ("name", "arguments")
    """The two keys of the JSON envelope that the renderer writes; the parser reads all known keys."""
    strict_envelope: bool = False
    """Only one object with a name and arguments is a call; a list, or a name alone, is not."""
    id_key: str | None = None
    numbered: bool = False
    """`{id}` is the number of the call, from 1 on."""
    name_is_key: bool = False
    single_is_bare: bool = False
    """A single call in `{calls}` is written without the brackets of the list."""
    type_words: Mapping[str, str] = _NO_WORDS
    """The word that `{type}` writes for a JSON type; the key "" is the default. Without it, the name of the type."""
    separator: str = "\n"
    spellings: Mapping[str, tuple[str, ...]] = _NONE
    """Other texts that models write for a literal of the template or of the section."""
    place: Place = "anywhere"
    own_lines: bool = False
    """The opener and the closer count only if they are alone on their lines."""
    opens_line: bool = False
    """The opener must end its line."""
    cdata: bool = False
    """Values may be inside <![CDATA[ ... ]]>."""
    untyped_is_text: bool = False
    """Values that no schema describes stay text. False: they are read as JSON if they are JSON."""
    unique_keys: bool = False
    """A call with a repeated argument is broken. False: the last value counts, and a repair is reported."""
    bare: bool = False
    """The JSON has no marker of its own, so only offered names make a call."""
    entries: tuple[Entry, ...] = ()
    """Additional readers, for texts that no template can describe."""
    named_entries: tuple[Entry, ...] = ()
    """Readers with too many false positives for `auto`; they run only if the format is named."""
    aliases: tuple[str, ...] = ()
    family: str = ""
    models: str = ""
    note: str = ""
    in_auto: bool = True
    """Whether `format="auto"` includes the row."""

    def wrap_text(self, text: str) -> str:
        """Put a string into CDATA if it needs that and CDATA can hold it."""
        needs = ("<" in text or text != text.strip()) and "]]>" not in text
        return f"<![CDATA[{text}]]>" if needs else text

    @property
    def section_ends(self) -> tuple[str, ...]:
        """The tag after all calls, in every spelling."""
        end = self.section[1].strip() if self.section else ""
        return (end, *self.spellings.get(end, ())) if end else ()
