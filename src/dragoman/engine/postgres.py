"""The engine on Postgres: many workers on many machines, with DBOS for queues, steps and durable waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from dragoman.agent.agent import Agent
from dragoman.agent.approvals import Approval, ApprovalRequest, answer_request
from dragoman.agent.handle import Task
from dragoman.agent.journal import record_cancellation
from dragoman.agent.records import decode, encode
from dragoman.engine.engine import Rate, RunStatus, State
from dragoman.engine.execution import CANCELLED, Executor, Progress, Submission, digest_tools, make_submission
from dragoman.engine.upkeep import (
    ASK_AT_ONCE,
    WAITING,
    WORKFLOW,
    Upkeep,
    chunks,
    queue_name,
    queue_of,
    resume,
    rewind,
    wake,
)
from dragoman.engine.workers import Heartbeat, WorkerStatus, connect, find_workers, has_engine
from dragoman.errors import ConfigError, DragomanError, did_you_mean
from dragoman.journal.journal import UnknownRun, check_name
from dragoman.journal.postgres import IDLE_SECONDS, WAIT_SECONDS, PostgresJournal, Retry, describe_url, explain, is_away

if TYPE_CHECKING:
    import psycopg
    from dbos import DBOSClient

log = logging.getLogger("dragoman.engine")

T = TypeVar("T")
APPLICATION = "dragoman"
# One version for all workers: the tools of an agent are part of the name of its queue instead.
VERSION = "1"
CONCURRENCY = 50
LEASE_SECONDS = 5.0
_CONNECTIONS = 10
"""How many of them DBOS may open in a worker. With twice as many, which is its default, runs are not faster."""
_POLL_SECONDS = 0.2
_REFUSED_SECONDS = 1.0
_STATES: dict[str, State] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "SUCCESS": "ended",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
    "CANCELLED": "cancelled",
}


def _serializer() -> Any:
    from dbos import Serializer

    class JsonSerializer(Serializer):
        """Stores plain JSON. The default of DBOS is pickle, which would run code from the database."""

        def serialize(self, data: Any) -> str:
            return json.dumps(data, default=_describe)

        def deserialize(self, serialized_data: str) -> Any:
            found = msgspec.json.decode(serialized_data)
            if isinstance(found, dict) and "error_message" in found:
                return DragomanError(found["error_message"])
            return found

        def name(self) -> str:
            return "dragoman_json"

    return JsonSerializer()


class _PickleBan(threading.local):
    """Where pickle is forbidden: in the threads that ask for runs, and everywhere in a worker."""

    in_this_thread = False


_ban = _PickleBan()
_workers: set[int] = set()
"""The process ids of workers: a child of a worker may use DBOS itself."""


@cache
def _forbid_pickle() -> None:
    """Make DBOS refuse pickle. It reads a row with pickle if the row says so, whatever the serializer is.

    A program may also use DBOS for its own purposes, so nothing changes for its own threads.
    """
    from dbos import _serialization

    kind = type(_serialization.DBOSDefaultSerializer)
    usual = kind.deserialize

    def deserialize(self: Any, serialized_data: str) -> Any:
        if _ban.in_this_thread or os.getpid() in _workers:
            raise DragomanError("a row of the database is not JSON, and is not read")
        return usual(self, serialized_data)

    kind.deserialize = deserialize  # type: ignore[method-assign, assignment]


@cache
def _hide_cancellations() -> None:
    """Make DBOS log no traceback for a cancelled run. The worker logs the cancellation."""
    from dbos import error

    kinds = (error.DBOSWorkflowCancelledError, error.DBOSAwaitedWorkflowCancelledError)
    logging.getLogger("dbos").addFilter(lambda record: not (record.exc_info and isinstance(record.exc_info[1], kinds)))


def _describe(value: Any) -> Any:
    if isinstance(value, BaseException):
        return {"error_message": f"{type(value).__name__}: {value}"[:2000]}
    return str(value)


def _delete_workflows(run_ids: list[str], client: DBOSClient) -> None:
    client.delete_workflows(run_ids)


class NotSubmitted(UnknownRun):
    """No run with this id was submitted."""

    hint = "`dragoman status -n 100` lists the last runs that were submitted"

    def __init__(self, run_id: str, place: str) -> None:
        super().__init__(run_id)
        self.args = (f"no run {run_id!r} was submitted to the database {place}",)


def _cause_of(error: Exception) -> BaseException:
    """Return the error of the driver. SQLAlchemy wraps it."""
    return getattr(error, "orig", None) or error


def _goes_on(workflow: Any) -> bool:
    """Whether a worker executes the run, or has to."""
    return _STATES.get(workflow.status) in ("queued", "running")


def _describe_run(workflow: Any, workers: Mapping[str, WorkerStatus]) -> RunStatus:
    """Return the status of a run. `workers` are the live ones, by name."""
    state = _STATES.get(workflow.status, "failed")
    queue = queue_of(workflow)
    agent, _, digest = queue.rpartition(":")
    why = ""
    is_orphan = state == "running" and workflow.executor_id not in workers
    if state == "ended":
        why = str(workflow.output)
        state = {"cancelled": "cancelled", WAITING: "waiting"}.get(why, state)  # type: ignore[assignment]
    elif state == "failed":
        why = str(workflow.error)
    elif is_orphan or state == "queued":
        state = "queued"
        if not any(worker.agents.get(agent) == digest for worker in workers.values()):
            why = f"no worker serves {agent} with the tools of this run ({digest})"
        elif is_orphan:
            why = "its worker has stopped or is paused; another one takes over"
    return RunStatus(workflow.workflow_id, agent, state, workflow.executor_id or "", why)


class PostgresEngine:
    """Executes runs on any number of workers that share a database. `submit` and the like work without a worker.

    DBOS queues the runs and records their steps, and our journal in the same database records what happened in each
    step. `worker` is the name of this process among the workers, `concurrency` the number of runs that it executes at
    the same time, and `rate` limits how many runs of each of its agents start, over all workers.
    """

    runs_here = False

    def __init__(
        self,
        url: str,
        *,
        worker: str | None = None,
        concurrency: int = CONCURRENCY,
        rate: Rate | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._url = url
        self._place = describe_url(url)
        # DBOS knows only this spelling.
        self._dbos_url = url.replace("postgres://", "postgresql://", 1)
        self._journal = PostgresJournal(url, lease_seconds=lease_seconds)
        self.worker = (
            check_name("worker", worker) if worker else f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        )
        self._concurrency = concurrency
        self._rate = rate
        self._own_client: DBOSClient | None = None
        self._lookup: psycopg.Connection[Any] | None = None
        self._lookup_lock = threading.Lock()
        self._client_lock = threading.Lock()
        self._closing = threading.Event()
        self._executor: Executor | None = None
        self._digests: dict[str, str] = {}
        self._is_working = False

    @property
    def journal(self) -> PostgresJournal:
        return self._journal

    @property
    def is_working(self) -> bool:
        """Whether this process is a worker and other processes can submit to it."""
        return self._is_working

    # ---- from anywhere that reaches the database ---------------------------------------------------------------------

    async def submit(self, agent: str, task: Task, *, session: str | None = None, run_id: str | None = None) -> str:
        digest = self._digests.get(agent) or await self._find_digest(agent)
        submission = make_submission(agent, task, session, run_id, digest)
        options: Any = {
            "workflow_name": WORKFLOW,
            "queue_name": queue_name(agent, digest),
            "workflow_id": submission.run_id,
        }
        await self._ask(lambda client: client.enqueue(options, encode(submission).decode()))
        return submission.run_id

    async def _find_digest(self, agent: str) -> str:
        served = [each.agents for each in await self.workers()]
        found = next((agents[agent] for agents in served if agent in agents), None)
        if found is None:
            known = sorted({name for agents in served for name in agents})
            raise ConfigError(
                f"no worker serves an agent named {agent!r}{did_you_mean(agent, known)}",
                hint=f"served are {', '.join(known)}" if known else "start one: dragoman worker --engine ADDRESS AGENT",
            )
        return found

    async def workers(self) -> list[WorkerStatus]:
        """Return the live workers."""
        return await asyncio.to_thread(self._query, find_workers)

    async def status(self, run_id: str) -> RunStatus:
        return (await self._describe_all([await self._find(run_id)]))[0]

    async def _find(self, run_id: str) -> Any:
        found = await self._list(workflow_ids=[run_id])
        if not found:
            raise NotSubmitted(run_id, self._place)
        return found[0]

    async def recent(self, limit: int) -> list[RunStatus]:
        """Return the status of the runs that were submitted last, the newest first."""
        return await self._describe_all(await self._list(name=WORKFLOW, limit=limit, sort_desc=True))

    async def _describe_all(self, workflows: list[Any]) -> list[RunStatus]:
        workers: dict[str, WorkerStatus] = {}
        if any(_goes_on(workflow) for workflow in workflows):
            workers = {worker.worker: worker for worker in await self.workers()}
        # DBOS forgets the queue of a cancelled run.
        without = [workflow.workflow_id for workflow in workflows if not workflow.queue_name]
        submitted = {each.workflow_id: each for each in (await self._list(workflow_ids=without, load_input=True))}
        return [_describe_run(submitted.get(each.workflow_id, each), workers) for each in workflows]

    async def wait(self, run_id: str) -> RunStatus:
        while _goes_on(found := await self._find(run_id)):
            await asyncio.sleep(_POLL_SECONDS)
        return (await self._describe_all([found]))[0]

    async def follow(self, run_ids: Iterable[str]) -> AsyncIterator[RunStatus]:
        over = [status for status, state in _STATES.items() if state not in ("queued", "running")]
        left = list(dict.fromkeys(run_ids))
        while left:
            settled = set()
            for some in chunks(left):
                for each in await self._describe_all(await self._list(workflow_ids=some, status=over)):
                    settled.add(each.run_id)
                    yield each
            left = [run_id for run_id in left if run_id not in settled]
            await asyncio.sleep(_POLL_SECONDS if left else 0)

    async def retry(self, run_ids: Iterable[str]) -> None:
        lost = [status for status, state in _STATES.items() if state in ("failed", "cancelled")]
        for some in chunks(list(run_ids)):
            for each in await self._list(workflow_ids=some, status=lost, load_input=True):
                await self._ask(partial(rewind, each))

    async def answer(self, request_id: str, approval: Approval | bool) -> ApprovalRequest:
        given = approval if isinstance(approval, Approval) else Approval(approval)
        request = await answer_request(self._journal, request_id, given, now=time.time())
        # A worker would notice the answer within a second or two.
        await self._ask(partial(wake, run_ids=[request.run_id]))
        return request

    async def cancel(self, run_id: str, reason: str = "") -> None:
        status = await self.status(run_id)
        if status.is_over:
            return
        # The journal first: if this process ends now, the workers find the record and do the rest.
        await record_cancellation(self._journal, run_id, reason or CANCELLED)
        if status.state == "waiting":
            # For DBOS, the run has ended.
            await self._ask(partial(wake, run_ids=[run_id]))
        await self._ask(lambda client: client.cancel_workflow(run_id))
        # Its worker may have stopped meanwhile. If it has just died, the others record the cancellation and end the run
        # after the lease.
        await record_cancellation(self._journal, run_id, reason or CANCELLED)

    async def forget(self, run_ids: Sequence[str]) -> None:
        """Delete what DBOS stores about runs: the tasks, the steps and the outcomes. The journal is not changed.

        Raises ConfigError if a worker executes one of the runs, or has to.
        """
        if not await asyncio.to_thread(self._query, has_engine):
            return
        found = [each for some in chunks(run_ids) for each in await self._list(workflow_ids=list(some))]
        for each in found:
            if _goes_on(each):
                raise ConfigError(
                    f"run {each.workflow_id} has not ended", hint=f"cancel it first: dragoman cancel {each.workflow_id}"
                )
        await self._delete([each.workflow_id for each in found])

    async def forget_before(self, when: float) -> int:
        """Do the same for all runs that ended before a time, in seconds since 1970. Return how many these were."""
        if not await asyncio.to_thread(self._query, has_engine):
            return 0
        over = [status for status, state in _STATES.items() if state not in ("queued", "running")]
        until = datetime.fromtimestamp(when, UTC).isoformat()
        count = kept = 0
        while found := await self._list(
            name=WORKFLOW, status=over, completed_before=until, limit=ASK_AT_ONCE, offset=kept
        ):
            ended = [each.workflow_id for each in found if each.output != WAITING]
            await self._delete(ended)
            count += len(ended)
            kept += len(found) - len(ended)
        return count

    async def _delete(self, run_ids: Sequence[str]) -> None:
        for some in chunks(run_ids):
            await self._ask(partial(_delete_workflows, list(some)))

    # ---- the database ------------------------------------------------------------------------------------------------

    async def _list(self, *, load_input: bool = False, **which: Any) -> list[Any]:
        if not which.get("workflow_ids", True):
            return []
        return await self._ask(lambda client: client.list_workflows(load_input=load_input, **which))

    async def _ask(self, ask: Callable[[DBOSClient], T]) -> T:
        return await asyncio.to_thread(self._persist, lambda: ask(self._client()))

    def _query(self, query: Callable[[psycopg.Connection[Any]], T]) -> T:
        def ask() -> T:
            with self._lookup_lock:
                if self._lookup is None or self._lookup.closed:
                    self._lookup = connect(self._url)
                return query(self._lookup)

        return self._persist(ask)

    def _persist(self, work: Callable[[], T]) -> T:
        """Execute `work`, and again for some time while the server is away.

        If the server was never reached, the address may be wrong. Then the error is raised at once.
        """
        retry = Retry(self._place, WAIT_SECONDS)
        while True:
            _ban.in_this_thread = True
            try:
                return work()
            except Exception as error:
                cause = _cause_of(error)
                was_reached = self._own_client is not None or self._lookup is not None
                if not (is_away(cause) and was_reached and retry.wait(self._closing)):
                    raise explain(cause, self._place) from error
            finally:
                _ban.in_this_thread = False

    def _client(self) -> DBOSClient:
        from dbos import DBOS, DBOSClient

        _forbid_pickle()
        with self._client_lock:
            if self._own_client is None:
                # The connection explains what is wrong with the address or the server. DBOS does not, and tries for
                # ever.
                connect(self._url).close()
                DBOS.migrate(system_database_url=self._dbos_url)
                self._own_client = DBOSClient(
                    system_database_url=self._dbos_url,
                    serializer=_serializer(),
                    application_name=APPLICATION,
                    retry_connection_errors=False,
                    sys_db_idle_transaction_timeout_sec=IDLE_SECONDS,
                )
            return self._own_client

    # ---- a worker ----------------------------------------------------------------------------------------------------

    async def work(self, agents: Mapping[str, Agent[Any]], stop: asyncio.Event) -> None:
        if self._executor is not None:
            raise ConfigError("this process is already a worker", hint="start another process")
        for name, agent in agents.items():
            check_name("served agent", name)
            await agent.load_tools()
        self._executor = Executor(self._journal, agents)
        self._digests = digests = {name: digest_tools(agent) for name, agent in agents.items()}
        upkeep = Upkeep(self._client, self._journal, self._executor, self.worker, digests)
        heartbeat = Heartbeat(self._url, self.worker, digests, take_over=self._take_over, look=upkeep.look)
        try:
            await asyncio.to_thread(self._persist, self._client)
            # Before DBOS: it continues the runs of its name at once.
            await asyncio.to_thread(self._persist, heartbeat.start)
        except BaseException:
            self._executor = None
            raise
        try:
            await asyncio.to_thread(self._launch, digests)
            self._is_working = True
            await stop.wait()
            await self._executor.drain()
        finally:
            self._is_working = False
            await asyncio.to_thread(self._shut_down, heartbeat)
            self._executor = None

    def _launch(self, digests: Mapping[str, str]) -> None:
        from dbos import DBOS

        _workers.add(os.getpid())
        _hide_cancellations()
        config: Any = {
            "name": APPLICATION,
            "system_database_url": self._dbos_url,
            "executor_id": self.worker,
            "application_version": VERSION,
            "serializer": _serializer(),
            "sys_db_pool_size": _CONNECTIONS,
            "sys_db_idle_transaction_timeout_sec": IDLE_SECONDS,
            "run_admin_server": False,
            "enable_otlp": False,
            "log_level": "ERROR",
        }
        DBOS(config=config)

        @DBOS.workflow(name=WORKFLOW)
        async def run(text: str) -> str:
            return await self._run(text)

        queues = [queue_name(name, digest) for name, digest in digests.items()]
        limiter: Any = {"limit": self._rate.runs, "period": self._rate.seconds} if self._rate is not None else None
        DBOS.listen_queues(queues)
        try:
            DBOS.launch()
        except Exception as error:
            raise explain(_cause_of(error), self._place) from error
        for queue in queues:
            DBOS.register_queue(
                queue, worker_concurrency=self._concurrency, limiter=limiter, polling_interval_sec=_POLL_SECONDS
            )

    def _shut_down(self, heartbeat: Heartbeat) -> None:
        from dbos import DBOS

        if self._executor is not None:
            self._executor.abandon()
        DBOS.destroy(destroy_registry=True)
        _workers.discard(os.getpid())
        heartbeat.stop()
        # The runs that were not finished go on elsewhere. Without the database, the other workers notice it themselves.
        with contextlib.suppress(Exception):
            self._resume([self.worker])

    async def _run(self, text: str) -> str:
        """The workflow of one run. After a crash DBOS calls it again, and repeats the results of recorded steps.

        Every step has the same name and does the next command, whatever it is: the journal knows which one. So the
        steps of a repeated workflow always match those that were recorded.
        """
        from dbos import DBOS, error
        from sqlalchemy.exc import DBAPIError

        executor = self._executor
        assert executor is not None
        submission: Submission = decode(text.encode(), Submission)

        async def advance() -> dict[str, str]:
            return msgspec.to_builtins(await executor.advance(submission))  # type: ignore[no-any-return]

        # DBOS raises an error instead of recording a step if the run was cancelled, or belongs to another worker now.
        async with executor.attend(submission.run_id):
            try:
                while True:
                    try:
                        told = msgspec.convert(await DBOS.run_step_async({"name": "advance"}, advance), Progress)
                    except DBAPIError as refusal:
                        # Read-only, as after a failover, or a full disk. The command was executed, or is executed by
                        # the next step.
                        log.warning(
                            "run %s: a step is not recorded, and is tried again: %s",
                            submission.run_id,
                            str(refusal.orig).partition("\n")[0],
                        )
                        await asyncio.sleep(_REFUSED_SECONDS)
                        continue
                    if told.state != "goes_on":
                        return told.outcome
            except error.DBOSWorkflowCancelledError:
                await executor.end(submission.run_id)
                raise

    # ---- called by the heartbeat -------------------------------------------------------------------------------------

    def _take_over(self, dead: list[str]) -> Iterable[str]:
        self._resume(dead)
        return dead

    def _resume(self, workers: list[str]) -> None:
        """Queue the runs of these workers again. DBOS then refuses their steps, and our journal their records."""
        client = self._client()
        resume(
            client, client.list_workflows(status="PENDING", executor_id=workers, load_input=False, load_output=False)
        )

    async def close(self) -> None:
        self._closing.set()
        if self._own_client is not None:
            await asyncio.to_thread(self._own_client.destroy)
            self._own_client = None
        if self._lookup is not None:
            self._lookup.close()
        self._journal.close()
