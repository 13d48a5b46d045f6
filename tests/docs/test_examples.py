"""Every example in the README and the docs runs: Python blocks in order, and commands with the output they show."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<label>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE
)
RUN_STEPS = """
names = {{"__name__": "page"}}
for code, page in {steps!r}:
    exec(compile(code, page, "exec"), names)
    print(end="\\0")
"""
BINARIES = Path(sys.executable).parent


class Block(NamedTuple):
    label: str
    body: str
    line: int


class Shown(NamedTuple):
    command: str
    output: str
    line: int


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in FENCE.finditer(text):
        yield Block(match["label"].strip(), match["body"], text.count("\n", 0, match.start("body")) + 1)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_of(page: Path) -> Iterator[Shown]:
    """The `$ dragoman ...` lines of a page, each with the output shown below it; other commands are not run."""
    for block in blocks_of(page):
        if block.label not in ("console", "sh"):
            continue
        for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if re.search(r"(^|\| )dragoman ", command):
                yield Shown(command, output, block.line)


def with_python() -> list[Path]:
    return [page for page in PAGES if any(block.label == "python" for block in blocks_of(page))]


@pytest.mark.parametrize("page", with_python(), ids=name_of)
def test_python_blocks_run_in_order(page: Path) -> None:
    """One fresh interpreter per page. A `text` block right below a python block is what that block prints."""
    blocks = list(blocks_of(page))
    # Empty lines in front of the code, so that a traceback names the line of the page.
    steps = [("\n" * (block.line - 1) + block.body, str(page)) for block in blocks if block.label == "python"]
    command = [sys.executable, "-W", "error", "-c", RUN_STEPS.format(steps=steps)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    printed = iter(done.stdout.split("\0"))
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.label == "python":
            output = next(printed)
            if after is not None and after.label == "text":
                assert output == after.body, f"{name_of(page)}:{after.line}"


@pytest.mark.parametrize(
    ("page", "shown"),
    [(page, shown) for page in PAGES for shown in commands_of(page)],
    ids=lambda value: name_of(value) if isinstance(value, Path) else value.command,
)
def test_commands_run_and_print_what_is_shown(page: Path, shown: Shown) -> None:
    command = re.sub(r"(?<![\w/.-])dragoman (?=\S)", f"{shlex.quote(str(BINARIES / 'dragoman'))} ", shown.command)
    done = subprocess.run(
        ["sh", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, done.stderr
    if shown.output.strip():
        assert done.stdout.strip("\n") == shown.output.strip("\n"), f"{name_of(page)}:{shown.line}"


def test_the_readme_program_is_short_and_is_run() -> None:
    readme = ROOT / "README.md"
    assert readme in with_python()
    program = next(block for block in blocks_of(readme) if block.label == "python")
    assert len(program.body.splitlines()) <= 12
    assert list(commands_of(readme)), "the README shows a command"


def links_of(page: Path) -> Iterator[str]:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    yield from re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    local = [link.partition("#")[0] for link in links_of(page) if "://" not in link]
    assert [link for link in local if link and not (page.parent / link).exists()] == []
