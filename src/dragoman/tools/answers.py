"""Whatever a tool gave back, made into the result that the model is shown and the caller gets.

Nothing here raises: every call is owed a result, whatever its tool did.
"""

from __future__ import annotations

import inspect
import json
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.errors import ModelMistake, ToolError
from dragoman.tools.calling import BoundCall, Wait, run_async, run_sync
from dragoman.tools.cutting import MAX_OUTPUT, cut_parts, cut_text
from dragoman.tools.media import Part, mcp_result, media_part
from dragoman.tools.outcomes import Error, Finished, Halt, Ok
from dragoman.tools.plain import plain, shown, whole
from dragoman.types import File, Image, Text, Tool, ToolCall, ToolResult

Content = str | list[Part]
_LONGEST_ERROR = 4000
_SHOWN_ERRORS = 5


class Answer(Struct, frozen=True):
    """The result of a call, and whether the run may go on after it."""

    result: ToolResult
    ends: Literal["finished", "halted", "failed"] | None = None
    """`finished`: the tool gave the final answer. `halted`: it said Halt. `failed`: its error is not to be tried again.

    None: the run goes on.
    """
    reason: str = ""
    problem: BaseException | None = None
    """What was raised, for whoever keeps a log; the model is told its message only."""


def to_result(
    value: Any, call: ToolCall, tool: Tool | None = None, *, max_output: int | None = None, traceback: bool = False
) -> ToolResult:
    """The result of a call from whatever its tool gave back or raised; see `to_answer` for what it means to the run."""
    return to_answer(value, call, tool, max_output=max_output, traceback=traceback).result


def to_answer(
    value: Any, call: ToolCall, tool: Tool | None = None, *, max_output: int | None = None, traceback: bool = False
) -> Answer:
    """The answer to a call from whatever its tool gave back or raised.

    `max_output` is for tools that say nothing themselves. `traceback` shows the model where an exception came from.
    """
    limit = (tool.max_output if tool is not None else None) or max_output or MAX_OUTPUT
    try:
        answer = _answer(value, call, traceback)
    except Exception as problem:  # Attributes of the value are the tool's code, and a result is owed in any case.
        answer = Answer(ToolResult(call.id, call.name, shown(value), data=value), problem=problem)
    content = answer.result.content
    cut = cut_text(content, limit) if isinstance(content, str) else cut_parts(content, limit)
    return answer if cut == content else _with_result(answer, content=cut)


def answer_sync(
    bound: BoundCall,
    call: ToolCall,
    *,
    wait: Wait | None = None,
    max_output: int | None = None,
    traceback: bool = False,
) -> Answer:
    """Run a call, and answer it whatever happens; only an interrupt of the whole program passes."""
    value: Any
    try:
        value = run_sync(bound, wait)
    except (Exception, SystemExit) as problem:
        value = problem
    return to_answer(value, call, bound.tool, max_output=max_output, traceback=traceback)


async def answer_async(
    bound: BoundCall, call: ToolCall, *, max_output: int | None = None, traceback: bool = False
) -> Answer:
    """The same in async code; cancelling passes, for whoever cancels knows what to answer."""
    value: Any
    try:
        value = await run_async(bound)
    except (Exception, SystemExit) as problem:
        value = problem
    return to_answer(value, call, bound.tool, max_output=max_output, traceback=traceback)


def _with_result(answer: Answer, **changes: Any) -> Answer:
    return msgspec.structs.replace(answer, result=msgspec.structs.replace(answer.result, **changes))


def _answer(value: Any, call: ToolCall, traceback: bool) -> Answer:
    if isinstance(value, Finished):
        return Answer(ToolResult(call.id, call.name, "Finished."), "finished", value.answer)
    if isinstance(value, Halt):
        words = f"The run was halted: {value.reason}" if value.reason else "The run was halted."
        return Answer(ToolResult(call.id, call.name, whole(words)), "halted", value.reason, value)
    if isinstance(value, BaseException):
        return _error(value, call, traceback)
    if isinstance(value, Ok):
        answer = _answer(value.value, call, traceback)
        return answer if value.data is None else _with_result(answer, data=value.data)
    if isinstance(value, ToolResult):
        # The id that pairs it with its call is ours to set, whatever the tool wrote there.
        return Answer(msgspec.structs.replace(value, call_id=call.id, name=call.name))
    if inspect.iscoroutine(value):
        value.close()
        return _error(Error("the tool gave back a coroutine that nobody awaited"), call, traceback)
    served = mcp_result(value)
    if served is not None:
        content = _as_text(served.parts)
        return Answer(ToolResult(call.id, call.name, content, is_error=served.is_error, data=served.data))
    content, data = _content_of(value)
    return Answer(ToolResult(call.id, call.name, content, data=data))


def _as_text(parts: list[Part]) -> Content:
    """Parts that are nothing but text, as text: every wire takes that."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _content_of(value: Any) -> tuple[Content, Any]:
    """What the model is shown, and what the caller gets beside it."""
    if value is None:
        return "", None
    if type(value) is str:
        return whole(value), None
    part = media_part(value)
    if part is not None:
        return (part.text, None) if isinstance(part, Text) and not part.extra else ([part], None)
    parts = _parts_of(value)
    if parts is not None:
        return parts, None
    if type(value) is tuple and len(value) == 2 and isinstance(value[0], str) and _is_structured(value[1]):
        return whole(value[0]), value[1]
    written = plain(value)
    return written if isinstance(written, str) else json.dumps(written, ensure_ascii=False), value


def _is_structured(value: Any) -> bool:
    """Whether the second of a pair is data for the caller; `("Paris", 3)` is a pair of values for the model."""
    return not isinstance(value, str | bytes | int | float | None)


def _parts_of(value: Any) -> list[Part] | None:
    """A list of parts, or of texts and images together; None for any other list."""
    if not isinstance(value, list | tuple) or not any(_is_media(each) for each in value):
        return None
    parts: list[Part] = []
    for each in value:
        part = Text(whole(each)) if isinstance(each, str) else media_part(each)
        if part is None:
            return None
        parts.append(part)
    return parts


def _is_media(value: Any) -> bool:
    return isinstance(value, Text | Image | File) or isinstance(media_part(value), Image)


# ---- errors --------------------------------------------------------------------------------------------------------


def _error(problem: BaseException, call: ToolCall, traceback: bool) -> Answer:
    words = _words_of(problem)
    if traceback:
        words = f"{words}\n\n{_trace_of(problem)}"
    fatal = isinstance(problem, Error) and not problem.retryable
    result = ToolResult(call.id, call.name, words, is_error=True, data=getattr(problem, "data", None))
    return Answer(result, "failed" if fatal else None, words if fatal else "", problem)


def _words_of(problem: BaseException) -> str:
    """What the model is told of an exception: its kind and its message."""
    if isinstance(problem, SystemExit):
        return f"The tool tried to end the program (SystemExit: {_message_of(problem)})."
    if isinstance(problem, ToolError | ModelMistake):
        return whole(problem.to_model()) or "The tool failed and did not say why."
    message = _message_of(problem)
    words = f"{type(problem).__name__}: {message}" if message else type(problem).__name__
    if isinstance(problem, BaseExceptionGroup):
        inner = problem.exceptions[:_SHOWN_ERRORS]
        words = "\n- ".join([words, *(_words_of(each) for each in inner)])
    return words


def _message_of(problem: BaseException) -> str:
    try:
        text = whole(str(problem))
    except Exception:  # The message of a class of the developer's may fail as well.
        return ""
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 3] + "..."


def _trace_of(problem: BaseException) -> str:
    import traceback

    return whole("".join(traceback.format_exception(problem)))
