"""What a command prints, kept within bounds and made readable: its beginning, its end, and a note of what is missing.

Bytes are kept as they come and read as text only at the end, so that a character that arrives in two pieces is whole
and a flood costs no more memory than a trickle.
"""

from __future__ import annotations

import codecs
import re
from collections import deque

from msgspec import Struct

MOST_CHARACTERS = 30_000
_KEPT_BYTES = 128 * 1024
"""Of the beginning, and as much of the end; more than is shown, because control sequences take room as well."""
_LINE_SEARCH = 4096

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, movements, erasing
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles, links and other strings for the terminal
    r"|\x1b[ -/]*[0-~]?"  # short ones, and whatever was cut off
)
_CONTROLS = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r\b"}


class Captured(Struct, frozen=True):
    """The text of an output as it is shown."""

    text: str
    size: int
    """How many bytes were printed."""
    left_out: int = 0
    """How many of them are not shown, beyond control characters."""
    has_odd_bytes: bool = False
    """Whether some were no text, and were replaced or removed."""


class Capture:
    """Takes the bytes of an output, however many, and holds on to the first and the last of them."""

    def __init__(self, most: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.size = 0

    def feed(self, piece: bytes) -> None:
        self.size += len(piece)
        room = _KEPT_BYTES - len(self._head)
        if room > 0:
            self._head += piece[:room]
            piece = piece[room:]
        if piece:
            self._tail.append(piece)
            self._tail_size += len(piece)
            while self._tail_size - len(self._tail[0]) >= _KEPT_BYTES:
                self._tail_size -= len(self._tail.popleft())

    def finish(self) -> Captured:
        """The output as text. Where something is missing, a line says how much."""
        head, tail = bytes(self._head), b"".join(self._tail)
        missing = self.size - len(head) - len(tail)
        if not missing:
            whole = head + tail
            text, left_out = cut_middle(clean(_decode(whole)), self._most)
            return Captured(text, self.size, left_out, _is_odd(whole))
        tail, skipped = _from_next_line(tail)
        first, dropped_first = _cut_end(clean(_decode(head, whole=False)), self._most // 2)
        last, dropped_last = _cut_start(clean(_decode(tail)), self._most // 2)
        left_out = missing + skipped + dropped_first + dropped_last
        return Captured(_join(first, left_out, last), self.size, left_out, _is_odd(head) or _is_odd(tail))


def clean(text: str) -> str:
    """The text without control sequences, and with every line as a terminal would show it in the end."""
    if "\x1b" in text or "\x9b" in text:
        text = _ESCAPES.sub("", text)
    text = text.translate(_CONTROLS)
    if "\r" not in text and "\b" not in text:
        return text
    return "\n".join(map(_last_state, text.split("\n")))


def last_line(piece: bytes) -> str:
    """The last line of a piece that holds anything, short, for whoever watches."""
    lines = clean(piece[-4096:].decode("utf-8", "replace")).split("\n")
    return next((line.strip()[:200] for line in reversed(lines) if line.strip()), "")


def cut_middle(text: str, most: int) -> tuple[str, int]:
    """At most so many characters, without the middle, and how many bytes that leaves out."""
    if len(text) <= most:
        return text, 0
    half = most // 2
    first, _ = _cut_end(text, half)
    last, _ = _cut_start(text, half)
    left_out = len(text[len(first) : len(text) - len(last)].encode("utf-8", "replace"))
    return _join(first, left_out, last), left_out


def _join(first: str, left_out: int, last: str) -> str:
    before = "" if first.endswith("\n") or not first else "\n"
    return f"{first}{before}... {left_out:,} bytes left out ...\n{last}"


def _cut_end(text: str, most: int) -> tuple[str, int]:
    """The beginning, up to the end of a line where one is near: half a line may be half a secret."""
    if len(text) <= most:
        return text, 0
    end = text.rfind("\n", max(0, most - _LINE_SEARCH), most) + 1 or most
    return text[:end], len(text[end:].encode("utf-8", "replace"))


def _cut_start(text: str, most: int) -> tuple[str, int]:
    if len(text) <= most:
        return text, 0
    begin = len(text) - most
    line = text.find("\n", begin - 1, begin + _LINE_SEARCH) + 1
    if 0 < line < len(text):
        begin = line
    return text[begin:], len(text[:begin].encode("utf-8", "replace"))


def _from_next_line(raw: bytes) -> tuple[bytes, int]:
    """Without the rest of a line or of a character whose beginning is missing."""
    begin = raw.find(b"\n", 0, _LINE_SEARCH) + 1
    if not 0 < begin < len(raw):
        begin = next((index for index in range(min(4, len(raw))) if raw[index] & 0xC0 != 0x80), 0)
    return raw[begin:], begin


def _decode(raw: bytes, *, whole: bool = True) -> str:
    return codecs.getincrementaldecoder("utf-8")("replace").decode(raw, final=whole)


def _is_odd(raw: bytes) -> bool:
    """Whether this is not all text; a character that was cut off at the end does not count."""
    if b"\0" in raw:
        return True
    try:
        codecs.getincrementaldecoder("utf-8")().decode(raw)
    except UnicodeDecodeError:
        return True
    return False


def _last_state(line: str) -> str:
    """A line after all returns to its beginning: progress bars leave their last state only."""
    line = line.rstrip("\r")
    line = line[line.rfind("\r") + 1 :]
    if "\b" not in line:
        return line
    shown: list[str] = []
    for character in line:
        if character != "\b":
            shown.append(character)
        elif shown:
            shown.pop()
    return "".join(shown)
