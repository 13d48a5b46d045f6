"""What every worker does for all runs of its database: it continues those that were answered or taken from the dead."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dragoman.agent.journal import record_cancellation
from dragoman.agent.records import decode
from dragoman.engine.execution import CANCELLED, Executor, Submission
from dragoman.engine.workers import IdleRun, find_expiries, find_idle, find_parked
from dragoman.journal.journal import Journal, JournalDamaged

if TYPE_CHECKING:
    import psycopg
    from dbos import DBOSClient

log = logging.getLogger("dragoman.engine")

T = TypeVar("T")
WORKFLOW = "dragoman.run"
WAITING = "awaiting_approval"
"""The result of the workflow of a run that waits for an approval. A waiting run occupies no worker."""
ASK_AT_ONCE = 1000
_WAKE_AT_ONCE = 200
_THOROUGH_SECONDS = 10.0
"""The time between two looks at all runs that nobody holds. The others are only at those that changed just now."""
_LATE_SECONDS = 60.0
"""How long after its expiry a request is asked again: the clocks of the workers may differ."""


def chunks(values: Sequence[T]) -> Iterator[Sequence[T]]:
    for first in range(0, len(values), ASK_AT_ONCE):
        yield values[first : first + ASK_AT_ONCE]


def queue_name(agent: str, digest: str) -> str:
    """Return the queue of an agent with certain tools."""
    return f"{agent}:{digest}"


def queue_of(workflow: Any) -> str:
    """Return the queue of a run. DBOS forgets that of a cancelled run; the submission knows it."""
    if workflow.queue_name or workflow.input is None:
        return workflow.queue_name or ""
    try:
        submission: Submission = decode(workflow.input["args"][0].encode(), Submission)
    except (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError):
        # Another program wrote this row.
        return ""
    return queue_name(submission.agent, submission.digest)


def rewind(workflow: Any, client: DBOSClient) -> None:
    """Queue a run again whose workflow has ended. A new workflow begins, and the journal knows where the run is."""
    client.rewind_workflow(workflow.workflow_id, queue_name=queue_of(workflow))


def resume(client: DBOSClient, workflows: Iterable[Any]) -> None:
    """Queue runs again that some worker executes. DBOS then refuses its steps, and the journal its records."""
    by_queue: dict[str, list[str]] = {}
    for workflow in workflows:
        by_queue.setdefault(workflow.queue_name or "", []).append(workflow.workflow_id)
    for queue, run_ids in by_queue.items():
        client.resume_workflows(run_ids, queue_name=queue)


def wake(client: DBOSClient, run_ids: Sequence[str]) -> None:
    """Queue runs again that wait for an approval. Others are left as they are."""
    over = client.list_workflows(workflow_ids=list(run_ids), status="SUCCESS", load_input=False) if run_ids else []
    _rewind_some(client, [workflow for workflow in over if workflow.output == WAITING])


def _rewind_some(client: DBOSClient, workflows: list[Any]) -> None:
    # The rest is for the next look. All workers look, so each begins elsewhere.
    for workflow in random.sample(workflows, min(len(workflows), _WAKE_AT_ONCE)):
        with contextlib.suppress(Exception):
            # Another worker may have been faster.
            rewind(workflow, client)


class Upkeep:
    """Continues the runs that nobody holds. `look` is called twice a second, in a thread of its own."""

    def __init__(
        self,
        client: Callable[[], DBOSClient],
        journal: Journal,
        executor: Executor,
        worker: str,
        digests: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._journal = journal
        self._executor = executor
        self._worker = worker
        self._digests = digests
        self._clock = clock
        self._wall = wall
        self._next_thorough = 0.0
        self._noticed: set[str] = set()
        self._seen: dict[str, IdleRun] = {}
        """The runs that nobody held at the last thorough look. One without new records is not looked at again."""
        self._expiries: dict[str, float] = {}
        self._dropped: set[str] = set()
        """Runs that this worker executes according to DBOS, and did not at the last thorough look."""
        self._beyond: set[str] = set()
        """Cancelled runs that this worker cannot end: it has other tools, or their journal is damaged."""

    def look(self, connection: psycopg.Connection[Any]) -> None:
        """Cancel, continue and end runs, as others have asked for it in the database."""
        client = self._client()
        self._cancel_live(client)
        is_thorough = self._clock() >= self._next_thorough
        answered, cancelled = find_parked(connection, recent=not is_thorough)
        wake(client, answered)
        self._end_cancelled(client, cancelled)
        if is_thorough:
            self._next_thorough = self._clock() + _THOROUGH_SECONDS
            self._look_at_idle(client, connection)
            self._resume_dropped(client)
            self._notice_others(client)

    def _cancel_live(self, client: DBOSClient) -> None:
        for some in chunks(list(self._executor.live)):
            for workflow in client.list_workflows(
                workflow_ids=list(some), status="CANCELLED", load_input=False, load_output=False
            ):
                self._executor.cancel(workflow.workflow_id, CANCELLED)

    def _end_cancelled(self, client: DBOSClient, run_ids: Iterable[str]) -> None:
        """Queue runs again whose cancellation the journal has. A worker with their tools ends them."""
        mine = [run_id for run_id in run_ids if run_id not in self._beyond]
        wake(client, mine)
        for some in chunks(mine):
            found = client.list_workflows(workflow_ids=list(some), status="CANCELLED")
            served = {queue_name(*pair) for pair in self._digests.items()}
            self._beyond.update(each.workflow_id for each in found if queue_of(each) not in served)
            _rewind_some(client, [each for each in found if queue_of(each) in served])

    def _look_at_idle(self, client: DBOSClient, connection: psycopg.Connection[Any]) -> None:
        seen = {each.run_id: each for each in find_idle(connection)}
        changed = [each for run_id, each in seen.items() if self._seen.get(run_id) != each]
        for some in chunks(changed):
            self._record_cancellations(client, [each.run_id for each in some])
            for each in some:
                self._expiries.pop(each.run_id, None)
            self._expiries.update(find_expiries(connection, [each.number for each in some]))
        # Not before: if the database fails meanwhile, the next look has to repeat all this.
        self._seen = seen
        self._expiries = {run_id: at for run_id, at in self._expiries.items() if run_id in seen}
        latest = self._wall() - _LATE_SECONDS
        late = [run_id for run_id, at in self._expiries.items() if at < latest][:_WAKE_AT_ONCE]
        # They ask again, with a new request that somebody can answer.
        wake(client, late)
        for run_id in late:
            del self._expiries[run_id]

    def _record_cancellations(self, client: DBOSClient, run_ids: list[str]) -> None:
        """Record what nobody could record: who cancelled the run found its lease, and its worker was dead or stopped.

        The next look finds the record, and a worker ends the run.
        """
        cancelled = client.list_workflows(workflow_ids=run_ids, status="CANCELLED", load_input=False, load_output=False)

        async def record() -> None:
            for run_id in (each.workflow_id for each in cancelled if each.workflow_id not in self._beyond):
                try:
                    await record_cancellation(self._journal, run_id, CANCELLED)
                except JournalDamaged as damaged:
                    self._beyond.add(run_id)
                    log.error("the cancelled run %s cannot be ended: %s", run_id, damaged)

        if cancelled:
            asyncio.run(record())

    def _resume_dropped(self, client: DBOSClient) -> None:
        """Queue runs again of which DBOS could not record the end, for example because the database was read-only.

        DBOS would leave them with this worker for as long as it lives.
        """
        mine = client.list_workflows(status="PENDING", executor_id=self._worker, load_input=False, load_output=False)
        found = {each.workflow_id: each for each in mine if not self._executor.attends(each.workflow_id)}
        # A run may begin or end at this moment, so only what is found twice counts.
        again = [each for run_id, each in found.items() if run_id in self._dropped]
        self._dropped = set(found)
        if again:
            log.warning("%d runs were dropped without an end, and are queued again", len(again))
            resume(client, again)

    def _notice_others(self, client: DBOSClient) -> None:
        """Log once if runs wait for other tools than this worker has."""
        queued = client.list_workflows(
            status="ENQUEUED", name=WORKFLOW, limit=ASK_AT_ONCE, load_input=False, load_output=False
        )
        for queue in sorted({workflow.queue_name or "" for workflow in queued} - self._noticed):
            agent, _, digest = queue.rpartition(":")
            if agent in self._digests and self._digests[agent] != digest:
                self._noticed.add(queue)
                log.warning(
                    "runs of %s need other tools than this worker has (%s, not %s); they are left to other workers",
                    agent,
                    digest,
                    self._digests[agent],
                )
