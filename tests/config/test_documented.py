"""The table of the documentation is written from the table of the settings."""

from __future__ import annotations

from pathlib import Path

from dragoman.config.files import write_reference


def test_the_page_has_the_table_of_the_settings(root: Path) -> None:
    page = (root / "docs" / "concepts" / "configuration.md").read_text(encoding="utf-8")
    shown = page.partition("write_reference`. -->\n\n")[2].partition("\n<!-- End of the table. -->")[0]
    assert shown == write_reference(), "write the table anew with dragoman.config.files.write_reference"
