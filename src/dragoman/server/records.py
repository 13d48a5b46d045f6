"""The reports of the last exchanges, and the counters for `/metrics`."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct

from dragoman.pipeline.report import Report

_HELP = {
    "dragoman_exchanges_total": "Exchanges by wire of the client and by end.",
    "dragoman_calls_total": "Tool calls that were passed on, by channel.",
    "dragoman_repaired_total": "Exchanges whose calls were found in text or repaired.",
    "dragoman_held_calls_total": "Text that was not passed on as a call, by reason.",
    "dragoman_repair_turns_total": "Requests that were repeated because the client could not use the reply.",
    "dragoman_tokens_total": "Tokens that the endpoints reported, by kind.",
    "dragoman_seconds_total": "Seconds from request to end of reply, summed.",
}
_Key = tuple[str, tuple[tuple[str, str], ...]]
_INPUT, _OUTPUT, _CACHED = (("dragoman_tokens_total", (("kind", kind),)) for kind in ("input", "output", "cached"))


class Counts(Struct, array_like=True):
    """The counters of one process, as other processes read them."""

    running: int = 0
    counted: list[tuple[str, list[tuple[str, str]], float]] = msgspec.field(default_factory=list)


class Records:
    """Keeps the last reports, and counts all of them."""

    others: Callable[[], Iterable[Counts]] | None = None
    """Returns the counters of the other processes of the gateway."""

    def __init__(self, most: int = 1000) -> None:
        self._most = most
        self._reports: OrderedDict[str, Report] = OrderedDict()
        self._counts: Counter[_Key] = Counter()
        self.running = 0

    def open(self, report: Report) -> None:
        """Keep the report of an exchange that begins."""
        self._reports[report.id] = report
        self.running += 1
        while len(self._reports) > self._most:
            self._reports.popitem(last=False)

    def close(self, report: Report) -> None:
        """Count an exchange that has ended, and limit its report, which is kept."""
        self.running -= 1
        end = "failed" if report.failure else report.stop or "cancelled"
        counts, wire, usage = self._counts, ("wire", report.wire), report.usage
        counts["dragoman_exchanges_total", (wire, ("end", end))] += 1
        counts["dragoman_seconds_total", (wire,)] += report.seconds  # type: ignore[assignment]
        for call in report.calls:
            self._add("dragoman_calls_total", 1, channel=call.channel)
        for reason, held in (("refused", report.refused), ("invalid", report.invalid), ("suspect", report.suspects)):
            if held:
                self._add("dragoman_held_calls_total", len(held), reason=reason)
        if report.is_repaired:
            self._add("dragoman_repaired_total", 1)
        if report.repair_turn:
            self._add("dragoman_repair_turns_total", 1)
        counts[_INPUT] += usage.input_tokens
        counts[_OUTPUT] += usage.output_tokens
        counts[_CACHED] += usage.cached_tokens
        report.limit()

    def _add(self, name: str, amount: float, **labels: str) -> None:
        # Counter counts integers by its type, and any number in fact.
        self._counts[name, tuple(labels.items())] += amount  # type: ignore[assignment]

    def find(self, id: str) -> Report | None:
        """Return a report that is still kept."""
        return self._reports.get(id)

    def list(self, client: str | None = None) -> list[Report]:
        """Return the kept reports, the newest first; with `client`, only those of the client with this name."""
        return [each for each in reversed(self._reports.values()) if client is None or each.client == client]

    def as_counts(self) -> Counts:
        """Return the counters for other processes."""
        counted = [(name, list(labels), float(amount)) for (name, labels), amount in self._counts.items()]
        return Counts(self.running, counted)

    def go_on(self, before: Counts) -> None:
        """Go on with the counters of an earlier process: a counter must not fall."""
        self._counts.update(_read_counts(before))

    def write_metrics(self) -> str:
        """Return the counters of all processes in the text format of Prometheus."""
        others = list(self.others()) if self.others is not None else []
        counts = Counter(self._counts)
        for each in others:
            counts.update(_read_counts(each))
        running = self.running + sum(each.running for each in others)
        lines = ["# HELP dragoman_running Exchanges at this moment.", "# TYPE dragoman_running gauge"]
        lines.append(f"dragoman_running {running}")
        for name, said in _HELP.items():
            lines += [f"# HELP {name} {said}", f"# TYPE {name} counter"]
            for (counted, labels), amount in sorted(counts.items()):
                if counted == name:
                    shown = ",".join(f'{key}="{value}"' for key, value in labels)
                    lines.append(f"{name}{{{shown}}} {amount:g}" if shown else f"{name} {amount:g}")
        return "\n".join(lines) + "\n"


def _read_counts(counts: Counts) -> Counter[_Key]:
    return Counter({(name, tuple(labels)): amount for name, labels, amount in counts.counted})
