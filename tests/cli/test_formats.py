"""`dragoman formats`: the catalogue for people and for programs."""

from __future__ import annotations

from tests.tables import each_row

from dragoman import formats
from dragoman.cli.formats import EXAMPLE_CALLS, rows

TYPES = {"city": "string", "days": "integer", "query": "string", "exact": "boolean"}
TOOLS = [
    {
        "name": name,
        "parameters": {"type": "object", "properties": {key: {"type": TYPES[key]} for key in arguments}},
    }
    for name, arguments in EXAMPLE_CALLS
]


def test_the_table_has_one_line_per_format(dragoman) -> None:
    done = dragoman("formats")
    assert (done.code, done.err) == (0, "")
    header, *lines = done.out.split("\n\n")[0].splitlines()
    assert header.split()[:2] == ["name", "family"]
    assert sorted(line.split()[0] for line in lines) == sorted({formats.get(name).name for name in formats.names()})


def test_one_format_shows_its_template_and_an_example(dragoman) -> None:
    out = dragoman("formats", "hermes").out
    assert "\nTemplate\n  <tool_call>\n  {call}\n  </tool_call>\n" in out
    assert '"name": "get_weather"' in out.split("\nExample\n")[1]


@each_row("name", [row.name for row in rows()])
def test_every_example_reads_back_as_the_same_calls(dragoman, name: str) -> None:
    data = dragoman("formats", name, "--json").data
    assert data["name"] == name
    read = formats.parse(data["example"], name, tools=TOOLS)
    assert read.broken == [] and read.refused == []
    assert 1 <= len(read.calls) <= 2
    assert [(call.name, call.arguments) for call in read.calls] == list(EXAMPLE_CALLS[: len(read.calls)])


def test_an_alias_finds_its_format(dragoman) -> None:
    for row in dragoman("formats", "--json").data:
        for alias in row["aliases"][:1]:
            assert dragoman("formats", alias, "--json").data["name"] == row["name"]


def test_an_unknown_name_is_told_with_the_nearest(dragoman) -> None:
    done = dragoman("formats", "hermez")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        "error: unknown format 'hermez'; did you mean 'hermes'?",
        "hint: `dragoman formats` lists the known formats",
    ]
