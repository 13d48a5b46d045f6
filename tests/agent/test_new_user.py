"""Habits from other libraries: each works here, or a message of one line says what to write instead.

Each test has the number of a line of the list of trials. The details are tested where the part is.
"""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
import re
import tomllib
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.agent.runs import agent

import dragoman
from dragoman import Agent, Connection, Context, Image, Message, RunFailed, Text, formats, mcp, providers, wire
from dragoman.agent.events import ToolEnded
from dragoman.client.http.addresses import read_address, read_proxies
from dragoman.client.retry import Retries
from dragoman.errors import ConfigError, DragomanError, InvalidTool, MissingKey, nearest
from dragoman.testing import ScriptedModel, Upstream, call, thinking
from dragoman.types import Failure, Reply, Tool

DOWN: dict[str, Any] = {
    "base_url": "http://127.0.0.1:9",
    "connection": Connection(retries=Retries(attempts=1), environment={}),
}
ROOT = Path(__file__).resolve().parents[2]


@dragoman.tool(read_only=True)
def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is fine"


def explain(act: Callable[[], object], kind: type[BaseException] = DragomanError) -> str:
    """The message and the hint of the error that a mistake gives."""
    with pytest.raises(kind) as caught:
        act()
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def test_d1_a_failed_run_raises_with_a_hint() -> None:
    for act in (lambda: Agent("ollama:x", **DOWN).run("hi"), lambda: asyncio.run(Agent("ollama:x", **DOWN).arun("hi"))):
        told = explain(act, RunFailed)
        assert "nothing listens there" in told and "hint: check the address" in told
    assert Agent("ollama:x", **DOWN).run("hi", check=False).outcome.kind == "provider_failed"
    unauthorized = agent([Failure("unauthorized", "wrong key", 401)])
    assert "check the key" in explain(lambda: unauthorized.run("hi"), RunFailed)


def test_d2_unknown_keywords_raise_and_name_the_nearest() -> None:
    for name, near in {"temperatur": "temperature", "max_token": "max_tokens"}.items():
        assert f"did you mean {near!r}" in explain(
            lambda name=name: dragoman.ask("ollama:x", "hi", **{name: 1}), TypeError
        )
    assert nearest("modle", ["mode", "model", "modes"]) == "model", "two letters in the wrong order"


def test_what_an_agent_cannot_use_is_refused_before_a_run() -> None:
    """A misspelled option would be missing in every request, and a text as approver would deny every call."""
    agent: Any = Agent(ScriptedModel(["done"] * 9))
    makes: list[tuple[str, Callable[..., Any]]] = [
        ("Agent", lambda **given: Agent(ScriptedModel([]), **given)),
        ("run", lambda **given: agent.run("go", **given)),
    ]
    for name, make in makes:
        for given, why in (
            ({"options": {"temprature": 1}}, "there is no option 'temprature'; did you mean 'temperature'"),
            ({"options": {"logprobs": True}}, "there is no option 'logprobs'"),
            ({"approve": "never"}, "approve is a function, not 'never'"),
            ({"approve": True}, "approve is a function, not True"),
            ({"limits": {"turns": 3}}, "limits is a Limits, not dict"),
        ):
            with pytest.raises(ConfigError, match=why):
                make(**given)
                pytest.fail(f"{name} takes {given}")
    with pytest.raises(ConfigError, match="a listener is a function, not 5"):
        Agent(ScriptedModel([]), listeners=[5])  # type: ignore[list-item]
    for name in ("validate", "on_event"):
        with pytest.raises(ConfigError, match=f"{name} is a function"):
            agent.run("go", **{name: []})
    for options in ({"temperature": 1}, {"openai_chat": {"logprobs": True}}, {"of_an_extension": {"field": 1}}):
        assert agent.run("go", options=options).text == "done"


def test_a_single_value_in_the_place_of_a_list_and_a_wrong_type_are_refused() -> None:
    """A single text would be read as a list of its characters, each of which is a model or a rule."""
    for given, why in (
        ({"fallbacks": "ollama:x"}, r"fallbacks is a list, not str"),
        ({"deny": "bash"}, r"deny is a list, not str"),
        ({"hooks": 3}, r"hooks is a list, not int"),
        ({"listeners": print}, r"listeners is a list"),
    ):
        with pytest.raises(ConfigError, match=why):
            Agent(ScriptedModel([]), **given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a journal is a Journal, a path or an address, not int"):
        Agent(ScriptedModel(["x"]), journal=3).run("hi")  # type: ignore[arg-type]
    for given, why in (
        ({"turns": "3"}, "limits.turns must be a whole number, not '3'"),
        ({"seconds": "3"}, "limits.seconds must be a number, not '3'"),
        ({"repairs": -1}, "limits.repairs must be at least 0"),
    ):
        with pytest.raises(ConfigError, match=why):
            dragoman.Limits(**given)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="not bytes"):
        dragoman.extract(b"<tool_call>")


def test_wrong_arguments_of_the_functions_for_text_are_named() -> None:
    def plain(city: str) -> str:
        return city

    rows: list[tuple[Callable[[], object], str, str]] = [
        (lambda: formats.parse(b"x"), "a text, not bytes", "decode"),  # type: ignore[arg-type]
        (lambda: formats.parse(None), "a text, not NoneType", "dragoman.extract"),  # type: ignore[arg-type]
        (lambda: formats.render("x", "hermes"), "not a call: 'x'", "ToolCall"),  # type: ignore[arg-type]
        (lambda: formats.instructions(plain), "a list, not function", "tools=[...]"),  # type: ignore[arg-type]
        (lambda: dragoman.extract("x", tools=[plain]), "not a tool", "@dragoman.tool"),
    ]
    for wrong, message, hint in rows:
        with pytest.raises(ConfigError, match=re.escape(message)) as caught:
            wrong()
        assert hint in caught.value.next_step, message


def test_a_program_may_list_every_call_of_a_run_without_asking_whether_it_ran() -> None:
    @dragoman.tool
    def look_up(city: str) -> str:
        return "sunny"

    script = [call("look_up", town="Paris"), call("look_up", city="Paris"), "Sunny."]
    result = Agent(ScriptedModel(script), tools=[look_up]).run("Is it warm?")
    assert [(made.name, made.arguments) for made in result.calls] == [("look_up", None), ("look_up", {"city": "Paris"})]
    assert [(made.repairs, made.changes) for made in result.calls] == [((), ()), ((), ())]


def test_the_hint_of_an_error_is_the_exact_one() -> None:
    with pytest.raises(ConfigError) as caught:
        dragoman.Limits(turns=0)
    assert caught.value.hint == caught.value.next_step == "omit it for the default"


def test_a_name_that_was_cut_short_suggests_the_whole_one() -> None:
    with pytest.raises(ConfigError, match="did you mean 'temperature'"):
        Agent(ScriptedModel([]), options={"temp": 1})


def test_d3_types_reach_the_tools_and_the_result() -> None:
    @dataclass
    class Deps:
        name: str

    @dragoman.tool
    def who(context: Context[Deps]) -> str:
        """Who is it?"""
        return context.data.name

    runs: Agent[Deps] = agent([call("who"), "Ada"], who)
    assert runs.run("hi", data=Deps("Ada")).results[0].content == "Ada"


def test_d4_the_agent_has_three_values_for_rare_settings() -> None:
    names = list(inspect.signature(Agent.__init__).parameters)
    assert len(names) <= 25 and {"connection", "safety", "context"} <= set(names)
    assert "write safety=Safety(trust=...)" in explain(lambda: Agent("ollama:x", trust="strict"), TypeError)  # type: ignore[call-arg]


def test_d5_a_compatible_server_of_the_user_uses_the_chat_wire_and_native_calls_first() -> None:
    for model in ("openai:mine", "custom:mine"):
        endpoint = providers.resolve(model, base_url="http://127.0.0.1:9/v1")
        assert (endpoint.wire, endpoint.capabilities.native_tool_calls) == ("openai_chat", True)


def test_d6_images_are_bytes_base64_or_a_path(tmp_path: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(8)
    (tmp_path / "a.png").write_bytes(data)
    for image in (Image(data=data), Image.from_path(tmp_path / "a.png")):
        model = ScriptedModel(["A picture."])
        Agent(model).run(["What is this?", image])
        assert base64.b64encode(data).decode() in json.dumps(model.bodies[0]) and "b'" not in json.dumps(
            model.bodies[0]
        )


def test_d7_a_bug_in_a_tool_is_found_in_three_places(caplog: pytest.LogCaptureFixture) -> None:
    def divide(by: int) -> float:
        """Divide."""
        return 1 / by

    seen: list[str] = []
    runs = agent([call("divide", by=0), "done"], divide)
    result = runs.run("hi", on_event=lambda event: seen.append(event.error) if isinstance(event, ToolEnded) else None)
    (problem,) = [each.message for each in result.problems if each.kind == "tool_raised"]
    (logged,) = [record for record in caplog.records if record.name == "dragoman.tools"]
    assert logged.levelno == logging.ERROR
    for place in (*seen, problem, logged.getMessage()):
        assert "return 1 / by" in place and "ZeroDivisionError" in place


def test_d8_hints_are_in_tracebacks() -> None:
    try:
        Agent("nosuch:model")
    except DragomanError as problem:
        assert "hint: " in "".join(traceback.format_exception(problem))


def test_d9_a_fallback_without_a_key_is_found_at_once() -> None:
    told = explain(lambda: Agent("ollama:x", fallbacks=["openai:y"], connection=Connection(environment={})), MissingKey)
    assert "the fallback openai:y cannot be used" in told and 'Connection(keys={"openai": ...})' in told


def test_d10_mcp_servers_and_toolboxes_are_taken_or_explained() -> None:
    server = mcp.StdioServer("clock", ["no-such-program"])
    assert list(Agent("ollama:x", tools=[server, look]).tools.names) == ["look"], "a server starts with the first run"
    told = explain(lambda: Agent(ScriptedModel(["x"]), tools=[server]).run("hi"), ConfigError)
    assert "clock: cannot be used" in told and "dragoman.mcp.connect" in told
    assert "tools=[...]" in explain(lambda: Agent("ollama:x", tools=server), InvalidTool)  # type: ignore[arg-type]
    with mcp.connect([]) as box:
        assert list(Agent("ollama:x", tools=box).tools) == []
        assert list(Agent("ollama:x", tools=[look, box]).tools.names) == ["look"]
    assert Agent("ollama:x", allow=["mcp:*", "mcp:clock/*"]).rules.rules
    assert "mcp:* for all servers" in explain(lambda: Agent("ollama:x", allow=["mcp:clock"]), ConfigError)
    assert "tools=[...]" in explain(lambda: Agent("ollama:x", tools=look), InvalidTool)  # type: ignore[arg-type]


def test_d11_messages_models_wires_and_plain_tools() -> None:
    assert Message("user", "hi").text == Message.user("hi").text == "hi"  # type: ignore[arg-type]
    assert "the roles are" in explain(lambda: agent(["x"]).run(Message("usr", [Text("hi")])))  # type: ignore[arg-type]
    assert "texts, images and files" in explain(lambda: agent(["x"]).run(Message("user", [5])))  # type: ignore[list-item]
    result = agent(["hello"]).run("hi")
    stored = msgspec.json.encode(result.messages)
    assert msgspec.json.decode(stored, type=list[Message]) == result.messages
    assert "msgspec.json.encode(result.messages)" in (ROOT / "docs/concepts/agent.md").read_text(encoding="utf-8")
    model = ScriptedModel(lambda request: f"you said {request.messages[-1].text}")
    assert Agent(model).run("hi").text == "you said hi"
    assert "ScriptedModel" in explain(lambda: Agent(lambda request: Reply(Message.assistant("hi"))))  # type: ignore[arg-type]
    assert callable(wire.register)
    plain = Tool("add", parameters={"type": "object"}, run=lambda arguments: sum(arguments["numbers"]))
    assert agent([call("add", numbers=[1, 2]), "3"], plain).run("hi").results[0].content == "3"


def test_d12_the_text_stream_is_the_text_alone() -> None:
    runs = agent([[thinking("Let me see. "), "I look. ", call("look", place="Oslo")], "It is fine."], look)
    assert "".join(runs.stream("hi").text_stream()) == "I look. It is fine."
    page = (ROOT / "docs/concepts/agent.md").read_text(encoding="utf-8")
    assert "match event:" in page and "text_stream()" in page


def test_d13_a_dry_run_has_no_side_effects() -> None:
    """The imports are counted in tests/agent/test_first_run.py."""
    seen: list[str] = []
    model = ScriptedModel(["x"], wire="cohere")
    Agent(
        model, [look], listeners=[lambda run_id, event: seen.append(run_id)], safety=dragoman.Safety(policy=seen.append)
    )  # type: ignore[arg-type]
    assert (model.requests, seen) == ([], [])


def test_d13_the_dry_run_opens_no_journal_and_reads_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    late = "a-secret-that-is-set-later"
    model = ScriptedModel([f"It is {late}."], wire="mistral")
    events: list[Any] = []
    runs = Agent(model, journal=tmp_path / "runs.db", safety=dragoman.Safety(defer_approvals=True))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("LATE_API_KEY", late)
    runs.run("hi", on_event=events.append)
    runs.close()
    assert late not in repr(events)


def test_d14_the_proxies_of_the_environment_count_and_never_for_this_machine() -> None:
    environment = {"HTTPS_PROXY": "http://proxy.invalid:3128", "NO_PROXY": "internal.invalid"}
    urls = ("https://api.openai.com/v1", "https://internal.invalid/v1", "https://127.0.0.1/v1")
    proxies = read_proxies("env", environment)
    assert proxies is not None
    assert [proxies.find(read_address(url)) is not None for url in urls] == [True, False, False]


def test_d15_read_only_tools_run_together_unless_said_otherwise() -> None:
    assert look.__dragoman_tool__.parallel_safe
    for made in (
        dragoman.tool(read_only=True, parallel_safe=False)(lambda_named()).__dragoman_tool__,
        Tool("x", read_only=True, parallel_safe=False),
        dragoman.tools.tool_from({"name": "x", "read_only": True, "parallel_safe": False}),
        Tool("x"),
    ):
        assert not made.parallel_safe
    assert Tool("x", read_only=True).parallel_safe
    assert dragoman.tools.tool_from({"name": "x", "read_only": True}).parallel_safe


def lambda_named() -> Callable[[], str]:
    def now() -> str:
        """The time."""
        return "noon"

    return now


def test_d16_caching_models_tokens_and_rates() -> None:
    model = ScriptedModel(["hello"], wire="anthropic")
    Agent("anthropic:claude-x", [look], key="k", connection=Connection(transport=model)).run("hi")
    assert "cache_control" in json.dumps(model.bodies[0])
    assert all(callable(getattr(dragoman.client, name)) for name in ("list_models", "count_tokens", "RateLimiter"))


def test_d17_a_prompt_without_tools_stays_as_it_is() -> None:
    assert dragoman.augment_system_prompt("Be kind.", []) == "Be kind."
    assert "look" in dragoman.augment_system_prompt("Be kind.", [look])


def test_d18_tests_have_a_time_limit_and_are_deterministic() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]["ini_options"]
    assert settings["timeout"] <= 300
    assert "derandomize=True" in (ROOT / "tests/conftest.py").read_text(encoding="utf-8")


def test_d19_an_agent_in_a_with_block_closes_its_connections(tmp_path: Path) -> None:
    with Upstream(["one", "two"]) as server:
        settings: dict[str, Any] = {"journal": tmp_path / "runs.db"}
        with Agent(server.endpoint(), **settings) as opened:
            assert opened.run("hi").text == "one"
            assert opened._journal is not None
        assert opened._journal is None

        async def ask() -> str:
            async with Agent(server.endpoint(), **settings) as other:
                return (await other.arun("hi")).text

        assert asyncio.run(ask()) == "two"


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"max_turns": 3}, "limits=Limits(turns=...)"),
        ({"seconds": 3}, "limits=Limits(seconds=...)"),
        ({"temperature": 0}, 'options={"temperature": ...}'),
        ({"instructions": "Be kind."}, "system=..."),
        ({"api_key": "k"}, "key=..."),
    ],
)
def test_d20_the_parameters_of_other_libraries_have_a_hint(given: dict[str, Any], hint: str) -> None:
    assert f"hint: write {hint}" in explain(lambda: Agent(ScriptedModel(["hi"]), **given))


def test_d21_a_system_prompt_is_a_text() -> None:
    given: list[Any] = [3, ["Be kind."], lambda: "Be kind."]
    for wrong in given:
        with pytest.raises(ConfigError, match="system is a text"):
            Agent(ScriptedModel(["hi"]), system=wrong)


def test_d22_a_task_that_would_send_nothing_or_another_role_is_refused() -> None:
    lost = agent(["hi"])
    assert "the task is empty" in explain(lambda: lost.run([]), ConfigError)
    misspelled = explain(lambda: lost.run([{"role": "assitant", "content": "hi"}]), ConfigError)
    assert "'assitant'; did you mean 'assistant'?" in misspelled
    for role in ("user", "developer", "assistant"):
        assert agent(["hi"]).run([{"role": role, "content": "x"}]).text == "hi"


def test_d23_a_rule_for_a_tool_that_does_not_exist_is_a_problem() -> None:
    """A misspelled name in a deny rule would let the calls of the tool run, without a word."""
    rules: dict[str, Any] = {"deny": ["lok", "bash(rm*)", "mcp:*"], "allow": ["lo*"], "ask": ["*"]}
    told = [each for each in agent(["hi"], look, **rules).run("hi").problems if each.kind == "rule_unmatched"]
    assert [each.message for each in told] == [
        "no tool has the name 'lok', so the rule deny lok applies to nothing; did you mean 'look'?"
    ]


def test_d24_a_kind_of_file_that_few_models_take_is_a_problem() -> None:
    sent = ["Look", dragoman.attach(b"PK\x03\x04aaaa"), dragoman.attach(b"%PDF-1.7"), Image(url="https://a.example/b")]
    (told,) = agent(["fine"]).run(sent).problems
    assert told.kind == "media_doubted"
    assert told.message == "few models take the file attachment.zip (application/zip): send it as text or PDF"
