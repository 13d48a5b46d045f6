"""Google Cloud: application default credentials, by way of the `google-auth` library."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from importlib import import_module
from time import time
from typing import Any

from dragoman.client.auth.tokens import Token, TokenAuth
from dragoman.client.transport import TransportFault
from dragoman.errors import MissingKey
from dragoman.providers import Endpoint

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_LIFE = 3600.0


class GoogleAuth(TokenAuth):
    """The token of whoever the application default credentials belong to."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float] = time) -> None:
        super().__init__(open_google(clock), "Google Cloud credentials", endpoint.headers_for(None), clock)


def open_google(clock: Callable[[], float]) -> Callable[[], Token]:
    """A function that fetches a token. Raises MissingKey where the library is not installed."""
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
                kept.append(auth.default(scopes=[SCOPE])[0])
            credentials = kept[0]
            credentials.refresh(requests.Request())
        except exceptions.DefaultCredentialsError:
            raise MissingKey(
                "there are no Google Cloud credentials",
                hint="gcloud auth application-default login, or set GOOGLE_APPLICATION_CREDENTIALS",
            ) from None
        except exceptions.TransportError as error:
            raise TransportFault(
                "unreachable", f"no token of Google Cloud: {type(error).__name__}", code="token"
            ) from None
        except exceptions.GoogleAuthError as error:
            raise TransportFault(
                "unauthorized", f"no token of Google Cloud: {type(error).__name__}", code="token"
            ) from None
        # The library gives a time without a zone, which is UTC.
        expiry = credentials.expiry
        end = expiry.replace(tzinfo=UTC).timestamp() if expiry is not None else clock() + _LIFE
        project = getattr(credentials, "quota_project_id", None)
        return Token(str(credentials.token), end, {"x-goog-user-project": project} if project else {})

    return fetch
