"""What a model is told when a call cannot be run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import Tool, Toolset
from dragoman.args.loader import load, validate
from dragoman.events import CallRefused
from dragoman.extraction import as_result, explain_invalid
from dragoman.extraction.mistakes import write_notice
from dragoman.formats.prompt import sample_calls
from dragoman.types import Fault, InvalidCall, ToolCall

TOOLS = Toolset(
    [Tool("search", parameters={"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]})]
)


def test_a_call_of_no_tool_is_told_the_tools_and_the_nearest() -> None:
    told = explain_invalid(InvalidCall("i", "serach", "", (), kind="unknown_tool"), TOOLS)
    assert "'serach'" in told
    assert "Did you mean 'search'?" in told
    assert "The tools are: search." in told


def test_every_fault_and_the_right_shape_are_told_at_once() -> None:
    faults = (Fault("$.q", "is missing"), Fault("$.n", "is no integer"))
    told = explain_invalid(InvalidCall("i", "search", "", faults, kind="bad_arguments"), TOOLS)
    assert "- $.q: is missing\n- $.n: is no integer" in told
    assert 'The right shape is: {"name": "search", "arguments": {"q":' in told


def test_a_call_that_was_cut_off_is_asked_for_in_smaller_pieces() -> None:
    told = explain_invalid(InvalidCall("i", "search", '{"q": "', (Fault("$", "cut off"),), kind="truncated"), TOOLS)
    assert "cut off" in told
    assert "less at a time" in told


def test_the_words_are_the_result_of_the_call() -> None:
    result = as_result(InvalidCall("i", "search", "", (Fault("$", "bad"),)), TOOLS)
    assert (result.call_id, result.name, result.is_error) == ("i", "search", True)


def test_a_notice_names_each_refused_call_once() -> None:
    refused = CallRefused(ToolCall("i", "search", {"q": "x"}), "the same call stands in a page")
    notice = write_notice([refused, refused], [], told="")
    assert notice.count("search(") == 1
    assert "the same call stands in a page" in notice
    assert write_notice([refused], [], told=notice) == ""


KINDS = {"enum": ["red", "blue"]}
PLACE = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}, "required": ["zip"]}
DEFS = {"Kind": KINDS, "Place": PLACE, "Way": {"$ref": "#/$defs/Stop"}, "Stop": {"anyOf": [{"type": "null"}, PLACE]}}


@pytest.mark.parametrize(
    "rule",
    [
        {"$ref": "#/$defs/Kind"},
        {"$ref": "#/$defs/Place"},
        {"$ref": "#/$defs/Way"},
        {"allOf": [{"$ref": "#/$defs/Place"}]},
        {"oneOf": [{"$ref": "#/$defs/Kind"}, {"type": "integer"}]},
        {"type": ["null", "integer"]},
        {"type": "array", "items": {"$ref": "#/$defs/Place"}, "minItems": 1},
        {"type": "object", "properties": {"to": {"$ref": "#/$defs/Place"}}, "required": ["to"]},
        {"$ref": "#/$defs/Nowhere"},
    ],
)
def test_the_right_shape_fits_the_schema(rule: dict[str, object]) -> None:
    schema = {"type": "object", "properties": {"it": rule}, "required": ["it"], "$defs": DEFS}
    for parameters in (schema, {"$ref": "#/$defs/All", "$defs": {**DEFS, "All": schema}}):
        tools = Toolset([Tool("go", parameters=parameters)])
        told = explain_invalid(InvalidCall("i", "go", "", (Fault("$", "bad"),), kind="bad_arguments"), tools)
        shape = json.loads(told.partition("The right shape is: ")[2])
        assert shape["name"] == "go" and "it" in shape["arguments"]
        if rule != {"$ref": "#/$defs/Nowhere"}:
            assert list(validate(shape["arguments"], schema)) == []


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2},
        {"type": "array", "items": {"type": "number"}, "minItems": 3},
        {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1, "uniqueItems": True},
    ],
    ids=["tuple", "three", "set"],
)
def test_the_shape_of_a_list_fits_its_schema(schema: dict[str, Any]) -> None:
    tool = Tool("draw", "Draw.", {"type": "object", "properties": {"points": schema}, "required": ["points"]})
    (_, arguments), _ = sample_calls([tool])
    assert load(arguments, tool).errors == (), arguments
