"""Facts: what dragoman learned about endpoints, per URL and model, in a store that the caller provides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from dragoman.types import Failure, Message, Text, Tool

_MOST_OF_AN_ERROR = 20_000
_GENERATION = "failed_generation"
MOST_CHARACTERS_PER_TOKEN = 6
"""The average of no tokenizer exceeds this, so it gives the least number of tokens of a text."""
_LEAST_DEFINED = 32
"""Tokens. Smaller definitions disappear in the text that a prompt template adds."""
# A rejected key, or too many requests, says nothing about tools.
_UNRELATED = frozenset({401, 402, 403, 407, 408, 409, 413, 429})
_refuses_tools = re.compile(
    r"does not support (?:tools?\b|tool[ _-]?(?:use|call)|function[ _-]?call)"
    r"|do(?:es)? not (?:currently )?support function calling"
    r"|\btools?['\"`]? (?:is|are) not (?:supported|enabled)"
    r"|tool use is not"
    r"|function[ _-]?calling is not (?:supported|enabled)"
    r"|requires --enable-auto-tool-choice"
    r"|no endpoints found that support tool use"
    r"|(?:unknown|unsupported|unrecogni[sz]ed) (?:parameter|field|argument|request argument)s?[^\w\n]{1,4}tools\b",
    re.IGNORECASE,
).search
_refuses_system = re.compile(
    r"system (?:role|messages?|prompts?|instructions?) (?:(?:is|are) )?not (?:supported|enabled|allowed)"
    r"|do(?:es)? not support (?:the |a )?system (?:role|messages?|prompts?|instructions?)"
    r"|developer instruction is not enabled",
    re.IGNORECASE,
).search
_wants_turns = re.compile(r"roles must alternate", re.IGNORECASE).search
_NO_TOOLS = 516
"""The status by which some servers say that they have no tools."""
_cannot_read_call = re.compile(
    r"failed to parse (?:input\b|(?:the )?tool[ _-]?calls?\b|(?:the )?(?:generated|model)\b)"
    r"|(?:error|failure|failed) (?:while )?parsing (?:the )?tool[ _-]?calls?\b"
    r"|tool[ _-]?call parsing (?:error|failed)",
    re.IGNORECASE,
).search
_wants_responses = re.compile(r"function tools with reasoning_effort .{0,200}/v1/responses", re.IGNORECASE).search


class Fact(Struct, frozen=True):
    """What dragoman learned about an endpoint. Unknown fields are None or empty."""

    native_tool_calls: bool | None = None
    wire: str = ""
    """The wire that the endpoint requires."""
    why: str = ""
    """The message of the endpoint."""
    quirks: dict[str, Any] = field(default_factory=dict)
    """Flags of `dragoman.wire.quirks.Quirks` that differ from the rows."""
    capabilities: dict[str, Any] = field(default_factory=dict)
    """Capabilities that differ from the rows."""
    format: str = ""
    """The text format that works best with the model."""

    def __or__(self, later: Fact) -> Fact:
        """Return the merged fact; where they differ, the later one counts."""
        return Fact(
            self.native_tool_calls if later.native_tool_calls is None else later.native_tool_calls,
            later.wire or self.wire,
            later.why or self.why,
            {**self.quirks, **later.quirks},
            {**self.capabilities, **later.capabilities},
            later.format or self.format,
        )


class Facts(Protocol):
    """A store of facts: in memory, in a file, in a database. The keys are normalised base URLs and models."""

    def get(self, endpoint_url: str, model: str) -> Fact | None:
        """Return what is known about a model at an endpoint, or None."""
        ...

    def put(self, endpoint_url: str, model: str, fact: Fact) -> None:
        """Store what was learned about a model at an endpoint."""
        ...


class MemoryFacts:
    """Facts in memory, for the lifetime of the process."""

    def __init__(self) -> None:
        self._facts: dict[tuple[str, str], Fact] = {}

    def get(self, endpoint_url: str, model: str) -> Fact | None:
        return self._facts.get((endpoint_url, model))

    def put(self, endpoint_url: str, model: str, fact: Fact) -> None:
        self._facts[endpoint_url, model] = fact

    def __len__(self) -> int:
        return len(self._facts)


def learn_from_error(error: object, status: int | None = None) -> Fact | None:
    """Return the fact in an error answer, or None. `error` is its text, its body as JSON, or an exception."""
    if status in _UNRELATED or (status is not None and status < 400):
        return None
    words = _text_of(error)[:_MOST_OF_AN_ERROR]
    if _wants_responses(words):
        return Fact(wire="openai_responses", why=_shorten(words))
    if _refuses_system(words):
        return Fact(why=_shorten(words), quirks={"system_role": False, "alternates": True})
    if _wants_turns(words):
        return Fact(why=_shorten(words), quirks={"alternates": True})
    if status == _NO_TOOLS or _refuses_tools(words):
        return Fact(native_tool_calls=False, why=_shorten(words) or f"status {_NO_TOOLS}")
    return None


def learn_from_failure(failure: Failure) -> Fact | None:
    """Return the fact that a failure reveals about the endpoint: it accepts no tools, or needs another wire."""
    fact = learn_from_error(failure.message, failure.status)
    if fact is None and failure.body is not None:
        fact = learn_from_error(failure.body, failure.status)
    return fact


# ---- a server that cannot read the model's own call ------------------------------------------------------------------


def find_generation(failure: Failure) -> str | None:
    """Return the output of the model in a failure, if the server gives it because it cannot read a call in it.

    It is empty if the server hides the output. None means that the failure has another cause.
    """
    body = failure.body
    entry = body.get("error", body) if isinstance(body, Mapping) else None
    written = entry.get(_GENERATION) if isinstance(entry, Mapping) else None
    if isinstance(written, str) and written.strip():
        return written
    return "" if failure.code == "tool_use_failed" or written == "" else None


def cannot_read_call(failure: Failure) -> bool:
    """Whether a server failed because it cannot read a call that the model wrote. The same request may fail again."""
    if find_generation(failure) is not None:
        return True
    is_own = failure.status is None or failure.status >= 500
    return is_own and _cannot_read_call(failure.message[:_MOST_OF_AN_ERROR]) is not None


def learn_from_usage(messages: Iterable[Message], tools: Iterable[Tool], input_tokens: int) -> Fact | None:
    """Return the fact that an endpoint ignores tools, if the reported tokens of a request cannot hold its definitions.

    Every prompt template contains the names and descriptions, whatever else it leaves out. A token has at most six
    characters on average, in every tokenizer and for every text without runs of white space.
    """
    said = sum(_visible(part.text) for message in messages for part in message.parts if isinstance(part, Text))
    defined = sum(_visible(text) for tool in tools for text in _words_of(tool))
    least_said, least_defined = said // MOST_CHARACTERS_PER_TOKEN, defined // MOST_CHARACTERS_PER_TOKEN
    # A number that is too small for the messages alone is wrong, or does not count the tokens from a cache.
    is_plausible = 0 < input_tokens >= least_said
    if not is_plausible or least_defined < _LEAST_DEFINED or input_tokens >= least_said + least_defined:
        return None
    why = f"it reports {input_tokens} tokens for a prompt that has at least {least_said + least_defined} with the tools"
    return Fact(native_tool_calls=False, why=why)


def _visible(text: str) -> int:
    return sum(map(len, text.split()))


def _words_of(tool: Tool) -> Iterator[str]:
    yield tool.name
    yield tool.description
    properties = tool.parameters.get("properties")
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name)
        if isinstance(schema, Mapping):
            yield str(schema.get("description") or "")


def learn_from_show(body: object) -> Fact | None:
    """Return the fact in Ollama's answer to /api/show: whether its `capabilities` include `tools`.

    It is for programs that query an endpoint before the first request, such as a gateway.
    """
    listed = body.get("capabilities") if isinstance(body, Mapping) else None
    if not isinstance(listed, list):
        return None
    return Fact(native_tool_calls="tools" in listed, why="/api/show: " + _shorten(", ".join(map(str, listed))))


def _text_of(error: object) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, bytes):
        return error.decode("utf-8", "replace")
    if isinstance(error, Mapping | list):
        return _flatten(error)
    return str(error)


def _flatten(body: Any) -> str:
    """Return all strings in a body of any shape. In its JSON the quotes would be escaped."""
    found: list[str] = []
    waiting: list[Any] = [body]
    while waiting and len(found) < 1000:
        value = waiting.pop()
        if isinstance(value, str):
            found.append(value)
        elif isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return "\n".join(found)


def _shorten(words: str) -> str:
    plain = " ".join(words[:1000].split())
    return plain if len(plain) <= 200 else plain[:199] + "…"
