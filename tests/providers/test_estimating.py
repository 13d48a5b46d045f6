"""The estimate of tokens, and what it learns; the windows of models."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.providers import resolve
from dragoman.providers.tokens import IMAGE_TOKENS, Estimate, window
from dragoman.types import File, Image, InvalidCall, Message, Part, Text, Thinking, Tool, ToolCall, ToolResult

ENGLISH = "The quick brown fox jumps over the lazy dog. " * 100
CHINESE = "敏捷的棕色狐狸跳过了懒狗。" * 100
RUSSIAN = "Быстрая рыжая лиса прыгает через ленивую собаку. " * 100


def message(*parts: Part) -> Message:
    return Message("user", list(parts))


def count(*parts: Part, model: str = "") -> int:
    return Estimate(model).count([message(*parts)])


# ---- counting ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [(ENGLISH, 3.0, 4.5), (CHINESE, 1.2, 1.8), (RUSSIAN, 1.8, 3.2)],
    ids=["english", "chinese", "russian"],
)
def test_characters_per_token_by_script(text: str, least: float, most: float) -> None:
    assert least <= len(text) / count(Text(text)) <= most


def test_json_takes_more_tokens_than_prose_of_the_same_length() -> None:
    words = "[" + "x" * 3598 + "]"
    assert count(ToolResult("1", "f", words)) > count(ToolResult("1", "f", "x" * 3600)) * 1.1


@pytest.mark.parametrize(
    "part",
    [
        ToolCall("1", "search", {"query": "word " * 50}),
        ToolResult("1", "search", "word " * 50),
        ToolResult("1", "search", [Text("word " * 50)]),
        InvalidCall("1", "search", "word " * 50, ()),
        Text("word " * 50),
        File("notes.txt", data="d29yZCA=" * 50, media_type="text/plain"),
        ToolCall("1", "odd", {"half": "\ud800" * 250}),
        ToolCall("1", "odd", {"huge": 10**5000}),
    ],
    ids=["call", "result", "parts", "invalid", "text", "file", "half characters", "huge number"],
)
def test_every_kind_of_part_counts(part: Part) -> None:
    assert count(part) > 50


def test_an_image_has_a_flat_cost_and_a_large_file_its_size() -> None:
    small, large = Image(data="A" * 100), Image(data="A" * 1_000_000)
    assert count(small) == count(large) == count() + IMAGE_TOKENS
    assert count(File("a.pdf", data="A" * 4_000_000)) > count(File("a.pdf", data="A" * 100)) >= 1000


def test_thinking_counts_only_where_it_is_sent_back() -> None:
    thought = message(Thinking(ENGLISH))
    assert Estimate(resolve("openai:gpt-4o")).count([thought]) < 20
    assert Estimate(resolve("anthropic:claude-sonnet-4-5")).count([thought]) > 1000


def test_families_have_rates_of_their_own() -> None:
    assert count(Text(ENGLISH), model="claude-opus-4-5") > count(Text(ENGLISH), model="gpt-5")
    assert Estimate("anthropic:claude-opus-4-5").count([message(Text(ENGLISH))]) == count(
        Text(ENGLISH), model="claude-opus-4-5"
    )
    assert count(Text(ENGLISH), model="mistral:7b") == count(Text(ENGLISH), model="mistral-7b")
    assert Estimate(characters_per_token=1.0).count([message(Text("x" * 1000))]) >= 1000


def test_tools_count() -> None:
    tool = Tool("search", "d" * 360, {"type": "object", "properties": {"query": {"type": "string"}}})
    assert Estimate().count([], [tool]) > 110 and Estimate().count([], []) == 0


def test_a_growing_conversation_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = Estimate()
    read: list[Message] = []
    weigh = Estimate._weigh
    monkeypatch.setattr(Estimate, "_weigh", lambda self, each: read.append(each) or weigh(self, each))
    messages: list[Message] = []
    for number in range(200):
        messages.append(message(Text(f"message {number}")))
        estimate.count(messages)
    assert len(read) == 200
    assert estimate.count(messages) == Estimate().count(messages)


@given(st.lists(st.lists(st.integers(0, 30), max_size=30), max_size=8))
def test_remembered_weights_never_show(orders: list[list[int]]) -> None:
    known = [message(Text("w" * 10 * number)) for number in range(31)]
    estimate = Estimate()
    for order in orders:
        messages = [known[number] for number in order]
        assert estimate.count(messages) == Estimate().count(messages)


def test_messages_that_are_gone_are_forgotten() -> None:
    estimate = Estimate()
    for number in range(1000):
        estimate.count([message(Text(str(number)))])
    assert len(estimate._weights) < 100


# ---- learning ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [0.4, 0.8, 1.0, 1.5, 3.0])
def test_it_comes_close_to_what_the_provider_reports(truth: float) -> None:
    estimate, messages = Estimate(), [message(Text(ENGLISH))]
    real = int(Estimate().count(messages) * truth)
    for _ in range(8):
        estimate.learn(estimate.characters(messages), real)
    assert abs(estimate.count(messages) - real) <= 0.05 * real


@pytest.mark.parametrize("nonsense", [0, 1, 10**9])
def test_nonsense_moves_it_only_so_far(nonsense: int) -> None:
    estimate, messages = Estimate(), [message(Text(ENGLISH))]
    estimate.learn(estimate.characters(messages), nonsense)
    assert 0.7 <= estimate.factor <= 1.5
    for _ in range(50):
        estimate.learn(estimate.characters(messages), nonsense)
    assert 0.25 <= estimate.factor <= 4.0


def test_small_requests_teach_nothing() -> None:
    estimate, messages = Estimate(), [message(Text("hello"))]
    estimate.learn(estimate.characters(messages), 3000)
    assert estimate.factor == 1.0


# ---- windows -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("openai:gpt-4o-mini", 128_000),
        ("openai:gpt-4.1", 1_047_576),
        ("openai:gpt-4", 8_192),
        ("openai:gpt-5-mini", 272_000),
        ("openai:o3", 200_000),
        ("anthropic:claude-3-5-sonnet-20241022", 200_000),
        ("anthropic:claude-opus-4-5", 200_000),
        ("bedrock:us.anthropic.claude-opus-4-8-v1:0", 1_000_000),
        ("gemini:gemini-2.5-flash", 1_048_576),
        ("groq:openai/gpt-oss-120b", 131_072),
        ("ollama:qwen3", 16_384),
        ("llamacpp:qwen3", None),
        ("openai:something-new", None),
    ],
)
def test_windows_are_what_is_known(name: str, tokens: int | None) -> None:
    endpoint = resolve(name, variables={"region": "us-east-1"})
    assert window(endpoint) == tokens
    assert window(endpoint, 5000) == 5000


def test_the_window_that_is_asked_of_ollama_is_the_window() -> None:
    assert window(resolve("ollama:qwen3", quirks={"context_window": 65_536})) == 65_536
    assert window(resolve("ollama:qwen3", wire="openai_chat")) is None
