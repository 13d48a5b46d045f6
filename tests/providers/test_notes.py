"""Every sentence of the notes in the provider table is about something that the code does."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs
from tests.tables import each_row

from dragoman import formats, providers
from dragoman.client.auth import KeyAuth, TokenAuth, choose_auth
from dragoman.client.aws import AwsAuth
from dragoman.client.client import address_of
from dragoman.client.keys import Secret
from dragoman.doctor.probes.calls import SERVER_OPTIONS
from dragoman.errors import ConfigError, MissingKey
from dragoman.events import TextDelta
from dragoman.extraction.tool_mode import choose_tool_mode, compose, open_reader
from dragoman.providers import Endpoint, normalise_base_url
from dragoman.providers.facts import learn_from_error, learn_from_show
from dragoman.providers.provider import Profile
from dragoman.replies import fold
from dragoman.toolset import Toolset
from dragoman.types import JsonObject, Message, Request, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire import get
from dragoman.wire.codec import Codec
from dragoman.wire.eventstream import EventStreamDecoder

TOOL = Tool(
    "find", "Find", {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": {"enum": ["a"]}}}
)
HELLO = Message.user("Hi.")


def resolve(row: str, model: str = "some-model", **settings: Any) -> Endpoint:
    return providers.resolve(row, model, variables={name: "x" for name in _holes(row)}, **settings)


def _holes(row: str) -> list[str]:
    return list(providers.get(row).variables)


def codec_of(endpoint: Endpoint) -> Codec:
    return get(endpoint.wire, endpoint.quirks)


def body_of(endpoint: Endpoint, *messages: Message, **options: Any) -> JsonObject:
    return codec_of(endpoint).encode_request(Request(endpoint.model, list(messages or [HELLO]), [TOOL], options))


def called(thought: Thinking | None = None, id: str = "c1") -> list[Message]:
    parts: list[Any] = [thought] if thought else []
    return [
        HELLO,
        Message("assistant", [*parts, ToolCall(id, "find", {"x": "a"})]),
        Message("tool", [ToolResult(id, "find", "ok")]),
    ]


def wants(row: str, *kinds: str) -> bool:
    return set(resolve(row).quirks.tool_choice) == set(kinds)


def travels_as_text(row: str) -> bool:
    return not resolve(row).capabilities.native_tool_calls


def bearer(row: str, **names: Any) -> bool:
    return resolve(row).headers_for("k", **names)["Authorization"] == "Bearer k"


def replays(row: str, model: str = "some-model") -> bool:
    endpoint = resolve(row, model)
    field = endpoint.quirks.reasoning_field
    details = {"details": [{"type": "reasoning.text", "text": "hm", "signature": "s"}]}
    thought = Thinking("hm", {"openai_chat": {"field": field, **details}})
    message = body_of(endpoint, *called(thought))["messages"][1]
    return bool(message[field] == ("hm" if field != "reasoning_details" else details["details"]))


def leaks(row: str) -> bool:
    """Whether a call that a server left in the text is found."""
    endpoint = resolve(row)
    composed = compose([HELLO], choose_tool_mode(endpoint, Toolset([TOOL]), "native"))
    reader = open_reader(composed, [HELLO])
    reader.feed(TextDelta('<tool_call>\n{"name": "find", "arguments": {"x": "a"}}\n</tool_call>'))
    reader.close()
    return [call.name for call in reader.extraction.calls] == ["find"]


def calls_with_stop(row: str) -> bool:
    entry = {"index": 0, "id": "0", "function": {"name": "find", "arguments": {"x": "a"}}}
    choice = {"message": {"tool_calls": [entry, {**entry, "index": 1}]}, "finish_reason": "stop"}
    reply = get("openai_chat").decode_reply({"choices": [choice]})
    return reply.stop == "tool_calls" and len({call.id for call in reply.calls}) == 2


def errs_inside(row: str) -> bool:
    whole = codec_of(resolve(row)).decode_reply({"error": {"code": 502, "message": "no"}})
    stream = codec_of(resolve(row)).reply_stream()
    frames = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\ndata: {"error":{"code":502,"message":"no"}}\n\n'
    streamed = fold(stream.feed(frames) + stream.close())
    return whole.failure is not None and streamed.failure is not None and streamed.text == "x"


def refuses_fields(row: str) -> bool:
    endpoint = resolve(row)
    prepared = codec_of(endpoint).prepare(Request("m", [HELLO], [], {endpoint.wire: {"zzz": 1}}))
    return "zzz" not in prepared.body and any("zzz" in str(loss) for loss in prepared.losses)


def signed(row: str) -> bool:
    block = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    thought = Thinking("hm", {"anthropic": {"signature": "c2ln"}})
    content = body_of(resolve(row, "claude-sonnet-5"), *called(thought), max_tokens=9000)["messages"][1]["content"]
    return bool(content[0] == block)


def sends_headers(row: str) -> bool:
    provider = structs.replace(providers.get(row), headers={"X-Own": "y"})
    return provider.headers_for("k")["X-Own"] == "y"


def is_unspeakable(row: str) -> bool:
    with pytest.raises(ConfigError) as caught:
        providers.resolve(row, "m").check_wire()
    return caught.value.next_step == providers.get(row).notes


def streams_without_deltas(row: str) -> bool:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hi."}]}
    frames = [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {"status": "completed", "output": [item]}},
    ]
    stream = get("openai_responses").reply_stream()
    data = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).encode()
    return fold(stream.feed(data) + stream.close()).text == "Hi."


def filters_have_no_choices(row: str) -> bool:
    stream = get("openai_chat").reply_stream()
    data = b'data: {"choices":[],"prompt_filter_results":[{}]}\n\ndata: {"choices":[{"delta":{"content":"x"},'
    data += b'"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    return fold(stream.feed(data) + stream.close()).text == "x"


def parts_of_arguments(row: str) -> bool:
    pieces = [{"jsonPath": "$.x", "stringValue": "a"}]
    parts = [{"functionCall": {"name": "find", "partialArgs": pieces, "willContinue": True}}, {"functionCall": {}}]
    frames = [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]
    frames.append({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})
    stream = get("gemini").reply_stream()
    data = "".join(f"data: {json.dumps(frame)}\n\n" for frame in frames).encode()
    return [call.arguments for call in fold(stream.feed(data) + stream.close()).calls] == [{"x": "a"}]


def takes_entra_tokens(row: str) -> bool:
    try:
        return isinstance(choose_auth(resolve(row), None, {}), TokenAuth)
    except MissingKey as missing:  # without the library of the vendor
        return "tokens of Entra" in missing.next_step


def deploys(row: str) -> bool:
    base = "https://x.openai.azure.com/openai/deployments/d?api-version=1"
    url = address_of(base, resolve(row), get("openai_chat"), "m", stream=False)
    return url == "https://x.openai.azure.com/openai/deployments/d/chat/completions?api-version=1"


def raw_predict(row: str) -> bool:
    endpoint = resolve(row, "claude-sonnet-5")
    url = address_of(endpoint.base_url, endpoint, get("anthropic"), endpoint.model, stream=False)
    return url.endswith(":rawPredict") and endpoint.body == {"anthropic_version": "vertex-2023-10-16"}


def signs_or_not(row: str) -> bool:
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    key = Secret("k")
    return isinstance(choose_auth(resolve(row), None, keys), AwsAuth) and isinstance(
        choose_auth(resolve(row), key, {}), KeyAuth
    )


def returns_encrypted(row: str) -> bool:
    own = {"id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    endpoint = resolve(row, wire="openai_responses")
    items = body_of(endpoint, *called(Thinking("", {"openai_responses": own})))["input"]
    return any(item.get("encrypted_content") == "gAAA" for item in items)


def plans(row: str) -> bool:
    thought = Thinking("I look.", {"cohere": {"field": "tool_plan"}})
    return bool(body_of(resolve(row), *called(thought))["messages"][1]["tool_plan"] == "I look.")


def signs_calls(row: str) -> bool:
    endpoint = resolve(row, "gemini-3-pro")
    messages = called()
    parts = body_of(endpoint, *messages)["contents"][1]["parts"]
    return "thoughtSignature" in parts[0]


def asks_for_context(row: str) -> bool:
    return bool(body_of(resolve(row))["options"]["num_ctx"] > 4096)


def reduces(row: str) -> bool:
    return wants(row) and "$ref" not in json.dumps(body_of(resolve(row))["tools"])


def asks_before(row: str) -> bool:
    shown = learn_from_show({"capabilities": ["completion"]})
    refused = learn_from_error("registry.ollama.ai/library/x does not support tools", 400)
    return bool(shown and refused and shown.native_tool_calls is refused.native_tool_calls is False)


_VLLM_REFUSES = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
_EFFORT = "From gpt-5.4 on, tools on the chat wire are refused unless the effort is none: use openai_responses."
CLAIMS: dict[str, Callable[[str], bool]] = {
    _EFFORT: lambda row: (
        resolve(row, "gpt-5.4").wire == "openai_responses"
        and body_of(resolve(row, "gpt-5.4", wire="openai_chat"))["reasoning_effort"] == "none"
    ),
    "Entra tokens go as a bearer.": takes_entra_tokens,
    "The deployment address needs ?api-version=.": deploys,
    "Content-filter chunks have no choices.": filters_have_no_choices,
    "Claude is served on the anthropic wire.": lambda row: resolve(row, "claude-sonnet-5").wire == "anthropic",
    "Thinking comes with signatures that must return unchanged.": signed,
    "New models refuse sampling options.": lambda row: (
        "temperature" not in body_of(resolve(row, "claude-opus-4-7"), temperature=0.5)
    ),
    "ANTHROPIC_AUTH_TOKEN is the token of a login.": lambda row: bearer(row, key_name="ANTHROPIC_AUTH_TOKEN"),
    "Thought signatures ride on calls.": signs_calls,
    "The chat wire ends streamed tool turns with `stop` and takes its key as a bearer.": lambda row: (
        calls_with_stop(row) and providers.get(row).headers_for("k", "openai_chat")["Authorization"] == "Bearer k"
    ),
    "Application default credentials give the token.": lambda row: isinstance(
        choose_auth(resolve(row), None, {}), TokenAuth
    ),
    "Claude is reached at :rawPredict with `anthropic_version: vertex-2023-10-16` in the body.": raw_predict,
    "Arguments may stream in parts (partialArgs).": parts_of_arguments,
    "Streams are binary event frames.": lambda row: codec_of(resolve(row)).framing is EventStreamDecoder,
    "A bearer key needs no signature; access keys (AWS_ACCESS_KEY_ID and its kin) sign with SigV4.": signs_or_not,
    "Ids are nine letters or digits; a user message may not follow a result; unknown fields are refused with 422.": (
        lambda row: (
            refuses_fields(row)
            and [each["role"] for each in body_of(resolve(row), *called(), HELLO)["messages"]][-3:]
            == ["tool", "assistant", "user"]
            and len(body_of(resolve(row), *called())["messages"][1]["tool_calls"][0]["id"]) == 9
        )
    ),
    "The plan before calls (tool_plan) must return with them.": plans,
    "A tool cannot be named in the choice.": lambda row: wants(row, "auto", "none", "required"),
    "Encrypted reasoning exists on openai_responses and must return there.": returns_encrypted,
    "Reasoning must come back on every message with calls while thinking is on.": replays,
    "Ids look like functions.search:0 and are kept.": lambda row: (
        body_of(resolve(row), *called(id="functions.search:0"))["messages"][1]["tool_calls"][0]["id"]
        == "functions.search:0"
    ),
    "Several models refuse a required choice.": lambda row: wants(row, "auto", "none"),
    "Models also leak <tool_call> and name/argument>value lines as text.": lambda row: (
        {"glm45", "glm_lines"} <= set(resolve(row).formats)
    ),
    "A required choice is not known while thinking.": lambda row: wants(row, "auto", "none", "named"),
    "Interleaved thinking must be replayed; without `reasoning_split` it stands in <think> tags in the content.": (
        lambda row: replays(row) and resolve(row).body == {"reasoning_split": True}
    ),
    "Calls leak as XML, and as a tool_calls envelope in JSON.": lambda row: (
        {"minimax_m2", "json_message"} <= set(resolve(row).formats)
    ),
    "No function tools: calls travel as text.": travels_as_text,
    "User and assistant must take turns.": lambda row: len(body_of(resolve(row), HELLO, HELLO)["messages"]) == 1,
    "Fields that its documentation does not name are refused with 400.": refuses_fields,
    "Unknown parameters are refused with 400.": refuses_fields,
    "Nothing is known of native tools here: calls travel as text until a fact says otherwise.": travels_as_text,
    "Many raw models without tools: calls travel as text.": travels_as_text,
    "A suffix of the model chooses who serves it: model:provider.": lambda row: (
        body_of(providers.resolve(f"{row}:org/model:groq"))["model"] == "org/model:groq"
    ),
    "A device login gives a Copilot token, which is sent as a bearer.": bearer,
    "Editor headers (Editor-Version, Copilot-Integration-Id) are required: set them under `headers`.": sends_headers,
    "Other x-portkey-* headers choose the upstream: set them under `headers`.": sends_headers,
    "The finish reason is often wrong; whether there are calls is seen from the calls.": calls_with_stop,
    "`reasoning_details` must return unchanged.": replays,
    "Errors may stand inside a 200, also in the middle of a stream.": errs_inside,
    "Each model is served on the wire of its own vendor.": lambda row: (
        [resolve(row, model).wire for model in ("claude-sonnet-5", "gpt-5.4")] == ["anthropic", "openai_responses"]
    ),
    "It passes requests through to the provider named in the path: add that to the address.": lambda row: (
        normalise_base_url("https://gateway-us.pydantic.dev/proxy/groq").endswith("/proxy/groq")
    ),
    "Nothing is sent anywhere: the model is loaded into the process.": lambda row: bool(providers.get(row).transport),
    "`dragoman local add` fetches the default one; local:PATH.gguf takes any other.": lambda row: (
        providers.resolve(f"{row}:/x/y.gguf").model == "/x/y.gguf" and providers.get(row).model == "smollm2"
    ),
    "Replies are greedy and seeded unless the request says otherwise.": lambda row: (
        (resolve(row).body["temperature"], resolve(row).body["seed"]) == (0.0, 1)
    ),
    "Only its cloud needs a key.": lambda row: providers.get(row).auth == "optional",
    "Any tool choice is ignored and schemas are reduced.": reduces,
    "The default context is small and cuts tools silently, so a larger one is asked for.": asks_for_context,
    '/api/show says whether a model knows tools; those that do not answer 400 "does not support tools".': asks_before,
    "A named choice falls back to auto, a required one is held by a grammar.": lambda row: (
        wants(row, "auto", "none", "required") and resolve(row).quirks.grammar_field == "grammar"
    ),
    "Parallel calls are off unless asked for.": lambda row: resolve(row).body == {"parallel_tool_calls": True},
    "Start it with --enable-auto-tool-choice and --tool-call-parser, or tools are refused with 400.": lambda row: (
        "--enable-auto-tool-choice" in SERVER_OPTIONS[row] and learn_from_error(_VLLM_REFUSES, 400) is not None
    ),
    "Start it with --tool-call-parser.": lambda row: "--tool-call-parser" in SERVER_OPTIONS[row],
    "openai_responses streams without deltas.": streams_without_deltas,
    "As llama.cpp.": lambda row: set(resolve(row).quirks.tool_choice) == set(resolve("llamacpp").quirks.tool_choice),
    "The container address is the one that containers see.": lambda row: "container" in providers.get(row).urls,
    "Calls leak as text.": leaks,
    'Old versions return arguments as an object, and "0" as every id.': calls_with_stop,
    "Native tools are weak: calls travel as text.": travels_as_text,
    "Any base URL.": lambda row: providers.resolve(row, "m", base_url="https://e.example/v7").base_url.endswith("/v7"),
    # What a run does is in tests/agent/test_failures.py.
    "Native calls come first; a run changes to text when the server rejects or ignores the tools, or the model writes "
    "its calls as text.": lambda row: (
        providers.resolve(row, "m", base_url="http://e.example").capabilities.native_tool_calls
    ),
}


def sentences_of(notes: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z`/])|(?<=\)\.) ", notes)


def has_no_tools(profile: Profile) -> bool:
    return profile.native == "no"


def drops_sampling(profile: Profile) -> bool:
    return profile.quirks.get("sends_sampling") is False


PROFILE_CLAIMS: dict[str, Callable[[Profile], bool]] = {
    "On the chat wire tools are refused unless the reasoning effort is none.": lambda profile: (
        profile.wire_quirks["openai_chat"]["effort_with_tools"] == "none"
    ),
    "Sampling options are refused.": drops_sampling,
    "Thinking blocks return unchanged, with their signatures, before the calls they led to.": lambda _: signed(
        "anthropic"
    ),
    "Its template knows no tools and no system role; it was trained on calls as Python.": lambda profile: (
        has_no_tools(profile) and profile.format == "tool_code" and profile.quirks["system_role"] is False
    ),
    "The first call of each step carries a thought signature that must return with it.": lambda _: signs_calls(
        "gemini"
    ),
    "Distilled models kept the reasoning, and lost the tools.": lambda profile: (
        has_no_tools(profile) and profile.opens_thinking
    ),
    "With thinking on, a message with calls that lacks its reasoning is refused.": lambda profile: (
        profile.replay == "calls"
    ),
    "It forgets the opening tag in one call of five.": lambda profile: (
        [call.name for call in formats.parse(_HEADLESS, profile.format, tools=[TOOL]).calls] == ["find"]
    ),
    "Thinking is interleaved with calls, and is lost where it is not replayed.": lambda profile: (
        profile.replay == "always"
    ),
    "Reasoning is a chunk of the content.": lambda _: (
        get("mistral").decode_reply(_CHUNKED).message.parts[0].extra["mistral"]["field"] == "thinking"
    ),
    "Older than the tools of its kind.": has_no_tools,
    "Arguments are often a JSON text inside the JSON.": lambda profile: (
        formats.parse(_NESTED, profile.format, tools=[TOOL]).calls[0].arguments == {"x": "a"}
    ),
    "Only the mini size was trained for tools.": lambda profile: (
        has_no_tools(profile) and providers.default().profile("phi-4-mini").native == "yes"
    ),
    "Very small: without a grammar, expect calls that need repair, or none.": lambda profile: profile.weak,
    "It chooses best where the name of the tool comes first.": lambda profile: (
        profile.prompt_format == "fenced_tool_name"
    ),
    "It does not follow references in schemas.": lambda profile: profile.schema == "inlined",
    "No family is known by this name.": lambda profile: providers.default().profile("zzz-9").name == profile.name,
    "On a provider that decides per model, calls travel as text.": lambda _: travels_as_text("together"),
}
_HEADLESS = "<function=find>\n<parameter=x>\na\n</parameter>\n</function>\n</tool_call>"
_NESTED = '<tool_call>{"name": "find", "arguments": "{\\"x\\": \\"a\\"}"}</tool_call>'
_CHUNKED = {"choices": [{"message": {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}}]}
PROFILES = [
    (profile, sentence)
    for profile in providers.default().profiles
    if profile.notes
    for sentence in sentences_of(profile.notes)
]
CASES = [
    (row.name, sentence)
    for row in providers.default()
    if row.notes
    for sentence in ([row.notes] if row.notes.startswith("Not speakable") else sentences_of(row.notes))
]


@each_row(("row", "sentence"), CASES)
def test_a_note_says_what_the_code_does(row: str, sentence: str) -> None:
    check = is_unspeakable if sentence.startswith("Not speakable") else CLAIMS[sentence]
    assert check(row)


def test_no_check_is_left_of_a_note_that_is_gone() -> None:
    assert CLAIMS.keys() == {sentence for _, sentence in CASES if not sentence.startswith("Not speakable")}


@pytest.mark.parametrize(("profile", "sentence"), PROFILES, ids=[profile.name for profile, _ in PROFILES])
def test_a_note_on_a_family_says_what_the_code_does(profile: Profile, sentence: str) -> None:
    assert PROFILE_CLAIMS[sentence](profile)


def test_no_check_is_left_of_a_note_on_a_family_that_is_gone() -> None:
    assert PROFILE_CLAIMS.keys() == {sentence for _, sentence in PROFILES}
