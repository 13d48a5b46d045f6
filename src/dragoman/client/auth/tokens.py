"""Tokens that expire: fetched by a vendor's library in a thread, kept until shortly before their end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from time import time

from msgspec import Struct

from dragoman.client.transport import HttpRequest

_EARLY = 120.0
"""How many seconds before its end a token is replaced."""


class Token(Struct, frozen=True):
    """A bearer token, and when it ends in seconds since 1970."""

    value: str
    expires: float
    headers: dict[str, str] = {}
    """What else has to be sent with it."""

    def __repr__(self) -> str:
        return f"Token(***, expires={self.expires:.0f})"


class TokenAuth:
    """Sends a token as a bearer."""

    def __init__(
        self, fetch: Callable[[], Token], source: str, headers: dict[str, str], clock: Callable[[], float] = time
    ) -> None:
        self._fetch = fetch
        self._headers = headers
        self._clock = clock
        self._token: Token | None = None
        self._lock = threading.Lock()
        self.source = source

    @property
    def secrets(self) -> tuple[str, ...]:
        return () if self._token is None else (self._token.value,)

    async def sign(self, request: HttpRequest) -> HttpRequest:
        token = self._token
        if token is None or self._is_old(token):
            token = await asyncio.to_thread(self._renew)
        headers = {**self._headers, **token.headers, **request.headers, "Authorization": f"Bearer {token.value}"}
        return HttpRequest(request.method, request.url, headers, request.body)

    def _is_old(self, token: Token) -> bool:
        return token.expires - _EARLY <= self._clock()

    def _renew(self) -> Token:
        with self._lock:
            # Many requests may have waited for this one.
            if self._token is None or self._is_old(self._token):
                self._token = self._fetch()
            return self._token
