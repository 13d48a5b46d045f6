"""Reasoning on chat completions: four fields in which servers give it, and some want it back."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject, Message, Thinking
from dragoman.wire.quirks import Quirks
from dragoman.wire.texts import join_thinking
from dragoman.wire.values import as_dict, as_list, as_text, dicts

_FIELDS = ("reasoning_content", "reasoning")
_ALL_FIELDS = frozenset({*_FIELDS, "reasoning_details"})
_GROWING = ("text", "summary", "data", "signature")


def find_reasoning(message: JsonObject) -> tuple[str, str]:
    """The readable reasoning in a message or delta, and the field that it stood in."""
    if _ALL_FIELDS.isdisjoint(message):
        return "", ""
    for name in _FIELDS:
        value = message.get(name)
        if isinstance(value, str) and value:
            return name, value
    details = list(dicts(message.get("reasoning_details")))
    text = "".join(as_text(entry.get("text")) or as_text(entry.get("summary")) for entry in details)
    return ("reasoning_details", text) if details else ("", "")


class Details:
    """`reasoning_details` put together from the pieces of a stream, to be sent back as if they had come whole."""

    def __init__(self) -> None:
        self._entries: list[JsonObject] = []

    def add(self, pieces: Any) -> None:
        for piece in dicts(pieces):
            last = self._entries[-1] if self._entries else None
            if last is not None and _continues(last, piece):
                for name, value in piece.items():
                    grows = name in _GROWING and isinstance(value, str) and isinstance(last.get(name), str)
                    last[name] = last[name] + value if grows else value
            else:
                self._entries.append(dict(piece))

    def take(self) -> list[JsonObject]:
        entries, self._entries = self._entries, []
        return entries


def _continues(last: JsonObject, piece: JsonObject) -> bool:
    return piece.get("index") is not None and all(last.get(name) == piece.get(name) for name in ("index", "type"))


def write_reasoning(body: JsonObject, message: Message, wire: str, quirks: Quirks, *, has_calls: bool) -> None:
    """Put reasoning back into an assistant message, if this endpoint wants it there."""
    if not quirks.reasoning_field:
        return
    if quirks.replay_reasoning != "always" and not (quirks.replay_reasoning == "calls" and has_calls):
        return
    thinking = [part for part in message.parts if isinstance(part, Thinking)]
    if quirks.reasoning_field == "reasoning_details":
        details = [entry for part in thinking for entry in as_list(as_dict(part.extra.get(wire)).get("details"))]
        body.update({"reasoning_details": details} if details else {})
        return
    text = join_thinking(thinking)
    if quirks.reasoning_field == "think_tags":
        body["content"] = f"<think>{text}</think>{body.get('content') or ''}" if text else body.get("content")
    else:
        # An empty text stands for a turn of another model: leaving the field out is refused.
        body[quirks.reasoning_field] = text


def thinking_block(text: str, own: JsonObject) -> JsonObject:
    """Reasoning as a block of the content, the way Mistral writes it."""
    signed = {"signature": own["signature"]} if isinstance(own.get("signature"), str) else {}
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **signed}


def write_thinking_blocks(body: JsonObject, message: Message, wire: str) -> None:
    """Put reasoning back into the content of an assistant message."""
    blocks: list[JsonObject] = [
        thinking_block(part.text, as_dict(part.extra.get(wire))) for part in message.parts if isinstance(part, Thinking)
    ]
    if blocks:
        text = as_text(body.get("content"))
        body["content"] = blocks + ([{"type": "text", "text": text}] if text else [])


def read_thinking_block(block: JsonObject) -> tuple[str, JsonObject]:
    """The text of such a block, and what only its wire understands of it."""
    inner = block.get("thinking")
    text = inner if isinstance(inner, str) else "".join(as_text(entry.get("text")) for entry in dicts(inner))
    signed = {"signature": block["signature"]} if isinstance(block.get("signature"), str) else {}
    return text, {"field": "thinking", **signed}
