"""Who may see the pages of a server: a browser that opened a one-time link, or gave a key, and has a cookie since.

The cookie has the port in its name, because browsers send cookies to all ports of a host: two servers on one machine
would overwrite each other's. `SameSite=Strict` and the checks of `Host`, `Origin` and `Sec-Fetch-Site` keep other
pages out, `HttpOnly` keeps scripts away from it, and `Path` keeps it from other paths.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from hmac import compare_digest
from urllib.parse import parse_qs

from msgspec import Struct

from dragoman.server.asgi import HttpCall

_MOST_SESSIONS = 32
_SECONDS_BETWEEN_LINKS = 10.0


class Visitor(Struct, frozen=True):
    """A browser with a cookie: the name of its person, and the digest of the key that it gave, if it gave one."""

    cookie: str
    name: str = ""
    key: str = ""


class Sessions:
    """Makes one-time links, and knows the cookies that they gave."""

    def __init__(
        self,
        page: str,
        root: str = "",
        announce: Callable[[str], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        owner: str = "",
    ) -> None:
        """`announce` shows a further link to the owner of the server, where nobody else can read it.

        `page` is the name of the pages, `root` the path above all of them, and `owner` who opens the links.
        """
        self.address = ""
        """The URL of the server, as its owner reaches it."""
        self._page = page
        self._root = root
        self._owner = owner
        self._announce = announce
        self._clock = clock
        self._announced = -_SECONDS_BETWEEN_LINKS
        self._token = secrets.token_urlsafe(32)
        self._secret = secrets.token_bytes(32)
        self._known: list[Visitor] = []

    @property
    def link(self) -> str:
        """The link that opens the pages once; empty if it has been used."""
        return f"{self.address}{self._root}/open?token={self._token}" if self._token else ""

    def open(self, call: HttpCall) -> str | None:
        """Return the cookie for a request with the link, which is used up; None if the link is not valid."""
        given = parse_qs(call.query).get("token", [""])
        # A browser that loads a page before its user asks for it must not use up the link.
        if call.method != "GET" or "sec-purpose" in call.headers or "purpose" in call.headers:
            return None
        if not self._token or len(given) != 1 or not _is_same(given[0], self._token):
            return None
        self._token = ""
        return self.enter(call, self._owner)

    def enter(self, call: HttpCall, name: str, key: str = "") -> str:
        """Return a new cookie for a person who may see the pages."""
        value = secrets.token_urlsafe(32)
        self._known = [*self._known[1 - _MOST_SESSIONS :], Visitor(value, name, key)]
        secure = "; Secure" if call.headers.get("origin", "").lower().startswith("https:") else ""
        return f"{self._name(call)}={value}; Path={self._root or '/'}; HttpOnly; SameSite=Strict{secure}"

    def find(self, call: HttpCall) -> Visitor | None:
        """Return who sent a request, by its cookie."""
        wanted = self._name(call)
        for pair in call.headers.get("cookie", "").split(";"):
            name, _, value = pair.strip().partition("=")
            found = [known for known in self._known if _is_same(value, known.cookie)] if name == wanted else []
            if found:
                return found[0]
        return None

    def forget(self, visitor: Visitor) -> None:
        """End a session."""
        self._known = [known for known in self._known if known != visitor]

    def sign(self, visitor: Visitor, *shown: str) -> str:
        """Return a token for a form of a page, which is valid for one visitor and for what the page showed."""
        said = "\0".join((visitor.cookie, *shown)).encode("utf-8", "surrogatepass")
        return hmac.new(self._secret, said, "sha256").hexdigest()

    def is_signed(self, token: str, visitor: Visitor, *shown: str) -> bool:
        """Whether a token is that of a form which this visitor was shown."""
        return _is_same(token, self.sign(visitor, *shown))

    def renew(self) -> None:
        """Show the link to the owner, because somebody asked for the pages. A link that is used up is replaced."""
        now = self._clock()
        if self._announce is None or (self._token and now - self._announced < _SECONDS_BETWEEN_LINKS):
            return
        self._announced = now
        self._token = self._token or secrets.token_urlsafe(32)
        self._announce(self.link)

    def _name(self, call: HttpCall) -> str:
        port = call.headers.get("host", "").rpartition(":")[2]
        return f"dragoman_{self._page}_{port if port.isdigit() else '80'}"


def _is_same(given: str, known: str) -> bool:
    return compare_digest(given.encode("utf-8", "replace"), known.encode())
