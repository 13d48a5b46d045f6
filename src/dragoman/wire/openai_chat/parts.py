"""Message parts, reasoning, errors and tables of chat completions, in both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dragoman.media import find_base64_type, is_text_type, type_of_name
from dragoman.types import (
    Failure,
    FailureKind,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from dragoman.wire import values
from dragoman.wire.failures import Loss, fail, status_of
from dragoman.wire.media import NO_CONTENT, omit, settle, spell_out, type_of
from dragoman.wire.quirks import Quirks
from dragoman.wire.values import (
    as_blocks,
    as_count,
    as_dict,
    as_list,
    as_text,
    data_url,
    describe,
    dicts,
    invert_stops,
    join_thinking,
    split_data_url,
    write,
)

# --------------------------------------------------------------------------------------------------------------------
# Tables of chat completions.

_STOPS: dict[str, StopReason] = {
    "stop": "end",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "content_filter": "refusal",
}
# OpenAI has no word for an error; this one is Mistral's, watsonx's and OpenRouter's, and any other would hide it.
FINISHES = {**invert_stops(_STOPS, "stop"), "error": "error"}
# Words of other servers of this wire: Mistral, Zhipu, DeepSeek, watsonx, SGLang, TGI, and gateways that pass on the
# word of another wire, in small letters or in capitals.
STOPS: Mapping[str, StopReason] = {
    **_STOPS,
    **dict.fromkeys(("model_length", "model_context_window_exceeded", "max_tokens", "max_output_tokens"), "length"),
    "stop_sequence": "stop_sequence",
    **dict.fromkeys(("sensitive", "refusal", "content_filtered", "guardrail_intervened"), "refusal"),
    **dict.fromkeys(("safety", "recitation", "language", "blocklist", "prohibited_content", "spii"), "refusal"),
    **dict.fromkeys(("image_safety", "image_prohibited_content", "image_recitation", "image_other"), "refusal"),
    **dict.fromkeys(("error", "network_error", "insufficient_system_resource", "abort", "cancelled"), "error"),
    **dict.fromkeys(("time_limit", "malformed_function_call", "malformed_response", "other"), "error"),
}
NO_REASON = "null"
"""What DashScope says in place of a reason in every chunk but the last."""
# Where servers count what came from the cache, if not among the details.
_CACHED = ("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens")
_WRITTEN = ("cache_write_tokens", "cache_creation_tokens")


_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
# Servers of both APIs of OpenAI may count in the words of the other one.
_OF_RESPONSES = {
    "input_tokens": "prompt_tokens",
    "output_tokens": "completion_tokens",
    "input_tokens_details": "prompt_tokens_details",
    "output_tokens_details": "completion_tokens_details",
}


def read_usage(value: object) -> Usage | None:
    counts = as_dict(value)
    if not counts:
        return None
    if "prompt_tokens" not in counts and "completion_tokens" not in counts:
        counts = {name: counts[other] for other, name in _OF_RESPONSES.items() if other in counts} or counts
    sent, written = as_count(counts.get("prompt_tokens")), as_count(counts.get("completion_tokens"))
    given = as_dict(counts.get("prompt_tokens_details"))
    made = as_dict(counts.get("completion_tokens_details"))
    cached = as_count(given.get("cached_tokens")) if given else 0
    if not cached and len(counts) > len(_COUNTS):
        cached = next((as_count(counts[name]) for name in _CACHED if counts.get(name)), 0)
    if not given and not made:
        return Usage(sent, written, cached)
    kept = next((as_count(given[name]) for name in _WRITTEN if given.get(name)), 0)
    return Usage(sent, written, cached, as_count(made.get("reasoning_tokens")), kept)


def write_usage(usage: Usage) -> dict[str, object]:
    counts: dict[str, object] = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.cached_tokens or usage.cache_write_tokens:
        given = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.cache_write_tokens}
        counts["prompt_tokens_details"] = {name: count for name, count in given.items() if count}
    if usage.reasoning_tokens:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return counts


# --------------------------------------------------------------------------------------------------------------------
# Errors of chat completions, in the shapes that servers of this wire give them.

TYPES: dict[FailureKind, str] = {
    "rate_limited": "rate_limit_error",
    "unauthorized": "authentication_error",
    "bad_request": "invalid_request_error",
    "context_too_long": "invalid_request_error",
    "refused": "invalid_request_error",
    "not_found": "not_found_error",
}


TOO_LONG = "This model's maximum context length is exceeded", "maximum context length"
# MiniMax answers with status 200 and a number of its own.
_STATUS_OF_BASE_RESP = {1002: 429, 1004: 401, 1008: 402, 1039: 429, 2013: 400, 2049: 401}


def is_failure(body: JsonObject) -> bool:
    """Whether a body or a chunk with status 200 tells of an error."""
    if body.get("error") or body.get("object") == "error":
        return True
    if body.get("choices") is not None:
        return False
    if body.get("errors") or body.get("error_message") or body.get("success") is False:
        return True
    if isinstance(body.get("message"), str) and "error" in f"{body.get('type')} {body.get('code')}".lower():
        return True
    return bool(as_dict(body.get("base_resp")).get("status_code"))


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    """What an error body says: `{"error": {...}}`, `{"error": "text"}`, `{"errors": [...]}`, `{"message"}`,
    `{"detail"}`, or mere text."""
    whole = body[0] if isinstance(body, list) and body else body
    fields = as_dict(whole)
    if base := as_dict(fields.get("base_resp")):
        number = as_count(base.get("status_code"))
        status = status or _STATUS_OF_BASE_RESP.get(number)
        return fail(base.get("status_msg"), status=status, code=number, body=body, headers=headers)
    error = fields.get("error", whole)
    several = list(dicts(fields.get("errors")))
    inner = several[0] if several else as_dict(error)
    code = inner.get("code") or inner.get("type") or fields.get("error_type")
    status = status or next(filter(_is_status, (inner.get("code"), fields.get("status_code"))), None)
    message = inner.get("message") or inner.get("detail") or (error if isinstance(error, str) else None)
    if len(several) > 1:
        message = "; ".join(filter(None, [as_text(each.get("message")) for each in several]))
    message = message or next((fields[name] for name in _MESSAGES if isinstance(fields.get(name), str)), "")
    return fail(message, status=status, code=code, body=body, headers=headers)


_MESSAGES = ("message", "error_message", "msg")


def _is_status(number: Any) -> bool:
    return type(number) is int and 400 <= number < 600


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    code = "context_length_exceeded" if failure.kind == "context_too_long" else failure.code or None
    return write_error_body(failure, TYPES.get(failure.kind, "server_error"), code)


def write_error_body(failure: Failure, kind: str, code: str | None) -> tuple[int, JsonObject]:
    """The status and the body of an error answer, as both APIs of OpenAI give it."""
    message = describe(failure, *TOO_LONG)
    return status_of(failure), {"error": {"message": message, "type": kind, "param": None, "code": code}}


# --------------------------------------------------------------------------------------------------------------------
# Parts of chat messages: our texts, images, files and calls as this wire writes them, and back.

_ODD_FIELDS = frozenset({"custom", "extra_content"})
_MARKS = frozenset({"refusal", "annotations"})
"""What a reply says of its text beside it, and not in a block."""

# ---- content -------------------------------------------------------------------------------------------------------


def settle_media(message: Message, wire: str, losses: list[Loss]) -> Message:
    """The message without what this wire cannot carry: a file id of another one, a file by address. Words say so."""
    if any([part.extra and "annotations" in as_dict(part.extra.get(wire)) for part in message.parts]):
        losses.append(Loss("dropped", "history", "annotations of an answer, which this wire takes from nobody"))
    if not any([isinstance(part, Image | File) for part in message.parts]):
        return message
    parts = [
        _settle_part(part, wire, message, losses) if isinstance(part, Image | File) else part for part in message.parts
    ]
    return Message(message.role, parts, message.extra)


def _settle_part(part: Image | File, wire: str, message: Message, losses: list[Loss]) -> Part:
    if "block" in as_dict(part.extra.get(wire)):
        return part
    part = settle(part)
    if wire == "openai_chat" and message.role == "user" and not part.extra.get(wire):
        # The vendor takes PDF files here, and most compatible servers no files at all; all of them take text.
        words = spell_out(part, losses)
        if words is not None:
            return words
    why = _find_obstacle(part, wire, message)
    return omit(part, why, losses) if why else part


def _find_obstacle(part: Image | File, wire: str, message: Message) -> str:
    own = as_dict(part.extra.get(wire))
    if message.role == "assistant" and wire != "cohere" and not ("audio" in own or _has_blocks(message, wire)):
        return "the assistant cannot show it on this wire"
    if own.keys() & {"block", "file_id", "file_data", "audio"}:
        return ""
    if part.data is None and not part.url:
        return NO_CONTENT
    if not isinstance(part, File):
        return ""
    kind = type_of(part)
    if kind.startswith("video/"):
        return "this wire takes no videos"
    if wire == "openai_chat":
        if part.data is None:
            return "this wire takes no files by address, only their content"
        if kind.startswith("audio/") and _audio_format(part) is None:
            return f"this wire takes recordings as wav and mp3, not as {kind}"
    return ""


def _has_blocks(message: Message, wire: str) -> bool:
    """Whether a client of this wire sent an answer as a list of blocks."""
    return as_dict(message.extra.get(wire)).get("blocks") is True


def _audio_format(part: File) -> str | None:
    kinds = {"wav": "wav", "x-wav": "wav", "wave": "wav", "vnd.wave": "wav", "mpeg": "mp3", "mp3": "mp3"}
    kind, _, format = type_of(part).partition("/")
    return kinds.get(format) if kind == "audio" else None


def write_content(parts: list[Part], wire: str) -> str | list[JsonObject]:
    """The content of a user message: a text where it is nothing but one, else a list of blocks."""
    if len(parts) == 1 and isinstance(parts[0], Text) and wire not in parts[0].extra:
        return parts[0].text
    return [block for part in parts if (block := write_block(part, wire)) is not None]


def write_block(part: Part, wire: str) -> JsonObject | None:
    if isinstance(part, Text) and not part.extra:
        return {"type": "text", "text": part.text}
    own = as_dict(getattr(part, "extra", {}).get(wire))
    if "block" in own:
        return as_dict(own["block"])
    if isinstance(part, Text):
        kept = {name: value for name, value in own.items() if name not in _MARKS}
        return {"type": "text", "text": part.text, **kept}
    if not isinstance(part, Image | File):
        return None
    inside = {name: value for name, value in own.items() if name != "beside"}
    return {**_write_media(part, wire, inside), **as_dict(own.get("beside"))}


def _write_media(part: Image | File, wire: str, own: JsonObject) -> JsonObject:
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": {"url": data_url(part), **own}}
    if wire == "mistral" and type_of(part).startswith("audio/"):
        return {"type": "input_audio", "input_audio": part.data or part.url}
    if wire == "mistral":
        named = {"document_name": part.name} if part.name else {}
        return {"type": "document_url", "document_url": data_url(part), **named, **own}
    sound = _audio_format(part) if part.data and not own else None
    if sound is not None:
        return {"type": "input_audio", "input_audio": {"data": part.data, "format": sound}}
    named = {"filename": part.name} if part.name else {}
    file = {"file_data": data_url(part), **named} if part.data or part.url else {}
    return {"type": "file", "file": {**file, **own}}


def read_content(content: Any, wire: str) -> list[Part]:
    """The parts of a message's content, whatever form it has."""
    return [read_block(block, wire) for block in as_blocks(content)]


def read_block(block: JsonObject | str, wire: str) -> Part:
    if isinstance(block, str):
        return Text(block)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        own = {name: value for name, value in block.items() if name not in ("type", "text")}
        return Text(block["text"], {wire: own} if own else {})
    if kind == "image_url":
        return _read_image(block, wire)
    if kind == "document_url":
        url = as_text(block.get("document_url"))
        data = split_data_url(url)
        name = as_text(block.get("document_name"))
        extra = _keep_beside({}, block, ("type", "document_url", "document_name"), wire)
        return File(name, None, url, None, extra) if data is None else File(name, data[1], None, data[0], extra)
    if kind == "file" and isinstance(block.get("file"), dict):
        return _read_file(block, wire)
    if kind == "input_audio" and wire == "openai_chat":
        return _read_audio(block, wire)
    if kind == "input_audio" and wire == "mistral" and isinstance(block.get("input_audio"), str):
        return _read_recording(block, wire)
    # A kind that has no neutral form goes back to this wire as it came.
    return Text("", {wire: {"block": block}})


def _keep_beside(own: JsonObject, block: JsonObject, known: tuple[str, ...], wire: str) -> dict[str, Any]:
    """What this wire says inside of a block, and beside its content."""
    beside = {name: value for name, value in block.items() if name not in known and value is not None}
    kept = {**own, "beside": beside} if beside else own
    return {wire: kept} if kept else {}


def _read_file(block: JsonObject, wire: str) -> File:
    file = block["file"]
    own = {name: value for name, value in file.items() if name not in ("file_data", "filename")}
    extra = _keep_beside(own, block, ("type", "file"), wire)
    name = as_text(file.get("filename"))
    given = as_text(file.get("file_data"))
    data = split_data_url(given)
    if data is not None and is_text_type(data[0]):
        # From elsewhere a text file goes out as text, and back to this wire as it came.
        extra = {wire: {"block": block}}
    return File(name, None, given or None, None, extra) if data is None else File(name, data[1], None, data[0], extra)


def _read_audio(block: JsonObject, wire: str) -> File | Text:
    sound = as_dict(block.get("input_audio"))
    format, data = as_text(sound.get("format")), as_text(sound.get("data"))
    if format not in ("wav", "mp3") or not data or len(sound) > 2:
        return Text("", {wire: {"block": block}})
    media_type = "audio/wav" if format == "wav" else "audio/mpeg"
    return File("", data, None, media_type, _keep_beside({}, block, ("type", "input_audio"), wire))


def _read_recording(block: JsonObject, wire: str) -> File:
    """Mistral's recordings: data, or an address."""
    given: str = block["input_audio"]
    extra = {wire: {"block": block}}
    if given.startswith(("http://", "https://")):
        return File("", None, given, type_of_name(given) or "audio/*", extra)
    media_type, data = split_data_url(given) or (find_base64_type(given), given)
    return File("", data, None, media_type or "audio/*", extra)


def _read_image(block: JsonObject, wire: str) -> Image:
    given = block.get("image_url")
    image = {"url": given} if isinstance(given, str) else as_dict(given)
    own = {name: value for name, value in image.items() if name != "url"}
    extra = _keep_beside(own, block, ("type", "image_url"), wire)
    url = as_text(image.get("url"))
    data = split_data_url(url)
    return Image(url, extra=extra) if data is None else Image(None, data[1], data[0], extra)


# ---- calls -----------------------------------------------------------------------------------------------------------


def write_call(call: ToolCall | InvalidCall, wire: str) -> JsonObject:
    """A call of an assistant message. A call that could not be read goes out without arguments; it never ran."""
    own = as_dict(call.extra.get(wire)) if call.extra else {}
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    written: JsonObject = {"id": call.id, "type": "function"}
    inside = as_dict(own.get("inside"))
    if own.get("type") == "custom":
        written["type"] = "custom"
        written["custom"] = {"name": call.name, "input": as_text(arguments.get("input")), **inside}
    else:
        written["function"] = {"name": call.name, "arguments": write(arguments), **inside}
    return {**written, **{name: own[name] for name in own if name not in ("type", "inside")}} if own else written


_INNER = frozenset({"name", "arguments", "parameters", "input", "index"})
_CALL = frozenset({"id", "call_id", "type", "index", "function", "custom", "name", "arguments", "parameters"})


def name_and_arguments(entry: JsonObject) -> tuple[Any, Any, JsonObject]:
    """The name, the arguments and this wire's own fields of a call, in the shapes that servers give it."""
    own: JsonObject = {}
    if not _ODD_FIELDS.isdisjoint(entry):
        custom = as_dict(entry.get("custom"))
        if any(custom.values()) and (entry.get("type") == "custom" or not any(as_dict(entry.get("function")).values())):
            return custom.get("name"), {"input": as_text(custom.get("input"))}, {"type": "custom"}
        if isinstance(entry.get("extra_content"), dict):
            own["extra_content"] = entry["extra_content"]
    function = entry.get("function")
    body = function if isinstance(function, dict) else entry
    arguments = body["arguments"] if "arguments" in body else body.get("parameters")
    return body.get("name"), arguments, own


def identity_of(entry: JsonObject) -> str | None:
    """The id that a server gave a call; some give a number."""
    given = entry.get("id") or entry.get("call_id")
    if isinstance(entry.get("id"), int) and not isinstance(entry["id"], bool):
        given = str(entry["id"])
    return given if isinstance(given, str) else None


def read_call(entry: JsonObject, wire: str, fallback: str) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back."""
    name, arguments, own = name_and_arguments(entry)
    given = entry.get("id") or entry.get("call_id")
    wire_id = given if isinstance(given, str) else None
    known = arguments if isinstance(arguments, str | dict) else None
    # The index of a call in a history says what its place says.
    own |= {field: value for field, value in entry.items() if field not in _CALL and value is not None}
    inner = entry.get("custom" if own.get("type") == "custom" else "function")
    inside = {field: value for field, value in as_dict(inner).items() if field not in _INNER and value is not None}
    if inside:
        own["inside"] = inside
    extra = {wire: own} if own else {}
    return values.read_call(wire, wire_id or fallback, as_text(name), known, wire_id, extra)


# --------------------------------------------------------------------------------------------------------------------
# Reasoning on chat completions: four fields in which servers give it, and some want it back.

_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
OPAQUE = "reasoning_opaque"
"""What Copilot gives beside the readable reasoning, to be sent back."""
REASONING_FIELDS = frozenset({*_FIELDS, "reasoning_details", OPAQUE})
_GROWING = ("text", "summary", "data", "signature")


def find_reasoning(message: JsonObject) -> tuple[str, str]:
    """The readable reasoning in a message or delta, and the field that it stood in."""
    if REASONING_FIELDS.isdisjoint(message):
        return "", ""
    for name in _FIELDS:
        value = message.get(name)
        if isinstance(value, str) and value:
            return name, value
    details = list(dicts(message.get("reasoning_details")))
    text = "".join(as_text(entry.get("text")) or as_text(entry.get("summary")) for entry in details)
    if details:
        return "reasoning_details", text
    return ("reasoning_text", "") if as_text(message.get(OPAQUE)) else ("", "")


class Details:
    """`reasoning_details` put together from the pieces of a stream, to be sent back as if they had come whole."""

    def __init__(self) -> None:
        self._entries: list[JsonObject] = []

    def add(self, pieces: Any) -> None:
        for piece in dicts(pieces):
            last = self._entries[-1] if self._entries else None
            if last is not None and _continues(last, piece):
                for name, value in piece.items():
                    grows = name in _GROWING and isinstance(value, str) and isinstance(last.get(name), str)
                    last[name] = last[name] + value if grows else value
            else:
                self._entries.append(dict(piece))

    def take(self) -> list[JsonObject]:
        entries, self._entries = self._entries, []
        return entries


def _continues(last: JsonObject, piece: JsonObject) -> bool:
    return piece.get("index") is not None and all(last.get(name) == piece.get(name) for name in ("index", "type"))


def write_reasoning(body: JsonObject, message: Message, wire: str, quirks: Quirks, *, has_calls: bool) -> None:
    """Put reasoning back into an assistant message, if this endpoint wants it there."""
    if not quirks.reasoning_field:
        return
    if quirks.replay_reasoning != "always" and not (quirks.replay_reasoning == "calls" and has_calls):
        return
    thinking = [part for part in message.parts if isinstance(part, Thinking)]
    if quirks.reasoning_field == "reasoning_details":
        details = [entry for part in thinking for entry in as_list(as_dict(part.extra.get(wire)).get("details"))]
        body.update({"reasoning_details": details} if details else {})
        return
    if quirks.reasoning_field == "reasoning_text":
        _write_opaque(body, thinking, wire)
        return
    text = join_thinking(thinking)
    if quirks.reasoning_field == "think_tags":
        body["content"] = f"<think>{text}</think>{body.get('content') or ''}" if text else body.get("content")
    else:
        # An empty text stands for a turn of another model: leaving the field out is refused.
        body[quirks.reasoning_field] = text


def _write_opaque(body: JsonObject, thinking: list[Thinking], wire: str) -> None:
    """Put Copilot's reasoning back; that of other servers of this wire has no opaque part, and is refused."""
    made = [part for part in thinking if as_dict(part.extra.get(wire)).get("field") == "reasoning_text"]
    text = join_thinking(made)
    opaque = "".join([as_text(as_dict(part.extra.get(wire)).get("opaque")) for part in made])
    body.update({"reasoning_text": text} if text else {})
    body.update({OPAQUE: opaque} if opaque else {})


_THINKING = ("signature", "closed", "thinking")


def thinking_block(text: str, own: JsonObject) -> JsonObject:
    """Reasoning as a block of the content, the way Mistral writes it."""
    kept = {name: own[name] for name in _THINKING if name in own}
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **kept}


def write_thinking_blocks(body: JsonObject, message: Message, wire: str) -> None:
    """Put reasoning back into the content of an assistant message."""
    blocks: list[JsonObject] = [
        thinking_block(part.text, as_dict(part.extra.get(wire))) for part in message.parts if isinstance(part, Thinking)
    ]
    if blocks:
        text = as_text(body.get("content"))
        body["content"] = blocks + ([{"type": "text", "text": text}] if text else [])


def read_thinking_block(block: JsonObject) -> tuple[str, JsonObject]:
    """The text of such a block, and what only its wire understands of it."""
    if block.get("type") == "reasoning":
        return _read_reasoning_block(block)
    inner = block.get("thinking")
    text = inner if isinstance(inner, str) else "".join(as_text(entry.get("text")) for entry in dicts(inner))
    kept = {name: block[name] for name in _THINKING if block.get(name) is not None}
    if isinstance(inner, list) and any(isinstance(entry, dict) and entry.keys() != {"type", "text"} for entry in inner):
        # With a reference, say, which is no text.
        kept["thinking"] = inner
    elif "thinking" in kept:
        del kept["thinking"]
    return text, {"field": "thinking", **kept}


def _read_reasoning_block(block: JsonObject) -> tuple[str, JsonObject]:
    """The same of a block as Databricks gives it, with the signature in the summary."""
    entries = list(dicts(block.get("summary")))
    text = "".join(as_text(entry.get("text")) for entry in entries)
    signature = "".join(as_text(entry.get("signature")) for entry in entries)
    return text, {"field": "reasoning", **({"signature": signature} if signature else {})}
