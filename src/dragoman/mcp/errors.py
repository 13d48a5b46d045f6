"""What can go wrong between us and a server, as the parts of this room tell each other."""

from __future__ import annotations

from typing import Any

METHOD_NOT_FOUND = -32601
UNSUPPORTED_VERSION = -32022


class ServerFault(Exception):
    """A request got no result. The words are fit for a model and for a person; they hold no secret."""


class ServerLost(ServerFault):
    """The server is gone, or broke the protocol, so that nothing more can be asked of this connection."""


class SessionGone(ServerFault):
    """The server has forgotten the session; a new one can be opened, and the request was not carried out."""


class Unsent(ServerFault):
    """The request was not sent, so nothing has happened."""


class Unanswered(ServerFault):
    """No answer within the time."""


class Refusal(ServerFault):
    """The server answered, with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} (error {code})" if message else f"error {code}")
        self.code = code
        self.data = data
