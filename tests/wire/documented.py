"""Requests with every field that the official clients document: bodies made from the types that these are written in.

Each body has the required fields and one more, at one place. So a field that a new version of a client adds is in one
of them, and what a wire does with it has to be decided.
"""

from __future__ import annotations

import copy
import functools
import typing
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from typing_extensions import TypedDict

Schema = dict[str, Any]
Place = Callable[[Any], Any]
"""A body around the value that stands at one place of it."""

# ---- the types of the clients, as JSON Schema ------------------------------------------------------------------------


def _describe(hint: Any) -> Schema:
    # Or None: pydantic takes settings for a union, though not for a TypedDict on its own.
    adapter: TypeAdapter[Any] = TypeAdapter(hint | None, config=ConfigDict(arbitrary_types_allowed=True))
    return adapter.json_schema(by_alias=True)


def _chat() -> Schema:
    from openai.types.chat import completion_create_params as params

    return _describe(params.CompletionCreateParamsNonStreaming)


def _responses() -> Schema:
    from openai.types.responses import response_create_params as params

    return _describe(params.ResponseCreateParamsNonStreaming)


def _anthropic() -> Schema:
    from anthropic.types.beta import message_create_params as params

    return _describe(params.MessageCreateParamsNonStreaming)


def _gemini() -> Schema:
    from google.genai import types

    fields = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "safetySettings": list[types.SafetySetting],
        "generationConfig": types.GenerationConfig,
        "cachedContent": str,
        "labels": dict[str, str],
        "serviceTier": types.ServiceTier,
        "store": bool,
    }
    schema = _require(_describe(TypedDict("Request", fields, total=False)), "contents")  # type: ignore[operator]
    for name, needed in _NEEDED_BY_GEMINI.items():
        schema["$defs"][name]["required"] = needed.split()
    return schema


# Every field of these types is optional there.
_NEEDED_BY_GEMINI = {
    "Content": "role parts",
    "FunctionDeclaration": "name",
    "FunctionCall": "id name args",
    "FunctionResponse": "id name response",
    "FunctionResponseBlob": "mimeType data",
    "FunctionResponseFileData": "mimeType fileUri",
    "Blob": "mimeType data",
    "FileData": "mimeType fileUri",
}


def _ollama() -> Schema:
    from ollama._types import ChatRequest, Message

    schema = _require(_describe(ChatRequest), "model", "messages")
    # Its request takes any mapping as a message.
    messages = _describe(Message)
    schema["$defs"] |= messages.pop("$defs", {})
    schema["$defs"]["Sent"] = messages
    _root(schema)["properties"]["messages"] = {"type": "array", "items": {"$ref": "#/$defs/Sent"}}
    return schema


def _mistral() -> Schema:
    from mistralai.client.models import ChatCompletionRequest

    return _describe(ChatCompletionRequest)


def _cohere() -> Schema:
    from cohere.v2.raw_client import RawV2Client

    hints = {
        name: hint
        for name, hint in typing.get_type_hints(RawV2Client.chat).items()
        if name not in ("request_options", "return")
    }
    schema = _describe(TypedDict("Request", hints, total=False))  # type: ignore[operator]
    return _require(schema, "model", "messages")


def _bedrock() -> Schema:
    import botocore.session  # type: ignore[import-untyped]

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    known: dict[str, Schema] = {}
    root = _read_shape(service.operation_model("Converse").input_shape, known)
    return {"$defs": known, **_require({"$defs": known, **root}, "messages")}


def _read_shape(shape: Any, known: dict[str, Schema]) -> Schema:
    """A shape of AWS as JSON Schema."""
    kind = shape.type_name
    if kind == "structure" and not shape.is_document_type:
        if shape.name not in known:
            known[shape.name] = {}
            members = {name: _read_shape(member, known) for name, member in shape.members.items()}
            if shape.is_tagged_union:
                choices = [
                    {"type": "object", "properties": {name: member}, "required": [name]}
                    for name, member in members.items()
                ]
                known[shape.name] = {"anyOf": choices}
            else:
                known[shape.name] = {"type": "object", "properties": members, "required": shape.required_members}
        return {"$ref": f"#/$defs/{shape.name}"}
    if kind == "list":
        return {"type": "array", "items": _read_shape(shape.member, known)}
    if kind == "map":
        return {"type": "object", "additionalProperties": _read_shape(shape.value, known)}
    if kind == "string":
        return {"type": "string", **({"enum": list(shape.enum)} if shape.enum else {})}
    names = {"integer": "integer", "long": "integer", "float": "number", "double": "number", "boolean": "boolean"}
    return {"type": names[kind]} if kind in names else {"type": "string", "format": "binary"} if kind == "blob" else {}


def _root(schema: Schema) -> Schema:
    """The object that a schema is about, without the `or None` around it."""
    choices = [choice for choice in schema.get("anyOf", [schema]) if choice.get("type") != "null"]
    found: Schema = choices[0]
    return schema["$defs"][found["$ref"].rpartition("/")[2]] if "$ref" in found else found


def _require(schema: Schema, *names: str) -> Schema:
    _root(schema)["required"] = list(names)
    return schema


_SCHEMAS: dict[str, Callable[[], Schema]] = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
    "bedrock": _bedrock,
    "mistral": _mistral,
    "cohere": _cohere,
}

# ---- bodies ----------------------------------------------------------------------------------------------------------

PNG = "iVBORw0KGgo="
PARAMETERS = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
IDENTITY = "call00001"
TOOL = "find"
# What stands in fields whose type says less than the API: the same id everywhere, so that results find their calls.
_BY_NAME: dict[str, Any] = {
    **dict.fromkeys(("tool_call_id", "tool_use_id", "call_id", "toolUseId", "id"), IDENTITY),
    **dict.fromkeys(("name", "toolName", "tool_name"), TOOL),
    "role": "user",
    "type": "function",
    **dict.fromkeys(("input_schema", "parameters", "parametersJsonSchema", "json"), PARAMETERS),
    **dict.fromkeys(("url", "image_url", "file_url", "document_url", "fileUri"), "https://e.example/a"),
    "uri": "s3://bucket/a.png",
    **dict.fromkeys(("data", "bytes", "redactedContent", "thoughtSignature"), PNG),
    "file_data": f"data:application/pdf;base64,{PNG}",
    **dict.fromkeys(("media_type", "mimeType", "mime_type"), "image/png"),
    "arguments": '{"x":"y"}',
    "args": {"x": "y"},
    "encrypted_content": "gAAAA",
    "signature": "c2ln",
    "budget_tokens": 2048,
    "max_tokens": 8192,
}
_SCALARS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "integer": [7],
    "number": [0.5],
    "null": [None],
}


class Bodies:
    """All bodies of one wire, each with where its one additional field stands."""

    def __init__(self, wire: str) -> None:
        self._schema = _SCHEMAS[wire]()
        self._known: Schema = self._schema.get("$defs", {})
        self._seen: set[int] = set()

    def make(self) -> Iterator[tuple[str, Any]]:
        yield from self._vary(_root(self._schema), "$", lambda value: value, 0)

    def _resolve(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            schema = self._known[schema["$ref"].rpartition("/")[2]]
        return schema

    def _choices(self, schema: Any) -> list[Schema]:
        """The alternatives of a schema, each without alternatives."""
        schema = self._resolve(schema) if isinstance(schema, dict) else {}
        inner = schema.get("anyOf") or schema.get("oneOf")
        if not inner:
            return [schema]
        found = [each for choice in inner for each in self._choices(choice) if each.get("type") != "null"]
        # mistralai says with a class of its own that a field was not given.
        return sorted((each for each in found if each.get("title") != "Unset"), key=_is_of_others)

    def _least(self, schema: Schema, name: str, depth: int = 0) -> Any:
        """The smallest value of a schema: the first alternative, and nothing that is not required."""
        if name in _BY_NAME and not self._is_fixed(schema):
            kinds = {choice.get("type") for choice in self._choices(schema)}
            value = _BY_NAME[name]
            if (
                not kinds - {None}
                or {"str": "string", "dict": "object", "int": "integer"}[type(value).__name__] in kinds
            ):
                return copy.deepcopy(value)
        schema = self._choices(schema)[0]
        mark = _mark_of(schema, name)
        if mark is not None:
            return mark
        if schema.get("enum"):
            return schema["enum"][0]
        kind = schema.get("type")
        if kind == "array" and depth < 8:
            return [self._least(schema.get("items", {}), name, depth + 1)]
        if kind == "object" or "properties" in schema:
            return self._least_object(schema, depth)
        if kind == "string":
            return PNG if schema.get("format") in ("binary", "base64url") else f"a {name}"
        return _SCALARS.get(str(kind), [{"k": "v"}])[0]

    def _is_fixed(self, schema: Schema) -> bool:
        return any("const" in choice or "enum" in choice for choice in self._choices(schema))

    def _least_object(self, schema: Schema, depth: int) -> Any:
        members = schema.get("properties", {})
        if not members and "properties" in schema:
            return {}
        if not members:
            rest = schema.get("additionalProperties")
            return {"k": self._least(rest, "k", depth + 1) if isinstance(rest, dict) and depth < 8 else "v"}
        # A member with one possible value says which of the alternatives this is.
        marks = [name for name in members if _mark_of(self._resolve(members[name]), name) is not None]
        needed = dict.fromkeys([*marks, *schema.get("required", ())])
        return {name: self._least(members[name], name, depth + 1) for name in needed if name in members}

    def _vary(self, schema: Schema, path: str, place: Place, depth: int) -> Iterator[tuple[str, Any]]:
        """Bodies with each member of an object, in each of its forms."""
        if id(schema) in self._seen or depth > 12:
            return
        self._seen.add(id(schema))
        least = self._least_object(schema, 0)
        for name, member in schema.get("properties", {}).items():
            for value, deeper in self._forms(member, name):
                yield f"{path}.{name}", place({**least, name: value})
                inner, wrap = deeper
                if inner is not None:
                    yield from self._vary(inner, f"{path}.{name}", _nest(place, least, name, wrap), depth + 1)

    def _forms(self, schema: Any, name: str) -> Iterator[tuple[Any, tuple[Schema | None, Place]]]:
        """Each value that shows another form of a member; with the object in it, to be varied."""
        for choice in self._choices(schema):
            kind = choice.get("type")
            if "const" not in choice and choice.get("enum"):
                yield from ((value, (None, _same)) for value in choice["enum"])
            elif kind == "array":
                for value, (inner, wrap) in self._forms(choice.get("items", {}), name):
                    yield [value], (inner, functools.partial(_listed, wrap))
            elif kind == "object" or "properties" in choice:
                rest = choice.get("additionalProperties")
                if "properties" not in choice and isinstance(rest, dict):
                    for value, (inner, wrap) in self._forms(rest, name):
                        yield {"k": value}, (inner, functools.partial(_keyed, wrap))
                else:
                    yield self._least(choice, name), (choice if "properties" in choice else None, _same)
            elif kind in _SCALARS:
                yield from ((value, (None, _same)) for value in _SCALARS[kind])
            else:
                yield self._least(choice, name), (None, _same)


def _mark_of(schema: Schema, name: str) -> Any:
    """The one value that tells which alternative an object is."""
    return schema.get("const", schema.get("default") if name in ("role", "type") else None)


def _is_of_others(choice: Schema) -> bool:
    """Messages of the user come first, for everyone accepts them."""
    role = choice.get("properties", {}).get("role")
    return isinstance(role, dict) and _mark_of(role, "role") != "user"


def _same(value: Any) -> Any:
    return value


def _listed(wrap: Place, value: Any) -> Any:
    return [wrap(value)]


def _keyed(wrap: Place, value: Any) -> Any:
    return {"k": wrap(value)}


def _nest(place: Place, least: Schema, name: str, wrap: Place) -> Place:
    return lambda value: place({**least, name: wrap(value)})


# ---- conversations ---------------------------------------------------------------------------------------------------
#
# A result needs its call, a call its result, and the user the last word; else every wire would have to insert them.


def _complete_chat(messages: list[Any], arguments: Any = '{"x":"y"}') -> list[Any]:
    hello = {"role": "user", "content": "Hello."}
    call = {"id": IDENTITY, "type": "function", "function": {"name": TOOL, "arguments": arguments}}
    done: list[Any] = []
    for message in messages:
        if message.keys() & {"thinking", "tool_calls"}:
            message["role"] = "assistant"
        if "images" in message:
            message["images"] = [PNG]
        for block in message["content"] if isinstance(message.get("content"), list) else ():
            if isinstance(block, dict) and isinstance(block.get("file"), dict) and not block["file"].get("file_id"):
                block["file"].setdefault("file_data", _BY_NAME["file_data"])
        for made in message.get("tool_calls") or ():
            made.setdefault("id", IDENTITY)
            if made.get("type", "function") == "function":
                made["function"] = {"name": TOOL, "arguments": arguments, **made.get("function", {})}
        role = message.get("role")
        if role in ("tool", "function"):
            made = {"tool_calls": [call]} if role == "tool" else {"function_call": call["function"]}
            done += [hello, {"role": "assistant", **made}, message]
        elif role == "assistant":
            if not message.keys() & {"tool_calls", "function_call", "refusal", "audio"}:
                message.setdefault("content", "Well.")
            calls = message.get("tool_calls") or ()
            answers = [{"role": "tool", "tool_call_id": made.get("id", IDENTITY), "content": "ok"} for made in calls]
            old = [{"role": "function", "name": TOOL, "content": "ok"}] if message.get("function_call") else []
            done += [hello, message, *answers, *old, *([] if answers or old else [hello])]
        else:
            done += [message] if role == "user" else [message, hello]
    return done


def _complete_blocks(messages: list[Any], call: Any, result: Any, key: Callable[[Any], str]) -> list[Any]:
    hello = {"role": "user", "content": call and [_HELLO[bool("toolUse" in call)]]}
    done: list[Any] = []
    for message in messages:
        content = message.get("content")
        kinds = {key(block) for block in content} if isinstance(content, list) else set()
        if message.get("role") == "assistant":
            asked = kinds & {"tool_use", "toolUse"}
            done += [hello, message, {"role": "user", "content": [result]} if asked else hello]
        elif kinds & {"tool_result", "toolResult"}:
            done += [hello, {"role": "assistant", "content": [call]}, message]
        else:
            done += [message, hello] if message.get("role") == "system" else [message]
    return done


_HELLO = ({"type": "text", "text": "Hello."}, {"text": "Hello."})


def complete(wire: str, body: dict[str, Any]) -> dict[str, Any]:
    """The body with a conversation that its wire accepts."""
    body = copy.deepcopy(body)
    if wire == "anthropic":
        call = {"type": "tool_use", "id": IDENTITY, "name": TOOL, "input": {"x": "y"}}
        result = {"type": "tool_result", "tool_use_id": IDENTITY, "content": "ok"}
        body["messages"] = _complete_blocks(body["messages"], call, result, lambda block: block.get("type", ""))
        body.setdefault("tools", [{"name": TOOL, "description": "Find", "input_schema": PARAMETERS}])
    elif wire == "bedrock":
        call = {"toolUse": {"toolUseId": IDENTITY, "name": TOOL, "input": {"x": "y"}}}
        result = {"toolResult": {"toolUseId": IDENTITY, "content": [{"text": "ok"}]}}
        body["messages"] = _complete_blocks(body["messages"], call, result, lambda block: next(iter(block), ""))
        spec = {"toolSpec": {"name": TOOL, "description": "Find", "inputSchema": {"json": PARAMETERS}}}
        body.setdefault("toolConfig", {"tools": [spec]})
        if not any("toolSpec" in tool for tool in body["toolConfig"]["tools"]):
            body["toolConfig"]["tools"].insert(0, spec)
    elif wire == "gemini":
        body["contents"] = _complete_contents(body["contents"])
        for part in body.get("systemInstruction", {}).get("parts", ()):
            _complete_part(part)
        declared = {"name": TOOL, "description": "Find", "parameters": {"type": "OBJECT"}}
        if "cachedContent" not in body:
            body.setdefault("tools", [{"functionDeclarations": [declared]}])
    elif wire == "openai_responses":
        body["input"] = _complete_items(body.get("input", "Hello."))
        body.setdefault("model", "gpt-5")
        body.setdefault("tools", [{"type": "function", "name": TOOL, "parameters": PARAMETERS}])
    else:
        function = {"name": TOOL, "description": "Find", "parameters": PARAMETERS}
        if not body.keys() & {"functions", "tools"} and (wire != "cohere" or "response_format" not in body):
            body["tools"] = [{"type": "function", "function": function}]
        body["messages"] = _complete_chat(body["messages"], {"x": "y"} if wire == "ollama" else '{"x":"y"}')
    return body


def _complete_contents(contents: list[Any]) -> list[Any]:
    hello = {"role": "user", "parts": [{"text": "Hello."}]}
    call = {"functionCall": {"name": TOOL, "args": {"x": "y"}, "id": IDENTITY}, "thoughtSignature": PNG}
    result = {"functionResponse": {"name": TOOL, "response": {"output": "ok"}, "id": IDENTITY}}
    done: list[Any] = []
    for content in contents:
        for part in content.get("parts") or ():
            _complete_part(part)
            for inner in part.get("functionResponse", {}).get("parts", ()):
                if not inner.keys() & {"inlineData", "fileData"}:
                    inner["inlineData"] = {"mimeType": "image/png", "data": PNG}
        kinds = {kind for part in content.get("parts") or () for kind in part}
        if "functionCall" in kinds:
            done += [hello, {**content, "role": "model"}, {"role": "user", "parts": [result]}]
        elif "functionResponse" in kinds:
            done += [hello, {"role": "model", "parts": [call]}, {**content, "role": "user"}]
        elif kinds:
            done += [{"role": "user", **content}]
        else:
            done += [{**content, "parts": [{"text": "Hello."}]}]
    return done


def _complete_part(part: dict[str, Any]) -> None:
    if not part.keys() - {"thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata"}:
        part["text"] = "Hello."


def _complete_items(items: Any) -> Any:
    if not isinstance(items, list):
        return items
    hello = {"role": "user", "content": "Hello.", "type": "message"}
    said = {"role": "assistant", "content": "Well.", "type": "message"}
    done: list[Any] = [hello]
    for item in items:
        kind = item.get("type", "message")
        _complete_item(item, kind)
        pairs = {"function_call": "arguments", "custom_tool_call": "input"}
        if kind in pairs:
            done += [item, {"type": f"{kind}_output", "call_id": item.get("call_id", IDENTITY), "output": "ok"}]
        elif kind.removesuffix("_output") in pairs:
            call = kind.removesuffix("_output")
            asked = {"call_id": item.get("call_id", IDENTITY), "name": TOOL, pairs[call]: '{"x":"y"}'}
            done += [{"type": call, **asked}, item]
        else:
            done += [item, said] if kind == "reasoning" else [item]
    return done


_ITEM_IDS = {"message": "msg_1", "function_call": "fc_1", "custom_tool_call": "ctc_1"}


def _complete_item(item: dict[str, Any], kind: str) -> None:
    """The item with an id of its kind, and with what its images and files need."""
    if item.get("id") == IDENTITY and kind in _ITEM_IDS:
        item["id"] = _ITEM_IDS[kind]
    for field in ("content", "output"):
        for block in item[field] if isinstance(item.get(field), list) else ():
            if block.get("type") == "input_image" and not block.keys() & {"image_url", "file_id"}:
                block["image_url"] = "https://e.example/a"
            elif block.get("type") == "input_file" and not block.keys() & {"file_data", "file_url", "file_id"}:
                block["file_data"] = _BY_NAME["file_data"]


@functools.cache
def documented(wire: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Every body of a wire, by the place of the field that it shows."""
    return tuple((path, complete(wire, body)) for path, body in Bodies(wire).make())
