"""What keeps the agents of a command safe: rules, built-in tools, sandbox, audit log, and servers of MCP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.builtin import NAMES
from dragoman.config import Config, config_folder, permissions, remember_rule, remembered_rules
from dragoman.errors import ConfigError, DragomanError
from dragoman.policy import Rules, read_rule
from dragoman.secrets import HumanSink, known_secrets
from dragoman.types import Tool

if TYPE_CHECKING:
    from dragoman.journal.audit import AuditLog
    from dragoman.mcp import Toolbox

_PINS = "mcp-pins.json"
_EMBEDDED = "local"


class Guard:
    """The safety of one command, as its settings want it."""

    def __init__(self, config: Config, environment: Mapping[str, str], workspace: str, warnings: list[str]) -> None:
        self._config = config
        self._environment = environment
        self._workspace = workspace
        self._warnings = warnings
        self._servers: Toolbox | None = None
        self._sandbox: Any = None

    def rules(self, *, attended: bool) -> Rules:
        """The rules of the settings, and those that were kept for this workspace."""
        # A file that cannot be read may hold rules that deny, so nothing goes on without it.
        remembered = remembered_rules(self._environment, self._workspace)
        return permissions(self._config, remembered, attended=attended)

    def remember(self, text: str) -> str:
        """Keep a rule for this workspace; the words that say where it is now."""
        try:
            path = remember_rule(self._environment, self._workspace, read_rule(text, "allow"))
        except ConfigError as problem:
            return f"{text} holds for this run only: {problem}"
        return f"{text} is allowed in this folder from now on ({path})"

    # ---- tools -------------------------------------------------------------------------------------------------------

    def tools(self, model: str) -> list[Tool]:
        """The built-in tools that the settings name, and those of servers."""
        config = self._config
        found: list[Tool] = []
        # The embedded model is so small that it loses its way among thirteen tools, unless somebody wants them.
        is_lost = model.partition(":")[0] == _EMBEDDED and config.origin("builtin").kind == "default"
        if config["builtin"] and not is_lost:
            from dragoman.builtin import toolbox

            found += toolbox(config["builtin"], network=config["network"])
        if config["mcp"]:
            found += self._connect().tools
        return found

    def _connect(self) -> Toolbox:
        from dragoman.mcp import connect, read_servers

        servers = read_servers(self._config["mcp"])
        self._servers = connect(servers, pins=pins_file(self._environment), environment=self._environment)
        self._warnings += self._servers.problems
        return self._servers

    def secrets(self) -> list[str]:
        """What servers were given to identify themselves with."""
        return self._servers.secrets() if self._servers is not None else []

    def sandbox(self, tools: Iterable[Tool]) -> Any:
        """The sandbox for commands, where there are any; a sandbox that is named has to work."""
        if self._sandbox is None and any(tool.metadata.get("class") == "exec" for tool in tools):
            from dragoman.sandbox import find_sandbox

            self._sandbox = find_sandbox(self._config["sandbox"])
            if self._config["mode"] == "sandboxed" and not _holds(self._sandbox):
                self._warnings.append(
                    "no sandbox holds here, so commands are asked about; `dragoman doctor --sandbox` says why"
                )
        return self._sandbox

    # ---- the log of decisions ----------------------------------------------------------------------------------------

    def audit_log(self, keys: Mapping[str, str]) -> AuditLog | None:
        """The log of decisions, unless the settings want none."""
        config = self._config
        if not config["audit.enabled"] or not config["journal.enabled"]:
            return None
        from dragoman.journal.audit import AuditLog
        from dragoman.paths import beside

        path, journal = config["audit.path"], config["journal.path"]
        if journal is not None and config.origin("audit.path").kind == "default":
            # `dragoman approvals` looks for it there as well.
            path = beside(Path(journal))
        return AuditLog(path, sink=HumanSink(known_secrets(keys))) if path is not None else None

    def close(self) -> None:
        """End what was started for this command."""
        if self._servers is not None:
            try:
                self._servers.close()
            except DragomanError as problem:
                self._warnings.append(str(problem))


def pins_file(environment: Mapping[str, str]) -> Path | None:
    """Where the definitions of servers' tools are remembered; None where there is no place for them."""
    folder = config_folder(environment)
    return folder and folder / _PINS


def read_builtin(given: str | None) -> list[str] | None:
    """The names of built-in tools as they stand on a command line."""
    if given is None:
        return None
    if given.strip() == "all":
        return list(NAMES)
    if given.strip() == "none":
        return []
    return [name.strip() for name in given.split(",") if name.strip()]


def _holds(sandbox: Any) -> bool:
    from dragoman.sandbox import proof

    return bool(sandbox.confines and proof(sandbox).holds)
