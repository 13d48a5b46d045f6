"""The schema targets: one row per target with the keywords that it accepts and its size limits."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.jsonschema.keywords import json_text
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# The targets: one row of data per target, for one compiler.


class Limits(Struct, frozen=True):
    """The size limits of a target for one schema."""

    properties: int
    levels: int
    choices: int
    letters: int
    """Characters of property names, definition names and enum values together."""


class Target(Struct, frozen=True):
    """One dialect of JSON Schema. The defaults describe a target that accepts every valid schema."""

    name: str
    kept: frozenset[str] | None = None
    """The keywords that stay; None means all of them."""
    root_kept: frozenset[str] | None = None
    """The keywords that stay at the root; None means the same as elsewhere."""
    references: Literal["keep", "bare", "inline"] = "keep"
    """References stay with their siblings, stay alone (siblings beside `anyOf: [{$ref}]`), or are written out."""
    recursion: Literal["keep", "cut"] = "keep"
    """A schema that refers to itself stays, or is written out down to a depth."""
    describes: bool = False
    """Constraints that cannot stay are written into the description, where the model still sees them."""
    formats: frozenset[str] | None = None
    """The values of `format` that stay; None means all of them."""
    number_formats: frozenset[str] = frozenset()
    """Those that stay beside a type that is a number."""
    most_min_items: int | None = None
    """The largest `minItems` that stays."""
    type_lists: bool = True
    """`type` may be a list."""
    nullable: bool = False
    """"Or null" is said by `nullable: true` instead of a type."""
    text_enums: Literal["", "compound", "all"] = ""
    """Enums become lists of strings: never, when a value is an object or a list, or when one is no string."""
    typed: bool = False
    """Every schema has to name its type."""
    lone_unions: bool = False
    """Nothing may stand beside `anyOf`."""
    split_unions: bool = False
    """Constraints beside `anyOf` are not understood: they move into its branches."""
    closed: bool = False
    """Every object says `additionalProperties: false`."""
    all_required: bool = False
    """Every property is required; one that was optional may be null."""
    known_required: bool = False
    """`required` may name only properties that are defined."""
    pairs: bool = False
    """An object with free keys is written as a list of keys and values."""
    items_needed: bool = False
    """An array has to say what its items are."""
    names: str = ""
    """A regular expression for the names of properties; others are renamed."""
    upper: bool = False
    """Types are written in upper case."""
    omits_empty: bool = False
    """A tool without parameters has no schema at all, which is given as `{}`."""
    limits: Limits | None = None

    def keeps(self, keyword: str) -> bool:
        return self.kept is None or keyword in self.kept


_CLAUDE_NAMES = r"[a-zA-Z0-9_.-]{1,64}"
_GEMINI_NAMES = r"[a-zA-Z_][a-zA-Z0-9_]{0,63}"

_CORE = frozenset({"type", "description", "enum", "items", "properties", "required", "anyOf"})
_RANGES = frozenset({"minimum", "maximum"})
_COUNTS = frozenset({"minItems", "maxItems", "minProperties", "maxProperties", "minLength", "maxLength"})
_STRICT_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_SUBSET_FORMATS = frozenset({"enum", "date-time"})
_SUBSET_NUMBERS = frozenset({"float", "double", "int32", "int64"})

_ROWS = (
    Target("openai", items_needed=True),
    Target(
        "openai_strict",
        kept=_CORE
        | _RANGES
        | {"title", "additionalProperties", "$ref", "$defs", "format", "pattern"}
        # String lengths are refused; the limits of numbers and arrays are taken by newer models.
        | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"},
        references="bare",
        describes=True,
        formats=_STRICT_FORMATS,
        text_enums="compound",
        typed=True,
        split_unions=True,
        closed=True,
        all_required=True,
        known_required=True,
        pairs=True,
        items_needed=True,
        limits=Limits(properties=5_000, levels=10, choices=1_000, letters=120_000),
    ),
    Target("anthropic", names=_CLAUDE_NAMES),
    Target(
        "anthropic_strict",
        kept=_CORE | {"title", "additionalProperties", "$ref", "$defs", "const", "format", "minItems"},
        references="bare",
        recursion="cut",
        describes=True,
        formats=_STRICT_FORMATS | {"uri"},
        most_min_items=1,
        type_lists=False,
        text_enums="compound",
        typed=True,
        split_unions=True,
        closed=True,
        known_required=True,
        pairs=True,
        items_needed=True,
        names=_CLAUDE_NAMES,
    ),
    Target(
        "gemini",
        # `default` and `additionalProperties` are known only to newer endpoints; older ones refuse the whole request.
        kept=_CORE | _RANGES | _COUNTS | {"title", "format", "nullable", "pattern", "example", "propertyOrdering"},
        references="inline",
        recursion="cut",
        describes=True,
        formats=_SUBSET_FORMATS,
        number_formats=_SUBSET_NUMBERS,
        type_lists=False,
        nullable=True,
        text_enums="all",
        typed=True,
        lone_unions=True,
        split_unions=True,
        known_required=True,
        pairs=True,
        items_needed=True,
        names=_GEMINI_NAMES,
        upper=True,
        omits_empty=True,
    ),
    Target(
        "gemini_json",
        kept=_CORE
        | _RANGES
        | _COUNTS
        | {"title", "format", "pattern", "default", "oneOf", "const", "uniqueItems"}
        | {"additionalProperties", "prefixItems", "$ref", "$defs"},
        describes=True,
        known_required=True,
        names=_GEMINI_NAMES,
        omits_empty=True,
    ),
    Target(
        "ollama",
        kept=_CORE,
        root_kept=frozenset({"type", "items", "required", "properties"}),
        references="inline",
        recursion="cut",
        describes=True,
        split_unions=True,
    ),
    Target("bedrock", recursion="cut", names=_CLAUDE_NAMES),
    Target("mistral"),
    Target("cohere"),
)

ROWS: dict[str, Target] = {row.name: row for row in _ROWS}
TARGETS: tuple[str, ...] = tuple(ROWS)
"""The names of the targets that a schema can be compiled for."""

ROOT_ONLY_OBJECT = frozenset({"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "not"})
"""Keywords that no target accepts at the root, which must be a plain object."""


# --------------------------------------------------------------------------------------------------------------------
# The size of a compiled schema, compared with the limits of its target.


def exceeded(schema: JsonObject, limits: Limits) -> str:
    """Return a description of the limit that a schema exceeds; "" if it exceeds none."""
    properties = levels = choices = letters = 0
    waiting: list[tuple[Any, int]] = [(schema, 1)]
    while waiting:
        node, level = waiting.pop()
        if not isinstance(node, dict):
            continue
        levels = max(levels, level)
        members = node.get("properties", {})
        properties += len(members)
        letters += sum(map(len, members)) + sum(map(len, node.get("$defs", {})))
        values = node.get("enum", [])
        choices += len(values)
        letters += sum(len(value) if isinstance(value, str) else len(json_text(value)) for value in values)
        below = [*members.values(), node.get("items")]
        waiting.extend((each, level + 1) for each in below)
        # Branches and definitions are no level of their own.
        waiting.extend((each, level) for each in node.get("anyOf", []))
        waiting.extend((each, 1) for each in node.get("$defs", {}).values())
    found = (
        ("properties", properties, limits.properties),
        ("levels of nesting", levels - 1, limits.levels),
        ("enum values", choices, limits.choices),
        ("characters of names and enum values", letters, limits.letters),
    )
    return next((f"{count} {what}, at most {most}" for what, count, most in found if count > most), "")
