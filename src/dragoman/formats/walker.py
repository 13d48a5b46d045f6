"""The reader that a template compiles to: it walks the steps, fills the holes and reports the call."""

from __future__ import annotations

from dragoman.formats.cursor import Cursor, Reader, Spoilt
from dragoman.formats.entry import MarkedEntry, Place
from dragoman.formats.jsonbody import report
from dragoman.formats.markers import Markers
from dragoman.formats.recovery import read_or_skip
from dragoman.formats.steps import Scope, Step, run_steps


class TemplateEntry(MarkedEntry):
    """A compiled template: one way to write a call."""

    def __init__(
        self,
        format_name: str,
        openers: tuple[str, ...],
        steps: tuple[Step, ...],
        *,
        place: Place = "anywhere",
        section: tuple[str, str] | None = None,
        source: str = "",
        stops: Markers | None = None,
        follows: str = "{[<(n",
    ) -> None:
        self.follows = follows
        self.stops = stops or Markers(openers)
        # An opener also stops the search for the end of a broken call, but it belongs to the next one.
        self._ends = Markers(self.stops.literals - set(openers) or {"\0"})
        self.format = format_name
        self.openers = openers
        self.steps = steps
        self.place = place
        self.section = section
        self.source = source

    def read(self, cursor: Cursor) -> Reader:
        scope = Scope()
        yield from read_or_skip(cursor, run_steps(self.steps, cursor, scope), self._ends, self.stops)
        if scope.wish is not None:
            report(cursor, scope.wish)
        elif cursor.started is not None:
            cursor.finish_call(scope.filled["name"], scope.arguments, scope.filled.get("id"), changes=scope.changes)
        else:
            raise Spoilt("no call between the markers")
