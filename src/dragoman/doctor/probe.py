"""A probe: the questions that it asks, and what it makes of the answers. It does neither itself."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.doctor.findings import Finding
from dragoman.doctor.questions import Patient, Question, Sight, Sights


class Probe(Struct, frozen=True):
    """One idea about an endpoint, and how to find out whether it holds."""

    name: str
    title: str
    questions: Callable[[Patient], tuple[Question, ...]]
    judge: Callable[[Patient, Sights], Finding]
    """Its verdict; the answers come in the order of the questions, a further one behind them."""
    follow: Callable[[Patient, Sights], Question | None] | None = None
    """A further question that needs the answers to the others."""
    quick: bool = False
    """Whether it is made with `--quick`."""
    needs: tuple[str, ...] = ()
    """Probes whose verdict has to be `works` for this one to make sense."""


def cannot_tell(probe: str, sights: Sights) -> Finding | None:
    """The finding where an answer says nothing: a busy endpoint, or a reply that the limit cut off."""
    for sight in sights:
        if sight.is_disturbed:
            return Finding(probe, "unknown", "the endpoint did not answer this question", sight.shown, _again(sight))
        if sight.is_cut:
            words = "the reply reached the limit of tokens before it came to the point"
            return Finding(probe, "unknown", words, sight.shown, "allow longer replies: --tokens N")
    return None


def _again(sight: Sight) -> str:
    kind = sight.failure.kind if sight.failure is not None else ""
    if kind == "timed_out":
        return "allow more time for each probe: --seconds N"
    return "try again later" if kind in ("rate_limited", "overloaded") else ""
