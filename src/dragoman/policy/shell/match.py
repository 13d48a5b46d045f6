"""Rules and command lines: allow rules match strictly, deny and ask rules match broadly."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

from dragoman.policy.shell.effects import add_input, is_plain, runs_its_input, runs_what_it_writes
from dragoman.policy.shell.parser import KEYWORDS, CommandLine, SimpleCommand, read_command, read_pattern, words_of
from dragoman.policy.shell.programs import (
    SHELLS,
    WRAPPERS,
    base_name,
    find_depth,
    has_harmless_variants,
    is_interpreter,
    is_subcommand,
    may_vary,
    reaches_further,
    runs_text,
)

# --------------------------------------------------------------------------------------------------------------------
# The pattern of a rule: `git status`, `git status*`, `git push:*`, `git diff --stat *`.
#
# A pattern is read word by word, with quotes as in bash; a `*` in quotes is a plain star.
#
# - Without a star the words have to be exactly these.
# - ` *` at the end matches any further words, or none.
# - `status*` at the end, after a letter or a digit, is the whole word `status` and any further words. It is not
#   `statusx`: a word that merely begins alike is another word.
# - `push:*` at the end is the same, and also matches words that begin with `push:`.
# - A star after another character (`--format=*`, `src/*`) matches the rest of that one word, which must not contain a
#   `..` step.
# - A single star between words matches exactly one word that is not an option.
# - In the name of the program a star matches a part of one name, without a slash.

STAR = "\0"
_WORD_END = re.compile(r"[A-Za-z0-9_]\Z")


class CommandPattern(Struct, frozen=True):
    """The pattern of one command: words, in which `STAR` is a wildcard, and whether more words may follow."""

    words: tuple[str, ...]
    is_open: bool = False
    prefix: str = ""
    """The other form of the last word: a prefix that it may have instead."""
    is_stem: bool = False
    """Whether a star followed the last word directly. Only allow rules treat the word as a whole word then."""

    def covers(self, words: tuple[str, ...]) -> bool:
        """Whether the pattern matches these words; the first is the program."""
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
    """The pattern of a rule: one command, or several with operators between them."""

    text: str
    commands: tuple[CommandPattern, ...] = ()
    operators: tuple[str, ...] = ()
    is_understood: bool = True


@lru_cache(maxsize=512)
def read_rule(text: str) -> Pattern:
    """Parse a pattern. One that is not a plain command line is not understood, and allows nothing."""
    line = read_pattern(text, STAR)
    is_plain = line.understood and all(map(_is_plain, line.commands))
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
    """Whether the star cannot lead out of the folder before it, nor to a program in another folder."""
    if ".." in word.split("/") and ".." not in expected.split("/"):
        return False
    return not is_program or word.count("/") == expected.count("/")


def match_star(expected: str, word: str) -> bool:
    """Whether the word matches; each star matches any characters, or none."""
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


# --------------------------------------------------------------------------------------------------------------------
# The broad pattern of a deny or ask rule.

# The first word of these programs is the subcommand, in full. A literal word there decides what they do.
_SUBCOMMAND_FIRST = words_of(
    "git gh glab docker podman kubectl cargo pip pip3 uv poetry apt apt-get helm terraform pnpm yarn"
)
_CLUSTER = re.compile(r"-[A-Za-z]+\Z")
# `git -c alias.p=push p`: any subcommand may have any name.
_is_alias = re.compile(r"(?:-c|--config-env=)?alias\.", re.IGNORECASE).match
_NEXT_WORD = re.compile(r"[ \t]+([A-Za-z][A-Za-z0-9_:-]*)(?=[ \t\n;|&)]|\Z)")


class DenyPattern:
    """One command that a rule names, including its possible spellings."""

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
        """Whether a word is the program, in any folder."""
        name = base_name(word)
        if STAR in self.program:
            return match_star(self.program, name)
        return name.startswith(self.program) if self._is_stem_of_program else name == self.program

    def matches(self, words: tuple[str, ...], marks: tuple[str, ...]) -> bool:
        """Whether words that start with a program are, or may become, the command of the rule."""
        if not words or not self.names(words[0]):
            return False
        if self._is_other_subcommand(words[1:2], marks[1:2]):
            return False
        if any(marks[1:]) or (self.program == "git" and any(map(_is_alias, words))):
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
        """Whether the operands occur in this order, with anything in between."""
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
            # Programs accept shortened long options.
            if word.startswith("--") and len(word) > 2 and option.startswith(word.partition("=")[0]):
                return True
        if not _CLUSTER.match(option):
            return False
        letters = {letter for word in words if word[:1] == "-" and word[:2] != "--" for letter in word[1:]}
        return letters.issuperset(option[1:])


# --------------------------------------------------------------------------------------------------------------------
# The search in text that is not understood: as words anywhere, and in places where the program is unknown.

_SEPARATOR = re.compile(r"(\$\(|[<>]\(|<<<|<<-?|(?<![<>])&(?!>)|[;|()\n\r`])")
_QUOTES = re.compile(r"\\\r?\n|[\"'\\]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_REDIRECTION = re.compile(r"[0-9]*[<>]+[&|]?")
_DYNAMIC = re.compile(r"[$*?\[{]")
_OPENING = frozenset({"$(", "`", "<(", ">("})


def might_mention(pattern: DenyPattern, text: str) -> bool:
    """Whether the text, read as a command line, runs or may run the command of the rule."""
    return might_name(pattern, text) or _is_untellable(text)


def might_name(pattern: DenyPattern, text: str) -> bool:
    """Whether the text contains the name of the program as a word, with any quotes."""
    if "$'" in text or ('$"' in text and not _ends_quotes_only(text)):
        return True
    bare = _QUOTES.sub("", text)
    return pattern.occurs_in(text) or pattern.occurs_in(bare)


def _ends_quotes_only(text: str) -> bool:
    """Whether every `$"` looks like the end of a quoted pattern, as in `"foo$" `."""
    return all(found.group(1) in ("", " ", "\t", ";", "|", ")", "&") for found in re.finditer(r'\w\$"(.?)', text)) and (
        len(re.findall(r'\w\$"', text)) == text.count('$"')
    )


def _is_untellable(text: str) -> bool:
    """Whether a program is only known at run time. Checks the start of every part that may be a command."""
    pieces = _SEPARATOR.split(text)
    has_cases = "esac" in text
    before = ""
    for index in range(0, len(pieces), 2):
        piece = pieces[index]
        after = pieces[index + 1] if index + 1 < len(pieces) else ""
        if _is_untellable_piece(piece, before if not has_cases else "", after):
            return True
        before = after
    return False


def _is_untellable_piece(piece: str, before: str, after: str) -> bool:
    bare = _QUOTES.sub("", piece)
    words = bare.split()
    start = _skip_prefixes(words)
    is_open = after in _OPENING
    if start >= len(words):
        # Nothing before a substitution: its output is the program, unless it continues another one.
        return is_open and before not in (")", "`", "<<", "<<-", "<<<")
    program = words[start]
    if _DYNAMIC.search(program) and program != "[":
        return True
    if is_open and start == len(words) - 1 and not bare[-1:].isspace() and after in ("$(", "`"):
        return True
    name = base_name(program)
    rest = words[start + 1 :]
    if name in SHELLS or name in WRAPPERS or is_interpreter(name):
        return _is_untellable_wrapper(name, rest, before, after)
    return False


def _is_untellable_wrapper(name: str, rest: list[str], before: str, after: str) -> bool:
    if after in _OPENING or after.startswith("<<") or any(_DYNAMIC.search(word) for word in rest):
        return True
    if name in SHELLS or is_interpreter(name):
        return not any(not word.startswith("-") for word in rest) or "-s" in rest or "/dev/stdin" in rest
    return any(base_name(word) in SHELLS for word in rest) and before == "|"


def _skip_prefixes(words: list[str]) -> int:
    """Return the position of the program, after keywords, assignments and redirections."""
    index = 0
    while index < len(words):
        word = words[index]
        found = _REDIRECTION.match(word)
        if found:
            index += 2 if found.end() == len(word) else 1
        elif word in KEYWORDS or _ASSIGNMENT.match(word):
            index += 1
        else:
            break
    return index


# --------------------------------------------------------------------------------------------------------------------
# Whether allow rules cover a whole command line.

# The effects of these last for the rest of the line, so they change the meaning of other commands.
_LASTING = words_of(
    "cd pushd popd alias unalias hash set shopt enable source . eval exec trap declare typeset local export readonly "
    "unset read mapfile readarray builtin command let getopts umask ulimit"
)


def allows(pattern: str, text: str) -> bool:
    """Whether an allow rule with this pattern covers the whole line: each of its commands, and nothing else."""
    return allows_any((pattern,), text)


def allows_any(patterns: Iterable[str], text: str, outside: Iterable[str] = ()) -> bool:
    """Whether these patterns together cover the whole line: each command is covered by one of them.

    `outside` are the paths, as written, that lead out of the workspace through links: a star does not cover them.
    """
    line = read_command(text)
    if not line.understood or not all(map(_is_plain, line.commands)):
        return False
    outside = frozenset(outside)
    rules = [rule for rule in map(read_rule, patterns) if rule.is_understood]
    if any(_covers_sequence(rule, line, outside) for rule in rules):
        return True
    singles = [rule.commands[0] for rule in rules if len(rule.commands) == 1]
    if len(singles) > 1 and not _is_independent(line):
        return any(all(_covers(single, command, outside) for command in line.commands) for single in singles)
    return all(any(_covers(single, command, outside) for single in singles) for command in line.commands)


def _is_plain(command: SimpleCommand) -> bool:
    if not command.words or command.assignments:
        return False
    return all(redirection.joins or redirection.discards for redirection in command.redirections)


def _is_independent(line: CommandLine) -> bool:
    """Whether no command of the line changes the effect of another. A `cd` to a folder below is accepted."""
    if len(line.commands) == 1:
        return True
    return not any(command.words[0] in _LASTING and not _is_step_down(command.words) for command in line.commands)


def _is_step_down(words: tuple[str, ...]) -> bool:
    if words[0] != "cd" or len(words) != 2 or words[1].startswith(("/", "-", "~")) or not words[1]:
        return False
    return ".." not in words[1].split("/")


def _covers_sequence(rule: Pattern, line: CommandLine, outside: frozenset[str]) -> bool:
    """Whether the rule was written for exactly this sequence of commands."""
    if len(rule.commands) < 2 or len(rule.commands) != len(line.commands) or rule.operators != line.operators:
        return False
    return all(_covers(single, command, outside) for single, command in zip(rule.commands, line.commands, strict=True))


def _covers(single: CommandPattern, command: SimpleCommand, outside: frozenset[str]) -> bool:
    words = command.words
    if not single.covers(words):
        return False
    if not single.words:
        # A star alone is every command.
        return True
    # A star covers only words that are harmless where they stand; the author of the rule wrote the others.
    places = {
        index: _written_part(single, index, word)
        for index, word in enumerate(words)
        if single.words[index : index + 1] != (word,)
    }
    return may_vary(words, places, outside)


def _written_part(single: CommandPattern, index: int, word: str) -> str:
    """Return the start of a word that is written in the rule, before the star."""
    if index == len(single.words) - 1 and single.prefix and word.startswith(single.prefix):
        return single.prefix
    return single.words[index].partition(STAR)[0] if index < len(single.words) else ""


# --------------------------------------------------------------------------------------------------------------------
# Whether a command line runs, or may run, what a deny or ask rule names.
#
# The bias is the opposite of that of allow rules: in doubt, the line runs it.

# If nothing else in a line is unusual, it is still split into the commands that bash runs.
_STILL_SPLIT = frozenset({"glob", "variable", "tilde", "brace", "newline", "comment", "background"})

# A line that names a program more often than this is not analysed further.
_MOST_PLACES = 32


def mentions(pattern: str, text: str) -> bool:
    """Whether any part of the line matches, or may match, a deny or ask rule with this pattern."""
    if not text.strip():
        return False
    rule = read_rule(pattern)
    singles = rule.commands
    if not rule.is_understood or not singles:
        singles = (*singles, CommandPattern(tuple(pattern.split()), is_open=True))
    line = read_command(text)
    return any(_mentions(DenyPattern(single), line) for single in singles)


def _mentions(pattern: DenyPattern, line: CommandLine) -> bool:
    if pattern.is_anything:
        return True
    if "command_word" in line.faults or runs_what_it_writes(line):
        return True
    if not _STILL_SPLIT.issuperset(line.faults):
        return might_mention(pattern, line.text)
    is_rest_plain = True
    for index in range(len(line.commands) - 1, -1, -1):
        command = line.commands[index]
        is_piped = index < len(line.operators) and line.operators[index] == "|"
        is_fed = index > 0 and line.operators[index - 1] == "|"
        is_alone_plain = is_plain(command)
        is_rest_plain = is_rest_plain and is_alone_plain
        # Data that goes through a pipe to a program that may run it is not only data.
        is_data = is_alone_plain and (is_rest_plain or not is_piped)
        if runs_its_input(command, is_fed) or _is_mentioned_by(pattern, add_input(command), is_data):
            return True
    return False


def _is_mentioned_by(pattern: DenyPattern, command: SimpleCommand, is_data: bool) -> bool:
    """Whether a command is the one of the rule, or contains it in words that may be run."""
    if any(might_mention(pattern, assignment) for assignment in command.assignments):
        return True
    if pattern.matches(command.words, command.marks):
        return True
    if is_data or not command.words:
        return False
    # The word after these programs is a subcommand and not a program.
    start = 2 if base_name(command.words[0]) in _SUBCOMMAND_FIRST else 1
    places = [index for index in range(start, len(command.words)) if pattern.names(command.words[index])]
    if len(places) > _MOST_PLACES:
        return True
    if any(pattern.matches(command.words[index:], command.marks[index:]) for index in places):
        return True
    looks_like = might_mention if runs_text(command.words) or reaches_further(command) else might_name
    return any(_is_composite(word) and looks_like(pattern, word) for word in command.words[1:])


def _is_composite(word: str) -> bool:
    """Whether a word is more than a name or a path, so that it may be code, or a value that is run."""
    return not word.replace("/", "").replace(".", "").replace("-", "").replace("_", "").isalnum()


# --------------------------------------------------------------------------------------------------------------------
# The rule that is suggested to a person who answers "always".


def suggest(text: str) -> str | None:
    """Return a pattern that covers this line, and similar lines if "similar" is clear; None if there is none.

    `git status -s` gives `git status*`: it only reads, with any words that the star covers. `git push origin main`
    gives itself, because another `git push` has another effect.
    """
    line = read_command(text)
    if not line.understood:
        return None
    exact = text.strip(" \t")
    if len(line.commands) == 1:
        words = line.commands[0].words
        depth = find_depth(words) if words else 0
        wide = " ".join(words[:depth]) + "*"
        if depth and has_harmless_variants(words, depth) and allows(wide, text):
            return wide
    return exact if allows(exact, text) else None
