"""Known secrets whose characters are encoded one by one, or have something between them, whole and in pieces."""

from __future__ import annotations

import base64
import html
import itertools
import json
import re
import shlex
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.secrets import Scrubber, Secrets
from dragoman.secrets.encodings import dumps, readings

SECRETS = {
    "plain": "Xk7-mQ2z.Lw9/tR4=vB",
    "lines": "first line here\nsecond ln\nthird one is it",
    "umlauts": "größe-Straße-42",
    "astral": "key-\U0001f511-of-gold",
    "short": "Zq3!xY",
    "signs": "p\"q'r\\s-t_u.v*w%D8&x^y<z",
}


def _each(write: Callable[[str], str], between: str = "") -> Callable[[str], str]:
    return lambda value: between.join(map(write, value))


def _bytes(write: Callable[[int], str], between: str = "") -> Callable[[str], str]:
    return lambda value: between.join(write(byte) for byte in value.encode())


def _lines(write: Callable[[int, str], str]) -> Callable[[str], str]:
    def written(value: str) -> str:
        lines = value.split("\n") if "\n" in value else [value[at : at + 5] for at in range(0, len(value), 5)]
        return "".join(write(number, line) + "\n" for number, line in enumerate(lines, 1))

    return written


def _dump(offset: str, size: int, group: int, *, ascii: str = "", swap: bool = False, upper: bool = False):
    def written(value: str) -> str:
        data = b"pre " + value.encode() + b" and more"
        rows = []
        for at in range(0, len(data), size):
            row = data[at : at + size]
            words = [row[start : start + group] for start in range(0, len(row), group)]
            digits = " ".join((word[::-1] if swap else word).hex() for word in words)
            text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
            shown = digits.upper() if upper else digits
            rows.append(offset.format(at) + (shown + ascii.format(text) if ascii else shown))
        return "\n".join(rows)

    return written


def _json_pairs(value: str) -> str:
    raw = value.encode("utf-16-be")
    return "".join(f"\\u{raw[at]:02x}{raw[at + 1]:02x}" for at in range(0, len(raw), 2))


ENCODINGS: dict[str, Callable[[str], str]] = {
    "json": _json_pairs,
    "upper json": lambda value: _json_pairs(value).upper().replace("\\U", "\\u"),
    "json in json": lambda value: _json_pairs(value).replace("\\", "\\\\"),
    "half json": lambda value: "".join(_json_pairs(each) if at % 2 else each for at, each in enumerate(value)),
    "javascript": _each(lambda each: f"\\u{{{ord(each):x}}}"),
    "python": _each(lambda each: f"\\U{ord(each):08x}"),
    "hex escapes": _bytes(lambda byte: f"\\x{byte:02x}"),
    "upper hex escapes": _bytes(lambda byte: f"\\x{byte:02X}"),
    "octal": _bytes(lambda byte: f"\\{byte:03o}"),
    "decimal entities": _each(lambda each: f"&#{ord(each)};"),
    "padded entities": _each(lambda each: f"&#{ord(each):07};"),
    "bare entities": _each(lambda each: f"&#{ord(each)}", " "),
    "hex entities": _each(lambda each: f"&#x{ord(each):x};"),
    "upper hex entities": _each(lambda each: f"&#X{ord(each):04X};"),
    "percent": _bytes(lambda byte: f"%{byte:02x}"),
    "upper percent": _bytes(lambda byte: f"%{byte:02X}"),
    "double percent": _bytes(lambda byte: f"%25{byte:02X}"),
    "quoted-printable": _bytes(lambda byte: f"={byte:02X}"),
    "soft line breaks": lambda value: "=\n".join(value[at : at + 4] for at in range(0, len(value), 4)),
    "colons": _bytes(lambda byte: f"{byte:02x}", ":"),
    "dashes": _bytes(lambda byte: f"{byte:02X}", "-"),
    "array in C": _bytes(lambda byte: f"0x{byte:02x}", ", "),
    "array of lines": _bytes(lambda byte: f"0x{byte:02x}", ",\n  "),
    "xxd": _dump("{:08x}: ", 16, 2, ascii="  {}"),
    "xxd -u": _dump("{:08x}: ", 16, 2, ascii="  {}", upper=True),
    "xxd -g 1 -c 8": _dump("{:08x}: ", 8, 1, ascii="  {}"),
    "xxd -g 4": _dump("{:08x}: ", 16, 4, ascii="  {}"),
    "hexdump -C": _dump("{:08x}  ", 16, 1, ascii="  |{}|"),
    "hexdump": _dump("{:07x} ", 16, 2, swap=True),
    "od -t x1": _dump("{:07o} ", 16, 1),
    "od -x": _dump("{:07o} ", 16, 2, swap=True),
    "colours": _each(lambda each: f"\x1b[1;3{ord(each) % 8}m{each}\x1b[0m"),
    "written colours": _each(lambda each: f"\\e[31m{each}"),
    "entities in entities": _each(lambda each: f"&amp;#{ord(each)};"),
    "escaped zero width": lambda value: "\\u200b".join(value),
    "zero width entities": lambda value: "&#8203;".join(value),
    "soft hyphens": lambda value: "&shy;".join(value),
    "escaped colours": _each(lambda each: f"\\u001b[31m{each}"),
    "zero width": lambda value: "\u200b".join(value),
    "joiners": lambda value: "\u2060\ufeff".join(value),
    "tags": lambda value: "\U000e0020".join(value),
    "NUL": lambda value: "\0".join(value),
    "overstrike": _each(lambda each: each if each.isspace() else f"{each}\b{each}"),
    "cat -n": _lines(lambda number, line: f"{number:6}\t{line}"),
    "grep -n": _lines(lambda number, line: f"{number}:{line}"),
    "grep": _lines(lambda number, line: f"src/a_file.py:{number}:{line}"),
    "added": _lines(lambda number, line: f"+{line}"),
    "removed": _lines(lambda number, line: f"-{line}"),
    "diff": _lines(lambda number, line: f"> {line}"),
    "frame": _lines(lambda number, line: f"{number:4} | {line}"),
    "numbers": lambda value: str(list(value.encode())),
    "repr": repr,
    "repr of bytes": lambda value: repr(value.encode()),
    "repr of json": lambda value: repr(json.dumps(value)),
    "three times json": lambda value: json.dumps(json.dumps(json.dumps(value))),
    "json in html": lambda value: html.escape(json.dumps(value)),
    "pattern": re.escape,
    "markdown": lambda value: re.sub(r"([\\`*_{}\[\]()#+.!|<>-])", r"\\\1", value),
    "shell": shlex.quote,
    "csv": lambda value: value.replace('"', '""'),
    "sql": lambda value: value.replace("'", "''"),
}
# They need more of a secret than six characters: otherwise ordinary text would be hidden.
LONG_ONLY = {
    "bare entities",
    "soft line breaks",
    "array of lines",
    "cat -n",
    "grep -n",
    "grep",
    "added",
    "removed",
    "diff",
}
LONG_ONLY |= {"frame"}


def scrub(text: str, value: str, size: int = 0) -> str:
    scrubber = Scrubber({"known": value})
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else [text]
    return "".join([*map(scrubber.feed, pieces), scrubber.close()])


def says(text: str, value: str) -> bool:
    """Whether somebody who decodes the text reads the secret in it."""
    secrets = Secrets([value])
    found = any(secrets.decoded.stand_in(reading.text) for reading in readings(text))
    return found or any(True for dump in dumps(text) for _ in secrets.find_in_dump(dump))


CASES = [(name, each) for name in SECRETS for each in ENCODINGS if name != "short" or each not in LONG_ONLY]


@each_row(("name", "encoding"), CASES)
def test_an_encoding_is_hidden_in_any_pieces(name: str, encoding: str) -> None:
    value = SECRETS[name]
    text = f"some text before\n{ENCODINGS[encoding](value)}\nafter it 12 34\n"
    shown = scrub(text, value)
    assert "[redacted:known]" in shown and not says(shown, value), shown
    assert shown.startswith("some text before\n") and shown.endswith("after it 12 34\n")
    for size in (1, 3, 16):
        assert scrub(text, value, size) == shown, size


def _cells(data: bytes, base: str, size: int, order: str) -> list[str]:
    digits = {"d": 0, "o": -(-8 * size // 3), "x": 2 * size, "b": 8 * size}[base]
    words = (data[at : at + size] for at in range(0, len(data), size))
    return [format(int.from_bytes(word, order), f"0{digits}{base}" if digits else base) for word in words]  # type: ignore[arg-type]


FRAMES: dict[str, Callable[[list[list[str]]], str]] = {
    "od": lambda rows: "\n".join(
        f"{16 * at:07o} " + " ".join(f"{cell:>3}" for cell in row) for at, row in enumerate(rows)
    ),
    "od -An": lambda rows: "\n".join("  " + "   ".join(row) for row in rows),
    "hexdump -C": lambda rows: "\n".join(
        f"{16 * at:08x}  {'  '.join(row)}  |12 34 text|" for at, row in enumerate(rows)
    ),
    "xxd": lambda rows: "\n".join(f"{16 * at:08x}: {' '.join(row)}  12 34 text" for at, row in enumerate(rows)),
    "one to a line": lambda rows: "\r\n".join(cell for row in rows for cell in row),
    "semicolons": lambda rows: ";".join(cell for row in rows for cell in row),
    "array": lambda rows: "[" + ", ".join(f"'0x{cell}'" for row in rows for cell in row) + "]",
    "YAML": lambda rows: "\n".join(f"- {cell}" for row in rows for cell in row),
    "object": lambda rows: str({str(at): cell for at, cell in enumerate(cell for row in rows for cell in row)}),
    "functions": lambda rows: "+".join(f"chr({cell})" for row in rows for cell in row),
}


def test_dumps_and_lists_in_every_base_and_order_are_hidden() -> None:
    shown: list[tuple[object, ...]] = []
    for name in ("plain", "umlauts"):
        value = SECRETS[name]
        for before, base, size, order in itertools.product(("", "abc"), "doxb", (1, 2, 4, 8), ("little", "big")):
            if (base == "b" and size > 1) or (size == 1 and order == "big"):
                continue
            cells = _cells(f"{before}{value} and".encode(), base, size, order)
            rows = [cells[at : at + 16 // size] for at in range(0, len(cells), 16 // size)]
            for frame, write in FRAMES.items():
                text = f"before it\n{write(rows)}\n"
                hidden = scrub(text, value)
                if "[redacted:known]" not in hidden or (before and scrub(text, value, 7) != hidden):
                    shown.append((name, before, base, size, order, frame, hidden))
    assert shown == []


def test_other_numbers_are_hidden() -> None:
    value = SECRETS["plain"]
    raw = value.encode()
    lists = {
        "octal in Python": str([oct(byte) for byte in raw]),
        "binary in Python": str([bin(byte) for byte in raw]),
        "backwards": str([*reversed(raw)]),
        "one number": str(int.from_bytes(raw, "big")),
        "a repeated line": "0000000 172\n*\n0000002 " + "\n0000003 ".join(f"{byte:03o}" for byte in b"-key-9"),
        "one character to a line": "".join(f"{at:6}\t{each}\n" for at, each in enumerate(value, 1)),
    }
    secrets = Secrets({"known": value, "other": "zz-key-9"})
    assert [name for name, text in lists.items() if not secrets.may_occur(text)] == []


@pytest.mark.parametrize("alphabet", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("width", [0, 4, 60])
def test_base64_at_every_offset_and_in_lines(alphabet: Callable[[bytes], bytes], before: int, width: int) -> None:
    value = SECRETS["plain"]
    written = alphabet(b"z" * before + value.encode() + b"yy").decode()
    text = "\n".join(written[at : at + width] for at in range(0, len(written), width)) if width else written
    for size in (0, 1, 5):
        assert "[redacted:known]" in scrub(text, value, size)


@given(
    st.lists(
        st.one_of(
            st.text("ab\\u0041&#x;%=\x1b[m\n 0123456789:|+-\u200b", max_size=12),
            st.sampled_from([write(SECRETS["plain"]) for write in ENCODINGS.values()]),
            st.sampled_from([write(SECRETS["plain"])[:20] for write in ENCODINGS.values()]),
        ),
        max_size=4,
    ).map("".join),
    st.integers(1, 40),
)
def test_pieces_hide_what_the_whole_text_hides(text: str, size: int) -> None:
    value = SECRETS["plain"]
    pieces = scrub(text, value, size)
    assert not says(pieces, value)
    assert "[redacted:known]" in pieces or "[redacted:known]" not in scrub(text, value)


@pytest.mark.parametrize(
    "text",
    [
        "a plain sentence with 12 numbers, 34, 56 and 78\n" * 3,
        '{"path": "C:\\\\new\\\\table", "text": "caf\\u00e9 &amp; more", "url": "https://a/%20b"}\n',
        "00000000: 6865 6c6c 6f20 776f 726c 640a            hello world.\n",
        "  1\tdef f():\n  2\t    return [115, 101, 99, 114]\n",
        "\x1b[31mred\x1b[0m and \u200bnothing\n",
        "de:ad:be:ef:00:11:22:33\n",
    ],
)
def test_other_text_stays(text: str) -> None:
    for name, value in SECRETS.items():
        for size in (0, 1, 9):
            assert scrub(text, value, size) == text, name


def test_a_filler_without_an_end_does_not_hold_the_text_back() -> None:
    scrubber = Scrubber({"known": SECRETS["plain"]})
    out = 0
    for _ in range(200):
        out += len(scrubber.feed("X" + "\u200b" * 1024))
    assert 0 < out < 200 * 1025
    assert out + len(scrubber.close()) == 200 * 1025
