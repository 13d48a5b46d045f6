"""What can go wrong with an audit log, with the next step."""

from __future__ import annotations

import errno

from dragoman.errors import DragomanError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class AuditFailed(DragomanError):
    """The log cannot be read or written. What stood in it before is still there, and can still be verified."""

    hint = "check the disk and the rights of the file; nothing should run that is not recorded"


def explain_failure(path: object, error: OSError) -> AuditFailed:
    """A failure of the system as one that says what to do."""
    why = (error.strerror or "it failed").lower()
    if error.errno in _FULL:
        hint = "make room on the disk, then run it again"
    elif error.errno in _FORBIDDEN:
        hint = "check the rights of the file and its folder, or name another place for the log"
    else:
        hint = AuditFailed.hint
    return AuditFailed(f"the audit log {path} cannot be used: {why}", hint=hint)
