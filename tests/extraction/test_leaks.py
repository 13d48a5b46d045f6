"""Leaked calls in a history become calls, so that a model does not learn their form from itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman import formats, wire
from dragoman.errors import CannotExpress
from dragoman.extraction import extract
from dragoman.extraction.leaks import NOT_RECEIVED, rewrite_leaks
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
