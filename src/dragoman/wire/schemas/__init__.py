"""JSON Schemas for every target: one tool, compiled to what each API takes, with a report and a way back.

`compile_schema` makes the schema, says what was changed (`losses`), and gives an `Undo`. `restore` uses it on the
arguments of a call, so that a tool sees what its own schema promises.
"""

from __future__ import annotations

from dragoman.wire.schemas.compiler import Compiled, compile_schema
from dragoman.wire.schemas.targets import TARGETS
from dragoman.wire.schemas.undo import Undo, restore

__all__ = ["TARGETS", "Compiled", "Undo", "compile_schema", "restore"]
