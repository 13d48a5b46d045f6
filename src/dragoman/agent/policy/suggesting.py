"""The rule that `always` saves: as narrow as it can be and still be of use."""

from __future__ import annotations

from dragoman import shell
from dragoman.agent.policy.addresses import DOMAIN, read_address, spellings_of
from dragoman.agent.policy.classes import class_of
from dragoman.agent.policy.deciding import decide
from dragoman.agent.policy.decisions import DecisionContext, Rule, Rules
from dragoman.agent.policy.rules import mcp_name, read_rule
from dragoman.errors import ConfigError
from dragoman.types import Operand, ToolCall

_SPECIAL = frozenset("*?{}")


def suggest_rule(call: ToolCall, context: DecisionContext) -> Rule | None:
    """The rule that would have allowed this call unasked; None where none could, or it would say too much."""
    text = _suggest(context)
    if text is None:
        return None
    try:
        rule = read_rule(text, "allow")
    except ConfigError:
        return None
    # A rule that does not help would only be a promise that is not kept.
    return rule if decide(call, context, Rules("default", (rule,))).verdict == "allow" else None


def _suggest(context: DecisionContext) -> str | None:
    kind = class_of(context.tool)
    if kind == "mcp":
        return _literal(mcp_name(context.tool))
    if kind in ("own", "session"):
        return _literal(context.tool.name)
    if len(context.operands) != 1 and kind != "exec":
        return None
    if kind == "exec":
        return _suggest_command(context)
    if kind == "fetch":
        return _suggest_domain(context.operands[0])
    if kind in ("read", "write") and context.operands[0].kind == "path":
        path = _literal(context.operands[0].value)
        return path and f"{kind}({path})"
    return None


def _suggest_command(context: DecisionContext) -> str | None:
    commands = [operand.value for operand in context.operands if operand.kind == "command"]
    family = context.tool.metadata.get("family")
    if len(commands) != 1:
        return None
    try:
        pattern = shell.suggest(commands[0])
    except Exception:
        return None
    return pattern and f"{family if isinstance(family, str) else context.tool.name}({pattern})"


def _suggest_domain(operand: Operand) -> str | None:
    spellings = spellings_of(operand.value, operand.real) if operand.kind == "url" else []
    address = read_address(spellings[-1]) if spellings else None
    host = address and _literal(address.host)
    return f"fetch({DOMAIN}{host})" if host else None


def _literal(text: str) -> str | None:
    """The text, if it stands for itself in a pattern."""
    return text if text and not _SPECIAL & set(text) and text == text.strip() else None
