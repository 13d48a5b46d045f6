"""Whether a call may run: allowed, asked for, or denied. The stricter voice wins."""

from __future__ import annotations

from dragoman.agent.policy.deciding import decide
from dragoman.agent.policy.decisions import Decision, DecisionContext, Mode, Rule, Rules, Scope, Verdict
from dragoman.agent.policy.gathering import gather_rules
from dragoman.agent.policy.modes import MODES
from dragoman.agent.policy.rules import covers, ignored, read_rule, write_rule
from dragoman.agent.policy.suggesting import suggest_rule
from dragoman.agent.policy.voices import (
    ALLOWED,
    Policy,
    as_policy,
    ask_for,
    consult,
    default_policy,
    deny,
    join_policies,
    strictest,
)

__all__ = [
    "ALLOWED",
    "MODES",
    "Decision",
    "DecisionContext",
    "Mode",
    "Policy",
    "Rule",
    "Rules",
    "Scope",
    "Verdict",
    "as_policy",
    "ask_for",
    "consult",
    "covers",
    "decide",
    "default_policy",
    "deny",
    "gather_rules",
    "ignored",
    "join_policies",
    "read_rule",
    "strictest",
    "suggest_rule",
    "write_rule",
]
