"""Text of parts and results, for wires that have one field for it."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.types import File, Image, InvalidCall, Part, Text, Thinking, ToolCall, ToolResult

_CALLS = (ToolCall, InvalidCall)


def join_texts(parts: Iterable[Part]) -> str:
    """The text of a message in one piece. Parts that would run into one another are kept apart by a line break."""
    joined = ""
    for part in parts:
        if isinstance(part, Text) and part.text:
            if not joined:
                joined = part.text
                continue
            apart = not joined[-1].isspace() and not part.text[0].isspace()
            joined += ("\n" if apart else "") + part.text
    return joined


def find_calls(parts: Iterable[Part]) -> list[ToolCall | InvalidCall]:
    """The calls among the parts of a message."""
    # Texts are put aside first: they are the most, and the other question takes longer.
    return [part for part in parts if type(part) is not Text and isinstance(part, _CALLS)]


def join_thinking(parts: Iterable[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Thinking))


def read_result(result: ToolResult) -> str:
    """The words of a result, its error told in words too: for wires that have no flag for errors."""
    text = plain_result(result)
    return mark_error(result, text) if result.is_error else text


def plain_result(result: ToolResult) -> str:
    """The words of a result; what is no text was moved elsewhere by the arrangement of the history."""
    if isinstance(result.content, str):
        return result.content
    return join_texts(part for part in result.content if isinstance(part, Text))


def mark_error(result: ToolResult, text: str) -> str:
    if result.is_error and text[:5].lower() != "error":
        return f"Error: {text}"
    return text


def data_url(part: Image | File) -> str:
    """An image or file as an address: its own, or one that holds the data."""
    if part.data is None:
        return part.url or ""
    return f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"


def split_data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 data of a `data:` address; None for any other address."""
    if not url.startswith("data:"):
        return None
    head, comma, data = url[5:].partition(",")
    if not comma or not head.endswith(";base64"):
        return None
    return head.removesuffix(";base64").partition(";")[0], data
