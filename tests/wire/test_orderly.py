"""The quick ways give what the thorough ones give, and notice what they must not pass on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.args.decoder import decode_object
from dragoman.args.loader import load
from dragoman.types import Message, Request, Text, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire import get, history, names
from dragoman.wire.aliases import PLAIN_NAMES, Namer
from dragoman.wire.framing import SseDecoder
from dragoman.wire.history import HistoryRules, OrderedHistory, arrange

_EXTRAS = st.sampled_from([{}, {}, {}, {"anthropic": {"signature": "s"}}, {"gemini": {"thought": True}}])
_TEXTS = st.builds(Text, st.sampled_from(["", " ", "words"]), _EXTRAS)
_IDS = st.sampled_from(["call_1", "call_2", "odd id", ""])
_CALLS = st.builds(ToolCall, _IDS, st.sampled_from(["search", "get.weather"]), st.just({"city": "Paris"}))
_RESULTS = st.builds(ToolResult, _IDS, st.sampled_from(["", "search"]), st.just("warm"), st.booleans())
_MESSAGES = st.one_of(
    st.builds(Message, st.just("system"), st.lists(_TEXTS, max_size=2)),
    st.builds(Message, st.just("user"), st.lists(_TEXTS, max_size=2), _EXTRAS),
    st.builds(
        Message,
        st.just("assistant"),
        st.lists(st.one_of(_TEXTS, _CALLS, st.builds(Thinking, st.just("hm"), _EXTRAS)), max_size=3),
    ),
    st.builds(Message, st.just("tool"), st.lists(_RESULTS, max_size=2)),
)
_RULES = [
    HistoryRules("anthropic", system="front", text_after_calls=True, merges=True, first_user=True),
    HistoryRules("openai_chat", keeps_empty_text=True, error_flags=False, thinking=False),
    HistoryRules("mistral", system="first", bridges_results=True, merges=True),
]


@given(st.lists(_MESSAGES, max_size=6), st.sampled_from(_RULES))
def test_what_is_in_order_is_passed_on_as_the_arrangement_would_have_it(
    messages: list[Message], rules: HistoryRules
) -> None:
    quick = arrange(messages, rules, Namer(PLAIN_NAMES, []))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OrderedHistory, "take", lambda *_: False)
        thorough = history.arrange(messages, rules, Namer(PLAIN_NAMES, []))
    assert (quick.system, quick.messages, quick.losses) == (thorough.system, thorough.messages, thorough.losses)
    assert quick.identifier.back == thorough.identifier.back


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1, "a": 2}',
        '{"a": {"b": 1, "b": 2}}',
        '{"a": 1, "a": "\\u003a"}',  # the colon that is lost with the first member comes back in an escape
        '{"a": [' + "[" * 100 + "]" * 100 + "]}",
        '{"a": ' + "1" * 401 + "}",
        '{"a": "\\ud800"}',
        "[1]",
    ],
)
def test_the_quick_reader_leaves_doubtful_texts_to_the_strict_one(text: str) -> None:
    assert decode_object(text) is None


def test_a_key_that_comes_twice_is_refused_by_whichever_reader() -> None:
    assert load('{"path": "a", "path": "b"}').value is None


@pytest.mark.parametrize("name", names())
def test_a_schema_that_was_changed_in_place_goes_out_as_it_is_now(name: str) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    request = Request("some-model", [Message("user", [Text("Hello")])], [Tool("weather", "Forecast", schema)])
    codec = get(name)
    before = str(codec.encode_request(request))
    schema["properties"]["country"] = {"type": "string"}
    after = str(codec.encode_request(request))
    assert "country" not in before and "country" in after


def test_one_event_per_piece_is_read_as_in_one_piece() -> None:
    pieces = [
        b"data: 1\n\n",
        b"event: x\ndata: {}\n\n",
        b"event: x\nid: 7\ndata: {}\n\n",
        b"data: \xff\n\n",
        b"data: a\r\n\n",
    ]
    together, apart = SseDecoder(), SseDecoder()
    assert [event for piece in pieces for event in apart.feed(piece)] == together.feed(b"".join(pieces))
    assert apart.last_id == together.last_id == "7"
