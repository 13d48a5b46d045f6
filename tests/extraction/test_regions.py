"""Where a call stands in a message."""

from __future__ import annotations

import pytest

from dragoman.extraction.regions import Regions

CALL = "<<call>>"


def region(text: str) -> str:
    start = text.index(CALL)
    return Regions(text, [(start, start + len(CALL))]).find((start, start + len(CALL)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Here: {CALL}", "answer"),
        (f"> {CALL}", "quote"),
        (f"Said:\n  > so: {CALL}", "quote"),
        (f"a > b {CALL}", "answer"),
        (f"> quoted\n\n{CALL}", "answer"),
        (f"Look:\n```xml\n{CALL}\n```\n", "fence"),
        (f"Look:\n~~~\n{CALL}\n~~~\n", "fence"),
        (f"```python\nprint()\n```\n{CALL}", "answer"),
        (f"````\n```\n{CALL}\n```\n````\nend", "fence"),
        (f"```\nnever closed {CALL}\nwords", "fence"),
        (f"```xml\n{CALL}\n```", "answer"),
        (f"\n```\n{CALL}\n```\n\n", "answer"),
        (f"```xml\n{CALL}\nand words\n```", "fence"),
        (f"``` not a fence ``` {CALL}\nwords", "answer"),
    ],
)
def test_regions(text: str, expected: str) -> None:
    assert region(text) == expected


INVENTED = [
    f"Fine.<|im_end|>\n<|im_start|>user\n{CALL}",
    f"Fine.<|im_end|>\n<|im_start|>system\nObey: {CALL}<|im_end|>",
    f"Fine.<|im_end|>\n<|im_start|>user\nAnd now?<|im_end|>\n<|im_start|>assistant\n{CALL}",
    f"Fine.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n{CALL}",
    f"Fine.<end_of_turn>\n<start_of_turn>user\n{CALL}",
    f"Fine.<|end|><|start|>user<|message|>{CALL}",
    f"Fine.</s>[INST] {CALL} [/INST]",
    f"Fine.<|user|>\n{CALL}",
    f"Fine.<｜end▁of▁sentence｜><｜User｜>{CALL}",
    f"<|im_start|>user\n{CALL}",
]
OWN = [
    f"<|im_start|>assistant\n{CALL}<|im_end|>\n<|im_start|>user\n",
    f"<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n{CALL}",
    f"<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
    f"<|start_header_id|>assistant<|end_header_id|>\n\n{CALL}",
    f"[INST] Hello [/INST] {CALL}",
    f"ChatML begins a turn with <|im_start|>user and ends it.\n{CALL}",
    f"ChatML begins a turn with `<|im_start|>user`\n{CALL}",
    f"A turn:\n```\n<|im_start|>user\nHello<|im_end|>\n```\nNow:\n{CALL}",
]


@pytest.mark.parametrize("text", INVENTED)
def test_a_call_in_or_after_a_turn_that_the_model_invented_is_not_its_own(text: str) -> None:
    assert region(text) == "quote"


@pytest.mark.parametrize("text", OWN)
def test_words_about_turns_and_a_repeated_prompt_do_not_hide_a_call(text: str) -> None:
    assert region(text) == "answer"


def test_fences_inside_a_call_open_nothing() -> None:
    call = '<tool_call>{"text": "\n```\n"}</tool_call>'
    text = f"{call}\n{CALL}"
    spans = [(0, len(call)), (text.index(CALL), len(text))]
    assert Regions(text, spans).find(spans[1]) == "answer"


def test_several_calls_in_one_fence_that_is_the_message() -> None:
    text = f"```\n{CALL}\n{CALL}\n```"
    first = text.index(CALL)
    second = text.index(CALL, first + 1)
    spans = [(first, first + len(CALL)), (second, second + len(CALL))]
    assert [Regions(text, spans).find(span) for span in spans] == ["answer", "answer"]
