"""Reasoning that crosses from one wire to another.

A client of Anthropic's wire sends reasoning back only with a signature, and a foreign model has none. It gets a
signature of ours, which also carries the data that only the wire of the endpoint understands (encrypted reasoning).
When the client sends the reasoning back, the signature is removed and the data is restored. On the wire of Responses,
the encrypted content is such a signature: without one, nobody knows whose reasoning it is, and it is left out.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec
from msgspec.structs import replace

from dragoman.events import Event, PartEnded, ThinkingDelta
from dragoman.types import Message, Part, Thinking

PREFIX = "dragoman."
"""The beginning of a signature of ours. No vendor's signature contains a full stop."""
SIGNED = {"anthropic": "signature", "bedrock": "signature", "openai_responses": "encrypted_content"}
"""The wires on which clients send the signature of reasoning back, and its field."""
_LONGEST = 1 << 20


def sign(extra: dict[str, Any]) -> str:
    """Return a signature that carries the opaque data of a part."""
    return PREFIX + urlsafe_b64encode(msgspec.json.encode(extra)).decode() if extra else PREFIX


def read_signature(signature: object) -> dict[str, Any] | None:
    """Return the opaque data in a signature of ours; None if it is not ours."""
    if not isinstance(signature, str) or not signature.startswith(PREFIX):
        return None
    if len(signature) > _LONGEST:
        return {}
    try:
        data = msgspec.json.decode(urlsafe_b64decode(signature[len(PREFIX) :].encode()))
    except (ValueError, msgspec.DecodeError):
        return {}
    # A client can send anything here. Only objects by wire have a meaning, and each codec checks its own.
    return {wire: own for wire, own in data.items() if isinstance(own, dict)} if isinstance(data, dict) else {}


class ReasoningSigner:
    """A stage that ends each part of reasoning with a signature, for a client whose wire needs one."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._is_open = False

    def feed(self, event: Event, /) -> list[Event]:
        if isinstance(event, ThinkingDelta):
            self._is_open = True
            return [event]
        if isinstance(event, PartEnded) and event.kind == "thinking":
            self._is_open = False
            own = event.extra.get(self._wire)
            return [event] if own else [self._end(event.extra)]
        if not self._is_open:
            return [event]
        self._is_open = False
        return [self._end({}), event]

    def _end(self, extra: dict[str, Any]) -> PartEnded:
        return PartEnded("thinking", {**extra, self._wire: {SIGNED[self._wire]: sign(extra)}})


def restore_reasoning(messages: list[Message], wire: str) -> list[Message]:
    """Return the messages of a client with the reasoning as its endpoint wrote it."""
    if wire not in SIGNED:
        return messages
    return [
        replace(message, parts=[_restore(part, wire) for part in message.parts])
        if any(isinstance(part, Thinking) for part in message.parts)
        else message
        for message in messages
    ]


def _restore(part: Part, wire: str) -> Part:
    if not isinstance(part, Thinking):
        return part
    own = part.extra.get(wire)
    data = read_signature(own.get(SIGNED[wire])) if isinstance(own, dict) else None
    return part if data is None else Thinking(part.text, data)
