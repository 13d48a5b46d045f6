"""Calls in markup that no format describes: the name and the schema of an offered tool decide, not the wrapper."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import work
from tests.tables import each_row

from dragoman import formats
from dragoman.events import CallBroken, CallEnded, CallRefused, MarkerDropped, TextDelta, ThinkingDelta
from dragoman.formats.improvised.attempts import find_attempts
from dragoman.toolset import Toolset

_TEXT = {"type": "string"}
TOOLS = Toolset(
    [
        {
            "name": "find_ship",
            "parameters": {
                "type": "object",
                "properties": {"port": _TEXT, "days": {"type": "integer"}, "open": {"type": "boolean"}},
                "required": ["port"],
            },
        },
        {"name": "read_log", "parameters": {"type": "object", "properties": {"path": _TEXT}, "required": ["path"]}},
        {"name": "all_ships", "parameters": {"type": "object", "properties": {}}},
        {
            "name": "run_shell",
            "parameters": {"type": "object", "properties": {"command": _TEXT}, "required": ["command"]},
            "metadata": {"class": "exec"},
        },
    ]
)
ARGUMENTS = {"port": "Ystad", "days": 3}

# The same arguments in the five notations, and the wrappers in which each occurs. {a} is the place of the arguments.
JSON = '{"port": "Ystad", "days": 3}'
ELEMENTS = "<port>Ystad</port><days>3</days>"
NAMED_ELEMENTS = '<parameter name="port">Ystad</parameter>\n<parameter name="days" type="int">3</parameter>'
KEYED_ELEMENTS = "<arg_key>port</arg_key><arg_value>Ystad</arg_value><arg_key>days</arg_key><arg_value>3</arg_value>"
ATTRIBUTES = 'port="Ystad" days="3"'
PYTHON = '(port="Ystad", days=3)'
LINES = "port: Ystad\ndays: 3"
ENVELOPE = f'{{"name": "find_ship", "arguments": {JSON}}}'
FENCED = f"```json\n{ENVELOPE}\n```"
WRAPPERS = {
    "a name element": ("<use_tool>\n<name>find_ship</name>\n<input>{a}</input>\n</use_tool>", (JSON, ELEMENTS)),
    "a name attribute": ('<action name="find_ship">{a}</action>', (JSON, ELEMENTS, NAMED_ELEMENTS, LINES)),
    "a suffix": ("<do=find_ship>\n{a}\n</do>", (JSON, ELEMENTS, NAMED_ELEMENTS)),
    "a tag of its name": ("<find_ship>{a}</find_ship>", (JSON, ELEMENTS)),
    "attributes of its name": ("<find_ship {a}/>", (ATTRIBUTES,)),
    "attributes of another tag": ('<task tool="find_ship" {a}></task>', (ATTRIBUTES,)),
    "a bracketed label": ("[find_ship]\n{a}", (JSON,)),
    "a label in brackets": ("[Using tool: find_ship{a}]", (PYTHON,)),
    "pairs in brackets": ("[find_ship {a}]", (ATTRIBUTES, 'port="Ystad", days=3')),
    "a sigil": ("@find_ship {a}", (JSON, ATTRIBUTES)),
    "a sigil on both sides": ("@@find_ship {a}@@", (JSON, ATTRIBUTES, "port=Ystad, days=3", "days: 3, port: Ystad")),
    "colons on both sides": ("::find_ship {a}::", (JSON, ATTRIBUTES, "days=3 port=Ystad")),
    "percent signs on both sides": ("%%find_ship {a}%%", (JSON, "port=Ystad days=3")),
    "a pictograph": ("🔧 find_ship{a}", (JSON, PYTHON)),
    "a prefix": ("call:find_ship{a}", (JSON, PYTHON)),
    "a namespace": ("default_api:find_ship{a}", (JSON,)),
    "a recipient": ("commentary to=functions.find_ship json{a}", (JSON,)),
    "tokens": ("<|use|>find_ship<|with|>{a}<|done|>", (JSON,)),
    "triple brackets": ("<<<CALL>>>\n{a}\n<<<END_CALL>>>", ('{"tool": "find_ship", "args": ' + JSON + "}",)),
    "a labelled fence": ("```tool_use\nfind_ship\n{a}\n```", (JSON, LINES)),
    "a fence of its name": ("```find_ship\n{a}\n```", (JSON,)),
    "elements without a wrapper": ("find_ship{a}</call>", (KEYED_ELEMENTS,)),
    "an envelope in a tag": ("<step>{a}</step>", ('{"action": "find_ship", "params": ' + JSON + "}",)),
    "an escaped wrapper": ("&lt;find_ship&gt;{a}&lt;/find_ship&gt;", (ELEMENTS.replace("<", "&lt;"),)),
    "tags in square brackets": ("[find_ship]\n{a}\n[/find_ship]", ("[port]Ystad[/port]\n[days]3[/days]",)),
    "a wrapper in square brackets": (
        '[tool_call name="find_ship"]\n{a}\n[/tool_call]',
        ('[parameter name="port"]Ystad[/parameter]\n[parameter=days]3[/parameter]',),
    ),
    "the prefix of a namespace": (
        '<x:do name="find_ship">{a}</x:do>',
        ('<x:parameter name="port">Ystad</x:parameter><x:parameter name="days">3</x:parameter>', JSON),
    ),
    "the type of an element": ('<step type="find_ship">{a}</step>', (ELEMENTS,)),
    "an identity before the name": (
        "<y:card><y:card_id>7</y:card_id><y:tool_name>find_ship</y:tool_name>{a}</y:card>",
        (f"<y:tool_args><![CDATA[{JSON}]]></y:tool_args>", f"<input>{JSON}</input>"),
    ),
    "a fence with JSON on its first line": ("```find_ship {a}\n```", (JSON,)),
    "a token before each argument": ("<|use|>find_ship\n{a}<|done|>", ("<|sep|>port\nYstad\n<|sep|>days\n3\n",)),
    "stars around the labels": ("✿FUNCTION✿: find_ship\n✿ARGS✿: {a}\n✿RESULT✿", (JSON,)),
    "brackets after the name": ("<function=find_ship[]{a}</function>", (JSON,)),
    "brackets around the name": ("<function(find_ship){a}</function>", (JSON,)),
    "other words before the JSON": ("to=functions.find_ship 天气json\n{a}", (JSON,)),
    "labels around the arguments": ("[FunctionCall]find_ship[Args]{a}[/FunctionCall]", (JSON,)),
    "unused tokens": ("[unused11]{a}[unused12]", (f"[{ENVELOPE}]",)),
    "JSON in a string": (
        '<tool_call>\n"{a}"\n</tool_call>',
        ('{\\"name\\": \\"find_ship\\", \\"arguments\\": ' + JSON.replace('"', '\\"') + "}",),
    ),
    "bars in tags": ('<｜DSML｜run name="find_ship">{a}</｜DSML｜run>', (ELEMENTS,)),
}
MARKED = [
    pytest.param(wrapper.replace("{a}", arguments), id=f"{name}-{index}")
    for name, (wrapper, notations) in WRAPPERS.items()
    for index, arguments in enumerate(notations)
]


def read(text: str, **options: Any) -> formats.Parsed:
    return formats.parse(text, tools=TOOLS, **options)


def calls_of(parsed: formats.Parsed) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in parsed.calls]


@each_row("text", MARKED)
def test_a_marked_call_alone_on_its_lines_is_read(text: str) -> None:
    for before, after in itertools.product(("", "I will look it up.\n\n"), ("", "\n")):
        parsed = read(before + text + after)
        assert calls_of(parsed) == [("find_ship", ARGUMENTS)]
        assert parsed.text.strip() == before.strip()
        assert {call.provenance.region for call in parsed.calls if call.provenance} <= {"marked", "answer"}


@each_row("text", MARKED)
def test_loose_mode_reads_what_auto_reads(text: str) -> None:
    assert calls_of(read("Soon.\n" + text, loose=True)) == [("find_ship", ARGUMENTS)]


@each_row("text", MARKED)
def test_a_marked_call_with_words_on_its_line_is_text(text: str) -> None:
    assert calls_of(read(f"We could write {text} here.")) == []


@each_row("text", MARKED)
def test_a_call_of_another_tool_is_text(text: str) -> None:
    other = text.replace("find_ship", "find_boat")
    assert [call for call in read(other).calls if call.known_tool] == []


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('find_ship(port="Ystad", days=3)', [("find_ship", ARGUMENTS)]),
        ("find_ship " + JSON, [("find_ship", ARGUMENTS)]),
        ('{"command": "find_ship", "with": ' + JSON + "}", [("find_ship", ARGUMENTS)]),
        ('{"steps": [{"tool": "find_ship", "args": ' + JSON + "}]}", [("find_ship", ARGUMENTS)]),
        ("```python\nfind_ship(port='Ystad', days=3)\n```", [("find_ship", ARGUMENTS)]),
        ('find_ship(port="Ystad", days=3', []),  # a number may go on
        ('find_ship(days=3, port="Ystad"', [("find_ship", ARGUMENTS)]),
        ('find_ship(days=3, port="Yst', []),
        ("<all_ships/>", [("all_ships", {})]),
        ('{tool => "find_ship", args => {\n  --port "Ystad"\n  --days 3\n}}', [("find_ship", ARGUMENTS)]),
        ('{tool => "find_ship", args => { --port Ystad --days 3 }}', [("find_ship", ARGUMENTS)]),
        ('{tool => "find_ship", args => { --harbour Ystad }}', []),
        ("[find_ship] port=Ystad days=3", [("find_ship", ARGUMENTS)]),
        ("<tool>read_log</tool><tool_input>var/a b.log</tool_input>", [("read_log", {"path": "var/a b.log"})]),
        ("Calling tools:\n[" + ENVELOPE + "]", [("find_ship", ARGUMENTS)]),
        ("Action:\n" + ENVELOPE + "<end_action>", [("find_ship", ARGUMENTS)]),
        (
            FENCED + '\n\n```json\n{"name": "all_ships", "arguments": {}}\n```',
            [("find_ship", ARGUMENTS), ("all_ships", {})],
        ),
        (FENCED + '\n\n```json\n{"ships": 3}\n```', []),
        ('{"choices": [{"message": {"tool_calls": [{"function": ' + ENVELOPE + "}]}}]}", [("find_ship", ARGUMENTS)]),
    ],
)
def test_a_whole_message_is_a_call_if_it_satisfies_the_schema(text: str, calls: list[Any]) -> None:
    assert calls_of(read(text)) == calls


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("I look.\nfind_ship(port='Ystad')", [("find_ship", {"port": "Ystad"})]),
        ("find_ship(port='Ystad')\nThat was it.", []),
        ("It is done.\nrun_shell(command='ls')", []),  # tools that act need more than a line
        ("I look.\nships = find_ship(port='Ystad')", []),
        ("- find_ship(port='Ystad')", []),
    ],
)
def test_a_last_line_that_is_nothing_but_a_call_counts(text: str, calls: list[Any]) -> None:
    assert calls_of(read(text)) == calls


@pytest.mark.parametrize(
    "text",
    [
        "Ask find_ship for the port and read_log for the path.",
        "find_ship: finds ships.\nread_log: reads a log.",
        "[find_ship](https://example.org) explains it.",
        '[find_ship]\nport = "Ystad"\n\nThis is the file.',
        "# find_ship\n\nport: where to look",
        '<b>find_ship</b> {"port": "Ystad"}',
        "<example><find_ship><port>Ystad</port></find_ship></example>",
        '<use tool="find_ship" port="<port>"/>',
        '[call:find_ship(port="...")]',
        '{"name": "find_ship", "version": "1.0", "port": 8080}',
        '<tool_call id="aB3dE5fG7h">\n{"name": "find_ship", "arguments": ' + JSON + "}\n</tool_call>",
    ],
)
def test_text_about_tools_is_text(text: str) -> None:
    parsed = read(text)
    assert calls_of(parsed) == []
    assert parsed.text == text


def test_several_calls_in_one_wrapper_are_read_in_order() -> None:
    text = "<calls>\n<find_ship><port>A</port></find_ship>\n<read_log><path>b</path></read_log>\n</calls>"
    assert calls_of(read(text)) == [("find_ship", {"port": "A"}), ("read_log", {"path": "b"})]
    glued = 'call:find_ship{port: "A"}call:read_log{path: "b"}'
    assert calls_of(read(glued)) == [("find_ship", {"port": "A"}), ("read_log", {"path": "b"})]


def test_each_call_of_an_envelope_has_its_own_stretch_of_text() -> None:
    text = '{"steps": [{"tool": "read_log", "args": {"path": "a"}}, {"tool": "read_log", "args": {"path": "b"}}]}'
    spans = [call.provenance.span for call in read(text).calls if call.provenance]
    assert len(spans) == 2
    assert all(start < end for start, end in spans)
    assert (spans[0][0], spans[0][1], spans[1][1]) == (0, spans[1][0], len(text))


# --------------------------------------------------------------------------------------------------------------------
# The laws of every reader.

_FRAGMENTS = (
    *(
        "\n",
        "\n\n",
        " ",
        "Words. ",
        "find_ship",
        "<",
        "[",
        "{",
        '"',
        "`",
        "```\n",
        "@",
        "call:",
        "</find_ship>",
        "&lt;",
    ),
    *("<|x|>", "(", ")", "port=", "to=", "json", "🔧", "</think>", "<escape>", '<tool_call id="x">', "</tool_call>"),
)
PIECES = st.sampled_from([*(str(text.values[0]) for text in MARKED), *_FRAGMENTS])


@given(st.lists(PIECES, max_size=8).map("".join), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_every_split_gives_the_calls_of_the_whole_text(text: str, sizes: list[int]) -> None:
    whole = read(text)
    stage = formats.parser(tools=TOOLS)
    events, at = [], 0
    for size in itertools.cycle(sizes):
        if at >= len(text):
            break
        events += stage.feed(text[at : at + size])
        at += size
    parsed = formats.fold(events + stage.close())
    assert (parsed.text, parsed.thinking, parsed.calls) == (whole.text, whole.thinking, whole.calls)


@given(st.lists(PIECES, max_size=8).map("".join))
def test_every_character_leaves_in_one_event(text: str) -> None:
    kinds = (TextDelta, ThinkingDelta, MarkerDropped, CallEnded, CallRefused, CallBroken)
    assert "".join(event.raw for event in read(text).events if isinstance(event, kinds)) == text


DAMAGED = (
    '{"name": "find_ship": {a}}',
    '{"tool_call":"find_ship__":{a}}',
    '{"name": "find_ship", {a}}',
    '{"tool": "find_ship" {a}}',
    '{"name": "find_ship", "arguments" {a}}',
    '{"find_ship" {a}}',
    "{'function': 'find_ship': {a}}",
    '```json\n{"action": "find_ship": {a}}\n```',
)


def test_a_message_without_the_key_between_name_and_arguments_is_a_call() -> None:
    for shape in DAMAGED:
        text = shape.replace("{a}", JSON)
        assert calls_of(read(text)) == [("find_ship", ARGUMENTS)], text
        assert "name_before_braces" in read(text).calls[0].repairs, text
        assert calls_of(read(text.replace("port", "harbour"))) == [], text  # not a parameter of the tool
        assert calls_of(read(text.replace("find_ship", "find_boat"))) == [], text
        assert calls_of(read(f"An object such as {text} is not JSON.")) == [], text


def test_a_call_without_an_opener_counts_between_calls() -> None:
    call = '{"name": "find_ship", "arguments": ' + JSON + "}"
    for count in (1, 2, 5):
        text = f"<tool_call>\n{call}\n</tool_call>" + f"\n{call}\n</tool_call>" * count
        parsed = read(text)
        assert calls_of(parsed) == [("find_ship", ARGUMENTS)] * (count + 1)
        assert not parsed.text.strip()
        described = read(text + "\nThe tag </tool_call> ends a call.")
        assert calls_of(described) == [("find_ship", ARGUMENTS)] * count  # the last one is not between calls


def test_a_list_directly_behind_a_call_is_its_echo() -> None:
    call = 'find_ship(port="Ystad", days=3)'
    text = f"<|tool_call_start|>[{call}]<|tool_call_end|>[{call}]<|tool_call_end|>"
    assert calls_of(read(text)) == calls_of(read(text, format="lfm2")) == [("find_ship", ARGUMENTS)]


def test_a_heading_for_results_leaves_the_text_only_at_the_end() -> None:
    call = '<tool_call>\n{"name": "find_ship", "arguments": ' + JSON + "}\n</tool_call>"
    for heading in ("[Tool results]", "[tool result]"):
        assert not read(f"{call}\n{heading}\n").text.strip()
        for text in (f"{call}\n{heading}\nNo ship.", f"{call}\nSee {heading}", f"Answer.\n{heading}"):
            assert heading in read(text).text, text
        # What the model invents as a result is not a call.
        assert len(read(f'{call}\n{heading}\n{{"name": "find_ship", "arguments": {JSON}}}').calls) == 1


BEFORE = ("", '[\n null,\n "', "Text:\n  ", "x\nfind_ship\n")
AFTER = ("", '"]')


def test_where_a_stream_is_cut_does_not_change_what_begins_a_line() -> None:
    calls = [
        *(wrapper.replace("{a}", notations[0]) for wrapper, notations in WRAPPERS.values()),
        "<start_function_call>call:find_ship{port:<escape>Ystad<escape>}<end_function_call>",
        'find_ship\n{"port": "Ystad"}',
        'find_ship port="Ystad"',
        '[find_ship(port="Ystad")]',
    ]
    for before, call, after, loose in itertools.product(BEFORE, calls, AFTER, (False, True)):
        text = before + call + after
        whole = read(text, loose=loose)
        for size in (1, len(text)):
            stage = formats.parser(tools=TOOLS, loose=loose)
            events = [event for at in range(0, len(text), size) for event in stage.feed(text[at : at + size])]
            parsed = formats.fold([*events, *stage.close()])
            assert (parsed.text, parsed.calls) == (whole.text, whole.calls), (text, loose, size)


HOSTILE = [
    '{"name": "find_ship", "arguments": {"port": \n',
    '<tool name="find_ship"><port>\n',
    'find_ship(port="a\n',
    '[find_ship]\n{"port":\n',
    "<find_ship>\n",
    "&lt;find_ship&gt;\n",
    "@find_ship port: \n",
    "call:find_ship{port:<escape>\n",
    '<find_ship port="a\n',
    "```tool_use\nfind_ship\n",
    "find_ship(port='x') \n",
    "[find_ship]\n[port]x[/port]\n",
    "[tool_call name='find_ship']x\n",
    "<|x|>find_ship\n<|y|>port\n",
    "```read_log\nx\n",
    '"{\\"name\\": \\"find_ship\\"\n',
    "to=find_ship 天 {\n",
    "name='find_ship' args='\n",
    '<find_ship days="3">\n',
    "<find_ship><a>\n",
    'antml:invoke name="find_ship">\n',
    "<invoke name=“find_ship”>\n",
    "<tool\\_call>find_ship\n",
    "<tool_call>Ġfind_ship\n",
    "【tool】find_ship {\n",
    '[call:other]{"find_ship": \n',
    '<|tool_call|>{"port": \n',
    '<｜DSML｜parameter name="port">find_ship</parameter></invoke>\n',
]


@pytest.fixture(scope="module")
def counting() -> Iterator[Any]:
    with work.counted() as counted:
        yield counted


@pytest.mark.parametrize("bit", HOSTILE, ids=repr)
def test_twice_the_text_is_about_twice_the_work(bit: str, counting: Any) -> None:
    tools = counting.parser(tools=list(TOOLS)).tools
    measured = [work.work_of(lambda: counting.parser(tools=tools), [bit * count]) for count in (200, 400)]
    assert measured[1].calls <= 2.6 * measured[0].calls + 2_500
    assert measured[1].looked_at <= 2.6 * measured[0].looked_at + 200_000


# --------------------------------------------------------------------------------------------------------------------
# Near misses.


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("call:find_ship{port", "find_ship"),
        ("I look.\n<find_ship><harbour>Ystad</harbour></find_ship>", "find_ship"),
        ('{"name": "find_ship", "arguments": {"port": "Yst', "find_ship"),
        ('{"port": "Ystad"}', ""),
        ('{"tool": "find_boat", "args": {"port": "Ystad"}}', "find_boat"),
        ("read_log\nsome/path", "read_log"),
        ("[TOOL: run_shell ls -la]", "run_shell"),
        ('### read_log\n```json\n{"path": "a"}\n```', "read_log"),
        ('I use find_ship with these parameters:\n\n```json\n{"port": "Ystad"}\n```', "find_ship"),
        ("[Call(id='1', function=Function(arguments='{}', name='find_ship'))]", "find_ship"),
        (' name="find_ship"> name="port">Ystad', "find_ship"),
        ('analysisI look.assistantcommentary to=functions.find_ship json{"port": "Ystad"}', "find_ship"),
        ("Action: find_ship[Ystad]", "find_ship"),
        ('I\'ll call `find_ship` with `{"port": "Ystad"}`.', "find_ship"),
        ("(calling find_ship port=Ystad)", "find_ship"),
        ("I look.<find_ship><port>Ystad</port></find_ship>", "find_ship"),
        ("I look.call:find_ship{port:Ystad}", "find_ship"),
        ("I look.\n[find_ship] port=Ystad", "find_ship"),
    ],
)
def test_a_near_miss_is_reported(text: str, name: str) -> None:
    (attempt,) = find_attempts(text, TOOLS, lambda span: False)
    assert attempt.name == name
    assert attempt.why
    assert text[slice(*attempt.span)].strip()


@pytest.mark.parametrize(
    "text",
    [
        "The tool find_ship finds ships.",
        "find_ship: a tool that finds ships",
        '{"name": "Ystad", "ships": 3}',
        '<tools>\n{"name": "find_ship", "description": "Finds ships", "parameters": {"type": "object"}}\n</tools>',
    ],
)
def test_prose_and_definitions_are_no_near_misses(text: str) -> None:
    assert find_attempts(text, TOOLS, lambda span: False) == []
