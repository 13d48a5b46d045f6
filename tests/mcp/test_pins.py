"""Pins: a tool whose definition changes is disabled until a person approves it (threat 18)."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.mcp.toolboxes import call, faulty, find, open_toolbox

from dragoman.errors import ConfigError
from dragoman.mcp import Limits, Pins, StdioServer, approve_pin, list_pins
from dragoman.mcp.definitions import Definition, read_definitions


def define(description: str = "Read a file.", tool: str = "read", server: str = "files") -> Definition:
    listed = [{"name": tool, "description": description, "inputSchema": {"type": "object"}}]
    (definition,), _ = read_definitions(StdioServer(server, ["program"]), listed, Limits())
    return definition


def state_of(pins: Pins, definition: Definition) -> str:
    return pins.see([definition])[definition.key].state


@pytest.fixture(params=["file", "memory"])
def pins(request: pytest.FixtureRequest, tmp_path: Path) -> Pins:
    return Pins(tmp_path / "deep" / "mcp-pins.json" if request.param == "file" else None)


def test_the_way_of_a_pin(pins: Pins) -> None:
    first, second = define(), define("Read a file, and send it.")
    assert state_of(pins, first) == "new"
    assert state_of(pins, first) == "new"
    assert pins.approve("files/read").state == "approved"
    assert state_of(pins, first) == "approved"
    assert state_of(pins, second) == "changed"
    assert state_of(pins, first) == "approved", "what was approved is approved, also after a change that was taken back"
    assert state_of(pins, second) == "changed"
    assert pins.approve("files/read").held.definition["description"] == "Read a file, and send it."
    assert state_of(pins, second) == "approved"
    assert state_of(pins, first) == "changed"
    pins.forget("files/read")
    assert state_of(pins, first) == "new"


def test_a_new_definition_that_nobody_approved_is_held_as_well(pins: Pins) -> None:
    assert state_of(pins, define()) == "new"
    assert state_of(pins, define("Now with more.")) == "changed"


def test_only_what_was_shown_is_approved(pins: Pins) -> None:
    state_of(pins, define())
    state_of(pins, define("Harmless."))
    shown = pins.read()["files/read"].pending
    assert shown is not None
    state_of(pins, define("Harmful."))
    with pytest.raises(ConfigError, match="has changed again since it was shown"):
        pins.approve("files/read", digest=shown.digest)
    assert pins.read()["files/read"].state == "changed"


def test_a_tool_that_was_never_seen_cannot_be_approved(pins: Pins) -> None:
    state_of(pins, define())
    with pytest.raises(ConfigError, match="unknown MCP tool 'files/raed'; did you mean 'files/read'"):
        pins.approve("files/raed")


def test_the_file_is_the_owners_alone_and_holds_no_half_written_state(tmp_path: Path) -> None:
    path = tmp_path / "mcp-pins.json"
    Pins(path).see([define()])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == [".mcp-pins.json.lock", "mcp-pins.json"]
    assert [pin.key for pin in list_pins(path)] == ["files/read"]
    assert approve_pin(path, "files/read").state == "approved"


def test_programs_that_pin_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mcp-pins.json"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: Pins(path).see([define(tool=f"t{number}")]), range(24)))
    assert len(list_pins(path)) == 24


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 9, "pins": []}', '{"version": 1, "pins": [{"server": 3}]}']
)
def test_a_damaged_file_is_an_error_and_not_a_new_beginning(tmp_path: Path, content: str) -> None:
    path = tmp_path / "mcp-pins.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot read the pins of MCP tools in") as caught:
        open_toolbox(faulty("none"), pins=path)
    assert "every tool counts as new" in caught.value.next_step
    assert path.read_text(encoding="utf-8") == content


# ---- with a server ---------------------------------------------------------------------------------------------------


def test_threat_18_a_server_that_pulls_the_rug_during_a_run(tmp_path: Path) -> None:
    path = tmp_path / "mcp-pins.json"
    with open_toolbox(faulty("pulls the rug"), pins=path) as toolbox:
        before = find(toolbox, "echo")
        assert not call(toolbox, "echo", text="one").is_error
        refused = call(toolbox, "echo", text="two")
        assert refused.is_error
        assert "its definition has changed" in refused.content
        assert "approve it with `dragoman approvals mcp approve echo/echo`" in refused.content
        assert refused.content.endswith("Nothing was run.")
        assert find(toolbox, "echo") == before
        assert not call(toolbox, "other").is_error
    assert {pin.key: pin.state for pin in list_pins(path)} == {"echo/echo": "changed", "echo/other": "new"}


def test_threat_18_a_server_that_changed_between_two_runs(tmp_path: Path) -> None:
    path = tmp_path / "mcp-pins.json"
    with open_toolbox(faulty("pulls the rug"), pins=path) as toolbox:
        call(toolbox, "echo", text="one")
        call(toolbox, "echo", text="two")
    # The restarted program returns its first definition again, so the test stores another one.
    (pin, _) = list_pins(path)
    assert pin.pending is not None
    approve_pin(path, "echo/echo", digest=pin.pending.digest)
    with open_toolbox(faulty("pulls the rug"), pins=path) as toolbox:
        tool = find(toolbox, "echo")
        assert tool.metadata["pin"] == "changed"
        assert tool.description == "This tool is off, because its definition has changed and nobody has approved that."
        assert tool.parameters == {"type": "object"}
        assert "its definition has changed" in call(toolbox, "echo").content
        assert any("the tool 'echo' is disabled" in problem for problem in toolbox.problems)
        approve_pin(path, "echo/echo")
    with open_toolbox(faulty("pulls the rug"), pins=path) as toolbox:
        assert not call(toolbox, "echo").is_error


def test_a_hint_that_a_tool_only_reads_counts_once_it_was_approved(tmp_path: Path) -> None:
    path = tmp_path / "mcp-pins.json"
    with open_toolbox(faulty("none"), pins=path) as toolbox:
        tool = find(toolbox, "echo")
        assert (tool.read_only, tool.metadata["exec"], tool.metadata["pin"]) == (False, True, "new")
    approve_pin(path, "echo/echo")
    with open_toolbox(faulty("none"), pins=path) as toolbox:
        tool = find(toolbox, "echo")
        assert (tool.read_only, tool.parallel_safe, tool.repeatable) == (True, True, True)
        assert "exec" not in tool.metadata
        assert find(toolbox, "other").metadata["exec"] is True


def test_the_same_name_for_another_program_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "mcp-pins.json"
    open_toolbox(faulty("none"), pins=path).close()
    with open_toolbox(faulty("greets"), pins=path) as toolbox:
        assert find(toolbox, "echo").metadata["pin"] == "changed"
