"""OAuth: a login needs consent, tokens are refreshed and go only to their server, and a false answer ends the login."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.mcp.oauth_servers import OAuthServers, browse, serving
from tests.mcp.toolboxes import QUICK, call, open_toolbox, wait_until
from tests.tables import each_row

from dragoman.errors import ConfigError
from dragoman.mcp import BrowserLogin, HttpServer, LoginRequest, OAuth, TokenStore, Toolbox
from dragoman.mcp import login as login_module
from dragoman.mcp.oauth import (
    Challenge,
    LoginFault,
    check_address,
    issuer_addresses,
    read_challenge,
    resource_addresses,
)


@pytest.fixture
def oauth() -> Iterator[OAuthServers]:
    with serving(OAuthServers()) as found:
        yield found


class User(BrowserLogin):
    """A user with a browser that follows every page. It remembers what it was asked, and what it was shown."""

    def __init__(self, agrees: Any = True) -> None:
        self.asked: list[LoginRequest] = []
        self.pages: list[str] = []
        self.agrees = agrees
        super().__init__(self.decide)

    def decide(self, request: LoginRequest) -> Any:
        self.asked.append(request)
        return self.agrees

    async def visit(self, url: str) -> None:
        def follow() -> None:
            self.pages.append(browse(url))

        threading.Thread(target=follow).start()


def connect_to(servers: OAuthServers, tmp_path: Path, user: BrowserLogin | None = None, **more: Any) -> Toolbox:
    server = HttpServer("web", servers.url, **more)
    return open_toolbox(server, tokens=tmp_path / "deep" / "tokens.json", login=user)


def test_a_login_with_consent_gives_a_token_that_only_its_owner_can_read(
    oauth: OAuthServers, tmp_path: Path, caplog
) -> None:
    caplog.set_level(logging.DEBUG)
    user = User()
    with connect_to(oauth, tmp_path, user) as toolbox:
        assert (toolbox.problems, call(toolbox, "echo", text="hello").content) == ([], "hello")
        path = tmp_path / "deep" / "tokens.json"
        assert path.stat().st_mode & 0o777 == 0o600
        (request,) = user.asked
        assert (request.server, request.address, request.issuer, request.scopes) == (
            *("web", oauth.url, f"{oauth.issuer}"),
            ("read",),
        )
        assert oauth.asked["scope"] == "read" and oauth.asked["resource"] == oauth.url
        assert oauth.registered["redirect_uris"][0].startswith("http://127.0.0.1:")
        (token,) = oauth.valid
        assert set(toolbox.secrets()) == {token, oauth.refresh}
        assert "[redacted]" in call(toolbox, "echo", text="your headers").content, "a server may not hand the token on"
    with connect_to(oauth, tmp_path) as toolbox:
        assert call(toolbox, "echo", text="again").content == "again"
    assert len(user.asked) == 1, "the token is kept"
    assert token not in caplog.text and oauth.refresh not in caplog.text


def test_a_token_is_refreshed_before_it_ends_and_after_the_server_rejects_it(
    oauth: OAuthServers, tmp_path: Path
) -> None:
    oauth.seconds = 30
    with connect_to(oauth, tmp_path, User()) as toolbox:
        first = oauth.refresh
        assert call(toolbox, "echo", text="soon over").content == "soon over"
        assert oauth.log[-1] == "POST /token refresh_token" and oauth.refresh != first
    oauth.seconds = 3600
    with connect_to(oauth, tmp_path) as toolbox:
        before = len(oauth.log)
        assert call(toolbox, "echo", text="x").content == "x"
        oauth.valid = {"none"}
        assert call(toolbox, "echo", text="revoked").content == "revoked"
        assert call(toolbox, "echo", text="and again").content == "and again"
        assert oauth.log[before:].count("POST /token refresh_token") <= 2
        own, oauth.valid, oauth.refresh = oauth.refresh, {"none"}, "another"
        told = call(toolbox, "echo", text="x").content
        assert "its login is no longer valid" in told and "`dragoman mcp login web`" in told
        assert own not in told


def test_two_toolboxes_use_a_refresh_token_once(oauth: OAuthServers, tmp_path: Path) -> None:
    with connect_to(oauth, tmp_path, User()) as one, connect_to(oauth, tmp_path) as two:
        oauth.valid = {"none"}
        assert call(one, "echo", text="1").content == "1"
        assert call(two, "echo", text="2").content == "2", "it takes the token that the other one got"
        assert oauth.log.count("POST /token refresh_token") == 1


def test_a_refresh_continues_if_the_call_that_needed_it_is_cancelled(oauth: OAuthServers, tmp_path: Path) -> None:
    limits = replace(QUICK, call_seconds=0.3)
    server = HttpServer("web", oauth.url)
    with open_toolbox(server, tokens=tmp_path / "tokens.json", login=User(), limits=limits) as toolbox:
        oauth.valid = {"none"}
        oauth.may_refresh.clear()
        assert "did not answer within" in call(toolbox, "echo", text="x").content
        before = oauth.refresh
        oauth.may_refresh.set()
        wait_until(lambda: oauth.refresh != before and oauth.refresh in (tmp_path / "tokens.json").read_text())
    with open_toolbox(server, tokens=tmp_path / "tokens.json") as toolbox:
        assert call(toolbox, "echo", text="x").content == "x"
    assert oauth.log.count("POST /token refresh_token") == 1


def test_more_rights_need_another_login_that_keeps_the_old_ones(oauth: OAuthServers, tmp_path: Path) -> None:
    with connect_to(oauth, tmp_path, User()) as toolbox:
        oauth.needed = "write"
        told = call(toolbox, "echo", text="x").content
        assert (
            "it needs a login with more scopes; log in with `dragoman mcp login web --scope read --scope write`" in told
        )


def test_a_header_of_the_row_is_used_instead_of_a_login(oauth: OAuthServers, tmp_path: Path) -> None:
    oauth.valid = {"mine-0001"}
    user = User()
    with connect_to(oauth, tmp_path, user, headers={"authorization": "Bearer mine-0001"}) as toolbox:
        assert call(toolbox, "echo", text="x").content == "x"
        oauth.valid = set()
        assert "denies access (status 401)" in call(toolbox, "echo", text="x").content
    assert user.asked == []


def test_a_client_that_is_registered_already_does_not_register_itself(oauth: OAuthServers, tmp_path: Path) -> None:
    row = OAuth("my-client", scopes=("a", "b"))
    with connect_to(oauth, tmp_path, User(), oauth=row) as toolbox:
        assert toolbox.problems == []
    assert (oauth.asked["client_id"], oauth.asked["scope"]) == ("my-client", "a b")
    assert "POST /register" not in oauth.log


def test_a_later_login_uses_the_registration_of_the_first_one(oauth: OAuthServers, tmp_path: Path) -> None:
    connect_to(oauth, tmp_path, User()).close()
    first = oauth.asked["client_id"], oauth.asked["redirect_uri"]
    oauth.valid, oauth.refresh = set(), "another"
    connect_to(oauth, tmp_path).close()
    with connect_to(oauth, tmp_path, User()) as toolbox:
        assert toolbox.problems == []
    assert oauth.log.count("POST /register") == 1
    assert (oauth.asked["client_id"], oauth.asked["redirect_uri"]) == first


def test_a_server_without_metadata_of_its_own_is_its_own_authorization_server(
    oauth: OAuthServers, tmp_path: Path
) -> None:
    oauth.challenge, oauth.resource, oauth.issuer = "-", None, oauth.url.removesuffix("/mcp")
    with connect_to(oauth, tmp_path, User()) as toolbox:
        assert toolbox.problems == []
        assert call(toolbox, "echo", text="x").content == "x"
    assert "scope" not in oauth.asked


# ---- lies ------------------------------------------------------------------------------------------------------------

LIES: list[tuple[str, str, Any, str]] = [
    ("metadata elsewhere", "challenge", 'Bearer resource_metadata="https://evil.example/x"', "at another server"),
    ("metadata of another", "resource", {"resource": "https://evil.example/mcp"}, "about another address"),
    ("metadata of a sibling", "resource", {"resource": "{url}2"}, "about another address"),
    ("no issuer", "resource", {"authorization_servers": []}, "name no authorization server"),
    ("issuer without TLS", "resource", {"authorization_servers": ["http://evil.example"]}, "is not encrypted"),
    ("issuer is no address", "resource", {"authorization_servers": ["javascript:alert(1)"]}, "is not an address"),
    ("issuer with a user", "resource", {"authorization_servers": ["https://a@b.example"]}, "contains a user"),
    ("another issuer", "server", {"issuer": "https://evil.example"}, "about another issuer"),
    ("no PKCE", "server", {"code_challenge_methods_supported": None}, "does not offer PKCE"),
    ("plain PKCE", "server", {"code_challenge_methods_supported": ["plain"]}, "does not offer PKCE"),
    ("token endpoint without TLS", "server", {"token_endpoint": "http://evil.example/token"}, "is not encrypted"),
    ("page without TLS", "server", {"authorization_endpoint": "http://evil.example/"}, "is not encrypted"),
    ("no registration", "server", {"registration_endpoint": None}, "does not register clients"),
    ("refused", "answer", {"error": "access_denied", "error_description": "not \x1b[2Jyou"}, "refused: not you"),
    ("another server answers", "answer", {"iss": "https://evil.example"}, "another authorization server"),
    ("no code", "answer", {"code": ""}, "has no code"),
    ("no token", "token", {"access_token": None}, "no valid access token"),
    ("a token that splits headers", "token", {"access_token": "a\r\nX: b"}, "no valid access token"),
    ("another kind of token", "token", {"token_type": "mac"}, "another kind"),
]


@each_row(("name", "part", "value", "words"), LIES)
def test_a_false_answer_ends_the_login_and_no_token_is_stored(
    name: str, part: str, value: Any, words: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lie")
    with serving(OAuthServers()) as oauth:
        if isinstance(value, dict):
            value = {
                key: each.replace("{url}", oauth.url) if isinstance(each, str) else each for key, each in value.items()
            }
        setattr(oauth, part, value)
        with connect_to(oauth, folder, User()) as toolbox:
            (problem,) = toolbox.problems
        assert words in problem, problem
        assert oauth.tokens_seen == [] and "\x1b" not in problem
        assert TokenStore(folder / "deep" / "tokens.json").read() == {}


def test_an_answer_with_another_state_is_ignored_and_the_right_one_still_counts(
    oauth: OAuthServers, tmp_path: Path
) -> None:
    class Attacked(User):
        async def visit(self, url: str) -> None:
            def attack() -> None:
                asked = dict(part.split("=", 1) for part in url.partition("?")[2].split("&"))
                place = asked["redirect_uri"].replace("%3A", ":").replace("%2F", "/")
                for path in (f"{place}?code=evil&state=guess", f"{place}?code=evil", f"{place[:-8]}other?code=evil"):
                    self.pages.append(browse(path))
                self.pages.append(browse(url))

            threading.Thread(target=attack).start()

    user = Attacked()
    with connect_to(oauth, tmp_path, user) as toolbox:
        assert toolbox.problems == []
    assert ["does not belong" in page for page in user.pages] == [True, True, False, False]
    assert "You are logged in" in user.pages[-1]


def test_a_redirect_is_followed_neither_with_a_token_nor_in_a_login(oauth: OAuthServers, tmp_path: Path) -> None:
    trap = OAuthServers()
    with serving(trap):
        connect_to(oauth, tmp_path, User()).close()
        seen = len(oauth.tokens_seen)
        oauth.mcp.respond = lambda verb, message, headers: (307, {"Location": trap.url}, "")
        with connect_to(oauth, tmp_path) as toolbox:
            assert "redirects to" in toolbox.problems[0]
        assert trap.mcp.seen == [] and trap.log == [] and len(oauth.tokens_seen) == seen
        moved = HttpServer("web", trap.url)
        with open_toolbox(moved, tokens=tmp_path / "deep" / "tokens.json") as toolbox:
            assert "needs a login" in toolbox.problems[0]
        assert trap.tokens_seen == [], "a token belongs to one address"


def test_a_file_that_others_can_read_or_that_is_damaged_is_not_used(oauth: OAuthServers, tmp_path: Path) -> None:
    connect_to(oauth, tmp_path, User()).close()
    path = tmp_path / "deep" / "tokens.json"
    path.chmod(0o644)
    with connect_to(oauth, tmp_path) as toolbox:
        assert "other users can read the tokens" in toolbox.problems[0] and "chmod 600" in toolbox.problems[0]
    path.chmod(0o600)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot read the tokens") as caught:
        TokenStore(path).read()
    assert "log in again" in caught.value.next_step


def test_grants_do_not_show_their_tokens(oauth: OAuthServers, tmp_path: Path) -> None:
    connect_to(oauth, tmp_path, User()).close()
    store = TokenStore(tmp_path / "deep" / "tokens.json")
    (grant,) = store.read().values()
    assert grant.access not in repr(grant) and grant.refresh not in f"{grant}"
    assert store.remove(oauth.url) and not store.remove(oauth.url)
    assert json.loads(store.path.read_text())["grants"] == {}  # type: ignore[union-attr]


# ---- parts -----------------------------------------------------------------------------------------------------------

CHALLENGES = [
    ("", Challenge()),
    ("Bearer", Challenge()),
    ('Bearer resource_metadata="https://a/b", scope="x y"', Challenge("https://a/b", ("x", "y"))),
    (
        'bearer realm="a, b",error=invalid_token , resource_metadata="https://a"',
        Challenge("https://a", (), "invalid_token"),
    ),
    ('Basic realm="x", Bearer scope="x \\"y"', Challenge("", ("x",))),
    ('Digest resource_metadata="https://evil"', Challenge()),
    ('Bearer scope="x", resource_metadata="https://unfinished', Challenge("", ("x",))),
]


@each_row(("header", "expected"), CHALLENGES)
def test_challenges_are_read(header: str, expected: Challenge) -> None:
    assert read_challenge(header) == expected


def test_addresses_of_metadata_follow_the_specifications() -> None:
    assert resource_addresses("https://a.example/x/mcp", Challenge()) == [
        "https://a.example/.well-known/oauth-protected-resource/x/mcp",
        "https://a.example/.well-known/oauth-protected-resource",
    ]
    assert issuer_addresses("https://a.example/t/1") == [
        "https://a.example/.well-known/oauth-authorization-server/t/1",
        "https://a.example/.well-known/openid-configuration/t/1",
        "https://a.example/t/1/.well-known/openid-configuration",
    ]


@each_row(("url",), [("http://localhost:1/x",), ("https://127.0.0.1/x",), ("https://[::1]/x",)])
def test_a_remote_server_cannot_lead_a_login_to_this_machine(url: str) -> None:
    with pytest.raises(LoginFault, match="leads to this machine"):
        check_address(url, "it", is_local=False)
    assert check_address(url, "it", is_local=True) == url


def test_the_browser_is_not_a_program_of_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = tmp_path / "ran"
    for name in ("xdg-open", "wslview", "sensible-browser", "mine"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\ntouch {ran}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}/nowhere")
    for browser in ("mine", str(tmp_path / "bin" / "mine"), ""):
        monkeypatch.setenv("BROWSER", browser)
        assert login_module.open_page("https://a.example/", str(tmp_path)) is False
    assert login_module.open_page("file:/etc/passwd", "/nowhere") is False
    assert not ran.exists()
