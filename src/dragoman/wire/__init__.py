"""The protocols between client and provider: eight wires, client and server side, without network code.

`get(name)` returns the codec of a wire. A client uses `encode_request`, `decode_reply` and `reply_stream`, a server
`decode_request`, `encode_reply` and `event_stream`. All of them use the types of `dragoman.types` and the events of
`dragoman.events`.

The framings below them are stages from bytes to messages, with a function for the other direction:

- `framing`: server-sent events (OpenAI, Anthropic, Gemini, Mistral, Cohere) and one JSON text per line (Ollama)
- `eventstream`: binary frames with checksums (Bedrock)

No input of a server raises an exception. Input that cannot be read becomes a `...Broken` message, and a message that
the end of the stream truncated is marked, so that a reader can distinguish a clean end from a lost connection.
"""

from __future__ import annotations

from dragoman.wire import eventstream, framing
from dragoman.wire.codec import Codec, Prepared
from dragoman.wire.eventstream import EventStreamDecoder, Frame, FrameBroken
from dragoman.wire.failures import Loss
from dragoman.wire.framing import Line, LineBroken, LineDecoder, SseBroken, SseDecoder, SseEvent
from dragoman.wire.quirks import Quirks
from dragoman.wire.registry import WireRow, get, load_installed, names, register

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
    "load_installed",
    "names",
    "register",
]
