"""What each mode says about each kind of call where no rule is about it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, get_args

import pytest
from tests.policy.cases import (
    APPLY_PATCH,
    BASH,
    EDIT,
    FETCH,
    MARKED,
    MARKED_READER,
    OWN,
    OWN_READER,
    READ,
    SERVED,
    SERVED_READER,
    TODO,
    WRITE,
    builtin,
    file,
    judge,
    line,
    outside,
    path,
    rules_of,
    url,
)
from tests.tables import each_row

from dragoman.policy import DecisionContext, Mode, Rules, Verdict, decide
from dragoman.policy.decision import MODES, TRAITS
from dragoman.types import Operand, Provenance, Tool, ToolCall

ORDER: tuple[Mode, ...] = ("plan", "locked", "default", "edits", "sandboxed", "bypass")


class Row(NamedTuple):
    """A call, and its verdict in plan, locked, default, edits, sandboxed (with a sandbox) and bypass."""

    tool: Tool
    operands: tuple[Operand, ...]
    verdicts: str


def row(tool: Tool, verdicts: str, *operands: Operand) -> Row:
    return Row(tool, operands, verdicts)


WORDS: dict[str, Verdict] = {"+": "allow", "?": "ask", "-": "deny"}
#                                            plan, locked, default, edits, sandboxed, bypass
TABLE = {
    "a session tool": row(TODO, "++++++"),
    "an own function": row(OWN, "-+++++"),
    "an own function that only reads": row(OWN_READER, "++++++"),
    "an own function that is marked": row(MARKED, "--???+"),
    "one that is marked and only reads": row(MARKED_READER, "?-???+"),
    "reading inside": row(READ, "++++++", path("a.txt")),
    "reading outside": row(READ, "?-???+", path("a.txt"), outside("/etc/hosts")),
    "reading what is protected": row(READ, "++++++", path(".git/config", protected=True)),
    "writing inside": row(WRITE, "--?+++", file("a.txt")),
    "editing inside": row(EDIT, "--?+++", file("a.txt")),
    "writing outside": row(WRITE, "--???+", outside("/tmp/a", "write")),
    "a patch of which one file is outside": row(APPLY_PATCH, "--???+", file("a"), outside("/tmp/a", "write")),
    "writing what is protected": row(WRITE, "--????", file(".git/hooks/pre-commit", protected=True)),
    "writing nobody knows where": row(WRITE, "--???+"),
    "a command that only reads": row(BASH, "++++++", line("git status")),
    "a command that reads outside": row(BASH, "?-??++", line("cat /etc/passwd")),
    "a command whose file is outside": row(BASH, "?-??++", line("cat link"), outside("link")),
    "a command that reads, and runs what a file says": row(
        BASH, "--??++", line("git status"), path(".git/config", access="run")
    ),
    "any other command": row(BASH, "--??++", line("make install")),
    "a command that writes what is protected": row(
        BASH, "--????", line("echo x > .envrc"), file(".envrc", protected=True)
    ),
    "no command at all": row(BASH, "--??++"),
    "fetching": row(FETCH, "?-???+", url("https://example.org/")),
    "a tool of a server": row(SERVED, "--???+"),
    "a tool of a server that only reads": row(SERVED_READER, "?-???+"),
    "a kind nobody knows": row(builtin("teleport", "magic"), "--???+"),
}


def test_the_table_has_a_column_for_every_mode() -> None:
    assert set(ORDER) == set(get_args(Mode)) == set(MODES)
    assert all(len(each.verdicts) == len(ORDER) for each in TABLE.values())


@each_row("mode", ORDER)
@each_row("what", TABLE)
def test_what_a_mode_says(what: str, mode: Mode) -> None:
    tool, operands, verdicts = TABLE[what]
    decision = judge(tool, *operands, mode=mode, sandboxed=True)
    assert decision.verdict == WORDS[verdicts[ORDER.index(mode)]], decision.reason
    assert decision.reason and decision.rule and decision.code


@pytest.mark.parametrize("command", ["git status", "make install"])
def test_without_a_sandbox_the_mode_that_needs_one_asks(command: str) -> None:
    assert judge(BASH, line(command), mode="sandboxed", sandboxed=True).verdict == "allow"
    asked = judge(BASH, line(command), mode="sandboxed", sandboxed=False)
    assert (asked.verdict, asked.code) == ("ask", "default")
    assert "no sandbox" in asked.reason


@pytest.mark.parametrize(
    ("tool", "operand"),
    [(OWN, None), (WRITE, file("a.txt")), (BASH, line("rm -rf build")), (SERVED, None)],
    ids=["own", "write", "exec", "mcp"],
)
def test_no_rule_lifts_what_plan_forbids(tool: Tool, operand: Operand | None) -> None:
    operands = () if operand is None else (operand,)
    decision = judge(tool, *operands, rules=rules_of(mode="plan", allow=("*",)))
    assert (decision.verdict, decision.code, decision.rule) == ("deny", "mode", "mode:plan")
    assert "plan" in decision.reason


def test_locked_says_how_to_allow_and_an_allow_rule_does() -> None:
    denied = judge(WRITE, file("a.txt"), mode="locked")
    assert (denied.verdict, denied.code) == ("deny", "mode")
    assert "`allow`" in denied.reason
    assert judge(WRITE, file("a.txt"), rules=rules_of(mode="locked", allow=("write(a.txt)",))).verdict == "allow"


def test_locked_does_not_promise_a_rule_where_none_would_help() -> None:
    denied = judge(WRITE, file(".envrc", protected=True), rules=rules_of(mode="locked", allow=("write",)))
    assert (denied.verdict, denied.code) == ("deny", "mode")
    assert "`allow`" not in denied.reason


# ---- trust, and what could not be found out ------------------------------------------------------------------------

ASKS = Provenance("text", "hermes", level="T3", verdict="ask")
BARE = Provenance("text", "json", level="T2", verdict="allow")


@pytest.mark.parametrize("mode", ORDER)
@pytest.mark.parametrize("tool", [TODO, OWN_READER, READ], ids=lambda tool: tool.name)
def test_a_call_that_came_in_an_odd_way_is_asked_about_in_every_mode(tool: Tool, mode: Mode) -> None:
    decision = judge(tool, rules=rules_of(mode=mode, allow=("*",)), provenance=ASKS)
    assert decision.verdict == ("deny" if mode == "locked" else "ask")
    assert decision.rule == "trust:T3"


@pytest.mark.parametrize("level", ["T5", "T4", "T3", "T2", "T1", "T0", None])
def test_tools_that_act_need_a_wrapper_of_their_own(level: str | None) -> None:
    came = Provenance("native" if level == "T5" else "text", level=level, verdict="allow")
    expected = "allow" if level in ("T5", "T4", "T3") else "ask"
    for tool, operand in ((BASH, line("git status")), (WRITE, file("a"))):
        assert judge(tool, operand, mode="bypass", provenance=came).verdict == expected
    assert judge(SERVED, mode="bypass", provenance=came).verdict == expected
    assert judge(READ, path("a"), provenance=came).verdict == "allow"


def test_a_call_of_the_program_itself_has_no_provenance_and_needs_none() -> None:
    assert judge(BASH, line("git status"), provenance=None).verdict == "allow"


@pytest.mark.parametrize("mode", ORDER)
def test_what_could_not_be_found_out_is_never_allowed(mode: Mode) -> None:
    for tool in (READ, BASH, OWN_READER):
        decision = judge(tool, rules=rules_of(mode=mode, allow=("*", "bash(*)")), uninspected="it timed out")
        assert decision.verdict != "allow"
    assert judge(READ, uninspected="it timed out").code == "uninspected"


def test_a_mode_that_is_none_is_a_strict_one() -> None:
    call = ToolCall("c", "write", {})
    rules = Rules("lenient")  # type: ignore[arg-type]
    assert decide(call, DecisionContext(WRITE, (file("a"),)), rules).verdict == "deny"
    assert decide(call, DecisionContext(BARE_TOOL), rules).verdict == "allow"


BARE_TOOL = Tool("mine")


def test_a_mode_has_a_row_and_a_documentation() -> None:
    """Whoever adds a mode to `types.ModeName` learns here what is missing."""
    assert set(TRAITS) == set(MODES) == set(get_args(Mode))
    assert [TRAITS[mode].rank for mode in MODES] == sorted(TRAITS[mode].rank for mode in MODES)
    page = (Path(__file__).parents[2] / "docs" / "concepts" / "permissions.md").read_text(encoding="utf-8")
    assert [mode for mode in MODES if f"`{mode}`" not in page] == []
