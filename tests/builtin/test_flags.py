"""What the built-in tools say of themselves: the loop, the policy and the trust rules go by these."""

from __future__ import annotations

import pytest

from dragoman import builtin
from dragoman.extraction.trust import is_exec
from dragoman.types import Tool

PARALLEL_SAFE = {
    "Read": True,
    "Glob": True,
    "Grep": True,
    "WebFetch": True,
    "Write": False,
    "Edit": False,
    "ApplyPatch": False,
    "Bash": False,
    "TodoWrite": False,
    "AskUser": False,
    "Finish": False,
    "Remember": False,
    "Recall": False,
}
READ_ONLY = {"Read", "Glob", "Grep", "WebFetch", "Recall"}
WIRE_NAMES = {
    "Read": "read",
    "Glob": "glob",
    "Grep": "grep",
    "WebFetch": "web_fetch",
    "Write": "write",
    "Edit": "edit",
    "ApplyPatch": "apply_patch",
    "Bash": "bash",
    "TodoWrite": "todo_write",
    "AskUser": "ask_user",
    "Finish": "finish",
    "Remember": "remember",
    "Recall": "recall",
}
CLASSES = {
    "Read": "read",
    "Glob": "read",
    "Grep": "read",
    "WebFetch": "fetch",
    "Write": "write",
    "Edit": "write",
    "ApplyPatch": "write",
    "Bash": "exec",
    "TodoWrite": "session",
    "AskUser": "session",
    "Finish": "session",
    "Remember": "session",
    "Recall": "session",
}
FAMILIES = {"read": "read", "write": "write", "exec": "bash", "fetch": "fetch", "session": None}


def tool_of(name: str) -> Tool:
    found = getattr(builtin, name)
    assert isinstance(found, Tool)
    return found


@pytest.mark.parametrize("name", PARALLEL_SAFE)
def test_a_built_in_says_what_it_is(name: str) -> None:
    tool = tool_of(name)
    assert tool.parallel_safe is PARALLEL_SAFE[name]
    assert tool.read_only is (name in READ_ONLY)
    assert tool.name == WIRE_NAMES[name]
    assert tool.metadata["class"] == CLASSES[name]
    assert tool.metadata["origin"] == "builtin"
    assert tool.metadata.get("family") == FAMILIES[CLASSES[name]]
    assert is_exec(tool) is (CLASSES[name] in ("write", "exec"))
    assert tool.description
    assert tool.run is not None


@pytest.mark.parametrize("name", [name for name, kind in CLASSES.items() if kind != "session"])
def test_what_touches_the_world_says_what_it_would_touch(name: str) -> None:
    assert tool_of(name).inspect is not None
