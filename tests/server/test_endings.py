"""How a reply ends, on every wire of a client: refusals in fields of their own, and stop sequences."""

from __future__ import annotations

import json
from typing import Any

from openai.lib.streaming.chat import ChatCompletionStreamState
from tests.server.gateways import WEATHER, RunningGateway, gateway_to, open_openai
from tests.server.test_gateway import CHAT, send

from dragoman.testing import Answer, Upstream

SAID = "I cannot help with that."
PIECES = ["I cannot ", "help ", "with that."]
SSE = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
TOOLS = {
    "/v1/chat/completions": [{"type": "function", "function": WEATHER}],
    "/v1/responses": [{"type": "function", **WEATHER}],
    "/v1/messages": [{"name": "weather", "input_schema": WEATHER["parameters"]}],
    "/v1beta/models/m:generateContent": [{"functionDeclarations": [WEATHER]}],
    "/api/chat": [{"type": "function", "function": WEATHER}],
}
BODY = {**CHAT, "input": "Go.", "contents": [{"role": "user", "parts": [{"text": "Go."}]}], "max_tokens": 99}


def chat_stream(*deltas: dict[str, Any], **end: Any) -> Answer:
    """The stream of an OpenAI endpoint, as it sends it."""
    frames: list[dict[str, Any]] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    frames.append({"index": 0, "delta": {}, "finish_reason": "stop", **end})
    lines = [f"data: {json.dumps({'id': 'c', 'model': 'm', 'choices': [frame]})}\n\n" for frame in frames]
    return Answer(200, SSE, "".join([*lines, "data: [DONE]\n\n"]).encode())


def chat_body(message: dict[str, Any], **end: Any) -> Answer:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop", **end}
    return Answer(200, JSON, {"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]})


def refuse(wire: str, stream: bool) -> Answer:
    """A refusal as an endpoint of one of OpenAI's wires sends it."""
    if wire == "openai_chat":
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
        deltas += [{"refusal": piece} for piece in PIECES]
        return chat_stream(*deltas) if stream else chat_body({"content": None, "refusal": SAID})
    item = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant"}
    item["content"] = [{"type": "refusal", "refusal": SAID}]  # type: ignore[assignment]
    whole = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [item]}
    if not stream:
        return Answer(200, JSON, whole)
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    frames: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": {"type": "refusal", "refusal": ""}},
        *({"type": "response.refusal.delta", **place, "delta": piece} for piece in PIECES),
        {"type": "response.refusal.done", **place, "refusal": SAID},
        {"type": "response.content_part.done", **place, "part": item["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return Answer(200, SSE, "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in frames).encode())


def read_frames(data: bytes) -> list[dict[str, Any]]:
    """The JSON of a stream, of any wire, or of a whole answer."""
    lines = [line.removeprefix("data: ") for line in data.decode().split("\n")]
    return [json.loads(line) for line in lines if line.startswith("{")]


def ask(gateway: RunningGateway, path: str, stream: bool, **more: Any) -> list[dict[str, Any]]:
    if "generateContent" in path and stream:
        path = path.replace(":generateContent", ":streamGenerateContent") + "?alt=sse"
    _, _, data = send(gateway, "POST", path, {**BODY, "stream": stream, **more})
    return read_frames(data)


def find_refusal(path: str, frames: list[dict[str, Any]]) -> tuple[str, str, str]:
    """The refusal, the text beside it, and the word for the end, as a client of each wire reads them."""
    if path == "/v1/chat/completions":
        choices = [choice for frame in frames for choice in frame["choices"]]
        said = [choice.get("delta") or choice.get("message") or {} for choice in choices]
        refusal, text = ("".join(each.get(name) or "" for each in said) for name in ("refusal", "content"))
        return refusal, text, choices[-1]["finish_reason"]
    if path == "/v1/responses":
        response = frames[-1].get("response") or frames[-1]
        parts = [part for item in response["output"] for part in item["content"]]
        deltas = "".join(frame["delta"] for frame in frames if frame.get("type") == "response.refusal.delta")
        refusal = "".join(part.get("refusal", "") for part in parts)
        assert deltas in ("", refusal) and bool(deltas) == (len(frames) > 1), "the deltas are the whole"
        return refusal, "".join(part.get("text", "") for part in parts), response["status"]
    if path == "/v1/messages":
        blocks = [block for frame in frames for block in frame.get("content", ())]
        deltas = "".join(frame.get("delta", {}).get("text", "") for frame in frames)
        ends = [frame.get("delta", frame).get("stop_reason") for frame in frames]
        return "", deltas + "".join(block["text"] for block in blocks), [end for end in ends if end][-1]
    if path == "/api/chat":
        return "", "".join(frame["message"]["content"] for frame in frames), frames[-1]["done_reason"]
    found = [candidate for frame in frames for candidate in frame["candidates"]]
    text = "".join(part.get("text", "") for each in found for part in each["content"].get("parts", ()))
    return "", text, found[-1]["finishReason"]


REFUSALS = {
    "/v1/chat/completions": (SAID, "", "stop"),
    "/v1/responses": (SAID, "", "completed"),
    "/v1/messages": ("", SAID, "refusal"),
    "/v1beta/models/m:generateContent": ("", SAID, "SAFETY"),
    "/api/chat": ("", SAID, "stop"),
}


def test_a_refusal_arrives_in_the_form_of_the_clients_wire() -> None:
    for wire in ("openai_chat", "openai_responses"):
        for stream in (False, True):
            answers = Upstream([refuse(wire, stream)], wire=wire, loop=True)
            with answers as upstream, gateway_to(upstream.endpoint()) as gateway:
                for path, expected in REFUSALS.items():
                    # A required call is not demanded again from a model that refuses.
                    for tools in ({}, {"tools": TOOLS[path]}, {"tools": TOOLS[path], "tool_choice": "required"}):
                        before = len(upstream.received)
                        frames = ask(gateway, path, stream, **tools)
                        assert find_refusal(path, frames) == expected, (wire, stream, path, tools, frames)
                        assert len(upstream.received) == before + 1, "no repair turn"


def test_a_refusal_after_words_and_a_call_in_it_stay_apart() -> None:
    said = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    deltas = [{"content": "Well. "}, {"refusal": "No: "}, {"refusal": said}]
    for answer, stream in ((chat_body({"content": "Well. ", "refusal": "No: " + said}), False),
                           (chat_stream(*deltas), True)):  # fmt: skip
        with Upstream([answer] * 2) as upstream, gateway_to(upstream.endpoint()) as gateway:
            for tools in ({}, {"tools": TOOLS["/v1/chat/completions"]}):
                frames = ask(gateway, "/v1/chat/completions", stream, **tools)
                assert find_refusal("/v1/chat/completions", frames) == ("No: " + said, "Well. ", "stop"), frames


def test_the_official_client_reads_a_streamed_refusal() -> None:
    with (
        Upstream([refuse("openai_chat", True)]) as upstream,
        gateway_to(upstream.endpoint()) as gateway,
        open_openai(gateway.url) as client,
    ):
        state = ChatCompletionStreamState()
        messages: Any = CHAT["messages"]
        chunks: Any = client.chat.completions.create(model="m", messages=messages, stream=True)
        for chunk in chunks:
            state.handle_chunk(chunk)
        message = state.get_final_completion().choices[0].message
        assert message.refusal == SAID and not message.content


STOPPED = ({"stop_reason": "END"}, {"matched_stop": "END"})
ENDINGS: list[tuple[dict[str, Any], Any]] = [
    *((end, ("stop_sequence", "END")) for end in STOPPED),
    ({"stop_reason": None}, ("end_turn", None)),
    ({"stop_reason": 151645}, ("end_turn", None)),
    ({"matched_stop": 2}, ("end_turn", None)),
    ({"stop_reason": "end_turn"}, ("end_turn", None)),  # a word of the server, and no stop sequence of the request
    ({"stop_reason": "END", "finish_reason": "length"}, ("max_tokens", None)),
]


def test_the_stop_sequence_of_a_chat_endpoint_reaches_a_client_of_anthropic() -> None:
    said = {"content": "One "}
    script = [answer for end, _ in ENDINGS for answer in (chat_body(said, **end), chat_stream(said, **end))]
    with Upstream(script) as upstream, gateway_to(upstream.endpoint()) as gateway:
        for end, expected in ENDINGS:
            for stream in (False, True):
                frames = ask(gateway, "/v1/messages", stream, stop_sequences=["X", "END"])
                assert upstream.bodies[-1]["stop"] == ["X", "END"]
                ends = [frame.get("delta", frame) for frame in frames]
                last = [each for each in ends if each.get("stop_reason")][-1]
                assert (last["stop_reason"], last["stop_sequence"]) == expected, (end, stream, frames)


def test_the_stop_sequence_of_an_anthropic_endpoint_reaches_a_client_of_chat() -> None:
    head = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": {"input_tokens": 1}}
    end = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    whole = Answer(200, JSON, {**head, "content": [{"type": "text", "text": "One "}], **end})
    frames: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**head, "content": [], "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One "}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    streamed = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in frames).encode()
    for stream, answer in ((False, whole), (True, Answer(200, SSE, streamed))):
        with Upstream([answer] * 2, wire="anthropic") as upstream, gateway_to(upstream.endpoint()) as gateway:
            read = ask(gateway, "/v1/chat/completions", stream, stop="END")
            last = [choice for frame in read for choice in frame["choices"]][-1]
            assert (last["finish_reason"], last["stop_reason"]) == ("stop", "END"), read
            again = ask(gateway, "/v1/messages", stream, stop_sequences=["END"])
            assert any(frame.get("delta", frame).get("stop_sequence") == "END" for frame in again), again


def test_a_call_in_text_before_a_stop_sequence_is_a_call() -> None:
    said = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    script = [chat_body({"content": said}, stop_reason="END")]
    with Upstream(script) as upstream, gateway_to(upstream.endpoint()) as gateway:
        [reply] = ask(gateway, "/v1/messages", False, stop_sequences=["END"], tools=TOOLS["/v1/messages"])
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("tool_use", None)
    assert [block["type"] for block in reply["content"]] == ["tool_use"]
