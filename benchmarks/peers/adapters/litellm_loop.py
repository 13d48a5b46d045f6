"""LiteLLM with its own loop, `run_tool_loop`. It does not stream, so a plain loop over its streams stands for that."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from benchmarks.peers.adapters.openai_loop import run_loop
from benchmarks.peers.adapters.protocol import DEFINITIONS, TASK, Loop, run_call, serve_loops

# Before the import: it would fetch the list of prices from the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["LITELLM_TELEMETRY"] = "False"


def make(url: str, stream: bool) -> Loop:
    litellm: Any = import_module("litellm")
    litellm.suppress_debug_info = True
    options: dict[str, Any] = {"model": "openai/m", "api_base": url, "api_key": "none", "tools": DEFINITIONS}

    def execute(call: Any) -> dict[str, Any]:
        result = run_call(call.function.name, call.function.arguments)
        return {"role": "tool", "tool_call_id": call.id, "content": result}

    def ask(messages: list[Any]) -> dict[str, Any]:
        chunks = list(litellm.completion(messages=messages, stream=True, **options))
        built = litellm.stream_chunk_builder(chunks, messages=messages)
        message: dict[str, Any] = built.choices[0].message.model_dump(exclude_none=True)
        return message

    def once() -> str:
        if stream:
            return run_loop(ask)
        asked = [{"role": "user", "content": TASK}]
        return litellm.run_tool_loop(messages=asked, execute_tool=execute, **options) or ""

    return once


if __name__ == "__main__":
    serve_loops(["litellm", "openai"], make)
