"""JSON-RPC messages, channels, errors and limits of the MCP client."""

from __future__ import annotations

import asyncio
import contextlib
import re
import unicodedata
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from dragoman.types import JsonObject

# --------------------------------------------------------------------------------------------------------------------
# Words of a server, made fit to be shown: to a model, and to a person at a terminal.
#
# Whoever writes a server writes them, so they may hold anything: colours and cursor movements, letters that are not
# seen, markers that a model takes for the end of a turn.

# CSI and OSC sequences whole, so that their parameters do not stay behind; then any other escape.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[@-Z\\-_]?"
)
_LINE_ENDS = re.compile(r"\r\n?|[\u2028\u2029\x85]")
_HIDDEN = frozenset({"Cc", "Cf", "Co", "Cs"})
# Not of these categories, and not seen either: fillers, joiners, variation selectors, which can carry whole messages.
_also_hidden = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufe00-\ufe0f\U000e0000-\U000e0fff]"
).match
_CUT = " [... cut]"


def is_hidden(character: str) -> bool:
    """Whether a character is not seen, or changes how others are seen: controls, bidi, zero-width, tags, surrogates."""
    if character in "\n\t":
        return False
    return unicodedata.category(character) in _HIDDEN or _also_hidden(character) is not None


def has_hidden(text: str) -> bool:
    """Whether anything in the text is not seen."""
    return not (text.isascii() and text.isprintable()) and any(map(is_hidden, text))


def strip_hidden(text: str) -> str:
    """The text without escape sequences and without anything that is not seen."""
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", _ESCAPES.sub("", text))
    return "".join(character for character in text if not is_hidden(character))


def clean_text(text: object, limit: int) -> str:
    """Words for a model: nothing hidden, no control strings of any model family, and not too many."""
    # Late: it prepares the markers of every family.
    from dragoman.extraction.text_results import break_tokens

    if not isinstance(text, str):
        return ""
    # Cut before it is looked at, so that the work is bounded as well; what is hidden may take room in it.
    plain = strip_hidden(text[: limit * 4]).strip()
    cut = len(plain) > limit or len(text) > limit * 4
    broken = break_tokens(plain[:limit]).text
    return broken + _CUT if cut else broken


def clean_line(text: object, limit: int = 300) -> str:
    """Words of a server in one line, for an error or a list of problems."""
    if not isinstance(text, str):
        return ""
    plain = " ".join(strip_hidden(text[: limit * 4]).split())
    return plain if len(plain) <= limit else plain[: limit - 3] + "..."


# --------------------------------------------------------------------------------------------------------------------
# What can go wrong between us and a server, as the modules of this package tell each other.

METHOD_NOT_FOUND = -32601
UNSUPPORTED_VERSION = -32022


class ServerFault(Exception):
    """A request got no result. The words are fit for a model and for a person; they hold no secret."""


class ServerLost(ServerFault):
    """The server is gone, or broke the protocol, so that nothing more can be asked of this connection."""


class SessionGone(ServerFault):
    """The server has forgotten the session; a new one can be opened, and the request was not carried out."""


class RequestNotSent(ServerFault):
    """The request was not sent, so nothing has happened."""


class RequestTimeout(ServerFault):
    """No answer within the time."""


class ErrorReply(ServerFault):
    """The server answered, with an error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} (error {code})" if message else f"error {code}")
        self.code = code
        self.data = data


# --------------------------------------------------------------------------------------------------------------------
# How much of a server we are willing to hold, and how long we wait for it.


class Limits(Struct, frozen=True):
    """Caps on what a server can make us hold or wait for. An honest one reaches none of them."""

    start_seconds: float = 30.0
    """From starting a server to its list of tools."""
    probe_seconds: float = 5.0
    """For an answer to the question whether the server speaks the newest protocol; then it is asked the older way."""
    call_seconds: float = 300.0
    """For one call, where the run that makes it sets no deadline."""
    close_seconds: float = 2.0
    """For each step of closing: to end by itself, to end when told to."""
    message_bytes: int = 4 * 1024 * 1024
    """Of one message from a server."""
    stderr_bytes: int = 8 * 1024
    """Of what a server wrote to its standard error; the last of it is kept."""
    noise_lines: int = 100
    """Lines on the standard output that are no messages, such as a greeting, before the server counts as broken."""
    tools: int = 500
    """Of one server."""
    pages: int = 50
    """Of its list of tools."""
    schema_bytes: int = 64 * 1024
    schema_depth: int = 32
    description_characters: int = 4000
    result_parts: int = 200
    restart_delays: tuple[float, ...] = (0.0, 0.5, 2.0)
    """Seconds before each restart of a server that ended or broke the protocol; after the last one it stays down."""
    calls_to_recover: int = 20
    """After so many answers since its last restart, a server has all its restarts again."""


# --------------------------------------------------------------------------------------------------------------------
# JSON-RPC messages: written, and read from a stranger.

write = msgspec.json.Encoder().encode
"""One message as one line, without its end."""
_read = msgspec.json.Decoder().decode
# Every escape is matched, so that a backslash which is itself escaped begins none.
_escapes = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
).sub


class InvalidMessage(ValueError):
    """Bytes that are no message of JSON-RPC."""


def request(identity: int, method: str, params: JsonObject) -> JsonObject:
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def notification(method: str, params: JsonObject | None = None) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, **({} if params is None else {"params": params})}


def read(data: bytes | str) -> list[JsonObject]:
    """The messages in some bytes: one, or several where a server sends a batch. Raises InvalidMessage."""
    found = _read_json(data.encode("utf-8", "replace") if isinstance(data, str) else data)
    messages = found if isinstance(found, list) else [found]
    for message in messages:
        why = _fault_of(message)
        if why:
            raise InvalidMessage(f"no JSON-RPC: {why}")
    return messages


def _read_json(data: bytes, *, is_mended: bool = False) -> Any:
    try:
        return _read(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as problem:
        if "surrogate" in str(problem) and not is_mended:
            # Half a character, from a server that cuts text where it likes: no reason to do without the rest.
            mended = _escapes(lambda match: match[0] if match[1] is None else b"\\ufffd", data)
            return _read_json(mended, is_mended=True)
        raise InvalidMessage(f"no JSON: {clean_line(str(problem), 120)}") from None


def _fault_of(message: Any) -> str:
    if not isinstance(message, dict):
        return "not an object"
    if message.get("jsonrpc") != "2.0":
        return 'it does not say "jsonrpc": "2.0"'
    if "method" in message:
        return "" if isinstance(message["method"], str) else "a method that is no text"
    if "result" in message or "error" in message:
        return ""
    return "neither a method nor a result"


def is_answer(message: JsonObject) -> bool:
    return "method" not in message


def result_of(message: JsonObject) -> JsonObject:
    """The result of an answer. Raises ErrorReply where the answer is an error."""
    error = message.get("error")
    if error is None:
        result = message.get("result")
        return result if isinstance(result, dict) else {}
    if not isinstance(error, dict):
        raise ErrorReply(0, clean_line(str(error)))
    code = error.get("code")
    raise ErrorReply(code if isinstance(code, int) else 0, clean_line(error.get("message")), error.get("data"))


def reply_to(message: JsonObject) -> JsonObject:
    """What a request of the server is answered with: this client lends it no model, no files and no person."""
    head: JsonObject = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "ping":
        return {**head, "result": {}}
    if message["method"] == "roots/list":
        return {**head, "result": {"roots": []}}
    return {**head, "error": {"code": METHOD_NOT_FOUND, "message": "this client does not offer it"}}


# --------------------------------------------------------------------------------------------------------------------
# How messages reach a server and come back, whatever carries them.

Receive = Callable[[JsonObject], JsonObject | None]
"""Takes what a server sends of its own accord, and gives the reply where it asked for one."""


class Channel(Protocol):
    """One connection to a server. It is opened once and closed once."""

    needs_headers: bool
    """Whether requests carry their method and the protocol in headers as well."""

    @property
    def is_lost(self) -> bool:
        """Whether nothing more can be asked over this channel, and a new one is needed."""

    async def open(self) -> None:
        """Connect. Raises ServerFault."""

    async def exchange(self, message: JsonObject, headers: dict[str, str], seconds: float) -> JsonObject:
        """Send a request and give the answer to it. Raises ServerFault; cancelling leaves the connection usable."""

    async def tell(self, message: JsonObject, headers: dict[str, str]) -> None:
        """Send a message that has no answer. Raises ServerFault."""

    async def listen(self, headers: dict[str, str]) -> None:
        """Take what the server says of its own accord, where that needs a connection of its own; until it ends."""

    def begin_session(self, headers: dict[str, str]) -> None:
        """From here on the session has begun: these headers go with everything."""

    async def close(self) -> None:
        """End the connection, and the server if it is ours."""

    def diagnosis(self) -> str:
        """What the server said beside its messages, for a person who looks for the fault; empty if nothing."""


async def tell_quietly(channel: Channel, message: JsonObject) -> None:
    """Send a message that has no answer, whether it arrives or not."""
    with contextlib.suppress(ServerFault):
        await channel.tell(message, {})


def do_beside(tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
    """Begin some work that nobody waits for, and hold its task for as long as it takes."""
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
