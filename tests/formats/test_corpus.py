"""Real outputs of 66 models: how many of their calls loose reading finds, and how often it sees one in plain text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dragoman import formats


@pytest.fixture(scope="module")
def figures(shared_data: Callable[[str], Path], shared_script: Callable[[str], ModuleType]) -> dict[str, Any]:
    scorer = shared_script("score_corpus.py")

    def extract(text: str, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
        calls = formats.parse(text, tools=tools, loose=True).calls
        return [{"name": call.name, "arguments": call.arguments} for call in calls]

    results, _ = scorer.evaluate(extract, list(scorer.load(shared_data("corpus_dev.jsonl.gz"))))
    found: dict[str, Any] = results["ALL"]
    return found


def test_no_output_of_a_model_raises(figures: dict[str, Any]) -> None:
    assert figures["crashes"] == 0


def test_calls_that_can_be_recovered_are_found(figures: dict[str, Any]) -> None:
    assert figures["recall"] >= 68.5
    assert figures["recall_rec"] >= 96.5


def test_hardly_any_text_without_a_call_gives_one(figures: dict[str, Any]) -> None:
    assert figures["false_rate"] <= 0.15
