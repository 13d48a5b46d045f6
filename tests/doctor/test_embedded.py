"""The doctor on a real model: SmolLM2-135M, in this process."""

from __future__ import annotations

import asyncio

import pytest
from tests.doctor.clinic import verdicts

from dragoman.doctor import Prober, Report, admit, examine
from dragoman.errors import DragomanError
from dragoman.local import Store
from dragoman.local.engine import import_llama
from dragoman.providers import resolve

TOKENS = 96
"""Enough for a call, and few enough for a test: the free answer of this model has no end."""


@pytest.mark.full
@pytest.mark.xdist_group("local")
def test_the_embedded_model_is_weak_and_its_server_is_sound() -> None:
    """It answers in words where a call was asked for; with instructions, and held by a grammar, it calls."""
    try:
        import_llama()
        Store().add()
    except DragomanError as error:
        pytest.skip(f"the embedded model is not at hand ({error}): run `dragoman local add`")

    async def go() -> Report:
        subject = admit(resolve("local"), quick=True, tokens=TOKENS)
        prober = Prober(subject.endpoint, environment={}, tokens=TOKENS, seconds=300)
        try:
            steps = [step async for step in examine(subject, prober)]
        finally:
            await prober.close()
        report = steps[-1]
        assert isinstance(report, Report)
        return report

    report = asyncio.run(go())
    assert verdicts(report) == {
        "models": "absent",
        "native_calls": "handled",
        "call_ids": "unknown",
        "stream_calls": "unknown",
    }
    assert report.faults == ()
    assert report.fact.native_tool_calls is False
    assert report.verdict("grammar") == "works"
    assert report.verdict("text_formats") == "works"
