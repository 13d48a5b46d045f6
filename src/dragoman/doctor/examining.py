"""An examination: every probe made in its order, its findings told as they come, and a report at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from msgspec import Struct, structs

from dragoman.doctor.asking import Asker
from dragoman.doctor.catalogue import PROBES, probes_for
from dragoman.doctor.findings import Finding, Report
from dragoman.doctor.learning import learn
from dragoman.doctor.listing import judge_context, judge_models
from dragoman.doctor.metadata import lookups_for
from dragoman.doctor.probe import Probe
from dragoman.doctor.questions import Patient, Sight
from dragoman.providers.prices import Prices
from dragoman.secrets.exchanges import RequestRedactor


class ProbeStarted(Struct, frozen=True):
    """A probe is about to ask its questions."""

    name: str
    title: str


Step = ProbeStarted | Finding | Report


async def examine(patient: Patient, asker: Asker, prices: Prices | None = None) -> AsyncIterator[Step]:
    """Make the probes of a patient. The last thing that comes is the report."""
    findings: list[Finding] = []
    yield ProbeStarted("models", "What it tells about itself")
    for finding in await _look_up(patient, asker):
        findings.append(finding)
        yield finding
    for probe in probes_for(patient):
        ruled_out = _rule_out(probe, findings)
        if ruled_out is None:
            yield ProbeStarted(probe.name, probe.title)
        finding = ruled_out or await _make(probe, patient, asker)
        if probe.name == "native_calls":
            patient = structs.replace(patient, native=finding.verdict == "works")
        findings.append(finding)
        yield finding
        if probe.name == "reachable" and finding.verdict != "works":
            break
    yield _report(patient, asker, findings, prices)


async def _look_up(patient: Patient, asker: Asker) -> list[Finding]:
    answers: dict[str, Any] = {}
    for lookup in lookups_for(patient.endpoint, asker.base_url):
        answers[lookup.kind] = await asker.look_up(lookup.url, lookup.body)
    return [judge_models(patient.row, answers), judge_context(patient.row, answers)]


async def _make(probe: Probe, patient: Patient, asker: Asker) -> Finding:
    sights: list[Sight] = [await asker.ask(question) for question in probe.questions(patient)]
    if probe.follow is not None:
        further = probe.follow(patient, tuple(sights))
        if further is not None:
            sights.append(await asker.ask(further))
    return _scrub(probe.judge(patient, tuple(sights)), asker.scrubber)


def _scrub(finding: Finding, scrubber: RequestRedactor) -> Finding:
    fact = finding.fact
    if fact is not None:
        fact = structs.replace(fact, why=scrubber.text(fact.why))
    return structs.replace(finding, evidence=scrubber.text(finding.evidence), fact=fact)


def _rule_out(probe: Probe, findings: list[Finding]) -> Finding | None:
    """The finding of a probe that makes no sense after what was found before."""
    blocked = {finding.probe for finding in findings if finding.verdict != "works" and not finding.is_usable}
    titles = {each.name: each.title for each in PROBES}
    for needed in probe.needs:
        if needed in blocked:
            return Finding(probe.name, "unknown", f"not asked: it needs {titles[needed].lower()!r}")
    return None


def _report(patient: Patient, asker: Asker, findings: list[Finding], prices: Prices | None) -> Report:
    endpoint = patient.endpoint
    cost = prices.cost(endpoint, endpoint.model, asker.usage) if prices is not None else None
    return Report(
        f"{endpoint.provider.name}:{endpoint.model}",
        asker.scrubber.address(asker.base_url),
        endpoint.wire,
        tuple(findings),
        asker.requests,
        asker.usage,
        cost,
        learn(patient.row, findings),
    )
