"""Servers in the configuration of users."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tables import each_row

from dragoman.errors import ConfigError
from dragoman.mcp import HttpServer, StdioServer, connect, read_servers
from dragoman.mcp.stdio import clean_environment


def test_servers_come_from_tables() -> None:
    rows = {
        "files": {"command": ["files-server", "--root", "."], "environment": {"TOKEN": "${MY_TOKEN}"}, "cwd": "src"},
        "issues": {"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${MY_TOKEN}"}},
        "local": {"url": "http://localhost:8000/mcp"},
        "off": {"command": "x", "enabled": False},
    }
    assert read_servers(rows, {"MY_TOKEN": "secret"}) == [
        StdioServer("files", ["files-server", "--root", "."], {"TOKEN": "secret"}, "src"),
        HttpServer("issues", "https://example.org/mcp", {"Authorization": "Bearer secret"}),
        HttpServer("local", "http://localhost:8000/mcp"),
    ]


def test_servers_come_from_the_json_that_many_programs_share() -> None:
    shared = {
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "files-server"], "env": {"A": "${env:B}"}, "type": "stdio"},
            "issues": {"type": "http", "url": "https://example.org/mcp", "alwaysAllow": ["everything"], "timeout": 60},
            "old": {"command": "x", "disabled": True},
        }
    }
    assert read_servers(shared, {"B": "1"}) == [
        StdioServer("files", ["npx", "-y", "files-server"], {"A": "1"}),
        HttpServer("issues", "https://example.org/mcp"),
    ]


BAD: list[tuple[Any, str]] = [
    ({"mcpServers": []}, "not a table"),
    ({"a b": {"command": "x"}}, "'a b' is not a valid name for an MCP server"),
    ({"x" * 33: {"command": "x"}}, "is not a valid name for an MCP server"),
    ({"a/b": {"command": "x"}}, "'a/b' is not a valid name for an MCP server"),
    ({"a": "x"}, "MCP server 'a': not a table"),
    ({"a": {}}, "neither a `command` nor a `url`"),
    ({"a": {"command": "x", "url": "https://b"}}, "both a `command` and a `url`"),
    ({"a": {"comand": "x"}}, "unknown key 'comand'; did you mean 'command'?"),
    ({"a": {"command": "x", "disabled": "yes"}}, "`disabled` is neither true nor false"),
    ({"a": {"command": "x", "enabled": 0}}, "`enabled` is neither true nor false"),
    ({"a": {"command": "x", "headers": {"A": "b"}}}, "`headers` is for a URL"),
    ({"a": {"url": "https://b", "env": {"A": "b"}}}, "`env` is for a program"),
    ({"a": {"url": "https://b", "args": ["--root"]}}, "`args` is for a program"),
    ({"a": {"command": []}}, "`command` is empty"),
    ({"a": {"command": ["x", 3]}}, "`command` is not a list of texts"),
    ({"a": {"command": ["x", "\0"]}}, "`command` is not a list of texts"),
    ({"a": {"command": "x", "args": "y"}}, "`args` is not a list of texts"),
    ({"a": {"command": "x", "cwd": 3}}, "`cwd` is not a path"),
    ({"a": {"command": "x", "env": ["A=1"]}}, "`env` is not a table"),
    ({"a": {"command": "x", "env": {"A": 1}}}, "`env`: the value of 'A' is not a text"),
    ({"a": {"command": "x", "env": {"A": "${NONE}"}}}, "the variable NONE is not set"),
    ({"a": {"url": 3}}, "`url` is not a URL"),
    ({"a": {"url": "http://example.org/mcp"}}, "not encrypted"),
    ({"a": {"url": "http://127.0.0.1.example.org/mcp"}}, "not encrypted"),
    ({"a": {"url": "http://localhost@example.org/mcp"}}, "not encrypted"),
    ({"a": {"url": "file:/etc/passwd"}}, "does not start with https://"),
    ({"a": {"url": "https://b/", "headers": {"Host": "c"}}}, "the header 'Host' is set by the protocol"),
    ({"a": {"url": "https://b/", "headers": {"Mcp-Session-Id": "c"}}}, "is set by the protocol"),
    ({"a": {"url": "https://b/sse", "type": "sse"}}, "the old transport HTTP+SSE (`sse`) is not supported"),
    ({"a": {"url": "https://b/", "type": "websocket"}}, "unknown transport 'websocket'"),
    ({"a_b": {"command": "x"}, "A-B": {"command": "x"}}, "two MCP servers are named 'a_b' and 'A-B'"),
]


@each_row(("rows", "words"), BAD, ids=[f"{number} {words}" for number, (_, words) in enumerate(BAD)])
def test_an_error_in_a_row_names_its_place_and_the_next_step(rows: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_servers(rows, {"KEY": "sk-secret"})
    assert words in str(caught.value)
    assert caught.value.next_step
    assert "sk-secret" not in caught.value.explain()


def test_no_value_that_may_be_secret_is_shown() -> None:
    servers = [
        StdioServer("a", ["program", "--key=sk-in-the-command"], {"TOKEN": "sk-secret"}),
        HttpServer("b", "https://user:sk-secret@example.org/mcp?key=sk-secret", {"Authorization": "Bearer sk-secret"}),
    ]
    assert "sk-" not in repr(servers)
    assert [server.secrets() for server in servers] == [["sk-secret"], ["Bearer sk-secret", "sk-secret"]]


def test_threat_15_the_environment_of_a_server_begins_empty() -> None:
    inherited = {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C", "OPENAI_API_KEY": "k", "SSH_AUTH_SOCK": "s"}
    inherited |= {"LD_PRELOAD": "x", "PYTHONPATH": "x", "TERM": "() { :; }; echo hello"}
    assert clean_environment(inherited, {"TOKEN": "t", "HOME": "/tmp"}) == {
        "PATH": "/bin",
        "HOME": "/tmp",
        "LC_ALL": "C",
        "TOKEN": "t",
    }


def test_servers_that_are_written_in_another_way_are_explained() -> None:
    for make, why in (
        (lambda: StdioServer("a", "files --root ."), "the command is a list of words"),  # type: ignore[arg-type]
        (lambda: StdioServer("a", "it's"), "the command is a list of words"),  # type: ignore[arg-type]
        (lambda: connect(StdioServer("a", ["x"])), "the servers are a list, not StdioServer"),
        (lambda: connect({"a": {"command": "x"}}), "the servers are a list, not dict"),
    ):
        with pytest.raises(ConfigError, match=why):
            make()
