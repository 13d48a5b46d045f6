"""What a call's arguments were meant to be: decoded, repaired, typed by the schema, and checked.

`load` does all of it for one call; the other names are its steps, for those who need one alone. The schema engine is
loaded only when something is validated.
"""

from __future__ import annotations

from dragoman.args.casting import Coerced
from dragoman.args.coerce import coerce
from dragoman.args.decode import Undecodable, decode
from dragoman.args.loading import Loaded, load
from dragoman.args.partial import Grown, PartialObject
from dragoman.args.reading import read_text
from dragoman.args.repair import Repaired, repair
from dragoman.args.tolerant import Tolerant
from dragoman.args.tolerant_strings import Unreadable
from dragoman.args.validate import validate

__all__ = [
    "Coerced",
    "Grown",
    "Loaded",
    "PartialObject",
    "Repaired",
    "Tolerant",
    "Undecodable",
    "Unreadable",
    "coerce",
    "decode",
    "load",
    "read_text",
    "repair",
    "validate",
]
