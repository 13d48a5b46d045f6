"""Where the audit log lies unless somebody says otherwise: beside the journal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from dragoman.folders import state_folder

NAME = "audit.jsonl"


def default_audit_path(environment: Mapping[str, str], *, platform: str = sys.platform) -> Path:
    """The audit log of this user, in the folder where the journal is unless it was given another place."""
    return state_folder(environment, platform=platform) / NAME


def beside(journal: Path) -> Path:
    """The audit log that belongs to a journal: in the same folder."""
    return journal.with_name(NAME)
