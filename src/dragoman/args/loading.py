"""Arguments as a model wrote them, made into arguments that a tool can take: decode, repair, coerce, validate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dragoman.args.coerce import coerce
from dragoman.args.decode import Undecodable, decode
from dragoman.args.repair import repair
from dragoman.args.soundness import find_unsound
from dragoman.args.validate import find_faults
from dragoman.args.wording import show
from dragoman.toolset import as_tool
from dragoman.types import Change, Fault, JsonObject, Tool

MOST_MEMBERS = 200_000
"""More than any model writes in one reply; whoever sends more wants to keep us busy."""


class Loaded(Struct, frozen=True):
    """The arguments, and everything that was done to understand them.

    `value` is None when they could not be understood at all; where it is there with `errors`, it breaks the schema.
    """

    value: JsonObject | None
    repairs: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    errors: tuple[Fault, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether a tool may be run with these arguments."""
        return self.value is not None and not self.errors


def load(raw: str | Mapping[str, Any] | None, tool: object = None, *, drop_extra: bool = False) -> Loaded:
    """Read the arguments of a call by the tool that it names; no `raw` makes this raise.

    `raw` is a mapping, or JSON text; no text at all means no arguments. `tool` is whatever describes a tool, or a bare
    JSON schema. `drop_extra` leaves out arguments that the tool does not name.
    """
    schema = _schema_of(tool)
    value, repairs, fault = _understand(raw)
    if fault is None and (repairs or not isinstance(raw, str)):
        # Text that needed no repair came through our own decoder, which lets nothing unsound through.
        fault = find_unsound(value)
    if fault is not None:
        return Loaded(None, repairs, (), (fault,))
    if not schema:
        # Nothing to fit them to: every object of arguments will do.
        return Loaded(value, repairs)
    coerced = coerce(value, schema, drop_extra=drop_extra)
    return Loaded(coerced.value, repairs, coerced.changes, tuple(find_faults(coerced.value, schema)))


def _schema_of(tool: object) -> JsonObject:
    if tool is None:
        return {}
    if isinstance(tool, Tool):
        return tool.parameters
    if (
        isinstance(tool, dict)
        and not isinstance(tool.get("name"), str)
        and not isinstance(tool.get("function"), Mapping)
    ):
        return tool
    return as_tool(tool).parameters


def _understand(raw: object) -> tuple[Any, tuple[str, ...], Fault | None]:
    """The object of arguments, the repairs it took, and a fault when there is none."""
    value: Any = {} if raw is None else raw
    repairs: tuple[str, ...] = ()
    if isinstance(value, str):
        value, repairs, fault = _read(value)
        if fault is None and isinstance(value, str):
            value, inner, fault = _read(value)
            repairs = (*repairs, "double_encoded", *inner)
        if fault is not None:
            return None, repairs, fault
    if value is None:
        return {}, (*repairs, "null_arguments"), None
    if type(value) is dict:
        return value, repairs, None
    if isinstance(value, Mapping):
        return dict(value), repairs, None
    return None, repairs, Fault("$", f"arguments must be an object, got {show(value)}")


def _read(text: str) -> tuple[Any, tuple[str, ...], Fault | None]:
    if not text or text.isspace():
        return {}, (), None
    if len(text) > MOST_MEMBERS and (members := text.count('":')) > MOST_MEMBERS:
        return None, (), Fault("$", f"about {members} members, and {MOST_MEMBERS} are read at most")
    try:
        return decode(text), (), None
    except Undecodable:
        repaired = repair(text)
    if repaired.error is not None:
        return None, (), Fault("$", repaired.error)
    return repaired.value, repaired.rules, None
