"""Keys are read from where they are named, stay out of sight, and not out of files that others can read."""

from __future__ import annotations

import pytest
from tests.config.conftest import Place

from dragoman.config import keys_by_variable, load, mask, read_key, read_keys
from dragoman.errors import ConfigError, MissingKey

KEYS = '[keys]\nopenai = { env = "MINE" }\nanthropic = { file = "claude.key" }\ngroq = "gsk_literal"\n'


def around(place: Place, **more: str) -> dict[str, str]:
    return {"HOME": str(place.home), **more}


def test_a_key_from_a_variable_a_file_or_the_configuration_itself(place: Place) -> None:
    config = place.load(KEYS)
    file = place.user_file.with_name("claude.key")
    file.write_text("sk-ant-file\n", encoding="utf-8")
    file.chmod(0o600)
    environment = around(place, MINE="sk-mine")
    assert read_keys(config, environment) == {"openai": "sk-mine", "anthropic": "sk-ant-file", "groq": "gsk_literal"}
    assert keys_by_variable(config, environment=environment) == {
        "OPENAI_API_KEY": "sk-mine",
        "ANTHROPIC_API_KEY": "sk-ant-file",
        "GROQ_API_KEY": "gsk_literal",
    }
    assert read_key(config, "mistral", environment) is None


def test_what_cannot_be_read_is_told_and_costs_only_its_own_provider(place: Place) -> None:
    config = place.load(KEYS)
    with pytest.raises(MissingKey, match=r"\$MINE, which is not set"):
        read_key(config, "openai", around(place))
    problems: list[str] = []
    assert read_keys(config, around(place), problems) == {"groq": "gsk_literal"}
    assert len(problems) == 2


@pytest.mark.parametrize(
    ("content", "mode", "words"),
    [("key\n", 0o644, "others can read it"), ("\n", 0o600, "is empty"), ("a\nb\n", 0o600, "several lines")],
)
def test_a_file_of_a_key_holds_one_key_for_one_reader(place: Place, content: str, mode: int, words: str) -> None:
    config = place.load(KEYS)
    file = place.user_file.with_name("claude.key")
    file.write_text(content, encoding="utf-8")
    file.chmod(mode)
    with pytest.raises(ConfigError, match=words):
        read_key(config, "anthropic", around(place))


def test_a_key_in_a_file_that_others_can_read_is_not_used(place: Place) -> None:
    place.load(KEYS)
    place.user_file.chmod(0o644)
    config = load(place.project, around(place))
    assert set(config["keys"]) == {"openai", "anthropic"}
    (warning,) = config.warnings
    assert "groq" in warning
    assert f"chmod 600 {place.user_file}" in warning
    assert "gsk_literal" not in warning


def test_a_key_for_nobody(place: Place) -> None:
    config = place.load('[keys]\nopenay = "sk-x"\n')
    with pytest.raises(ConfigError, match="'openay' is not a provider"):
        keys_by_variable(config)


@pytest.mark.parametrize("row", ["{ env = 1 }", '{ variable = "X" }', "7", '""', '{ env = "A", file = "b" }'])
def test_a_key_is_a_variable_a_file_or_a_text(place: Place, row: str) -> None:
    with pytest.raises(ConfigError, match="`keys` must be a table of keys by provider"):
        place.load(f"[keys]\nopenai = {row}\n")


def test_what_is_shown_holds_no_secret() -> None:
    assert mask("keys", {"a": "sk-1", "b": {"env": "X"}}) == {"a": "(hidden)", "b": {"env": "X"}}
    row = {
        "base_url": "https://user:pass@host/v1?key=abc",
        "headers": {"X-Key": "abc"},
        "key": ["MY_KEY", "sk-abc"],
        "wires": ["openai_chat"],
    }
    assert mask("providers", {"mine": row}) == {
        "mine": {
            "base_url": "https://(hidden)@host/v1?key=(hidden)",
            "headers": {"X-Key": "(hidden)"},
            "key": ["MY_KEY", "(hidden)"],
            "wires": ["openai_chat"],
        }
    }
    assert mask("proxy", "http://me:secret@proxy:3128") == "http://(hidden)@proxy:3128"
    assert mask("limits.turns", 3) == 3
