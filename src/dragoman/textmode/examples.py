"""Examples instead of explanations: what a very small model learns a format from.

A model of a hundred million parameters does not follow a description of a format, but it continues a pattern. So it
is shown one made-up request for each of the first tools with the call that answers it, once with a result and the
answer made of it, and two exchanges in which nothing is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman import formats
from dragoman.errors import CannotExpress
from dragoman.formats import Format
from dragoman.formats.prompt import sample_calls
from dragoman.textmode.envelopes import seal_results
from dragoman.types import Message, Text, Tool, ToolResult

MOST = 6
"""Tools that are shown; each costs about forty tokens, and the last one shown is remembered best."""
_GREETING = ("Hello!", "Hello! How can I help?")
_THANKS = ("Thank you!", "You are welcome!")
# Always the same word, so that prompts have the same beginning: what stands in this envelope is known to be harmless.
_BOUNDARY = "example"
_RESULT = "42"
_ANSWER = "The result is 42."


def write_examples(tools: Iterable[Tool], format: str | Format, *, replies: bool = True) -> list[Message]:
    """A short conversation that shows the format at work. Without `replies`, only calls are shown.

    Such a model goes on as the last exchange did. So the last one is a call, and those that are none stand before it.
    """
    offered = list(tools)[:MOST]
    shown: list[list[Message]] = []
    for tool, (name, arguments) in zip(offered, sample_calls(offered), strict=False):
        try:
            call = formats.render([(name, arguments)], format)
        except CannotExpress:
            continue
        exchange = [_say("user", _request(tool, arguments)), _say("assistant", call)]
        if not shown and replies:
            result = seal_results([ToolResult("example", name, _RESULT)], boundary=_BOUNDARY)
            exchange += [_say("user", result), _say("assistant", _ANSWER)]
        shown.append(exchange)
    if len(shown) == 1 and replies:
        shown.append(shown[0][:2])
    if shown and replies:
        middle = len(shown) // 2
        shown = [_chat(*_GREETING), *shown[:middle], _chat(*_THANKS), *shown[middle:]]
    return [message for exchange in shown for message in exchange]


def _chat(said: str, answered: str) -> list[Message]:
    return [_say("user", said), _say("assistant", answered)]


def _request(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What somebody may have said who wanted this call: the description, and the values."""
    described = tool.description.strip().split("\n", 1)[0] or tool.name.replace("_", " ")
    values = " ".join(str(value) for value in arguments.values() if isinstance(value, str | int | float))
    return f"{described} {values}".strip()


def _say(role: Any, text: str) -> Message:
    return Message(role, [Text(text)])
