"""The part of a stream reader that the wires with server-sent events share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from dragoman.events import Event
from dragoman.types import Failure, JsonObject
from dragoman.wire.builder import ReplyBuilder
from dragoman.wire.codec import Prepared, Reader
from dragoman.wire.framing import SseBroken
from dragoman.wire.values import BROKEN, parse


class SseReader(Reader):
    """Reads server-sent events that hold JSON, up to `[DONE]`. A subclass reads the frames of one protocol."""

    def __init__(self, wire: str, sent: Prepared | None, *, masks_length: bool = False) -> None:
        self._builder = ReplyBuilder(wire, sent, masks_length=masks_length)

    def read(self, frame: Any) -> list[Event]:
        builder = self._builder
        if builder.ended:
            return []
        if type(frame) is SseBroken:
            self._fail({"message": "a frame of the stream was too large"})
        elif frame.data.startswith("[DONE]"):
            self._read_done()
        else:
            content = parse(frame.data)
            if content is not BROKEN:
                self._read_frame(content, frame.event)
            elif frame.complete and frame.data.strip():  # without data it only keeps the connection alive
                self._fail({"message": f"a frame is not JSON: {frame.data[:200]}"})
        return builder.take()

    def close(self) -> list[Event]:
        self._end()
        return self._builder.take()

    def _fail(self, body: JsonObject) -> None:
        self._builder.fail(self._read_failure(None, body))
        self._end()

    # ---- what a protocol decides ------------------------------------------------------------------------------------

    @abstractmethod
    def _read_frame(self, content: Any, event: str | None) -> None:
        """The JSON of one event, and the name of the event."""

    @staticmethod
    @abstractmethod
    def _read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        """What an error says."""

    def _read_done(self) -> None:
        self._builder.terminate()
        self._end()

    @abstractmethod
    def _end(self) -> None:
        """Nothing more comes: end the reply, unless it has ended."""
