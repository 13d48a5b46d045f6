"""Preparation of a conversation for one wire: pairs of calls and results, order, names and ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.types import (
    File,
    Image,
    InvalidCall,
    JsonObject,
    Message,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from dragoman.wire.aliases import FREE_IDS, PLAIN_NAMES, Identifier, IdRule, Namer, NameRule
from dragoman.wire.failures import Loss
from dragoman.wire.media import settle, spell_out
from dragoman.wire.quirks import DEFAULTS, Quirks
from dragoman.wire.values import as_dict, find_calls, own_of

# --------------------------------------------------------------------------------------------------------------------
# The requirements of a wire for a conversation, as a row.


class HistoryRules(Struct, frozen=True):
    """The requirements of one wire for a conversation."""

    wire: str
    names: NameRule = PLAIN_NAMES
    ids: IdRule = FREE_IDS
    system: Literal["anywhere", "first", "front"] = "anywhere"
    """`first`: later ones become labelled user text. `front`: the first ones too are apart, in `History.system`."""
    result_images: bool = False
    result_files: bool = False
    text_after_calls: bool = False
    """Whether text may follow a call in one assistant message."""
    keeps_empty_text: bool = False
    first_user: bool = False
    """The conversation must begin with the user."""
    merges: bool = False
    """Neighbouring user messages, and neighbouring assistant messages, become one."""
    bridges_results: bool = False
    thinking: bool = True
    """Whether the wire can carry reasoning at all."""
    error_flags: bool = True
    """Whether a result can say that it is an error; where it cannot, the text says it."""


# --------------------------------------------------------------------------------------------------------------------
# Pairing: every call gets exactly one result, directly after it, as all wires require.

INTERRUPTED = "not executed: interrupted"


class Slot(Struct, eq=False):
    """A call, the result that was found for it, and its id on the wire."""

    number: int
    call: ToolCall | InvalidCall
    result: ToolResult | None = None
    identity: str = ""


class Turn(Struct):
    """A message during the conversion: its original place, and the calls that it contains or answers."""

    place: int
    role: Role
    parts: list[Part]
    extra: dict[str, Any] = {}
    slots: list[Slot] = []


def pair(turns: list[Turn], losses: list[Loss]) -> list[Turn]:
    """Put one turn with all results after every assistant turn with calls, in the order of the calls.

    A call without a result is answered with an error, a result without a call becomes user text; both are reported.
    """
    pairing = _Pairing(losses)
    for turn in turns:
        pairing.add(turn)
    return pairing.finish()


class _Pairing:
    def __init__(self, losses: list[Loss]) -> None:
        self._losses = losses
        self._out: list[Turn] = []
        self._waiting: dict[str, list[Slot]] = {}
        self._latest: list[Slot] = []  # the calls of the last assistant turn that had any
        self._count = 0

    def add(self, turn: Turn) -> None:
        results = [part for part in turn.parts if isinstance(part, ToolResult)]
        rest: list[Part] = [part for part in turn.parts if not isinstance(part, ToolResult)]
        for result in results:
            rest = self._answer(result, turn.place, rest)
        if turn.role == "assistant":
            self._open(turn, rest)
        elif rest or not results:
            role: Role = "user" if turn.role == "tool" else turn.role
            self._out.append(Turn(turn.place, role, rest, turn.extra))

    def _open(self, turn: Turn, parts: list[Part]) -> None:
        slots = [Slot(number, call) for number, call in enumerate(find_calls(parts), self._count)]
        self._count += len(slots)
        for slot in slots:
            self._waiting.setdefault(slot.call.id, []).append(slot)
        self._out.append(Turn(turn.place, "assistant", parts, turn.extra, slots))
        if slots:
            self._out.append(Turn(turn.place, "tool", [], slots=slots))
            self._latest = slots

    def _answer(self, result: ToolResult, place: int, rest: list[Part]) -> list[Part]:
        slot = self._find(result)
        if slot is None:
            self._losses.append(Loss("moved", f"message {place}", "a result without its call became user text"))
            text = result.content if isinstance(result.content, str) else _join(result)
            label = f"[result of {result.name or 'a tool'}, whose call is not in this conversation]"
            return [Text(f"{label}\n{text}"), *rest]
        slot.result = result
        return rest

    def _find(self, result: ToolResult) -> Slot | None:
        if not result.call_id:
            free = [slot for slot in self._latest if slot.result is None]
            return next((slot for slot in free if not result.name or slot.call.name == result.name), None)
        waiting = self._waiting.get(result.call_id)
        if not waiting:
            return None
        # The first one of the latest turn: some servers use the same ids in every turn.
        start = self._latest[0].number
        place = next((index for index, slot in enumerate(waiting) if slot.number >= start), len(waiting) - 1)
        return waiting.pop(place)

    def finish(self) -> list[Turn]:
        for turn in self._out:
            if turn.role == "tool":
                turn.parts = [self._settle(slot, turn.place) for slot in turn.slots]
        return self._out

    def _settle(self, slot: Slot, place: int) -> ToolResult:
        call, result = slot.call, slot.result
        if result is not None:
            return result if result.name else replace(result, name=call.name)
        if isinstance(call, InvalidCall):
            faults = "; ".join(map(str, call.faults))
            words = f"Not run: the call could not be read ({faults}). It was written as:\n{call.raw}"
        else:
            words = INTERRUPTED
            self._losses.append(
                Loss("inserted", f"message {place}", f"call {call.id} of {call.name} had no result: {INTERRUPTED}")
            )
        return ToolResult(call.id, call.name, words, is_error=True)


def _join(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.content if isinstance(part, Text))


# --------------------------------------------------------------------------------------------------------------------
# The fast path for conversations that are already in order, as most are: it checks and renames, but moves nothing.
#
# A conversation that needs a change of order (a call without its result, data of another wire, text after a call) goes
# to `arrange`. Both give the same result for every conversation that the fast path accepts.
#
# It is a second walk, and stays for its speed: without it, `prepare` of a conversation of 76 messages takes 0.48 ms
# instead of 0.19 ms on openai_chat, and 0.55 ms instead of 0.24 ms on anthropic (2026-11-16, Python 3.11, best of 30).
# tests/wire/test_orderly.py compares the two walks.

_MEDIA = frozenset({Image, File})


class OrderedHistory:
    """One walk through a conversation. `take` returns whether it is in order; then the other attributes are set."""

    def __init__(self, rules: HistoryRules, namer: Namer, identifier: Identifier, quirks: Quirks) -> None:
        self.system: list[Text] = []
        self.messages: list[Message] = []
        self.losses: list[Loss] = []
        self._rules = rules
        self._namer = namer
        self._identifier = identifier
        self._system_first, self._system_role = quirks.system_first, quirks.system_role
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
        """Whether it contains no data of another wire."""
        return not extra or (len(extra) == 1 and self._rules.wire in extra)

    def _is_said(self, part: Text) -> bool:
        """Whether a text may stay: it has no data of another wire, and it is not empty if the wire rejects that."""
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
        is_late = self._begun and (rules.system != "anywhere" or self._system_first)
        if len(texts) < len(message.parts) or is_late or not self._system_role:
            return False
        if message.extra and (rules.system == "front" or rules.wire not in message.extra):
            return False
        if rules.system == "front":
            self.system += texts
            return all([self._is_own(part.extra) for part in texts])
        if not self._is_shown(message.parts):
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
        """Return the message with the names and ids of the wire; the same object if nothing changes."""
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
            if not call.id or part.call_id != call.id or not self._is_own(part.extra) or not self._is_text(part):
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

    def _is_text(self, result: ToolResult) -> bool:
        content = result.content
        if type(content) is str:
            return True
        return type(content) is list and all([type(part) is Text and self._is_own(part.extra) for part in content])

    def _name_result(self, result: ToolResult, identity: str, ours: str) -> ToolResult:
        if result.is_error and not self._rules.error_flags:
            words = f"the error flag of the result of {ours or result.call_id} became words"
            self.losses.append(Loss("approximated", f"message {self._place}", words))
        name = self._namer.name(ours) if ours else ""
        if identity == result.call_id and name == result.name:
            return result
        return replace(result, call_id=identity, name=name)


_FORMS = frozenset({"role", "blocks", "bare", "field", "group", "inside"})
"""What a wire notes of the form in which something came, or calls it; it says nothing to others."""
_NO_FIELDS: frozenset[str] = frozenset()
SHARED = {("openai_chat", "anthropic"): frozenset({"cache_control"})}
"""Fields of one wire that another takes over, because they mean the same there."""


def note_foreign(extra: dict[str, Any], wire: str, place: int, losses: list[Loss]) -> None:
    """Report the fields of other wires that this one leaves out."""
    for other, fields in sorted(extra.items()):
        if other == wire:
            continue
        quiet = _FORMS | SHARED.get((other, wire), _NO_FIELDS)
        names = [_name_field(name, value) for name, value in spread(as_dict(fields)).items() if name not in quiet]
        if names or not isinstance(fields, dict):
            words = f"data that only {other} understands was left out: {', '.join(names)}".removesuffix(": ")
            losses.append(Loss("dropped", f"message {place}", words))


def _name_field(name: str, value: Any) -> str:
    """What a loss calls a field of a wire: a block by its type."""
    if name in ("block", "part", "item") and isinstance(value, dict):
        return str(value.get("type") or next(iter(value), name))
    return name


def spread(fields: JsonObject) -> JsonObject:
    """The fields of a wire, with those that stood beside the content among the others."""
    beside = as_dict(fields.get("beside"))
    return {**{name: value for name, value in fields.items() if name != "beside"}, **beside} if beside else fields


# --------------------------------------------------------------------------------------------------------------------
# The general path: it pairs, orders and renames, and reports every loss.
#
# Every wire has rules for the order of messages, in a `HistoryRules` row. `arrange` brings any conversation into that
# form, from whatever source. Encoders then only write the messages.


class History(Struct, frozen=True):
    """The conversation in the form of the wire: roles in a valid order, and the names and ids of the wire.

    A `tool` message holds all results of the assistant message before it, in the order of its calls.
    """

    system: list[Text]
    messages: list[Message]
    losses: list[Loss]
    identifier: Identifier


def arrange(messages: Iterable[Message], rules: HistoryRules, namer: Namer, quirks: Quirks = DEFAULTS) -> History:
    """Convert a conversation to the form that these rules and quirks require."""
    given = list(messages)
    for place, message in enumerate(given):
        if type(message) is not Message:
            raise ConfigError(
                f"message {place} of the request is a {type(message).__name__}, not a Message",
                hint='wire.get("openai_chat").decode_request({"messages": [...]}) reads messages that are dicts',
            )
    offered = namer.back
    identifier = Identifier(rules.ids, quirks.id_pattern)
    quick = OrderedHistory(rules, namer, identifier, quirks)
    if quick.take(given):
        system, arranged, losses = quick.system, quick.messages, quick.losses
    else:
        losses = []
        identifier = Identifier(rules.ids, quirks.id_pattern)
        system, turns = _split_system(given, rules, quirks, losses)
        arranged = _Arranger(rules, quirks, namer, identifier, losses).arrange(pair(turns, losses))
    losses += [
        Loss("renamed", f"tool {ours}", f"it is called {name} on this wire")
        for name, ours in namer.back.items()
        if name not in offered
    ]
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
        if apart and own_of(message, rules.wire).get("role") == "system":
            # A client of this wire put it there.
            turns.append(Turn(place, "system", list(texts), message.extra))
            continue
        if apart or begun:
            for extra in (message.extra, *(part.extra for part in texts)):
                note_foreign(extra, rules.wire, place, losses)
        if len(texts) < len(message.parts):
            losses.append(Loss("dropped", f"message {place}", "a system message can hold nothing but text"))
        if not quirks.system_role and not begun:
            losses.append(Loss("moved", f"message {place}", "the system message became text of the user"))
            turns.append(Turn(place, "user", [Text(part.text) for part in texts if part.text], {}))
        elif begun and (rules.system != "anywhere" or quirks.system_first or not quirks.system_role):
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
    """Converts turns to messages of one wire."""

    def __init__(
        self, rules: HistoryRules, quirks: Quirks, namer: Namer, identifier: Identifier, losses: list[Loss]
    ) -> None:
        self._rules = rules
        self._quirks = quirks
        self._namer = namer
        self._identifier = identifier
        self._losses = losses

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
        note_foreign(turn.extra, self._rules.wire, turn.place, self._losses)
        if parts or (turn.role == "assistant" and self._rules.keeps_empty_text):
            messages.append(Message(turn.role, parts, turn.extra if self._rules.wire in turn.extra else {}))
        else:
            self._losses.append(Loss("dropped", f"message {turn.place}", "a message without content was left out"))

    def _without_empty(self, parts: Iterable[Part]) -> list[Part]:
        if self._rules.keeps_empty_text:
            return list(parts)
        return [part for part in parts if not isinstance(part, Text) or part.text or self._rules.wire in part.extra]

    def _arrange_assistant(self, turn: Turn) -> list[Part]:
        parts: list[Part] = []
        calls: list[Part] = []
        late = False
        slots = iter(turn.slots)
        for part in turn.parts:
            self._note_foreign(part, turn.place)
            if isinstance(part, ToolCall | InvalidCall):
                calls.append(self._rename(part, next(slots), turn.place))
                if self._rules.text_after_calls:
                    parts.append(calls[-1])
            elif isinstance(part, Thinking):
                parts += self._keep_thinking(part, turn.place)
            else:
                late = late or bool(calls)
                parts.append(part)
        if not self._rules.text_after_calls:
            if late:
                self._losses.append(Loss("moved", f"message {turn.place}", "text after a call was moved before it"))
            parts += calls
        return self._without_empty(parts)

    def _note_foreign(self, part: Part, place: int) -> None:
        """Report the opaque data of other wires that is left out; thinking is reported elsewhere."""
        if part.extra and not isinstance(part, Thinking):
            note_foreign(part.extra, self._rules.wire, place, self._losses)

    def _rename(self, call: ToolCall | InvalidCall, slot: Slot, place: int) -> ToolCall | InvalidCall:
        if isinstance(call, InvalidCall):
            words = f"a call of {call.name or 'no tool'} that is not valid is sent without arguments"
            self._losses.append(Loss("approximated", f"message {place}", words))
        identity = slot.identity = self._identifier.identify(call.id)
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
        for slot, part in zip(turn.slots, turn.parts, strict=True):
            if not isinstance(part, ToolResult):
                continue
            self._note_foreign(part, turn.place)
            for inner in part.content if isinstance(part.content, list) else ():
                if isinstance(inner, Text | Image | File):
                    self._note_foreign(inner, turn.place)
            if part.is_error and not self._rules.error_flags:
                words = f"the error flag of the result of {part.name or part.call_id} became words"
                self._losses.append(Loss("approximated", f"message {turn.place}", words))
            result = replace(part, call_id=slot.identity, name=self._namer.name(part.name) if part.name else "")
            if not isinstance(result.content, str):
                result = self._take_media_out(result, turn.place, images)
            results.append(result)
        return results, images

    def _take_media_out(self, result: ToolResult, place: int, images: list[Part]) -> ToolResult:
        """Move images and files after the results, if a result cannot contain them."""
        takes_images = self._rules.result_images or self._quirks.result_images
        kept: list[Text | Image | File] = []
        for part in result.content:
            if isinstance(part, str):
                kept.append(Text(part))
                continue
            given = part if isinstance(part, Text) else settle(part)
            if isinstance(given, Text) or (takes_images if isinstance(given, Image) else self._rules.result_files):
                kept.append(given)
            elif (words := spell_out(given, self._losses, f"message {place}")) is not None:
                kept.append(words)
            else:
                kind = "image" if isinstance(given, Image) else "file"
                label = f"{kind} of the result of {result.name or 'the tool'} ({result.call_id})"
                kept.append(Text(f"[{kind}: see the next user message]"))
                images += [Text(f"[{label}]"), given]
                self._losses.append(Loss("moved", f"message {place}", f"the {label} went into a user message"))
        return replace(result, content=kept)


# ---- rules of Anthropic's models -------------------------------------------------------------------------------------


def clean(
    messages: Iterable[Message], wire: str, may_return: Callable[[Thinking], bool], losses: list[Loss]
) -> list[Message]:
    """The conversation without blank text, without the wire's thinking that may not return, and with all thinking
    in front of the calls."""
    return [
        message if _is_clean(message) else _clean(message, f"message {place}", wire, may_return, losses)
        for place, message in enumerate(messages)
    ]


def _is_clean(message: Message) -> bool:
    """Whether there is nothing to look at closer: no thinking and no blank text."""
    for part in message.parts:
        if part.text.isspace() if isinstance(part, Text) else isinstance(part, Thinking):
            return False
    return True


def _clean(
    message: Message, where: str, wire: str, may_return: Callable[[Thinking], bool], losses: list[Loss]
) -> Message:
    before: list[Part] = []
    behind: list[Part] = []  # the first call and all that follows it
    for part in message.parts:
        if isinstance(part, Text) and part.text.isspace() and "block" not in own_of(part, wire):
            losses.append(Loss("dropped", where, "blank text, which this wire refuses"))
            continue
        if isinstance(part, Thinking) and wire in part.extra:
            if not may_return(part):
                # It counts as reasoning of another wire.
                part = replace(part, extra={})
            elif behind:
                losses.append(Loss("moved", where, "thinking after a call was moved before it"))
                before.append(part)
                continue
        (behind if behind or isinstance(part, ToolCall | InvalidCall) else before).append(part)
    parts = before + behind
    return message if parts == message.parts else replace(message, parts=parts)


# ---- order -----------------------------------------------------------------------------------------------------------


def _merge(messages: list[Message]) -> list[Message]:
    """Merge adjacent messages of the same role; the encoder joins results and user text."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role != "tool":
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
