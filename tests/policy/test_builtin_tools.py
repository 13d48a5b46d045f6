"""The built-in tools as the policy sees them: their classes, their names, and what they say calls are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dragoman import builtin
from dragoman.policy import Decision, DecisionContext, Mode, Rules, decide, read_rule, suggest_rule
from dragoman.policy.rules import class_of, names_of, searches
from dragoman.tools import ToolContext
from dragoman.types import Tool, ToolCall

CLASSES = {
    "Read": ("read", "read"),
    "Glob": ("read", "read"),
    "Grep": ("read", "read"),
    "WebFetch": ("fetch", "fetch"),
    "Write": ("write", "write"),
    "Edit": ("write", "write"),
    "ApplyPatch": ("write", "write"),
    "Bash": ("exec", "bash"),
    "TodoWrite": ("session", ""),
    "AskUser": ("session", ""),
    "Finish": ("session", ""),
    "Remember": ("session", ""),
    "Recall": ("session", ""),
}


@pytest.mark.parametrize("name", CLASSES)
def test_every_built_in_tool_has_its_class_and_its_family(name: str) -> None:
    tool: Tool = getattr(builtin, name)
    kind, family = CLASSES[name]
    assert class_of(tool) == kind
    assert not family or family in names_of(tool)
    assert (tool.inspect is not None) is bool(family), "what has operands says so"
    assert searches(tool) is (name == "Grep")


def judge(tool: Tool, arguments: dict[str, Any], workspace: Path, mode: Mode = "default", **written: str) -> Decision:
    assert tool.inspect is not None
    operands = tuple(tool.inspect(arguments, ToolContext(workspace=str(workspace))))
    rules = tuple(read_rule(text, verdict) for verdict, text in written.items())  # type: ignore[arg-type]
    return decide(ToolCall("c", tool.name, arguments), DecisionContext(tool, operands), Rules(mode, rules))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "secrets").mkdir()
    (folder / "src" / "a.py").write_text("x = 1\n", encoding="utf-8")
    (folder / "secrets" / "key").write_text("hush\n", encoding="utf-8")
    (folder / "src" / "link").symlink_to(folder / "secrets")
    (folder / "out").symlink_to(tmp_path)
    return folder


def test_files(workspace: Path) -> None:
    content = {"path": "src/b.py", "content": "x"}
    assert judge(builtin.Write, content, workspace, allow="write(src/**)").verdict == "allow"
    assert judge(builtin.Write, content, workspace, "edits").verdict == "allow"
    assert judge(builtin.Write, content, workspace).verdict == "ask"
    through = {"path": "src/link/key", "content": "x"}
    assert judge(builtin.Write, through, workspace, allow="write(src/**)").verdict == "ask"
    assert judge(builtin.Write, through, workspace, "bypass", deny="write(secrets/**)").verdict == "deny"
    assert judge(builtin.Write, {"path": "dragoman.toml", "content": ""}, workspace, "bypass").code == "protected"
    for path in ("../x", "out/x", "/etc/passwd"):
        assert judge(builtin.Read, {"path": path}, workspace).code == "outside"
    assert judge(builtin.Read, {"path": "src/a.py"}, workspace, "plan").verdict == "allow"
    assert judge(builtin.Grep, {"pattern": "x"}, workspace, deny="read(secrets/**)").verdict == "ask"
    assert (
        judge(builtin.Grep, {"pattern": "x", "path": "src/a.py"}, workspace, deny="read(secrets/**)").verdict == "allow"
    )


def test_commands(workspace: Path) -> None:
    assert judge(builtin.Bash, {"command": "git status"}, workspace, "plan").verdict == "allow"
    assert judge(builtin.Bash, {"command": "./run.sh"}, workspace, allow="bash(./run.sh)").verdict == "allow"
    assert judge(builtin.Bash, {"command": "cat secrets/key"}, workspace, deny="read(secrets/**)").verdict == "deny"
    assert judge(builtin.Bash, {}, workspace).verdict == "ask"


def test_a_command_that_reads_is_asked_about_where_a_file_says_what_it_runs(workspace: Path) -> None:
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("[core]\n\tpager = evil\n", encoding="utf-8")
    status = {"command": "git status"}
    asked = judge(builtin.Bash, status, workspace)
    assert (asked.verdict, asked.code) == ("ask", "default")
    assert ".git/config" in asked.reason
    denied = judge(builtin.Bash, status, workspace, "plan")
    assert (denied.verdict, denied.code) == ("deny", "mode")
    assert judge(builtin.Bash, status, workspace, allow="bash(git status*)").verdict == "allow"
    assert judge(builtin.Bash, {"command": "ls src"}, workspace, "plan").verdict == "allow"


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://example.org/x", True),
        ("https://EXAMPLE.org:443/x#y", True),
        ("https://example.org.evil.example/", False),
        ("http://127.0.0.1/", False),
    ],
)
def test_addresses(workspace: Path, address: str, allowed: bool) -> None:
    decision = judge(builtin.WebFetch, {"url": address}, workspace, allow="fetch(domain:example.org)")
    assert (decision.verdict == "allow") is allowed
    assert judge(builtin.WebFetch, {"url": address}, workspace, "bypass", deny="fetch(domain:*)").verdict == "deny"


def test_what_always_keeps(workspace: Path) -> None:
    around = ToolContext(workspace=str(workspace))
    for tool, arguments, expected in (
        (builtin.Edit, {"path": "src/a.py", "old": "x", "new": "y"}, "write(src/a.py)"),
        (builtin.WebFetch, {"url": "https://Example.org/x"}, "fetch(domain:example.org)"),
        (builtin.Bash, {"command": "git push"}, "bash(git push)"),
    ):
        assert tool.inspect is not None
        context = DecisionContext(tool, tuple(tool.inspect(arguments, around)))
        assert str(suggest_rule(ToolCall("c", tool.name, arguments), context)) == expected
