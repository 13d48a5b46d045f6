"""Rows for the wires: replies in the shapes that the vendors document, whole and streamed, sound and damaged.

The bodies are built here from the description of each protocol and not with our encoder, so that a mistake which
encoder and decoder share shows. The expectation comes from the scenario that a body was built from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Row = dict[str, Any]
Body = dict[str, Any]

HARBOUR = {"harbour": "Ærøskøbing", "nights": 2}
DIVE = {"site": 'Wreck of the "Juno"', "depth": -18.5, "gas": {"mix": [32, 68], "spare": None, "checked": False}}


@dataclass(frozen=True)
class Called:
    name: str
    arguments: dict[str, Any] | str
    """A string stands on the wire as it is; only wires that write arguments as text can carry it."""
    id: str | None = "a1B2c3D4e"

    @property
    def written(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Said:
    """One reply, in neutral words."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Called, ...] = ()
    stop: str = "end"
    counts: dict[str, int] = field(default_factory=lambda: {"input": 40, "output": 9})


BERTH, TIDES = Called("book_berth", HARBOUR), Called("list_tides", {}, "f5G6h7I8j")
LOGGED = Called("log_dive", DIVE, "k9L0m1N2p")

SCENARIOS: dict[str, Said] = {
    "text": Said("The ferry leaves at nine."),
    "unicode": Said('Fähre um 9 – „pünktlich“ 🚢\n\tНет мест \u2028 \\ "ok"'),
    "nothing": Said(),
    "thinking": Said("Nine o'clock.", "The timetable says nine."),
    "call": Said(calls=(BERTH,), stop="tool_calls"),
    "call-without-arguments": Said(calls=(TIDES,), stop="tool_calls"),
    "call-with-nested-arguments": Said(calls=(LOGGED,), stop="tool_calls"),
    "text-and-call": Said("I will book it.", calls=(BERTH,), stop="tool_calls"),
    "thinking-and-call": Said("", "A berth is needed.", (BERTH,), "tool_calls"),
    "thinking-text-and-two-calls": Said("Both, then.", "Two things.", (BERTH, TIDES), "tool_calls"),
    "three-calls": Said(calls=(BERTH, LOGGED, TIDES), stop="tool_calls"),
    "same-call-twice": Said(calls=(TIDES, replace(TIDES, id="q3R4s5T6u")), stop="tool_calls"),
    "length": Said("The ferry lea", stop="length"),
    "refusal": Said("I cannot", stop="refusal"),
    "stop-sequence": Said("One, two,", stop="stop_sequence"),
    "cached": Said("Short.", counts={"input": 40, "output": 9, "cached": 16}),
    "cache-written": Said("Short.", counts={"input": 40, "output": 9, "cached": 16, "cache_write": 4}),
    "reasoning-counted": Said("Short.", counts={"input": 40, "output": 9, "reasoning": 3}),
    "calls-but-plain-end": Said(calls=(BERTH,), stop="end"),
    "no-id": Said(calls=(replace(BERTH, id=None),), stop="tool_calls"),
    "trailing-comma": Said(
        calls=(replace(BERTH, arguments='{"harbour": "Ærøskøbing", "nights": 2,}'),), stop="tool_calls"
    ),
    "unreadable-arguments": Said(calls=(replace(BERTH, arguments='{"harbour": which?, "nights"}'),), stop="tool_calls"),
    "cut-arguments": Said(calls=(replace(BERTH, arguments='{"harbour": "Ærøsk'),), stop="length"),
    "empty-arguments": Said(calls=(replace(TIDES, arguments=""),), stop="tool_calls"),
    "list-for-arguments": Said(calls=(replace(BERTH, arguments='["Skagen"]'),), stop="tool_calls"),
}

WORDS: dict[str, dict[str, str]] = {
    "openai_chat": {"end": "stop", "tool_calls": "tool_calls", "length": "length", "refusal": "content_filter"},
    "openai_responses": {
        "end": "completed",
        "tool_calls": "completed",
        "length": "max_output_tokens",
        "refusal": "content_filter",
    },
    "anthropic": {
        "end": "end_turn",
        "tool_calls": "tool_use",
        "length": "max_tokens",
        "refusal": "refusal",
        "stop_sequence": "stop_sequence",
    },
    "gemini": {"end": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"},
    "ollama": {"end": "stop", "tool_calls": "stop", "length": "length"},
    "bedrock": {
        "end": "end_turn",
        "tool_calls": "tool_use",
        "length": "max_tokens",
        "refusal": "guardrail_intervened",
        "stop_sequence": "stop_sequence",
    },
    "mistral": {"end": "stop", "tool_calls": "tool_calls", "length": "length"},
    "cohere": {"end": "COMPLETE", "tool_calls": "TOOL_CALL", "length": "MAX_TOKENS", "stop_sequence": "STOP_SEQUENCE"},
}
# Arguments are objects on these wires when a reply comes whole, so that there is no text to be damaged.
OBJECTS = {"anthropic", "gemini", "ollama", "bedrock"}
# On these they are objects in streams, too.
OBJECTS_IN_STREAMS = {"gemini", "ollama"}
COUNTED: dict[str, set[str]] = {
    "openai_chat": {"cached", "reasoning", "cache_write"},
    "openai_responses": {"cached", "reasoning", "cache_write"},
    "anthropic": {"cached", "cache_write"},
    "gemini": {"cached", "reasoning"},
    "ollama": set(),
    "bedrock": {"cached", "cache_write"},
    "mistral": {"cached", "reasoning", "cache_write"},
    "cohere": set(),
}


def _pieces(text: str, count: int = 3) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[at : at + size] for at in range(0, len(text), size)]


def _sse(data: Any, event: str | None = None) -> str:
    written = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    return (f"event: {event}\n" if event else "") + f"data: {written}\n\n"


def _present(**members: Any) -> Body:
    return {name: value for name, value in members.items() if value is not None}


# ---- OpenAI chat, Mistral --------------------------------------------------------------------------------------------


def _chat_usage(said: Said) -> Body:
    counts = said.counts
    usage: Body = {"prompt_tokens": counts["input"], "completion_tokens": counts["output"]}
    usage["total_tokens"] = counts["input"] + counts["output"]
    if "cached" in counts:
        usage["prompt_tokens_details"] = {"cached_tokens": counts["cached"]}
        if "cache_write" in counts:
            usage["prompt_tokens_details"]["cache_write_tokens"] = counts["cache_write"]
    if "reasoning" in counts:
        usage["completion_tokens_details"] = {"reasoning_tokens": counts["reasoning"]}
    return usage


def _chat_calls(said: Said) -> list[Body]:
    return [
        _present(id=call.id, type="function", function={"name": call.name, "arguments": call.written})
        for call in said.calls
    ]


def _chat_body(wire: str, message: Body, said: Said) -> Body:
    choice = {"index": 0, "message": message, "finish_reason": WORDS[wire][said.stop]}
    top = {"id": "chatcmpl-77", "object": "chat.completion", "created": 1790000000, "model": "harbour-1"}
    return {**top, "choices": [choice], "usage": _chat_usage(said)}


def _chat_whole(said: Said) -> Body:
    message: Body = {"role": "assistant", "content": said.text or None, "refusal": None}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    if said.calls:
        message["tool_calls"] = _chat_calls(said)
    return _chat_body("openai_chat", message, said)


def _chunk(delta: Body, finish: str | None = None) -> Body:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    top = {"id": "chatcmpl-77", "object": "chat.completion.chunk", "created": 1790000000, "model": "harbour-1"}
    return {**top, "choices": [choice], "usage": None}


def _chat_stream(said: Said) -> list[str]:
    chunks = [_chunk({"role": "assistant", "content": ""})]
    chunks += [_chunk({"reasoning_content": piece}) for piece in _pieces(said.thinking)]
    chunks += [_chunk({"content": piece}) for piece in _pieces(said.text)]
    for index, call in enumerate(said.calls):
        first = _present(index=index, id=call.id, type="function", function={"name": call.name, "arguments": ""})
        chunks.append(_chunk({"tool_calls": [first]}))
        for piece in _pieces(call.written):
            chunks.append(_chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    chunks.append(_chunk({}, WORDS["openai_chat"][said.stop]))
    chunks.append({**_chunk({}), "choices": [], "usage": _chat_usage(said)})
    return [*map(_sse, chunks), _sse("[DONE]")]


def _mistral_content(said: Said) -> Any:
    if not said.thinking:
        return said.text
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": said.thinking}]}
    return [thought, *([{"type": "text", "text": said.text}] if said.text else [])]


def _mistral_whole(said: Said) -> Body:
    message: Body = {"role": "assistant", "content": _mistral_content(said), "tool_calls": _chat_calls(said) or None}
    return _chat_body("mistral", message, said)


def _mistral_stream(said: Said) -> list[str]:
    chunks = [_chunk({"role": "assistant", "content": ""})]
    if said.thinking:
        for piece in _pieces(said.thinking):
            thought = {"type": "thinking", "thinking": [{"type": "text", "text": piece}]}
            chunks.append(_chunk({"content": [thought]}))
    chunks += [_chunk({"content": piece}) for piece in _pieces(said.text)]
    for index, call in enumerate(_chat_calls(said)):
        chunks.append(_chunk({"content": "", "tool_calls": [{**call, "index": index}]}))
    chunks.append({**_chunk({"content": ""}, WORDS["mistral"][said.stop]), "usage": _chat_usage(said)})
    return [*map(_sse, chunks), _sse("[DONE]")]


# ---- OpenAI responses ------------------------------------------------------------------------------------------------


def _items(said: Said) -> list[Body]:
    items: list[Body] = []
    if said.thinking:
        items.append({"type": "reasoning", "id": "rs_5", "summary": [{"type": "summary_text", "text": said.thinking}]})
    if said.text:
        content = [{"type": "output_text", "text": said.text, "annotations": []}]
        items.append({"type": "message", "id": "msg_6", "role": "assistant", "status": "completed", "content": content})
    for index, call in enumerate(said.calls):
        item_id = f"fc_{index}" if call.id else None
        item = _present(type="function_call", id=item_id, call_id=call.id, name=call.name, arguments=call.written)
        items.append({**item, "status": "completed"})
    return items


def _response(said: Said) -> Body:
    word = WORDS["openai_responses"][said.stop]
    counts = said.counts
    usage: Body = {"input_tokens": counts["input"], "output_tokens": counts["output"]}
    usage["input_tokens_details"] = {"cached_tokens": counts.get("cached", 0)}
    if "cache_write" in counts:
        usage["input_tokens_details"]["cache_write_tokens"] = counts["cache_write"]
    usage["output_tokens_details"] = {"reasoning_tokens": counts.get("reasoning", 0)}
    usage["total_tokens"] = counts["input"] + counts["output"]
    status = "completed" if word == "completed" else "incomplete"
    top = {"id": "resp_44", "object": "response", "created_at": 1790000000, "model": "harbour-1", "status": status}
    details = None if word == "completed" else {"reason": word}
    return {**top, "incomplete_details": details, "error": None, "output": _items(said), "usage": usage}


def _responses_stream(said: Said) -> list[str]:
    whole = _response(said)
    begun = {**whole, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    events: list[Body] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(whole["output"]):
        place = _present(output_index=index, item_id=item.get("id"))
        if item["type"] == "reasoning":
            events += _reasoning_events(item, place)
        elif item["type"] == "message":
            events += _message_events(item, place)
        else:
            events += _call_events(item, place)
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return [_sse({**event, "sequence_number": number}, event["type"]) for number, event in enumerate(events)]


def _reasoning_events(item: Body, place: Body) -> Iterator[Body]:
    text = item["summary"][0]["text"]
    part = {**place, "summary_index": 0}
    added = {"output_index": place["output_index"], "item": {**item, "summary": []}}
    yield {"type": "response.output_item.added", **added}
    yield {"type": "response.reasoning_summary_part.added", **part, "part": {"type": "summary_text", "text": ""}}
    for piece in _pieces(text):
        yield {"type": "response.reasoning_summary_text.delta", **part, "delta": piece}
    yield {"type": "response.reasoning_summary_text.done", **part, "text": text}
    yield {"type": "response.reasoning_summary_part.done", **part, "part": {"type": "summary_text", "text": text}}


def _message_events(item: Body, place: Body) -> Iterator[Body]:
    content = item["content"][0]
    part = {**place, "content_index": 0}
    added = {"output_index": place["output_index"], "item": {**item, "status": "in_progress", "content": []}}
    yield {"type": "response.output_item.added", **added}
    yield {"type": "response.content_part.added", **part, "part": {**content, "text": ""}}
    for piece in _pieces(content["text"]):
        yield {"type": "response.output_text.delta", **part, "delta": piece}
    yield {"type": "response.output_text.done", **part, "text": content["text"]}
    yield {"type": "response.content_part.done", **part, "part": content}


def _call_events(item: Body, place: Body) -> Iterator[Body]:
    added = {"output_index": place["output_index"], "item": {**item, "arguments": "", "status": "in_progress"}}
    yield {"type": "response.output_item.added", **added}
    for piece in _pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]}


# ---- Anthropic -------------------------------------------------------------------------------------------------------


def _anthropic_input(said: Said) -> Body:
    counts = said.counts
    read, written = counts.get("cached", 0), counts.get("cache_write", 0)
    fresh = counts["input"] - read - written
    return {"input_tokens": fresh, "cache_read_input_tokens": read, "cache_creation_input_tokens": written}


def _anthropic_top(content: list[Body], stop: str | None, usage: Body) -> Body:
    top = {"id": "msg_88", "type": "message", "role": "assistant", "model": "harbour-1", "content": content}
    return {**top, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def _anthropic_whole(said: Said) -> Body:
    content: list[Body] = []
    if said.thinking:
        content.append({"type": "thinking", "thinking": said.thinking, "signature": "c2lnbmVk"})
    if said.text:
        content.append({"type": "text", "text": said.text})
    content += [_present(type="tool_use", id=call.id, name=call.name, input=call.arguments) for call in said.calls]
    usage = {**_anthropic_input(said), "output_tokens": said.counts["output"]}
    return _anthropic_top(content, WORDS["anthropic"][said.stop], usage)


def _anthropic_stream(said: Said) -> list[str]:
    started = _anthropic_top([], None, {**_anthropic_input(said), "output_tokens": 1})
    events: list[Body] = [{"type": "message_start", "message": started}, {"type": "ping"}]
    blocks: list[tuple[Body, list[Body]]] = []
    if said.thinking:
        deltas: list[Body] = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(said.thinking)]
        deltas.append({"type": "signature_delta", "signature": "c2lnbmVk"})
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if said.text:
        blocks.append(
            ({"type": "text", "text": ""}, [{"type": "text_delta", "text": piece} for piece in _pieces(said.text)])
        )
    for call in said.calls:
        fragments = [] if call.arguments == {} else _pieces(call.written)
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *fragments]]
        blocks.append((_present(type="tool_use", id=call.id, name=call.name, input={}), deltas))
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": WORDS["anthropic"][said.stop], "stop_sequence": None}
    events.append({"type": "message_delta", "delta": ended, "usage": {"output_tokens": said.counts["output"]}})
    events.append({"type": "message_stop"})
    return [_sse(event, event["type"]) for event in events]


# ---- Gemini ----------------------------------------------------------------------------------------------------------


def _gemini_usage(said: Said) -> Body:
    counts = said.counts
    thought = counts.get("reasoning", 0)
    usage = {"promptTokenCount": counts["input"], "candidatesTokenCount": counts["output"] - thought}
    usage["totalTokenCount"] = counts["input"] + counts["output"]
    if "cached" in counts:
        usage["cachedContentTokenCount"] = counts["cached"]
    if thought:
        usage["thoughtsTokenCount"] = thought
    return usage


def _candidate(parts: list[Body], finish: str | None = None) -> Body:
    candidate = _present(content={"role": "model", "parts": parts}, finishReason=finish, index=0)
    return {"candidates": [candidate], "modelVersion": "harbour-1", "responseId": "g-12"}


def _gemini_calls(said: Said) -> list[Body]:
    return [{"functionCall": _present(id=call.id, name=call.name, args=call.arguments)} for call in said.calls]


def _gemini_whole(said: Said) -> Body:
    parts: list[Body] = [{"text": said.thinking, "thought": True}] if said.thinking else []
    parts += [{"text": said.text}] if said.text else []
    body = _candidate(parts + _gemini_calls(said), WORDS["gemini"][said.stop])
    return {**body, "usageMetadata": _gemini_usage(said)}


def _gemini_stream(said: Said) -> list[str]:
    chunks = [_candidate([{"text": piece, "thought": True}]) for piece in _pieces(said.thinking)]
    chunks += [_candidate([{"text": piece}]) for piece in _pieces(said.text)]
    chunks += [_candidate([part]) for part in _gemini_calls(said)]
    last = _candidate([{"text": ""}], WORDS["gemini"][said.stop])
    chunks.append({**last, "usageMetadata": _gemini_usage(said)})
    return [*map(_sse, chunks)]


# ---- Ollama ----------------------------------------------------------------------------------------------------------


def _ollama_line(message: Body, said: Said | None = None) -> Body:
    line: Body = {
        "model": "harbour-1",
        "created_at": "2026-09-21T10:00:00Z",
        "message": {"role": "assistant", **message},
    }
    if said is None:
        return {**line, "done": False}
    ended = {"done": True, "done_reason": WORDS["ollama"][said.stop], "total_duration": 9100000}
    return {**line, **ended, "prompt_eval_count": said.counts["input"], "eval_count": said.counts["output"]}


def _ollama_calls(said: Said) -> list[Body]:
    return [
        _present(id=call.id, function={"index": index, "name": call.name, "arguments": call.arguments})
        for index, call in enumerate(said.calls)
    ]


def _ollama_whole(said: Said) -> Body:
    calls = _ollama_calls(said)
    message = _present(content=said.text, thinking=said.thinking or None, tool_calls=calls or None)
    return _ollama_line(message, said)


def _ollama_stream(said: Said) -> list[str]:
    lines = [_ollama_line({"content": "", "thinking": piece}) for piece in _pieces(said.thinking)]
    lines += [_ollama_line({"content": piece}) for piece in _pieces(said.text)]
    lines += [_ollama_line({"content": "", "tool_calls": [call]}) for call in _ollama_calls(said)]
    lines.append(_ollama_line({"content": ""}, said))
    return [json.dumps(line, ensure_ascii=False) + "\n" for line in lines]


# ---- Bedrock ---------------------------------------------------------------------------------------------------------


def _bedrock_usage(said: Said) -> Body:
    counts = said.counts
    read, written = counts.get("cached", 0), counts.get("cache_write", 0)
    usage = {"inputTokens": counts["input"] - read - written, "outputTokens": counts["output"]}
    usage["totalTokens"] = counts["input"] + counts["output"]
    if read or written:
        usage |= {"cacheReadInputTokens": read, "cacheWriteInputTokens": written}
    return usage


def _bedrock_whole(said: Said) -> Body:
    content: list[Body] = []
    if said.thinking:
        content.append({"reasoningContent": {"reasoningText": {"text": said.thinking, "signature": "c2lnbmVk"}}})
    if said.text:
        content.append({"text": said.text})
    for call in said.calls:
        content.append({"toolUse": _present(toolUseId=call.id, name=call.name, input=call.arguments)})
    message = {"message": {"role": "assistant", "content": content}}
    return {"output": message, "stopReason": WORDS["bedrock"][said.stop], "usage": _bedrock_usage(said)}


def _bedrock_stream(said: Said) -> list[list[Any]]:
    frames: list[list[Any]] = [["messageStart", {"role": "assistant"}]]
    index = 0

    def add(deltas: list[Body], start: Body | None = None) -> None:
        nonlocal index
        if start is not None:
            frames.append(["contentBlockStart", {"contentBlockIndex": index, "start": start}])
        for delta in deltas:
            frames.append(["contentBlockDelta", {"contentBlockIndex": index, "delta": delta}])
        frames.append(["contentBlockStop", {"contentBlockIndex": index}])
        index += 1

    if said.thinking:
        deltas: list[Body] = [{"reasoningContent": {"text": piece}} for piece in _pieces(said.thinking)]
        add([*deltas, {"reasoningContent": {"signature": "c2lnbmVk"}}])
    if said.text:
        add([{"text": piece} for piece in _pieces(said.text)])
    for call in said.calls:
        start = {"toolUse": _present(toolUseId=call.id, name=call.name)}
        add([{"toolUse": {"input": piece}} for piece in _pieces(call.written)], start)
    frames.append(["messageStop", {"stopReason": WORDS["bedrock"][said.stop]}])
    frames.append(["metadata", {"usage": _bedrock_usage(said), "metrics": {"latencyMs": 71}}])
    return frames


# ---- Cohere ----------------------------------------------------------------------------------------------------------


def _cohere_usage(said: Said) -> Body:
    counted = {"input_tokens": said.counts["input"], "output_tokens": said.counts["output"]}
    return {"billed_units": counted, "tokens": counted}


def _cohere_whole(said: Said) -> Body:
    content: list[Body] = [{"type": "thinking", "thinking": said.thinking}] if said.thinking else []
    content += [{"type": "text", "text": said.text}] if said.text else []
    message = _present(role="assistant", content=content or None, tool_calls=_chat_calls(said) or None)
    return {"id": "co-3", "message": message, "finish_reason": WORDS["cohere"][said.stop], "usage": _cohere_usage(said)}


def _cohere_stream(said: Said) -> list[str]:
    opened = {"message": {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}}
    events: list[Body] = [{"type": "message-start", "id": "co-3", "delta": opened}]
    index = 0
    for kind, text in (("thinking", said.thinking), ("text", said.text)):
        if text:
            events += _cohere_content(kind, text, index)
            index += 1
    for number, call in enumerate(said.calls):
        function = {"name": call.name, "arguments": ""}
        started = {"message": {"tool_calls": _present(id=call.id, type="function", function=function)}}
        events.append({"type": "tool-call-start", "index": number, "delta": started})
        for piece in _pieces(call.written):
            delta = {"message": {"tool_calls": {"function": {"arguments": piece}}}}
            events.append({"type": "tool-call-delta", "index": number, "delta": delta})
        events.append({"type": "tool-call-end", "index": number})
    ended = {"finish_reason": WORDS["cohere"][said.stop], "usage": _cohere_usage(said)}
    events.append({"type": "message-end", "delta": ended})
    return [_sse(event, event["type"]) for event in events]


def _cohere_content(kind: str, text: str, index: int) -> Iterator[Body]:
    opened = {"message": {"content": {"type": kind, kind: ""}}}
    yield {"type": "content-start", "index": index, "delta": opened}
    for piece in _pieces(text):
        yield {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: piece}}}}
    yield {"type": "content-end", "index": index}


# ---- rows ------------------------------------------------------------------------------------------------------------

WHOLE: dict[str, Callable[[Said], Body]] = {
    "openai_chat": _chat_whole,
    "openai_responses": _response,
    "anthropic": _anthropic_whole,
    "gemini": _gemini_whole,
    "ollama": _ollama_whole,
    "bedrock": _bedrock_whole,
    "mistral": _mistral_whole,
    "cohere": _cohere_whole,
}
STREAMED: dict[str, Callable[[Said], list[Any]]] = {
    "openai_chat": _chat_stream,
    "openai_responses": _responses_stream,
    "anthropic": _anthropic_stream,
    "gemini": _gemini_stream,
    "ollama": _ollama_stream,
    "bedrock": _bedrock_stream,
    "mistral": _mistral_stream,
    "cohere": _cohere_stream,
}


def make_rows() -> list[Row]:
    rows = []
    for wire in WHOLE:
        for name, said in SCENARIOS.items():
            if said.stop not in WORDS[wire] or said.counts.keys() - {"input", "output"} - COUNTED[wire]:
                continue
            damaged = any(isinstance(call.arguments, str) for call in said.calls)
            expected = _expect(said)
            if not (damaged and wire in OBJECTS):
                rows.append({"id": f"{wire}/{name}/whole", "wire": wire, "body": WHOLE[wire](said), **expected})
            if not (damaged and wire in OBJECTS_IN_STREAMS):
                rows.append({"id": f"{wire}/{name}/stream", "wire": wire, "stream": STREAMED[wire](said), **expected})
        rows += _cut_streams(wire)
        rows += _errors(wire)
    return sorted(rows, key=lambda row: row["id"])


def _expect(said: Said) -> Row:
    calls, invalid = [], []
    for call in said.calls:
        meant = _meaning(call)
        if meant is None:
            invalid.append(call.name)
        else:
            calls.append([call.name, meant, call.id])
    stop = "tool_calls" if calls and said.stop == "end" else said.stop
    expected = {"text": said.text, "thinking": said.thinking, "calls": calls, "invalid": invalid, "stop": stop}
    return {**expected, "usage": said.counts, "failure": None}


def _meaning(call: Called) -> dict[str, Any] | None:
    if isinstance(call.arguments, dict):
        return call.arguments
    if not call.arguments:
        return {}
    # The one damage that leaves every value readable.
    return HARBOUR if call.arguments.endswith(",}") else None


# What a stream lacks when it breaks off at this frame.
_ENDS = {
    "openai_chat": '"finish_reason": "',
    "openai_responses": '"type": "response.completed"',
    "anthropic": '"type": "message_delta"',
    "gemini": '"finishReason"',
    "ollama": '"done": true',
    "bedrock": "messageStop",
    "mistral": '"finish_reason": "',
    "cohere": '"type": "message-end"',
}


def _cut_streams(wire: str) -> Iterator[Row]:
    """A stream that breaks off has failed, and none of its calls is complete, wherever it broke."""
    said = Said("Both, then.", "Two things.", (BERTH, LOGGED), "tool_calls")
    frames = STREAMED[wire](said)
    last = next(at for at, frame in enumerate(frames) if _ENDS[wire] in str(frame).replace("'", '"'))
    failed = {"calls": [], "stop": "error", "failure": "stream_cut"}
    yield {
        "id": f"{wire}/cut/before-the-end",
        "wire": wire,
        "stream": frames[:last],
        **failed,
        "text": said.text,
        "thinking": said.thinking,
    }
    yield {"id": f"{wire}/cut/in-the-second-call", "wire": wire, "stream": frames[: last - 2], **failed}
    spoken = next(at for at, frame in enumerate(frames) if "Both" in str(frame))
    yield {
        "id": f"{wire}/cut/in-the-text",
        "wire": wire,
        "stream": frames[: spoken + 1],
        **failed,
        "text": _pieces(said.text)[0],
    }
    yield {"id": f"{wire}/cut/after-the-first-frame", "wire": wire, "stream": frames[:1], **failed}
    yield {"id": f"{wire}/cut/nothing", "wire": wire, "stream": [], **failed, "text": "", "thinking": ""}


# ---- errors ----------------------------------------------------------------------------------------------------------

_ERRORS: dict[str, tuple[int, str, str]] = {
    "bad-request": (400, "field 'berth' is not allowed here", "bad_request"),
    "unauthorized": (401, "no valid credentials were sent", "unauthorized"),
    "forbidden": (403, "this project may not use harbour-1", "unauthorized"),
    "not-found": (404, "there is no model harbour-9", "not_found"),
    "rate-limited": (429, "slow down and come back later", "rate_limited"),
    "context": (400, "the request exceeds the maximum context length of 4096 tokens", "context_too_long"),
    "server": (500, "something went wrong on our side", "server_error"),
    "overloaded": (503, "all workers are busy", "overloaded"),
}
_STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    503: "overloaded_error",
}
_BEDROCK_TYPES = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    429: "ThrottlingException",
    500: "InternalServerException",
    503: "ServiceUnavailableException",
}


def _error_body(wire: str, status: int, message: str) -> Body:
    if wire == "anthropic":
        error = {"type": _ANTHROPIC_TYPES[status], "message": message}
        return {"type": "error", "error": error, "request_id": "req_31"}
    if wire == "gemini":
        return {"error": {"code": status, "message": message, "status": _STATUS_WORDS[status], "details": []}}
    if wire == "ollama":
        return {"error": message}
    if wire in ("bedrock", "cohere"):
        return {"message": message}
    if wire == "mistral":
        return {"object": "error", "message": message, "type": "harbour_error", "param": None, "code": "9001"}
    return {"error": {"message": message, "type": "harbour_error", "param": None, "code": None}}


def _errors(wire: str) -> Iterator[Row]:
    for name, (status, message, kind) in _ERRORS.items():
        headers = {"retry-after": "7"} if status == 429 else {}
        if wire == "bedrock":
            headers["x-amzn-errortype"] = _BEDROCK_TYPES[status]
        row = {"id": f"{wire}/error/{name}", "wire": wire, "status": status}
        row |= {"error": _error_body(wire, status, message), "headers": headers}
        row |= {"failure": kind, "message": message, "retry_after": 7.0 if status == 429 else None}
        yield row
