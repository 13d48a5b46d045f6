"""What a scripted model may say, and the helpers to write it.

A scripted reply is whatever is shortest to write: a text, calls, parts, a whole `Reply`, a `Failure`, raw bytes, an
exception, or a function of the request that gives one of these. `as_reply` brings all that a model can say into a
`Reply`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from dragoman.errors import ConfigError
from dragoman.types import Failure, File, Image, Message, Part, Reply, Request, Text, Thinking, ToolCall, Usage

NO_USAGE = Usage()
Say = str | Part | Sequence[str | Part] | Reply
"""What a model can say."""


class Answer(Struct, frozen=True):
    """An HTTP answer as it is, for what no model and no server of ours would write.

    `body` is bytes, a text, or data that becomes JSON; `pieces`, where given, is the body in the pieces that arrive.
    After the last piece the connection breaks with the `fault`, if one is given; with `stalls` nothing more comes, and
    nothing ends, until the client gives up.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = b""
    pieces: Sequence[bytes] | None = None
    fault: BaseException | None = None
    stalls: bool = False

    def parts(self) -> list[bytes]:
        """The body in pieces, none of them empty."""
        pieces = [self.bytes()] if self.pieces is None else self.pieces
        return [bytes(piece) for piece in pieces if piece]

    def bytes(self) -> bytes:
        if self.pieces is not None:
            return b"".join(self.pieces)
        if isinstance(self.body, bytes | bytearray):
            return bytes(self.body)
        return self.body.encode() if isinstance(self.body, str) else json.dumps(self.body).encode()


Scripted = Say | Failure | Answer | BaseException
"""What a model, its server, or the connection to it may answer."""
Script = Scripted | Callable[[Request], Scripted | Awaitable[Scripted]]


def call(tool: str, arguments: Mapping[str, Any] | None = None, /, **more: Any) -> ToolCall:
    """A call for a script: `call("weather", city="Paris")`. Its id is made when it is played."""
    return ToolCall("", tool, {**(arguments or {}), **more})


def calls(*made: ToolCall, say: str = "") -> list[str | Part]:
    """Several calls in one reply, with the words before them."""
    return [*([say] if say else []), *made]


def text(words: str) -> Text:
    """A part of a reply that is text."""
    return Text(words)


def thinking(words: str) -> Thinking:
    """A part of a reply in which the model thinks aloud."""
    return Thinking(words)


def sse(frames: Iterable[Any], *, done: bool = True) -> Answer:
    """A stream of server-sent events as it is: data becomes JSON, texts are sent as they are, `[DONE]` ends it."""
    written = [frame if isinstance(frame, str) else json.dumps(frame) for frame in frames]
    pieces = [f"data: {data}\n\n".encode() for data in [*written, *(["[DONE]"] if done else [])]]
    return Answer(200, {"content-type": "text/event-stream"}, pieces=pieces)


def as_reply(said: Say, *, usage: Usage = NO_USAGE) -> Reply:
    """A reply from what a script says. The reason to stop follows from whether it calls anything."""
    if isinstance(said, Reply):
        return said
    parts = [Text(part) if isinstance(part, str) else part for part in _listed(said)]
    called = any(isinstance(part, ToolCall) for part in parts)
    return Reply(Message("assistant", parts), usage, "tool_calls" if called else "end")


def _listed(said: Any) -> list[str | Part]:
    if isinstance(said, str | Text | Thinking | Image | File | ToolCall):
        return [said]
    if isinstance(said, Sequence) and all(
        isinstance(part, str | Text | Thinking | Image | File | ToolCall) for part in said
    ):
        return list(said)
    raise ConfigError(
        f"a scripted model cannot say {said!r:.200}",
        hint="script a text, call(...), a list of them, a Reply, a Failure, an Answer, an exception, or a function",
    )


def number_calls(reply: Reply, next_id: Callable[[], str]) -> Reply:
    """The reply with an id on every call that has none."""
    parts: list[Part] = [
        structs.replace(part, id=next_id()) if isinstance(part, ToolCall) and not part.id else part
        for part in reply.message.parts
    ]
    return structs.replace(reply, message=structs.replace(reply.message, parts=parts))


def write_as_text(reply: Reply, format: str) -> Reply:
    """The reply of a model that knows no native calls: its calls are text in a format, and it ends like any text."""
    from dragoman import formats

    made = [part for part in reply.message.parts if isinstance(part, ToolCall)]
    if not made:
        return reply
    others = [part for part in reply.message.parts if not isinstance(part, ToolCall)]
    spoken = any(isinstance(part, Text) for part in others)
    written = Text(("\n" if spoken else "") + formats.render(made, format))
    message = structs.replace(reply.message, parts=[*others, written])
    return structs.replace(reply, message=message, stop="end" if reply.stop == "tool_calls" else reply.stop)
