"""The loop: a pure machine that decides, and a driver that does what it says.

`Agent` is what most people need. `machine` and its `inputs` and `commands` are for whoever drives the loop himself.
"""

from __future__ import annotations

from dragoman.agent.agent import Agent
from dragoman.agent.approving import Approval
from dragoman.agent.compaction import Compaction, Compactor, Room, Summarise, TrimOldResults
from dragoman.agent.events import (
    ApprovalGiven,
    ApprovalNeeded,
    Asked,
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
from dragoman.agent.handles import Run
from dragoman.agent.hooks import Deny, Stop
from dragoman.agent.limits import Limits
from dragoman.agent.machine import Machine
from dragoman.agent.outcomes import Outcome, Problem, RunResult
from dragoman.agent.policy import Decision, Policy, ask_for, default_policy, deny, strictest
from dragoman.agent.rooms import ContextSettings
from dragoman.agent.setup import Setup
from dragoman.agent.watching import WatchSettings

__all__ = [
    "Agent",
    "Approval",
    "ApprovalGiven",
    "ApprovalNeeded",
    "Asked",
    "Compaction",
    "Compactor",
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
    "Room",
    "Run",
    "RunEnded",
    "RunEvent",
    "RunResult",
    "RunStarted",
    "Setup",
    "Stop",
    "Summarise",
    "ToolEnded",
    "ToolProgressed",
    "ToolStarted",
    "TrimOldResults",
    "TurnEnded",
    "WatchSettings",
    "ask_for",
    "default_policy",
    "deny",
    "strictest",
]
