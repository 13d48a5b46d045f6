"""A scripted MCP server with OAuth, its authorization server, and a browser, all on the loopback."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from tests.mcp.test_http_channel import JSON, Reply, Script, answer

WELL_KNOWN = "/.well-known/"


class OAuthServers:
    """The behaviour of both servers, and the requests to them. A test changes fields to make them misbehave."""

    def __init__(self) -> None:
        self.mcp = Script(self.guard)
        self.url = ""
        self.issuer = ""
        self.seconds: int | None = 3600
        """The lifetime of the access tokens."""
        self.scopes = "read"
        self.valid: set[str] = set()
        self.refresh = ""
        self.codes: dict[str, dict[str, str]] = {}
        self.log: list[str] = []
        """The requests to the authorization server."""
        self.tokens_seen: list[str] = []
        """The tokens that the MCP server got."""
        self.resource: dict[str, Any] | None = {}
        """Replaces parts of the metadata of the MCP server; None: it has none."""
        self.server: dict[str, Any] = {}
        """Replaces parts of the metadata of the authorization server."""
        self.challenge = ""
        """Replaces the header of the MCP server; `-` leaves it out."""
        self.answer: dict[str, str] = {}
        """Replaces parts of what the authorization server sends to the loopback address."""
        self.token: dict[str, Any] = {}
        """Replaces parts of the answer of the token endpoint."""
        self.needed = ""
        """A scope that a call needs."""
        self.granted = ""
        self.may_refresh = threading.Event()
        """The token endpoint waits for it before it refreshes."""
        self.may_refresh.set()

    # ---- the MCP server ----------------------------------------------------------------------------------------------

    def guard(self, verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        given = headers.get("authorization", "")
        if given:
            self.tokens_seen.append(given.removeprefix("Bearer "))
        if given.removeprefix("Bearer ") not in self.valid:
            place = urlsplit(self.url)
            usual = f'Bearer resource_metadata="http://{place.netloc}{WELL_KNOWN}oauth-protected-resource{place.path}"'
            challenge = self.challenge or f'{usual}, scope="{self.scopes}"'
            return 401, {} if challenge == "-" else {"WWW-Authenticate": challenge}, ""
        if message.get("method") == "tools/call":
            if self.needed and self.needed not in self.granted.split():
                header = f'Bearer error="insufficient_scope", scope="{self.needed}"'
                return 403, {"WWW-Authenticate": header}, ""
            if message["params"]["arguments"].get("text") == "your headers":
                return 200, JSON, answer(message["id"], {"content": [{"type": "text", "text": given}]})
        return None

    def metadata(self, path: str) -> Reply:
        if not path.startswith(f"{WELL_KNOWN}oauth-protected-resource"):
            return 404, {}, ""
        if self.resource is None:
            return 404, {}, ""
        return 200, JSON, json.dumps({"resource": self.url, "authorization_servers": [self.issuer], **self.resource})

    # ---- the authorization server ------------------------------------------------------------------------------------

    def authorize(self, verb: str, path: str, query: dict[str, str], form: dict[str, str]) -> Reply:
        self.log.append(f"{verb} {path}" + (f" {form['grant_type']}" if "grant_type" in form else ""))
        if path.startswith(f"{WELL_KNOWN}oauth-authorization-server"):
            found = {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "registration_endpoint": f"{self.issuer}/register",
                "code_challenge_methods_supported": ["S256"],
                **self.server,
            }
            return 200, JSON, json.dumps({key: value for key, value in found.items() if value is not None})
        if path == "/register":
            self.registered = form
            return 201, JSON, json.dumps({"client_id": f"client-{len(self.log)}", "token_endpoint_auth_method": "none"})
        if path == "/authorize":
            return self._send_back(query)
        return self._give_tokens(form) if path == "/token" else (404, {}, "")

    def _send_back(self, query: dict[str, str]) -> Reply:
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        self.asked = query
        sent = {"code": code, "state": query["state"], **self.answer}
        return 302, {"Location": f"{query['redirect_uri']}?{urlencode(sent)}"}, ""

    def _give_tokens(self, form: dict[str, str]) -> Reply:
        if form["grant_type"] == "refresh_token":
            self.may_refresh.wait(60)
            if form["refresh_token"] != self.refresh or form["resource"] != self.url:
                return 400, JSON, '{"error": "invalid_grant", "error_description": "it was used before"}'
        else:
            asked = self.codes.pop(form["code"], {})
            digest = hashlib.sha256(form["code_verifier"].encode()).digest()
            proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            wanted = {
                "code_challenge": proof,
                "code_challenge_method": "S256",
                "client_id": form["client_id"],
                "redirect_uri": form["redirect_uri"],
                "resource": form["resource"],
            }
            assert wanted.items() <= asked.items(), (asked, wanted)
            self.granted = asked.get("scope", "")
        number = len(self.log)
        self.valid, self.refresh = {f"access-token-{number}"}, f"refresh-token-{number}"
        found = {
            "access_token": f"access-token-{number}",
            "refresh_token": self.refresh,
            "token_type": "Bearer",
            "expires_in": self.seconds,
            **self.token,
        }
        return 200, JSON, json.dumps({key: value for key, value in found.items() if value is not None})


@contextmanager
def serving(oauth: OAuthServers) -> Iterator[OAuthServers]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            place = urlsplit(self.path)
            if self.server is issuer or (
                oauth.resource is None and place.path != "/mcp" and "protected" not in place.path
            ):
                read = parse_qs(body.decode()) if b"=" in body and not body.startswith(b"{") else {}
                form = {key: values[0] for key, values in read.items()} or json.loads(body or b"{}")
                query = {key: values[0] for key, values in parse_qs(place.query).items()}
                status, headers, text = oauth.authorize(self.command, place.path, query, form)
            elif place.path.startswith(WELL_KNOWN):
                status, headers, text = oauth.metadata(place.path)
            else:
                sent = {key.lower(): value for key, value in self.headers.items()}
                status, headers, text = oauth.mcp.answer(self.command, json.loads(body or b"{}"), sent)
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text.encode()))}.items():
                self.send_header(name, value)
            # A client that has what it wants, or closes, does not wait for the rest.
            with suppress(ConnectionError):
                self.end_headers()
                self.wfile.write(text.encode())

        do_POST = do_GET = do_DELETE = handle_one

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is logged."""

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as issuer,
        ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server,
    ):
        oauth.issuer = f"http://127.0.0.1:{issuer.server_port}"
        oauth.url = f"http://127.0.0.1:{server.server_port}/mcp"
        threads = [
            threading.Thread(target=each.serve_forever, kwargs={"poll_interval": 0.01}) for each in (issuer, server)
        ]
        for thread in threads:
            thread.start()
        try:
            yield oauth
        finally:
            issuer.shutdown()
            server.shutdown()
            for thread in threads:
                thread.join()


def browse(url: str) -> str:
    """Open a page as a browser does, and follow where it leads. Returns the last page."""
    for _ in range(5):
        place = urlsplit(url)
        connection = HTTPConnection(place.hostname or "", place.port or 80, timeout=30)
        connection.request("GET", f"{place.path}?{place.query}")
        response = connection.getresponse()
        page = response.read().decode()
        connection.close()
        if response.status != 302:
            return page
        url = response.headers["Location"]
    raise AssertionError("the page redirects for ever")


def write_browser(path: Path) -> str:
    """Write a program for $BROWSER, which needs nothing but Python, and return its path."""
    head = "from http.client import HTTPConnection\nfrom urllib.parse import urlsplit\nimport sys\n\n"
    source = f"#!{sys.executable} -IS\n{head}{inspect.getsource(browse)}\nbrowse(sys.argv[1])\n"
    path.write_text(source, encoding="utf-8")
    path.chmod(0o755)
    return str(path)
