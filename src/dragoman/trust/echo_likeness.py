"""How alike a call and a place in a text are, when some of its characters were changed."""

from __future__ import annotations

from dragoman.trust.echo_budget import Budget
from dragoman.trust.echo_quarry import Leaf, Quarry

_LONG = 400
"""Longer values are compared piece by piece: what was changed in them is a small part anyway."""
_PIECE = 16
_MOST_PLACES = 3
_ROOM = 60
"""How much wrapper may stand between a key and its value."""
_FEW_EDITS, _MOST_CHANGED, _RECOGNISED = 10, 0.35, 20
"""Up to ten changed characters leave a call similar, unless they are more than a third of values this long."""
_FRAME = 4
"""The quotes, colon and comma around a key, which two calls of the same tool share as well."""


def score_likeness(quarry: Quarry, window: str, least: float, budget: Budget) -> float:
    """The part of a call's keys and values that a stretch of text holds, from 0 to 1; 0 if that is too little.

    Enough is `least` of the whole, or all but a few characters of values that are long enough to be recognised.
    """
    budget.spend(2 + len(window) * (len(quarry.leaves) + len(quarry.keys)) // 1000)
    frame = _FRAME * len(quarry.keys)
    weight = quarry.weight + frame
    values = sum(leaf.weight for leaf in quarry.leaves)
    may_lack = max(weight * (1 - least), min(_FEW_EDITS, values * _MOST_CHANGED) if values >= _RECOGNISED else 0)
    lacking: float = sum(len(key) for key in quarry.keys if key not in window)
    for leaf in sorted(quarry.leaves, key=_weight, reverse=True):
        lacking += leaf.weight - _credit(leaf, window, budget)
        if lacking > may_lack:
            return 0.0
    return (weight - lacking) / weight if weight else 0.0


def _weight(leaf: Leaf) -> int:
    return leaf.weight


def _credit(leaf: Leaf, window: str, budget: Budget) -> float:
    """How many characters of a value stand in the window, at best."""
    if any(form in window for form in leaf.forms):
        return leaf.weight
    value = leaf.forms[0]
    if len(value) > _LONG:
        return _credit_long(value, window, budget)
    if not _shares_enough(value, window, budget):
        return 0.0
    fewest = len(value)
    for place in _places(leaf, window):
        budget.spend(2 * len(place))
        fewest = min(fewest, count_edits(value, place))
    return len(value) - fewest


def _places(leaf: Leaf, window: str) -> set[str]:
    """Where the value may stand: behind its key."""
    room = len(leaf.forms[0]) * 5 // 4 + _ROOM
    places: set[str] = set()
    at = window.find(leaf.key) if leaf.key else -1
    while at >= 0 and len(places) < _MOST_PLACES:
        start = at + len(leaf.key)
        places.add(window[start : start + room])
        at = window.find(leaf.key, start)
    return places or {window[:room]}


def _shares_enough(value: str, window: str, budget: Budget) -> bool:
    """Whether so many pairs of characters are the same that a comparison is worth while."""
    pairs = {value[at : at + 2] for at in range(len(value) - 1)}
    budget.spend(1 + len(pairs) // 8)
    return sum(pair in window for pair in pairs) * 4 >= len(pairs)


def count_edits(value: str, place: str) -> int:
    """The fewest changed, lost or added characters by which the value becomes a part of the place.

    The columns of the usual table are the bits of two numbers (Myers, 1999), so that a step costs the same for any
    length of the value.
    """
    length = len(value)
    letters: dict[str, int] = {}
    for at, letter in enumerate(value):
        letters[letter] = letters.get(letter, 0) | 1 << at
    top, full = 1 << (length - 1), (1 << length) - 1
    more, less = full, 0
    edits = fewest = length
    for letter in place:
        equal = letters.get(letter, 0)
        vertical = equal | less
        horizontal = (((equal & more) + more) ^ more) | equal
        up, down = less | (full & ~(horizontal | more)), more & horizontal
        if up & top:
            edits += 1
        elif down & top:
            edits -= 1
            fewest = min(fewest, edits)
        up, down = up << 1, down << 1
        more = (down | ~(vertical | up)) & full
        less = up & vertical & full
    return fewest


def _credit_long(value: str, window: str, budget: Budget) -> float:
    pieces = [value[at : at + _PIECE] for at in range(0, len(value), _PIECE)]
    budget.spend(1 + len(pieces) * len(window) // 4000)
    found = sum(each in window for each in pieces)
    if found * 2 < len(pieces):
        return float(found * _PIECE)
    # Most is there: what is missing was changed in a character or two.
    return len(value) - 1.5 * (len(pieces) - found)
