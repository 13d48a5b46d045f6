"""Files of the hub, from a hub that runs on this machine."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.local.wheelhouse import CONTENT

from dragoman.errors import ConfigError
from dragoman.local import Store
from dragoman.local.download import read_name


class FakeHub:
    """Answers the two requests that are made of the hub."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {
            "tiny.Q4_K_M.gguf": CONTENT,
            "tiny.Q8_0.gguf": CONTENT + b"8",
            "README.md": b"x",
        }
        self.listed: dict[str, Any] = {}
        self.status = 200
        self.seen: list[tuple[str, str | None]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.answer(self)

            def log_message(self, *words: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.seen.append((handler.path, handler.headers.get("Authorization")))
        status, body, headers = self.status, b"", {}
        if status != 200:
            pass
        elif handler.path.startswith("/api/models/owner/tiny/tree/main"):
            body = json.dumps([self._list(name) for name in self.files]).encode()
        elif handler.path.startswith("/owner/tiny/resolve/main/"):
            status, headers = 302, {"Location": f"/cdn/{handler.path.rpartition('/')[2]}"}
        elif handler.path.startswith("/cdn/"):
            body = self.files[handler.path.removeprefix("/cdn/")]
        else:
            status = 404
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)

    def _list(self, name: str) -> dict[str, Any]:
        content = self.files[name]
        entry = {"path": name, "size": len(content), "lfs": {"oid": hashlib.sha256(content).hexdigest()}}
        return entry | self.listed

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    hub = FakeHub()
    monkeypatch.setenv("HF_ENDPOINT", hub.address)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield hub
    hub.close()


def test_the_usual_quantisation_is_taken_and_checked(hub: FakeHub, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    model = Store(tmp_path).add("owner/tiny", progress=lambda *step: told.append(step))
    assert (model.name, model.source) == ("tiny.q4_k_m", "owner/tiny:tiny.Q4_K_M.gguf")
    assert Path(model.path).read_bytes() == CONTENT
    assert told[-1] == ("fetching tiny.Q4_K_M.gguf", len(CONTENT), len(CONTENT))


def test_a_file_can_be_named(hub: FakeHub, tmp_path: Path) -> None:
    model = Store(tmp_path).add("owner/tiny:tiny.Q8_0.gguf", name="tiny8")
    assert (model.name, Path(model.path).read_bytes()) == ("tiny8", CONTENT + b"8")


def test_a_token_is_sent_to_the_hub(hub: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    Store(tmp_path).add("owner/tiny")
    assert {token for _, token in hub.seen} == {"Bearer hf_secret"}


@pytest.mark.parametrize(
    ("name", "status", "listed", "words"),
    [
        ("owner/other", 200, {}, "the hub has no /api/models/owner/other"),
        ("owner/tiny:none.gguf", 200, {}, "has no file 'none.gguf'"),
        ("owner/tiny", 401, {}, "denies access"),
        ("owner/tiny", 503, {}, "answered 503"),
        ("owner/tiny", 200, {"lfs": {"oid": "0" * 64}}, "is not the file that the hub lists"),
    ],
    ids=["no such repository", "no such file", "gated", "broken", "another hash"],
)
def test_a_failure_is_clear_and_leaves_nothing(
    hub: FakeHub, tmp_path: Path, name: str, status: int, listed: dict[str, Any], words: str
) -> None:
    hub.status, hub.listed = status, listed
    with pytest.raises(ConfigError) as raised:
        Store(tmp_path).add(name)
    assert words in str(raised.value)
    assert raised.value.next_step
    assert list(tmp_path.iterdir()) == []


def test_a_hub_that_cannot_be_reached_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match="cannot reach the hub"):
        Store(tmp_path).add("owner/tiny")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("owner/name", ("owner/name", "")),
        ("owner/name:dir/file.gguf", ("owner/name", "dir/file.gguf")),
        ("name", None),
        ("a/b/c", None),
    ],
)
def test_names_of_repositories(text: str, parts: tuple[str, str] | None) -> None:
    assert read_name(text) == parts
