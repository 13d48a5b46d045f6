"""Servers that cannot read the call of their own model, that hide a cut, or that have no tools: whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.agent.playbook import Playbook

import dragoman
from dragoman.client.retry import counts, is_passing
from dragoman.providers import MemoryFacts
from dragoman.providers.facts import cannot_read_call, find_generation
from dragoman.testing import Answer, ScriptedModel, call
from dragoman.types import Failure, ToolCall

SPOKEN = '<function=tide{"harbour": "Ribe"}</function>'
WORDS = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
UNPARSED = "Failed to parse input at pos 11: <tool_call>{"


def groq(generation: str | None = SPOKEN) -> dict[str, Any]:
    given = {} if generation is None else {"failed_generation": generation}
    return {"error": {"message": WORDS, "type": "invalid_request_error", "code": "tool_use_failed", **given}}


def answer(body: dict[str, Any], status: int, *, streams: bool) -> Answer:
    """An error, as a status, or in a stream that began well."""
    if not streams:
        return Answer(status, {"content-type": "application/json"}, body)
    begins = {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    frames = [f"data: {json.dumps(frame)}\n\n".encode() for frame in (begins, body)]
    return Answer(200, {"content-type": "text/event-stream"}, pieces=frames)


class TideAgent:
    """An agent with one tool, and what it asked and ran."""

    def __init__(self, *script: Any, **settings: Any) -> None:
        self.ran: list[str] = []
        self.facts = MemoryFacts()
        self.model = ScriptedModel(list(script))

        @dragoman.tool
        def tide(harbour: str) -> str:
            """The time of the next high tide."""
            self.ran.append(harbour)
            return "14:20"

        self.agent = dragoman.Agent(
            self.model.endpoint(),
            tools=[tide],
            connection=dragoman.Connection(transport=self.model, facts=self.facts),
            **settings,
        )

    def run(self, *, streams: bool) -> dragoman.RunResult[Any]:
        run = self.agent.stream("When?") if streams else self.agent.start("When?")
        result = run.wait(check=False)
        self.modes = ["native" if request.tools else "text" for request in self.model.requests]
        return result


both = pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])


@both
@pytest.mark.parametrize(
    "spoken",
    [
        SPOKEN,
        '{"name": "tide", "arguments": {"harbour": "Ribe"}}',
        '[{"name": "tide", "parameters": {"harbour": "Ribe"}}]',
        '<tool_call>\n{"name": "tide", "arguments": {harbour: "Ribe"}}\n</tool_call>',
        'I look.\n<|python_tag|>{"name": "tide", "parameters": {"harbour": "Ribe"}}<|eom_id|>',
    ],
)
def test_the_call_in_a_failed_generation_runs_and_the_run_continues(spoken: str, streams: bool) -> None:
    harbour = TideAgent(answer(groq(spoken), 400, streams=streams), "At 14:20.")
    result = harbour.run(streams=streams)
    assert (result.text, harbour.ran, harbour.modes) == ("At 14:20.", ["Ribe"], ["native", "native"])
    [made] = result.calls
    assert isinstance(made, ToolCall) and "failed_generation" in made.repairs
    assert [problem.kind for problem in result.problems] == ["call_recovered"]
    assert len(harbour.facts) == 0, "nothing is learned about the endpoint"
    assert [part.name for part in harbour.model.requests[1].messages[1].parts if isinstance(part, ToolCall)] == ["tide"]


def test_what_arrived_before_the_failure_counts_once() -> None:
    begun = {"index": 0, "id": "a", "type": "function", "function": {"name": "tide", "arguments": '{"harb'}}
    for delta, spoken in (({"tool_calls": [begun]}, SPOKEN), ({"content": "I look.\n"}, f"I look.\n{SPOKEN}")):
        frames = [{"choices": [{"index": 0, "delta": delta}]}, groq(spoken)]
        pieces = [f"data: {json.dumps(frame)}\n\n".encode() for frame in frames]
        harbour = TideAgent(Answer(200, {"content-type": "text/event-stream"}, pieces=pieces), "At 14:20.")
        result = harbour.run(streams=True)
        assert (result.text, harbour.ran, len(result.calls)) == ("At 14:20.", ["Ribe"], 1)
        assert result.messages[1].text.strip() in ("", "I look.")


def test_one_request_without_an_agent_reads_it_too() -> None:
    tide = dragoman.types.Tool("tide", "", {"type": "object", "properties": {"harbour": {"type": "string"}}})
    for streams in (False, True):
        model = ScriptedModel([answer(groq(), 400, streams=streams)] * 2)
        settings: Any = {"tools": [tide], "transport": model}
        if streams:
            reply = dragoman.fold(dragoman.stream(model.endpoint(), "When?", **settings))
        else:
            reply = dragoman.ask(model.endpoint(), "When?", **settings)
        [made] = [part for part in reply.message.parts if isinstance(part, ToolCall)]
        assert (made.name, made.arguments, reply.stop) == ("tide", {"harbour": "Ribe"}, "tool_calls")
        assert "failed_generation" in made.repairs and reply.failure is None
        with pytest.raises(dragoman.errors.BadRequest):
            dragoman.ask(model.endpoint(), "When?", text_calls=False, **settings)


@both
def test_a_failed_generation_that_cannot_be_read_is_corrected_by_the_model(streams: bool) -> None:
    broken = '<tool_call>{"name": "tide", "arguments": {"harbour": </tool_call>'
    harbour = TideAgent(answer(groq(broken), 400, streams=streams), call("tide", harbour="Ribe"), "At 14:20.")
    result = harbour.run(streams=streams)
    assert (result.text, harbour.ran, harbour.modes) == ("At 14:20.", ["Ribe"], ["native"] * 3)


@both
@pytest.mark.parametrize("generation", [None, ""])
def test_a_failure_that_hides_the_generation_is_tried_again_once_and_teaches_nothing(
    generation: str | None, streams: bool
) -> None:
    failed = answer(groq(generation), 400, streams=streams)
    harbour = TideAgent(
        failed, '<tool_call>\n{"name": "tide", "arguments": {"harbour": "Ribe"}}\n</tool_call>', "Done."
    )
    result = harbour.run(streams=streams)
    assert (result.text, harbour.ran, harbour.modes) == ("Done.", ["Ribe"], ["native", "text", "native"])
    assert len(harbour.facts) == 0
    harbour = TideAgent(failed, failed)
    assert harbour.run(streams=streams).outcome.kind == "provider_failed"


@both
def test_a_server_that_cannot_parse_the_reply_is_asked_once_as_text_and_then_as_before(streams: bool) -> None:
    body = {"error": {"code": 500, "message": UNPARSED, "type": "server_error"}}
    failed = answer(body, 500, streams=streams)
    text = '<tool_call>\n{"name": "tide", "arguments": {"harbour": "Ribe"}}\n</tool_call>'
    harbour = TideAgent(failed, text, "At 14:20.")
    result = harbour.run(streams=streams)
    assert (result.text, harbour.ran, harbour.modes) == ("At 14:20.", ["Ribe"], ["native", "text", "native"])
    assert [problem.kind for problem in result.problems] == ["call_unread"] and len(harbour.facts) == 0
    assert result.turns == 2
    harbour = TideAgent(failed, failed)
    assert harbour.run(streams=streams).outcome.kind == "provider_failed" and len(harbour.modes) == 2
    harbour = TideAgent(failed, call("tide", harbour="Ribe"), "At 14:20.", text_calls=False)
    assert harbour.run(streams=streams).text == "At 14:20." and harbour.modes == ["native"] * 3


@both
def test_a_call_with_as_many_tokens_as_are_allowed_was_cut(streams: bool) -> None:
    made = {"index": 0, "id": "a", "type": "function", "function": {"name": "tide", "arguments": '{"harbour": "Ri"}'}}
    usage = {"prompt_tokens": 9, "completion_tokens": 16, "total_tokens": 25}
    if streams:
        frames = [
            {"choices": [{"index": 0, "delta": {"tool_calls": [made]}}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
            {"choices": [], "usage": usage},
        ]
        pieces = [*(f"data: {json.dumps(frame)}\n\n".encode() for frame in frames), b"data: [DONE]\n\n"]
        cut = Answer(200, {"content-type": "text/event-stream"}, pieces=pieces)
    else:
        message = {"role": "assistant", "content": None, "tool_calls": [made]}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        cut = Answer(200, {"content-type": "application/json"}, {"choices": [choice], "usage": usage})
    harbour = TideAgent(cut, call("tide", harbour="Ribe"), "At 14:20.", options={"max_tokens": 16})
    result = harbour.run(streams=streams)
    assert (result.text, harbour.ran) == ("At 14:20.", ["Ribe"])
    assert "cut off" in str(result.results[0].content)


@both
def test_status_516_means_that_the_server_has_no_tools(streams: bool) -> None:
    body = {"error": {"message": "Not implemented", "code": 516}}
    text = '<tool_call>\n{"name": "tide", "arguments": {"harbour": "Ribe"}}\n</tool_call>'
    harbour = TideAgent(answer(body, 516, streams=streams), text, "At 14:20.")
    result = harbour.run(streams=streams)
    assert (result.text, harbour.ran, harbour.modes) == ("At 14:20.", ["Ribe"], ["native", "text", "text"])
    assert len(harbour.facts) == 1 and result.problems[0].kind == "tools_rejected"


def test_messages_about_unread_calls_are_distinguished_from_others() -> None:
    for words in (
        UNPARSED,
        "error parsing tool call: raw='{\"a\"', err=unexpected end of JSON input",
        "Failed to parse tool call: Expected '}'",
        "Tool call parsing failed",
    ):
        failure = Failure("server_error", words, 500)
        assert cannot_read_call(failure) and not is_passing(failure) and not counts(failure), words
        assert not cannot_read_call(Failure("bad_request", words, 400)), "the request itself is wrong"
    for words in ("Internal error", "failed to parse request body", "cannot parse the schema of a tool"):
        failure = Failure("server_error", words, 500)
        assert not cannot_read_call(failure) and is_passing(failure) and counts(failure), words
    assert find_generation(Failure("bad_request", "no", 400, body={"error": "no"})) is None
    assert find_generation(Failure("bad_request", "no", 400, "tool_use_failed")) == ""
    assert find_generation(Failure("bad_request", "no", 400, body=[{"failed_generation": 3}])) is None


def test_a_playbook_of_a_failed_generation() -> None:
    @dragoman.tool
    def tide(harbour: str) -> str:
        return "14:20"

    play = Playbook(tide).starts("hi").asks(mode="native").fails("bad_request", WORDS, 400, body=groq())
    play.runs("tide").answers("14:20").asks(mode="native").replies("At 14:20.").ends("answered")
    play = Playbook(tide).starts("hi").asks(mode="native").fails("server_error", UNPARSED, 500)
    play.notices("call_unread", "as text").asks(mode="text").replies(call("tide", harbour="Ribe")).runs("tide")
    play.answers("14:20").asks(mode="native").replies("At 14:20.").ends("answered")
