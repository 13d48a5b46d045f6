"""The reference pages are written from the code and are not stale, and pictures are small and load nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_is_what_make_docs_writes() -> None:
    command = [sys.executable, "scripts/make-docs", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_pictures_are_small_and_load_nothing() -> None:
    pictures = {path.name: path for path in (ROOT / "docs" / "images").iterdir() if path.is_file()}
    assert {"data-flow.svg", "demo.svg", "inspector.png"} <= pictures.keys()
    for name in ("data-flow.svg", "demo.svg"):
        text = pictures[name].read_text(encoding="utf-8")
        assert set(re.findall(r"https?://[^\s\"')]+", text)) == {"http://www.w3.org/2000/svg"}, name
        assert len(text) < 60_000, name
    assert pictures["inspector.png"].stat().st_size < 80_000


def test_the_site_has_no_address_of_another_host() -> None:
    """Fonts and scripts come from the site itself."""
    for name in ("mkdocs.yml", "docs/assets/site.css"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert re.findall(r"https?://", text) == [], name
    assert "\n  font: false\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
