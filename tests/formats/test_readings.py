"""Calls that are nearly right: what each format reads, what it repairs by name, and what it must never make up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.formats.odd_cases import account, tool
from tests.tables import each_row

from dragoman import extract, formats
from dragoman.formats import Parsed, thinking
from dragoman.toolset import Toolset

TOOLS = Toolset(
    [
        tool("move", ["x"], x="integer", note="string"),
        tool("search", ["query"], query="string", limit="integer"),
        tool("ping"),
        tool("send", ["to", "body"], to="string", body="string"),
    ]
)

Calls = list[tuple[str, dict[str, Any]]]


def read(text: str, name: str = "auto", tools: Toolset | None = TOOLS) -> Parsed:
    """Parse a text, and check that pieces of any size give the same."""
    whole = formats.parse(text, name, tools)
    for size in (1, 2, 7):
        stage = formats.parser(name, tools)
        events = [event for at in range(0, len(text), size) for event in stage.feed(text[at : at + size])]
        assert account(formats.fold([*events, *stage.close()])) == account(whole), size
    return whole


def calls_of(parsed: Parsed) -> Calls:
    return [(call.name, call.arguments) for call in parsed.calls]


# ---- arguments under other keys --------------------------------------------------------------------------------------

JSON_WRAPPERS = {
    "hermes": "<tool_call>\n{}\n</tool_call>",
    "longcat": "<longcat_tool_call>{}</longcat_tool_call>",
    "tool_call_tags": "<toolcall>{}</toolcall>",
    "fenced": "~~~tool_call\n{}\n~~~",
    "fenced_tool_call": "```tool_call\n{}\n```",
    "mistral": "[TOOL_CALLS] [{}]",
    "jamba": "<tool_calls>[{}]</tool_calls>",
    "nemotron_toolcall": "<TOOLCALL>[{}]</TOOLCALL>",
    "cohere_command4": "<|START_ACTION|>[{}]<|END_ACTION|>",
    "llama3_json": "<|python_tag|>{}",
    "phi4": "functools[{}]",
    "internlm": "<|action_start|><|plugin|>\n{}<|action_end|>",
}

READABLE = {
    "tool_args": '{"name": "move", "tool_args": {"x": 1}}',
    "kwargs": '{"name": "move", "kwargs": {"x": 1}}',
    "params before the name": '{"params": {"x": 1}, "name": "move"}',
    "text under a common key": '{"name": "move", "tool_args": "{\\"x\\": 1}"}',
    "a lone object under any key": '{"name": "move", "payload": {"x": 1}}',
    "a lone object and an id": '{"id": "c1", "name": "move", "data": {"x": 1}}',
    "flat": '{"name": "move", "x": 1}',
    "properties": '{"name": "move", "properties": {"x": 1}}',
    "properties inside": '{"name": "move", "arguments": {"properties": {"x": 1}}}',
    "a copied schema": '{"name": "move", "arguments": {"type": "object", "properties": {"x": 1}}}',
    "a call in a member": '{"tool": {"name": "move", "arguments": {"x": 1}}}',
    "a function_call": '{"function_call": {"name": "move", "arguments": "{\\"x\\": 1}"}}',
    "arguments beside the function": '{"function": {"name": "move"}, "arguments": {"x": 1}}',
    "toolcalls": '{"toolcalls": [{"name": "move", "arguments": {"x": 1}}]}',
}

UNREADABLE = {
    "an unknown key": '{"name": "move", "payload": [1]}',
    "a text": '{"name": "move", "content": "x is 1"}',
    "two objects": '{"name": "ping", "first": {"x": 1}, "second": {"y": 2}}',
    "an object that does not fit": '{"name": "search", "payload": {"y": 2}}',
    "flat, and a key too many": '{"name": "move", "x": 1, "y": 2}',
    "no such parameter": '{"name": "ping", "speed": 3}',
    "two members with arguments": '{"name": "move", "arguments": {"x": 1}, "input": {"x": 2}}',
    "an unknown key beside the function": '{"function": {"name": "move"}, "payload": [1]}',
    "a schema with definitions": '{"name": "search", "properties": {"query": {"type": "string"}}}',
}


@each_row("body", READABLE.values(), ids=READABLE)
@each_row("name", JSON_WRAPPERS)
def test_arguments_are_read_under_any_key_that_states_them(name: str, body: str) -> None:
    text = JSON_WRAPPERS[name].replace("{}", body)
    for reader in (name, "auto"):
        assert calls_of(read(text, reader)) == [("move", {"x": 1})], reader


@each_row("body", UNREADABLE.values(), ids=UNREADABLE)
@each_row("name", JSON_WRAPPERS)
def test_members_that_are_not_understood_never_become_empty_arguments(name: str, body: str) -> None:
    text = JSON_WRAPPERS[name].replace("{}", body)
    for reader in (name, "auto"):
        parsed = read(text, reader)
        assert parsed.calls == [], reader
        assert parsed.broken, reader


@pytest.mark.parametrize("name", JSON_WRAPPERS)
def test_a_name_without_any_other_member_has_no_arguments(name: str) -> None:
    for body in ('{"name": "ping"}', '{"name": "ping", "id": "a1", "type": "function"}'):
        assert calls_of(read(JSON_WRAPPERS[name].replace("{}", body), name)) == [("ping", {})]


def test_unusual_members_are_named_as_repairs() -> None:
    repairs = {
        key: read(JSON_WRAPPERS["hermes"].replace("{}", body)).calls[0].repairs for key, body in READABLE.items()
    }
    assert repairs["flat"] == ("flat_arguments",)
    assert repairs["a lone object under any key"] == repairs["properties"] == ("unusual_keys",)
    assert repairs["properties inside"] == ("unwrapped_arguments",)
    assert repairs["tool_args"] == ()


def test_without_tools_an_unknown_member_is_not_guessed() -> None:
    parsed = read('<tool_call>{"name": "f", "payload": {"x": 1}}</tool_call>', tools=None)
    assert (parsed.calls, len(parsed.broken)) == ([], 1)
    assert json.loads(parsed.broken[0].raw.removeprefix("<tool_call>").removesuffix("</tool_call>"))["name"] == "f"


# ---- values between tags ---------------------------------------------------------------------------------------------

# A call of `send` with two values, `{to}` and `{body}`, as each format writes it.
TAGGED = {
    "qwen3_coder": (
        "<tool_call>\n<function=send>\n<parameter=to>\n{to}\n</parameter>\n<parameter=body>\n{body}\n</parameter>\n"
        "</function>\n</tool_call>"
    ),
    "seed_oss": (
        "<seed:tool_call>\n<function=send>\n<parameter=to>{to}</parameter>\n<parameter=body>{body}</parameter>\n"
        "</function>\n</seed:tool_call>"
    ),
    "glm45": (
        "<tool_call>send\n<arg_key>to</arg_key>\n<arg_value>{to}</arg_value>\n<arg_key>body</arg_key>\n"
        "<arg_value>{body}</arg_value>\n</tool_call>"
    ),
    "glm47": (
        "<tool_call>send<arg_key>to</arg_key><arg_value>{to}</arg_value><arg_key>body</arg_key>"
        "<arg_value>{body}</arg_value></tool_call>"
    ),
    "minimax_m2": (
        '<minimax:tool_call>\n<invoke name="send">\n<parameter name="to">{to}</parameter>\n'
        '<parameter name="body">{body}</parameter>\n</invoke>\n</minimax:tool_call>'
    ),
    "anthropic_xml": (
        '<function_calls>\n<invoke name="send">\n<parameter name="to">{to}</parameter>\n'
        '<parameter name="body">{body}</parameter>\n</invoke>\n</function_calls>'
    ),
    "minicpm5": '<function name="send"><param name="to">{to}</param><param name="body">{body}</param></function>',
    "step3": (
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="send">\n'
        '<steptml:parameter name="to">{to}</steptml:parameter>\n'
        '<steptml:parameter name="body">{body}</steptml:parameter>\n</steptml:invoke><｜tool_call_end｜>'
    ),
    "deepseek_v32": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="send">\n'
        '<｜DSML｜parameter name="to" string="true">{to}</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="body" string="true">{body}</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>"
    ),
    "xml_elements": "<send>\n<to>{to}</to>\n<body>{body}</body>\n</send>",
}


def write_tagged(name: str, to: str, body: str = "Hello") -> str:
    return TAGGED[name].replace("{to}", to).replace("{body}", body)


def closer_of(name: str) -> str:
    after = TAGGED[name].split("{to}")[1].lstrip()
    return after[: after.index(">") + 1]


@pytest.mark.parametrize("name", TAGGED)
def test_a_value_never_contains_its_own_closer(name: str) -> None:
    closer = closer_of(name)
    for damage in (f"bo@x.org{closer}\nNow the body:", f"bo@x.org{closer}{closer}", f"a {closer} b", f"a\n{closer} b"):
        for reader in (name, "auto"):
            parsed = read(write_tagged(name, damage).replace(f"body:{closer}", "body:"), reader)
            assert parsed.calls or parsed.broken, damage
            for call in parsed.calls:
                assert closer not in json.dumps(call.arguments, ensure_ascii=False), damage
                assert call.arguments["to"] in ("bo@x.org", "bo@x.org\n"), damage
                assert call.repairs, damage


@each_row("name", [name for name in TAGGED if name != "xml_elements"])
@each_row("wrong", ["</to>", "</door>", "</x:y>"])
def test_the_closer_of_another_element_is_no_part_of_a_value(name: str, wrong: str) -> None:
    closer = closer_of(name)
    right = write_tagged(name, "bo", "Hi")
    last = right[: right.rindex(closer)] + wrong + right[right.rindex(closer) + len(closer) :]
    for text in (last, right.replace(closer, wrong)):
        parsed = read(text, name)
        assert calls_of(parsed) == [("send", {"to": "bo", "body": "Hi"})]
        assert {"closed_argument", "foreign_closer"} <= set(parsed.calls[0].repairs)
    kept = read(last.replace("Hi", "<door>Hi</door>" if wrong == "</door>" else f"<{wrong[2:]}Hi"), name)
    assert not kept.calls or kept.calls[0].arguments["body"].startswith("<"), "a closer of an element in the value"


ESCAPED = {
    "2&gt;/dev/null": "2>/dev/null",
    "a &amp;&amp; b": "a && b",
    "&lt;h1&gt;Hi&lt;/h1&gt;": "<h1>Hi</h1>",
    "say &quot;x&quot; &apos;y&apos; &#39;z&#x27;": "say \"x\" 'y' 'z'",
    "caf&#233; &#x1F600;": "café 😀",
}
NOT_ESCAPED = ["<p>a &lt; b</p>", 's.replace("&", "&amp;")', "AT&T &amp; co", "&nbsp;&gt;", "&unknown; x", "a &amp b"]


@pytest.mark.parametrize("name", TAGGED)
def test_entities_in_an_escaped_text_are_decoded_with_a_named_repair(name: str) -> None:
    for written, meant in ESCAPED.items():
        parsed = read(write_tagged(name, "bo", written), name)
        assert calls_of(parsed) == [("send", {"to": "bo", "body": meant})]
        assert parsed.calls[0].repairs == ("decoded_entities",)


@each_row("name", TAGGED)
@each_row("text", NOT_ESCAPED)
def test_a_text_that_was_not_escaped_stays_as_it_is(name: str, text: str) -> None:
    parsed = read(write_tagged(name, "bo", text), name)
    assert [call.arguments["body"] for call in parsed.calls] == [text]
    assert parsed.calls[0].repairs == ()


@pytest.mark.parametrize("name", [name for name in TAGGED if name != "xml_elements"])
def test_a_value_that_looks_escaped_is_rendered_and_read_back(name: str) -> None:
    for text in (*ESCAPED, *NOT_ESCAPED, "&amp;lt;", "x & y &lt;"):
        calls = [("send", {"to": "bo", "body": text})]
        assert calls_of(read(formats.render(calls, name), name)) == calls


@pytest.mark.parametrize("name", JSON_WRAPPERS)
def test_json_that_is_escaped_as_a_whole_is_unescaped(name: str) -> None:
    body = '{"name": "search", "arguments": {"query": "a > b"}}'
    text = JSON_WRAPPERS[name].replace("{}", body.replace(">", "&gt;").replace('"', "&quot;"))
    parsed = read(text, name)
    assert calls_of(parsed) == [("search", {"query": "a > b"})]
    assert "decoded_entities" in parsed.calls[0].repairs
    plain = read(JSON_WRAPPERS[name].replace("{}", body.replace("a >", "&quot;a &gt;")), name)
    assert calls_of(plain) == [("search", {"query": "&quot;a &gt; b"})]


# ---- attributes next to a key ----------------------------------------------------------------------------------------

ATTRIBUTES = {
    "minimax_m2": [
        ('name="to">', 'name="to" string="true">'),
        ('name="to">', 'name="to" type="string" required=true>'),
        ('<parameter name="to">', '<parameter string="true" name="to">'),
        ('<parameter name="to">', "<parameter type='string' name='to'>"),
        ('<invoke name="send">', '<invoke name="send" id="toolu_1">'),
    ],
    "minicpm5": [('name="to">', 'name="to" type="string">'), ('<param name="to">', '<param type="string" name="to">')],
    "deepseek_v32": [
        ('name="to" string="true">', 'name="to" string="true" x="1">'),
        ('name="to" string="true">', 'string="true" name="to">'),
        ('name="to" string="true">', 'name="to">'),
        ('<｜DSML｜invoke name="send">', '<｜DSML｜invoke name="send" id="c1">'),
    ],
    "qwen3_coder": [("=to>", '=to type="string">'), ("=to>", '="to" string="true">'), ("=send>", '=send id="1">')],
    "step3": [('name="to">', 'name="to" string="true">')],
}


@pytest.mark.parametrize(
    ("name", "plain", "written"), [(name, *pair) for name in ATTRIBUTES for pair in ATTRIBUTES[name]]
)
def test_other_attributes_never_become_a_part_of_a_key(name: str, plain: str, written: str) -> None:
    text = write_tagged(name, "bo", "Hi")
    assert plain in text
    for reader in (name, "auto"):
        parsed = read(text.replace(plain, written), reader)
        assert calls_of(parsed) == [("send", {"to": "bo", "body": "Hi"})], reader


@each_row("name", TAGGED)
@each_row("key", ['to" x', "t<o", "t\no", "to'x"])
def test_a_key_holds_no_quote_bracket_or_line_break(name: str, key: str) -> None:
    text = write_tagged(name, "bo", "Hi")
    for written in (f"={key}>", f'="{key}">', f">{key}</arg_key>"):
        for plain in ("=to>", '="to">', ">to</arg_key>"):
            parsed = read(text.replace(plain, written), name)
            assert all(
                '"' not in each and "<" not in each and "\n" not in each
                for call in parsed.calls
                for each in call.arguments
            )


# ---- calls that only lack their end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*TAGGED])
def test_a_call_that_lacks_only_its_end_is_a_call(name: str) -> None:
    text = write_tagged(name, "bo", "Hi")
    end = text.rindex(closer_of(name).replace("to>", "body>")) + len(closer_of(name).replace("to>", "body>"))
    for rest in ("", "\n"):
        parsed = read(text[:end] + rest, name)
        assert calls_of(parsed) == [("send", {"to": "bo", "body": "Hi"})]
        assert parsed.calls[0].repairs == ("closed_wrapper",)


@pytest.mark.parametrize("name", [*TAGGED])
def test_a_text_that_ends_inside_a_value_is_no_call(name: str) -> None:
    text = write_tagged(name, "bo", "Hi there")
    start = text.index("Hi there")
    for end in range(start, start + len("Hi there") + len(closer_of(name).replace("to>", "body>"))):
        assert read(text[:end], name).calls == [], text[:end]


@pytest.mark.parametrize("name", ["glm45", "glm47", "qwen3_coder", "seed_oss", "minimax_m2", "deepseek_v32"])
def test_the_next_call_ends_a_call_without_its_end(name: str) -> None:
    text = write_tagged(name, "bo", "Hi")
    closer = closer_of(name)
    first = text[: text.rindex(closer) + len(closer)]
    parsed = read(first + text, name)
    assert calls_of(parsed) == [("send", {"to": "bo", "body": "Hi"})] * 2
    assert [call.repairs for call in parsed.calls] == [("closed_wrapper",), ()]


CUTS = {
    "brackets": ('{"name": "send", "arguments": {"to": "bo", "body": "Hi"', True),
    "one bracket": ('{"name": "send", "arguments": {"to": "bo", "body": "Hi"}', True),
    "in a string": ('{"name": "send", "arguments": {"to": "bo", "body": "Hi', False),
    "after a comma": ('{"name": "send", "arguments": {"to": "bo", "body": "Hi",', False),
    "after a key": ('{"name": "send", "arguments": {"to": "bo", "body": "Hi", "cc"', False),
    "in a number": ('{"name": "move", "arguments": {"x": 1', False),
    "in a word": ('{"name": "move", "arguments": {"x": 1, "note": tru', False),
}


@each_row(("body", "is_call"), CUTS.values(), ids=CUTS)
@each_row("name", JSON_WRAPPERS)
def test_brackets_are_added_at_the_end_and_values_never(name: str, body: str, is_call: bool) -> None:
    text = JSON_WRAPPERS[name].partition("{}")[0] + body
    parsed = read(text, name)
    assert calls_of(parsed) == ([("send", {"to": "bo", "body": "Hi"})] if is_call else [])
    assert all("closed_wrapper" in call.repairs for call in parsed.calls)
    assert parsed.calls or parsed.broken


@pytest.mark.parametrize("name", ["hermes", "jamba", "nemotron_toolcall", "cohere_command4", "internlm"])
def test_a_last_quote_is_added_only_before_the_end_token_of_the_call(name: str) -> None:
    opening, _, closing = JSON_WRAPPERS[name].partition("{}")
    body = '{"name": "send", "arguments": {"to": "bo", "body": "Hi'
    parsed = read(opening + body + closing.removeprefix("]"), name)
    assert calls_of(parsed) == [("send", {"to": "bo", "body": "Hi"})]
    assert {"closed_string", "closed_wrapper"} <= set(parsed.calls[0].repairs)
    assert read(opening + body + closing.removeprefix("]") + " and then", name).calls == []


@pytest.mark.parametrize("name", ["mistral", "jamba", "nemotron_toolcall", "cohere_command4", "phi4"])
def test_all_calls_of_a_list_without_its_bracket_are_read(name: str) -> None:
    opening = JSON_WRAPPERS[name].partition("{}")[0]
    one, two = '{"name": "ping", "arguments": {}}', '{"name": "move", "arguments": {"x": 2}}'
    parsed = read(f"{opening}{one}, {two}", name)
    assert calls_of(parsed) == [("ping", {}), ("move", {"x": 2})]
    assert parsed.calls[1].repairs == ("closed_wrapper",)
    assert all(call.provenance.span[0] < call.provenance.span[1] for call in parsed.calls if call.provenance)


@each_row("name", [*TAGGED, *JSON_WRAPPERS])
def test_no_call_of_a_reply_that_was_cut_off_gets_an_end(name: str) -> None:
    body = '{"name": "send", "arguments": {"to": "bo", "body": "Hi"}}'
    text = write_tagged(name, "bo", "Hi") if name in TAGGED else JSON_WRAPPERS[name].replace("{}", body)
    for end in range(1, len(text)):
        message = {"role": "assistant", "content": text[:end]}
        cut = {"choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
        found = extract(cut, tools=TOOLS)
        assert [call for call in found.calls if call.arguments != {"to": "bo", "body": "Hi"}] == [], text[:end]
        assert not any("closed_wrapper" in call.repairs for call in found.calls), text[:end]


# ---- several calls without a marker ----------------------------------------------------------------------------------

ONE, TWO = '{"name": "ping", "arguments": {}}', '{"name": "move", "arguments": {"x": 2}}'
SEVERAL = {
    "a list": f"[{ONE}, {TWO}]",
    "a fenced list": f"```json\n[{ONE}, {TWO}]\n```",
    "lines": f"{ONE}\n{TWO}",
    "a semicolon": f"{ONE}; {TWO}",
    "an envelope": f'{{"tool_calls": [{ONE}, {TWO}]}}',
    "a fenced envelope": f'```json\n{{"tool_calls": [{ONE}, {TWO}]}}\n```',
    "functions": f'{{"tool_calls": [{{"function": {ONE}}}, {{"id": "2", "function": {TWO}}}]}}',
    "blocks": (
        '{"content": [{"type": "tool_use", "name": "ping", "input": {}}, '
        '{"type": "tool_use", "name": "move", "input": {"x": 2}}]}'
    ),
    "an orphan end of a list": f"[{ONE}, {TWO}][/TOOL_CALLS]",
    "an orphan tag": f"[{ONE}, {TWO}]</tool_call>",
    "Python": "[ping(), move(x=2)]",
}


@pytest.mark.parametrize("text", SEVERAL.values(), ids=SEVERAL)
def test_several_calls_of_a_message_have_one_verdict_and_a_span_each(text: str) -> None:
    for written in (text, text + "\n"):
        parsed = read(written)
        assert calls_of(parsed) == [("ping", {}), ("move", {"x": 2})]
        spans = [call.provenance.span for call in parsed.calls if call.provenance]
        assert all(start < end for start, end in spans)
        assert "".join(call.raw for call in parsed.calls).strip() == text
        found = extract(written, tools=TOOLS)
        assert [call.name for call in found.calls] == ["ping", "move"]
        assert len({(call.provenance.level, call.provenance.verdict) for call in found.calls if call.provenance}) == 1
        assert (found.refused, found.text.strip()) == ([], "")
        assert [call.name for call in extract(written, tools=TOOLS, trust="compat").calls] == ["ping", "move"]


@each_row("text", SEVERAL.values(), ids=SEVERAL)
@each_row("more", [" is how you would call it.", "\n\nThis is an example.", " or {}"])
def test_no_call_of_a_list_counts_if_the_message_goes_on(text: str, more: str) -> None:
    if text.startswith("[ping"):
        more = more.replace("\n", " ")  # a list in Python may stand between paragraphs
    parsed = read(text + more)
    assert (parsed.calls, parsed.text) == ([], text + more)
    assert extract(text + more, tools=TOOLS).calls == []


def test_no_call_of_a_list_counts_if_one_is_not_offered() -> None:
    for text in (f'[{ONE}, {{"name": "other", "arguments": {{}}}}]', "[ping(), other()]"):
        assert read(text).calls == []


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n<function=send to="bo" body="Hi">\n</function>\n</tool_call>',
        '<invoke name="send" to="bo" body="Hi"></invoke>',
        '<function name="send" to="bo" body="Hi"></function>',
        '<tool_call>send to="bo" body="Hi"</tool_call>',
    ],
)
def test_attributes_that_hold_arguments_are_never_dropped(text: str) -> None:
    for call in read(text).calls:
        assert call.arguments == {"to": "bo", "body": "Hi"}


# ---- the input of an action ------------------------------------------------------------------------------------------

INPUTS: dict[str, Calls] = {
    '{"query": "auks"}': [("search", {"query": "auks"})],
    '"{\\"query\\": \\"auks\\"}"': [("search", {"query": "auks"})],
    '\'{"query": "auks", "limit": 2}\'': [("search", {"query": "auks", "limit": 2})],
    'json {"query": "auks"}': [("search", {"query": "auks"})],
    'Input: {"query": "auks"}': [("search", {"query": "auks"})],
    '```json\n{"query": "auks"}\n```': [("search", {"query": "auks"})],
    'query="auks", limit=2': [("search", {"query": "auks", "limit": 2})],
    "query: auks of the north": [("search", {"query": "auks of the north"})],
    '"auks"': [("search", {"query": "auks"})],
    "auks {and} puffins": [("search", {"query": "auks {and} puffins"})],
    '"{\\"query\\": \\"auk"': [],
    'query: {"auks': [],
    "query: auks\nlimit: 2": [],
}


@each_row("text", INPUTS)
@each_row("label", ["{}:", "**{}:**", "**{}**:"])
def test_the_input_of_an_action_is_decoded_or_broken(text: str, label: str) -> None:
    for lower in (False, True):
        action, given = label.format("Action"), label.format("Action Input")
        if lower:
            action, given = action.lower(), given.lower().replace(" ", "_")
        for name in ("react", "auto"):
            parsed = read(f"Thought: look\n{action} search\n{given} {text}\nObservation: none", name)
            assert calls_of(parsed) == INPUTS[text]
            assert bool(parsed.broken) == (not INPUTS[text])


def test_an_empty_input_is_no_argument_of_a_tool_that_needs_none() -> None:
    assert calls_of(read('action: ping\naction_input: ""\n', "react")) == [("ping", {})]


# ---- names and keys that are given twice, or with a namespace --------------------------------------------------------


@pytest.mark.parametrize("name", JSON_WRAPPERS)
def test_a_key_that_is_given_twice_counts_if_the_values_are_equal(name: str) -> None:
    equal = (
        '{"name": "move", "name": "move", "arguments": {"x": 1}}',
        '{"name": "move", "arguments": {"x": 1, "x": 1}}',
    )
    for body in equal:
        parsed = read(JSON_WRAPPERS[name].replace("{}", body), name)
        assert calls_of(parsed) == [("move", {"x": 1})]
        assert parsed.calls[0].repairs == ("repeated_key",)
    for body in (
        '{"name": "move", "name": "ping", "arguments": {"x": 1}}',
        '{"name": "move", "arguments": {"x": 1, "x": true}}',
    ):
        assert read(JSON_WRAPPERS[name].replace("{}", body), name).calls == []


NAMESPACED = Toolset(
    [
        tool(name)
        for name in ("mcp__hub__open", "mcp__lab__open", "mcp__docs__read_text", "browser.click", "get_weather", "find")
    ]
)
SPELLINGS = {
    "hub.open": "mcp__hub__open",
    "mcp__lab__open": "mcp__lab__open",
    "lab/open": "mcp__lab__open",
    "read_text": "mcp__docs__read_text",
    "docs:ReadText": "mcp__docs__read_text",
    "functions.read_text": "mcp__docs__read_text",
    "click": "browser.click",
    "mcp__server__find": "find",
    "server.find": "find",
    "open": None,  # two tools
    "other.read_text": None,  # another namespace
    "weather": None,  # an underscore is no namespace
    "fіnd": None,  # a Cyrillic letter
    "server.fіnd": None,
    "mcp__": None,
    "a.b": None,
}


@pytest.mark.parametrize("written", SPELLINGS)
def test_a_namespace_may_be_added_or_missing_if_the_match_is_unique(written: str) -> None:
    found = NAMESPACED.find(written, dotted=True)
    assert (found.name if found else None) == SPELLINGS[written]
    parsed = read(f'<tool_call>{{"name": "{written}", "arguments": {{}}}}</tool_call>', tools=NAMESPACED)
    assert [(call.name, call.known_tool) for call in parsed.calls] == [
        (SPELLINGS[written] or written, found is not None)
    ]


def test_a_method_of_an_object_is_no_call_of_a_tool() -> None:
    for text in ("client.find(x=1)", "[client.find(x=1)]", "```python\nclient.find(x=1)\n```"):
        assert read(text, tools=NAMESPACED).calls == []
        assert formats.parse(text, tools=NAMESPACED, loose=True).calls == []


def test_a_name_in_another_namespace_is_reported() -> None:
    call = read('<tool_call>{"name": "click", "arguments": {}}</tool_call>', tools=NAMESPACED).calls[0]
    assert call.repairs == ("unwrapped_name",)


# ---- small readings --------------------------------------------------------------------------------------------------


def test_single_quotes_around_a_value_of_gemma_are_no_part_of_it() -> None:
    for text, value in (("'a/b'", "a/b"), ("'it, too'", "it, too"), ("it's", "it's")):
        parsed = read(f"<|tool_call>call:search{{query:{text}}}<tool_call|>", "gemma4")
        assert calls_of(parsed) == [("search", {"query": value})]


@pytest.mark.parametrize(
    ("text", "is_call"),
    [('{query:<|"|>a<|"|>', True), ('{query:<|"|>a<|"|>,', False), ('{query:<|"|>a', False), ("{query:a", False)],
)
def test_a_call_of_gemma_that_lacks_only_its_end_is_a_call(text: str, is_call: bool) -> None:
    parsed = read(f"<|tool_call>call:search{text}", "gemma4")
    assert calls_of(parsed) == ([("search", {"query": "a"})] if is_call else [])
    assert parsed.calls or parsed.broken


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ('search query="a" limit=3', [("search", {"query": "a", "limit": 3})]),
        ("search query=a limit=3", [("search", {"query": "a", "limit": 3})]),
        ('search query="a" and more', []),
    ],
)
def test_no_attribute_without_quotes_is_lost(body: str, calls: Calls) -> None:
    parsed = read(f"<tool_call>\n{body}\n</tool_call>")
    assert calls_of(parsed) == calls


PLACEHOLDERS = ["...", "0", "12", "_", "-"]


@pytest.mark.parametrize("tools", [TOOLS, None], ids=["tools", "no tools"])
@pytest.mark.parametrize("name", PLACEHOLDERS)
def test_a_name_has_a_letter(name: str, tools: Toolset | None) -> None:
    texts = [JSON_WRAPPERS[row].replace("{}", f'{{"name": "{name}", "arguments": {{}}}}') for row in JSON_WRAPPERS]
    texts += [write_tagged(row, "bo").replace("send", name) for row in TAGGED]
    texts += [f"<tool_call> {name} </tool_call>", f"[TOOL_CALLS]{name}{{}}", f"<|tool_call>call:{name}{{}}<tool_call|>"]
    for text in texts:
        assert [call.name for call in read(text, tools=tools).calls if call.name == name] == [], text


@pytest.mark.parametrize(
    ("arguments", "calls"),
    [
        ('{"x": 1}', [("move", {"x": 1})]),
        ('{"to": "bo", "body": "Hi"}', [("send", {"to": "bo", "body": "Hi"})]),
        ('{"y": 1}', []),
        ("{}", []),
    ],
)
def test_a_counter_stands_for_the_only_tool_that_its_arguments_fit(arguments: str, calls: Calls) -> None:
    text = f"<|tool_call_begin|>0<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
    parsed = read(text, "kimi_k2")
    assert calls_of(parsed) == calls
    assert all(call.repairs == ("guessed_name",) for call in parsed.calls)
    assert all(call.provenance and call.provenance.verdict == "ask" for call in extract(text, tools=TOOLS).calls)


def test_a_call_without_its_end_asks_if_the_tool_acts_on_the_system() -> None:
    shell = {**tool("shell", ["command"], command="string"), "metadata": {"class": "exec"}}
    text = "<tool_call>shell<arg_key>command</arg_key><arg_value>ls</arg_value>"
    for written, verdict in ((text, "ask"), (text + "</tool_call>", "allow")):
        (call,) = extract(written, tools=[shell]).calls
        assert call.provenance is not None
        assert call.provenance.verdict == verdict


MOVE: Calls = [("move", {"x": 1})]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('<tool_call>\n```json\n{"name": "move", "arguments": {"x": 1}}\n```\n</tool_call>', MOVE),
        ('<tool_call>\n<thinking>a {b}</thinking>\n{"name": "move", "arguments": {"x": 1}}\n</tool_call>', MOVE),
        ('functools{"name": "move", "arguments": {"x": 1}}', MOVE),
        ("```python\nmove(x=1)\n```", MOVE),
        ("```python\nmove(x=1)\nping()\n```<|im_end|>", [*MOVE, ("ping", {})]),
        ("move(x=1)<|im_end|>", MOVE),
        ("[\n  move(x=1),  # left\n  ping(),\n]", [*MOVE, ("ping", {})]),
        ("[move(x=1)\nping()]", [*MOVE, ("ping", {})]),
        ("move/{'x': 1}", MOVE),
        ('<steptml:invoke name="move"><steptml:parameter name="x">1</steptml:parameter></steptml:invoke>', MOVE),
        ('<｜tool call begin｜>move<｜tool sep｜>{"x": 1}<｜tool call end｜>', MOVE),
        ('<｜tool▁call▁begin｜>function<｜tool▁sep｜>move\n{"x": 1}\n<｜tool▁call▁end｜>', MOVE),
        (
            "<|tool_call_begin|>functions.move:0<|tool_call_argument_begin|>"
            '{"name": "move", "arguments": {"x": 1}}<|tool_call_end|>',
            MOVE,
        ),
        ("```python\nmove(x=1)\n```\nas an example", []),
        ("```python\nmove(x=1)", MOVE),  # the last line is nothing but a call
        ("```python\nimport os\nmove(x=1)\n```", []),
        ("move(x=1) <b>", []),
    ],
)
def test_small_deviations_are_read(text: str, calls: Calls) -> None:
    assert calls_of(read(text)) == calls


# ---- reasoning -------------------------------------------------------------------------------------------------------

WRAPPERS = thinking.pairs(named=True)


@each_row(("opener", "closer"), WRAPPERS)
def test_no_draft_inside_reasoning_counts_in_any_format(opener: str, closer: str) -> None:
    for name in (
        "hermes",
        "kimi_k2",
        "qwen3_coder",
        "mistral",
        "glm45",
        "deepseek_v32",
        "llama3_json",
        "gemma4",
        "auto",
    ):
        draft = formats.render([("move", {"x": 1})], "hermes" if name == "auto" else name)
        call = formats.render([("move", {"x": 2})], "hermes" if name == "auto" else name)
        text = f"{opener}\nFirst {draft}\n{closer}\n{call}"
        whole = formats.parse(text, name, TOOLS, more_thinking=True)
        assert calls_of(whole) == [("move", {"x": 2})], name
        assert whole.text.strip() == "", name
        stage = formats.parser(name, TOOLS, more_thinking=True)
        events = [event for character in text for event in stage.feed(character)]
        assert account(formats.fold([*events, *stage.close()])) == account(whole), name
        found = extract(text, tools=TOOLS)
        assert [call.arguments for call in found.calls] == [{"x": 2}], name
        assert (opener in found.text, closer in found.text) == (False, False)


@pytest.mark.parametrize("name", [*TAGGED, "gemma4", "hermes", "mistral", "react"])
def test_half_of_a_surrogate_pair_is_replaced_with_a_named_repair(name: str) -> None:
    lone = "\ud83d"
    if name in TAGGED:
        text = write_tagged(name, "bo", f"a{lone}b")
    else:
        text = {
            "gemma4": f'<|tool_call>call:send{{to:<|"|>bo<|"|>,body:<|"|>a{lone}b<|"|>}}<tool_call|>',
            "hermes": f'<tool_call>{{"name": "send", "arguments": {{"to": "bo", "body": "a{lone}b"}}}}</tool_call>',
            "mistral": f'[TOOL_CALLS]send[ARGS]{{"to": "bo", "body": "a{lone}b"}}',
            "react": f'Action: send\nAction Input: {{"to": "bo", "body": "a{lone}b"}}\n',
        }[name]
    parsed = read(text, name)
    for call in parsed.calls:
        assert call.arguments == {"to": "bo", "body": "a\ufffdb"}
        assert call.repairs == ("replaced_surrogate",)
    assert parsed.calls or parsed.broken


# ---- residue of the protocol -----------------------------------------------------------------------------------------

END_TOKENS = ["<|im_end|>", "</s>", "<eos>", "<eom>", "<|endoftext|>", "<end_of_turn>"]


@each_row("token", END_TOKENS)
@each_row("name", ["auto", "hermes", "glm45", "mistral"])
def test_end_tokens_leave_the_end_of_the_text_only(name: str, token: str) -> None:
    assert read(f"Done.{token}", name).text == "Done."
    assert read(f"Done.{token}\n{token}\n", name).text == "Done."
    for text in (f"A {token} token", f"{token} opens", f"<s>old{token} new", token[:-1]):
        assert read(text, name).text == text
    call = formats.render([("move", {"x": 1})], "hermes" if name == "auto" else name)
    parsed = read(f"Now.\n{call}{token}", name)
    assert (calls_of(parsed), parsed.text.strip()) == ([("move", {"x": 1})], "Now.")


@pytest.mark.parametrize(
    ("opener", "closer"),
    [("<tool_result>", "</tool_result>"), ("<tool_response>", "</tool_response>"), ("~~~tool_result", "\n~~~")],
)
def test_invented_results_after_a_call_leave_the_text(opener: str, closer: str) -> None:
    call = '<tool_call>\n{"name": "move", "arguments": {"x": 1}}\n</tool_call>'
    block = f'{opener}\n{{"name": "move", "arguments": {{"x": 2}}}}{closer}'
    parsed = read(f"Now.\n{call}\n{block}\nIt moved.")
    assert calls_of(parsed) == [("move", {"x": 1})]
    assert parsed.text.split() == ["Now.", "It", "moved."]
    for text in (f"An example:\n{block}\nEnd.", f"{block}", f"{opener}\nopen"):
        assert read(text).text == text


def test_calls_before_the_end_of_reasoning_that_nothing_opened_are_drafts() -> None:
    draft, call = (formats.render([("move", {"x": number})], "hermes") for number in (1, 2))
    for closer in sorted(thinking.ORPHANS):
        found = extract(f"I could do {draft}\n{closer}\n{call}", tools=TOOLS)
        assert [each.arguments for each in found.calls] == [{"x": 2}], closer
        assert [refused.call.arguments for refused in found.refused] == [{"x": 1}], closer
    found = extract(f"<think>hm</think>{call}</think>", tools=TOOLS)
    assert (found.calls, len(found.refused)) == ([], 1)  # the second tag may close reasoning that nobody saw begin


def test_the_closer_of_gemma_may_stand_inside_a_string() -> None:
    call = '<|tool_call>call:search{query:<|"|>a <tool_call|> b<|"|>,limit:2}<tool_call|>'
    assert calls_of(read(call, "gemma4")) == [("search", {"query": "a <tool_call|> b", "limit": 2})]
    # The first string is not closed, and the delimiter belongs to the next call.
    two = '<|tool_call>call:search{query:<|"|>a<tool_call|><|tool_call>call:search{query:<|"|>b<|"|>}<tool_call|>'
    assert calls_of(read(two, "gemma4")) == [("search", {"query": "b"})]


def test_labels_may_stand_before_the_name_in_a_tag() -> None:
    text = '<invoke id="toolu_1" name="search"><parameter name="query">a</parameter></invoke>'
    parsed = read(text)
    assert calls_of(parsed) == [("search", {"query": "a"})]
    assert parsed.calls[0].repairs == ("dropped_attribute",)


@pytest.mark.parametrize(
    ("text", "is_call"),
    [
        ('<|tool_call_start|>[search(query="a"', True),
        ('<|tool_call_start|>[search(query="a")', True),
        ('<|tool_call_start|>[search(query="a', False),
        ('<|tool_call_start|>[search(query="a", limit=2', False),
        ('<|tool_call_start|>[search(query="a",', False),
    ],
)
def test_a_call_in_python_that_lacks_only_its_brackets_is_a_call(text: str, is_call: bool) -> None:
    parsed = read(text, "lfm2")
    assert calls_of(parsed) == ([("search", {"query": "a"})] if is_call else [])
    assert all("closed_wrapper" in call.repairs for call in parsed.calls)
    assert parsed.calls or parsed.broken


@pytest.mark.parametrize("name", ["kimi_k3", "minimax_m3"])
def test_formats_with_tags_of_their_own_get_an_end_too(name: str) -> None:
    text = formats.render([("send", {"to": "bo", "body": "Hi"})], name)
    complete = [
        text[:end]
        for end in range(len(text))
        if calls_of(read(text[:end], name)) == [("send", {"to": "bo", "body": "Hi"})]
    ]
    assert complete
    assert all(text.index("Hi") + 2 < len(each) for each in complete)


@pytest.mark.parametrize(("body", "arguments"), [('{"x": 1}', {"x": 1}), ("[1]", None)])
def test_a_native_call_with_an_unknown_key_has_no_empty_arguments(body: str, arguments: Any) -> None:
    found = extract({"tool_calls": [{"name": "move", "payload": json.loads(body)}]}, tools=TOOLS)
    assert [call.arguments for call in found.calls] == ([] if arguments is None else [arguments])
    assert bool(found.invalid) == (arguments is None)
