"""`edit` and `write`: they write exactly the given text, and change no other byte."""

from __future__ import annotations

import tempfile
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.builtin.files.conftest import Call

from dragoman.builtin.files.tools import Edit, Write, edit, read, substitute, write
from dragoman.tools import Error, ToolContext


@pytest.mark.parametrize(
    ("before", "old", "new", "after", "note"),
    [
        (b"one two three\n", "two", "2", b"one 2 three\n", "1 replacement, at line 1"),
        (b"a\nb\nc", "b\nc", "x", b"a\nx", "1 replacement, at line 2"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny", b"x\r\ny\r\nc\r\n", "line ends were written as CR LF"),
        (b"a\r\nb\r\n", "b", "x\ny", b"a\r\nx\r\ny\r\n", "line ends were written as CR LF"),
        (b"a\r\nb\nc\n", "a\nb", "x", b"x\nc\n", "line ends were written as CR LF"),
        (b"a\r\nb\nc\n", "b\nc", "x\ny", b"a\r\nx\ny\n", "1 replacement, at line 2"),
        (b"a\r\nb\r\n", "a\r\nb", "x", b"x\r\n", "1 replacement, at line 1"),
        ("hä\nö\n".encode("utf-16"), "ö", "ß", "hä\nß\n".encode("utf-16"), "written as UTF-16 (LE)"),
        (b"\xfe\xff\x00a\x00\n", "a", "b", b"\xfe\xff\x00b\x00\n", "written as UTF-16 (BE)"),
        (b"\xef\xbb\xbfa\n", "a", "ä", b"\xef\xbb\xbf\xc3\xa4\n", "1 replacement"),
        (b"caf\xe9 a\n", "é a", "è b", b"caf\xe8 b\n", "written as latin-1"),
        (b"\xff \xc3\xa4\n", "ä", "ö", b"\xff \xc3\xb6\n", "1 replacement"),
        (b"tab\there \n", "tab\there ", "x", b"x\n", "1 replacement"),
    ],
)
def test_one_text_takes_the_place_of_another(
    folder: Path, call: Call, before: bytes, old: str, new: str, after: bytes, note: str
) -> None:
    (folder / "file").write_bytes(before)
    answer = call(Edit, path="file", old=old, new=new)
    assert (folder / "file").read_bytes() == after
    assert note in answer


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"old": "nothing like it", "new": "x"}, "does not contain this text. Nothing in the file comes near it"),
        ({"old": "", "new": "x"}, "old is empty"),
        ({"old": "a", "new": "a"}, "the same"),
        ({"old": "return", "new": "x"}, "contains this text 2 times (lines 2, 5); nothing was changed"),
        ({"old": "def  first():", "new": "x"}, "differ from it in white space only:\n1\tdef first():"),
        ({"old": "def fist():\n    return 1", "new": "x"}, "The nearest lines are:\n1\tdef first():"),
        ({"old": "1\tdef first():\n2\t    return 1", "new": "x"}, "begins with the line numbers that read shows"),
        ({"old": "return 3", "new": "return 2"}, "The new text is there already, at line 5."),
    ],
)
def test_what_does_not_fit_changes_nothing_and_is_explained(
    folder: Path, call: Call, arguments: dict[str, Any], words: str
) -> None:
    content = "def first():\n    return 1\n\ndef second():\n    return 2\n"
    (folder / "file").write_text(content)
    answer = call(Edit, path="file", **arguments)
    assert answer.startswith("Error: ")
    assert words in answer
    assert (folder / "file").read_text() == content


def test_every_occurrence_is_replaced_when_asked(folder: Path, call: Call) -> None:
    (folder / "file").write_text("a b a\na\n")
    answer = call(Edit, path="file", old="a", new="aa", replace_all=True)
    assert answer == "edited file: 3 replacements, the first at line 1\n1\taa b aa\n2\taa"
    assert (folder / "file").read_text() == "aa b aa\naa\n"


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("a" * 150_000, {"old": "a", "new": "b" * 1_000_000}, "would have 150,000,000,000 bytes"),
        ("ab\n" * 40_000, {"old": "ab", "new": "x\n" * 5_000}, "would have 400,040,000 bytes"),
        ("a" * 300_000, {"old": "a", "new": "b"}, "contains this text 300,000 times; up to 200,000 can be replaced"),
    ],
)
def test_an_edit_that_would_grow_without_measure_is_refused_before_it_is_made(
    folder: Path, call: Call, content: str, arguments: dict[str, Any], words: str
) -> None:
    (folder / "file").write_text(content)
    tracemalloc.start()
    answer = call(Edit, path="file", replace_all=True, **arguments)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert words in str(answer)
    assert peak < 64 << 20
    assert (folder / "file").read_text() == content


def test_what_the_encoding_does_not_hold_is_not_written(folder: Path, call: Call) -> None:
    (folder / "file").write_bytes(b"caf\xe9\n")
    answer = call(Edit, path="file", old="caf", new="€")
    assert answer == "Error: file is latin-1, which does not hold '€'; nothing was changed"


def test_binary_and_missing_files_are_not_edited(folder: Path, call: Call) -> None:
    (folder / "file").write_bytes(b"\0\1a")
    assert "is no text" in call(Edit, path="file", old="a", new="b")
    assert "there is no such file" in call(Edit, path="fil", old="a", new="b")
    assert "it is a folder" in call(Edit, path=".", old="a", new="b")


@pytest.mark.parametrize(
    ("before", "content", "after", "answer"),
    [
        (None, "hi\n", b"hi\n", "created file (1 line, 3 bytes)"),
        (None, "", b"", "created file (0 lines, 0 bytes)"),
        (None, "a\r\nb", b"a\r\nb", "created file (2 lines, 4 bytes)"),
        (b"old", "hi\n", b"hi\n", "overwrote file (was 3 bytes; now 1 line, 3 bytes)"),
        (b"hi\n", "hi\n", b"hi\n", "file has exactly this content already; nothing was changed"),
        (
            b"\xef\xbb\xbfold",
            "ä",
            b"\xef\xbb\xbf\xc3\xa4",
            "overwrote file (was 6 bytes; now 1 line, 5 bytes); "
            "written as UTF-8 with a byte order mark, as the file was",
        ),
        (
            "old".encode("utf-16"),
            "ä",
            "ä".encode("utf-16"),
            "overwrote file (was 8 bytes; now 1 line, 4 bytes); written as UTF-16 (LE), as the file was",
        ),
        (
            b"caf\xe9 and more",
            "é",
            b"\xc3\xa9",
            "overwrote file (was 13 bytes; now 1 line, 2 bytes); the old content was not UTF-8, the new one is",
        ),
        (
            b"a\r\nb\r\n",
            "a\n",
            b"a\n",
            "overwrote file (was 6 bytes; now 1 line, 2 bytes); the old lines ended in CR LF, the new ones end in LF",
        ),
    ],
)
def test_a_whole_file_is_written(
    folder: Path, call: Call, before: bytes | None, content: str, after: bytes, answer: str
) -> None:
    if before is not None:
        (folder / "file").write_bytes(before)
    assert call(Write, path="file", content=content) == answer
    assert (folder / "file").read_bytes() == after


def test_half_a_character_is_no_content(folder: Path, call: Call) -> None:
    assert "half a character" in call(Write, path="file", content="\ud800")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["two\nlines", "ünï ✓", "-rf", "a'b\"c", "$(x)", " leading", "*"])
def test_names_may_be_anything(folder: Path, call: Call, name: str) -> None:
    call(Write, path=name, content="content\n")
    assert (folder / name).read_text() == "content\n"
    answer = call(Edit, path=name, old="content", new="other")
    assert len(answer.splitlines()) == 2  # A name stays on its line.
    assert (folder / name).read_text() == "other\n"


# ---- laws ----------------------------------------------------------------------------------------------------------

ENCODINGS = ["utf-8", "utf-8-sig", "utf-16", "latin-1"]
LETTERS = st.sampled_from("\n\r\t") | st.characters(codec="utf-8", exclude_categories=["Cc"])
TEXTS = st.text(LETTERS, max_size=40)


@given(text=TEXTS, encoding=st.sampled_from(ENCODINGS), content=TEXTS)
def test_what_is_written_is_read_again(text: str, encoding: str, content: str) -> None:
    """Over a file of any encoding: what stands behind the tabs is what was written."""
    try:
        before = text.encode(encoding)
    except UnicodeEncodeError:
        assume(False)
    assume("\r" not in content and not content.startswith("\ufeff"))
    with tempfile.TemporaryDirectory() as folder:
        context = ToolContext(workspace=folder)
        (Path(folder) / "file").write_bytes(before)
        write("file", content, context)
        shown = read("file", context)
    lines = [line.partition("\t")[2] for line in shown.split("\n") if line[:1].isdigit()]
    if content:
        assert "\n".join(lines) == content.removesuffix("\n")
    else:
        assert "is empty" in shown


@given(
    head=st.binary(max_size=20),
    tail=st.binary(max_size=20),
    old=st.text(min_size=1, max_size=5),
    new=st.text(max_size=5),
)
def test_every_other_byte_stays(head: bytes, tail: bytes, old: str, new: str) -> None:
    """Whatever is around it: the text is replaced, the bytes before and behind are the same."""
    assume("\n" not in old + new and old not in (head + tail).decode("utf-8", "replace"))
    content = head + old.encode() + tail
    assume(content.count(old.encode()) == 1 and not content.startswith((b"\xff\xfe", b"\xfe\xff")))
    try:
        done = substitute(content, old, new)
    except UnicodeEncodeError:
        return
    assert done is not None
    if done.encoding.name == "utf-8":
        assert done.content() == head + new.encode() + tail
    else:
        # The same characters, as latin-1, occur elsewhere; then that is what was meant by the encoding of the file.
        wanted = old.encode("latin-1")
        assert done.content() == content.replace(wanted, new.encode("latin-1"))


@given(text=TEXTS, encoding=st.sampled_from(ENCODINGS), data=st.data())
def test_an_edit_and_its_opposite_give_the_same_bytes(text: str, encoding: str, data: st.DataObject) -> None:
    text = text.replace("\r", "")
    try:
        before = text.encode(encoding)
    except UnicodeEncodeError:
        assume(False)
    assume(text)
    start = data.draw(st.integers(0, len(text) - 1))
    old = text[start : data.draw(st.integers(start + 1, len(text)))]
    new = "<replaced>"
    assume(text.count(old) == 1 and not old.startswith("\ufeff") and new not in text)
    with tempfile.TemporaryDirectory() as folder:
        context = ToolContext(workspace=folder)
        path = Path(folder) / "file"
        path.write_bytes(before)
        try:
            edit("file", old, new, context)
            assert path.read_bytes() == text.replace(old, new).encode(encoding)
            edit("file", new, old, context)
        except Error as problem:
            # Two bytes of latin-1 can be one character of UTF-8; then the text is at two places, or another one.
            assert encoding == "latin-1", problem.reason
            return
    assert text.replace(old, new).replace(new, old) == text
