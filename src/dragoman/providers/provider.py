"""Providers and model profiles as rows, and the normalisation of base URLs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct, field

from dragoman.errors import ConfigError, did_you_mean
from dragoman.toolset import Toolset
from dragoman.wire import registry as wires

if TYPE_CHECKING:
    from dragoman.providers.endpoint import PromptGuided, ToolsPayload
    from dragoman.providers.facts import Facts


# --------------------------------------------------------------------------------------------------------------------
# The capabilities of an endpoint with a model.


class Capabilities(Struct, frozen=True, forbid_unknown_fields=True):
    """The capabilities of one endpoint with one model. A caller may override each of them, per call."""

    native_tool_calls: bool = False
    """Tools are sent as definitions and calls arrive in a field; otherwise both are text."""
    streaming: bool = True
    """Replies can be streamed."""


def overrule(capabilities: Capabilities, changes: Mapping[str, Any] | Capabilities | None) -> Capabilities:
    """Return the capabilities with some of them changed; a `Capabilities` value replaces all."""
    if isinstance(changes, Capabilities):
        return changes
    if not changes:
        return capabilities
    return from_mapping({**msgspec.structs.asdict(capabilities), **changes})


def from_mapping(values: Mapping[str, Any]) -> Capabilities:
    """Return Capabilities from names and values. Raises ConfigError for an unknown name or a value of a wrong type."""
    known = Capabilities.__struct_fields__
    for name in values:
        if name not in known:
            meant = did_you_mean(str(name), known)
            raise ConfigError(f"there is no capability {name!r}{meant}", hint=f"they are {', '.join(known)}")
    try:
        return msgspec.convert(dict(values), Capabilities)
    except msgspec.ValidationError as error:
        raise ConfigError(f"capabilities: {error}") from None


# --------------------------------------------------------------------------------------------------------------------
# Normalisation: a URL that a user pastes becomes a base URL to which a path can be appended.

# Users copy the whole URL of a request, but dragoman appends the path of the protocol.
_request_path = re.compile(
    r"(?:/chat/completions|/completions|/messages|/responses|/api/chat|/api/generate"
    r"|/models/[^/]+:\w+|/model/[^/]+/converse(?:-stream)?)/*\Z"
).search
_scheme = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://").match
_blank = re.compile(r"\s").search
_hole = re.compile(r"\{(\w+)\}")
_near = re.compile(
    r"(?:localhost|127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|0\.0\.0\.0|\[|[^./]+(?::\d+)?(?:/|$))"
).match

_OLLAMA_PORT = 11434


def normalise_base_url(url: str, *, default: str = "", wire: str = "") -> str:
    """Return the base URL for a URL of the user: with a scheme, without the path of a request and the last slash.

    A URL without a path gets the path of `default`, the provider's own URL: `http://box:8000` becomes
    `http://box:8000/v1` for vLLM. Without `default`, only the port of Ollama is recognised.
    """
    given = url.strip()
    if not given:
        return default
    if not _scheme(given):
        given = ("http://" if _near(given) else "https://") + given.lstrip("/")
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigError(f"{url!r} is not a URL: {error}", hint="write it as https://host/v1") from None
    if parts.scheme not in ("http", "https") or not host or _blank(parts.netloc):
        raise ConfigError(f"{url!r} is not the URL of a server", hint="write it as https://host/v1")
    path = parts.path.rstrip("/")
    found = _request_path(path)
    if found:
        path = path[: found.start()]
    if wire == "ollama":
        # Ollama's own protocol is beside /v1, which is the end of the URL of its other wires.
        path = path.removesuffix("/v1").removesuffix("/api")
    elif not path and default:
        path = urlsplit(default).path
    elif not path and port == _OLLAMA_PORT and wire:
        path = "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), parts.query, ""))


def move(own: str, base: str, other: str) -> str | None:
    """Return the URL of a wire after its endpoint moved from `base` to `other`; None if it is unknown.

    A move to another host keeps the paths of all wires. A move to another path is only for the wires at `base`.
    """
    if own == base:
        return other
    if urlsplit(base).path.rstrip("/") != urlsplit(other).path.rstrip("/"):
        return None
    return urlunsplit((*urlsplit(other)[:2], *urlsplit(own)[2:]))


def is_foreign(provider: Provider, base_url: str) -> bool:
    """Whether a base URL leads to another server than those of the row: a compatible server, or a gateway."""
    if not base_url or provider.group in ("local", "custom"):
        return False
    host = urlsplit(normalise_base_url(base_url)).hostname or ""
    known = (provider.base_url, *provider.urls.values(), *provider.wire_urls.values())
    return not any(re.fullmatch(_hole.sub("[^/]*", _host_pattern(url)), host) for url in known if url)


def _host_pattern(url: str) -> str:
    """The host of a URL of a row as a regular expression that still has the placeholders."""
    host = url.split("://", 1)[-1].split("/", 1)[0].partition(":")[0]
    return "".join(part if _hole.fullmatch(part) else re.escape(part) for part in re.split(r"(\{\w+\})", host))


def holes_of(url: str) -> tuple[str, ...]:
    """Return the names of the {placeholders} in a URL, in order and once each."""
    return tuple(dict.fromkeys(_hole.findall(url)))


def fill_holes(url: str, values: Mapping[str, str]) -> str:
    """Return the URL with its placeholders filled; those without a value stay."""

    def fill(match: re.Match[str]) -> str:
        value = values.get(match[1], "").strip()
        # Users often write `DATABRICKS_HOST` and similar variables with a scheme.
        return (_scheme(value) and value.split("://", 1)[1].rstrip("/")) or value or match[0]

    return _hole.sub(fill, url)


# --------------------------------------------------------------------------------------------------------------------
# A Profile is a row: the properties of a model family, independent of the provider.

Replay = Literal["never", "calls", "always"]

# The prefix before the family's name in ids of Bedrock, of fine-tunes, and of hosts that put the vendor first.
_region_and_vendor = re.compile(
    r"(?:(?:us|eu|apac|au|jp|ca|sa|global|us-gov)\.)?"
    r"(?:anthropic|amazon|meta|mistral|cohere|deepseek|qwen|openai|ai21|google|minimax|moonshot|moonshotai|nvidia|zai)\."
).match
_vendor = re.compile(
    r"(?:meta|databricks|nvidia|ibm|google|microsoft|snowflake|mistralai|amazon|openai|anthropic|deepseek-ai|nousresearch)-"
    r"(?=meta-|llama|claude|gemma|gemini|gpt|qwen|nemotron|granite|phi|mistral|mixtral|nova|deepseek|hermes)"
).match
_separators = re.compile(r"[-._:@+ ]+").sub
_point = re.compile(r"(?<=\d)p(?=\d)").sub


class Profile(Struct, frozen=True, forbid_unknown_fields=True):
    """One model family. `match` are regular expressions for the beginning of a plain model name."""

    shown_only: ClassVar = frozenset({"name", "notes"})
    """The columns that only people read; every other one has an effect."""

    name: str
    match: tuple[str, ...] = ()
    native: Literal["yes", "no", "unknown"] = "unknown"
    """Whether the family is trained for native calls."""
    format: str = ""
    """The text format in which the family writes calls; empty means unknown."""
    formats: tuple[str, ...] = ()
    """Other text formats that its models sometimes use."""
    prompt_format: str = ""
    """The format of the instructions in the prompt; empty means the provider's."""
    weak: bool = False
    """The models are too small to follow a format: they get short instructions, and a grammar if one is accepted."""
    opens_thinking: bool = False
    """The prompt template contains the opening tag: a reply starts inside the reasoning."""
    replay: Replay = "never"
    """The assistant messages whose reasoning must be sent back. A provider may require more."""
    schema: Literal["", "strict", "json_schema", "subset", "inlined"] = ""
    """The schema dialect that the family understands; empty means that of the wire."""
    wire: str = ""
    """The wire on which it works best."""
    vendor: str = ""
    """The provider for a name without one, if only the vendor serves the family."""
    quirks: dict[str, Any] = field(default_factory=dict)
    wire_quirks: dict[str, dict[str, Any]] = field(default_factory=dict)
    declared: dict[str, Any] = field(default_factory=dict, name="capabilities")
    """Capabilities that do not follow from the other columns."""
    notes: str = ""

    def fits(self, model: str) -> bool:
        """Whether a plain model name belongs to the family."""
        return match_any(self.match)(model) is not None


@cache
def match_any(alternatives: tuple[str, ...], end: str = "") -> Callable[[str], re.Match[str] | None]:
    """Return a function that matches one of the regular expressions at the beginning of a name, followed by `end`."""
    joined = "|".join(f"(?:{alternative})" for alternative in alternatives or (r"(?!)",))
    return re.compile(f"(?:{joined}){end}").match


UNKNOWN = Profile("unknown", match=("",))


@lru_cache(maxsize=1024)
def plain_name(model: str) -> str:
    """Return a model id without vendor and path: `us.anthropic.claude-opus-4-8-v1:0` is `claude-opus-4-8-v1-0`."""
    name = model.strip().lower().rstrip("/").rpartition("/")[2].removeprefix("ft:")
    found = _region_and_vendor(name)
    if found:
        name = name[found.end() :]
    name = _separators("-", _point("-", name)).strip("-")
    while found := _vendor(name):
        name = name[found.end() :]
    return name


def find(profiles: Iterable[Profile], model: str | None) -> Profile:
    """Return the first profile that matches, or the unknown one."""
    if not model:
        return UNKNOWN
    name = plain_name(model)
    return next((profile for profile in profiles if profile.fits(name)), UNKNOWN)


# --------------------------------------------------------------------------------------------------------------------
# A Provider is a row: the URL of an endpoint, its wires, and its quirks.

Group = Literal["first_party", "host", "router", "local", "custom"]
Native = Literal["yes", "no", "per_model", "learned"]

WIRES = tuple(wires.ROWS)
"""The names of the wires."""
OWN = "own"
"""The wire of endpoints with an unsupported protocol: they are listed with the reason."""

AUTHS = {
    "bearer": "Authorization: Bearer KEY",
    "optional": "Authorization: Bearer KEY, if there is a key",
    "none": "no key",
    "sigv4": "AWS signature, or Authorization: Bearer KEY with a Bedrock key",
    "gcp": "Authorization: Bearer TOKEN of the Google Cloud credentials",
    "oauth": "Authorization: Bearer TOKEN of a login",
    "own": "the vendor's own SDK",
}


class Provider(Struct, frozen=True, forbid_unknown_fields=True):
    """One provider. `name` is the part before the colon in `provider:model`."""

    shown_only: ClassVar = frozenset({"title", "notes"})
    """The columns that only people read; every other one has an effect."""

    name: str
    title: str = ""
    group: Group = "custom"
    aliases: tuple[str, ...] = ()
    base_url: str = ""
    """The URL to which the path of a request is appended. It may have {placeholders}."""
    urls: dict[str, str] = field(default_factory=dict)
    """Other base URLs, by purpose or region."""
    wire_urls: dict[str, str] = field(default_factory=dict)
    """The base URLs of wires that are not at `base_url`."""
    key: tuple[str, ...] = ()
    """Environment variables that may contain the key, the vendor's own first."""
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Environment variables that fill the placeholders of the URLs."""
    auth: str = "bearer"
    """A name in `AUTHS`, or the header for the key."""
    key_auth: dict[str, str] = field(default_factory=dict)
    """By environment variable: how its key is sent, if not by `auth`."""
    headers: dict[str, str] = field(default_factory=dict)
    wires: tuple[str, ...] = ("openai_chat",)
    """Its wires, the preferred one first."""
    wire_per_model: bool = False
    """The model profile selects the wire, if it has a preference."""
    native: Native = "yes"
    """Native calls: for every model, for none, by the model profile, or off until learned."""
    format: str = "hermes"
    """The text format of the instructions if calls are text."""
    formats: tuple[str, ...] = ()
    """Other text formats that are parsed in its replies."""
    quirks: dict[str, Any] = field(default_factory=dict)
    """Flags of `dragoman.wire.quirks.Quirks` that differ from the default."""
    wire_quirks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Flags for one wire only."""
    declared: dict[str, Any] = field(default_factory=dict, name="capabilities")
    """Capabilities that do not follow from the other columns."""
    body: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By wire: fields of every request that the request itself does not set."""
    model: str = ""
    """The default model."""
    transport: str = ""
    """`module:name` of the function that opens its transport, if not HTTP; it is called with the Endpoint."""
    notes: str = ""

    @property
    def wire(self) -> str:
        """The preferred wire."""
        return self.wires[0]

    @property
    def speakable(self) -> bool:
        """Whether dragoman supports one of its wires."""
        return self.wire != OWN

    @property
    def auth_meaning(self) -> str:
        """A description of how the key is sent."""
        return AUTHS.get(self.auth, f"{self.auth}: KEY")

    def url(self, wire: str = "", place: str = "") -> str:
        """Return the base URL of a wire; `place` selects one of the other base URLs."""
        own = self.wire_urls.get(wire, self.base_url)
        if not place:
            return own
        if place not in self.urls:
            known = ", ".join(self.urls) or "none"
            raise ConfigError(f"{self.name} has no base URL {place!r}", hint=f"its other base URLs: {known}")
        moved = move(own, self.base_url, self.urls[place])
        if moved is None:
            raise ConfigError(f"the base URL {place!r} of {self.name} does not serve {wire}", hint="give the base URL")
        return moved

    def headers_for(self, key: str | None, wire: str = "", *, key_name: str = "") -> dict[str, str]:
        """Return the headers of a request on a wire, including the key. `key_name` is the variable of the key."""
        spoken = wire or self.wire
        headers = dict(self.headers)
        if spoken == "anthropic":
            headers.setdefault("anthropic-version", "2023-06-01")
        auth = self.key_auth.get(key_name, self.auth)
        if not key or auth in ("none", OWN):
            return headers
        # Google's OpenAI-compatible wire takes the same key in the header of OpenAI.
        plain = auth in AUTHS or (auth == "x-goog-api-key" and spoken != "gemini")
        header = "Authorization" if plain else auth
        headers[header] = f"Bearer {key}" if header.lower().endswith("authorization") else key
        return headers

    def supports_native_tools(self, model: str | None = None, *, facts: Facts | None = None) -> bool:
        """Whether tools are sent as definitions. Without a model, it is True only if all models support them."""
        return self.capabilities(model, facts=facts).native_tool_calls

    def capabilities(
        self,
        model: str | None = None,
        overrides: Mapping[str, Any] | Capabilities | None = None,
        facts: Facts | None = None,
    ) -> Capabilities:
        """Return the capabilities with a model: row, model profile, learned facts and caller, in rising priority."""
        from dragoman.providers.endpoint import settle

        return settle(self, model or "", overrides=overrides, facts=facts).capabilities

    def convert_tools(
        self,
        tools: Toolset | Iterable[object] | None,
        model: str | None = None,
        capabilities: Mapping[str, Any] | Capabilities | None = None,
        *,
        facts: Facts | None = None,
        wire: str = "",
    ) -> ToolsPayload | PromptGuided:
        """Return the tools for this endpoint: definitions of its wire, or instructions for the prompt."""
        from dragoman.providers.endpoint import settle

        return settle(self, model or "", overrides=capabilities, facts=facts, wire=wire).convert_tools(tools)
