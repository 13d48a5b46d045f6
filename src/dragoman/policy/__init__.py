"""The policy: whether a call is allowed, needs an approval, or is denied. The strictest decision wins."""

from __future__ import annotations

from dragoman.policy.decision import (
    ALLOWED,
    MODES,
    Policy,
    as_policy,
    consult,
    decide,
    gather_rules,
    join_policies,
    suggest_rule,
)
from dragoman.policy.rules import (
    Decision,
    DecisionContext,
    Mode,
    Rule,
    Rules,
    Scope,
    Verdict,
    covers,
    ignored,
    read_rule,
    write_rule,
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
    "consult",
    "covers",
    "decide",
    "gather_rules",
    "ignored",
    "join_policies",
    "read_rule",
    "suggest_rule",
    "write_rule",
]
