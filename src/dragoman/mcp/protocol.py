"""JSON-RPC messages, channels, errors and limits of the MCP client."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from dragoman.characters import is_invisible, strip_invisible
from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Cleaning of text from a server, for a model and for a user at a terminal.
#
# The text is untrusted, so it may contain anything: colours and cursor movements, invisible letters, markers that a
# model interprets as the end of a turn.

# CSI and OSC sequences whole, so that their parameters do not stay behind; then any other escape.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[@-Z\\-_]?"
)
_CUT = " [... cut]"
# Most names and values cannot contain a control string.
_PLAIN = re.compile(r"[ \w.,:;/$#@%&*+=()'\"!?-]*", re.ASCII).fullmatch


def has_hidden(text: str) -> bool:
    """Whether the text contains invisible characters."""
    return any(is_invisible(character) for character in set(text) - {"\n", "\t"})


def strip_hidden(text: str) -> str:
    """Return the text without escape sequences and invisible characters."""
    if text.isascii() and text.isprintable():
        return text
    return strip_invisible(_ESCAPES.sub("", text))[0]


def clean_text(text: object, limit: int) -> str:
    """Return a text for a model: without invisible characters and control strings of model families, and bounded."""
    # Imported late: it prepares the markers of every family.
    from dragoman.extraction.control_tokens import break_tokens

    if not isinstance(text, str):
        return ""
    # Cut before the scan, so that the work is bounded too; invisible characters may use some of the space.
    plain = strip_hidden(text[: limit * 4]).strip()
    cut = len(plain) > limit or len(text) > limit * 4
    broken = break_tokens(plain[:limit]).text
    return broken + _CUT if cut else broken


def has_token(text: str) -> bool:
    """Whether the text contains a control string of a model family."""
    from dragoman.extraction.control_tokens import break_tokens

    return _PLAIN(text) is None and break_tokens(text).count > 0


def clean_line(text: object, limit: int = 300) -> str:
    """Return a text of a server in one line, for an error or a list of problems."""
    if not isinstance(text, str):
        return ""
    plain = " ".join(strip_hidden(text[: limit * 4]).split())
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."


# --------------------------------------------------------------------------------------------------------------------
# The errors of this package.

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
PAGE_NEEDED = -32042
"""A request needs a page that the user opens first."""
UNSUPPORTED_VERSION = -32022


class ServerFault(Exception):
    """A request has no result. The message is suitable for a model and for a user, and contains no secret."""


class ServerLost(ServerFault):
    """The server ended or violated the protocol: the connection cannot be used again."""


class SessionGone(ServerFault):
    """The server does not know the session. The request did not run, and a new session can be opened.

    Without `is_certain` the server only rejected the request before it read it, which may have another reason.
    """

    def __init__(self, message: str, *, is_certain: bool = True) -> None:
        super().__init__(message)
        self.is_certain = is_certain


class RequestNotSent(ServerFault):
    """The request was not sent, so nothing has happened."""


class RequestTimeout(ServerFault):
    """No answer within the time."""


class ErrorReply(ServerFault):
    """The server answered with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} (error {code})" if message else f"error {code}")
        self.code = code
        self.data = data


# --------------------------------------------------------------------------------------------------------------------
# Limits for the data of a server, and timeouts.


class Limits(Struct, frozen=True):
    """Limits for the memory and time that a server can use. Normal servers stay far below them."""

    start_seconds: float = 30.0
    """From the start of a server to its list of tools."""
    probe_seconds: float = 5.0
    """For the probe of the newest protocol; after it, the older handshake is used."""
    call_seconds: float = 300.0
    """For one call, if the run has no deadline."""
    close_seconds: float = 2.0
    """For each step of the shutdown: to end by itself, to end after a signal."""
    message_bytes: int = 4 * 1024 * 1024
    """Of one message from a server."""
    stderr_bytes: int = 8 * 1024
    """Of the standard error of a server; the last part is kept."""
    noise_lines: int = 100
    """Lines on the standard output that are not messages, such as a greeting, before the server counts as broken."""
    tools: int = 500
    """Of one server."""
    pages: int = 50
    """Of its list of tools."""
    schema_bytes: int = 64 * 1024
    schema_depth: int = 32
    description_characters: int = 4000
    result_parts: int = 200
    restart_delays: tuple[float, ...] = (0.0, 0.5, 2.0)
    """Seconds before each restart of a server that ended or violated the protocol; after the last one it stays down."""
    calls_to_recover: int = 20
    """After this many answers since its last restart, a server has all its restarts again."""


# --------------------------------------------------------------------------------------------------------------------
# JSON-RPC messages: encoding, and decoding of untrusted input.

write = msgspec.json.Encoder().encode
"""One message as one line, without its end."""
_read = msgspec.json.Decoder().decode
# Every escape is matched, so that a backslash which is itself escaped begins none.
_escapes = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
).sub


class InvalidMessage(ValueError):
    """Bytes that are not a JSON-RPC message."""


def request(identity: int, method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def notification(method: str, params: JsonObject | None = None) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def read(data: bytes | str) -> list[JsonObject]:
    """Return the messages in some bytes: one, or several if a server sends a batch. Raises InvalidMessage."""
    found = _read_json(data.encode("utf-8", "replace") if isinstance(data, str) else data)
    messages = found if isinstance(found, list) else [found]
    for message in messages:
        why = _fault_of(message)
        if why:
            raise InvalidMessage(f"not JSON-RPC: {why}")
    return messages


def _read_json(data: bytes, *, is_mended: bool = False) -> Any:
    try:
        return _read(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        if "surrogate" in str(problem) and not is_mended:
            # A lone surrogate, from a server that cuts text inside a character: the rest is still usable.
            mended = _escapes(lambda match: match[0] if match[1] is None else b"\\ufffd", data)
            return _read_json(mended, is_mended=True)
        raise InvalidMessage(f"not JSON: {clean_line(str(problem), 120)}") from None


def _fault_of(message: Any) -> str:
    if not isinstance(message, dict):
        return "not an object"
    if message.get("jsonrpc") != "2.0":
        return '"jsonrpc" is not "2.0"'
    if "method" in message:
        return "" if isinstance(message["method"], str) else "the method is not a text"
    if "result" in message or "error" in message:
        return ""
    return "neither a method nor a result"


def is_answer(message: JsonObject) -> bool:
    return "method" not in message


def result_of(message: JsonObject) -> JsonObject:
    """Return the result of an answer. Raises ErrorReply if the answer is an error."""
    error = message.get("error")
    if error is None:
        result = message.get("result")
        return result if isinstance(result, dict) else {}
    if not isinstance(error, dict):
        raise ErrorReply(0, clean_line(str(error)))
    code = error.get("code")
    raise ErrorReply(code if isinstance(code, int) else 0, clean_line(error.get("message")), error.get("data"))


def reply(identity: Any, result: JsonObject | ErrorReply) -> JsonObject:
    """Return the answer to a request of the server."""
    if isinstance(result, ErrorReply):
        return {"jsonrpc": "2.0", "id": identity, "error": {"code": result.code, "message": str(result)}}
    return {"jsonrpc": "2.0", "id": identity, "result": result}


# --------------------------------------------------------------------------------------------------------------------
# Channel: the interface of the transports of MCP.

Receive = Callable[[JsonObject], JsonObject | None]
"""Handles a message that a server initiates, and returns the reply if it needs one."""


class Channel(Protocol):
    """One connection to a server. It is opened once and closed once."""

    needs_headers: bool
    """Whether requests also have their method and the protocol version in headers."""

    @property
    def is_lost(self) -> bool:
        """Whether the channel cannot be used any more, and a new one is needed."""

    async def open(self) -> None:
        """Connect. Raises ServerFault."""

    async def exchange(self, message: JsonObject, headers: dict[str, str], seconds: float) -> JsonObject:
        """Send a request and return the answer. Raises ServerFault. A cancellation keeps the connection usable."""

    async def tell(self, message: JsonObject, headers: dict[str, str]) -> None:
        """Send a notification. Raises ServerFault."""

    async def listen(self, headers: dict[str, str]) -> None:
        """Receive messages that the server initiates, if they need their own connection, until it ends."""

    def begin_session(self, headers: dict[str, str]) -> None:
        """Start the session: all further requests have these headers."""

    async def close(self) -> None:
        """End the connection, and the server if dragoman started it."""

    def diagnosis(self) -> str:
        """Return the other output of the server, to help a user find a fault; may be empty."""


async def notify_quietly(channel: Channel, message: JsonObject) -> None:
    """Send a notification, and ignore errors."""
    with contextlib.suppress(ServerFault):
        await channel.tell(message, {})


def start_background(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Start a background task, and keep a reference to it until it ends."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
