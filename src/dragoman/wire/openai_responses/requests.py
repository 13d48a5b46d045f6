"""A conversation written as the input of a response: one flat list of items, and perhaps instructions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dragoman.types import File, Image, InvalidCall, JsonObject, Message, Part, Text, Thinking, ToolCall, ToolResult
from dragoman.wire.openai_responses.content import write_content
from dragoman.wire.openai_responses.items import own_of, write_call, write_reasoning, write_result
from dragoman.wire.openai_responses.words import CUSTOM
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_text

_ITEM_IDS = {"message": "msg_", "function_call": "fc_", CUSTOM: "ctc_"}
_LONGEST_ID = 64
_CALLS = (ToolCall, InvalidCall)


class InputWriter:
    """Writes the messages of one request. `stored` says whether the provider keeps items and knows them by id."""

    def __init__(self, quirks: Quirks, losses: list[Loss], *, stored: bool) -> None:
        self._quirks = quirks
        self._losses = losses
        self._bare_reasoning = stored or quirks.replay_reasoning != "never"
        self._items: list[JsonObject] = []
        self._calls: dict[str, JsonObject] = {}
        self._ids: set[str] = set()
        self._message: JsonObject = {}  # the last one that may grow

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
        self._items.append({"type": "message", "role": role, "content": write_content(message.parts, self._losses)})

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
        phase = {"phase": own["phase"]} if "phase" in own else {}
        last = self._message if self._items and self._items[-1] is self._message else {}
        if "id" in own and last.get("id") == own["id"]:
            last["content"].append(content)
            last["status"] = own.get("status", "completed")
            return
        own = self._with_fit_id(own, "message")
        if "id" in own:
            status = own.get("status", "completed")
            head = {"type": "message", "id": own["id"], "role": "assistant", "status": status}
            self._message = {**head, "content": [content], **phase}
            self._items.append(self._message)
        else:
            self._items.append({"type": "message", "role": "assistant", "content": part.text, **phase})

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
            losses.append(Loss("dropped", "reasoning", "reasoning without an item behind it cannot be sent back"))
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
