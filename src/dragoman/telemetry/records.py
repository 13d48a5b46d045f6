"""An event of a run as one JSON object: what a log, and a program that reads a run, want to know of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from dragoman.agent.events import ApprovalGiven, ApprovalNeeded, RunEnded, RunEvent, ToolEnded, ToolStarted, TurnEnded
from dragoman.agent.result import RunResult
from dragoman.client.retry import RequestRetried
from dragoman.events import CallBroken, CallEnded, CallRefused, PartEnded, PartReceived, ReplyEnded, ReplyFailed
from dragoman.secrets import HumanSink
from dragoman.telemetry.values import Bounds, Plainer
from dragoman.types import Failure, File, Image, InvalidCall, Provenance, Text, ToolCall, ToolResult

_PLAIN = Plainer(HumanSink(), Bounds(text=1_000_000, entries=10_000, depth=64))


def as_record(event: RunEvent, plainer: Plainer = _PLAIN) -> dict[str, Any]:
    """The event under its name, with what a reader can use; opaque data of a wire and whole histories stay out."""
    describe = _DESCRIBED.get(type(event))
    fields = describe(event) if describe else msgspec.structs.asdict(event)
    record: dict[str, Any] = plainer.value(fields)
    return {"type": type(event).__name__, **record}


def _call(call: ToolCall) -> dict[str, Any]:
    known: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if call.repairs:
        known["repairs"] = list(call.repairs)
    if call.changes:
        known["changes"] = [change.path for change in call.changes]
    return known | _source(call.provenance)


def _invalid(call: InvalidCall) -> dict[str, Any]:
    faults = [str(fault) for fault in call.faults]
    return {"id": call.id, "name": call.name, "kind": call.kind, "faults": faults} | _source(call.provenance)


def _source(provenance: Provenance | None) -> dict[str, Any]:
    if provenance is None:
        return {}
    known = {"channel": provenance.channel, "format": provenance.format, "level": provenance.level}
    return {name: value for name, value in known.items() if value}


def _result(result: ToolResult) -> dict[str, Any]:
    content = result.content if isinstance(result.content, str) else [_part(part) for part in result.content]
    return {"call_id": result.call_id, "name": result.name, "content": content, "is_error": result.is_error}


def _part(part: Text | Image | File) -> Any:
    if isinstance(part, Text):
        return part.text
    size = len(part.data) if part.data else 0
    return {"kind": type(part).__name__.lower(), "media_type": part.media_type, "characters": size}


def _run_result(result: RunResult) -> dict[str, Any]:
    return {
        "outcome": result.outcome,
        "text": result.text,
        "data": result.data,
        "usage": result.usage,
        "cost": result.cost,
        "turns": result.turns,
        "calls": len(result.calls),
        "messages": len(result.messages),
        "problems": list(result.problems),
        "run_id": result.run_id,
        "session": result.session,
        "model": result.model,
    }


def _failure(failure: Failure) -> dict[str, Any]:
    # The body stays out: it may repeat the whole request.
    return {"kind": failure.kind, "message": failure.message, "status": failure.status, "code": failure.code}


def _tool_ended(event: ToolEnded) -> dict[str, Any]:
    call = _call(event.call) if isinstance(event.call, ToolCall) else _invalid(event.call)
    return {"call": call, "result": _result(event.result), "seconds": round(event.seconds, 6), "ran": event.ran}


_DESCRIBED: dict[type, Callable[[Any], dict[str, Any]]] = {
    ApprovalGiven: lambda event: msgspec.structs.asdict(event) | {"call": _call(event.call)},
    ApprovalNeeded: lambda event: msgspec.structs.asdict(event) | {"call": _call(event.call)},
    CallBroken: lambda event: {"name": event.name, "why": event.why, "raw": event.raw, "format": event.format},
    CallEnded: lambda event: {"call": _call(event.call)},
    CallRefused: lambda event: {"call": _call(event.call), "why": event.why},
    PartEnded: lambda event: {"kind": event.kind},
    PartReceived: lambda event: {"part": _part(event.part)},
    ReplyEnded: lambda event: {"stop": event.stop},
    ReplyFailed: lambda event: _failure(event.failure),
    RequestRetried: lambda event: msgspec.structs.asdict(event) | {"failure": _failure(event.failure)},
    RunEnded: lambda event: _run_result(event.result),
    ToolEnded: _tool_ended,
    ToolStarted: lambda event: {"turn": event.turn, "call": _call(event.call)},
    TurnEnded: lambda event: msgspec.structs.asdict(event) | {"results": len(event.results)},
}
