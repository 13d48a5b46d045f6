"""The driver: it does what the machine says, and tells it how that went.

Everything that waits, counts time, opens connections or runs the developer's code is here and in the modules beside
it. Decisions are the machine's.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.agent import commands as do
from dragoman.agent.approving import Approver, ask_approver
from dragoman.agent.compaction import TrimOldResults
from dragoman.agent.events import (
    ApprovalGiven,
    ApprovalNeeded,
    Noticed,
    RunEnded,
    RunEvent,
    ToolProgressed,
    ToolStarted,
)
from dragoman.agent.hooks import Deny, HookFailed, Hooks, Stop, change_call, change_reply, change_request
from dragoman.agent.inputs import (
    Approved,
    Cancelled,
    Compacted,
    Denied,
    Input,
    Replied,
    Reviewed,
    Steered,
    Stopped,
    ToolAnswered,
)
from dragoman.agent.machine import Machine
from dragoman.agent.outcomes import RunResult
from dragoman.agent.running import Cancelling, Ran, prepare, run_call
from dragoman.agent.surroundings import Surroundings
from dragoman.agent.turns import TOO_LATE, UNKNOWN_OUTCOME
from dragoman.client.events import NOTICES, ModelReplaced, RequestPrepared, RequestRetried
from dragoman.extraction import Extractor
from dragoman.speaking import Composed, open_reader
from dragoman.tools import ToolContext, to_result
from dragoman.types import Failure, Message, Reply, ToolCall, ToolResult
from dragoman.wire.report import Loss


class Driver:
    """Drives one machine to its end."""

    def __init__(self, machine: Machine, around: Surroundings, *, elapsed: float = 0.0) -> None:
        self.machine = machine
        self._around = around
        self._setup = machine.setup
        self._began = around.clock() - elapsed
        self._waiting: deque[do.Command] = deque()
        self._steering: deque[Message] = deque()
        self._started: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._partial: Extractor | None = None
        self._losses: set[Loss] = set()
        self._cancel_reason: str | None = None
        self._task: asyncio.Task[Any] | None = None
        self.abandoned = 0
        """Tools that did not stop when they were told to."""

    @property
    def approver(self) -> Approver | None:
        """Who approves calls in this run and in those below it."""
        return self._around.approver

    @property
    def hooks(self) -> Hooks:
        """What guards the calls of this run and of those below it."""
        return self._around.hooks

    @property
    def data(self) -> Any:
        """What the caller handed to the run for its tools."""
        return self._around.data

    def clock(self) -> float:
        """The clock that deadlines are written in."""
        return self._around.clock()

    # ---- from outside ------------------------------------------------------------------------------------------------

    def steer(self, message: Message) -> None:
        """Put in a word; the model hears it with the next request."""
        self._steering.append(message)

    def cancel(self, reason: str = "") -> None:
        """End the run where it is; its result says `cancelled`."""
        if self.machine.result is None and self._cancel_reason is None:
            self._cancel_reason = reason or "cancelled by the caller"
            if self._task is not None:
                self._task.cancel()

    async def run(self, commands: list[do.Command], *, started: Iterable[str] = ()) -> RunResult:
        """Do what the machine wants until it is done. `started` are calls that an earlier process had begun."""
        self._started = set(started)
        task = self._task = asyncio.current_task()
        was_cancelled = self._cancel_reason is not None
        try:
            if was_cancelled:
                await self._abort()
            else:
                await self._drive(commands)
                if self._cancel_reason is not None:
                    # It was over before it could be cancelled; that is not to hit whoever waits for the result.
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            await self._abort()
            if self._cancel_reason is None:
                raise
            # It was our own doing: the task goes on, and hands out a result.
            if task is not None:
                task.uncancel()
        finally:
            self._task = None
            await self._close()
        assert self.machine.result is not None
        return self.machine.result

    async def _drive(self, commands: Iterable[do.Command]) -> None:
        self._take(commands)
        while self._waiting:
            await self._perform(self._waiting.popleft())

    async def _abort(self) -> None:
        """Cancelled in the middle: stop what runs, answer what is open, and record the end."""
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()))
        partial = self._partial.reply.text if self._partial is not None else ""
        self._waiting.clear()
        await self._tell(Cancelled(self._cancel_reason or "cancelled", partial, at=self._now()))
        while self._waiting:
            command = self._waiting.popleft()
            if isinstance(command, do.Finish):
                await self._finish(command)

    async def _close(self) -> None:
        if self._around.ledger is not None:
            await self._around.ledger.close()

    # ---- the machine -------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return self._around.clock() - self._began

    def _left(self) -> float | None:
        """Seconds until the run has to be over."""
        deadline = self.machine.deadline
        return None if deadline is None else max(0.0, deadline - self._now())

    async def _tell(self, told: Input) -> None:
        """Record what happened, then tell it; what somebody put in meanwhile comes first."""
        while self._steering:
            await self._record_and_tell(Steered(self._steering.popleft(), at=self._now()))
        await self._record_and_tell(told)

    async def _record_and_tell(self, told: Input) -> None:
        ledger = self._around.ledger
        if ledger is not None and self.machine.result is None:
            await ledger.record(told)
        self._take(self.machine.receive(told))

    def _take(self, commands: Iterable[do.Command]) -> None:
        """Put commands in line. News is told at once, and a tool that has to stop is stopped at once."""
        for command in commands:
            if isinstance(command, do.Tell):
                self.emit(command.event)
            elif isinstance(command, do.CancelTools):
                self._cancel_tools(command)
            else:
                self._waiting.append(command)

    def emit(self, event: RunEvent) -> None:
        """Tell the listeners. One that fails is not asked again, and harms nobody else."""
        failed = []
        for listener in self._around.listeners:
            try:
                listener(self._setup.run_id, event)
            except Exception as problem:
                failed.append(listener)
                self.machine.account.note("listener_failed", f"{type(problem).__name__}: {problem}")
        if failed:
            self._around.listeners = tuple(each for each in self._around.listeners if each not in failed)

    async def _perform(self, command: do.Command) -> None:
        if isinstance(command, do.Ask):
            await self._tell(await self._ask(command))
        elif isinstance(command, do.RunTools):
            await self._run_tools(command)
        elif isinstance(command, do.Review):
            await self._tell(await self._review(command))
        elif isinstance(command, do.AskApproval):
            await self._tell(await self._ask_approval(command))
        elif isinstance(command, do.Compact):
            await self._tell(await self._compact(command))
        elif isinstance(command, do.Learn):
            if self._around.learn is not None:
                self._around.learn(command.endpoint, command.fact)
        elif isinstance(command, do.Finish):
            await self._finish(command)

    async def _finish(self, command: do.Finish) -> None:
        if self._around.ledger is not None:
            await self._around.ledger.end(command.result)
        self.emit(RunEnded(command.result))

    # ---- the model ---------------------------------------------------------------------------------------------------

    async def _ask(self, command: do.Ask) -> Input:
        hooks = self._around.hooks
        composed = command.composed
        if hooks.has("before_model"):
            try:
                given = await hooks.ask("before_model", composed.request, change=change_request, seconds=self._left())
            except HookFailed as failure:
                return self._hook_failed(failure)
            if isinstance(given, Stop):
                return Stopped(given.reason, at=self._now())
            composed = replace(composed, request=given)
        if self._around.ledger is not None:
            self._around.ledger.carry(command.delivers)
        told = await self._exchange(composed, command.deadline)
        if not hooks.has("after_model"):
            return told
        usage, model = told.reply.usage, told.model
        try:
            reply = await hooks.ask("after_model", told.reply, change=change_reply, seconds=self._left())
        except HookFailed as failure:
            return replace(self._hook_failed(failure), usage=usage, model=model)
        if isinstance(reply, Stop):
            return Stopped(reply.reason, at=self._now(), usage=usage, model=model)
        return told if reply is told.reply else self._reread(told, reply, composed)

    def _hook_failed(self, failure: HookFailed) -> Stopped:
        self._note("hook_failed", str(failure))
        return Stopped(str(failure), failed=True, at=self._now())

    def _note(self, kind: str, message: str) -> None:
        self.machine.account.note(kind, message)
        self.emit(Noticed(kind, message))

    async def _exchange(self, composed: Composed, deadline: float | None) -> Replied:
        """Send the request and read the reply, within the deadline."""
        reader = self._partial = open_reader(composed, self.machine.conversation)
        model = composed.manner.endpoint.model
        try:
            async with asyncio.timeout(None if deadline is None else max(0.0, deadline - self._now())):
                await self._listen(composed, reader, deadline)
        except TimeoutError:
            reply = replace(reader.reply, failure=Failure("timed_out", "the reply was not there in time"))
            self._partial = None
            return Replied(reply, at=self._now(), model=model)
        # If it was cancelled meanwhile, what there is of the reply is still looked at.
        self._partial = None
        for event in reader.close():
            self.emit(event)
        return Replied(reader.reply, reader.extraction, self._now(), model)

    async def _listen(self, composed: Composed, reader: Extractor, deadline: float | None) -> None:
        speaker = self._around.speaker(composed.manner.endpoint)
        until = None if deadline is None else self._began + deadline
        is_heard = bool(self._around.listeners)
        async for event in speaker.stream(composed.request, whole=not self._around.streaming, deadline=until):
            if isinstance(event, NOTICES):
                self._hear(event)
                continue
            shown = reader.feed(event)
            if is_heard:
                for each in shown:
                    self.emit(each)
                if self._around.room is not None:
                    await self._around.room()

    def _hear(self, event: RequestPrepared | RequestRetried | ModelReplaced) -> None:
        """News of the client's: a retry is told, and what a wire cannot carry is kept for the result."""
        if isinstance(event, RequestRetried):
            self.emit(event)
        elif isinstance(event, RequestPrepared):
            for loss in event.losses:
                if loss not in self._losses:
                    self._losses.add(loss)
                    self.machine.account.note("request_changed", str(loss))

    def _reread(self, told: Replied, reply: Reply, composed: Composed) -> Replied:
        """A hook changed the reply: what it holds now is judged like the model's own words."""
        from dragoman.replies import unfold

        reader = open_reader(composed, self.machine.conversation)
        for event in unfold(reply):
            reader.feed(event)
        reader.close()
        return Replied(reply, reader.extraction, told.at, told.model)

    # ---- calls -------------------------------------------------------------------------------------------------------

    async def _review(self, command: do.Review) -> Input:
        call = command.call
        try:
            given = await self._around.hooks.ask(
                "before_tool", call, command.tool, change=change_call, seconds=self._left()
            )
        except HookFailed as failure:
            self._note("hook_failed", str(failure))
            return Reviewed(call.id, "deny", reason=str(failure), at=self._now())
        if isinstance(given, Deny):
            return Reviewed(call.id, "deny", reason=given.reason, at=self._now())
        if isinstance(given, Stop):
            return Reviewed(call.id, "stop", reason=given.reason, at=self._now())
        changed = given.arguments if given is not call else None
        return Reviewed(call.id, arguments=changed, at=self._now())

    async def _ask_approval(self, command: do.AskApproval) -> Input:
        call = command.call
        self.emit(ApprovalNeeded(call, command.why))
        told = await ask_approver(self._around.approver, call, command.tool, command.why, self._left())
        told = replace(told, at=self._now())
        reason = told.reason if isinstance(told, Denied) else ""
        self.emit(ApprovalGiven(call, isinstance(told, Approved), reason, told.by))
        return told

    def _cancel_tools(self, command: do.CancelTools) -> None:
        for call_id in command.call_ids:
            task = self._running.get(call_id)
            if task is not None:
                task.cancel()

    async def _run_tools(self, command: do.RunTools) -> None:
        """Run the calls of a batch beside one another, so many at a time; each is told as soon as it is answered."""
        if len(command.batch) == 1:
            await self._run_one(command.batch[0], command.turn)
            return
        gate = asyncio.Semaphore(self._setup.limits.concurrency)
        tasks = {
            planned.call.id: asyncio.create_task(self._run_gated(planned, command.turn, gate))
            for planned in command.batch
        }
        self._running = dict(tasks)
        try:
            # A task that was cancelled because the run is over has nothing to say; one that failed has failed for all.
            for ended in await asyncio.gather(*tasks.values(), return_exceptions=True):
                if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
                    raise ended
        finally:
            self._running = {}

    async def _run_gated(self, planned: do.Planned, turn: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            await self._run_one(planned, turn)

    async def _run_one(self, planned: do.Planned, turn: int) -> None:
        """Convert, record the start, run, record the end."""
        call, tool = planned.call, planned.tool
        is_unknown = call.id in self._started and not (tool.repeatable or tool.read_only)
        seconds = planned.seconds
        if planned.deadline is not None:
            seconds = min(seconds, planned.deadline - self._now())
        if is_unknown or seconds <= 0:
            words = UNKNOWN_OUTCOME if is_unknown else TOO_LATE
            result = ToolResult(call.id, call.name, words, is_error=True)
            await self._tell(ToolAnswered(call.id, result, at=self._now(), ran=is_unknown))
            return
        cancelling = Cancelling()
        bound = prepare(tool, call, self._context(call, turn, cancelling, seconds))
        if isinstance(bound, Ran):
            ran, began = bound, self._now()
        else:
            if self._around.ledger is not None:
                await self._around.ledger.start(call, self._now())
            self.emit(ToolStarted(call, turn))
            began = self._now()
            ran = await run_call(bound, call, cancelling, seconds, max_output=self._around.max_output)
        if ran.abandoned:
            self.abandoned += 1
            self._note("tool_abandoned", f"{call.name} did not stop when its time was over, and may still be at work")
        await self._answer(call, ran, self._now() - began)

    async def _answer(self, call: ToolCall, ran: Ran, seconds: float) -> None:
        result, stop = await self._show_result(call, ran.answer.result)
        answer = ran.answer
        await self._tell(
            ToolAnswered(call.id, result, answer.ends, answer.reason, ran.is_mistake, seconds, at=self._now())
        )
        if stop is not None:
            await self._tell(stop)

    async def _show_result(self, call: ToolCall, result: ToolResult) -> tuple[ToolResult, Stopped | None]:
        """The result as it is after the hooks; one that could not be shown to all of them is withheld."""
        hooks = self._around.hooks
        if not hooks.has("after_tool"):
            return result, None

        def change(before: ToolResult, given: Any) -> ToolResult:
            return given if isinstance(given, ToolResult) else to_result(given, call)

        try:
            shown = await hooks.ask("after_tool", result, call, change=change, seconds=self._left())
        except HookFailed as failure:
            self._note("hook_failed", str(failure))
            words = "The tool ran, and its result was withheld because a hook failed."
            return ToolResult(call.id, call.name, words, is_error=True, data=result.data), None
        if isinstance(shown, Stop):
            return result, Stopped(shown.reason, at=self._now())
        return shown, None

    def _context(self, call: ToolCall, turn: int, cancelling: Cancelling, seconds: float) -> ToolContext:
        around = self._around
        loop = asyncio.get_running_loop()

        def progress(message: str, fraction: float | None = None) -> None:
            # Tools call this from threads; listeners are called on the loop alone.
            event = ToolProgressed(call.id, call.name, str(message), fraction)
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.emit, event)

        return ToolContext(
            run_id=self._setup.run_id,
            turn=turn,
            call_id=call.id,
            session=self._setup.session,
            workspace=around.workspace,
            deadline=around.clock() + seconds,
            mode=around.mode,
            data=around.data,
            cancelled=cancelling,
            progress=progress,
            scope=self,
        )

    async def _compact(self, command: do.Compact) -> Input:
        compactor = self._around.compactor or TrimOldResults()
        try:
            made = compactor(list(command.messages), command.room)
            if inspect.isawaitable(made):
                async with asyncio.timeout(self._left()):
                    made = await made
        except Exception as problem:  # The developer's code; trimming needs nobody's.
            self._note("compactor_failed", f"{type(problem).__name__}: {problem}")
            made = TrimOldResults()(list(command.messages), command.room)
        return Compacted(made.messages, made.losses, at=self._now())
