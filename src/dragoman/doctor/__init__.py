"""The doctor asks an endpoint what it can do, and says what works, what does not, and what to do about it.

A `Probe` is a few questions and a judgement, both pure; an `Asker` puts the questions to the endpoint, each once;
`examine` makes all probes and ends with a `Report`, whose `fact` later runs can use.
"""

from __future__ import annotations

from dragoman.doctor.examination import PROBES, Asker, ProbeStarted, Step, count_requests, examine, fetch, probes_for
from dragoman.doctor.metadata import Recognised, choose_model, read_models, recognise
from dragoman.doctor.probe import Finding, Patient, Probe, Question, Report, Sight, Verdict, admit

__all__ = [
    "PROBES",
    "Asker",
    "Finding",
    "Patient",
    "Probe",
    "ProbeStarted",
    "Question",
    "Recognised",
    "Report",
    "Sight",
    "Step",
    "Verdict",
    "admit",
    "choose_model",
    "count_requests",
    "examine",
    "fetch",
    "probes_for",
    "read_models",
    "recognise",
]
