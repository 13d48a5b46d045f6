"""Providers and model families as rows, and base URLs as users paste them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit, urlunsplit

import msgspec
from msgspec import Struct, field

from dragoman.errors import ConfigError, nearest
from dragoman.toolset import Toolset
from dragoman.wire import registry as wires

if TYPE_CHECKING:
    from dragoman.providers.endpoint import PromptGuided, ToolsPayload
    from dragoman.providers.facts import Facts


# --------------------------------------------------------------------------------------------------------------------
# What an endpoint can do with a model, as far as a caller has to know.


class Capabilities(Struct, frozen=True, forbid_unknown_fields=True):
    """The abilities of one endpoint with one model. A caller may overrule any of them, per call."""

    native_tool_calls: bool = False
    """Tools are sent as definitions and calls come back in a field; otherwise both travel as text."""
    streaming: bool = True
    """Replies can be streamed."""


def overrule(capabilities: Capabilities, changes: Mapping[str, Any] | Capabilities | None) -> Capabilities:
    """The capabilities with some of them changed; whole Capabilities replace them all."""
    if isinstance(changes, Capabilities):
        return changes
    if not changes:
        return capabilities
    return from_mapping({**msgspec.structs.asdict(capabilities), **changes})


def from_mapping(values: Mapping[str, Any]) -> Capabilities:
    """Capabilities by name. A name that does not exist, or a value of the wrong type, is a mistake of the caller."""
    known = Capabilities.__struct_fields__
    for name in values:
        if name not in known:
            guess = nearest(str(name), known)
            meant = f"; did you mean {guess!r}?" if guess else ""
            raise ConfigError(f"there is no capability {name!r}{meant}", hint=f"they are {', '.join(known)}")
    try:
        return msgspec.convert(dict(values), Capabilities)
    except msgspec.ValidationError as error:
        raise ConfigError(f"capabilities: {error}") from None


# --------------------------------------------------------------------------------------------------------------------
# Addresses as people paste them, made into base URLs that a path can be appended to.

# People copy the whole address of a request; the path of the protocol is ours to append.
_request_path = re.compile(
    r"(?:/chat/completions|/completions|/messages|/responses|/api/chat|/api/generate"
    r"|/models/[^/]+:\w+|/model/[^/]+/converse(?:-stream)?)/*\Z"
).search
_scheme = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://").match
_hole = re.compile(r"\{(\w+)\}")
_near = re.compile(
    r"(?:localhost|127\.|10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|0\.0\.0\.0|\[|[^./]+(?::\d+)?(?:/|$))"
).match

_OLLAMA_PORT = 11434


def normalise_base_url(url: str, *, default: str = "", wire: str = "") -> str:
    """A base URL from what a user gave: with a scheme, without the path of a request and the last slash.

    An address without any path gets the path of `default`, the provider's own address: `http://box:8000` becomes
    `http://box:8000/v1` for vLLM. Where nothing is known, only Ollama's port gives it away.
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
        raise ConfigError(f"{url!r} is no address: {error}", hint="write it as https://host/v1") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError(f"{url!r} is no address of a server", hint="write it as https://host/v1")
    path = parts.path.rstrip("/")
    found = _request_path(path)
    if found:
        path = path[: found.start()]
    if wire == "ollama":
        # Its own protocol lives beside /v1, where the address of its other wires ends.
        path = path.removesuffix("/v1").removesuffix("/api")
    elif not path and default:
        path = urlsplit(default).path
    elif not path and port == _OLLAMA_PORT and wire:
        path = "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path.rstrip("/"), parts.query, ""))


def move(own: str, base: str, other: str) -> str | None:
    """The address of a wire after its endpoint moved from `base` to `other`; None when nobody can tell.

    A move to another host keeps the paths of all wires. A move to another path is only for the wires at `base`.
    """
    if own == base:
        return other
    if urlsplit(base).path.rstrip("/") != urlsplit(other).path.rstrip("/"):
        return None
    return urlunsplit((*urlsplit(other)[:2], *urlsplit(own)[2:]))


def holes_of(url: str) -> tuple[str, ...]:
    """The names of the {holes} that have to be filled, in order and once each."""
    return tuple(dict.fromkeys(_hole.findall(url)))


def fill_holes(url: str, values: Mapping[str, str]) -> str:
    """The address with its holes filled; those without a value stay."""

    def fill(match: re.Match[str]) -> str:
        value = values.get(match[1], "").strip()
        # `DATABRICKS_HOST` and its like are often written with a scheme.
        return (_scheme(value) and value.split("://", 1)[1].rstrip("/")) or value or match[0]

    return _hole.sub(fill, url)


# --------------------------------------------------------------------------------------------------------------------
# A Profile is a row: what a family of models brings with it, whoever serves it.

Replay = Literal["never", "calls", "always"]

# What stands before the family's name, in ids of Bedrock, of fine-tunes, and of hosts that put the vendor first.
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
    """One family of models. `match` are regular expressions for the beginning of a plain model name."""

    shown_only: ClassVar = frozenset({"name", "notes"})
    """The columns that only people read; every other one has an effect."""

    name: str
    match: tuple[str, ...] = ()
    native: Literal["yes", "no", "unknown"] = "unknown"
    """Whether the family is trained for native calls."""
    format: str = ""
    """How the family writes calls as text; empty means that nothing is known."""
    formats: tuple[str, ...] = ()
    """Other text formats that its models slip into."""
    prompt_format: str = ""
    """The format that instructions teach; empty means the provider's."""
    weak: bool = False
    """Too small to keep to a format by itself: it is given short instructions, and a grammar where one is taken."""
    opens_thinking: bool = False
    """The prompt template writes the opening tag: a reply begins inside the reasoning."""
    replay: Replay = "never"
    """Which assistant messages need their reasoning back. A provider that asks for more gets more."""
    schema: Literal["", "strict", "json_schema", "subset", "inlined"] = ""
    """The kind of schema that the family understands; empty means whatever the wire takes."""
    wire: str = ""
    """The wire on which it works best."""
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
    """What finds one of the regular expressions at the beginning of a name, with this end behind it."""
    joined = "|".join(f"(?:{alternative})" for alternative in alternatives or (r"(?!)",))
    return re.compile(f"(?:{joined}){end}").match


UNKNOWN = Profile("unknown", match=("",))


@lru_cache(maxsize=1024)
def plain_name(model: str) -> str:
    """A model id without vendor, path and decoration: `us.anthropic.claude-opus-4-8-v1:0` is `claude-opus-4-8-v1-0`."""
    name = model.strip().lower().rstrip("/").rpartition("/")[2].removeprefix("ft:")
    found = _region_and_vendor(name)
    if found:
        name = name[found.end() :]
    name = _separators("-", _point("-", name)).strip("-")
    while found := _vendor(name):
        name = name[found.end() :]
    return name


def find(profiles: Iterable[Profile], model: str | None) -> Profile:
    """The first profile that fits, or the unknown one."""
    if not model:
        return UNKNOWN
    name = plain_name(model)
    return next((profile for profile in profiles if profile.fits(name)), UNKNOWN)


# --------------------------------------------------------------------------------------------------------------------
# A Provider is a row: where an endpoint is, how it is spoken to, and what it does differently.

Group = Literal["first_party", "host", "router", "local", "custom"]
Native = Literal["yes", "no", "per_model", "learned"]

WIRES = tuple(wires.ROWS)
OWN = "own"
"""The wire of endpoints that speak none of ours: they are listed, and say why they cannot be used."""

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
    """One endpoint. `name` is what stands before the colon in `provider:model`."""

    shown_only: ClassVar = frozenset({"title", "notes"})
    """The columns that only people read; every other one has an effect."""

    name: str
    title: str = ""
    group: Group = "custom"
    aliases: tuple[str, ...] = ()
    base_url: str = ""
    """What the path of a request is appended to. It may have {holes}."""
    urls: dict[str, str] = field(default_factory=dict)
    """Other addresses, by purpose or region."""
    wire_urls: dict[str, str] = field(default_factory=dict)
    """The addresses of wires that are not at `base_url`."""
    key: tuple[str, ...] = ()
    """Environment variables that may hold the key, the vendor's own first."""
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Environment variables that fill the holes of the addresses."""
    auth: str = "bearer"
    """A name of `AUTHS`, or the header that carries the key."""
    key_auth: dict[str, str] = field(default_factory=dict)
    """By environment variable: how its key is sent, where that is not `auth`."""
    headers: dict[str, str] = field(default_factory=dict)
    wires: tuple[str, ...] = ("openai_chat",)
    """The protocols that it speaks, the preferred one first."""
    wire_per_model: bool = False
    """The model's family chooses among the wires, where it has a preference."""
    native: Native = "yes"
    """Native calls: for every model, for none, as the model's family says, or off until learned."""
    format: str = "hermes"
    """The text format that instructions teach when calls travel as text."""
    formats: tuple[str, ...] = ()
    """Other text formats that are read from its replies."""
    quirks: dict[str, Any] = field(default_factory=dict)
    """Flags of `dragoman.wire.quirks.Quirks` that differ from the default."""
    wire_quirks: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Flags for one wire only."""
    declared: dict[str, Any] = field(default_factory=dict, name="capabilities")
    """Capabilities that do not follow from the other columns."""
    body: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By wire: fields of every request that the request itself does not set."""
    model: str = ""
    """The model that is meant where none is named."""
    transport: str = ""
    """`module:name` of what opens its transport, where that is not HTTP; it is called with the Endpoint."""
    notes: str = ""

    @property
    def wire(self) -> str:
        """The preferred wire."""
        return self.wires[0]

    @property
    def speakable(self) -> bool:
        """Whether it speaks a protocol of ours."""
        return self.wire != OWN

    @property
    def auth_meaning(self) -> str:
        """How the key is sent, in words."""
        return AUTHS.get(self.auth, f"{self.auth}: KEY")

    def url(self, wire: str = "", place: str = "") -> str:
        """The base URL of a wire, at one of the other places if it is named."""
        own = self.wire_urls.get(wire, self.base_url)
        if not place:
            return own
        if place not in self.urls:
            known = ", ".join(self.urls) or "none"
            raise ConfigError(f"{self.name} has no address {place!r}", hint=f"its other addresses: {known}")
        moved = move(own, self.base_url, self.urls[place])
        if moved is None:
            raise ConfigError(f"the address {place!r} of {self.name} does not serve {wire}", hint="give the base URL")
        return moved

    def headers_for(self, key: str | None, wire: str = "", *, key_name: str = "") -> dict[str, str]:
        """The headers of a request on a wire, the key among them. `key_name` is the variable that held the key."""
        spoken = wire or self.wire
        headers = dict(self.headers)
        if spoken == "anthropic":
            headers.setdefault("anthropic-version", "2023-06-01")
        auth = self.key_auth.get(key_name, self.auth)
        if not key or auth in ("none", OWN):
            return headers
        # Google's compatible wire takes the same key the OpenAI way.
        plain = auth in AUTHS or (auth == "x-goog-api-key" and spoken != "gemini")
        header = "Authorization" if plain else auth
        headers[header] = f"Bearer {key}" if header.lower().endswith("authorization") else key
        return headers

    def supports_native_tools(self, model: str | None = None, *, facts: Facts | None = None) -> bool:
        """Whether tools are sent as definitions. Without a model, only what holds for all of them counts."""
        return self.capabilities(model, facts=facts).native_tool_calls

    def capabilities(
        self,
        model: str | None = None,
        overrides: Mapping[str, Any] | Capabilities | None = None,
        facts: Facts | None = None,
    ) -> Capabilities:
        """What the endpoint can do with a model: the row, the model's family, what was learned, and last the caller."""
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
        """The tools as this endpoint wants them: definitions of its wire, or instructions for the prompt."""
        from dragoman.providers.endpoint import settle

        return settle(self, model or "", overrides=capabilities, facts=facts, wire=wire).convert_tools(tools)
