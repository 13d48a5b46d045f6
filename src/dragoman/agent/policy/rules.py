"""Rules as people write them: `bash(git status*)`, `write(src/**)`, `fetch(domain:*.example.org)`, `mcp:server/*`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dragoman.agent.policy.addresses import DOMAIN, read_address
from dragoman.agent.policy.decisions import STRICTNESS, Rule, Rules, Scope, Verdict
from dragoman.agent.policy.globs import matches_name
from dragoman.errors import ConfigError
from dragoman.types import Tool

SCOPES: tuple[Scope, ...] = ("managed", "user", "project", "session")
"""From the one that is named first to the one that is named last, where rules of several say the same."""
_MAY_ALLOW: tuple[Scope, ...] = ("managed", "user", "session")
FAMILIES = ("read", "write", "bash", "fetch")
"""The words that stand for several tools at once."""
PATH_FAMILIES = frozenset({"read", "glob", "grep", "write", "edit", "apply_patch"})
URL_FAMILIES = frozenset({"fetch", "web_fetch"})
MCP = "mcp:"
LONGEST = 2_000
_EXAMPLES = "rules look like bash(git status*), write(src/**), fetch(domain:*.example.org), mcp:server/* or delete_*"
_subject = re.compile(r"[^\s(),\x00-\x1f\x7f]+").fullmatch
_mcp_subject = re.compile(r"mcp:[^/]+/.+").fullmatch
_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]").search
_domain = re.compile(r"[^\s/\\@?#:]+").fullmatch


def read_rule(text: str, verdict: Verdict, scope: Scope = "user") -> Rule:
    """The rule that a text stands for. Raises ConfigError, which says what is wrong with it."""
    if verdict not in STRICTNESS or scope not in SCOPES:
        raise ConfigError(f"{verdict!r} of {scope!r} is no kind of rule", hint="a rule allows, asks or denies")
    if len(text) > LONGEST or _control(text):
        raise ConfigError("a rule is one short line of text", hint=_EXAMPLES)
    subject, opened, rest = text.strip().partition("(")
    if opened and not rest.endswith(")"):
        raise _wrong(text, "its bracket is not closed", _EXAMPLES)
    subject = subject.strip()
    pattern = rest[:-1].strip() if opened else None
    if not _subject(subject):
        raise _wrong(text, "it names no tool", _EXAMPLES)
    if pattern == "":
        raise _wrong(text, "its brackets are empty", f"for every call write {subject} without brackets")
    fault, hint = _find_fault(subject.lower(), pattern)
    if fault:
        raise _wrong(text, fault, hint)
    return Rule(verdict, subject, pattern, scope)


def write_rule(rule: Rule) -> str:
    """The text of a rule, as it stands in a file."""
    return str(rule)


def ignored(rules: Rules | Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules that do not count: a project comes with the code of others, so it may tighten and never allow."""
    every = rules.rules if isinstance(rules, Rules) else rules
    return tuple(rule for rule in every if rule.verdict == "allow" and rule.scope not in _MAY_ALLOW)


def rank(rule: Rule) -> int:
    """The place of a rule among others that say the same: that of the widest scope is named as the reason."""
    return SCOPES.index(rule.scope) if rule.scope in SCOPES else len(SCOPES)


def covers(rule: Rule, tool: Tool, called: str = "") -> bool:
    """Whether a rule speaks about a tool: by its name, by its family, or as a tool of a server."""
    return any(matches_name(rule.subject, name) for name in names_of(tool, called))


def names_of(tool: Tool, called: str = "") -> list[str]:
    """Every name by which rules may speak of a tool."""
    family = tool.metadata.get("family")
    names = [tool.name, called, family if isinstance(family, str) else "", mcp_name(tool)]
    return [name for name in dict.fromkeys(names) if name]


def mcp_name(tool: Tool) -> str:
    """`mcp:server/tool` for a tool of a server, nothing for others."""
    origin = tool.metadata.get("origin")
    if not isinstance(origin, str) or not origin.startswith(MCP):
        return ""
    told = tool.metadata.get("mcp_tool")
    return f"{origin}/{told if isinstance(told, str) else tool.name}"


def _wrong(text: str, why: str, hint: str) -> ConfigError:
    return ConfigError(f"the rule {text!r} cannot be used: {why}", hint=hint)


def _find_fault(subject: str, pattern: str | None) -> tuple[str, str]:
    if subject.startswith(MCP):
        if not _mcp_subject(subject):
            return "it names no tool of a server", "write mcp:server/tool, or mcp:server/* for all of them"
        if pattern is not None:
            return "tools of a server have nothing that brackets could match", f"write {subject} without brackets"
        return "", ""
    if pattern is None:
        return "", ""
    if subject in PATH_FAMILIES and ("{" in pattern or "}" in pattern):
        return "braces mean nothing in a path", "write one rule for each path"
    return _find_fault_of_address(pattern) if subject in URL_FAMILIES else ("", "")


def _find_fault_of_address(pattern: str) -> tuple[str, str]:
    if pattern == "*":
        return "", ""
    if pattern.startswith(DOMAIN):
        host = pattern.removeprefix(DOMAIN)
        if not _domain(host) or ".." in host or host.startswith(".") or host in ("*.", "."):
            return f"{host!r} is no host", "write fetch(domain:example.org) or fetch(domain:*.example.org)"
        return "", ""
    if "://" not in pattern:
        return "it is neither a domain nor an address", f"write fetch({DOMAIN}{pattern}) or fetch(https://{pattern}/**)"
    if "?" in pattern or "#" in pattern:
        return "an address in a rule ends before its `?`", "end it with /** to include every query"
    if read_address(pattern) is None:
        return "its address cannot be read", "write fetch(https://example.org/docs/**)"
    return "", ""
