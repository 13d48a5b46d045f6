"""A grammar in the Lark syntax of llguidance.

Everything is written as terminals: they are joined into one automaton, so that it never depends on where a lexer
would cut the text.
"""

from __future__ import annotations

import json

from dragoman.formats.grammars.nodes import Chars, Choice, Free, Node, Ref, Repeat, Row, Text, Tree, runs

_ANY = r"[^\u{0}]"
"""Any character that a model writes. With a plain dot, the engine loses ways out of a bounded text without markers."""


def write_lark(tree: Tree) -> str:
    """The grammar as text; the same tree gives the same text."""
    writer = _Writer()
    lines = ["start: START", f"START: {writer.alternatives(tree.root)}"]
    lines += [f"{_name(name)}: {writer.alternatives(node)}" for name, node in tree.reachable().items()]
    return "\n".join([*lines, ""])


def _name(name: str) -> str:
    return "R_" + name.replace("-", "_").upper()


class _Writer:
    def alternatives(self, node: Node) -> str:
        ways = node.ways if isinstance(node, Choice) else (node,)
        return " | ".join(self._sequence(way) for way in ways)

    def _sequence(self, node: Node) -> str:
        return " ".join(map(self._unit, node.parts)) if isinstance(node, Row) else self._unit(node)

    def _unit(self, node: Node) -> str:
        if isinstance(node, Text):
            return json.dumps(node.text, ensure_ascii=False)
        if isinstance(node, Chars):
            return f"/{_class(node)}/"
        if isinstance(node, Ref):
            return _name(node.name)
        if isinstance(node, Repeat):
            return self._single(node.part) + _count(node.least, node.most)
        if isinstance(node, Free):
            return self._free(node)
        return f"({self.alternatives(node)})"

    def _single(self, node: Node) -> str:
        text = self._sequence(node)
        return text if isinstance(node, Ref | Choice) else f"({text})"

    def _free(self, node: Free) -> str:
        plain = _class(Chars(runs("\0" + node.barred), True))
        unit = f"/{plain}/" if node.escape is None else f"(/{plain}/ | {self.alternatives(node.escape)})"
        parts = [unit + _count(node.least, node.most)]
        if node.starts_visible:
            parts.append(rf"/[^\u{{0}} \t\r\n]{_ANY}*/")
        parts += _avoid(node.markers)
        return parts[0] if len(parts) == 1 else f"({' & '.join(parts)})"


# ---- markers ---------------------------------------------------------------------------------------------------------
#
# Texts without a marker are spelt out and not written as a complement: next to a counted repeat, the engine loses ways
# out of those. A marker is its first character, some times over, and a rest without it. So a text is cut into runs of
# that character, each with what follows it, and behind a run that is long enough no such rest may begin.


def _avoid(markers: tuple[str, ...]) -> list[str]:
    """Patterns that hold for every text in which none of the markers stands."""
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
    runs_of: list[tuple[str, _Trie]] = []
    for length in range(1, longest + 1):
        barred = [rest for least, found in rests.items() if least <= length for rest in found]
        runs_of.append((f"{first}{{{length}}}" if length < longest else f"{first}{{{length},}}", _grow(barred)))
    inner = "|".join(run + _begin(trie, character, empty=False) for run, trie in runs_of)
    last = "|".join(run + _begin(trie, character, empty=True) for run, trie in runs_of)
    return f"{other}*({inner})*({last})?"


_Trie = dict[str, "_Trie"]


def _grow(texts: list[str]) -> _Trie:
    """The texts letter by letter; `""` marks where one ends."""
    trie: _Trie = {}
    for text in texts:
        node = trie
        for letter in text:
            node = node.setdefault(letter, {})
        node[""] = {}
    return trie


def _begin(trie: _Trie, character: str, *, empty: bool) -> str:
    """What follows a run and begins with none of these texts."""
    if "" in trie:
        return r"[^\u{0}-\u{10FFFF}]"  # nothing at all
    letters = "".join(map(_escape, sorted(trie)))
    ways = [rf"[^\u{{0}}{_escape(character)}{letters}][^\u{{0}}{_escape(character)}]*"]
    ways += [
        _escape(letter) + _begin(child, character, empty=True)
        for letter, child in sorted(trie.items())
        if "" not in child
    ]
    return f"({'|'.join(ways)})" + ("?" if empty else "")


# ---- characters ------------------------------------------------------------------------------------------------------


def _count(least: int, most: int | None) -> str:
    known = {(0, None): "*", (1, None): "+", (0, 1): "?"}
    if (least, most) in known:
        return known[least, most]
    return f"{{{least}}}" if least == most else f"{{{least},{'' if most is None else most}}}"


def _class(node: Chars) -> str:
    inner = "".join(_escape(low) if low == high else f"{_escape(low)}-{_escape(high)}" for low, high in node.ranges)
    return f"[{'^' if node.negated else ''}{inner}]"


def _escape(text: str) -> str:
    return "".join(each if each.isascii() and each.isalnum() else f"\\u{{{ord(each):X}}}" for each in text)
