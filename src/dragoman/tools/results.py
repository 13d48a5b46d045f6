"""Results of tools: outcomes, media, truncation."""

from __future__ import annotations

import inspect
import json
from base64 import b64encode
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.errors import ModelMistake, ToolError, ToolFailed
from dragoman.tools.calls import BoundCall, Wait, run_async, run_sync
from dragoman.tools.introspection import first_of
from dragoman.tools.json_values import json_text, plain, shown, whole
from dragoman.types import File, Image, Text, Tool, ToolCall, ToolResult

# --------------------------------------------------------------------------------------------------------------------
# What a tool may answer, beyond a plain value: `Ok`, `Error` and `Halt`.
#
# `Error` and `Halt` can be returned or raised, whichever is shorter where they are needed.


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


# --------------------------------------------------------------------------------------------------------------------
# Images and files among a tool's answers, known by what they are and not by which library made them.

Part = Text | Image | File
_IMAGES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


def media_part(value: Any) -> Part | None:
    """The part that an image or some bytes become; None for anything else."""
    if isinstance(value, Text | Image | File):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return part_of_bytes(bytes(value))
    # PIL's images and others can draw themselves for a notebook, which is all that is needed here.
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
    except Exception:  # Then it is no image after all.
        return None
    return drawn if isinstance(drawn, bytes) and drawn else None


def part_of_bytes(content: bytes) -> Part:
    """An image by its first bytes, else text if it is some, else a file."""
    is_webp = content[:4] == b"RIFF" and content[8:12] == b"WEBP"
    known = next((media_type for start, media_type in _IMAGES.items() if content.startswith(start)), None)
    media_type = "image/webp" if is_webp else known
    if media_type is not None:
        return Image(data=b64encode(content).decode(), media_type=media_type)
    if content.startswith(b"%PDF-"):
        return File("output.pdf", b64encode(content).decode(), media_type="application/pdf")
    try:
        return Text(content.decode())
    except UnicodeDecodeError:
        return File("output.bin", b64encode(content).decode(), media_type="application/octet-stream")


# ---- results of MCP servers ----------------------------------------------------------------------------------------


class McpResult(Struct, frozen=True):
    """A `CallToolResult`, whether it came as a dict or as an object of some SDK."""

    parts: list[Part]
    is_error: bool
    data: Any


def mcp_result(value: Any) -> McpResult | None:
    """The value as a result of an MCP server; None when it is none."""
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
# Results that are too long for a model: the beginning and the end stay, and a note says what is missing.

MAX_OUTPUT = 50_000
"""Characters of a result that a model is shown where nobody says otherwise."""
MAX_IMAGE = 20_000_000
"""Characters of base64; larger images and files no provider takes."""

_SMALLEST_WITH_NOTE = 200


def cut_text(text: str, limit: int) -> str:
    """At most `limit` characters: two thirds from the head and one from the tail, with a note between them.

    The note counts, unless the limit is so small that nothing but the note would be left.
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
    """The same over several parts: the texts share the limit, in order; what cannot be sent is named."""
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
# Whatever a tool gave back, made into the result that the model is shown and the caller gets.
#
# Nothing here raises: every call is owed a result, whatever its tool did.

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
        from traceback import format_exception

        words = f"{words}\n\n{whole(''.join(format_exception(problem)))}"
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
