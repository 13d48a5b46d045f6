"""Commands are loaded when they are called: the table of commands, and which modules a command loads."""

from __future__ import annotations

import gc
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import pytest
import typer

from dragoman import __main__ as program
from dragoman import cli
from dragoman.cli.app import COMMANDS, CommandRow
from dragoman.policy import MODES
from dragoman.types import ModeName

# Prints the modules that are loaded when the process ends, whatever way it takes.
LIST_MODULES = """
import atexit, json, sys
from dragoman.__main__ import main
atexit.register(lambda: print(json.dumps(sorted(sys.modules)), file=sys.stderr))
sys.exit(main())
"""

TYPES = {"dragoman.types", "dragoman.media", "dragoman.file_content"}
"""The types, and what they check the bytes of an image with."""


def modules_after(*arguments: str, code: int = 0) -> set[str]:
    command = [sys.executable, "-c", LIST_MODULES, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("row", COMMANDS, ids=[row.name for row in COMMANDS])
def test_a_row_of_the_table_agrees_with_its_module(row: CommandRow) -> None:
    application = getattr(import_module(row.module), row.application)
    assert isinstance(application, typer.Typer)
    assert application.info.name == row.name
    command = row.load()
    assert command.name == row.name
    assert command.help
    assert row.short_help.endswith(".")


def test_every_application_of_the_package_is_in_the_table() -> None:
    names = {f"dragoman.cli.{found.name}" for found in pkgutil.iter_modules(cli.__path__)} - {"dragoman.cli.app"}
    applications = {name for name in names if hasattr(import_module(name), "app")}
    assert applications == {row.module for row in COMMANDS if row.application == "app"}


def test_the_option_mode_takes_the_modes_of_the_policy() -> None:
    assert set(get_args(ModeName)) == set(MODES)


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], []])
def test_no_command_is_loaded_for_the_version_and_the_help(arguments: list[str]) -> None:
    loaded = modules_after(*arguments)
    rooms = {".".join(name.split(".")[:2]) for name in loaded if name.startswith("dragoman.")}
    assert rooms <= {"dragoman.__main__", "dragoman.cli", "dragoman.errors", *TYPES}
    own = {name for name in loaded if name.startswith("dragoman.cli.")}
    assert own == {"dragoman.cli.app", "dragoman.cli.exit_codes", "dragoman.cli.parameters"}
    assert loaded & {"asyncio", "pydantic", "rich"} == set()


def test_one_command_does_not_load_the_others() -> None:
    loaded = modules_after("formats", "hermes")
    assert "dragoman.cli.formats" in loaded
    assert loaded & {row.module for row in COMMANDS} == {"dragoman.cli.formats"}


NOT_FOR_A_REQUEST = {
    "dragoman.builtin.web.readable",
    "dragoman.client.aws",
    "dragoman.formats.grammars",
    "dragoman.local",
    "dragoman.mcp",
    "dragoman.policy.shell",
    "dragoman.sandbox.landlock",
    "dragoman.telemetry",
    "opentelemetry",
    "prompt_toolkit",
    "pydantic",
}


def test_a_run_loads_nothing_that_its_first_request_does_not_need(tmp_path: Path) -> None:
    nobody = ("-m", "custom:model", "--base-url", "http://127.0.0.1:9/v1", "--workspace", str(tmp_path))
    loaded = modules_after("run", "Hello", *nobody, "--no-journal", code=4)
    assert "dragoman.agent.agent" in loaded
    assert loaded & NOT_FOR_A_REQUEST == set()


@pytest.fixture
def usual_collection() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    if program._resume_collection in gc.callbacks:
        gc.callbacks.remove(program._resume_collection)


@pytest.mark.usefixtures("usual_collection")
def test_garbage_is_collected_as_usual_after_the_first_collection() -> None:
    before = gc.get_threshold()
    for _ in range(2):
        program._postpone_collection()
        assert gc.get_threshold()[0] > 100_000
    assert gc.callbacks.count(program._resume_collection) == 1
    gc.collect()
    assert (gc.get_threshold(), gc.get_freeze_count() > 0) == (before, True)
    assert program._resume_collection not in gc.callbacks


def test_the_program_can_be_started_twice_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    import_module("dragoman.cli.run")  # a module must not take the place of the function that starts the program

    monkeypatch.setattr("sys.argv", ["dragoman", "--version"])
    assert [program.main(), program.main()] == [0, 0]
