"""Servers that fail (fault 59): the model gets an error, the other servers work, and no process is left."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.mcp.toolboxes import QUICK, call, faulty, find, is_alive, open_toolbox, wait_until

from dragoman.mcp import HttpServer, StdioServer, aconnect
from dragoman.tools import ToolContext, answer_async, bind
from dragoman.types import ToolCall


def said(log: Path, method: str) -> list[dict[str, object]]:
    """The messages with this method that a server was sent."""
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [message for message in map(json.loads, lines) if message.get("method") == method]


# ---- a server that does not come up ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (StdioServer("bad", ["/no/such/program"]), "bad: cannot be used: cannot start '/no/such/program'"),
        (StdioServer("bad", ["sh", "-c", "echo out of memory >&2; exit 7"]), "the server ended (exit status 7)"),
        (faulty("speaks of tomorrow", name="bad"), "bad: cannot be used: it uses the unknown version '2199-01-01'"),
        (HttpServer("bad", "http://192.0.2.1/mcp"), "is not encrypted, and is not on this machine"),
        (HttpServer("bad", "http://127.0.0.1:1/mcp"), "nothing listens there"),
        (HttpServer("bad", "ftp://example.org/"), "does not start with https://"),
        (HttpServer("bad", "http://127.0.0.1:1/", {"X": "a\r\nb"}), "the header 'X' cannot be sent"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_server_that_does_not_come_up_is_a_problem_and_takes_no_other_down(server: StdioServer, words: str) -> None:
    with open_toolbox(server, faulty("none")) as toolbox:
        assert any(words in problem for problem in toolbox.problems), toolbox.problems
        assert [tool.name for tool in toolbox.tools] == ["mcp__echo__echo", "mcp__echo__other"]
        assert call(toolbox, "echo", text="hello").content.split()[1] == "hello"


def test_what_a_server_wrote_before_it_ended_is_in_its_problems() -> None:
    with open_toolbox(StdioServer("bad", ["sh", "-c", "printf '\\033[31mout of memory\\n' >&2; exit 7"])) as toolbox:
        assert "bad wrote: out of memory" in toolbox.problems


def test_a_server_that_hangs_in_its_greeting_is_given_up_after_its_time() -> None:
    limits = replace(QUICK, probe_seconds=0.01, start_seconds=0.2)
    with open_toolbox(faulty("hangs in initialize"), limits=limits) as toolbox:
        assert toolbox.problems[0] == "echo: did not start within 0.2 seconds"
        assert toolbox.tools == []


def test_a_server_that_ends_when_it_is_asked_what_it_does_not_know_is_greeted_in_the_older_way() -> None:
    with open_toolbox(faulty("dies when asked")) as toolbox:
        # It exits at each of the first requests. It stays alive if it receives only the handshake.
        assert toolbox.versions == {"echo": "2025-06-18"}
        assert call(toolbox, "echo", text="hello").is_error is False


# ---- a server that fails later ---------------------------------------------------------------------------------------

LOST = [
    ("dies in the midst", "the server ended (exit status 3)"),
    ("is killed", "the server ended (by SIGKILL)"),
    ("sends a huge line", "the server sent a message of more than 1000000 bytes"),
    ("sends no JSON", "the server sent an invalid message (not JSON"),
    ("sends no JSON-RPC", "the server sent an invalid message (not JSON-RPC"),
    ("babbles", "the server keeps writing other text to its output"),
    ("closes its output", "the server closed its input or output"),
]


@pytest.mark.parametrize(("fault", "words"), LOST, ids=[fault for fault, _ in LOST])
def test_a_server_that_breaks_is_started_again_by_the_next_call(fault: str, words: str) -> None:
    with open_toolbox(faulty(fault)) as toolbox:
        first = call(toolbox, "echo", text="one").content
        broken = call(toolbox, "echo", text="die")
        assert broken.is_error
        assert words in broken.content
        assert "It is not known whether the call was carried out." in broken.content
        second = call(toolbox, "echo", text="two").content
        assert second.split()[1] == "two"
        assert first.split()[0] != second.split()[0]
        assert not is_alive(int(first.split()[0]))


def test_a_server_that_keeps_breaking_is_not_started_for_ever() -> None:
    with open_toolbox(faulty("dies in the midst")) as toolbox:
        for _ in range(1 + len(QUICK.restart_delays)):
            assert "exit status 3" in call(toolbox, "echo", text="die").content
        given_up = call(toolbox, "echo", text="one").content
        assert given_up.endswith("the server failed 3 times, and is not restarted. Nothing was run.")
        assert "echo wrote: Traceback: out of luck" in toolbox.problems


def test_a_server_that_recovers_has_all_its_restarts_again() -> None:
    with open_toolbox(faulty("dies in the midst"), limits=replace(QUICK, calls_to_recover=2)) as toolbox:
        for _ in range(5):
            call(toolbox, "echo", text="die")
            assert [call(toolbox, "echo", text="one").is_error for _ in range(2)] == [False, False]


def test_a_flood_on_standard_error_neither_blocks_the_server_nor_fills_the_memory() -> None:
    with open_toolbox(faulty("floods stderr")) as toolbox:
        assert call(toolbox, "echo", text="hello").content.endswith(" hello")
        assert toolbox.problems == []


@pytest.mark.parametrize("fault", ["answers wrong ids", "answers twice", "greets"])
def test_answers_that_nobody_waits_for_are_nobodys(fault: str) -> None:
    with open_toolbox(faulty(fault)) as toolbox:
        contents = [call(toolbox, "echo", text=str(number)).content.split()[1] for number in range(3)]
        assert contents == ["0", "1", "2"]


def test_a_server_gets_no_model_no_person_and_no_files_from_us(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open_toolbox(faulty("asks back", log)) as toolbox:
        assert call(toolbox, "echo", text="hello").is_error is False
    replies = {
        message["id"]: message for message in map(json.loads, log.read_text().splitlines()) if "method" not in message
    }
    assert replies["a"]["error"]["code"] == -32601
    assert replies["b"]["result"] == {"action": "cancel"}, "nobody is there to be asked"
    assert replies["c"]["result"] == {"roots": []}
    assert replies["d"]["result"] == {}


def test_the_words_of_a_refusal_are_shown_without_what_hides_in_them() -> None:
    with open_toolbox(faulty("refuses")) as toolbox:
        refused = call(toolbox, "echo")
        assert refused.is_error
        assert refused.content == "the MCP server 'echo' refused the call: no thanks (error -32602)"


# ---- time and cancelling ---------------------------------------------------------------------------------------------


def test_a_call_that_takes_too_long_is_an_error_and_is_cancelled_at_the_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with open_toolbox(faulty("hangs", log), limits=replace(QUICK, call_seconds=0.05)) as toolbox:
        result = call(toolbox, "echo", text="hello")
        assert "did not answer within 0.05 seconds" in result.content
        (sent,) = said(log, "tools/call")
        wait_until(lambda: bool(said(log, "notifications/cancelled")))
        assert said(log, "notifications/cancelled")[0]["params"]["requestId"] == sent["id"]


def test_the_deadline_of_the_run_counts() -> None:
    with open_toolbox(faulty("hangs")) as toolbox:
        assert "did not answer within 0 seconds" in call(toolbox, "echo", ToolContext(deadline=0.0), text="x").content


def test_cancelling_a_call_reaches_the_server_and_leaves_the_others_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def cancel_one() -> None:
        async with await aconnect([faulty("hangs", log)], limits=QUICK) as toolbox:
            bound = bind(find(toolbox, "echo"), {"text": "hello"})
            first = asyncio.ensure_future(answer_async(bound, ToolCall("1", "echo", {})))
            second = asyncio.ensure_future(answer_async(bound, ToolCall("2", "echo", {})))
            while len(said(log, "tools/call")) < 2:
                await asyncio.sleep(0)
            first.cancel()
            while not said(log, "notifications/cancelled"):
                await asyncio.sleep(0)
            assert not second.done()
            assert first.cancelled()
            second.cancel()
            await asyncio.wait((second,))

    asyncio.run(cancel_one())
    assert len(said(log, "tools/call")) == 2


# ---- the end --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["none", "hangs", "ignores SIGTERM", "leaves a child"])
def test_nothing_is_left_of_a_server_once_it_is_closed(fault: str) -> None:
    limits = replace(QUICK, close_seconds=0.1) if fault == "ignores SIGTERM" else QUICK
    with open_toolbox(faulty(fault), limits=limits) as toolbox:
        (connection,) = toolbox._connections
        channel = connection._session.channel
        pids = [channel._transport.get_pid()]
        if fault == "leaves a child":
            wait_until(lambda: "child is" in channel.diagnosis())
            pids.append(int(channel.diagnosis().split()[-1]))
        assert all(map(is_alive, pids))
    wait_until(lambda: not any(map(is_alive, pids)))


def test_a_closed_toolbox_answers_its_calls_with_an_error() -> None:
    toolbox = open_toolbox(faulty("none"))
    toolbox.close()
    toolbox.close()
    assert call(toolbox, "echo").content == "the MCP server 'echo' is no longer connected"


def test_a_program_that_does_not_close_leaves_no_server_running(tmp_path: Path, root: Path) -> None:
    import subprocess
    import sys

    program = (
        "from tests.mcp.toolboxes import *\n"
        "toolbox = open_toolbox(faulty('ignores SIGTERM'), limits=Limits(close_seconds=0.1))\n"
        "print(call(toolbox, 'echo').content)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert not is_alive(int(done.stdout))
