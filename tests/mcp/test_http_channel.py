"""Streamable HTTP with a scripted server: sessions, streams, and wrong answers."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from msgspec.structs import replace
from tests.mcp.toolboxes import QUICK, call, open_toolbox, wait_until

from dragoman.mcp import HttpServer, Toolbox

JSON = {"Content-Type": "application/json"}
STREAM = {"Content-Type": "text/event-stream"}
Reply = tuple[int, dict[str, str], str]
Respond = Callable[[str, dict[str, Any], dict[str, str]], Reply | None]


class Script:
    """A scripted server. It answers as usual unless `respond` returns an answer, and records the requests."""

    def __init__(self, respond: Respond | None = None) -> None:
        self.respond = respond
        self.seen: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.sessions = 0

    def methods(self) -> list[str]:
        return [f"{verb} {message.get('method', '')}".strip() for verb, message, _ in self.seen]

    def answer(self, verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply:
        self.seen.append((verb, message, headers))
        special = self.respond(verb, message, headers) if self.respond is not None else None
        if special is not None:
            return special
        if verb != "POST":
            return 405, {}, ""
        method, identity = message.get("method"), message.get("id")
        if identity is None:
            return 202, {}, ""
        if method == "initialize":
            self.sessions += 1
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {}}
            return 200, {**JSON, "Mcp-Session-Id": f"session-{self.sessions}"}, answer(identity, result)
        if method == "tools/list":
            return 200, JSON, answer(identity, {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        if method == "tools/call":
            return 200, JSON, answer(identity, text(message["params"]["arguments"].get("text", "")))
        return 200, JSON, json.dumps({"jsonrpc": "2.0", "id": identity, "error": {"code": -32601, "message": "what?"}})


def answer(identity: Any, result: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": identity, "result": result})


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}


@contextmanager
def serve(script: Script) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            message = json.loads(self.rfile.read(length)) if length else {}
            status, headers, body = script.answer(
                self.command, message, {k.lower(): v for k, v in self.headers.items()}
            )
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body.encode())))
            self.end_headers()
            self.wfile.write(body.encode())

        do_POST = do_GET = do_DELETE = handle_one

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is logged."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def opened(respond: Respond | None = None, headers: dict[str, str] | None = None) -> Iterator[tuple[Toolbox, Script]]:
    script = Script(respond)
    with serve(script) as url, open_toolbox(HttpServer("web", url, headers or {})) as toolbox:
        yield toolbox, script


def test_a_session_carries_its_name_and_its_protocol_and_is_ended() -> None:
    with opened(headers={"Authorization": "Bearer sk-secret"}) as (toolbox, script):
        assert call(toolbox, "echo", text="hello").content == "hello"
        wait_until(lambda: "GET" in script.methods())
    sent = {method: headers for method, (_, _, headers) in zip(script.methods(), script.seen, strict=True)}
    assert set(sent) == {
        *("POST server/discover", "POST initialize", "POST notifications/initialized"),
        *("GET", "POST tools/list", "POST tools/call", "DELETE"),
    }
    for method, headers in sent.items():
        assert headers["authorization"] == "Bearer sk-secret"
        if method not in ("POST server/discover", "POST initialize"):
            assert headers["mcp-session-id"] == "session-1"
            assert headers["mcp-protocol-version"] == "2025-06-18"


def test_a_session_that_the_server_forgot_is_opened_again_once() -> None:
    def forget(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        is_old = headers.get("mcp-session-id") == "session-1"
        return (404, {}, "") if message.get("method") == "tools/call" and is_old else None

    with opened(forget) as (toolbox, script):
        assert call(toolbox, "echo", text="hello").content == "hello"
        assert script.sessions == 2
        assert script.methods().count("POST tools/call") == 2


def test_a_server_that_forgets_every_session_is_not_asked_for_ever() -> None:
    def forget(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        return (404, {}, "") if message.get("method") == "tools/call" else None

    with opened(forget) as (toolbox, script):
        assert "the server has dropped the session" in call(toolbox, "echo").content
        assert script.methods().count("POST tools/call") == 2


def test_an_answer_may_come_in_a_stream_among_other_messages() -> None:
    def stream(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        if message.get("method") != "tools/call":
            return None
        events = [
            ": hello\n\n",
            "event: message\ndata: " + json.dumps({"jsonrpc": "2.0", "method": "notifications/message"}) + "\n\n",
            "data: " + json.dumps({"jsonrpc": "2.0", "id": "s1", "method": "sampling/createMessage"}) + "\n\n",
            "data: " + answer(99999, text("not yours")) + "\n\n",
            "data: " + answer(message["id"], text("yours")) + "\n\n",
        ]
        return 200, STREAM, "".join(events)

    with opened(stream) as (toolbox, script):
        assert call(toolbox, "echo").content == "yours"
        wait_until(lambda: any(message.get("id") == "s1" for _, message, _ in script.seen))
        (reply,) = (message for _, message, _ in script.seen if message.get("id") == "s1")
        assert reply["error"]["code"] == -32601


def test_a_stream_that_breaks_off_is_taken_up_where_it_ended() -> None:
    asked: list[Any] = []

    def break_off(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        if message.get("method") == "tools/call":
            asked.append(message["id"])
            return 200, STREAM, "id: 7\ndata:\n\n"
        if verb == "GET" and headers.get("last-event-id") == "7":
            return 200, STREAM, "data: " + answer(asked[0], text("late")) + "\n\n"
        return None

    with opened(break_off) as (toolbox, _):
        assert call(toolbox, "echo").content == "late"
        assert len(asked) == 1


REDIRECT = {"Location": "https://evil.example/mcp?token=1"}
WRONG = [
    ((307, REDIRECT, ""), "the server redirects to https://evil.example/mcp; use that URL"),
    ((401, {}, ""), "denies access (status 401)"),
    ((500, {}, "Bearer sk-secret"), "the server answered with status 500"),
    ((202, {}, ""), "will not answer it"),
    ((200, {"Content-Type": "text/html"}, "<html>"), "'text/html' instead of JSON"),
    ((200, JSON, "{"), "invalid message"),
    ((200, JSON, '{"jsonrpc": "2.0", "id": 4711, "result": {}}'), "a request that was not sent"),
    ((200, JSON, "[" * 5000), "invalid message"),
    ((200, JSON, " " * 1_000_001), "more than 1000000 bytes"),
    ((200, STREAM, "data: " + "x" * 1_000_001 + "\n\n"), "more than 1000000 bytes"),
    ((200, STREAM, ""), "ended its stream before the answer"),
    (
        (400, JSON, '{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "sk-secret is wrong"}}'),
        "[redacted]",
    ),
]


@pytest.mark.parametrize(("reply", "words"), WRONG, ids=[words for _, words in WRONG])
def test_an_answer_that_is_wrong_is_an_error_that_shows_no_secret(reply: Reply, words: str) -> None:
    def respond(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        return reply if message.get("method") == "tools/call" else None

    with opened(respond, {"Authorization": "Bearer sk-secret"}) as (toolbox, script):
        result = call(toolbox, "echo", text="x")
        assert result.is_error
        assert words in result.content
        assert "sk-secret" not in f"{result} {toolbox.problems}"
        script.respond = None
        assert call(toolbox, "echo", text="again").content == "again"


def test_a_redirect_is_not_followed_with_our_headers() -> None:
    trap = Script()
    with serve(trap) as elsewhere:

        def respond(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
            return 307, {"Location": elsewhere}, ""

        with opened(respond, {"Authorization": "Bearer sk-secret"}) as (toolbox, _):
            assert toolbox.tools == []
            assert "redirects to" in toolbox.problems[0]
        assert trap.seen == []


def test_results_hold_what_can_be_shown_and_name_what_cannot() -> None:
    content = [
        {"type": "text", "text": "half \ud800"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "image", "data": "no base64!", "mimeType": "image/png"},
        {"type": "image", "data": "aGVsbG8=", "mimeType": "text/html"},
        {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
        {"type": "resource_link", "uri": "note://a\u202e", "name": "a"},
        {"type": "resource", "resource": {"uri": "note://b", "text": "inside"}},
        {"type": "resource", "resource": {"uri": "note://c", "blob": "aGVsbG8=", "mimeType": "application/pdf"}},
        {"type": "hologram\x1b[2J"},
        "nothing",
    ]

    def respond(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        result = {"content": content, "structuredContent": {"n": 1}, "isError": True}
        return (200, JSON, answer(message["id"], result)) if message.get("method") == "tools/call" else None

    with opened(respond) as (toolbox, _):
        result = call(toolbox, "echo")
    shown = [getattr(part, "text", None) or type(part).__name__ for part in result.content]
    assert shown == [
        "half \ufffd",
        "Image",
        "[an image that cannot be read, left out]",
        "[an image that cannot be read, left out]",
        "File",
        "[link to a resource: a, note://a]",
        "inside",
        "File",
        "[a part of the unknown kind 'hologram', left out]",
        "[a part that is no object, left out]",
    ]
    assert (result.is_error, result.data) == (True, {"n": 1})


def test_more_parts_than_anybody_reads_are_counted() -> None:
    def respond(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        result = {"content": [{"type": "text", "text": "x"}] * 5}
        return (200, JSON, answer(message["id"], result)) if message.get("method") == "tools/call" else None

    with (
        serve(Script(respond)) as url,
        open_toolbox(HttpServer("web", url), limits=replace(QUICK, result_parts=3)) as toolbox,
    ):
        assert call(toolbox, "echo").content == "x\nx\nx\n[2 more parts left out]"
