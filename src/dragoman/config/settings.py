"""Every setting there is: one row each, from which files are read, merged, written and documented."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from dragoman.agent.result import Limits
from dragoman.client.retry import Retries
from dragoman.client.transport import Timeouts
from dragoman.config import kinds
from dragoman.config.kinds import Kind
from dragoman.policy.decision import MODES
from dragoman.providers import WIRES

Merge = Literal["suggest", "lower", "stricter", "narrow", "union", "user_union", "user_only"]
"""What a project's file can do to a setting. It comes with the code that others wrote, so it may only tighten.

- `suggest`: its value counts where the user said nothing
- `lower`: the lower of its value and the user's counts
- `stricter`: the stricter of both counts, by the order of `Setting.strictness`
- `narrow`: what both name counts
- `union`: its entries are added to the user's
- `user_union`: the same for the user, the environment and the arguments; a project's entries are passed over
- `user_only`: a project's value is passed over; it could run code, send data elsewhere or write files
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
    """One setting: what it may be, what it is when nobody says anything, and who may say what."""

    name: str
    kind: Kind
    default: Any
    help: str
    merge: Merge
    example: str = ""
    """The value that `config init` shows, as TOML, where the default shows nothing."""
    strictness: tuple[Any, ...] = ()
    """The values from the strictest to the loosest, where `merge` is `stricter`; those of a rank stand in a tuple."""
    deliberate: tuple[str, ...] = ()
    """Values that somebody has to write down or say: the environment, which files of a project may set, cannot."""

    @property
    def variable(self) -> str:
        """The environment variable that sets it, empty where none can."""
        return PREFIX + self.name.upper().replace(".", "_") if self.kind.in_text else ""

    @property
    def in_project(self) -> bool:
        """Whether a project's file may hold it."""
        return self.merge not in ("user_only", "user_union")

    def rank(self, value: Any) -> int:
        """The place of a value among the others, from the strictest."""
        for place, each in enumerate(self.strictness):
            if value == each or (isinstance(each, tuple) and value in each):
                return place
        return len(self.strictness)


_TRUST = ("strict", "default", "compat")
# Neither of the first two allows all that the other does: in one nothing is changed, in the other nobody is asked.
_MODES = (("plan", "locked"), "default", "edits", "sandboxed", "bypass")
# Landlock confines less than bubblewrap does, and `auto` takes the better of both, or none: so they are of a rank.
_SANDBOXES = ("bubblewrap", ("auto", "landlock"), "none")
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
        "mode",
        kinds.one_of(*MODES),
        "default",
        "what runs without a question",
        "stricter",
        strictness=_MODES,
        deliberate=("bypass",),
    ),
    Setting("allow", kinds.RULES, (), "calls that need no question", "user_union", '["bash(git status*)"]'),
    Setting("ask", kinds.RULES, (), "calls that are always asked about", "union", '["bash(git push*)"]'),
    Setting(
        "approvals",
        kinds.RULES_OR_ALL,
        (),
        "tools whose calls somebody has to allow; another name for `ask`",
        "union",
        '["delete_*"]',
    ),
    Setting(
        "deny",
        kinds.RULES,
        (),
        "calls that never run; a tool that is named without brackets is not even offered",
        "union",
        '["shell", "write(.github/**)"]',
    ),
    Setting(
        "auto_approve",
        kinds.RULES,
        (),
        "what is taken for approved in runs without a person to ask",
        "user_only",
        '["write(src/**)"]',
    ),
    Setting(
        "approval_seconds",
        kinds.SECONDS_LIMIT,
        86_400.0,
        "how long a question can be answered, and an answer be used",
        "lower",
    ),
    Setting(
        "park",
        kinds.SWITCH,
        True,
        "whether a run without a person to ask waits to be resumed; else what is asked about is denied",
        "user_only",
    ),
    Setting(
        "sandbox",
        kinds.SANDBOX,
        "auto",
        "what confines commands; one that is named has to work, `auto` takes the best there is",
        "stricter",
        strictness=_SANDBOXES,
    ),
    Setting("network", kinds.SWITCH, False, "whether commands in the sandbox reach the network", "user_only"),
    Setting(
        "scrub",
        kinds.SWITCH,
        True,
        "whether secrets are hidden from the model as well; people never see them",
        "stricter",
        strictness=(True, False),
    ),
    Setting(
        "secrets",
        kinds.VARIABLES,
        (),
        "variables whose values are secrets; those of the providers are known",
        "union",
        '["MY_TOKEN"]',
    ),
)

_TOOLS = (
    Setting(
        "builtin",
        kinds.BUILTIN,
        kinds.BUILTIN_TOOLS,
        "the built-in tools that are offered",
        "narrow",
    ),
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
    Setting("audit.enabled", kinds.SWITCH, True, "whether decisions and approvals are kept", "user_only"),
    Setting("audit.path", kinds.PATH, None, "the file of the audit log", "user_only", '"~/dragoman-audit.jsonl"'),
    Setting("log", kinds.PATH, None, "a file that gets one line of JSON per event", "user_only", '"~/dragoman.log"'),
)

_TABLES = (
    Setting("keys", kinds.KEYS, {}, "keys by provider: a variable, a file, or the key itself", "user_only"),
    Setting("mcp", kinds.SERVERS, {}, "servers of MCP, whose tools are offered", "user_only"),
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
