"""The engine on Postgres: many workers on many machines, with DBOS for queues, steps and durable waits."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.agent.agent import Agent
from dragoman.agent.approvals import Approval, ApprovalRequest, answer_request
from dragoman.agent.handle import Task, read_task
from dragoman.agent.records import decode, encode
from dragoman.engine.engine import RunStatus, State
from dragoman.engine.execution import Executor, Progress, Submission, digest_tools
from dragoman.engine.workers import Heartbeat, connect, find_digests
from dragoman.errors import ConfigError, DragomanError
from dragoman.journal.journal import UnknownRun
from dragoman.journal.leases import new_run_id
from dragoman.journal.postgres import IDLE_SECONDS, PostgresJournal

if TYPE_CHECKING:
    import psycopg
    from dbos import DBOSClient

APPLICATION = "dragoman"
# One version for all workers: the tools of an agent are part of the name of its queue instead.
VERSION = "1"
WORKFLOW = "dragoman.run"
CONCURRENCY = 50
LEASE_SECONDS = 5.0
_ANSWERS = "answers"
_LOOK_AGAIN_SECONDS = 3600.0
"""How long a run waits for a message about an answer before it looks into the journal itself."""
_POLL_SECONDS = 0.2
_STATES: dict[str, State] = {
    "ENQUEUED": "queued",
    "DELAYED": "queued",
    "PENDING": "running",
    "SUCCESS": "ended",
    "ERROR": "failed",
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": "failed",
    "CANCELLED": "cancelled",
}


def queue_name(agent: str, digest: str) -> str:
    """Return the queue of an agent with certain tools."""
    return f"{agent}:{digest}"


def _serializer() -> Any:
    from dbos import Serializer

    class JsonSerializer(Serializer):
        """Stores plain JSON. The default of DBOS is pickle, which lets whoever can write the database run code."""

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


def _describe(value: Any) -> Any:
    if isinstance(value, BaseException):
        return {"error_message": f"{type(value).__name__}: {value}"[:2000]}
    return str(value)


class PostgresEngine:
    """Executes runs on any number of workers that share a database. `submit` and the like work without a worker.

    DBOS queues the runs and records their steps, and our journal in the same database records what happened in each
    step. `worker` is the name of this process among the workers.
    """

    def __init__(
        self,
        url: str,
        *,
        worker: str | None = None,
        concurrency: int = CONCURRENCY,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self._url = url
        # DBOS knows only this spelling.
        self._dbos_url = url.replace("postgres://", "postgresql://", 1)
        self._journal = PostgresJournal(url, lease_seconds=lease_seconds)
        self.worker = worker or f"{socket.gethostname()}:{os.getpid()}:{os.urandom(4).hex()}"
        self._concurrency = concurrency
        self._own_client: DBOSClient | None = None
        self._lookup: psycopg.Connection[Any] | None = None
        self._lookup_lock = threading.Lock()
        self._executor: Executor | None = None
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
        submission = Submission(agent, run_id or new_run_id(), read_task(task), session)
        digest = await asyncio.to_thread(self._find_digest, agent)
        client = await self._client()
        options: Any = {
            "workflow_name": WORKFLOW,
            "queue_name": queue_name(agent, digest),
            "workflow_id": submission.run_id,
        }
        await client.enqueue_async(options, encode(submission).decode())
        return submission.run_id

    def _find_digest(self, agent: str) -> str:
        with self._lookup_lock:
            if self._lookup is None or self._lookup.closed:
                self._lookup = connect(self._url)
            found = find_digests(self._lookup, agent)
        if not found:
            raise ConfigError(
                f"no worker serves an agent named {agent!r}", hint="start one: dragoman worker --engine ADDRESS AGENT"
            )
        return found[0]

    async def status(self, run_id: str) -> RunStatus:
        client = await self._client()
        found = await client.list_workflows_async(workflow_ids=[run_id], load_input=False)
        if not found:
            raise UnknownRun(run_id)
        return await self._describe(found[0])

    async def _describe(self, workflow: Any) -> RunStatus:
        state = _STATES.get(workflow.status, "failed")
        agent = (workflow.queue_name or "").rpartition(":")[0]
        why = ""
        if state == "ended":
            why = str(workflow.output)
            state = "cancelled" if why == "cancelled" else state
        elif state == "failed":
            why = str(workflow.error)
        elif state == "running" and await self._is_waiting(workflow.workflow_id):
            state = "waiting"
        return RunStatus(workflow.workflow_id, agent, state, workflow.executor_id or "", why)

    async def _is_waiting(self, run_id: str) -> bool:
        """Whether the run waits for an answer: nobody holds it, and its last record is a request."""
        try:
            summary = await self._journal.run(run_id)
            if summary.holder or summary.ended:
                return False
            return (await self._journal.read(run_id))[-1].kind == "asked"
        except UnknownRun:
            return False

    async def wait(self, run_id: str) -> RunStatus:
        while True:
            status = await self.status(run_id)
            if status.is_over or status.state == "waiting":
                return status
            await asyncio.sleep(_POLL_SECONDS)

    async def answer(self, request_id: str, approval: Approval | bool) -> ApprovalRequest:
        given = approval if isinstance(approval, Approval) else Approval(approval)
        request = await answer_request(self._journal, request_id, given, now=time.time())
        client = await self._client()
        await client.send_async(request.run_id, request.id, _ANSWERS)
        return request

    async def cancel(self, run_id: str, reason: str = "") -> None:
        client = await self._client()
        await client.cancel_workflow_async(run_id)

    async def _client(self) -> DBOSClient:
        if self._own_client is None:
            self._own_client = await asyncio.to_thread(self._connect)
        return self._own_client

    def _connect(self) -> DBOSClient:
        from dbos import DBOS, DBOSClient

        DBOS.migrate(system_database_url=self._dbos_url)
        return DBOSClient(
            system_database_url=self._dbos_url,
            serializer=_serializer(),
            application_name=APPLICATION,
            sys_db_idle_transaction_timeout_sec=IDLE_SECONDS,
        )

    # ---- a worker ----------------------------------------------------------------------------------------------------

    async def work(self, agents: Mapping[str, Agent[Any]], stop: asyncio.Event) -> None:
        if self._executor is not None:
            raise ConfigError("this process is already a worker", hint="start another process")
        self._executor = Executor(self._journal, agents)
        digests = {name: digest_tools(agent) for name, agent in agents.items()}
        heartbeat = Heartbeat(self._url, self.worker, digests, take_over=self._take_over, look=self._look)
        await self._client()
        try:
            await asyncio.to_thread(self._launch, digests)
            await asyncio.to_thread(heartbeat.start)
            self._is_working = True
            await stop.wait()
        finally:
            self._is_working = False
            await asyncio.to_thread(self._shut_down, heartbeat)
            self._executor = None

    def _launch(self, digests: Mapping[str, str]) -> None:
        from dbos import DBOS

        config: Any = {
            "name": APPLICATION,
            "system_database_url": self._dbos_url,
            "executor_id": self.worker,
            "application_version": VERSION,
            "serializer": _serializer(),
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
        DBOS.listen_queues(queues)
        DBOS.launch()
        for queue in queues:
            DBOS.register_queue(queue, worker_concurrency=self._concurrency, polling_interval_sec=_POLL_SECONDS)

    def _shut_down(self, heartbeat: Heartbeat) -> None:
        from dbos import DBOS

        if self._executor is not None:
            self._executor.abandon()
        DBOS.destroy(destroy_registry=True)
        heartbeat.stop()
        # The runs that were not finished go on elsewhere.
        self._resume([self.worker])

    async def _run(self, text: str) -> str:
        """The workflow of one run. After a crash DBOS calls it again, and repeats the results of recorded steps.

        Every step has the same name and does the next command, whatever it is: the journal knows which one. So the
        steps of a repeated workflow always match those that were recorded.
        """
        from dbos import DBOS

        submission: Submission = decode(text.encode(), Submission)

        async def advance() -> dict[str, str]:
            assert self._executor is not None
            return msgspec.to_builtins(await self._executor.advance(submission))  # type: ignore[no-any-return]

        while True:
            told = msgspec.convert(await DBOS.run_step_async({"name": "advance"}, advance), Progress)
            if told.state == "ended":
                return told.outcome
            if told.state == "waiting":
                await DBOS.recv_async(_ANSWERS, timeout_seconds=_LOOK_AGAIN_SECONDS)

    # ---- called by the heartbeat -------------------------------------------------------------------------------------

    def _take_over(self, dead: list[str]) -> Iterable[str]:
        self._resume(dead)
        return dead

    def _resume(self, workers: list[str]) -> None:
        """Queue the runs of these workers again. DBOS then refuses their steps, and our journal their records."""
        client = self._own_client
        assert client is not None
        found = client.list_workflows(status="PENDING", executor_id=workers, load_input=False, load_output=False)
        by_queue: dict[str, list[str]] = {}
        for workflow in found:
            by_queue.setdefault(workflow.queue_name or "", []).append(workflow.workflow_id)
        for queue, run_ids in by_queue.items():
            client.resume_workflows(run_ids, queue_name=queue)

    def _look(self) -> None:
        """Cancel the live runs that were cancelled from elsewhere."""
        executor, client = self._executor, self._own_client
        if executor is None or client is None or not executor.live:
            return
        live = list(executor.live)
        for workflow in client.list_workflows(
            workflow_ids=live, status="CANCELLED", load_input=False, load_output=False
        ):
            executor.cancel(workflow.workflow_id, "cancelled from outside")

    async def close(self) -> None:
        if self._own_client is not None:
            await asyncio.to_thread(self._own_client.destroy)
            self._own_client = None
        if self._lookup is not None:
            self._lookup.close()
        self._journal.close()
