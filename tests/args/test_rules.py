"""Every repair and every coercion that the code can report is in the list of names, and nothing else is."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import dragoman
from dragoman.args import COERCIONS, REPAIRS, coercion

SOURCE = Path(inspect.getfile(dragoman)).parent


def texts(node: ast.AST) -> set[str]:
    """The strings that an expression may give; not what it compares with, and not the keys of what it looks up."""
    if isinstance(node, ast.Constant):
        return {node.value} if isinstance(node.value, str) and node.value else set()
    if isinstance(node, ast.IfExp):
        return texts(node.body) | texts(node.orelse)
    if isinstance(node, ast.BoolOp | ast.Tuple | ast.List):
        parts = node.values if isinstance(node, ast.BoolOp) else node.elts
        return set[str]().union(*map(texts, parts))
    return set()


def emitted(tree: ast.AST) -> Iterator[str]:
    """Names in `cursor.repair(...)`, `rules[...] = None`, `repairs.append(...)` and `(*repairs, ...)`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            holder = ast.unparse(node.func.value)
            if node.func.attr == "repair" or (node.func.attr == "append" and holder.endswith("repairs")):
                yield from texts(node.args[0])
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            if ast.unparse(node.value).endswith("rules"):
                yield from texts(node.slice)
        elif isinstance(node, ast.Tuple | ast.List) and isinstance(node.ctx, ast.Load):
            starred = [ast.unparse(each.value) for each in node.elts if isinstance(each, ast.Starred)]
            if any(each.endswith(("repairs", "rules")) for each in starred):
                yield from texts(node)


def test_every_repair_in_the_code_is_listed() -> None:
    found = {
        name: path.name
        for path in SOURCE.rglob("*.py")
        if re.search("repair|rules", source := path.read_text(encoding="utf-8"))  # each way to emit one says so
        for name in emitted(ast.parse(source))
    }
    assert len(found) > 35
    assert {name: place for name, place in found.items() if name not in REPAIRS} == {}


def test_every_listed_name_is_in_the_code() -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py") if path.name != "rules.py")
    assert [name for name in REPAIRS if f'"{name}"' not in source] == []
    kinds = {f"string_to_{kind}" for kind in coercion._SCALAR_READERS}
    assert [name for name in COERCIONS if f'"{name}"' not in source and name not in kinds] == []


def test_every_coercion_in_the_code_is_listed() -> None:
    tree = ast.parse(inspect.getsource(coercion))
    found = {f"string_to_{kind}" for kind in coercion._SCALAR_READERS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("self.note", "caster.note", "Change"):
            found |= texts(node.args[1])
    assert found - {"double_encoded"} == COERCIONS.keys() - {"double_encoded"}
    assert "double_encoded" in COERCIONS
