"""What later runs should know of an endpoint: the facts of all findings, put together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from dragoman.doctor.findings import Finding
from dragoman.doctor.probes.choices import KINDS
from dragoman.providers import Endpoint, Fact


def learn(row: Endpoint, findings: Iterable[Finding]) -> Fact:
    """One fact from many. What the row says already is not repeated."""
    seen = {finding.probe: finding for finding in findings}
    fact = Fact()
    for finding in seen.values():
        if finding.fact is not None:
            fact |= finding.fact
    flags: dict[str, Any] = dict(fact.quirks)
    choices = _choices(row, seen)
    if choices is not None:
        flags["tool_choice"] = choices
    flags = {name: value for name, value in flags.items() if _plain(getattr(row.quirks, name)) != _plain(value)}
    able = {name: value for name, value in fact.capabilities.items() if getattr(row.capabilities, name) != value}
    return structs.replace(fact, quirks=flags, capabilities=able)


def _choices(row: Endpoint, seen: dict[str, Finding]) -> list[str] | None:
    """The kinds of tool choice that hold; None where nothing was found out, or the wire has no field for them."""
    kinds = list(row.quirks.tool_choice)
    for kind in KINDS:
        finding = seen.get(f"tool_choice_{kind}")
        if finding is None or finding.verdict == "unknown" or "no field" in finding.summary:
            continue
        if finding.verdict == "works" and kind not in kinds:
            kinds.append(kind)
        elif finding.verdict != "works" and kind in kinds:
            kinds.remove(kind)
    return kinds if kinds != list(row.quirks.tool_choice) else None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
