"""The tools that act on the run itself: its list of things to do, its questions, its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman import args
from dragoman.builtin.notes import AskUser, Finish, TodoWrite
from dragoman.tools import Answer, ToolContext, answer_async, bind
from dragoman.types import Tool, ToolCall


def ask(tool: Tool, context: ToolContext | None = None, **arguments: Any) -> Answer:
    bound = bind(tool, arguments, context or ToolContext(run_id="r"))
    return asyncio.run(answer_async(bound, ToolCall("c", tool.name, arguments)))


@pytest.mark.parametrize("tool", [TodoWrite, AskUser, Finish], ids=lambda tool: tool.name)
def test_they_are_tools_of_the_session(tool: Tool) -> None:
    assert tool.metadata == {"class": "session", "origin": "builtin"}
    assert (tool.parallel_safe, tool.read_only) == (False, False)


# ---- the list --------------------------------------------------------------------------------------------------------


def test_the_list_is_shown_with_marks() -> None:
    todos = [
        {"content": "read the code", "status": "completed"},
        {"content": "write  the\ntests", "status": "in_progress"},
        {"content": "write the docs"},
    ]
    result = ask(TodoWrite, todos=todos).result
    assert result.content == "[x] read the code\n[>] write the tests\n[ ] write the docs\n(1 of 3 done)"
    assert result.data[1] == {"content": "write the tests", "status": "in_progress"}
    assert ask(TodoWrite, todos=[]).result.content == "The list is empty."


@pytest.mark.parametrize(
    "todos",
    [[{"content": " "}], [{"content": "x" * 1_001}], [{"content": "x"}] * 101],
    ids=["empty", "long", "many"],
)
def test_a_list_with_a_wrong_entry_is_refused(todos: list[dict[str, str]]) -> None:
    assert ask(TodoWrite, todos=todos).result.is_error


def test_an_unknown_status_does_not_fit_the_schema() -> None:
    assert args.load({"todos": [{"content": "a", "status": "later"}]}, TodoWrite).errors


# ---- questions -------------------------------------------------------------------------------------------------------


def test_the_person_is_asked_and_their_answer_told() -> None:
    asked: list[Any] = []

    async def person(question: str, choices: list[str]) -> str:
        asked.append((question, choices))
        return "the second"

    answer = ask(AskUser, ToolContext(ask=person), question="Which one?", choices=["first", "second"])
    assert answer.result.content == "the second"
    assert asked == [("Which one?", ["first", "second"])]
    assert ask(AskUser, ToolContext(ask=lambda question, choices: ""), question="Sure?").result.content == (
        "(the answer was empty)"
    )


async def _fails(question: str, choices: list[str]) -> str:
    raise ConnectionError("the terminal is gone")


async def _says_nothing(question: str, choices: list[str]) -> None:
    return None


@pytest.mark.parametrize(
    ("person", "words"),
    [
        (None, "Nobody is there to be asked. Decide yourself"),
        (_fails, "The question could not be asked (ConnectionError). Nobody is there"),
        (_says_nothing, "No answer was given. Decide yourself"),
    ],
    ids=["nobody", "failing", "silent"],
)
def test_without_an_answer_the_model_is_told_to_decide(person: Any, words: str) -> None:
    result = ask(AskUser, ToolContext(ask=person), question="Which one?").result
    assert result.is_error
    assert str(result.content).startswith(words)


@pytest.mark.parametrize(
    "arguments",
    [{"question": " "}, {"question": "x" * 4_001}, {"question": "?", "choices": ["a"] * 21}],
    ids=["empty", "long", "many choices"],
)
def test_a_question_that_nobody_could_answer_is_not_asked(arguments: dict[str, Any]) -> None:
    asked: list[str] = []
    context = ToolContext(ask=lambda question, choices: asked.append(question))
    assert ask(AskUser, context, **arguments).result.is_error
    assert asked == []


def test_cancelling_reaches_whoever_asks() -> None:
    async def cancelled() -> None:
        waiting = asyncio.Event()

        async def never(question: str, choices: list[str]) -> str:
            waiting.set()
            await asyncio.Event().wait()
            return "late"

        bound = bind(AskUser, {"question": "?"}, ToolContext(ask=never))
        task = asyncio.create_task(answer_async(bound, ToolCall("c", "ask_user", {})))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_finishing_ends_the_run_with_the_answer() -> None:
    answer = ask(Finish, answer="It is 42.")
    assert (answer.ends, answer.reason, answer.result.content) == ("finished", "It is 42.", "Finished.")
