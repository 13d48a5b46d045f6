"""Scripts that programs take as an argument (`sed`, `awk`, `jq`), read far enough to know that they only read."""

from __future__ import annotations

import re

from dragoman.policy.shell.parser import words_of

# --------------------------------------------------------------------------------------------------------------------
# Scripts of `sed` that only print, delete or substitute.

# A bracket must close before the next delimiter: implementations of `sed` disagree about delimiters in brackets.
_PIECE = r"(?:[^{0}\\\n\[]|\\[^\n]|\[\^?\]?[^\]{0}\\\n]*\])*"
_ADDRESS = rf"(?:[0-9]+|\$|/{_PIECE.format('/')}/I?)"
_SUBSTITUTIONS = "|".join(
    f"s{mark}{piece}{mark}{piece}{mark}[gpiI0-9]*"
    for mark, piece in ((re.escape(mark), _PIECE.format(re.escape(mark))) for mark in "/|#,:@%_")
)
_TRANSLATION = f"y/{_PIECE.format('/')}/{_PIECE.format('/')}/"
_COMMAND = re.compile(
    rf"[ \t]*(?:{_ADDRESS}(?:[ \t]*,[ \t]*[+~]?{_ADDRESS})?)?[ \t]*!?[ \t]*"
    rf"(?:[pPdDgGhHxnNlq=]|{_SUBSTITUTIONS}|{_TRANSLATION})?[ \t]*(?:;|\Z)"
)


def is_harmless_sed(script: str) -> bool:
    """Whether the script contains only commands that neither write files nor run programs."""
    position = 0
    while position < len(script):
        found = _COMMAND.match(script, position)
        if found is None or found.end() == position:
            return False
        position = found.end()
    return True


# --------------------------------------------------------------------------------------------------------------------
# Programs of `awk` that only print what they read from their own files.
#
# Only known words may occur, no single `|`, and `>` only as a comparison: those start programs and write files. `ARGV`,
# `ENVIRON` and `getline` are not known words, so that the program reads nothing but its operands.

_AWK_WORDS = words_of(
    "BEGIN END NF NR FNR FS OFS RS ORS FILENAME SUBSEP RSTART RLENGTH print printf if else for while do in next exit "
    "delete length substr index split sub gsub match sprintf tolower toupper int sqrt exp log sin cos rand srand "
    "break continue"
)
_AWK_TOKEN = re.compile(
    r"""(?P<blank>[ \t]+)|(?P<mark>[\n;{}(),\[\]]|&&|\|\||[=!<>]=|!~|\+\+|--|[-+*%^]=?|[=!<>~?:$])"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[0-9]+(?:\.[0-9]*)?)"""
    r"""|(?P<string>"(?:[^"\\\n]|\\[^\n])*")|(?P<slash>/)"""
)
_AWK_REGEX = re.compile(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\\\n]*\])*/")
_AWK_OWN = re.compile(r"[a-z][a-z0-9_]{0,11}\Z")
_AWK_FUNCTIONS = words_of("system getline close fflush extension func function return nextfile switch case default")
# A slash starts a pattern after these, and divides after a value. After anything else it is not certain.
_AWK_BEFORE_PATTERN = frozenset(["", "{", "}", "(", ",", ";", "\n", "!", "~", "!~", "&&", "||", "print"])


def is_harmless_awk(script: str) -> bool:
    """Whether the program consists of words and operators that are known, none of which writes or runs anything."""
    position, before, is_value = 0, "", False
    depth = dict.fromkeys("{}()", 0)
    while position < len(script):
        found = _AWK_TOKEN.match(script, position)
        if found is not None and found.lastgroup == "slash" and not is_value:
            found = _AWK_REGEX.match(script, position) if before in _AWK_BEFORE_PATTERN else None
        if found is None:
            return False
        token, position = found.group(), found.end()
        if found.lastgroup == "word" and not _is_known_to_awk(token, script[position : position + 1]):
            return False
        if token in depth:
            depth[token] += 1
        in_statement, in_brackets = depth["{"] - depth["}"], depth["("] - depth[")"]
        # In a statement, outside of brackets, it would name a file to write; so it would in `for (print > "x";;)`.
        if min(in_statement, in_brackets) < 0 or (token in (">", ">=") and in_statement and not in_brackets):
            return False
        if in_brackets and token in ("print", "printf"):
            return False
        if found.lastgroup != "blank":
            is_value = (
                found.lastgroup == "number"
                or token == "]"
                or (found.lastgroup == "word" and (token not in _AWK_WORDS or token.isupper()))
            )
            before = token
    return script.strip() != ""


def _is_known_to_awk(word: str, following: str) -> bool:
    if word in _AWK_WORDS:
        return True
    # An unknown name before a bracket is an unknown function.
    return word not in _AWK_FUNCTIONS and _AWK_OWN.match(word) is not None and following != "("


# --------------------------------------------------------------------------------------------------------------------
# Programs of `jq`: those that load other files are not known.

_JQ_LOADING = re.compile(r"\b(?:import|include|modulemeta|get_search_list)\b")


def is_harmless_jq(script: str) -> bool:
    """Whether the program loads no module and no other file."""
    return _JQ_LOADING.search(script) is None and not script.startswith("-")
