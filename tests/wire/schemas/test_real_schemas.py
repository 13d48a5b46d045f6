"""Schemas as people have them: from pydantic, and from tool servers."""

from __future__ import annotations

import datetime
import enum
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from pydantic import BaseModel, ConfigDict, Field
from tests.tables import each_row
from tests.wire.schemas.dialects import as_json_schema, faults_of

from dragoman.types import Tool
from dragoman.wire.schemas import TARGETS, compile_schema, restore


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str = Field(min_length=1, max_length=80)
    zip_code: str | None = Field(None, pattern=r"^\d{5}$")
    floor: Literal[1, 2, 3] = 1


class Card(BaseModel):
    kind: Literal["card"]
    number: str


class Cash(BaseModel):
    kind: Literal["cash"]
    note: str | None = None


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: int = Field(ge=1, description="The order's number.")
    due: datetime.datetime
    colour: Colour = Colour.RED
    home: Address
    others: list[Address] = []
    counts: dict[str, int] = {}
    pay: Annotated[Card | Cash, Field(discriminator="kind")]
    pair: tuple[int, str] = (1, "a")


class Folder(BaseModel):
    name: str
    folders: list[Folder] = []
    link: Folder | None = None


SEARCH_FILES = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"type": "number", "exclusiveMinimum": 0},
        "filter": {
            "anyOf": [
                {"type": "string"},
                {"type": "object", "properties": {"glob": {"type": "string"}}, "additionalProperties": False},
            ],
            "description": "Which files.",
        },
        "options": {"type": "object", "additionalProperties": {}},
        "order-by": {"type": ["string", "null"], "enum": ["name", "size", None]},
    },
    "required": ["path"],
    "additionalProperties": False,
}

SCHEMAS = {"order": Order.model_json_schema(), "folder": Folder.model_json_schema(), "files": SEARCH_FILES}


@each_row("target", TARGETS)
@each_row("name", SCHEMAS)
def test_real_schemas_become_what_each_target_takes(name: str, target: str) -> None:
    compiled = compile_schema(Tool(name, parameters=SCHEMAS[name]), target)
    assert compiled.schema is not None
    assert faults_of(compiled.schema, target) == []
    jsonschema_rs.validator_for(as_json_schema(compiled.schema))


@pytest.mark.parametrize(
    ("name", "target"),
    [("order", "anthropic"), ("order", "cohere"), ("order", "mistral"), ("files", "openai"), ("files", "cohere")],
)
def test_real_schemas_need_no_change_for_most_targets(name: str, target: str) -> None:
    assert compile_schema(Tool(name, parameters=SCHEMAS[name]), target).schema is SCHEMAS[name]


ORDER = {"id": 7, "due": "2026-11-15T10:00:00Z", "home": {"street": "A"}, "pay": {"kind": "cash", "note": None}}


@pytest.mark.parametrize(
    ("target", "written"),
    [
        (
            "openai_strict",
            {
                "id": 7,
                "due": "2026-11-15T10:00:00Z",
                "colour": None,
                "home": {"street": "A", "zip_code": None, "floor": 2},
                "others": None,
                "counts": [{"key": "apples", "value": 3}],
                "pay": {"kind": "cash", "note": None},
                "pair": None,
            },
        ),
        (
            "gemini",
            {
                "id": 7,
                "due": "2026-11-15T10:00:00Z",
                "home": {"street": "A", "zip_code": None, "floor": "2"},
                "counts": [{"key": "apples", "value": 3}],
                "pay": {"kind": "cash", "note": None},
            },
        ),
    ],
)
def test_a_model_gets_what_it_was_made_for(target: str, written: dict[str, Any]) -> None:
    compiled = compile_schema(Tool("order", parameters=SCHEMAS["order"]), target)
    assert jsonschema_rs.validator_for(as_json_schema(compiled.schema)).is_valid(written)
    restored, _ = restore(written, compiled.undo)
    assert restored == {**ORDER, "home": {"street": "A", "zip_code": None, "floor": 2}, "counts": {"apples": 3}}
    assert Order.model_validate(restored).home.floor == 2


def test_the_report_of_a_tool_server_for_gemini() -> None:
    compiled = compile_schema(Tool("files", parameters=SEARCH_FILES), "gemini")
    assert [str(loss) for loss in compiled.losses] == [
        'tool files: renamed $.properties["order-by"] to order_by',
        "tool files: dropped exclusiveMinimum at $.properties.limit, put in words in the description",
        "tool files: dropped additionalProperties at $.properties.filter.anyOf[1]",
        "tool files: narrowed $.properties.options.additionalProperties from anything to string, number, boolean, null",
        "tool files: wrote the object at $.properties.options as a list of keys and values",
        "tool files: dropped additionalProperties at $",
        "tool files: dropped $schema at $",
    ]
