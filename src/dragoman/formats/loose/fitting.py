"""Arguments against their schema: most fit plainly, and only the others are worth preparing the schema for."""

from __future__ import annotations

from dragoman.args.coercion import coerce
from dragoman.types import Change, JsonObject


def fit(arguments: JsonObject, schema: JsonObject) -> tuple[JsonObject, tuple[Change, ...]]:
    """The arguments as the schema wants them, and what was changed for that."""
    if not schema:
        return arguments, ()
    coerced = coerce(arguments, schema)
    return (coerced.value, coerced.changes) if isinstance(coerced.value, dict) else (arguments, ())
