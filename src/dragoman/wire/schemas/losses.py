"""The account of one compilation: what was changed, in the order in which it was met, nothing said twice."""

from __future__ import annotations

from dragoman.wire.report import Loss


class Losses:
    """Collects the losses of one tool."""

    __slots__ = ("_counted", "_found", "_where")

    def __init__(self, tool_name: str) -> None:
        self._where = f"tool {tool_name}"
        self._found: dict[tuple[str, str], None] = {}
        self._counted: dict[str, dict[str, None]] = {}

    def add(self, rule: str, detail: str) -> None:
        self._found[rule, detail] = None

    def add_annotation(self, keyword: str, path: str) -> None:
        """A keyword such as `title` stands everywhere and asks nothing: one line for all its places."""
        self._counted.setdefault(keyword, {})[path] = None

    def finish(self) -> tuple[Loss, ...]:
        found = [Loss(rule, self._where, detail) for rule, detail in self._found]
        for keyword, places in self._counted.items():
            others = f" and {len(places) - 1} more" if len(places) > 1 else ""
            found.append(Loss("dropped", self._where, f"dropped {keyword} at {next(iter(places))}{others}"))
        return tuple(found)
