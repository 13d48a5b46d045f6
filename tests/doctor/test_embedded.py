"""The doctor on a real model: SmolLM2-135M, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from dragoman.errors import DragomanError
from dragoman.local import Store
from dragoman.local.engine import import_llama

TOKENS = "96"
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

    # In a process that has used the model before, its cache changes the last digits of the probabilities, and so the
    # length of an answer.
    words = [sys.executable, "-m", "dragoman", "doctor", "local", "--quick", "--tokens", TOKENS, "--no-save", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    report = json.loads(done.stdout)
    findings = {each["probe"]: each for each in report["findings"]}
    verdicts = {name: each["verdict"] for name, each in findings.items()}
    assert {name: verdict for name, verdict in verdicts.items() if verdict != "works"} == {
        "models": "absent",
        "native_calls": "handled",
        "call_ids": "unknown",
        "stream_calls": "unknown",
    }
    assert findings["native_calls"]["fact"]["native_tool_calls"] is False
    assert (verdicts["grammar"], verdicts["text_formats"]) == ("works", "works")
