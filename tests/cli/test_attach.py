"""`-a/--attach` in `run` and `chat`, and what the terminal says about images and about the bugs of a tool."""

from __future__ import annotations

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import Desk

from dragoman.cli.app import run
from dragoman.testing import Upstream, call
from dragoman.types import File, Image, Text

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big") + bytes(999)
PDF = b"%PDF-1.4\n%\xe2\xe3\0"
TOOLS = f'''
import dragoman

@dragoman.tool
def draw() -> bytes:
    """Draw."""
    return {PNG!r}

@dragoman.tool
def report() -> dragoman.File:
    """Report."""
    return dragoman.File("year.pdf", {PDF!r})

@dragoman.tool
def divide(by: int) -> float:
    """Divide."""
    return 1 / by
'''


def at(upstream: Upstream, wire: str = "custom") -> list[str]:
    model = {"custom": "custom:scripted", "ollama": "ollama:scripted"}[wire]
    return ["-m", model, "--base-url", upstream.url, "--tool-mode", "native", "--no-journal"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    (tmp_path / "photo.png").write_bytes(PNG)
    (tmp_path / "plan.pdf").write_bytes(PDF)
    (tmp_path / "notes.md").write_text("buy milk\n")
    (tmp_path / "song.ogg").write_bytes(b"OggS\0\1")
    (tmp_path / "tools.py").write_text(TOOLS)
    return tmp_path


def test_files_texts_and_standard_input_go_with_the_task(dragoman: Any, home: Path) -> None:
    with Upstream(["fine"] * 3) as upstream:
        words = ["-a", "photo.png", "--attach", "plan.pdf", "-a", str(home / "notes.md")]
        done = dragoman("run", "Compare", *at(upstream), *words)
        assert (done.code, done.out) == (0, "fine\n")
        assert "attached: [image, image/png, 640x480, 1 kB]\n" in done.err
        assert "attached: [file plan.pdf, application/pdf, 13 bytes]\n" in done.err
        dragoman("run", "What is it?", "-a", "-", *at(upstream), stdin=PNG)
        dragoman("run", "Sum up", "-a", "-", *at(upstream), stdin=b"some words")
        several, image, text = (request.messages[-1].parts for request in upstream.requests)
    picture = Image(data=base64.b64encode(PNG).decode(), media_type="image/png")
    assert several == [
        Text("Compare"),
        Text("Image photo.png:"),
        picture,
        Text("File plan.pdf:"),
        File("plan.pdf", PDF),
        Text("File notes.md:\n```\nbuy milk\n```"),
    ]
    assert image == [Text("What is it?"), Text("Image standard input:"), picture]
    assert text == [Text("Sum up"), Text("File standard input:\n```\nsome words\n```")]


def test_a_kind_of_file_that_few_models_take_is_sent_with_a_warning(dragoman: Any, home: Path) -> None:
    (home / "all.zip").write_bytes(b"PK\x03\x04aaaa")
    (home / "photo.heic").write_bytes(b"\0\0\0\x18ftypheic0000")
    with Upstream(["fine"]) as upstream:
        done = dragoman("run", "Look", *at(upstream), "-a", "all.zip", "-a", "photo.heic", "-a", "photo.png")
    assert done.code == 0
    assert "note: few models take the file all.zip (application/zip): send it as text or PDF\n" in done.err
    assert "note: few models take the image (image/heic): send it as PNG or JPEG\n" in done.err
    assert "1 kB]\n" in done.err


def test_a_pipe_that_nobody_reads_is_told(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"a change\n")
    os.close(writer)
    with Upstream(["fine"] * 3) as upstream, open(reader, encoding="utf-8") as pipe:
        monkeypatch.setattr("sys.stdin", pipe)
        told = []
        for words in ((), ("--quiet",), ("-",)):
            assert run(["run", "Review this", *words, *at(upstream)]) == 0
            told.append("standard input was not read" in capsys.readouterr().err)
    assert told == [True, False, False]
    assert upstream.requests[-1].messages[-1].parts == [Text("Review this\n\na change")]


def test_the_first_message_of_a_chat_has_the_attachments(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    (tmp_path / "photo.png").write_bytes(PNG)
    with Upstream(["a picture", "yes"]) as upstream:
        done = desk("chat", *at(upstream), "-a", "photo.png", stdin="what is it?\nreally?\n")
        assert done.code == 0, done.err
        first, second = (request.messages for request in upstream.requests)
    assert [type(part) for part in first[-1].parts] == [Text, Text, Image]
    assert [type(part) for part in second[-1].parts] == [Text] and second[0] == first[0]


def test_misuse_of_attachments_is_one_line_and_a_hint(dragoman: Any, home: Path) -> None:
    cases: list[tuple[list[str], bytes | None, str]] = [
        (["run", "x", "-a", "foto.png"], b"", "there is no file 'foto.png'; did you mean 'photo.png'?"),
        (["run", "x", "-a", "."], b"", "is a folder"),
        (["run", "x", "-a", "-"], None, "standard input is a terminal"),
        (["run", "x", "-a", "-"], b"", "standard input is empty"),
        (["run", "-", "-a", "-"], b"x", "can be read only once"),
        (["run", "x", "-a", "-", "-a", "-"], b"x", "can be read only once"),
        (["run", "-a", "-"], b"x", "there is no task"),
        (["run", "-a", "photo.png", "plan.pdf", "x"], b"", "'plan.pdf' is a file without an option"),
        (["run", "--resume", "-a", "photo.png"], b"", "takes no --attach"),
        (["run", "x", "-a", "http://127.0.0.1:1/a.png"], b"", "nothing listens there"),
        (["run", "x", "-a", "/dev/zero"], b"", "is larger than 15.0 MB"),
        (["chat", "-a", "-"], b"x", "can be read only once"),
        (["chat", "-a", "none.png"], b"x", "there is no file 'none.png'"),
    ]
    for words, stdin, message in cases:
        done = dragoman(*words, "-m", "ollama:m", "--base-url", "http://127.0.0.1:1", stdin=stdin)
        assert done.code == 2 and message in done.err and "hint: " in done.err, (words, done)
        assert len(done.err.splitlines()) == 2, done.err


def test_what_the_endpoint_cannot_take_is_refused_before_anything_is_sent(dragoman: Any, home: Path) -> None:
    with Upstream([], wire="ollama") as upstream:
        for name, words in (("plan.pdf", "the file plan.pdf"), ("song.ogg", "the recording song.ogg")):
            done = dragoman("run", "x", "-a", name, *at(upstream, "ollama"))
            assert done.code == 2 and f"cannot take {words}: this wire takes no files" in done.err, done
            assert "hint: " in done.err
        assert not upstream.bodies


def test_images_in_results_are_named_and_a_lost_one_is_reported(dragoman: Any, home: Path) -> None:
    with Upstream([call("draw"), call("report"), "fine"], wire="ollama") as upstream:
        done = dragoman("run", "go", *at(upstream, "ollama"), "--tools", "tools.py")
    assert "< [image, image/png, 640x480, 1 kB]\n" in done.err
    assert "< [file year.pdf, application/pdf, 13 bytes]\n" in done.err
    assert "note: the file year.pdf was left out: this wire takes no files\n" in done.err
    assert done.out == "fine\n"


def test_a_bug_in_a_tool_is_one_line_and_with_v_the_traceback(dragoman: Any, home: Path) -> None:
    with Upstream([call("divide", by=0), "fine"] * 3) as upstream:
        words = ["run", "go", *at(upstream), "--tools", "tools.py"]
        short, long, quiet = dragoman(*words), dragoman(*words, "-v"), dragoman(*words, "--quiet")
    assert "< error: ZeroDivisionError: division by zero\n" in short.err
    (hint,) = [line for line in short.err.splitlines() if "-v shows the traceback" in line]
    assert "tools.py" in hint and "in divide" in hint and "Traceback" not in short.err
    assert "  Traceback (most recent call last)" in long.err and "    return 1 / by" in long.err
    assert quiet.err == ""
