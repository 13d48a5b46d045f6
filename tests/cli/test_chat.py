"""`dragoman chat`: messages from a pipe and from a terminal, and the commands that begin with a slash."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.cli.commands import PATIENCE, Desk

from dragoman.testing import Fault, Upstream, call

TOOLS = '''
import sys

import dragoman
from dragoman.tools import Context


@dragoman.tool
def read_input() -> str:
    """Read what is not meant for a tool."""
    return repr(sys.stdin.read())


@dragoman.tool(requires_approval=True)
def wait_for(pipe: str, context: Context) -> str:
    """Wait until something is written into a pipe. Nothing else."""
    context.progress("waiting for the pipe")
    with open(pipe) as stream:
        return stream.read()
'''


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    desk.write("tools.py", TOOLS)
    return desk


def at(upstream: Upstream) -> list[str]:
    return ["-m", "custom:scripted", "--base-url", upstream.url, "--tool-mode", "native"]


WITH_TOOLS = ["--tools", "tools.py"]


def texts(upstream: Upstream, number: int) -> list[str]:
    return [message.text for message in upstream.requests[number].messages]


# ---- from a pipe ---------------------------------------------------------------------------------------------------


def test_every_line_of_a_pipe_is_a_message_of_one_session(desk: Desk) -> None:
    with Upstream(["Hello.", "Bonjour."]) as upstream:
        done = desk("chat", *at(upstream), stdin="hello\n\nand in French?\n")
        assert texts(upstream, 1) == ["hello", "Hello.", "and in French?"]
    assert (done.code, done.out) == (0, "Hello.\nBonjour.\n")
    assert "continue with: dragoman chat --session chat-" in done.err


def test_a_session_is_gone_on_with_by_name_and_as_the_last(desk: Desk) -> None:
    with Upstream(["one", "two", "three"]) as upstream:
        desk("chat", *at(upstream), "--session", "numbers", stdin="first\n")
        desk("chat", *at(upstream), "--session", "numbers", stdin="second\n")
        desk("chat", *at(upstream), "--resume", stdin="third\n")
        assert texts(upstream, 2) == ["first", "one", "second", "two", "third"]


def test_messages_of_several_lines(desk: Desk) -> None:
    typed = 'one\\\ntwo\n"""\nthree\n\nfour\n"""\n"""five\nsix"""\n//slash\n'
    with Upstream(["ok"] * 4) as upstream:
        assert desk("chat", *at(upstream), stdin=typed).code == 0
        said = [texts(upstream, number)[-1] for number in range(4)]
    assert said == ["one\ntwo", "three\n\nfour", "five\nsix", "/slash"]


def test_retry_and_undo_take_the_last_message_back(desk: Desk) -> None:
    typed = "first\nsecond\n/retry\n/undo\n/undo\nthird\n/session\n"
    with Upstream(["one", "two", "two again", "three"]) as upstream:
        done = desk("chat", *at(upstream), "--session", "numbers", stdin=typed)
        assert texts(upstream, 2) == ["first", "one", "second"]
        assert texts(upstream, 3) == ["third"]
        kept = desk("chat", *at(upstream), "--session", "numbers", stdin="/undo\n")
    assert done.out == "one\ntwo\ntwo again\nthree\n"
    assert "removed: second" in done.err and "removed: first" in done.err
    assert "removed: second" in kept.err, "the session itself keeps what was said"


def test_commands_without_a_model_being_asked(desk: Desk) -> None:
    typed = "/help\n/tools\n/model custom:other\n/model nosuch:x\n/session\n/usage\n/retry\n/undo\n/modle\n/quit\nno\n"
    with Upstream([]) as upstream:
        done = desk("chat", *at(upstream), *WITH_TOOLS, stdin=typed)
    assert (done.code, done.out) == (0, "")
    for words in (
        "/retry     send the last message again",
        "wait_for (asks first): Wait until something is written into a pipe.",
        "custom:other",
        "unknown provider 'nosuch'",
        "hint: ",
        "  chat-",
        "0 messages, 0 tokens in, 0 out",
        "there is no message to retry",
        "there is no message to undo",
        "unknown command /modle; did you mean /model?",
    ):
        assert words in done.err


def test_another_model_goes_on_with_the_conversation(desk: Desk) -> None:
    with Upstream(["one", "two"]) as upstream:
        desk("chat", *at(upstream), stdin="first\n/model custom:other\nsecond\n")
        assert upstream.requests[1].model == "other"
        assert texts(upstream, 1) == ["first", "one", "second"]


def test_what_fails_ends_the_turn_and_not_the_chat(desk: Desk) -> None:
    wrong = Fault("status", status=401, body='{"error": {"message": "no"}}')
    with Upstream([wrong, "ok", wrong]) as upstream:
        done = desk("chat", *at(upstream), "--no-journal", stdin="first\nsecond\n")
        assert (done.code, done.out) == (0, "ok\n")
        assert "error: unauthorized" in done.err
        assert desk("chat", *at(upstream), stdin="third\n").code == 1
    assert "chat --session" not in done.err, "nothing is kept that could be gone on with"


def test_a_tool_does_not_read_the_messages(desk: Desk) -> None:
    with Upstream([call("read_input"), "one", "two"]) as upstream:
        done = desk("chat", *at(upstream), *WITH_TOOLS, stdin="first\nsecond\n")
        assert upstream.bodies[1]["messages"][-1]["content"] == "''"
    assert done.out == "one\ntwo\n"


def test_without_a_model_there_is_no_chat(desk: Desk) -> None:
    done = desk("chat", stdin="hello\n")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: no model is given")


# ---- at a terminal -------------------------------------------------------------------------------------------------


def test_an_interrupt_ends_the_reply_and_at_the_prompt_the_chat(desk: Desk, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Upstream([call("wait_for", pipe=str(pipe)), "Still here."]) as upstream:
        with desk.at_terminal("chat", *at(upstream), *WITH_TOOLS) as terminal:
            terminal.wait_for("custom:scripted, 15 tools, session chat-")
            terminal.wait_for("> ")
            terminal.type("wait\n")
            terminal.wait_for("l = later: ")
            terminal.type("y\n")
            terminal.wait_for("waiting for the pipe")
            terminal.interrupt()
            terminal.wait_for("interrupted")
            terminal.wait_for("> ")
            terminal.type("are you there?\n")
            terminal.wait_for("Still here.")
            terminal.wait_for("> ")
            terminal.interrupt()
            terminal.wait_for("continue with: dragoman chat --session chat-")
            assert terminal.wait() == 130
        assert [message.role for message in upstream.requests[1].messages] == ["user", "assistant", "tool", "user"]
    assert "Traceback" not in terminal.text


def test_the_end_of_input_ends_the_chat(desk: Desk) -> None:
    with Upstream(["Hi."]) as upstream, desk.at_terminal("chat", *at(upstream)) as terminal:
        terminal.wait_for("> ")
        terminal.type("hello\n")
        terminal.wait_for("Hi.")
        terminal.wait_for("> ")
        terminal.type("\x04")
        assert terminal.wait() == 0


def test_an_interrupt_at_the_question_denies_nothing_and_ends_the_turn(desk: Desk) -> None:
    with (
        Upstream([call("wait_for", pipe="x")]) as upstream,
        desk.at_terminal("chat", *at(upstream), *WITH_TOOLS) as terminal,
    ):
        terminal.wait_for("> ")
        terminal.type("wait\n")
        terminal.wait_for("l = later: ")
        terminal.interrupt()
        terminal.wait_for("interrupted")
        terminal.wait_for("> ")
        terminal.type("/quit\n")
        assert terminal.wait() == 0
    assert "Traceback" not in terminal.text


def test_sigterm_at_the_prompt_ends_the_chat(desk: Desk) -> None:
    with Upstream([]) as upstream, desk.at_terminal("chat", *at(upstream)) as terminal:
        terminal.wait_for("> ")
        terminal.wait_until_it_waits()
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 143
    assert "Traceback" not in terminal.text
    assert terminal.process.wait(PATIENCE) == 143
