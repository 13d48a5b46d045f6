"""Approval requests and answers, bound to the exact call by a digest. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.agent.records import decode, encode
from dragoman.journal.journal import Record
from dragoman.policy import Rules
from dragoman.types import JsonObject, Operand, Tool, ToolCall

# --------------------------------------------------------------------------------------------------------------------
# The question whether a call may run, and the answers that there are to it.


class ApprovalRequest(Struct, frozen=True):
    """The question whether a call may run. An answer holds for exactly what stands here, once, and for a while."""

    id: str
    run_id: str
    call: ToolCall
    """As it will run; show `arguments` to people."""
    tool: Tool
    why: str
    arguments: JsonObject
    """The arguments with their secrets hidden."""
    hidden: tuple[str, ...] = ()
    """The paths of the arguments in which something was hidden."""
    operands: tuple[Operand, ...] = ()
    digest: str = ""
    expires: float | None = None
    """In seconds since 1970."""
    suggestion: str = ""
    """The rule that would allow calls like this one."""
    session: str | None = None
    workspace: str | None = None
    """The folder that the run works in."""


class Approval(Struct, frozen=True):
    """An answer to the question whether a call may run."""

    approved: bool
    reason: str = ""
    arguments: JsonObject | None = None
    """Other arguments than the model's; they are checked and decided on like its own."""
    by: str = "the user"
    rule: str = ""
    """A rule that is to hold from now on, such as the request's `suggestion`."""
    result: str | None = None
    """What the model is to be told instead of running the call."""
    later: bool = False
    """Nobody can say now: the run is left as it is, and goes on when somebody has answered."""


LATER = Approval(False, later=True)
"""The answer of an approver who has passed the question on; it needs a journal."""

Approver = Callable[[ApprovalRequest], Any]
"""`approve(request)`, sync or async: True or False, an `Approval`, or the reason of a denial as text."""


# --------------------------------------------------------------------------------------------------------------------
# The digest of a call: what an approval holds for, down to the file that a path leads to. Pure.

_VERSION = 2
_TRAITS = ("pin", "origin", "class", "digest")
"""What tells a tool from another one of its name: of a server, the definition as it was looked at."""


def canonical(value: Any) -> bytes:
    """A value as JSON that is the same whenever the value is: keys in order, 1 and true and "1" kept apart."""
    try:
        return msgspec.json.encode(value, order="deterministic")
    except (UnicodeError, OverflowError, ValueError, TypeError, RecursionError):
        # Half a character, a number of more than 64 bits, or something that is no JSON at all.
        plain = msgspec.to_builtins(value, enc_hook=repr)
        return json.dumps(plain, sort_keys=True, default=repr).encode()


def digest_call(
    call: ToolCall,
    tool: Tool,
    operands: Iterable[Operand],
    *,
    run_id: str,
    request: str,
    expires: float | None,
    rules: Rules,
    workspace: str | None = None,
    sandbox: str = "",
) -> str:
    """SHA-256 over everything that an approval depends on."""
    bound = {
        "version": _VERSION,
        "tool": [tool.name, tool.description, tool.parameters, *(tool.metadata.get(name, "") for name in _TRAITS)],
        "call": [call.id, call.name, call.arguments],
        "operands": list(operands),
        "run": run_id,
        "request": request,
        "expires": expires,
        "policy": digest_rules(rules),
        "workspace": workspace,
        "sandbox": sandbox,
    }
    return hashlib.sha256(canonical(bound)).hexdigest()


def digest_rules(rules: Rules) -> str:
    """SHA-256 over the mode and the rules that deny or ask. One more rule that allows voids nothing."""
    strict = sorted({(rule.verdict, str(rule)) for rule in rules.rules if rule.verdict != "allow"})
    return hashlib.sha256(canonical([rules.mode, strict])).hexdigest()


# --------------------------------------------------------------------------------------------------------------------
# Questions about calls as they stand in a journal, and the answers behind them. Pure.


class StoredRequest(Struct, frozen=True):
    """A request for approval as it stands in the journal."""

    id: str
    call: ToolCall
    why: str
    digest: str
    asked: float
    expires: float | None = None
    operands: tuple[Operand, ...] = ()
    suggestion: str = ""
    workspace: str | None = None


class StoredAnswer(Struct, frozen=True):
    """What somebody said about a question: the digest ties it to exactly that one."""

    request: str
    digest: str
    approval: Approval
    at: float


def write_question(request: ApprovalRequest, asked: float) -> bytes:
    """A request as the journal keeps it."""
    return encode(
        StoredRequest(
            request.id,
            request.call,
            request.why,
            request.digest,
            asked,
            request.expires,
            request.operands,
            request.suggestion,
            request.workspace,
        )
    )


def read_questions(records: Iterable[Record]) -> dict[str, tuple[StoredRequest, StoredAnswer | None]]:
    """The last question about each call of a run, with its answer; those that were used up or settled are gone."""
    found: dict[str, tuple[StoredRequest, StoredAnswer | None]] = {}
    for record in records:
        if record.kind == "asked":
            question: StoredRequest = decode(record.body, StoredRequest)
            found[record.call_id] = (question, None)
        elif record.kind == "answered" and record.call_id in found:
            answer: StoredAnswer = decode(record.body, StoredAnswer)
            question, before = found[record.call_id]
            # The first answer counts; one for another question says nothing about this one.
            if before is None and (answer.request, answer.digest) == (question.id, question.digest):
                found[record.call_id] = (question, answer)
        elif record.kind in ("started", "denied", "finished"):
            found.pop(record.call_id, None)
    return found
