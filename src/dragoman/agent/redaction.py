"""Redaction of the events and results of a run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.events import RunEvent
from dragoman.agent.result import RunResult
from dragoman.events import (
    ArgumentsDelta,
    PartEnded,
    PartReceived,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.secrets import HumanSink, ModelSink
from dragoman.types import Failure, Fault, InvalidCall, JsonObject, Text, Thinking, ToolCall, ToolResult, Usage

# --------------------------------------------------------------------------------------------------------------------
# Secrets in results are replaced before the model sees them, and restored in the arguments of tools that write.

_TAGGED = re.compile(r"#[A-Za-z0-9]+-\d+\]\Z")
LOST = (
    "Not run: {name} stands for a secret that is not known any more. Read the file again, and use the placeholder that "
    "stands there now."
)


def hide_secrets(result: ToolResult, sink: ModelSink | HumanSink) -> ToolResult:
    """Return the result with a placeholder for each secret. Data for the caller stays unchanged."""
    content = result.content
    if isinstance(content, str):
        hidden: Any = sink.text(content)
    else:
        hidden = [replace(part, text=sink.text(part.text)) if isinstance(part, Text) else part for part in content]
    return result if hidden == content else replace(result, content=hidden)


def restore_secrets(arguments: JsonObject, sink: ModelSink) -> tuple[JsonObject, str]:
    """Return the arguments with the secrets restored, and the first placeholder that belongs to another run."""
    unknown: list[str] = []

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            if "[redacted:" not in value:
                return value
            restored = sink.restore(value)
            # A placeholder that somebody invents has no tag. A placeholder of another run has another tag.
            unknown.extend(each for each in restored.unknown if _TAGGED.search(each))
            return restored.text
        if isinstance(value, dict):
            return {key: walk(inner) for key, inner in value.items()}
        return [walk(inner) for inner in value] if isinstance(value, list) else value

    return walk(arguments), unknown[0] if unknown else ""


# --------------------------------------------------------------------------------------------------------------------
# Events for people and logs, with their secrets redacted.
#
# Text that arrives in pieces is released word by word. Each word is checked together with the text before it, so that a
# reader does not wait for the end of a line. Text that is still held back is released before any other event.

_BEHIND = 512
_BLANKS = " \t\n\r"
_BLOCK = "-----BEGIN "
_LONGEST_WORD = 4096
_LONGEST_BLOCK = 16_384


class _StreamRedactor:
    """One text that arrives in pieces. Known secrets may have several words; they are searched first, and exactly."""

    def __init__(self, sink: HumanSink) -> None:
        self._sink = sink
        self._known = sink.registered()
        self._behind = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        return self._take(piece if self._known is None else self._known.feed(piece))

    def _take(self, piece: str) -> str:
        self._held += piece
        cut = max(self._held.rfind(blank) for blank in _BLANKS) + 1
        if not cut and len(self._held) < _LONGEST_WORD:
            return ""
        ready, self._held = self._held[: cut or None], self._held[cut:] if cut else ""
        return self._judge(ready)

    def close(self) -> str:
        out = self._take(self._known.close()) if self._known is not None else ""
        ready, self._held = self._held, ""
        return out + self._judge(ready) if ready else out

    def _judge(self, ready: str) -> str:
        whole = self._behind + ready
        shown = self._sink.text(whole)
        if shown == whole:
            out = ready
        else:
            before = self._sink.text(self._behind)
            # If new words change the meaning of old ones, the old ones are already released; the new ones are checked
            # alone.
            out = shown[len(before) :] if shown.startswith(before) else self._sink.text(ready)
        begin = whole.rfind(_BLOCK)
        kept = whole[begin:] if begin >= 0 and len(whole) - begin <= _LONGEST_BLOCK else whole[-_BEHIND:]
        self._behind = kept
        return out


class EventRedactor:
    """Redacts the events of one run."""

    def __init__(self, sink: HumanSink) -> None:
        self._sink = sink
        self._live: _StreamRedactor | None = None
        self._kind: tuple[type, int] | None = None
        self._last: Any = None

    def show(self, event: RunEvent) -> list[RunEvent]:
        """Return the redacted event, preceded by the text that was held back."""
        if isinstance(event, TextDelta | ThinkingDelta | ArgumentsDelta):
            return self._take(event)
        held = self._flush()
        return [*held, event if isinstance(event, UNCHANGED) else redact(self._sink, event)]

    def _take(self, event: TextDelta | ThinkingDelta | ArgumentsDelta) -> list[RunEvent]:
        kind = (type(event), event.index if isinstance(event, ArgumentsDelta) else 0)
        held = self._flush() if kind != self._kind else []
        if self._live is None:
            self._live, self._kind = _StreamRedactor(self._sink), kind
        self._last = event
        out = self._live.feed(event.text)
        if not out:
            return held
        return [*held, event if out == event.text else _with_text(event, out)]

    def _flush(self) -> list[RunEvent]:
        live, self._live, self._kind = self._live, None, None
        rest = live.close() if live is not None else ""
        return [_with_text(self._last, rest)] if rest else []


def _with_text(event: Any, text: str) -> Any:
    return TextDelta(text) if isinstance(event, TextDelta) else replace(event, text=text)


# ---- the types of values in events ---------------------------------------------------------------------------------


def _show_call(sink: HumanSink, call: Any) -> Any:
    raw, name = sink.text(call.raw), sink.text(call.name)
    if isinstance(call, InvalidCall):
        faults = tuple(Fault(sink.text(fault.path), sink.text(fault.why)) for fault in call.faults)
        return replace(call, raw=raw, name=name, faults=faults)
    arguments = sink.value(call.arguments)
    if raw == call.raw and name == call.name and arguments == call.arguments:
        return call
    return replace(call, raw=raw, name=name, arguments=arguments, changes=())


def _show_result(sink: HumanSink, result: ToolResult) -> ToolResult:
    shown, data = hide_secrets(result, sink), sink.value(result.data)
    return shown if data is result.data or data == result.data else replace(shown, data=data)


def _show_part(sink: HumanSink, part: Any) -> Any:
    if isinstance(part, Text | Thinking):
        text = sink.text(part.text)
        return part if text == part.text else replace(part, text=text)
    return _RULES[type(part)](sink, part) if type(part) in _RULES else part


def _show_run(sink: HumanSink, result: RunResult) -> RunResult:
    return replace(
        result,
        outcome=replace(result.outcome, reason=sink.text(result.outcome.reason)),
        text=sink.text(result.text),
        data=sink.value(result.data),
        messages=[replace(each, parts=[_show_part(sink, part) for part in each.parts]) for each in result.messages],
        results=[_show_result(sink, each) for each in result.results],
        calls=[_show_call(sink, each) for each in result.calls],
        problems=[replace(each, message=sink.text(each.message)) for each in result.problems],
    )


def _show_failure(sink: HumanSink, failure: Failure) -> Failure:
    return replace(failure, message=sink.text(failure.message), body=sink.value(failure.body))


_RULES: dict[type, Callable[[HumanSink, Any], Any]] = {
    ToolCall: _show_call,
    InvalidCall: _show_call,
    ToolResult: _show_result,
    RunResult: _show_run,
    Failure: _show_failure,
    Usage: lambda sink, usage: usage,
}
"""Types with fields that stay unchanged: ids, media, and opaque data for the codec of a wire."""
UNCHANGED = (PartEnded, PartReceived, UsageReported, ReplyEnded)
"""Event types that stay unchanged: they carry numbers, media, and opaque data for the codec of a wire."""


def redact(sink: HumanSink, value: Any) -> Any:
    """Return a value with every text in it redacted, whatever its type: a new event type or field cannot leak."""
    if isinstance(value, str):
        return sink.text(value)
    if type(value) in _RULES:
        return _RULES[type(value)](sink, value)
    if isinstance(value, Struct):
        return replace(value, **{name: redact(sink, getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, list | tuple):
        inner = [redact(sink, each) for each in value]
        return inner if isinstance(value, list) else tuple(inner)
    return sink.value(value) if isinstance(value, dict) else value
