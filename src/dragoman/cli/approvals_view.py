"""A request for approval as people and programs see it: everything that would run, and where something is hidden."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.agent.broker import Parked, show_arguments
from dragoman.cli.excerpts import one_line, summarise, write_arguments
from dragoman.cli.screen import Screen
from dragoman.secrets import HumanSink
from dragoman.types import Operand

_ABOUT = 60
_TASK = 100
_DIGEST = 12
_UNITS = ((86_400, "day"), (3600, "h"), (60, "min"), (1, "s"))
_HIDDEN = "something is hidden here, and the call gets what it really is"
_ESCAPED = "characters that cannot be seen are written as \\uXXXX"


def request_as_data(request: Parked, sink: HumanSink, now: float) -> dict[str, Any]:
    """One request for a program, and for drawing. Secrets in it are hidden; `hidden` says where."""
    arguments, hidden = show_arguments(request.call.arguments, sink)
    data: dict[str, Any] = {
        "id": request.id,
        "state": state_of(request, now),
        "run_id": request.run_id,
        "session": request.session,
        "task": sink.text(request.task),
        "tool": request.tool,
        "call": request.call.id,
        "arguments": arguments,
        "hidden": list(hidden),
        "operands": [show_operand(operand, sink) for operand in request.operands],
        "why": sink.text(request.why),
        "digest": request.digest,
        "asked": request.asked,
        "expires": request.expires,
        "rule": request.rule,
        "answered": None,
    }
    if request.answered is not None:
        data["answered"] = sink.value(msgspec.to_builtins(request.answered)) | {"at": request.answered_at}
    return data


def state_of(request: Parked, now: float) -> str:
    """How far a request has come, in a word."""
    given = request.answered
    if given is not None:
        return "answered" if given.result is not None else ("approved" if given.approved else "denied")
    return "expired" if request.expires is not None and now > request.expires else "open"


def say_span(seconds: float) -> str:
    """A time from now on, or before now: `in 23 h`, `5 min ago`."""
    size = abs(seconds)
    unit, name = next((each for each in _UNITS if size >= each[0]), (1, "s"))
    count = int(size // unit)
    words = f"{count} {name}{'s' if name == 'day' and count != 1 else ''}"
    return f"in {words}" if seconds >= 0 else f"{words} ago"


def reveal(text: str) -> str:
    """The text with every character visible: what moves a cursor, turns the writing or takes no room, as \\uXXXX."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else _code(letter) for letter in text)


def _code(letter: str) -> str:
    code = ord(letter)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def show_operand(operand: Operand, sink: HumanSink) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(operand)
    return data | {"value": sink.text(operand.value), "real": sink.text(operand.real)}


# ---- drawing a list --------------------------------------------------------------------------------------------------


def draw_list(
    screen: Screen, listed: Sequence[dict[str, Any]], now: float, *, digests: bool = False, rules: bool = False
) -> None:
    """A table of requests; with `digests`, the one of each below it, with `rules`, what would be allowed for good."""
    heads = ("request", "state", "tool", "asked", "expires", "run", "about")
    rows = [
        (
            one_line(data["id"]),
            data["state"],
            one_line(reveal(data["tool"]), 40),
            say_span(data["asked"] - now),
            "never" if data["expires"] is None else say_span(data["expires"] - now),
            one_line(data["run_id"]),
            _about(data),
        )
        for data in listed
    ]
    widths = [max(len(row[column]) for row in (heads, *rows)) for column in range(len(heads) - 1)]
    screen.line((_aligned(heads, widths), "bold"))
    for data, row in zip(listed, rows, strict=True):
        screen.line((row[0].ljust(widths[0]), "green"), "  ", _aligned(row[1:], widths[1:]))
        if digests:
            screen.line("  ", (data["digest"], "dim"))
        if rules and data["rule"]:
            screen.line("  ", ("from now on: ", "yellow"), reveal(data["rule"]).replace("\n", "\\n"))


def _about(data: dict[str, Any]) -> str:
    values = [operand["value"] for operand in data["operands"]]
    return one_line(reveal(", ".join(values) or summarise(data["arguments"])), _ABOUT)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, (*widths, 0), strict=True))


# ---- drawing one -----------------------------------------------------------------------------------------------------


def draw_request(screen: Screen, data: dict[str, Any], now: float) -> None:
    """Everything about one request."""
    screen.line((data["id"], "bold green"))
    for label, content in _facts(data, now):
        if content:
            screen.line("  ", (f"{label}: ", "yellow"), content)
    screen.heading(f"{one_line(reveal(data['tool']))} would be called with")
    draw_arguments(screen, data)
    if data["operands"]:
        screen.heading("and is about")
        for operand in data["operands"]:
            draw_operand(screen, operand)
    if data["state"] == "open":
        screen.heading("to answer")
        for line in _ways_to_answer(data):
            screen.line(f"  {line}")


def _facts(data: dict[str, Any], now: float) -> list[tuple[str, str]]:
    expires = data["expires"]
    until = "" if expires is None else f"{say_span(expires - now)} ({_when(expires)})"
    given = data["answered"]
    state = data["state"]
    if given is not None:
        state += f" by {one_line(given['by'])}, {say_span(given['at'] - now)}"
        state += f": {one_line(reveal(given['reason']))}" if given["reason"] else ""
    return [
        ("state", state),
        ("why", one_line(reveal(data["why"]), 300)),
        ("task", one_line(reveal(data["task"]), _TASK)),
        ("asked", f"{say_span(data['asked'] - now)} ({_when(data['asked'])})"),
        ("expired" if state == "expired" else "expires", until),
        ("session", one_line(reveal(data["session"]))),
        ("run", one_line(reveal(data["run_id"]))),
        ("digest", data["digest"]),
    ]


def draw_arguments(screen: Screen, data: dict[str, Any]) -> None:
    if not data["arguments"]:
        screen.line("  no arguments")
    for name, value in data["arguments"].items():
        label = (f"{one_line(reveal(name))}: ", "yellow")
        if isinstance(value, str) and "\n" in value:
            screen.line("  ", label)
            # Every line of it has a mark, so that none can pose as something else on this page.
            for line in value.split("\n"):
                screen.line("    | ", reveal(line))
        else:
            screen.line("  ", label, reveal(write_arguments(value)))
    for path in data["hidden"]:
        screen.line("  ", (f"{one_line(reveal(path))}: {_HIDDEN}", "bold yellow"))
    texts = "".join(_texts(data["arguments"]))
    if reveal(texts) != texts:
        screen.line("  ", (_ESCAPED, "bold yellow"))


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for each in pair for text in _texts(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts(each)]
    return [value] if isinstance(value, str) else []


def draw_operand(screen: Screen, operand: dict[str, Any]) -> None:
    screen.line("  ", (f"{operand['access']} ", "cyan"), reveal(operand["value"]).replace("\n", "\\n"))
    notes = []
    if operand["real"] and operand["real"] != operand["value"] and operand["kind"] != "url":
        notes.append(f"really {reveal(operand['real'])}")
    if operand["kind"] == "path":
        notes.append("in the workspace" if operand["inside"] else "OUTSIDE the workspace")
        notes.append(f"file {operand['identity']}" if operand["identity"] else "not there yet")
    elif operand["kind"] == "url" and not operand["inside"]:
        notes.append("NOT a public address")
    if operand["protected"]:
        notes.append("PROTECTED: it decides what is trusted later")
    if operand["digest"]:
        notes.append(f"content {operand['digest'].removeprefix('sha256:')[:_DIGEST]}")
    for note in notes:
        screen.line("      ", (note, "bold yellow" if note[:3].isupper() else "dim"))


def _ways_to_answer(data: dict[str, Any]) -> list[str]:
    name = data["id"]
    always = f"dragoman approvals approve {name} --always  (from now on: {reveal(data['rule'])})"
    return [
        f"dragoman approvals approve {name}",
        *([always] if data["rule"] else []),
        f"dragoman approvals approve {name} --arguments '{{...}}'  (other arguments; they are decided on again)",
        f"dragoman approvals deny {name} --reason '...'",
        f"dragoman approvals answer {name} '...'  (the model is told this instead)",
    ]


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
