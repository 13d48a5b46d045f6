"""The adapters of a group at work. A peer that fails is left out from then on, with the reason in its row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from benchmarks.peers.rows import Peer, start
from benchmarks.support.environments import Environments, Unavailable, Worker
from benchmarks.support.progress import Progress

Figures = dict[str, Any]


class Team:
    """The adapters of some peers, as long as the block lasts. `rows` are what the page shows of each."""

    def __init__(self, environments: Environments, peers: Sequence[Peer], progress: Progress) -> None:
        self._environments, self._peers, self._progress = environments, peers, progress
        self._workers: dict[str, Worker] = {}
        self.rows: dict[str, Figures] = {peer.name: {"settings": peer.settings} for peer in peers}

    def __enter__(self) -> Self:
        try:
            for peer in self._peers:
                self._progress.say(f"starting {peer.name}")
                self._start(peer)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self, peer: Peer) -> None:
        try:
            worker = self._workers[peer.name] = start(self._environments, peer)
            self.rows[peer.name] |= worker.versions
        except Unavailable as reason:
            self.rows[peer.name]["not_measured"] = str(reason)

    def __exit__(self, *ended: object) -> None:
        for worker in self._workers.values():
            worker.close()
        self._workers.clear()

    @property
    def names(self) -> list[str]:
        """The peers that are at work."""
        return list(self._workers)

    def ask(self, name: str, limit: float, /, **job: object) -> Figures | None:
        """The answer of a peer to a job; None if it cannot be had: then the peer is left out from now on."""
        worker = self._workers.get(name)
        if worker is None:
            return None
        try:
            answer = worker.ask(limit, **job)
        except Unavailable as reason:
            self.leave_out(name, str(reason))
            return None
        if "error" in answer:
            self.leave_out(name, f"{job['do']} fails: {answer['error']['kinds'][0]}: {answer['error']['message']}")
            return None
        return answer

    def leave_out(self, name: str, reason: str) -> None:
        self.rows[name]["not_measured"] = reason[:200]
        if name in self._workers:
            self._workers.pop(name).close()
