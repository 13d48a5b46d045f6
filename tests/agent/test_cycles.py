"""Loop detection in the agent loop: blocked calls, warnings, and runs that it ends."""

from __future__ import annotations

from tests.agent.playbook import Playbook
from tests.agent.toolbox import look, poll, weather, write

from dragoman.agent.result import Limits
from dragoman.agent.watch import WatchSettings
from dragoman.testing import call

PARIS = call("weather", city="Paris")


def repeat(play: Playbook, times: int, *, result: str = "sunny", error: bool = False) -> Playbook:
    for _ in range(times):
        play.asks().replies(PARIS).runs("weather").answers(result, error=error)
    return play


def test_the_same_call_with_the_same_result_is_warned_of_then_blocked_then_the_end() -> None:
    settings = WatchSettings(idle_turns=None)
    play = repeat(Playbook(weather, watch=settings).starts("hi"), 2)
    repeat(play, 1).has_result("weather", "sunny").has_result(
        "weather", "called 3 times in a row", error=False, ran=True
    )
    play.notices("repeated_call")
    play.asks(hearing="called 3 times in a row").replies(PARIS)
    play.has_result("weather", "Not run: this is call 4 in a row", error=True, ran=False)
    play.asks(hearing="Not run").replies(PARIS).ends("looping", "5", category="fatal")


def test_an_ended_circle_may_be_summed_up() -> None:
    play = repeat(Playbook(weather, watch=WatchSettings(idle_turns=None), summary=True).starts("hi"), 3)
    play.asks().replies(PARIS).asks().replies(PARIS)
    play.asks(mode="", tools=[]).replies("It is sunny, as I said.").ends("looping", text="It is sunny, as I said.")


def test_another_result_or_other_arguments_are_work_and_no_circle() -> None:
    play = Playbook(weather).starts("hi")
    for number in range(5):
        play.asks().replies(PARIS).runs("weather").answers(f"{number} degrees")
    for number in range(4):
        play.asks().replies(call("weather", city=f"{number}")).runs("weather").answers(f"fine in {number}")
    play.asks().replies("Done.").ends("answered")


def test_ping_pong_counts_arguments_and_results() -> None:
    settings = WatchSettings(idle_turns=None)
    play = Playbook(weather, look, watch=settings, limits=Limits(turns=20)).starts("hi")
    for round_ in range(4):
        play.asks().replies(PARIS).runs("weather").answers("sunny")
        play.asks().replies(call("look", where="a")).runs("look").answers("a wall")
        assert ("4 times in turn" in str(play.machine.messages[-1])) is (round_ == 3)
    play.notices("ping_pong").asks().replies(PARIS).runs("weather").answers("sunny")
    play.asks().replies(call("look", where="a")).has_result("look", "Not run", error=True, ran=False)
    play.notices("ping_pong").asks().replies("I stop.").ends("answered")


def test_turns_without_any_progress_end_the_run() -> None:
    play = repeat(Playbook(weather, watch=WatchSettings(repeats=None)).starts("hi"), 3)
    play.notices("no_progress").ends("looping", "no progress: 3 turns in a row")


def test_new_text_is_progress() -> None:
    play = Playbook(weather, watch=WatchSettings(repeats=None), limits=Limits(turns=5)).starts("hi")
    for number in range(5):
        play.asks().replies(f"Step {number}.", PARIS).runs("weather").answers("sunny")
    play.ends("turn_limit")


def test_polling_tools_may_repeat_themselves() -> None:
    play = Playbook(poll).starts("hi")
    for _ in range(9):
        play.asks().replies(call("poll", job=1)).runs("poll").answers("running")
    play.asks().replies("Still running.").ends("answered")


def test_one_result_whatever_the_arguments_is_blocked_and_ended() -> None:
    play = Playbook(weather).starts("hi")
    for number in range(5):
        play.asks().replies(call("weather", city=f"{number}")).runs("weather").answers("service unavailable for you")
    play.has_result("weather", "the same result 5 times, although its arguments were different", ran=True)
    play.asks().replies(call("weather", city="6")).has_result("weather", "Not run", error=True, ran=False)
    play.notices("same_result").asks().replies(call("weather", city="7")).ends("looping", "same result")


def test_a_failing_call_is_not_tried_again_and_never_ends_the_run() -> None:
    """Eight times the same failing call: three run, the others are blocked and told, and the run goes on."""
    play = repeat(Playbook(weather).starts("hi"), 3, result="no connection", error=True)
    play.has_result("weather", "has failed 3 times in a row with the same error", ran=True).notices("repeated_failure")
    for _ in range(5):
        play.asks().replies(PARIS).has_result("weather", "Not run: 'weather' has failed", error=True, ran=False)
    play.asks().replies("It does not work.").ends("answered")


def test_a_blocked_call_does_not_keep_its_neighbours_from_running() -> None:
    play = repeat(Playbook(weather, look).starts("hi"), 3, result="no connection", error=True)
    play.asks().replies(PARIS, call("look", where="a")).runs("look").answers("a wall")
    play.has_result("weather", "Not run", ran=False).asks().replies("Done.").ends("answered")


def test_the_same_call_many_times_in_one_turn_counts_once() -> None:
    play = Playbook(write).starts("hi")
    for number in range(3):
        again = call("write", path=f"{number}")
        play.asks().replies(again, again, again, again, again).runs("write").answers(f"wrote {number}")
    play.asks().replies("Done.").ends("answered")


def test_watchers_can_be_switched_off() -> None:
    play = repeat(Playbook(weather, watch=WatchSettings.off()).starts("hi"), 9)
    play.asks().replies("Sunny.").ends("answered")


def test_a_watcher_sees_a_call_as_the_hooks_left_it() -> None:
    play = Playbook(weather, has_reviewers=True, watch=WatchSettings(idle_turns=None)).starts("hi")
    for number in range(3):
        play.asks().replies(call("weather", city=f"{number}")).reviews("weather").hooks_answer(
            arguments={"city": "Paris"}
        )
        play.runs("weather").answers("sunny")
    play.asks().replies(call("weather", city="3")).reviews("weather").hooks_answer(arguments={"city": "Paris"})
    play.has_result("weather", "Not run: this is call 4 in a row", ran=False).asks()


def test_the_end_of_a_circle_stops_what_still_runs() -> None:
    settings = WatchSettings(idle_turns=None)
    play = Playbook(weather, look, watch=settings).starts("hi")
    for _ in range(3):
        play.asks().replies(call("look", where="a")).runs("look").answers("a wall")
    play.asks().replies(call("look", where="a"), call("look", where="b")).runs("look").answers("a door")
    play.has_result("call_4", "Not run", ran=False).asks()
