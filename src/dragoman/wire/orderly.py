"""The quick way for conversations that are in order already, as most are: nothing has to be moved, only checked.

What it cannot pass on as it is (a call without its result, a stranger's data, text behind a call) it leaves to the
arrangement of the history, which then does the whole work. Both give the same for every conversation that this one
takes; it only gets there without taking the conversation apart.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from dragoman.types import File, Image, Message, Part, Text, Thinking, ToolCall, ToolResult
from dragoman.wire.aliases import Identifier, Namer
from dragoman.wire.report import Loss
from dragoman.wire.rules import HistoryRules

_MEDIA = frozenset({Image, File})


class Orderly:
    """One walk through a conversation. `take` says whether it is in order; then the rest of it is filled."""

    __slots__ = (
        "_begun",
        "_identifier",
        "_namer",
        "_place",
        "_results",
        "_rules",
        "_system_first",
        "_waiting",
        "losses",
        "messages",
        "system",
    )

    def __init__(self, rules: HistoryRules, namer: Namer, identifier: Identifier, *, system_first: bool) -> None:
        self.system: list[Text] = []
        self.messages: list[Message] = []
        self.losses: list[Loss] = []
        self._rules = rules
        self._namer = namer
        self._identifier = identifier
        self._system_first = system_first
        self._begun = False
        self._place = 0  # of the last message of the assistant
        self._waiting: list[tuple[ToolCall, str]] = []  # calls without a result, with their ids on the wire
        self._results: list[Part] = []  # those that have come for them

    def take(self, messages: Iterable[Message]) -> bool:
        wire = self._rules.wire
        for place, message in enumerate(messages):
            role = message.role
            if role == "tool":
                if not self._take_results(message):
                    return False
                continue
            if self._waiting:
                return False
            if role == "system":
                if not self._take_system(message):
                    return False
                continue
            if message.extra and wire not in message.extra:
                return False
            self._begun = True
            if role == "assistant":
                self._place = place
                if not self._take_assistant(message):
                    return False
            elif self._is_shown(message.parts):
                self.messages.append(message)
            else:
                return False
        return not self._waiting

    def _is_own(self, extra: dict[str, object]) -> bool:
        """Whether nothing is in it that only another wire understands."""
        return not extra or (len(extra) == 1 and self._rules.wire in extra)

    def _is_said(self, part: Text) -> bool:
        """Whether a text may stay: nothing in it is foreign, and it is not empty where that is refused."""
        if part.extra:
            return self._is_own(part.extra)
        return part.text != "" or self._rules.keeps_empty_text

    def _is_shown(self, parts: list[Part]) -> bool:
        for part in parts:
            if type(part) is Text:
                if not self._is_said(part):
                    return False
            elif type(part) not in _MEDIA or not self._is_own(part.extra):
                return False
        return bool(parts)

    def _take_system(self, message: Message) -> bool:
        rules = self._rules
        texts = [part for part in message.parts if type(part) is Text]
        if len(texts) < len(message.parts) or (self._begun and (rules.system != "anywhere" or self._system_first)):
            return False
        if rules.system == "front":
            self.system += texts
            return True
        if (message.extra and rules.wire not in message.extra) or not self._is_shown(message.parts):
            return False
        self.messages.append(message)
        return True

    def _take_assistant(self, message: Message) -> bool:
        rules = self._rules
        calls: list[ToolCall] = []
        for part in message.parts:
            kind = type(part)
            if kind is ToolCall:
                if not self._is_own(part.extra):
                    return False
                calls.append(part)  # type: ignore[arg-type]
            elif calls and not rules.text_after_calls:
                return False
            elif kind is Text:
                if not self._is_said(part):  # type: ignore[arg-type]
                    return False
            elif kind is Thinking:
                if not rules.thinking or rules.wire not in part.extra:
                    return False
            elif kind not in _MEDIA or not self._is_own(part.extra):
                return False
        if not message.parts:
            return False
        self.messages.append(self._rename(message, calls) if calls else message)
        return True

    def _rename(self, message: Message, calls: list[ToolCall]) -> Message:
        """The message with the names and ids of the wire; the same message where they are those already."""
        renamed: list[ToolCall] = []
        for call in calls:
            identity = self._identifier.identify(call.id)
            name = self._namer.name(call.name)
            fits = identity == call.id and name == call.name
            renamed.append(call if fits else replace(call, id=identity, name=name))
            self._waiting.append((call, identity))
        if renamed == calls:
            return message
        ready = iter(renamed)
        return replace(message, parts=[next(ready) if type(part) is ToolCall else part for part in message.parts])

    def _take_results(self, message: Message) -> bool:
        results = self._results
        for part in message.parts:
            if type(part) is not ToolResult or len(results) == len(self._waiting):
                return False
            call, identity = self._waiting[len(results)]
            if not call.id or part.call_id != call.id or not self._is_own(part.extra) or not _is_text(part):
                return False
            results.append(self._name_result(part, identity, part.name or call.name))
        if not message.parts:
            return False
        if len(results) == len(self._waiting):
            # Results that came in messages of their own stand in one from here on.
            same = not message.extra and results == message.parts
            self.messages.append(message if same else Message("tool", results))
            self._waiting = []
            self._results = []
        return True

    def _name_result(self, result: ToolResult, identity: str, ours: str) -> ToolResult:
        if result.is_error and not self._rules.error_flags:
            words = f"the error flag of the result of {ours or result.call_id} became words"
            self.losses.append(Loss("approximated", f"message {self._place}", words))
        name = self._namer.name(ours) if ours else ""
        if identity == result.call_id and name == result.name:
            return result
        return replace(result, call_id=identity, name=name)


def _is_text(result: ToolResult) -> bool:
    content = result.content
    return type(content) is str or (type(content) is list and all(type(part) is Text for part in content))
