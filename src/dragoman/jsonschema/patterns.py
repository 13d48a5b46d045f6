"""The work of the patterns in a schema: how large a pattern is once it is compiled, and what it costs for a text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

# --------------------------------------------------------------------------------------------------------------------
# The engine compiles a pattern to an automaton and copies the repeated part for each repetition: `(a{0,50}){0,50}` has
# 2,500 states. For each character of a text, the automaton may visit every state. A pattern with a look-around or a
# back-reference does not fit an automaton. The engine tries every way to match it, up to a number of attempts.
#
# So a pattern has a size and a class, and both determine its cost for a text. The reader of a pattern only has to be
# right about what makes it expensive: for a pattern that it does not understand, it takes the largest size.

MOST_ATTEMPTS = 5_000
"""How often the engine goes back in one text before it reports that a pattern does not match."""
MOST_SIZE = 50_000
"""More than the patterns of any real schema have together. The engine compiles so many states in a fraction of a
second."""
MOST_STEPS = 1 << 60

_LONGEST_TRIED = 1_000
"""The longest text for which the engine may try every way to match."""
_UNIT = 4
"""The cost of a pattern is counted in units of 1/16 of the visit of a schema."""
_FEW_STATES = 16
"""An automaton of so few states soon has a cached step for each character."""
_WIDE, _WIDEST, _NESTED = 4, 32, 4
_FEW_CHOICES = 2

_ODD = re.compile(r"\(\?|\\[1-9A-Za-z]")
_COUNTS = re.compile(r"\{[\s\d,]*\d[\s\d,]*\}")
_WIDE_SET = re.compile(r"\[\^|\\[DWSs]|[^\x00-\x7f]|\\u")
_TOKEN = re.compile(
    r"""(?P<property>\\[pP](?:\{[^{}]*\}|.))
    |(?P<wide>\\[DWSs]|\.)
    |(?P<edge>\\[bB]|\^|\$)
    |(?P<escape>\\(?:[xuU]\{[0-9A-Fa-f]*\}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|c[A-Za-z]|[^A-Za-z0-9]|[dwnrtfv0]))
    |(?P<hard>\\.)
    |(?P<set>\[(?!\^?\])(?:[^\[\]\\]|\\.)+\])
    |(?P<flags>\(\?[imsuU-]+\))
    |(?P<look>\(\?<?[=!])
    |(?P<atomic>\(\?>)
    |(?P<open>\((?:\?:|\?[imsuU-]+:|\?P?<[A-Za-z_][A-Za-z_0-9]*>|(?!\?)))
    |(?P<close>\))
    |(?P<either>\|)
    |(?P<repeat>(?:[*+?]|\{[\s\d,]*\d[\s\d,]*\})[?+]?)
    |(?P<plain>[^\\\[(])""",
    re.VERBOSE | re.DOTALL,
)


class Cost(Struct, frozen=True):
    """What one pattern costs."""

    size: int
    """The states of its automaton, with all repetitions."""
    weight: int
    """Its cost for each character."""
    kind: Literal["linear", "quadratic", "backtracking"] = "linear"

    def steps(self, length: int) -> int:
        """The most that it costs for a text of this length, in visits of a schema."""
        if self.kind == "linear":
            return self.weight * length >> _UNIT
        if length > _LONGEST_TRIED:
            return MOST_STEPS
        if self.kind == "quadratic":
            return self.weight * length * length >> _UNIT
        return MOST_ATTEMPTS * length * (length + 16) * self.size >> 2 * _UNIT


@lru_cache(maxsize=1024)
def cost_of(pattern: str) -> Cost:
    """Return the cost of a pattern; never too low."""
    scan = _Scan()
    position = 0
    while position < len(pattern):
        token = _TOKEN.match(pattern, position)
        if token is None or not scan.take(str(token.lastgroup), token[0]):
            return _largest(pattern)
        position = token.end()
    return scan.finish() or _largest(pattern)


def _largest(pattern: str) -> Cost:
    """The cost of a pattern in an unusual notation: as if every repetition were inside every other one."""
    size = _WIDEST * len(pattern)
    for counts in _COUNTS.findall(pattern):
        size = min(size * _highest(counts) * _NESTED, MOST_STEPS)
    return Cost(size, 4 * size, "backtracking" if _ODD.search(pattern) else "linear")


def _highest(counts: str) -> int:
    """The largest number in `{2,5}`."""
    return max(int(digits[-9:]) if len(digits) < 10 else MOST_STEPS for digits in re.findall(r"\d+", counts))


class _Group(Struct):
    """A part of a pattern: its size, and what is in it."""

    size: int = 0
    choices: int = 0
    is_hard: bool = False
    """Whether it has a look-around or another part that no automaton can match."""
    is_counted: bool = False
    """Whether it has a counted repetition."""

    def add(self, other: _Group) -> None:
        self.size = min(self.size + other.size, MOST_STEPS)
        self.choices += other.choices
        self.is_hard = self.is_hard or other.is_hard
        self.is_counted = self.is_counted or other.is_counted


class _Scan:
    """One pass over the tokens of a pattern."""

    __slots__ = ("_has_begun", "_is_nested", "_is_simple", "_last", "_open", "_seen")

    def __init__(self) -> None:
        self._open = [_Group()]
        self._last: _Group | None = None  # what a repetition would repeat; it is no part of its group yet
        self._seen: list[str] = []
        self._is_nested = False
        self._is_simple = True  # so far, only look-aheads behind a `^` are no part of an automaton
        self._has_begun = False  # whether anything came behind the look-aheads

    def take(self, kind: str, text: str) -> bool:
        """Read one token; return False if the pattern is unusual."""
        if kind == "repeat":
            return self._repeat(text)
        self._settle()
        if len(self._seen) < 5:
            self._seen.append(kind)
        if kind in ("open", "look", "atomic"):
            self._begin(kind, text)
        elif kind == "close":
            if len(self._open) == 1:
                return False
            self._last = self._open.pop()
        elif kind == "either":
            self._open[-1].choices += 1
            self._is_simple = self._is_simple and len(self._open) > 1
        elif kind != "flags":
            self._last = _Group(_size_of(kind, text), is_hard=kind == "hard")
            if kind == "hard":
                self._is_simple = False
            elif len(self._open) == 1 and not (text == "^" and self._seen == ["edge"]):
                self._has_begun = True
        return True

    def _begin(self, kind: str, text: str) -> None:
        is_hard = kind != "open"
        if is_hard and (len(self._open) > 1 or self._has_begun or self._seen[0] != "edge" or "<" in text):
            self._is_simple = False
        if kind == "atomic":
            self._is_simple = False
        if not is_hard and len(self._open) == 1:
            self._has_begun = True
        self._open.append(_Group(is_hard=is_hard))

    def _settle(self) -> None:
        if self._last is not None:
            self._open[-1].add(self._last)
            self._last = None

    def _repeat(self, text: str) -> bool:
        item = self._last
        if item is None:
            return False
        if len(self._seen) < 5:
            self._seen.append("repeat")
        if text[-1] == "+" and len(text) > 1:
            item.is_hard, self._is_simple = True, False
        if item.is_hard:
            self._is_simple = False
        times = _highest(text) if text[0] == "{" else 1
        if item.choices or item.is_hard:
            self._is_nested = True
        if times > 1:
            item.size = min((item.size + 1) * times * (_NESTED if item.is_counted else 1), MOST_STEPS)
            item.is_counted = True
        item.choices += 1
        return True

    def finish(self) -> Cost | None:
        self._settle()
        if len(self._open) > 1:
            return None
        whole = self._open[0]
        size = whole.size + 1
        is_one_repetition = self._seen[:1] + self._seen[2:] == ["edge", "repeat", "edge"] and not whole.is_hard
        # In `^[a-z]{1,500}$`, only one of the states is active.
        active = min(size, _FEW_STATES) if is_one_repetition else size
        weight = active if active <= _FEW_STATES else 4 * active
        if not whole.is_hard:
            return Cost(size, weight)
        if self._is_simple:
            return Cost(size, 2 * weight)
        is_tame = whole.choices <= _FEW_CHOICES and not self._is_nested
        return Cost(size, weight, "quadratic" if is_tame else "backtracking")


def _size_of(kind: str, text: str) -> int:
    if kind == "edge":
        return 0
    if kind == "property" or (kind == "set" and ("\\p" in text or "\\P" in text)):
        return _WIDEST
    if kind == "wide" or (kind == "set" and _WIDE_SET.search(text)) or not text.isascii():
        return _WIDE
    return 1
