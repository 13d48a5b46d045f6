"""A real browser: pages of other origins read nothing from a gateway, and reach no endpoint through it."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.server import processes
from tests.server.browsers import find_command, start_browser
from tests.server.processes import Running

from dragoman.server.keys import add_key
from dragoman.testing import Upstream

PAGE = (Path(__file__).parent / "attack.html").read_bytes()
ROUTES = [
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/models",
    "/v1beta/models/m:generateContent",
    "/api/chat",
    "/api/tags",
    "/v1/embeddings",
    "/dragoman/exchanges",
    "/metrics",
    "/inspector",
    "/healthz",
    "/",
]
READABLE = {"get", "get with a key", "key in the query", "post", "post of JSON", "post with a key"}
"""What a page can read of a server that allows it."""
FOREIGN, REBOUND = "attacker.example", "rebound.example"
"""Names that the browser resolves to this machine."""
PATIENCE = 100.0


class Attacker:
    """The server of the attacker: it has the page, receives what the page read, and can let a page wait."""

    def __init__(self) -> None:
        self.start = b""
        self.reports: dict[str, dict[str, Any]] = {}
        self.expected: set[str] = set()
        self.done = threading.Event()
        self.waits = threading.Event()
        self.go_on = threading.Event()

    def receive(self, data: bytes) -> None:
        report = json.loads(data)
        self.reports[report["name"]] = report
        if self.expected <= self.reports.keys():
            self.done.set()

    def wait(self) -> None:
        self.waits.set()
        self.go_on.wait(PATIENCE)


@contextmanager
def web_server(attacker: Attacker, port: int = 0) -> Iterator[int]:
    """Serve the attacker's page. Every page may read its answers, unlike those of a gateway."""
    is_over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/wait"):
                attacker.wait()
            self._answer(attacker.start if self.path.startswith("/start") else PAGE)

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            if self.path.startswith("/report"):
                attacker.receive(data)
            self._answer(b"received")

        def do_OPTIONS(self) -> None:
            self._answer(b"")

        def _answer(self, data: bytes) -> None:
            self.close_connection = True
            if is_over.is_set():
                # A browser opens connections before it needs them.
                return
            self.send_response(200)
            self.send_header("access-control-allow-origin", "*")
            self.send_header("access-control-allow-headers", "*")
            self.send_header("content-type", "text/html; charset=utf-8")
            self.send_header("content-length", str(len(data)))
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        is_over.set()
        server.shutdown()
        server.server_close()


@contextmanager
def browser(folder: Path, url: str) -> Iterator[None]:
    """Open a page in a browser with a profile of its own."""
    rules = f"MAP {FOREIGN} 127.0.0.1, MAP {REBOUND} 127.0.0.1"
    command = find_command(folder, "--remote-debugging-port=0", f"--host-resolver-rules={rules}", url)
    with start_browser(folder, command):
        yield


def make_page(frames: list[tuple[str, dict[str, Any]]]) -> bytes:
    """The first page: it opens the attacking pages in frames. A page named `null` is in a sandbox."""
    lines = []
    for address, settings in frames:
        attributes = 'sandbox="allow-scripts allow-forms"' if settings["name"].startswith("null") else ""
        lines.append(f'<iframe {attributes} src="{address}#{quote(json.dumps(settings))}"></iframe>')
    return "".join(["<!doctype html><title>Start</title>", *lines]).encode()


def list_readable(attacker: Attacker) -> list[str]:
    """What the pages could read."""
    return [
        f"{name}: {attempt} of {target}: {seen}"
        for name, report in attacker.reports.items()
        for target, results in report["results"].items()
        for attempt, seen in results.items()
        if seen
    ]


def list_missing(log: str, *methods: str) -> list[str]:
    """The refusals that are not in the log of a gateway."""
    wanted = [f"refused {method} {route}:" for method in methods for route in ROUTES]
    return [line for line in wanted if line not in log]


@pytest.mark.needs("chromium")
def test_threat_19_a_page_of_another_origin_reaches_nothing_in_a_browser(tmp_path: Path) -> None:
    attacker = Attacker()
    (tmp_path / "open").mkdir()
    (tmp_path / "closed").mkdir()
    keys = tmp_path / "closed" / "keys.json"
    key = add_key(keys, "laptop")
    with ExitStack() as stack:
        upstream = stack.enter_context(Upstream([]))
        closed = stack.enter_context(processes.serving(tmp_path / "closed", upstream.url, "--keys", str(keys)))
        free = stack.enter_context(processes.serving(tmp_path / "open", upstream.url, "--inspector"))
        port = stack.enter_context(web_server(attacker))
        control = stack.enter_context(web_server(attacker))

        def list_urls(gateway: Running, start: int) -> list[str]:
            names = itertools.islice(itertools.cycle(("127.0.0.1", "localhost", REBOUND)), start, None)
            return [f"http://{name}:{gateway.port}{route}" for name, route in zip(names, ROUTES, strict=False)]

        common = {"key": key, "report": f"http://127.0.0.1:{port}/report", "patience": 20_000, "frames": 2}
        page, local = f"http://{FOREIGN}:{port}/page", f"http://localhost:{port}/page"
        frames = [
            (page, {**common, "name": "foreign", "urls": [*list_urls(free, 0), *list_urls(closed, 1)]}),
            (local, {**common, "name": "local", "urls": list_urls(free, 1)[:6]}),
            (page, {**common, "name": "null", "urls": list_urls(closed, 0)[:3]}),
            (page, {**common, "name": "control", "urls": [f"http://127.0.0.1:{control}/x"]}),
        ]
        attacker.expected = {settings["name"] for _, settings in frames}
        attacker.start = make_page(frames)
        with browser(tmp_path, f"http://{FOREIGN}:{port}/start"):
            assert attacker.done.wait(PATIENCE), f"only {list(attacker.reports)} reported"
        shown = attacker.reports.pop("control")["results"]
        assert {name for name, text in shown[f"http://127.0.0.1:{control}/x"].items() if text} >= READABLE, shown
        assert list_readable(attacker) == []
        assert upstream.received == []
        for gateway in (free, closed):
            log = gateway.log.read_text(encoding="utf-8")
            assert list_missing(log, "GET", "POST", "OPTIONS") == [], "not even the attempt arrived"
        # Programs are answered.
        assert processes.get(free.port, "/metrics").status == 200


@pytest.mark.needs("chromium")
def test_threat_19_a_page_whose_name_is_rebound_to_the_gateway_reaches_nothing(tmp_path: Path) -> None:
    """The page comes from the attacker. Then its name and its port lead to the gateway, which is its own origin."""
    attacker = Attacker()
    with Upstream([]) as upstream, web_server(attacker) as port:
        with ExitStack() as stack:
            own = stack.enter_context(web_server(attacker))
            origin = f"http://{REBOUND}:{own}"
            settings = {
                "name": "rebound",
                "key": "",
                "patience": 20_000,
                "frames": 2,
                "report": f"http://127.0.0.1:{port}/report",
                "wait": f"http://127.0.0.1:{port}/wait",
                "urls": [f"{origin}{route}" for route in ROUTES],
                "refusal": "is not a name of this gateway",
            }
            attacker.expected = {"rebound"}
            with browser(tmp_path, f"{origin}/page#{quote(json.dumps(settings))}"):
                assert attacker.waits.wait(PATIENCE)
                stack.close()
                with processes.serving(tmp_path, upstream.url, "--inspector", port=own) as gateway:
                    assert processes.get(own, "/healthz").status == 200
                    attacker.go_on.set()
                    assert attacker.done.wait(PATIENCE)
                    log = gateway.log.read_text(encoding="utf-8")
        assert list_readable(attacker) == []
        assert upstream.received == []
        missing = [
            (verb, route) for verb in ("GET", "POST") for route in ROUTES if f"refused {verb} {route}:" not in log
        ]
        assert not missing and REBOUND in log
