"""Tables in Markdown, and the words that every section uses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.peers.plots import short

__all__ = ["bullet", "dated", "not_measured", "ratio", "short", "table", "versions", "wrap"]


def table(head: Sequence[str], rows: Iterable[Sequence[object]], left: int = 1) -> str:
    """A table whose first columns are texts and whose others are numbers."""
    marks = ["---"] * left + ["---:"] * (len(head) - left)
    lines = [head, marks, *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def wrap(text: str, width: int = 118) -> str:
    """A paragraph with a line break before the margin."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def bullet(text: str) -> str:
    """An item of a list."""
    return "- " + wrap(text, 116).replace("\n", "\n  ")


def ratio(value: float | None, to: float | None) -> str:
    return f"x {short(value / to)}" if value and to else "-"


def versions(row: dict[str, Any]) -> str:
    """The versions of a peer's packages."""
    return ", ".join(f"{name} {number}" for name, number in row.get("versions", {}).items()) or "this checkout"


def not_measured(rows: dict[str, dict[str, Any]]) -> str:
    """A line for each peer that was not measured, with the reason."""
    found = [f"- {name}: not measured: {row['not_measured']}" for name, row in rows.items() if "not_measured" in row]
    return "\n".join(found) + "\n\n" if found else ""


def dated(group: dict[str, Any]) -> str:
    """When and where a group was measured."""
    machine = group["machine"]
    rough = " Few repetitions: the times are rough." if group.get("quick") else ""
    return (
        f"Measured on {group['date']}: {machine['system']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"Python {machine['python']}.{rough}"
    )
