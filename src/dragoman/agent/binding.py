"""The digest of a call: what an approval holds for, down to the file that a path leads to. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import msgspec

from dragoman.policy import Rules
from dragoman.types import Operand, Tool, ToolCall

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
