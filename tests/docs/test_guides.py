"""The code of the guides and of the first pages runs, in order, and prints what the page shows.

A page runs in an empty folder with an empty home. A block with a title is a file in that folder. Python blocks run in
one interpreter; a `text` block below one of them is what it prints. A line `$ dragoman ...` of a `console` block runs
too; `...` on a line of its own stands for lines that differ from run to run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.certificates import make_certificate

from dragoman import config
from dragoman.server.settings import parse_settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*(ROOT / "docs" / "start").glob("*.md"), *(ROOT / "docs" / "guides").glob("*.md")])
FENCE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<label>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$", re.DOTALL | re.MULTILINE
)
TITLE = re.compile(r'title="([^"]+)"')
# A NUL separates what the blocks print.
RUN_STEPS = """
names = {{"__name__": "page"}}
for code in {steps!r}:
    exec(compile(code, {page!r}, "exec"), names)
    print(end="\\0", flush=True)
"""
PACKAGES = ("openai", "starlette", "uvicorn", "httpx2", "pytest")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


SETTINGS = "config.toml"
"""The title of a block with settings that the commands of the page use."""


class Block(NamedTuple):
    label: str
    title: str
    body: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = []
    for match in FENCE.finditer(text):
        label, title = match["label"].split(" ")[0].strip(), TITLE.search(match["label"])
        line = text.count("\n", 0, match.start("body")) + 1
        found.append(Block(label, title[1] if title else "", match["body"], line))
    return found


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def surroundings(folder: Path) -> dict[str, str]:
    """No settings, keys and proxies of the person who runs the tests."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("XDG_", "DRAGOMAN_")) and not name.endswith("_API_KEY") and name.upper() not in PROXIES
    }
    if (folder / SETTINGS).exists():
        kept["DRAGOMAN_CONFIG"] = str(folder / SETTINGS)
    sources = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return kept | {
        "HOME": str(folder),
        "DRAGOMAN_FACTS": "off",
        "PYTHONPATH": sources,
        "NO_COLOR": "1",
        "COLUMNS": "120",
    }


def run_python(page: Path, blocks: list[Block], folder: Path) -> None:
    # Empty lines in front of the code, so that a traceback names the line of the page.
    steps = ["\n" * (block.line - 1) + block.body for block in blocks if block.label == "python" and not block.title]
    if not steps:
        return
    command = [sys.executable, "-W", "error", "-c", RUN_STEPS.format(steps=steps, page=name_of(page))]
    done = subprocess.run(
        command, cwd=folder, env=surroundings(folder), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    printed = iter(done.stdout.split("\0"))
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        if block.label == "python" and not block.title:
            output = next(printed)
            if after is not None and after.label == "text" and not after.title:
                assert output == after.body, f"{name_of(page)}:{after.line}"


def commands_of(blocks: list[Block]) -> Iterator[tuple[str, str, int]]:
    for block in blocks:
        if block.label == "console":
            for part in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                yield command, output.strip("\n"), block.line


def run_command(command: str, shown: str, place: str, folder: Path) -> None:
    ours = re.sub(r"(^|(?<=\| ))dragoman (?=\S)", f"'{sys.executable}' -m dragoman ", command)
    ours = re.sub(r"^pytest\b", f"'{sys.executable}' -m pytest -p no:cacheprovider", ours)
    assert ours != command, f"{place}: only dragoman and pytest run in a console block"
    done = subprocess.run(
        ["sh", "-c", f"{ours} 2>&1"],
        cwd=folder,
        env=surroundings(folder) | ({"COLUMNS": "80"} if command.startswith("pytest") else {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    pattern = r"(?:.*\n)*?".join(re.escape(part) for part in re.split(r"^\.\.\.\n", shown + "\n", flags=re.MULTILINE))
    assert re.fullmatch(pattern, done.stdout.strip("\n") + "\n"), f"{place}\n{done.stdout}"


def read_settings_of(blocks: list[Block], page: Path, folder: Path) -> None:
    """Settings are read by the program that they are for: the gateway, or the configuration."""
    for block in blocks:
        if block.label != "toml" or "[project" in block.body:
            continue
        place = f"{name_of(page)}:{block.line}"
        if re.search(r"^\[(endpoints|gateway|\[routes)", block.body, re.MULTILINE):
            parse_settings(block.body, place)
            continue
        path = folder / f"settings-{block.line}.toml"
        path.write_text(block.body, encoding="utf-8")
        path.chmod(0o600)
        loaded = config.load(folder, {"HOME": str(folder), "DRAGOMAN_CONFIG": str(path)})
        loaded.registry()
        assert loaded.warnings == (), place


@pytest.mark.parametrize("page", [page for page in PAGES if blocks_of(page)], ids=name_of)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """A page about certificates has files of a company: one certificate that signs itself."""
    blocks = blocks_of(page)
    for package in PACKAGES:
        if any(re.search(rf"^(import|from) {package}\b", block.body, re.MULTILINE) for block in blocks):
            pytest.importorskip(package)
    for block in blocks:
        if block.title:
            path = tmp_path / block.title
            path.write_text(block.body, encoding="utf-8")
            path.chmod(0o600)
    if any("company-ca.pem" in block.body for block in blocks):
        pytest.importorskip("cryptography")
        made = make_certificate(tmp_path, "127.0.0.1")
        for name in ("company-ca.pem", "client.pem", "server.pem"):
            shutil.copy(made, tmp_path / name)
    read_settings_of(blocks, page, tmp_path)
    run_python(page, blocks, tmp_path)
    for command, shown, line in commands_of(blocks):
        run_command(command, shown, f"{name_of(page)}:{line}", tmp_path)


def test_links_of_the_guides_lead_to_pages_and_headings() -> None:
    wrong = []
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, heading = link.partition("#")
            target = (page.parent / path) if path else page
            if "://" in link:
                continue
            if not target.exists() or (heading and heading not in headings_of(target)):
                wrong.append(f"{name_of(page)}: {link}")
    assert wrong == []


def headings_of(page: Path) -> set[str]:
    """The anchors that mkdocs and GitHub give to the headings of a page."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower())) for heading in headings}
