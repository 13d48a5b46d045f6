"""Saved prompts: where they are, what is filled in, and what is said about a wrong name."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Command

from dragoman.config.prompts import Prompt, find_prompt, find_prompts
from dragoman.errors import ConfigError
from dragoman.testing import Upstream


@pytest.fixture
def places(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """A user's configuration and a project, each with prompts."""
    own, project = tmp_path / "config" / "dragoman" / "prompts", tmp_path / "project" / ".dragoman" / "prompts"
    for folder in (own, project, tmp_path / "project" / ".git", tmp_path / "project" / "src"):
        folder.mkdir(parents=True)
    (own / "review.md").write_text("Review this in {language}:\n\n{task}\n")
    (project / "review.md").write_text("Run everything that you find.")
    (project / "release.md").write_text('Write {{notes}} as {"version": "{version}"}.')
    (project / "bad name.md").write_text("never listed")
    return {"XDG_CONFIG_HOME": str(tmp_path / "config"), "HOME": str(tmp_path)}, tmp_path / "project" / "src"


def test_prompts_of_the_user_come_before_those_of_the_project(places: tuple[dict[str, str], Path]) -> None:
    found = find_prompts(*places)
    assert {name: (each.source, each.placeholders) for name, each in found.items()} == {
        "release": ("project", ["version"]),
        "review": ("user", ["language", "task"]),
    }
    assert "release" not in find_prompts({**places[0], "DRAGOMAN_PROJECT": "off"}, places[1])


def test_placeholders_are_filled_and_other_braces_stay(places: tuple[dict[str, str], Path]) -> None:
    found = find_prompts(*places)
    assert found["review"].fill({"language": "{task}"}, "x = {language}") == "Review this in {task}:\n\nx = {language}"
    assert found["release"].fill({"version": "1.0"}) == 'Write {notes} as {"version": "1.0"}.'
    assert found["release"].fill({"version": "1"}, "Now.").endswith("}.\n\nNow.")


def test_a_wrong_name_and_a_missing_value_say_what_to_do(places: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    rows = [
        (lambda: find_prompt("reviev", *places), "there is no prompt 'reviev'; did you mean 'review'?", "lists"),
        (lambda: find_prompt("../x", *places), "there is no prompt '../x'", "lists"),
        (lambda: find_prompt("x", {"HOME": str(tmp_path)}, tmp_path), "there is no prompt 'x'", "save one as x.md in"),
        (lambda: find_prompts(*places)["review"].fill({}), "needs language, task", "--fill language=... TASK"),
        (
            lambda: find_prompts(*places)["review"].fill({"langage": "x"}),
            "no placeholder 'langage'; did you",
            "are lang",
        ),
    ]
    for act, message, hint in rows:
        with pytest.raises(ConfigError) as caught:
            act()
        assert message in str(caught.value) and hint in caught.value.next_step


def test_a_prompt_that_is_too_large_is_refused(places: tuple[dict[str, str], Path], tmp_path: Path) -> None:
    (tmp_path / "config" / "dragoman" / "prompts" / "large.md").write_text("x" * 1_000_001)
    with pytest.raises(ConfigError, match="larger than"):
        find_prompts(*places)
    assert Prompt("a", Path("a.md"), "\nHello {name} {name}\n", "user").fill({"name": "Ada"}) == "Hello Ada Ada"


def test_the_commands_list_show_and_use_prompts(
    dragoman: Command, places: tuple[dict[str, str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in places[0].items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(places[1])
    listed = dragoman("prompts")
    assert (listed.code, listed.err) == (0, "")
    assert [line.split()[:2] for line in listed.out.splitlines()[1:]] == [["release", "project"], ["review", "user"]]
    assert dragoman("prompts", "review").out.endswith("Review this in {language}:\n\n{task}\n")
    assert dragoman("prompts", "--json").data[1]["placeholders"] == ["language", "task"]
    with Upstream(["Gut."]) as upstream:
        reach = ("-m", "custom:m", "--base-url", f"{upstream.url}/v1", "--no-journal", "--builtin", "none")
        done = dragoman("run", "-p", "review", "--fill", "language=German", "-", *reach, stdin=b"the text")
    assert (done.code, done.out) == (0, "Gut.\n"), done.err
    assert upstream.requests[0].messages[-1].text == "Review this in German:\n\nthe text"
    wrong = dragoman("run", "-p", "revew", *reach)
    assert (wrong.code, "did you mean 'review'?" in wrong.err) == (2, True)
    assert dragoman("run", "--fill", "a=b", "hi", *reach).code == 2
    assert "takes no --prompt" in dragoman("run", "--resume", "-p", "review", *reach).err
