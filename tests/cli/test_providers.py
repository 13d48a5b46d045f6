"""`dragoman providers`: the endpoints for people and for programs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tables import each_row

from dragoman.providers.registry import quirk_meanings, shipped

ROWS = list(shipped())
SECRET = "sk-very-secret"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in ROWS:
        for name in (*row.key, *(name for names in row.variables.values() for name in names)):
            monkeypatch.delenv(name, raising=False)


def test_the_table_has_one_line_per_provider_under_its_group(dragoman) -> None:
    done = dragoman("providers")
    assert (done.code, done.err) == (0, "")
    header, *lines = done.out.split("\n\n")[0].splitlines()
    assert header.split() == ["name", "provider", "wire", "native", "key", "base", "URL"]
    names = [line.split()[0] for line in lines if not line.startswith("# ")]
    assert sorted(names) == sorted(row.name for row in ROWS)
    assert [line for line in lines if line.startswith("# ")][:2] == ["# Vendors of models", "# Hosts"]
    (openai,) = (line for line in lines if line.startswith("openai "))
    assert openai.split() == [
        "openai", "OpenAI", "openai_responses", "yes", "OPENAI_API_KEY", "https://api.openai.com/v1",
    ]  # fmt: skip
    assert f"{len(ROWS)} providers" in done.out
    assert "\x1b" not in done.out


def test_rows_of_the_settings_are_known(dragoman, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "own.toml"
    monkeypatch.setenv("DRAGOMAN_CONFIG", str(path))
    path.write_text('[providers.mine]\nbase_url = "http://10.0.0.9:8000/v1"\n', encoding="utf-8")
    path.chmod(0o600)
    assert "\nmine " in dragoman("providers").out
    assert "http://10.0.0.9:8000/v1" in dragoman("providers", "mine").out
    assert dragoman("providers", "mine:some-model", "--json").data["base_url"] == "http://10.0.0.9:8000/v1"


def test_a_key_that_is_set_is_named_and_never_shown(dragoman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", SECRET)
    listed, shown = dragoman("providers"), dragoman("providers", "gemini")
    assert "GOOGLE_API_KEY (set)" in listed.out
    assert "key: GEMINI_API_KEY (not set), GOOGLE_API_KEY (set)" in shown.out
    data = dragoman("providers", "gemini", "--json")
    assert data.data["key_set"] == "GOOGLE_API_KEY"
    for done in (listed, shown, data, dragoman("providers", "--json"), dragoman("providers", "gemini:gemini-3-pro")):
        assert SECRET not in done.out + done.err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--native", "no"], {row.name for row in ROWS if row.native == "no"}),
        (["--native", "yes", "--wire", "gemini"], {"gemini", "vertex"}),
        (["--wire", "mistral"], {"mistral", "codestral", "custom"}),
        (["--wire", "own"], {"watsonx", "sap", "oci", "sagemaker"}),
    ],
)
def test_filters(dragoman, options: list[str], expected: set[str]) -> None:
    assert {row["name"] for row in dragoman("providers", "--json", *options).data} == expected
    table = dragoman("providers", *options).out
    assert f"{len(expected)} providers" in table
    assert all(f"\n{name} " in table for name in expected)


@each_row("name", [row.name for row in ROWS])
def test_every_provider_is_explained_in_full(dragoman, name: str) -> None:
    done = dragoman("providers", name)
    row = shipped().get(name)
    assert (done.code, done.err) == (0, "")
    for part in (row.title, row.base_url, *row.urls.values(), *row.wire_urls.values(), *row.key, row.notes):
        assert part in done.out
    for quirk in row.quirks:
        assert f"  {quirk} = " in done.out
        assert quirk_meanings()[quirk] in done.out


def test_an_alias_and_a_wire_find_their_provider(dragoman) -> None:
    assert dragoman("providers", "kimi").out.startswith("Moonshot (Kimi)  moonshot, vendors of models\n")
    assert dragoman("providers", "openai_chat", "--json").data["wires"] == ["openai_chat", "openai_responses"]


def test_a_model_shows_what_was_decided(dragoman) -> None:
    out = dragoman("providers", "ollama:gemma3:4b").out
    section = out.split("gemma3:4b: profile gemma\n")[1]
    assert "  wire: ollama\n" in section
    assert "  native tools: no: calls are sent as text\n" in section
    assert "  format in the prompt: tool_code\n" in section
    assert "  native_tool_calls = false\n" in section
    assert "  context_window = 16384" in section


def test_a_model_for_a_program(dragoman, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    data = dragoman("providers", "bedrock:us.anthropic.claude-opus-4-8-v1:0", "--json").data
    assert data["base_url"] == "https://bedrock-runtime.eu-west-1.amazonaws.com"
    assert (data["provider"], data["wire"], data["missing"]) == ("bedrock", "bedrock", [])
    assert data["profile"]["name"] == "claude_4_7"
    assert data["quirks"]["sends_sampling"] is False
    assert data["capabilities"]["native_tool_calls"] is True
    assert dragoman("providers", "openai:gpt-5.6", "--json", "--wire", "openai_chat").data["wire"] == "openai_chat"


def test_a_row_of_your_own_file(dragoman, write) -> None:
    config = write("mine.toml", '[providers.mine]\nlike = "vllm"\nbase_url = "http://box:8000/v1"\n')
    assert "base URL: http://box:8000/v1" in dragoman("providers", "--config", config, "mine").out
    assert len(dragoman("providers", "-c", config, "--json").data) == len(ROWS) + 1
    wrong = dragoman("providers", "-c", write("wrong.toml", "[providers.mine]\nbase = 1\n"))
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err.startswith("error: provider mine: ")


def test_an_unknown_name_is_told_with_the_nearest(dragoman) -> None:
    for name in ("opnai", "opnai:gpt-5"):
        done = dragoman("providers", name)
        assert (done.code, done.out) == (2, "")
        assert done.err.splitlines() == [
            "error: unknown provider 'opnai'; did you mean 'openai'?",
            "hint: write openai, anthropic, gemini, ollama, ...; `dragoman providers` lists all of them",
        ]


def test_a_word_that_begins_no_name_of_a_model_is_an_unknown_provider(dragoman) -> None:
    assert dragoman("providers", "zzzz").err.startswith("error: unknown provider 'zzzz'\n")
    assert dragoman("providers", "qwen3").err.startswith("error: unknown model 'qwen3'\n")


def test_a_wire_that_it_does_not_speak_is_told(dragoman) -> None:
    done = dragoman("providers", "groq", "--wire", "gemini")
    assert (done.code, done.err.splitlines()[0]) == (2, "error: groq does not have the wire gemini")


def test_help_teaches(dragoman) -> None:
    done = dragoman("providers", "-h")
    assert (done.code, done.out.startswith("Usage: dragoman providers")) == (0, True)
    for line in ("dragoman providers ollama:qwen3", "dragoman providers --wire anthropic", "never"):
        assert line in done.out


def test_a_broken_entry_point_is_shown(dragoman, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        name = "broken"

        def load(self) -> None:
            raise ImportError("no module named acme")

    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: [Broken()])
    out = dragoman("providers").out
    assert "problem: entry point 'broken' of dragoman.providers: ImportError: no module named acme" in out
