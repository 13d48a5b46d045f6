"""What mkdocs calls while it builds the site: the navigation, and pages from the top of the repository.

`mkdocs.yml` names this file as a hook. The navigation follows from the folders, so a new page needs no entry there.
"""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the tests read this file without mkdocs
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

TOP_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "reporting.md"}
"""Files at the top of the repository that are pages of the site too."""

_FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
_ITEM = re.compile(r"^([-*]|\d+\.) +")
_LINK = re.compile(r"(?<!!)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Set the navigation."""
    config.nav = make_navigation(Path(config.docs_dir), config.extra["sections"])


def make_navigation(docs: Path, sections: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Make the navigation from the sections in `mkdocs.yml` and from the folders."""
    nav = [(section["title"], _list_entries(docs, section)) for section in sections]
    # A section of one page is a link to that page.
    return [{title: entries[0] if len(entries) == 1 else entries} for title, entries in nav if entries]


def _list_entries(docs: Path, section: dict[str, Any]) -> list[Any]:
    """List the pages of a section: the ones that it names, in that order, and then the others of its folder."""
    pages = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} | {*TOP_PAGES.values()}
    if "page" in section:
        return [section["page"]] if section["page"] in pages else []
    folder = section["folder"]
    left = {page for page in pages if page.startswith(f"{folder}/") or "/" not in page}
    entries: list[Any] = []
    for entry in section.get("order", ()):
        if isinstance(entry, str):
            entries += _take(entry, folder, left, docs)
            continue
        for title, names in entry.items():
            parts = [names] if isinstance(names, str) else names
            group = [page for name in parts for page in _take(name, folder, left, docs)]
            entries += [{title: group}] if group else []
    return [*entries, *_take("/", folder, left, docs)]


def _take(name: str, folder: str, left: set[str], docs: Path) -> list[str]:
    """Take the pages with this name or pattern out of those that are left. A slash at the end means a folder."""
    pattern = name[1:] if name.startswith("/") and name != "/" else f"{folder}/{name.lstrip('/')}"
    pattern += "*" if name.endswith("/") else "" if name.startswith("/") else ".md"
    # The path decides between equal titles: the order of a set differs from run to run.
    taken = sorted(
        fnmatch.filter(left, pattern), key=lambda page: (not page.endswith("/index.md"), _find_title(docs, page), page)
    )
    left.difference_update(taken)
    return taken


def _find_title(docs: Path, page: str) -> str:
    path = docs / page
    # The number in the name of a page about a decision orders these pages.
    if path.name[0].isdigit() or not path.exists():
        return path.name
    found = _TITLE.search(path.read_text(encoding="utf-8"))
    return found[1].lower() if found else path.stem


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the top of the repository."""
    from mkdocs.structure.files import File

    top = Path(config.config_file_path).parent
    for name, page in TOP_PAGES.items():
        text = (top / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=move_links(text)))
    return files


def move_links(text: str) -> str:
    """Return the text of a file at the top of the repository with links as the site needs them."""
    return _LINK.sub(_move_link, text)


def _move_link(found: re.Match[str]) -> str:
    """Return a link of a file at the top as a link of the site. A link to a file that is no page becomes its text."""
    text, target = found["text"], found["target"]
    name, mark, anchor = target.partition("#")
    if not name or ":" in name:
        return found[0]
    if name.startswith("docs/"):
        return f"[{text}]({target.removeprefix('docs/')})"
    return f"[{text}]({TOP_PAGES[name]}{mark}{anchor})" if name in TOP_PAGES else text


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give mkdocs what GitHub reads as it is: links to the pages at the top, links to folders, and nested lists."""
    for name, target in TOP_PAGES.items():
        markdown = re.sub(rf"\]\(((?:\.\./)*)\.\./{re.escape(name)}", rf"](\1{target}", markdown)
    markdown = re.sub(r"\]\(((?:\.\./)*\w+/)\)", r"](\1index.md)", markdown)
    return indent_lists(markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Show an escaped bar in the code of a table as GitHub does, without the backslash."""
    return re.sub(r"<td.*?</td>", lambda found: found[0].replace("\\|", "|"), html, flags=re.DOTALL)


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
