"""Calls that are denied repeatedly, and results that are out of date."""

from __future__ import annotations

from tests.agent.playbook import Playbook
from tests.agent.toolbox import delete, read, write

from dragoman.agent.watch import WatchSettings
from dragoman.testing import call


def test_a_person_is_asked_about_a_call_once() -> None:
    play = Playbook(delete, has_approver=True).starts("hi").asks().replies(call("delete", path="a"))
    play.asks_for_approval("delete").denies("keep it").has_result("delete", "keep it", error=True, ran=False)
    play.asks().replies(call("delete", path="a")).has_result("delete", "Denied before", error=True, ran=False)
    play.asks().replies("I keep it.").ends("answered")


def test_a_model_that_insists_on_a_denied_call_ends_the_run() -> None:
    play = Playbook(delete, has_approver=True).starts("hi").asks().replies(call("delete", path="a"))
    play.asks_for_approval("delete").denies().asks().replies(call("delete", path="a"))
    play.asks().replies(call("delete", path="a")).notices("denied")
    play.ends("looping", "was denied 3 times", category="fatal")


def test_other_arguments_are_another_question() -> None:
    play = Playbook(delete, has_approver=True).starts("hi").asks().replies(call("delete", path="a"))
    play.asks_for_approval("delete").denies().asks().replies(call("delete", path="b"))
    play.asks_for_approval("delete").approves().runs("delete").answers("done").asks().replies("Done.").ends("answered")


def test_without_the_detector_a_person_is_asked_every_time() -> None:
    play = Playbook(delete, has_approver=True, watch=WatchSettings.off()).starts("hi").asks()
    for _ in range(3):
        play.replies(call("delete", path="a")).asks_for_approval("delete").denies().asks()
    play.replies("No.").ends("answered")


def test_a_result_is_not_shared_across_a_change() -> None:
    play = Playbook(read, write).starts("hi").asks()
    play.replies(call("read", path="a"), call("write", path="a"), call("read", path="a"))
    play.runs("read").answers("old").runs("write").answers("ok").runs("read").answers("new")
    result = play.asks().replies("It is new.").ends("answered")
    assert [each.content for each in result.results] == ["old", "ok", "new"]
