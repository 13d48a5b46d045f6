"""Which rules speak about a call.

A rule that denies or asks speaks where anything in the call may be what it names. A rule that allows speaks only where
everything in the call surely is.
"""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.agent.policy import commands
from dragoman.agent.policy.addresses import DOMAIN, allows_address, mentions_address, spellings_of
from dragoman.agent.policy.classes import class_of, operands_that_matter, searches
from dragoman.agent.policy.decisions import DecisionContext, Rule
from dragoman.agent.policy.globs import allows_path, may_hold, mentions_path
from dragoman.agent.policy.rules import covers, rank
from dragoman.types import Operand, ToolCall

_FILES = frozenset({"read", "write"})


def find_against(rules: Sequence[Rule], call: ToolCall, context: DecisionContext) -> Rule | None:
    """The first of these rules, by scope, that speaks against a call."""
    return min((rule for rule in rules if speaks_against(rule, call, context)), key=rank, default=None)


def speaks_against(rule: Rule, call: ToolCall, context: DecisionContext) -> bool:
    """Whether a rule that denies or asks is about this call."""
    if not covers(rule, context.tool, call.name):
        return _names_file_of_command(rule, context)
    operands = operands_that_matter(context)
    # What the call is about is not known, so it may be what the rule names.
    if rule.pattern is None or not operands or context.uninspected:
        return True
    return any(_mentions(rule.pattern, operand) for operand in operands)


def find_beneath(rules: Sequence[Rule], call: ToolCall, context: DecisionContext) -> Rule | None:
    """The first of these rules that names something which a search of a folder could come upon."""
    if not searches(context.tool):
        return None
    about = [rule for rule in rules if rule.pattern is not None and covers(rule, context.tool, call.name)]
    folders = [operand.value for operand in context.operands if operand.kind == "path"]
    found = (rule for rule in about if any(may_hold(rule.pattern or "", folder) for folder in folders))
    return min(found, key=rank, default=None)


def find_allowing(rules: Sequence[Rule], context: DecisionContext) -> tuple[Rule, ...]:
    """The rules that together allow everything about a call; none if anything is left."""
    speaking = sorted((rule for rule in rules if covers(rule, context.tool)), key=rank)
    for rule in speaking:
        if rule.pattern is None:
            return (rule,)
    operands = operands_that_matter(context)
    if not operands or context.uninspected:
        return ()
    used: dict[Rule, None] = {}
    for operand in operands:
        found = _find_for(speaking, operand)
        if not found:
            return ()
        used.update(dict.fromkeys(found))
    return tuple(used)


def _find_for(rules: Sequence[Rule], operand: Operand) -> Sequence[Rule]:
    """The rule that allows an operand; of a line of several commands, the rules that allow it together."""
    for rule in rules:
        if _allows(rule.pattern or "", operand):
            return [rule]
    if operand.kind != "command" or not operand.inside:
        return ()
    return rules if commands.allows([rule.pattern or "" for rule in rules], operand.value) else ()


def _allows(pattern: str, operand: Operand) -> bool:
    if operand.kind == "command":
        return commands.allows([pattern], operand.value)
    if not operand.inside:
        return False
    if operand.kind == "url":
        pattern = f"{DOMAIN}*" if pattern == "*" else pattern
        spellings = spellings_of(operand.value, operand.real)
        return bool(spellings) and all(allows_address(pattern, each) for each in spellings)
    if pattern.startswith("/"):
        return allows_path(pattern, operand.real)
    return allows_path(pattern, operand.value) and (
        not _is_elsewhere(operand) or allows_path(f"**/{pattern}", operand.real)
    )


def _mentions(pattern: str, operand: Operand) -> bool:
    if operand.kind == "command":
        return commands.mentions(pattern, operand.value)
    if operand.kind == "url":
        # Nothing at all may be any address.
        return any(mentions_address(pattern, each) for each in spellings_of(operand.value, operand.real) or [""])
    if any(mentions_path(pattern, each) for each in (operand.value, operand.real) if each):
        return True
    # Where the workspace begins is not known here, so a pattern that is relative to it may begin anywhere.
    return _is_elsewhere(operand) and mentions_path(f"**/{pattern.lstrip('/')}", operand.real)


def _is_elsewhere(operand: Operand) -> bool:
    """Whether a path goes over a link, as far as its spelling tells. The file tools name what is behind it as well."""
    named = operand.value not in ("", ".") and operand.real != ""
    return named and operand.real != operand.value and not operand.real.endswith(f"/{operand.value}")


def _names_file_of_command(rule: Rule, context: DecisionContext) -> bool:
    """Whether a rule about files is about a file that a command names: `cat .env` reads as much as the tool does."""
    family = rule.subject.lower()
    if family not in _FILES or rule.pattern is None or class_of(context.tool) != "exec":
        return False
    pattern, files = rule.pattern, [operand for operand in context.operands if operand.kind == "path"]
    if family == "write":
        files = [operand for operand in files if operand.access == "write"]
    elif any(mentions_path(pattern, path) for path in commands.paths_of(context)):
        return True
    return any(_mentions(pattern, operand) for operand in files)
