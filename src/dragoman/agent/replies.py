"""What a reply means for the run, and structured answers. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from dragoman.agent.result import Category, Outcome, OutcomeKind, end
from dragoman.agent.watch import is_blank
from dragoman.args import load, repair
from dragoman.errors import InvalidArguments, InvalidTool
from dragoman.extraction import Extraction
from dragoman.providers import Fact, learn_from_error
from dragoman.tools import bind, tool_from_function, tool_from_schema
from dragoman.toolset import Toolset
from dragoman.types import TRANSIENT_FAILURES, Failure, File, Image, Reply, Tool, ToolCall
from dragoman.wire.failures import as_error

# --------------------------------------------------------------------------------------------------------------------
# What a reply means for the run: an answer, calls, nothing, or a failure. Pure questions, asked by the machine.

_OUTCOMES: dict[str, OutcomeKind] = {
    "unauthorized": "unauthorized",
    "refused": "refused",
    "context_too_long": "context_full",
}
_REJECTIONS = frozenset({400, 404, 405, 415, 422, 501})
_about_tools = re.compile(r"\btools?\b|\btool_(?:choice|calls?)\b|\bfunctions?\b|function.?call", re.IGNORECASE).search
_about_something_else = re.compile(r"tool_call_id|tool_use_id|tool messages?|tool_result", re.IGNORECASE).search


def judge_failure(failure: Failure) -> Outcome:
    """How a run ends that could not get a reply."""
    words = failure.message or failure.code or failure.kind.replace("_", " ")
    reason = f"{words} (HTTP {failure.status})" if failure.status else words
    if failure.kind in _OUTCOMES:
        return end(_OUTCOMES[failure.kind], reason)
    category: Category = "retryable" if failure.kind in TRANSIENT_FAILURES else "fatal"
    return end("provider_failed", reason, category=category, hint=_hint_for(failure))


def _hint_for(failure: Failure) -> str:
    if failure.status == 404 and "model" in f"{failure.code} {failure.message}".lower():
        return "check the name of the model and the address of the endpoint"
    return as_error(failure).next_step


def learn_from(failure: Failure) -> Fact | None:
    """What a failure teaches of the endpoint: that it takes no tools, or wants another wire."""
    fact = learn_from_error(failure.message, failure.status)
    if fact is None and failure.body is not None:
        fact = learn_from_error(failure.body, failure.status)
    return fact


def rejects_tools(failure: Failure) -> bool:
    """Whether a refused request may have been refused for its tools, though the words are not known."""
    told = failure.message or str(failure.body or "")[:2000]
    is_rejection = failure.status in _REJECTIONS or failure.kind == "bad_request"
    return is_rejection and _about_tools(told) is not None and _about_something_else(told) is None


def only_refused(found: Extraction) -> bool:
    """Whether a reply consists of calls that do not count and of nothing else, so that its writer expects results."""
    if not found.refused or not found.notice:
        return False
    rest = found.text
    for entry in found.refused:
        rest = rest.replace(entry.raw, "", 1)
    return not rest.strip()


def is_empty(reply: Reply, found: Extraction) -> bool:
    """Whether nothing came of a reply that anybody could see."""
    return is_blank(found.text) and not any(isinstance(part, Image | File) for part in reply.message.parts)


# --------------------------------------------------------------------------------------------------------------------
# Structured answers: a form for the answer, given by the model through a tool of its own.

NAME = "final_answer"
_DESCRIPTION = "Give the final answer. Call this when you are done, and only once."


def answer_tool(form: Any, tools: Toolset) -> Tool:
    """The tool through which an answer of this form is given. `form` is a JSON Schema, or a type as a tool may take."""
    name, number = NAME, 1
    while tools.find(name) is not None:
        # Names are found whatever their case and their dashes, so that only another letter makes another name.
        number += 1
        name = f"{NAME}_{number}"

    def final_answer(answer: Any) -> Any:
        return answer

    if isinstance(form, dict):
        schema = {"type": "object", "properties": {"answer": form}, "required": ["answer"]}
        definitions = form.get("$defs")
        if isinstance(definitions, dict):
            # Pointers such as #/$defs/place are written from the top, which is one level higher now.
            schema["$defs"] = definitions
        return tool_from_schema(name, schema, final_answer, description=_DESCRIPTION)
    if not (isinstance(form, type) or hasattr(form, "__origin__") or hasattr(form, "__args__")):
        raise InvalidTool(f"no form of an answer: {form!r}"[:200], hint="give a JSON Schema or a type")

    final_answer.__annotations__ = {"answer": form}
    return tool_from_function(final_answer, {"name": name, "description": _DESCRIPTION})


def unwrap_answer(call: ToolCall, tool: Tool) -> tuple[Any, str]:
    """The answer in a call, in the type that was asked for, and what is wrong with it, if anything."""
    try:
        return bind(tool, call.arguments)(), ""
    except InvalidArguments as mistake:
        return None, "; ".join(map(str, mistake.faults))
    except Exception as problem:  # A class of the developer's may refuse its members in any way it likes.
        return None, f"{type(problem).__name__}: {problem}"


def read_answer(text: str, tool: Tool, *, complete: bool = True) -> tuple[Any, str]:
    """The answer in a text that is nothing but its JSON, with or without the wrapping of the tool.

    Where the end of the text was not seen, nothing that is missing there is made up.
    """
    read = repair(text, complete=complete)
    faults = read.error or "there is no answer in it"
    tried: list[Any] = [{"answer": read.value}] if read.error is None else []
    if isinstance(read.value, dict) and "answer" in read.value:
        tried.insert(0, read.value)
    for arguments in tried:
        loaded = load(arguments, tool)
        if not loaded.errors and loaded.value is not None:
            return unwrap_answer(ToolCall("answer", tool.name, loaded.value), tool)
        faults = "; ".join(map(str, loaded.errors)) or faults
    # Words are an answer where words were asked for.
    spoken = load({"answer": text}, tool)
    if complete and not spoken.errors and not spoken.changes and spoken.value is not None:
        return unwrap_answer(ToolCall("answer", tool.name, spoken.value), tool)
    return None, faults


def write_answer(call: ToolCall) -> str:
    """The answer in a call as text: the JSON of it, or the text that it is."""
    answer = call.arguments.get("answer")
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
