"""What holds for every text: the same in pieces, the same twice, JSON stays JSON, nothing raises, little is held."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.secrets.fakes import HEX, TOKENS, draw, feed_all, outline, private_key

from dragoman.secrets import Scrubber, Vault, scrub
from dragoman.secrets.spans import AHEAD

_NAMES = [
    "password",
    "api_key",
    "DB_PASSWORD",
    "token",
    "Authorization",
    "Cookie",
    "key",
    "name",
    "value",
    "user",
    "auth",
]
_VALUES = [
    draw(20),
    draw(40),
    "maple-quartz-copper",
    "null",
    "12345678",
    "${TOKEN}",
    "hello",
    "Bearer " + draw(30),
    "é😀\u0130",
]
_OTHERS = [
    *list(TOKENS.values())[::6],
    private_key(lines=2),
    "-----BEGIN RSA PRIVATE KEY-----",
    "https://",
    "postgres://app:" + draw(12) + "@db/x",
    "--password ",
    "curl -u me:",
    "[redacted:key]",
    "*[REDACTED]",
    "seed phrase: ",
    "\\u00e9",
    "\x1b[31m",
    "db.x:5432:main:svc:" + draw(12),
]
_SEPARATORS = [
    " ",
    " ",
    "\n",
    "\n",
    "=",
    ": ",
    '="',
    '":"',
    "='",
    "\\n",
    '\\"',
    ", ",
    ";",
    "&",
    "@",
    "/",
    "<",
    ">",
    "|",
    "\t",
    '{"',
    '"}',
]
_ATOMS = st.sampled_from([*_NAMES, *_NAMES, *_VALUES, *_OTHERS])
TEXTS = st.lists(st.tuples(_ATOMS, st.sampled_from(_SEPARATORS)), max_size=9).map(
    lambda pairs: "".join(atom + separator for atom, separator in pairs)
)
ANYTHING = st.one_of(TEXTS, st.text(max_size=200))
STYLES = ["kind", "seed"]

# What tools print: whole fields, one after the other.
_FIELDS = [
    "{name}={value}",
    "{name}: {value}",
    '"{name}": "{value}",',
    "export {name}='{value}'",
    "tool --{name} {value}",
    "{name} {value}",
    "https://user:{value}@host.example/{name}",
    "https://{other}@host.example/x?{name}={value}&y={other}",
    "{other}",
    "the {name} is {other}",
    '{{"{name}": "{value}", "x": "{other}"}}',
    "> {name}: Bearer {value}",
    "Cookie: a=b; {name}={value}; c={other}",
    "<{name}>{value}</{name}>",
    "Server=x;{name}={value};Timeout=3",
    "curl -u me:{value} -H '{name}: {other}' https://host.example",
]
PRINTED = st.lists(
    st.builds(
        lambda field, name, value, other, end: field.format(name=name, value=value, other=other) + end,
        st.sampled_from(_FIELDS),
        st.sampled_from(_NAMES),
        st.sampled_from(_VALUES),
        st.sampled_from(_OTHERS),
        st.sampled_from(["\n", "\n", " ", "\\n", ", "]),
    ),
    max_size=6,
).map("".join)

_LEAVES: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), st.integers(0, 10**9), TEXTS)
DOCUMENTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.sampled_from(_NAMES), TEXTS), inner, max_size=4)
    ),
    max_leaves=6,
)

# What a private key is made of, whole and cut off, and what may stand beside it in a document.
_KEY_KINDS = ["RSA PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
_KEY_PARTS = [
    *[f"-----BEGIN {kind}-----" for kind in _KEY_KINDS],
    *[f"-----BEGIN {kind}-----\n{draw(64)}\n" for kind in _KEY_KINDS],
    *[f"-----END {kind}-----" for kind in _KEY_KINDS],
    *["Private-Lines: 3", "Private-MAC: " + draw(40, HEX), "Proc-Type: 4,ENCRYPTED", "Version: 1", "=abcd"],
    *[
        draw(64),
        draw(8),
        "abcd1234",
        "1234",
        "12:",
        "word",
        "=",
        "/",
        "+",
        "-",
        ", ",
        ":",
        " ",
        "\n",
        "\r\n",
        "'",
        '"',
        "\\",
    ],
]
_KEY_TEXTS = st.lists(st.sampled_from(_KEY_PARTS), max_size=4).map("".join)
_KEY_LEAVES = st.one_of(_KEY_TEXTS, _KEY_TEXTS, st.sampled_from([1, 1234, -1234, 12345678, 1e10, True, None]))
KEY_DOCUMENTS = st.recursive(
    _KEY_LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(_KEY_TEXTS, st.sampled_from(["a", "abcd1234", "efgh5678"])), inner, max_size=4),
        inner.map(json.dumps),
    ),
    max_leaves=10,
)


@given(text=ANYTHING, sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_any_cutting_gives_the_same(text: str, sizes: list[int]) -> None:
    scrubber = Scrubber()
    out, at, turn = [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        out.append(scrubber.feed(text[at : at + size]))
        at, turn = at + size, turn + 1
    assert "".join(out) + scrubber.close() == scrub(text)


@pytest.mark.parametrize("style", STYLES)
@given(text=ANYTHING)
def test_one_letter_at_a_time_gives_the_same(style: str, text: str) -> None:
    assert feed_all(Scrubber(style=style), text, 1) == scrub(text, style=style)


@pytest.mark.parametrize("style", STYLES)
@given(text=st.one_of(PRINTED, st.text(max_size=200)))
def test_twice_is_as_once(style: str, text: str) -> None:
    once = scrub(text, style=style)
    assert scrub(once, style=style) == once


@pytest.mark.parametrize("style", STYLES)
@given(document=st.one_of(DOCUMENTS, KEY_DOCUMENTS), indent=st.sampled_from([None, 1]), ascii_only=st.booleans())
def test_json_stays_json_of_the_same_structure(style: str, document: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    assert outline(scrub(text, style=style)) == outline(text)


@given(document=KEY_DOCUMENTS, size=st.integers(1, 40))
def test_keys_in_json_are_hidden_the_same_in_pieces_and_twice(document: Any, size: int) -> None:
    text = json.dumps(document)
    once = scrub(text)
    assert feed_all(Scrubber(), text, size) == once
    assert scrub(once) == once


@given(document=DOCUMENTS)
def test_a_structure_keeps_its_shape(document: Any) -> None:
    def shape(value: Any) -> Any:
        if isinstance(value, dict):
            return (
                len(value)
                if any("redacted" in key for key in scrub(value))
                else {key: shape(value[key]) for key in value}
            )
        return [shape(inner) for inner in value] if isinstance(value, list) else None

    assert shape(scrub(document)) == shape(document) or any(
        "redacted" in name for name in json.dumps(scrub(document)).split('"')
    )


@given(text=ANYTHING)
def test_the_vault_puts_everything_back(text: str) -> None:
    vault = Vault()
    scrubber = Scrubber(vault=vault)
    hidden = scrubber.feed(text) + scrubber.close()
    restored = vault.restore(hidden)
    assert restored.text == text
    assert restored.unknown == ()


@given(text=ANYTHING)
def test_the_text_grows_by_no_more_than_its_marks(text: str) -> None:
    out = scrub(text)
    assert len(out) <= len(text) + 32 * out.count("[redacted:")


@pytest.mark.parametrize(
    "text",
    [
        "a" * 60_000,
        "password=" + "x1Y" * 20_000,
        '{"a":' * 12_000,
        "=" * 50_000,
        "token: " * 9_000,
        "-----BEGIN PRIVATE KEY-----" * 2_000,
    ],
    ids=["letters", "a long password", "open brackets", "signs", "names", "beginnings of keys"],
)
def test_no_more_than_a_window_is_held(text: str) -> None:
    scrubber = Scrubber()
    given, out = 0, 0
    for at in range(0, len(text), 500):
        out += len(scrubber.feed(text[at : at + 500]))
        given += 500
        held = sum(len(part._box.text) for part in [scrubber._rules])
        assert held <= 2 * AHEAD + 66_000
    scrubber.close()


def test_a_value_too_long_to_hold_never_comes_out() -> None:
    value = draw(50_000)
    text = f"api_key={value} next=public\n"
    assert scrub(text) == "api_key=[redacted:key] next=public\n"
    assert feed_all(Scrubber(), text, 777) == "api_key=[redacted:key] next=public\n"
    vault = Vault()
    hidden = feed_all(Scrubber(vault=vault), text, 777)
    assert vault.restore(hidden).text == text


def test_a_long_line_is_as_many_short_ones() -> None:
    field = '"password": "' + draw(16) + '", "name": "x", '
    text = "{" + field * 3_000 + '"end": 1}'
    out = scrub(text)
    assert out.count("[redacted:password]") == 3_000
    assert feed_all(Scrubber(), text, 4_321) == out
    assert scrub(out) == out


def test_words_come_out_before_the_line_ends() -> None:
    scrubber = Scrubber()
    assert scrubber.feed("The quick brown ") == "The quick brown "
    assert scrubber.feed("fox jumps") == "fox "
    assert scrubber.close() == "jumps"
