"""What an examination finds: one verdict for each thing that was looked at, with its evidence and what to do."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from dragoman.providers import Fact
from dragoman.types import Usage

Verdict = Literal["works", "broken", "absent", "unknown"]
"""`absent`: it is not there, and nobody pretends otherwise. `unknown`: it could not be found out."""

_LONGEST = 160


class Finding(Struct, frozen=True, omit_defaults=True):
    """One thing that was looked at. `fact` is what later runs should know of it."""

    probe: str
    verdict: Verdict
    summary: str
    """What was seen, in one line."""
    evidence: str = ""
    """An excerpt of what the endpoint said, without its secrets."""
    fix: str = ""
    """What to do about it; empty where nothing has to be done."""
    fact: Fact | None = None
    is_usable: bool = False
    """Broken, but not so that what builds on it could not be looked at."""


class Report(Struct, frozen=True):
    """Everything that was found out about one endpoint."""

    model: str
    """`provider:model`."""
    url: str
    wire: str
    findings: tuple[Finding, ...] = ()
    requests: int = 0
    """How many requests were sent to the model."""
    usage: Usage = Usage()
    cost: float | None = None
    """In US dollars; None where no price is known."""
    fact: Fact = Fact()
    """What later runs should know, put together."""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """What claims to be there and does not work."""
        return tuple(finding for finding in self.findings if finding.verdict == "broken")

    def verdict(self, probe: str) -> Verdict | None:
        """The verdict of a probe; None if it was not made."""
        return next((finding.verdict for finding in self.findings if finding.probe == probe), None)


def excerpt(text: str) -> str:
    """The beginning of a text, on one line."""
    plain = " ".join(text[: 4 * _LONGEST].split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"
