"""Tools of every class, calls of them, and short ways to write what is known of a call."""

from __future__ import annotations

from typing import Any

from dragoman.policy import Decision, DecisionContext, Mode, Rule, Rules, Scope, Verdict, decide, read_rule
from dragoman.types import Access, Operand, Provenance, Tool, ToolCall


def builtin(name: str, kind: str, family: str = "", **options: Any) -> Tool:
    metadata: dict[str, Any] = {"class": kind, "origin": "builtin"}
    if family:
        metadata["family"] = family
    if kind in ("write", "exec"):
        metadata["exec"] = True
    return Tool(name, metadata=metadata, read_only=kind in ("read", "fetch"), **options)


def served(name: str, *, server: str = "tickets", read_only: bool = False) -> Tool:
    metadata: dict[str, Any] = {"origin": f"mcp:{server}", "mcp_tool": name}
    if not read_only:
        metadata["exec"] = True
    return Tool(f"mcp__{server}__{name}", metadata=metadata, read_only=read_only)


READ = builtin("read", "read", "read")
GREP = builtin("grep", "read", "read")
WRITE = builtin("write", "write", "write")
EDIT = builtin("edit", "write", "write")
APPLY_PATCH = builtin("apply_patch", "write", "write")
BASH = builtin("bash", "exec", "bash")
FETCH = builtin("web_fetch", "fetch", "fetch")
TODO = builtin("todo_write", "session")
OWN = Tool("send_mail")
OWN_READER = Tool("look_up", read_only=True)
MARKED = Tool("delete_all", requires_approval=True)
MARKED_READER = Tool("read_diary", requires_approval=True, read_only=True)
SERVED = served("close")
SERVED_READER = served("list", read_only=True)

NATIVE = Provenance("native", "openai_chat", level="T5", verdict="allow")


def path(
    value: str, *, real: str = "", access: Access = "read", inside: bool = True, protected: bool = False
) -> Operand:
    where = real or (value if value.startswith("/") else f"/srv/me/src/project/{value}")
    return Operand("path", value, access, where, inside, protected)


def file(value: str, **options: Any) -> Operand:
    """A file that would be changed."""
    return path(value, access="write", **options)


def outside(value: str, access: Access = "read") -> Operand:
    return path(value, access=access, inside=False)


def line(command: str) -> Operand:
    return Operand("command", command, "run")


def url(value: str, *, real: str = "", inside: bool = True) -> Operand:
    return Operand("url", value, "send", real, inside)


def call_of(tool: Tool, provenance: Provenance | None = NATIVE) -> ToolCall:
    return ToolCall("c1", tool.name, {}, provenance=provenance)


def rules_of(
    *texts: str | Rule,
    mode: Mode = "default",
    allow: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    scope: Scope = "user",
) -> Rules:
    written: list[tuple[Verdict, tuple[str, ...]]] = [("allow", allow), ("ask", ask), ("deny", deny)]
    read = [read_rule(text, verdict, scope) for verdict, each in written for text in each]
    return Rules(mode, (*read, *(text for text in texts if isinstance(text, Rule))))


def judge(
    tool: Tool,
    *operands: Operand,
    rules: Rules | None = None,
    mode: Mode = "default",
    sandboxed: bool = False,
    uninspected: str = "",
    provenance: Provenance | None = NATIVE,
) -> Decision:
    context = DecisionContext(tool, operands, sandboxed, uninspected)
    return decide(call_of(tool, provenance), context, Rules(mode) if rules is None else rules)
