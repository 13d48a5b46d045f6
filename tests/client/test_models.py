"""Lists of models in the shape of every server, and the context windows that servers report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.client.pages import Pages

from dragoman.client import ListedModel, alist_models, list_models
from dragoman.client.models import choose_model, find_model, lookups_for, read_models, read_props, read_show
from dragoman.client.transport import TransportFault
from dragoman.errors import ConfigError, ConnectFailed, DragomanError, MissingKey, ProtocolError, Unauthorized
from dragoman.providers import resolve


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


# ---- the list of an endpoint -----------------------------------------------------------------------------------------

LISTS: list[tuple[str, str, Mapping[str, Any], list[ListedModel]]] = [
    (
        "openai",
        "https://api.openai.com/v1/models",
        {"object": "list", "data": [{"id": "gpt-4o", "owned_by": "openai"}]},
        [ListedModel("gpt-4o", "openai")],
    ),
    (
        "anthropic",
        "https://api.anthropic.com/v1/models?limit=1000",
        {"data": [{"type": "model", "id": "claude-x", "max_input_tokens": 200000}], "has_more": False},
        [ListedModel("claude-x", "", 200000)],
    ),
    (
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000",
        {"models": [{"name": "models/gemini-x", "inputTokenLimit": 1048576}]},
        [ListedModel("models/gemini-x", "", 1048576)],
    ),
    (
        "ollama",
        "http://localhost:11434/api/tags",
        {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "details": {"family": "qwen3"}}]},
        [ListedModel("qwen3:8b")],
    ),
    (
        "mistral",
        "https://api.mistral.ai/v1/models",
        {"data": [{"id": "m", "capabilities": {"function_calling": True}, "max_context_length": 9}]},
        [ListedModel("m", "", 9, True)],
    ),
    (
        "cohere",
        "https://api.cohere.com/v1/models?page_size=1000",
        {"models": [{"name": "command-x", "context_length": 7}]},
        [ListedModel("command-x", "", 7)],
    ),
    (
        "openrouter",
        "https://openrouter.ai/api/v1/models",
        {"data": [{"id": "a/b", "context_length": 5, "supported_parameters": ["tools"]}, {"id": "a/c"}]},
        [ListedModel("a/b", "", 5, True), ListedModel("a/c")],
    ),
    (
        "vllm",
        "http://localhost:8000/v1/models",
        {"data": [{"id": "Qwen/Qwen3-8B", "owned_by": "vllm", "max_model_len": 40960}]},
        [ListedModel("Qwen/Qwen3-8B", "vllm", 40960)],
    ),
    (
        "bedrock",
        "https://bedrock.eu-west-1.amazonaws.com/foundation-models",
        {"modelSummaries": [{"modelId": "anthropic.claude-x", "modelName": "Claude X"}]},
        [ListedModel("anthropic.claude-x")],
    ),
]


def test_every_wire_with_a_list_is_asked_at_its_own_address() -> None:
    for provider, url, body, expected in LISTS:
        pages = Pages({url: body})
        environment = {"AWS_REGION": "eu-west-1"}
        found = list_models(provider, key="sk-list-0001", transport=pages, environment=environment)
        assert found == expected, provider
        assert pages.asked == [("GET", url)], provider
        assert "sk-list-0001" in str(pages.requests[0].headers), provider


def test_a_list_in_pages_is_read_to_its_end_and_a_server_that_repeats_a_page_ends_it() -> None:
    first = "https://api.anthropic.com/v1/models?limit=1000"
    pages = Pages(
        {
            first: {"data": [{"id": "a"}, {"id": "b"}], "has_more": True, "last_id": "b"},
            f"{first}&after_id=b": {"data": [{"id": "c"}], "has_more": False, "last_id": "c"},
        }
    )
    assert [entry.id for entry in list_models("anthropic", key="k", transport=pages)] == ["a", "b", "c"]
    again = {"models": [{"name": "models/g"}], "nextPageToken": "t"}
    first = "https://generativelanguage.googleapis.com/v1beta/models?pageSize=1000"
    pages = Pages({first: again, f"{first}&pageToken=t": again})
    assert [entry.id for entry in list_models("gemini", key="k", transport=pages)] == ["models/g"]
    assert len(pages.asked) == 2


def test_details_are_asked_for_where_the_list_has_none() -> None:
    show = {"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "tools"]}
    tags = {"models": [{"model": "qwen3:8b"}, {"model": "gone:1b"}]}
    pages = Pages({"http://localhost:11434/api/tags": tags})
    pages.posts["http://localhost:11434/api/show"] = lambda body: show if body == {"model": "qwen3:8b"} else None
    found = list_models("ollama", transport=pages, details=True)
    assert found == [ListedModel("qwen3:8b", "", 40960, True), ListedModel("gone:1b")]
    root = "http://localhost:8080"
    listed = {"data": [{"id": "m", "owned_by": "llamacpp"}]}
    props = {"default_generation_settings": {"n_ctx": 4096}}
    pages = Pages({f"{root}/v1/models": listed, f"{root}/props": props})
    assert list_models("llamacpp", transport=pages, details=True) == [ListedModel("m", "llamacpp", 4096)]
    root = "http://localhost:1234"
    own = {
        "data": [
            {
                "id": "m",
                "type": "llm",
                "max_context_length": 9000,
                "loaded_context_length": 5000,
                "capabilities": ["tool_use"],
            }
        ]
    }
    pages = Pages({f"{root}/v1/models": {"data": [{"id": "m"}]}, f"{root}/api/v0/models": own})
    assert list_models("lmstudio", transport=pages, details=True) == [ListedModel("m", "", 5000, True)]


FAILURES: list[tuple[str, Any, type[DragomanError], str]] = [
    ("openai", (401, {"error": {"message": "Incorrect key sk-list-0001"}}), Unauthorized, "status 401"),
    ("openai", (404, None), DragomanError, "status 404"),
    ("openai", (200, {"hello": 1}), ProtocolError, "is not such a list"),
    ("anthropic", (200, None), ProtocolError, "is not such a list"),
    ("ollama", TransportFault("unreachable", "nothing listens there"), ConnectFailed, "nothing listens"),
    ("local", (200, {}), ConfigError, "not a server"),
]


def test_an_endpoint_without_a_list_raises_an_error_that_says_why() -> None:
    for provider, answer, kind, words in FAILURES:
        with pytest.raises(kind) as caught:
            list_models(provider, key="sk-list-0001", transport=Pages({}, otherwise=answer))
        assert words in str(caught.value), provider
        assert "sk-list-0001" not in caught.value.explain(), provider
    with pytest.raises(MissingKey, match="OPENAI_API_KEY"):
        list_models("openai", transport=Pages({}), environment={})


def test_the_list_also_works_in_async_code_and_at_a_given_address() -> None:
    pages = Pages({"http://box:8000/v1/models": {"data": [{"id": "m"}]}})
    found = asyncio.run(alist_models("vllm:m", base_url="http://box:8000", transport=pages))
    assert found == [ListedModel("m")]
    assert json.loads(json.dumps([entry.id for entry in found])) == ["m"]
