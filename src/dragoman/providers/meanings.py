"""What the quirks mean, in the words that stand beside them in the code."""

from __future__ import annotations

import ast
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import msgspec

from dragoman.wire.quirks import DEFAULTS, Quirks


@cache
def quirk_meanings() -> dict[str, str]:
    """The docstring of every flag, by its name. Python forgets docstrings of fields, so the source is read."""
    text = (files("dragoman.wire") / "quirks.py").read_text(encoding="utf-8")
    body = next(
        node.body for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == Quirks.__name__
    )
    meanings = {}
    for node, after in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            words = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            meanings[node.target.id] = " ".join(str(words).split())
    return meanings


def quirk_defaults() -> dict[str, Any]:
    """The default of every flag, by its name."""
    return msgspec.structs.asdict(DEFAULTS)


def changed_quirks(quirks: Quirks) -> dict[str, Any]:
    """The flags that are not at their default."""
    usual = quirk_defaults()
    return {name: value for name, value in msgspec.structs.asdict(quirks).items() if value != usual[name]}
