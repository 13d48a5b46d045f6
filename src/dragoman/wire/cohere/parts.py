"""Parts of Cohere's messages: content, answers with their plan, and results with documents, both ways."""

from __future__ import annotations

from typing import Any

from dragoman.types import File, Image, JsonObject, Part, Text, Thinking, ToolResult
from dragoman.wire.cohere.words import PLAN, THINKING, WIRE
from dragoman.wire.openai_chat.parts import read_block, write_block
from dragoman.wire.texts import mark_error
from dragoman.wire.values import as_dict, as_list, as_text, write

_WORDS = (Text, Thinking)

# ---- what users and systems say ------------------------------------------------------------------------------------


def read_content(content: Any) -> list[Part]:
    """The parts of a message's content, whatever form it has."""
    if isinstance(content, str):
        return [Text(content)]
    return [_read_part(block) for block in _blocks(content)]


def _blocks(content: Any) -> list[Any]:
    blocks = [content] if isinstance(content, dict) else as_list(content)
    return [block for block in blocks if isinstance(block, dict | str)]


def _read_part(block: JsonObject | str) -> Part:
    if isinstance(block, str) or block.get("type") in ("text", "image_url"):
        return read_block(block, WIRE)
    # A kind that has no neutral form goes back to this wire as it came.
    return Text("", {WIRE: {"block": block}})


# ---- what the assistant says ---------------------------------------------------------------------------------------


def read_answer(message: JsonObject) -> list[Part]:
    """Text and reasoning of an assistant message, in the order in which the model streams them.

    The plan stands in a field of its own: it comes behind the thoughts that open the content, and before the answer.
    """
    content = message.get("content")
    blocks = [content] if isinstance(content, str) else _blocks(content)
    parts = [part for block in blocks if (part := _read_said(block)) is not None]
    plan = as_text(message.get(PLAN))
    if plan:
        lead = next((place for place, part in enumerate(parts) if not isinstance(part, Thinking)), len(parts))
        parts.insert(lead, Thinking(plan, {WIRE: {"field": PLAN}}))
    return parts


def _read_said(block: JsonObject | str) -> Part | None:
    if isinstance(block, dict) and "type" not in block:
        block = {"type": THINKING if THINKING in block else "text", **block}
    if isinstance(block, dict) and block["type"] == THINKING:
        text = as_text(block.get(THINKING))
        return Thinking(text, {WIRE: {"field": THINKING}}) if text else None
    part = _read_part(block)
    return part if not isinstance(part, Text) or part.text or part.extra else None


def is_plan(part: Part) -> bool:
    return isinstance(part, Thinking) and as_dict(part.extra.get(WIRE)).get("field") == PLAN


def write_answer(parts: list[Part]) -> str | list[JsonObject]:
    """The content of an assistant message: a text where it is nothing but one, else blocks; the plan is left out."""
    said = [part for part in parts if not (part.extra and is_plan(part)) and not _is_blank(part)]
    if len(said) == 1 and isinstance(said[0], Text) and WIRE not in said[0].extra:
        return said[0].text
    blocks: list[JsonObject] = []
    for part in said:
        block = {"type": THINKING, THINKING: part.text} if isinstance(part, Thinking) else write_block(part, WIRE)
        if block is not None:
            blocks.append(block)
    return blocks


def _is_blank(part: Part) -> bool:
    if not isinstance(part, _WORDS) or part.text:
        return False
    return "block" not in as_dict(part.extra.get(WIRE))


# ---- what tools say ------------------------------------------------------------------------------------------------


def read_result_content(content: Any) -> str | list[Text | Image | File]:
    """The content of a result. A document is read as the JSON of its data, and remembered as it came."""
    if isinstance(content, str):
        return content
    blocks = _blocks(content)
    if not blocks:
        return "" if content is None or isinstance(content, list | dict) else _show(content)
    return [_read_result_block(block) for block in blocks]


def _read_result_block(block: JsonObject | str) -> Text | Image | File:
    if isinstance(block, dict) and block.get("type") == "document":
        document = block.get("document")
        data = as_dict(document).get("data", document)
        return Text(data if isinstance(data, str) else _show(data), {WIRE: {"block": block}})
    part = _read_part(block)
    return part if isinstance(part, Text | Image | File) else Text("")


def _show(value: Any) -> str:
    try:
        return write(value)
    except (RecursionError, TypeError, ValueError):
        # Nested deeper than anything can write; the value itself is kept beside.
        return ""


def write_result_content(result: ToolResult, *, takes_images: bool = False) -> str | list[JsonObject]:
    """The content of a result; that it is an error is told in words, for there is no flag."""
    if isinstance(result.content, str):
        return mark_error(result, result.content)
    parts = [_fit_result(part, takes_images=takes_images) for part in result.content]
    first = parts[0] if parts else Text("")
    if result.is_error:
        if isinstance(first, Text) and WIRE not in first.extra:
            parts[:1] = [Text(mark_error(result, first.text))]
        else:
            parts.insert(0, Text("Error:"))
    return [block for part in parts if (block := write_block(part, WIRE)) is not None] or ""


def _fit_result(part: Any, *, takes_images: bool) -> Text | Image:
    """What a result can hold. Conversations have their media moved elsewhere; here they are at least named."""
    if isinstance(part, Text) or (isinstance(part, Image) and takes_images):
        return part
    if isinstance(part, File):
        return Text(f"[file {part.name}]")
    return Text(part if isinstance(part, str) else "[image]")
