"""A watcher: it sees every call and every result of a run, and says when they go in circles.

Calls are compared by name, arguments *and* result, never by the name alone: the same tool with other arguments, or
with another answer, is work and not a loop. What happens several times within one turn counts once, because the model
had no chance to learn in between. Nothing here reads a clock or draws lots: replaying the same calls gives the same
verdicts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from msgspec import Struct

from dragoman.agent.watchers import fingerprints, wording
from dragoman.agent.watchers.circles import Circle, Circles, Pair
from dragoman.agent.watchers.failures import Failures
from dragoman.agent.watchers.fingerprints import Digest
from dragoman.agent.watchers.sameness import Sameness
from dragoman.agent.watchers.settings import Steps, Verdict, WatchSettings
from dragoman.types import File, Image, InvalidCall, Reply, Thinking, Tool, ToolCall, ToolResult

__all__ = ["Steps", "Verdict", "Watch", "WatchSettings", "duplicates", "is_blank", "is_starved"]

_SEVERITY = ("warn", "block", "end")
# What a tool says that has done something and has nothing to tell: no sign of standing still.
_ACKNOWLEDGEMENTS = frozenset(
    {"", "ok", "okay", "done", "success", "succeeded", "saved", "written", "created", "updated", "deleted", "sent"}
    | {"true", "null", "none", "{}", "[]", '{"ok":true}', '{"ok": true}', '{"success": true}', '{"status": "ok"}'}
)

PATIENCE = WatchSettings()
"""The settings that hold where nobody says otherwise."""


class Watch:
    """Sees the calls of one run: `before` each, `after` each, and `turn` when all of a turn have their results."""

    def __init__(self, settings: WatchSettings = PATIENCE) -> None:
        self._settings = settings
        self._circles = Circles(settings.repeats, settings.cycles, settings.longest_cycle)
        self._sameness = Sameness(settings.window)
        self._failures = Failures()
        self._number = 0
        self._turn = _TurnSoFar()
        self._last: frozenset[Pair] = frozenset()
        self._idle = 0
        self._text: Digest = b""

    # ---- before a call -----------------------------------------------------------------------------------------------

    def before(self, call: ToolCall, tool: Tool | None = None) -> Verdict | None:
        """A verdict `block` when the call is not to be run, else None. The message is the result to give instead."""
        if self._is_exempt(call, tool):
            return None
        key = self._turn.key(call)
        if key not in self._turn.asked:
            self._turn.asked[key] = self._judge_call(call, key)
            self._count_attempt(call, key)
        blocked = self._turn.asked[key]
        if blocked is None:
            return None
        self._turn.keep(call, (key, blocked.expected), failed=blocked.fails, exempt=False)
        return blocked.verdict

    def _judge_call(self, call: ToolCall, key: Digest) -> _Blocked | None:
        name, settings = call.name, self._settings
        circle = self._circles.foresee(key)  # asked first and always: it keeps count of what is under way
        failed = self._failures.foresee(name, key)
        if settings.failures is not None and failed is not None and failed[0] >= settings.failures:
            verdict = Verdict("block", "repeated_failure", wording.failed(name, failed[0], blocked=True))
            return _Blocked(verdict, failed[1], fails=True)
        if circle is not None:
            found, expected = circle
            return _Blocked(self._speak_of_circle("block", found, name), expected[1])
        same = self._sameness.foresee(self._number, name, key) if settings.same_results else None
        if same is not None and settings.same_results and settings.same_results.blocks(same[0]):
            verdict = Verdict("block", "same_result", wording.same_result(name, same[0], blocked=True))
            return _Blocked(verdict, same[1])
        return None

    def _count_attempt(self, call: ToolCall, key: Digest) -> None:
        """A blocked attempt counts as one more of the same, so that insisting on it ends the run."""
        blocked = self._turn.asked[key]
        if blocked is None:
            return
        self._turn.told = True
        if blocked.fails:
            self._circles.forget(key)  # however often: a failing tool does not end a run
            return
        verdict = self._after_success(call, (key, blocked.expected), counts=True)
        if verdict is not None and verdict.action == "end":
            self._turn.ending = verdict

    # ---- after a call ------------------------------------------------------------------------------------------------

    def after(self, call: ToolCall, tool: Tool | None, result: ToolResult) -> Verdict | None:
        """A verdict `warn` (a note for the model) or `end`, or None. Blocked calls may be told as well."""
        key = self._turn.key(call)
        if self._turn.asked.get(key) is not None:
            return self._turn.ending
        digest = fingerprints.of_result(result)
        exempt = self._is_exempt(call, tool)
        self._turn.keep(call, (key, digest), failed=result.is_error, exempt=exempt)
        if exempt:
            return None
        verdict = self._after_failure(call, key, digest) if result.is_error else None
        if not result.is_error:
            self._failures.succeed(call.name, key)
            verdict = self._after_success(call, (key, digest), counts=not _only_acknowledges(result, tool))
        self._turn.told = self._turn.told or verdict is not None
        return verdict

    def _after_failure(self, call: ToolCall, key: Digest, error: Digest) -> Verdict | None:
        self._circles.forget(key)
        count = self._failures.add(self._number, call.name, key, error)
        if self._settings.failures is None or count < self._settings.failures:
            return None
        return Verdict("warn", "repeated_failure", wording.failed(call.name, count, blocked=False))

    def _after_success(self, call: ToolCall, pair: Pair, *, counts: bool) -> Verdict | None:
        if pair in self._turn.counted:
            return None
        self._turn.counted.add(pair)
        found = [self._judge_circle(self._circles.add(pair), call.name)]
        if counts:
            found.append(self._judge_sameness(call.name, pair))
        verdicts = [verdict for verdict in found if verdict is not None]
        return max(verdicts, key=lambda verdict: _SEVERITY.index(verdict.action), default=None)

    def _judge_circle(self, circle: Circle | None, name: str) -> Verdict | None:
        if circle is None or not circle.whole:
            return None
        steps = self._circles.steps(circle)
        if steps.ends(circle.count):
            return self._speak_of_circle("end", circle, name)
        return self._speak_of_circle("warn", circle, name) if steps.warns(circle.count) else None

    def _judge_sameness(self, name: str, pair: Pair) -> Verdict | None:
        steps = self._settings.same_results
        if steps is None:
            return None
        count = self._sameness.add(self._number, name, *pair)
        if (name, pair[1]) in self._turn.same or not (steps.warns(count) or steps.ends(count)):
            return None
        self._turn.same.add((name, pair[1]))
        message = wording.same_result(name, count, blocked=False)
        if steps.ends(count):
            return Verdict("end", "same_result", wording.ended(message))
        return Verdict("warn", "same_result", message)

    def _speak_of_circle(self, action: str, circle: Circle, name: str) -> Verdict:
        blocked = action == "block"
        if circle.period == 1:
            kind, message = "repeated_call", wording.repeated(name, circle.count, blocked=blocked)
        else:
            kind = "ping_pong"
            message = wording.alternated(name, circle.count, circle.period, blocked=blocked)
        if action == "end":
            return Verdict("end", kind, wording.ended(message))
        return Verdict("block" if blocked else "warn", kind, message)

    # ---- the end of a turn -------------------------------------------------------------------------------------------

    def turn(
        self, calls: Sequence[ToolCall | InvalidCall], results: Iterable[ToolResult], text: str = ""
    ) -> Verdict | None:
        """A verdict `end` when turn after turn brings nothing new, or a blocked call is insisted on; else None.

        Told at the end of every turn that had calls, with all of them, whether they ran or not.
        """
        so_far, self._turn = self._turn, _TurnSoFar()
        self._number += 1
        self._circles.close_turn()
        pairs, idle = so_far.sum_up(calls, results)
        fresh = self._is_fresh(text)
        if not idle or fresh or pairs != self._last:
            self._idle = 1 if idle else 0
            self._last = pairs
            if fresh:
                self._text = fingerprints.of_text(text.strip())
            return so_far.ending
        self._idle += 1
        limit = self._settings.idle_turns
        # A model that was told something just now gets its chance to do something about it, but not for ever.
        if limit is None or self._idle < (2 * limit if so_far.told else limit):
            return so_far.ending
        return Verdict("end", "no_progress", wording.idle(self._idle))

    def _is_fresh(self, text: str) -> bool:
        return not is_blank(text) and fingerprints.of_text(text.strip()) != self._text

    def _is_exempt(self, call: ToolCall, tool: Tool | None) -> bool:
        return call.name in self._settings.exempt or (tool is not None and tool.metadata.get("polling") is True)


class _Blocked(Struct, frozen=True):
    """A call that is not run, and the result or the error that it would have had."""

    verdict: Verdict
    expected: Digest
    fails: bool = False


class _TurnSoFar:
    """What one turn has brought until now."""

    def __init__(self) -> None:
        self.asked: dict[Digest, _Blocked | None] = {}
        self.counted: set[Pair] = set()
        self.same: set[tuple[str, Digest]] = set()
        self.told = False
        self.ending: Verdict | None = None
        self._keys: dict[str, tuple[ToolCall, Digest]] = {}
        self._kept: dict[str, tuple[Pair, bool]] = {}  # by the id of the call: what came of it, and whether it counts

    def key(self, call: ToolCall) -> Digest:
        known = self._keys.get(call.id)
        if known is not None and known[0] is call:
            return known[1]
        key = fingerprints.of_call(call)
        self._keys[call.id] = (call, key)
        return key

    def keep(self, call: ToolCall, pair: Pair, *, failed: bool, exempt: bool) -> None:
        self._kept[call.id] = (pair, not failed and not exempt)

    def sum_up(
        self, calls: Sequence[ToolCall | InvalidCall], results: Iterable[ToolResult]
    ) -> tuple[frozenset[Pair], bool]:
        """All pairs of the turn whatever their order, and whether it can be one without progress.

        A turn in which everything failed, or of polling alone, never is.
        """
        pairs: set[Pair] = set()
        counts = False
        answers = {result.call_id: result for result in results}
        for call in calls:
            kept = self._kept.get(call.id)
            if kept is not None:
                pairs.add(kept[0])
                counts = counts or kept[1]
            elif isinstance(call, ToolCall) and call.id in answers:
                answer = answers[call.id]
                pairs.add((self.key(call), fingerprints.of_result(answer)))
                counts = counts or not answer.is_error
        return frozenset(pairs), counts


def _only_acknowledges(result: ToolResult, tool: Tool | None) -> bool:
    """`ok` from a tool that writes says that something was done; from one that reads it says nothing."""
    content = result.content
    if not isinstance(content, str) or len(content) > 20 or (tool is not None and tool.read_only):
        return False
    return content.strip().rstrip(".!").strip('"').lower() in _ACKNOWLEDGEMENTS


def duplicates(calls: Iterable[ToolCall | InvalidCall]) -> dict[str, str]:
    """Identical calls within one turn: the id of each later one, and the id of the first."""
    first: dict[Digest, str] = {}
    found: dict[str, str] = {}
    for call in calls:
        if isinstance(call, ToolCall):
            original = first.setdefault(fingerprints.of_call(call), call.id)
            if original != call.id:
                found[call.id] = original
    return found


# ---- replies that say nothing ------------------------------------------------------------------------------------

_INVISIBLE = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
# Fillers and selectors that count as letters or marks and still show nothing.
_FILLERS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))


def is_blank(what: str | Reply) -> bool:
    """Whether there is nothing to see: no text but white space and invisible characters. A reply with a call, an image
    or a file is not blank."""
    if isinstance(what, Reply):
        others = (ToolCall, InvalidCall, Image, File)
        return not any(isinstance(part, others) for part in what.message.parts) and is_blank(what.text)
    if what.isspace() or not what:
        return True
    return all(unicodedata.category(each) in _INVISIBLE or each in _FILLERS for each in what)


def is_starved(reply: Reply, limit: int | None = None) -> bool:
    """Whether the model thought until its tokens were used up, and came to neither text nor calls.

    `limit` is the most tokens that were asked for: some servers report a normal end at the limit.
    """
    used_up = reply.stop == "length" or (limit is not None and 0 < limit <= reply.usage.output_tokens)
    thought = reply.usage.reasoning_tokens > 0 or any(
        isinstance(part, Thinking) and not is_blank(part.text) for part in reply.message.parts
    )
    return used_up and thought and is_blank(reply)
