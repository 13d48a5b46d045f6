"""`dragoman demo` and the samples that ship with the package."""

from __future__ import annotations

import pytest

from dragoman import formats
from dragoman.cli.demo import samples, tools

# file -> names of (calls, refused, broken)
EXPECTED = {
    "small-model.txt": (["get_weather"], [], 0),
    "xml-parameters.txt": (["shell"], [], 0),
    "mixed.txt": (["shell", "write_file"], [], 0),
    "thinking.txt": (["get_weather"], ["shell"], 0),
    "cut-off.txt": ([], [], 1),
    "prose.txt": (["get_weather"], [], 0),
}


def test_every_sample_has_an_expectation() -> None:
    assert [sample.file for sample in samples()] == list(EXPECTED)


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.file)
def test_a_sample_shows_what_its_title_says(sample) -> None:
    parsed = formats.parse(sample.text, tools=tools(), loose=sample.loose)
    found = [call.name for call in parsed.calls], [item.call.name for item in parsed.refused], len(parsed.broken)
    assert found == EXPECTED[sample.file]


def test_the_small_model_is_mended_and_every_step_is_named() -> None:
    (call,) = formats.parse(samples()[0].text, tools=tools()).calls
    assert call.arguments == {"city": "Paris", "days": 3, "unit": "celsius"}
    assert len(call.repairs) >= 2
    assert {change.path for change in call.changes} == {"$.days", "$.unit"}


def test_xml_values_are_typed_by_the_schema_alone() -> None:
    (call,) = formats.parse(samples()[1].text, tools=tools()).calls
    assert call.arguments == {"command": "grep -c \"<b>\" page.html && echo 'counted'", "background": True}


def test_a_closer_inside_a_string_stays_in_the_string() -> None:
    first, _ = formats.parse(samples()[2].text, tools=tools()).calls
    assert first.arguments == {"command": "grep -c '</tool_call>' model.log"}


def test_the_demo_shows_every_sample_and_that_streaming_agrees(dragoman) -> None:
    done = dragoman("demo")
    assert (done.code, done.err) == (0, "")
    for number, sample in enumerate(samples(), start=1):
        assert f"== {number}. {sample.title}" in done.out
        assert sample.text.splitlines()[0] in done.out
    count = len(samples())
    assert f"fed one character at a time, {count} of {count} give the same calls." in done.out
    assert "\x1b" not in done.out
