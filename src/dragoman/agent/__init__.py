"""The agent loop: a pure state machine that decides, and a driver that executes its decisions.

Most programs need only `Agent`. The types of events are in `agent.events`. Programs that drive the loop themselves use
`Machine` with the inputs and commands of `agent.protocol`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.agent.agent import Agent as Agent
    from dragoman.agent.approvals import (
        LATER as LATER,
        Approval as Approval,
        ApprovalRequest as ApprovalRequest,
        answer_request as answer_request,
        list_requests as list_requests,
    )
    from dragoman.agent.budget import Budget as Budget
    from dragoman.agent.context import (
        Compaction as Compaction,
        Compactor as Compactor,
        ContextBudget as ContextBudget,
        ContextSettings as ContextSettings,
        Summarise as Summarise,
        TrimOldResults as TrimOldResults,
    )
    from dragoman.agent.events import RunEvent as RunEvent
    from dragoman.agent.handle import Run as Run
    from dragoman.agent.hooks import Deny as Deny, Stop as Stop
    from dragoman.agent.machine import Machine as Machine
    from dragoman.agent.partial import AnswerStream as AnswerStream, PartialAnswer as PartialAnswer
    from dragoman.agent.result import (
        Limits as Limits,
        Outcome as Outcome,
        Problem as Problem,
        RunFailed as RunFailed,
        RunResult as RunResult,
    )
    from dragoman.agent.settings import Connection as Connection, Safety as Safety
    from dragoman.agent.watch import WatchSettings as WatchSettings
    from dragoman.extraction.tool_mode import ToolPrompt as ToolPrompt
    from dragoman.policy import (
        Decision as Decision,
        Policy as Policy,
        Rule as Rule,
        Rules as Rules,
        read_rule as read_rule,
    )
    from dragoman.client.own_models import OwnModel as OwnModel
else:
    from dragoman import export_lazily

    __all__, __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "dragoman.agent.agent": "Agent",
            "dragoman.agent.approvals": "Approval ApprovalRequest LATER answer_request list_requests",
            "dragoman.agent.budget": "Budget",
            "dragoman.agent.context": "Compaction Compactor ContextBudget ContextSettings Summarise TrimOldResults",
            "dragoman.agent.events": "RunEvent",
            "dragoman.agent.handle": "Run",
            "dragoman.agent.hooks": "Deny Stop",
            "dragoman.agent.machine": "Machine",
            "dragoman.agent.partial": "AnswerStream PartialAnswer",
            "dragoman.agent.result": "Limits Outcome Problem RunFailed RunResult",
            "dragoman.agent.settings": "Connection Safety",
            "dragoman.agent.watch": "WatchSettings",
            "dragoman.extraction.tool_mode": "ToolPrompt",
            "dragoman.policy": "Decision Policy Rule Rules read_rule",
            "dragoman.client.own_models": "OwnModel",
        },
    )
