"""From a recording to an entry of the store, with every secret hidden.

Secrets are the keys of the endpoints and of the client, wherever they occur, and whatever the scrubber finds. The
pieces of a stream need a second look: a model writes a secret token by token, so no piece of it looks like one. The
strings at the same place of all frames are joined and scrubbed; if there is a secret in them, the reply is kept as a
whole instead of its stream.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Protocol
from urllib.parse import parse_qsl

import msgspec
from msgspec.structs import replace

from dragoman import wire as wires
from dragoman.events import RefusalDelta, TextDelta, ThinkingDelta
from dragoman.extraction import Extraction
from dragoman.extraction.tool_mode import ComposedRequest
from dragoman.pipeline import Verdict
from dragoman.pipeline.report import Report
from dragoman.providers.prices import Prices
from dragoman.replies import fold
from dragoman.secrets import HumanSink, worth_hiding
from dragoman.secrets.exchanges import show_address
from dragoman.secrets.fields import is_secret_header
from dragoman.server.inspector.capture import BEYOND, MOST_OF_A_BODY, Arrival, RawHop, Recording
from dragoman.server.inspector.store import Entry, Held, Hop, Mark, Sent, Turn, encode_entry
from dragoman.types import InvalidCall, JsonObject, Provenance, Request, Tool, ToolCall
from dragoman.wire.values import BROKEN, parse

HIDDEN = "[redacted]"
_LONGEST_PROMPT = 120
_LONGEST_SECRET = 400
_MOST_SHOWN = 500
"""Calls of one reply, and tools of one request."""
_TOO_LARGE = "[too large]"
_LEAST_REMEMBERED = 256
_MOST_REMEMBERED = 20_000
_MOST_SINKS = 16
_MOST_PARSED = 8 * 1024 * 1024
_SPLIT_NOTE = "the pieces of the stream make up a secret, so the reply is shown as a whole"
_SHOWN_HEADERS = frozenset(
    {"accept", "anthropic-beta", "anthropic-version", "content-type", "openai-beta", "retry-after", "user-agent"}
)
"""Headers that are kept with their values. Of the others only the names matter, if at all."""
_surrogates = re.compile("[\ud800-\udfff]").sub
_INDEXES = ("index", "output_index", "content_index")
_DEEPEST = 100
_path_steps = re.compile(r"[^./\[\]\"'$]+").findall


class Sink(Protocol):
    """What hides the secrets of a text or a value."""

    def text(self, text: str) -> str: ...

    def value(self, value: Any) -> Any: ...

    def spans(self, text: str) -> list[tuple[int, int, str]]: ...


def _without_surrogates(text: str) -> str:
    """Return a text that can be written. JSON may contain halves of characters; each is replaced by one character."""
    return text if text.isascii() else _surrogates("\ufffd", text)


class RepeatSink(HumanSink):
    """Scans a long text once. Agent programs send the whole conversation with every request.

    It keeps digests of texts without a secret, and no text.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__(list(secrets))
        self._clean: set[bytes] = set()

    def text(self, text: str) -> str:
        text = _without_surrogates(text)
        if len(text) < _LEAST_REMEMBERED:
            return super().text(text)
        digest = blake2b(text.encode(), digest_size=16).digest()
        if digest in self._clean:
            return text
        shown = super().text(text)
        if shown == text:
            if len(self._clean) >= _MOST_REMEMBERED:
                self._clean.clear()
            self._clean.add(digest)
        return shown


class Redactor:
    """Makes entries. `secrets` are the known ones of the gateway."""

    def __init__(self, secrets: Iterable[str] = (), prices: Prices | None = None) -> None:
        self._secrets = [secret for secret in secrets if worth_hiding(secret)]
        self._prices = prices
        self.sink = RepeatSink(self._secrets)
        self._sinks: dict[frozenset[str], RepeatSink] = {}
        """By the keys of clients, which are few."""

    def open(self, recording: Recording) -> Entry:
        """Return the entry of an exchange that begins: its names only."""
        report, arrival = recording.report, recording.arrival
        known = Report(
            report.id,
            report.wire,
            self.sink.text(report.requested_model[:200]),
            slot=report.slot,
            client=report.client,
        )
        sent = Sent(arrival.method, self.sink.text(arrival.path[:500]))
        return Entry(
            report.id, recording.number, recording.began, sent, known, replay_of=recording.replay_of, running=True
        )

    def close(self, recording: Recording) -> Entry:
        """Return the entry of an exchange that has ended."""
        sink = self._know(recording)
        report = _clean_report(sink, recording.report)
        if not report.seconds:
            report.seconds = round(recording.seconds, 4)
        profile, request = recording.profile, recording.request
        entry = Entry(
            report.id,
            recording.number,
            recording.began,
            _clean_arrival(sink, recording.arrival),
            report,
            [_clean_hop(sink, hop) for hop in recording.hops],
            [_clean_turn(sink, composed, verdict) for composed, verdict in recording.turns],
            [_show_tool(sink, tool) for tool in request.tools[:_MOST_SHOWN]]
            if len(recording.arrival.body) <= _MOST_PARSED
            else [],
            "compat" if profile == "passthrough" else profile,
            profile,
            self._find_cost(recording),
            _find_prompt(sink, request),
            recording.replay_of,
        )
        return replace(entry, size=max(entry.size, len(encode_entry(entry))))

    def _know(self, recording: Recording) -> HumanSink:
        """Return a sink that also knows the keys in the headers of this exchange."""
        arrival = recording.arrival
        given = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in arrival.headers]
        for hop in recording.hops:
            given += hop.request.headers.items()
        found = {part for name, value in given if is_secret_header(name) for part in _list_keys(name, value)}
        found |= {value for name, value in parse_qsl(arrival.raw_query) if is_secret_header(name) or name == "key"}
        fresh = frozenset(value for value in found if worth_hiding(value) and value not in self._secrets)
        if not fresh:
            return self.sink
        if fresh not in self._sinks:
            if len(self._sinks) >= _MOST_SINKS:
                self._sinks.clear()
            self._sinks[fresh] = RepeatSink([*self._secrets, *fresh])
        return self._sinks[fresh]

    def _find_cost(self, recording: Recording) -> float | None:
        usage, model = recording.report.usage, recording.report.model
        if self._prices is None or not (usage.input_tokens or usage.output_tokens):
            return None
        for endpoint, name in recording.candidates:
            if model in (name, f"{endpoint.provider.name}:{name}"):
                return self._prices.cost(endpoint, name, usage)
        return None


def _list_keys(name: str, value: str) -> list[str]:
    """Return the secrets in a header: what follows the scheme, or the values of cookies."""
    if name.lower() in ("cookie", "set-cookie"):
        return [pair.partition("=")[2].strip() for pair in value.split(";")]
    return value.split()[-1:]


# ---- requests and answers --------------------------------------------------------------------------------------------


def clean_body(sink: HumanSink, data: bytes) -> tuple[str, bool]:
    """Return a body without secrets, and whether it is only a beginning."""
    value = parse(data) if len(data) <= _MOST_PARSED else BROKEN
    if isinstance(value, dict | list):
        text = msgspec.json.encode(sink.value(value)).decode()
        return text[:MOST_OF_A_BODY], len(text) > MOST_OF_A_BODY
    text = clean_text(sink, data[: MOST_OF_A_BODY + BEYOND].decode("utf-8", "backslashreplace"))
    return text, len(data) > MOST_OF_A_BODY or len(text) == MOST_OF_A_BODY


def clean_text(sink: Sink, text: str) -> str:
    """Return the beginning of a text without secrets. It is redacted before it is cut."""
    return sink.text(text[: MOST_OF_A_BODY + BEYOND])[:MOST_OF_A_BODY]


def clean_headers(sink: HumanSink, headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the headers that tell something, and the names of those with secrets."""
    kept: dict[str, str] = {}
    for name, value in headers:
        low = name.lower()
        if is_secret_header(low):
            kept[low] = HIDDEN
        elif low in _SHOWN_HEADERS:
            kept[low] = sink.text(value[:500])
    return kept


def _clean_arrival(sink: HumanSink, arrival: Arrival) -> Sent:
    body, is_cut = clean_body(sink, arrival.body)
    target = arrival.path + (f"?{arrival.query}" if arrival.query else "")
    headers = clean_headers(
        sink, [(name.decode("latin-1"), value.decode("latin-1")) for name, value in arrival.headers]
    )
    return Sent(arrival.method, _clean_url(sink, target), headers, body, is_cut)


def _clean_url(sink: HumanSink, url: str) -> str:
    return sink.text(show_address(url[:2000]))


def _clean_hop(sink: HumanSink, hop: RawHop) -> Hop:
    request = hop.request
    sent_body, is_cut = clean_body(sink, request.body)
    sent = Sent(
        request.method, _clean_url(sink, request.url), clean_headers(sink, request.headers.items()), sent_body, is_cut
    )
    data = b"".join(hop.pieces)
    note = sink.text(hop.fault)
    body, is_cut = clean_body(sink, data)
    if is_split_secret(sink, data, hop.wire):
        body, is_cut = _write_whole(sink, data, hop.wire, is_cut=hop.size > len(data))
        note = "; ".join(filter(None, (note, _SPLIT_NOTE)))
    if is_cut:
        note = "; ".join(filter(None, (note, f"the first part of {hop.size} bytes")))
    wait = (hop.head_at or hop.ended) - hop.began
    headers = clean_headers(sink, hop.headers.items())
    return Hop(sent, hop.status, headers, body, note, round(wait, 4), round((hop.ended or hop.began) - hop.began, 4))


def is_split_secret(sink: HumanSink, data: bytes, wire: str) -> bool:
    """Whether the frames of a stream contain a secret that none of them contains alone."""
    joined: dict[tuple[object, ...], list[str]] = {}
    frames = 0
    for line in data.splitlines():
        value = parse(line.removeprefix(b"data:").strip()) if line[:5] == b"data:" or line[:1] == b"{" else BROKEN
        if not isinstance(value, dict | list):
            continue
        frames += 1
        for path, text in _leaves(value, ()):
            joined.setdefault(path, []).append(text)
    if frames > 1 and any(len(set(parts)) > 1 and sink.spans("".join(parts)) for parts in joined.values()):
        return True
    # Frames of a binary protocol are no lines; its codec reads them.
    return frames == 0 and bool(data) and data[:1] not in b"{[<" and _has_secret(sink, _read_reply(data, wire))


def _leaves(value: Any, path: tuple[object, ...]) -> Iterator[tuple[tuple[object, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif len(path) > _DEEPEST:
        return
    elif isinstance(value, dict):
        # The pieces of several calls in one stream are told apart by their index.
        here = (*path, *(value[name] for name in _INDEXES if isinstance(value.get(name), int)))
        for name, inner in value.items():
            yield from _leaves(inner, (*here, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, (*path, "[]"))


def _read_reply(data: bytes, wire: str) -> Any:
    try:
        stream = wires.get(wire).reply_stream()
    except KeyError:
        return ""
    return msgspec.to_builtins(fold([*stream.feed(data), *stream.close()]).message.parts)


def _has_secret(sink: HumanSink, value: Any) -> bool:
    return bool(sink.value(value) != value)


def _write_whole(sink: HumanSink, data: bytes, wire: str, *, is_cut: bool) -> tuple[str, bool]:
    value = sink.value(_read_reply(data, wire))
    # At the end of what was kept there may be the beginning of a secret, which nothing recognises.
    text = msgspec.json.encode(_without_ends(value) if is_cut else value).decode()
    return text[:MOST_OF_A_BODY], is_cut or len(text) > MOST_OF_A_BODY


def _without_ends(value: Any) -> Any:
    if isinstance(value, str):
        return value[:-_LONGEST_SECRET] if len(value) > _LONGEST_SECRET else ""
    if isinstance(value, dict):
        return {name: inner if name == "type" else _without_ends(inner) for name, inner in value.items()}
    return [_without_ends(inner) for inner in value] if isinstance(value, list) else value


def _find_prompt(sink: HumanSink, request: Request) -> str:
    """Return the beginning of the last words of the user, for the list."""
    words = next(
        (message.text for message in reversed(request.messages) if message.role == "user" and message.text), ""
    )
    return " ".join(sink.text(words[:BEYOND]).split())[:_LONGEST_PROMPT]


def _show_tool(sink: HumanSink, tool: Tool) -> JsonObject:
    shown: JsonObject = sink.value(
        {"name": tool.name, "description": tool.description, "parameters": msgspec.to_builtins(tool.parameters)}
    )
    return shown


def _clean_report(sink: HumanSink, report: Report) -> Report:
    cleaned = msgspec.convert(sink.value(msgspec.to_builtins(report)), Report, strict=False)
    # Numbers and identifiers of the gateway itself.
    cleaned.usage, cleaned.seconds, cleaned.tools, cleaned.id = report.usage, report.seconds, report.tools, report.id
    return cleaned


# ---- replies ---------------------------------------------------------------------------------------------------------


class CleanText:
    """A text without secrets, and the places of the original in it."""

    def __init__(self, sink: Sink, text: str) -> None:
        pieces: list[str] = []
        self._edges: list[tuple[int, int, int, int]] = []
        """Of each secret: start and end in the original, start and end here."""
        at = length = 0
        text = _without_surrogates(text[: MOST_OF_A_BODY + BEYOND])
        for start, end, kind in sorted(sink.spans(text)):
            if start < at:
                continue
            shown = f"[redacted:{kind}]"
            pieces += (text[at:start], shown)
            length += start - at
            self._edges.append((start, end, length, length + len(shown)))
            length += len(shown)
            at = end
        self.text = "".join([*pieces, text[at:]])[:MOST_OF_A_BODY]
        self._starts = [edge[0] for edge in self._edges]

    def place(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return a span of the original in the clean text. A secret at its edge is inside it."""
        return self._move(span[0], is_end=False), self._move(span[1], is_end=True)

    def _move(self, at: int, *, is_end: bool) -> int:
        found = bisect_right(self._starts, at - is_end) - 1
        if found < 0:
            return at
        _, end, here, here_end = self._edges[found]
        if at < end:
            return here_end if is_end else here
        return here_end + at - end


def clean_call(sink: Sink, call: ToolCall, place: Callable[[Provenance | None], Provenance | None]) -> ToolCall:
    """Return a call without secrets."""
    changes = tuple(
        replace(
            change,
            before=_clean_value(sink, change.path, change.before),
            after=_clean_value(sink, change.path, change.after),
        )
        for change in call.changes
    )
    arguments = msgspec.to_builtins(call.arguments)
    size = len(msgspec.json.encode(arguments))
    return replace(
        call,
        name=sink.text(call.name),
        arguments=sink.value(arguments) if size <= MOST_OF_A_BODY else {_TOO_LARGE: size},
        raw=clean_text(sink, call.raw),
        changes=changes,
        provenance=place(call.provenance),
        extra={},
        wire_id=None,
    )


def _clean_value(sink: Sink, path: str, value: Any) -> Any:
    """Return a value without secrets; its name may say that it is one."""
    name = (_path_steps(path) or [""])[-1]
    return sink.value({name: msgspec.to_builtins(value, enc_hook=str)}).popitem()[1]


def _clean_invalid(
    sink: Sink, call: InvalidCall, place: Callable[[Provenance | None], Provenance | None]
) -> InvalidCall:
    faults = tuple(replace(fault, why=sink.text(fault.why)) for fault in call.faults)
    origin = place(call.provenance)
    raw, name = clean_text(sink, call.raw), sink.text(call.name)
    return replace(call, raw=raw, name=name, faults=faults, provenance=origin, extra={}, wire_id=None)


def _clean_turn(sink: HumanSink, composed: ComposedRequest, verdict: Verdict) -> Turn:
    mode, found = composed.chosen_mode, verdict.extraction
    words = [
        event.text for event in verdict.received if isinstance(event, TextDelta) and type(event) is not RefusalDelta
    ]
    text = CleanText(sink, "".join(words))
    thoughts = "".join(event.text for event in verdict.received if isinstance(event, ThinkingDelta))

    def place(origin: Provenance | None) -> Provenance | None:
        return None if origin is None else replace(origin, span=text.place(origin.span))

    native = [
        clean_call(sink, part, place) if isinstance(part, ToolCall) else _clean_invalid(sink, part, place)
        for part in fold(verdict.received).message.parts[:_MOST_SHOWN]
        if isinstance(part, ToolCall | InvalidCall)
    ]
    cleaned = clean_extraction(sink, found, text)
    return Turn(
        text.text,
        clean_text(sink, thoughts),
        native,
        [clean_call(sink, call, place) for call in verdict.calls[:_MOST_SHOWN]],
        cleaned.held,
        cleaned.marks,
        verdict.stop if verdict.failure is None else "error",
        sink.text(found.notice),
        mode.mode,
        mode.format if mode.mode == "text" else "",
        mode.trust if isinstance(mode.trust, str) else "",
        mode.family,
        mode.endpoint.profile.opens_thinking,
    )


def clean_extraction(sink: Sink, found: Extraction, text: CleanText) -> Turn:
    """Return the calls of an extraction, and their marks in a text."""

    def place(origin: Provenance | None) -> Provenance | None:
        return None if origin is None else replace(origin, span=text.place(origin.span))

    calls = [clean_call(sink, call, place) for call in found.calls[:_MOST_SHOWN]]
    held: list[Held] = []
    marks = [Mark("call", call.name, _span_of(call)) for call in calls]
    for entry in found.refused[:_MOST_SHOWN]:
        refused, why = clean_call(sink, entry.call, place), sink.text(entry.why)
        held.append(Held("refused", refused.name, why, refused.arguments))
        marks.append(Mark("refused", refused.name, _span_of(refused), why))
    for call in found.invalid[:_MOST_SHOWN]:
        broken = _clean_invalid(sink, call, place)
        why = "; ".join(map(str, broken.faults)) or broken.kind
        held.append(Held("invalid", broken.name, why))
        marks.append(Mark("invalid", broken.name, _span_of(broken), why))
    for suspect in found.suspects[:_MOST_SHOWN]:
        name, why = sink.text(suspect.name), sink.text(suspect.why)
        held.append(Held("suspect", name, why))
        marks.append(Mark("suspect", name, text.place(suspect.span), why))
    return Turn(text.text, calls=calls, held=held, marks=_without_overlaps(marks, len(text.text)))


def _span_of(call: ToolCall | InvalidCall) -> tuple[int, int]:
    """Return the place of a call in the text; an empty one for a call in a field of the wire."""
    origin = call.provenance
    return origin.span if origin is not None and origin.channel == "text" else (0, 0)


def _without_overlaps(marks: Iterable[Mark], length: int) -> list[Mark]:
    """Return the marks in the order of the text. Of two at the same place, the first in the list counts."""
    kept: list[Mark] = []
    for mark in marks:
        start, end = max(0, mark.span[0]), min(length, mark.span[1])
        if start < end and all(end <= other.span[0] or start >= other.span[1] for other in kept):
            kept.append(replace(mark, span=(start, end)))
    return sorted(kept, key=lambda mark: mark.span)


def known_keys(environment: Mapping[str, str], keys: Iterable[str | None]) -> list[str]:
    """Return the secrets that a gateway knows: the keys of its endpoints, and the variables that hold secrets."""
    from dragoman.secrets.fields import is_secret_variable

    values = [value for name, value in environment.items() if is_secret_variable(name)]
    return [value for value in [*values, *(key for key in keys if key)] if worth_hiding(value)]
