"""What keeps the runs of an agent safe, beside its rules: hiding of secrets, approvals, the audit log, the sandbox."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dragoman.agent.audit import Auditor, AuditSink
from dragoman.agent.broker import ApprovalTerms
from dragoman.agent.config import RunConfig
from dragoman.client.keys import find_key
from dragoman.errors import ConfigError
from dragoman.policy import Rules
from dragoman.providers import Endpoint
from dragoman.secrets import HumanSink, ModelSink, Secrets, Vault, worth_hiding
from dragoman.secrets.fields import is_secret_variable

DAY = 86_400.0


class Safety:
    """The settings of an agent that every run of it shares."""

    def __init__(
        self,
        defer_approvals: bool = False,
        seconds: float | None = DAY,
        scrub: bool = True,
        secrets: Iterable[str] | Mapping[str, str] = (),
        audit: AuditSink | str | os.PathLike[str] | None = None,
        sandbox: Any = None,
        ask_user: Callable[..., Any] | None = None,
        *,
        key: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if seconds is not None and seconds <= 0:
            raise ConfigError(f"approval_seconds is {seconds}", hint="give the seconds that an approval holds, or None")
        if isinstance(secrets, str):
            raise ConfigError("secrets is a single string", hint="give a list of them, or a mapping of names")
        self.defers = defer_approvals
        self.seconds = seconds
        self.sandbox = _find_sandbox(sandbox)
        self.ask_user = ask_user
        self._scrubs = scrub
        self._given = secrets
        self._key = key
        self._environment = environment
        self.wall: Callable[[], float] = time.time
        """The clock by which approvals expire."""
        self._secrets: Secrets | None = None
        self._human: HumanSink | None = None
        self._audit = audit
        self._auditor: Auditor | None = None

    def is_boxed(self, rules: Rules, parent_rules: Iterable[Rules] = ()) -> bool:
        """Whether commands run in a sandbox that a mode relies on: that of a run, or that of the runs above it.

        The run's own mode wants proof that nothing gets out. No other mode asks, so the sandbox is left alone there:
        it may have to be looked for first.
        """
        if all(each.mode != "sandboxed" for each in (rules, *parent_rules)):
            return False
        if getattr(self.sandbox, "confines", False) is not True:
            return False
        if rules.mode != "sandboxed":
            return True
        from dragoman.sandbox import proof

        return proof(self.sandbox).holds

    def auditor(self) -> Auditor | None:
        """What writes the audit log, if there is to be one."""
        if self._auditor is None and self._audit is not None:
            self._auditor = Auditor(_open_audit(self._audit, self.human_sink()))
        return self._auditor

    def terms(self, config: RunConfig, workspace: str | None, *, defers: bool) -> ApprovalTerms:
        """What the questions of a run have in common."""
        return ApprovalTerms(config.run_id, config.session, workspace, self.sandbox, self.seconds, defers)

    def human_sink(self, *endpoints: Endpoint | tuple[Endpoint, ...]) -> HumanSink:
        """What hides secrets from people and logs; the same for every run."""
        if self._human is None:
            named = [each for given in endpoints for each in (given if isinstance(given, tuple) else (given,))]
            self._secrets = Secrets(self._collect(named))
            self._human = HumanSink(self._secrets)
        return self._human

    def model_sink(self) -> ModelSink | None:
        """What hides secrets in results from the model, with a vault of its own for each run."""
        if not self._scrubs:
            return None
        return ModelSink(self._secrets or Secrets(), Vault(os.urandom(3).hex()))

    def _collect(self, endpoints: list[Endpoint]) -> dict[str, str]:
        """The secrets that are known: those that were given, our own keys, and what the environment calls one."""
        services = os.environ if self._environment is None else self._environment
        given = self._given
        listed = ((f"secret_{number}", value) for number, value in enumerate(given, 1))
        found = dict(given.items() if isinstance(given, Mapping) else listed)
        for endpoint in endpoints:
            key = find_key(endpoint, self._key if endpoint is endpoints[0] else None, None, services)
            if key is not None and worth_hiding(key.reveal()):
                found.setdefault(key.name or "provider_key", key.reveal())
        for name, value in services.items():
            if is_secret_variable(name) and worth_hiding(value) and not value.startswith("/"):
                found.setdefault(name, value)
        return found


def _open_audit(given: AuditSink | str | os.PathLike[str], sink: HumanSink) -> AuditSink:
    if isinstance(given, str | os.PathLike):
        from dragoman.journal.audit import AuditLog

        return AuditLog(given, sink=sink)
    return given


def _find_sandbox(given: Any) -> Any:
    """A sandbox by its name, or as it was given."""
    if not isinstance(given, str):
        return given
    from dragoman.sandbox import find_sandbox

    return find_sandbox(given)  # type: ignore[arg-type]
