"""Execution of the calls of a batch: inspect, record, start, wait, return the result."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import os
import queue
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.events import ToolProgressed, ToolStarted
from dragoman.agent.hooks import HookFailed, Stop
from dragoman.agent.protocol import Planned, RunTools, ToolAnswered
from dragoman.agent.redaction import LOST, hide_secrets, restore_secrets
from dragoman.agent.turn import TOO_LATE, UNKNOWN_OUTCOME
from dragoman.errors import InvalidArguments, ModelMistake, ToolError
from dragoman.logs import get_log, write_traceback
from dragoman.own_code import is_shielded, shield_imports
from dragoman.policy import Decision
from dragoman.tools import Answer, BoundCall, Error, ToolContext, answer_sync, bind, run_async, to_answer
from dragoman.tools.results import Halt, Retry, replace_result
from dragoman.types import JsonObject, Operand, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from dragoman.agent.driver import Driver

_log = get_log("tools")

# --------------------------------------------------------------------------------------------------------------------
# Threads for blocking tools. They are daemon threads: a tool that never returns does not block the exit of the program.

_IDLE_SECONDS = 10.0


class ToolThreads:
    """A pool of threads. An idle thread stays for a while; a new one starts if none is idle."""

    def __init__(self) -> None:
        self._idle: list[_ToolThread] = []
        self._lock = threading.Lock()

    def submit(self, work: Callable[[], Any], ended: asyncio.Future[None] | None = None) -> asyncio.Future[Any]:
        """Run a function in a thread, in the context of the caller. The future belongs to the running event loop.

        `ended` is set together with it.
        """
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        future: asyncio.Future[Any] = loop.create_future()

        def settle(value: Any, problem: BaseException | None) -> None:
            if future.done():
                return  # abandoned meanwhile
            if problem is None:
                future.set_result(value)
            else:
                future.set_exception(_make_settable(problem))
            if ended is not None:
                _set(ended)

        def job() -> Callable[[], object]:
            value: Any = None
            problem: BaseException | None = None
            try:
                value = context.run(work)
            except BaseException as raised:  # Nothing may end a thread that all tools share.
                problem = raised
            return lambda: loop.call_soon_threadsafe(settle, value, problem)

        with self._lock:
            thread = self._idle.pop() if self._idle else None
        if thread is None:
            thread = _ToolThread(self)
            thread.start()
        thread.jobs.put(job)
        return future

    def forget(self) -> None:
        """Forget the threads of the parent process after a fork: they do not exist in this one.

        Another thread may have held the lock at that moment.
        """
        self._idle, self._lock = [], threading.Lock()

    def add_idle(self, thread: _ToolThread) -> None:
        """Register an idle thread for the next job."""
        with self._lock:
            self._idle.append(thread)

    def remove_idle(self, thread: _ToolThread) -> bool:
        """Remove an idle thread, which may end then. False: it has just received a job."""
        with self._lock:
            if thread in self._idle:
                self._idle.remove(thread)
                return True
            return False


def _make_settable(problem: BaseException) -> BaseException:
    """Return an exception that a future accepts: it refuses StopIteration, and an exit would end the loop."""
    if isinstance(problem, Exception) and not isinstance(problem, StopIteration):
        return problem
    return RuntimeError(f"{type(problem).__name__}: {problem}")


class _ToolThread(threading.Thread):
    def __init__(self, pool: ToolThreads) -> None:
        super().__init__(name="dragoman-tool", daemon=True)
        self.jobs: queue.SimpleQueue[Callable[[], Callable[[], object]]] = queue.SimpleQueue()
        """Each job returns the function that delivers its result."""
        self._pool = pool

    def run(self) -> None:
        while True:
            try:
                job = self.jobs.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                if self._pool.remove_idle(self):
                    return
                continue
            deliver = job()
            # The thread is idle before the caller sees the result, so that the next call can reuse it.
            self._pool.add_idle(self)
            with suppress(RuntimeError):  # the loop is closed, and nothing waits for the result
                deliver()
            # While it waits, the thread must not keep the result alive.
            del job, deliver


shared = ToolThreads()
"""The threads of the process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=shared.forget)


# --------------------------------------------------------------------------------------------------------------------
# One call within its limits: convert the arguments, start, wait, and return a result whatever happens.

_MOST_OPERANDS = 1000
"""A person cannot check more operands of one call."""
_GRACE = 1.0
"""Seconds that a cancelled tool has for its cleanup."""
_TIMED_OUT = "The tool did not answer within {seconds:g} seconds and was stopped."
_NO_THREAD = "Not run: the tool could not be started ({why})."


class CallOutcome(Struct, frozen=True):
    """The outcome of one call."""

    answer: Answer
    is_mistake: bool = False
    abandoned: bool = False
    """The tool did not stop after its cancellation and may still be running."""


async def run_call(
    bound: BoundCall, call: ToolCall, cancelling: threading.Event, seconds: float, *, max_output: int | None = None
) -> CallOutcome:
    """Run a bound call within its time limit. If this coroutine is cancelled, it cancels the tool and waits for it."""
    loop = asyncio.get_running_loop()
    # The work sets it: the callback that `asyncio.wait` adds would run one iteration of the event loop later.
    ended: asyncio.Future[None] = loop.create_future()
    try:
        work = _start(bound, call, ended, max_output)
    except RuntimeError as problem:  # The system allows no further thread.
        return CallOutcome(to_answer(Error(_NO_THREAD.format(why=problem)), call, bound.tool))
    timer = loop.call_later(max(0.0, seconds), _set, ended)
    try:
        await ended
        if work.done():
            return CallOutcome(_take(work, call, bound.tool))
        abandoned = await _stop(work, cancelling)
    except asyncio.CancelledError:
        await _stop(work, cancelling)
        raise
    finally:
        timer.cancel()
    if work.done() and not work.cancelled() and work.exception() is None:
        # The tool finished at the last moment; keep its result.
        return CallOutcome(_take(work, call, bound.tool))
    words = _TIMED_OUT.format(seconds=round(seconds, 1))
    if not (bound.tool.repeatable or bound.tool.read_only):
        words = f"{words} {UNKNOWN_OUTCOME}"
    return CallOutcome(to_answer(Error(words), call, bound.tool), abandoned=abandoned)


def _set(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def _start(
    bound: BoundCall, call: ToolCall, ended: asyncio.Future[None], max_output: int | None
) -> asyncio.Future[Answer]:
    if bound.is_async:
        work = asyncio.ensure_future(_answer(bound, call, ended, max_output))
        work.add_done_callback(lambda _: _set(ended))  # a task that is cancelled before it begins does not run at all
        return work
    return shared.submit(lambda: answer_sync(bound, call, wait=asyncio.run, max_output=max_output), ended)


async def _answer(bound: BoundCall, call: ToolCall, ended: asyncio.Future[None], max_output: int | None) -> Answer:
    value: Any
    try:
        value = await run_async(bound)
    except asyncio.CancelledError:
        raise
    except BaseException as problem:  # An exit or an interrupt that a tool raises ends the tool, not the program.
        value = problem
    answer = to_answer(value, call, bound.tool, max_output=max_output)
    _set(ended)
    return answer


def _take(work: asyncio.Future[Answer], call: ToolCall, tool: Tool) -> Answer:
    if work.cancelled():
        return to_answer(Error("the tool cancelled itself"), call, tool)
    problem = work.exception()
    return work.result() if problem is None else to_answer(problem, call, tool)


async def _stop(work: asyncio.Future[Answer], cancelling: threading.Event) -> bool:
    """Cancel the work and wait for a moment. Return whether the tool had to be abandoned."""
    cancelling.set()
    work.cancel()
    if isinstance(work, asyncio.Task):
        await asyncio.wait((work,), timeout=_GRACE)
        return not work.done()
    return True


# --------------------------------------------------------------------------------------------------------------------
# The calls of a batch: check again, record, start, wait, and send the result to the machine.


class Calls:
    """The running calls of one run."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._services = driver.services
        self._config = driver.machine.config
        self._running: dict[str, asyncio.Task[None]] = {}
        self.started: set[str] = set()
        """Calls that an earlier process had started."""
        self._launched: set[str] = set()
        """Calls of this process whose start was recorded, or is being recorded."""

    # ---- the interface of the driver ---------------------------------------------------------------------------------

    def cancel(self, call_ids: tuple[str, ...]) -> None:
        """Cancel these calls."""
        for call_id in call_ids:
            task = self._running.get(call_id)
            if task is not None:
                task.cancel()

    async def cancel_all(self) -> None:
        """Cancel every call, and wait until all have stopped."""
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    def find_unstarted(self, call_ids: Iterable[str]) -> tuple[str, ...]:
        """Return those of the calls that no process has started."""
        return tuple(each for each in call_ids if each not in self.started and each not in self._launched)

    async def run(self, command: RunTools) -> None:
        """Run the calls of a batch concurrently, up to the limit. The machine receives each result at once."""
        if not is_shielded(self._services.workspace):
            # Not earlier: if dragoman is in the workspace, this takes a second, and a run may never call a tool.
            await asyncio.to_thread(shield_imports, self._services.workspace)
        if len(command.batch) == 1:
            await self._run_one(command.batch[0], command.turn)
            return
        semaphore = asyncio.Semaphore(self._config.limits.concurrency)

        async def run_within_limit(planned: Planned) -> None:
            async with semaphore:
                await self._run_one(planned, command.turn)

        tasks = {planned.call.id: asyncio.create_task(run_within_limit(planned)) for planned in command.batch}
        self._running = dict(tasks)
        try:
            # A task that was cancelled with the run has no result. An exception in one task fails the whole batch.
            for ended in await asyncio.gather(*tasks.values(), return_exceptions=True):
                if isinstance(ended, BaseException) and not isinstance(ended, asyncio.CancelledError):
                    raise ended
        finally:
            self._running = {}

    # ---- one call ----------------------------------------------------------------------------------------------------

    async def _run_one(self, planned: Planned, turn: int) -> None:
        """Convert the arguments, record the start, check the approval again, run the call, record the end."""
        driver, call, tool = self._driver, planned.call, planned.tool
        is_unknown = call.id in self.started and not (tool.repeatable or tool.read_only)
        seconds = planned.seconds
        if planned.deadline is not None:
            seconds = min(seconds, planned.deadline - driver.now())
        if is_unknown or seconds <= 0:
            words = UNKNOWN_OUTCOME if is_unknown else TOO_LATE
            result = ToolResult(call.id, call.name, words, is_error=True)
            await driver.tell(ToolAnswered(call.id, result, at=driver.now(), ran=is_unknown))
            return
        cancelling = threading.Event()
        bound = self._bind(planned, turn, cancelling, seconds)
        if isinstance(bound, CallOutcome):
            # Without a start, nothing has stored the reply yet, and a hook may follow.
            await driver.flush()
            await self._answer(call, tool, bound, 0.0)
            return
        if not await self._start(planned, turn):
            return
        began = driver.now()
        ran = await run_call(bound, call, cancelling, seconds, max_output=self._services.max_output)
        if ran.abandoned:
            driver.note("tool_abandoned", f"{call.name} did not stop after its timeout and may still be running")
        await self._answer(call, tool, ran, driver.now() - began)

    def _bind(
        self, planned: Planned, turn: int, cancelling: threading.Event, seconds: float
    ) -> BoundCall | CallOutcome:
        """Bind the call to the types of its function, or return the outcome that says why that is impossible."""
        call, tool, sink = planned.call, planned.tool, self._services.model_sink
        exact = call
        if sink is not None and tool.metadata.get("restores") is True:
            arguments, lost = restore_secrets(call.arguments, sink)
            if lost:
                return CallOutcome(to_answer(Error(LOST.format(name=lost)), call), is_mistake=True)
            exact = replace(call, arguments=arguments)
        try:
            return bind(tool, exact.arguments, self._context(planned, turn, cancelling, seconds))
        except InvalidArguments as mistake:
            return CallOutcome(to_answer(mistake, exact, tool), is_mistake=True)
        except Exception as problem:  # A class of the developer may raise anything for its members.
            return CallOutcome(to_answer(problem, exact, tool))

    async def _start(self, planned: Planned, turn: int) -> bool:
        """Record that a call starts. Return False if the approved call is no longer the call that would run."""
        driver, call = self._driver, planned.call
        broker = driver.broker
        stale = broker.check(planned)
        if stale is None:
            self._launched.add(call.id)
            if self._services.run_journal is not None:
                request = planned.approved.request if planned.approved is not None else ""
                await self._services.run_journal.start(call, driver.now(), request)
            # There is no await between this check and the start.
            stale = broker.check(planned, uses=True)
        if stale is not None:
            self._launched.discard(call.id)
            driver.note("approval_stale", f"{call.name}: {stale.reason}")
            await driver.tell(replace(stale, at=driver.now()))
            return False
        driver.emit(ToolStarted(call, turn))
        return True

    async def _answer(self, call: ToolCall, tool: Tool, ran: CallOutcome, seconds: float) -> None:
        driver = self._driver
        result, stop = await self._show_result(call, tool, ran.answer.result)
        if self._services.model_sink is not None:
            result = hide_secrets(result, self._services.model_sink)
        answer = ran.answer
        told = ToolAnswered(call.id, result, answer.ends, answer.reason, ran.is_mistake, seconds, driver.now())
        if stop is not None and answer.ends is None:
            # With the result, and not after it: the machine would already have asked the model again.
            told = replace(told, ends="stopped", reason=stop.reason)
        if answer.problem is not None:
            error, retries = self._report(call, answer.problem), isinstance(answer.problem, Retry)
            told = replace(told, error=error, retries=retries)
        await driver.tell(told)

    def _report(self, call: ToolCall, problem: BaseException) -> str:
        """Log and list an exception that is no answer to the model. Return its redacted traceback."""
        if isinstance(problem, ToolError | ModelMistake | Halt):
            return ""
        shown = self._services.human_sink.text(write_traceback(problem))
        _log.error("the tool %s raised an exception (call %s)\n%s", call.name, call.id, shown)
        self._driver.add_problem("tool_raised", f"{call.name} raised an exception\n{shown}")
        return shown

    async def _show_result(self, call: ToolCall, tool: Tool, result: ToolResult) -> tuple[ToolResult, Stop | None]:
        """Return the result after all hooks. A result that one of them could not see is withheld."""
        driver, hooks = self._driver, self._services.hooks
        if not hooks.has("after_tool"):
            return result, None

        def change(before: ToolResult, given: Any) -> ToolResult:
            return replace_result(given, call, tool, max_output=self._services.max_output)

        try:
            shown = await hooks.ask("after_tool", result, call, change=change, seconds=driver.left())
        except HookFailed as failure:
            driver.note_hook(failure)
            words = "The tool ran, and its result was withheld because a hook failed."
            return ToolResult(call.id, call.name, words, is_error=True, data=result.data), None
        if isinstance(shown, Stop):
            return result, shown
        return shown, None

    # ---- the context of a tool ---------------------------------------------------------------------------------------

    def inspect(self, call: ToolCall, tool: Tool) -> tuple[tuple[Operand, ...], str]:
        """Return the operands of a call according to its tool, and why they are unknown if they are.

        The driver calls this before the decision and again right before the call runs.
        """
        if tool.inspect is None:
            return (), ""
        try:
            # `inspect` gets a copy, since its changes must not reach the call. Its result may be endless, so it is cut.
            told = tool.inspect(copy.deepcopy(call.arguments), self._make_context(call))
            found = tuple(islice(told, _MOST_OPERANDS + 1))
        except Exception as problem:  # The tool's own code. A call without known operands needs an approval.
            self._driver.report_bug(f"`inspect` of the tool {tool.name}", problem)
            return (), f"{type(problem).__name__}: {problem}"[:300]
        if not all(isinstance(each, Operand) for each in found):
            return (), "`inspect` of the tool returned values that are not operands"
        if len(found) > _MOST_OPERANDS:
            words = f"the call has more than {_MOST_OPERANDS} operands, too many to check"
            return found[:_MOST_OPERANDS], words
        return found, ""

    def _make_context(self, call: ToolCall) -> ToolContext:
        services, config = self._services, self._config
        return ToolContext(
            run_id=config.run_id,
            call_id=call.id,
            session=config.session,
            workspace=services.workspace,
            mode=config.rules.mode,
            data=services.data,
            sandbox=services.sandbox,
            scope=self._driver,
        )

    def _context(self, planned: Planned, turn: int, cancelling: threading.Event, seconds: float) -> ToolContext:
        services, driver, call = self._services, self._driver, planned.call
        loop = asyncio.get_running_loop()

        def progress(message: str, fraction: float | None = None) -> None:
            # Tools call this from threads; listeners are called only on the event loop.
            event = ToolProgressed(call.id, call.name, str(message), fraction)
            if not loop.is_closed():
                loop.call_soon_threadsafe(show, event)

        def show(event: ToolProgressed) -> None:
            # A thread that was abandoned may go on after the end of its call, and of the run.
            if call.id in driver.machine.running:
                driver.emit(event)

        def decide(arguments: JsonObject) -> Decision:
            other = replace(call, arguments=arguments)
            return driver.machine.permissions.decide(other, planned.tool, *self.inspect(other, planned.tool))

        return replace(
            self._make_context(call),
            turn=turn,
            deadline=services.clock() + seconds,
            cancelled=cancelling.is_set,
            progress=progress,
            operands=planned.operands,
            decide=decide,
            ask=services.ask_user,
        )
