"""Probes of answers, finish reasons and token usage."""

from __future__ import annotations

from dragoman.doctor.probe import (
    Judgement,
    Observation,
    Question,
    Subject,
    absent,
    broken,
    cannot_tell,
    handled,
    unknown,
    user,
    works,
)
from dragoman.providers import Fact
from dragoman.secrets.exchanges import show_address
from dragoman.wire.registry import ROWS

_SHORT = 16
_LAST = "60"
_COPES = "nothing to do: dragoman checks the calls; other clients may ignore them"
GREETING = Question("greeting", [user("What is the capital of France? Answer in one short sentence.")])
COUNTING = Question("counting", [user("Count from one to ten, in words.")], stream=True)
LIMITED = Question(
    "limited",
    [user(f"Write the numbers from 1 to {_LAST}, separated by blanks, and nothing else.")],
    options={"max_tokens": _SHORT},
)


def judge_reachable(subject: Subject, observation: Observation) -> Judgement:
    if observation.failure is None:
        return works(f"it answered in {observation.seconds:.1f} s")
    endpoint = subject.endpoint
    keys = " or ".join(endpoint.key_names)
    row = f"`dragoman providers {endpoint.provider.name}` shows the provider"
    words, fix = {
        "unauthorized": ("it rejects the key, or needs one", f"set {keys}" if keys else "pass the key: --key-env NAME"),
        "not_found": (
            f"it does not know {endpoint.model!r}, or the path is wrong",
            f"check the model and the URL; {row}",
        ),
        "unreachable": (
            f"no server answers at {show_address(endpoint.base_url)}",
            "start the server, or check the URL",
        ),
        "insecure": ("its certificate is not trusted", "check the URL, or name the file of its CA in SSL_CERT_FILE"),
        "timed_out": ("it did not answer in time", "allow more time for each probe: --seconds N"),
        "rate_limited": ("it currently allows no more requests", "try again later, or check the quota of the key"),
        "overloaded": ("it is too busy to answer", "try again later"),
        "broken_protocol": (
            f"the answer is not valid on the wire {subject.wire}",
            f"it may have another wire: --wire NAME; {row}",
        ),
    }.get(observation.failure.kind, ("it rejected the simplest request", f"read its message; {row}"))
    return broken(words, fix)


def judge_finish(subject: Subject, answer: Observation, called: Observation | None = None) -> Judgement:
    wire = subject.wire
    observations = [answer, *([called] if called is not None else [])]
    if doubt := cannot_tell(*observations):
        return doubt
    if answer.reply.stop != "end":
        said = answer.reason(wire)
        words = f"an answer ended with {said!r}" if said else "an answer ended without a finish reason"
        return handled(words, _COPES, evidence=f"finish reason {said!r}")
    expected = ROWS[wire].call_reasons if wire in ROWS else ()
    if called is not None and called.reply.calls and expected and called.reason(wire) not in expected:
        said = called.reason(wire)
        words = f"a reply with a call ended with {said!r}, not {expected[0]!r}"
        return handled(words, _COPES, evidence=f"finish reason {said!r}")
    seen = " and ".join(filter(None, dict.fromkeys(observation.reason(wire) for observation in observations)))
    return works(f"it is {seen}" if seen else "this wire has none", evidence="")


def judge_limit(subject: Subject, observation: Observation) -> Judgement:
    if observation.reply.stop == "length":
        return works(f"it marks a reply that was truncated after {_SHORT} tokens", evidence="")
    if observation.failure is not None:
        judge = unknown if observation.is_disturbed else absent
        return judge(f"a limit of only {_SHORT} tokens made the request fail")
    if _LAST in observation.reply.text:
        fix = 'set the quirk max_tokens_field to "max_tokens" or "max_completion_tokens"'
        return broken("the token limit is ignored", fix)
    if observation.reply.usage.output_tokens >= _SHORT:
        fix = "dragoman now checks the usage: the quirk masks_length"
        words = f"a truncated reply ended with {observation.reason(subject.wire)!r}"
        return handled(words, fix, Fact(quirks={"masks_length": True}))
    return unknown("the reply was too short to be truncated")


def judge_usage(subject: Subject, *observations: Observation) -> Judgement:
    told = [observation for observation in observations if observation.reply.usage.output_tokens]
    # A stream without its last frame may still report usage.
    answered = [each for each in observations if each.failure is None or each.was_stream_cut]
    silent = [observation for observation in answered if observation not in told]
    if not told and not silent:
        return cannot_tell(*observations) or unknown("no reply arrived that could report usage", evidence="")
    if not silent:
        usage = told[0].reply.usage
        return works(f"it reports {usage.input_tokens} input and {usage.output_tokens} output tokens", evidence="")
    where = "" if not told else " of a stream" if silent[0].question.stream else " of a whole reply"
    fix = "limits of tokens and costs use estimates here; the server's operator may be able to switch it on"
    return handled(f"the usage{where} is not reported", fix, evidence="")
