"""The journal of one run. It stores every input before anything is done because of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from dragoman.agent.protocol import Cancelled, Input, Replied, ToolAnswered
from dragoman.agent.records import Ended, Started, count_common, encode, is_cancellation, kind_of, note_secrets
from dragoman.agent.result import RunResult
from dragoman.journal.journal import Entry, Journal, JournalError, RunBusy, UnknownRun
from dragoman.logs import get_log
from dragoman.secrets import HumanSink
from dragoman.types import Message, ToolCall

_log = get_log("agent")


class RunJournal:
    """Writes the records of one run into a journal.

    The record of a reply is held back until the next record, which is usually that of the tool that the reply asks for:
    both then share a commit. The record of a result is written while the run goes on, until something may follow from
    it: an engine records its step at the same time. `flush` waits for both.
    """

    def __init__(
        self, journal: Journal, run_id: str, token: int, start: list[Message], sink: HumanSink | None = None
    ) -> None:
        self._journal = journal
        self._run_id = run_id
        self._token = token
        self._start = list(start)
        self._sink = sink
        self._delivering: tuple[str, ...] = ()
        self._held: list[Entry] = []
        self._writes: list[asyncio.Task[None]] = []
        """The writes of results that nobody has waited for yet."""

    def carry(self, call_ids: tuple[str, ...]) -> None:
        """Note that the next request sends the results of these calls to the model for the first time."""
        self._delivering = call_ids

    async def record(self, told: Input) -> None:
        """Store an input before the machine receives it. A reply or a result may be stored later: see `flush`."""
        kind, call_id = kind_of(told)
        entries: list[Entry] = []
        calls: tuple[str, ...] = ()
        if isinstance(told, Replied):
            calls = tuple(call.id for call in told.found.calls)
            if told.reply.failure is None and self._delivering:
                entries.append(Entry("delivered", calls=self._delivering))
                self._delivering = ()
        entries.append(Entry(kind, encode(told), call_id, calls))
        if isinstance(told, Replied):
            self._held += entries
        elif isinstance(told, ToolAnswered):
            self._writes.append(asyncio.create_task(self._write(*entries)))
        else:
            await self._append(*entries)

    async def flush(self) -> None:
        """Store the reply that is held back, and wait until all results are stored.

        Call this before whatever does not begin with a record of its own.
        """
        if self._held:
            await self._append()
        else:
            await self._settle()

    async def start(self, call: ToolCall, at: float, request: str = "") -> None:
        """Store that a call is about to run and uses its approval. The record is on disk before the call runs."""
        await self._append(Entry("started", encode(Started(call.name, call.arguments, at, request)), call.id))

    async def ask(self, call_id: str, body: bytes) -> None:
        """Store an approval request. Somebody may answer it after this process has ended."""
        await self._append(Entry("asked", body, call_id))

    async def end(self, result: RunResult) -> None:
        """Store the outcome of the run."""
        outcome = result.outcome
        kept = count_common(self._start, result.messages)
        body = Ended(
            outcome.kind,
            outcome.category,
            outcome.reason,
            result.text,
            result.messages[kept:],
            result.turns,
            msgspec.structs.asdict(result.usage),
            result.cost,
            kept,
        )
        await self._append(Entry("ended", encode(body)))

    async def close(self) -> None:
        """Release the run, so that another process can continue it."""
        try:
            await self.flush()
        except JournalError as lost:
            _log.warning(
                "%s: its last records are not stored, so who continues it does not know them: %s", self._run_id, lost
            )
        finally:
            await self._journal.release(self._run_id, token=self._token)

    async def _append(self, *entries: Entry) -> None:
        # If a result could not be stored, nothing that follows from it may be stored.
        await self._settle()
        await self._write(*entries)

    async def _settle(self) -> None:
        """Wait until all results are stored. Raises the error of the first one that is not."""
        if not self._writes:
            return
        # A cancellation of this task cancels no write.
        await asyncio.wait(self._writes)
        writes, self._writes = self._writes, []
        failures = [failure for each in writes if (failure := each.exception()) is not None]
        if failures:
            raise failures[0]

    async def _write(self, *entries: Entry) -> None:
        held, self._held = self._held, []
        whole = [*held, *entries]
        noted = [msgspec.structs.replace(each, body=note_secrets(each.body, self._sink)) for each in whole]
        await self._journal.append(self._run_id, noted, token=self._token)


@asynccontextmanager
async def released_on_error(run_journal: RunJournal | None) -> AsyncIterator[None]:
    """Release the run if the block raises an exception. Nobody would continue it."""
    try:
        yield
    except BaseException:
        if run_journal is not None:
            await run_journal.close()
        raise


async def record_cancellation(journal: Journal, run_id: str, reason: str) -> None:
    """Record that a run was cancelled which no process holds. Its approvals are void, and who resumes it ends it.

    A process that holds the run has to cancel it itself.
    """
    try:
        token = await journal.claim(run_id, "a cancellation")
    except (RunBusy, UnknownRun):
        return
    try:
        last = (await journal.read(run_id))[-1]
        if last.kind != "ended" and not is_cancellation(last):
            await journal.append(run_id, [Entry("input", encode(Cancelled(reason)))], token=token)
    finally:
        await journal.release(run_id, token=token)
