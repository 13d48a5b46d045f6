"""Invariants of the loop with random models, tools and approvers, also for a run that is replayed from its journal."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.agent.playbook import Playbook, check_account, check_conversation, check_events
from tests.agent.toolbox import delete, look, read, roll, send, weather, write
from tests.wire.rules import violations

from dragoman.agent.protocol import (
    Approved,
    Ask,
    AskApproval,
    Cancelled,
    Compact,
    Denied,
    Review,
    Reviewed,
    RunTools,
    Steered,
    Stopped,
    ToolAnswered,
)
from dragoman.agent.records import decode, encode
from dragoman.agent.result import Limits
from dragoman.testing import call
from dragoman.types import InvalidCall, Message, Reply, Request, Text, ToolCall, ToolResult
from dragoman.wire import get, names

TOOLS = (look, read, write, delete, send, roll, weather)
SAID = [
    call("look", where="a"),
    call("look", where="b"),
    call("read", path="a"),
    call("write", path="a", text="b"),
    call("write", path="a"),
    call("delete", path="a"),
    call("send", to="somebody"),
    call("roll", sides=6),
    call("weather", city="Paris"),
    call("weather", town="Paris"),
    call("look", where=["a"]),
    call("nothing"),
    call("writ", path="a"),
]
REPLIES = st.one_of(
    st.lists(st.sampled_from(SAID), min_size=1, max_size=6),
    st.builds(lambda calls: ["I think so.", *calls], st.lists(st.sampled_from(SAID), max_size=3)),
    st.sampled_from([[], [""], ["Done."]]),
)
MISFIT: dict[str, Any] = {"where": {}, "path": {}, "to": {}, "city": {}, "sides": {}}
RESULTS = st.sampled_from(["sunny", "ok", "", "no connection", "word " * 50])


class RandomDriver:
    """Drives a playbook with random inputs: it answers each command in some way, or cancels the run."""

    def __init__(self, play: Playbook, draw: Any) -> None:
        self.play = play
        self._draw = draw
        self.refused: set[str] = set()
        self.approved: set[str] = set()
        self.ran: list[str] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            waiting = self.play.machine.outstanding()
            if not waiting:
                return
            self._answer(self._draw(st.sampled_from(waiting)))
        self._take(Cancelled("enough", at=self.play.at))

    def _answer(self, command: Any) -> None:
        self.play.at += self._draw(st.sampled_from([0.0, 0.5]))
        at = self.play.at
        if self._draw(st.integers(0, 19)) == 0:
            told = self._draw(
                st.sampled_from([Cancelled("enough"), Stopped("hook"), Steered(Message("user", [Text("wait")]))])
            )
            self._take(told)
        elif isinstance(command, Ask):
            self._reply(command)
        elif isinstance(command, Review):
            verdict = self._draw(st.sampled_from(["go", "go", "go", "deny", "stop"]))
            arguments = self._draw(st.sampled_from([None, None, dict(command.call.arguments), MISFIT]))
            if verdict != "go" or arguments is MISFIT:
                self.refused.add(command.call.id)
            self._take(Reviewed(command.call.id, verdict, arguments, at=at))
        elif isinstance(command, AskApproval):
            if self._draw(st.booleans()):
                self.approved.add(command.call.id)
                self._take(Approved(command.call.id, at=at))
            else:
                self.refused.add(command.call.id)
                self._take(Denied(command.call.id, "no", at=at))
        elif isinstance(command, RunTools):
            planned = self._draw(st.sampled_from(command.batch))
            ends = self._draw(st.sampled_from([None] * 8 + ["halted", "failed"]))
            result = ToolResult(planned.call.id, planned.call.name, self._draw(RESULTS), self._draw(st.booleans()))
            self._take(ToolAnswered(planned.call.id, result, ends, "because", self._draw(st.booleans()), at=at))
        else:
            assert isinstance(command, Compact)
            raise AssertionError("nothing is too long here")

    def _reply(self, ask: Ask) -> None:
        self.play.asked.append(ask)
        self.play.replies(*self._draw(REPLIES), stop=self._draw(st.sampled_from([None] * 9 + ["refusal", "length"])))
        self._clear()

    def _take(self, told: Any) -> None:
        self.play.receives(told)
        self._clear()

    def _clear(self) -> None:
        """Look at what is to be run; the other commands are asked for again by `outstanding`."""
        for command in self.play._pending:
            if isinstance(command, RunTools):
                self._check_batch(command)
        self.play._pending.clear()

    def _check_batch(self, command: RunTools) -> None:
        for planned in command.batch:
            made = planned.call
            assert made.complete
            assert made.id not in self.refused, "a call that was denied is run"
            assert not planned.tool.requires_approval or made.id in self.approved, "a call runs without approval"
            assert made.id not in self.ran, "a call is run twice"
            self.ran.append(made.id)


@st.composite
def random_drivers(draw: Any) -> RandomDriver:
    limits = Limits(turns=draw(st.integers(1, 6)), calls_per_turn=draw(st.sampled_from([2, 64])), seconds=60.0)
    play = Playbook(
        *TOOLS,
        native=draw(st.booleans()),
        has_approver=draw(st.booleans()),
        has_reviewers=draw(st.booleans()),
        summary=draw(st.booleans()),
        limits=limits,
    ).starts("hi")
    play._pending.clear()
    driver = RandomDriver(play, draw)
    driver.run(draw(st.integers(1, 30)))
    return driver


@given(random_drivers())
@settings(
    max_examples=3 * settings().max_examples // 2,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_every_call_is_answered_once_and_the_run_can_be_brought_back_at_every_step(driver: RandomDriver) -> None:
    play = driver.play
    result = play.machine.result
    assert result is not None
    check_conversation(result.messages)
    check_account(result)
    check_events(play.events)
    invalid = {part.id for message in result.messages for part in message.parts if isinstance(part, InvalidCall)}
    assert not invalid & set(driver.ran), "a call that could not be read has run"
    play._check_replay()


@given(random_drivers())
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_the_conversation_is_valid_on_every_wire(driver: RandomDriver) -> None:
    result = driver.play.machine.result
    assert result is not None
    messages = [*result.messages, Message("user", [Text("And now?")])]
    request = Request("model-1", messages, list(driver.play.config.tools), {"max_tokens": 100})
    for name in names():
        prepared = get(name).prepare(request)
        assert not [loss for loss in prepared.losses if loss.rule == "inserted" and "had no result" in loss.detail]
        assert not [loss for loss in prepared.losses if "without its call" in loss.detail]
        assert violations(name, prepared.body) == [], name


@pytest.mark.parametrize("name", names())
def test_a_summary_without_tools_is_valid_on_every_wire(name: str) -> None:
    """Some providers refuse calls in the history of a request that offers no tools."""
    play = Playbook(weather, limits=Limits(turns=1), summary=True).starts("hi").asks()
    play.replies(call("weather", city="Paris")).runs("weather").answers("sunny").asks(tools=[])
    request = play.ask.composed.request
    body = get(name).encode_request(Request(request.model, request.messages, request.tools, {"max_tokens": 100}))
    assert violations(name, body) == []


# ---- what a journal holds --------------------------------------------------------------------------------------------

ODD = ["\ud800 half", "\x00", "ü 世界 🌍", "\u2028", 10**30, -(2**63) - 1, 1e300, None, [{"a": [1]}], True]


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_whatever_stands_in_an_input_comes_back_out_of_the_journal(odd: Any) -> None:
    made = ToolCall("call_1", "look", {"where": odd}, raw=str(odd))
    reply = Reply(Message("assistant", [made, Text(str(odd))]), extra={"odd": odd})
    from dragoman.agent.protocol import Replied
    from dragoman.extraction import Extraction

    told = Replied(reply, Extraction(str(odd), calls=[made]), 1.5)
    assert decode(encode(told)) == told
    result = ToolAnswered("call_1", ToolResult("call_1", "look", str(odd), data=odd), at=2.0)
    assert decode(encode(result)) == result


class Anything:
    """A value of a tool that JSON cannot represent."""

    def __repr__(self) -> str:
        return "<anything>"


def test_data_that_json_cannot_represent_is_stored_as_text() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for data in (Anything(), {1, 2}, b"\xff", loop, {("a", "b"): Anything()}, float("nan")):
        told = ToolAnswered("call_1", ToolResult("call_1", "look", "seen", data=data))
        back = decode(encode(told))
        assert isinstance(back, ToolAnswered)
        assert back.result.content == "seen"
