"""The driver executes the commands of the machine and feeds it the results."""

from __future__ import annotations

import asyncio
import copy
import inspect
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from logging import ERROR, INFO, WARNING
from typing import TYPE_CHECKING, Any, Protocol, cast

from msgspec import Struct, field
from msgspec.structs import replace

from dragoman.agent import protocol as do
from dragoman.agent.approvals import ApprovalRequest, Approver, Broker
from dragoman.agent.audit import Auditor
from dragoman.agent.calls import Calls
from dragoman.agent.context import Compactor, TrimOldResults, check_compaction
from dragoman.agent.events import ApprovalGiven, ApprovalNeeded, Noticed, RunEnded, RunEvent
from dragoman.agent.hooks import (
    Deny,
    HookFailed,
    Hooks,
    Stop,
    change_answer,
    change_call,
    change_reply,
    change_request,
)
from dragoman.agent.journal import RunJournal
from dragoman.agent.machine import Machine
from dragoman.agent.protocol import (
    AnswerChecked,
    Approved,
    Cancelled,
    ChildSpent,
    Compacted,
    Denied,
    Input,
    Postponed,
    ProblemNoted,
    Replied,
    Reviewed,
    Steered,
    Stopped,
)
from dragoman.agent.records import check_readable
from dragoman.agent.redaction import EventRedactor
from dragoman.agent.result import RunResult
from dragoman.agent.settings import Connection
from dragoman.client.client import Client
from dragoman.client.keys import pick_key
from dragoman.client.retry import NOTICES, ModelReplaced, RequestPrepared, RequestRetried
from dragoman.client.transport import Transport
from dragoman.errors import ConfigError, MissingKey
from dragoman.extraction import Extractor
from dragoman.extraction.tool_mode import ComposedRequest, open_reader, withhold
from dragoman.logs import get_log, write_traceback
from dragoman.providers import Endpoint, Fact
from dragoman.secrets import HumanSink, ModelSink
from dragoman.tools import Error, Ok, Retry, ToolContext, tool_from_function
from dragoman.types import Failure, Message, Reply, Request, Tool
from dragoman.wire.failures import Loss
from dragoman.wire.quirks import Quirks

if TYPE_CHECKING:
    from dragoman.agent.agent import Agent
    from dragoman.tools import Options

_log = get_log("agent")

# --------------------------------------------------------------------------------------------------------------------
# The clients of an agent: one for each endpoint.


class ClientPool:
    """Creates clients on demand and keeps them, so that connections are reused."""

    def __init__(
        self,
        connection: Connection,
        key: str | None,
        first: Endpoint,
        own: Sequence[tuple[Endpoint, Transport]] = (),
    ) -> None:
        """`own` are endpoints with a transport of their own."""
        self._connection = connection
        self._key = key
        self._first = first
        self._last: tuple[Endpoint | None, Client | None] = None, None
        self._own = {_name(endpoint): transport for endpoint, transport in own}
        if len(self._own) < len(own):
            hint = "give each model a name of its own, as in ScriptedModel(replies, name=...)"
            raise ConfigError("two models have the same endpoint", hint=hint)
        self._clients: dict[tuple[str, str, str, Quirks, str | None, int], Client] = {}

    def get(self, endpoint: Endpoint) -> Client:
        """Return the client of an endpoint."""
        # To hash the quirks of an endpoint costs more than the rest of this.
        last, client = self._last
        if endpoint is last and client is not None:
            return client
        client = self._find(endpoint)
        self._last = endpoint, client
        return client

    def _find(self, endpoint: Endpoint) -> Client:
        own = self._own.get(_name(endpoint)) if self._own else None
        key = self._find_key(endpoint)
        where = (endpoint.provider.name, endpoint.base_url, endpoint.wire, endpoint.quirks, key, id(own))
        client = self._clients.get(where)
        if client is None:
            given = self._connection
            client = Client(
                endpoint,
                transport=own or given.transport,
                key=key,
                keys=given.keys,
                timeouts=given.timeouts,
                retries=given.retries,
                limiter=given.limiter,
                environment=given.environment,
            )
            self._clients[where] = client
        return client

    def _find_key(self, endpoint: Endpoint) -> str | None:
        """An explicit key belongs to the first endpoint. Other endpoints have their own."""
        first = self._first
        is_first = (endpoint.provider.name, endpoint.base_url) == (first.provider.name, first.base_url)
        return (self._key if is_first else None) or pick_key(endpoint, self._connection.keys)

    def check(self, endpoint: Endpoint) -> None:
        """Raise the error that a request to this endpoint would raise before it is sent, such as a missing key."""
        try:
            self.get(endpoint).check()
        except MissingKey as missing:
            name = endpoint.provider.name
            variables = f"set {' or '.join(endpoint.key_names)}, or " if endpoint.key_names else ""
            raise MissingKey(
                f"the fallback {name}:{endpoint.model} cannot be used: {missing}",
                hint=f'{variables}pass connection=Connection(keys={{"{name}": ...}})',
                command_hint=f"{variables}name the place of the key under [keys] in your settings file",
            ) from None

    async def close(self) -> None:
        """Close every connection."""
        clients, self._clients, self._last = list(self._clients.values()), {}, (None, None)
        for client in clients:
            await client.close()


def _name(endpoint: Endpoint) -> tuple[str, str, str]:
    return endpoint.provider.name, endpoint.base_url, endpoint.model


# --------------------------------------------------------------------------------------------------------------------
# The services of a driver: clients, approver, listeners, journal, clock.

Listener = Callable[[str, RunEvent], object]
_USUAL = dict.fromkeys(("compacted", "tools_deferred", "rule_added", "arguments_changed", "result_replaced"), INFO)
"""The levels of notices that are no problem, in the log. All others are warnings."""


_NOTICES = frozenset(NOTICES)


class ModelClient(Protocol):
    """An object that can send a request: `dragoman.client.Client`, or your own implementation."""

    def stream_batches(
        self, request: Request, *, whole: bool = False, deadline: float | None = None
    ) -> AsyncGenerator[Sequence[Any]]: ...

    async def fetch(
        self, request: Request, *, deadline: float | None = None
    ) -> tuple[Sequence[Any], Sequence[Any]]: ...


class RunServices(Struct, kw_only=True):
    """The services of one run."""

    client_for: Callable[[Endpoint], ModelClient]
    hooks: Hooks = field(default_factory=Hooks)
    """The hooks of this run and of its child runs."""
    approver: Approver | None = None
    """The approver of this run and of its child runs."""
    compactor: Compactor | None = None
    run_journal: RunJournal | None = None
    learn: Callable[[Endpoint, Fact], None] | None = None
    listeners: Sequence[Listener] = ()
    tap: Callable[[RunEvent], None] | None = None
    """Receives every event before it is redacted, for the program that started the run."""
    streaming: bool = False
    data: Any = None
    """The value that the caller passed to the run for its tools."""
    workspace: str | None = None
    max_output: int | None = None
    approval_seconds: float | None = None
    """How long an approval is valid, and how long an approver may take; None means no limit."""
    defers: bool = False
    """Whether a request that nobody answers now may wait in the journal."""
    human_sink: HumanSink = field(default_factory=HumanSink)
    """Redacts what people and logs see."""
    model_sink: ModelSink | None = None
    """Redacts results for the model; None if the model may see secrets."""
    auditor: Auditor | None = None
    pending: Mapping[str, ApprovalRequest] = field(default_factory=dict)
    """The approval requests in the journal, by call, with their answers."""
    sandbox: Any = None
    ask_user: Callable[..., Any] | None = None
    budget: Callable[[], Awaitable[None]] | None = None
    """Awaited between two pieces of a reply: backpressure from a slow listener to the model."""
    clock: Callable[[], float] = time.monotonic
    """The clock of all deadlines."""
    wall: Callable[[], float] = time.time


# --------------------------------------------------------------------------------------------------------------------
# The driver executes the commands of the machine and sends the outcome of each back as an input.
#
# All code that waits, reads the clock, opens connections or calls the developer's code is here and in `calls`,
# `approvals` and `hooks`. The machine decides.


class Driver:
    """Drives one machine until the run ends."""

    def __init__(self, machine: Machine, services: RunServices, *, elapsed: float = 0.0) -> None:
        self.machine = machine
        self.services = self._services = services
        self._config = machine.config
        self._began = services.clock() - elapsed
        self._waiting: deque[do.Command] = deque()
        self._steering: deque[Message] = deque()
        self._calls = Calls(self)
        self.broker = Broker(
            services,
            self._config.run_id,
            self._config.session,
            inspect=self._calls.inspect,
            rules=lambda: machine.permissions.rules,
            report=self._report_approver,
        )
        self._redactor = EventRedactor(services.human_sink)
        self._partial: Extractor | None = None
        self._losses: set[Loss] = set()
        self._problems: deque[ProblemNoted] = deque()
        self._cancel_reason: str | None = None
        self._is_abandoned = False
        self._task: asyncio.Task[Any] | None = None

    # ---- the interface of the handle ---------------------------------------------------------------------------------

    def steer(self, message: Message) -> None:
        """Add a message to the conversation. The model receives it with the next request."""
        self._steering.append(message)

    def take_steering(self) -> list[Message]:
        """Return the messages that the machine has not received."""
        left, self._steering = list(self._steering), deque()
        return left

    def cancel(self, reason: str = "") -> None:
        """End the run now. The outcome of its result is `cancelled`."""
        if self.machine.result is None and self._cancel_reason is None:
            self._cancel_reason = reason or "cancelled by the caller"
            if self._task is not None:
                self._task.cancel()

    def abandon(self) -> None:
        """From now on, a cancelled task leaves the run as it is, without an end: another process continues it."""
        self._is_abandoned = True

    def close(self) -> None:
        """Drop what refers back to this driver. The run has ended."""
        del self._calls, self.broker

    async def run(self, commands: list[do.Command], *, started: Iterable[str] = ()) -> RunResult:
        """Execute commands until the run ends. `started` are the ids of calls that an earlier process had started."""
        self.prepare(commands, started)
        while await self.advance():
            pass
        assert self.machine.result is not None
        return self.machine.result

    def prepare(self, commands: Iterable[do.Command], started: Iterable[str] = ()) -> None:
        """Queue the first commands. `started` are the ids of calls that an earlier process had started."""
        self._calls.started = set(started)
        self._take(commands)

    async def advance(self) -> bool:
        """Execute the next command. False: the run has ended or waits for an answer, and its journal is released."""
        try:
            await self._advance()
        except BaseException:
            await self.release()
            raise
        if self._waiting:
            return True
        await self.release()
        return False

    async def _advance(self) -> None:
        task = self._task = asyncio.current_task()
        try:
            if self._cancel_reason is not None:
                await self._abort()
            elif self._waiting:
                await self._perform(self._waiting.popleft())
                if self._cancel_reason is not None:
                    # The command ended before the cancellation: let it arrive here, not in the code that waits for the
                    # result.
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._is_abandoned:
                await self._calls.cancel_all()
                raise
            await self._abort()
            if self._cancel_reason is None:
                raise
            # The driver itself cancelled the task, so the task continues and returns a result.
            if task is not None:
                task.uncancel()
        finally:
            self._task = None

    async def release(self) -> None:
        """Release the run in the journal, so that another process can continue it."""
        if self._services.run_journal is not None:
            await self._services.run_journal.close()

    async def _abort(self) -> None:
        """Cancel the running calls, give every open call a result, and record the end."""
        await self._calls.cancel_all()
        partial = self._partial.reply.text if self._partial is not None else ""
        self._waiting.clear()
        unstarted = self._calls.find_unstarted(self.machine.running)
        await self.tell(Cancelled(self._cancel_reason or "cancelled", partial, self.now(), unstarted))
        while self._waiting:
            command = self._waiting.popleft()
            if isinstance(command, do.Finish):
                await self._finish(command)

    # ---- the machine -------------------------------------------------------------------------------------------------

    def now(self) -> float:
        """Seconds since the run began, including those in an earlier process."""
        return self._services.clock() - self._began

    def left(self) -> float | None:
        """Seconds until the deadline of the run."""
        deadline = self.machine.deadline
        return None if deadline is None else max(0.0, deadline - self.now())

    async def tell(self, told: Input) -> None:
        """Record an input, then send it to the machine. Pending messages of the user come first."""
        while self._steering:
            await self._record_and_tell(Steered(self._steering.popleft(), at=self.now()))
        await self._record_and_tell(told)

    async def _record_and_tell(self, told: Input) -> None:
        while self._problems:
            # Problems come before the input: after the last input, the machine composes the result, which lists them.
            await self._record(self._problems.popleft())
        spent = self.machine.spending.take_children()
        if spent is not None:
            await self._record(ChildSpent(*spent, at=self.now()))
        await self._record(told)

    async def _record(self, told: Input) -> None:
        run_journal = self._services.run_journal
        if run_journal is not None and self.machine.result is None and not isinstance(told, Postponed):
            await run_journal.record(told)
        was_over = self.machine.result is not None
        commands = self.machine.receive(told)
        if self.machine.result is not None and not was_over:
            # The run is over: nobody has to be asked any more. What was learned is still stored.
            self._waiting = deque(each for each in self._waiting if isinstance(each, do.RememberFact))
        self._take(commands)

    def _take(self, commands: Iterable[do.Command]) -> None:
        """Queue commands. Emit events and cancel tools immediately."""
        for command in commands:
            if type(command) is do.Emit:
                self.emit(command.event)
            elif type(command) is do.CancelTools:
                self._calls.cancel(command.call_ids)
            else:
                self._waiting.append(command)

    def emit(self, event: RunEvent) -> None:
        """Send a redacted event to the listeners. A listener that raises is removed; the others still get the event."""
        if self._services.auditor is not None:
            self._services.auditor.note(self._config.run_id, event)
        if self._services.tap is not None:
            self._services.tap(event)
        if type(event) is Noticed:
            self._write_log(_USUAL.get(event.kind, WARNING), f"{event.kind}: {event.message}")
        if not self._services.listeners:
            return
        failed: list[Any] = []
        for shown in self._redactor.show(event):
            for listener in self._services.listeners:
                try:
                    if listener not in failed:
                        listener(self._config.run_id, shown)
                except Exception as problem:
                    failed.append(listener)
                    self.report_bug("a listener", problem)
                    self.add_problem("listener_failed", f"{type(problem).__name__}: {problem}")
        if failed:
            self._services.listeners = [each for each in self._services.listeners if each not in failed]

    async def flush(self) -> None:
        """Store what the journal of the run holds back."""
        if self._services.run_journal is not None:
            await self._services.run_journal.flush()

    async def _perform(self, command: do.Command) -> None:
        if not _begins_with_record(command):
            await self.flush()
        if isinstance(command, do.Ask):
            await self.tell(await self._ask(command))
        elif isinstance(command, do.RunTools):
            await self._calls.run(command)
        elif isinstance(command, do.Review):
            await self.tell(await self._review(command))
        elif isinstance(command, do.AskApproval):
            await self.tell(await self._ask_approval(command))
        elif isinstance(command, do.Compact):
            await self.tell(await self._compact(command))
        elif isinstance(command, do.CheckAnswer):
            await self.tell(await self._check_answer(command))
        elif isinstance(command, do.RememberFact):
            if self._services.learn is not None:
                self._services.learn(command.endpoint, command.fact)
        elif isinstance(command, do.Finish):
            await self._finish(command)
        elif isinstance(command, do.Defer):
            self.emit(RunEnded(command.result))

    async def _finish(self, command: do.Finish) -> None:
        try:
            if self._services.run_journal is not None:
                await self._services.run_journal.end(command.result)
        except asyncio.CancelledError:
            # The run has ended all the same, and the listeners have to know: the journal writes what it was given.
            self._report_end(command.result)
            raise
        self._report_end(command.result)

    def _report_end(self, result: RunResult) -> None:
        outcome = result.outcome
        level = INFO if outcome.is_success else WARNING
        if _log.isEnabledFor(level):
            self._write_log(level, f"ended after {result.turns} turns: {outcome.kind} {outcome.reason}".rstrip())
        self.emit(RunEnded(result))

    # ---- the model ---------------------------------------------------------------------------------------------------

    async def _ask(self, command: do.Ask) -> Input:
        hooks = self._services.hooks
        composed = command.composed
        if hooks.has("before_model"):
            try:
                given = await hooks.ask("before_model", composed.request, change=change_request, seconds=self.left())
            except HookFailed as failure:
                return self._hook_failed(failure)
            if isinstance(given, Stop):
                return Stopped(given.reason, at=self.now())
            composed = _follow(composed, given)
        if self._services.run_journal is not None:
            self._services.run_journal.carry(command.delivers)
        told = await self._exchange(composed, command.deadline)
        if not hooks.has("after_model"):
            return told
        usage, model = told.reply.usage, told.model
        try:
            reply = await hooks.ask("after_model", told.reply, change=change_reply, seconds=self.left())
        except HookFailed as failure:
            return replace(self._hook_failed(failure), usage=usage, model=model)
        if isinstance(reply, Stop):
            return Stopped(reply.reason, at=self.now(), usage=usage, model=model)
        return told if reply is told.reply else self._reread(told, reply, composed)

    def _hook_failed(self, failure: HookFailed) -> Stopped:
        self.note_hook(failure)
        return Stopped(str(failure), failed=True, at=self.now())

    def note_hook(self, failure: HookFailed) -> None:
        """Report a hook that failed."""
        if failure.__cause__ is not None:
            self.report_bug("a hook", failure.__cause__)
        self.note("hook_failed", str(failure))

    def note(self, kind: str, message: str) -> None:
        """Report a problem in an event and in the result."""
        self.add_problem(kind, message)
        self.emit(Noticed(kind, message))

    def add_problem(self, kind: str, message: str) -> None:
        """Report a problem in the result. The machine receives it as an input, so that a resumed run knows it too."""
        self._problems.append(ProblemNoted(kind, message, at=self.now()))

    def report_bug(self, what: str, problem: BaseException) -> None:
        """Log an exception in the developer's code, with its traceback. The caller decides how the run continues."""
        self._write_log(ERROR, f"{what} raised an exception\n{write_traceback(problem)}")

    def _report_approver(self, what: str, problem: BaseException) -> None:
        self.report_bug(what, problem)
        self.add_problem("approver_failed", f"{type(problem).__name__}: {problem}")

    def _write_log(self, level: int, words: str) -> None:
        if _log.isEnabledFor(level):
            _log.log(level, "%s: %s", self._config.run_id, self._services.human_sink.text(words))

    async def _exchange(self, composed: ComposedRequest, deadline: float | None) -> Replied:
        """Send the request and read the reply, within the deadline."""
        reader = self._partial = open_reader(composed, self.machine.conversation)
        model = composed.chosen_mode.endpoint.model
        try:
            if deadline is None:
                await self._listen(composed, reader, None)
            else:
                async with asyncio.timeout(max(0.0, deadline - self.now())):
                    await self._listen(composed, reader, deadline)
        except TimeoutError:
            reply = replace(reader.reply, failure=Failure("timed_out", "the reply did not arrive before the deadline"))
            self._partial = None
            return Replied(reply, at=self.now(), model=model)
        # From here on, a cancellation has no partial reply to report.
        self._partial = None
        for event in reader.close():
            self.emit(event)
        return Replied(reader.reply, reader.extraction, self.now(), model)

    async def _listen(self, composed: ComposedRequest, reader: Extractor, deadline: float | None) -> None:
        client_for = self._services.client_for(composed.chosen_mode.endpoint)
        until = None if deadline is None else self._began + deadline
        is_heard = bool(self._services.listeners)
        whole = not self._services.streaming
        if whole and not is_heard:
            # Nobody sees the events before the end, so they need not come one by one.
            notices, events = await client_for.fetch(composed.request, deadline=until)
            for notice in notices:
                self._handle_notice(notice)
            reader.feed_whole(events)
            return
        async with aclosing(client_for.stream_batches(composed.request, whole=whole, deadline=until)) as batches:
            async for batch in batches:
                for event in batch:
                    if type(event) in _NOTICES:
                        self._handle_notice(event)
                        continue
                    shown = reader.feed(event)
                    if is_heard:
                        for each in shown:
                            self.emit(each)
                        if self._services.budget is not None:
                            await self._services.budget()

    def _handle_notice(self, event: RequestPrepared | RequestRetried | ModelReplaced) -> None:
        """Handle a notice of the client: emit a retry, and note in the result what the wire cannot carry."""
        if isinstance(event, RequestRetried):
            self.emit(event)
        elif isinstance(event, RequestPrepared):
            for loss in event.losses:
                if loss not in self._losses:
                    self._losses.add(loss)
                    self.add_problem("request_changed", str(loss))

    def _reread(self, told: Replied, reply: Reply, composed: ComposedRequest) -> Replied:
        """A hook changed the reply: judge its content again, like a reply of the model."""
        from dragoman.replies import unfold

        reader = open_reader(composed, self.machine.conversation)
        for event in unfold(reply):
            reader.feed(event)
        reader.close()
        return replace(told, reply=reply, found=reader.extraction)

    # ---- calls -------------------------------------------------------------------------------------------------------

    async def _review(self, command: do.Review) -> Input:
        call = command.call
        before = copy.deepcopy(call.arguments) if self._services.hooks.has("before_tool") else call.arguments
        try:
            given = await self._services.hooks.ask(
                "before_tool", call, command.tool, change=change_call, seconds=self.left()
            )
        except HookFailed as failure:
            self.note_hook(failure)
            return Reviewed(call.id, "deny", reason=str(failure), at=self.now())
        if isinstance(given, Deny):
            return Reviewed(call.id, "deny", reason=given.reason, at=self.now())
        if isinstance(given, Stop):
            return Reviewed(call.id, "stop", reason=given.reason, at=self.now())
        # A hook may also have changed the arguments in place. That is checked and recorded like any other change.
        changed = given.arguments if given is not call or given.arguments != before else None
        operands, uninspected = self._calls.inspect(given, command.tool)
        return Reviewed(call.id, arguments=changed, at=self.now(), operands=operands, uninspected=uninspected)

    async def _ask_approval(self, command: do.AskApproval) -> Input:
        call = command.call

        def announce(request: ApprovalRequest) -> None:
            turn = self.machine.stats.turn
            self.emit(ApprovalNeeded(request.call, request.why, turn, request.id, request.digest))

        request, told, ignored = await self.broker.ask(command, self.left(), announce)
        if ignored:
            self.note("approval_ignored", f"the stored answer for {call.name} does not count: {ignored}")
        told = replace(told, at=self.now())
        if isinstance(told, Approved | Denied):
            reason = told.reason if isinstance(told, Denied) else ""
            approved = isinstance(told, Approved) and told.result is None
            self.emit(ApprovalGiven(call, approved, reason, told.by, told.request, request.digest))
        return told

    async def _check_answer(self, command: do.CheckAnswer) -> Input:
        try:
            given = await self._services.hooks.ask(
                "after_answer", command.answer, change=change_answer, seconds=self.left()
            )
        except HookFailed as failure:
            return self._hook_failed(failure)
        if isinstance(given, Stop):
            return Stopped(given.reason, at=self.now())
        if not isinstance(given, Retry):
            return AnswerChecked(at=self.now())
        sink = self._services.model_sink
        reason = given.reason.rstrip(" .") or "the validator gives no reason"
        return AnswerChecked(reason if sink is None else sink.text(reason), self.now())

    async def _compact(self, command: do.Compact) -> Input:
        compactor = self._services.compactor or TrimOldResults()
        try:
            made = compactor(list(command.messages), command.budget)
            if inspect.isawaitable(made):
                async with asyncio.timeout(self.left()):
                    made = await made
            made = check_compaction(made, command.messages)
            check_readable(made, "it returned a compaction that is none")
        except Exception as problem:  # The developer's code failed; trimming needs no other code.
            self.report_bug("the compactor", problem)
            self.note("compactor_failed", f"{type(problem).__name__}: {problem}")
            made = TrimOldResults()(list(command.messages), command.budget)
        return Compacted(made.messages, made.losses, at=self.now())


def _begins_with_record(command: do.Command) -> bool:
    """Whether the command writes a record before anything else. Calls that run concurrently do not write in order."""
    return isinstance(command, do.Finish) or (isinstance(command, do.RunTools) and len(command.batch) == 1)


def _follow(composed: ComposedRequest, given: Request) -> ComposedRequest:
    """Return the request that a hook gives. A tool that it took out does not run, nor does one that it did not see."""
    changed = replace(composed, request=given)
    if not composed.request.tools:
        return changed  # in text mode the tools are words of the prompt
    kept = {tool.name for tool in given.tools}
    return withhold(changed, {name for name in composed.chosen_mode.tools.names if name not in kept})


# --------------------------------------------------------------------------------------------------------------------
# An agent as a tool of another agent. It has at most the rights of the run that calls it, and uses its budget.


def delegate_to(agent: Agent, name: str, description: str, options: dict[str, Any]) -> Tool:
    """Return a tool that gives a task to an agent and returns its answer."""

    async def delegate(task: str, context: ToolContext) -> Any:
        parent = context.scope if isinstance(context.scope, Driver) else None
        limits = agent.limits
        if parent is not None and context.deadline is not None:
            left = max(0.001, context.deadline - parent.services.clock())
            limits = replace(limits, seconds=left if limits.seconds is None else min(left, limits.seconds))
        result = await agent.arun(task, limits=limits, parent=parent, check=False)
        outcome = result.outcome
        if outcome.is_success:
            return Ok(result.text, data=result)
        words = f"{outcome.kind}: {outcome.reason}" if outcome.reason else outcome.kind
        return Error(f"{words}\n\nIts last words: {result.text}" if result.text else words, data=result)

    traits = cast("Options", {**options, "name": name, "description": description})
    return tool_from_function(delegate, traits)
