"""`dragoman serve` and `dragoman launch` as processes: the start message, checks, reload, and the end."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.app import run
from dragoman.testing import Upstream

SAID = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def write_file(folder: Path, url: str, alias: str = "fast") -> Path:
    path = folder / "gateway.toml"
    row = f'[endpoints.e]\nurl = "{url}"\nwire = "openai_chat"\nmodel = "m"\ntool_mode = "native"\n'
    path.write_text(f'{row}[[routes]]\nto = "e"\n[aliases]\n{alias} = "m"\n', encoding="utf-8")
    return path


@contextmanager
def serve(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """Run the command, and read its start message."""
    command = [sys.executable, "-m", "dragoman", "serve", "--port", "0", "--json", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def fetch(url: str, body: Any = None) -> Any:
    data = json.dumps(body).encode() if body is not None else None
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=30) as response:
        return json.loads(response.read())


def test_a_gateway_starts_answers_reloads_and_ends(tmp_path: Path) -> None:
    with Upstream([SAID]) as upstream:
        path = write_file(tmp_path, upstream.url)
        with serve("--config", str(path)) as (process, started):
            assert started["endpoints"]["e"]["wire"] == "openai_chat"
            tool = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
            body = {
                "model": "fast",
                "messages": [{"role": "user", "content": "Go."}],
                "tools": [{"type": "function", "function": tool}],
            }
            reply = fetch(f"{started['url']}/v1/chat/completions", body)
            assert reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "weather"
            write_file(tmp_path, upstream.url, "quick")
            process.send_signal(signal.SIGHUP)
            assert process.stderr is not None
            while "reloaded" not in (line := process.stderr.readline()):
                assert line, "the log ended before the reload"
            names = {model["id"] for model in fetch(f"{started['url']}/v1/models")["data"]}
            assert names == {"m", "quick"}
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def test_check_names_what_is_wrong_and_where_each_route_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    path = tmp_path / "gateway.toml"
    path.write_text('[[routes]]\nto = "openai:gpt-5"\n', encoding="utf-8")
    assert run(["serve", "--config", str(path), "--check"]) == 1
    told = capsys.readouterr()
    assert "OPENAI_API_KEY" in told.out + told.err and "1 problem" in told.out
    path.write_text('[[routes]]\nto = "nowhere"\n', encoding="utf-8")
    assert run(["serve", "--config", str(path), "--check"]) == 2
    assert "nowhere" in capsys.readouterr().err


def test_a_gateway_without_an_endpoint_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve"]) == 2
    assert "--to" in capsys.readouterr().err
    assert run(["serve", "-m", "local", "--profile", "wild"]) == 2
    assert "compat" in capsys.readouterr().err


def test_keys_are_made_listed_and_revoked_while_a_gateway_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "keys.json")
    assert run(["serve", "keys", "list", "--keys", file]) == 0
    assert "serve keys add" in capsys.readouterr().out
    limits = ["--expires", "30d", "--requests-per-minute", "50", "--dollars-per-day", "2.5"]
    assert run(["serve", "keys", "add", "laptop", "--keys", file, *limits]) == 0
    key = capsys.readouterr().out.strip()
    assert run(["serve", "keys", "add", "phone", "--keys", file, "--json"]) == 0
    other = json.loads(capsys.readouterr().out)["key"]
    for shown in ([], ["--json"]):
        assert run(["serve", "keys", "list", "--keys", file, *shown]) == 0
        out = capsys.readouterr().out
        assert "laptop" in out and "2.5" in out and key not in out and "digest" not in out
    for wrong in (["add", "laptop"], ["add", "x", "--expires", "soon"], ["add", "x", "--max-concurrent", "0"]):
        assert run(["serve", "keys", *wrong, "--keys", file]) == 2
    assert "hint" in capsys.readouterr().err
    with Upstream(["Hello."], loop=True) as upstream:
        path = write_file(tmp_path, upstream.url)
        with serve("--config", str(path), "--keys", file) as (process, started):

            def status(sent: str) -> int:
                request = urllib.request.Request(f"{started['url']}/v1/models", headers={"x-api-key": sent})
                try:
                    with urllib.request.urlopen(request, timeout=30) as response:
                        return int(response.status)
                except urllib.error.HTTPError as error:
                    with error:
                        return error.code

            assert (status(key), status(other), status("")) == (200, 200, 401)
            assert run(["serve", "keys", "revoke", "laptop", "--keys", file]) == 0
            assert (status(key), status(other)) == (401, 200)
            # Settings that are read again do not end the need for a key.
            path.write_text(f"[gateway]\nkeys = false\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
            process.send_signal(signal.SIGHUP)
            assert process.stderr is not None
            while "reloaded" not in (line := process.stderr.readline()):
                assert line, "the log ended before the reload"
            assert (status(key), status(other), status("")) == (401, 200, 401)
    assert run(["serve", "keys", "revoke", "laptop", "--keys", file]) == 2


def test_an_address_that_others_reach_needs_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert run(["serve", "-m", "ollama:m", "--host", "0.0.0.0"]) == 2
    assert "dragoman serve keys add" in capsys.readouterr().err


PROGRAM = """#!{python}
import json, os, sys, urllib.request
body = {{"model": "x", "max_tokens": 9, "messages": [{{"role": "user", "content": "Go."}}]}}
url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
request = urllib.request.Request(url, json.dumps(body).encode(), {{"x-api-key": os.environ["ANTHROPIC_API_KEY"]}})
print(json.loads(urllib.request.urlopen(request).read())["content"][0]["text"], *sys.argv[1:])
sys.exit(7)
"""


def test_launch_starts_a_program_with_a_gateway_and_returns_its_exit_code(tmp_path: Path) -> None:
    """The program stands for Claude Code: it reads the same variables."""
    program = tmp_path / "claude"
    program.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with Upstream(["Hello from the model."]) as upstream:
        path = write_file(tmp_path, upstream.url)
        command = [sys.executable, "-m", "dragoman", "launch", "--config", str(path), "claude", "-p", "--odd=1"]
        variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 7, done.stderr
    assert done.stdout.strip() == "Hello from the model. -p --odd=1"


def test_launch_names_the_programs_that_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["launch", "-m", "local", "clawd"]) == 2
    assert "claude" in capsys.readouterr().err
