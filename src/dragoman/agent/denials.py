"""What the model is told when a call does not run. It names who decided: a user only where a user did."""

from __future__ import annotations

from dragoman.agent.inputs import Denied
from dragoman.policy import Decision

NOBODY = (
    "Not run: this call needs approval, and nobody is there to give it. Go on without it, or say what you would have "
    "done."
)
_HOW_TO_ALLOW = (
    "Whoever starts the run can allow it beforehand: with a rule in `allow` or `auto_approve`, or with an approver."
)
_ONLY_A_PERSON = "No rule allows it beforehand: somebody has to look at it, so the run needs an approver."
_FIRM = ("trust", "protected", "uninspected")
TOO_STALE = (
    "Not run: what was approved changed again and again before it could run ({reason}). Find out what changes it first."
)
WAITING = "Not run yet: this call waits for approval."


def say_decided(decision: Decision) -> str:
    """The words for a denial by the policy."""
    return f"Denied by policy: {decision.reason}"


def say_nobody(decision: Decision) -> str:
    """The words where nobody can be asked."""
    why = f" ({decision.reason})" if decision.reason else ""
    how = _ONLY_A_PERSON if decision.code in _FIRM else _HOW_TO_ALLOW
    return f"{NOBODY}{why} {how}"


def say_denied(told: Denied) -> str:
    """The words for a denial by whoever was asked."""
    by = told.by or "the user"
    return f"Denied by {by}: {told.reason}" if told.reason else f"Denied by {by}."
