"""What a reply means for the run: an answer, calls, nothing, or a failure. Pure questions, asked by the machine."""

from __future__ import annotations

import re

from dragoman.agent.outcomes import Category, Outcome, end
from dragoman.agent.watching import is_blank
from dragoman.extraction import Extraction
from dragoman.providers import Fact, learn_from_error
from dragoman.types import Failure, FailureKind, File, Image, Reply

_RETRYABLE: frozenset[FailureKind] = frozenset(
    {"rate_limited", "overloaded", "timed_out", "stream_cut", "server_error", "unreachable"}
)
_REJECTIONS = frozenset({400, 404, 405, 415, 422, 501})
_about_tools = re.compile(r"\btools?\b|\btool_(?:choice|calls?)\b|\bfunctions?\b|function.?call", re.IGNORECASE).search
_about_something_else = re.compile(r"tool_call_id|tool_use_id|tool messages?|tool_result", re.IGNORECASE).search


def judge_failure(failure: Failure) -> Outcome:
    """How a run ends that could not get a reply."""
    words = failure.message or failure.code or failure.kind.replace("_", " ")
    reason = f"{words} (HTTP {failure.status})" if failure.status else words
    if failure.kind == "unauthorized":
        return end("unauthorized", reason)
    if failure.kind == "refused":
        return end("refused", reason)
    if failure.kind == "context_too_long":
        return end("context_full", reason)
    category: Category = "retryable" if failure.kind in _RETRYABLE else "fatal"
    return end("provider_failed", reason, category=category)


def learn_from(failure: Failure) -> Fact | None:
    """What a failure teaches of the endpoint: that it takes no tools, or wants another wire."""
    fact = learn_from_error(failure.message, failure.status)
    if fact is None and failure.body is not None:
        fact = learn_from_error(failure.body, failure.status)
    return fact


def rejects_tools(failure: Failure) -> bool:
    """Whether a refused request may have been refused for its tools, though the words are not known."""
    told = failure.message or str(failure.body or "")[:2000]
    is_rejection = failure.status in _REJECTIONS or failure.kind == "bad_request"
    return is_rejection and _about_tools(told) is not None and _about_something_else(told) is None


def only_refused(found: Extraction) -> bool:
    """Whether a reply consists of calls that do not count and of nothing else, so that its writer expects results."""
    if not found.refused or not found.notice:
        return False
    rest = found.text
    for entry in found.refused:
        rest = rest.replace(entry.raw, "", 1)
    return not rest.strip()


def is_empty(reply: Reply, found: Extraction) -> bool:
    """Whether nothing came of a reply that anybody could see."""
    return is_blank(found.text) and not any(isinstance(part, Image | File) for part in reply.message.parts)
