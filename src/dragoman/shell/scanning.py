"""Looks for a command in text that is not understood: as words anywhere, and in places where nothing can be told."""

from __future__ import annotations

import re

from dragoman.shell.needles import Needle
from dragoman.shell.reading import KEYWORDS
from dragoman.shell.wrappers import SHELLS, WRAPPERS, base_name, is_interpreter

_SEPARATOR = re.compile(r"(\$\(|[<>]\(|<<<|<<-?|(?<![<>])&(?!>)|[;|()\n\r`])")
_QUOTES = re.compile(r"\\\r?\n|[\"'\\]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")
_REDIRECTION = re.compile(r"[0-9]*[<>]+[&|]?")
_DYNAMIC = re.compile(r"[$*?\[{]")
_OPENING = frozenset({"$(", "`", "<(", ">("})


def might_mention(needle: Needle, text: str) -> bool:
    """Whether the text, read as a command line, runs what is looked for, or might."""
    return might_name(needle, text) or _is_untellable(text)


def might_name(needle: Needle, text: str) -> bool:
    """Whether the text holds the name of what is looked for, as a word, however it is quoted."""
    if "$'" in text or ('$"' in text and not _ends_quotes_only(text)):
        return True
    bare = _QUOTES.sub("", text)
    return needle.occurs_in(text) or needle.occurs_in(bare)


def _ends_quotes_only(text: str) -> bool:
    """Whether every `$"` looks like the end of a quoted pattern, as in `"foo$" `."""
    return all(found.group(1) in ("", " ", "\t", ";", "|", ")", "&") for found in re.finditer(r'\w\$"(.?)', text)) and (
        len(re.findall(r'\w\$"', text)) == text.count('$"')
    )


def _is_untellable(text: str) -> bool:
    """Whether a program is only known when the text runs; looks at the start of every piece that may be a command."""
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
        # Nothing before a substitution: its output is the program, unless it goes on after another one.
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
    """Where the program is, after keywords, assignments and redirections."""
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
