"""Answers with pages: their headers, their content security policy, and the files that they load."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files

import msgspec

from dragoman.server.asgi import HttpCall
from dragoman.server.web.markup import Html

HTML = "text/html; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
PAGE_HEADERS = {
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
PAGE_METHODS = ("GET", "HEAD", "POST")
SECONDS_BETWEEN_BEATS = 15.0
"""How long a stream of events may be silent: proxies and browsers close one that is silent for longer."""
_KINDS = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_SHARED = frozenset({"pages.css", "icon.svg"})


def write_policy(host: str, root: str, page: str) -> str:
    """Return the content security policy. Scripts and styles come from one folder, and nothing else is loaded.

    `page` names the one policy of trusted types, which the script of the pages makes.
    """
    own_pages = "'self'" if host else "'none'"
    # A policy cannot name an address of IPv6. Without a scheme, the one of the page is meant.
    own = own_pages if host[:1] in ("", "[") else f"{host}{root}/static/"
    return (
        f"default-src 'none'; script-src {own}; style-src {own}; img-src {own}; connect-src {own_pages}; "
        f"form-action {own_pages}; base-uri 'none'; frame-ancestors 'none'; "
        f"require-trusted-types-for 'script'; trusted-types {page}"
    )


async def answer_html(call: HttpCall, content: Html, status: int = 200) -> None:
    """Send a page."""
    await call.answer(status, content.encode("utf-8", "replace"), kind=HTML)


async def answer_text(call: HttpCall, status: int, said: str) -> None:
    """Send one sentence in place of a page."""
    await call.answer(status, f"{said}\n".encode("utf-8", "replace"), kind=TEXT)


async def send_event(call: HttpCall, name: str, data: object) -> None:
    """Send an event of a stream to a page."""
    await call.send(b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data)))


async def answer_static(call: HttpCall, root: str, package: str, names: frozenset[str]) -> None:
    """Send a file of the pages: one of `names` in their own package, or one that all pages share."""
    name = call.path.rpartition("/")[2]
    if name not in names | _SHARED or call.path != f"{root}/static/{name}":
        await answer_text(call, 404, "There is no such file.")
        return
    home = __package__ if name in _SHARED else package
    await call.answer(200, _read_file(home, name), kind=_KINDS[name.rpartition(".")[2]])


@lru_cache
def _read_file(package: str, name: str) -> bytes:
    return files(package).joinpath("static", name).read_bytes()
