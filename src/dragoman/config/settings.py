"""Every setting there is: one row each, from which files are read, merged, written and documented."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.agent.limits import Limits
from dragoman.client.retrying import Retries
from dragoman.client.transport import Timeouts
from dragoman.config import kinds
from dragoman.config.kinds import Kind
from dragoman.providers import WIRES

Merge = Literal["suggest", "lower", "stricter", "union", "user_only"]
"""What a project's file can do to a setting. It comes with the code that others wrote, so it may only tighten.

- `suggest`: its value counts where the user said nothing
- `lower`: the lower of its value and the user's counts
- `stricter`: the stricter of both counts, by the order of `Setting.strictness`
- `union`: its entries are added to the user's
- `user_only`: it may not be there at all; it could run code, send data elsewhere or write files
"""

MERGES: dict[Merge, str] = {
    "suggest": "may suggest one",
    "lower": "may lower it",
    "stricter": "may make it stricter",
    "union": "may add to it",
    "user_only": "may not set it",
}
PREFIX = "DRAGOMAN_"


class Setting(Struct, frozen=True):
    """One setting: what it may be, what it is when nobody says anything, and who may say what."""

    name: str
    kind: Kind
    default: Any
    help: str
    merge: Merge
    example: str = ""
    """The value that `config init` shows, as TOML, where the default shows nothing."""
    strictness: tuple[str, ...] = ()
    """The values from the strictest to the loosest, where `merge` is `stricter`."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it, empty where none can."""
        return PREFIX + self.name.upper().replace(".", "_") if self.kind.in_text else ""

    @property
    def in_project(self) -> bool:
        """Whether a project's file may hold it."""
        return self.merge != "user_only"


_TRUST = ("strict", "default", "compat")
_INSTALLED = ("off", "ask", "allow")
_TIMEOUTS = Timeouts()
_RUN = Limits()

_MODELS = (
    Setting("model", kinds.MODEL, None, "the model that is asked", "suggest", '"ollama:qwen3"'),
    Setting(
        "fallbacks",
        kinds.MODELS,
        (),
        "models to go on with when the first cannot be reached or is overloaded",
        "suggest",
        '["openai:gpt-5-mini"]',
    ),
    Setting("system", kinds.TEXT, None, "the system prompt", "user_only", '"Answer in one sentence."'),
    Setting(
        "tool_mode",
        kinds.one_of("auto", "native", "text"),
        "auto",
        "how tools are offered: as the endpoint can, by its own definitions, or in the prompt",
        "suggest",
    ),
)

_SAFETY = (
    Setting(
        "trust",
        kinds.one_of(*_TRUST),
        "default",
        "which calls in a model's text count",
        "stricter",
        strictness=_TRUST,
    ),
    Setting(
        "approvals",
        kinds.APPROVALS,
        (),
        "tools whose calls somebody has to allow",
        "union",
        '["delete_*"]',
    ),
    Setting("deny", kinds.PATTERNS, (), "tools that are never offered nor run", "union", '["shell"]'),
)

_TOOLS = (
    Setting(
        "tools",
        kinds.TOOLS,
        (),
        "where tools come from",
        "user_only",
        '["~/tools/weather.py", "entry:search"]',
    ),
    Setting(
        "installed_tools",
        kinds.one_of(*_INSTALLED),
        "ask",
        "what becomes of the tools that installed packages bring",
        "stricter",
        strictness=_INSTALLED,
    ),
)

_LIMITS = (
    Setting("limits.turns", kinds.COUNT, _RUN.turns, "requests to the model in one run", "lower"),
    Setting("limits.tokens", kinds.COUNT_LIMIT, _RUN.tokens, "tokens of one run, in and out", "lower", "200_000"),
    Setting("limits.cost", kinds.COST_LIMIT, _RUN.cost, "the cost of one run, by known prices", "lower", "0.50"),
    Setting("limits.seconds", kinds.SECONDS_LIMIT, _RUN.seconds, "the time of one run", "lower", "600"),
    Setting("limits.turn_seconds", kinds.SECONDS_LIMIT, _RUN.turn_seconds, "the time of one turn", "lower", "300"),
    Setting("limits.tool_seconds", kinds.SECONDS, _RUN.tool_seconds, "the time of one call", "lower"),
    Setting("limits.calls_per_turn", kinds.COUNT, _RUN.calls_per_turn, "calls in one reply", "lower"),
    Setting("limits.repairs", kinds.COUNT_OR_ZERO, _RUN.repairs, "how often broken calls are asked for again", "lower"),
    Setting("limits.mistakes", kinds.COUNT, _RUN.mistakes, "turns in a row without one good call", "lower"),
    Setting("limits.blanks", kinds.COUNT_OR_ZERO, _RUN.blanks, "how often an empty reply is asked for again", "lower"),
    Setting("limits.concurrency", kinds.COUNT, _RUN.concurrency, "calls that run at the same time", "lower"),
)

_CONNECTION = (
    Setting("timeouts.connect", kinds.SECONDS, _TIMEOUTS.connect, "the time until a connection stands", "lower"),
    Setting("timeouts.first_byte", kinds.SECONDS, _TIMEOUTS.first_byte, "the time until the answer begins", "lower"),
    Setting("timeouts.idle", kinds.SECONDS, _TIMEOUTS.idle, "the time between two pieces of the answer", "lower"),
    Setting("retries.attempts", kinds.COUNT, Retries().attempts, "how often a request is sent at most", "lower"),
    Setting(
        "proxy",
        kinds.TEXT,
        None,
        "the address of a proxy; none is used unless named",
        "user_only",
        '"http://localhost:3128"',
    ),
)

_OPTIONS = (
    Setting("options.temperature", kinds.TEMPERATURE, None, "sampling temperature", "suggest", "0.2"),
    Setting("options.max_tokens", kinds.COUNT, None, "the most tokens of one reply", "lower", "4096"),
    Setting("options.top_p", kinds.FRACTION, None, "nucleus sampling", "suggest", "0.9"),
    Setting("options.top_k", kinds.COUNT, None, "sampling among the most likely tokens", "suggest", "40"),
    Setting("options.seed", kinds.WHOLE, None, "a seed, where the endpoint takes one", "suggest", "7"),
    Setting("options.stop", kinds.TEXTS, None, "texts that end a reply", "suggest", '["END"]'),
    Setting(
        "options.reasoning",
        kinds.REASONING,
        None,
        "how much the model thinks",
        "suggest",
        '"high"',
    ),
    Setting(
        "options.parallel_tool_calls", kinds.SWITCH, None, "false asks for one call in a reply", "suggest", "false"
    ),
    *(Setting(f"options.{wire}", kinds.TABLE, None, f"fields that only {wire} has", "user_only") for wire in WIRES),
)

_RECORDS = (
    Setting("journal.enabled", kinds.SWITCH, True, "whether runs are kept, to be resumed and shown", "user_only"),
    Setting("journal.path", kinds.PATH, None, "the file of the journal", "user_only", '"~/dragoman.db"'),
    Setting("log", kinds.PATH, None, "a file that gets one line of JSON per event", "user_only", '"~/dragoman.log"'),
)

_TABLES = (
    Setting("keys", kinds.KEYS, {}, "keys by provider: a variable, a file, or the key itself", "user_only"),
    Setting("prices", kinds.PRICES, {}, "US dollars for a million tokens, by provider:model", "user_only"),
    Setting("providers", kinds.ROWS, {}, "endpoints of your own", "user_only"),
    Setting("profiles", kinds.ROWS, {}, "families of models of your own", "user_only"),
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
SETTINGS: dict[str, Setting] = {setting.name: setting for section in SECTIONS.values() for setting in section}
