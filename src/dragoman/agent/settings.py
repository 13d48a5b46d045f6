"""The less common settings of an agent, by topic: `Connection` and `Safety`. `ContextSettings` is in `context`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from dragoman.agent.audit import AuditSink
from dragoman.agent.watch import WatchSettings
from dragoman.client.retry import Retries
from dragoman.client.transport import Timeouts, Transport
from dragoman.errors import ConfigError
from dragoman.extraction.trust import Profile
from dragoman.policy import Policy, Rule, Rules
from dragoman.providers import Facts, Registry
from dragoman.providers.prices import Prices

DAY = 86_400.0


class Connection(Struct, frozen=True, kw_only=True):
    """How an agent reaches its endpoints, and what it knows of them."""

    transport: Transport | None = None
    """What carries the requests; None takes dragoman's own HTTP client."""
    timeouts: Timeouts | None = None
    retries: Retries | None = None
    environment: Mapping[str, str] | None = None
    """Where keys are looked up; None takes the environment of the process."""
    registry: Registry | None = None
    """Providers and models; None takes the built-in tables."""
    facts: Facts | None = None
    """What was learned of endpoints; None keeps it in memory."""
    prices: Prices | None = None


class Safety(Struct, frozen=True, kw_only=True):
    """What may run, what may be seen, and who is asked, beside `mode`, `allow`, `ask`, `deny` and `approve`."""

    policy: Policy | Iterable[Policy] | None = None
    """Functions that decide on calls; they can only make the rules stricter."""
    rules: Rules | Iterable[Rule] | None = None
    trust: str | Profile = "default"
    """How far calls in text are trusted: strict, default, compat, or a profile."""
    nonce: bool = False
    """In text mode, teach a wrapper with a random word for every request."""
    aliases: Mapping[str, str] = {}
    """Other names by which a model may call a tool."""
    watch: WatchSettings = WatchSettings()
    """When a run counts as looping."""
    defer_approvals: bool = False
    """Store approval requests in the journal and end the run, instead of a denial where nobody can answer."""
    approval_seconds: float | None = DAY
    """How long an approval is valid; None for ever."""
    ask_user: Callable[..., Any] | None = None
    """Answers the questions of the tool `ask_user`."""
    scrub: bool = True
    """Hide secrets in tool results from the model."""
    secrets: Iterable[str] | Mapping[str, str] = ()
    """Secrets to hide beside those that are recognised."""
    audit: AuditSink | str | os.PathLike[str] | None = None
    """The file of the audit log."""
    sandbox: Any = None
    """Where commands run: a name, a sandbox, or None for the choice of the mode."""
    workspace: str | None = None
    """The folder that the tools work in."""

    def __post_init__(self) -> None:
        if self.approval_seconds is not None and self.approval_seconds <= 0:
            hint = "give the seconds that an approval is valid, or None"
            raise ConfigError(f"approval_seconds is {self.approval_seconds}", hint=hint)
        if isinstance(self.secrets, str):
            raise ConfigError("secrets is a single string", hint="give a list of them, or a mapping of names")
