"""Helpers for values, lines and texts of servers: a value of the wrong type counts as absent."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from typing import Any, get_args
from urllib.parse import quote

import msgspec

from dragoman.args.decoder import is_rounded
from dragoman.args.loader import Loaded, load
from dragoman.errors import ConfigError, UnknownModel
from dragoman.jsonschema.keywords import same
from dragoman.media import find_base64_type
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
)

# --------------------------------------------------------------------------------------------------------------------
# Lines of bytes, and text as bytes: the rules that server-sent events and newline-delimited JSON share.

LIMIT = 16 * 1024 * 1024
"""The limit of one line in bytes, which bounds the memory for a server that sends no newline."""
SHOWN = 1000
"""How many bytes of an oversized line are kept for diagnosis."""

half_character = re.compile("[\ud800-\udfff]")
_LINE_FEED, _CARRIAGE_RETURN = b"\n\r"


class LineSplitter:
    """Splits a stream of bytes into lines. `pending` is the start of the incomplete line."""

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
        """Return the lines that this piece completes, without their line ends."""
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
        """Return the text after the last line end."""
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
    """Encode the text, with U+FFFD for every lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return half_character.sub("\ufffd", text).encode()


# --------------------------------------------------------------------------------------------------------------------
# Values of servers: a value of the wrong type counts as absent.

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_odd = json.JSONDecoder().decode
_ODD = ("\\ud", "\\uD", "NaN", "Infinity")

_LINE_ENDS = tuple((each.encode(), b"\\u%04x" % ord(each)) for each in "\x85\u2028\u2029")

_SHOWN_KEY = 60

BROKEN = object()
"""The result of `parse` for text that is not JSON."""


_separator = re.compile(r"[/\\]")
_DOTS = frozenset({".", ".."})


def write_model(model: str, *, safe: str = "/:@") -> str:
    """Return the name of a model as a part of a path. Raises UnknownModel for a name that would lead elsewhere."""
    if not _DOTS.isdisjoint(_separator.split(model)):
        raise UnknownModel(model, hint="the name is a part of the address, so it may have no . or .. between slashes")
    return quote(model, safe=safe)


def as_text(value: Any, default: str = "") -> str:
    return value if isinstance(value, str) else default


def as_dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def dicts(value: Any) -> Iterator[JsonObject]:
    """Return the objects in a list; other items are ignored."""
    return (entry for entry in value if isinstance(entry, dict)) if isinstance(value, list) else iter(())


def as_count(value: Any) -> int:
    """Return a number of tokens; 0 for an invalid value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 <= value < 1 << 53 else 0


class Ambiguous(dict[str, Any]):
    """A frame that other programs read differently, or that lost digits. No call in such a reply may run."""

    why = ""


def parse(text: str | bytes) -> Any:
    """Return a JSON value, or BROKEN."""
    try:
        return _decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _parse_odd(text)


def parse_frame(text: str | bytes) -> Any:
    """Return the JSON value of a frame or body of a reply, or BROKEN. If it has a call and is ambiguous, it is an
    `Ambiguous`."""
    try:
        data = text if isinstance(text, bytes) else text.encode()
        value = _decode(data)
        escaped = b"\\u" in data  # an escape may spell a key
        if not (escaped or b"tool" in data or b"unction" in data or b"_json" in data):
            return value
        written = _encode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _parse_odd(text)
    # The decoder keeps only the last of duplicate keys. Then the text has more colons than the encoded value, unless
    # it writes some as escapes. A whole float may have lost digits.
    if data.count(b":") == written.count(b":") and b".0" not in written and not (escaped and b"\\u003" in data):
        return value
    return _inspect(data.decode(), value)


def _parse_odd(text: str | bytes) -> Any:
    """JSON with what no standard allows and servers send: half a character, whose other half is in the next frame, and
    NaN. Both stay what they are: whoever needs that very field has to say what they are good for."""
    try:
        words = text.decode("utf-8-sig") if isinstance(text, bytes) else text
        return _inspect(words, _decode_odd(words)) if any(odd in words for odd in _ODD) else BROKEN
    except (ValueError, RecursionError):
        return BROKEN


def _inspect(words: str, value: Any) -> Any:
    """Return the value; an `Ambiguous` if its text has a key twice with different values, or a number lost digits."""
    found: list[str] = []

    def join(pairs: list[tuple[str, Any]]) -> JsonObject:
        members: JsonObject = {}
        for key, each in pairs:
            if key in members and not same(members[key], each):
                found.append(f"the key {key[:_SHOWN_KEY]!r} is in the reply twice, with different values")
            members[key] = each
        return members

    def number(digits: str) -> float:
        if is_rounded(digits, float(digits)):
            found.append(f"more digits than a number can hold: {digits[:40]}")
        return float(digits)

    try:
        json.JSONDecoder(object_pairs_hook=join, parse_float=number).decode(words)
    except (ValueError, RecursionError):
        found.append("the reply has a number that is too long, or is nested too deep")
    if not found:
        return value
    if isinstance(value, list):
        return [_doubt(each, found[0]) if isinstance(each, dict) else each for each in value]
    return _doubt(value, found[0]) if isinstance(value, dict) else value


def _doubt(value: JsonObject, why: str) -> Ambiguous:
    ambiguous = Ambiguous(value)
    ambiguous.why = why
    return ambiguous


def join_halves(text: str) -> str:
    """Text with its surrogate pairs made characters, and U+FFFD for every half that is left alone."""
    if not half_character.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def is_same_json(one: str, other: str) -> bool:
    """Whether two texts are the same JSON value, however they are written."""
    value = parse(one)
    return value is not BROKEN and value == parse(other)


def write_bytes(value: Any) -> bytes:
    """Return what `write` returns, in UTF-8."""
    try:
        data = _encode(value)
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form.
        data = _encode(_without_surrogates(value))
    if not data.isascii():
        # Readers that split text where Unicode says so (some official clients do) would end a line here.
        for character, escape in _LINE_ENDS:
            data = data.replace(character, escape)
    return data


def write(value: Any) -> str:
    """Return JSON text without blanks: deterministic, and on one line for every reader of lines."""
    return write_bytes(value).decode()


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return half_character.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(entry) for entry in value]
    return value


def show(value: Any) -> str:
    """Return the JSON text of a value of a client; empty if it has none."""
    try:
        return write(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        return ""


def as_words(content: Any) -> str:
    """Return a content that may only be text. Any other value that a client sends counts as its JSON text."""
    return content if isinstance(content, str) else "" if content is None else show(content)


def as_blocks(content: Any) -> list[JsonObject | str]:
    """Return the blocks of a content: a text, a block, or a list of them. Any other value is the text of its JSON."""
    if isinstance(content, list):
        return [block if isinstance(block, dict | str) else show(block) for block in content if block is not None]
    if content is None:
        return []
    return [content if isinstance(content, str) or (isinstance(content, dict) and "type" in content) else show(content)]


def own_of(holder: Any, wire: str) -> JsonObject:
    """Return the data of this wire in the `extra` of a part, a message, an event or a reply."""
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
    """Return a wire's word for each of our stop reasons: the first with that meaning; `default` if there is none."""
    words: dict[StopReason, str] = dict.fromkeys(get_args(StopReason), default)
    return words | {stop: word for word, stop in reversed(list(stops.items()))}


def find_stop_sequence(stop: StopReason, extra: Mapping[str, Any]) -> str:
    """Return the text at which a model stopped, as any wire tells it; empty if it stopped for another reason."""
    if stop != "stop_sequence":
        return ""
    return next((text for own in extra.values() if (text := as_text(as_dict(own).get("stop_sequence")))), "")


def describe(failure: Failure, too_long: str = "", known: str = "") -> str:
    """Return the message of a failure for a client; never empty.

    `too_long` says in the words of a wire that a conversation has to be shortened, and `known` is what its clients
    recognise in it: by default, all of it.
    """
    message = failure.message or failure.code or failure.kind.replace("_", " ")
    if too_long and failure.kind == "context_too_long" and (known or too_long).lower() not in message.lower():
        return f"{too_long}: {message}"
    return message


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
    """Read a call of a history from a client. It is an invalid call if it has no name, or no object as arguments.

    `sound`: an object of arguments is used unchanged.
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
    """Return the text of a message. A line break separates parts that would otherwise run together.

    It does not if a provider only cut the text to say something of a piece: where it is from, or a signature.
    """
    joined = ""
    runs_on = False
    for part in parts:
        is_piece = bool(part.extra) and isinstance(part, Text) and _is_piece(part)
        if isinstance(part, Text) and part.text:
            apart = joined and not (is_piece or runs_on or joined[-1].isspace() or part.text[0].isspace())
            joined += ("\n" if apart else "") + part.text
        runs_on = is_piece
    return joined


def _is_piece(part: Text) -> bool:
    """Whether a wire marks a piece of a text, so that the text goes on before and behind it."""
    for own in part.extra.values():
        fields = as_dict(own)
        if "citations" in fields or "thoughtSignature" in fields:
            return True
        if as_dict(fields.get("block")).get("type") in ("reference", "tool_reference"):
            return True
    return False


def as_plain(body: Any) -> Any:
    """Return JSON values from an object of an official client, or from a list of such objects.

    Raises ConfigError for an object that has no such form: an empty result would hide the mistake.
    """
    if body is None or isinstance(body, dict | str | bytes | bytearray | bool | int | float):
        return body
    if isinstance(body, Mapping):
        return dict(body)
    if isinstance(body, list | tuple):
        return [as_plain(each) for each in body]
    for name, options in _DUMPS:
        dump = getattr(body, name, None)
        if not callable(dump) or isinstance(body, type):
            continue
        try:
            plain = dump(**options)
        except TypeError:
            continue
        if isinstance(plain, Mapping | list):
            return dict(plain) if isinstance(plain, Mapping) else plain
    if is_dataclass(body) and not isinstance(body, type):
        return asdict(body)
    raise ConfigError(
        f"{type(body).__name__} is not a reply",
        hint="pass the text, the body as a dict or as JSON, or the reply object of an official client",
    )


# The wires use the names of the aliases, such as `functionCall`. Clients differ in the options that they accept.
_DUMPS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("model_dump", {"mode": "json", "by_alias": True, "exclude_none": True}),
    ("model_dump", {}),
    ("to_dict", {}),
    ("dict", {}),
)


def find_calls(parts: Iterable[Part]) -> list[ToolCall | InvalidCall]:
    """Return the calls among the parts of a message."""
    # Texts are excluded first: they are the most frequent, and the other check is slower.
    return [part for part in parts if type(part) is not Text and isinstance(part, _CALLS)]


def join_thinking(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Thinking))


def read_result(result: ToolResult) -> str:
    """Return the text of a result, with a note for an error: for wires without an error flag."""
    text = plain_result(result)
    return mark_error(result, text) if result.is_error else text


def plain_result(result: ToolResult) -> str:
    """Return the text of a result; `arrange` has moved other parts elsewhere."""
    if isinstance(result.content, str):
        return result.content
    return join_texts(part for part in result.content if isinstance(part, Text))


def mark_error(result: ToolResult, text: str) -> str:
    if result.is_error and text[:5].lower() != "error":
        return f"Error: {text}"
    return text


def data_url(part: Image | File) -> str:
    """Return the URL of an image or file: its own, or a `data:` URL."""
    if part.data is None:
        return part.url or ""
    return f"data:{part.media_type or find_base64_type(part.data) or 'application/octet-stream'};base64,{part.data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Return the media type and base64 data of a `data:` URL; None for any other URL."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return head.removesuffix(";base64").partition(";")[0], data
