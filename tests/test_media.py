"""What bytes are: media types by content, text, dimensions, and parts made of files and bytes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pytest

from dragoman.media import (
    MAX_BYTES,
    decode_text,
    describe_size,
    find_base64_type,
    find_type,
    is_text_type,
    kind_of,
    measure,
    name_text,
    recognise,
)
from dragoman.tools.results import part_of_bytes, to_result
from dragoman.types import File, Image, Text, ToolCall

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
PDF = b"%PDF-1.4 x"
JPEG = b"\xff\xd8\xff\xe0\0\x04AB\xff\xc4\0\x05abc\xff\xc0\0\x11\x08\x01\xe0\x02\x80"
OFFICE = b"PK\x03\x04....[Content_Types].xml.."

# content, name, media type
FILES = [
    (PNG, "a.png", "image/png"),
    (JPEG, "a.png", "image/jpeg"),  # The content decides, not the name.
    (b"GIF89a" + bytes(4), "", "image/gif"),
    (b"RIFF\x10\0\0\0WEBPVP8 ", "", "image/webp"),
    (b"RIFF\x10\0\0\0WAVEfmt ", "a.webp", "audio/wav"),
    (b"RIFF\x10\0\0\0AVI LIST", "", "video/x-msvideo"),
    (b"BM" + bytes(12) + b"\x28\0\0\0", "", "image/bmp"),
    (b"BM is a text", "", "text/plain"),
    (b"II*\0" + bytes(8), "", "image/tiff"),
    (b"\0\0\0\x18ftypheic", "", "image/heic"),
    (b"\0\0\0\x18ftypM4A ", "", "audio/mp4"),
    (b"\0\0\0\x18ftypmp42", "", "video/mp4"),
    (b"\x1aE\xdf\xa3", "", "video/webm"),
    (b"ID3\x04", "a.wav", "audio/mpeg"),
    (b"\xff\xfb\x90", "", "audio/mpeg"),
    (b"OggS\0", "", "audio/ogg"),
    (b"fLaC\0", "", "audio/flac"),
    (PDF, "a.txt", "application/pdf"),
    (OFFICE + b"word/document.xml", "x", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    (OFFICE + b"xl/workbook.xml", "x", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    (b"PK\x03\x04..", "a.odt", "application/vnd.oasis.opendocument.text"),
    (b"PK\x03\x04..", "a.txt", "application/zip"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a.doc", "application/msword"),
    (b"a,b\n", "a.csv", "text/csv"),
    (b"{}", "a.json", "application/json"),
    (b"<svg/>", "a.svg", "image/svg+xml"),
    ("Grüße".encode(), "", "text/plain"),
    ("Grüße".encode("utf-16"), "a.txt", "text/plain"),
    (b"no picture", "a.png", "text/plain"),
    (b"\0\1\2", "a.png", "application/octet-stream"),
    (b"\0\1\2", "a.csv", "application/octet-stream"),
    (b"\0\1\2", "a.rtf", "application/rtf"),
    (b"\xff\xfe\0\0", "", "text/plain"),
]


def test_the_content_decides_and_the_name_where_it_leaves_that_open() -> None:
    wrong = [
        (name, content[:20], found, expected)
        for content, name, expected in FILES
        if (found := recognise(content, name)) != expected
    ]
    assert not wrong, wrong


def test_base64_data_is_recognised_like_its_bytes_and_nothing_raises() -> None:
    for content, _, _ in FILES:
        assert (find_base64_type(base64.b64encode(content[:48]).decode()) or "") == find_type(content[:48])
    for data in ("", "photo.png", "é", "A", "====", "UklGRg=="):
        assert find_base64_type(data) is None


def test_kinds_texts_and_sizes_in_words() -> None:
    kinds = {"image/png": "image", "audio/wav": "audio", "video/mp4": "video", "text/x-y": "text", None: "file"}
    kinds |= {"application/pdf": "document", "application/vnd.ms-excel": "document", "application/zip": "file"}
    kinds |= {"application/ld+json": "text", "text/plain; charset=utf-8": "text"}
    assert {kind: kind_of(kind) for kind in kinds} == kinds
    assert is_text_type("image/svg+xml") and not is_text_type("application/pdf")
    assert [describe_size(count) for count in (1, 999, 1000, 999_499, 999_500, 15_000_000)] == [
        *("1 byte", "999 bytes", "1 kB", "999 kB", "1.0 MB", "15.0 MB")
    ]
    assert decode_text(b"\xef\xbb\xbfa") == "a" and decode_text(b"a\0") is None and decode_text(b"\xff") is None


def test_a_named_text_cannot_end_its_own_fence() -> None:
    assert name_text("a.md", "x\n") == "File a.md:\n```\nx\n```"
    assert name_text('a"\nb.md', "```\nx\n```").startswith("File a' b.md:\n````\n")


def test_the_dimensions_of_images() -> None:
    webp = b"RIFF\x10\0\0\0WEBP"
    small = {
        PNG: (640, 480),
        JPEG: (640, 480),
        b"GIF89a\x80\x02\xe0\x01": (640, 480),
        webp + b"VP8X" + bytes(8) + b"\x7f\x02\0\xdf\x01\0": (640, 480),
        webp + b"VP8L" + bytes(4) + b"/" + (639 | 479 << 14).to_bytes(4, "little"): (640, 480),
        webp + b"VP8 " + bytes(10) + b"\x80\x02\xe0\x01": (640, 480),
    }
    assert {content: measure(content) for content in small} == small
    for content in small:
        for length in range(len(content)):
            assert measure(content[:length]) in (None, (640, 480))
    assert measure(b"\xff\xd8\xff" + b"\xff" * 50) is None
    assert measure(PDF) is None and measure(PNG[:16] + bytes(8)) is None


def test_parts_from_paths_and_bytes(tmp_path: Path) -> None:
    for name, data in (("a.png", PNG), ("b.pdf", PDF), ("c.bin", b"\0\1"), ("photo.jpg", PNG), ("empty", b"")):
        (tmp_path / name).write_bytes(data)
    encoded = base64.b64encode(PNG).decode()
    for path in (tmp_path / "a.png", str(tmp_path / "a.png"), tmp_path / "photo.jpg"):
        assert Image.from_path(path) == Image(data=encoded, media_type="image/png")
    assert Image(data=PNG) == Image(data=memoryview(PNG)) == Image(data=encoded, media_type="image/png")
    assert Image(data=b"?", media_type="image/x").media_type == "image/x"
    assert File.from_path(str(tmp_path / "b.pdf")) == File("b.pdf", PDF)
    assert File("a", PDF).media_type == "application/pdf"
    assert Image(data="data:image/png;base64,AAAA") == Image("data:image/png;base64,AAAA")
    assert File.from_path(tmp_path / "c.bin").media_type == "application/octet-stream"
    assert File.from_path(tmp_path / "a.png", "image/x-own").media_type == "image/x-own"
    with pytest.raises(FileNotFoundError):
        File.from_path(tmp_path / "none")
    with pytest.raises(IsADirectoryError):
        Image.from_path(tmp_path)


def test_what_is_no_image_empty_or_too_large_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "b.pdf").write_bytes(PDF)
    (tmp_path / "empty").write_bytes(b"")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(MAX_BYTES + 1)
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: Image.from_path(tmp_path / "b.pdf"), "is no image (application/pdf): use File.from_path"),
        (lambda: Image(data=PDF), "is no image, but application/pdf: use File"),
        (lambda: File.from_path(tmp_path / "empty"), "is empty"),
        (lambda: File.from_path(tmp_path / "large"), "is larger than 15.0 MB"),
        (lambda: File("a", bytes(MAX_BYTES + 1)), "is larger than 15.0 MB"),
        (lambda: Image(data=b""), "is empty"),
        (lambda: Image.from_path("https://e.example/a.png"), "is an address: dragoman.attach fetches it"),
    ]
    for make, words in cases:
        with pytest.raises(ValueError, match=r"\w") as caught:
            make()
        assert words in str(caught.value) and "\n" not in str(caught.value)


def test_bytes_that_a_tool_returns_become_what_they_are() -> None:
    call = ToolCall("c", "f", {})
    assert to_result(["See:", PDF], call).content == [Text("See:"), File("output.pdf", PDF)]
    sound = part_of_bytes(b"ID3\x04")
    assert sound == File("output.mp3", base64.b64encode(b"ID3\x04").decode(), None, "audio/mpeg")
    # No model takes TIFF images: as a file it is named, where as an image it would end the run.
    assert isinstance(part_of_bytes(b"II*\0" + bytes(8)), File)
