"""The MCP servers of a user: a program to start, or a URL.

They come from the user's configuration, as tables or in the JSON form that many programs share
(`{"mcpServers": {...}}`). `${NAME}` in a value of `environment` or `headers` is replaced by a variable, so that the
file needs no keys.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct, field

from dragoman.errors import ConfigError, did_you_mean
from dragoman.toolset import fold

_is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}").fullmatch
_variable = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)\}")
_KEYS = (
    *("command", "args", "environment", "env", "cwd", "url", "headers", "oauth", "type", "transport"),
    *("disabled", "enabled"),
)
_OF_PROGRAMS = ("args", "environment", "env", "cwd")
_OF_URLS = ("headers", "oauth")
_OAUTH_KEYS = ("client_id", "client_secret", "scopes", "port")
# Keys of other programs in the same file; they do not describe how to reach a server, and dragoman ignores them.
_FOREIGN = frozenset({"description", "timeout", "autoApprove", "alwaysAllow", "icon", "gallery", "version"})
_OURS = frozenset(
    {"accept", "content-type", "content-length", "host", "connection", "transfer-encoding", "last-event-id"}
)
_HTTP_KINDS = frozenset({"http", "streamable-http", "streamable_http", "streamableHttp"})


OLD_TRANSPORT = "the old transport HTTP+SSE (`sse`) is not supported"
OLD_TRANSPORT_HINT = (
    "use the newer URL of the server, which often ends in /mcp instead of /sse, or a bridge: "
    'command = ["npx", "mcp-remote", "URL"]'
)


class StdioServer(Struct, frozen=True):
    """A program that dragoman starts, and that communicates over its standard input and output."""

    name: str
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    """Variables in addition to the few that every program gets; their values count as secrets."""
    cwd: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.command, str):
            raise ConfigError(
                f"MCP server {self.name!r}: the command is a list of words", hint=f"write {self.command.split()!r}"
            )

    def identity(self) -> list[str]:
        """The identity of the server, which is part of every pin."""
        return ["stdio", *self.command, *([f"cwd={self.cwd}"] if self.cwd else [])]

    def secrets(self) -> list[str]:
        """The values that must never be shown."""
        return _secrets(self.environment)

    def __repr__(self) -> str:
        names = ", ".join(self.environment)
        return f"StdioServer({self.name!r}, {self.command[:1]!r} + {len(self.command) - 1} more, variables: {names})"


class OAuth(Struct, frozen=True):
    """How to log in at a server, where the server does not say enough itself. All of it is optional."""

    client_id: str = ""
    """The id of a client that is registered already; without one, dragoman registers itself."""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    """The scopes to ask for, instead of those that the server names."""
    port: int = 0
    """The port of the loopback address, if the client was registered with one; 0 chooses a free one."""

    def __repr__(self) -> str:
        return f"OAuth({self.client_id!r}, scopes={self.scopes!r})"


class HttpServer(Struct, frozen=True):
    """A server at a URL, with streamable HTTP."""

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    """Sent with every request; their values count as secrets."""
    oauth: OAuth = OAuth()
    """Used if the server asks for a login, and `headers` has no `Authorization`."""

    @property
    def may_log_in(self) -> bool:
        """Whether a login is possible: a row with its own `Authorization` uses that."""
        return not any(name.lower() == "authorization" for name in self.headers)

    def identity(self) -> list[str]:
        """Return what identifies the server. Approved definitions belong to it."""
        return ["http", self.url]

    def secrets(self) -> list[str]:
        """Return the values that must not appear in messages and logs."""
        found = [*_secrets(self.headers), *filter(None, [self.oauth.client_secret])]
        # In `Bearer x` the second word is the secret, and may appear alone.
        return [*found, *(value.split(" ", 1)[1] for value in found if " " in value)]

    def __repr__(self) -> str:
        return f"HttpServer({self.name!r}, {shown_address(self.url)!r}, headers: {', '.join(self.headers)})"


Server = StdioServer | HttpServer
"""An MCP server: a program that is started, or an address."""


def _secrets(values: Mapping[str, str]) -> list[str]:
    # Short values are words such as `1` or `debug`; to hide them would make every text unreadable.
    return [value for value in values.values() if len(value) >= 6]


def shown_address(url: str) -> str:
    """Return a URL without the parts that may be secret: the user, the query."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an address that cannot be read"
    return f"{parts.scheme}://{host}{parts.path}"[:200]


# ---- reading -------------------------------------------------------------------------------------------------------


def read_servers(rows: Mapping[str, Any], variables: Mapping[str, str] | None = None) -> list[Server]:
    """Return the servers of a table of tables, or of `{"mcpServers": {...}}`. Raises ConfigError.

    `variables` are the values for `${NAME}`; by default those of this process.
    """
    table: Any = rows.get("mcpServers", rows)
    if not isinstance(table, Mapping):
        raise ConfigError(
            "the MCP servers are not a table", hint='for example {"files": {"command": ["files-server"]}}'
        )
    known = os.environ if variables is None else variables
    found = [_read_row(name, row, known) for name, row in table.items() if not _is_off(name, row)]
    check_servers(found)
    return found


def check_servers(servers: Iterable[Server]) -> None:
    """Raise ConfigError for names that are not distinct, or that a rule cannot contain."""
    seen: dict[str, str] = {}
    for server in servers:
        _check_name(server.name)
        folded = fold(server.name)
        if folded in seen:
            raise ConfigError(
                f"two MCP servers are named {seen[folded]!r} and {server.name!r}",
                hint="names have to differ in more than case, dashes and underscores; rename one",
            )
        seen[folded] = server.name


def why_unsafe(server: HttpServer) -> str:
    """Return why it is unsafe to use this row; empty if it is safe."""
    try:
        parts = urlsplit(server.url)
        host = parts.hostname or ""
    except ValueError:
        return "its URL is invalid"
    if parts.scheme not in ("http", "https") or not host:
        return "its URL does not start with https://"
    ours = next((name for name in server.headers if name.lower() in _OURS or name.lower().startswith("mcp-")), None)
    if ours is not None:
        return f"the header {ours!r} is set by the protocol"
    if parts.scheme == "https" or is_loopback(host):
        return ""
    return f"{shown_address(server.url)} is not encrypted, and is not on this machine; use https://"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine."""
    try:
        return host.lower() == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_off(name: Any, row: Any) -> bool:
    if not isinstance(row, Mapping):
        return False
    for key in ("disabled", "enabled"):
        if not isinstance(row.get(key, False), bool):
            # Somebody wanted to switch a server off, perhaps, so it must not start.
            raise ConfigError(f"MCP server {name!r}: `{key}` is neither true nor false"[:200], hint=f"{key} = true")
    return row.get("disabled") is True or row.get("enabled") is False


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or _is_name(name) is None:
        raise ConfigError(
            f"{name!r} is not a valid name for an MCP server"[:120],
            hint="use at most 32 letters, digits, dashes and underscores",
        )


def _read_row(name: Any, row: Any, variables: Mapping[str, str]) -> Server:
    _check_name(name)
    place = f"MCP server {name!r}"
    if not isinstance(row, Mapping):
        raise ConfigError(f"{place}: not a table", hint="it needs a `command`, or a `url`")
    for key in row:
        if key not in _KEYS and key not in _FOREIGN:
            raise ConfigError(
                f"{place}: unknown key {key!r}{did_you_mean(str(key), _KEYS)}",
                hint="known are " + ", ".join(_KEYS),
            )
    kind = row.get("type", row.get("transport"))
    if kind == "sse":
        raise ConfigError(f"{place}: {OLD_TRANSPORT}", hint=OLD_TRANSPORT_HINT)
    if kind not in (None, "stdio") and kind not in _HTTP_KINDS:
        raise ConfigError(f"{place}: unknown transport {kind!r}", hint='known are "stdio" and "http"')
    if ("command" in row) == ("url" in row):
        both = "both a `command` and a `url`" if "url" in row else "neither a `command` nor a `url`"
        raise ConfigError(f"{place}: {both}", hint="give exactly one of them")
    wrong = next((key for key in (_OF_PROGRAMS if "url" in row else _OF_URLS) if row.get(key)), None)
    if wrong is not None:
        kind, other = ("a program", "`headers`") if "url" in row else ("a URL", "`environment`")
        raise ConfigError(f"{place}: `{wrong}` is for {kind}", hint=f"leave it out, or use {other}")
    return _read_http(name, row, place, variables) if "url" in row else _read_stdio(name, row, place, variables)


def _read_stdio(name: str, row: Mapping[str, Any], place: str, variables: Mapping[str, str]) -> StdioServer:
    command = row["command"]
    words = [command] if isinstance(command, str) else command
    arguments = row.get("args", [])
    for what, found in (("command", words), ("args", arguments)):
        if not isinstance(found, list | tuple) or not all(isinstance(each, str) and "\0" not in each for each in found):
            raise ConfigError(f"{place}: `{what}` is not a list of texts", hint='command = ["program", "argument"]')
    if not words or not words[0].strip():
        raise ConfigError(f"{place}: `command` is empty", hint='command = ["program", "argument"]')
    if not isinstance(cwd := row.get("cwd"), str | None):
        raise ConfigError(f"{place}: `cwd` is not a path", hint="leave it out to start the server where you are")
    key = "environment" if "environment" in row else "env"
    environment = _read_values(row.get(key, {}), f"{place}: `{key}`", variables)
    return StdioServer(name, [*words, *arguments], environment, cwd)


def _read_http(name: str, row: Mapping[str, Any], place: str, variables: Mapping[str, str]) -> HttpServer:
    if not isinstance(row["url"], str):
        raise ConfigError(f"{place}: `url` is not a URL", hint='url = "https://example.org/mcp"')
    headers = _read_values(row.get("headers", {}), f"{place}: `headers`", variables)
    server = HttpServer(name, row["url"], headers, _read_oauth(row.get("oauth", {}), f"{place}: `oauth`", variables))
    if why := why_unsafe(server):
        raise ConfigError(
            f"{place}: {why}", hint='url = "https://..."; only a server on this machine may be used without TLS'
        )
    return server


def _read_oauth(found: Any, place: str, variables: Mapping[str, str]) -> OAuth:
    if not isinstance(found, Mapping):
        raise ConfigError(f"{place} is not a table", hint='oauth = { scopes = ["read"] }')
    unknown = next((key for key in found if key not in _OAUTH_KEYS), None)
    if unknown is not None:
        raise ConfigError(f"{place}: unknown key {unknown!r}"[:200], hint="known are " + ", ".join(_OAUTH_KEYS))
    texts = _read_values({key: found[key] for key in _OAUTH_KEYS[:2] if key in found}, place, variables)
    scopes, port = found.get("scopes", []), found.get("port", 0)
    if not isinstance(scopes, list | tuple) or not all(isinstance(each, str) for each in scopes):
        raise ConfigError(f"{place}: `scopes` is not a list of texts", hint='scopes = ["read"]')
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port < 65536:
        raise ConfigError(f"{place}: `port` is not a port", hint="port = 8400; leave it out to use any free one")
    return OAuth(**texts, scopes=tuple(scopes), port=port)


def _read_values(found: Any, place: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return names and values, with the variables replaced. No message shows a value."""
    if not isinstance(found, Mapping):
        raise ConfigError(f"{place} is not a table of names and values", hint='{ TOKEN = "${MY_TOKEN}" }')

    def fill(match: re.Match[str]) -> str:
        value = variables.get(match[1])
        if value is None:
            raise ConfigError(
                f"{place}: the variable {match[1]} is not set", hint=f"set {match[1]}, or write the value"
            )
        return value

    values = {}
    for key, value in found.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ConfigError(f"{place}: the value of {key!r} is not a text"[:200], hint="put it in quotes")
        values[key] = _variable.sub(fill, value)
    return values
