"""Images and files on every wire: what a part is, text files as text, and the words for what a wire cannot carry."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.media import COMMON_IMAGES, decode_text, find_base64_type, is_text_type, kind_of, name_text, read_base64
from dragoman.types import File, Image, Message, Part, Text, ToolResult
from dragoman.wire.failures import Loss
from dragoman.wire.values import split_data_url

LEFT_OUT = "was left out: "
"""In the loss of every image and file that a wire cannot carry, before the reason."""
NO_CONTENT = "it has neither data nor an address that this wire can use"
_WORDS = {"image": "image", "audio": "recording", "video": "video"}


def settle(part: Image | File) -> Image | File:
    """The part as wires write it: the data of a `data:` address as data, and an image in a file as an image."""
    held = split_data_url(part.url) if part.data is None and part.url else None
    if held is not None:
        part = replace(part, url=None, data=held[1], media_type=held[0] or part.media_type)
    if isinstance(part, File) and type_of(part) in COMMON_IMAGES:
        return Image(part.url, part.data, type_of(part), part.extra)
    return part


def type_of(part: Image | File) -> str:
    """The media type of a part: the one that it names, or that of its data; empty if neither tells."""
    named = (part.media_type or "").partition(";")[0].strip().lower()
    if named and named != "application/octet-stream":
        return "image/jpeg" if named == "image/jpg" else named
    return (find_base64_type(part.data) if part.data else None) or named


def label_of(part: Image | File) -> str:
    """What a part is, and its name: `image`, `recording a.wav`, `file a.pdf`."""
    word = "image" if isinstance(part, Image) else _WORDS.get(kind_of(type_of(part)), "file")
    return f"{word} {part.name}".rstrip() if isinstance(part, File) else word


def omit(part: Image | File, why: str, losses: list[Loss], where: str = "history") -> Text:
    """Report a part that a wire cannot carry, and return the words that tell the model that it is missing."""
    label = label_of(part)
    losses.append(Loss("dropped", where, f"the {label} {LEFT_OUT}{why}"))
    return Text(f"[{label}: not available]")


def spell_out(part: Image | File, losses: list[Loss], where: str = "history") -> Text | None:
    """A text file as text with its name, for a wire or a place that takes no files; None for anything else."""
    if isinstance(part, Image) or not part.data or not is_text_type(type_of(part)):
        return None
    text = decode_text(read_base64(part.data))
    if text is None:
        return None
    losses.append(Loss("approximated", where, f"the {label_of(part)} is sent as text"))
    return Text(name_text(part.name, text))


def leave_out_media(messages: Iterable[Message], losses: list[Loss]) -> list[Message]:
    """The conversation for a model that takes only text."""

    def put_in_words(part: Part) -> Part:
        if isinstance(part, Image | File):
            part = settle(part)
            return spell_out(part, losses) or omit(part, "the model takes only text", losses)
        if isinstance(part, ToolResult) and not isinstance(part.content, str):
            words = [put_in_words(each) for each in part.content]
            return replace(part, content=words)
        return part

    return [replace(message, parts=[put_in_words(part) for part in message.parts]) for message in messages]
