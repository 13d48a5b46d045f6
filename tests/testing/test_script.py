"""A scripted model replies on every wire, and raises an error after the last reply."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import wire
from dragoman.client import Client, Retries, Timeouts, TransportFault
from dragoman.errors import ConfigError
from dragoman.testing import Answer, ScriptedModel, ScriptExhausted, call, calls, chunkings, sse, text, thinking
from dragoman.types import Failure, Message, Reply, Request, Text, Tool, Usage

WEATHER = Tool("weather", "Forecast", {"type": "object", "properties": {"city": {"type": "string"}}})
QUESTION = Request("", [Message("user", [Text("Is it warm?")])], [WEATHER])
AT_ONCE = Retries(attempts=3, base=0.0)


def ask(script: ScriptedModel, *, whole: bool = True, request: Request = QUESTION, **settings: Any) -> Reply:
    client = Client(script.endpoint(), transport=script, retries=AT_ONCE, **settings)
    return asyncio.run(client.ask(request, whole=whole))


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "streamed"])
@pytest.mark.parametrize("spoken", wire.names())
def test_the_upstream_supports_every_wire(spoken: str, whole: bool) -> None:
    said = calls(call("weather", city="Paris"), call("weather", city="Rome"), say="Let me look.")
    script = ScriptedModel([said], wire=spoken, usage=Usage(7, 3))
    reply = ask(script, whole=whole)
    assert (reply.text, reply.stop, reply.failure) == ("Let me look.", "tool_calls", None)
    assert [(made.name, made.arguments) for made in reply.calls] == [
        ("weather", {"city": "Paris"}),
        ("weather", {"city": "Rome"}),
    ]
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (7, 3)
    [asked] = script.requests
    assert (asked.model, asked.messages[-1].text) == ("scripted", "Is it warm?")
    assert [tool.name for tool in asked.tools] == ["weather"]
    assert script.exchanges[0].wire == spoken
    script.assert_finished()


@pytest.mark.parametrize(
    "pieces",
    [1, 7, "frames", "whole", lambda data: list(chunkings(data))[-1]],
    ids=["bytes", "sevens", "frames", "whole", "random"],
)
def test_the_cut_of_a_stream_is_chosen_and_changes_nothing(pieces: Any) -> None:
    script = ScriptedModel([[thinking("Hm."), text("Warm, 21 °C."), call("weather", city="Zürich")]], pieces=pieces)
    reply = ask(script, whole=False)
    assert (reply.text, [made.arguments for made in reply.calls]) == ("Warm, 21 °C.", [{"city": "Zürich"}])


def test_a_model_without_native_calls_writes_them_as_text() -> None:
    script = ScriptedModel([call("weather", city="Paris")], native=False, format="hermes")
    assert not script.endpoint().capabilities.native_tool_calls
    reply = ask(script)
    assert reply.calls == []
    assert reply.text == '<tool_call>\n{"name": "weather", "arguments": {"city": "Paris"}}\n</tool_call>'


def test_replies_may_be_functions_of_the_request() -> None:
    async def later(request: Request) -> str:
        await asyncio.sleep(0)
        return f"{len(request.messages)} messages"

    script = ScriptedModel([lambda request: request.messages[0].text.upper(), later])
    assert [ask(script).text, ask(script).text] == ["IS IT WARM?", "1 messages"]


def test_a_failure_is_an_answer_of_the_server_and_is_retried_like_one() -> None:
    script = ScriptedModel([Failure("rate_limited", "slow down", retry_after=0.0), "Yes."])
    assert ask(script).text == "Yes."
    assert len(script.exchanges) == 2


def test_a_fault_is_one_of_the_connection() -> None:
    script = ScriptedModel([TransportFault("unreachable", "nobody there", code="refused")] * 3)
    failure = ask(script).failure
    assert failure is not None and failure.kind == "unreachable"


def test_raw_answers_are_sent_as_they_are() -> None:
    script = ScriptedModel(
        [
            Answer(200, {"Content-Type": "text/html"}, "<html>"),
            sse([{"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}]),
        ]
    )
    failure = ask(script).failure
    assert failure is not None and failure.kind == "broken_protocol"
    assert ask(script, whole=False).text == "hi"


def test_one_request_too_many_is_an_error_that_shows_it_and_no_retry() -> None:
    script = ScriptedModel(["Yes."])
    ask(script)
    with pytest.raises(ScriptExhausted, match=r"has 1 replies(?s:.)*Is it warm\?"):
        ask(script)
    assert len(script.exchanges) == 2


def test_a_loop_begins_again() -> None:
    script = ScriptedModel(["a", "b"], loop=True)
    assert [ask(script).text for _ in range(5)] == ["a", "b", "a", "b", "a"]


def test_unused_replies_are_reported() -> None:
    script = ScriptedModel(["a", "b", "c"])
    ask(script)
    assert script.left == 2
    with pytest.raises(AssertionError, match="2 of 3 scripted replies were not used"):
        script.assert_finished()


def test_what_no_model_can_say_is_refused_with_a_next_step() -> None:
    with pytest.raises(ConfigError, match="cannot say") as caught:
        ask(ScriptedModel([[42]]))  # type: ignore[list-item]
    assert "call(...)" in caught.value.next_step


def test_a_stream_that_stalls_ends_by_the_idle_timeout() -> None:
    frame = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\n'
    stalled = Answer(200, {"content-type": "text/event-stream"}, pieces=[frame], stalls=True)
    reply = ask(ScriptedModel([stalled]), whole=False, timeouts=Timeouts(idle=0.01))
    assert reply.text == "hi"
    assert reply.failure is not None and (reply.failure.kind, reply.failure.code) == ("timed_out", "idle")


def test_a_silent_model_ends_by_the_first_byte_timeout() -> None:
    async def silent(request: Request) -> str:
        await asyncio.Event().wait()
        return "never"

    reply = ask(ScriptedModel([silent]), timeouts=Timeouts(first_byte=0.01))
    assert reply.failure is not None and (reply.failure.kind, reply.failure.code) == ("timed_out", "first_byte")


def test_one_script_serves_clients_of_several_wires() -> None:
    script = ScriptedModel(["a", "b"], wire="mistral")
    client = Client(ScriptedModel(wire="anthropic").endpoint(), transport=script)
    assert ask(script).text == "a"
    assert asyncio.run(client.ask(QUESTION)).text == "b"
    assert [exchange.wire for exchange in script.exchanges] == ["mistral", "anthropic"]


def test_the_ids_of_calls_count_through_the_script_unless_they_are_given() -> None:
    own = call("weather", city="Rome")
    script = ScriptedModel([call("weather"), calls(own, call("weather"))])
    assert [made.id for _ in range(2) for made in ask(script).calls] == ["call_1", "call_2", "call_3"]
