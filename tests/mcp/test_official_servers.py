"""Servers written with the official SDK are the judges: both transports, with a handshake and without."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import runpy
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.toolboxes import HERE, call, find, official, open_toolbox, wait_until

from dragoman.mcp import HttpServer, Server, Toolbox
from dragoman.mcp.session import HANDSHAKE, STATELESS, Session
from dragoman.tools import ToolContext, answer_async, bind
from dragoman.types import Image, Text, ToolCall

if importlib.util.find_spec("mcp") is None:
    pytest.skip(
        "the official SDK of MCP is not installed: pip install mcp, or make test, which sets it up",
        allow_module_level=True,
    )


@contextmanager
def serving(how: str) -> Iterator[Server]:
    """A server of the SDK, over stdio or over HTTP."""
    if how == "stdio":
        yield official()
        return
    command = [sys.executable, str(HERE / "sdk_server.py"), how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield HttpServer("weather", f"http://127.0.0.1:{int(process.stdout.readline())}/mcp")
        finally:
            process.kill()


@pytest.fixture(scope="module", params=["stdio", "http", "http-json"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with serving(request.param) as found:
        yield found


async def _knows_nothing(self: Session) -> None:
    """As if the server did not know the newest way to ask."""


@pytest.fixture(scope="module", params=["newest", "handshake"])
def toolbox(server: Server, request: pytest.FixtureRequest) -> Iterator[Toolbox]:
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "handshake":
            patch.setattr(Session, "_discover", _knows_nothing)
        with open_toolbox(server, environment={**os.environ, "OPENAI_API_KEY": "sk-1", "MY_TOKEN": "t"}) as found:
            assert found.problems == []
            assert found.versions == {"weather": (STATELESS if request.param == "newest" else HANDSHAKE)[0]}
            yield found


def test_every_protocol_version_of_the_sdk_is_supported() -> None:
    spec = importlib.util.find_spec("mcp_types")
    assert spec is not None
    assert spec.origin is not None
    known = runpy.run_path(str(Path(spec.origin).parent / "version.py"))["KNOWN_PROTOCOL_VERSIONS"]
    assert sorted(known) == sorted([*STATELESS, *HANDSHAKE])


def test_a_result_has_text_for_the_model_and_data_for_the_caller(toolbox: Toolbox) -> None:
    result = call(toolbox, "totals", numbers=[1, 2, 3])
    assert result.is_error is False
    assert result.data == {"sum": 6, "count": 3}
    assert '"sum": 6' in str(result.content)


def test_a_picture_comes_as_an_image(toolbox: Toolbox) -> None:
    words, image = call(toolbox, "picture").content
    assert words == Text("a dot")
    assert image == Image(data="iVBORw0KGgpyZXN0", media_type="image/png")


def test_the_error_of_a_tool_has_its_own_message(toolbox: Toolbox) -> None:
    result = call(toolbox, "fail", why="the moon is full")
    assert result.is_error
    assert "the moon is full" in str(result.content)


@pytest.mark.parametrize("region", ["eu-west", " Zürich\n", "=?base64?eA==?="])
def test_an_argument_that_a_header_has_to_repeat_arrives_as_it_is(toolbox: Toolbox, region: str) -> None:
    result = call(toolbox, "route", region=region)
    assert (result.is_error, result.data) == (False, {"result": region})


def test_progress_reaches_listeners_in_their_own_thread(toolbox: Toolbox, request: pytest.FixtureRequest) -> None:
    is_without_streams = "http-json" in request.node.name
    seen: list[tuple[Any, ...]] = []

    def watch(*told: Any) -> None:
        seen.append((*told, threading.current_thread() is threading.main_thread()))

    assert call(toolbox, "count", ToolContext(progress=watch), to=2).content == "done"
    # An answer without a stream has no room for progress.
    assert seen == ([] if is_without_streams else [("at 1", 0.5, True), ("at 2", 1.0, True)])


def test_definitions_say_where_they_come_from_and_claim_nothing(toolbox: Toolbox) -> None:
    tool = find(toolbox, "forecast")
    assert tool.name == "mcp__weather__forecast"
    assert tool.description.startswith("The weather in a city")
    assert tool.parameters["required"] == ["city"]
    assert tool.parameters["additionalProperties"] is False
    assert tool.metadata["origin"] == "mcp:weather"
    assert tool.metadata["annotations"] == {"readOnlyHint": True}
    assert tool.metadata["exec"] is True
    assert (tool.read_only, tool.parallel_safe, tool.repeatable) == (False, False, False)
    assert "class" not in tool.metadata


def test_a_server_sees_none_of_our_variables_but_the_few_that_every_program_needs(toolbox: Toolbox) -> None:
    names = set(call(toolbox, "environment").data["result"])
    assert names.isdisjoint({"OPENAI_API_KEY", "MY_TOKEN"})
    if toolbox._connections[0].server == official():
        assert "PATH" in names
        assert {name for name in names if not name.startswith("LC_")} <= {
            *("PATH", "HOME", "LANG", "LANGUAGE", "TERM", "TMPDIR", "TZ", "USER", "LOGNAME", "SHELL")
        }


def test_cancelling_a_call_ends_the_work_in_the_server(toolbox: Toolbox, request: pytest.FixtureRequest) -> None:
    # Without a stream that could be closed, and without a session, nothing can tell the server.
    learns_of_it = "newest-http-json" not in request.node.name

    async def cancel() -> None:
        before = (await acall(toolbox, "waits")).data["result"]
        work = asyncio.ensure_future(acall(toolbox, "wait_for_ever"))
        while (await acall(toolbox, "waits")).data["result"] != [*before, "begun"]:
            await asyncio.sleep(0)
        work.cancel()
        await asyncio.wait((work,))
        assert work.cancelled()
        expected = [*before, "begun", *(["cancelled"] if learns_of_it else [])]
        while (await acall(toolbox, "waits")).data["result"] != expected:
            await asyncio.sleep(0)

    asyncio.run(cancel())


def test_a_tool_that_changes_is_disabled_and_its_new_description_is_not_shown(toolbox: Toolbox) -> None:
    before = find(toolbox, "forecast").description
    assert not call(toolbox, "grow").is_error
    wait_until(lambda: bool(toolbox.problems))
    assert find(toolbox, "forecast").description == before
    refused = call(toolbox, "forecast", city="Rome")
    assert refused.is_error
    assert "`dragoman approvals mcp approve weather/forecast`" in str(refused.content)
    assert not call(toolbox, "totals", numbers=[]).is_error


async def acall(toolbox: Toolbox, name: str, **arguments: Any) -> Any:
    return (await answer_async(bind(find(toolbox, name), arguments), ToolCall("1", name, arguments))).result
