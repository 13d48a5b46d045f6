"""A workspace for the file tools, and files outside of it that no tool may touch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.tools import Error, ToolContext, bind, to_answer
from dragoman.types import Tool, ToolCall, ToolResult

SECRET = "the secret outside\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The top of the workspace."""
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def context(folder: Path) -> ToolContext:
    return ToolContext(workspace=str(folder))


@pytest.fixture(params=["openat2", "walk"])
def resolving(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both implementations of the confinement: that of the kernel, and the one for other kernels."""
    if request.param == "walk":
        monkeypatch.setattr("dragoman.builtin.files.workspace.kernel_open", lambda: None)
    else:
        from dragoman.builtin.files.workspace import kernel_open

        assert kernel_open() is not None, "this kernel has no openat2, or something forbids it"
    return str(request.param)


Call = Callable[..., Any]


@pytest.fixture
def call(context: ToolContext) -> Call:
    """Call a tool as a model does: `call(Read, path="a.txt")`. Failures become results for the model."""

    def run(tool: Tool, **arguments: Any) -> Any:
        try:
            value = bind(tool, arguments, context)()
        except Error as problem:
            return f"Error: {problem.reason}"
        return value

    return run


@pytest.fixture
def result(context: ToolContext) -> Callable[..., ToolResult]:
    """Return the result for the model."""

    def run(tool: Tool, **arguments: Any) -> ToolResult:
        value: Any
        try:
            value = bind(tool, arguments, context)()
        except Error as problem:
            value = problem
        return to_answer(value, ToolCall("c1", tool.name, arguments), tool).result

    return run
