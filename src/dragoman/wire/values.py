"""Values, lines and texts as servers send them: a value of the wrong type counts as absent."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import msgspec

from dragoman.args.loader import Loaded, load
from dragoman.types import (
    Failure,
    Fault,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Part,
    Provenance,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    find_media_type,
)

# --------------------------------------------------------------------------------------------------------------------
# Lines of bytes, and text as bytes: the rules that server-sent events and newline-delimited JSON share.

LIMIT = 16 * 1024 * 1024
"""The most bytes of one line; a server that sends more without a newline does not get more memory."""
SHOWN = 1000
"""How many bytes of something too long are kept, for whoever has to find out what it was."""

half_character = re.compile("[\ud800-\udfff]")
_LINE_FEED, _CARRIAGE_RETURN = b"\n\r"


class LineSplitter:
    """Cuts a stream of bytes into lines. `pending` is the start of the line that has not ended yet."""

    __slots__ = ("_after_return", "_at_start", "pending")

    def __init__(self) -> None:
        self.pending = bytearray()
        self._at_start = True
        self._after_return = False

    @property
    def is_between_lines(self) -> bool:
        """Whether the next piece begins with a new line, and nothing that came before changes how it is read."""
        return not (self.pending or self._after_return or self._at_start)

    def feed(self, piece: bytes, /) -> list[bytes]:
        """The lines that this piece completes, without their ends."""
        if self._at_start:
            piece = self._without_mark(piece)
        if not piece:
            return []
        if self._after_return:
            # The line ended at the CR already; a LF that opens the next piece belongs to the same end.
            self._after_return = False
            if piece[0] == _LINE_FEED:
                piece = piece[1:]
                if not piece:
                    return []
        lines = piece.splitlines()  # of bytes, so only at LF, CR and CRLF
        last = piece[-1]
        tail = b""
        if last == _CARRIAGE_RETURN:
            self._after_return = True
        elif last != _LINE_FEED:
            tail = lines.pop()
        pending = self.pending
        if lines and pending:
            lines[0] = bytes(pending) + lines[0]
            pending.clear()
        if tail:
            pending += tail
        return lines

    def close(self) -> bytes:
        """What stood behind the last line end."""
        rest = bytes(self.pending)
        self.pending.clear()
        return rest

    def _without_mark(self, piece: bytes) -> bytes:
        head = bytes(self.pending) + piece
        if len(head) < len(codecs.BOM_UTF8) and codecs.BOM_UTF8.startswith(head):
            self.pending[:] = head
            return b""
        self._at_start = False
        self.pending.clear()
        return head.removeprefix(codecs.BOM_UTF8)


def to_utf8(text: str) -> bytes:
    """The text as bytes, with U+FFFD for every lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return half_character.sub("\ufffd", text).encode()


# --------------------------------------------------------------------------------------------------------------------
# Values as servers send them: what has the wrong type counts as not there.

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_odd = json.JSONDecoder().decode
_ODD = ("\\ud", "\\uD", "NaN", "Infinity")

_LINE_ENDS = (("\x85", "\\u0085"), ("\u2028", "\\u2028"), ("\u2029", "\\u2029"))

BROKEN = object()
"""What `parse` gives for text that is no JSON."""


def as_text(value: Any, default: str = "") -> str:
    return value if isinstance(value, str) else default


def as_dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def dicts(value: Any) -> Iterator[JsonObject]:
    """The objects in a list; anything else in it is passed over."""
    return (entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else iter(())


def as_count(value: Any) -> int:
    """A number of tokens; 0 for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < 1 << 53 else 0


def parse(text: str | bytes) -> Any:
    """The JSON value of a frame, or BROKEN."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _parse_odd(text)


def _parse_odd(text: str | bytes) -> Any:
    """JSON with what no standard allows and servers send: half a character, whose other half is in the next frame, and
    NaN. Both stay what they are: whoever needs that very field has to say what they are good for."""
    try:
        words = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return _decode_odd(words) if any(odd in words for odd in _ODD) else BROKEN
    except (ValueError, RecursionError):
        return BROKEN


def join_halves(text: str) -> str:
    """Text with its surrogate pairs made characters, and U+FFFD for every half that is left alone."""
    if not half_character.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_same_json(one: str, other: str) -> bool:
    """Whether two texts are the same JSON value, however they are written."""
    value = parse(one)
    return value is not BROKEN and value == parse(other)


def write(value: Any) -> str:
    """JSON text without blanks, the same for the same value, on one line for every reader of lines."""
    try:
        text = _encode(value).decode()
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form.
        text = _encode(_without_surrogates(value)).decode()
    if not text.isascii():
        # Readers that split text where Unicode says so (some official clients do) would end a line here.
        for character, escape in _LINE_ENDS:
            text = text.replace(character, escape)
    return text


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return half_character.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(entry) for entry in value]
    return value


def show(value: Any) -> str:
    """JSON text of whatever a client sent; empty for what has no such text."""
    try:
        return write(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return ""


def own_of(holder: Any, wire: str) -> JsonObject:
    """What only this wire understands of a part, a message, an event or a reply."""
    return as_dict(holder.extra.get(wire)) if holder.extra else {}


def wrap_own(fields: JsonObject, wire: str) -> dict[str, Any]:
    """The same as an `extra`."""
    return {wire: fields} if fields else {}


def merge_fields(ours: JsonObject, own: JsonObject) -> JsonObject:
    """A body with the fields that the caller gave for this wire. They overrule ours: objects are joined, None takes a
    field out. Its `tools` are written with the others."""
    merged = dict(ours)
    for name, value in own.items():
        if name == "tools":
            continue
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = {**merged[name], **value}
        else:
            merged[name] = value
    return merged


def invert_stops(stops: Mapping[str, StopReason], default: str) -> dict[StopReason, str]:
    """A wire's word for each of our reasons to stop: the first that means it; `default` where there is none."""
    words: dict[StopReason, str] = dict.fromkeys(get_args(StopReason), default)
    return words | {stop: word for word, stop in reversed(list(stops.items()))}


def describe(failure: Failure) -> str:
    """The words of a failure for a client; never empty."""
    return failure.message or failure.code or failure.kind.replace("_", " ")


def read_call(
    wire: str,
    id: str,
    name: str,
    arguments: Any,
    wire_id: str | None,
    extra: dict[str, Any],
    *,
    sound: bool = False,
) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back; an invalid one without a name, or if the arguments are no object.

    `sound`: an object of arguments is taken as it is.
    """
    loaded = Loaded(arguments) if sound and isinstance(arguments, dict) else load(arguments)
    provenance = Provenance("native", wire)
    if loaded.value is None or not name:
        faults = loaded.errors or (Fault("$", "the call names no tool"),)
        raw = arguments if isinstance(arguments, str) else "" if arguments is None else show(arguments)
        return InvalidCall(id, name, raw, faults, provenance, extra, wire_id)
    return ToolCall(id, name, loaded.value, repairs=loaded.repairs, provenance=provenance, extra=extra, wire_id=wire_id)


# --------------------------------------------------------------------------------------------------------------------
# Text of parts and results, for wires that have one field for it.

_CALLS = (ToolCall, InvalidCall)


def join_texts(parts: Iterable[Part]) -> str:
    """The text of a message in one piece. Parts that would run into one another are kept apart by a line break."""
    joined = ""
    for part in parts:
        if isinstance(part, Text) and part.text:
            if not joined:
                joined = part.text
                continue
            apart = not joined[-1].isspace() and not part.text[0].isspace()
            joined += ("\n" if apart else "") + part.text
    return joined


def find_calls(parts: Iterable[Part]) -> list[ToolCall | InvalidCall]:
    """The calls among the parts of a message."""
    # Texts are put aside first: they are the most, and the other question takes longer.
    return [part for part in parts if type(part) is not Text and isinstance(part, _CALLS)]


def join_thinking(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Thinking))


def read_result(result: ToolResult) -> str:
    """The words of a result, its error told in words too: for wires that have no flag for errors."""
    text = plain_result(result)
    return mark_error(result, text) if result.is_error else text


def plain_result(result: ToolResult) -> str:
    """The words of a result; what is no text was moved elsewhere by the arrangement of the history."""
    if isinstance(result.content, str):
        return result.content
    return join_texts(part for part in result.content if isinstance(part, Text))


def mark_error(result: ToolResult, text: str) -> str:
    if result.is_error and text[:5].lower() != "error":
        return f"Error: {text}"
    return text


def data_url(part: Image | File) -> str:
    """An image or file as an address: its own, or one that holds the data."""
    if part.data is None:
        return part.url or ""
    return f"data:{part.media_type or find_media_type(part.data) or 'application/octet-stream'};base64,{part.data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 data of a `data:` address; None for any other address."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return head.removesuffix(";base64").partition(";")[0], data
