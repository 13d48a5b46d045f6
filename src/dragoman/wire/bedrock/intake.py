"""The body of a Converse request, as a client sent it, read into a request."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from dragoman.types import JsonObject, Message, Part, Role, Tool, ToolResult
from dragoman.wire.bedrock.blocks import is_servers, read_answers, read_block, read_call
from dragoman.wire.bedrock.words import WIRE, family_of
from dragoman.wire.options import keep_unknown
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, dicts, parse

_KNOWN = frozenset(
    {"modelId", "messages", "system", "toolConfig", "inferenceConfig", "outputConfig", "additionalModelRequestFields"}
    | {"requestMetadata"}
)
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
            self._messages.append(Message(role, rest))

    def _read_result(self, entry: JsonObject) -> ToolResult:
        identity = as_text(entry.get("toolUseId")) or next(iter(self._waiting), "")
        self._waiting.pop(identity, None)
        content = read_answers(entry.get("content"))
        return ToolResult(identity, self._names.get(identity, ""), content, entry.get("status") == "error")

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


def read_tools(body: JsonObject) -> tuple[list[Tool], list[JsonObject]]:
    """The tools with a schema, and what else stands among them, as it is."""
    tools: list[Tool] = []
    others: list[JsonObject] = []
    for entry in dicts(as_dict(body.get("toolConfig")).get("tools")):
        spec = as_dict(entry.get("toolSpec"))
        name = as_text(spec.get("name"))
        if not name:
            others += [entry] if entry and "toolSpec" not in entry else []
            continue
        description = as_text(spec.get("description"))
        rest = keep_unknown(spec, _SPEC)
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


def read_options(body: JsonObject, model: str, others: list[JsonObject]) -> dict[str, Any]:
    """The neutral options of a body; what has no neutral name stands under the name of the wire."""
    options: dict[str, Any] = {}
    own = keep_unknown(body, _KNOWN)
    inference = dict(as_dict(body.get("inferenceConfig")))
    for name, ours in (("temperature", "temperature"), ("topP", "top_p"), ("maxTokens", "max_tokens")):
        if isinstance(inference.get(name), int | float):
            options[ours] = inference.pop(name)
    if as_list(inference.get("stopSequences")):
        options["stop"] = inference.pop("stopSequences")
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
    if others:
        own["tools"] = others
    if own:
        options[WIRE] = own
    return options


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
