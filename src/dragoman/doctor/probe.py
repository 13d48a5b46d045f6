"""Probes: questions, observations and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Literal

from msgspec import Struct, field, structs

from dragoman.events import Event
from dragoman.extraction import Extraction
from dragoman.providers import Endpoint, Fact
from dragoman.types import Failure, JsonObject, Message, Reply, Text, Tool, Usage
from dragoman.wire.failures import Loss

# --------------------------------------------------------------------------------------------------------------------
# A finding: the verdict of one probe, with its evidence and a fix.

Verdict = Literal["works", "handled", "broken", "absent", "unknown"]
"""`handled`: the endpoint deviates, and dragoman copes with it, by itself or by a saved fact. `broken`: somebody has to
do something. `absent`: the endpoint does not have it, and does not claim to. `unknown`: the probe could not decide."""

_LONGEST = 160


class Finding(Struct, frozen=True, omit_defaults=True):
    """The result of one probe. `fact` is for later runs."""

    probe: str
    verdict: Verdict
    summary: str
    """What the probe observed, in one line."""
    evidence: str = ""
    """An excerpt of the answer, without secrets."""
    fix: str = ""
    """What to do about it; empty if nothing has to be done."""
    fact: Fact | None = None
    is_usable: bool = False
    """It works under a condition, which the probes that need it meet."""


class Report(Struct, frozen=True):
    """The findings about one endpoint."""

    model: str
    """`provider:model`."""
    url: str
    wire: str
    findings: tuple[Finding, ...] = ()
    requests: int = 0
    """How many requests were sent to the model."""
    usage: Usage = Usage()
    cost: float | None = None
    """In US dollars; None if the price is unknown."""
    fact: Fact = Fact()
    """The merged fact for later runs."""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings about which somebody has to do something."""
        return tuple(finding for finding in self.findings if finding.verdict == "broken")

    def verdict(self, probe: str) -> Verdict | None:
        """Return the verdict of a probe; None if it did not run."""
        return next((finding.verdict for finding in self.findings if finding.probe == probe), None)


def excerpt(text: str) -> str:
    """Return the beginning of a text, on one line."""
    plain = " ".join(text[: 4 * _LONGEST].split())
    return plain if len(plain) <= _LONGEST else plain[: _LONGEST - 1] + "…"


# --------------------------------------------------------------------------------------------------------------------
# Questions to an endpoint, and the observations of the answers.

Mode = Literal["plain", "native", "text"]
_SAYS_NOTHING = frozenset({"rate_limited", "overloaded", "timed_out", "unreachable", "unauthorized", "insecure"})
"""Temporary failures: they say nothing about what the endpoint supports."""


_ALL_CHOICES = ("auto", "none", "required", "named")


class Question(Struct, frozen=True):
    """One request. Questions with the same name are the same question, which is sent once."""

    name: str
    messages: list[Message]
    tools: list[Tool] = []
    options: dict[str, Any] = field(default_factory=dict)
    mode: Mode = "plain"
    """Whether tools are native definitions, or instructions in the prompt."""
    stream: bool = False
    format: str = ""
    """The text format of the instructions; empty means the endpoint's own."""


class Observation(Struct, frozen=True):
    """An answer: the decoded reply, and the data on the wire."""

    question: Question
    reply: Reply
    events: tuple[Event, ...] = ()
    extraction: Extraction = Extraction()
    """The calls in it, including those in the text."""
    frames: tuple[JsonObject, ...] = ()
    """The JSON objects of a stream, in order."""
    losses: tuple[Loss, ...] = ()
    """Details of the request that the wire cannot express."""
    seconds: float = 0.0

    @property
    def failure(self) -> Failure | None:
        """The error of the endpoint, if it reported one."""
        return self.reply.failure

    @property
    def is_refused(self) -> bool:
        """Whether the endpoint rejects the request permanently."""
        return self.failure is not None and not self.is_disturbed and not self.was_stream_cut

    @property
    def was_stream_cut(self) -> bool:
        """Whether the connection ended before the reply did."""
        return self.failure is not None and self.failure.kind == "stream_cut"

    @property
    def is_disturbed(self) -> bool:
        """Whether a failure occurred that is unrelated to the question."""
        return self.failure is not None and self.failure.kind in _SAYS_NOTHING

    @property
    def is_cut(self) -> bool:
        """Whether the token limit ended the reply, so that missing parts prove nothing."""
        return self.reply.stop == "length"

    @property
    def shown(self) -> str:
        """The most informative text of the reply."""
        if self.failure is not None:
            status = f"{self.failure.status}: " if self.failure.status else ""
            return excerpt(f"{status}{self.failure.message or self.failure.kind}")
        if self.reply.calls:
            return excerpt("; ".join(f"{call.name}({call.arguments})" for call in self.reply.calls))
        return excerpt(self.reply.text)

    def lost(self, word: str) -> Loss | None:
        """Return the loss on this wire that mentions `word`."""
        return next((loss for loss in self.losses if word in loss.detail), None)

    def reason(self, wire: str) -> str:
        """Return the endpoint's own finish reason."""
        own = self.reply.extra.get(wire)
        return str(own.get("reason") or "") if isinstance(own, dict) else ""


def admit(endpoint: Endpoint, *, quick: bool = False, tokens: int = 1024) -> Subject:
    """Return the subject of an examination. It tests everything that the wire has, even what the row excludes."""
    curious = structs.replace(
        endpoint,
        quirks=structs.replace(endpoint.quirks, tool_choice=_ALL_CHOICES, final_frame=True),
        capabilities=structs.replace(endpoint.capabilities, streaming=True),
    )
    return Subject(curious, quick, tokens, declared=endpoint)


class Subject(Struct, frozen=True):
    """The examined endpoint, and the findings so far."""

    endpoint: Endpoint
    quick: bool = False
    tokens: int = 1024
    """The maximum tokens of one reply."""
    native: bool = True
    """Whether native calls work; assumed until a probe decides."""
    forced: bool = False
    """Whether calls come only where one is required."""
    declared: Endpoint | None = None
    """The endpoint as its row describes it; `endpoint` has more capabilities switched on."""

    @property
    def row(self) -> Endpoint:
        """The endpoint as its row declares it, without what was learned about it."""
        return self.declared or self.endpoint

    @property
    def wire(self) -> str:
        """The wire of the endpoint."""
        return self.endpoint.wire

    @property
    def speaks_chat(self) -> bool:
        """Whether its wire streams calls by index and ends streams with `[DONE]`; two wires do."""
        return self.wire in ("openai_chat", "mistral")


def user(words: str) -> Message:
    return Message("user", [Text(words)])


def entries_of(observation: Observation) -> Iterator[JsonObject]:
    """Return the pieces of calls in the frames of a chat stream."""
    for frame in observation.frames:
        choices = frame.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            delta = choice.get("delta") if isinstance(choice, dict) else None
            entries = delta.get("tool_calls") if isinstance(delta, dict) else None
            yield from (entry for entry in entries or () if isinstance(entry, dict))


# --------------------------------------------------------------------------------------------------------------------
# A probe: its questions, and the function that judges the answers. It sends nothing itself.


class Judgement(Struct, frozen=True):
    """The result of a probe: a finding without the name of the probe."""

    verdict: Verdict
    summary: str
    fix: str = ""
    fact: Fact | None = None
    evidence: str | None = None
    """None means an excerpt of the first answer."""
    is_usable: bool = False


works = partial(Judgement, "works")
handled = partial(Judgement, "handled")
broken = partial(Judgement, "broken")
absent = partial(Judgement, "absent")
unknown = partial(Judgement, "unknown")


class Probe(Struct, frozen=True):
    """A test of one feature of an endpoint."""

    name: str
    title: str
    questions: tuple[Question, ...] | Callable[[Subject], tuple[Question, ...]]
    judge: Callable[..., Judgement]
    """Called with the subject and the answers, in the order of the questions; the answer to `further` is last."""
    follow: Callable[[Subject, Observation], Question | None] | None = None
    """Another question, which depends on the answer to the first."""
    quick: bool = False
    """Whether it runs with `--quick`."""
    needs: tuple[str, ...] = ("reachable",)
    """Probes that must have the verdict `works` for this one to run."""

    def questions_for(self, subject: Subject) -> tuple[Question, ...]:
        """Return the requests that the probe sends to this endpoint."""
        questions = self.questions if isinstance(self.questions, tuple) else self.questions(subject)
        return tuple(map(_force, questions)) if subject.forced else questions

    def find(self, subject: Subject, observations: Sequence[Observation]) -> Finding:
        """Judge the answers, and return the finding."""
        found = self.judge(subject, *observations)
        shown = observations[0].shown if observations else ""
        evidence = shown if found.evidence is None else found.evidence
        return Finding(self.name, found.verdict, found.summary, evidence, found.fix, found.fact, found.is_usable)


def _force(question: Question) -> Question:
    """The question with a demand for a call, if it asks for one."""
    if question.mode != "native" or "tool_choice" in question.options or question.messages[-1].role != "user":
        return question
    options = {**question.options, "tool_choice": "required"}
    return structs.replace(question, name=f"{question.name} required", options=options)


def cannot_tell(*observations: Observation) -> Judgement | None:
    """Return the judgement if an answer proves nothing: a busy endpoint, or a reply that the token limit truncated."""
    for observation in observations:
        kind = observation.failure.kind if observation.failure is not None else ""
        if observation.is_disturbed:
            later = "try again later" if kind in ("rate_limited", "overloaded") else ""
            fix = "allow more time for each probe: --seconds N" if kind == "timed_out" else later
            return unknown("the endpoint did not answer this question", fix, evidence=observation.shown)
        if observation.is_cut:
            words = "the reply reached the token limit too early"
            return unknown(words, "allow longer replies: --tokens N", evidence=observation.shown)
    return None
