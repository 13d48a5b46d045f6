"""The doctor asks an endpoint what it can do, and says what works, what does not, and what to do about it.

A `Probe` is a few questions and a judgement, both pure; a `Prober` puts the questions to the endpoint, each once;
`examine` makes all probes and ends with a `Report`, whose `fact` later runs can use.
"""

from __future__ import annotations

from dragoman.doctor.examination import PROBES, Prober, ProbeStarted, Step, count_requests, examine, fetch, probes_for
from dragoman.doctor.metadata import RecognizedServer, choose_model, read_models, recognise
from dragoman.doctor.probe import Finding, Observation, Probe, Question, Report, Subject, Verdict, admit

__all__ = [
    "PROBES",
    "Finding",
    "Observation",
    "Probe",
    "ProbeStarted",
    "Prober",
    "Question",
    "RecognizedServer",
    "Report",
    "Step",
    "Subject",
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
