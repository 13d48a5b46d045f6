"""The repair turn: when a model is asked again about its reply, and what it is told. Pure.

A client that cannot use a reply may crash, or may stop without a word, so the model gets one chance to correct it
first. If the second request fails, the client receives the first reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.characters import is_blank
from dragoman.events import CallBroken, CallEnded, CallRefused, Event
from dragoman.extraction import Extraction, explain_invalid
from dragoman.extraction.mistakes import BLANK, BLANK_WITHOUT_TOOLS
from dragoman.extraction.tool_mode import ComposedRequest, find_breach
from dragoman.replies import fold
from dragoman.types import InvalidCall, Message, Part, Reply, Text, Thinking, ToolCall, ToolResult

_ASKED_AGAIN = "the model is asked again"
_OPEN_ENDS = frozenset({"end", "tool_calls", "unknown"})
"""The stops after which an empty reply is a mistake. The others say why it is empty."""


class RepairTurn(Struct, frozen=True):
    """One more request about a reply that the client cannot use."""

    why: str
    messages: list[Message]
    """What follows the conversation: the reply, and what the model is told about it."""
    sent: list[Event]
    """What the client receives of the reply at once."""
    held: list[Event]
    """What the client receives of it as well if the turn fails."""


def plan_repair(
    composed: ComposedRequest,
    received: Sequence[Event],
    found: Extraction,
    unfit: Sequence[tuple[InvalidCall, ToolCall]],
    events: Sequence[Event],
) -> RepairTurn | None:
    """Return the repair turn for a reply without a call that can run; None if the client can use the reply.

    `unfit` are the calls that the client would receive as they came, although no client can run them. `events` is
    what the client would receive.
    """
    tools = composed.chosen_mode.tools
    passed = {id(bad) for bad, _ in unfit}
    faults = [explain_invalid(call, tools) for call in found.invalid if id(call) not in passed]
    calls = [call for _, call in unfit]
    if unfit:
        # The model sees its calls, each with its result.
        told = ["\n\n".join([explain_invalid(unfit[0][0], tools), *faults])]
        told += [explain_invalid(bad, tools) for bad, _ in unfit[1:]]
        results: list[Part] = [
            ToolResult(call.id, call.name, text, is_error=True) for call, text in zip(calls, told, strict=True)
        ]
        why, said = _name_fault(unfit), Message("tool", results)
    else:
        why, text = _find_reason(composed, received, found, faults)
        if not text:
            return None
        said = Message.user(text)
    words: list[Part] = [part for part in fold(received).message.parts if not isinstance(part, ToolCall | InvalidCall)]
    # Some endpoints reject a turn that has only reasoning, and others a call without the reasoning before it.
    answer = Message("assistant", [*words, *calls] if calls or _says_something(words) else [])
    messages = [answer, said] if answer.parts else [said]
    sent = [event for event in map(_withdraw, events) if event is not None]
    # The beginnings of these calls are withdrawn, so that their ends stand for themselves.
    held: list[Event] = [
        CallEnded(-1 - place, event.call) if isinstance(event, CallEnded) else replace(event, index=None)
        for place, event in enumerate(events)
        if isinstance(event, CallEnded | CallBroken)
    ]
    return RepairTurn(why, messages, sent, held)


def _find_reason(
    composed: ComposedRequest, received: Sequence[Event], found: Extraction, faults: list[str]
) -> tuple[str, str]:
    """Return why a reply without calls has to be corrected, and the message to the model."""
    if faults:
        is_cut = all(call.kind == "truncated" for call in found.invalid)
        return "a call was cut off" if is_cut else "a call could not be read", "\n\n".join(faults)
    if found.suspects and found.notice:
        return "text looks like a call", found.notice
    if breach := find_breach(composed, ()):
        return breach, f"{breach}. Make the call now."
    if not is_blank(found.text) or not _is_empty(composed, fold(received)):
        return "", ""
    if found.refused and found.notice:
        return "the only call is in a place where calls do not count", found.notice
    return "the reply was empty", BLANK_WITHOUT_TOOLS if composed.choice.mode == "none" else BLANK


def _is_empty(composed: ComposedRequest, reply: Reply) -> bool:
    """Whether a reply without text shows nothing, although it ended properly.

    If the client wrote the beginning of the reply, that may have been all of it.
    """
    is_begun = any(message.role == "assistant" for message in composed.request.messages[-1:])
    return reply.stop in _OPEN_ENDS and not is_begun and all(map(_is_nothing, reply.message.parts))


def _is_nothing(part: Part) -> bool:
    """Whether a part of a reply without text and calls is of no use to a client.

    Codecs keep what only a vendor and its clients know, such as the use of a computer, as text or reasoning without
    words.
    """
    if isinstance(part, Text | Thinking):
        return bool(part.text) or not part.extra
    return isinstance(part, ToolCall | InvalidCall)


def _says_something(parts: Iterable[Part]) -> bool:
    return any(not (isinstance(part, Thinking) or (isinstance(part, Text) and is_blank(part.text))) for part in parts)


def _name_fault(unfit: Sequence[tuple[InvalidCall, ToolCall]]) -> str:
    return f"{unfit[0][1].name or 'a call'}: " + (
        "there is no such tool" if unfit[0][0].kind == "unknown_tool" else "the arguments do not fit"
    )


def _withdraw(event: Event) -> Event | None:
    """Return an event for a client whose model is asked again: a call that has begun does not arrive."""
    if isinstance(event, CallEnded):
        return CallRefused(event.call, _ASKED_AGAIN, event.index)
    if isinstance(event, CallBroken):
        withdrawn = ToolCall("", event.name or "", {})
        return None if event.index is None else CallRefused(withdrawn, _ASKED_AGAIN, event.index)
    return event
