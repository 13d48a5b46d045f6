"""Content blocks, options, errors and tables of Anthropic Messages, in both directions."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dragoman.media import COMMON_IMAGES, PDF, decode_text, is_text_type, read_base64
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
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire import values
from dragoman.wire.aliases import IdRule, NameRule
from dragoman.wire.failures import Loss, fail, status_of
from dragoman.wire.history import HistoryRules, spread
from dragoman.wire.media import omit, settle, type_of
from dragoman.wire.options import OptionTable, add_own, is_count, report_format, unsupported_options
from dragoman.wire.quirks import Quirks
from dragoman.wire.schemas import compile_schema
from dragoman.wire.values import (
    as_blocks,
    as_count,
    as_dict,
    as_text,
    describe,
    dicts,
    invert_stops,
)

# --------------------------------------------------------------------------------------------------------------------
# Tables of this wire: stop reasons, usage, and the rules for a conversation.

WIRE = "anthropic"

RULES = HistoryRules(
    WIRE,
    names=NameRule(r"[^a-zA-Z0-9_-]", r"[a-zA-Z0-9_-]+", 128),
    ids=IdRule(r"[a-zA-Z0-9_-]+", 1 << 30),
    system="front",
    result_images=True,
    result_files=True,
    text_after_calls=True,
    first_user=True,
    merges=True,
)

STOPS: dict[str, StopReason] = {
    "end_turn": "end",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "refusal": "refusal",
    "pause_turn": "pause",
    "compaction": "pause",
}
# There is no word for an error: a reply that failed is not written as a message at all.
_WORDS = invert_stops(STOPS, "end_turn")
_COUNTS_OF_CACHE = ("cache_creation_input_tokens", "cache_read_input_tokens")
_COUNTS = ("input_tokens", *_COUNTS_OF_CACHE, "output_tokens")


def own(extra: Mapping[str, Any]) -> JsonObject:
    """What only this wire understands of a part, a reply or a tool."""
    return as_dict(extra.get(WIRE))


def own_of(extra: Mapping[str, Any]) -> JsonObject:
    """The same of a part or a tool, with the cache mark of chat completions, which is the same there."""
    found = as_dict(extra.get(WIRE))
    if found or "openai_chat" not in extra:
        return found
    mark = spread(as_dict(extra["openai_chat"])).get("cache_control")
    return {} if mark is None else {"cache_control": mark}


def wrap(fields: JsonObject) -> dict[str, Any]:
    """The same as an `extra`."""
    return {WIRE: fields} if fields else {}


def without(fields: JsonObject, *known: str) -> JsonObject:
    """The fields that have a value and no neutral name."""
    return {name: value for name, value in fields.items() if name not in known and value is not None}


def word_for(stop: StopReason, extra: dict[str, Any], has_calls: bool) -> str:
    """The reason to stop: the word that this wire itself gave, or its word for ours. Calls decide over the rest."""
    given = as_text(own(extra).get("reason"))
    word = given if STOPS.get(given) == stop else _WORDS[stop]
    if has_calls:
        return "tool_use" if word == "end_turn" else word
    return "end_turn" if word == "tool_use" else word


# ---- usage -----------------------------------------------------------------------------------------------------------


def add_usage(counted: JsonObject, report: Any) -> None:
    """Take a report over. Counts are running totals, and one that a later report leaves out or sets to 0 stands: many
    reports count only the output. Of the two counts of the cache a 0 counts beside the other one."""
    fields = as_dict(report)
    counts_cache = any([as_count(fields.get(name)) for name in _COUNTS_OF_CACHE])
    for name, value in fields.items():
        if value or name not in counted or (counts_cache and name in _COUNTS_OF_CACHE and value == 0):
            counted[name] = value


def read_usage(counted: JsonObject) -> Usage:
    """Totals from the counts of this wire, which leaves what the cache took part in out of its input tokens."""
    fresh, written, cached, output = (as_count(counted.get(name)) for name in _COUNTS)
    thought = as_count(as_dict(counted.get("output_tokens_details")).get("thinking_tokens"))
    return Usage(fresh + written + cached, output, cached, thought, written)


def read_own_usage(counted: JsonObject) -> JsonObject:
    return without(counted, *_COUNTS, "output_tokens_details")


def write_usage(usage: Usage) -> JsonObject:
    """Both cache counts are always there: clients add them up without asking."""
    counted: JsonObject = {
        "input_tokens": max(0, usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    }
    if usage.reasoning_tokens:
        counted["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return counted


# --------------------------------------------------------------------------------------------------------------------
# Errors of this wire, read and written.

_KINDS: dict[str, FailureKind] = {
    "invalid_request_error": "bad_request",
    "authentication_error": "unauthorized",
    "billing_error": "unauthorized",
    "permission_error": "unauthorized",
    "not_found_error": "not_found",
    "request_too_large": "context_too_long",
    "rate_limit_error": "rate_limited",
    "api_error": "server_error",
    "timeout_error": "timed_out",
    "overloaded_error": "overloaded",
}
_TYPES: dict[FailureKind, str] = {
    "bad_request": "invalid_request_error",
    "refused": "invalid_request_error",
    "context_too_long": "invalid_request_error",
    "unauthorized": "authentication_error",
    "not_found": "not_found_error",
    "rate_limited": "rate_limit_error",
    "server_error": "api_error",
    "stream_cut": "api_error",
    "timed_out": "timeout_error",
    "overloaded": "overloaded_error",
}
_TYPES_BY_STATUS = {402: "billing_error", 403: "permission_error", 413: "request_too_large"}
_is_filtered = re.compile(r"content.filter", re.IGNORECASE).search
# Clients know by these words that they have to shorten the conversation.
_TOO_LONG = "prompt is too long"


def read_failure(status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
    """What an error says: `{"type": "error", "error": {...}}`, the shapes of relatives, or mere text."""
    fields = as_dict(body)
    error = fields.get("error", body)
    inner = as_dict(error)
    message = inner.get("message") or (error if isinstance(error, str) else None)
    message = message or fields.get("message") or fields.get("detail") or ""
    code = inner.get("type") or inner.get("code")
    failure = fail(message, status=status, code=code, body=body, headers=headers)
    if failure.kind == "context_too_long":
        return failure
    if _is_filtered(failure.message[:2000]):
        return replace(failure, kind="refused")
    kind = _KINDS.get(failure.code)
    return failure if kind is None else replace(failure, kind=kind)


def write_failure(failure: Failure) -> tuple[int, JsonObject]:
    """The HTTP status and the body of an error answer."""
    # This API has a status of its own.
    is_overloaded = failure.kind == "overloaded" and failure.status is None
    return 529 if is_overloaded else status_of(failure), write_error(failure)


def write_error(failure: Failure) -> JsonObject:
    """The body of an error answer, which is also the event that ends a stream badly."""
    kind = failure.code if _KINDS.get(failure.code) == failure.kind else ""
    kind = kind or (_TYPES_BY_STATUS.get(failure.status or 0, "") if failure.kind != "bad_request" else "")
    named = kind or _TYPES.get(failure.kind, "api_error")
    return {"type": "error", "error": {"type": named, "message": describe(failure, _TOO_LONG)}}


# --------------------------------------------------------------------------------------------------------------------
# Images and documents, written as blocks and read.

_WEB = ("https://", "http://")
_SOURCE = frozenset({"type", "media_type", "data", "url"})


def write_media(part: Image | File, losses: list[Loss]) -> JsonObject:
    """An image or a document as a block; a note in its place where this wire cannot take it."""
    extra = own_of(part.extra)
    kind = "image" if isinstance(part, Image) else "document"
    source = as_dict(extra.get("source")) or _write_source(settle(part))
    if source is None:
        found = type_of(part) or "data without a type"
        return {"type": "text", "text": omit(part, f"this wire takes no {found}", losses).text}
    if as_text(source.get("media_type")) in COMMON_IMAGES:
        kind = "image"
    title = {"title": part.name} if isinstance(part, File) and part.name and kind == "document" else {}
    return {"type": kind, "source": source, **title, **{key: extra[key] for key in extra if key != "source"}}


def _write_source(part: Image | File) -> JsonObject | None:
    kind = type_of(part)
    if part.data is None:
        fits = not isinstance(part, File) or not kind.startswith(("audio/", "video/"))
        return {"type": "url", "url": part.url} if fits and (part.url or "").startswith(_WEB) else None
    if kind in COMMON_IMAGES or (kind == PDF and isinstance(part, File)):
        return {"type": "base64", "media_type": kind, "data": part.data}
    text = decode_text(read_base64(part.data)) if isinstance(part, File) and is_text_type(kind) else None
    return None if text is None else {"type": "text", "media_type": "text/plain", "data": text}


def read_image(block: JsonObject) -> Image:
    source = as_dict(block.get("source"))
    extra = without(block, "type", "source")
    if source.keys() - _SOURCE:
        extra["source"] = source
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return Image(None, source["data"], as_text(source.get("media_type")) or None, wrap(extra))
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Image(source["url"], extra=wrap(extra))
    # A stored file, or a kind of source that came later: only this wire can follow it.
    return Image(extra=wrap({"source": source, **extra}))


def read_document(block: JsonObject) -> File:
    source = as_dict(block.get("source"))
    name = as_text(block.get("title"))
    extra = without(block, "type", "source", "title")
    if source.keys() - _SOURCE and source.get("type") in ("base64", "text", "url"):
        extra["source"] = source
    data, kind = source.get("data"), as_text(source.get("media_type"))
    if source.get("type") == "base64" and isinstance(data, str):
        return File(name, data, None, kind or None, wrap(extra))
    if source.get("type") == "text" and isinstance(data, str):
        written = base64.b64encode(data.encode("utf-8", "replace")).decode()
        return File(name, written, None, "text/plain", wrap(extra))
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return File(name, None, source["url"], None, wrap(extra))
    return File(name, extra=wrap({"source": source, **extra}))


# --------------------------------------------------------------------------------------------------------------------
# The blocks of a message, written from parts and read.

_CALLS = (ToolCall, InvalidCall)

# ---- ours to the wire's ----------------------------------------------------------------------------------------------


def write_block(part: Part, losses: list[Loss]) -> JsonObject | None:
    """One part as a block; None for a part of which nothing is left to write."""
    if isinstance(part, Text):
        return write_text(part)
    if isinstance(part, _CALLS):
        return write_call(part)
    if isinstance(part, ToolResult):
        return write_result(part, losses)
    if isinstance(part, Thinking):
        return write_thinking(part)
    return write_media(part, losses)


def write_text(part: Text) -> JsonObject | None:
    if not part.extra:
        return {"type": "text", "text": part.text} if part.text else None
    extra = own_of(part.extra)
    block = extra.get("block")
    if isinstance(block, dict):
        # A block that has no neutral form goes back as it came.
        return block
    return {"type": "text", "text": part.text, **extra} if part.text else None


def write_thinking(part: Thinking) -> JsonObject | None:
    extra = own(part.extra)
    data, signature = extra.get("data"), as_text(extra.get("signature"))
    if isinstance(data, str) and not part.text:
        return {"type": "redacted_thinking", **extra}
    if not part.text and not signature:
        return None
    rest = {name: value for name, value in extra.items() if name not in ("data", "signature")}
    return {"type": "thinking", "thinking": part.text, "signature": signature, **rest}


def write_call(call: ToolCall | InvalidCall) -> JsonObject:
    """A call that could not be read goes out without arguments; it never ran."""
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    block: JsonObject = {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}
    return {**block, **own_of(call.extra)} if call.extra else block


def write_result(result: ToolResult, losses: list[Loss]) -> JsonObject:
    block: JsonObject = {"type": "tool_result", "tool_use_id": result.call_id, "content": ""}
    if isinstance(result.content, str):
        block["content"] = result.content
    else:
        block["content"] = _write_contents(result.content, losses) or ""
    if result.is_error:
        block["is_error"] = True
    return {**block, **own_of(result.extra)} if result.extra else block


def _write_contents(content: list[Text | Image | File], losses: list[Loss]) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    for part in content:
        if isinstance(part, Text) and part.text.isspace():
            losses.append(Loss("dropped", "history", "blank text in a result, which this wire refuses"))
            continue
        block = write_text(part) if isinstance(part, Text) else write_media(part, losses)
        if block is not None:
            blocks.append(block)
    return blocks


# ---- the wire's to ours ----------------------------------------------------------------------------------------------


def read_contents(content: Any) -> list[Text | Image | File]:
    """The parts of a content that holds neither calls nor results, whatever form it has."""
    return [read_plain(block) for block in as_blocks(content)]


def read_plain(block: JsonObject | str) -> Text | Image | File:
    if isinstance(block, str):
        return Text(block)
    kind = block.get("type")
    if kind == "text" and isinstance(block.get("text"), str):
        return Text(block["text"], wrap(without(block, "type", "text")))
    if kind == "image":
        return read_image(block)
    if kind == "document":
        return read_document(block)
    return Text(_find_words(block), {WIRE: {"block": block}})


def _find_words(block: JsonObject) -> str:
    """What a block of an unknown kind says in words, for whoever cannot take the block itself."""
    if block.get("type") == "search_result":
        words = [as_text(block.get("title")), as_text(block.get("source"))]
        words += [as_text(entry.get("text")) for entry in dicts(block.get("content"))]
        return "\n".join(filter(None, words))
    return as_text(block.get("text"))


def read_thinking(block: JsonObject) -> Thinking | None:
    if block.get("type") == "redacted_thinking":
        data = as_text(block.get("data"))
        return Thinking("", {WIRE: without(block, "type")}) if data else None
    text, signature = as_text(block.get("thinking")), as_text(block.get("signature"))
    rest = without(block, "type", "thinking", "signature")
    return Thinking(text, {WIRE: {"signature": signature, **rest}}) if text or signature else None


def read_call(block: JsonObject, fallback: str) -> ToolCall | InvalidCall:
    """A call of a history, as a client sends it back."""
    given = block.get("id")
    wire_id = given if isinstance(given, str) and given else None
    extra = wrap(without(block, "type", "id", "name", "input"))
    name, arguments = as_text(block.get("name")), block.get("input")
    return values.read_call(WIRE, wire_id or fallback, name, arguments, wire_id, extra, sound=True)


def read_result(block: JsonObject, identity: str, name: str) -> ToolResult:
    content = block.get("content")
    return ToolResult(
        identity,
        name,
        content if isinstance(content, str) else read_contents(content) or "",
        is_error=block.get("is_error") is True,
        extra=wrap(without(block, "type", "tool_use_id", "content", "is_error")),
    )


# --------------------------------------------------------------------------------------------------------------------
# Everything in a body that is neither conversation nor tools: limits, sampling, thinking, the form of the answer.

DEFAULT_LIMIT = 4096
_LEAST_BUDGET = 1024
_OPTIONS = OptionTable(
    {name: name for name in ("max_tokens", "temperature", "top_p", "top_k", "stream")} | {"stop": "stop_sequences"},
    limits={"temperature": 1},
)
_EFFORTS = frozenset({"low", "medium", "high", "xhigh", "max"})

# ---- ours to the wire's ----------------------------------------------------------------------------------------------


class SettingsWriter:
    """Writes the options of one request; `fields` is what goes into the body, `limit` the most tokens."""

    def __init__(self, options: Mapping[str, Any], quirks: Quirks, losses: list[Loss], *, is_forced: bool) -> None:
        self._options = options
        self._quirks = quirks
        self._losses = losses
        self._is_forced = is_forced
        self._taken = {"tool_choice", "parallel_tool_calls", "cache"}
        said = options.get("max_tokens")
        self._said_limit = is_count(said)
        self.limit: int = said if said is not None and self._said_limit else DEFAULT_LIMIT
        self.fields: JsonObject = {}

    def write(self) -> None:
        options = self._options
        self._write_thinking()
        self._write_format()
        self.fields.update(_OPTIONS.write(options, self._quirks, self._losses, self._taken))
        self._drop_blank_stops()
        if isinstance(options.get("user"), str):
            self._taken.add("user")
            self.fields["metadata"] = {"user_id": options["user"]}
        self._losses += unsupported_options(options, self._taken, WIRE)
        self.fields = {self._quirks.max_tokens_field or "max_tokens": self.limit, **self.fields}

    def _report(self, rule: str, detail: str) -> None:
        self._losses.append(Loss(rule, "options", detail))

    def _drop_blank_stops(self) -> None:
        texts = self.fields.pop("stop_sequences", [])
        kept = [text for text in texts if text.strip()]
        if len(kept) < len(texts):
            self._report("dropped", "stop: blank text, which this wire refuses")
        if kept:
            self.fields["stop_sequences"] = kept

    def _write_format(self) -> None:
        wanted = as_dict(self._options.get("response_format"))
        schema = wanted.get("schema")
        if wanted.get("type") != "json_schema" or not isinstance(schema, dict):
            return
        self._taken.add("response_format")
        if "output_format" in as_dict(self._options.get(WIRE)):
            return
        compiled = compile_schema(Tool("response_format", "", schema), "anthropic_strict")
        self._losses += compiled.losses
        report_format(wanted, ("name", "description"), self._losses, WIRE)
        if compiled.schema is not None:
            form = {"type": "json_schema", "schema": compiled.schema}
            self.fields["output_config"] = {**self.fields.get("output_config", {}), "format": form}

    # ---- thinking ---------------------------------------------------------------------------------------------------

    def _write_thinking(self) -> None:
        asked = as_dict(self._options.get("reasoning"))
        if not asked:
            return
        self._taken.add("reasoning")
        effort, budget = asked.get("effort"), asked.get("budget")
        if isinstance(effort, str) and effort != "none":
            self._write_effort(effort)
        if asked.get("enabled") is False or effort == "none" or (budget == 0 and budget is not False):
            self.fields["thinking"] = {"type": "disabled"}
            return
        display = {"display": "summarized"} if asked.get("summary") not in (None, False, "none") else {}
        if budget and is_count(budget):
            self._write_budget(budget, display)
        else:
            self.fields["thinking"] = {"type": "adaptive", **display}

    def _write_effort(self, effort: str) -> None:
        known = "low" if effort == "minimal" else effort
        if known != effort:
            self._report("approximated", f"reasoning effort {effort!r} became {known!r}")
        if known in _EFFORTS:
            self.fields["output_config"] = {"effort": known}
        else:
            self._report("dropped", f"reasoning effort {effort!r} is not known to this wire")

    def _write_budget(self, budget: int, display: JsonObject) -> None:
        if self._is_forced:
            self._report("dropped", "reasoning: a budget and a forced choice of tool exclude one another")
            return
        if not self._said_limit:
            # The limit counts the thinking too.
            self.limit += budget
        wanted = min(max(budget, _LEAST_BUDGET), self.limit - 1)
        if wanted < _LEAST_BUDGET:
            self._report("dropped", f"reasoning: max_tokens leaves no room for {_LEAST_BUDGET} tokens of it")
            return
        if wanted != budget:
            self._report("approximated", f"the reasoning budget became {wanted}")
        self.fields["thinking"] = {"type": "enabled", "budget_tokens": wanted, **display}


# ---- the wire's to ours ----------------------------------------------------------------------------------------------

_KNOWN = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "metadata")


def read_settings(body: JsonObject, others: list[Any]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name stands under the name of this wire."""
    rest = without(body, *_KNOWN, *_OPTIONS.names.values())
    options = _OPTIONS.read(body)
    options.update(_read_choice(body.get("tool_choice"), rest))
    output, older = as_dict(body.get("output_config")), as_dict(body.get("output_format"))
    if older.get("type") == "json_schema" and "format" not in output:
        # The name of the field while it was a beta. Programs still send it, and on this wire it stays as it came.
        output = {**output, "format": older}
    _read_reasoning(as_dict(body.get("thinking")), output, options, rest)
    metadata = as_dict(body.get("metadata"))
    if isinstance(metadata.get("user_id"), str):
        options["user"] = metadata["user_id"]
        metadata = without(metadata, "user_id")
    if metadata:
        rest["metadata"] = metadata
    return add_own(options, rest, others, WIRE)


def _read_choice(given: Any, rest: JsonObject) -> dict[str, Any]:
    choice = as_dict(given)
    options: dict[str, Any] = {}
    if choice.keys() - {"type", "name", "disable_parallel_tool_use"}:
        rest["tool_choice"] = without(choice, "type", "name", "disable_parallel_tool_use")
    mode = {"auto": "auto", "any": "required", "none": "none"}.get(as_text(choice.get("type")))
    if mode is not None:
        options["tool_choice"] = mode
    elif choice.get("type") == "tool" and isinstance(choice.get("name"), str):
        options["tool_choice"] = {"name": choice["name"]}
    if isinstance(choice.get("disable_parallel_tool_use"), bool):
        options["parallel_tool_calls"] = not choice["disable_parallel_tool_use"]
    return options


def _read_reasoning(thinking: JsonObject, output: JsonObject, options: dict[str, Any], rest: JsonObject) -> None:
    asked: JsonObject = {}
    kind, budget = thinking.get("type"), thinking.get("budget_tokens")
    if isinstance(output.get("effort"), str):
        asked["effort"] = output["effort"]
    left = without(thinking, "type")
    if kind == "disabled":
        asked = {**asked, "enabled": False}
    elif kind == "enabled" and budget and is_count(budget):
        asked["budget"] = budget
        left.pop("budget_tokens")
    elif kind == "adaptive":
        asked = asked or {"enabled": True}
    else:
        left = without(thinking)
        if asked and not thinking:
            # An effort alone: it says nothing about thinking, and goes back to this wire without any.
            rest["thinking"] = None
    if left.get("display") == "summarized" and asked and kind in ("enabled", "adaptive"):
        asked["summary"] = "auto"
        left.pop("display")
    if left:
        rest["thinking"] = left
    if asked:
        options["reasoning"] = asked
    _read_format(without(output, "effort"), options, rest)


def _read_format(output: JsonObject, options: dict[str, Any], rest: JsonObject) -> None:
    form = as_dict(output.get("format"))
    if form.get("type") == "json_schema" and isinstance(form.get("schema"), dict):
        options["response_format"] = {"type": "json_schema", "schema": form["schema"]}
        output = without(output, "format")
    if output:
        rest["output_config"] = output
