"""Suspects: text that looks like a call of an offered tool and does not count as one.

A suspect never runs and is never dropped silently. The agent tells the model about it once, with the form of a call and
without the arguments of the suspect: a model would confirm them by copying. If the model then repeats the same call, it
meant it, and the call counts as a message that is one call (T2, with the repair `confirmed`). The notice in the history
contains a digest of the suspect, so this also works after a resume.
"""

from __future__ import annotations

import hashlib
import json
import re

from msgspec import Struct

from dragoman.extraction.echo_reader import SUMMARY, UNTRUSTED
from dragoman.extraction.regions import Regions, SpanList
from dragoman.extraction.trust import Level
from dragoman.formats.improvised.attempts import find_attempts
from dragoman.toolset import Toolset
from dragoman.types import Message, ToolCall

CONFIRMED = "confirmed"
"""The repair of a call that the model repeated after a notice."""


class Suspect(Struct, frozen=True):
    """Text that looks like a call: the tool that it names (empty if none), its span, its level, and why it is none."""

    name: str
    span: tuple[int, int]
    level: Level
    why: str
    mark: str = ""
    """A digest that identifies the suspect in a notice to the model."""


NOTICE = "Some text in your last reply looks like a tool call, but does not have the form of one. Nothing was run:"
"""The first line of a notice about suspects."""
NOTICE_END = "If you do not, answer in plain words."
"""Its last line."""
_listed = re.compile(r"^- \[(suspect [0-9a-f]{8})\] ", re.MULTILINE).findall


def list_suspect(suspect: Suspect, named: str) -> str:
    """Return the line of a notice about a suspect."""
    return f"- [{suspect.mark}] {named}: {' '.join(suspect.why.split())[:300]}"


def marks_in(text: str) -> list[str]:
    """Return the digests in a notice. Only a message that begins as a notice is one, and only its own lines count."""
    return _listed(text.partition("\n\n")[0]) if text.startswith(NOTICE) else []


def marks_of_notice(message: Message) -> set[str]:
    """Return the digests in a message that is a notice about suspects and nothing else; empty for any other."""
    is_notice = is_own_words(message) and message.text.endswith(NOTICE_END) and "\n\n" not in message.text
    return set(marks_in(message.text)) if is_notice else set()


def is_own_words(message: Message) -> bool:
    """Whether the user or the agent wrote a message: summaries and foreign tasks are content of others."""
    return message.role == "user" and UNTRUSTED not in message.extra and SUMMARY not in message.extra


def mark_call(call: ToolCall, kind: str = "suspect") -> str:
    """Return the digest of a call: its name and its arguments, in a canonical form."""
    return _digest(kind, call.name, json.dumps(call.arguments, sort_keys=True, ensure_ascii=True, default=str))


def suspect_call(call: ToolCall, why: str) -> Suspect:
    """Return the suspect for a call that was read and does not count."""
    span = call.provenance.span if call.provenance is not None else (0, 0)
    return Suspect(call.name, span, "T1", why, mark_call(call))


def find_near_misses(text: str, taken: list[tuple[int, int]], tools: Toolset | None) -> list[Suspect]:
    """Return what looks like a call in the answer and was not read at all."""
    if tools is None or not len(tools):
        return []
    found = find_attempts(text, tools, SpanList(taken).meets)
    if not found:
        return []
    regions = Regions(text, taken)
    return [
        Suspect(each.name, each.span, "T1", each.why, _digest("suspect", each.name, text[slice(*each.span)]))
        for each in found
        if regions.at(each.span[0]) == "answer" or not (text[: each.span[0]] + text[each.span[1] :]).strip()
    ]


def _digest(kind: str, *parts: str) -> str:
    return f"{kind} " + hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:8]
