"""What an examination makes of reasoning, disturbances, other wires and secrets, and what later runs learn from it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs
from tests.doctor.clinic import Clinic, answer_well, chat_endpoint, diagnose, verdicts
from tests.doctor.test_scripted_servers import (
    hide_the_cut,
    ignore_only_none,
    ignore_the_grammar,
    ignore_tool_choice,
    know_only_fenced,
    leave_out_the_last_frame,
    refuse_streams,
    refuse_tools,
    write_calls_as_text,
)

from dragoman.client.transport import TransportFault
from dragoman.doctor import Prober, Report, admit, examine
from dragoman.doctor.examination import learn
from dragoman.providers import Fact, MemoryFacts, Provider, resolve
from dragoman.testing import ScriptedModel, scripted_endpoint, thinking
from dragoman.testing.script import Scripted
from dragoman.types import Failure, Message, Reply, Request, Text, Thinking, ToolCall, ToolResult

URL = "http://scripted.invalid/v1"


# ---- what is learned -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("server", "fact"),
    [
        (Clinic(apply_fault=leave_out_the_last_frame), {"quirks": {"final_frame": False}}),
        (Clinic(ignore_tool_choice), {"quirks": {"tool_choice": ["auto"]}}),
        (Clinic(ignore_only_none), {"quirks": {"tool_choice": ["auto", "required", "named"]}}),
        (Clinic(ignore_the_grammar), {"quirks": {"grammar_field": ""}}),
        (Clinic(hide_the_cut), {"quirks": {"masks_length": True}}),
        (Clinic(refuse_streams), {"capabilities": {"streaming": False}}),
        (Clinic(know_only_fenced), {"format": "fenced"}),
        (Clinic(refuse_tools), {"native_tool_calls": False}),
        (Clinic(write_calls_as_text), {"native_tool_calls": False}),
    ],
    ids=["last frame", "tool choice", "none", "grammar", "length", "streams", "format", "tools", "text"],
)
def test_what_was_found_changes_how_the_endpoint_is_spoken_to(server: Clinic, fact: dict[str, Any]) -> None:
    learned = diagnose(server).fact
    expected = Fact(**{"native_tool_calls": True, **fact})
    assert structs.replace(learned, why="") == structs.replace(
        expected, quirks={"context_window": 32768, **expected.quirks}
    )
    facts = MemoryFacts()
    facts.put(URL, "scripted", learned)
    endpoint = chat_endpoint(facts=facts) if "grammar_field" not in expected.quirks else scripted_endpoint(facts=facts)
    assert endpoint.capabilities.native_tool_calls is expected.native_tool_calls
    assert endpoint.capabilities.streaming is expected.capabilities.get("streaming", True)
    assert endpoint.prompt_format == (expected.format or "hermes")
    for flag, value in expected.quirks.items():
        held = getattr(endpoint.quirks, flag)
        assert (list(held) if isinstance(held, tuple) else held) == value


def test_an_endpoint_that_was_mended_by_its_facts_is_spoken_to_well() -> None:
    """The stream without a last frame is a failure before, and none after."""
    from dragoman.client import Client

    server = Clinic(apply_fault=leave_out_the_last_frame)
    facts = MemoryFacts()
    request = Request("scripted", [Message("user", [Text("Count.")])])

    async def ask() -> Reply:
        client = Client(chat_endpoint(facts=facts), transport=server, environment={})
        return await client.ask(request, whole=False)

    before = asyncio.run(ask())
    assert before.failure is not None and before.failure.kind == "stream_cut"
    facts.put(URL, "scripted", diagnose(server).fact)
    assert asyncio.run(ask()).failure is None


def test_what_the_row_says_already_is_not_learned_again() -> None:
    row = scripted_endpoint(quirks={"tool_choice": ["auto", "none"], "final_frame": False})
    server = Clinic(ignore_tool_choice, apply_fault=leave_out_the_last_frame, pages={})
    report = diagnose(server, endpoint=row)
    assert report.verdict("stream_end") == "handled"
    assert report.fact.quirks == {"tool_choice": ["auto"]}
    assert learn(row, ()) == Fact()


def test_what_the_user_says_wins_over_what_was_learned() -> None:
    facts = MemoryFacts()
    facts.put(URL, "scripted", Fact(True, quirks={"final_frame": False}, capabilities={"streaming": False}))
    endpoint = scripted_endpoint(
        facts=facts, quirks={"final_frame": True}, capabilities={"streaming": True, "native_tool_calls": False}
    )
    assert endpoint.quirks.final_frame is True
    assert endpoint.capabilities.streaming is True
    assert endpoint.capabilities.native_tool_calls is False


# ---- reasoning -------------------------------------------------------------------------------------------------------


def think_first(request: Request, body: dict[str, Any]) -> Scripted:
    said = answer_well(request, body)
    return [thinking("Paris, so I look there."), said] if isinstance(said, ToolCall) else said


def want_reasoning_back(request: Request, body: dict[str, Any]) -> Scripted:
    calls = [part for message in request.messages for part in message.parts if isinstance(part, ToolCall)]
    thoughts = [part for message in request.messages for part in message.parts if isinstance(part, Thinking)]
    if calls and calls[0].name == "get_weather" and not thoughts:
        return Failure("bad_request", "the reasoning_content of the assistant has to be passed back", 400)
    return think_first(request, body)


def refuse_reasoning(request: Request, body: dict[str, Any]) -> Scripted:
    if any(message.get("reasoning_content") for message in body["messages"]):
        return Failure("bad_request", "unknown field reasoning_content", 400)
    return think_first(request, body)


REPLAYS = {"replay_reasoning": "calls", "reasoning_field": "reasoning_content"}


@pytest.mark.parametrize(
    ("answering", "quirks", "verdict", "learned"),
    [
        (think_first, {}, "works", {}),
        (think_first, REPLAYS, "works", {}),
        (want_reasoning_back, REPLAYS, "works", {}),
        (want_reasoning_back, {}, "handled", REPLAYS),
        (refuse_reasoning, REPLAYS, "handled", {"replay_reasoning": "never"}),
    ],
    ids=["not needed", "sent", "needed and sent", "needed and not sent", "sent and refused"],
)
def test_reasoning_goes_back_as_the_endpoint_wants_it(
    answering: Any, quirks: dict[str, Any], verdict: str, learned: dict[str, Any]
) -> None:
    report = diagnose(Clinic(answering, pages={}), endpoint=scripted_endpoint(quirks=quirks))
    others = {
        probe: found for probe, found in verdicts(report).items() if probe not in ("models", "context", "grammar")
    }
    assert others == ({"reasoning": "handled"} if verdict == "handled" else {})
    assert report.verdict("reasoning") == verdict
    assert report.fact.quirks == learned


# ---- what says nothing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["rate_limited", "overloaded"])
def test_a_busy_endpoint_is_not_called_broken(kind: Any) -> None:
    def be_busy_with_tools(request: Request, body: dict[str, Any]) -> Scripted:
        return Failure(kind, "slow down", 429) if request.tools else answer_well(request, body)

    report = diagnose(Clinic(be_busy_with_tools))
    assert report.faults == ()
    assert report.verdict("native_calls") == "unknown"
    assert report.fact.native_tool_calls is None


def test_a_reply_that_the_limit_cut_is_not_called_broken() -> None:
    def think_for_ever(request: Request, body: dict[str, Any]) -> Scripted:
        if request.tools:
            return Reply(Message("assistant", [Thinking("Well, then again ...")]), stop="length")
        return answer_well(request, body)

    report = diagnose(Clinic(think_for_ever))
    assert report.faults == ()
    assert report.verdict("native_calls") == "unknown"
    found = next(finding for finding in report.findings if finding.probe == "native_calls")
    assert "--tokens" in found.fix


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (TransportFault("unreachable", "nothing listens there"), "no server answers"),
        (Failure("unauthorized", "bad key", 401), "rejects the key"),
        (Failure("not_found", "no such model", 404), "does not know"),
        (Failure("server_error", "out of memory", 500), "rejected the simplest request"),
    ],
    ids=["unreachable", "unauthorized", "not found", "server error"],
)
def test_an_endpoint_that_does_not_answer_is_asked_once(said: Any, words: str) -> None:
    server = Clinic(lambda request, body: said)
    report = diagnose(server)
    assert [finding.probe for finding in report.findings] == ["reachable", "models", "context"]
    assert words in report.findings[0].summary
    assert report.findings[0].fix
    assert len(server.exchanges) == report.requests == 1


def test_a_probe_that_takes_too_long_is_ended() -> None:
    async def go() -> Report:
        async def think(request: Request) -> Scripted:
            await asyncio.Event().wait()
            return "never"

        subject = admit(chat_endpoint())
        prober = Prober(subject.endpoint, transport=ScriptedModel([think], loop=True), environment={}, seconds=0.01)
        steps = [step async for step in examine(subject, prober)]
        await prober.close()
        report = steps[-1]
        assert isinstance(report, Report)
        return report

    assert "in time" in asyncio.run(go()).findings[0].summary


# ---- secrets ---------------------------------------------------------------------------------------------------------


def test_a_key_that_the_endpoint_repeats_is_not_shown() -> None:
    secret = "sk-very-secret-0001"

    def repeat(request: Request, body: dict[str, Any]) -> Scripted:
        return f"your key is {secret}"

    async def go() -> Report:
        provider = Provider("scripted", base_url=URL, auth="optional", key=("SCRIPTED_KEY",))
        subject = admit(resolve(provider, "scripted"))
        prober = Prober(subject.endpoint, transport=Clinic(repeat), environment={"SCRIPTED_KEY": secret})
        steps = [step async for step in examine(subject, prober)]
        await prober.close()
        report = steps[-1]
        assert isinstance(report, Report)
        return report

    report = asyncio.run(go())
    assert any("your key is ***" in finding.evidence for finding in report.findings)
    assert secret not in repr(report)


# ---- other wires -----------------------------------------------------------------------------------------------------

SHOWN = {"model_info": {"general.architecture": "x", "x.context_length": 40960}, "capabilities": ["tools"]}
NO_GRAMMAR = {"grammar": "absent", "reasoning": "absent"}
NO_CHOICE = dict.fromkeys(("tool_choice_none", "tool_choice_required", "tool_choice_named"), "absent")


@pytest.mark.parametrize(
    ("wire", "settings", "expected"),
    [
        ("openai_chat", {}, NO_GRAMMAR),
        ("openai_responses", {}, NO_GRAMMAR),
        ("anthropic", {}, NO_GRAMMAR),
        ("gemini", {}, NO_GRAMMAR),
        ("mistral", {}, NO_GRAMMAR),
        ("cohere", {}, NO_GRAMMAR | {"tool_choice_named": "absent"}),
        ("bedrock", {}, NO_GRAMMAR | {"models": "absent", "context": "unknown"}),
        ("ollama", {"quirks": {"context_window": 16384}}, NO_GRAMMAR | NO_CHOICE),
        ("ollama", {}, NO_GRAMMAR | NO_CHOICE | {"context": "broken"}),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_a_healthy_server_is_healthy_on_every_wire(wire: str, settings: Any, expected: dict[str, str]) -> None:
    pages = {"/api/tags": {"models": [{"name": "scripted:latest"}]}, "/api/show": SHOWN}
    server = Clinic(wire=wire, **({"pages": pages} if wire == "ollama" else {}))
    report = diagnose(server, endpoint=scripted_endpoint(wire, **settings))
    assert verdicts(report) == expected
    assert report.fact.native_tool_calls is True


def test_results_go_back_as_text_where_calls_do() -> None:
    server = Clinic(refuse_tools)
    report = diagnose(server)
    assert report.verdict("results") == "works"
    asked = next(request for request in server.requests if "7341" in "".join(each.text for each in request.messages))
    assert not any(isinstance(part, ToolResult) for message in asked.messages for part in message.parts)
