"""The report of one exchange: what was found in a reply, what was repaired, and what was lost on the way.

A report contains names, places and reasons, and no arguments: those can contain secrets, and the client has them.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.types import Failure, InvalidCall, Reply, ToolCall, Usage

if TYPE_CHECKING:
    from dragoman.extraction import Extraction


_LONGEST_TEXT = 500
_MOST_ENTRIES = 100
"""What a report that is kept may have: clients and models choose the names in it."""


class FoundCall(Struct, frozen=True, omit_defaults=True):
    """A call that was passed on, and how it was read."""

    name: str
    id: str
    channel: str
    format: str = ""
    level: str = ""
    repairs: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """The coerced arguments, as `path: rule`."""
    verdict: str = "allow"
    """`ask` if the call is doubtful. The client has its own permissions, so it receives the call all the same."""


class HeldCall(Struct, frozen=True):
    """A call, or text that looks like one, that was not passed on as a call."""

    name: str
    why: str


class Report(Struct, omit_defaults=True):
    """Everything that happened to one request and its reply."""

    id: str
    wire: str = ""
    """The wire of the client."""
    requested_model: str = ""
    model: str = ""
    """The model that answered, as `provider:model`."""
    slot: str = ""
    """The slot of the route, if one decided."""
    tool_mode: str = ""
    streamed: bool = False
    tools: int = 0
    calls: list[FoundCall] = field(default_factory=list)
    refused: list[HeldCall] = field(default_factory=list)
    invalid: list[HeldCall] = field(default_factory=list)
    suspects: list[HeldCall] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    """Fields of the request that the endpoint cannot express."""
    rewritten: int = 0
    """Earlier turns with a leaked call that were sent as that call."""
    repair_turn: str = ""
    """Why the model was asked a second time."""
    notes: list[str] = field(default_factory=list)
    retries: list[str] = field(default_factory=list)
    stop: str = ""
    usage: Usage = Usage()
    failure: str = ""
    seconds: float = 0.0
    client: str = ""
    """The name of the client's key."""

    def add_extraction(self, found: Extraction) -> None:
        """Note what was read in a reply. `add_call` notes the calls that are passed on."""
        if found.refused:
            self.refused += [HeldCall(entry.name, entry.why) for entry in found.refused]
        if found.invalid:
            self.invalid += [HeldCall(call.name, _explain(call)) for call in found.invalid]
        if found.suspects:
            self.suspects += [HeldCall(suspect.name, suspect.why) for suspect in found.suspects]

    def add_call(self, call: ToolCall) -> None:
        """Note a call that is passed on."""
        origin = call.provenance
        self.calls.append(
            FoundCall(
                call.name,
                call.id,
                origin.channel if origin is not None else "native",
                origin.format if origin is not None else "",
                (origin.level or "") if origin is not None else "",
                call.repairs,
                tuple(f"{change.path}: {change.rule}" for change in call.changes),
                (origin.verdict or "allow") if origin is not None else "allow",
            )
        )

    def add_reply(self, reply: Reply) -> None:
        """Note a reply that is passed on as it came."""
        self.stop, self.usage = reply.stop, reply.usage
        for call in reply.calls:
            self.add_call(call)
        if reply.failure is not None:
            self.fail(reply.failure)

    def add_losses(self, losses: Collection[object]) -> None:
        """Note what the endpoint cannot express, each loss once."""
        if not losses:
            return
        self.losses += [said for loss in losses if (said := str(loss)) not in self.losses]

    def fail(self, failure: Failure) -> None:
        """Note why the exchange failed."""
        self.failure = f"{failure.kind}: {failure.message}" if failure.message else failure.kind

    def limit(self) -> None:
        """Cut long texts and lists. What is left out of a list is counted in a note."""
        left_out: list[str] = []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, list) and len(value) > _MOST_ENTRIES:
                left_out.append(f"{len(value) - _MOST_ENTRIES} more {name} are left out")
            setattr(self, name, _limit(value))
        self.notes += left_out

    @property
    def is_repaired(self) -> bool:
        """Whether the client received something else than the endpoint sent."""
        return bool(self.repair_turn) or any(
            [call.channel != "native" or call.repairs or call.changes for call in self.calls]
        )

    def shorten(self, most: int = 4096) -> str:
        """Return the report as one line of ASCII, for a header. It is cut to the parts that say what happened."""
        from dragoman.secrets import scrub

        whole: dict[str, Any] = msgspec.to_builtins(self)
        for left_out in ((), ("losses", "notes", "retries"), ("suspects", "refused", "invalid", "calls")):
            whole = {name: value for name, value in whole.items() if name not in left_out}
            if left_out:
                whole["is_cut"] = True
            line = scrub(json.dumps(whole, separators=(",", ":")))
            if len(line) <= most:
                return line
        return json.dumps({"id": self.id, "is_cut": True}, separators=(",", ":"))

    def summarise(self) -> str:
        """Return one line for a log."""
        said = [f"{self.client and self.client + ': '}{self.requested_model or '-'} -> {self.model or '-'}"]
        if self.calls:
            said.append("calls: " + ", ".join(_describe(call) for call in self.calls))
        for title, held in (("refused", self.refused), ("invalid", self.invalid), ("suspects", self.suspects)):
            if held:
                said.append(f"{title}: " + ", ".join(one.name or "?" for one in held))
        if self.losses:
            said.append("losses: " + ", ".join(loss[:100] for loss in self.losses[:8]))
        if self.repair_turn:
            said.append(f"repair turn: {self.repair_turn}")
        if self.failure:
            said.append(f"failed: {self.failure}")
        return "; ".join(said)


def _limit(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}..."
    if isinstance(value, list | tuple):
        kept = [_limit(each) for each in value[:_MOST_ENTRIES]]
        return kept if isinstance(value, list) else tuple(kept)
    if isinstance(value, FoundCall | HeldCall):
        return replace(value, **{name: _limit(getattr(value, name)) for name in value.__struct_fields__})
    return value


def _describe(call: FoundCall) -> str:
    how = call.format if call.channel == "text" else ""
    details = ", ".join(filter(None, (how, *call.repairs)))
    return f"{call.name} ({details})" if details else call.name


def _explain(call: InvalidCall) -> str:
    return "; ".join(map(str, call.faults)) or call.kind
