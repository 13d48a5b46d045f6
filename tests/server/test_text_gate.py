"""What the gateway holds back for the profile `compat` does not depend on how the text is cut."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.pipeline.gate import TextGate

NAMES = ("read", "get_weather")
FRAGMENTS = (
    *("```", "``", "`", "~~~", "````", "```json", "{", "}", "{}", '"read"', "'get_weather'", "read(", "get_weather"),
    *("\n", "\n\n", " ", "    ", "\t", "a word ", "x = {1: 2}\n", "y" * 290, "z" * 20, "see "),
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=30).map("".join)


def pass_through(pieces: list[str]) -> tuple[str, str, bool]:
    """What is sent before the end of the reply, all that is sent, and whether text was held until the end."""
    gate = TextGate(NAMES)
    before = "".join(map(gate.feed, pieces))
    is_shut = gate.is_shut
    return before, before + gate.close(), is_shut


@given(TEXTS, st.integers(1, 9))
@example("see ```json\n" + "y" * 290 + '"read"', 4)
@example("\n  ```json\n{}\n``` more\n", 3)
def test_the_cut_decides_nothing(text: str, size: int) -> None:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert pass_through(pieces) == pass_through([text])


@given(TEXTS)
def test_nothing_is_lost(text: str) -> None:
    assert pass_through([text])[1] == text


def test_a_block_that_names_a_tool_is_held() -> None:
    before, _, is_shut = pass_through(["Look:\n```json\n", '{"name": "read"}\n```\nDone.'])
    assert (before, is_shut) == ("Look:\n", True)


def test_a_block_without_a_name_and_a_fence_inside_a_line_are_sent() -> None:
    assert pass_through(["Look:\n```json\n", '{"a": 1}\n```\nDone.\n']) == (
        *('Look:\n```json\n{"a": 1}\n```\nDone.\n',) * 2,
        False,
    )
    assert pass_through(["see ", "``` here"])[0] == "see ``` here"


def test_a_long_block_is_sent_before_it_ends() -> None:
    before, _, is_shut = pass_through(["```\n" + "y\n" * 400])
    assert len(before) > 700
    assert not is_shut
