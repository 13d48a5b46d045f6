"""Plain replies: text that cannot be taken for a call.

A plain reply begins with something visible and holds none of the format's markers: no opener, in any spelling that is
read, no tag around calls or thinking, no end token. Where a format reads calls out of bare JSON, it holds no `{`, and
where it reads lists of calls in Python, no `[`.
"""

from __future__ import annotations

from dragoman.errors import ConfigError
from dragoman.formats.bare import JsonAnywhere, WholeMessage
from dragoman.formats.grammars.nodes import Free, Node
from dragoman.formats.improvised import NameThenBraces
from dragoman.formats.odd.python_entries import ListedCalls
from dragoman.formats.plan import Plan
from dragoman.formats.row import Format

_NEEDS_BRACE = (WholeMessage, JsonAnywhere, NameThenBraces)


def reply(row: Format, plan: Plan, most: int | None) -> Node:
    """Text that this format reads as text."""
    markers = {*plan.section_ends, *plan.drops, *plan.thinking, *plan.thinking_ends}
    brackets = ""
    for opener, entries in plan.openers.items():
        if all(isinstance(entry, JsonAnywhere) for entry in entries):
            brackets += "{"
        else:
            markers.add(opener)
    for entry in (*plan.line_entries, *plan.message_entries):
        if isinstance(entry, ListedCalls):
            brackets += "["
        elif isinstance(entry, _NEEDS_BRACE):
            brackets += "{"
        else:
            raise ConfigError(
                f"in the format {row.name!r} a plain reply cannot be told from a call",
                hint="ask for calls alone with tool_choice='required', or take another format, for example hermes",
            )
    markers.update(brackets)
    kept = {marker for marker in markers if not any(other != marker and other in marker for other in markers)}
    return Free(tuple(sorted(kept)), 1, most, starts_visible=True)
