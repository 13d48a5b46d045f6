"""Untrusted schemas: accepted as a cleaned copy, or refused with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.jsonschema.untrusted import BadSchema, TextRules, accept_schema, words_in

RULES = TextRules(
    has_hidden=lambda text: "\u200b" in text,
    has_token=lambda text: "<|" in text,
    clean_text=lambda text, limit: text.strip()[:limit],
    clean_line=lambda text, limit: " ".join(text.split())[:limit],
)


def accept(schema: Any) -> dict[str, Any]:
    return accept_schema(schema, RULES, most_bytes=2_000, most_levels=8)


def nested(levels: int) -> dict[str, Any]:
    return {"type": "object", "properties": {"p": nested(levels - 1)}} if levels else {"type": "object"}


def test_a_schema_is_copied_cleaned_and_closed() -> None:
    schema = {"properties": {"a": {"type": "string", "description": "  text  ", "$comment": "gone"}}}
    assert accept(schema) == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "text"}},
        "additionalProperties": False,
    }
    assert "$comment" in schema["properties"]["a"]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ([], "its schema is not an object"),
        ({"type": "string"}, "its schema does not describe an object"),
        (nested(9), "its schema is nested deeper than 8 levels"),
        ({"description": "x" * 3_000}, "the limit is 2000"),
        ({"properties": {"a": {"title": 5, "enum": ["b\u200b"]}}}, "hides characters"),
        ({"properties": {"a\u200b": True}}, "hides characters in the name"),
        ({"properties": {"<|a|>": True}}, "contains a control token"),
        ({"properties": {"a": {"enum": ["b", {"c": ["<|a|>"]}]}}}, "contains a control token"),
        ({"properties": {"a": {"const": {"description": "<|a|>"}}}}, "contains a control token"),
        ({"properties": {"a": {"pattern": "<|a|>"}}}, "contains a control token"),
        ({"$defs": {"<|a|>": True}}, "contains a control token"),
        ({"properties": {"a": True}, "required": ["<|a|>"]}, "contains a control token"),
        ({"properties": {"a": {"$ref": "https://example.com/schema"}}}, "refers to another document"),
        ({"properties": {"a": {"type": "strin"}}}, "is not a valid JSON Schema"),
    ],
)
def test_a_schema_is_refused_with_the_reason(schema: Any, why: str) -> None:
    with pytest.raises(BadSchema, match=why):
        accept(schema)


def test_control_tokens_are_left_out_where_they_have_no_effect() -> None:
    words = {"default": "<|a|>", "examples": ["b", "<|a|>"], "x-note": [{"y": "<|a|>"}], "<|a|>": 1}
    kept = {"type": "string", "examples": ["b"], "default": "b", "x-note": "c"}
    schema = {"properties": {"a": {"type": "string", **words}, "b": kept}}
    assert accept(schema)["properties"] == {"a": {"type": "string"}, "b": kept}


def test_data_in_a_schema_is_not_read_as_keywords() -> None:
    schema = {"properties": {"a": {"enum": [{"$ref": "https://example.com", "description": " kept "}]}}}
    assert accept(schema)["properties"] == schema["properties"]


def test_every_text_of_a_schema_is_found() -> None:
    assert sorted(words_in({"a": ["b", {"c": 5}], "d": "e"})) == ["a", "b", "c", "d", "e"]
