"""A log of what was decided, approved, started and ended, in which nothing can be changed unnoticed."""

from __future__ import annotations

from dragoman.audit.errors import AuditFailed
from dragoman.audit.heads import Head
from dragoman.audit.lines import KINDS, Kind
from dragoman.audit.log import AuditLog
from dragoman.audit.reading import read_records
from dragoman.audit.verifying import AuditReport, verify
from dragoman.audit.wording import digest_of
from dragoman.paths import beside, default_audit_path

__all__ = [
    "KINDS",
    "AuditFailed",
    "AuditLog",
    "AuditReport",
    "Head",
    "Kind",
    "beside",
    "default_audit_path",
    "digest_of",
    "read_records",
    "verify",
]
