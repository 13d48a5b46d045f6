"""The server side of generateContent: reads requests and writes replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Any

from msgspec.structs import replace

from dragoman.events import (
    CallEnded,
    Event,
    PartEnded,
    PartReceived,
    ReplyEnded,
    ReplyFailed,
    TextDelta,
    ThinkingDelta,
)
from dragoman.types import (
    Failure,
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
from dragoman.wire.aliases import FREE_IDS, Identifier
from dragoman.wire.event_order import describe_invalid
from dragoman.wire.gemini.client import OPTIONS
from dragoman.wire.gemini.parts import (
    FINISHES,
    LEVELS,
    WIRE,
    camel,
    kind_of,
    own_of,
    read_call,
    read_part,
    read_result,
    write_call,
    write_failure,
    write_media,
    write_own,
    write_part,
    write_usage,
)
from dragoman.wire.options import Choice, add_own, keep_unknown, write_choice
from dragoman.wire.values import as_dict, as_list, as_text, dicts, write
from dragoman.wire.writer import StreamWriter

# --------------------------------------------------------------------------------------------------------------------
# Parameters of declared tools, read as JSON Schema.
#
# The API has a dialect of its own: types in upper case, `nullable` beside them, numbers that may come as text, and
# references without the dollar sign. Other wires and the validation of arguments want the standard.

_DEEPEST = 64
_NESTED = ("items", "additionalProperties")
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_RENAMED = {"defs": "$defs", "ref": "$ref"}
_READ = frozenset({"type", "properties", "defs", "anyOf", "ref", *_NESTED, *_COUNTS})
"""Members that mean something else here than in the standard, or may hold such; any other is passed on as it is."""


def read_parameters(declaration: JsonObject) -> JsonObject:
    """The JSON Schema of a declaration, in whichever form it stands there; empty for a tool without parameters."""
    standard = declaration.get("parametersJsonSchema")
    if isinstance(standard, dict):
        return standard
    given = declaration.get("parameters")
    return read_schema(given) if isinstance(given, dict) else {}


def read_schema(given: JsonObject, depth: int = 0) -> JsonObject:
    """A schema of this wire's own dialect as JSON Schema."""
    if depth > _DEEPEST:
        return {}
    schema: JsonObject = {}
    for name, value in camel(given).items():
        if value is not None and name != "nullable":
            schema[_RENAMED.get(name, name)] = _read_member(name, value, depth) if name in _READ else value
    if schema.get("type") == "type_unspecified":
        del schema["type"]
    return _allow_null(schema) if given.get("nullable") is True else schema


def _read_member(name: str, value: Any, depth: int) -> Any:
    if name == "type" and isinstance(value, str):
        return value.lower()
    if name in _NESTED and isinstance(value, dict):
        return read_schema(value, depth + 1)
    if name in ("properties", "defs") and isinstance(value, dict):
        return {key: read_schema(entry, depth + 1) for key, entry in value.items() if isinstance(entry, dict)}
    if name == "anyOf" and isinstance(value, list):
        return [read_schema(entry, depth + 1) for entry in value if isinstance(entry, dict)]
    if name == "ref" and isinstance(value, str):
        return value.replace("#/defs/", "#/$defs/")
    if name in _COUNTS and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        # 64-bit integers are written as text in the JSON of this API.
        return int(value)
    return value


def _allow_null(schema: JsonObject) -> JsonObject:
    kind = schema.get("type")
    if isinstance(kind, str) and kind != "null":
        schema["type"] = [kind, "null"]
        if isinstance(schema.get("enum"), list):
            schema["enum"] = [*schema["enum"], None]
    if isinstance(schema.get("anyOf"), list):
        schema["anyOf"] = [*schema["anyOf"], {"type": "null"}]
    return schema


# --------------------------------------------------------------------------------------------------------------------
# The body of generateContent, as a client sent it, read into a request: the conversation.


def read_system(given: Any) -> list[Message]:
    """The system instruction: a content, a list of parts, or mere text."""
    texts: list[Part] = [part for entry in _parts(given) if isinstance(part := read_part(entry), Text)]
    return [Message("system", texts)] if texts else []


def _parts(content: Any) -> list[JsonObject]:
    """The parts of a content, in all the forms that clients give it."""
    if isinstance(content, str):
        return [{"text": content}]
    if isinstance(content, list):
        return [{"text": entry} if isinstance(entry, str) else entry for entry in content if _is_part(entry)]
    parts = as_dict(content).get("parts")
    if parts is None and isinstance(as_dict(content).get("text"), str):
        return [{"text": content["text"]}]
    return _parts([parts] if isinstance(parts, dict) else parts) if parts is not None else []


def _is_part(entry: Any) -> bool:
    return isinstance(entry, str | dict)


class ContentReader:
    """Reads the contents of one body: ids made where there are none, results in one message, in order."""

    def __init__(self, tools: Collection[str]) -> None:
        self._tools = tools
        self._messages: list[Message] = []
        self._names: dict[str, str] = {}  # the id of every call so far -> the name of its tool
        self._waiting: dict[str, deque[str]] = {}  # a name -> the ids of the calls in this turn; all of them under ""
        self._answered: set[str] = set()
        self._taken: set[str] = set()
        self._made = 0

    def read(self, contents: Any) -> list[Message]:
        entries = contents if isinstance(contents, list) else [contents]
        turns = [(entry, [camel(part) for part in _parts(entry)]) for entry in entries if _is_part(entry)]
        for _, parts in turns:
            self._taken.update(as_text(camel(as_dict(part.get("functionCall"))).get("id")) for part in parts)
        for entry, parts in turns:
            role = entry.get("role") if isinstance(entry, dict) else "user"
            if role in ("model", "assistant"):
                self._add_answer(parts)
            else:
                self._add_user(parts)
        return self._messages

    def _add_answer(self, parts: list[JsonObject]) -> None:
        if not self._messages or self._messages[-1].role != "assistant":
            # A new turn: what was not answered before will not be answered any more.
            self._waiting = {}
        self._messages.append(Message("assistant", [self._read_answer(part) for part in parts]))

    def _read_answer(self, part: JsonObject) -> Part:
        if kind_of(part) != "functionCall":
            return read_part(part)
        call = read_call(part)
        if not call.id:
            call = replace(call, id=self._make_id())
        self._names.setdefault(call.id, call.name)
        self._waiting.setdefault("", deque()).append(call.id)
        if call.name:
            self._waiting.setdefault(call.name, deque()).append(call.id)
        return call

    def _make_id(self) -> str:
        while True:
            self._made += 1
            identity = f"call_{self._made}"
            if identity not in self._taken:
                return identity

    def _add_user(self, parts: list[JsonObject]) -> None:
        given = [read_result(part) for part in parts if kind_of(part) == "functionResponse"]
        words: list[Part] = [read_part(part) for part in parts if kind_of(part) != "functionResponse"]
        calls = [self._find_call(result) for result in given]
        results: list[Part] = [self._answer(result, call) for result, call in zip(given, calls, strict=True)]
        if results and self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.extend(results)
        elif results:
            self._messages.append(Message("tool", results))
        if words or not results:
            self._messages.append(Message("user", words))

    def _find_call(self, result: ToolResult) -> str:
        """The id of the call that a result names by its id or its name, or nothing."""
        found = result.call_id if result.call_id in self._names else self._next(result.name)
        if found:
            self._answered.add(found)
        return found

    def _answer(self, result: ToolResult, call: str) -> ToolResult:
        """The result with the id of its call."""
        name = result.name
        if not call and name not in self._tools and name not in self._names.values():
            # Some clients write an id of their own in place of the name. Their results are in the order of the calls.
            call = self._next("")
            name = ""
        if not call:
            return result
        self._answered.add(call)
        return replace(result, call_id=call, name=name or self._names[call])

    def _next(self, name: str) -> str:
        """The first call of this turn and name that has no result; without a name, the first of any."""
        waiting = self._waiting.get(name, deque())
        while waiting:
            identity = waiting.popleft()
            if identity not in self._answered:
                return identity
        return ""


def read_contents(body: JsonObject, tools: list[Tool]) -> list[Message]:
    """The whole conversation of a body."""
    contents = body.get("contents")
    spoken = ContentReader({tool.name for tool in tools}).read(contents) if contents is not None else []
    return [*read_system(body.get("systemInstruction")), *spoken]


# --------------------------------------------------------------------------------------------------------------------
# The body of generateContent, as a client sent it, read into a request: tools and options.

_KNOWN = frozenset(
    {"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "functionDeclarations"}
)
_DECLARED = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_EFFORTS = {level: effort for effort, level in LEVELS.items() if level == effort.upper()}


# ---- tools -----------------------------------------------------------------------------------------------------------


def read_tools(body: JsonObject) -> tuple[list[Tool], list[Any]]:
    """The functions; and all tools in order, the functions by name and those of other kinds as they are."""
    tools: list[Tool] = []
    others: list[Any] = []
    given = body.get("tools")
    for entry in [given] if isinstance(given, dict) else dicts(given):
        group = camel(entry)
        found = [tool for declared in dicts(group.get("functionDeclarations")) if (tool := _read_tool(declared))]
        tools += found
        others += [tool.name for tool in found]
        rest = {name: value for name, value in group.items() if name != "functionDeclarations"}
        if rest:
            others.append(rest)
    return tools, others


def _read_tool(given: JsonObject) -> Tool | None:
    declared = camel(given)
    name = as_text(declared.get("name"))
    own = {key: value for key, value in declared.items() if key not in _DECLARED and value is not None}
    if isinstance(declared.get("parametersJsonSchema"), dict):
        own["json_schema"] = True
    metadata = {WIRE: own} if own else {}
    parameters = read_parameters(declared)
    return Tool(name, as_text(declared.get("description")), parameters, metadata=metadata) if name else None


# ---- options ---------------------------------------------------------------------------------------------------------


def read_options(given: JsonObject, others: list[Any]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name stands under the name of the wire."""
    body = camel(given)
    own = keep_unknown(body, _KNOWN)
    options: dict[str, Any] = {}
    config = dict(camel(as_dict(body.get("generationConfig"))))
    options.update(_take_config(config))
    if config:
        own["generationConfig"] = config
    calling = dict(camel(as_dict(body.get("toolConfig"))))
    options.update(_take_choice(calling))
    if calling:
        own["toolConfig"] = calling
    return add_own(options, own, others, WIRE)


def _take_config(config: JsonObject) -> dict[str, Any]:
    """Take out of the configuration what has a neutral name; what is left is this wire's own."""
    options = OPTIONS.take(config)
    thinking = dict(camel(as_dict(config.pop("thinkingConfig", None))))
    reasoning = _take_thinking(thinking)
    if reasoning:
        options["reasoning"] = reasoning
    if thinking:
        config["thinkingConfig"] = thinking
    wanted = _take_format(config)
    if wanted:
        options["response_format"] = wanted
    return options


def _take_thinking(thinking: JsonObject) -> JsonObject:
    reasoning: JsonObject = {}
    budget = thinking.get("thinkingBudget")
    level = _EFFORTS.get(as_text(thinking.get("thinkingLevel")).upper())
    if isinstance(budget, int) and not isinstance(budget, bool):
        del thinking["thinkingBudget"]
        reasoning.update({"enabled": budget == -1} if budget in (0, -1) else {"budget": budget})
    elif level is not None:
        del thinking["thinkingLevel"]
        reasoning["effort"] = level
    if thinking.get("includeThoughts") is True:
        del thinking["includeThoughts"]
        reasoning["summary"] = "auto"
    return reasoning


def _take_format(config: JsonObject) -> JsonObject:
    if config.get("responseMimeType") != "application/json":
        return {}
    del config["responseMimeType"]
    if isinstance(config.get("responseJsonSchema"), dict):
        return {"type": "json_schema", "schema": config.pop("responseJsonSchema")}
    if isinstance(config.get("responseSchema"), dict):
        # In this wire's own dialect: kept as it is for this wire, and translated for all others.
        return {"type": "json_schema", "schema": read_schema(config["responseSchema"])}
    return {"type": "json"}


def _take_choice(config: JsonObject) -> dict[str, Any]:
    calling = dict(camel(as_dict(config.pop("functionCallingConfig", None))))
    given = as_text(calling.get("mode")).upper()
    names = tuple(name for name in as_list(calling.get("allowedFunctionNames")) if isinstance(name, str) and name)
    mode = {"AUTO": "auto", "NONE": "none", "ANY": "required", "VALIDATED": "auto"}.get(given)
    if mode is not None:
        calling.pop("allowedFunctionNames", None)
        # Without names, VALIDATED is a demand on the calls that only this wire knows.
        if given != "VALIDATED" or names:
            del calling["mode"]
    if calling:
        config["functionCallingConfig"] = calling
    if mode is None:
        return {}
    return {"tool_choice": write_choice(Choice(mode, names if given in ("ANY", "VALIDATED") else ()))}


# --------------------------------------------------------------------------------------------------------------------
# Replies written as GenerateContentResponse: whole, and as a stream of chunks.

_EMPTY: JsonObject = {"text": ""}


def _write_end(stop: StopReason, extra: dict[str, Any], parts: list[JsonObject]) -> JsonObject:
    """The fields that end a reply: a candidate with its reason, or the news that the prompt was blocked."""
    own = as_dict(extra.get(WIRE))
    feedback = as_dict(own.get("prompt_feedback"))
    if feedback and stop == "refusal" and parts == [_EMPTY]:
        return {"promptFeedback": feedback}
    candidate: JsonObject = {
        **as_dict(own.get("candidate")),
        "content": {"parts": parts, "role": "model"},
        # The word for a blocked prompt is none for a candidate.
        "finishReason": FINISHES[stop] if feedback else as_text(own.get("reason")) or FINISHES[stop],
        "index": 0,
    }
    if as_text(own.get("message")):
        candidate["finishMessage"] = own["message"]
    return {"candidates": [candidate]}


def write_response(reply: Reply) -> JsonObject:
    """A whole reply."""
    identifier = Identifier(FREE_IDS)
    parts = [written for part in reply.message.parts if (written := _write_part(part, identifier)) is not None]
    return {
        **_write_end(reply.stop, reply.extra, parts or [_EMPTY]),
        "usageMetadata": write_usage(reply.usage),
        "modelVersion": reply.model,
        "responseId": reply.id,
    }


def _write_part(part: Part, identifier: Identifier) -> JsonObject | None:
    if isinstance(part, ToolCall):
        return write_call(identifier.rename(part))
    if isinstance(part, InvalidCall):
        return {"text": describe_invalid(part)}
    if isinstance(part, ToolResult):
        return None
    if isinstance(part, Text | Thinking) and not part.text and not own_of(part).keys() - {"thought"}:
        return None
    return write_part(part)


class ChunkWriter(StreamWriter[JsonObject]):
    """A Stage from events to the bytes of a stream of chunks.

    A piece of text waits for the event behind it: if that one brings a signature, both go out in one part.
    """

    def __init__(self, model: str, id: str) -> None:
        super().__init__(FREE_IDS, model=model, id=id)
        self._held: tuple[str, str] | None = None  # kind and text of the piece that waits

    def _encode(self, frame: JsonObject) -> bytes:
        return framing.encode_sse(None, write(frame))

    def _frames_of(self, event: Event) -> list[JsonObject]:
        ready = self._order.feed(event)
        # An event that is kept back for now brings no signature for what came before it.
        return self._write_all(ready) if ready else self._release()

    def _write(self, event: Event) -> list[JsonObject]:
        waits = isinstance(event, TextDelta | ThinkingDelta | PartEnded | ReplyFailed)
        return super()._write(event) if waits else self._release() + super()._write(event)

    def _write_part(self, event: Event) -> list[JsonObject]:
        if isinstance(event, TextDelta | ThinkingDelta):
            return self._hold("text" if isinstance(event, TextDelta) else "thinking", event.text)
        if isinstance(event, PartEnded):
            return self._end_part(event.kind, as_dict(event.extra.get(WIRE)))
        if isinstance(event, CallEnded):
            return self._chunk(write_call(self._identifier.rename(event.call)))
        if isinstance(event, PartReceived):
            media = write_media(event.part)
            return self._chunk(media) if media is not None else []
        return []

    def _end(self, event: ReplyEnded) -> list[JsonObject]:
        self._closed = True
        end = _write_end(event.stop, event.extra, [_EMPTY])
        return [self._frame({**end, "usageMetadata": write_usage(self._usage)})]

    # ---- text that waits ---------------------------------------------------------------------------------------

    def _hold(self, kind: str, text: str) -> list[JsonObject]:
        pieces = self._release()
        self._held = (kind, text) if text else None
        return pieces

    def _release(self) -> list[JsonObject]:
        held, self._held = self._held, None
        return self._chunk(_write_text(*held, {})) if held is not None else []

    def _end_part(self, kind: str, own: JsonObject) -> list[JsonObject]:
        if "part" in own:
            return self._release() + self._chunk(as_dict(own["part"]))
        if not own.keys() - {"thought"}:
            return self._release()
        text = ""
        pieces: list[JsonObject] = []
        if self._held is not None and self._held[0] == kind:
            text, self._held = self._held[1], None
        else:
            pieces = self._release()
        return pieces + self._chunk(_write_text(kind, text, own))

    # ---- chunks ------------------------------------------------------------------------------------------------

    def _chunk(self, part: JsonObject) -> list[JsonObject]:
        return [self._frame({"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]})]

    def _frame(self, fields: JsonObject) -> JsonObject:
        return {**fields, "modelVersion": self._model, "responseId": self._id}

    def _fail(self, failure: Failure) -> list[JsonObject]:
        frames = self._release()
        self._closed = True
        return [*frames, write_failure(failure)[1]]


def _write_text(kind: str, text: str, own: JsonObject) -> JsonObject:
    fields = write_own(own)
    if kind == "thinking":
        fields = {"thought": True, **fields}
    return {"text": text, **fields}
