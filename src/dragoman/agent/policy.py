"""Whether a call may run: allowed, asked for, or denied. The stricter voice wins.

A policy is a function from a call and its tool to a `Decision`. It does not wait, and it does not raise: one that
does is taken for a denial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.types import Tool, ToolCall

Verdict = Literal["allow", "ask", "deny"]
_STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


class Decision(Struct, frozen=True):
    verdict: Verdict
    reason: str = ""


Policy = Callable[[ToolCall, Tool], Decision]
ALLOWED = Decision("allow")


def default_policy(call: ToolCall, tool: Tool) -> Decision:
    """The developer's own tools run, unless one is marked, or the call came in a way that has to be asked about."""
    if tool.requires_approval:
        return Decision("ask", f"{tool.name} is marked as needing approval")
    provenance = call.provenance
    if provenance is not None and provenance.verdict == "ask":
        return Decision("ask", f"the call was read from text in a way that has to be asked about ({provenance.level})")
    return ALLOWED


def deny(names: Iterable[str]) -> Policy:
    """A policy that denies the tools of these names; `*` stands for anything."""
    return _by_name(tuple(names), "deny", "is denied by the settings of this run")


def ask_for(names: Iterable[str]) -> Policy:
    """A policy that asks for the tools of these names; `*` stands for anything."""
    return _by_name(tuple(names), "ask", "needs approval by the settings of this run")


def _by_name(patterns: tuple[str, ...], verdict: Verdict, words: str) -> Policy:
    def decide(call: ToolCall, tool: Tool) -> Decision:
        matched = any(fnmatchcase(tool.name, pattern) for pattern in patterns)
        return Decision(verdict, f"{tool.name} {words}") if matched else ALLOWED

    return decide


def strictest(*policies: Policy) -> Policy:
    """The strictest of several policies; a policy added to others never loosens what they say."""

    def decide(call: ToolCall, tool: Tool) -> Decision:
        decisions = [consult(policy, call, tool) for policy in policies]
        return max(decisions, key=lambda decision: _STRICTNESS[decision.verdict], default=ALLOWED)

    return decide


def consult(policy: Policy, call: ToolCall, tool: Tool) -> Decision:
    """What a policy says; one that fails, or says something else than a decision, denies."""
    try:
        decision: object = policy(call, tool)
    except Exception as problem:
        return Decision("deny", f"the policy failed: {type(problem).__name__}: {problem}")
    if isinstance(decision, Decision) and decision.verdict in _STRICTNESS:
        return decision
    return Decision("deny", f"the policy gave {decision!r} instead of a decision")


def as_policy(given: Policy | Iterable[Policy] | None) -> Policy:
    """The policy of a run: the default one, and whatever the developer adds to it."""
    if given is None:
        return default_policy
    if callable(given):
        return strictest(default_policy, given)
    added = list(given)
    if not all(callable(each) for each in added):
        raise ConfigError("policy has to be a function, or a list of functions", hint="def policy(call, tool): ...")
    return strictest(default_policy, *added)
