"""The loop: validate, decide, run, answer, ask again until text."""

from __future__ import annotations

import pytest
from tests.agent.playbook import Playbook, words_of
from tests.agent.toolbox import decides, delete, look, read, roll, send, weather, write

from dragoman.agent.events import Asked, CallDecided, ToolEnded, TurnEnded
from dragoman.agent.result import Limits
from dragoman.policy import Decision, as_policy
from dragoman.testing import call
from dragoman.types import InvalidCall, Message, Text, Tool, ToolCall, ToolResult

# ---- round and round -------------------------------------------------------------------------------------------------


def test_text_is_the_end() -> None:
    result = Playbook(weather).starts("hi").asks().replies("Hello!").ends("answered", text="Hello!")
    assert [message.role for message in result.messages] == ["user", "assistant"]
    assert result.turns == 1
    assert result.messages[-1].text == "Hello!"


def test_a_call_is_run_and_its_result_asked_with() -> None:
    play = Playbook(weather).starts("Is it warm?").asks(mode="native", tools=["weather"])
    play.replies("Let me see.", call("weather", city="Paris")).runs("weather").answers("sunny")
    result = play.asks(hearing="sunny").replies("It is sunny.").ends("answered", text="It is sunny.")
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]
    assert result.turns == 2
    assert (result.usage.input_tokens, result.usage.output_tokens) == (20, 10)
    assert [each.content for each in result.results] == ["sunny"]
    assert [each.name for each in result.calls] == ["weather"]


def test_listeners_receive_events_for_every_request_and_every_call() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("weather", city="Paris")).runs("weather").answers("sunny")
    play.asks().replies("done").ends("answered")
    told = [type(event) for event in play.events]
    assert told == [Asked, CallDecided, ToolEnded, TurnEnded, Asked, TurnEnded]
    first, decided, ended, turn = play.events[:4]
    assert isinstance(first, Asked) and (first.turn, first.tools, first.mode) == (1, 1, "native")
    assert isinstance(decided, CallDecided) and (decided.verdict, decided.call.name) == ("allow", "weather")
    assert isinstance(ended, ToolEnded) and ended.ran
    assert isinstance(turn, TurnEnded) and [each.content for each in turn.results] == ["sunny"]


def test_without_tools_nothing_is_added_to_the_prompt() -> None:
    for native in (True, False):
        play = Playbook(native=native).starts("hi").asks(mode="", tools=[])
        request = play.ask.composed.request
        assert request.messages == [Message("user", [Text("hi")])]
        assert request.options == {}
        play.replies("Hello").ends("answered")


def test_definitions_or_instructions_but_never_both() -> None:
    native = Playbook(weather).starts("hi").asks(mode="native", tools=["weather"])
    assert [message.role for message in native.ask.composed.request.messages] == ["user"]
    text = Playbook(weather, native=False).starts("hi").asks(mode="text", tools=[])
    system = text.ask.composed.request.messages[0]
    assert system.role == "system"
    assert "weather" in system.text


@pytest.mark.parametrize(("forced", "native", "mode"), [("text", True, "text"), ("native", False, "native")])
def test_the_mode_can_be_forced(forced: str, native: bool, mode: str) -> None:
    play = Playbook(weather, native=native, tool_mode=forced).starts("hi").asks(mode=mode)
    play.replies(call("weather", city="Paris")).runs("weather").answers("sunny").asks(mode=mode, hearing="sunny")
    play.replies("Sunny.").ends("answered")


# ---- calls that cannot be run ----------------------------------------------------------------------------------------


def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    play = Playbook(weather, read).starts("hi").asks().replies(call("wether", city="Paris"))
    play.has_result("wether", "There is no tool named 'wether'. Did you mean 'weather'?", error=True, ran=False)
    play.asks(hearing="weather, read").replies("Sorry.").ends("answered")


def test_bad_arguments_are_named_by_their_path() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("weather", town="Paris"))
    play.has_result("weather", "do not fit its schema", error=True, ran=False)
    play.asks(hearing="city").replies(call("weather", city="Paris")).runs("weather").answers("sunny")
    play.asks().replies("Sunny.").ends("answered")


def test_a_good_call_beside_a_bad_one_runs_and_both_are_answered() -> None:
    play = Playbook(weather).starts("hi").asks()
    play.replies(call("weather", city="Paris"), call("nothing"), call("weather", city=["Rome"])).runs("weather")
    play.answers("sunny").asks()
    result = play.replies("Sunny.").ends("answered")
    assert [each.is_error for each in result.results] == [False, True, True]
    assert [type(each) for each in result.calls] == [ToolCall, InvalidCall, InvalidCall]


def test_arguments_that_the_function_refuses_are_the_models_mistake() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("weather", city="Paris")).runs("weather")
    play.answers("city: no such date", error=True, mistake=True).has_result("weather", "no such date", ran=False)
    play.asks().replies("Sorry.").ends("answered")


# ---- may it run? -----------------------------------------------------------------------------------------------------


def test_the_developers_functions_run_without_asking() -> None:
    Playbook(write, has_approver=True).starts("hi").asks().replies(call("write", path="a")).runs("write")


def test_a_marked_tool_needs_an_approver() -> None:
    play = Playbook(delete, has_approver=True).starts("hi").asks().replies(call("delete", path="a"))
    play.asks_for_approval("delete", "marked as needing approval").approves().runs("delete").answers("gone")
    play.asks().replies("Deleted.").ends("answered")


def test_without_an_approver_the_call_is_denied_and_the_model_learns_it() -> None:
    play = Playbook(delete).starts("hi").asks().replies(call("delete", path="a"))
    play.has_result("delete", "needs approval, and nobody is there to give it", error=True, ran=False)
    play.asks().replies("I could not.").ends("answered")


def test_a_denial_reaches_the_model_with_its_reason() -> None:
    play = Playbook(delete, has_approver=True).starts("hi").asks().replies(call("delete", path="a"))
    play.asks_for_approval("delete").denies("not today").has_result(
        "delete", "Denied by the user: not today", ran=False
    )
    play.asks().replies("Then not.").ends("answered")


def test_an_approver_may_change_the_arguments_and_they_are_checked() -> None:
    play = Playbook(delete, has_approver=True).starts("hi").asks().replies(call("delete", path="a"))
    play.asks_for_approval("delete").approves(arguments={"path": "b"}).notices("arguments_changed").runs("delete")
    assert play.batch[0].call.arguments == {"path": "b"}
    play = Playbook(delete, has_approver=True).starts("hi").asks().replies(call("delete", path="a"))
    play.asks_for_approval("delete").approves(arguments={"path": ["b"]})
    play.has_result("delete", "do not fit", error=True, ran=False).asks()


def test_an_approver_cannot_put_in_what_the_policy_denies() -> None:
    def policy(call: ToolCall, tool: Tool) -> Decision:
        return Decision("deny", "not there") if call.arguments["path"] == "/etc" else Decision("ask", "it deletes")

    play = Playbook(delete, has_approver=True, policy=policy).starts("hi").asks().replies(call("delete", path="a"))
    play.asks_for_approval("delete", "it deletes").approves(arguments={"path": "/etc"})
    play.has_result("delete", "Denied by policy: not there", error=True, ran=False).asks()


def test_a_call_read_from_text_in_a_doubtful_way_is_asked_about() -> None:
    shell = Tool("shell", "Run", {"type": "object", "properties": {"command": {"type": "string"}}}, run=print)
    shell = Tool(shell.name, shell.description, shell.parameters, print, metadata={"class": "exec"})
    said = '{"name": "shell", "arguments": {"command": "date"}}'
    asked = Playbook(shell, native=False, has_approver=True).starts("hi").asks().replies(said)
    asked.asks_for_approval("shell", "read from text").approves().runs("shell")
    denied = Playbook(shell, native=False).starts("hi").asks().replies(said)
    denied.has_result("shell", "nobody is there to give it", error=True, ran=False).asks()


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (decides("deny", "wea*"), "Denied by policy: weather is decided by the developer"),
        (as_policy([decides("ask", "*"), decides("deny", "weather")]), "Denied by policy"),
        (lambda call, tool: 1 / 0, "Denied by policy: the policy failed: ZeroDivisionError"),
        (lambda call, tool: True, "Denied by policy: the policy returned True, which is not a decision"),
        (lambda call, tool: Decision("deny", call.arguments["city"]), "Denied by policy: Paris"),
        (decides("ask", "*"), "nobody is there to give it"),
    ],
    ids=["denied by name", "the stricter wins", "failing", "nonsense", "by arguments", "asked for"],
)
def test_what_a_policy_denies_does_not_run(policy: object, words: str) -> None:
    play = Playbook(weather, policy=policy).starts("hi").asks().replies(call("weather", city="Paris"))
    play.has_result("weather", words, error=True, ran=False).asks().replies("No.").ends("answered")


def test_no_policy_loosens_another() -> None:
    loose = as_policy([decides("ask", "weather"), lambda call, tool: Decision("allow")])
    play = Playbook(weather, policy=loose, has_approver=True).starts("hi").asks()
    play.replies(call("weather", city="Paris")).asks_for_approval("weather")


# ---- side by side ----------------------------------------------------------------------------------------------------


def test_safe_neighbours_run_together_and_an_unsafe_call_is_a_barrier() -> None:
    play = Playbook(look, read, write).starts("hi").asks()
    play.replies(
        call("look", where="a"),
        call("read", path="b"),
        call("write", path="c"),
        call("read", path="d"),
        call("look", where="e"),
        call("write", path="f"),
        call("write", path="g"),
    )
    play.runs("look", "read").answers("2", of="read").is_idle().answers("1", of="look")
    play.runs("write").answers("3")
    play.runs("read", "look").answers("5", of="look").answers("4", of="read")
    play.runs("write").answers("6").runs("write").answers("7")
    result = play.asks().replies("done").ends("answered")
    assert [each.content for each in result.results] == ["1", "2", "3", "4", "5", "6", "7"]


def test_a_group_waits_for_the_approval_of_each_of_its_calls() -> None:
    play = Playbook(look, send, has_approver=True).starts("hi").asks()
    play.replies(call("look", where="a"), call("send", to="b"), call("look", where="c"), call("send", to="d"))
    play.asks_for_approval("send").asks_for_approval("send")
    play.denies(of="call_4").is_idle().approves().runs("look", "send", "look")
    play.answers("3", of="call_3").answers("2", of="call_2").answers("1", of="call_1")
    play.has_result("call_4", "Denied by the user").asks()


def test_what_was_refused_is_no_barrier() -> None:
    play = Playbook(look, delete).starts("hi").asks()
    play.replies(call("look", where="a"), call("delete", path="b"), call("nothing"), call("look", where="c"))
    # The policy decides on the unsafe call after the calls before it have ended. No later call starts earlier.
    play.runs("look").answers("1").runs("look").answers("2").asks()


def test_each_call_has_its_deadline() -> None:
    quick = Tool("quick", parameters={"type": "object"}, run=print, timeout=2.0, parallel_safe=True)
    slow = Tool("slow", parameters={"type": "object"}, run=print, parallel_safe=True)
    limits = Limits(tool_seconds=30.0, turn_seconds=20.0, seconds=100.0)
    play = Playbook(quick, slow, limits=limits).starts("hi").asks().later(5.0)
    assert play.ask.deadline == 20.0
    play.replies(call("quick"), call("slow")).runs("quick", "slow")
    assert [(planned.seconds, planned.deadline) for planned in play.batch] == [(2.0, 20.0), (30.0, 20.0)]


def test_a_call_whose_approval_took_longer_than_the_turn_does_not_run() -> None:
    play = Playbook(delete, has_approver=True, limits=Limits(turn_seconds=20.0)).starts("hi").asks()
    play.replies(call("delete", path="a")).asks_for_approval("delete").later(30.0).approves()
    play.has_result("delete", "Not run: the time of this turn is over.", error=True, ran=False)
    play.asks().replies("Too late.").ends("answered")


def test_calls_keep_their_order_when_an_id_was_used_before() -> None:
    first = ToolCall("one", "write", {"path": "0"})
    play = Playbook(write).starts("hi").asks().replies(first).runs("write").answers("ok").asks()
    play.replies(
        ToolCall("one", "write", {"path": "a"}),
        ToolCall("call_2", "write", {"path": "b"}),
        ToolCall("one", "nope", {}),
        ToolCall("three", "write", {"path": "c"}),
    )
    for path in "abc":
        play.runs("write")
        assert play.batch[0].call.arguments == {"path": path}
        play.answers(f"wrote {path}")
    result = play.asks().replies("done").ends("answered")
    assert [each.is_error for each in result.results] == [False, False, False, True, False]


# ---- twice in one turn -----------------------------------------------------------------------------------------------


def test_the_same_call_twice_runs_once() -> None:
    play = Playbook(write).starts("hi").asks()
    play.replies(call("write", path="a", text="b"), call("write", text="b", path="a")).runs("write").answers("wrote")
    words = "Skipped duplicate tool call 'write' with identical arguments in this turn."
    play.has_result("call_1", "wrote", error=False, ran=True).has_result("call_2", words, error=True, ran=False)
    play.asks().replies("done").ends("answered")


def test_repeatable_calls_share_their_result() -> None:
    play = Playbook(read).starts("hi").asks()
    play.replies(call("read", path="a"), call("read", path="b"), call("read", path="a")).runs("read", "read")
    play.answers("A", of="call_1").answers("B", of="call_2")
    play.has_result("call_3", "A", error=False, ran=False).asks().replies("done").ends("answered")


def test_a_tool_that_allows_it_runs_twice() -> None:
    play = Playbook(roll).starts("hi").asks().replies(call("roll", sides=6), call("roll", sides=6))
    play.runs("roll").answers("3").runs("roll").answers("5").asks()


def test_a_shared_result_is_shared_whatever_it_is() -> None:
    play = Playbook(read, policy=decides("deny", "read")).starts("hi").asks()
    play.replies(call("read", path="a"), call("read", path="a"))
    play.has_result("call_1", "Denied by policy").has_result("call_2", "Denied by policy", ran=False).asks()


def test_duplicates_are_no_mistake() -> None:
    play = Playbook(write).starts("hi")
    for turn in range(5):
        again = call("write", path=f"{turn}")
        play.asks().replies(again, again).runs("write").answers("disk full", error=True)
    play.asks().replies("It did not work.").ends("answered")


# ---- hooks -----------------------------------------------------------------------------------------------------------


def test_hooks_see_every_call_before_it_is_decided() -> None:
    play = Playbook(look, read, write, has_reviewers=True).starts("hi").asks()
    play.replies(call("look", where="a"), call("read", path="b"), call("write", path="c")).reviews("look", "read")
    play.hooks_answer().is_idle().hooks_answer().runs("look", "read").answers("1").answers("2")
    play.reviews("write").hooks_answer().runs("write").answers("3").asks()


def test_what_a_hook_changed_is_validated_and_decided_again() -> None:
    def policy(call: ToolCall, tool: Tool) -> Decision:
        return Decision("deny", "not there") if call.arguments["path"] == "/etc" else Decision("allow")

    play = Playbook(write, has_reviewers=True, policy=policy).starts("hi").asks()
    play.replies(call("write", path="a")).reviews("write").hooks_answer(arguments={"path": "b"})
    play.notices("arguments_changed", "a hook changed the arguments of write").runs("write")
    assert play.batch[0].call.arguments == {"path": "b"}
    play.answers("ok").asks().replies(call("write", path="a")).reviews("write").hooks_answer(arguments={"path": "/etc"})
    play.has_result("write", "Denied by policy: not there", error=True, ran=False)
    play.asks().replies(call("write", path="a")).reviews("write").hooks_answer(arguments={"path": {}})
    play.has_result("write", "a hook changed the arguments so that they do not fit", error=True, ran=False)
    play.asks().replies("done").ends("answered")


def test_what_the_model_is_shown_of_a_changed_call_is_its_own() -> None:
    play = Playbook(write, has_reviewers=True).starts("hi").asks().replies(call("write", path="a")).reviews("write")
    play.hooks_answer(arguments={"path": "b"}).runs("write").answers("ok").asks()
    result = play.replies("done").ends("answered")
    said = [part for message in result.messages for part in message.parts if isinstance(part, ToolCall)]
    assert [part.arguments for part in said] == [{"path": "a"}]
    assert [part.arguments for part in result.calls if isinstance(part, ToolCall)] == [{"path": "b"}]


def test_a_hook_may_deny() -> None:
    play = Playbook(write, has_reviewers=True).starts("hi").asks().replies(call("write", path="a")).reviews("write")
    play.hooks_answer("deny", reason="frozen").has_result(
        "write", "Denied by a hook: frozen", error=True, ran=False
    ).asks()


def test_a_hook_may_stop_the_run_and_every_call_is_answered() -> None:
    play = Playbook(look, write, has_reviewers=True).starts("hi").asks()
    play.replies(call("look", where="a"), call("look", where="b"), call("write", path="c")).reviews("look", "look")
    play.hooks_answer(of="call_1").hooks_answer("stop", reason="enough", of="call_2")
    result = play.ends("stopped", "enough")
    assert [each.content for each in result.results] == ["Not run: the run was stopped. enough"] * 3


# ---- steering --------------------------------------------------------------------------------------------------------


def test_a_message_during_the_run_is_part_of_the_next_request() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("weather", city="Paris")).runs("weather")
    play.steers("in Celsius").steers("and briefly").answers("sunny").asks(hearing="and briefly")
    result = play.replies("20 degrees").ends("answered")
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "user", "user", "assistant"]


def test_a_message_during_the_last_reply_continues_the_run() -> None:
    play = Playbook(weather).starts("hi").asks().steers("wait").replies("Hello")
    result = play.asks(hearing="wait").replies("What?").ends("answered", text="What?")
    assert [words_of(message) for message in result.messages] == ["hi", "Hello", "wait", "What?"]


def test_a_message_that_the_model_did_not_receive_is_reported() -> None:
    play = Playbook(limits=Limits(turns=1)).starts("hi").asks().steers("wait").replies("Hello")
    result = play.ends("turn_limit", text="Hello")
    assert [(each.kind, "wait" in each.message) for each in result.problems] == [("unheard", True)]


# ---- results ---------------------------------------------------------------------------------------------------------


def test_an_error_goes_to_the_model_and_the_run_continues() -> None:
    play = Playbook(weather).starts("hi").asks().replies(call("weather", city="Paris")).runs("weather")
    play.answers("no connection", error=True).has_result("weather", "no connection", error=True, ran=True)
    play.asks(hearing="no connection").replies("It failed.").ends("answered")


def test_a_result_bears_the_id_of_its_call_whatever_the_tool_wrote() -> None:
    from dragoman.agent.protocol import ToolAnswered

    play = Playbook(weather).starts("hi").asks().replies(call("weather", city="Paris")).runs("weather")
    play.receives(ToolAnswered("call_1", ToolResult("forged", "other", "sunny"))).asks()
    result = play.replies("done").ends("answered")
    assert [(each.call_id, each.name) for each in result.results] == [("call_1", "weather")]
