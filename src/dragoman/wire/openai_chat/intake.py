"""The body of a chat completion, as a client sent it, read into a request."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.toolset import as_tool
from dragoman.types import InvalidCall, JsonObject, Message, Part, Text, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire.openai_chat.parts import read_call, read_content
from dragoman.wire.openai_chat.reasoning import find_reasoning, read_thinking_block
from dragoman.wire.options import Choice, keep_unknown, write_choice
from dragoman.wire.values import as_dict, as_list, as_text, dicts

_KNOWN = frozenset(
    {"model", "messages", "tools", "tool_choice", "parallel_tool_calls", "max_tokens", "max_completion_tokens"}
    | {
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "random_seed",
        "presence_penalty",
        "frequency_penalty",
        "stop",
        "stream",
    }
    | {"stream_options", "reasoning_effort", "response_format", "user", "metadata", "functions", "function_call"}
)
_TOOL_FIELDS = frozenset({"name", "description", "parameters", "metadata"})
_OWN_MESSAGE_FIELDS = ("name", "audio", "annotations", "prefix")


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
                self._messages.append(Message("assistant", self._read_assistant(entry), self._own(entry)))
            else:
                parts = read_content(entry.get("content"), self._wire)
                known = "system" if role in ("system", "developer") else "user"
                self._messages.append(Message("system" if known == "system" else "user", parts, self._own(entry)))
        return self._messages

    def _own(self, entry: JsonObject) -> dict[str, Any]:
        own = {name: entry[name] for name in _OWN_MESSAGE_FIELDS if entry.get(name) not in (None, [], {})}
        return {self._wire: own} if own else {}

    def _read_assistant(self, entry: JsonObject) -> list[Part]:
        parts: list[Part] = []
        field, text = find_reasoning(entry)
        if field:
            details = as_list(entry.get("reasoning_details"))
            own = {"field": field, **({"details": details} if details else {})}
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
        return [part for block in dicts(content) for part in self._read_answer_block(block)]

    def _read_answer_block(self, block: JsonObject) -> list[Part]:
        if block.get("type") == "thinking":
            text, own = read_thinking_block(block)
            return [Thinking(text, {self._wire: own})]
        if block.get("type") == "refusal":
            return [Text(as_text(block.get("refusal")), {self._wire: {"refusal": True}})]
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
        name = as_text(entry.get("name")) or self._names.get(identity, "")
        words: Any = parts[0].text if plain and isinstance(parts[0], Text) else parts or ""
        result = ToolResult(identity, name, words)
        if self._messages and self._messages[-1].role == "tool":
            self._messages[-1].parts.append(result)
        else:
            self._messages.append(Message("tool", [result]))


def read_tools(body: JsonObject, wire: str = "openai_chat") -> tuple[list[Tool], list[JsonObject]]:
    """The function tools, and the tools of other kinds as they are."""
    tools: list[Tool] = []
    others: list[JsonObject] = []
    old = [{"type": "function", "function": function} for function in dicts(body.get("functions"))]
    for entry in [*dicts(body.get("tools")), *old]:
        function = entry.get("function")
        if isinstance(function, dict) and isinstance(function.get("name"), str) and function["name"]:
            own = keep_unknown(function, _TOOL_FIELDS)
            tool = as_tool(entry)
            tools.append(replace(tool, metadata={**tool.metadata, wire: own}) if own else tool)
        else:
            others.append(entry)
    return tools, others


def read_options(body: JsonObject, wire: str, others: list[JsonObject]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name stands under the name of the wire."""
    options: dict[str, Any] = {}
    for name in ("temperature", "top_p", "top_k", "seed", "presence_penalty", "frequency_penalty", "user", "metadata"):
        if body.get(name) is not None:
            options[name] = body[name]
    if body.get("random_seed") is not None:
        options["seed"] = body["random_seed"]
    limit = body.get("max_completion_tokens", body.get("max_tokens"))
    if isinstance(limit, int):
        options["max_tokens"] = limit
    stop = body.get("stop")
    if stop:
        options["stop"] = [stop] if isinstance(stop, str) else stop
    if body.get("stream") is True:
        options["stream"] = True
    if isinstance(body.get("parallel_tool_calls"), bool):
        options["parallel_tool_calls"] = body["parallel_tool_calls"]
    options.update(_read_choice(body))
    effort = body.get("reasoning_effort")
    if isinstance(effort, str):
        options["reasoning"] = {"enabled": False} if effort == "none" else {"effort": effort}
    own = keep_unknown(body, _KNOWN)
    options.update(_read_format(body.get("response_format"), own))
    if others:
        own["tools"] = others
    if body.get("stream_options") not in (None, {"include_usage": True}):
        own["stream_options"] = body["stream_options"]
    if own:
        options[wire] = own
    return options


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
    if names:
        mode = "required" if allowed.get("mode") == "required" else "auto"
        return {"tool_choice": write_choice(Choice(mode, tuple(filter(None, names))))}
    return {}


def _read_format(given: Any, own: JsonObject) -> dict[str, Any]:
    wanted = as_dict(given)
    kind = wanted.get("type")
    if kind == "json_object":
        return {"response_format": {"type": "json"}}
    if kind == "json_schema":
        schema = as_dict(wanted.get("json_schema"))
        named = {name: schema[name] for name in ("name", "schema", "strict") if schema.get(name) is not None}
        return {"response_format": {"type": "json_schema", **named}}
    if wanted and kind != "text":
        own["response_format"] = given
    return {}
