"""Who may use a gateway: keys, names, origins and limits, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import select
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types
from msgspec.structs import replace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.server.gateways import FixedServer, RunningGateway, run_gateway, settings_for
from tests.server.test_gateway import CHAT, PATHS, send

from dragoman import providers
from dragoman.errors import ConfigError
from dragoman.pipeline import Report
from dragoman.server.access import Access, open_access
from dragoman.server.keys import ClientKey, KeyLimits, KeyRing, add_key, read_keys, revoke_key
from dragoman.server.quotas import Permit, Quotas, Sent
from dragoman.server.router import Router
from dragoman.server.settings import GatewaySettings, ServerSettings, parse_settings
from dragoman.telemetry.exchanges import Spans
from dragoman.testing import Answer, Upstream
from dragoman.types import Failure, Message, Request, Usage

ROUTES = (
    *(("POST", path) for path in PATHS),
    ("GET", "/"),
    ("HEAD", "/"),
    ("HEAD", "/healthz"),
    ("POST", "/healthz"),
    ("GET", "/metrics"),
    ("GET", "/v1/models"),
    ("GET", "/v1beta/models"),
    ("GET", "/v1/models/m"),
    ("GET", "/api/tags"),
    ("GET", "/api/ps"),
    ("GET", "/api/version"),
    ("POST", "/api/show"),
    ("POST", "/v1/messages/count_tokens"),
    ("POST", "/v1beta/models/m:countTokens"),
    ("GET", "/dragoman/exchanges"),
    ("GET", "/dragoman/exchanges/ex_0"),
    ("POST", "/v1/embeddings"),
    ("DELETE", "/v1/files/f"),
    ("GET", "/nothing"),
)
BODY = {**CHAT, "max_tokens": 9, "stream": False, "input": "Go.", "contents": [{"parts": [{"text": "Go."}]}]}


@contextmanager
def guarded(
    upstream: Upstream, keys: Path | None = None, settings: GatewaySettings | None = None, quotas: Quotas | None = None
) -> Iterator[RunningGateway]:
    """Run a gateway whose clients need the keys of a file."""
    settings = settings or settings_for()
    servers: Any = {"only": FixedServer(upstream.endpoint())}
    with run_gateway(lambda transport: Router(settings, servers=servers, transport=transport)) as gateway:
        gateway.gateway.access = Access(settings.gateway, KeyRing(keys), quotas)
        yield gateway


def test_threat_19_no_route_answers_without_a_key(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "laptop")
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream, tmp_path / "keys") as gateway:
        for method, path in ROUTES:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": key[:-1]}, {"cookie": key}):
                status, _, data = send(gateway, method, path, BODY if method == "POST" else None, **headers)
                assert status == 401, f"{method} {path} {headers}: {status}"
                if method != "HEAD":
                    assert "error" in json.loads(data), path
        assert upstream.received == []
        for path in ("/healthz", "/readyz"):
            status, _, data = send(gateway, "GET", path)
            assert status == 200 and list(json.loads(data)) == ["status"], path
        for path in PATHS:
            assert send(gateway, "POST", path, BODY, **{"x-api-key": key})[0] == 200, path


def test_each_client_sends_its_key_in_its_own_place_and_reads_the_refusal(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "laptop")
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream, tmp_path / "keys") as gateway:
        places: list[tuple[str, dict[str, str]]] = [
            ("", {"authorization": f"Bearer {key}"}),
            ("", {"authorization": f"bearer  {key} "}),
            ("", {"x-api-key": key}),
            ("", {"x-goog-api-key": key}),
            ("", {"x-dragoman-key": key, "authorization": "Bearer other"}),
            ("", {"x-api-key": "other", "authorization": f"Bearer {key}"}),
            (f"?key={key}", {}),
            (f"?alt=json&key={key}", {"x-goog-api-client": "x"}),
        ]
        for query, headers in places:
            status = send(gateway, "POST", f"/v1beta/models/m:generateContent{query}", BODY, **headers)[0]
            assert status == 200, (query, headers)
        assert send(gateway, "POST", f"/v1beta/models/m:generateContent?key={key}&key=x", BODY)[0] == 401

        with pytest.raises(openai.AuthenticationError, match="not known here"):
            openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="k", max_retries=0).models.list()
        with pytest.raises(anthropic.AuthenticationError, match="not known here"):
            anthropic.Anthropic(base_url=gateway.url, api_key="k", max_retries=0).messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "Go."}]
            )
        with (
            genai.Client(api_key="k", http_options=types.HttpOptions(base_url=gateway.url)) as client,
            pytest.raises(errors.ClientError, match="UNAUTHENTICATED"),
        ):
            client.models.generate_content(model="m", contents="Go.")
        status, _, data = send(gateway, "POST", "/api/chat", BODY)
        assert (status, json.loads(data)) == (401, {"error": "this gateway needs a key"})


def test_threat_19_the_key_of_a_client_goes_to_no_endpoint_and_into_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = add_key(tmp_path / "keys", "laptop")
    with Upstream(["Hello."], loop=True) as upstream, caplog.at_level(logging.INFO, "dragoman.server"):
        row = f'[endpoints.e]\nurl = "{upstream.url}"\nwire = "openai_chat"\nmodel = "m"\nforward_login = true\n'
        settings = parse_settings(f'{row}[[routes]]\nto = "e"')
        with run_gateway(lambda transport: Router(settings, transport=transport)) as gateway:
            gateway.gateway.access = Access(settings.gateway, KeyRing(tmp_path / "keys"))
            for path in (*PATHS, "/v1/embeddings"):
                for query, headers in (
                    ("", {"authorization": f"Bearer {key}"}),
                    ("", {"x-api-key": key, "authorization": "Bearer theirs"}),
                    ("", {"x-api-key": key, "authorization": f"Bearer {key}", "x-goog-api-key": key}),
                    (f"?key={key}", {"x-api-key": key}),
                    (f"?%6bey={key}", {"x-dragoman-key": key}),
                    (f"?key={key}&a=b", {}),
                ):
                    send(gateway, "POST", path + query, {**BODY, "model": f"m {key}"}, **headers)
            send(gateway, "POST", f"/{key}", BODY)
            logins = [received.headers.get("authorization", "") for received in upstream.received]
            assert any("theirs" in login for login in logins), "a login of its own is forwarded"
            for received in upstream.received:
                assert key not in f"{received.target}{received.headers}", received.target
        assert "refused" in caplog.text and key not in caplog.text


def test_a_client_sees_the_reports_of_its_own_exchanges(tmp_path: Path) -> None:
    one, two = (add_key(tmp_path / "keys", name) for name in ("one", "two"))
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream, tmp_path / "keys") as gateway:
        _, headers, _ = send(gateway, "POST", "/v1/messages", BODY, **{"x-api-key": one})
        path = f"/dragoman/exchanges/{headers['x-dragoman-exchange']}"
        assert send(gateway, "GET", path, **{"x-api-key": one})[0] == 200
        assert send(gateway, "GET", path, **{"x-api-key": two})[0] == 404
        assert json.loads(send(gateway, "GET", "/dragoman/exchanges", **{"x-api-key": two})[2]) == {"exchanges": []}


def test_keys_are_stored_as_digests_in_a_private_file_and_can_be_revoked(tmp_path: Path) -> None:
    path = tmp_path / "state" / "keys"
    key, other = add_key(path, "laptop"), add_key(path, "phone")
    assert key != other and len(key) > 40
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert key not in path.read_text(encoding="utf-8")
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream, path) as gateway:

        def status(sent: str) -> int:
            return send(gateway, "POST", "/v1/messages", BODY, **{"x-api-key": sent})[0]

        assert (status(key), status(other)) == (200, 200)
        revoke_key(path, "laptop")
        assert (status(key), status(other)) == (401, 200), "at once"
        third = add_key(path, "laptop")
        assert (status(key), status(third)) == (401, 200)
        path.write_text("{", encoding="utf-8")
        assert (status(third), status(other)) == (200, 200), "a broken file changes nothing"
        path.unlink()
        assert (status(third), status(other), send(gateway, "GET", "/v1/models")[0]) == (401, 401, 401), "still on"


def test_the_first_key_of_a_running_gateway_closes_it(tmp_path: Path) -> None:
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream, tmp_path / "keys") as gateway:
        assert send(gateway, "POST", "/v1/messages", BODY)[0] == 200
        key = add_key(tmp_path / "keys", "laptop")
        assert send(gateway, "POST", "/v1/messages", BODY)[0] == 401
        assert send(gateway, "POST", "/v1/messages", BODY, **{"x-api-key": key})[0] == 200


def test_an_expired_key_is_refused(tmp_path: Path) -> None:
    path, now = tmp_path / "keys", datetime.now(UTC)
    old = add_key(path, "old", expires=now - timedelta(days=1), now=now - timedelta(days=2))
    new = add_key(path, "new", expires=now + timedelta(days=1))
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream, path) as gateway:
        assert send(gateway, "GET", "/v1/models", **{"x-api-key": new})[0] == 200
        for query, headers in (("", {"x-api-key": old}), (f"?key={old}", {})):
            assert send(gateway, "GET", f"/v1/models{query}", **headers)[0] == 401
    for name, end in (("a b", None), ("", None), ("../x", None), ("new", None), ("late", now)):
        with pytest.raises(ConfigError):
            add_key(path, name, expires=end, now=now)
    with pytest.raises(ConfigError, match="there is no key"):
        revoke_key(path, "nobody")


def test_a_gateway_listens_elsewhere_only_with_keys(tmp_path: Path) -> None:
    where = {"XDG_STATE_HOME": str(tmp_path)}
    for host in ("0.0.0.0", "::", "192.168.1.5", "gpu-box"):
        for keys in (None, True, False, str(tmp_path / "other")):
            with pytest.raises(ConfigError):
                open_access(ServerSettings(host, keys=keys), where)
    for keys in (True, str(tmp_path / "other")):
        with pytest.raises(ConfigError) as raised:
            open_access(ServerSettings(keys=keys), where)
        assert "serve keys add" in raised.value.next_step
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        assert not open_access(ServerSettings(host), where).needs_keys
    add_key(tmp_path / "dragoman" / "gateway-keys.json", "laptop")
    for host in ("127.0.0.1", "0.0.0.0"):
        assert open_access(ServerSettings(host), where).needs_keys
    assert not open_access(ServerSettings(keys=False), where).needs_keys
    assert open_access(ServerSettings("0.0.0.0"), {"DRAGOMAN_GATEWAY_KEY": "sk-" + "7" * 20}).needs_keys
    for key in ("short", "with a blank in it, and long", "é" * 30):
        with pytest.raises(ConfigError, match="is not a key"):
            open_access(ServerSettings("0.0.0.0"), {"DRAGOMAN_GATEWAY_KEY": key})
    with pytest.raises(ConfigError, match="others can use"):
        open_access(ServerSettings("0.0.0.0", keys=False), where)
    (tmp_path / "dragoman" / "gateway-keys.json").chmod(0o644)
    with pytest.raises(ConfigError, match="other users"):
        open_access(ServerSettings(), where)


# ---- names and origins -----------------------------------------------------------------------------------------------


def test_threat_19_a_name_that_is_not_the_gateways_is_refused() -> None:
    """A page whose name was rebound to this machine sends its own name."""
    settings = settings_for()
    own = ServerSettings(port=0, hosts=["gateway.example"])
    with Upstream(["Hello."], loop=True) as upstream:
        settings = GatewaySettings(own, settings.endpoints, settings.routes)
        with guarded(upstream, settings=settings) as gateway:
            port = urlsplit(gateway.url).port
            table = {
                "localhost": 200,
                f"LOCALHOST:{port}": 200,
                "localhost.": 200,
                "127.0.0.1": 200,
                "127.0.0.2:99": 200,
                "[::1]:4000": 200,
                "gateway.example": 200,
                "Gateway.Example:80": 200,
                "evil.example": 403,
                "localhost.evil.example": 403,
                "127.0.0.1.evil.example": 403,
                "evil.localhost": 403,
                "192.168.1.5": 403,
                "169.254.169.254": 403,
                "0.0.0.0": 403,
                "127.1": 403,
                "2130706433": 403,
                "": 400,
                "localhost:evil": 400,
                "user@localhost": 400,
                "localhost evil.example": 400,
                "localhost,evil.example": 400,
                "localhost/evil": 400,
                "[::1": 400,
            }
            for host, expected in table.items():
                status, headers, _ = send(gateway, "POST", "/v1/messages", BODY, host=host)
                assert status == expected, f"{host!r}: {status}"
                assert not any(name.startswith("access-control") for name in headers)
            assert len(upstream.received) == sum(expected == 200 for expected in table.values())


def test_at_every_address_of_the_machine_addresses_are_names_and_others_are_not() -> None:
    access = Access(ServerSettings("0.0.0.0", hosts=["gateway.example"]))
    assert access.needs_keys
    for name, known in {"10.0.0.7": True, "fe80::1": True, "gateway.example": True, "evil.example": False}.items():
        assert access._knows(name) is known, name


def test_threat_19_a_web_page_of_another_origin_reaches_nothing() -> None:
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream) as gateway:
        host = urlsplit(gateway.url).netloc
        foreign = (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": ""},
            {"origin": f"http://{host}.evil.example"},
            {"origin": "http://localhost:3000"},
            {"origin": f"{gateway.url}/"},
            {"origin": "file://"},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": gateway.url, "sec-fetch-site": "cross-site"},
        )
        for headers in foreign:
            for method, path in ROUTES:
                more = {"content-type": "text/plain"} if method == "POST" else {}
                status, got, _ = send(gateway, method, path, BODY if method == "POST" else None, **headers, **more)
                assert status == 403, f"{headers} {method} {path}: {status}"
                assert not any(name.startswith("access-control") for name in got)
            for asked in ("POST", "GET"):
                preflight = {"access-control-request-method": asked, "access-control-request-headers": "x-api-key"}
                status, got, _ = send(gateway, "OPTIONS", "/v1/messages", **headers, **preflight)
                assert status in (403, 405)
                assert not any(name.startswith("access-control") for name in got)
        assert upstream.received == []
        for headers in ({"origin": gateway.url}, {"sec-fetch-site": "none"}, {"sec-fetch-site": "same-origin"}):
            assert send(gateway, "GET", "/v1/models", **headers)[0] == 200


ALLOWED = ("http://localhost:3000", "https://app.example", "vscode-webview://1a2b")


def test_pages_of_the_listed_origins_use_the_gateway_from_a_browser(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "page")
    plain = settings_for()
    own = ServerSettings(port=0, origins=["http://LOCALHOST:3000", "https://app.example:443", "vscode-webview://1a2b"])
    settings = GatewaySettings(own, plain.endpoints, plain.routes)
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "content-type,x-api-key"}
    page = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream, tmp_path / "keys", settings) as gateway:
        for origin in ALLOWED:
            for path in (*PATHS, "/v1/models", "/v1/nothing"):
                status, got, data = send(gateway, "OPTIONS", path, origin=origin, **page, **asked)
                assert (status, data, got["access-control-allow-origin"]) == (204, b"", origin), (origin, path)
                assert got["access-control-allow-headers"] == asked["access-control-request-headers"]
                assert "POST" in got["access-control-allow-methods"] and "origin" in got["vary"]
                assert (
                    "access-control-allow-credentials" not in got and "access-control-allow-private-network" not in got
                )
            for stream in (False, True):
                sent = {**BODY, "stream": stream}
                status, got, _ = send(
                    gateway, "POST", "/v1/messages", sent, origin=origin, **page, **{"x-api-key": key}
                )
                assert (status, got["access-control-allow-origin"]) == (200, origin)
                assert "x-dragoman-exchange" in got["access-control-expose-headers"]
            # The page has to have a key, and can read why it is refused.
            status, got, _ = send(gateway, "POST", "/v1/messages", BODY, origin=origin, **page)
            assert (status, got["access-control-allow-origin"]) == (401, origin)
        private = {"access-control-request-private-network": "true"}
        _, got, _ = send(gateway, "OPTIONS", "/v1/messages", origin=ALLOWED[0], **asked, **private)
        assert got["access-control-allow-private-network"] == "true"
        before = len(upstream.received)
        others = (
            "http://localhost:3001",
            "https://localhost:3000",
            "https://app.example.evil",
            "http://app.example",
            "null",
        )
        for origin in (*others, "https://evil.example", "https://xapp.example", f"{ALLOWED[0]}/", f"{ALLOWED[0]} "):
            for method in ("OPTIONS", "POST"):
                status, got, _ = send(
                    gateway, method, "/v1/messages", BODY, origin=origin, **asked, **{"x-api-key": key}
                )
                if origin.strip() != ALLOWED[0]:
                    assert status in (403, 405) and "access-control-allow-origin" not in got, (origin, method)
        # A page whose name was rebound to this machine, a preflight that is none, and words that are no headers.
        table: list[tuple[str, dict[str, str], int]] = [
            ("OPTIONS", {"host": "evil.example", **asked}, 403),
            ("POST", {"host": "evil.example", "x-api-key": key}, 403),
            ("OPTIONS", {}, 405),
            ("OPTIONS", {**asked, "access-control-request-headers": "x\ty: z"}, 400),
        ]
        for method, headers, expected in table:
            status, _, _ = send(gateway, method, "/v1/messages", BODY, origin=ALLOWED[0], **headers)
            assert status == expected, (method, headers, status)
        assert len(upstream.received) <= before + 1


def test_a_wrong_origin_in_the_settings_is_named() -> None:
    for wrong in ("*", "https://*.example", "app.example", "https://app.example/", "null", "", "https://a b"):
        with pytest.raises(ConfigError, match="origin"):
            parse_settings(f'[gateway]\norigins = [{json.dumps(wrong)}]\n[[routes]]\nto = "ollama:m"')


# ---- limits ----------------------------------------------------------------------------------------------------------


@contextmanager
def limited(path: Path, upstream: Upstream, now: list[datetime] | None = None, **limits: Any) -> Iterator[Any]:
    """Yield a function that sends a request with a key of these limits."""
    key = add_key(path / "keys", "limited", KeyLimits(**limits))
    quotas = Quotas(path / "usage", clock=(lambda: now[0]) if now else None)
    with guarded(upstream, path / "keys", quotas=quotas) as gateway:

        def ask(where: str = "/v1/messages", **more: Any) -> tuple[int, dict[str, str], Any]:
            status, headers, data = send(gateway, "POST", where, {**BODY, **more}, **{"x-api-key": key})
            return status, headers, json.loads(data)

        yield ask
    quotas.close()


def test_requests_and_tokens_of_a_minute_are_limited_in_the_form_of_each_wire(tmp_path: Path) -> None:
    with Upstream(["Hello."], loop=True) as upstream:
        for number, limits in enumerate(({"requests_per_minute": 2}, {"tokens_per_minute": 3})):
            with limited(tmp_path / str(number), upstream, **limits) as ask:
                statuses = [ask()[0] for _ in range(3)]
                assert statuses in ([200, 200, 429], [200, 429, 429]), limits
                before = len(upstream.received)
                for path in (*PATHS, "/v1/embeddings"):
                    status, headers, data = ask(path)
                    assert status == 429 and 1 <= int(headers["retry-after"]) <= 60, path
                    assert "one minute" in json.dumps(data["error"]), path
                assert ask("/v1/messages")[2]["error"]["type"] == "rate_limit_error"
                assert ask(PATHS[4])[2]["error"]["status"] == "RESOURCE_EXHAUSTED"
                assert len(upstream.received) == before


def test_requests_at_the_same_time_are_limited(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "limited", KeyLimits(max_concurrent=1))
    silence = Answer(stalls=True, headers={"content-type": "text/event-stream"})
    with Upstream([silence, "Hello.", "Hello."]) as upstream, guarded(upstream, tmp_path / "keys") as gateway:
        place = urlsplit(gateway.url)
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=20) as client:
            data = json.dumps({**BODY, "stream": True}).encode()
            head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ncontent-length: {len(data)}"
            client.sendall(f"{head}\r\n\r\n".encode() + data)
            assert upstream.wait_for_request(20)
            status, headers, _ = send(gateway, "POST", "/v1/messages", BODY, **{"x-api-key": key})
            assert (status, headers["retry-after"]) == (429, "1")
        assert upstream.wait_for_hangup(20)
        for _ in range(1000):
            status = send(gateway, "POST", "/v1/messages", BODY, **{"x-api-key": key})[0]
            if status == 200:
                break
        assert status == 200, "the end of the first request made room"


def test_a_budget_of_tokens_holds_for_a_day_and_over_a_restart(tmp_path: Path) -> None:
    now = [datetime(2026, 1, 31, 23, 0, tzinfo=UTC)]
    with Upstream(["Hello."], loop=True) as upstream:
        with limited(tmp_path, upstream, now, tokens_per_day=120) as ask:
            statuses = [ask()[0] for _ in range(40)]
            assert statuses[0] == 200 and statuses[-1] == 429
            assert sorted(statuses) == statuses, "no request passes after the first refusal"
            _, headers, data = ask()
            assert int(headers["retry-after"]) == 3600 and "tokens a day" in data["error"]["message"]
            status, _, data = ask("/v1/embeddings")
            assert status == 429
        assert stat.S_IMODE((tmp_path / "usage").stat().st_mode) == 0o600
        [key] = read_keys(tmp_path / "keys")

        def admit_after_restart() -> object:
            return Quotas(tmp_path / "usage", clock=lambda: now[0]).admit(key, 60)

        assert isinstance(admit_after_restart(), Failure)
        now[0] += timedelta(hours=2)
        assert isinstance(admit_after_restart(), Permit), "a new day"


def test_a_budget_of_dollars_needs_known_prices(tmp_path: Path) -> None:
    with Upstream(["Hello."], loop=True) as upstream:
        with limited(tmp_path, upstream, dollars_per_day=1.0) as ask:
            status, _, data = ask()
            assert status == 403 and "price" in data["error"]["message"]
            status, _, data = ask("/v1/embeddings")
            assert status == 403 and "no usage" in data["error"]["message"]
        assert upstream.received == []


def test_a_budget_of_dollars_is_spent_by_the_price_table(tmp_path: Path) -> None:
    with Upstream(["Hello."], loop=True) as upstream:
        row = '[endpoints.e]\nmodel = "openai:gpt-4o"\nkey = "k"\n[[routes]]\nto = "e"\n'
        settings = parse_settings(row)
        key = add_key(tmp_path / "keys", "limited", KeyLimits(dollars_per_day=0.0001))
        with run_gateway(lambda transport: Router(settings, transport=transport)) as gateway:
            gateway.gateway.access = Access(settings.gateway, KeyRing(tmp_path / "keys"))
            target = gateway.gateway.router.targets["e"]
            target._clients["gpt-4o", ""] = gateway.gateway.router.open_client(
                upstream.endpoint(), target.settings, None, {}, "k"
            )
            statuses = [send(gateway, "POST", "/v1/messages", BODY, **{"x-api-key": key})[0] for _ in range(20)]
            assert statuses[0] == 200 and statuses[-1] == 429, statuses


NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
GPT = providers.resolve("openai:gpt-4o", facts=None)
BUDGETS: dict[str, dict[str, Any]] = {"tokens": {"tokens_per_day": 20_000}, "dollars": {"dollars_per_day": 0.2}}
"""Both are about twenty answers of a thousand tokens, at ten dollars for a million."""


def test_requests_at_the_same_time_cannot_exceed_a_budget_together(tmp_path: Path) -> None:
    asked = Request("m", [Message.user("Go.")], options={"max_tokens": 1000})
    for unit, limits in BUDGETS.items():
        quotas = Quotas(clock=lambda: NOON)
        key = ClientKey("k", "d", NOON, None, KeyLimits(**limits))
        answered = 0
        while True:
            # A hundred arrive together, and every one of them gets the longest answer that it asked for.
            permits = [permit for _ in range(100) if isinstance(permit := quotas.admit(key, 0), Permit)]
            running = [permit for permit in permits if permit.reserve(asked, lambda: [(GPT, "gpt-4o")]) is None]
            for permit in running:
                report = Report("x", usage=Usage(5, 1000))
                permit.charge(Sent(20, 4000, 200), report, lambda: [(GPT, "gpt-4o")])
            for permit in permits:
                permit.close()
            answered += len(running)
            if not running:
                break
        assert answered == 20, f"{unit}: one answer above the budget at most, and the last dollar can be spent"


def test_a_request_waits_for_others_and_not_until_tomorrow(tmp_path: Path) -> None:
    long = Request("m", [Message.user("Go.")], options={"max_tokens": 50_000})
    short, plain = replace(long, options={"max_tokens": 10}), replace(long, options={})
    quotas = Quotas(clock=lambda: NOON)
    key = ClientKey("k", "d", NOON, None, KeyLimits(tokens_per_day=20_000))

    def ask(request: Request) -> tuple[Permit, Failure | None]:
        permit = quotas.admit(key, 0)
        assert isinstance(permit, Permit)
        return permit, permit.reserve(request, list)

    first, refusal = ask(long)
    assert refusal is None, "a request whose answer may be too long runs alone"
    waiting = quotas.admit(key, 0)
    assert isinstance(waiting, Failure) and waiting.retry_after == 2.0 and "other requests" in waiting.message
    # The limits of a key may change while it is used; what runs is still reserved.
    key = ClientKey("k", "d", NOON, None, KeyLimits(tokens_per_day=19_000))
    assert isinstance(quotas.admit(key, 0), Failure)
    first.charge(Sent(0, 0, 200), Report("x", usage=Usage(5, 5)), list)
    first.close()
    first.close()
    for request in (short, plain, short):
        _, refusal = ask(request)
        assert refusal is None
    _, refusal = ask(long)
    assert refusal is not None and refusal.retry_after == 2.0
    _, refusal = ask(replace(short, messages=[Message.user("word " * 30_000)]))
    assert refusal is not None and refusal.retry_after == 12 * 3600, "the prompt alone is too much for today"


def test_what_runs_during_a_crash_counts_as_used(tmp_path: Path) -> None:
    async def crash() -> None:
        quotas = Quotas(tmp_path / "usage", clock=lambda: NOON)
        key = ClientKey("k", "d", NOON, None, KeyLimits(tokens_per_day=20_000))
        permits = [quotas.admit(key, 0) for _ in range(2)]
        for permit in permits:
            assert isinstance(permit, Permit)
            assert permit.reserve(Request("m", [], options={"max_tokens": 9000}), list) is None
        quotas.close()
        again = Quotas(tmp_path / "usage", clock=lambda: NOON).admit(key, 0)
        assert isinstance(again, Permit)
        assert again.reserve(Request("m", [Message.user("word " * 3000)]), list) is not None
        for permit in permits:
            assert isinstance(permit, Permit)
            permit.charge(Sent(0, 0, 200), Report("x", usage=Usage(5, 5)), list)
            permit.close()
        quotas.close()
        assert json.loads((tmp_path / "usage").read_bytes())["k d"]["tokens"] == 20
        greedy = quotas.admit(key, 0)
        assert isinstance(greedy, Permit)
        assert greedy.reserve(Request("m", [], options={"max_tokens": 10**30}), list) is None
        quotas.close()
        assert json.loads((tmp_path / "usage").read_bytes())["k d"]["tokens"] > 20_000, "any number can be stored"

    asyncio.run(crash())


def test_a_hundred_clients_at_once_stay_within_a_budget(tmp_path: Path) -> None:
    """Over sockets: the endpoint is silent, so all of them run at the same time."""
    key = add_key(tmp_path / "keys", "limited", KeyLimits(tokens_per_day=5_000))
    silence = Answer(stalls=True, headers={"content-type": "text/event-stream"})
    with Upstream([silence], loop=True) as upstream, guarded(upstream, tmp_path / "keys") as gateway:
        place = urlsplit(gateway.url)
        data = json.dumps({**BODY, "max_tokens": 1000, "stream": True}).encode()
        head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-api-key: {key}\r\ntransfer-encoding: chunked"
        whole = f"{head}\r\n\r\n{len(data):x}\r\n".encode() + data + b"\r\n0\r\n\r\n"
        with ExitStack() as stack:
            clients = [
                stack.enter_context(socket.create_connection((place.hostname or "", place.port or 0), timeout=20))
                for _ in range(100)
            ]
            for client in clients:
                client.sendall(whole)
            refused = 0
            while refused < 96:
                ready, _, _ = select.select(clients, [], [], 20)
                assert ready, f"{refused} were refused"
                for client in ready:
                    assert client.recv(65536).startswith(b"HTTP/1.1 429 ")
                    clients.remove(client)
                    refused += 1
            assert len(upstream.received) <= 4


# ---- spans -----------------------------------------------------------------------------------------------------------


def test_a_span_has_the_trace_of_the_client_and_no_content(tmp_path: Path) -> None:
    key = add_key(tmp_path / "keys", "laptop")
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    failure = Failure("bad_request", "secret of the endpoint")
    with Upstream(["Hello.", failure, "Hello."]) as upstream, guarded(upstream, tmp_path / "keys") as gateway:
        gateway.gateway.spans = Spans(provider)
        for sent in (f"00-{trace}-{parent}-01", f"00-{trace}-{parent}-01", "00-broken"):
            send(gateway, "POST", "/v1/messages", BODY, **{"x-api-key": key, "traceparent": sent})
        send(gateway, "POST", "/v1/messages", BODY, traceparent=f"00-{trace}-{parent}-01")
    one, two, three = exporter.get_finished_spans()
    assert [f"{span.context.trace_id:032x}" == trace for span in (one, two, three)] == [True, True, False]
    assert one.parent is not None and f"{one.parent.span_id:016x}" == parent
    assert one.attributes is not None and two.attributes is not None
    assert one.attributes["dragoman.client"] == "laptop"
    assert one.attributes["gen_ai.usage.output_tokens"] == gateway.reports[-1]["usage"]["output_tokens"]
    assert two.attributes["error.type"] == "bad_request" and not two.status.is_ok
    shown = "".join(span.to_json() for span in (one, two, three))
    assert "secret" not in shown and "Hello" not in shown and key not in shown


# ---- sizes -----------------------------------------------------------------------------------------------------------


def test_a_body_is_limited_before_and_after_decompression() -> None:
    settings = settings_for()
    settings = GatewaySettings(ServerSettings(port=0, most_of_a_request=2000), settings.endpoints, settings.routes)
    small, large = json.dumps(BODY).encode(), json.dumps({**BODY, "pad": "x" * 5000}).encode()
    with Upstream(["Hello."], loop=True) as upstream, guarded(upstream, settings=settings) as gateway:
        table: list[tuple[bytes, dict[str, str], int]] = [
            (small, {}, 200),
            (gzip.compress(small), {"content-encoding": "gzip"}, 200),
            (small, {"content-encoding": "identity"}, 200),
            (large, {}, 413),
            (gzip.compress(large), {"content-encoding": "gzip"}, 413),
            (gzip.compress(small)[:-9], {"content-encoding": "gzip"}, 400),
            (small, {"content-encoding": "gzip"}, 400),
            (small, {"content-encoding": "br"}, 415),
            (small, {"content-encoding": "gzip, gzip"}, 415),
        ]
        for path in (*PATHS, "/v1/embeddings"):
            for body, headers, expected in table:
                before = len(upstream.received)
                status, _, data = send(gateway, "POST", path, body, **headers)
                assert status == expected, f"{path} {headers} {len(body)}: {status} {data!r}"
                assert len(upstream.received) - before == (expected == 200)
