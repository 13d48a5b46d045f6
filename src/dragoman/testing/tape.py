"""A recording on disk: one exchange per line, as JSON that a person can read and a review can show."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from dragoman.errors import ConfigError

# The body is kept as it was decoded, in its pieces, so these would be lies.
_DROPPED = frozenset({"content-encoding", "content-length", "transfer-encoding", "connection", "keep-alive", "date"})


class Asked(Struct, frozen=True, omit_defaults=True):
    """A request as it is compared and kept: the body as JSON, or as text, or as {"base64": ...}."""

    method: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None

    @property
    def lane(self) -> str:
        """What two requests have in common that may be answered by the same recording."""
        return json.dumps([self.method, self.url, self.body], sort_keys=True, ensure_ascii=False)

    def show(self) -> str:
        """Many short lines, for a comparison."""
        body = json.dumps(self.body, indent=2, sort_keys=True, ensure_ascii=False)
        return f"{self.method} {self.url}\n{body}"


class Broken(Struct, frozen=True, omit_defaults=True):
    """How the connection failed, in the words of a TransportFault."""

    kind: str
    message: str = ""
    code: str = ""


class Answered(Struct, frozen=True, omit_defaults=True):
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[Any] = field(default_factory=list)
    """Text where the bytes are UTF-8, else {"base64": ...}."""
    fault: Broken | None = None


class Recorded(Struct, frozen=True):
    """One exchange. `number` is the order in which the requests were sent; answers may end in another."""

    number: int
    request: Asked
    response: Answered


def load(path: Path) -> list[Recorded]:
    """The exchanges of a recording, in the order of their requests."""
    found: list[Recorded] = []
    for place, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(msgspec.json.decode(line, type=Recorded))
        except (msgspec.DecodeError, UnicodeError) as error:
            raise ConfigError(
                f"{path}, line {place}: {error}", hint="delete the line, or the file, and record it again"
            ) from None
    return sorted(found, key=lambda recorded: recorded.number)


def append(path: Path, recorded: Recorded) -> None:
    """Add one exchange, in a single write."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(msgspec.to_builtins(recorded), ensure_ascii=False) + "\n"
    with open(path, "ab") as file:
        file.write(line.encode("utf-8", "surrogatepass"))
        file.flush()
        os.fsync(file.fileno())


def keep_headers(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in _DROPPED}


def write_body(body: bytes) -> Any:
    """A body as JSON if it is some, else as text or base64."""
    if not body:
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return write_bytes(body)


def write_bytes(data: bytes) -> Any:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def read_bytes(written: Any) -> bytes:
    return written.encode() if isinstance(written, str) else base64.b64decode(written["base64"])
