"""The tool `ask_user`: a question to the person whose task this is."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

from dragoman.tools import Context, Error, tool
from dragoman.tools.objects import MARK
from dragoman.types import Tool

MOST_CHOICES = 20
MOST_CHARACTERS = 4_000
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
    if len(question) > MOST_CHARACTERS:
        raise Error(f"The question has more than {MOST_CHARACTERS} characters. Ask for one thing, in short.")
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
