"""What a docstring says: the first paragraph for the tool, and a line for each parameter."""

from __future__ import annotations

import inspect
from typing import Any

from msgspec import Struct, field


class Described(Struct, frozen=True):
    """A docstring, taken apart."""

    summary: str = ""
    members: dict[str, str] = field(default_factory=dict)


def described(thing: Any) -> Described:
    """The docstring of a function or class; the ones that Python writes itself do not count."""
    text = thing.__dict__.get("__doc__") if isinstance(thing, type) else getattr(thing, "__doc__", None)
    if not isinstance(text, str) or not text.strip() or _is_written_by_python(thing, text):
        return Described()
    return read_docstring(text)


def _is_written_by_python(thing: Any, text: str) -> bool:
    """A dataclass without a docstring gets its signature for one, a NamedTuple the like."""
    return isinstance(thing, type) and text.startswith(f"{thing.__name__}(") and text.rstrip().endswith(")")


def read_docstring(text: str) -> Described:
    """The first paragraph and the parameters, in google, numpy, sphinx or epydoc style."""
    text = inspect.cleandoc(text)
    if "\n" not in text and ":param" not in text and "@param" not in text:
        return Described(text)
    # Loaded late: many tools have a docstring of one line.
    from docstring_parser import parse

    try:
        found = parse(text)
    except Exception:  # A docstring of no known style is still a description.
        return Described(_first_paragraph(text))
    short, long = found.short_description or "", found.long_description or ""
    summary = short if found.blank_after_short_description else f"{short}\n{long}"
    members: dict[str, str] = {}
    for each in found.params:
        words = " ".join((each.description or "").split())
        for name in each.arg_name.split(","):
            if words:
                members.setdefault(name.strip().lstrip("*"), words)
    return Described(_first_paragraph(summary), members)


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())
