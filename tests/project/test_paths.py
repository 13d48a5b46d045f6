"""The documentation names files and modules that exist. Pages in `docs/design/` are history and may name old ones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.tables import each_row

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dragoman"
MOVED = ROOT / "docs" / "migrate" / "from-0.1.md"
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "SECURITY.md",
        *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "design" and page != MOVED),
    ]
)
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"`([^`]+)`")
NAME = re.compile(r"(?<![\w./-])dragoman(?:\.[A-Za-z_]\w*)+(?![\w/-])")
TOP_FOLDERS = ("src", "tests", "docs", "scripts", "benchmarks", ".ci")
SOURCE_KINDS = (".py", ".toml")


def spans_of(text: str) -> Iterator[str]:
    """What stands in backticks. Blocks of code are no part of it: they are run by the tests of the examples."""
    yield from (re.sub(r"\s+", " ", span) for span in SPAN.findall(FENCE.sub("", text)))


def paths_in(span: str) -> Iterator[Path]:
    """The places of the project that a piece of code names: from the root, from `src`, or from the package."""
    for word in re.findall(r"(?<!\S)[\w.-]+(?:/[\w.-]+)+/?(?!\S)", span):
        first = word.partition("/")[0]
        if first in TOP_FOLDERS:
            yield ROOT / word
        elif first == PACKAGE.name and word.endswith(SOURCE_KINDS):
            yield PACKAGE.parent / word
        elif (PACKAGE / first).is_dir() and word.endswith(SOURCE_KINDS):
            yield PACKAGE / word


def names_in(span: str) -> Iterator[str]:
    """Names such as `dragoman.wire.get`. `dragoman.toml` is a file of the user."""
    yield from (name for name in NAME.findall(span) if name != "dragoman.toml")


def resolves(name: str) -> bool:
    """Whether a dotted name leads to a module, or to something inside one."""
    parts = name.split(".")
    value: object = import_module(parts[0])
    for end, part in enumerate(parts[1:], start=2):
        prefix = ".".join(parts[:end])
        if not hasattr(value, part) and (not hasattr(value, "__path__") or find_spec(prefix) is None):
            return False
        value = getattr(value, part) if hasattr(value, part) else import_module(prefix)
    return True


@each_row("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_and_modules_in_backticks_exist(page: Path) -> None:
    spans = list(spans_of(page.read_text(encoding="utf-8")))
    missing = [str(path.relative_to(ROOT)) for span in spans for path in paths_in(span) if not path.exists()]
    unknown = [name for span in spans for name in names_in(span) if not resolves(name)]
    assert (missing, unknown) == ([], [])


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ("src/dragoman/gone.py", [ROOT / "src/dragoman/gone.py"]),
        ("pytest tests/gone", [ROOT / "tests/gone"]),
        ("dragoman/wire/gone.py", [PACKAGE / "wire/gone.py"]),
        ("wire/gone.py", [PACKAGE / "wire/gone.py"]),
        ("/v1/models", []),
        ("dragoman/journal.db", []),
    ],
)
def test_paths_are_recognised_in_every_form(span: str, found: list[Path]) -> None:
    assert list(paths_in(span)) == found


@pytest.mark.parametrize(
    ("span", "found"),
    [
        ("dragoman.wire.get(name)", ["dragoman.wire.get"]),
        ("python -m dragoman.gone", ["dragoman.gone"]),
        ("dragoman.toml", []),
        ("dragoman run", []),
    ],
)
def test_names_are_recognised(span: str, found: list[str]) -> None:
    assert list(names_in(span)) == found


def test_a_name_resolves_if_it_leads_somewhere() -> None:
    assert resolves("dragoman.wire.framing.SseDecoder") and resolves("dragoman.client.http.parser")
    assert not resolves("dragoman.textmode") and not resolves("dragoman.wire.get.gone")


def test_the_table_of_moved_modules_leads_to_modules_that_exist() -> None:
    """Its last column says where a module is now; the others have names of the past."""
    cells = [line.split("|")[-2] for line in MOVED.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    names = [name for cell in cells for span in spans_of(cell) for name in names_in(span)]
    assert len(names) > 100 and [name for name in names if not resolves(name)] == []
