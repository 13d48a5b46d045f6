"""A probe: its questions, what was observed, and the findings."""

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
# What an examination finds: one verdict for each thing that was looked at, with its evidence and what to do.

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


# --------------------------------------------------------------------------------------------------------------------
# Questions to an endpoint, and what was seen when one of them was asked.

Mode = Literal["plain", "native", "text"]
_SAYS_NOTHING = frozenset({"rate_limited", "overloaded", "timed_out", "unreachable", "unauthorized", "insecure"})
"""Failures that tell about the moment, and not about what the endpoint can do."""


_ALL_CHOICES = ("auto", "none", "required", "named")


class Question(Struct, frozen=True):
    """One request. Two questions of the same name are the same question, and it is asked once."""

    name: str
    messages: list[Message]
    tools: list[Tool] = []
    options: dict[str, Any] = field(default_factory=dict)
    mode: Mode = "plain"
    """Tools as definitions of the wire, or as instructions in the prompt."""
    stream: bool = False
    format: str = ""
    """The text format that the prompt teaches; empty means the endpoint's own."""


class Observation(Struct, frozen=True):
    """What came back: the reply as it was read, and as it stood on the wire."""

    question: Question
    reply: Reply
    events: tuple[Event, ...] = ()
    extraction: Extraction = Extraction()
    """The calls in it, those that stand in the text included."""
    frames: tuple[JsonObject, ...] = ()
    """The JSON objects of a stream, in their order."""
    losses: tuple[Loss, ...] = ()
    """What the wire has no place for."""
    seconds: float = 0.0

    @property
    def failure(self) -> Failure | None:
        return self.reply.failure

    @property
    def is_refused(self) -> bool:
        """Whether the endpoint will not do what was asked, now or later."""
        return self.failure is not None and not self.is_disturbed and not self.was_stream_cut

    @property
    def was_stream_cut(self) -> bool:
        return self.failure is not None and self.failure.kind == "stream_cut"

    @property
    def is_disturbed(self) -> bool:
        """Whether something went wrong that says nothing about what was asked."""
        return self.failure is not None and self.failure.kind in _SAYS_NOTHING

    @property
    def is_cut(self) -> bool:
        """Whether the limit of tokens ended the reply, so that nothing follows from what is missing in it."""
        return self.reply.stop == "length"

    @property
    def shown(self) -> str:
        """The most telling words of the reply."""
        if self.failure is not None:
            status = f"{self.failure.status}: " if self.failure.status else ""
            return excerpt(f"{status}{self.failure.message or self.failure.kind}")
        if self.reply.calls:
            return excerpt("; ".join(f"{call.name}({call.arguments})" for call in self.reply.calls))
        return excerpt(self.reply.text)

    def lost(self, word: str) -> Loss | None:
        """What this wire has no place for, where it is about `word`."""
        return next((loss for loss in self.losses if word in loss.detail), None)

    def reason(self, wire: str) -> str:
        """The finish reason in the endpoint's own word."""
        own = self.reply.extra.get(wire)
        return str(own.get("reason") or "") if isinstance(own, dict) else ""


def admit(endpoint: Endpoint, *, quick: bool = False, tokens: int = 1024) -> Subject:
    """A patient. It is asked for everything that its wire has, also for what its row says it cannot do."""
    curious = structs.replace(
        endpoint,
        quirks=structs.replace(endpoint.quirks, tool_choice=_ALL_CHOICES, final_frame=True),
        capabilities=structs.replace(endpoint.capabilities, streaming=True),
    )
    return Subject(curious, quick, tokens, declared=endpoint)


class Subject(Struct, frozen=True):
    """The endpoint, and what is known of it so far."""

    endpoint: Endpoint
    quick: bool = False
    tokens: int = 1024
    """The most tokens of one reply."""
    native: bool = True
    """Whether native calls work; believed until it is known better."""
    declared: Endpoint | None = None
    """The endpoint as its row describes it; `endpoint` is asked for more than that."""

    @property
    def row(self) -> Endpoint:
        return self.declared or self.endpoint

    @property
    def wire(self) -> str:
        return self.endpoint.wire

    @property
    def speaks_chat(self) -> bool:
        """Whether its wire is one of the two that stream calls by index and end with `[DONE]`."""
        return self.wire in ("openai_chat", "mistral")


def user(words: str) -> Message:
    return Message("user", [Text(words)])


def entries_of(observation: Observation) -> Iterator[JsonObject]:
    """The pieces of calls in the frames of a chat stream."""
    for frame in observation.frames:
        choices = frame.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            delta = choice.get("delta") if isinstance(choice, dict) else None
            entries = delta.get("tool_calls") if isinstance(delta, dict) else None
            yield from (entry for entry in entries or () if isinstance(entry, dict))


# --------------------------------------------------------------------------------------------------------------------
# A probe: the questions that it asks, and what it makes of the answers. It does neither itself.


class Judgement(Struct, frozen=True):
    """What a probe makes of its answers: a finding without the name of the probe."""

    verdict: Verdict
    summary: str
    fix: str = ""
    fact: Fact | None = None
    evidence: str | None = None
    """None means the first answer."""
    is_usable: bool = False


works = partial(Judgement, "works")
broken = partial(Judgement, "broken")
absent = partial(Judgement, "absent")
unknown = partial(Judgement, "unknown")


class Probe(Struct, frozen=True):
    """One idea about an endpoint, and how to find out whether it holds."""

    name: str
    title: str
    questions: tuple[Question, ...] | Callable[[Subject], tuple[Question, ...]]
    judge: Callable[..., Judgement]
    """Called with the subject and the answers, in the order of the questions, a further one behind them."""
    follow: Callable[[Subject, Observation], Question | None] | None = None
    """A further question that needs the answer to the first."""
    quick: bool = False
    """Whether it is made with `--quick`."""
    needs: tuple[str, ...] = ("reachable",)
    """Probes whose verdict has to be `works` for this one to make sense."""

    def questions_for(self, subject: Subject) -> tuple[Question, ...]:
        return self.questions if isinstance(self.questions, tuple) else self.questions(subject)

    def find(self, subject: Subject, observations: Sequence[Observation]) -> Finding:
        found = self.judge(subject, *observations)
        shown = observations[0].shown if observations else ""
        evidence = shown if found.evidence is None else found.evidence
        return Finding(self.name, found.verdict, found.summary, evidence, found.fix, found.fact, found.is_usable)


def cannot_tell(*observations: Observation) -> Judgement | None:
    """The judgement where an answer says nothing: a busy endpoint, or a reply that the limit cut off."""
    for observation in observations:
        kind = observation.failure.kind if observation.failure is not None else ""
        if observation.is_disturbed:
            later = "try again later" if kind in ("rate_limited", "overloaded") else ""
            fix = "allow more time for each probe: --seconds N" if kind == "timed_out" else later
            return unknown("the endpoint did not answer this question", fix, evidence=observation.shown)
        if observation.is_cut:
            words = "the reply reached the limit of tokens before it came to the point"
            return unknown(words, "allow longer replies: --tokens N", evidence=observation.shown)
    return None
