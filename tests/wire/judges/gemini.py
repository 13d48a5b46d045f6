"""The official `google-genai` client as the judge of our generateContent wire (the Gemini API, not Vertex).

The model and the question whether to stream are in the path of a request, not in its body. `validate_request` wants
camelCase and upper-case enums, as the server's documents have them. The client itself is not so consistent: what it
sends is snake_case wherever it copies one of its own models (`mime_type`, `thinking_budget`, ...), and a server has
to read both. Its base64 is the URL-safe one.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
from google import genai
from google.genai import errors, types
from tests.wire.judges import scenes
from tests.wire.judges.inprocess import Line, whole
from tests.wire.judges.seen import Seen
from tests.wire.judges.strict import check, check_keys
from tests.wire.judges.transport import given

MODEL = "gemini-3-flash"

_REQUEST: dict[str, Any] = {
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
# The client writes these into a generationConfig, but its class of that name lacks them.
_MORE: dict[type, dict[str, Any]] = {types.GenerationConfig: {"imageConfig": types.ImageConfig}}


def validate_request(body: dict[str, Any]) -> None:
    """Raise unless every part of the body fits the client's type of it, in the spelling of the wire."""
    check_keys(body, _REQUEST, _MORE, required=("contents",))
    for content in [*body["contents"], *([body["systemInstruction"]] if "systemInstruction" in body else [])]:
        types.Content.model_validate_json(msgspec.json.encode(content), by_alias=True, by_name=False)
    for tool in body.get("tools", []):
        types.Tool.model_validate_json(msgspec.json.encode(tool), by_alias=True, by_name=False)


def read_whole(body: dict[str, Any], *, status: int = 200, headers: dict[str, str] | None = None) -> Seen:
    """What the client makes of a whole answer."""
    with _client(whole(body, status, headers)) as client:
        try:
            answer = client.models.generate_content(model=MODEL, contents="Hi")
        except errors.APIError as error:
            return _failed(Seen(), error)
    check(body, types.GenerateContentResponse)
    return _collect([answer])


def read_stream(chunks: list[bytes]) -> Seen:
    """What the client makes of a streamed answer (server-sent events, as `alt=sse` asks for)."""
    answers: list[types.GenerateContentResponse] = []
    with _client(Line(chunks, headers={"content-type": "text/event-stream"})) as client:
        try:
            answers.extend(client.models.generate_content_stream(model=MODEL, contents="Hi"))
        except errors.APIError as error:
            return _failed(_collect(answers), error)
    data = [line.removeprefix(b"data:") for line in b"".join(chunks).splitlines() if line.startswith(b"data:")]
    for number, item in enumerate(data):
        check(msgspec.json.decode(item), types.GenerateContentResponse, f"event {number}")
    return _collect(answers)


@contextmanager
def _client(line: Line) -> Iterator[genai.Client]:
    # Given both HTTP clients, the official one makes none of its own, which would read the machine's certificates.
    with line.client() as http:
        options = types.HttpOptions(
            httpx_client=http,
            httpx_async_client=httpx.AsyncClient(transport=httpx.MockTransport(line.answer)),
            base_url="http://judge.invalid",
            api_version="v1beta",
        )
        with genai.Client(api_key="dummy-key", vertexai=False, http_options=options) as client:
            yield client


def _collect(answers: Iterable[types.GenerateContentResponse]) -> Seen:
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[tuple[str | None, str, dict[str, Any]]] = []
    signed: list[tuple[str, str]] = []
    last: dict[str, Any] = {}
    for answer in answers:
        last["model"] = answer.model_version or last.get("model")
        last["usage"] = answer.usage_metadata or last.get("usage")
        if answer.prompt_feedback and answer.prompt_feedback.block_reason:
            last["blocked"] = answer.prompt_feedback.block_reason.value
        for candidate in answer.candidates or []:
            last["stop"] = candidate.finish_reason.value if candidate.finish_reason else last.get("stop")
            for part in (candidate.content and candidate.content.parts) or []:
                kind = "call" if part.function_call else "thinking" if part.thought else "text"
                if part.function_call:
                    call = part.function_call
                    calls.append((call.id, call.name or "", call.args or {}))
                elif part.text:
                    (thoughts if part.thought else texts).append(part.text)
                if part.thought_signature is not None:
                    signed.append((kind, base64.b64encode(part.thought_signature).decode()))
    return Seen(
        text="".join(texts),
        thinking="".join(thoughts),
        calls=tuple(calls),
        usage=_usage(last.get("usage")),
        stop=last.get("stop") or "",
        model=last.get("model") or "",
        extra=_extra(last, signed),
    )


def _usage(usage: types.GenerateContentResponseUsageMetadata | None) -> tuple[int, int] | None:
    """The counts of prompt and answer. The prompt includes what was cached; the answer excludes the thoughts."""
    return (usage.prompt_token_count or 0, usage.candidates_token_count or 0) if usage else None


def _extra(last: dict[str, Any], signed: list[tuple[str, str]]) -> dict[str, Any]:
    usage: types.GenerateContentResponseUsageMetadata | None = last.get("usage")
    return given(
        signatures=tuple(signature for _, signature in signed),
        signed=tuple(kind for kind, _ in signed),
        thought_tokens=usage.thoughts_token_count if usage else None,
        cached_tokens=usage.cached_content_token_count if usage else None,
        blocked=last.get("blocked"),
    )


def _failed(so_far: Seen, error: errors.APIError) -> Seen:
    return msgspec.structs.replace(
        so_far,
        error=(type(error).__name__, error.code, error.message or ""),
        extra={**so_far.extra, "code": error.status},
    )


# ---- what the client sends ----------------------------------------------------------------------------------------

_Scene = tuple[str, Any, dict[str, Any], dict[str, Any]]
"""(label, contents, config, what was said)"""
_HELLO = scenes.HELLO
# As the client writes bytes: in the alphabet of base64 that is safe in a URL.
_SIGNATURE = base64.urlsafe_b64encode(b"\xff\xfe opaque").decode()
# Three ways to declare: a JSON schema, nothing for a tool without arguments, and the client's own Schema.
_TOOLS = [
    types.Tool(
        function_declarations=[
            types.FunctionDeclaration(
                name=name, description=description, parameters_json_schema=schema if schema["properties"] else None
            )
            for name, description, schema in scenes.TOOLS
        ]
    )
]
_OWN_SCHEMA = types.Schema(
    type=types.Type.OBJECT,
    properties={"cities": types.Schema(type=types.Type.ARRAY, items=types.Schema(type=types.Type.STRING))},
)
_COMPARE = types.FunctionDeclaration(name="compare", description="Compare cities", parameters=_OWN_SCHEMA)


def sent() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(label, body, what was said) for everything that the client was made to send; model and stream as in its URL."""
    return [(label, _send(contents, config, words), words) for label, contents, config, words in _scenes()]


def _send(contents: Any, config: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    line = whole({"candidates": []})
    options = types.GenerateContentConfig(**config) if config else None
    with _client(line) as client:
        if words["stream"]:
            list(client.models.generate_content_stream(model=MODEL, contents=contents, config=options))
        else:
            client.models.generate_content(model=MODEL, contents=contents, config=options)
    [(path, body)] = line.asked
    verb = "streamGenerateContent" if words["stream"] else "generateContent"
    assert path == f"/v1beta/models/{words['model']}:{verb}", path
    return body


def _said(**changes: Any) -> dict[str, Any]:
    return scenes.said(MODEL, **changes)


def _content(role: str, *parts: types.Part | str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=part) if isinstance(part, str) else part for part in parts])


def _call(id: str | None, name: str, arguments: dict[str, Any], signature: bytes | None = None) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=id, name=name, args=arguments), thought_signature=signature)


def _result(id: str | None, name: str, response: dict[str, Any], *parts: types.FunctionResponsePart) -> types.Part:
    return types.Part(
        function_response=types.FunctionResponse(id=id, name=name, response=response, parts=list(parts) or None)
    )


def _scenes() -> Iterator[_Scene]:
    yield "plain", _HELLO, {}, _said()
    yield "stream", _HELLO, {}, _said(stream=True)
    yield "max_tokens", _HELLO, {"max_output_tokens": 64}, _said(max_tokens=64)
    yield "system", _HELLO, {"system_instruction": scenes.SYSTEM}, _said(system=scenes.SYSTEM)
    yield "unicode", scenes.UNICODE, {}, _said(texts=[scenes.UNICODE])
    silence = [_content("user", _HELLO), _content("model", ""), _content("user", "Still there?")]
    yield "empty_text", silence, {}, _said(texts=[_HELLO, "Still there?"])
    image = types.Part.from_bytes(data=base64.b64decode(scenes.PIXEL), mime_type="image/png")
    yield "image", [_content("user", "What is it?", image)], {}, _said(texts=["What is it?"], images=1)
    level = types.ThinkingConfig(include_thoughts=True, thinking_level=types.ThinkingLevel.LOW)
    yield "reasoning", _HELLO, {"thinking_config": level}, _said()
    yield "reasoning_off", _HELLO, {"thinking_config": types.ThinkingConfig(thinking_budget=0)}, _said()
    yield from _tool_scenes()
    yield from _history_scenes()


def _tool_scenes() -> Iterator[_Scene]:
    yield "tools", _HELLO, {"tools": _TOOLS}, _said(tools=scenes.NAMES)
    own = [types.Tool(function_declarations=[_COMPARE])]
    yield "tools_own_schema", _HELLO, {"tools": own}, _said(tools=["compare"])
    kinds: list[tuple[str, str, list[str] | None, Any]] = [
        ("auto", "AUTO", None, "auto"),
        ("none", "NONE", None, "none"),
        ("required", "ANY", None, "required"),
        ("named", "ANY", ["ping"], {"name": "ping"}),
    ]
    for label, mode, names, choice in kinds:
        calling = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode(mode), allowed_function_names=names)
        config = {"tools": _TOOLS, "tool_config": types.ToolConfig(function_calling_config=calling)}
        yield f"tool_choice_{label}", _HELLO, config, _said(tools=scenes.NAMES, tool_choice=choice)


def _history_scenes() -> Iterator[_Scene]:
    tools = {"tools": _TOOLS}
    calls = [("call-1", "get_weather", scenes.PARIS), ("call-2", "get_weather", scenes.OSLO)]
    results = [
        _result("call-1", "get_weather", {"output": "sunny"}),
        _result("call-2", "get_weather", {"output": "grå"}),
    ]
    words = _said(tools=scenes.NAMES, calls=calls, results=[("call-1", "sunny", False), ("call-2", "grå", False)])
    made = [_call(*call) for call in calls]
    asked = [_content("user", _HELLO), _content("model", "Both at once.", *made), _content("user", *results)]
    yield "parallel_calls", asked, tools, words
    # The signature sits on the first call of a step.
    signed = _call(*calls[0], base64.urlsafe_b64decode(_SIGNATURE))
    thought = types.Part(text=scenes.THOUGHT, thought=True)
    asked = [_content("user", _HELLO), _content("model", thought, signed, made[1]), _content("user", *results)]
    yield "replayed_reasoning", asked, tools, words | {"reasoning": [(scenes.THOUGHT, None), ("", _SIGNATURE)]}
    picture = types.FunctionResponsePart(
        inline_data=types.FunctionResponseBlob(mime_type="image/png", data=base64.b64decode(scenes.PIXEL))
    )
    for label, id, result, text, images in (
        ("no_argument_call", "call-3", _result("call-3", "ping", {"output": "pong"}), "pong", 0),
        ("calls_without_ids", None, _result(None, "ping", {"output": "pong"}), "pong", 0),
        ("error_result", "call-3", _result("call-3", "ping", {"error": "no route"}), "no route", 0),
        ("image_result", "call-3", _result("call-3", "ping", {"output": "a map"}, picture), "a map", 1),
    ):
        call = (id, "ping", scenes.NOTHING)
        told = [(id, text, label == "error_result")]
        asked = [_content("user", _HELLO), _content("model", _call(*call)), _content("user", result)]
        yield label, asked, tools, _said(tools=scenes.NAMES, calls=[call], results=told, images=images)
