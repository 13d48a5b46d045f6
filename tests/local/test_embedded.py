"""The real model in this process: what it writes under the grammar is valid, and what is cancelled stops."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from benchmarks.support.weak_judging import WAYS, Prompt, Way, judge_strictly, load, write

import dragoman
from dragoman import Agent, Limits
from dragoman.client import Client
from dragoman.errors import ConfigError
from dragoman.local import Engine
from dragoman.local.engine import loaded
from dragoman.providers import resolve
from dragoman.toolset import Toolset
from dragoman.types import InvalidCall, Message, Request, Text, ToolCall

pytestmark = pytest.mark.xdist_group("local")

TRIAL = load()
TOOLS = Toolset(TRIAL.tools)
FORMATS = ("fenced_tool_name", "hermes", "qwen3_coder")
ALL_FORMATS = (*FORMATS, "fenced", "functionary_v31", "mistral", "glm45", "json")
NEEDING_TOOLS = [prompt for prompt in TRIAL.prompts if prompt.tool]
IDLE = [prompt for prompt in TRIAL.prompts if not prompt.tool]
REQUIRED, LIKELIHOODS = WAYS[3], WAYS[4]
MOST_TOKENS = 120


def ask(prompt: Prompt, way: Way, format: str) -> str:
    async def once() -> str:
        composed = write(prompt, TOOLS, way, format, MOST_TOKENS)
        async with Client(composed.chosen_mode.endpoint) as client:
            reply = await client.ask(composed.request)
        assert reply.failure is None, reply.failure
        assert reply.stop != "length" or way is LIKELIHOODS, f"a call that runs on: {reply.text}"
        return reply.text

    return asyncio.run(once())


# ---- valid calls -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("format", "prompt"), list(zip(FORMATS, NEEDING_TOOLS[5::15], strict=False)), ids=str)
def test_under_the_grammar_every_call_is_valid(engine: Engine, prompt: Prompt, format: str) -> None:
    text = ask(prompt, REQUIRED, format)
    assert judge_strictly(text, prompt, TOOLS, format).valid, text


@pytest.mark.full
@pytest.mark.parametrize("format", ALL_FORMATS)
@pytest.mark.parametrize("prompt", NEEDING_TOOLS, ids=lambda prompt: prompt.text)
def test_under_the_grammar_every_call_is_valid_in_every_format(engine: Engine, prompt: Prompt, format: str) -> None:
    text = ask(prompt, REQUIRED, format)
    assert judge_strictly(text, prompt, TOOLS, format).valid, text


@pytest.mark.full
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("prompt", TRIAL.prompts, ids=lambda prompt: prompt.text)
def test_left_the_choice_it_writes_a_valid_call_or_plain_text(engine: Engine, prompt: Prompt, format: str) -> None:
    text = ask(prompt, LIKELIHOODS, format)
    verdict = judge_strictly(text, prompt, TOOLS, format)
    assert verdict.valid or verdict.replied, text


def test_a_plain_reply_is_possible(engine: Engine) -> None:
    reply = dragoman.ask("local", "Hello!", tools=TOOLS, max_tokens=40)
    assert [type(part) for part in reply.message.parts] == [Text]
    assert reply.text.strip()


def test_it_says_the_same_again(engine: Engine) -> None:
    first, second = (dragoman.ask("local", "What is 17 * 23?", tools=TOOLS, max_tokens=20) for _ in range(2))
    assert first.message == second.message


# ---- whether to call -------------------------------------------------------------------------------------------------


@dragoman.tool
def weather(city: str, unit: str = "c") -> str:
    """The weather in a city."""
    return f"sunny in {city}, 21 degrees {unit}"


ABOUT_WEATHER = {
    "Is it warm in Paris?": "Paris",
    "What is the weather in Oslo?": "Oslo",
    "Weather in Rome, please.": "Rome",
    "Will it rain in Dublin?": "Dublin",
    "How hot is it in Cairo?": "Cairo",
    "Tell me the weather in Tokyo.": "Tokyo",
    "What is the temperature in Prague?": "Prague",
    "Is it sunny in Lisbon right now?": "Lisbon",
}


def call_of(question: str, tools: Any) -> tuple[str, Any]:
    reply = dragoman.ask("local", question, tools=tools, max_tokens=30)
    calls = [(part.name, part.arguments) for part in reply.message.parts if isinstance(part, ToolCall)]
    return calls[0] if calls else ("", {})


def test_the_tool_of_the_readme_is_called_for_questions_about_it(engine: Engine) -> None:
    asked = [*ABOUT_WEATHER.items()][:3]
    calls = [(question, *call_of(question, [weather])) for question, _ in asked]
    assert [(question, name, arguments.get("city")) for question, name, arguments in calls] == [
        (question, "weather", city) for question, city in asked
    ]
    assert call_of("Good morning!", [weather]) == ("", {})


@pytest.mark.full
def test_most_questions_about_the_weather_call_and_most_others_do_not(engine: Engine) -> None:
    called = [call_of(question, [weather])[0] for question in ABOUT_WEATHER]
    idle = [call_of(prompt.text, [weather])[0] for prompt in IDLE]
    assert called.count("weather") >= 7, called
    assert idle.count("") >= 10, idle


@pytest.mark.full
@pytest.mark.timeout(600)
def test_likelihoods_choose_among_several_tools(engine: Engine) -> None:
    """Prompts on which nothing was tuned. `benchmarks/weak_model.py` counts all of them."""
    right = [call_of(prompt.text, TOOLS)[0] == prompt.tool for prompt in NEEDING_TOOLS[1::6]]
    idle = [call_of(prompt.text, TOOLS)[0] for prompt in IDLE[::2]]
    assert right.count(True) >= 8, right
    assert idle.count("") >= 4, idle


# ---- tool choice -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "choice"),
    [("Hello!", "required"), ("Hello!", {"name": "get_weather"}), ("What time is it?", {"name": "set_timer"})],
    ids=str,
)
def test_a_call_can_be_demanded(engine: Engine, question: str, choice: Any) -> None:
    (call,) = dragoman.ask("local", question, tools=TOOLS, tool_choice=choice).message.parts
    assert isinstance(call, ToolCall)
    if isinstance(choice, dict):
        assert call.name == choice["name"]


@pytest.mark.parametrize("question", ["What time is it?", "Set a timer for 10 minutes."])
def test_a_call_can_be_forbidden(engine: Engine, question: str) -> None:
    reply = dragoman.ask("local", question, tools=TOOLS, tool_choice="none", max_tokens=40)
    assert not any(isinstance(part, ToolCall | InvalidCall) for part in reply.message.parts)
    assert reply.text.strip()


# ---- the agent -------------------------------------------------------------------------------------------------------


@dragoman.tool
def get_time() -> str:
    """Tell the current time."""
    return "14:05"


def test_an_agent_asks_runs_and_answers(engine: Engine) -> None:
    agent = Agent("local", [get_time], limits=Limits(turns=3), options={"max_tokens": 60})
    result = agent.run("What time is it?")
    agent.close()
    assert result.outcome.kind == "answered"
    assert [call.name for call in result.calls] == ["get_time"]
    assert "14:05" in result.text
    assert result.usage.output_tokens > 0


# ---- the engine ------------------------------------------------------------------------------------------------------


def question(text: str, tokens: int, **options: Any) -> Request:
    return Request("smollm2", [Message("user", [Text(text)])], [], {"max_tokens": tokens, **options})


def test_four_questions_at_once(engine: Engine) -> None:
    async def ask_all() -> list[str]:
        async with Client("local") as client:
            replies = await asyncio.gather(*(client.ask(question(f"Count to {n}.", 8)) for n in range(2, 6)))
        assert [reply.failure for reply in replies] == [None] * 4
        return [reply.text for reply in replies]

    assert all(asyncio.run(ask_all()))


def test_a_stream_and_a_whole_reply_say_the_same(engine: Engine) -> None:
    async def both() -> tuple[str, str]:
        async with Client("local") as client:
            whole = await client.ask(question("What is gravity?", 16), whole=True)
            streamed = await client.ask(question("What is gravity?", 16), whole=False)
        return whole.text, streamed.text

    whole, streamed = asyncio.run(both())
    assert whole == streamed != ""


def test_whoever_leaves_stops_the_generation(engine: Engine) -> None:
    async def leave() -> None:
        async with Client("local") as client:
            stream: AsyncIterator[Any] = client.stream(question("Tell me a long story.", 2000))
            async for event in stream:
                if getattr(event, "text", ""):
                    break
            await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    until = time.monotonic() + 20
    while engine.busy and time.monotonic() < until:
        time.sleep(0.01)
    assert engine.busy == 0


def test_one_file_is_loaded_once(engine: Engine) -> None:
    async def hold_two() -> list[Engine]:
        async with Client("local") as one, Client(resolve("local")) as other:
            await one.ask(question("Hi", 1))
            await other.ask(question("Hi", 1))
            return loaded()

    assert asyncio.run(hold_two()) == [engine]
    assert loaded() == [engine]


def test_a_model_can_be_unloaded_as_soon_as_it_is_loaded(engine: Engine) -> None:
    """The library waits for ever where its threads are dropped before they run."""
    second = Engine(engine.path, threads=1, context=512)
    second.close()
    with pytest.raises(ConfigError, match="is closed"):
        second.complete("{}", lambda piece: False)


def test_too_long_a_prompt_is_a_failure_with_a_name(engine: Engine) -> None:
    async def ask_too_much() -> Any:
        async with Client("local") as client:
            return await client.ask(question("word " * 20000, 4))

    failure = asyncio.run(ask_too_much()).failure
    assert failure is not None
    assert failure.kind == "context_too_long"


def test_a_model_that_is_not_there_is_a_mistake_of_the_caller(engine: Engine) -> None:
    with pytest.raises(ConfigError, match="unknown model 'nowhere'"):
        dragoman.ask("local:nowhere", "Hi")
