"""Loop detection: watch every call and result of a run for repetition."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman import characters
from dragoman.errors import ConfigError
from dragoman.types import File, Image, InvalidCall, Reply, Thinking, Tool, ToolCall, ToolResult
from dragoman.types import Text as TextPart

# --------------------------------------------------------------------------------------------------------------------
# When a watcher warns, when it blocks a call, and when it ends the run.

Action = Literal["warn", "block", "end"]


class Verdict(Struct, frozen=True):
    """The finding of a watcher about a call, a result or a turn.

    `warn`: the message is a note for the model, appended to the result. `block`: the call does not run, and the message
    is its result. `end`: the run ends, and the message is the reason. `kind` names the detector.
    """

    action: Action
    kind: str
    message: str


class Thresholds(Struct, frozen=True):
    """The counts at which a detector warns, blocks and ends the run; None disables a step."""

    warn: int | None
    block: int | None
    end: int | None

    def __post_init__(self) -> None:
        given = [step for step in (self.warn, self.block, self.end) if step is not None]
        if any(step < 2 for step in given) or given != sorted(given):
            raise ConfigError(
                f"the thresholds of a watcher are {given}",
                hint="each is at least 2, in the order warn, block, end; None disables a step",
            )

    def reaches(self, action: Action, count: int) -> bool:
        """Whether the count triggers this action. For `block` the count includes the call that would be blocked."""
        step: int | None = getattr(self, action)
        return step is not None and count >= step


class WatchSettings(Struct, frozen=True):
    """The settings of a watcher. A detector that is None is off; `WatchSettings.off()` switches all of them off."""

    repeats: Thresholds | None = Thresholds(3, 4, 5)
    """The same call with the same result, in a row."""
    cycles: Thresholds | None = Thresholds(4, 5, 6)
    """Two or more calls that alternate, each with its own constant result. The count is in full rounds."""
    same_results: Thresholds | None = Thresholds(5, 6, 7)
    """One tool that returns the same result for different arguments."""
    failures: int | None = 3
    """One tool that fails with the same error. After this many in a row, calls that failed with it do not run again."""
    denials: int | None = 3
    """The same call, denied this often: the run ends. An approver is asked about it only once."""
    idle_turns: int | None = 3
    """Turns in a row with the same calls, the same results and no new text."""
    window: int = 20
    """The number of successful calls that `same_results` remembers."""
    longest_cycle: int = 5
    """The maximum number of calls in one round of `cycles`."""
    exempt: tuple[str, ...] = ()
    """Tools that may repeat calls, in addition to those with `metadata={"polling": True}`."""

    def __post_init__(self) -> None:
        counts = {"failures": self.failures, "denials": self.denials, "idle_turns": self.idle_turns}
        for name, count in counts.items():
            if count is not None and count < 2:
                raise ConfigError(f"{name} of a watcher is {count}", hint="give 2 or more, or None to disable it")
        if self.window < 1 or self.longest_cycle < 2:
            raise ConfigError(
                f"a watcher with window {self.window} and longest_cycle {self.longest_cycle}",
                hint="a window holds at least one call, a cycle at least two",
            )

    @classmethod
    def off(cls) -> WatchSettings:
        """Return settings that disable every detector."""
        return cls(repeats=None, cycles=None, same_results=None, failures=None, denials=None, idle_turns=None)


# --------------------------------------------------------------------------------------------------------------------
# Messages of a watcher: what was repeated, how often, and what to do instead.

_ADVICE = "Use what you already know, change the arguments, or go another way; if nothing is left to do, answer now."


_READ_IT = "Read the error, then change the arguments or go another way; if that is not possible, say so."
_MESSAGES = {
    "repeated_call": (
        f"{{name!r}} was called {{count}} times in a row with the same arguments and gave the same result. {_ADVICE}",
        "Not run: this is call {count} in a row of {name!r} with the same arguments, and the result was the same every "
        f"time. It stands above and will not change. {_ADVICE}",
    ),
    "ping_pong": (
        "The same {period} calls were made {count} times in turn, and each gave the same result as before. " + _ADVICE,
        "Not run: with this call of {name!r} the same {period} calls would have been made {count} times in turn, each "
        f"with the same result as before. {_ADVICE}",
    ),
    "same_result": (
        f"{{name!r}} has given the same result {{count}} times, although its arguments were different. {_ADVICE}",
        "Not run: {name!r} has given the same result {before} times, although its arguments were different. Other "
        f"arguments are not likely to change that. {_ADVICE}",
    ),
    "repeated_failure": (
        "{name!r} has failed {count} times in a row with the same error. It is not run again with arguments that "
        f"failed so. {_READ_IT}",
        "Not run: {name!r} has failed {count} times in a row with the same error, and with these arguments as well. "
        f"{_READ_IT}",
    ),
}
"""By the kind of repetition: the note after a result, and the result of a blocked call."""


def _make_verdict(action: Action, kind: str, name: str, count: int, period: int = 1) -> Verdict:
    note, refusal = _MESSAGES[kind]
    message = refusal if action == "block" else note
    message = message.format(name=name, count=count, before=count - 1, period=period)
    # The reason of an ended run is for people, so it contains no advice for the model.
    return Verdict(
        action, kind, message.removesuffix(_ADVICE).strip().removesuffix(".") if action == "end" else message
    )


# --------------------------------------------------------------------------------------------------------------------
# Fingerprints of calls and results: equal for equal content, computed in one pass without copies.
#
# The order of keys does not matter; everything else does.

Digest = bytes
_SIZE = 16
_encode = msgspec.json.Encoder(order="deterministic").encode


def call_digest(call: ToolCall) -> Digest:
    """Return the digest of the name and the arguments."""
    state = blake2b(call.name.encode("utf-8", "surrogatepass"), digest_size=_SIZE)
    state.update(b"\0")
    try:
        state.update(_encode(call.arguments))
    except (ValueError, RecursionError, OverflowError, TypeError):
        # JSON cannot represent lone surrogates, deep nesting or numbers of thousands of digits; a walk can read them.
        state.update(b"walked")
        _walk(call.arguments, state)
    return state.digest()


def result_digest(result: ToolResult) -> Digest:
    """Return the digest of what the model sees of a result, and of its error flag."""
    state = blake2b(b"error" if result.is_error else b"result", digest_size=_SIZE)
    content = result.content
    for part in [content] if isinstance(content, str) else content:
        _add_part(part, state)
    return state.digest()


def text_digest(text: str) -> Digest:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_SIZE).digest()


def _add_part(part: str | TextPart | Image | File, state: blake2b) -> None:
    if isinstance(part, str | TextPart):
        _add_text("text", part if isinstance(part, str) else part.text, state)
    elif isinstance(part, Image):
        _add_text("image", part.data or part.url or "", state)
    else:
        _add_text("file", part.name, state)
        _add_text("of", part.data or part.url or "", state)


def _add_text(kind: str, text: str, state: blake2b) -> None:
    data = text.encode("utf-8", "surrogatepass")
    state.update(f"{kind}{len(data)}:".encode())
    state.update(data)


def _walk(value: Any, state: blake2b) -> None:
    """Hash a value of any depth, with sorted keys. A value without a JSON form counts by its type and its text."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            state.update(b"{%d" % len(item))
            for key in sorted(item, key=str, reverse=True):
                waiting += [item[key], str(key)]
        elif isinstance(item, list | tuple):
            state.update(b"[%d" % len(item))
            waiting.extend(reversed(item))
        elif isinstance(item, str):
            _add_text("s", item, state)
        elif isinstance(item, int) and not isinstance(item, bool):
            _add_text("int", hex(item), state)  # the decimal form of a huge number needs quadratic time
        else:
            _add_text(type(item).__name__, repr(item), state)


# --------------------------------------------------------------------------------------------------------------------
# Repeated calls with the same results: one call that repeats, or several that alternate.

Pair = tuple[Digest, Digest]
"""The digests of a call and of its result."""
_UNKNOWN = b""


class Cycle(Struct, frozen=True):
    """A cycle of `period` calls, completed `count` times; `whole` if the last round is complete."""

    period: int
    count: int
    whole: bool = True


class CycleDetector:
    """Remembers calls and detects cycles. A cycle of one call is a plain repetition."""

    def __init__(self, repeats: Thresholds | None, cycles: Thresholds | None, longest: int) -> None:
        self._steps = [repeats, *([cycles] * (longest - 1))]  # by period, less one
        given = [step for steps in (repeats, cycles) if steps for step in (steps.warn, steps.block, steps.end) if step]
        self._most = longest * (max(given, default=1) + 1)
        self._pairs: list[Pair] = []  # of the earlier turns
        self._now: dict[Digest, Pair] = {}  # of this turn, in the order of the calls: the result, or the expected one
        self._settled: set[Digest] = set()

    def steps(self, cycle: Cycle) -> Thresholds:
        steps = self._steps[cycle.period - 1]
        assert steps is not None, "only periods with an enabled detector are searched"
        return steps

    def predict(self, call: Digest) -> tuple[Cycle, Pair] | None:
        """Return the cycle that this call would complete or continue, if its result is the same as last time."""
        last = next((pair for pair in reversed(self._pairs) if pair[0] == call), (call, _UNKNOWN))
        expected = self._now.setdefault(call, last)
        for cycle in self._find(self._until(call)):
            if self.steps(cycle).reaches("block", cycle.count):
                return cycle, expected
        return None

    def add(self, pair: Pair) -> Cycle | None:
        """Return the cycle to which this call and result belong, if there is one.

        Calls of one turn may finish in any order. What counts is the order of the calls in the reply.
        """
        key = pair[0] if pair[0] not in self._settled else pair[0] + pair[1]
        self._now[key] = pair
        self._settled.add(key)
        return max(self._find(self._until(key)), key=self._severity, default=None)

    def forget(self, call: Digest) -> None:
        """Remove the expectation for a call: it failed."""
        if call not in self._settled:
            self._now.pop(call, None)

    def close_turn(self) -> None:
        self._pairs += [pair for key, pair in self._now.items() if key in self._settled]
        if len(self._pairs) > 2 * self._most:
            del self._pairs[: -self._most]
        self._now = {}
        self._settled = set()

    def _until(self, key: Digest) -> list[Pair]:
        pairs = self._pairs[-self._most :]
        for other, pair in self._now.items():
            pairs.append(pair)
            if other == key:
                break
        return pairs

    def _severity(self, cycle: Cycle) -> int:
        steps, count = self.steps(cycle), cycle.count
        return 2 * steps.reaches("end", count) + steps.reaches("warn", count)

    def _find(self, pairs: list[Pair]) -> list[Cycle]:
        found = []
        for period, steps in enumerate(self._steps, start=1):
            if len(pairs) < 2 * period:
                break
            if steps is None:
                continue
            length = _run(pairs, period)
            if length >= 2 * period and _is_smallest(pairs, period):
                found.append(Cycle(period, length // period, length % period == 0))
        return found


def _run(pairs: list[Pair], period: int) -> int:
    """Return how many pairs at the end repeat with this period."""
    place = len(pairs) - 1
    while place >= period and pairs[place] == pairs[place - period]:
        place -= 1
    # The pair that stopped the search belongs to the first round, together with the pairs of that round before it.
    return len(pairs) - 1 - place + period if place < len(pairs) - 1 else 0


def _is_smallest(pairs: list[Pair], period: int) -> bool:
    """Whether a cycle is not itself a repetition: `A A` is one call twice, not a cycle of two."""
    last = pairs[-period:]
    return not any(
        period % part == 0 and all(last[place] == last[place - part] for place in range(part, period))
        for part in range(1, period)
    )


# --------------------------------------------------------------------------------------------------------------------
# One tool that fails repeatedly with the same error: a call that failed is not repeated unchanged.

_MOST_CALLS = 200


class _Streak(Struct):
    """Turns in a row that ended with the same error."""

    error: Digest
    turn: int
    count: int = 1

    def goes_on(self, error: Digest, turn: int) -> _Streak:
        if error != self.error:
            self.error, self.count = error, 1
        elif turn != self.turn:
            self.count += 1
        self.turn = turn
        return self


class FailureDetector:
    """Counts failures per tool and per call. It blocks only a call that has failed itself; other calls may run."""

    def __init__(self) -> None:
        self._tools: dict[str, _Streak] = {}
        self._calls: dict[Digest, _Streak] = {}

    def add(self, turn: int, name: str, call: Digest, error: Digest) -> int:
        """Return how often in a row this tool, or this call, has now failed with this error."""
        tool = self._tools.setdefault(name, _Streak(error, turn)).goes_on(error, turn)
        own = self._calls.setdefault(call, _Streak(error, turn)).goes_on(error, turn)
        if len(self._calls) > _MOST_CALLS:
            del self._calls[next(iter(self._calls))]
        return max(tool.count, own.count)

    def succeed(self, name: str, call: Digest) -> None:
        self._tools.pop(name, None)
        self._calls.pop(call, None)

    def predict(self, name: str, call: Digest) -> tuple[int, Digest] | None:
        """Return how often in a row the error of this call occurred, and the error; None if it has not failed."""
        own = self._calls.get(call)
        if own is None:
            return None
        tool = self._tools.get(name)
        return max(own.count, tool.count if tool is not None and tool.error == own.error else 0), own.error


# --------------------------------------------------------------------------------------------------------------------
# One tool that returns the same result for every request: other arguments are not likely to help.

_LEAST_ARGUMENTS = 2


class _Seen(Struct, frozen=True):
    turn: int
    name: str
    call: Digest
    result: Digest


class SameResultDetector:
    """Counts turns in which a tool returned the same result for different arguments, among the last calls.

    Calls of other tools in between do not matter. Another result of the same tool resets the count.
    """

    def __init__(self, window: int) -> None:
        self._seen: deque[_Seen] = deque(maxlen=window)

    def predict(self, turn: int, name: str, call: Digest) -> tuple[int, Digest] | None:
        """Return the count that includes this call, if it gives the usual result of the tool; and that result."""
        result = next((seen.result for seen in reversed(self._seen) if seen.name == name), None)
        if result is None:
            return None
        count = self._count(name, result, _Seen(turn, name, call, result))
        return (count, result) if count else None

    def add(self, turn: int, name: str, call: Digest, result: Digest) -> int:
        """Return the count that includes this result; 0 as long as the arguments were also the same."""
        self._seen.append(_Seen(turn, name, call, result))
        return self._count(name, result)

    def _count(self, name: str, result: Digest, next_one: _Seen | None = None) -> int:
        turns: set[int] = set()
        calls: set[Digest] = set()
        for seen in [*([next_one] if next_one else ()), *reversed(self._seen)]:
            if seen.name != name:
                continue
            if seen.result != result:
                break
            turns.add(seen.turn)
            calls.add(seen.call)
        return len(turns) if len(calls) >= _LEAST_ARGUMENTS else 0


# --------------------------------------------------------------------------------------------------------------------
# The watcher sees every call and every result of a run, and detects loops.
#
# Calls are compared by name, arguments *and* result, never by the name alone: the same tool with other arguments, or
# with another result, is progress. Repetitions within one turn count once, because the model had no chance to react in
# between. The watcher reads no clock and uses no randomness: a replay of the same calls gives the same verdicts.

__all__ = ["Thresholds", "Verdict", "Watch", "WatchSettings", "duplicates", "is_blank", "is_starved"]

_SEVERITY = ("warn", "block", "end")
# Results of tools that acted and have nothing to report. They are not a sign of a loop.
_ACKNOWLEDGEMENTS = frozenset(
    {"", "ok", "okay", "done", "success", "succeeded", "saved", "written", "created", "updated", "deleted", "sent"}
    | {"true", "null", "none", "{}", "[]", '{"ok":true}', '{"ok": true}', '{"success": true}', '{"status": "ok"}'}
)

PATIENCE = WatchSettings()
"""The default settings."""


class Watch:
    """Watches the calls of one run: `before` each, `after` each, and `turn` when all calls of a turn have results."""

    def __init__(self, settings: WatchSettings = PATIENCE) -> None:
        self._settings = settings
        self._cycles = CycleDetector(settings.repeats, settings.cycles, settings.longest_cycle)
        self._same_results = SameResultDetector(settings.window)
        self._failures = FailureDetector()
        self._number = 0
        self._turn = _TurnSoFar()
        self._last: frozenset[Pair] = frozenset()
        self._idle = 0
        self._text: Digest = b""
        self._denials: Counter[Digest] = Counter()
        self._rejected: set[Digest] = set()

    # ---- denials -----------------------------------------------------------------------------------------------------

    def was_rejected(self, call: ToolCall) -> bool:
        """Whether an approver denied this call before. A person who said no is not asked again."""
        return call_digest(call) in self._rejected

    def deny(self, call: ToolCall, *, by_approver: bool = False) -> Verdict | None:
        """Count a denial. Return the verdict `end` if the model insists."""
        most = self._settings.denials
        if most is None:
            return None
        if by_approver:
            self._rejected.add(call_digest(call))
        self._denials[call_digest(call)] += 1
        count = self._denials[call_digest(call)]
        if count < most:
            return None
        return Verdict("end", "denied", f"{call.name!r} was denied {count} times with the same arguments")

    # ---- before a call -----------------------------------------------------------------------------------------------

    def before(self, call: ToolCall, tool: Tool | None = None) -> Verdict | None:
        """Return a verdict `block` if the call must not run, otherwise None. The message is the result of the call."""
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
        cycle = self._cycles.predict(key)  # always called first: it tracks the calls of this turn
        failed = self._failures.predict(name, key)
        if settings.failures is not None and failed is not None and failed[0] >= settings.failures:
            return _Blocked(_make_verdict("block", "repeated_failure", name, failed[0]), failed[1], fails=True)
        if cycle is not None:
            found, expected = cycle
            return _Blocked(self._make_cycle_verdict("block", found, name), expected[1])
        same = self._same_results.predict(self._number, name, key) if settings.same_results else None
        if same is not None and settings.same_results and settings.same_results.reaches("block", same[0]):
            return _Blocked(_make_verdict("block", "same_result", name, same[0]), same[1])
        return None

    def _count_attempt(self, call: ToolCall, key: Digest) -> None:
        """Count a blocked attempt as a repetition, so that a model that insists on it ends the run."""
        blocked = self._turn.asked[key]
        if blocked is None:
            return
        self._turn.told = True
        if blocked.fails:
            self._cycles.forget(key)  # not counted: a failing tool does not end a run
            return
        verdict = self._after_success(call, (key, blocked.expected), counts=True)
        if verdict is not None and verdict.action == "end":
            self._turn.ending = verdict

    # ---- after a call ------------------------------------------------------------------------------------------------

    def after(self, call: ToolCall, tool: Tool | None, result: ToolResult) -> Verdict | None:
        """Return a verdict `warn` (a note for the model) or `end`, or None. Blocked calls may be passed as well."""
        key = self._turn.key(call)
        if self._turn.asked.get(key) is not None:
            return self._turn.ending
        digest = result_digest(result)
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
        self._cycles.forget(key)
        count = self._failures.add(self._number, call.name, key, error)
        if self._settings.failures is None or count < self._settings.failures:
            return None
        return _make_verdict("warn", "repeated_failure", call.name, count)

    def _after_success(self, call: ToolCall, pair: Pair, *, counts: bool) -> Verdict | None:
        if pair in self._turn.counted:
            return None
        self._turn.counted.add(pair)
        found = [self._judge_cycle(self._cycles.add(pair), call.name)]
        if counts:
            found.append(self._judge_same_results(call.name, pair))
        verdicts = [verdict for verdict in found if verdict is not None]
        return max(verdicts, key=lambda verdict: _SEVERITY.index(verdict.action), default=None)

    def _judge_cycle(self, cycle: Cycle | None, name: str) -> Verdict | None:
        if cycle is None or not cycle.whole:
            return None
        steps = self._cycles.steps(cycle)
        if steps.reaches("end", cycle.count):
            return self._make_cycle_verdict("end", cycle, name)
        return self._make_cycle_verdict("warn", cycle, name) if steps.reaches("warn", cycle.count) else None

    def _judge_same_results(self, name: str, pair: Pair) -> Verdict | None:
        steps = self._settings.same_results
        if steps is None:
            return None
        count = self._same_results.add(self._number, name, *pair)
        if (name, pair[1]) in self._turn.same or not (steps.reaches("warn", count) or steps.reaches("end", count)):
            return None
        self._turn.same.add((name, pair[1]))
        return _make_verdict("end" if steps.reaches("end", count) else "warn", "same_result", name, count)

    def _make_cycle_verdict(self, action: Action, cycle: Cycle, name: str) -> Verdict:
        return _make_verdict(
            action, "repeated_call" if cycle.period == 1 else "ping_pong", name, cycle.count, cycle.period
        )

    # ---- the end of a turn -------------------------------------------------------------------------------------------

    def turn(
        self, calls: Sequence[ToolCall | InvalidCall], results: Iterable[ToolResult], text: str = ""
    ) -> Verdict | None:
        """Return a verdict `end` if turns bring nothing new or the model insists on a blocked call.

        It is called at the end of every turn with calls, with all of them, whether they ran or not.
        """
        so_far, self._turn = self._turn, _TurnSoFar()
        self._number += 1
        self._cycles.close_turn()
        pairs, idle = so_far.sum_up(calls, results)
        fresh = not is_blank(text) and text_digest(text.strip()) != self._text
        if not idle or fresh or pairs != self._last:
            self._idle = 1 if idle else 0
            self._last = pairs
            if fresh:
                self._text = text_digest(text.strip())
            return so_far.ending
        self._idle += 1
        limit = self._settings.idle_turns
        # After a warning the model gets one chance to react, but not without limit.
        if limit is None or self._idle < (2 * limit if so_far.told else limit):
            return so_far.ending
        words = (
            f"no progress: {self._idle} turns in a row made the same calls, got the same results and said nothing new"
        )
        return Verdict("end", "no_progress", words)

    def _is_exempt(self, call: ToolCall, tool: Tool | None) -> bool:
        return call.name in self._settings.exempt or (tool is not None and tool.metadata.get("polling") is True)


class _Blocked(Struct, frozen=True):
    """A blocked call, and the result or the error that it would have had."""

    verdict: Verdict
    expected: Digest
    fails: bool = False


class _TurnSoFar:
    """The calls and results of the current turn."""

    def __init__(self) -> None:
        self.asked: dict[Digest, _Blocked | None] = {}
        self.counted: set[Pair] = set()
        self.same: set[tuple[str, Digest]] = set()
        self.told = False
        self.ending: Verdict | None = None
        self._keys: dict[str, tuple[ToolCall, Digest]] = {}
        self._kept: dict[str, tuple[Pair, bool]] = {}  # by the id of the call: its outcome, and whether it counts

    def key(self, call: ToolCall) -> Digest:
        known = self._keys.get(call.id)
        if known is not None and known[0] is call:
            return known[1]
        key = call_digest(call)
        self._keys[call.id] = (call, key)
        return key

    def keep(self, call: ToolCall, pair: Pair, *, failed: bool, exempt: bool) -> None:
        self._kept[call.id] = (pair, not failed and not exempt)

    def sum_up(
        self, calls: Sequence[ToolCall | InvalidCall], results: Iterable[ToolResult]
    ) -> tuple[frozenset[Pair], bool]:
        """Return all pairs of the turn in any order, and whether it can count as a turn without progress.

        A turn in which everything failed, or with only polling calls, never counts.
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
                pairs.add((self.key(call), result_digest(answer)))
                counts = counts or not answer.is_error
        return frozenset(pairs), counts


def _only_acknowledges(result: ToolResult, tool: Tool | None) -> bool:
    """Whether the result only confirms. `ok` from a tool that writes is progress; from a tool that reads it is not."""
    content = result.content
    if not isinstance(content, str) or len(content) > 20 or (tool is not None and tool.read_only):
        return False
    return content.strip().rstrip(".!").strip('"').lower() in _ACKNOWLEDGEMENTS


def duplicates(
    calls: Iterable[ToolCall | InvalidCall], may_change: Callable[[ToolCall], bool] = lambda call: False
) -> dict[str, str]:
    """Return identical calls within one turn: from the id of each later one to the id of the first.

    After a call that may change the world, an earlier result may be out of date, so only later calls share one.
    """
    first: dict[Digest, str] = {}
    found: dict[str, str] = {}
    for call in calls:
        if isinstance(call, ToolCall):
            digest = call_digest(call)
            original = first.setdefault(digest, call.id)
            if original != call.id:
                found[call.id] = original
            elif may_change(call):
                first = {digest: call.id}
    return found


# ---- empty replies -----------------------------------------------------------------------------------------------


def is_blank(what: str | Reply) -> bool:
    """Whether there is nothing to see: no text but white space and invisible characters. A reply with a call, an image
    or a file is not blank."""
    if isinstance(what, Reply):
        others = (ToolCall, InvalidCall, Image, File)
        return not any(isinstance(part, others) for part in what.message.parts) and is_blank(what.text)
    return characters.is_blank(what)


def is_starved(reply: Reply, limit: int | None = None) -> bool:
    """Whether the model used all its tokens for reasoning and produced neither text nor calls.

    `limit` is the requested maximum of tokens: some servers report a normal end at the limit.
    """
    used_up = reply.stop == "length" or (limit is not None and 0 < limit <= reply.usage.output_tokens)
    thought = reply.usage.reasoning_tokens > 0 or any(
        isinstance(part, Thinking) and not is_blank(part.text) for part in reply.message.parts
    )
    return used_up and thought and is_blank(reply)
