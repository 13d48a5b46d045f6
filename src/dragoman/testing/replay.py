"""Record the answers of an endpoint once, and replay them."""

from __future__ import annotations

import base64
import difflib
import json
import os
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct, field

from dragoman.client.transport import HttpRequest, HttpResponse, PassedResponse, Timeouts, Transport, TransportFault
from dragoman.errors import ConfigError
from dragoman.secrets.exchanges import RecordingRedactor
from dragoman.testing.script import Answer, ScriptedResponse
from dragoman.types import FailureKind

# --------------------------------------------------------------------------------------------------------------------
# A recording on disk: one exchange per line, as readable JSON.

# The body is stored decoded and in pieces, so these headers would be wrong.
_DROPPED = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "date"})


class RecordedRequest(Struct, frozen=True, omit_defaults=True):
    """A request for comparison and storage: the body as JSON, or as text, or as {"base64": ...}."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def lane(self) -> str:
        """The key of requests that the same recording may answer."""
        return json.dumps([self.method, self.url, self.body], sort_keys=True, ensure_ascii=False)

    def show(self) -> str:
        """Return many short lines, for a comparison."""
        body = json.dumps(self.body, indent=2, sort_keys=True, ensure_ascii=False)
        return f"{self.method} {self.url}\n{body}"


class RecordedFailure(Struct, frozen=True, omit_defaults=True):
    """How the connection failed, in the terms of a TransportFault."""

    kind: str
    message: str = ""
    code: str = ""


class Answered(Struct, frozen=True, omit_defaults=True):
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[Any] = field(default_factory=list)
    """Text if the bytes are UTF-8, else {"base64": ...}."""
    fault: RecordedFailure | None = None


class RecordedExchange(Struct, frozen=True):
    """One exchange. `number` is the order of the requests; answers may end in another order."""

    number: int
    request: RecordedRequest
    response: Answered


def load(path: Path) -> list[RecordedExchange]:
    """Return the exchanges of a recording, in the order of their requests."""
    found: list[RecordedExchange] = []
    for place, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=RecordedExchange))
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ConfigError(
                f"{path}, line {place}: {error}", hint="delete the line, or the file, and record it again"
            ) from None
    return sorted(found, key=lambda recorded: recorded.number)


def append(path: Path, recorded: RecordedExchange) -> None:
    """Add one exchange, in a single write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(msgspec.to_builtins(recorded), ensure_ascii=False) + "\n"
    with open(path, "ab") as file:
        file.write(line.encode("utf-8", "surrogatepass"))
        file.flush()
        os.fsync(file.fileno())


def keep_headers(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in _DROPPED}


def write_body(body: bytes) -> Any:
    """Return a body as JSON if possible, else as text or base64."""
    if not body:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return write_bytes(body)


def write_bytes(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def read_bytes(written: Any) -> bytes:
    return written.encode() if isinstance(written, str) else base64.b64decode(written["base64"])


# --------------------------------------------------------------------------------------------------------------------
# Record the answers of a real endpoint once, and replay them.
#
#     with cassette("tests/cassettes/weather.jsonl") as transport:
#         connection = dragoman.Connection(transport=transport)
#         agent = dragoman.Agent("openai:gpt-5.6", tools=[weather], connection=connection)
#
# A request that was not recorded is an error, which shows the difference to the nearest recorded one.

Mode = Literal["once", "none", "new", "all"]
Ignore = Callable[[Any], Any]
"""Changes the JSON of a request before it is compared and stored: it removes what differs in every run."""
_COMPARED = 200
_SHOWN = 4000


class CassetteMiss(AssertionError):
    """A request that is not in the recording."""


class RecordingTransport:
    """A transport that forwards requests to another one and records the exchanges, without secrets."""

    def __init__(
        self,
        inner: Transport,
        path: str | Path,
        *,
        redact: Iterable[str] = (),
        ignore: Ignore | None = None,
        first_number: int = 0,
    ) -> None:
        self._inner = inner
        self._path = Path(path)
        self._redactor = RecordingRedactor(redact)
        self._ignore = ignore
        self._number = first_number
        self._open: set[_RecordedResponse] = set()

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        number, self._number = self._number, self._number + 1
        asked = describe(request, self._redactor, self._ignore)
        try:
            response = await self._inner.send(request, timeouts)
        except TransportFault as fault:
            self._write(number, asked, Answered(fault=_describe_fault(fault, self._redactor)))
            raise

        def write(answered: Answered) -> None:
            self._open.discard(recording)
            self._write(number, asked, answered)

        recording = _RecordedResponse(response, write, self._redactor)
        self._open.add(recording)
        return recording

    async def close(self) -> None:
        for recording in list(self._open):
            recording.finish()
        await self._inner.close()

    def _write(self, number: int, asked: RecordedRequest, answered: Answered) -> None:
        append(self._path, RecordedExchange(number, asked, answered))


class _RecordedResponse(PassedResponse):
    """A response that is recorded when it was read completely, or when it is closed."""

    def __init__(self, inner: HttpResponse, write: Callable[[Answered], None], redactor: RecordingRedactor) -> None:
        super().__init__(inner)
        self._write: Callable[[Answered], None] | None = write
        self._redactor = redactor
        self._pieces: list[bytes] = []
        self._fault: TransportFault | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._inner.pieces():
                self._pieces.append(piece)
                yield piece
        except TransportFault as fault:
            self._fault = fault
            raise

    async def close(self) -> None:
        self.finish()
        await self._inner.close()

    def finish(self) -> None:
        write, self._write = self._write, None
        if write is None:
            return
        fault = None if self._fault is None else _describe_fault(self._fault, self._redactor)
        headers = keep_headers(self._redactor.headers(dict(self._inner.headers)))
        pieces = [write_bytes(piece) for piece in self._redactor.pieces(self._pieces)]
        write(Answered(self._inner.status, headers, pieces, fault))


class ReplayTransport:
    """A transport that answers from a recording and never uses the network.

    Requests are compared by method, URL and body (as JSON, without regard to the order of members). Repeated requests
    are answered in the order in which the answers were recorded.
    """

    def __init__(self, path: str | Path, *, redact: Iterable[str] = (), ignore: Ignore | None = None) -> None:
        self._path = Path(path)
        if not self._path.is_file():
            raise ConfigError(f"there is no recording {path}", hint='record it: cassette(path, record="once")')
        self.recorded = load(self._path)
        self._redactor = RecordingRedactor(redact)
        self._ignore = ignore
        self._lanes: dict[str, deque[RecordedExchange]] = defaultdict(deque)
        for recorded in self.recorded:
            self._lanes[recorded.request.lane].append(recorded)

    @property
    def unused(self) -> list[RecordedExchange]:
        """The recorded exchanges that were not requested."""
        left = [recorded for lane in self._lanes.values() for recorded in lane]
        return sorted(left, key=lambda recorded: recorded.number)

    def assert_all_used(self) -> None:
        """Fail unless every recorded answer was requested."""
        if self.unused:
            shown = "\n".join(f"- {recorded.request.show()[:300]}" for recorded in self.unused)
            raise AssertionError(f"{len(self.unused)} recordings of {self._path} were not used:\n{shown}")

    def knows(self, request: HttpRequest) -> bool:
        """Whether an answer to this request is left."""
        return bool(self._lanes.get(describe(request, self._redactor, self._ignore).lane))

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        asked = describe(request, self._redactor, self._ignore)
        lane = self._lanes.get(asked.lane)
        if not lane:
            raise CassetteMiss(explain_miss(asked, self.recorded, self._path))
        answered = lane.popleft().response
        fault = None
        if answered.fault is not None:
            kind = cast(FailureKind, answered.fault.kind)
            fault = TransportFault(kind, answered.fault.message, code=answered.fault.code)
            if not answered.status:
                raise fault
        pieces = [read_bytes(piece) for piece in answered.pieces]
        return ScriptedResponse(Answer(answered.status, answered.headers, pieces=pieces, fault=fault), timeouts)

    async def close(self) -> None:
        """Nothing is open."""


class _ExtendingTransport:
    """Answers recorded requests, and records the others."""

    def __init__(self, replay: ReplayTransport, recording: RecordingTransport) -> None:
        self._replay = replay
        self._recording = recording

    async def send(self, request: HttpRequest, timeouts: Timeouts) -> HttpResponse:
        known = self._replay.knows(request)
        return await (self._replay if known else self._recording).send(request, timeouts)

    async def close(self) -> None:
        await self._recording.close()


@contextmanager
def cassette(
    path: str | Path,
    record: Mode = "once",
    *,
    transport: Transport | None = None,
    redact: Iterable[str] = (),
    ignore: Ignore | None = None,
    all_used: bool = False,
) -> Iterator[Transport]:
    """Return a transport that records or replays.

    `record`: `once` records if there is no file yet, and else replays; `none` only replays; `new` replays recorded
    requests and records the others; `all` records everything again. `transport` is used to record. `redact` are regular
    expressions for further secrets. `ignore` is a function that takes the JSON of a request and returns it without the
    parts that differ in every run. With `all_used`, a recorded answer that was not requested fails the test.
    """
    place, patterns = Path(path), list(redact)
    if record == "all":
        place.unlink(missing_ok=True)
    chosen: Transport
    replay: ReplayTransport | None = None
    if record == "none" or (record in ("once", "new") and place.is_file()):
        chosen = replay = ReplayTransport(place, redact=patterns, ignore=ignore)
    if replay is None or record == "new":
        number = max((recorded.number for recorded in replay.recorded), default=-1) + 1 if replay else 0
        if transport is None:
            # Its connections end with the event loop that they were opened in.
            from dragoman.client.http import HttpTransport

            transport = HttpTransport(proxy="env")
        recording = RecordingTransport(transport, place, redact=patterns, ignore=ignore, first_number=number)
        chosen = _ExtendingTransport(replay, recording) if replay else recording
    yield chosen
    if all_used and replay is not None:
        replay.assert_all_used()


def describe(request: HttpRequest, redactor: RecordingRedactor, ignore: Ignore | None = None) -> RecordedRequest:
    """Return a request for comparison and storage: without secrets and ignored parts.

    The redactor learns the secrets of the request, so that it finds them in the answer.
    """
    redactor.learn(request.headers, request.url)
    body = write_body(redactor.data(request.body))
    if ignore is not None:
        body = ignore(body)
    headers = keep_headers(redactor.headers(request.headers))
    return RecordedRequest(request.method, redactor.url(request.url), headers, body)


def explain_miss(asked: RecordedRequest, recorded: list[RecordedExchange], path: Path) -> str:
    """Return a message with the request and its difference to the nearest recorded one."""
    same = [each for each in recorded if each.request.lane == asked.lane]
    if same:
        return f"{path} contains this request {len(same)} times, and it was made once more:\n{asked.show()[:_SHOWN]}"
    if not recorded:
        return f"{path} is empty; the request was:\n{asked.show()[:_SHOWN]}"
    nearest = max(recorded[:_COMPARED], key=lambda each: _measure_similarity(each.request, asked))
    lines = difflib.unified_diff(
        nearest.request.show().splitlines(),
        asked.show().splitlines(),
        f"recorded, number {nearest.number}",
        "asked now",
        lineterm="",
    )
    shown = "\n".join(lines)
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "\n[the rest is left out]"
    return f'{path} lacks this request. The nearest one differs:\n{shown}\nhint: record it with record="new" or "all"'


def _measure_similarity(recorded: RecordedRequest, asked: RecordedRequest) -> tuple[bool, float]:
    matcher = difflib.SequenceMatcher(None, recorded.show()[:_SHOWN], asked.show()[:_SHOWN], autojunk=True)
    return (recorded.url == asked.url, matcher.quick_ratio())


def _describe_fault(fault: TransportFault, redactor: RecordingRedactor) -> RecordedFailure:
    return RecordedFailure(fault.kind, redactor.text(fault.message), fault.code)
