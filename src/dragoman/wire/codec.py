"""What every wire offers: a client half, a server half, and three verbs, all without a network.

A codec is a value: a wire and the quirks of one endpoint. The client half encodes requests and decodes replies; the
server half decodes requests and encodes replies. Both work whole and streamed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from dragoman.events import Event
from dragoman.replies import fold
from dragoman.results import as_result
from dragoman.stage import Stage
from dragoman.toolset import Toolset
from dragoman.types import Failure, JsonObject, Reply, Request, Tool, ToolCall, ToolResult
from dragoman.wire.aliases import Aliases
from dragoman.wire.quirks import DEFAULTS, Quirks
from dragoman.wire.report import Loss

_read = msgspec.json.Decoder().decode


class Prepared(Struct, frozen=True):
    """A request as it is sent, what was lost on the way, and what is needed to read the reply to it."""

    body: JsonObject
    losses: tuple[Loss, ...] = ()
    aliases: Aliases = Aliases()
    tools: Toolset | None = None
    limit: int | None = None
    """The most tokens that were asked for."""


class Reader(ABC):
    """Turns the frames of one reply into events. `read` takes what the framing gave; nothing it holds raises."""

    @abstractmethod
    def read(self, frame: Any) -> list[Event]: ...

    @abstractmethod
    def read_whole(self, body: JsonObject) -> list[Event]:
        """All events of a body that came in one piece, its end included."""

    @abstractmethod
    def close(self) -> list[Event]:
        """The stream is over: the end, or the news that it was cut off."""


class ReplyStream:
    """A Stage from the bytes of a streamed reply to its events."""

    def __init__(self, framing: Stage[bytes, Any], reader: Reader) -> None:
        self._framing = framing
        self._reader = reader

    def feed(self, piece: bytes, /) -> list[Event]:
        frames = self._framing.feed(piece)
        if len(frames) == 1:
            return self._reader.read(frames[0])
        events: list[Event] = []
        for frame in frames:
            events += self._reader.read(frame)
        return events

    def close(self) -> list[Event]:
        events: list[Event] = []
        for frame in self._framing.close():
            events += self._reader.read(frame)
        events += self._reader.close()
        return events


class Codec(ABC):
    """One wire. `codec.name` is the name under which opaque data rides in `part.extra`."""

    name: ClassVar[str]

    def __init__(self, quirks: Quirks = DEFAULTS) -> None:
        self.quirks = quirks

    def __repr__(self) -> str:
        return f"<wire {self.name}>"

    # ---- a client uses these ------------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, request: Request) -> Prepared:
        """The body to send, with the report of what was changed, and with what is needed to read the reply."""

    def encode_request(self, request: Request) -> JsonObject:
        """The body to send."""
        return self.prepare(request).body

    @abstractmethod
    def endpoint(self, model: str, *, stream: bool = False) -> str:
        """The path behind the base URL that requests go to."""

    @abstractmethod
    def open_reader(self, sent: Prepared | None) -> Reader: ...

    @abstractmethod
    def open_framing(self) -> Stage[bytes, Any]: ...

    def decode_reply(self, body: JsonObject | bytes | str, sent: Prepared | None = None) -> Reply:
        """The reply in a whole body. An error body gives a reply whose `failure` is set."""
        return fold(self.open_reader(sent).read_whole(as_object(body)))

    def reply_stream(self, sent: Prepared | None = None) -> Stage[bytes, Event]:
        """A Stage from the bytes of a streamed reply to events."""
        return ReplyStream(self.open_framing(), self.open_reader(sent))

    @abstractmethod
    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        """What an error answer says, in one vocabulary."""

    # ---- a server uses these ------------------------------------------------------------------------------------

    @abstractmethod
    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        """The request in a body. `model` and `stream` are for wires that say them in the path."""

    @abstractmethod
    def encode_reply(self, reply: Reply, *, created: int = 0) -> JsonObject:
        """The whole body of a reply. `created` is the time in seconds, for wires that tell it."""

    @abstractmethod
    def event_stream(self, *, model: str = "", id: str = "", created: int = 0) -> Stage[Event, bytes]:
        """A Stage from events to the bytes of a streamed reply. `model` and `id` count where the events name none."""

    @abstractmethod
    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        """The HTTP status and the body of an error answer."""

    # ---- the verbs ----------------------------------------------------------------------------------------------

    @abstractmethod
    def define(self, tools: list[Tool]) -> tuple[list[JsonObject], list[Loss], Aliases]:
        """The definitions of tools as the wire wants them, with the report and the way back."""

    def encode_definitions(self, tools: Iterable[object]) -> list[JsonObject]:
        """The definitions of tools as the wire wants them."""
        return self.define(list(Toolset.of(tools) or ()))[0]

    @abstractmethod
    def find_calls(self, body: Any) -> JsonObject:
        """A whole body around what may be a body, a message, a list of calls or a single call."""

    def decode_tool_calls(self, body: Any) -> list[ToolCall]:
        """The calls in a body, a message or a list of calls; an empty list where there are none."""
        return self.decode_reply(self.find_calls(body)).calls

    @abstractmethod
    def write_result(self, result: ToolResult) -> JsonObject: ...

    def encode_result(self, result: ToolResult | Mapping[str, Any]) -> JsonObject:
        """One result as the message that this wire wants."""
        return self.write_result(as_result(result))


def as_object(body: Any) -> JsonObject:
    """A JSON object from an object, or from its text; anything else is an empty one."""
    if isinstance(body, bytes | bytearray | str):
        try:
            body = _read(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return {}
    return body if isinstance(body, dict) else {}
