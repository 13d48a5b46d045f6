"""Arguments of calls: decode, repair, coerce and validate.

`load` executes all four steps for one call; the other names are the single steps. The schema engine is imported only
when something is validated.
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
