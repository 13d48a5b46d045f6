"""What travels between client and provider: eight protocols, both sides, without a network.

`get(name)` is the codec of a wire. A client uses `encode_request`, `decode_reply` and `reply_stream`, a server
`decode_request`, `encode_reply` and `event_stream`; all of them speak in the types and events of the centre.

The framings below them are Stages from bytes to messages, with a function for the other direction:

- `framing`: server-sent events (OpenAI, Anthropic, Gemini, Mistral, Cohere) and one JSON text per line (Ollama)
- `eventstream`: binary frames with checksums (Bedrock)

None of them raises for what a server sent. What cannot be read comes out as a `...Broken` message, and what the end
of the stream cut short is marked, so that a reader can tell a clean end from a lost connection.
"""

from __future__ import annotations

from dragoman.wire import eventstream, framing
from dragoman.wire.codec import Codec, Prepared
from dragoman.wire.eventstream import EventStreamDecoder, Frame, FrameBroken
from dragoman.wire.failures import Loss
from dragoman.wire.framing import Line, LineBroken, LineDecoder, SseBroken, SseDecoder, SseEvent
from dragoman.wire.quirks import Quirks
from dragoman.wire.registry import WireRow, get, names, register

__all__ = [
    "Codec",
    "EventStreamDecoder",
    "Frame",
    "FrameBroken",
    "Line",
    "LineBroken",
    "LineDecoder",
    "Loss",
    "Prepared",
    "Quirks",
    "SseBroken",
    "SseDecoder",
    "SseEvent",
    "WireRow",
    "eventstream",
    "framing",
    "get",
    "names",
    "register",
]
