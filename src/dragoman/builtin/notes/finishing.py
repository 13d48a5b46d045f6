"""The tool `finish`: the model says that it is done, and gives its answer."""

from __future__ import annotations

from typing import Annotated, NoReturn

from dragoman.tools import tool
from dragoman.tools.objects import MARK
from dragoman.tools.results import Finished
from dragoman.types import Tool


@tool(name="finish", repeatable=True, metadata={"class": "session", "origin": "builtin"})
def _finish(answer: Annotated[str, "the final answer, complete: nothing else of this run is shown"]) -> NoReturn:
    """End the task with a final answer. Nothing can be done after this."""
    raise Finished(answer)


Finish: Tool = getattr(_finish, MARK)
