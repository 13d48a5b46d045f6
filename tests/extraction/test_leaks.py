"""Leaked calls in a history become calls, so that a model does not learn their form from itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dragoman.extraction.leaks as leaks
from dragoman import formats, wire
from dragoman.errors import CannotExpress
from dragoman.extraction import extract
from dragoman.extraction.leaks import NOT_RECEIVED, TurnMemory, rewrite_leaks
from dragoman.types import Message, Request, Text, Thinking, Tool, ToolCall, ToolResult

TOOLS = [
    Tool("tide", "", {"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]}),
    Tool("open_lock", "", {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}),
]
CALL = ToolCall("x", "tide", {"harbour": "Esbjerg"})
FENCE = '```json\n{"name": "tide", "arguments": {"harbour": "Esbjerg"}}\n```'
GO_ON = Message.user("continue")


def history(*said: Any) -> list[Message]:
    """A conversation in which the model says these texts, and the user tells it to go on after each."""
    return [Message.user("When?"), *(each for text in said for each in (Message.assistant(text), GO_ON))]


def calls_of(messages: list[Message]) -> list[ToolCall]:
    return [part for message in messages for part in message.parts if isinstance(part, ToolCall)]


def test_a_leaked_turn_of_every_format_becomes_a_call_with_a_result() -> None:
    read = 0
    for name in formats.names():
        try:
            leak = formats.render([CALL], name)
        except CannotExpress:
            continue
        if not extract(leak, tools=TOOLS).calls:
            continue
        read += 1
        clean = rewrite_leaks(
            history(f"I look.\n{leak}" if extract(f"I look.\n{leak}", tools=TOOLS).calls else leak), TOOLS
        )
        [call] = calls_of(clean.messages)
        assert (call.name, call.arguments) == ("tide", {"harbour": "Esbjerg"}), name
        assert [message.role for message in clean.messages] == ["user", "assistant", "tool", "user"], name
        assert clean.messages[2].parts == [ToolResult(call.id, "tide", NOT_RECEIVED, is_error=True)], name
        assert clean.messages[1].text.strip() in ("", "I look."), name
        assert [(each.place, each.names, each.rule) for each in clean.rewrites] == [(1, ("tide",), "accepted")], name
        assert rewrite_leaks(clean.messages, TOOLS).rewrites == [], f"{name}: what was rewritten stays"
    assert read > 40


@pytest.mark.parametrize(
    "said",
    [
        "The tide is at two.",
        f"You would write:\n\n{FENCE}\n\nand then read the answer.",
        "I would call `tide(harbour='Esbjerg')` here.",
        '> <tool_call>{"name": "tide", "arguments": {"harbour": "Esbjerg"}}</tool_call>\n\nsays the page.',
        '<tool_call>{"name": "tide", "arguments": {"harbour": ',
        '<tool_call>{"name": "flood", "arguments": {"harbour": "Esbjerg"}}</tool_call>',
        '<think><tool_call>{"name": "tide", "arguments": {"harbour": "Esbjerg"}}</tool_call></think>Perhaps.',
    ],
)
def test_text_that_is_not_a_call_stays_byte_for_byte(said: str) -> None:
    given = history(said)
    clean = rewrite_leaks(given, TOOLS)
    assert (clean.messages, clean.rewrites) == (given, [])


def test_a_copy_of_a_result_does_not_become_a_call() -> None:
    leak = formats.render([CALL], "hermes")
    fetched = [
        Message("assistant", [ToolCall("a", "open_lock", {"number": 1})]),
        Message("tool", [ToolResult("a", "open_lock", f"The page says {leak}")]),
    ]
    given = [Message.user("When?"), *fetched, Message.assistant(leak), GO_ON]
    assert rewrite_leaks(given, TOOLS).messages == given


def test_the_last_message_stays_because_it_may_be_continued() -> None:
    given = [Message.user("When?"), Message.assistant(formats.render([CALL], "hermes"))]
    assert rewrite_leaks(given, TOOLS).messages == given
    assert rewrite_leaks([*given, GO_ON], None).messages == [*given, GO_ON], "without tools nothing is a call"


def test_ids_are_new_and_stay_while_the_conversation_grows() -> None:
    leak = formats.render([CALL], "hermes")
    later = [
        Message("assistant", [ToolCall("leak_1_1", "open_lock", {"number": 1})]),
        Message("tool", [ToolResult("leak_1_1", "open_lock", "open")]),
        GO_ON,
    ]
    short, whole = history(leak, "Hm."), [*history(leak, "Hm."), *history(leak)[1:]]
    assert rewrite_leaks(whole, TOOLS).messages[: len(short) + 1] == rewrite_leaks(short, TOOLS).messages
    ids = [call.id for call in calls_of(rewrite_leaks([*history(leak, leak), *later], TOOLS).messages)]
    assert len(ids) == len(set(ids)) == 3


def test_a_model_that_writes_a_native_call_as_text_too_sends_it_once() -> None:
    native = ToolCall("a", "tide", {"harbour": "Esbjerg"})
    said = [Thinking("hm"), Text(f"I look.\n{formats.render([CALL], 'hermes')}"), native]
    given = [Message.user("When?"), Message("assistant", said), Message("tool", [ToolResult("a", "tide", "14:20")])]
    clean = rewrite_leaks(given, TOOLS)
    assert clean.messages[1].parts == [Thinking("hm"), Text("I look."), native]
    assert [each.rule for each in clean.rewrites] == ["copy"]


@pytest.mark.parametrize("again", [FENCE, f"Sure:\n\n{FENCE}", None])
def test_an_attempt_that_was_confirmed_is_one_turn(again: str | None) -> None:
    """`again` is the text of the confirmed call; None is a native call."""
    attempt = f"Sure:\n\n{FENCE}"
    notice = extract(attempt, tools=TOOLS).notice
    before = [Message.user("When?"), Message.assistant(attempt), Message.user(notice)]
    call = ToolCall("a", "tide", {"harbour": "Esbjerg"})
    parts: list[Any] = [call]
    if again is not None:
        [found] = extract(again, tools=TOOLS, conversation=before).calls
        parts = [Text(again), found]
        call = found
    given = [*before, Message("assistant", parts), Message("tool", [ToolResult(call.id, "tide", "14:20")]), GO_ON]
    clean = rewrite_leaks(given, TOOLS)
    assert [message.role for message in clean.messages] == ["user", "assistant", "tool", "user"]
    assert clean.messages[1].text == "Sure:" and calls_of(clean.messages) == [call]
    assert [(each.place, each.rule) for each in clean.rewrites] == [(1, "confirmed")]


def test_an_attempt_next_to_a_call_that_counted_is_left_out_too() -> None:
    attempt = f"First this.\n\n{FENCE}"
    notice = extract(attempt, tools=TOOLS).notice
    first, call = ToolCall("a", "open_lock", {"number": 1}), ToolCall("b", "tide", {"harbour": "Esbjerg"})
    given = [
        Message.user("When?"),
        Message("assistant", [Text(attempt), first]),
        Message("tool", [ToolResult("a", "open_lock", "open")]),
        Message.user(notice),
        Message("assistant", [call]),
        Message("tool", [ToolResult("b", "tide", "14:20")]),
        Message.assistant(formats.render([CALL], "hermes")),
        GO_ON,
    ]
    clean = rewrite_leaks(given, TOOLS)
    roles = ["user", "assistant", "tool", "assistant", "tool", "assistant", "tool", "user"]
    assert [message.role for message in clean.messages] == roles
    assert clean.messages[1].text == "First this."
    assert [each.name for each in calls_of(clean.messages)] == ["open_lock", "tide", "tide"]
    assert [(each.place, each.rule) for each in clean.rewrites] == [(1, "confirmed"), (6, "accepted")]


def test_results_without_calls_and_calls_without_results_are_left_to_the_wires() -> None:
    attempt = f"First this.\n\n{FENCE}"
    notice = Message.user(extract(attempt, tools=TOOLS).notice)
    answer = Message("assistant", [ToolCall("b", "tide", {"harbour": "Esbjerg"})])
    orphan = Message("tool", [ToolResult("z", "open_lock", "open")])
    unanswered = Message("assistant", [Text(attempt), ToolCall("a", "open_lock", {"number": 1})])
    for held in ([Message.assistant(attempt), orphan, notice, answer], [unanswered, notice, answer]):
        clean = rewrite_leaks([Message.user("When?"), *held, GO_ON], TOOLS)
        assert clean.messages == [Message.user("When?"), *held, GO_ON]


def test_a_call_of_another_family_that_was_confirmed_is_one_turn() -> None:
    attempt = formats.render([CALL], "mistral")
    before = [Message.user("When?"), Message.assistant(attempt)]
    found = extract(attempt, tools=TOOLS, family=["hermes"], conversation=before[:1])
    assert found.suspects and not found.calls
    call = ToolCall("a", "tide", {"harbour": "Esbjerg"})
    given = [
        *before,
        Message.user(found.notice),
        Message("assistant", [call]),
        Message("tool", [ToolResult("a", "tide", "x")]),
    ]
    assert [message.role for message in rewrite_leaks(given, TOOLS).messages] == ["user", "assistant", "tool"]


@pytest.mark.parametrize(
    "call", [ToolCall("a", "tide", {"harbour": "Ribe"}), ToolCall("a", "open_lock", {"number": 1})]
)
def test_another_call_after_a_notice_explains_nothing(call: ToolCall) -> None:
    attempt = f"Sure:\n\n{FENCE}"
    notice = extract(attempt, tools=TOOLS).notice
    given = [
        *(Message.user("When?"), Message.assistant(attempt), Message.user(notice)),
        *(Message("assistant", [call]), Message("tool", [ToolResult("a", call.name, "14:20")])),
    ]
    clean = rewrite_leaks(given, TOOLS)
    assert (clean.messages, clean.rewrites) == (given, [])


def test_what_is_rewritten_is_valid_on_every_wire() -> None:
    leak = formats.render([CALL], "hermes")
    messages = rewrite_leaks(
        [*history(leak, f"Both.\n{leak}\n{leak}"), Message.assistant("Hm."), GO_ON], TOOLS
    ).messages
    for name in wire.names():
        losses = wire.get(name).prepare(Request("m", messages)).losses
        assert not [loss for loss in losses if loss.rule == "inserted" and loss.where.startswith("message")], (
            name,
            losses,
        )


_LEAK = formats.render([CALL], "hermes")
_ATTEMPT = f"Sure:\n\n{FENCE}"
POOL = [
    Message.user("When?"),
    Message.assistant("Soon."),
    Message.assistant(_LEAK),
    Message.assistant(_ATTEMPT),
    Message.user(extract(_ATTEMPT, tools=TOOLS).notice),
    Message("assistant", [Text(_ATTEMPT), ToolCall("a", "open_lock", {"number": 1})]),
    Message("assistant", [Text(_LEAK), ToolCall("b", "tide", {"harbour": "Esbjerg"})]),
    Message("tool", [ToolResult("a", "open_lock", "open")]),
    Message("tool", [ToolResult("b", "tide", "14:20")]),
    Message.system("Be brief."),
]


@given(st.lists(st.sampled_from(POOL), max_size=10))
@settings(max_examples=60, deadline=None)
def test_any_conversation_is_rewritten_once(messages: list[Message]) -> None:
    clean = rewrite_leaks(messages, TOOLS)
    assert rewrite_leaks(clean.messages, TOOLS).messages == clean.messages
    before = {part.id for part in calls_of(messages)}
    made = [part.id for part in calls_of(clean.messages) if part.id not in before]
    answered = [part.call_id for each in clean.messages for part in each.parts if isinstance(part, ToolResult)]
    assert len(set(made)) == len(made) and set(made) <= set(answered), "every new call has a result"
    assert [each.place for each in clean.rewrites] == sorted({each.place for each in clean.rewrites})
    # What the user and the tools said stays, except for notices.
    kept = [each for each in messages if each.role in ("system", "tool") or each == POOL[0]]
    assert [each for each in clean.messages if each in kept] == kept


# ---- a conversation that comes again with every request


class _Counted:
    """Counts the readings of texts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(leaks, "extract", self._extract)

    def _extract(self, *given: Any, **named: Any) -> Any:
        self.count += 1
        return extract(*given, **named)


SPOKEN = {
    "words": lambda n: [Message.assistant(f"Done with {n}."), GO_ON],
    "leaks": lambda n: [Message.assistant(f"Now {n}.\n{_LEAK}"), GO_ON],
    "the same leak": lambda n: [Message.assistant(_LEAK), GO_ON],
    "copies": lambda n: [
        Message("assistant", [Text(f"Step {n}: {_LEAK}"), ToolCall(f"c{n}", "tide", {"harbour": "Esbjerg"})]),
        Message("tool", [ToolResult(f"c{n}", "tide", "14:20")]),
    ],
    "notices": lambda n: [
        Message.assistant(f"Sure ({n}):\n\n{FENCE}"),
        POOL[4],
        Message("assistant", [ToolCall(f"c{n}", "tide", {"harbour": "Esbjerg"})]),
        Message("tool", [ToolResult(f"c{n}", "tide", "14:20")]),
    ],
}


def test_a_session_reads_each_turn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every request has all turns before it. Without a memory, n turns cost n * n / 2 readings."""
    counted = _Counted(monkeypatch)
    for name, speak in SPOKEN.items():
        spent = []
        for turns in (10, 20):
            memory, counted.count = TurnMemory(), 0
            messages = [Message.user("When?")]
            for number in range(turns):
                messages += speak(number)
                # A client decodes its conversation anew for each request.
                again = msgspec.convert(msgspec.to_builtins(messages), list[Message])
                tools = [msgspec.structs.replace(tool, parameters=dict(tool.parameters)) for tool in TOOLS]
                rewrite_leaks([*again, GO_ON], tools, memory=memory)
            spent.append(counted.count)
        assert spent[0] and spent[1] == 2 * spent[0] <= 4 * 20, (name, spent)


SHARED = TurnMemory(20_000)


@given(st.lists(st.sampled_from(POOL), max_size=10))
@settings(max_examples=60, deadline=None)
def test_a_memory_changes_no_decision(messages: list[Message]) -> None:
    for place in range(len(messages) + 1):
        part = messages[:place]
        assert rewrite_leaks(part, TOOLS, memory=SHARED) == rewrite_leaks(part, TOOLS), part


def test_what_is_kept_counts_only_for_the_same_tools_and_the_same_messages_before() -> None:
    memory = TurnMemory()
    page = Message("tool", [ToolResult("p", "open_lock", f"The page says {_LEAK}")])
    asked = Message("assistant", [ToolCall("p", "open_lock", {"number": 1})])
    own, copied = history(_LEAK), [Message.user("When?"), asked, page, Message.assistant(_LEAK), GO_ON]
    other = [Tool("tide", "", {"type": "object", "properties": {"port": {"type": "string"}}, "required": ["port"]})]
    for _ in range(2):
        assert rewrite_leaks(own, TOOLS, memory=memory).rewrites
        assert not rewrite_leaks(copied, TOOLS, memory=memory).rewrites, "the echo guard reads the page"
        assert not rewrite_leaks(own, other, memory=memory).rewrites
        assert rewrite_leaks(own, TOOLS, trust="strict", memory=memory) == rewrite_leaks(own, TOOLS, trust="strict")
        assert rewrite_leaks(own, TOOLS, aliases={"x": "tide"}, memory=memory).rewrites


def test_a_memory_has_a_limit_and_accepts_any_text() -> None:
    memory = TurnMemory(10_000)
    for number in range(200):
        text = f"{number} " * 20
        rewrite_leaks(history(text, "x" * 20_000, "\ud800", f"\ud800{_LEAK}"), TOOLS, memory=memory)
        rewrite_leaks(history(text), [Tool(f"tool_{number}")], memory=memory)
    assert memory.size <= 10_000 and len(memory) < 40
