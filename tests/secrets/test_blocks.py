"""Private keys over many lines, as files, in JSON, in YAML and cut off."""

from __future__ import annotations

import json

import pytest
from tests.secrets.fakes import HEX, draw, feed_all, private_key
from tests.tables import each_row

from dragoman.secrets import Scrubber, scrub

KINDS = ["RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_is_hidden_from_its_first_to_its_last_line(kind: str) -> None:
    assert scrub(f"before\n{private_key(kind)}\nafter\n") == "before\n[redacted:private_key]\nafter\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_in_json_leaves_json(kind: str) -> None:
    text = json.dumps({"type": "service_account", "private_key": private_key(kind) + "\n", "id": 1})
    assert json.loads(scrub(text)) == {"type": "service_account", "private_key": "[redacted:private_key]\n", "id": 1}


MARK = "-----BEGIN RSA PRIVATE KEY-----"
ROW = private_key().split("\n")[1]


@each_row(
    "document",
    [
        [f"{MARK} ", 1],
        [MARK, 1234],
        [MARK, -1234, "x"],
        [f"{MARK}\n", 12345678],
        ["-----BEGIN PGP PRIVATE KEY BLOCK-----", 1234],
        ["Private-Lines: 14", 1234],
        {"a": MARK, "abcd1234": "x", "efgh5678": "y"},
        {"a": MARK, ROW: 1, ROW[::-1]: 2},
        {"a": {"b": [f"{MARK}\r\n", [1234]]}, "c": 1234},
        {"stdout": json.dumps([MARK, 1234]), "rc": 0},
    ],
    ids=lambda document: json.dumps(document)[:48],
)
@each_row("indent", [None, 2])
@each_row("size", [1, 5, 10_000])
def test_a_first_line_alone_in_json_hides_nothing_else(document: object, indent: int | None, size: int) -> None:
    text = json.dumps(document, indent=indent)
    assert feed_all(Scrubber(), text, size) == text


@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_a_key_that_was_cut_off_in_json(size: int) -> None:
    cut = f"{MARK}\n{ROW}\n{ROW[:24]}"
    text = json.dumps({"a": [f"{MARK}\n{ROW}\n", 1234], "abcd1234": json.dumps({"b": cut, "n": 1234})})
    out = feed_all(Scrubber(), text, size)
    inner = json.dumps({"b": "[redacted:private_key]", "n": 1234})
    assert json.loads(out) == {"a": ["[redacted:private_key]\n", 1234], "abcd1234": inner}


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "cut off"])
@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_a_key_as_a_list_of_lines_stays_a_list(whole: bool, size: int) -> None:
    rows = private_key().split("\n")
    rows = rows if whole else rows[:-1]
    out = json.loads(feed_all(Scrubber(), json.dumps({"key": rows, "n": 1234}), size))
    assert out == {"key": ["[redacted:private_key]"] * len(rows), "n": 1234}


@pytest.mark.parametrize("prefix", ["", "b", "rb"])
def test_a_key_in_strings_of_code(prefix: str) -> None:
    lines = [f'    {prefix}"{row}\\n"' for row in private_key().split("\n")]
    assert scrub("\n".join(lines)) == "\n".join([f'    {prefix}"[redacted:private_key]\\n"'] * len(lines))


@pytest.mark.parametrize("size", [1, 5, 10_000])
@pytest.mark.parametrize(("sign", "escaped"), [("/", "\\/"), ("+", "\\u002B"), ("=", "\\u003d")])
def test_a_key_whose_signs_are_escaped_in_json(sign: str, escaped: str, size: int) -> None:
    rows = [MARK, *[f"{draw(9)}{sign}{draw(54)}"] * 3, f"{draw(22)}{sign}{sign}", "-----END RSA PRIVATE KEY-----"]
    text = json.dumps({"a": "\n".join(rows), "n": 1234}).replace(sign, escaped)
    assert json.loads(feed_all(Scrubber(), text, size)) == {"a": "[redacted:private_key]", "n": 1234}


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_putty_key_in_pieces(size: int) -> None:
    text = f"Private-Lines: 1\n{ROW}\nPrivate-MAC: {draw(64, HEX)}\nafter\n"
    assert feed_all(Scrubber(), text, size) == "[redacted:private_key]\nafter\n"


def test_a_key_in_yaml() -> None:
    key = private_key().replace("\n", "\n    ")
    assert scrub(f"tls:\n  key: |\n    {key}\nname: x\n") == "tls:\n  key: |\n    [redacted:private_key]\nname: x\n"


def test_a_key_in_a_diff_and_in_a_listing() -> None:
    rows = private_key().split("\n")
    for text in ("\n".join(f"+{row}" for row in rows), "\n".join(f"key.pem:{at}:{row}" for at, row in enumerate(rows))):
        out = scrub(text)
        assert not any(row in out for row in rows[1:-1])


def test_a_key_with_headers() -> None:
    key = private_key().replace("-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00AA\n\n", 1)
    assert scrub(f"{key}\nend") == "[redacted:private_key]\nend"


@pytest.mark.parametrize("lines", [1, 2, 5, 11])
def test_a_key_that_was_cut_off(lines: int) -> None:
    rows = private_key().split("\n")[: lines + 1]
    assert scrub("output truncated...\n" + "\n".join(rows)) == "output truncated...\n[redacted:private_key]"
    assert scrub("\n".join(rows) + "\ndone with the listing\n") == "[redacted:private_key]\ndone with the listing\n"


@pytest.mark.parametrize(
    "text",
    [
        private_key("PUBLIC KEY"),
        private_key("CERTIFICATE"),
        'MARKS = ("-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----")',
        "-----BEGIN PRIVATE KEY-----\n<key bytes>\n-----END PRIVATE KEY-----",
        "a file begins with -----BEGIN PRIVATE KEY----- and then",
    ],
)
def test_what_holds_no_private_key_stays(text: str) -> None:
    assert scrub(text) == text


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_a_key_in_pieces(size: int) -> None:
    text = f"a\n{private_key(lines=30)}\nb\n" * 2
    assert feed_all(Scrubber(), text, size) == "a\n[redacted:private_key]\nb\n" * 2


def test_a_key_in_base64() -> None:
    import base64

    encoded = base64.b64encode(private_key().encode()).decode()
    assert encoded[60:120] not in scrub(f"tls.key: {encoded}\n")
