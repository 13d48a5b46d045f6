"""Every column of a table has an effect: changing it changes a request, a reading or a decision.

A column that is only shown to people is listed in the type (`shown_only`), or here for the rows of formats. A new
column without an entry fails `test_every_column_is_covered`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import structs
from tests.tables import each_row

from dragoman import formats, wire
from dragoman.client import Client
from dragoman.client.client import open_transport
from dragoman.client.transport import HttpRequest, Timeouts
from dragoman.doctor.probe import Observation, Question, admit
from dragoman.doctor.probes.basics import judge_finish
from dragoman.doctor.probes.calls import judge_ids
from dragoman.errors import DragomanError
from dragoman.extraction.tool_mode import choose_tool_mode, compose, open_reader
from dragoman.formats import Format
from dragoman.providers import Capabilities, Endpoint, Profile, Provider, Registry
from dragoman.providers.endpoint import settle
from dragoman.providers.prices import Price, Prices, Tier
from dragoman.providers.tokens import window
from dragoman.testing import ScriptedModel, call, sse
from dragoman.toolset import Toolset
from dragoman.types import Image, Message, Reply, Request, Text, Thinking, Tool, ToolCall, ToolResult, Usage
from dragoman.wire import registry as wires
from dragoman.wire.quirks import Quirks

Columns = Mapping[str, Any]
PIXEL = "iVBORw0KGgo="

# ---- quirks: the bodies of every wire, and what is read from replies -------------------------------------------------

_NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/leaf"}}, "$defs": {"leaf": {"type": "string"}}}
TOOLS = [
    Tool("search_everything_there_is", "Search", _NODE),
    Tool("ping", "Ping", {"type": "object", "properties": {"host": {"type": "string"}}}),
]


def _thinking(wire: str) -> Thinking:
    return Thinking("hmm", extra={wire: {"from": "here"}})


def _conversations(name: str) -> list[list[Message]]:
    system, user = Message("system", [Text("Be brief.")]), Message("user", [Text("Hi")])
    made = ToolCall("call-1", "ping", {"host": "a"})
    result = ToolResult("call-1", "ping", [Text("pong"), Image(None, PIXEL, "image/png")])
    own = Message("assistant", [_thinking(name), made])
    foreign = Message("assistant", [Thinking("odd", extra={"elsewhere": {"a": 1}}), Text("Yes.")])
    return [
        [system, user, own, Message("tool", [result]), user, foreign, system, user, user],
        [system],
    ]


def _bodies(quirks: Quirks) -> list[Any]:
    seen: list[Any] = []
    for name in wires.ROWS:
        options: dict[str, Any] = {
            "max_tokens": 9,
            "temperature": 0.5,
            "stream": True,
            "tool_choice": {"name": "ping"},
            "parallel_tool_calls": False,
            "reasoning": {"effort": "high"},
            name: {"odd_field": 1, "other_field": 2},
        }
        for model in ("m", "anthropic.claude-x", "gemini-3-pro"):
            for messages in _conversations(name):
                prepared = wire.get(name, quirks).prepare(Request(model, messages, TOOLS, options))
                seen.append((prepared.body, prepared.losses))
    return seen


_CHOICE = {
    "delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "ping", "arguments": "{}"}}]},
    "finish_reason": "tool_calls",
}
CUT = sse([{"choices": [_CHOICE], "usage": {"prompt_tokens": 1, "completion_tokens": 9}}], done=False).bytes()
THOUGHT = sse([{"choices": [{"delta": {"reasoning_content": "42"}, "finish_reason": "stop"}]}]).bytes()


def _readings(quirks: Quirks) -> list[Any]:
    codec = wire.get("openai_chat", quirks)
    sent = codec.prepare(Request("m", [Message("user", [Text("Hi")])], TOOLS, {"max_tokens": 8}))
    seen = []
    for data, is_clean in ((CUT, True), (CUT, False), (CUT + b"data: [DONE]\n\n", True), (THOUGHT, True)):
        stream = codec.reply_stream(sent)
        seen.append([*stream.feed(data), *(stream.close() if is_clean else stream.cut())])
    return seen


def _grammars(quirks: Quirks) -> list[Any]:
    endpoint = structs.replace(settle(Provider("x", native="no"), "m"), quirks=quirks)
    weak = structs.replace(endpoint, profile=structs.replace(endpoint.profile, weak=True))
    return [
        compose([Message("user", [Text("Hi")])], choose_tool_mode(each, Toolset(TOOLS)), options, nonce="word1234")
        for each, options in ((endpoint, {"tool_choice": "required"}), (weak, {}))
    ]


QUIRKS: dict[str, tuple[Any, Columns]] = {
    "empty_content": ("", {}),
    "max_tokens_field": ("limit", {}),
    "stream_usage": (False, {}),
    "tool_choice": (("auto",), {}),
    "parallel_flag": (False, {}),
    "developer_role": (True, {}),
    "system_first": (True, {}),
    "system_role": (False, {}),
    "tool_stream": (True, {}),
    "needs_user": (True, {}),
    "alternates": (True, {}),
    "bridges_results": (True, {}),
    "images": (False, {}),
    "result_images": (True, {}),
    "id_pattern": ("^[a-z]{9}$", {}),
    "marks_cache": (True, {}),
    "name_limit": (12, {}),
    "sends_sampling": (False, {}),
    "strict_tools": (True, {}),
    "json_schema": (True, {}),
    "inline_references": (True, {}),
    "effort_with_tools": ("none", {}),
    "standard_fields_only": (True, {}),
    "own_fields": (("odd_field",), {"standard_fields_only": True}),
    "grammar_field": ("grammar", {}),
    "grammar_syntax": ("lark", {"grammar_field": "grammar"}),
    "weighs_calls": (True, {"grammar_field": "grammar"}),
    "context_window": (4096, {}),
    "reasoning_field": ("reasoning", {"replay_reasoning": "always"}),
    "replay_reasoning": ("always", {"reasoning_field": "reasoning"}),
    "unsigned_thinking": (True, {}),
    "call_signatures": (True, {}),
    "foreign_reasoning": ("text", {}),
    "reasoning_as_content": (True, {}),
    "masks_length": (True, {}),
    "final_frame": (False, {}),
}
"""For each flag: another value, and the flags without which it has nothing to do."""


@each_row("name", QUIRKS)
def test_a_quirk_has_an_effect(name: str) -> None:
    value, others = QUIRKS[name]
    before, after = Quirks(**others), Quirks(**{**others, name: value})
    assert getattr(before, name) != value
    assert any(look(before) != look(after) for look in (_bodies, _readings, _grammars))


def test_standard_fields_are_kept_and_others_reported() -> None:
    hello = Message("user", [Text("Hi")], extra={"openai_chat": {"annotations": []}})
    messages = [hello, Message("assistant", [Text("No", extra={"openai_chat": {"refusal": True}})])]
    options = {"temperature": 1, "openai_chat": {"odd": 1, "mine": 2}}
    codec = wire.get("openai_chat", Quirks(standard_fields_only=True, own_fields=("mine",)))
    prepared = codec.prepare(Request("m", messages, TOOLS, options))
    assert prepared.body.keys() == {"model", "messages", "tools", "temperature", "mine"}
    assert prepared.body["messages"] == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "No"}]
    dropped = [loss.detail.partition(":")[0] for loss in prepared.losses if loss.rule == "dropped"]
    assert dropped == ["messages.annotations", "odd"]
    assert len(prepared.body["tools"]) == len(TOOLS)


# ---- providers and profiles: what is decided, and the request that follows -------------------------------------------

BOUNDARIES = [f"{letter * 4}12345678" for letter in "abc"]
HOST = {"variables": {"host": "h"}}
CALLS = (
    '<tool_call>\n{"name": "ping", "arguments": {"host": "a"}}\n</tool_call>',
    '<tool_call>\n{"name": "ping", "arguments": {"host": "a"}}\n</tool_call></think>Done.',
    'Sure. [TOOL_CALLS]ping[ARGS]{"host": "a"}',
    "```tool_code\nping(host='a')\n```",
)


def _decide(provider: Provider, profile: Profile, capabilities: Columns | None = None) -> list[Any]:
    """Everything that a client, an agent and a person's bill take from a resolved endpoint."""
    registry = Registry({}, ()).with_provider(provider).with_profile(profile)
    seen: list[Any] = [[registry.get(name).name if name in registry else "" for name in ("acme", "acme_ai", "other")]]
    for settings in ({}, {"place": "eu"}, {"wire": "anthropic", **HOST}, HOST):
        try:
            endpoint = registry.resolve(provider.name, "acme-7b", capabilities=capabilities, **settings)
        except DragomanError as error:
            seen.append(str(error))
        else:
            seen.append(_behaviour(endpoint))
    for name in (provider.name, "acme-7b"):
        try:
            seen.append(registry.resolve(name).model)
        except DragomanError as error:
            seen.append(str(error))
    return seen


def _behaviour(endpoint: Endpoint) -> list[Any]:
    mode = choose_tool_mode(endpoint, Toolset(TOOLS))
    composed = compose(_conversations(endpoint.wire)[0], mode, {"tool_choice": "required"}, boundaries=BOUNDARIES)
    readings = []
    for text in CALLS:
        reader = open_reader(composed)
        events = [*reader.feed(text), *reader.close()]
        readings.append((events, reader.extraction))
    return [
        _send(endpoint, composed.request),
        type(open_transport(endpoint)),
        composed.losses,
        [repr(reading) for reading in readings],
        window(endpoint),
        Prices().cost(endpoint, endpoint.model, Usage(1, 1)),
    ]


def _send(endpoint: Endpoint, request: Request) -> Any:
    """The HTTP request of a client that asks for a stream."""
    model = ScriptedModel(["Yes."], wire=endpoint.wire)
    environment = {"ACME_KEY": "key", "ACME_TOKEN": "token", "ACME_HOST": "acme.test"}
    client = Client(endpoint, transport=model, environment=environment, keys={"ACME_TOKEN": "token"})

    async def ask() -> None:
        async for _ in client.stream(request):
            pass

    try:
        asyncio.run(ask())
    except DragomanError as error:
        return str(error)
    sent = model.exchanges[0].sent
    return sent.url, sent.headers, sent.body


def own_transport(endpoint: Endpoint) -> ScriptedModel:
    return ScriptedModel()


PROVIDER = Provider(
    "acme",
    base_url="https://{host}/v1",
    urls={"eu": "https://eu/v1"},
    key=("ACME_TOKEN",),
    wires=("openai_chat", "anthropic"),
)
PROFILE = Profile("acme", match=("acme",), native="yes")

PROVIDERS: dict[str, Any] = {
    "name": "other",
    "group": "local",
    "aliases": ("acme_ai",),
    "base_url": "https://elsewhere/v1",
    "urls": {"us": "https://us/v1"},
    "wire_urls": {"anthropic": "https://{host}/anthropic"},
    "key": ("ACME_KEY",),
    "variables": {"host": ("ACME_HOST",)},
    "auth": "x-api-key",
    "key_auth": {"ACME_TOKEN": "x-token"},
    "headers": {"x-app": "1"},
    "wires": ("anthropic",),
    "wire_per_model": True,
    "native": "no",
    "format": "qwen3_coder",
    "formats": ("mistral",),
    "quirks": {"name_limit": 3},
    "wire_quirks": {"anthropic": {"name_limit": 3}},
    "declared": {"streaming": False},
    "body": {"openai_chat": {"a": 1}},
    "model": "acme-7b",
    "transport": f"{__name__}:own_transport",
}
PROVIDER_CONTEXT: dict[str, tuple[Columns, Columns]] = {
    "wire_per_model": ({}, {"wire": "anthropic"}),
    "format": ({"native": "no"}, {}),
    "formats": ({"native": "no"}, {"format": "hermes"}),
}
PROFILES: dict[str, Any] = {
    "match": ("x",),
    "native": "no",
    "format": "qwen3_coder",
    "formats": ("mistral",),
    "prompt_format": "qwen3_coder",
    "weak": True,
    "opens_thinking": True,
    "replay": "always",
    "schema": "inlined",
    "wire": "anthropic",
    "vendor": "acme",
    "quirks": {"name_limit": 3},
    "wire_quirks": {"anthropic": {"name_limit": 3}},
    "declared": {"streaming": False},
}
PROFILE_CONTEXT: dict[str, tuple[Columns, Columns]] = {
    "wire": ({"wire_per_model": True}, {}),
    "formats": ({"native": "no"}, {"format": "hermes"}),
    "prompt_format": ({"native": "no"}, {}),
    "match": ({}, {"native": "no"}),
    "replay": ({"quirks": {"reasoning_field": "reasoning"}}, {}),
    "weak": ({"quirks": {"grammar_field": "grammar"}}, {}),
}


@each_row("name", PROVIDERS)
def test_a_column_of_a_provider_has_an_effect(name: str) -> None:
    of_provider, of_profile = PROVIDER_CONTEXT.get(name, ({}, {}))
    before, profile = structs.replace(PROVIDER, **of_provider), structs.replace(PROFILE, **of_profile)
    after = structs.replace(before, **{name: PROVIDERS[name]})
    assert _decide(before, profile) != _decide(after, profile)


@pytest.mark.parametrize("name", PROFILES)
def test_a_column_of_a_profile_has_an_effect(name: str) -> None:
    of_provider, of_profile = PROFILE_CONTEXT.get(name, ({}, {}))
    provider, before = structs.replace(PROVIDER, **of_provider), structs.replace(PROFILE, **of_profile)
    after = structs.replace(before, **{name: PROFILES[name]})
    assert _decide(provider, before) != _decide(provider, after)


# ---- capabilities ----------------------------------------------------------------------------------------------------

CAPABILITIES: dict[str, Any] = {"native_tool_calls": False, "streaming": False}


@pytest.mark.parametrize("name", CAPABILITIES)
def test_a_capability_has_an_effect(name: str) -> None:
    assert _decide(PROVIDER, PROFILE) != _decide(PROVIDER, PROFILE, capabilities={name: CAPABILITIES[name]})


# ---- prices ----------------------------------------------------------------------------------------------------------

USAGE = Usage(100, 10, cached_tokens=20, cache_write_tokens=30)
PRICE = Price("p", ("acme",), 1.0, 2.0, above=(Tier(50, 3.0, 4.0),))
PRICES: dict[str, Any] = {
    "match": ("x",),
    "input": 5.0,
    "output": 5.0,
    "cached": 5.0,
    "cache_write": 5.0,
    "above": (),
    "regional": 1.5,
    "providers": ("other",),
}
TIERS: dict[str, Any] = {"tokens": 500, "input": 5.0, "output": 5.0, "cached": 5.0, "cache_write": 5.0}


def _bill(price: Price) -> list[float | None]:
    prices = Prices((price,))
    small = Usage(40, 10, cached_tokens=20, cache_write_tokens=10)
    return [prices.cost("groq", model, usage) for model in ("acme", "us.anthropic.acme") for usage in (USAGE, small)]


@pytest.mark.parametrize("name", PRICES)
def test_a_column_of_a_price_has_an_effect(name: str) -> None:
    assert _bill(PRICE) != _bill(structs.replace(PRICE, **{name: PRICES[name]}))


@pytest.mark.parametrize("name", TIERS)
def test_a_column_of_a_tier_has_an_effect(name: str) -> None:
    after = structs.replace(PRICE, above=(structs.replace(PRICE.above[0], **{name: TIERS[name]}),))
    assert _bill(PRICE) != _bill(after)


# ---- wires -----------------------------------------------------------------------------------------------------------

WIRES: dict[str, Any] = {
    "codec": "OpenAIChat",
    "path": "/nowhere$",
    "stream_type": "text/odd",
    "call_reasons": ("stop",),
    "call_ids": False,
}


def _serve(monkeypatch: pytest.MonkeyPatch, row: wires.WireRow) -> list[Any]:
    """What a scripted server and the doctor make of a wire."""
    monkeypatch.setitem(wires.ROWS, "mistral", row)
    monkeypatch.setattr("dragoman.wire.mistral.OpenAIChat.name", "mistral")
    model = ScriptedModel([call("ping")], wire="openai_responses")
    body = b'{"model": "m", "messages": [], "stream": true}'
    request = HttpRequest("POST", "http://x/mistral", {}, body)
    response = asyncio.run(model.send(request, Timeouts()))
    return [type(wire.get("mistral")), model.exchanges[0].wire, dict(response.headers), _diagnose()]


def _diagnose() -> list[str]:
    question = Question("", [])
    said = [("end", "stop", Text("Yes.")), ("tool_calls", "tool_calls", call("ping"))]
    replies = [
        Reply(Message("assistant", [part]), stop=stop, extra={"mistral": {"reason": reason}})
        for stop, reason, part in said
    ]
    subject = admit(settle(Provider("x", wires=("mistral",)), "m"))
    observations = [Observation(question, reply) for reply in replies]
    return [judge(subject, *observations).verdict for judge in (judge_finish, judge_ids)]


@pytest.mark.parametrize("name", WIRES)
def test_a_column_of_a_wire_has_an_effect(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = structs.replace(wires.ROWS["mistral"], path="/mistral$")
    usual = _serve(monkeypatch, before)
    assert usual != _serve(monkeypatch, structs.replace(before, **{name: WIRES[name]}))


# ---- formats ---------------------------------------------------------------------------------------------------------

_HERMES = structs.replace(formats.get("hermes"), aliases=())
_PAIRS = formats.get("qwen3_coder")
_PYTHON = formats.get("pythonic")
SHOWN_OF_A_FORMAT = {"family", "models", "note"}
FORMATS: dict[str, tuple[Format, Any]] = {
    "name": (_HERMES, "other"),
    "template": (_HERMES, "<call>{call}</call>"),
    "template_is_read": (_HERMES, False),
    "notation": (Format("x", "<py>{calls}</py>"), "python"),
    "quote": (Format("x", "<g>{name}{args}</g>", notation="gemma", quote="'"), '"'),
    "entities": (Format("x", '<f n="{name}" a="{args}"></f>'), True),
    "also": (_HERMES, ("<odd>{call}</odd>",)),
    "section": (_HERMES, ("<odd>", "</odd>")),
    "thinking": (_HERMES, (("<odd>", "</odd>"),)),
    "drop": (_HERMES, ("<odd>",)),
    "keys": (_HERMES, ("tool", "input")),
    "strict_envelope": (_HERMES, True),
    "id_key": (_HERMES, "key"),
    "numbered": (Format("x", '<f n="{name}" i="{id}">{args}</f>'), True),
    "name_is_key": (_HERMES, True),
    "single_is_bare": (Format("x", "<py>{calls}</py>"), True),
    "type_words": (Format("x", '<f n="{name}">{*<p k="{key}" t="{type}">{value}</p>*}</f>'), {"string": "text"}),
    "separator": (_HERMES, "; "),
    "spellings": (_HERMES, {"<tool_call>": ("<odd>",)}),
    "place": (_HERMES, "message"),
    "own_lines": (_HERMES, True),
    "opens_line": (_HERMES, True),
    "cdata": (structs.replace(_PAIRS, cdata=False), True),
    "untyped_is_text": (structs.replace(_PAIRS, untyped_is_text=False), True),
    "unique_keys": (_PAIRS, True),
    "bare": (Format("x", "<odd>{call}</odd>"), True),
    "entries": (_HERMES, _PYTHON.entries),
    "named_entries": (_HERMES, _PYTHON.entries),
    "aliases": (_HERMES, ("odd",)),
    "in_auto": (Format("x", "<own>{call}</own>"), False),
}
_CALL = '{"name": "ping", "arguments": {"host": "1"}}'
TEXTS = (
    f"<tool_call>\n{_CALL}\n</tool_call>",
    f"So: <tool_call>{_CALL}</tool_call> and <odd>{_CALL}</odd>",
    f"<odd><tool_call>{_CALL}</tool_call></odd>",
    '<tool_call>[{"name": "ping", "arguments": {}}]</tool_call>',
    '<tool_call>{"ping": {"host": "1"}}</tool_call>',
    "<tool_call>\n<function=ping>\n<parameter=host>\n<![CDATA[1]]>\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>\n<function=ping>\n<parameter=odd>\n1\n</parameter>\n"
    "<parameter=odd>\n2\n</parameter>\n</function>\n</tool_call>",
    '[ping(host="1")]',
    _CALL,
    f"<own>{_CALL}</own>",
    "<odd>{}</odd> <odd>{bad</odd>",
)


def _use(row: Format) -> list[Any]:
    """Everything that a row is used for: read, written, taught, turned into a grammar, and found by name."""
    made = [ToolCall("1", "ping", {"host": "a", "odd": 1})]
    uses = [
        lambda: [formats.parse(text, row, TOOLS) for text in TEXTS],
        lambda: [formats.render(some, row) for some in (made, made * 2)],
        lambda: formats.instructions(TOOLS, row),
        lambda: formats.grammar(TOOLS, row),
        lambda: _register(row),
    ]
    seen: list[Any] = []
    for use in uses:
        try:
            seen.append(repr(use()))
        except DragomanError as error:
            seen.append(str(error))
    return seen


def _register(row: Format) -> list[Any]:
    scratch = structs.replace(row, name=f"scratch_{row.name}")
    formats.register(scratch)
    try:
        return [*formats.names(), "odd" in formats.names(), *(formats.parse(text, tools=TOOLS) for text in TEXTS)]
    finally:
        formats.unregister(scratch.name)


@each_row("name", FORMATS)
def test_a_column_of_a_format_has_an_effect(name: str) -> None:
    row, value = FORMATS[name]
    assert _use(row) != _use(structs.replace(row, **{name: value}))


# ---- all of them -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "covered", "shown"),
    [
        (Quirks, set(QUIRKS), set()),
        (Provider, set(PROVIDERS), Provider.shown_only),
        (Profile, set(PROFILES), Profile.shown_only),
        (Capabilities, set(CAPABILITIES), set()),
        (Price, set(PRICES), Price.shown_only),
        (Tier, set(TIERS), set()),
        (wires.WireRow, set(WIRES), set()),
        (Format, set(FORMATS), SHOWN_OF_A_FORMAT),
    ],
)
def test_every_column_is_covered(kind: Any, covered: set[str], shown: set[str]) -> None:
    assert covered | set(shown) == set(kind.__struct_fields__)
    assert not covered & set(shown)
