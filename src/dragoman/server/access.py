"""Who may use a gateway: the names that it is called by, pages of other origins, keys and limits.

Every request is checked here before any part of its body is read. Without keys, only programs on this machine reach the
gateway, and the checks of Host and Origin keep web pages out: a page in a browser of this machine is a stranger.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Container, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from dragoman.errors import ConfigError
from dragoman.logs import get_log
from dragoman.paths import expand, require_folder, state_folder
from dragoman.providers.prices import Prices
from dragoman.server.asgi import HttpCall
from dragoman.server.keys import KEY_HEADERS, KEYS_FILE, ClientKey, KeyRing, digest_of, read_key_header
from dragoman.server.quotas import EVERYTHING, USAGE_FILE, Permit, Quotas, estimate_tokens
from dragoman.server.settings import ServerSettings, read_origin
from dragoman.types import Failure

if TYPE_CHECKING:
    from dragoman.server.shared import SharedStore

_SINGLE = frozenset({"host", "origin", "content-length", "content-encoding", "transfer-encoding", *KEY_HEADERS})
"""Two of these headers in one request can be read in two ways."""
KEY_VARIABLE = "DRAGOMAN_GATEWAY_KEY"
"""The environment variable with the key of all clients."""
_SHORTEST_KEY = 20
_WITHOUT_KEY = frozenset({("GET", "/healthz"), ("GET", "/readyz")})
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
METHODS_OF_PAGES = (*METHODS, "OPTIONS")
_OWN_SITE = frozenset({"same-origin", "none"})
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})
_MOST_NAMES = 256
_read_host = re.compile(r"(?:\[(?P<v6>[0-9a-f:.]+)\]|(?P<name>[a-z0-9_.-]+))(?::[0-9]{1,5})?", re.IGNORECASE).fullmatch
_is_bad_path = re.compile(r"[\x00-\x1f\x7f\\?#]|/\.{1,2}(?:/|\Z)|\A(?!/)").search
_is_bad_query = re.compile(r"[^\x21-\x7e]").search
_is_header_list = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~, -]{0,1000}").fullmatch


def is_loopback(host: str) -> bool:
    """Whether an address, or the name of one, is reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def open_access(
    settings: ServerSettings,
    environment: Mapping[str, str],
    prices: Prices | None = None,
    store: SharedStore | None = None,
) -> Access:
    """Read the keys. Raises a ConfigError if others could use the gateway, or if it needs keys and has none.

    A key in the environment is the only one: where a container is replaced, a file with keys would be lost.
    With a `store`, the limits of keys count for all processes that share it.
    """
    if environment.get(KEY_VARIABLE):
        return Access.for_one(_read_key(environment[KEY_VARIABLE]), settings, name="environment")
    path = find_keys_file(settings.keys, environment)
    if path is None:
        ring = KeyRing()
        quotas = Quotas(prices=prices)
    else:
        ring = KeyRing(path)
        quotas = Quotas(path.with_name(USAGE_FILE), prices, store=store)
    option = f" --keys {settings.keys}" if isinstance(settings.keys, str) else ""
    command = f"`dragoman serve keys add NAME{option}` makes one"
    if not ring.keys and not is_loopback(settings.host):
        hint = "remove keys = false" if settings.keys is False else command
        raise ConfigError(f"at {settings.host} others can use the gateway, and clients need no key", hint=hint)
    if not ring.keys and settings.keys:
        raise ConfigError("clients need a key, and there are none", hint=command)
    return Access(settings, ring, quotas)


def _read_key(key: str) -> str:
    if len(key) < _SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"{KEY_VARIABLE} is not a key: it needs {_SHORTEST_KEY} or more characters, and no blanks",
            hint="make a random one: openssl rand -hex 24",
        )
    return key


def find_keys_file(setting: bool | str | None, environment: Mapping[str, str]) -> Path | None:
    """Return the file with the keys; None if the setting switches them off."""
    if setting is False:
        return None
    if isinstance(setting, str):
        if not setting or "\0" in setting or not _is_encodable(setting):
            raise ConfigError(f"{setting!r} is not the name of a file", hint="name the file with the keys")
        return expand(setting, Path.cwd(), environment)
    folder = state_folder(environment)
    return require_folder(folder, "XDG_STATE_HOME") / KEYS_FILE if setting else folder and folder / KEYS_FILE


def _is_encodable(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


class Access:
    """Admits requests."""

    service = "gateway"
    """What the messages call the server."""
    to_add_a_name = "add it to `hosts` in [gateway]"
    to_add_an_origin = "; if this one may, add it to `origins` in [gateway]"

    def __init__(self, settings: ServerSettings, ring: KeyRing | None = None, quotas: Quotas | None = None) -> None:
        self._ring = ring or KeyRing()
        self.quotas = quotas or Quotas()
        # The address stays until the end, also if settings that are read again have another one.
        self._host = settings.host.lower()
        self.needs_keys = bool(self._ring.keys) or not is_loopback(self._host)
        self.use(settings)

    @classmethod
    def for_one(cls, key: str, settings: ServerSettings, name: str = "launch") -> Access:
        """Return the access for one client, whose key is in no file. All others are refused."""
        return cls(settings, KeyRing(keys=[ClientKey(name, digest_of(key), datetime.now(UTC))]))

    def use(self, settings: ServerSettings) -> None:
        """Use the names in settings that were read again. Whether keys are needed is decided at the start."""
        self._names = {"localhost", self._host, *(name.lower() for name in settings.hosts)}
        if self._host in _WILDCARDS:
            self._names.add(socket.gethostname().lower())
        self._accepted: set[str] = set()
        self._origins = frozenset(map(read_origin, settings.origins))

    def admit(self, call: HttpCall) -> Permit | Failure:
        """Return the permission for a request, or why it is refused."""
        failure = self._check_form(call) or self._check_host(call) or self._check_origin(call)
        if failure is not None:
            return failure
        if self._ring.refresh() and self._ring.keys:
            self.needs_keys = True
        login = _take_query_key(call)
        if login and self._ring.find(login) is None:
            # It is for an endpoint that receives the client's login, which is read in the headers.
            call.headers.setdefault("x-goog-api-key", login)
        if not self.needs_keys or (call.method, call.path) in _WITHOUT_KEY:
            return EVERYTHING
        key = self._find_key(call, login)
        if isinstance(key, Failure):
            return key
        return self.quotas.admit(key, estimate_tokens(call.headers))

    # ---- the request ------------------------------------------------------------------------------------------------

    def _check_form(self, call: HttpCall, methods: Container[str] = METHODS) -> Failure | None:
        if call.method not in methods:
            return Failure("bad_request", f"the method {call.method} is not used here", 405, "method_not_allowed")
        if _is_bad_path(call.path) or (call.query and _is_bad_query(call.query)):
            return Failure("bad_request", "the path has characters or steps that no route has", 400)
        given = call.scope["headers"]
        if len(given) != len(call.headers):
            names = [name.decode("latin-1") for name, _ in given]
            for name in _SINGLE:
                if names.count(name) > 1:
                    return Failure("bad_request", f"the header {name} is there more than once", 400)
        return None

    def _check_host(self, call: HttpCall) -> Failure | None:
        host = call.headers.get("host", "")
        if host in self._accepted:
            return None
        found = _read_host(host)
        if found is None:
            return Failure("bad_request", "the header Host is missing, or is not a name", 400)
        name = (found["v6"] or found["name"]).lower().removesuffix(".")
        if not self._knows(name):
            said = f"{name[:100]!r} is not a name of this {self.service}; if it is, {self.to_add_a_name}"
            return Failure("unauthorized", said, 403, "unknown_host")
        if len(self._accepted) >= _MOST_NAMES:
            self._accepted.clear()
        self._accepted.add(host)
        return None

    def _knows(self, name: str) -> bool:
        if name in self._names or is_loopback(name):
            return True
        if self._host not in _WILDCARDS:
            return False
        try:
            # Who names an address needs no name server, so nobody can have changed its answer.
            ip_address(name)
        except ValueError:
            return False
        return True

    def _check_origin(self, call: HttpCall) -> Failure | None:
        """Refuse pages of other origins. Their requests for images and scripts have no Origin, but Sec-Fetch-Site."""
        origin = call.headers.get("origin")
        site = call.headers.get("sec-fetch-site")
        if origin is None and site is None:
            return None
        if self.is_allowed(origin):
            return None
        host = call.headers.get("host", "").lower()
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            said = f"web pages of another origin must not use this {self.service}"
        elif site is not None and site.lower() not in _OWN_SITE:
            said = f"web pages of another site must not use this {self.service}"
        else:
            return None
        hint = self.to_add_an_origin if origin is not None else ""
        return Failure("unauthorized", said + hint, 403, "foreign_origin")

    def check_page(self, call: HttpCall, methods: Container[str], *, from_elsewhere: bool = False) -> Failure | None:
        """Return why a request for a page of the server itself is refused. It is for browsers of this machine.

        A server whose pages need a key may have them read `from_elsewhere`, then perhaps behind a proxy with TLS.
        Names in `hosts` and pages in `origins` may use the gateway, and not its pages. A page of another port of this
        machine has another origin, although it is of the same site.
        """
        # Another name learns nothing, not even which methods there are.
        failure = self._check_form(call, (call.method,)) or self._check_host(call)
        if failure is not None:
            return failure
        host = call.headers.get("host", "").lower()
        found = _read_host(host)
        is_near = found is not None and is_loopback((found["v6"] or found["name"]).removesuffix("."))
        if not is_near and not from_elsewhere:
            return Failure("unauthorized", "this page is for a browser on the machine of the gateway", 403)
        origin, site = call.headers.get("origin"), call.headers.get("sec-fetch-site")
        own = {f"http://{host}"} if is_near else {f"http://{host}", f"https://{host}"}
        if origin is not None and origin.lower() not in own:
            return Failure("unauthorized", "a page of another origin must not use this page", 403, "foreign_origin")
        if site is not None and site.lower() not in _OWN_SITE:
            return Failure("unauthorized", "a page of another site must not use this page", 403, "foreign_origin")
        return self._check_form(call, methods)

    def find_key(self, key: str) -> ClientKey | None:
        """Return the entry of a key that is valid now."""
        return self.find_digest(digest_of(key))

    def find_digest(self, digest: str) -> ClientKey | None:
        """Return the entry with a digest, unless it was revoked or has expired since."""
        self._ring.refresh()
        found = self._ring.keys.get(digest)
        return None if found is None or found.has_expired(datetime.now(UTC)) else found

    def is_allowed(self, origin: str | None) -> bool:
        """Whether the settings allow the pages of an origin."""
        return origin is not None and bool(self._origins) and origin.lower() in self._origins

    def answer_preflight(self, call: HttpCall) -> dict[str, str] | Failure | None:
        """Return the headers that a browser asks for before a request of a page; None if the call is another one.

        It has no key: a browser sends none before it knows that it may.
        """
        if call.method != "OPTIONS" or "access-control-request-method" not in call.headers:
            return None
        if not self.is_allowed(call.headers.get("origin")):
            return None
        failure = self._check_form(call, METHODS_OF_PAGES) or self._check_host(call)
        if failure is not None:
            return failure
        asked = call.headers.get("access-control-request-headers", "")
        if not _is_header_list(asked):
            return Failure("bad_request", "the headers that the page asks for are not names", 400)
        allowed = {
            "access-control-allow-methods": ", ".join(METHODS),
            "access-control-max-age": "600",
            "vary": "origin, access-control-request-headers",
        }
        if asked:
            allowed["access-control-allow-headers"] = asked
        if call.headers.get("access-control-request-private-network") == "true":
            # A page of the internet asks for a server of this machine; the settings say that it may.
            allowed["access-control-allow-private-network"] = "true"
        return allowed

    # ---- the key ----------------------------------------------------------------------------------------------------

    def _find_key(self, call: HttpCall, login: str) -> ClientKey | Failure:
        """Return the key of a request. Keys of this gateway are removed from all headers, so that none goes further."""
        sent = bool(login)
        key = self._ring.find(login) if login else None
        for name in KEY_HEADERS:
            value = read_key_header(call.headers, name)
            if not value:
                continue
            sent = True
            found = self._ring.find(value)
            if found is not None:
                # The name stays: it shows which vendor's client this is.
                call.headers[name] = ""
                key = key or found
        if key is None:
            return _unauthorized("this key is not known here" if sent else f"this {self.service} needs a key")
        if key.has_expired(datetime.now(UTC)):
            return _unauthorized("this key has expired")
        return key


def _unauthorized(message: str) -> Failure:
    return Failure("unauthorized", message, 401, "invalid_api_key")


def _take_query_key(call: HttpCall) -> str:
    """Return the key in the query, where clients of Gemini may write it, and remove it: a query is passed on."""
    if not call.query:
        return ""
    fields = parse_qsl(call.query, keep_blank_values=True)
    keys = [value for name, value in fields if name == "key"]
    if keys:
        call.query = urlencode([(name, value) for name, value in fields if name != "key"])
    return keys[0] if len(keys) == 1 else ""


get_log("server")
