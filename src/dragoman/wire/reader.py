"""The base class of the reply readers of all wires: frames to events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from dragoman.events import Event
from dragoman.types import Failure, JsonObject
from dragoman.wire.builder import ReplyBuilder
from dragoman.wire.codec import Prepared
from dragoman.wire.framing import SseBroken, SseEvent
from dragoman.wire.quirks import Quirks
from dragoman.wire.values import BROKEN, Ambiguous, parse_frame


class Reader(ABC):
    """Converts the frames of one reply to events. `read` takes a frame; no content of a frame raises an exception.

    `read`, `read_whole` and `close` are template methods; a subclass reads the JSON of one protocol.
    """

    answers: ClassVar[tuple[str, ...]]
    """The fields of a whole body, one of which every reply has."""

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        self._builder = ReplyBuilder(wire, sent, masks_length=quirks.masks_length)
        self._quirks = quirks
        self._is_torn = False

    @abstractmethod
    def read(self, frame: Any) -> list[Event]: ...

    def read_whole(self, body: JsonObject) -> list[Event]:
        """Return all events of a whole body, including the end."""
        self._doubt(body)
        self._read_body(body)
        if not self._builder.has_news and not self._is_reply(body):
            self._refuse(body)
        self._builder.terminate()
        return self.close()

    def close(self, *, clean: bool = True) -> list[Event]:
        """End the stream: return the end of the reply, or its truncation.

        `clean`: the transport saw the end of the body, so that nothing but the last frame may be missing.
        """
        if clean and not self._is_torn and self._may_end():
            self._builder.terminate()
        self._end()
        return self._builder.take()

    def _read_broken(self, text: str, complete: bool, event: str | None = None) -> None:
        """Handle a frame that is not JSON. A partial frame at the end is a truncation, which `close` reports."""
        if complete and text.strip() and event != "ping":  # without data it only keeps the connection alive
            self._fail({"message": f"a frame is not JSON: {text[:200]}"})
        self._is_torn = self._is_torn or not complete

    def _doubt(self, content: Any) -> None:
        """Remember a frame that can be read in two ways."""
        for each in content if isinstance(content, list) else (content,):
            if isinstance(each, Ambiguous):
                self._builder.doubt(each.why)

    def _is_reply(self, body: Any) -> bool:
        return isinstance(body, dict) and any(body.get(name) for name in self.answers)

    def _refuse(self, body: Any) -> None:
        self._builder.fail(Failure("broken_protocol", "the body is no reply: it has none of its fields", body=body))
        self._end()

    def _fail(self, body: Any) -> None:
        self._builder.fail(self._read_failure(None, body))
        self._end()

    def _fail_of_size(self, message: str) -> None:
        """End with a failure that another attempt does not help."""
        self._builder.fail(Failure("too_large", message))
        self._end()

    def _end(self) -> None:
        """End the reply, unless it has ended."""
        if not self._builder.ended:
            self._settle()
            self._builder.end()

    # ---- methods of a wire ------------------------------------------------------------------------------------------

    @abstractmethod
    def _read_frame(self, content: Any, event: str | None) -> None:
        """Read the JSON of one frame; `name` is the name from the framing."""

    def _read_body(self, body: JsonObject) -> None:
        """Read a whole body; by default, it is read as a frame."""
        self._read_frame(body, None)

    @staticmethod
    @abstractmethod
    def _read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        """What an error says."""

    def _may_end(self) -> bool:
        """Whether a stream that ends here, without the last frame of its protocol, has said everything."""
        return False

    @abstractmethod
    def _settle(self) -> None:
        """Pass what is still open to the builder, before the reply ends."""


DONE = "[DONE]"


class SseReader(Reader):
    """Reads server-sent events that hold JSON, up to `[DONE]`."""

    def read(self, frame: Any) -> list[Event]:
        builder = self._builder
        if builder.ended:
            return []
        if type(frame) is SseBroken:
            self._fail_of_size("a frame of the stream was too large")
        elif frame.data.lstrip().startswith(DONE):
            self._read_done()
        else:
            content = parse_frame(frame.data)
            if content is not BROKEN:
                self._read_json(content, frame.event)
            elif "\n" in frame.data:
                self._read_lines(frame)
            else:
                self._read_broken(frame.data, frame.complete, frame.event)
        return builder.take()

    def _read_json(self, content: Any, event: str | None) -> None:
        if type(content) is not dict:
            self._doubt(content)
        self._read_frame(content, event)

    def _read_lines(self, frame: SseEvent) -> None:
        """Read an event whose lines are frames of their own: servers forget the empty line that ends an event."""
        lines = frame.data.split("\n")
        if parse_frame(lines[0]) is BROKEN:
            self._read_broken(frame.data, frame.complete, frame.event)
            return
        for place, line in enumerate(lines):
            if self._builder.ended:
                return
            if line.lstrip().startswith(DONE):
                self._read_done()
            elif line.strip():
                content = parse_frame(line)
                if content is BROKEN:
                    self._read_broken(line, frame.complete or place + 1 < len(lines), frame.event)
                else:
                    self._read_json(content, frame.event)

    def _read_done(self) -> None:
        self._builder.terminate()
        self._end()
