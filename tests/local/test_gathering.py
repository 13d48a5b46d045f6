"""A stream put together is what a server without streams would have sent."""

from __future__ import annotations

from dragoman.local.transport import CompletionBuilder


def test_texts_calls_and_usage_are_put_together() -> None:
    gathering = CompletionBuilder()
    for delta in (
        {"role": "assistant", "content": None},
        {"reasoning_content": "hm"},
        {"content": "Hel"},
        {"content": "lo"},
        {"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ": 1}"}}]},
    ):
        gathering.add({"id": "x", "model": "m", "choices": [{"delta": delta, "finish_reason": None}]})
    gathering.add({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    gathering.add({"choices": [], "usage": {"prompt_tokens": 3}})
    whole = gathering.whole()
    (choice,) = whole["choices"]
    assert choice["message"] == {
        "role": "assistant",
        "content": "Hello",
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}],
    }
    assert (choice["finish_reason"], whole["usage"], whole["id"]) == ("tool_calls", {"prompt_tokens": 3}, "x")
