"""The client side of Anthropic Messages: writes requests and reads replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from dragoman.types import Failure, File, Image, JsonObject, Message, Part, Request, Text, Thinking
from dragoman.wire.anthropic.parts import (
    STOPS,
    add_usage,
    own,
    own_of,
    read_failure,
    read_own_usage,
    read_usage,
    without,
    write_block,
    write_text,
)
from dragoman.wire.codec import Offer, Prepared
from dragoman.wire.failures import Loss
from dragoman.wire.options import Choice, place_tools, read_choice, report_choice, settle_choice
from dragoman.wire.quirks import Quirks
from dragoman.wire.reader import SseReader
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, parse

# --------------------------------------------------------------------------------------------------------------------
# Marks for the prompt cache: at most four, on parts that do not change from one request to the next.

MOST = 4
AUTO = "auto"
"""The value of the option `cache` that marks only a request without marks of its own."""
_KEY = "cache_control"

Place = tuple[list[JsonObject], int]
"""A block by the list that it stands in: a block is never changed, only replaced, for it may be the caller's."""


def mark(
    tools: list[JsonObject], system: list[JsonObject], messages: list[JsonObject], asked: Any, room: int = MOST
) -> list[Loss]:
    """Mark the last tool, the last system block and the last two user or result blocks, if the caller asked for it.

    Marks that came with the parts of a conversation are replaced then. Otherwise they stay, as far as there is room,
    and with AUTO they count instead.
    """
    marked = []
    if _may_be_marked(tools, system, messages):
        marked = [place for place in _places(tools, system, messages) if _KEY in place[0][place[1]]]
    if not asked or (asked == AUTO and marked):
        return _thin_out(marked, room)
    for blocks, index in marked:
        blocks[index] = _unmarked(blocks[index])
    sign = {"type": "ephemeral", "ttl": asked} if asked in ("1h", "5m") else {"type": "ephemeral"}
    heads = [*_last(tools), *_last(system)]
    users = [place for place in _message_places(messages, "user") if _may_carry(place)][-min(2, room - len(heads)) :]
    for blocks, index in [*heads, *users]:
        blocks[index] = {**blocks[index], _KEY: sign}
    return [Loss("moved", "options", "the request's own cache marks gave way to those of `cache`")] if marked else []


def _may_be_marked(tools: list[JsonObject], system: list[JsonObject], messages: list[JsonObject]) -> bool:
    """A quick look, for most requests have no marks: True where one was seen, or where blocks lie inside of others."""
    for blocks in (tools, system, *[message["content"] for message in messages]):
        for block in blocks:
            if _KEY in block or type(block.get("content")) is list:
                return True
    return False


def _thin_out(marked: list[Place], room: int) -> list[Loss]:
    surplus = marked[:-room]
    for blocks, index in surplus:
        blocks[index] = _unmarked(blocks[index])
    return [Loss("dropped", "history", "a cache mark: only four are allowed") for _ in surplus]


def _unmarked(block: JsonObject) -> JsonObject:
    return {name: value for name, value in block.items() if name != _KEY}


def _last(blocks: list[JsonObject]) -> list[Place]:
    return [(blocks, index) for index in range(len(blocks)) if _may_carry((blocks, index))][-1:]


def _may_carry(place: Place) -> bool:
    """Whether a block may have a mark: the API rejects it on empty texts and on tools that are loaded later."""
    block = place[0][place[1]]
    return block.get("defer_loading") is not True and (block.get("type") != "text" or bool(as_text(block.get("text"))))


def _places(tools: list[JsonObject], system: list[JsonObject], messages: list[JsonObject]) -> Iterator[Place]:
    """Every place that may carry a mark, in the order in which the cache reads them."""
    yield from ((tools, index) for index in range(len(tools)))
    yield from ((system, index) for index in range(len(system)))
    for blocks, index in _message_places(messages):
        inner = blocks[index].get("content") if blocks[index].get("type") == "tool_result" else None
        if isinstance(inner, list):
            yield from ((inner, place) for place, block in enumerate(inner) if isinstance(block, dict))
        yield blocks, index


def _message_places(messages: list[JsonObject], role: str = "") -> Iterator[Place]:
    for message in messages:
        if not role or message["role"] == role:
            yield from ((message["content"], index) for index in range(len(message["content"])))


# --------------------------------------------------------------------------------------------------------------------
# The conversation and the tools in the body of a request.

_MOST_STRICT = 20

# ---- messages --------------------------------------------------------------------------------------------------------


def may_return(part: Thinking, quirks: Quirks) -> bool:
    """Whether thinking can be sent back: it must be signed, or hidden, unless the endpoint does not care."""
    extra = own(part.extra)
    hidden = extra.get("data") if not part.text else None
    return bool(extra.get("signature") or hidden or (extra and quirks.unsigned_thinking))


def write_messages(messages: Iterable[Message], losses: list[Loss]) -> list[JsonObject]:
    """The messages with their content as blocks. Results and the user's words behind them stand in one message."""
    written: list[JsonObject] = []
    for message in messages:
        role = message.role if message.role in ("assistant", "system") else "user"
        parts = message.parts if role != "assistant" else [_without_media(part, losses) for part in message.parts]
        blocks = [block for part in parts if (block := write_block(part, losses)) is not None]
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        elif blocks:
            written.append({"role": role, "content": blocks})
    _strip_end(written, losses)
    return written


def _without_media(part: Part, losses: list[Loss]) -> Part:
    if isinstance(part, Text) or not isinstance(part, Image | File):
        return part
    kind = "image" if isinstance(part, Image) else "file"
    losses.append(Loss("dropped", "history", f"the assistant cannot show a {kind} on this wire"))
    return Text(f"[{kind}: it could not be sent]")


def _strip_end(messages: list[JsonObject], losses: list[Loss]) -> None:
    if not messages or messages[-1]["role"] != "assistant":
        return
    blocks = messages[-1]["content"]
    text = as_text(blocks[-1].get("text"))
    if blocks[-1].get("type") == "text" and text != text.rstrip():
        losses.append(Loss("stripped", "history", "white space at the end of the last assistant text"))
        blocks[-1] = {**blocks[-1], "text": text.rstrip()}


def write_system(system: Iterable[Text]) -> list[JsonObject]:
    return [block for part in system if (block := write_text(part)) is not None]


def shorten(blocks: list[JsonObject]) -> str | list[JsonObject]:
    """A content that is nothing but one text is written as that text."""
    if len(blocks) == 1 and len(blocks[0]) == 2 and blocks[0].get("type") == "text":
        return as_text(blocks[0].get("text"))
    return blocks


# ---- tools -----------------------------------------------------------------------------------------------------------


def write_definitions(offered: Offer, quirks: Quirks, losses: list[Loss]) -> list[JsonObject]:
    definitions: list[JsonObject] = []
    for entry in offered.tools:
        definition: JsonObject = {
            "name": entry.name,
            "description": entry.tool.description,
            "input_schema": entry.schema,
        }
        if entry.tool.metadata:
            definition.update(own_of(entry.tool.metadata))
        if quirks.strict_tools and len(definitions) < _MOST_STRICT:
            definition["strict"] = True
        elif quirks.strict_tools:
            losses.append(Loss("dropped", f"tool {entry.tool.name}", f"strict: only {_MOST_STRICT} tools may be"))
        definitions.append(definition)
    return definitions


class ToolWriter:
    """The tools of one request and whether the model may, must or must not call them."""

    def __init__(self, request: Request, offered: Offer, quirks: Quirks, losses: list[Loss]) -> None:
        self._request = request
        self._offered = offered
        self._quirks = quirks
        self._losses = losses
        definitions = write_definitions(offered, quirks, losses)
        named = {entry.tool.name: each for entry, each in zip(offered.tools, definitions, strict=True)}
        self.tools: list[JsonObject] = place_tools(named, as_list(own(request.options).get("tools")))
        self.choice: JsonObject = {}

    def write(self, messages: list[JsonObject]) -> None:
        """Decide what is sent along with these messages."""
        choice = read_choice(self._request.options)
        if not self.tools:
            report_choice(self._request.options, self._losses)
            used = _names_used(messages)
            if used:
                self._stand_in(used)
            return
        if choice is not None:
            self._choose(choice, messages)
        if self.tools and self._request.options.get("parallel_tool_calls") is False:
            self._forbid_parallel()

    @property
    def is_forced(self) -> bool:
        return self.choice.get("type") in ("any", "tool")

    def _stand_in(self, names: list[str]) -> None:
        """A history with calls is refused without tools: those that it names are declared, and forbidden."""
        words = "A tool of earlier messages; it cannot be called any more."
        self.tools = [{"name": name, "description": words, "input_schema": {"type": "object"}} for name in names]
        self._losses.append(Loss("inserted", "tools", "placeholder definitions of the tools that the history calls"))
        if "none" in self._quirks.tool_choice:
            self.choice = {"type": "none"}

    def _choose(self, choice: Choice, messages: list[JsonObject]) -> None:
        def name_of(ours: str) -> str | None:
            # A tool of the provider goes by its own name.
            name = self._offered.name_of(ours) or ours
            return name if any(tool.get("name") == name for tool in self.tools) else None

        # A history with calls needs its tools.
        omits = choice.mode == "none" and not _names_used(messages)
        chosen = settle_choice(choice, name_of, self._quirks, self._losses, omits_tools=omits)
        if chosen.only is not None:
            self.tools = [tool for tool in self.tools if as_text(tool.get("name")) in chosen.only]
        if chosen.mode == "named":
            self.choice = {"type": "tool", "name": chosen.names[0]}
        elif chosen.mode:
            self.choice = {"type": "any" if chosen.mode == "required" else chosen.mode}

    def _forbid_parallel(self) -> None:
        if not self._quirks.parallel_flag:
            self._losses.append(Loss("dropped", "options", "this endpoint has no switch against parallel calls"))
        elif self.choice.get("type") != "none":
            self.choice = {"type": "auto", **self.choice, "disable_parallel_tool_use": True}


def _names_used(messages: list[JsonObject]) -> list[str]:
    blocks: Iterable[JsonObject] = (block for message in messages for block in message["content"])
    return list(dict.fromkeys(as_text(block.get("name")) for block in blocks if block.get("type") == "tool_use"))


# --------------------------------------------------------------------------------------------------------------------
# The reader of replies, whole or streamed.

_MESSAGE_FIELDS = ("id", "type", "role", "model", "content", "stop_reason", "usage")
# Blocks whose deltas have a meaning for us; any other block is kept as it comes.
_READ = ("tool_use", "text", "thinking")


class _Block(Struct, eq=False):
    """A block that began and has not ended."""

    fields: JsonObject
    kind: str
    index: Any
    key: Any
    said: bool = False
    signature: str = ""
    citations: list[Any] = []
    pieces: list[str] = []


class MessageReader(SseReader):
    """Reads the frames of one reply. Blocks are known by their index, and an index may come twice or not at all."""

    _read_failure = staticmethod(read_failure)
    answers = ("content", "stop_reason", "role")

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        super().__init__(wire, sent, quirks)
        self._blocks: dict[int, _Block] = {}
        self._latest: _Block | None = None
        self._opened = 0
        self._usage: JsonObject = {}
        self._own: JsonObject = {}
        self._stop = ""

    # ---- frames -----------------------------------------------------------------------------------------------------

    def _is_reply(self, body: Any) -> bool:
        # A turn may be over without a word.
        return isinstance(body.get("content"), list) or super()._is_reply(body)

    def _read_frame(self, content: Any, event: str | None) -> None:
        frame = as_dict(content)
        kind = as_text(frame.get("type")) or ("error" if "error" in frame else event or "")
        if kind == "content_block_delta":
            self._extend(self._find(frame.get("index")), as_dict(frame.get("delta")))
        elif kind == "content_block_start":
            self._open(as_dict(frame.get("content_block")), frame.get("index"))
        elif kind == "content_block_stop":
            block = self._find(frame.get("index"))
            if block is not None:
                self._finish(block)
        elif kind == "message_start":
            message = as_dict(frame.get("message"))
            self._builder.start(message.get("model"), message.get("id"))
            if not self._opened:
                # A call out of a program comes complete in the first frame.
                self._read_content(as_list(message.get("content")))
            self._take_end(message, message.get("usage"))
        elif kind == "message_delta":
            delta = as_dict(frame.get("delta"))
            self._take_end({**without(frame, "type", "delta"), **delta}, frame.get("usage") or delta.get("usage"))
        elif kind == "message_stop":
            self._read_done()
        elif kind == "error":
            self._fail(frame)
        elif kind == "message" and not self._opened:
            # A whole reply where a stream was asked for.
            self._read_body(frame)
            self._read_done()

    # ---- whole ------------------------------------------------------------------------------------------------------

    def _read_body(self, body: JsonObject) -> None:
        content = body.get("content")
        if body.get("type") == "error" or "error" in body:
            self._fail(body)
            return
        if not isinstance(content, list | str):
            self._builder.fail(Failure("server_error", "the answer holds no message", body=body))
            return
        self._builder.start(body.get("model"), body.get("id"))
        self._read_content([content] if isinstance(content, str) else content)
        self._take_end(body, body.get("usage"))

    def _read_content(self, content: list[Any]) -> None:
        for entry in content:
            if isinstance(entry, str):
                entry = {"type": "text", "text": entry}
            if isinstance(entry, dict):
                self._open(entry, None, is_whole=True)
                if self._latest is not None:
                    self._finish(self._latest)

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _find(self, index: Any) -> _Block | None:
        """The open block of an index; without a usable one, the block that began last."""
        return self._blocks.get(index, self._latest) if isinstance(index, int) else self._latest

    def _open(self, fields: JsonObject, index: Any, *, is_whole: bool = False) -> None:
        opened = self._blocks.get(index) if isinstance(index, int) else None
        if opened is not None and opened.kind == "tool_use" and fields.get("id") and opened.fields == fields:
            return  # the same beginning twice is one call
        if self._latest is not None and self._latest.kind != "tool_use":
            # Only one block is open at a time, whether or not the server said that this one ended.
            self._finish(self._latest)
        self._opened += 1
        block = _Block(dict(fields), as_text(fields.get("type")), index, ("block", self._opened))
        self._latest = block
        if isinstance(index, int):
            self._blocks[index] = block
        if block.kind == "tool_use":
            self._open_call(block, is_whole=is_whole)
        elif block.kind in ("text", "thinking"):
            self._extend(block, {name: fields[name] for name in ("text", "thinking", "signature") if name in fields})
            block.citations += as_list(fields.get("citations"))

    def _open_call(self, block: _Block, *, is_whole: bool) -> None:
        fields = block.fields
        extra = without(fields, "type", "id", "name", "input")
        self._builder.open_call(block.key, fields.get("id"), fields.get("name"), extra)
        if is_whole:
            self._builder.call_delta(block.key, arguments=fields.get("input"))
        else:
            # The vendor begins with an empty object and sends the rest in pieces; others send it all at once here.
            self._builder.set_arguments(block.key, fields.get("input"))

    def _extend(self, block: _Block | None, delta: JsonObject) -> None:
        for name, value in delta.items():
            if name == "type":
                continue
            if name == "text":
                self._builder.text(value)
            elif name == "thinking":
                self._builder.thinking(value)
                if block is not None:
                    block.said = block.said or bool(value)
            elif name == "partial_json":
                self._add_json(block, value)
            elif block is not None and isinstance(value, str) and name == "signature":
                block.signature += value
            elif block is not None and name == "citation":
                block.citations.append(value)
            elif block is not None and block.kind not in _READ:
                block.fields[name] = value

    def _add_json(self, block: _Block | None, piece: Any) -> None:
        if block is not None and block.kind not in _READ:
            block.pieces.append(as_text(piece))
        elif block is not None and block.kind == "tool_use":
            self._builder.call_delta(block.key, arguments=as_text(piece))
        elif piece:
            # Arguments of a call that never began: the builder reports it as broken.
            self._builder.call_delta(None, arguments=as_text(piece))

    def _finish(self, block: _Block) -> None:
        builder = self._builder
        if block.kind == "tool_use":
            builder.close_call(block.key)
        elif block.kind == "text":
            builder.end_part("text", {"citations": block.citations} if block.citations else None)
        elif block.kind == "thinking":
            builder.end_part("thinking", {"signature": block.signature} if block.said or block.signature else None)
        elif block.kind == "redacted_thinking":
            data = as_text(block.fields.get("data"))
            builder.end_part("thinking", {"data": data} if data else None)
        elif block.kind:
            builder.end_part("text", {"block": _with_input(block)})
        if isinstance(block.index, int) and self._blocks.get(block.index) is block:
            del self._blocks[block.index]
        if self._latest is block:
            self._latest = None

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _take_end(self, fields: JsonObject, usage: Any) -> None:
        add_usage(self._usage, usage)
        self._own.update(without(fields, *_MESSAGE_FIELDS))
        reason = fields.get("stop_reason")
        if isinstance(reason, str) and reason:
            self._stop = reason
            if not self._quirks.final_frame:
                self._builder.terminate()

    def _read_done(self) -> None:
        """The last frame came: a block that the server forgot to end is complete all the same."""
        if self._latest is not None and self._latest.kind != "tool_use":
            self._finish(self._latest)
        super()._read_done()

    def _settle(self) -> None:
        if self._usage:
            self._builder.usage(read_usage(self._usage))
        counts = read_own_usage(self._usage)
        extra = {**self._own, **({"usage": counts} if counts else {})}
        if self._stop:
            extra = {"reason": self._stop, **extra}
        if extra:
            self._builder.stop(STOPS.get(self._stop, "unknown"), extra)


def _with_input(block: _Block) -> JsonObject:
    """A block that is kept as it is, with the input that came in pieces."""
    given = parse("".join(block.pieces)) if block.pieces else BROKEN
    return {**block.fields, "input": given} if isinstance(given, dict) else block.fields
