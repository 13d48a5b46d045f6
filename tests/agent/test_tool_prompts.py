"""How tools are described, and whether text may be a call: settings of the agent, of extraction and of the commands."""

from __future__ import annotations

from typing import Any

import pytest
from tests.agent.playbook import Playbook
from tests.agent.runs import agent, wait
from tests.agent.toolbox import read, weather, write

import dragoman
from dragoman import ContextSettings, ToolPrompt, formats
from dragoman.errors import CannotExpress, ConfigError
from dragoman.extraction import extract, extractor
from dragoman.testing import call
from dragoman.types import ToolCall

CALL = ToolCall("x", "weather", {"city": "Paris"})
LEAK = formats.render([CALL], "hermes")


def described(**settings: Any) -> ContextSettings:
    return ContextSettings(tool_prompt=ToolPrompt(**settings))


def test_without_text_calls_no_text_of_any_format_is_a_call_whole_and_streamed() -> None:
    shapes = ['```json\n{"name": "weather", "arguments": {"city": "Paris"}}\n```', "weather(city='Paris')", "<weather"]
    for name in formats.names():
        try:
            shapes.append(formats.render([CALL], name))
        except CannotExpress:
            continue
    for shape in shapes:
        for text in (shape, f"<think>I call it.</think>Now:\n{shape}"):
            for trust in ("strict", "default", "compat"):
                found = extract(text, tools=[weather], trust=trust, text_calls=False)
                assert (found.calls, found.refused, found.invalid, found.suspects, found.notice) == ([], [], [], [], "")
                stage = extractor(tools=[weather], trust=trust, text_calls=False)
                for character in text:
                    stage.feed(character)
                stage.close()
                assert stage.extraction == found, text
            # Inkling ends calls and reasoning with one token.
            assert found.text.replace("<|end_message|>", "").endswith(shape.replace("<|end_message|>", "")), text
    native = {"tool_calls": [{"id": "a", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}]}
    assert [each.name for each in extract({"text": LEAK, **native}, tools=[weather], text_calls=False).calls]


def test_without_text_calls_a_leaked_call_is_the_answer() -> None:
    play = Playbook(weather, text_calls=False).starts("hi").asks(mode="native").replies(LEAK)
    result = play.ends("answered", text=LEAK)
    assert (result.calls, result.problems) == ([], [])
    play = Playbook(weather, text_calls=False).starts("hi").asks(mode="native").replies(call("weather", city="Paris"))
    play.runs("weather").answers("sunny").asks().replies("Sunny.").ends("answered")


def test_without_text_calls_an_endpoint_without_tools_is_a_failure_and_not_text_mode() -> None:
    play = Playbook(weather, native=False, text_calls=False).starts("hi").asks(mode="native", tools=["weather"])
    play.fails("bad_request", "this model does not support tools", 400).ends("provider_failed")
    with pytest.raises(ConfigError, match="text mode needs calls in text"):
        agent([], weather, tool_mode="text", text_calls=False)


def test_a_child_reads_no_text_if_its_parent_does_not() -> None:
    ran: list[str] = []

    @dragoman.tool
    def note(words: str) -> str:
        ran.append(words)
        return "noted"

    leak = formats.render([ToolCall("x", "note", {"words": "hi"})], "hermes")
    for allowed in (False, True):
        ran.clear()
        inner = agent([leak, "done"], note, tool_mode="auto")
        outer = agent([call("helper", task="go"), "done"], inner.as_tool("helper", "Helps."), text_calls=allowed)
        wait(outer.arun("hi"))
        assert ran == (["hi"] if allowed else [])


def test_the_format_the_layout_and_the_size_of_the_instructions_can_be_chosen() -> None:
    def instructions(**settings: Any) -> str:
        play = Playbook(weather, read, write, native=False, context=described(**settings)).starts("hi").asks()
        return play.ask.composed.request.messages[0].text

    assert "<tool_call>" in instructions() and "Parameters:" in instructions()
    assert "~~~tool_call" in instructions(format="fenced") and "<tool_call>" not in instructions(format="fenced")
    assert "JSON Schema" in instructions(layout="schema")
    assert "(? is optional)" in instructions(compact=True) and "(? is optional)" not in instructions(compact=False)
    for wrong in ({"format": "nothing"}, {"layout": "table"}):
        with pytest.raises(dragoman.DragomanError):
            ToolPrompt(**wrong)


def test_a_chosen_format_is_read_and_rendered() -> None:
    play = Playbook(weather, native=False, context=described(format="fenced")).starts("hi").asks()
    fenced = formats.render([CALL], "fenced")
    play.replies(fenced).runs("weather").answers("sunny").asks()
    assert play.ask.composed.request.messages[2].text == fenced
    play.replies("Sunny.").ends("answered")


def test_compact_instructions_that_nobody_chose_are_reported_once() -> None:
    tools = [
        dragoman.types.Tool(f"tool_{number}", "Does a thing. " * 20, {"type": "object"}, run=lambda: "")
        for number in range(20)
    ]
    play = Playbook(*tools, native=False).starts("hi").asks().replies(call("tool_3")).runs("tool_3").answers("ok")
    result = play.asks().replies("Done.").ends("answered")
    [problem] = result.problems
    assert problem.kind == "compact_prompt" and "bytes" in problem.message
    for compact in (True, False):
        play = Playbook(*tools, native=False, context=described(compact=compact)).starts("hi").asks()
        assert play.replies("Done.").ends("answered").problems == []
