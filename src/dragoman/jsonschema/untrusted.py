"""Checks of schemas from untrusted sources, and cleanup of their texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.jsonschema.effort import Effort
from dragoman.jsonschema.keywords import CHILDREN, CONSTRAINTS, LISTS, MAPS
from dragoman.jsonschema.references import refuse_to_fetch
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# A schema that is malformed, too large, refers to other documents or contains invisible characters is not repaired. It
# is refused, with the reason, and the caller leaves the tool out. The same applies to control tokens of models in names
# and values: a model has to repeat them, so they cannot be broken up. Where they have no effect, they are left out.

_WORDS = frozenset({"description", "title"})
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
# Keywords whose values are data, not schemas.
_DATA = frozenset({"const", "default", "enum", "examples", "example", "required"})
# Keywords whose members have names that the author chose.
_MAPS = MAPS | {"dependentRequired"}
# Keywords with an effect. The others only say something to the reader, and a schema means the same without them.
_EFFECTIVE = (
    MAPS
    | CHILDREN
    | LISTS
    | CONSTRAINTS
    | _REFERENCES
    | {"$id", "$schema", "$anchor", "$dynamicAnchor", "dependencies"}
)
_WORD_LIMIT = 1000
_OPEN = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "$ref", "$dynamicRef", "allOf", "anyOf"}
    | {"oneOf", "if", "not", "dependentSchemas"}
)

Place = Literal["schema", "map", "data"]


class BadSchema(ValueError):
    """Why a schema is not accepted."""


class TextRules(Struct, frozen=True):
    """How untrusted texts are checked and cleaned; the caller provides the rules."""

    has_hidden: Callable[[str], bool]
    """Whether a text contains invisible characters."""
    has_token: Callable[[str], bool]
    """Whether a text contains a control token of a model."""
    clean_text: Callable[[str, int], str]
    """Returns a text for a model, with at most so many characters."""
    clean_line: Callable[[str, int], str]
    """Returns a text for one line of a message, with at most so many characters."""


def accept_schema(schema: Any, rules: TextRules, *, most_bytes: int, most_levels: int) -> JsonObject:
    """Return a copy of the schema that can be offered to a model. Raises BadSchema."""
    if not isinstance(schema, dict):
        raise BadSchema("its schema is not an object")
    if schema.get("type", "object") != "object":
        raise BadSchema("its schema does not describe an object")
    if _depth_of(schema, most_levels) > most_levels:
        raise BadSchema(f"its schema is nested deeper than {most_levels} levels")
    size = len(msgspec.json.encode(schema))
    if size > most_bytes:
        raise BadSchema(f"its schema has {size} bytes; the limit is {most_bytes}")
    accepted: JsonObject = {**_accept(schema, "schema", rules), "type": "object"}
    refusal = Effort(accepted).refusal
    if refusal:
        raise BadSchema(refusal)
    _compile(accepted, rules)
    if "properties" in accepted and not _OPEN.intersection(accepted):
        # The server must not receive anything that its schema, and the person who approves the call, does not know.
        accepted["additionalProperties"] = False
    return accepted


def words_in(schema: Any) -> list[str]:
    """Return every text in a schema: a model reads all of them."""
    found: list[str] = []
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            found.append(node)
        elif isinstance(node, dict):
            waiting += [*node.values(), *node]
        elif isinstance(node, list):
            waiting += node
    return found


def _depth_of(schema: Any, most: int) -> int:
    """Return the depth of a value, counted up to `most` + 1."""
    level, depth = [schema], 0
    while level and depth <= most:
        level = [
            inner
            for node in level
            for inner in (node.values() if isinstance(node, dict) else node)
            if isinstance(inner, dict | list)
        ]
        depth += 1
    return depth


def _accept(node: Any, place: Place, rules: TextRules) -> Any:
    """Return a copy with clean texts. The depth was checked before."""
    if isinstance(node, str):
        _check(node, "", rules)
        return node
    if isinstance(node, list):
        return [_accept(each, "data" if place == "data" else "schema", rules) for each in node]
    if not isinstance(node, dict):
        return node
    accepted = {}
    for key, value in node.items():
        if place == "schema":
            if key in _WORDS and isinstance(value, str):
                accepted[key] = rules.clean_text(value, _WORD_LIMIT)
                continue
            if key == "$comment" or (key not in _EFFECTIVE and any(map(rules.has_token, (key, *words_in(value))))):
                continue
            if key in _REFERENCES and not (isinstance(value, str) and value.startswith("#")):
                raise BadSchema(f"its schema refers to another document: {rules.clean_line(str(value), 100)!r}")
        _check(key, "the name ", rules)
        accepted[key] = _accept(value, _place_of(key, place), rules)
    return accepted


def _check(text: str, what: str, rules: TextRules) -> None:
    if rules.has_hidden(text):
        raise BadSchema(f"its schema hides characters in {what}{rules.clean_line(text, 60)!r}")
    if rules.has_token(text):
        raise BadSchema(f"its schema contains a control token of models in {what}{rules.clean_line(text, 60)!r}")


def _place_of(key: str, place: Place) -> Place:
    if place == "data" or (place == "schema" and key in _DATA):
        return "data"
    return "map" if place == "schema" and key in _MAPS else "schema"


def _compile(schema: JsonObject, rules: TextRules) -> None:
    """Compile the schema with the engine, which checks types, patterns and references."""
    from jsonschema_rs import ReferencingError, ValidationError, validator_for

    try:
        validator_for(schema, retriever=refuse_to_fetch, validate_formats=False)
    except (ValidationError, ReferencingError) as problem:
        why = getattr(problem, "message", "") or str(problem)
        raise BadSchema(f"its schema is not a valid JSON Schema: {rules.clean_line(why, 160)}") from None
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as problem:
        raise BadSchema(f"its schema cannot be read: {rules.clean_line(str(problem), 160)}") from None
