"""An examination: it runs every probe in order, and yields the findings and a report."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from dragoman.client.client import Client, open_transport
from dragoman.client.keys import Secret
from dragoman.client.models import MetadataClient, lookups_for
from dragoman.client.retry import NOTICES, Breakers, RequestPrepared, Retries
from dragoman.client.transport import HttpRequest, HttpResponse, Timeouts, Transport
from dragoman.doctor.metadata import judge_context, judge_models
from dragoman.doctor.probe import Finding, Observation, Probe, Question, Report, Subject
from dragoman.doctor.probes import basics, calls, streams
from dragoman.doctor.probes.calls import KINDS, NATIVE
from dragoman.events import Event
from dragoman.extraction.tool_mode import ComposedRequest, choose_tool_mode, compose, open_reader
from dragoman.providers import Endpoint, Fact
from dragoman.providers.prices import Prices
from dragoman.replies import ReplyFolder, add_usage
from dragoman.secrets.exchanges import RequestRedactor
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Usage
from dragoman.wire.codec import Codec

# --------------------------------------------------------------------------------------------------------------------
# The prober sends each question of an examination once, and keeps the received bytes.

MOST_KEPT = 1 << 20
"""The maximum number of bytes of one answer that are read."""
_BOUNDARIES = 4
_NEVER = 1_000_000


class RecordingTap:
    """A transport that records the bytes of the answers."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.kept = bytearray()

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        self.kept = bytearray()
        return _TappedResponse(await self._transport.send(request, timeouts), self.kept)

    async def close(self) -> None:
        await self._transport.close()


class _TappedResponse:
    def __init__(self, response: HttpResponse, kept: bytearray) -> None:
        self._response = response
        self._kept = kept

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    async def pieces(self) -> AsyncIterator[bytes]:
        async for piece in self._response.pieces():
            if len(self._kept) < MOST_KEPT:
                self._kept += piece
            yield piece

    async def close(self) -> None:
        await self._response.close()


class Prober:
    """Sends the requests of an examination to one endpoint. Call `close` at the end."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        transport: Transport | None = None,
        key: str | Secret | None = None,
        environment: Mapping[str, str],
        timeouts: Timeouts | None = None,
        tokens: int = 1024,
        seconds: float = 120.0,
    ) -> None:
        self.endpoint = endpoint
        carrier = open_transport(endpoint, environment) if transport is None else transport
        self._owned = carrier if transport is None else None
        self._tap = RecordingTap(carrier)
        self._timeouts = timeouts or Timeouts()
        self._client = Client(
            endpoint,
            transport=self._tap,
            key=key,
            environment=environment,
            timeouts=self._timeouts,
            # An examination looks for failures, so it uses no retries and no circuit breaker.
            retries=Retries(attempts=1),
            breakers=Breakers(failures=_NEVER),
        )
        self.metadata = MetadataClient(
            endpoint, transport=self._tap, key=key, environment=environment, timeouts=self._timeouts
        )
        self._tokens = tokens
        self._seconds = seconds
        self._seen: dict[str, Observation] = {}
        self.usage = Usage()

    @property
    def scrubber(self) -> RequestRedactor:
        """Removes the key from shown text: an endpoint may repeat it in its answer."""
        return RequestRedactor(self.metadata.auth.secrets)

    @property
    def requests(self) -> int:
        """The number of requests that were sent to the model."""
        return len(self._seen)

    async def close(self) -> None:
        """Close the client, and the transport if the prober opened it."""
        await self._client.close()
        if self._owned is not None:
            await self._owned.close()

    # ---- the model ---------------------------------------------------------------------------------------------------

    async def ask(self, question: Question) -> Observation:
        """Send a question and return the observation. The same question is sent only once."""
        if question.name not in self._seen:
            self._seen[question.name] = await self._ask(question)
        return self._seen[question.name]

    async def _ask(self, question: Question) -> Observation:
        composed = self._compose(question)
        reader = open_reader(composed, question.messages)
        folding = ReplyFolder()
        events: list[Event] = []
        losses = list(composed.losses)
        started = time.monotonic()
        stream = self._client.stream(composed.request, whole=not question.stream, deadline=started + self._seconds)
        async for event in stream:
            if isinstance(event, RequestPrepared):
                losses += event.losses
            elif not isinstance(event, NOTICES):
                folding.add(event)
                reader.feed(event)
                events.append(event)
        reader.close()
        reply = folding.reply()
        self.usage = add_usage(self.usage, reply.usage)
        frames = read_frames(self._client.codec, bytes(self._tap.kept)) if question.stream else ()
        seconds = time.monotonic() - started
        return Observation(question, reply, tuple(events), reader.extraction, frames, tuple(losses), seconds)

    def _compose(self, question: Question) -> ComposedRequest:
        endpoint = self.endpoint
        if question.format:
            endpoint = structs.replace(
                endpoint, profile=structs.replace(endpoint.profile, prompt_format=question.format)
            )
        offered = Toolset(question.tools)
        chosen_mode = choose_tool_mode(endpoint, offered, "text" if question.mode == "text" else "native")
        options = {"temperature": 0, "max_tokens": self._tokens, **question.options}
        boundaries = [secrets.token_hex(8) for _ in range(_BOUNDARIES)] if question.mode == "text" else []
        return compose(question.messages, chosen_mode, options, boundaries=boundaries)


def read_frames(codec: Codec, data: bytes) -> tuple[JsonObject, ...]:
    """Return the JSON objects in the bytes of a stream."""
    framing = codec.framing()
    frames = []
    for frame in [*framing.feed(data), *framing.close()]:
        text = getattr(frame, "data", None)
        if not isinstance(text, str | bytes):
            continue
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            continue
        if isinstance(found, dict):
            frames.append(found)
    return tuple(frames)


# --------------------------------------------------------------------------------------------------------------------
# All probes in order, and the number of requests that they need.

_STREAMS = ("reachable", "streaming")
_NATIVE_STREAMS = (*NATIVE, "streaming")
_IDS = (calls.ONE_CITY, calls.ONE_CITY_STREAMED)


def _ask_finish(subject: Subject) -> tuple[Question, ...]:
    return (basics.GREETING, calls.ONE_CITY) if subject.native else (basics.GREETING,)


def _ask_ids(subject: Subject) -> tuple[Question, ...]:
    return _IDS if subject.quick else (*_IDS, calls.TWO_CITIES)


PROBES: tuple[Probe, ...] = (
    Probe("reachable", "It answers", (basics.GREETING,), basics.judge_reachable, quick=True, needs=()),
    Probe("native_calls", "Native calls", (calls.ONE_CITY,), calls.judge_native, calls.follow_native, quick=True),
    Probe("streaming", "Streams", (basics.COUNTING,), streams.judge_text, quick=True),
    Probe("stream_end", "The end of a stream", (basics.COUNTING,), streams.judge_end, quick=True, needs=_STREAMS),
    # This probe also uses a native call.
    Probe("finish_reason", "Finish reason", _ask_finish, basics.judge_finish, quick=True),
    Probe("length", "Finish reason of a truncated reply", (basics.LIMITED,), basics.judge_limit),
    Probe("usage", "Token usage", (basics.GREETING, basics.COUNTING), basics.judge_usage, quick=True),
    Probe("call_ids", "Ids of calls", _ask_ids, calls.judge_ids, quick=True, needs=NATIVE),
    Probe("parallel_calls", "Several calls at once", (calls.TWO_CITIES,), calls.judge_parallel, needs=NATIVE),
    Probe(
        "stream_calls",
        "Calls in streams",
        (calls.ONE_CITY_STREAMED,),
        streams.judge_calls,
        quick=True,
        needs=_NATIVE_STREAMS,
    ),
    Probe(
        "stream_parallel",
        "Several calls in a stream",
        (calls.TWO_CITIES_STREAMED,),
        streams.judge_several,
        needs=(*_NATIVE_STREAMS, "parallel_calls"),
    ),
    *map(calls.choice_probe, KINDS),
    Probe("schema", "Arguments follow the schema", (calls.BOOKING,), calls.judge_schema, needs=NATIVE),
    Probe("results", "Results are accepted", calls.ask_result, calls.judge_result, quick=True),
    Probe(
        "reasoning",
        "Reasoning is accepted",
        (calls.ONE_CITY,),
        calls.judge_reasoning,
        calls.follow_reasoning,
        needs=NATIVE,
    ),
    Probe("text_formats", "Calls as text", streams.ask_text, streams.judge_text_calls, quick=True),
    Probe("grammar", "Grammars", streams.ask_grammar, streams.judge_grammar, quick=True),
    Probe("structured_output", "Answers follow a schema", (streams.ANSWER,), streams.judge_answer),
)
"""All probes, in the order in which an examination runs them."""


def probes_for(subject: Subject) -> tuple[Probe, ...]:
    """Return the probes to run: all of them, or the quick ones."""
    return tuple(probe for probe in PROBES if probe.quick or not subject.quick)


def count_requests(subject: Subject) -> int:
    """Return the maximum number of requests of an examination. A question that several probes share counts once."""
    probes = probes_for(subject)
    names = {question.name for probe in probes for question in probe.questions_for(subject)}
    return len(names) + sum(probe.follow is not None for probe in probes)


# --------------------------------------------------------------------------------------------------------------------
# The fact for later runs: the facts of all findings, merged.


def learn(row: Endpoint, findings: Iterable[Finding]) -> Fact:
    """Merge the facts of the findings. The result omits what the row already contains."""
    seen = {finding.probe: finding for finding in findings}
    fact = Fact()
    for finding in seen.values():
        if finding.fact is not None:
            fact |= finding.fact
    flags: dict[str, Any] = fact.quirks | {"tool_choice": _choices(row, seen)}
    flags = {name: value for name, value in flags.items() if _plain(getattr(row.quirks, name)) != _plain(value)}
    able = {name: value for name, value in fact.capabilities.items() if getattr(row.capabilities, name) != value}
    return structs.replace(fact, quirks=flags, capabilities=able)


def _choices(row: Endpoint, seen: dict[str, Finding]) -> list[str]:
    """Return the kinds of tool choice that work. Without a finding, or without a field on the wire, the row decides."""
    kinds = list(row.quirks.tool_choice)
    for kind in KINDS:
        finding = seen.get(f"tool_choice_{kind}")
        if finding is None or finding.verdict == "unknown" or "no field" in finding.summary:
            continue
        if finding.verdict == "works" and kind not in kinds:
            kinds.append(kind)
        elif finding.verdict != "works" and kind in kinds:
            kinds.remove(kind)
    return kinds


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


# --------------------------------------------------------------------------------------------------------------------
# An examination runs the probes in order, yields each finding at once, and yields a report at the end.


class ProbeStarted(Struct, frozen=True):
    """A probe starts to send its questions."""

    name: str
    title: str


Step = ProbeStarted | Finding | Report
"""What an examination yields: the start of each probe, its finding, and the report at the end."""


async def examine(subject: Subject, prober: Prober, prices: Prices | None = None) -> AsyncIterator[Step]:
    """Run the probes for an endpoint. The last item is the report."""
    findings: list[Finding] = []
    yield ProbeStarted("models", "Metadata of the endpoint")
    metadata, has_answered = await _look_up(subject, prober)
    for probe in probes_for(subject):
        ruled_out = _rule_out(probe, findings)
        if ruled_out is None:
            yield ProbeStarted(probe.name, probe.title)
        finding = ruled_out or await _make(probe, subject, prober)
        if probe.name == "native_calls":
            subject = structs.replace(subject, native=finding.verdict == "works", forced=finding.is_usable)
        found = [finding]
        if probe.name == "reachable":
            # What is known about a server that never answered would read as if it had.
            found += metadata if has_answered or finding.verdict == "works" else []
        findings += found
        for each in found:
            yield each
        if probe.name == "reachable" and finding.verdict != "works":
            break
    yield _report(subject, prober, findings, prices)


async def _look_up(subject: Subject, prober: Prober) -> tuple[list[Finding], bool]:
    """Return the findings about the metadata, and whether the endpoint answered any question about them."""
    answers: dict[str, Any] = {}
    for lookup in lookups_for(subject.endpoint, prober.metadata.base_url):
        answers[lookup.kind] = await prober.metadata.look_up(lookup.url, lookup.body)
    is_answered = any(answer is not None for answer in answers.values())
    return [judge_models(subject.row, answers), judge_context(subject.row, answers)], is_answered


async def _make(probe: Probe, subject: Subject, prober: Prober) -> Finding:
    observations = [await prober.ask(question) for question in probe.questions_for(subject)]
    further = probe.follow(subject, observations[0]) if probe.follow is not None else None
    if further is not None:
        observations.append(await prober.ask(further))
    finding, scrubber = probe.find(subject, observations), prober.scrubber
    fact = finding.fact and structs.replace(finding.fact, why=scrubber.text(finding.fact.why))
    return structs.replace(finding, evidence=scrubber.text(finding.evidence), fact=fact)


def _rule_out(probe: Probe, findings: list[Finding]) -> Finding | None:
    """Return the finding of a probe that earlier findings make pointless."""
    blocked = {finding.probe for finding in findings if finding.verdict != "works" and not finding.is_usable}
    titles = {each.name: each.title for each in PROBES}
    for needed in probe.needs:
        if needed in blocked:
            return Finding(probe.name, "unknown", f"not tested: it needs {titles[needed].lower()!r}")
    return None


def _report(subject: Subject, prober: Prober, findings: list[Finding], prices: Prices | None) -> Report:
    endpoint = subject.endpoint
    cost = prices.cost(endpoint, endpoint.model, prober.usage) if prices is not None else None
    return Report(
        f"{endpoint.provider.name}:{endpoint.model}",
        prober.scrubber.address(prober.metadata.base_url),
        endpoint.wire,
        tuple(findings),
        prober.requests,
        prober.usage,
        cost,
        learn(subject.row, findings),
    )
