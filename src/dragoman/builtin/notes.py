"""The tools `finish`, `ask_user` and `todo_write`."""

from __future__ import annotations

import inspect
import threading
from collections import OrderedDict
from typing import Annotated, Any, Literal, NoReturn

from msgspec import Struct

from dragoman.tools import Context, Error, Ok, tool, tool_from_function
from dragoman.tools.objects import MARK
from dragoman.tools.results import Finished
from dragoman.types import Tool

# --------------------------------------------------------------------------------------------------------------------
# The tool `finish`: the model says that it is done, and gives its answer.


@tool(name="finish", repeatable=True, metadata={"class": "session", "origin": "builtin"})
def _finish(answer: Annotated[str, "the final answer, complete: nothing else of this run is shown"]) -> NoReturn:
    """End the task with a final answer. Nothing can be done after this."""
    raise Finished(answer)


Finish: Tool = getattr(_finish, MARK)


# --------------------------------------------------------------------------------------------------------------------
# The tool `ask_user`: a question to the person whose task this is.

MOST_CHOICES = 20
MOST_QUESTION_CHARACTERS = 4_000
_PATIENCE = 3600.0
"""Seconds that a person has, unless the run ends before."""
_NOBODY = (
    "Nobody is there to be asked. Decide yourself with what you know and say what you assumed, or finish and say what "
    "you would need to know."
)


@tool(name="ask_user", timeout=_PATIENCE, metadata={"class": "session", "origin": "builtin"})
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
# The tool `todo_write`: the model's list of what is to be done, whole at every call, kept for the last runs.

MOST_TODOS = 100
MOST_TODO_CHARACTERS = 1_000
_MOST_RUNS = 256
_MARKS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}

_DESCRIPTION = """\
Keep a list of what is to be done in this task, where it has several steps.

Give the whole list every time: it replaces the one before. Mark what you work on as in_progress, and what is done \
as completed as soon as it is done."""


class Todo(Struct, frozen=True):
    """One thing to do."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class TodoLists:
    """The lists of the last runs, one for each."""

    def __init__(self, most_runs: int = _MOST_RUNS) -> None:
        self._most_runs = most_runs
        self._lists: OrderedDict[str, tuple[Todo, ...]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, run_id: str) -> tuple[Todo, ...]:
        """The list of a run, as it is now."""
        with self._lock:
            return self._lists.get(run_id, ())

    def keep(self, run_id: str, todos: tuple[Todo, ...]) -> None:
        """Replace the list of a run; that of the run that was longest without a word gives way."""
        with self._lock:
            self._lists[run_id] = todos
            self._lists.move_to_end(run_id)
            while len(self._lists) > self._most_runs:
                self._lists.popitem(last=False)


def make_todo_write(lists: TodoLists | None = None) -> Tool:
    """The tool, with lists that the caller can read too."""
    kept = lists if lists is not None else TodoLists()

    def todo_write(todos: Annotated[list[Todo], "the whole list, in order"], around: Context) -> Ok:
        cleaned = tuple(Todo(" ".join(todo.content.split()), todo.status) for todo in todos)
        _check(cleaned)
        kept.keep(around.run_id, cleaned)
        return Ok(render(cleaned), [{"content": todo.content, "status": todo.status} for todo in cleaned])

    return tool_from_function(
        todo_write,
        {
            "name": "todo_write",
            "description": _DESCRIPTION,
            "repeatable": True,
            "metadata": {"class": "session", "origin": "builtin"},
        },
    )


def render(todos: tuple[Todo, ...]) -> str:
    """The list as it is shown."""
    if not todos:
        return "The list is empty."
    done = sum(todo.status == "completed" for todo in todos)
    lines = [f"{_MARKS[todo.status]} {todo.content}" for todo in todos]
    return "\n".join([*lines, f"({done} of {len(todos)} done)"])


def _check(todos: tuple[Todo, ...]) -> None:
    if len(todos) > MOST_TODOS:
        raise Error(f"{len(todos)} entries are too many; {MOST_TODOS} is the most. Join some of them.")
    for number, todo in enumerate(todos, 1):
        if not todo.content:
            raise Error(f"Entry {number} is empty. The list was not changed.")
        if len(todo.content) > MOST_TODO_CHARACTERS:
            raise Error(f"Entry {number} has more than {MOST_TODO_CHARACTERS} characters. The list was not changed.")


TodoWrite = make_todo_write()
"""The tool, with lists of its own."""
