"""A request as the body of `/api/chat`."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.types import File, Image, InvalidCall, JsonObject, Message, Part, Request, Text, ToolCall, ToolResult
from dragoman.wire.offering import Offer
from dragoman.wire.ollama.words import OPTIONS
from dragoman.wire.options import find_unsaid, read_choice
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.texts import find_calls, join_texts, join_thinking, read_result
from dragoman.wire.values import as_dict, as_list, as_text

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
    body: JsonObject = {"role": message.role, "content": join_texts(message.parts)}
    if all([type(part) is Text for part in message.parts]):
        return body
    thinking = join_thinking(message.parts)
    if thinking:
        body["thinking"] = thinking
    images = write_images(message.parts, losses)
    if images:
        body["images"] = images
    calls = [write_call(part) for part in find_calls(message.parts)]
    if calls:
        body["tool_calls"] = calls
    return body


def write_call(call: ToolCall | InvalidCall) -> JsonObject:
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}


def _write_result(result: ToolResult, losses: list[Loss]) -> JsonObject:
    body: JsonObject = {"role": "tool", "content": read_result(result)}
    if result.name:
        body["tool_name"] = result.name
    body["tool_call_id"] = result.call_id
    if not isinstance(result.content, str):
        images = write_images(result.content, losses)
        body.update({"images": images} if images else {})
    return body


def write_images(parts: Sequence[Part], losses: list[Loss]) -> list[str]:
    """The images of a message; this wire takes their data and nothing else."""
    images: list[str] = []
    for part in parts:
        if isinstance(part, Image) and part.data is not None:
            images.append(part.data)
        elif isinstance(part, Image):
            losses.append(Loss("dropped", "history", f"an image by address has no place here: {part.url}"))
        elif isinstance(part, File):
            losses.append(Loss("dropped", "history", f"the file {part.name!r} has no place here"))
    return images


# ---- tools and options -----------------------------------------------------------------------------------------------


def write_definitions(offered: Offer) -> list[JsonObject]:
    definitions = []
    for entry in offered.tools:
        function: JsonObject = {"name": entry.name}
        if entry.tool.description:
            function["description"] = entry.tool.description
        function["parameters"] = entry.schema
        definitions.append({"type": "function", "function": function})
    return definitions


def write_tools(request: Request, offered: Offer, losses: list[Loss]) -> JsonObject:
    """The tools of a body. There is no tool choice on this wire: what can be done is to offer fewer tools."""
    own = as_list(as_dict(request.options.get(WIRE)).get("tools"))
    definitions = write_definitions(offered) + own
    choice = read_choice(request.options)
    if choice is not None and choice.mode == "none" and definitions:
        losses.append(Loss("approximated", "options", "tool_choice 'none': no tools are offered"))
        return {}
    if choice is not None and choice.names:
        names = {offered.name_of(name) for name in choice.names}
        fewer = [tool for tool in definitions if as_dict(tool.get("function")).get("name") in names]
        definitions = fewer or definitions
        losses.append(Loss("approximated", "options", "tool_choice: only the tools that it allows are offered"))
    elif choice is not None and choice.mode == "required":
        losses.append(Loss("approximated", "options", "tool_choice 'required' is not honoured on this wire"))
    if definitions and request.options.get("parallel_tool_calls") is False:
        losses.append(Loss("dropped", "options", "this wire has no switch against parallel calls"))
    return {"tools": definitions} if definitions else {}


def write_options(request: Request, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    options = request.options
    own = as_dict(options.get(WIRE))
    runtime = {name: options[ours] for ours, name in OPTIONS.items() if options.get(ours) is not None}
    if quirks.context_window:
        runtime["num_ctx"] = quirks.context_window
    runtime.update(as_dict(own.get("options")))
    # The server streams unless it is told otherwise.
    fields: JsonObject = {"stream": options.get("stream") is True}
    fields.update({"options": runtime} if runtime else {})
    fields.update(_write_format(as_dict(options.get("response_format"))))
    fields.update(_write_thinking(as_dict(options.get("reasoning"))))
    taken = {*OPTIONS, "stream", "response_format", "reasoning", "tool_choice", "parallel_tool_calls", "cache"}
    losses += find_unsaid(options, taken, WIRE)
    return {**fields, **{name: value for name, value in own.items() if name not in ("tools", "options")}}


def _write_format(wanted: JsonObject) -> JsonObject:
    if wanted.get("type") == "json":
        return {"format": "json"}
    return {"format": as_dict(wanted.get("schema"))} if wanted.get("type") == "json_schema" else {}


def _write_thinking(reasoning: JsonObject) -> JsonObject:
    if not reasoning:
        return {}
    if reasoning.get("enabled") is False or reasoning.get("effort") == "none":
        return {"think": False}
    effort = as_text(reasoning.get("effort"))
    return {"think": effort if effort in ("low", "medium", "high", "max") else True}
