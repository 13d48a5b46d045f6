"""The official client sends, and we understand: what is special about this wire. The rest is judged for all alike."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tables import each_row
from tests.wire.cohere.samples import PLAN, THOUGHT, WIRE
from tests.wire.conversations import REQUESTS, describe
from tests.wire.judges import cohere as judge
from tests.wire.judges.scenes import THOUGHT as WORDS
from tests.wire.rules import violations

from dragoman.types import Thinking
from dragoman.wire.cohere import Cohere
from dragoman.wire.quirks import Quirks

SENT = judge.sent()
LABELS = [label for label, _, _ in SENT]


@pytest.mark.parametrize(("body", "said"), [scene[1:] for scene in SENT], ids=LABELS)
def test_what_the_client_sends_is_understood(body: dict[str, Any], said: dict[str, Any]) -> None:
    request = WIRE.decode_request(body)
    found = describe(request)
    assert found == {name: said[name] for name in found}
    thoughts = [part for message in request.messages for part in message.parts if isinstance(part, Thinking)]
    assert [(part.text, None) for part in thoughts] == said["reasoning"]


@pytest.mark.parametrize(("label", "body"), [scene[:2] for scene in SENT], ids=LABELS)
def test_what_the_client_sends_comes_back_as_it_was(label: str, body: dict[str, Any]) -> None:
    again = WIRE.encode_request(WIRE.decode_request(body))
    assert violations("cohere", again) == []
    if label == "empty_text":
        # The empty answer is left out: the wire's own rules refuse it.
        body = {**body, "messages": [body["messages"][0], body["messages"][2]]}
    assert again == body


@pytest.mark.parametrize(("label", "extra"), [("tool_plan", PLAN), ("replayed_reasoning", THOUGHT)])
def test_where_reasoning_stood_is_remembered(label: str, extra: dict[str, Any]) -> None:
    [body] = [body for found, body, _ in SENT if found == label]
    assert WIRE.decode_request(body).messages[1].parts[0] == Thinking(WORDS, extra)


@each_row("case", REQUESTS)
def test_strict_tools_fit_the_client(case: str) -> None:
    body = Cohere(Quirks(strict_tools=True)).encode_request(REQUESTS[case])
    judge.validate_request(body)
    assert violations("cohere", body) == []
    assert body.get("strict_tools", False) is bool(REQUESTS[case].tools)
