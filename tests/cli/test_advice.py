"""Errors say what to do in the command line, what they advise works, and no option or command is left unexplained."""

from __future__ import annotations

import json
import re
import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from dragoman.cli.app import COMMANDS
from dragoman.testing import Upstream, call

TOOLS = """\
import dragoman

@dragoman.tool(requires_approval=True)
def wipe(name: str) -> str:
    "Wipe a disk."
    return f"wiped {name}"
"""
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of one's own without keys, which is also the current folder."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "DRAGOMAN_MODEL"):
        monkeypatch.delenv(name, raising=False)
    for name, folder in (("HOME", ""), ("XDG_STATE_HOME", "state"), ("XDG_CONFIG_HOME", "config")):
        monkeypatch.setenv(name, str(tmp_path / folder))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wipe.py").write_text(TOOLS, encoding="utf-8")
    return tmp_path


# ---- names of models -------------------------------------------------------------------------------------------------


def test_names_of_models_resolve_or_are_suggested(dragoman: Any, home: Path) -> None:
    rows = [
        *((name, "there is no key for openai", "") for name in ("gpt-4o", "openai/gpt-4o", "openai:gpt-4o", "GPT-4o")),
        ("o3", "there is no key for openai", ""),
        ("claude-sonnet-4-5", "there is no key for anthropic", ""),
        ("anthropic/claude-sonnet-4-5", "there is no key for anthropic", ""),
        ("gemini-2.5-flash", "there is no key for gemini", ""),
        ("qwen3", "unknown model 'qwen3'", "ollama:qwen3 or openrouter:qwen3"),
        ("opnai:gpt-4o", "did you mean 'openai'?", "dragoman providers"),
        ("opnai/gpt-4o", "did you mean 'openai'?", "dragoman providers"),
        ("openrouter", "unknown model 'openrouter'", "openrouter:MODEL"),
        ("http://localhost:8000/v1", "unknown model 'http://localhost:8000/v1'", "--base-url"),
        ("nothing-like-it", "unknown model 'nothing-like-it'", "ollama:qwen3"),
        ("gpt 4o", "a name with a blank; did you mean gpt-4o?", "--help"),
        ("openai: gpt  4o", "did you mean openai:gpt-4o?", "--help"),
        ("claude sonnet 4.5", "did you mean claude-sonnet-4.5?", "--help"),
        ("no such thing", "a name with a blank", "--help"),
        ("gpt4o", "did you mean 'gpt-4o'?", "gpt-4o"),
        ("calude-sonnet-4-5", "did you mean 'claude-sonnet-4-5'?", "claude-sonnet-4-5"),
        ("gemni-2.5-flash", "did you mean 'gemini-2.5-flash'?", "gemini-2.5-flash"),
        ("openai:", "a name without a model", "--help"),
        (":gpt-4o", "a name without a provider", "--help"),
    ]
    for name, words, hint in rows:
        done = dragoman("run", "hi", "-m", name)
        error, step = done.err.splitlines()
        assert (done.code, words in error, hint in step) == (2, True, True), (name, done)
        # A hint is one line that a person reads, and about the command line.
        assert len(step) < 160 and "key=" not in step, step


# ---- what is left behind, and what is resumed ------------------------------------------------------------------------


def test_a_missing_key_or_package_leaves_no_run_behind(
    dragoman: Any, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = dragoman("run", "hi", "-m", "openai:gpt-5", "--session", "trip")
    assert done.code == 2 and "give the key with --key @FILE" in done.err
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    done = dragoman("run", "hi", "-m", "local", "--session", "trip")
    assert done.code == 2 and 'pip install "dragoman[local]"' in done.err
    assert dragoman("sessions", "list", "--json").data == []
    assert "there is no unfinished run" in dragoman("run", "--resume").err


def test_the_run_that_was_answered_is_resumed(dragoman: Any, home: Path) -> None:
    """Of two runs that wait, the later one would only wait again."""
    script = [call("wipe", name="first"), call("wipe", name="second"), "Done."]
    with Upstream(script) as upstream:
        options = ("-m", "llamacpp:m", "--base-url", upstream.url, "-t", "wipe.py", "--builtin", "none")
        for task in ("one", "two"):
            assert dragoman("run", task, *options).code == 5
        first, second = sorted(dragoman("approvals", "list", "--json").data, key=lambda each: each["asked"])
        assert dragoman("approvals", "approve", first["id"]).code == 0
        done = dragoman("run", "--resume", *options)
        assert (done.code, done.out) == (0, "Done.\n") and f"resuming {first['run_id']}" in done.err
        waiting = dragoman("run", "--resume", *options)
        assert waiting.code == 5 and f"resuming {second['run_id']}" in waiting.err


# ---- a damaged journal -----------------------------------------------------------------------------------------------


def test_the_advice_about_a_damaged_journal_works(dragoman: Any, home: Path) -> None:
    import sqlite3

    journal = home / "state" / "dragoman" / "journal.db"
    with Upstream(["Hello.", "Hello again."]) as upstream:
        options = ("-m", "llamacpp:m", "--base-url", upstream.url, "--builtin", "none")
        assert dragoman("run", "hi", *options, "--session", "trip").code == 0
        with sqlite3.connect(journal) as store:
            store.execute("DROP TRIGGER records_stay")
            store.execute("UPDATE records SET body = x'00' WHERE number = 0")
        store.close()
        error, hint = dragoman("sessions", "show", "trip").err.splitlines()
        assert "is damaged" in error
        words = shlex.split(hint.rpartition("delete the session: dragoman ")[2])
        assert dragoman(*words, "--yes").code == 0
        journal.write_bytes(b"this is no database" * 100)
        for suffix in ("-wal", "-shm"):
            journal.with_name(journal.name + suffix).unlink(missing_ok=True)
        error, hint = dragoman("sessions", "list").err.splitlines()
        assert "is damaged" in error and "delete the session" not in hint
        _, source, target = shlex.split(hint.rpartition(": ")[2])
        Path(source).rename(target)
        assert dragoman("run", "hi", *options).code == 0


# ---- hints about the right place -------------------------------------------------------------------------------------


@pytest.fixture
def plain_port() -> Iterator[str]:
    """The address of a server that answers everything in plain HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(100)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join(30)


def test_hints_are_about_the_command_line(dragoman: Any, home: Path, plain_port: str) -> None:
    none = ("--builtin", "none", "--no-journal", "-o", "max_tokens=5")
    rows = [
        (("run", "hi", "-m", "openai:x", "-o", "temperature=warm"), "a number from 0 to 2", "--option temperature=1"),
        (("run", "hi", "-m", "openai:x", "--seconds", "soon"), "--seconds must be", "--seconds 10"),
        (("run", "hi", "-m", "openai:x", "--mode", "wild"), "'wild' is not one of", "dragoman run --help"),
        (("run", "hi", "--wire", "x"), "no such option", "dragoman run --help"),
        (("sessions", "fork", "a", "b", "-t", "1"), "no such option: -t", "dragoman sessions fork --help"),
        (("convert", "--from", "foo", "--to", "openai", "x"), "unknown provider 'foo'", "dragoman providers"),
        (("run", "hi", "-m", "custom:m", "--base-url", f"https://{plain_port}", *none), "does not use TLS", ""),
        (("models", f"https://{plain_port}"), "does not use TLS", ""),
        (("run", "hi", "-m", "llamacpp:m", "--base-url", "http://127.0.0.1:1", *none), "nothing listens", "running"),
        (("run", "hi", "-m", "openai:x", "--schema", '{"type": 5}'), "not a valid JSON Schema", "for example"),
        (("run", "hi", "-m", "openai:x", "--schema", "[1]"), "cannot read [1]", "path"),
        (("run", "hi", "-m", "openai:x", "--key", "@nowhere"), "cannot read", "path"),
        (("run", "hi", "-m", "ollama:x", "--fallback", "opnai:x"), "did you mean 'openai'?", "dragoman providers"),
        (("run", "hi", "-m", "ollama:x", "--mcp", "no-such-program x"), "cannot start", "command or the URL"),
        (("models", "local"), "runs in this process", "dragoman local list"),
        (("keys", "opnai"), "did you mean 'openai'?", "dragoman providers"),
    ]
    for arguments, words, hint in rows:
        done = dragoman(*arguments)
        shown = done.err.splitlines()
        found = next((n for n, line in enumerate(shown) if line.startswith("error: ") and words in line), None)
        assert done.code and found is not None, (arguments, done)
        step = next((line for line in shown[found:] if line.startswith("hint: ")), "")
        assert hint in step and len(step) < 200, (arguments, step)
        assert not any(word in step for word in ("key=", "Limits(", "Connection(", "journal=", "--resume")), step


def test_a_server_that_is_off_gives_the_same_exit_code_with_and_without_a_model(dragoman: Any, home: Path) -> None:
    address = ("--base-url", "http://127.0.0.1:1")
    for arguments in (("run", "hi", "-m", "llamacpp:m", *address), ("run", "hi", "-m", "llamacpp", *address)):
        done = dragoman(*arguments)
        assert done.code == 4 and "nothing listens" in done.err, done


# ---- new options and commands ----------------------------------------------------------------------------------------


def test_an_answer_of_a_form_a_fallback_and_a_key(dragoman: Any, home: Path) -> None:
    (home / "place.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (home / "key").write_text("sk-from-a-file-0001\n", encoding="utf-8")
    with Upstream([call("final_answer", answer={"city": "Paris"}), "Hello."]) as upstream:
        options = ("-m", "llamacpp:m", "--base-url", upstream.url, "--builtin", "none", "--no-journal")
        done = dragoman("run", "Where is the Louvre?", *options, "--schema", "place.json", "--key", "@key")
        assert (done.code, done.data) == (0, {"city": "Paris"})
        assert upstream.received[-1].headers["authorization"] == "Bearer sk-from-a-file-0001"
        (home / "config" / "dragoman").mkdir(parents=True)
        row = f'[providers.up]\nbase_url = "{upstream.url}"\n[retries]\nattempts = 1\n'
        (home / "config" / "dragoman" / "config.toml").write_text(row, encoding="utf-8")
        down = ("-m", "llamacpp:m", "--base-url", "http://127.0.0.1:1", "--builtin", "none", "--no-journal")
        done = dragoman("run", "Hello?", *down, "--fallback", "up:m")
    assert (done.code, done.out) == (0, "Hello.\n"), done.err


def test_keys_are_found_and_never_shown(dragoman: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-0001")
    monkeypatch.setenv("MY_GROQ", "sk-of-groq-0002")
    (home / "key").write_text("sk-of-mistral-0003", encoding="utf-8")
    (home / "key").chmod(0o600)
    (home / "config" / "dragoman").mkdir(parents=True)
    path = home / "config" / "dragoman" / "config.toml"
    rows = f'groq = {{ env = "MY_GROQ" }}\nmistral = {{ file = "{home}/key" }}\ncohere = {{ env = "NOT_SET" }}\n'
    path.write_text(f'[keys]\n{rows}xai = "sk-of-xai-0004"\n', encoding="utf-8")
    path.chmod(0o600)
    found = {each["provider"]: each for each in dragoman("keys", "--json").data}
    assert found["openai"]["found"] == "$OPENAI_API_KEY"
    assert found["groq"]["found"].startswith("$MY_GROQ, which ")
    assert found["mistral"]["found"].startswith(f"the file {home}/key")
    assert "config.toml" in found["xai"]["found"]
    assert found["cohere"]["found"] is None and "NOT_SET" in found["cohere"]["problem"]
    assert "deepseek" not in found and "deepseek" in {
        each["provider"] for each in dragoman("keys", "--all", "--json").data
    }
    one = dragoman("keys", "openai")
    assert (one.code, one.out) == (0, "openai  $OPENAI_API_KEY\n")
    assert dragoman("keys", "deepseek").code == 1
    shown = "".join(dragoman(*words).out for words in (("keys",), ("keys", "--all"), ("keys", "--json")))
    assert "sk-of-" not in shown


def test_models_of_an_endpoint(dragoman: Any, home: Path) -> None:
    from tests.doctor.clinic import Clinic

    listed = {"data": [{"id": "small", "max_model_len": 8192}, {"id": "b\u202eig"}]}
    with Upstream(Clinic(pages={"/v1/models": listed})) as upstream:
        for target in ((upstream.url,), ("llamacpp", "--base-url", upstream.url)):
            done = dragoman("models", *target)
            assert done.code == 0 and "small" in done.out and "8,192" in done.out, done
            assert "b\\u202eig" in done.out and "2 models at" in done.out
            data = dragoman("models", *target, "--json").data
            assert [each["id"] for each in data["models"]] == ["small", "b\u202eig"]


def test_secrets_are_scrubbed_and_counted(dragoman: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    text = f'{{"token": "{token}", "note": "[redacted:earlier]"}}\n'
    done = dragoman("scrub", stdin=text.encode())
    assert (done.code, token in done.out) == (0, False)
    assert json.loads(done.out) == {"token": "[redacted:github_token]", "note": "[redacted:earlier]"}
    assert done.err == "1 secret hidden: 1 github_token\n"
    (home / "a.log").write_text(text, encoding="utf-8")
    assert (dragoman("scrub", "--check", "a.log").code, dragoman("scrub", "--check", "a.log").out) == (1, "")
    assert dragoman("scrub", stdin=b"nothing here\n").err == "no secret found\n"


def test_a_text_is_found_in_the_sessions(dragoman: Any, home: Path) -> None:
    with Upstream(["The train to Rome leaves at nine.", "No."]) as upstream:
        options = ("-m", "llamacpp:m", "--base-url", upstream.url, "--builtin", "none")
        dragoman("run", "When does it leave?", *options, "--session", "trip")
        dragoman("run", "Anything else?", *options, "--session", "other")
    (match,) = dragoman("sessions", "search", "TRAIN to rome", "--json").data
    assert (match["session"], match["turn"], match["in"]) == ("trip", 1, "text")
    assert match["excerpt"] == "The train to Rome leaves at nine."
    shown = dragoman("sessions", "search", "anything")
    assert shown.code == 0 and shown.out.startswith("other  run_") and "Anything else?" in shown.out
    assert dragoman("sessions", "search", "absent").code == 1


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_lists_fit_into_the_terminal(dragoman: Any, home: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    with Upstream(["Hello."]) as upstream:
        options = ("-m", "llamacpp:m", "--base-url", upstream.url, "--builtin", "none", "--session", "trip")
        assert dragoman("run", "A task of a few more words than fit into a line of forty columns", *options).code == 0
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (("providers",), ("formats",), ("keys", "--all"), ("sessions", "list"), ("audit", "show")):
        done = dragoman(*words)
        lines = re.sub(r"\x1b\[[0-9;]*m", "", done.out).splitlines()
        assert done.code == 0 and max(map(len, lines)) <= columns, (words, max(lines, key=len))
        # A table that does not fit loses columns or becomes a list: no cell continues on another row.
        table = lines[: lines.index("")] if "" in lines else lines
        assert not any(line.startswith("... ") for line in table), words


# ---- help ------------------------------------------------------------------------------------------------------------


def _pages() -> Iterator[tuple[str, Any]]:
    for row in COMMANDS:
        yield from _pages_of(row.name, row.load())


def _pages_of(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield name, command
    for inner, each in getattr(command, "commands", {}).items():
        yield from _pages_of(f"{name} {inner}", each)


def test_every_command_teaches_with_an_example_and_t_means_tools() -> None:
    letters: dict[str, set[str]] = {}
    for name, command in _pages():
        context = typer.Context(command, info_name=name)
        page = command.get_help(context)
        if " " not in name:
            assert f"dragoman {name}" in page and "xample" in page, name
        for parameter in command.params:
            for each in parameter.opts:
                if each == "-t":
                    letters.setdefault(each, set()).update(each for each in parameter.opts if each.startswith("--"))
    assert letters == {"-t": {"--tools"}}


def test_the_value_of_each_option_has_a_name_and_not_a_type() -> None:
    named = [name for name, command in _pages() if "<str>" in command.get_help(typer.Context(command, info_name=name))]
    assert named == []


def test_the_options_of_a_run_are_grouped_and_have_defaults(dragoman: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (40, 80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        page = dragoman("run", "--help").out
        heads = [line.rstrip(":") for line in page.splitlines() if line.endswith(":") and not line.startswith(" ")]
        groups = ["Arguments", "Output", "Model", "Tools", "Task and session", "Permissions", "Limits", "Options"]
        assert sorted(heads) == sorted(groups), heads
        assert "[default: 10]" in " ".join(page.split())


def test_every_help_fits_the_terminal_and_loses_no_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paragraphs, examples, tables of exit codes and the choices of options."""
    words: dict[str, list[str]] = {}
    for width in (120, 80, 40):
        monkeypatch.setenv("COLUMNS", str(width))
        for name, command in _pages():
            page = command.get_help(command.context_class(command, info_name=name, max_content_width=100))
            # A path is not divided, so that it can be copied.
            wide = [line for line in page.splitlines() if len(line) > width and " " in line.strip()]
            assert wide == [], (name, width)
            # A row may end behind a bar or a hyphen.
            read = "".join(page.split())
            assert words.setdefault(name, [read]) == [read], (name, width)
