"""The input of a response, as a client sent it, read into messages."""

from __future__ import annotations

from collections import deque
from typing import Any

from dragoman.types import Image, JsonObject, Message, Part, Role, Text, Thinking
from dragoman.wire.openai_responses.content import read_content
from dragoman.wire.openai_responses.items import keep_reasoning, read_call, read_result, reasoning_texts
from dragoman.wire.openai_responses.words import OUTPUTS, WIRE
from dragoman.wire.values import as_text, dicts

_ANSWERS = frozenset(OUTPUTS.values())
_MESSAGE_FIELDS = ("id", "phase")


class InputReader:
    """Reads the items of one body. What is not known here is kept as it is, for its own wire."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._open: deque[str] = deque()  # ids of calls that have no result yet
        self._answered: set[str] = set()
        self._taken: set[str] = set()
        self._made = 0
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
            self._add("tool", read_result(item, identity, self._names.get(identity, as_text(item.get("name")))))
        elif kind == "reasoning":
            text = "\n\n".join(text for _, text in reasoning_texts(item))
            self._add("assistant", Thinking(text, {WIRE: keep_reasoning(item)}))
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
            for part in read_answer(item):
                self._add("assistant", part)
            return
        parts: list[Part] = list(read_content(item.get("content")))
        if role not in ("system", "developer"):
            self._messages.append(Message("user", parts))
            return
        # Only where the item would otherwise be written in another way is it told that it was one.
        foremost = not self._messages and len(parts) == 1 and not alone
        extra = {WIRE: {"role": role}} if role == "developer" or foremost else {}
        self._messages.append(Message("system", parts, extra))

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


def read_answer(item: JsonObject) -> list[Text]:
    """The texts of an assistant's message; the last one also carries its status."""
    content = item.get("content")
    own = {name: item[name] for name in _MESSAGE_FIELDS if item.get(name) is not None}
    blocks: list[Any] = [content] if isinstance(content, str) else content if isinstance(content, list) else []
    texts = [text for block in blocks if (text := read_answer_part(block, own)) is not None]
    if texts and "id" in own and item.get("status") is not None:
        last = texts[-1]
        texts[-1] = Text(last.text, {WIRE: {**last.extra[WIRE], "status": item["status"]}})
    return texts


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
