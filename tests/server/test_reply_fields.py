"""What every reply has, whole and streamed: agent programs fail or loop if one of these fields is missing.

Programs that were tried with replies without one of them sent the same request for ever (no finish reason, no usage),
stopped in silence (no id or index of a call), or failed (no type of a call, no id of an item).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.server.gateways import TOOLS, gateway_to
from tests.server.test_gateway import send

from dragoman.testing import Answer, Upstream, call, calls, sse, thinking
from dragoman.types import Message, Reply, Request, ToolCall, ToolResult
from dragoman.wire import names

Frames = list[dict[str, Any]]
HERMES = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'

# ---- requests --------------------------------------------------------------------------------------------------------

FUNCTIONS = [{"type": "function", "function": tool} for tool in TOOLS]
SPOKEN = [{"role": "user", "content": "Go."}]
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai_chat": ("/v1/chat/completions", {"messages": SPOKEN, "tools": FUNCTIONS}),
    "openai_responses": ("/v1/responses", {"input": "Go.", "tools": [{"type": "function", **tool} for tool in TOOLS]}),
    "anthropic": (
        "/v1/messages",
        {
            "messages": SPOKEN,
            "max_tokens": 99,
            "tools": [{"name": tool["name"], "input_schema": tool["parameters"]} for tool in TOOLS],
        },
    ),
    "gemini": (
        "/v1beta/models/m:generateContent",
        {"contents": [{"parts": [{"text": "Go."}]}], "tools": {"functionDeclarations": TOOLS}},
    ),
    "ollama": ("/api/chat", {"messages": SPOKEN, "tools": FUNCTIONS}),
}


def ask(gateway: Any, wire: str, *, stream: bool, without: str = "") -> Frames:
    """Return the body of a reply, or the frames of a stream."""
    path, body = REQUESTS[wire]
    body = {"model": "m", **body, "stream": stream}
    body.pop(without, None)
    if wire == "gemini":
        path = path.replace(":generate", ":streamGenerate") + "?alt=sse" if stream else path
    status, _, data = send(gateway, "POST", path, body)
    assert status == 200, data
    if not stream:
        return [json.loads(data)]
    if wire == "ollama":
        return [json.loads(line) for line in data.splitlines()]
    lines = [line.removeprefix(b"data: ") for line in data.splitlines() if line.startswith(b"data: ")]
    if wire == "openai_chat":
        assert lines.pop() == b"[DONE]"
    return [json.loads(line) for line in lines]


# ---- replies of endpoints --------------------------------------------------------------------------------------------


def poor(delta: dict[str, Any], *, finish: str | None = None, done: bool = True) -> Callable[[Request], Answer]:
    """A reply of Chat that has nothing but what a client needs least."""

    def reply(request: Request) -> Answer:
        ending = {"finish_reason": finish} if finish else {}
        if request.options.get("stream"):
            frames = [{"choices": [{"delta": delta}]}, *([{"choices": [{"delta": {}, **ending}]}] if finish else [])]
            return sse(frames, done=done)
        return Answer(body={"choices": [{"message": delta, **ending}]})

    return reply


_FUNCTION = {"name": "weather", "arguments": '{"city": "Paris"}'}
REPLIES: dict[str, tuple[Any, int]] = {
    "words": ("It is warm.", 0),
    "nothing": ("", 0),
    "a call as text": (f"I will look.\n{HERMES}", 1),
    "a call as text alone": (HERMES, 1),
    "a native call": (call("weather", city="Paris"), 1),
    "thoughts and a native call": ([thinking("Hm."), call("weather", city="Paris")], 1),
    "truncated words": (Reply(Message("assistant", "It is"), stop="length"), 0),
    "a call that is cut off": (HERMES[:40], 0),
    "two native calls": (calls(call("weather", city="Paris"), call("search", query="x"), say="Both."), 2),
    "poor words": (poor({"content": "It is warm."}), 0),
    "poor words, finished": (poor({"content": "It is warm."}, finish="stop", done=False), 0),
    "a poor call as text": (poor({"content": HERMES}), 1),
    "a poor native call": (poor({"tool_calls": [{"function": _FUNCTION}]}), 1),
    "a poor native call that stops": (poor({"tool_calls": [{"function": _FUNCTION}]}, finish="stop", done=False), 1),
}
"""A reply, and how many calls it has."""

# ---- fields ----------------------------------------------------------------------------------------------------------

_USAGE_OF_ANTHROPIC = (
    "usage.input_tokens usage.output_tokens usage.cache_creation_input_tokens usage.cache_read_input_tokens"
)
FIELDS = {
    "openai_chat": "id object created model choices.index choices.finish_reason choices.message.role "
    "usage.prompt_tokens usage.completion_tokens usage.total_tokens",
    "openai_responses": "id object created_at model status output.id output.type "
    "usage.input_tokens usage.output_tokens usage.total_tokens "
    "usage.input_tokens_details.cached_tokens usage.output_tokens_details.reasoning_tokens",
    "anthropic": f"id type role model content.type stop_reason {_USAGE_OF_ANTHROPIC}",
    "gemini": "candidates.content.role candidates.finishReason candidates.index responseId modelVersion "
    "usageMetadata.promptTokenCount usageMetadata.candidatesTokenCount usageMetadata.totalTokenCount",
    "ollama": "model created_at message.role done done_reason prompt_eval_count eval_count total_duration",
}
"""What a whole reply has. A name after a list means each of its entries."""
CALLS = {
    "openai_chat": ("choices.message.tool_calls", "id type function.name function.arguments"),
    "openai_responses": ("output", "id call_id name arguments status"),
    "anthropic": ("content", "id name input"),
    "gemini": ("candidates.content.parts.functionCall", "name args"),
    "ollama": ("message.tool_calls", "function.name function.arguments"),
}
"""Where the calls are, and what each has."""
_KINDS = {"openai_responses": "function_call", "anthropic": "tool_use"}


def find(value: Any, path: str) -> Iterator[Any]:
    """Return all values at a path. A missing one is None."""
    name, _, rest = path.partition(".")
    for entry in value if isinstance(value, list) else [value]:
        found = entry.get(name) if isinstance(entry, dict) else None
        if not rest:
            yield from found if isinstance(found, list) else [found]
        else:
            yield from find(found, rest)


def missing(value: Any, fields: str) -> list[str]:
    return [path for path in fields.split() if any(found in (None, "") for found in find(value, path))]


def check_whole(wire: str, body: dict[str, Any], count: int) -> list[str]:
    place, fields = CALLS[wire]
    made = [made for made in find(body, place) if isinstance(made, dict)]
    made = [entry for entry in made if entry.get("type") == _KINDS[wire]] if wire in _KINDS else made
    wrong = missing(body, FIELDS[wire]) + [path for entry in made for path in missing(entry, fields)]
    return wrong + ([f"{len(made)} calls"] if len(made) != count else [])


# ---- streams ---------------------------------------------------------------------------------------------------------


def check_chat(frames: Frames, count: int) -> list[str]:
    wrong = [path for frame in frames for path in missing(frame, "id object created model")]
    choices = [choice for frame in frames for choice in frame["choices"]]
    deltas = [made for choice in choices for made in choice["delta"].get("tool_calls") or []]
    firsts = {made.get("index"): made for made in reversed(deltas)}
    wrong += [path for made in firsts.values() for path in missing(made, "index id type function.name")]
    reasons = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    wrong += [] if choices[0]["delta"].get("role") == "assistant" else ["role"]
    wrong += [] if reasons in ([["tool_calls"]] if count else [["stop"], ["length"]]) else [f"finish reasons {reasons}"]
    wrong += [] if choices[-1].get("finish_reason") else ["the finish reason is not last"]
    return wrong + ([] if sorted(firsts) == list(range(count)) else [f"calls {list(firsts)}"])


def check_responses(frames: Frames, count: int) -> list[str]:
    kinds = [frame["type"] for frame in frames]
    wrong = [path for frame in frames for path in missing(frame, "type sequence_number")]
    ends = ("response.completed", "response.incomplete")
    wrong += [] if kinds[0] == "response.created" and kinds[-1] in ends else [str(kinds)]
    items = [frame for frame in frames if frame["type"].startswith("response.output_item")]
    wrong += [path for frame in items for path in missing(frame, "output_index item.id item.type")]
    parts = [frame for frame in frames if frame["type"].endswith((".delta", ".done")) and frame not in items]
    wrong += [path for frame in parts for path in missing(frame, "output_index item_id")]
    whole = frames[-1]["response"]
    done = [frame["item"] for frame in items if frame["type"].endswith("done")]
    wrong += [] if done == whole["output"] else ["the items differ from those of the end"]
    wrong += missing(frames[0]["response"], "id object created_at model status")
    return wrong + check_whole("openai_responses", whole, count)


def check_anthropic(frames: Frames, count: int) -> list[str]:
    kinds = [frame["type"] for frame in frames]
    wrong = missing(frames[0], "message.id message.type message.role message.model")
    wrong += missing(frames[0]["message"], _USAGE_OF_ANTHROPIC)
    blocks = [frame for frame in frames if frame["type"].startswith("content_block")]
    wrong += [path for frame in blocks for path in missing(frame, "index")]
    made = [frame for frame in blocks if frame.get("content_block", {}).get("type") == "tool_use"]
    wrong += [path for frame in made for path in missing(frame["content_block"], "id name input")]
    for begun in made:
        deltas = [frame["delta"] for frame in blocks if frame["index"] == begun["index"] and "delta" in frame]
        json.loads("".join(delta["partial_json"] for delta in deltas))
    wrong += [] if kinds[-2:] == ["message_delta", "message_stop"] else [str(kinds)]
    wrong += missing(frames[-2], "delta.stop_reason usage.output_tokens usage.input_tokens")
    return wrong + ([] if len(made) == count else [f"{len(made)} calls"])


def check_gemini(frames: Frames, count: int) -> list[str]:
    common = "candidates.content.role candidates.index responseId modelVersion"
    wrong = [path for frame in frames[:-1] for path in missing(frame, common)]
    wrong += missing(frames[-1], FIELDS["gemini"])
    made = [entry for frame in frames for entry in find(frame, CALLS["gemini"][0]) if entry]
    wrong += [path for entry in made for path in missing(entry, CALLS["gemini"][1])]
    return wrong + ([] if len(made) == count else [f"{len(made)} calls"])


def check_ollama(frames: Frames, count: int) -> list[str]:
    wrong = [path for frame in frames for path in missing(frame, "model created_at message.role done")]
    wrong += missing(frames[-1], FIELDS["ollama"])
    wrong += [] if [frame["done"] for frame in frames] == [False] * (len(frames) - 1) + [True] else ["done"]
    made = [entry for frame in frames for entry in find(frame, CALLS["ollama"][0]) if entry]
    wrong += [path for entry in made for path in missing(entry, CALLS["ollama"][1])]
    return wrong + ([] if len(made) == count else [f"{len(made)} calls"])


STREAMS = {
    "openai_chat": check_chat,
    "openai_responses": check_responses,
    "anthropic": check_anthropic,
    "gemini": check_gemini,
    "ollama": check_ollama,
}


def check_replies(replies: dict[str, tuple[Any, int]], endpoint: str) -> list[str]:
    wrong: list[str] = []
    said: Any = ""

    def reply(request: Request) -> Any:
        return said(request) if callable(said) else said

    with Upstream([reply], wire=endpoint, loop=True) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for name, (said, count) in replies.items():  # noqa: B007 (the script reads it)
            for wire in REQUESTS:
                whole = check_whole(wire, ask(gateway, wire, stream=False)[0], count)
                streamed = STREAMS[wire](ask(gateway, wire, stream=True), count)
                wrong += [f"{endpoint} -> {wire}, {name}, whole: {path}" for path in whole]
                wrong += [f"{endpoint} -> {wire}, {name}, streamed: {path}" for path in streamed]
    return wrong


def test_every_reply_has_the_fields_that_programs_need_whatever_the_endpoint_leaves_out() -> None:
    assert check_replies(REPLIES, "openai_chat") == []


@pytest.mark.parametrize("endpoint", [name for name in names() if name != "openai_chat"])
def test_every_reply_has_the_fields_that_programs_need_from_endpoints_of_every_wire(endpoint: str) -> None:
    rich = {name: row for name, row in REPLIES.items() if "poor" not in name}
    assert check_replies(rich, endpoint) == []


EDITS = (
    'made.json\n```json\n{"name": "weather", "arguments": {"city": "Paris"}}\n```\n',
    HERMES,
    "<code>\nf(1)\n</code>",
)
TEXTS = {
    "openai_chat": ("choices.message.content", "choices.delta.content"),
    "openai_responses": ("output.content.text", "delta"),
    "anthropic": ("content.text", "delta.text"),
    "gemini": ("candidates.content.parts.text",) * 2,
    "ollama": ("message.content",) * 2,
}


def test_a_program_that_offers_no_tools_gets_the_text_as_it_is() -> None:
    """Some programs edit files by fences or tags of their own, which are no calls."""
    for text in EDITS:
        with Upstream([text], loop=True, deltas=5) as upstream, gateway_to(upstream.endpoint()) as gateway:
            for wire, paths in TEXTS.items():
                for stream in (False, True):
                    frames = ask(gateway, wire, stream=stream, without="tools")
                    heard = "".join(found or "" for frame in frames for found in find(frame, paths[stream]))
                    assert heard == text, (wire, stream)


KIMI = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
    '{"city": "Paris"}<|tool_call_end|><|tool_calls_section_end|>'
)


def turn_of(wire: str, body: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the id of the call in a reply, and the turns that a client adds to its history."""
    if wire == "openai_chat":
        message = body["choices"][0]["message"]
        id = message["tool_calls"][0]["id"]
        return id, [message, {"role": "tool", "tool_call_id": id, "content": "warm"}]
    if wire == "openai_responses":
        [item] = body["output"]
        return item["call_id"], [item, {"type": "function_call_output", "call_id": item["call_id"], "output": "warm"}]
    id = body["content"][0]["id"]
    answer = [{"type": "tool_result", "tool_use_id": id, "content": "warm"}]
    return id, [{"role": "assistant", "content": body["content"]}, {"role": "user", "content": answer}]


def test_the_id_of_a_call_is_new_in_every_turn_even_if_the_model_repeats_its_own() -> None:
    """Some models number the calls of each reply anew, and some clients accept only plain ids."""
    for said in (KIMI, ToolCall("functions.weather:0", "weather", {"city": "Paris"})):
        with Upstream([said], loop=True) as upstream, gateway_to(upstream.endpoint()) as gateway:
            for wire in ("openai_chat", "openai_responses", "anthropic"):
                path, body = REQUESTS[wire]
                field = "input" if wire == "openai_responses" else "messages"
                history, ids = list(SPOKEN), []
                for _ in range(3):
                    _, _, data = send(gateway, "POST", path, {"model": "m", **body, field: history})
                    id, turns = turn_of(wire, json.loads(data))
                    history += turns
                    ids.append(id)
                assert len(set(ids)) == 3, (wire, said, ids)
                assert wire == "openai_chat" or re.fullmatch(r"[\w-]{1,64}", "".join(ids), re.ASCII), (wire, ids)
                sent = [part for message in upstream.requests[-1].messages for part in message.parts]
                results = [part.call_id for part in sent if isinstance(part, ToolResult)]
                assert results == [part.id for part in sent if isinstance(part, ToolCall)] and len(results) == 2
