"""A session as it is shown: its runs, the turns of each, and what became of every call."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dragoman.agent.protocol import Denied, Replied, Reviewed, Steered, ToolAnswered
from dragoman.agent.records import Ended, Header, decode, decode_input
from dragoman.cli.screen import Screen, pretty_json
from dragoman.journal import Record, RunSummary, calls, turns
from dragoman.secrets import HumanSink, scrub
from dragoman.types import File, Image, InvalidCall, Text, ToolCall, ToolResult

MOST_OF_A_RESULT = 600
MOST_OF_A_TASK = 60
_UNREADABLE = (msgspec.MsgspecError, ValueError, TypeError)


def when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def task_of(first: Record) -> str:
    """What a run was asked, in its own words."""
    header = _read(first, Header)
    return scrub(header.task) if isinstance(header, Header) else ""


def run_as_data(run: RunSummary, records: Sequence[Record]) -> dict[str, Any]:
    """One run for a program, and for drawing. Secrets in it are hidden; an export has them as they are."""
    header = _read(records[0], Header)
    ended = _read(records[-1], Ended) if records[-1].kind == "ended" else None
    data: dict[str, Any] = msgspec.to_builtins(run)
    data["model"] = header.model if isinstance(header, Header) else ""
    data["task"] = header.task if isinstance(header, Header) else ""
    data["outcome"] = {"kind": ended.kind, "reason": ended.reason} if isinstance(ended, Ended) else None
    data["steps"] = _steps(records)
    hidden: dict[str, Any] = HumanSink().value(data)
    return hidden


def _steps(records: Sequence[Record]) -> list[dict[str, Any]]:
    """The turns in order, and what somebody put in between."""
    told = {record.number: _told(record) for record in records[1:]}
    seen = _Seen(records, told.values())
    numbers = {turn.first: turn.number for turn in turns(records)}
    steps: list[dict[str, Any]] = []
    for number, said in told.items():
        if isinstance(said, Steered):
            steps.append({"steered": said.message.text})
        if number not in numbers:
            continue
        step: dict[str, Any] = {"turn": numbers[number], "text": "", "calls": []}
        if isinstance(said, Replied):
            step["text"] = said.found.text or said.reply.text
            step["failure"] = said.reply.failure.kind if said.reply.failure is not None else None
            made: list[ToolCall | InvalidCall] = [*said.found.calls, *said.found.invalid]
            step["calls"] = [seen.call(call) for call in made]
        steps.append(step)
    return steps


class _Seen:
    """What a run knows of its calls: how far each came, and what the model was told about it."""

    def __init__(self, records: Sequence[Record], told: Iterable[Any]) -> None:
        self._traces = calls(records)
        ended = _read(records[-1], Ended) if records[-1].kind == "ended" else None
        parts = [part for message in ended.messages for part in message.parts] if isinstance(ended, Ended) else []
        # A call that never ran has no record of its own; its answer stands in the conversation.
        self._results = {part.call_id: part for part in parts if isinstance(part, ToolResult)}
        self._reasons: dict[str, str] = {}
        for each in told:
            if isinstance(each, ToolAnswered):
                self._results[each.call_id] = each.result
            elif isinstance(each, Denied | Reviewed):
                self._reasons[each.call_id] = each.reason

    def call(self, call: ToolCall | InvalidCall) -> dict[str, Any]:
        trace, result = self._traces.get(call.id), self._results.get(call.id)
        stage = trace.stage if trace is not None else "planned"
        return {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments if isinstance(call, ToolCall) else call.raw,
            "stage": stage if isinstance(call, ToolCall) else "invalid",
            "result": _words(result) if result is not None else self._reasons.get(call.id),
            "is_error": result.is_error if result is not None else None,
        }


def _told(record: Record) -> Any:
    if record.kind in ("asked", "answered", "started", "delivered", "ended"):
        return None
    try:
        return decode_input(record.body)
    except _UNREADABLE:
        # Written by another version, or by somebody else's program: it is counted, and not shown.
        return None


def _read(record: Record, kind: type[Any]) -> Any:
    try:
        return decode(record.body, kind)
    except _UNREADABLE:
        return None


def _words(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "\n".join(_part(part) for part in result.content)


def _part(part: Text | Image | File) -> str:
    if isinstance(part, Text):
        return part.text
    return f"[{part.name}]" if isinstance(part, File) else "[an image]"


# ---- drawing -------------------------------------------------------------------------------------------------------


def draw_run(screen: Screen, data: dict[str, Any]) -> None:
    screen.heading(f"Run {data['run_id']}")
    for label, content in _facts(data):
        if content:
            screen.line("  ", (f"{label}: ", "yellow"), content)
    if data["task"]:
        screen.block(data["task"], style="bold")
    for step in data["steps"]:
        _draw_step(screen, step)


def _facts(data: dict[str, Any]) -> list[tuple[str, str]]:
    outcome = data["outcome"]
    state = f"held by {data['holder']}" if data["holder"] else "broke off; it can be resumed"
    if outcome is not None:
        state = outcome["kind"] + (f": {outcome['reason']}" if outcome["reason"] else "")
    return [
        ("begun", f"{when(data['begun'])}, {data['records']} records"),
        ("model", data["model"]),
        ("forked from", data["copied_from"] or ""),
        ("outcome", state),
    ]


def _draw_step(screen: Screen, step: dict[str, Any]) -> None:
    screen.line()
    if "steered" in step:
        screen.line(("  put in", "cyan"))
        screen.block(step["steered"], indent=4)
        return
    failed = f"  {step['failure']}" if step.get("failure") else ""
    screen.line((f"  turn {step['turn']}", "cyan"), (failed, "red"))
    if step["text"].strip():
        screen.block(step["text"].strip("\n"), indent=4)
    for call in step["calls"]:
        screen.line("    ", (call["name"], "bold green"), f" {pretty_json(call['arguments'])}", (_note(call), "dim"))
        if call["result"]:
            screen.block(_shorten(call["result"]), indent=6, style="red" if call["is_error"] else "")


def _note(call: dict[str, Any]) -> str:
    notes = {
        "started": "  was started; its outcome is unknown",
        "planned": "  has not run",
        "approved": "  was approved and has not run",
        "denied": "  was denied",
        "invalid": "  could not be understood",
    }
    return notes.get(call["stage"], "")


def _shorten(text: str) -> str:
    text = text.strip("\n")
    if len(text) <= MOST_OF_A_RESULT:
        return text
    return f"{text[:MOST_OF_A_RESULT]}\n… {len(text) - MOST_OF_A_RESULT} characters more; --json shows all"
