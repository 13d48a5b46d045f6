"""Who is at an address, which models are there, and how large their context is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.tables import each_row

from dragoman.doctor.metadata import (
    ListedModel,
    choose_model,
    find_model,
    judge_context,
    judge_models,
    lookups_for,
    read_models,
    read_props,
    read_show,
    recognise,
)
from dragoman.errors import ConfigError
from dragoman.providers import resolve

PROPS = {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1}
TAGS = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b"}]}


def listed(owner: str = "me", **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": owner}], **more}


@each_row(
    ("pages", "provider", "base", "wire", "models"),
    [
        ({"/v1/models": listed("llamacpp"), "/props": PROPS, "/api/tags": TAGS}, "llamacpp", "/v1", "", ["m"]),
        ({"/v1/models": listed("library"), "/api/tags": TAGS}, "ollama", "", "ollama", ["qwen3:8b"]),
        ({"/v1/models": listed("vllm")}, "vllm", "/v1", "", ["m"]),
        ({"/v1/models": listed("sglang")}, "sglang", "/v1", "", ["m"]),
        ({"/v1/models": listed("somebody")}, "custom", "/v1", "", ["m"]),
        ({"/v1/models": listed(has_more=False)}, "custom", "/v1", "anthropic", ["m"]),
        ({"/models": listed()}, "custom", "", "", ["m"]),
        ({"/v1beta/models": {"models": [{"name": "models/g"}]}}, "custom", "/v1beta", "gemini", ["models/g"]),
        # A site with a page for everything says nothing.
        ({"/v1/models": listed("vllm"), "/props": ["no"], "/api/tags": "no"}, "vllm", "/v1", "", ["m"]),
    ],
    ids=["llama.cpp", "ollama", "vllm", "sglang", "other", "anthropic", "no v1", "gemini", "odd pages"],
)
@each_row("behind", ["", "/", "/v1", "/v1/chat/completions"])
def test_a_server_is_recognised_by_its_address_alone(
    pages: dict[str, Any], provider: str, base: str, wire: str, models: list[str], behind: str
) -> None:
    root = "http://127.0.0.1:8080"
    if "/models" in pages and behind.startswith("/v1"):
        pages = {"/v1/models": pages["/models"]}
        base = "/v1"

    async def look(url: str) -> Any:
        return pages.get(url.removeprefix(root))

    found = asyncio.run(recognise(root + behind, look))
    assert (found.provider, found.base_url, found.wire) == (provider, root + base, wire)
    assert [entry.id for entry in found.models] == models


def test_an_address_where_nobody_is_known_says_what_to_do() -> None:
    async def look(url: str) -> Any:
        return None

    with pytest.raises(ConfigError) as caught:
        asyncio.run(recognise("http://127.0.0.1:8080", look))
    assert "--model" in caught.value.next_step


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/x/y"])
def test_a_server_without_a_list_is_examined_where_the_model_is_named(url: str) -> None:
    async def look(url: str) -> Any:
        return None

    found = asyncio.run(recognise(url, look, "m"))
    assert (found.provider, found.base_url, found.models) == ("custom", url, ())


@pytest.mark.parametrize("named", ["models/g", "g"])
def test_a_model_is_found_under_the_name_that_is_sent(named: str) -> None:
    listed = read_models({"models": [{"name": "models/g"}]}) or []
    assert find_model(listed, named) == ListedModel("models/g")
    assert choose_model(listed) == "models/g"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"data": [{"id": "a", "max_model_len": 4096}]}, [ListedModel("a", "", 4096)]),
        ({"data": [{"id": "a", "context_length": 8}, {"name": "b"}]}, [ListedModel("a", "", 8), ListedModel("b")]),
        ({"models": [{"name": "models/g", "inputTokenLimit": 9}]}, [ListedModel("models/g", "", 9)]),
        ({"data": [{"id": "models/a"}]}, [ListedModel("models/a")]),
        ({"data": [{"id": "a", "meta": {"n_ctx": 7}, "owned_by": "llamacpp"}]}, [ListedModel("a", "llamacpp", 7)]),
        ([{"id": "a", "context_window": True}], [ListedModel("a")]),
        ({"data": [None, 3, {}, {"id": 5}]}, []),
        ({"error": "no"}, None),
        ("<html>", None),
        (None, None),
    ],
)
def test_lists_of_models_in_all_their_shapes(body: Any, found: Any) -> None:
    assert read_models(body) == found


@pytest.mark.parametrize("body", [None, 3, {}, {"model_info": 3, "parameters": 4}, {"default_generation_settings": []}])
def test_metadata_that_makes_no_sense_says_nothing(body: Any) -> None:
    assert read_show(body) == (0, 0)
    assert read_props(body) == 0


def test_the_first_model_to_talk_with_is_chosen() -> None:
    assert choose_model([ListedModel("nomic-embed-text"), ListedModel("qwen3:8b"), ListedModel("llama3")]) == "qwen3:8b"
    assert choose_model([ListedModel("nomic-embed-text")]) == "nomic-embed-text"
    assert choose_model([]) == ""


SHOW = {"model_info": {"qwen3.context_length": 40960}, "parameters": "stop  x\nnum_ctx   4096"}


@pytest.mark.parametrize(
    ("model", "answers", "verdict", "words", "learned"),
    [
        ("ollama:qwen3", {"show": SHOW}, "works", "16384 tokens of the 40960", None),
        ("ollama:tiny", {"show": {"model_info": {"t.context_length": 2048}}}, "works", "2048 tokens", 2048),
        ("vllm:m", {"models": {"data": [{"id": "m", "max_model_len": 32768}]}}, "works", "32768", 32768),
        ("vllm:m", {"models": {"data": [{"id": "m", "max_model_len": 2048}]}}, "broken", "2048", 2048),
        ("llamacpp:m", {"props": PROPS}, "works", "8192", 8192),
        ("groq:m", {"models": {"data": [{"id": "m", "context_window": 131072}]}}, "works", "131072", None),
        ("openai:gpt-5", {"models": {"data": [{"id": "gpt-5"}]}}, "unknown", "not reported", None),
        ("local", {}, "works", "8192", None),
    ],
)
def test_the_context_is_what_the_endpoint_says(
    model: str, answers: Any, verdict: str, words: str, learned: int | None
) -> None:
    finding = judge_context(resolve(model), answers)
    assert finding.verdict == verdict
    assert words in finding.summary
    assert (finding.fact.quirks["context_window"] if finding.fact else None) == learned
    assert bool(finding.fix) == (verdict in ("broken", "unknown"))


def test_a_model_that_is_not_listed_gets_a_guess() -> None:
    finding = judge_models(resolve("ollama:quen3"), {"models": {"models": [{"name": "qwen3"}]}})
    assert finding.verdict == "works"
    assert finding.fix == "did you mean 'qwen3'?"


def test_only_cheap_things_are_looked_up() -> None:
    assert [lookup.url for lookup in lookups_for(resolve("vllm:m"), "http://box:8000/v1")] == [
        "http://box:8000/v1/models",
        "http://box:8000/props",
    ]
    assert [(lookup.url, lookup.body) for lookup in lookups_for(resolve("ollama:m"), "http://box:11434")] == [
        ("http://box:11434/api/tags", None),
        ("http://box:11434/api/show", {"model": "m"}),
    ]
    assert lookups_for(resolve("azure:m"), "https://x/openai/v1?api-version=1")[0].url == (
        "https://x/openai/v1/models?api-version=1"
    )
    assert lookups_for(resolve("local"), "http://embedded.invalid/v1") == ()
