"""A conversation and its tools as the body of a request wants them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.types import File, Image, InvalidCall, JsonObject, Message, Part, Request, Text, Thinking, ToolCall
from dragoman.wire.anthropic.blocks import write_block, write_text
from dragoman.wire.anthropic.words import WIRE, own
from dragoman.wire.offering import Offer
from dragoman.wire.options import Choice, read_choice
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.values import as_text, dicts

_MOST_STRICT = 20

# ---- messages --------------------------------------------------------------------------------------------------------


def clean(messages: Iterable[Message], quirks: Quirks, losses: list[Loss]) -> list[Message]:
    """The conversation without what this wire refuses: blank text, unsigned thinking, and thinking behind a call."""
    return [
        message if _is_clean(message) else _clean(message, f"message {place}", quirks, losses)
        for place, message in enumerate(messages)
    ]


def _is_clean(message: Message) -> bool:
    """Whether there is nothing to look at closer: no thinking and no blank text."""
    for part in message.parts:
        if part.text.isspace() if isinstance(part, Text) else isinstance(part, Thinking):
            return False
    return True


def _clean(message: Message, where: str, quirks: Quirks, losses: list[Loss]) -> Message:
    before: list[Part] = []
    behind: list[Part] = []  # the first call and all that follows it
    for part in message.parts:
        if isinstance(part, Text) and part.text.isspace() and "block" not in own(part.extra):
            losses.append(Loss("dropped", where, "blank text, which this wire refuses"))
            continue
        if isinstance(part, Thinking):
            part = _disown(part, quirks)
            if behind and WIRE in part.extra:
                losses.append(Loss("moved", where, "thinking behind a call was put before it"))
                before.append(part)
                continue
        (behind if behind or isinstance(part, ToolCall | InvalidCall) else before).append(part)
    parts = before + behind
    return message if parts == message.parts else replace(message, parts=parts)


def _disown(part: Thinking, quirks: Quirks) -> Thinking:
    """Thinking that nobody signed cannot go back: it counts as that of a stranger."""
    extra = own(part.extra)
    hidden = extra.get("data") if not part.text else None
    signed = extra.get("signature") or hidden or (extra and quirks.unsigned_thinking)
    return part if signed or WIRE not in part.extra else replace(part, extra={})


def write_messages(messages: Iterable[Message], losses: list[Loss]) -> list[JsonObject]:
    """The messages with their content as blocks. Results and the user's words behind them stand in one message."""
    written: list[JsonObject] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        parts = message.parts if role == "user" else [_without_media(part, losses) for part in message.parts]
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
            definition.update(own(entry.tool.metadata))
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
        self.tools = write_definitions(offered, quirks, losses) + list(dicts(own(request.options).get("tools")))
        self.choice: JsonObject = {}

    def write(self, messages: list[JsonObject]) -> None:
        """Decide what is sent along with these messages."""
        choice = read_choice(self._request.options)
        if not self.tools:
            if choice is not None and choice.mode == "required":
                self._losses.append(Loss("dropped", "options", "tool_choice: no tool is offered"))
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
        self._losses.append(Loss("inserted", "tools", "stand-ins for the tools that the history speaks of"))
        self._set("none")

    def _set(self, mode: str) -> bool:
        """Whether the endpoint honours this choice, which then is written."""
        if mode in self._quirks.tool_choice:
            self.choice = {"type": "any" if mode == "required" else mode}
            return True
        return False

    def _approximate(self, detail: str) -> None:
        self._losses.append(Loss("approximated", "options", f"tool_choice: {detail}"))

    def _choose(self, choice: Choice, messages: list[JsonObject]) -> None:
        if choice.names:
            self._choose_among(choice)
        elif choice.mode == "none" and not self._set("none"):
            if _names_used(messages):
                self._approximate("none is not honoured here, and the history needs its tools; it became auto")
            else:
                self.tools = []
                self._approximate("none is not honoured here; no tools are offered")
        elif choice.mode == "required" and not self._set("required"):
            self._approximate("required is not honoured here; it became auto")
        elif choice.mode == "auto":
            self._set("auto")

    def _choose_among(self, choice: Choice) -> None:
        known = {as_text(tool.get("name")) for tool in self.tools}
        names = [self._offered.name_of(name) or name for name in choice.names]
        names = [name for name in names if name in known]
        if not names:
            self._approximate("it names no tool that is offered; it became auto")
            self._set("auto")
            return
        if choice.kind == "named" and "named" in self._quirks.tool_choice:
            self.choice = {"type": "tool", "name": names[0]}
            return
        self.tools = [tool for tool in self.tools if as_text(tool.get("name")) in names]
        if self._set(choice.mode):
            self._approximate("only the tools that it allows are offered")
        else:
            self._approximate(f"only the tools that it allows are offered; {choice.mode} is not honoured here")

    def _forbid_parallel(self) -> None:
        if not self._quirks.parallel_flag:
            self._losses.append(Loss("dropped", "options", "this endpoint has no switch against parallel calls"))
        elif self.choice.get("type") != "none":
            self.choice = {"type": "auto", **self.choice, "disable_parallel_tool_use": True}


def _names_used(messages: list[JsonObject]) -> list[str]:
    blocks: Iterable[JsonObject] = (block for message in messages for block in message["content"])
    return list(dict.fromkeys(as_text(block.get("name")) for block in blocks if block.get("type") == "tool_use"))
