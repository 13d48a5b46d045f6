"""Every return value and every exception of a tool becomes one result."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import datetime
import enum
import math
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.errors import InvalidArguments, ToolFailed
from dragoman.tools import (
    MAX_OUTPUT,
    Answer,
    Error,
    Halt,
    Ok,
    answer_async,
    answer_sync,
    bind,
    run_async,
    run_sync,
    to_answer,
    to_result,
    tool,
    tool_from_function,
)
from dragoman.tools.results import MAX_IMAGE, cut_text
from dragoman.types import Fault, File, Image, Text, Tool, ToolCall, ToolResult

CALL = ToolCall("call_7", "it", {})
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Place:
    city: str
    when: datetime.date


class Point(NamedTuple):
    x: int
    y: int


class Item(msgspec.Struct, rename="camel"):
    long_name: str


class Model(pydantic.BaseModel):
    day: datetime.date


class Drawing:
    def _repr_png_(self) -> bytes:
        return PNG


class Undrawn:
    def _repr_png_(self) -> bytes:
        raise RuntimeError("no display")

    def __repr__(self) -> str:
        return "<undrawn>"


DAY = datetime.date(2024, 5, 1)


@each_row(
    ("value", "content", "data"),
    [
        ("as it is\n", "as it is\n", None),
        (None, "", None),
        (3, "3", 3),
        (True, "true", True),
        (0.5, "0.5", 0.5),
        (DAY, "2024-05-01", DAY),
        (Colour.RED, "red", Colour.RED),
        ({"ü": [1, None]}, '{"ü": [1, null]}', {"ü": [1, None]}),
        ([1, "a"], '[1, "a"]', [1, "a"]),
        ((1, 2), "[1, 2]", (1, 2)),
        pytest.param({"b", "a"}, '["a", "b"]', {"a", "b"}, id="a set"),
        (Place("Paris", DAY), '{"city": "Paris", "when": "2024-05-01"}', Place("Paris", DAY)),
        (Point(1, 2), '{"x": 1, "y": 2}', Point(1, 2)),
        (Item("x"), '{"longName": "x"}', Item("x")),
        (Model(day=DAY), '{"day": "2024-05-01"}', Model(day=DAY)),
        ({1: "a", None: "b", DAY: "c"}, '{"1": "a", "null": "b", "2024-05-01": "c"}', {1: "a", None: "b", DAY: "c"}),
        (("12 found", {"rows": 12}), "12 found", {"rows": 12}),
        (("Paris", 3), '["Paris", 3]', ("Paris", 3)),
        (Ok("shown", data=[1]), "shown", [1]),
        (Ok({"a": 1}), '{"a": 1}', {"a": 1}),
        (b"plain bytes", "plain bytes", None),
    ],
)
def test_a_value_becomes_text_for_the_model_and_data_for_the_caller(value: Any, content: str, data: Any) -> None:
    assert to_result(value, CALL) == ToolResult("call_7", "it", content, data=data)


IMAGE = Image(data=base64.b64encode(PNG).decode(), media_type="image/png")


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (PNG, [IMAGE]),
        (bytearray(PNG), [IMAGE]),
        (Drawing(), [IMAGE]),
        (IMAGE, [IMAGE]),
        ([Text("see"), IMAGE], [Text("see"), IMAGE]),
        (["see", PNG, Drawing()], [Text("see"), IMAGE, IMAGE]),
        (b"%PDF-1.7", [File("output.pdf", "JVBERi0xLjc=", media_type="application/pdf")]),
        (b"\xff\x00", [File("output.bin", "/wA=", media_type="application/octet-stream")]),
        (b"\xff\xd8\xff\xe0", [Image(data="/9j/4A==", media_type="image/jpeg")]),
        (b"RIFF1234WEBPVP8 ", [Image(data="UklGRjEyMzRXRUJQVlA4IA==", media_type="image/webp")]),
    ],
)
def test_images_and_files_become_parts(value: Any, content: list[Any]) -> None:
    assert to_result(value, CALL).content == content


def test_a_result_of_the_tools_own_is_passed_on_with_the_id_of_the_call() -> None:
    given = ToolResult("other", "other", "text", is_error=True, data=1)
    assert to_result(given, CALL) == ToolResult("call_7", "it", "text", is_error=True, data=1)


def test_results_of_mcp_servers_are_understood() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "resource", "resource": {"uri": "x:y", "text": "b"}}]
    served = {"content": blocks, "isError": True, "structuredContent": {"n": 1}}
    assert to_result(served, CALL) == ToolResult("call_7", "it", "a\nb", is_error=True, data={"n": 1})
    picture = SimpleNamespace(type="image", data="AAAA", mimeType="image/png")
    assert to_result(SimpleNamespace(content=[picture], isError=False), CALL).content == [
        Image(data="AAAA", media_type="image/png")
    ]
    assert to_result({"content": [1]}, CALL).content == '{"content": [1]}'


# ---- errors, halts -------------------------------------------------------------------------------------------------


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("problem", "content"),
    [
        (ValueError("no such city"), "ValueError: no such city"),
        (KeyError("city"), "KeyError: 'city'"),
        (TimeoutError(), "TimeoutError"),
        (Mute(), "Mute"),
        (SystemExit(3), "The tool tried to end the program (SystemExit: 3)."),
        (Error("no such city"), "no such city"),
        (Error(), "The tool failed and did not say why."),
        (ToolFailed("disk full"), "disk full"),
        (
            ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
            "ExceptionGroup: two (2 sub-exceptions)\n- ValueError: a\n- KeyError: 'b'",
        ),
        (ValueError("x" * 10_000), "ValueError: " + "x" * 3997 + "..."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_is_an_error_result_without_a_traceback(problem: BaseException, content: str) -> None:
    answer = to_answer(problem, CALL)
    assert answer == Answer(ToolResult("call_7", "it", content, is_error=True), problem=problem)


def test_the_model_receives_all_faults_of_the_arguments() -> None:
    problem = InvalidArguments("it", [Fault("$.a", "bad")])
    assert to_result(problem, CALL).content == problem.to_model()


def test_a_traceback_is_shown_when_asked_for() -> None:
    @tool
    def fail() -> None:
        raise ValueError("here")

    content = answer_sync(bind(fail, {}), CALL, traceback=True).result.content
    assert isinstance(content, str)
    assert content.startswith("ValueError: here\n\nTraceback")
    assert "in fail" in content


@pytest.mark.parametrize("raised", [True, False])
def test_an_error_marked_as_final_and_a_halt_end_the_run(raised: bool) -> None:
    def act(outcome: Any) -> Any:
        if raised:
            raise outcome
        return outcome

    def answered(outcome: Any) -> Answer:
        made = tool_from_function(lambda: act(outcome), {"name": "act"})
        return answer_sync(bind(made, {}), CALL)

    failed = answered(Error("no licence", retryable=False, data={"code": 7}))
    assert (failed.ends, failed.reason, failed.result.is_error) == ("failed", "no licence", True)
    assert failed.result.data == {"code": 7}
    assert answered(Error("busy")).ends is None

    halted = answered(Halt("out of budget"))
    assert (halted.ends, halted.reason, halted.result.is_error) == ("halted", "out of budget", False)
    assert halted.result.content == "The run was halted: out of budget"


# ---- hostile values ------------------------------------------------------------------------------------------------


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("hidden")


class Liar(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")

    keys = __iter__ = items


class Trap:
    @property
    def content(self) -> Any:
        raise RuntimeError("touched")


def cycle() -> list[Any]:
    items: list[Any] = [1]
    items.append({"again": items})
    return items


def deep() -> Any:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "content"),
    [
        (cycle(), '[1, {"again": "<contains itself>"}]'),
        ([Unshowable()], '["<Unshowable>"]'),
        (Undrawn(), "<undrawn>"),
        ({"nan": math.nan, "inf": -math.inf}, '{"nan": "nan", "inf": "-inf"}'),
        ("half \ud800 a character", "half \ufffd a character"),
        (["\udfff"], '["\ufffd"]'),
        (10**5000, hex(10**5000)),
        (Colour, "<enum 'Colour'>"),
        ({1: "a", "1": "b"}, '{"1": "a", "\'1\'": "b"}'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_shown_and_never_raises(value: Any, content: str) -> None:
    assert to_result(value, CALL).content == content


def test_nesting_without_end_is_cut() -> None:
    content = to_result(deep(), CALL).content
    assert isinstance(content, str)
    assert "<nested deeper than 100 levels>" in content


@pytest.mark.parametrize(
    "value", [Liar(a=1), Trap(), Mock(), object(), iter([1]), lambda: 1, deep, NotImplemented, type, memoryview(b"a")]
)
def test_any_object_has_a_result(value: Any) -> None:
    result = to_result(value, CALL)
    assert isinstance(result.content, str)
    assert result.content
    assert not result.is_error


def test_a_coroutine_that_nobody_awaited_is_an_error() -> None:
    async def later() -> None: ...

    assert to_result(later(), CALL).is_error


# ---- sizes ---------------------------------------------------------------------------------------------------------


@given(st.text(max_size=2000), st.integers(1, 1500))
def test_a_long_text_keeps_its_head_and_tail_within_the_limit(text: str, limit: int) -> None:
    cut = cut_text(text, limit)
    if len(text) <= limit:
        assert cut == text
        return
    head, note, tail = cut.partition("\n[... ")[0], "characters left out here", cut.rpartition(" ...]\n")[2]
    assert note in cut
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(cut) <= limit or limit < 200


def test_the_tool_says_how_much_the_model_is_shown_and_the_caller_gets_all() -> None:
    value = ["x" * 1000] * 1000
    result = to_result(value, CALL)
    assert len(result.content) <= MAX_OUTPUT
    assert result.data is value
    assert len(to_result(value, CALL, Tool("it", max_output=300)).content) <= 300
    assert len(to_result(value, CALL, Tool("it", max_output=400), max_output=300).content) > 300
    assert len(to_result(value, CALL, max_output=500).content) <= 500


def test_several_texts_share_the_limit_and_images_are_named_when_too_large() -> None:
    large = Image(data="A" * (MAX_IMAGE + 4), media_type="image/png")
    content = to_result([Text("a" * 250), Text("b" * 250), IMAGE, large], CALL, max_output=300).content
    first, second, third, last = content
    assert first == Text("a" * 250)
    assert isinstance(second, Text)
    assert "of 250 characters left out" in second.text
    assert third == IMAGE
    assert last == Text("[image left out: 15000003 bytes are too large to be sent]")


# ---- running -------------------------------------------------------------------------------------------------------


@tool
async def fetch(key: int) -> int:
    await asyncio.sleep(0)
    return key + 1


@tool
def count(upto: int) -> Iterator[int]:
    yield from range(upto)


@tool
async def words() -> AsyncIterator[str]:
    yield "one "
    yield "two"


@tool
def leave() -> None:
    raise SystemExit("bye")


@tool
def interrupt() -> None:
    raise KeyboardInterrupt


def test_sync_and_async_tools_run_in_either_world() -> None:
    assert asyncio.run(run_async(bind(fetch, {"key": 1}))) == 2
    assert run_sync(bind(fetch, {"key": 1}), asyncio.run) == 2
    assert asyncio.run(run_async(bind(count, {"upto": 3}))) == run_sync(bind(count, {"upto": 3})) == [0, 1, 2]
    assert run_sync(bind(words, {}), asyncio.run) == asyncio.run(run_async(bind(words, {}))) == "one two"
    assert [bind(each, {}).is_async for each in (words, leave)] == [True, False]


def test_an_async_tool_without_anybody_to_wait_is_an_error_and_no_warning() -> None:
    answer = answer_sync(bind(fetch, {"key": 1}), CALL)
    assert answer.result.is_error
    assert "async" in str(answer.result.content)


def test_leaving_the_program_is_contained_and_interrupting_it_is_not() -> None:
    assert answer_sync(bind(leave, {}), CALL).result.is_error
    assert asyncio.run(answer_async(bind(leave, {}), CALL)).result.is_error
    with pytest.raises(KeyboardInterrupt):
        answer_sync(bind(interrupt, {}), CALL)


def test_cancelling_passes_through() -> None:
    @tool
    async def hang() -> None:
        await asyncio.Event().wait()

    async def cancel() -> None:
        task = asyncio.create_task(answer_async(bind(hang, {}), CALL))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancel())
