"""Limits on what a command may use, set by the shell right before it becomes the command."""

from __future__ import annotations

import os
from collections.abc import Sequence

from dragoman.sandbox.boxes import BoxLimits

# Bash counts processes with -u, other shells with -p.
_PROCESSES = "{{ ulimit -u {0} 2>/dev/null || ulimit -p {0}; }}"


def limit(argv: Sequence[str], limits: BoxLimits) -> tuple[str, ...]:
    """The command line that sets the limits and then runs `argv`. Where one cannot be set, nothing runs."""
    if os.name != "posix":
        return tuple(argv)
    steps = ["ulimit -c 0"]
    if limits.cpu_seconds is not None:
        # One second between the signal that says why and the one that cannot be caught.
        seconds = max(1, int(limits.cpu_seconds))
        steps.append(f"ulimit -t {seconds + 1} && ulimit -S -t {seconds}")
    if limits.memory_bytes is not None:
        steps.append(f"ulimit -v {max(1, int(limits.memory_bytes) // 1024)}")
    if limits.file_bytes is not None:
        # POSIX: blocks of 512 bytes, which a shell called `sh` abides by.
        steps.append(f"ulimit -f {int(limits.file_bytes) // 512}")
    if limits.open_files is not None:
        steps.append(f"ulimit -n {max(1, int(limits.open_files))}")
    if limits.processes is not None:
        steps.append(_PROCESSES.format(max(1, int(limits.processes))))
    script = " && ".join(steps) + ' || { echo "dragoman: cannot set the limits of the box" >&2; exit 125; }; exec "$@"'
    return ("/bin/sh", "-c", script, "dragoman", *argv)
