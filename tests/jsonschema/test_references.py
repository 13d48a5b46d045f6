"""References that multiply: a small schema never causes exponential work, in any of the translators."""

from __future__ import annotations

from typing import Any

import pytest
from tests.tables import each_row

from dragoman import formats
from dragoman.args import coerce, validate
from dragoman.formats.grammars.values import Branches, Place
from dragoman.jsonschema.effort import multiplies
from dragoman.jsonschema.references import MOST_NODES, Budget, ExpansionLimit, References, resolve
from dragoman.mcp.definitions import read_definitions
from dragoman.mcp.protocol import Limits
from dragoman.mcp.servers import StdioServer
from dragoman.types import Tool
from dragoman.wire.schemas import TARGETS, compile_schema

LEVELS = 20


def doubled(kind: str, levels: int = LEVELS) -> dict[str, Any]:
    """Each definition refers to the next one twice: written out, the schema has 2 ** levels nodes."""
    definitions: dict[str, Any] = {f"d{levels}": {"type": "object"}}
    for level in range(levels):
        definitions[f"d{level}"] = KINDS[kind]({"$ref": f"#/$defs/d{level + 1}"})
    return {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": definitions}


def members(left: Any, right: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"left": left, "right": right}}


KINDS: dict[str, Any] = {
    "properties": lambda ref: members(ref, ref),
    "described properties": lambda ref: members({**ref, "description": "l"}, {**ref, "description": "r"}),
    "constrained properties": lambda ref: members({**ref, "minProperties": 1}, {**ref, "maxProperties": 9}),
    "optional properties": lambda ref: members({"anyOf": [ref, {"type": "null"}]}, {"anyOf": [{"type": "null"}, ref]}),
    "items": lambda ref: {"type": "array", "prefixItems": [ref, ref], "items": ref},
    "anyOf": lambda ref: {"anyOf": [ref, ref]},
    "oneOf": lambda ref: {"oneOf": [ref, ref]},
    "allOf": lambda ref: {"allOf": [ref, ref]},
    "not": lambda ref: {"not": ref, "anyOf": [ref, True]},
    "if": lambda ref: {"if": ref, "then": ref, "else": ref},
}
IN_PLACE = ("anyOf", "oneOf", "allOf", "not", "if")
every_kind = pytest.mark.parametrize("kind", KINDS)


class Counted(dict[str, Any]):
    """An object that counts how often its members are looked up."""

    looks = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.looks += 1
        return super().get(key, default)


def counted(node: Any) -> Any:
    if isinstance(node, dict):
        return Counted({key: counted(value) for key, value in node.items()})
    return [counted(each) for each in node] if isinstance(node, list) else node


# ---- the budget ------------------------------------------------------------------------------------------------------


def test_a_budget_counts_nodes_and_levels() -> None:
    budget = Budget(nodes=2, depth=3)
    assert budget.allows(3)
    assert not budget.allows(4)
    assert budget.spent == 2
    with pytest.raises(ExpansionLimit):
        budget.spend()


@pytest.mark.parametrize("kind", IN_PLACE)
def test_schemas_that_apply_to_one_value_are_counted(kind: str) -> None:
    assert multiplies(doubled(kind))
    assert not multiplies(doubled(kind, levels=4))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in IN_PLACE])
def test_schemas_of_different_values_do_not_add_up(kind: str) -> None:
    assert not multiplies(doubled(kind))


@pytest.mark.parametrize("levels", [20, 40, 80])
def test_the_count_is_linear_in_the_size_of_the_schema(levels: int) -> None:
    schema = counted(doubled("anyOf", levels))
    Counted.looks = 0
    assert multiplies(schema)
    assert Counted.looks < 60 * levels


def test_a_recursion_counts_once() -> None:
    tree = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}, {"$ref": "#"}]}
    assert not multiplies(tree)


def test_a_long_chain_is_counted_without_recursion() -> None:
    chain: dict[str, Any] = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(5_000)}
    assert not multiplies({"$defs": {**chain, "d5000": {"type": "string"}}, "$ref": "#/$defs/d0"})


# ---- the translators -------------------------------------------------------------------------------------------------


@every_kind
def test_arguments_are_coerced_and_checked_with_bounded_work(kind: str) -> None:
    schema = counted(doubled(kind))
    Counted.looks = 0
    value = {"a": {"left": {"left": "x", "right": 1}, "right": {}}}
    coerce(value, schema)
    faults = validate(value, schema)
    assert Counted.looks < 20_000
    assert faults if kind in IN_PLACE else faults is not None


@pytest.mark.parametrize("kind", IN_PLACE)
def test_arguments_of_a_schema_that_multiplies_are_refused_and_say_why(kind: str) -> None:
    faults = validate({"a": {}}, doubled(kind))
    assert [fault.path for fault in faults] == ["$"]
    assert faults[0].why == f"cannot be checked: its schema applies more than {MOST_NODES} schemas to one value"


@each_row("kind", KINDS)
@each_row("target", TARGETS)
def test_wires_leave_the_tool_out_or_keep_the_references(kind: str, target: str) -> None:
    schema = doubled(kind)
    compiled = compile_schema(Tool("x", parameters=schema), target)
    if compiled.schema is None:
        assert [loss.rule for loss in compiled.losses].count("left_out") == 1
    else:
        assert sum(1 for _ in References(compiled.schema).objects()) <= MOST_NODES


@every_kind
def test_a_grammar_visits_a_bounded_number_of_values(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[Budget] = []
    made = Branches.__init__

    def remember(self: Branches, *args: Any) -> None:
        made(self, *args)
        budgets.append(self.budget)

    monkeypatch.setattr(Branches, "__init__", remember)
    report = formats.grammar_report([Tool("x", parameters=doubled(kind))])
    assert all(budget.spent < 2 * budget.nodes for budget in budgets)
    if kind in ("constrained properties", "optional properties"):
        assert any("once its references are expanded" in loss.why for loss in report.losses)


def test_a_description_beside_a_reference_does_not_write_it_out_again() -> None:
    branches = Branches(doubled("described properties"), lambda *_: None)
    assert branches.of({"$ref": "#/$defs/d0"}, Place("$", 3))
    report = formats.grammar_report([Tool("x", parameters=doubled("described properties"))])
    assert not [loss for loss in report.losses if loss.keyword == "$ref"]


@pytest.mark.parametrize("kind", IN_PLACE)
def test_a_server_with_a_schema_that_multiplies_loses_that_tool(kind: str) -> None:
    listed = [{"name": "bomb", "inputSchema": doubled(kind)}, {"name": "fine", "inputSchema": {"type": "object"}}]
    found, problems = read_definitions(StdioServer("s", ["x"]), listed, Limits())
    assert [each.name for each in found] == ["fine"]
    assert problems == [
        f"s: the tool 'bomb' is ignored: its schema applies more than {MOST_NODES} schemas to one value"
    ]


# ---- pointers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("#", None),
        ("#/$defs/a~1b", 1),
        ("#/$defs/c~0d", 2),
        ("#/$defs/e%20f", 3),
        ("#/list/1", "second"),
        ("#/list/2", True),
        ("#/list/-1", True),
        ("#name", True),
        ("other.json#/a", True),
        (5, True),
    ],
)
def test_pointers_lead_into_the_root_or_nowhere(pointer: Any, found: Any) -> None:
    root = {"$defs": {"a/b": 1, "c~d": 2, "e f": 3}, "list": ["first", "second"]}
    assert resolve(pointer, root) == (root if found is None else found)


def test_references_that_lead_back_to_themselves_are_cyclic() -> None:
    references = References(
        {
            "$ref": "#/$defs/a",
            "$defs": {"a": {"items": {"$ref": "#/$defs/b"}}, "b": {"not": {"$ref": "#/$defs/a"}}, "c": {"$ref": "#"}},
        }
    )
    assert [name for name in "abc" if references.is_cyclic(f"#/$defs/{name}")] == ["a", "b"]
    assert not references.has("#/$defs/d")
