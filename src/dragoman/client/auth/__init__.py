"""How a request proves who sends it: a key in a header, an AWS signature, or a token of Google or Microsoft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dragoman.client.keys import Secret, missing_key
from dragoman.client.transport import HttpRequest
from dragoman.providers import Endpoint

_AZURE = frozenset({"azure", "azure_ai"})


class Auth(Protocol):
    """Adds to the headers of a request what the endpoint wants to see."""

    async def sign(self, request: HttpRequest) -> HttpRequest: ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """Everything that may never be shown."""
        ...

    @property
    def source(self) -> str:
        """Where the proof comes from, in words; empty where there is none."""
        ...


class KeyAuth:
    """The key of an endpoint in the header that it wants; or no key, where none is needed."""

    def __init__(self, endpoint: Endpoint, key: Secret | None) -> None:
        name = key.name if key is not None else ""
        self._headers = endpoint.headers_for(key.reveal() if key is not None else None, key_name=name)
        self.secrets: tuple[str, ...] = (key.reveal(),) if key is not None else ()
        self.source = "" if key is None else name or "the argument key="

    async def sign(self, request: HttpRequest) -> HttpRequest:
        headers = {**self._headers, **request.headers}
        return HttpRequest(request.method, request.url, headers, request.body)


def choose_auth(endpoint: Endpoint, key: Secret | None, environment: Mapping[str, str]) -> Auth:
    """The way an endpoint is convinced. Raises MissingKey, which names what to set."""
    auth = endpoint.provider.auth
    if key is not None or auth in ("none", "optional"):
        return KeyAuth(endpoint, key)
    if auth == "sigv4":
        from dragoman.client.auth.aws import AwsAuth

        return AwsAuth(endpoint, environment)
    if auth == "gcp":
        from dragoman.client.auth.google import GoogleAuth

        return GoogleAuth(endpoint)
    if endpoint.provider.name in _AZURE:
        from dragoman.client.auth.azure import AzureAuth

        return AzureAuth(endpoint)
    raise missing_key(endpoint)
