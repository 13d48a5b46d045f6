"""What a mode says about a call that no rule is about.

| | plan | default | edits | sandboxed | bypass |
|---|---|---|---|---|---|
| session tools | allow | allow | allow | allow | allow |
| the developer's own functions | allow if they only read, else deny | allow | allow | allow | allow |
| read, in the workspace | allow | allow | allow | allow | allow |
| read, elsewhere | ask | ask | ask | ask | allow |
| write, in the workspace | deny | ask | allow | allow | allow |
| write, elsewhere | deny | ask | ask | ask | allow |
| a command that only reads | allow | allow | allow | in the sandbox, else ask | allow |
| the same, elsewhere | ask | ask | ask | in the sandbox, else ask | allow |
| any other command | deny | ask | ask | in the sandbox, else ask | allow |
| fetch | ask | ask | ask | ask | allow |
| tools of servers (MCP) | ask if they only read, else deny | ask | ask | ask | allow |

A command that runs a script, a program of the workspace, or what the settings of a repository name does not only read.

`locked` is `default` without anybody to ask: whatever would be asked about is denied.
"""

from __future__ import annotations

from collections.abc import Callable

from dragoman.agent.policy.classes import ToolClass, class_of
from dragoman.agent.policy.commands import read_commands
from dragoman.agent.policy.decisions import Decision, DecisionContext, Mode

MODES: tuple[Mode, ...] = ("plan", "locked", "default", "edits", "sandboxed", "bypass")
"""From the strictest to the loosest. `plan` and `locked` are of a rank: neither allows all that the other does."""


def known_mode(mode: str) -> Mode:
    """The mode of that name; a word that is none is the mode in which nothing is asked and little is allowed."""
    return next((each for each in MODES if each == mode), "locked")


def default_decision(context: DecisionContext, mode: Mode) -> Decision:
    """What a mode says where no rule does. `locked` says here what it would ask about; nobody is asked in the end."""
    if mode == "bypass":
        return _allow(mode, "the mode is bypass")
    decision = _BY_CLASS[class_of(context.tool)](context, "default" if mode == "locked" else mode)
    if decision.verdict == "allow" and context.tool.requires_approval:
        return Decision("ask", f"{context.tool.name} is marked as needing approval", "marked", "marked")
    return decision


def _session(context: DecisionContext, mode: Mode) -> Decision:
    return _allow(mode, f"{context.tool.name} touches nothing but the session")


def _own(context: DecisionContext, mode: Mode) -> Decision:
    if mode == "plan" and not context.tool.read_only:
        return _forbid_change(context)
    return _allow(mode, f"{context.tool.name} is a function of the program itself")


def _read(context: DecisionContext, mode: Mode) -> Decision:
    outside = _outside(context)
    if outside:
        return _ask(mode, f"{outside} lies outside the workspace", "outside")
    return _allow(mode, f"{context.tool.name} only reads in the workspace")


def _write(context: DecisionContext, mode: Mode) -> Decision:
    if mode == "plan":
        return _forbid_change(context)
    if mode not in ("edits", "sandboxed"):
        return _ask(mode, f"{context.tool.name} changes files")
    if not context.operands:
        return _ask(mode, f"it is not known which files {context.tool.name} would change")
    outside = _outside(context)
    if outside:
        return _ask(mode, f"{outside} lies outside the workspace", "outside")
    return _allow(mode, f"the mode is {mode}, and every file lies in the workspace")


def _exec(context: DecisionContext, mode: Mode) -> Decision:
    if mode == "sandboxed":
        if context.sandboxed:
            return _allow(mode, "the mode is sandboxed, and the command runs in a sandbox")
        return _ask(mode, "the mode is sandboxed, and there is no sandbox that works")
    reading = read_commands(context)
    if reading.is_read_only and not reading.leaves:
        return _allow(mode, "the command only reads, and stays in the workspace")
    if reading.is_read_only:
        return _ask(mode, f"the command leaves the workspace: {reading.why}", "outside")
    if mode == "plan":
        return _forbid_change(context, f"the command is not known to read only: {reading.why}")
    return _ask(mode, f"the command is not known to read only: {reading.why}")


def _fetch(context: DecisionContext, mode: Mode) -> Decision:
    return _ask(mode, f"{context.tool.name} reaches the network")


def _mcp(context: DecisionContext, mode: Mode) -> Decision:
    if mode == "plan" and not context.tool.read_only:
        return _forbid_change(context)
    return _ask(mode, f"{context.tool.name} belongs to the server {context.tool.metadata['origin']}")


def _unknown(context: DecisionContext, mode: Mode) -> Decision:
    if mode == "plan" and not context.tool.read_only:
        return _forbid_change(context)
    return _ask(mode, f"it is not known what kind of tool {context.tool.name} is")


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


def _outside(context: DecisionContext) -> str:
    return next((operand.value or "a place" for operand in context.operands if not operand.inside), "")


def _allow(mode: Mode, why: str) -> Decision:
    return Decision("allow", why, f"mode:{mode}", "default")


def _ask(mode: Mode, why: str, code: str = "default") -> Decision:
    return Decision("ask", why, f"mode:{mode}", code)


def _forbid_change(context: DecisionContext, why: str = "") -> Decision:
    words = why or f"{context.tool.name} may change something"
    return Decision("deny", f"the mode is plan, in which nothing is changed, and {words}", "mode:plan", "mode")
