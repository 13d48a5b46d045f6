"""The Agent: a model, its tools, and the rules for their use."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self, get_args

from msgspec import Struct
from msgspec.structs import replace

from dragoman import providers
from dragoman.agent.approvals import ApprovalRequest, Approver, read_requests
from dragoman.agent.config import RunConfig
from dragoman.agent.context import ContextSettings
from dragoman.agent.driver import ClientPool, Driver, Listener, RunServices
from dragoman.agent.events import RunEvent, RunStarted
from dragoman.agent.handle import (
    Run,
    Task,
    begin_conversation,
    check_given,
    check_runnable,
    find_attached,
    read_task,
)
from dragoman.agent.hooks import Hooks
from dragoman.agent.journal import RunJournal, released_on_error
from dragoman.agent.machine import Machine
from dragoman.agent.protocol import Ask
from dragoman.agent.records import Header, encode, note_secrets, refer
from dragoman.agent.replies import answer_tool
from dragoman.agent.result import AnswerT, Limits, RunResult, Spending
from dragoman.agent.resume import Restored, last_messages, read_sources, read_start, restore
from dragoman.agent.safety import SafetyServices, logged_policy
from dragoman.agent.settings import (
    Connection,
    Safety,
    choose,
    choose_facts,
    may_change,
    require_kind,
    require_text,
)
from dragoman.agent.sources import ToolSources
from dragoman.agent.submission import RunEngine, SubmittedRun, as_engine, check_portable
from dragoman.client import portal
from dragoman.client.own_models import Model, as_endpoint
from dragoman.errors import ConfigError
from dragoman.extraction.echo_reader import UNTRUSTED
from dragoman.extraction.offers import search_tool
from dragoman.extraction.tool_mode import ToolMode, check_text_calls, choose_tool_mode, is_large
from dragoman.extraction.trust import get_profile, stricter
from dragoman.journal.journal import Journal, RunBusy, RunSummary
from dragoman.keywords import as_list, known_keywords
from dragoman.logs import get_log, write_traceback
from dragoman.policy import Mode, gather_rules, join_policies
from dragoman.policy.rules import find_unmatched
from dragoman.providers import Endpoint, Fact, Facts, MemoryFacts
from dragoman.providers.attachments import check_media, find_doubts
from dragoman.providers.prices import Prices
from dragoman.providers.tokens import window
from dragoman.secrets import HumanSink
from dragoman.tools import gather
from dragoman.tools.functions import DepsT
from dragoman.toolset import Toolset
from dragoman.types import Message, NeutralOptions, Text, Tool, ToolModeName, Usage

AnswerForm = type[AnswerT] | Mapping[str, Any] | None
"""The form of a structured answer: a type, a JSON Schema, or None for text."""

_log = get_log("agent")
_MOVED = {
    name: f"{place}={value.__name__}({name}=...)"
    for place, value in (("connection", Connection), ("safety", Safety), ("context", ContextSettings))
    for name in value.__struct_fields__
}
_MOVED |= {"max_turns": "limits=Limits(turns=...)", "instructions": "system=...", "api_key": "key=..."}
_MOVED |= {name: f"limits=Limits({name}=...)" for name in Limits.__struct_fields__}
_MOVED |= {name: f'options={{"{name}": ...}}' for name in NeutralOptions.__annotations__}
"""What to write instead of a setting that is part of one of the three values."""


_dry_runs: set[tuple[str, str, str, bool]] = set()
"""The wires, tool modes and formats for which this process has made a dry run, with and without a journal."""


class _Start(Struct, frozen=True):
    """What the caller of `start` or `restart` adds to the settings of the agent."""

    run_id: str
    session: str | None = None
    answer: Any = None
    validate: Callable[[Any], object] | None = None
    data: Any = None
    tools: tuple[Any, ...] = ()
    limits: Limits | None = None
    options: Mapping[str, Any] | None = None
    approve: Approver | None = None
    on_event: Callable[[RunEvent], object] | None = None
    streaming: bool = False
    parent: Driver | None = None

    def __post_init__(self) -> None:
        check_given(
            self.options or {}, self.limits, validate=self.validate, approve=self.approve, on_event=self.on_event
        )


class Agent(Generic[DepsT]):
    """Runs tasks: asks the model, runs the tools it calls, and asks again until it answers.

    One agent serves any number of runs at once. It keeps nothing of a run except what it learned of the endpoint.
    `Agent[Deps]` declares the type of `data`, which the tools receive in their context.

    - `model`: `provider:model`, an `Endpoint` or a model of your own. `base_url` and `key` belong to its server.
    - `tools`: functions, `Tool` values or tools of MCP servers. `tool_mode` and `text_calls` say how they are called.
    - `mode`, `allow`, `ask`, `deny`: what runs without an approval. `approve` is asked about the rest.
    - `limits` of a run, `options` of each request, and `fallbacks`: models to use if the first one fails.
    - `journal` stores runs, `engine` executes them elsewhere, and workers know the agent by its `name`.
    - `answer`: the form of a structured answer. `hooks` may change what happens, and `listeners` receive the events.
    - `connection`, `safety`, `context`: values that hold the less common settings.
    """

    @known_keywords(_MOVED)
    def __init__(
        self,
        model: Model,
        tools: Iterable[Any] = (),
        *,
        system: str | None = None,
        base_url: str = "",
        key: str | None = None,
        tool_mode: ToolModeName = "auto",
        text_calls: bool = True,
        mode: Mode | None = None,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        approve: Approver | None = None,
        limits: Limits | None = None,
        journal: Journal | str | os.PathLike[str] | bool | None = None,
        answer: AnswerForm[Any] = None,
        hooks: Iterable[object] = (),
        listeners: Iterable[Listener] = (),
        options: Mapping[str, Any] | None = None,
        fallbacks: Iterable[Model] = (),
        connection: Connection | None = None,
        safety: Safety | None = None,
        context: ContextSettings | None = None,
        name: str = "",
        engine: RunEngine | str | None = None,
    ) -> None:
        self.connection = require_kind(connection, Connection, "connection")
        self.safety = require_kind(safety, Safety, "safety")
        self.context = require_kind(context, ContextSettings, "context")
        given = [as_endpoint(each) for each in (model, *as_list("fallbacks", fallbacks))]
        own = [(each, transport) for each, transport in given if transport is not None and isinstance(each, Endpoint)]
        self.facts = choose_facts(self.connection, has_own=bool(own))
        self._model, self._base_url = given[0][0], base_url
        self.endpoint = self._resolve(self._model, base_url)
        self._given_fallbacks = tuple(endpoint for endpoint, _ in given[1:])
        self._fallbacks = tuple(self._resolve(each) for each in self._given_fallbacks)
        self._sources = ToolSources(tools) if may_change(tools) else None
        self.tools = Toolset(gather(tools)) if self._sources is None else self._sources.tools
        check_runnable(self.tools)
        self.system = require_text(system, "system")
        self.policy = logged_policy(self.safety.policy, lambda text: self._human_sink().text(text))
        self.rules = gather_rules(mode, self.safety.rules, allow=allow, ask=ask, deny=deny)
        self._own_rules = gather_rules(None, None, allow=allow, ask=ask, deny=deny).rules
        self.limits = limits or Limits()
        self.approve = approve
        self.answer = answer
        self.options = dict(options or {})
        self.listeners = tuple(as_list("listeners", listeners))
        check_given(self.options, limits, self.listeners, approve=approve)
        self.tool_mode: ToolModeName = choose(tool_mode, get_args(ToolModeName), "tool_mode")
        self.text_calls = text_calls
        check_text_calls(tool_mode, text_calls=text_calls)
        self.hooks = Hooks(as_list("hooks", hooks))
        self._needs_nonce = self.safety.nonce or get_profile(self.safety.trust).needs_nonce
        self._safety = SafetyServices(self.safety, self.rules.mode, key, self.connection)
        self.name = name
        self.engine = None if engine is None else as_engine(engine, journal)
        self._given_journal = journal if self.engine is None else self.engine.journal
        self._journal: Journal | None = None
        self._chosen_mode: ToolMode | None = None
        self._prices = self.connection.prices
        self._clients = ClientPool(self.connection, key, self.endpoint, own)
        for each in self._fallbacks:
            # Otherwise the error would come in the middle of a run, when the first model fails.
            self._clients.check(each)
        self._preload()

    _measured: tuple[Toolset, int | None, bool] | None = None
    """The tools and the context window that were measured last, and whether the definitions are large for it."""

    def __repr__(self) -> str:
        tools = ", ".join(self.tools.names) or "no tools"
        return f"<agent {self.endpoint.provider.name}:{self.endpoint.model} with {tools}>"

    # ---- running -----------------------------------------------------------------------------------------------------

    @known_keywords()
    async def arun(
        self,
        task: Task,
        *,
        answer: AnswerForm[AnswerT] = None,
        validate: Callable[[AnswerT], object] | None = None,
        data: DepsT | None = None,
        check: bool = True,
        session: str | None = None,
        tools: Iterable[Any] = (),
        limits: Limits | None = None,
        options: Mapping[str, Any] | None = None,
        approve: Approver | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        run_id: str | None = None,
        parent: Driver | None = None,
    ) -> RunResult[AnswerT]:
        """Do a task and return its result. Raise `RunFailed` unless the run succeeded or waits for an approval.

        `check=False` returns every result. The other arguments are those of `start`. If the coroutine is cancelled, the
        run ends cleanly: every call gets a result, and the journal records the end.
        """
        started = self.start(
            task,
            answer=answer,
            validate=validate,
            data=data,
            session=session,
            tools=tools,
            limits=limits,
            options=options,
            approve=approve,
            on_event=on_event,
            run_id=run_id,
            parent=parent,
        )
        return await started.result(check=check)

    run = known_keywords()(
        portal.blocking(
            arun,
            "run",
            """Do a task and return its result. Raise `RunFailed` unless the run succeeded or waits for an approval.

            `check=False` returns every result. The other arguments are those of `start`. `arun` is for async code.
            """,
        )
    )

    @known_keywords()
    def stream(
        self,
        task: Task,
        *,
        answer: AnswerForm[AnswerT] = None,
        validate: Callable[[AnswerT], object] | None = None,
        data: DepsT | None = None,
        session: str | None = None,
        tools: Iterable[Any] = (),
        limits: Limits | None = None,
        options: Mapping[str, Any] | None = None,
        approve: Approver | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        run_id: str | None = None,
    ) -> Run[AnswerT]:
        """Return a run to iterate over: `async for event in agent.stream(...)`, or `for event in ...` in blocking code.

        The arguments are those of `start`.
        """
        return self.start(
            task,
            answer=answer,
            validate=validate,
            data=data,
            session=session,
            tools=tools,
            limits=limits,
            options=options,
            approve=approve,
            on_event=on_event,
            run_id=run_id,
            streaming=True,
        )

    @known_keywords()
    def start(
        self,
        task: Task,
        *,
        answer: AnswerForm[AnswerT] = None,
        validate: Callable[[AnswerT], object] | None = None,
        data: DepsT | None = None,
        session: str | None = None,
        tools: Iterable[Any] = (),
        limits: Limits | None = None,
        options: Mapping[str, Any] | None = None,
        approve: Approver | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        streaming: bool = False,
        run_id: str | None = None,
        parent: Driver | None = None,
    ) -> Run[AnswerT]:
        """Prepare a run. Nothing happens until its result is awaited or its events are read.

        `session` continues the last run of that name (with a journal). `answer` is the form of a structured answer: a
        type, or a JSON Schema. `validate(answer)` rejects an answer with `Retry(reason)`, which it returns or raises;
        the model then answers again. The tools receive `data` in their context. `tools`, `limits`, `options` and
        `approve` add to those of the agent or replace them.
        """
        start = _Start(
            run_id or f"run_{os.urandom(8).hex()}",
            session,
            answer,
            validate,
            data,
            tuple(tools),
            limits,
            options,
            approve,
            on_event,
            streaming,
            parent,
        )
        messages = self._read_task(task, parent)
        if self.engine is not None and not self.engine.runs_here and parent is None:
            return self._submit(start, messages)
        # The tools of servers are not known before the first run has started them.
        early = self._config(start) if self._sources is None or self._sources.is_ready else None
        if session is not None and (self._given_journal is None or self._given_journal is False):
            raise ConfigError("a session needs a journal", hint="create the agent with journal=True")

        async def open_run(run: Run[Any]) -> tuple[Driver, list[Any], frozenset[str]]:
            config = early
            if config is None:
                await self._start_servers()
                config = self._config(start)
            before, last, sources = await self._before(session, config)
            conversation = begin_conversation(self.system, before, messages)
            spending = Spending(config.limits, parent.machine.spending if parent is not None else None)
            spending.share(config.limits.budget, self.limits.budget)
            machine = Machine(config, spending=spending, sources=sources)
            run_journal = await self._begin(config, conversation, before, last, machine.mode)
            async with released_on_error(run_journal):
                driver = self._driver(machine, run, start, run_journal)
                self._announce(driver, config, parent, messages)
                return driver, machine.start(conversation), frozenset()

        return Run(start.run_id, session, open_run)

    def _announce(self, driver: Driver, config: RunConfig, parent: Driver | None, task: list[Message]) -> None:
        """Report the start of a run, rules that apply to no tool, and files that few models take."""
        driver.emit(_started(config, parent_run_id=parent.machine.config.run_id if parent is not None else ""))
        if self._own_rules:
            for fault in find_unmatched(self._own_rules, config.tools):
                driver.note("rule_unmatched", fault)
        if attached := find_attached(task):
            for doubt in find_doubts(attached):
                driver.note("media_doubted", doubt)

    def _read_task(self, task: Task, parent: Driver | None) -> list[Message]:
        """Return the messages of a task. Raises ConfigError for media that the endpoint cannot receive."""
        messages = read_task(task)
        if attached := find_attached(messages):
            check_media(attached, self.endpoint)
        if parent is None or parent.machine.conversation.echoes.is_empty:
            return messages
        # A model wrote the task after it had read untrusted content, and may have copied a call from it.
        return [replace(message, extra={**message.extra, UNTRUSTED: True}) for message in messages]

    # ---- resumption --------------------------------------------------------------------------------------------------

    @known_keywords()
    async def aresume(
        self,
        run_id: str,
        *,
        answer: AnswerForm[AnswerT] = None,
        validate: Callable[[AnswerT], object] | None = None,
        data: DepsT | None = None,
        check: bool = True,
        tools: Iterable[Any] = (),
        limits: Limits | None = None,
        approve: Approver | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
    ) -> RunResult[AnswerT]:
        """Resume an interrupted run. A call that was running is not run again unless its tool is repeatable.

        Raises `RunFailed` as `arun` does.
        """
        restarted = self.restart(
            run_id,
            answer=answer,
            validate=validate,
            data=data,
            tools=tools,
            limits=limits,
            approve=approve,
            on_event=on_event,
        )
        return await restarted.result(check=check)

    resume = known_keywords()(portal.blocking(aresume, "resume", "The same as `aresume`, in blocking code."))

    @known_keywords()
    def restart(
        self,
        run_id: str,
        *,
        answer: AnswerForm[AnswerT] = None,
        validate: Callable[[AnswerT], object] | None = None,
        data: DepsT | None = None,
        tools: Iterable[Any] = (),
        limits: Limits | None = None,
        approve: Approver | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        streaming: bool = False,
    ) -> Run[AnswerT]:
        """Prepare an interrupted run to continue. It starts when its result is awaited or its events are read."""
        if self.engine is not None and not self.engine.runs_here:
            return self._submit(
                _Start(run_id, None, answer, validate, data, tuple(tools), limits, None, approve, on_event), None
            )

        async def open_run(run: Run[Any]) -> tuple[Driver, list[Any], frozenset[str]]:
            journal = self.journal
            if journal is None:
                raise ConfigError("a resumed run needs a journal", hint="create the agent with journal=True")
            summary = await journal.run(run_id)
            run.session = summary.session if summary.session != run_id else None
            start = _Start(
                run_id, run.session, answer, validate, data, tuple(tools), limits, None, approve, on_event, streaming
            )
            await self._start_servers()
            config = self._config(start)
            restored, pending, run_journal = await self._reclaim(journal, config)
            async with released_on_error(run_journal):
                # What the run used before counted in the budgets of that time. A request without a reply is sent again.
                spending = restored.machine.spending
                spending.share(config.limits.budget, self.limits.budget)
                spending.charge(sum(isinstance(command, Ask) for command in restored.commands))
                driver = self._driver(restored.machine, run, start, run_journal, restored, pending)
                driver.emit(_started(config, resumed=True))
                return driver, restored.commands, restored.started

        return Run(run_id, None, open_run)

    # ---- on an engine ------------------------------------------------------------------------------------------------

    def here(self, journal: Journal) -> Agent[DepsT]:
        """Return this agent for a worker of an engine: it executes its runs itself, and records them in `journal`."""
        own = copy.copy(self)
        own.engine, own._given_journal, own._journal = None, journal, journal
        if own.safety.defer_approvals is None:
            own.safety = replace(own.safety, defer_approvals=True)
        return own

    def _submit(self, start: _Start, messages: list[Message] | None) -> SubmittedRun[Any]:
        """Return the handle of a run that the engine executes. Without messages, it was submitted before."""
        engine = self.engine
        assert engine is not None
        names = ("answer", "validate", "data", "tools", "limits", "options", "approve")
        check_portable(self.name, {name: getattr(start, name) for name in names})

        async def submit() -> None:
            if messages is not None:
                await engine.submit(self.name, messages, session=start.session, run_id=start.run_id)

        def make_config(session: str | None) -> RunConfig:
            return self._config(replace(start, session=session))

        return SubmittedRun(start.run_id, start.session, engine, submit, make_config, start.on_event)

    async def _reclaim(
        self, journal: Journal, config: RunConfig
    ) -> tuple[Restored, dict[str, ApprovalRequest], RunJournal | None]:
        """Claim a run, then read it: after the claim no other process can write to it."""
        run_id = config.run_id
        token = await journal.claim(run_id)
        try:
            records = await journal.read(run_id)
            start = await read_start(journal, run_id, records)
            sources = await read_sources(journal, (await journal.run(run_id)).parent)
            restored = restore(records, config, Spending(config.limits), start=start, sources=sources)
        except BaseException:
            await journal.release(run_id, token=token)
            raise
        if restored.ended:
            await journal.release(run_id, token=token)
            return restored, {}, None
        return restored, read_requests(records), RunJournal(journal, run_id, token, start, self._human_sink())

    @property
    def journal(self) -> Journal | None:
        """The journal of this agent. The first access opens it."""
        given = self._given_journal
        if self._journal is None and given is not None and given is not False:
            from dragoman.journal import default_path, open_journal

            self._journal = open_journal(default_path(os.environ) if given is True else given)
        return self._journal

    async def _before(
        self, session: str | None, config: RunConfig
    ) -> tuple[list[Message], RunSummary | None, list[Message]]:
        """Return the conversation of a session so far, its last run, and the messages that a summary replaced."""
        journal = self.journal
        last = await journal.last_run(session) if session is not None and journal is not None else None
        if last is None or journal is None:
            return [], None, []
        if last.holder:
            raise RunBusy(last.run_id, last.holder)
        records = await journal.read(last.run_id)
        messages = await last_messages(journal, last.run_id, records, config)
        return messages, last, await read_sources(journal, last.run_id)

    async def _begin(
        self, config: RunConfig, messages: list[Message], before: list[Message], last: RunSummary | None, mode: str
    ) -> RunJournal | None:
        journal = self.journal
        if journal is None:
            return None
        # A run without a key sends nothing, so there would be nothing to resume.
        self._clients.get(config.endpoint).check()
        said = next((message.parts for message in reversed(messages) if message.role == "user"), [])
        task = "\n".join(part.text for part in said if isinstance(part, Text))
        model = f"{config.endpoint.provider.name}:{config.endpoint.model}"
        names, given = list(config.tools.names), config.options
        header = Header(
            config.seed.hex(), messages, model, names, task[:500], mode=mode, options=given, agent=self.name
        )
        # A run without an end can still be resumed, and its messages can change: store a copy of them.
        found = refer(messages, before) if last is not None and last.ended else None
        if found is not None:
            lead, kept = found
            added = messages[len(lead) + kept[1] - kept[0] :]
            header = replace(header, messages=added, lead=lead, before=kept)
        parent = last.run_id if last is not None else None
        body = note_secrets(encode(header), self._human_sink())
        token = await journal.begin(config.run_id, config.session, body, parent=parent)
        return RunJournal(journal, config.run_id, token, messages, self._human_sink())

    def _human_sink(self) -> HumanSink:
        return self._safety.human_sink(self.endpoint, self._fallbacks)

    # ---- as a tool of another agent ----------------------------------------------------------------------------------

    def as_tool(self, name: str, description: str, **options: Any) -> Tool:
        """Return this agent as a tool. It has at most the rights and the budget of the run that calls it."""
        from dragoman.agent.driver import delegate_to

        return delegate_to(self, name, description, options)

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _preload(self) -> None:
        """Import and compile now what the first run would have to, so that it does not block the event loop."""
        if not self.connection.preload:
            return
        chosen = self._choose_mode()
        place = (self.endpoint.wire, chosen.mode, chosen.format, self._given_journal not in (None, False))
        if place in _dry_runs:
            return
        _dry_runs.add(place)
        from dragoman.agent.dry_run import dry_run

        # Not the configuration of a real run: that looks for secrets, opens the journal and may test the sandbox.
        config = RunConfig(
            self.endpoint,
            self.tools,
            tool_mode=self.tool_mode,
            text_calls=self.text_calls,
            trust=self.safety.trust,
            nonce=self._needs_nonce,
            window=window(self.endpoint, self.context.window),
            context=self.context,
            price=self._price,
        )
        try:
            dry_run(config, self._clients.get(self.endpoint), journal=place[-1])
        except Exception as problem:  # A run that cannot work says so when it starts.
            _log.debug("the dry run failed\n%s", write_traceback(problem))

    def _resolve(self, model: str | Endpoint, base_url: str = "", facts: Facts | None = None) -> Endpoint:
        if isinstance(model, Endpoint):
            return model
        settings: dict[str, Any] = {"facts": facts or self.facts, **({"base_url": base_url} if base_url else {})}
        if self.connection.registry is not None:
            return self.connection.registry.resolve(model, **settings)
        return providers.resolve(model, **settings)

    def _offer(self, start: _Start, room: int | None) -> tuple[Toolset, Tool | None, Tool | None]:
        """Return the tools of a run, and two of them: that of a structured answer, and the search for the others."""
        if self._sources is not None and (tools := self._sources.refresh()) is not self.tools:
            self.tools, self._chosen_mode = tools, None
        offered = Toolset(gather([*self.tools, *start.tools])) if start.tools else self.tools
        check_runnable(offered)
        wanted = self.answer if start.answer is None else start.answer
        form = answer_tool(wanted, offered) if wanted is not None else None
        if form is not None:
            offered = Toolset([*offered, form])
        prompt = self.context.tool_prompt
        if not self._is_large(offered, room):
            return offered, form, None
        search = search_tool(offered) if prompt.defer != 0 else None
        # A toolset of its own: the tool mode that the agent keeps describes all of its tools in full.
        return Toolset([*offered, *([search] if search is not None else [])]), form, search

    def _is_large(self, offered: Toolset, room: int | None) -> bool:
        if offered is not self.tools:
            return is_large(offered, room, self.context.tool_prompt)
        # The tools of the agent are the same in nearly all runs, and their definitions are long.
        if self._measured is None or self._measured[0] is not offered or self._measured[1] != room:
            self._measured = (offered, room, is_large(offered, room, self.context.tool_prompt))
        return self._measured[2]

    def _config(self, start: _Start) -> RunConfig:
        parent, room = start.parent, window(self.endpoint, self.context.window)
        offered, form, search = self._offer(start, room)
        policy, approver, trust = self.policy, start.approve or self.approve, self.safety.trust
        text_calls = self.text_calls
        parent_rules = parent.machine.permissions.chain if parent is not None else ()
        if parent is not None:
            above = parent.machine.config
            policy, approver = join_policies(policy, above.policy), parent.services.approver
            trust = stricter(trust, above.trust)
            text_calls = text_calls and above.text_calls
        return RunConfig(
            self.endpoint,
            offered,
            start.limits or self.limits,
            self.rules,
            parent_rules,
            policy,
            self._safety.is_boxed(self.rules, parent_rules),
            tool_mode=self.tool_mode if text_calls or self.tool_mode != "text" else "native",
            text_calls=text_calls,
            trust=trust,
            options={**self.options, **(start.options or {})},
            aliases=dict(self.safety.aliases),
            watch=self.safety.watch,
            has_approver=approver is not None or self._may_defer(parent),
            has_reviewers=self.hooks.under(parent.services.hooks if parent is not None else None).has("before_tool"),
            search=search,
            answer=form,
            validates=start.validate is not None or self.hooks.has("after_answer"),
            nonce=self._needs_nonce,
            window=room,
            context=self.context,
            fallbacks=self._fallbacks,
            price=self._price,
            resettle=self._resettle,
            seed=os.urandom(16),
            chosen_mode=self._choose_mode() if offered is self.tools and parent is None else None,
            run_id=start.run_id,
            session=start.session,
        )

    def _driver(
        self,
        machine: Machine,
        run: Run[Any],
        start: _Start,
        run_journal: RunJournal | None,
        restored: Restored | None = None,
        pending: Mapping[str, ApprovalRequest] | None = None,
    ) -> Driver:
        parent, on_event = start.parent, start.on_event
        above = parent.services if parent is not None else None
        listeners = [*self.listeners, *run.listeners]
        if on_event is not None:
            listeners.append(lambda run_id, event: on_event(event))
        services = RunServices(
            client_for=self._clients.get,
            hooks=self.hooks.plus(start.validate).under(above.hooks if above is not None else None),
            approver=above.approver if above is not None else start.approve or self.approve,
            compactor=self.context.compactor,
            run_journal=run_journal,
            learn=self._learn,
            listeners=listeners,
            tap=run.tap,
            streaming=start.streaming,
            budget=run.wait_for_room,
            data=above.data if above is not None and start.data is None else start.data,
            workspace=self.safety.workspace,
            max_output=self.context.max_output,
            approval_seconds=self.safety.approval_seconds,
            defers=self._may_defer(parent),
            human_sink=self._human_sink(),
            model_sink=above.model_sink if above is not None else self._safety.model_sink(),
            auditor=self._safety.auditor(),
            pending=pending or {},
            sandbox=self._safety.sandbox,
            wall=self._safety.wall,
            ask_user=above.ask_user if above is not None else self.safety.ask_user,
        )
        return Driver(machine, services, elapsed=restored.elapsed if restored is not None else 0.0)

    def _may_defer(self, parent: Driver | None) -> bool:
        """Whether an approval request may wait in the journal. The run of a tool cannot outlive its tool."""
        asked = self.safety.defer_approvals
        defers = self.engine is not None if asked is None else asked
        return parent is None and defers and self.journal is not None

    def _choose_mode(self) -> ToolMode:
        """Return the tool mode for the agent's own tools. It is chosen once, until a new fact about the endpoint."""
        if self._chosen_mode is None:
            safety = self.safety
            self._chosen_mode = choose_tool_mode(
                self.endpoint,
                self.tools,
                self.tool_mode,
                trust=safety.trust,
                aliases=dict(safety.aliases),
                prompt=self.context.tool_prompt,
                text_calls=self.text_calls,
            )
        return self._chosen_mode

    def _price(self, usage: Usage, endpoint: Endpoint, model: str) -> float | None:
        if self._prices is None:
            self._prices = Prices.default()
        return self._prices.cost(endpoint, model, usage)

    def _learn(self, endpoint: Endpoint, fact: Fact) -> None:
        """Store a fact about an endpoint. The next run uses it."""
        self.facts.put(endpoint.base_url, endpoint.model, fact)
        _log.info("learned about %s:%s: %s", endpoint.provider.name, endpoint.model, fact.why)
        settled = self._resettle(endpoint, fact)
        if _is_same(endpoint, self.endpoint):
            self.endpoint = settled
            self._chosen_mode = None
        self._fallbacks = tuple(settled if _is_same(endpoint, each) else each for each in self._fallbacks)

    def _resettle(self, endpoint: Endpoint, fact: Fact) -> Endpoint:
        """Return the endpoint with a fact about it applied."""
        given: str | Endpoint = endpoint
        if _is_same(endpoint, self.endpoint):
            given = self._model
        for each, model in zip(self._fallbacks, self._given_fallbacks, strict=True):
            given = model if _is_same(endpoint, each) else given
        if isinstance(given, Endpoint):
            given = replace(given, quirks=replace(given.quirks, **fact.quirks)) if fact.quirks else given
            if fact.native_tool_calls is None:
                return given
            able = replace(given.capabilities, native_tool_calls=fact.native_tool_calls)
            return replace(given, capabilities=able)
        known = MemoryFacts()
        known.put(endpoint.base_url, endpoint.model, fact)
        return self._resolve(given, self._base_url if given is self._model else "", known)

    async def load_tools(self) -> Toolset:
        """Start the MCP servers among the tools, which the first run does otherwise. Return all tools."""
        await self._start_servers()
        if self._sources is not None and (tools := self._sources.refresh()) is not self.tools:
            self.tools, self._chosen_mode = tools, None
        return self.tools

    async def _start_servers(self) -> None:
        if self._sources is not None:
            await self._sources.start()

    async def aclose(self) -> None:
        """Close the connections, the servers that were given as tools, and the journal if the agent opened it."""
        await self._clients.close()
        if self._sources is not None:
            await self._sources.close()
        if self._journal is not None and self._journal is not self._given_journal:
            self._journal.close()
            self._journal = None

    def close(self) -> None:
        """The same as `aclose`, in blocking code."""
        portal.run(self.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _is_same(one: Endpoint, other: Endpoint) -> bool:
    """Whether both are the same model at the same address. Capabilities and quirks do not matter."""
    return (one.provider.name, one.base_url, one.model) == (other.provider.name, other.base_url, other.model)


def _started(config: RunConfig, *, resumed: bool = False, parent_run_id: str = "") -> RunStarted:
    endpoint = config.endpoint
    return RunStarted(config.run_id, endpoint.model, config.session, resumed, endpoint.provider.name, parent_run_id)
