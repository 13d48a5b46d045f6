"""Every rule of the judge, shown by a change to a valid request that breaks this rule and no other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row
from tests.wire.rules import WIRES, cases_claude, cases_openai, cases_others, violations
from tests.wire.rules.edits import Edit, Row, all_of, drop, put
from tests.wire.rules.replies import reply_violations, stream_violations
from tests.wire.rules.reply_samples import valid_reply, valid_stream
from tests.wire.rules.samples import valid

CASES: dict[str, dict[str, Row]] = {
    "openai_chat": cases_openai.OPENAI_CHAT,
    "openai_responses": cases_openai.OPENAI_RESPONSES,
    "anthropic": cases_claude.ANTHROPIC,
    "bedrock": cases_claude.BEDROCK,
    "gemini": cases_others.GEMINI,
    "ollama": cases_others.OLLAMA,
    "mistral": cases_others.MISTRAL,
    "cohere": cases_others.COHERE,
}
ROWS = [pytest.param(wire, *row, id=f"{wire}-{name}") for wire, rows in CASES.items() for name, row in rows.items()]


@pytest.mark.parametrize("wire", WIRES)
def test_a_valid_request_breaks_no_rule(wire: str) -> None:
    assert violations(wire, valid(wire)) == []


@each_row(("wire", "edit", "sentence"), ROWS)
def test_a_broken_rule_is_named(wire: str, edit: Edit, sentence: str) -> None:
    body = valid(wire)
    edit(body)
    found = violations(wire, body)
    assert len(found) == 1, found
    assert found[0].startswith(sentence)


# The rules that depend on the model which is asked.
BY_MODEL = {
    "Gemini 3 wants signatures": (
        "gemini",
        "gemini-3-pro",
        drop("contents", 3, "parts", 1, "thoughtSignature"),
        "$.contents[3].parts[1]: the first function call of a step needs its thoughtSignature",
    ),
    "Gemini 2.5 takes no files in results": (
        "gemini",
        "gemini-2.5-flash",
        drop("contents", 3, "parts", 1, "thoughtSignature"),
        "$.contents[4].parts[0].functionResponse.parts: gemini-2.5-flash takes no files inside a function response",
    ),
    "Gemini 2.5 mixes no tools": (
        "gemini",
        "gemini-2.5-flash",
        all_of(put({}, "tools", 0, "googleSearch"), drop("contents", 4, "parts", 0, "functionResponse", "parts")),
        "$.tools: gemini-2.5-flash does not take functions and built-in tools together",
    ),
    "Claude on Bedrock wants signatures": (
        "bedrock",
        "anthropic.claude-sonnet-4-5",
        drop("messages", 1, "content", 0, "reasoningContent", "reasoningText", "signature"),
        "$.messages[1].content[0]: is reasoning of Claude without its signature",
    ),
    "Claude on Bedrock wants plain names": (
        "bedrock",
        "anthropic.claude-sonnet-4-5",
        put({"user id": {}}, "toolConfig", "tools", 1, "toolSpec", "inputSchema", "json", "properties"),
        "$.toolConfig.tools[1]: the property name 'user id' must match [a-zA-Z0-9_.-]{1,64}",
    ),
}


@pytest.mark.parametrize(("wire", "model", "edit", "sentence"), BY_MODEL.values(), ids=BY_MODEL)
def test_a_rule_of_a_model_is_named(wire: str, model: str, edit: Edit, sentence: str) -> None:
    body = valid(wire)
    edit(body)
    assert violations(wire, body, model=model) == [sentence]
    assert violations(wire, body) == []


def test_signatures_of_earlier_turns_are_not_asked_for() -> None:
    body = valid("gemini")
    del body["contents"][3]["parts"][1]["thoughtSignature"]
    body["contents"].append({"role": "user", "parts": [{"text": "Well?"}]})
    assert violations("gemini", body, model="gemini-3-pro") == []


def test_the_agreed_word_stands_in_for_a_signature() -> None:
    body = valid("gemini")
    body["contents"][3]["parts"][1]["thoughtSignature"] = "skip_thought_signature_validator"
    assert violations("gemini", body, model="gemini-3-pro") == []


def test_relatives_of_anthropic_may_leave_thinking_unsigned() -> None:
    body = valid("anthropic")
    del body["messages"][1]["content"][0]["signature"]
    assert violations("anthropic", body, unsigned=True) == []


def test_a_key_of_a_dialect_can_be_let_through() -> None:
    body = valid("openai_chat")
    body["messages"][2]["reasoning_content"] = "Ask both."
    assert violations("openai_chat", body, extra={"reasoning_content"}) == []


def test_outputs_of_a_remembered_conversation_need_no_call() -> None:
    body = valid("openai_responses")
    body["input"] = [{"type": "function_call_output", "call_id": "call_0", "output": "rain"}]
    body["previous_response_id"] = "resp_1"
    assert violations("openai_responses", body) == []


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "role", "x"]), inner),
    max_leaves=3,
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every holder in a body with every key or index in it."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in _places(value[key])]


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_the_judge_survives_anything_inside_a_body(wire: str, data: st.DataObject) -> None:
    request, reply, frames = valid(wire), valid_reply(wire), valid_stream(wire)
    inside_frames = [place for _, payload in frames for place in _places(payload)]
    for places in (_places(request), _places(reply), inside_frames):
        holder, key = places[data.draw(st.integers(0, len(places) - 1))]
        holder[key] = data.draw(JUNK)
    for found in (violations(wire, request), reply_violations(wire, reply), stream_violations(wire, frames)):
        assert all(sentence.startswith("$") for sentence in found)
