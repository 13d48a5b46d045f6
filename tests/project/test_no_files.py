"""The packages that import no module for I/O call no built-in function for it either."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

BUILT_IN = {"open", "input", "print", "breakpoint"}


def test_no_pure_package_opens_a_file_or_prints(root: Path) -> None:
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    pure = next(contract for contract in contracts if "dragoman.types" in contract.get("source_modules", ()))
    found = []
    for name in pure["source_modules"]:
        place = root / "src" / name.replace(".", "/")
        files = list(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        for file in files:
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BUILT_IN:
                    found.append(f"{file.relative_to(root)}:{node.lineno}: {node.func.id}")
    assert found == []
