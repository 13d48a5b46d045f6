"""The requests of a journal, as the pages and the API need them: listed, watched for changes, and answered once."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.approvals import (
    Approval,
    ApprovalRequest,
    RequestCache,
    find_answer,
    list_requests,
    list_requests_of,
)
from dragoman.agent.review import request_as_data, state_of, submit_answer
from dragoman.characters import escape_message
from dragoman.errors import DragomanError
from dragoman.journal.audit import AuditLog
from dragoman.journal.journal import Journal
from dragoman.secrets import HumanSink

log = logging.getLogger("dragoman.server")

_MOST_REMEMBERED = 4096
_MOST_WATCHERS = 128
_QUESTION_TOOL = "ask_user"

Choice = Literal["approve", "deny", "answer"]


class Outcome(Struct, frozen=True):
    """What became of an answer: the status of HTTP, what to say, and the request as it is now, if it is known."""

    status: int
    said: str
    data: dict[str, Any] | None = None


def is_question(data: dict[str, Any]) -> bool:
    """Whether a request is a question to a person, which needs an answer in words."""
    return bool(data["tool"] == _QUESTION_TOOL)


def make_approval(choice: Choice, reason: str, result: str) -> Approval:
    """Return the answer of a person."""
    if choice == "answer":
        return Approval(True, reason, result=result)
    return Approval(choice == "approve", reason)


class PendingRequests:
    """Lists and answers the requests of one journal."""

    def __init__(
        self,
        journal: Journal,
        audit: AuditLog,
        sink: HumanSink,
        *,
        seconds: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`seconds` is the time between two looks into the journal while somebody watches."""
        self._journal = journal
        self._audit = audit
        self._sink = sink
        self._seconds = seconds
        self.clock = clock
        self._cache: RequestCache = {}
        self._lock = asyncio.Lock()
        self._runs: dict[str, tuple[str, str]] = {}
        self._watchers: set[asyncio.Event] = set()
        self._watch: asyncio.Task[None] | None = None
        self._is_over = False

    # ---- what waits --------------------------------------------------------------------------------------------------

    async def list_open(self, *, with_changes: bool = False) -> list[dict[str, Any]]:
        """Return the requests without an answer, the oldest first, without secrets; `with_changes`, also the diffs."""
        now = self.clock()
        found = [each for each in await self._read() if each.answer is None]

        def describe() -> list[dict[str, Any]]:
            return [request_as_data(each, self._sink, now, with_change=with_changes) for each in found]

        return await asyncio.to_thread(describe)

    async def find(self, request_id: str) -> dict[str, Any] | None:
        """Return a request, also one with an unused answer; None if it does not wait any more."""
        found = next((each for each in await self._read() if each.id == request_id), None)
        return await self._describe(found) if found is not None else None

    async def _describe(self, request: ApprovalRequest) -> dict[str, Any]:
        return await asyncio.to_thread(request_as_data, request, self._sink, self.clock())

    async def _read(self) -> list[ApprovalRequest]:
        # One after the other, because they share the cache.
        async with self._lock:
            found = await list_requests(self._journal, shown=True, cache=self._cache)
        for each in found:
            self._runs.pop(each.id, None)
            self._runs[each.id] = each.run_id, each.call.id
        while len(self._runs) > _MOST_REMEMBERED:
            self._runs.pop(next(iter(self._runs)))
        return found

    # ---- answers -----------------------------------------------------------------------------------------------------

    async def answer(self, request_id: str, digest: str, approval: Approval, by: str) -> Outcome:
        """Answer a request whose digest the person has seen. The first answer counts, and only for this digest."""
        request = await self._find_unshown(request_id)
        if request is None:
            return await self.explain(request_id)
        shown = replace(request, digest=digest)
        done = await submit_answer(self._journal, self._audit, shown, approval, by)
        self._tell()
        if done.audit_error:
            log.error("the audit log has no record of %s: %s", request_id, done.audit_error)
        if done.refusal:
            found = await self.find(request_id)
            return Outcome(409, done.refusal, found) if found is not None else await self.explain(request_id)
        # Told by what was written, because the run may go on and use the answer at any moment.
        lost = "; the audit log has no record of it" if done.audit_error else ""
        return Outcome(200, f"{done.verdict} by {by}{lost}", await self._describe(done.request))

    async def _find_unshown(self, request_id: str) -> ApprovalRequest | None:
        """Return a request as the journal stores it. Whoever answers has usually seen it, so its run is known."""
        run_id, _ = self._runs.get(request_id, ("", ""))
        found = await (list_requests_of(self._journal, run_id) if run_id else list_requests(self._journal))
        return next((each for each in found if each.id == request_id), None)

    async def explain(self, request_id: str) -> Outcome:
        """Say what became of a request that does not wait any more."""
        run_id, call_id = self._runs.get(request_id, ("", ""))
        if not run_id:
            return Outcome(404, "there is no open request with this id; it may be settled")
        newer = next((each for each in await self._read() if (each.run_id, each.call.id) == (run_id, call_id)), None)
        if newer is not None:
            return Outcome(409, f"the call has changed since, and the run asks again: {newer.id}")
        try:
            given = await find_answer(self._journal, run_id, request_id)
        except DragomanError:
            given = None
        if given is None:
            return Outcome(409, "it is no longer open: the run continued without it")
        return Outcome(409, f"{given.by} has already {given.verdict} it, and the run has gone on")

    # ---- changes -----------------------------------------------------------------------------------------------------

    def watch(self) -> asyncio.Event | None:
        """Return an event that is set when something has changed; None if too many pages watch."""
        if len(self._watchers) >= _MOST_WATCHERS or self._is_over:
            return None
        event = asyncio.Event()
        self._watchers.add(event)
        if self._watch is None or self._watch.done():
            self._watch = asyncio.ensure_future(self._look())
        return event

    def leave(self, event: asyncio.Event) -> None:
        """End a watch. The journal is not read while nobody watches."""
        self._watchers.discard(event)
        if not self._watchers and self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def end(self) -> None:
        """End all watches."""
        self._is_over = True
        self._tell()

    @property
    def is_over(self) -> bool:
        return self._is_over

    def close(self) -> None:
        self._journal.close()

    def _tell(self) -> None:
        for event in self._watchers:
            event.set()

    async def _look(self) -> None:
        seen: object = None
        while not self._is_over:
            try:
                now = self.clock()
                found = [(each.id, each.digest, state_of(each, now)) for each in await self._read()]
            except Exception as error:
                # The database may be back in a moment; the pages show the error when they ask.
                log.warning("the journal cannot be read: %s", escape_message(str(error)))
            else:
                if seen is not None and found != seen:
                    self._tell()
                seen = found
            await asyncio.sleep(self._seconds)
