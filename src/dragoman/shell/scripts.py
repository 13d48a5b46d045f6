"""The files whose content a command line would run."""

from __future__ import annotations

import re

from dragoman.shell.reading import read_command
from dragoman.shell.wrappers import SHELLS, WRAPPERS, base_name, is_interpreter

_FILES_OF = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "gmake": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile"),
    "npm": ("package.json",),
    "pnpm": ("package.json",),
    "yarn": ("package.json",),
    "bun": ("package.json",),
    "rake": ("Rakefile",),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
    "pytest": ("conftest.py", "pyproject.toml", "pytest.ini", "tox.ini", "setup.cfg"),
    "ninja": ("build.ninja",),
    "cargo": ("Cargo.toml", "build.rs"),
    "gradle": ("build.gradle", "build.gradle.kts"),
    "mvn": ("pom.xml",),
    "docker-compose": ("docker-compose.yml", "compose.yaml"),
    "pre-commit": (".pre-commit-config.yaml",),
}
_ASKABLE = frozenset({"make", "gmake", "npm", "bun"})
"""Of these, those that tell their version without a look at their files."""
_FILE_OPTIONS = {"make": ("-f", "--file", "--makefile"), "gmake": ("-f", "--file", "--makefile"), "just": ("-f",),
                 "ninja": ("-f",), "awk": ("-f",), "gawk": ("-f",), "sed": ("-f",), "mawk": ("-f",)}  # fmt: skip
_CODE_OPTIONS = {
    "python": ("-c", "-m"),
    "pypy": ("-c", "-m"),
    "perl": ("-e", "-E"),
    "node": ("-e", "--eval", "-p", "--print"),
    "php": ("-r",),
}
_PRELOADING = frozenset({"-r", "--require", "--import", "--loader", "--rcfile", "--init-file"})
_VALUED = frozenset({"-W", "-X", "-O", "+O", "-o", "+o", "-I"})
_LOOKS_LIKE_SCRIPT = re.compile(r".+\.(?:sh|bash|zsh|py|pyw|js|mjs|cjs|ts|rb|pl|php|lua|mk)\Z")
_DEPTH = 4


def scripts(text: str) -> tuple[str, ...]:
    """The paths, as written, of the files that the line would run; more rather than fewer.

    Lines that are not understood give what could be read of them. Files that other files load are not known here.
    """
    found: dict[str, None] = {}
    _collect(text, found, 0)
    return tuple(found)


def _collect(text: str, found: dict[str, None], depth: int) -> None:
    for command in read_command(text).commands:
        _collect_from(command.words, found, depth)
        if command.words and is_interpreter(command.words[0]):
            found.update((r.target, None) for r in command.redirections if r.operator == "<" and r.target)


def _collect_from(words: tuple[str, ...], found: dict[str, None], depth: int) -> None:
    if not words:
        return
    program, name = words[0], base_name(words[0])
    if "/" in program:
        found[program] = None
    if name in ("source", "."):
        found.update(dict.fromkeys(word for word in words[1:2]))
    elif name in SHELLS or is_interpreter(name):
        _collect_from_interpreter(name, words, found, depth)
    elif name in _FILES_OF and not (name in _ASKABLE and words[1:] == ("--version",)):
        found.update(dict.fromkeys(_find_file_options(name, words) or _FILES_OF[name]))
    elif name in WRAPPERS and depth < _DEPTH:
        _collect_from_wrapper(words, found, depth)
    else:
        found.update(dict.fromkeys(_find_file_options(name, words)))


def _find_file_options(name: str, words: tuple[str, ...]) -> list[str]:
    options = _FILE_OPTIONS.get(name, ())
    files = [words[index + 1] for index, word in enumerate(words[:-1]) if word in options]
    for option in options:
        start = option + ("=" if option.startswith("--") else "")
        files.extend(word[len(start) :] for word in words[1:] if word.startswith(start) and len(word) > len(start))
    return files


def _collect_from_interpreter(name: str, words: tuple[str, ...], found: dict[str, None], depth: int) -> None:
    """The first operand of an interpreter is its script, unless an option gave it code."""
    found.update(dict.fromkeys(_find_file_options(name, words)))
    is_value = is_preloaded = False
    for index, word in enumerate(words[1:], 1):
        if is_value or is_preloaded:
            found.update(dict.fromkeys((word,) if is_preloaded else ()))
            is_value = is_preloaded = False
        elif _gives_code(name, word):
            _collect_from_code(name, word, words[index + 1 : index + 2], found, depth)
            return
        elif word.startswith(("-", "+")):
            is_preloaded = word in _PRELOADING
            is_value = word in _VALUED
        elif word not in ("run", "test"):
            # What follows an unknown option may be its value, and the script comes later.
            found[word] = None
            if not _LOOKS_LIKE_SCRIPT.match(word):
                later = (other for other in words[index + 1 :] if _LOOKS_LIKE_SCRIPT.match(other))
                found.update(dict.fromkeys(list(later)[:1]))
            return


def _gives_code(name: str, option: str) -> bool:
    if name in SHELLS:
        return re.match(r"-[A-Za-z]*c[A-Za-z]*\Z", option) is not None
    language = name.rstrip("0123456789.")
    return option in _CODE_OPTIONS.get(language, ("-c", "-e"))


def _collect_from_code(name: str, option: str, following: tuple[str, ...], found: dict[str, None], depth: int) -> None:
    if name in SHELLS and following and depth < _DEPTH:
        _collect(following[0], found, depth + 1)
    elif option == "-m" and following:
        module = following[0].replace(".", "/")
        found.update(dict.fromkeys((f"{module}.py", f"{module}/__main__.py")))


def _collect_from_wrapper(words: tuple[str, ...], found: dict[str, None], depth: int) -> None:
    """Where the wrapped command starts is not certain, so every word that could start it is looked at."""
    for index, word in enumerate(words[1:], 1):
        name = base_name(word)
        if name in SHELLS or is_interpreter(name) or name in _FILES_OF:
            _collect_from(words[index:], found, depth + 1)
            return
        if word.startswith(("./", "/", "../")) or _LOOKS_LIKE_SCRIPT.match(word):
            found[word] = None
        elif " " in word and depth < _DEPTH:
            _collect(word, found, depth + 1)
