"""What is understood of the command lines of a call. Where understanding fails, the stricter answer is given."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from dragoman import shell
from dragoman.agent.policy.decisions import DecisionContext


class Reading(NamedTuple):
    """Whether the commands of a call only read, and whether they stay in the workspace."""

    is_read_only: bool
    leaves: bool
    why: str


def commands_of(context: DecisionContext) -> list[str]:
    return [operand.value for operand in context.operands if operand.kind == "command"]


def read_commands(context: DecisionContext) -> Reading:
    """What the commands do, as far as that is certain: one that is not known to read only counts for all."""
    commands = commands_of(context)
    if not commands:
        return Reading(False, True, "it is not known what would run")
    leaves = any(operand.kind == "path" and not operand.inside for operand in context.operands)
    why = ""
    for command in commands:
        found = _read_only(command)
        if found is None or not found.verdict:
            return Reading(False, True, found.why if found is not None and found.why else "it is not understood")
        if found.leaves and not leaves:
            leaves, why = True, found.why
    # Programs that read do more than that where a file of somebody else's says what they are, or what they run.
    if deciding := next((each.value for each in context.operands if each.kind == "path" and each.access == "run"), ""):
        return Reading(False, True, f"what it runs depends on {deciding}")
    return Reading(True, leaves, why or ("it names a place outside the workspace" if leaves else "it only reads"))


def paths_of(context: DecisionContext) -> list[str]:
    """The files that the commands of a call name as what they read."""
    readings = [_read_only(command) for command in commands_of(context)]
    return [path for found in readings if found is not None for path in found.paths]


def allows(patterns: Sequence[str], command: str) -> bool:
    """Whether patterns of rules that allow cover a command line entirely."""
    # The policy is total: a line that breaks its own reader is one that nobody understood.
    try:
        return shell.allows_any(patterns, command)
    except Exception:
        return False


def mentions(pattern: str, command: str) -> bool:
    """Whether a command line may run what a rule that denies or asks names."""
    try:
        return shell.mentions(pattern, command)
    except Exception:
        return True


# A rule about files asks for the same reading as the mode does, and there may be many rules.
@lru_cache(maxsize=8)
def _read_only(command: str) -> shell.ReadOnly | None:
    try:
        return shell.read_only(command)
    except Exception:
        return None
