"""The client side of Responses: writes requests and reads replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from msgspec import Struct, field

from dragoman.events import Event, RefusalDelta, TextDelta
from dragoman.types import (
    Failure,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.wire.codec import Prepared
from dragoman.wire.failures import Loss
from dragoman.wire.openai_responses.parts import (
    CUSTOM,
    FUNCTION,
    WIRE,
    arguments_of,
    is_servers,
    keep_call,
    keep_reasoning,
    own_of,
    read_failure,
    read_stop,
    read_usage,
    reasoning_texts,
    write_call,
    write_content,
    write_reasoning,
    write_result,
)
from dragoman.wire.openai_responses.server import read_answer_part, read_image
from dragoman.wire.quirks import Quirks
from dragoman.wire.reader import SseReader
from dragoman.wire.values import as_dict, as_list, as_text, dicts, write

# --------------------------------------------------------------------------------------------------------------------
# The output item of a frame: by id, by index, or by order, because servers get each of these wrong.


class OutputItem(Struct, eq=False):
    """One item of the output, and what has come of it."""

    key: tuple[str, int]
    kind: str
    fields: JsonObject
    id: str
    call_id: str
    done: bool = False
    opened: bool = False
    """Whether the builder knows of this call."""
    heard: set[tuple[str, int]] = field(default_factory=set)
    """The parts of which text came."""
    ended: set[tuple[str, int]] = field(default_factory=set)
    parts: dict[tuple[str, int], JsonObject] = field(default_factory=dict)
    refusals: set[tuple[str, int]] = field(default_factory=set)
    pieces: list[str] = field(default_factory=list)
    """Arguments that came before the name, and the input of a custom call."""
    whole: Any = None
    said: JsonObject | None = None
    """What the end of the item said."""
    is_shared: bool = False
    """Whether an item before it had the same id."""

    @property
    def known(self) -> JsonObject:
        """What the beginning of a message said of it."""
        return {name: self.fields[name] for name in ("id", "phase") if self.fields.get(name) is not None}

    def refusal_at(self, place: tuple[str, int]) -> JsonObject:
        return {"type": "refusal" if place in self.refusals else "output_text"}


class Items:
    """All items of one response."""

    def __init__(self) -> None:
        self.all: list[OutputItem] = []
        self._by_id: dict[str, OutputItem] = {}
        self._by_index: dict[int, OutputItem] = {}

    def find(self, frame: JsonObject, kind: str) -> OutputItem:
        """The item that a piece belongs to; a new one if none of its kind is there."""
        identity = frame.get("item_id")
        item = self._by_id.get(identity) if isinstance(identity, str) else None
        if item is None or item.kind != kind:
            item = self._at(frame)
        if item is None and "output_index" not in frame and self.all:
            item = self.all[-1]
        if item is None or item.kind != kind:
            item = self.add(frame, {"type": kind, **({"id": identity} if isinstance(identity, str) else {})})
        return item

    def add(self, frame: JsonObject, fields: JsonObject) -> OutputItem:
        kind, id, call_id = (as_text(fields.get(name)) for name in ("type", "id", "call_id"))
        item = OutputItem(("item", len(self.all)), kind, fields, id, call_id)
        self.all.append(item)
        if item.id:
            item.is_shared = item.id in self._by_id
            self._by_id[item.id] = item
        index = frame.get("output_index")
        if type(index) is int:
            self._by_index[index] = item
        return item

    def close(self, frame: JsonObject, fields: JsonObject) -> OutputItem:
        """The item whose end this is. Some servers give it a new id, others number all items the same."""
        found = self._same(fields)
        if found is not None and (not found.done or found.said == fields):
            return found
        item = self._at(frame)
        if item is None and "output_index" not in frame and self.all:
            item = self.all[-1]
        if item is None or item.done or not _may_be(item, fields):
            return self.add(frame, fields)
        item.call_id = item.call_id or as_text(fields.get("call_id"))
        return item

    def match(self, output: list[JsonObject]) -> list[tuple[OutputItem, JsonObject]]:
        """The final output beside what came of it: by id where possible, else in order; the rest had never come."""
        claimed: set[int] = set()
        found = [self._claim(fields, claimed) for fields in output]
        free: dict[str, list[OutputItem]] = {}
        for item in reversed(self.all):
            if id(item) not in claimed:
                free.setdefault(item.kind, []).append(item)
        pairs: list[tuple[OutputItem, JsonObject]] = []
        for fields, same in zip(output, found, strict=True):
            waiting = free.get(as_text(fields.get("type"))) if same is None else None
            if waiting and (_may_be(waiting[-1], fields) or _is_renamed(waiting[-1], fields)):
                item = waiting.pop()
            else:
                item = same or self.add({}, fields)
            item.call_id = item.call_id or as_text(fields.get("call_id"))
            pairs.append((item, fields))
        return pairs

    def _claim(self, fields: JsonObject, claimed: set[int]) -> OutputItem | None:
        """The item of this id. One that was claimed before is another one: some servers give two the same id."""
        item = self._same(fields)
        if item is not None and (id(item) in claimed or item.is_shared):
            shared = (other for other in self.all if other.id == item.id and _may_be(other, fields))
            item = next((other for other in shared if id(other) not in claimed), None)
        if item is not None:
            claimed.add(id(item))
        return item

    def _same(self, fields: JsonObject) -> OutputItem | None:
        item = self._by_id.get(as_text(fields.get("id")))
        return item if item is not None and _may_be(item, fields) else None

    def _at(self, frame: JsonObject) -> OutputItem | None:
        index = frame.get("output_index")
        return self._by_index.get(index) if type(index) is int else None


def _may_be(item: OutputItem, fields: JsonObject) -> bool:
    call_id = as_text(fields.get("call_id"))
    return item.kind == fields.get("type") and (not call_id or not item.call_id or call_id == item.call_id)


def _is_renamed(item: OutputItem, fields: JsonObject) -> bool:
    """Whether the final output tells a call that came complete once more, under another id."""
    said = item.said or {}
    return item.kind == FUNCTION and all(said.get(name) == fields.get(name) for name in ("type", "name", "arguments"))


# --------------------------------------------------------------------------------------------------------------------
# A conversation written as the input of a response: one flat list of items, and perhaps instructions.

_ITEM_IDS = {"message": "msg_", "function_call": "fc_", CUSTOM: "ctc_"}
_LONGEST_ID = 64
_CALLS = (ToolCall, InvalidCall)


class InputWriter:
    """Writes the messages of one request. `stored`: the provider stores items and finds them by id."""

    def __init__(self, quirks: Quirks, losses: list[Loss], *, stored: bool) -> None:
        self._quirks = quirks
        self._losses = losses
        self._bare_reasoning = stored or quirks.replay_reasoning != "never"
        self._items: list[JsonObject] = []
        self._calls: dict[str, JsonObject] = {}
        self._ids: set[str] = set()
        self._message: JsonObject = {}  # the last one that may grow
        self._group: Any = None  # its number, if it has no id

    def write(self, messages: Sequence[Message]) -> tuple[str | None, list[JsonObject]]:
        """The instructions, if the first message is fit to be them, and the items."""
        instructions = _find_instructions(messages)
        for message in messages[1 if instructions is not None else 0 :]:
            if message.role == "assistant":
                for part in message.parts:
                    self._add_part(part)
            elif message.role == "tool":
                for part in message.parts:
                    if isinstance(part, ToolResult):
                        self._items.append(write_result(part, self._calls.get(part.call_id, {}), self._losses))
            else:
                self._add_prompt(message)
        return instructions, _drop_loose_reasoning(self._items, self._losses)

    def _add_prompt(self, message: Message) -> None:
        role: str = message.role
        if role == "system":
            given = own_of(message).get("role")
            role = "developer" if given == "developer" or self._quirks.developer_role else "system"
        rest = {name: value for name, value in own_of(message).items() if name != "role"} if message.extra else {}
        content = write_content(message.parts, self._losses)
        self._items.append({"type": "message", "role": role, "content": content, **rest})

    def _add_part(self, part: Part) -> None:
        own = own_of(part)
        if isinstance(own.get("item"), dict):
            self._items.append(own["item"])
        elif isinstance(part, Text):
            self._add_text(part, own)
        elif isinstance(part, _CALLS):
            self._calls[part.id] = own
            kind = CUSTOM if own.get("type") == CUSTOM else "function_call"
            self._items.append(write_call(part, self._with_fit_id(own, kind)))
        elif isinstance(part, Thinking):
            self._add_reasoning(own)
        elif isinstance(part, Image | File):
            kind = "image" if isinstance(part, Image) else "file"
            self._losses.append(Loss("dropped", kind, f"the {kind} that the model made cannot be sent back"))
            self._items.append({"type": "message", "role": "assistant", "content": f"[{kind}]"})

    def _add_text(self, part: Text, own: JsonObject) -> None:
        if not own:
            self._items.append({"type": "message", "role": "assistant", "content": part.text})
            return
        content: JsonObject = {"type": "output_text", "text": part.text, "annotations": own.get("annotations", [])}
        if own.get("refusal") is True:
            content = {"type": "refusal", "refusal": part.text}
        elif own.get("logprobs"):
            content["logprobs"] = own["logprobs"]
        phase = {**({"phase": own["phase"]} if "phase" in own else {}), **as_dict(own.get("beside"))}
        last = self._message if self._items and self._items[-1] is self._message else {}
        if ("id" in own and last.get("id") == own["id"]) or (last and "group" in own and self._group == own["group"]):
            last["content"].append(content)
            if "id" in own or "status" in own:
                last["status"] = own.get("status", "completed")
            return
        own = self._with_fit_id(own, "message")
        self._group = own.get("group")
        status = {"status": own["status"]} if "status" in own else {}
        if "id" in own or "group" in own:
            head = (
                {"id": own["id"], "role": "assistant", "status": "completed"} if "id" in own else {"role": "assistant"}
            )
            self._message = {"type": "message", **head, **status, "content": [content], **phase}
            self._items.append(self._message)
        else:
            self._items.append({"type": "message", "role": "assistant", "content": part.text, **status, **phase})

    def _add_reasoning(self, own: JsonObject) -> None:
        if not self._bare_reasoning and not own.get("encrypted_content"):
            self._drop("reasoning without its encrypted content cannot be sent back where nothing is stored")
            return
        identity = as_text(own.get("id"))
        if identity and identity in self._ids:
            self._drop(f"the reasoning {identity} stands in the conversation twice")
            return
        self._ids.add(identity)
        self._items.append(write_reasoning(own))

    def _drop(self, words: str) -> None:
        self._losses.append(Loss("dropped", "reasoning", words))

    def _with_fit_id(self, own: JsonObject, kind: str) -> JsonObject:
        """Without the id of the item if the API would refuse it: an id means nothing to the model."""
        if "id" not in own:
            return own
        identity = as_text(own["id"])
        if identity.startswith(_ITEM_IDS[kind]) and len(identity) <= _LONGEST_ID and identity not in self._ids:
            self._ids.add(identity)
            return own
        self._losses.append(Loss("dropped", kind, f"the item id {identity[:80]!r} cannot be sent"))
        return {name: value for name, value in own.items() if name != "id"}


def _find_instructions(messages: Sequence[Message]) -> str | None:
    """The text of a leading system message that is one text and did not come as an item."""
    if len(messages) < 2 or messages[0].role != "system" or "role" in own_of(messages[0]):
        return None
    parts = messages[0].parts
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) and not own_of(parts[0]) else None


def _drop_loose_reasoning(items: list[JsonObject], losses: list[Loss]) -> list[JsonObject]:
    """Reasoning goes with the item that it led to; without one the whole request would be refused."""
    kept: list[JsonObject] = []
    for item in reversed(items):
        if item.get("type") == "reasoning" and not (kept and _is_of_model(kept[-1])):
            losses.append(Loss("dropped", "reasoning", "reasoning without an item after it cannot be sent back"))
        else:
            kept.append(item)
    return kept[::-1]


def _is_of_model(item: JsonObject) -> bool:
    return item.get("role", "assistant") == "assistant" and not as_text(item.get("type")).endswith("_output")


def split_remembered(messages: Iterable[Message]) -> tuple[list[Message], list[ToolResult]]:
    """Apart from the messages: results of calls that only the provider remembers (`previous_response_id`)."""
    given = list(messages)
    made = {part.id for message in given for part in message.parts if isinstance(part, ToolCall | InvalidCall)}
    apart: list[ToolResult] = []
    rest: list[Message] = []
    for message in given:
        lost = [part for part in message.parts if isinstance(part, ToolResult) and part.call_id not in made]
        apart += lost
        if not lost:
            rest.append(message)
        elif len(lost) < len(message.parts):
            parts = [part for part in message.parts if not isinstance(part, ToolResult) or part.call_id in made]
            rest.append(Message(message.role, parts, message.extra))
    return rest, apart


# --------------------------------------------------------------------------------------------------------------------
# Responses read: frames and whole bodies to events.
#
# A complete stream contains everything four times: in pieces, at the end of each part, at the end of each item, and in
# the final frame. Servers omit any of these, so the first occurrence counts, and repetitions are skipped. Encrypted
# reasoning is only complete at the end of its item.

_Place = tuple[str, int]


class ResponsesReader(SseReader):
    """Reads one response."""

    _read_failure = staticmethod(read_failure)
    answers = ("output", "status")

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        super().__init__(wire, sent, quirks)
        self._items = Items()
        self._speaking: tuple[OutputItem, _Place] | None = None  # the part of text or thinking that is open
        self._refused = False
        self._number: int | None = None  # of the last frame
        self._counts = False

    def _read_body(self, body: JsonObject) -> None:
        if not any(name in body for name in ("output", "status", "error")):
            self._fail({"message": "the body is not a response"})
        elif body.get("error") and "output" not in body:
            self._fail(body)
        else:
            status = body.get("status")
            self._end_response({"response": body}, status if isinstance(status, str) else "completed")

    def close(self, *, clean: bool = True) -> list[Event]:
        if not self._quirks.final_frame and self._items.all and all(item.done for item in self._items.all):
            self._builder.terminate()
        return super().close(clean=clean)

    def _read_frame(self, content: Any, event: str | None) -> None:
        frame = as_dict(content)
        if self._came_before(frame.get("sequence_number")):
            return
        kind = frame.get("type") or event or ("response.completed" if frame.get("object") == "response" else "")
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, frame)
        elif frame.get("error"):
            self._fail(frame)

    def _came_before(self, number: Any) -> bool:
        """Whether the frame is the last one once more; servers that give all frames the same number do not count."""
        if type(number) is not int:
            return False
        last, self._number = self._number, number
        self._counts = self._counts or (last is not None and number > last)
        return self._counts and number == last

    def _start(self, frame: JsonObject) -> None:
        response = as_dict(frame.get("response"))
        self._builder.start(response.get("model"), response.get("id"))

    # ---- text and thinking ------------------------------------------------------------------------------------------

    def _hear(self, frame: JsonObject, kind: str, part: str, whole: str = "") -> None:
        """Take a piece of text or thinking, or the complete text again (under the key `whole`)."""
        index = frame.get("summary_index" if part == "summary" else "content_index")
        place = ("text" if kind == "message" else part, index if type(index) is int else 0)
        item = self._items.find(frame, kind)
        if part == "refusal":
            item.refusals.add(place)
            self._refused = True
        self._say(item, place, frame.get(whole or "delta"), whole=bool(whole))

    def _say(self, item: OutputItem, place: _Place, text: Any, *, whole: bool) -> None:
        if not isinstance(text, str) or not text or (whole and place in item.heard):
            return
        if self._speaking is None or self._speaking[0] is not item or self._speaking[1] != place:
            self._turn_to(item, place)
        item.heard.add(place)
        if item.kind == "reasoning":
            self._builder.thinking(text)
        else:
            self._builder.text(text, RefusalDelta if place in item.refusals else TextDelta)

    def _turn_to(self, item: OutputItem, place: _Place) -> None:
        if item.kind == "reasoning" and self._speaking is not None and self._speaking[0] is item:
            # The parts of one summary are paragraphs of one thought.
            self._builder.thinking("\n\n")
        else:
            self._leave()
        self._speaking = (item, place)

    def _leave(self) -> None:
        """End the open part, because another one begins without an end of this one."""
        if self._speaking is not None:
            item, place = self._speaking
            self._speaking = None
            item.ended.add(place)
            if item.kind == "reasoning":
                self._builder.end_part("thinking")
            else:
                text = read_answer_part(item.parts.get(place) or item.refusal_at(place), item.known)
                self._builder.end_part("text", text.extra.get(WIRE) if text else None)

    def _end_part(self, frame: JsonObject) -> None:
        part = as_dict(frame.get("part"))
        kind = part.get("type")
        if kind == "reasoning_text":
            self._hear({**frame, "text": part.get("text")}, "reasoning", "content", "text")
        elif kind in ("output_text", "refusal"):
            name = "text" if kind == "output_text" else "refusal"
            self._hear({**frame, name: part.get(name)}, "message", name, name)
            index = frame.get("content_index")
            self._items.find(frame, "message").parts["text", index if type(index) is int else 0] = part

    def _end_summary(self, frame: JsonObject) -> None:
        self._hear({**frame, "text": as_dict(frame.get("part")).get("text")}, "reasoning", "summary", "text")

    # ---- calls ------------------------------------------------------------------------------------------------------

    def _open(self, frame: JsonObject) -> None:
        fields = as_dict(frame.get("item"))
        item = self._items.add(frame, fields)
        if item.kind in (FUNCTION, CUSTOM) and not is_servers(fields):
            self._begin_call(item, fields)

    def _begin_call(self, item: OutputItem, fields: JsonObject, *, nameless: bool = False) -> None:
        """Announce a call as soon as its name is known."""
        name = fields.get("name")
        if not item.opened and (nameless or (isinstance(name, str) and name)):
            self._leave()
            item.opened = True
            item.call_id = as_text(fields.get("call_id")) or item.call_id
            self._builder.open_call(item.key, item.call_id or item.id, name, keep_call(fields))
            if item.kind == FUNCTION and item.pieces:
                self._builder.call_delta(item.key, arguments="".join(item.pieces))

    def _append_arguments(self, frame: JsonObject, kind: str) -> None:
        item = self._items.find(frame, kind)
        delta = frame.get("delta")
        if item.opened and kind == FUNCTION:
            self._builder.call_delta(item.key, arguments=delta)
        elif isinstance(delta, str):
            item.pieces.append(delta)

    def _end_arguments(self, frame: JsonObject) -> None:
        item = self._items.find(frame, FUNCTION)
        item.call_id = item.call_id or as_text(frame.get("call_id"))
        self._begin_call(item, {**item.fields, "name": item.fields.get("name") or frame.get("name")})
        if item.opened:
            self._builder.set_arguments(item.key, frame.get("arguments"))
        else:
            item.whole = frame.get("arguments")

    def _end_input(self, frame: JsonObject) -> None:
        self._items.find(frame, CUSTOM).whole = frame.get("input")

    def _end_call(self, item: OutputItem, fields: JsonObject) -> None:
        """End a call: no more data of it follows."""
        self._begin_call(item, fields, nameless=True)
        if item.kind == CUSTOM:
            text = as_text(fields.get("input")) or as_text(item.whole) or "".join(item.pieces)
            self._builder.set_arguments(item.key, write({"input": text}))
        else:
            arguments = arguments_of(fields)
            self._builder.set_arguments(item.key, arguments if arguments not in (None, "") else item.whole)

    # ---- the end of an item -----------------------------------------------------------------------------------------

    def _close_item(self, frame: JsonObject) -> None:
        fields = as_dict(frame.get("item"))
        if fields:
            self._finish(self._items.close(frame, fields), fields)

    def _finish(self, item: OutputItem, fields: JsonObject) -> None:
        if item.done:
            return
        item.done, item.said = True, fields
        if item.kind == "message":
            self._finish_message(item, fields)
        elif item.kind == "reasoning":
            self._finish_reasoning(item, fields)
        elif item.kind in (FUNCTION, CUSTOM) and not is_servers(fields):
            self._end_call(item, fields)
            self._builder.close_call(item.key, keep_call(fields))
        elif item.kind == "image_generation_call" and as_text(fields.get("result")):
            self._leave()
            self._builder.part(read_image(fields))
        else:
            self._leave()
            self._builder.end_part("thinking", {"item": fields})

    def _finish_message(self, item: OutputItem, fields: JsonObject) -> None:
        content = fields.get("content")
        blocks = [content] if isinstance(content, str) else as_list(content)
        known = {name: fields[name] for name in ("id", "phase") if fields.get(name) is not None}
        places = _number_parts(item, len(blocks))
        for index, block in enumerate(blocks):
            place = ("text", places[index])
            text = read_answer_part(block, known)
            if text is None or place in item.ended:
                continue
            own = as_dict(text.extra.get(WIRE))
            if own.get("refusal") is True:
                item.refusals.add(place)
                self._refused = True
            self._say(item, place, text.text, whole=True)
            if self._speaking is None or self._speaking != (item, place):
                self._leave()
            self._speaking = None
            item.ended.add(place)
            if index == len(blocks) - 1 and "id" in known and fields.get("status") is not None:
                own = {**own, "status": fields["status"]}
            self._builder.end_part("text", own)

    def _finish_reasoning(self, item: OutputItem, fields: JsonObject) -> None:
        for place, text in reasoning_texts(fields):
            self._say(item, place, text, whole=True)
        if self._speaking is not None and self._speaking[0] is not item:
            self._leave()
        self._speaking = None
        self._builder.end_part("thinking", keep_reasoning(fields))

    # ---- the end of the response ------------------------------------------------------------------------------------

    def _end_response(self, frame: JsonObject, status: str) -> None:
        response = as_dict(frame.get("response")) or frame
        self._builder.start(response.get("model"), response.get("id"))
        for item, fields in self._items.match(list(dicts(response.get("output")))):
            self._finish(item, fields)
        usage = read_usage(response.get("usage"))
        if usage is not None:
            self._builder.usage(usage)
        said = response.get("status")
        if status == "completed" and isinstance(said, str):
            status = said
        if status == "failed":
            self._builder.fail(read_failure(None, response.get("error") or {"message": "the response failed"}))
        elif status == "cancelled":
            self._builder.fail(Failure("server_error", "the response was cancelled", code=status))
        reason, word = read_stop(response, status, refused=self._refused)
        if reason == "end" and self._builder.has_calls:
            # No word of this wire says so, not even of a call that cannot be read.
            reason = "tool_calls"
        self._builder.stop(reason, {"reason": word})
        self._read_done()

    def _settle(self) -> None:
        # An incomplete item is reported as far as it is known.
        for item in self._items.all:
            if not item.done and item.kind in (FUNCTION, CUSTOM) and not is_servers(item.fields):
                self._end_call(item, item.fields)
        self._leave()


def _number_parts(item: OutputItem, count: int) -> list[int]:
    """The numbers under which the parts of a message came. Some servers begin at 1: the first number is the first."""
    heard = sorted(number for _, number in item.heard | item.ended)
    begins = heard[0] if heard and heard[-1] >= count else 0
    return list(range(begins, begins + count))


_HANDLERS: dict[str, Callable[[ResponsesReader, JsonObject], None]] = {
    "response.created": ResponsesReader._start,
    "response.in_progress": ResponsesReader._start,
    "response.queued": ResponsesReader._start,
    "response.output_item.added": ResponsesReader._open,
    "response.output_item.done": ResponsesReader._close_item,
    "response.output_text.delta": lambda self, frame: self._hear(frame, "message", "text"),
    "response.output_text.done": lambda self, frame: self._hear(frame, "message", "text", "text"),
    "response.refusal.delta": lambda self, frame: self._hear(frame, "message", "refusal"),
    "response.refusal.done": lambda self, frame: self._hear(frame, "message", "refusal", "refusal"),
    "response.content_part.done": ResponsesReader._end_part,
    "response.reasoning_summary_text.delta": lambda self, frame: self._hear(frame, "reasoning", "summary"),
    "response.reasoning_summary_text.done": lambda self, frame: self._hear(frame, "reasoning", "summary", "text"),
    "response.reasoning_summary_part.done": ResponsesReader._end_summary,
    "response.reasoning_text.delta": lambda self, frame: self._hear(frame, "reasoning", "content"),
    "response.reasoning_text.done": lambda self, frame: self._hear(frame, "reasoning", "content", "text"),
    "response.function_call_arguments.delta": lambda self, frame: self._append_arguments(frame, FUNCTION),
    "response.function_call_arguments.done": ResponsesReader._end_arguments,
    "response.custom_tool_call_input.delta": lambda self, frame: self._append_arguments(frame, CUSTOM),
    "response.custom_tool_call_input.done": ResponsesReader._end_input,
    "response.completed": lambda self, frame: self._end_response(frame, "completed"),
    "response.done": lambda self, frame: self._end_response(frame, "completed"),
    "response.incomplete": lambda self, frame: self._end_response(frame, "incomplete"),
    "response.failed": lambda self, frame: self._end_response(frame, "failed"),
    "response.cancelled": lambda self, frame: self._end_response(frame, "cancelled"),
    "error": ResponsesReader._fail,
}
