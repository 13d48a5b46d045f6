"""The server side of Responses: reads requests and writes replies."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from dragoman.events import (
    CallEnded,
    Event,
    PartEnded,
    PartReceived,
    RefusalDelta,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
    UsageReported,
)
from dragoman.types import Failure, Image, JsonObject, Message, Part, Reply, Role, Text, Thinking, Tool, ToolCall
from dragoman.wire.aliases import IdRule, shorten
from dragoman.wire.event_order import describe_broken
from dragoman.wire.openai_responses.parts import (
    CUSTOM,
    OUTPUTS,
    REASONING,
    WIRE,
    keep_beside,
    keep_reasoning,
    own_of,
    read_call,
    read_content,
    read_result,
    reasoning_texts,
    seal,
    write_call,
    write_error,
    write_reasoning,
    write_stop,
    write_usage,
)
from dragoman.wire.values import as_dict, as_text, dicts
from dragoman.wire.writer import NO_END, StreamWriter

# --------------------------------------------------------------------------------------------------------------------
# The input of a response, as a client sent it, read into messages.

_ANSWERS = frozenset(OUTPUTS.values())
_MESSAGE_FIELDS = ("id", "phase")
_PROMPT_FIELDS = frozenset({"type", "role", "content"})
_PLAIN_PART = frozenset({"type", "text"})
_SERVED_IDS = IdRule(r"[a-zA-Z0-9_-]+", 64)
"""Some clients lose the result of a call whose id has other characters."""


class InputReader:
    """Reads the items of one body. What is not known here is kept as it is, for its own wire."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._open: deque[str] = deque()  # ids of calls that have no result yet
        self._answered: set[str] = set()
        self._called: set[str] = set()  # the ids of calls that say who made them
        self._taken: set[str] = set()
        self._made = 0
        self._made_groups = 0
        self.added: list[JsonObject] = []
        """The items that add tools in the middle of a conversation."""

    def read(self, instructions: Any, given: Any) -> list[Message]:
        if isinstance(instructions, str) and instructions:
            self._messages.append(Message("system", [Text(instructions)]))
        elif isinstance(instructions, list):
            self._read_items(instructions)
        if isinstance(given, str):
            self._messages.append(Message("user", [Text(given)]))
        else:
            self._read_items([given] if isinstance(given, dict) else given)
        return self._messages

    def _read_items(self, given: Any) -> None:
        items = list(dicts(given))
        # Ids that are made here must not be those of calls that come later.
        self._taken |= {as_text(item.get("call_id")) for item in items}
        for item in items:
            self._read_item(item, alone=len(items) == 1)

    def _read_item(self, item: JsonObject, *, alone: bool) -> None:
        kind = as_text(item.get("type"), "message" if "type" not in item else "")
        if kind == "message" and "role" in item:
            self._read_message(item, alone=alone)
        elif kind in OUTPUTS:
            self._add("assistant", read_call(item, self._open_call(item)))
        elif kind in _ANSWERS:
            identity = self._close_call(item)
            result = read_result(item, identity, self._names.get(identity, as_text(item.get("name"))))
            if identity in self._called and item.get("caller") is None:
                # The client did not repeat who called.
                result = replace(result, extra={WIRE: {**own_of(result), "caller": None}})
            self._add("tool", result)
        elif kind == "reasoning":
            text = "\n\n".join(text for _, text in reasoning_texts(item))
            self._add("assistant", Thinking(text, {WIRE: {**keep_reasoning(item), **keep_beside(item, REASONING)}}))
        elif kind == "image_generation_call" and as_text(item.get("result")):
            self._add("assistant", read_image(item))
        else:
            if kind == "additional_tools":
                self.added.append(item)
            self._add("assistant", Thinking("", {WIRE: {"item": item}}))

    def _add(self, role: Role, part: Part) -> None:
        if self._messages and self._messages[-1].role == role:
            self._messages[-1].parts.append(part)
        else:
            self._messages.append(Message(role, [part]))

    # ---- messages -------------------------------------------------------------------------------------------------

    def _read_message(self, item: JsonObject, *, alone: bool) -> None:
        role = item.get("role")
        if role == "assistant":
            self._made_groups += 1
            for part in read_answer(item, self._made_groups):
                self._add("assistant", part)
            return
        parts: list[Part] = list(read_content(item.get("content")))
        own = {name: value for name, value in item.items() if name not in _PROMPT_FIELDS and value is not None}
        if role not in ("system", "developer"):
            self._messages.append(Message("user", parts, {WIRE: own} if own else {}))
            return
        # Only where the item would otherwise be written in another way is it told that it was one.
        foremost = not self._messages and len(parts) == 1 and not alone
        if role == "developer" or foremost or own:
            own["role"] = role
        self._messages.append(Message("system", parts, {WIRE: own} if own else {}))

    # ---- ids --------------------------------------------------------------------------------------------------------

    def _open_call(self, item: JsonObject) -> str:
        identity = as_text(item.get("call_id")) or as_text(item.get("id"))
        if not identity:
            self._made += 1
            while f"call_{self._made}" in self._taken:
                self._made += 1
            identity = f"call_{self._made}"
        self._taken.add(identity)
        self._names[identity] = as_text(item.get("name"))
        if item.get("caller") is not None:
            self._called.add(identity)
        self._open.append(identity)
        return identity

    def _close_call(self, item: JsonObject) -> str:
        identity = as_text(item.get("call_id"))
        if not identity:
            while self._open and self._open[0] in self._answered:
                self._open.popleft()
            identity = self._open.popleft() if self._open else ""
        self._answered.add(identity)
        return identity


def read_answer(item: JsonObject, group: int = 0) -> list[Text]:
    """The texts of an assistant's message; the last one also carries its status.

    `group` is the number of a message without an id, whose texts belong together.
    """
    content = item.get("content")
    own = {name: item[name] for name in _MESSAGE_FIELDS if item.get(name) is not None}
    own |= keep_beside(item, (*_MESSAGE_FIELDS, "role", "content", "status")) if group else {}
    if group and "id" not in own and _is_group(content):
        own["group"] = group
    blocks: list[Any] = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [text for block in blocks if (text := read_answer_part(block, own)) is not None]
    if texts and (own.keys() & {"id", "group"} or item.get("status") != "completed") and item.get("status") is not None:
        last = texts[-1]
        texts[-1] = Text(last.text, {WIRE: {**own_of(last), "status": item["status"]}})
    return texts


def _is_group(content: Any) -> bool:
    """Whether the content of a message is more than one plain text."""
    blocks = list(dicts(content))
    said = [{name for name, value in block.items() if value not in (None, [])} for block in blocks]
    return len(blocks) > 1 or any(not names <= _PLAIN_PART for names in said)


def read_answer_part(block: Any, own: JsonObject) -> Text | None:
    """One part of an answer, with what is known of its message."""
    marks = dict(own)
    if isinstance(block, dict) and block.get("type") == "refusal":
        text = as_text(block.get("refusal"))
        marks["refusal"] = True
    elif isinstance(block, dict):
        text = as_text(block.get("text"))
        marks |= {name: block[name] for name in ("annotations", "logprobs") if block.get(name)}
    elif isinstance(block, str):
        text = block
    else:
        return None
    return Text(text, {WIRE: marks} if marks else {})


def read_image(item: JsonObject) -> Image:
    """An image that the model made; its item goes back as it came."""
    format = as_text(item.get("output_format"), "png")
    return Image(None, as_text(item.get("result")), f"image/{format}", {WIRE: {"item": item}})


# --------------------------------------------------------------------------------------------------------------------
# Events written as a response: the official sequence of frames, and the whole body that they amount to.

_LONGEST_STEM = 40
_SPOKEN = ("message", "refusal")
"""The kinds of text that are messages."""
_unfit = re.compile(r"[^a-zA-Z0-9_-]").sub


def write_response(reply: Reply, *, created: int = 0, tools: Iterable[Tool] = ()) -> JsonObject:
    """The whole body of a reply."""
    writer = ResponseWriter(reply.model, reply.id, created, tools, whole=True)
    writer.write_reply(reply)
    return writer.response


class _Open:
    """An item of text or thinking that is being written."""

    __slots__ = ("id", "index", "kind", "pieces")

    def __init__(self, kind: str, id: str, index: int) -> None:
        self.kind = kind
        self.id = id
        self.index = index
        self.pieces: list[str] = []


class ResponseWriter(StreamWriter[JsonObject]):
    """A Stage from events to the bytes of a stream; `response` is what it amounts to.

    `tools` are those of the request: calls of a tool that came in a namespace are given back with it.
    """

    has_refusals = True

    def __init__(
        self, model: str = "", id: str = "", created: int = 0, tools: Iterable[Tool] = (), *, whole: bool = False
    ) -> None:
        super().__init__(_SERVED_IDS, model=model, id=id)
        self._whole = whole  # the frames are not sent: only `response` counts
        self._created = created
        listed = list(tools)
        self._namespaces = {tool.name: tool.metadata["namespace"] for tool in listed if "namespace" in tool.metadata}
        self._custom = {tool.name for tool in listed if tool.metadata.get("custom")}
        self._frames: list[JsonObject] = []
        self._number = 0
        self._output: list[JsonObject] = []
        self._open: _Open | None = None
        self._counts: JsonObject | None = None
        self._refused = False
        self._failure: Failure | None = None
        self.response: JsonObject = {}

    def _emit(self, kind: str, **fields: Any) -> None:
        if not self._whole:
            self._frames.append({"type": kind, "sequence_number": self._number, **fields})
            self._number += 1

    def _take(self) -> list[JsonObject]:
        frames, self._frames = self._frames, []
        return frames

    # ---- events -----------------------------------------------------------------------------------------------------

    def _write(self, event: Event) -> list[JsonObject]:
        if isinstance(event, UsageReported) and not self._closed:
            frames = self._begin()
            self._counts = write_usage(event.usage)
            return frames
        return super()._write(event)

    def _start(self) -> list[JsonObject]:
        self._id = self._id or "resp_0"
        begun = self._describe("in_progress", None, None)
        self._emit("response.created", response=begun)
        self._emit("response.in_progress", response=begun)
        return self._take()

    def _write_part(self, event: Event) -> list[JsonObject]:
        if isinstance(event, TextDelta):
            self._speak("refusal" if isinstance(event, RefusalDelta) else "message", event.text)
        elif isinstance(event, ThinkingDelta):
            self._speak("reasoning", event.text)
        elif isinstance(event, PartEnded):
            self._end_part(event)
        elif isinstance(event, CallEnded):
            self._write_call(event.call)
        elif isinstance(event, PartReceived):
            self._write_media(event)
        return self._take()

    def _fail(self, failure: Failure) -> list[JsonObject]:
        # Written with the end: an error is a field of the response.
        self._failure = failure
        return []

    def _cut_off(self) -> list[JsonObject]:
        return self._begin() + self._fail(self._failure or NO_END) + self._end(ReplyEnded("error"))

    def _describe(self, status: str, details: JsonObject | None, error: JsonObject | None) -> JsonObject:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "error": error,
            "incomplete_details": details,
            "instructions": None,
            "metadata": {},
            "model": self._model,
            "output": list(self._output),
            "parallel_tool_calls": True,
            "temperature": None,
            "tool_choice": "auto",
            "tools": [],
            "top_p": None,
            "usage": self._counts,
        }

    def _make_id(self, prefix: str) -> str:
        stem = _unfit("_", self._id.removeprefix("resp_"))
        if len(stem) > _LONGEST_STEM:
            stem = shorten(self._id, 20)
        return f"{prefix}_{stem}_{len(self._output)}"

    # ---- text and thinking ------------------------------------------------------------------------------------------

    def _speak(self, kind: str, text: str) -> None:
        if not text:
            return
        item = self._open
        if item is None or item.kind != kind:
            item = self._open_item(kind)
        item.pieces.append(text)
        place = {"item_id": item.id, "output_index": item.index}
        if kind == "refusal":
            self._emit("response.refusal.delta", **place, content_index=0, delta=text)
        elif kind == "message":
            self._emit("response.output_text.delta", **place, content_index=0, delta=text, logprobs=[])
        else:
            self._emit("response.reasoning_summary_text.delta", **place, summary_index=0, delta=text)

    def _open_item(self, kind: str) -> _Open:
        self._finish()
        message = kind in _SPOKEN
        item = self._open = _Open(kind, self._make_id("msg" if message else "rs"), len(self._output))
        if message:
            head = {"id": item.id, "type": "message", "status": "in_progress", "role": "assistant", "content": []}
            self._emit("response.output_item.added", output_index=item.index, item=head)
            part: JsonObject = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            if kind == "refusal":
                self._refused = True
                part = {"type": "refusal", "refusal": ""}
            self._emit(
                "response.content_part.added", item_id=item.id, output_index=item.index, content_index=0, part=part
            )
        else:
            head = {"id": item.id, "type": "reasoning", "summary": []}
            self._emit("response.output_item.added", output_index=item.index, item=head)
            part = {"type": "summary_text", "text": ""}
            place = {"item_id": item.id, "output_index": item.index, "summary_index": 0}
            self._emit("response.reasoning_summary_part.added", **place, part=part)
        return item

    def _end_part(self, event: PartEnded) -> None:
        own = as_dict(event.extra.get(WIRE))
        if event.kind == "text":
            if own and (self._open is None or self._open.kind not in _SPOKEN):
                self._open_item("refusal" if own.get("refusal") else "message")
            if self._open is not None and self._open.kind in _SPOKEN:
                self._finish(own)
        elif isinstance(own.get("item"), dict):
            self._finish()
            self._write_item(own["item"])
        elif self._open is not None and self._open.kind == "reasoning":
            self._finish(own)
        elif own:
            self._finish()
            # Nothing readable came before it, so that its own id is known in time.
            identity = as_text(own.get("id")) or self._make_id("rs")
            self._write_item(write_reasoning({**own, "id": identity}))

    def _finish(self, own: JsonObject | None = None, status: str = "completed") -> None:
        """End the open item. `own` is what this wire once said of it."""
        item, self._open = self._open, None
        if item is None:
            return
        text = "".join(item.pieces)
        if item.kind in _SPOKEN:
            written = self._finish_message(item, text, own or {}, status)
        else:
            written = self._finish_reasoning(item, text, own or {})
        self._output.append(written)
        self._emit("response.output_item.done", output_index=item.index, item=written)

    def _finish_message(self, item: _Open, text: str, own: JsonObject, status: str) -> JsonObject:
        place = {"item_id": item.id, "output_index": item.index, "content_index": 0}
        part: JsonObject
        if item.kind == "refusal":
            part = {"type": "refusal", "refusal": text}
            self._emit("response.refusal.done", **place, refusal=text)
        else:
            annotations, logprobs = own.get("annotations", []), own.get("logprobs", [])
            part = {"type": "output_text", "text": text, "annotations": annotations, "logprobs": logprobs}
            self._emit("response.output_text.done", **place, text=text, logprobs=[])
        self._emit("response.content_part.done", **place, part=part)
        head = {"id": item.id, "type": "message", "status": own.get("status", status), "role": "assistant"}
        phase = {"phase": own["phase"]} if "phase" in own else {}
        return {**head, "content": [part], **phase}

    def _finish_reasoning(self, item: _Open, text: str, own: JsonObject) -> JsonObject:
        part = {"type": "summary_text", "text": text}
        place = {"item_id": item.id, "output_index": item.index, "summary_index": 0}
        self._emit("response.reasoning_summary_text.done", **place, text=text)
        self._emit("response.reasoning_summary_part.done", **place, part=part)
        shown = {"id": item.id, "summary": [part]}
        if self._whole and own:
            # The data of another wire hold no text.
            return write_reasoning({**({"id": item.id} if own.keys() & {"summary", "content"} else shown), **own})
        return write_reasoning(seal(own, shown) if own else shown)

    # ---- calls and media --------------------------------------------------------------------------------------------

    def _write_call(self, call: ToolCall) -> None:
        if not call.complete:
            self._speak("message", describe_broken(call.name, "it was cut off"))
            return
        self._finish()
        given = own_of(call)
        own = {"status": "completed", **given}
        if call.name in self._custom:
            # The endpoint knows it as a function with one text.
            own["type"] = CUSTOM
        custom = own.get("type") == CUSTOM
        own.setdefault("id", self._make_id("ctc" if custom else "fc"))
        if call.name in self._namespaces:
            own.setdefault("namespace", self._namespaces[call.name])
        # An endpoint of this wire may remember the id of its call.
        renamed = replace(call, id=self._identifier.identify(call.id, reply=self._id, keep=bool(given)))
        item = write_call(renamed, own)
        index = len(self._output)
        place = {"item_id": item["id"], "output_index": index}
        field, kind = ("input", "custom_tool_call_input") if custom else ("arguments", "function_call_arguments")
        begun = {**item, field: ""} if custom else {**item, field: "", "status": "in_progress"}
        self._emit("response.output_item.added", output_index=index, item=begun)
        if item[field]:
            self._emit(f"response.{kind}.delta", **place, delta=item[field])
        named = {} if custom else {"name": call.name}
        self._emit(f"response.{kind}.done", **place, **named, **{field: item[field]})
        self._output.append(item)
        self._emit("response.output_item.done", output_index=index, item=item)

    def _write_media(self, event: PartReceived) -> None:
        part = event.part
        own = own_of(part)
        if isinstance(own.get("item"), dict):
            self._finish()
            self._write_item(own["item"])
        elif isinstance(part, Image) and part.data is not None:
            self._finish()
            made = {"type": "image_generation_call", "id": self._make_id("ig"), "status": "completed"}
            self._write_item({**made, "result": part.data, **_output_format(part)})
        else:
            kind = "image" if isinstance(part, Image) else f"file {part.name}"
            self._speak("message", f"[{kind}: {part.url}]" if part.url else f"[{kind}]")

    def _write_item(self, item: JsonObject) -> None:
        """An item that is passed on as it is."""
        index = len(self._output)
        begun = {"id": item.get("id"), "type": "reasoning", "summary": []} if item.get("type") == "reasoning" else item
        self._emit("response.output_item.added", output_index=index, item=begun)
        self._output.append(item)
        self._emit("response.output_item.done", output_index=index, item=item)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _end(self, event: ReplyEnded) -> list[JsonObject]:
        self._closed = True
        stop = "error" if self._failure is not None else event.stop
        if stop == "refusal" and self._refused:
            # It is a part of the answer. Only a filter makes a response incomplete.
            stop = "end"
        status, details = write_stop(stop, as_dict(event.extra.get(WIRE)))
        self._finish(status="completed" if status == "completed" else "incomplete")
        error = write_error(self._failure or Failure("server_error")) if status == "failed" else None
        self.response = self._describe(status, details, error)
        self._emit(f"response.{status}", response=self.response)
        return self._take()


def _output_format(image: Image) -> JsonObject:
    kind = (image.media_type or "image/png").removeprefix("image/")
    return {} if kind == "png" else {"output_format": kind}
