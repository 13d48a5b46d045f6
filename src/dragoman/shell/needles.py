"""What a deny or ask rule looks for, matched generously."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dragoman.shell.matching import STAR, CommandPattern, match_star
from dragoman.shell.programs import is_subcommand
from dragoman.shell.tables import words_of
from dragoman.shell.wrappers import base_name

# Their first word is the subcommand, written out in full; a literal word there settles what they do.
_SUBCOMMAND_FIRST = words_of(
    "git gh glab docker podman kubectl cargo pip pip3 uv poetry apt apt-get helm terraform pnpm yarn"
)
_CLUSTER = re.compile(r"-[A-Za-z]+\Z")
_NEXT_WORD = re.compile(r"[ \t]+([A-Za-z][A-Za-z0-9_:-]*)(?=[ \t\n;|&)]|\Z)")


class Needle:
    """One command that a rule names, with everything that could be another spelling of it."""

    def __init__(self, pattern: CommandPattern) -> None:
        self.is_anything = not pattern.words
        if self.is_anything:
            return
        self.program = base_name(pattern.words[0])
        self.rest = pattern.words[1:]
        self.prefix = pattern.prefix
        self._is_stem = pattern.is_stem
        self._operands = tuple(word for word in self.rest if not word.startswith("-") and word != STAR)
        self._options = tuple(word for word in self.rest if word.startswith("-"))
        end = "" if self._is_stem_of_program else r"(?![\w+-]|\.\w)"
        self._token = re.compile(r"(?<![\w.+-])" + re.escape(self.program) + end)

    @property
    def _is_stem_of_program(self) -> bool:
        return self._is_stem and not self.rest

    def names(self, word: str) -> bool:
        """Whether a word is the program, in whatever folder."""
        name = base_name(word)
        if STAR in self.program:
            return match_star(self.program, name)
        return name.startswith(self.program) if self._is_stem_of_program else name == self.program

    def has_fixed_subcommands(self, program: str) -> bool:
        """Whether the word after this program is a subcommand and not a program."""
        return program in _SUBCOMMAND_FIRST

    def matches(self, words: tuple[str, ...], marks: tuple[str, ...]) -> bool:
        """Whether words that start with a program are, or may become, the command that is looked for."""
        if not words or not self.names(words[0]):
            return False
        if self._is_other_subcommand(words[1:2], marks[1:2]):
            return False
        if any(marks[1:]):
            return True
        return self._has_operands(words[1:]) and all(self._has_option(option, words[1:]) for option in self._options)

    def occurs_in(self, text: str) -> bool:
        """Whether the program occurs in the text as a word, unless another subcommand of it follows."""
        return any(self._may_go_on(text, end) for end in self._find(text))

    def _find(self, text: str) -> Iterator[int]:
        if STAR in self.program:
            for found in re.finditer(r"[^\s;|&()<>`]+", text):
                if self.names(found.group()):
                    yield found.end()
            return
        for found in self._token.finditer(text):
            yield found.end()

    def _may_go_on(self, text: str, end: int) -> bool:
        found = _NEXT_WORD.match(text, end)
        return found is None or not self._is_other_subcommand((found.group(1),), ("",))

    def _is_other_subcommand(self, words: tuple[str, ...], marks: tuple[str, ...]) -> bool:
        if self.program not in _SUBCOMMAND_FIRST or not self._operands or self.rest[0] != self._operands[0]:
            return False
        if not words or any(marks) or not words[0] or not is_subcommand(words[0]):
            return False
        return not self._is_like(self._operands[0], words[0], is_last=len(self.rest) == 1)

    def _is_like(self, expected: str, word: str, is_last: bool) -> bool:
        if STAR in expected:
            return match_star(expected, word)
        if is_last and (self._is_stem or (self.prefix and word.startswith(self.prefix))):
            return word.startswith(expected)
        return word == expected

    def _has_operands(self, words: tuple[str, ...]) -> bool:
        """Whether the operands occur in this order, whatever stands between them."""
        remaining = iter(words)
        last = self.rest[-1] if self.rest else ""
        return all(
            any(self._is_like(expected, word, expected is last) for word in remaining) for expected in self._operands
        )

    def _has_option(self, option: str, words: tuple[str, ...]) -> bool:
        is_last = option is self.rest[-1]
        for word in words:
            if self._is_like(option, word, is_last) or word.startswith(option + "="):
                return True
            # A long option may be shortened.
            if word.startswith("--") and len(word) > 2 and option.startswith(word.partition("=")[0]):
                return True
        if not _CLUSTER.match(option):
            return False
        letters = {letter for word in words if word[:1] == "-" and word[:2] != "--" for letter in word[1:]}
        return letters.issuperset(option[1:])
