"""An Endpoint: one model at one provider on one wire, with its quirks and capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from dragoman.errors import ConfigError, UnknownProvider
from dragoman.providers.facts import Fact, Facts
from dragoman.providers.provider import (
    OWN,
    Capabilities,
    Profile,
    Provider,
    fill_holes,
    from_mapping,
    holes_of,
    normalise_base_url,
    overrule,
)
from dragoman.toolset import Toolset
from dragoman.types import JsonObject
from dragoman.wire import registry as wires
from dragoman.wire.quirks import DEFAULTS, Quirks

# --------------------------------------------------------------------------------------------------------------------
# What a provider wants to be given for a list of tools: definitions in its wire's shape, or a text for the prompt.


class ToolsPayload(Struct, frozen=True, tag="tools"):
    """Definitions of tools in the shape of one wire."""

    wire: str
    tools: list[JsonObject]


class PromptGuided(Struct, frozen=True, tag="prompt_guided"):
    """No definitions: a text that is appended to the system prompt, and the format in which calls come back."""

    instructions: str
    format: str = ""


# --------------------------------------------------------------------------------------------------------------------
# An Endpoint is a decision: this model, at this provider, on this wire, with these quirks.

_STRENGTH = ("never", "calls", "always")
_SCHEMA_QUIRKS: dict[str, dict[str, bool]] = {
    "": {},
    "strict": {"strict_tools": True},
    "json_schema": {"json_schema": True},
    "subset": {"json_schema": False},
    "inlined": {"inline_references": True},
}


class Endpoint(Struct, frozen=True):
    """Everything that a client has to know to send a request and to read the reply."""

    provider: Provider
    model: str
    wire: str
    profile: Profile
    quirks: Quirks
    base_url: str
    capabilities: Capabilities
    body: dict[str, Any] = field(default_factory=dict)
    """Fields of every request that the request itself does not set."""

    @property
    def key_names(self) -> tuple[str, ...]:
        """The environment variables to look for a key in, in order."""
        return self.provider.key

    @property
    def missing(self) -> tuple[str, ...]:
        """The holes of the base URL that nothing has filled."""
        return holes_of(self.base_url)

    @property
    def prompt_format(self) -> str:
        """The text format that instructions teach."""
        return self.profile.prompt_format or self.provider.format

    @property
    def formats(self) -> tuple[str, ...]:
        """The text formats that replies may hold, the likeliest first."""
        profile, provider = self.profile, self.provider
        named = (profile.format, *profile.formats, self.prompt_format, provider.format, *provider.formats)
        return tuple(dict.fromkeys(name for name in named if name))

    def headers_for(self, key: str | None, *, key_name: str = "") -> dict[str, str]:
        """The headers of a request, the key among them. `key_name` is the variable that held the key."""
        return self.provider.headers_for(key, self.wire, key_name=key_name)

    def check_wire(self) -> None:
        """Raise ConfigError if dragoman has no codec for the wire."""
        if self.wire not in wires.ROWS:
            raise ConfigError(f"{self.provider.name} cannot be spoken to", hint=self.provider.notes)

    def convert_tools(self, tools: Toolset | Iterable[object] | None) -> ToolsPayload | PromptGuided:
        """The tools as this endpoint wants them: definitions of its wire, or instructions for the prompt."""
        offered = Toolset.of(tools) or Toolset(())
        if not self.capabilities.native_tool_calls:
            from dragoman import formats

            # Instructions for no tools would teach the model to call what is not there.
            taught = formats.instructions(offered, self.prompt_format, layout="list") if len(offered) else ""
            return PromptGuided(taught, self.prompt_format)
        self.check_wire()
        return ToolsPayload(self.wire, wires.get(self.wire, self.quirks).encode_definitions(offered))


def settle(
    provider: Provider,
    model: str = "",
    *,
    profile: Profile | None = None,
    wire: str = "",
    base_url: str = "",
    place: str = "",
    variables: Mapping[str, str] | None = None,
    quirks: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | Capabilities | None = None,
    facts: Facts | None = None,
) -> Endpoint:
    """Decide everything for one model at one provider. What the caller names wins over what the rows say."""
    if profile is None:
        from dragoman.providers.registry import shipped

        profile = shipped().profile(model)
    chosen = choose_wire(provider, profile, wire)
    address = find_address(provider, chosen, base_url, place, variables or {})
    fact = facts.get(address, model) if facts is not None else None
    if fact is not None and fact.wire in provider.wires and not wire:
        chosen = fact.wire
        address = find_address(provider, chosen, base_url, place, variables or {})
    learned = fact or Fact()
    if learned.format:
        profile = msgspec.structs.replace(profile, prompt_format=learned.format)
    merged = merge_quirks(provider, profile, chosen, {**learned.quirks, **(quirks or {})})
    able = overrule(judge(provider, profile, chosen, merged, model, fact), learned.capabilities)
    able = overrule(able, overrides)
    return Endpoint(provider, model, chosen, profile, merged, address, able, dict(provider.body.get(chosen, {})))


def choose_wire(provider: Provider, profile: Profile, asked: str = "") -> str:
    """The wire that the caller asked for, else the one of the model's family, else the provider's first."""
    if asked:
        if asked not in provider.wires:
            spoken = ", ".join(provider.wires)
            raise UnknownProvider(asked, provider.wires, hint=f"{provider.name} speaks {spoken}")
        return asked
    if provider.wire_per_model and profile.wire in provider.wires:
        return profile.wire
    return provider.wire


def find_address(provider: Provider, wire: str, given: str, place: str, variables: Mapping[str, str]) -> str:
    """The base URL of a wire: the user's own, or the row's with its holes filled."""
    own = provider.url(wire, place)
    return fill_holes(normalise_base_url(given, default=own, wire=wire), variables)


def merge_quirks(provider: Provider, profile: Profile, wire: str, overrides: Mapping[str, Any] | None = None) -> Quirks:
    """The flags of an endpoint: defaults, then the provider's, then the model family's, then the caller's."""
    flags: dict[str, Any] = {**provider.quirks, **provider.wire_quirks.get(wire, {})}
    # To send too little reasoning back is refused, to send more is not: the stronger of both wins.
    asked = str(flags.get("replay_reasoning", "never"))
    flags["replay_reasoning"] = max(asked, profile.replay, key=_STRENGTH.index)
    flags |= _SCHEMA_QUIRKS[profile.schema]
    flags |= {**profile.quirks, **profile.wire_quirks.get(wire, {}), **(overrides or {})}
    return read_quirks(flags, f"{provider.name} on {wire}")


def read_quirks(flags: Mapping[str, Any], where: str) -> Quirks:
    """Flags by name as Quirks. A flag that does not exist, or a wrong value, is a mistake of whoever wrote it."""
    try:
        return msgspec.convert(dict(flags), Quirks)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"quirks of {where}: {error}", hint="the flags and their values are in dragoman.wire.quirks"
        ) from None


def judge(
    provider: Provider, profile: Profile, wire: str, quirks: Quirks, model: str, fact: Fact | None
) -> Capabilities:
    """What the rows and what was learned say of an endpoint and a model."""
    native = wire != OWN and judge_native(provider, profile, model, fact, quirks)
    return from_mapping({"native_tool_calls": native, **provider.declared, **profile.declared})


def judge_native(
    provider: Provider, profile: Profile, model: str, fact: Fact | None, quirks: Quirks = DEFAULTS
) -> bool:
    """Whether calls are native here: what was learned, else the row, else the model's family."""
    if fact is not None and fact.native_tool_calls is not None:
        return fact.native_tool_calls
    if profile.weak and quirks.grammar_field and quirks.grammar_syntax != "json_schema":
        # A grammar holds what is written as text, and such a model needs one more than it needs its template.
        return False
    if provider.native == "per_model":
        # A family nobody knows, or no model at all, promises nothing; text works with every model.
        return bool(model) and profile.native == "yes"
    return provider.native == "yes" and profile.native != "no"
