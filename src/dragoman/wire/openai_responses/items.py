"""Calls, results and reasoning: the items that are the same in requests and in replies."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.args.loader import load
from dragoman.types import File, Image, InvalidCall, JsonObject, Provenance, Text, ToolCall, ToolResult
from dragoman.wire.openai_responses.content import read_content, write_parts
from dragoman.wire.openai_responses.words import CUSTOM, FUNCTION, OUTPUTS, WIRE
from dragoman.wire.report import Loss
from dragoman.wire.texts import mark_error
from dragoman.wire.values import as_dict, as_text, dicts, parse, write

_CALL_FIELDS = ("id", "status", "namespace", "caller", "async")
_RESULT_FIELDS = ("id", "status", "caller", "name", "namespace")
_REASONING_FIELDS = ("id", "summary", "content", "encrypted_content", "status")
_SHOWN = ("id", "summary", "content")
_SEAL = "dragoman"


def own_of(part: Any) -> JsonObject:
    """What this wire once said of a part."""
    return as_dict(part.extra.get(WIRE))


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
    raw = arguments_of(item)
    given = as_text(item.get("call_id")) or None
    name = as_text(item.get("name"))
    own = keep_call(item)
    extra = {WIRE: own} if own else {}
    provenance = Provenance("native", WIRE)
    loaded = load(raw if isinstance(raw, str | dict) or raw is None else write(raw))
    if loaded.value is None:
        text = raw if isinstance(raw, str) else write(raw)
        return InvalidCall(id, name, text, loaded.errors, provenance, extra, given)
    return ToolCall(id, name, loaded.value, repairs=loaded.repairs, provenance=provenance, extra=extra, wire_id=given)


def write_call(call: ToolCall | InvalidCall, own: JsonObject) -> JsonObject:
    """A call item. An invalid call is written without arguments: its result says what it was."""
    kept = {name: own[name] for name in _CALL_FIELDS if name in own} if own else {}
    identity = {"id": kept.pop("id")} if "id" in kept else {}
    arguments = call.arguments if isinstance(call, ToolCall) else {}
    if own.get("type") != CUSTOM:
        written = {"call_id": call.id, "name": call.name, "arguments": write(arguments)}
        return {"type": FUNCTION, **identity, **written, **kept}
    kept.pop("status", None)
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
    if item.get("type") == OUTPUTS[CUSTOM]:
        own["type"] = OUTPUTS[CUSTOM]
    return ToolResult(id, name, content, extra={WIRE: own} if own else {})


def write_result(result: ToolResult, call: JsonObject, losses: list[Loss]) -> JsonObject:
    """A result item; `call` is what this wire said of the call, whose kind and caller the result repeats."""
    own = own_of(result)
    custom = call.get("type") == CUSTOM or own.get("type") == OUTPUTS[CUSTOM]
    kept = {name: own[name] for name in _RESULT_FIELDS if name in own} if own else {}
    if "caller" in call:
        kept["caller"] = call["caller"]
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
    own = {name: item[name] for name in _REASONING_FIELDS if item.get(name) is not None}
    return _unseal(own) or {"summary": []}


def write_reasoning(own: JsonObject) -> JsonObject:
    kept = {name: own[name] for name in _REASONING_FIELDS if name in own}
    identity = {"id": kept.pop("id")} if "id" in kept else {}
    return {"type": "reasoning", **identity, "summary": kept.pop("summary", []), **kept}


def seal(own: JsonObject, shown: JsonObject) -> JsonObject:
    """Reasoning as a stream has shown it (`shown`: id and summary), with what it really is (`own`) hidden inside.

    A stream has to name an item, and to show its text, before its true id and form are known; and encrypted reasoning
    is only accepted together with its true id. So the truth travels with the encrypted content, which clients hand
    back as it is.
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
