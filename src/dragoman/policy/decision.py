"""The decision about one call: allow, ask or deny. Pure, total and monotone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError, did_you_mean
from dragoman.extraction.trust import find_doubt, name_level
from dragoman.keywords import as_list
from dragoman.policy.patterns import DOMAIN, read_address, spellings_of
from dragoman.policy.rules import (
    STRICTNESS,
    Decision,
    DecisionContext,
    Mode,
    Rule,
    Rules,
    ToolClass,
    Verdict,
    ask_shell,
    class_of,
    find_against,
    find_allowing,
    find_beneath,
    ignored,
    mcp_name,
    read_commands,
    read_rule,
    strictest_of,
    write_rule,
)
from dragoman.types import Operand, Tool, ToolCall

# --------------------------------------------------------------------------------------------------------------------
# The decision of a mode on a call that no rule covers.
#
# | | plan | default | edits | sandboxed | bypass |
# |---|---|---|---|---|---|
# | session tools | allow | allow | allow | allow | allow |
# | the developer's own functions | allow if they only read, else deny | allow | allow | allow | allow |
# | read, in the workspace | allow | allow | allow | allow | allow |
# | read, elsewhere | ask | ask | ask | ask | allow |
# | write, in the workspace | deny | ask | allow | allow | allow |
# | write, elsewhere | deny | ask | ask | ask | allow |
# | a command that only reads | allow | allow | allow | in the sandbox, else ask | allow |
# | the same, elsewhere | ask | ask | ask | in the sandbox, else ask | allow |
# | any other command | deny | ask | ask | in the sandbox, else ask | allow |
# | fetch | ask | ask | ask | ask | allow |
# | tools of servers (MCP) | ask if they only read, else deny | ask | ask | ask | allow |
#
# A command that runs a script, a program of the workspace, or a program named in the settings of a repository is not
# read-only.
#
# `locked` is `default` without an approver: every call that would need an approval is denied.


class ModeTraits(Struct, frozen=True):
    """How a mode differs from `default`. A mode has a name in `types.ModeName`, a row here and a section in docs."""

    rank: int
    """A lower rank is stricter. Modes with the same rank are not ordered: each forbids something the other allows."""
    forbids_changes: bool = False
    allows_edits: bool = False
    uses_sandbox: bool = False
    allows_all: bool = False
    asks: bool = True


TRAITS: dict[Mode, ModeTraits] = {
    "plan": ModeTraits(0, forbids_changes=True),
    "locked": ModeTraits(0, asks=False),
    "default": ModeTraits(1),
    "edits": ModeTraits(2, allows_edits=True),
    "sandboxed": ModeTraits(3, allows_edits=True, uses_sandbox=True),
    "bypass": ModeTraits(4, allows_all=True),
}
MODES: tuple[Mode, ...] = get_args(Mode)
"""From the strictest to the loosest."""
MODE_RANKS = tuple(tuple(group) for _, group in groupby(MODES, lambda mode: TRAITS[mode].rank))
"""The same by rank."""


def known_mode(mode: str) -> Mode:
    """Return the mode with this name. An unknown name gives the mode that never asks and allows little."""
    return next((each for each in MODES if each == mode), "locked")


def default_decision(context: DecisionContext, mode: Mode) -> Decision:
    """Return the decision of a mode where no rule applies. For `locked` it may be `ask`; `_finish` makes it deny."""
    traits = TRAITS[mode]
    if traits.allows_all:
        return _allow(mode, f"the mode is {mode}")
    decision = _BY_CLASS[class_of(context.tool)](context, mode)
    if decision.verdict == "allow" and context.tool.requires_approval:
        return Decision("ask", f"{context.tool.name} is marked as needing approval", "marked", "marked")
    return decision


def _session(context: DecisionContext, mode: Mode) -> Decision:
    return _allow(mode, f"{context.tool.name} only affects the session")


def _own(context: DecisionContext, mode: Mode) -> Decision:
    return _forbid_change(context, mode) or _allow(mode, f"{context.tool.name} is a function of the program itself")


def _read(context: DecisionContext, mode: Mode) -> Decision:
    return _ask_outside(context, mode) or _allow(mode, f"{context.tool.name} only reads in the workspace")


def _write(context: DecisionContext, mode: Mode) -> Decision:
    if TRAITS[mode].forbids_changes:
        return _forbid(mode, f"{context.tool.name} may change something")
    if not TRAITS[mode].allows_edits:
        return _ask(mode, f"{context.tool.name} changes files")
    if not context.operands:
        return _ask(mode, f"it is not known which files {context.tool.name} would change")
    inside = f"the mode is {mode}, and every file lies in the workspace"
    return _ask_outside(context, mode) or _allow(mode, inside)


def _exec(context: DecisionContext, mode: Mode) -> Decision:
    if TRAITS[mode].uses_sandbox:
        if context.sandboxed:
            return _allow(mode, f"the mode is {mode}, and the command runs in a sandbox")
        return _ask(mode, f"the mode is {mode}, and there is no sandbox that works")
    reading = read_commands(context)
    if reading.is_read_only and not reading.leaves:
        return _allow(mode, "the command only reads, and stays in the workspace")
    if reading.is_read_only:
        return _ask(mode, f"the command leaves the workspace: {reading.why}", "outside")
    why = f"the command is not known to read only: {reading.why}"
    return _forbid(mode, why) if TRAITS[mode].forbids_changes else _ask(mode, why)


def _fetch(context: DecisionContext, mode: Mode) -> Decision:
    return _ask(mode, f"{context.tool.name} reaches the network")


def _mcp(context: DecisionContext, mode: Mode) -> Decision:
    words = f"{context.tool.name} belongs to the server {context.tool.metadata['origin']}"
    return _forbid_change(context, mode) or _ask(mode, words)


def _unknown(context: DecisionContext, mode: Mode) -> Decision:
    words = f"it is not known what kind of tool {context.tool.name} is"
    return _forbid_change(context, mode) or _ask(mode, words)


_BY_CLASS: dict[ToolClass, Callable[[DecisionContext, Mode], Decision]] = {
    "own": _own,
    "session": _session,
    "read": _read,
    "write": _write,
    "exec": _exec,
    "fetch": _fetch,
    "mcp": _mcp,
    "unknown": _unknown,
}


def _allow(mode: Mode, why: str) -> Decision:
    return Decision("allow", why, f"mode:{mode}", "default")


def _ask(mode: Mode, why: str, code: str = "default") -> Decision:
    return Decision("ask", why, f"mode:{mode}", code)


def _forbid(mode: Mode, why: str) -> Decision:
    return Decision("deny", f"the mode is {mode}, in which nothing is changed, and {why}", f"mode:{mode}", "mode")


def _forbid_change(context: DecisionContext, mode: Mode) -> Decision | None:
    """Deny a tool that may change something, in a mode that forbids changes."""
    if not TRAITS[mode].forbids_changes or context.tool.read_only:
        return None
    return _forbid(mode, f"{context.tool.name} may change something")


def _ask_outside(context: DecisionContext, mode: Mode) -> Decision | None:
    outside = next((operand.value or "a place" for operand in context.operands if not operand.inside), "")
    return _ask(mode, f"{outside} lies outside the workspace", "outside") if outside else None


# --------------------------------------------------------------------------------------------------------------------
# The decision on one call, from the call, its operands and the rules. Pure, total and monotone.
#
# Deny wins over ask, and ask over allow. Neither the length nor the order of rules matters. So an additional deny or
# ask rule never makes a decision less strict, and a call is never allowed because it was not understood.


def decide(call: ToolCall, context: DecisionContext, rules: Rules) -> Decision:
    """Decide on a call: deny if anything denies it, else ask if anything asks, else allow."""
    mode = known_mode(rules.mode)
    # An unknown verdict counts as the strictest one.
    denying = [rule for rule in rules.rules if rule.verdict not in ("allow", "ask")]
    denied = find_against(denying, call, context)
    if denied is not None:
        return Decision("deny", f"{_who(denied)} denies {write_rule(denied)}", write_rule(denied), "rule")
    usual = default_decision(context, mode)
    if usual.verdict == "deny":
        return usual
    firm = _find_firm(call, context) or _find_rule(call, context, rules, denying, mode)
    if firm is not None:
        return _finish(firm, mode)
    if usual.verdict == "allow":
        return usual
    passed_over = set(ignored(rules))
    allowing = [rule for rule in rules.rules if rule.verdict == "allow" and rule not in passed_over]
    found = find_allowing(allowing, context)
    if not found:
        return _finish(usual, mode)
    written = ", ".join(map(write_rule, found))
    return Decision("allow", f"{_who(found[0])} allows {written}", written, "rule")


def _find_firm(call: ToolCall, context: DecisionContext) -> Decision | None:
    """Return the decision to ask that applies in every mode and that no rule can lift."""
    doubt = find_doubt(call, context.tool)
    if doubt:
        return Decision("ask", doubt, f"trust:{name_level(call)}", "trust")
    if context.uninspected:
        why = f"the operands of {context.tool.name} are unknown: {context.uninspected}"
        return Decision("ask", why, "uninspected", "uninspected")
    changes = class_of(context.tool) == "write"
    for operand in context.operands:
        if operand.protected and (changes or operand.access == "write"):
            why = f"{operand.value} is protected: a change of it could change what is trusted later"
            return Decision("ask", why, "protected", "protected")
    return None


def _find_rule(
    call: ToolCall, context: DecisionContext, rules: Rules, denying: list[Rule], mode: Mode
) -> Decision | None:
    beneath = find_beneath(denying, call, context)
    if beneath is not None:
        why = f"the search could find a path that {_who(beneath)} denies: {write_rule(beneath)}"
        return Decision("ask", why, write_rule(beneath), "rule")
    # `bypass` never asks, but deny rules still apply.
    if TRAITS[mode].allows_all:
        return None
    asking = [rule for rule in rules.rules if rule.verdict == "ask"]
    found = find_against(asking, call, context) or find_beneath(asking, call, context)
    if found is None:
        return None
    return Decision("ask", f"{_who(found)} asks about {write_rule(found)}", write_rule(found), "rule")


def _finish(asked: Decision, mode: Mode) -> Decision:
    if TRAITS[mode].asks:
        return asked
    lifted = asked.code in ("default", "marked", "outside")
    how = (
        "a rule in `allow` of the user's own settings permits it"
        if lifted
        else "only another mode can ask for approval"
    )
    why = f"{asked.reason}; the mode {mode} never asks: {how}"
    return replace(asked, verdict="deny", reason=why, code="mode")


def _who(rule: Rule) -> str:
    names = {"managed": "a managed rule", "user": "a rule of the user", "project": "a rule of the project"}
    return names.get(rule.scope, "a rule of this session")


# --------------------------------------------------------------------------------------------------------------------
# The rules of an agent, from the forms in which users write them.


def gather_rules(
    mode: Mode | None,
    rules: Rules | Iterable[Rule] | None,
    *,
    allow: Iterable[str] = (),
    ask: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> Rules:
    """Return rules from `Rules`, `Rule` values and texts such as `allow=["bash(git status*)"]`."""
    if mode is not None and mode not in MODES:
        raise ConfigError(
            f"there is no mode {mode!r}{did_you_mean(str(mode), MODES)}",
            hint=f"the modes are {', '.join(MODES)}",
        )
    gathered = rules if isinstance(rules, Rules) else Rules(rules=tuple(rules or ()))
    written: list[tuple[Verdict, Iterable[str]]] = [("deny", deny), ("ask", ask), ("allow", allow)]
    added: list[Rule] = []
    for verdict, texts in written:
        added += [read_rule(text, verdict, "user") for text in as_list(verdict, texts)]
    return replace(gathered, mode=mode or gathered.mode, rules=(*gathered.rules, *added))


# --------------------------------------------------------------------------------------------------------------------
# The rule that `always` saves: as narrow as possible, but still useful.

_SPECIAL = frozenset("*?{}")


def suggest_rule(call: ToolCall, context: DecisionContext) -> Rule | None:
    """Return the rule that would have allowed this call; None if no rule can, or if it would allow too much."""
    text = _suggest(context)
    if text is None:
        return None
    try:
        rule = read_rule(text, "allow")
    except ConfigError:
        return None
    # A rule that has no effect would mislead the user.
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
    pattern: str | None = ask_shell(lambda shell: shell.suggest(commands[0]), otherwise=None)
    return pattern and f"{family if isinstance(family, str) else context.tool.name}({pattern})"


def _suggest_domain(operand: Operand) -> str | None:
    spellings = spellings_of(operand.value, operand.real) if operand.kind == "url" else []
    address = read_address(spellings[-1]) if spellings else None
    host = address and _literal(address.host)
    return f"fetch({DOMAIN}{host})" if host else None


def _literal(text: str) -> str | None:
    """Return the text, if it contains no pattern character."""
    return text if text and not _SPECIAL & set(text) and text == text.strip() else None


# --------------------------------------------------------------------------------------------------------------------
# The policies of the developer.
#
# A policy is a function from a call and its tool to a `Decision`. It is synchronous. An exception in it counts as a
# denial.

Policy = Callable[[ToolCall, Tool], Decision]
"""A function that decides about each call. `Safety(policy=...)` takes one."""
ALLOWED = Decision("allow")
"""The decision to run a call without an approval."""


def consult(policy: Policy, call: ToolCall, tool: Tool) -> Decision:
    """Return the decision of a policy. An exception, or a value that is not a decision, is a denial."""
    try:
        decision: object = policy(call, tool)
    except Exception as problem:
        return Decision("deny", f"the policy failed: {type(problem).__name__}: {problem}", code="policy")
    if isinstance(decision, Decision) and decision.verdict in STRICTNESS:
        return decision
    return Decision("deny", f"the policy returned {decision!r}, which is not a decision", code="policy")


def as_policy(given: Policy | Iterable[Policy] | None) -> Policy | None:
    """Return the developer's policies as one policy; None if there are none."""
    if given is None or callable(given):
        return given
    added = list(given)
    if not all(callable(each) for each in added):
        raise ConfigError("policy must be a function or a list of functions", hint="def policy(call, tool): ...")
    return join_policies(*added)


def join_policies(*policies: Policy | None) -> Policy | None:
    """Combine policies into one that returns the strictest decision; None if there are none."""
    there = [policy for policy in policies if policy is not None]

    def decide(call: ToolCall, tool: Tool) -> Decision:
        return strictest_of([ALLOWED, *(consult(policy, call, tool) for policy in there)])

    return decide if there else None
