"""Fingerprints of calls and results: equal for what a reader would call the same, in one pass and without copies.

The order of keys does not matter; everything else does.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from dragoman.types import File, Image, ToolCall, ToolResult
from dragoman.types import Text as TextPart

Digest = bytes
_SIZE = 16
_encode = msgspec.json.Encoder(order="deterministic").encode


def of_call(call: ToolCall) -> Digest:
    """What makes two calls the same: the name and the arguments."""
    state = blake2b(call.name.encode("utf-8", "surrogatepass"), digest_size=_SIZE)
    state.update(b"\0")
    try:
        state.update(_encode(call.arguments))
    except (ValueError, RecursionError, OverflowError, TypeError):
        # Half characters, deep nesting, numbers of thousands of digits: JSON has no form for them, a walk has.
        state.update(b"walked")
        _walk(call.arguments, state)
    return state.digest()


def of_result(result: ToolResult) -> Digest:
    """What makes two results the same: what the model is shown of them, and whether they are errors."""
    state = blake2b(b"error" if result.is_error else b"result", digest_size=_SIZE)
    content = result.content
    for part in [content] if isinstance(content, str) else content:
        _add_part(part, state)
    return state.digest()


def of_text(text: str) -> Digest:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_SIZE).digest()


def _add_part(part: str | TextPart | Image | File, state: blake2b) -> None:
    if isinstance(part, str):
        _add_text("text", part, state)
    elif isinstance(part, TextPart):
        _add_text("text", part.text, state)
    elif isinstance(part, Image):
        _add_text("image", part.data or part.url or "", state)
    else:
        _add_text("file", part.name, state)
        _add_text("of", part.data or part.url or "", state)


def _add_text(kind: str, text: str, state: blake2b) -> None:
    data = text.encode("utf-8", "surrogatepass")
    state.update(f"{kind}{len(data)}:".encode())
    state.update(data)


def _walk(value: Any, state: blake2b) -> None:
    """Feed a value of any depth, keys in order. What is no JSON counts by its type and its words."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            state.update(b"{%d" % len(item))
            for key in sorted(item, key=str, reverse=True):
                waiting += [item[key], str(key)]
        elif isinstance(item, list | tuple):
            state.update(b"[%d" % len(item))
            waiting.extend(reversed(item))
        elif isinstance(item, str):
            _add_text("s", item, state)
        elif isinstance(item, int) and not isinstance(item, bool):
            _add_text("int", hex(item), state)  # the decimal form of a huge number takes quadratic time
        else:
            _add_text(type(item).__name__, repr(item), state)
