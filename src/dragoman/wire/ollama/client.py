"""The client side of Ollama's chat: writes requests and reads replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.events import Event
from dragoman.media import find_base64_type
from dragoman.types import (
    Failure,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Request,
    StopReason,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire.codec import Offer, Prepared
from dragoman.wire.failures import Loss, fail
from dragoman.wire.framing import Line, LineBroken, SseBroken
from dragoman.wire.media import omit, settle, spell_out
from dragoman.wire.openai_chat.client import keep_named, place_functions, write_definitions
from dragoman.wire.options import SAMPLING, OptionTable, read_choice, report_format, unsupported_options
from dragoman.wire.quirks import Quirks
from dragoman.wire.reader import DONE, Reader
from dragoman.wire.values import (
    BROKEN,
    as_count,
    as_dict,
    as_list,
    as_text,
    dicts,
    find_calls,
    join_texts,
    join_thinking,
    parse_frame,
    read_result,
)

# --------------------------------------------------------------------------------------------------------------------
# Tables of Ollama's chat.

STOPS: Mapping[str, StopReason] = {"stop": "end", "length": "length", "load": "end", "unload": "end"}

OPTIONS = OptionTable({"max_tokens": "num_predict", **{name: name for name in (*SAMPLING, "stop")}})
"""Our options, and what they are called inside `options`."""


def read_usage(body: JsonObject) -> Usage | None:
    if "eval_count" not in body and "prompt_eval_count" not in body:
        return None
    return Usage(as_count(body.get("prompt_eval_count")), as_count(body.get("eval_count")))


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    said = as_dict(body).get("error", body)
    message = as_dict(said).get("message", said)
    if status is None:
        status = as_count(as_dict(body).get("status_code")) or None
    return fail(message if isinstance(message, str) else "", status=status, body=body, headers=headers)


def finish_of(stop: StopReason) -> str:
    return "length" if stop == "length" else "stop"


# --------------------------------------------------------------------------------------------------------------------
# A request as the body of `/api/chat`.

WIRE = "ollama"

# ---- messages --------------------------------------------------------------------------------------------------------


def write_messages(messages: list[Message], losses: list[Loss]) -> list[JsonObject]:
    written: list[JsonObject] = []
    for message in messages:
        if message.role == "tool":
            written += [_write_result(part, losses) for part in message.parts if isinstance(part, ToolResult)]
        else:
            written.append(_write_message(message, losses))
    return written


def _write_message(message: Message, losses: list[Loss]) -> JsonObject:
    own = as_dict(message.extra.get(WIRE)) if message.extra else {}
    parts = message.parts
    images: list[str] = []
    if any([isinstance(part, Image | File) for part in parts]):
        parts = [_take_image(part, images, losses) if isinstance(part, Image | File) else part for part in parts]
    body: JsonObject = {"role": message.role, "content": join_texts(parts), **own}
    if all([type(part) is Text for part in message.parts]):
        return body
    thinking = join_thinking(message.parts)
    if thinking:
        body["thinking"] = thinking
    if images:
        body["images"] = images
    calls = [write_call(part) for part in find_calls(message.parts)]
    if calls:
        body["tool_calls"] = calls
    return body


def write_call(call: ToolCall | InvalidCall) -> JsonObject:
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    own = as_dict(call.extra.get(WIRE)) if call.extra else {}
    function = {"name": call.name, "arguments": arguments, **as_dict(own.get("inside"))}
    return {"id": call.id, "function": function, **{name: own[name] for name in own if name not in ("type", "inside")}}


def _write_result(result: ToolResult, losses: list[Loss]) -> JsonObject:
    images: list[str] = []
    if not isinstance(result.content, str):
        words = [part if isinstance(part, Text) else _take_image(part, images, losses) for part in result.content]
        result = replace(result, content=words)
    body: JsonObject = {"role": "tool", "content": read_result(result)}
    if result.name:
        body["tool_name"] = result.name
    body["tool_call_id"] = result.call_id
    body.update(as_dict(result.extra.get(WIRE)) if result.extra else {})
    return {**body, "images": images} if images else body


def _take_image(part: Image | File, images: list[str], losses: list[Loss]) -> Text:
    """Put the data of an image into the list, and return the words that stay in its place."""
    part = settle(part)
    if isinstance(part, Image) and part.data is not None:
        images.append(part.data)
        return Text("")
    if isinstance(part, Image):
        return omit(part, f"this wire takes no images by address, only their data: {part.url}", losses)
    return spell_out(part, losses) or omit(part, "this wire takes no files", losses)


# ---- tools and options -----------------------------------------------------------------------------------------------


def write_tools(request: Request, offered: Offer, losses: list[Loss]) -> JsonObject:
    """The tools of a body. There is no tool choice on this wire: what can be done is to offer fewer tools."""
    own = as_list(as_dict(request.options.get(WIRE)).get("tools"))
    definitions = place_functions(write_definitions(offered, False, WIRE), offered, own)
    choice = read_choice(request.options)
    if choice is not None and choice.mode == "none" and definitions:
        losses.append(Loss("approximated", "options", "tool_choice 'none': no tools are offered"))
        return {}
    if choice is not None and choice.names:
        names = {offered.name_of(name) for name in choice.names}
        definitions = keep_named(definitions, names) or definitions
        losses.append(Loss("approximated", "options", "tool_choice: only the tools that it allows are offered"))
    elif choice is not None and choice.mode == "required":
        losses.append(Loss("approximated", "options", "tool_choice 'required' is not honoured on this wire"))
    if definitions and request.options.get("parallel_tool_calls") is False:
        losses.append(Loss("dropped", "options", "this wire has no switch against parallel calls"))
    return {"tools": definitions} if definitions else {}


def write_options(request: Request, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    options = request.options
    own = as_dict(options.get(WIRE))
    taken = {"stream", "response_format", "reasoning", "tool_choice", "parallel_tool_calls", "cache"}
    runtime = OPTIONS.write(options, quirks, losses, taken)
    if quirks.context_window:
        runtime["num_ctx"] = quirks.context_window
    runtime.update(as_dict(own.get("options")))
    # The server streams unless it is told otherwise.
    fields: JsonObject = {"stream": options.get("stream") is True}
    fields.update({"options": runtime} if runtime else {})
    wanted = as_dict(options.get("response_format"))
    report_format(wanted, ("name", "strict", "description"), losses, WIRE)
    fields.update(_write_format(wanted))
    fields.update(_write_thinking(as_dict(options.get("reasoning")), losses))
    losses += unsupported_options(options, taken, WIRE)
    return {**fields, **{name: value for name, value in own.items() if name not in ("tools", "options")}}


def _write_format(wanted: JsonObject) -> JsonObject:
    if wanted.get("type") == "json":
        return {"format": "json"}
    return {"format": as_dict(wanted.get("schema"))} if wanted.get("type") == "json_schema" else {}


def _write_thinking(reasoning: JsonObject, losses: list[Loss]) -> JsonObject:
    if not reasoning:
        return {}
    effort = as_text(reasoning.get("effort"))
    known = effort in ("low", "medium", "high", "max", "none", "")
    lost = [name for name in ("budget", "summary") if reasoning.get(name) is not None]
    lost += [] if known else [f"effort {effort!r}"]
    if lost:
        losses.append(Loss("approximated", "options", f"reasoning: {', '.join(lost)} became plain thinking"))
    if reasoning.get("enabled") is False or effort == "none":
        return {"think": False}
    return {"think": effort if effort and known else True}


# --------------------------------------------------------------------------------------------------------------------
# Ollama's replies read: lines and whole bodies to events.

_WRAPPERS = ("tool_call", "tool.call")
_PREFIX = "tool."


class OllamaReader(Reader):
    """Reads one reply. A call always comes whole, in any line; `done` ends the reply."""

    _read_failure = staticmethod(read_failure)
    answers = ("message", "response", "done")

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        super().__init__(wire, sent, quirks)
        self._offered = frozenset(sent.tools.names) if sent is not None and sent.tools is not None else frozenset()
        self._thinking = False

    def read(self, frame: Any) -> list[Event]:
        if isinstance(frame, LineBroken | SseBroken):
            self._fail_of_size("a line of the stream was too large")
            return self._builder.take()
        text = frame.text if isinstance(frame, Line) else frame.data
        content = parse_frame(text)
        if content is not BROKEN:
            self._doubt(content)
            self._read_frame(content, None)
        elif not text.lstrip().startswith(DONE):
            self._read_broken(text, frame.complete)
        return self._builder.take()

    def _read_frame(self, content: Any, event: str | None) -> None:
        builder, body = self._builder, as_dict(content)
        if body.get("error"):
            self._fail(body)
            return
        builder.start(body.get("model"))
        message = as_dict(body.get("message"))
        thought = as_text(message.get("thinking")) or as_text(message.get("reasoning"))
        if thought:
            self._thinking = True
            builder.thinking(thought)
        if as_text(message.get("content")):
            self._end_thinking()
            builder.text(message["content"])
        for data in filter(None, map(as_text, as_list(message.get("images")))):
            self._end_thinking()
            builder.part(Image(None, data, find_base64_type(data)))
        for entry in dicts(message.get("tool_calls")):
            self._end_thinking()
            self._read_call(entry)
        usage = read_usage(body)
        if usage is not None:
            builder.usage(usage)
        reason = as_text(body.get("done_reason"))
        if reason:
            builder.stop(STOPS.get(reason, "unknown"), {"reason": reason})
        if body.get("done") is True:
            builder.terminate()
            self._end()

    def _read_call(self, entry: JsonObject) -> None:
        function = entry.get("function")
        body = function if isinstance(function, dict) else entry
        name, arguments, repairs = unwrap(body.get("name"), body.get("arguments"), self._offered)
        self._builder.whole_call(entry.get("id"), name, arguments, repairs=repairs)

    def _end_thinking(self) -> None:
        if self._thinking:
            self._builder.end_part("thinking", {"field": "thinking"})
            self._thinking = False

    def _settle(self) -> None:
        self._end_thinking()


def unwrap(name: Any, arguments: Any, offered: frozenset[str]) -> tuple[Any, Any, tuple[str, ...]]:
    """The call inside a call: models write `tool_call` or `tool.NAME` where the name of a tool belongs.

    A tool that is really offered under such a name is left alone.
    """
    if not isinstance(name, str) or name in offered:
        return name, arguments, ()
    if name in _WRAPPERS or name.startswith(("tool_call>", "tool_call<")):
        inner = as_dict(arguments)
        if as_text(inner.get("name")):
            return inner["name"], inner.get("arguments"), ("unwrapped_call",)
    elif name.startswith(_PREFIX) and len(name) > len(_PREFIX):
        return name[len(_PREFIX) :], arguments, ("unwrapped_name",)
    return name, arguments, ()
