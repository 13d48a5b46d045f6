"""The output of a command: readable, of limited size, with a note about what is left out. Threat 10, fault 38."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin.commands.process_probe import output_of, run
from tests.tables import each_row

from dragoman.builtin.commands.bash import MOST_CHARACTERS, Capture, Captured, clean, last_line, make_bash

ROOT = Path(__file__).resolve().parents[3]


def capture(raw: bytes, *, pieces: int = 1 << 16, most: int = MOST_CHARACTERS) -> Captured:
    taken = Capture(most)
    for begin in range(0, len(raw), pieces):
        taken.feed(raw[begin : begin + pieces])
    return taken.finish()


@each_row(
    ("printed", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m \x1b[38;5;200mpink\x1b[m", "red pink"),
        ("\x1b]0;title\x07a\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\", "alink"),
        ("\x1bPdata\x1b\\a\x1b(Bb\x1b7c\x1b=d", "abcd"),
        ("\x1b]0;no end\nnext line", "0;no end\nnext line"),
        ("cut off \x1b", "cut off "),
        ("cut off \x1b[12;", "cut off 12;"),
        ("\x9b31mred\x9b0m \x85", "red "),
        ("bell\x07 nul\x00 form\x0cfeed del\x7f", "bell nul formfeed del"),
        ("10%\r20%\r30%\n", "30%\n"),
        ("10%\r\x1b[2K20%\r\x1b[2Kdone", "done"),
        ("dos\r\nlines\r\n", "dos\nlines\n"),
        ("dos\r\r\nodd", "dos\nodd"),
        ("kept\r", "kept"),
        ("\r\r\n", "\n"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("\b\bab\b", "a"),
        ("working |\b/\b-\b done", "working  done"),
        ("日本語 \U0001f600 e\u0301\n", "日本語 \U0001f600 e\u0301\n"),
        ("\u2028\u202e", "\u2028\u202e"),
    ],
    ids=lambda text: ascii(text)[:30],
)
def test_control_sequences_leave_what_a_terminal_would_show(printed: str, shown: str) -> None:
    assert clean(printed) == shown


@given(st.text(alphabet=st.sampled_from("a\r\n\b\t\x1b[]0;m\x07\\P日\x9b\x00"), max_size=60))
def test_no_control_character_is_left_whatever_was_printed(printed: str) -> None:
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", clean(printed))


@given(st.binary(max_size=300), st.integers(1, 20))
def test_pieces_make_no_difference(raw: bytes, pieces: int) -> None:
    assert capture(raw, pieces=pieces) == capture(raw)


@pytest.mark.parametrize("pieces", [1, 2, 4, 5])
def test_a_character_in_two_pieces_is_whole(pieces: int) -> None:
    text = "日本語のテキスト\U0001f600 ünïcödé\n" * 20
    assert capture(text.encode(), pieces=pieces) == Captured(text, len(text.encode()))


def test_a_character_that_a_command_writes_in_two_pieces_is_whole(tmp_path: Path) -> None:
    """Each `printf` is a process of its own here, and writes half a character."""
    command = r"env printf '\346\227'; env printf '\245\346'; env printf '\234\254\n'"
    answer = run(command, tmp_path)
    assert output_of(answer) == "日本\n"
    assert "not text" not in str(answer.result.content)


def test_bytes_that_are_no_text_are_replaced_and_said(tmp_path: Path) -> None:
    answer = run("printf 'a\\000b\\377c\\n'", tmp_path)
    assert output_of(answer) == "ab\ufffdc\n"
    assert str(answer.result.content).endswith(
        "[some of the output is not text: those bytes were replaced or left out]"
    )


# ---- long outputs ----------------------------------------------------------------------------------------------------


def numbered(count: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(count))


@pytest.mark.parametrize("count", [2_000, 20_000, 200_000], ids=["short", "in memory", "beyond memory"])
def test_a_long_output_keeps_its_beginning_and_its_end(count: int) -> None:
    raw = numbered(count)
    taken = capture(raw, most=1_000)
    head, note, tail = taken.text.partition(f"... {taken.left_out:,} bytes left out ...\n")
    assert note
    assert raw.decode().startswith(head)
    assert raw.decode().endswith(tail)
    assert len(head) + len(tail) + taken.left_out == len(raw) == taken.size
    assert 400 < len(head) <= 500
    assert 400 < len(tail) <= 500
    assert head.endswith("\n")
    assert tail.startswith("line ")


@pytest.mark.parametrize("length", [5_000, 50_000, 5_000_000])
def test_one_endless_line_is_cut_as_well(length: int) -> None:
    taken = capture(b"<" + b"x" * (length - 2) + b">", most=1_000)
    assert taken.text == "<" + "x" * 499 + f"\n... {length - 1_000:,} bytes left out ...\n" + "x" * 499 + ">"


def test_a_line_of_wide_characters_is_not_cut_inside_one() -> None:
    taken = capture("語".encode() * 400_000, most=1_000)
    assert set(taken.text.replace(f"... {taken.left_out:,} bytes left out ...", "")) == {"語", "\n"}
    assert not taken.has_odd_bytes


def test_what_fits_is_not_cut() -> None:
    raw = numbered(100)
    assert capture(raw, most=len(raw)) == Captured(raw.decode(), len(raw))


def test_a_progress_bar_of_megabytes_is_one_line() -> None:
    raw = b"begin\n" + b"".join(b"\r%7d of 9" % number for number in range(10_000)) + b"\nend\n"
    assert capture(raw, most=1_000) == Captured("begin\n   9999 of 9\nend\n", len(raw))


def test_the_caller_chooses_how_much_is_shown(tmp_path: Path) -> None:
    answer = run("seq 10000", tmp_path, make_bash(max_output=200))
    assert len(output_of(answer)) < 250
    assert "bytes left out ..." in output_of(answer)
    assert answer.result.data["bytes"] == 48_894
    assert answer.result.data["bytes_left_out"] > 48_600


@pytest.mark.parametrize(
    ("piece", "line"),
    [(b"", ""), (b"\n \n", ""), (b"one\ntwo\n\n", "two"), (b"1%\r2%", "2%"), (b"x" * 9_999, "x" * 200)],
    ids=["empty", "blank", "lines", "bar", "long"],
)
def test_the_last_line_is_short_and_clean(piece: bytes, line: str) -> None:
    assert last_line(piece) == line


FLOOD = """
import asyncio, resource
from dragoman.builtin.commands.bash import Bash
from dragoman.tools import ToolContext, answer_async, bind
from dragoman.types import ToolCall

def run(command):
    arguments = {"command": command}
    bound = bind(Bash, arguments, ToolContext(workspace="/"))
    return asyncio.run(answer_async(bound, ToolCall("c", "bash", arguments)))

run("echo warm")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
data = run("yes | head -c 268435456").result.data
print(data["bytes"], data["exit_code"], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory in other units")
def test_a_quarter_of_a_gigabyte_needs_no_room() -> None:
    done = subprocess.run(
        (sys.executable, "-c", FLOOD), cwd=ROOT, capture_output=True, text=True, check=True, timeout=120
    )
    size, code, grown = map(int, done.stdout.split())
    assert (size, code) == (1 << 28, 0)
    assert grown < 64 * 1024, f"{grown} KiB"
