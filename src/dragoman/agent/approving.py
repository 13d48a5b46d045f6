"""Asking whoever may approve a call. No answer, a failing one and one that makes no sense are a denial."""

from __future__ import annotations

import asyncio
import inspect

from dragoman.agent.approvals import Approval, ApprovalRequest, Approver


async def ask_approver(approver: Approver, request: ApprovalRequest, seconds: float | None) -> Approval:
    """The answer of the approver. Only what a person said is said to be the user's."""
    try:
        async with asyncio.timeout(seconds):
            given = approver(request)
            if inspect.isawaitable(given):
                given = await given
    except TimeoutError:
        return Approval(False, "nobody answered in time", by="default")
    except Exception as problem:
        return Approval(False, f"asking for approval failed ({type(problem).__name__})", by="default")
    if isinstance(given, Approval):
        return given
    if given is True:
        return Approval(True)
    if given is False or isinstance(given, str):
        return Approval(False, given or "")
    return Approval(False, f"the approver gave {type(given).__name__} instead of an answer", by="default")
