"""Whether a call may run: allowed, asked for, or denied. The stricter voice wins.

A policy is a function from a call and its tool to a `Decision`. It does not wait, and it does not raise: one that
does is taken for a denial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from dragoman.agent.policy.deciding import judge_trust
from dragoman.agent.policy.decisions import STRICTNESS, Decision, Verdict, strictest_of
from dragoman.errors import ConfigError
from dragoman.types import Tool, ToolCall

Policy = Callable[[ToolCall, Tool], Decision]
ALLOWED = Decision("allow")


def default_policy(call: ToolCall, tool: Tool) -> Decision:
    """The developer's own tools run, unless one is marked, or the call came in a way that has to be asked about."""
    trust = judge_trust(call, tool)
    if trust is not None:
        return trust
    if tool.requires_approval:
        return Decision("ask", f"{tool.name} is marked as needing approval", "marked", "marked")
    return ALLOWED


def deny(names: Iterable[str]) -> Policy:
    """A policy that denies the tools of these names; `*` stands for anything."""
    return _by_name(tuple(names), "deny", "is denied by the settings of this run")


def ask_for(names: Iterable[str]) -> Policy:
    """A policy that asks for the tools of these names; `*` stands for anything."""
    return _by_name(tuple(names), "ask", "needs approval by the settings of this run")


def _by_name(patterns: tuple[str, ...], verdict: Verdict, words: str) -> Policy:
    def decide(call: ToolCall, tool: Tool) -> Decision:
        matched = next((pattern for pattern in patterns if fnmatchcase(tool.name, pattern)), None)
        return ALLOWED if matched is None else Decision(verdict, f"{tool.name} {words}", matched, "policy")

    return decide


def strictest(*policies: Policy) -> Policy:
    """The strictest of several policies; a policy added to others never loosens what they say."""

    def decide(call: ToolCall, tool: Tool) -> Decision:
        return strictest_of([ALLOWED, *(consult(policy, call, tool) for policy in policies)])

    return decide


def consult(policy: Policy, call: ToolCall, tool: Tool) -> Decision:
    """What a policy says; one that fails, or says something else than a decision, denies."""
    try:
        decision: object = policy(call, tool)
    except Exception as problem:
        return Decision("deny", f"the policy failed: {type(problem).__name__}: {problem}", code="policy")
    if isinstance(decision, Decision) and decision.verdict in STRICTNESS:
        return decision
    return Decision("deny", f"the policy gave {decision!r} instead of a decision", code="policy")


def as_policy(given: Policy | Iterable[Policy] | None) -> Policy | None:
    """What the developer adds to the rules of a run, as one policy; None where nothing is added."""
    if given is None or callable(given):
        return given
    added = list(given)
    if not all(callable(each) for each in added):
        raise ConfigError("policy has to be a function, or a list of functions", hint="def policy(call, tool): ...")
    return strictest(*added) if added else None


def join_policies(*policies: Policy | None) -> Policy | None:
    """All of them that there are, the strictest counting."""
    there = [policy for policy in policies if policy is not None]
    return strictest(*there) if there else None
