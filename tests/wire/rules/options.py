"""What the judge has to know beside the body of a request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The model that is asked, where its rules differ, and whether unsigned reasoning is expected."""

    model: str = ""
    unsigned: bool = False
