"""Facts in a file: they outlive the process, and a damaged file stops no run."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dragoman
from dragoman.client.facts import KEPT_DAYS, MOST_ROWS, FileFacts, learned_file
from dragoman.providers import Fact, MemoryFacts, resolve
from dragoman.testing import ScriptedModel, Upstream, call
from dragoman.types import Failure, Request

URL = "http://127.0.0.1:8080/v1"
LEARNED = Fact(False, "", "it said no", {"tool_choice": ["auto"], "final_frame": False}, {"streaming": False}, "fenced")
DAY = 86_400.0


def test_a_fact_is_there_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "learned.toml"
    FileFacts(path, "doctor").put(URL, "qwen3", LEARNED)
    assert FileFacts(path).get(URL, "qwen3") == LEARNED
    assert FileFacts(path).get(URL, "other") is None
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in path.parent.iterdir()) == [".learned.toml.lock", "learned.toml"]
    endpoint = resolve("llamacpp:qwen3", base_url=URL, facts=FileFacts(path))
    assert endpoint.quirks.final_frame is False
    assert endpoint.quirks.tool_choice == ("auto",)
    assert endpoint.prompt_format == "fenced"
    assert not endpoint.capabilities.streaming and not endpoint.capabilities.native_tool_calls


def test_a_login_in_a_url_is_not_written(tmp_path: Path) -> None:
    path, url = tmp_path / "learned.toml", URL.replace("//", "//someone:pass@word@")
    FileFacts(path).put(url, "m", LEARNED)
    assert "word" not in path.read_text() and FileFacts(path).get(URL, "m") == LEARNED == FileFacts(path).get(url, "m")
    assert FileFacts(path).forget(url, "m")


def test_the_doctor_replaces_and_a_run_adds(tmp_path: Path) -> None:
    path = tmp_path / "learned.toml"
    FileFacts(path, "doctor").put(URL, "m", LEARNED)
    FileFacts(path).put(URL, "m", Fact(native_tool_calls=True, why="again"))
    added = FileFacts(path).get(URL, "m")
    assert added is not None
    assert (added.native_tool_calls, added.why, added.quirks) == (True, "again", LEARNED.quirks)
    FileFacts(path, "doctor").put(URL, "m", Fact(native_tool_calls=True))
    assert FileFacts(path).get(URL, "m") == Fact(native_tool_calls=True)


def test_what_a_run_learned_is_forgotten_after_a_while(tmp_path: Path) -> None:
    path = tmp_path / "learned.toml"
    now = [1_800_000_000.0]
    FileFacts(path, "run", lambda: now[0]).put(URL, "run", LEARNED)
    FileFacts(path, "doctor", lambda: now[0]).put(URL, "doctor", LEARNED)
    now[0] += (KEPT_DAYS - 1) * DAY
    assert FileFacts(path, "run", lambda: now[0]).get(URL, "run") == LEARNED
    now[0] += 3 * DAY
    late = FileFacts(path, "run", lambda: now[0])
    assert late.get(URL, "run") is None
    assert late.get(URL, "doctor") == LEARNED


def test_two_that_write_do_not_lose_each_others_facts(tmp_path: Path) -> None:
    one, other = FileFacts(tmp_path / "learned.toml"), FileFacts(tmp_path / "learned.toml")
    assert len(one) == len(other) == 0
    one.put(URL, "a", LEARNED)
    other.put(URL, "b", LEARNED)
    assert len(FileFacts(tmp_path / "learned.toml")) == 2


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    from dragoman.client.facts import LearnedRow, format_learned

    path = tmp_path / "learned.toml"
    path.write_text(format_learned([LearnedRow(URL, f"m{number}", "doctor") for number in range(MOST_ROWS)]))
    facts = FileFacts(path)
    facts.put(URL, "last", LEARNED)
    again = FileFacts(path)
    assert len(again) == MOST_ROWS
    assert again.get(URL, "m0") is None
    assert again.get(URL, "last") == LEARNED


def test_forgetting(tmp_path: Path) -> None:
    facts = FileFacts(tmp_path / "learned.toml")
    facts.put(URL, "m", LEARNED)
    assert facts.forget(URL, "m") is True
    assert facts.forget(URL, "m") is False
    assert FileFacts(tmp_path / "learned.toml").get(URL, "m") is None


def test_a_file_that_is_broken_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "learned.toml"
    path.write_text("facts = [", encoding="utf-8")
    facts = FileFacts(path)
    assert facts.get(URL, "m") is None
    assert "learned.toml:1" in facts.problems[0]
    facts.put(URL, "m", LEARNED)
    assert path.read_text(encoding="utf-8") == "facts = ["


@pytest.mark.parametrize(
    "row",
    ["quirks.no_such_flag = true", 'capabilities.streaming = "maybe"', "wire = 3", "no_such_field = 1"],
)
def test_a_row_that_makes_no_sense_costs_only_itself(tmp_path: Path, row: str) -> None:
    path = tmp_path / "learned.toml"
    head = f'[[facts]]\nurl = "{URL}"\nsource = "doctor"\n'
    path.write_text(f'{head}model = "bad"\n{row}\n\n{head}model = "good"\nnative_tool_calls = true\n')
    facts = FileFacts(path)
    assert facts.get(URL, "bad") is None
    assert facts.get(URL, "good") == Fact(native_tool_calls=True)
    assert len(facts.problems) == 1 and "fact 1" in facts.problems[0]


def test_a_folder_that_cannot_be_written_costs_no_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    facts = FileFacts(tmp_path / "file" / "learned.toml")
    facts.put(URL, "m", LEARNED)
    assert facts.get(URL, "m") == LEARNED
    assert "cannot write" in facts.problems[0]


def test_the_file_is_beside_the_users_own(tmp_path: Path) -> None:
    assert learned_file({"DRAGOMAN_CONFIG": str(tmp_path / "mine.toml")}) == tmp_path / "learned.toml"
    assert learned_file({"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "dragoman" / "learned.toml"
    assert learned_file({"DRAGOMAN_CONFIG": "off"}) is None


@given(why=st.text(max_size=40), model=st.text(st.characters(exclude_categories=("C",)), max_size=20))
def test_whatever_an_endpoint_says_the_file_stays_readable(
    tmp_path_factory: pytest.TempPathFactory, why: str, model: str
) -> None:
    path = tmp_path_factory.mktemp("facts") / "learned.toml"
    FileFacts(path, "doctor").put(URL, model, Fact(native_tool_calls=False, why=why))
    facts = FileFacts(path)
    found = facts.get(URL, model)
    assert found is not None and found.native_tool_calls is False
    assert facts.problems == []


# ---- the library and the command line share the file ----------------------------------------------------------------


@dragoman.tool
def weather(city: str) -> str:
    """The weather of a city."""
    return "sunny"


def refuse_tools(request: Request) -> Any:
    if request.tools:
        return Failure("bad_request", "this model does not support tools", 400)
    return "Hello."


def offered_tools(upstream: Upstream) -> list[bool]:
    return ["tools" in body for body in upstream.bodies]


def test_what_one_program_learns_the_next_one_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent learns, and `ask`, `stream`, another agent and the command line use the fact."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_FACTS", "on")
    with Upstream(ScriptedModel([refuse_tools], loop=True)) as upstream:
        model, url = "custom:m", upstream.url
        result = dragoman.Agent(model, [weather], base_url=url).run("Hi")
        assert [problem.kind for problem in result.problems] == ["tools_rejected"]
        assert offered_tools(upstream) == [True, False]
        assert dragoman.ask(model, "Hi", tools=[weather], base_url=url).text == "Hello."
        assert dragoman.fold(dragoman.stream(model, "Hi", tools=[weather], base_url=url)).text == "Hello."
        assert dragoman.Agent(model, [weather], base_url=url).run("Hi").problems == []
        assert offered_tools(upstream) == [True, False, False, False, False]
        stored = learned_file({"XDG_CONFIG_HOME": str(tmp_path)})
        assert stored is not None
        assert FileFacts(stored).get(url, "m") is not None
        # Without the file, or with facts in memory, the next agent has to learn the fact again.
        private = dragoman.Connection(facts=MemoryFacts())
        assert dragoman.Agent(model, [weather], base_url=url, connection=private).run("Hi").problems
        monkeypatch.setenv("DRAGOMAN_FACTS", "off")
        assert dragoman.Agent(model, [weather], base_url=url).run("Hi").problems


def test_calls_as_text_are_remembered_for_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_FACTS", "on")
    written = dragoman.formats.render([call("weather", city="Paris")], "hermes")
    with Upstream([written, "Sunny."] * 3) as upstream:
        agent = dragoman.Agent("custom:m", [weather], base_url=upstream.url)
        result = agent.run("Hi")
        assert ([each.content for each in result.results], result.text) == (["sunny"], "Sunny.")
        assert [problem.kind for problem in result.problems] == ["tools_ignored"]
        assert agent.run("Hi").problems == []
        assert dragoman.Agent("custom:m", [weather], base_url=upstream.url).run("Hi").text == "Sunny."
        assert offered_tools(upstream) == [True, True, False, False, False, False]


def test_a_question_is_asked_again_in_text_where_tools_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("DRAGOMAN_FACTS", "on")
    for number, ask in enumerate((dragoman.ask, lambda *given, **more: dragoman.fold(dragoman.stream(*given, **more)))):
        with Upstream(ScriptedModel([refuse_tools], loop=True)) as upstream:
            model = f"custom:m{number}"
            assert ask(model, "Hi", tools=[weather], base_url=upstream.url).text == "Hello."
            assert ask(model, "Hi", tools=[weather], base_url=upstream.url).text == "Hello."
            assert offered_tools(upstream) == [True, False, False]
            with pytest.raises(dragoman.errors.BadRequest):
                ask(model, "Hi", tools=[weather], base_url=upstream.url, tool_mode="native")


def test_a_store_sees_what_another_one_wrote(tmp_path: Path) -> None:
    path = tmp_path / "learned.toml"
    one, other = FileFacts(path), FileFacts(path)
    assert one.get(URL, "m") is None
    other.put(URL, "m", LEARNED)
    assert one.get(URL, "m") == LEARNED
