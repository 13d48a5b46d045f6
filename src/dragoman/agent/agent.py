"""An Agent: a model, tools, and the rules by which it uses them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from msgspec.structs import replace

from dragoman import providers
from dragoman.agent.approvals import Approver
from dragoman.agent.audit import AuditSink
from dragoman.agent.config import RunConfig
from dragoman.agent.context import Compactor, ContextSettings
from dragoman.agent.driver import ClientPool, Driver, Listener, RunServices
from dragoman.agent.events import RunEvent, RunStarted
from dragoman.agent.handle import Run, begin_conversation, read_task
from dragoman.agent.hooks import Hooks
from dragoman.agent.journal import RunJournal
from dragoman.agent.machine import Machine
from dragoman.agent.records import Header, encode
from dragoman.agent.replies import answer_tool
from dragoman.agent.result import Limits, RunResult, Spending
from dragoman.agent.resume import Restored, last_messages, restore
from dragoman.agent.safety import DAY, Safety
from dragoman.agent.tokens import window
from dragoman.agent.watch import WatchSettings
from dragoman.client import portal
from dragoman.client.retry import Retries
from dragoman.client.transport import Timeouts, Transport
from dragoman.errors import ConfigError, InvalidTool
from dragoman.extraction.tool_mode import ToolMode, choose_tool_mode
from dragoman.extraction.trust import Profile, get_profile, stricter
from dragoman.journal.journal import Journal, RunBusy
from dragoman.policy import Mode, Policy, Rule, Rules, as_policy, gather_rules, join_policies
from dragoman.providers import Endpoint, Fact, Facts, MemoryFacts, Registry
from dragoman.providers.prices import Prices
from dragoman.tools import gather
from dragoman.toolset import Toolset
from dragoman.types import Message, Tool, ToolModeName, Usage

Model = str | Endpoint


class Agent:
    """Runs tasks: asks the model, runs the tools it calls, and asks again until it answers.

    One agent serves any number of runs at once; nothing of a run is kept in it but what was learned of the endpoint.
    """

    def __init__(
        self,
        model: Model,
        tools: Iterable[Any] = (),
        *,
        system: str | None = None,
        policy: Policy | Iterable[Policy] | None = None,
        mode: Mode | None = None,
        rules: Rules | Iterable[Rule] | None = None,
        allow: Iterable[str] = (),
        ask: Iterable[str] = (),
        deny: Iterable[str] = (),
        limits: Limits | None = None,
        approve: Approver | None = None,
        ask_user: Callable[..., Any] | None = None,
        defer_approvals: bool = False,
        approval_seconds: float | None = DAY,
        scrub: bool = True,
        secrets: Iterable[str] | Mapping[str, str] = (),
        audit: AuditSink | str | os.PathLike[str] | None = None,
        sandbox: Any = None,
        journal: Journal | str | os.PathLike[str] | bool | None = None,
        hooks: Iterable[object] = (),
        listeners: Iterable[Listener] = (),
        options: Mapping[str, Any] | None = None,
        fallbacks: Iterable[Model] = (),
        tool_mode: ToolModeName = "auto",
        trust: str | Profile = "default",
        watch: WatchSettings | None = None,
        compactor: Compactor | None = None,
        context: ContextSettings | None = None,
        summary: bool = False,
        nonce: bool = False,
        aliases: Mapping[str, str] | None = None,
        transport: Transport | None = None,
        base_url: str = "",
        key: str | None = None,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        registry: Registry | None = None,
        facts: Facts | None = None,
        prices: Prices | None = None,
        workspace: str | None = None,
        max_output: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.facts = facts if facts is not None else MemoryFacts()
        self._registry = registry
        self._model, self._base_url = model, base_url
        self.endpoint = self._resolve(model, base_url)
        self._given_fallbacks = tuple(fallbacks)
        self._fallbacks = tuple(self._resolve(each) for each in self._given_fallbacks)
        self.tools = Toolset(gather(tools))
        _check_runnable(self.tools)
        self.system = system
        self.policy = as_policy(policy)
        self.rules = gather_rules(mode, rules, allow=allow, ask=ask, deny=deny)
        self.limits = limits or Limits()
        self.approve = approve
        box = "auto" if sandbox is None and self.rules.mode == "sandboxed" else sandbox
        self._safety = Safety(
            defer_approvals, approval_seconds, scrub, secrets, audit, box, ask_user, key=key, environment=environment
        )
        self._given_journal = journal
        self._journal: Journal | None = None
        self.hooks = Hooks(hooks)
        self.listeners = tuple(listeners)
        self._settings: dict[str, Any] = {
            "tool_mode": _choose(tool_mode, get_args(ToolModeName), "tool_mode"),
            "trust": trust,
            "options": dict(options or {}),
            "aliases": dict(aliases or {}),
            "watch": watch or WatchSettings(),
            "context": context or ContextSettings(),
            "summary": summary,
            "nonce": nonce or get_profile(trust).needs_nonce,
        }
        self._chosen_mode: ToolMode | None = None
        self._compactor = compactor
        self._prices = prices
        self._workspace = workspace
        self._max_output = max_output
        self._clients = ClientPool(
            transport=transport, key=key, timeouts=timeouts, retries=retries, environment=environment
        )

    def __repr__(self) -> str:
        tools = ", ".join(self.tools.names) or "no tools"
        return f"<agent {self.endpoint.provider.name}:{self.endpoint.model} with {tools}>"

    # ---- running -----------------------------------------------------------------------------------------------------

    def run(self, task: Any, **settings: Any) -> RunResult:
        """Do a task and give its result, whatever the outcome; the settings are those of `start`."""
        return portal.run(self.arun(task, **settings))

    async def arun(self, task: Any, **settings: Any) -> RunResult:
        """The same in async code. Cancelling it ends the run cleanly."""
        return await self.start(task, **settings).result()

    def stream(self, task: Any, **settings: Any) -> Run:
        """A run to be followed: `async for event in agent.stream(...)`, or `for event in ...` in blocking code."""
        return self.start(task, streaming=True, **settings)

    def start(
        self,
        task: Any,
        *,
        session: str | None = None,
        answer: Any = None,
        data: Any = None,
        tools: Iterable[Any] = (),
        limits: Limits | None = None,
        options: Mapping[str, Any] | None = None,
        approve: Approver | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        streaming: bool = False,
        run_id: str | None = None,
        parent: Driver | None = None,
    ) -> Run:
        """Prepare a run; nothing happens until its result is awaited or its events are read.

        `session` goes on where the last run of that name ended (with a journal). `answer` is the form of a structured
        answer: a type, or a JSON Schema. `data` reaches the tools in their context.
        """
        messages = read_task(task)
        config = self._config(run_id or _new_id(), session, answer, tools, limits, options, approve, parent)
        if session is not None and (self._given_journal is None or self._given_journal is False):
            raise ConfigError("a session needs a journal", hint="Agent(..., journal=True) keeps one")

        async def open_run(run: Run) -> tuple[Driver, list[Any], frozenset[str]]:
            before, parent_run_id = await self._before(session, config)
            conversation = begin_conversation(self.system, before, messages)
            spending = Spending(config.limits, parent.machine.spending if parent is not None else None)
            machine = Machine(config, spending=spending)
            run_journal = await self._begin(config, conversation, parent_run_id, machine.mode)
            driver = self._driver(machine, run, run_journal, on_event, approve, data, streaming, parent)
            parent_run = parent.machine.config.run_id if parent is not None else ""
            driver.emit(_started(config, parent_run_id=parent_run))
            return driver, machine.start(conversation), frozenset()

        return Run(config.run_id, session, open_run)

    # ---- going on ----------------------------------------------------------------------------------------------------

    def resume(self, run_id: str, **settings: Any) -> RunResult:
        """Go on with a run that broke off. Calls that were under way are not run again unless they are repeatable."""
        return portal.run(self.aresume(run_id, **settings))

    async def aresume(self, run_id: str, **settings: Any) -> RunResult:
        """The same in async code."""
        return await self.restart(run_id, **settings).result()

    def restart(
        self,
        run_id: str,
        *,
        answer: Any = None,
        data: Any = None,
        tools: Iterable[Any] = (),
        limits: Limits | None = None,
        approve: Approver | None = None,
        on_event: Callable[[RunEvent], object] | None = None,
        streaming: bool = False,
    ) -> Run:
        """Prepare the rest of a run that broke off."""

        async def open_run(run: Run) -> tuple[Driver, list[Any], frozenset[str]]:
            journal = self.journal
            if journal is None:
                raise ConfigError("resuming needs a journal", hint="Agent(..., journal=True) keeps one")
            summary = await journal.run(run_id)
            run.session = summary.session if summary.session != run_id else None
            config = self._config(run_id, run.session, answer, tools, limits, None, approve, None)
            restored, run_journal = await self._reclaim(journal, config)
            driver = self._driver(
                restored.machine, run, run_journal, on_event, approve, data, streaming, None, restored
            )
            driver.emit(_started(config, resumed=True))
            return driver, restored.commands, restored.started

        return Run(run_id, None, open_run)

    async def _reclaim(self, journal: Journal, config: RunConfig) -> tuple[Restored, RunJournal | None]:
        """Take hold of a run, then read it: in this order nobody else can have gone on with it in between."""
        run_id = config.run_id
        token = await journal.claim(run_id)
        try:
            restored = restore(await journal.read(run_id), config, Spending(config.limits))
        except BaseException:
            await journal.release(run_id, token=token)
            raise
        if restored.ended:
            await journal.release(run_id, token=token)
            return restored, None
        return restored, RunJournal(journal, run_id, token)

    @property
    def journal(self) -> Journal | None:
        """The journal of this agent, opened when it is first needed."""
        given = self._given_journal
        if self._journal is None and given is not None and given is not False:
            from dragoman.journal import default_path, open_journal

            self._journal = open_journal(default_path(os.environ) if given is True else given)
        return self._journal

    async def _before(self, session: str | None, config: RunConfig) -> tuple[list[Message], str | None]:
        """What was said in a session so far, and the run it was said in."""
        journal = self.journal
        if session is None or journal is None:
            return [], None
        last = await journal.last_run(session)
        if last is None:
            return [], None
        if last.holder:
            raise RunBusy(last.run_id, last.holder)
        return last_messages(await journal.read(last.run_id), config), last.run_id

    async def _begin(
        self, config: RunConfig, messages: list[Message], parent_run_id: str | None, mode: str
    ) -> RunJournal | None:
        journal = self.journal
        if journal is None:
            return None
        task = next((message.text for message in reversed(messages) if message.role == "user"), "")
        model = f"{config.endpoint.provider.name}:{config.endpoint.model}"
        header = Header(
            config.seed.hex(), messages, model, list(config.tools.names), task[:500], mode=mode, options=config.options
        )
        token = await journal.begin(config.run_id, config.session, encode(header), parent=parent_run_id)
        return RunJournal(journal, config.run_id, token)

    # ---- as a tool of another agent ----------------------------------------------------------------------------------

    def as_tool(self, name: str, description: str, **options: Any) -> Tool:
        """This agent as a tool: it works under the rights and within the budget of the run that calls it."""
        from dragoman.agent.driver import delegate_to

        return delegate_to(self, name, description, options)

    # ---- parts -------------------------------------------------------------------------------------------------------

    def _resolve(self, model: Model, base_url: str = "", facts: Facts | None = None) -> Endpoint:
        if isinstance(model, Endpoint):
            return model
        settings: dict[str, Any] = {"facts": facts or self.facts, **({"base_url": base_url} if base_url else {})}
        if self._registry is not None:
            return self._registry.resolve(model, **settings)
        return providers.resolve(model, **settings)

    def _config(
        self,
        run_id: str,
        session: str | None,
        answer: Any,
        tools: Iterable[Any],
        limits: Limits | None,
        options: Mapping[str, Any] | None,
        approve: Approver | None,
        parent: Driver | None,
    ) -> RunConfig:
        added = list(tools)
        offered = Toolset(gather([*self.tools, *added])) if added else self.tools
        _check_runnable(offered)
        form = answer_tool(answer, offered) if answer is not None else None
        if form is not None:
            offered = Toolset([*offered, form])
        policy, approver = self.policy, approve or self.approve
        if parent is not None:
            policy, approver = join_policies(policy, parent.machine.config.policy), parent.services.approver
        settings = dict(self._settings)
        if parent is not None:
            settings["trust"] = stricter(settings["trust"], parent.machine.config.trust)
        if options:
            settings["options"] = {**settings["options"], **options}
        parent_rules = parent.machine.permissions.chain if parent is not None else ()
        return RunConfig(
            self.endpoint,
            offered,
            limits or self.limits,
            self.rules,
            parent_rules,
            policy,
            self._safety.is_boxed(self.rules, parent_rules),
            has_approver=approver is not None or self._may_defer(parent),
            has_reviewers=self.hooks.under(parent.services.hooks if parent is not None else None).has("before_tool"),
            answer=form,
            window=window(self.endpoint, settings["context"].window),
            fallbacks=self._fallbacks,
            price=self._price,
            resettle=self._resettle,
            seed=os.urandom(16),
            chosen_mode=self._choose_mode() if offered is self.tools and parent is None else None,
            run_id=run_id,
            session=session,
            **settings,
        )

    def _driver(
        self,
        machine: Machine,
        run: Run,
        run_journal: RunJournal | None,
        on_event: Callable[[RunEvent], object] | None,
        approve: Approver | None,
        data: Any,
        streaming: bool,
        parent: Driver | None,
        restored: Restored | None = None,
    ) -> Driver:
        listeners = [*self.listeners, *run.listeners]
        if on_event is not None:
            listeners.append(lambda run_id, event: on_event(event))
        services = RunServices(
            client_for=self._clients.get,
            hooks=self.hooks.under(parent.services.hooks if parent is not None else None),
            approver=parent.services.approver if parent is not None else approve or self.approve,
            compactor=self._compactor,
            run_journal=run_journal,
            learn=self._learn,
            listeners=listeners,
            streaming=streaming,
            budget=run.wait_for_room,
            data=data if data is not None or parent is None else parent.services.data,
            workspace=self._workspace,
            max_output=self._max_output,
            terms=self._safety.terms(machine.config, self._workspace, defers=self._may_defer(parent)),
            human_sink=self._safety.human_sink(self.endpoint, self._fallbacks),
            model_sink=parent.services.model_sink if parent is not None else self._safety.model_sink(),
            auditor=self._safety.auditor(),
            pending=restored.questions if restored is not None else None,
            sandbox=self._safety.sandbox,
            wall=self._safety.wall,
            ask_user=parent.services.ask_user if parent is not None else self._safety.ask_user,
        )
        return Driver(machine, services, elapsed=restored.elapsed if restored is not None else 0.0)

    def _may_defer(self, parent: Driver | None) -> bool:
        """Whether a question may wait in the journal; the run of a tool cannot wait longer than the tool."""
        return parent is None and self._safety.defers and self.journal is not None

    def _choose_mode(self) -> ToolMode:
        """How the endpoint is spoken to with the agent's own tools; settled once, until something is learned of it."""
        if self._chosen_mode is None:
            settings = self._settings
            self._chosen_mode = choose_tool_mode(
                self.endpoint, self.tools, settings["tool_mode"], trust=settings["trust"], aliases=settings["aliases"]
            )
        return self._chosen_mode

    def _price(self, usage: Usage, endpoint: Endpoint, model: str) -> float | None:
        if self._prices is None:
            self._prices = Prices.default()
        return self._prices.cost(endpoint, model, usage)

    def _learn(self, endpoint: Endpoint, fact: Fact) -> None:
        """Remember what an endpoint taught; the next run begins with it."""
        self.facts.put(endpoint.base_url, endpoint.model, fact)
        settled = self._resettle(endpoint, fact)
        if _is_same(endpoint, self.endpoint):
            self.endpoint = settled
            self._chosen_mode = None
        self._fallbacks = tuple(settled if _is_same(endpoint, each) else each for each in self._fallbacks)

    def _resettle(self, endpoint: Endpoint, fact: Fact) -> Endpoint:
        """An endpoint as it is spoken to, given a fact about it."""
        given: Model = endpoint
        if _is_same(endpoint, self.endpoint):
            given = self._model
        for each, model in zip(self._fallbacks, self._given_fallbacks, strict=True):
            given = model if _is_same(endpoint, each) else given
        if isinstance(given, Endpoint):
            if fact.native_tool_calls is None:
                return given
            able = replace(given.capabilities, native_tool_calls=fact.native_tool_calls)
            return replace(given, capabilities=able)
        known = MemoryFacts()
        known.put(endpoint.base_url, endpoint.model, fact)
        return self._resolve(given, self._base_url if given is self._model else "", known)

    async def aclose(self) -> None:
        """Close connections and the journal, if the agent opened it."""
        await self._clients.close()
        if self._journal is not None and self._journal is not self._given_journal:
            self._journal.close()
            self._journal = None

    def close(self) -> None:
        """The same in blocking code."""
        portal.run(self.aclose())


def _is_same(one: Endpoint, other: Endpoint) -> bool:
    """Whether it is the same model at the same address, whatever is known of it."""
    return (one.provider.name, one.base_url, one.model) == (other.provider.name, other.base_url, other.model)


def _check_runnable(tools: Toolset) -> None:
    for tool in tools:
        if tool.run is None:
            raise InvalidTool(
                f"tool {tool.name!r} is only a description",
                hint="tool_from_schema(name, schema, function) gives it a body",
            )


def _choose(value: Any, known: tuple[str, ...], name: str) -> Any:
    if value not in known:
        raise ConfigError(f"{name} is {value!r}", hint=f"it is one of {', '.join(known)}")
    return value


def _started(config: RunConfig, *, resumed: bool = False, parent_run_id: str = "") -> RunStarted:
    endpoint = config.endpoint
    return RunStarted(config.run_id, endpoint.model, config.session, resumed, endpoint.provider.name, parent_run_id)


def _new_id() -> str:
    return f"run_{os.urandom(8).hex()}"
