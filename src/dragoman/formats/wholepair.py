"""A shortcut for arguments that have arrived whole, as they do when a text is not streamed.

One regular expression takes what the steps would take one by one. It is deliberately narrow: a key with a bracket, a
value that holds another tag of the format, a missing closer, and it steps aside for the steps, which know them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from dragoman.formats.markers import Markers
from dragoman.formats.template import Hole, Literal, Many, Maybe, Node, Space

_BLANKS = r"[ \t\r\n]*"
_VALUE = Hole("value")
_SLOT = r"[^<>\"'\\\n]{1,200}?"


def with_returns(space: str) -> str:
    """White space with the line ends of Windows."""
    return space.replace("\r\n", "\n").replace("\n", "\r\n")


class WholePair:
    """The body of `{* ... *}` as one pattern."""

    def __init__(self, nodes: tuple[Node, ...], first: Markers, exits: Markers) -> None:
        self._nodes = nodes[:-1] if isinstance(nodes[-1], Space) else nodes
        self._follows = "|".join(re.escape(text) for text in sorted((*first, *exits), key=len, reverse=True))
        self._others = Markers((*first, *exits))
        self._match: Callable[[str, int], re.Match[str] | None] | None = None

    def match(self, text: str, position: int) -> re.Match[str] | None:
        """The whole argument that stands here, if it is a plain one."""
        pattern = self._match or self._compile()
        found = pattern(text, position)
        if found is None or self._others.find(found["value"], 0, final=True) is not None:
            return None
        return found

    def _compile(self) -> Callable[[str, int], re.Match[str] | None]:
        source = "".join(self._write(index, node) for index, node in enumerate(self._nodes))
        self._match = re.compile(f"{source}(?={_BLANKS}(?P<next>{self._follows}))", re.DOTALL).match
        return self._match

    def _write(self, index: int, node: Node) -> str:
        if isinstance(node, Literal):
            spellings = "|".join(map(re.escape, sorted(node.spellings, key=len, reverse=True)))
            trail = self._nodes[index - 1] if index > 1 and self._nodes[index - 2] == _VALUE else None
            return self._write_framed(index, spellings, trail.text) if isinstance(trail, Space) else f"(?:{spellings})"
        if isinstance(node, Space):
            return self._write_space(index)
        if isinstance(node, Hole):
            return "(?P<value>.*?)" if node.kind == "value" else f"(?P<{node.kind}>{_SLOT})"
        assert isinstance(node, Maybe | Many)
        return "(?:" + "".join(self._write(-1, inner) for inner in node.body) + ")?"

    def _write_space(self, index: int) -> str:
        """White space next to a value is exact, elsewhere any will do."""
        if index > 0 and self._nodes[index - 1] == _VALUE:
            return ""  # it is written with the closer
        if 0 <= index < len(self._nodes) - 1 and self._nodes[index + 1] == _VALUE:
            return r"(?:(?P<plain>\n)|\r\n)?"
        return _BLANKS

    def _write_framed(self, index: int, closers: str, trail: str) -> str:
        """A closer with and without the white space that ends a value, which a plain line feed in front keeps plain.

        Each way begins with its own character: the search passes over all the others without a closer look.
        """
        ways = [closers, f"{re.escape(trail)}(?:{closers})"]
        first, rest = re.escape(with_returns(trail)[0]), f"{re.escape(with_returns(trail)[1:])}(?:{closers})"
        is_led = index > 2 and isinstance(self._nodes[index - 3], Space)
        ways.append(f"{first}(?(plain)(?!)|{rest})" if is_led else first + rest)
        return f"(?:{'|'.join(ways)})"
