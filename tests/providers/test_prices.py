"""What tokens cost: the shipped rows, the user's own, and None where nobody knows."""

from __future__ import annotations

import re

import pytest
from tests.tables import each_row

from dragoman.errors import ConfigError
from dragoman.providers import Provider, resolve, shipped
from dragoman.providers.prices import Price, Prices
from dragoman.types import Usage

MILLION = Usage(1_000_000, 1_000_000)
SMALL = Usage(1000, 1000)
PRICES = Prices.default()


# ---- the shipped rows ----------------------------------------------------------------------------------------------


@each_row(
    ("provider", "model", "thousand"),
    [
        ("openai", "gpt-4o", 12.5),
        ("openai", "gpt-4o-2024-08-06", 12.5),
        ("openai", "gpt-4o-2024-05-13", 20),
        ("openai", "gpt-4o-mini", 0.75),
        ("openai", "gpt-5-chat-latest", 11.25),
        ("openai", "gpt-4-0125-preview", 40),
        ("azure", "gpt-4.1-nano", 0.5),
        ("anthropic", "claude-sonnet-4-5-20250929", 18),
        ("claude", "claude-3-haiku-20240307", 1.5),
        ("vertex", "claude-opus-4-8@default", 30),
        ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0", 18),
        ("bedrock", "global.anthropic.claude-sonnet-4-5-20250929-v1:0", 18),
        ("bedrock", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", 19.8),
        ("bedrock", "us.amazon.nova-lite-v1:0", 0.3),
        ("google", "models/gemini-2.5-flash", 2.8),
        ("mistral", "mistral-large-latest", 2),
        ("cohere", "command-r-08-2024", 0.75),
        ("deepseek", "deepseek-chat", 0.7),
        ("groq", "openai/gpt-oss-120b", 0.75),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", 2.08),
        ("fireworks", "accounts/fireworks/models/llama-v3p3-70b-instruct", 1.8),
    ],
)
def test_known_models_have_their_price(provider: str, model: str, thousand: float) -> None:
    assert PRICES.cost(provider, model, SMALL) == pytest.approx(thousand / 1000)


@pytest.mark.parametrize(
    ("provider", "model"),
    [
        ("openai", "gpt-4o-audio-preview"),
        ("openai", "gpt-5.9-new"),
        ("openai", "ft:gpt-4o-mini:acme:custom:abc123"),
        ("openai", ""),
        ("openrouter", "openai/gpt-4o"),
        ("mistral", "mistral-medium-2505"),
        ("bedrock", "us-gov.anthropic.claude-sonnet-4-5-20250929-v1:0"),
        ("no_such_provider", "gpt-4o"),
        ("custom", "gpt-4o"),
        ("together", "some/unknown-model"),
    ],
)
def test_what_is_not_known_is_not_guessed(provider: str, model: str) -> None:
    assert PRICES.cost(provider, model, MILLION) is None


@each_row("provider", [row.name for row in shipped() if row.group == "local"])
def test_what_runs_at_home_costs_nothing(provider: str) -> None:
    assert PRICES.cost(provider, "qwen3", MILLION) == 0.0


def test_a_local_server_that_leads_to_a_cloud_is_not_at_home() -> None:
    assert PRICES.cost(resolve("ollama:qwen3"), "", MILLION) == 0.0
    assert PRICES.cost(resolve("ollama@cloud:gpt-oss:120b"), "", MILLION) is None
    assert PRICES.cost("ollama@cloud", "gpt-oss:120b", MILLION) is None
    assert PRICES.cost("ollama", "gpt-oss:120b-cloud", MILLION) is None


def test_an_endpoint_a_provider_and_a_name_are_the_same() -> None:
    endpoint = resolve("openai:gpt-4o")
    expected = PRICES.cost("openai", "gpt-4o", SMALL)
    assert expected == PRICES.cost(endpoint, "", SMALL) == PRICES.cost(endpoint.provider, "gpt-4o", SMALL)
    assert PRICES.cost(endpoint, "gpt-4o-mini", SMALL) == PRICES.cost("openai", "gpt-4o-mini", SMALL), "the model wins"


def test_every_row_is_sound() -> None:
    names = [row.name for row in PRICES.rows]
    assert len(names) == len(set(names)) >= 60
    for row in PRICES.rows:
        assert set(row.providers) <= set(shipped().rows), row.name
        assert row.providers and re.fullmatch(r"20\d\d-[01]\d", row.as_of), row.name
        assert 0 < row.input <= row.output, row.name
        assert row.cached is None or row.cached < row.input, row.name
        assert row.cache_write is None or row.cache_write > row.input, row.name
        for tier in row.above:
            assert tier.input > row.input and tier.output > row.output, row.name


# ---- the arithmetic ------------------------------------------------------------------------------------------------

ROW = Price("m", ("m",), input=10, output=50, cached=1, cache_write=12.5)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(), 0),
        (Usage(1_000_000, 0), 10),
        (Usage(0, 1_000_000), 50),
        (Usage(1_000_000, 0, cached_tokens=400_000), 6 + 0.4),
        (Usage(1_000_000, 0, cached_tokens=400_000, cache_write_tokens=200_000), 4 + 0.4 + 2.5),
        (Usage(0, 1_000_000, reasoning_tokens=900_000), 50),
        (Usage(100, 0, cached_tokens=1_000_000), 0.0001),
    ],
    ids=["nothing", "input", "output", "cached", "written", "reasoning", "more cached than read"],
)
def test_cached_tokens_are_part_of_the_input_and_reasoning_of_the_output(usage: Usage, dollars: float) -> None:
    assert ROW.cost(usage) == pytest.approx(dollars)


def test_without_a_price_for_the_cache_its_tokens_cost_as_the_others() -> None:
    plain = Price("m", ("m",), input=10, output=50)
    assert plain.cost(Usage(1_000_000, 0, cached_tokens=400_000, cache_write_tokens=1)) == pytest.approx(10)


def test_a_long_request_costs_more_for_all_of_its_tokens() -> None:
    prices = Prices().with_rows(
        {
            "m": {
                "match": ["m"],
                "input": 1,
                "output": 2,
                "above": [{"tokens": 1000, "input": 10, "output": 20}, {"tokens": 100, "input": 5, "output": 6}],
            }
        }
    )
    costs = [prices.cost("openai", "m", Usage(tokens, 0)) for tokens in (100, 101, 1000, 1001)]
    assert costs == pytest.approx([0.0001, 0.000505, 0.005, 0.01001])


# ---- the user's rows -----------------------------------------------------------------------------------------------

OWN = """
[prices.house]
match = ['house-model']
providers = ['custom']
input = 1.5
output = 3
"""


def test_rows_of_the_user_come_first_and_nothing_else_changes() -> None:
    prices = PRICES.with_rows(OWN)
    assert prices.cost("custom", "house-model", MILLION) == pytest.approx(4.5)
    assert PRICES.cost("custom", "house-model", MILLION) is None
    assert prices.cost("openai", "gpt-4o", SMALL) == PRICES.cost("openai", "gpt-4o", SMALL)
    flat = {"anything": {"match": [".*"], "input": 0, "output": 0}}
    assert PRICES.with_rows(flat).cost("nobody", "whatever", MILLION) == 0.0


def test_a_row_of_a_known_name_changes_what_it_names() -> None:
    prices = PRICES.with_rows({"prices": {"gpt_4o": {"output": 1000}}})
    assert prices.cost("openai", "gpt-4o", MILLION) == pytest.approx(2.5 + 1000)
    tiered = PRICES.with_rows({"gemini_2_5_pro": {"input": 2}})
    assert tiered.cost("gemini", "gemini-2.5-pro", MILLION) == pytest.approx(2.5 + 15), "its tiers stay"


def test_a_home_server_can_be_given_a_price() -> None:
    prices = PRICES.with_rows({"power": {"match": ["qwen3.*"], "providers": ["ollama"], "input": 0.1, "output": 0.1}})
    assert prices.cost("ollama", "qwen3:8b", MILLION) == pytest.approx(0.2)


def test_a_provider_of_ones_own_is_asked_by_its_name() -> None:
    prices = PRICES.with_rows({"mine": {"match": ["x"], "providers": ["my_host"], "input": 1, "output": 1}})
    assert prices.cost(Provider("my_host"), "x", MILLION) == pytest.approx(2)
    assert prices.cost("my_host", "x", MILLION) == pytest.approx(2)


@pytest.mark.parametrize(
    "rows",
    [
        "prices = ",
        {"m": 3},
        {"m": {"match": ["m"], "input": 1}},
        {"m": {"match": ["m"], "input": -1, "output": 1}},
        {"m": {"match": ["m"], "input": "cheap", "output": 1}},
        {"m": {"match": ["("], "input": 1, "output": 1}},
        {"m": {"match": ["m"], "input": 1, "output": 1, "inputs": 2}},
        {"m": {"match": ["m"], "input": 1, "output": float("inf")}},
        {"m": {"match": ["m"], "input": 1, "output": float("nan")}},
    ],
    ids=[
        "no toml",
        "no table",
        "no output",
        "negative",
        "words",
        "no pattern",
        "unknown field",
        "endless",
        "no number",
    ],
)
def test_a_bad_row_is_refused_with_a_next_step(rows: str | dict[str, object]) -> None:
    with pytest.raises(ConfigError) as caught:
        PRICES.with_rows(rows)
    assert caught.value.next_step
