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
    is_foreign,
    normalise_base_url,
    overrule,
)
from dragoman.toolset import Toolset
from dragoman.types import JsonObject
from dragoman.wire import registry as wires
from dragoman.wire.codec import Codec
from dragoman.wire.quirks import DEFAULTS, Quirks

# --------------------------------------------------------------------------------------------------------------------
# The tools in the form for an endpoint: definitions of its wire, or a text for the prompt.


class ToolsPayload(Struct, frozen=True, tag="tools"):
    """Definitions of tools in the form of one wire."""

    wire: str
    tools: list[JsonObject]


class PromptGuided(Struct, frozen=True, tag="prompt_guided"):
    """No definitions: a text to append to the system prompt, and the text format of the calls."""

    instructions: str
    format: str = ""


# --------------------------------------------------------------------------------------------------------------------
# An Endpoint: one model, at one provider, on one wire, with its quirks.

_CHAT, _RESPONSES = "openai_chat", "openai_responses"
_STRENGTH = ("never", "calls", "always")
_SCHEMA_QUIRKS: dict[str, dict[str, bool]] = {
    "": {},
    "strict": {"strict_tools": True},
    "json_schema": {"json_schema": True},
    "subset": {"json_schema": False},
    "inlined": {"inline_references": True},
}


class Endpoint(Struct, frozen=True):
    """Everything that a client needs to send a request and to decode the reply."""

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
        """The environment variables that may contain the key, in order."""
        return self.provider.key

    @property
    def is_own_server(self) -> bool:
        """Whether this is a server that somebody runs, about which the row of a vendor says nothing."""
        return self.provider.group in ("local", "custom") or is_foreign(self.provider, self.base_url)

    @property
    def missing(self) -> tuple[str, ...]:
        """The placeholders of the base URL that have no value."""
        return holes_of(self.base_url)

    @property
    def prompt_format(self) -> str:
        """The text format of the instructions in the prompt."""
        return self.profile.prompt_format or self.provider.format

    @property
    def formats(self) -> tuple[str, ...]:
        """The text formats that replies may contain, the most likely first."""
        profile, provider = self.profile, self.provider
        named = (profile.format, *profile.formats, self.prompt_format, provider.format, *provider.formats)
        return tuple(dict.fromkeys(name for name in named if name))

    def headers_for(self, key: str | None, *, key_name: str = "") -> dict[str, str]:
        """Return the headers of a request, including the key. `key_name` is the variable that contained the key."""
        return self.provider.headers_for(key, self.wire, key_name=key_name)

    def check_wire(self) -> None:
        """Raise ConfigError if dragoman has no codec for the wire."""
        if not wires.knows(self.wire):
            name, notes = self.provider.name, self.provider.notes
            raise ConfigError(f"dragoman does not support the protocol of {name}", hint=notes or None)

    def convert_tools(self, tools: Toolset | Iterable[object] | None) -> ToolsPayload | PromptGuided:
        """Return the tools for this endpoint: definitions of its wire, or instructions for the prompt."""
        offered = Toolset.of(tools) or Toolset(())
        if not self.capabilities.native_tool_calls:
            from dragoman import formats

            # Instructions without tools would make the model call tools that do not exist.
            taught = formats.instructions(offered, self.prompt_format, layout="list") if len(offered) else ""
            return PromptGuided(taught, self.prompt_format)
        return ToolsPayload(self.wire, codec_of(self).encode_definitions(offered))


def codec_of(endpoint: Endpoint) -> Codec:
    """Return the codec of the endpoint's wire, with the quirks of the endpoint."""
    endpoint.check_wire()
    return wires.get(endpoint.wire, endpoint.quirks)


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
    """Return the endpoint for one model at one provider. The arguments override the rows."""
    if profile is None:
        from dragoman.providers.registry import shipped

        profile = shipped().profile(model)
    is_elsewhere = is_foreign(provider, base_url)
    chosen = choose_wire(provider, profile, wire, is_elsewhere=is_elsewhere)
    address = find_address(provider, chosen, base_url, place, variables or {})
    fact = facts.get(address, model) if facts is not None else None
    if fact is not None and fact.wire in provider.wires and not wire:
        chosen = fact.wire
        address = find_address(provider, chosen, base_url, place, variables or {})
    learned = fact or Fact()
    if learned.format:
        profile = msgspec.structs.replace(profile, prompt_format=learned.format)
    row = _without_vendor_fields(provider) if is_elsewhere else provider
    merged = merge_quirks(row, profile, chosen, {**learned.quirks, **(quirks or {})})
    able = overrule(judge(provider, profile, chosen, merged, model, fact, address), learned.capabilities)
    able = overrule(able, overrides)
    return Endpoint(provider, model, chosen, profile, merged, address, able, dict(provider.body.get(chosen, {})))


def choose_wire(provider: Provider, profile: Profile, asked: str = "", *, is_elsewhere: bool = False) -> str:
    """Return the wire that the caller requests, else the one of the model profile, else the provider's first.

    At an address of one's own it is the chat wire, not the Responses API: nearly every compatible server has it.
    """
    if asked:
        if asked not in provider.wires:
            spoken = ", ".join(provider.wires)
            raise UnknownProvider(asked, provider.wires, hint=f"{provider.name} has {spoken}")
        return asked
    chosen = profile.wire if provider.wire_per_model and profile.wire in provider.wires else provider.wire
    return _CHAT if is_elsewhere and chosen == _RESPONSES and _CHAT in provider.wires else chosen


def _without_vendor_fields(provider: Provider) -> Provider:
    """The row for another server, which need not know the newer name of a field. The model profile may demand it."""
    flags = provider.wire_quirks.get(_CHAT, {})
    if "max_tokens_field" not in flags:
        return provider
    return msgspec.structs.replace(
        provider, wire_quirks={**provider.wire_quirks, _CHAT: {**flags, "max_tokens_field": "max_tokens"}}
    )


def find_address(provider: Provider, wire: str, given: str, place: str, variables: Mapping[str, str]) -> str:
    """Return the base URL of a wire: the user's own, or the row's with its placeholders filled."""
    own = provider.url(wire, place)
    return fill_holes(normalise_base_url(given, default=own, wire=wire), variables)


def merge_quirks(provider: Provider, profile: Profile, wire: str, overrides: Mapping[str, Any] | None = None) -> Quirks:
    """Return the flags of an endpoint: defaults, overridden by provider, model profile and caller, in this order."""
    flags: dict[str, Any] = {**provider.quirks, **provider.wire_quirks.get(wire, {})}
    # An endpoint rejects too little reasoning, but not too much: the stronger of both values counts.
    asked = str(flags.get("replay_reasoning", "never"))
    flags["replay_reasoning"] = max(asked, profile.replay, key=_STRENGTH.index)
    flags |= _SCHEMA_QUIRKS[profile.schema]
    flags |= {**profile.quirks, **profile.wire_quirks.get(wire, {}), **(overrides or {})}
    return read_quirks(flags, f"{provider.name} on {wire}")


def read_quirks(flags: Mapping[str, Any], where: str) -> Quirks:
    """Return flags by name as Quirks. Raises ConfigError for an unknown flag or a wrong value."""
    try:
        return msgspec.convert(dict(flags), Quirks)
    except msgspec.ValidationError as error:
        raise ConfigError(
            f"quirks of {where}: {error}", hint="the flags and their values are in dragoman.wire.quirks"
        ) from None


def judge(
    provider: Provider, profile: Profile, wire: str, quirks: Quirks, model: str, fact: Fact | None, address: str = ""
) -> Capabilities:
    """Return the capabilities of an endpoint with a model, from the rows and the learned facts."""
    native = wire != OWN and judge_native(provider, profile, model, fact, quirks, address)
    return from_mapping({"native_tool_calls": native, **provider.declared, **profile.declared})


def judge_native(
    provider: Provider, profile: Profile, model: str, fact: Fact | None, quirks: Quirks = DEFAULTS, address: str = ""
) -> bool:
    """Whether calls are native: by the learned fact, else by the row, else by the model profile."""
    if fact is not None and fact.native_tool_calls is not None:
        return fact.native_tool_calls
    if profile.weak and quirks.grammar_field and quirks.grammar_syntax != "json_schema":
        # A grammar constrains calls as text, and a weak model needs a grammar more than its template.
        return False
    if provider.native == "per_model":
        # For an unknown family, or without a model, nothing is certain; text works with every model.
        return bool(model) and profile.native == "yes"
    # A run can find out what a server at an address does. Without an address there is nobody to ask.
    may_try = provider.native == "learned" and provider.group == "custom" and bool(address)
    return (provider.native == "yes" or may_try) and profile.native != "no"
