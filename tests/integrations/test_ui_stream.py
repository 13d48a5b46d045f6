"""Runs as streams for web front ends follow the rules of the Vercel AI SDK and of AG-UI.

The rules are written from the descriptions of the protocols. `make test-peers` asks the packages of their authors.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.integrations.ui_runs import ANSWER, RUNS, read, weather, write
from tests.tables import each_row

import dragoman
from dragoman.errors import ConfigError
from dragoman.integrations import UiStream
from dragoman.integrations.ui_stream import Protocol
from dragoman.testing import Fault, Upstream

Frame = dict[str, Any]


def check_vercel(frames: list[Frame]) -> None:
    """Raise if a frame is not allowed where it is."""
    assert frames[0]["type"] == "start" and frames[-1]["type"] in ("finish", "abort")
    parts: dict[str, str] = {}
    tools: dict[str, str] = {}
    in_step = False
    for frame in frames:
        kind, _, what = frame["type"].rpartition("-")
        if kind in ("text", "reasoning"):
            assert in_step
            id = frame["id"]
            assert (parts.get(id) == kind) is (what != "start"), frame
            parts[id] = kind if what != "end" else "ended"
            assert what != "delta" or frame["delta"]
        elif kind.startswith("tool"):
            id = frame["toolCallId"]
            before = {"input-start": "", "input-delta": "streaming", "output-denied": "asked"}
            state = frame["type"].removeprefix("tool-")
            known = tools.get(id, "")
            if state in before:
                assert known == before[state], frame
            elif state.startswith("output"):
                assert known in ("available", "asked"), frame
            else:
                assert known in ("streaming", "available"), frame
            after = {"input-start": "streaming", "input-delta": "streaming", "input-available": "available"}
            tools[id] = after.get(state, "asked" if state == "approval-request" else "done")
        elif what == "step":
            assert in_step is (kind == "finish"), frame
            in_step = kind == "start"
    assert not in_step
    assert set(parts.values()) <= {"ended"}
    assert "streaming" not in tools.values()


def check_ag_ui(frames: list[Frame]) -> None:
    """Raise if a frame is not allowed where it is."""
    assert frames[0] == {"type": "RUN_STARTED", "threadId": "thread_1", "runId": "run_1"}
    assert frames[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    open_ids: dict[str, str] = {}
    closed: set[str] = set()
    joined: dict[str, str] = {}
    for frame in frames[1:-1]:
        kind, _, what = frame["type"].rpartition("_")
        id = frame.get("toolCallId") or frame.get("messageId") or frame.get("stepName")
        if what in ("START", "STARTED"):
            assert f"{kind}{id}" not in {*open_ids, *closed}, frame
            open_ids[f"{kind}{id}"] = kind
        elif what in ("END", "FINISHED"):
            assert open_ids.pop(f"{kind}{id}") == kind, frame
            closed.add(f"{kind}{id}")
        elif what == "RESULT":
            assert f"TOOL_CALL{id}" in closed and frame["role"] == "tool", frame
        else:
            assert what in ("CONTENT", "ARGS") and frame["delta"] and f"{kind}{id}" in open_ids, frame
            joined[f"{kind}{id}"] = joined.get(f"{kind}{id}", "") + frame["delta"]
    assert not open_ids
    assert frames[-1]["type"] == "RUN_ERROR" or frames[-1]["outcome"]["type"] in ("success", "interrupt", "cancelled")


CHECKS = {"vercel": check_vercel, "ag_ui": check_ag_ui}


@each_row("protocol", list(CHECKS))
@each_row("name", list(RUNS))
def test_every_run_is_a_stream_that_follows_the_rules(protocol: Protocol, name: str) -> None:
    CHECKS[protocol](read(write(name, protocol)))


def kinds(frames: list[Frame]) -> list[str]:
    return [frame["type"] for frame in frames]


def test_a_run_is_a_valid_stream_in_both_protocols() -> None:
    frames = read(write("a call in text", "vercel"))
    assert [kind for kind in kinds(frames) if not kind.endswith("delta")] == [
        *("start", "start-step", "text-start", "text-end", "tool-input-start", "tool-input-available"),
        *("tool-output-available", "finish-step", "start-step", "text-start", "text-end", "finish-step", "finish"),
    ]
    called = next(frame for frame in frames if frame["type"] == "tool-input-available")
    assert called["input"] == {"city": "Paris"}, "the repaired arguments, and not the pieces"
    assert "".join(frame["delta"] for frame in frames if frame["type"] == "text-delta") == f"I will look.\n{ANSWER}"
    assert write("a call in text", "vercel")[-1] == b"data: [DONE]\n\n"
    told = read(write("a call in text", "ag_ui"))
    arguments = [frame["delta"] for frame in told if frame["type"] == "TOOL_CALL_ARGS"]
    assert arguments == ['{"city": "Paris"}']
    results = [frame["content"] for frame in told if frame["type"] == "TOOL_CALL_RESULT"]
    assert results == ["sunny in Paris"]


@each_row(
    "name, vercel, ag_ui",
    [
        ("an answer", ("finish", "stop"), ("RUN_FINISHED", "success")),
        ("a cancelled run", ("abort", None), ("RUN_FINISHED", "cancelled")),
        ("a failure of the endpoint", ("finish", "error"), ("RUN_ERROR", None)),
        ("a limit", ("finish", "error"), ("RUN_ERROR", None)),
        ("no event at all", ("finish", "error"), ("RUN_ERROR", None)),
    ],
)
def test_the_end_tells_how_a_run_ended(
    name: str, vercel: tuple[str, str | None], ag_ui: tuple[str, str | None]
) -> None:
    last = read(write(name, "vercel"))[-1]
    assert (last["type"], last.get("finishReason")) == vercel
    last = read(write(name, "ag_ui"))[-1]
    assert (last["type"], last.get("outcome", {}).get("type")) == ag_ui


def test_approvals_are_part_of_the_stream() -> None:
    outputs = {
        name: [kind for kind in kinds(read(write(name, "vercel"))) if kind.startswith(("tool-ap", "tool-out"))]
        for name in ("an approved call", "a denied call", "a run that waits")
    }
    assert outputs == {
        "an approved call": ["tool-approval-request", "tool-output-available"],
        "a denied call": ["tool-approval-request", "tool-output-denied"],
        "a run that waits": ["tool-approval-request"],
    }
    outcome = read(write("a run that waits", "ag_ui"))[-1]["outcome"]
    assert outcome["type"] == "interrupt"
    assert [(each["reason"], each["toolCallId"]) for each in outcome["interrupts"]] == [("approval", "call_1")]


def test_a_reader_that_goes_away_ends_the_run() -> None:
    async def main() -> None:
        with Upstream([Fault("stall", at=600), "Let us see. " * 40]) as upstream:
            stream = UiStream().write(dragoman.Agent(upstream.endpoint(), tools=[weather]).stream("Go."))
            async for frame in stream:
                if b"text-delta" in frame:
                    break
            await stream.aclose()
            assert upstream.wait_for_hangup()

    asyncio.run(main())


def test_an_exception_ends_the_stream_without_its_message() -> None:
    async def events() -> Any:
        raise ValueError("a secret")
        yield

    async def main() -> tuple[list[bytes], str]:
        frames: list[bytes] = []
        try:
            async for frame in UiStream("ag_ui", thread_id="thread_1", run_id="run_1").write(events()):
                frames.append(frame)
        except ValueError as error:
            return frames, str(error)
        return frames, ""

    frames, raised = asyncio.run(main())
    assert raised == "a secret"
    assert b"secret" not in b"".join(frames)
    check_ag_ui(read(frames))


def test_the_response_has_the_headers_of_its_protocol() -> None:
    assert UiStream("vercel").headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert UiStream("ag_ui").headers["content-type"] == "text/event-stream"
    with pytest.raises(ConfigError, match="no protocol 'sse'"):
        UiStream("sse")  # type: ignore[arg-type]
