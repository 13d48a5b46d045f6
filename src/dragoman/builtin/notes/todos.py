"""The tool `todo_write`: the model's list of what is to be done, whole at every call, kept for the last runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Annotated, Literal

from msgspec import Struct

from dragoman.tools import Context, Error, Ok, tool_from_function
from dragoman.types import Tool

MOST_TODOS = 100
MOST_CHARACTERS = 1_000
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
        if len(todo.content) > MOST_CHARACTERS:
            raise Error(f"Entry {number} has more than {MOST_CHARACTERS} characters. The list was not changed.")


TodoWrite = make_todo_write()
"""The tool, with lists of its own."""
