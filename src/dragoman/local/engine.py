"""A loaded model: llama.cpp in this process, and the number of its threads."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dragoman.errors import ConfigError
from dragoman.extras import missing_extra

# --------------------------------------------------------------------------------------------------------------------
# The number of threads of a model: the cores that this process may use and that are idle.
#
# The threads of llama.cpp wait for one another by spinning. One thread too many makes it not slightly, but twenty times
# slower, because the others spin while the last one waits for a core. So busy cores are not counted.

MOST = 16
"""With more threads than this, memory is the bottleneck."""
_SAMPLES = 8
_PAUSE = 0.01
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_RUNNING = Path("/proc/loadavg")


def choose_threads(count: Callable[[], int] | None = None, busy: Callable[[], float] | None = None) -> int:
    """Return the number of threads for a model; at least one."""
    cores = (count or count_cores)()
    free = cores - round((busy or count_busy)())
    return max(1, min(free, cores, MOST))


def count_cores(quota: Path = _QUOTA) -> int:
    """Return the number of cores that this process may use: by affinity, and by the quota of its container."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, _read_quota(quota, cores)))


def count_busy(running: Path = _RUNNING, sleep: Callable[[float], object] = time.sleep) -> float:
    """Return the number of busy cores. The load average would include the minute before."""
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


# --------------------------------------------------------------------------------------------------------------------
# A loaded model: llama.cpp in this process, with the interface of OpenAI's chat completions.
#
# One engine handles several requests at once; llama.cpp computes them together and queues the rest. All users of the
# same file in the process share an engine, which is unloaded after the last one releases it.

SLOTS = 4
"""The number of requests that are computed together; others wait."""
CONTEXT = 8192
_BATCH = 256
"""The number of prompt tokens in one batch; a request can be cancelled between two batches."""
_QUIET = -1
_PATIENCE = 10.0

log = logging.getLogger("dragoman.local")

Receive = Callable[[str], bool]
"""Receives one JSON object of the answer; True ends the generation."""


_OTHER_SYSTEM = "use a server of your own, such as Ollama; there may be no build of xllamacpp for this system"


def import_llama() -> Any:
    """Import the library with llama.cpp. Raises ConfigError if it is not installed."""
    try:
        import xllamacpp  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise missing_extra(f"the embedded model needs {error.name}", "local") from None
    except ImportError as error:
        raise ConfigError(f"xllamacpp cannot be loaded: {error}", hint=_OTHER_SYSTEM) from None
    return xllamacpp


class Engine:
    """One loaded file. `borrow` creates shared engines; call the class for one that is not shared."""

    def __init__(self, path: Path, *, name: str = "", threads: int = 0, context: int = 0) -> None:
        self.path = path
        self.name = name or path.stem
        self.threads = threads or choose_threads()
        self.context = context or CONTEXT
        self.seconds = 0.0
        """The seconds that it took to load."""
        self._idle = threading.Condition()
        self._jobs: set[object] = set()
        self._closed = False
        self._server: Any = self._load()

    def _load(self) -> Any:
        llama = import_llama()
        size = self.path.stat().st_size / 1e6
        log.info("loading %s (%.0f MB) with %d thread%s", self.name, size, self.threads, "s" * (self.threads > 1))
        started = time.monotonic()
        try:
            server = llama.Server(_settings(llama, self))
            # The threads are still starting, and a server that is dropped before they run waits for ever.
            server.handle_completions('{"prompt": "a", "n_predict": 1}', lambda piece: False)
        except Exception as error:
            raise ConfigError(
                f"{self.path} cannot be loaded: {error}", hint="it has to be a whole GGUF file of a text model"
            ) from None
        self.seconds = time.monotonic() - started
        log.info("loaded %s in %.1f s", self.name, self.seconds)
        return server

    @property
    def busy(self) -> int:
        """The number of current requests."""
        return len(self._jobs)

    def complete(self, body: str, receive: Receive) -> None:
        """Answer one request; blocks until the end. `receive` is called for every piece, and may end the generation."""
        job = object()
        with self._idle:
            if self._closed:
                raise ConfigError(f"{self.name} is closed", hint="open a new client for it")
            self._jobs.add(job)
            server = self._server

        def hand_on(piece: str) -> bool:
            return self._closed or receive(piece)

        try:
            server.handle_chat_completions(body, hand_on)
        finally:
            del server
            with self._idle:
                self._jobs.discard(job)
                self._idle.notify_all()

    def close(self) -> None:
        """End the current requests, and unload the model."""
        with self._idle:
            self._closed = True
            self._idle.wait_for(lambda: not self._jobs, _PATIENCE)
            self._server = None


def _settings(llama: Any, engine: Engine) -> Any:
    params = llama.CommonParams()
    params.model.path = str(engine.path)
    params.model_alias = {engine.name}
    params.n_ctx = engine.context
    params.n_parallel = SLOTS
    params.kv_unified = True
    params.n_batch = params.n_ubatch = _BATCH
    params.warmup = False
    params.verbosity = _QUIET
    for cores in (params.cpuparams, params.cpuparams_batch):
        cores.n_threads = engine.threads
    # The library opens a port that dragoman does not use: without this key nobody else can use it either.
    params.api_keys = [secrets.token_hex(32)]
    params.endpoint_slots = False
    params.ui = False
    return params


# ---- shared engines --------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_loaded: dict[tuple[Path, int], tuple[Engine, int]] = {}
_owner = 0


def borrow(path: Path, *, name: str = "", context: int = 0) -> Engine:
    """Return the engine of a file, and load it if necessary. Call `give_back` once for every `borrow`."""
    global _owner
    place = (path.resolve(), context)
    with _lock:
        if _owner != os.getpid():
            # Threads do not survive a fork, so an engine does not either.
            _loaded.clear()
            if not _owner:
                atexit.register(_close_all)
            _owner = os.getpid()
        engine, users = _loaded.get(place) or (Engine(path, name=name, context=context), 0)
        _loaded[place] = (engine, users + 1)
    return engine


def give_back(engine: Engine) -> None:
    """Release an engine; the last release unloads it."""
    with _lock:
        place = next((place for place, (held, _) in _loaded.items() if held is engine), None)
        if place is None:
            return
        users = _loaded[place][1] - 1
        if users:
            _loaded[place] = (engine, users)
            return
        del _loaded[place]
    engine.close()


def loaded() -> list[Engine]:
    """Return all loaded engines."""
    with _lock:
        return [engine for engine, _ in _loaded.values()]


def _close_all() -> None:
    with _lock:
        engines = [engine for engine, _ in _loaded.values()] if _owner == os.getpid() else []
        _loaded.clear()
    for engine in engines:
        engine.close()
