"""How many threads a model may compute with: the cores that are ours and that nobody else is using.

llama.cpp's threads wait for one another by spinning. One thread too many does not make it a little slower but twenty
times, because the others spin while the last one waits for a core; so busy cores are left alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

MOST = 16
"""More threads than this wait for memory, not for cores."""
_SAMPLES = 8
_PAUSE = 0.01
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_RUNNING = Path("/proc/loadavg")


def choose_threads(count: Callable[[], int] | None = None, busy: Callable[[], float] | None = None) -> int:
    """Threads for a model that is about to be loaded; at least one."""
    cores = (count or count_cores)()
    free = cores - round((busy or count_busy)())
    return max(1, min(free, cores, MOST))


def count_cores(quota: Path = _QUOTA) -> int:
    """The cores that this process may use: by affinity, and by the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _read_quota(quota, cores)))


def count_busy(running: Path = _RUNNING, sleep: Callable[[float], object] = time.sleep) -> float:
    """How many cores others keep busy right now. The load average would still tell of the minute before."""
    samples = []
    for _ in range(_SAMPLES):
        try:
            now = int(running.read_text(encoding="ascii").split()[3].partition("/")[0])
        except (OSError, ValueError, IndexError):
            return _load_average()
        samples.append(max(0, now - 1))  # the one that asks runs as well
        sleep(_PAUSE)
    return sum(samples) / len(samples)


def _load_average() -> float:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return 0.0


def _read_quota(path: Path, otherwise: int) -> int:
    """`cpu.max` says `quota period` in microseconds, or `max period`."""
    try:
        quota, period = path.read_text(encoding="ascii").split()[:2]
        return otherwise if quota == "max" else max(1, int(quota) // int(period))
    except (OSError, ValueError, ZeroDivisionError):
        return otherwise
