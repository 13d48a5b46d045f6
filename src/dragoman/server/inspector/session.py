"""Who may see the inspector: a browser that opened the one-time link of the terminal, and has its cookie since.

The cookie has the port in its name, because browsers send cookies to all ports of a host: two gateways on one machine
would overwrite each other's. `SameSite=Strict` and the checks of `Host`, `Origin` and `Sec-Fetch-Site` keep other
pages out, `HttpOnly` keeps scripts away from it, and `Path` keeps it from other paths.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from hmac import compare_digest
from urllib.parse import parse_qs

from dragoman.server.asgi import HttpCall

ROOT = "/inspector"
OPEN = f"{ROOT}/open"
_MOST_SESSIONS = 32
_SECONDS_BETWEEN_LINKS = 10.0


class Sessions:
    """Makes one-time links, and knows the cookies that they gave."""

    def __init__(
        self, announce: Callable[[str], object] | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`announce` shows a further link to the owner of the gateway, where nobody else can read it."""
        self.address = ""
        """The URL of the gateway, as its owner reaches it."""
        self._announce = announce
        self._clock = clock
        self._announced = -_SECONDS_BETWEEN_LINKS
        self._token = secrets.token_urlsafe(32)
        self._known: list[str] = []

    @property
    def link(self) -> str:
        """The link that opens the inspector once; empty if it has been used."""
        return f"{self.address}{OPEN}?token={self._token}" if self._token else ""

    def open(self, call: HttpCall) -> str | None:
        """Return the cookie for a request with the link, which is used up; None if the link is not valid."""
        given = parse_qs(call.query).get("token", [""])
        # A browser that loads a page before its user asks for it must not use up the link.
        if call.method != "GET" or "sec-purpose" in call.headers or "purpose" in call.headers:
            return None
        if not self._token or len(given) != 1 or not _is_same(given[0], self._token):
            return None
        self._token = ""
        value = secrets.token_urlsafe(32)
        self._known = [*self._known[1 - _MOST_SESSIONS :], value]
        return f"{self._name(call)}={value}; Path={ROOT}; HttpOnly; SameSite=Strict"

    def knows(self, call: HttpCall) -> bool:
        """Whether a request has the cookie of a link."""
        wanted = self._name(call)
        for pair in call.headers.get("cookie", "").split(";"):
            name, _, value = pair.strip().partition("=")
            if name == wanted and any([_is_same(value, known) for known in self._known]):
                return True
        return False

    def renew(self) -> None:
        """Show the link to the owner, because somebody asked for the inspector. A link that is used up is replaced."""
        now = self._clock()
        if self._announce is None or (self._token and now - self._announced < _SECONDS_BETWEEN_LINKS):
            return
        self._announced = now
        self._token = self._token or secrets.token_urlsafe(32)
        self._announce(self.link)

    def _name(self, call: HttpCall) -> str:
        port = call.headers.get("host", "").rpartition(":")[2]
        return f"dragoman_inspector_{port if port.isdigit() else '80'}"


def _is_same(given: str, known: str) -> bool:
    return compare_digest(given.encode("utf-8", "replace"), known.encode())
