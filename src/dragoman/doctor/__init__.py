"""The doctor asks an endpoint what it can do, and says what works, what does not, and what to do about it.

A `Probe` is a few questions and a judgement, both pure; an `Asker` puts the questions to the endpoint, each once;
`examine` makes all probes and ends with a `Report`, whose `fact` later runs can use.
"""

from __future__ import annotations

from dragoman.doctor.asking import Asker, fetch
from dragoman.doctor.catalogue import PROBES, count_requests, probes_for
from dragoman.doctor.examining import ProbeStarted, Step, examine
from dragoman.doctor.findings import Finding, Report, Verdict
from dragoman.doctor.metadata import choose_model, read_models
from dragoman.doctor.probe import Probe
from dragoman.doctor.questions import Patient, Question, Sight, admit
from dragoman.doctor.recognising import Recognised, recognise

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
