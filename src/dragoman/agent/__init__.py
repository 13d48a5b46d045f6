"""The loop: a pure machine that decides, and a driver that does what it says.

`Agent` is what most people need. `machine` and its `inputs` and `commands` are for whoever drives the loop himself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dragoman.agent.agent import Agent
    from dragoman.agent.approvals import LATER, Approval, ApprovalRequest
    from dragoman.agent.config import RunConfig
    from dragoman.agent.context import Compaction, Compactor, ContextBudget, ContextSettings, Summarise, TrimOldResults
    from dragoman.agent.events import (
        ApprovalGiven,
        ApprovalNeeded,
        Asked,
        CallDecided,
        LoopEvent,
        Noticed,
        RunEnded,
        RunEvent,
        RunStarted,
        ToolEnded,
        ToolProgressed,
        ToolStarted,
        TurnEnded,
    )
    from dragoman.agent.handle import Run
    from dragoman.agent.hooks import Deny, Stop
    from dragoman.agent.machine import Machine
    from dragoman.agent.result import Limits, Outcome, Problem, RunFailed, RunResult
    from dragoman.agent.settings import Connection, Safety
    from dragoman.agent.watch import WatchSettings
    from dragoman.policy import Decision, Policy, Rule, Rules, read_rule

# The settings need the limits and the modes alone; the rest is loaded when it is first used.
_HOMES = {
    "Agent": "dragoman.agent.agent",
    "Approval": "dragoman.agent.approvals",
    "ApprovalGiven": "dragoman.agent.events",
    "ApprovalNeeded": "dragoman.agent.events",
    "ApprovalRequest": "dragoman.agent.approvals",
    "Asked": "dragoman.agent.events",
    "CallDecided": "dragoman.agent.events",
    "Compaction": "dragoman.agent.context",
    "Compactor": "dragoman.agent.context",
    "Connection": "dragoman.agent.settings",
    "ContextSettings": "dragoman.agent.context",
    "Decision": "dragoman.policy",
    "Deny": "dragoman.agent.hooks",
    "LATER": "dragoman.agent.approvals",
    "Limits": "dragoman.agent.result",
    "LoopEvent": "dragoman.agent.events",
    "Machine": "dragoman.agent.machine",
    "Noticed": "dragoman.agent.events",
    "Outcome": "dragoman.agent.result",
    "Policy": "dragoman.policy",
    "Problem": "dragoman.agent.result",
    "ContextBudget": "dragoman.agent.context",
    "Rule": "dragoman.policy",
    "Rules": "dragoman.policy",
    "Run": "dragoman.agent.handle",
    "RunEnded": "dragoman.agent.events",
    "RunEvent": "dragoman.agent.events",
    "RunFailed": "dragoman.agent.result",
    "RunResult": "dragoman.agent.result",
    "Safety": "dragoman.agent.settings",
    "RunStarted": "dragoman.agent.events",
    "RunConfig": "dragoman.agent.config",
    "Stop": "dragoman.agent.hooks",
    "Summarise": "dragoman.agent.context",
    "ToolEnded": "dragoman.agent.events",
    "ToolProgressed": "dragoman.agent.events",
    "ToolStarted": "dragoman.agent.events",
    "TrimOldResults": "dragoman.agent.context",
    "TurnEnded": "dragoman.agent.events",
    "WatchSettings": "dragoman.agent.watch",
    "read_rule": "dragoman.policy",
}

__all__ = [
    "LATER",
    "Agent",
    "Approval",
    "ApprovalGiven",
    "ApprovalNeeded",
    "ApprovalRequest",
    "Asked",
    "CallDecided",
    "Compaction",
    "Compactor",
    "Connection",
    "ContextBudget",
    "ContextSettings",
    "Decision",
    "Deny",
    "Limits",
    "LoopEvent",
    "Machine",
    "Noticed",
    "Outcome",
    "Policy",
    "Problem",
    "Rule",
    "Rules",
    "Run",
    "RunConfig",
    "RunEnded",
    "RunEvent",
    "RunFailed",
    "RunResult",
    "RunStarted",
    "Safety",
    "Stop",
    "Summarise",
    "ToolEnded",
    "ToolProgressed",
    "ToolStarted",
    "TrimOldResults",
    "TurnEnded",
    "WatchSettings",
    "read_rule",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
