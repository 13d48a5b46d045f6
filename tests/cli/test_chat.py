"""`dragoman chat`: messages from a pipe and from a terminal, and the commands that begin with a slash."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import signal
from pathlib import Path

import pytest
from rich.cells import cell_len
from tests.cli.commands import PATIENCE, Desk

from dragoman.cli.editor import PrivateHistory
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
    with Upstream(["Hello.", "Bonjour.", "Ciao."]) as upstream:
        done = desk("chat", *at(upstream), stdin="hello\n\nand in French?\n")
        assert texts(upstream, 1) == ["hello", "Hello.", "and in French?"]
        assert (done.code, done.out) == (0, "Hello.\nBonjour.\n")
        shown = done.err.partition("continue with: dragoman ")[2]
        assert shown.startswith("chat --session chat-")
        done = desk(*shlex.split(shown), stdin="and in Italian?\n")
        assert texts(upstream, 2)[-2:] == ["Bonjour.", "and in Italian?"]
    assert (done.code, done.out) == (0, "Ciao.\n")


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


def test_the_tokens_of_a_server_that_reports_none_are_not_shown_as_zero(desk: Desk) -> None:
    with Upstream(["one"]) as upstream:
        assert "1 message, no tokens reported, " in desk("chat", *at(upstream), stdin="first\n/usage\n").err


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


def test_an_interrupt_ends_the_reply_and_not_the_chat(desk: Desk, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Upstream([call("wait_for", pipe=str(pipe)), "Still here."]) as upstream:
        with desk.at_terminal("chat", *at(upstream), *WITH_TOOLS) as terminal:
            terminal.wait_for("custom:scripted, 15 tools, session chat-")
            terminal.wait_for("you> ")
            terminal.type("wait\r")
            terminal.wait_for("l = later: ")
            terminal.type("y\r")
            terminal.wait_for("waiting for the pipe")
            terminal.interrupt()
            terminal.wait_for("interrupted")
            terminal.wait_for("you> ")
            terminal.type("are you there?\r")
            terminal.wait_for("Still here.")
            terminal.wait_for("you> ")
            terminal.type("a message that is not sent\x03\x03")
            terminal.wait_for("Ctrl-C again, Ctrl-D or /quit ends the chat")
            terminal.wait_for("you> ")
            terminal.type("\x03")
            terminal.wait_for("continue with: dragoman chat --session chat-")
            assert terminal.wait() == 130
            terminal.check_restored()
        assert [message.role for message in upstream.requests[1].messages] == ["user", "assistant", "tool", "user"]
    assert "Traceback" not in terminal.text


def test_the_end_of_input_ends_the_chat(desk: Desk) -> None:
    for environment in ({}, {"TERM": "dumb"}):
        with Upstream(["Hi."]) as upstream, desk.at_terminal("chat", *at(upstream), **environment) as terminal:
            terminal.wait_for("you> ")
            terminal.type("hello\n")
            terminal.wait_for("Hi.")
            terminal.wait_for("you> ")
            terminal.wait_until_it_waits()
            terminal.type("\x04")
            assert terminal.wait() == 0
            terminal.check_restored()
        assert ("\x1b" in terminal.seen.decode()) == (not environment), "a dumb terminal gets plain text"


def test_an_interrupt_at_the_question_denies_nothing_and_ends_the_turn(desk: Desk) -> None:
    with (
        Upstream([call("wait_for", pipe="x")]) as upstream,
        desk.at_terminal("chat", *at(upstream), *WITH_TOOLS) as terminal,
    ):
        terminal.wait_for("you> ")
        terminal.type("wait\r")
        terminal.wait_for("l = later: ")
        terminal.interrupt()
        terminal.wait_for("interrupted")
        terminal.wait_for("you> ")
        terminal.type("/quit\r")
        assert terminal.wait() == 0
    assert "Traceback" not in terminal.text


def test_signals_end_the_chat_and_restore_the_terminal(desk: Desk, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with Upstream([call("wait_for", pipe=str(pipe))] * 2) as upstream:
        for number in (signal.SIGTERM, signal.SIGHUP):
            for is_running in (False, True):
                with desk.at_terminal("chat", *at(upstream), *WITH_TOOLS, "--approve", "wait_for") as terminal:
                    terminal.wait_for("you> ")
                    if is_running:
                        terminal.type("wait\r")
                        terminal.wait_for("waiting for the pipe")
                    terminal.wait_until_it_waits()
                    terminal.process.send_signal(number)
                    assert terminal.wait() == 128 + number
                    terminal.check_restored()
                assert "Traceback" not in terminal.text
                assert terminal.process.wait(PATIENCE) == 128 + number


PASTE = "\x1b[200~{}\x1b[201~"
SEVERAL_LINES = {
    "a paste": (PASTE.format("one\r\n  two\nthree") + "\r", "one\n  two\nthree"),
    "a paste behind typed text": ("see: " + PASTE.format("a\nb\n") + "done\r", "see: a\nb\ndone"),
    "a paste without marks": ("one\rtwo\rthree\r", "one\ntwo\nthree"),
    "Alt-Enter": ("one\x1b\rtwo\r", "one\ntwo"),
    "a backslash": ("one\\\r", None),
    "its second line": ("two\r", "one\ntwo"),
    "quotes": (PASTE.format('"""\none\n"""') + "\r", "one"),
    "code that begins with quotes": (PASTE.format('"""\nDoc.\n"""\nx = 1') + "\r", '"""\nDoc.\n"""\nx = 1'),
    "control characters": (PASTE.format("\x1b[31mred\x07") + "\r", "\x1b[31mred\x07"),
}


def test_lines_that_come_together_are_one_message(desk: Desk) -> None:
    messages = {name: message for name, (_, message) in SEVERAL_LINES.items() if message is not None}
    with Upstream(["ok"] * len(messages)) as upstream, desk.at_terminal("chat", *at(upstream)) as terminal:
        terminal.wait_for("you> ")
        for keys, message in SEVERAL_LINES.values():
            terminal.wait_until_it_waits()
            terminal.type(keys)
            terminal.wait_for("   ." if message is None else "1 turn, ")
            if message is not None:
                terminal.wait_for("you> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
        said = dict(zip(messages, [texts(upstream, number)[-1] for number in range(len(messages))], strict=True))
    assert said == messages


def test_a_paste_answers_no_question_and_is_kept_for_the_prompt(desk: Desk) -> None:
    script = [call("write", path="notes.txt", content="new\n"), "Done.", "ok"]
    desk.write("notes.txt", "old\n")
    with Upstream(script) as upstream, desk.at_terminal("chat", *at(upstream), *WITH_TOOLS) as terminal:
        terminal.wait_for("you> ")
        terminal.type("go\r")
        terminal.wait_for("later, s = show all: ")
        terminal.wait_until_it_waits()
        terminal.type("y\ny\n")
        terminal.wait_for("several lines came at once")
        terminal.wait_for("later, s = show all: ")
        assert (desk.folder / "notes.txt").read_text() == "old\n"
        terminal.type("y\n")
        terminal.wait_for("Done.")
        terminal.wait_for("you> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert len(upstream.requests) == 2
    assert (desk.folder / "notes.txt").read_text() == "new\n"
    shown = "\n".join(terminal.screen)
    assert "    | -old\n    | +new" in shown


ANSWER = """# Weather

It is **21 degrees** in `Paris`, and [more](http://example.org/x) follows in a line that is long enough to be broken.

- first 東京都 item of a list that has to be broken somewhere
- second

```python
print("a long line of code that the terminal breaks", 123456789)
```

| city | degrees |
|---|---|
| Paris | 21 |
"""


def test_every_width_shows_the_whole_conversation(desk: Desk) -> None:
    """At 40, 80 and 120 columns, with colours and without: nothing is cut, and no word of prose is broken."""
    for columns, environment in itertools.product((40, 80, 120), ({}, {"NO_COLOR": "1"})):
        with (
            Upstream([call("read", path="tools.py"), ANSWER]) as upstream,
            desk.at_terminal("chat", *at(upstream), *WITH_TOOLS, size=(columns, 30), **environment) as terminal,
        ):
            terminal.wait_for("you> ")
            terminal.type("How is the weather? " + "word " * 30 + "\r")
            terminal.wait_for("2 turns, 1 call")
            terminal.wait_for("you> ")
            terminal.type("/help\r")
            terminal.wait_for("Ctrl-R")
            terminal.wait_for("you> ")
            terminal.type("\x04")
            assert terminal.wait() == 0
        where = f"{columns} columns, {environment}"
        rows = terminal.screen
        assert all(cell_len(row) <= columns for row in rows), where
        joined = " ".join(" ".join(rows).split())
        for words in (
            "21 degrees",
            "Paris",
            "http://example.org/x",
            "long enough to be broken.",
            "東京都 item",
            "second",
        ):
            assert words in joined, (where, words, rows)
        code = "".join(row.strip() for row in rows)
        assert "terminalbreaks" in code.replace(" ", "") and "123456789" in code, where
        has_colours = re.search(rb"\x1b\[(?:[0-9;]*;)?(?:3[1-8]|9[0-7])[0-9;]*m", terminal.seen) is not None
        assert has_colours == (not environment), where
        assert ("**21" in joined) == bool(environment), "without colours, the text is as the model wrote it"


def test_a_terminal_that_changes_its_size_loses_nothing(desk: Desk, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        Upstream([call("wait_for", pipe=str(pipe)), "All is **well** at every width of the terminal."]) as upstream,
        desk.at_terminal("chat", *at(upstream), *WITH_TOOLS, "--approve", "wait_for", size=(80, 24)) as terminal,
    ):
        terminal.wait_for("you> ")
        terminal.type("a message")
        terminal.wait_for("message")
        terminal.resize(40, 12)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.type(" of two halves\r")
        terminal.wait_for("waiting for the pipe")
        terminal.resize(30, 10)
        pipe.write_text("go")
        terminal.wait_for("2 turns, ")
        terminal.wait_for("you> ")
        terminal.type("\x04")
        assert terminal.wait() == 0
        assert texts(upstream, 0) == ["a message of two halves"]
    assert "All is well at every width of\nthe terminal." in "\n".join(terminal.screen)


def test_the_history_is_private_and_has_no_secrets(desk: Desk) -> None:
    secret = "sk-proj-" + "a1B2c3D4" * 6
    history = desk.folder / "state" / "dragoman" / "chat_history.jsonl"
    with Upstream(["ok"] * 4) as upstream:
        with desk.at_terminal("chat", *at(upstream)) as terminal:
            for message in ("first", f"the key is {secret}", PASTE.format("two\nlines")):
                terminal.wait_for("you> ")
                terminal.type(f"{message}\r")
                terminal.wait_for("1 turn, ")
            terminal.wait_for("you> ")
            terminal.type("\x04")
            assert terminal.wait() == 0
        assert history.stat().st_mode & 0o777 == 0o600
        assert history.read_text().splitlines() == ['"first"', '"two\\nlines"']
        with desk.at_terminal("chat", *at(upstream)) as terminal:
            terminal.wait_for("you> ")
            terminal.type("\x1b[A")
            terminal.wait_for("lines")
            terminal.type("\r")
            terminal.wait_for("1 turn, ")
            assert texts(upstream, 3) == ["two\nlines"]
        with desk.at_terminal("chat", *at(upstream), "--no-journal") as terminal:
            terminal.wait_for("you> ")
            terminal.type("/usage\r")
            terminal.wait_for("0 messages")
    assert len(history.read_text().splitlines()) == 2, "--no-journal writes no history either"


def test_commands_and_files_are_completed(desk: Desk) -> None:
    desk.write("a folder/notes.txt", "")
    with Upstream(["ok"]) as upstream, desk.at_terminal("chat", *at(upstream)) as terminal:
        terminal.wait_for("you> ")
        terminal.type("/usa\t\r")
        terminal.wait_for("0 messages, ")
        terminal.wait_for("you> ")
        terminal.type("read too\t and ./tool\t\r")
        terminal.wait_for("1 turn, ")
        assert texts(upstream, 0) == ["read tools.py  and ./tools.py "]


def test_a_chat_begins_with_a_saved_prompt_and_sends_others(desk: Desk) -> None:
    desk.write("config/dragoman/prompts/greet.md", "Greet {name}.")
    desk.write("config/dragoman/prompts/review.md", "Review: {task}")
    with Upstream(["one", "two"]) as upstream:
        arguments = ["chat", *at(upstream), "-p", "greet", "--fill", "name=Ann"]
        typed = "/prompt review this text\n/prompt\n/prompt nosuch\n/prompt mcp:nosuch/x\n/save notes.md\n/sessions\n"
        done = desk(*arguments, stdin=typed)
        assert texts(upstream, 1) == ["Greet Ann.", "one", "Review: this text"]
        assert desk("chat", *at(upstream), "--fill", "name=Ann").code == 2
    assert done.out == "one\ntwo\n"
    for words in (
        "  greet\n",
        "there is no prompt 'nosuch'",
        "there is no MCP server 'nosuch'",
        "saved 4 messages in notes.md",
        "* chat-",
    ):
        assert words in done.err
    saved = (desk.folder / "notes.md").read_text()
    assert (
        saved == "## user\n\nGreet Ann.\n\n## assistant\n\none\n\n## user\n\nReview: this text\n\n## assistant\n\ntwo\n"
    )


def test_a_prompt_in_a_chat_has_placeholders(desk: Desk) -> None:
    desk.write("config/dragoman/prompts/greet.md", "Greet {name} in {language}: {task}")
    typed = (
        '/prompt greet --fill name="Ann Lee" --fill language=Greek be --fill polite\n/prompt greet --fill name=Ann x\n'
    )
    with Upstream(["one"]) as upstream:
        done = desk("chat", *at(upstream), stdin=typed)
        assert texts(upstream, 0) == ["Greet Ann Lee in Greek: be --fill polite"]
    assert "hint: add --fill language=..." in done.err


def test_a_history_that_is_damaged_too_long_or_no_file_stops_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history.jsonl"
    path.parent.mkdir()
    path.write_text("".join(f'"entry {number}"\n' for number in range(1500)) + 'torn "\n\xff\n[1]\n"last"\n')
    path.chmod(0o644)
    history = PrivateHistory(path)
    entries = list(history.load_history_strings())
    assert (len(entries), entries[0], entries[-1]) == (1000, "last", "entry 501")
    history.store_string("a\nb")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().splitlines()[-2:] == ['"last"', '"a\\nb"']
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (None, tmp_path, pipe, tmp_path / "state" / "history.jsonl" / "inside"):
        other = PrivateHistory(place)
        other.store_string("text")
        assert list(other.load_history_strings()) == []


def test_a_file_that_the_endpoint_cannot_receive_is_not_lost_in_silence(desk: Desk) -> None:
    (desk.folder / "talk.mp3").write_bytes(b"ID3\x04" + bytes(64))
    with Upstream(["two"], wire="anthropic") as upstream:
        where = ["-m", "anthropic:claude-sonnet-4-5", "--key", "k", "--base-url", upstream.url]
        done = desk("chat", *where, stdin="/attach talk.mp3\nwhat is said?\nand now?\n")
        assert texts(upstream, 0) == ["and now?"], "the next message is not stopped by the file"
    assert "the attachments were not sent" in done.err


def test_a_file_is_attached_to_the_next_message(desk: Desk) -> None:
    desk.write("notes.txt", "the content of the notes")
    typed = "/attach notes.txt\nread it\nand now?\n/attach\n/attach nosuch.png\n"
    with Upstream(["one", "two"]) as upstream:
        done = desk("chat", *at(upstream), stdin=typed)
        assert "the content of the notes" in texts(upstream, 0)[0]
        assert texts(upstream, 1)[-1] == "and now?"
    assert done.code == 0
    for words in (
        "notes.txt goes with the next message",
        "name a file or an address",
        "nosuch.png",
        "hint: give the path of a file, or",
    ):
        assert words in done.err
