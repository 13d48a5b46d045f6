"""Calls written in Python: lists, lines, markers around them, and what is no call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.odd_cases import write
from tests.tables import each_row

from dragoman.errors import CannotExpress
from dragoman.events import ArgumentsDelta, CallEnded
from dragoman.formats.catalogue.other_rows import PYTHON_ROWS
from dragoman.formats.parser import Parsed, Parser, fold
from dragoman.formats.plan import Plan
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

NAMES = ("pythonic", "lfm2", "olmo3", "llama3_builtin", "tool_code")
ROW = {row.name: row for row in PYTHON_ROWS if row.name in NAMES}
PLANS = {name: Plan([row], named=True) for name, row in ROW.items()}
UNNAMED = {name: Plan([row], named=False) for name, row in ROW.items()}

WEATHER = {
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
}
TOOLS = Toolset([WEATHER, {"name": "search"}, {"name": "grocery.order"}, {"name": "bash"}])

Calls = list[tuple[str, dict[str, Any]]]


def read(
    name: str, text: str, tools: Toolset | None = TOOLS, *, size: int = 0, plans: dict[str, Plan] = PLANS
) -> Parsed:
    parser = Parser(plans[name], tools)
    pieces = [text[start : start + size] for start in range(0, len(text), size)] if size else [text]
    events = [event for piece in pieces for event in parser.feed(piece)]
    return fold(events + parser.close())


def calls_of(parsed: Parsed) -> Calls:
    return [(call.name, call.arguments) for call in parsed.calls]


def outcome(parsed: Parsed) -> object:
    calls = [(call.name, call.arguments, call.repairs, call.raw) for call in parsed.calls]
    return parsed.text, parsed.thinking, calls, [(each.raw, each.why) for each in parsed.broken]


def received(parsed: Parsed) -> str:
    return "".join(getattr(event, "raw", "") for event in parsed.events)


OSLO: Calls = [("get_weather", {"city": "Oslo"})]
BOTH: Calls = [("get_weather", {"city": "Oslo"}), ("search", {})]

READ: list[tuple[str, str, Calls, str]] = [
    ("pythonic", '[get_weather(city="Oslo", days=-3)]', [("get_weather", {"city": "Oslo", "days": -3})], ""),
    ("pythonic", "[get_weather(city='Oslo'), search()]", BOTH, ""),
    ("pythonic", "I look. [get_weather(city='Oslo')] Done.", OSLO, "I look.  Done."),
    ("pythonic", "[get_weather(city='Oslo'),]", OSLO, ""),
    ("pythonic", "<|python_start|>[get_weather(city='Oslo')]<|python_end|>", OSLO, ""),
    ("pythonic", "<|python_start|>get_weather(city='Oslo')", OSLO, ""),
    ("pythonic", '<|python_start|>{"name": "search", "parameters": {}}<|python_end|>', [("search", {})], ""),
    (
        "pythonic",
        r"[search(query='it\'s', tags=[\"a]\"])]".replace('\\"', '"'),
        [("search", {"query": "it's", "tags": ["a]"]})],
        "",
    ),
    ("pythonic", '[search(text="""a "b" )] c""")]', [("search", {"text": 'a "b" )] c'})], ""),
    (
        "pythonic",
        "[search(pair=(1, 2), ok=True, none=None)]",
        [("search", {"pair": [1, 2], "ok": True, "none": None})],
        "",
    ),
    ("pythonic", "[get\\_weather(city='Oslo')]", OSLO, ""),
    ("pythonic", "[unheard_of(a=1)]", [("unheard_of", {"a": 1})], ""),
    ("lfm2", "<|tool_call_start|>[get_weather(city='Oslo'), search()]<|tool_call_end|>", BOTH, ""),
    (
        "lfm2",
        "<|tool_call_start|>[grocery.order(from='a')]<|tool_call_end|>ok",
        [("grocery.order", {"from": "a"})],
        "ok",
    ),
    (
        "lfm2",
        "<|tool_call_start|>[search(cmd='grep \"]\" x')]<|tool_call_end|>",
        [("search", {"cmd": 'grep "]" x'})],
        "",
    ),
    (
        "lfm2",
        "<|tool_call_start|>[search(q='<|tool_call_end|>')]<|tool_call_end|>",
        [("search", {"q": "<|tool_call_end|>"})],
        "",
    ),
    (
        "lfm2",
        '<|tool_call_start|>[{"name": "search", "arguments": {"q": 1}}]<|tool_call_end|>',
        [("search", {"q": 1})],
        "",
    ),
    ("lfm2", "<|tool_call_start|><|tool_call_end|>Hello", [], "Hello"),
    ("olmo3", '<function_calls>\nget_weather(city="Oslo")\nsearch()\n</function_calls>', BOTH, ""),
    ("olmo3", "<function_calls>search(a=true, b=null)</function_calls>", [("search", {"a": True, "b": None})], ""),
    ("olmo3", 'get_weather(city="Oslo")\nsearch()\n', BOTH, "\n"),
    ("llama3_builtin", '<|python_tag|>brave_search.call(query="x")<|eom_id|>', [("brave_search", {"query": "x"})], ""),
    ("llama3_builtin", 'On it. <|python_tag|>search(query="x")', [("search", {"query": "x"})], "On it. "),
    ("tool_code", "```tool_code\nprint(default_api.get_weather(city='Oslo'))\n```", OSLO, ""),
    ("tool_code", "Sure.\n```tool_code\nget_weather(city='Oslo')\nsearch()\n```\nBye", BOTH, "Sure.\n\nBye"),
    ("tool_code", "```tool_code\n# look\nr = get_weather(city='Oslo')\nprint(r)\n```", OSLO, ""),
    ("tool_code", '<tool_code>get_weather("Oslo")</tool_code>', OSLO, ""),
    ("tool_code", '```tool_code\n{"name": "search", "arguments": {}}\n```', [("search", {})], ""),
]

TEXT = [
    ("pythonic", "See [the list] and [a link](https://example.org)."),
    ("pythonic", "Let me try: ["),
    ("pythonic", "[get_weather]"),
    ("pythonic", "[get_weather(city='Oslo') and more]"),
    ("pythonic", "[unheard_of('positional')]"),
    ("pythonic", "[get_weather(city=nan)]"),
    ("pythonic", "[search(), 5]"),
    ("lfm2", "<|tool_call_start|>nothing<|tool_call_end|>"),
    ("olmo3", "<function_calls><invoke name='x'></invoke></function_calls>"),
    ("olmo3", "get_weather(city='Oslo') is what I would call."),
    ("olmo3", "unheard_of(city='Oslo')"),
    ("olmo3", "Now: get_weather(city='Oslo')"),
    ("llama3_builtin", "<|python_tag|>print('hello')"),
    ("tool_code", "Say ```tool_code\nsearch()\n```"),
    ("tool_code", "```tool_code\nimport os\n```"),
]

BROKEN = [
    ("pythonic", "[search(), get_weather(city='Os", [("search", {})]),
    ("lfm2", "<|tool_call_start|>[search(q='x", []),
    ("lfm2", "<|tool_call_start|>[search(q=1, q=2)]<|tool_call_end|>", []),
    ("lfm2", "<|tool_call_start|>[search('one', 'two')]<|tool_call_end|>", []),
    ("lfm2", "<|tool_call_start|>[search(q='one)]<|tool_call_end|>", []),
    ("olmo3", "<function_calls>search(q=nan)</function_calls>", []),
    ("tool_code", "```tool_code\nprint(search(q=1)\n```", []),
]

REPAIRED = [
    ("lfm2", "<|tool_call_start|>[bash(cmd='sed '1p' x')]<|tool_call_end|>", {"cmd": "sed '1p' x"}, "escaped_quotes"),
    ("lfm2", "<|tool_call_start|>[bash(cmd='it's')]<|tool_call_end|> it's", {"cmd": "it's"}, "escaped_quotes"),
    ("lfm2", "<|tool_call_start|>[bash(cmd=[1, 2]<|tool_call_end|>", {"cmd": [1, 2]}, "closed_brackets"),
    ("lfm2", "<|tool_call_start|>[bash(cmd=1)]", {"cmd": 1}, "closed_wrapper"),
    ("pythonic", "[bash(cmd=1)", {"cmd": 1}, "closed_wrapper"),
    ("pythonic", "[get_weather('Oslo', 3)]", {"city": "Oslo", "days": 3}, "positional_arguments"),
    ("pythonic", "[get_weather('Oslo', days=3)]", {"city": "Oslo", "days": 3}, "positional_arguments"),
    ("pythonic", '[bash({"cmd": 1})]', {"cmd": 1}, "object_as_arguments"),
    ("tool_code", "```tool_code\nr = bash(cmd=1)\nprint(r)\n```", {"cmd": 1}, "skipped_text"),
]

SAMPLES = sorted({(name, text) for name, text, *_ in [*READ, *TEXT, *BROKEN, *REPAIRED]})


@each_row(("name", "text", "calls", "rest"), READ)
def test_calls_are_read(name: str, text: str, calls: Calls, rest: str) -> None:
    parsed = read(name, text)
    assert (calls_of(parsed), parsed.text, parsed.broken) == (calls, rest, [])


@pytest.mark.parametrize(("name", "text"), TEXT)
def test_what_only_looks_like_a_call_is_text(name: str, text: str) -> None:
    parsed = read(name, text)
    assert (calls_of(parsed), parsed.text, parsed.broken) == ([], text, [])


@pytest.mark.parametrize(("name", "text", "calls"), BROKEN)
def test_a_call_that_cannot_be_read_is_broken(name: str, text: str, calls: Calls) -> None:
    parsed = read(name, text)
    assert calls_of(parsed) == calls
    assert len(parsed.broken) == 1
    assert text.endswith(parsed.broken[0].raw)


@pytest.mark.parametrize(("name", "text", "arguments", "rule"), REPAIRED)
def test_repairs_are_named(name: str, text: str, arguments: dict[str, Any], rule: str) -> None:
    (call,) = read(name, text).calls
    assert call.arguments == arguments
    assert rule in call.repairs


def test_good_python_needs_no_repair() -> None:
    (call,) = read("lfm2", "<|tool_call_start|>[search(a='x', b=True, c={'d': None})]<|tool_call_end|>").calls
    assert (call.repairs, call.changes) == ((), ())


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("[get_weather(city='Oslo')]", OSLO),
        ("Sure:\n  [get_weather(city='Oslo'), search()]\n", BOTH),
        ("Sure: [get_weather(city='Oslo')]", []),
        ("[unheard_of(city='Oslo')]", []),
        ("<|python_start|>[unheard_of()]<|python_end|>", [("unheard_of", {})]),
    ],
)
def test_unless_named_the_list_begins_a_line_and_names_offered_tools(text: str, calls: Calls) -> None:
    assert calls_of(read("pythonic", text, plans=UNNAMED)) == calls


def test_without_tools_any_name_makes_a_call() -> None:
    parsed = read("olmo3", "anything.at_all(a=1)", None)
    assert [(call.name, call.known_tool) for call in parsed.calls] == [("anything.at_all", None)]


def test_a_marked_call_of_an_unknown_tool_says_so() -> None:
    (call,) = read("lfm2", "<|tool_call_start|>[unheard_of()]<|tool_call_end|>").calls
    assert call.known_tool is False


def test_a_text_full_of_beginnings_stays_text() -> None:
    text = "[search(" * 2000
    assert read("pythonic", text).text == text


def test_deep_nesting_is_refused_and_does_not_raise() -> None:
    parsed = read("lfm2", "<|tool_call_start|>[search(a=" + "[" * 100_000)
    assert calls_of(parsed) == []


@each_row(("name", "text"), SAMPLES)
def test_any_two_pieces_give_the_same(name: str, text: str) -> None:
    whole = read(name, text)
    assert received(whole) == text
    for cut in range(1, len(text)):
        parser = Parser(PLANS[name], TOOLS)
        parsed = fold(parser.feed(text[:cut]) + parser.feed(text[cut:]) + parser.close())
        assert outcome(parsed) == outcome(whole), cut
        assert received(parsed) == text


@each_row("size", [1, 3, 4])
@each_row(("name", "text"), SAMPLES)
def test_small_pieces_give_the_same(name: str, text: str, size: int) -> None:
    assert outcome(read(name, text, size=size)) == outcome(read(name, text))


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_is_cut_off_is_never_complete(name: str) -> None:
    text = write([ToolCall("", "search", {"q": "a 'b' \"c\" ) ]", "n": [1, {"k": "v"}]})], ROW[name])
    end = text.rindex(")")
    for cut in range(end):
        # What lacks only its end counts, unless the reply was cut off, which the parser does not know.
        assert [call for call in read(name, text[:cut]).calls if "closed_wrapper" not in call.repairs] == [], cut


# ---- laws ------------------------------------------------------------------------------------------------------------

_PERILS = (
    *(
        "'",
        '"',
        "\\",
        "\n",
        ")",
        "]",
        ", a=",
        "}",
        "#",
        "//",
        '"""',
        " ",
        "[f(",
        "{",
        ":",
        "x",
        "<think>",
        "```",
        "\n```",
    ),
    *("<|tool_call_end|>", "<|eom_id|>", "<|python_end|>", "</tool_code>", "</function_calls>"),
)
_TEXT = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12),
    st.lists(st.sampled_from(_PERILS), max_size=6).map("".join),
)
_SCALAR = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), _TEXT)
_VALUE = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=8,
)
_KEY = st.one_of(st.sampled_from(["city", "from", "class", "größe", "a-b", "a b", "1st", ""]), _TEXT)
_CALL = st.builds(
    ToolCall,
    st.just(""),
    st.sampled_from(["search", "grocery.order", "get-news", "bash"]),
    st.dictionaries(_KEY, _VALUE, max_size=4),
)
_OPEN_TOOLS = Toolset([{"name": name} for name in ("search", "grocery.order", "get-news", "bash")])


@pytest.mark.parametrize("name", NAMES)
@given(calls=st.lists(_CALL, min_size=1, max_size=3), size=st.integers(1, 9))
def test_what_is_written_is_read_again(name: str, calls: list[ToolCall], size: int) -> None:
    text = write(calls, ROW[name])
    parsed = read(name, text, _OPEN_TOOLS)
    assert calls_of(parsed) == [(call.name, call.arguments) for call in calls]
    assert repr([call.arguments for call in parsed.calls]) == repr([call.arguments for call in calls])
    assert outcome(read(name, text, _OPEN_TOOLS, size=size)) == outcome(parsed)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", 10**400, b"x", {1: 2}])
def test_what_python_cannot_carry_here_is_refused(value: object) -> None:
    with pytest.raises(CannotExpress) as refusal:
        write([ToolCall("", "search", {"q": [value]})], ROW["lfm2"])
    assert refusal.value.path.startswith("$.q[0]")


_FRAGMENTS = {
    "pythonic": [
        "<think>",
        "</think>",
        "[",
        "search(",
        "get_weather(",
        "unheard(",
        "<|python_start|>",
        "<|python_end|>",
        '[search(q="x")]',
    ],
    "lfm2": [
        "<|tool_call_start|>",
        "<|tool_call_end|>",
        "[search(q=1)",
        "[",
        "search(",
        '{"name": "search", "arguments": {}}',
    ],
    "olmo3": ["<function_calls>", "</function_calls>", "search(", 'search(q="x")'],
    "llama3_builtin": ["<|python_tag|>", "search.call(", "search(", "<|eom_id|>", "print("],
    "tool_code": [
        "```tool_code\n",
        "\n```",
        "```",
        "print(",
        "search(",
        "x = ",
        "# no\n",
        "<tool_code>",
        "</tool_code>",
    ],
}
_COMMON = [
    "q=",
    "'",
    '"',
    "x",
    "it's",
    ")",
    "]",
    ", ",
    " ",
    "\n",
    "\\",
    "{",
    "}",
    '"""',
    ";",
    "1",
    "<think>",
    "</think>",
    "<",
    "\0",
]


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_any_text_in_any_pieces_is_total_and_conserved(name: str, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.sampled_from([*_FRAGMENTS[name], *_COMMON]), max_size=16))
    tools = data.draw(st.sampled_from([TOOLS, None]))
    text = "".join(pieces)
    whole = read(name, text, tools)
    assert received(whole) == text
    assert outcome(read(name, text, tools, size=data.draw(st.integers(1, 7)))) == outcome(whole)


@pytest.mark.parametrize("name", NAMES)
def test_the_deltas_are_the_arguments(name: str) -> None:
    parsed = read(name, write([ToolCall("", "search", {"q": "ä\n", "n": [1, None]})], ROW[name]), size=1)
    deltas = "".join(event.text for event in parsed.events if isinstance(event, ArgumentsDelta))
    (ended,) = (event for event in parsed.events if isinstance(event, CallEnded))
    assert json.loads(deltas) == ended.call.arguments == {"q": "ä\n", "n": [1, None]}
