"""The server side of chat completions: reads requests and writes replies."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.events import (
    CallEnded,
    Event,
    PartEnded,
    PartReceived,
    RefusalDelta,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
)
from dragoman.toolset import as_tool
from dragoman.types import (
    Failure,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Reply,
    StopReason,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
)
from dragoman.wire import framing
from dragoman.wire.aliases import Identifier, IdRule
from dragoman.wire.event_order import describe_invalid
from dragoman.wire.openai_chat.parts import (
    FINISHES,
    OPAQUE,
    REASONING_FIELDS,
    find_reasoning,
    read_call,
    read_content,
    read_thinking_block,
    write_block,
    write_call,
    write_failure,
    write_usage,
)
from dragoman.wire.options import SAMPLING, Choice, OptionTable, add_own, keep_unknown, write_choice
from dragoman.wire.values import (
    as_blocks,
    as_dict,
    as_list,
    as_text,
    dicts,
    find_stop_sequence,
    join_texts,
    join_thinking,
    write,
)
from dragoman.wire.writer import NO_END, StreamWriter

# --------------------------------------------------------------------------------------------------------------------
# The body of a chat completion, as a client sent it, read into a request.

_OPTIONS = OptionTable(
    {name: name for name in ("max_tokens", *SAMPLING, "stop", "parallel_tool_calls", "user", "metadata")}
)
_OTHER_NAMES = OptionTable({"max_tokens": "max_completion_tokens", "seed": "random_seed"})
_KNOWN = frozenset(
    {"model", "messages", "tools", "tool_choice", "max_completion_tokens", *_OPTIONS.names, "random_seed", "stream"}
    | {"stream_options", "reasoning_effort", "response_format", "functions", "function_call"}
)
_CHOICE_FIELDS = frozenset({"type", "name", "function", "allowed_tools"})
_FORMAT_FIELDS = ("name", "schema", "strict", "description")
_TOOL_FIELDS = frozenset({"name", "description", "parameters", "metadata"})
_KNOWN_IN_MESSAGE = frozenset(
    {"role", "content", "refusal", "tool_calls", "function_call", "tool_call_id"}
    | {"reasoning_content", "reasoning", "reasoning_details"}
)
_EMPTY: tuple[Any, ...] = (None, [], {})


def _needs_blocks(content: Any) -> bool:
    """Whether an answer has to be written as the list of blocks that it came as."""
    blocks = list(dicts(content))
    return len(blocks) > 1 or any(block.keys() != {"type", "text"} for block in blocks)


class MessageReader:
    """Reads the messages of one body: ids made where there are none, results in one message, in order."""

    def __init__(self, wire: str) -> None:
        self._wire = wire
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._made = 0
        self._last = ""  # the id of the last call, for results that name none

    def read(self, entries: Any) -> list[Message]:
        for entry in dicts(entries):
            role = entry.get("role")
            if role in ("tool", "function"):
                self._add_result(entry)
            elif role == "assistant":
                extra = self._own(entry, blocks=_needs_blocks(entry.get("content")))
                self._messages.append(Message("assistant", self._read_assistant(entry), extra))
            else:
                parts = read_content(entry.get("content"), self._wire)
                known = "system" if role in ("system", "developer") else "user"
                self._messages.append(Message("system" if known == "system" else "user", parts, self._own(entry)))
        return self._messages

    def _own(self, entry: JsonObject, *, blocks: bool = False) -> dict[str, Any]:
        own = {name: value for name, value in entry.items() if name not in _KNOWN_IN_MESSAGE and value not in _EMPTY}
        if entry.get("role") in ("tool", "function"):
            own.pop("name", None)
        if entry.get("role") == "developer":
            own["role"] = "developer"
        if blocks:
            own["blocks"] = True
        return {self._wire: own} if own else {}

    def _read_assistant(self, entry: JsonObject) -> list[Part]:
        parts: list[Part] = []
        field, text = find_reasoning(entry)
        if field:
            details = as_list(entry.get("reasoning_details"))
            own = {"field": field, **({"details": details} if details else {})}
            own.update({"opaque": opaque} if (opaque := as_text(entry.get(OPAQUE))) else {})
            parts.append(Thinking(text, {self._wire: own}))
        parts += self._read_answer(entry.get("content"))
        refusal = entry.get("refusal")
        if isinstance(refusal, str) and refusal:
            parts.append(Text(refusal, {self._wire: {"refusal": True}}))
        calls = list(dicts(entry.get("tool_calls")))
        if isinstance(entry.get("function_call"), dict):
            calls.append({"function": entry["function_call"]})
        for call in calls:
            parts.append(self._read_call(call))
        return parts

    def _read_answer(self, content: Any) -> list[Part]:
        if isinstance(content, str):
            return [Text(content)] if content else []
        return [part for block in as_blocks(content) for part in self._read_answer_block(block)]

    def _read_answer_block(self, block: JsonObject | str) -> list[Part]:
        if isinstance(block, str):
            return [Text(block)]
        if block.get("type") == "thinking":
            text, own = read_thinking_block(block)
            return [Thinking(text, {self._wire: own})]
        if block.get("type") == "refusal":
            return [Text(as_text(block.get("refusal")), {self._wire: {"refusal": "block"}})]
        return read_content([block], self._wire)

    def _read_call(self, entry: JsonObject) -> ToolCall | InvalidCall:
        self._made += 1
        call = read_call(entry, self._wire, f"call_{self._made}")
        self._names[call.id] = call.name
        self._last = call.id
        return call

    def _add_result(self, entry: JsonObject) -> None:
        identity = as_text(entry.get("tool_call_id")) or self._last
        content = entry.get("content")
        parts = read_content(content, self._wire)
        plain = len(parts) == 1 and isinstance(parts[0], Text) and not parts[0].extra
        called = self._names.get(identity, "")
        name = as_text(entry.get("name")) or called
        words: Any = parts[0].text if plain and isinstance(parts[0], Text) else parts or ""
        extra = self._own(entry, blocks=len(parts) > 1)
        if name != called and entry.get("role") == "tool" and self._wire == "openai_chat":
            extra = {self._wire: {**extra.get(self._wire, {}), "name": name}}
        result = ToolResult(identity, name, words, extra=extra)
        if self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.append(result)
        else:
            self._messages.append(Message("tool", [result]))


def read_tools(body: JsonObject, wire: str = "openai_chat") -> tuple[list[Tool], list[Any]]:
    """The function tools; and all tools in order, the functions by name and those of other kinds as they are."""
    tools: list[Tool] = []
    others: list[Any] = []
    old = [{"type": "function", "function": function} for function in dicts(body.get("functions"))]
    for entry in [*dicts(body.get("tools")), *old]:
        function = entry.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str) and function["name"]:
            own = keep_unknown(function, _TOOL_FIELDS)
            beside = {name: value for name, value in entry.items() if name not in ("type", "function")}
            if beside:
                own["beside"] = beside
            tool = as_tool(entry)
            tools.append(replace(tool, metadata={**tool.metadata, wire: own}) if own else tool)
            others.append(tool.name)
        else:
            others.append(entry)
    return tools, others


def read_options(body: JsonObject, wire: str, others: list[Any]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name stands under the name of the wire."""
    options = _OPTIONS.read(body) | _OTHER_NAMES.read(body)
    if body.get("stream") is True:
        options["stream"] = True
    choice = _read_choice(body)
    options.update(choice)
    effort = body.get("reasoning_effort")
    if isinstance(effort, str):
        options["reasoning"] = {"enabled": False} if effort == "none" else {"effort": effort}
    own = keep_unknown(body, _KNOWN)
    if wire == "openai_chat" and body.get("top_k") is not None:
        # It is not documented. A client that sends it knows a server that accepts it.
        own["top_k"] = body["top_k"]
    given = body.get("tool_choice")
    if given is not None and (not choice or as_dict(given).keys() - _CHOICE_FIELDS):
        # A choice that only this wire knows.
        own["tool_choice"] = given
    options.update(_read_format(body.get("response_format"), own))
    asked = {"include_usage": True} if body.get("stream") is True and wire == "openai_chat" else None
    if body.get("stream_options") != asked:
        # None: the usage is not asked for where the client did not.
        own["stream_options"] = body.get("stream_options")
    return add_own(options, own, others, wire)


def _read_choice(body: JsonObject) -> dict[str, Any]:
    given = body.get("tool_choice", body.get("function_call"))
    if isinstance(given, str):
        mode = {"any": "required"}.get(given, given)
        return {"tool_choice": mode} if mode in ("auto", "none", "required") else {}
    choice = as_dict(given)
    name = as_dict(choice.get("function")).get("name") or choice.get("name")
    if isinstance(name, str):
        return {"tool_choice": {"name": name}}
    allowed = as_dict(choice.get("allowed_tools"))
    names = [as_text(as_dict(tool.get("function")).get("name")) for tool in dicts(allowed.get("tools"))]
    if names and all(names):
        mode = "required" if allowed.get("mode") == "required" else "auto"
        return {"tool_choice": write_choice(Choice(mode, tuple(names)))}
    return {}


def _read_format(given: Any, own: JsonObject) -> dict[str, Any]:
    wanted = as_dict(given)
    kind = wanted.get("type")
    if kind == "json_object":
        return {"response_format": {"type": "json"}}
    if kind == "json_schema" and isinstance(wanted.get("json_schema"), dict):
        schema = as_dict(wanted.get("json_schema"))
        named = {name: schema[name] for name in _FORMAT_FIELDS if schema.get(name) is not None}
        if schema.keys() - {*_FORMAT_FIELDS} or wanted.keys() - {"type", "json_schema"}:
            own["response_format"] = given
        return {"response_format": {"type": "json_schema", **named}}
    if wanted and kind != "text":
        own["response_format"] = given
    return {}


# --------------------------------------------------------------------------------------------------------------------
# Replies written as chat completions: whole, and as a stream of chunks.


def finish_of(stop: StopReason, extra: dict[str, Any], wire: str) -> str:
    """The finish reason: the word that this wire itself gave, or ours for it."""
    own = as_text(as_dict(extra.get(wire)).get("reason"))
    return own or FINISHES[stop]


def _write_finish(stop: StopReason, extra: dict[str, Any], wire: str, *, refused: bool) -> JsonObject:
    """The finish reason, and the stop sequence in the field of vLLM: OpenAI has none for it."""
    # A refusal in its own field is a normal end.
    reason = finish_of("end" if refused and stop == "refusal" else stop, extra, wire)
    matched = find_stop_sequence(stop, extra)
    return {"finish_reason": reason, **({"stop_reason": matched} if matched else {})}


def write_message(parts: list[Part], wire: str, ids: IdRule) -> JsonObject:
    """The message of a whole completion."""
    if all([not part.extra and isinstance(part, Text | ToolCall) for part in parts]):
        return _write_plain(parts, wire, ids)
    identifier = Identifier(ids)
    calls = [write_call(identifier.rename(part), wire) for part in parts if isinstance(part, ToolCall)]
    texts = [Text(describe_invalid(part)) if isinstance(part, InvalidCall) else part for part in parts]
    refusals = [part for part in texts if isinstance(part, Text) and part.is_refusal]
    # As the stream has them, one directly after the other.
    content = "".join(part.text for part in texts if isinstance(part, Text) and part not in refusals)
    message: JsonObject = {"role": "assistant", "content": content or (None if calls or refusals else "")}
    message["refusal"] = join_texts(refusals) or None
    message.update(_write_made(parts, wire))
    message.update(write_thinking(parts, wire))
    if calls:
        message["tool_calls"] = calls
    return message


def _write_plain(parts: list[Part], wire: str, ids: IdRule) -> JsonObject:
    """The same for words and calls of which no wire says more, as by far the most messages are."""
    text = "".join([part.text for part in parts if type(part) is Text])
    found = [part for part in parts if type(part) is ToolCall]
    message: JsonObject = {"role": "assistant", "content": text or (None if found else ""), "refusal": None}
    if found:
        identifier = Identifier(ids)
        message["tool_calls"] = [write_call(identifier.rename(call), wire) for call in found]
    return message


def _write_made(parts: list[Part], wire: str) -> JsonObject:
    """What stands beside the words: where they are from, a recording of them, images."""
    own = [as_dict(part.extra.get(wire)) for part in parts]
    fields: JsonObject = {}
    annotations = [entry for fields in own for entry in as_list(fields.get("annotations"))]
    if annotations:
        fields["annotations"] = annotations
    for part, said in zip(parts, own, strict=True):
        if isinstance(part, File) and isinstance(said.get("audio"), dict):
            fields["audio"] = {**said["audio"], "data": part.data}
        elif isinstance(part, Image):
            fields.setdefault("images", []).append(write_block(part, wire))
    return fields


def write_thinking(parts: list[Part], wire: str) -> JsonObject:
    thinking = [part for part in parts if isinstance(part, Thinking)]
    text = join_thinking(thinking)
    own = [as_dict(part.extra.get(wire)) for part in thinking]
    details = [entry for extra in own for entry in as_list(extra.get("details"))]
    # Reasoning that came as a part of the content goes into the field that most clients read.
    field = next((extra["field"] for extra in own if extra.get("field") in REASONING_FIELDS), "reasoning_content")
    fields: JsonObject = {} if field == "reasoning_details" or not text else {field: text}
    return {**fields, "reasoning_details": details} if details else fields


def write_completion(reply: Reply, wire: str, ids: IdRule, created: int) -> JsonObject:
    """A whole reply as a chat completion."""
    message = write_message(reply.message.parts, wire, ids)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        **_write_finish(reply.stop, reply.extra, wire, refused=bool(message["refusal"])),
    }
    return {
        "id": reply.id or "chatcmpl-0",
        "object": "chat.completion",
        "created": created,
        "model": reply.model,
        "choices": [choice],
        "usage": write_usage(reply.usage),
        **_write_sources(reply.extra, wire),
    }


def _write_sources(extra: dict[str, Any], wire: str) -> JsonObject:
    own = as_dict(extra.get(wire)) if extra else {}
    return {name: own[name] for name in ("citations", "search_results") if name in own} if own else {}


class ChunkWriter(StreamWriter[JsonObject | str]):
    """A Stage from events to the bytes of a stream of chunks."""

    has_refusals = True
    repeats_frames = True

    def __init__(self, wire: str, ids: IdRule, model: str, id: str, created: int, *, include_usage: bool) -> None:
        super().__init__(ids, model=model, id=id or "chatcmpl-0")
        self._wire = wire
        self._created = created
        self._include_usage = include_usage
        self._calls = 0

    def _encode(self, frame: JsonObject | str) -> bytes:
        return framing.encode_sse(None, frame if isinstance(frame, str) else write(frame))

    @property
    def _head(self) -> JsonObject:
        named = {"id": self._id, "object": "chat.completion.chunk"}
        return {**named, "created": self._created, "model": self._model}

    def _start(self) -> list[JsonObject | str]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def _write_part(self, event: Event) -> list[JsonObject | str]:
        if isinstance(event, TextDelta):
            if isinstance(event, RefusalDelta) and self.has_refusals:
                return [self._chunk({"refusal": event.text})] if event.text else []
            return [self._chunk({"content": event.text})] if event.text else []
        if isinstance(event, ThinkingDelta):
            return [self._chunk(self._write_thinking(event.text))] if event.text else []
        if isinstance(event, PartEnded):
            return self._end_part(event)
        if isinstance(event, CallEnded):
            entry = write_call(self._identifier.rename(event.call), self._wire)
            self._calls += 1
            return [self._chunk({"tool_calls": [{"index": self._calls - 1, **entry}]})]
        if isinstance(event, PartReceived):
            made = _write_made([event.part], self._wire)
            return [self._chunk(made)] if made else []
        return []

    def _write_thinking(self, text: str) -> JsonObject:
        return {"reasoning_content": text}

    def _end_part(self, event: PartEnded) -> list[JsonObject | str]:
        own = as_dict(event.extra.get(self._wire))
        kept = {"reasoning_details": own.get("details"), "annotations": own.get("annotations")}
        return [self._chunk({name: value}) for name, value in kept.items() if isinstance(value, list) and value]

    def _chunk(self, delta: JsonObject, **finish: Any) -> JsonObject:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **finish}
        return {**self._head, "choices": [choice]}

    def _end(self, event: ReplyEnded) -> list[JsonObject | str]:
        self._closed = True
        refused = self._refuses and self.has_refusals
        last = self._chunk({}, **_write_finish(event.stop, event.extra, self._wire, refused=refused))
        chunks: list[JsonObject | str] = [{**last, **_write_sources(event.extra, self._wire)}]
        if self._include_usage:
            chunks.append({**self._head, "choices": [], "usage": write_usage(self._usage)})
        return [*chunks, "[DONE]"]

    def _fail(self, failure: Failure) -> list[JsonObject | str]:
        self._closed = True
        return [write_failure(failure)[1]]

    def _cut_off(self) -> list[JsonObject | str]:
        return self._fail(NO_END)
