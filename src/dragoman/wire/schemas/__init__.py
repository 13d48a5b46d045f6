"""The schema compiler: converts the schema of a tool to the dialect of each API.

`compile_schema` returns the schema, the changes (`losses`), and an `Undo`. `restore` applies it to the arguments of a
call, so that the tool gets arguments that fit its own schema.
"""

from __future__ import annotations

from dragoman.wire.schemas.compiler import Compiled, compile_schema
from dragoman.wire.schemas.targets import TARGETS
from dragoman.wire.schemas.undo import Undo, restore

__all__ = ["TARGETS", "Compiled", "Undo", "compile_schema", "restore"]
