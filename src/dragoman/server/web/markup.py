"""HTML whose values are always escaped.

A template is a text of the program with names in braces. A value is either `Html`, which a template made, or it is
escaped: its markup, and every character that a person cannot see or that changes how others appear. So no text of a
model or a client can become markup, and none can reorder what a person reads.
"""

from __future__ import annotations

import html as standard
import re
from collections.abc import Iterable
from typing import LiteralString

from msgspec import Struct

from dragoman import __version__
from dragoman.characters import escape_text

_holes = re.compile(r"\{([a-z_]+)\}").sub


class Html(str):
    """Markup that needs no escape. Only this module makes it."""

    __slots__ = ()


NOTHING = Html("")
Value = str | int | float | None | Iterable[Html]


def html(template: LiteralString, /, **values: Value) -> Html:
    """Fill the names in braces. A list of Html is joined; None and False-like texts stay empty."""

    def fill(found: re.Match[str]) -> str:
        return _render(values[found[1]])

    return Html(_holes(fill, template))


def _render(value: Value) -> str:
    if isinstance(value, Html):
        return str(value)
    if value is None:
        return ""
    if isinstance(value, str | int | float):
        return escape(str(value))
    return "".join(value)


def escape(text: str) -> str:
    """Return a text as the content of an element or of a quoted attribute."""
    return standard.escape(escape_text(text.replace("\r\n", "\n")), quote=True)


def join(parts: Iterable[Html]) -> Html:
    """Return several pieces as one."""
    return Html("".join(parts))


def when(condition: object, template: LiteralString, /, **values: Value) -> Html:
    """Return a filled template, or nothing."""
    return html(template, **values) if condition else Html("")


def options(values: Iterable[str], chosen: str) -> Html:
    """Return the options of a selection."""
    return join(
        html('<option value="{value}"{mark}>{value}</option>', value=value, mark=_SELECTED if value == chosen else None)
        for value in values
    )


_SELECTED = Html(" selected")


def write_keys(keys: Iterable[tuple[str, str]]) -> Html:
    """Return the window with the keys of a page, in which single keys can be switched off."""
    rows = join(
        html('<tr><th scope="row"><kbd>{key}</kbd></th><td>{what}</td></tr>', key=key, what=what) for key, what in keys
    )
    return html(
        """<dialog id="keys" aria-labelledby="keys-title">
<h2 id="keys-title">Keys</h2>
<table><tbody>{rows}</tbody></table>
<p><label><input type="checkbox" id="single-keys" checked> Single keys are on</label></p>
<form method="dialog"><button>Close</button></form>
</dialog>""",
        rows=rows,
    )


class Site(Struct, frozen=True):
    """What all pages of one application have in common."""

    name: str
    root: str
    """The path before that of its static files."""
    files: Html
    """The elements of the head that load its own style and script."""
    keys: tuple[tuple[str, str], ...]
    note: str
    """A sentence at the end of each page."""


_DOCUMENT: LiteralString = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} - dragoman {name}</title>
<link rel="icon" href="{root}/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="{root}/static/pages.css">
{files}
</head>
<body data-page="{page}">
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<p class="brand"><span class="name">dragoman</span> {name}</p>
<nav aria-label="Pages">{links}</nav>
{person}
<button type="button" id="show-keys" class="quiet">Keys <kbd>?</kbd></button>
</header>
{content}
<div id="announce" class="hidden" role="status" aria-live="polite"></div>
{keys}
{windows}
<footer class="bottom"><p>dragoman {version}. {note}</p></footer>
</body>
</html>
"""


def write_document(
    site: Site, title: str, page: str, *, links: Html, content: Html, person: Html = NOTHING, windows: Html = NOTHING
) -> Html:
    """Return a whole page: `content` between the links to the pages of the site and its keys."""
    return html(
        _DOCUMENT,
        title=title,
        name=site.name,
        root=site.root,
        files=site.files,
        page=page,
        links=links,
        person=person,
        content=content,
        keys=write_keys(site.keys),
        windows=windows,
        version=__version__,
        note=site.note,
    )
