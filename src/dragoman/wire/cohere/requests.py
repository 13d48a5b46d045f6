"""A request as the body of Cohere's chat: its messages and its tools."""

from __future__ import annotations

from dragoman.types import File, Image, JsonObject, Message, Part, Request, Text, ToolResult
from dragoman.wire.cohere.parts import is_plan, write_answer, write_result_content
from dragoman.wire.cohere.words import PLAN, WIRE
from dragoman.wire.offering import Offer
from dragoman.wire.openai_chat.parts import write_call, write_content
from dragoman.wire.openai_chat.requests import write_definitions
from dragoman.wire.options import Choice, read_choice
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.texts import find_calls, join_thinking
from dragoman.wire.values import as_dict, as_list

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
    if isinstance(part, File):
        named = f"file {part.name}".rstrip()
    elif isinstance(part, Image) and role != "user":
        named = "image"
    else:
        return part
    losses.append(Loss("dropped", "history", f"the {named} of a message of the {role} has no place on {WIRE}"))
    return Text(f"[{named}: not shown]")


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
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}


# ---- tools ---------------------------------------------------------------------------------------------------------


def write_tools(request: Request, offered: Offer, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The fields of a body that speak of tools."""
    own = as_list(as_dict(request.options.get(WIRE)).get("tools"))
    definitions = write_definitions(offered, strict=False) + own
    if not definitions:
        return {}
    if request.options.get("parallel_tool_calls") is False:
        losses.append(Loss("dropped", "options", f"{WIRE} has no switch against parallel calls"))
    fields: JsonObject = {"tools": definitions}
    choice = read_choice(request.options)
    if choice is not None:
        fields = _write_choice(choice, request, offered, definitions, quirks, losses)
    if quirks.strict_tools and "tools" in fields:
        # The switch is one for all tools.
        fields["strict_tools"] = True
    return fields


def _write_choice(
    choice: Choice,
    request: Request,
    offered: Offer,
    definitions: list[JsonObject],
    quirks: Quirks,
    losses: list[Loss],
) -> JsonObject:
    fields: JsonObject = {"tools": definitions}
    if choice.names:
        names = [name for ours in choice.names if (name := offered.name_of(ours)) is not None]
        if not names:
            losses.append(Loss("approximated", "options", "tool_choice names no tool that is offered; it became auto"))
            return fields
        losses.append(Loss("approximated", "options", "tool_choice: only the tools that it allows are offered"))
        fields["tools"] = [tool for tool in definitions if as_dict(tool.get("function")).get("name") in names]
    if choice.mode == "auto":
        return fields
    if choice.mode in quirks.tool_choice:
        return {**fields, "tool_choice": choice.mode.upper()}
    if choice.mode == "none" and not _has_calls(request):
        losses.append(Loss("approximated", "options", "tool_choice 'none': no tools are offered"))
        return {}
    losses.append(Loss("approximated", "options", f"tool_choice {choice.mode!r} is not honoured here; it is left out"))
    return fields


def _has_calls(request: Request) -> bool:
    return any(find_calls(message.parts) for message in request.messages)
