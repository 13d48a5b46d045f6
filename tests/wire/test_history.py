"""Conversations arranged for a wire: paired, ordered, named; and everything that changed is said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.types import Fault, File, Image, InvalidCall, Message, Text, Thinking, ToolCall, ToolResult
from dragoman.wire.aliases import PLAIN_NAMES, Identifier, IdRule, Namer, NameRule, shorten
from dragoman.wire.history import History, HistoryRules, arrange
from dragoman.wire.quirks import Quirks

FREE = HistoryRules("here")
STRICT = HistoryRules("here", system="front", merges=True, first_user=True)


def run(messages: list[Message], rules: HistoryRules = FREE, quirks: Quirks = Quirks()) -> History:  # noqa: B008
    return arrange(messages, rules, Namer(rules.names, []), quirks)


def user(*texts: str) -> Message:
    return Message("user", [Text(text) for text in texts])


def calling(*ids: str, text: str = "") -> Message:
    said: list[Any] = [Text(text)] if text else []
    return Message("assistant", [*said, *(ToolCall(id, f"tool_{id}", {}) for id in ids)])


def results(*ids: str) -> Message:
    return Message("tool", [ToolResult(id, "", f"result {id}") for id in ids])


def outline(history: History) -> list[tuple[str, list[str]]]:
    """Role, and for each part what it is and what it says."""
    return [(message.role, [_word(part) for part in message.parts]) for message in history.messages]


def _word(part: Any) -> str:
    if isinstance(part, ToolCall | InvalidCall):
        return f"call {part.id}"
    if isinstance(part, ToolResult):
        return f"{'error' if part.is_error else 'result'} {part.call_id}"
    if isinstance(part, Image | File):
        return type(part).__name__.lower()
    return str(part.text)


def said(history: History) -> list[str]:
    return [str(loss) for loss in history.losses]


# ---- pairing ---------------------------------------------------------------------------------------------------------


def test_results_come_in_one_message_in_the_order_of_the_calls() -> None:
    history = run([user("go"), calling("a", "b", "c"), results("c"), results("a", "b"), user("on")])
    assert outline(history)[1:] == [
        ("assistant", ["call a", "call b", "call c"]),
        ("tool", ["result a", "result b", "result c"]),
        ("user", ["on"]),
    ]
    assert history.losses == []


def test_results_move_up_in_front_of_what_the_user_said_meanwhile() -> None:
    history = run([user("go"), calling("a"), user("hurry"), results("a")])
    assert outline(history) == [
        ("user", ["go"]),
        ("assistant", ["call a"]),
        ("tool", ["result a"]),
        ("user", ["hurry"]),
    ]


def test_a_call_without_a_result_is_answered() -> None:
    history = run([user("go"), calling("a", "b"), results("b"), user("on")])
    assert outline(history)[2] == ("tool", ["error a", "result b"])
    result = history.messages[2].parts[0]
    assert isinstance(result, ToolResult)
    assert result.content == "not executed: interrupted"
    assert said(history) == ["message 1: call a of tool_a had no result: not executed: interrupted"]


def test_a_result_without_a_call_becomes_words() -> None:
    history = run([user("go"), results("gone"), user("on")])
    assert [role for role, _ in outline(history)] == ["user", "user", "user"]
    assert "result gone" in outline(history)[1][1][0]
    assert said(history) == ["message 1: a result without its call became user text"]


def test_a_second_result_for_the_same_call_becomes_words() -> None:
    history = run([user("go"), calling("a"), results("a", "a")])
    assert [role for role, _ in outline(history)] == ["user", "assistant", "tool", "user"]


def test_ids_that_come_again_in_every_turn_are_told_apart() -> None:
    turns = [user("go"), calling("call_1"), results("call_1"), calling("call_1"), results("call_1")]
    history = run(turns)
    ids = [part.id for message in history.messages for part in message.parts if isinstance(part, ToolCall)]
    answered = [part.call_id for message in history.messages for part in message.parts if isinstance(part, ToolResult)]
    assert len(set(ids)) == 2
    assert ids == answered
    assert history.losses == []


def test_results_without_ids_find_their_calls_by_name_and_order() -> None:
    calls = Message("assistant", [ToolCall("1", "a", {}), ToolCall("2", "b", {}), ToolCall("3", "a", {})])
    answers = Message(
        "tool", [ToolResult("", "a", "first"), ToolResult("", "a", "third"), ToolResult("", "b", "second")]
    )
    history = run([user("go"), calls, answers])
    found = [(part.call_id, part.content) for part in history.messages[2].parts if isinstance(part, ToolResult)]
    assert found == [("1", "first"), ("2", "second"), ("3", "third")]


def test_a_call_that_could_not_be_read_is_answered_with_its_own_words() -> None:
    broken = InvalidCall("a", "search", '{"q": "x', (Fault("$", "cut off"),))
    history = run([user("go"), Message("assistant", [broken])])
    result = history.messages[2].parts[0]
    assert isinstance(result, ToolResult)
    assert result.is_error
    assert '{"q": "x' in str(result.content)
    assert "cut off" in str(result.content)


# ---- order and place -------------------------------------------------------------------------------------------------


def test_text_behind_a_call_is_put_before_it_where_it_must_be() -> None:
    talk = Message("assistant", [ToolCall("a", "t", {}), Text("afterwards")])
    moved = run([user("go"), talk, results("a")])
    assert outline(moved)[1] == ("assistant", ["afterwards", "call a"])
    assert said(moved) == ["message 1: text after a call was moved before it"]
    kept = run([user("go"), talk, results("a")], HistoryRules("here", text_after_calls=True))
    assert outline(kept)[1] == ("assistant", ["call a", "afterwards"])
    assert kept.losses == []


def test_system_messages_are_handed_out_apart_and_later_ones_become_words() -> None:
    history = run(
        [
            Message("system", [Text("one")]),
            Message("system", [Text("two")]),
            user("go"),
            Message("system", [Text("three")]),
        ],
        STRICT,
    )
    assert [part.text for part in history.system] == ["one", "two"]
    assert outline(history) == [("user", ["go", "<system>\nthree\n</system>"])]
    assert said(history) == ["message 3: a later system message became labelled user text"]


def test_neighbours_of_one_role_are_merged_where_the_wire_wants_turns() -> None:
    history = run(
        [user("one"), user("two"), Message("assistant", [Text("yes")]), Message("assistant", [Text("no")])], STRICT
    )
    assert outline(history) == [("user", ["one", "two"]), ("assistant", ["yes", "no"])]


def test_a_conversation_begins_with_the_user_where_it_must() -> None:
    history = run([Message("assistant", [Text("welcome")]), user("hi")], STRICT)
    assert [message.role for message in history.messages] == ["user", "assistant", "user"]
    assert said(history) == ["history: a first user message, without which the wire takes no conversation"]


def test_a_bridge_stands_between_results_and_the_user_where_it_must() -> None:
    history = run([user("go"), calling("a"), results("a"), user("on")], HistoryRules("here", bridges_results=True))
    assert [message.role for message in history.messages] == ["user", "assistant", "tool", "assistant", "user"]


# ---- what a wire cannot carry ----------------------------------------------------------------------------------------


def test_images_of_results_go_behind_the_whole_group() -> None:
    answers = Message(
        "tool",
        [ToolResult("a", "", [Text("look"), Image(None, "AAAA", "image/png")]), ToolResult("b", "", "fine")],
    )
    history = run([user("go"), calling("a", "b"), answers])
    assert outline(history)[2:] == [
        ("tool", ["result a", "result b"]),
        ("user", ["[image of the result of tool_a (a)]", "image"]),
    ]
    assert said(history) == ["message 1: the image of the result of tool_a (a) went into a user message"]
    kept = run([user("go"), calling("a", "b"), answers], HistoryRules("here", result_images=True))
    assert len(kept.messages) == 3
    assert kept.losses == []


@pytest.mark.parametrize(
    ("quirks", "expected"),
    [
        (Quirks(), ["hi"]),
        (Quirks(foreign_reasoning="text"), ["<previous_reasoning>\nhm\n</previous_reasoning>", "hi"]),
    ],
)
def test_reasoning_of_another_wire_is_dropped_or_kept_as_words(quirks: Quirks, expected: list[str]) -> None:
    talk = Message("assistant", [Thinking("hm", {"there": {"signature": "s"}}), Text("hi")])
    history = run([user("go"), talk], quirks=quirks)
    assert outline(history)[1] == ("assistant", expected)
    assert len(history.losses) == 1


def test_reasoning_of_this_wire_is_kept_untouched() -> None:
    thinking = Thinking("hm", {"here": {"signature": "s"}})
    history = run([user("go"), Message("assistant", [thinking, Text("hi")])])
    assert history.messages[1].parts[0] is thinking
    assert history.losses == []


def test_opaque_data_of_another_wire_is_reported() -> None:
    call = ToolCall("a", "t", {}, extra={"gemini": {"thought_signature": "s"}})
    history = run([user("go"), Message("assistant", [call]), results("a")])
    assert said(history) == ["message 1: data that only gemini understands was left out: thought_signature"]


def test_a_message_of_another_kind_is_refused_with_the_way_to_read_it() -> None:
    with pytest.raises(ConfigError) as caught:
        run([{"role": "user", "content": "hi"}])  # type: ignore[list-item]
    assert "message 0" in str(caught.value)
    assert "decode_request" in caught.value.next_step


# ---- names and ids ---------------------------------------------------------------------------------------------------


def test_names_that_fit_stay_and_others_are_rewritten_and_unique() -> None:
    namer = Namer(PLAIN_NAMES, ["a_b", "a.b", "a/b", "x" * 70])
    assert namer.name("a_b") == "a_b"
    written = [namer.name(name) for name in ("a.b", "a/b", "x" * 70)]
    assert len({*written, "a_b"}) == 4
    assert all(len(name) <= 64 for name in written)
    assert {namer.back[name] for name in written} == {"a.b", "a/b", "x" * 70}


def test_the_same_name_is_always_rewritten_the_same_way() -> None:
    assert Namer(PLAIN_NAMES, ["q.r"]).name("q.r") == Namer(PLAIN_NAMES, ["z", "q.r"]).name("q.r")


def test_a_name_that_must_not_begin_with_a_digit() -> None:
    rule = NameRule(r"[^a-zA-Z0-9_]", r"[a-zA-Z_][a-zA-Z0-9_]*", 64)
    assert Namer(rule, ["7zip"]).name("7zip") == "_7zip"


names = st.text(st.characters(blacklist_categories=("Cs",)), min_size=1, max_size=80)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.lists(names, max_size=6))
def test_names_always_fit_and_find_their_way_back(given_names: list[str]) -> None:
    namer = Namer(PLAIN_NAMES, given_names)
    written = [namer.name(name) for name in dict.fromkeys(given_names)]
    assert len(set(written)) == len(written)
    for ours, theirs in zip(dict.fromkeys(given_names), written, strict=True):
        assert 0 < len(theirs) <= 64
        assert theirs.replace("_", "a").replace("-", "a").isalnum()
        assert theirs.isascii()
        assert namer.back.get(theirs, theirs) == ours


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.lists(names | st.just(""), max_size=6))
def test_ids_always_fit_and_are_unique(given_ids: list[str]) -> None:
    identifier = Identifier(IdRule(r"[a-zA-Z0-9]{9}", 9))
    written = [identifier.identify(id) for id in given_ids]
    assert len(set(written)) == len(written)
    assert all(len(id) == 9 and id.isalnum() and id.isascii() for id in written)
    assert [identifier.back[id] for id in written] == given_ids


def test_a_new_id_costs_the_same_however_many_calls_have_the_same_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of a gateway could otherwise keep it busy for minutes with one small request."""
    made: list[str] = []

    def count(text: str, length: int) -> str:
        made.append(text)
        return shorten(text, length)

    monkeypatch.setattr("dragoman.wire.aliases.shorten", count)
    identifier = Identifier(IdRule(r"[a-zA-Z0-9]{9}", 9))
    assert len({identifier.identify("same") for _ in range(300)}) == 300
    assert len(made) <= 300


# ---- the law ---------------------------------------------------------------------------------------------------------

turns = st.one_of(
    st.builds(user, st.sampled_from(["hi", "go on", ""])),
    st.builds(lambda ids: calling(*ids), st.lists(st.sampled_from("abc"), max_size=3)),
    st.builds(lambda ids: results(*ids), st.lists(st.sampled_from("abcz"), max_size=3)),
    st.just(Message("system", [Text("be brief")])),
    st.just(Message("assistant", [Text("well")])),
)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(st.lists(turns, max_size=8), st.sampled_from([FREE, STRICT, HistoryRules("here", bridges_results=True)]))
def test_every_call_has_exactly_one_result_right_behind_it(messages: list[Message], rules: HistoryRules) -> None:
    arranged = run(messages, rules).messages
    for place, message in enumerate(arranged):
        ids = [part.id for part in message.parts if isinstance(part, ToolCall)]
        if ids:
            follower = arranged[place + 1]
            assert follower.role == "tool"
            assert [part.call_id for part in follower.parts if isinstance(part, ToolResult)] == ids
        if message.role == "tool":
            assert arranged[place - 1].role == "assistant"
    ids = [part.id for message in arranged for part in message.parts if isinstance(part, ToolCall)]
    assert len(set(ids)) == len(ids)
