"""Compaction: what is removed first, what stays, and that a call and its result stay together."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman import wire
from dragoman.agent.context import Compaction, ContextBudget, Summarise, TrimOldResults
from dragoman.errors import ConfigError
from dragoman.providers import WIRES
from dragoman.providers.tokens import Estimate
from dragoman.types import Image, Message, Part, Request, Text, Tool, ToolCall, ToolResult

SYSTEM = Message("system", [Text("You are careful.")])
TASK = Message("user", [Text("Find the leak.")])


def budget(target: int, *tools: Tool) -> ContextBudget:
    return ContextBudget(target, Estimate(), tools)


def turn(number: int, *answers: str, pinned: bool = False) -> list[Message]:
    """An assistant message with one call for each answer, and their results."""
    names = [f"c{number}_{index}" for index in range(len(answers))]
    calls: list[Part] = [ToolCall(name, "read", {"path": name}) for name in names]
    results: list[Part] = [ToolResult(name, "read", answer) for name, answer in zip(names, answers, strict=True)]
    return [Message("assistant", calls), Message("tool", results, {"pinned": True} if pinned else {})]


def conversation(*sizes: int) -> list[Message]:
    return [SYSTEM, TASK, *(message for number, size in enumerate(sizes) for message in turn(number, "x" * size))]


def compact(messages: list[Message], target: int, **settings: int) -> Compaction:
    return TrimOldResults(**settings)(messages, budget(target))


def contents(messages: list[Message]) -> list[str]:
    return [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResult) and isinstance(part.content, str)
    ]


# ---- trimming ------------------------------------------------------------------------------------------------------


def test_what_fits_stays_as_it_is() -> None:
    messages = conversation(5000, 5000, 5000, 5000)
    made = compact(messages, 100_000)
    assert made == Compaction(messages, [], True)


def test_old_results_are_trimmed_to_their_beginning_and_recent_ones_stay() -> None:
    messages = [SYSTEM, TASK, *turn(0, "The first line.\n" + "x" * 40_000), *turn(1, "y" * 900), *turn(2, "z" * 900)]
    made = compact(messages, 2000, keep_turns=2)
    assert made.fits
    assert contents(made.messages) == [
        "[result trimmed: 40,016 characters, began with: The first line. " + "x" * 144 + "]",
        "y" * 900,
        "z" * 900,
    ]
    assert made.losses == ["old results of one turn were trimmed by 39,807 characters"]


def test_large_results_go_before_small_ones_and_old_before_new() -> None:
    messages = conversation(1500, 9000, 1500, 9000, 100, 100, 100)
    seen = [
        ["x" in text and len(text) for text in contents(compact(messages, target).messages)] for target in (4600, 1900)
    ]
    first, second = seen
    assert first == [1500, first[1], 1500, 9000, 100, 100, 100] and first[1] < 300
    assert second == [1500, first[1], 1500, first[1], 100, 100, 100]


def test_images_in_old_results_are_replaced_by_a_note() -> None:
    picture = Image(data="A" * 4000, media_type="image/png")
    seen = Message("assistant", [ToolCall("p", "screenshot", {})])
    shown = Message("tool", [ToolResult("p", "screenshot", [Text("the page"), picture])])
    made = compact([TASK, seen, shown, *turn(0, "a"), *turn(1, "b"), *turn(2, "c")], 500)
    assert made.fits and contents(made.messages)[0] == "the page\n[image left out to save room]"


def test_trimming_twice_changes_nothing_more() -> None:
    messages = conversation(*[30_000] * 6)
    made = compact(messages, 30_000)
    assert compact(made.messages, 30_000) == Compaction(made.messages, [], True)


# ---- leaving out ---------------------------------------------------------------------------------------------------


def test_old_turns_go_together_with_their_results_and_leave_one_note() -> None:
    messages = conversation(*[300] * 40)
    made = compact(messages, 2000)
    assert made.fits and made.messages[:2] == [SYSTEM, TASK]
    note = made.messages[2]
    assert note.role == "user"
    gone = len(messages) - len(made.messages) + 1
    assert note.text == f"[{gone} earlier messages left out here to save room; called were: read {gone // 2} times]"
    assert made.messages[3:] == messages[2 + gone :]
    assert made.losses == [f"{gone} old messages were left out"]


def test_a_second_time_there_is_still_one_note_and_it_counts_all() -> None:
    made = compact(conversation(*[300] * 40), 2000)
    later = [*made.messages, *(message for number in range(40, 60) for message in turn(number, "x" * 300))]
    again = compact(later, 2000)
    notes = [message for message in again.messages if "compacted" in message.extra]
    assert again.fits and len(notes) == 1
    total = 2 + 2 * 60
    assert notes[0].extra["compacted"]["messages"] == total - (len(again.messages) - 1)


def test_pinned_messages_stay_byte_for_byte_and_bring_their_partners() -> None:
    pinned = turn(1, "p" * 3000, pinned=True)
    rule = Message("user", [Text("Never touch main.")], {"pinned": True})
    messages = [SYSTEM, TASK, *turn(0, "x" * 3000), *pinned, rule, *conversation(*[3000] * 9)[2:]]
    made = compact(messages, 3500)
    assert [message for message in made.messages if message in (*pinned, rule)] == [*pinned, rule]
    assert "x" * 3000 not in contents(made.messages)[:1]


def test_the_first_and_the_last_message_of_the_user_stay() -> None:
    first, last = Message("user", [Text("first " * 50)]), Message("user", [Text("last " * 50)])
    middle = Message("user", [Text("middle " * 50)])
    messages = [first, *turn(0, "a" * 500), middle, *turn(1, "b" * 500), last, *turn(2, "c"), *turn(3, "d")]
    made = compact(messages, 400)
    assert first in made.messages and last in made.messages and middle not in made.messages


def test_results_that_come_late_keep_everything_between_them_and_their_call_together() -> None:
    early = Message("assistant", [Text("First I build it. " * 60), ToolCall("late", "build", {})])
    late = Message("tool", [ToolResult("late", "build", "built")])
    messages = [
        TASK,
        early,
        *turn(0, "a" * 600),
        late,
        *turn(1, "b" * 600),
        *turn(2, "c"),
        *turn(3, "d"),
        *turn(4, "e"),
    ]
    for target in range(60, 900, 20):
        made = compact(messages, target)
        assert (early in made.messages) == (late in made.messages)
        assert unpaired(made.messages) == 0


def test_ids_that_come_again_in_every_turn_pair_with_their_own_turn() -> None:
    messages = [TASK]
    for number in range(12):
        messages += [
            Message("assistant", [ToolCall("call_1", "read", {"n": number})]),
            Message("tool", [ToolResult("call_1", "read", f"{number} " * 200)]),
        ]
    made = compact(messages, 800)
    assert made.fits and unpaired(made.messages) == 0
    assert made.messages[-1] == messages[-1]


def test_a_note_is_not_put_where_it_would_be_longer_than_what_it_stands_for() -> None:
    tiny = [Message("assistant", [Text("ok")]), Message("assistant", [Text("ok")])]
    messages = [TASK, tiny[0], Message("user", [Text("word " * 400)]), tiny[1]]
    made = compact(messages, 100)
    assert made.messages == messages and not made.fits


# ---- when it does not fit ------------------------------------------------------------------------------------------


def test_recent_turns_lose_their_rank_before_the_run_is_given_up() -> None:
    made = compact(conversation(20_000, 20_000, 300), 1000, keep_turns=3)
    assert made.fits and contents(made.messages)[-1] == "x" * 300


def test_a_last_result_that_is_too_long_is_cut_in_the_middle() -> None:
    messages = [SYSTEM, TASK, *turn(0, "head " + "x" * 60_000 + " tail")]
    made = compact(messages, 4000)
    (content,) = contents(made.messages)
    assert made.fits and content.startswith("head ") and content.endswith(" tail") and "left out here" in content
    assert len(content) > 6000, "what fits is kept"
    assert made.losses == [f"results of the last turn were cut to {made.losses[0].split()[-3]} characters each"]


def test_what_cannot_fit_is_said() -> None:
    messages = [SYSTEM, Message("user", [Text("x" * 40_000)]), *turn(0, "y" * 10_000)]
    made = compact(messages, 1000)
    assert not made.fits and made.losses[-1].startswith("still about ")
    assert compact(made.messages, 1000).messages == made.messages


def test_tools_take_room_too() -> None:
    tool = Tool("read", "d" * 8000)
    messages = conversation(*[1000] * 10)
    free = TrimOldResults()(messages, budget(4000))
    tight = TrimOldResults()(messages, budget(4000, tool))
    assert free.fits and tight.fits
    assert Estimate().count(tight.messages, [tool]) <= 4000 < Estimate().count(free.messages, [tool])


@pytest.mark.parametrize("settings", [{"keep_turns": 0}, {"keep_head": -1}, {"large": -1}], ids=str)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        TrimOldResults(**settings)


# ---- laws ----------------------------------------------------------------------------------------------------------

words = st.sampled_from(
    ["", "short", "a line of text. " * 30, "你好，世界。" * 200, "{" + '"key": 1, ' * 300 + "}", "x" * 9000]
)
answers = st.one_of(words, words.map(lambda text: [Text(text), Image(data="AAAA", media_type="image/png")]))


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    messages = [SYSTEM, TASK] if draw(st.booleans()) else [TASK]
    for number in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["calls", "calls", "calls", "text", "user", "pinned", "dangling", "split"]))
        extra = {"pinned": True} if kind == "pinned" else {}
        if kind == "text":
            messages.append(Message("assistant", [Text(draw(words) or "so")]))
        elif kind == "user":
            messages.append(Message("user", [Text(draw(words) or "and?")]))
        else:
            names = [f"c{number}_{index}" for index in range(draw(st.integers(1, 3)))]
            calls: list[Part] = [ToolCall(name, "read", {"path": name}) for name in names]
            found: list[Part] = [
                ToolResult(name, "read", draw(answers), is_error=draw(st.booleans())) for name in names
            ]
            messages.append(Message("assistant", [Text("let me look"), *calls], extra if draw(st.booleans()) else {}))
            if kind == "dangling":
                found = found[1:]
            if kind == "split":
                messages += [Message("tool", [part]) for part in found]
            elif found:
                messages.append(Message("tool", found, extra))
    return messages


def unpaired(messages: list[Message]) -> int:
    """Calls without results and results without calls, as a wire sees them."""
    losses = wire.get("openai_chat").prepare(Request("m", messages)).losses
    return sum("had no result" in loss.detail or "without its call" in loss.detail for loss in losses)


@given(conversations(), st.integers(20, 8000), st.integers(1, 4))
def test_after_any_compaction_the_laws_hold(messages: list[Message], target: int, keep_turns: int) -> None:
    given = budget(target)
    before = [msgspec.json.encode(message) for message in messages]
    compactor = TrimOldResults(keep_turns=keep_turns)
    made = compactor(messages, given)
    assert [msgspec.json.encode(message) for message in messages] == before, "the given messages are not touched"
    assert given.count(made.messages) <= given.count(messages), "it never grows"
    assert made.fits == (Estimate().count(made.messages) <= target), "the target is respected, or it is said"
    assert made.fits or made.losses
    after = [msgspec.json.encode(message) for message in made.messages]
    stays = [m for m in messages if m.role == "system" or m is TASK or m.extra.get("pinned")]
    assert [m for m in after if m in set(map(msgspec.json.encode, stays))] == list(map(msgspec.json.encode, stays))
    assert unpaired(made.messages) <= unpaired(messages), "no pair is torn"
    again = compactor(made.messages, given)
    assert again.messages == made.messages, "twice is as once"


@pytest.mark.parametrize("name", WIRES)
@given(conversations())
def test_pairs_stay_whole_on_every_wire(name: str, messages: list[Message]) -> None:
    made = TrimOldResults()(messages, budget(500))
    codec = wire.get(name)
    torn = ("had no result", "without its call")
    before = [loss for loss in codec.prepare(Request("m", messages)).losses if any(t in loss.detail for t in torn)]
    after = [loss for loss in codec.prepare(Request("m", made.messages)).losses if any(t in loss.detail for t in torn)]
    assert len(after) <= len(before)


# ---- summaries -----------------------------------------------------------------------------------------------------


class Model:
    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer
        self.asked: list[list[Message]] = []

    async def __call__(self, messages: list[Message]) -> str:
        self.asked.append(messages)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def summarise(messages: list[Message], target: int, model: Model) -> Compaction:
    return asyncio.run(Summarise(model)(messages, budget(target)))


def test_the_old_part_is_replaced_by_what_the_model_says_of_it() -> None:
    model = Model("The leak is not in a.c.")
    messages = conversation(*[2000] * 10)
    made = summarise(messages, 4000, model)
    assert made.fits and unpaired(made.messages) == 0
    assert made.messages[:2] == [SYSTEM, TASK]
    expected = "[Summary of 14 earlier messages, which were left out to save room]\nThe leak is not in a.c."
    assert made.messages[2].text == expected
    assert made.messages[3:] == messages[16:]
    assert made.losses == ["14 old messages were replaced by a summary"]
    ((request,),) = model.asked
    assert 'assistant called read with {"path": "c0_0"}' in request.text and "read answered: xxx" in request.text


def test_a_later_summary_takes_the_earlier_one_in() -> None:
    model = Model("first part")
    made = summarise(conversation(*[2000] * 10), 4000, model)
    later = [*made.messages, *(message for number in range(10, 18) for message in turn(number, "y" * 2000))]
    model.answer = "both parts"
    again = summarise(later, 4000, model)
    assert [message.text for message in again.messages if "compacted" in message.extra] == [
        "[Summary of 30 earlier messages, which were left out to save room]\nboth parts"
    ]
    assert "first part" in model.asked[1][0].text


def test_trimming_leaves_a_summary_alone() -> None:
    made = summarise(conversation(*[2000] * 10), 4000, Model("what was found out"))
    trimmed = compact(made.messages, 300)
    assert any("what was found out" in message.text for message in trimmed.messages)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (RuntimeError("no key"), "the summary failed (RuntimeError: no key)"),
        ("  ", "the summary failed (it was empty)"),
        ("long " * 20_000, ""),
    ],
    ids=["raises", "empty", "endless"],
)
def test_a_summary_that_fails_is_reported_and_the_conversation_fits_all_the_same(
    answer: str | Exception, why: str
) -> None:
    messages = conversation(*[2000] * 10)
    made = summarise(messages, 4000, Model(answer))
    assert made.fits and unpaired(made.messages) == 0
    assert made.losses[0] == why or not why


def test_a_summary_longer_than_what_it_stands_for_is_not_used() -> None:
    messages = [SYSTEM, TASK, *turn(0, "a"), *turn(1, "b"), *turn(2, "c"), *turn(3, "d" * 9000)]
    made = summarise(messages, 2000, Model("very long " * 100))
    assert made.losses[0] == "the summary failed (it was longer than the messages it replaces)" and made.fits


def test_nothing_is_asked_when_nothing_is_to_be_done_or_nothing_is_old() -> None:
    model = Model("unused")
    assert summarise(conversation(100), 4000, model).messages == conversation(100)
    assert summarise(conversation(90_000), 4000, model).fits
    assert model.asked == []
    with pytest.raises(ConfigError):
        Summarise(model, keep_turns=0)


def test_what_is_to_be_summarised_fits_into_the_window_itself() -> None:
    model = Model("short")
    summarise(conversation(*[2000] * 200), 4000, model)
    assert Estimate().count(model.asked[0]) < 2 * 4000


@given(conversations(), st.integers(100, 4000), st.sampled_from(["", "in short: nothing", "long " * 3000]))
def test_summaries_keep_the_laws(messages: list[Message], target: int, answer: str) -> None:
    made = summarise(messages, target, Model(answer))
    given = budget(target)
    assert given.count(made.messages) <= given.count(messages)
    assert made.fits == given.holds(made.messages)
    assert unpaired(made.messages) <= unpaired(messages)
    stays = [message for message in messages if message.role == "system" or message.extra.get("pinned")]
    assert [message for message in made.messages if message in stays] == stays
