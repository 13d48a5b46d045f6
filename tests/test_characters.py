"""How characters that nobody can see are written for a person."""

from __future__ import annotations

import json
import sys
import unicodedata
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.characters import (
    TextEscaper,
    escape_json,
    escape_line,
    escape_lines,
    escape_message,
    escape_text,
    is_invisible,
    normalize,
    quote_value,
    strip_invisible,
)

# The property Default_Ignorable_Code_Point of Unicode 16, and letters and symbols with a blank shape.
IGNORABLE = (
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFEFF, 0xFFA0, 0x2800, 0x1D159, 0x16FE4),
    *range(0x180B, 0x1810),
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),
    *range(0xFFF0, 0xFFFC),
    *range(0x1BCA0, 0x1BCA4),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),
)
BREAKS_AND_TURNS = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
ODD_TEXT = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp", "Zs")),
        st.sampled_from(list("\r\n\t\\\"' a1❤👩💻\u0643\u0647\u0915\u094d\u200c\u200d\ufe0f\u20e3")),
    ),
    max_size=40,
)


def test_everything_without_a_shape_is_invisible() -> None:
    ignorable = set(IGNORABLE)
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        expected = unicodedata.category(character) in BREAKS_AND_TURNS or code in ignorable
        if expected:
            assert is_invisible(character), hex(code)
        elif character.isprintable() or unicodedata.category(character) == "Zs":
            assert not is_invisible(character), hex(code)


def visible(text: str, kept: str = "") -> bool:
    return not any(is_invisible(character) and character not in kept for character in text)


@given(ODD_TEXT)
def test_a_line_is_one_line_and_visible(text: str) -> None:
    for shown in (escape_line(text), quote_value(text)):
        assert visible(shown) and len(shown.splitlines()) <= 1
        assert all(character == " " or not character.isspace() for character in shown)


@given(ODD_TEXT, ODD_TEXT)
def test_two_values_never_look_the_same(one: str, other: str) -> None:
    assert (quote_value(one) == quote_value(other)) is (one == other)
    if "\t" not in one + other:
        same = escape_lines(one) == escape_lines(other)
        plain = escape_lines(one) == one or escape_lines(other) == other
        assert same is (one == other) or plain, "a note says whether anything is escaped"


@given(ODD_TEXT)
def test_json_keeps_its_meaning(text: str) -> None:
    written = escape_json(json.dumps({"a": text}, ensure_ascii=False))
    assert visible(written)
    assert json.loads(written) == {"a": text}


@given(ODD_TEXT, st.lists(st.integers(0, 40)))
def test_prose_in_pieces_is_escaped_as_a_whole(text: str, cuts: list[int]) -> None:
    escaper, places = TextEscaper(), [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert "".join([*map(escaper.feed, pieces), escaper.close()]) == escape_text(text)


SHAPED = (
    "❤️ ⚠️ ✔︎",  # selectors of emoji
    "1️⃣ #️⃣",  # keycaps
    "👩‍💻 👩🏽‍🚀 🏳️‍🌈",  # joined emoji
    "می‌شود",  # a Persian word
    "क्‍ष",  # a joiner after a virama
    "Größe 值 café naïve שלום Bonjour\u00a0!",
)


@pytest.mark.parametrize("text", SHAPED)
def test_a_joiner_that_changes_a_shape_stays_in_prose(text: str) -> None:
    assert escape_text(text) == text
    assert strip_invisible(text) == (text, 0)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm\u200b -rf\u200d /", "rm\\u200b -rf\\u200d /"),
        ("a\ufe0fb", "a\\ufe0fb"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\ufe0f"),
        ("❤\u200da", "❤\\u200da"),
        ("م\u200c ", "م\\u200c "),
        ("\u202eevil\u202c", "\\u202eevil\\u202c"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\ud83d", "\\ud83d"),
        ("\U000e0041", "\\U000e0041"),
        ("a\x85b\u2028c\x0bd", "a\\u0085b\\u2028c\\u000bd"),
    ],
)
def test_prose(text: str, shown: str) -> None:
    assert escape_text(text) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("src/a.py", "src/a.py"),
        ("C:\\new\\table", "C:\\new\\table"),
        ("a\nb", '"a\\nb"'),
        ('"a\\nb"', '"\\"a\\\\nb\\""'),
        ("a\u00a0b", '"a\\u00a0b"'),
        (" a", '" a"'),
        ("a  b", '"a  b"'),
        ("", '""'),
    ],
)
def test_a_value_is_quoted_if_it_could_be_misread(value: str, shown: str) -> None:
    assert quote_value(value) == shown


def test_a_second_line_of_a_message_does_not_look_like_a_message() -> None:
    assert escape_message("cannot read\nhint: run this") == "cannot read\n  hint: run this"


def test_words_do_not_run_together() -> None:
    assert strip_invisible("a\u2028b\r\nc\x0bd\u200be") == ("a\nb\nc\nde", 1)


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_the_normal_form_of_a_text_takes_linear_time(form: Literal["NFC", "NFKC"]) -> None:
    assert normalize(form, "e\u0301 o\u0323\u0302 ﬁ" * 50) == unicodedata.normalize(
        form, "e\u0301 o\u0323\u0302 ﬁ" * 50
    )
    # What grew with the square of the length would take minutes here.
    assert len(normalize(form, "a" + "\u0301\u0323" * 200_000)) > 300_000
