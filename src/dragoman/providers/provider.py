"""A Provider is a row: where an endpoint is, how it is spoken to, and what it does differently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, field

from dragoman.errors import ConfigError
from dragoman.providers.capabilities import Capabilities
from dragoman.providers.urls import move
from dragoman.toolset import Toolset

if TYPE_CHECKING:
    from dragoman.providers.facts import Facts
    from dragoman.providers.payload import ToolsPayload

Group = Literal["first_party", "host", "router", "local", "custom"]
Native = Literal["yes", "no", "per_model", "learned"]

WIRES = ("openai_chat", "openai_responses", "anthropic", "gemini", "ollama", "bedrock", "mistral", "cohere")
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
    """Capabilities that cannot be told from wire and quirks."""
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
    def key_names(self) -> tuple[str, ...]:
        """The environment variables to look for a key in, in order."""
        return self.key

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
    ) -> ToolsPayload:
        """The tools as this endpoint wants them: definitions of its wire, or instructions for the prompt."""
        from dragoman.providers.endpoint import settle

        return settle(self, model or "", overrides=capabilities, facts=facts, wire=wire).convert_tools(tools)
