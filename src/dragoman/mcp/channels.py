"""How messages reach a server and come back, whatever carries them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from dragoman.types import JsonObject

Receive = Callable[[JsonObject], JsonObject | None]
"""Takes what a server sends of its own accord, and gives the reply where it asked for one."""


class Channel(Protocol):
    """One connection to a server. It is opened once and closed once."""

    needs_headers: bool
    """Whether requests carry their method and the protocol in headers as well."""

    @property
    def is_lost(self) -> bool:
        """Whether nothing more can be asked over this channel, and a new one is needed."""
        ...

    async def open(self) -> None:
        """Connect. Raises ServerFault."""
        ...

    async def exchange(self, message: JsonObject, headers: dict[str, str], seconds: float) -> JsonObject:
        """Send a request and give the answer to it. Raises ServerFault; cancelling leaves the connection usable."""
        ...

    async def tell(self, message: JsonObject, headers: dict[str, str]) -> None:
        """Send a message that has no answer. Raises ServerFault."""
        ...

    async def listen(self, headers: dict[str, str]) -> None:
        """Take what the server says of its own accord, where that needs a connection of its own; until it ends."""
        ...

    def begin_session(self, headers: dict[str, str]) -> None:
        """From here on the session has begun: these headers go with everything."""
        ...

    async def close(self) -> None:
        """End the connection, and the server if it is ours."""
        ...

    def diagnosis(self) -> str:
        """What the server said beside its messages, for a person who looks for the fault; empty if nothing."""
        ...
