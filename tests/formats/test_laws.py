"""The laws that hold for every format of the catalogue, and for `auto`: a new row is under them by being there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.formats import strategies
from tests.formats.strategies import NAMES, PLAIN, TOOLS, Call
from tests.tables import each_row

from dragoman import formats
from dragoman.events import (
    ArgumentsDelta,
    CallBroken,
    CallEnded,
    CallRefused,
    CallStarted,
    Event,
    MarkerDropped,
    TextDelta,
    ThinkingDelta,
)
from dragoman.formats.registry import get
from dragoman.types import ToolCall

WAYS: dict[str, dict[str, Any]] = {
    **{name: {"format": name} for name in [*NAMES, "auto"]},
    "auto, loose": {"format": "auto", "loose": True},
    "auto, starting in thinking": {"format": "auto", "starts_in_thinking": True},
    "auto, more thinking": {"format": "auto", "more_thinking": True},
    "hermes, drafts ignored": {"format": "hermes", "calls_in_thinking": "ignore"},
    "qwen3_coder, loose": {"format": "qwen3_coder", "loose": True},
}
"""Every way to parse: by a named format or by looking for all of them, and with every option."""

every_format = pytest.mark.parametrize("name", NAMES)
every_way = pytest.mark.parametrize("way", WAYS)

_BASE = settings(
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
SOME = settings(_BASE, max_examples=12)
MANY = settings(_BASE, max_examples=1_000)
# One of many examples that fails is made smaller for up to five minutes.
SEARCH_LIMIT = 600

Law = Callable[[st.DataObject], None]


def hold(law: Law, examples: settings) -> None:
    """Try a law on examples."""
    examples(given(st.data())(law))()


# ---- looking at what came out ----------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """All that a caller may rely on, whatever the pieces."""

    text: str
    thinking: str
    calls: list[tuple[Any, ...]]
    refused: list[tuple[Any, ...]]
    broken: list[tuple[Any, ...]]
    arguments: dict[int, str]
    raw: str


def run(way: str, pieces: Iterable[str], tools: Any = TOOLS, rest: str = "") -> list[Event]:
    """The events of these pieces; `rest` is the last one, which the closing takes with it."""
    stage = formats.parser(tools=tools, **WAYS[way])
    events = [event for piece in pieces for event in stage.feed(piece)]
    return events + stage.close(rest)


def _account(call: ToolCall) -> tuple[Any, ...]:
    # repr tells 1 from 1.0 and from True, which == does not.
    return (
        call.id,
        call.name,
        repr(call.arguments),
        call.complete,
        call.known_tool,
        call.repairs,
        repr(call.changes),
        call.provenance,
        call.raw,
    )


def see(events: list[Event]) -> Seen:
    parsed = formats.fold(events)
    sure = {event.index for event in events if isinstance(event, CallEnded) and not event.call.repairs}
    arguments = dict.fromkeys(sorted(sure), "")
    for event in events:
        if isinstance(event, ArgumentsDelta) and event.index in sure:
            arguments[event.index] += event.text
    return Seen(
        parsed.text,
        parsed.thinking,
        [_account(call) for call in parsed.calls],
        [(*_account(refused.call), refused.why) for refused in parsed.refused],
        [(broken.raw, broken.why, broken.span, broken.format, broken.name, broken.is_cut) for broken in parsed.broken],
        arguments,
        raw_of(events),
    )


def raw_of(events: list[Event]) -> str:
    kinds = (TextDelta, ThinkingDelta, MarkerDropped, CallEnded, CallRefused, CallBroken)
    return "".join(event.raw for event in events if isinstance(event, kinds))


def check_account(text: str, events: list[Event]) -> None:
    """Conservation, honest spans, the order of events, and deltas that are what the call says."""
    assert raw_of(events) == text
    before = 0
    for event in events:
        if isinstance(event, CallEnded | CallRefused):
            assert event.call.provenance is not None
            start, end = event.call.provenance.span
            assert event.call.raw == text[start:end]
        elif isinstance(event, CallBroken):
            start, end = event.span
            assert event.raw == text[start:end]
        else:
            continue
        assert before <= start <= end
        before = end
    check_order(events)


def check_order(events: list[Event]) -> None:
    """A call that is announced is the next to end; its deltas stand between; indexes count up from 0."""
    announced: CallStarted | None = None
    written = ""
    ended = 0
    for event in events:
        if isinstance(event, CallStarted):
            assert announced is None
            assert event.index == ended
            announced, written = event, ""
        elif isinstance(event, ArgumentsDelta):
            assert announced is not None
            assert event.index == announced.index
            written += event.text
        elif isinstance(event, CallEnded):
            assert event.index == ended
            assert announced is not None
            assert (announced.name, announced.id) == (event.call.name, event.call.id)
            if not event.call.repairs and not event.call.changes:
                assert repr(json.loads(written)) == repr(event.call.arguments)
            announced, ended = None, ended + 1
        elif isinstance(event, CallBroken):
            assert event.index == (announced.index if announced else None)
            if announced is not None:
                announced, ended = None, ended + 1
        elif isinstance(event, CallRefused):
            assert announced is None
    assert announced is None


# ---- round trip ------------------------------------------------------------------------------------------------------


def check_round_trip(calls: list[Call], text: str, way: str) -> None:
    parsed = formats.parse(text, tools=TOOLS, **WAYS[way])
    assert [(call.name, repr(call.arguments)) for call in parsed.calls] == [
        (name, repr(given)) for name, given in calls
    ]
    assert (parsed.text.strip(), parsed.thinking, parsed.refused, parsed.broken) == ("", "", [], [])
    assert all(call.complete and call.known_tool for call in parsed.calls)


def round_trip(name: str) -> Law:
    def law(data: st.DataObject) -> None:
        calls = data.draw(strategies.calls(name))
        text = strategies.try_render(calls, name)
        if text is not None:
            check_round_trip(calls, text, name)
            check_round_trip(calls, text, "auto")

    return law


@every_format
def test_what_is_rendered_is_read_back_by_its_name_and_by_auto(name: str) -> None:
    hold(round_trip(name), SOME)


@pytest.mark.full
@pytest.mark.timeout(SEARCH_LIMIT)
@every_format
def test_what_is_rendered_is_read_back_however_odd(name: str) -> None:
    hold(round_trip(name), MANY)


def _writes_json(name: str) -> bool:
    row = get(name)
    return bool(row.template) and "{value}" not in row.template and row.notation == "json"


@pytest.mark.parametrize("name", [name for name in NAMES if _writes_json(name)])
def test_formats_that_write_json_carry_every_value(name: str) -> None:
    def law(data: st.DataObject) -> None:
        assert formats.render(data.draw(strategies.calls(name)), name)

    hold(law, SOME)


@each_row("values", PLAIN)
@each_row("name", NAMES)
def test_ordinary_calls_are_never_refused(name: str, values: str) -> None:
    calls = PLAIN[values]
    check_round_trip(calls, formats.render(calls, name), name)


@each_row("values", PLAIN)
@each_row("name", NAMES)
def test_auto_reads_what_every_format_writes(name: str, values: str) -> None:
    calls = PLAIN[values]
    check_round_trip(calls, formats.render(calls, name), "auto")


@pytest.mark.parametrize("value", ["\nab\n", "\r\nab\r\n", "\n", "\n\n", "ab\n", "\nab", "\na\n\nb\n\n"])
@pytest.mark.parametrize("name", ["glm45", "glm47", "anthropic_xml", "deepseek_v32", "minicpm5", "xml_elements"])
def test_line_ends_around_a_value_survive_without_a_frame(name: str, value: str) -> None:
    calls = [("search", {"query": value})]
    check_round_trip(calls, formats.render(calls, name), name)


_SHOWN = (
    '<function name="x"><parameter name="y">z</parameter></function>',
    "Write\n<tool_call>\n<function=x>\n<parameter=query>\nz\n</parameter>\n</function>\n</tool_call>\nand wait.",
    '<invoke name="x">\n<parameter name="query">z</parameter>\n<parameter name="b">c</parameter>\n</invoke>',
    "<tool_call>x<arg_key>k</arg_key><arg_value>z</arg_value></tool_call>",
)


@pytest.mark.parametrize("shown", _SHOWN)
@pytest.mark.parametrize("name", ["qwen3_coder", "anthropic_xml", "glm45"])
def test_a_call_that_a_value_shows_is_a_part_of_the_value(name: str, shown: str) -> None:
    text = formats.render([("search", {"query": "QQ", "limit": 3})], name).replace("QQ", shown)
    for way in (name, "auto"):
        check_round_trip([("search", {"query": shown, "limit": 3})], text, way)
        for size in (1, 7):
            check_pieces(text, way, [text[start : start + size] for start in range(0, len(text), size)], TOOLS)


@pytest.mark.parametrize("name", ["glm45", "anthropic_xml", "xml_elements"])
def test_a_value_on_lines_of_its_own_has_no_line_ends_around_it(name: str) -> None:
    text = formats.render([("search", {"query": "QQ"})], name).replace("QQ", "\nab\ncd\n")
    for way in (name, "auto"):
        check_round_trip([("search", {"query": "ab\ncd"})], text, way)
        for size in (1, 5):
            check_pieces(text, way, [text[start : start + size] for start in range(0, len(text), size)], TOOLS)


@each_row("values", [values for values in PLAIN if values not in ("code", "web page")])
@each_row("name", NAMES)
def test_windows_line_ends_between_the_parts_change_no_value(name: str, values: str) -> None:
    calls = PLAIN[values]
    text = formats.render(calls, name).replace("\n", "\r\n")
    check_round_trip(calls, text, name)
    check_round_trip(calls, text, "auto")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("\nab\n", "ab"),
        ("\r\nab\r\n", "ab"),
        ("ab\r\n", "ab"),
        ("\r\nab", "ab"),
        ("\r\nab\n", "ab"),
        ("\r\n\r\nab\r\n\r\n", "\r\nab\r\n"),
        ("\r\n\nab\n\r\n", "\nab\n"),
        ("\r\na\r\nb\r\n", "a\r\nb"),
        ("\r\n", ""),
        ("\r\n\r\n", ""),
        ("\rab\r", "\rab\r"),
        # A plain line feed in front says that a return behind is data: what is rendered must not lose it.
        ("\nab\r\n", "ab\r"),
    ],
)
def test_one_line_end_is_framing_on_each_side_of_a_value(value: str, read: str) -> None:
    text = f"<tool_call>\n<function=search>\n<parameter=query>{value}</parameter>\n</function>\n</tool_call>"
    for way in ("qwen3_coder", "mimo", "step3p5", "auto"):
        check_round_trip([("search", {"query": read})], text, way)
        check_pieces(text, way, [text[start : start + 5] for start in range(0, len(text), 5)], TOOLS)


@each_row("name", NAMES)
def test_prose_around_calls_is_the_text(name: str) -> None:
    if not strategies.has_openers(get(name)):
        return
    calls = PLAIN["two calls"]
    text = formats.render(calls, name)
    for way in (name, "auto"):
        parsed = formats.parse(f"Let me look.\n\n{text}\n\nThat is all.", way, TOOLS)
        assert [(call.name, call.arguments) for call in parsed.calls] == calls
        assert (parsed.text.split(), parsed.broken, parsed.refused) == (
            ["Let", "me", "look.", "That", "is", "all."],
            [],
            [],
        )


# ---- any chunking is the same as whole -------------------------------------------------------------------------------


def check_pieces(text: str, way: str, cuts: list[str], tools: Any) -> None:
    whole = run(way, [], tools, text)
    check_account(text, whole)
    expected = see(whole)
    for pieces, rest in (([text], ""), (list(text), ""), (cuts, ""), (cuts[:-1], cuts[-1])):
        events = run(way, pieces, tools, rest)
        check_order(events)
        assert see(events) == expected


def chunking(way: str) -> Law:
    def law(data: st.DataObject) -> None:
        text = data.draw(strategies.texts(WAYS[way]["format"]))
        tools = data.draw(st.sampled_from([TOOLS, None]))
        check_pieces(text, way, data.draw(strategies.cuts(text)), tools)

    return law


@every_way
def test_pieces_do_not_matter_and_nothing_is_lost(way: str) -> None:
    hold(chunking(way), SOME)


@pytest.mark.full
@pytest.mark.timeout(SEARCH_LIMIT)
@every_way
def test_pieces_do_not_matter_however_odd_the_text(way: str) -> None:
    hold(chunking(way), MANY)


ONCE_READ_DIFFERENTLY = [
    ("hermes", '<tool_call>{"name":"g","\ud800":{}}</l>'),
    ("hermes", '<tool_call>{"name":"e","arguments":{"s":\u20283}}</tool_call>'),
    ("json_message", "getweather{"),
    ("nemotron_toolcall", '<TOOLCALL>[{"":nullp'),
    ("apriel", "n\nHere are my reasoning steps:"),
    ("granite", "/thHere is my response:Sure!\nHere is my response:"),
    ("gemma4", '<|tool_call>e{h:<<|"|>e\n:><tool_call|>'),
    ("minicpm5", '<functionname="r"><paramname="h"></param><paramname="\u2028"></param></function><'),
    ("dots", "<invoke name=w><parameter name=\u2028></parameter></invoke>\n"),
    (
        "k2_horizon",
        f"<ifm|tool_call>e<ifm|arg_key>{'x' * 300}</ifm|arg_key></ifm|tool_call><ifm|tool_call>e</ifm|tool_call>",
    ),
    ("qwen3_coder", "<function=search>\r\n<parameter=query>\r\nab\r\n</parameter>\r\n</function>"),
    ("solar_open", "<|tool_call:begin|>{<|tool_call:name|>i<|tool_call:args|>{}<|tool_call:end|>"),
]


@pytest.mark.parametrize(("way", "text"), ONCE_READ_DIFFERENTLY)
def test_pieces_do_not_matter_where_they_once_did(way: str, text: str) -> None:
    for tools in (TOOLS, None):
        for size in (2, 3, 7):
            check_pieces(text, way, [text[start : start + size] for start in range(0, len(text), size)], tools)


@every_way
def test_every_cut_in_two_of_a_sample_is_the_same(way: str) -> None:
    for sample in strategies.samples(WAYS[way]["format"])[:2]:
        text = f"So:\n{sample}\nok"
        expected = see(run(way, [text]))
        for place in range(len(text) + 1):
            assert see(run(way, [text[:place], text[place:]])) == expected, place
            assert see(run(way, [text[:place]], rest=text[place:])) == expected, place


# ---- totality --------------------------------------------------------------------------------------------------------


def totality(way: str) -> Law:
    def law(data: st.DataObject) -> None:
        text = data.draw(strategies.soup(WAYS[way]["format"]))
        tools = data.draw(st.sampled_from([TOOLS, None, ()]))
        events = run(way, [text], tools)
        check_account(text, events)
        assert see(run(way, [text[start : start + 3] for start in range(0, len(text), 3)], tools)) == see(events)

    return law


@every_way
def test_no_text_raises(way: str) -> None:
    hold(totality(way), SOME)


@pytest.mark.full
@pytest.mark.timeout(SEARCH_LIMIT)
@every_way
def test_no_text_raises_however_odd(way: str) -> None:
    hold(totality(way), MANY)


@every_way
def test_a_call_that_is_cut_off_is_none(way: str) -> None:
    for sample in strategies.samples(WAYS[way]["format"])[:3]:
        complete = [(call.name, call.arguments) for call in formats.fold(run(way, [sample])).calls]
        for end in range(len(sample)):
            parsed = formats.fold(run(way, [sample[:end]]))
            # A call that lacks only its end counts if the reply ended normally, which the parser does not know.
            calls = [(call.name, call.arguments) for call in parsed.calls if "closed_wrapper" not in call.repairs]
            assert calls == complete[: len(calls)], sample[:end]
