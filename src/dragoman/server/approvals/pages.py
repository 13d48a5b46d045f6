"""The pages of approvals: the frame, the list of what waits, one request with its diff, and the forms to answer."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.characters import escape_text
from dragoman.server.approvals.requests import is_question
from dragoman.server.web.markup import Html, Site, html, join, when, write_document

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_WORDS = {"open": "waits", "expired": "expired", "approved": "approved", "denied": "denied", "answered": "answered"}
_HIDDEN_NOTE = "a secret is hidden here; the call receives the real value"
_ESCAPED_NOTE = "characters that cannot be seen are written as \\uXXXX, and then a backslash as \\\\"
_IN_A_DIFF = frozenset({"content", "old", "new"})
_MOST_OF_A_SUMMARY = 120
_MOST_ROWS = 200
_KEYS = (
    ("j, k", "next and previous request"),
    ("a", "to the button that approves, or to the answer"),
    ("d", "to the reason of a denial"),
    ("Esc", "back to the list"),
    ("?", "this list"),
)


_SITE = Site(
    "approvals",
    "",
    Html(
        '<link rel="stylesheet" href="/static/approvals.css">\n'
        '<script type="module" src="/static/approvals.js"></script>'
    ),
    _KEYS,
    "An approval is valid once, for exactly what is shown.",
)
_LINKS = Html('<a href="/" aria-current="page">Requests</a>')


def write_page(title: str, content: Html, person: str = "") -> Html:
    """Return a whole page."""
    said = when(person, '<p class="person">You answer as <strong>{person}</strong></p>', person=person)
    # The page has the layout of the list in the shared style.
    return write_document(_SITE, title, "exchanges", links=_LINKS, content=content, person=said)


def write_login(said: str, *, is_near: bool) -> Html:
    """Return what a browser sees that has no cookie. Links are only for the machine of the server."""
    return html(
        """<main id="main" tabindex="-1"><div class="welcome"><h1>Who are you?</h1>
{said}{link}
<form method="post" action="/login" class="answer">
<div class="field"><label for="key">Your key for approvals</label>
<input type="password" id="key" name="key" autocomplete="current-password" required></div>
<p><button>Log in</button></p></form>
</div></main>""",
        said=when(said, '<p class="alert" role="alert">{said}</p>', said=said),
        link=when(is_near, "<p>Open the link that the terminal of the server shows, or give a key.</p>"),
    )


# ---- the list --------------------------------------------------------------------------------------------------------


def write_requests(listed: Sequence[dict[str, Any]], detail: Html, now: float, chosen: str = "") -> Html:
    """Return the list of requests beside one of them."""
    return html(
        """<div class="columns{open}">
<section class="list" aria-label="What waits for approval">
<p id="count" role="status">{count}</p>
<ol id="rows">{rows}</ol>
</section>
<main id="main" tabindex="-1" data-chosen="{chosen}">{detail}</main>
</div>""",
        open=" open" if chosen else "",
        count=say_count(len(listed)),
        rows=write_rows(listed, now, chosen),
        chosen=chosen,
        detail=detail,
    )


def say_count(count: int) -> str:
    """Return how many requests wait."""
    if not count:
        return "Nothing waits"
    more = f"; the oldest {_MOST_ROWS} are shown" if count > _MOST_ROWS else ""
    return f"{count} {'request waits' if count == 1 else 'requests wait'}{more}"


def write_rows(listed: Sequence[dict[str, Any]], now: float, chosen: str = "") -> Html:
    """Return the rows of the list."""
    return join(
        html(
            """<li data-id="{id}"><a href="/requests/{id}"{current}>
<span class="line"><span class="state {state}">{word}</span><time datetime="{iso}">{age}</time></span>
<span class="model">{tool}</span><span class="prompt">{about}</span>
<span class="line small"><span>{agent}</span><span>{run}</span></span>
</a></li>""",
            id=data["id"],
            current=Html(' aria-current="true"') if data["id"] == chosen else None,
            state="refused" if data["state"] == "open" else "failed",
            word=_WORDS[data["state"]],
            iso=_write_iso(data["asked"]),
            age=show_age(now - data["asked"]),
            tool=data["tool"][:80],
            about=_summarise(data),
            agent=data["agent"] or data["model"],
            run=data["run_id"],
        )
        for data in listed[:_MOST_ROWS]
    )


def _summarise(data: dict[str, Any]) -> str:
    values = [operand["value"] for operand in data["operands"]]
    values = values or [value if isinstance(value, str) else _write_json(value) for value in data["arguments"].values()]
    return " ".join(", ".join(values).split())[:_MOST_OF_A_SUMMARY]


def _write_json(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value)).decode("utf-8", "replace")


def _write_iso(moment: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(moment))


def show_age(seconds: float) -> str:
    """Return the age of a request for a person."""
    unit, name = next((each for each in _UNITS if seconds >= each[0]), (1, "s"))
    return f"{max(0, int(seconds // unit))} {name} ago"


def write_welcome(is_empty: bool) -> Html:
    """Return what stands in place of a request."""
    if is_empty:
        return Html(
            '<div class="welcome waiting"><h1>Nothing waits</h1><p>A call that needs an approval appears here when '
            "its run stops for it.</p></div>"
        )
    return Html('<div class="welcome"><h1>Requests</h1><p>Choose a request, or press <kbd>j</kbd>.</p></div>')


def write_notice(title: str, said: str) -> Html:
    """Return a message in place of a request."""
    return html(
        '<div class="welcome notice"><p class="back"><a href="/">All requests</a></p><h1>{title}</h1>'
        '<p role="status">{said}</p><p><a href="/">What else waits</a></p></div>',
        title=title,
        said=said,
    )


# ---- one request -----------------------------------------------------------------------------------------------------


def write_detail(data: dict[str, Any], token: str, now: float, problem: str = "") -> Html:
    """Return a request with everything that its approval covers. `token` binds the forms to its digest."""
    return html(
        """<article data-request="{id}" data-digest="{digest}">
<p class="back"><a href="/">All requests</a></p>
<h1 id="request-title">{tool}</h1>
{problem}
<p class="verdict">{why}</p>
{change}
<h2>Arguments</h2>
{arguments}
{operands}
{answer}
<h2>About the request</h2>
<dl class="facts">{facts}</dl>
</article>""",
        id=data["id"],
        digest=data["digest"],
        tool=data["tool"],
        problem=when(problem, '<p class="alert" role="alert">{problem}</p>', problem=problem),
        why=data["why"],
        change=_write_change(data["change"]),
        arguments=_write_arguments(data),
        operands=_write_operands(data["operands"]),
        answer=_write_answer(data, token),
        facts=_write_facts(data, now),
    )


def _write_change(change: dict[str, Any] | None) -> Html:
    if change is None:
        return Html("")
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = join(
        html('<span class="{kind}">{line}\n</span>', kind=kinds.get(line[:1], "same"), line=line)
        for line in change["lines"]
    )
    return html(
        "<h2>Change of <code>{path}</code></h2>{note}{lines}",
        path=change["path"],
        note=when(change["note"], '<p class="empty">{note}</p>', note=change["note"]),
        lines=when(change["lines"], '<pre class="diff" tabindex="0" aria-label="Diff">{lines}</pre>', lines=lines),
    )


def _write_arguments(data: dict[str, Any]) -> Html:
    in_diff = _IN_A_DIFF if data["change"] is not None and data["change"]["lines"] else frozenset()
    shown = {name: value if isinstance(value, str) else _write_json(value) for name, value in data["arguments"].items()}
    rows = join(
        html("<dt>{name}</dt><dd>{value}</dd>", name=name, value=_write_argument(value, name in in_diff))
        for name, value in shown.items()
    )
    hidden = [f"{path}: {_HIDDEN_NOTE}" for path in data["hidden"]]
    escaped = [_ESCAPED_NOTE] if any(escape_text(text) != text for pair in shown.items() for text in pair) else []
    return html(
        '{none}<dl class="arguments">{rows}</dl>{notes}',
        none=when(not shown, '<p class="empty">There are no arguments.</p>'),
        rows=rows,
        notes=join(html('<p class="alert">{note}</p>', note=note) for note in (*hidden, *escaped)),
    )


def _write_argument(value: str, is_in_diff: bool) -> Html:
    shown = html("<pre>{value}</pre>", value=value)
    # The diff says the same, and shows what it replaces.
    return html("<details><summary>The whole text</summary>{shown}</details>", shown=shown) if is_in_diff else shown


def _write_operands(operands: Sequence[dict[str, Any]]) -> Html:
    rows = join(
        html(
            "<li><strong>{access}</strong> <code>{value}</code> {notes}</li>",
            access=operand["access"],
            value=operand["value"],
            notes=when(notes := _note_operand(operand), '<span class="small">{notes}</span>', notes="; ".join(notes)),
        )
        for operand in operands
    )
    return when(operands, "<h2>What it would touch</h2><ul>{rows}</ul>", rows=rows)


def _note_operand(operand: dict[str, Any]) -> list[str]:
    notes = []
    if operand["real"] and operand["real"] != operand["value"] and operand["kind"] != "url":
        notes.append(f"really {operand['real']}")
    if operand["kind"] == "path":
        notes.append("in the workspace" if operand["inside"] else "OUTSIDE the workspace")
        notes += [] if operand["identity"] else ["does not exist yet"]
    elif operand["kind"] == "url" and not operand["inside"]:
        notes.append("NOT a public address")
    if operand["protected"]:
        notes.append("PROTECTED: it affects what is trusted later")
    return notes


def _write_answer(data: dict[str, Any], token: str) -> Html:
    given = data["answered"]
    if given is not None:
        reason = f": {given['reason']}" if given["reason"] else ""
        return html(
            '<h2>Answer</h2><p role="status" class="settled">{state} by <strong>{by}</strong>{reason}. '
            "The run has not used it yet.</p>",
            state=_WORDS[data["state"]].capitalize(),
            by=given["by"],
            reason=reason,
        )
    if data["state"] == "expired":
        return Html('<h2>Answer</h2><p role="status" class="settled">The request has expired.</p>')
    bound = html(
        '<input type="hidden" name="digest" value="{digest}"><input type="hidden" name="token" value="{token}">',
        digest=data["digest"],
        token=token,
    )
    asks = is_question(data)
    return html(
        """<h2>Your answer</h2><div class="ways">{first}{deny}{second}</div>""",
        first=_write_question(data, bound) if asks else _write_approve(data, bound),
        deny=_write_deny(data, bound),
        second=when(
            not asks,
            "<details><summary>Answer in place of the tool</summary>{form}</details>",
            form=_write_result(data, bound, "The model receives this text as the result. Nothing runs."),
        ),
    )


def _write_approve(data: dict[str, Any], bound: Html) -> Html:
    return html(
        """<form method="post" action="/requests/{id}" class="answer">{bound}
<input type="hidden" name="choice" value="approve">
<p class="small">The call runs once, as it is shown.</p>
<p><button id="approve" class="approve">Approve</button></p></form>""",
        id=data["id"],
        bound=bound,
    )


def _write_deny(data: dict[str, Any], bound: Html) -> Html:
    return html(
        """<form method="post" action="/requests/{id}" class="answer">{bound}
<input type="hidden" name="choice" value="deny">
<div class="field"><label for="reason">Reason, for the model</label>
<input type="text" id="reason" name="reason" maxlength="2000" autocomplete="off"></div>
<p><button class="deny">Deny</button></p></form>""",
        id=data["id"],
        bound=bound,
    )


def _write_question(data: dict[str, Any], bound: Html) -> Html:
    choices = data["arguments"].get("choices")
    picks = join(
        html('<li><button name="result" value="{choice}">{choice}</button></li>', choice=choice)
        for choice in (choices if isinstance(choices, list) else ())
        if isinstance(choice, str)
    )
    buttons = html(
        """<form method="post" action="/requests/{id}" class="answer">{bound}
<input type="hidden" name="choice" value="answer"><ul class="picks">{picks}</ul></form>""",
        id=data["id"],
        bound=bound,
        picks=picks,
    )
    return html("{buttons}{form}", buttons=buttons if picks else None, form=_write_result(data, bound, ""))


def _write_result(data: dict[str, Any], bound: Html, note: str) -> Html:
    return html(
        """<form method="post" action="/requests/{id}" class="answer">{bound}
<input type="hidden" name="choice" value="answer">{note}
<div class="field"><label for="result">Answer</label>
<textarea id="result" name="result" rows="3" required></textarea></div>
<p><button>Send the answer</button></p></form>""",
        id=data["id"],
        bound=bound,
        note=when(note, '<p class="small">{note}</p>', note=note),
    )


def _write_facts(data: dict[str, Any], now: float) -> Html:
    expires = data["expires"]
    facts = (
        ("State", _WORDS[data["state"]]),
        ("Agent", data["agent"]),
        ("Model", data["model"]),
        ("Task", data["task"]),
        ("Asked", f"{show_age(now - data['asked'])}, {_write_iso(data['asked'])}"),
        ("Expires", "" if expires is None else _write_iso(expires)),
        ("Run", data["run_id"]),
        ("Session", data["session"] if data["session"] != data["run_id"] else ""),
        ("Request", data["id"]),
        ("Digest of the call", data["digest"]),
    )
    return join(
        html("<div><dt>{name}</dt><dd>{value}</dd></div>", name=name, value=value) for name, value in facts if value
    )
