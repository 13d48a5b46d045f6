"""`dragoman doctor` on servers of this machine: what it shows, what it keeps, and what a run makes of it."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.cli.commands import Desk
from tests.doctor.clinic import MODELS, Clinic, answer_well
from tests.doctor.test_scripted_servers import (
    SERVERS,
    ignore_the_limit,
    ignore_tool_choice,
    leave_out_the_last_frame,
    refuse_tools,
)

from dragoman.testing import Upstream
from dragoman.testing.script import Scripted
from dragoman.types import Request

PROPS = {"default_generation_settings": {"n_ctx": 32768}}
TOOLS = """\
import dragoman

@dragoman.tool
def get_weather(city: str) -> str:
    "The weather in a city."
    return "sunny"
"""
LLAMA = {"/v1/models": MODELS, "/props": PROPS}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def learned(desk: Desk) -> list[dict[str, Any]]:
    path = desk.folder / "config" / "dragoman" / "learned.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")).get("facts", []) if path.exists() else []


def test_a_healthy_server_by_its_address_alone(desk: Desk) -> None:
    with Upstream(Clinic(pages=LLAMA)) as upstream:
        done = desk("doctor", upstream.url.removesuffix("/v1"))
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == f"llamacpp:scripted at {upstream.url} (openai_chat)"
    assert lines[1] == "at most 19 requests of at most 1024 tokens each"
    assert "  works    native calls         the call is in its own field" in lines
    assert "nothing is broken" in done.out
    assert f'next: dragoman run -m llamacpp:scripted --base-url {upstream.url} "Hello"' in lines
    assert [(row["url"], row["model"], row["source"]) for row in learned(desk)] == [
        (upstream.url, "scripted", "doctor")
    ]


def test_faults_are_named_with_their_fix_and_kept(desk: Desk) -> None:
    with Upstream(Clinic(ignore_tool_choice, pages=LLAMA, apply_fault=leave_out_the_last_frame)) as upstream:
        done = desk("doctor", upstream.url)
    assert done.code == 0, "dragoman copes with all of it, so nobody has to do anything"
    # The reason and a clean end of the body are an end: the last frame of this server is not missed.
    assert "  works    stream end" in done.out
    assert "nothing is broken; dragoman handles 3 deviations" in done.out
    assert "broken   " not in done.out and "fix:" not in done.out
    assert learned(desk)[0]["quirks"] == {"context_window": 32768, "tool_choice": ["auto"]}


def test_what_needs_a_person_is_broken_and_the_advice_works(desk: Desk) -> None:
    """The token limit is ignored; and a model that a row of one's own does not have."""
    with Upstream(Clinic(ignore_the_limit, pages=LLAMA)) as upstream:
        desk.write("config/dragoman/config.toml", f'[providers.mine]\nbase_url = "{upstream.url}"\n')
        done = desk("doctor", "mine:another", "--no-save")
        assert done.code == 1
        assert "  absent   models               it lists 1 model, but not this one" in done.out
        assert "  broken   length               the token limit is ignored" in done.out
        assert "fix: set the quirk max_tokens_field" in done.out and "1 thing is broken" in done.out
        advice = desk("providers", "mine:another")
        assert (advice.code, advice.err) == (0, "") and upstream.url in advice.out


def test_json_for_a_program(desk: Desk) -> None:
    with Upstream(Clinic(refuse_tools, pages=LLAMA)) as upstream:
        done = desk("doctor", "llamacpp:scripted", "--base-url", upstream.url, "--json", "--quick", "--no-save")
    assert (done.code, done.err) == (0, "")
    data = msgspec.json.decode(done.out)
    assert data["model"] == "llamacpp:scripted"
    assert data["faults"] == []
    assert data["saved"] is None
    assert {found["probe"]: found["verdict"] for found in data["findings"]}["native_calls"] == "absent"
    assert data["fact"]["native_tool_calls"] is False
    assert learned(desk) == []


def test_a_run_goes_by_what_the_doctor_found(desk: Desk) -> None:
    """A model whose family has native calls, at a server that refuses them: without the fact it is asked twice."""
    desk.write("tools.py", TOOLS)
    pages = {"/v1/models": {"data": [{"id": "qwen3", "max_model_len": 32768}]}, "/props": PROPS}
    server = Clinic(refuse_tools, pages=pages)
    with Upstream(server) as upstream:
        desk("doctor", upstream.url, "--quick")
        before = len(server.bodies)
        done = desk(
            "run", "Hello", "-m", "llamacpp:qwen3", "--base-url", upstream.url, "-t", "tools.py", "--turns", "1"
        )
    asked = server.bodies[before:]
    assert asked, done.err
    assert not any("tools" in body for body in asked)


def test_what_a_run_learns_is_there_for_the_next_one(desk: Desk) -> None:
    desk.write("tools.py", TOOLS)

    def refuse(request: Request, body: dict[str, Any]) -> Scripted:
        return refuse_tools(request, body) if request.tools else "Hello."

    server = Clinic(refuse, pages={})
    with Upstream(server) as upstream:
        arguments = ("run", "Hello", "-m", "llamacpp:qwen3", "--base-url", upstream.url, "-t", "tools.py")
        assert desk(*arguments).out == "Hello.\n"
        assert ["tools" in body for body in server.bodies] == [True, False]
        assert [(row["model"], row["source"], row["native_tool_calls"]) for row in learned(desk)] == [
            ("qwen3", "run", False)
        ]
        assert desk(*arguments).out == "Hello.\n"
        assert ["tools" in body for body in server.bodies] == [True, False, False]


def test_forgetting(desk: Desk) -> None:
    with Upstream(Clinic(pages=LLAMA)) as upstream:
        desk("doctor", upstream.url, "--quick")
        assert len(learned(desk)) == 1
        assert desk("doctor", upstream.url, "--forget").out.startswith("deleted: llamacpp:scripted")
        assert learned(desk) == []
        assert desk("doctor", upstream.url, "--forget").out.startswith("nothing was saved")


def test_a_key_by_the_name_of_its_variable(desk: Desk) -> None:
    with Upstream(Clinic()) as upstream:
        done = desk("doctor", upstream.url, "--quick", "--key-env", "BOX_KEY", BOX_KEY="sk-secret-0001")
        assert done.code == 0, done.err
        assert {each.headers.get("authorization") for each in upstream.received} == {"Bearer sk-secret-0001"}
    assert "sk-secret" not in done.out + done.err
    assert not any("sk-secret" in str(row) for row in learned(desk))


@pytest.mark.parametrize(
    ("arguments", "code", "words", "hint"),
    [
        ((), 2, "there is no endpoint to examine", "dragoman doctor provider:model"),
        (("http://127.0.0.1:1",), 4, "no server answers at http://127.0.0.1:1", "start the server"),
        (("no_such:model",), 2, "unknown provider 'no_such'", "dragoman providers"),
        (("openai:gpt-5", "--wire", "gemini"), 2, "gemini", "openai has"),
        (("ollama:qwen3", "--key-env", "NOT_SET"), 2, "NOT_SET is not set", "--key-env"),
    ],
)
def test_misuse_ends_in_one_line_and_a_hint(
    desk: Desk, arguments: tuple[str, ...], code: int, words: str, hint: str
) -> None:
    done = desk("doctor", *arguments)
    assert done.code == code
    error, step = done.err.splitlines()
    assert words in error
    assert hint in step


def test_a_provider_that_does_not_answer_is_told_from_a_fault(desk: Desk) -> None:
    done = desk("doctor", "llamacpp:m", "--base-url", "http://127.0.0.1:1")
    assert done.code == 4
    assert "broken   reachable            no server answers" in done.out
    assert "context" not in done.out and "models" not in done.out, "a server that never answered has no properties"
    assert "it did not answer" in done.out
    assert learned(desk) == []


def test_the_model_of_the_settings_is_the_default(desk: Desk) -> None:
    with Upstream(Clinic(pages=LLAMA)) as upstream:
        desk.write("config/dragoman/config.toml", f'model = "mine:m"\n[providers.mine]\nbase_url = "{upstream.url}"\n')
        done = desk("doctor", "--quick")
        assert done.out.startswith(f"mine:m at {upstream.url}"), done.err
        named = desk("doctor", "mine", "--quick")
        assert named.out.startswith(f"mine:scripted at {upstream.url}"), named.err


def test_an_interrupt_ends_it_and_keeps_nothing(desk: Desk) -> None:
    async def never(request: Request) -> Scripted:
        await asyncio.Event().wait()
        return answer_well(request, {})

    def wait_with_tools(request: Request, body: dict[str, Any]) -> Any:
        return never(request) if request.tools else answer_well(request, body)

    with Upstream(Clinic(wait_with_tools, pages=LLAMA)) as upstream:
        with desk.at_terminal("doctor", upstream.url) as terminal:
            terminal.wait_for("it answered in")
            terminal.wait_for("Native calls")
            terminal.interrupt()
            assert terminal.wait() == 130
        assert upstream.wait_for_hangup()
    assert "interrupted; nothing was saved" in terminal.text
    assert learned(desk) == []


@pytest.mark.needs("bwrap", package="bubblewrap")
def test_the_sandbox_is_examined_without_a_model(dragoman) -> None:
    done = dragoman("doctor", "--sandbox")
    assert done.code == 0
    assert "sandbox: bubblewrap" in done.out and "it is effective" in done.out
    report = dragoman("doctor", "--sandbox", "--json").data
    assert report["tier"] == "bubblewrap" and report["holds"] is True
    assert all(attempt["stopped"] for attempt in report["attempts"])


def test_no_sandbox_is_said_plainly(dragoman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_SANDBOX", "none")
    done = dragoman("doctor", "--sandbox")
    assert done.code == 1
    assert "commands are not confined" in done.out and "it is not effective" in done.out


def test_the_exit_code_says_whether_somebody_has_to_do_something(
    dragoman: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All scripted servers: 1 where something is broken and has a fix, 0 where dragoman copes or nothing is wrong."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    assert len(SERVERS) >= 27
    wrong = []
    for name, (make, expected) in {"a healthy server": (Clinic, {}), **SERVERS}.items():
        with Upstream(make()) as upstream:
            done = dragoman("doctor", "llamacpp:scripted", "--base-url", upstream.url, "--no-save")
        is_broken = "broken" in expected.values()
        is_right = (done.code, "nothing is broken" in done.out, "fix:" in done.out) == (
            int(is_broken),
            not is_broken,
            is_broken,
        )
        if not is_right or done.err:
            wrong.append((name, expected, done))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.full
@pytest.mark.xdist_group("local")
@pytest.mark.timeout(600)
def test_the_embedded_model_needs_nobody(dragoman: Any, embedded_model: str) -> None:
    done = dragoman("doctor", "local", "--quick", "--tokens", "96", "--no-save")
    assert done.code == 0 and "nothing is broken" in done.out and "fix:" not in done.out, done
    assert done.out.startswith("local:smollm2 in this process (openai_chat)\n")
