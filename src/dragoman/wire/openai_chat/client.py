"""The client side of chat completions: writes requests and reads replies."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable
from typing import Any

from msgspec import Struct

from dragoman.args.decoder import decode_object
from dragoman.events import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Event,
    RefusalDelta,
    ReplyEnded,
    ReplyStarted,
    TextDelta,
    UsageReported,
)
from dragoman.jsonschema.fit import fits_plainly
from dragoman.types import (
    File,
    Image,
    JsonObject,
    Message,
    Part,
    Provenance,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.wire.codec import Offer, Prepared, wants_strict
from dragoman.wire.failures import Loss
from dragoman.wire.openai_chat.parts import (
    NO_REASON,
    OPAQUE,
    STOPS,
    Details,
    find_reasoning,
    identity_of,
    is_failure,
    name_and_arguments,
    read_block,
    read_failure,
    read_thinking_block,
    read_usage,
    thinking_block,
    write_block,
    write_call,
    write_content,
    write_reasoning,
    write_thinking_blocks,
)
from dragoman.wire.options import (
    SAMPLING,
    OptionTable,
    place_tools,
    read_choice,
    report_choice,
    settle_choice,
    unsupported_options,
    write_parallel,
)
from dragoman.wire.quirks import Quirks
from dragoman.wire.reader import SseReader
from dragoman.wire.values import (
    as_dict,
    as_list,
    as_text,
    dicts,
    find_calls,
    is_same_json,
    join_texts,
    mark_error,
    read_result,
)

# --------------------------------------------------------------------------------------------------------------------
# The documented fields of a body, for endpoints that refuse any other.

Fields = dict[str, Any]
"""The fields of an object, each with the fields of the objects in it; None is any value, `*` any other field."""

_BLOCK: Fields = {
    **dict.fromkeys(("type", "text", "image_url", "input_audio", "file")),
    # What Groq, NVIDIA and Mistral document beside them.
    **dict.fromkeys(("document", "audio_url", "video_url", "document_url", "document_name", "thinking", "signature")),
    **dict.fromkeys(("closed", "reference_ids", "file_id", "uri", "content", "metadata")),
}
_CALL: Fields = {"id": None, "type": None, "function": {"name": None, "arguments": None}, "custom": None}
_TOOL: Fields = {"*": None, "function": dict.fromkeys(("name", "description", "parameters", "strict"))}


def keep_documented(body: JsonObject, dialect: Dialect, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The body without fields that neither the wire nor the endpoint documents."""
    in_message = [*dialect.message_fields.split(), quirks.reasoning_field]
    named_by_row = (*quirks.own_fields, quirks.max_tokens_field, quirks.grammar_field.partition(".")[0])
    fields: Fields = dict.fromkeys([*dialect.fields.split(), *named_by_row])
    fields["messages"] = {**dict.fromkeys(in_message), "content": _BLOCK, "tool_calls": _CALL}
    fields["tools"] = _TOOL
    dropped: list[str] = []
    kept = _prune(body, fields, "", dropped)
    losses += [
        Loss("dropped", "options", f"{name}: this endpoint refuses fields that its documentation does not name")
        for name in dict.fromkeys(dropped)
    ]
    return as_dict(kept)


def _prune(value: Any, fields: Fields | None, path: str, dropped: list[str]) -> Any:
    if fields is None or not isinstance(value, dict | list):
        return value
    if isinstance(value, list):
        return [_prune(inner, fields, path, dropped) for inner in value]
    kept = {}
    for name, inner in value.items():
        if name in fields or "*" in fields:
            kept[name] = _prune(inner, fields.get(name), f"{path}{name}.", dropped)
        else:
            dropped.append(path + name)
    return kept


# --------------------------------------------------------------------------------------------------------------------
# A request as the body of a chat completion.


class Dialect(Struct, frozen=True):
    """The differences in names between chat completions and related wires."""

    wire: str
    options: OptionTable = OptionTable(
        {"max_tokens": "max_completion_tokens"}
        | {name: name for name in (*SAMPLING, "stop", "user", "metadata") if name != "top_k"}
    )
    required: str = "required"
    names_results: bool = False
    """Tool messages carry the name of the tool."""
    stream_options: bool = True
    empty_content: str = "null"
    """As the quirk of that name, where the endpoint has none of its own."""
    thinking_blocks: bool = False
    """Reasoning is a block of the content, not a field beside it."""
    fields: str = (
        "model max_completion_tokens max_tokens temperature top_p frequency_penalty presence_penalty seed stop n user"
        " logprobs top_logprobs logit_bias response_format reasoning_effort tool_choice parallel_tool_calls stream"
        " stream_options"
    )
    """The documented fields of a body; those of chat completions are the ones that compatible endpoints share."""
    message_fields: str = "role name tool_call_id"


# ---- messages --------------------------------------------------------------------------------------------------------


def write_message(message: Message, dialect: Dialect, quirks: Quirks) -> list[JsonObject]:
    """One message of ours as messages of the wire: one for each result, else one."""
    if message.role == "tool":
        return [write_result(part, dialect, quirks) for part in message.parts if isinstance(part, ToolResult)]
    if message.role == "assistant":
        return [write_assistant(message, dialect, quirks)]
    role = "developer" if message.role == "system" and quirks.developer_role else message.role
    entry: JsonObject = {"role": role, "content": write_content(message.parts, dialect.wire) or ""}
    return [{**entry, **as_dict(message.extra.get(dialect.wire))} if message.extra else entry]


def write_result(result: ToolResult, dialect: Dialect, quirks: Quirks) -> JsonObject:
    own = as_dict(result.extra.get(dialect.wire)) if result.extra else {}
    content: Any = read_result(result)
    if not isinstance(result.content, str) and (
        quirks.result_images or own.get("blocks") or _is_marked(result.content)
    ):
        blocks = [write_block(part, dialect.wire) for part in result.content]
        content = [block for block in blocks if block is not None]
        if result.is_error:
            content = [{"type": "text", "text": mark_error(result, "")}, *content]
    entry: JsonObject = {"role": "tool", "tool_call_id": result.call_id}
    if dialect.names_results and result.name:
        entry["name"] = result.name
    entry["content"] = content
    return {**entry, **{name: value for name, value in own.items() if name != "blocks"}}


def _is_marked(parts: Iterable[Any]) -> bool:
    """Whether a wire said something of a text, which a plain text cannot carry."""
    return any(isinstance(part, Text) and part.extra for part in parts)


def write_assistant(message: Message, dialect: Dialect, quirks: Quirks) -> JsonObject:
    calls = [write_call(part, dialect.wire) for part in find_calls(message.parts)]
    own = as_dict(message.extra.get(dialect.wire)) if message.extra else {}
    refusals, audio = _find_refusals(message, dialect, quirks), _find_audio(message, dialect)
    said = [part for part in message.parts if part not in refusals] if refusals else message.parts
    content: Any = join_texts(said)
    has_blocks = own.get("blocks") or (not quirks.standard_fields_only and _has_blocks(said, dialect))
    if has_blocks:
        content = [block for part in said if (block := _write_answer(part, dialect)) is not None]
    body: JsonObject = {"role": "assistant", "content": content}
    if (refusals or audio) and not content:
        body = {"role": "assistant", "content": None}
    elif calls and not content:
        style = quirks.empty_content if quirks.empty_content != "null" else dialect.empty_content
        if style == "omit":
            del body["content"]
        else:
            body["content"] = None if style == "null" else ""
    if not dialect.thinking_blocks:
        write_reasoning(body, message, dialect.wire, quirks, has_calls=bool(calls))
    elif not has_blocks:
        write_thinking_blocks(body, message, dialect.wire)
    if calls:
        body["tool_calls"] = calls
    if refusals:
        body["refusal"] = join_texts(refusals)
    if audio:
        body["audio"] = audio
    return {**body, **{name: value for name, value in own.items() if name != "blocks"}} if own else body


def _find_refusals(message: Message, dialect: Dialect, quirks: Quirks) -> list[Part]:
    """The texts that stand in the field for refusals."""
    if quirks.standard_fields_only:
        return []
    return [
        part
        for part in message.parts
        if part.extra and isinstance(part, Text) and as_dict(part.extra.get(dialect.wire)).get("refusal") is True
    ]


def _find_audio(message: Message, dialect: Dialect) -> JsonObject:
    """The recording that the model made, by the id under which the provider keeps it."""
    for part in message.parts:
        made = as_dict(as_dict(part.extra.get(dialect.wire)).get("audio")) if isinstance(part, File) else {}
        if isinstance(made.get("id"), str):
            return {"id": made["id"]}
    return {}


def _has_blocks(parts: list[Part], dialect: Dialect) -> bool:
    """Whether a reply of this wire had parts in its content that only the wire understands."""
    return any([bool(part.extra) and "block" in as_dict(part.extra.get(dialect.wire)) for part in parts])


def _write_answer(part: Part, dialect: Dialect) -> JsonObject | None:
    """A part of an answer whose content came as blocks."""
    own = as_dict(part.extra.get(dialect.wire))
    if isinstance(part, Thinking):
        return thinking_block(part.text, own) if dialect.thinking_blocks else None
    if isinstance(part, Text) and own.get("refusal") == "block":
        return {"type": "refusal", "refusal": part.text}
    return write_block(part, dialect.wire)


# ---- tools -----------------------------------------------------------------------------------------------------------


def write_definitions(offered: Offer, strict: bool, wire: str = "openai_chat") -> list[JsonObject]:
    definitions = []
    for entry in offered.tools:
        tool = entry.tool
        function: JsonObject = {"name": entry.name}
        if tool.description:
            function["description"] = tool.description
        function["parameters"] = entry.schema
        own = as_dict(tool.metadata.get(wire)) if tool.metadata else {}
        function.update({name: value for name, value in own.items() if name != "beside"})
        if strict or (tool.metadata and wire in ("openai_chat", "mistral") and wants_strict(tool)):
            function["strict"] = True
        definitions.append({"type": "function", "function": function, **as_dict(own.get("beside"))})
    return definitions


def write_tools(request: Request, offered: Offer, dialect: Dialect, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The fields of a body that speak of tools."""
    own = as_list(as_dict(request.options.get(dialect.wire)).get("tools"))
    definitions = place_functions(write_definitions(offered, quirks.strict_tools, dialect.wire), offered, own)
    if not definitions:
        report_choice(request.options, losses)
        return {}
    fields: JsonObject = {"tools": definitions}
    chosen = settle_choice(read_choice(request.options), offered.name_of, quirks, losses)
    if chosen.only is not None:
        fields["tools"] = keep_named(definitions, chosen.only)
    if chosen.mode == "named":
        fields["tool_choice"] = {"type": "function", "function": {"name": chosen.names[0]}}
    elif chosen.mode:
        fields["tool_choice"] = dialect.required if chosen.mode == "required" else chosen.mode
    return fields | write_parallel(request.options, quirks, losses)


def place_functions(definitions: Iterable[JsonObject], offered: Offer, own: Iterable[Any]) -> list[Any]:
    """The definitions of the offered tools, with the wire's own tools among them."""
    return place_tools({entry.tool.name: each for entry, each in zip(offered.tools, definitions, strict=True)}, own)


def keep_named(definitions: list[JsonObject], names: Container[str | None]) -> list[JsonObject]:
    """The definitions of the functions that go by these names."""
    return [tool for tool in definitions if as_dict(tool.get("function")).get("name") in names]


# ---- options ---------------------------------------------------------------------------------------------------------


def write_options(request: Request, dialect: Dialect, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """Everything in a body that is neither conversation nor tools."""
    options = request.options
    taken = {"stream", "cache", "response_format", "reasoning", "tool_choice", "parallel_tool_calls"}
    fields = dialect.options.write(options, quirks, losses, taken)
    fields.update(_write_format(as_dict(options.get("response_format"))))
    fields.update(_write_effort(as_dict(options.get("reasoning")), losses))
    if options.get("stream"):
        fields["stream"] = True
        if quirks.stream_usage and dialect.stream_options:
            fields["stream_options"] = {"include_usage": True}
        if quirks.tool_stream and request.tools:
            fields["tool_stream"] = True
    own = as_dict(options.get(dialect.wire))
    losses += unsupported_options(options, taken | own.keys(), dialect.wire)
    if request.tools and quirks.effort_with_tools:
        fields["reasoning_effort"] = _settle_effort(fields.get("reasoning_effort"), quirks.effort_with_tools, losses)
    written = {**fields, **{name: value for name, value in own.items() if name != "tools"}}
    if own.get("stream_options", written) is None:
        del written["stream_options"]
    return written


def _write_effort(reasoning: JsonObject, losses: list[Loss]) -> JsonObject:
    if reasoning.get("enabled") is False:
        return {"reasoning_effort": "none"}
    if isinstance(reasoning.get("effort"), str):
        return {"reasoning_effort": reasoning["effort"]}
    if reasoning:
        losses.append(Loss("dropped", "options", "reasoning: this wire knows only an effort"))
    return {}


def _settle_effort(asked: Any, needed: str, losses: list[Loss]) -> str:
    """The effort without which this model takes no tools on this wire."""
    if asked not in (None, needed):
        words = f"reasoning effort {asked!r} became {needed!r}: this model takes no tools with it on this wire"
        losses.append(Loss("approximated", "options", words))
    return needed


def _write_format(wanted: JsonObject) -> JsonObject:
    if wanted.get("type") == "json":
        return {"response_format": {"type": "json_object"}}
    if wanted.get("type") == "json_schema":
        kept = {name: wanted[name] for name in ("schema", "strict", "description") if wanted.get(name) is not None}
        return {
            "response_format": {"type": "json_schema", "json_schema": {"name": wanted.get("name") or "answer"} | kept}
        }
    return {}


# --------------------------------------------------------------------------------------------------------------------
# Chat completions read: chunks and whole bodies to events.

_WORDS = {"content"}
_CALL_FIELDS = frozenset({"tool_calls", "function_call"})
_MADE = frozenset({"annotations", "audio", "images"})
_SOURCES = frozenset({"citations", "search_results"})


def _is_same_call(one: JsonObject, other: JsonObject) -> bool:
    if one.get("name") != other.get("name"):
        return False
    first, second = one.get("arguments"), other.get("arguments")
    return first == second or (isinstance(first, str) and isinstance(second, str) and is_same_json(first, second))


def _find_matched(choice: JsonObject) -> str:
    """The text at which the model stopped, as vLLM and SGLang tell it."""
    return as_text(choice.get("stop_reason")) or as_text(choice.get("matched_stop"))


_UNUSUAL = frozenset({"error", "citations", "search_results", "x_groq"})
_PLAIN_MESSAGE = frozenset({"role", "content", "tool_calls"})
_PLAIN_CALL = frozenset({"id", "type", "function", "index"})
_PLAIN_FUNCTION = {"name", "arguments"}


def read_plain(body: JsonObject, wire: str, sent: Prepared) -> list[Event] | None:
    """The events of a whole completion with calls in which nothing is unusual; None for every other one.

    They are those of `ChatReader`, which keeps track of much that such a body does not have.
    """
    choices = body.get("choices")
    if type(body) is not dict or type(choices) is not list or len(choices) != 1 or not _UNUSUAL.isdisjoint(body):
        return None
    choice = choices[0]
    message = choice.get("message") if type(choice) is dict and choice.get("finish_reason") == "tool_calls" else None
    if type(message) is not dict or choice.get("index", 0) != 0 or body.get("object") == "error":
        return None
    content, entries = message.get("content"), message.get("tool_calls")
    if any([message[name] for name in message.keys() - _PLAIN_MESSAGE]) or type(entries) is not list or not entries:
        return None
    if content and (type(content) is not str or not content.isascii()):
        return None
    usage = read_usage(body["usage"]) if "usage" in body else None
    if sent.limit and usage is not None and usage.output_tokens >= sent.limit:
        return None
    model, identity = body.get("model"), body.get("id")
    events: list[Event] = [ReplyStarted(as_text(model), as_text(identity)), *([TextDelta(content)] if content else ())]
    ends: list[Event] = []
    taken = set(sent.aliases.ids.values())
    for index, entry in enumerate(entries):
        call = _read_plain_call(entry, wire, sent)
        if call is None or call.id in taken:
            return None
        taken.add(call.id)
        events += (CallStarted(index, call.name, call.id), ArgumentsDelta(index, entry["function"]["arguments"]))
        ends.append(CallEnded(index, call))
    if usage is not None:
        ends.append(UsageReported(usage))
    return [*events, *ends, ReplyEnded("tool_calls", {wire: {"reason": "tool_calls"}})]


def _read_plain_call(entry: Any, wire: str, sent: Prepared) -> ToolCall | None:
    """One call under the name of an offered tool, with arguments that fit its schema."""
    function = entry.get("function") if type(entry) is dict and _PLAIN_CALL.issuperset(entry) else None
    if type(function) is not dict or function.keys() != _PLAIN_FUNCTION or sent.tools is None:
        return None
    identity, name, text = entry.get("id"), function["name"], function["arguments"]
    if (
        type(identity) is not str
        or not (identity and identity.isascii())
        or type(name) is not str
        or type(text) is not str
    ):
        return None
    tool = sent.tools.find(name)
    if tool is None or tool.name != name or name in sent.aliases.names or name in sent.aliases.undo:
        return None
    value = decode_object(text)
    if value is None or not fits_plainly(value, tool.parameters):
        return None
    return ToolCall(identity, name, value, True, True, provenance=Provenance("native", wire), wire_id=identity)


class ChatReader(SseReader):
    """Reads one chat completion. Only the first choice counts: a conversation goes on from one."""

    _read_failure = staticmethod(read_failure)
    answers = ("choices",)

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        super().__init__(wire, sent, quirks)
        self._sent = sent
        self._field = ""  # where the open part of reasoning comes from
        self._details = Details()
        self._opaque: list[str] = []
        self._counts: JsonObject = {}
        self._refusing = False
        self._reasoning: list[str] = []
        self._answered = False
        self._whole = False
        self._has_deltas = False
        self._in_message = False  # the choice of this chunk is a whole message
        self._is_finished = False
        self._repeats = False
        self._annotations: list[Any] = []
        self._audio: JsonObject = {}
        self._images: list[Image] = []
        self._inputs: dict[int, str | None] = {}  # the ids of the custom calls whose text is open, by index

    def _read_body(self, body: JsonObject) -> None:
        self._whole = True
        self._read_frame(body, None)

    def _read_frame(self, content: Any, event: str | None) -> None:
        builder = self._builder
        chunk = as_dict(content)
        choices = chunk.get("choices")
        if event == "error" or chunk.get("error") or (not choices and is_failure(chunk)):
            self._fail(chunk)
            return
        if not builder.started:
            builder.start(chunk.get("model"), chunk.get("id"))
        failed = None
        for choice in as_list(choices):
            if isinstance(choice, dict) and choice.get("index") in (0, None):
                self._read_choice(choice)
                failed = choice if isinstance(choice.get("error"), dict) else failed
        if not _SOURCES.isdisjoint(chunk):
            builder.keep({name: chunk[name] for name in _SOURCES if chunk.get(name)})
        if "usage" in chunk:
            self._count(chunk["usage"])
        if "x_groq" in chunk:
            self._count(as_dict(chunk["x_groq"]).get("usage"))
        if failed is not None:
            self._fail(failed)

    def _count(self, usage: Any) -> None:
        """Take a report of the usage over. A count that a later report leaves out stands."""
        if not isinstance(usage, dict) or not usage:
            return
        self._counts.update(usage)
        counted = read_usage(self._counts)
        if counted is not None:
            self._builder.usage(counted)

    def _read_choice(self, choice: JsonObject) -> None:
        message = self._find_message(choice)
        if message.keys() == _WORDS:
            # By far the most: the next words of the answer.
            self._read_content(message["content"])
        else:
            self._read_message(message)
        if "usage" in choice:
            self._count(choice["usage"])
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str) and reason != NO_REASON:
            self._read_stop(reason, choice)
            self._is_finished = True
            if not self._quirks.final_frame:
                self._builder.terminate()

    def _read_stop(self, reason: str, choice: JsonObject) -> None:
        """Why the model stopped. This wire has one word for the end and for a stop sequence."""
        stop, own = STOPS.get(reason) or STOPS.get(reason.lower(), "unknown"), {"reason": reason}
        if stop == "end" and (matched := _find_matched(choice)) and matched in self._stop_sequences():
            stop, own["stop_sequence"] = "stop_sequence", matched
        self._builder.stop(stop, own)

    def _stop_sequences(self) -> list[Any]:
        """The texts at which the request asked to stop: other servers use the same fields for other words."""
        given = self._sent.body.get("stop") if self._sent is not None else None
        return [given] if isinstance(given, str) else as_list(given)

    def _find_message(self, choice: JsonObject) -> JsonObject:
        """What is new in a choice. Some servers give both: an empty delta in a whole reply, all so far in a stream."""
        delta, message = choice.get("delta"), choice.get("message")
        if self._whole:
            return as_dict(message) or as_dict(delta)
        if isinstance(delta, dict) and delta:
            self._has_deltas, self._in_message = True, False
            return delta
        if self._has_deltas or not isinstance(message, dict):
            return {}
        self._in_message = True
        return message

    def _read_message(self, message: JsonObject) -> None:
        self._read_reasoning(message)
        content = message.get("content")
        if content:
            self._read_content(content)
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._end_reasoning()
            if self._answered and not self._refusing:
                self._end_text(always=True)
            self._refusing = True
            self._builder.text(refusal, RefusalDelta)
        if not _MADE.isdisjoint(message):
            self._read_made(message)
        if not _CALL_FIELDS.isdisjoint(message):
            self._read_calls(message)

    def _read_made(self, message: JsonObject) -> None:
        """What comes beside the words: where they are from, a recording of them, images."""
        self._annotations += as_list(message.get("annotations"))
        for name, value in as_dict(message.get("audio")).items():
            grows = name in ("data", "transcript") and isinstance(value, str) and isinstance(self._audio.get(name), str)
            self._audio[name] = self._audio[name] + value if grows else value
        parts = [read_block(block, self._builder.wire) for block in dicts(message.get("images"))]
        self._images += [part for part in parts if isinstance(part, Image) and (part.url or part.data)]

    def _read_content(self, content: Any) -> None:
        if isinstance(content, str):
            if content:
                self._end_reasoning()
                if self._refusing:
                    self._end_text()
                self._answered = True
                self._builder.text(content)
            return
        for block in as_list(content):
            self._read_block(block)

    def _read_block(self, block: Any) -> None:
        """One block of a content that is a list: text, or thinking as Mistral gives it."""
        if isinstance(block, str):
            self._read_content(block)
        elif isinstance(block, dict) and block.get("type") in ("thinking", "reasoning"):
            text, own = read_thinking_block(block)
            self._field = own["field"]
            self._builder.thinking(text)
            if "signature" in own:
                self._end_reasoning(own)
        elif isinstance(block, dict) and block.get("type") in (None, "text", "refusal"):
            self._read_content(as_text(block.get("text")) or as_text(block.get("refusal")))
        elif isinstance(block, dict):
            self._end_reasoning()
            if self._answered:
                # The words before it are a part of their own.
                self._end_text(always=True)
            self._builder.end_part("text", {"block": block})

    def _read_reasoning(self, message: JsonObject) -> None:
        field, text = find_reasoning(message)
        if field == "reasoning_details" and self._field not in ("", field):
            # The text came in a field of its own.
            text = ""
        if field:
            self._field = self._field or field
            self._details.add(message.get("reasoning_details"))
            self._opaque.append(as_text(message.get(OPAQUE)))
            self._builder.thinking(text)
            if self._quirks.reasoning_as_content:
                self._reasoning.append(text)

    def _end_reasoning(self, own: JsonObject | None = None) -> None:
        if self._field:
            details = self._details.take()
            named = {"field": self._field, **({"details": details} if details else {})}
            opaque = {"opaque": whole} if (whole := "".join(self._opaque)) else {}
            self._builder.end_part("thinking", {**named, **opaque, **(own or {})})
            self._field, self._opaque = "", []

    def _read_calls(self, message: JsonObject) -> None:
        entries = message.get("tool_calls")
        for entry in [entries] if isinstance(entries, dict) else as_list(entries):
            if not isinstance(entry, dict):
                continue
            self._end_reasoning()
            self._end_text()
            name, arguments, own = name_and_arguments(entry)
            identity = identity_of(entry)
            if not (identity or name or arguments or own) and arguments != {}:
                continue  # relays fill the list with entries that say nothing
            if self._whole or self._in_message:
                # Each is a call of its own, also where the server gave two of them the same id or index.
                self._builder.whole_call(identity, name, arguments, own)
                continue
            index = entry.get("index")
            if own.get("type") == "custom" and isinstance(index, int):
                arguments = self._write_input(index, identity, arguments["input"])
            self._builder.call_delta(index, identity, name, arguments, own)
        old = message.get("function_call")
        if isinstance(old, dict) and any(old.values()) and not self._is_repeated(old, message):
            self._builder.call_delta("function_call", None, old.get("name"), old.get("arguments"))

    def _write_input(self, index: int, identity: str | None, piece: str) -> str:
        """A piece of the text that a custom tool takes, as a piece of the arguments that hold it."""
        written = json.dumps(piece)[1:-1]
        if index in self._inputs and identity in (None, self._inputs[index]):
            return written
        self._end_input(index)
        self._inputs[index] = identity
        return '{"input":"' + written

    def _end_input(self, index: int) -> None:
        if index in self._inputs:
            self._builder.call_delta(index, arguments='"}')

    def _is_repeated(self, old: JsonObject, message: JsonObject) -> bool:
        """Whether the old form of a call says once more what stands in `tool_calls`, as some servers do."""
        if not self._repeats and not self._builder.has_call("function_call"):
            told = [as_dict(entry.get("function")) for entry in dicts(message.get("tool_calls"))]
            self._repeats = any(_is_same_call(old, call) for call in told)
        return self._repeats

    def _end_text(self, *, always: bool = False) -> None:
        """Tell what was said of the text, if anything was."""
        marks: JsonObject = {"refusal": True} if self._refusing else {}
        if self._annotations:
            marks["annotations"] = self._annotations
        if marks or always:
            self._builder.end_part("text", marks)
        self._refusing, self._annotations = False, []

    def _may_end(self) -> bool:
        return self._is_finished

    def _settle(self) -> None:
        self._end_reasoning()
        self._end_text()
        if self._is_finished:
            for index in self._inputs:
                self._end_input(index)
        for image in self._images:
            self._builder.part(image)
        if self._audio:
            data, wire = as_text(self._audio.get("data")) or None, self._builder.wire
            kept = {name: value for name, value in self._audio.items() if name != "data"}
            self._builder.part(File("audio", data, None, None, {wire: {"audio": kept}}))
        if self._reasoning and not self._answered:
            self._builder.text("".join(self._reasoning))
