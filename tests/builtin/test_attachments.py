"""`dragoman.attach`: files, addresses and bytes as parts, and every failure in one line with the next step."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dragoman import aattach, attach
from dragoman.errors import ConfigError
from dragoman.media import MAX_BYTES
from dragoman.types import File, Image, Text

PNG = b"\x89PNG\r\n\x1a\n" + bytes(24)


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        bodies = {"/a.png": PNG, "/notes": "Grüße".encode(), "/large": bytes(MAX_BYTES + 1), "/empty": b""}
        # The type that a server claims counts only where the content says nothing.
        claims = {"/a.png": "text/plain", "/notes": "image/png", "/odd.x?v=1": "application/x-odd"}
        moves = {"/moved": "/a.png", "/round": "/round", "/private": "http://127.0.0.2:1/x", "/plain": "ftp://x"}
        if self.path in moves:
            self.send_response(302)
            self.send_header("Location", moves[self.path])
            self.end_headers()
            return
        body = bodies.get(self.path, b"\0\1\2" if self.path == "/odd.x?v=1" else None)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", claims.get(self.path, "application/octet-stream"))
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_content_decides_what_a_part_is(tmp_path: Path, site: str) -> None:
    for name, data in (("a.png", PNG), ("notes.md", b"hello\n"), ("a.pdf", b"%PDF-1"), ("a.svg", b"<svg/>")):
        (tmp_path / name).write_bytes(data)
    image = Image(data=PNG)
    note = Text("File notes.md:\n```\nhello\n```")
    assert attach(str(tmp_path / "a.png")) == attach(tmp_path / "a.png") == attach(PNG) == image
    assert attach(tmp_path / "notes.md") == note == attach(b"hello", name="notes.md")
    assert attach(tmp_path / "a.pdf") == File("a.pdf", b"%PDF-1")
    assert attach(b"%PDF-1") == File("attachment.pdf", b"%PDF-1")
    assert attach(tmp_path / "a.svg") == Text("File a.svg:\n```\n<svg/>\n```")
    assert attach(tmp_path / "a.pdf", name="b.pdf", media_type="x/y") == File("b.pdf", b"%PDF-1", None, "x/y")
    assert attach(f"data:image/png;base64,{image.data}") == image
    assert attach(f"{site}/a.png") == attach(f"{site}/moved") == image
    assert attach(f"{site}/notes") == Text("File notes:\n```\nGrüße\n```")
    assert attach(f"{site}/odd.x?v=1") == File("odd.x", b"\0\1\2", None, "application/x-odd")


def test_it_works_in_an_event_loop(site: str) -> None:
    assert asyncio.run(aattach(f"{site}/a.png")) == Image(data=PNG)


def test_every_failure_is_one_line_and_a_hint(tmp_path: Path, site: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.pdf").write_bytes(b"%PDF-1")
    (tmp_path / "empty").write_bytes(b"")
    cases: list[tuple[Any, str]] = [
        ("reprot.pdf", "there is no file 'reprot.pdf'; did you mean 'report.pdf'?"),
        ("none/at/all", "there is no file"),
        ("~/x", "~ is not expanded"),
        (tmp_path, "is a folder"),
        ("empty", "empty is empty"),
        (b"", "is empty"),
        ("a\0b", "null"),
        (5, "int cannot be attached"),
        (bytes(MAX_BYTES + 1), "is larger than 15.0 MB"),
        (f"{site}/none", "status 404"),
        (f"{site}/large", "is larger than 15.0 MB"),
        (f"{site}/empty", "is empty"),
        (f"{site}/round", "redirects more than 5 times"),
        (f"{site}/private", "cannot fetch"),
        (f"{site}/plain", "only http and https"),
        ("http://127.0.0.1:1/x", "nothing listens there"),
        ("http://user:secret@127.0.0.1/x", "credentials"),
        ("https://", "cannot fetch"),
    ]
    for source, words in cases:
        with pytest.raises(ConfigError) as caught:
            attach(source)
        said = str(caught.value)
        assert words in said and "\n" not in said and caught.value.next_step, (source, said)
        assert "secret" not in said


def test_a_redirect_may_not_lead_to_a_private_address_of_another_host(site: str) -> None:
    with pytest.raises(ConfigError, match="not fetched"):
        attach(f"{site}/private")
