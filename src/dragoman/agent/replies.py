"""The meaning of a reply for the run, and structured answers. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from dragoman.agent.result import Category, Outcome, OutcomeKind, end
from dragoman.agent.watch import is_blank
from dragoman.args import load, repair
from dragoman.errors import InvalidArguments, InvalidTool
from dragoman.extraction import Extraction
from dragoman.tools import bind, tool_from_function, tool_from_schema
from dragoman.toolset import Toolset
from dragoman.types import TRANSIENT_FAILURES, Failure, File, Image, Reply, Tool, ToolCall
from dragoman.wire.failures import as_error

# --------------------------------------------------------------------------------------------------------------------
# The meaning of a reply: an answer, calls, nothing, or a failure. Pure functions for the machine.

_OUTCOMES: dict[str, OutcomeKind] = {
    "unauthorized": "unauthorized",
    "refused": "refused",
    "context_too_long": "context_full",
}
_REJECTIONS = frozenset({400, 404, 405, 415, 422, 501})
_about_tools = re.compile(r"\btools?\b|\btool_(?:choice|calls?)\b|\bfunctions?\b|function.?call", re.IGNORECASE).search
_about_something_else = re.compile(r"tool_call_id|tool_use_id|tool messages?|tool_result", re.IGNORECASE).search


def judge_failure(failure: Failure) -> Outcome:
    """Return the outcome of a run that got no reply."""
    words = failure.message or failure.code or failure.kind.replace("_", " ")
    reason = f"{words} (HTTP {failure.status})" if failure.status else words
    if failure.kind in _OUTCOMES:
        return end(_OUTCOMES[failure.kind], reason)
    category: Category = "retryable" if failure.kind in TRANSIENT_FAILURES else "fatal"
    return end("provider_failed", reason, category=category, hint=as_error(failure).next_step)


def rejects_tools(failure: Failure) -> bool:
    """Whether the tools may be the reason for a rejected request whose message is unknown."""
    told = failure.message or str(failure.body or "")[:2000]
    is_rejection = failure.status in _REJECTIONS or failure.kind == "bad_request"
    return is_rejection and _about_tools(told) is not None and _about_something_else(told) is None


def only_refused(found: Extraction) -> bool:
    """Whether a reply consists only of calls that do not count, so that the model expects results."""
    if not found.refused or not found.notice:
        return False
    rest = found.text
    for entry in found.refused:
        rest = rest.replace(entry.raw, "", 1)
    return not rest.strip()


def is_empty(reply: Reply, found: Extraction) -> bool:
    """Whether a reply contains nothing that a person could see."""
    return is_blank(found.text) and not any(isinstance(part, Image | File) for part in reply.message.parts)


# --------------------------------------------------------------------------------------------------------------------
# Structured answers: the model returns its answer through a special tool with the schema of the answer.

NAME = "final_answer"
_DESCRIPTION = "Give the final answer. Call this when you are done, and only once."


def answer_tool(form: Any, tools: Toolset) -> Tool:
    """Return the tool that receives an answer of this form: a JSON Schema, or the type of a tool parameter."""
    name, number = NAME, 1
    while tools.find(name) is not None:
        # Name matching ignores case, dashes and underscores, so only another letter makes another name.
        number += 1
        name = f"{NAME}_{number}"

    def final_answer(answer: Any) -> Any:
        return answer

    if isinstance(form, dict):
        schema = {"type": "object", "properties": {"answer": form}, "required": ["answer"]}
        definitions = form.get("$defs")
        if isinstance(definitions, dict):
            # Pointers such as #/$defs/place start at the root, which is one level higher now.
            schema["$defs"] = definitions
        return tool_from_schema(name, schema, final_answer, description=_DESCRIPTION)
    if not (isinstance(form, type) or hasattr(form, "__origin__") or hasattr(form, "__args__")):
        raise InvalidTool(f"not a form of an answer: {form!r}"[:200], hint="give a JSON Schema or a type")

    final_answer.__annotations__ = {"answer": form}
    return tool_from_function(final_answer, {"name": name, "description": _DESCRIPTION})


def unwrap_answer(call: ToolCall, tool: Tool) -> tuple[Any, str]:
    """Return the answer in a call, in the requested type, and its faults if it has any."""
    try:
        return bind(tool, call.arguments)(), ""
    except InvalidArguments as mistake:
        return None, "; ".join(map(str, mistake.faults))
    except Exception as problem:  # A class of the developer may raise anything for its members.
        return None, f"{type(problem).__name__}: {problem}"


def read_answer(text: str, tool: Tool, *, complete: bool = True) -> tuple[Any, str]:
    """Return the answer in a text that contains only its JSON, with or without the wrapper of the tool.

    If the text is truncated, nothing is added to complete it.
    """
    read = repair(text, complete=complete)
    faults = read.error or "it contains no answer"
    tried: list[Any] = [{"answer": read.value}] if read.error is None else []
    if isinstance(read.value, dict) and "answer" in read.value:
        tried.insert(0, read.value)
    for arguments in tried:
        loaded = load(arguments, tool)
        if not loaded.errors and loaded.value is not None:
            return unwrap_answer(ToolCall("answer", tool.name, loaded.value), tool)
        faults = "; ".join(map(str, loaded.errors)) or faults
    # A text is an answer if a text was requested.
    spoken = load({"answer": text}, tool)
    if complete and not spoken.errors and not spoken.changes and spoken.value is not None:
        return unwrap_answer(ToolCall("answer", tool.name, spoken.value), tool)
    return None, faults


def write_answer(call: ToolCall) -> str:
    """Return the answer in a call as text: its JSON, or the text itself."""
    answer = call.arguments.get("answer")
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
