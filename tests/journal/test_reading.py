"""The history that is read from the records of a run."""

from __future__ import annotations

import pytest
from tests.journal.support import turn

from dragoman.journal import Entry, Record, calls, open_calls, order_faults, was_ended


def records(*entries: Entry) -> list[Record]:
    return [
        Record(number, entry.kind, entry.body, entry.call_id, float(number), entry.calls)
        for number, entry in enumerate([Entry("run"), *entries])
    ]


PLANNED = Entry("reply", calls=("a", "b"))
STARTED = Entry("started", call_id="a")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([PLANNED], [("a", "planned"), ("b", "planned")]),
        ([PLANNED, Entry("approved", call_id="b")], [("a", "planned"), ("b", "approved")]),
        ([PLANNED, Entry("denied", call_id="a")], [("b", "planned")]),
        ([PLANNED, Entry("started", call_id="a")], [("a", "started"), ("b", "planned")]),
        ([PLANNED, Entry("started", call_id="a"), Entry("finished", call_id="a")], [("b", "planned")]),
        ([PLANNED, Entry("input", call_id="a")], [("b", "planned")]),
        ([PLANNED, Entry("delivered", calls=("a", "b"))], []),
        (turn("a", "b"), []),
        ([Entry("input", call_id="never planned")], []),
    ],
    ids=["planned", "approved", "denied", "started", "finished", "answered", "delivered", "all done", "only mentioned"],
)
def test_open_calls_are_those_without_an_answer(entries: list[Entry], expected: list[tuple[str, str]]) -> None:
    assert [(call.call_id, call.stage) for call in open_calls(records(*entries))] == expected


def test_a_call_knows_the_records_that_moved_it() -> None:
    trace = calls(records(*turn("a"), *turn("b")))
    assert trace["a"].records == (1, 2, 3, 4, 5)
    assert (trace["b"].stage, trace["b"].records) == ("delivered", (6, 7, 8, 9, 10))


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([Entry("started", call_id="a")], "record 1: call a is started, but was not planned"),
        ([PLANNED, Entry("finished", call_id="a")], "record 2: call a is finished, but was planned"),
        ([PLANNED, Entry("denied", call_id="a"), STARTED], "record 3: call a is started, but was denied"),
        ([*turn("a"), Entry("started", call_id="a")], "record 6: call a is started, but was delivered"),
        ([PLANNED, PLANNED], "record 2: call a is planned twice"),
        ([PLANNED, STARTED, Entry("delivered", calls=("a",))], "record 3: call a is delivered, but was started"),
        ([Entry("ended"), Entry("input")], "record 1: a record follows the end"),
        ([Entry("run")], "record 1: a second `run` record"),
    ],
    ids=["unplanned", "not started", "denied", "again", "planned twice", "no result", "behind the end", "beginning"],
)
def test_a_broken_order_is_named(entries: list[Entry], fault: str) -> None:
    assert fault in order_faults(records(*entries))


def test_a_sound_run_has_no_faults() -> None:
    assert order_faults(records(*turn("a", "b"), *turn("c"), *turn(), Entry("ended"))) == []
    assert order_faults([]) == ["record 0: a run begins with its `run` record"]


def test_only_the_last_record_ends_a_run() -> None:
    assert was_ended(records(Entry("ended")))
    assert not was_ended(records(Entry("reply")))
    assert not was_ended([])
