"""The official client of OpenAI in a plain loop, as its documentation shows it: nothing is checked.

`DRAGOMAN_REPAIR=1` gives it the HTTP client of `dragoman.integrations`. `PEER_KEY` is the key that it sends.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from benchmarks.peers.adapters.protocol import DEFINITIONS, TASK, Loop, run_call, serve_loops


def make(url: str, stream: bool) -> Loop:
    repairs = os.environ.get("DRAGOMAN_REPAIR")
    http_client = import_module("dragoman.integrations").Repair().client() if repairs else None
    key = os.environ.get("PEER_KEY", "none")
    client = import_module("openai").OpenAI(api_key=key, base_url=url, http_client=http_client)

    def ask(messages: list[Any]) -> dict[str, Any]:
        if stream:
            return assemble(
                client.chat.completions.create(model="m", messages=messages, tools=DEFINITIONS, stream=True)
            )
        reply = client.chat.completions.create(model="m", messages=messages, tools=DEFINITIONS)
        message: dict[str, Any] = reply.choices[0].message.model_dump(exclude_none=True)
        return message

    return lambda: run_loop(ask)


def run_loop(ask: Any) -> str:
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while True:
        message = ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return message.get("content") or ""
        for call in message["tool_calls"]:
            result = run_call(call["function"]["name"], call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def assemble(chunks: Any) -> dict[str, Any]:
    """Join the deltas of a stream by index, as the guide to streaming does."""
    content, calls = "", {}
    for chunk in chunks:
        if not chunk.choices:
            continue
        delta = chunk.choices[0].delta
        content += delta.content or ""
        for call in delta.tool_calls or ():
            if call.index not in calls:
                calls[call.index] = call.model_dump(exclude_none=True, exclude={"index"})
            else:
                calls[call.index]["function"]["arguments"] += call.function.arguments
    message: dict[str, Any] = {"role": "assistant", "content": content}
    return {**message, "tool_calls": list(calls.values())} if calls else message


if __name__ == "__main__":
    serve_loops(["openai"], make)
