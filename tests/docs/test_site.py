"""The site: every page is in the navigation, and GitHub and mkdocs show the same. `make docs` builds it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from scripts.documentation.site import TOP_PAGES, indent_lists, make_navigation, move_links

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
# Python's own tags name functions of mkdocs, which the tests do not install.
SECTIONS = yaml.safe_load(re.sub(r"!!python/\S+", "", SETTINGS))["extra"]["sections"]


def pages_in(entries: Any) -> Iterator[str]:
    if isinstance(entries, str):
        yield entries
    else:
        inner = entries.values() if isinstance(entries, dict) else entries
        for each in inner:
            yield from pages_in(each)


def test_every_page_is_in_the_navigation_once() -> None:
    found = list(pages_in(make_navigation(ROOT / "docs", SECTIONS)))
    pages = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(found) == sorted(pages | set(TOP_PAGES.values()))


def test_a_new_page_needs_no_entry_but_a_page_in_no_section_is_left_out(tmp_path: Path) -> None:
    for name in ("index.md", "lost.md", "guides/new.md", "guides/first.md", "guides/deep/a.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("# A title\n", encoding="utf-8")
    sections = [{"title": "Home", "page": "index.md"}, {"title": "Guides", "folder": "guides", "order": ["first"]}]
    sections += [{"title": "Absent", "page": "absent.md"}, {"title": "Empty", "folder": "empty"}]
    assert make_navigation(tmp_path, sections) == [
        {"Home": "index.md"},
        {"Guides": ["guides/first.md", "guides/deep/a.md", "guides/new.md"]},
    ]


def test_links_of_files_at_the_top_lead_to_pages_of_the_site() -> None:
    text = "[a](docs/security.md#how) [b](SECURITY.md) [c](LICENSE) [d](#here) [e](https://example.org) ![f](x.png)"
    assert move_links(text) == (
        "[a](security.md#how) [b](reporting.md) c [d](#here) [e](https://example.org) ![f](x.png)"
    )


def test_what_belongs_to_an_item_is_indented_by_four() -> None:
    text = "1. one\n\n   ```sh\n   make\n   ```\n\n- two\n  - inner\n\ntext\n\n```\n- code\n  more\n```\n"
    assert indent_lists(text) == (
        "1. one\n\n    ```sh\n    make\n    ```\n\n- two\n    - inner\n\ntext\n\n```\n- code\n  more\n```\n"
    )
