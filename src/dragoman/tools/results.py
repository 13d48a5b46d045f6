"""Results of tools: `Ok`, `Error`, `Retry`, `Halt`, `Finished`, images, files, truncation, conversion to answers."""

from __future__ import annotations

import inspect
import json
from base64 import b64encode
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.characters import strip_controls
from dragoman.errors import ModelMistake, ToolError, ToolFailed
from dragoman.media import COMMON_IMAGES, MAX_BYTES, decode_text, ending_of, is_text_type, recognise
from dragoman.tools.calls import BoundCall, Wait, run_async, run_sync
from dragoman.tools.json_values import json_text, plain, shown, whole
from dragoman.tools.objects import first_of
from dragoman.types import File, Image, Text, Tool, ToolCall, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# What a tool may return besides a plain value: `Ok`, `Error`, `Retry`, `Halt` and `Finished`.
#
# A tool can return or raise `Error`, `Retry` and `Halt`.


class Ok(Struct, frozen=True):
    """A value for the model, and `data` for the caller; without `data`, the caller gets the value."""

    value: Any = None
    data: Any = None


class Error(ToolFailed):
    """The tool failed. The model gets the message and continues; with `retryable=False`, the run ends as failed."""

    def __init__(self, reason: object = "", *, retryable: bool = True, data: Any = None) -> None:
        super().__init__(str(reason))
        self.reason = str(reason)
        self.retryable = retryable
        self.data = data


class Retry(ModelMistake):
    """Ask the model to call the tool again: the reason says what to change. A validator rejects an answer with it.

    `Limits.repairs` limits how often in a row a tool may ask for that. A call that cannot succeed is an `Error`.
    """

    def __init__(self, reason: object = "") -> None:
        super().__init__(str(reason))
        self.reason = str(reason)

    def to_model(self) -> str:
        return f"{self.reason or 'The call did not work.'}\nPlease call the tool again, with that corrected."


class Halt(Exception):
    """Stop the run: the model gets no further request. For a fault that no further attempt can correct."""

    def __init__(self, reason: object = "") -> None:
        super().__init__(str(reason))
        self.reason = str(reason)


class Finished(Halt):
    """The task is done: the run ends with this answer, as if the model had written it."""

    def __init__(self, answer: str) -> None:
        super().__init__(answer)
        self.answer = answer


# --------------------------------------------------------------------------------------------------------------------
# Images and files in the results of a tool, recognised by their interface and content, not by their library.

Part = Text | Image | File


def media_part(value: Any) -> Part | None:
    """Convert an image or bytes to a part; None for anything else."""
    if isinstance(value, Text | Image | File):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return part_of_bytes(bytes(value))
    # PIL images and others have a method that renders them for a notebook, which is sufficient here.
    for method, media_type in (("_repr_png_", "image/png"), ("_repr_jpeg_", "image/jpeg")):
        draw = getattr(type(value), method, None)
        if callable(draw):
            drawn = _drawn(draw, value)
            if drawn is not None:
                return Image(data=b64encode(drawn).decode(), media_type=media_type)
    return None


def _drawn(draw: Any, value: Any) -> bytes | None:
    try:
        drawn = draw(value)
    except Exception:  # Then it is not an image.
        return None
    return drawn if isinstance(drawn, bytes) and drawn else None


def part_of_bytes(content: bytes) -> Part:
    """Convert bytes to an image (by the first bytes), else to text if possible, else to a file."""
    data = b64encode(content).decode()
    kind = recognise(content)
    if kind in COMMON_IMAGES:
        return Image(data=data, media_type=kind)
    if is_text_type(kind):
        return Text(decode_text(content) or "")
    return File(f"output{ending_of(kind)}", data, media_type=kind)


# ---- results of MCP servers ----------------------------------------------------------------------------------------


class McpResult(Struct, frozen=True):
    """A `CallToolResult`, from a dict or from an object of an SDK."""

    parts: list[Part]
    is_error: bool
    data: Any


def mcp_result(value: Any) -> McpResult | None:
    """Convert the value to a result of an MCP server; None if it is not one."""
    content, is_error = first_of(value, "content"), first_of(value, "isError", "is_error")
    data = first_of(value, "structuredContent", "structured_content")
    if not isinstance(content, list) or (not isinstance(is_error, bool) and data is None):
        return None
    return McpResult([_mcp_part(each) for each in content], is_error is True, data)


def _mcp_part(block: Any) -> Part:
    kind, data, media_type = first_of(block, "type"), first_of(block, "data"), first_of(block, "mimeType", "mime_type")
    text = first_of(block, "text")
    if kind == "text" and isinstance(text, str):
        return Text(whole(text))
    if kind == "image" and isinstance(data, str):
        return Image(data=data, media_type=media_type)
    if kind == "audio" and isinstance(data, str):
        return File("audio", data, media_type=media_type)
    if kind == "resource_link":
        return Text(str(first_of(block, "uri") or ""))
    resource = first_of(block, "resource")
    text, blob = first_of(resource, "text"), first_of(resource, "blob")
    if isinstance(text, str):
        return Text(whole(text))
    if isinstance(blob, str):
        return File(
            str(first_of(resource, "uri") or "resource"), blob, media_type=first_of(resource, "mimeType", "mime_type")
        )
    return Text(json_text(block))


# --------------------------------------------------------------------------------------------------------------------
# Truncation of results that are too long for a model: a note replaces the middle.

MAX_OUTPUT = 50_000
"""The default limit of a result for the model, in characters."""
MAX_IMAGE = MAX_BYTES // 3 * 4
"""The limit of base64 data in characters."""

_SMALLEST_WITH_NOTE = 200


def cut_text(text: str, limit: int) -> str:
    """Return at most `limit` characters: two thirds from the head and one from the tail, with a note between them.

    The note counts towards the limit, unless the limit is so small that only the note would be left.
    """
    if len(text) <= limit:
        return text
    room = limit
    if limit >= _SMALLEST_WITH_NOTE:
        room -= len(_note(len(text), len(text)))
    head = room - room // 3
    tail = room - head
    return text[:head] + _note(len(text) - room, len(text)) + text[len(text) - tail :]


def _note(missing: int, total: int) -> str:
    return f"\n[... {missing} of {total} characters left out here; ask for less to see them ...]\n"


def cut_parts(parts: list[Part], limit: int) -> list[Part]:
    """The same for several parts: the texts share the limit, in order; a note replaces a part that cannot be sent."""
    found: list[Part] = []
    left = limit
    for part in parts:
        if isinstance(part, Text):
            text = cut_text(part.text, max(left, 0)) if part.text else ""
            left -= len(part.text)
            found.append(part if text == part.text else Text(text, part.extra))
        elif part.data is not None and len(part.data) > MAX_IMAGE:
            kind = "image" if isinstance(part, Image) else f"file {part.name}"
            found.append(Text(f"[{kind} left out: {len(part.data) * 3 // 4} bytes are too large to be sent]"))
        else:
            found.append(part)
    return found


# --------------------------------------------------------------------------------------------------------------------
# Conversion of the return value of a tool to the result for the model and the data for the caller.
#
# Nothing here raises, because every call needs a result, whatever its tool did.

Content = str | list[Part]
_LONGEST_ERROR = 4000
_SHOWN_ERRORS = 5


class Answer(Struct, frozen=True):
    """The result of a call, and whether the run may continue after it."""

    result: ToolResult
    ends: Literal["finished", "halted", "failed"] | None = None
    """`finished`: the tool gave the final answer. `halted`: it returned Halt. `failed`: its error is not retryable.

    None: the run continues.
    """
    reason: str = ""
    problem: BaseException | None = None
    """The exception, for logs; the model gets its message only."""


def to_result(
    value: Any, call: ToolCall, tool: Tool | None = None, *, max_output: int | None = None, traceback: bool = False
) -> ToolResult:
    """Convert the return value or exception of a tool to a result; `to_answer` adds the effect on the run."""
    return to_answer(value, call, tool, max_output=max_output, traceback=traceback).result


def to_answer(
    value: Any, call: ToolCall, tool: Tool | None = None, *, max_output: int | None = None, traceback: bool = False
) -> Answer:
    """Convert the return value or exception of a tool to the answer to a call.

    `max_output` applies to tools without a limit of their own. `traceback` adds the traceback for the model.
    """
    limit = (tool.max_output if tool is not None else None) or max_output or MAX_OUTPUT
    try:
        answer = _answer(value, call, traceback)
    except Exception as problem:  # Attributes of the value are code of the tool, and every call needs a result.
        answer = Answer(ToolResult(call.id, call.name, shown(value), data=value), problem=problem)
    content = answer.result.content
    cut = cut_text(content, limit) if isinstance(content, str) else cut_parts(content, limit)
    return answer if cut == content else _with_result(answer, content=cut)


def replace_result(
    value: Any, call: ToolCall, tool: Tool | None = None, *, max_output: int | None = None
) -> ToolResult:
    """Return the result that somebody else gives for a call: as that of a tool, and without control characters."""
    result = to_result(value, call, tool, max_output=max_output)
    content = result.content
    clean: Content = (
        strip_controls(whole(content))
        if isinstance(content, str)
        else [_without_controls(part) if isinstance(part, Text) else part for part in content]
    )
    return result if clean == content else msgspec.structs.replace(result, content=clean)


def _without_controls(part: Text) -> Text:
    return msgspec.structs.replace(part, text=strip_controls(whole(part.text)))


def answer_sync(
    bound: BoundCall,
    call: ToolCall,
    *,
    wait: Wait | None = None,
    max_output: int | None = None,
    traceback: bool = False,
) -> Answer:
    """Run a call, and return an answer in any case; only an interrupt of the whole program is raised."""
    value: Any
    try:
        value = run_sync(bound, wait)
    except (Exception, SystemExit) as problem:
        value = problem
    return to_answer(value, call, bound.tool, max_output=max_output, traceback=traceback)


async def answer_async(
    bound: BoundCall, call: ToolCall, *, max_output: int | None = None, traceback: bool = False
) -> Answer:
    """The same in async code; a cancellation is raised, because its origin decides the answer."""
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
        # The id of the call replaces any id that the tool set.
        return Answer(msgspec.structs.replace(value, call_id=call.id, name=call.name))
    if inspect.iscoroutine(value):
        value.close()
        return _error(Error("the tool returned a coroutine that was not awaited"), call, traceback)
    served = mcp_result(value)
    if served is not None:
        content = _as_text(served.parts)
        return Answer(ToolResult(call.id, call.name, content, is_error=served.is_error, data=served.data))
    content, data = _content_of(value)
    return Answer(ToolResult(call.id, call.name, content, data=data))


def _as_text(parts: list[Part]) -> Content:
    """Convert parts that are only text to a text, which every wire accepts."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _content_of(value: Any) -> tuple[Content, Any]:
    """Return the content for the model, and the data for the caller."""
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
    """Whether the second item of a pair is data for the caller; `("Paris", 3)` is two values for the model."""
    return not isinstance(value, str | bytes | int | float | None)


def _parts_of(value: Any) -> list[Part] | None:
    """Return a list of parts, or of texts and images together; None for any other list."""
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
    return isinstance(value, Text | Image | File) or isinstance(media_part(value), Image | File)


# ---- errors --------------------------------------------------------------------------------------------------------


def _error(problem: BaseException, call: ToolCall, traceback: bool) -> Answer:
    words = _words_of(problem)
    if traceback:
        from traceback import format_exception

        words = f"{words}\n\n{whole(''.join(format_exception(problem)))}"
    fatal = isinstance(problem, Error) and not problem.retryable
    result = ToolResult(call.id, call.name, words, is_error=True, data=getattr(problem, "data", None))
    return Answer(result, "failed" if fatal else None, words if fatal else "", problem)


def _words_of(problem: BaseException) -> str:
    """Return the message about an exception for the model: its type and its text."""
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
    except Exception:  # The message of a user-defined class may raise as well.
        return ""
    return text if len(text) <= _LONGEST_ERROR else text[: _LONGEST_ERROR - 3] + "..."
