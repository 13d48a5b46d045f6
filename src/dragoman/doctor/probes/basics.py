"""Does it answer at all, does it say why it stopped, and does it count?"""

from __future__ import annotations

from dragoman.doctor.probe import (
    Finding,
    Observation,
    Observations,
    Probe,
    Question,
    Subject,
    Verdict,
    cannot_tell,
    user,
)
from dragoman.providers import Fact
from dragoman.types import Failure
from dragoman.wire.registry import ROWS

_SHORT = 16
_LAST = "60"


def greeting() -> Question:
    """The plainest question there is."""
    return Question("greeting", [user("What is the capital of France? Answer in one short sentence.")])


def counting() -> Question:
    """A streamed answer of several words."""
    return Question("counting", [user("Count from one to ten, in words.")], stream=True)


# ---- reachable -----------------------------------------------------------------------------------------------------


def _judge_reachable(subject: Subject, observations: Observations) -> Finding:
    observation = observations[0]
    if observation.failure is None:
        return Finding("reachable", "works", f"it answered in {observation.seconds:.1f} s", observation.shown)
    words, fix = _explain(observation.failure, subject)
    return Finding("reachable", "broken", words, observation.shown, fix)


def _explain(failure: Failure, subject: Subject) -> tuple[str, str]:
    endpoint = subject.endpoint
    keys = " or ".join(endpoint.key_names)
    row = f"`dragoman providers {endpoint.provider.name}` shows what is known of it"
    return {
        "unauthorized": ("it refuses the key, or wants one", f"set {keys}" if keys else "pass the key: --key-env NAME"),
        "not_found": (f"it does not know {endpoint.model!r}, or the path is wrong", f"check model and address; {row}"),
        "unreachable": (f"nobody answers at {endpoint.base_url}", "start the server, or give its address"),
        "insecure": ("its certificate is not to be trusted", "check the address; a server of your own may use http"),
        "timed_out": ("it did not answer in time", "allow more time for each probe: --seconds N"),
        "rate_limited": ("it allows no more requests for now", "try again later, or check the quota of the key"),
        "overloaded": ("it is too busy to answer", "try again later"),
        "broken_protocol": (f"what it sent is not {subject.wire}", f"it may speak another wire: --wire NAME; {row}"),
    }.get(failure.kind, ("it refused the plainest question", f"read what it says; {row}"))


# ---- finish reasons ------------------------------------------------------------------------------------------------


def _finish_questions(subject: Subject) -> tuple[Question, ...]:
    from dragoman.doctor.probes.calls import weather

    return (greeting(), weather()) if subject.native else (greeting(),)


def _judge_finish(subject: Subject, observations: Observations) -> Finding:
    name, wire = "finish_reason", subject.wire
    doubt = cannot_tell(name, observations)
    if doubt is not None:
        return doubt
    answer = observations[0]
    if answer.reply.stop != "end":
        said = answer.reason(wire)
        words = f"an answer ended with {said!r}" if said else "an answer ended without a finish reason"
        return Finding(name, "broken", words, f"finish reason {said!r}", _COPES)
    called = observations[1] if len(observations) > 1 and observations[1].reply.calls else None
    expected = ROWS[wire].call_reasons if wire in ROWS else ()
    if called is not None and expected and called.reason(wire) not in expected:
        said = called.reason(wire)
        words = f"a reply with a call ended with {said!r}, not {expected[0]!r}"
        return Finding(name, "broken", words, f"finish reason {said!r}", _COPES)
    seen = " and ".join(filter(None, dict.fromkeys(observation.reason(wire) for observation in observations)))
    return Finding(name, "works", f"said {seen}" if seen else "as this wire has it")


_COPES = "nothing to do here: dragoman goes by the calls; other clients may ignore them"


# ---- the limit of tokens -------------------------------------------------------------------------------------------


def _limited(subject: Subject) -> tuple[Question, ...]:
    words = f"Write the numbers from 1 to {_LAST}, separated by blanks, and nothing else."
    return (Question("limited", [user(words)], options={"max_tokens": _SHORT}),)


def _judge_limit(subject: Subject, observations: Observations) -> Finding:
    name, observation = "length", observations[0]
    if observation.reply.stop == "length":
        return Finding(name, "works", f"a reply that was cut after {_SHORT} tokens says so")
    if observation.failure is not None:
        verdict: Verdict = "unknown" if observation.is_disturbed else "broken"
        return Finding(name, verdict, f"a limit of {_SHORT} tokens made the request fail", observation.shown)
    if _LAST in observation.reply.text:
        fix = 'set the quirk max_tokens_field to "max_tokens" or "max_completion_tokens"'
        return Finding(name, "broken", "the limit of tokens is ignored", observation.shown, fix)
    if observation.reply.usage.output_tokens >= _SHORT:
        fix = "set the quirk masks_length: the count of tokens then tells"
        fact = Fact(quirks={"masks_length": True})
        words = f"a reply that was cut ended with {observation.reason(subject.wire)!r}"
        return Finding(name, "broken", words, observation.shown, fix, fact)
    return Finding(name, "unknown", "the reply was too short to be cut", observation.shown)


# ---- usage ---------------------------------------------------------------------------------------------------------


def _judge_usage(subject: Subject, observations: Observations) -> Finding:
    name = "usage"
    told = [observation for observation in observations if observation.reply.usage.output_tokens]
    silent = [observation for observation in observations if observation not in told and not _failed(observation)]
    if not told and not silent:
        return cannot_tell(name, observations) or Finding(name, "unknown", "no reply came that could have counted")
    if not silent:
        usage = told[0].reply.usage
        return Finding(name, "works", f"{usage.input_tokens} tokens in and {usage.output_tokens} out were counted")
    where = "" if not told else " of a stream" if silent[0].question.stream else " of a whole reply"
    fix = "limits of tokens and costs go by estimates here; ask the server's operator to report usage"
    return Finding(name, "broken", f"the tokens{where} are not counted", "", fix)


def _failed(observation: Observation) -> bool:
    # A stream without its last frame has counted all the same.
    return observation.failure is not None and observation.failure.kind != "stream_cut"


PROBES = (
    Probe("reachable", "It answers", lambda subject: (greeting(),), _judge_reachable, quick=True),
    Probe(
        "usage",
        "It counts tokens",
        lambda subject: (greeting(), counting()),
        _judge_usage,
        quick=True,
        needs=("reachable",),
    ),
    Probe("length", "It says when it was cut", _limited, _judge_limit, needs=("reachable",)),
)
FINISH = Probe(
    "finish_reason", "It says why it stopped", _finish_questions, _judge_finish, quick=True, needs=("reachable",)
)
"""Made after the native calls, for it looks at them."""
