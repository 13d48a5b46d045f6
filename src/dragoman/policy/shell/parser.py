"""A parser for command lines. It follows bash, as far as that is certain."""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct

# --------------------------------------------------------------------------------------------------------------------
# Sets of words, written with blanks between.


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text, for tables that are easier to read without quotes."""
    return frozenset(text.split())


# --------------------------------------------------------------------------------------------------------------------
# Characters that do not belong in a plain command line: shells, terminals and people read them differently.

_UNUSUAL = re.compile(r"[^\t\x20-\x7e]")
_NAMED = {"\n": "newline", "\r": "carriage_return", "\0": "nul"}


def find_odd_characters(text: str) -> list[str]:
    """Return the kinds of suspicious characters in the text, in the order of their first appearance."""
    return list(dict.fromkeys(filter(None, map(_kind_of, dict.fromkeys(_UNUSUAL.findall(text))))))


def _kind_of(character: str) -> str:
    if character in _NAMED:
        return _NAMED[character]
    category = unicodedata.category(character)
    if category[0] == "Z":
        return "blank"
    return "control" if category[0] == "C" else ""


# --------------------------------------------------------------------------------------------------------------------
# A parsed command line: its commands, their words, and what was not understood.


class Redirection(Struct, frozen=True):
    """The source of a command's input, or the target of its output."""

    operator: str
    """`<`, `>`, `>>`, `&>`, `&>>`, `>&`, `<&`, or a form that is not understood."""
    target: str
    descriptor: int | None = None
    """The number before the operator; None if there is none."""

    @property
    def joins(self) -> bool:
        """Whether it only joins output and error output, as `2>&1` does."""
        return self.operator == ">&" and self.target in ("1", "2") and self.descriptor in (None, 1, 2)

    @property
    def discards(self) -> bool:
        """Whether it only discards output."""
        return self.operator in (">", ">>", "&>", "&>>") and self.target == "/dev/null"


class SimpleCommand(Struct, frozen=True):
    """One program and its arguments, with quotes removed as bash removes them."""

    words: tuple[str, ...]
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[str, ...] = ()
    """`NAME=value` before the program."""
    marks: tuple[str, ...] = ()
    """For each word, the expansions that bash would apply: `glob`, `variable`, `tilde`, `brace`, `substitution`."""

    def is_marked(self, index: int) -> bool:
        """Whether bash may change this word by expansion."""
        return index < len(self.marks) and self.marks[index] != ""


class CommandLine(Struct, frozen=True):
    """A whole line. If `understood` is False, bash may run something else than `commands` says."""

    text: str
    commands: tuple[SimpleCommand, ...]
    understood: bool
    why: str = ""
    """The first thing that was not understood, as a sentence."""
    operators: tuple[str, ...] = ()
    """The operators between the commands: `&&`, `||`, `;`, `|`."""
    faults: tuple[str, ...] = ()
    """The names of everything that was not understood."""


# --------------------------------------------------------------------------------------------------------------------
# The parser.
#
# It understands only plain lines: simple commands joined by `&&`, `||`, `;` and `|`, quotes, backslashes and plain
# redirections. It also reads everything else as well as possible, so that deny rules can match it, but reports it as
# not understood, so that allow rules do not match.

FAULTS = {
    "empty": "it contains no command",
    "newline": "it has more than one line",
    "continuation": "it continues after a backslash at the end of a line",
    "carriage_return": "it contains a carriage return",
    "nul": "it contains a NUL character",
    "control": "it contains a control character, or an invisible one",
    "blank": "it contains a blank that is not a space or a tab",
    "quote": "a quote is not closed",
    "escape": "it ends in a backslash",
    "substitution": "it contains a command substitution",
    "variable": "it contains a variable or another expansion",
    "ansi_quote": "it contains a quote that starts with a dollar sign",
    "glob": "it contains a file name pattern",
    "brace": "it contains a brace expansion",
    "tilde": "it contains a tilde (a home folder)",
    "history": "it contains a `!` that may recall an earlier command",
    "group": "it contains a subshell, a group or a function",
    "keyword": "it contains a keyword of the shell",
    "here_document": "it contains a here-document",
    "redirection": "it contains an unusual redirection",
    "background": "it starts something in the background",
    "comment": "it contains a comment",
    "command_word": "the name of a program is only known at run time",
    "syntax": "bash would not accept it",
}

KEYWORDS = words_of("if then else elif fi case esac for select while until do done in function time coproc { } ! [[ ]]")

_PLAIN = re.compile(r"[A-Za-z0-9_./:=@%+,^\-\]}\x80-\U0010ffff]+")
_SINGLE = re.compile(r"[^']*")
_DOUBLE = re.compile(r'[^"\\$`!]+')
_VARIABLE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\}|[0-9?#@*$!_-])")
_LITERAL_DOLLAR = re.compile(r"\$(?=[ \t/.,|):;%+^=~\]}&<>]|\Z)")
_REDIRECTION = re.compile(r"&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<|>")
_CONTROL = re.compile(r"&&|\|\||\|&|;;&|;;|;&|[;|&\n()]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_DIGITS = re.compile(r"[0-9]+\Z")
_PLAIN_REDIRECTIONS = frozenset({"<", ">", ">>", "&>", "&>>"})
_JOINING = frozenset({"&&", "||", "|", ";"})


def read_command(text: str) -> CommandLine:
    """Parse a command line. It never raises, and reports what it did not understand."""
    return _Reader(text).read()


def read_pattern(text: str, star: str) -> CommandLine:
    """Parse the pattern of a rule: like a command line, but an unquoted `*` becomes `star` and is not a glob."""
    return _Reader(text, star=star).read()


class _Reader:
    pending: tuple[str, int | None] | None

    def __init__(self, text: str, star: str = "") -> None:
        self.text = text
        self.star = star
        self.position = 0
        self.faults: dict[str, None] = dict.fromkeys(find_odd_characters(text))
        self.commands: list[SimpleCommand] = []
        self.operators: list[str] = []
        self._start_command()
        self._start_word()

    # ---- the line ------------------------------------------------------------------------------------------------

    def read(self) -> CommandLine:
        if "\\\n" in self.text:
            # Bash removes these before it reads anything else, even in the middle of an operator.
            self._fault("continuation")
        if self.text.lstrip(" \t").startswith("^"):
            self._fault("history")
        while self.position < len(self.text):
            self._step()
        self._end_word()
        self._end_line()
        faults = tuple(self.faults)
        why = FAULTS[faults[0]] if faults else ""
        operators = tuple(self.operators[: max(0, len(self.commands) - 1)])
        return CommandLine(self.text, tuple(self.commands), not faults, why, operators, faults)

    def _step(self) -> None:
        character = self.text[self.position]
        if character in " \t\r":
            self._end_word()
            self.position += 1
        elif found := _PLAIN.match(self.text, self.position):
            self._take(found.group())
        elif character in "'\"\\":
            self._read_quoted(character)
        elif character in "$`":
            self._read_dollar(character)
        elif character in "<>&;|\n()":
            self._read_operator()
        else:
            self._read_special(character)

    def _end_line(self) -> None:
        is_empty = not (self.words or self.assignments or self.redirections)
        self._end_command()
        if not self.commands:
            self._fault("empty")
        elif is_empty and self.operators and self.operators[-1] != ";":
            self._fault("syntax")

    def _fault(self, name: str) -> None:
        self.faults.setdefault(name)

    # ---- words ---------------------------------------------------------------------------------------------------

    def _start_word(self) -> None:
        self.parts: list[str] = []
        self.marks: dict[str, None] = {}
        self.start = -1
        self.quoted = False
        self.braced = False

    def _begin(self) -> None:
        if self.start < 0:
            self.start = self.position

    def _add(self, piece: str) -> None:
        self._begin()
        self.parts.append(piece)

    def _take(self, piece: str) -> None:
        """Add a piece of text unchanged."""
        self._add(piece)
        self.position += len(piece)

    def _mark(self, name: str) -> None:
        self._begin()
        self.marks[name] = None
        self._fault(name)

    def _end_word(self) -> None:
        if self.start < 0:
            return
        text = "".join(self.parts)
        if self.braced and ("," in text or ".." in text):
            self._mark("brace")
        self._place_word(text)
        self._start_word()

    def _place_word(self, text: str) -> None:
        marks = " ".join(self.marks)
        if self.pending is not None:
            self._place_target(text, marks)
        elif not self.words and _ASSIGNMENT.match(self.text, self.start):
            self.assignments.append(text)
        elif not self.words and not self.quoted and text in KEYWORDS:
            self._fault("keyword")
        else:
            if not self.words and (marks or text.startswith("%")):
                self._fault("command_word")
            self.words.append(text)
            self.word_marks.append(marks)

    def _place_target(self, text: str, marks: str) -> None:
        assert self.pending is not None
        operator, descriptor = self.pending
        self.pending = None
        is_number = len(text) == 1 and text.isascii() and text.isdigit()
        if marks or not (operator in _PLAIN_REDIRECTIONS or (operator in (">&", "<&") and is_number)):
            self._fault("redirection")
        self.redirections.append(Redirection(operator, text, descriptor))

    # ---- commands ------------------------------------------------------------------------------------------------

    def _start_command(self) -> None:
        self.words: list[str] = []
        self.word_marks: list[str] = []
        self.assignments: list[str] = []
        self.redirections: list[Redirection] = []
        self.pending = None

    def _end_command(self) -> None:
        if self.pending is not None:
            self._fault("syntax")
            self.redirections.append(Redirection(self.pending[0], "", self.pending[1]))
        if self.words or self.assignments or self.redirections:
            parts = (self.words, self.redirections, self.assignments, self.word_marks)
            self.commands.append(SimpleCommand(*(tuple(part) for part in parts)))  # type: ignore[arg-type]
        self._start_command()

    def _read_operator(self) -> None:
        found = _REDIRECTION.match(self.text, self.position)
        if found:
            self._read_redirection(found.group())
            return
        found = _CONTROL.match(self.text, self.position)
        assert found is not None
        operator = found.group()
        self._end_word()
        self.position = found.end()
        if operator in _JOINING:
            if not (self.words or self.assignments or self.redirections):
                self._fault("syntax")
        elif operator in "()":
            self._fault("group")
        elif operator == "&":
            self._fault("background")
        elif operator != "\n":
            self._fault("syntax")
        before = len(self.commands)
        self._end_command()
        if len(self.commands) > before:
            self.operators.append(operator if operator in _JOINING else ";")

    def _read_redirection(self, operator: str) -> None:
        descriptor = self._take_descriptor() if operator[0] != "&" else None
        self._end_word()
        if self.pending is not None:
            self._fault("syntax")
        self.position += len(operator)
        if self.text.startswith("(", self.position):
            self._fault("substitution")
        if operator.startswith("<<"):
            self._fault("here_document")
        self.pending = (operator, descriptor)

    def _take_descriptor(self) -> int | None:
        """Return the number directly before a redirection, which is then not a word."""
        if self.start < 0:
            return None
        raw = self.text[self.start : self.position]
        if self.braced:
            self._fault("redirection")
        if not _DIGITS.match(raw):
            return None
        if len(raw) > 1 or self.pending is not None:
            self._fault("redirection")
            return None
        self._start_word()
        return int(raw)

    # ---- quotes and expansions -------------------------------------------------------------------------------------

    def _read_quoted(self, character: str) -> None:
        self._begin()
        self.quoted = True
        if character == "\\":
            self._read_escape()
        elif character == "'":
            found = _SINGLE.match(self.text, self.position + 1)
            assert found is not None
            self.parts.append(found.group())
            self.position = found.end() + 1
            if found.end() >= len(self.text):
                self._fault("quote")
        else:
            self._read_double()

    def _read_escape(self, in_double: bool = False) -> None:
        following = self.text[self.position + 1 : self.position + 2]
        if following == "" and not in_double:
            self._fault("escape")
        if following != "\n":
            # In double quotes a backslash is literal, unless it precedes one of these.
            is_kept = in_double and not (following and following in '$`"\\')
            self.parts.append(f"\\{following}" if is_kept else following)
        self.position += 2

    def _read_double(self) -> None:
        self.position += 1
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == '"':
                self.position += 1
                return
            if found := _DOUBLE.match(self.text, self.position):
                self._take(found.group())
            elif character == "\\":
                self._read_escape(in_double=True)
            elif character == "!":
                self._read_bang('" \t=')
            else:
                self._read_dollar(character, in_double=True)
        self._fault("quote")

    def _read_dollar(self, character: str, in_double: bool = False) -> None:
        if character == "`":
            self._mark("substitution")
            self._take("`")
        elif _LITERAL_DOLLAR.match(self.text, self.position) or (
            in_double and self.text.startswith('$"', self.position)
        ):
            self._take("$")
        elif found := _VARIABLE.match(self.text, self.position):
            self._mark("variable")
            self._take(found.group())
        else:
            following = self.text[self.position + 1 : self.position + 2]
            self._mark("substitution")
            if following in ("'", '"'):
                self._fault("ansi_quote")
            self._take("$")

    # ---- other characters ------------------------------------------------------------------------------------------

    def _read_bang(self, harmless: str) -> None:
        following = self.text[self.position + 1 : self.position + 2]
        if following != "" and following not in harmless:
            self._fault("history")
        self._take("!")

    def _read_special(self, character: str) -> None:
        """Read the characters that have a meaning in some positions: `* ? [ ~ { # !`, and the suspicious ones."""
        if character == "#" and self.start < 0:
            self._fault("comment")
            end = self.text.find("\n", self.position)
            self.position = len(self.text) if end < 0 else end
            return
        if character == "!":
            self._read_bang(" \t=")
            return
        self._begin()
        if character == "*" and self.star:
            character = self.star
        elif character in "*?[":
            self._mark_glob(character)
        elif character == "~" and (self.start == self.position or self.text[self.position - 1] in "=:"):
            self._mark("tilde")
        elif character == "{":
            self.braced = True
        self._take(character)

    def _mark_glob(self, character: str) -> None:
        """A single `[` is the name of a program and not a pattern."""
        following = self.text[self.position + 1 : self.position + 2]
        is_alone = self.start == self.position and following in ("", " ", "\t")
        if character != "[" or not is_alone:
            self._mark("glob")
