"""The less common settings of an agent, by topic: `Connection` and `Safety`. `ContextSettings` is in `context`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from dragoman.agent.audit import AuditSink
from dragoman.agent.watch import WatchSettings
from dragoman.client.rate_limit import RateLimiter
from dragoman.client.retry import Retries
from dragoman.client.transport import Timeouts, Transport
from dragoman.errors import ConfigError
from dragoman.extraction.trust import Profile
from dragoman.policy import Policy, Rule, Rules
from dragoman.providers import Facts, MemoryFacts, Registry
from dragoman.providers.prices import Prices

T = TypeVar("T")
DAY = 86_400.0


class Connection(Struct, frozen=True, kw_only=True):
    """How an agent connects to its endpoints, and what it knows about them."""

    transport: Transport | None = None
    """The transport of requests; None uses dragoman's own HTTP client."""
    timeouts: Timeouts | None = None
    retries: Retries | None = None
    limiter: RateLimiter | None = None
    """Requests and tokens per minute, and requests at the same time, of all runs together."""
    keys: Mapping[str, str] = {}
    """Keys by model (`openai:gpt-4o`), by provider (`openai`) or by the name of their variable, for fallbacks too."""
    environment: Mapping[str, str] | None = None
    """Where other keys are looked up; None uses the environment of the process."""
    registry: Registry | None = None
    """The tables of providers and models; None uses the built-in tables."""
    facts: Facts | None = None
    """The store of facts about endpoints. None uses the file that the command line uses, or memory with a `transport`.
    `MemoryFacts()` keeps them in memory."""
    prices: Prices | None = None
    preload: bool = True
    """Import and compile what the first run needs when the agent is created, so that the run does not block the event
    loop. False does it when it is needed, which is faster for a program that has one run."""


class Safety(Struct, frozen=True, kw_only=True):
    """What may run, who may see what, and who approves, in addition to `mode`, `allow`, `ask`, `deny` and `approve`."""

    policy: Policy | Iterable[Policy] | None = None
    """Functions that decide on calls. They can only make the rules stricter."""
    rules: Rules | Iterable[Rule] | None = None
    trust: str | Profile = "default"
    """The trust profile for calls in text: strict, default, compat, or your own."""
    nonce: bool = False
    """In text mode, instruct the model to use a wrapper with a random nonce for every request."""
    aliases: Mapping[str, str] = {}
    """Other names that a model may use for a tool."""
    watch: WatchSettings = WatchSettings()
    """When a run counts as looping."""
    defer_approvals: bool | None = None
    """Store approval requests in the journal and end the run, instead of a denial, if nobody can answer. None: only the
    runs of an engine do."""
    approval_seconds: float | None = DAY
    """How long an approval is valid; None means no limit."""
    ask_user: Callable[..., Any] | None = None
    """Answers the questions of the tool `ask_user`."""
    scrub: bool = True
    """Redact secrets in tool results before the model sees them."""
    secrets: Iterable[str] | Mapping[str, str] = ()
    """Secrets to redact in addition to those that are recognised."""
    audit: AuditSink | str | os.PathLike[str] | None = None
    """The file of the audit log."""
    sandbox: Any = None
    """The sandbox for commands: a name, a sandbox, or None for the choice of the mode."""
    workspace: str | None = None
    """The working folder of the tools."""

    def __post_init__(self) -> None:
        if self.approval_seconds is not None and self.approval_seconds <= 0:
            hint = "give a number of seconds, or None for no limit"
            raise ConfigError(f"approval_seconds is {self.approval_seconds}", hint=hint)
        if isinstance(self.secrets, str):
            raise ConfigError(
                "secrets is a single string", hint="give a list of strings, or a mapping from names to strings"
            )


# ---- checks of what an agent is given -------------------------------------------------------------------------------


def require_kind(given: T | None, kind: type[T], name: str) -> T:
    if given is not None and not isinstance(given, kind):
        hint = f"write {name}={kind.__name__}(...)"
        raise ConfigError(f"{name} is a {kind.__name__}, not {type(given).__name__}", hint=hint)
    return kind() if given is None else given


def require_text(given: Any, name: str) -> str | None:
    if given is not None and not isinstance(given, str):
        raise ConfigError(f"{name} is a text, not {type(given).__name__}", hint=f'write {name}="..."')
    return given


def choose(value: Any, known: tuple[str, ...], name: str) -> Any:
    if value not in known:
        raise ConfigError(f"{name} is {value!r}", hint=f"use one of {', '.join(known)}")
    return value


def may_change(tools: Any) -> bool:
    """Whether the tools are a toolbox or contain one, or an MCP server."""
    values = tools if isinstance(tools, list | tuple) else ()
    return any(hasattr(each, "revision") or hasattr(each, "identity") for each in (tools, *values))


def choose_facts(connection: Connection, *, has_own: bool) -> Facts:
    """The given store, else that of the user. A transport of one's own may lead anywhere, so its facts are not kept."""
    if connection.facts is not None:
        return connection.facts
    if connection.transport is not None or has_own:
        return MemoryFacts()
    from dragoman.client.facts import shared_facts

    return shared_facts(os.environ if connection.environment is None else connection.environment)
