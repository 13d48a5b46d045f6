"""What the client tells besides the events of the reply."""

from __future__ import annotations

from msgspec import Struct

from dragoman.events import Event
from dragoman.types import Failure
from dragoman.wire.failures import Loss


class RequestPrepared(Struct, frozen=True):
    """The body of a request is written: what was lost or changed on the way to this wire, and its size in bytes."""

    losses: tuple[Loss, ...] = ()
    bytes: int = 0
    model: str = ""


class RequestRetried(Struct, frozen=True):
    """A request failed before anything of its reply was delivered, and is sent again after `wait` seconds."""

    attempt: int
    wait: float
    failure: Failure
    model: str = ""


class ModelReplaced(Struct, frozen=True):
    """A model gave up before anything was delivered, and the next one of the list is asked."""

    from_model: str
    to_model: str
    failure: Failure


ClientEvent = Event | RequestPrepared | RequestRetried | ModelReplaced
NOTICES = (RequestPrepared, RequestRetried, ModelReplaced)
"""The events that are no part of a reply."""
