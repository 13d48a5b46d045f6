"""The limits of a run: turns, tokens, cost, time, calls, repairs, mistakes and blanks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.agent.playbook import Playbook
from tests.agent.runs import agent, wait
from tests.agent.toolbox import delete, look, read, weather, write

import dragoman
from dragoman import Agent, Connection
from dragoman.agent.result import Limits, Spending
from dragoman.errors import ConfigError
from dragoman.journal import MemoryJournal
from dragoman.providers.prices import Price, Prices
from dragoman.testing import ScriptedModel, call
from dragoman.types import Failure, Message, Reply, Text, ToolCall, Usage


def free(usage: Usage, *rest: Any) -> float:
    return 0.0


def dollar_each(usage: Usage, *rest: Any) -> float:
    return 1.0


def unknown(usage: Usage, *rest: Any) -> None:
    return None


def test_a_request_that_timed_out_costs_nothing_also_without_a_known_price() -> None:
    play = Playbook(limits=Limits(seconds=1.0), price=unknown).starts("hi").asks().later(2.0)
    assert play.fails("timed_out").ends("time_limit").cost == 0.0


# ---- turns -----------------------------------------------------------------------------------------------------------


def test_the_tools_of_the_last_allowed_round_do_run() -> None:
    play = Playbook(weather, limits=Limits(turns=1)).starts("hi").asks().replies(call("weather", city="Paris"))
    play.runs("weather").answers("sunny")
    result = play.ends("turn_limit", "the turn limit of 1 is reached", category="capacity")
    assert [each.content for each in result.results] == ["sunny"]
    assert result.turns == 1


def test_ten_turns_by_default() -> None:
    play = Playbook(weather).starts("hi")
    for turn in range(10):
        play.asks().replies(call("weather", city=f"{turn}")).runs("weather").answers(f"{turn}")
    assert play.ends("turn_limit").turns == 10


def test_at_a_limit_the_model_may_sum_up_once_without_tools() -> None:
    play = Playbook(weather, limits=Limits(turns=1), summary=True).starts("hi").asks()
    play.replies(call("weather", city="Paris")).runs("weather").answers("sunny")
    play.asks(mode="", tools=[], hearing="You cannot call tools any more")
    result = play.replies("So far: sunny.").ends("turn_limit", text="So far: sunny.")
    assert result.messages[-1] == Message("assistant", [Text("So far: sunny.")])
    assert "any more" not in "".join(message.text for message in result.messages)


def test_a_summary_in_text_mode_shows_the_results_as_text() -> None:
    play = Playbook(weather, native=False, limits=Limits(turns=1), summary=True).starts("hi").asks(mode="text")
    play.replies(call("weather", city="Paris")).runs("weather").answers("sunny").asks(mode="", tools=[])
    assert any("sunny" in message.text for message in play.ask.composed.request.messages)
    play.replies("So far: sunny.").ends("turn_limit", text="So far: sunny.")


def test_calls_in_a_summary_are_not_run_and_leave_nothing_unanswered() -> None:
    play = Playbook(weather, limits=Limits(turns=1), summary=True).starts("hi").asks()
    play.replies(call("weather", city="Paris")).runs("weather").answers("sunny").asks()
    result = play.replies("So far: sunny.", call("weather", city="Rome")).ends("turn_limit", text="So far: sunny.")
    assert len(result.calls) == 1


@pytest.mark.parametrize("kind", ["overloaded", "bad_request", "context_too_long"])
def test_a_summary_that_fails_changes_nothing_about_the_outcome(kind: Any) -> None:
    play = Playbook(weather, limits=Limits(turns=1), summary=True).starts("hi").asks()
    play.replies("I look.", call("weather", city="Paris")).runs("weather").answers("sunny").asks()
    play.fails(kind, "this model does not support tools", 400).ends("turn_limit", text="I look.")


# ---- tokens and cost -------------------------------------------------------------------------------------------------


def test_tokens_of_all_replies_are_counted() -> None:
    play = Playbook(weather, limits=Limits(tokens=100), summary=True).starts("hi").asks()
    play.replies(call("weather", city="Paris"), usage=Usage(40, 10)).runs("weather").answers("sunny").asks()
    play.replies(call("weather", city="Rome"), usage=Usage(40, 10)).runs("weather").answers("rainy")
    # A summary would only spend more.
    play.ends("token_limit", "100 tokens are used; the limit is 100", category="capacity")


def test_an_answer_counts_even_when_it_used_the_last_token() -> None:
    Playbook(limits=Limits(tokens=10)).starts("hi").asks().replies("Hello", usage=Usage(9, 9)).ends("answered")


def test_cost_is_counted_in_dollars() -> None:
    play = Playbook(weather, limits=Limits(cost=1.5), price=dollar_each).starts("hi").asks()
    play.replies(call("weather", city="Paris")).runs("weather").answers("sunny").asks()
    play.replies(call("weather", city="Rome")).runs("weather").answers("rainy")
    assert play.ends("cost_limit", "2.0000 dollars").cost == 2.0


def test_a_limit_of_cost_without_a_price_is_refused_before_anything_is_spent() -> None:
    play = Playbook(weather, limits=Limits(cost=1.0), price=unknown).starts("hi")
    assert play.ends("cost_limit", "the price of the model is unknown").turns == 0


def test_a_model_without_a_price_that_takes_over_ends_a_run_with_a_limit_of_cost() -> None:
    def price(usage: Usage, endpoint: Any, model: str) -> float | None:
        return None if model == "cheap" else 0.1

    play = Playbook(weather, limits=Limits(cost=1.0), price=price).starts("hi").asks()
    play.replies(call("weather", city="Paris"), model="cheap").runs("weather").answers("sunny")
    play.ends("cost_limit", "the price of the model is unknown")


def test_without_a_price_the_cost_is_not_guessed() -> None:
    assert Playbook(price=unknown).starts("hi").asks().replies("Hello").ends("answered").cost is None
    assert Playbook(price=free).starts("hi").asks().replies("Hello").ends("answered").cost == 0.0


def test_a_failed_request_costs_nothing_even_where_no_price_is_known() -> None:
    play = Playbook(limits=Limits(cost=1.0), price=dollar_each).starts("hi").asks()
    assert play.fails("overloaded").ends("provider_failed").cost == 0.0


def test_a_run_below_another_spends_from_its_budget() -> None:
    above = Spending(Limits(tokens=100))
    above.add(Usage(60, 10), None)
    play = Playbook(weather, spending=Spending(Limits(tokens=1000), above)).starts("hi").asks()
    play.replies(call("weather", city="Paris"), usage=Usage(20, 10)).runs("weather").answers("sunny")
    play.ends("token_limit", "100 tokens are used")
    assert above.usage == Usage(80, 20)


# ---- time ------------------------------------------------------------------------------------------------------------


def test_a_run_has_its_time() -> None:
    play = Playbook(weather, limits=Limits(seconds=60.0)).starts("hi").asks()
    assert play.ask.deadline == 60.0
    play.later(60.0).ticks().ends("time_limit", "the limit of 60 seconds is reached", category="capacity")


def test_a_result_that_comes_when_the_time_is_over_is_not_lost() -> None:
    play = Playbook(look, write, limits=Limits(seconds=60.0)).starts("hi").asks().later(10.0)
    play.replies(call("look", where="a"), call("look", where="b"), call("write", path="c")).runs("look", "look")
    play.later(50.0).answers("found", of="call_1").cancels_tools("look")
    result = play.ends("time_limit")
    assert result.results[0].content == "found"
    assert "outcome is unknown" in str(result.results[1].content)
    assert result.results[2].content == "Not run: the time is over."


def test_a_reply_that_comes_when_the_time_is_over_was_paid_for_and_is_kept() -> None:
    play = Playbook(weather, limits=Limits(seconds=60.0), price=dollar_each).starts("hi").asks().later(61.0)
    result = play.replies("Half an ans", call("weather", city="Paris")).ends("time_limit", text="Half an ans")
    assert result.cost == 1.0
    assert result.messages[-1].text == "Half an ans"


def test_waiting_for_an_approval_takes_from_the_time_of_the_run() -> None:
    play = Playbook(delete, has_approver=True, limits=Limits(seconds=60.0)).starts("hi").asks()
    play.replies(call("delete", path="a")).asks_for_approval("delete").later(60.0).denies("nobody answered")
    assert play.ends("time_limit").results[0].content == "Not run: the time is over."


def test_a_clock_that_jumps_back_changes_nothing() -> None:
    play = Playbook(weather, limits=Limits(seconds=60.0, turn_seconds=40.0)).starts("hi").asks().later(30.0)
    play.replies(call("weather", city="Paris")).runs("weather").later(-29.0).answers("sunny").asks()
    assert play.ask.deadline == 60.0


# ---- calls per turn --------------------------------------------------------------------------------------------------


def test_too_many_calls_in_one_reply_and_none_of_them_runs() -> None:
    play = Playbook(look, limits=Limits(calls_per_turn=2)).starts("hi").asks()
    play.replies(*(call("look", where=where) for where in "abc"))
    play.has_result("call_2", "Not run: the reply held 3 calls, and 2 are allowed", error=True, ran=False)
    play.asks().replies(call("look", where="a"), call("look", where="b")).runs("look", "look")


# ---- mistakes --------------------------------------------------------------------------------------------------------


def test_after_three_turns_in_a_row_without_a_good_call_the_run_ends() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("nope")).asks().replies(call("nope"))
    result = play.asks().replies(call("nope")).ends("mistake_limit", "There is no tool named 'nope'", category="fatal")
    assert result.turns == 3


def test_mistakes_are_counted_once_per_turn_and_a_call_that_runs_resets_the_count() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("n1"), call("n2"), call("n3"), call("n4"))
    play.asks().replies(call("n5")).asks().replies(call("n6"), call("weather", city="Paris")).runs("weather")
    play.answers("sunny").asks().replies(call("n7")).asks().replies(call("n8")).asks().replies("Sorry").ends("answered")


def test_a_denied_call_is_neither_a_mistake_nor_a_success() -> None:
    play = Playbook(weather, delete).starts("hi").asks().replies(call("nope")).asks().replies(call("nope"))
    play.asks().replies(call("delete", path="a")).asks().replies(call("nope")).ends("mistake_limit")


def test_refusals_alone_do_not_end_a_run() -> None:
    play = Playbook(delete, limits=Limits(turns=5)).starts("hi")
    for turn in range(5):
        play.asks().replies(call("delete", path=f"{turn}"))
    play.ends("turn_limit")


def test_repairs_are_asked_for_twice() -> None:
    play = Playbook(weather, limits=Limits(mistakes=9)).starts("hi")
    for _ in range(2):
        play.asks().replies(call("weather", town="Paris"))
    play.asks().replies(call("weather", town="Paris")).ends("mistake_limit", "do not fit its schema")


def test_a_limit_of_mistakes_may_be_summed_up_too() -> None:
    play = Playbook(weather, limits=Limits(mistakes=1), summary=True).starts("hi").asks().replies(call("nope"))
    play.asks(tools=[], mode="").replies("I cannot.").ends("mistake_limit", text="I cannot.")


def test_nothing_is_summed_up_when_the_budget_is_spent() -> None:
    limits = Limits(mistakes=1, tokens=10)
    play = Playbook(weather, limits=limits, summary=True).starts("hi").asks().replies(call("nope"), usage=Usage(9, 9))
    play.ends("mistake_limit")


# ---- nothing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", [[], [""], ["  \n\t "], ["​﻿"]], ids=["no part", "empty", "white", "invisible"])
def test_a_blank_reply_is_asked_about_once(nothing: list[str]) -> None:
    play = Playbook(weather).starts("hi").asks().replies(*nothing).asks(hearing="Your last reply was empty")
    result = play.replies(*nothing).ends("blank", "2 empty replies in a row", category="retryable")
    assert result.messages == [Message("user", [Text("hi")])], "neither the blanks nor the question about them is kept"


def test_blanks_are_counted_in_a_row() -> None:
    play = Playbook(weather).starts("hi").asks().replies("").asks().replies(call("weather", city="Paris"))
    play.runs("weather").answers("sunny").asks().replies(" ").asks().replies("Sunny.").ends("answered")


def test_a_blank_reply_takes_nothing_else_out_of_the_conversation() -> None:
    before = [Message("user", [Text("Begin:")]), Message("assistant", [Text("Once upon")])]
    result = Playbook().starts(before).asks().replies().asks().replies("a time").ends("answered")
    assert [message.text for message in result.messages] == ["Begin:", "Once upon", "a time"]


def test_a_paused_reply_stays_when_a_blank_one_follows() -> None:
    play = Playbook().starts("hi").asks().replies("I search.", stop="pause").asks().replies().asks()
    result = play.replies("Found.").ends("answered")
    assert [message.text for message in result.messages] == ["hi", "I search.", "Found."]


# ---- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [{"turns": 0}, {"calls_per_turn": 0}, {"tokens": 0}, {"cost": -1.0}, {"seconds": 0.0}, {"mistakes": 0}]
)
def test_limits_that_allow_nothing_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Limits(**settings)


def test_failures_of_the_provider_do_not_use_up_turns() -> None:
    failure = Failure("context_too_long", "too long", 400)
    play = Playbook(limits=Limits(turns=1)).starts("hi").asks()
    play.replies(reply=Reply(Message("assistant"), failure=failure)).requests_compaction()
    play.compacts([Message("user", [Text("hi")])]).asks().replies("Hello").ends("answered")


def test_repeatable_and_other_calls_count_alike() -> None:
    play = Playbook(read, limits=Limits(calls_per_turn=1)).starts("hi").asks()
    again = ToolCall("", "read", {"path": "a"})
    play.replies(again, again).has_result("call_1", "Not run: the reply held 2 calls, and 1 are allowed").asks()


# ---- budgets that runs share -----------------------------------------------------------------------------------------


def test_runs_of_several_agents_and_threads_share_a_budget_by_its_tag() -> None:
    usage = Usage(60, 40)
    rows: list[tuple[dict[str, Any], str, int]] = [
        ({"tokens": 1000}, "token_limit", 10),
        ({"turns": 8}, "turn_limit", 8),
        ({"cost": 0.5}, "cost_limit", 5),
    ]
    for limits, kind, allowed in rows:
        budget = dragoman.Budget("nightly", **limits)
        made = []
        for _ in range(3):
            model = ScriptedModel(["hello"], loop=True, usage=usage)
            prices = Prices((Price("scripted", ("scripted",), 1000.0, 1000.0),))
            connection = Connection(transport=model, prices=prices)
            made.append(Agent(model.endpoint(), connection=connection, limits=Limits(budget=budget)))
        with ThreadPoolExecutor(4) as pool:
            ran = list(pool.map(lambda runs: runs.run("hi", check=False), (made * 14)[:40]))
        good = [result for result in ran if result.outcome.kind == "answered"]
        bad = {(result.outcome.kind, "'nightly'" in result.outcome.reason, result.turns) for result in ran} - {
            ("answered", False, 1)
        }
        assert bad == {(kind, True, 0)}, limits
        assert allowed <= len(good) <= allowed + 3, "runs at the same time may each be one reply over"
        assert (budget.requests, budget.spent_tokens) == (len(good), len(good) * 100), (
            "nothing is lost or counted twice"
        )


def test_a_budget_counts_child_runs_once_and_holds_for_runs_with_limits_of_their_own() -> None:
    budget, other = dragoman.Budget("all"), dragoman.Budget("one customer")
    child = agent(["4"], limits=Limits(budget=budget))
    parent = agent([call("ask", task="2+2"), "It is 4."], child.as_tool("ask", "Ask."), limits=Limits(budget=budget))
    result = parent.run("hi", limits=Limits(turns=5, budget=other))
    assert (result.turns, budget.requests, other.requests) == (3, 3, 3)
    assert "all" in repr(budget)


def test_a_budget_of_dollars_needs_a_price_and_a_resumed_run_adds_only_what_it_uses() -> None:
    budget = dragoman.Budget("paid", cost=1.0)
    ended = agent(["hello"], limits=Limits(budget=budget)).run("hi", check=False)
    assert (ended.outcome.kind, ended.turns, budget.requests) == ("cost_limit", 0, 0)
    free, journal = dragoman.Budget("free"), MemoryJournal()
    replies: list[Any] = [call("weather", city="Paris"), RuntimeError("the process ends here")]
    with pytest.raises(RuntimeError):
        wait(agent(replies, weather, journal=journal).arun("hi", run_id="run_1"))
    agent(["done"], weather, journal=journal, limits=Limits(budget=free)).resume("run_1")
    assert free.requests == 1
    with pytest.raises(ConfigError, match="tokens must be more than 0"):
        dragoman.Budget("none", tokens=0)
