"""Improvised spellings: which of them are calls, and which lookalikes stay text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.odd_cases import TOOLS, Rows, account, calls_of, tool, write, write_checked
from tests.tables import each_row

from dragoman import formats
from dragoman.errors import CannotExpress
from dragoman.formats.catalogue.other_rows import LINE_ROWS
from dragoman.toolset import Toolset
from dragoman.types import ToolCall

LINES = Rows(LINE_ROWS)
SEARCH = [("search", {"query": "x"})]
PWD = [("shell", {"command": "pwd"})]

OFFERED: dict[str, list[tuple[str, list[tuple[str, dict[str, Any]]]]]] = {
    "xml_elements": [
        ("<search><query>foo</query><limit>3</limit></search>", [("search", {"query": "foo", "limit": 3})]),
        ("<search>\n<query> a <b>c</b>\n</query>\n</search>", [("search", {"query": " a <b>c</b>\n"})]),
        ('<shell>{"command": "pwd"}</shell>', PWD),
        ("<ping></ping>", [("ping", {})]),
        ('<tool_call><shell>{"command":"pwd"}</shell></tool_call>', PWD),
        ("<tool-call><shell><command>pwd</command></shell></tool-call>", PWD),
        ('<search><near>{"a": 1}</near></search>', [("search", {"near": {"a": 1}})]),
    ],
    "xml_attributes": [
        ('<tool_call name="shell" command="pwd"/>', PWD),
        ("<tool_call name='shell' command='pwd'></tool_call>", PWD),
        ('<tool_call name="shell">{"command": "pwd"}</tool_call>', PWD),
        ('<tool_call name="shell"><command>pwd</command></tool_call>', PWD),
        ('<tool_call name="shell"><parameter name="command">pwd</parameter></tool_call>', PWD),
        ("""<tool_call name="shell" arguments='{"command": "pwd"}' />""", PWD),
        ('<invoke name="shell" command="pwd"/>', PWD),
        ('<search query="x"/>', SEARCH),
        ('<search query="a &quot;b&quot; > c" limit="3" />', [("search", {"query": 'a "b" > c', "limit": 3})]),
        ('<tool_call>shell command="pwd" /></tool_call>', PWD),
    ],
    "perl": [
        ('[TOOL_CALL]\n{tool => "search", args => { --query "x" }}\n[/TOOL_CALL]', SEARCH),
        ('[TOOL_CALL]{tool "search", args { --query "x" }}[/TOOL_CALL]', SEARCH),
        (
            '[TOOL_CALL]{ tool => "search", args => {\n  --query "x"\n  --limit 3\n}}\n[/TOOL_CALL]',
            [("search", {"query": "x", "limit": 3})],
        ),
        ("[TOOL_CALL]{tool => 'search', args => { query => 'x' }}[/TOOL_CALL]", SEARCH),
        ('TOOL_CALL\n{tool => "search", args => { --query "x" }}\n/TOOL_CALL', SEARCH),
        ('[TOOL_CALL]{"name": "search", "arguments": {"query": "x"}}[/TOOL_CALL]', SEARCH),
        ('[TOOL_CALL]{tool => "ping", args => {}}[/TOOL_CALL]', [("ping", {})]),
    ],
    "glm_lines": [
        ("shell/command>pwd", PWD),
        ("shell>pwd", PWD),
        ("search/limit>3", [("search", {"limit": 3})]),
        ("shell>echo a > b", [("shell", {"command": "echo a > b"})]),
        ('shell/{"command": "pwd"}', PWD),
        ("<tool_call>shell>pwd</tool_call>", PWD),
        ("<tool_call>shell>\ncommand: pwd\napproved: true</invoke>", [("shell", {"command": "pwd", "approved": True})]),
    ],
    "react": [
        ('Action: search\nAction Input: {"query": "x"}', SEARCH),
        ('Action: search\nAction Input: {"query": "x"}\nObservation:', SEARCH),
        ("Action: search\nAction Input: x\nObservation:", SEARCH),
        ("Action: `search`\nAction Input: x", SEARCH),
        ('Action: [search]\nAction Input: ```json\n{"query": "x"}\n```', SEARCH),
    ],
    "cohere_command_r": [
        ('Action: ```json\n[{"tool_name": "search", "parameters": {"query": "x"}}]\n```', SEARCH),
        ('Action:```json\n[\n {"tool_name": "search", "parameters": {"query": "x"},}\n]```', SEARCH),
        (
            'Action: ```json\n[{"tool_name": "ping", "parameters": {}}, '
            '{"tool_name": "search", "parameters": {"query": "x"}}]\n```',
            [("ping", {}), *SEARCH],
        ),
        ('Action: ```json\n[{"tool_name": "directly_answer", "parameters": {}}]\n```', []),
    ],
    "functionary_v32": [
        ('>>>search\n{"query": "x"}', SEARCH),
        ('search\n{"query": "x"}', SEARCH),
        ('search\n{"query": "x"}\n>>>ping\n{}', [*SEARCH, ("ping", {})]),
        ("python\nprint(1)\n>>>ping\n{}", [("python", {"code": "print(1)"}), ("ping", {})]),
        (">>>python\nprint(1)\n>>>ping\n{}", [("python", {"code": "print(1)"}), ("ping", {})]),
    ],
}


def test_what_a_model_observes_after_its_own_action_is_invented() -> None:
    text = "Action: search\nAction Input: x\nObservation: MADE UP\n\nMADE UP\nThought: so be it\nFinal Answer: 5"
    parsed = formats.parse(text, "react", TOOLS)
    assert [(call.name, call.arguments) for call in parsed.calls] == SEARCH
    assert parsed.text.split("\n") == ["", "Thought: so be it", "Final Answer: 5"]


@each_row(("name", "text", "calls"), [(name, text, calls) for name, cases in OFFERED.items() for text, calls in cases])
def test_the_spelling_of_an_offered_tool_is_a_call(
    name: str, text: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    parsed = LINES.read(name, text)
    assert (calls_of(parsed), parsed.text.strip(), parsed.broken) == (calls, "", [])
    if not text.startswith("python"):  # which is too common a first word where the format was not named
        assert calls_of(LINES.run("all", [text])) == calls


@pytest.mark.parametrize(
    ("name", "text", "calls"),
    [
        (
            "xml_elements",
            "<tool_call>\n<recall>\n<query>x</query>\n</recall>\n</tool_call>",
            [("recall", {"query": "x"})],
        ),
        ("xml_elements", '<tool_call><shell>{"command":"pwd"}</shell></tool_call>', PWD),
        ("xml_attributes", '<tool_call>read path=".env" /></invoke>', [("read", {"path": ".env"})]),
        (
            "xml_attributes",
            '<tool_call>send to="you" message="Hi there!"</tool_call>',
            [("send", {"to": "you", "message": "Hi there!"})],
        ),
        (
            "perl",
            '[TOOL_CALL]{tool => "read", args => {\n --path "/tmp/a"\n --why "b c"\n}}[/TOOL_CALL]',
            [("read", {"path": "/tmp/a", "why": "b c"})],
        ),
        (
            "glm_lines",
            "browser_open/url>https://example.com\nshell/command>ls -la\nhttp_request/url>https://api.example.com",
            [
                ("browser_open", {"url": "https://example.com"}),
                ("shell", {"command": "ls -la"}),
                ("http_request", {"url": "https://api.example.com"}),
            ],
        ),
        (
            "glm_lines",
            "<tool_call>shell>\ncommand: pwd\napproved: true</invoke>",
            [("shell", {"command": "pwd", "approved": True})],
        ),
        ("react", 'Action: look\nAction Input: {"at": 1}', [("look", {"at": 1})]),
    ],
)
def test_without_tools_the_shape_decides(name: str, text: str, calls: list[tuple[str, dict[str, Any]]]) -> None:
    parsed = LINES.read(name, text, None)
    assert (calls_of(parsed), parsed.text.strip()) == (calls, "")


TEXTS: list[tuple[str, str]] = [
    ("xml_elements", "<div><query>x</query></div> 1 < 2 <b>bold</b>"),
    ("xml_elements", "<search><div>x</div></search>"),
    ("xml_elements", "Use the <search> tag, or <search></search>."),
    ("xml_elements", "<search>plain words</search>"),
    ("xml_elements", "<tool_call><name>search</name></tool_call>"),
    ("xml_attributes", '<search query="x"> and <search query="x"'),
    ("xml_attributes", '<img src="x"/> <search/>'),
    ("xml_attributes", "<tool_call>not valid json</tool_call>"),
    ("perl", "[TOOL_CALL] is a marker. TOOL_CALL\n{x}"),
    ("glm_lines", "nobody/key>value\nnobody>value"),
    ("glm_lines", "see shell/command>pwd"),
    ("glm_lines", "move>a"),
    ("glm_lines", "<tool_call>tool name>value</tool_call>"),
    ("react", "Action: nobody\nAction Input: x"),
    ("react", "Action: search is what I would do."),
    ("react", "My Action: search\nAction Input: x"),
    ("functionary_v32", ">>> search\n>>>nobody\n{}"),
    ("functionary_v32", "search\nfor it yourself"),
    ("cohere_command_r", "Action: ```json of some kind"),
]


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_lookalikes_stay_text(name: str, text: str) -> None:
    parsed = LINES.read(name, text)
    assert (parsed.text, parsed.calls, parsed.broken) == (text, [], [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("xml_elements", "<search><query>x</query></search>"),
        ("xml_attributes", '<search query="x"/>'),
        ("glm_lines", "See below\nlib/a>b"),
        ("glm_lines", "https://example.com/api"),
        ("glm_lines", "shell>pwd"),
        ("react", "Action: search\nAction Input: x"),
        ("functionary_v32", 'search\n{"query": "x"}'),
    ],
)
def test_without_tools_an_unmarked_spelling_stays_text(name: str, text: str) -> None:
    parsed = LINES.read(name, text, None)
    assert (parsed.text, parsed.calls, parsed.broken) == (text, [], [])


@pytest.mark.parametrize(
    ("name", "text", "tools"),
    [
        ("xml_elements", "<search><query>x", TOOLS),
        ("xml_attributes", '<tool_call name="shell" command="pw', TOOLS),
        ("perl", '[TOOL_CALL]{tool => "search", args => { --query "x"', TOOLS),
        ("perl", '[TOOL_CALL]{tool => "search", args => { ??? }}[/TOOL_CALL]', TOOLS),
        ("glm_lines", "<tool_call>shell>pwd", TOOLS),
        ("glm_lines", "<tool_call>shell>pwd</tool_call>", None),
        ("glm_lines", "<tool_call>move>a</tool_call>", TOOLS),
        ("react", 'Action: search\nAction Input: {"query": "x', TOOLS),
        ("react", "Action: move\nAction Input: a to b", TOOLS),
        ("cohere_command_r", 'Action: ```json\n[{"tool_name": "search"', TOOLS),
        ("functionary_v32", '>>>search\n{"query": "x', TOOLS),
    ],
)
def test_what_is_cut_off_or_ambiguous_is_broken_and_not_guessed(name: str, text: str, tools: Toolset | None) -> None:
    parsed = LINES.read(name, text, tools)
    assert (parsed.calls, parsed.text) == ([], "")
    assert len(parsed.broken) == 1


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("xml_elements", "<tool_call><ping></ping></invoke>", None),
        ("xml_elements", "<tool_call><ping></ping></foreign>", "foreign_closer"),
        ("xml_elements", "<tool_call><ping></ping>", "closed_wrapper"),
        ("xml_elements", "<shell><command>a</command><command>b</command></shell>", "repeated_argument"),
        ("perl", '[TOOL_CALL]{tool => "shell", args => {\n--command echo "hi"\n}}[/TOOL_CALL]', "unquoted_value"),
        ("react", "Action: search\nAction Input: {'query': 'x'}\nObservation:", "single_quotes"),
        ("cohere_command_r", 'Action: ```json\n[{"tool_name": "ping", "parameters": {}}]', "closed_wrapper"),
    ],
)
def test_every_repair_is_named(name: str, text: str, rule: str | None) -> None:
    (call,) = LINES.read(name, text).calls
    assert call.repairs == ((rule,) if rule else ())


def test_prose_around_a_line_is_text() -> None:
    parsed = LINES.read("glm_lines", "Checking.\nshell/command>pwd\nDone.")
    assert (calls_of(parsed), parsed.text.split()) == (PWD, ["Checking.", "Done."])


def test_the_recipient_of_the_reader_is_content() -> None:
    assert LINES.read("functionary_v32", "all\nHello.\n>>>ping\n{}").text.strip() == "Hello."
    assert LINES.run("all", ["all\nHello."]).text == "all\nHello."


def test_a_lone_value_fills_the_only_parameter_that_is_declared() -> None:
    offered = Toolset([tool("look", at="integer")])
    assert calls_of(LINES.read("glm_lines", "look>3", offered)) == [("look", {"at": 3})]


CALLS = [
    ToolCall(
        "",
        "search",
        {"query": 'a "b"\n c & [/TOOL_CALL] \\ é', "limit": -3, "tags": ["x", 1], "near": {"a": [None, {"b": 2.5}]}},
    ),
    ToolCall("", "ping", {}),
]


@pytest.mark.parametrize("row", LINE_ROWS, ids=lambda row: row.name)
def test_what_a_row_writes_all_rows_together_read(row: Any) -> None:
    parsed = LINES.run("all", [write(CALLS, row)])
    assert calls_of(parsed) == [(call.name, call.arguments) for call in CALLS]
    assert {call.provenance.format for call in parsed.calls if call.provenance} == {row.name}


@pytest.mark.parametrize("row", [row for row in LINE_ROWS if row.name != "cohere_command_r"], ids=lambda row: row.name)
def test_a_name_that_does_not_fit_is_refused(row: Any) -> None:
    with pytest.raises(CannotExpress):
        write_checked([ToolCall("", "two\nlines <", {})], row)


FRAGMENTS = [
    *(text for cases in OFFERED.values() for text, _ in cases),
    *(
        "<search>",
        "</search>",
        "<query>",
        "</query>",
        "<tool_call>",
        "</tool_call>",
        '<tool_call name="shell"',
        "/>",
        ">",
        "<",
    ),
    *("[TOOL_CALL]", "[/TOOL_CALL]", "TOOL_CALL", '{tool => "shell", args => {', '--command "x"', "}}", "\n/TOOL_CALL"),
    *(
        "shell",
        "/command",
        "shell>",
        "search/",
        "\n",
        "\r\n",
        "Action:",
        " search",
        "Action Input:",
        "Observation:",
        "```json",
        "```",
    ),
    *(">>>", "all\n", "python\n", "{", "}", "[", "]", '"', "'", "\\", " ", "x", "=", "\ud800", "\x00"),
]


@given(
    st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join),
    st.sampled_from(["all", *LINES.rows]),
    st.sampled_from([TOOLS, None]),
    st.integers(1, 7),
)
def test_no_mixture_of_markers_raises_or_depends_on_the_pieces(
    text: str, name: str, tools: Toolset | None, size: int
) -> None:
    whole = LINES.run(name, [text], tools)
    assert "".join(event.raw for event in whole.events if hasattr(event, "raw")) == text
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    assert account(LINES.run(name, pieces, tools)) == account(whole)
