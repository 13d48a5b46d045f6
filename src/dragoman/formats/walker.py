"""The reader that a template compiles to: it walks the steps, fills the holes and reports the call."""

from __future__ import annotations

from dragoman.formats.cursor import Cursor, Cut, Reader, Spoilt
from dragoman.formats.entry import Place
from dragoman.formats.jsonbody import report, run_to
from dragoman.formats.markers import Markers
from dragoman.formats.steps import Scope, Step, run_steps


class TemplateEntry:
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
        self.format = format_name
        self.openers = openers
        self.steps = steps
        self.place = place
        self.section = section
        self.source = source

    def begins(self, text: str, at: int, *, final: bool) -> bool | None:
        return True

    def read(self, cursor: Cursor) -> Reader:
        scope = Scope()
        try:
            yield from run_steps(self.steps, cursor, scope)
        except Cut:
            raise
        except Spoilt:
            if cursor.committed:
                yield from self._find_end(cursor)
            raise
        if scope.wish is not None:
            report(cursor, scope.wish)
        elif cursor.started is not None:
            cursor.finish_call(scope.filled["name"], scope.arguments, scope.filled.get("id"), changes=scope.changes)
        else:
            raise Spoilt("no call between the markers")

    def _find_end(self, cursor: Cursor) -> Reader:
        """A broken call reaches to its closer, so that what follows is not spoilt with it."""
        cursor.quiet = None
        found = yield from run_to(cursor, self.stops)
        if found:
            marker, _ = self.stops.at(cursor.text, cursor.position, final=True)
            if marker is not None and marker not in self.openers:
                cursor.position += len(marker)
