"""An exchange as text for other programs: a command for curl, a test for pytest, a report for an issue.

All of them are made of redacted data. Every character that a person cannot see is written as an escape, so that what
somebody pastes is what he saw.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pprint import pformat
from typing import Any

import msgspec

from dragoman import __version__
from dragoman import wire as wires
from dragoman.characters import escape_line, escape_text
from dragoman.server.inspector.store import Entry, Turn
from dragoman.server.inspector.trial import AUTO, TrialError, replay_reply
from dragoman.types import InvalidCall, JsonObject, Message, Request, ToolCall
from dragoman.wire.values import parse

KEY_VARIABLE = "DRAGOMAN_KEY"
_KEY_HEADERS = {"anthropic": "x-api-key", "gemini": "x-goog-api-key"}
_KEPT_HEADERS = ("anthropic-version", "anthropic-beta", "openai-beta")
_MOST_OF_A_BLOCK = 20_000
_fences = re.compile(r"`{3,}").findall
_unsafe_name = re.compile(r"[^a-z0-9]+").sub


def write_curl(entry: Entry, address: str) -> str:
    """Return the request of the client as a command. The key is a variable of the shell."""
    sent = entry.sent
    if sent.is_cut:
        return "# The body of this request is larger than the inspector keeps.\n"
    name = _KEY_HEADERS.get(entry.report.wire)
    # In double quotes, so that the shell fills in the key.
    key = f'"{name}: ${KEY_VARIABLE}"' if name else f'"authorization: Bearer ${KEY_VARIABLE}"'
    lines = [
        f"curl {shlex.quote(address + _ascii(sent.url))}",
        f"-X {sent.method}",
        "-H 'content-type: application/json'",
    ]
    lines.append(f"-H {key}")
    lines += [f"-H {shlex.quote(f'{each}: {sent.headers[each]}')}" for each in _KEPT_HEADERS if each in sent.headers]
    value = parse(sent.body.encode())
    body = json.dumps(value) if isinstance(value, dict | list) else _ascii(sent.body)
    lines.append(f"--data-binary {shlex.quote(body)}")
    return " \\\n  ".join(lines) + "\n"


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()


# ---- a test ----------------------------------------------------------------------------------------------------------


def write_test(entry: Entry, messages: Sequence[Message] = ()) -> str:
    """Return a test that reads the reply of the exchange again, and expects what was found in it.

    What it expects is computed from the redacted reply, so that it passes as it is. Results of tools in the messages
    are a part of it: a call that was copied from them does not count.
    """
    if not entry.turns:
        return "# No reply of this exchange was read, so there is nothing to test.\n"
    turn = entry.turns[-1]
    trust = turn.trust or entry.trust
    conversation = _show_results(messages)
    try:
        again = replay_reply(entry, AUTO, trust, conversation)
    except TrialError as error:
        return f"# {escape_line(str(error))}\n"
    calls = [(call.name, call.arguments) for call in again.turn.calls]
    held = sorted((each.kind, each.name) for each in again.turn.held)
    whole = bool(turn.native)
    head = f"# Made by the inspector of dragoman {__version__} from the exchange {entry.id}, without its secrets.\n"
    imports = "import dragoman\n" + ("" if whole else "from dragoman.testing import chunkings\n")
    data = [
        f"TOOLS = {_literal(entry.tools)}",
        f"REPLY = {_literal(_show_reply(turn)) if whole else _write_text(turn.text)}",
        f"CALLS = {_literal(calls)}",
        f"HELD = {_literal(held)}",
        f"OPTIONS = {_literal(_options(turn, trust, conversation))}",
    ]
    name = _unsafe_name("_", entry.report.model.lower()).strip("_")[:40] or "the_model"
    body = _WHOLE if whole else _PIECES
    return f"{head}{imports}\n" + "\n".join(data) + "\n" + body.replace("NAME", name)


_CHECK = """

def find_held(found):
    held = [("refused", entry.name) for entry in found.refused]
    held += [("invalid", call.name) for call in found.invalid]
    return sorted([*held, *(("suspect", suspect.name) for suspect in found.suspects)])
"""
_PIECES = f"""{_CHECK}

def test_the_calls_in_a_reply_of_NAME():
    for pieces in chunkings(REPLY, most=12):
        reader = dragoman.extraction.extractor(tools=TOOLS, **OPTIONS)
        for piece in pieces:
            reader.feed(piece)
        reader.close()
        found = reader.extraction
        assert [(call.name, call.arguments) for call in found.calls] == CALLS
        assert find_held(found) == HELD
"""
_WHOLE = f"""{_CHECK}

def test_the_calls_in_a_reply_of_NAME():
    found = dragoman.extract(REPLY, tools=TOOLS, **OPTIONS)
    assert [(call.name, call.arguments) for call in found.calls] == CALLS
    assert find_held(found) == HELD
"""


def _show_results(messages: Sequence[Message]) -> list[JsonObject]:
    """Return the messages in the form of OpenAI if there are results of tools in them."""
    if all(message.role != "tool" for message in messages):
        return []
    shown: list[JsonObject] = wires.get("openai_chat").encode_request(Request("m", list(messages)))["messages"]
    return shown


def _options(turn: Turn, trust: str, conversation: Sequence[JsonObject]) -> dict[str, Any]:
    options: dict[str, Any] = {"trust": trust, "capabilities": {"native_tool_calls": turn.tool_mode != "text"}}
    if conversation:
        options["conversation"] = conversation
    if turn.family is not None:
        options["family"] = turn.family
    return options | ({"opens_thinking": True} if turn.opens_thinking else {})


def _show_reply(turn: Turn) -> dict[str, Any]:
    return {"text": turn.text, "tool_calls": [_show_native(call) for call in turn.native]}


def _show_native(call: ToolCall | InvalidCall) -> dict[str, Any]:
    raw = call.raw if isinstance(call, InvalidCall) else json.dumps(call.arguments)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": raw}}


def _literal(value: Any) -> str:
    return _ascii(pformat(value, width=110, sort_dicts=False))


def _write_text(text: str) -> str:
    """Return a text as a Python expression, one line of the text on each line."""
    lines = text.splitlines(keepends=True) or [""]
    return "(\n" + "".join(f"    {line!a}\n" for line in lines) + ")" if len(lines) > 1 else ascii(text)


# ---- a report --------------------------------------------------------------------------------------------------------


def write_report(entry: Entry) -> str:
    """Return the exchange as Markdown, for an issue."""
    report = entry.report
    usage = report.usage
    facts = [
        ("dragoman", __version__),
        ("exchange", entry.id),
        ("wire of the client", report.wire),
        ("model", f"{report.requested_model} -> {report.model}"),
        ("tool mode", report.tool_mode or "no tools"),
        ("profile", entry.profile or entry.trust),
        ("streamed", "yes" if report.streamed else "no"),
        ("stop", report.stop or "-"),
        ("seconds", f"{report.seconds:g}"),
        ("tokens", f"{usage.input_tokens} in, {usage.output_tokens} out"),
        *([("failure", report.failure)] if report.failure else []),
        *([("repair turn", report.repair_turn)] if report.repair_turn else []),
    ]
    parts = [f"### Exchange {entry.id}", "", "| fact | value |", "|---|---|"]
    parts += [f"| {name} | {_cell(value)} |" for name, value in facts]
    for title, lines in (("Losses", report.losses), ("Notes", report.notes), ("Retries", report.retries)):
        if lines:
            parts += ["", f"**{title}**", "", *(f"- {_cell(line)}" for line in lines)]
    for number, turn in enumerate(entry.turns, 1):
        parts += _write_turn(turn, number)
    if entry.tools:
        parts += ["", "**Tools**", "", _fence(msgspec.json.format(msgspec.json.encode(entry.tools)).decode(), "json")]
    for number, hop in enumerate(entry.hops, 1):
        parts += ["", f"**Raw reply {number}** (status {hop.status or 'none'})", "", _fence(hop.body)]
        parts += [f"{_cell(hop.note)}"] if hop.note else []
    return "\n".join(parts) + "\n"


def _write_turn(turn: Turn, number: int) -> list[str]:
    lines = ["", f"**Reply {number}**", "", _fence(turn.text or "(no text)")]
    for call in turn.calls:
        origin = call.provenance
        how = f"{origin.channel} {origin.format} {origin.level or ''}".strip() if origin is not None else "native"
        repairs = f"; repairs: {', '.join(call.repairs)}" if call.repairs else ""
        lines.append(f"- call `{_cell(call.name)}` ({how}{repairs})")
    lines += [f"- {each.kind} `{_cell(each.name)}`: {_cell(each.why)}" for each in turn.held]
    return lines


def _cell(text: str) -> str:
    """Return a text for one line of Markdown, without markup of its own."""
    return re.sub(r"([\\|`*_<>\[\]#@])", r"\\\1", escape_line(str(text)))


def _fence(text: str, kind: str = "") -> str:
    """Return a block of code. Its fence is longer than any in the text."""
    shown = escape_text(text[:_MOST_OF_A_BLOCK]) + ("\n..." if len(text) > _MOST_OF_A_BLOCK else "")
    fence = "`" * max(3, 1 + max(map(len, _fences(shown)), default=2))
    return f"{fence}{kind}\n{shown}\n{fence}"
