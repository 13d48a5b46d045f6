"""The permission rows of the seed vectors: what we keep of their decisions, and what we do instead of the others."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.policy.cases import BASH, READ, TODO, WRITE, builtin, call_of, file, line, path, served

from dragoman.policy import Decision, DecisionContext, Mode, Rule, Rules, as_policy, consult, decide, read_rule
from dragoman.types import Operand, Tool

LEFT_TO_CLI = {
    **dict.fromkeys(
        [f"zeroclaw-permission-{number}" for number in ("012", "013", "014", "017")],
        "how an answer at the terminal is read",
    ),
    "zeroclaw-permission-018": "how the arguments of a call are shown to whoever is asked",
}
"""Rows about the prompt of the command line, which has its own tests."""

MODES: dict[str, Mode] = {
    "supervised": "default",
    "full": "bypass",
    "readonly": "plan",
    "plan": "plan",
    "default": "default",
    "trusted": "sandboxed",
    "bypass_permissions": "bypass",
}
# What the seeds call by these names, and what such a call is about.
TOOLS: dict[str, tuple[Tool, tuple[Operand, ...]]] = {
    "file_read": (READ, (path("a.txt"),)),
    "file_write": (WRITE, (file("a.txt"),)),
    "shell": (BASH, (line("make install"),)),
    "write": (WRITE, (file("a.txt"),)),
    "todo_write": (TODO, ()),
    "plan_mode": (builtin("plan_mode", "session"), ()),
    "anything": (served("anything"), ()),
    "myserver_list_tickets": (Tool("myserver_list_tickets"), ()),
    "x": (Tool("x"), ()),
    "bash": (BASH, (line("make install"),)),
}
NAMES = {"file_read": "read", "file_write": "write", "shell": "bash"}
KEPT = {
    "approved": "allow",
    "prompt": "ask",
    "allow": "allow",
    "deny": "deny",
}
CODES = {"phase_gated": "mode", "user_denied": "rule", "unknown": "policy"}
INSTEAD = {
    "zeroclaw-permission-005": ("deny", "mode"),
    "zeroclaw-permission-009": ("ask", "default"),
    "exathena-permission-033": ("deny", "rule"),
}
"""Where the seeds run something without asking, or let an option outweigh what is denied: what happens here."""


def read_rows(path: Path) -> dict[str, dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(text) for text in stream]
    return {row["id"]: row for row in rows if row["kind"] == "permission"}


@pytest.fixture(scope="module")
def rows(shared_data: Callable[[str], Path]) -> dict[str, dict[str, Any]]:
    return read_rows(shared_data("seed_vectors.jsonl.gz"))


def _zeroclaw(given: dict[str, Any]) -> Decision:
    policy = given["policy"]
    tool, operands = TOOLS[given["tool"]]
    rules = [_rule(name, "allow") for name in policy.get("auto_approve", ())]
    rules += [_rule(name, "ask") for name in policy.get("always_ask", ())]
    rules += [Rule("allow", NAMES.get(name, name), None, "session") for name, said in given.get("decisions", ())]
    return decide(call_of(tool), DecisionContext(tool, operands), Rules(MODES[policy["level"]], tuple(rules)))


def _rule(name: str, verdict: Any) -> Rule:
    return read_rule(NAMES.get(name, name), verdict)


def _exathena(given: dict[str, Any]) -> Decision:
    options = given["opts"]
    tool, operands = TOOLS[given["tool"]]
    if "command" in given["arguments"]:
        operands = (line(given["arguments"]["command"]),)
    if given["tool"] in options.get("readonly_tools", ()):
        tool = Tool(tool.name, read_only=True)
    rules = Rules(MODES[given["phase"]], tuple(_rule(name, "deny") for name in options.get("disallowed_tools", ())))
    decision = decide(call_of(tool), DecisionContext(tool, operands, sandboxed=True), rules)
    policy = as_policy(_callback(options["can_use_tool"])) if "can_use_tool" in options else None
    return decision if policy is None else consult(policy, call_of(tool), tool)


def _callback(words: str) -> Callable[..., Any]:
    if words.startswith("deny"):
        return lambda call, tool: Decision("deny", words, words, "rule")
    return lambda call, tool: words


def test_every_row_is_accounted_for(rows: dict[str, dict[str, Any]]) -> None:
    assert len(rows) == 35
    assert set(LEFT_TO_CLI) < set(rows)
    assert {name for name, row in rows.items() if row["verdict"] == "overruled"} == set(INSTEAD)
    prompts = {name for name, row in rows.items() if {"cli_line", "summarize_args"} & row["input"].keys()}
    assert prompts == set(LEFT_TO_CLI)


def test_the_rows_that_are_kept(rows: dict[str, dict[str, Any]]) -> None:
    kept = {name: row for name, row in rows.items() if row["verdict"] == "keep" and name not in LEFT_TO_CLI}
    assert len(kept) == 27
    wrong = {}
    for name, row in kept.items():
        expected = row["expected"]
        decision = (_zeroclaw if row["source"] == "zeroclaw" else _exathena)(row["input"])
        wanted = KEPT[expected.get("requirement") or expected["decision"]]
        code = CODES[expected["code"]] if "code" in expected else decision.code
        if (decision.verdict, decision.code) != (wanted, code):
            wrong[name] = (row["input"], decision)
    assert not wrong


@pytest.mark.parametrize("name", INSTEAD)
def test_the_rows_that_are_overruled(rows: dict[str, dict[str, Any]], name: str) -> None:
    row = rows[name]
    decision = (_zeroclaw if row["source"] == "zeroclaw" else _exathena)(row["input"])
    assert (decision.verdict, decision.code) == INSTEAD[name]
