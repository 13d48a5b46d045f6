"""The pages of the inspector: the frame, the list of exchanges, and the playground."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from dragoman.server.inspector.store import FILTERS, Entry, Filter
from dragoman.server.inspector.trial import AUTO, TRUSTS, list_formats
from dragoman.server.web.markup import Html, Site, html, join, options, when, write_document

_LABELS: dict[str, str] = {"all": "All", "repaired": "Repaired", "refused": "Refused", "failed": "Failed"}
_WORDS = {
    "ok": "ok",
    "repaired": "repaired",
    "refused": "refused",
    "failed": "failed",
    "running": "running",
}

KEYS: tuple[tuple[str, str], ...] = (
    ("j, k", "next and previous exchange"),
    ("/", "search"),
    ("1 to 4", "all, repaired, refused, failed"),
    ("n, b", "next and previous mark in a reply"),
    ("c", "copy as curl"),
    ("t", "copy as a test"),
    ("i", "copy as an issue report"),
    ("r", "replay"),
    ("e", "exchanges"),
    ("p", "playground"),
    ("Esc", "back to the list, or close a window"),
    ("?", "this list"),
)


def write_page(title: str, page: str, content: Html) -> Html:
    """Return a whole page."""
    return write_document(_SITE, title, page, links=_write_links(page), content=content, windows=_COPIED)


def _write_links(page: str) -> Html:
    pages = (("exchanges", "/inspector", "Exchanges"), ("playground", "/inspector/playground", "Playground"))
    return join(
        html(
            '<a href="{to}"{current}>{label}</a>',
            to=to,
            label=label,
            current=Html(' aria-current="page"') if name == page else None,
        )
        for name, to, label in pages
    )


_COPIED = Html(
    """<dialog id="copy" aria-labelledby="copy-title">
<h2 id="copy-title">Copy</h2>
<textarea id="copy-text" readonly rows="12" aria-labelledby="copy-title"></textarea>
<form method="dialog"><button>Close</button></form>
</dialog>"""
)


_SITE = Site(
    "inspector",
    "/inspector",
    Html('<script type="module" src="/inspector/static/inspector.js"></script>'),
    KEYS,
    "Secrets are hidden before anything is kept.",
)


# ---- the list --------------------------------------------------------------------------------------------------------


def write_exchanges(
    entries: Sequence[Entry], show: Filter, words: str, detail: Html, *, chosen: str = "", dropped: int = 0
) -> Html:
    """Return the list of exchanges beside one of them."""
    return html(
        """<div class="columns{open}">
<section class="list" aria-label="List of exchanges">
<form role="search" method="get" action="/inspector" id="search">
<div class="field"><label for="q">Search <kbd>/</kbd></label>
<input type="search" id="q" name="q" value="{words}" autocomplete="off" spellcheck="false"></div>
<fieldset><legend>Show</legend>{filters}</fieldset>
<button class="plain">Apply</button>
</form>
<p id="count" role="status" data-dropped="{dropped}">{count}</p>
<ol id="rows">{rows}</ol>
</section>
<main id="main" tabindex="-1">{detail}</main>
</div>""",
        open=" open" if chosen else "",
        words=words,
        filters=_write_filters(show),
        dropped=dropped,
        count=say_count(len(entries), show, words, dropped),
        rows=write_rows(entries, chosen),
        detail=detail,
    )


def say_count(count: int, show: Filter, words: str, dropped: int = 0) -> str:
    """Return how many exchanges are listed."""
    said = f"{count or 'No'} {'exchange' if count == 1 else 'exchanges'}"
    said += "" if show == "all" else f", {show}"
    said += f", with {words!r}" if words else ""
    return f"{said}; {dropped} were too many to keep" if dropped else said


def _write_filters(show: Filter) -> Html:
    return join(
        html(
            '<label><input type="radio" name="show" value="{name}"{mark}><span>{label}</span></label>',
            name=name,
            label=_LABELS[name],
            mark=Html(" checked") if name == show else None,
        )
        for name in FILTERS
    )


def write_rows(entries: Iterable[Entry], chosen: str = "") -> Html:
    """Return the rows of the list."""
    return join(write_row(entry, is_chosen=entry.id == chosen) for entry in entries)


def write_row(entry: Entry, *, is_chosen: bool = False) -> Html:
    """Return one row. The page replaces the row with the same id."""
    report = entry.report
    calls = [call.name for call in report.calls]
    # A name that the client received all the same is not missing: it came again, or as it was.
    held = [each.name or "?" for each in (*report.refused, *report.invalid, *report.suspects) if each.name not in calls]
    found = ", ".join(calls[:3]) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")
    missed = ", ".join(held[:3])
    return html(
        """<li data-id="{id}"><a href="/inspector/exchanges/{id}"{current}>
<span class="line"><span class="state {state}">{word}</span>{again}<time datetime="{iso}">{clock}</time></span>
<span class="model">{model}</span>{prompt}
<span class="line small"><span>{wire}</span>{calls}{held}<span class="seconds">{seconds}</span></span>
</a></li>""",
        id=entry.id,
        current=Html(' aria-current="true"') if is_chosen else None,
        state=entry.state,
        word=_WORDS[entry.state],
        again=when(entry.replay_of, '<span class="state replay">replay</span>'),
        iso=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.began)),
        clock=time.strftime("%H:%M:%S", time.localtime(entry.began)),
        model=(report.model or report.requested_model or "no model")[:80],
        prompt=when(entry.prompt, '<span class="prompt">{prompt}</span>', prompt=entry.prompt),
        wire=report.wire,
        calls=when(found, '<span class="calls">{found}</span>', found=found),
        held=when(missed, '<span class="held">not passed on: {missed}</span>', missed=missed),
        seconds=show_seconds(report.seconds) if not entry.running else "",
    )


def show_seconds(seconds: float) -> str:
    """Return a duration for a person."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


_WELCOME = Html(
    """<div class="welcome"><h1>Exchanges</h1>
<p>Choose an exchange, or press <kbd>j</kbd>. New ones appear at the top of the list.</p>
<p>Each shows the request of the client, the request to the endpoint, the raw reply with its calls, and what was
repaired.</p></div>"""
)
_WAITING = Html(
    """<div class="welcome waiting"><h1>No exchanges yet</h1>
<p>Send a request through the gateway; it appears here at once. <a href="/inspector/playground">The playground</a> needs
none: paste the output of a model there.</p></div>"""
)


def write_welcome(is_empty: bool) -> Html:
    """Return what stands in place of an exchange."""
    return _WAITING if is_empty else _WELCOME


def write_error(title: str, said: str) -> Html:
    """Return a message in place of the content."""
    return html('<div class="welcome"><h1>{title}</h1><p>{said}</p></div>', title=title, said=said)


# ---- the playground --------------------------------------------------------------------------------------------------

_EXAMPLE_TEXT = """I will look that up.

<tool_call>
{"name": "weather", "arguments": {"city": "Paris", "days": "3",}}
</tool_call>
"""
_EXAMPLE_TOOLS = """[
  {
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {
      "type": "object",
      "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
      "required": ["city"]
    }
  }
]
"""


def write_playground(result: Html) -> Html:
    """Return the playground with its example."""
    return html(
        """<main id="main" tabindex="-1" class="playground">
<h1>Playground</h1>
<p class="lead">Paste what a model wrote, and the tools that it was offered. Nothing is sent to an endpoint or kept.</p>
<div class="halves">
<form id="play" action="/inspector/playground" method="get" aria-label="Input">
<div class="field"><label for="play-text">Output of the model</label>
<textarea id="play-text" name="text" rows="12" spellcheck="false" autocomplete="off">
{text}</textarea></div>
<div class="field"><label for="play-tools">Tools (JSON)</label>
<textarea id="play-tools" name="tools" rows="10" spellcheck="false" autocomplete="off">
{tools}</textarea></div>
<div class="choices">
<div class="field"><label for="play-format">Format</label>
<select id="play-format" name="format">{formats}</select></div>
<div class="field"><label for="play-trust">Trust profile</label>
<select id="play-trust" name="trust">{trusts}</select></div>
<div class="field"><label for="play-piece">Pieces of</label>
<select id="play-piece" name="piece">{pieces}</select></div>
</div>
</form>
<section id="play-result" aria-label="Result">{result}</section>
</div>
</main>""",
        text=_EXAMPLE_TEXT,
        tools=_EXAMPLE_TOOLS,
        formats=options(list_formats(), AUTO),
        trusts=options(TRUSTS, "default"),
        pieces=join(
            html('<option value="{size}">{label}</option>', size=size, label=label)
            for size, label in ((0, "the whole text"), (1, "1 character"), (4, "4 characters"), (16, "16 characters"))
        ),
        result=result,
    )


def example() -> tuple[str, str]:
    """Return the text and the tools that the playground begins with."""
    return _EXAMPLE_TEXT, _EXAMPLE_TOOLS
