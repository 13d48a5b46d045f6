"""HTTP/1.1 over asyncio, as much of it as a client of language models needs: POST, keep-alive, TLS, proxies, limits."""

from __future__ import annotations

from dragoman.client.http.parser import Limits
from dragoman.client.http.transport import HttpTransport

__all__ = ["HttpTransport", "Limits"]
