"""The table of settings: one row each, with the kind of its value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from dragoman.agent.result import Limits
from dragoman.builtin import NAMES
from dragoman.client.retry import Retries
from dragoman.client.transport import Timeouts
from dragoman.errors import ConfigError, did_you_mean
from dragoman.journal import is_address
from dragoman.policy import read_rule
from dragoman.policy.decision import MODE_RANKS, MODES, TRAITS
from dragoman.providers import WIRES
from dragoman.providers.prices import Prices
from dragoman.providers.provider import plain_name
from dragoman.state_files import NO_VALUE
from dragoman.types import SandboxName, ToolModeName, TrustName

# --------------------------------------------------------------------------------------------------------------------
# The prices of a user's file: rows like the shipped ones, or the short form `[prices."provider:model"]`.


def read_prices(rows: Mapping[str, Any]) -> Prices:
    """Return the shipped prices, overridden by these rows. Raises ConfigError for an invalid row."""
    known = Prices.default()
    # An exact name has priority over a pattern that also matches.
    ordered = sorted(rows.items(), key=lambda row: "*" in row[0])
    return known.with_rows({name: _in_full(name, row) for name, row in ordered}) if rows else known


def _in_full(name: str, row: Any) -> Any:
    """Return the full row for a short one: `"openai:gpt-5*"` is a row for that provider, and `*` matches any text."""
    provider, colon, model = name.partition(":")
    if not colon or not isinstance(row, Mapping) or "match" in row:
        return row
    pattern = re.escape(plain_name(model)).replace(r"\*", ".*")
    return {"providers": [provider], "match": [pattern], **row}


# --------------------------------------------------------------------------------------------------------------------
# The kinds of values: how a value is read from TOML or from text, and a description for messages.

NO_LIMIT = NO_VALUE
BUILTIN_TOOLS = tuple(NAMES)
_ON = frozenset({"1", "true", "yes", "on"})
_OFF = frozenset({"0", "false", "no", "off"})
_variable_name = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_MODEL = re.compile(r"[^\s?#\\\x00-\x1f\x7f]+\Z").match


class Kind(Struct, frozen=True):
    """One kind of value. `read` raises ValueError, with a reason if `words` alone does not explain it."""

    words: str
    """The description of a valid value: `a whole number, at least 1`."""
    read: Callable[[Any], Any]
    from_text: Callable[[str], Any] = str
    """Converts a text of the environment before `read`; raises ValueError if it cannot."""
    in_text: bool = True
    """Whether a text can express it; a table cannot be set in the environment."""
    folder_matters: bool = False
    """Whether it may name files; relative paths start at the folder of the configuration file."""


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


def _or_none(kind: Kind) -> Kind:
    """Return the kind that also accepts the word for no limit, which becomes None."""
    return Kind(
        f'{kind.words}, or "{NO_LIMIT}"',
        lambda value: None if value == NO_LIMIT else kind.read(value),
        lambda text: text if text == NO_LIMIT else kind.from_text(text),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError
    return value


def _model(value: Any) -> str:
    name = _text(value)
    if re.search(r"\s", name.strip()):
        from dragoman.providers.registry import Registry

        meant = Registry.default().suggest_model(name)
        raise ValueError("a name with a blank" + (f"; did you mean {meant}?" if meant else ""))
    if name.startswith(":") or name.endswith(":"):
        raise ValueError(f"a name without a {'provider' if name.startswith(':') else 'model'}")
    # The name of a model may become part of a URL, so it must not contain characters that change the path.
    if not _MODEL(name) or ".." in name:
        raise ValueError
    return name


def _address(value: Any) -> str:
    # The message does not show the value: it may contain a password.
    if not is_address(_text(value)):
        raise ValueError("something else")
    return _text(value)


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) and each for each in value):
        raise ValueError
    return tuple(dict.fromkeys(value))


def _rules(value: Any) -> tuple[str, ...]:
    texts = _texts(value)
    for text in texts:
        try:
            read_rule(text, "ask")
        except ConfigError as error:
            raise ValueError(f"{error}; {error.next_step}") from None
    return texts


def _texts_text(text: str) -> list[str]:
    return [stripped for part in text.split(",") if (stripped := part.strip())]


def _rules_text(text: str) -> list[str]:
    """Split a list of rules; a comma inside brackets belongs to a rule."""
    parts, depth = [""], 0
    for character in text:
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [stripped for part in parts if (stripped := part.strip())]


def _builtin(value: Any) -> tuple[str, ...]:
    if value in ("all", "none"):
        return BUILTIN_TOOLS if value == "all" else ()
    names = _texts(value)
    for name in names:
        if name not in BUILTIN_TOOLS:
            raise ValueError(f"{name!r}{did_you_mean(name, BUILTIN_TOOLS)}")
    return tuple(name for name in BUILTIN_TOOLS if name in names)


def _builtin_text(text: str) -> Any:
    return text if text in ("all", "none") else _texts_text(text)


def _variables(value: Any) -> tuple[str, ...]:
    names = _texts(value)
    # The message does not show the name: the user may have written the secret itself.
    if not all(map(_variable_name, names)):
        raise ValueError("something that is not the name of a variable")
    return names


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
            raise ValueError(f"{name!r} in it is not a table")
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


_KEY_FIELDS = ("env", "file")


def _keys(value: Any) -> dict[str, Any]:
    """Read a table by provider: a text (the key itself), or a table with the name of a variable or a file."""
    table = _table(value)
    for name, source in table.items():
        # The message does not show the value: it may be a key.
        fields = list(source) if isinstance(source, Mapping) else []
        named = len(fields) == 1 and fields[0] in _KEY_FIELDS and isinstance(source[fields[0]], str)
        if not (named or (isinstance(source, str) and source)):
            raise ValueError(f'{name!r} in it is neither {{ env = "VARIABLE" }}, {{ file = "path" }} nor a key')
    return table


def one_of(*choices: str, **synonyms: str) -> Kind:
    """Return the kind of one of several words; a synonym is replaced by its word."""

    def read(value: Any) -> str:
        found = synonyms.get(value, value) if isinstance(value, str) else value
        if found not in choices:
            raise ValueError
        return str(found)

    return Kind("one of " + ", ".join(choices), read)


TEXT = Kind("a text", _text)
MODEL = Kind("a model such as ollama:qwen3", _model)
MODELS = Kind("a list of models such as ollama:qwen3", lambda value: tuple(map(_model, _texts(value))), _texts_text)
TEXTS = Kind("a list of texts", _texts, _texts_text)
TOOLS = Kind(
    "a list of file.py, package.module, a name in one of them (file.py:name), or entry:NAME",
    _texts,
    _texts_text,
    folder_matters=True,
)
RULES = Kind("a list of rules such as git_* or write(src/**)", _rules, _rules_text)
BUILTIN = Kind('a list of built-in tools such as read and bash, "all" or "none"', _builtin, _builtin_text)
VARIABLES = Kind("a list of names of variables", _variables, _texts_text)
SANDBOX = one_of(*get_args(SandboxName), off="none")
SWITCH = Kind("true or false", _switch, _switch_text)
PATH = Kind("the path of a file", _text, folder_matters=True)
JOURNAL = Kind("the path of a file, or an address such as postgres://user@host/name", _text, folder_matters=True)
ENGINE = Kind("an address such as postgres://user@host/name", _address)
WHOLE = Kind("a whole number", _whole(-(2**63)), int)
COUNT = Kind("a whole number, at least 1", _whole(1), int)
COUNT_LIMIT = _or_none(COUNT)
COUNT_OR_ZERO = Kind("a whole number, at least 0", _whole(0), int)
COST_LIMIT = _or_none(Kind("US dollars, more than 0", _number(0, above=True), float))
SECONDS = Kind("seconds, more than 0", _number(0, above=True), float)
SECONDS_LIMIT = _or_none(SECONDS)
TEMPERATURE = Kind("a number from 0 to 2", _number(0, most=2), float)
FRACTION = Kind("a number from 0 to 1", _number(0, most=1), float)
REASONING = Kind('an effort such as "high", "off", or a table', _reasoning)
TABLE = Kind("a table", _table, in_text=False)
ROWS = Kind("a table of tables by name", _table_of_tables, in_text=False)
SERVERS = Kind("a table of servers by name", _servers, in_text=False)
PRICES = Kind("a table of prices by model", _prices, in_text=False)
KEYS = Kind("a table of keys by provider", _keys, in_text=False, folder_matters=True)


# --------------------------------------------------------------------------------------------------------------------
# The table of settings. Files are read, merged, written and documented from it.

Merge = Literal["suggest", "lower", "stricter", "narrow", "union", "user_union", "user_only"]
"""What the file of a project can do with a setting. A project contains code of others, so it may only tighten.

- `suggest`: its value counts if the user set none
- `lower`: the lower of its value and the user's counts
- `stricter`: the stricter of both counts, by the order of `Setting.strictness`
- `narrow`: the entries that both name count
- `union`: its entries are added to the user's
- `user_union`: entries of the user, the environment and the arguments are added up; a project's are ignored
- `user_only`: a project's value is ignored; it could run code, send data elsewhere or write files
"""

MERGES: dict[Merge, str] = {
    "suggest": "may suggest one",
    "lower": "may lower it",
    "stricter": "may make it stricter",
    "narrow": "may narrow it",
    "union": "may add to it",
    "user_union": "may not set it",
    "user_only": "may not set it",
}
PREFIX = "DRAGOMAN_"


class Setting(Struct, frozen=True):
    """One setting: the kind of its value, its default, and how layers are merged."""

    name: str
    kind: Kind
    default: Any
    help: str
    merge: Merge
    example: str = ""
    """The value that `config init` shows, as TOML, if the default is not a good example."""
    strictness: tuple[Any, ...] = ()
    """The values from the strictest to the loosest, if `merge` is `stricter`; a tuple holds values of equal rank."""
    deliberate: tuple[str, ...] = ()
    """Values that the environment cannot set, because files of a project may set variables."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it; empty if none can."""
        return PREFIX + self.name.upper().replace(".", "_") if self.kind.in_text else ""

    @property
    def in_project(self) -> bool:
        """Whether a project's file may set it."""
        return self.merge not in ("user_only", "user_union")

    def rank(self, value: Any) -> int:
        """Return the position of a value, from the strictest."""
        for place, each in enumerate(self.strictness):
            if value == each or (isinstance(each, tuple) and value in each):
                return place
        return len(self.strictness)


_TRUST: tuple[TrustName, ...] = get_args(TrustName)
# Landlock confines less than bubblewrap, and `auto` uses the better of both, or none: so they have equal rank.
_SANDBOXES = ("bubblewrap", ("auto", "landlock"), "none")
_INSTALLED = ("off", "ask", "allow")
_TIMEOUTS = Timeouts()
_RUN = Limits()

_MODELS = (
    Setting("model", MODEL, None, "the model", "suggest", '"ollama:qwen3"'),
    Setting(
        "fallbacks",
        MODELS,
        (),
        "models to use if the first is unreachable or overloaded",
        "suggest",
        '["openai:gpt-5-mini"]',
    ),
    Setting("system", TEXT, None, "the system prompt", "user_only", '"Answer in one sentence."'),
    Setting(
        "tool_mode",
        one_of(*get_args(ToolModeName)),
        "auto",
        "how tools are offered: automatic, as native definitions, or as text in the prompt",
        "suggest",
    ),
)

_SAFETY = (
    Setting(
        "text_calls",
        SWITCH,
        True,
        "whether calls in a model's text count; if not, only native calls do",
        "stricter",
        strictness=(False, True),
    ),
    Setting("trust", one_of(*_TRUST), "default", "which calls in a model's text count", "stricter", strictness=_TRUST),
    Setting(
        "mode",
        one_of(*MODES),
        "default",
        "which calls run without approval",
        "stricter",
        strictness=MODE_RANKS,
        deliberate=tuple(mode for mode in MODES if TRAITS[mode].allows_all),
    ),
    Setting("allow", RULES, (), "calls that need no approval", "user_union", '["bash(git status*)"]'),
    Setting("ask", RULES, (), "calls that always need approval", "union", '["bash(git push*)"]'),
    Setting(
        "deny",
        RULES,
        (),
        "calls that never run; a tool that is named without brackets is not offered",
        "union",
        '["shell", "write(.github/**)"]',
    ),
    Setting(
        "auto_approve",
        RULES,
        (),
        "calls that are approved automatically in runs without a user",
        "user_only",
        '["write(src/**)"]',
    ),
    Setting(
        "approval_seconds",
        SECONDS_LIMIT,
        86_400.0,
        "how long an approval request can be answered, and an approval be used",
        "lower",
    ),
    Setting(
        "defer_approvals",
        SWITCH,
        True,
        "whether a run without a user waits for approvals and can be resumed; else such calls are denied",
        "user_only",
    ),
    Setting(
        "sandbox",
        SANDBOX,
        "auto",
        "the sandbox for commands; a named sandbox has to work, `auto` uses the best available one",
        "stricter",
        strictness=_SANDBOXES,
    ),
    Setting("network", SWITCH, False, "whether commands in the sandbox can use the network", "user_only"),
    Setting(
        "commands.memory_share", FRACTION, 0.75, "the part of the memory that a process of a command may fill", "lower"
    ),
    Setting("commands.processes", COUNT_LIMIT, 4096, "processes of a command", "lower"),
    Setting("commands.file_bytes", COUNT_LIMIT, 4 * 1024**3, "the largest file that a command may write", "lower"),
    Setting(
        "scrub",
        SWITCH,
        True,
        "whether secrets are hidden from the model; output for people never shows them",
        "stricter",
        strictness=(True, False),
    ),
    Setting(
        "secrets",
        VARIABLES,
        (),
        "variables whose values are secrets, in addition to those of the providers",
        "union",
        '["MY_TOKEN"]',
    ),
)

_TOOLS = (
    Setting("builtin", BUILTIN, BUILTIN_TOOLS, "the built-in tools to offer", "narrow"),
    Setting(
        "tools",
        TOOLS,
        (),
        "files and modules with your own tools",
        "user_only",
        '["~/tools/weather.py", "entry:search"]',
    ),
    Setting(
        "installed_tools",
        one_of(*_INSTALLED),
        "ask",
        "how the tools of installed packages are used",
        "stricter",
        strictness=_INSTALLED,
    ),
)

_LIMITS = (
    Setting("limits.turns", COUNT, _RUN.turns, "requests to the model in one run", "lower"),
    Setting("limits.tokens", COUNT_LIMIT, _RUN.tokens, "tokens of one run, input and output", "lower", "200_000"),
    Setting("limits.cost", COST_LIMIT, _RUN.cost, "the cost of one run, by known prices", "lower", "0.50"),
    Setting("limits.seconds", SECONDS_LIMIT, _RUN.seconds, "the time of one run", "lower", "600"),
    Setting("limits.turn_seconds", SECONDS_LIMIT, _RUN.turn_seconds, "the time of one turn", "lower", "300"),
    Setting("limits.tool_seconds", SECONDS, _RUN.tool_seconds, "the time of one call", "lower"),
    Setting("limits.calls_per_turn", COUNT, _RUN.calls_per_turn, "calls in one reply", "lower"),
    Setting("limits.repairs", COUNT_OR_ZERO, _RUN.repairs, "how often the model may retry broken calls", "lower"),
    Setting("limits.mistakes", COUNT, _RUN.mistakes, "consecutive turns without a valid call", "lower"),
    Setting("limits.blanks", COUNT_OR_ZERO, _RUN.blanks, "how often an empty reply is retried", "lower"),
    Setting("limits.concurrency", COUNT, _RUN.concurrency, "calls that run at the same time", "lower"),
)

_CONNECTION = (
    Setting("timeouts.connect", SECONDS, _TIMEOUTS.connect, "the time to open a connection", "lower"),
    Setting(
        "timeouts.first_byte", SECONDS, _TIMEOUTS.first_byte, "the time until the first byte of the answer", "lower"
    ),
    Setting("timeouts.idle", SECONDS, _TIMEOUTS.idle, "the time between two pieces of the answer", "lower"),
    Setting("retries.attempts", COUNT, Retries().attempts, "the maximum number of times a request is sent", "lower"),
    Setting(
        "proxy",
        TEXT,
        None,
        "the URL of a proxy, or `none`; by default HTTPS_PROXY, HTTP_PROXY and NO_PROXY count",
        "user_only",
        '"http://localhost:3128"',
    ),
)

_OPTIONS = (
    Setting("options.temperature", TEMPERATURE, None, "sampling temperature", "suggest", "0.2"),
    Setting("options.max_tokens", COUNT, None, "the maximum tokens of one reply", "lower", "4096"),
    Setting("options.top_p", FRACTION, None, "nucleus sampling", "suggest", "0.9"),
    Setting("options.top_k", COUNT, None, "sampling among the most likely tokens", "suggest", "40"),
    Setting("options.seed", WHOLE, None, "a seed, if the endpoint accepts one", "suggest", "7"),
    Setting("options.stop", TEXTS, None, "texts that end a reply", "suggest", '["END"]'),
    Setting("options.reasoning", REASONING, None, "the reasoning effort of the model", "suggest", '"high"'),
    Setting(
        "options.parallel_tool_calls", SWITCH, None, "false requests at most one call in a reply", "suggest", "false"
    ),
    *(Setting(f"options.{wire}", TABLE, None, f"fields of the wire {wire}", "user_only") for wire in WIRES),
)

_RECORDS = (
    Setting(
        "journal.enabled", SWITCH, True, "whether runs are saved, so that they can be resumed and shown", "user_only"
    ),
    Setting("journal.path", JOURNAL, None, "the file or the database of the journal", "user_only", '"~/dragoman.db"'),
    Setting(
        "engine",
        ENGINE,
        None,
        "the Postgres database that many workers share",
        "user_only",
        '"postgres://me@db.example.org/dragoman"',
    ),
    Setting("audit.enabled", SWITCH, True, "whether decisions and approvals are logged", "user_only"),
    Setting("audit.path", PATH, None, "the file of the audit log", "user_only", '"~/dragoman-audit.jsonl"'),
    Setting(
        "log", PATH, None, "a file to which one line of JSON per event is appended", "user_only", '"~/dragoman.log"'
    ),
)

_TABLES = (
    Setting("keys", KEYS, {}, "keys by provider: a variable, a file, or the key itself", "user_only"),
    Setting("mcp", SERVERS, {}, "MCP servers, whose tools are offered", "user_only"),
    Setting("prices", PRICES, {}, "US dollars per million tokens, by provider:model", "user_only"),
    Setting("providers", ROWS, {}, "your own providers", "user_only"),
    Setting("profiles", ROWS, {}, "your own model profiles", "user_only"),
)

SECTIONS: dict[str, tuple[Setting, ...]] = {
    "Models": _MODELS,
    "Safety": _SAFETY,
    "Tools": _TOOLS,
    "Limits of a run": _LIMITS,
    "Connection": _CONNECTION,
    "Options of a request": _OPTIONS,
    "Records": _RECORDS,
    "Tables": _TABLES,
}
"""The settings by section, in the order in which the commands and the documentation list them."""
SETTINGS: dict[str, Setting] = {setting.name: setting for section in SECTIONS.values() for setting in section}
"""All settings by name."""
