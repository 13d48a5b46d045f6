"""Arguments held to the schema of their tool, and calls that cannot be run turned into honest reports."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.args.decoder import Undecodable, raw_decode
from dragoman.args.loader import load
from dragoman.errors import nearest
from dragoman.events import CallBroken
from dragoman.extraction.naming import NameBook
from dragoman.types import Change, Fault, InvalidCall, InvalidKind, Provenance, ToolCall

_ARGUMENTS = frozenset({"arguments", "parameters", "args", "input", "params", "argument", "parameter", "kwargs"})
_NO_ARGUMENTS = "null_arguments"


def fit_call(call: ToolCall, book: NameBook, *, bare: bool, is_cut: bool) -> ToolCall | InvalidCall | None:
    """The call with arguments that fit; an InvalidCall that says every fault; None for bare JSON without arguments."""
    if is_cut and "closed_wrapper" in call.repairs:
        return _invalid(call, "truncated", (Fault("$", "the reply ended inside of the call"),))
    if lacks_arguments(call):
        if bare:
            return None
        call = _with_change(call, Change("$", _NO_ARGUMENTS, None, {}))
    if book.offered is None:
        return call
    tool = book.find(call.name)
    if tool is None:
        return _invalid(call, "unknown_tool", (_name_fault(call.name, book),))
    loaded = load(call.arguments, tool)
    if loaded.errors or loaded.value is None:
        return _invalid(call, "bad_arguments", loaded.errors)
    if not loaded.changes and loaded.value == call.arguments:
        return call
    return replace(call, arguments=loaded.value, changes=(*call.changes, *loaded.changes))


def lacks_arguments(call: ToolCall) -> bool:
    """Whether a call in JSON names no arguments at all, or null: an empty object is something else."""
    if call.arguments:
        return False
    start = call.raw.find("{")
    if start < 0:
        return not call.raw and "null_arguments" in call.repairs
    try:
        value, _ = raw_decode(call.raw, start)
    except Undecodable:
        return False
    inner = value.get("function") if isinstance(value, dict) else None
    body = inner if isinstance(inner, dict) else value
    if not isinstance(body, dict) or not isinstance(body.get("name"), str):
        return False
    given = [body[key] for key in body if key in _ARGUMENTS]
    return not given or given[0] is None


def _with_change(call: ToolCall, change: Change) -> ToolCall:
    return replace(call, changes=(*call.changes, change))


def _name_fault(name: str, book: NameBook) -> Fault:
    known = book.offered.names if book.offered is not None else ()
    guess = nearest(name, known)
    meant = f"; did you mean {guess!r}?" if guess else ""
    listed = ", ".join(known) or "none"
    return Fault("$.name", f"there is no tool named {name!r}{meant} (the tools are: {listed})")


def _invalid(call: ToolCall, kind: InvalidKind, faults: tuple[Fault, ...]) -> InvalidCall:
    return InvalidCall(call.id, call.name, call.raw, faults, call.provenance, call.extra, call.wire_id, kind)


def read_broken(event: CallBroken) -> InvalidCall:
    """What a parser could not read as a call."""
    cut = "cut" in event.why or "end" in event.why
    provenance = Provenance("text", event.format, event.span)
    faults = (Fault("$", event.why),)
    kind: InvalidKind = "truncated" if cut else "malformed"
    return InvalidCall("", event.name or "", event.raw, faults, provenance, kind=kind)
