"""What is decided about a call, and everything that a decision is made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.types import Operand, Tool

Verdict = Literal["allow", "ask", "deny"]
Mode = Literal["plan", "default", "edits", "sandboxed", "locked", "bypass"]
Scope = Literal["managed", "user", "project", "session"]
STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}


class Decision(Struct, frozen=True):
    """A verdict, and what it rests on."""

    verdict: Verdict
    reason: str = ""
    """In words, for the model and for whoever is asked."""
    rule: str = ""
    """The rule that decided, as it was written, or the name of a default such as `mode:plan`."""
    code: str = ""
    """`rule`, `mode`, `marked`, `trust`, `default`, `policy`, ...: the kind of reason, for programs."""


class Rule(Struct, frozen=True):
    """One line of permission: `bash(git status*)`, `write(src/**)`, `fetch(domain:*.example.org)`, `mcp:server/*`."""

    verdict: Verdict
    subject: str
    """The tool, or the family of tools, with `*` for anything."""
    pattern: str | None = None
    """What stands in the brackets; None where there are none and the operands do not matter."""
    scope: Scope = "user"

    def __str__(self) -> str:
        return self.subject if self.pattern is None else f"{self.subject}({self.pattern})"


class Rules(Struct, frozen=True):
    """The rules of a run, and the mode that decides where no rule does."""

    mode: Mode = "default"
    rules: tuple[Rule, ...] = ()


class DecisionContext(Struct, frozen=True):
    """What is known of a call beyond its own words."""

    tool: Tool
    operands: tuple[Operand, ...] = ()
    sandboxed: bool = False
    """Whether the tool would run inside a sandbox that was seen to work."""
    uninspected: str = ""
    """Why the operands could not be found out, where that failed: nothing may be allowed on a guess."""


def strictest_of(decisions: Sequence[Decision]) -> Decision:
    """The strictest decision, with the reasons of all that are as strict."""
    strictest = max(decisions, key=lambda decision: STRICTNESS[decision.verdict])
    reasons = dict.fromkeys(each.reason for each in decisions if each.verdict == strictest.verdict and each.reason)
    return strictest if len(reasons) < 2 else replace(strictest, reason="; ".join(reasons))
