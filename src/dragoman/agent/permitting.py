"""Whether a call may run: what the rules say, what the developer's policies say, and what the runs above say.

The strictest of them counts. Rules that somebody approved on the way are added for the rest of the run.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from dragoman.agent.replaying import Past
from dragoman.agent.setup import Setup
from dragoman.errors import ConfigError
from dragoman.policy import Decision, DecisionContext, Rules, consult, decide, read_rule, suggest_rule
from dragoman.policy.rules import strictest_of
from dragoman.types import Operand, Tool, ToolCall


class Permits:
    """Decides on the calls of one run."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.rules = setup.rules
        self.past: Past | None = None
        """What was decided before, while a run is brought back."""

    @property
    def chain(self) -> tuple[Rules, ...]:
        """The rules of this run and of those above it."""
        return (self.rules, *self._setup.rules_above)

    def decide(self, call: ToolCall, tool: Tool, operands: Sequence[Operand], uninspected: str = "") -> Decision:
        """What becomes of a call."""
        sandboxed = self._setup.sandboxed and tool.metadata.get("class") == "exec"
        context = DecisionContext(tool, tuple(operands), sandboxed, uninspected)
        decisions = [decide(call, context, rules) for rules in self.chain]
        if self._setup.policy is not None:
            decisions.append(consult(self._setup.policy, call, tool))
        decision = strictest_of(decisions)
        return decision if self.past is None else self.past.correct(decision, call, tool)

    def add(self, text: str) -> str:
        """Allow what this rule describes from now on; what is wrong with it, where it is no rule."""
        try:
            rule = read_rule(text, "allow", "session")
        except ConfigError as mistake:
            return str(mistake)
        if rule not in self.rules.rules:
            self.rules = replace(self.rules, rules=(*self.rules.rules, rule))
        return ""

    def suggest(self, call: ToolCall, tool: Tool, operands: Sequence[Operand]) -> str:
        """The rule that would allow calls like this one."""
        rule = suggest_rule(call, DecisionContext(tool, tuple(operands)))
        return "" if rule is None else str(rule)
