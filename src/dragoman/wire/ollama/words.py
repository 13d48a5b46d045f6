"""The words of Ollama's chat, and ours for them."""

from __future__ import annotations

from collections.abc import Mapping

from dragoman.types import JsonObject, StopReason, Usage
from dragoman.wire.values import as_count

STOPS: Mapping[str, StopReason] = {"stop": "end", "length": "length", "load": "end", "unload": "end"}

OPTIONS = {
    "max_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "stop": "stop",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
"""Our options, and what they are called inside `options`."""


def read_usage(body: JsonObject) -> Usage | None:
    if "eval_count" not in body and "prompt_eval_count" not in body:
        return None
    return Usage(as_count(body.get("prompt_eval_count")), as_count(body.get("eval_count")))


def finish_of(stop: StopReason) -> str:
    return "length" if stop == "length" else "stop"
