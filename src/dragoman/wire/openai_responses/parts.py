"""Items, content, tools, options, errors and tables of Responses, in both directions."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
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
    Message,
    Part,
    Request,
    StopReason,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire import options as neutral
from dragoman.wire import values
from dragoman.wire.aliases import IdRule
from dragoman.wire.codec import Offer, Offered, as_object, wants_strict
from dragoman.wire.failures import Loss, fail
from dragoman.wire.media import NO_CONTENT, omit, settle, type_of
from dragoman.wire.openai_chat.parts import TOO_LONG, TYPES, write_error_body
from dragoman.wire.options import (
    OptionTable,
    add_own,
    keep_unknown,
    place_tools,
    report_choice,
    settle_choice,
    unsupported_options,
    write_parallel,
)
from dragoman.wire.quirks import Quirks
from dragoman.wire.values import (
    as_count,
    as_dict,
    as_list,
    as_text,
    describe,
    dicts,
    mark_error,
    parse,
    split_data_url,
    wrap_own,
    write,
)

# --------------------------------------------------------------------------------------------------------------------
# Tables of the Responses API: types of items, stop reasons, usage.

WIRE = "openai_responses"
IDS = IdRule(r"(?s).+", 64)

FUNCTION = "function_call"
CUSTOM = "custom_tool_call"
OUTPUTS = {FUNCTION: "function_call_output", CUSTOM: "custom_tool_call_output"}
"""The item that answers each kind of call."""
_RUN_BY_XAI = frozenset({"x_user_search", "x_keyword_search", "x_semantic_search", "x_thread_fetch", "view_x_video"})


def is_servers(fields: JsonObject) -> bool:
    """Whether a call is one that the provider runs itself: xAI tells of its searches as custom calls."""
    if fields.get("type") != CUSTOM:
        return False
    return fields.get("name") in _RUN_BY_XAI or as_text(fields.get("call_id")).startswith("xs_call")


def read_stop(response: JsonObject, status: str, *, refused: bool) -> tuple[StopReason, str]:
    """Why a response ended, in our word and in the wire's."""
    if status == "incomplete":
        reason = as_text(as_dict(response.get("incomplete_details")).get("reason"))
        # Whatever interrupted it, the last item may be half of what was meant: only `length` says that safely.
        return ("refusal" if reason == "content_filter" else "length"), reason or status
    if status in ("queued", "in_progress"):
        return "pause", status
    return ("refusal" if refused else "end"), status


def write_stop(stop: StopReason, own: JsonObject) -> tuple[str, JsonObject | None]:
    """The status of a response and, where it is incomplete, the details."""
    if stop == "length":
        reason = as_text(own.get("reason"))
        known = reason in ("max_messages", "steered", "max_output_tokens")
        return "incomplete", {"reason": reason if known else "max_output_tokens"}
    if stop == "refusal":
        return "incomplete", {"reason": "content_filter"}
    return ("failed" if stop == "error" else "completed"), None


def read_usage(given: Any) -> Usage | None:
    if not isinstance(given, dict):
        return None
    received = as_dict(given.get("input_tokens_details"))
    made = as_dict(given.get("output_tokens_details"))
    return Usage(
        as_count(given.get("input_tokens")),
        as_count(given.get("output_tokens")),
        as_count(received.get("cached_tokens")),
        as_count(made.get("reasoning_tokens")),
        as_count(received.get("cache_write_tokens")),
    )


def write_usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


# --------------------------------------------------------------------------------------------------------------------
# Errors of the Responses API: bodies, frames and failed responses, read and written.

_CODES: dict[FailureKind, str] = {
    "rate_limited": "rate_limit_exceeded",
    "overloaded": "server_is_overloaded",
    "unauthorized": "invalid_api_key",
    "bad_request": "invalid_prompt",
    "context_too_long": "context_length_exceeded",
    "refused": "content_filter",
    "not_found": "model_not_found",
    "timed_out": "timeout",
}
# Words that clients of this wire act upon: they stay as they are.
_KNOWN_CODES = frozenset(
    {
        *_CODES.values(),
        "insufficient_quota",
        "server_error",
        "usage_not_included",
        "invalid_encrypted_content",
        "previous_response_not_found",
        "content_policy_violation",
    }
)
# A response that failed may only name a few of them; the others stand beside it, as its type.
_RESPONSE_CODES = frozenset({"rate_limit_exceeded", "server_error", "invalid_prompt", "context_length_exceeded"})
_FAULTS_OF_REQUEST = frozenset({"unauthorized", "bad_request", "refused", "not_found"})
_TYPES: dict[FailureKind, str] = {**TYPES, "not_found": "invalid_request_error"}


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    """What an error says: `{"error": {...}}`, `{"error": "text"}`, a frame `{"type": "error", ...}`, or mere text."""
    given = as_object(body) or body if isinstance(body, bytes | str) else body
    whole = given[0] if isinstance(given, list) and given else given
    fields = as_dict(whole)
    error = fields.get("error") or whole
    inner = as_dict(error)
    kind = inner.get("type")
    code = inner.get("code") or (kind if kind != "error" else None)
    if isinstance(code, str) and code in _RESPONSE_CODES and isinstance(kind, str) and kind in _KNOWN_CODES:
        code = kind
    if status is None and isinstance(inner.get("code"), int) and 400 <= inner["code"] < 600:
        status = inner["code"]
    plain = error.decode("utf-8", "replace") if isinstance(error, bytes) else error
    message = inner.get("message") or inner.get("detail") or fields.get("message") or fields.get("detail")
    if message is None and isinstance(plain, str):
        message = plain
    failure = fail(message, status=status, code=code, body=body, headers=headers)
    if failure.kind == "bad_request" and failure.code.startswith(("content_filter", "content_policy")):
        # It has the status of a bad request, but another request may help where a corrected one does not.
        return replace(failure, kind="refused")
    return failure


def write_error(failure: Failure) -> JsonObject:
    """The error object of a failed response."""
    message = describe(failure, *TOO_LONG)
    code = _code_of(failure)
    if code in _RESPONSE_CODES:
        return {"code": code, "message": message}
    named = "invalid_prompt" if failure.kind in _FAULTS_OF_REQUEST else "server_error"
    return {"code": named, "message": message, "type": code}


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    """The status and the body of an error answer."""
    return write_error_body(failure, _TYPES.get(failure.kind, "server_error"), _code_of(failure))


def _code_of(failure: Failure) -> str:
    return failure.code if failure.code in _KNOWN_CODES else _CODES.get(failure.kind, "server_error")


# --------------------------------------------------------------------------------------------------------------------
# Texts, images and files as this wire writes them in messages and results, and back.

_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_OWN = ("file_id", "prompt_cache_breakpoint", "bare")
_PART_FIELDS = (
    *_OWN,
    *("text", "annotations", "logprobs", "detail", "image_url", "filename", "file_data", "file_url", "input_audio"),
)

# ---- writing -------------------------------------------------------------------------------------------------------


def write_content(parts: Iterable[Part], losses: list[Loss]) -> str | list[JsonObject]:
    """The content of a message: a text where it is nothing but one, else a list."""
    given = list(parts)
    if not given:
        return ""
    if len(given) == 1 and isinstance(given[0], Text) and WIRE not in given[0].extra:
        return given[0].text
    return write_parts(given, losses)


def write_parts(parts: Iterable[Part], losses: list[Loss]) -> list[JsonObject]:
    return [_write_part(part, losses) for part in parts if isinstance(part, Text | Image | File)]


def _write_part(part: Text | Image | File, losses: list[Loss]) -> JsonObject:
    own = as_dict(part.extra.get(WIRE))
    whole = own.get("part")
    if isinstance(whole, dict):
        return whole
    kept = {name: own[name] for name in _OWN if name in own}
    bare = kept.pop("bare", False)
    kept |= as_dict(own.get("beside"))
    if isinstance(part, Text):
        kept.pop("file_id", None)
        return {"type": "input_text", "text": part.text, **kept}
    part = settle(part)
    if isinstance(part, Image):
        return _write_media(part, {"detail": as_text(own.get("detail"), "auto"), **kept}, losses)
    if own.get("detail") is not None:
        kept["detail"] = own["detail"]
    written = _write_media(part, kept, losses)
    return {**written, "file_data": part.data} if bare and "file_data" in written else written


def _write_media(part: Image | File, kept: JsonObject, losses: list[Loss]) -> JsonObject:
    kind, name = ("image", "") if isinstance(part, Image) else ("file", part.name)
    if part.data is not None or part.url:
        kept.pop("file_id", None)
        family = type_of(part).partition("/")[0]
        if family in ("audio", "video"):
            kinds = "recordings" if family == "audio" else "videos"
            return {"type": "input_text", "text": omit(part, f"this wire takes no {kinds}", losses).text}
    if part.data is not None:
        media = part.media_type or find_base64_type(part.data)
        if media is None and kind == "image":
            losses.append(Loss("guessed", "image", "an image without a media type is sent as image/png"))
        media = media or ("image/png" if kind == "image" else "application/octet-stream")
        named = {"filename": name} if name else {}
        field = "image_url" if kind == "image" else "file_data"
        return {"type": f"input_{kind}", **named, field: f"data:{media};base64,{part.data}", **kept}
    if part.url:
        # An address has its name in itself: the API refuses a second one.
        return {"type": f"input_{kind}", f"{kind}_url": part.url, **kept}
    if "file_id" in kept:
        return {"type": f"input_{kind}", **kept}
    words = omit(part, NO_CONTENT, losses)
    return {"type": "input_text", "text": words.text}


# ---- reading -------------------------------------------------------------------------------------------------------


def read_content(content: Any) -> list[Text | Image | File]:
    """The parts of a content, which is a text or a list of parts."""
    if isinstance(content, str):
        return [Text(content)]
    entries = content if isinstance(content, list) else [content] if isinstance(content, dict) else []
    return [part for entry in entries if (part := _read_part(entry)) is not None]


def _read_part(entry: Any) -> Text | Image | File | None:
    if isinstance(entry, str):
        return Text(entry)
    if not isinstance(entry, dict):
        return None
    kind = entry.get("type")
    own = {name: entry[name] for name in _OWN if entry.get(name) is not None} | keep_beside(entry, _PART_FIELDS)
    if kind == "input_image":
        return _read_image(entry, own)
    if kind == "input_file":
        return _read_file(entry, own)
    if isinstance(kind, str) and kind in _TEXTS and isinstance(entry.get("text"), str):
        own.pop("file_id", None)
        return Text(entry["text"], {WIRE: own} if own else {})
    if kind == "input_audio":
        sound = as_dict(entry.get("input_audio"))
        format = as_text(sound.get("format"), "wav")
        data = sound.get("data")
        return File(f"audio.{format}", as_text(data) or None, None, f"audio/{format}", {WIRE: {"part": entry}})
    # A kind that is not known here: its own wire gets it back as it was, others see what it said.
    return Text(write(entry), {WIRE: {"part": entry}})


def _read_image(entry: JsonObject, own: JsonObject) -> Image:
    if entry.get("detail") not in (None, "auto"):
        own["detail"] = entry["detail"]
    extra = {WIRE: own} if own else {}
    address = entry.get("image_url")
    url = as_text(address.get("url") if isinstance(address, dict) else address)
    inside = split_data_url(url)
    if inside is not None:
        return Image(None, inside[1], inside[0] or None, extra)
    return Image(url or None, extra=extra)


def _read_file(entry: JsonObject, own: JsonObject) -> File:
    if entry.get("detail") is not None:
        own["detail"] = entry["detail"]
    extra = {WIRE: own} if own else {}
    name = as_text(entry.get("filename"))
    data = entry.get("file_data")
    if isinstance(data, str):
        media, plain = split_data_url(data) or ("", data)
        if plain is data:
            own["bare"] = True
            extra = {WIRE: own}
        return File(name, plain, None, media or None, extra)
    return File(name, None, as_text(entry.get("file_url")) or None, None, extra)


# --------------------------------------------------------------------------------------------------------------------
# Calls, results and reasoning: the items that are the same in requests and in replies.

_CALL_FIELDS = ("id", "status", "namespace", "caller", "async")
_RESULT_FIELDS = ("id", "status", "caller", "name", "namespace")
REASONING = ("id", "summary", "content", "encrypted_content", "status")
_SHOWN = ("id", "summary", "content")
_SEAL = "dragoman"


def own_of(part: Any) -> JsonObject:
    """What this wire once said of a part."""
    return as_dict(part.extra.get(WIRE))


def keep_beside(item: JsonObject, known: Iterable[str]) -> JsonObject:
    """The fields of a client's item that are not known here, under one name."""
    named = {*known, "type"}
    rest = {name: value for name, value in item.items() if name not in named and value is not None}
    return {"beside": rest} if rest else {}


# ---- calls ---------------------------------------------------------------------------------------------------------


def keep_call(item: JsonObject) -> JsonObject:
    """What only this wire understands of a call."""
    own = {name: item[name] for name in _CALL_FIELDS if item.get(name) is not None}
    return {"type": CUSTOM, **own} if item.get("type") == CUSTOM else own


def arguments_of(item: JsonObject) -> Any:
    """The arguments of a call item; the free text of a custom call is an argument called `input`."""
    if item.get("type") == CUSTOM:
        return {"input": as_text(item.get("input"))}
    return item.get("arguments")


def read_call(item: JsonObject, id: str) -> ToolCall | InvalidCall:
    """A call of a history. Arguments that are no object make it an invalid one."""
    given = as_text(item.get("call_id")) or None
    odd = keep_beside(item, (*_CALL_FIELDS, "call_id", "name", "arguments", "input"))
    extra = wrap_own({**keep_call(item), **odd}, WIRE)
    return values.read_call(WIRE, id, as_text(item.get("name")), arguments_of(item), given, extra)


def write_call(call: ToolCall | InvalidCall, own: JsonObject) -> JsonObject:
    """A call item. An invalid call is written without arguments: its result says what it was."""
    kept = {name: own[name] for name in _CALL_FIELDS if name in own} | as_dict(own.get("beside")) if own else {}
    identity = {"id": kept.pop("id")} if "id" in kept else {}
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    if own.get("type") != CUSTOM:
        written = {"call_id": call.id, "name": call.name, "arguments": write(arguments)}
        return {"type": FUNCTION, **identity, **written, **kept}
    text = arguments.get("input", "") if set(arguments) <= {"input"} else None
    words = text if isinstance(text, str) else write(arguments)
    return {"type": CUSTOM, **identity, "call_id": call.id, "name": call.name, "input": words, **kept}


# ---- results -------------------------------------------------------------------------------------------------------


def read_result(item: JsonObject, id: str, name: str) -> ToolResult:
    output = item.get("output")
    content: Any = output
    if isinstance(output, list):
        content = read_content(output)
    elif not isinstance(output, str):
        content = "" if output is None else write(output)
    own = {field: item[field] for field in _RESULT_FIELDS if item.get(field) is not None}
    own |= keep_beside(item, (*_RESULT_FIELDS, "call_id", "output"))
    if item.get("type") == OUTPUTS[CUSTOM]:
        own["type"] = OUTPUTS[CUSTOM]
    return ToolResult(id, name, content, extra={WIRE: own} if own else {})


def write_result(result: ToolResult, call: JsonObject, losses: list[Loss]) -> JsonObject:
    """A result item; `call` is what this wire said of the call, whose kind and caller the result repeats."""
    own = own_of(result)
    custom = call.get("type") == CUSTOM or own.get("type") == OUTPUTS[CUSTOM]
    kept = {name: own[name] for name in _RESULT_FIELDS if name in own} | as_dict(own.get("beside")) if own else {}
    if "caller" in call and "caller" not in own:
        kept["caller"] = call["caller"]
    elif own.get("caller", call) is None:
        del kept["caller"]
    output: Any = result.content
    if isinstance(output, str):
        output = mark_error(result, output)
    else:
        output = write_parts(_mark_first(result, output), losses) or ""
    kind = OUTPUTS[CUSTOM if custom else FUNCTION]
    return {"type": kind, "call_id": result.call_id, "output": output, **kept}


def _mark_first(result: ToolResult, parts: Iterable[Any]) -> list[Text | Image | File]:
    """The parts of a result; the first text says that it is an error, for the wire has no flag for that."""
    given = [Text(part) if isinstance(part, str) else part for part in parts]
    if not result.is_error:
        return given
    first = given[0] if given else None
    if isinstance(first, Text):
        return [Text(mark_error(result, first.text), first.extra), *given[1:]]
    return [Text("Error:"), *given]


# ---- reasoning -----------------------------------------------------------------------------------------------------


def reasoning_texts(item: Mapping[str, Any]) -> list[tuple[tuple[str, int], str]]:
    """The readable texts of a reasoning item, each with its place."""
    return [
        ((kind, index), text)
        for kind in ("summary", "content")
        for index, part in enumerate(dicts(item.get(kind)))
        if (text := as_text(part.get("text")))
    ]


def keep_reasoning(item: JsonObject) -> JsonObject:
    """What has to be sent back unchanged."""
    own = {name: item[name] for name in REASONING if item.get(name) is not None}
    return _unseal(own) or {"summary": []}


def write_reasoning(own: JsonObject) -> JsonObject:
    kept = {name: own[name] for name in REASONING if name in own} | as_dict(own.get("beside"))
    identity = {"id": kept.pop("id")} if "id" in kept else {}
    return {"type": "reasoning", **identity, "summary": kept.pop("summary", []), **kept}


def seal(own: JsonObject, shown: JsonObject) -> JsonObject:
    """Return reasoning as the stream has shown it (`shown`: id and summary), with the original data (`own`) inside.

    A stream must send the id and the text of an item before the original id and form are known, and the API accepts
    encrypted reasoning only with its original id. So the original data is part of the encrypted content, which clients
    send back unchanged.
    """
    hidden = {name: own.get(name) for name in _SHOWN if own.get(name) != shown.get(name)}
    if not hidden:
        return own
    truth = urlsafe_b64encode(write(hidden).encode()).decode()
    rest = {name: value for name, value in own.items() if name not in _SHOWN}
    return {**shown, **rest, "encrypted_content": f"{_SEAL}:{truth}:{as_text(own.get('encrypted_content'))}"}


def _unseal(own: JsonObject) -> JsonObject:
    mark, _, rest = as_text(own.get("encrypted_content")).partition(":")
    truth, colon, content = rest.partition(":")
    if mark != _SEAL or not colon:
        return own
    try:
        hidden = as_dict(parse(urlsafe_b64decode(truth)))
    except ValueError:
        return own
    opened = {**own, **{name: hidden[name] for name in _SHOWN if name in hidden}, "encrypted_content": content}
    return {name: value for name, value in opened.items() if value not in (None, "")}


# --------------------------------------------------------------------------------------------------------------------
# Tools and the choice among them: ours as the wire wants them, and a client's as ours.
#
# Only functions are tools for everyone. The rest of what a client offers (custom tools, web search, ...) is kept as
# it is for its own wire. Functions inside a `namespace`, or added by an `additional_tools` item, are ordinary tools
# too; on their own wire they stay where they were.

_FUNCTION_FIELDS = frozenset({"type", "name", "description", "parameters"})
_MODES = frozenset({"auto", "none", "required"})
_CHOICE_FIELDS = frozenset({"type", "name", "mode", "tools"})


# ---- writing -------------------------------------------------------------------------------------------------------


def write_definition(offered: Offered, *, strict: bool) -> JsonObject:
    """One function. A tool of ours says `strict`, for silence about it means "try it"."""
    tool = offered.tool
    written: JsonObject = {"type": "function", "name": offered.name}
    if tool.description:
        written["description"] = tool.description
    written["parameters"] = offered.schema
    written["strict"] = strict
    own = as_dict(tool.metadata.get(WIRE)) if tool.metadata else {}
    if own:
        written.update({name: value for name, value in own.items() if name != "added"})
    if tool.metadata and (strict or wants_strict(tool)):
        written["strict"] = True
    elif written["strict"] is None:
        # The client left it to the provider.
        del written["strict"]
    return written


def write_tools(
    request: Request, offered: Offer, items: list[JsonObject], quirks: Quirks, losses: list[Loss]
) -> JsonObject:
    """The fields of a body that speak of tools."""
    others = as_list(as_dict(request.options.get(WIRE)).get("tools"))
    tools = _list_tools(offered, others, items, strict=quirks.strict_tools)
    choice = neutral.read_choice(request.options)
    chosen = settle_choice(choice, offered.name_of, quirks, losses, lists_tools=True, omits_tools=True)
    if chosen.only is not None:
        tools = [tool for tool in tools if isinstance(tool, dict) and tool.get("name") in chosen.only]
    if not tools:
        report_choice(request.options, losses)
        return {}
    fields: JsonObject = {"tools": tools}
    named = [{"type": "function", "name": name} for name in chosen.names]
    if chosen.mode == "named":
        fields["tool_choice"] = named[0]
    elif chosen.mode == "listed":
        mode = "required" if chosen.required else "auto"
        fields["tool_choice"] = {"type": "allowed_tools", "mode": mode, "tools": named}
    elif chosen.mode:
        fields["tool_choice"] = chosen.mode
    return fields | write_parallel(request.options, quirks, losses)


def _list_tools(offer: Offer, others: list[Any], items: Iterable[JsonObject], *, strict: bool) -> list[Any]:
    """All tools: the functions, but for those that `others` or the items of the input already hold, and `others`."""
    there = set(_find_nested(others)) | {
        name for item in items if item.get("type") == "additional_tools" for name in _find_added(item)
    }
    functions = {
        offered.tool.name: write_definition(offered, strict=strict)
        for offered in offer.tools
        if (_namespace_of(offered.tool), offered.name) not in there
    }
    return place_tools(functions, others)


def _namespace_of(tool: Tool) -> str | None:
    """The place of a function: a namespace, `""` for an item of the input, None for the list of tools itself."""
    if not tool.metadata:
        return None
    if as_dict(tool.metadata.get(WIRE)).get("added") is True:
        return ""
    return as_text(tool.metadata.get("namespace")) or None


def _find_nested(tools: Iterable[Any]) -> Iterator[tuple[str | None, str]]:
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            for inner in dicts(tool.get("tools")):
                yield as_text(tool.get("name")), as_text(inner.get("name"))


def _find_added(item: JsonObject) -> Iterator[tuple[str | None, str]]:
    for tool in dicts(item.get("tools")):
        if tool.get("type") == "namespace":
            yield from (("", name) for _, name in _find_nested([tool]))
        else:
            yield "", as_text(tool.get("name"))


def custom_tools(tools: Iterable[Any]) -> list[Tool]:
    """A client's custom tools as tools that take one text: a call of one is no call of an unknown tool."""
    found: list[Tool] = []
    for tool in tools:
        if isinstance(tool, dict) and tool.get("type") == "namespace":
            found += custom_tools(as_list(tool.get("tools")))
        elif isinstance(tool, dict) and tool.get("type") == "custom" and as_text(tool.get("name")):
            found.append(Tool(tool["name"], as_text(tool.get("description"))))
    return found


def added_tools(messages: Iterable[Message]) -> Iterator[Any]:
    """The tools that the `additional_tools` items of a conversation hold."""
    for message in messages:
        for part in message.parts:
            item = as_dict(own_of(part).get("item")) if isinstance(part, Thinking) and part.extra else {}
            if item.get("type") == "additional_tools":
                yield from as_list(item.get("tools"))


# ---- the choice ----------------------------------------------------------------------------------------------------


def read_choice(given: Any) -> Any:
    """The neutral tool choice; None for what only this wire knows (a custom or hosted tool)."""
    if isinstance(given, str):
        return given if given in _MODES else None
    choice = as_dict(given)
    if choice.get("type") == "function" and as_text(choice.get("name")):
        return {"name": choice["name"]}
    if choice.get("type") != "allowed_tools":
        return None
    tools = as_list(choice.get("tools"))
    names = [as_text(as_dict(tool).get("name")) for tool in tools if as_dict(tool).get("type") == "function"]
    if not names or len(names) != len(tools) or not all(names):
        return None
    return {"mode": "required" if choice.get("mode") == "required" else "auto", "names": names}


# ---- reading -------------------------------------------------------------------------------------------------------


def read_tools(given: Any, added: Iterable[JsonObject] = ()) -> tuple[list[Tool], list[Any]]:
    """The functions that a client offers, wherever they stand; and all tools in order, the functions by name."""
    tools: list[Tool] = []
    others: list[Any] = []
    for entry in dicts(given):
        if entry.get("type", "function") == "function" and as_text(entry.get("name")):
            tools.append(_read_function(entry))
            others.append(entry["name"])
        else:
            others.append(entry)
            tools += _read_namespace(entry, {})
    for item in added:
        for entry in dicts(item.get("tools")):
            if entry.get("type") == "function" and as_text(entry.get("name")):
                tools.append(_read_function(entry, added=True))
            else:
                tools += _read_namespace(entry, {"added": True})
    return tools, others


def _read_namespace(entry: JsonObject, marks: JsonObject) -> Iterator[Tool]:
    if entry.get("type") == "namespace":
        for inner in dicts(entry.get("tools")):
            if inner.get("type", "function") == "function" and as_text(inner.get("name")):
                yield _read_function(inner, namespace=as_text(entry.get("name")), **marks)


def _read_function(entry: JsonObject, *, namespace: str = "", added: bool = False) -> Tool:
    own = {name: value for name, value in keep_unknown(entry, _FUNCTION_FIELDS).items() if value not in (None, False)}
    if entry.get("strict") is None:
        own["strict"] = None
    if added:
        own["added"] = True
    metadata: dict[str, Any] = {"namespace": namespace} if namespace else {}
    if own:
        metadata[WIRE] = own
    parameters = as_dict(entry.get("parameters"))
    return Tool(entry["name"], as_text(entry.get("description")), parameters, metadata=metadata)


# --------------------------------------------------------------------------------------------------------------------
# The options of a request: from the neutral names to the fields of the body, and back.

# Up to how many tokens of thought an effort stands for.
_EFFORTS = ((0, "none"), (2048, "low"), (8192, "medium"))
_OPTIONS = OptionTable(
    {"max_tokens": "max_output_tokens", **{name: name for name in ("temperature", "top_p", "user", "metadata")}}
)
_SWITCHES = OptionTable({name: name for name in ("parallel_tool_calls", "stream")})
_KNOWN = frozenset(
    {"model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "stream"}
    | {*_OPTIONS.names.values()}
)
_FORMAT_FIELDS = ("name", "schema", "strict", "description")


# ---- writing -------------------------------------------------------------------------------------------------------


def write_settings(options: dict[str, Any], quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The fields of the body for these options."""
    taken = {"stream", "cache", "reasoning", "response_format", "tool_choice", "parallel_tool_calls"}
    fields = _OPTIONS.write(options, quirks, losses, taken)
    reasoning = _write_reasoning(as_dict(options.get("reasoning")), losses)
    if reasoning:
        fields["reasoning"] = reasoning
    format = _write_format(as_dict(options.get("response_format")), losses)
    if format:
        fields["text"] = {"format": format}
    if isinstance(options.get("cache"), str):
        losses.append(Loss("approximated", "options", "the prompt cache of this wire has its own time to live"))
    if options.get("stream"):
        fields["stream"] = True
    losses += unsupported_options(options, taken, WIRE)
    return fields


def _write_reasoning(wanted: JsonObject, losses: list[Loss]) -> JsonObject:
    fields: JsonObject = {}
    budget = wanted.get("budget")
    if isinstance(wanted.get("effort"), str):
        fields["effort"] = wanted["effort"]
    elif wanted.get("enabled") is False:
        fields["effort"] = "none"
    elif isinstance(budget, int) and not isinstance(budget, bool):
        fields["effort"] = next((effort for most, effort in _EFFORTS if budget <= most), "high")
        losses.append(
            Loss("approximated", "options", f"a reasoning budget of {budget} tokens is effort {fields['effort']}")
        )
    if isinstance(wanted.get("summary"), str):
        fields["summary"] = wanted["summary"]
    return fields


def _write_format(wanted: JsonObject, losses: list[Loss]) -> JsonObject | None:
    if wanted.get("type") == "json":
        return {"type": "json_object"}
    if wanted.get("type") == "json_schema":
        kept = {name: wanted[name] for name in _FORMAT_FIELDS if wanted.get(name) is not None}
        return {"type": "json_schema", "name": "answer", "schema": {}, **kept}
    if wanted:
        losses.append(Loss("dropped", "options", f"response_format {wanted.get('type')!r} is not known"))
    return None


# ---- reading -------------------------------------------------------------------------------------------------------


def read_settings(body: JsonObject, others: list[Any]) -> dict[str, Any]:
    """The options of a body; what has no neutral name stands under the name of the wire."""
    options = _OPTIONS.read(body) | _SWITCHES.read(body)
    own = keep_unknown(body, _KNOWN)
    _read_choice(body.get("tool_choice"), options, own)
    _read_reasoning(as_dict(body.get("reasoning")), options, own)
    _read_text(as_dict(body.get("text")), options, own)
    return add_own(options, own, others, WIRE)


def _read_choice(given: Any, options: dict[str, Any], own: JsonObject) -> None:
    choice = read_choice(given)
    if choice is not None:
        options["tool_choice"] = choice
    if isinstance(given, str | dict) and given and (choice is None or as_dict(given).keys() - _CHOICE_FIELDS):
        own["tool_choice"] = given


def _read_reasoning(given: JsonObject, options: dict[str, Any], own: JsonObject) -> None:
    wanted: JsonObject = {}
    effort = given.get("effort")
    if isinstance(effort, str):
        wanted = {"enabled": False} if effort == "none" else {"effort": effort}
    if as_text(given.get("summary")):
        wanted["summary"] = given["summary"]
    if wanted:
        options["reasoning"] = wanted
    rest = {name: value for name, value in given.items() if name not in ("effort", "summary") and value is not None}
    if rest:
        own["reasoning"] = rest


def _read_text(given: JsonObject, options: dict[str, Any], own: JsonObject) -> None:
    rest = {name: value for name, value in given.items() if value is not None}
    format = as_dict(given.get("format"))
    if format.get("type") == "json_object":
        options["response_format"] = {"type": "json"}
        del rest["format"]
    elif format.get("type") == "json_schema":
        kept = {name: format[name] for name in _FORMAT_FIELDS if format.get(name) is not None}
        options["response_format"] = {"type": "json_schema", **kept}
        if not format.keys() - {"type", *_FORMAT_FIELDS}:
            del rest["format"]
    if rest:
        own["text"] = rest
