"""Raw requests that are malformed, too large, or can be read in two ways, against a running gateway."""

from __future__ import annotations

import json
import re
import socket
from urllib.parse import urlsplit

import openai
import pytest
from tests.server.gateways import RunningGateway, gateway_to, open_openai, run_gateway, settings_for

from dragoman import wire as wires
from dragoman.errors import UnknownModel
from dragoman.server.router import Router
from dragoman.server.settings import GatewaySettings, ServerSettings, parse_settings
from dragoman.testing import Answer, Upstream

BODY = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Go."}]}).encode()
SIZE = len(BODY)
HOST = b"Host: localhost\r\n"
LINE = b"POST /v1/messages HTTP/1.1\r\n"
LENGTH = b"Content-Length: %d\r\n" % SIZE
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (SIZE, BODY)
SECOND = LINE + HOST + LENGTH + b"\r\n" + BODY
"""A complete request, which a server that reads the first one in another way would find inside it."""
LAST = SECOND.replace(HOST, HOST + b"Connection: close\r\n")
LARGEST = 10_000
_status = re.compile(rb"HTTP/1\.1 (\d{3}) ").findall

CLOSED = 0
"""The connection ends without an answer."""

REFUSED: dict[str, tuple[bytes, set[int]]] = {
    # ---- where the body ends
    "two lengths": (LINE + HOST + LENGTH + b"Content-Length: 5\r\n\r\n" + BODY, {400}),
    "two equal lengths": (LINE + HOST + LENGTH + LENGTH + b"\r\n" + BODY, {400}),
    "a list of lengths": (LINE + HOST + b"Content-Length: 5, 5\r\n\r\n" + BODY, {400}),
    "a negative length": (LINE + HOST + b"Content-Length: -1\r\n\r\n" + BODY, {400}),
    "a length with a sign": (LINE + HOST + b"Content-Length: +%d\r\n\r\n" % SIZE + BODY, {400}),
    "a hexadecimal length": (LINE + HOST + b"Content-Length: 0x10\r\n\r\n" + BODY, {400}),
    "a length in words": (LINE + HOST + b"Content-Length: ten\r\n\r\n" + BODY, {400}),
    "an empty length": (LINE + HOST + b"Content-Length:\r\n\r\n" + BODY, {400}),
    "a length beyond 64 bits": (LINE + HOST + b"Content-Length: 99999999999999999999999\r\n\r\n" + BODY, {400}),
    "a length and chunks": (LINE + HOST + LENGTH + CHUNKED + b"\r\n" + CHUNKS, {400}),
    "chunks and a length": (LINE + HOST + CHUNKED + b"Content-Length: 4\r\n\r\n" + CHUNKS + SECOND, {400}),
    "chunks twice": (LINE + HOST + CHUNKED + CHUNKED + b"\r\n" + CHUNKS, {400}),
    "chunks before another coding": (LINE + HOST + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS, {400}),
    "another coding before chunks": (LINE + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + CHUNKS, {400}),
    "a coding that is nearly chunks": (LINE + HOST + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS, {400}),
    "chunks after a vertical tab": (LINE + HOST + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNKS, {400}),
    "a hidden header of chunks": (LINE + HOST + LENGTH + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS, {400}),
    "chunks in HTTP/1.0": (LINE.replace(b"1.1", b"1.0") + HOST + CHUNKED + b"\r\n" + CHUNKS, {400}),
    # ---- chunks
    "a chunk size that is no number": (LINE + HOST + CHUNKED + b"\r\nxyz\r\n" + BODY + b"\r\n0\r\n\r\n", {400, CLOSED}),
    "a negative chunk size": (LINE + HOST + CHUNKED + b"\r\n-5\r\nhello\r\n0\r\n\r\n", {400, CLOSED}),
    "a chunk size with a prefix": (LINE + HOST + CHUNKED + b"\r\n0x5\r\nhello\r\n0\r\n\r\n", {400, CLOSED}),
    "a chunk size beyond 64 bits": (LINE + HOST + CHUNKED + b"\r\nfffffffffffffffff\r\nhello\r\n", {400, CLOSED}),
    "a chunk that is longer than its size": (LINE + HOST + CHUNKED + b"\r\n3\r\nhello\r\n0\r\n\r\n", {400, CLOSED}),
    "a chunk that ends with a line feed": (LINE + HOST + CHUNKED + b"\r\n5\nhello\n0\n\n" + SECOND, {400, CLOSED}),
    "a large extension of a chunk": (LINE + HOST + CHUNKED + b"\r\n5;" + b"x" * 900_000, {431, CLOSED}),
    "a large trailer": (LINE + HOST + CHUNKED + b"\r\n5\r\nhello\r\n0\r\nX: " + b"x" * 900_000, {431, CLOSED}),
    "a host in the trailers": (LINE + CHUNKED + b"\r\n" + CHUNKS[:-2] + HOST + b"\r\n", {400}),
    # ---- lines
    "line feeds alone": ((LINE + HOST + LENGTH + b"\r\n").replace(b"\r\n", b"\n") + BODY, {400}),
    "a carriage return alone": (LINE + b"Host: localhost\rX: y\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    "a folded header": (LINE + b"Host: localhost\r\n folded\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    "a header without a colon": (LINE + HOST + b"Nothing\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    "a header without a name": (LINE + HOST + b": x\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    "a space in the name of a header": (LINE + HOST + b"X y: z\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    "a NUL in a header": (LINE + HOST + b"X: a\x00b\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    "a NUL in the name of a header": (LINE + HOST + b"X\x00: a\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    "a NUL in the target": (LINE.replace(b"messages", b"mess\x00ages") + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "a space before the first header": (LINE + b" " + HOST + LENGTH + b"\r\n" + BODY, {400}),
    # ---- the first line
    "an unknown method": (b"BREW /v1/messages HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "TRACE": (b"TRACE /v1/messages HTTP/1.1\r\n" + HOST + b"\r\n", {400, 405}),
    "OPTIONS": (b"OPTIONS /v1/messages HTTP/1.1\r\n" + HOST + b"\r\n", {405}),
    "OPTIONS of everything": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", {400}),
    "CONNECT": (b"CONNECT evil.example:443 HTTP/1.1\r\n" + HOST + b"\r\n", {400}),
    "a target with a host": (LINE.replace(b"/v1", b"http://evil.example/v1") + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "a target with this host": (LINE.replace(b"/v1", b"http://localhost/v1") + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "a target without a slash": (b"POST v1/messages HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "a target with a fragment": (b"POST /v1/messages#x HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "a step to the parent": (b"POST /v1/x/../messages HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "a hidden step to the parent": (b"POST /v1/%2e%2e/admin HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "a hidden line break": (b"GET /v1/x%0d%0aEvil:%20y HTTP/1.1\r\n" + HOST + b"\r\n", {400}),
    "a hidden NUL": (b"GET /v1/x%00y HTTP/1.1\r\n" + HOST + b"\r\n", {400}),
    "a hidden query": (b"GET /v1/x%3fa=b HTTP/1.1\r\n" + HOST + b"\r\n", {400}),
    "a backslash": (b"GET /v1\\x HTTP/1.1\r\n" + HOST + b"\r\n", {400}),
    "another version": (b"POST /v1/messages HTTP/3.7\r\n" + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "no version": (b"POST /v1/messages\r\n" + HOST + LENGTH + b"\r\n" + BODY, {400}),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}),
    "a greeting of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 40, {400}),
    # ---- names
    "no host": (LINE + LENGTH + b"\r\n" + BODY, {400}),
    "two hosts": (LINE + HOST + b"Host: evil.example\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    "a foreign host": (LINE + b"Host: evil.example\r\n" + LENGTH + b"\r\n" + BODY, {403}),
    "two origins": (LINE + HOST + b"Origin: http://localhost\r\nOrigin: x\r\n" + LENGTH + b"\r\n" + BODY, {400, 403}),
    "two keys": (LINE + HOST + b"X-Api-Key: a\r\nX-Api-Key: b\r\n" + LENGTH + b"\r\n" + BODY, {400}),
    # ---- sizes
    "a large body": (LINE + HOST + b"Content-Length: 20000\r\n\r\n" + b"x" * 20000, {413}),
    "a large body that is announced": (LINE + HOST + b"Content-Length: 99999999999\r\n\r\n", {413}),
    "a large body in chunks": (LINE + HOST + CHUNKED + b"\r\n4e20\r\n" + b"x" * 20000 + b"\r\n0\r\n\r\n", {413}),
    "a large header": (LINE + HOST + b"X: " + b"y" * 70_000 + b"\r\n" + LENGTH + b"\r\n" + BODY, {431}),
    "a header without an end": (LINE + HOST + b"X: " + b"y" * 300_000, {431}),
    "many headers": (LINE + HOST + b"".join(b"X%d: y\r\n" % n for n in range(200)) + LENGTH + b"\r\n" + BODY, {431}),
    "a large target": (b"POST /" + b"x" * 70_000 + b" HTTP/1.1\r\n" + HOST + LENGTH + b"\r\n" + BODY, {431}),
}  # fmt: skip

WHOLE = {
    *("OPTIONS", "TRACE", "a step to the parent", "a hidden step to the parent", "a hidden line break", "a hidden NUL"),
    *("a hidden query", "a backslash", "a foreign host", "two origins", "two keys"),
}
"""The rows whose end is clear, so that the connection can go on."""


def exchange(gateway: RunningGateway, data: bytes, answers: int = 1) -> bytes:
    """Send bytes, and read this number of answers. Then end the sending side, and read until the gateway closes."""
    place = urlsplit(gateway.url)
    received = b""
    with socket.create_connection((place.hostname or "", place.port or 0), timeout=30) as client:
        try:
            client.sendall(data)
            # The end of the sending side is a disconnection, which would cancel a request that went too far.
            while received.count(b"\r\n\r\n") < answers and (piece := client.recv(65536)):
                received += piece
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(65536):
                received += piece
        except OSError as error:
            # It closed the connection while more was sent.
            assert not isinstance(error, TimeoutError), f"no answer after {received!r}"
    return received


def test_threat_20_malformed_requests_are_refused_and_reach_no_endpoint() -> None:
    settings = settings_for()
    settings = GatewaySettings(ServerSettings(port=0, most_of_a_request=LARGEST), settings.endpoints, settings.routes)
    assert len(REFUSED) >= 60
    with Upstream(["Hello."], loop=True) as upstream, gateway_to(upstream.endpoint(), settings) as gateway:
        for name, (data, expected) in REFUSED.items():
            statuses = [int(status) for status in _status(exchange(gateway, data))] or [CLOSED]
            assert len(statuses) == 1 and statuses[0] in expected, f"{name}: {statuses}, not {expected}"
            assert upstream.received == [], name
        assert _status(exchange(gateway, LAST)) == [b"200"]


def test_threat_20_what_follows_a_malformed_request_is_not_a_request() -> None:
    """A request with a clear end that is refused for its content is followed by another one; all others by nothing."""
    settings = settings_for()
    settings = GatewaySettings(ServerSettings(port=0, most_of_a_request=LARGEST), settings.endpoints, settings.routes)
    with Upstream(["Hello."], loop=True) as upstream, gateway_to(upstream.endpoint(), settings) as gateway:
        for name, (data, expected) in REFUSED.items():
            before = len(upstream.received)
            answer = exchange(gateway, data + LAST, answers=9)
            statuses = [int(status) for status in _status(answer)] or [CLOSED]
            assert statuses[0] in expected, f"{name}: {statuses}"
            goes_on = bool(answer) and b"connection: close" not in answer.partition(b"\r\n\r\n")[0]
            assert statuses[1:] == ([200] if goes_on else []), f"{name}: {statuses}"
            assert len(upstream.received) - before == goes_on, name
            assert goes_on == (name in WHOLE), name


def test_threat_20_a_request_that_does_not_end_ends_the_connection() -> None:
    """Only the gateway ends these connections; they would otherwise last for ever."""
    whole = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
    chunk = b"%x\r\n%s\r\n" % (SIZE, BODY)
    table: dict[str, tuple[bytes, list[bytes]]] = {
        "nothing": (b"", []),
        "a line": (LINE, [b"408"]),
        "half a header": (LINE + HOST + b"X: ", [b"408"]),
        "half of a second request": (whole + LINE + HOST, [b"200", b"408"]),
        "no body": (LINE + HOST + LENGTH + b"\r\n", [b"408"]),
        "half a body": (LINE + HOST + LENGTH + b"\r\n" + BODY[:-1], [b"408"]),
        "chunks without an end": (LINE + HOST + CHUNKED + b"\r\n" + chunk, [b"408"]),
        "a body that nobody reads": (LINE.replace(b"messages", b"nothing") + HOST + LENGTH + b"\r\n", [b"404"]),
        "half of a second body": (whole + LINE + HOST + LENGTH + b"\r\n" + BODY[:-1], [b"200", b"408"]),
        "a whole body": (LAST, [b"200"]),
    }
    plain = settings_for()
    settings = GatewaySettings(
        ServerSettings(port=0, head_seconds=0.1, body_seconds=0.1), plain.endpoints, plain.routes
    )
    with Upstream(["Hello."], loop=True) as upstream, gateway_to(upstream.endpoint(), settings) as gateway:
        for name, (data, statuses) in table.items():
            answer = exchange(gateway, data, answers=9)
            assert _status(answer) == statuses, (name, answer)
            if name == "half a body":
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["type"] == "error", "in the form of the wire"
        assert len(upstream.received) == 1, "no half of a request is sent on"


def test_threat_20_a_slow_answer_is_not_a_slow_request() -> None:
    """The time for a body ends with the body, and a request behind a slow one is not late."""
    plain = settings_for()
    settings = GatewaySettings(
        ServerSettings(port=0, head_seconds=0.1, body_seconds=0.1, keep_alive=0.3), plain.endpoints, plain.routes
    )
    silence = Answer(stalls=True, headers={"content-type": "text/event-stream"})
    stream = json.dumps({**json.loads(BODY), "stream": True}).encode()
    begun = LINE + HOST + b"Content-Length: %d\r\n\r\n" % len(stream) + stream
    with Upstream([silence], loop=True) as upstream, gateway_to(upstream.endpoint(), settings) as gateway:
        for behind in (b"", LINE + HOST + LENGTH + b"\r\n" + BODY[:5]):
            place = urlsplit(gateway.url)
            with socket.create_connection((place.hostname or "", place.port or 0), timeout=30) as client:
                client.sendall(begun + behind)
                received = b""
                while received.count(b"ping") < 2:
                    piece = client.recv(65536)
                    assert piece, received
                    received += piece
                assert _status(received) == [b"200"]
            assert upstream.wait_for_hangup(20), "the request that ran is cancelled, also if another one is behind it"


TRICKS = (
    *(b"//evil.example/x", b"/@evil.example/x", b"/v1@evil.example", b"/:80@evil.example", b"/http://evil.example/"),
    *(b"/v1/embeddings%2f..%2fadmin", b"/v1/embeddings/%2e%2e/admin", b"/v1/embeddings/..;/admin", b"/v1/%252e%252e/x"),
    *(b"/v1%2fembeddings", b"/v1/embeddings%20", b"/v1/embeddings%3fa", b"/v1/embeddings;x=1", b"/v1/embeddings/x"),
    *(b"/v1/./embeddings", b"/v1/%2e/embeddings", b"/v1/embeddings%00", b"/v1/embeddings.", b"/v1/Embeddings"),
    *(b"/v1beta/models/a%2f..%2fb:embedContent", b"/v1beta/models/a;b:embedContent"),
    b"/v1beta/models/a%2fb:embedContent",
    *(b"/v1beta/models/%2e%2e:embedContent", b"/v1beta/models/..%2f..%2fx:predict", b"/v1beta/models/a:embedContent/x"),
    *(b"/v1/files", b"/v1/fine_tuning/jobs", b"/api/pull", b"/api/delete", b"/api/create"),
    *(b"/v1/messages/batches", b"/v1/responses/resp_1", b"/v1/organization/api_keys", b"/v1/load_lora_adapter"),
    *(b"/admin", b"/shutdown", b"/metrics/x", b"/v1/%c3%a9", b"/flush_cache", b"/upload?x=%0d%0ay", b"/props"),
)  # fmt: skip


def test_threat_19_only_the_listed_paths_reach_an_endpoint() -> None:
    vectors = Answer(200, {"content-type": "application/json"}, {"data": []})
    end = b" HTTP/1.1\r\nConnection: close\r\n" + HOST + b"Content-Length: 2\r\n\r\n{}"
    for wire in ("openai_chat", "gemini", "ollama"):
        with Upstream([vectors], wire=wire, loop=True) as upstream, gateway_to(upstream.endpoint()) as gateway:
            for path in TRICKS:
                for method in (b"POST ", b"GET ", b"DELETE ") if wire == "openai_chat" else (b"POST ",):
                    answer = exchange(gateway, method + path + end, answers=9)
                    if method == b"GET " and b"/models/" in path:
                        continue  # A name of a model, which may contain anything, and which the gateway answers itself.
                    assert _status(answer)[0] in (b"400", b"404", b"405"), (method, path, answer)
                    assert b"error" in answer, (method, path)
            assert upstream.received == []
            # The beginning and the end of a base URL are often written twice.
            for path in (b"/v1/embeddings", b"//v1//embeddings/", b"/v1/v1/embeddings", b"/embeddings", b"/api/embed"):
                exchange(gateway, b"POST " + path + b"?x=1" + end, answers=9)
            exchange(gateway, b"POST /v1beta/models/m:embedContent" + end, answers=9)
            seen = {"openai_chat": ["/v1/embeddings?x=1"] * 4, "ollama": ["/api/embed?x=1"]}
            seen["gemini"] = ["/models/m:embedContent"]
            targets = [received.target.removeprefix("/v1") for received in upstream.received]
            assert targets == [target.removeprefix("/v1") for target in seen[wire]]


def test_threat_19_a_relayed_path_is_plain() -> None:
    """A route that changes nothing passes the path of a Gemini client on, with a model in it."""
    with Upstream(["Hello."], wire="gemini", loop=True) as upstream:
        with gateway_to(upstream.endpoint(), settings_for(profile="passthrough")) as gateway:
            for name, status in ((b"m", b"200"), (b"a;b", b"404"), (b"a%2525b", b"404"), (b"a%20b", b"404")):
                data = b"POST /v1beta/models/" + name + b":generateContent HTTP/1.1\r\nConnection: close\r\n" + HOST
                body = b'{"contents": [{"parts": [{"text": "Go."}]}]}'
                answer = exchange(gateway, data + b"Content-Length: %d\r\n\r\n" % len(body) + body, answers=9)
                assert _status(answer) == [status], (name, answer)
        assert [received.target for received in upstream.received] == ["/v1/models/m:generateContent"]


ELSEWHERE = ["../../v1/files", "m/../../admin", "..", ".", "m\\..\\x", "models/../x"]
ODD_NAMES = {"m?x=1": "m%3Fx%3D1", "m#f": "m%23f", "a\r\nX-Evil: 1": "a%0D%0AX-Evil:%201", "m%2f..": "m%252f.."}


def test_threat_19_the_name_of_a_model_leads_to_no_other_path_of_an_endpoint() -> None:
    """Some wires have the model in the path, and the request has the key of the endpoint."""
    with Upstream(["Here."] * 4, wire="gemini") as upstream:
        settings = parse_settings(f'[endpoints.e]\nurl = "{upstream.url}"\nwire = "gemini"\n[[routes]]\nto = "e"')
        with run_gateway(lambda transport: Router(settings, transport=transport)) as gateway:
            for name in ELSEWHERE:
                with pytest.raises(openai.NotFoundError, match="unknown model"):
                    ask_model(gateway.url, name)
            assert upstream.received == []
            for name, path in ODD_NAMES.items():
                assert ask_model(gateway.url, name) == "Here."
                assert upstream.received[-1].target.endswith(f"/models/{path}:generateContent")
    for wire in ("bedrock", "gemini"):
        with pytest.raises(UnknownModel):
            wires.get(wire).endpoint("..")


def ask_model(url: str, name: str) -> str | None:
    with open_openai(url) as client:
        made = client.chat.completions.create(model=name, messages=[{"role": "user", "content": "Go."}])
        return made.choices[0].message.content


def test_threat_20_every_request_of_a_connection_is_answered_once_and_in_order() -> None:
    with Upstream(["Hello."], loop=True) as upstream, gateway_to(upstream.endpoint()) as gateway:
        table = {
            "two in one piece": (SECOND + LAST, 2),
            "one in a body of another": (
                LINE + HOST + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(SECOND) + SECOND, 0,
            ),
            "a host and a page in the trailers": (
                LINE + HOST + b"Connection: close\r\n" + CHUNKED + b"\r\n" + CHUNKS[:-2]
                + b"Host: evil.example\r\nOrigin: https://evil.example\r\n\r\n", 1,
            ),
            "one after the last": (LAST + SECOND, 1),
            "one after an announced end of chunks": (
                LINE + HOST + b"Connection: close\r\n" + CHUNKED + b"\r\n" + CHUNKS + SECOND, 1,
            ),
            "an offer of another protocol": (
                LINE + HOST + b"Connection: close, Upgrade\r\nUpgrade: h2c\r\n" + LENGTH + b"\r\n" + BODY + LAST, None,
            ),
        }  # fmt: skip
        for name, (data, reached) in table.items():
            before = len(upstream.received)
            answer = exchange(gateway, data, answers=9)
            seen = len(upstream.received) - before
            assert seen == (reached if reached is not None else min(seen, 1)), f"{name}: {seen}, {answer!r}"
