"""`dragoman mcp`, and `dragoman run` with servers that need a login: the real command, with a browser of the test."""

from __future__ import annotations

import shlex
import stat
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.commands import Desk
from tests.cli.conftest import Command
from tests.mcp.oauth_servers import OAuthServers, serving, write_browser
from tests.mcp.toolboxes import faulty
from tests.tables import each_row

from dragoman.config.edits import add_table, remove_table
from dragoman.errors import ConfigError
from dragoman.testing import Upstream, call


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    # The programs of a browser are never taken from the folder in which the tools work.
    folder = tmp_path / "desk"
    folder.mkdir()
    return Desk(folder)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def world() -> Iterator[OAuthServers]:
    with serving(OAuthServers()) as found:
        yield found


@pytest.fixture
def browser(tmp_path: Path) -> str:
    return write_browser(tmp_path / "browser")


def run_words(server: Upstream, *more: str) -> list[str]:
    return ["run", "say it", "-m", "custom:scripted", "--base-url", server.url, "--allow", "mcp:web/*", *more]


SAY = [call("mcp__web__echo", text="hello"), "it said hello"]


def test_a_run_uses_a_server_after_a_login_with_consent_and_refreshes_its_token(
    desk: Desk, world: OAuthServers, browser: str
) -> None:
    assert desk("mcp", "add", "web", world.url).code == 0
    with Upstream([*SAY, *SAY, *SAY, *SAY]) as server:
        refused = desk(*run_words(server), BROWSER=browser)
        assert "web: cannot be used: it needs a login; log in with `dragoman mcp login web`" in refused.err
        with desk.at_terminal(*run_words(server), BROWSER=browser) as terminal:
            terminal.wait_for("[y/N]")
            terminal.type("\n")
            assert terminal.wait() == 0
            assert "its login was not confirmed" in terminal.text
        assert (world.log, world.tokens_seen) == ([], []), "nothing is sent without consent"

        world.seconds = 30
        with desk.at_terminal(*run_words(server), BROWSER=browser) as terminal:
            terminal.wait_for(f"log in at {world.issuer}, for: read")
            terminal.wait_for("[y/N]")
            terminal.type("y\n")
            assert terminal.wait() == 0
            assert "it said hello" in terminal.text
        first = world.refresh
        world.seconds = 3600
        done = desk(*run_words(server))
        assert (done.code, done.out) == (0, "it said hello\n")
        assert world.log[-1] == "POST /token refresh_token" and world.refresh != first
    seen = {token for token in world.tokens_seen if token}
    path = desk.folder / "config" / "dragoman" / "mcp-tokens.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and world.refresh in path.read_text()
    for file in desk.folder.rglob("*"):
        if file.is_file() and file != path:
            content = file.read_bytes()
            assert not any(token.encode() in content for token in (*seen, first, world.refresh)), file
    assert not any(token in done.out + done.err + terminal.text for token in seen)


def test_login_and_logout(
    dragoman: Command, home: Path, world: OAuthServers, browser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROWSER", browser)
    # The browser is not in the folder of the command, where tools can write.
    (home / "work").mkdir()
    monkeypatch.chdir(home / "work")
    dragoman("mcp", "add", "web", world.url)
    refused = dragoman("mcp", "login", "web")
    assert (refused.code, world.log) == (2, []) and "--yes confirms it" in refused.err
    done = dragoman("mcp", "login", "web", "--yes", "--scope", "write")
    assert (done.code, done.out) == (0, "logged in at web, for: write\n"), done.err
    assert f"{world.issuer}/authorize?" in done.err, "the page is shown to a user whose browser does not open"
    assert [each["state"] for each in dragoman("mcp", "list", "--json").data] == ["logged in"]
    tried = dragoman("mcp", "test", "web", "--json").data
    assert [each["name"] for each in tried["tools"]] == ["echo"] and tried["problems"] == []
    assert dragoman("mcp", "test", world.url).code == 0, "the tokens belong to the address"
    assert [dragoman("mcp", "logout", "web").code for _ in range(2)] == [0, 1]
    assert dragoman("mcp", "test", "web").code == 1
    named = dragoman("run", "x", "-m", "custom:m", "--base-url", "http://127.0.0.1:9", "--mcp", f"other={world.url}")
    assert named.code == 2 and "log in with `dragoman mcp login other`" in named.err
    world.answer = {"error": "access_denied"}
    failed = dragoman("mcp", "login", world.url, "--yes")
    assert failed.code == 1 and "the login was refused: access_denied" in failed.err
    world.answer = {}
    assert dragoman("mcp", "login", "web", "--yes").code == 0
    removed = dragoman("mcp", "remove", "web")
    assert removed.code == 0 and "removed the tokens of its login" in removed.out


# ---- settings --------------------------------------------------------------------------------------------------------


def test_servers_are_added_listed_tested_and_removed(dragoman: Command, home: Path) -> None:
    command = faulty("none").command
    assert "there are no MCP servers" in dragoman("mcp", "list").out
    added = dragoman("mcp", "add", "echo", "--env", "TOKEN=${HOME}", "--env", "PLAIN=secret-0001", "--", *command)
    assert added.code == 0 and "try it: dragoman mcp test echo" in added.out
    assert "note: the value of --env PLAIN is saved as it is" in added.err and "secret-0001" not in added.err
    assert dragoman("mcp", "add", "echo", "https://example.org/").code == 2
    listed = dragoman("mcp", "list", "--json").data
    assert [(each["name"], each["state"]) for each in listed] == [("echo", "on")]
    assert "fault_server.py" in listed[0]["command"]
    shown = dragoman("mcp", "test", "echo")
    assert shown.code == 0 and "echo  works, protocol 2025-06-18" in shown.out and "Say it again." in shown.out
    assert dragoman("mcp", "test", " ".join(command)).code == 0
    assert dragoman("mcp", "add", "other", "uvx", "server-time", "--zone=UTC").code == 0
    assert dragoman("mcp", "list", "--json").data[1]["command"] == "uvx server-time --zone=UTC"
    missing = dragoman("mcp", "test", "ecko")
    assert missing.code == 2 and "did you mean 'echo'?" in missing.err
    broken = dragoman("mcp", "test", "/no/such program")
    assert broken.code == 1 and "cannot start '/no/such'" in broken.err
    assert dragoman("mcp", "remove", "echo").code == 0
    gone = dragoman("mcp", "remove", "echo")
    assert gone.code == 2 and "there is no server 'echo'" in gone.err


WRONG: list[tuple[list[str], str]] = [
    (["add", "a b", "https://example.org/"], "is not a valid name"),
    (["add", "a", "http://example.org/"], "is not encrypted"),
    (["add", "a", "https://example.org/", "--env", "A=b"], "--env and --cwd are for a program"),
    (["add", "a", "--header", "A=b", "--", "x"], "are for a URL"),
    (["add", "a", "--header", "A", "https://example.org/"], "is not NAME=VALUE"),
    (["add", "a", "https://example.org/", "--header", "Host=b"], "is set by the protocol"),
    (["add", "a", "'unfinished"], "cannot be read"),
    (["add", "a", "https://example.org/", "--heder", "A=b"], "'--heder' after the URL is not known"),
    (["login", "echo", "--yes"], "is a program, which has no login"),
    (["logout", "nobody"], "there is no MCP server"),
]


def test_mistakes_are_told_and_change_nothing(dragoman: Command, home: Path) -> None:
    path = home / "config" / "dragoman" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("# mine\n[mcp.echo]\ncommand = ['x']\n", encoding="utf-8")
    for words, told in WRONG:
        done = dragoman("mcp", *words)
        assert done.code == 2 and told in done.err and "hint:" in done.err, (words, done.err)
    assert path.read_text(encoding="utf-8") == "# mine\n[mcp.echo]\ncommand = ['x']\n"


FILES = [
    "",
    "# only a comment",
    'model = "a"\n',
    'model = "a" # why\n\n[limits]\nturns = 3   # few\n',
    "[mcp.one]\ncommand = ['x']\n\n# about two\n[mcp.two]\nurl = 'https://a.example/'\n[mcp.two.headers]\nA = 'b'\n",
    "[mcp.old] # mine\ncommand = ['x']\n[mcp.old.env]\nA = 'b'\n# the end",
    "[ mcp . 'old' ]\nurl = 'https://a.example/'\n\n[limits]\nturns = 1\n",
    "[mcp]\n[mcp.old]\ncommand = ['x']\n",
    "[mcp.older]\ncommand = ['[mcp.old]']\n",
]
ROW = {"command": ["a b", 'q"\\'], "env": {"A-B": "${C}", "odd key": "ü"}}


@each_row(("text",), [(text,) for text in FILES])
def test_a_change_of_the_file_keeps_everything_else(text: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("settings") / "config.toml"
    path.write_text(text, encoding="utf-8")
    before = tomllib.loads(text)
    add_table(path, "mcp", "old", ROW)
    added = tomllib.loads(path.read_text(encoding="utf-8"))
    assert added == {**before, "mcp": {**before.get("mcp", {}), "old": ROW}}
    comments = [line.partition("#")[2] for line in text.splitlines() if "#" in line and "old" not in line]
    assert all(comment in path.read_text(encoding="utf-8") for comment in comments)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    remove_table(path, "mcp", "old")
    after = tomllib.loads(path.read_text(encoding="utf-8"))
    rows = {name: row for name, row in before.get("mcp", {}).items() if name != "old"}
    assert {**after, "mcp": after.get("mcp", {})} == {**before, "mcp": rows}
    if "old" not in before.get("mcp", {}):
        assert path.read_text(encoding="utf-8").rstrip() == text.rstrip()


OTHERS = [
    "mcp = { old = { url = 'https://a.example/' } }\n",
    "mcp.old.url = 'https://a.example/'\n",
    "mcp = 3\n",
    "[mcp.old]\ncommand = '''\n[mcp.trap]\n'''\n",
]


@each_row(("text",), [(text,) for text in OTHERS])
def test_a_file_that_is_written_in_another_way_is_left_alone(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("settings") / "config.toml"
    path.write_text(text, encoding="utf-8")
    for change in (lambda: add_table(path, "mcp", "old", ROW), lambda: remove_table(path, "mcp", "old")):
        with pytest.raises(ConfigError, match="cannot be changed automatically") as caught:
            change()
        assert "by hand" in caught.value.next_step and path.read_text() == text


def test_a_link_stays_a_link_and_a_broken_file_stays_as_it_is(tmp_path: Path) -> None:
    real, link = tmp_path / "dotfiles" / "config.toml", tmp_path / "config.toml"
    real.parent.mkdir()
    real.write_text("# mine\n", encoding="utf-8")
    link.symlink_to(real)
    add_table(link, "mcp", "a", {"url": "https://a.example/"})
    assert link.is_symlink() and "# mine\n" in real.read_text()
    real.write_text("broken = [", encoding="utf-8")
    with pytest.raises(ConfigError, match="not TOML"):
        add_table(link, "mcp", "a", {"url": "https://a.example/"})
    assert real.read_text() == "broken = ["


# ---- prompts and lazy start ------------------------------------------------------------------------------------------


def test_a_prompt_of_a_server_is_a_task(dragoman: Command, home: Path, root: Path) -> None:
    pytest.importorskip("mcp", reason="the official SDK of MCP is not installed")
    dragoman("mcp", "add", "weather", "--", sys.executable, str(root / "tests/mcp/sdk_server.py"), "stdio")
    with Upstream(["fine", "fine"]) as server:
        words = ["run", "-m", "custom:scripted", "--base-url", server.url, "-p"]
        done = dragoman(*words, "mcp:weather/travel", "--fill", "city=Rome", "and Paris")
        assert done.code == 0, done.err
        texts = [message.text for message in server.model.requests[0].messages]
        assert any(text.startswith("Plan a journey to Rome.") for text in texts) and texts[-1] == "and Paris"
        missing = dragoman(*words, "mcp:weather/travel")
        assert missing.code == 2 and "--fill city=..." in missing.err, missing.err
        unknown = dragoman(*words, "mcp:weather/travel", "--fill", "city=Rome", "--fill", "dais=3")
        assert unknown.code == 2 and "no placeholder 'dais'; did you mean 'days'?" in unknown.err, unknown.err
        dragoman("mcp", "remove", "weather")
        program = shlex.join([sys.executable, str(root / "tests/mcp/sdk_server.py"), "stdio"])
        given = dragoman(*words, "mcp:here/travel", "--fill", "city=Oslo", "--mcp", f"here={program}")
        assert given.code == 0, given.err
        assert "Plan a journey to Oslo." in server.model.requests[-1].messages[-1].text
    shown = dragoman("prompts", "mcp:weather/travel")
    assert shown.code == 2 and "dragoman mcp test weather" in shown.err, "a name that is no file is not offered as one"


def test_a_server_of_the_settings_starts_when_a_run_calls_it(dragoman: Command, home: Path) -> None:
    log = home / "log"
    dragoman("mcp", "add", "web", "--", *faulty("none", log).command)
    dragoman("mcp", "test", "web")
    log.unlink()
    with Upstream(["nothing to do", *SAY]) as server:
        assert dragoman(*run_words(server)).code == 0
        assert not log.exists(), "a run that does not need the server does not start it"
        done = dragoman(*run_words(server))
        assert done.code == 0 and "hello" in done.err
        assert "tools/call" in log.read_text()
