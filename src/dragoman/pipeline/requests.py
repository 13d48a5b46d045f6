"""Requests before they are translated: fields that no translation can keep, and state that nobody here holds."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard

from msgspec.structs import replace

from dragoman.types import JsonObject, Request, Tool
from dragoman.wire.openai_responses.parts import added_tools
from dragoman.wire.values import as_dict, as_list, as_text

_LOST: dict[str, tuple[str, ...]] = {
    "openai_chat": ("n", "logprobs", "top_logprobs"),
    "openai_responses": ("top_logprobs",),
}
"""Fields that ask for something that a repaired reply does not have: other choices, and the likelihoods of its tokens.
A route with the profile `passthrough` keeps them."""
_LOST_OF_GEMINI = ("candidateCount", "responseLogprobs", "logprobs")
_NOTHING = (None, False, 0)


def settle_fields(request: Request, wire: str, spoken: str) -> tuple[Request, list[str]]:
    """Return the request as it is sent to an endpoint that speaks `spoken`, and what was left out of it."""
    own = request.options.get(wire)
    if wire == "openai_responses" != spoken:
        request = offer_custom_tools(request)
        own = request.options.get(wire)
    elif wire == spoken == "openai_responses":
        # The vendor's own default. Without it the client could not refer to the reply.
        own = {"store": True, **(own if isinstance(own, dict) else {})}
    if not isinstance(own, dict):
        return request, []
    kept, left_out = _drop(own, _LOST.get(wire, ()))
    if wire == "gemini" and isinstance(settings := own.get("generationConfig"), dict):
        kept["generationConfig"], left_out = _drop(settings, _LOST_OF_GEMINI)
    # The report needs the usage also where the client does not.
    kept.pop("stream_options", None)
    if kept == request.options.get(wire):
        return request, []
    said = [f"options: {name} was left out: the gateway passes on one reply, without likelihoods" for name in left_out]
    return replace(request, options={**request.options, wire: kept}), said


def find_own_tools(request: Request) -> set[str]:
    """Return the names of the tools that a client offers in the way of its vendor, such as the typed tools of Anthropic
    and the custom tools of OpenAI. A tool without a name has its type."""
    lists = [own.get("tools") for own in request.options.values() if isinstance(own, dict)]
    waiting = [*itertools.chain(*map(as_list, lists)), *added_tools(request.messages)]
    found: set[str] = set()
    while waiting:
        tool = as_dict(waiting.pop())
        inner = as_dict(tool.get("custom"))
        found.add(as_text(tool.get("name")) or as_text(inner.get("name")) or as_text(tool.get("type")))
        waiting += as_list(tool.get("tools"))
    return found


def offer_custom_tools(request: Request) -> Request:
    """Return a request of Responses whose custom tools are functions with one text, as every endpoint knows them."""
    own = as_dict(request.options.get("openai_responses"))
    given = as_list(own.get("tools"))
    # An item of the conversation may repeat a tool.
    tools = {tool.name: tool for tool in _find_custom_tools([*given, *added_tools(request.messages)])}
    if not tools:
        return request
    kept = {**own, "tools": [tool for tool in given if not _is_custom(tool)]}
    options = {**request.options, "openai_responses": kept}
    if _is_custom(kept.get("tool_choice")):
        options["tool_choice"] = {"name": kept.pop("tool_choice")["name"]}
    return replace(request, tools=[*request.tools, *tools.values()], options=options)


def _is_custom(tool: object) -> TypeGuard[JsonObject]:
    return isinstance(tool, dict) and tool.get("type") == "custom" and isinstance(tool.get("name"), str)


def _find_custom_tools(given: Iterable[object], namespace: str = "") -> Iterator[Tool]:
    for tool in given:
        if _is_custom(tool):
            yield _make_function(tool, namespace)
        elif isinstance(tool, dict) and tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            yield from _find_custom_tools(tool["tools"], str(tool.get("name") or ""))


def _make_function(custom: JsonObject, namespace: str) -> Tool:
    form = custom.get("format")
    rule = "The text for the tool."
    if isinstance(form, dict) and form.get("definition"):
        rule = f"The text follows this {form.get('syntax', '')} grammar:\n{form['definition']}"
    text = {"type": "string", "description": rule}
    parameters = {"type": "object", "properties": {"input": text}, "required": ["input"], "additionalProperties": False}
    marks: JsonObject = {"custom": True, **({"namespace": namespace} if namespace else {})}
    return Tool(custom["name"], str(custom.get("description") or ""), parameters, metadata=marks)


def _drop(fields: JsonObject, names: Iterable[str]) -> tuple[JsonObject, list[str]]:
    kept = {name: value for name, value in fields.items() if name not in names}
    asked = [name for name in names if fields.get(name) not in _NOTHING and (name, fields.get(name)) not in _USUAL]
    return kept, asked


_USUAL = (("n", 1), ("candidateCount", 1))


_CONVERSATION = {"openai_responses": "input", "gemini": "contents"}
"""The field with the conversation, where it is not `messages`."""


def find_gap(wire: str, body: JsonObject) -> str:
    """Return what is missing in a request without a message; empty if nothing is.

    Endpoints answer an empty conversation with anything, and charge for it.
    """
    if wire == "openai_responses" and find_state(body) is not None:
        return ""
    name = _CONVERSATION.get(wire, "messages")
    return f"{name} is missing, or has no message" if name not in body else f"{name} has no message that can be read"


def find_state(body: JsonObject) -> JsonObject | None:
    """Return the vendor's error for state that a Responses request refers to and that nobody here holds.

    A reply without the earlier conversation would look right and be wrong.
    """
    previous, conversation, prompt = (body.get(name) for name in ("previous_response_id", "conversation", "prompt"))
    if previous:
        return _miss("Previous response", previous, "previous_response_id", "previous_response_not_found")
    if conversation:
        return _miss("Conversation", conversation, "conversation", None)
    if prompt:
        return _miss("Prompt", prompt, "prompt", None)
    items = body.get("input")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("type") == "item_reference":
            return _miss("Item", item, "input", None)
    return None


def _miss(what: str, named: Any, param: str, code: str | None) -> JsonObject:
    id = str(named.get("id") if isinstance(named, dict) else named)[:200]
    message = f"{what} with id '{id}' not found."
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
