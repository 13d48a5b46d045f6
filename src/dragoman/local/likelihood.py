"""Likelihoods: whether a question needs a call, and of which tool, as a very small model sees it.

Such a model continues the pattern of its prompt, so its most likely reply is often a call that the question does not
need, or words where a call is needed. What the question *changes* says more. The same call is therefore weighed twice:
after the question, and after an empty question in its place. The difference has three terms: how much more likely any
call becomes, how likely the name of the tool is, and how much more likely the arguments become.

    opening   log P(opening | question) - log P(opening | empty)
    name      log P(name | question) - NAME_SHARE * log P(name | empty)
    rest      (log P(rest | question) - log P(rest | empty)) within +-REST_LIMIT, times REST_SHARE

If the sum exceeds THRESHOLD, the reply is the call, otherwise words. Of several tools, the one with the most likely
name is weighed. The numbers were tuned on 20 prompts of `benchmarks/weak_model.py` and on 68 other questions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.extraction.tool_mode import Alternatives, CallAlternative
from dragoman.formats.grammars.syntax import quote
from dragoman.types import JsonObject
from dragoman.wire.values import as_dict, dicts

THRESHOLD = 1.25
NAME_SHARE = 0.5
REST_SHARE = 1 / 3
REST_LIMIT = 4.0
_LONGEST_REST = 160
"""Bytes of the arguments that are weighed. The beginning decides, and every token costs time twice."""

Complete = Callable[[JsonObject], list[JsonObject]]
"""Answers one request, and returns the chunks of the reply; an empty list if the request failed or was cancelled."""


class Likelihood(Struct, frozen=True):
    """The logarithms of the probabilities of the three parts of a call."""

    opening: float = 0.0
    name: float = 0.0
    rest: float = 0.0


class Decision(Struct, frozen=True):
    """What to do with a request: `chunks` are the reply, or `body` is still to be sent."""

    body: JsonObject
    chunks: list[JsonObject] = []


def decide(body: JsonObject, complete: Complete) -> Decision:
    """Choose between a call and words, if the request lists the alternatives."""
    body = dict(body)
    try:
        alternatives = msgspec.convert(body.pop("alternatives", None), Alternatives | None)
    except msgspec.ValidationError:
        alternatives = None
    messages = list(dicts(body.get("messages")))
    if (
        alternatives is None
        or not alternatives.calls
        or not messages
        or not isinstance(messages[-1].get("content"), str)
    ):
        return Decision(body)
    empty = body | {"messages": [*messages[:-1], messages[-1] | {"content": ""}]}
    call = _choose(body, alternatives.calls, complete)
    if call is None:
        return Decision(body)
    chunks = complete(_scored(body, call.grammar))
    before = complete(_forced(empty, _cut(_text(chunks), call)))
    if not chunks or not before:
        # The request itself will show what is wrong with it.
        return Decision(body)
    if weigh(_measure(chunks, call), _measure(before, call)) > THRESHOLD:
        return Decision(body, [_without_scores(chunk) for chunk in chunks])
    return Decision(body | {"grammar": alternatives.reply})


def weigh(after: Likelihood, before: Likelihood) -> float:
    """Return how much a question speaks for a call: its likelihoods after the question and after an empty one."""
    rest = max(-REST_LIMIT, min(REST_LIMIT, after.rest - before.rest))
    return after.opening - before.opening + after.name - NAME_SHARE * before.name + REST_SHARE * rest


def _choose(body: JsonObject, calls: tuple[CallAlternative, ...], complete: Complete) -> CallAlternative | None:
    """Return the call with the most likely beginning; None if that cannot be measured."""
    if len(calls) == 1:
        return calls[0]
    found: list[tuple[float, CallAlternative]] = []
    for call in calls:
        chunks = complete(_forced(body, call.opening + call.name))
        if not chunks:
            return None
        measured = _measure(chunks, call)
        found.append((measured.opening + measured.name, call))
    return max(found, key=lambda each: each[0])[1]


def _scored(body: JsonObject, grammar: str) -> JsonObject:
    return body | {"grammar": grammar, "logprobs": True, "top_logprobs": 1}


def _forced(body: JsonObject, text: str) -> JsonObject:
    """Return a request whose only possible reply is this text."""
    tokens = len(text.encode()) + 1
    return _scored(body, f"root ::= {quote(text)}") | {"temperature": 0.0, "max_tokens": tokens, "stop": []}


def _cut(text: str, call: CallAlternative) -> str:
    beginning = len((call.opening + call.name).encode())
    return text.encode()[: beginning + _LONGEST_REST].decode(errors="ignore")


def _measure(chunks: list[JsonObject], call: CallAlternative) -> Likelihood:
    """Add up the tokens of each part. A token belongs to the part in which it begins."""
    opened = len(call.opening.encode())
    named = opened + len(call.name.encode())
    sums = [0.0, 0.0, 0.0]
    place = 0
    for token in _tokens(chunks):
        written = token.get("bytes") or []
        if written and place < named + _LONGEST_REST:
            sums[(place >= opened) + (place >= named)] += float(token.get("logprob") or 0.0)
        place += len(written)
    return Likelihood(*sums)


def _tokens(chunks: list[JsonObject]) -> list[JsonObject]:
    return [
        token
        for chunk in chunks
        for choice in dicts(chunk.get("choices"))
        for token in dicts(as_dict(choice.get("logprobs")).get("content"))
    ]


def _text(chunks: list[JsonObject]) -> str:
    return b"".join(bytes(token.get("bytes") or ()) for token in _tokens(chunks)).decode(errors="ignore")


def _without_scores(chunk: JsonObject) -> JsonObject:
    choices: list[Any] = [
        {name: value for name, value in choice.items() if name != "logprobs"} for choice in dicts(chunk.get("choices"))
    ]
    return chunk | {"choices": choices}
