"""Leases: which process holds a run, and when its lease expires. Also the ids of new runs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable
from functools import cache

from msgspec import Struct

LEASE_SECONDS = 60.0


class Holder(Struct, frozen=True):
    """A process. The fields let another process on the same machine check whether it still runs."""

    host: str
    pid: int
    began: str = ""
    """The start time of the process according to the system. Process ids are reused; this pair is not."""
    label: str = ""
    claim: str = ""
    """Different for each claim: one that is tried again, because its transaction failed, recognises itself."""

    def __str__(self) -> str:
        where = f"process {self.pid} on {self.host.partition('#')[0]}"
        return f"{self.label} ({where})" if self.label else where


class Lease(Struct, frozen=True):
    """A lease on a run until a time of the wall clock. The `token` outlives it and orders the claims."""

    token: int
    holder: Holder | None = None
    until: float = 0.0
    seconds: float = LEASE_SECONDS


def is_held(lease: Lease, now: float, is_alive: Callable[[Holder], bool]) -> bool:
    """Whether the lease is still valid."""
    if lease.holder is None:
        return False
    # An expiry further ahead than the length of a lease was written before the clock was set back.
    if not now < lease.until <= now + lease.seconds:
        return False
    return is_alive(lease.holder)


def this_process(label: str = "") -> Holder:
    """Return the holder for a new claim of this process."""
    return Holder(_host(), os.getpid(), _began(os.getpid()) or "", label, os.urandom(8).hex())


def is_running(holder: Holder) -> bool:
    """Whether the process still runs, as far as this machine can tell. For another machine only the lease counts."""
    if holder.host != _host() or sys.platform == "win32":
        # Windows has no signal that only checks.
        return True
    try:
        os.kill(holder.pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        pass
    began = _began(holder.pid)
    return began is None or not holder.began or began == holder.began


@cache
def _host() -> str:
    """Return machine name, boot id and process namespace: a process id is unique only within them."""
    parts = [platform.node() or "localhost"]
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            parts.append(file.read().strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    except OSError:
        pass
    return "#".join(parts)


def _began(pid: int) -> str | None:
    """Return the start time of a process, if /proc has it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            content = file.read()
    except OSError:
        return None
    # The second field is a name in parentheses with any content; the start time is the 22nd field.
    fields = content.rpartition(b")")[2].split()
    if fields[:1] == [b"Z"]:
        return "ended"
    return fields[19].decode() if len(fields) > 19 else None


def new_run_id() -> str:
    return f"run_{os.urandom(8).hex()}"
