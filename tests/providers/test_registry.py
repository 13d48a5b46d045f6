"""Providers of one's own: a value in code, a row in a file, an installed package."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from dragoman import providers
from dragoman.errors import ConfigError, UnknownProvider
from dragoman.providers import Provider, Registry
from dragoman.providers.registry import shipped

OURS = shipped()
MINE = Provider("mine", title="Mine", base_url="http://box/v1", key=("MY_KEY",), aliases=("my",))


# ---- by name -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "row", "wire"),
    [
        ("openai", "openai", "openai_responses"),
        ("anthropic", "anthropic", "anthropic"),
        ("ollama", "ollama", "ollama"),
        ("gemini", "gemini", "gemini"),
        ("openai_chat", "openai", "openai_chat"),
        ("openai_responses", "openai", "openai_responses"),
        ("bedrock", "bedrock", "bedrock"),
        ("mistral", "mistral", "mistral"),
        ("cohere", "cohere", "cohere"),
        ("kimi", "moonshot", "openai_chat"),
        ("LM-Studio", "lmstudio", "openai_chat"),
        ("llama.cpp", "llamacpp", "openai_chat"),
    ],
)
def test_a_provider_is_found_by_name_alias_or_wire(name: str, row: str, wire: str) -> None:
    found = providers.get(name)
    assert (found.name, found.wire) == (row, wire)


def test_an_unknown_provider_is_told_with_the_nearest_and_where_the_known_ones_are() -> None:
    with pytest.raises(UnknownProvider, match="unknown provider 'opnai'; did you mean 'openai'") as caught:
        providers.get("opnai")
    assert "`dragoman providers` lists all" in caught.value.next_step


def test_names_hold_every_row_and_alias() -> None:
    assert {"openai", "kimi", "custom", "openrouter"} <= set(providers.names())
    assert all(name in OURS for name in OURS.names())
    assert len(OURS) == len(list(OURS))


def test_a_name_of_ours_is_found_without_looking_through_installed_packages() -> None:
    code = (
        "import sys\nfrom dragoman import providers\nproviders.get('openai')\nproviders.resolve('ollama:qwen3')\n"
        "assert 'importlib.metadata' not in sys.modules\nassert 'rich' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- a value in code -----------------------------------------------------------------------------------------------


def test_a_provider_in_code_gives_another_registry() -> None:
    registry = OURS.with_provider(MINE)
    assert registry.get("my") == MINE
    assert "mine" not in OURS
    assert registry.resolve("mine:qwen3").base_url == "http://box/v1"


def test_a_provider_needs_no_registry() -> None:
    assert providers.resolve(MINE, "qwen3").wire == "openai_chat"
    assert MINE.supports_native_tools("qwen3")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (Provider("Mine!"), "'Mine!' is not a valid name"),
        (Provider("mine", wires=()), "has no wire"),
        (Provider("mine", wires=("grpc",)), "no wire 'grpc'"),
        (Provider("mine", quirks={"fast": True}), "quirks of provider mine: "),
        (Provider("mine", wire_quirks={"ollama": {"name_limit": "x"}}), "quirks of provider mine on ollama: "),
        (Provider("mine", declared={"magic": True}), "no capability 'magic'"),
    ],
)
def test_a_wrong_provider_is_told_at_once(row: Provider, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        OURS.with_provider(row)


# ---- a row in a file -----------------------------------------------------------------------------------------------

CONFIG = """
[providers.home]
like = "vllm"
base_url = "http://home:8000/v1"
quirks = { name_limit = 32 }

[providers.office]
base_url = "https://llm.example.com/v1"
key = ["OFFICE_KEY"]
native = "yes"

[providers.ollama]
base_url = "http://box:11434"

[profiles.acme]
match = ["acme"]
native = "yes"
format = "fenced"
"""


def test_rows_of_a_configuration_file() -> None:
    registry = OURS.with_rows(CONFIG)
    home = registry.get("home")
    assert (home.name, home.title, home.aliases, home.group) == ("home", "", (), "local")
    assert home.quirks == {**OURS.get("vllm").quirks, "name_limit": 32}
    office = registry.get("office")
    assert (office.group, office.native, office.wires) == ("custom", "yes", ("openai_chat",))
    ollama = registry.get("ollama")
    assert (ollama.base_url, ollama.quirks) == ("http://box:11434", OURS.get("ollama").quirks)
    assert registry.profile("acme-7b").format == "fenced"
    assert OURS.get("ollama").base_url == "http://localhost:11434"


def test_rows_may_be_given_as_tables_by_name() -> None:
    registry = OURS.with_rows({"office": {"base_url": "https://llm.example.com/v1"}})
    assert registry.get("office").native == "learned"
    assert len(registry) == len(OURS) + 1


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("[providers.x", "is not TOML"),
        ({"x": {"base": "http://x"}}, "provider x: .*unknown field `base`"),
        ({"x": {"key": "X_KEY"}}, "provider x: "),
        ({"x": {"native": "maybe"}}, "provider x: "),
        ({"x": "http://x"}, "provider x: a row is a table"),
        ({"providers": {"x": {"quirks": {"fast": True}}}}, "quirks of provider x"),
        ({"profiles": {"x": {"match": ["("]}}}, "not a regular expression"),
        ({"profiles": {"x": 1}}, "profile x: a row is a table"),
        ({"profiles": {}, "providers": 3}, "`providers` is a table"),
    ],
)
def test_a_wrong_row_is_told_with_its_name(rows: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        OURS.with_rows(rows)


def test_a_row_can_only_be_like_one_that_is_there() -> None:
    with pytest.raises(UnknownProvider, match="'vlm'; did you mean 'vllm'"):
        OURS.with_rows({"x": {"like": "vlm"}})


# ---- an installed package ------------------------------------------------------------------------------------------


class Point:
    """An entry point of an installed package."""

    def __init__(self, name: str, gives: Any) -> None:
        self.name = name
        self._gives = gives

    def load(self) -> Any:
        if isinstance(self._gives, Exception):
            raise self._gives
        return self._gives


@pytest.mark.parametrize(
    "gives",
    [
        MINE,
        [MINE],
        lambda: MINE,
        lambda: [MINE],
        '[providers.mine]\nbase_url = "http://box/v1"',
        {"mine": {"base_url": "http://box/v1"}},
    ],
    ids=["value", "list", "function", "function of a list", "toml", "mapping"],
)
def test_an_entry_point_adds_rows(gives: Any) -> None:
    registry = Registry.default([Point("acme", gives)])
    assert registry.problems == ()
    assert registry.get("mine").base_url == "http://box/v1"


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        (ImportError("no module named acme"), "ImportError: no module named acme"),
        (ValueError("at import"), "ValueError: at import"),
        (42, "TypeError"),
        (["mine"], "ConfigError: it returned str, not a Provider"),
        (Provider("openai", base_url="http://evil/v1"), "'openai' is already a provider"),
        ({"openai": {"base_url": "http://evil/v1"}}, "'openai' is already a provider"),
        (Provider("mine", wires=("grpc",)), "no wire 'grpc'"),
    ],
)
def test_a_broken_entry_point_is_told_and_costs_nobody_else(gives: Any, told: str) -> None:
    registry = Registry.default([Point("broken", gives), Point("good", MINE)])
    (problem,) = registry.problems
    assert problem.startswith("entry point 'broken' of dragoman.providers: ")
    assert told in problem
    assert registry.get("mine") == MINE
    assert registry.get("openai") == OURS.get("openai")


def test_installed_entry_points_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def entry_points(*, group: str) -> list[Point]:
        asked.append(group)
        return [Point("acme", MINE)]

    monkeypatch.setattr("importlib.metadata.entry_points", entry_points)
    assert Registry.default().get("mine") == MINE
    assert asked == ["dragoman.providers"]
