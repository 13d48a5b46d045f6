"""Content blocks, options, errors and tables of Bedrock Converse, in both directions."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.media import is_text_type
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
    Usage,
)
from dragoman.types import ToolResult as Result
from dragoman.wire import values
from dragoman.wire.failures import Loss, fail
from dragoman.wire.media import omit, settle, type_of
from dragoman.wire.values import (
    BROKEN,
    as_count,
    as_dict,
    as_list,
    as_text,
    dicts,
    invert_stops,
    parse,
    show,
    split_data_url,
)
from dragoman.wire.values import describe as describe_failure

# --------------------------------------------------------------------------------------------------------------------
# Tables of Converse: stop reasons, usage, and the families of models.

WIRE = "bedrock"

STOPS: Mapping[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "content_filtered": "refusal",
    "guardrail_intervened": "refusal",
    "malformed_model_output": "error",
    "malformed_tool_use": "error",
}
_REASONS = invert_stops(STOPS, "end_turn")
_CLAUDE = re.compile(r"claude|anthropic", re.IGNORECASE)
_NOVA = re.compile(r"\bnova\b", re.IGNORECASE)


def own(extra: Mapping[str, Any]) -> JsonObject:
    """What only this wire understands of a part."""
    return as_dict(extra.get(WIRE))


def family_of(model: str) -> str:
    """Whose extra fields a model takes: `claude`, `nova`, or none that we know."""
    if _CLAUDE.search(model):
        return "claude"
    return "nova" if _NOVA.search(model) else ""


def reason_of(stop: StopReason, extra: Mapping[str, Any], *, has_calls: bool) -> str:
    """The stop reason for a client: the word that this wire itself gave, or ours for it."""
    reason = as_text(own(extra).get("reason")) or _REASONS[stop]
    # Clients look for calls by this word, and only by this word.
    if reason in ("tool_use", "end_turn"):
        return "tool_use" if has_calls else "end_turn"
    return reason


def read_usage(value: Any) -> Usage | None:
    counts = as_dict(value)
    if not counts:
        return None
    read = as_count(counts.get("cacheReadInputTokens"))
    written = as_count(counts.get("cacheWriteInputTokens"))
    # On this wire the input does not contain what came from the cache or went into it.
    total = as_count(counts.get("inputTokens")) + read + written
    return Usage(total, as_count(counts.get("outputTokens")), read, 0, written)


def write_usage(usage: Usage) -> JsonObject:
    counts: JsonObject = {
        "inputTokens": max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens),
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cached_tokens:
        counts["cacheReadInputTokens"] = usage.cached_tokens
    if usage.cache_write_tokens:
        counts["cacheWriteInputTokens"] = usage.cache_write_tokens
    return counts


# --------------------------------------------------------------------------------------------------------------------
# Errors of Bedrock: named by a header or by the body, and inside a stream by the frame.

_KINDS: dict[str, tuple[FailureKind, int]] = {
    "ThrottlingException": ("rate_limited", 429),
    "ServiceUnavailableException": ("overloaded", 503),
    "AccessDeniedException": ("unauthorized", 403),
    "ValidationException": ("bad_request", 400),
    "ResourceNotFoundException": ("not_found", 404),
    "ModelTimeoutException": ("timed_out", 408),
    "InternalServerException": ("server_error", 500),
    # The first of each kind is the one that a server of ours answers with.
    "ModelErrorException": ("server_error", 424),
    "ModelNotReadyException": ("overloaded", 429),
    "ModelStreamErrorException": ("server_error", 424),
    "ServiceQuotaExceededException": ("rate_limited", 400),
    "UnrecognizedClientException": ("unauthorized", 403),
    "ExpiredTokenException": ("unauthorized", 403),
    "UnknownOperationException": ("not_found", 404),
}
_BY_KIND = {kind: name for name, (kind, _) in reversed(_KINDS.items())} | {
    "context_too_long": "ValidationException",
    "refused": "ValidationException",
    "stream_cut": "ModelErrorException",
}
_IN_STREAM = {
    "ThrottlingException": "throttlingException",
    "ServiceUnavailableException": "serviceUnavailableException",
    "ValidationException": "validationException",
    "InternalServerException": "internalServerException",
}
_TOO_LONG = re.compile(
    r"input is too long|too many input tokens|input tokens? .{0,80}exceed|context (length|window)", re.I
)


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None, code: str = "") -> Failure:
    """What an error answer says. `code` is the name that a frame gave it."""
    if isinstance(body, bytes | str):
        parsed = parse(body)
        text = body if isinstance(body, str) else body.decode("utf-8", "replace")
        body = {"message": text} if parsed is BROKEN or not isinstance(parsed, dict) else parsed
    fields = as_dict(body)
    named = next((value for key, value in (headers or {}).items() if key.lower() == "x-amzn-errortype"), None)
    name = _clean_name(named or code or find_type(fields))
    message = next((fields[key] for key in ("message", "Message", "originalMessage") if fields.get(key)), "")
    failure = fail(message, status=status, code=name, body=body, headers=headers)
    known = _KINDS.get(name[:1].upper() + name[1:])
    if known is None:
        return failure
    kind = known[0]
    # "Too many tokens" is said of a rate here: only a request that is wrong can be wrong for its length.
    if kind == "bad_request" and (failure.kind == "context_too_long" or _TOO_LONG.search(failure.message[:2000])):
        kind = "context_too_long"
    return replace(failure, kind=kind)


def find_type(fields: JsonObject) -> str:
    """The name of an error that stands in a body; an empty text where there is none."""
    inner = as_dict(fields.get("Output"))
    found = (fields.get("__type"), fields.get("code"), fields.get("Code"), inner.get("__type"))
    return next((name for name in found if isinstance(name, str) and name), "")


def _clean_name(name: Any) -> str:
    """`com.amazon#ValidationException:http://...` as `ValidationException`."""
    return name.partition(":")[0].rpartition("#")[2] if isinstance(name, str) else ""


def name_failure(failure: Failure) -> str:
    """Bedrock's name for a failure: its own where it came from there."""
    own = failure.code[:1].upper() + failure.code[1:]
    return (
        own
        if own in _KINDS and _KINDS[own][0] == failure.kind
        else _BY_KIND.get(failure.kind, "InternalServerException")
    )


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    """Status and body. AWS clients look for the name in a header, and else in `__type`."""
    name = name_failure(failure)
    return _KINDS[name][1], {"message": describe_failure(failure), "__type": name}


def write_exception(failure: Failure) -> tuple[str, JsonObject]:
    """The type and the payload of the frame that ends a stream with an error."""
    return _IN_STREAM.get(name_failure(failure), "modelStreamErrorException"), {"message": describe_failure(failure)}


# --------------------------------------------------------------------------------------------------------------------
# Images and documents as Converse carries them: a format and its bytes, or a place in S3.

_IMAGES = ("png", "jpeg", "gif", "webp")
_OFFICE = "application/vnd.openxmlformats-officedocument"
_DOCUMENTS = {
    "pdf": "application/pdf",
    "csv": "text/csv",
    "doc": "application/msword",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
}
_DOCUMENT_FORMATS = {media_type: format for format, media_type in _DOCUMENTS.items()}
# The formats of recordings and videos whose names differ from their media types.
_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav", "quicktime": "mov", "x-matroska": "mkv"}
_FORMATS |= {"x-flv": "flv", "x-ms-wmv": "wmv", "3gpp": "three_gp"}
_SOUNDS = frozenset(
    ["mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a", "mpeg", "mpga", "pcm", "webm"]
)
_VIDEOS = frozenset(["mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"])
# Bedrock takes letters, digits, single blanks, hyphens and brackets in the name of a document.
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9\s()\[\]-]")
_LONGEST_NAME = 200
_NOT_OF_DOCUMENT = ("block", "cachePoint", "location")


def as_blob(value: Any) -> str:
    """Bytes as JSON carries them; whoever reads answers with the AWS client has them as they are."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else as_text(value)


# ---- writing ---------------------------------------------------------------------------------------------------------


def write_image(image: Image) -> JsonObject | None:
    """The block of an image, or None where Converse has no form for it (an address in the web, another format)."""
    media_type, source = _find_source(image)
    format = _image_format(media_type or "", image.url or "")
    return {"image": {"format": format, "source": source}} if source and format else None


def _image_format(media_type: str, url: str) -> str:
    name = media_type.partition("/")[2].lower() if media_type.startswith("image/") else url.rpartition(".")[2].lower()
    name = "jpeg" if name == "jpg" else name
    return name if name in _IMAGES else ""


def write_document(file: File, taken: dict[str, int]) -> JsonObject | None:
    """The block of a document under a name that is not taken yet, or None where Converse has no form for it.

    `taken` counts how often each name was given: two documents of one name are refused.
    """
    media_type, source = _find_source(file)
    format = _document_format(media_type or "", file.name)
    if not source or not format:
        return None
    name = _tell_apart(clean_name(file.name, format), taken)
    rest = {key: value for key, value in own(file.extra).items() if key not in _NOT_OF_DOCUMENT}
    return {"document": {"format": format, "name": name, "source": source, **rest}}


def _document_format(media_type: str, name: str) -> str:
    plain = media_type.partition(";")[0].strip().lower()
    if plain in _DOCUMENT_FORMATS:
        return _DOCUMENT_FORMATS[plain]
    ending = name.rpartition(".")[2].lower()
    if plain in ("", "application/octet-stream") and ending in _DOCUMENTS:
        return ending
    return "txt" if is_text_type(plain) else ""


def write_recording(file: File, *, sounds: bool) -> JsonObject | None:
    """The block of a recording (where one may stand) or of a video; None for anything else."""
    kind, _, form = type_of(file).partition("/")
    form = "mpeg" if kind == "video" and form == "mpeg" else _FORMATS.get(form, form)
    if form not in (_SOUNDS if kind == "audio" and sounds else _VIDEOS if kind == "video" else ()):
        return None
    _, source = _find_source(file)
    return {kind: {"format": form, "source": source}} if source else None


def clean_name(name: str, format: str) -> str:
    """A name that Bedrock takes: without the ending that the format says anyway, and without other signs."""
    stem = name.removesuffix(f".{format}")
    return " ".join(_NOT_IN_NAMES.sub(" ", stem).split())[:_LONGEST_NAME].strip() or "document"


def _tell_apart(name: str, taken: dict[str, int]) -> str:
    unique = name
    while unique in taken:
        taken[name] += 1
        unique = f"{name[: _LONGEST_NAME - 8]} {taken[name]}"
    taken[unique] = 1
    return unique


def _find_source(part: Image | File) -> tuple[str | None, JsonObject]:
    """The media type and the `source` of a part; an empty one for an address that Bedrock cannot read."""
    if part.data:
        return part.media_type, {"bytes": part.data}
    url = part.url or ""
    if url.startswith("s3://"):
        return part.media_type, {"s3Location": {"uri": url, **as_dict(own(part.extra).get("location"))}}
    inline = split_data_url(url)
    return (inline[0], {"bytes": inline[1]}) if inline and inline[1] else (part.media_type, {})


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_image(block: JsonObject) -> Image:
    """The image of an `image` block."""
    image = as_dict(block.get("image"))
    format = as_text(image.get("format"))
    media_type = f"image/{format}" if format else None
    data, url, location = _read_source(image.get("source"))
    if image.keys() - {"format", "source"}:
        return Image(url, data, media_type, {WIRE: {"block": block}})
    return Image(url, data, media_type, {WIRE: {"location": location}} if location else {})


def read_document(block: JsonObject) -> File:
    """The file of a `document` block; one whose source is text goes back to this wire as it came."""
    document = as_dict(block.get("document"))
    format = as_text(document.get("format"))
    media_type = _DOCUMENTS.get(format, f"application/{format}" if format else None)
    data, url, _ = _read_source(document.get("source"))
    rest = {name: value for name, value in document.items() if name not in ("format", "name", "source")}
    kept: JsonObject = rest
    if data is None or format not in _DOCUMENTS:
        kept = {"block": block}
        data = data or _read_words(as_dict(document.get("source")))
        media_type = media_type or "text/plain"
    extra = {WIRE: kept} if kept else {}
    return File(as_text(document.get("name")), data, url, media_type, extra)


def read_other(kind: str, block: JsonObject) -> File:
    """A video or a recording: a file to everyone else, and the same block again to this wire."""
    body = as_dict(block.get(kind))
    data, url, _ = _read_source(body.get("source"))
    return File(kind, data, url, f"{kind}/{as_text(body.get('format')) or '*'}", {WIRE: {"block": block}})


def _read_source(value: Any) -> tuple[str | None, str | None, JsonObject]:
    source = as_dict(value)
    location = as_dict(source.get("s3Location"))
    rest = {name: entry for name, entry in location.items() if name != "uri"}
    return as_blob(source.get("bytes")) or None, as_text(location.get("uri")) or None, rest


def _read_words(source: JsonObject) -> str | None:
    text = as_text(source.get("text")) or "\n".join(
        as_text(entry.get("text")) for entry in dicts(source.get("content"))
    )
    return base64.b64encode(text.encode("utf-8", "replace")).decode() if text else None


# --------------------------------------------------------------------------------------------------------------------
# The blocks of a message: our parts as Converse writes them, and back.
#
# A block without a neutral form is stored in `extra["bedrock"]["block"]` and sent back to this wire unchanged. A cache
# point follows a block; it is stored in the `extra` of the part before it.

_CALLS = (ToolCall, InvalidCall)

# ---- writing ---------------------------------------------------------------------------------------------------------


class BlockWriter:
    """Writes the parts of one request; what Converse cannot hold is told in words, and in the report."""

    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._documents: dict[str, int] = {}

    def write(self, part: Part, where: str, *, documents: bool = True) -> list[JsonObject]:
        """The block of a part, and the cache point behind it. `documents` is whether they may stand here."""
        block = self._write(part, where, documents)
        if block is None:
            return []
        if not part.extra:
            return [block]
        point = own(part.extra).get("cachePoint")
        return [block, {"cachePoint": point}] if isinstance(point, dict) else [block]

    def _write(self, part: Part, where: str, documents: bool) -> JsonObject | None:
        kept = own(part.extra).get("block") if part.extra else None
        if isinstance(kept, dict) and kept:
            return kept
        if isinstance(part, Text):
            return write_text(part)
        if isinstance(part, _CALLS):
            return write_call(part)
        if isinstance(part, Result):
            return self.write_result(part, where)
        if isinstance(part, Thinking):
            return write_thinking(part)
        return self._write_media(settle(part), where, documents, is_result=False)

    def _write_media(self, part: Image | File, where: str, documents: bool, *, is_result: bool) -> JsonObject:
        if isinstance(part, Image):
            return write_image(part) or self._put_in_words(part, where)
        if not documents:
            return self._put_in_words(part, where)
        moving = write_recording(part, sounds=not is_result)
        if moving is not None:
            return moving
        written = write_document(part, self._documents)
        if written is None:
            return self._put_in_words(part, where)
        self._check_name(part, written, where)
        return written

    def _put_in_words(self, part: Image | File, where: str) -> JsonObject:
        why = "Converse takes only content and places in S3" if not part.data else f"Converse takes no {type_of(part)}"
        omit(part, why, self._losses, where)
        return {"text": describe(part)}

    def _check_name(self, file: File, written: JsonObject, where: str) -> None:
        name = written["document"]["name"]
        if name != file.name:
            self._losses.append(Loss("renamed", where, f"the document {file.name!r} is called {name!r} on this wire"))

    def write_result(self, result: Result, where: str = "result") -> JsonObject:
        answers = [Text(result.content)] if isinstance(result.content, str) else result.content
        content = [block for part in answers if (block := self._write_answer(part, where)) is not None]
        written: JsonObject = {"toolUseId": result.call_id, "content": content}
        if result.is_error:
            written["status"] = "error"
        rest = (
            {name: value for name, value in own(result.extra).items() if name != "cachePoint"} if result.extra else {}
        )
        return {"toolResult": {**written, **rest}}

    def _write_answer(self, part: Text | Image | File, where: str) -> JsonObject | None:
        if not isinstance(part, Text):
            kept = as_dict(own(part.extra).get("block"))
            return kept or self._write_media(settle(part), where, True, is_result=True)
        if part.extra and "json" in own(part.extra):
            return {"json": own(part.extra)["json"]}
        if part.text and part.text.isspace():
            self._losses.append(Loss("dropped", where, "a text of blanks alone"))
        return self._write(part, where, documents=True) if part.extra else write_text(part)


def describe(part: Image | File) -> str:
    """The words in place of an image or file that cannot be sent."""
    name = part.name if isinstance(part, File) else ""
    address = part.url if part.url and not part.url.startswith("data:") else ""
    kind = "image" if isinstance(part, Image) else "file"
    return f"[{kind}: {name or address or part.media_type or 'without a name'}]"


def write_text(part: Text) -> JsonObject | None:
    if not part.text or part.text.isspace():
        return None
    citations = own(part.extra).get("citations") if part.extra else None
    if isinstance(citations, list):
        return {
            "citationsContent": {"content": [{"text": part.text}], **({"citations": citations} if citations else {})}
        }
    return {"text": part.text}


def write_thinking(part: Thinking) -> JsonObject | None:
    """A block of reasoning, or None where nothing of it can be shown."""
    opaque = own(part.extra)
    redacted = as_text(opaque.get("redacted"))
    if redacted:
        return {"reasoningContent": {"redactedContent": redacted}}
    signature = as_text(opaque.get("signature"))
    if not part.text and not signature:
        return None
    signed = {"signature": signature} if signature else {}
    return {"reasoningContent": {"reasoningText": {"text": part.text, **signed}}}


def write_call(call: ToolCall | InvalidCall) -> JsonObject:
    """A call. One that could not be read goes out without arguments; it never ran."""
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    written: JsonObject = {"toolUseId": call.id, "name": call.name, "input": arguments}
    if call.extra:
        written.update({name: value for name, value in own(call.extra).items() if name != "cachePoint"})
    return {"toolUse": written}


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_block(block: JsonObject) -> Part:
    """Any block that is neither a call nor a result; one that holds nothing is an empty text."""
    if "text" in block or not any(isinstance(value, dict) for value in block.values()):
        return Text(as_text(block.get("text")))
    if "image" in block:
        return read_image(block)
    if "document" in block:
        return read_document(block)
    for kind in ("video", "audio"):
        if kind in block:
            return read_other(kind, block)
    if "citationsContent" in block:
        cited = as_dict(block["citationsContent"])
        if len(as_list(cited.get("content"))) != 1 or cited.keys() - {"content", "citations"}:
            return Text(cited_words(block), {WIRE: {"block": block}})
        return Text(cited_words(block), {WIRE: {"citations": as_list(cited.get("citations"))}})
    if "reasoningContent" in block:
        return read_thinking(block)
    return Text(_words_of(block), {WIRE: {"block": block}})


def read_thinking(block: JsonObject) -> Thinking:
    text, opaque = open_reasoning(block.get("reasoningContent"))
    return Thinking(text, {WIRE: opaque})


def open_reasoning(value: Any) -> tuple[str, JsonObject]:
    """The words of a `reasoningContent`, and what has to go back with them."""
    content = as_dict(value)
    redacted = as_blob(content.get("redactedContent"))
    if redacted:
        return "", {"redacted": redacted}
    inner = as_dict(content.get("reasoningText"))
    signature = as_text(inner.get("signature"))
    return as_text(inner.get("text")), {"field": "reasoningText", **({"signature": signature} if signature else {})}


def cited_words(block: JsonObject) -> str:
    content = as_dict(block.get("citationsContent")).get("content")
    return "".join(as_text(entry.get("text")) for entry in dicts(content))


def _words_of(block: JsonObject) -> str:
    """What other wires can be told of a block that only this one has."""
    found = as_dict(block.get("searchResult"))
    if found:
        words = [as_text(found.get("title")), as_text(found.get("source"))]
        words += [as_text(entry.get("text")) for entry in dicts(found.get("content"))]
        return "\n".join(filter(None, words))
    return as_text(as_dict(as_dict(block.get("guardContent")).get("text")).get("text"))


def read_call(use: JsonObject, fallback: str) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back."""
    wire_id = as_text(use.get("toolUseId")) or None
    name = as_text(use.get("name"))
    return values.read_call(
        WIRE, wire_id or fallback, name, use.get("input"), wire_id, values.wrap_own(_odd_fields(use), WIRE)
    )


def _odd_fields(use: JsonObject) -> JsonObject:
    rest = {name: value for name, value in use.items() if name not in ("toolUseId", "name", "input", "type")}
    return {**odd_type(use), **rest}


def read_answers(content: Any) -> str | list[Text | Image | File]:
    """The content of a result: a text where it is nothing but one."""
    parts: list[Text | Image | File] = []
    for block in dicts(content):
        if "json" in block:
            parts.append(Text(show(block["json"]) or "[nested too deeply]", {WIRE: {"json": block["json"]}}))
            continue
        part = read_block(block)
        if isinstance(part, Text | Image | File):
            parts.append(part)
    if len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].extra:
        return parts[0].text
    return parts or as_text(content)


def is_servers(use: JsonObject) -> bool:
    """Whether a call is one that the provider runs itself; nobody else may run it."""
    return use.get("type") == "server_tool_use"


def odd_type(use: JsonObject) -> JsonObject:
    """A type of a call that is neither of the two that AWS sends: kept with the call, so that it can be seen."""
    kind = use.get("type")
    return {"type": kind} if kind and kind != "tool_use" else {}
