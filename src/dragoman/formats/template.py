"""A format row, its template parsed into nodes, and the entry points it compiles to."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal as OneOf

from msgspec import Struct

from dragoman.formats.cursor import Cursor, Reader

# --------------------------------------------------------------------------------------------------------------------
# A format is written the way the model writes it, with holes; here that text becomes nodes.
#
#     <tool_call>\n{call}\n</tool_call>
#     <function={name}>\n{*<parameter={key}>\n{value}\n</parameter>\n*}</function>
#
# Holes: `{name}` `{id}` `{type}` short slots · `{args}` one JSON object · `{call}` one JSON envelope · `{calls}` a JSON
# list of envelopes · `{* ... *}` zero or more times, with `{key}` and `{value}` inside · `{? ... ?}` optional.
# White space in a template is written as it stands and read as any white space, also none; only next to `{value}` it
# is exact, because there a blank may be the user's data.

SLOTS = ("name", "id", "key", "type")
_JSON_HOLES = {"args": ("{",), "call": ("{", "["), "calls": ("[", "{")}
_TOKEN = re.compile(r"(\{\*|\*\}|\{\?|\?\}|\{(?:name|id|type|args|call|calls|key|value)\}|\s+)")
# Closers are read one tag at a time, so that a model may leave one of them out.
_BETWEEN_TAGS = re.compile(r"(?<=>)(?=<)|(?<=\])(?=\[)")


class Literal(Struct, frozen=True):
    text: str
    spellings: tuple[str, ...]
    """Everything that is read as this literal, its own text first."""


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
    """A template that cannot be read; the message says which part."""


def compile_template(source: str, spellings: Mapping[str, tuple[str, ...]] | None = None) -> tuple[Node, ...]:
    """The nodes of a template. `spellings` gives other ways in which models write its literals."""
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
    """Literals, holes and white space. A blank inside a literal, as in `<invoke name="`, is part of it."""
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
    """The literals that can come first: what a slot before them runs up to."""
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
    """Which characters can come first, white space aside: each of `{[<(` for itself, `n` for everything else."""
    kinds = ""
    for node in nodes:
        if isinstance(node, Literal):
            return kinds + "".join(text[0] if text[0] in "{[<(" else "n" for text in node.spellings)
        if isinstance(node, Many | Maybe):
            kinds += first_kinds(node.body)
        elif isinstance(node, Hole) and node.kind in ("id", "type"):
            break  # these may be anything, also empty
        elif isinstance(node, Hole):
            return kinds + {"call": "{[", "calls": "[", "args": "{n<["}.get(node.kind, "n")
    return kinds + "{[<(n"


def has_hole(nodes: tuple[Node, ...], *kinds: str) -> bool:
    """Whether one of these holes stands anywhere in the nodes."""
    return any(
        node.kind in kinds
        if isinstance(node, Hole)
        else has_hole(node.body, *kinds)
        if isinstance(node, Many | Maybe)
        else False
        for node in nodes
    )


def literals_after(nodes: tuple[Node, ...]) -> tuple[tuple[Literal, bool], ...]:
    """The closers, when given what follows the payload: every literal in order, and whether it may be absent."""
    found: list[tuple[Literal, bool]] = []
    for node in nodes:
        if isinstance(node, Literal):
            found.append((node, False))
        elif isinstance(node, Maybe):
            found.extend((literal, True) for literal, _ in literals_after(node.body))
    return tuple(found)


# --------------------------------------------------------------------------------------------------------------------
# A way into a call: the openers that announce it, and the reader that follows.
#
# A template compiles to one Entry; an odd format brings its own. The engine only knows entries.

Place = OneOf["anywhere", "line", "message"]
"""Where an opener counts: anywhere, at the start of a line, or only as the start of the whole message."""


class Entry(ABC):
    """The engine's side of a format."""

    format: str
    """The name of the format that it belongs to."""
    openers: tuple[str, ...]
    """The literals that it begins with. Empty for entries without a marker, which are tried at their place."""
    place: Place = "anywhere"
    source = ""
    """The template that it was compiled from, if it was."""
    follows = "{[<(n"
    """Which characters can stand behind the opener and white space; of `{[<(` each for itself, and `n` for everything
    else, as a name begins with. This and the next three save attempts that must fail."""
    line_gate = ""
    """How a line must begin for an entry without openers."""
    line_characters = ""
    line_is_named = False
    keeps_envelope = False
    """Loose reading would lose something of it: ids, or text beside the calls."""

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        """For entries without openers: whether a call may begin here; None if more text is needed to tell."""
        return True

    @abstractmethod
    def read(self, cursor: Cursor) -> Reader:
        """Read from the opener on. Report calls through the cursor, or raise NotACall or BrokenCall."""
        ...


class UnmarkedEntry(Entry):
    """What entries without a marker have in common: patterns for the beginning of a message, or of a line."""

    openers: tuple[str, ...] = ()
    place: Place = "message"
    start: re.Pattern[str]
    growing_start: re.Pattern[str]
    """What may still become a start; it ends in `\\Z`."""

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        if self.start.match(text, at):
            return True
        return None if not final and self.growing_start.match(text, at) else False


# --------------------------------------------------------------------------------------------------------------------
# A Format is a row: how a model family writes its calls, as data.

THINK = (("<think>", "</think>"),)
_NONE: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_NO_WORDS: Mapping[str, str] = MappingProxyType({})


class Format(Struct, frozen=True):
    """One row of the catalogue. `template` is what is written; `also` are other spellings that are read."""

    name: str
    template: str = ""
    template_is_read: bool = True
    """Whether the template is also read; False where `entries` read what it writes, because no template can."""
    notation: OneOf["json", "quoted", "elements", "python", "gemma"] = "json"
    """How the arguments are written. In Python, `{args}` is `key="value"` and `{calls}` is `[name(key="value")]`.

    `{value}` is a text as it stands or JSON; `quoted`: always JSON; `elements`: lists and objects of texts are nested.
    """
    quote: str = ""
    """The token on both sides of a text in Gemma's notation, and before each tag of nested elements."""
    entities: bool = False
    """Holes between quotes are attributes of XML, and written with entities."""
    also: tuple[str, ...] = ()
    section: tuple[str, str] | None = None
    """Tags around all the calls of one reply."""
    thinking: tuple[tuple[str, str], ...] = THINK
    drop: tuple[str, ...] = ()
    """Markers that carry no meaning: response wrappers, end-of-turn tokens."""
    keys: tuple[str, str] = ("name", "arguments")
    """How the JSON envelope names its two members when it is written; all known names are read."""
    strict_envelope: bool = False
    """Its models always write one object with a name and arguments; a list, or a name alone, is something else."""
    id_key: str | None = None
    numbered: bool = False
    """`{id}` is the number of the call, from 1 on."""
    name_is_key: bool = False
    single_is_bare: bool = False
    """A single call in `{calls}` is written without the brackets of the list."""
    type_words: Mapping[str, str] = _NO_WORDS
    """What `{type}` says of a JSON type; under "" of all that are not named. Elsewhere it is the type's own name."""
    separator: str = "\n"
    spellings: Mapping[str, tuple[str, ...]] = _NONE
    """Other ways in which models write a literal of the template or of the section."""
    place: Place = "anywhere"
    own_lines: bool = False
    """Opener and closer count only alone on their lines."""
    opens_line: bool = False
    """The opener must end its line."""
    cdata: bool = False
    """Values may stand in <![CDATA[ ... ]]>."""
    untyped_is_text: bool = False
    """Values that no schema describes stay text; elsewhere JSON is read as JSON."""
    unique_keys: bool = False
    """An argument given twice spoils the call; elsewhere the last one counts, and that is reported."""
    bare: bool = False
    """The JSON stands without a marker of its own: only offered names make a call."""
    entries: tuple[Entry, ...] = ()
    """Readers beyond the templates, for what no template can say."""
    named_entries: tuple[Entry, ...] = ()
    """Readers that are too eager for `auto`: used only when the format is named."""
    aliases: tuple[str, ...] = ()
    family: str = ""
    models: str = ""
    note: str = ""
    in_auto: bool = True
    """Whether `format="auto"` looks for it."""

    def wrap_text(self, text: str) -> str:
        """A text in CDATA, where it needs that and can stand in it."""
        needs = ("<" in text or text != text.strip()) and "]]>" not in text
        return f"<![CDATA[{text}]]>" if needs else text

    @property
    def section_ends(self) -> tuple[str, ...]:
        """The tag behind all calls, in every spelling."""
        end = self.section[1].strip() if self.section else ""
        return (end, *self.spellings.get(end, ())) if end else ()
