"""Who wins: the order of the layers, and the law that a project only tightens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.config.conftest import Place

from dragoman.config.layers import (
    ORDER,
    Layer,
    Origin,
    ResolvedSetting,
    SettingValue,
    Source,
    defaults,
    is_tighter,
    merge,
)
from dragoman.config.settings import SETTINGS, Setting

NUMBERS = st.integers(1, 50)
NAMES = st.lists(st.sampled_from(["read", "write", "git_*", "*", "search"]), max_size=4).map(
    lambda names: tuple(dict.fromkeys(names))
)


def values_for(setting: Setting) -> st.SearchStrategy[Any]:
    """Values that the setting's kind accepts, as they are after reading."""
    if setting.merge == "stricter":
        return st.sampled_from([each for rank in setting.strictness for each in _of_rank(rank)])
    if setting.merge in ("union", "user_union", "narrow"):
        return NAMES
    if setting.merge == "lower":
        return NUMBERS | st.none() if setting.default is None or "none" in setting.kind.words else NUMBERS
    return st.sampled_from(["one", "two", "three"])


def _of_rank(rank: Any) -> tuple[Any, ...]:
    return rank if isinstance(rank, tuple) else (rank,)


@st.composite
def layered(draw: st.DrawFn) -> tuple[Setting, dict[Source, Any]]:
    setting = SETTINGS[draw(st.sampled_from(sorted(SETTINGS)))]
    sources = [kind for kind in ORDER if kind != "default" and (kind != "project" or setting.in_project)]
    chosen = draw(st.lists(st.sampled_from(sources), unique=True))
    return setting, {kind: draw(values_for(setting)) for kind in chosen}


def settled(setting: Setting, said: dict[Source, Any]) -> ResolvedSetting:
    layers = [Layer(kind, {setting.name: SettingValue(value, Origin(kind))}) for kind, value in said.items()]
    return merge([defaults(), *layers])[setting.name]


@given(layered())
def test_a_project_never_loosens(drawn: tuple[Setting, dict[Source, Any]]) -> None:
    setting, said = drawn
    without = settled(setting, {kind: value for kind, value in said.items() if kind != "project"})
    result = settled(setting, said)
    if setting.merge == "union":
        assert set(result.value) >= set(without.value)
        assert set(result.value) >= set(said.get("project", ()))
    elif setting.merge in ("lower", "stricter", "narrow"):
        assert result.value == without.value or is_tighter(setting, result.value, without.value)
        if not {"environment", "argument"} & said.keys() and "project" in said:
            assert not is_tighter(setting, said["project"], result.value), "the project's own word is kept to"
    elif setting.merge == "suggest" and {"user", "environment", "argument", "managed"} & said.keys():
        assert result.value == without.value
    elif setting.merge in ("user_only", "user_union"):
        assert result == without


@given(layered())
def test_nobody_is_looser_than_what_is_managed(drawn: tuple[Setting, dict[Source, Any]]) -> None:
    setting, said = drawn
    if "managed" not in said:
        return
    without = settled(setting, {kind: value for kind, value in said.items() if kind != "managed"})
    result = settled(setting, said)
    if setting.merge in ("union", "user_union"):
        assert set(result.value) >= set(said["managed"])
    elif setting.merge in ("lower", "stricter", "narrow"):
        assert not is_tighter(setting, said["managed"], result.value)
        assert result.value == without.value or is_tighter(setting, result.value, without.value)
    else:
        assert (result.value, result.origin.kind) == (said["managed"], "managed")


@given(layered())
def test_the_value_is_one_that_was_said_and_the_origin_says_by_whom(drawn: tuple[Setting, dict[Source, Any]]) -> None:
    setting, said = drawn
    result = settled(setting, said)
    everything = {"default": setting.default, **said}
    if setting.merge in ("union", "user_union"):
        assert set(result.value) == {entry for value in everything.values() for entry in value}
        assert {entry for part in result.parts for entry in part.value} == set(result.value)
        assert all(part.value == everything[part.origin.kind] for part in result.parts)
        return
    if setting.merge == "narrow":
        assert set(result.value) <= set(everything[result.origin.kind])
    else:
        assert result.value == everything[result.origin.kind]
    told = [result.origin.kind, *(each.said.origin.kind for each in result.overridden)]
    assert sorted(told) == sorted(everything), "every value is either used or reported as overridden"


@given(layered())
def test_whoever_starts_the_program_speaks_last_but_for_what_is_managed(
    drawn: tuple[Setting, dict[Source, Any]],
) -> None:
    setting, said = drawn
    said = {kind: value for kind, value in said.items() if kind != "managed"}
    if setting.merge in ("union", "user_union"):
        return
    result = settled(setting, said)
    if "argument" in said:
        assert result.origin.kind == "argument"
    elif "environment" in said:
        assert result.origin.kind == "environment"


TURNS = "limits.turns = {}\n"
PRECEDENCE = [
    ("nobody", None, None, None, None, 10, "default"),
    ("a user may raise a default", 30, None, None, None, 30, "user"),
    ("a project lowers a default", None, 4, None, None, 4, "project"),
    ("a project does not raise a default", None, 40, None, None, 10, "default"),
    ("a project lowers the user's", 30, 4, None, None, 4, "project"),
    ("a project does not raise the user's", 30, 40, None, None, 30, "user"),
    ("the environment is over both files", 30, 4, "20", None, 20, "environment"),
    ("an argument is over everything", 30, 4, "20", 50, 50, "argument"),
]


@pytest.mark.parametrize(
    ("user", "project", "variable", "argument", "expected", "origin"),
    [row[1:] for row in PRECEDENCE],
    ids=[row[0] for row in PRECEDENCE],
)
def test_precedence(
    place: Place,
    user: int | None,
    project: int | None,
    variable: str | None,
    argument: int | None,
    expected: int,
    origin: str,
) -> None:
    config = place.load(
        None if user is None else TURNS.format(user),
        None if project is None else TURNS.format(project),
        {} if variable is None else {"DRAGOMAN_LIMITS_TURNS": variable},
        {"limits.turns": argument},
    )
    assert (config["limits.turns"], config.origin("limits.turns").kind) == (expected, origin)


def test_a_project_suggests_a_model_and_does_not_choose_it(place: Place) -> None:
    project = 'model = "ollama:qwen3"\n'
    assert place.load(project=project)["model"] == "ollama:qwen3"
    config = place.load('model = "openai:gpt-5"\n', project)
    assert config["model"] == "openai:gpt-5"
    (other,) = [each for each in config.overridden("model") if each.said.origin.kind == "project"]
    assert (other.said.value, other.said.origin.line) == ("ollama:qwen3", 1)


def test_a_project_makes_trust_stricter_and_never_looser(place: Place) -> None:
    assert place.load(project='trust = "strict"\n')["trust"] == "strict"
    config = place.load(project='trust = "compat"\n')
    assert (config["trust"], config.origin("trust").kind) == ("default", "default")
    assert "may only tighten" in config.overridden("trust")[0].why


def test_what_is_forbidden_stays_forbidden_whoever_adds_to_it(place: Place) -> None:
    config = place.load(
        'deny = ["shell"]\n', 'deny = ["write_*"]\nask = ["*"]\n', {"DRAGOMAN_DENY": "fetch"}, {"deny": ["mail"]}
    )
    assert set(config["deny"]) == {"shell", "write_*", "fetch", "mail"}
    assert config["ask"] == ("*",)
    assert config.origin("deny").kind == "argument"
    assert [origin.kind for origin in config.settled["deny"].also] == ["project", "user", "environment"]
