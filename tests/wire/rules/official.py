"""What the official clients say about a request, by the types that they are written with."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

Judge = Callable[[dict[str, Any]], list[str]]


def complaints(wire: str, body: dict[str, Any]) -> list[str]:
    """What the official client of a wire finds wrong with a request body; empty when it would send it."""
    return _JUDGES[wire](body)


def _by_type(validator: SchemaValidator | TypeAdapter[Any], value: Any) -> list[str]:
    try:
        validator.validate_python(value)
    except ValidationError as error:
        return [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
    return []


def _eager_validator(hint: Any) -> SchemaValidator:
    """A validator for a typed dict that looks into what it calls `Iterable` and knows every key.

    Pydantic alone validates an `Iterable` only while it is read, and ignores the keys that a typed dict does not have.
    """
    return SchemaValidator(_eager(TypeAdapter(hint).core_schema))


def _eager(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_eager(entry) for entry in schema]
    if isinstance(schema, tuple):
        return tuple(_eager(entry) for entry in schema)
    if not isinstance(schema, dict):
        return schema
    changed = {key: _eager(entry) for key, entry in schema.items() if key != "serialization"}
    if changed.get("type") == "generator":
        changed["type"] = "list"
    if changed.get("type") == "typed-dict":
        changed["extra_behavior"] = "forbid"
    return changed


@functools.cache
def _chat() -> tuple[SchemaValidator, SchemaValidator]:
    from openai.types.chat import completion_create_params as params

    return _eager_validator(params.CompletionCreateParamsNonStreaming), _eager_validator(
        params.CompletionCreateParamsStreaming
    )


@functools.cache
def _responses() -> tuple[SchemaValidator, SchemaValidator]:
    from openai.types.responses import response_create_params as params

    return _eager_validator(params.ResponseCreateParamsNonStreaming), _eager_validator(
        params.ResponseCreateParamsStreaming
    )


@functools.cache
def _anthropic() -> tuple[SchemaValidator, SchemaValidator]:
    from anthropic.types import message_create_params as params

    return _eager_validator(params.MessageCreateParamsNonStreaming), _eager_validator(
        params.MessageCreateParamsStreaming
    )


def _either(find: Callable[[], tuple[SchemaValidator, SchemaValidator]]) -> Judge:
    """A client with one type for plain and one for streamed requests."""
    return lambda body: _by_type(find()[bool(body.get("stream"))], body)


@functools.cache
def _gemini_parts() -> dict[str, TypeAdapter[Any]]:
    from google.genai import types

    hints = {
        "contents": list[types.Content],
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "systemInstruction": types.Content,
        "generationConfig": types.GenerationConfig,
        "safetySettings": list[types.SafetySetting],
    }
    return {key: TypeAdapter(hint) for key, hint in hints.items()}


def _gemini(body: dict[str, Any]) -> list[str]:
    parts = _gemini_parts()
    return [f"{key}.{fault}" for key in body if key in parts for fault in _by_type(parts[key], body[key])]


@functools.cache
def _ollama_types() -> tuple[TypeAdapter[Any], TypeAdapter[Any]]:
    from ollama._types import ChatRequest, Message

    return TypeAdapter(ChatRequest), TypeAdapter(list[Message])


def _ollama(body: dict[str, Any]) -> list[str]:
    request, messages = _ollama_types()
    # Its request type takes any mapping as a message, so the messages are looked at once more; an image has its own
    # type there, which writes itself as the base64 that the body holds.
    shown = [
        {**message, "images": [{"value": image} for image in message.get("images", [])]} for message in body["messages"]
    ]
    return _by_type(request, body) + _by_type(messages, shown)


@functools.cache
def _converse() -> Any:
    import botocore.session  # type: ignore[import-untyped]

    return botocore.session.get_session().get_service_model("bedrock-runtime").operation_model("Converse").input_shape


def _bedrock(body: dict[str, Any]) -> list[str]:
    from botocore.validate import ParamValidator  # type: ignore[import-untyped]

    report = ParamValidator().validate({**_with_bytes(body), "modelId": "model"}, _converse())
    return [str(report.generate_report())] if report.has_errors() else []


def _with_bytes(value: Any) -> Any:
    """The client takes bytes where the body holds base64."""
    if isinstance(value, dict):
        return {
            key: base64.b64decode(entry)
            if key in {"bytes", "redactedContent"} and isinstance(entry, str)
            else _with_bytes(entry)
            for key, entry in value.items()
        }
    return [_with_bytes(entry) for entry in value] if isinstance(value, list) else value


@functools.cache
def _mistral_type() -> TypeAdapter[Any]:
    from mistralai.client.models import ChatCompletionRequest

    return TypeAdapter(ChatCompletionRequest)


@functools.cache
def _cohere_types() -> dict[str, TypeAdapter[Any]]:
    from cohere import ChatMessageV2, Thinking, ToolV2

    hints = {"messages": list[ChatMessageV2], "tools": list[ToolV2], "thinking": Thinking}
    return {key: TypeAdapter(hint) for key, hint in hints.items()}


def _cohere(body: dict[str, Any]) -> list[str]:
    types = _cohere_types()
    return [f"{key}.{fault}" for key in types if key in body for fault in _by_type(types[key], body[key])]


_JUDGES: dict[str, Judge] = {
    "openai_chat": _either(_chat),
    "openai_responses": _either(_responses),
    "anthropic": _either(_anthropic),
    "gemini": _gemini,
    "ollama": _ollama,
    "bedrock": _bedrock,
    "mistral": lambda body: _by_type(_mistral_type(), body),
    "cohere": _cohere,
}
