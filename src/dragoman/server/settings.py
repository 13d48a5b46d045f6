"""The settings of a gateway: a TOML file with endpoints, routes and aliases, read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.errors import ConfigError, nearest
from dragoman.types import ToolModeName, TrustName
from dragoman.wire import registry as wires

RouteProfile = TrustName | Literal["passthrough"]
"""How far calls in text are trusted; `passthrough` leaves the bytes as they are."""
CHARACTERS_PER_TOKEN = 4
"""The size of a request is known before its text is: this estimates its tokens."""
_is_origin = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?", re.IGNORECASE
).fullmatch
SLOTS = ("background", "thinking", "long_context", "images")
"""The slots of a route: endpoints for requests of one kind."""


ENDPOINT_LIMITS = ("requests_per_minute", "tokens_per_minute", "max_concurrent")


class ServerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The table `[gateway]`."""

    host: str = "127.0.0.1"
    """The address at which the gateway listens."""
    port: int = 4000
    """The port; 0 chooses a free one."""
    keep_alive: float = 10.0
    """Seconds of silence after which a stream gets a frame without content."""
    most_of_a_request: int = 64 * 1024 * 1024
    """The largest body of a request, in bytes."""
    head_seconds: float = 30.0
    """The time in which a client has to send the head of a request."""
    body_seconds: float = 120.0
    """The time in which a client has to send the body of a request."""
    kept_reports: int = 1000
    """How many reports are kept in memory."""
    cool_down: float = 30.0
    """Seconds for which an endpoint is avoided after a failure."""
    keys: bool | str | None = None
    """Whether clients need a key; a text names the file with the keys. Without the setting: if there are keys."""
    hosts: list[str] = []
    """Further names of this gateway, in the Host header of clients."""
    origins: list[str] = []
    """Origins of web pages that may use this gateway from a browser, such as `http://localhost:3000`."""
    telemetry: bool = False
    """Make an OpenTelemetry span for each exchange."""
    grace: float = 30.0
    """Seconds for which requests that have begun may go on after a signal to stop."""
    most_connections: int = 4096
    """Connections of clients at the same time, and connections to endpoints; fewer if the process may have fewer."""
    most_of_a_reply: int = 32 * 1024 * 1024
    """The largest body of an answer of an endpoint, in bytes, after decompression."""
    shared: str = ""
    """The address of a Postgres database, by which gateways share limits of keys, usage and facts."""
    shared_env: str = ""
    """The environment variable with that address."""


class EndpointSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[endpoints.NAME]`: a model of a known provider, or a model at a URL."""

    model: str = ""
    """`provider:model`; with `url`, only the name of the model. Empty: the model that the client names."""
    url: str = ""
    """The address of a server, whose kind is detected. Empty: that of the provider."""
    wire: str = ""
    """The wire, if it cannot be detected."""
    key: str = ""
    """The key itself. Without `key` and `key_env`: the usual variable of the provider."""
    key_env: str = ""
    """The environment variable with the key."""
    headers: dict[str, str] = {}
    """Further headers of each request."""
    context_window: int | None = None
    """The tokens that fit, if the endpoint does not say so."""
    tool_mode: ToolModeName = "auto"
    """Whether tools are sent as native definitions or as text; `auto` finds it out."""
    requests_per_minute: int | None = None
    """How many requests may start in any minute; the others wait."""
    tokens_per_minute: int | None = None
    """How many tokens requests may use in any minute; the others wait."""
    max_concurrent: int | None = None
    """How many requests may run at the same time; the others wait."""
    forward_login: bool = False
    """Send the client's own key to the endpoint."""
    first_byte_timeout: float = 300.0
    """Seconds until the head of an answer is complete; a model may load or reason for minutes."""
    idle_timeout: float = 120.0
    """Seconds between two pieces of an answer."""
    total_timeout: float = 3600.0
    """Seconds for a whole answer: signs of life keep a stream open, and not for ever."""


class RouteSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[[routes]]`: which endpoints answer for which model names."""

    to: str | list[str] = ""
    """Endpoints: names of `[endpoints]`, or `provider:model`. Several of them share the load."""
    match: str | list[str] = "*"
    """Patterns of model names; `*` stands for any text."""
    fallback: str | list[str] = []
    """Endpoints that answer if those in `to` failed before the client received anything."""
    profile: RouteProfile = "compat"
    """How far calls in text are trusted; `passthrough` changes nothing and only observes."""
    repair_turns: int = 1
    """How often the model is asked again after a reply that the client cannot use."""
    background: str | list[str] = []
    """Endpoints for the small models that programs use for titles and summaries."""
    thinking: str | list[str] = []
    """Endpoints for requests with reasoning."""
    long_context: str | list[str] = []
    """Endpoints for requests with more tokens than `long_context_tokens`."""
    long_context_tokens: int = 60_000
    images: str | list[str] = []
    """Endpoints for requests with images."""


class GatewaySettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    gateway: ServerSettings = ServerSettings()
    endpoints: dict[str, EndpointSettings] = {}
    routes: list[RouteSettings] = field(default_factory=list)
    aliases: dict[str, str] = {}
    """Other names of models: what the client says, and what is meant."""


def read_settings(path: Path) -> GatewaySettings:
    """Read a settings file. Raises a ConfigError that names the file, the place and what is expected there."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="name the file with --config") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8", hint="save it as UTF-8") from None
    return parse_settings(text, str(path))


def parse_settings(text: str, shown: str = "the settings") -> GatewaySettings:
    """Read the text of a settings file."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{shown}: {error}", hint="the file has to be TOML") from None
    try:
        settings = msgspec.convert(tables, GatewaySettings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{shown}: {error}", hint=_find_hint(tables, str(error))) from None
    _check(settings, shown)
    return settings


def _find_hint(tables: Mapping[str, Any], said: str) -> str:
    """Return the known name that is nearest to the unknown one of an error."""
    rows = [
        ("gateway", tables.get("gateway"), ServerSettings),
        *(("routes", row, RouteSettings) for row in _rows(tables.get("routes"))),
        *(("endpoints", row, EndpointSettings) for row in _rows(tables.get("endpoints"))),
        ("the file", tables, GatewaySettings),
    ]
    for where, row, kind in rows:
        known = kind.__struct_fields__
        for name in row if isinstance(row, Mapping) else ():
            if name not in known and f"`{name}`" in said:
                guess = nearest(str(name), known)
                return f"did you mean {guess!r}?" if guess else f"the names in {where} are {', '.join(known)}"
    return "see docs/guides/gateway-settings.md"


def _rows(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()


def _check(settings: GatewaySettings, shown: str) -> None:
    if not settings.routes:
        raise ConfigError(f"{shown} has no route", hint='add [[routes]] with to = "provider:model"')
    for number, route in enumerate(settings.routes, 1):
        if not as_list(route.to):
            raise ConfigError(f"{shown}: route {number} leads nowhere", hint='add to = "provider:model"')
        for name in named_endpoints(route):
            _check_name(name, settings, f"{shown}: route {number}")
        if route.repair_turns < 0:
            raise ConfigError(f"{shown}: route {number} has {route.repair_turns} repair_turns", hint="0 is the least")
    for name, row in settings.endpoints.items():
        _check_endpoint(row, f"{shown}: endpoint {name!r}")
    _check_server(settings.gateway, shown)


def _check_endpoint(row: EndpointSettings, where: str) -> None:
    if not row.url and not row.model:
        raise ConfigError(f"{where} has neither a model nor a URL", hint='set model = "provider:model"')
    if row.wire and not wires.knows(row.wire):
        guess = nearest(row.wire, wires.names())
        hint = f"did you mean {guess!r}?" if guess else f"the wires are {', '.join(wires.names())}"
        raise ConfigError(f"{where} has the unknown wire {row.wire!r}", hint=hint)
    for limit in ("context_window", *ENDPOINT_LIMITS):
        value = getattr(row, limit)
        if value is not None and value < 1:
            raise ConfigError(f"{where} has {limit} = {value}", hint="leave it out for no limit")
    for name in ("first_byte_timeout", "idle_timeout", "total_timeout"):
        if not getattr(row, name) > 0:
            raise ConfigError(f"{where} has {name} = {getattr(row, name)}", hint="give a number of seconds")


_LEAST = {
    "keep_alive": 0.1,
    "head_seconds": 0.1,
    "body_seconds": 0.1,
    "most_of_a_request": 1,
    "most_of_a_reply": 1,
    "most_connections": 1,
    "kept_reports": 0,
    "cool_down": 0,
    "grace": 0,
}


def read_origin(origin: str) -> str:
    """Return an origin as browsers send it. Raises a ConfigError if it is none; a pattern is none either."""
    found = _is_origin(origin)
    if found is None:
        hint = 'write it as browsers do, without a path: "https://app.example" or "http://localhost:3000"'
        raise ConfigError(f"{origin!r} is not an origin of web pages", hint=hint)
    scheme = found["scheme"].lower()
    return origin.lower().removesuffix({"http": ":80", "https": ":443"}.get(scheme, ""))


def _check_server(row: ServerSettings, shown: str) -> None:
    for origin in row.origins:
        read_origin(origin)
    if not 0 <= row.port <= 65535:
        raise ConfigError(f"{shown}: {row.port} is not a port", hint="choose one up to 65535")
    if row.shared and row.shared_env:
        raise ConfigError(f"{shown}: shared and shared_env exclude each other", hint="leave out one of them")
    for name, least in _LEAST.items():
        value = getattr(row, name)
        if not value >= least:
            raise ConfigError(f"{shown}: {name} = {value} is too small", hint=f"the least is {least}")


def _check_name(name: str, settings: GatewaySettings, where: str) -> None:
    if name in settings.endpoints or ":" in name or "/" in name or name == "local":
        return
    guess = nearest(name, settings.endpoints)
    meant = f"did you mean {guess!r}?" if guess else "add [endpoints.NAME], or write provider:model"
    raise ConfigError(f"{where} names the endpoint {name!r}, which does not exist", hint=meant)


def as_list(value: str | list[str]) -> list[str]:
    """Return one name or several as a list."""
    return [value] if isinstance(value, str) and value else [] if isinstance(value, str) else list(value)


def named_endpoints(route: RouteSettings) -> list[str]:
    """Return the names of all endpoints of a route, each once."""
    slots = [name for slot in SLOTS for name in as_list(getattr(route, slot))]
    return list(dict.fromkeys([*as_list(route.to), *slots, *as_list(route.fallback)]))


def share_of(settings: GatewaySettings, number: int, of: int) -> GatewaySettings:
    """Return the settings for one of several workers: its part of the limits of each endpoint.

    Raises a ConfigError if a limit is too small to be divided.
    """
    if of <= 1:
        return settings
    return replace(
        settings, endpoints={name: _part_of(name, row, number, of) for name, row in settings.endpoints.items()}
    )


def _part_of(name: str, row: EndpointSettings, number: int, of: int) -> EndpointSettings:
    parts = {}
    for limit in ENDPOINT_LIMITS:
        value = getattr(row, limit)
        if value is None:
            continue
        if value < of:
            said = f"the endpoint {name!r} has {limit} = {value}, and there are {of} workers"
            raise ConfigError(said, hint="start fewer workers: each of them needs a part of the limit")
        parts[limit] = value // of + (number <= value % of)
    return replace(row, **parts)
