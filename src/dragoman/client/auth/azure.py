"""Azure without a key: tokens of Entra, by way of the `azure-identity` library."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from time import time

from dragoman.client.auth.tokens import Token, TokenAuth
from dragoman.client.keys import missing_key
from dragoman.client.transport import TransportFault
from dragoman.providers import Endpoint

SCOPE = "https://cognitiveservices.azure.com/.default"


class AzureAuth(TokenAuth):
    """The token of whoever the default credentials of Azure belong to."""

    def __init__(self, endpoint: Endpoint, clock: Callable[[], float] = time) -> None:
        super().__init__(open_azure(endpoint), "Entra credentials", endpoint.headers_for(None), clock)


def open_azure(endpoint: Endpoint) -> Callable[[], Token]:
    """A function that fetches a token. Raises MissingKey where the library is not installed."""
    try:
        identity = import_module("azure.identity")
        exceptions = import_module("azure.core.exceptions")
    except ImportError:
        raise missing_key(endpoint, "or, for tokens of Entra: pip install azure-identity") from None
    credential = identity.DefaultAzureCredential()

    def fetch() -> Token:
        try:
            token = credential.get_token(SCOPE)
        except exceptions.ClientAuthenticationError as error:
            raise TransportFault("unauthorized", f"no token of Entra: {type(error).__name__}", code="token") from None
        return Token(token.token, float(token.expires_on))

    return fetch
