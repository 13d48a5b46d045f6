"""The words that teach a model its tools: in every format, in every layout, and as short as they promise to be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.strategies import NAMES
from tests.tables import each_row

import dragoman
from dragoman import formats
from dragoman.errors import ConfigError, UnknownFormat
from dragoman.formats.prompt import FULL_LIMIT

Tool = dict[str, Any]

SHELL: Tool = {
    "name": "shell",
    "description": "Execute a shell command in the workspace.",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string", "description": "The shell command to execute"}},
        "required": ["command"],
    },
}
SEARCH: Tool = {
    "name": "search",
    "description": "Look things up. Slow.\nUse it rarely.",
    "parameters": {
        "type": "object",
        "properties": {
            "limit": {"type": "integer"},
            "kind": {"enum": ["page", "image"], "description": "What to\n  look for"},
            "query": {"type": "string", "examples": ["tall ships"]},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["query"],
    },
}

SEED_004 = """\
You have access to the following tools:
## shell
Execute a shell command in the workspace.
Parameters:
- command (string, required): The shell command to execute
To use a tool, respond with:
<tool_call>
{"name": "shell", "arguments": {"command": "date"}}
</tool_call>"""

SETTINGS: dict[str, dict[str, Any]] = {
    "schema": {},
    "list": {"layout": "list"},
    "compact": {"compact": True},
    "nonce": {"nonce": "k7Qx2mPz"},
}


def with_rules(schema: Tool, **rules: Any) -> Tool:
    properties = {**schema["parameters"]["properties"], **rules}
    return {**schema, "parameters": {**schema["parameters"], "properties": properties}}


def test_seed_004_the_list_is_its_text_exactly() -> None:
    assert dragoman.augment_system_prompt(None, [SHELL], layout="list", format="hermes") == SEED_004


def test_seed_004_the_example_comes_from_the_schema_where_it_has_one() -> None:
    tool = with_rules(SHELL, command={"type": "string", "examples": ["uptime"]})
    assert '{"command": "uptime"}' in formats.instructions([tool], "hermes", layout="list")


def test_seed_000_the_users_prompt_comes_first_and_unchanged() -> None:
    for existing in ("Be helpful.", "  Two lines.\n\nAnd  spaces ", "~~~tool_call\nnot a call"):
        augmented = dragoman.augment_system_prompt(existing, [SHELL])
        assert augmented == f"{existing}\n\n{formats.instructions([SHELL])}"


@pytest.mark.parametrize("existing", [None, ""])
def test_seed_002_without_a_prompt_there_are_only_the_instructions(existing: str | None) -> None:
    assert dragoman.augment_system_prompt(existing, [SHELL]) == formats.instructions([SHELL])


def test_the_list_has_a_heading_for_each_tool_and_a_line_for_each_parameter() -> None:
    written = formats.instructions([SEARCH, {"name": "ping"}], layout="list")
    assert written.startswith(
        "You have access to the following tools:\n"
        "## search\n"
        "Look things up. Slow.\nUse it rarely.\n"
        "Parameters:\n"
        "- query (string, required)\n"
        "- limit (integer, optional)\n"
        '- kind ("page"|"image", optional): What to look for\n'
        "- tags (string[], optional)\n"
        "## ping\n"
        "Parameters: none\n"
        "To use a tool, respond with:\n"
    )


def test_compact_is_one_line_for_each_tool_with_the_required_parameters_first() -> None:
    written = formats.instructions([SEARCH, {"name": "ping"}], compact=True)
    line = '- search(query: string, kind?: "page"|"image", limit?: integer, tags?: string[]) — Look things up.'
    assert f"\n{line}\n- ping()\n" in written


def test_compact_quotes_at_most_eighty_characters_of_a_description() -> None:
    written = formats.instructions([{"name": "ping", "description": "x" * 200}], compact=True)
    assert f"- ping() — {'x' * 80}\n" in written


def test_compact_shows_as_many_values_of_an_enumeration_as_fit() -> None:
    tool = with_rules(SHELL, command={"enum": [f"value number {n}" for n in range(100)]})
    written = formats.instructions([tool], compact=True)
    assert 'command: "value number 0"|"value number 1"|"value number 2"|...)' in written


# ---- the example -----------------------------------------------------------------------------------------------------


@each_row("way", SETTINGS)
@each_row("format", NAMES)
def test_every_format_is_taught_by_a_call_that_it_reads(format: str, way: str) -> None:
    written = formats.instructions([SHELL, SEARCH], format, **SETTINGS[way])
    row: Any = formats.nonce_format("k7Qx2mPz") if way == "nonce" else format
    example = formats.render([("shell", {"command": "date"})], row)
    assert example in written
    # json_message is a whole message: its example is a call where it stands alone, as the model will write it.
    parsed = formats.parse(example if row == "json_message" else written, row, [SHELL, SEARCH])
    assert [(call.name, call.arguments) for call in parsed.calls] == [("shell", {"command": "date"})]


SAMPLES: dict[str, tuple[Any, Any]] = {
    "an example of the schema": ({"type": "string", "examples": ["one", "two"]}, "one"),
    "a single example": ({"type": "string", "example": "one"}, "one"),
    "a value of the enumeration": ({"enum": ["up", "down"]}, "up"),
    "a constant": ({"const": 7}, 7),
    "a default": ({"type": "integer", "default": 3}, 3),
    "no default": ({"type": "string", "default": None}, "value"),
    "an integer": ({"type": "integer"}, 1),
    "a list": ({"type": "array"}, []),
    "several types": ({"type": ["string", "null"]}, "value"),
    "an example that is too long": ({"type": "string", "examples": ["x" * 500]}, "value"),
    "no schema": (True, "value"),
}


@pytest.mark.parametrize(("rule", "sample"), SAMPLES.values(), ids=SAMPLES)
def test_the_example_takes_its_values_from_the_schema(rule: Any, sample: Any) -> None:
    tool = {"name": "turn", "parameters": {"type": "object", "properties": {"way": rule}, "required": ["way"]}}
    assert json.dumps({"name": "turn", "arguments": {"way": sample}}) in formats.instructions([tool])


def test_a_tool_that_the_format_cannot_write_is_no_example() -> None:
    awkward = {
        "name": "put",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "examples": ["</parameter></function></tool_call>"]}},
        },
    }
    written = formats.instructions([awkward, SHELL], "qwen3_coder")
    assert formats.render([("shell", {"command": "date"})], "qwen3_coder") in written
    assert formats.render([("tool_name", {"argument": "value"})], "qwen3_coder") in formats.instructions(
        [awkward], "qwen3_coder"
    )


def test_an_unknown_format_is_named() -> None:
    with pytest.raises(UnknownFormat, match="hermes"):
        dragoman.augment_system_prompt(None, [], format="hermos")


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown layout 'table'"):
        dragoman.augment_system_prompt(None, [], layout="table")  # type: ignore[arg-type]


# ---- size ------------------------------------------------------------------------------------------------------------

RULES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "description": "What it is for, in a few words."},
        {"type": "array", "items": {"type": "integer"}},
        {"enum": ["north", "south", "east", "west"]},
        {},
    ]
)
KEYS = st.text("abcdefgh_", min_size=1, max_size=12)


@st.composite
def tools(draw: st.DrawFn) -> Tool:
    properties = draw(st.dictionaries(KEYS, RULES, max_size=6))
    return {
        "name": draw(st.text("abcdefgh_", min_size=1, max_size=16)),
        "description": draw(st.sampled_from(["", "Does it.", "Does one thing. And then, at length, another one."])),
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": draw(st.lists(st.sampled_from(sorted(properties)), unique=True)) if properties else [],
        },
    }


@given(st.lists(tools(), max_size=12), st.sampled_from(["fenced", "hermes"]))
def test_compact_takes_at_most_four_fifths_of_the_full_text(offered: list[Tool], format: str) -> None:
    compact, full = (len(formats.instructions(offered, format, flag).encode()) for flag in (True, False))
    assert compact <= 0.8 * full


def test_compact_is_needed_by_weak_models_and_for_long_prompts_without_native_tools() -> None:
    long = "é" * (FULL_LIMIT // 2)
    assert formats.needs_compact(long, native=False, weak=False) is None
    assert "4097 bytes" in (formats.needs_compact(long + "x", native=False, weak=False) or "")
    assert formats.needs_compact(long + "x", native=True, weak=False) is None
    assert "weak" in (formats.needs_compact("short", native=True, weak=True) or "")


# ---- the seeds' own records ------------------------------------------------------------------------------------------

OVERRULED = {"zeroclaw-prompt-001": "the wording is ours; what it has to say is said"}


@pytest.fixture(scope="module")
def recorded(shared_data: Callable[[str], Path]) -> dict[str, dict[str, Any]]:
    with gzip.open(shared_data("seed_vectors.jsonl.gz"), "rt", encoding="utf-8") as lines:
        rows = map(json.loads, lines)
        return {row["id"]: row for row in rows if row["kind"] == "prompt"}


def ten_tools() -> list[Tool]:
    properties = {f"parameter_{n}": {"type": "string", "description": f"What parameter {n} is for"} for n in range(5)}
    schema = {"type": "object", "properties": properties, "required": ["parameter_0"]}
    return [{"name": f"tool_{n}", "description": f"Does thing number {n}.", "schema": schema} for n in range(10)]


def test_recorded_prompts_are_kept_by_their_verdict(recorded: dict[str, dict[str, Any]]) -> None:
    assert {name for name, row in recorded.items() if row["verdict"] == "overruled"} == OVERRULED.keys()
    faults = []
    for name, row in recorded.items():
        asked, expected = row["input"], row["expected"]
        offered = ten_tools() if "fixture" in asked else asked["tools"]
        written = dragoman.augment_system_prompt(asked.get("base"), offered, compact=asked.get("compact", False))
        full = dragoman.augment_system_prompt(asked.get("base"), offered)
        wanted = [tool["name"] for tool in offered] if name in OVERRULED else expected.get("contains", [])
        faults += [(name, part) for part in wanted if part not in written]
        faults += [(name, part) for part in expected.get("excludes", []) if part in written]
        faults += [name] if len(written.encode()) > expected.get("bytes_ratio_max", 1) * len(full.encode()) else []
    assert recorded
    assert faults == []


# ---- the wrapper of one turn -----------------------------------------------------------------------------------------

NONCE = "k7Qx2mPz"
CALL = ("shell", {"command": "echo '</tool_call>'"})


def wrap(nonce: str) -> str:
    return formats.render([CALL], formats.nonce_format(nonce))


@pytest.mark.parametrize("format", ["auto", "hermes", "json_message", "qwen3_coder", "gemma4"])
def test_a_call_says_whether_it_bears_the_nonce_of_this_turn(format: str) -> None:
    extra = [formats.nonce_format(NONCE)]
    for nonce, expected in ((NONCE, formats.NONCE), ("another-one", formats.STALE_NONCE)):
        text = f"So:\n{wrap(nonce)}"
        for pieces in ([text], list(text)):
            stage = formats.parser(format, [SHELL], extra=extra)
            parsed = formats.fold([event for piece in pieces for event in stage.feed(piece)] + stage.close())
            ((call),) = parsed.calls
            assert (call.name, call.arguments) == CALL
            assert call.provenance is not None and call.provenance.format == expected
            assert call.id != nonce
            assert (parsed.text.strip(), parsed.broken) == ("So:", [])


def test_without_the_row_such_a_wrapper_is_text_as_ever() -> None:
    assert formats.parse(wrap(NONCE), tools=[SHELL]).calls == []


def test_several_calls_may_bear_the_same_nonce_and_keep_their_own_ids() -> None:
    calls = formats.parse(wrap(NONCE) + "\n" + wrap(NONCE), formats.nonce_format(NONCE), [SHELL]).calls
    assert [call.id for call in calls] == ["call_1", "call_2"]


@pytest.mark.parametrize(
    "text",
    [
        f'<tool_call id="{NONCE}">{{"name": "shell", "arguments": {{"command"',
        f'<tool_call id="{NONCE}',
        f'<tool_call id="{NONCE}">',
        f'<tool_call id="{NONCE} {NONCE}">{{"name": "shell", "arguments": {{}}}}</tool_call>',
        f'<think><tool_call id="{NONCE}">{{"name": "shell", "arguments": {{}}}}</tool_call></think>',
    ],
)
def test_what_is_cut_off_or_thought_is_no_call(text: str) -> None:
    extra = [formats.nonce_format(NONCE)]
    whole = formats.parse(text, tools=[SHELL], extra=extra)
    stage = formats.parser(tools=[SHELL], extra=extra)
    pieces = formats.fold([event for piece in text for event in stage.feed(piece)] + stage.close())
    assert (whole.calls, pieces.calls) == ([], [])
    assert whole.text == pieces.text


def test_other_spellings_are_read_beside_it() -> None:
    text = f'{wrap(NONCE)}\n{formats.render([CALL], "hermes")}\n<tool_call name="shell" command="ls"/>'
    calls = formats.parse(text, tools=[SHELL], extra=[formats.nonce_format(NONCE)]).calls
    assert [call.provenance.format for call in calls if call.provenance] == ["nonce", "hermes", "xml_attributes"]


def test_a_row_for_one_turn_leaves_nothing_behind() -> None:
    before = formats.names()
    formats.parse(wrap(NONCE), tools=[SHELL], extra=[formats.nonce_format(NONCE)])
    assert formats.names() == before
    assert formats.parse(wrap(NONCE), tools=[SHELL]).calls == []


@pytest.mark.parametrize("nonce", ["", "short", 'k7Qx">evil', "mit leer zeichen", "x" * 200])
def test_a_nonce_is_a_word_of_letters_and_digits(nonce: str) -> None:
    with pytest.raises(ConfigError, match="not a nonce"):
        dragoman.augment_system_prompt(None, [SHELL], nonce=nonce)


def test_the_prompt_of_a_turn_teaches_the_wrapper_and_nothing_else() -> None:
    for way in ({}, {"compact": True}, {"layout": "list"}):
        written = dragoman.augment_system_prompt(None, [SHELL], format="fenced", nonce=NONCE, **way)  # type: ignore[arg-type]
        assert f'<tool_call id="{NONCE}">\n{{"name": "shell"' in written
        assert "copy it exactly" in written
        assert "~~~tool_call" not in written


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_the_row_reads_every_text_without_raising(text: str) -> None:
    row = formats.nonce_format(NONCE)
    parsed = formats.parse(f'<tool_call id="{NONCE}">{text}', extra=[row])
    assert all(call.name for call in parsed.calls)
