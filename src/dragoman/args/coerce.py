"""The two doors to coercion: `coerce` for values that have types already, `read_text` for plain text."""

from __future__ import annotations

from typing import Any

from dragoman.args.casting import Caster, Coerced
from dragoman.args.fitting import fits
from dragoman.args.plainness import fits_plainly
from dragoman.args.reading import read_text
from dragoman.args.schemas import shape_of
from dragoman.types import JsonObject

__all__ = ["Coerced", "coerce", "read_text"]


def coerce(
    value: Any, schema: JsonObject, *, path: str = "$", root: JsonObject | None = None, drop_extra: bool = False
) -> Coerced:
    """The value, changed only where the schema refuses it and nothing is lost, with every change reported.

    A value that fits comes back as the same object. What cannot be mended stays as it is, for `validate` to fault.
    `root` is the schema that references point into, by default the schema itself. `drop_extra` leaves out arguments
    that the schema does not name, unless it says that further ones are welcome.
    """
    if not drop_extra and isinstance(value, dict) and fits_plainly(value, schema):
        return Coerced(value)
    try:
        shape = shape_of(schema, root)
        if not drop_extra and fits(shape, value):
            return Coerced(value)
        caster = Caster(drop_extra=drop_extra)
        changed = caster.cast(shape, value, path)
    except RecursionError:  # Depth is bounded here; only a caller near the end of its own stack gets this far.
        return Coerced(value)
    return Coerced(changed, tuple(caster.changes))
