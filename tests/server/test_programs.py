"""The start message: every client is told the address, and the lines can be pasted into a shell."""

from __future__ import annotations

import shlex

import pytest
from tests.clients.more_programs import PROGRAMS as TESTED
from tests.clients.results import PAGE, insert_table, read_recorded

from dragoman.cli.serve import print_start
from dragoman.errors import UnknownModel
from dragoman.server.gateway import Gateway
from dragoman.server.programs import PLACEHOLDER_KEY, PROGRAMS, list_clients, write_command
from dragoman.server.router import Router
from dragoman.server.settings import parse_settings

URL = "http://127.0.0.1:4000"
NAMED = ("claude", "codex", "opencode", "qwen", "gemini", "pi", "goose", "cline")
CLIENTS = ("openai", "anthropic", "google-genai", "ollama")


@pytest.mark.parametrize("key", [PLACEHOLDER_KEY, "sk-dragoman-0"])
def test_every_program_and_client_is_told_the_address(key: str) -> None:
    lines = dict(list_clients(URL, "m", key))
    assert set(NAMED + CLIENTS) <= lines.keys()
    assert [name for name, line in lines.items() if URL not in line] == []


def test_the_lines_of_programs_are_words_of_a_shell() -> None:
    for name, write in PROGRAMS.items():
        setup = write(URL, "a model's name", "k")
        words = shlex.split(write_command(setup))
        assert setup.command in words, name
        assert [word for word in setup.arguments if word not in words] == [], name


def test_the_start_message_shows_the_endpoint_and_every_program(capsys: pytest.CaptureFixture[str]) -> None:
    print_start(Gateway(Router(parse_settings('[[routes]]\nto = "ollama:qwen3"\n'))), URL)
    shown = capsys.readouterr().out
    assert "qwen3" in shown and f"{URL}/dragoman/exchanges" in shown
    assert [name for name in NAMED + CLIENTS if name not in shown] == []


def test_nothing_is_shown_of_a_gateway_whose_endpoint_cannot_be_opened(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownModel):
        print_start(Gateway(Router(parse_settings('[[routes]]\nto = "local:no-such-model"\n'))), URL)
    assert capsys.readouterr().out == ""


def test_the_documentation_shows_the_recorded_results_of_every_tested_program() -> None:
    """`scripts/test-clients --record` and `--table` write both."""
    page = PAGE.read_text(encoding="utf-8")
    assert insert_table(page) == page
    recorded = {name: kept.package for name, kept in read_recorded().items()}
    assert recorded == {program.name: program.packages[0] for program in TESTED}
    failed = [name for name, kept in read_recorded().items() if kept.passed != kept.tried or kept.launched is False]
    assert failed == []
