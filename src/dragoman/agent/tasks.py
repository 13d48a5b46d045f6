"""What a run is asked to do, in whatever form it is given, and the conversation it begins with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.errors import ConfigError
from dragoman.extraction.responses import read_messages
from dragoman.types import File, Image, Message, Text

_HINT = "give text, a Message, a list of messages or dicts, or a list of texts and images"


def read_task(task: Any) -> list[Message]:
    """The messages of a task: text, a message, messages or dicts as the chat wires write them, or parts."""
    if isinstance(task, str):
        return [Message("user", [Text(task)])]
    if isinstance(task, Message):
        return [task]
    if isinstance(task, Mapping):
        return _read_list([task])
    if isinstance(task, Iterable):
        return _read_list(list(task))
    raise ConfigError(f"no task: {task!r}"[:200], hint=_HINT)


def _read_list(given: list[Any]) -> list[Message]:
    if all(isinstance(each, Message | Mapping) for each in given):
        return read_messages(given)
    parts = [Text(each) if isinstance(each, str) else each for each in given]
    if not all(isinstance(part, Text | Image | File) for part in parts):
        raise ConfigError("a task of things that are neither messages nor texts nor images", hint=_HINT)
    return [Message("user", parts)]


def begin_conversation(system: str | None, before: Iterable[Message], task: Iterable[Message]) -> list[Message]:
    """The system prompt of the agent, what was said before, and the task. An older system prompt gives way."""
    history = [*before, *task]
    if system is None:
        return history
    if history and history[0].role == "system":
        history = history[1:]
    return [Message("system", [Text(system)]), *history]
