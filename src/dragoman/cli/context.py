"""The context of a command: its options, settings, tools, safety and journal, and the agents that are made of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from dragoman.agent import Agent, Connection, Safety
from dragoman.agent.approvals import Approver
from dragoman.agent.safety import SafetyServices
from dragoman.characters import quote_value
from dragoman.cli.approval_prompt import APPROVE_KEYWORDS
from dragoman.cli.options import RunOptions
from dragoman.cli.screen import NO_FOLDER, decode_json, print_line, print_warnings, read_bytes, read_json, read_text
from dragoman.cli.server_login import pins_file, terminal_login, tokens_file
from dragoman.client import Retries, list_models
from dragoman.client.facts import FileFacts, shared_facts
from dragoman.client.models import choose_model
from dragoman.config import (
    SETTINGS,
    Config,
    keys_by_variable,
    load,
    load_installed,
    load_tools,
    permissions,
    remember_rule,
    remembered_rules,
    restrict,
)
from dragoman.config.loader import read_keys
from dragoman.config.settings import read_prices
from dragoman.config.tool_sources import matches
from dragoman.errors import ConfigError, DragomanError, did_you_mean
from dragoman.journal import Journal, MemoryJournal, default_path, is_address, open_journal
from dragoman.jsonschema.references import refuse_to_fetch
from dragoman.paths import beside
from dragoman.policy import Rules, read_rule
from dragoman.policy.decision import TRAITS
from dragoman.policy.rules import FAMILIES
from dragoman.providers import WIRES, Facts
from dragoman.secrets import HumanSink, known_secrets, worth_hiding
from dragoman.types import Tool
from dragoman.wire.options import NEUTRAL

if TYPE_CHECKING:
    from dragoman.journal.audit import AuditLog
    from dragoman.mcp import Toolbox
    from dragoman.telemetry import JsonLog


# ---- opening the journal ---------------------------------------------------------------------------------------------

T = TypeVar("T")
JournalPlace = Path | str
"""The file of a journal, or the address of its database."""


def find_journal(named: str | None, *, of_engine: bool = False) -> JournalPlace:
    """The journal that is named, or that of the settings; `of_engine` prefers the engine. A named file has to exist."""
    if named is not None:
        if is_address(named):
            return named
        path = Path(named).expanduser()
        if not path.exists():
            raise ConfigError(f"there is no journal at {path}", hint="check the path; a run with a journal creates it")
        return path
    config = load()
    place = (config["engine"] if of_engine else None) or config["journal.path"]
    if place is None:
        raise ConfigError("there is no folder for the journal", hint="set HOME, or name a file with --journal")
    return place if is_address(place) else Path(place)


def has_journal(place: JournalPlace) -> bool:
    """Whether something was written to a journal, as far as the file system knows."""
    return isinstance(place, str) or place.exists()


def describe_journal(place: JournalPlace) -> str:
    """A journal for a person, without a password."""
    if isinstance(place, Path):
        return str(place)
    from dragoman.journal.postgres import describe_url

    return f"the database {describe_url(place)}"


def find_audit_log(place: JournalPlace) -> Path:
    """The audit log of a journal. That of a database is on this machine."""
    return beside(place if isinstance(place, Path) else default_path(os.environ))


def make_sink() -> HumanSink:
    """The redactor for what people see of a journal: it hides known keys, and text that looks like a key."""
    return SafetyServices(Safety(secrets=read_keys(load())), "default", None, None).human_sink()


def find_engine(named: str | None) -> str:
    """The address of the engine: that of the option, or that of the settings."""
    address = named or load()["engine"]
    if not address:
        hint = "name it with --engine postgres://user@host/name, or with DRAGOMAN_ENGINE"
        raise ConfigError("no engine is given", hint=hint)
    if not is_address(address):
        raise ConfigError("--engine is not the address of a database", hint="write postgres://user@host:5432/name")
    return str(address)


def with_journal(place: JournalPlace, work: Callable[[Journal], Awaitable[T]]) -> T:
    """Open a journal, call `work` with it, and close it."""

    async def opened() -> T:
        store = open_journal(place)
        assert store is not None
        with contextlib.closing(store):
            return await work(store)

    return asyncio.run(opened())


# ---- safety ----------------------------------------------------------------------------------------------------------

_EMBEDDED_PROVIDER = "local"


class SafetySetup:
    """The rules, built-in tools, MCP servers, sandbox and audit log of one command, made from its settings."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        workspace: str,
        warnings: list[str],
        mcp: Sequence[str] = (),
    ) -> None:
        self._config = config
        self._more_servers = mcp
        self._environment = environment
        self._workspace = workspace
        self._warnings = warnings
        self._servers: Toolbox | None = None
        self._sandbox: Any = None

    def rules(self, *, attended: bool) -> Rules:
        """The rules of the settings, and those that were saved for this workspace."""
        # A file that cannot be read may contain deny rules, so its error ends the command.
        remembered = remembered_rules(self._environment, self._workspace)
        return permissions(self._config, remembered, attended=attended)

    def remember_rule(self, text: str) -> str:
        """Save a rule for this workspace, and return a message that says where."""
        try:
            path = remember_rule(self._environment, self._workspace, read_rule(text, "allow"))
        except ConfigError as problem:
            return f"{text} is allowed for this run only: {problem}"
        return f"{text} is allowed in this folder from now on ({path})"

    # ---- tools -------------------------------------------------------------------------------------------------------

    def tools(self, model: str) -> list[Tool]:
        """The built-in tools that the settings name. This also connects to the MCP servers."""
        config = self._config
        found: list[Tool] = []
        is_embedded = re.split("[:/]", model)[0] == _EMBEDDED_PROVIDER
        if is_embedded:
            from dragoman.local.engine import import_llama

            # If it is not installed, no run begins that could be resumed.
            import_llama()
        # The embedded model is too small to choose among so many tools. They are offered if the user names them.
        is_too_small = is_embedded and config.origin("builtin").kind == "default"
        if config["builtin"] and not is_too_small:
            from dragoman.builtin import missing_tools, toolbox

            missing = missing_tools() if config.origin("builtin").kind == "default" else []
            if missing:
                left_out = f"the built-in tools {', '.join(missing)} do not run on Windows and are left out"
                self._warnings.append(f"{left_out}; dragoman in WSL has them")
            names = [name for name in config["builtin"] if name not in missing]
            found += toolbox(names, network=config["network"], limits=self._command_limits())
        if config["mcp"] or self._more_servers:
            from dragoman.mcp import connect, read_servers

            more = read_server_options(self._more_servers)
            servers = read_servers({**config["mcp"], **more})
            self._servers = connect(
                servers,
                pins=pins_file(self._environment),
                tokens=tokens_file(self._environment),
                environment=self._environment,
                login=terminal_login(self._workspace),
                # A server of --mcp may be one that the user is writing, so it is always asked for its tools.
                lazy=[server.name for server in servers if server.name not in more],
            )
            self._check_servers(more)
            self._warnings += self._servers.problems
        return found

    @property
    def servers(self) -> Toolbox | None:
        """The MCP servers, after `tools`."""
        return self._servers

    def _check_servers(self, named: Mapping[str, Any]) -> None:
        """The servers of --mcp have to work, as the tools of --tools have to load."""
        assert self._servers is not None
        for problem in self._servers.problems:
            if problem.partition(": cannot be used")[0] in named:
                self._servers.close()
                hint = "" if "mcp login" in problem else "check the command or the URL of the server"
                raise ConfigError(f"--mcp: {problem}", hint=hint)

    def _command_limits(self) -> Any:
        """What a command may use, where the settings say something else than the sandbox does by itself."""
        config, names = self._config, ("commands.memory_share", "commands.processes", "commands.file_bytes")
        if all(config.origin(name).kind == "default" for name in names):
            return None
        from dragoman.sandbox import BoxLimits, share_of_memory

        share, processes, file_bytes = (config[name] for name in names)
        return BoxLimits(memory_bytes=share_of_memory(share), processes=processes, file_bytes=file_bytes)

    def secrets(self) -> list[str]:
        """The credentials of the MCP servers."""
        return self._servers.secrets() if self._servers is not None else []

    def sandbox(self, tools: Iterable[Tool]) -> Any:
        """The sandbox for commands, if a tool runs commands; a named sandbox has to work."""
        if self._sandbox is None and any(tool.metadata.get("class") == "exec" for tool in tools):
            from dragoman.sandbox import AutoSandbox, find_sandbox, proof

            name, is_required = self._config["sandbox"], TRAITS[self._config["mode"]].uses_sandbox
            # The detection of a sandbox starts a process. If none is named, that can wait for the first command.
            self._sandbox = AutoSandbox() if name == "auto" and not is_required else find_sandbox(name, self._workspace)
            # A sandbox is effective if it confines commands and a probe could not break out of it.
            if is_required and not (self._sandbox.confines and proof(self._sandbox).holds):
                self._warnings.append(
                    "no sandbox is effective here, so commands need approval; `dragoman doctor --sandbox` shows why"
                )
        return self._sandbox

    # ---- audit log ---------------------------------------------------------------------------------------------------

    def audit_log(self, keys: Mapping[str, str]) -> AuditLog | None:
        """The audit log; None if the settings turn it off."""
        config = self._config
        if not config["audit.enabled"] or not config["journal.enabled"]:
            return None
        from dragoman.journal.audit import AuditLog

        path, journal = config["audit.path"], config["journal.path"]
        if journal is not None and config.origin("audit.path").kind == "default":
            # `dragoman approvals` uses the same path.
            path = find_audit_log(journal if is_address(journal) else Path(journal))
        return AuditLog(path, sink=HumanSink(known_secrets(keys))) if path is not None else None

    def close(self) -> None:
        """Disconnect from the MCP servers."""
        if self._servers is not None:
            try:
                self._servers.close()
            except DragomanError as problem:
                self._warnings.append(str(problem))


class OfferedTools:
    """The tools of a command: its own, and those of MCP servers, which may change between two runs."""

    def __init__(self, own: Mapping[str, Tool], servers: Toolbox | None, deny: Iterable[str]) -> None:
        self._own = own
        self._servers = servers
        self._deny = tuple(deny)

    @property
    def revision(self) -> int:
        return self._servers.revision if self._servers is not None else 0

    @property
    def tools(self) -> list[Tool]:
        return restrict(self.by_name().values(), self._deny)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def by_name(self) -> dict[str, Tool]:
        """All tools, also the denied ones. An own tool has precedence over that of a server."""
        served = {tool.name: tool for tool in (self._servers.tools if self._servers is not None else [])}
        return {**self._own, **{name: tool for name, tool in served.items() if name not in self._own}}


# ---- options and context ---------------------------------------------------------------------------------------------

_READ_ELSEWHERE = ("tools", "system", "mcp")
"""Options with the name of a setting that do not simply replace it."""
NO_MODEL = "no model is given"
NO_MODEL_HINT = (
    "name one with -m provider:model (such as ollama:qwen3, or local for the embedded one), with DRAGOMAN_MODEL, or as "
    "`model` in the file that `dragoman config path` names; `dragoman providers` lists the providers"
)


class AppContext:
    """What the agents of one command share: settings, tools, safety, journal and log."""

    def __init__(self, options: RunOptions, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        self.options = options
        self._request_options, settings = _split_options(options.request_options)
        self.config = load(environment=variables, arguments=_as_settings(options) | settings)
        self.warnings = list(self.config.warnings)
        self.registry = self.config.registry()
        self._keys = keys_by_variable(self.config, self.registry, variables, self.warnings)
        self._environment = {**variables, **self._keys}
        self._given_key = read_key_option(options.key)
        self.system = self.config["system"] if options.system is None else options.system
        if options.system is not None and options.system.startswith("@"):
            self.system = read_text(options.system[1:]).strip()
        self._schema = read_schema(options.schema) if options.schema is not None else None
        self.workspace = _resolve_workspace(options.workspace)
        self.facts = open_facts(variables, self.warnings)
        self.safety = SafetySetup(self.config, variables, self.workspace, self.warnings, options.mcp)
        self.tools = self._load_tools()
        """All tools. Those of MCP servers may change between two runs."""
        self.log = self._open_log()
        self.journal = self._open_journal()

    def agent(
        self, model: str | None, approve: Approver | None, *, ask_user: Any = None, attended: bool = True
    ) -> Agent:
        """A new agent for a model, or for the model of the settings if none is given."""
        config = self.config
        chosen = model or config["model"]
        if not chosen:
            url = self.options.base_url
            hint = f"name one with -m; `dragoman models {url}` lists those of the server" if url else NO_MODEL_HINT
            raise ConfigError(NO_MODEL, hint=hint)
        return Agent(
            self._with_model(chosen),
            self.tools,
            system=self.system,
            base_url=self.options.base_url,
            key=self._given_key,
            tool_mode=config["tool_mode"],
            text_calls=config["text_calls"],
            approve=approve,
            limits=config.limits,
            journal=self.journal,
            answer=self._schema,
            listeners=[self.log] if self.log is not None else [],
            options={**config.options, **self._request_options},
            fallbacks=config["fallbacks"],
            connection=self._connection(),
            safety=self._agent_safety(ask_user, attended=attended),
        )

    def _with_model(self, name: str) -> str:
        """The name with a model. For a server of one's own without one (`ollama`), it is the first that it lists."""
        base_url = self.options.base_url
        provider, model = self.registry.split(name, base_url)
        row = self.registry.get(provider.partition("@")[0])
        if row.name == "custom" and not base_url:
            # Otherwise a run that is resumed would execute its approved calls before the first request fails.
            raise ConfigError(f"the address of {quote_value(name)} is missing", hint="give it with --base-url URL")
        if model or row.model or row.group != "local":
            return name
        endpoint = self.registry.resolve(provider, "", base_url=base_url)
        listed = list_models(endpoint, key=self._given_key, transport=self._transport(), environment=self._environment)
        chosen = choose_model(listed)
        if not chosen:
            raise ConfigError(f"{row.name} lists no model", hint=f"load one, or name it as {row.name}:MODEL")
        print_line(f"using {quote_value(f'{provider}:{chosen}')}", error=True)
        return f"{provider}:{chosen}"

    def _connection(self) -> Connection:
        config = self.config
        return Connection(
            transport=self._transport(),
            timeouts=config.timeouts,
            retries=Retries(attempts=config["retries.attempts"]),
            registry=self.registry,
            facts=self.facts,
            # The agent reads the shipped prices itself, after the first reply.
            prices=read_prices(config["prices"]) if config["prices"] else None,
            environment=self._environment,
            # A command has one run, and the time until its first request counts.
            preload=False,
        )

    def _agent_safety(self, ask_user: Any, *, attended: bool) -> Safety:
        config = self.config
        return Safety(
            rules=self.safety.rules(attended=attended),
            trust=config["trust"],
            defer_approvals=self.defers_approvals,
            approval_seconds=config["approval_seconds"],
            ask_user=ask_user,
            scrub=config["scrub"],
            secrets=self._secrets(),
            audit=self.safety.audit_log(self._keys) if self.journal is not None else None,
            sandbox=self.safety.sandbox(self.tools),
            workspace=self.workspace,
        )

    @property
    def defers_approvals(self) -> bool:
        """Whether a request waits in the journal if no user is present to answer it."""
        return (
            bool(self.config["defer_approvals"])
            and self.journal is not None
            and not isinstance(self.journal, MemoryJournal)
        )

    def human_sink(self) -> HumanSink:
        """The redactor for what the user sees of a call."""
        return HumanSink(known_secrets(self._secrets()))

    def _secrets(self) -> dict[str, str]:
        """The keys of all providers, and the secrets in the settings. The agent searches the environment itself."""
        named = {name: self._environment.get(name, "") for name in self.config["secrets"]}
        named |= {f"mcp_{number}": value for number, value in enumerate(self.safety.secrets(), 1)}
        named |= {"key": self._given_key} if self._given_key else {}
        return {name: value for name, value in {**self._keys, **named}.items() if worth_hiding(value)}

    def close(self) -> None:
        if isinstance(self.facts, FileFacts) and not self.options.as_json:
            # What a run learns is announced for the next run, so a file that cannot be written matters.
            print_warnings(problem for problem in self.facts.problems if problem not in self.warnings)
        self.safety.close()
        if self.log is not None:
            self.log.close()
        if self.journal is not None:
            self.journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- loading -----------------------------------------------------------------------------------------------------

    def _load_tools(self) -> OfferedTools:
        """All tools. The tools of --tools have to load; a problem with any other tool becomes a warning."""
        config = self.config
        named = load_tools(self.options.tools).require()
        found = [load_tools(source for source in config["tools"] if source not in self.options.tools)]
        if config["installed_tools"] != "off":
            found.append(load_installed(ask=config["installed_tools"] == "ask"))
        tools = {tool.name: tool for tool in named}
        for loaded in found:
            self.warnings += loaded.problems
            for tool in loaded.tools:
                tools.setdefault(tool.name, tool)
        for tool in self.safety.tools(self.options.model or self.config["model"] or ""):
            tools.setdefault(tool.name, tool)
        offered = OfferedTools(tools, self.safety.servers, config["deny"])
        known = offered.by_name()
        options = self.options
        for rule in (*options.approve, *options.deny, *options.allow, *options.ask):
            name = rule.partition("(")[0]
            if name.startswith("mcp:") or name in FAMILIES or name in APPROVE_KEYWORDS:
                continue
            if not any(matches(tool, [name]) for tool in known):
                self.warnings.append(f"there is no tool {name!r}{did_you_mean(name, [*known, *FAMILIES])}")
        return offered

    def _open_log(self) -> JsonLog | None:
        path = self.config["log"]
        if not path:
            return None
        from dragoman.telemetry import JsonLog

        return JsonLog(path, secrets=[*self._keys.values(), *filter(None, [self._given_key])])

    def _open_journal(self) -> Journal | None:
        if self.options.no_journal or not self.config["journal.enabled"]:
            return None
        path = self.config["journal.path"]
        if path is None:
            return None
        if is_address(path):
            return open_journal(path)
        try:
            Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            why = (error.strerror or "it failed").lower()
            raise ConfigError(
                f"cannot create the journal {path}: {why}",
                hint="set XDG_STATE_HOME to a folder with write permission; `run` and `chat` also take --no-journal",
            ) from None
        return open_journal(path)

    def _transport(self) -> Any:
        if not self.config["proxy"]:
            return None
        from dragoman.client.http import HttpTransport

        return HttpTransport(proxy=self.config["proxy"], environment=self._environment)


def open_facts(environment: Mapping[str, str], problems: list[str]) -> Facts:
    """The facts that were learned about endpoints."""
    facts = shared_facts(environment)
    if isinstance(facts, FileFacts):
        # Read now, so that a problem with the file is printed with the other warnings.
        len(facts)
        problems += facts.problems
    return facts


# ---- parsing options -------------------------------------------------------------------------------------------------


def _as_settings(options: RunOptions) -> dict[str, Any]:
    """The options that are settings, by the names of the settings."""
    settings: dict[str, Any] = {}
    for name in RunOptions.__struct_fields__:
        value, limit = getattr(options, name), f"limits.{name}"
        if name in _READ_ELSEWHERE or value in (None, ()):
            continue
        if limit in SETTINGS:
            settings[limit] = _read_setting(limit, value, f"--{name}")
        elif name in SETTINGS:
            settings[name] = SETTINGS[name].kind.from_text(value.strip()) if isinstance(value, str) else value
    return settings


def _read_setting(name: str, text: str, option: str) -> Any:
    kind = SETTINGS[name].kind
    try:
        value = kind.from_text(text.strip())
        kind.read(value)
    except ValueError:
        example = f"{option}=1" if option.startswith("--option ") else f"{option} 10"
        raise ConfigError(f"{option} must be {kind.words}, not {text!r}", hint=f"for example {example}") from None
    return value


def _split_options(given: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values of --option: those for the request, and those that are settings."""
    request: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    for each in given:
        name, sign, text = each.partition("=")
        name = name.strip()
        if not sign or not name:
            raise ConfigError(f"--option {each!r} is not name=value", hint="for example --option temperature=0.2")
        wire, dot, field = name.partition(".")
        if dot and wire in WIRES:
            request.setdefault(wire, {})[field] = _read_value(text)
        elif f"options.{name}" in SETTINGS and name not in WIRES:
            settings[f"options.{name}"] = _read_setting(f"options.{name}", text, f"--option {name}")
        elif name in NEUTRAL - {"stream"}:
            request[name] = _read_value(text)
        else:
            guess = did_you_mean(name, NEUTRAL - {"stream"})
            raise ConfigError(f"there is no option {name!r}{guess}", hint=_OPTIONS_HINT)
    return request, settings


_OPTIONS_HINT = "put the name of the wire before a field of one wire: --option openai_chat.logprobs=true"


def read_key_option(given: str | None) -> str | None:
    """The key of `--key`: the text itself, or the content of a file behind `@`."""
    if given is None:
        return None
    key = read_text(str(Path(given[1:]).expanduser())).strip() if given.startswith("@") else given.strip()
    if not key or len(key.splitlines()) > 1:
        raise ConfigError("--key has to be one line", hint="for example --key @~/.keys/openai")
    return key


def read_schema(given: str) -> dict[str, Any]:
    """The JSON Schema of `--schema`: a file, or the schema itself."""
    hint = 'for example {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'
    is_inline = given.lstrip().startswith("{")
    schema = decode_json(given.encode() if is_inline else read_bytes(given), "--schema" if is_inline else given, hint)
    if not isinstance(schema, dict):
        raise ConfigError(f"the schema in {given} is not an object", hint=hint)
    from jsonschema_rs import ReferencingError, ValidationError, validator_for

    try:
        validator_for(schema, retriever=refuse_to_fetch)
    except (ValidationError, ReferencingError, ValueError) as problem:
        why = getattr(problem, "message", "") or str(problem)
        raise ConfigError(f"--schema is not a valid JSON Schema: {why}", hint=hint) from None
    return schema


_server_name = re.compile(r"([A-Za-z0-9][\w-]*)=(?!=)").match


def read_server_options(given: Sequence[str]) -> dict[str, Any]:
    """The servers of `--mcp`, as a table of the settings: a command, a URL, or the servers of a JSON file."""
    rows: dict[str, Any] = {}
    for each in given:
        named = _server_name(each)
        value = each[named.end() :] if named else each
        if value.endswith(".json") and " " not in value:
            read = read_json(str(Path(value).expanduser()))
            table = read.get("mcpServers", read) if isinstance(read, dict) else None
            if not isinstance(table, dict):
                raise ConfigError(f"{value} has no table of servers", hint='for example {"mcpServers": {"files": ...}}')
            rows |= {named[1]: next(iter(table.values()))} if named and len(table) == 1 else table
            continue
        is_url = "://" in value.partition(" ")[0]
        try:
            words = [value] if is_url else shlex.split(value)
        except ValueError as error:
            raise ConfigError(f"--mcp {each!r}: {error}", hint="check the quotes") from None
        if not words:
            raise ConfigError("--mcp is empty", hint="for example --mcp 'uvx mcp-server-time'")
        row = {"url": value} if is_url else {"command": words}
        rows[named[1] if named else _name_server(value, rows, is_url=is_url)] = row
    return rows


def _name_server(value: str, taken: Mapping[str, Any], *, is_url: bool) -> str:
    """A name for a server: the host of a URL, or the last word of a command that is no option."""
    from urllib.parse import urlsplit

    if is_url:
        base = urlsplit(value).hostname or ""
    else:
        words = [word for word in shlex.split(value) if not word.startswith("-")]
        # `uvx server-time` and `python server.py` start what their first argument names.
        base = Path((words[1:2] or words[:1] or [""])[0]).stem
    name = re.sub(r"[^A-Za-z0-9_-]+", "_", base).strip("_-") or "server"
    number = 1
    while (unique := name if number == 1 else f"{name}_{number}") in taken:
        number += 1
    return unique


def _read_value(text: str) -> Any:
    """The value of a text if it is JSON, else the text itself."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def _resolve_workspace(given: str | None) -> str:
    try:
        path = Path(given or ".").expanduser().resolve()
    except OSError:
        raise ConfigError(NO_FOLDER[0], hint=f"{NO_FOLDER[1]}, or name a workspace: --workspace DIR") from None
    if not path.is_dir():
        raise ConfigError(f"there is no folder {given}", hint="--workspace names the folder in which the tools work")
    return str(path)
