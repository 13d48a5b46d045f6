"""`dragoman run`: the real command against a scripted server, in pipes and at a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.commands import COMMAND, PATIENCE, Desk
from tests.doctor.clinic import Clinic

from dragoman.testing import Fault, Upstream, call, calls, thinking
from dragoman.types import Usage

TOOLS = '''
import os
import subprocess
import threading

import dragoman
from dragoman.tools import Context


@dragoman.tool
def weather(city: str) -> str:
    """The weather of a city."""
    print("a tool prints this")
    os.system("echo a program prints this")
    return f"warm in {city}"


BOTH = threading.Barrier(2)


@dragoman.tool(parallel_safe=True)
def meet(number: int) -> str:
    """Wait for the other one."""
    BOTH.wait()
    return f"number {number}"


@dragoman.tool
def read_input() -> str:
    """Read what is not meant for a tool."""
    return subprocess.run(["cat"], capture_output=True, check=True).stdout.decode() or "nothing"


@dragoman.tool
def paint() -> str:
    """Something that would repaint a terminal."""
    return "one\\n\\x1b[31mtwo\\x1b]0;title\\x07\\nthree\\nfour\\nfive\\nsix"


@dragoman.tool
def fail() -> str:
    """Fails."""
    raise ValueError("no \\x1b[2Jluck")


@dragoman.tool(requires_approval=True)
def wipe(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@dragoman.tool
def give_up() -> str:
    """Fails for good."""
    return dragoman.Error("it cannot be done", retryable=False)


@dragoman.tool
def wait_for(pipe: str, context: Context) -> str:
    """Wait until something is written into a pipe."""
    context.progress("waiting for the pipe", 0.5)
    with open(pipe) as stream:
        return stream.read()


@dragoman.tool
def sleep_outside() -> str:
    """Start a program that outlives everything unless it is ended."""
    program = subprocess.Popen(["sleep", "3600"])
    print(f"program {program.pid} sleeps", flush=True)
    program.wait()
    return "awake"
'''


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.write("tools.py", TOOLS)
    return desk


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[str]:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    yield str(path)


def at(upstream: Upstream) -> list[str]:
    return ["-m", "custom:scripted", "--base-url", upstream.url, "--tool-mode", "native"]


WITH_TOOLS = ["--tools", "tools.py"]


# ---- in pipes ------------------------------------------------------------------------------------------------------


def test_the_answer_alone_is_on_standard_output(desk: Desk) -> None:
    script = [calls(call("weather", city="Paris"), say="Let me look."), "It is warm."]
    with Upstream(script, usage=Usage(1200, 34)) as upstream:
        done = desk("run", "How is it?", *at(upstream), *WITH_TOOLS)
    assert (done.code, done.out) == (0, "It is warm.\n")
    shown = done.err.splitlines()
    assert shown[:2] == ["Let me look.", '> weather {"city": "Paris"}']
    assert "a tool prints this" in shown and "a program prints this" in shown
    assert "< warm in Paris" in shown
    assert shown[-1].startswith("2 turns, 1 call, 2,400 tokens in, 68 out, ")
    assert "\x1b" not in done.err


def test_quiet_shows_the_answer_alone(desk: Desk) -> None:
    with Upstream([call("fail"), "done"]) as upstream:
        assert desk("run", "go", *at(upstream), *WITH_TOOLS, "--quiet") == (0, "done\n", "")


@pytest.mark.parametrize(
    ("words", "stdin", "task"),
    [
        (["what", "is", "this"], None, "what is this"),
        ([], "from a pipe\n", "from a pipe"),
        (["-"], "from a pipe\n", "from a pipe"),
        (["Review:", "-"], "a change\n", "Review:\n\na change"),
    ],
    ids=["words", "pipe", "dash", "both"],
)
def test_where_the_task_comes_from(desk: Desk, words: list[str], stdin: str | None, task: str) -> None:
    with Upstream(["ok"]) as upstream:
        assert desk("run", *words, *at(upstream), stdin=stdin).out == "ok\n"
        assert upstream.requests[0].messages[-1].text == task


def test_json_is_one_object_per_event_and_ends_with_the_result(desk: Desk) -> None:
    with Upstream([call("weather", city="Rome"), "warm \ud800"], usage=Usage(10, 2)) as upstream:
        done = desk("run", "How is it?", *at(upstream), *WITH_TOOLS, "--json")
    assert done.code == 0
    events = done.events
    kinds = [event["type"] for event in events]
    assert kinds[0] == "RunStarted"
    assert [kind for kind in kinds if kind.startswith("Tool")] == ["ToolStarted", "ToolEnded"]
    assert len({event["run"] for event in events}) == 1
    last = events[-1]
    assert (last["type"], last["outcome"]["kind"], last["turns"]) == ("RunEnded", "answered", 2)
    assert (last["usage"]["input_tokens"], last["cost"]) == (20, None)
    assert last["text"].startswith("warm ")


def test_results_are_cut_visibly_and_do_not_paint(desk: Desk) -> None:
    with Upstream([calls(call("paint"), call("fail")), "\x1b[31mred"]) as upstream:
        done = desk("run", "go", *at(upstream), *WITH_TOOLS)
    assert "\x1b" not in done.err
    assert "< one\n  \\u001b[31mtwo\\u001b]0;title\\u0007\n  three\n  four\n  … 2 more lines\n" in done.err
    assert "< error: ValueError: no \\u001b[2Jluck\n" in done.err
    assert done.out == "\x1b[31mred\n", "a program gets what the model said, unchanged"


def test_results_of_calls_beside_each_other_say_whose_they_are(desk: Desk) -> None:
    with Upstream([calls(call("meet", number=1), call("meet", number=2)), "ok"]) as upstream:
        done = desk("run", "go", *at(upstream), *WITH_TOOLS)
    shown = done.err.splitlines()
    assert shown[:2] == ['> meet {"number": 1}', '> meet {"number": 2}']
    assert shown[2].startswith("< meet: number ") and shown[3].startswith("< number ")


def test_a_tool_does_not_read_what_is_piped_in(desk: Desk) -> None:
    with Upstream([call("read_input"), "ok"]) as upstream:
        done = desk("run", "go", *at(upstream), *WITH_TOOLS, stdin="lines of a loop around the command\n")
    assert (done.out, "< nothing" in done.err) == ("ok\n", True)


def test_long_arguments_are_cut_visibly(desk: Desk) -> None:
    with Upstream([call("weather", city="x" * 500), "ok"]) as upstream:
        done = desk("run", "go", *at(upstream), *WITH_TOOLS)
    line = next(line for line in done.err.splitlines() if line.startswith("> weather"))
    assert line.endswith("… (+352 characters)")
    assert len(line) < 220


def test_thinking_is_shown_when_asked_for(desk: Desk) -> None:
    with Upstream([[thinking("Hmm."), "Yes."]] * 2) as upstream:
        assert "Hmm." not in desk("run", "go", *at(upstream)).err
        done = desk("run", "go", *at(upstream), "--thinking")
    assert (done.out, done.err.splitlines()[0]) == ("Yes.\n", "Hmm.")


def test_options_reach_the_request(desk: Desk) -> None:
    desk.write("role.md", "Be brief.\n")
    options = ["--option", "temperature=0.5", "-o", "openai_chat.logprobs=true", "--system", "@role.md"]
    with Upstream(["ok"]) as upstream:
        assert desk("run", "go", *at(upstream), *options).code == 0
        body = upstream.bodies[0]
    assert (body["temperature"], body["logprobs"]) == (0.5, True)
    assert body["messages"][0]["content"] == "Be brief."


def test_a_log_gets_a_line_per_event(desk: Desk) -> None:
    with Upstream(["ok"]) as upstream:
        assert desk("run", "go", *at(upstream), "--log", "run.log").code == 0
    assert '"type":"RunEnded"' in (desk.folder / "run.log").read_text(encoding="utf-8").splitlines()[-1]


def test_settings_come_from_the_environment_and_the_file(desk: Desk) -> None:
    with Upstream(["ok", "ok"]) as upstream:
        arguments = ["run", "go", "--base-url", upstream.url]
        assert desk(*arguments, DRAGOMAN_MODEL="custom:one").code == 0
        desk.write("config/dragoman/config.toml", 'model = "custom:two"\n')
        assert desk(*arguments).code == 0
        assert [request.model for request in upstream.requests] == ["one", "two"]


def test_a_closed_pipe_ends_the_run_quietly(desk: Desk) -> None:
    with Upstream(["ok"]) as upstream:
        process = desk.start("run", "go", *at(upstream), "--json")
        assert process.stdout is not None
        process.stdout.close()
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, b"")


def test_a_full_disk_is_told(desk: Desk) -> None:
    with Upstream(["ok"]) as upstream, open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "run", "go", *at(upstream)],
            cwd=desk.folder,
            env=desk.environment,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=PATIENCE,
        )
    assert done.returncode == 1
    assert b"error: cannot write the output: No space left on device\n" in done.stderr
    assert b"Traceback" not in done.stderr and b"Exception" not in done.stderr


def test_a_thread_that_never_ends_does_not_hold_the_program(desk: Desk, pipe: str) -> None:
    desk.write(
        "hanging.py",
        """
import asyncio, dragoman

@dragoman.tool(timeout=0.05)
async def hang(pipe: str) -> str:
    return await asyncio.to_thread(open, pipe)
""",
    )
    with Upstream([call("hang", pipe=pipe), "ok"]) as upstream:
        done = desk("run", "go", *at(upstream), "--tools", "hanging.py")
    assert (done.code, done.out) == (0, "ok\n")
    assert "did not answer within" in done.err


# ---- how it ends ---------------------------------------------------------------------------------------------------

NOT_NOW = Fault("status", status=503, body='{"error": {"message": "busy"}}')
WRONG_KEY = Fault("status", status=401, body='{"error": {"message": "Incorrect API key provided"}}')


@pytest.mark.parametrize(
    ("script", "options", "code", "words"),
    [
        ([call("give_up")], [], 1, "error: tool_failed: "),
        ([WRONG_KEY], [], 1, "error: unauthorized: "),
        ([call("weather", city="a")], ["--turns", "1"], 3, "error: turn_limit: "),
        ([NOT_NOW] * 2, [], 4, "error: provider_failed: "),
        (["", ""], [], 4, "error: blank: "),
    ],
    ids=["tool failed", "wrong key", "limit", "overloaded", "blank"],
)
def test_the_exit_code_says_what_to_do(desk: Desk, script: list, options: list[str], code: int, words: str) -> None:
    with Upstream(script) as upstream:
        done = desk("run", "go", *at(upstream), *WITH_TOOLS, *options, DRAGOMAN_RETRIES_ATTEMPTS="2")
    assert (done.code, done.out) == (code, ""), done.err
    assert words in done.err
    assert "Traceback" not in done.err


def test_a_retry_is_told(desk: Desk) -> None:
    with Upstream([NOT_NOW, "ok"]) as upstream:
        done = desk("run", "go", *at(upstream))
    assert (done.code, done.out) == (0, "ok\n")
    assert "retry: again in " in done.err and "busy" in done.err


def test_a_wrong_key_is_not_shown(desk: Desk) -> None:
    with Upstream([WRONG_KEY]) as upstream:
        arguments = ["run", "go", "-m", "openai_chat:gpt-4o", "--base-url", upstream.url]
        done = desk(*arguments, OPENAI_API_KEY="sk-very-secret-key")
    assert done.code == 1
    assert "Incorrect API key" in done.err and "hint: check the key" in done.err
    assert "very-secret" not in done.err


BROKEN = "import dragoman\n\ndef weather(:\n    pass\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["go"], "no model is given"),
        (["go", "--base-url", "http://box:8000/v1"], "`dragoman models http://box:8000/v1` lists those of the server"),
        (["go", "-m", "http://box:8000/v1"], "an address is no model: name the model"),
        (["go", "-m", "nosuch:model"], "unknown provider 'nosuch'"),
        (["go", "-m", "openai:gpt-4o"], "there is no key for openai"),
        (["go", "-m", "openai/gpt-4o"], "there is no key for openai"),
        (["go", "-m", "gpt-4o"], "there is no key for openai"),
        (["go", "-m", "opnai/gpt-4o"], "did you mean 'openai'?"),
        (["go", "-m", "qwen3"], "ollama:qwen3"),
        (["go", "-m", "openai"], "openai:MODEL"),
        (["go", "-m", "my-model"], "for a server of your own, give its address, too"),
        (["go", "-m", "custom:m"], "give it with --base-url URL"),
        (["go", "-m", "ollama:m", "--fallback", "openai:x"], "under [keys] in your settings file"),
        (["go", "-m", "custom:m", "--tools", "broken.py"], "broken.py:3: SyntaxError"),
        (["go", "-m", "custom:m", "--tools", "missing.py"], "there is no file of tools"),
        (["go", "-m", "custom:m", "--option", "temprature=1"], "did you mean 'temperature'?"),
        (["go", "-m", "custom:m", "--option", "temperature=hot"], "for example --option temperature=1"),
        (["go", "-m", "custom:m", "--turns", "few"], "--turns must be a whole number, at least 1"),
        (["go", "-m", "custom:m", "--workspace", "nowhere"], "there is no folder nowhere"),
        (["go", "-m", "custom:m", "--approve", "ask", "--approve", "never"], "both ask and never"),
        (["go", "-m", "custom:m", "--no-journal", "--session", "x"], "a session needs a journal"),
        (["", "-m", "custom:m"], "the task is empty"),
        (["--resume"], "there is no unfinished run in the journal"),
        (["--resume", "run_x"], "the journal has no run 'run_x'"),
        (["--resume", "--session", "trip"], "the journal has no session 'trip'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_misuse_is_told_with_a_next_step(
    desk: Desk, dragoman, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    desk.write("broken.py", BROKEN)
    monkeypatch.chdir(desk.folder)
    for name in set(os.environ) - set(desk.environment):
        monkeypatch.delenv(name)
    for name, value in desk.environment.items():
        monkeypatch.setenv(name, value)
    done = dragoman("run", *arguments)
    assert (done.code, done.out) == (2, ""), done.err
    assert done.err.startswith("error: ") and words in done.err
    assert done.err.splitlines()[-1].startswith("hint: ")


def test_three_ways_to_name_a_model(desk: Desk) -> None:
    hint = desk("run", "go").err.splitlines()[-1]
    assert all(way in hint for way in ("-m provider:model", "DRAGOMAN_MODEL", "dragoman config path"))


def test_every_spelling_of_a_model_reaches_it(desk: Desk) -> None:
    """A colon or a slash, a provider alone, and a row of one's own that has a model."""
    listed = {"object": "list", "data": [{"id": "nomic-embed"}, {"id": "scripted"}]}
    for name in ("vllm/scripted", "vllm", "Org/Scripted-1B", "mine"):
        with Upstream(Clinic(lambda request, body: "Hello.", pages={"/v1/models": listed})) as upstream:
            row = f'[providers.mine]\nlike = "vllm"\nbase_url = "{upstream.url}"\nmodel = "scripted"\n'
            desk.write("config/dragoman/config.toml", row)
            url = () if name.startswith("mine") else ("--base-url", upstream.url)
            done = desk("run", "Hi", "-m", name, *url)
            assert (done.code, done.out) == (0, "Hello.\n"), (name, done.err)
            assert upstream.bodies[-1]["model"] == ("Org/Scripted-1B" if "/S" in name else "scripted"), name
            assert ("using 'vllm:scripted'" in done.err or "using vllm:scripted" in done.err) is (name == "vllm"), (
                done.err
            )


# ---- approvals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "result"),
    [
        (["--no-journal"], "--approve wipe"),
        (["--mode", "locked"], "the mode locked"),
        (["--approve", "wipe"], "/x is gone"),
        (["--approve", "w*"], "/x is gone"),
        (["--approve", "never", "--approve", "weather"], "--approve never"),
        (["--deny", "wipe"], "no tool named 'wipe'"),
    ],
    ids=["nobody", "locked", "by name", "by pattern", "never", "not offered"],
)
def test_approval_without_a_terminal(desk: Desk, options: list[str], result: str) -> None:
    with Upstream([call("wipe", path="/x"), "ok"]) as upstream:
        done = desk("run", "go", *at(upstream), *WITH_TOOLS, *options)
        told = upstream.bodies[1]["messages"][-1]["content"]
    assert done.code == 0
    assert result in told and result in done.err


def test_a_name_that_no_tool_has_is_warned_about(desk: Desk) -> None:
    rules = [
        "--approve",
        "wype",
        "--deny",
        "shell*",
        "--deny",
        "bahs(rm*)",
        "--allow",
        "wirte(src/**)",
        "--ask",
        "wipr",
    ]
    right = ["--deny", "bash(rm*)", "--allow", "write(src/**)", "--ask", "wipe", "--allow", "mcp:any/*"]
    with Upstream(["ok", "ok"]) as upstream:
        done = desk("run", "go", *at(upstream), *WITH_TOOLS, *rules)
        silent = desk("run", "go", *at(upstream), *WITH_TOOLS, *right)
    assert "warning: there is no tool 'wype'; did you mean 'wipe'?\n" in done.err
    assert "warning: there is no tool 'shell*'\n" in done.err
    for wrong, meant in (("bahs", "bash"), ("wirte", "write"), ("wipr", "wipe")):
        assert f"warning: there is no tool {wrong!r}; did you mean {meant!r}?\n" in done.err
    assert "warning" not in silent.err


def test_approval_at_a_terminal(desk: Desk) -> None:
    wipes = [call("wipe", path=path) for path in ("/a\x1b[2J", "/b\u202e", "/c", "/d")]
    with Upstream([wipes[0], wipes[1], wipes[2], wipes[3], "All done."]) as upstream:
        with desk.at_terminal("run", "go", *at(upstream), *WITH_TOOLS) as terminal:
            terminal.wait_for("wipe is marked as needing approval")
            terminal.wait_for("a = wipe always,")  # the menu may take two rows
            terminal.wait_for("l = later: ")
            terminal.type("y\n")
            terminal.wait_for("l = later: ")
            terminal.type("n not that one\n")
            terminal.wait_for("l = later: ")
            terminal.type("a\n")
            terminal.wait_for("wipe is allowed in this folder from now on")
            terminal.wait_for("All done.")
            assert terminal.wait() == 0
        results = [body["messages"][-1]["content"] for body in upstream.bodies[1:]]
    assert "/a\\u001b[2J" in terminal.text and "\u202e" not in terminal.text
    assert results[0].endswith("is gone")
    assert "not that one" in results[1]
    assert results[2:] == ["/c is gone", "/d is gone"]
    with Upstream([call("wipe", path="/e"), "Again."]) as upstream:
        again = desk("run", "go", *at(upstream), *WITH_TOOLS)
        assert upstream.bodies[1]["messages"][-1]["content"] == "/e is gone", "the rule was kept"
    assert again.code == 0


@pytest.mark.parametrize(
    ("model", "options", "offered"),
    [
        ("custom:scripted", [], True),
        ("custom:scripted", ["--builtin", "none"], False),
        ("local", [], False),
        ("local", ["--builtin", "all"], True),
        ("local", ["--builtin", "read"], True),
    ],
)
def test_which_models_have_the_built_in_tools(model: str, options: list[str], offered: bool) -> None:
    from dragoman.cli.context import AppContext
    from dragoman.cli.options import RunOptions

    named = options[1] if options else None
    with AppContext(RunOptions(model=model, builtin=named, no_journal=True), {}) as context:
        assert any(tool.name == "read" for tool in context.tools) is offered


def test_a_sandbox_that_is_named_has_to_work_before_anything_is_asked(desk: Desk) -> None:
    nobody = ("-m", "custom:model", "--base-url", "http://127.0.0.1:9/v1")
    done = desk("run", "go", *nobody, "--sandbox", "bubblewrap", PATH=str(desk.folder))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: the sandbox 'bubblewrap' does not work here: ")


def test_a_run_without_a_terminal_waits_for_an_answer_and_goes_on(desk: Desk) -> None:
    with Upstream([call("wipe", path="/x"), "It is gone."]) as upstream:
        parked = desk("run", "go", *at(upstream), *WITH_TOOLS)
        assert parked.code == 5 and "waiting: approval is needed for wipe" in parked.err
        listed = desk("approvals", "list", "--json").data
        assert [(each["tool"], each["arguments"]) for each in listed] == [("wipe", {"path": "/x"})]
        assert desk("run", "--resume", *at(upstream), *WITH_TOOLS).code == 5, "nobody has answered yet"
        answered = desk("approvals", "approve", listed[0]["id"])
        assert answered.code == 0 and "dragoman run --resume" in answered.out
        done = desk("run", "--resume", *at(upstream), *WITH_TOOLS)
        assert (done.code, done.out) == (0, "It is gone.\n")
        assert upstream.bodies[1]["messages"][-1]["content"] == "/x is gone"
    assert "sound" in desk("audit", "verify").out
    kinds = [record["kind"] for record in desk("audit", "show", "--json", "-n", "0").data]
    assert kinds.count("approval_asked") >= 1 and kinds.count("started") == kinds.count("ended") == 1


def test_an_answer_for_always_is_kept_and_the_run_goes_on_with_it(desk: Desk) -> None:
    wipe = call("wipe", path="/x")
    with Upstream([wipe, wipe, "Both are gone.", wipe, "Again."]) as upstream:
        assert desk("run", "go", *at(upstream), *WITH_TOOLS).code == 5
        (waiting,) = desk("approvals", "list", "--json").data
        answered = desk("approvals", "approve", waiting["id"], "--always")
        assert "wipe is allowed in " in answered.out and "from now on" in answered.out
        assert desk("run", "--resume", *at(upstream), *WITH_TOOLS).out == "Both are gone.\n"
        assert desk("run", "again", *at(upstream), *WITH_TOOLS).out == "Again.\n", "nobody is asked any more"


# ---- at a terminal -------------------------------------------------------------------------------------------------


def test_colours_and_a_moving_line_only_at_a_terminal(desk: Desk) -> None:
    script = [calls(call("paint"), say="Look:"), "\x1b[31mIt is \x9bwarm."]
    cyan = b"\x1b[1;36m"
    for environment, has_colours in (({}, True), ({"NO_COLOR": "1"}, False)):
        with (
            Upstream(script) as upstream,
            desk.at_terminal("run", "go", *at(upstream), *WITH_TOOLS, **environment) as terminal,
        ):
            assert terminal.wait() == 0
        assert (cyan in terminal.seen) is has_colours
        assert b"\x1b[31mtwo" not in terminal.seen and b"\x1b[31mIt" not in terminal.seen
        assert b"\xc2\x9b" not in terminal.seen and b"\x1b]0;" not in terminal.seen
        assert "Look:\n> paint {}\n" in terminal.text
        assert "\\u001b[31mIt is \\u009bwarm.\n2 turns" in terminal.text
        assert terminal.seen.rfind(b"\x1b[?25h") >= terminal.seen.rfind(b"\x1b[?25l"), "the cursor is shown again"


def test_the_first_interrupt_ends_the_run_in_good_order(desk: Desk, pipe: str) -> None:
    script = [calls(call("wait_for", pipe=pipe), call("weather", city="Rome")), "Going on."]
    with Upstream(script) as upstream:
        arguments = [*at(upstream), *WITH_TOOLS]
        with desk.at_terminal("run", "go", *arguments) as terminal:
            terminal.wait_for("waiting for the pipe")
            terminal.interrupt()
            assert terminal.wait() == 130
        assert "interrupted; resume with: dragoman run --resume run_" in terminal.text
        assert "Traceback" not in terminal.text
        assert terminal.text.endswith("\n")
        done = desk("run", "--resume", *arguments)
        sent = upstream.requests[1].messages
    assert (done.code, done.out) == (0, "Going on.\n")
    assert [message.role for message in sent] == ["user", "assistant", "tool", "user"]
    assert len(sent[2].parts) == 2, "every call has its answer"
    assert "interrupted" in sent[3].text


def test_the_second_interrupt_ends_the_program_at_once(desk: Desk) -> None:
    stubborn = """
import asyncio, dragoman
from dragoman.tools import Context

@dragoman.tool
async def stay(context: Context) -> str:
    while True:
        context.progress("here to stay")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            context.progress("not leaving")
            import time
            while True:
                time.sleep(0.01)
"""
    desk.write("stubborn.py", stubborn)
    with (
        Upstream([call("stay")]) as upstream,
        desk.at_terminal("run", "go", *at(upstream), "--tools", "stubborn.py") as terminal,
    ):
        terminal.wait_for("here to stay")
        terminal.interrupt()
        terminal.wait_for("interrupt again to end the program at once")
        terminal.interrupt()
        assert terminal.wait() == 130
    assert "Traceback" not in terminal.text
    assert terminal.seen.rfind(b"\x1b[?25h") >= terminal.seen.rfind(b"\x1b[?25l")


def test_sigterm_ends_the_run_and_the_programs_of_its_tools(desk: Desk) -> None:
    with Upstream([call("sleep_outside")]) as upstream:
        process = desk.start("run", "go", *at(upstream), *WITH_TOOLS)
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith(b"program "))
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (143, b"")
    assert b"interrupted; resume with: " in err and b"Traceback" not in err
    program = Path(f"/proc/{int(line.split()[1])}/stat")
    assert not program.exists() or ") Z " in program.read_text(encoding="utf-8")


# ---- sessions and crashes ------------------------------------------------------------------------------------------


def test_a_session_goes_on(desk: Desk) -> None:
    with Upstream(["Blue.", "I said blue."]) as upstream:
        for task in ("Which colour?", "What did you say?"):
            assert desk("run", task, *at(upstream), "--session", "colours").code == 0
        assert [message.text for message in upstream.requests[1].messages] == [
            "Which colour?",
            "Blue.",
            "What did you say?",
        ]


def test_a_run_that_is_done_is_not_resumed(desk: Desk) -> None:
    with Upstream(["Blue."]) as upstream:
        run_id = desk("run", "Which colour?", *at(upstream), "--json").events[0]["run"]
        done = desk("run", "--resume", run_id, *at(upstream))
    assert done.code == 2
    assert f"run {run_id} is finished" in done.err and f"--session {run_id}" in done.err


def test_a_killed_run_goes_on_where_it_was(desk: Desk, pipe: str) -> None:
    script = [calls(call("weather", city="Rome"), call("wait_for", pipe=pipe)), "Recovered."]
    with Upstream(script) as upstream:
        process = desk.start("run", "go", *at(upstream), *WITH_TOOLS)
        assert process.stderr is not None
        assert any(b"waiting for the pipe" in line for line in process.stderr)
        process.kill()
        process.communicate(timeout=PATIENCE)
        without = desk("run", "--resume", *at(upstream))
        assert (without.code, "tools of the run are missing: " in without.err) == (2, True)
        done = desk("run", "--resume", "--base-url", upstream.url, "--tool-mode", "native", *WITH_TOOLS)
        results = [part.content for part in upstream.requests[1].messages[-1].parts]
    assert (done.code, done.out) == (0, "Recovered.\n"), done.err
    assert "resuming run_" in done.err
    assert results[0] == "warm in Rome" and "its outcome is unknown" in results[1]
    assert "a tool prints this" not in done.err, "what was answered is not run again"


def test_without_a_journal_nothing_is_kept(desk: Desk) -> None:
    with Upstream(["ok"]) as upstream:
        assert desk("run", "go", *at(upstream), "--no-journal").code == 0
    assert not (desk.folder / "state").exists()


def test_a_server_that_is_slow_to_start_is_not_left_behind(desk: Desk, pipe: str) -> None:
    server = desk.write(
        "server.py", f"import os, time\nopen({pipe!r}, 'w').write(str(os.getpid()))\ntime.sleep(3600)\n"
    )
    settings = f"[mcp.slow]\ncommand = {sys.executable!r}\nargs = [{server!r}]\n"
    desk.write("config/dragoman/config.toml", settings)
    process = desk.start("run", "go", "-m", "custom:scripted", "--base-url", "http://127.0.0.1:9")
    number = int(Path(pipe).read_text(encoding="ascii"))
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    assert not Path(f"/proc/{number}").exists()


def test_a_fact_that_cannot_be_saved_is_a_warning(desk: Desk) -> None:
    written = '<tool_call>{"name": "greet", "arguments": {"name": "Ada"}}</tool_call>'
    tools = desk.write("greet.py", "import dragoman\n@dragoman.tool\ndef greet(name: str) -> str:\n    return 'hi'\n")
    with Upstream([written, "Done."]) as upstream:
        arguments = ["-m", "custom:m", "--base-url", upstream.url, "-t", tools, "--builtin", "none", "--no-journal"]
        done = desk("run", "Greet her", *arguments, XDG_CONFIG_HOME="/proc")
    assert (done.code, done.out) == (0, "Done.\n")
    assert "from the next run on they are offered as text" in done.err
    assert "warning: cannot write /proc/dragoman/learned.toml" in done.err
