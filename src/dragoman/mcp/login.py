"""The login of a user at an MCP server: consent, the browser, the answer at a loopback address, the tokens."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import inspect
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dragoman.client.http import HttpTransport
from dragoman.mcp import oauth, tokens
from dragoman.mcp.oauth import AuthorizationServer, Challenge, Grant, LoginFault, OAuthClient, ProtectedResource
from dragoman.mcp.servers import HttpServer, is_loopback, shown_address, why_unsafe
from dragoman.mcp.tokens import TokenStore, fetch, fetch_object
from dragoman.own_code import find_program, is_outside
from dragoman.paths import current_folder

LOGIN_SECONDS = 300.0
"""How long a login may take."""
_LARGEST_REQUEST = 16 * 1024
_CALLBACK = "/callback"

# --------------------------------------------------------------------------------------------------------------------
# The user: asked before anything is sent to an authorization server, and before a browser opens.


class LoginRequest(Struct, frozen=True):
    """What a user has to know before a login."""

    server: str
    address: str
    """The address of the MCP server."""
    issuer: str
    """The address of the authorization server."""
    scopes: tuple[str, ...] = ()

    def __str__(self) -> str:
        scopes = f", for: {' '.join(self.scopes)}" if self.scopes else ""
        return f"the MCP server {self.server!r} ({self.address}) asks you to log in at {self.issuer}{scopes}"


Confirm = Callable[[LoginRequest], bool | Awaitable[bool]]


class BrowserLogin:
    """A user who confirms logins, and a browser for them.

    `confirm(request)` returns True if the user agrees; nothing else counts. `show(url)` is called with the address of
    the login page, for a user whose browser did not open.
    """

    def __init__(
        self, confirm: Confirm, *, show: Callable[[str], object] | None = None, workspace: str | None = None
    ) -> None:
        self._confirm = confirm
        self._show = show
        self._workspace = workspace
        self.alone = asyncio.Lock()
        """One login at a time: two questions at once confuse."""

    async def confirm(self, request: LoginRequest) -> bool:
        """Ask the user whether to log in. Only True counts as consent."""
        if inspect.iscoroutinefunction(self._confirm):
            given = await self._confirm(request)
        else:
            # The function may wait for a user, and the loop serves other servers meanwhile.
            given = await asyncio.to_thread(self._confirm, request)
            given = await given if inspect.isawaitable(given) else given
        # What a user typed, such as the text "no", is true as well.
        return given is True

    async def visit(self, url: str) -> None:
        """Show the address to the user, and open it in a browser."""
        if self._show is not None:
            await asyncio.to_thread(self._show, url)
        await asyncio.to_thread(open_page, url, self._workspace)


def open_page(url: str, workspace: str | None = None) -> bool:
    """Open a page in the browser of the user. Returns whether a program for that was started.

    The program is `$BROWSER`, or that of the desktop. It does not come from the workspace, where tools can write.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        return False
    if sys.platform == "win32":  # pragma: no cover - no test machine
        os.startfile(url)
        return True
    writable = workspace or str(current_folder(os.environ))
    for command in _browsers(writable):
        with contextlib.suppress(OSError):
            process = subprocess.Popen(
                [*command, url],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            # Somebody has to fetch its exit status; a browser may run for days.
            threading.Thread(target=process.wait, daemon=True, name="dragoman-browser").start()
            return True
    return False


def _browsers(writable: str) -> list[list[str]]:
    found: list[list[str]] = []
    named = os.environ.get("BROWSER", "").split(os.pathsep)[0]
    if named and "%" not in named and " " not in named:
        program = named if Path(named).is_absolute() else find_program(named, writable)
        found += [[program]] if program is not None and is_outside(program, [writable]) else []
    for name in ("open",) if sys.platform == "darwin" else ("xdg-open", "wslview", "sensible-browser"):
        program = find_program(name, writable)
        found += [[program]] if program is not None else []
    return found


# --------------------------------------------------------------------------------------------------------------------
# The login.


async def log_in(
    server: HttpServer,
    store: TokenStore,
    user: BrowserLogin,
    challenge: Challenge | None = None,
    *,
    clock: Callable[[], float] = time.time,
) -> Grant:
    """Let a user log in at a server, and save the tokens. Raises LoginFault; nothing is saved then."""
    if why := why_unsafe(server):
        raise LoginFault(why)
    if not server.may_log_in:
        raise LoginFault("its row has an Authorization header, which is used instead of a login")
    transport = HttpTransport(proxy="env")
    try:
        async with user.alone, asyncio.timeout(LOGIN_SECONDS):
            attempt = _Attempt(server, store, user, challenge or Challenge(), transport, clock)
            return await attempt.run()
    except TimeoutError:
        raise LoginFault(f"the login was not completed within {LOGIN_SECONDS:g} seconds") from None
    finally:
        await transport.close()


class _Attempt:
    """One login."""

    def __init__(
        self,
        server: HttpServer,
        store: TokenStore,
        user: BrowserLogin,
        challenge: Challenge,
        transport: HttpTransport,
        clock: Callable[[], float],
    ) -> None:
        self._server = server
        self._store = store
        self._user = user
        self._challenge = challenge
        self._transport = transport
        self._clock = clock
        self._is_local = is_loopback(urlsplit(server.url).hostname or "")

    async def run(self) -> Grant:
        resource = await self._find_resource()
        scopes = self._server.oauth.scopes or self._challenge.scopes or resource.scopes
        request = LoginRequest(
            self._server.name, shown_address(self._server.url), shown_address(resource.issuer), scopes
        )
        # Until here nothing was sent to another machine than that of the server.
        if not await self._user.confirm(request):
            raise LoginFault(f"its login was not confirmed; `dragoman mcp login {self._server.name}` asks again")
        issuer = await self._find_issuer(resource.issuer)
        if "offline_access" in issuer.scopes and scopes:
            # Some authorization servers give a refresh token only for this scope.
            scopes = tuple(dict.fromkeys([*scopes, "offline_access"]))
        known = await asyncio.to_thread(self._store.find, self._server.url)
        before = known.client if known is not None and known.issuer == issuer.issuer else None
        async with _listen(self._server.oauth.port, _port_of(before)) as listener:
            client = await self._find_client(issuer, listener.address, scopes, before)
            grant = Grant(resource.resource, issuer.issuer, issuer.token_endpoint, client)
            grant = await self._authorize(grant, issuer, listener, scopes)
        await asyncio.to_thread(self._store.save, self._server.url, grant)
        return grant

    async def _find_resource(self) -> ProtectedResource:
        url, is_local = self._server.url, self._is_local
        found = await fetch_object(self._transport, oauth.resource_addresses(url, self._challenge))
        if found is not None:
            return oauth.read_resource(found, url, is_local=is_local)
        if self._challenge.metadata:
            raise LoginFault("the server has no metadata where it says they are")
        # Servers before 2025-06-18 are their own authorization servers.
        return ProtectedResource(
            oauth.canonical(url), oauth.check_address(oauth.origin_of(url), "it", is_local=is_local)
        )

    async def _find_issuer(self, issuer: str) -> AuthorizationServer:
        found = await fetch_object(self._transport, oauth.issuer_addresses(issuer))
        if found is None:
            raise LoginFault(
                f"{shown_address(issuer)} has no metadata of an authorization server; the server may need no login, or "
                "a key in a header of its row"
            )
        return oauth.read_issuer(found, issuer, is_local=self._is_local)

    async def _find_client(
        self, issuer: AuthorizationServer, redirect: str, scopes: tuple[str, ...], before: OAuthClient | None
    ) -> OAuthClient:
        given = self._server.oauth
        if given.client_id:
            method = "client_secret_post" if "client_secret_post" in issuer.methods else "client_secret_basic"
            return OAuthClient(given.client_id, given.client_secret, method if given.client_secret else "none")
        if before is not None and before.redirect == redirect:
            return before
        if not issuer.registration_endpoint:
            raise LoginFault(
                "the authorization server does not register clients; register dragoman there, and add "
                '`oauth = { client_id = "..." }` to the row of the server'
            )
        body = msgspec.json.encode(oauth.registration_of(redirect, scopes, issuer))
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        status, data = await fetch(self._transport, "POST", issuer.registration_endpoint, headers, body)
        if status not in (200, 201) or not isinstance(data, dict):
            words = oauth.read_error(data)[1]
            raise LoginFault(f"the authorization server did not register this client (status {status}) {words}".strip())
        return oauth.read_registration(data, redirect)

    async def _authorize(
        self, grant: Grant, issuer: AuthorizationServer, listener: _Listener, scopes: tuple[str, ...]
    ) -> Grant:
        verifier, state = _random(), _random()
        address = oauth.authorization_address(
            issuer,
            grant.client,
            redirect=listener.address,
            verifier=verifier,
            state=state,
            scopes=scopes,
            resource=grant.resource,
        )
        answer = asyncio.ensure_future(listener.wait(lambda query: oauth.read_answer(query, state, issuer)))
        try:
            await self._user.visit(address)
            code = await answer
        finally:
            answer.cancel()
        fields = oauth.code_fields(code, listener.address, verifier, grant.resource)
        return await tokens.fetch_tokens(self._transport, grant, fields, scopes, self._clock())


def _random() -> str:
    return base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=").decode()


def _port_of(client: OAuthClient | None) -> int:
    """The port of the last login: many authorization servers accept only the address that was registered."""
    return urlsplit(client.redirect).port or 0 if client is not None and client.redirect else 0


# --------------------------------------------------------------------------------------------------------------------
# The loopback address that the authorization server sends the browser to.

_PAGE = (
    "<!doctype html><meta charset=utf-8><title>dragoman</title>"
    "<body style='font-family:sans-serif;margin:4em'><p>{words}</p>"
)


class _Listener:
    """Waits for one request with the right `state`. All others are answered with an error, and ignored."""

    def __init__(self) -> None:
        self.address = ""
        self._read: Callable[[str], str | None] = lambda query: None
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait(self, read: Callable[[str], str | None]) -> str:
        self._read = read
        return await self._code

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
                status, words = self._take(head)
                page = _PAGE.format(words=words).encode()
                fields = f"Content-Type: text/html\r\nContent-Length: {len(page)}\r\nConnection: close\r\n"
                # The page has no script, and passes the address with the code on to nobody.
                fields += "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
                fields += "Referrer-Policy: no-referrer\r\nCache-Control: no-store\r\n"
                writer.write(f"HTTP/1.1 {status}\r\n{fields}\r\n".encode() + page)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _take(self, head: bytes) -> tuple[str, str]:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or words[0] != "GET" or words[1].partition("?")[0] != _CALLBACK:
            return "404 Not Found", "There is nothing here."
        try:
            code = self._read(words[1].partition("?")[2])
        except LoginFault as fault:
            if not self._code.done():
                self._code.set_exception(fault)
            return "200 OK", "The login failed. You can close this page; dragoman says why."
        if code is None:
            return "400 Bad Request", "This answer does not belong to a login of dragoman."
        if not self._code.done():
            self._code.set_result(code)
        return "200 OK", "You are logged in. You can close this page."


@contextlib.asynccontextmanager
async def _listen(required: int, preferred: int) -> AsyncIterator[_Listener]:
    listener = _Listener()
    port = required or preferred
    try:
        server = await asyncio.start_server(listener.answer, "127.0.0.1", port, limit=_LARGEST_REQUEST)
    except OSError as problem:
        if required:
            raise LoginFault(f"cannot listen at port {port} of this machine: {problem.strerror}") from None
        # The port of the last login is in use; the client registers itself again with another one.
        server = await asyncio.start_server(listener.answer, "127.0.0.1", 0, limit=_LARGEST_REQUEST)
    listener.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{_CALLBACK}"
    try:
        yield listener
    finally:
        server.close()
