"""What travels between client and provider: bytes to messages and back, without a network.

The framings are the lowest floor. Each is a Stage from bytes to messages, and an `encode` for the other direction:

- `sse`: server-sent events (OpenAI, Anthropic, Gemini, Mistral, Cohere)
- `ndjson`: one JSON text per line (Ollama)
- `eventstream`: binary frames with checksums (Bedrock)

None of them raises for what a server sent. What cannot be read comes out as a `...Broken` message, and what the end
of the stream cut short is marked, so that a reader can tell a clean end from a lost connection.
"""

from __future__ import annotations

from dragoman.wire import eventstream, ndjson, sse
from dragoman.wire.eventstream import EventStreamDecoder, Frame, FrameBroken
from dragoman.wire.ndjson import Line, LineBroken, LineDecoder
from dragoman.wire.sse import SseBroken, SseDecoder, SseEvent

__all__ = [
    "EventStreamDecoder",
    "Frame",
    "FrameBroken",
    "Line",
    "LineBroken",
    "LineDecoder",
    "SseBroken",
    "SseDecoder",
    "SseEvent",
    "eventstream",
    "ndjson",
    "sse",
]
