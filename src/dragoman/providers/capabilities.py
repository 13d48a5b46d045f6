"""What an endpoint can do with a model, as far as a caller has to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.errors import ConfigError, nearest

_IMAGE_WIRES = frozenset({"openai_responses", "anthropic", "bedrock", "ollama"})
_WIRES_WITHOUT_SWITCH = frozenset({"gemini", "ollama", "bedrock", "cohere"})
# Whole calls arrive in one piece on these wires.
_WIRES_WITH_WHOLE_CALLS = frozenset({"gemini", "ollama"})


class Capabilities(Struct, frozen=True, forbid_unknown_fields=True):
    """The abilities of one endpoint with one model. A caller may overrule any of them, per call."""

    native_tool_calls: bool = False
    """Tools are sent as definitions and calls come back in a field; otherwise both travel as text."""
    parallel_calls: bool = True
    """One reply may hold several calls."""
    parallel_switch: bool = True
    """The caller may forbid parallel calls."""
    tool_choice: tuple[str, ...] = ("auto", "none", "required", "named")
    """The kinds of tool choice that are honoured."""
    streaming: bool = True
    """Replies can be streamed."""
    streams_arguments: bool = True
    """Arguments of calls arrive in pieces, not only whole."""
    images_in_results: bool = False
    """Results of tools may hold images."""
    strict: bool = False
    """There is a mode in which the arguments are held to the schema."""
    reasoning_replay: Literal["never", "calls", "always"] = "never"
    """Which assistant messages need their reasoning back."""
    sampling: bool = True
    """Temperature and its kin are taken."""


def of_wire(wire: str) -> dict[str, Any]:
    """What follows from the protocol alone."""
    return {
        "parallel_switch": wire not in _WIRES_WITHOUT_SWITCH,
        "streams_arguments": wire not in _WIRES_WITH_WHOLE_CALLS,
        "images_in_results": wire in _IMAGE_WIRES,
    }


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
