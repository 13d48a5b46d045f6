"""All probes in the order in which they are made, and how many requests they need."""

from __future__ import annotations

from dragoman.doctor.probe import Probe
from dragoman.doctor.probes import basics, calls, choices, reasoning, streams, writing
from dragoman.doctor.questions import Patient

_BY_NAME = {
    probe.name: probe
    for group in (basics.PROBES, (basics.FINISH,), calls.PROBES, streams.PROBES, choices.PROBES)
    for probe in group
} | {probe.name: probe for group in (reasoning.PROBES, writing.PROBES) for probe in group}
_ORDER = (
    "reachable",
    "native_calls",
    "streaming",
    "stream_end",
    "finish_reason",
    "length",
    "usage",
    "call_ids",
    "parallel_calls",
    "stream_calls",
    "stream_parallel",
    "tool_choice_none",
    "tool_choice_required",
    "tool_choice_named",
    "schema",
    "results",
    "reasoning",
    "text_formats",
    "grammar",
    "structured_output",
)
PROBES: tuple[Probe, ...] = tuple(_BY_NAME[name] for name in _ORDER)


def probes_for(patient: Patient) -> tuple[Probe, ...]:
    """The probes that are made: all of them, or the quick ones."""
    return tuple(probe for probe in PROBES if probe.quick or not patient.quick)


def count_requests(patient: Patient) -> int:
    """The most requests that an examination sends to the model. A question that several probes have is asked once."""
    probes = probes_for(patient)
    names = {question.name for probe in probes for question in probe.questions(patient)}
    return len(names) + sum(probe.follow is not None for probe in probes)
