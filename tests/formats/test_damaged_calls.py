"""Classes of damaged calls: each is read with a named repair, or it is a suspect or invalid, and never silent."""

from __future__ import annotations

from tests.formats.test_improvised import ARGUMENTS, JSON, TOOLS, calls_of, read

from dragoman import Extraction, extract, extractor, formats
from dragoman.toolset import Toolset

ENVELOPE = '{"name": "find_ship", "arguments": ' + JSON + "}"
GLM_END = "<arg_value>Ystad</arg_value><arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"
QWEN = "<tool_call>\n<function=find_ship>\n<parameter=port>\nYstad\n</parameter>\n<parameter=days>\n3\n</parameter>\n"
CLOSED = "</function>\n</tool_call>"
READ = {
    "words in a wrapper": (f"<tool_use>\nI look it up: {ENVELOPE}\n</tool_use>", "surrounding_text"),
    "words and a fence": (f"<tool_call>\nNow:\n```json\n{ENVELOPE}\n```\n</tool_call>", "surrounding_text"),
    "reasoning in a wrapper": (f"<tool_call><think>Ystad.</think>{ENVELOPE}</tool_call>", "surrounding_text"),
    "words in a fence": (f"~~~tool_call\nNow: {ENVELOPE}\n~~~", "surrounding_text"),
    "a fence in a wrapper": (f"<function_call>\n```json\n{ENVELOPE}\n```\n</function_call>", "markdown_fence"),
    "a name before braces": ("find_ship " + JSON, "name_before_braces"),
    "a misspelt wrapper": (f"<tools>\n{ENVELOPE}\n</tools>", ""),
    "a wrapper without an end": (f"<tools>{ENVELOPE}", "closed_wrapper"),
    "pairs without an end": ("@find_ship port=Ystad days=3", "closed_wrapper"),
    "a list of pairs": ("['find_ship', 'port=Ystad', 'days=3']", "call_as_list"),
    "a list with an object": ('["find_ship", ' + JSON + "]", "call_as_list"),
    "a list in a wrapper": ("<tool_call>['find_ship', 'port=Ystad', 'days=3']</tool_call>", "call_as_list"),
    "a list in a fence": ('```json\n["find_ship", ' + JSON + "]\n```", "call_as_list"),
    "code in a wrapper": (f"<FunctionCall>find_ship<code>{JSON}</code></FunctionCall>", ""),
    "pairs as code": ("<FunctionCall>find_ship<code>port=Ystad, days=3</code></FunctionCall>", "key_value_pairs"),
    "a call as code": ('<FunctionCall>\nfind_ship\n<code>find_ship(port="Ystad", days=3)</code></FunctionCall>', ""),
    "a label in Chinese": ("工具: find_ship\n参数: " + JSON, ""),
    "a label in Spanish": ("**Herramienta:** find_ship\n**Argumentos:** " + JSON, ""),
    "a pictograph of two characters": ("🛠️ find_ship " + JSON, ""),
    "a heading": ("### Tool: find_ship\n```json\n" + JSON + "\n```", ""),
    "doubled signs": ("%%CALL%% find_ship " + JSON + " %%END%%", ""),
    "a stripped token": ("I look.\nfind_ship[ARGS]" + JSON, "missing_marker"),
    "a stripped token and an id": ("find_ship[CALL_ID]a1B2c3d4e[ARGS]" + JSON, "missing_marker"),
    "a stripped token and a number": (f"functions.find_ship:0<|tool_call_argument_begin|>{JSON}", "missing_marker"),
    "a stripped token with blanks": (f"I look.\nfind_ship:1 <|tool_call_argument_begin|> {JSON}", "missing_marker"),
    "a stripped token and a separator": (f"find_ship<｜tool▁sep｜>{JSON}<｜tool▁call▁end｜>", "missing_marker"),
    "another separator": (
        f"<|tool_call_begin|>functions.find_ship!4<|tool_call_argument_begin|>{JSON}<|tool_call_end|>",
        "unusual_counter",
    ),
    "a header without tokens": (f"I look.\n\nassistant to=functions.find_ship commentary json\n{JSON}", ""),
    "a glued key": (f"<tool_call>find_shipport</arg_key>{GLM_END}", "missing_marker"),
    "a key after a blank": (f"<tool_call>find_ship port</arg_key>{GLM_END}", "missing_marker"),
    "another tag before a key": (f"<tool_call>find_ship<tool_call>port</arg_key>{GLM_END}", "missing_marker"),
    "a key that is closed twice": (
        f"<tool_call>find_ship<arg_key>port</arg_key></arg_key>{GLM_END}",
        "repeated_marker",
    ),
    "a key that is opened twice": (f"<tool_call>find_ship<arg_key><arg_key>port</arg_key>{GLM_END}", "repeated_marker"),
    "a tag that is begun twice": (QWEN.replace("<parameter=port", "<parameter=<parameter=port") + CLOSED, ""),
    "a brace too many": (f"<tool_call>\n{ENVELOPE}}}\n</tool_call>", "extra_closers"),
    "brackets too many": (f"<tool_call>\n{ENVELOPE}\n]}}</tool_call>", "extra_closers"),
    "words without quotes in a wrapper": (
        "<tool_call>find_ship{port: Ystad, days: 3}</tool_call>",
        "expression_as_text",
    ),
    "words without quotes in brackets": ("[call] find_ship{days: 3, port: Ystad} [/call]", "expression_as_text"),
    "words without quotes in a tag": ("<call:default_api:find_ship{days:3,port:Ystad}/>", "expression_as_text"),
    "tags with a prefix": (
        "<long_tool_call>find_ship\n<long_arg_key>port</long_arg_key>\n<long_arg_value>Ystad</long_arg_value>\n"
        "<long_arg_key>days</long_arg_key>\n<long_arg_value>3</long_arg_value>\n</long_tool_call>",
        "",
    ),
    "tags without brackets": (
        '<minimax:tool_call>\ninvoke name="find_ship">\nparameter name="port">Ystadparameter>\n'
        'parameter name="days">3parameter>\ninvoke>\n</minimax:tool_call>',
        "missing_marker",
    ),
    "names and values as elements": (
        "<function=find_ship>\n<parameter>\n<name>port</name>\n<type>string</type>\n<value>Ystad</value>\n</parameter>\n"
        "<parameter>\n<name>days</name>\n<value>3</value>\n</parameter>\n</function>",
        "",
    ),
    "marks": (f"### TOOL_CALL_START ###\n{ENVELOPE}\n### TOOL_CALL_END ###", ""),
    "marks with lines": (f"I look.\n--- BEGIN TOOL CALL ---\n{ENVELOPE}\n--- END TOOL CALL ---", ""),
    "a damaged mark": (f"I look.\nTOOL_CALL_BLOCK>>>\n{ENVELOPE}\n<<<END_TOOL_CALL_BLOCK>>>", ""),
    "marks in brackets": (f"I look.\n[TOOL_CALL_START]\n{ENVELOPE}\n[TOOL_CALL_END]", ""),
    "a call inside a tag": (f"<functioncall {ENVELOPE}>", ""),
    "a call inside an open tag": (f"<tool_call {ENVELOPE}", "closed_wrapper"),
    "the label of a program": (f"I look.\n```homeassistant\n{ENVELOPE}\n```", ""),
    "doubled braces": (f"<tool_call>{{{ENVELOPE}}}</tool_call>", "doubled_braces"),
    "a key with one quote": (
        '<tool_call>{"name="find_ship", "arguments": ' + JSON + "}</tool_call>",
        "half_quoted_key",
    ),
    "tokens for quotes": ('{"name": "find_ship", "arguments": {"port": <|">Ystad<|">, "days": 3}}', "quote_tokens"),
    "a fence without backticks": (
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>find_ship\njson\n{JSON}\n<｜tool▁call▁end｜>",
        "markdown_fence",
    ),
    "a cut closing tag": (f"<tool_call>{ENVELOPE}</tool_ca", "closed_wrapper"),
    "a cut closing tag of elements": (f"{QWEN}</function>\n</tool_c", "closed_wrapper"),
    "a cut inner closing tag": (f"{QWEN}</fu", "closed_wrapper"),
    "odd closers of values": (QWEN.replace("</parameter>", "</parameter/>") + CLOSED, "foreign_closer"),
    "a key without a bracket": (QWEN.replace("=port>", "=port") + CLOSED, "closed_tag"),
    "a value on one line without its closer": (
        QWEN.replace(">\nYstad\n</parameter>", "> Ystad ") + CLOSED,
        "closed_argument",
    ),
    "tags of Kimi K3 without their tokens": (
        '<|open|>toolscall tool="find_ship" index="1"<|sep|><|open|>argument key="port" type="string"<|sep|>Ystad'
        '<|close|>argument<|sep|><|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>toolsmessage<|sep|>",
        "missing_marker",
    ),
    "escapes of Markdown": (
        f"<tool\\_call>\n{ENVELOPE}\n</tool\\_call>".replace("find_ship", "find\\_ship"),
        "bad_escape",
    ),
    "blanks of a tokenizer": (f"<tool_call>Ċ{ENVELOPE}Ċ</tool_call>".replace(" ", "Ġ"), "unusual_blanks"),
    "typographic quotes in tags": (
        "<invoke name=“find_ship”>\n<parameter name=“port”>Ystad</parameter>\n<parameter name=“days”>3</parameter>\n"
        "</invoke>",
        "smart_quotes",
    ),
    "an opener twice": (f"```tool_call```tool_call\nFirst the list:\n{ENVELOPE}\n```", "surrounding_text"),
    "lines of arguments": (
        "```tool\nTOOL_NAME: find_ship\nBEGIN_ARG: port\nYstad\nEND_ARG\nBEGIN_ARG: days\n3\nEND_ARG\n```",
        "",
    ),
    "a nested envelope": ('{"reply": {"tool_calls": [' + ENVELOPE + "]}}", ""),
}
COMMA = {"port": "Malmö, Skåne", "days": 3}
WITH_COMMA = (
    "find_ship(port=Malmö, Skåne, days=3)",
    "call:find_ship{port: Malmö, Skåne, days: 3}",
    "[find_ship port=Malmö, Skåne, days=3]",
    "tool: find_ship\nport: Malmö, Skåne\ndays: 3",
)
REPORTED = (
    f"Sure! functools[{ENVELOPE}] and so on.",
    'Sure! functools[{"name": "find_ship", "arguments": {"port": "Yst',
    "[find_ship(port=Malmö, Skåne)]",
    "<find_ship port=Malmö, Skåne days=3/>",
    "I call:\n['find_ship', 'port=Ystad']",
    '["find_ship", "port", "Ystad"]',
    "<tool_call>['find_ship', 'harbour=Ystad']</tool_call>",
    '<tool_call>Now: {"name": "find_boat", "arguments": {"port": "Ystad"}}</tool_call>',
    '<tools>{"name": "find_boat", "arguments": {"port": "Ystad"}}</tools>',
    "$ find_ship --port Ystad",
    # As an integer, 07 is no JSON, octal in some languages and an identifier in others. Nobody guesses.
    '<tool_call>{"name": "find_ship", "arguments": {"port": "Ystad", "days": 07}}</tool_call>',
    '{"name": "find_ship", "arguments": {"port": "Ystad", "days": 07}}',
    "<find_ship><port>Ystad</port><days>07</days></find_ship>",
    'find_ship(port="Ystad", days=07)',
    "@find_ship port=Ystad days=07",
    '<find_ship port="Ystad" days="07"/>',
    # The name or the arguments are there, and nothing makes a call of them.
    "declaration:default_api:find_ship" + JSON,
    "I call find_ship with input: " + JSON,
    'I call find_ship with input: {"port": "Yst',
    'First the port. function_call:{"id":"c1","call":"find_ship","arguments":' + JSON + "}",
    "I look.\n\nrun_shell command=ls",
    "I look.\n\n[tool: find_ship]",
    '<function_calls>\n<invoke name="">\n<parameter name="port">Ystad</parameter>\n</invoke>\n</function_calls>',
    "<tool_call>find_shipport</arg_key><arg_val",
    f"<tool_call>find_ship<arg_key>port</arg_key></arg_value>{GLM_END}",
    'find_ship[ARGS]{"port": "Yst',
    "```tool\nTOOL_NAME: find_ship\nBEGIN_ARG: port\nYst",
    '<|open|>toolscall tool="find_ship" index="1"<|sep|><|open|>argument key="port" type="string"<|sep|>Yst',
    # What may be cut off is no value.
    '<tool_call>find_ship {"port": "Ystad", "',
    "```find_ship\nport: Yst",
    'call:find_ship{port:<|"|>Ystad<|"',
    "<tool_call><function=find_ship><parameter=port>\nYstad\n</param",
    '<invoke name="find_ship">\n<parameter name="port" Ystad</parameter>\n</invoke>',
    '<invoke name="find_ship">\n<parameter name="port"\nYstad\n</parameter>\n</invoke>',
)
SHOWN = (
    f"<tools>\nThis is how it works: {ENVELOPE}\n</tools>",
    f"<tools>\n{ENVELOPE}\nis a call.\n</tools>",
    f"<tool_call>\nNow: {ENVELOPE} and more.\n</tool_call>",
    f"<callout>Now: {ENVELOPE}</callout>",
    '{"example": ' + ENVELOPE + "}",
    "// tool: find_ship " + JSON,
    "Example: find_ship " + JSON,
    "find_ship(port=port, days)",
    "find_ship<code>Ystad</code>",
    '["find_ship", "read_log", "all_ships"]',
    "[all_ships]\nThe list is above.",
    "<tool_call>\n<function=all_ships",
    '<invoke name="all_ships">\nmore',
    f"Template:\n<tool_call>\n{ENVELOPE}\n</tool_call>\nFill it in.",
    f"e.g.\n@find_ship {JSON}\nwas the old form.",
    f"Format:\n### TOOL_CALL_START ###\n{ENVELOPE}\n### TOOL_CALL_END ###\nThat is what the old client wrote.",
    f"### TOOL CALLS ###\n{ENVELOPE}",
    f"find_ship[ARGS]{JSON} is what the server printed.",
    f"1. find_ship[ARGS]{JSON}\n2. nothing",
    f"find_ship[PORT]{JSON}\nis an index.",
    "find_ship!\n" + JSON + " is JSON.",
    "<tool_call>\n<function=find_ship/>\n</tool_call>",
)
"""What must not be a call. Most of it is reported, because it looks like one."""


def whole_and_streamed(text: str) -> Extraction:
    """Extract a reply, and check that pieces of any size give the same."""
    whole = extract(text, tools=TOOLS)
    for size in (1, 7):
        stage = extractor(tools=TOOLS)
        for at in range(0, len(text), size):
            stage.feed(text[at : at + size])
        stage.close()
        assert stage.extraction == whole, (text, size)
    return whole


def test_damage_that_leaves_the_call_readable_is_a_named_repair() -> None:
    for case, (text, repair) in READ.items():
        found = whole_and_streamed(text)
        assert [(call.name, call.arguments) for call in found.calls] == [("find_ship", ARGUMENTS)], case
        assert not repair or repair in found.calls[0].repairs, case
        assert calls_of(read(text, loose=True)) == [("find_ship", ARGUMENTS)], case


def test_tags_and_tokens_that_end_nothing_leave_the_text_of_a_call() -> None:
    for text in (
        f"<tool_call>\n{ENVELOPE}\n</tool_call>\n</tool_call>",
        f"{QWEN}</function>\n</function>\n</function_invocation>\n</tool_call>",
        f"<|tool_call|>[{ENVELOPE}]<|/tool_call|>",
        *(f"<tool_call>\n{ENVELOPE}\n</tool_call>{end}" for end in ("<|user|>", "<|observation|>\n", "[e~[")),
    ):
        found = whole_and_streamed(text)
        assert [(call.name, call.arguments) for call in found.calls] == [("find_ship", ARGUMENTS)], text
        assert not found.text.strip(), text
    for text in ("GLM stops at <|user|> or <|observation|>, not at </tool_call>.", "See </tool_call>"):
        assert whole_and_streamed(text).text == text


def test_a_label_in_brackets_is_no_tag_that_is_never_closed() -> None:
    """A stream took it for the first tag of a call, and gave up at the end of that tag."""
    (call,) = whole_and_streamed('[Tool Call: read_log(path="a")]\n' + "The list follows. " * 30).calls
    assert (call.name, call.arguments) == ("read_log", {"path": "a"})


def test_a_mark_is_read_directly_behind_another_call() -> None:
    other = '### TOOL_CALL_START ###\n{"name": "read_log", "arguments": {"path": "a"}}\n### TOOL_CALL_END ###'
    for between in ("", " ", "\n\n"):
        found = whole_and_streamed(f"[TOOL_CALLS] [{ENVELOPE}]{between}{other}")
        assert [(call.name, call.arguments) for call in found.calls] == [
            ("find_ship", ARGUMENTS),
            ("read_log", {"path": "a"}),
        ], between


def test_a_mark_with_a_blank_inside_is_reported_however_it_is_streamed() -> None:
    found = whole_and_streamed(f"`\nTOOL_CALLBLOCK >>\n{ENVELOPE}")
    assert not found.calls
    assert found.suspects


def test_a_value_without_quotes_may_contain_a_comma() -> None:
    for text in WITH_COMMA:
        (call,) = whole_and_streamed(text).calls
        assert (call.name, call.arguments) == ("find_ship", COMMA), text
        assert {"unquoted_value", "key_value_pairs"} & set(call.repairs), text


def test_damage_that_leaves_a_doubt_is_reported_and_never_run() -> None:
    for text in REPORTED:
        found = whole_and_streamed(text)
        assert not found.calls, text
        assert found.suspects or found.invalid, text
    (call,) = whole_and_streamed('<tool_call>{"name": "read_log", "arguments": {"path": 07}}</tool_call>').calls
    assert call.arguments == {"path": "07"}  # a string keeps its zeros
    assert "expression_as_text" in call.repairs


def test_what_only_shows_a_call_is_none() -> None:
    for text in SHOWN:
        assert not whole_and_streamed(text).calls, text


def test_a_named_format_hands_what_it_cannot_read_to_the_general_reader() -> None:
    text = f"<tool_call>\nI look it up: {ENVELOPE}\n</tool_call>"
    for name in ("hermes", "ernie45", "ollama_tools"):
        assert calls_of(read(text, format=name)) == [("find_ship", ARGUMENTS)], name
        assert calls_of(read(f"[find_ship]\n{JSON}", format=name)) == [], name  # not an opener of the format


def test_without_tools_a_wrapper_for_calls_may_hold_one_that_states_its_name() -> None:
    for text in (f"<tools>\n{ENVELOPE}\n</tools>", f"<tool_call>\nNow: {ENVELOPE}\n</tool_call>"):
        assert calls_of(formats.parse(text)) == [("find_ship", ARGUMENTS)], text
    for text in (
        '<tools>{"name": "a", "description": "b", "parameters": {}}</tools>',
        f"<tools>Now: {ENVELOPE}</tools>",
    ):
        assert calls_of(formats.parse(text)) == [], text


def test_a_tool_that_declares_no_parameters_takes_those_of_an_envelope() -> None:
    tools = Toolset([{"name": "do", "parameters": {"type": "object"}}])
    text = '{"name": "do", "arguments": {"x": 1}}'
    assert calls_of(formats.parse(f"<step>{text}</step>", tools=tools)) == [("do", {"x": 1})]
    assert calls_of(formats.parse('<step>@do {"x": 1}</step>', tools=tools)) == []


PARALLEL = (
    '{"tool_uses": [{"recipient_name": "functions.find_ship", "parameters": '
    + JSON
    + '}, {"recipient_name": "functions.read_log", "parameters": {"path": "a"}}]}'
)


def test_several_calls_in_one_are_judged_one_by_one() -> None:
    header = "<|channel|>commentary to=multi_tool_use.parallel <|constrain|>json<|message|>"
    found = whole_and_streamed(f"{header}{PARALLEL}<|call|>")
    assert [call.name for call in found.calls] == ["find_ship", "read_log"]
    assert all("unwrapped_call" in call.repairs for call in found.calls)
    found = whole_and_streamed(f"{header}{PARALLEL.replace('port', 'harbour')}<|call|>")
    assert [call.name for call in found.calls] == ["read_log"]
    assert [call.name for call in found.invalid] == ["find_ship"]
    found = whole_and_streamed(f"{header}{PARALLEL.replace('recipient_name', 'who')}<|call|>")
    assert not found.calls and found.invalid
    assert not whole_and_streamed(f"It sent `{PARALLEL}` to the tool.").calls


def test_a_name_with_a_namespace_is_read_in_pieces_as_in_the_whole() -> None:
    for name in (
        "declaration:default_api:find_ship",
        "default_api:find_ship",
        "a.b.c.find_ship",
        "x" * 400 + ":find_ship",
    ):
        whole_and_streamed(name + JSON)
