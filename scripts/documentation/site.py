"""What mkdocs calls while it builds the site: the navigation, and pages from the top of the repository.

`mkdocs.yml` names this file as a hook. The navigation follows from the folders, so a new page needs no entry there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

TOP_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files at the top of the repository that are pages of the site too."""

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"^([-*]|\d+\.) +")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Make the navigation from the sections in `mkdocs.yml` and from the folders."""
    docs = Path(config.docs_dir)
    nav = [{section["title"]: _list_entries(docs, section)} for section in config.extra["sections"]]
    config.nav = [{title: entries} for each in nav for title, entries in each.items() if entries]


def _list_entries(docs: Path, section: dict[str, Any]) -> list[Any] | str:
    """List the pages of a section: the ones that it names, in that order, and then the others of its folder."""
    if "page" in section:
        exists = (docs / section["page"]).exists() or section["page"] in TOP_PAGES.values()
        return section["page"] if exists else []
    folder = section["folder"]
    found = {page.relative_to(docs).as_posix() for page in (docs / folder).rglob("*.md")}
    entries: list[Any] = []
    for entry in section.get("order", ()):
        if isinstance(entry, str):
            entries += _take([entry], folder, found)
            continue
        for title, names in entry.items():
            inside = _take_folder(f"{folder}/{names}", docs, found) if isinstance(names, str) else []
            entries.append({title: inside or _take(names, folder, found)})
    rest = sorted(found, key=lambda name: _find_title(docs / name))
    return [*(each for each in entries if isinstance(each, str) or any(each.values())), *rest]


def _take_folder(folder: str, docs: Path, found: set[str]) -> list[str]:
    """Take all pages of a folder, its index first."""
    taken = sorted(
        (name for name in found if name.startswith(folder)),
        key=lambda name: (not name.endswith("/index.md"), _find_title(docs / name)),
    )
    found.difference_update(taken)
    return taken


def _take(names: list[str], folder: str, found: set[str]) -> list[str]:
    """Take pages of a folder out of those that were found. A name with a slash is a page outside of the folder."""
    paths = [name if "/" in name else f"{folder}/{name}.md" for name in names]
    taken = [path.removeprefix("/") for path in paths if path in found or path.startswith("/")]
    found.difference_update(taken)
    return taken


def _find_title(page: Path) -> str:
    # The number in the name of a page about a decision orders these pages.
    if page.name[0].isdigit():
        return page.name
    found = _TITLE.search(page.read_text(encoding="utf-8"))
    return found[1].lower() if found else page.stem


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the top of the repository. Their links begin at the top."""
    top = Path(config.config_file_path).parent
    for name, page in TOP_PAGES.items():
        text = (top / name).read_text(encoding="utf-8").replace("](docs/", "](")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give mkdocs what GitHub reads as it is: links to the pages at the top, links to folders, and nested lists."""
    for name, target in TOP_PAGES.items():
        markdown = re.sub(rf"\]\(((?:\.\./)*)\.\./{re.escape(name)}", rf"](\1{target}", markdown)
    markdown = re.sub(r"\]\(((?:\.\./)*\w+/)\)", r"](\1index.md)", markdown)
    return indent_lists(markdown)


def indent_lists(markdown: str) -> str:
    """Indent what belongs to an item of a list by four spaces, which Python-Markdown needs; GitHub accepts two."""
    lines, fence, added = [], "", 0
    for line in markdown.split("\n"):
        if found := _FENCE.match(line):
            fence = "" if fence and found[1].startswith(fence) else fence or found[1]
        if not fence and line and not line.startswith(" "):
            item = _ITEM.match(line)
            added = max(0, 4 - len(item[0])) if item else 0
        lines.append(" " * added + line if added and line.startswith("  ") else line)
    return "\n".join(lines)
