"""Random texts out of a grammar before it is written in any syntax."""

from __future__ import annotations

import random

from dragoman.formats.grammars.nodes import Chars, Choice, Concatenation, FreeText, Node, Ref, Repeat, Text, Tree

LETTERS = "abcXYZ019 \n\t.,:;-_\"'\\/<>{}[]()|`~&é日🎉\r"


class Sampler:
    """Draws texts; what may repeat is kept short, except that the ends of a range are drawn now and then."""

    def __init__(self, tree: Tree, lots: random.Random, spice: tuple[str, ...] = (), letters: str = LETTERS) -> None:
        self._letters = letters
        self._tree = tree
        self._lots = lots
        self._spice = spice

    def draw(self) -> str:
        return self._draw(self._tree.root)

    def _draw(self, node: Node) -> str:
        lots = self._lots
        if isinstance(node, Text):
            return node.text
        if isinstance(node, Ref):
            return self._draw(self._tree.rules[node.name])
        if isinstance(node, Concatenation):
            return "".join(map(self._draw, node.parts))
        if isinstance(node, Choice):
            return self._draw(lots.choice(node.ways))
        if isinstance(node, Repeat):
            return "".join(self._draw(node.part) for _ in range(self._times(node.least, node.most)))
        if isinstance(node, Chars):
            return self._character(node)
        return self._text(node)

    def _times(self, least: int, most: int | None) -> int:
        if most is not None and most <= 40 and self._lots.random() < 0.1:
            return most
        upper = least + 3 if most is None else min(most, least + 3)
        return self._lots.randint(least, upper)

    def _character(self, node: Chars) -> str:
        if node.negated:
            fitting = [each for each in LETTERS if not any(low <= each <= high for low, high in node.ranges)]
            return self._lots.choice(fitting)
        low, high = self._lots.choice(node.ranges)
        return chr(self._lots.randint(ord(low), ord(high)))

    def _text(self, node: FreeText) -> str:
        while True:
            found = self._attempt(node)
            if not any(marker in found for marker in node.markers) and not (
                node.starts_visible and found[:1].isspace()
            ):
                return found

    def _attempt(self, node: FreeText) -> str:
        count = self._times(node.least, node.most)
        found: list[str] = []
        while len(found) < count:
            lot = self._lots.random()
            if node.escape is not None and lot < 0.15:
                found.append(self._draw(node.escape))
            elif self._spice and lot < 0.3:
                # Markers, or most of one: they have to be kept out, or do no harm.
                piece = self._lots.choice(self._spice)
                cut = piece[: self._lots.randint(1, len(piece))]
                found.extend(each for each in cut if each not in node.barred)
            else:
                found.append(self._lots.choice([each for each in self._letters if each not in node.barred]))
        return "".join(found[: max(count, node.least)] if node.most is None else found[: min(len(found), node.most)])
