"""Results of calls: `functionResponse` parts, written and read.

A response is an object on this wire: `{"output": ...}` for a result and `{"error": ...}` for an error. Anything else
that a client put there is read as JSON text, and goes back to this wire as it came.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.types import File, Image, JsonObject, Part, Text, ToolResult
from dragoman.wire.gemini.parts import WIRE, own_of, read_media, read_own, tell, write_media
from dragoman.wire.gemini.words import camel
from dragoman.wire.report import Loss
from dragoman.wire.texts import join_texts
from dragoman.wire.values import as_dict, as_text, dicts

# What a response may hold from Gemini 3 on.
_INSIDE = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
_OWN_FIELDS = ("willContinue", "scheduling")


class ResultWriter:
    """Writes the results of one turn: a part for each, and behind them the images and files that no part can hold."""

    def __init__(self, losses: list[Loss], *, holds_media: bool) -> None:
        self._losses = losses
        self._holds_media = holds_media
        self._beside: list[JsonObject] = []

    def write(self, results: list[tuple[ToolResult, bool]]) -> list[JsonObject]:
        """All parts of the turn; each result comes with whether its call has an id."""
        responses = [self._write_result(result, named) for result, named in results]
        beside, self._beside = self._beside, []
        return [*responses, *beside]

    def _write_result(self, result: ToolResult, named: bool) -> JsonObject:
        own = own_of(result)
        inside: list[JsonObject] = []
        text = result.content if isinstance(result.content, str) else self._place_content(result, inside)
        body: JsonObject = {"id": result.call_id} if named and result.call_id else {}
        body["name"] = result.name
        kept = as_dict(own.get("response"))
        body["response"] = kept if kept and _read_response(kept) == (text, result.is_error) else _respond(result, text)
        if inside:
            body["parts"] = inside
        body.update({name: own[name] for name in _OWN_FIELDS if name in own})
        return {"functionResponse": body}

    def _place_content(self, result: ToolResult, inside: list[JsonObject]) -> str:
        """Put images and files where they can stand, and return the words, with a note for what stands elsewhere."""
        words: list[Part] = []
        for part in result.content:
            if isinstance(part, Image | File):
                words += self._place_media(result, part, inside)
                continue
            word = _as_text(part)
            if word.text and inside:
                self._losses.append(Loss("moved", _where(result), "its text was put before its images and files"))
            words.append(word)
        return join_texts(words)

    def _place_media(self, result: ToolResult, part: Image | File, inside: list[JsonObject]) -> list[Text]:
        kind = "image" if isinstance(part, Image) else "file"
        media = write_media(part)
        if media is None:
            self._losses.append(Loss("dropped", _where(result), f"its {kind} has neither data nor an address"))
            return [Text(f"[{kind}: not available]")]
        if isinstance(part, File) and part.name and "displayName" not in own_of(part):
            self._losses.append(Loss("dropped", _where(result), f"the name of its file, {part.name}"))
        if self._holds_media and next(iter(media.values())).get("mimeType") in _INSIDE:
            inside.append(media)
            return []
        self._beside.append(media)
        self._losses.append(Loss("moved", _where(result), f"its {kind} was put beside the results"))
        return [Text(f"[{kind}: attachment {len(self._beside)} behind the results]")]


def _as_text(part: Any) -> Text:
    """A member of a result that is no image and no file, however its author wrote it."""
    return part if isinstance(part, Text) else Text(part if isinstance(part, str) else tell(part))


def _where(result: ToolResult) -> str:
    return f"result of {result.name or 'a tool'} ({result.call_id})"


def _respond(result: ToolResult, text: str) -> JsonObject:
    return {"error" if result.is_error else "output": text}


def _read_response(response: JsonObject) -> tuple[str, bool]:
    """The words of a response, and whether they tell an error."""
    if len(response) == 1:
        [(key, value)] = response.items()
        if key in ("output", "error"):
            return (value if isinstance(value, str) else tell(value)), key == "error"
    failed = response.get("error") is not None and "output" not in response
    return tell(response) if response else "", failed


def read_result(given: JsonObject) -> ToolResult:
    """A result, as a client sends it. `call_id` is empty where the client gave none."""
    body = camel(as_dict(given.get("functionResponse")))
    response = as_dict(body.get("response"))
    text, is_error = _read_response(response)
    result = ToolResult(as_text(body.get("id")), as_text(body.get("name")), text, is_error)
    media = [read_media(part) for entry in dicts(body.get("parts")) if _is_media(part := camel(entry))]
    if media:
        words = [Text(text)] if text else []
        result = replace(result, content=[*words, *media])
    own = {name: body[name] for name in _OWN_FIELDS if name in body} | read_own(given)
    if response and response != _respond(result, text):
        own["response"] = response
    return replace(result, extra={WIRE: own}) if own else result


def _is_media(part: JsonObject) -> bool:
    return isinstance(part.get("inlineData"), dict) or isinstance(part.get("fileData"), dict)
