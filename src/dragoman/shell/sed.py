"""Scripts of `sed` that only print, delete or substitute on the way through."""

from __future__ import annotations

import re

from dragoman.shell.lines import SimpleCommand

# A bracket has to close before the next mark: not every `sed` agrees on where a mark inside brackets belongs.
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
_OPTIONS = re.compile(r"-[nErsuz]+\Z|--(?:quiet|silent|regexp-extended|separate|unbuffered|null-data|posix|sandbox)\Z")
_SCRIPT_NEXT = re.compile(r"-[nErsuz]*e\Z|--expression\Z")


def is_harmless_script(script: str) -> bool:
    """Whether the script is made of nothing but commands that neither write files nor run programs."""
    position = 0
    while position < len(script):
        found = _COMMAND.match(script, position)
        if found is None or found.end() == position:
            return False
        position = found.end()
    return True


def read_sed(command: SimpleCommand) -> tuple[str, list[str]]:
    """Why this `sed` may do more than print (empty where it does not), and the files it reads."""
    scripts: list[str] = []
    operands: list[str] = []
    is_script = is_last = False
    for index, word in enumerate(command.words[1:], 1):
        if command.is_marked(index) and (
            is_script or word[0] in "*?[-" or command.marks[index] not in ("glob", "tilde")
        ):
            return f"`{word}` could become an option with which `sed` writes", []
        if is_script:
            scripts.append(word)
            is_script = False
        elif is_last or word == "-" or not word.startswith("-"):
            operands.append(word)
        elif word == "--":
            is_last = True
        elif word.startswith("--expression="):
            scripts.append(word.partition("=")[2])
        elif _SCRIPT_NEXT.match(word):
            is_script = True
        elif not _OPTIONS.match(word):
            return f"`sed` with `{word}` may write", []
    if not scripts:
        scripts, operands = operands[:1], operands[1:]
    if not scripts or not all(is_harmless_script(script) for script in scripts):
        return "the script of `sed` may write or run something", []
    return "", operands
