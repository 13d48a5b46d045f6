"""Laws that hold for every schema and every target."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.wire.schemas.dialects import as_json_schema, faults_of, nodes
from tests.wire.schemas.strategies import JSON, ROOTS, WILD, fitting

from dragoman.types import Tool
from dragoman.wire.failures import Loss
from dragoman.wire.schemas import TARGETS, Compiled, Undo, compile_schema, restore

MANY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def compiled_for_all(parameters: Any, name: str = "x") -> Iterator[tuple[str, Compiled]]:
    for target in TARGETS:
        yield target, compile_schema(Tool(name, parameters=parameters), target)


@MANY
@given(ROOTS)
def test_what_comes_out_is_what_the_target_takes(root: dict[str, Any]) -> None:
    for target, compiled in compiled_for_all(root):
        if compiled.schema is None:
            assert any(loss.rule == "left_out" for loss in compiled.losses)
        else:
            assert faults_of(compiled.schema, target) == [], target


@MANY
@given(ROOTS)
def test_inlined_schemas_refer_to_nothing(root: dict[str, Any]) -> None:
    for target in TARGETS:
        compiled = compile_schema(Tool("x", parameters=root), target, inline=True)
        assert compiled.schema is None or faults_of(compiled.schema, target) == [], target
        assert not any(isinstance(node, dict) and "$ref" in node for _, node in nodes(compiled.schema))


@MANY
@given(WILD)
def test_no_value_is_too_odd_to_be_compiled(value: Any) -> None:
    before = copy.deepcopy(value)
    for target, compiled in compiled_for_all(value):
        assert compiled.schema is None or faults_of(compiled.schema, target) == [], target
        assert compiled.schema is not None or compiled.losses
        assert all(isinstance(loss, Loss) and str(loss).startswith("tool x: ") for loss in compiled.losses)
    assert value == before


@MANY
@given(ROOTS)
def test_compiling_is_deterministic_and_leaves_its_input_alone(root: dict[str, Any]) -> None:
    before = copy.deepcopy(root)
    # Another name, so that nothing can be remembered from the first time.
    for (_, first), (_, second) in zip(compiled_for_all(root), compiled_for_all(before, "y"), strict=True):
        assert first.schema == second.schema
        assert [loss.detail for loss in first.losses] == [loss.detail for loss in second.losses]
    assert root == before


@MANY
@given(ROOTS)
def test_a_compiled_schema_compiles_to_itself(root: dict[str, Any]) -> None:
    for target, once in compiled_for_all(root):
        if once.schema:
            again = compile_schema(Tool("x", parameters=once.schema), target)
            assert again.losses == (), target
            assert again.schema == once.schema, target


@MANY
@given(fitting())
def test_arguments_come_back_as_the_tool_wants_them(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    """A model that means `value` writes it as the compiled schema asks; the tool gets what it means."""
    schema, value = pair
    original = jsonschema_rs.validator_for(schema)
    assert original.is_valid(value)
    for target, compiled in compiled_for_all(schema):
        assert compiled.schema is not None
        written = express(value, compiled.schema, compiled.schema)
        assert written is not CANNOT, target
        assert jsonschema_rs.validator_for(as_json_schema(compiled.schema)).is_valid(written), target
        restored, changes = restore(written, compiled.undo)
        assert without_nulls(restored) == without_nulls(value), target
        assert original.is_valid(restored), target
        assert bool(changes) == (restored != written)


@MANY
@given(ROOTS, st.dictionaries(st.sampled_from(["city", "days", "a_b"]), JSON))
def test_any_arguments_can_be_restored(root: dict[str, Any], arguments: dict[str, Any]) -> None:
    before = copy.deepcopy(arguments)
    for _, compiled in compiled_for_all(root):
        restored, changes = restore(arguments, compiled.undo)
        assert isinstance(restored, dict)
        assert changes or restored == arguments
    assert arguments == before


@given(st.dictionaries(st.text(max_size=3), JSON))
def test_nothing_to_undo_changes_nothing(arguments: dict[str, Any]) -> None:
    assert not Undo()
    assert restore(arguments, Undo()) == (arguments, ())


CANNOT: Any = object()


def express(value: Any, schema: Any, root: dict[str, Any]) -> Any:
    """A value as a model would write it under a compiled schema, or CANNOT. Written without a look at the compiler."""
    while "$ref" in schema:
        schema = root if schema["$ref"] == "#" else root["$defs"][schema["$ref"].rpartition("/")[2]]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            tried = (express(value, branch, root) for branch in schema[union])
            return next((each for each in tried if each is not CANNOT), CANNOT)
    kinds = schema.get("type", [])
    kinds = [kind.lower() for kind in (kinds if isinstance(kinds, list) else [kinds])]
    if value is None:
        allowed = "null" in kinds or schema.get("nullable") or None in schema.get("enum", [])
        return None if allowed or not schema else CANNOT
    if "enum" in schema or "const" in schema:
        return _choose(value, schema.get("enum", [schema.get("const")]))
    if isinstance(value, dict) and "array" in kinds and "object" not in kinds:
        item = schema["items"]["properties"] if "key" in schema["items"].get("properties", {}) else None
        pairs = item and [{"key": key, "value": express(each, item["value"], root)} for key, each in value.items()]
        return CANNOT if pairs is None or any(pair["value"] is CANNOT for pair in pairs) else pairs
    if isinstance(value, dict):
        return _express_members(value, schema, root) if "object" in kinds else CANNOT
    if isinstance(value, list):
        items = [express(each, schema["items"], root) for each in value] if "array" in kinds else [CANNOT]
        return CANNOT if any(each is CANNOT for each in items) else items
    return value if _kind(value) in kinds or (_kind(value) == "integer" and "number" in kinds) else CANNOT


def _kind(value: Any) -> str:
    return {str: "string", bool: "boolean", int: "integer", float: "number"}[type(value)]


def _choose(value: Any, choices: list[Any]) -> Any:
    if any(type(choice) is type(value) and choice == value for choice in choices):
        return value
    text = {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
    return text if not isinstance(value, str) and text in choices else CANNOT


def _express_members(value: dict[str, Any], schema: dict[str, Any], root: dict[str, Any]) -> Any:
    properties = schema.get("properties", {})
    additional = schema.get("additionalProperties", True)
    members: dict[str, Any] = {}
    for name, each in value.items():
        inner = properties.get(name, additional)
        members[name] = each if inner is True else CANNOT if inner is False else express(each, inner, root)
    for name in schema.get("required", []):
        if name not in members:
            members[name] = express(None, properties[name], root)
    return CANNOT if any(each is CANNOT for each in members.values()) else members


def without_nulls(value: Any) -> Any:
    """A null for an optional property that may be null says no more than its absence."""
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value
