"""A conversation made fit for one wire: paired, ordered, named and placed as the wire demands, and nothing lost unsaid.

Every wire has rules for what may follow what. They stand in a `HistoryRules` row; `arrange` brings any conversation
into that shape, whoever held it so far. Encoders then only have to write down what they are given.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.types import File, Image, InvalidCall, Message, Part, Text, Thinking, ToolCall, ToolResult
from dragoman.wire.aliases import Identifier, Namer
from dragoman.wire.orderly import Orderly
from dragoman.wire.pairing import Turn, pair
from dragoman.wire.quirks import DEFAULTS, Quirks
from dragoman.wire.report import Loss
from dragoman.wire.rules import HistoryRules

__all__ = ["History", "HistoryRules", "arrange"]


class History(Struct, frozen=True):
    """The conversation as it can be written: roles in a legal order, names and ids those of the wire.

    A `tool` message holds all results of the assistant message before it, in the order of its calls.
    """

    system: list[Text]
    messages: list[Message]
    losses: list[Loss]
    identifier: Identifier


def arrange(messages: Iterable[Message], rules: HistoryRules, namer: Namer, quirks: Quirks = DEFAULTS) -> History:
    """Bring a conversation into the shape that these rules and quirks describe."""
    given = list(messages)
    for place, message in enumerate(given):
        if type(message) is not Message:
            raise ConfigError(
                f"message {place} of the request is a {type(message).__name__}, not a Message",
                hint='wire.get("openai_chat").decode_request({"messages": [...]}) reads messages that are dicts',
            )
    identifier = Identifier(rules.ids, quirks.id_pattern)
    quick = Orderly(rules, namer, identifier, system_first=quirks.system_first)
    if quick.take(given):
        system, arranged, losses = quick.system, quick.messages, quick.losses
    else:
        losses = []
        identifier = Identifier(rules.ids, quirks.id_pattern)
        system, turns = _split_system(given, rules, quirks, losses)
        arranged = _Arranger(rules, quirks, namer, identifier, losses).arrange(pair(turns, losses))
    if rules.merges or quirks.alternates:
        arranged = _merge(arranged)
    if rules.bridges_results or quirks.bridges_results:
        arranged = _bridge(arranged, losses)
    arranged = _begin_with_user(arranged, rules, quirks, losses)
    return History(system, arranged, losses, identifier)


# ---- system ------------------------------------------------------------------------------------------------------


def _split_system(
    messages: list[Message], rules: HistoryRules, quirks: Quirks, losses: list[Loss]
) -> tuple[list[Text], list[Turn]]:
    system: list[Text] = []
    turns: list[Turn] = []
    apart = rules.system == "front"
    begun = False
    for place, message in enumerate(messages):
        if message.role != "system":
            begun = True
            turns.append(Turn(place, message.role, list(message.parts), message.extra))
            continue
        texts = [part for part in message.parts if isinstance(part, Text)]
        if len(texts) < len(message.parts):
            losses.append(Loss("dropped", f"message {place}", "a system message can hold nothing but text"))
        if begun and (rules.system != "anywhere" or quirks.system_first):
            losses.append(Loss("moved", f"message {place}", "a later system message became labelled user text"))
            words: list[Part] = [Text(f"<system>\n{part.text}\n</system>") for part in texts if part.text]
            turns.append(Turn(place, "user", words, {}))
        elif apart:
            system += texts
        else:
            turns.append(Turn(place, "system", list(texts), message.extra))
    return system, turns


# ---- messages ------------------------------------------------------------------------------------------------------


class _Arranger:
    """Writes turns down as messages of one wire."""

    def __init__(
        self, rules: HistoryRules, quirks: Quirks, namer: Namer, identifier: Identifier, losses: list[Loss]
    ) -> None:
        self._rules = rules
        self._quirks = quirks
        self._namer = namer
        self._identifier = identifier
        self._losses = losses
        self._given: dict[int, str] = {}  # the number of a call in this request -> its id on the wire

    def arrange(self, turns: list[Turn]) -> list[Message]:
        messages: list[Message] = []
        for turn in turns:
            if turn.role == "assistant":
                self._add(messages, turn, self._arrange_assistant(turn))
            elif turn.role == "tool":
                results, images = self._arrange_results(turn)
                self._add(messages, turn, results)
                if images:
                    messages.append(Message("user", images))
            else:
                for part in turn.parts:
                    self._note_foreign(part, turn.place)
                self._add(messages, turn, self._without_empty(turn.parts))
        return messages

    def _add(self, messages: list[Message], turn: Turn, parts: list[Part]) -> None:
        if parts or turn.role == "assistant":
            extra = turn.extra if self._rules.wire in turn.extra else {}
            if parts or extra or self._rules.keeps_empty_text:
                messages.append(Message(turn.role, parts, extra))

    def _without_empty(self, parts: Iterable[Part]) -> list[Part]:
        if self._rules.keeps_empty_text:
            return list(parts)
        return [part for part in parts if not isinstance(part, Text) or part.text or self._rules.wire in part.extra]

    def _arrange_assistant(self, turn: Turn) -> list[Part]:
        parts: list[Part] = []
        calls: list[Part] = []
        late = False
        for part in turn.parts:
            self._note_foreign(part, turn.place)
            if isinstance(part, ToolCall | InvalidCall):
                calls.append(self._rename(part, turn))
                if self._rules.text_after_calls:
                    parts.append(calls[-1])
            elif isinstance(part, Thinking):
                parts += self._keep_thinking(part, turn.place)
            else:
                late = late or bool(calls)
                parts.append(part)
        if not self._rules.text_after_calls:
            if late:
                self._losses.append(Loss("moved", f"message {turn.place}", "text behind a call was put before it"))
            parts += calls
        return self._without_empty(parts)

    def _note_foreign(self, part: Part, place: int) -> None:
        """Say which opaque data of other wires stays behind; thinking is spoken of elsewhere."""
        others = [wire for wire in part.extra if wire != self._rules.wire]
        if others and not isinstance(part, Thinking):
            names = ", ".join(sorted(others))
            self._losses.append(Loss("dropped", f"message {place}", f"data that only {names} understands was left out"))

    def _rename(self, call: ToolCall | InvalidCall, turn: Turn) -> ToolCall | InvalidCall:
        number = turn.numbers[len(turn.named)]
        turn.named.append(number)
        identity = self._identifier.identify(call.id)
        self._given[number] = identity
        name = self._namer.name(call.name)
        return call if identity == call.id and name == call.name else replace(call, id=identity, name=name)

    def _keep_thinking(self, part: Thinking, place: int) -> list[Part]:
        if self._rules.thinking and self._rules.wire in part.extra:
            return [part]
        if self._quirks.foreign_reasoning == "text" and part.text:
            self._losses.append(Loss("moved", f"message {place}", "reasoning of another wire was kept as text"))
            return [Text(f"<previous_reasoning>\n{part.text}\n</previous_reasoning>")]
        whose = "reasoning" if self._rules.wire in part.extra else "reasoning of another wire"
        self._losses.append(Loss("dropped", f"message {place}", f"{whose} was left out"))
        return []

    def _arrange_results(self, turn: Turn) -> tuple[list[Part], list[Part]]:
        results: list[Part] = []
        images: list[Part] = []
        for number, part in zip(turn.numbers, turn.parts, strict=True):
            if not isinstance(part, ToolResult):
                continue
            identity = self._given.get(number, part.call_id)
            self._note_foreign(part, turn.place)
            if part.is_error and not self._rules.error_flags:
                words = f"the error flag of the result of {part.name or part.call_id} became words"
                self._losses.append(Loss("approximated", f"message {turn.place}", words))
            result = replace(part, call_id=identity, name=self._namer.name(part.name) if part.name else "")
            if not isinstance(result.content, str):
                result = self._take_media_out(result, turn.place, images)
            results.append(result)
        return results, images

    def _take_media_out(self, result: ToolResult, place: int, images: list[Part]) -> ToolResult:
        """Images and files go behind the results where a result cannot hold them."""
        takes_images = self._rules.result_images or self._quirks.result_images
        kept: list[Text | Image | File] = []
        for part in result.content:
            if isinstance(part, str):
                kept.append(Text(part))
            elif isinstance(part, Text) or (takes_images if isinstance(part, Image) else self._rules.result_files):
                kept.append(part)
            else:
                kind = "image" if isinstance(part, Image) else "file"
                label = f"{kind} of the result of {result.name or 'the tool'} ({result.call_id})"
                kept.append(Text(f"[{kind}: see the next user message]"))
                images += [Text(f"[{label}]"), part]
                self._losses.append(Loss("moved", f"message {place}", f"the {label} went into a user message"))
        return replace(result, content=kept)


# ---- order -----------------------------------------------------------------------------------------------------------


def _merge(messages: list[Message]) -> list[Message]:
    """Neighbours of the same role become one message; results and user words stay apart for the encoder to join."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role and message.role in ("user", "assistant"):
            last = merged[-1]
            merged[-1] = Message(last.role, [*last.parts, *message.parts], {**last.extra, **message.extra})
        else:
            merged.append(message)
    return merged


def _bridge(messages: list[Message], losses: list[Loss]) -> list[Message]:
    bridged: list[Message] = []
    for message in messages:
        if message.role == "user" and bridged and bridged[-1].role == "tool":
            bridged.append(Message("assistant", [Text("OK")]))
            losses.append(Loss("inserted", "history", "an assistant message between results and the user's words"))
        bridged.append(message)
    return bridged


def _begin_with_user(messages: list[Message], rules: HistoryRules, quirks: Quirks, losses: list[Loss]) -> list[Message]:
    spoken = [message for message in messages if message.role != "system"]
    wanted = rules.first_user and bool(spoken) and spoken[0].role != "user"
    if quirks.needs_user and not any(message.role == "user" for message in spoken):
        wanted = True
    if not wanted:
        return messages
    losses.append(Loss("inserted", "history", "a first user message, without which the wire takes no conversation"))
    place = next((index for index, message in enumerate(messages) if message.role != "system"), len(messages))
    return [*messages[:place], Message("user", [Text("Continue.")]), *messages[place:]]
