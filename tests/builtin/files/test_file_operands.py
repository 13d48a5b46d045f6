"""The operands of a call for rules and approvals, and that a call runs on nothing else."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.builtin.files.patch import ApplyPatch
from dragoman.builtin.files.search import Grep
from dragoman.builtin.files.tools import Edit, Glob, Read, Write
from dragoman.tools import Error, ToolContext, bind
from dragoman.types import Operand, Tool

pytestmark = pytest.mark.usefixtures("resolving")
READING, WRITING = [Read, Glob, Grep], [Write, Edit, ApplyPatch]
PATCH = "--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-old\n+new\n"


def named(tools: list[Tool]) -> Any:
    return pytest.mark.parametrize("tool", tools, ids=[tool.name for tool in tools])


@pytest.fixture(autouse=True)
def tree(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src/a.py").write_text("old\n")
    (folder / "other").mkdir()
    (folder / "other/a.py").write_text("old\n")


def inspect(tool: Tool, context: ToolContext, **arguments: Any) -> tuple[Operand, ...]:
    assert tool.inspect is not None
    return tuple(tool.inspect(arguments, context))


def identity(path: Path) -> str:
    return f"{path.stat().st_dev}:{path.stat().st_ino}"


@named(READING + WRITING)
def test_every_tool_says_what_it_is(tool: Tool) -> None:
    reads = tool in READING
    assert tool.metadata["class"] == tool.metadata["family"] == ("read" if reads else "write")
    assert tool.metadata["origin"] == "builtin"
    assert (tool.parallel_safe, tool.read_only, tool.repeatable) == (reads, reads, reads)
    assert tool.metadata.get("exec", False) is tool.metadata.get("restores", False) is (not reads)
    assert tool.description
    assert "context" not in tool.parameters["properties"] or tool is Grep
    assert all("anyOf" not in each for each in tool.parameters["properties"].values())


def test_the_operand_of_a_file_that_is_changed(folder: Path, context: ToolContext) -> None:
    path = folder / "src/a.py"
    expected = Operand(
        "path",
        "src/a.py",
        "write",
        real=str(path),
        identity=identity(path),
        digest=hashlib.sha256(b"old\n").hexdigest(),
    )
    assert inspect(Write, context, path="src/a.py", content="x") == (expected,)
    assert inspect(Edit, context, path=str(path), old="a", new="b") == (expected,)
    assert inspect(ApplyPatch, context, patch=PATCH) == (expected,)


@named(WRITING)
def test_a_file_that_is_not_there_yet_has_a_place_and_no_identity(
    tool: Tool, folder: Path, context: ToolContext
) -> None:
    patch = "--- /dev/null\n+++ b/src/new/x.py\n@@ -0,0 +1 @@\n+x\n"
    (found,) = inspect(tool, context, path="src/new/x.py", patch=patch)
    assert found == Operand("path", "src/new/x.py", "write", real=f"{folder}/src/new/x.py")


def test_what_is_read_has_no_digest(folder: Path, context: ToolContext) -> None:
    for tool, arguments in ((Read, {"path": "src"}), (Grep, {"path": "src"}), (Glob, {"pattern": "src/**/*.py"})):
        (found,) = inspect(tool, context, **{"pattern": "x", **arguments})
        assert found == Operand("path", "src", "read", real=f"{folder}/src", identity=identity(folder / "src"))
    assert inspect(Grep, context, pattern="x")[0].value == "."


def test_every_file_of_a_patch_is_an_operand(context: ToolContext) -> None:
    patch = (
        "*** Begin Patch\n*** Update File: src/a.py\n*** Move to: src/b.py\n-old\n+new\n*** Delete File: other/a.py\n"
        "*** Add File: ../evil\n+x\n*** End Patch"
    )
    found = inspect(ApplyPatch, context, patch=patch)
    assert [(each.value, each.inside, bool(each.identity)) for each in found[:3]] == [
        ("src/a.py", True, True),
        ("src/b.py", True, False),
        ("other/a.py", True, True),
    ]
    assert not found[3].inside
    assert inspect(ApplyPatch, context, patch="no patch") == ()


def test_what_lies_outside_is_told_to_be_outside(folder: Path, outside: Path, context: ToolContext) -> None:
    (folder / "link").symlink_to(outside)
    for path in ("../outside/secret.txt", str(outside / "secret.txt"), "link/secret.txt"):
        (found,) = inspect(Read, context, path=path)
        assert not found.inside
        assert found.real == str(outside / "secret.txt")
        assert found.identity == ""


def test_a_path_over_a_link_is_told_in_both_spellings(folder: Path, context: ToolContext) -> None:
    """So no link turns a path that is forbidden into one that is allowed."""
    (folder / "link").symlink_to("src")
    found = inspect(Write, context, path="link/a.py", content="")
    assert [(each.value, each.real) for each in found] == [
        ("src/a.py", f"{folder}/src/a.py"),
        ("link/a.py", f"{folder}/src/a.py"),
    ]


@pytest.mark.parametrize(
    "path", [".git/hooks/pre-commit", ".GIT/config", "dragoman.toml", "sub/.bashrc", "link/hooks/x", ".vscode/x.json"]
)
def test_protected_paths_are_marked_also_where_nothing_is_yet(folder: Path, context: ToolContext, path: str) -> None:
    (folder / "link").symlink_to(".git")
    (folder / ".git").mkdir()
    found = inspect(Write, context, path=path, content="")
    assert found
    assert all(each.protected for each in found)
    assert not inspect(Write, context, path="src/a.py", content="")[0].protected


@pytest.mark.parametrize(
    "arguments",
    [{}, {"path": 5}, {"path": ""}, {"path": "a\0b"}, {"path": "x" * 9000}, {"path": "loop"}, {"path": "src/a.py/x"}],
)
@named(READING + WRITING)
def test_bad_arguments_do_not_raise(tool: Tool, folder: Path, context: ToolContext, arguments: dict[str, Any]) -> None:
    (folder / "loop").symlink_to("loop")
    assert all(each.identity == "" for each in inspect(tool, context, **arguments) if each.value != ".")


# ---- approved, and then something happened -------------------------------------------------------------------------


def rewrite(folder: Path) -> None:
    (folder / "src/a.py").write_text("old\nand more\n")


def exchange(folder: Path) -> None:
    (folder / "other/a.py").rename(folder / "src/a.py")


def swap_folder(folder: Path) -> None:
    (folder / "src").rename(folder / "away")
    (folder / "src").symlink_to("other")


def remove(folder: Path) -> None:
    (folder / "src/a.py").unlink()


CALLS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "write": (Write, {"path": "src/a.py", "content": "new\n"}),
    "edit": (Edit, {"path": "src/a.py", "old": "old", "new": "new"}),
    "apply_patch": (ApplyPatch, {"patch": PATCH}),
}


@pytest.mark.parametrize("change", [rewrite, exchange, swap_folder, remove])
@pytest.mark.parametrize("name", CALLS)
def test_what_changed_since_it_was_approved_is_left_alone(
    folder: Path, context: ToolContext, name: str, change: Callable[[Path], None]
) -> None:
    tool, arguments = CALLS[name]
    approved = msgspec.structs.replace(context, operands=inspect(tool, context, **arguments))
    change(folder)
    before = {str(path): path.read_bytes() for path in folder.rglob("*.py")}
    with pytest.raises(Error, match=r"changed since this call was approved|is not part of what was approved"):
        bind(tool, arguments, approved)()
    assert {str(path): path.read_bytes() for path in folder.rglob("*.py")} == before


@pytest.mark.parametrize("name", CALLS)
def test_what_did_not_change_is_changed(folder: Path, context: ToolContext, name: str) -> None:
    tool, arguments = CALLS[name]
    approved = msgspec.structs.replace(context, operands=inspect(tool, context, **arguments))
    bind(tool, arguments, approved)()
    assert (folder / "src/a.py").read_text() == "new\n"


def test_a_file_that_appeared_since_is_left_alone(folder: Path, context: ToolContext) -> None:
    arguments = {"path": "src/new.py", "content": "new\n"}
    approved = msgspec.structs.replace(context, operands=inspect(Write, context, **arguments))
    (folder / "src/new.py").write_text("mine")
    with pytest.raises(Error, match="changed since this call was approved"):
        bind(Write, arguments, approved)()
    assert (folder / "src/new.py").read_text() == "mine"


def test_two_files_in_a_new_folder_are_approved_together(folder: Path, context: ToolContext) -> None:
    """The first one makes the folder; that must not make the second approval worthless."""
    calls = [{"path": f"fresh/{name}", "content": "x"} for name in "ab"]
    contexts = [msgspec.structs.replace(context, operands=inspect(Write, context, **call)) for call in calls]
    for call, approved in zip(calls, contexts, strict=True):
        bind(Write, call, approved)()
    assert sorted(os.listdir(folder / "fresh")) == ["a", "b"]


@pytest.mark.parametrize("arguments", [{"path": "src/a.py"}, {"path": "link/a.py"}])
def test_reading_elsewhere_than_approved_is_refused(
    folder: Path, context: ToolContext, arguments: dict[str, str]
) -> None:
    (folder / "link").symlink_to("src")
    approved = msgspec.structs.replace(context, operands=inspect(Read, context, **arguments))
    assert bind(Read, arguments, approved)() == "1\told"
    rewrite(folder)
    assert bind(Read, arguments, approved)() == "1\told\n2\tand more"  # The same place, as it is now.
    swap_folder(folder)
    with pytest.raises(Error, match=r"changed since|not part of what was approved"):
        bind(Read, arguments, approved)()
