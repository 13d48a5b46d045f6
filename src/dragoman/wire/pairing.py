"""Every call gets exactly one result, right behind it: the pairing that all wires demand."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.types import InvalidCall, Part, Role, ToolCall, ToolResult
from dragoman.types import Text as TextPart
from dragoman.wire.report import Loss

INTERRUPTED = "not executed: interrupted"


class Turn(Struct):
    """A message on its way: where it stood, and which calls it holds or answers."""

    place: int
    role: Role
    parts: list[Part]
    extra: dict[str, Any] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    """The numbers of its calls, or of the calls that its results answer."""
    named: list[int] = field(default_factory=list)


class _Slot:
    """A call that waits for its result."""

    __slots__ = ("call", "number", "result")

    def __init__(self, number: int, call: ToolCall | InvalidCall) -> None:
        self.number = number
        self.call = call
        self.result: ToolResult | None = None


def pair(turns: list[Turn], losses: list[Loss]) -> list[Turn]:
    """Put behind every assistant turn with calls one turn with all their results, in the order of the calls.

    A call without a result is answered with an error, a result without a call becomes user text; both are reported.
    """
    pairing = _Pairing(losses)
    for turn in turns:
        pairing.add(turn)
    return pairing.finish()


class _Pairing:
    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._out: list[Turn | list[_Slot]] = []
        self._places: dict[int, int] = {}
        self._waiting: dict[str, list[_Slot]] = {}
        self._latest: list[_Slot] = []  # the calls of the last assistant turn that had any
        self._count = 0

    def add(self, turn: Turn) -> None:
        results = [part for part in turn.parts if isinstance(part, ToolResult)]
        rest: list[Part] = [part for part in turn.parts if not isinstance(part, ToolResult)]
        for result in results:
            rest = self._answer(result, turn.place, rest)
        if turn.role == "assistant":
            self._open(turn, rest)
        elif rest or not results:
            role: Role = "user" if turn.role == "tool" else turn.role
            self._out.append(Turn(turn.place, role, rest, turn.extra))

    def _open(self, turn: Turn, parts: list[Part]) -> None:
        slots: list[_Slot] = []
        for part in parts:
            if isinstance(part, ToolCall | InvalidCall):
                slots.append(_Slot(self._count, part))
                self._waiting.setdefault(part.id, []).append(slots[-1])
                self._count += 1
        numbers = [slot.number for slot in slots]
        self._out.append(Turn(turn.place, "assistant", parts, turn.extra, numbers))
        if slots:
            self._places[id(slots)] = turn.place
            self._out.append(slots)
            self._latest = slots

    def _answer(self, result: ToolResult, place: int, rest: list[Part]) -> list[Part]:
        slot = self._find(result)
        if slot is None:
            self._losses.append(Loss("moved", f"message {place}", "a result without its call became user text"))
            text = result.content if isinstance(result.content, str) else _join(result)
            label = f"[result of {result.name or 'a tool'}, whose call is not in this conversation]"
            return [TextPart(f"{label}\n{text}"), *rest]
        slot.result = result
        return rest

    def _find(self, result: ToolResult) -> _Slot | None:
        if not result.call_id:
            free = [slot for slot in self._latest if slot.result is None]
            return next((slot for slot in free if not result.name or slot.call.name == result.name), None)
        waiting = self._waiting.get(result.call_id)
        if not waiting:
            return None
        # The first one of the latest turn: ids that weak servers make come again in every turn.
        start = self._latest[0].number
        place = next((index for index, slot in enumerate(waiting) if slot.number >= start), len(waiting) - 1)
        return waiting.pop(place)

    def finish(self) -> list[Turn]:
        turns: list[Turn] = []
        for entry in self._out:
            if isinstance(entry, Turn):
                turns.append(entry)
            else:
                place = self._places[id(entry)]
                parts: list[Part] = [self._settle(slot, place) for slot in entry]
                turns.append(Turn(place, "tool", parts, numbers=[slot.number for slot in entry]))
        return turns

    def _settle(self, slot: _Slot, place: int) -> ToolResult:
        call, result = slot.call, slot.result
        if result is not None:
            return result if result.name else replace(result, name=call.name)
        if isinstance(call, InvalidCall):
            faults = "; ".join(map(str, call.faults))
            words = f"Not run: the call could not be read ({faults}). It was written as:\n{call.raw}"
        else:
            words = INTERRUPTED
            self._losses.append(
                Loss("inserted", f"message {place}", f"call {call.id} of {call.name} had no result: {INTERRUPTED}")
            )
        return ToolResult(call.id, call.name, words, is_error=True)


def _join(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, TextPart))
