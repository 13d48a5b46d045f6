"""The options that `run` and `chat` share: one field each, which something reads, and which a resumed run repeats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from tests.tables import each_row

from dragoman import cli
from dragoman.cli.app import COMMANDS
from dragoman.cli.context import SafetySetup
from dragoman.cli.options import RunOptions
from dragoman.config import SETTINGS, load
from dragoman.policy.decision import MODES
from dragoman.sandbox import BoxLimits, share_of_memory

_SOURCES = "".join(path.read_text() for path in Path(cli.__path__[0]).glob("*.py"))


@each_row("name", RunOptions.__struct_fields__)
def test_every_option_is_a_setting_or_is_read(name: str) -> None:
    assert name in SETTINGS or f"limits.{name}" in SETTINGS or f"options.{name}" in _SOURCES


def test_run_and_chat_have_every_option() -> None:
    by_name = {row.name: row for row in COMMANDS}
    run, chat = ([each.name for each in by_name[name].load().params] for name in ("run", "chat"))
    assert chat == ["prompt", "fill", *RunOptions.__struct_fields__]
    assert run == ["task", *chat]


def test_a_resumed_run_gets_the_options_that_shape_it() -> None:
    options = RunOptions(
        model="ollama:qwen3",
        tools=("a.py", "b.py"),
        system="Be brief.",
        session="trip",
        resume=True,
        deny=("bash",),
        network=False,
        turns="3",
        quiet=True,
        no_journal=True,
    )
    words = "--model ollama:qwen3 --tools a.py --tools b.py --deny bash --no-network --turns 3"
    assert options.resume_arguments() == words.split()
    assert RunOptions().resume_arguments() == []


class MoreOptions(RunOptions, frozen=True, kw_only=True):
    retries: Annotated[int | None, typer.Option("--retries", "-r")] = None


def test_a_number_is_repeated_as_a_word() -> None:
    assert MoreOptions(model="x:y", retries=3).resume_arguments() == ["--model", "x:y", "--retries", "3"]


@pytest.mark.parametrize("mode", sorted(set(MODES) - {"default"}))
def test_the_help_explains_every_mode(mode: str) -> None:
    by_name = {row.name: row for row in COMMANDS}
    helps = [each.help for each in by_name["run"].load().params if each.name == "mode"]
    assert f" {mode}: " in f" {helps[0]} "


def test_the_settings_for_commands_reach_the_box() -> None:
    plain = SafetySetup(load(environment={}), {}, "/", [])
    assert plain._command_limits() is None
    arguments = {"commands.processes": 7, "commands.file_bytes": "none", "commands.memory_share": 0.5}
    limits = SafetySetup(load(environment={}, arguments=arguments), {}, "/", [])._command_limits()
    assert limits == BoxLimits(processes=7, file_bytes=None, memory_bytes=share_of_memory(0.5))
