"""The tools `finish`, `ask_user` and `todo_write`."""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal, NoReturn

from msgspec import Struct

from dragoman.tools import Context, Error, Ok, tool
from dragoman.tools.objects import MARK
from dragoman.tools.results import Finished
from dragoman.types import Tool

_METADATA = {"class": "session", "origin": "builtin"}

# --------------------------------------------------------------------------------------------------------------------
# The tool `finish`: the model says that it is done, and gives its answer.


@tool(name="finish", repeatable=True, metadata=_METADATA)
def _finish(answer: Annotated[str, "the final answer, complete: nothing else of this run is shown"]) -> NoReturn:
    """End the task with a final answer. Nothing can be done after this."""
    raise Finished(answer)


Finish: Tool = getattr(_finish, MARK)


# --------------------------------------------------------------------------------------------------------------------
# The tool `ask_user`: a question to the person whose task this is.

MOST_CHOICES = 20
MOST_QUESTION_CHARACTERS = 4_000
_PATIENCE = 3600.0
"""The seconds in which a user can answer, unless the run ends earlier."""
_NOBODY = (
    "Nobody is there to be asked. Decide yourself with what you know and say what you assumed, or finish and say what "
    "you would need to know."
)


@tool(name="ask_user", timeout=_PATIENCE, metadata=_METADATA)
async def _ask_user(
    question: Annotated[str, "one clear question"],
    around: Context,
    choices: Annotated[list[str], "answers to choose from, if it is a choice"] = [],  # noqa: B006
) -> str:
    """Ask the person whose task this is, and wait for the answer.

    Only for what you cannot find out yourself and cannot sensibly assume.
    """
    if not question.strip():
        raise Error("The question is empty.")
    if len(question) > MOST_QUESTION_CHARACTERS:
        raise Error(f"The question has more than {MOST_QUESTION_CHARACTERS} characters. Ask for one thing, in short.")
    if len(choices) > MOST_CHOICES:
        raise Error(f"{len(choices)} choices are too many; {MOST_CHOICES} is the most.")
    if around.ask is None:
        raise Error(_NOBODY)
    answer = await _answer(around.ask, question, choices)
    if answer is None:
        raise Error(f"No answer was given. {_NOBODY.partition('. ')[2]}")
    return str(answer) or "(the answer was empty)"


async def _answer(ask: Any, question: str, choices: list[str]) -> Any:
    try:
        given = ask(question, list(choices))
        return await given if inspect.isawaitable(given) else given
    except Exception as problem:  # Whoever asks is the developer's code, and the model is owed an answer.
        raise Error(f"The question could not be asked ({type(problem).__name__}). {_NOBODY}") from problem


AskUser: Tool = getattr(_ask_user, MARK)


# --------------------------------------------------------------------------------------------------------------------
# The tool `todo_write`: the model's list of what is to be done, whole at every call. It lives in the conversation.

MOST_TODOS = 100
MOST_TODO_CHARACTERS = 1_000
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}

_DESCRIPTION = """\
Keep a list of what is to be done in this task, where it has several steps.

Give the whole list every time: it replaces the one before. Mark what you work on as in_progress, and what is done \
as completed as soon as it is done."""


class Todo(Struct):
    """One thing to do."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


@tool(name="todo_write", description=_DESCRIPTION, repeatable=True, metadata=_METADATA)
def _todo_write(todos: Annotated[list[Todo], "the whole list, in order"]) -> Ok:
    if len(todos) > MOST_TODOS:
        raise Error(f"{len(todos)} entries are too many; {MOST_TODOS} is the most. Join some of them.")
    for number, todo in enumerate(todos, 1):
        todo.content = " ".join(todo.content.split())
        if not todo.content:
            raise Error(f"Entry {number} is empty. The list was not changed.")
        if len(todo.content) > MOST_TODO_CHARACTERS:
            raise Error(f"Entry {number} has more than {MOST_TODO_CHARACTERS} characters. The list was not changed.")
    done = sum(todo.status == "completed" for todo in todos)
    lines = [f"{_MARKS[todo.status]} {todo.content}" for todo in todos]
    shown = "\n".join([*lines, f"({done} of {len(todos)} done)"]) if todos else "The list is empty."
    return Ok(shown, [{"content": todo.content, "status": todo.status} for todo in todos])


TodoWrite: Tool = getattr(_todo_write, MARK)
