"""The calls of one reply, from planned to answered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.agent.config import RunConfig
from dragoman.agent.events import CallDecided, Noticed, ToolEnded
from dragoman.agent.protocol import (
    Approved,
    AskApproval,
    CancelTools,
    Command,
    Denied,
    Emit,
    Planned,
    Postponed,
    Review,
    Reviewed,
    RunTools,
    Stale,
    ToolAnswered,
)
from dragoman.agent.records import Past
from dragoman.agent.result import Limits, Outcome, OutcomeKind, end
from dragoman.agent.watch import Verdict, Watch, duplicates
from dragoman.args import load
from dragoman.errors import ConfigError
from dragoman.extraction import explain_invalid
from dragoman.policy import Decision, DecisionContext, Rules, consult, decide, read_rule, suggest_rule
from dragoman.policy.rules import strictest_of
from dragoman.tools.results import replace_result
from dragoman.types import InvalidCall, Operand, Text, Tool, ToolCall, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# Messages to the model for calls that did not run. They name the user only if a user decided.

NOBODY = (
    "Not run: this call needs approval, and nobody is there to give it. Go on without it, or say what you would have "
    "done."
)
_HOW_TO_ALLOW = (
    "The person who starts the run can allow it in advance, with a rule in `allow` or `auto_approve`, or with an "
    "approver."
)
_ONLY_A_PERSON = "No rule can allow it in advance: a person has to check it, so the run needs an approver."
_FIRM = ("trust", "protected", "uninspected")
TOO_STALE = (
    "Not run: what was approved changed again and again before it could run ({reason}). Find out what changes it first."
)
WAITING = "Not run yet: this call waits for approval."


def say_decided(decision: Decision) -> str:
    """Return the message for a denial by the policy."""
    return f"Denied by policy: {decision.reason}"


def say_nobody(decision: Decision) -> str:
    """Return the message for a call that needs an approval, in a run without an approver."""
    why = f" ({decision.reason})" if decision.reason else ""
    how = _ONLY_A_PERSON if decision.code in _FIRM else _HOW_TO_ALLOW
    return f"{NOBODY}{why} {how}"


def say_denied(told: Denied) -> str:
    """Return the message for a denial by the approver."""
    by = told.by or "the user"
    return f"Denied by {by}: {told.reason}" if told.reason else f"Denied by {by}."


# --------------------------------------------------------------------------------------------------------------------
# Permission: the rules of the run, the developer's policies, and the rules of the parent runs.
#
# The strictest decision counts. Rules that an approver added apply for the rest of the run.


class PermissionState:
    """Decides on the calls of one run."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self.rules = config.rules
        self.past: Past | None = None
        """The recorded decisions, during a replay."""

    @property
    def chain(self) -> tuple[Rules, ...]:
        """The rules of this run and of its parent runs."""
        return (self.rules, *self._config.rules_above)

    def decide(self, call: ToolCall, tool: Tool, operands: Sequence[Operand], uninspected: str = "") -> Decision:
        """Return the decision on a call."""
        sandboxed = self._config.sandboxed and tool.metadata.get("class") == "exec"
        context = DecisionContext(tool, tuple(operands), sandboxed, uninspected)
        decisions = [decide(call, context, rules) for rules in self.chain]
        if self._config.policy is not None:
            decisions.append(consult(self._config.policy, call, tool))
        decision = strictest_of(decisions)
        return decision if self.past is None else self.past.correct(decision, call, tool)

    def add(self, text: str) -> str:
        """Add an allow rule. Return an error message if the text is not a rule."""
        try:
            rule = read_rule(text, "allow", "session")
        except ConfigError as mistake:
            return str(mistake)
        if rule not in self.rules.rules:
            self.rules = replace(self.rules, rules=(*self.rules.rules, rule))
        return ""

    def suggest(self, call: ToolCall, tool: Tool, operands: Sequence[Operand]) -> str:
        """Return the rule that would allow calls like this one."""
        rule = suggest_rule(call, DecisionContext(tool, tuple(operands)))
        return "" if rule is None else str(rule)


# --------------------------------------------------------------------------------------------------------------------
# The calls of one reply, from planned to settled.
#
# Each call is a slot. The turn processes slots from the front, in groups: one call alone, or several adjacent parallel-
# safe calls. Hooks review a group, the policy decides, the approver approves if necessary, and the tools run; then the
# next group follows. Every slot ends with exactly one result, and the results keep the order of the calls.

State = Literal["planned", "reviewing", "reviewed", "asking", "postponed", "ready", "running", "settled"]
_WAITING = ("reviewing", "asking", "running")
CallNews = Reviewed | Approved | Denied | Stale | Postponed | ToolAnswered
"""The inputs that concern one call of a turn."""
_EXPECTED: dict[type, tuple[State, ...]] = {
    Reviewed: ("reviewing",),
    # In a replay, calls of the same group may wait for an approval, although this one has already run.
    ToolAnswered: ("running", "ready"),
    Stale: ("running",),
}
"""The states in which a call accepts such an input. All other inputs need the state `asking`."""
_OUTCOMES: dict[str, OutcomeKind] = {"halted": "halted", "failed": "tool_failed", "stopped": "stopped"}
"""The outcome of a run that the result of a call ends."""
_MOST_STALE = 3
"""How many stale approvals a call may have before it is denied."""

DENIED_BEFORE = "Denied before, with the same arguments. Nobody was asked again. Go another way, or say what you need."
DUPLICATE = "Skipped duplicate tool call {name!r} with identical arguments in this turn. It was not run again."
TOO_MANY = "Not run: the reply held {count} calls, and {most} are allowed. Make fewer calls at a time."
TOO_LATE = "Not run: the time of this turn is over."
UNKNOWN_OUTCOME = (
    "Interrupted: the call was started and its outcome is unknown. It may or may not have had its effect; check before "
    "you try it again."
)


class Slot(Struct):
    """One call and its state."""

    call: ToolCall | InvalidCall
    tool: Tool | None
    state: State = "planned"
    result: ToolResult | None = None
    ran: bool = False
    seconds: float = 0.0
    twin: str | None = None
    """The id of the first identical call of the turn."""
    operands: tuple[Operand, ...] = ()
    uninspected: str = ""
    approved: Approved | None = None
    stale: int = 0
    error: str = ""
    retries: bool = False


class CallTurn:
    """The calls of one reply. `begin` and `receive` return the next commands, until `is_done`."""

    def __init__(
        self,
        config: RunConfig,
        watch: Watch,
        permissions: PermissionState,
        number: int,
        calls: Iterable[ToolCall | InvalidCall],
        deadline: float | None,
    ) -> None:
        self._config = config
        self._watch = watch
        self._permissions = permissions
        self._deadline = deadline
        self.number = number
        self.slots = [
            Slot(call, config.tools.find(call.name) if isinstance(call, ToolCall) else None) for call in calls
        ]
        self._by_id = {slot.call.id: slot for slot in self.slots}
        self.outcome: Outcome | None = None
        self.answer = ""
        """The final answer, if a tool gave one."""
        self.mistakes = 0

    @property
    def is_done(self) -> bool:
        return all(slot.state == "settled" for slot in self.slots)

    @property
    def is_parked(self) -> bool:
        """Whether the turn cannot continue before an approval."""
        group = self._group()
        return any(slot.state == "postponed" for slot in group) and not any(
            slot.state in (*_WAITING, "ready") for slot in group
        )

    @property
    def running(self) -> tuple[str, ...]:
        """The ids of the calls that run, or are about to."""
        return tuple(slot.call.id for slot in self.slots if slot.state == "running")

    def show_waiting(self) -> list[ToolResult]:
        """Return a result for each call, including calls that have none yet."""
        return [slot.result or ToolResult(slot.call.id, slot.call.name, WAITING, is_error=True) for slot in self.slots]

    @property
    def results(self) -> list[ToolResult]:
        return [slot.result for slot in self.slots if slot.result is not None]

    # ---- the start ---------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> list[Command]:
        """Settle the calls that cannot run, then start the first group."""
        commands: list[Command] = []
        most = self._config.limits.calls_per_turn
        if len(self.slots) > most:
            text = TOO_MANY.format(count=len(self.slots), most=most)
            for slot in self.slots:
                commands += self._refuse(slot, text)
            return commands
        for slot in self.slots:
            if isinstance(slot.call, InvalidCall):
                commands += self._refuse(slot, explain_invalid(slot.call, self._config.tools))
            elif slot.tool is None:
                invalid = InvalidCall(slot.call.id, slot.call.name, slot.call.raw, (), kind="unknown_tool")
                commands += self._refuse(slot, explain_invalid(invalid, self._config.tools))
        commands += self._pair_duplicates()
        return commands + self._advance(now)

    def _refuse(self, slot: Slot, text: str) -> list[Command]:
        """Settle an invalid call or a call of an unknown tool."""
        self.mistakes += 1
        return self._deny(slot, text)

    def _pair_duplicates(self) -> list[Command]:
        commands: list[Command] = []
        open_calls = [slot.call for slot in self.slots if slot.state == "planned" and isinstance(slot.call, ToolCall)]
        for later, first in duplicates(open_calls, self._may_change).items():
            slot = self._by_id[later]
            if slot.tool is None or slot.tool.metadata.get("duplicates") is True:
                continue
            if slot.tool.repeatable:
                slot.twin = first
                continue
            commands += self._deny(slot, DUPLICATE.format(name=slot.call.name))
        return commands

    def _may_change(self, call: ToolCall) -> bool:
        tool = self._by_id[call.id].tool
        return tool is None or not tool.read_only

    # ---- the next group ----------------------------------------------------------------------------------------------

    def _group(self) -> list[Slot]:
        """Return the calls to process now: one, or all parallel-safe ones up to the next that is not."""
        group: list[Slot] = []
        for slot in self.slots:
            if slot.state == "settled" or slot.twin is not None:
                continue
            safe = slot.tool is not None and slot.tool.parallel_safe
            if group and not safe:
                break
            group.append(slot)
            if not safe:
                break
        return group

    def _advance(self, now: float) -> list[Command]:
        commands: list[Command] = []
        while True:
            group = self._group()
            if not group:
                return commands + self._settle_twins()
            for slot in group:
                commands += self._prepare(slot)
            if any(slot.state in _WAITING for slot in group):
                return commands
            ready = [slot for slot in group if slot.state == "ready"]
            if self._deadline is not None and now >= self._deadline:
                # Approvals and hooks may take longer than the turn limit.
                commands += [each for slot in ready for each in self._deny(slot, TOO_LATE)]
            elif ready:
                # An allowed call does not wait for the approval of another call in its group.
                return [*commands, self._run(ready)]
            elif any(slot.state == "postponed" for slot in group):
                return commands

    def _prepare(self, slot: Slot) -> list[Command]:
        """Advance one call as far as possible without a wait."""
        call, tool = slot.call, slot.tool
        if not isinstance(call, ToolCall) or tool is None:
            return []
        if slot.state == "planned":
            if self._config.has_reviewers or tool.inspect is not None:
                slot.state = "reviewing"
                return [Review(call, tool)]
            slot.state = "reviewed"
        if slot.state != "reviewed":
            return []
        verdict = self._watch.before(call, tool)
        return self._block(slot, verdict) if verdict is not None else self._decide(slot, call, tool)

    def _decide(self, slot: Slot, call: ToolCall, tool: Tool) -> list[Command]:
        decision = self._permissions.decide(call, tool, slot.operands, slot.uninspected)
        told: list[Command] = [
            Emit(CallDecided(call, decision.verdict, decision.reason, decision.rule, decision.code, self.number))
        ]
        if decision.verdict == "allow":
            slot.state = "ready"
            return told
        if self._watch.was_rejected(call):
            return [*told, *self._deny_call(slot, call, DENIED_BEFORE)]
        if decision.verdict == "deny":
            return [*told, *self._deny_call(slot, call, say_decided(decision))]
        if not self._config.has_approver:
            return [*told, *self._deny_call(slot, call, say_nobody(decision))]
        slot.state = "asking"
        return [*told, self._ask(slot, call, tool, decision)]

    def _ask(self, slot: Slot, call: ToolCall, tool: Tool, decision: Decision) -> AskApproval:
        suggestion = self._permissions.suggest(call, tool, slot.operands)
        return AskApproval(call, tool, decision.reason, slot.operands, suggestion)

    def _block(self, slot: Slot, verdict: Verdict) -> list[Command]:
        return [self._notice(verdict.kind, verdict.message), *self._deny(slot, verdict.message)]

    def _notice(self, kind: str, words: str) -> Emit:
        return Emit(Noticed(kind, words, self.number))

    def _deny_call(
        self, slot: Slot, call: ToolCall | InvalidCall, text: str, *, by_approver: bool = False
    ) -> list[Command]:
        """Settle a call that the rules or a person denied. A model that insists on it ends the run."""
        verdict = self._watch.deny(call, by_approver=by_approver) if isinstance(call, ToolCall) else None
        commands = self._deny(slot, text)
        if verdict is None or self.outcome is not None:
            return commands
        notice = self._notice(verdict.kind, verdict.message)
        ended = self._end(end("looping", verdict.message), "Not run: the run was ended because it repeated itself.")
        return [*commands, notice, *ended]

    def _deny(self, slot: Slot, text: str) -> list[Command]:
        return self._settle(slot, ToolResult(slot.call.id, slot.call.name, text, is_error=True))

    def _run(self, slots: list[Slot]) -> RunTools:
        batch: list[Planned] = []
        for slot in slots:
            assert isinstance(slot.call, ToolCall) and slot.tool is not None
            slot.state = "running"
            seconds = slot.tool.timeout if slot.tool.timeout is not None else self._config.limits.tool_seconds
            batch.append(Planned(slot.call, slot.tool, seconds, self._deadline, slot.operands, slot.approved))
        return RunTools(tuple(batch), self.number)

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def receive(self, told: CallNews, now: float) -> list[Command]:
        """Process an input about a call. A late input, or one about an unknown call, changes nothing."""
        slot = self._by_id.get(told.call_id)
        if slot is None or slot.state not in _EXPECTED.get(type(told), ("asking",)):
            return []
        if isinstance(told, ToolAnswered):
            commands = self._answer(slot, told)
        elif isinstance(told, Reviewed):
            commands = self._review(slot, told)
        elif isinstance(told, Denied):
            commands = self._deny_call(slot, slot.call, say_denied(told), by_approver=True)
        elif isinstance(told, Approved):
            commands = self._approve(slot, told)
        elif isinstance(told, Stale):
            commands = self._ask_again(slot, told)
        else:
            slot.state = "postponed"
            commands = []
        return commands if self.outcome is not None else commands + self._advance(now)

    def _review(self, slot: Slot, told: Reviewed) -> list[Command]:
        if told.verdict == "stop":
            return self._end(end("stopped", told.reason), f"Not run: the run was stopped. {told.reason}".strip())
        if told.verdict == "deny":
            return self._deny(slot, f"Denied by a hook: {told.reason}" if told.reason else "Denied by a hook.")
        slot.state = "reviewed"
        slot.operands, slot.uninspected = told.operands, told.uninspected
        return self._change(slot, told.arguments, "a hook")

    def _approve(self, slot: Slot, told: Approved) -> list[Command]:
        by = told.by or "the approver"
        if told.result is not None:
            result = self._replaced(slot, told.result)
            notice = self._notice("result_replaced", f"{by} answered for {slot.call.name}")
            return [notice, *self._settle(slot, result)]
        slot.state = "ready"
        slot.approved = told if told.digest else None
        commands: list[Command] = []
        if told.rule:
            fault = self._permissions.add(told.rule)
            allowed = f"{by} allowed {told.rule} for the rest of this run"
            words = f"{told.rule} is not a rule: {fault}" if fault else allowed
            commands.append(self._notice("rule_refused" if fault else "rule_added", words))
        if told.arguments is not None:
            slot.operands, slot.uninspected = told.operands, told.uninspected
        return commands + self._change(slot, told.arguments, by, decides=True)

    def _replaced(self, slot: Slot, words: str) -> ToolResult:
        """Return the result that the approver gives instead of a run."""
        if not isinstance(slot.call, ToolCall):
            return ToolResult(slot.call.id, slot.call.name, words)
        return replace_result(words, slot.call, slot.tool, max_output=self._config.context.max_output)

    def _ask_again(self, slot: Slot, told: Stale) -> list[Command]:
        """The approved call is not the call that would run now: decide again, up to a limit."""
        slot.stale += 1
        slot.approved = None
        if slot.stale >= _MOST_STALE:
            return self._deny(slot, TOO_STALE.format(reason=told.reason))
        slot.state = "reviewed"
        slot.operands, slot.uninspected = told.operands, told.uninspected
        return [self._notice("approval_stale", f"{slot.call.name} needs approval again: {told.reason}")]

    def _change(
        self, slot: Slot, arguments: dict[str, object] | None, by: str, *, decides: bool = False
    ) -> list[Command]:
        """Replace the arguments, if they fit the schema. The policy decides on the changed call as on any other."""
        if arguments is None or not isinstance(slot.call, ToolCall) or slot.tool is None:
            return []
        loaded = load(arguments, slot.tool)
        if loaded.errors or loaded.value is None:
            faults = "; ".join(map(str, loaded.errors))
            return self._deny(slot, f"Not run: {by} changed the arguments so that they do not fit: {faults}")
        slot.call = replace(slot.call, arguments=loaded.value)
        if decides:
            decision = self._permissions.decide(slot.call, slot.tool, slot.operands, slot.uninspected)
            if decision.verdict == "deny":
                return self._deny(slot, say_decided(decision))
        return [self._notice("arguments_changed", f"{by} changed the arguments of {slot.call.name}")]

    def _answer(self, slot: Slot, told: ToolAnswered) -> list[Command]:
        slot.ran = told.ran and not told.is_mistake
        slot.seconds, slot.error, slot.retries = told.seconds, told.error, told.retries
        self.mistakes += told.is_mistake
        result = replace(told.result, call_id=slot.call.id, name=slot.call.name)
        commands: list[Command] = []
        if slot.ran and isinstance(slot.call, ToolCall) and slot.tool is not None:
            verdict = self._watch.after(slot.call, slot.tool, result)
            if verdict is not None:
                commands.append(self._notice(verdict.kind, verdict.message))
                result = _with_note(result, verdict.message)
                if verdict.action == "end" and self.outcome is None:
                    self.outcome = end("looping", verdict.message)
        commands += self._settle(slot, result)
        if told.ends == "finished":
            self.answer = told.reason
            return commands + self._end(end("answered"), "Not run: a final answer was given in the same reply.")
        if told.ends is not None:
            return commands + self._end(
                end(_OUTCOMES[told.ends], told.reason), f"Not run: {told.ends}. {told.reason}".strip()
            )
        if self.outcome is not None:
            return commands + self._end(self.outcome, "Not run: the run was ended because it repeated itself.")
        return commands

    # ---- ends --------------------------------------------------------------------------------------------------------

    def _end(self, outcome: Outcome, words: str) -> list[Command]:
        self.outcome = outcome
        return self.abandon(words)

    def take_back(self, call_ids: Iterable[str]) -> None:
        """Note that these calls were not started, although the driver was told to run them."""
        for call_id in call_ids:
            slot = self._by_id.get(call_id)
            if slot is not None and slot.state == "running":
                slot.state = "ready"

    def take_last(self, told: ToolAnswered) -> list[Command]:
        """Accept the result of a call, but start no other call."""
        slot = self._by_id.get(told.call_id)
        return self._answer(slot, told) if slot is not None and slot.state == "running" else []

    def abandon(self, words: str) -> list[Command]:
        """Give every open call a result: running calls are cancelled, the others never start."""
        commands = self._settle_twins()
        if self.running:
            commands.append(CancelTools(self.running))
        for slot in self.slots:
            if slot.state == "settled":
                continue
            harmless = slot.tool is not None and (slot.tool.repeatable or slot.tool.read_only)
            text = words
            if slot.state == "running":
                slot.ran = True
                text = "Cancelled while it was running. " + ("" if harmless else UNKNOWN_OUTCOME)
            commands += self._deny(slot, text.strip())
        return commands

    def _settle_twins(self) -> list[Command]:
        """Give identical calls the result of the first one."""
        commands: list[Command] = []
        for slot in self.slots:
            first = self._by_id[slot.twin] if slot.state != "settled" and slot.twin is not None else None
            if first is not None and first.result is not None:
                commands += self._settle(slot, replace(first.result, call_id=slot.call.id))
        return commands

    def _settle(self, slot: Slot, result: ToolResult) -> list[Command]:
        slot.state = "settled"
        slot.result = result
        return [Emit(ToolEnded(slot.call, result, slot.seconds, slot.ran, slot.error))]

    # ---- replay ------------------------------------------------------------------------------------------------------

    def outstanding(self) -> list[Command]:
        """Return the outstanding commands for the calls of this turn."""
        commands: list[Command] = []
        running: list[Slot] = []
        for slot in self.slots:
            if not isinstance(slot.call, ToolCall) or slot.tool is None:
                continue
            if slot.state == "reviewing":
                commands.append(Review(slot.call, slot.tool))
            elif slot.state == "asking":
                decision = self._permissions.decide(slot.call, slot.tool, slot.operands, slot.uninspected)
                commands.append(self._ask(slot, slot.call, slot.tool, decision))
            elif slot.state == "running":
                running.append(slot)
        return commands + ([self._run(running)] if running else [])


def _with_note(result: ToolResult, note: str) -> ToolResult:
    if isinstance(result.content, str):
        return replace(result, content=f"{result.content}\n\n[{note}]")
    return replace(result, content=[*result.content, Text(f"[{note}]")])


# --------------------------------------------------------------------------------------------------------------------
# How many mistakes and empty replies in a row end the run.


class MistakeBudget:
    """Counts mistakes, repairs and empty replies in a row."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.mistakes = 0
        self.repairs = 0
        self.blanks = 0
        self._retries: dict[str, int] = {}

    def allows_blank(self) -> bool:
        """Count an empty reply. Return whether the model may be asked again."""
        self.blanks += 1
        return self.blanks <= self._limits.blanks

    def allows_repair(self) -> bool:
        """Count a repair request. Return whether the model may be asked to correct its reply."""
        self.repairs += 1
        return self.repairs <= self._limits.repairs

    def allows_calls(self, turn: CallTurn) -> bool:
        """Count a turn, once for any number of mistakes. Return whether the run may continue.

        A call that ran resets the count, whatever its result. A denied or blocked call is not a mistake, and does not
        reset the count either.
        """
        if any(slot.ran and not slot.retries for slot in turn.slots):
            self.mistakes = self.repairs = 0
        elif turn.mistakes:
            self.mistakes += 1
            only_invalid = all(isinstance(slot.call, InvalidCall) for slot in turn.slots)
            self.repairs = self.repairs + 1 if only_invalid else 0
        return self.mistakes < self._limits.mistakes and self.repairs <= self._limits.repairs

    def find_insistent(self, turn: CallTurn) -> str:
        """Count how often in a row each tool asked the model to call it again. Return the first over the limit."""
        ran = {slot.call.name for slot in turn.slots if slot.ran}
        content = {slot.call.name for slot in turn.slots if slot.ran and not slot.retries}
        for name in ran:
            self._retries[name] = 0 if name in content else self._retries.get(name, 0) + 1
        return next((name for name, count in self._retries.items() if count > self._limits.repairs), "")
