"""What `always` would save."""

from __future__ import annotations

import pytest
from tests.policy.cases import (
    APPLY_PATCH,
    BASH,
    EDIT,
    FETCH,
    MARKED,
    SERVED,
    WRITE,
    call_of,
    file,
    judge,
    line,
    outside,
    path,
    url,
)

from dragoman.policy import DecisionContext, Rules, read_rule, suggest_rule, write_rule
from dragoman.types import Operand, Provenance, Tool

SUGGESTED: list[tuple[str, Tool, tuple[Operand, ...], str | None]] = [
    ("a command with subcommands", BASH, (line("git commit -m x"),), "bash(git commit*)"),
    ("a command that reaches others", BASH, (line("git push origin main"),), "bash(git push origin main)"),
    ("a command as it is", BASH, (line("rm -rf build"),), "bash(rm -rf build)"),
    ("a command and its script", BASH, (line("rm -rf build"), path("build")), "bash(rm -rf build)"),
    ("one that nobody understands", BASH, (line("eval $(x)"),), None),
    ("a file", WRITE, (file("src/a.py"),), "write(src/a.py)"),
    ("a file by another tool", EDIT, (file("app/[id]/(a)/page.tsx"),), "write(app/[id]/(a)/page.tsx)"),
    ("a file that would be a pattern", WRITE, (file("a*"),), None),
    ("a file that is protected", WRITE, (file(".envrc", protected=True),), None),
    ("a file outside", WRITE, (outside("/tmp/a", "write"),), None),
    ("several files", APPLY_PATCH, (file("a"), file("b")), None),
    (
        "an address",
        FETCH,
        (url("https://Docs.Example.org./x?y", real="https://docs.example.org/x?y"),),
        "fetch(domain:docs.example.org)",
    ),
    ("a plain address", FETCH, (url("https://Docs.Example.org/x?y"),), "fetch(domain:docs.example.org)"),
    ("an address that is none", FETCH, (url("nowhere"),), None),
    ("an own function", MARKED, (), "delete_all"),
    ("a tool of a server", SERVED, (), "mcp:tickets/close"),
]


@pytest.mark.parametrize(
    ("tool", "operands", "expected"), [each[1:] for each in SUGGESTED], ids=[each[0] for each in SUGGESTED]
)
def test_suggestions(tool: Tool, operands: tuple[Operand, ...], expected: str | None) -> None:
    rule = suggest_rule(call_of(tool), DecisionContext(tool, operands))
    assert (rule and write_rule(rule)) == expected
    if rule is not None:
        assert rule == read_rule(write_rule(rule), "allow"), "it can be kept in a file"
        assert judge(tool, *operands).verdict == "ask"
        assert judge(tool, *operands, rules=Rules("default", (rule,))).verdict == "allow"


def test_nothing_is_suggested_where_no_rule_would_help() -> None:
    odd = Provenance("text", level="T2", verdict="ask")
    assert suggest_rule(call_of(WRITE, odd), DecisionContext(WRITE, (file("a"),))) is None
    assert suggest_rule(call_of(WRITE), DecisionContext(WRITE, (file("a"),), uninspected="it failed")) is None
