"""One exchange as HTML: its replies with marked calls, its requests, its replay, and its copies."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dragoman.server.inspector.pages import show_seconds
from dragoman.server.inspector.store import Entry, Held, Hop, Mark, Sent, Turn
from dragoman.server.inspector.trial import AUTO, TRUSTS, Step, Trial, list_formats
from dragoman.server.web.markup import Html, html, join, options, when
from dragoman.types import Change, ToolCall

_TITLES = {"call": "call", "refused": "refused", "invalid": "invalid", "suspect": "suspect"}
RECORDED = "the recorded reply"
"""The choice of a replay that sends nothing."""


def write_detail(entry: Entry, endpoints: Sequence[str]) -> Html:
    """Return everything that is known about an exchange."""
    return html(
        """<article aria-labelledby="exchange-title" data-exchange="{id}">
<p class="back"><a href="/inspector">Back to the list</a></p>
<h1 id="exchange-title">{model}</h1>
{failure}
{facts}
{copies}
{turns}
{notes}
{replay}
<section aria-labelledby="requests"><h2 id="requests">Requests and raw replies</h2>
{sent}{hops}</section>
</article>""",
        id=entry.id,
        model=entry.report.model or entry.report.requested_model or "Exchange",
        failure=when(
            entry.report.failure, '<p class="alert" role="alert">Failed: {said}</p>', said=entry.report.failure
        ),
        facts=_write_facts(entry),
        copies=_write_copies(entry),
        turns=_write_turns(entry),
        notes=_write_notes(entry),
        replay=_write_replay(entry, endpoints),
        sent=_write_sent("Request of the client", entry.sent, is_open=False),
        hops=join(_write_hop(hop, number, len(entry.hops)) for number, hop in enumerate(entry.hops, 1)),
    )


def _write_facts(entry: Entry) -> Html:
    report = entry.report
    usage = report.usage
    cost = "unknown" if entry.dollars is None else f"${entry.dollars:.6f}".rstrip("0").rstrip(".")
    first = next((hop.wait for hop in entry.hops if hop.wait), 0.0)
    facts: list[tuple[str, str]] = [
        ("State", entry.state),
        ("Time", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.began))),
        ("Took", show_seconds(report.seconds) + (f", first answer after {show_seconds(first)}" if first else "")),
        ("Tokens", f"{usage.input_tokens} in, {usage.output_tokens} out, {usage.cached_tokens} cached"),
        ("Cost", cost),
        ("Asked for", report.requested_model or "-"),
        ("Wire", report.wire + (", streamed" if report.streamed else "")),
        ("Tools", f"{report.tools}, {report.tool_mode}" if report.tool_mode else "none"),
        ("Profile", entry.profile or entry.trust),
        ("Stop", report.stop or "-"),
        *([("Key", report.client)] if report.client else []),
    ]
    rows = [html("<div><dt>{name}</dt><dd>{value}</dd></div>", name=name, value=value) for name, value in facts]
    rows.append(html('<div><dt>Exchange</dt><dd class="id">{id}</dd></div>', id=entry.id))
    if entry.replay_of:
        link = html('<a href="/inspector/exchanges/{id}">{id}</a>', id=entry.replay_of)
        rows.append(html("<div><dt>Replay of</dt><dd>{link}</dd></div>", link=link))
    return html('<dl class="facts">{rows}</dl>', rows=rows)


def _write_copies(entry: Entry) -> Html:
    kinds = (("curl", "Copy as curl", "c"), ("test", "Copy as test", "t"), ("report", "Copy as issue report", "i"))
    return html(
        '<p class="actions" role="group" aria-label="Copies">{links}</p>',
        links=[
            html(
                '<a class="button" data-copy="{kind}" href="/inspector/exchanges/{id}/{kind}">'
                "{label} <kbd>{key}</kbd></a>",
                kind=kind,
                id=entry.id,
                label=label,
                key=key,
            )
            for kind, label, key in kinds
        ],
    )


# ---- replies ---------------------------------------------------------------------------------------------------------


def _write_turns(entry: Entry) -> Html:
    if entry.running:
        return html('<p class="empty">{said}</p>', said="The reply is not over yet.")
    if not entry.turns:
        said = "The route changes nothing, so the reply was not read." if entry.profile == "passthrough" else ""
        return html('<p class="empty">{said}</p>', said=said or "There is no reply to read.")
    many = len(entry.turns) > 1
    return join(
        html(
            '<section aria-label="{title}"><h2>{title}</h2>{turn}</section>',
            title=f"Reply {number}" if many else "Reply",
            turn=write_turn(turn),
        )
        for number, turn in enumerate(entry.turns, 1)
    )


def write_turn(turn: Turn) -> Html:
    """Return the text of a reply with its marks, and the calls."""
    how = " ".join(filter(None, (f"tool mode {turn.tool_mode}" if turn.tool_mode else "", turn.format)))
    return html(
        """{text}{thinking}{calls}{held}{notice}{how}""",
        text=when(
            turn.text,
            '<pre class="reply" tabindex="0" aria-label="Text of the reply">{marked}</pre>',
            marked=mark_text(turn.text, turn.marks),
        )
        or html('<p class="empty">{said}</p>', said="The reply has no text."),
        thinking=when(
            turn.thinking,
            "<details><summary>Reasoning</summary><pre>{thinking}</pre></details>",
            thinking=turn.thinking,
        ),
        calls=write_calls(turn.calls),
        held=write_held(turn.held),
        notice=when(
            turn.notice,
            "<details><summary>Message to the model</summary><pre>{notice}</pre></details>",
            notice=turn.notice,
        ),
        how=when(how, '<p class="small">{how}; trust profile {trust}</p>', how=how, trust=turn.trust or "-"),
    )


def mark_text(text: str, marks: Iterable[Mark]) -> Html:
    """Return a text with its calls marked. The words of each mark are also there for a screen reader."""
    pieces: list[Html] = []
    at = 0
    for mark in marks:
        start, end = _tighten(text, *mark.span)
        pieces.append(html("{text}", text=text[at:start]))
        pieces.append(
            html(
                '<mark class="{kind}" tabindex="0" title="{title}"><span class="tag">{kind} {name}'
                '<span class="hidden">: </span></span>{text}<span class="hidden"> end of {kind}</span></mark>',
                kind=_TITLES[mark.kind],
                name=mark.name,
                title=mark.why or f"{mark.kind} of {mark.name}",
                text=text[start:end],
            )
        )
        at = end
    pieces.append(html("{text}", text=text[at:]))
    return join(pieces)


def _tighten(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the line breaks around it: a mark would otherwise begin on the line before its call."""
    inner = text[start:end]
    shown = inner.strip()
    return (start + inner.index(shown), start + inner.index(shown) + len(shown)) if shown else (start, end)


def write_calls(calls: Sequence[ToolCall]) -> Html:
    """Return the calls that count, with what was repaired."""
    return when(
        calls,
        """<div class="wide"><table class="calls"><caption>Calls that are passed on</caption>
<thead><tr><th scope="col">Tool</th><th scope="col">Arguments</th><th scope="col">Found</th>
<th scope="col">Repairs</th></tr></thead><tbody>{rows}</tbody></table></div>""",
        rows=[_write_call(call) for call in calls],
    )


def _write_call(call: ToolCall) -> Html:
    origin = call.provenance
    found = ["native field"] if origin is None or origin.channel == "native" else [f"text, {origin.format}"]
    if origin is not None:
        found += [each for each in (origin.level, origin.verdict) if each]
        if origin.channel == "text":
            found.append(f"characters {origin.span[0]} to {origin.span[1]}")
    changes = join(html("<li>{said}</li>", said=_show_change(change)) for change in call.changes)
    repairs = join(html("<li>{name}</li>", name=name) for name in call.repairs)
    done = when(repairs or changes, "<ul>{repairs}{changes}</ul>", repairs=repairs, changes=changes)
    return html(
        '<tr><th scope="row">{name}</th><td><pre>{arguments}</pre></td><td data-column="Found">{found}</td>'
        '<td data-column="Repairs">{done}</td></tr>',
        name=call.name,
        arguments=show_json(call.arguments),
        found=", ".join(found),
        done=done or "none",
    )


def _show_change(change: Change) -> str:
    before, after = (msgspec.json.encode(value, enc_hook=str).decode()[:200] for value in (change.before, change.after))
    return f"{change.path}: {before} became {after} ({change.rule})"


def write_held(held: Sequence[Held]) -> Html:
    """Return the calls that do not fit their tools or do not count, and what only looks like a call."""
    return when(
        held,
        """<div class="wide"><table class="held"><caption>Faulty, refused or suspect</caption>
<thead><tr><th scope="col">Kind</th><th scope="col">Tool</th><th scope="col">Why</th></tr></thead>
<tbody>{rows}</tbody></table></div>""",
        rows=[
            html(
                '<tr><td><span class="state {kind}">{kind}</span></td><th scope="row">{name}</th><td>{why}</td></tr>',
                kind=each.kind,
                name=each.name or "-",
                why=each.why,
            )
            for each in held
        ],
    )


def _write_notes(entry: Entry) -> Html:
    report = entry.report
    kinds: tuple[tuple[str, list[str]], ...] = (
        ("Repair turn", [report.repair_turn] if report.repair_turn else []),
        ("Losses", report.losses),
        ("Notes", report.notes),
        ("Retries", report.retries),
    )
    lists = [
        html(
            "<div><dt>{title}</dt><dd><ul>{lines}</ul></dd></div>",
            title=title,
            lines=[html("<li>{line}</li>", line=line) for line in lines],
        )
        for title, lines in kinds
        if lines
    ]
    return when(
        lists,
        '<section aria-labelledby="notes"><h2 id="notes">What else happened</h2>'
        '<dl class="notes">{lists}</dl></section>',
        lists=lists,
    )


# ---- requests --------------------------------------------------------------------------------------------------------


def _write_sent(title: str, sent: Sent, *, is_open: bool) -> Html:
    return html(
        """<details{open}><summary>{title} <span class="small">{method} {url}</span></summary>
{headers}<pre tabindex="0">{body}</pre>{cut}</details>""",
        open=Html(" open") if is_open else None,
        title=title,
        method=sent.method,
        url=sent.url,
        headers=_write_headers(sent.headers),
        body=show_body(sent.body),
        cut=when(sent.is_cut, '<p class="small">{said}</p>', said="The body is longer than the inspector keeps."),
    )


def _write_headers(headers: dict[str, str]) -> Html:
    return when(
        headers,
        '<pre class="small">{lines}</pre>',
        lines="\n".join(f"{name}: {value}" for name, value in headers.items()),
    )


def _write_hop(hop: Hop, number: int, count: int) -> Html:
    which = f" {number}" if count > 1 else ""
    return html(
        """{sent}<details{open}><summary>Raw reply{which} <span class="small">status {status},
{bytes} characters, {wait}</span></summary>{headers}<pre tabindex="0">{body}</pre>{note}</details>""",
        sent=_write_sent(f"Request to the endpoint{which}", hop.sent, is_open=False),
        open=Html(" open") if count == number and hop.status >= 400 else None,
        which=which,
        status=hop.status or "none",
        bytes=len(hop.body),
        wait=show_seconds(hop.seconds),
        headers=_write_headers(hop.headers),
        body=show_body(hop.body),
        note=when(hop.note, '<p class="small">{note}</p>', note=hop.note),
    )


def show_body(body: str) -> str:
    """Return a body for a person: JSON with line breaks, anything else as it is."""
    if body[:1] in ("{", "["):
        try:
            return msgspec.json.format(body.encode()).decode()
        except msgspec.DecodeError:
            return body
    return body


def show_json(value: Any) -> str:
    """Return a value as JSON with line breaks."""
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str)).decode()


# ---- replay and playground -------------------------------------------------------------------------------------------


def _write_replay(entry: Entry, endpoints: Sequence[str]) -> Html:
    if entry.running:
        return Html("")
    trust = entry.trust if entry.trust in TRUSTS else "default"
    choices = [] if entry.sent.is_cut else endpoints
    return html(
        """<section aria-labelledby="replay"><h2 id="replay">Replay</h2>
<form id="replay-form" data-id="{id}" class="choices">
<div class="field"><label for="replay-endpoint">Where</label><select id="replay-endpoint" name="endpoint">
<option value="">{recorded}</option>{endpoints}</select></div>
<div class="field"><label for="replay-format">Format</label>
<select id="replay-format" name="format">{formats}</select></div>
<div class="field"><label for="replay-trust">Trust profile</label>
<select id="replay-trust" name="trust">{trusts}</select></div>
<button>Replay <kbd>r</kbd></button>
</form>
<p class="small">The recorded reply is read again, and nothing is sent. An endpoint receives the request of the client
again, with placeholders for its secrets; that can cost money.</p>
<div id="replay-result" role="region" aria-label="Result of the replay" tabindex="-1"></div></section>""",
        id=entry.id,
        recorded=RECORDED,
        endpoints=[html('<option value="{name}">the endpoint {name}</option>', name=name) for name in choices],
        formats=options(list_formats(), AUTO),
        trusts=options(TRUSTS, trust),
    )


def write_trial(trial: Trial, *, is_replay: bool = False) -> Html:
    """Return the result of a replay of a reply, or of the playground."""
    turn = trial.turn
    count = f"{len(turn.calls)} {'call' if len(turn.calls) == 1 else 'calls'}"
    held = f", {len(turn.held)} not passed on" if turn.held else ""
    return html(
        """<p class="verdict" role="status">{count}{held} <span class="small">in {time}</span></p>
{turn}{answer}{steps}""",
        count=count,
        held=held,
        time=show_seconds(trial.seconds),
        turn=write_turn(turn),
        answer=when(
            not is_replay and turn.calls,
            "<details><summary>Text without the calls</summary><pre>{text}</pre></details>",
            text=trial.answer or "(empty)",
        ),
        steps=when(
            trial.pieces,
            """<details open><summary>In {pieces} pieces: {same}</summary>
<div class="wide"><table class="steps"><caption class="hidden">Events by piece</caption><thead><tr>
<th scope="col">Piece</th><th scope="col">Event</th><th scope="col">Content</th></tr></thead>
<tbody>{rows}</tbody></table></div></details>""",
            pieces=trial.pieces,
            same="the same result as the whole text" if trial.is_same else "another result than the whole text",
            rows=[_write_step(step) for step in trial.steps],
        ),
    )


def _write_step(step: Step) -> Html:
    return html(
        "<tr><td>{piece}</td><td>{event}</td><td><code>{detail}</code></td></tr>",
        piece=step.piece,
        event=step.event,
        detail=step.detail,
    )


def write_problem(said: str) -> Html:
    """Return an error in place of a result."""
    return html('<p class="alert" role="alert">{said}</p>', said=said)
