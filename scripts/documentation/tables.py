"""The reference pages that are tables of the code: formats, commands, providers, quirks, rules, errors and events."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from importlib import import_module
from typing import Any, get_args

from scripts.documentation.api import file_of, summarise
from scripts.documentation.names import find_home, list_fields, locate

from dragoman.agent import events as loop_events
from dragoman.agent.result import CATEGORIES, HINTS
from dragoman.args import COERCIONS, REPAIRS
from dragoman.cli.app import COMMANDS, run
from dragoman.cli.exit_codes import EXIT_CODES
from dragoman.cli.formats import example_of, family_of, rows
from dragoman.cli.providers import GROUPS
from dragoman.cli.screen import OUTCOME_HINTS
from dragoman.errors import DragomanError
from dragoman.events import Event
from dragoman.formats import Format
from dragoman.providers.provider import Profile, Provider
from dragoman.providers.registry import Registry, quirk_defaults, quirk_meanings
from dragoman.types import FAILURE_CAUSES

NATIVE = {"yes": "yes", "no": "no", "per_model": "by model", "learned": "learned", "unknown": "unknown"}
# Exceptions outside of `dragoman.errors`.
ERROR_MODULES = ("agent", "agent.approvals", "journal", "journal.audit", "keywords", "sandbox", "testing", "tools")


def write_table(columns: str, lines: Iterable[Iterable[str]]) -> str:
    """Return a table. `columns` are the titles, separated by bars."""
    titles = columns.split("|")
    parts = [f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n"]
    parts += [f"| {' | '.join(map(cell, line))} |\n" for line in lines]
    return "".join(parts)


def words(text: str) -> str:
    """Return a paragraph on one line."""
    return " ".join(text.split()) + "\n\n"


def cell(content: str) -> str:
    """Return text for a cell of a table."""
    return content.replace("|", "\\|").replace("\n", " ")


def code(*values: str) -> str:
    """Return values as code, separated by commas."""
    return ", ".join(f"`{value}`" for value in values if value)


def fenced(content: str) -> str:
    """Return a code block whose fence is longer than any fence inside."""
    fence = "`" * 4 if "```" in content else "```"
    return f"{fence}text\n{content}\n{fence}\n"


# --------------------------------------------------------------------------------------------------------------------
# Formats.


def write_formats() -> str:
    listed = rows()
    parts = [
        "# Formats\n\n",
        f"{len(listed)} text formats, by family. How they are read: [Formats](../concepts/formats.md). ",
        "How to add one: [Add a format](../guides/add-a-format.md).\n\n",
        write_table(
            "format|family|aliases|models",
            ((f"[`{row.name}`](#{row.name})", family_of(row), code(*row.aliases), row.models) for row in listed),
        ),
    ]
    for family in sorted({family_of(row) for row in listed}):
        parts.append(f"\n## Family: {family}\n")
        parts += [_write_format(row) for row in listed if family_of(row) == family]
    return "".join(parts)


def _write_format(row: Format) -> str:
    parts = [f"\n### {row.name}\n\n"]
    if row.note:
        parts.append(f"{row.note}\n\n")
    if row.template:
        parts.append(f"Template:\n\n{fenced(row.template)}\n")
    parts += [f"Also read:\n\n{fenced(other)}\n" for other in row.also]
    parts.append(f"Example:\n\n{fenced(example_of(row))}")
    return "".join(parts)


# --------------------------------------------------------------------------------------------------------------------
# Commands.


def write_commands() -> str:
    parts = [
        "# Commands\n\nAlso as `python -m dragoman`. They come with the `cli` extra.\n\n",
        write_table(
            "command|",
            ((f"[`dragoman {row.name}`](#dragoman-{row.name})", row.short_help) for row in COMMANDS),
        ),
    ]
    for command in list_commands():
        parts.append(f"\n## {f'dragoman {command}'.strip()}\n\n{fenced(_read_help(command))}")
    return "".join(parts)


def list_commands() -> Iterator[str]:
    """Yield the words of every command, groups and their commands too. The first one is the program itself."""
    yield ""
    for row in COMMANDS:
        yield from _list_inner(row.name, row.load())


def _list_inner(words: str, command: Any) -> Iterator[str]:
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from _list_inner(f"{words} {name}", inner)


def _read_help(command: str) -> str:
    # A fixed width, so that the page does not depend on the terminal of whoever writes it.
    os.environ["COLUMNS"] = "100"
    caught = io.StringIO()
    with redirect_stdout(caught):
        run([*command.split(), "--help"])
    return caught.getvalue().rstrip("\n")


# --------------------------------------------------------------------------------------------------------------------
# Providers, model families and quirks.


def write_providers() -> str:
    known = Registry.default()
    parts = [
        "# Providers\n\n",
        f"{len(known.rows)} providers and {len(known.profiles)} model families. ",
        "`dragoman providers NAME` shows one row with its quirks and notes. ",
        "[Providers](../concepts/providers.md) explains the columns.\n",
    ]
    for group, title in GROUPS.items():
        found = [row for row in known.rows.values() if row.group == group]
        if found:
            table = write_table("provider|address|key|wires|native calls|text format", map(_describe_provider, found))
            parts.append(f"\n## {title[0].upper()}{title[1:]}\n\n{table}")
    families = write_table(
        "family|regular expression for the beginning of the name|native calls|text format|notes",
        map(_describe_family, known.profiles),
    )
    parts.append(f"\n## Model families\n\nThe first row that matches the name of a model applies.\n\n{families}")
    return "".join(parts)


def _describe_provider(row: Provider) -> tuple[str, ...]:
    name = f"`{row.name}`" + (f" ({code(*row.aliases)})" if row.aliases else "")
    return (name, code(row.base_url), code(*row.key), code(*row.wires), NATIVE[row.native], code(row.format))


def _describe_family(row: Profile) -> tuple[str, ...]:
    return (f"`{row.name}`", code(*row.match), NATIVE[row.native], code(row.format, *row.formats), row.notes)


def list_quirks() -> str:
    """Return the table of the flags."""
    meanings = quirk_meanings()
    lines = ((f"`{name}`", f"`{json.dumps(default)}`", meanings[name]) for name, default in quirk_defaults().items())
    return write_table("flag|default|meaning", lines)


def _shorten(names: list[str], most: int = 6) -> str:
    shown = code(*names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def write_quirks() -> str:
    meanings, known = quirk_meanings(), Registry.default()
    listed: list[Provider | Profile] = [*known.rows.values(), *known.profiles]
    holders = [(row.name, [row.quirks, *row.wire_quirks.values()]) for row in listed]
    lines = []
    for name, default in quirk_defaults().items():
        users = sorted({holder for holder, sets in holders if any(name in quirks for quirks in sets)})
        lines.append((f"`{name}`", f"`{json.dumps(default)}`", meanings[name], _shorten(users)))
    about = """A quirk is a named flag for a deviation of an endpoint from its wire. The default is the behaviour of the
        vendor of the wire. Rows of providers and of model families set flags, and a row of your own can set them too
        ([Providers](../concepts/providers.md))."""
    return f"# Quirks\n\n{words(about)}{write_table('flag|default|meaning|set for', lines)}"


# --------------------------------------------------------------------------------------------------------------------
# Repairs and coercions.


def list_rules(rules: dict[str, str]) -> str:
    """Return the table of the rules of one kind."""
    return write_table("rule|what it did", ((f"`{name}`", meaning) for name, meaning in sorted(rules.items())))


def write_rules() -> str:
    about = """`call.repairs` and `call.changes` name these rules. [Arguments](../concepts/arguments.md)
        explains when they apply."""
    both = f"## Repairs\n\n{list_rules(REPAIRS)}\n## Coercions\n\n{list_rules(COERCIONS)}"
    return f"# Repairs and coercions\n\n{words(about)}{both}"


# --------------------------------------------------------------------------------------------------------------------
# Errors and outcomes.


ABOUT_ERRORS = """Every exception of dragoman is a `DragomanError`. Its message names the thing and the place, and
`next_step` is the hint. This table has the default hints; many messages have a more exact one. No text of a model
raises an exception."""
ABOUT_OUTCOMES = """`result.outcome.kind` says why a run ended, and `result.outcome.category` what to do: `success`,
`waiting` (answer, then resume), `retryable` (try again), `capacity` (raise a limit), `fatal` (change something first).
`agent.run` raises `RunFailed` for the last three."""
ABOUT_FAILURES = """`reply.failure.kind` has the same kinds for all providers. A failure with the cause `rate` or
`outage` may be temporary, and the client retries it."""


def write_errors() -> str:
    outcomes = (
        (f"`{kind}`", category, str(EXIT_CODES[category]), HINTS.get(kind, ""), OUTCOME_HINTS.get(kind, ""))
        for kind, category in CATEGORIES.items()
    )
    failures = ((f"`{kind}`", cause) for kind, cause in FAILURE_CAUSES.items())
    parts = [
        f"# Errors\n\n{words(ABOUT_ERRORS)}",
        write_table("exception|when|hint", _list_errors()),
        f"\n## Outcomes of a run\n\n{words(ABOUT_OUTCOMES)}",
        write_table("outcome|category|exit code|hint in a program|hint on the command line", outcomes),
        f"\n## Failures of a provider\n\n{words(ABOUT_FAILURES)}",
        write_table("failure|cause", failures),
    ]
    return "".join(parts)


def _list_errors() -> Iterator[tuple[str, str, str]]:
    for module in ERROR_MODULES:
        import_module(f"dragoman.{module}")
    listed = {DragomanError: None} | dict.fromkeys(_list_subclasses(DragomanError))
    for error in sorted(listed, key=lambda each: (each.__module__ != "dragoman.errors", each.__module__)):
        if not error.__name__.startswith("_") and not error.__module__.startswith("dragoman.cli"):
            home = find_home(locate(error.__module__, error.__name__)).removeprefix("dragoman.")
            name = error.__name__ if home == "errors" else f"{home}.{error.__name__}"
            yield f"`{name}`", summarise(error.__doc__ or ""), error.hint


def _list_subclasses(error: type[DragomanError]) -> Iterator[type[DragomanError]]:
    for each in error.__subclasses__():
        yield each
        yield from _list_subclasses(each)


# --------------------------------------------------------------------------------------------------------------------
# Events.


ABOUT_EVENTS = """`agent.stream` yields these events, and listeners and the log receive them. A link leads to the
types of the fields."""


def write_events() -> str:
    return (
        f"# Events\n\n{words(ABOUT_EVENTS)}"
        f"## Events of a reply\n\n{_list_events(get_args(Event))}\n"
        f"## Events of a run\n\n{_list_events(get_args(loop_events.LoopEvent))}"
    )


def _list_events(types: Iterable[type]) -> str:
    lines = []
    for each in types:
        name = locate(each.__module__, each.__name__)
        fields = code(*(field.name for field in list_fields(name)))
        link = f"api/{file_of(find_home(name))}#{each.__name__.lower()}"
        lines.append((f"[`{each.__name__}`]({link})", fields, summarise(name.doc)))
    return write_table("event|fields|meaning", lines)
