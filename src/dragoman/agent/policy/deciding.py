"""The decision about one call, made from the call, what is known of it, and the rules. Pure, total and monotone.

Deny wins over ask, ask over allow, and no rule wins by being longer or later than another. So a rule that denies or
asks never makes anything looser, and what is not understood is never allowed for that reason.
"""

from __future__ import annotations

from msgspec import structs

from dragoman.agent.policy.classes import class_of
from dragoman.agent.policy.decisions import Decision, DecisionContext, Mode, Rule, Rules
from dragoman.agent.policy.matching import find_against, find_allowing, find_beneath
from dragoman.agent.policy.modes import default_decision, known_mode
from dragoman.agent.policy.rules import ignored, write_rule
from dragoman.extraction.trust import is_exec
from dragoman.types import Tool, ToolCall

_WRAPPED = ("T5", "T4", "T3")


def decide(call: ToolCall, context: DecisionContext, rules: Rules) -> Decision:
    """What becomes of a call: denied if anything denies it, else asked about if anything asks, else allowed."""
    mode = known_mode(rules.mode)
    # A verdict that is none of the three is taken for the strictest.
    denying = [rule for rule in rules.rules if rule.verdict not in ("allow", "ask")]
    denied = find_against(denying, call, context)
    if denied is not None:
        return Decision("deny", f"{_who(denied)} denies {write_rule(denied)}", write_rule(denied), "rule")
    usual = default_decision(context, mode)
    if usual.verdict == "deny":
        return usual
    firm = _find_firm(call, context) or _find_rule(call, context, rules, denying, mode)
    if firm is not None:
        return _finish(firm, mode)
    if usual.verdict == "allow":
        return usual
    passed_over = set(ignored(rules))
    allowing = [rule for rule in rules.rules if rule.verdict == "allow" and rule not in passed_over]
    found = find_allowing(allowing, context)
    if not found:
        return _finish(usual, mode)
    written = ", ".join(map(write_rule, found))
    return Decision("allow", f"{_who(found[0])} allows {written}", written, "rule")


def judge_trust(call: ToolCall, tool: Tool) -> Decision | None:
    """The question that the way in which a call came asks for, whatever the rules are; None if there is none."""
    provenance = call.provenance
    if provenance is None:
        return None
    level = provenance.level or "unjudged"
    if provenance.verdict not in (None, "allow"):
        why = f"the call was read from text in a way that has to be asked about ({level})"
        return Decision("ask", why, f"trust:{level}", "trust")
    if is_exec(tool) and provenance.level not in _WRAPPED and provenance.channel != "native":
        why = f"{tool.name} acts on the system, and the call has no wrapper of its own ({level})"
        return Decision("ask", why, f"trust:{level}", "trust")
    return None


def _find_firm(call: ToolCall, context: DecisionContext) -> Decision | None:
    """What is asked about in every mode, and what no rule lifts."""
    trust = judge_trust(call, context.tool)
    if trust is not None:
        return trust
    if context.uninspected:
        why = f"it could not be found out what {context.tool.name} would touch: {context.uninspected}"
        return Decision("ask", why, "uninspected", "uninspected")
    changes = class_of(context.tool) == "write"
    for operand in context.operands:
        if operand.protected and (changes or operand.access == "write"):
            why = f"{operand.value} is protected: a change of it would change what is trusted later"
            return Decision("ask", why, "protected", "protected")
    return None


def _find_rule(
    call: ToolCall, context: DecisionContext, rules: Rules, denying: list[Rule], mode: Mode
) -> Decision | None:
    beneath = find_beneath(denying, call, context)
    if beneath is not None:
        why = f"the search could come upon what {_who(beneath)} denies: {write_rule(beneath)}"
        return Decision("ask", why, write_rule(beneath), "rule")
    # Whoever bypasses is not asked; what is denied stays denied.
    if mode == "bypass":
        return None
    asking = [rule for rule in rules.rules if rule.verdict == "ask"]
    found = find_against(asking, call, context) or find_beneath(asking, call, context)
    if found is None:
        return None
    return Decision("ask", f"{_who(found)} asks about {write_rule(found)}", write_rule(found), "rule")


def _finish(asked: Decision, mode: Mode) -> Decision:
    if mode != "locked":
        return asked
    lifted = asked.code in ("default", "marked", "outside")
    how = (
        "a rule in `allow` of the user's own settings permits it" if lifted else "only another mode could ask about it"
    )
    why = f"{asked.reason}; the mode is locked, so nobody is asked: {how}"
    return structs.replace(asked, verdict="deny", reason=why, code="mode")


def _who(rule: Rule) -> str:
    names = {"managed": "a managed rule", "user": "a rule of the user", "project": "a rule of the project"}
    return names.get(rule.scope, "a rule of this session")
