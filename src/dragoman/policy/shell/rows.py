"""The rows of the tables of programs: which words of a command are known, and what each of them names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from dragoman.policy.shell.languages import is_harmless_awk, is_harmless_jq, is_harmless_sed

# --------------------------------------------------------------------------------------------------------------------
# The kinds of operands and of values of options.
#
# `read` is a file or a folder that is read. `source` is the same for programs that take `@file` as a file of arguments.
# `search` is a folder with everything below it, and `tree` also follows the links there. `folder` is where the program
# goes first. `file` is a file that the program may change. `package` is a folder of code, or a name elsewhere. The
# other kinds name no file.

READ_KINDS = frozenset({"read", "source", "search", "tree"})
NAMED_KINDS = READ_KINDS | {"file", "package"}
FILE_KINDS = NAMED_KINDS | {"folder"}


def _pattern(text: str) -> Callable[[str], bool]:
    # Compiled when it is first used: most runs need few kinds.
    return lambda value: re.fullmatch(text, value, re.ASCII) is not None


_KINDS: Mapping[str, Callable[[str], bool]] = {
    **dict.fromkeys((*READ_KINDS, "folder", "word"), lambda value: True),
    "source": _pattern(r"(?s:[^@].*|)"),
    "file": _pattern(r"[A-Za-z0-9_.][^\x00-\x1f=@:\\$`*?]*(?:::[^@$`]*)?"),
    "number": _pattern(r"[+-]?[0-9]+(?:\.[0-9]+)?[A-Za-z%]{0,3}"),
    "name": _pattern(r"[A-Za-z0-9_][A-Za-z0-9_.-]*"),
    "program": _pattern(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"),
    "names": _pattern(r"(?!.*/\.\.(?:/|\Z))[A-Za-z0-9_][A-Za-z0-9_.,/-]*"),
    "task": _pattern(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*"),
    "package": _pattern(r"\.|(?:\./)?[A-Za-z0-9_.][A-Za-z0-9_./-]*"),
    "revision": _pattern(r"(?!.*/\.\.(?:/|\Z))[A-Za-z0-9_@][A-Za-z0-9_./@{}^~-]*"),
    "term": _pattern(r"term(?:-missing)?(?::skip-covered)?"),
    "text": _pattern(r"(?s:.*)"),
    # A signature in a format of git is checked by another program.
    "format": _pattern(r"(?s:(?!.*%[-+ ]?G)(?!.*%\((?:signature|describe)).*)"),
    "sorting": _pattern(r"(?s:(?!.*signature).*)"),
    # A format that makes git write objects for the comparison is not among them.
    "merges": _pattern(r"off|none|on|m|first-parent|1|separate|combined|c|dense-combined|cc"),
    # With a slash, the name of an encoding or of a time zone is a file.
    "encoding": _pattern(r"[A-Za-z0-9._:+-]*(?://(?:TRANSLIT|IGNORE))*"),
    "moment": _pattern(r"(?s:(?!.*TZ=).*)"),
    "key": _pattern(
        r"(?i:branch|color|commit|core|diff|fetch|init|merge|pull|push|rebase|remote|submodule|tag|user)\.[A-Za-z0-9_./-]+"
    ),
    # `%n` writes a variable whose name is the next word.
    "printf": _pattern(r"(?s:(?!.*%[-+ #0'*.0-9hlLjzt$]*n)[^-].*|)"),
    "clock": _pattern(r"\+(?s:.*)"),
    "columns": _pattern(
        r"(?:(?:pid|ppid|pgid|sid|user|euser|ruser|uid|gid|group|comm|ucmd|time|etime|etimes|cputime|stat|state|s|pcpu|"
        r"%cpu|pmem|%mem|rss|vsz|sz|tty|tt|ni|nice|pri|psr|start|lstart|nlwp|thcount)=?,?)+"
    ),
    "order": _pattern(r"(?:[-+]?(?:pid|ppid|user|comm|time|etime|start|pcpu|%cpu|pmem|%mem|rss|vsz),?)+"),
    "processes": _pattern(r"[0-9]{1,7}(?:,[0-9]{1,7})*"),
    "process": _pattern(r"[A-Za-z0-9_.-]{1,15}"),
    "sed": is_harmless_sed,
    "awk": is_harmless_awk,
    "jq": is_harmless_jq,
    "item": lambda value: True,
    "label": lambda value: True,
}


def is_of_kind(value: str, kind: str) -> bool:
    """Whether a value is harmless where this kind is expected."""
    return _KINDS[kind](value)


# A value of these kinds that does not match names something outside the repository.
_NEAR = {"item": _pattern(r"#?[0-9]+"), "label": _pattern(r"[A-Za-z0-9_@,.+][A-Za-z0-9_@,.+-]*")}


# --------------------------------------------------------------------------------------------------------------------
# One row: everything that is known of a program, or of one of its subcommands.


class Option(Struct, frozen=True):
    """An option that is known."""

    kinds: tuple[str, ...] = ()
    """The kinds of its values: none for a switch."""
    is_optional: bool = False
    """Whether its value may be missing. Then only an attached word is its value."""
    traits: str = ""
    """`^`: it shows something from outside the workspace. `!`: known, but a star in a rule does not cover it.
    `#`: it stands for the first operand. `.`: it searches folders, or else the current one. `+`: it follows links."""


class Row(Struct, frozen=True):
    """A program or a subcommand: the options and the operands with which its effect is known. All others are not."""

    options: Mapping[str, Option] = {}
    operands: tuple[str, ...] = ()
    """The kinds of the first operands."""
    rest: str = ""
    """The kind of all operands after them; empty if there are none."""
    acts: bool = False
    """Whether it does more than read. The words of the row are then those that a star in a rule may cover."""
    style: str = "gnu"
    """`gnu`: letters may be bundled, options and operands may be mixed. `first`: the same, but no option follows an
    operand. `words`: an option is a whole word, also after one hyphen. `early`: the same, and no option follows an
    operand. `text`: every word is text."""
    here: bool = False
    """Whether it reads the current folder if it has no operand."""
    always_here: bool = False
    """Whether it reads the current folder in any case."""
    is_free: bool = False
    """Whether no option at all makes it write or run something: then words that bash expands may become options."""
    numbers: str = ""
    """The characters that make an option of a number, as in `head -5`."""
    listing: frozenset[str] = frozenset()
    """If not empty: with operands, one of these options has to be there."""
    leaves: bool = False
    """Whether it always shows something from outside the workspace."""
    searches: bool = False
    """Whether it shows the content of all files below a folder that it reads."""
    is_exact: bool = False
    """Whether the program reads options with `getopt`, or as exactly. For others, a word after an option is its value
    only if it could not be an option itself."""
    is_apart: bool = False
    """Whether the value of a letter is always the next word."""


_WHOLE = ("words", "early")
# Variables whose value is text of the line: quoted there, a pattern is one as soon as the variable stands for it.
_FROM_THE_LINE = re.compile(r"\$\{?(?:_\b|BASH_)")
_OPTION = re.compile(r"(--[A-Za-z0-9][A-Za-z0-9_-]*|-[A-Za-z0-9_-]+)([!^#.+]*)(\[?)(?:=([a-z,]+))?\]?\Z")


def make_row(options: str = "", operands: str = "", **traits: object) -> Row:
    """Return the row for a text of options and one of operands.

    `-abc` is three switches (one in the style `words`), `-n=number` has a value, `--color[=word]` may have one, and
    `--arg=word,text` has two. `read*` as the last operand stands for any number of them.
    """
    known: dict[str, Option] = {}
    for written in options.split():
        found = _OPTION.match(written)
        assert found is not None, written
        name, marks, bracket, kinds = found.groups()
        option = Option(tuple(kinds.split(",")) if kinds else (), bool(bracket), marks)
        assert all(kind in _KINDS for kind in option.kinds), written
        is_whole = name.startswith("--") or traits.get("style") in _WHOLE
        known.update(dict.fromkeys([name] if is_whole else [f"-{letter}" for letter in name[1:]], option))
    *first, last = operands.split() or [""]
    is_open = last.endswith("*")
    row = {"operands": (*first, *([last] if last and not is_open else ())), "rest": last[:-1] if is_open else ""}
    return Row(options=known, **row, **traits)  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------------------
# The words of a command, by a row.


class Part(Struct, frozen=True):
    """An operand or a value: the index of its word, its kind, and its text."""

    index: int
    kind: str
    text: str


class Arguments(Struct):
    """What the words of a command mean."""

    parts: list[Part] = []
    unknown: dict[int, str] = {}
    """The words whose effect is not known, each with the reason."""
    named: set[int] = set()
    """The options that a star in a rule does not cover."""
    leaving: set[int] = set()
    """The words that name something outside the workspace, although they are not paths."""
    here: str = ""
    """The kind in which it reads the current folder; empty if it does not."""
    searches: bool = False
    """Whether it shows the content of all files below a folder that it reads."""


def read_arguments(row: Row, words: Sequence[str], marks: Sequence[str], start: int) -> Arguments:
    """Say what each word of a command means; `start` is the index of the first word after the program."""
    return _Reading(row, words, marks).read(start)


class _Reading:
    def __init__(self, row: Row, words: Sequence[str], marks: Sequence[str]) -> None:
        self.row = row
        self.words = words
        self.marks = marks
        self.found = Arguments()
        self.waiting: list[str] = []
        self.traits = ""
        self.given: set[str] = set()
        self.is_doubtful = False
        """Whether the next word may be the value of an option that is not known."""
        self.is_past_options = False
        self.operands: list[int] = []

    def read(self, start: int) -> Arguments:
        for index in range(start, len(self.words)):
            is_doubtful, self.is_doubtful = self.is_doubtful, False
            if self.marks[index] != "":
                self._take_marked(index)
                continue
            self._take(index)
            if is_doubtful and not self._is_option(self.words[index]):
                self._fail(index, f"`{self.words[index]}` follows an option that is not known")
        if self.waiting:
            self._fail(len(self.words) - 1, f"`{self.words[-1]}` has no value")
        self._place_operands()
        return self.found

    def _fail(self, index: int, why: str) -> None:
        self.found.unknown.setdefault(index, why)

    def _is_option(self, word: str) -> bool:
        return len(word) > 1 and word[0] == "-" and not self.is_past_options

    def _take(self, index: int) -> None:
        word = self.words[index]
        if self.row.style == "text":
            return
        if self.waiting:
            self._take_value(index, word)
        elif self.row.numbers and word[:1] in self.row.numbers and word[1:].isascii() and word[1:].isdigit():
            return
        elif not self._is_option(word):
            self.operands.append(index)
            self.is_past_options = self.is_past_options or self.row.style in ("first", "early")
        elif word == "--":
            self.is_past_options = True
        elif word.startswith("--") or self.row.style in _WHOLE:
            self._take_long(index, word)
        else:
            self._take_letters(index, word)

    def _take_value(self, index: int, word: str) -> None:
        kind = self.waiting.pop(0)
        if self.row.acts and kind == "word" and word.startswith("@"):
            # Some programs replace such a word by the options in that file, wherever it stands.
            self._fail(index, f"`{word}` may be a file of arguments")
        if not self.row.is_exact:
            if word.startswith("-") and not _KINDS["number"](word):
                self._fail(index, f"`{word}` may be an option")
            if kind not in FILE_KINDS and (self.row.always_here or word.startswith(("/", "~", ".."))):
                # Where git takes a value only after `=`, it takes this word for a path.
                self.found.parts.append(Part(index, "read", word))
        self._add(index, kind, word)

    def _take_long(self, index: int, word: str) -> None:
        name, equals, value = word.partition("=")
        option = self._use(index, name)
        if option is None:
            return
        if equals and not option.kinds:
            self._fail(index, f"`{name}` with a value is not known")
        elif equals:
            self._add(index, option.kinds[0], value)
            self.waiting = list(option.kinds[1:])
        elif not option.is_optional:
            self.waiting = list(option.kinds)

    def _take_letters(self, index: int, word: str) -> None:
        for place, letter in enumerate(word[1:], 2):
            option = self._use(index, f"-{letter}")
            if option is None:
                return
            if not option.kinds:
                continue
            value = word[place:]
            if value.startswith("=") or (value and self.row.is_apart):
                # Programs differ in what this is: the value, a value with an equals sign, or more letters.
                self._fail(index, f"`{word}` can be read in two ways")
            elif value:
                self._add(index, option.kinds[0], value)
                self.waiting = list(option.kinds[1:])
            elif not option.is_optional:
                self.waiting = list(option.kinds)
            return

    def _use(self, index: int, name: str) -> Option | None:
        option = self.row.options.get(name)
        if option is None:
            self._fail(index, f"its option `{name}` is not known")
            self.is_doubtful = "=" not in self.words[index]
            return None
        self.given.add(name)
        self.traits += option.traits
        if "^" in option.traits:
            self.found.leaving.add(index)
        if "!" in option.traits:
            self.found.named.add(index)
        return option

    def _add(self, index: int, kind: str, text: str) -> None:
        if not _KINDS[kind](text):
            self._fail(index, f"`{text}` is not known to be harmless there")
            return
        if kind in _NEAR and not _NEAR[kind](text):
            self.found.leaving.add(index)
        self.found.parts.append(Part(index, kind, text))

    # ---- words that bash expands -----------------------------------------------------------------------------------

    def _take_marked(self, index: int) -> None:
        """Take a word that bash may expand to other words, or to none."""
        word, marks = self.words[index], self.marks[index]
        is_path = marks in ("glob", "tilde")
        is_text = self.row.style == "text" or (self.row.rest == "text" and bool(self.operands))
        missing = self.row.operands[len(self.operands) + ("#" in self.traits) :]
        is_certain = self.row.is_free or not (missing or word[0] in "*?[")
        may_expand = self.row.is_free and not is_path and {"word", "read"}.issuperset(missing)
        if not is_text and self._is_option(word):
            self._fail(index, f"`{word}` is an option that is not known")
        elif is_text or may_expand:
            self.waiting = self.waiting[1:]
            if "glob" in marks or not is_text:
                self.found.parts.append(Part(index, "read", word))
            if not is_text or ("glob" in marks and not is_path) or _FROM_THE_LINE.search(word):
                # The pattern may start with anything, so that nothing is certain about the folder it lists.
                self.found.leaving.add(index)
        elif self.waiting or not (self.row.rest and is_path and is_certain and {"word"}.issuperset(missing)):
            self._fail(index, f"`{word}` could become something else than it seems")
            self.operands += [] if self.waiting else [index]
            self.waiting = self.waiting[1:]
        else:
            if marks == "glob" and self.row.rest not in NAMED_KINDS:
                # Whatever the program does with them, bash reads the names there.
                self.found.parts.append(Part(index, "read", word))
            # It may become several operands, so that the next ones have other places than it seems.
            self.operands += [index] * (len(self.row.operands) + 1 if marks == "glob" else 1)

    # ---- operands --------------------------------------------------------------------------------------------------

    def _place_operands(self) -> None:
        row = self.row
        kinds = row.operands[1:] if "#" in self.traits else row.operands
        rest = row.rest
        if "+" in self.traits:
            kinds = tuple("tree" if kind in READ_KINDS else kind for kind in kinds)
            rest = "tree" if rest in READ_KINDS else rest
        for place, (index, times) in enumerate(Counter(self.operands).items()):
            kind = kinds[place] if place < len(kinds) and times == 1 else rest
            if not kind:
                self._fail(index, f"`{self.words[index]}` is one operand more than is known to be harmless")
            else:
                self._add(index, kind, self.words[index])
        if self.operands and row.listing and row.listing.isdisjoint(self.given):
            self._fail(self.operands[0], f"`{self.words[self.operands[0]]}` is something that it may create")
        self.found.searches = row.searches or "." in self.traits
        is_empty = len(self.operands) <= len(kinds)
        if row.always_here or (is_empty and (row.here or "." in self.traits)):
            self.found.here = "tree" if "+" in self.traits else "search"
