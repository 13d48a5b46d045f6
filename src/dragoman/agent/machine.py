"""The agent loop as a pure state machine: inputs in, commands out.

The machine decides, and a driver acts. `start` and `receive` take an input (what happened) and return commands (what
to do next); `protocol` defines both. The driver executes each command and answers it with an input:

    command       meaning                        answered by
    Ask           send a request to the model    Replied
    Compact       shorten the conversation       Compacted
    Review        call the hooks, inspect        Reviewed
    AskApproval   ask the approver               Approved, Denied, Postponed
    CheckAnswer   call the validators            AnswerChecked
    RunTools      run a batch of calls           ToolAnswered or Stale, for each call
    Emit, CancelTools, RememberFact              nothing
    Finish, Defer                                nothing: the run is over, or waits for an approval

Steered, ProblemNoted, ChildSpent, Stopped, Cancelled and Ticked answer no command; they may arrive at any time.

A run is in one of five states. Four have an attribute of their own, and at most one of these is set:

    asking       `_ask`       waits for Replied
    compacting   `_compact`   waits for Compacted
    calling      `_turn`      waits for inputs about the calls of the last reply
    checking     `_answer`    waits for AnswerChecked, if there are validators
    over         `result`     ignores every input

    start -> [compacting ->] asking -> calling -> [compacting ->] asking -> ... -> [checking ->] over

`_next` leads to the next request, unless a limit ends the run. `turn.CallTurn` is the machine of the calling state. It
has one slot for each call, and each slot follows this path (any state can also lead directly to settled):

    planned -> reviewing -> reviewed -> asking -> ready -> running -> settled
                                ^       |    ^                |
                                |       +-> postponed         |
                                +------------ Stale ----------+

Why it is pure. The machine opens no file or connection, reads no clock and uses no randomness. Times are the `at` of
the inputs, nonces come from `config.seed`, and prices and policies are functions in the configuration. A contract in
pyproject.toml forbids the imports that would break this. So the same inputs always give the same commands: an async
driver, a test and a durable engine share all decisions, and a test needs neither a model nor a mock of time.

How replay works. The driver stores each input in the journal before it executes a command that follows from it. To
resume a run, `resume.restore` builds a machine with the recorded seed and messages, sends it the recorded inputs and
ignores the commands, since they were executed before. Then `outstanding` returns the commands that have no answer yet.
Three details keep history and replay equal. `records.Past` supplies the recorded decisions, because the rules may have
changed since. A call with a record of its start but no result does not run again unless its tool is repeatable or
read-only; its result says that the outcome is unknown. Postponed is not recorded, so a resumed run asks again.

Invariants, and where they are enforced:

- Every call gets exactly one result, in the order of the calls. `CallTurn._settle` is the only code that sets the
  result of a slot, and `CallTurn.receive` ignores inputs for a slot in another state. `_settle` answers calls that
  never become slots; `_give_up` settles every open slot before the run ends.
- No request is sent while a call is open: `_after_calls` continues only when the turn is done.
- A call runs only if it is valid and the policy or an approver allowed it: `CallTurn._run` takes only `ready` slots.
- An input without its command changes nothing: `_dispatch` checks the state. After the end, `receive` returns [].
- The time of the machine never decreases: `receive` takes the maximum of `at`.
- Every run ends: `_next` enforces turns, tokens and cost, `receive` the deadline, `MistakeBudget` repeated mistakes,
  `watch` loops. `_finish` and `_defer` set the result, once.

tests/agent/test_laws.py checks these properties with random models, tools and approvers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from dragoman.agent.config import RunConfig
from dragoman.agent.context import budget_for
from dragoman.agent.events import Asked, Noticed, ToolEnded, TurnEnded
from dragoman.agent.protocol import (
    AnswerChecked,
    Ask,
    Cancelled,
    CheckAnswer,
    ChildSpent,
    Command,
    Compact,
    Compacted,
    Defer,
    Emit,
    Finish,
    Input,
    ProblemNoted,
    RememberFact,
    Replied,
    Steered,
    Stopped,
    Ticked,
    ToolAnswered,
)
from dragoman.agent.replies import is_empty, judge_failure, only_refused, read_answer, unwrap_answer, write_answer
from dragoman.agent.requests import RequestBuilder
from dragoman.agent.result import UNHEARD, Outcome, OutcomeKind, Problem, RunResult, Spending, add_cost, end
from dragoman.agent.turn import CallNews, CallTurn, MistakeBudget, PermissionState
from dragoman.agent.watch import Watch, is_starved
from dragoman.extraction import ConversationContext, Extraction
from dragoman.extraction.judge import RECOVERED
from dragoman.extraction.mistakes import BLANK
from dragoman.extraction.tool_mode import ComposedRequest, Mode, answer_parts, find_breach
from dragoman.providers.facts import cannot_read_call
from dragoman.providers.tokens import Estimate
from dragoman.replies import add_usage
from dragoman.types import Failure, InvalidCall, Message, Part, Reply, Text, ToolCall, ToolResult, Usage

# --------------------------------------------------------------------------------------------------------------------
# Statistics of a run: usage, cost, calls, results and problems.


class RunStats:
    """Collects the content of the result, except for the conversation."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self.usage = Usage()
        self.cost: float | None = 0.0
        self.last_usage = Usage()
        self.last_cost: float | None = None
        self.child_turns = 0
        self._model = ""
        self.calls: list[ToolCall | InvalidCall] = []
        self.results: list[ToolResult] = []
        self._problems: list[Problem] = []
        self.turn = 0
        """The current turn."""

    def spend(self, usage: Usage, cost: float | None, model: str) -> None:
        """Add the usage and cost of one reply."""
        self._model = model
        self.last_usage, self.last_cost = usage, cost
        self.usage = add_usage(self.usage, usage)
        self.cost = add_cost(self.cost, cost)

    def add_child(self, told: ChildSpent) -> None:
        """Add what child runs have used."""
        self.usage = add_usage(self.usage, told.usage)
        self.cost = add_cost(self.cost, told.cost)
        self.child_turns += told.turns

    def note(self, kind: str, message: str) -> None:
        """Add a problem, or a measure against one."""
        self._problems.append(Problem(kind, message, self.turn))

    def conclude(
        self, outcome: Outcome, text: str, data: Any, messages: list[Message], turns: int, model: str
    ) -> RunResult:
        """Return the result of the run."""
        return RunResult(
            outcome,
            text,
            data,
            messages,
            list(self.results),
            list(self.calls),
            self.usage,
            self.cost,
            turns + self.child_turns,
            list(self._problems),
            self._config.run_id,
            self._config.session,
            self._model or model,
        )


# --------------------------------------------------------------------------------------------------------------------
# The machine. The docstring of this module describes its states and invariants.

_SUMMARY = "You cannot call tools any more. Say briefly what you found, what you did, and what is still open."
_ANSWER = "Give the answer by calling {name}, with the answer in the form that its schema asks for."
_LAST = "This is your last reply: there is no turn after it, and you would not see the results of more calls. "
_FAULTY = "The answer does not fit the form that was asked for: {faults}. Give it again."
_REJECTED = "The answer was not accepted: {faults}. Please correct it, and answer again."
_ANSWERED = "Not run: a final answer was given in the same reply."
_BROKEN_OFF = "Your last reply ended with an error before it was complete. Please make the call again, or answer again."
_SUMMARISED: frozenset[OutcomeKind] = frozenset({"turn_limit", "looping", "mistake_limit"})


class OpenAnswer(Struct, frozen=True):
    """An answer that the validators have not judged yet, and the call that gave it, if one did."""

    data: Any
    command: CheckAnswer
    calls: tuple[ToolCall | InvalidCall, ...] = ()
    given: ToolCall | None = None


_RARE = frozenset((Cancelled, Stopped, Steered, ProblemNoted, ChildSpent))


class Machine:
    """The state machine of one run."""

    def __init__(
        self,
        config: RunConfig,
        *,
        spending: Spending | None = None,
        estimate: Estimate | None = None,
        sources: Iterable[Message] = (),
    ) -> None:
        """`sources` are earlier messages that the conversation does not contain any more, for the echo guard."""
        self.config = config
        self.messages: list[Message] = []
        self.spending = spending or Spending(config.limits)
        self.stats = RunStats(config)
        self.conversation = ConversationContext(sources, config.tools)
        self.estimate = estimate or Estimate(config.endpoint)
        self._asking = RequestBuilder(config)
        self._watch = Watch(config.watch)
        self.permissions = PermissionState(config)
        self._mistakes = MistakeBudget(config.limits)
        self._now = 0.0
        self._turn_began = 0.0
        self._turn: CallTurn | None = None
        self._ask: Ask | None = None
        self._compact: Compact | None = None
        self._answer: OpenAnswer | None = None
        self._steering: list[Message] = []
        self._notice = ""
        self._nudge: str | None = None
        self._undelivered: tuple[str, ...] = ()
        self._asks = 0
        self._open_turn = 0
        self._was_forced = self._was_compacted = False
        self._summarising: Outcome | None = None
        self._text = ""
        self.result: RunResult | None = None

    # ---- the interface of the driver ---------------------------------------------------------------------------------

    def start(self, messages: Iterable[Message], at: float = 0.0) -> list[Command]:
        """Start the run with this conversation."""
        self._now = self._turn_began = at
        self._add(*messages)
        config = self.config
        if self.spending.needs_price and config.price(Usage(1, 1), config.endpoint, "") is None:
            # A limit that cannot be checked is no limit. The run fails before it spends anything.
            return self._finish(end("cost_limit", "a cost limit is set, but the price of the model is unknown"))
        return self._next()

    def receive(self, told: Input) -> list[Command]:
        """Process an input and return the next commands. After the end of the run, inputs change nothing."""
        self._now = max(self._now, told.at)
        if self.result is not None:
            return []
        if type(told) in _RARE:
            return self._receive_rare(told)
        is_late = self.deadline is not None and self._now >= self.deadline
        return self._run_out(told) if is_late else self._dispatch(told)

    def _receive_rare(self, told: Input) -> list[Command]:
        """Process what is no answer to a command."""
        if isinstance(told, Cancelled):
            if self._turn is not None:
                self._turn.take_back(told.unstarted)
            return self._give_up(end("cancelled", told.reason), "Not run: the run was cancelled.", told.partial)
        if isinstance(told, Stopped):
            kind: OutcomeKind = "hook_failed" if told.failed else "stopped"
            if self._ask is not None:
                self._spend(told.usage, told.model, was_sent=told.usage != Usage())
            return self._give_up(end(kind, told.reason), "Not run: the run was stopped.")
        if isinstance(told, Steered):
            self._steering.append(told.message)
            return []
        if isinstance(told, ProblemNoted):
            self.stats.note(told.kind, told.message)
            return []
        assert isinstance(told, ChildSpent)
        self.stats.add_child(told)
        if self.permissions.past is not None:
            # In a replay no child adds to the budget itself.
            self.spending.add(told.usage, told.cost, told.turns)
        return []

    def _run_out(self, told: Any) -> list[Command]:
        """The deadline has passed. The last input still counts: a reply was paid for, and a tool had its effect."""
        outcome = end("time_limit", f"the limit of {self.config.limits.seconds:g} seconds is reached")
        taken: list[Command] = []
        partial = ""
        if isinstance(told, Replied) and self._ask is not None:
            self._spend(told.reply.usage, told.model, was_sent=told.reply.failure is None)
            partial = told.found.text or told.reply.text
        elif isinstance(told, ToolAnswered) and self._turn is not None:
            taken = self._turn.take_last(told)
        return [*taken, *self._give_up(outcome, "Not run: the time is over.", partial)]

    def _dispatch(self, told: Any) -> list[Command]:
        if isinstance(told, Replied):
            return self._replied(told) if self._ask is not None else []
        if isinstance(told, Compacted):
            return self._compacted(told) if self._compact is not None else []
        if isinstance(told, CallNews):
            return self._called(told) if self._turn is not None else []
        if isinstance(told, AnswerChecked):
            return self._checked(told) if self._answer is not None else []
        assert isinstance(told, Ticked)
        return []

    @property
    def mode(self) -> Mode:
        """How the tools are offered: `native`, `text`, or empty without tools."""
        return self._asking.mode

    @property
    def deadline(self) -> float | None:
        """The deadline of the run, in seconds since its start."""
        return self.config.limits.seconds

    @property
    def running(self) -> tuple[str, ...]:
        """The ids of the calls that run, or are about to."""
        return self._turn.running if self._turn is not None else ()

    def outstanding(self) -> list[Command]:
        """Return the commands without an answer, for a driver that resumes the run."""
        if self._turn is not None:
            return self._turn.outstanding()
        checking = self._answer.command if self._answer is not None else None
        waiting: Command | None = self._compact or self._ask or checking
        return [waiting] if waiting is not None else []

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _next(self) -> list[Command]:
        """Ask the model, unless a limit is reached or the conversation has to be compacted first."""
        exceeded = self.spending.exceeded()
        if exceeded is not None:
            return self._limit(*exceeded)
        if not self.spending.turns_left():
            return self._limit("turn_limit", self._explain_turns())
        notice = [Message("user", [Text(self._notice)])] if self._notice else []
        self._add(*notice, *self._steering)
        self._steering = []
        self._notice = ""
        return self._shorten() or self._send()

    def _explain_turns(self) -> str:
        used, own = self.spending.turns, self.config.limits.turns
        if used < own:
            return "the turn limit of the parent run is reached"
        children = self.stats.child_turns
        others = f"; agents that this run called used {children} of them" if children else ""
        return f"the turn limit of {own} is reached{others}"

    def _shorten(self, *, overflowed: bool = False) -> list[Command]:
        """Request a compaction if the conversation no longer fits."""
        if self._was_compacted:
            return []
        config = self.config
        budget = budget_for(
            self.messages,
            self._asking.described,
            self.estimate,
            config.window,
            config.context,
            max_tokens=self._asking.max_tokens,
            overflowed=overflowed,
        )
        if budget is None:
            return []
        self._compact = Compact(list(self.messages), budget)
        return [self._compact]

    def _compacted(self, told: Compacted) -> list[Command]:
        self._compact = None
        self._was_compacted = True
        self.messages = list(told.messages)
        words = "; ".join(told.losses) or "nothing could be left out"
        self.stats.note("compacted", words)
        return [Emit(Noticed("compacted", words, self._asks)), *self._next()]

    def _say_last(self) -> str | None:
        """Return the hint before the last turn. It is no part of the conversation, so that the prompt stays stable."""
        is_last = self._asks > 0 and self._asking.mode and self.spending.turns_left() == 1
        if not is_last or not self.config.context.wrap_up:
            return None
        answer = self.config.answer
        return _LAST + (_ANSWER.format(name=answer.name) if answer is not None else "Answer now, with what you have.")

    def _send(self, *, offers_tools: bool = True) -> list[Command]:
        if offers_tools:
            self._nudge = "\n".join(filter(None, (self._nudge, self._say_last()))) or None
        composed = self._asking.write(self.messages, self._nudge, offers_tools=offers_tools)
        asked = len(self.messages) + (self._nudge is not None)
        self._nudge = None
        closed = self._close_turn()
        self.stats.turn = self._asks + 1
        for kind, words in self._asking.take_news():
            self.stats.note(kind, words)
            # People need no notice of shorter descriptions and of a clean history.
            closed += [Emit(Noticed(kind, words, self._asks + 1))] if kind == "tools_deferred" else []
        self._count_turn(1)
        self._open_turn = self._asks
        self._turn_began = self._now
        self._was_compacted = False
        self._ask = Ask(self._asks, composed, self._turn_deadline(), self._undelivered)
        chosen_mode = composed.chosen_mode
        event = Asked(
            self._asks,
            chosen_mode.endpoint.model,
            asked,
            len(chosen_mode.known),
            chosen_mode.mode,
            chosen_mode.endpoint.provider.name,
        )
        return [*closed, Emit(event), self._ask]

    def _count_turn(self, number: int) -> None:
        """Count a request, or take back one that got no reply."""
        self._asks += number
        self.spending.add(Usage(), 0.0, number)

    def _turn_deadline(self) -> float | None:
        seconds = self.config.limits.turn_seconds
        ends = [self._turn_began + seconds] if seconds is not None else []
        ends += [self.deadline] if self.deadline is not None else []
        return min(ends) if ends else None

    # ---- replies -----------------------------------------------------------------------------------------------------

    def _replied(self, told: Replied) -> list[Command]:
        assert self._ask is not None
        sent, self._ask = self._ask, None
        reply = told.reply
        self._spend(reply.usage, told.model, was_sent=reply.failure is None)
        if self.config.window is not None:
            request = sent.composed.request
            size = self.estimate.characters(request.messages, request.tools)
            self.estimate.learn(size, reply.usage.input_tokens)
        if reply.failure is not None:
            return self._failed(told, reply.failure)
        self._was_forced = False
        self._undelivered = ()
        self._asking.end_retry()
        fact = self._asking.confirm()
        learned: list[Command] = [RememberFact(fact.fact, fact.endpoint)] if fact is not None else []
        doubt = self._asking.doubt(reply, told.found, sent.composed.request)
        if doubt is not None:
            self.stats.note("tools_ignored", doubt.words)
            notice = Emit(Noticed("tools_ignored", doubt.words, self._open_turn))
            learned += [RememberFact(doubt.fact, doubt.endpoint), notice]
            if not told.found.calls and self._summarising is None:
                # The model never saw the tools, so its reply says nothing about the task.
                self._asks -= 1
                return [*learned, *self._next()]
        if self._summarising is not None:
            self._text = told.found.text or reply.text
            self._add_words(reply.message)
            return [*learned, *self._finish(self._summarising)]
        return [*learned, *self._read(told, sent.composed)]

    def _spend(self, usage: Usage, model: str, *, was_sent: bool = True) -> None:
        """Count a reply. A request without a reply costs nothing, even if no price is known."""
        endpoint = self._asking.endpoint
        priced = was_sent or usage != Usage()
        cost = self.config.price(usage, endpoint, model or endpoint.model) if priced else 0.0
        self.spending.add(usage, cost)
        self.stats.spend(usage, cost, model or endpoint.model)

    def _read(self, told: Replied, composed: ComposedRequest) -> list[Command]:
        reply, found = told.reply, told.found
        self._text = found.text
        if not (found.calls or found.invalid) and reply.stop not in ("refusal", "pause"):
            if only_refused(found):
                self._add_answer(told)
                return self._repair(found.notice, f"the model's calls do not count: {found.refused[0].why}")
            if found.suspects and found.notice and self.config.answer is None and self._mistakes.allows_repair():
                return self._ask_about_suspects(told)
            if is_empty(reply, found):
                # The empty reply is not kept: some providers would reject it, and it is of no use to the model.
                return self._starved(reply) if is_starved(reply, self._asking.max_tokens) else self._blank()
        self._mistakes.blanks = 0
        calls = self._add_answer(told)
        if reply.stop == "refusal":
            return self._refused(calls)
        self._note_doubts(found)
        breach = find_breach(composed, [call.name for call in calls]) if reply.stop != "pause" else ""
        if breach:
            return self._refuse_choice(calls, breach)
        if calls:
            self._notice = found.notice
            return self._call(calls)
        if reply.stop == "pause":
            return self._next()
        if reply.stop == "error":
            # Some providers end a reply so if they cannot read the call of the model. The text before it is no answer.
            return self._repair(_BROKEN_OFF, "the reply of the model ended with an error of the provider")
        if self.config.answer is not None:
            return self._take_text(found.text, complete=reply.stop != "length")
        if reply.stop == "length":
            return self._finish(end("truncated", "the token limit cut off the answer"))
        return self._offer(found.text, None)

    def _ask_about_suspects(self, told: Replied) -> list[Command]:
        """The reply attempted a call. Tell the model once, so that it makes the call, or answers without one."""
        self._note_doubts(told.found)
        self._add_answer(told)
        self._add(Message("user", [Text(told.found.notice)]))
        return self._next()

    def _note_doubts(self, found: Extraction) -> None:
        for call in found.calls:
            if RECOVERED in call.repairs:
                self.stats.note(
                    "call_recovered", f"the endpoint could not read a call of {call.name}; it was read here"
                )
        for entry in found.refused:
            self.stats.note("refused_call", f"{entry.name}: {entry.why}")
        for suspect in found.suspects:
            self.stats.note("suspect", f"{suspect.name or 'a call without a name'}: {suspect.why}")

    def _add_answer(self, told: Replied) -> list[ToolCall | InvalidCall]:
        """Add the reply to the conversation. Return its calls in order."""
        read: list[ToolCall | InvalidCall] = [*told.found.calls, *told.found.invalid]
        parts = answer_parts(told.reply.message.parts, told.found.text, read)
        self._add_reply(told.reply.message, parts)
        return [part for part in parts if isinstance(part, ToolCall | InvalidCall)]

    def _add_words(self, message: Message) -> None:
        """Add a reply whose calls do not count to the conversation."""
        self._add_reply(message, [part for part in message.parts if not isinstance(part, ToolCall | InvalidCall)])

    def _add_reply(self, message: Message, parts: Sequence[Part]) -> None:
        """A reply that contains only white space is not added: some providers would reject it."""
        if any(not isinstance(part, Text) or part.text.strip() for part in parts):
            self._add(Message("assistant", list(parts), message.extra))

    def _offer(
        self, answer: Any, data: Any, calls: Sequence[ToolCall | InvalidCall] = (), given: ToolCall | None = None
    ) -> list[Command]:
        """The model has answered: pass the answer to the validators, if there are any."""
        if self.config.validates:
            self._answer = OpenAnswer(data, CheckAnswer(answer), tuple(calls), given)
            return [self._answer.command]
        return self._accept(given, calls, data) if given is not None else self._answered(data)

    def _checked(self, told: AnswerChecked) -> list[Command]:
        assert self._answer is not None
        answer, self._answer = self._answer, None
        if told.rejected is None:
            if answer.given is not None:
                return self._accept(answer.given, answer.calls, answer.data)
            return self._answered(answer.data)
        words, reason = _REJECTED.format(faults=told.rejected), f"the answer was not accepted: {told.rejected}"
        if answer.given is not None:
            return self._reject(answer.given, answer.calls, words, reason)
        return self._repair(words, reason)

    def _answered(self, data: Any) -> list[Command]:
        """The model is done, unless the user has added a message meanwhile."""
        if self._steering:
            return self._next()
        return self._finish(end("answered"), data)

    def _refused(self, calls: Sequence[ToolCall | InvalidCall]) -> list[Command]:
        told = self._settle(calls, "Not run: the provider withheld the reply that made this call.")
        return [*told, *self._finish(end("refused", self._text or "the model or its provider declined to answer"))]

    def _refuse_choice(self, calls: Sequence[ToolCall | InvalidCall], breach: str) -> list[Command]:
        """The endpoint let the model violate the tool choice: no call of the reply runs, and the model learns why."""
        told = self._settle(calls, f"Not run: {breach}.")
        return [*told, *self._repair(f"{breach[:1].upper()}{breach[1:]}. Please keep to it.", breach)]

    def _blank(self) -> list[Command]:
        if not self._mistakes.allows_blank():
            return self._finish(end("blank", f"the model sent {self._mistakes.blanks} empty replies in a row"))
        self.stats.note("blank", "the model sent an empty reply and was asked again")
        self._nudge = BLANK
        return self._next()

    def _starved(self, reply: Reply) -> list[Command]:
        allowed = self._asking.escalate(reply.usage.output_tokens)
        if allowed is None:
            return self._finish(end("starved", "the model used all its tokens for reasoning"))
        words = f"the model used all its tokens for reasoning; the limit is now {allowed}"
        self.stats.note("starved", words)
        return [Emit(Noticed("starved", words, self._asks)), *self._next()]

    def _repair(self, words: str, reason: str) -> list[Command]:
        """Tell the model what was wrong with its reply, up to a limit in a row."""
        if not self._mistakes.allows_repair():
            asked = self._mistakes.repairs - 1
            return self._limit("mistake_limit", f"{reason}; the model was asked {asked} times to correct it")
        self._add(Message("user", [Text(words)]))
        return self._next()

    def _take_text(self, text: str, *, complete: bool) -> list[Command]:
        """The model wrote text instead of a structured answer: the text may contain the answer."""
        assert self.config.answer is not None
        data, faults = read_answer(text, self.config.answer, complete=complete)
        if not faults:
            return self._offer(data, data)
        words = _ANSWER.format(name=self.config.answer.name)
        return self._repair(words, f"no answer in the form that was asked for: {faults}")

    # ---- failures ----------------------------------------------------------------------------------------------------

    def _failed(self, told: Replied, failure: Failure) -> list[Command]:
        again = self._try_otherwise(told, failure) if self._summarising is None else None
        if again is not None:
            return again
        partial = told.found.text or told.reply.text
        if partial.strip():
            self._text = partial
            self._add(Message("assistant", [Text(partial)]))
        return self._finish(self._summarising or judge_failure(failure))

    def _try_otherwise(self, told: Replied, failure: Failure) -> list[Command] | None:
        """React to a failure with a shorter conversation, another tool mode or another model; None if none helps.

        A request that got no reply does not count as a turn.
        """
        if failure.kind == "context_too_long" and not self._was_forced:
            self._was_forced = True
            demanded = self._shorten(overflowed=True)
            if demanded:
                self._count_turn(-1)
                return demanded
        kind, words = "tools_rejected", ""
        learned: list[Command] = []
        is_unread = cannot_read_call(failure)
        fact = self._asking.relearn(failure) if not is_unread else None
        if is_unread:
            # The endpoint takes tools, and could not read this one reply: nothing is learned.
            kind, words = "call_unread", self._asking.retry_otherwise(failure) or ""
        if fact is not None:
            kind, words = ("quirk_learned" if fact.fact.quirks else kind), fact.words
            learned = [RememberFact(fact.fact, fact.endpoint)] if fact.is_sure else []
        elif not words and not told.reply.message.parts and not told.found.text:
            kind, words = "model_replaced", self._asking.replace_model(failure) or ""
        if not words:
            return None
        self._count_turn(-1)
        self.stats.note(kind, words)
        return [*learned, Emit(Noticed(kind, words, self._open_turn)), *self._next()]

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _call(self, calls: list[ToolCall | InvalidCall]) -> list[Command]:
        answered = self._take_answer(calls)
        if answered is not None:
            return answered
        self._turn = CallTurn(self.config, self._watch, self.permissions, self._asks, calls, self._turn_deadline())
        commands = self._turn.begin(self._now)
        return [*commands, *self._after_calls()]

    def _take_answer(self, calls: list[ToolCall | InvalidCall]) -> list[Command] | None:
        """Return the commands after a structured answer, if the calls contain one. The other calls do not run."""
        answer = self.config.answer
        named = answer.name if answer is not None else None
        given = next((call for call in calls if call.name == named and isinstance(call, ToolCall)), None)
        if answer is None or not isinstance(given, ToolCall):
            return None
        data, faults = unwrap_answer(given, answer)
        if not faults:
            return self._offer(data, data, calls, given)
        reason = f"no answer in the form that was asked for: {faults}"
        return self._reject(given, calls, _FAULTY.format(faults=faults), reason)

    def _accept(self, given: ToolCall, calls: Sequence[ToolCall | InvalidCall], data: Any) -> list[Command]:
        self._text = self._text or write_answer(given)
        told = self._settle(calls, _ANSWERED, ToolResult(given.id, given.name, "Accepted."))
        return [*told, *self._answered(data)]

    def _reject(
        self, given: ToolCall, calls: Sequence[ToolCall | InvalidCall], words: str, reason: str
    ) -> list[Command]:
        told = self._settle(calls, _ANSWERED, ToolResult(given.id, given.name, words, is_error=True))
        if not self._mistakes.allows_repair():
            return [*told, *self._limit("mistake_limit", reason)]
        return [*told, *self._next()]

    def _settle(
        self, calls: Sequence[ToolCall | InvalidCall], words: str, own: ToolResult | None = None
    ) -> list[Command]:
        """Give calls that did not run a result: all the same text, except for the call with its `own` result."""
        results = [
            own if own and own.call_id == call.id else ToolResult(call.id, call.name, words, is_error=True)
            for call in calls
        ]
        self._add_results(calls, results)
        ends = [Emit(ToolEnded(call, result, ran=False)) for call, result in zip(calls, results, strict=True)]
        return [*ends, *self._close_turn(results)]

    def _called(self, told: CallNews) -> list[Command]:
        assert self._turn is not None
        return [*self._turn.receive(told, self._now), *self._after_calls()]

    def _after_calls(self) -> list[Command]:
        """Continue when every call of the reply has a result."""
        turn = self._turn
        if turn is not None and turn.is_parked:
            return self._defer(turn)
        if turn is None or not turn.is_done:
            return []
        self._turn = None
        calls, results = [slot.call for slot in turn.slots], turn.results
        self._add_results(calls, results)
        commands = self._close_turn(results)
        verdict = self._watch.turn(calls, results, self._text)
        outcome = turn.outcome
        if outcome is None and verdict is not None:
            commands.append(Emit(Noticed(verdict.kind, verdict.message, turn.number)))
            outcome = end("looping", verdict.message)
        if outcome is not None:
            self._text = turn.answer or self._text
            ending = self._limit("looping", outcome.reason) if outcome.kind == "looping" else self._finish(outcome)
            return [*commands, *ending]
        self._undelivered = tuple(result.call_id for result in results)
        if any(slot.ran for slot in turn.slots):
            self._asking.relax_choice()
        insistent, may_go_on = self._mistakes.find_insistent(turn), self._mistakes.allows_calls(turn)
        if may_go_on and not insistent:
            return [*commands, *self._next()]
        told = f"{self._mistakes.mistakes} turns in a row without a call that could run"
        if insistent:
            told = f"{insistent} asked the model to call it again more often than {self.config.limits.repairs} times"
        last = next((each for each in reversed(results) if each.name == insistent), results[-1]).content
        return [
            *commands,
            *self._limit("mistake_limit", f"{told}; the last: {last[:300] if type(last) is str else ''}"),
        ]

    def _defer(self, turn: CallTurn) -> list[Command]:
        """Leave the run open. Its result shows every call with a result."""
        messages = [*self.messages, Message("tool", list(turn.show_waiting()))]
        names = ", ".join(slot.call.name for slot in turn.slots if slot.state == "postponed")
        outcome = end("awaiting_approval", f"approval is needed for {names}")
        model = self._asking.endpoint.model
        self.result = self.stats.conclude(outcome, self._text, None, messages, self._asks, model)
        return [Defer(self.result)]

    def _close_turn(self, results: Sequence[ToolResult] = ()) -> list[Command]:
        """Emit the end of a turn, once."""
        number, self._open_turn = self._open_turn, 0
        spent = self.stats
        return [Emit(TurnEnded(number, spent.last_usage, spent.last_cost, list(results)))] if number else []

    # ---- ends --------------------------------------------------------------------------------------------------------

    def _limit(self, kind: Any, reason: str) -> list[Command]:
        """End at a limit. If the settings allow it, the model writes a summary first, without tools."""
        outcome = end(kind, reason)
        may_summarise = self.config.context.summary and kind in _SUMMARISED and self.spending.exceeded() is None
        if not may_summarise or self._summarising is not None:
            return self._finish(outcome)
        self._summarising = outcome
        self._nudge = _SUMMARY
        return self._send(offers_tools=False)

    def _give_up(self, outcome: Outcome, words: str, partial: str = "") -> list[Command]:
        """End immediately, in any state. Every call gets a result."""
        commands: list[Command] = []
        if self._turn is not None:
            commands += self._turn.abandon(words)
            results = self._turn.results
            self._add_results([slot.call for slot in self._turn.slots], results)
            commands += self._close_turn(results)
            self._turn = None
        elif self._answer is not None and self._answer.calls:
            commands += self._settle(self._answer.calls, words)
        elif partial.strip():
            self._text = partial
            self._add(Message("assistant", [Text(partial)]))
        self._ask = self._compact = self._answer = None
        return [*commands, *self._finish(outcome)]

    def _finish(self, outcome: Outcome, data: Any = None) -> list[Command]:
        for message in self._steering:
            self.stats.note("unheard", UNHEARD.format(text=message.text[:200]))
        closed = self._close_turn()
        model = self._asking.endpoint.model
        self.result = self.stats.conclude(outcome, self._text, data, list(self.messages), self._asks, model)
        return [*closed, Finish(self.result)]

    def _add(self, *messages: Message) -> None:
        self.messages += messages
        self.conversation.extend(messages)

    def _add_results(self, calls: Sequence[ToolCall | InvalidCall], results: list[ToolResult]) -> None:
        self.stats.calls += calls
        self.stats.results += results
        if results:
            self._add(Message("tool", list(results)))
