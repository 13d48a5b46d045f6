"""A run as a script: the inputs that the machine receives, and the commands that it has to return.

    Playbook(weather).starts("hi").asks().replies(call("weather", city="Paris")).runs("weather").answers("sunny")
    .asks().replies("It is sunny.").ends("answered")

Nothing may be passed over: an input is only taken when every command before it was expected. Replies are read by the
reader that a driver would use. At the end of every script, the conversation has to be whole, and a machine that is told
the same things out of a journal has to be where this one was, at every step.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeVar

from msgspec.structs import replace

from dragoman.agent.config import RunConfig
from dragoman.agent.context import ContextSettings
from dragoman.agent.events import Asked, LoopEvent, Noticed, ToolEnded, TurnEnded
from dragoman.agent.handle import read_task
from dragoman.agent.machine import Machine
from dragoman.agent.protocol import (
    Approved,
    Ask,
    AskApproval,
    Cancelled,
    CancelTools,
    Command,
    Compact,
    Compacted,
    Denied,
    Emit,
    Finish,
    Input,
    Planned,
    RememberFact,
    Replied,
    Review,
    Reviewed,
    RunTools,
    Steered,
    Stopped,
    Ticked,
    ToolAnswered,
)
from dragoman.agent.records import Header, encode, kind_of
from dragoman.agent.result import CATEGORIES, RunResult, Spending
from dragoman.agent.resume import restore
from dragoman.extraction.tool_mode import open_reader
from dragoman.journal.journal import Record
from dragoman.replies import unfold
from dragoman.testing import scripted_endpoint
from dragoman.testing.script import as_reply, number_calls, write_as_text
from dragoman.tools import gather
from dragoman.toolset import Toolset
from dragoman.types import Failure, InvalidCall, Message, Reply, Text, Tool, ToolCall, ToolResult, Usage

USED = Usage(10, 5)
SEED = bytes(range(16))
Wanted = TypeVar("Wanted", bound=Command)


def make_config(*tools: Any, native: bool = True, **settings: Any) -> RunConfig:
    """Return the configuration of a run with these tools. Its endpoint belongs to no known vendor."""
    endpoint = settings.pop("endpoint", None) or scripted_endpoint(native=native)
    answer = settings.get("answer")
    if settings.pop("summary", False):
        settings["context"] = replace(settings.get("context", ContextSettings()), summary=True)
    offered: list[Tool] = [*gather(tools), *([answer] if answer is not None else [])]
    return RunConfig(endpoint, Toolset(offered), seed=SEED, run_id="run_1", **settings)


class Playbook:
    """One run, step by step. The methods for inputs come first, those that check commands follow."""

    def __init__(
        self, *tools: Any, native: bool = True, spending: Spending | None = None, replays: bool = True, **settings: Any
    ) -> None:
        self.config = make_config(*tools, native=native, **settings)
        self.machine = Machine(self.config, spending=spending)
        self.events: list[LoopEvent] = []
        self.asked: list[Ask] = []
        self.at = 0.0
        self._replays = replays and spending is None
        self._pending: list[Command] = []
        self._waiting: dict[str, list[ToolCall]] = {"run": [], "review": [], "approve": []}
        self._numbered = 0
        self._inputs: list[Input] = []
        self._seen: list[Any] = []
        self._header: Header | None = None

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def starts(self, *task: Any) -> Playbook:
        """Start the run with a text, or with messages."""
        messages = [message for each in task for message in read_task(each)]
        self._header = Header(SEED.hex(), messages, mode=self.machine.mode)
        self._take(self.machine.start(messages))
        self._seen.append(snapshot(self.machine))
        return self

    def replies(
        self,
        *said: Any,
        stop: Any = None,
        usage: Usage = USED,
        failure: Failure | None = None,
        model: str = "",
        reply: Reply | None = None,
    ) -> Playbook:
        """The model replies with texts, calls and other parts, or with the given reply."""
        made = reply if reply is not None else as_reply(list(said), usage=usage)
        made = number_calls(made, self._number)
        if self.ask.composed.chosen_mode.mode == "text":
            made = write_as_text(made, self.config.endpoint.prompt_format)
        made = replace(made, stop=stop or made.stop, failure=failure or made.failure)
        reader = open_reader(self.ask.composed, self.machine.conversation)
        for event in unfold(made):
            reader.feed(event)
        reader.close()
        return self.receives(Replied(made, reader.extraction, self.at, model))

    def fails(self, kind: Any, message: str = "", status: int | None = None, **more: Any) -> Playbook:
        """The request fails."""
        failure = Failure(kind, message, status, **more)
        reader = open_reader(self.ask.composed, self.machine.conversation)
        for event in unfold(Reply(Message("assistant"), failure=failure)):
            reader.feed(event)
        reader.close()
        return self.receives(Replied(reader.reply, reader.extraction, self.at))

    def answers(
        self,
        content: Any = "done",
        *,
        of: str | None = None,
        error: bool = False,
        ends: Literal["halted", "failed"] | None = None,
        reason: str = "",
        mistake: bool = False,
    ) -> Playbook:
        """A running call returns its result: the first one, or the one with the name `of`."""
        call = self._pick("run", of)
        result = ToolResult(call.id, call.name, content, is_error=error)
        return self.receives(ToolAnswered(call.id, result, ends, reason, mistake, 0.1, self.at))

    def hooks_answer(
        self,
        verdict: Literal["go", "deny", "stop"] = "go",
        *,
        of: str | None = None,
        arguments: dict[str, Any] | None = None,
        reason: str = "",
    ) -> Playbook:
        """The hooks return a verdict on a call."""
        return self.receives(Reviewed(self._pick("review", of).id, verdict, arguments, reason, self.at))

    def approves(self, *, of: str | None = None, arguments: dict[str, Any] | None = None) -> Playbook:
        return self.receives(Approved(self._pick("approve", of).id, arguments, "the user", self.at))

    def denies(self, reason: str = "", *, of: str | None = None, by: str = "the user") -> Playbook:
        return self.receives(Denied(self._pick("approve", of).id, reason, by, self.at))

    def steers(self, words: str) -> Playbook:
        """The user adds a message during the run."""
        return self.receives(Steered(Message("user", [Text(words)]), self.at))

    def compacts(self, messages: Sequence[Message], *losses: str) -> Playbook:
        """The compactor returns a shorter conversation."""
        return self.receives(Compacted(list(messages), list(losses), self.at))

    def is_cancelled(self, reason: str = "enough", *, partial: str = "") -> Playbook:
        return self.receives(Cancelled(reason, partial, self.at))

    def is_stopped(self, reason: str = "", *, failed: bool = False) -> Playbook:
        """A hook around a request stops the run."""
        return self.receives(Stopped(reason, failed, self.at))

    def later(self, seconds: float) -> Playbook:
        """Advance the clock. The machine learns of it with the next input."""
        self.at += seconds
        return self

    def ticks(self) -> Playbook:
        return self.receives(Ticked(self.at))

    def receives(self, told: Input) -> Playbook:
        """The machine receives this input."""
        assert not self._pending, (
            f"before {told!r} there are commands that no line of the script expects:\n{self._show()}"
        )
        self._inputs.append(told)
        self._take(self.machine.receive(told))
        self._seen.append(snapshot(self.machine))
        return self

    def _take(self, commands: Iterable[Command]) -> None:
        for command in commands:
            if isinstance(command, Emit):
                self.events.append(command.event)
            else:
                self._pending.append(command)

    def _number(self) -> str:
        self._numbered += 1
        return f"call_{self._numbered}"

    def _pick(self, state: str, of: str | None) -> ToolCall:
        waiting = self._waiting[state]
        found = [call for call in waiting if of in (None, call.name, call.id)]
        assert found, f"no call {of or ''} waits to {state}: {waiting}"
        waiting.remove(found[0])
        return found[0]

    # ---- commands ----------------------------------------------------------------------------------------------------

    def asks(
        self,
        *,
        mode: str | None = None,
        tools: list[str] | None = None,
        hearing: str | None = None,
        options: dict[str, Any] | None = None,
        model: str | None = None,
    ) -> Playbook:
        """The machine sends a request. `hearing` is a text that its last message contains."""
        ask = self._expect(Ask)
        self.asked.append(ask)
        request, chosen_mode = ask.composed.request, ask.composed.chosen_mode
        if mode is not None:
            assert chosen_mode.mode == mode
        if tools is not None:
            assert [tool.name for tool in request.tools] == tools
        if hearing is not None:
            assert hearing in words_of(request.messages[-1]), f"the last message is {words_of(request.messages[-1])!r}"
        if options is not None:
            assert {name: request.options.get(name) for name in options} == options
        if model is not None:
            assert request.model == model
        return self

    def reviews(self, *names: str) -> Playbook:
        """The machine passes these calls to the hooks."""
        for name in names:
            command = self._expect(Review)
            assert command.call.name == name
            self._waiting["review"].append(command.call)
        return self

    def asks_for_approval(self, name: str, why: str = "") -> Playbook:
        command = self._expect(AskApproval)
        assert command.call.name == name
        assert why in command.why, f"the reason is {command.why!r}"
        self._waiting["approve"].append(command.call)
        return self

    def runs(self, *names: str) -> Playbook:
        """The machine runs these calls concurrently."""
        command = self._expect(RunTools)
        assert [planned.call.name for planned in command.batch] == list(names), self._show(command)
        self._waiting["run"] += [planned.call for planned in command.batch]
        self.batch: tuple[Planned, ...] = command.batch
        return self

    def cancels_tools(self, *names: str) -> Playbook:
        """The machine cancels these running calls."""
        command = self._expect(CancelTools)
        stopped = [self._pick("run", call_id) for call_id in command.call_ids]
        assert [call.name for call in stopped] == list(names)
        return self

    def requests_compaction(self) -> Playbook:
        self.compact = self._expect(Compact)
        return self

    def learns(self, *, native: bool | None = None, wire: str = "") -> Playbook:
        fact = self._expect(RememberFact).fact
        assert (fact.native_tool_calls, fact.wire) == (native, wire)
        return self

    def ends(self, kind: str, reason: str = "", *, category: str | None = None, text: str | None = None) -> RunResult:
        """The run has ended with this outcome. Return its result."""
        result = self._expect(Finish).result
        outcome = result.outcome
        assert outcome.kind == kind, outcome
        if category is not None or kind != "provider_failed":
            assert outcome.category == (category or CATEGORIES[kind]), outcome
        assert reason.lower() in outcome.reason.lower(), f"the reason is {outcome.reason!r}"
        if text is not None:
            assert result.text == text
        self.is_idle()
        check_conversation(result.messages)
        check_account(result)
        check_events(self.events)
        if self._replays:
            self._check_replay()
        return result

    def is_idle(self) -> Playbook:
        """The machine has returned no further command."""
        assert not self._pending, f"there are more commands:\n{self._show()}"
        return self

    @property
    def ask(self) -> Ask:
        """The last request."""
        return self.asked[-1]

    def _expect(self, kind: type[Wanted]) -> Wanted:
        assert self._pending, f"{kind.__name__} was expected, and there is no command"
        command = self._pending.pop(0)
        assert isinstance(command, kind), f"{kind.__name__} was expected, not {self._show(command)}"
        return command

    def _show(self, *first: Command) -> str:
        return "\n".join(f"  {_describe(command)}" for command in [*first, *self._pending])

    # ---- results and events ------------------------------------------------------------------------------------------

    def has_result(self, call: str, words: str, *, error: bool | None = None, ran: bool | None = None) -> Playbook:
        """The last result of a call, by its id or the name of its tool, contains these words."""
        ended = [each for each in self.events if isinstance(each, ToolEnded) and call in (each.call.id, each.call.name)]
        assert ended, f"{call} has no result"
        last = ended[-1]
        assert words in content_of(last.result), f"the result of {call} is {content_of(last.result)!r}"
        assert error is None or last.result.is_error is error, last
        assert ran is None or last.ran is ran, last
        return self

    def notices(self, kind: str, words: str = "") -> Playbook:
        """An event `Noticed` of this kind contains these words."""
        found = [event for event in self.events if isinstance(event, Noticed) and event.kind == kind]
        assert any(words in event.message for event in found), [e for e in self.events if isinstance(e, Noticed)]
        return self

    # ---- replay ------------------------------------------------------------------------------------------------------

    def records(self, count: int | None = None) -> list[Record]:
        """Return the records of a journal after the first `count` inputs."""
        assert self._header is not None
        bodies: list[tuple[Any, bytes, str]] = [("run", encode(self._header), "")]
        for told in self._inputs[:count]:
            kind, call_id = kind_of(told)
            bodies.append((kind, encode(told), call_id))
        return [Record(number, kind, body, call_id) for number, (kind, body, call_id) in enumerate(bodies)]

    def _check_replay(self) -> None:
        for count in range(len(self._inputs) + 1):
            restored = restore(self.records(count), self.config)
            assert snapshot(restored.machine) == self._seen[count], f"after {count} inputs"


def snapshot(machine: Machine) -> Any:
    """Return the state of a machine: the conversation, its outstanding commands, and its result."""
    return list(machine.messages), [_essence(command) for command in machine.outstanding()], machine.result


def _essence(command: Command) -> Any:
    """Return the comparable parts of a command. Toolsets and estimates have no equality of their own."""
    if isinstance(command, Ask):
        composed = command.composed
        chosen_mode = composed.chosen_mode
        tools = [tool.name for tool in chosen_mode.tools]
        return (
            command.turn,
            composed.request,
            composed.nonce,
            chosen_mode.endpoint,
            chosen_mode.mode,
            tools,
            command.delivers,
        )
    if isinstance(command, Compact):
        return command.messages, command.budget.target, list(command.budget.tools)
    return command


def _describe(command: Command) -> str:
    if isinstance(command, Ask):
        request = command.composed.request
        return f"Ask {command.turn}: ... {words_of(request.messages[-1])!r:.200}"
    if isinstance(command, RunTools):
        return f"RunTools {[planned.call.name for planned in command.batch]}"
    if isinstance(command, Review | AskApproval):
        return f"{type(command).__name__} {command.call.name}"
    if isinstance(command, Finish):
        return f"Finish {command.result.outcome}"
    return f"{command!r:.300}"


# ---- what holds for every conversation -------------------------------------------------------------------------------


def check_conversation(messages: Sequence[Message]) -> None:
    """Check that each call has exactly one result, in the message after its reply, in the order of the calls."""
    seen: set[str] = set()
    for place, message in enumerate(messages):
        calls = [part.id for part in message.parts if isinstance(part, ToolCall | InvalidCall)]
        results = [part.call_id for part in message.parts if isinstance(part, ToolResult)]
        assert not (calls and message.role != "assistant")
        assert not (results and message.role != "tool")
        assert not seen & set(calls), f"an id is used twice: {calls}"
        seen |= set(calls)
        following = messages[place + 1] if place + 1 < len(messages) else None
        if calls:
            assert following is not None and following.role == "tool", f"message {place} is not answered"
            answered = [part.call_id for part in following.parts if isinstance(part, ToolResult)]
            assert answered == calls, f"{calls} were answered by {answered}"
        if message.role == "tool":
            before = messages[place - 1] if place else Message("user")
            assert any(isinstance(part, ToolCall | InvalidCall) for part in before.parts), "a result without a call"


def check_account(result: RunResult) -> None:
    """Check that the calls and results of a run are those of its conversation."""
    assert [call.id for call in result.calls] == [each.call_id for each in result.results]
    held = [part.call_id for message in result.messages for part in message.parts if isinstance(part, ToolResult)]
    listed = [each.call_id for each in result.results]
    assert held[len(held) - len(listed) :] == listed or not held


def check_events(events: Sequence[LoopEvent]) -> None:
    """Check that each request has the end of its turn, and that no call ends twice."""
    assert sum(isinstance(event, Asked) for event in events) == sum(isinstance(event, TurnEnded) for event in events)
    ended = [event.call.id for event in events if isinstance(event, ToolEnded)]
    assert len(ended) == len(set(ended))


def content_of(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


def words_of(message: Message) -> str:
    """Return the text of a message and of its results."""
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    results = [content_of(part) for part in message.parts if isinstance(part, ToolResult)]
    return "\n".join([*texts, *results])
