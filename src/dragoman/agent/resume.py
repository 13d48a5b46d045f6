"""Replay: a new machine receives the recorded inputs of a run and reaches the same state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.config import RunConfig
from dragoman.agent.machine import Machine
from dragoman.agent.protocol import Cancelled, Command, Finish, Replied, Stale, ToolAnswered
from dragoman.agent.records import Ended, Header, Past, decode
from dragoman.agent.result import Spending
from dragoman.journal.journal import Journal, JournalDamaged, Record
from dragoman.providers.provider import overrule
from dragoman.types import Message

_INPUTS = frozenset({"reply", "approved", "denied", "finished", "input"})


class Restored(Struct, frozen=True):
    """A restored machine, its outstanding commands, and the calls that were running."""

    machine: Machine
    commands: list[Command]
    started: frozenset[str]
    elapsed: float
    ended: bool


def read_header(records: Sequence[Record]) -> Header:
    """Return the first record of a run."""
    header: Header = decode(records[0].body, Header)
    return header


async def read_start(journal: Journal, run_id: str, records: Sequence[Record]) -> list[Message]:
    """Return the conversation at the start of a run: it joins what each earlier run of the session added."""
    chain, seen = [records], {run_id}
    while read_header(chain[-1]).before is not None:
        parent = (await journal.run(run_id)).parent
        if parent is None or parent in seen:
            raise JournalDamaged("the journal", "the parent run is missing", run_id=run_id)
        seen.add(parent)
        run_id = parent
        chain.append(await journal.read(run_id))
    messages: list[Message] = []
    for each in reversed(chain[1:]):
        messages = _messages_at_end(each, read_header(each).start(messages))
    return read_header(records).start(messages)


async def read_sources(journal: Journal, run_id: str | None) -> list[Message]:
    """Return the calls and results of a run and of the runs before it, if one of them was compacted.

    The conversation does not contain them any more. A summary of them may, so the echo guard must know them.
    """
    chain: list[Sequence[Record]] = []
    seen: set[str] = set()
    while run_id is not None and run_id not in seen:
        seen.add(run_id)
        chain.append(await journal.read(run_id))
        run_id = (await journal.run(run_id)).parent
    if not any(record.kind == "input" and b"compacted" in record.body for records in chain for record in records):
        return []
    return [message for records in reversed(chain) for message in _calls_and_results(records)]


def _calls_and_results(records: Sequence[Record]) -> Iterator[Message]:
    yield from read_header(records).messages
    for record in records[1:]:
        told = decode(record.body) if record.kind in ("reply", "finished") else None
        if isinstance(told, Replied):
            yield Message("assistant", list(told.found.calls))
        elif isinstance(told, ToolAnswered):
            yield Message("tool", [told.result])


def _messages_at_end(records: Sequence[Record], start: list[Message]) -> list[Message]:
    ended: Ended = decode(records[-1].body, Ended)
    return [*start[: ended.kept], *ended.messages]


def restore(
    records: Sequence[Record],
    config: RunConfig,
    spending: Spending | None = None,
    *,
    start: list[Message] | None = None,
    sources: Sequence[Message] = (),
) -> Restored:
    """Restore a run. The time between the processes does not count. `start` is what `read_start` returns, `sources`
    what `read_sources` returns for the run before this one."""
    header = read_header(records)
    config = _as_it_was(config, header, records)
    machine = Machine(config, spending=spending, sources=sources)
    past = machine.permissions.past = Past(records, config)
    commands = machine.start(header.start([]) if start is None else start)
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
    return Restored(machine, commands, frozenset(started), elapsed, ended)


def _as_it_was(config: RunConfig, header: Header, records: Sequence[Record]) -> RunConfig:
    """Return the configuration with the recorded settings on which a replay depends."""
    was_asked = any(record.kind in ("asked", "approved", "denied") for record in records)
    config = replace(
        config,
        seed=bytes.fromhex(header.seed),
        has_approver=config.has_approver or was_asked,
        validates=config.validates or any(b'"answer_checked"' in record.body for record in records[1:]),
        options={**config.options, **header.options},
    )
    if config.tool_mode != "auto" or not header.mode:
        return config
    able = overrule(config.endpoint.capabilities, {"native_tool_calls": header.mode == "native"})
    return replace(config, endpoint=replace(config.endpoint, capabilities=able), chosen_mode=None)


async def last_messages(journal: Journal, run_id: str, records: Sequence[Record], config: RunConfig) -> list[Message]:
    """Return the conversation at the end of a run. An interrupted run is closed, with a result for every call."""
    start = await read_start(journal, run_id, records)
    if records[-1].kind == "ended":
        return _messages_at_end(records, start)
    restored = restore(records, config, start=start)
    machine = restored.machine
    if machine.result is None:
        unstarted = tuple(each for each in machine.running if each not in restored.started)
        machine.receive(Cancelled("interrupted", at=restored.elapsed, unstarted=unstarted))
    return machine.result.messages if machine.result is not None else machine.messages
