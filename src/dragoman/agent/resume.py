"""A run brought back from its records: the machine is told again what it was told before."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.approvals import StoredAnswer, StoredRequest, read_questions
from dragoman.agent.config import RunConfig
from dragoman.agent.machine import Machine
from dragoman.agent.protocol import Cancelled, Command, Finish, Stale
from dragoman.agent.records import Ended, Header, Past, decode
from dragoman.agent.result import Spending
from dragoman.journal.journal import Record
from dragoman.providers.provider import overrule
from dragoman.types import Message

_INPUTS = frozenset({"reply", "approved", "denied", "finished", "input"})


class Restored(Struct, frozen=True):
    """A machine where it was, what it still wants, and which calls were under way."""

    machine: Machine
    commands: list[Command]
    started: frozenset[str]
    elapsed: float
    ended: bool
    questions: dict[str, tuple[StoredRequest, StoredAnswer | None]]
    """What somebody was asked about calls that wait, and what was answered."""


def read_header(records: Sequence[Record]) -> Header:
    """What the run was begun with."""
    header: Header = decode(records[0].body, Header)
    return header


def restore(records: Sequence[Record], config: RunConfig, spending: Spending | None = None) -> Restored:
    """Bring a run back. The time in which nobody ran it does not count."""
    header = read_header(records)
    config = _as_it_was(config, header, records)
    machine = Machine(config, spending=spending)
    past = machine.permissions.past = Past(records, config)
    commands = machine.start(header.messages)
    started: set[str] = set()
    elapsed = 0.0
    for record in records[1:]:
        if record.kind == "started":
            started.add(record.call_id)
        elif record.kind in _INPUTS:
            told = decode(record.body)
            elapsed = max(elapsed, told.at)
            past.reach(record, told)
            commands = machine.receive(told)
            started.discard(told.call_id if isinstance(told, Stale) else record.call_id)
    machine.permissions.past = None
    if machine.result is not None:
        commands = [command for command in commands if isinstance(command, Finish)] or [Finish(machine.result)]
    else:
        commands = machine.outstanding()
    ended = any(record.kind == "ended" for record in records)
    return Restored(machine, commands, frozenset(started), elapsed, ended, read_questions(records))


def _as_it_was(config: RunConfig, header: Header, records: Sequence[Record]) -> RunConfig:
    """The settings that the run was begun with, as far as they matter for what it was told."""
    was_asked = any(record.kind in ("asked", "approved", "denied") for record in records)
    config = replace(
        config,
        seed=bytes.fromhex(header.seed),
        has_approver=config.has_approver or was_asked,
        options={**config.options, **header.options},
    )
    if config.tool_mode != "auto" or not header.mode:
        return config
    able = overrule(config.endpoint.capabilities, {"native_tool_calls": header.mode == "native"})
    return replace(config, endpoint=replace(config.endpoint, capabilities=able), chosen_mode=None)


def last_messages(records: Sequence[Record], config: RunConfig) -> list[Message]:
    """The conversation at the end of a run; one that broke off is closed, every call of it answered."""
    last = records[-1]
    if last.kind == "ended":
        ended: Ended = decode(last.body, Ended)
        return ended.messages
    restored = restore(records, config)
    if restored.machine.result is None:
        restored.machine.receive(Cancelled("interrupted", at=restored.elapsed))
    result = restored.machine.result
    return result.messages if result is not None else restored.machine.messages
