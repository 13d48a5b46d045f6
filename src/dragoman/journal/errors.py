"""What can go wrong with a journal, each with the next step."""

from __future__ import annotations

from dragoman.errors import DragomanError


class JournalError(DragomanError):
    """The root of everything that a journal refuses or cannot do."""


class JournalFailed(JournalError):
    """The file cannot be read or written: full, read-only, locked, closed. Nothing was written."""

    hint = "check the disk and the rights of the file, then resume the run"


class JournalDamaged(JournalError):
    """What is stored is not what was written. The run is refused, nothing of it is guessed."""

    hint = "restore the file from a backup, or delete the session and begin again"

    def __init__(self, place: str, why: str, *, run_id: str = "", number: int | None = None) -> None:
        self.place = place
        self.why = why
        self.run_id = run_id
        self.number = number
        at = f", run {run_id}" if run_id else ""
        at += "" if number is None else f", record {number}"
        super().__init__(f"the journal {place}{at} is damaged: {why}")


class JournalTooNew(JournalError):
    hint = "upgrade dragoman, or name another file"

    def __init__(self, place: str, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(
            f"the journal {place} was written by a newer dragoman (version {found}, this one knows {known})"
        )


class RunBusy(JournalError):
    """Somebody else is running it."""

    hint = "wait until it ends, or end that process; its claim then falls"

    def __init__(self, run_id: str, holder: str) -> None:
        self.run_id = run_id
        self.holder = holder
        super().__init__(f"run {run_id} is held by {holder}")


class RunLost(JournalError):
    """The claim was released or taken over, so what its former owner still has to say is refused."""

    hint = "stop this run; whoever holds it now goes on with it"

    def __init__(self, run_id: str, token: int, holder: str = "") -> None:
        self.run_id = run_id
        self.token = token
        self.holder = holder
        by = f"; it is held by {holder} now" if holder else ""
        super().__init__(f"claim {token} on run {run_id} is no longer valid{by}")


class RunOver(JournalError):
    hint = "begin a new run in the same session"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"run {run_id} has ended and takes no more records")


class RunExists(JournalError):
    hint = "resume it, or begin a run with another id"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is already a run {run_id}")


class SessionExists(JournalError):
    hint = "choose another name, or delete that session first"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"there is already a session {session!r}")


class UnknownRun(JournalError):
    hint = "`dragoman sessions list` shows what the journal holds"

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"the journal has no run {run_id!r}")


class UnknownSession(JournalError):
    hint = "`dragoman sessions list` shows what the journal holds"

    def __init__(self, session: str) -> None:
        self.session = session
        super().__init__(f"the journal has no session {session!r}")


class CannotFork(JournalError):
    """The place to fork from is none, or what stands there is still open."""

    hint = "fork from an earlier turn, or resume the run first"
