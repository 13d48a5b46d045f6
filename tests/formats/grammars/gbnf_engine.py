"""A small reader of GBNF and a recogniser for it, written without looking at the writer: the tests' second opinion.

It follows the rules of llama.cpp: names of letters, digits and dashes, literals and classes with its escapes, groups,
`| * + ?` and counted repeats below 2000; no rule may call itself on its left.
"""

from __future__ import annotations

import re
from functools import cache

Node = tuple[object, ...]
Stack = tuple[int, "Stack"] | None

_NAME = re.compile(r"[a-zA-Z0-9-]+")
_COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")
_HEX = {"x": 2, "u": 4, "U": 8}
_PLAIN = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", '"': '"', "[": "[", "]": "]"}


class BadGrammar(ValueError):
    """Text that llama.cpp would refuse."""


class Gbnf:
    """A grammar that was read from text; `accepts` says whether it generates a string."""

    def __init__(self, text: str) -> None:
        self._nodes: list[Node] = []
        self._ids: dict[Node, int] = {}
        self._rules: dict[str, int] = {}
        for line in text.splitlines():
            if line.strip() and not line.startswith("#"):
                self._read_rule(line)
        if "root" not in self._rules:
            raise BadGrammar("no rule named root")
        for node in list(self._nodes):
            if node[0] == "ref" and node[1] not in self._rules:
                raise BadGrammar(f"no rule named {node[1]}")
        self._refuse_left_recursion()
        self._closure = cache(self._close)

    # ---- reading -----------------------------------------------------------------------------------------------

    def _read_rule(self, line: str) -> None:
        match = re.match(r"([a-zA-Z0-9-]+) ::= ", line)
        if match is None:
            raise BadGrammar(f"not a rule: {line[:60]!r}")
        if match[1] in self._rules:
            raise BadGrammar(f"{match[1]} is there twice")
        self._text, self._at = line, match.end()
        self._rules[match[1]] = self._alternatives()
        if self._at != len(line):
            raise BadGrammar(f"{line[self._at :][:20]!r} is left over")

    def _keep(self, *node: object) -> int:
        number = self._ids.get(node)
        if number is None:
            number = self._ids[node] = len(self._nodes)
            self._nodes.append(node)
        return number

    def _peek(self) -> str:
        while self._text[self._at : self._at + 1] == " ":
            self._at += 1
        return self._text[self._at : self._at + 1]

    def _alternatives(self) -> int:
        ways = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            ways.append(self._sequence())
        return ways[0] if len(ways) == 1 else self._keep("alt", tuple(ways))

    def _sequence(self) -> int:
        parts: list[int] = []
        while (character := self._peek()) and character not in "|)":
            parts.append(self._repeats(self._symbol(character)))
        if not parts:
            raise BadGrammar("an empty alternative must be written as a literal")
        return self._keep("seq", tuple(parts))

    def _symbol(self, character: str) -> int:
        self._at += 1
        if character == "(":
            inner = self._alternatives()
            if self._peek() != ")":
                raise BadGrammar("a group is not closed")
            self._at += 1
            return inner
        if character == '"':
            return self._literal()
        if character == "[":
            return self._class()
        if character == ".":
            return self._keep("class", (), True)
        match = _NAME.match(self._text, self._at - 1)
        if match is None:
            raise BadGrammar(f"{character!r} begins nothing")
        self._at = match.end()
        return self._keep("ref", match[0])

    def _repeats(self, symbol: int) -> int:
        follows = self._text[self._at : self._at + 1]
        counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if follows in counts and follows:
            self._at += 1
            least, most = counts[follows]
            return self._keep("rep", symbol, least, most)
        match = _COUNT.match(self._text, self._at)
        if match is None:
            return symbol
        self._at = match.end()
        least, most = int(match[1]), int(match[1]) if match[2] is None else int(match[3]) if match[3] else None
        if max(least, most or 0) >= 2000 or (most is not None and most < least):
            raise BadGrammar(f"too many repeats: {match[0]}")
        return self._keep("rep", symbol, least, most)

    def _literal(self) -> int:
        found = ""
        while self._text[self._at] != '"':
            found += self._character()
        self._at += 1
        return self._keep("lit", found, 0)

    def _class(self) -> int:
        negated = self._text[self._at] == "^"
        self._at += negated
        ranges: list[tuple[str, str]] = []
        while self._text[self._at] != "]":
            low = high = self._character()
            if self._text[self._at] == "-" and self._text[self._at + 1] != "]":
                self._at += 1
                high = self._character()
            if low > high:
                raise BadGrammar("a range runs backwards")
            ranges.append((low, high))
        self._at += 1
        return self._keep("class", tuple(ranges), negated)

    def _character(self) -> str:
        character = self._text[self._at]
        self._at += 1
        if character != "\\":
            return character
        kind = self._text[self._at]
        self._at += 1
        if kind in _HEX:
            digits = self._text[self._at : self._at + _HEX[kind]]
            self._at += _HEX[kind]
            return chr(int(digits, 16))
        if kind not in _PLAIN:
            raise BadGrammar(f"unknown escape {kind!r}")
        return _PLAIN[kind]

    def _refuse_left_recursion(self) -> None:
        """No rule may come back to itself before a character is read."""
        nullable: set[int] = set()
        while True:
            more = {n for n in range(len(self._nodes)) if n not in nullable and self._is_nullable(n, nullable)}
            if not more:
                break
            nullable |= more
        edges = {name: self._leftmost(node, nullable) for name, node in self._rules.items()}
        done: set[str] = set()
        for start in edges:
            path: list[tuple[str, list[str]]] = [(start, sorted(edges[start]))]
            open_names = {start}
            while path:
                name, waiting = path[-1]
                if not waiting:
                    path.pop()
                    open_names.discard(name)
                    done.add(name)
                elif (following := waiting.pop()) in open_names:
                    raise BadGrammar(f"{following} calls itself on its left")
                elif following not in done:
                    path.append((following, sorted(edges[following])))
                    open_names.add(following)

    def _is_nullable(self, number: int, nullable: set[int]) -> bool:
        match self._nodes[number]:
            case ("lit", text, _):
                return not text
            case ("seq", parts):
                return all(part in nullable for part in parts)  # type: ignore[attr-defined]
            case ("alt", ways):
                return any(way in nullable for way in ways)  # type: ignore[attr-defined]
            case ("rep", part, least, _):
                return least == 0 or part in nullable
            case ("ref", name):
                return self._rules[str(name)] in nullable
        return False

    def _leftmost(self, number: int, nullable: set[int]) -> set[str]:
        match self._nodes[number]:
            case ("ref", name):
                return {str(name)}
            case ("alt", ways):
                return {name for way in ways for name in self._leftmost(way, nullable)}  # type: ignore[attr-defined]
            case ("rep", part, _, _):
                return self._leftmost(part, nullable)  # type: ignore[arg-type]
            case ("seq", parts):
                found: set[str] = set()
                for part in parts:  # type: ignore[attr-defined]
                    found |= self._leftmost(part, nullable)
                    if part not in nullable:
                        break
                return found
        return set()

    # ---- recognising -------------------------------------------------------------------------------------------

    def accepts(self, text: str) -> bool:
        """Whether the grammar generates this text."""
        return self.follow(text) == len(text) and None in self._stacks

    def follow(self, text: str) -> int:
        """How many characters of the text the grammar goes along with."""
        self._stacks: set[Stack] = set(self._closure((self._rules["root"], None)))
        for place, character in enumerate(text):
            following: set[Stack] = set()
            for stack in self._stacks:
                if stack is not None:
                    following.update(self._step(stack, character))
            if not following:
                return place
            self._stacks = following
        return len(text)

    @property
    def width(self) -> int:
        """How many ways are open at once: what an engine has to keep."""
        return len(self._stacks)

    def _step(self, stack: tuple[int, Stack], character: str) -> frozenset[Stack]:
        number, rest = stack
        node = self._nodes[number]
        if node[0] == "lit":
            text, place = str(node[1]), int(str(node[2]))
            if text[place] != character:
                return frozenset()
            return self._closure(rest if place + 1 == len(text) else (self._keep("lit", text, place + 1), rest))
        inside = any(low <= character <= high for low, high in node[1])  # type: ignore[attr-defined]
        return self._closure(rest) if inside != node[2] else frozenset()

    def _close(self, stack: Stack) -> frozenset[Stack]:
        """Every way to go on from here until a character is needed."""
        done: set[Stack] = set()
        waiting: list[Stack] = [stack]
        seen: set[Stack] = set()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            following = None if current is None else self._unfold(*current)
            if following is None:
                done.add(current)
            else:
                waiting.extend(following)
        return frozenset(done)

    def _unfold(self, number: int, rest: Stack) -> list[Stack] | None:
        """The stacks behind a node that reads nothing itself; None for one that reads a character."""
        match self._nodes[number]:
            case ("lit", "", _):
                return [rest]
            case ("seq", parts):
                for part in reversed(parts):  # type: ignore[call-overload]
                    rest = (part, rest)
                return [rest]
            case ("alt", ways):
                return [(way, rest) for way in ways]  # type: ignore[attr-defined]
            case ("ref", name):
                return [(self._rules[str(name)], rest)]
            case ("rep", int(part), int(least), most):
                found: list[Stack] = [] if least else [rest]
                if most is None or (isinstance(most, int) and most > 0):
                    fewer = None if most is None else int(str(most)) - 1
                    found.append((part, (self._keep("rep", part, max(0, least - 1), fewer), rest)))
                return found
        return None
