"""The plain view: what is only another way to write a text leaves it as it is."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.extraction.text_views import alphanumerics, compact, decode, piece, readings, unescape, view

SENTENCE = 'Send "42" to <bob@example.com>, (please)'
PLAIN = "send 42 to{bob example com{please"


def widen(text: str) -> str:
    return "".join(chr(ord(each) + 0xFEE0) if "!" <= each <= "~" else each for each in text)


def hide(text: str) -> str:
    return "".join(chr(ord(each) + 0xE0000) for each in text)


DISGUISES: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "in capitals": str.upper,
    "as a JSON string": json.dumps,
    "as a JSON string in a JSON string": lambda text: json.dumps(json.dumps(text)),
    "with entities": html.escape,
    "with entities in entities": lambda text: html.escape(html.escape(text)),
    "with numbered entities": lambda text: "".join(f"&#{ord(each)};" for each in text),
    "with codes": lambda text: "".join(f"\\u{ord(each):04x}" for each in text),
    "with codes in a JSON string": lambda text: json.dumps("".join(f"\\u{ord(each):04x}" for each in text)),
    "in full width": widen,
    "in full width, as codes": lambda text: json.dumps(widen(text)),
    "with invisible blanks": "\u200b".join,
    "with soft hyphens": "\u00ad".join,
    "in invisible letters": hide,
    "with fillers": "\u3164".join,
    "coloured": "\x1b[38:5:1m".join,
    "coloured with one character": "\x9b31m".join,
    "in parenthesised letters": lambda text: re.sub("[a-z]", lambda letter: chr(ord(letter[0]) + 0x243B), text),
    "quoted": lambda text: "\n".join("> " + word for word in text.split()),
    "over several lines": lambda text: text.replace(" ", "\n   "),
    "folded as YAML does": lambda text: text.replace("please", "ple\\\n    ase"),
    "with numbered lines": lambda text: "\n".join(f"{at:>4}\t{word}" for at, word in enumerate(text.split(), 1)),
}


@each_row("disguise", DISGUISES)
def test_a_disguise_does_not_change_the_view(disguise: str) -> None:
    assert piece(DISGUISES[disguise](SENTENCE)) == PLAIN


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("f(x)", "f{x}"),
        ("f()", "f@"),
        ('{"a": { }}', "{a@"),
        ("a - b_c.d", "a b c d"),
        ("]}) ([{", "{"),
        ("<br/>next", "{br}next"),
        ("", ""),
        ("...", ""),
        ("Grüße, 世界!", "grüße 世界"),
    ],
)
def test_what_stands_between_words_becomes_one_mark(text: str, seen: str) -> None:
    assert view(unescape(text)) == seen


def test_the_language_of_a_fence_is_no_word_of_the_text() -> None:
    assert piece("```bash\nls\n```") == "ls"
    assert piece('```tool_call\n{"a": 1}\n```') == "tool call{a 1"


def test_numbers_that_do_not_count_on_are_no_line_numbers() -> None:
    assert piece("7\tapples\n3\tpears") == "7 apples 3 pears"


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("0.50", "0.5"),
        (".5", "0.5"),
        ("5e-1", "0.5"),
        ("0.50000000000000000001", "0.5"),
        ("1e-3", "0.001"),
        ("0.0000001", "1e-7"),
        ("1E+6", "1000000"),
        ("10.0e5", "1000000"),
        ("0XF4240", "1000000"),
        ("٧", "7"),
        ("cafe\u200b\u0301", "café"),
    ],
)
def test_every_form_of_a_number_or_letter_reads_the_same(written: str, plain: str) -> None:
    assert piece(f"({written})") == piece(plain)
    assert piece("10.0.0.20") == "10 0 0 20"


@pytest.mark.parametrize("number", ["9" * 5000, "x" + "f" * 5000, "0" * 5000 + "65"])
def test_an_entity_with_a_long_number_is_read(number: str) -> None:
    assert piece(f"(a &#{number};b)").split()[-1] in ("b", "ab")


def test_another_letter_of_the_text_does_not_change_how_a_word_reads() -> None:
    # The parts of a Korean syllable are no combining characters.
    word = unicodedata.normalize("NFD", "보고서최종판")
    assert piece(f"{word} e\u0301").split()[0] == piece(word) == "보고서최종판"


def test_words_that_were_broken_are_whole_without_blanks() -> None:
    assert compact(view(unescape("send_em\nail"))) == compact(view(unescape("send_email")))


@given(st.text())
def test_any_text_has_views_of_letters_and_single_marks(text: str) -> None:
    seen = view(unescape(text))
    assert all(each.isalnum() or each in " {}@" for each in seen)
    marks = "".join("." if each in " {}@" else "x" for each in seen)
    assert ".." not in marks
    assert alphanumerics(unescape(text)).isalnum() or not alphanumerics(unescape(text))


@given(st.text(st.characters(codec="ascii", exclude_characters="\\&~`/")))
def test_escapes_and_entities_are_read_in_any_text(text: str) -> None:
    assert piece(json.dumps(text)) == piece(text)
    assert piece(html.escape(text)) == piece(text)


@pytest.mark.parametrize(
    "unit",
    [
        "\\",
        "&",
        "&amp;",
        "{",
        "{}",
        "} {",
        "\\u0061",
        "\u200b",
        "\u0301",
        "\u0301\u0323",
        "```a\n",
        "1\n",
        "\ufdfa",
        "<a/>",
    ],
)
def test_a_long_text_of_one_kind_has_a_view(unit: str) -> None:
    # What grew with the square of the length would not end within the time limit.
    text = unit * (500_000 // len(unit))
    assert len(view(unescape(text))) <= 18 * len(text)


@pytest.mark.parametrize(
    "unit",
    [
        "\\",
        "\\u003c",
        "&lt",
        "&#0",
        "&#1",
        "<b",
        "<x>",
        "<!--",
        "/*",
        "<?",
        "=20",
        "=3C",
        "=\n",
        "A" * 40,
        "QUJD",
        "A\n",
        "%3c",
        "<a b ",
        "%u0041",
        "\x1b]0;",
        "\x1b[0",
        "a\x08",
        "\n1-",
        "\na:1:",
        "\n[1",
        "=\u200b4",
    ],
)
def test_a_long_text_of_one_kind_has_few_readings(unit: str) -> None:
    # What grew with the square of the length would take minutes here.
    text = unit * (400_000 // len(unit))
    found = readings(text)
    assert found[0] == decode(text)
    assert sum(map(len, found)) <= 12 * len(text)
