"""HTTP/1.1 over asyncio, with the features that a client of language models needs: keep-alive, TLS, proxies, limits."""

from __future__ import annotations

from dragoman.client.http.parser import Limits
from dragoman.client.http.transport import HttpTransport

__all__ = ["HttpTransport", "Limits"]
