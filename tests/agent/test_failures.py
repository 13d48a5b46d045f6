"""Requests that fail: outcomes, another tool mode, another model, a shorter conversation."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.agent.playbook import Playbook
from tests.agent.toolbox import weather

from dragoman import formats, providers, tool
from dragoman.agent import Agent, Connection
from dragoman.agent.context import ContextSettings
from dragoman.agent.result import Limits
from dragoman.providers import Endpoint, Fact
from dragoman.testing import Answer, ScriptedModel, call, scripted_endpoint
from dragoman.types import Failure, Message, Text, ToolCall, Usage

# ---- typed outcomes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failure", "kind", "category"),
    [
        ("rate_limited", "provider_failed", "retryable"),
        ("overloaded", "provider_failed", "retryable"),
        ("unauthorized", "unauthorized", "fatal"),
        ("bad_request", "provider_failed", "fatal"),
        ("refused", "refused", "fatal"),
        ("not_found", "provider_failed", "fatal"),
        ("timed_out", "provider_failed", "retryable"),
        ("stream_cut", "provider_failed", "retryable"),
        ("server_error", "provider_failed", "retryable"),
        ("unreachable", "provider_failed", "retryable"),
        ("insecure", "provider_failed", "fatal"),
        ("broken_protocol", "provider_failed", "fatal"),
        ("too_large", "provider_failed", "fatal"),
    ],
)
def test_every_failure_has_its_outcome(failure: str, kind: str, category: str) -> None:
    result = Playbook(weather).starts("hi").asks().fails(failure, "no luck", 499).ends(kind, category=category)
    assert result.outcome.reason == "no luck (HTTP 499)"
    assert not result.outcome.is_success
    assert result.messages == [Message("user", [Text("hi")])]


def test_a_failure_after_some_turns_keeps_what_was_done() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("weather", city="Paris")).runs("weather").answers("sunny")
    result = play.asks().fails("overloaded", "busy").ends("provider_failed", "busy")
    assert [each.content for each in result.results] == ["sunny"]
    assert len(result.messages) == 3


# ---- native calls are rejected ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "status"),
    [
        ("registry.ollama.ai/library/gemma:2b does not support tools", 400),
        ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', 400),
        ("Unknown parameter: 'tools'", 422),
        ("No endpoints found that support tool use.", 404),
    ],
)
def test_an_endpoint_that_rejects_tools_is_spoken_to_in_text_and_that_is_remembered(message: str, status: int) -> None:
    play = Playbook(weather).starts("hi").asks(mode="native").fails("bad_request", message, status)
    play.learns(native=False).notices("tools_rejected", "as text").asks(mode="text", tools=[])
    play.replies(call("weather", city="Paris")).runs("weather").answers("sunny").asks(mode="text", hearing="sunny")
    result = play.replies("Sunny.").ends("answered")
    assert [problem.kind for problem in result.problems] == ["tools_rejected"]
    assert result.turns == 2, "a request that was rejected does not count"


@tool(description="Search the manual of the machine. " * 30)
def search_manual(query: str) -> str:
    return "page 7"


def test_a_server_whose_reported_tokens_cannot_hold_the_definitions_is_asked_again_in_text() -> None:
    play = Playbook(search_manual).starts("Where is the valve?").asks(mode="native")
    play.replies("I cannot know.", usage=Usage(14, 5))
    play.learns(native=False).notices("tools_ignored", "14 tokens").asks(mode="text", tools=[])
    play.replies(call("search_manual", query="valve")).runs("search_manual").answers("page 7").asks(mode="text")
    result = play.replies("On page 7.").ends("answered")
    assert [problem.kind for problem in result.problems] == ["tools_ignored"]
    assert result.turns == 2, "a reply to a request without the tools does not count"


def test_a_problem_has_the_number_of_its_turn_also_after_a_failed_request() -> None:
    """Failed requests counted, which are no turns: the events had other numbers."""
    play = Playbook(weather, fallbacks=(SECOND,)).starts("hi").asks(model="scripted").fails("overloaded", "", 529)
    play.asks(model="second").replies('I call:\n```json\n{"name": "weather", "arguments": {"city": "Paris"}}\n```')
    result = play.asks().replies("Sunny.").ends("answered")
    assert [(problem.kind, problem.turn) for problem in result.problems] == [("model_replaced", 1), ("suspect", 1)]


def test_a_turn_limit_does_not_name_agents_that_were_not_called() -> None:
    play = Playbook(search_manual, limits=Limits(turns=1)).starts("Where is the valve?").asks(mode="native")
    play.replies("I cannot know.", usage=Usage(14, 5)).learns(native=False)
    assert play.ends("turn_limit").outcome.reason == "the turn limit of 1 is reached"


def test_after_a_call_in_text_a_server_that_reports_too_few_tokens_is_not_asked_again() -> None:
    play = Playbook(search_manual).starts("Where is the valve?").asks(mode="native")
    play.replies(formats.render([call("search_manual", query="valve")], "hermes"), usage=Usage(14, 5))
    play.learns(native=False).notices("tools_ignored", "from the next run on").runs("search_manual").answers("page 7")
    result = play.asks(mode="native").replies("On page 7.", usage=Usage(14, 5)).ends("answered")
    assert result.text == "On page 7." and result.turns == 2


def test_calls_that_a_model_writes_as_text_run_and_are_remembered_and_the_second_reply_changes_the_mode() -> None:
    written = [formats.render([call("weather", city=city)], "hermes") for city in ("Paris", "Rome")]
    play = Playbook(weather).starts("hi").asks(mode="native").replies(written[0])
    play.learns(native=False).notices("tools_ignored", "from the next run on").runs("weather").answers("sunny")
    play.asks(mode="native", hearing="sunny").replies(written[1])
    play.learns(native=False).notices("tools_ignored", "now").runs("weather").answers("rainy")
    result = play.asks(mode="text", hearing="rainy").replies("Sunny and rainy.").ends("answered")
    assert [problem.kind for problem in result.problems] == ["tools_ignored", "tools_ignored"]


def test_what_proves_nothing_changes_no_mode() -> None:
    """Enough tokens, no number, a number too small for the words alone, small definitions, and native calls before."""
    long = "word " * 400
    for offered, task, usage in [
        (search_manual, "Where?", Usage(400, 5)),
        (search_manual, "Where?", Usage(0, 5)),
        (search_manual, long, Usage(14, 5)),
        (weather, "Where?", Usage(2, 5)),
    ]:
        play = Playbook(offered).starts(task).asks(mode="native")
        result = play.replies("Here.", usage=usage).ends("answered")
        assert result.problems == [], usage
    play = Playbook(search_manual).starts("hi").asks(mode="native").replies(call("search_manual", query="x"))
    play.runs("search_manual").answers("page 7").asks(mode="native")
    assert play.replies("Yes.", usage=Usage(9, 5)).ends("answered").problems == []


def test_who_forces_native_calls_keeps_them() -> None:
    play = Playbook(search_manual, tool_mode="native").starts("hi").asks(mode="native")
    play.replies("Yes.", usage=Usage(9, 5)).ends("answered")


def test_a_vendor_is_believed() -> None:
    """The number of a vendor may leave out what its cache holds: only servers of one's own are doubted."""
    vendor = providers.resolve("openai_chat:gpt-4o")
    own = providers.resolve("openai:gpt-4o", base_url="http://box:8000")
    assert not vendor.is_own_server
    assert own.is_own_server
    play = Playbook(search_manual, endpoint=vendor).starts("hi").asks(mode="native")
    play.replies("Yes.", usage=Usage(9, 5)).ends("answered")


def test_the_lesson_in_the_body_counts_as_well() -> None:
    play = Playbook(weather).starts("hi").asks()
    play.fails("bad_request", "Bad Request", 400, body={"error": {"message": "this model does not support tools"}})
    play.learns(native=False).asks(mode="text")


def test_an_unknown_message_leads_to_one_attempt_and_to_a_fact_only_if_it_succeeds() -> None:
    strange = ("bad_request", "functions: extra inputs are not permitted", 422)
    play = Playbook(weather).starts("hi").asks(mode="native").fails(*strange).notices("tools_rejected")
    play.asks(mode="text").replies("Hello").learns(native=False).ends("answered")
    play = Playbook(weather).starts("hi").asks(mode="native").fails(*strange).asks(mode="text")
    play.fails(*strange).ends("provider_failed", category="fatal")


@pytest.mark.parametrize(
    "message",
    [
        "messages.3: tool_use_id is missing a tool_result",
        "Invalid parameter: messages with role 'tool' must be a response; tool_call_id not found",
        "max_tokens is too large",
    ],
)
def test_other_faults_of_a_request_are_no_rejection_of_tools(message: str) -> None:
    Playbook(weather).starts("hi").asks().fails("bad_request", message, 400).ends("provider_failed", category="fatal")


def test_who_forces_native_calls_gets_the_failure() -> None:
    play = Playbook(weather, tool_mode="native").starts("hi").asks(mode="native")
    play.fails("bad_request", "this model does not support tools", 400).ends("provider_failed")


def test_without_tools_there_is_nothing_to_learn() -> None:
    play = Playbook().starts("hi").asks(mode="")
    play.fails("bad_request", "this model does not support tools", 400).ends("provider_failed")


def test_an_endpoint_that_wants_another_wire_gets_it() -> None:
    there = scripted_endpoint("openai_responses")

    def resettle(endpoint: Endpoint, fact: Fact) -> Endpoint:
        return replace(there, wire=fact.wire)

    words = "Function tools with reasoning_effort are not supported in /v1/chat/completions. Please use /v1/responses"
    play = Playbook(weather, resettle=resettle).starts("hi").asks(mode="native").fails("bad_request", words, 400)
    play.learns(wire="openai_responses").asks(mode="native")
    assert play.ask.composed.chosen_mode.endpoint.wire == "openai_responses"
    play.fails("bad_request", words, 400).ends("provider_failed")


@pytest.mark.parametrize("native", [True, False])
def test_an_endpoint_without_a_system_role_is_asked_again_without_it(native: bool) -> None:
    def resettle(endpoint: Endpoint, fact: Fact) -> Endpoint:
        return replace(endpoint, quirks=replace(endpoint.quirks, **fact.quirks))

    play = Playbook(weather, native=native, resettle=resettle).starts("hi").asks()
    play.fails("bad_request", "System role not supported", 400).learns().notices("quirk_learned", "system_role = False")
    play.asks(mode="native" if native else "text")
    assert play.ask.composed.chosen_mode.endpoint.quirks.system_role is False
    result = play.replies("Hello").ends("answered")
    assert result.turns == 1
    again = Playbook(weather, native=native, resettle=resettle).starts("hi").asks()
    again.fails("bad_request", "System role not supported", 400).learns().asks()
    again.fails("bad_request", "System role not supported", 400).ends("provider_failed")


def test_an_agent_keeps_what_it_learned_of_the_messages() -> None:
    failed = Answer(400, {}, {"error": {"message": "System role not supported"}})
    model = ScriptedModel([failed, "one", "two"])
    known = Agent(model.endpoint(), [weather], system="Be brief.", connection=Connection(transport=model))
    assert [known.run("hi").text, known.run("hi").text] == ["one", "two"]
    roles = [[message.role for message in request.messages] for request in model.requests]
    assert roles == [["system", "user"], ["user"], ["user"]]


def test_a_run_that_is_resumed_after_its_agent_has_learned_a_fact_continues() -> None:
    """The failure that taught the lesson stands in the journal; the agent that reads it knows the lesson already."""
    from dragoman.agent.resume import restore

    play = Playbook(weather).starts("hi").asks().fails("bad_request", "tools are bad functions", 400).asks(mode="text")
    play.replies("Let me see.", call("weather", city="Paris")).learns(native=False).runs("weather")
    wiser = replace(play.config, endpoint=scripted_endpoint(native=False))
    restored = restore(play.records(), wiser)
    assert restored.machine.messages == play.machine.messages
    assert [type(command).__name__ for command in restored.commands] == ["RunTools"]


# ---- other models ----------------------------------------------------------------------------------------------------

SECOND = scripted_endpoint(model="second", base_url="http://second.invalid/v1")
THIRD = scripted_endpoint(native=False, model="third", base_url="http://third.invalid/v1")


def test_the_next_model_continues_after_a_failure() -> None:
    play = Playbook(weather, fallbacks=(SECOND, THIRD), limits=Limits(turns=3)).starts("hi").asks(model="scripted")
    play.fails("overloaded", "busy", 529).notices("model_replaced", "scripted failed (busy); second replaces it")
    play.asks(model="second", mode="native").replies(call("weather", city="Paris")).runs("weather").answers("sunny")
    play.asks(model="second").fails("unreachable", "nobody there").asks(model="third", mode="text", hearing="sunny")
    result = play.replies("Sunny.").ends("answered")
    assert result.model == "third"
    assert result.turns == 2


@pytest.mark.parametrize("kind", ["unauthorized", "bad_request", "insecure"])
def test_a_failure_that_another_model_does_not_help_is_not_retried_with_it(kind: Any) -> None:
    Playbook(fallbacks=(SECOND,)).starts("hi").asks().fails(kind, "no").ends(
        "unauthorized" if kind == "unauthorized" else "provider_failed"
    )


def test_no_other_model_takes_over_once_something_was_said() -> None:
    failure = Failure("stream_cut", "lost")
    play = Playbook(fallbacks=(SECOND,)).starts("hi").asks().replies("Once upon", failure=failure)
    play.ends("provider_failed", text="Once upon")


def test_the_last_failure_is_the_outcome() -> None:
    play = Playbook(fallbacks=(SECOND,)).starts("hi").asks().fails("overloaded", "first").asks()
    play.fails("rate_limited", "second").ends("provider_failed", "second")


def test_what_is_learned_is_learned_of_the_one_that_taught_it() -> None:
    seen: list[tuple[str, Fact]] = []

    def resettle(endpoint: Endpoint, fact: Fact) -> Endpoint:
        seen.append((endpoint.model, fact))
        return endpoint

    play = Playbook(weather, fallbacks=(SECOND,), resettle=resettle, replays=False).starts("hi").asks()
    play.fails("overloaded", "busy").asks(model="second", mode="native")
    play.fails("bad_request", "this model does not support tools", 400).learns(native=False)
    play.asks(model="second", mode="text")
    assert [model for model, _ in seen] == ["second"]


def test_an_unsure_lesson_is_not_confirmed_by_another_model() -> None:
    play = Playbook(weather, fallbacks=(SECOND,)).starts("hi").asks(mode="native")
    play.fails("bad_request", "functions are odd", 400).asks(mode="text").fails("overloaded", "busy")
    play.asks(model="second", mode="native").replies("Hello").ends("answered")


# ---- too long --------------------------------------------------------------------------------------------------------

LONG = [Message("user", [Text("word " * 2000)]), Message("assistant", [Text("ok")]), Message("user", [Text("go on")])]
SHORT = LONG[2:]


def test_a_conversation_that_is_too_long_is_made_shorter_once_and_asked_again() -> None:
    play = (
        Playbook(weather).starts(LONG).asks().fails("context_too_long", "prompt is too long", 400).requests_compaction()
    )
    assert play.compact.messages == LONG
    assert not play.compact.budget.holds(LONG)
    play.compacts(SHORT, "two messages were left out").notices("compacted", "two messages").asks()
    assert play.ask.composed.request.messages == SHORT
    result = play.fails("context_too_long", "still too long", 400).ends("context_full", category="capacity")
    assert [problem.kind for problem in result.problems] == ["compacted"]


def test_it_may_become_too_long_again_later() -> None:
    play = (
        Playbook(weather).starts(LONG).asks().fails("context_too_long", "", 400).requests_compaction().compacts(SHORT)
    )
    play.asks().replies(call("weather", city="Paris")).runs("weather").answers("sunny " * 2000).asks()
    play.fails("context_too_long", "", 400).requests_compaction().compacts(SHORT).asks().replies("Sunny.").ends(
        "answered"
    )


def test_room_is_made_before_the_window_is_full() -> None:
    play = Playbook(weather, window=2000, context=ContextSettings(reply=100)).starts(LONG).requests_compaction()
    assert play.compact.budget.target < 2000
    assert play.machine.outstanding() == [play.compact]
    play.compacts(SHORT, "one long message").asks(hearing="go on").replies("Yes.").ends("answered")


def test_a_conversation_that_fits_is_left_alone() -> None:
    Playbook(weather, window=200_000).starts(LONG).asks()


def test_a_compactor_that_finds_nothing_does_not_stop_the_run() -> None:
    play = Playbook(weather, window=2000, context=ContextSettings(reply=100)).starts(LONG).requests_compaction()
    play.compacts(LONG).notices("compacted", "nothing could be left out").asks().replies("Hm.").ends("answered")


def test_what_was_learned_of_a_copied_call_outlives_the_compaction() -> None:
    """Content that was cut away was read by the model all the same."""
    from tests.agent.test_judged_replies import ECHO, PAGE
    from tests.agent.toolbox import read, write

    play = Playbook(read, write, native=False).starts("hi").asks().replies(call("read", path="page")).runs("read")
    play.answers(PAGE).asks().fails("context_too_long", "", 400).requests_compaction()
    play.compacts([Message("user", [Text("hi")])]).asks().replies(ECHO).asks(hearing="was not run")


def test_ids_of_calls_that_were_cut_away_are_not_used_again() -> None:
    play = Playbook(weather).starts("hi").asks().replies(ToolCall("one", "weather", {"city": "Paris"})).runs("weather")
    play.answers("sunny").asks().fails("context_too_long", "", 400).requests_compaction()
    play.compacts([Message("user", [Text("hi")])]).asks().replies(ToolCall("one", "weather", {"city": "Rome"}))
    play.runs("weather")
    assert play.batch[0].call.id != "one"
