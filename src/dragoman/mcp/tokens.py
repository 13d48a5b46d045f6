"""The tokens of MCP servers: a file that only its owner can read, and the refresh of tokens.

The system keyring is not used: each system has another one, and none can be reached without a dependency or without a
secret on a command line that other users see.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.client.http import HttpTransport
from dragoman.client.transport import HttpRequest, Timeouts, TransportFault
from dragoman.errors import ConfigError
from dragoman.mcp import oauth
from dragoman.mcp.oauth import Challenge, Grant, LoginFault, LoginNeeded
from dragoman.mcp.servers import HttpServer, shown_address
from dragoman.state_files import change_file, make_folder, open_alone
from dragoman.types import JsonObject

LEEWAY = 60.0
"""Seconds before the end of a token in which it is refreshed."""
_VERSION = 1
_LARGEST = 4 * 1024 * 1024
_LARGEST_ANSWER = 256 * 1024
_TIMEOUTS = Timeouts(connect=10.0, first_byte=20.0, idle=20.0)
_SECONDS = 30.0

# --------------------------------------------------------------------------------------------------------------------
# The file.


class _File(Struct, frozen=True):
    version: int
    grants: dict[str, Grant]


class TokenStore:
    """The grants of a user by the address of the server, in a file or, without a path, in memory."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self._kept: dict[str, Grant] = {}

    def find(self, url: str) -> Grant | None:
        """Return the grant for a server. Raises ConfigError for a file that is damaged or that others can read."""
        return self.read().get(oauth.canonical(url))

    def read(self) -> dict[str, Grant]:
        """Return all grants by the address of their server."""
        return dict(self._kept) if self.path is None else _read_file(self.path)

    def save(self, url: str, grant: Grant) -> None:
        """Store the grant of a server."""
        with self._changing() as grants:
            grants[oauth.canonical(url)] = grant

    def remove(self, url: str) -> bool:
        """Remove the grant for a server. Returns whether there was one."""
        with self._changing() as grants:
            return grants.pop(oauth.canonical(url), None) is not None

    @contextlib.contextmanager
    def _changing(self) -> Any:
        if self.path is None:
            yield self._kept
            return
        try:
            with change_file(self.path, _read_file, _write_file) as grants:
                yield grants
        except OSError as problem:
            raise ConfigError(
                f"cannot write {self.path}: {problem.strerror}", hint="check the permissions of its folder"
            ) from None

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold a lock between processes: a refresh token may be valid only once."""
        if self.path is None:
            yield
            return
        make_folder(self.path)
        lock = open_alone(self.path.with_name(f".{self.path.name}.refresh"))
        await asyncio.to_thread(lock.__enter__)
        try:
            yield
        finally:
            lock.__exit__(None, None, None)


def _read_file(path: Path) -> dict[str, Grant]:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise ConfigError(f"cannot read {path}: {problem.strerror}", hint="check its permissions") from None
    if os.name == "posix" and mode & 0o077:
        raise ConfigError(f"other users can read the tokens in {path}", hint=f"chmod 600 {path}")
    try:
        found = msgspec.json.decode(data, type=_File) if len(data) <= _LARGEST else None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        found = None
    if found is None or found.version != _VERSION:
        raise ConfigError(f"cannot read the tokens in {path}", hint="remove the file, and log in again")
    return dict(found.grants)


def _write_file(grants: Mapping[str, Grant]) -> bytes:
    return msgspec.json.encode(_File(_VERSION, dict(sorted(grants.items()))))


# --------------------------------------------------------------------------------------------------------------------
# Requests to authorization servers. They follow no redirects, and their answers are bounded.


async def fetch(transport: HttpTransport, method: str, url: str, headers: dict[str, str], body: bytes) -> Any:
    """Return the status and the JSON of an answer; None instead of JSON that cannot be read. Raises LoginFault."""
    place = shown_address(url)
    try:
        async with asyncio.timeout(_SECONDS):
            response = await transport.send(HttpRequest(method, url, headers, body), _TIMEOUTS)
            try:
                data = bytearray()
                async for piece in response.pieces():
                    data += piece
                    if len(data) > _LARGEST_ANSWER:
                        raise LoginFault(f"{place} sent more than {_LARGEST_ANSWER} bytes")
            finally:
                await response.close()
    except TimeoutError:
        raise LoginFault(f"{place} did not answer within {_SECONDS:g} seconds") from None
    except TransportFault as fault:
        raise LoginFault(f"{place}: {fault.message}") from None
    except ConfigError as problem:
        raise LoginFault(str(problem)) from None
    try:
        return response.status, msgspec.json.decode(bytes(data))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return response.status, None


async def fetch_tokens(
    transport: HttpTransport, before: Grant, fields: dict[str, str], asked: tuple[str, ...], now: float
) -> Grant:
    """Return the grant with tokens from its token endpoint. Raises LoginFault, with the code of an OAuth error."""
    headers, body = oauth.token_request(before.client, fields)
    status, data = await fetch(transport, "POST", before.token_endpoint, headers, body)
    if status != 200 or not isinstance(data, dict):
        code, words = oauth.read_error(data)
        raise TokenRefused(f"{shown_address(before.token_endpoint)} sent no token (status {status}) {words}", code)
    return oauth.read_tokens(data, before, asked, now)


class TokenRefused(LoginFault):
    """The token endpoint answered without tokens."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message.strip())
        self.code = code


# --------------------------------------------------------------------------------------------------------------------
# The tokens of one server, for its channel.


class Authorizer:
    """Supplies the access token for one server, and refreshes it. It never asks a user: that is a login."""

    def __init__(self, server: HttpServer, store: TokenStore) -> None:
        self.server = server
        self.store = store
        self._grant: Grant | None = None
        self._is_read = False
        self._secrets: dict[str, None] = {}
        self._lock = asyncio.Lock()
        self._refreshing: asyncio.Task[Grant] | None = None

    def secrets(self) -> list[str]:
        """Every token that was used so far."""
        return list(self._secrets)

    async def token(self) -> str:
        """Return the access token, refreshed if it expires soon; empty without a login."""
        async with self._lock:
            grant = await self._read()
            if grant is not None and grant.is_stale(time.time(), LEEWAY) and grant.refresh:
                try:
                    grant = await self._refresh(grant)
                except LoginFault:
                    # It may still be valid for a moment; if it is not, the server says so.
                    grant = self._grant
            return grant.access if grant is not None else ""

    async def renew(self, status: int, header: str, used: str) -> bool:
        """Get another token after a rejection. Returns whether to try again. Raises LoginNeeded."""
        challenge = oauth.read_challenge(header)
        if status == 403 and challenge.error != "insufficient_scope":
            return False
        async with self._lock:
            grant = await self._read()
            if status == 403:
                raise self._needed("it needs a login with more scopes", challenge, grant)
            if grant is not None and grant.access and grant.access != used:
                return True
            if grant is None or not grant.refresh:
                # A server that does not say where its metadata are may only know keys.
                why = "it needs a login" if challenge.metadata else "it needs a login, or a key in a header of its row"
                raise self._needed(why, challenge, grant)
            try:
                await self._refresh(grant)
            except TokenRefused as refusal:
                raise self._needed(f"its login is no longer valid ({refusal})", challenge, grant) from None
            return True

    def _needed(self, why: str, challenge: Challenge, grant: Grant | None) -> LoginNeeded:
        scopes = challenge.scopes
        if challenge.error == "insufficient_scope" and grant is not None:
            # What was granted before stays, and the new scopes are added.
            scopes = tuple(dict.fromkeys([*grant.scopes, *challenge.scopes]))
            challenge = replace(challenge, scopes=scopes)
        more = "".join(f" --scope {each}" for each in scopes) if challenge.error == "insufficient_scope" else ""
        return LoginNeeded(f"{why}; log in with `dragoman mcp login {self.server.name}{more}`", challenge)

    async def read(self) -> None:
        """Read the tokens of the file: a login may have changed them. Raises LoginFault."""
        async with self._lock:
            self._is_read = False
            await self._read()

    async def _read(self) -> Grant | None:
        if not self._is_read:
            try:
                self._grant = await asyncio.to_thread(self.store.find, self.server.url)
            except ConfigError as problem:
                raise LoginFault(f"{problem}; {problem.next_step}") from None
            self._is_read = True
            self._note(self._grant)
        return self._grant

    def _note(self, grant: Grant | None) -> None:
        if grant is not None:
            self._secrets |= dict.fromkeys(grant.secrets())

    async def _refresh(self, grant: Grant) -> Grant:
        """Refresh the tokens, and finish even if the caller no longer waits: the old refresh token may be used up."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.get_running_loop().create_task(self._refresh_now(grant))
        return await asyncio.shield(self._refreshing)

    async def _refresh_now(self, grant: Grant) -> Grant:
        async with self.store.alone():
            # Another process may have refreshed the tokens meanwhile.
            self._is_read = False
            latest = await self._read()
            if latest is not None and latest.access != grant.access and not latest.is_stale(time.time(), LEEWAY):
                return latest
            if latest is None or not latest.refresh:
                raise TokenRefused("there is no refresh token", "")
            transport = HttpTransport(proxy="env")
            try:
                fields = oauth.refresh_fields(latest)
                fresh = await fetch_tokens(transport, latest, fields, latest.scopes, time.time())
            except TokenRefused as refusal:
                if refusal.code == "invalid_grant":
                    await self._save(replace(latest, access="", refresh="", expires=None))
                raise
            finally:
                await transport.close()
            await self._save(fresh)
            return fresh

    async def _save(self, grant: Grant) -> None:
        self._note(grant)
        self._grant = grant
        try:
            await asyncio.to_thread(self.store.save, self.server.url, grant)
        except ConfigError as problem:
            raise LoginFault(str(problem)) from None


async def fetch_object(transport: HttpTransport, addresses: list[str]) -> JsonObject | None:
    """Return the first JSON object at these addresses; None if none has one. Raises LoginFault."""
    for address in addresses:
        status, data = await fetch(transport, "GET", address, {"Accept": "application/json"}, b"")
        if status == 200 and isinstance(data, dict):
            return data
        if 300 <= status < 400:
            raise LoginFault(f"{shown_address(address)} redirects, which is not followed in a login")
    return None


async def fetch_challenge(server: HttpServer) -> Challenge:
    """Return what a server says to a request without a token; an empty challenge if it needs none or says nothing."""
    transport = HttpTransport(proxy="env")
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    headers = {**server.headers, "Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    try:
        async with asyncio.timeout(_SECONDS):
            response = await transport.send(HttpRequest("POST", server.url, headers, body), _TIMEOUTS)
            await response.close()
    except TimeoutError:
        raise LoginFault(f"{shown_address(server.url)} did not answer within {_SECONDS:g} seconds") from None
    except TransportFault as fault:
        raise LoginFault(f"{shown_address(server.url)}: {fault.message}") from None
    finally:
        await transport.close()
    return oauth.read_challenge(response.headers.get("www-authenticate", ""))
