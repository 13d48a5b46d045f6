"""Leaked calls of the reference data through the gateway: they arrive as calls, and text stays text."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.server.gateways import RunningGateway, gateway_to

import dragoman
from dragoman.client.http import HttpTransport
from dragoman.client.transport import HttpRequest, Timeouts
from dragoman.testing import ScriptedModel, Upstream

LEAST_READ = 0.85


def _send(gateway: RunningGateway, rows: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    """Send a request for each row as a client of Anthropic's wire, and return the calls of each reply."""
    import asyncio

    async def run() -> list[list[tuple[str, str]]]:
        transport = HttpTransport()
        found = []
        for row in rows:
            tools = [
                {"name": tool["function"]["name"], "input_schema": tool["function"].get("parameters", {})}
                for tool in row["tools"]
            ]
            body = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Go."}], "stream": True}
            data = json.dumps({**body, "tools": tools}).encode()
            request = HttpRequest("POST", f"{gateway.url}/v1/messages", {"content-type": "application/json"}, data)
            response = await transport.send(request, Timeouts())
            pieces = [piece async for piece in response.pieces()]
            await response.close()
            stream = dragoman.wire.get("anthropic").reply_stream()
            events = [*stream.feed(b"".join(pieces)), *stream.close()]
            found.append(
                [_normalise(event.call.name, event.call.arguments) for event in events if hasattr(event, "call")]
            )
        await transport.close()
        return found

    return asyncio.run(run())


def _normalise(name: str, arguments: Any) -> tuple[str, str]:
    return name, json.dumps(arguments, sort_keys=True, ensure_ascii=False)


def test_leaked_calls_arrive_as_calls_and_text_stays_text(shared_data: Callable[[str], Path]) -> None:
    with gzip.open(shared_data("wild_dev.jsonl.gz"), "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    script = ScriptedModel([row["text"] for row in rows], deltas=4)
    with Upstream(script) as upstream, gateway_to(upstream.endpoint(), no_repairs()) as gateway:
        found = _send(gateway, rows)
    leaks = [number for number, row in enumerate(rows) if row["kind"] == "leak" and not row.get("truncated")]
    wanted = {n: [_normalise(each["name"], each["arguments"]) for each in rows[n]["calls"]] for n in leaks}
    missed = [rows[number]["id"] for number in leaks if found[number] != wanted[number]]
    assert 1 - len(missed) / len(leaks) >= LEAST_READ, missed
    for number, row in enumerate(rows):
        if row["kind"] == "negative" and found[number]:
            accepted = dragoman.extract(row["text"], {"native_tool_calls": True}, tools=row["tools"], trust="compat")
            assert accepted.calls, f"{row['id']}: {found[number]}"


def no_repairs() -> Any:
    from tests.server.gateways import settings_for

    return settings_for(repair_turns=0)
