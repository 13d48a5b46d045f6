"""The findings about the list of models and the context window."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.doctor.metadata import judge_context, judge_models
from dragoman.providers import resolve

PROPS = {"default_generation_settings": {"n_ctx": 8192}, "total_slots": 1}
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
    assert finding.verdict == "absent"
    assert finding.fix == "did you mean 'qwen3'?"
