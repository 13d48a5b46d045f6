"""Control strings: which ones are known, that none survives in a result, and that every byte comes back."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.formats.strategies import NAMES
from tests.tables import each_row

from dragoman import formats
from dragoman.extraction.control_tokens import (
    CHAT_TOKENS,
    MARK,
    MARK_END,
    break_everything,
    break_tokens,
    control_strings,
    mend_tokens,
    token_search,
)
from dragoman.extraction.text_views import look_at

ALL = sorted(control_strings())


def widen(token: str) -> str:
    """Full-width forms of what has one."""
    return "".join(chr(ord(character) + 0xFEE0) if "!" <= character <= "~" else character for character in token)


DISGUISES = {
    "as it is": lambda token: token,
    "in capitals": str.upper,
    "in small letters": str.lower,
    "with invisible characters inside": "\u200b".join,
    "with soft hyphens and tags inside": "\u00ad\U000e0041".join,
    "full-width": widen,
    "full-width, with joiners inside": lambda token: "\u2060".join(widen(token)),
    "with control characters inside": "\x00\x0b\x7f\x85".join,
    "with fillers inside": "\u3164\uffa0\u17b4\u2800".join,
    "with characters inside that nobody assigned": "\ue000\ufff0\U000e0fff\ud800".join,
}


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_control_string_survives_in_any_disguise(disguise: str) -> None:
    for token in ALL:
        text = f"before {DISGUISES[disguise](token)} after"
        broken = break_tokens(text)
        assert broken.count > 0, token
        assert look_at(token).text.lower() not in look_at(broken.text).text.lower()
        assert token_search().search(look_at(broken.text).text) is None
        assert mend_tokens(broken.text) == text


# Tokens that no list of ours has: models that nobody heard of have others of the same shapes.
UNLISTED = (
    *("]~!b[", "]~b]", "[e~[", "]!p~[", "]<]image[>[", "]<]start of video[>[", "<mm:tool_calls>"),
    *("<seed:bos>", "<seed:eos>", "</seed:cot_budget_reflect>", "<longcat_observation>", "<acme:tool_call>"),
    *("<reserved_106>", "<reserved_special_token_7>", "<extra_id_0>", "<SPECIAL_10>", "<unused12>", "<mask:0>"),
    *("[control_8]", "[UNUSED_TOKEN_145]", "[PAD200063]", "[BOS]", "[EOT]", "[sMASK]", "[start_header_id]"),
    *("<role>", "</role>", "<_user>", "<用户>", "<BOS_TOKEN>", "<EOP_TOKEN>", "<EOT>", "<sep>", "<fim_prefix>"),
    *("<|turn_start>", "<turn_end|>", "<acme|tool_call>", "[|user|]", "[|endofturn|]", ">>TITLE<<", "[NEW_TOOL_LIST]"),
    *("<begin_of_image>", "<end_of_utterance>", "<end_message>", "<turn_end>", "<|any words at all|>"),
)


def test_the_shapes_of_control_tokens_are_known() -> None:
    whole = [token for token in UNLISTED if token in ALL]
    assert whole == [], "they show that a list is not needed"
    texts = [disguise(token) for token in UNLISTED for disguise in DISGUISES.values() if disguise is not str.lower]
    # A token in capitals may be an ordinary word in small letters, and the other way round.
    cased = {str.upper(token) for token in UNLISTED} - set(UNLISTED)
    kept = [text for text in texts if break_tokens(f"a {text} b").count == 0 and text not in cased]
    assert kept == []
    assert [text for text in texts if mend_tokens(break_tokens(text).text) != text] == []


@each_row("name", NAMES)
def test_a_family_breaks_up_what_its_own_format_writes(name: str) -> None:
    written = formats.render([("get_weather", {"city": "Oslo"})], name)
    marked = any(token in written for token in control_strings(name))
    broken = break_tokens(written, name)
    assert marked == (broken.count > 0)
    assert mend_tokens(broken.text) == written
    # Some formats are also read without their marker; then there is no control string to break.
    if marked and not formats.get(name).named_entries:
        assert formats.parse(broken.text, name, [{"name": "get_weather"}]).calls == []


@pytest.mark.parametrize("name", ["pythonic", "glm_lines", "react", "functionary_v32", "json_message", "json"])
def test_calls_without_a_marker_hold_no_control_string(name: str) -> None:
    written = formats.render([("get_weather", {"city": "Oslo"})], name)
    assert break_tokens(written).text == written


def test_every_chat_template_is_known_to_every_family() -> None:
    chat = {token for tokens in CHAT_TOKENS.values() for token in tokens}
    assert all(chat <= control_strings(name) for name in NAMES)
    assert "<|tool_call_begin|>" in control_strings("kimi_k2") - control_strings("hermes")


def test_a_format_of_ones_own_brings_its_markers() -> None:
    text = "<<own_call {} own_end>>"
    assert break_tokens("<own_call>{}</own_call>").count == 0
    formats.register(formats.Format(name="own", template="<own_call>{call}</own_call>"))
    try:
        assert break_tokens("<own_call>{}</own_call>").text == f"{MARK}own_call>{{}}{MARK}/own_call>"
    finally:
        formats.unregister("own")
    assert break_tokens(text).text == text


@pytest.mark.parametrize(
    ("text", "broken"),
    [
        ("<tool_call>", "⧼tool_call>"),
        ("[INST] do it [/INST]", "⧼5b⧽INST] do it ⧼5b⧽/INST]"),
        ("＜think＞", "⧼ff1c⧽think＞"),
        ("<|start user prompt|>", "⧼|start user prompt|>"),
        ("<<result abc tool=x id=y status=ok>>", "⧼<result abc tool=x id=y status=ok>>"),
        ("⧼ and ⧽", "⧼⧼ and ⧽"),
        ("⧼<think>", "⧼⧼⧼think>"),
        ("```tool_call", "⧼60⧽``tool_call"),
    ],
)
def test_how_it_is_broken(text: str, broken: str) -> None:
    assert break_tokens(text).text == broken
    assert mend_tokens(broken) == text


@pytest.mark.parametrize(
    "text",
    [
        "plain words",
        "if a < b and c > d: x = y[0]",
        "<div class='a'><p>one</p></div>",
        "cat <<END > file\nhello\nEND",
        "from functools import cache",
        "a |> f |> g",
        "~~~\ncode\n~~~\n```json\n{}\n```",
        "x[mask] = 0; data[sep][pad_1] = a[0]~b[1] + y[e] ~z[0]; arr[special_case]",
        "[tool]\n[tools]\n[unreleased]\n[img]x[/img] [TODO] [INFO] [USER] [SYSTEM] [x] [1] [^2] [a](b)",
        "<start_date>1</start_date> <end_time> <end_user> <filename> <user> <repo_name> <ACCESS_TOKEN> <h1> <my_tool>",
        "let x = [|1; 2|] in x |> f <| g; a <|> b; serve <start|stop>; if (a<b||c>d); cat <<EOF >>file; <$> >>= <<",
        "std::vector<int> <T extends Foo> <e@example.com> <https://a.b/c_1> <system.web> <mask id='a'> <role name='a'>",
        "日本語、ｶﾅ、ＡＢＣ",
        "‹guillemets› «and» more",
        "\ud800 half a character",
        "",
    ],
)
def test_what_means_nothing_stays_as_it_is(text: str) -> None:
    assert break_tokens(text).text == text


def test_what_was_found_is_told() -> None:
    broken = break_tokens("a <Tool_Call> b [INST] c <Tool_Call> d")
    assert broken.count == 3
    assert [found.partition(">")[0] for found in broken.found] == ["<Tool_Call", "[INST] c <Tool_Call", "<Tool_Call"]


PIECES = st.one_of(
    st.sampled_from(ALL),
    st.sampled_from([MARK, MARK * 2, MARK_END, "5b", "3c", "<", "[", "＜", "\u200b", "\n", "&lt;", "</", "fade"]),
    st.text(max_size=5),
    st.characters(),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(TEXTS)
@example("<fade⧽")
@example("⧼5b⧽INST]")
@example("<⧼")
@settings(max_examples=4 * settings().max_examples)
def test_every_text_comes_back_to_the_byte_and_holds_no_control_string(text: str) -> None:
    for broken in (break_tokens(text).text, break_tokens(text, "hermes").text, break_everything(text)):
        assert mend_tokens(broken) == text
    assert token_search().search(look_at(break_tokens(text).text).text) is None


@given(st.text(st.sampled_from("⧼⧽5bc3<[＜tfade\u200b"), max_size=20))
@settings(max_examples=3 * settings().max_examples)
def test_marks_in_a_text_are_never_mistaken_for_ours(text: str) -> None:
    assert mend_tokens(break_tokens(text).text) == text
    assert mend_tokens(break_everything(text)) == text


@given(st.text(st.characters(), max_size=30))
def test_mending_what_was_never_broken_does_not_raise(text: str) -> None:
    mended = mend_tokens(MARK + text)
    assert len(mended) <= len(text) + 1


@given(st.text(st.sampled_from("a<＜\u200b\ufe64ﬁ⑴日\u00ad"), max_size=30))
def test_a_view_knows_where_its_characters_came_from(text: str) -> None:
    view = look_at(text)
    origins = [view.origin(place) for place in range(len(view.text))]
    assert origins == sorted(origins)
    for place, origin in enumerate(origins):
        assert view.text[place] in look_at(text[origin]).text
    seen = set(origins)
    assert all(look_at(text[place]).text == "" for place in range(len(text)) if place not in seen)
