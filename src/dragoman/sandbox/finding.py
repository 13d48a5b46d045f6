"""Which sandbox works on this machine, found out by running something in it."""

from __future__ import annotations

import functools
import sys
import tempfile
from typing import Literal

from dragoman.errors import DragomanError
from dragoman.sandbox.boxes import Box
from dragoman.sandbox.sandboxes import NoSandbox, Sandbox

Wanted = Literal["auto", "bubblewrap", "landlock", "none"]


class SandboxMissing(DragomanError):
    """No sandbox of the kind that was asked for works here."""

    hint = "on Debian or Ubuntu: apt-get install bubblewrap"


def find_sandbox(wanted: Wanted = "auto") -> Sandbox:
    """The best sandbox that works here, or the one that is asked for; what was found is kept for this process.

    "auto" falls back to none at all, so look at `sandbox.confines`. A kind that is named and does not work raises
    SandboxMissing.
    """
    if wanted not in ("auto", "bubblewrap", "landlock", "none"):
        raise SandboxMissing(
            f"there is no sandbox called {wanted!r}", hint='choose "auto", "bubblewrap", "landlock" or "none"'
        )
    if wanted == "none":
        return NoSandbox()
    found, reasons = _look(wanted)
    if found is not None:
        return found
    if wanted == "auto":
        return NoSandbox()
    raise SandboxMissing(f"the sandbox {wanted!r} does not work here: {'; '.join(reasons)}")


def why_not(wanted: Wanted) -> tuple[str, ...]:
    """What is in the way of each kind of sandbox that was tried and did not work."""
    return () if wanted == "none" else _look(wanted)[1]


@functools.cache
def _look(wanted: str) -> tuple[Sandbox | None, tuple[str, ...]]:
    if not sys.platform.startswith("linux"):
        return None, (f"there is none for {sys.platform}",)
    reasons: list[str] = []
    for kind in ("bubblewrap", "landlock") if wanted == "auto" else (wanted,):
        try:
            return _working(kind), tuple(reasons)
        except SandboxMissing as error:
            reasons.append(f"{kind}: {error}")
    return None, tuple(reasons)


def _working(kind: str) -> Sandbox:
    """The sandbox of this kind, if a command really runs in it."""
    sandbox = _make(kind)
    try:
        with tempfile.TemporaryDirectory(prefix="dragoman-sandbox-") as folder:
            ran = sandbox.run(["true"], Box(workspace=folder), timeout=20)
    except OSError as error:
        raise SandboxMissing(f"it does not start: {error}") from error
    if ran.code != 0:
        said = ran.errors.decode(errors="replace").strip().splitlines()
        raise SandboxMissing(said[-1][:300] if said else f"it ended with {ran.code}")
    return sandbox


def _make(kind: str) -> Sandbox:
    if kind == "bubblewrap":
        from dragoman.sandbox.bubblewrap import BubblewrapSandbox, find_bubblewrap

        program = find_bubblewrap()
        if program is None:
            raise SandboxMissing("bwrap is not installed")
        return BubblewrapSandbox(program)
    from dragoman.sandbox.landlock import LandlockSandbox, why_no_landlock

    reason = why_no_landlock()
    if reason:
        raise SandboxMissing(reason)
    return LandlockSandbox()
