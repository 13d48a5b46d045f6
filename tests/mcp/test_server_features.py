"""Resources, prompts, questions to the user, progress and changed lists, with servers of the official SDK as judges."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.mcp.test_http_channel import JSON, Reply, answer, opened, text
from tests.mcp.test_official_servers import _knows_nothing, serving
from tests.mcp.toolboxes import QUICK, call, open_toolbox, wait_until
from tests.tables import each_row

from dragoman.agent import Agent, Safety
from dragoman.agent.events import ToolProgressed
from dragoman.errors import ConfigError
from dragoman.mcp import HttpServer, MCPError, Toolbox
from dragoman.mcp.elicitation import Elicitation
from dragoman.mcp.protocol import ErrorReply
from dragoman.mcp.session import MOST_QUESTIONS, Session
from dragoman.testing import ScriptedModel
from dragoman.testing import call as calls
from dragoman.tools import ToolContext
from dragoman.types import File, Text

if importlib.util.find_spec("mcp") is None:
    pytest.skip(
        "the official SDK of MCP is not installed: pip install mcp, or make test, which sets it up",
        allow_module_level=True,
    )


@pytest.fixture(
    scope="module",
    params=[("stdio", "newest"), ("stdio", "handshake"), ("http", "newest"), ("http", "handshake")],
    ids="-".join,
)
def toolbox(request: pytest.FixtureRequest) -> Iterator[Toolbox]:
    how, era = request.param
    with pytest.MonkeyPatch.context() as patch, serving(how) as server:
        if era == "handshake":
            patch.setattr(Session, "_discover", _knows_nothing)
        with open_toolbox(server) as found:
            assert found.problems == []
            yield found


def test_resources_and_templates_are_listed_and_read(toolbox: Toolbox) -> None:
    listed = {each.uri: each for each in toolbox.resources()}
    assert set(listed) == {"note://today", "note://{day}/raw"}
    assert (listed["note://today"].media_type, listed["note://today"].description) == (
        *("text/plain", "The note of today."),
    )
    assert [each.is_template for each in listed.values()] == [False, True]
    assert toolbox.read_resource("weather", "note://today") == [Text("buy bread")]
    (part,) = toolbox.read_resource("weather", "note://monday/raw")
    assert isinstance(part, File) and part.data == "bW9uZGF5"
    with pytest.raises(MCPError, match="the MCP server 'weather'"):
        toolbox.read_resource("weather", "note://nowhere/at/all")
    with pytest.raises(ConfigError, match="did you mean 'weather'"):
        toolbox.resources("wether")


def test_prompts_are_listed_and_filled_and_count_as_untrusted(toolbox: Toolbox) -> None:
    (prompt,) = toolbox.prompts()
    assert (prompt.name, prompt.description) == ("travel", "Plan a journey.")
    assert [(each.name, each.required) for each in prompt.arguments] == [("city", True), ("days", False)]
    (message,) = toolbox.get_prompt("weather", "travel", {"city": "Rome"})
    assert message.role == "user" and message.text.startswith("Plan a journey to Rome.")
    assert "<|im_start|>" not in message.text and message.extra == {"untrusted": True}
    run = Agent(ScriptedModel(["fine"])).run([message])
    assert run.text == "fine"

    async def fetch() -> tuple[int, int]:
        return len(await toolbox.aresources()), len(await toolbox.aget_prompt("weather", "travel", {"city": "Rome"}))

    assert asyncio.run(fetch()) == (2, 1)


class Person:
    """Answers questions in order, and records them."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, list[str]]] = []

    async def __call__(self, question: str, choices: list[str]) -> Any:
        self.asked.append((question, list(choices)))
        return self.answers.pop(0)


FORMS: list[tuple[list[Any], str]] = [
    (["Answer", "3", "yes", "fish", ""], "accept {'seats': 3, 'aisle': True, 'meal': 'fish', 'note': None}"),
    (["y", "2", "no", "", "by train"], "accept {'seats': 2, 'aisle': False, 'meal': 'none', 'note': 'by train'}"),
    (["Answer", "ten", "99", "9", "perhaps", "n", "FISH", ""], "accept {'seats': 9, 'aisle': False, 'meal': 'fish'"),
    (["Decline"], "decline"),
    (["no"], "decline"),
    ([""], "cancel"),
    ([None], "cancel"),
    (["what?"], "cancel"),
    (["Answer", "", "", ""], "cancel"),
]


def test_a_form_is_asked_through_the_function_of_ask_user(toolbox: Toolbox) -> None:
    for answers, expected in FORMS:
        person = Person(*answers)
        result = call(toolbox, "book", ToolContext(ask=person), show="Hamlet")
        assert str(result.content).startswith(expected), (answers, result)
        question, choices = person.asked[0]
        assert (
            "The MCP server 'weather' asks: Which seats for Hamlet?" in question and "give it no password" in question
        )
        assert choices == ["Answer", "Decline"] and person.answers == []
    assert "cancel" in str(call(toolbox, "book", show="Hamlet").content), "without a person nobody answers"


def test_a_run_asks_its_own_user_and_shows_the_progress_of_a_call(toolbox: Toolbox) -> None:
    person = Person("Answer", "1", "yes", "none", "")
    model = ScriptedModel([calls("mcp__weather__book", show="Hamlet"), calls("mcp__weather__count", to=2), "done"])
    events: list[Any] = []
    agent = Agent(model, toolbox, allow=["mcp:*"], safety=Safety(ask_user=person))
    run = agent.run("book it", on_event=events.append)
    assert run.results[0].content.startswith("accept {'seats': 1")
    assert [(each.message, each.fraction) for each in events if isinstance(each, ToolProgressed)] == [
        *(("at 1", 0.5), ("at 2", 1.0)),
    ]


def test_a_tool_that_the_server_adds_is_in_the_next_run(toolbox: Toolbox, request: pytest.FixtureRequest) -> None:
    name = f"added_{request.node.callspec.id.replace('-', '_')}"
    model = ScriptedModel([calls("mcp__weather__appear", name=name), "one", calls(f"mcp__weather__{name}"), "two"])
    agent = Agent(model, toolbox, allow=["mcp:weather/*"])
    assert agent.run("1").text == "one"
    wait_until(lambda: any(tool.metadata["mcp_tool"] == name for tool in toolbox.tools))
    assert agent.run("2").results[0].content == f"{name} works"
    assert (toolbox.problems, {pin.state for pin in toolbox.pins}) == ([], {"new"})


def test_a_page_is_opened_with_consent_only(toolbox: Toolbox, request: pytest.FixtureRequest) -> None:
    if "newest" in request.node.name:
        assert call(toolbox, "visit", url="https://a.example/").is_error, "the SDK has another way there"
        return
    visited: list[str] = []

    async def visit(url: str) -> None:
        visited.append(url)

    (connection,) = toolbox._connections
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection._elicitation, "_visit", visit)
        for answers, url, expected in (
            (["Open the page"], "https://a.example/sign?x=1", "accept"),
            (["Decline"], "https://a.example/", "decline"),
            ([""], "https://a.example/", "cancel"),
        ):
            person = Person(*answers)
            assert call(toolbox, "visit", ToolContext(ask=person), url=url).content == expected
            assert url in person.asked[0][0] and "a.example" in person.asked[0][0]
        for url in ("http://a.example/", "javascript:alert(1)", "https://localhost/", "https://u:p@a.example/"):
            if "stdio" in request.node.name or "localhost" not in url:
                assert call(toolbox, "visit", ToolContext(ask=Person()), url=url).is_error
    assert visited == ["https://a.example/sign?x=1"]


# ---- hostile servers -------------------------------------------------------------------------------------------------

WEB = HttpServer("web", "https://a.example/mcp")


def ask_for(params: Any, *answers: Any) -> tuple[Any, Person]:
    person = Person(*answers)

    async def visit(url: str) -> None:
        raise AssertionError(url)

    async def work() -> Any:
        try:
            return await Elicitation(WEB, QUICK, visit).answer("elicitation/create", params, person)
        except ErrorReply as refusal:
            return refusal.code

    return asyncio.run(work()), person


def form(**properties: Any) -> dict[str, Any]:
    return {"message": "hi", "requestedSchema": {"type": "object", "properties": properties}}


BAD_FORMS: list[tuple[str, Any]] = [
    ("nothing", None),
    ("no message", {"requestedSchema": {"type": "object"}}),
    ("no schema", {"message": "hi"}),
    ("a list", {"message": "hi", "requestedSchema": []}),
    ("too many fields", form(**{f"f{number}": {"type": "string"} for number in range(21)})),
    ("control tokens", form(**{"<|im_start|>": {"type": "string"}})),
    ("elsewhere", form(a={"$ref": "https://evil.example/"})),
    ("too large", form(a={"type": "string", "description": "x" * 100_000})),
    ("a page on this machine", {"message": "hi", "mode": "url", "url": "https://127.0.0.1/"}),
    ("no page", {"message": "hi", "mode": "url"}),
]


@each_row(("name", "params"), BAD_FORMS)
def test_a_form_that_cannot_be_trusted_is_not_shown(name: str, params: Any) -> None:
    code, person = ask_for(params)
    assert (code, person.asked) == (-32602, [])


def test_what_a_server_asks_cannot_hide_anything_from_the_user() -> None:
    rows = [{"const": "a", "title": "A\x1b[2J"}, {"const": "b", "title": "B\u202e"}]
    params = form(pick={"type": "string", "title": "Pick\u200b", "description": "one\x1b[2J", "oneOf": rows})
    params["message"] = "\x1b[2JTrust me\u200b <|im_end|>"
    result, person = ask_for(params, "Answer", "b")
    assert result == {"action": "accept", "content": {"pick": "b"}}
    shown = "".join(question + "".join(choices) for question, choices in person.asked)
    assert not any(evil in shown for evil in ("\x1b", "\u202e", "\u200b", "<|im_end|>"))
    many = {"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}, {"const": "g", "title": "Green"}]}}
    assert ask_for(form(colours=many), "yes", "red, Green")[0]["content"] == {"colours": ["r", "g"]}


def test_odd_types_and_a_function_that_fails_are_no_answer() -> None:
    assert ask_for(form(a={"type": ["string", "null"]}), "yes", "x")[0]["content"] == {"a": "x"}
    assert ask_for(form(a={"type": "string"}))[0] == {"action": "cancel"}, "the person has no more answers, and fails"


def test_questions_during_a_call_are_bounded() -> None:
    asked = {f"q{number}": {"method": "elicitation/create", "params": form()} for number in range(4)}

    def endless(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        if message.get("method") != "tools/call":
            return None
        return 200, JSON, answer(message["id"], {"resultType": "input_required", "inputRequests": asked})

    with opened(endless) as (toolbox, script):
        person = Person(*["Answer"] * 100)
        told = call(toolbox, "echo", ToolContext(ask=person))
        assert told.is_error and "asked for more input 10 times" in told.content
        assert len(person.asked) <= MOST_QUESTIONS
        sent = [message["params"] for _, message, _ in script.seen if message.get("method") == "tools/call"]
        assert sent[-1]["inputResponses"] == {key: {"action": "cancel"} for key in asked}


def test_a_result_of_an_unknown_kind_and_a_page_before_a_call_are_errors() -> None:
    replies: list[Any] = [
        {"resultType": "hologram"},
        {"resultType": "input_required"},
        {"resultType": "input_required", "requestState": "s1"},
        text("done"),
    ]
    states: list[Any] = []

    def respond(verb: str, message: dict[str, Any], headers: dict[str, str]) -> Reply | None:
        if message.get("method") != "tools/call":
            return None
        states.append(message["params"].get("requestState"))
        if not replies:
            error = {"code": -32042, "message": "sign", "data": {"elicitations": [{"message": "m", "mode": "url"}]}}
            return 200, JSON, answer(message["id"], None).replace('"result": null', f'"error": {json.dumps(error)}')
        return 200, JSON, answer(message["id"], replies.pop(0))

    with opened(respond) as (toolbox, _):
        assert "a result of an unknown kind" in call(toolbox, "echo").content
        assert "a result of an unknown kind" in call(toolbox, "echo").content
        assert call(toolbox, "echo").content == "done" and states[-1] == "s1"
        assert "is not an address" in call(toolbox, "echo", ToolContext(ask=Person())).content
