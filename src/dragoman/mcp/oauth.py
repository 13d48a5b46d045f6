"""OAuth 2.1 for MCP servers, without I/O: challenges, metadata, registration, authorization, tokens.

A server that needs a login answers with 401. Its metadata (RFC 9728) names the authorization server, whose metadata
(RFC 8414, or OpenID Connect Discovery) names the endpoints. A client registers itself (RFC 7591), sends the user to the
authorization endpoint with PKCE (S256) and `resource` (RFC 8707), and gets a code at a loopback address (RFC 8252).

Everything here comes from other machines. Addresses have to be https, or http on this machine if the MCP server is on
this machine too. Texts in errors are cleaned and bounded.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Struct

from dragoman.mcp.protocol import ServerFault, clean_line
from dragoman.mcp.servers import is_loopback, shown_address
from dragoman.types import JsonObject

CLIENT_NAME = "dragoman"
_FORM = "application/x-www-form-urlencoded"
_PROTECTED = "/.well-known/oauth-protected-resource"
_SERVER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_METHODS = ("none", "client_secret_post", "client_secret_basic")
_MOST_SCOPES = 50
_is_scope = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}").fullmatch
_is_token = re.compile(r"[\x21-\x7e]{1,16384}").fullmatch
_parameter = re.compile(r'\s*,?\s*([A-Za-z0-9_-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))').match
_bearer = re.compile(r"(?:^|,)\s*Bearer(?=\s|$|,)", re.IGNORECASE).search


class LoginFault(ServerFault):
    """A login failed. The message contains no secret."""


class LoginNeeded(ServerFault):
    """A user has to log in, or has to log in again with more scopes."""

    def __init__(self, message: str, challenge: Challenge) -> None:
        super().__init__(message)
        self.challenge = challenge


# --------------------------------------------------------------------------------------------------------------------
# Addresses.


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address, in one spelling; empty if it cannot be read."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = (parts.hostname or "").lower()
    usual = {"https": 443, "http": 80}.get(parts.scheme)
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}" + ("" if port in (None, usual) else f":{port}") if host else ""


def canonical(url: str) -> str:
    """Return the address of a server in one spelling: without a fragment, scheme and host in lower case."""
    parts = urlsplit(url)
    path = "" if parts.path == "/" else parts.path
    return origin_of(url) + path + (f"?{parts.query}" if parts.query else "")


def check_address(url: Any, what: str, *, is_local: bool) -> str:
    """Return an address that a token, a code or a user may be sent to. Raises LoginFault.

    `is_local` says that the MCP server is on this machine. A remote server must not lead to services on this machine.
    """
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        host = parts.hostname or "" if parts is not None else ""
    except ValueError:
        parts, host = None, ""
    if parts is None or not host or re.search(r"[\x00-\x20\x7f-\uffff\\]", url):
        raise LoginFault(f"{what} is not an address")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise LoginFault(f"{what} contains a user or a fragment")
    if is_loopback(host):
        if parts.scheme in ("http", "https") and is_local:
            return str(url)
        raise LoginFault(f"{what} leads to this machine, but the server is elsewhere")
    if parts.scheme != "https":
        raise LoginFault(f"{what} is not encrypted ({shown_address(url)}); https:// is required")
    return str(url)


# --------------------------------------------------------------------------------------------------------------------
# The challenge of a server: `WWW-Authenticate: Bearer resource_metadata="...", scope="..."`.


class Challenge(Struct, frozen=True):
    """What a server says when it rejects a request."""

    metadata: str = ""
    """The address of its metadata."""
    scopes: tuple[str, ...] = ()
    error: str = ""


def read_challenge(header: str) -> Challenge:
    """Read the header `WWW-Authenticate`. Unknown schemes and broken parameters are ignored."""
    header = header[:8192]
    found: dict[str, str] = {}
    start = _bearer(header)
    position = start.end() if start is not None else len(header)
    while parameter := _parameter(header, position):
        position = parameter.end()
        value = re.sub(r"\\(.)", r"\1", parameter[2]) if parameter[2] is not None else parameter[3]
        found.setdefault(parameter[1].lower(), value)
    return Challenge(
        found.get("resource_metadata", ""), read_scopes(found.get("scope", "")), clean_line(found.get("error", ""), 60)
    )


def read_scopes(value: Any) -> tuple[str, ...]:
    """Return valid scopes from a text or a list, each once."""
    given = value.split() if isinstance(value, str) else value if isinstance(value, list | tuple) else ()
    valid = (each for each in given if isinstance(each, str) and _is_scope(each))
    return tuple(dict.fromkeys(valid))[:_MOST_SCOPES]


# --------------------------------------------------------------------------------------------------------------------
# Metadata.


class ProtectedResource(Struct, frozen=True):
    """The metadata of an MCP server (RFC 9728)."""

    resource: str
    issuer: str
    scopes: tuple[str, ...] = ()


class AuthorizationServer(Struct, frozen=True):
    """The metadata of an authorization server (RFC 8414)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    scopes: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    names_issuer: bool = False
    """Whether its answers contain `iss` (RFC 9207)."""


def resource_addresses(url: str, challenge: Challenge) -> list[str]:
    """Return where the metadata of an MCP server may be. They are at the server itself, and nowhere else."""
    origin = origin_of(url)
    if challenge.metadata:
        if origin_of(challenge.metadata) != origin:
            place = shown_address(challenge.metadata)
            raise LoginFault(f"the server refers to metadata at another server, {clean_line(place, 120)}")
        return [challenge.metadata]
    path = urlsplit(url).path.rstrip("/")
    return list(dict.fromkeys([f"{origin}{_PROTECTED}{path}", f"{origin}{_PROTECTED}"]))


def read_resource(data: JsonObject, url: str, *, is_local: bool) -> ProtectedResource:
    """Read the metadata of an MCP server. They have to be about this server."""
    resource = data.get("resource")
    if not isinstance(resource, str) or not _covers(resource, url):
        raise LoginFault("the metadata of the server are about another address")
    issuers = data.get("authorization_servers")
    if not isinstance(issuers, list) or not issuers:
        raise LoginFault("the metadata of the server name no authorization server")
    issuer = check_address(issuers[0], "the authorization server", is_local=is_local)
    return ProtectedResource(resource, issuer, read_scopes(data.get("scopes_supported")))


def _covers(resource: str, url: str) -> bool:
    """Whether an address is that of a server, or of a folder above it at the same origin."""
    if origin_of(resource) != origin_of(url) or not origin_of(url):
        return False
    above, below = urlsplit(resource).path.rstrip("/"), urlsplit(url).path.rstrip("/")
    return below == above or below.startswith(above + "/")


def issuer_addresses(issuer: str) -> list[str]:
    """Return where the metadata of an authorization server may be."""
    origin, path = origin_of(issuer), urlsplit(issuer).path.rstrip("/")
    found = [f"{origin}{_SERVER}{path}", f"{origin}{_OPENID}{path}", f"{origin}{path}{_OPENID}"]
    return list(dict.fromkeys(found))


def read_issuer(data: JsonObject, issuer: str, *, is_local: bool) -> AuthorizationServer:
    """Read the metadata of an authorization server. They have to be about this issuer and offer PKCE with S256."""
    named = data.get("issuer")
    if not isinstance(named, str) or named.rstrip("/") != issuer.rstrip("/"):
        raise LoginFault("the metadata of the authorization server are about another issuer")
    challenges = data.get("code_challenge_methods_supported")
    if not isinstance(challenges, list) or "S256" not in challenges:
        raise LoginFault("the authorization server does not offer PKCE with S256")
    methods = data.get("token_endpoint_auth_methods_supported")
    known = [each for each in _METHODS if isinstance(methods, list) and each in methods]
    registration = data.get("registration_endpoint")
    if registration is not None:
        registration = check_address(registration, "the registration endpoint", is_local=is_local)
    return AuthorizationServer(
        issuer=named,
        authorization_endpoint=check_address(
            data.get("authorization_endpoint"), "the authorization endpoint", is_local=is_local
        ),
        token_endpoint=check_address(data.get("token_endpoint"), "the token endpoint", is_local=is_local),
        registration_endpoint=registration or "",
        scopes=read_scopes(data.get("scopes_supported")),
        methods=tuple(known),
        names_issuer=data.get("authorization_response_iss_parameter_supported") is True,
    )


# --------------------------------------------------------------------------------------------------------------------
# The client: registered by its developer, or by itself.


class OAuthClient(Struct, frozen=True):
    """A client as the authorization server knows it."""

    client_id: str
    client_secret: str = ""
    method: str = "none"
    """How the client authenticates at the token endpoint."""
    redirect: str = ""
    """The address that was registered, if the client registered itself."""

    def __repr__(self) -> str:
        return f"OAuthClient({self.client_id!r})"


def registration_of(redirect: str, scopes: tuple[str, ...], server: AuthorizationServer) -> JsonObject:
    """Return the request that registers this client (RFC 7591)."""
    method = "none" if not server.methods or "none" in server.methods else server.methods[0]
    return {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": method,
        "application_type": "native",
        **({"scope": " ".join(scopes)} if scopes else {}),
    }


def read_registration(data: JsonObject, redirect: str) -> OAuthClient:
    client_id, secret = data.get("client_id"), data.get("client_secret", "")
    if not isinstance(client_id, str) or not client_id or not isinstance(secret, str):
        raise LoginFault("the answer to the registration has no client id")
    method = data.get("token_endpoint_auth_method")
    usual = "client_secret_basic" if secret else "none"
    return OAuthClient(client_id, secret, method if method in _METHODS else usual, redirect)


# --------------------------------------------------------------------------------------------------------------------
# Authorization: the address for the browser, and the answer at the loopback address.


def code_challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def authorization_address(
    server: AuthorizationServer,
    client: OAuthClient,
    *,
    redirect: str,
    verifier: str,
    state: str,
    scopes: tuple[str, ...],
    resource: str,
) -> str:
    """Return the address that the user opens."""
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect,
        "code_challenge": code_challenge(verifier),
        "code_challenge_method": "S256",
        "state": state,
        "resource": resource,
        **({"scope": " ".join(scopes)} if scopes else {}),
    }
    parts = urlsplit(server.authorization_endpoint)
    query = "&".join(filter(None, [parts.query, urlencode(asked, quote_via=quote)]))
    return urlunsplit(parts._replace(query=query))


def read_answer(query: str, state: str, server: AuthorizationServer) -> str | None:
    """Return the code of an answer; None if the answer is not for this login. Raises LoginFault if it was refused."""
    try:
        found = {key: values[0] for key, values in parse_qs(query[:16384], max_num_fields=50).items()}
    except ValueError:
        return None
    if not hmac.compare_digest(found.get("state", "").encode(), state.encode()):
        return None
    if ("iss" in found or server.names_issuer) and found.get("iss", "").rstrip("/") != server.issuer.rstrip("/"):
        raise LoginFault("the answer comes from another authorization server")
    if "error" in found:
        why = clean_line(found.get("error_description") or found["error"], 200)
        raise LoginFault(f"the login was refused: {why}")
    if not found.get("code"):
        raise LoginFault("the answer of the authorization server has no code")
    return found["code"]


# --------------------------------------------------------------------------------------------------------------------
# Tokens.


class Grant(Struct, frozen=True):
    """The tokens for one MCP server, and all that is needed to refresh them."""

    resource: str
    """What the tokens are for, as the metadata of the server name it."""
    issuer: str
    token_endpoint: str
    client: OAuthClient
    access: str = ""
    refresh: str = ""
    expires: float | None = None
    """When the access token expires, in seconds since 1970."""
    scopes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Grant({self.resource!r}, {self.issuer!r})"

    def secrets(self) -> list[str]:
        return [each for each in (self.access, self.refresh, self.client.client_secret) if each]

    def is_stale(self, now: float, leeway: float) -> bool:
        return not self.access or (self.expires is not None and self.expires - leeway <= now)


def token_request(client: OAuthClient, fields: Mapping[str, str]) -> tuple[dict[str, str], bytes]:
    """Return the headers and the body of a request to the token endpoint."""
    form = dict(fields)
    headers = {"Content-Type": _FORM, "Accept": "application/json"}
    if client.method == "client_secret_basic" and client.client_secret:
        pair = f"{quote(client.client_id, safe='')}:{quote(client.client_secret, safe='')}"
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    else:
        form["client_id"] = client.client_id
        if client.method == "client_secret_post" and client.client_secret:
            form["client_secret"] = client.client_secret
    return headers, urlencode(form).encode()


def code_fields(code: str, redirect: str, verifier: str, resource: str) -> dict[str, str]:
    return {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirect,
        "code_verifier": verifier,
        "resource": resource,
    }


def refresh_fields(grant: Grant) -> dict[str, str]:
    return {"grant_type": "refresh_token", "refresh_token": grant.refresh, "resource": grant.resource}


def read_tokens(data: JsonObject, before: Grant, asked: tuple[str, ...], now: float) -> Grant:
    """Return the grant with new tokens. A refresh token stays valid unless the server sends another one."""
    access, refresh = data.get("access_token"), data.get("refresh_token")
    if not isinstance(access, str) or _is_token(access) is None:
        raise LoginFault("the authorization server sent no valid access token")
    if str(data.get("token_type", "")).lower() != "bearer":
        raise LoginFault("the authorization server sent a token of another kind than Bearer")
    seconds = data.get("expires_in")
    if isinstance(seconds, str) and seconds.isdecimal():
        seconds = int(seconds[:12])
    is_known = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return msgspec.structs.replace(
        before,
        access=access,
        refresh=refresh if isinstance(refresh, str) and _is_token(refresh) else before.refresh,
        expires=now + max(0.0, min(float(seconds), 1e9)) if is_known and seconds is not None else None,
        scopes=read_scopes(data.get("scope")) or asked or before.scopes,
    )


def read_error(data: Any) -> tuple[str, str]:
    """Return the code of an OAuth error, and words for the user."""
    if not isinstance(data, dict):
        return "", ""
    code = clean_line(data.get("error"), 60)
    words = clean_line(data.get("error_description"), 200)
    return code, f"{code}: {words}" if words else code
