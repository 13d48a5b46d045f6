"""The client side of Cohere chat: writes requests and reads replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dragoman.types import File, Image, JsonObject, Message, Part, Request, StopReason, Text, Thinking, ToolResult
from dragoman.wire.codec import Offer, Prepared
from dragoman.wire.cohere.parts import (
    PLAN,
    STOPS,
    THINKING,
    WIRE,
    find_billed,
    is_plan,
    read_answer,
    read_end,
    read_usage,
    write_answer,
    write_result_content,
)
from dragoman.wire.failures import Loss
from dragoman.wire.media import omit, settle, spell_out
from dragoman.wire.openai_chat.client import keep_named, place_functions, write_definitions
from dragoman.wire.openai_chat.parts import name_and_arguments, read_failure, write_call, write_content
from dragoman.wire.options import read_choice, report_choice, settle_choice
from dragoman.wire.quirks import Quirks
from dragoman.wire.reader import SseReader
from dragoman.wire.values import as_dict, as_list, as_text, dicts, find_calls, join_thinking

# --------------------------------------------------------------------------------------------------------------------
# A request as the body of Cohere's chat: its messages and its tools.

_NOTHING = {"type": "text", "text": ""}

# ---- messages ------------------------------------------------------------------------------------------------------


def write_messages(messages: list[Message], quirks: Quirks, losses: list[Loss]) -> list[JsonObject]:
    """A conversation that was arranged for this wire. Empty messages are refused, so they are left out."""
    entries = [entry for message in messages for entry in _write_message(message, quirks, losses)]
    filled = [entry for entry in entries if not _is_empty(entry)]
    if not filled:
        return entries
    if len(filled) < len(entries):
        losses.append(Loss("dropped", "history", "messages without any content were left out"))
    return filled


def _is_empty(entry: JsonObject) -> bool:
    if entry["role"] == "tool" or entry.get("tool_calls"):
        return False
    content = entry.get("content")
    return not content or (isinstance(content, list) and all(block == _NOTHING for block in content))


def _write_message(message: Message, quirks: Quirks, losses: list[Loss]) -> list[JsonObject]:
    if message.role == "tool":
        return [write_result(part, quirks) for part in message.parts if isinstance(part, ToolResult)]
    parts = message.parts
    if any([type(part) is not Text and isinstance(part, Image | File) for part in parts]):
        parts = [_without_media(part, message.role, losses) for part in parts]
    if message.role == "assistant":
        entry = _write_assistant(parts, quirks, losses)
    else:
        entry = {"role": message.role, "content": write_content(parts, WIRE) or ""}
    return [{**entry, **as_dict(message.extra.get(WIRE))} if message.extra else entry]


def _without_media(part: Part, role: str, losses: list[Loss]) -> Part:
    """Only users show images here, and no one files: what cannot be shown is at least named."""
    if not isinstance(part, Image | File) or "block" in as_dict(part.extra.get(WIRE)):
        return part
    part = settle(part)
    if isinstance(part, Image) and role == "user" and (part.data or part.url):
        return part
    why = "this wire takes no files" if isinstance(part, File) else f"this wire takes no images of the {role}"
    return spell_out(part, losses) or omit(part, why, losses)


def _write_assistant(parts: list[Part], quirks: Quirks, losses: list[Loss]) -> JsonObject:
    calls = [write_call(part, WIRE) for part in find_calls(parts)]
    body: JsonObject = {"role": "assistant"}
    plans = [part for part in parts if part.extra and is_plan(part)]
    plan = join_thinking(plans) if plans else ""
    if plan and calls:
        body[PLAN] = plan
    elif plan:
        losses.append(Loss("dropped", "history", "a plan that led to no calls was left out"))
    content = write_answer(parts)
    if content or (calls and quirks.empty_content == ""):
        body["content"] = content or ""
    if calls:
        body["tool_calls"] = calls
    return body


def write_result(result: ToolResult, quirks: Quirks) -> JsonObject:
    content = write_result_content(result, takes_images=quirks.result_images)
    own = as_dict(result.extra.get(WIRE)) if result.extra else {}
    return {"role": "tool", "tool_call_id": result.call_id, "content": content, **own}


# ---- tools ---------------------------------------------------------------------------------------------------------


def write_tools(request: Request, offered: Offer, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The fields of a body that speak of tools."""
    own = as_list(as_dict(request.options.get(WIRE)).get("tools"))
    definitions = place_functions(write_definitions(offered, False, WIRE), offered, own)
    if not definitions:
        report_choice(request.options, losses)
        return {}
    if request.options.get("parallel_tool_calls") is False:
        losses.append(Loss("dropped", "options", f"{WIRE} has no switch against parallel calls"))
    fields: JsonObject = {"tools": definitions}
    choice = read_choice(request.options)
    # A history with calls needs its tools.
    omits = (
        choice is not None and choice.mode == "none" and not any(find_calls(each.parts) for each in request.messages)
    )
    chosen = settle_choice(choice, offered.name_of, quirks, losses, names_tools=False, omits_tools=omits)
    if chosen.only == ():
        return {}
    if chosen.only is not None:
        fields["tools"] = keep_named(definitions, chosen.only)
    if chosen.mode not in ("", "auto"):
        fields["tool_choice"] = chosen.mode.upper()
    if quirks.strict_tools:
        # The switch is one for all tools.
        fields["strict_tools"] = True
    return fields


# --------------------------------------------------------------------------------------------------------------------
# Replies of Cohere's chat read: typed frames and whole bodies to events.


class CohereReader(SseReader):
    """Reads one reply, whole or frame by frame."""

    _read_failure = staticmethod(read_failure)
    answers = ("message", "finish_reason")

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        super().__init__(wire, sent, quirks)
        self._stop: StopReason = "unknown"
        self._field = ""  # what the open part comes from: text, thinking, or the plan
        self._ids: dict[Any, Any] = {}
        self._citations: list[JsonObject] = []

    # ---- frames -----------------------------------------------------------------------------------------------------

    def _read_frame(self, content: Any, event: str | None) -> None:
        frame = as_dict(content)
        named = as_text(frame.get("type"))
        kind = named or event or ""
        read = _FRAMES.get(kind)
        if read is not None:
            read(self, frame)
        elif kind == "error" or frame.get("error"):
            # That it is an error says nothing about its kind; the words do.
            self._fail({name: value for name, value in frame.items() if name != "type"})
        elif not named and (isinstance(frame.get("message"), str) or "finish_reason" in frame):
            # No frame at all: the body of an error, or a whole reply of a server that does not stream.
            self._read_body(frame)

    def _start(self, frame: JsonObject) -> None:
        self._builder.start(frame.get("model"), frame.get("id"))
        self._read_message(_message(frame))

    def _start_content(self, frame: JsonObject) -> None:
        self._end_part()
        self._read_content(frame)

    def _read_content(self, frame: JsonObject) -> None:
        content = _message(frame).get("content")
        if isinstance(content, dict):
            self._say(THINKING, content.get(THINKING))
            self._say("text", content.get("text"))
        elif isinstance(content, str):
            self._say("text", content)
        else:
            self._read_message({"content": content})

    def _read_plan(self, frame: JsonObject) -> None:
        self._say(PLAN, _message(frame).get(PLAN))

    def _end_content(self, _: JsonObject) -> None:
        self._end_part()

    def _start_call(self, frame: JsonObject) -> None:
        self._end_part()
        for place, entry in enumerate(_calls(frame)):
            key = _index(frame) if place == 0 else None
            identity = entry.get("id")
            name, arguments, _ = name_and_arguments(entry)
            if not identity or self._ids.get(key) != identity:
                # Each such frame begins a call, whatever index it has; only the same id means the same call.
                self._ids[key] = identity
                key = object() if key is None else key
                self._builder.open_call(key, identity, name)
            self._builder.call_delta(key, None, None, arguments)

    def _read_call(self, frame: JsonObject) -> None:
        for entry in _calls(frame):
            name, arguments, _ = name_and_arguments(entry)
            identity = entry.get("id")
            key = _index(frame) if name or identity else self._known(frame)
            self._builder.call_delta(key, identity, name, arguments)

    def _end_call(self, frame: JsonObject) -> None:
        self._builder.close_call(self._known(frame))

    def _known(self, frame: JsonObject) -> Any:
        """The index of a call that has begun; what names no such call speaks of the last one."""
        key = _index(frame)
        return key if self._builder.has_call(key) else None

    def _cite(self, frame: JsonObject) -> None:
        given = _message(frame).get("citations")
        self._citations += dicts([given] if isinstance(given, dict) else given)

    def _end_message(self, frame: JsonObject) -> None:
        delta = as_dict(frame.get("delta"))
        self._finish(delta.get("finish_reason"), delta.get("usage"), delta.get("error"))

    # ---- whole ------------------------------------------------------------------------------------------------------

    def _read_body(self, body: JsonObject) -> None:
        message = body.get("message")
        if body.get("error") or (isinstance(message, str) and message):
            self._fail(body)
            return
        if not self._is_reply(body):
            self._refuse(body)
            return
        self._builder.start(body.get("model"), body.get("id"))
        self._read_message(as_dict(message))
        self._finish(body.get("finish_reason"), body.get("usage"), None)

    def _read_message(self, message: JsonObject) -> None:
        """Everything that stands in one message."""
        for part in read_answer(message):
            if isinstance(part, Thinking):
                self._say(PLAN if is_plan(part) else THINKING, part.text)
            elif isinstance(part, Text):
                self._say("text", part.text)
            self._end_part()
        for entry in dicts(message.get("tool_calls")):
            name, arguments, _ = name_and_arguments(entry)
            self._builder.whole_call(entry.get("id"), name, arguments)
        self._citations += dicts(message.get("citations"))

    # ---- parts and ends ---------------------------------------------------------------------------------------------

    def _say(self, field: str, piece: Any) -> None:
        if not isinstance(piece, str) or not piece:
            return
        if field != self._field:
            self._end_part()
            self._field = field
        if field == "text":
            self._builder.text(piece)
        else:
            self._builder.thinking(piece)

    def _end_part(self) -> None:
        if self._field == "text":
            self._builder.end_part("text")
        elif self._field:
            self._builder.end_part("thinking", {"field": self._field})
        self._field = ""

    def _finish(self, given: Any, usage: Any, error: Any) -> None:
        """The server said that the reply is over, and how."""
        reason = as_text(given)
        counted = read_usage(usage)
        if counted is not None:
            self._builder.usage(counted)
        billed = find_billed(usage)
        stop = self._stop = STOPS.get(reason, "unknown")
        own = {"reason": reason} if reason else {}
        self._builder.stop(stop, {**own, **({"billed_units": billed} if billed else {})})
        if error or stop == "error":
            self._builder.fail(read_end(reason, error))
        self._read_done()

    def _settle(self) -> None:
        self._end_part()
        if self._citations:
            self._builder.stop(self._stop, {"citations": self._citations})


def _message(frame: JsonObject) -> JsonObject:
    return as_dict(as_dict(frame.get("delta")).get("message"))


def _calls(frame: JsonObject) -> list[JsonObject]:
    """The calls of a frame: an object on this wire, and a list on servers that know others better."""
    given = _message(frame).get("tool_calls")
    return [given] if isinstance(given, dict) else list(dicts(given))


def _index(frame: JsonObject) -> Any:
    index = frame.get("index")
    return index if isinstance(index, int | str) and not isinstance(index, bool) else None


_FRAMES: dict[str, Callable[[CohereReader, JsonObject], None]] = {
    "message-start": CohereReader._start,
    "content-start": CohereReader._start_content,
    "content-delta": CohereReader._read_content,
    "content-end": CohereReader._end_content,
    "tool-plan-delta": CohereReader._read_plan,
    "tool-call-start": CohereReader._start_call,
    "tool-call-delta": CohereReader._read_call,
    "tool-call-end": CohereReader._end_call,
    "citation-start": CohereReader._cite,
    "citation-end": CohereReader._end_content,
    "message-end": CohereReader._end_message,
}
