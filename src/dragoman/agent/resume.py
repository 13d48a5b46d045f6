"""A run brought back from its records: the machine is told again what it was told before."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.approvals import Answer, Question, read_questions
from dragoman.agent.config import Setup
from dragoman.agent.machine import Machine
from dragoman.agent.protocol import Cancelled, Command, Finish, Stale
from dragoman.agent.records import Ended, Header, Past, decode, decode_input
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
    questions: dict[str, tuple[Question, Answer | None]]
    """What somebody was asked about calls that wait, and what was answered."""


def read_header(records: Sequence[Record]) -> Header:
    """What the run was begun with."""
    header: Header = decode(records[0].body, Header)
    return header


def restore(records: Sequence[Record], setup: Setup, spending: Spending | None = None) -> Restored:
    """Bring a run back. The time in which nobody ran it does not count."""
    header = read_header(records)
    setup = _as_it_was(setup, header, records)
    machine = Machine(setup, spending=spending)
    past = machine.permits.past = Past(records, setup)
    commands = machine.start(header.messages)
    started: set[str] = set()
    elapsed = 0.0
    for record in records[1:]:
        if record.kind == "started":
            started.add(record.call_id)
        elif record.kind in _INPUTS:
            told = decode_input(record.body)
            elapsed = max(elapsed, told.at)
            past.reach(record, told)
            commands = machine.receive(told)
            started.discard(told.call_id if isinstance(told, Stale) else record.call_id)
    machine.permits.past = None
    if machine.result is not None:
        commands = [command for command in commands if isinstance(command, Finish)] or [Finish(machine.result)]
    else:
        commands = machine.outstanding()
    ended = any(record.kind == "ended" for record in records)
    return Restored(machine, commands, frozenset(started), elapsed, ended, read_questions(records))


def _as_it_was(setup: Setup, header: Header, records: Sequence[Record]) -> Setup:
    """The settings that the run was begun with, as far as they matter for what it was told."""
    was_asked = any(record.kind in ("asked", "approved", "denied") for record in records)
    setup = replace(
        setup,
        seed=bytes.fromhex(header.seed),
        has_approver=setup.has_approver or was_asked,
        options={**setup.options, **header.options},
    )
    if setup.tool_mode != "auto" or not header.mode:
        return setup
    able = overrule(setup.endpoint.capabilities, {"native_tool_calls": header.mode == "native"})
    return replace(setup, endpoint=replace(setup.endpoint, capabilities=able), manner=None)


def last_messages(records: Sequence[Record], setup: Setup) -> list[Message]:
    """The conversation at the end of a run; one that broke off is closed, every call of it answered."""
    last = records[-1]
    if last.kind == "ended":
        ended: Ended = decode(last.body, Ended)
        return ended.messages
    restored = restore(records, setup)
    if restored.machine.result is None:
        restored.machine.receive(Cancelled("interrupted", at=restored.elapsed))
    result = restored.machine.result
    return result.messages if result is not None else restored.machine.messages
