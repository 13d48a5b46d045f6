"""The part of a file that `read` shows, and its note about the rest."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builtin.files.conftest import Call

from dragoman.builtin.files.text import LINE_CHARACTERS, Encoding, as_utf8, read_page
from dragoman.builtin.files.tools import LARGEST_IMAGE, Read
from dragoman.types import Image, Text, ToolResult

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"one\ntwo\n", "1\tone\n2\ttwo"),
        (b"one\ntwo", "1\tone\n2\ttwo\n[no line end at the end of the file]"),
        (b"\n\n", "1\t\n2\t"),
        (b"", "[file is empty]"),
        (b"a\r\nb\r\n", "1\ta\n2\tb\n[lines end in CR LF, which is not shown]"),
        (b"a\r\nb\n", "1\ta\n2\tb\n[some lines end in CR LF and some in LF, which is not shown]"),
        (b"a\rb\n", "1\ta\rb"),
        ("häß ✓\n".encode(), "1\thäß ✓"),
        (b"\xef\xbb\xbfhi\n", "1\thi\n[the file is UTF-8 with a byte order mark; edit and write keep that]"),
        (b"\xef\xbb\xbf", "[file is empty but for a byte order mark (UTF-8 with a byte order mark)]"),
        ("hä\n".encode("utf-16"), "1\thä\n[the file is UTF-16 (LE); edit and write keep that]"),
        (b"\xfe\xff\x00h\x00\n", "1\th\n[the file is UTF-16 (BE); edit and write keep that]"),
        (b"caf\xe9\nok\n", "1\tcafé\n2\tok\n[not UTF-8, shown as latin-1: line 1]"),
        (b"\x00\x01\x02", "[file is binary data, 3 bytes; it is no text and is not shown]"),
        (b"\x7fELF\x02\x01\x00", "[file is an ELF program or library, 7 bytes; it is no text and is not shown]"),
        (b"\x01\x02\x03\x04", "[file is binary data, 4 bytes; it is no text and is not shown]"),
        (b"\x1b[31mred\x1b[0m\n", "1\t\x1b[31mred\x1b[0m"),
    ],
)
def test_files_of_every_kind(folder: Path, call: Call, content: bytes, shown: str) -> None:
    (folder / "file").write_bytes(content)
    assert call(Read, path="file") == shown


@pytest.mark.parametrize(
    ("arguments", "first", "last", "note"),
    [
        ({}, 1, 2000, "[lines 1-2000 of 8,123; continue with offset=2001]"),
        ({"offset": 8000}, 8000, 8123, "[lines 8000-8123 of 8,123]"),
        ({"offset": 11, "limit": 10}, 11, 20, "[lines 11-20 of 8,123; continue with offset=21]"),
        ({"offset": 0, "limit": 1}, 1, 1, "[lines 1-1 of 8,123; continue with offset=2]"),
        ({"offset": 8123}, 8123, 8123, "[lines 8123-8123 of 8,123]"),
    ],
)
def test_long_files_come_in_pages(
    folder: Path, call: Call, arguments: dict[str, int], first: int, last: int, note: str
) -> None:
    (folder / "file").write_text("".join(f"line {number}\n" for number in range(1, 8124)))
    lines = call(Read, path="file", **arguments).split("\n")
    assert lines[0] == f"{first}\tline {first}"
    assert lines[-2:] == [f"{last}\tline {last}", note]


def test_an_offset_behind_the_end_is_an_error(folder: Path, call: Call) -> None:
    (folder / "file").write_text("a\nb\n")
    assert call(Read, path="file", offset=3) == "Error: file has 2 lines; offset=3 is behind its end"


def test_pages_are_bounded_and_joined_without_a_gap(folder: Path, result: Callable[..., ToolResult]) -> None:
    (folder / "file").write_text("".join(f"{number:0500}\n" for number in range(1000)))
    offset, seen = 1, 0
    while True:
        answer = result(Read, path="file", offset=offset).content
        assert isinstance(answer, str)
        assert len(answer) < 50_000
        assert "characters left out" not in answer  # The page fits, and is not cut once more on its way.
        *lines, note = answer.split("\n")
        assert [int(line.split("\t")[1]) for line in lines] == list(range(seen, seen + len(lines)))
        seen += len(lines)
        if "continue" not in note:
            break
        offset = int(note.split("offset=")[1].rstrip("]"))
    assert seen == 1000


def test_a_long_line_is_cut_where_that_shows(folder: Path, call: Call) -> None:
    (folder / "file").write_text("ä" * 5000 + "\nnext\n")
    first, second, note = call(Read, path="file").split("\n")
    assert first == "1\t" + "ä" * LINE_CHARACTERS + " [... 6,000 more bytes in this line, not shown]"
    assert second == "2\tnext"
    assert "cut after 2,000 characters" in note


def test_an_image_is_shown(folder: Path, result: Callable[..., ToolResult]) -> None:
    (folder / "a.png").write_bytes(PNG)
    text, image = result(Read, path="a.png").content
    assert text == Text("[a.png is a PNG image, 28 bytes]")
    assert isinstance(image, Image)
    assert (image.media_type, b64decode(image.data or "")) == ("image/png", PNG)


def test_a_large_image_is_described(folder: Path, call: Call) -> None:
    (folder / "a.png").write_bytes(PNG + b"\0" * LARGEST_IMAGE)
    assert call(Read, path="a.png") == "[a.png is a PNG image, 3,750,028 bytes; too large to be shown]"


def test_a_folder_is_listed(folder: Path, call: Call) -> None:
    (folder / "src/deep").mkdir(parents=True)
    (folder / "src/two\nlines").write_text("")
    assert call(Read, path="src") == '[src is a folder with 2 entries]\ndeep/\n"two\\nlines"'


def test_of_a_missing_file_similar_names_are_told(folder: Path, call: Call) -> None:
    (folder / "src").mkdir()
    (folder / "src/settings.py").write_text("")
    assert call(Read, path="src/setings.py") == (
        "Error: src/setings.py: there is no such file. Similar: src/settings.py"
    )
    assert "glob finds files" in call(Read, path="quite/else")


def test_a_call_that_was_given_up_stops(folder: Path) -> None:
    from dragoman.builtin.files.tools import read
    from dragoman.tools import Error, ToolContext

    (folder / "file").write_text("x\n" * 500_000)
    with pytest.raises(Error, match="given up"):
        read("file", ToolContext(workspace=str(folder), cancelled=lambda: True), 400_000)


# ---- the law of pages ----------------------------------------------------------------------------------------------


@given(
    text=st.text(st.sampled_from("ab\r\né✓"), max_size=60),
    offset=st.integers(1, 12),
    limit=st.integers(1, 12),
    size=st.integers(1, 9),
    encoding=st.sampled_from(["utf-8", "utf-16-le", "utf-16-be"]),
)
def test_a_page_is_what_splitting_the_whole_text_would_give(
    text: str, offset: int, limit: int, size: int, encoding: str
) -> None:
    content = text.encode(encoding)
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    page = read_page(as_utf8(pieces, Encoding(encoding)), offset, limit)  # type: ignore[arg-type]
    lines = text.split("\n")
    is_ended = lines[-1] == ""
    wanted = [line[:-1] if line.endswith("\r") else line for line in lines[:-1]] + lines[-1:] * (not is_ended)
    assert [line.text for line in page.lines] == wanted[offset - 1 : offset - 1 + limit]
    assert [line.number for line in page.lines] == list(range(offset, offset + len(page.lines)))
    assert (page.total, page.complete) == (len(wanted), True)
    assert page.unended == (not is_ended)


# ---- size ----------------------------------------------------------------------------------------------------------

HUGE = """
import os, resource, sys
from dragoman.builtin.files.tools import edit
from dragoman.builtin.files.tools import read
from dragoman.builtin.files.search import grep
from dragoman.builtin.files.tools import write
from dragoman.tools import Error, ToolContext

context = ToolContext(workspace=sys.argv[1])
with open(sys.argv[1] + "/huge", "wb") as file:
    file.write(b"a line of text\\n" * 100_000)
    file.truncate(1 << 30)
with open(sys.argv[1] + "/holes", "wb") as file:
    file.truncate(1 << 30)
write("small", "text\\n", context)
read("small", context)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(read("huge", context)[-80:].splitlines()[-1])
print(read("huge", context, 100_000)[:60].splitlines()[0])
print(read("holes", context))
for change in (lambda: edit("huge", "x", "y", context), lambda: print(grep("text", context))):
    try:
        change()
    except Error as problem:
        print(problem.reason)
os.truncate(sys.argv[1] + "/huge", 1 << 27)
print(write("huge", "small", context))
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_file_of_a_gigabyte_is_no_reason_to_use_memory(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", HUGE, str(folder)], capture_output=True, text=True, check=True)
    *said, grown = done.stdout.splitlines()
    assert said == [
        "[lines 1-2000 of more than 100,000; continue with offset=2001]",
        "100000\ta line of text",
        "[holes is binary data, 1,073,741,824 bytes; it is no text and is not shown]",
        "huge has 1,073,741,824 bytes; files of up to 33,554,432 can be edited",
        "small:1:text",
        "[not searched, for they are larger than 256 MB: holes, huge]",
        "overwrote huge (was 134,217,728 bytes; now 1 line, 5 bytes)",
    ]
    assert int(grown) < 64
    assert os.stat(folder / "huge").st_size == 5
