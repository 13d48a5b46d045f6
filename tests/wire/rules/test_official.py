"""The valid samples are valid to the official clients too: a judge that both agree with is no invention of ours."""

from __future__ import annotations

import pytest
from tests.wire.rules import WIRES, violations
from tests.wire.rules.official import complaints
from tests.wire.rules.samples import valid


@pytest.mark.parametrize("wire", WIRES)
def test_the_official_client_accepts_the_valid_sample(wire: str) -> None:
    assert complaints(wire, valid(wire)) == []


@pytest.mark.parametrize("wire", WIRES)
def test_the_official_client_and_the_rules_look_into_the_messages(wire: str) -> None:
    body = valid(wire)
    messages = body.get("messages") or body.get("input") or body["contents"]
    messages[0].update({"role": 7, "content": 7, "parts": 7})
    assert complaints(wire, body)
    assert violations(wire, body)


@pytest.mark.parametrize("wire", ["openai_chat", "openai_responses", "anthropic", "gemini", "bedrock"])
def test_the_official_client_knows_every_key(wire: str) -> None:
    body = valid(wire)
    messages = body.get("messages") or body.get("input") or body["contents"]
    messages[0]["colour"] = "red"
    assert complaints(wire, body)
