"""The sequence of seed 004, step by step: with native calls, and with tools in the prompt."""

from __future__ import annotations

from tests.agent.playbook import Playbook
from tests.agent.toolbox import decides, read, weather

from dragoman.agent.events import ToolEnded
from dragoman.testing import call
from dragoman.types import Message, Text, ToolCall, ToolResult

QUESTION = "What is in notes.txt, and is it warm in Paris?"


def test_native() -> None:
    play = Playbook(read, weather, native=True, has_approver=True, policy=decides("ask", "weather"))

    # The provider is asked what it can do, and the tools are sent in the request.
    assert play.config.endpoint.capabilities.native_tool_calls
    play.starts(QUESTION).asks(mode="native", tools=["read", "weather"])
    request = play.ask.composed.request
    assert [message.role for message in request.messages] == ["user"], "no instructions in addition to the definitions"

    # The reply holds calls in fields of their own; they are read as such.
    play.replies("I look.", call("read", path="notes.txt"), call("weather", city="Paris"))

    # The first tool needs no approval: it is found, run, and its result taken.
    play.runs("read")
    assert play.batch[0].tool.name == "read"
    assert play.batch[0].call.provenance is not None and play.batch[0].call.provenance.channel == "native"
    play.answers("buy milk")

    # The second is asked about, approved, found and run.
    play.asks_for_approval("weather", "decided by the developer").approves().runs("weather").answers("20 degrees")
    _finish(play)


def test_prompt_guided() -> None:
    play = Playbook(read, weather, native=False, has_approver=True, policy=decides("ask", "weather"))

    # The provider has no native calls: the tools are put into the system prompt, and none into the request.
    assert not play.config.endpoint.capabilities.native_tool_calls
    play.starts(QUESTION).asks(mode="text", tools=[])
    request = play.ask.composed.request
    assert [message.role for message in request.messages] == ["system", "user"]
    assert "read" in request.messages[0].text and "weather" in request.messages[0].text

    # The reply is text; the calls are parsed out of it.
    first = '<tool_call>\n{"name": "read", "arguments": {"path": "notes.txt"}}\n</tool_call>'
    second = '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'
    play.replies(f"I look.\n{first}\n{second}")

    # The first tool needs no approval: it is found, run, and its result taken.
    play.runs("read")
    assert play.batch[0].tool.name == "read"
    assert play.batch[0].call.provenance is not None and play.batch[0].call.provenance.channel == "text"
    play.answers("buy milk")

    # The second is asked about, approved, found and run.
    play.asks_for_approval("weather", "decided by the developer").approves().runs("weather").answers("20 degrees")
    _finish(play)


def _finish(play: Playbook) -> None:
    ended = [event for event in play.events if isinstance(event, ToolEnded)]
    assert [(each.call.name, each.result.content, each.ran) for each in ended] == [
        ("read", "buy milk", True),
        ("weather", "20 degrees", True),
    ]

    # Both calls and both results are in the history, and the next request contains them.
    reply, results = play.machine.messages[1:]
    calls = [part for part in reply.parts if isinstance(part, ToolCall)]
    answered = [part for part in results.parts if isinstance(part, ToolResult)]
    assert [each.id for each in calls] == [each.call_id for each in answered]
    play.asks()
    sent = "\n".join(str(message) for message in play.ask.composed.request.messages)
    assert "buy milk" in sent and "20 degrees" in sent

    # Text alone is the end, and it is part of the history before it is returned.
    result = play.replies("Milk, and yes.").ends("answered", text="Milk, and yes.")
    assert result.messages[-1] == Message("assistant", [Text("Milk, and yes.")])
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
