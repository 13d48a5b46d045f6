"""The safety services of an agent besides its rules: redaction, the audit log, the sandbox."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dragoman.agent.audit import Auditor, AuditSink
from dragoman.agent.settings import Connection, Safety
from dragoman.client.keys import find_key
from dragoman.logs import get_log, write_traceback
from dragoman.policy import Decision, Policy, Rules, as_policy
from dragoman.policy.decision import TRAITS
from dragoman.providers import Endpoint
from dragoman.secrets import HumanSink, ModelSink, Secrets, Vault, worth_hiding
from dragoman.secrets.fields import is_secret_variable
from dragoman.types import ModeName, Tool, ToolCall

_log = get_log("agent")


class SafetyServices:
    """The services that the runs of an agent share: redactors, audit log, sandbox. Each is created on first use."""

    def __init__(self, settings: Safety, mode: ModeName, key: str | None, connection: Connection | None) -> None:
        self.settings = settings
        box = "auto" if settings.sandbox is None and TRAITS[mode].uses_sandbox else settings.sandbox
        self.sandbox = _find_sandbox(box, settings.workspace)
        self._key = key
        self._connection = connection or Connection()
        self.wall: Callable[[], float] = time.time
        """The clock for the expiry of approvals."""
        self._secrets: Secrets | None = None
        self._human: HumanSink | None = None
        self._auditor: Auditor | None = None

    def is_boxed(self, rules: Rules, parent_rules: Iterable[Rules] = ()) -> bool:
        """Whether commands run in a sandbox on which the mode of the run, or of a parent run, depends.

        The run's own mode `sandboxed` requires a proof of confinement. With any other mode the sandbox is not touched,
        since the search for one can be slow.
        """
        if not any(TRAITS[each.mode].uses_sandbox for each in (rules, *parent_rules)):
            return False
        if getattr(self.sandbox, "confines", False) is not True:
            return False
        if not TRAITS[rules.mode].uses_sandbox:
            return True
        from dragoman.sandbox import proof

        return proof(self.sandbox).holds

    def auditor(self) -> Auditor | None:
        """Return the writer of the audit log, if there is an audit log."""
        if self._auditor is None and self.settings.audit is not None:
            self._auditor = Auditor(_open_audit(self.settings.audit, self.human_sink()))
        return self._auditor

    def human_sink(self, *endpoints: Endpoint | tuple[Endpoint, ...]) -> HumanSink:
        """Return the redactor for people and logs. All runs share it."""
        if self._human is None:
            named = [each for given in endpoints for each in (given if isinstance(given, tuple) else (given,))]
            self._secrets = Secrets(self._collect(named))
            self._human = HumanSink(self._secrets)
        return self._human

    def model_sink(self) -> ModelSink | None:
        """Return the redactor for results that the model sees. Each run has its own vault."""
        if not self.settings.scrub:
            return None
        return ModelSink(self._secrets or Secrets(), Vault(os.urandom(3).hex()))

    def _collect(self, endpoints: list[Endpoint]) -> dict[str, str]:
        """Return the known secrets: those of the settings, provider keys, and secret environment variables."""
        environment = self._connection.environment
        services = os.environ if environment is None else environment
        given = self.settings.secrets
        listed = ((f"secret_{number}", value) for number, value in enumerate(given, 1))
        found = dict(given.items() if isinstance(given, Mapping) else listed)
        for endpoint in endpoints:
            key = find_key(endpoint, self._key if endpoint is endpoints[0] else None, None, services)
            if key is not None and worth_hiding(key.reveal()):
                found.setdefault(key.name or "provider_key", key.reveal())
        for name, value in self._connection.keys.items():
            if worth_hiding(value):
                found.setdefault(name, value)
        for name, value in services.items():
            if is_secret_variable(name) and worth_hiding(value) and not value.startswith("/"):
                found.setdefault(name, value)
        return found


def _open_audit(given: AuditSink | str | os.PathLike[str], sink: HumanSink) -> AuditSink:
    if isinstance(given, str | os.PathLike):
        from dragoman.journal.audit import AuditLog

        return AuditLog(given, sink=sink)
    return given


def _find_sandbox(given: Any, workspace: str | None) -> Any:
    """Return a sandbox by its name, or the given one."""
    if not isinstance(given, str):
        return given
    from dragoman.sandbox import find_sandbox

    return find_sandbox(given, workspace)  # type: ignore[arg-type]


def logged_policy(given: Policy | Iterable[Policy] | None, redact: Callable[[str], str]) -> Policy | None:
    """Return the policy with a log of its exceptions. The decision on a call whose policy fails is a denial."""
    policy = as_policy(given)
    if policy is None:
        return None

    def consult(call: ToolCall, tool: Tool) -> Decision:
        try:
            return policy(call, tool)
        except Exception as problem:
            _log.error("the policy raised an exception for %s\n%s", call.name, redact(write_traceback(problem)))
            raise

    return consult
