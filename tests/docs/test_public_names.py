"""The public names: each has a docstring, and none disappears or changes unnoticed."""

from __future__ import annotations

import difflib

from scripts.documentation.names import NAMES_FILE, list_interface, list_undocumented

ADVICE = """
Public names disappeared, changed or are new. Is this meant? docs/stability.md says when a name may change.
Then add a line to CHANGELOG.md, and accept the names: scripts/make-docs --accept-names
"""


def test_every_public_name_has_a_docstring() -> None:
    assert list_undocumented() == []


def test_public_names_are_those_that_were_accepted() -> None:
    accepted = NAMES_FILE.read_text(encoding="utf-8").splitlines()
    found = [
        line
        for line in difflib.unified_diff(accepted, list_interface(), "accepted", "found", lineterm="", n=0)
        if not line.startswith("@@")
    ]
    assert found == [], ADVICE + "\n".join(found)


def test_the_list_shows_names_parameters_fields_and_methods() -> None:
    names = NAMES_FILE.read_text(encoding="utf-8").splitlines()
    for line in (
        "dragoman.Agent = dragoman.agent.Agent",
        "dragoman.errors.DragomanError.explain()",
        "dragoman.types.Tool(name, description=, parameters=, run=, parallel_safe=, read_only=,",
        "dragoman.agent.Agent.run(task, *, answer=",
        "dragoman.types.Reply.text",
    ):
        assert any(name.startswith(line) for name in names), line
