"""The pages of the documentation: their code blocks, their headings and their links."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATIONS = ("toml", "json", "yaml", "nginx")
_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)(?P=fence)[ \t]*$",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"")
_PROGRAM = re.compile(r"(?:^|\| )(?:\w+=\S* )*(?:dragoman|python|pytest)(?: |$)")


class Block(NamedTuple):
    """A code block."""

    language: str
    title: str
    """The name of the file that the block shows, or nothing."""
    body: str
    line: int
    """The number of its first line in the page."""


class Command(NamedTuple):
    """A line that begins with `$`, and the output below it."""

    line: str
    output: str
    number: int


def list_pages() -> list[Path]:
    """Return the pages that people read: those at the top, and all of `docs/`."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def is_written(page: Path) -> bool:
    """Whether a person wrote the page, and not `make docs`."""
    return "reference" not in page.parts


def name_of(page: Path) -> str:
    """Return the path of a page from the top of the repository."""
    return page.relative_to(ROOT).as_posix()


def read_blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page."""
    text = page.read_text(encoding="utf-8")
    blocks = []
    for found in _FENCE.finditer(text):
        language, _, rest = found["info"].strip().partition(" ")
        title = _TITLE.search(rest)
        body = textwrap.dedent(found["body"]) if found["indent"] else found["body"]
        blocks.append(Block(language, title[1] if title else "", body, text.count("\n", 0, found.start("body")) + 1))
    return blocks


def read_commands(block: Block) -> list[Command]:
    """Return the commands of a `console` block that a test can run: those of `dragoman`, Python and pytest."""
    if block.language != "console":
        return []
    parts = re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]
    # A backslash at the end continues the line.
    found = [re.match(r"((?:[^\n]*\\\n)*[^\n]*)\n?(.*)", part, re.DOTALL) for part in parts]
    return [Command(each[1], each[2], block.line) for each in found if each and _PROGRAM.search(each[1])]


def is_output(block: Block, after: Block) -> bool:
    """Whether the second block is what the first one prints."""
    return block.language == "python" and after.language == "text" and not after.title


OTHER = "other"


def count_blocks() -> dict[str, int]:
    """Count the blocks of the pages that people wrote, by what is done with them. Nothing checks the others."""
    counts: Counter[str] = Counter()
    for page in filter(is_written, list_pages()):
        before = Block("", "", "", 0)
        for block in read_blocks(page):
            counts[_judge(before, block)] += 1
            before = block
    return dict(sorted(counts.items(), key=lambda each: (each[0].startswith(OTHER), -each[1])))


def _judge(before: Block, block: Block) -> str:
    if block.language == "python":
        return "Python, run"
    if read_commands(block):
        return "commands, run"
    if block.language in CONFIGURATIONS:
        return "configuration, read"
    if is_output(before, block):
        return "output, compared"
    return "files, used" if block.title else f"{OTHER}: {block.language or 'no language'}"


def describe_blocks() -> str:
    """Return the numbers of blocks in one sentence."""
    counts = count_blocks()
    checked = [f"{number} {kind}" for kind, number in counts.items() if not kind.startswith(OTHER)]
    others = {kind.removeprefix(f"{OTHER}: "): number for kind, number in counts.items() if kind.startswith(OTHER)}
    listed = ", ".join(f"{number} {kind}" for kind, number in others.items())
    return f"blocks: {'; '.join(checked)}; {sum(others.values())} others that nothing runs ({listed})"


# --------------------------------------------------------------------------------------------------------------------
# Links.


def check_links() -> list[str]:
    """Return each link to a file or to a heading that does not exist."""
    return [f"{name_of(page)}: {problem}" for page in list_pages() for problem in _check_page(page)]


def _check_page(page: Path) -> Iterator[str]:
    for link in _read_links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{link}: there is no such file"
        elif ROOT not in target.parents:
            yield f"{link}: it is outside of the repository"
        elif anchor and target.suffix == ".md" and anchor not in _list_anchors(target):
            yield f"{link}: there is no such heading"


def _read_links(page: Path) -> list[str]:
    text = _COMMENT.sub("", _FENCE.sub("", page.read_text(encoding="utf-8")))
    text = re.sub(r"`[^`\n]+`", "", text)
    links = [one or other for one, other in _LINK.findall(text)]
    return [link for link in links if not re.match(r"[a-z]+:", link)]


@cache
def _list_anchors(page: Path) -> frozenset[str]:
    """Return the anchors that GitHub and the site give to the headings of a page."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return frozenset(map(make_anchor, _HEADING.findall(text))) | frozenset(re.findall(r'id="([^"]+)"', text))


def make_anchor(heading: str) -> str:
    """Return the anchor of a heading."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
