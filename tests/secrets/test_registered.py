"""Secrets that are known beforehand, in every form in which they can be written."""

from __future__ import annotations

import base64
import codecs
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.secrets.fakes import WORD, draw, feed_all, longest_left, private_key
from tests.tables import each_row

from dragoman.errors import ConfigError, DragomanError
from dragoman.secrets import Scrubber, Secrets, known_secrets, scrub, worth_hiding
from dragoman.secrets.fields import is_secret_variable
from dragoman.secrets.registered import needles

VALUES = {
    "token": "zz-" + draw(40, WORD),
    "password": 'p"a/s s&<' + draw(9) + "%é\\x",
    "short": draw(8),
}


def _all_signs(letter: str) -> str:
    if letter.isascii() and letter.isalnum():
        return letter
    return "".join(f"%{byte:02X}" for byte in letter.encode())


FORMS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "reversed": lambda value: value[::-1],
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 for links": lambda value: base64.urlsafe_b64encode(value.encode()).decode().rstrip("="),
    "base64 after a user": lambda value: base64.b64encode(f"user:{value}\n".encode()).decode(),
    "base64 after one letter": lambda value: base64.b64encode(f"u{value}#".encode()).decode(),
    "base64 of two bytes each": lambda value: base64.b64encode(value.encode("utf-16-le")).decode(),
    "hex": lambda value: value.encode().hex(),
    "hex in capitals": lambda value: value.encode().hex().upper(),
    "hex in groups": lambda value: value.encode().hex(" ", 2),
    "percent": lambda value: quote(value, safe=""),
    "percent with all signs": lambda value: "".join(map(_all_signs, value)),
    "form": quote_plus,
    "percent in small letters": lambda value: re.sub("%..", lambda found: found[0].lower(), quote(value, safe="")),
    "json": lambda value: json.dumps(value),
    "json without ascii": lambda value: json.dumps(value, ensure_ascii=False),
    "json in json": lambda value: json.dumps(json.dumps(value)),
    "html": html.escape,
    "one letter a word": " ".join,
    "two lines": lambda value: value[: len(value) // 2] + "\n" + value[len(value) // 2 :],
}


# Eight characters in pieces, or among others in base64, occur by chance.
NOT_IF_SHORT = {"one letter a word", "two lines", "base64 after a user", "base64 after one letter"}
CASES = [(name, form) for name in VALUES for form in FORMS if name != "short" or form not in NOT_IF_SHORT]


@each_row(("name", "form"), CASES)
def test_a_known_secret_is_hidden_in_every_form(name: str, form: str) -> None:
    value = VALUES[name]
    written = FORMS[form](value)
    out = scrub(f"result of step 3: {written} done", secrets=[value])
    assert longest_left(written, out) <= max(6, len(written) // 3), out
    assert out.startswith("result of step 3: ")
    assert out.endswith(" done")


def test_the_last_line_of_a_dump_may_be_short() -> None:
    value = b"zz-4b9d-not-a-known-shape"
    rows = [value[at : at + 16] for at in range(0, len(value), 16)]
    cells = ["  ".join(filter(None, (row[:8].hex(" "), row[8:].hex(" ")))) for row in rows]
    dump = "".join(f"{16 * n:08x}  {cells[n]:<48}  |{row.decode()}|\n" for n, row in enumerate(rows))
    assert scrub(dump, secrets=[value.decode()]).strip() == "[redacted:secret]"


def test_the_name_of_a_secret_is_shown() -> None:
    value = "zz-" + draw(30)
    assert scrub(f"a {value} b", secrets={"My Provider": value}) == "a [redacted:my_provider] b"
    assert scrub(f"a {value} b", secrets=[value]) == "a [redacted:secret] b"


def test_secrets_that_overlap_are_hidden_together() -> None:
    first, second = "abcdefgh" + "12345678", "12345678" + "ijklmnop"
    assert scrub("x abcdefgh12345678ijklmnop y", secrets=[first, second]) == "x [redacted:secret] y"


def test_every_line_of_a_known_file_is_hidden() -> None:
    key = private_key(lines=4)
    row = key.split("\n")[2]
    assert row not in scrub(f"only this line: {row}", secrets=[key])


@each_row("size", [1, 2, 5, 16, 1000])
@each_row("form", FORMS)
def test_in_pieces_as_whole(form: str, size: int) -> None:
    value = VALUES["token"]
    text = f"before {FORMS[form](value)} after\n{value[:10]} and {value}{value} end"
    assert feed_all(Scrubber([value]), text, size) == scrub(text, secrets=[value])


def test_a_secret_split_at_every_position_does_not_leak() -> None:
    value = VALUES["token"]
    text = f"result: {value} done"
    whole = scrub(text, secrets=[value])
    assert value not in whole
    for at in range(len(text) + 1):
        scrubber = Scrubber([value])
        first = scrubber.feed(text[:at])
        assert longest_left(value, first) == 0 or longest_left(value, first) <= 2
        assert first + scrubber.feed(text[at:]) + scrubber.close() == whole


@given(
    value=st.text(st.sampled_from("ab1-\\\"'n ué"), min_size=8, max_size=20).filter(
        lambda v: len("".join(v.split())) >= 8
    ),
    around=st.lists(st.text(st.sampled_from("ab1-\\\"' \n"), max_size=12), min_size=2, max_size=2),
    size=st.integers(1, 9),
)
def test_any_secret_in_any_pieces(value: str, around: list[str], size: int) -> None:
    text = around[0] + value + around[1]
    whole = scrub(text, secrets=[value])
    assert value not in whole
    assert feed_all(Scrubber([value]), text, size) == whole


@pytest.mark.parametrize("value", ["", "abc", "a b c d"])
def test_a_secret_that_is_too_short_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="shorter than 6"):
        Scrubber([value])


def test_a_string_instead_of_a_list_is_refused() -> None:
    with pytest.raises(DragomanError, match="single string"):
        Scrubber("zz-" + draw(20))


@pytest.mark.parametrize(
    ("value", "worth"),
    [
        (draw(20), True),
        ("ollama", False),
        ("none", False),
        (None, False),
        ("xxxxxxxxxxxx", False),
        ("EMPTY", False),
        ("not-needed", False),
    ],
)
def test_stand_ins_for_keys_are_not_hidden(value: str | None, worth: bool) -> None:
    assert worth_hiding(value) is worth


def test_the_secrets_of_a_configuration() -> None:
    value = draw(20)
    secrets = known_secrets({"openai": value, "ollama": "ollama", "none": None})
    assert scrub(f"ollama says {value}", secrets=secrets) == "ollama says [redacted:openai]"
    assert not Secrets()


def test_forms_are_long_enough_not_to_occur_by_chance() -> None:
    assert all(len(form) >= 8 for form in needles(draw(8)))
    assert codecs.encode("abcdefgh", "rot13") not in needles("abcdefgh")


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("OPENAI_API_KEY", True),
        ("PGPASSWORD", True),
        ("DB_PASS", True),
        ("AUTHORIZATION", True),
        ("BASIC_AUTH", True),
        ("SSH_AUTH_SOCK", False),
        ("GIT_AUTHOR_NAME", False),
        ("GIT_AUTHOR_EMAIL", False),
        ("PACKAGE_AUTHORS", False),
        ("TOX_TESTENV_PASSENV", False),
        ("SSH_PASSTHROUGH", False),
        ("BYPASS_CACHE", False),
        ("COMPASS_HOME", False),
        ("PASSIVE_MODE", False),
    ],
)
def test_the_name_of_a_variable_says_whether_its_value_is_secret(name: str, is_secret: bool) -> None:
    assert is_secret_variable(name) is is_secret
