"""Every example of the five seeds, by the number of the seed and what it shows.

Left to later parts: HTTP requests, response bodies, loops, permissions, scrubbing, encoding of definitions and results.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman import formats
from dragoman.errors import InvalidTool
from dragoman.formats import Parsed
from dragoman.toolset import Toolset, as_tool
from dragoman.types import Tool, ToolResult
from dragoman.wire.codec import as_result

Call = tuple[str, dict[str, Any]]

READ: Call = ("read_file", {"path": "/tmp/foo"})
DATE: Call = ("shell", {"command": "date"})
LIST: Call = ("shell", {"command": "ls -la"})
BROWSE: Call = ("browser_open", {"url": "https://example.com"})
FETCH: Call = ("http_request", {"url": "https://api.example.com"})


def make_tool(name: str, *required: str) -> dict[str, Any]:
    """A definition of a tool whose parameters are all strings, and required."""
    properties = {parameter: {"type": "string"} for parameter in required}
    return {"name": name, "parameters": {"type": "object", "properties": properties, "required": list(required)}}


SHELL = make_tool("shell", "command")
GLM_TOOLS = [make_tool("browser_open", "url"), SHELL, make_tool("http_request", "url")]


def as_json(call: Call) -> str:
    return json.dumps({"name": call[0], "arguments": call[1]}, ensure_ascii=False)


def block(body: str | Call) -> str:
    return f"~~~tool_call\n{body if isinstance(body, str) else as_json(body)}\n~~~"


def read(text: str, tools: list[Any] | None = None) -> Parsed:
    """Read a text whole, having made sure that it says the same when it comes character by character."""
    whole = formats.parse(text, tools=tools)
    stage = formats.parser(tools=tools)
    streamed = formats.fold([event for events in [*map(stage.feed, text), stage.close()] for event in events])
    assert (streamed.text, streamed.calls, streamed.broken) == (whole.text, whole.calls, whole.broken)
    return whole


def calls_of(parsed: Parsed) -> list[Call]:
    return [(call.name, call.arguments) for call in parsed.calls]


# ---- messages of providers, as the text of a reply ------------------------------------------------------------------


def function(arguments: object, name: str = "shell", **members: Any) -> dict[str, Any]:
    return {**members, "function": {"name": name, "arguments": arguments}}


TYPED = {"type": "function"}
COMMAND = {"command": "date"}
ENCODED = '{"command": "date"}'
READ_ENTRY = function('{"path": "/tmp/foo"}', "read_file", id="call_abc", **TYPED)
READ_BLOCK = {"type": "tool_use", "id": "toolu_abc", "name": "read_file", "input": {"path": "/tmp/foo"}}
DATE_BLOCK = {"type": "tool_use", "id": "toolu_123", "name": "shell", "input": COMMAND}
TEXT_BLOCK = {"type": "text", "text": "So."}
FLAT = {"id": "call_1", "name": "shell", "arguments": ENCODED}

MESSAGES: dict[str, tuple[dict[str, Any], Call, str | None, str]] = {
    "seed 000: OpenAI, null": (
        {"role": "assistant", "content": None, "tool_calls": [READ_ENTRY]},
        READ,
        "call_abc",
        "",
    ),
    "seed 000: Anthropic": ({"role": "assistant", "content": [READ_BLOCK]}, READ, "toolu_abc", ""),
    "seed 003: OpenAI": ({"tool_calls": [function(ENCODED, id="c1")]}, DATE, "c1", ""),
    "seed 003: Anthropic": ({"content": [DATE_BLOCK]}, DATE, "toolu_123", ""),
    "seed 003: Ollama, an object, no id": ({"tool_calls": [function(COMMAND)]}, DATE, None, ""),
    "seed 004: OpenAI": ({"content": "So.", "tool_calls": [function(ENCODED, id="c4", **TYPED)]}, DATE, "c4", "So."),
    "seed 004: Anthropic": ({"content": [TEXT_BLOCK, DATE_BLOCK]}, DATE, "toolu_123", "So."),
    "seed 004: stored history": ({"content": "So.", "tool_calls": [FLAT]}, DATE, "call_1", "So."),
    "seed 004: MiniMax, no type": ({"content": "So.", "tool_calls": [function(ENCODED, id="c3")]}, DATE, "c3", "So."),
    "seed 004: Ollama": ({"content": "", "tool_calls": [function(ENCODED, id="c7", **TYPED)]}, DATE, "c7", ""),
    "seed 004: Ollama, null id": ({"content": "", "tool_calls": [function(ENCODED, id=None)]}, DATE, None, ""),
}


@each_row("indent", [None, 2])
@each_row(("message", "call", "identity", "text"), MESSAGES.values(), ids=MESSAGES)
def test_a_message(message: dict[str, Any], call: Call, identity: str | None, text: str, indent: int | None) -> None:
    parsed = read(json.dumps(message, indent=indent))
    assert (calls_of(parsed), parsed.text) == ([call], text)
    made = parsed.calls[0].id
    assert made == identity if identity else made


@pytest.mark.parametrize("message", [{"content": "Hello", "tool_calls": []}, {"content": [TEXT_BLOCK]}])
def test_seed_003_a_message_without_calls_gives_an_empty_list(message: dict[str, Any]) -> None:
    parsed = read(json.dumps(message))
    assert (parsed.calls, parsed.broken) == ([], [])


WRAPPED = '{"name": "tool_call", "arguments": {"name": "shell", "arguments": {"command": "date"}}}'
PREFIXED = '{"name": "tool.shell", "arguments": {"command": "date"}}'


@pytest.mark.parametrize("tools", [None, [SHELL]], ids=["no tools", "offered"])
@pytest.mark.parametrize("wrap", ["{}", "<tool_call>{}</tool_call>"], ids=["message", "tag"])
@pytest.mark.parametrize(
    ("written", "repairs"), [(WRAPPED, ("unwrapped_call",)), (PREFIXED, ())], ids=["wrapped", "prefixed"]
)
def test_seed_004_the_quirks_of_ollama_models(
    wrap: str, written: str, repairs: tuple[str, ...], tools: list[Any] | None
) -> None:
    parsed = read(wrap.replace("{}", written), tools)
    assert (calls_of(parsed), [call.repairs for call in parsed.calls]) == ([DATE], [repairs])


# ---- tool definitions and results -----------------------------------------------------------------------------------

PING = {"name": "ping", "description": "Ping"}
OBJECT = {"type": "object"}
GEMINI = {"type": "OBJECT", "properties": {"command": {"type": "STRING"}}, "required": ["command"]}


@pytest.mark.parametrize(
    "definition",
    [
        {**TYPED, "function": {**PING, "parameters": OBJECT}},
        {**PING, "input_schema": OBJECT},
        {**PING, "parameters": OBJECT},
        {**PING, "schema": OBJECT},
        Tool("ping", "Ping", OBJECT, metadata={}),
    ],
    ids=["OpenAI and Ollama", "Anthropic", "plain", "the seeds' schema", "Tool"],
)
def test_seeds_000_003_and_004_a_definition_in_any_shape_is_the_same_tool(definition: object) -> None:
    assert as_tool(definition) == Tool("ping", "Ping", OBJECT)
    assert Toolset([definition]).find("ping") == Tool("ping", "Ping", OBJECT)


def test_seed_004_a_gemini_function_declaration() -> None:
    declaration = {"name": "shell", "description": "Execute a shell command", "parameters": GEMINI}
    assert as_tool(declaration) == Tool("shell", "Execute a shell command", GEMINI)
    assert calls_of(read("shell>date", [declaration])) == [DATE]


class DescribePage:
    """A tool as an object: its four parts are methods."""

    def name(self) -> str:
        return "describe_page"

    def description(self) -> str:
        return "Say what a web page is about"

    def schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]}

    def execute(self, arguments: dict[str, Any], context: object) -> str:
        return f"summary of {arguments['url']}"


def test_seed_001_a_tool_object_with_name_description_schema_and_execute() -> None:
    tool = as_tool(DescribePage())
    assert (tool.name, tool.description) == ("describe_page", "Say what a web page is about")
    assert tool.parameters == DescribePage().schema()
    assert tool.run is not None
    assert tool.run({"url": "https://example.com"}, None) == "summary of https://example.com"


def test_seed_001_a_tool_is_not_parallel_safe_unless_it_says_so() -> None:
    assert not as_tool(DescribePage()).parallel_safe
    assert not Tool("bash").parallel_safe
    assert as_tool(Tool("glob", parallel_safe=True)).parallel_safe


def test_seed_001_the_schema_serves_reading_and_instructions() -> None:
    assert calls_of(read("describe_page>x.org", [DescribePage()])) == [("describe_page", {"url": "x.org"})]
    assert '"required": ["url"]' in formats.instructions([DescribePage()])


RESULTS: dict[str, tuple[dict[str, Any], ToolResult]] = {
    "seed 003: OpenAI": ({"role": "tool", "tool_call_id": "c", "content": "1"}, ToolResult("c", content="1")),
    "seed 003: Anthropic": ({"type": "tool_result", "tool_use_id": "c", "content": "1"}, ToolResult("c", content="1")),
    "seed 004: stored": ({"tool_call_id": "c", "content": "Fri"}, ToolResult("c", content="Fri")),
    "seed 004: success": ({"call_id": "c", "success": True, "output": "ok"}, ToolResult("c", content="ok")),
    "seed 004: failure": (
        {"call_id": "c", "name": "shell", "success": False, "output": "no such file"},
        ToolResult("c", "shell", content="no such file", is_error=True),
    ),
}


@pytest.mark.parametrize(("written", "result"), RESULTS.values(), ids=RESULTS)
def test_a_result(written: dict[str, Any], result: ToolResult) -> None:
    assert as_result(written) == result


def test_seed_003_an_ollama_result_alone_does_not_say_which_call_it_answers() -> None:
    with pytest.raises(InvalidTool):
        as_result({"role": "tool", "content": "pong"})


# ---- instructions ---------------------------------------------------------------------------------------------------


def test_seed_000_instructions_teach_the_block_and_each_schema() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    written = formats.instructions([{"name": "read_file", "description": "read a file", "schema": schema}])
    assert all(part in written for part in ("~~~tool_call\n", "\n~~~", "read_file", "read a file", json.dumps(schema)))


def test_seed_002_compact_instructions_spend_one_line_on_a_tool() -> None:
    tools = [make_tool("read_file", "path"), SHELL]
    compact, full = formats.instructions(tools, compact=True), formats.instructions(tools)
    assert "- read_file(path: string)\n- shell(command: string)\n" in compact
    assert '"properties"' in full and '"properties"' not in compact
    assert len(compact) < len(full)


def test_seed_004_instructions_list_tools_and_show_the_tag() -> None:
    written = formats.instructions([{**SHELL, "description": "Execute a shell command"}], "hermes")
    assert "## shell\nExecute a shell command\n" in written
    assert '<tool_call>\n{"name": "shell", "arguments": {"command": ' in written


@pytest.mark.parametrize("format", ["fenced", "hermes", "fenced_tool_call"])
def test_seeds_000_and_004_the_example_in_the_instructions_is_itself_a_call(format: str) -> None:
    parsed = read(formats.instructions([make_tool("read_file", "path")], format))
    assert [(call.name, set(call.arguments)) for call in parsed.calls] == [("read_file", {"path"})]


# ---- 000: blocks between tildes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "calls"),
    [(block(READ), [READ]), (f"Sure.\n{block(READ)}", [READ]), ("Nothing to call here.", []), ("", [])],
    ids=["the example", "text and a block", "no fences", "empty"],
)
def test_seed_000_a_block_or_none(text: str, calls: list[Call]) -> None:
    parsed = read(text)
    assert (calls_of(parsed), parsed.broken) == (calls, [])
    assert all(call.repairs == () for call in parsed.calls)


def test_seed_000_several_blocks_are_several_calls_in_order() -> None:
    parsed = read(f"First this.\n{block(READ)}\nThen that.\n{block(DATE)}\nDone.")
    assert (calls_of(parsed), parsed.text) == ([READ, DATE], "First this.\n\nThen that.\n\nDone.")


def test_seed_000_an_id_in_a_block_is_kept_and_a_missing_one_is_made() -> None:
    parsed = read(block('{"id": "call_9", "name": "ping", "arguments": {}}') + "\n" + block(READ))
    kept, made = (call.id for call in parsed.calls)
    assert kept == "call_9"
    assert made not in ("", kept)


@pytest.mark.parametrize("opener", ["Write ~~~tool_call\n", "Write ~~~tool_call ", "~~~tool_call ", "~~~tool_caller\n"])
@pytest.mark.parametrize("closer", ["\n~~~", " ~~~", " ~~~ for a call."])
def test_seed_000_an_opening_fence_that_shares_its_line_is_text(opener: str, closer: str) -> None:
    text = opener + as_json(READ) + closer
    parsed = read(text)
    assert (parsed.calls, parsed.text, parsed.broken) == ([], text, [])


@pytest.mark.parametrize("shared", [" ~~~", "~~~", "\n~~~ and more", "\n~~~~", "\n~~~x"])
def test_seed_000_a_closing_fence_that_shares_its_line_is_text(shared: str) -> None:
    parsed = read(f"~~~tool_call\n{as_json(READ)}{shared}")
    assert (calls_of(parsed), parsed.text) == ([READ], shared)
    assert parsed.calls[0].repairs == ("closed_wrapper",)


def test_seed_000_tildes_inside_a_string_close_nothing() -> None:
    call: Call = ("write", {"content": "a\n~~~\nb ~~~"})
    assert calls_of(read(block(call))) == [call]


@pytest.mark.parametrize("wrap", ["~~~tool_call\n%s\n~~~", "```tool_call\n%s\n```", "```tool_call\n%s```"])
@pytest.mark.parametrize("body", ['{"name": "read_file", "arguments": {"path"', '{"arguments": {}}', "{invalid json"])
def test_seed_000_a_malformed_block_is_broken_and_its_neighbours_live(body: str, wrap: str) -> None:
    parsed = read("\n".join(wrap % each for each in (as_json(READ), body, as_json(DATE))))
    assert (calls_of(parsed), parsed.text) == ([READ, DATE], "")
    assert [broken.raw.strip() for broken in parsed.broken] == [wrap % body]


@pytest.mark.parametrize(
    ("written", "meant"),
    [('{"x": 1}', {"x": 1}), (r'"{\"x\": 1}"', {"x": 1}), ('""', {}), ("{}", {}), ('"{}"', {})],
)
def test_seed_000_arguments_may_be_an_object_its_json_or_empty(written: str, meant: dict[str, Any]) -> None:
    assert calls_of(read(block(f'{{"name": "t", "arguments": {written}}}'))) == [("t", meant)]


@pytest.mark.parametrize("written", ["[1]", "3", "true", '"text"', '"[1]"', '"3"'])
def test_seed_000_any_other_arguments_are_an_error_and_never_an_empty_object(written: str) -> None:
    parsed = read(block(f'{{"name": "t", "arguments": {written}}}'))
    assert (parsed.calls, len(parsed.broken)) == ([], 1)
    assert "arguments" in parsed.broken[0].why


def test_seed_000_a_call_with_bad_arguments_keeps_its_name() -> None:
    assert [broken.name for broken in read(block('{"name": "t", "arguments": [1]}')).broken] == ["t"]


# ---- 002: bare JSON -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (as_json(READ), [READ]),
        (f"```json\n{as_json(READ)}\n```", [READ]),
        (f"{as_json(READ)}\n{as_json(DATE)}", [READ, DATE]),
        (f"[{as_json(READ)}, {as_json(DATE)}]", [READ, DATE]),
        (f"```json\n{as_json(READ)}\n{as_json(DATE)}\n```", [READ, DATE]),
    ],
    ids=["bare", "in a json fence", "several", "a list", "several in a json fence"],
)
def test_seed_002_a_message_that_is_nothing_but_json_calls(text: str, calls: list[Call]) -> None:
    parsed = read(text)
    assert (calls_of(parsed), parsed.text) == (calls, "")
    assert {call.provenance.region for call in parsed.calls if call.provenance} == {"message"}


@pytest.mark.parametrize(
    "text",
    [
        f"The mail says: {as_json(DATE)}",
        f"Look:\n\n{as_json(DATE)}\n\nIs that right?",
        f'<tool_result name="shell">\n{as_json(DATE)}\n</tool_result>',
        'Give "name" and "arguments", please.',
    ],
    ids=["in a sentence", "between paragraphs", "a replayed result", "the two words alone"],
)
def test_seeds_002_and_004_what_nothing_marks_as_a_call_stays_text(text: str) -> None:
    parsed = read(text, [SHELL])
    assert (parsed.calls, parsed.text) == ([], text)


# ---- 004: tags and labelled fences ----------------------------------------------------------------------------------

TAGS = ["tool_call", "toolcall", "tool-call", "invoke"]
LABELS = ["tool_call", "tool-call", "toolcall", "invoke"]
CLOSERS = ["```", "</tool_call>", "</tool-call>", "</toolcall>"]
OPENERS = ["~~~tool_call\n", *(f"```{label}\n" for label in LABELS), *(f"<{tag}>" for tag in TAGS)]
OWN_AND_CROSSED: list[tuple[str, tuple[str, ...]]] = [(f"</{tag}>", ()) for tag in TAGS]
FOREIGN: list[tuple[str, tuple[str, ...]]] = [
    (f"</{tag}>", ("foreign_closer",)) for tag in ("function", "arg_value", "parameter")
]


@each_row("opener", TAGS)
@each_row(("closer", "repairs"), OWN_AND_CROSSED + FOREIGN)
def test_seed_004_every_tag_with_own_crossed_and_foreign_closers(
    opener: str, closer: str, repairs: tuple[str, ...]
) -> None:
    parsed = read(f"Let me look.\n<{opener}>\n{as_json(DATE)}\n{closer}\nThat was the date.")
    assert (calls_of(parsed), parsed.text) == ([DATE], "Let me look.\n\nThat was the date.")
    assert parsed.calls[0].repairs == repairs


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("closer", CLOSERS)
def test_seed_004_every_fence_label_with_every_closer(label: str, closer: str) -> None:
    parsed = read(f"Let me look.\n```{label}\n{as_json(DATE)}\n{closer}\nDone.")
    assert (calls_of(parsed), parsed.text, parsed.calls[0].repairs) == ([DATE], "Let me look.\n\nDone.", ())


@each_row("opener", OPENERS)
@each_row("tail", ["", "\n", "\nDone."])
def test_seed_004_complete_json_without_a_closer_is_a_call(opener: str, tail: str) -> None:
    parsed = read(f"Now.\n{opener}{as_json(DATE)}{tail}")
    assert (calls_of(parsed), parsed.text.split()) == ([DATE], ["Now.", *tail.split()])
    assert (parsed.calls[0].complete, parsed.calls[0].repairs) == (True, ("closed_wrapper",))


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("missing", [1, 2])
def test_seed_004_overruled_json_that_lacks_only_brackets_is_a_call(opener: str, missing: int) -> None:
    """All arguments are complete. A reply that was cut off does not run it: `extract` decides that."""
    parsed = read(f"Now.\n{opener}{as_json(DATE)[:-missing]}")
    assert (calls_of(parsed), parsed.text) == ([DATE], "Now.\n")
    assert "closed_wrapper" in parsed.calls[0].repairs


@each_row("opener", OPENERS)
@each_row("missing", [3, 5, 20])
def test_seed_004_incomplete_json_without_a_closer_is_broken(opener: str, missing: int) -> None:
    cut = opener + as_json(DATE)[:-missing]
    parsed = read(f"Now.\n{cut}")
    assert (parsed.calls, parsed.text, [broken.raw for broken in parsed.broken]) == ([], "Now.\n", [cut])


def test_seed_004_a_stored_reply_of_text_and_tagged_calls() -> None:
    tags = "\n".join(f"<tool_call>\n{body}\n</tool_call>" for body in (json.dumps(FLAT), as_json(READ)))
    parsed = read(f"Let me check.\n{tags}")
    assert (calls_of(parsed), parsed.text.strip()) == ([DATE, READ], "Let me check.")
    assert parsed.calls[0].id == FLAT["id"]


# ---- 004: GLM lines -------------------------------------------------------------------------------------------------

GLM_TEXT = "browser_open/url>https://example.com\nshell/command>ls -la\nhttp_request/url>https://api.example.com"


@pytest.mark.parametrize("tools", [GLM_TOOLS, None], ids=["offered", "no tools"])
@pytest.mark.parametrize(("before", "after"), [("", ""), ("I look:\n", "\nDone.")])
def test_seed_004_the_three_glm_lines(tools: list[Any] | None, before: str, after: str) -> None:
    parsed = read(before + GLM_TEXT + after, tools)
    assert (calls_of(parsed), parsed.text.split()) == ([BROWSE, LIST, FETCH], (before + after).split())


def test_seed_004_a_glm_line_counts_for_offered_names_only() -> None:
    parsed = read(GLM_TEXT, [SHELL])
    assert (calls_of(parsed), parsed.text.split()) == ([LIST], [GLM_TEXT.split()[0], GLM_TEXT.split()[-1]])


@pytest.mark.parametrize("tools", [GLM_TOOLS, None], ids=["offered", "no tools"])
def test_seed_004_a_glm_line_counts_only_at_the_start_of_a_line(tools: list[Any] | None) -> None:
    assert read("I use shell/command>ls -la here.", tools).calls == []


@pytest.mark.parametrize("text", ["shell>pwd", "<tool_call>shell>pwd</tool_call>"])
def test_seed_004_a_glm_line_without_a_key_fills_the_single_required_parameter(text: str) -> None:
    assert calls_of(read(text, [SHELL])) == [("shell", {"command": "pwd"})]
    assert calls_of(read(text, [make_tool("shell", "command", "folder")])) == []
    assert calls_of(read(text)) == []


@pytest.mark.parametrize("text", ["browser_open/url>https://example.com", f"<tool_call>{as_json(BROWSE)}</tool_call>"])
def test_seed_004_a_name_is_never_turned_into_another_tool(text: str) -> None:
    assert calls_of(read(text)) == calls_of(read(text, GLM_TOOLS)) == [BROWSE]
    assert all(call.name == "browser_open" and call.known_tool is False for call in read(text, [SHELL]).calls)


def test_seed_004_formats_may_mix_in_one_reply() -> None:
    tag, hybrid = f"<tool_call>\n{as_json(DATE)}\n</tool_call>", f"```tool_call\n{as_json(FETCH)}\n</tool_call>"
    parsed = read("\nand\n".join([block(READ), tag, "shell/command>ls -la", hybrid]))
    assert (calls_of(parsed), parsed.text.split()) == ([READ, DATE, LIST, FETCH], ["and"] * 3)


# ---- 004: the regex for fences --------------------------------------------------------------------------------------

FENCE = re.compile(r"(?s)```(?:tool[_-]?call|invoke)\s*\n(.*?)(?:```|</tool[_-]?call>)")
CLOSER = re.compile(r"```|</tool[_-]?call>")

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["shell", "read_file", "http_request"])
calls_without_closer = st.tuples(names, st.dictionaries(st.text(max_size=8), values, max_size=4)).filter(
    lambda call: not CLOSER.search(as_json(call))
)
blanks = st.text(alphabet=" \t\r\n", max_size=3)


@st.composite
def fences(draw: st.DrawFn, call: Call) -> str:
    """A labelled fence around a call, with any blanks that the regex allows."""
    opener = f"```{draw(st.sampled_from(LABELS))}{draw(blanks)}\n"
    return opener + draw(blanks) + as_json(call) + draw(blanks) + draw(st.sampled_from(CLOSERS))


@given(st.data(), st.lists(calls_without_closer, min_size=1, max_size=3))
def test_seed_004_what_the_regex_finds_we_find(data: st.DataObject, calls: list[Call]) -> None:
    between = st.sampled_from(["\n", "\n\n", " ok\n", "\nNow the next:\n"])
    text = data.draw(between) + "".join(data.draw(fences(call)) + data.draw(between) for call in calls)
    assert [body.strip() for body in FENCE.findall(text)] == [as_json(call) for call in calls]
    assert calls_of(formats.parse(text)) == calls


@pytest.mark.parametrize("before", ["Now ", "Now:", "- "])
def test_seed_004_the_regex_and_we_find_a_fence_that_opens_within_a_line(before: str) -> None:
    for label, closer in [(label, closer) for label in LABELS for closer in CLOSERS]:
        text = f"{before}```{label}\n{as_json(DATE)}\n{closer}\nDone."
        assert [body.strip() for body in FENCE.findall(text)] == [as_json(DATE)]
        assert calls_of(read(text)) == [DATE]


def test_seed_004_the_regex_and_we_find_json_behind_words_in_a_fence() -> None:
    text = f"```tool_call\nI call the tool:\n{as_json(DATE)}\n```"
    assert [as_json(DATE) in body for body in FENCE.findall(text)] == [True]
    assert calls_of(read(text)) == [DATE]


@given(st.data(), names, st.text(max_size=9), st.sampled_from(CLOSERS), st.text(max_size=9))
def test_seed_004_unlike_the_regex_we_end_at_no_closer_inside_a_string(
    data: st.DataObject, name: str, before: str, closer: str, after: str
) -> None:
    call: Call = (name, {"command": before + closer + after})
    text = data.draw(fences(call))
    assert as_json(call) not in [body.strip() for body in FENCE.findall(text)]
    assert calls_of(formats.parse(text)) == [call]
