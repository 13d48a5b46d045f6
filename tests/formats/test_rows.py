"""What every row of the catalogue states, and that each of its fields has an effect."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.tables import each_row

from dragoman import formats
from dragoman.errors import CannotExpress
from dragoman.formats.readers.python import MarkedCalls
from dragoman.formats.registry import get, plan_for, rows
from dragoman.formats.template import Format, TemplateError
from dragoman.types import ToolCall

SOURCES = Path(formats.__file__).parent
NAMES = [row.name for row in rows()]

SHOWN = ("family", "models", "note")
"""Fields that only the documentation and `dragoman formats` show."""


@each_row("name", NAMES)
def test_every_row_says_how_its_calls_are_written(name: str) -> None:
    row = get(name)
    assert row.template
    assert row.template_is_read or row.entries or row.named_entries


@each_row("field", [field for field in Format.__struct_fields__ if field not in SHOWN])
def test_every_field_of_a_row_has_an_effect(field: str) -> None:
    engine = [path for path in SOURCES.rglob("*.py") if "catalogue" not in path.parts]
    assert any(re.search(rf"\brow\.{field}\b", path.read_text(encoding="utf-8")) for path in engine)


@pytest.mark.parametrize("field", SHOWN)
def test_a_field_that_is_only_shown_has_no_effect(field: str) -> None:
    assert not any(re.search(rf"\brow\.{field}\b", path.read_text(encoding="utf-8")) for path in SOURCES.rglob("*.py"))


@each_row("name", NAMES)
@each_row("value", [float("nan"), {1, 2}])
def test_what_is_no_json_value_is_refused(name: str, value: object) -> None:
    with pytest.raises(CannotExpress):
        formats.render([("search", {"query": [value]})], name)


def test_a_row_of_ones_own_may_write_its_arguments_in_python() -> None:
    reader = MarkedCalls("acme", ("<<",), (">>",))
    row = Format(
        name="acme", template="<<{name}({args})>>", template_is_read=False, notation="python", entries=(reader,)
    )
    text = formats.render([("search", {"query": "a >> b", "exact": True})], row)
    assert text == '<<search(query="a \\x3e> b", exact=True)>>'
    assert formats.parse(text, row).calls[0].arguments == {"query": "a >> b", "exact": True}


WRONG_TEMPLATES = {
    "@@ {name}\n{* {key} = {value};\n*}@@ end": "does not begin with a literal",
    "@@ {?{id}?} {name}\n{args}\n@@ end": "does not begin with a literal",
    "@@ {name}\n{*<{key}>{value}</{key}>\n*}@@ end": "a hole occurs twice",
    "@@ {name}\n{*- {key}: {value};\n*}@@ end": "only a line end may stand before a value",
}


def test_a_template_that_could_not_be_read_is_refused_when_the_row_is_registered() -> None:
    for template, why in WRONG_TEMPLATES.items():
        with pytest.raises(TemplateError, match=why):
            formats.register(Format("acme_parts", template=template))
        assert "acme_parts" not in formats.names()


def test_a_declared_format_with_lines_has_a_template_and_a_grammar() -> None:
    row = formats.from_response_template(
        "acme_lines",
        {
            "version": 1,
            "fields": {
                "tool_calls": {
                    "open_pattern": r"<tool (?P<name>\w+)>",
                    "close": "</tool>",
                    "content": "kv-lines",
                    "transform": {"function": {"name": "{name}", "arguments": "{content}"}},
                }
            },
        },
    )
    assert formats.render([("search", {"query": "a: b", "limit": 3})], row) == (
        "<tool search>\nquery: a: b\nlimit: 3\n</tool>"
    )
    tools = [{"name": "search", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}]
    assert '"query: "' in formats.grammar(tools, row, tool_choice="required")


# ---- openers and sections --------------------------------------------------------------------------------------------


def _rendered(name: str) -> str:
    # Without a schema, the format alone decides whether `5` is a number.
    return formats.render([ToolCall("call_1", "look", {"a": "x", "b": "5", "c": "true"})], name)


def test_an_opener_that_is_written_twice_is_read_once() -> None:
    checked = 0
    for row in rows():
        text = _rendered(row.name)
        opener = max((each for each in plan_for(row.name).openers if text.startswith(each)), key=len, default="")
        if len(opener) < 6 or opener[0].isalpha() or row.place == "line":
            continue
        plain = formats.parse(text, row.name)
        for between in ("", "\n", " "):
            doubled = formats.parse(opener + between + text, row.name)
            assert [call.arguments for call in doubled.calls] == [call.arguments for call in plain.calls], row.name
            assert doubled.text == plain.text, row.name
            described = f"{opener}{between}{opener} is a tag."
            assert formats.parse(described, row.name).text == described, row.name
        checked += 1
    assert checked > 25


def test_auto_reads_the_calls_of_a_section_as_its_format_does() -> None:
    sectioned = [row for row in rows() if row.section is not None and row.in_auto and row.template_is_read]
    assert len(sectioned) > 6
    for row in sectioned:
        text = _rendered(row.name)
        named, auto = formats.parse(text, row.name), formats.parse(text)
        assert [(call.name, call.arguments) for call in auto.calls] == [
            (call.name, call.arguments) for call in named.calls
        ], row.name
