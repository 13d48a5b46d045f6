"""The doctor tests an endpoint and reports what works, what does not, and how to fix it.

A `Probe` consists of a few questions and a function that judges the answers; both are pure. A `Prober` sends each
question to the endpoint once. `examine` runs all probes and ends with a `Report`, whose `fact` later runs can use.
"""

from __future__ import annotations

from dragoman.doctor.examination import PROBES, Prober, ProbeStarted, Step, count_requests, examine, probes_for
from dragoman.doctor.probe import Finding, Observation, Probe, Question, Report, Subject, Verdict, admit

__all__ = [
    "PROBES",
    "Finding",
    "Observation",
    "Probe",
    "ProbeStarted",
    "Prober",
    "Question",
    "Report",
    "Step",
    "Subject",
    "Verdict",
    "admit",
    "count_requests",
    "examine",
    "probes_for",
]
