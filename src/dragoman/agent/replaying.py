"""What became of the calls of a run that is brought back, as its records tell it. Pure.

The rules may be others by now: somebody resumes with another mode, or kept a rule meanwhile. What happened under the
old ones has happened: a call that was denied is not run after all, and one that has run is not run twice.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dragoman.agent.inputs import Input, Replied
from dragoman.agent.setup import Setup
from dragoman.journal.journal import Record
from dragoman.policy import Decision
from dragoman.types import Tool, ToolCall

_TELLING = {"approved": "ask", "denied": "ask", "finished": "allow", "input": "allow"}
"""What was decided on a call, by the first record about it that stands behind the decision."""
_WAS_DENIED = "it was denied when the run came to it, before it was resumed"


class Past:
    """The records of a run, and how far they have been told again."""

    def __init__(self, records: Sequence[Record], setup: Setup) -> None:
        self._records = records
        self._setup = setup
        self._place = 0
        self._calls: list[ToolCall] = []

    def reach(self, record: Record, told: Input) -> None:
        """This one is told next."""
        self._place = record.number
        if isinstance(told, Replied):
            self._calls = list(told.found.calls)

    def correct(self, now: Decision, call: ToolCall, tool: Tool) -> Decision:
        """What was decided on a call then, where it is known; else what is decided `now`."""
        behind = self._find_behind(call)
        seen: set[str] = set()
        for number in range(self._place + 1, len(self._records)):
            record = self._records[number]
            if record.kind == "reply" or record.call_id in behind:
                return now if self._is_denial(now) else Decision("deny", _WAS_DENIED, "the journal", "replayed")
            if record.call_id == call.id:
                seen.add(record.kind)
                if record.kind in _TELLING:
                    return replace(now, verdict=_TELLING[record.kind])
        if "started" in seen and not (tool.repeatable or tool.read_only):
            # It is not run again: the model is told that its outcome is unknown.
            return replace(now, verdict="allow")
        # An answer that waits is read first, also where no question would be asked any more: it may be a denial.
        return replace(now, verdict="ask") if "answered" in seen and now.verdict == "allow" else now

    def _is_denial(self, decision: Decision) -> bool:
        return decision.verdict == "deny" or (decision.verdict == "ask" and not self._setup.has_approver)

    def _find_behind(self, call: ToolCall) -> set[str]:
        """The calls that cannot have begun before this one was settled; safe ones run beside one another."""
        ids = [each.id for each in self._calls]
        if call.id not in ids:
            return set()
        place = ids.index(call.id)
        while place < len(ids) and self._is_safe(self._calls[place]):
            place += 1
        return set(ids[max(place, ids.index(call.id) + 1) :])

    def _is_safe(self, call: ToolCall) -> bool:
        tool = self._setup.tools.find(call.name)
        return tool is not None and tool.parallel_safe
