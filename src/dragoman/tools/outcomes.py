"""What a tool may answer, beyond a plain value: `Ok`, `Error` and `Halt`.

`Error` and `Halt` can be returned or raised, whichever is shorter where they are needed.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from dragoman.errors import ToolFailed


class Ok(Struct, frozen=True):
    """A value for the model, and beside it whatever the caller is to get; without `data`, the caller gets the value."""

    value: Any = None
    data: Any = None


class Error(ToolFailed):
    """The tool could not do it. The model is told and goes on; with `retryable=False` the run ends as failed."""

    def __init__(self, reason: object = "", *, retryable: bool = True, data: Any = None) -> None:
        super().__init__(str(reason))
        self.reason = str(reason)
        self.retryable = retryable
        self.data = data


class Halt(Exception):
    """The run has to stop here: nothing more is asked of the model. For what no further attempt can mend."""

    def __init__(self, reason: object = "") -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class Finished(Halt):
    """The task is done, and this is the answer: the run ends with it as if the model had said it."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer)
        self.answer = answer
