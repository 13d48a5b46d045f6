"""A conversation as the messages of Converse: user and assistant in turns, and no text of blanks alone."""

from __future__ import annotations

from collections.abc import Iterable

from dragoman.types import InvalidCall as Invalid
from dragoman.types import JsonObject, Message, Part, Text, Thinking, ToolCall
from dragoman.wire.aliases import IdRule
from dragoman.wire.bedrock.blocks import BlockWriter
from dragoman.wire.bedrock.words import WIRE, family_of, own
from dragoman.wire.history import History
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss
from dragoman.wire.rules import HistoryRules

RULES = HistoryRules(
    WIRE,
    ids=IdRule(r"[a-zA-Z0-9_.:-]+", 64),
    system="front",
    result_images=True,
    result_files=True,
    text_after_calls=True,
    first_user=True,
    merges=True,
)


def drop_blanks(messages: Iterable[Message], losses: list[Loss]) -> list[Message]:
    """The conversation without texts of blanks alone, for which Bedrock refuses the whole request."""
    kept: list[Message] = []
    for place, message in enumerate(messages):
        if any([_is_blank(part) for part in message.parts if isinstance(part, Text)]):
            parts = [part for part in message.parts if not _is_blank(part)]
            if any(isinstance(part, Text) and part.text and _is_blank(part) for part in message.parts):
                losses.append(Loss("dropped", f"message {place}", "a text of blanks alone"))
            # Its own words may have been all that a message had: then it is as if it had not been said.
            message = Message(message.role, parts, message.extra if parts else {})
        kept.append(message)
    return kept


def _is_blank(part: Part) -> bool:
    if not isinstance(part, Text) or (part.text and not part.text.isspace()):
        return False
    return "block" not in own(part.extra)


def sort_thinking(messages: Iterable[Message], model: str, quirks: Quirks, losses: list[Loss]) -> list[Message]:
    """The conversation with reasoning in front of the calls, and without reasoning that the model cannot take back."""
    signed_only = family_of(model) == "claude" and not quirks.unsigned_thinking
    return [
        _sort_message(message, place, signed_only, losses) if message.role == "assistant" else message
        for place, message in enumerate(messages)
    ]


def _sort_message(message: Message, place: int, signed_only: bool, losses: list[Loss]) -> Message:
    if not any([isinstance(part, Thinking) for part in message.parts]):
        return message
    parts: list[Part] = []
    first_call = -1
    for part in message.parts:
        if isinstance(part, Thinking) and WIRE in part.extra:
            if signed_only and not own(part.extra).keys() & {"signature", "redacted"}:
                # Without this wire's mark the arrangement of the history treats it as that of any other model.
                parts.append(Thinking(part.text))
            elif first_call >= 0:
                losses.append(Loss("moved", f"message {place}", "reasoning behind a call was put before it"))
                parts.insert(first_call, part)
                first_call += 1
            else:
                parts.append(part)
            continue
        if isinstance(part, ToolCall | Invalid) and first_call < 0:
            first_call = len(parts)
        parts.append(part)
    return Message(message.role, parts, message.extra)


def write_system(system: list[Text], writer: BlockWriter) -> list[JsonObject]:
    return [block for part in system for block in writer.write(part, "system")]


def write_messages(history: History, writer: BlockWriter, losses: list[Loss]) -> list[JsonObject]:
    """The messages of a body. Results and the words behind them make one message of the user, the results first."""
    written: list[JsonObject] = []
    for place, message in enumerate(history.messages):
        role = "assistant" if message.role == "assistant" else "user"
        where = f"message {place}"
        blocks: list[JsonObject] = []
        for part in message.parts:
            blocks += writer.write(part, where, documents=role == "user")
        if not blocks:
            continue
        if written and written[-1]["role"] == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    if not written:
        losses.append(Loss("inserted", "history", "a first user message, without which the wire takes no conversation"))
        written.append({"role": "user", "content": [{"text": "Continue."}]})
    return written
