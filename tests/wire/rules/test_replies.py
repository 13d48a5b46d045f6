"""The judge of replies and streams: valid ones pass, in the official clients too, and each broken rule is named."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.tables import each_row
from tests.wire.rules import WIRES
from tests.wire.rules.cases_replies import REPLIES
from tests.wire.rules.cases_streams import STREAMS
from tests.wire.rules.edits import Edit, Row
from tests.wire.rules.replies import DONE, reply_violations, stream_violations
from tests.wire.rules.reply_samples import valid_reply, valid_stream


def _rows(table: dict[str, dict[str, Row]]) -> list[Any]:
    return [pytest.param(wire, *row, id=f"{wire}-{name}") for wire, rows in table.items() for name, row in rows.items()]


@pytest.mark.parametrize("wire", WIRES)
def test_a_valid_reply_and_a_valid_stream_break_no_rule(wire: str) -> None:
    assert reply_violations(wire, valid_reply(wire)) == []
    assert stream_violations(wire, valid_stream(wire)) == []


@each_row(("wire", "edit", "sentence"), _rows(REPLIES))
def test_a_broken_rule_of_a_reply_is_named(wire: str, edit: Edit, sentence: str) -> None:
    body = valid_reply(wire)
    edit(body)
    found = reply_violations(wire, body)
    assert len(found) == 1, found
    assert found[0].startswith(sentence)


@each_row(("wire", "edit", "sentence"), _rows(STREAMS))
def test_a_broken_rule_of_a_stream_is_named(wire: str, edit: Edit, sentence: str) -> None:
    frames = valid_stream(wire)
    edit(frames)
    found = stream_violations(wire, frames)
    # What follows from the first fault may be reported too; the first sentence is the one that counts.
    assert found
    assert found[0].startswith(sentence)


@pytest.mark.parametrize("wire", WIRES)
def test_an_empty_stream_is_no_stream(wire: str) -> None:
    assert stream_violations(wire, []) == ["$: must not be an empty stream"]


@pytest.mark.parametrize("wire", WIRES)
def test_a_stream_without_its_last_frame_is_noticed(wire: str) -> None:
    assert stream_violations(wire, valid_stream(wire)[:-1])


def _official_types(wire: str) -> tuple[Any, Any]:
    """The types with which an official client reads a whole reply and one event of a stream."""
    if wire == "openai_chat":
        from openai.types.chat import ChatCompletion, ChatCompletionChunk

        return ChatCompletion, ChatCompletionChunk
    if wire == "openai_responses":
        from openai.types.responses import Response, ResponseStreamEvent

        return Response, ResponseStreamEvent
    if wire == "anthropic":
        from anthropic.types import Message, RawMessageStreamEvent

        return Message, RawMessageStreamEvent
    if wire == "gemini":
        from google.genai.types import GenerateContentResponse

        return GenerateContentResponse, GenerateContentResponse
    if wire == "ollama":
        from ollama import ChatResponse

        return ChatResponse, ChatResponse
    if wire == "mistral":
        from mistralai.client.models import ChatCompletionResponse, CompletionChunk

        return ChatCompletionResponse, CompletionChunk
    from cohere import V2ChatResponse
    from cohere.v2.types import V2ChatStreamResponse

    return V2ChatResponse, V2ChatStreamResponse


@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "bedrock"])
def test_the_official_client_reads_the_valid_samples(wire: str) -> None:
    whole, event = _official_types(wire)
    TypeAdapter(whole).validate_python(valid_reply(wire))
    reader = TypeAdapter(event)
    for name, data in valid_stream(wire):
        if data != DONE and name != "ping":
            reader.validate_python(data)


def test_the_official_client_of_bedrock_knows_every_event() -> None:
    import botocore.session  # type: ignore[import-untyped]

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    output = service.operation_model("ConverseStream").output_shape.members["stream"].members
    assert {name for name, _ in valid_stream("bedrock")} <= set(output)
    assert set(valid_reply("bedrock")) <= set(service.operation_model("Converse").output_shape.members)


@pytest.mark.parametrize(
    ("wire", "frame"),
    [
        ("openai_chat", [None, {"error": {"message": "overloaded", "type": "server_error"}}]),
        ("openai_responses", ["error", {"type": "error", "code": "x", "message": "no", "sequence_number": 3}]),
        ("anthropic", ["error", {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}]),
        ("gemini", [None, {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}]),
        ("ollama", [None, {"error": "model runner has stopped"}]),
        ("bedrock", ["throttlingException", {"message": "slow down"}]),
        ("mistral", [None, {"object": "error", "message": "overloaded", "type": "x", "param": None, "code": "1"}]),
    ],
)
def test_an_error_may_end_a_stream(wire: str, frame: Any) -> None:
    frames = [*valid_stream(wire)[:3], frame]
    assert stream_violations(wire, frames) == []
