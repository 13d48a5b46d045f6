"""The tools of the demo: a clock, the files of a folder, and a calculator. They are real, and change nothing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from dragoman.args.tolerant_scalars import evaluate
from dragoman.tools import tool

_MOST_FILES = 12


@tool
def get_time() -> str:
    """Tell the current time."""
    return datetime.now().strftime("%H:%M")


@tool
def list_files(folder: Annotated[str, Meta(examples=["docs"], max_length=60)]) -> str:
    """List the files in a folder."""
    place = Path(folder)
    if not place.is_dir():
        raise FileNotFoundError(f"there is no folder {folder!r} here")
    names = sorted(entry.name + "/" * entry.is_dir() for entry in place.iterdir() if not entry.name.startswith("."))
    return f"{len(names)} files: {', '.join(names[:_MOST_FILES])}" if names else "no files"


@tool
def calculate(expression: Annotated[str, Meta(examples=["2 + 3"], max_length=40)]) -> str:
    """Work out an arithmetic expression."""
    value = evaluate(expression)
    if value is None:
        raise ValueError(f"{expression!r} is no arithmetic expression")
    return f"{value:g}" if isinstance(value, float) else str(value)


def demo_tools() -> list[Any]:
    return [get_time, list_files, calculate]
