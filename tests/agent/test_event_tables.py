"""These tests fail for a new event type until each table handles it or lists it as ignored.

An event type is defined in `agent/events.py` (or `events.py`). It is redacted and logged without an entry. The audit
log, the spans and the screen have to handle it, or it is listed in `LEFT_ALONE`.
"""

from __future__ import annotations

import io
import types
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from tests.tables import each_row

from dragoman.agent import audit, redaction
from dragoman.agent.events import (
    ApprovalGiven,
    ApprovalNeeded,
    Asked,
    CallDecided,
    RunEvent,
    RunStarted,
    ToolProgressed,
    TurnEnded,
)
from dragoman.cli.render import ScreenView
from dragoman.client.retry import RequestRetried
from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    Event,
    MarkerDropped,
    PartEnded,
    PartReceived,
    ReplyFailed,
    ReplyStarted,
    UsageReported,
)
from dragoman.secrets import HumanSink
from dragoman.telemetry import as_record, otel
from dragoman.types import Image, ToolCall

EVENTS = get_args(RunEvent)
HANDLED = {
    "audit": set(audit._ROWS),
    "spans": {*otel._ON_RUN, *otel._ON_CHAT, RunStarted},
    "screen": set(ScreenView(io.StringIO())._table),
}
LEFT_ALONE: dict[str, set[type]] = {
    # What a model says is in the journal; the audit log holds what was done.
    "audit": {*get_args(Event), Asked, RequestRetried, ToolProgressed, TurnEnded},
    "spans": {
        *(CallBroken, CallRefused, MarkerDropped, PartEnded, PartReceived),
        *(ApprovalNeeded, CallDecided, ToolProgressed),
    },
    "screen": {
        *(ArgumentsDelta, CallEnded, MarkerDropped, PartEnded, ReplyFailed, ReplyStarted, UsageReported),
        *(ApprovalGiven, CallDecided, TurnEnded),
    },
}
SECRET = "sk-ant-api03-Zx8Qw7Lm5Nv4Bc3Kj2Hg1Fd9"


@pytest.mark.parametrize("consumer", HANDLED)
def test_every_event_type_is_handled_or_left_alone(consumer: str) -> None:
    handled, left = HANDLED[consumer], LEFT_ALONE[consumer]
    missing = [event.__name__ for event in EVENTS if event not in handled | left]
    assert not missing, f"{consumer} neither handles nor leaves alone: {missing}"
    assert not handled & left
    assert handled | left <= set(EVENTS)


def fill(kind: Any, depth: int = 0) -> Any:
    """A value of a type, with the secret in every text of it."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return fill(next(part for part in parts if part is not type(None)), depth)
    if origin is Literal:
        return parts[0]
    if origin in (list, tuple):
        inner = [fill(parts[0], depth + 1)] if parts and depth < 6 else []
        return tuple(inner) if origin is tuple else inner
    if origin is dict or kind is dict:
        return {"key": SECRET}
    if isinstance(kind, type) and issubclass(kind, Image):
        return Image(data="aGk=", media_type="image/png")
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        return kind(**{name: fill(hints[name], depth + 1) for name in kind.__struct_fields__})
    samples: dict[Any, Any] = {str: SECRET, int: 1, float: 1.0, bool: True, Any: SECRET, object: SECRET}
    return SECRET if isinstance(kind, TypeVar) else samples[kind]


@each_row("kind", [each for each in EVENTS if each not in redaction.UNCHANGED], ids=lambda each: each.__name__)
def test_every_event_type_is_redacted(kind: type) -> None:
    redactor = redaction.EventRedactor(HumanSink([SECRET]))
    shown = [*redactor.show(fill(kind)), *redactor.show(TurnEnded(1, fill(get_type_hints(TurnEnded)["usage"])))]
    assert any(isinstance(each, kind) for each in shown)
    words = [field for each in shown for field in msgspec.structs.asdict(each).values() if isinstance(field, str)]
    assert not any(SECRET in each for each in words)
    calls = [each.call.arguments for each in shown if isinstance(getattr(each, "call", None), ToolCall)]
    assert SECRET not in repr(calls)


@each_row("kind", EVENTS, ids=lambda each: each.__name__)
def test_the_record_of_an_event_leaves_out_what_only_a_codec_reads(kind: type) -> None:
    hints = get_type_hints(kind)
    call = ToolCall("c1", "bash", {}, extra={"openai_chat": "opaque"})
    fields = {name: fill(hints[name]) for name in kind.__struct_fields__}  # type: ignore[attr-defined]
    record = as_record(kind(**fields | ({"call": call} if "call" in fields else {})))
    assert record["type"] == kind.__name__
    assert "opaque" not in repr(record)
