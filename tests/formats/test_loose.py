"""Calls in plain text: every shape that models write, and everything that only looks like a call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tables import each_row

from dragoman.formats.loose import Found, find_calls
from dragoman.toolset import Toolset


def tool(name: str, required: tuple[str, ...] = (), **properties: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(required),
    }
    return {"type": "function", "function": {"name": name, "description": "", "parameters": schema}}


TOOLS = Toolset(
    [
        tool("get_weather", ("city",), city="string", unit="string", days="integer"),
        tool("math.area", ("base", "height"), base="number", height="number"),
        tool("get_time"),
        tool("log_event", ("event",), event="object"),
        tool("run_query", ("query",), query="string", options="object", limits="array"),
    ]
)

PARIS = ("get_weather", {"city": "Paris"})
ROME = ("get_weather", {"city": "Rome"})
AREA = ("math.area", {"base": 3, "height": 4})


def calls(text: str, tools: Toolset | None = TOOLS) -> list[tuple[str, dict[str, Any]]]:
    return [(found.name, found.arguments) for found in find_calls(text, tools)]


def regions(text: str) -> list[str]:
    return [found.region for found in find_calls(text, TOOLS)]


SHAPES: dict[str, tuple[str, str, list[tuple[str, dict[str, Any]]]]] = {
    # name: (text, region, calls)
    "bare python": ("get_weather(city='Paris')", "message", [PARIS]),
    "python list": ("[get_weather(city='Paris'), math.area(base=3, height=4)]", "message", [PARIS, AREA]),
    "list of lists": ("[[get_weather(city='Paris')], [get_weather(city='Rome')]]", "message", [PARIS, ROME]),
    "lines": ("get_weather(city='Paris')\nget_weather(city='Rome')", "message", [PARIS, ROME]),
    "semicolons": ("get_weather(city='Paris'); get_weather(city='Rome');", "message", [PARIS, ROME]),
    "commas": ("get_weather(city='Paris'), get_weather(city='Rome')", "message", [PARIS, ROME]),
    "unclosed list": ("[get_weather(city='Paris'), get_weather(city='Rome')", "message", [PARIS, ROME]),
    "list after a sentence": ("Here is the call:\n[get_weather(city='Paris')]", "list", [PARIS]),
    "list in a sentence": ("I will call [get_weather(city='Paris')] now.", "list", [PARIS]),
    "own line": ("Here is the call:\n\nget_weather(city='Paris')\n\nThat is all.", "line", [PARIS]),
    "numbered lines": ("Steps:\n1. get_weather(city='Paris')\n2. get_weather(city='Rome')", "line", [PARIS, ROME]),
    "inline code": ("I will use `get_weather(city='Paris')` for this.", "prose", [PARIS]),
    "assigned": ("So:\nweather = get_weather(city='Paris')", "line", [PARIS]),
    "printed": ("Run this:\nprint(get_weather(city='Paris'))", "line", [PARIS]),
    "returned list": ("```python\nreturn [get_weather(city='Paris')]\n```", "fence:python", [PARIS]),
    "python fence": ("```python\n[get_weather(city='Paris')]\n```", "fence:python", [PARIS]),
    "fence in prose": ("Sure:\n```python\nget_weather(city='Paris')\n```\nDone.", "fence:python", [PARIS]),
    "unlabelled fence": ("```\nget_weather(city='Paris')\n```", "fence:", [PARIS]),
    "unclosed fence": ("```python\nget_weather(city='Paris')", "fence:python", [PARIS]),
    "quoted list": ("\"[get_weather(city='Paris')]\"", "quoted", [PARIS]),
    "list of quoted": ("[\"get_weather(city='Paris')\", 'get_weather(city=\"Rome\")']", "quoted", [PARIS, ROME]),
    "escaped quotes": ('"[get_weather(city=\\"Paris\\"), get_weather(city=\\"Rome\\")]"', "quoted", [PARIS, ROME]),
    "markdown escapes": ("[get\\_weather(city='Paris')]", "message", [PARIS]),
    "quoted name": ("'get_weather'(city='Paris')", "message", [PARIS]),
    "folded name": ("math_area(base=3, height=4)", "message", [AREA]),
    "namespaced name": ("functions.get_weather(city='Paris')", "message", [PARIS]),
    "positional": ("[math.area(3, 4)]", "message", [AREA]),
    "dict argument": ("get_weather({'city': 'Paris'})", "message", [PARIS]),
    "object for the first parameter": (
        "log_event({'kind': 'start', 'at': 3})",
        "message",
        [("log_event", {"event": {"kind": "start", "at": 3}})],
    ),
    "same quotes inside and outside": ("['get_weather(city='Paris')']", "quoted", [PARIS]),
    "tuple of calls": ("(get_weather(city='Paris'), get_weather(city='Rome'))", "message", [PARIS, ROME]),
    "bare word for text": ("[get_weather(city=Paris)]", "message", [PARIS]),
    "formula for text": ("[run_query(query=lambda x: x**2)]", "message", [("run_query", {"query": "lambda x: x**2"})]),
    "no arguments": ("[get_time()]", "message", [("get_time", {})]),
    "nested values": (
        "[run_query(query='a (b) [c]', options={'deep': {'x': [1, 2]}}, limits=[1, 2])]",
        "message",
        [("run_query", {"query": "a (b) [c]", "options": {"deep": {"x": [1, 2]}}, "limits": [1, 2]})],
    ),
    "role markers": ("<|start_header_id|>assistant<|end_header_id|>\n\n[get_weather(city='Paris')]", "list", [PARIS]),
    "json": ('{"name": "get_weather", "arguments": {"city": "Paris"}}', "message", [PARIS]),
    "json list": ('[{"name": "get_weather", "parameters": {"city": "Paris"}}]', "message", [PARIS]),
    "json fence": ('```json\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n```', "fence:json", [PARIS]),
    "json in prose": ('I call {"name": "get_weather", "arguments": {"city": "Paris"}} now.', "prose", [PARIS]),
    "python repr": ("[{'name': 'get_weather', 'parameters': {'city': 'Paris'}}]", "message", [PARIS]),
    "arguments first": ('{"arguments": {"city": "Paris"}, "name": "get_weather"}', "message", [PARIS]),
    "name as key": ('{"get_weather": {"city": "Paris"}}', "message", [PARIS]),
    "names as keys": (
        '{"get_weather": {"city": "Paris"}, "math.area": {"base": 3, "height": 4}}',
        "message",
        [PARIS, AREA],
    ),
    "name, then object": ('get_weather\n{"city": "Paris"}', "message", [PARIS]),
    "sentence that runs into the name": ('Let me look.get_weather\n{"city": "Paris"}', "prose", [PARIS]),
    "name glued to object": ('get_weather{"city": "Paris"}', "message", [PARIS]),
    "name, colon, object": ('get_weather: {"city": "Paris"}', "message", [PARIS]),
    "name and object as items": ("['get_weather', {'city': 'Paris'}]", "message", [PARIS]),
    "name without its key": ("[{'get_weather', 'parameters': {'city': 'Paris'}}]", "message", [PARIS]),
    "flat object": ("{'name': 'get_weather', 'city': 'Paris'}", "message", [PARIS]),
    "wrapped list": (
        '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]}',
        "message",
        [PARIS],
    ),
    "openai": (
        '{"tool_calls": [{"id": "1", "type": "function", "function": '
        '{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}}]}',
        "message",
        [PARIS],
    ),
    "wrapped name": (
        '{"name": "tool_call", "arguments": {"name": "get_weather", "arguments": {"city": "Paris"}}}',
        "message",
        [PARIS],
    ),
    "escaped json": (
        '"{\\"name\\": \\"get_weather\\", \\"arguments\\": {\\"city\\": \\"Paris\\"}}"',
        "quoted",
        [PARIS],
    ),
}


@each_row("shape", SHAPES)
def test_a_shape_is_read_and_its_region_named(shape: str) -> None:
    text, region, expected = SHAPES[shape]
    assert calls(text) == expected
    assert set(regions(text)) == {region}


@each_row("name_key", ["name", "function", "tool", "tool_name", "action", "function_name", "tool_call"])
@each_row("argument_key", ["arguments", "parameters", "args", "input", "tool_input", "params", "action_input"])
def test_every_pair_of_keys_states_a_call(name_key: str, argument_key: str) -> None:
    assert calls(f'{{"{name_key}": "get_weather", "{argument_key}": {{"city": "Paris"}}}}') == [PARIS]


NON_CALLS: dict[str, str] = {
    "nothing": "",
    "prose": "I cannot help with that (sorry).",
    "a mention": "The function get_weather(city) tells the weather of a city.",
    "a mention in code marks": "You can use `get_weather(city, unit)` for this.",
    "a signature": "get_weather(city: str, unit: str) -> str",
    "no arguments where some are required": "Call get_weather() to find out.",
    "a python definition": "def get_weather(city='Paris'):\n    return 'sunny'",
    "a javascript definition": "function get_weather(city = 'Paris') { return 'sunny' }",
    "a tool definition": (
        '{"name": "get_weather", "description": "d", "parameters": '
        '{"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}'
    ),
    "another tool": "[get_news(topic='Paris')]",
    "another tool in JSON": '{"name": "get_news", "arguments": {"topic": "Paris"}}',
    "a method of something else": "client.get_weather(city='Paris')",
    "a simple tool definition": '{"name": "get_weather", "parameters": {"city": "string", "unit": "string"}}',
    "a typed signature": "get_weather(city: str)",
    "a list of signatures": "[get_weather(city), math.area(base, height)]",
    "a null for what is required": "[get_weather(city=None)]",
    "the result of another call": "[math.area(base=get_time(), height=3)]",
    "a template": 'return f"get_weather(city={city})"',
    "a name and an object as data in code": "```python\nROUTES = [('get_weather', {'city': 'Paris'})]\n```",
    "use of a function that the text defines": (
        "def get_weather(city):\n    return 'sunny'\n\n# Example usage\nprint(get_weather('Paris'))"
    ),
    "variables in a program": "```python\ncity = 'Paris'\nresult = get_weather(city)\n```",
    "an ellipsis": "Use get_weather(city=...) or get_weather(...).",
    "a placeholder": "Write get_weather(city=<city name>) with your city.",
    "data": '{"city": "Paris", "unit": "c"}',
    "a name with a remark": "get_weather (see above)",
    "a cut call": "[get_weather(city='Par",
    "cut json": '{"name": "get_weather", "arguments": {"city": "Par',
}


@each_row("case", NON_CALLS)
def test_what_only_looks_like_a_call_is_none(case: str) -> None:
    assert calls(NON_CALLS[case]) == []


def test_without_tools_only_clear_shapes_count() -> None:
    assert calls("[anything(a=1), other.thing(b='x')]", None) == [("anything", {"a": 1}), ("other.thing", {"b": "x"})]
    assert calls('{"name": "anything", "arguments": {"a": 1}}', None) == [("anything", {"a": 1})]
    assert calls("Use print(a=1) here.", None) == []
    assert calls('{"anything": {"a": 1}}', None) == []
    assert [found.known_tool for found in find_calls("[anything(a=1)]", None)] == [None]


def test_a_restated_call_counts_once() -> None:
    text = "[get_weather(city='Paris')]\n\nI called get_weather(city='Paris') because you asked for Paris."
    assert calls(text) == [PARIS]


@pytest.mark.parametrize(
    "afterwards",
    [
        "### Instruction:\nAnd in Rome?\n### Response:\n[get_weather(city='Rome')]",
        "User: And in Rome?\n[get_weather(city='Rome')]",
        "<|im_start|>user\nAnd in Rome?<|im_end|>\n[get_weather(city='Rome')]",
        "def test_weather():\n    assert get_weather(city='Rome') == 'sunny'",
        "# tests/weather.py\nget_weather(city='Rome')",
    ],
)
def test_what_the_model_makes_up_after_its_answer_does_not_count(afterwards: str) -> None:
    assert calls("[get_weather(city='Paris')]\n\n" + afterwards) == [PARIS]


def test_what_comes_before_the_first_answer_does_not_hide_it() -> None:
    text = "def helper():\n    pass\n\nUser: weather?\n[get_weather(city='Paris')]"
    assert calls(text) == [PARIS]


def test_calls_under_several_headings_all_count() -> None:
    text = "### Task 1\n[get_weather(city='Paris')]\n\n### Task 2\n[get_weather(city='Rome')]"
    assert calls(text) == [PARIS, ROME]


def test_a_call_far_into_a_long_text_is_found_in_its_place() -> None:
    filler = 'Some {"data": [1, 2]} and get_weather(city) in words.\n' * 1000
    (found,) = find_calls(filler + "[get_weather(city='Paris')]", TOOLS)
    assert (found.start, found.end) == (len(filler), len(filler) + 27)


def test_broken_neighbours_do_not_hide_a_call() -> None:
    assert calls("get_weather(city=; {'name': get_weather(\n\n[get_weather(city='Paris')]") == [PARIS]


def test_repeats_in_one_list_are_meant() -> None:
    assert calls("[get_weather(city='Paris'), get_weather(city='Paris')]") == [PARIS, PARIS]


def test_changes_and_repairs_are_reported() -> None:
    (found,) = find_calls("[get_weather('Paris', days='3')]", TOOLS)
    assert found.arguments == {"city": "Paris", "days": 3}
    assert "positional_arguments" in found.repairs
    assert [(change.path, change.before, change.after) for change in found.changes] == [("$.days", "3", 3)]
    assert found.known_tool is True


def test_a_span_takes_in_what_wraps_the_call_alone() -> None:
    text = "Now:\n```python\n[get_weather(city='Paris')]\n```\nDone."
    (found,) = find_calls(text, TOOLS)
    assert text[found.start : found.end] == "```python\n[get_weather(city='Paris')]\n```"


def test_the_calls_of_a_list_share_its_span() -> None:
    paris, now = '{"name": "get_weather", "args": {"city": "Paris"}}', '{"name": "get_time", "args": {}}'
    text = f'{{"tool_calls": [{paris}, {now}]}}'
    first, second = find_calls(text, TOOLS)
    assert (first.start, first.end, second.end) == (0, second.start, len(text))


def test_what_is_no_call_stays_outside_the_span_of_its_neighbour() -> None:
    text = "[math.area(base=3, height=4), math.area(base=math.area(base=3, height=4), height=2)]"
    (found,) = find_calls(text, TOOLS)
    assert text[found.start : found.end] == "math.area(base=3, height=4)"


def lawful(text: str, found: list[Found]) -> bool:
    """Spans lie within the text, in order, and do not overlap."""
    edges = [edge for one in found for edge in (one.start, one.end)]
    return (
        edges == sorted(edges) and all(0 <= edge <= len(text) for edge in edges) and all(f.start < f.end for f in found)
    )


PIECES = st.sampled_from(
    [
        *(
            "get_weather",
            "math.area",
            "city=",
            "'Paris'",
            "3",
            "...",
            "def ",
            "print",
            "\nUser:",
            '"name": ',
            '"arguments": ',
        ),
        *(
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            '"',
            "'",
            "`",
            "```python\n",
            "```",
            "\\",
            '\\"',
            ",",
            ";",
            ":",
            "=",
            "\n",
            " ",
        ),
        *("\x00", "\ud800", "é"),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from([TOOLS, None, Toolset([])]))
def test_any_text_is_read_without_failing(text: str, tools: Toolset | None) -> None:
    assert lawful(text, find_calls(text, tools))


@given(st.text(max_size=200))
def test_arbitrary_text_is_read_without_failing(text: str) -> None:
    assert lawful(text, find_calls(text, None))


@pytest.mark.parametrize(
    "piece", ["[", "{", "(", "get_weather(", 'get_weather("', '{"a":', "[{", "'get_weather', {", '\\"']
)
def test_a_long_hostile_text_is_no_call(piece: str) -> None:
    text = "get_weather" + piece * (100_000 // len(piece))
    assert calls(text) == []
