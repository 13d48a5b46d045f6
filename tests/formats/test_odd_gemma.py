"""Gemma's notation in its two dialects: values, missing delimiters, and strings handed on as they grow."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.odd_cases import write
from tests.tables import each_row

from dragoman.errors import CannotExpress
from dragoman.events import ArgumentsDelta
from dragoman.formats.catalogue.other_rows import PYTHON_ROWS
from dragoman.formats.parser import Parsed, Parser, fold
from dragoman.formats.plan import Plan
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

NAMES = ("gemma4", "functiongemma")
ROW = {row.name: row for row in PYTHON_ROWS if row.name in NAMES}
PLANS = {name: Plan([row], named=True) for name, row in ROW.items()}
SEARCH = {
    "name": "search",
    "parameters": {
        "type": "object",
        "properties": {
            "q": {"type": "string"},
            "n": {"type": "integer"},
            "zip": {"type": "string"},
            "tags": {"type": "array"},
        },
    },
}
TOOLS = Toolset([SEARCH, {"name": "weather.get"}])
FRAME = {
    "gemma4": ("<|tool_call>call:", "<tool_call|>", '<|"|>'),
    "functiongemma": ("<start_function_call>call:", "<end_function_call>", "<escape>"),
}


def read(name: str, text: str, tools: Toolset | None = TOOLS, *, size: int = 0) -> Parsed:
    parser = Parser(PLANS[name], tools)
    pieces = [text[start : start + size] for start in range(0, len(text), size)] if size else [text]
    events = [event for piece in pieces for event in parser.feed(piece)]
    return fold(events + parser.close())


def outcome(parsed: Parsed) -> object:
    calls = [(call.name, call.arguments, call.repairs, call.raw) for call in parsed.calls]
    return parsed.text, parsed.thinking, calls, [(each.raw, each.why) for each in parsed.broken]


def received(parsed: Parsed) -> str:
    return "".join(getattr(event, "raw", "") for event in parsed.events)


@each_row("name", NAMES)
def test_the_word_call_or_its_colon_alone_may_be_missing(name: str) -> None:
    opener, closer, quote = FRAME[name]
    for prefix in ("", ":", ": "):
        text = f"Look: {opener.removesuffix('call:')}{prefix}search{{q:{quote}a: b{quote}}}{closer}"
        whole = read(name, text)
        assert [(call.name, call.arguments, call.repairs) for call in whole.calls] == [
            ("search", {"q": "a: b"}, ("added_prefix",))
        ], prefix
        assert whole.text == "Look: "
        assert outcome(read(name, text, size=1)) == outcome(whole), prefix


def spell(name: str, body: str) -> str:
    """A call in the words of a dialect: `~` stands for the delimiter of strings."""
    opener, closer, quote = FRAME[name]
    return opener + body.replace("~", quote) + closer


VALUES: list[tuple[str, dict[str, Any]]] = [
    ("search{}", {}),
    ("search{q:~a, b~,n:3}", {"q": "a, b", "n": 3}),
    ("search{q:~~}", {"q": ""}),
    ("search{q:~say \"hi\" \\n {}[]~}", {"q": 'say "hi" \\n {}[]'}),
    ("search{q: ~x~ , n : -7 }", {"q": "x", "n": -7}),
    ("search{a:true,b:false,c:null,d:3.14,e:1e3}", {"a": True, "b": False, "c": None, "d": 3.14, "e": 1000.0}),
    ("search{tags:[~x~,~y~],o:{k:[1,{z:null}]}}", {"tags": ["x", "y"], "o": {"k": [1, {"z": None}]}}),
    ("search{o:{e:{},l:[]}}", {"o": {"e": {}, "l": []}}),
    ("search{tags:[\n  ~x~,\n  ~y~\n]}", {"tags": ["x", "y"]}),
    ('search{q:"raw \\"quoted\\"",n:1}', {"q": 'raw "quoted"', "n": 1}),
    ('search{"q":~x~,~two words~:1}', {"q": "x", "two words": 1}),
    ("search{q:~a~,}", {"q": "a"}),
]  # fmt: skip

REPAIRED: list[tuple[str, dict[str, Any], str]] = [
    ("search{q:Oslo~,n:3}", {"q": "Oslo", "n": 3}, "opened_string"),
    ("search{q:Paris, France~,n:3}", {"q": "Paris, France", "n": 3}, "opened_string"),
    ("search{q:~Oslo,zip:~1~}", {"q": "Oslo", "zip": "1"}, "closed_string"),
    ("search{q:~Oslo}", {"q": "Oslo"}, "closed_string"),
    ("search{tags:[~x]}", {"tags": ["x"]}, "closed_string"),
    ("search{q:Oslo,n:3}", {"q": "Oslo", "n": 3}, "added_quotes"),
    ("search{q:Paris, France,n:3}", {"q": "Paris, France", "n": 3}, "added_quotes"),
    ("search{zip:02134}", {"zip": "02134"}, "added_quotes"),
    ("search{q:~a ~ b~}", {"q": "a ~ b"}, "escaped_quotes"),
    ("search{tags:[1,2", {"tags": [1, 2]}, "closed_brackets"),
]

BROKEN = [
    "search{q:~a~,q:~b~}",
    "search{q:}",
    "search{q:~Oslo,n:3}",
    "search{q:~Oslo,n:3,zip:~1~}",
    "search{q:~a~ n}",
    "search{]}",
    "search{a:" + "[" * 200,
    "search{q:~\ud800~}",
]

SAMPLES = [text for text, *_ in [*VALUES, *REPAIRED]] + BROKEN


@each_row("name", NAMES)
@each_row(("body", "arguments"), VALUES)
def test_values_are_read(name: str, body: str, arguments: dict[str, Any]) -> None:
    parsed = read(name, "Hi " + spell(name, body) + " there")
    assert [(call.name, call.arguments, call.repairs) for call in parsed.calls] == [("search", arguments, ())]
    assert parsed.text == "Hi  there"


@each_row("name", NAMES)
@each_row(("body", "arguments", "rule"), REPAIRED)
def test_missing_delimiters_are_added_and_named(name: str, body: str, arguments: dict[str, Any], rule: str) -> None:
    (call,) = read(name, spell(name, body)).calls
    quote = FRAME[name][2]
    assert call.arguments == {
        key: value.replace("~", quote) if isinstance(value, str) else value for key, value in arguments.items()
    }
    assert rule in call.repairs


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("body", BROKEN)
def test_what_cannot_be_read_is_broken_up_to_its_closer(name: str, body: str) -> None:
    text = spell(name, body)
    parsed = read(name, text + " and on")
    assert parsed.calls == []
    assert [each.raw for each in parsed.broken] == [text]
    assert parsed.text == " and on"


@pytest.mark.parametrize(
    ("name", "text", "calls", "rest", "thinking"),
    [
        ("gemma4", "<|channel>thought\nhm<channel|>" + spell("gemma4", "weather.get{}"), ["weather.get"], "", "hm"),
        ("gemma4", "<|tool_call><tool_call|>after", [], "after", ""),
        ("gemma4", spell("gemma4", "search{}") + "<tool_call|><|tool_response>x", ["search"], "x", ""),
        (
            "gemma4",
            spell("gemma4", "search{}") + " " + spell("gemma4", "unheard-of{}"),
            ["search", "unheard-of"],
            "",
            "",
        ),
        ("gemma4", '<|tool_call>{"name": "search", "arguments": {"n": 1}}<tool_call|>', ["search"], "", ""),
        ("gemma4", "<|tool_call>search{n:1}<tool_call|>", ["search"], "", ""),
        ("gemma4", "<|tool_call> is the opener", [], "<|tool_call> is the opener", ""),
        ("functiongemma", spell("functiongemma", "search{}") + "Done!", ["search"], "Done!", ""),
    ],
)
def test_what_stands_around_a_call(name: str, text: str, calls: list[str], rest: str, thinking: str) -> None:
    parsed = read(name, text)
    assert ([call.name for call in parsed.calls], parsed.text, parsed.thinking) == (calls, rest, thinking)


@pytest.mark.parametrize("name", NAMES)
def test_a_string_is_handed_on_as_it_grows(name: str) -> None:
    opener, _, quote = FRAME[name]
    parser = Parser(PLANS[name], TOOLS)
    parser.feed(opener + "search{q:" + quote)
    grown = [
        event.text
        for piece in ("one ", 'two"\n', "three")
        for event in parser.feed(piece)
        if isinstance(event, ArgumentsDelta)
    ]
    assert "".join(grown) == 'one two\\"\\nthree'


@pytest.mark.parametrize("name", NAMES)
def test_a_call_that_is_cut_off_is_never_complete(name: str) -> None:
    text = spell(name, "search{q:~a}~,tags:[1,{k:~v~}]}")
    end = text.rindex("}")
    for cut in range(end + 1):
        # What lacks only its end counts, unless the reply was cut off, which the parser does not know.
        assert [call for call in read(name, text[:cut]).calls if "closed_wrapper" not in call.repairs] == [], cut


@each_row("name", NAMES)
@each_row("body", SAMPLES)
def test_any_two_pieces_give_the_same(name: str, body: str) -> None:
    text = "a" + spell(name, body) + "z"
    whole = read(name, text)
    assert received(whole) == text
    for cut in range(1, len(text)):
        parser = Parser(PLANS[name], TOOLS)
        parsed = fold(parser.feed(text[:cut]) + parser.feed(text[cut:]) + parser.close())
        assert outcome(parsed) == outcome(whole), cut


# ---- laws ----------------------------------------------------------------------------------------------------------

_PERILS = ("~", "<", "|", '"', "}", "]", ",", ":", "\n", "\\", "{", " ", ", k:", "<tool_call", "<|", "escape>", "x")
_TEXT = st.one_of(
    st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=10),
    st.lists(st.sampled_from(_PERILS), max_size=5).map("".join),
)
_SCALAR = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), _TEXT)
_VALUE = st.recursive(
    _SCALAR,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=8,
)
_CALL = st.builds(
    ToolCall,
    st.just(""),
    st.sampled_from(["anything", "weather.get", "a-b"]),
    st.dictionaries(_TEXT, _VALUE, max_size=4),
)
_OPEN_TOOLS = Toolset([{"name": name} for name in ("anything", "weather.get", "a-b")])


@pytest.mark.parametrize("name", NAMES)
@given(calls=st.lists(_CALL, min_size=1, max_size=3), size=st.integers(1, 9))
def test_what_is_written_is_read_again(name: str, calls: list[ToolCall], size: int) -> None:
    try:
        text = write(calls, ROW[name])
    except CannotExpress as refusal:
        assert any(marker in repr(calls) for marker in FRAME[name][1:]), refusal
        return
    parsed = read(name, text, _OPEN_TOOLS)
    assert repr([(call.name, call.arguments) for call in parsed.calls]) == repr(
        [(call.name, call.arguments) for call in calls]
    )
    assert all(call.repairs == () for call in parsed.calls)
    assert outcome(read(name, text, _OPEN_TOOLS, size=size)) == outcome(parsed)


@pytest.mark.parametrize("value", ['<|"|>', "<tool_call|>", "\ud800", float("nan"), object()])
def test_what_has_no_escape_is_refused(value: object) -> None:
    with pytest.raises(CannotExpress) as refusal:
        write([ToolCall("", "search", {"q": [value]})], ROW["gemma4"])
    assert refusal.value.path == "$.q[0]"


_FRAGMENTS = (
    "search{",
    "q:",
    "n:",
    "~",
    "~,",
    "~}",
    ",",
    "}",
    "{",
    "[",
    "]",
    "3",
    "true",
    '"',
    "\\",
    " ",
    "\n",
    "London, UK",
    "<",
    "|",
)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_any_text_in_any_pieces_is_total_and_conserved(name: str, data: st.DataObject) -> None:
    opener, closer, quote = FRAME[name]
    fragments = [*_FRAGMENTS, opener, closer, opener + "search{q:", "<|channel>", "<channel|>"]
    text = "".join(data.draw(st.lists(st.sampled_from(fragments), max_size=16))).replace("~", quote)
    tools = data.draw(st.sampled_from([TOOLS, None]))
    whole = read(name, text, tools)
    assert received(whole) == text
    assert outcome(read(name, text, tools, size=data.draw(st.integers(1, 7)))) == outcome(whole)
