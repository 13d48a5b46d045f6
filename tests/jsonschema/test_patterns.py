"""What a pattern costs: its states with all repetitions, and what the engine does for a text of some length."""

from __future__ import annotations

import pytest
from jsonschema_rs import FancyRegexOptions, validator_for

from dragoman.args import validate
from dragoman.jsonschema.effort import MOST_VISITS
from dragoman.jsonschema.patterns import MOST_ATTEMPTS, MOST_SIZE, cost_of
from dragoman.jsonschema.untrusted import BadSchema, TextRules, accept_schema

RULES = TextRules(lambda _: False, lambda _: False, lambda text, limit: text[:limit], lambda text, limit: text[:limit])

# Each has at least so many states once its repetitions are written out.
STATES = {
    "((a{0,50}){0,50}){0,50}$": 125_000,
    "a{50}{50}{50}": 125_000,
    "([)]a{0,50}){0,50}{9}": 22_500,
    "(?<x>(a{0,50})){0,50}": 2_500,
    "(?i:a{0,50}){0,50}": 2_500,
    "(?x) ( a {0,50} ) {0,50}": 2_500,
    "[]a{50}]{50}": 2_500,
    "[^]a]{0,50}{0,50}": 2_500,
    "[[:alpha:]a]{0,50}{0,50}": 2_500,
    r"\u{10FFFF}{0,50}{0,50}": 2_500,
    r"(\Q(\E{0,50}){0,50}": 2_500,
    "(?#)){0,50}){0,50}(a": 2_500,
    "(a{0,50}){,50}": 2_500,
    "(a{0,50}){ 0 , 50 }": 2_500,
    "(a?b?c?){300}": 900,
}
KINDS = {
    "^[a-z]+$": "linear",
    r"^\S{1,64}@\S+$": "linear",
    "^(a+)+$": "linear",
    r"^(?!\s*$).+": "linear",
    r"^(?=.*[A-Z])(?=.*\d).{8,}$": "linear",
    r"^(?!-)[a-z-]{1,63}(?<!-)$": "quadratic",
    "^(?!x)a|b": "quadratic",
    r"(['\"]).*\1": "quadratic",
    "(?=a)*b": "backtracking",
    "(a+)+(?!x)": "backtracking",
    "a*a*a*(?!x)b": "backtracking",
    r"^(?:(a+)\1?)+$": "backtracking",
    "(?>a*)*b": "backtracking",
    "a*+a*+b": "backtracking",
    "(?:a(?=.*))*b": "backtracking",
    r"(a)\k<1>+b+c+": "backtracking",
}


def test_every_repetition_counts() -> None:
    for pattern, states in STATES.items():
        assert cost_of(pattern).size >= states, pattern
    for pattern, kind in KINDS.items():
        assert cost_of(pattern).kind == kind, pattern


def test_a_pattern_is_never_cheaper_for_a_longer_text() -> None:
    for pattern in (*STATES, *KINDS):
        steps = [cost_of(pattern).steps(length) for length in (0, 1, 10, 100, 999, 1_001, 10_000)]
        assert steps == sorted(steps), pattern


def test_a_pattern_without_repetitions_inside_others_is_cheap() -> None:
    ordinary = {
        r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$": "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
        r"^[^@\s]{1,64}@[a-z0-9.-]{1,255}$": "someone@example.com",
        "^.{0,5000}$": "x" * 5_000,
        r"^(?!\s*$)[\s\S]+$": "a line\n" * 2_000,
        "^[A-Za-z0-9+/]*={0,2}$": "QUJD" * 100_000,
        r"^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$": "www.example.com",
        "^(?!-)[a-z0-9-]{1,63}(?<!-)$": "a-name",
        "^[a-z]+(?:-(?!-)[a-z]+)*$": "a-name-of-four-words",
    }
    for pattern, text in ordinary.items():
        schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": pattern}}}
        accepted = accept_schema(schema, RULES, most_bytes=9_999, most_levels=9)
        assert validate({"x": text}, accepted) == [], pattern
        many = {"type": "object", "properties": {"x": {"type": "array", "items": schema["properties"]["x"]}}}
        assert validate({"x": [text[:40]] * 20}, many) == validate({"x": [text[:40]]}, many) * 20, pattern


@pytest.mark.parametrize("pattern", [pattern for pattern, states in STATES.items() if states > MOST_SIZE])
def test_a_schema_with_a_pattern_that_is_too_large_is_refused(pattern: str) -> None:
    places = (
        {"pattern": pattern},
        {"patternProperties": {pattern: {}}},
        {"propertyNames": {"pattern": pattern}},
        {"not": {"contains": {"pattern": pattern}}},
    )
    for place in places:
        schema = {"type": "object", "properties": {"x": place}}
        with pytest.raises(BadSchema, match=f"more than {MOST_SIZE} states"):
            accept_schema(schema, RULES, most_bytes=9_999, most_levels=9)
        assert "more than" in validate({"x": "a"}, schema)[0].why


def test_the_engine_stops_after_a_number_of_attempts() -> None:
    pattern = "a*a*a*a*a*(?!x)b"
    assert validate({"x": "a" * 30}, {"type": "object", "properties": {"x": {"pattern": pattern}}})[0].why == (
        f"does not match the pattern {pattern}"
    )
    engine = validator_for({"pattern": pattern}, pattern_options=FancyRegexOptions(backtrack_limit=MOST_ATTEMPTS))
    assert not engine.is_valid("a" * 30)
    assert cost_of(pattern).steps(2_000) > MOST_VISITS
