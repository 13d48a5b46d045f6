"""A handle on a run: await it, stream its events, steer or cancel it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Generic, get_args

from dragoman.agent.events import RunEvent, ToolProgressed
from dragoman.agent.result import UNHEARD, AnswerT, Limits, Problem, RunResult, check_result
from dragoman.client import portal
from dragoman.errors import ConfigError, InvalidTool, did_you_mean
from dragoman.events import TextDelta
from dragoman.extraction.responses import read_messages
from dragoman.toolset import Toolset
from dragoman.types import File, Image, Message, Part, RequestOptions, Role, Text, Tool

if TYPE_CHECKING:
    from dragoman.agent.driver import Driver, Listener
    from dragoman.agent.partial import AnswerStream


# --------------------------------------------------------------------------------------------------------------------
# What a run is given: its task in any of its forms, options and functions; and the initial conversation.

Task = str | Message | Mapping[str, Any] | Iterable[Message | Mapping[str, Any] | str | Text | Image | File]
"""A text, a message, messages or dicts in the form of the chat wires, or texts, images and files."""
_ROLES: tuple[str, ...] = get_args(Role)
_DICT_ROLES = (*_ROLES, "developer", "function", "model")
"""The roles of dicts: also those that one wire has for a system prompt, a result, or a message of the model."""
_PARTS: tuple[type, ...] = get_args(Part)
_HINT = "give text, a Message, a list of messages or dicts, or a list of texts and images"


def read_task(task: Task) -> list[Message]:
    """Return the messages of a task."""
    if isinstance(task, str):
        return [Message("user", [Text(task)])]
    if isinstance(task, Message):
        return [_check(task)]
    if isinstance(task, Mapping):
        return _read_list([task])
    if isinstance(task, Iterable):
        return _read_list(list(task))
    raise ConfigError(f"not a task: {task!r}"[:200], hint=_HINT)


def _read_list(given: list[Any]) -> list[Message]:
    if not given:
        raise ConfigError("the task is empty", hint=_HINT)
    if all(isinstance(each, Message | Mapping) for each in given):
        for each in given:
            _check_role(each)
        return [_check(message) for message in read_messages(given)]
    parts = [Text(each) if isinstance(each, str) else each for each in given]
    if not all(isinstance(part, Text | Image | File) for part in parts):
        raise ConfigError("the task contains a value that is not a message, text, image or file", hint=_HINT)
    return [Message("user", parts)]


def _check_role(given: Message | Mapping[str, Any]) -> None:
    """Raise ConfigError for a dict whose role no wire has: the wire would take it for a message of the user."""
    role = given.get("role", "user") if isinstance(given, Mapping) else "user"
    if role not in _DICT_ROLES:
        meant = did_you_mean(str(role), _DICT_ROLES)
        raise ConfigError(f"a message has the role {role!r}{meant}", hint=f"the roles are {', '.join(_ROLES)}")


def _check(message: Message) -> Message:
    """Return a message that the caller gives, or say what is wrong with it."""
    if message.role not in _ROLES:
        raise ConfigError(f"a message has the role {message.role!r}", hint=f"the roles are {', '.join(_ROLES)}")
    wrong = next((part for part in message.parts if not isinstance(part, _PARTS)), None)
    if wrong is not None:
        hint = "write Message.user('text', Image(...)): texts, images and files"
        raise ConfigError(f"a message has the part {wrong!r}"[:200], hint=hint)
    return message


def find_attached(messages: list[Message]) -> list[Message]:
    """Return the messages with images and files after the last one of the model: what the user asks now."""
    said = [number for number, message in enumerate(messages) if message.role == "assistant"]
    new = messages[said[-1] + 1 :] if said else messages
    return [message for message in new if any(isinstance(part, Image | File) for part in message.parts)]


def check_given(options: Mapping[str, Any], limits: Any, listeners: Iterable[Any] = (), **functions: Any) -> None:
    """Raise ConfigError for an option that no wire has, limits that are none, and a function that cannot be called.

    A misspelled option would be left out of every request. A table under another name may belong to a wire that is
    installed as an extension.
    """
    for name, value in options.items():
        if name not in RequestOptions.__annotations__ and not isinstance(value, Mapping):
            raise ConfigError(
                f"there is no option {name!r}{did_you_mean(name, RequestOptions.__annotations__)}",
                hint='put a field of one wire under its name: options={"openai_chat": {"logprobs": True}}',
            )
    if limits is not None and not isinstance(limits, Limits):
        raise ConfigError(f"limits is a Limits, not {type(limits).__name__}", hint="write limits=Limits(turns=5)")
    for name, function in [*functions.items(), *(("a listener", each) for each in listeners)]:
        if function is not None and not callable(function):
            raise ConfigError(f"{name} is a function, not {function!r}"[:200], hint="give the function itself")


def check_runnable(tools: Toolset) -> None:
    """Raise InvalidTool for a tool that cannot run."""
    for tool in tools:
        if tool.run is None:
            raise InvalidTool(
                f"tool {tool.name!r} is only a description",
                hint="tool_from_schema(name, schema, function) gives it a body",
            )


def begin_conversation(system: str | None, before: Iterable[Message], task: Iterable[Message]) -> list[Message]:
    """Return the agent's system prompt, the earlier messages and the task. It replaces an earlier system prompt."""
    history = [*before, *task]
    if system is None:
        return history
    if history and history[0].role == "system":
        history = history[1:]
    return [Message("system", [Text(system)]), *history]


# --------------------------------------------------------------------------------------------------------------------
# The handle.

Opening = Callable[["Run[Any]"], Awaitable[tuple["Driver", list[Any], frozenset[str]]]]
_AHEAD = 256
"""The number of events that may wait for a slow reader before the model has to wait."""
_RECENT = 64
"""How many of the last events are searched for an earlier progress of the same call."""


class Run(Generic[AnswerT]):
    """One run. `await run.result()`, or `async for event in run` (`for event in run` in blocking code)."""

    def __init__(self, run_id: str, session: str | None, open_run: Opening) -> None:
        self.run_id = run_id
        self.session = session
        self._open = open_run
        self._driver: Driver | None = None
        self.answer_tool: Tool | None = None
        """The tool that receives the structured answer, after the start of the run."""
        self._has_begun = False
        self._early: list[Message] = []
        """The messages of the user from before the start."""
        self._cancelled: str | None = None
        self._events: deque[RunEvent] = deque()
        self.tap: Callable[[RunEvent], None] | None = None
        """Receives every event as it is, before it is redacted for people and logs."""
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._result: RunResult[AnswerT] | None = None
        self._is_followed = False

    # ---- the result --------------------------------------------------------------------------------------------------

    async def result(self, *, check: bool = True) -> RunResult[AnswerT]:
        """Execute the run and return its result. Raise `RunFailed` if it failed; `check=False` returns every result."""
        result = await self._finish()
        return check_result(result) if check else result

    async def _finish(self) -> RunResult[AnswerT]:
        if self._result is None and self._has_begun:
            raise ConfigError("this run has already started", hint="start another run")
        while await self.advance():
            pass
        assert self._result is not None
        return self._result

    async def advance(self) -> bool:
        """Execute the next command of the run. False: the run has ended, or waits for an approval.

        A durable engine calls this, and records its progress between two calls. Everybody else awaits the result. A
        reply is stored with the start of the tool that it asks for, so the journal may not have it yet: see `flush`.
        """
        if self._result is not None:
            return False
        driver = self._driver or await self._begin()
        goes_on = False
        try:
            goes_on = await driver.advance()
        finally:
            # The result exists before the last commands, which record and report it.
            if not goes_on:
                self._result = driver.machine.result
        if self._result is not None:
            # Without cycles of references, the memory of a run is free at once, and no garbage collection is due.
            driver.close()
            self._driver = None
            _note_unheard(self._result, driver.take_steering())
        return goes_on

    async def _begin(self) -> Driver:
        self._has_begun = True
        driver, commands, started = await self._open(self)
        self._driver = driver
        self.answer_tool = driver.machine.config.answer
        driver.prepare(commands, started)
        for message in self._early:
            driver.steer(message)
        if self._cancelled is not None:
            driver.cancel(self._cancelled)
        return driver

    def wait(self, *, check: bool = True) -> RunResult[AnswerT]:
        """The same as `result`, in blocking code."""
        return portal.run(self.result(check=check))

    @property
    def outcome(self) -> RunResult[AnswerT] | None:
        """The result, after the run has ended."""
        return self._result

    # ---- control -----------------------------------------------------------------------------------------------------

    def steer(self, words: Any) -> None:
        """Add a user message during the run. The model receives it with the next request.

        A message after the last request is in the problems of the result, as `unheard`.
        """
        messages = read_task(words)
        if self._result is not None:
            _note_unheard(self._result, messages)
        elif self._driver is None:
            self._early += messages
        else:
            for message in messages:
                self._driver.steer(message)

    def cancel(self, reason: str = "") -> None:
        """End the run now. Every call gets a result, and the outcome is `cancelled`.

        From another thread, call it through `loop.call_soon_threadsafe`.
        """
        if self._driver is None:
            self._cancelled = reason or "cancelled before the start"
        else:
            self._driver.cancel(reason)

    def abandon(self) -> None:
        """Leave the run without an end if its task is cancelled, because another process continues it."""
        if self._driver is not None:
            self._driver.abandon()

    async def flush(self) -> None:
        """Store what the journal holds back between two commands."""
        if self._driver is not None:
            await self._driver.flush()

    async def leave(self) -> None:
        """Stop between two commands, without an end: another process continues the run."""
        driver, self._driver = self._driver, None
        if driver is not None:
            await driver.release()
            driver.close()

    # ---- the events --------------------------------------------------------------------------------------------------

    @property
    def listeners(self) -> list[Listener]:
        """The listeners of this run, in addition to those of the agent."""
        return [self._take] if self._is_followed else []

    def _take(self, run_id: str, event: RunEvent) -> None:
        if type(event) is not ToolProgressed or not self._replace_progress(event):
            self._events.append(event)
        self._news.set()

    def _replace_progress(self, event: ToolProgressed) -> bool:
        """Put a progress in the place of the one before it, if the reader is far behind: a tool does not wait."""
        events = self._events
        if len(events) <= _AHEAD:
            return False
        for place in range(-1, -_RECENT - 1, -1):
            waiting = events[place]
            if type(waiting) is ToolProgressed and waiting.call_id == event.call_id:
                events[place] = event
                return True
        return False

    async def wait_for_room(self) -> None:
        """Wait while the reader of the events is far behind."""
        while self._is_followed and len(self._events) > _AHEAD:
            self._room.clear()
            await self._room.wait()

    async def __aiter__(self) -> AsyncGenerator[RunEvent, None]:
        self._is_followed = True
        task = asyncio.create_task(self._finish())
        task.add_done_callback(lambda done: self._news.set())
        try:
            while not task.done() or self._events:
                await self._news.wait()
                if not task.done():
                    self._news.clear()
                while self._events:
                    event = self._events.popleft()
                    self._room.set()
                    yield event
            await task
        finally:
            self._is_followed = False
            self._room.set()
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
            if not task.cancelled():
                task.exception()

    def __iter__(self) -> Iterator[RunEvent]:
        return portal.iterate(self.__aiter__())

    def text_stream(self, *, check: bool = True) -> TextStream:
        """Iterate over the text of the replies, without reasoning and calls: `async for`, or `for` in blocking code.

        At the end it raises `RunFailed` if the run failed, unless `check=False`.
        """
        return TextStream(self, check)

    def answer_stream(self, *, check: bool = True) -> AnswerStream[AnswerT]:
        """Iterate over the structured answer while it arrives, as growing partial objects; the last one has the data.

        At the end it raises `RunFailed` if the run failed, unless `check=False`.
        """
        from dragoman.agent.partial import AnswerStream

        return AnswerStream(self, check)

    def put(self, event: Any) -> None:
        """Add an item to the events that the reader of this run gets."""
        self._take(self.run_id, event)


def _note_unheard(result: RunResult[Any], messages: Iterable[Message]) -> None:
    """Add messages that came after the end of the machine to the problems of a result."""
    result.problems.extend(Problem("unheard", UNHEARD.format(text=each.text[:200]), result.turns) for each in messages)


class TextStream:
    """The text of a run as it arrives."""

    def __init__(self, run: Run[Any], check: bool) -> None:
        self._run = run
        self._check = check

    async def __aiter__(self) -> AsyncGenerator[str, None]:
        async with aclosing(aiter(self._run)) as events:
            async for event in events:
                if isinstance(event, TextDelta) and event.text:
                    yield event.text
        if self._check and self._run.outcome is not None:
            check_result(self._run.outcome)

    def __iter__(self) -> Iterator[str]:
        return portal.iterate(self.__aiter__())
