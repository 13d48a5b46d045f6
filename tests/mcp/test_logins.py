"""OAuth: a login needs consent, tokens are refreshed and stay where they belong, and every lie of a server ends it."""

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
from tests.mcp.boxes import QUICK, call, open_box, wait_until
from tests.mcp.oauth_world import World, browse, serving
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
def world() -> Iterator[World]:
    with serving(World()) as found:
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


def enter(world: World, tmp_path: Path, user: BrowserLogin | None = None, **more: Any) -> Toolbox:
    server = HttpServer("web", world.url, **more)
    return open_box(server, tokens=tmp_path / "deep" / "tokens.json", login=user)


def test_a_login_with_consent_gives_a_token_that_only_its_owner_can_read(world: World, tmp_path: Path, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    user = User()
    with enter(world, tmp_path, user) as box:
        assert (box.problems, call(box, "echo", text="hello").content) == ([], "hello")
        path = tmp_path / "deep" / "tokens.json"
        assert path.stat().st_mode & 0o777 == 0o600
        (request,) = user.asked
        assert (request.server, request.address, request.issuer, request.scopes) == (
            *("web", world.url, f"{world.issuer}"),
            ("read",),
        )
        assert world.asked["scope"] == "read" and world.asked["resource"] == world.url
        assert world.registered["redirect_uris"][0].startswith("http://127.0.0.1:")
        (token,) = world.valid
        assert set(box.secrets()) == {token, world.refresh}
        assert "[redacted]" in call(box, "echo", text="your headers").content, "a server may not hand the token on"
    with enter(world, tmp_path) as box:
        assert call(box, "echo", text="again").content == "again"
    assert len(user.asked) == 1, "the token is kept"
    assert token not in caplog.text and world.refresh not in caplog.text


def test_a_token_is_refreshed_before_it_ends_and_after_the_server_rejects_it(world: World, tmp_path: Path) -> None:
    world.seconds = 30
    with enter(world, tmp_path, User()) as box:
        first = world.refresh
        assert call(box, "echo", text="soon over").content == "soon over"
        assert world.log[-1] == "POST /token refresh_token" and world.refresh != first
    world.seconds = 3600
    with enter(world, tmp_path) as box:
        before = len(world.log)
        assert call(box, "echo", text="x").content == "x"
        world.valid = {"none"}
        assert call(box, "echo", text="revoked").content == "revoked"
        assert call(box, "echo", text="and again").content == "and again"
        assert world.log[before:].count("POST /token refresh_token") <= 2
        world.valid, world.refresh = {"none"}, "another"
        told = call(box, "echo", text="x").content
        assert "its login is no longer valid" in told and "`dragoman mcp login web`" in told
        assert "Nothing was run" not in told or "refresh-token" not in told


def test_two_toolboxes_use_a_refresh_token_once(world: World, tmp_path: Path) -> None:
    with enter(world, tmp_path, User()) as one, enter(world, tmp_path) as two:
        world.valid = {"none"}
        assert call(one, "echo", text="1").content == "1"
        assert call(two, "echo", text="2").content == "2", "it takes the token that the other one got"
        assert world.log.count("POST /token refresh_token") == 1


def test_a_refresh_goes_on_if_the_call_that_needed_it_gives_up(world: World, tmp_path: Path) -> None:
    limits = replace(QUICK, call_seconds=0.3)
    server = HttpServer("web", world.url)
    with open_box(server, tokens=tmp_path / "tokens.json", login=User(), limits=limits) as box:
        world.valid = {"none"}
        world.may_refresh.clear()
        assert "did not answer within" in call(box, "echo", text="x").content
        before = world.refresh
        world.may_refresh.set()
        wait_until(lambda: world.refresh != before and world.refresh in (tmp_path / "tokens.json").read_text())
    with open_box(server, tokens=tmp_path / "tokens.json") as box:
        assert call(box, "echo", text="x").content == "x"
    assert world.log.count("POST /token refresh_token") == 1


def test_more_rights_need_another_login_that_keeps_the_old_ones(world: World, tmp_path: Path) -> None:
    with enter(world, tmp_path, User()) as box:
        world.needed = "write"
        told = call(box, "echo", text="x").content
        assert (
            "it needs a login with more scopes; log in with `dragoman mcp login web --scope read --scope write`" in told
        )


def test_a_header_of_the_row_is_used_instead_of_a_login(world: World, tmp_path: Path) -> None:
    world.valid = {"mine-0001"}
    user = User()
    with enter(world, tmp_path, user, headers={"authorization": "Bearer mine-0001"}) as box:
        assert call(box, "echo", text="x").content == "x"
        world.valid = set()
        assert "denies access (status 401)" in call(box, "echo", text="x").content
    assert user.asked == []


def test_a_client_that_is_registered_already_does_not_register_itself(world: World, tmp_path: Path) -> None:
    row = OAuth("my-client", scopes=("a", "b"))
    with enter(world, tmp_path, User(), oauth=row) as box:
        assert box.problems == []
    assert (world.asked["client_id"], world.asked["scope"]) == ("my-client", "a b")
    assert "POST /register" not in world.log


def test_a_later_login_uses_the_registration_of_the_first_one(world: World, tmp_path: Path) -> None:
    enter(world, tmp_path, User()).close()
    first = world.asked["client_id"], world.asked["redirect_uri"]
    world.valid, world.refresh = set(), "another"
    enter(world, tmp_path).close()
    with enter(world, tmp_path, User()) as box:
        assert box.problems == []
    assert world.log.count("POST /register") == 1
    assert (world.asked["client_id"], world.asked["redirect_uri"]) == first


def test_a_server_without_metadata_of_its_own_is_its_own_authorization_server(world: World, tmp_path: Path) -> None:
    world.challenge, world.resource, world.issuer = "-", None, world.url.removesuffix("/mcp")
    with enter(world, tmp_path, User()) as box:
        assert box.problems == []
        assert call(box, "echo", text="x").content == "x"
    assert "scope" not in world.asked


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
def test_a_lie_ends_the_login_and_no_token_is_kept(
    name: str, part: str, value: Any, words: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("lie")
    with serving(World()) as world:
        if isinstance(value, dict):
            value = {
                key: each.replace("{url}", world.url) if isinstance(each, str) else each for key, each in value.items()
            }
        setattr(world, part, value)
        with enter(world, folder, User()) as box:
            (problem,) = box.problems
        assert words in problem, problem
        assert world.tokens_seen == [] and "\x1b" not in problem
        assert TokenStore(folder / "deep" / "tokens.json").read() == {}


def test_an_answer_with_another_state_is_ignored_and_the_right_one_still_counts(world: World, tmp_path: Path) -> None:
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
    with enter(world, tmp_path, user) as box:
        assert box.problems == []
    assert ["does not belong" in page for page in user.pages] == [True, True, False, False]
    assert "You are logged in" in user.pages[-1]


def test_a_redirect_is_followed_neither_with_a_token_nor_in_a_login(world: World, tmp_path: Path) -> None:
    trap = World()
    with serving(trap):
        enter(world, tmp_path, User()).close()
        seen = len(world.tokens_seen)
        world.mcp.respond = lambda verb, message, headers: (307, {"Location": trap.url}, "")
        with enter(world, tmp_path) as box:
            assert "redirects to" in box.problems[0]
        assert trap.mcp.seen == [] and trap.log == [] and len(world.tokens_seen) == seen
        moved = HttpServer("web", trap.url)
        with open_box(moved, tokens=tmp_path / "deep" / "tokens.json") as box:
            assert "needs a login" in box.problems[0]
        assert trap.tokens_seen == [], "a token belongs to one address"


def test_a_file_that_others_can_read_or_that_is_damaged_is_not_used(world: World, tmp_path: Path) -> None:
    enter(world, tmp_path, User()).close()
    path = tmp_path / "deep" / "tokens.json"
    path.chmod(0o644)
    with enter(world, tmp_path) as box:
        assert "other users can read the tokens" in box.problems[0] and "chmod 600" in box.problems[0]
    path.chmod(0o600)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot read the tokens") as caught:
        TokenStore(path).read()
    assert "log in again" in caught.value.next_step


def test_grants_do_not_show_their_tokens(world: World, tmp_path: Path) -> None:
    enter(world, tmp_path, User()).close()
    store = TokenStore(tmp_path / "deep" / "tokens.json")
    (grant,) = store.read().values()
    assert grant.access not in repr(grant) and grant.refresh not in f"{grant}"
    assert store.remove(world.url) and not store.remove(world.url)
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
