"""Parts, results, errors and tables of generateContent, in both directions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.media import find_base64_type
from dragoman.types import (
    Failure,
    FailureKind,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire import values
from dragoman.wire.failures import Loss, fail, status_of
from dragoman.wire.media import NO_CONTENT, omit
from dragoman.wire.values import (
    BROKEN,
    as_count,
    as_dict,
    as_text,
    describe,
    dicts,
    invert_stops,
    join_texts,
    parse,
    show,
    split_data_url,
)

# --------------------------------------------------------------------------------------------------------------------
# Tables of generateContent.

PLACEHOLDER = "skip_thought_signature_validator"
"""The signature that the API agrees to take for calls that it did not make itself."""

STOPS: Mapping[str, StopReason] = {
    "STOP": "end",
    "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "refusal"),
    **dict.fromkeys(("MODEL_ARMOR", "ESCALATION", "PUP_LIMITED_DISABLED"), "refusal"),
    **dict.fromkeys(("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"), "refusal"),
    "CONTINUATION": "pause",
    **dict.fromkeys(("OTHER", "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"), "error"),
    **dict.fromkeys(("TOO_MANY_TOOL_CALLS", "NO_IMAGE", "MISSING_THOUGHT_SIGNATURE"), "error"),
}
FINISHES = invert_stops(STOPS, "STOP")
LEVELS: Mapping[str, str] = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    # Efforts beyond the highest level of this wire:
    "xhigh": "HIGH",
    "max": "HIGH",
}
BUDGETS: Mapping[str, int] = {"MINIMAL": 1024, "LOW": 1024, "MEDIUM": 8192, "HIGH": 24576}
"""What the vendor's own compatibility layer makes of an effort for models that only know budgets."""

_find_generation = re.compile(r"gemini-(\d{1,3})").search
_find_capital = re.compile(r"_([a-z0-9])").sub


def generation_of(model: str) -> int:
    """The generation of a Gemini model; 0 where its name does not tell."""
    found = _find_generation(model)
    return int(found[1]) if found else 0


def camel(fields: dict[Any, Any]) -> JsonObject:
    """The same fields with names in camelCase: clients send both spellings. Their values are left alone."""
    try:
        if "_" not in "".join(fields):
            return fields
    except TypeError:
        # Names that are no text come from no wire; they are left out below.
        pass
    spelled: JsonObject = {}
    for name, value in fields.items():
        if isinstance(name, str):
            spelled.setdefault(_find_capital(lambda found: found[1].upper(), name), value)
    return spelled


def read_usage(value: object) -> Usage | None:
    counts = camel(as_dict(value))
    if not counts:
        return None
    thoughts = as_count(counts.get("thoughtsTokenCount"))
    return Usage(
        # What built-in tools fed to the model is counted apart from the prompt.
        as_count(counts.get("promptTokenCount")) + as_count(counts.get("toolUsePromptTokenCount")),
        as_count(counts.get("candidatesTokenCount")) + thoughts,
        as_count(counts.get("cachedContentTokenCount")),
        thoughts,
    )


def write_usage(usage: Usage) -> JsonObject:
    said = max(0, usage.output_tokens - usage.reasoning_tokens)
    counts: JsonObject = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": said,
        "totalTokenCount": usage.input_tokens + said + usage.reasoning_tokens,
    }
    if usage.cached_tokens:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    if usage.reasoning_tokens:
        counts["thoughtsTokenCount"] = usage.reasoning_tokens
    return counts


# --------------------------------------------------------------------------------------------------------------------
# Errors of generateContent, both ways.

_FORBIDDEN = 403
_TOO_LONG = "The input token count exceeds the maximum number of tokens allowed", "number of tokens allowed"
_WORDS: Mapping[FailureKind, str] = {
    "rate_limited": "RESOURCE_EXHAUSTED",
    "overloaded": "UNAVAILABLE",
    "unauthorized": "UNAUTHENTICATED",
    "bad_request": "INVALID_ARGUMENT",
    "context_too_long": "INVALID_ARGUMENT",
    "refused": "INVALID_ARGUMENT",
    "not_found": "NOT_FOUND",
    "timed_out": "DEADLINE_EXCEEDED",
    "stream_cut": "UNAVAILABLE",
    "server_error": "INTERNAL",
}
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_find_excess = re.compile(r"token count .{0,40}exceeds the maximum", re.IGNORECASE | re.DOTALL).search
_read_seconds = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s").fullmatch


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    """What an error body says: `{"error": {...}}`, the same inside a list, or its text."""
    if isinstance(body, str | bytes):
        found = parse(body)
        body = body if found is BROKEN else found
    whole = body[0] if isinstance(body, list) and body else body
    error = as_dict(whole).get("error", whole)
    inner = as_dict(error)
    code = inner.get("code")
    if status is None and isinstance(code, int) and 400 <= code < 600:
        status = code
    message = inner.get("message") or (error if isinstance(error, str) else None) or as_dict(whole).get("message")
    failure = fail(message, status=status, code=inner.get("status") or code, body=body, headers=headers)
    return _specify(failure, list(dicts(inner.get("details"))))


def _specify(failure: Failure, details: list[JsonObject]) -> Failure:
    """What only the message and the details of this API tell."""
    if _find_excess(failure.message[:2000]):
        failure = replace(failure, kind="context_too_long")
    elif any(entry.get("reason") == "API_KEY_INVALID" for entry in details):
        failure = replace(failure, kind="unauthorized")
    delay = next((found for entry in details if (found := _read_delay(entry)) is not None), None)
    return failure if delay is None else replace(failure, retry_after=delay)


def _read_delay(entry: JsonObject) -> float | None:
    found = _read_seconds(as_text(entry.get("retryDelay")))
    return float(found[1]) if found else None


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    # 529 is Anthropic's; clients of this API know 503.
    status = 503 if failure.kind == "overloaded" else status_of(failure)
    error: JsonObject = {
        "code": status,
        "message": describe(failure, *_TOO_LONG),
        "status": "PERMISSION_DENIED" if status == _FORBIDDEN else _WORDS.get(failure.kind, "INTERNAL"),
    }
    if failure.retry_after is not None:
        error["details"] = [{"@type": _RETRY_INFO, "retryDelay": f"{failure.retry_after:.9g}s"}]
    return status, {"error": error}


# --------------------------------------------------------------------------------------------------------------------
# Parts of contents: our texts, thoughts, images, files and calls as this wire writes them, and back.

WIRE = "gemini"

_KINDS = ("functionCall", "functionResponse", "inlineData", "fileData", "text")
_IMAGES: Mapping[str, str] = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "gif": "image/gif",
    "heic": "image/heic",
    "heif": "image/heif",
}
_FILES: Mapping[str, str] = {"pdf": "application/pdf", "txt": "text/plain", "csv": "text/csv", "html": "text/html"}
_CALLS = (ToolCall, InvalidCall)
_CONTENTS = frozenset(_KINDS)
_NOT_BESIDE = frozenset({"thought_signature", "displayName", "part", "call", "inside", "blob"})
_BLOB = frozenset({"displayName", "mimeType", "data", "fileUri"})
_BESIDE = frozenset({"thought", "thoughtSignature", *_KINDS})


def kind_of(part: JsonObject) -> str:
    """Which kind of part this is; empty for kinds that have no neutral form, such as code that the server ran."""
    for kind in _KINDS:
        if part.get(kind) is not None:
            return kind
    # A part with nothing but a signature is an empty text.
    return "" if part.keys() - {"thought", "thoughtSignature"} else "text"


# ---- what only this wire understands -------------------------------------------------------------------------------


def read_own(part: JsonObject) -> JsonObject:
    """The fields beside the content of a part: its signature, and whatever else stands there."""
    own: JsonObject = {}
    if _CONTENTS.issuperset(part):
        return own
    if part.get("thought") is True:
        own["thought"] = True
    signature = part.get("thoughtSignature")
    if isinstance(signature, str) and signature:
        own["thought_signature"] = signature
    own.update({name: value for name, value in part.items() if name not in _BESIDE})
    return own


def own_of(part: Part) -> JsonObject:
    return as_dict(part.extra.get(WIRE))


def write_own(own: JsonObject) -> JsonObject:
    """The fields beside the content of a part, as they came."""
    fields = {name: value for name, value in own.items() if name not in _NOT_BESIDE}
    if "thought_signature" in own:
        fields["thoughtSignature"] = own["thought_signature"]
    return fields


def _extra(own: JsonObject) -> dict[str, Any]:
    return {WIRE: own} if own else {}


# ---- reading -------------------------------------------------------------------------------------------------------


def read_part(given: JsonObject) -> Text | Thinking | Image | File:
    """A part of a history that is neither call nor result."""
    part = camel(given)
    kind = kind_of(part)
    own = read_own(part)
    if kind == "text":
        text = as_text(part.get("text"))
        return Thinking(text, _extra(own)) if own.get("thought") else Text(text, _extra(own))
    if kind in ("inlineData", "fileData"):
        return read_media(part)
    # A kind that has no neutral form goes back to this wire as it came.
    return Text("", {WIRE: {"part": given}})


def read_media(part: JsonObject) -> Image | File:
    """An image or file: its data, or where it lies."""
    own = read_own(part)
    inline = part.get("inlineData")
    blob = camel(as_dict(inline if inline is not None else part.get("fileData")))
    name = as_text(blob.get("displayName"))
    if name:
        own["displayName"] = name
    rest = {field: value for field, value in blob.items() if field not in _BLOB and value is not None}
    if rest:
        own["blob"] = rest
    media_type = as_text(blob.get("mimeType")) or None
    data = _standard(as_text(blob.get("data"))) if inline is not None else None
    url = as_text(blob.get("fileUri")) if inline is None else None
    if (media_type or _guess(url or "") or "image/").startswith("image/"):
        return Image(url, data, media_type, _extra(own))
    return File(name, data, url, media_type, _extra(own))


def _standard(data: str) -> str:
    """Base64 in the alphabet that all wires take: clients of this one also send the alphabet for addresses."""
    if "-" in data or "_" in data:
        data = data.replace("-", "+").replace("_", "/")
    return data + "=" * (-len(data) % 4)


def read_call(given: JsonObject) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back. Its id is empty where the client gave none."""
    part = camel(given)
    call = camel(as_dict(part.get("functionCall")))
    identity = as_text(call.get("id")) or None
    name = as_text(call.get("name"))
    own = read_own(part)
    rest = {field: value for field, value in call.items() if field not in ("id", "name", "args") and value is not None}
    extra = _extra({**own, "call": rest} if rest else own)
    return values.read_call(WIRE, identity or "", name, call.get("args"), identity, extra)


# ---- writing -------------------------------------------------------------------------------------------------------


def write_part(part: Part) -> JsonObject | None:
    """A part as it stands in a content; None for what cannot stand there."""
    if isinstance(part, Text) and not part.extra:
        return {"text": part.text}
    own = own_of(part)
    if "part" in own:
        return as_dict(own["part"])
    if isinstance(part, Text):
        return {"text": part.text, **write_own(own)}
    if isinstance(part, _CALLS):
        return write_call(part)
    if isinstance(part, Thinking):
        return {"text": part.text, **write_own({"thought": True, **own})}
    return write_media(part) if isinstance(part, Image | File) else None


def write_media(part: Image | File) -> JsonObject | None:
    own = own_of(part)
    named = {**({"displayName": own["displayName"]} if "displayName" in own else {}), **as_dict(own.get("blob"))}
    data, media_type = part.data, part.media_type
    held = split_data_url(part.url) if data is None and part.url else None
    if held is not None:
        media_type, data = held
    if data is not None:
        blob = {"mimeType": media_type or _recognise(part, data), "data": data, **named}
        return {"inlineData": blob, **write_own(own)}
    if not part.url:
        return None
    known = media_type or _guess(part.url)
    typed = {"mimeType": known} if known else {}
    return {"fileData": {"fileUri": part.url, **typed, **named}, **write_own(own)}


def write_call(call: ToolCall | InvalidCall) -> JsonObject:
    """A call. One that could not be read goes out without arguments; it never ran."""
    identity = {} if is_anonymous(call) else {"id": call.id}
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    written: JsonObject = {**identity, "name": call.name, "args": arguments}
    if not call.extra:
        return {"functionCall": written}
    own = own_of(call)
    return {"functionCall": {**written, **as_dict(own.get("call"))}, **write_own(own)}


def is_anonymous(call: ToolCall | InvalidCall) -> bool:
    """Whether this wire gave the call without an id; then it and its result are sent back without one."""
    return call.wire_id is None and call.provenance is not None and call.provenance.format == WIRE


def _guess(url: str) -> str:
    """The media type that the end of an address tells, as far as it tells one."""
    end = url.partition("?")[0].rpartition(".")[2].lower()
    return _IMAGES.get(end) or _FILES.get(end) or ""


def _recognise(part: Image | File, data: str) -> str:
    """The media type of data that came without one."""
    fallback = "image/png" if isinstance(part, Image) else _guess(part.name) or "application/octet-stream"
    return find_base64_type(data) or fallback


# --------------------------------------------------------------------------------------------------------------------
# Results of calls: `functionResponse` parts, written and read.
#
# A response is an object on this wire: `{"output": ...}` for a result and `{"error": ...}` for an error. Anything
# else that a client put there is read as JSON text, and goes back to this wire as it came.

# What a response may hold from Gemini 3 on.
_INSIDE = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
_RESULT_FIELDS = frozenset({"id", "name", "response", "parts"})
_NOT_OF_RESULT = frozenset({"response", "parts", "thought_signature", "thought"})


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
        inside += own.get("parts", ())
        if inside:
            body["parts"] = inside
        body.update({name: value for name, value in own.items() if name not in _NOT_OF_RESULT})
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
            return [omit(part, NO_CONTENT, self._losses, _where(result))]
        if isinstance(part, File) and part.name and "displayName" not in own_of(part):
            self._losses.append(Loss("dropped", _where(result), f"the name of its file, {part.name}"))
        fits = self._holds_media and next(iter(media.values())).get("mimeType") in _INSIDE
        if fits or own_of(part).get("inside") is True:
            inside.append(media)
            return []
        self._beside.append(media)
        self._losses.append(Loss("moved", _where(result), f"its {kind} was put beside the results"))
        return [Text(f"[{kind}: attachment {len(self._beside)} behind the results]")]


def _as_text(part: Any) -> Text:
    """A member of a result that is no image and no file, however its author wrote it."""
    return part if isinstance(part, Text) else Text(part if isinstance(part, str) else show(part))


def _where(result: ToolResult) -> str:
    return f"result of {result.name or 'a tool'} ({result.call_id})"


def _respond(result: ToolResult, text: str) -> JsonObject:
    return {"error" if result.is_error else "output": text}


def _read_response(response: JsonObject) -> tuple[str, bool]:
    """The words of a response, and whether they tell an error."""
    if len(response) == 1:
        [(key, value)] = response.items()
        if key in ("output", "error"):
            return (value if isinstance(value, str) else show(value)), key == "error"
    failed = response.get("error") is not None and "output" not in response
    return show(response) if response else "", failed


def read_result(given: JsonObject) -> ToolResult:
    """A result, as a client sends it. `call_id` is empty where the client gave none."""
    body = camel(as_dict(given.get("functionResponse")))
    output = body.get("response")
    response = {} if output is None else output if isinstance(output, dict) else {"output": output}
    text, is_error = _read_response(response)
    result = ToolResult(as_text(body.get("id")), as_text(body.get("name")), text, is_error)
    media = [_read_inside(part) for entry in dicts(body.get("parts")) if _is_media(part := camel(entry))]
    if media:
        words = [Text(text)] if text else []
        result = replace(result, content=[*words, *media])
    own = {name: value for name, value in body.items() if name not in _RESULT_FIELDS} | read_own(given)
    others = [entry for entry in dicts(body.get("parts")) if not _is_media(camel(entry))]
    if others:
        own["parts"] = others
    if response and response != _respond(result, text):
        own["response"] = response
    return replace(result, extra={WIRE: own}) if own else result


def _read_inside(part: JsonObject) -> Image | File:
    """An image or file that a client put inside of a result, where this wire leaves it."""
    media = read_media(part)
    return replace(media, extra={WIRE: {**own_of(media), "inside": True}})


def _is_media(part: JsonObject) -> bool:
    return isinstance(part.get("inlineData"), dict) or isinstance(part.get("fileData"), dict)
