"""`dragoman serve` and `dragoman launch` as processes: the start message, checks, reload, and the end."""

from __future__ import annotations

import http.client
import json
import os
import select
import signal
import socket
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from dragoman.cli.app import run
from dragoman.testing import Fault, Upstream

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
            # Files that cannot be used change nothing, and the log says why.
            old = path.read_text(encoding="utf-8")
            for broken, why in {
                "[[routes": "TOML",
                old.replace('to = "e"', 'to = "nowhere"'): "nowhere",
                f'[gateway]\norigins = ["*"]\n{old}': "origin",
                old.replace("quick", "other").replace('wire = "openai_chat"', 'wire = "x"'): "unknown wire",
            }.items():
                path.write_text(broken, encoding="utf-8")
                process.send_signal(signal.SIGHUP)
                while "not reloaded" not in (line := process.stderr.readline()):
                    assert line, "the log ended before the reload"
                assert why in line, line
                assert {model["id"] for model in fetch(f"{started['url']}/v1/models")["data"]} == names
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def test_a_gateway_uses_the_proxy_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text('[endpoints.far]\nurl = "http://far.invalid/v1"\n[[routes]]\nto = "far"\n', encoding="utf-8")
    with Upstream([]) as proxy:
        monkeypatch.setenv("DRAGOMAN_PROXY", proxy.url.removesuffix("/v1"))
        run(["serve", "--config", str(path), "--check"])
        targets = {received.target.partition("//")[2].partition("/")[0] for received in proxy.received}
    assert targets == {"far.invalid"}


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


def test_launch_gives_a_program_the_file_that_its_argument_names_and_removes_it(tmp_path: Path) -> None:
    """The program stands for pi, which reads its provider from an extension."""
    program = tmp_path / "pi"
    said = f"#!{sys.executable}\nimport sys\nprint(open(sys.argv[2]).read(), *sys.argv[1:], sep='|')\n"
    program.write_text(said, encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with Upstream([]) as upstream:
        path = write_file(tmp_path, upstream.url)
        command = [sys.executable, "-m", "dragoman", "launch", "--config", str(path), "pi", "-p", "FILE"]
        variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
    content, option, file, *others = done.stdout.strip().split("|")
    assert 'pi.registerProvider("dragoman"' in content and "http://127.0.0.1:" in content, done.stderr
    assert option == "--extension" and file.endswith(".js") and not Path(file).exists()
    assert others[-2:] == ["-p", "FILE"], "an argument of the user is no file of ours"


def test_launch_names_the_programs_that_it_knows(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["launch", "--help"]) == 0
    assert '\n    dragoman launch -m local claude -p "list the files here"\n' in capsys.readouterr().out
    assert run(["launch", "-m", "local", "clawd"]) == 2
    assert "claude" in capsys.readouterr().err


WRONG = {
    'to = "e"\nrepair_turns = -1': "repair_turns",
    'to = "e"\n[gateway]\nkeep_alive = 0': "keep_alive",
    'to = "e"\n[gateway]\nkeep_alive = nan': "keep_alive",
    'to = "e"\n[gateway]\nport = 70000': "70000",
    'to = "e"\n[endpoints.e]\nmodel = "m"\nurl = "http://h"\nwire = "openai_chta"': "did you mean 'openai_chat'",
    'to = "e"\n[endpoints.e]\nmodel = "m"\nmax_concurrent = 0': "leave it out",
    'to = "e"\n[endpoints.e]\nwire = "openai_chat"': "neither a model nor a URL",
}


def test_values_that_cannot_work_are_named_with_what_is_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gateway.toml"
    for text, named in WRONG.items():
        row = "" if "[endpoints.e]" in text else '[endpoints.e]\nmodel = "openai:gpt-5"\n'
        path.write_text(f"{row}[[routes]]\n{text}\n", encoding="utf-8")
        assert run(["serve", "--config", str(path), "--check"]) == 2, text
        assert named in capsys.readouterr().err, text
    assert run(["serve", "-m", "local", "--port", "99999"]) == 2
    assert "no such port" in capsys.readouterr().err


def test_a_server_that_does_not_answer_is_a_problem_unless_another_one_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gateway.toml"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    path.write_text(f'[endpoints.a]\nurl = "{nobody}"\n[[routes]]\nto = "a"', encoding="utf-8")
    assert run(["serve", "--config", str(path), "--check"]) == 4
    assert "no server answers" in capsys.readouterr().err
    with Upstream(["Hello."], loop=True) as upstream:
        rows = f'[endpoints.a]\nurl = "{nobody}"\n[endpoints.b]\nurl = "{upstream.url}"\nwire = "openai_chat"\n'
        path.write_text(f'{rows}[[routes]]\nto = ["a", "b"]', encoding="utf-8")
        assert run(["serve", "--config", str(path), "--check"]) == 1
        told = capsys.readouterr()
        assert "* -> a, b" in told.out and "a: no server answers" in told.out + told.err
        with serve("--config", str(path)) as (_, started):
            body = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
            assert fetch(f"{started['url']}/v1/chat/completions", body)["choices"][0]["message"]["content"] == "Hello."
        assert len(upstream.requests) == 1


def test_a_stream_is_finished_after_the_first_signal_and_cut_off_by_the_second(tmp_path: Path) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "stream": True}
    for signals in (1, 2):
        with Upstream([Fault("slow", at=400), "Hello there. " * 30]) as upstream:
            path = write_file(tmp_path, upstream.url)
            with serve("--config", str(path)) as (process, started):
                upstream.go_on()
                upstream.go_on()
                request = urllib.request.Request(f"{started['url']}/v1/chat/completions", json.dumps(body).encode())
                with urllib.request.urlopen(request, timeout=30) as response:
                    assert response.readline().startswith(b"data: ")
                    process.send_signal(signal.SIGINT)
                    wait_until_closed(started["url"])
                    if signals == 1:
                        for _ in range(100):
                            upstream.go_on()
                        assert response.read().endswith(b"data: [DONE]\n\n")
                    else:
                        process.send_signal(signal.SIGINT)
                        assert b"[DONE]" not in read_what_comes(response)
                assert process.wait(20) == 0
                assert process.stderr is not None and "Traceback" not in process.stderr.read()


def read_what_comes(response: http.client.HTTPResponse) -> bytes:
    try:
        return response.read()
    except http.client.IncompleteRead as cut:
        return cut.partial


def wait_until_closed(url: str) -> None:
    """Connect until nobody listens."""
    address = urlsplit(url)
    for _ in range(100_000):
        try:
            socket.create_connection((address.hostname or "", address.port or 0), 5).close()
        except OSError:
            return
    raise AssertionError("the gateway still listens")


SLEEPER = """#!{python}
import os, signal, sys
print(os.getpid(), flush=True)
signal.pause()
"""


def test_launch_passes_signals_on_and_leaves_nothing_behind(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text(SLEEPER.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    with Upstream([]) as upstream:
        path = write_file(tmp_path, upstream.url)
        command = [sys.executable, "-m", "dragoman", "launch", "--config", str(path), "claude"]
        variables = {**os.environ, "PATH": str(tmp_path), "TMPDIR": str(tmp_path / "temporary")}
        (tmp_path / "temporary").mkdir()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as launched:
                assert launched.stdout is not None
                child = int(launched.stdout.readline())
                launched.send_signal(number)
                assert launched.wait(20) == 128 + number
            with pytest.raises(ProcessLookupError):
                os.kill(child, 0)
        assert list((tmp_path / "temporary").iterdir()) == []
        program.write_bytes(b"\x00\x01")
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and "cannot start" in done.stderr and "Traceback" not in done.stderr


PARENT = """#!{python}
import os, signal, subprocess, sys
for name in {ignored}:
    signal.signal(getattr(signal, name), signal.SIG_IGN)
below = subprocess.Popen([sys.executable, "-c", "import signal; print('below', flush=True); signal.pause()"])
print("above", flush=True)
below.wait()
signal.pause()
"""


def kill_launch(folder: Path, ignored: tuple[str, ...]) -> None:
    """Kill the command while its program runs. The program and the one below it hold its output open."""
    program = folder / "claude"
    program.write_text(PARENT.format(python=sys.executable, ignored=ignored), encoding="utf-8")
    program.chmod(0o755)
    (folder / "temporary").mkdir(exist_ok=True)
    with Upstream([]) as upstream:
        path = write_file(folder, upstream.url)
        command = [sys.executable, "-m", "dragoman", "launch", "--config", str(path), "claude"]
        variables = {**os.environ, "PATH": str(folder), "TMPDIR": str(folder / "temporary")}
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, start_new_session=True) as launched:
            assert launched.stdout is not None
            assert {launched.stdout.readline(), launched.stdout.readline()} == {b"above\n", b"below\n"}
            launched.kill()
            assert launched.wait(20) == -signal.SIGKILL
            ended, _, _ = select.select([launched.stdout], [], [], 20)
            assert ended and launched.stdout.read() == b"", "a program is left"


def test_a_killed_launch_leaves_no_program_behind(tmp_path: Path) -> None:
    kill_launch(tmp_path, ())


@pytest.mark.full
def test_a_killed_launch_leaves_no_stubborn_program_behind(tmp_path: Path) -> None:
    kill_launch(tmp_path, ("SIGTERM", "SIGHUP", "SIGINT"))


def test_launch_and_serve_use_the_key_of_an_endpoint_that_needs_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The endpoint is a gateway with keys. The program has a key of its own, which goes no further."""
    program = tmp_path / "claude"
    program.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    file = str(tmp_path / "keys.json")
    assert run(["serve", "keys", "add", "laptop", "--keys", file]) == 0
    key = capsys.readouterr().out.strip()
    with Upstream(["Hello from the model."], loop=True) as upstream:
        path = write_file(tmp_path, upstream.url)
        with serve("--config", str(path), "--keys", file) as (_, started):
            to = f"{started['url']}/v1"
            command = [sys.executable, "-m", "dragoman", "launch", "--to", to, "--key-env", "FIRST_KEY", "claude"]
            variables = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "FIRST_KEY": key}
            done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, done.stdout.strip()) == (7, "Hello from the model."), done.stderr
            monkeypatch.setenv("FIRST_KEY", key)
            assert run(["serve", "--to", to, "--key-env", "FIRST_KEY", "--check"]) == 0
            assert key not in capsys.readouterr().out
    assert run(["serve", "--to", "http://localhost:1", "--key-env", "NO_SUCH_KEY"]) == 2
    assert "NO_SUCH_KEY" in capsys.readouterr().err
    assert run(["serve", "-m", "local", "--key-env", "FIRST_KEY"]) == 2
    assert "--to" in capsys.readouterr().err


def test_launch_says_where_the_endpoint_belongs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "claude"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["launch", "claude", "--to", "http://localhost:1"]) == 2
    assert "dragoman launch --to URL claude" in capsys.readouterr().err
