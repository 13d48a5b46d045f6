"""What a value of a setting may be: how it is read from TOML or from text, and how it is said in words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.config.prices import read_prices
from dragoman.errors import ConfigError, nearest
from dragoman.policy import read_rule

NO_LIMIT = "none"
EVERY_TOOL = "ask"
BUILTIN_TOOLS = (
    *("read", "glob", "grep", "web_fetch", "write", "edit", "apply_patch", "bash"),
    *("todo_write", "ask_user", "finish", "remember", "recall"),
)
_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off"})
_variable_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_MODEL = re.compile(r"[^\s?#\\\x00-\x1f\x7f]+\Z").match


class Kind(Struct, frozen=True):
    """One kind of value. `read` raises ValueError with the reason where the words alone would not tell it."""

    words: str
    """What a right value is: `a whole number, at least 1`."""
    read: Callable[[Any], Any]
    from_text: Callable[[str], Any] = str
    """What a text of the environment stands for, before it is read; ValueError if it is no such thing."""
    in_text: bool = True
    """Whether a text can hold it; tables have no place in the environment."""
    folder_matters: bool = False
    """Whether it may name files, which are then sought beside the file in which they are named."""


def _whole(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError
        return value

    return read


def _number(least: float, *, above: bool = False, most: float = math.inf) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise ValueError
        if value < least or value > most or (above and value == least):
            raise ValueError
        return float(value)

    return read


def _limit(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, or the word for no limit, which is None."""
    return lambda value: None if value == NO_LIMIT else read(value)


def _whole_text(text: str) -> Any:
    return NO_LIMIT if text == NO_LIMIT else int(text)


def _number_text(text: str) -> Any:
    return NO_LIMIT if text == NO_LIMIT else float(text)


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    return value


def _model(value: Any) -> str:
    # A model's name may become part of an address, so nothing that leads elsewhere stands in it.
    name = _text(value)
    if _has_model(name):
        return name
    if ":" not in name or name.startswith(":") or name.endswith(":") or not _MODEL(name) or ".." in name:
        raise ValueError
    return name


def _has_model(name: str) -> bool:
    """Whether it is a provider that brings its model, such as the embedded one."""
    from dragoman.providers.registry import shipped

    return ":" not in name and name in shipped() and bool(shipped().get(name).model)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
        raise ValueError
    return tuple(dict.fromkeys(value))


def _models(value: Any) -> tuple[str, ...]:
    return tuple(_model(each) for each in _texts(value))


def _rules(value: Any) -> tuple[str, ...]:
    texts = _texts(value)
    for text in texts:
        try:
            read_rule(text, "ask")
        except ConfigError as error:
            raise ValueError(f"{error}; {error.next_step}") from None
    return texts


def _rules_or_all(value: Any) -> tuple[str, ...]:
    return ("*",) if value == EVERY_TOOL else _rules(value)


def _texts_text(text: str) -> list[str]:
    return [stripped for part in text.split(",") if (stripped := part.strip())]


def _rules_text(text: str) -> list[str]:
    """Rules behind each other; a comma inside brackets belongs to a rule."""
    parts, depth = [""], 0
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [stripped for part in parts if (stripped := part.strip())]


def _rules_or_all_text(text: str) -> Any:
    return EVERY_TOOL if text == EVERY_TOOL else _rules_text(text)


def _builtin(value: Any) -> tuple[str, ...]:
    if value in ("all", "none"):
        return BUILTIN_TOOLS if value == "all" else ()
    names = _texts(value)
    for name in names:
        if name not in BUILTIN_TOOLS:
            guess = nearest(name, BUILTIN_TOOLS)
            raise ValueError(f"{name!r}" + (f"; did you mean {guess!r}?" if guess else ""))
    return tuple(name for name in BUILTIN_TOOLS if name in names)


def _builtin_text(text: str) -> Any:
    return text if text in ("all", "none") else _texts_text(text)


def _variables(value: Any) -> tuple[str, ...]:
    names = _texts(value)
    # The name is not shown: somebody may have written the secret itself.
    if not all(map(_variable_name, names)):
        raise ValueError("something that is no name of a variable")
    return names


def _sandbox(value: Any) -> str:
    found = "none" if value == "off" else value
    if found not in SANDBOXES:
        raise ValueError
    return str(found)


def _servers(value: Any) -> dict[str, Any]:
    table = _table_of_tables(value)
    for name, row in table.items():
        if ("command" in row) == ("url" in row):
            raise ValueError(f"{name!r} in it, which needs either a `command` or a `url`")
    return table


def _switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _switch_text(text: str) -> bool:
    folded = text.strip().lower()
    if folded not in _ON | _OFF:
        raise ValueError
    return folded in _ON


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError
    return dict(value)


def _table_of_tables(value: Any) -> dict[str, Any]:
    table = _table(value)
    for name, row in table.items():
        if not isinstance(row, Mapping):
            raise ValueError(f"{name!r} in it is no table")
    return table


def _reasoning(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"enabled": False} if value == "off" else {"effort": _text(value)}
    return _table(value)


def _prices(value: Any) -> dict[str, Any]:
    table = _table_of_tables(value)
    try:
        read_prices(table)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return table


SANDBOXES = ("bubblewrap", "landlock", "auto", "none")
_KEY_FIELDS = ("env", "file")


def _keys(value: Any) -> dict[str, Any]:
    """By provider: a text (the key itself) or a table with the name of a variable or a file."""
    table = _table(value)
    for name, source in table.items():
        # The value is not shown: it may be a key.
        fields = list(source) if isinstance(source, Mapping) else []
        named = len(fields) == 1 and fields[0] in _KEY_FIELDS and isinstance(source[fields[0]], str)
        if not (named or (isinstance(source, str) and source)):
            raise ValueError(f'{name!r} in it is neither {{ env = "VARIABLE" }}, {{ file = "path" }} nor a key')
    return table


def one_of(*choices: str) -> Kind:
    """One of several words."""

    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError
        return str(value)

    return Kind("one of " + ", ".join(choices), read)


TEXT = Kind("a text", _text)
MODEL = Kind("a model such as ollama:qwen3", _model)
MODELS = Kind("a list of models such as ollama:qwen3", _models, _texts_text)
TEXTS = Kind("a list of texts", _texts, _texts_text)
TOOLS = Kind(
    "a list of file.py, package.module, package.module:name or entry:NAME", _texts, _texts_text, folder_matters=True
)
RULES = Kind("a list of rules such as git_* or write(src/**)", _rules, _rules_text)
RULES_OR_ALL = Kind(
    f'"{EVERY_TOOL}" for all tools, or a list of rules such as git_* or write(src/**)',
    _rules_or_all,
    _rules_or_all_text,
)
BUILTIN = Kind('a list of built-in tools such as read and bash, "all" or "none"', _builtin, _builtin_text)
VARIABLES = Kind("a list of names of variables", _variables, _texts_text)
SANDBOX = Kind("one of " + ", ".join(SANDBOXES), _sandbox)
SWITCH = Kind("true or false", _switch, _switch_text)
PATH = Kind("the path of a file", _text, folder_matters=True)
WHOLE = Kind("a whole number", _whole(-(2**63)), int)
COUNT = Kind("a whole number, at least 1", _whole(1), int)
COUNT_LIMIT = Kind(f'a whole number, at least 1, or "{NO_LIMIT}"', _limit(_whole(1)), _whole_text)
COUNT_OR_ZERO = Kind("a whole number, at least 0", _whole(0), int)
COST_LIMIT = Kind(f'US dollars, more than 0, or "{NO_LIMIT}"', _limit(_number(0, above=True)), _number_text)
SECONDS = Kind("seconds, more than 0", _number(0, above=True), float)
SECONDS_LIMIT = Kind(f'seconds, more than 0, or "{NO_LIMIT}"', _limit(_number(0, above=True)), _number_text)
TEMPERATURE = Kind("a number from 0 to 2", _number(0, most=2), float)
FRACTION = Kind("a number from 0 to 1", _number(0, most=1), float)
REASONING = Kind('an effort such as "high", "off", or a table', _reasoning)
TABLE = Kind("a table", _table, in_text=False)
ROWS = Kind("a table of tables by name", _table_of_tables, in_text=False)
SERVERS = Kind("a table of servers by name", _servers, in_text=False)
PRICES = Kind("a table of prices by model", _prices, in_text=False)
KEYS = Kind("a table of keys by provider", _keys, in_text=False, folder_matters=True)
