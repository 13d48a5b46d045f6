"""The same verdicts for a reply that arrives in pieces."""

from __future__ import annotations

from msgspec.structs import replace

from dragoman.events import Event, TextDelta
from dragoman.extraction.judging import Settings, open_parser, settle
from dragoman.extraction.responses import Received, receive
from dragoman.extraction.result import Extraction
from dragoman.replies import fold


class Extractor:
    """A Stage for a streamed reply: feed it pieces of text, or the events of a wire.

    The result is that of the whole reply. `feed` and `close` give out events to show; `extraction` is there after
    `close`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._parser = open_parser(settings)
        self._wire: list[Event] = []
        self._texts: list[str] = []
        self._events: list[Event] = []
        self.extraction = Extraction()

    def feed(self, piece: str | Event, /) -> list[Event]:
        if isinstance(piece, str):
            self._texts.append(piece)
            events = self._parser.feed(piece)
            self._events += events
            return events
        self._wire.append(piece)
        if isinstance(piece, TextDelta):
            return self.feed(piece.text)
        return [piece]

    def close(self) -> list[Event]:
        events = self._parser.close()
        self._events += events
        received = receive(fold(self._wire), self._settings.book.tools) if self._wire else Received()
        received = replace(received, text="".join(self._texts))
        self.extraction = settle(received, self._events, self._settings)
        return events
