"""The server side of Bedrock Converse: reads requests and writes replies."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec.structs import replace

from dragoman.events import (
    CallEnded,
    Event,
    PartEnded,
    PartReceived,
    ReplyEnded,
    TextDelta,
    ThinkingDelta,
)
from dragoman.types import (
    Failure,
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Reply,
    Role,
    StopReason,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Usage,
)
from dragoman.wire import eventstream
from dragoman.wire.aliases import Identifier
from dragoman.wire.bedrock.client import OPTIONS, RULES
from dragoman.wire.bedrock.parts import (
    WIRE,
    describe,
    family_of,
    is_servers,
    own,
    read_answers,
    read_block,
    read_call,
    reason_of,
    write_call,
    write_exception,
    write_image,
    write_thinking,
    write_usage,
)
from dragoman.wire.event_order import describe_invalid
from dragoman.wire.options import add_own, keep_unknown
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, dicts, parse, write
from dragoman.wire.writer import StreamWriter

# --------------------------------------------------------------------------------------------------------------------
# The body of a Converse request, as a client sent it, read into a request.

_KNOWN = frozenset(
    {"modelId", "messages", "system", "toolConfig", "inferenceConfig", "outputConfig", "additionalModelRequestFields"}
    | {"requestMetadata"}
)
_RESULT = frozenset({"toolUseId", "content", "status"})
_SPEC = frozenset({"name", "description", "inputSchema"})


# ---- conversation ----------------------------------------------------------------------------------------------------


class MessageReader:
    """Reads the messages of one body: ids made where there are none, results in one message, in order."""

    def __init__(self, messages: Any) -> None:
        self._entries = list(dicts(messages))
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}
        self._waiting: dict[str, None] = {}  # the calls of the last assistant message that no result has named yet
        self._ids = {
            identity
            for entry in self._entries
            for block in dicts(entry.get("content"))
            if (identity := as_text(as_dict(block.get("toolUse")).get("toolUseId")))
        }
        self._made = 0

    def read(self, system: Any) -> list[Message]:
        parts = _read_plain(as_list(system) if not isinstance(system, str) else [{"text": system}])
        if parts:
            self._messages.append(Message("system", parts))
        for entry in self._entries:
            content = entry.get("content")
            blocks = [{"text": content}] if isinstance(content, str) else as_list(content)
            role = entry.get("role")
            if role == "assistant":
                self._waiting = {}
                self._messages.append(Message("assistant", self._read_assistant(blocks)))
            else:
                self._read_user(blocks, "system" if role == "system" else "user")
        return self._messages

    def _read_assistant(self, blocks: list[Any]) -> list[Part]:
        parts: list[Part] = []
        for block in dicts(blocks):
            use = block.get("toolUse")
            if isinstance(use, dict) and not is_servers(use):
                call = read_call(use, self._make_id() if not as_text(use.get("toolUseId")) else "")
                self._names[call.id] = call.name
                self._waiting[call.id] = None
                parts.append(call)
            elif not _attach_mark(block, parts):
                parts.append(read_block(block))
        return parts

    def _read_user(self, blocks: list[Any], role: Role) -> None:
        results: list[Part] = []
        rest: list[Part] = []
        extra = {WIRE: {"role": "system"}} if role == "system" else {}
        for block in dicts(blocks):
            if isinstance(block.get("toolResult"), dict):
                results.append(self._read_result(block["toolResult"]))
            elif not _attach_mark(block, rest or results):
                rest.append(read_block(block))
        if results and self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.extend(results)
        elif results:
            self._messages.append(Message("tool", results))
        if rest or not results:
            self._messages.append(Message(role, rest, extra))

    def _read_result(self, entry: JsonObject) -> ToolResult:
        identity = as_text(entry.get("toolUseId")) or next(iter(self._waiting), "")
        self._waiting.pop(identity, None)
        content = read_answers(entry.get("content"))
        rest = keep_unknown(entry, _RESULT)
        extra = {WIRE: rest} if rest else {}
        return ToolResult(identity, self._names.get(identity, ""), content, entry.get("status") == "error", extra=extra)

    def _make_id(self) -> str:
        self._made += 1
        while f"call_{self._made}" in self._ids:
            self._made += 1
        return f"call_{self._made}"


def _read_plain(blocks: list[Any]) -> list[Part]:
    parts: list[Part] = []
    for block in dicts(blocks):
        if not _attach_mark(block, parts):
            parts.append(read_block(block))
    return parts


def _attach_mark(block: JsonObject, parts: list[Part]) -> bool:
    """Let the part in front of a cache point carry it."""
    point = block.get("cachePoint")
    if not isinstance(point, dict) or not parts:
        return False
    last = parts[-1]
    extra = {**last.extra, WIRE: {**as_dict(last.extra.get(WIRE)), "cachePoint": point}}
    parts[-1] = replace(last, extra=extra)
    return True


# ---- tools -----------------------------------------------------------------------------------------------------------


def read_tools(body: JsonObject) -> tuple[list[Tool], list[Any]]:
    """The tools with a schema; and all in order, those by name and what else stands among them, as it is."""
    tools: list[Tool] = []
    others: list[Any] = []
    for entry in dicts(as_dict(body.get("toolConfig")).get("tools")):
        spec = as_dict(entry.get("toolSpec"))
        name = as_text(spec.get("name"))
        if not name:
            others += [entry] if entry and "toolSpec" not in entry else []
            continue
        description = as_text(spec.get("description"))
        rest = keep_unknown(spec, _SPEC)
        others.append(name)
        tools.append(
            Tool(
                name,
                # Where a tool has no description, its name is sent for one.
                "" if description == name else description,
                as_dict(as_dict(spec.get("inputSchema")).get("json")),
                metadata={WIRE: rest} if rest else {},
            )
        )
    return tools, others


def _read_choice(value: Any) -> Any:
    choice = as_dict(value)
    name = as_dict(choice.get("tool")).get("name")
    if isinstance(name, str):
        return {"name": name}
    return next((ours for word, ours in (("auto", "auto"), ("any", "required")) if word in choice), None)


# ---- options ---------------------------------------------------------------------------------------------------------


def read_options(body: JsonObject, model: str, others: list[Any]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name stands under the name of the wire."""
    own = keep_unknown(body, _KNOWN)
    inference = dict(as_dict(body.get("inferenceConfig")))
    options = OPTIONS.take(inference)
    choice = _read_choice(as_dict(body.get("toolConfig")).get("toolChoice"))
    if choice is not None:
        options["tool_choice"] = choice
    reasoning: JsonObject = {}
    output = _read_output(as_dict(body.get("outputConfig")), options, reasoning)
    additional = dict(as_dict(body.get("additionalModelRequestFields")))
    _read_additional(additional, family_of(model), options, reasoning)
    if reasoning:
        options["reasoning"] = reasoning
    if as_dict(body.get("requestMetadata")):
        options["metadata"] = body["requestMetadata"]
    kept = (("inferenceConfig", inference), ("outputConfig", output), ("additionalModelRequestFields", additional))
    own.update({name: fields for name, fields in kept if fields})
    return add_own(options, own, others, WIRE)


def _read_output(output: JsonObject, options: dict[str, Any], reasoning: JsonObject) -> JsonObject:
    """Take what has a neutral name; the rest is given back."""
    rest = dict(output)
    definition = as_dict(as_dict(as_dict(rest.get("textFormat")).get("structure")).get("jsonSchema"))
    schema = parse(as_text(definition.get("schema")))
    if schema is not BROKEN and isinstance(schema, dict):
        named = {name: definition[name] for name in ("name", "description") if isinstance(definition.get(name), str)}
        options["response_format"] = {"type": "json_schema", "schema": schema, **named}
        del rest["textFormat"]
    if as_text(rest.get("effort")):
        reasoning["effort"] = rest.pop("effort")
    return rest


def _read_additional(fields: JsonObject, family: str, options: dict[str, Any], reasoning: JsonObject) -> None:
    """Take out what a family of models has a neutral name for: only what is written again the same way."""
    if family == "nova":
        inference = as_dict(fields.get("inferenceConfig"))
        if inference.keys() == {"topK"}:
            options["top_k"] = inference["topK"]
            del fields["inferenceConfig"]
    if family != "claude":
        return
    if isinstance(fields.get("top_k"), int):
        options["top_k"] = fields.pop("top_k")
    thinking = as_dict(fields.get("thinking"))
    said = _read_thinking(thinking)
    if said:
        reasoning.update(said)
        del fields["thinking"]
    choice = as_dict(fields.get("tool_choice"))
    if choice.get("disable_parallel_tool_use") is True:
        options["parallel_tool_calls"] = False
        options.setdefault("tool_choice", _in_our_words(choice))
        del fields["tool_choice"]


def _read_thinking(thinking: JsonObject) -> JsonObject:
    kind, budget = thinking.get("type"), thinking.get("budget_tokens")
    if kind == "enabled" and isinstance(budget, int):
        return {"budget": budget}
    if len(thinking) == 1 and kind in ("adaptive", "disabled"):
        return {"enabled": kind == "adaptive"}
    return {}


def _in_our_words(choice: JsonObject) -> Any:
    if choice.get("type") == "tool" and isinstance(choice.get("name"), str):
        return {"name": choice["name"]}
    return "required" if choice.get("type") == "any" else "auto"


# --------------------------------------------------------------------------------------------------------------------
# Replies written as Converse gives them: whole, and as a stream of frames.

_AT_STOP = ("additionalModelResponseFields",)
_AT_END = ("trace", "performanceConfig", "serviceTier")
_LONGEST_PIECE = 1_000_000
"""The most characters in one frame, which then stays below its greatest length. Base64 can be cut there too."""


def write_metrics(opaque: JsonObject) -> JsonObject:
    metrics = as_dict(opaque.get("metrics"))
    return metrics if isinstance(metrics.get("latencyMs"), int) else {"latencyMs": 0}


def write_media(part: Image | File) -> JsonObject:
    """An image as it is. A reply has no place for a file: it is named."""
    image = write_image(part) if isinstance(part, Image) else None
    return image or {"text": describe(part)}


def _write_stop(stop: StopReason, extra: dict[str, Any], has_calls: bool) -> JsonObject:
    opaque = own(extra)
    reason = reason_of(stop, extra, has_calls=has_calls)
    return {"stopReason": reason, **{name: opaque[name] for name in _AT_STOP if name in opaque}}


def _write_counts(usage: Usage, extra: dict[str, Any]) -> JsonObject:
    opaque = own(extra)
    rest = {name: opaque[name] for name in _AT_END if name in opaque}
    return {"usage": write_usage(usage), "metrics": write_metrics(opaque), **rest}


# ---- whole ---------------------------------------------------------------------------------------------------------


def write_reply(reply: Reply) -> JsonObject:
    """A whole reply as the body of an answer."""
    has_calls = any(isinstance(part, ToolCall) for part in reply.message.parts)
    return {
        "output": {"message": {"role": "assistant", "content": _write_parts(reply.message.parts)}},
        **_write_stop(reply.stop, reply.extra, has_calls),
        **_write_counts(reply.usage, reply.extra),
    }


def _write_parts(parts: list[Part]) -> list[JsonObject]:
    """The parts of a reply as blocks. The note about a broken call goes with the text behind it, as in a stream."""
    identifier = Identifier(RULES.ids)
    blocks: list[JsonObject] = []
    note = ""
    for part in parts:
        if isinstance(part, InvalidCall):
            note += describe_invalid(part)
        elif isinstance(part, Text):
            blocks += _write_text(note + part.text, own(part.extra))
            note = ""
        elif written := _write_part(part, identifier):
            blocks += [{"text": note}, *written] if note else written
            note = ""
    return blocks + ([{"text": note}] if note else [])


def _write_part(part: Part, identifier: Identifier) -> list[JsonObject]:
    if isinstance(part, ToolCall):
        return [write_call(replace(part, id=identifier.identify(part.id)))]
    if isinstance(part, Thinking):
        # Redacted reasoning has no text on this wire. If the part has some all the same, a block of its own shows it.
        shown = [Thinking(part.text), part] if part.text and "redacted" in own(part.extra) else [part]
        return [block for entry in shown if (block := write_thinking(entry)) is not None]
    return [write_media(part)] if isinstance(part, Image | File) else []


def _write_text(text: str, opaque: JsonObject) -> list[JsonObject]:
    citations, block = as_list(opaque.get("citations")), as_dict(opaque.get("block"))
    cited = {"citationsContent": {"content": [{"text": text}], "citations": citations}}
    return ([cited if citations else {"text": text}] if text else []) + ([block] if block else [])


# ---- streamed --------------------------------------------------------------------------------------------------------


class _Frame(NamedTuple):
    kind: str
    payload: JsonObject
    family: str = "event"


def _cut(text: str) -> list[str]:
    if len(text) <= _LONGEST_PIECE:
        return [text]
    return [text[start : start + _LONGEST_PIECE] for start in range(0, len(text), _LONGEST_PIECE)]


class FrameWriter(StreamWriter[_Frame]):
    """A Stage from events to the frames of a stream: one block at a time, and only calls and images have a start."""

    def __init__(self) -> None:
        super().__init__(RULES.ids)
        self._index = 0
        self._open = ""  # the kind of the open block
        self._has_calls = False

    def _encode(self, frame: _Frame) -> bytes:
        kind, payload, family = frame
        headers = {f":{family}-type": kind, ":content-type": "application/json", ":message-type": family}
        return eventstream.encode(headers, write(payload).encode())

    def _start(self) -> list[_Frame]:
        return [_Frame("messageStart", {"role": "assistant"})]

    def _write_part(self, event: Event) -> list[_Frame]:
        if isinstance(event, TextDelta):
            return self._grow("text", [{"text": piece} for piece in _cut(event.text)]) if event.text else []
        if isinstance(event, ThinkingDelta):
            return self._think([{"text": piece} for piece in _cut(event.text)]) if event.text else []
        if isinstance(event, PartEnded):
            return self._end_text(event) if event.kind == "text" else self._end_thinking(event)
        if isinstance(event, CallEnded):
            self._has_calls = True
            call = replace(event.call, id=self._identifier.identify(event.call.id))
            return self._write_block(write_call(call))
        return self._write_block(write_media(event.part)) if isinstance(event, PartReceived) else []

    # ---- blocks -----------------------------------------------------------------------------------------------------

    def _grow(self, kind: str, deltas: list[JsonObject]) -> list[_Frame]:
        pieces = [] if self._open in ("", kind) else self._stop_block()
        self._open = kind
        return pieces + [self._delta(delta) for delta in deltas]

    def _think(self, deltas: list[JsonObject]) -> list[_Frame]:
        return self._grow("thinking", [{"reasoningContent": delta} for delta in deltas])

    def _delta(self, delta: JsonObject) -> _Frame:
        return _Frame("contentBlockDelta", {"contentBlockIndex": self._index, "delta": delta})

    def _stop_block(self) -> list[_Frame]:
        if not self._open:
            return []
        self._open = ""
        self._index += 1
        return [_Frame("contentBlockStop", {"contentBlockIndex": self._index - 1})]

    def _end_text(self, event: PartEnded) -> list[_Frame]:
        opaque = own(event.extra)
        pieces: list[_Frame] = []
        if self._open == "text":
            cited = [{"citation": entry} for entry in as_list(opaque.get("citations"))]
            pieces = self._grow("text", cited) + self._stop_block()
        return pieces + self._write_block(as_dict(opaque.get("block")))

    def _end_thinking(self, event: PartEnded) -> list[_Frame]:
        opaque = own(event.extra)
        redacted, signature = as_text(opaque.get("redacted")), as_text(opaque.get("signature"))
        if redacted:
            hidden = self._stop_block() + self._think([{"redactedContent": piece} for piece in _cut(redacted)])
            return hidden + self._stop_block()
        signed = self._think([{"signature": piece} for piece in _cut(signature)]) if signature else []
        return signed + (self._stop_block() if self._open == "thinking" else [])

    def _write_block(self, block: JsonObject) -> list[_Frame]:
        """A block that comes whole: a call, an image, or what a provider's own tool did."""
        start, deltas = _split(block)
        if not start and not deltas:
            return []
        pieces = self._stop_block()
        if start:
            pieces.append(_Frame("contentBlockStart", {"contentBlockIndex": self._index, "start": start}))
        pieces += self._grow("whole", deltas)
        return pieces + self._stop_block()

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _end(self, event: ReplyEnded) -> list[_Frame]:
        self._closed = True
        stop = _write_stop(event.stop, event.extra, self._has_calls)
        counts = _write_counts(self._usage, event.extra)
        return [*self._stop_block(), _Frame("messageStop", stop), _Frame("metadata", counts)]

    def _fail(self, failure: Failure) -> list[_Frame]:
        self._closed = True
        kind, payload = write_exception(failure)
        return [_Frame(kind, payload, "exception")]


def _split(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """The start and the deltas of a whole block. What a stream has no form for is left out."""
    use, answer, image = as_dict(block.get("toolUse")), as_dict(block.get("toolResult")), as_dict(block.get("image"))
    if use:
        start = {name: value for name, value in use.items() if name != "input"}
        return {"toolUse": start}, [{"toolUse": {"input": piece}} for piece in _cut(write(use.get("input", {})))]
    if answer:
        start = {name: value for name, value in answer.items() if name != "content"}
        return {"toolResult": start}, [{"toolResult": as_list(answer.get("content"))}]
    if image:
        source = as_dict(image.get("source"))
        pieces = [{"bytes": piece} for piece in _cut(as_text(source.get("bytes")))] if "bytes" in source else [source]
        return {"image": {"format": image.get("format")}}, [{"image": {"source": piece}} for piece in pieces]
    return {}, [block] if "text" in block else []
