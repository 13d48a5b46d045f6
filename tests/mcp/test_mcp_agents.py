"""Agents with tools of servers: in blocking and async code, several at once, and in other threads."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.mcp.toolboxes import QUICK, call, faulty, find, open_toolbox

from dragoman.agent import Agent, Connection
from dragoman.errors import ConfigError
from dragoman.mcp import StdioServer, Toolbox, aconnect, approve_pin
from dragoman.testing import ScriptedModel
from dragoman.testing import call as calls
from dragoman.types import ToolResult


@pytest.fixture
def toolbox(tmp_path: Path) -> Iterator[Toolbox]:
    path = tmp_path / "pins.json"
    open_toolbox(faulty("none"), pins=path).close()
    approve_pin(path, "echo/echo")
    with open_toolbox(faulty("none"), pins=path) as found:
        yield found


def agent(toolbox: Toolbox, *texts: str) -> Agent:
    model = ScriptedModel([*(calls("mcp__echo__echo", text=each) for each in texts), "done"])
    return Agent(model.endpoint(), toolbox.tools, connection=Connection(transport=model), allow=["mcp:echo/*"])


def results(agent_run: Any) -> list[str]:
    parts = [part for message in agent_run.messages for part in message.parts]
    return [str(part.content).split()[-1] for part in parts if isinstance(part, ToolResult)]


def test_a_call_of_the_model_arrives_and_its_result_comes_back(toolbox: Toolbox) -> None:
    run = agent(toolbox, "one", "two").run("say it")
    assert run.text == "done"
    assert results(run) == ["one", "two"]


def test_two_agents_share_a_toolbox_in_one_loop_and_in_two_threads(toolbox: Toolbox) -> None:
    async def together() -> list[list[str]]:
        runs = await asyncio.gather(*(agent(toolbox, name, name + "!").arun("go") for name in ("ann", "bob")))
        return [results(run) for run in runs]

    assert asyncio.run(together()) == [["ann", "ann!"], ["bob", "bob!"]]
    found: dict[str, list[str]] = {}

    def work(name: str) -> None:
        found[name] = results(agent(toolbox, name).run("go"))

    threads = [threading.Thread(target=work, args=(name,)) for name in ("carl", "dora")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {"carl": ["carl"], "dora": ["dora"]}


def test_a_toolbox_is_opened_in_one_loop_and_used_in_another() -> None:
    async def open_it() -> Toolbox:
        return await aconnect([faulty("none")], limits=QUICK)

    with asyncio.run(open_it()) as toolbox:
        assert call(toolbox, "echo", text="hello").content.endswith(" hello")


def test_the_model_receives_an_error_for_a_changed_tool() -> None:
    with open_toolbox(faulty("pulls the rug")) as toolbox:
        run = agent(toolbox, "a", "b").run("go")
        told = [part for message in run.messages for part in message.parts if isinstance(part, ToolResult)]
        assert [part.is_error for part in told] == [False, True]
        assert "its definition has changed" in str(told[1].content)


def test_two_servers_cannot_take_each_others_names() -> None:
    with open_toolbox(faulty("none", name="one"), faulty("none", name="two")) as toolbox:
        assert sorted(tool.name for tool in toolbox.tools) == [
            *("mcp__one__echo", "mcp__one__other", "mcp__two__echo", "mcp__two__other"),
        ]
    with pytest.raises(ConfigError, match="two MCP servers are named"):
        open_toolbox(faulty("none", name="one"), StdioServer("ONE", ["x"]))


def test_untrusted_texts_and_secrets_are_registered_with_their_guards() -> None:
    server = faulty("none")
    with open_toolbox(StdioServer("echo", server.command, {"TOKEN": "sk-secret"})) as toolbox:
        assert "Say it again." in toolbox.untrusted_texts()
        assert toolbox.secrets() == ["sk-secret"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="without fork there is no child to try")
def test_a_child_of_a_fork_cannot_harm_the_servers_of_its_parent() -> None:
    with open_toolbox(faulty("none")) as toolbox:
        pid = os.fork()
        if pid == 0:
            toolbox.close()
            os._exit(0 if "no longer connected" in str(call(toolbox, "echo").content) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert find(toolbox, "echo") is not None
        assert call(toolbox, "echo", text="alive").content.endswith(" alive")
