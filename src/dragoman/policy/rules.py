"""The rules that users write, and which of them apply to a call."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, did_you_mean
from dragoman.policy.patterns import (
    DOMAIN,
    allows_address,
    allows_path,
    matches_name,
    may_expand_to,
    may_hold,
    mentions_address,
    mentions_path,
    read_address,
    spellings_of,
)
from dragoman.types import ModeName, Operand, OperandKind, Tool, ToolCall

# The shell parser is imported where a command is judged: the import takes 8 ms, and many runs have no command.
if TYPE_CHECKING:
    from dragoman.policy import shell

# --------------------------------------------------------------------------------------------------------------------
# Decisions, and everything that they are made from.

Verdict = Literal["allow", "ask", "deny"]
"""What a rule or a policy says about a call."""
Mode = ModeName
"""A permission mode."""
Scope = Literal["managed", "user", "project", "session"]
"""Where a rule comes from. A managed rule cannot be overridden."""
_Answer = TypeVar("_Answer")
STRICTNESS: dict[str, int] = {"allow": 0, "ask": 1, "deny": 2}


class Decision(Struct, frozen=True):
    """A verdict and its reason."""

    verdict: Verdict
    reason: str = ""
    """A sentence for the model and for the approver."""
    rule: str = ""
    """The deciding rule as written, or the name of a default such as `mode:plan`."""
    code: str = ""
    """The kind of reason, for programs: `rule`, `mode`, `marked`, `trust`, `default`, `policy`, ..."""


class Rule(Struct, frozen=True):
    """One permission rule: `bash(git status*)`, `write(src/**)`, `fetch(domain:*.example.org)`, `mcp:server/*`."""

    verdict: Verdict
    subject: str
    """The tool, or the family of tools; `*` matches anything."""
    pattern: str | None = None
    """The text in the brackets; None without brackets: then the operands do not matter."""
    scope: Scope = "user"

    def __str__(self) -> str:
        return self.subject if self.pattern is None else f"{self.subject}({self.pattern})"


class Rules(Struct, frozen=True):
    """The rules of a run, and the mode that decides if no rule does."""

    mode: Mode = "default"
    rules: tuple[Rule, ...] = ()


class DecisionContext(Struct, frozen=True):
    """What is known about a call besides its arguments."""

    tool: Tool
    operands: tuple[Operand, ...] = ()
    sandboxed: bool = False
    """Whether the tool would run inside a sandbox that passed its check."""
    uninspected: str = ""
    """Why the operands are unknown, if the inspection failed: nothing may be allowed on a guess."""


def strictest_of(decisions: Sequence[Decision]) -> Decision:
    """Return the strictest decision, with the reasons of all decisions that are as strict."""
    strictest = max(decisions, key=lambda decision: STRICTNESS[decision.verdict])
    reasons = dict.fromkeys(each.reason for each in decisions if each.verdict == strictest.verdict and each.reason)
    return strictest if len(reasons) < 2 else replace(strictest, reason="; ".join(reasons))


# --------------------------------------------------------------------------------------------------------------------
# The syntax of rules: `bash(git status*)`, `write(src/**)`, `fetch(domain:*.example.org)`, `mcp:server/*`.

SCOPES: tuple[Scope, ...] = ("managed", "user", "project", "session")
"""The order in which scopes are named, if rules of several scopes lead to the same decision."""
_MAY_ALLOW: tuple[Scope, ...] = ("managed", "user", "session")
FAMILIES = ("read", "write", "bash", "fetch")
"""Names for several tools at once."""
PATH_FAMILIES = frozenset({"read", "glob", "grep", "write", "edit", "apply_patch"})
URL_FAMILIES = frozenset({"fetch", "web_fetch"})
MCP = "mcp:"
_BUILTIN = frozenset({*FAMILIES, *PATH_FAMILIES, *URL_FAMILIES})
LONGEST = 2_000
_EXAMPLES = "rules look like bash(git status*), write(src/**), fetch(domain:*.example.org), mcp:server/* or delete_*"
_subject = re.compile(r"[^\s(),\x00-\x1f\x7f]+").fullmatch
_mcp_subject = re.compile(r"mcp:(?:\*|[^/]+/.+)").fullmatch
_control = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]").search
_domain = re.compile(r"[^\s/\\@?#:]+").fullmatch


def read_rule(text: str, verdict: Verdict, scope: Scope = "user") -> Rule:
    """Parse a rule. Raise ConfigError with the fault if the text is not a rule."""
    if verdict not in STRICTNESS or scope not in SCOPES:
        raise ConfigError(f"{verdict!r} of {scope!r} is not a kind of rule", hint="the verdict is allow, ask or deny")
    if len(text) > LONGEST or _control(text):
        raise ConfigError("a rule is one short line of text", hint=_EXAMPLES)
    subject, opened, rest = text.strip().partition("(")
    if opened and not rest.endswith(")"):
        raise _wrong(text, "its bracket is not closed", _EXAMPLES)
    subject = subject.strip()
    pattern = rest[:-1].strip() if opened else None
    if not _subject(subject):
        raise _wrong(text, "it does not name a tool", _EXAMPLES)
    if pattern == "":
        raise _wrong(text, "its brackets are empty", f"for every call write {subject} without brackets")
    fault, hint = _find_fault(subject.lower(), pattern)
    if fault:
        raise _wrong(text, fault, hint)
    return Rule(verdict, subject, pattern, scope)


def write_rule(rule: Rule) -> str:
    """Return the text of a rule, as in a settings file."""
    return str(rule)


def ignored(rules: Rules | Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules without effect: a project contains code of others, so its rules may tighten but never allow."""
    every = rules.rules if isinstance(rules, Rules) else rules
    return tuple(rule for rule in every if rule.verdict == "allow" and rule.scope not in _MAY_ALLOW)


def rank(rule: Rule) -> int:
    """Return the order of a rule among rules with the same effect: the widest scope is named as the reason."""
    return SCOPES.index(rule.scope) if rule.scope in SCOPES else len(SCOPES)


def covers(rule: Rule, tool: Tool, called: str = "") -> bool:
    """Whether a rule applies to a tool: by its name, by its family, or as a tool of a server."""
    return any(matches_name(rule.subject, name) for name in names_of(tool, called))


def find_unmatched(rules: Iterable[Rule], tools: Iterable[Tool]) -> list[str]:
    """Return what is wrong with rules that apply to none of these tools, as a misspelled name of a tool does not.

    A rule for a family of built-in tools, or for tools of MCP servers, may be right without such a tool.
    """
    offered = list(tools)
    known = [*(tool.name for tool in offered), *FAMILIES]
    return [
        f"no tool has the name {rule.subject!r}, so the rule {rule.verdict} {rule} applies to nothing"
        + did_you_mean(rule.subject, known)
        for rule in rules
        if not (rule.subject.lower() in _BUILTIN or rule.subject.lower().startswith(MCP) or rule.subject == "*")
        and not any(covers(rule, tool) for tool in offered)
    ]


def names_of(tool: Tool, called: str = "") -> list[str]:
    """Return every name that rules can use for a tool."""
    family = tool.metadata.get("family")
    names = [tool.name, called, family if isinstance(family, str) else "", mcp_name(tool)]
    return [name for name in dict.fromkeys(names) if name]


def mcp_name(tool: Tool) -> str:
    """Return `mcp:server/tool` for a tool of a server, and "" for others."""
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
            return (
                "it does not name a tool of a server",
                "write mcp:server/tool, mcp:server/* for all of its tools, or mcp:* for all servers",
            )
        if pattern is not None:
            return "rules for tools of a server have no brackets", f"write {subject} without brackets"
        return "", ""
    if pattern is None:
        return "", ""
    if subject in PATH_FAMILIES and ("{" in pattern or "}" in pattern):
        return "a path pattern has no braces", "write one rule for each path"
    return _find_fault_of_address(pattern) if subject in URL_FAMILIES else ("", "")


def _find_fault_of_address(pattern: str) -> tuple[str, str]:
    if pattern == "*":
        return "", ""
    if pattern.startswith(DOMAIN):
        host = pattern.removeprefix(DOMAIN)
        if not _domain(host) or ".." in host or host.startswith(".") or host in ("*.", "."):
            return f"{host!r} is not a host", "write fetch(domain:example.org) or fetch(domain:*.example.org)"
        return "", ""
    if "://" not in pattern:
        return "it is neither a domain nor an address", f"write fetch({DOMAIN}{pattern}) or fetch(https://{pattern}/**)"
    if "?" in pattern or "#" in pattern:
        return "an address in a rule ends before its `?`", "end it with /** to include every query"
    if read_address(pattern) is None:
        return "its address cannot be read", "write fetch(https://example.org/docs/**)"
    return "", ""


# --------------------------------------------------------------------------------------------------------------------
# The class of a tool, from its metadata. A tool without metadata is a function of the developer.

ToolClass = Literal["own", "session", "read", "write", "exec", "fetch", "mcp", "unknown"]
_TOLD: tuple[ToolClass, ...] = ("session", "read", "write", "exec", "fetch")
_MATTERS: dict[ToolClass, OperandKind] = {"read": "path", "write": "path", "exec": "command", "fetch": "url"}


def class_of(tool: Tool) -> ToolClass:
    """Return the class of a tool. An unknown value is `unknown`, which needs an approval."""
    origin = tool.metadata.get("origin")
    if isinstance(origin, str) and origin.startswith(MCP):
        return "mcp"
    told = tool.metadata.get("class")
    if told is None:
        return "own"
    return next((each for each in _TOLD if each == told), "unknown")


def operands_that_matter(context: DecisionContext) -> Sequence[Operand]:
    """Return the operands that the pattern of a rule matches: for a command, the line and not the files it names."""
    kind = _MATTERS.get(class_of(context.tool))
    return [operand for operand in context.operands if kind is None or operand.kind == kind]


def searches(tool: Tool) -> bool:
    """Whether a tool shows the content of all files below a folder, and not only of one named file."""
    return tool.metadata.get("searches") is True or (class_of(tool) == "read" and tool.name == "grep")


# --------------------------------------------------------------------------------------------------------------------
# The effects of the commands of a call. If a command is not understood, the stricter answer counts.


class CommandEffects(NamedTuple):
    """Whether the commands of a call only read, and whether they stay in the workspace."""

    is_read_only: bool
    leaves: bool
    why: str


def commands_of(context: DecisionContext) -> list[str]:
    return [operand.value for operand in context.operands if operand.kind == "command"]


def read_commands(context: DecisionContext) -> CommandEffects:
    """Return the effects of the commands, as far as they are certain. One command that may write counts for all."""
    commands = commands_of(context)
    if not commands:
        return CommandEffects(False, True, "the command is unknown")
    leaves = any(operand.kind == "path" and not operand.inside for operand in context.operands)
    why = ""
    for command in commands:
        found = _read_only(command)
        if found is None or not found.verdict:
            return CommandEffects(False, True, found.why if found is not None and found.why else "it is not understood")
        if found.leaves and not leaves:
            leaves, why = True, found.why
    # A program that only reads may do more if a file of the workspace defines the program or what it runs.
    if deciding := next((each.value for each in context.operands if each.kind == "path" and each.access == "run"), ""):
        return CommandEffects(False, True, f"what it runs depends on {deciding}")
    return CommandEffects(True, leaves, why or ("it names a path outside the workspace" if leaves else "it only reads"))


def paths_of(context: DecisionContext) -> list[str]:
    """Return the files that the commands of a call read by name."""
    readings = [_read_only(command) for command in commands_of(context)]
    return [path for found in readings if found is not None for path in found.paths]


def changed_paths_of(context: DecisionContext) -> list[str] | None:
    """Return the files that the commands of a call name in order to change them; None if they are too many."""
    found = [_find_changed(each) for each in commands_of(context)]
    return None if None in found else [path for each in found for path in each or ()]


def globs_of(context: DecisionContext) -> list[str]:
    """Return the file name patterns of the commands of a call, below each folder that may be current."""
    readings = [_read_only(command) for command in commands_of(context)]
    reads = [each for found in readings if found is not None for each in found.reads if each.is_pattern]
    return [posixpath.join(folder, each.path) for each in reads for folder in each.folders]


def ask_shell(question: Callable[[Any], _Answer], otherwise: _Answer) -> _Answer:
    """Call the shell parser. The policy is total: a line on which the parser fails counts as not understood."""
    from dragoman.policy import shell

    try:
        return question(shell)
    except Exception:
        return otherwise


def allows(patterns: Sequence[str], command: str, outside: Sequence[str] = ()) -> bool:
    """Whether the patterns of allow rules cover a command line entirely."""
    return ask_shell(lambda shell: bool(shell.allows_any(patterns, command, outside)), otherwise=False)


def mentions(pattern: str, command: str) -> bool:
    """Whether a command line may run what a deny or ask rule names."""
    return ask_shell(lambda shell: bool(shell.mentions(pattern, command)), otherwise=True)


# A rule about files needs the same analysis as the mode, and there may be many rules.
@lru_cache(maxsize=8)
def _read_only(command: str) -> shell.ReadOnly | None:
    found: shell.ReadOnly | None = ask_shell(lambda shell: shell.read_only(command), otherwise=None)
    return found


@lru_cache(maxsize=8)
def _find_changed(command: str) -> tuple[str, ...] | None:
    found: tuple[str, ...] | None = ask_shell(lambda shell: shell.find_changed(command), otherwise=None)
    return found


# --------------------------------------------------------------------------------------------------------------------
# Which rules apply to a call.
#
# A deny or ask rule applies if anything in the call may match it. An allow rule applies only if everything in the call
# certainly matches.

_FILES = frozenset({"read", "write"})


def find_against(rules: Sequence[Rule], call: ToolCall, context: DecisionContext) -> Rule | None:
    """Return the first of these rules, by scope, that applies to a call."""
    return min((rule for rule in rules if speaks_against(rule, call, context)), key=rank, default=None)


def speaks_against(rule: Rule, call: ToolCall, context: DecisionContext) -> bool:
    """Whether a deny or ask rule applies to this call."""
    if not covers(rule, context.tool, call.name):
        return _names_file_of_command(rule, context)
    operands = operands_that_matter(context)
    # The operands are unknown, so they may match the rule.
    if rule.pattern is None or not operands or context.uninspected:
        return True
    return any(_mentions(rule.pattern, operand) for operand in operands)


def find_beneath(rules: Sequence[Rule], call: ToolCall, context: DecisionContext) -> Rule | None:
    """Return the first of these rules that names something which a search of a folder could find."""
    if class_of(context.tool) == "exec":
        return min((rule for rule in rules if _may_be_read_by_command(rule, context)), key=rank, default=None)
    if not searches(context.tool):
        return None
    about = [rule for rule in rules if rule.pattern is not None and covers(rule, context.tool, call.name)]
    folders = [operand.value for operand in context.operands if operand.kind == "path"]
    found = (rule for rule in about if any(may_hold(rule.pattern or "", folder) for folder in folders))
    return min(found, key=rank, default=None)


def _may_be_read_by_command(rule: Rule, context: DecisionContext) -> bool:
    """Whether a command searches a folder, or names files by a pattern, so that it could read what a rule names."""
    pattern = rule.pattern
    if rule.subject.lower() != "read" or pattern is None:
        return False
    folders = [each.value for each in context.operands if each.kind == "path" and each.value.endswith("/")]
    return any(may_hold(pattern, folder) for folder in folders) or any(
        may_expand_to(pattern, glob) for glob in globs_of(context)
    )


def find_allowing(rules: Sequence[Rule], context: DecisionContext) -> tuple[Rule, ...]:
    """Return the rules that together allow everything in a call; none if anything is left."""
    speaking = sorted((rule for rule in rules if covers(rule, context.tool)), key=rank)
    for rule in speaking:
        if rule.pattern is None:
            return (rule,)
    operands = operands_that_matter(context)
    if not operands or context.uninspected:
        return ()
    used: dict[Rule, None] = {}
    # Links lead a command there, which its line does not show.
    outside = [each.value for each in context.operands if each.access == "read" and not each.inside]
    for operand in operands:
        found = _find_for(speaking, operand, outside)
        if not found:
            return ()
        used.update(dict.fromkeys(found))
    return tuple(used)


def _find_for(rules: Sequence[Rule], operand: Operand, outside: Sequence[str]) -> Sequence[Rule]:
    """Return the rule that allows an operand; for a line of several commands, the rules that together allow it."""
    for rule in rules:
        if _allows(rule.pattern or "", operand, outside):
            return [rule]
    if operand.kind != "command" or not operand.inside:
        return ()
    return rules if allows([rule.pattern or "" for rule in rules], operand.value, outside) else ()


def _allows(pattern: str, operand: Operand, outside: Sequence[str]) -> bool:
    if operand.kind == "command":
        return allows([pattern], operand.value, outside)
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
        return mentions(pattern, operand.value)
    if operand.kind == "url":
        # An empty pattern may be any URL.
        return any(mentions_address(pattern, each) for each in spellings_of(operand.value, operand.real) or [""])
    if any(mentions_path(pattern, each) for each in (operand.value, operand.real) if each):
        return True
    # The workspace is unknown here, so a relative pattern may start anywhere.
    return _is_elsewhere(operand) and mentions_path(f"**/{pattern.lstrip('/')}", operand.real)


def _is_elsewhere(operand: Operand) -> bool:
    """Whether a path contains a link, as far as its spelling shows. File tools also report the target of a link."""
    named = operand.value not in ("", ".") and operand.real != ""
    return named and operand.real != operand.value and not operand.real.endswith(f"/{operand.value}")


def _names_file_of_command(rule: Rule, context: DecisionContext) -> bool:
    """Whether a rule about files applies to a file that a command names: `cat .env` reads the same file as the tool."""
    family = rule.subject.lower()
    if family not in _FILES or rule.pattern is None or class_of(context.tool) != "exec":
        return False
    pattern, files = rule.pattern, [operand for operand in context.operands if operand.kind == "path"]
    if family == "write":
        files = [operand for operand in files if operand.access == "write"]
    named = changed_paths_of(context) if family == "write" else paths_of(context)
    if named is None:
        return True
    return any(_mentions_name(pattern, path) for path in named) or any(_mentions(pattern, each) for each in files)


def _mentions_name(pattern: str, path: str) -> bool:
    # The workspace is unknown here, so a relative pattern may start anywhere in an absolute path.
    is_absolute = path.startswith("/") and not pattern.startswith(("/", "~"))
    return mentions_path(pattern, path) or (is_absolute and mentions_path(f"**/{pattern}", path))
