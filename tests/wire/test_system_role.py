"""Models without a system role, and Z.ai's flag for streamed calls."""

from __future__ import annotations

import json

from dragoman import providers, wire
from dragoman.providers import learn_from_error
from dragoman.types import Message, Request, Tool
from dragoman.wire.quirks import Quirks

SYSTEM, LATER = "You know the harbours.", "Be brief."


def test_without_a_system_role_the_user_says_it_on_every_wire() -> None:
    messages = [Message.system(SYSTEM), Message.user("When?"), Message.assistant("Soon."), Message.system(LATER)]
    messages.append(Message.user("Where?"))
    for name in wire.names():
        prepared = wire.get(name, Quirks(system_role=False, alternates=True)).prepare(Request("m", messages))
        body = json.dumps(prepared.body)
        assert not any(mark in body for mark in ('"system"', '"developer"', "ystemInstruction", '"instructions"')), name
        assert body.index(SYSTEM) < body.index("When?") < body.index(LATER) < body.index("Where?"), name
        assert [loss.rule for loss in prepared.losses].count("moved") == 2, name
    chat = wire.get("openai_chat", Quirks(system_role=False, alternates=True)).prepare(Request("m", messages)).body
    assert [entry["role"] for entry in chat["messages"]] == ["user", "assistant", "user"]


def test_a_family_without_a_system_role_has_the_flag_and_an_endpoint_may_teach_it() -> None:
    assert providers.resolve("ollama:gemma2").quirks.system_role is False
    assert providers.resolve("ollama:qwen3").quirks.system_role is True
    for words in (
        "Jinja Exception: System role not supported",
        "System messages are not supported by this model",
        "This model does not support system prompts",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
    ):
        fact = learn_from_error({"error": {"message": words}}, 400)
        assert fact is not None and fact.quirks == {"system_role": False, "alternates": True}, words
        assert fact.native_tool_calls is None
    alternating = learn_from_error("Conversation roles must alternate user/assistant/user/assistant/...", 500)
    assert alternating is not None and alternating.quirks == {"alternates": True}
    for words in ("The system is not ready", "the operating system is not supported", "system prompt is too long"):
        assert learn_from_error(words, 400) is None, words


def test_a_streamed_request_with_tools_asks_zai_for_streamed_calls() -> None:
    tool = Tool("tide", "", {"type": "object"})
    for model, tools, stream, expected in (
        ("zai:glm-4.6", [tool], True, True),
        ("zai:glm-4.6", [tool], False, False),
        ("zai:glm-4.6", [], True, False),
        ("openai:gpt-4o", [tool], True, False),
    ):
        endpoint = providers.resolve(model, wire="openai_chat")
        request = Request(endpoint.model, [Message.user("hi")], tools, {"stream": stream})
        body = wire.get("openai_chat", endpoint.quirks).encode_request(request)
        assert (body.get("tool_stream") is True) is expected, (model, stream)
