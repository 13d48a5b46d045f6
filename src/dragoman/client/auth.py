"""Authentication of requests: API keys, AWS signatures, tokens of Google and Microsoft."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from datetime import UTC
from importlib import import_module
from time import time
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from dragoman.client.keys import Secret, missing_key
from dragoman.client.transport import HttpRequest, TransportFault
from dragoman.errors import MissingKey
from dragoman.providers import Endpoint
from dragoman.types import FailureKind

# --------------------------------------------------------------------------------------------------------------------
# Tokens that expire: a library of the vendor fetches them in a thread, and they are cached until shortly before.

_EARLY = 120.0
"""How many seconds before its expiry a token is replaced."""


class Token(Struct, frozen=True):
    """A bearer token, and its expiry in seconds since 1970."""

    value: str
    expires: float
    headers: dict[str, str] = {}
    """Other headers that have to be sent with it."""

    def __repr__(self) -> str:
        return f"Token(***, expires={self.expires:.0f})"


class TokenAuth:
    """Sends a bearer token."""

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
        return replace(request, headers=headers)

    def _is_old(self, token: Token) -> bool:
        return token.expires - _EARLY <= self._clock()

    def _renew(self) -> Token:
        with self._lock:
            # Another request may have fetched the token during the wait.
            if self._token is None or self._is_old(self._token):
                self._token = self._fetch()
            return self._token


# --------------------------------------------------------------------------------------------------------------------
# Google Cloud: application default credentials, with the `google-auth` library.

GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_LIFE = 3600.0


def open_google() -> Callable[[], Token]:
    """Return a function that fetches a token with the application default credentials.

    Raises MissingKey where the library is not installed.
    """
    try:
        auth = import_module("google.auth")
        exceptions = import_module("google.auth.exceptions")
        requests = import_module("google.auth.transport.requests")
    except ImportError:
        raise MissingKey(
            "tokens of Google Cloud need the google-auth library",
            hint="pip install google-auth requests, or pass key= with a token",
        ) from None
    kept: list[Any] = []

    def fetch() -> Token:
        try:
            if not kept:
                kept.append(auth.default(scopes=[GOOGLE_SCOPE])[0])
            credentials = kept[0]
            credentials.refresh(requests.Request())
        except exceptions.DefaultCredentialsError:
            raise MissingKey(
                "there are no Google Cloud credentials",
                hint="gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS",
            ) from None
        except exceptions.GoogleAuthError as error:
            kind: FailureKind = "unreachable" if isinstance(error, exceptions.TransportError) else "unauthorized"
            raise TransportFault(kind, f"no token of Google Cloud: {type(error).__name__}", code="token") from None
        # The library returns a time in UTC without a time zone.
        expiry = credentials.expiry
        end = expiry.replace(tzinfo=UTC).timestamp() if expiry is not None else time() + _LIFE
        project = getattr(credentials, "quota_project_id", None)
        return Token(str(credentials.token), end, {"x-goog-user-project": project} if project else {})

    return fetch


# --------------------------------------------------------------------------------------------------------------------
# Azure without a key: Entra tokens, with the `azure-identity` library.

AZURE_SCOPE = "https://cognitiveservices.azure.com/.default"


def open_azure(endpoint: Endpoint) -> Callable[[], Token]:
    """Return a function that fetches a token with the default credentials of Azure.

    Raises MissingKey where the library is not installed.
    """
    try:
        identity = import_module("azure.identity")
        exceptions = import_module("azure.core.exceptions")
    except ImportError:
        raise missing_key(endpoint, "or, for tokens of Entra: pip install azure-identity") from None
    credential = identity.DefaultAzureCredential()

    def fetch() -> Token:
        try:
            token = credential.get_token(AZURE_SCOPE)
        except exceptions.ClientAuthenticationError as error:
            raise TransportFault("unauthorized", f"no token of Entra: {type(error).__name__}", code="token") from None
        return Token(token.token, float(token.expires_on))

    return fetch


# --------------------------------------------------------------------------------------------------------------------
# Authentication of a request: a key in a header, an AWS signature, or a token of Google or Microsoft.

_AZURE = frozenset({"azure", "azure_ai"})


class Auth(Protocol):
    """Adds the authentication headers to a request."""

    async def sign(self, request: HttpRequest) -> HttpRequest: ...

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that must never be shown."""
        ...

    @property
    def source(self) -> str:
        """Where the credentials come from, for the message about rejected ones; empty if the provider has no keys."""
        ...


class KeyAuth:
    """Sends the key of an endpoint in its header, or no key if the endpoint needs none."""

    def __init__(self, endpoint: Endpoint, key: Secret | None) -> None:
        name = key.name if key is not None else ""
        self._headers = endpoint.headers_for(key.reveal() if key is not None else None, key_name=name)
        self.secrets: tuple[str, ...] = (key.reveal(),) if key is not None else ()
        without = "none was given" if endpoint.provider.auth == "optional" else ""
        self.source = without if key is None else name or "the argument key="

    async def sign(self, request: HttpRequest) -> HttpRequest:
        return replace(request, headers={**self._headers, **request.headers})


def choose_auth(endpoint: Endpoint, key: Secret | None, environment: Mapping[str, str]) -> Auth:
    """Return the authentication for an endpoint. Raises MissingKey, which names the variable to set."""
    auth = endpoint.provider.auth
    if key is not None or auth in ("none", "optional"):
        return KeyAuth(endpoint, key)
    if auth == "sigv4":
        from dragoman.client.aws import AwsAuth

        return AwsAuth(endpoint, environment)
    if auth == "gcp":
        return TokenAuth(open_google(), "Google Cloud credentials", endpoint.headers_for(None))
    if endpoint.provider.name in _AZURE:
        return TokenAuth(open_azure(endpoint), "Entra credentials", endpoint.headers_for(None))
    raise missing_key(endpoint)
