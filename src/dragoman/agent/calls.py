"""Runs the calls of a batch: checked once more, recorded, started, waited for, and told to the machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dragoman.agent.commands import Planned, RunTools
from dragoman.agent.events import ToolProgressed, ToolStarted
from dragoman.agent.hiding import LOST, hide_secrets, restore_secrets
from dragoman.agent.hooks import HookFailed, Stop
from dragoman.agent.inputs import Stopped, ToolAnswered
from dragoman.agent.inspecting import inspect_call
from dragoman.agent.running import Cancelling, Ran, prepare, run_call
from dragoman.agent.turns import TOO_LATE, UNKNOWN_OUTCOME
from dragoman.tools import BoundCall, Error, ToolContext, to_answer, to_result
from dragoman.types import Operand, Tool, ToolCall, ToolResult

if TYPE_CHECKING:
    from dragoman.agent.driver import Driver


class Calls:
    """The calls of one run that are under way."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._around = driver.around
        self._setup = driver.machine.setup
        self._running: dict[str, asyncio.Task[None]] = {}
        self.started: set[str] = set()
        """Calls that an earlier process had begun."""

    # ---- from outside ------------------------------------------------------------------------------------------------

    def cancel(self, call_ids: tuple[str, ...]) -> None:
        """Stop these calls."""
        for call_id in call_ids:
            task = self._running.get(call_id)
            if task is not None:
                task.cancel()

    async def cancel_all(self) -> None:
        """Stop every call, and wait until they have stopped."""
        for task in self._running.values():
            task.cancel()
        if self._running:
            await asyncio.wait(list(self._running.values()))

    async def run(self, command: RunTools) -> None:
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

    async def _run_gated(self, planned: Planned, turn: int, gate: asyncio.Semaphore) -> None:
        async with gate:
            await self._run_one(planned, turn)

    # ---- one call ----------------------------------------------------------------------------------------------------

    async def _run_one(self, planned: Planned, turn: int) -> None:
        """Convert, record the start, look once more at what was approved, run, record the end."""
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
        cancelling = Cancelling()
        bound = self._bind(planned, turn, cancelling, seconds)
        if isinstance(bound, Ran):
            await self._answer(call, bound, 0.0)
            return
        if not await self._start(planned, turn):
            return
        began = driver.now()
        ran = await run_call(bound, call, cancelling, seconds, max_output=self._around.max_output)
        if ran.abandoned:
            driver.abandoned += 1
            driver.note("tool_abandoned", f"{call.name} did not stop when its time was over, and may still be at work")
        await self._answer(call, ran, driver.now() - began)

    def _bind(self, planned: Planned, turn: int, cancelling: Cancelling, seconds: float) -> BoundCall | Ran:
        call, tool, sink = planned.call, planned.tool, self._around.model_sink
        exact = call
        if sink is not None and tool.metadata.get("restores") is True:
            arguments, lost = restore_secrets(call.arguments, sink)
            if lost:
                return Ran(to_answer(Error(LOST.format(name=lost)), call), is_mistake=True)
            exact = replace(call, arguments=arguments)
        context = self._context(call, turn, cancelling, seconds, planned.operands)
        return prepare(tool, exact, context)

    async def _start(self, planned: Planned, turn: int) -> bool:
        """Record that a call runs now; False where what was approved is no longer what would run."""
        driver, call = self._driver, planned.call
        desk = driver.desk
        stale = desk.check(planned)
        if stale is None:
            if self._around.ledger is not None:
                request = planned.bond.request if planned.bond is not None else ""
                await self._around.ledger.start(call, driver.now(), request)
            # Between this and the start nothing is waited for.
            stale = desk.check(planned, uses=True)
        if stale is not None:
            driver.note("approval_stale", f"{call.name}: {stale.reason}")
            await driver.tell(replace(stale, at=driver.now()))
            return False
        driver.emit(ToolStarted(call, turn))
        return True

    async def _answer(self, call: ToolCall, ran: Ran, seconds: float) -> None:
        driver = self._driver
        result, stop = await self._show_result(call, ran.answer.result)
        if self._around.model_sink is not None:
            result = hide_secrets(result, self._around.model_sink)
        answer = ran.answer
        await driver.tell(
            ToolAnswered(call.id, result, answer.ends, answer.reason, ran.is_mistake, seconds, at=driver.now())
        )
        if stop is not None:
            await driver.tell(stop)

    async def _show_result(self, call: ToolCall, result: ToolResult) -> tuple[ToolResult, Stopped | None]:
        """The result as it is after the hooks; one that could not be shown to all of them is withheld."""
        driver, hooks = self._driver, self._around.hooks
        if not hooks.has("after_tool"):
            return result, None

        def change(before: ToolResult, given: Any) -> ToolResult:
            return given if isinstance(given, ToolResult) else to_result(given, call)

        try:
            shown = await hooks.ask("after_tool", result, call, change=change, seconds=driver.left())
        except HookFailed as failure:
            driver.note("hook_failed", str(failure))
            words = "The tool ran, and its result was withheld because a hook failed."
            return ToolResult(call.id, call.name, words, is_error=True, data=result.data), None
        if isinstance(shown, Stop):
            return result, Stopped(shown.reason, at=driver.now())
        return shown, None

    # ---- what a tool may know ----------------------------------------------------------------------------------------

    def inspect(self, call: ToolCall, tool: Tool) -> tuple[tuple[Operand, ...], str]:
        """What a call is about right now, and why that could not be found out."""
        if tool.inspect is None:
            return (), ""
        return inspect_call(call, tool, self._still(call))

    def _still(self, call: ToolCall) -> ToolContext:
        around, setup = self._around, self._setup
        return ToolContext(
            run_id=setup.run_id,
            call_id=call.id,
            session=setup.session,
            workspace=around.workspace,
            mode=setup.rules.mode,
            data=around.data,
            sandbox=around.sandbox,
            scope=self._driver,
        )

    def _context(
        self, call: ToolCall, turn: int, cancelling: Cancelling, seconds: float, operands: tuple[Operand, ...]
    ) -> ToolContext:
        around, driver = self._around, self._driver
        loop = asyncio.get_running_loop()

        def progress(message: str, fraction: float | None = None) -> None:
            # Tools call this from threads; listeners are called on the loop alone.
            event = ToolProgressed(call.id, call.name, str(message), fraction)
            if not loop.is_closed():
                loop.call_soon_threadsafe(driver.emit, event)

        return replace(
            self._still(call),
            turn=turn,
            deadline=around.clock() + seconds,
            cancelled=cancelling,
            progress=progress,
            operands=operands,
            ask=around.ask_user,
        )
