"""Whether an endpoint can take the images and files that a user gives, before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.errors import CannotSend
from dragoman.media import COMMON_IMAGES, UNREADABLE, kind_of
from dragoman.providers.endpoint import Endpoint, codec_of
from dragoman.types import File, Image, Message, Request
from dragoman.wire.media import LEFT_OUT, label_of, settle, type_of

_has_scheme = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:").match
_is_base64 = re.compile(r"[A-Za-z0-9+/=_\s-]*").fullmatch

# What to do where a wire cannot carry a kind. A test compares the wires that it names with what they carry.
TAKERS = {
    "audio": "gemini, bedrock and mistral take recordings; openai_chat takes wav and mp3",
    "video": "gemini and bedrock take videos",
    "document": "anthropic, gemini, bedrock, mistral, openai_chat and openai_responses take PDF files",
    "image": "send it as PNG or JPEG",
    "file": "send it as text or PDF",
}
_BY_ADDRESS = "send its content instead: dragoman.attach(url) fetches it"


def check_media(messages: Iterable[Message], endpoint: Endpoint) -> None:
    """Raise CannotSend if an image or file of the user cannot reach this endpoint, with the next step."""
    for message in messages:
        if message.role == "user":
            for part in message.parts:
                if isinstance(part, Image | File):
                    _check_part(part, endpoint)


def find_doubts(messages: Iterable[Message]) -> list[str]:
    """Return a warning for each image and file of a kind that few models take.

    It is sent all the same: a server of one's own may take it.
    """
    parts = [part for message in messages for part in message.parts if isinstance(part, Image | File)]
    return [doubt for part in parts if (doubt := _find_doubt(part))]


def _find_doubt(part: Image | File) -> str:
    found = type_of(part)
    kind = "image" if found.startswith("image/") else "file"
    is_rare = found in UNREADABLE if kind == "file" else found not in COMMON_IMAGES
    return f"few models take the {label_of(part)} ({found}): {TAKERS[kind]}" if is_rare else ""


def _check_part(given: Image | File, endpoint: Endpoint) -> None:
    own = given.extra.get(endpoint.wire)
    if not own:
        _check_content(given)
    part = settle(given)
    name, label = f"{endpoint.provider.name}:{endpoint.model}", label_of(part)
    sent = replace(part, extra={endpoint.wire: own} if own else {})
    prepared = codec_of(endpoint).prepare(Request(endpoint.model, [Message("user", [sent])]))
    left_out = [loss.detail for loss in prepared.losses if LEFT_OUT in loss.detail]
    if left_out:
        reason = left_out[0].partition(LEFT_OUT)[2]
        takes_none = not endpoint.quirks.images
        hint = (
            CannotSend.hint
            if takes_none
            else _BY_ADDRESS
            if part.data is None
            else TAKERS.get(kind_of(type_of(part)), TAKERS["file"])
        )
        raise CannotSend(f"{name} cannot take the {label}: {reason}", hint=hint)


def _check_content(part: Image | File) -> None:
    """Raise CannotSend for a part that no endpoint could take, such as a path in place of an address."""
    kind, label = type(part).__name__, label_of(part)
    if part.url and not _has_scheme(part.url):
        path = part.url[:200]
        raise CannotSend(f"{path!r} is no address of an {label}", hint=f"for a file, write {kind}.from_path({path!r})")
    if part.data is not None and not _is_base64(part.data[:200]):
        raise CannotSend(
            f"the data of the {label} is no base64 text", hint=f"give bytes, or write {kind}.from_path(path)"
        )
    if not part.data and not part.url:
        raise CannotSend(f"the {label} has neither data nor an address", hint=f"write {kind}.from_path(path)")
