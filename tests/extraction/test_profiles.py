"""Verdicts: what each profile makes of a level, an echo, a position and a tool."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

import dragoman
from dragoman import Message, Text, extract
from dragoman.errors import ConfigError
from dragoman.extraction.trust import PROFILES, Situation, decide, find_doubt, get_profile
from dragoman.policy import DecisionContext, Rules
from dragoman.policy import decide as decide_call
from dragoman.types import Provenance, Tool, ToolCall

PLAIN = Tool("search", parameters={"type": "object", "properties": {"city": {"type": "string"}}})
READING = Tool("read", read_only=True)
EXEC = Tool("bash", metadata={"class": "exec"})
ORDER = {"allow": 0, "ask": 1, "refuse": 2}

TABLE: list[tuple[str, Tool, tuple[str, str, str]]] = [
    # level, tool, verdicts under strict, default, compat
    ("T5", EXEC, ("allow", "allow", "allow")),
    ("T4", EXEC, ("allow", "allow", "allow")),
    *(("T3", tool, ("ask", "allow", "allow")) for tool in (PLAIN, READING, EXEC)),
    *(("T2", tool, ("refuse", "allow", "allow")) for tool in (PLAIN, READING)),
    ("T2", EXEC, ("refuse", "ask", "ask")),
    *(("T1", tool, ("refuse", "refuse", "allow")) for tool in (PLAIN, READING)),
    ("T1", EXEC, ("refuse", "refuse", "ask")),
    ("T0", READING, ("refuse", "refuse", "refuse")),
]


@pytest.mark.parametrize(("level", "tool", "verdicts"), TABLE)
def test_levels(level: Any, tool: Tool, verdicts: tuple[str, str, str]) -> None:
    found = tuple(decide(Situation(level, tool), PROFILES[name]).verdict for name in ("strict", "default", "compat"))
    assert found == verdicts


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("level", ["T4", "T3", "T2"])
def test_an_echo_is_refused_and_a_similar_call_asked_for_below_the_native_field(level: Any, profile: str) -> None:
    exact = decide(Situation(level, PLAIN, "exact", "result of fetch"), PROFILES[profile])
    assert (exact.verdict, exact.rule) == ("refuse", "echo")
    assert "result of fetch" in exact.why
    similar = decide(Situation(level, PLAIN, "similar"), PROFILES[profile])
    assert similar.verdict == ("refuse" if (level, profile) == ("T2", "strict") else "ask")


@pytest.mark.parametrize("profile", PROFILES)
def test_an_echo_in_a_native_field_is_no_reason(profile: str) -> None:
    assert decide(Situation("T5", PLAIN, "exact"), PROFILES[profile]).verdict == "allow"


@pytest.mark.parametrize(
    ("untrusted", "verdicts"), [(False, ("ask", "allow", "allow")), (True, ("refuse", "ask", "allow"))]
)
def test_position_counts_only_where_others_have_written(untrusted: bool, verdicts: tuple[str, str, str]) -> None:
    situation = Situation("T3", PLAIN, is_followed=True, has_untrusted=untrusted)
    found = tuple(decide(situation, PROFILES[name]).verdict for name in ("strict", "default", "compat"))
    assert found == verdicts


def test_an_unknown_profile_is_named_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        get_profile("defualt")
    assert "default" in str(caught.value)


situations = st.builds(
    Situation,
    st.sampled_from(["T5", "T4", "T3", "T2", "T1", "T0"]),
    st.sampled_from([PLAIN, READING, EXEC, None]),
    st.sampled_from(["none", "exact", "similar"]),
    st.just(""),
    st.booleans(),
    st.booleans(),
)


@given(situations)
def test_strict_is_never_looser_than_default_and_default_never_looser_than_compat(situation: Situation) -> None:
    strict, default, compat = (
        ORDER[decide(situation, PROFILES[name]).verdict] for name in ("strict", "default", "compat")
    )
    assert strict >= default >= compat


@given(situations)
def test_every_verdict_but_allow_has_its_reason(situation: Situation) -> None:
    for profile in PROFILES.values():
        judgement = decide(situation, profile)
        assert bool(judgement.why) == (judgement.verdict != "allow")


# ---- the rule is written once ----------------------------------------------------------------------------------------


@each_row("profile", PROFILES)
@each_row("tool", [PLAIN, READING, EXEC], ids=lambda tool: tool.name)
@each_row("level", ["T4", "T3", "T2", "T1"])
def test_the_policy_asks_exactly_where_the_trust_rule_does(level: Any, tool: Tool, profile: str) -> None:
    judged = decide(Situation(level, tool), PROFILES[profile])
    call = ToolCall("c1", tool.name, {}, provenance=Provenance(level=level, verdict=judged.verdict))
    decision = decide_call(call, DecisionContext(tool), Rules("bypass"))
    assert (decision.verdict == "ask") is bool(find_doubt(call, tool)) is (judged.verdict != "allow")
    assert decision.verdict == "allow" or (decision.code, decision.rule) == ("trust", f"trust:{level}")


def test_a_call_from_text_that_nobody_judged_counts_as_one_without_a_wrapper() -> None:
    unjudged = ToolCall("c1", "bash", {}, provenance=Provenance("text"))
    assert "no wrapper of its own (unjudged)" in find_doubt(unjudged, EXEC)
    assert not find_doubt(unjudged, PLAIN)
    assert not find_doubt(ToolCall("c1", "bash", {}, provenance=Provenance("native")), EXEC)
    assert not find_doubt(ToolCall("c1", "bash", {}), EXEC)


def test_the_reason_for_an_approval_names_the_rule_that_asks() -> None:
    asked = Message("user", [Text('Write {"name": "search", "arguments": {"city": "Paris"}}')])
    reply = '<tool_call>{"name": "search", "arguments": {"city": "Paris"}}</tool_call>'
    (call,) = extract(reply, tools=[PLAIN], conversation=[asked]).calls
    assert find_doubt(call, PLAIN) == (
        "the call was read from text (T3), and a very similar call occurs in a message of the user"
    )


def test_no_module_above_extraction_spells_a_level() -> None:
    package = Path(dragoman.__file__).parent
    above = [file for file in package.rglob("*.py") if file.parent.name != "extraction"]
    spelled = [file.name for file in above if re.search(r"[\"']T[0-5][\"']", file.read_text(encoding="utf-8"))]
    assert spelled == []
