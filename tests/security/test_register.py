"""The pages about security name a test for every threat, the tests are there, and what is open is said to be open."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.tables import each_row

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
GUARANTEES = (ROOT / "docs" / "security-guarantees.md").read_text(encoding="utf-8")
_named = re.compile(r"`(test_\w+?)(\*?)`").findall
_section = re.compile(r"^## (\d+)\. (.*?)(?=^## )", re.DOTALL | re.MULTILINE)


def functions_in(paths: list[Path]) -> dict[str, bool]:
    """The tests in these files, and of each whether it is expected to fail."""
    found = {}
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found[node.name] = any("xfail" in ast.unparse(mark) for mark in node.decorator_list)
    return found


OURS = functions_in(sorted(HERE.glob("test_threats_*.py")))
THREATS = range(1, 28)
SECTIONS = {int(number): section for number, section in _section.findall(GUARANTEES)}


def elsewhere(name: str) -> bool:
    """Whether another test of the project has this name."""
    return any(f"def {name}(" in path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))


def exists(name: str, star: str) -> bool:
    if star:
        return any(known.startswith(name) for known in OURS)
    return name in OURS or elsewhere(name)


@each_row("number", THREATS)
def test_every_threat_has_a_section_that_names_its_test(number: int) -> None:
    named = _named(SECTIONS[number])
    assert named, "the section names no test"
    assert all(exists(*each) for each in named), named
    assert any(name.startswith(f"test_threat_{number:02}_") for name, _ in named)


def test_there_are_as_many_sections_as_threats_and_every_test_has_a_section() -> None:
    assert sorted(SECTIONS) == list(THREATS)
    numbers = {int(match[1]) for name in OURS if (match := re.match(r"test_threat_(\d\d)_", name))}
    assert numbers == set(THREATS)
    assert not [name for name in OURS if not name.startswith("test_threat_")]


def test_every_test_that_the_pages_name_is_there() -> None:
    assert [name for name, star in _named(PAGE + GUARANTEES) if not exists(name, star)] == []


def test_what_is_known_to_be_open_is_written_down_and_nothing_else() -> None:
    section = PAGE.partition("## What is open")[2].partition("\n## ")[0]
    assert {name for name, _ in _named(section)} == {name for name, fails in OURS.items() if fails}


def test_the_page_that_says_how_to_report_leads_here() -> None:
    short = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "(docs/security.md#how-to-report)" in short
    assert "\n## How to report\n" in PAGE
