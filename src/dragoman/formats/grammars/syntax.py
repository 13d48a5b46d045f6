"""Writers of grammars: GBNF (llama.cpp) and Lark (llguidance)."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from msgspec.structs import replace

from dragoman.formats.cursor import Trie, grow
from dragoman.formats.grammars.nodes import (
    Automaton,
    Chars,
    Choice,
    Concatenation,
    FreeText,
    Node,
    Ref,
    Repeat,
    Text,
    Tree,
    runs,
)

# --------------------------------------------------------------------------------------------------------------------
# The common part of both syntaxes.


class _Writer(ABC):
    """Writes nodes; a subclass defines how its syntax writes literals, characters, names and free text."""

    repeatable: ClassVar[tuple[type, ...]]
    """Nodes that are one symbol. In a literal of several characters, a repeat would apply to the last one only."""

    def alternatives(self, node: Node) -> str:
        ways = node.ways if isinstance(node, Choice) else (node,)
        return " | ".join(self._sequence(way) for way in ways)

    def _sequence(self, node: Node) -> str:
        return " ".join(map(self._unit, node.parts)) if isinstance(node, Concatenation) else self._unit(node)

    def _unit(self, node: Node) -> str:
        if isinstance(node, Text):
            return self._text(node.text)
        if isinstance(node, Chars):
            return self._chars(node)
        if isinstance(node, Ref):
            return self._name(node.name)
        if isinstance(node, Repeat):
            text = self._sequence(node.part)
            unit = text if isinstance(node.part, self.repeatable) else f"({text})"
            return self._repeat(unit, node.least, node.most)
        if isinstance(node, FreeText):
            return self._free(node)
        return f"({self.alternatives(node)})"

    def _repeat(self, unit: str, least: int, most: int | None) -> str:
        known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
        count = f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"
        return unit + known.get((least, most), count)

    @abstractmethod
    def _text(self, text: str) -> str: ...

    @abstractmethod
    def _chars(self, node: Chars) -> str: ...

    @abstractmethod
    def _name(self, name: str) -> str: ...

    @abstractmethod
    def _free(self, free: FreeText) -> str: ...


# --------------------------------------------------------------------------------------------------------------------
# A grammar in GBNF, the syntax of llama.cpp.

_MOST_REPEATS = 1500
"""llama.cpp rejects 2000 and more."""
_BLOCK = 200
_MOST_AGAIN = 7
_MOST_STATES = 200
_MOST_LAYERS = 1200
_BLANKS = " \t\r\n"
_unprintable = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]").sub
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\", '"': '\\"'}
_TABLE = str.maketrans(_ESCAPES)


def write_gbnf(tree: Tree) -> str:
    """Write the grammar; equal trees give equal texts."""
    return _GbnfWriter(tree).write()


class _GbnfWriter(_Writer):
    repeatable = (Ref, Chars, Choice)

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._rules = tree.reachable()
        self._lines: list[str] = []
        self._frees: dict[FreeText, str] = {}
        self._helpers: dict[str, str] = {}
        self._made = 0

    def write(self) -> str:
        lines = [f"root ::= {self.alternatives(self._tree.root)}"]
        lines += [f"{name} ::= {self.alternatives(node)}" for name, node in self._rules.items()]
        return "\n".join([*lines, *self._lines, ""])

    def _text(self, text: str) -> str:
        return quote(text)

    def _chars(self, node: Chars) -> str:
        return _gbnf_class(node)

    def _name(self, name: str) -> str:
        return name

    def _helper(self, body: str, hint: str = "part") -> str:
        """Return the name of an additional rule of the writer."""
        name = self._helpers.get(body)
        if name is None:
            name = self._helpers[body] = self._fresh(hint)
            self._lines.append(f"{name} ::= {body}")
        return name

    def _fresh(self, hint: str) -> str:
        self._made += 1
        name = f"{hint}--{self._made}"
        return name if name not in self._rules else self._fresh(hint)

    def _repeat(self, unit: str, least: int, most: int | None) -> str:
        if max(least, most or 0) <= _MOST_REPEATS:
            return super()._repeat(unit, least, most)
        one = self._helper(unit)
        block = self._helper(f"{one}{{{_BLOCK}}}")
        needed = self._blocks(one, block, least)
        if most is None:
            return f"{needed} {one}*"
        extra = most - least
        if extra < _BLOCK:
            return f"{needed} {one}{{0,{extra}}}"
        whole, rest = divmod(extra, _BLOCK)
        ways = f"{block}{{0,{whole - 1}}} {one}{{0,{_BLOCK - 1}}} | {self._blocks(one, block, whole * _BLOCK)}"
        return f"{needed} ({ways} {one}{{0,{rest}}})".strip()

    def _blocks(self, one: str, block: str, count: int) -> str:
        """Repeat a part exactly so often, mostly in blocks."""
        whole, rest = divmod(count, _BLOCK)
        return " ".join(([f"{block}{{{whole}}}"] if whole else []) + ([f"{one}{{{rest}}}"] if rest else []))

    # ---- free text -----------------------------------------------------------------------------------------------

    def _free(self, free: FreeText) -> str:
        if not free.markers and not free.starts_visible:
            return self._repeat(self._character(free), free.least, free.most)
        if _is_too_long(free):
            first = "".join(sorted({marker[0] for marker in free.markers}))
            return self._free(replace(free, markers=(), barred=free.barred + first))
        if free not in self._frees:
            name = self._frees[free] = self._fresh("text")
            self._lines += _FreeWriter(free, name, self._escape(free), self._repeat).write()
        return self._frees[free]

    def _escape(self, free: FreeText) -> str:
        return "" if free.escape is None else self._helper(self.alternatives(free.escape), "escape")

    def _character(self, free: FreeText) -> str:
        plain = _write_class(free.barred, negated=True)
        escape = self._escape(free)
        return self._helper(f"{plain} | {escape}", "char") if escape else plain


def _is_too_long(free: FreeText) -> bool:
    """Whether a count would need a rule for each of very many characters. Then no marker may begin in the text."""
    counted = free.most if free.exact and free.most is not None else free.least
    return counted > _MOST_LAYERS // 4 and bool(free.markers) and not free.starts_visible


class _FreeWriter:
    """Writes text without markers: one rule for each state of the search, and for each count that matters."""

    def __init__(self, free: FreeText, name: str, escape: str, repeat: Callable[[str, int, int | None], str]) -> None:
        self._repeat = repeat
        self._free = free
        self._name = name
        self._escape = escape
        self._waiting: list[tuple[str, int, int]] = []
        self._asked: set[str] = set()
        self._limit = free.most if free.exact else None
        counted = free.least if self._limit is None else self._limit
        self._machine = Automaton(free.markers)
        for length in (8, 6, 4, 2):
            if (counted + 1) * len(self._machine) <= _MOST_LAYERS and len(self._machine) <= _MOST_STATES:
                break
            # If characters are counted, or markers have many spellings, even the beginning of a marker is excluded.
            # That accepts fewer texts, but none that is too long.
            self._machine = Automaton(tuple(dict.fromkeys(marker[:length] for marker in free.markers)))

    def write(self) -> list[str]:
        """Write the rules, one line each; with a loop, because a limit may be thousands of characters."""
        lines = [f"{self._name} ::= {self._from(0, 0)}"]
        makers = {"at": self._at, "any": self._endless, "rest": self._rest, "unit": self._unit}
        makers |= {"again": self._again, "shut": self._shut, "open": self._open}
        while self._waiting:
            kind, state, count = self._waiting.pop()
            lines.append(f"{self._title(kind, state, count)} ::= {makers[kind](state, count)}")
        return lines

    def _ask(self, kind: str, state: int, count: int = 0) -> str:
        """Return the name of a rule, which is written later."""
        name = self._title(kind, state, count)
        if name not in self._asked:
            self._asked.add(name)
            self._waiting.append((kind, state, count))
        return name

    def _title(self, kind: str, state: int, count: int) -> str:
        return f"{self._name}-{kind}-{state}-{count}" if kind == "at" else f"{self._name}-{kind}-{state}"

    def _steps(self, state: int, barred: str) -> list[tuple[str, int]]:
        moves = self._machine.moves(state, barred)
        steps = [(_write_class(move.characters, negated=move.negated), move.state) for move in moves]
        return [*steps, (self._escape, 0)] if self._escape else steps

    def _from(self, state: int, count: int) -> str:
        """Return what may follow after so many characters, with a count or without."""
        free = self._free
        if self._limit is not None or count < free.least or (count == 0 and free.starts_visible):
            return self._ask("at", state, count)
        return self._ask("any" if free.most is None or not self._machine.is_plain else "rest", state)

    def _at(self, state: int, count: int) -> str:
        ways = ['""'] if count >= self._free.least else []
        if self._limit is None or count < self._limit:
            barred = self._free.barred + (_BLANKS if count == 0 and self._free.starts_visible else "")
            ways += [f"{start} {self._from(target, count + 1)}" for start, target in self._steps(state, barred)]
        return " | ".join(ways)

    def _endless(self, state: int, _: int) -> str:
        steps = (f"{start} {self._ask('any', target)}" for start, target in self._steps(state, self._free.barred))
        return " | ".join(['""', *steps])

    # A limit that need not be exact counts characters outside of markers, and incomplete markers as one each.
    # So the size is not the number of states times the limit.

    def _rest(self, state: int, _: int) -> str:
        free = self._free
        left = max(0, (free.most or 0) - max(free.least, int(free.starts_visible)))
        again = f"{self._ask('again', 0)}{{0,{_MOST_AGAIN}}}"
        if state == 0:
            return f"{self._repeat(self._ask('unit', 0), 0, left)} {again}"
        resumed = f"{self._ask('open', state)} {again} ({self._ask('shut', 0)} {self._ask('rest', 0)})?"
        return f"{self._ask('shut', state)} {self._ask('rest', 0)} | {resumed}"

    def _unit(self, _: int, __: int) -> str:
        """Return one character, or beginnings of markers, the last of which stays incomplete."""
        plain = [start for start, target in self._steps(0, self._free.barred) if not target]
        return " | ".join([*plain, f"{self._ask('again', 0)}{{0,{_MOST_AGAIN}}} {self._ask('shut', 0)}"])

    def _again(self, _: int, __: int) -> str:
        """Return the beginning of a marker, interrupted by the beginning of the next one."""
        return " | ".join(f"{start} {self._ask('open', target)}" for start, target in self._forward(0))

    def _shut(self, state: int, _: int) -> str:
        """Return a character that does not continue any marker here."""
        away = [start for start, target in self._steps(state, self._free.barred) if not target] if state else []
        return " | ".join([*away, *(f"{start} {self._ask('shut', to)}" for start, to in self._forward(state))])

    def _open(self, state: int, _: int) -> str:
        """Return the continuation of a marker, up to any place before its end."""
        return " | ".join(['""', *(f"{start} {self._ask('open', to)}" for start, to in self._forward(state))])

    def _forward(self, state: int) -> list[tuple[str, int]]:
        moves = self._machine.moves(state, self._free.barred)
        return [
            (_write_class(move.characters, negated=False), move.state)
            for move in moves
            if not move.negated and self._machine.goes_on(state, move)
        ]


# ---- characters ------------------------------------------------------------------------------------------------------


def quote(text: str) -> str:
    """A literal."""
    return f'"{_unprintable(_write_number, text.translate(_TABLE))}"'


def _write_number(found: re.Match[str]) -> str:
    return _number(found[0])


def _number(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02X}" if code < 0x100 else f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def _plain(character: str) -> str:
    return character if character.isascii() and character.isalnum() else _ESCAPES.get(character) or _number(character)


def _gbnf_class(node: Chars) -> str:
    inner = "".join(_plain(low) if low == high else f"{_plain(low)}-{_plain(high)}" for low, high in node.ranges)
    return f"[{'^' if node.negated else ''}{inner}]"


def _write_class(characters: str, *, negated: bool) -> str:
    return _gbnf_class(Chars(runs(characters), negated))


# --------------------------------------------------------------------------------------------------------------------
# A grammar in the Lark syntax of llguidance.
#
# Everything is written as terminals. The engine joins them to one automaton, so the result does not depend on where a
# lexer would split the text.

_ANY = r"[^\u{0}]"
"""Any character that a model writes. With a plain dot, the engine loses exits of a bounded text without markers."""


def write_lark(tree: Tree) -> str:
    """Write the grammar; equal trees give equal texts."""
    writer = _LarkWriter()
    lines = ["start: START", f"START: {writer.alternatives(tree.root)}"]
    lines += [f"{_lark_name(name)}: {writer.alternatives(node)}" for name, node in tree.reachable().items()]
    return "\n".join([*lines, ""])


def _lark_name(name: str) -> str:
    return "R_" + name.replace("-", "_").upper()


class _LarkWriter(_Writer):
    repeatable = (Ref, Choice)

    def _text(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)

    def _chars(self, node: Chars) -> str:
        return f"/{_lark_class(node)}/"

    def _name(self, name: str) -> str:
        return _lark_name(name)

    def _free(self, free: FreeText) -> str:
        plain = _lark_class(Chars(runs("\0" + free.barred), True))
        unit = f"/{plain}/" if free.escape is None else f"(/{plain}/ | {self.alternatives(free.escape)})"
        parts = [self._repeat(unit, free.least, free.most)]
        if free.starts_visible:
            parts.append(rf"/[^\u{{0}} \t\r\n]{_ANY}*/")
        parts += _avoid(free.markers)
        return parts[0] if len(parts) == 1 else f"({' & '.join(parts)})"


# ---- markers ---------------------------------------------------------------------------------------------------------
#
# Texts without a marker are written out and not as a complement: next to a counted repeat, the engine loses exits of a
# complement. A marker is its first character, one or more times, and a rest without it. So a text is split into runs of
# that character, each with the text after it, and after a run that is long enough no such rest may begin.


def _avoid(markers: tuple[str, ...]) -> list[str]:
    """Return patterns for all texts that contain none of the markers."""
    groups: dict[str, dict[int, list[str]]] = {}
    odd: list[str] = []
    for marker in markers:
        rest = marker.lstrip(marker[0])
        if marker[0] in rest:
            odd.append(marker)
        else:
            groups.setdefault(marker[0], {}).setdefault(len(marker) - len(rest), []).append(rest)
    found = [f"/{_without(character, rests)}/" for character, rests in groups.items()]
    if odd:
        found.append(f"~/{_ANY}*({'|'.join(map(_escape, odd))}){_ANY}*/")
    return found


def _without(character: str, rests: dict[int, list[str]]) -> str:
    first, other = _escape(character), f"[^\\u{{0}}{_escape(character)}]"
    longest = max(rests)
    runs_of: list[tuple[str, Trie]] = []
    for length in range(1, longest + 1):
        barred = [rest for least, found in rests.items() if least <= length for rest in found]
        runs_of.append((f"{first}{{{length}}}" if length < longest else f"{first}{{{length},}}", grow(barred)))
    inner = "|".join(run + _begin(trie, character, empty=False) for run, trie in runs_of)
    last = "|".join(run + _begin(trie, character, empty=True) for run, trie in runs_of)
    return f"{other}*({inner})*({last})?"


def _begin(trie: Trie, character: str, *, empty: bool) -> str:
    """Return the text after a run that begins with none of these texts."""
    if "" in trie:
        return r"[^\u{0}-\u{10FFFF}]"  # the empty text
    letters = "".join(map(_escape, sorted(trie)))
    ways = [rf"[^\u{{0}}{_escape(character)}{letters}][^\u{{0}}{_escape(character)}]*"]
    ways += [
        _escape(letter) + _begin(child, character, empty=True)
        for letter, child in sorted(trie.items())
        if "" not in child
    ]
    return f"({'|'.join(ways)})" + ("?" if empty else "")


# ---- characters ------------------------------------------------------------------------------------------------------


def _lark_class(node: Chars) -> str:
    inner = "".join(_escape(low) if low == high else f"{_escape(low)}-{_escape(high)}" for low, high in node.ranges)
    return f"[{'^' if node.negated else ''}{inner}]"


def _escape(text: str) -> str:
    return "".join(each if each.isascii() and each.isalnum() else f"\\u{{{ord(each):X}}}" for each in text)
