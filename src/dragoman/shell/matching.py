"""What the pattern of a rule means: `git status`, `git status*`, `git push:*`, `git diff --stat *`.

A pattern is read word by word, with quotes as in bash; a `*` in quotes is a plain star.

- Without a star the words have to be exactly these.
- ` *` at the end stands for any further words, also for none.
- `status*` at the end, after a letter or a digit, is the whole word `status` and any further words. It is not
  `statusx`: a word that merely begins alike is another word.
- `push:*` at the end is the same, and also stands for words that begin with `push:`.
- A star after another character (`--format=*`, `src/*`) stands for the rest of that one word, which must not hold a
  `..` step.
- A star that stands alone between words is exactly one word that is not an option.
- In the name of the program a star stands for a part of one name, without a slash.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from dragoman.shell.reading import read_pattern

STAR = "\0"
_WORD_END = re.compile(r"[A-Za-z0-9_]\Z")


class CommandPattern(Struct, frozen=True):
    """The pattern of one command: words, in which `STAR` is a wildcard, and whether more words may follow."""

    words: tuple[str, ...]
    is_open: bool = False
    prefix: str = ""
    """The other form of the last word: what it may begin with instead."""
    is_stem: bool = False
    """Whether a star stood directly after the last word, which only rules that allow take as a whole word."""

    def covers(self, words: tuple[str, ...]) -> bool:
        """Whether these words, the program first, are what the pattern stands for."""
        if len(words) < len(self.words) or (len(words) > len(self.words) and not self.is_open):
            return False
        last = len(self.words) - 1
        for index, expected in enumerate(self.words):
            word = words[index]
            if index == last and self.prefix and word.startswith(self.prefix):
                continue
            if not _covers_word(expected, word, is_program=index == 0):
                return False
        return bool(words)


class Pattern(Struct, frozen=True):
    """The pattern of a rule: one command, or several with the operators between them."""

    text: str
    commands: tuple[CommandPattern, ...] = ()
    operators: tuple[str, ...] = ()
    is_understood: bool = True


@lru_cache(maxsize=512)
def read_rule(text: str) -> Pattern:
    """Read a pattern; one that is not a plain command line is not understood, and allows nothing."""
    line = read_pattern(text, STAR)
    is_plain = line.understood and all(command.words and not command.assignments for command in line.commands)
    is_plain = is_plain and all(
        redirection.joins or redirection.discards for command in line.commands for redirection in command.redirections
    )
    commands = tuple(_read_words(command.words) for command in line.commands if command.words)
    return Pattern(text, commands, line.operators, is_plain)


def _read_words(words: tuple[str, ...]) -> CommandPattern:
    last = words[-1]
    if last == STAR:
        return CommandPattern(words[:-1], is_open=True)
    head = last[:-1]
    if not last.endswith(STAR) or STAR in head:
        return CommandPattern(words)
    if head.endswith(":") and len(head) > 1:
        prefix = head if len(words) > 1 else ""
        return CommandPattern((*words[:-1], head[:-1]), is_open=True, prefix=prefix)
    if _WORD_END.search(head):
        return CommandPattern((*words[:-1], head), is_open=True, is_stem=True)
    return CommandPattern(words)


def _covers_word(expected: str, word: str, is_program: bool) -> bool:
    if STAR not in expected:
        return expected == word
    if expected == STAR:
        return not is_program and not word.startswith("-")
    return match_star(expected, word) and _is_tame(expected, word, is_program)


def _is_tame(expected: str, word: str, is_program: bool) -> bool:
    """A star must not lead out of the folder that is written before it, nor to another program's folder."""
    if ".." in word.split("/") and ".." not in expected.split("/"):
        return False
    return not is_program or word.count("/") == expected.count("/")


def match_star(expected: str, word: str) -> bool:
    """Whether the word fits, where each star stands for any characters, also for none."""
    first, *middle, last = expected.split(STAR)
    if len(word) < len(first) + len(last) or not word.startswith(first) or not word.endswith(last):
        return False
    position, end = len(first), len(word) - len(last)
    for part in middle:
        position = word.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True
