"""Images, documents and recordings: from bytes and files, on every wire as it takes them, or named in the report."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.types import File, Image, Message, Request
from dragoman.wire import get

WIRES = ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock", "cohere", "mistral", "ollama"]
PNG = b"\x89PNG\r\n\x1a\n 123"
PDF = b"%PDF-1.4 x"
WAV = b"RIFF....WAVE"


def prepare(wire: str, part: Any) -> tuple[str, tuple[Any, ...]]:
    prepared = get(wire).prepare(Request("claude", [Message.user("look", part)]))
    return json.dumps(prepared.body), prepared.losses


def test_bytes_become_base64_with_their_media_type() -> None:
    assert Image(data=PNG) == Image(data=base64.b64encode(PNG).decode(), media_type="image/png")
    assert File("a", PDF).media_type == "application/pdf"
    assert Image(data=b"?", media_type="image/x").media_type == "image/x"


def test_parts_from_files(tmp_path: Path) -> None:
    for name, data in (("a.png", PNG), ("b.pdf", PDF), ("c.bin", b"?")):
        (tmp_path / name).write_bytes(data)
    assert Image.from_path(tmp_path / "a.png") == Image(data=base64.b64encode(PNG).decode(), media_type="image/png")
    assert File.from_path(tmp_path / "b.pdf") == File("b.pdf", base64.b64encode(PDF).decode(), None, "application/pdf")
    assert File.from_path(tmp_path / "c.bin").media_type == "application/octet-stream"
    with pytest.raises(ValueError, match="no image"):
        Image.from_path(tmp_path / "b.pdf")
    with pytest.raises(FileNotFoundError):
        File.from_path(tmp_path / "none")


@pytest.mark.parametrize("wire", WIRES)
def test_an_image_from_bytes_is_sent_on_every_wire(wire: str) -> None:
    body, _ = prepare(wire, Image(data=PNG))
    assert base64.b64encode(PNG).decode() in body and "\\x89" not in body


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("part", [File("a.pdf", PDF), File("a.wav", WAV, None, "audio/wav")])
def test_a_file_is_sent_or_named_in_the_report(wire: str, part: File) -> None:
    body, losses = prepare(wire, part)
    assert (part.data or "") in body or losses


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("part", [Image(extra={"zz": {"file_id": "f"}}), File("", extra={"zz": {"file_id": "f"}})])
def test_the_file_id_of_another_wire_leaves_nothing_empty_behind(wire: str, part: Any) -> None:
    body, losses = prepare(wire, part)
    assert len(losses) >= 2
    assert '""' not in body and "{}" not in body


def test_recordings_on_chat_completions() -> None:
    body, losses = prepare("openai_chat", File("a.wav", WAV, None, "audio/wav"))
    assert '"input_audio": {"data": ' in body and losses == ()
    for part in (File("a.ogg", WAV, None, "audio/ogg"), File("a.pdf", None, "https://e.example/a.pdf")):
        body, (loss,) = prepare("openai_chat", part)
        assert "not available" in body and loss.rule == "dropped"
