"""What a call's arguments were meant to be: decoded, repaired, typed by the schema, and checked.

`load` does all of it for one call; the other names are its steps, for those who need one alone. The schema engine is
loaded only when something is validated.
"""

from __future__ import annotations

from dragoman.args.coercion import Coerced, coerce, read_text
from dragoman.args.decoder import Undecodable, decode
from dragoman.args.loader import Loaded, load, validate
from dragoman.args.partial import PartialObject, PartialUpdate
from dragoman.args.rules import COERCIONS, REPAIRS
from dragoman.args.tolerant import Repaired, TolerantReader, repair
from dragoman.args.tolerant_scalars import Unreadable

__all__ = [
    "COERCIONS",
    "REPAIRS",
    "Coerced",
    "Loaded",
    "PartialObject",
    "PartialUpdate",
    "Repaired",
    "TolerantReader",
    "Undecodable",
    "Unreadable",
    "coerce",
    "decode",
    "load",
    "read_text",
    "repair",
    "validate",
]
