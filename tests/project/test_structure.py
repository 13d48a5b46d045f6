"""The files that a reader expects exist and are complete, and no file refers to anything outside the project."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import dragoman as package
from dragoman import errors

ROOT = Path(__file__).resolve().parents[2]
OURS = ("src", "tests", "docs", "scripts", "benchmarks", ".ci")

# Spelled with a class of one letter, so that this file is not its own first finding.
FORBIDDEN = {
    "a path of some machine": r"/[w]ork/|/[o]pt/pypi|/[r]oot/\.|/[h]ome/\w+/|/[U]sers/\w+/|/[t]mp/plan",
    "the host of a registry": r"pypi\.[o]rg|pythonhosted\.[o]rg|registry\.[n]pmjs|[f]ile:///",
    "a trace of who typed it": r"(?i)[c]o-authored-by|[g]enerated (with|by) (an? )?(ai|llm|claude|chatgpt|copilot)\b",
}


def own_files() -> Iterator[Path]:
    yield from (path for path in ROOT.iterdir() if path.is_file() and path.name != ".git")
    for folder in OURS:
        yield from (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_the_tree_holds_none_of(kind: str) -> None:
    pattern = re.compile(FORBIDDEN[kind])
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in own_files()
        for number, line in enumerate(text_of(path).splitlines(), start=1)
        if (match := pattern.search(line))
    ]
    assert found == []


def test_nothing_is_left_open_in_the_source() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    found = [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.py") if pattern.search(text_of(path))]
    assert found == []


def test_every_text_file_ends_with_one_newline() -> None:
    kinds = {".py", ".md", ".toml", ".json", ".txt", ""}
    checked = [
        path for path in own_files() if path.suffix in kinds and path.stat().st_size and path.name != ".gitignore"
    ]
    assert len(checked) > 20
    assert [str(path.relative_to(ROOT)) for path in checked if not re.search(rb"[^\n]\n\Z", path.read_bytes())] == []


def test_the_licence_is_the_whole_apache_2_text() -> None:
    digest = hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


def test_the_changelog_has_a_section_for_this_version() -> None:
    version = package.__version__.partition(".dev")[0]
    assert f"\n## {version} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script",
    [
        ".ci/run",
        "scripts/check-structure",
        "scripts/make-docs",
        "scripts/system-parts",
        "scripts/test-peers",
        "scripts/walk",
    ],
)
def test_scripts_can_be_run(script: str) -> None:
    path = ROOT / script
    assert os.access(path, os.X_OK)
    if "python" not in path.read_text(encoding="utf-8").splitlines()[0]:
        subprocess.run(["sh", "-n", str(path)], check=True)


def test_make_help_names_every_target() -> None:
    done = subprocess.run(["make", "-s", "-C", str(ROOT), "help"], capture_output=True, text=True, check=True)
    assert {"demo", "test", "check", "bench", "docs", "clean"} <= set(re.findall(r"make (\w+)", done.stdout))


def leaves(cls: type[errors.DragomanError]) -> Iterator[type[errors.DragomanError]]:
    children = [child for child in cls.__subclasses__() if child.__module__ == errors.__name__]
    if not children:
        yield cls
    for child in children:
        yield from leaves(child)


def test_every_kind_of_error_says_what_to_do_next() -> None:
    found = set(leaves(errors.DragomanError))
    assert len(found) >= 19
    assert [cls.__name__ for cls in found if not vars(cls).get("hint")] == []


def test_issue_forms_and_workflows_are_well_formed() -> None:
    forms = [path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.stem != "config"]
    assert len(forms) == 4
    for path in forms:
        form = yaml.safe_load(text_of(path))
        assert form.keys() == {"name", "description", "labels", "body"}, path
        fields = [field["id"] for field in form["body"] if field["type"] != "markdown"]
        assert len(fields) == len(set(fields)) and any("validations" in field for field in form["body"]), path
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        workflow = yaml.safe_load(text_of(path))
        assert workflow["permissions"] == {"contents": "read"} and "timeout-minutes" in str(workflow["jobs"]), path
        for step in (step for job in workflow["jobs"].values() for step in job["steps"]):
            assert step.keys() & {"uses", "run"}, (path, step)
