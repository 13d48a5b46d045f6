"""The options of the built-in tools, on which the loop, the policy and the trust rules depend."""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages
from typing import NamedTuple

import pytest

from dragoman import builtin
from dragoman.policy.rules import PATH_FAMILIES
from dragoman.types import Tool


class Row(NamedTuple):
    """What is expected of a tool; a new tool needs one here and one in `builtin.NAMES`."""

    kind: str
    read_only: bool = False
    parallel_safe: bool = False


ROWS = {
    "read": Row("read", read_only=True, parallel_safe=True),
    "glob": Row("read", read_only=True, parallel_safe=True),
    "grep": Row("read", read_only=True, parallel_safe=True),
    "web_fetch": Row("fetch", read_only=True, parallel_safe=True),
    "write": Row("write"),
    "edit": Row("write"),
    "apply_patch": Row("write"),
    "bash": Row("exec"),
    "todo_write": Row("session"),
    "ask_user": Row("session"),
    "finish": Row("session"),
    "remember": Row("session"),
    "recall": Row("session", read_only=True),
}
FAMILIES = {"read": "read", "write": "write", "exec": "bash", "fetch": "fetch", "session": None}


def tool_of(name: str) -> Tool:
    found = getattr(builtin, builtin.NAMES[name])
    assert isinstance(found, Tool)
    return found


def test_every_tool_of_the_package_is_in_the_table_of_names() -> None:
    modules = [import_module(each.name) for each in walk_packages(builtin.__path__, f"{builtin.__name__}.")]
    made = {value.name: name for each in modules for name, value in vars(each).items() if isinstance(value, Tool)}
    assert made == builtin.NAMES, "give each tool a row in builtin.NAMES, and export it from dragoman.builtin"
    assert builtin.NAMES.keys() == ROWS.keys(), "say in ROWS what is expected of each tool"
    assert set(builtin.NAMES.values()) <= set(builtin.__all__), "export each tool from dragoman.builtin"


@pytest.mark.parametrize("name", ROWS)
def test_a_built_in_says_what_it_is(name: str) -> None:
    tool, row = tool_of(name), ROWS[name]
    assert tool.parallel_safe is row.parallel_safe
    assert tool.read_only is row.read_only
    assert tool.name == name
    assert tool.metadata["class"] == row.kind
    assert tool.metadata["origin"] == "builtin"
    assert tool.metadata.get("family") == FAMILIES[row.kind]
    assert tool.is_exec is (row.kind in ("write", "exec"))
    assert tool.description
    assert tool.run is not None


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.kind != "session"])
def test_what_touches_the_world_says_what_it_would_touch(name: str) -> None:
    assert tool_of(name).inspect is not None


def test_rules_take_the_patterns_of_all_tools_for_files_as_paths() -> None:
    assert {name for name, row in ROWS.items() if row.kind in ("read", "write")} <= PATH_FAMILIES
