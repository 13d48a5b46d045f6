"""Two request bodies of one wire compared: what differs between them, but for spellings that mean the same.

docs/design/0004-wires.md lists these spellings.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

_camel = re.compile(r"_([a-z0-9])").sub


def differences(wire: str, one: Any, other: Any) -> list[str]:
    """The places in which two bodies differ, each as a path and the two values."""
    return list(_compare(_respell(wire, one), _respell(wire, other), "$"))


def _compare(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for name in dict.fromkeys([*one, *other]):
            yield from _compare(one.get(name, _ABSENT), other.get(name, _ABSENT), f"{path}.{name}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _compare(left, right, f"{path}[{place}]")
    elif not _is_equal(one, other):
        yield f"{path}: {_show(one)} became {_show(other)}"


_ABSENT = object()


def _show(value: Any) -> str:
    return "nothing" if value is _ABSENT else json.dumps(value, default=str)[:200]


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _in_order(entries: list[Any], number: Callable[[Any], Any]) -> list[Any]:
    """Neighbouring results in the order of their calls."""
    ordered: list[Any] = []
    for is_result, group in itertools.groupby(entries, lambda entry: isinstance(number(entry), int)):
        found = list(group)
        ordered += sorted(found, key=number) if is_result else found
    return ordered


def _get(*path: str) -> Callable[[Any], Any]:
    def find(entry: Any) -> Any:
        for name in path:
            entry = entry.get(name) if isinstance(entry, dict) else None
        return entry

    return find


# ---- spellings -------------------------------------------------------------------------------------------------------


def _respell(wire: str, body: Any) -> Any:
    value = json.loads(json.dumps(body))
    return _WIRES[wire](_without_null(value))


_SETTINGS = frozenset(
    {"reasoning", "text", "metadata", "output_config", "response_format", "stream_options", "options"}
    | {"generationConfig", "thinkingConfig", "toolConfig", "functionCallingConfig", "guardrailConfig"}
    | {"performanceConfig", "outputConfig", "inferenceConfig", "requestMetadata", "additionalModelRequestFields"}
)


def _without_null(value: Any) -> Any:
    """Null means absent, and so does a group of settings without any."""
    if isinstance(value, dict):
        kept = {name: _without_null(inner) for name, inner in value.items() if inner is not None}
        return {name: inner for name, inner in kept.items() if inner != {} or name not in _SETTINGS}
    return [_without_null(inner) for inner in value] if isinstance(value, list) else value


class _Ids:
    """Ids of calls replaced by the number of the call: which call a result answers counts, and not its id."""

    def __init__(self) -> None:
        self._made = 0
        self._waiting: list[tuple[Any, int]] = []

    def call(self, id: Any) -> int:
        self._made += 1
        self._waiting.append((id, self._made))
        return self._made

    def result(self, id: Any) -> Any:
        """The number of the last call with this id; without an id, of the first that has no result."""
        same = [entry for entry in self._waiting if id is None or entry[0] == id]
        if not same:
            return id
        found = same[0] if id is None else same[-1]
        self._waiting.remove(found)
        return found[1]


def _drop(fields: dict[str, Any], **defaults: Any) -> None:
    """A field with its default is as good as none."""
    for name, default in defaults.items():
        if name in fields and _is_equal(fields[name], default):
            del fields[name]


def _rename(fields: dict[str, Any], **names: str) -> None:
    for old, new in names.items():
        if old in fields:
            fields.setdefault(new, fields.pop(old))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _blocks(content: Any) -> list[Any]:
    """A text is a list with one text."""
    given = [content] if isinstance(content, str | dict) else content or []
    blocks = [{"type": "text", "text": block} if isinstance(block, str) else block for block in given]
    return [block for block in blocks if block not in _NOTHING]


# An empty text says nothing.
_NOTHING: tuple[Any, ...] = ({"type": "text", "text": ""}, {"type": "output_text", "text": ""}, {"text": ""})


def _json(value: Any) -> Any:
    """JSON text is compared by its value; no text at all stands for no arguments."""
    try:
        return json.loads(value or "{}") if isinstance(value, str | None) else value
    except ValueError:
        return value


def _chat(body: dict[str, Any]) -> dict[str, Any]:
    ids = _Ids()
    messages = [_chat_message(message, ids) for message in body.get("messages", [])]
    body["messages"] = _in_order(messages, _get("tool_call_id"))
    old = [{"type": "function", "function": function} for function in body.pop("functions", [])]
    if old or "tools" in body:
        body["tools"] = [*body.get("tools", []), *old]
    for tool in body.get("tools", ()):
        _function(tool)
    choice = body.get("tool_choice", body.pop("function_call", None))
    if isinstance(choice, dict) and "name" in choice:
        choice = {"type": "function", "function": {"name": choice["name"]}}
    if choice is not None:
        body["tool_choice"] = choice
    _rename(body, max_tokens="max_completion_tokens")
    _drop(body, stream=False, tools=[], response_format={"type": "text"})
    if "stop" in body:
        body["stop"] = _as_list(body["stop"])
    # How the stream tells the usage is asked for in any case.
    if body.get("stream"):
        body["stream_options"] = {"include_usage": True, **body.get("stream_options", {})}
    return body


def _function(tool: Any) -> None:
    function = tool.get("function")
    if isinstance(function, dict):
        tool.setdefault("type", "function")
        function.setdefault("parameters", {})
        _drop(function, description="", strict=False, parameters={})
        _drop(function, parameters={"type": "object", "properties": {}})


def _chat_message(message: dict[str, Any], ids: _Ids) -> dict[str, Any]:
    _drop(message, tool_calls=[], annotations=[], content="", refusal="")
    if "function_call" in message:
        call = {"type": "function", "function": message.pop("function_call")}
        message["tool_calls"] = [*message.get("tool_calls", []), call]
    for call in message.get("tool_calls", ()):
        _call(call, ids)
    if message.get("role") in ("tool", "function"):
        message["role"] = "tool"
        # The name of the tool is that of its call.
        message.pop("name", None)
        message["tool_call_id"] = ids.result(message.get("tool_call_id"))
    message["content"] = _blocks(message.get("content"))
    for block in message["content"]:
        if isinstance(block, dict) and isinstance(block.get("image_url"), str):
            block["image_url"] = {"url": block["image_url"]}
    return message


def _call(call: dict[str, Any], ids: _Ids) -> None:
    call.setdefault("type", "function")
    call["id"] = ids.call(call.get("id"))
    # Its place says the same.
    call.pop("index", None)
    function = call.get("function")
    if isinstance(function, dict):
        function["arguments"] = _json(function.get("arguments"))


def _mistral(body: dict[str, Any]) -> dict[str, Any]:
    body = _chat(body)
    body.pop("stream_options", None)
    if body.get("tool_choice") == "required":
        body["tool_choice"] = "any"
    for message in body["messages"]:
        _drop(message, prefix=False)
        for block in message["content"]:
            if isinstance(block, dict) and isinstance(block.get("thinking"), str):
                block["thinking"] = [{"type": "text", "text": block["thinking"]}]
    return body


def _cohere(body: dict[str, Any]) -> dict[str, Any]:
    body = _chat(body)
    _rename(body, max_completion_tokens="max_tokens")
    body.pop("stream_options", None)
    for message in body["messages"]:
        _drop(message, tool_plan="", citations=[])
    return body


def _ollama(body: dict[str, Any]) -> dict[str, Any]:
    ids = _Ids()
    for message in body.get("messages", ()):
        _rename(message, name="tool_name")
        # The name of the tool is that of its call.
        message.pop("tool_name", None)
        if message.get("role") == "tool":
            message["tool_call_id"] = ids.result(message.get("tool_call_id"))
        message.setdefault("content", "")
        _drop(message, tool_calls=[], images=[], thinking="")
        for call in message.get("tool_calls", ()):
            _call(call, ids)
            call["function"].pop("index", None)
    body["messages"] = _in_order(body.get("messages", []), _get("tool_call_id"))
    for tool in body.get("tools", ()):
        _function(tool)
    body.setdefault("stream", True)
    _drop(body, tools=[], options={}, format="")
    if isinstance(body.get("options"), dict) and "stop" in body["options"]:
        body["options"]["stop"] = _as_list(body["options"]["stop"])
    return body


def _responses(body: dict[str, Any]) -> dict[str, Any]:
    given = body.get("input", [])
    items = [{"role": "user", "content": given}] if isinstance(given, str) else _as_list(given)
    instructions = body.get("instructions")
    if isinstance(instructions, list):
        items = [*instructions, *items]
        del body["instructions"]
    ids = _Ids()
    items = [_item(item, ids) for item in items]
    body["input"] = _in_order(items, lambda item: _get("call_id")(item) if "output" in item else None)
    for tool in body.get("tools", ()):
        _flat_function(tool)
    _drop(body, stream=False, tools=[], instructions="")
    return body


def _flat_function(tool: dict[str, Any]) -> None:
    if tool.get("type", "function") == "function":
        tool["type"] = "function"
        tool.setdefault("parameters", {})
        _drop(tool, description="")
        _drop(tool, parameters={"type": "object", "properties": {}})
        _drop(tool, parameters={})


def _item(item: Any, ids: _Ids) -> Any:
    if not isinstance(item, dict):
        return item
    kind = str(item.get("type"))
    if kind in ("function_call", "custom_tool_call"):
        item["call_id"] = ids.call(item.get("call_id"))
    elif kind in ("function_call_output", "custom_tool_call_output"):
        item["call_id"] = ids.result(item.get("call_id"))
    if "role" in item:
        item.setdefault("type", "message")
        is_answer = item["role"] == "assistant"
        blocks = _blocks(item.get("content"))
        for block in blocks:
            if is_answer and block.get("type") in ("text", "input_text"):
                block["type"] = "output_text"
            elif block.get("type") == "text":
                block["type"] = "input_text"
            _drop(block, annotations=[], logprobs=[], detail="auto")
        item["content"] = blocks
        _drop(item, status="completed")
    if kind == "function_call":
        item["arguments"] = _json(item.get("arguments"))
    if kind in ("function_call_output", "custom_tool_call_output"):
        item["output"] = [
            {**block, "type": "input_text"} if block.get("type") == "text" else block
            for block in _blocks(item.get("output"))
        ]
        for block in item["output"]:
            _drop(block, detail="auto")
    return item


def _anthropic(body: dict[str, Any]) -> dict[str, Any]:
    messages: list[Any] = []
    ids = _Ids()
    for message in body.get("messages", ()):
        blocks = [_anthropic_block(block, ids) for block in _blocks(message.get("content"))]
        if not blocks:
            continue
        # Neighbours with one role are one message.
        if messages and messages[-1].get("role") == message.get("role"):
            messages[-1]["content"] += blocks
        else:
            messages.append({**message, "content": blocks})
    for message in messages:
        message["content"] = _in_order(message["content"], _get("tool_use_id"))
    body["messages"] = messages
    if "system" in body:
        body["system"] = _blocks(body["system"])
    for tool in body.get("tools", ()):
        _drop(tool, type="custom", description="", strict=False)
    _drop(body, stream=False, tools=[], system=[])
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        _drop(choice, disable_parallel_tool_use=False)
    return body


def _anthropic_block(block: Any, ids: _Ids) -> Any:
    if isinstance(block, dict):
        if block.get("type") == "tool_use":
            block["id"] = ids.call(block.get("id"))
        elif block.get("type") == "tool_result":
            block["tool_use_id"] = ids.result(block.get("tool_use_id"))
            block["content"] = [_anthropic_block(inner, ids) for inner in _blocks(block.get("content"))]
        _drop(block, is_error=False, citations=[])
    return block


def _gemini(body: dict[str, Any]) -> dict[str, Any]:
    body = _in_camel(body)
    contents: list[Any] = []
    ids = _Ids()
    given = body.get("contents", [])
    for content in [given] if isinstance(given, dict | str) else given:
        content = {"parts": [{"text": content}]} if isinstance(content, str) else content
        content.setdefault("role", "user")
        if contents and contents[-1]["role"] == content["role"]:
            contents[-1]["parts"] = contents[-1].get("parts", []) + content.get("parts", [])
        else:
            contents.append(content)
    body["contents"] = contents
    for content in contents:
        for part in content.get("parts", ()):
            _gemini_part(part, ids)
        parts = [part for part in content.get("parts", ()) if part not in _NOTHING]
        content["parts"] = _in_order(parts, _get("functionResponse", "id"))
    if "systemInstruction" in body:
        system = body["systemInstruction"]
        parts = system.get("parts", system) if isinstance(system, dict) else system
        body["systemInstruction"] = [{"text": parts}] if isinstance(parts, str) else _as_list(parts)
    if "tools" in body:
        body["tools"] = _group(_as_list(body["tools"]))
    thinking = body.get("generationConfig", {}).get("thinkingConfig", {})
    _drop(thinking, includeThoughts=False)
    _raise(thinking, "thinkingLevel")
    _raise(body.get("toolConfig", {}).get("functionCallingConfig", {}), "mode")
    _drop(body, tools=[])
    return body


def _raise(fields: dict[str, Any], name: str) -> None:
    """The API reads the words of its enums in any case."""
    if isinstance(fields.get(name), str):
        fields[name] = fields[name].upper()


def _gemini_part(part: dict[str, Any], ids: _Ids) -> None:
    _drop(part, thought=False)
    if part.keys() <= {"thoughtSignature", "thought"}:
        part["text"] = ""
    call = part.get("functionCall")
    if isinstance(call, dict):
        call.setdefault("args", {})
        call["id"] = ids.call(call.get("id"))
    if isinstance(part.get("functionResponse"), dict):
        part["functionResponse"]["id"] = ids.result(part["functionResponse"].get("id"))


def _group(tools: list[Any]) -> list[Any]:
    """Every kind of tool in an object of its own; neighbouring functions in one."""
    groups: list[Any] = []
    for tool in tools:
        for kind, value in tool.items():
            if kind == "functionDeclarations" and groups and kind in groups[-1]:
                groups[-1][kind] += value
            else:
                groups.append({kind: value})
    for group in groups:
        for declared in group.get("functionDeclarations", ()):
            if isinstance(declared.get("parameters"), dict):
                declared["parameters"] = _lower_types(declared["parameters"])
            _drop(declared, description="")
            if not declared.get("parameters", {}).get("properties") and _is_bare(declared.get("parameters", {})):
                declared.pop("parameters", None)
    return groups


def _is_bare(schema: dict[str, Any]) -> bool:
    """Whether a schema of parameters names none."""
    return schema.keys() <= {"type", "properties", "required", "defs", "nullable"} and not schema.get("required")


def _lower_types(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: inner.lower() if name == "type" and isinstance(inner, str) else _lower_types(inner)
            for name, inner in value.items()
        }
    return [_lower_types(inner) for inner in value] if isinstance(value, list) else value


_FREE = frozenset({"args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "properties", "k"})


def _in_camel(value: Any, name: str = "") -> Any:
    """Names in camelCase, as the documentation has them; what the caller named stays."""
    if isinstance(value, dict):
        if name in _FREE:
            return value
        return {
            spelled: _in_camel(inner, spelled)
            for key, inner in value.items()
            for spelled in [_camel(lambda found: found[1].upper(), key)]
        }
    return [_in_camel(inner, name) for inner in value] if isinstance(value, list) else value


def _bedrock(body: dict[str, Any]) -> dict[str, Any]:
    messages: list[Any] = []
    ids = _Ids()
    for message in body.get("messages", ()):
        content = message.get("content")
        blocks = [{"text": content}] if isinstance(content, str) else content
        if messages and messages[-1].get("role") == message.get("role"):
            messages[-1]["content"] += blocks
        else:
            messages.append({**message, "content": blocks})
        for block in blocks:
            if isinstance(block.get("toolUse"), dict):
                block["toolUse"]["toolUseId"] = ids.call(block["toolUse"].get("toolUseId"))
                _drop(block["toolUse"], type="tool_use")
            if isinstance(block.get("toolResult"), dict):
                block["toolResult"]["toolUseId"] = ids.result(block["toolResult"].get("toolUseId"))
                _drop(block["toolResult"], status="success")
    for message in messages:
        message["content"] = _in_order(message["content"], _get("toolResult", "toolUseId"))
    body["messages"] = messages
    form = body.get("outputConfig", {}).get("textFormat", {}).get("structure", {}).get("jsonSchema", {})
    if "schema" in form:
        form["schema"] = _json(form["schema"])
    for tool in body.get("toolConfig", {}).get("tools", ()):
        spec = tool.get("toolSpec", {})
        # A tool without a description is described by its name.
        _drop(spec, strict=False, description=spec.get("name"))
    body.pop("modelId", None)
    _drop(body, system=[])
    return body


_WIRES = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "ollama": _ollama,
    "bedrock": _bedrock,
    "mistral": _mistral,
    "cohere": _cohere,
}
