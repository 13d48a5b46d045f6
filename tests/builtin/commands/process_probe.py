"""Helpers of the tests of commands: a call of the tool, and a probe for processes that are left."""

from __future__ import annotations

import asyncio
import os
import select
from pathlib import Path
from typing import Any

from dragoman.builtin.commands.bash import Bash
from dragoman.tools import Answer, ToolContext, answer_async, bind
from dragoman.types import Tool, ToolCall

PATIENCE = 30.0
"""Seconds after which a test that waits for something fails."""


async def ask(command: str, context: ToolContext, tool: Tool = Bash, **more: Any) -> Answer:
    arguments = {"command": command, **more}
    return await answer_async(bind(tool, arguments, context), ToolCall("c", "bash", arguments))


def run(command: str, workspace: Path, tool: Tool = Bash, **more: Any) -> Answer:
    return asyncio.run(ask(command, ToolContext(workspace=str(workspace)), tool, **more))


def output_of(answer: Answer) -> str:
    """Return what the command printed, without the lines about its end."""
    content = answer.result.content
    assert isinstance(content, str)
    return content[: content.rindex("[exit code")]


class ProcessProbe:
    """A named pipe in the workspace. As long as any process holds it open for writing, there is no end to be read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "probe"
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def wait_for(self, words: bytes) -> None:
        """Wait until a process has written these bytes."""
        seen = b""
        while words not in seen:
            assert select.select((self._end,), (), (), PATIENCE)[0], f"only {seen!r} was written"
            seen += os.read(self._end, 4096)

    def is_alone(self) -> bool:
        """Whether no process holds the pipe at this moment."""
        try:
            while os.read(self._end, 4096):
                pass
        except BlockingIOError:
            return False
        return True

    def wait_until_alone(self) -> None:
        """Wait until the last process that held the pipe has ended. Call it after one has written to the pipe."""
        while True:
            assert select.select((self._end,), (), (), PATIENCE)[0], "a process is left"
            if not os.read(self._end, 4096):
                return

    def close(self) -> None:
        os.close(self._end)


def processes_with(marker: str) -> list[str]:
    """The command lines of all processes that hold the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if marker in line:
                found.append(line)
    return found
