"""Words that servers use for an end or an error, each read for what it means; and none that nobody has looked at."""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.tables import each_row

from dragoman.errors import DragomanError
from dragoman.types import Failure, FailureKind, Message, Request, Text, Tool
from dragoman.wire import get
from dragoman.wire.anthropic.parts import STOPS as ANTHROPIC
from dragoman.wire.bedrock.parts import STOPS as BEDROCK
from dragoman.wire.cohere.parts import STOPS as COHERE
from dragoman.wire.eventstream import EventStreamDecoder, Frame
from dragoman.wire.failures import as_error, classify
from dragoman.wire.gemini.parts import STOPS as GEMINI
from dragoman.wire.ollama.client import STOPS as OLLAMA
from dragoman.wire.openai_chat.parts import STOPS as CHAT
from dragoman.wire.values import BROKEN, parse

WIRES = ["openai_chat", "mistral", "anthropic", "gemini", "openai_responses", "bedrock", "cohere", "ollama"]


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (400, "model_not_found", "The requested model 'x' does not exist.", "not_found"),
        (400, "invalid_request_error", "The model `gpt-9` does not exist or you do not have access", "not_found"),
        (400, "", "Incorrect API key provided: xa***. You can obtain one at https://console.x.ai", "unauthorized"),
        (400, "API_KEY_INVALID", "API key not valid. Please pass a valid API key.", "unauthorized"),
        (400, "too_many_prompt_tokens", "Prompt exceeds the limit", "context_too_long"),
        (400, "", "too many input tokens", "context_too_long"),
        (400, "invalid_request_error", "temperature: must be at most 1", "bad_request"),
        (400, "", "tools.0.name: no such field", "bad_request"),
        (422, "", "Field required", "bad_request"),
    ],
)
def test_a_bad_request_may_be_something_else(status: int, code: str, message: str, kind: str) -> None:
    assert classify(status, code, message) == kind


@each_row("wire", WIRES)
@each_row("body", [{}, {"id": "x", "model": "m"}, {"choices": [], "candidates": [], "detail": "?"}, b"[]"])
def test_a_body_that_is_no_reply_is_a_failure(wire: str, body: Any) -> None:
    reply = get(wire).decode_reply(body)
    assert reply.failure is not None and reply.stop == "error"


@pytest.mark.parametrize(
    ("wire", "body", "stop"),
    [
        ("gemini", {"candidates": [{"finishReason": "MODEL_ARMOR"}]}, "refusal"),
        ("gemini", {"candidates": [{"finishReason": "UNEXPECTED_TOOL_CALL"}]}, "error"),
        ("anthropic", {"content": [], "stop_reason": "compaction"}, "pause"),
    ],
)
def test_why_a_reply_stopped(wire: str, body: Any, stop: str) -> None:
    assert get(wire).decode_reply(body).stop == stop


@each_row("wire", ["openai_chat", "mistral", "gemini", "openai_responses", "bedrock", "cohere"])
def test_a_reply_that_another_wire_ended_with_an_error_does_not_look_complete(wire: str) -> None:
    reply = get("gemini").decode_reply({"candidates": [{"finishReason": "MALFORMED_RESPONSE"}]})
    assert reply.stop == "error"
    assert get(wire).decode_reply(get(wire).encode_reply(reply)).stop == "error"


@each_row(
    ("name", "ours", "repairs"),
    [
        ("weather<|channel|>commentary", "weather", ("trimmed_name",)),
        ("functions.weather<|constrain|>json", "weather", ("trimmed_name",)),
        ("weather</arg_value>", "weather", ("trimmed_name",)),
        ("weather()", "weather", ("trimmed_name",)),
        ("weather", "weather", ()),
        ("rm<|channel|>commentary", "rm<|channel|>commentary", ()),
    ],
)
def test_a_control_token_behind_the_name_of_an_offered_tool_is_cut_off(
    name: str, ours: str, repairs: tuple[str, ...]
) -> None:
    sent = get("openai_chat").prepare(Request("m", [Message("user", [Text("go")])], [Tool("weather")]))
    entry = {"id": "a", "type": "function", "function": {"name": name, "arguments": "{}"}}
    body = {"choices": [{"message": {"tool_calls": [entry]}, "finish_reason": "tool_calls"}]}
    (call,) = get("openai_chat").decode_reply(body, sent).calls
    assert (call.name, call.repairs, call.known_tool) == (ours, repairs, ours == "weather")


def test_a_call_that_was_not_expected_is_whole() -> None:
    part = {"functionCall": {"name": "rm", "args": {"path": "/"}}}
    body = {"candidates": [{"content": {"parts": [part]}, "finishReason": "UNEXPECTED_TOOL_CALL"}]}
    sent = get("gemini").prepare(Request("m", [Message("user", [Text("go")])], [Tool("weather")]))
    (call,) = get("gemini").decode_reply(body, sent).calls
    assert (call.name, call.known_tool) == ("rm", False)


# ---- recordings ------------------------------------------------------------------------------------------------------

STOPS = {
    "openai_chat": ("finish_reason", set(CHAT)),
    "mistral": ("finish_reason", set(CHAT)),
    "anthropic": ("stop_reason", set(ANTHROPIC)),
    "gemini": ("finishReason", set(GEMINI)),
    "bedrock": ("stopReason", set(BEDROCK)),
    "cohere": ("finish_reason", set(COHERE)),
    "ollama": ("done_reason", set(OLLAMA)),
    "openai_responses": ("status", {"completed", "incomplete", "failed", "cancelled", "in_progress", "queued"}),
}
SERVERS_OWN = (
    "server_tool_use mcp_tool_use mcp_tool_result web_search_tool_result web_fetch_tool_result compaction fallback"
    " code_execution_tool_result bash_code_execution_tool_result text_editor_code_execution_tool_result"
    " tool_search_tool_result advisor_tool_result container_upload"
)
KINDS = {
    "anthropic": {"text", "thinking", "redacted_thinking", "tool_use", *SERVERS_OWN.split()},
    "openai_responses": set(
        [
            "message",
            "reasoning",
            "function_call",
            "custom_tool_call",
            "web_search_call",
            "file_search_call",
            "code_interpreter_call",
            "image_generation_call",
            "mcp_call",
            "mcp_list_tools",
            "mcp_approval_request",
            "tool_search_call",
            "tool_search_output",
            "apply_patch_call",
            "shell_call",
            "shell_call_output",
            "program",
            "program_output",
            "moderation_result",
            "compaction",
            "x_search_call",
            "local_shell_call",
            "computer_call",
        ]
    ),
    "openai_chat": {"text", "refusal"},
    "mistral": {"text", "thinking", "reference"},
    "cohere": {"text", "thinking"},
    "bedrock": {"text", "toolUse", "reasoningContent", "citationsContent", "image", "toolResult", "type"},
    "gemini": set(
        [
            "text",
            "thought",
            "functionCall",
            "inlineData",
            "fileData",
            "executableCode",
            "codeExecutionResult",
            "thoughtSignature",
            "videoMetadata",
            "toolCall",
            "toolResponse",
        ]
    ),
}


def bodies(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    data = base64.b64decode(row["body"]) if row["encoded"] else row["body"].encode("utf-8", "surrogateescape")
    texts = re.findall(rb"(?m)^data: ?(.*)$", data) if row["streamed"] else [data]
    return (value for text in texts if (value := parse(text)) is not BROKEN and isinstance(value, dict))


def ends_of(wire: str, body: dict[str, Any]) -> Iterator[Any]:
    field = STOPS[wire][0]
    for holder in (
        body,
        body.get("delta"),
        body.get("response"),
        *(body.get("choices") or body.get("candidates") or ()),
    ):
        if isinstance(holder, dict) and isinstance(holder.get(field), str):
            yield holder[field]


def blocks_of(wire: str, body: dict[str, Any]) -> Iterator[Any]:
    if wire == "openai_responses":
        items = [body.get("item"), *(body.get("output") or ()), *((body.get("response") or {}).get("output") or ())]
        yield from (item["type"] for item in items if isinstance(item, dict))
    elif wire == "anthropic":
        blocks = [body.get("content_block"), *(body.get("content") or ())]
        yield from (block["type"] for block in blocks if isinstance(block, dict))
    elif wire in ("gemini", "bedrock"):
        holders = body.get("candidates") or [(body.get("output") or {}).get("message") or {}]
        for holder in holders:
            content = holder.get("content") or ()
            for block in content.get("parts") or () if isinstance(content, dict) else content:
                yield from block
    else:
        for choice in body.get("choices") or [body]:
            message = choice.get("message") or choice.get("delta") or {}
            content = message.get("content") if isinstance(message, dict) else None
            yield from (
                (block["type"] for block in content if isinstance(block, dict)) if isinstance(content, list) else ()
            )


def test_every_end_and_every_kind_in_the_recordings_is_known(shared_data: Callable[[str], Path]) -> None:
    unknown: set[tuple[str, str]] = set()
    with gzip.open(shared_data("recordings_dev.jsonl.gz")) as file:
        for line in file:
            row = msgspec.json.decode(line)
            wire = row["wire"]
            for body in bodies(row):
                unknown |= {(wire, word) for word in ends_of(wire, body) if word not in STOPS[wire][1]}
                unknown |= {(wire, kind) for kind in blocks_of(wire, body) if kind not in KINDS.get(wire, ())}
    assert unknown == set()


# Kinds of frames, deltas, parts and calls, and the fields of a message, by wire: read, or left alone on purpose.
FIELDS_OF_CHAT = "role content tool_calls function_call refusal annotations audio images reasoning reasoning_content"
WORDS: dict[tuple[str, str], str] = {
    ("anthropic", "frame"): "message_start content_block_start content_block_delta content_block_stop message_delta"
    " message_stop ping error",
    (
        "anthropic",
        "delta",
    ): "text_delta input_json_delta thinking_delta signature_delta citations_delta compaction_delta",
    ("bedrock", "frame"): "messageStart contentBlockStart contentBlockDelta contentBlockStop messageStop metadata",
    ("bedrock", "delta"): "text toolUse toolResult reasoningContent citation image",
    ("bedrock", "start"): "toolUse toolResult image",
    ("bedrock", "stop"): " ".join(BEDROCK),
    ("bedrock", "reasoning"): "text signature redactedContent",
    ("cohere", "frame"): "message-start message-end content-start content-delta content-end tool-plan-delta"
    " tool-call-start tool-call-delta tool-call-end citation-start citation-end",
    ("cohere", "field"): "role content tool_plan tool_calls citations",
    ("ollama", "field"): "role content thinking tool_calls images",
    ("openai_chat", "call"): "function custom",
    ("mistral", "call"): "function",
    # `extra_content` and `thought_signature` beside a call are Google's; `channel` says only that it is the answer.
    ("openai_chat", "field"): FIELDS_OF_CHAT + " reasoning_details extra_content thought_signature channel",
    ("mistral", "field"): "role content tool_calls index",
    ("openai_responses", "part"): "output_text refusal reasoning_text summary_text",
}
# The rest of a Responses stream tells of items whose ends are read.
OF_ITEMS = re.compile(
    r"response\.(created|queued|in_progress|completed|incomplete|failed|cancelled)"
    r"|response\.(output_item|content_part|reasoning_summary_part)\.(added|done)"
    r"|response\.(output_text|refusal|reasoning_text|reasoning_summary_text|function_call_arguments"
    r"|custom_tool_call_input)\.(delta|done)"
    r"|response\.output_text\.annotation\.added"
    r"|response\.[a-z_]+_call(_[a-z_]+)?\.(in_progress|searching|interpreting|generating|completed|failed|calling"
    r"|partial_image|delta|done)"
    r"|response\.mcp_list_tools\.(in_progress|completed|failed)|error|keepalive"
).fullmatch


def frames_of(row: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The kind and the content of every frame of a stream; of a whole body, the content alone."""
    data = base64.b64decode(row["body"]) if row["encoded"] else row["body"].encode("utf-8", "surrogateescape")
    if row["wire"] == "bedrock" and row["streamed"]:
        decoder = EventStreamDecoder()
        for frame in [*decoder.feed(data), *decoder.close()]:
            if isinstance(frame, Frame):
                yield frame.headers.get(":event-type"), parse(frame.payload)
    elif row["wire"] == "ollama":
        lines = (parse(line) for line in data.splitlines())
        yield from ((None, line) for line in lines if isinstance(line, dict))
    else:
        yield from ((body.get("type") if row["streamed"] else None, body) for body in bodies(row))


def words_of(wire: str, kind: Any, body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    if kind is not None and wire != "gemini":
        yield "frame", kind
    if wire == "anthropic" and kind == "content_block_delta":
        yield "delta", body["delta"].get("type")
    elif wire == "bedrock":
        for name, holder in (("delta", body.get("delta")), ("start", body.get("start"))):
            yield from ((name, word) for word in holder or ())
        yield from (("reasoning", word) for word in (body.get("delta") or {}).get("reasoningContent", ()))
        yield from [("stop", body["stopReason"])] if "stopReason" in body else []
    elif wire in ("openai_chat", "mistral"):
        for choice in body.get("choices") or ():
            message = choice.get("message") or choice.get("delta") or {}
            yield from (("field", name) for name, value in message.items() if value not in (None, [], "", {}))
            yield from (("call", call["type"]) for call in message.get("tool_calls") or () if call.get("type"))
    elif wire in ("cohere", "ollama"):
        message = (body.get("delta") or {}).get("message") or body.get("message") or {}
        yield from (("field", name) for name in (message if isinstance(message, dict) else ()))
    elif wire == "openai_responses":
        items = [body.get("item"), *(body.get("output") or ()), *((body.get("response") or {}).get("output") or ())]
        parts = [part for item in items if isinstance(item, dict) for part in item.get("content") or ()]
        yield from (("part", part["type"]) for part in [*parts, body.get("part")] if isinstance(part, dict))


def test_every_frame_delta_part_and_field_in_the_recordings_is_known(shared_data: Callable[[str], Path]) -> None:
    unknown: set[tuple[str, str, str]] = set()
    seen: set[tuple[str, str]] = set()
    with gzip.open(shared_data("recordings_dev.jsonl.gz")) as file:
        for line in file:
            row = msgspec.json.decode(line)
            wire = row["wire"]
            for kind, body in frames_of(row):
                for category, word in words_of(wire, kind, body):
                    seen.add((wire, category))
                    if (wire, category) == ("openai_responses", "frame"):
                        known = OF_ITEMS(str(word)) is not None
                    else:
                        known = word in WORDS[wire, category].split()
                    if not known:
                        unknown.add((wire, category, str(word)))
    assert unknown == set()
    assert seen == {*WORDS, ("openai_responses", "frame")}


def _find_stops() -> dict[str, set[str]]:
    """The reasons to stop that the official clients have types for."""
    import botocore.session  # type: ignore[import-untyped]
    from anthropic.types.beta import BetaStopReason
    from cohere.types import ChatFinishReason
    from google.genai.types import FinishReason
    from mistralai.client.models import ChatCompletionChoice
    from openai.types.chat.chat_completion import Choice

    service = botocore.session.get_session().get_service_model("bedrock-runtime")

    def words(hint: Any) -> set[str]:
        found = set(get_args(hint))
        return {each for each in found if isinstance(each, str)}.union(
            *(words(each) for each in found if get_args(each))
        )

    return {
        "anthropic": words(BetaStopReason),
        "cohere": words(ChatFinishReason),
        "gemini": {reason.value for reason in FinishReason} - {"FINISH_REASON_UNSPECIFIED"},
        "mistral": words(ChatCompletionChoice.model_fields["finish_reason"].annotation),
        "openai_chat": words(Choice.model_fields["finish_reason"].annotation),
        "bedrock": set(service.shape_for("StopReason").enum),
    }


def test_every_end_that_the_official_clients_know_is_known() -> None:
    for wire, words in _find_stops().items():
        assert words and words <= STOPS[wire][1], wire


@each_row("kind", get_args(FailureKind))
@each_row("wire", WIRES)
def test_every_failure_can_be_told_on_every_wire(wire: str, kind: Any) -> None:
    status, body = get(wire).encode_failure(Failure(kind, "it went wrong"))
    assert status >= 400 and "it went wrong" in str(body)
    assert isinstance(as_error(Failure(kind, "it went wrong")), DragomanError)


@each_row(
    "found, words",
    [
        (Failure("not_found", "no such page", 404), "dragoman models URL"),
        (Failure("server_error", "", 500), "try again later"),
        (Failure("broken_protocol", "text/html", 200, "content_type"), "a web page, a proxy or another program"),
        (Failure("broken_protocol", "redirects", 307, "redirect"), "the address to which the server redirects"),
        (Failure("broken_protocol", "SSH-2.0", code="status_line"), "does not speak HTTP"),
        (Failure("too_large", "too large"), "check the address"),
    ],
)
def test_a_failure_that_another_address_causes_has_a_step_that_says_so(found: Failure, words: str) -> None:
    error = as_error(found)
    assert words in error.next_step
    assert error.__notes__ == [f"hint: {error.next_step}"]
