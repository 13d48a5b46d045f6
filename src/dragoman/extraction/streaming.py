"""The same verdicts for a reply that arrives in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.events import Event, ReplyEnded, ReplyFailed, TextDelta, UsageReported
from dragoman.extraction.judging import Settings, open_parser, settle
from dragoman.extraction.responses import Received, receive
from dragoman.extraction.result import Extraction
from dragoman.replies import fold
from dragoman.types import Reply

if TYPE_CHECKING:
    from dragoman import formats
    from dragoman.formats.loose.stage import LooseParser

_LAST = (UsageReported, ReplyFailed, ReplyEnded)


class Extractor:
    """A Stage for a streamed reply: feed it pieces of text, or the events of a wire.

    The result is that of the whole reply. `feed` and `close` give out events to show; `extraction` is there after
    `close`.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        # Made for the first piece of text: most replies with native calls have none.
        self._parser: formats.Parser | LooseParser | None = None
        self._wire: list[Event] = []
        self._texts: list[str] = []
        self._events: list[Event] = []
        self._held: list[Event] = []
        self._reply: Reply | None = None
        self.extraction = Extraction()

    def feed(self, piece: str | Event, /) -> list[Event]:
        if isinstance(piece, str):
            self._texts.append(piece)
            if self._parser is None:
                self._parser = open_parser(self._settings)
            events = self._parser.feed(piece)
            self._events += events
            return events
        self._wire.append(piece)
        if isinstance(piece, TextDelta):
            return self.feed(piece.text)
        if isinstance(piece, _LAST):
            # The parser may still hold text back; the end comes after it.
            self._held.append(piece)
            return []
        return [piece]

    @property
    def reply(self) -> Reply:
        """The reply as far as it has come, as the wire gave it: before anybody looked for calls in its text."""
        return self._reply if self._reply is not None else fold(self._wire)

    def close(self) -> list[Event]:
        events = self._parser.close() if self._parser is not None else []
        self._events += events
        self._reply = fold(self._wire)
        received = receive(self._reply, self._settings.book.tools) if self._wire else Received()
        received = replace(received, text="".join(self._texts))
        self.extraction = settle(received, self._events, self._settings)
        return [*events, *self._held]
