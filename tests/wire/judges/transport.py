"""An in-process connection for the official clients: it gives one prepared answer and remembers what was asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import httpx2
import msgspec

ADDRESS = "http://judge.test"
EVENT_STREAM = {"content-type": "text/event-stream"}
# For `sent`: what a client asks is read off the connection, so any answer will do, and a refusal fits every method.
REFUSAL = {"error": {"type": "invalid_request_error", "message": "not today"}}


class Connection(msgspec.Struct, frozen=True):
    """The HTTP client to hand to an official client, and the JSON bodies that were sent through it."""

    client: httpx2.Client
    bodies: list[dict[str, Any]]


@contextmanager
def connect(
    answer: Mapping[str, Any] | Sequence[bytes], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Iterator[Connection]:
    """Open a connection that answers every request with one JSON body, or with the pieces of one stream."""
    bodies: list[dict[str, Any]] = []

    def respond(request: httpx2.Request) -> httpx2.Response:
        bodies.append(msgspec.json.decode(request.content, type=dict[str, Any]))
        if isinstance(answer, Mapping):
            return httpx2.Response(status, headers=headers, json=dict(answer))
        return httpx2.Response(status, headers={**EVENT_STREAM, **(headers or {})}, content=iter(answer))

    # The environment of the machine (proxies, certificates) has no say here.
    with httpx2.Client(transport=httpx2.MockTransport(respond), trust_env=False) as client:
        yield Connection(client, bodies)


def fail(path: str, problem: str) -> NoReturn:
    """Refuse an answer that the client took without complaint, but that no program could use."""
    raise AssertionError(f"{path}: {problem}")


def object_of(text: str, path: str) -> dict[str, Any]:
    """Read the arguments of a call as every program does that gets them as text: they are one JSON object."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        fail(path, f"{error}: {text!r}")


def agree(first: object, second: object, ways: str) -> None:
    """Two ways through one official client must see the same answer."""
    if first != second:
        fail(ways, f"the two ways see different answers\n  {first}\n  {second}")


def given(**values: Any) -> dict[str, Any]:
    """Keep only what is there: neither None nor empty."""
    return {name: value for name, value in values.items() if value is not None and value != () and value != ""}
