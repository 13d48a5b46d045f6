"""A request as the body of generateContent: the conversation."""

from __future__ import annotations

from dragoman.types import File, Image, InvalidCall, JsonObject, Message, Text, ToolCall, ToolResult
from dragoman.wire.gemini.parts import is_anonymous, own_of, write_part
from dragoman.wire.gemini.results import ResultWriter
from dragoman.wire.gemini.words import PLACEHOLDER
from dragoman.wire.history import History
from dragoman.wire.quirks import Quirks
from dragoman.wire.report import Loss


def write_history(history: History, quirks: Quirks, losses: list[Loss]) -> JsonObject:
    """The fields of a body that hold the conversation."""
    contents = ContentWriter(quirks, losses).write(history.messages)
    if not contents:
        losses.append(Loss("inserted", "history", "a first user message, without which the wire takes no conversation"))
        contents.append({"role": "user", "parts": [{"text": "Continue."}]})
    system = [{"text": part.text} for part in history.system if part.text.strip()]
    return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}


class ContentWriter:
    """Writes messages as contents, one after the other."""

    def __init__(self, quirks: Quirks, losses: list[Loss]) -> None:
        self._quirks = quirks
        self._losses = losses
        self._anonymous: set[str] = set()  # the ids, ours, of calls that came without one

    def write(self, messages: list[Message]) -> list[JsonObject]:
        contents: list[JsonObject] = []
        before = ""
        for message in messages:
            parts = self._write_results(message) if message.role == "tool" else self._write_parts(message)
            if message.role == "user" and before == "tool" and _is_media(message):
                # Images beside results stand in the turn of the results; only words need one of their own.
                contents[-1]["parts"] += parts
            elif parts:
                contents.append({"role": "model" if message.role == "assistant" else "user", "parts": parts})
                before = message.role
        return contents

    def _write_results(self, message: Message) -> list[JsonObject]:
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        writer = ResultWriter(self._losses, holds_media=self._quirks.result_images)
        return writer.write([(result, result.call_id not in self._anonymous) for result in results])

    def _write_parts(self, message: Message) -> list[JsonObject]:
        parts: list[JsonObject] = []
        called = False
        for part in message.parts:
            written = write_part(part)
            if written is None:
                self._losses.append(Loss("dropped", "history", "a part that has neither data nor an address"))
                continue
            if isinstance(part, Text):
                parts.append(written)
                continue
            if isinstance(part, ToolCall | InvalidCall):
                if is_anonymous(part):
                    self._anonymous.add(part.id)
                if not called:
                    self._sign(written, part)
                called = True
            elif isinstance(part, File) and part.name and "displayName" not in own_of(part):
                self._losses.append(Loss("dropped", "history", f"the name of a file, {part.name}"))
            parts.append(written)
        return parts

    def _sign(self, written: JsonObject, call: ToolCall | InvalidCall) -> None:
        """The first call of a step needs a signature, also when another model made it."""
        if self._quirks.call_signatures and "thoughtSignature" not in written:
            written["thoughtSignature"] = PLACEHOLDER
            self._losses.append(Loss("inserted", f"call {call.id} of {call.name}", "a placeholder for its signature"))


def _is_media(message: Message) -> bool:
    return bool(message.parts) and all(isinstance(part, Image | File) for part in message.parts)


def write_result(result: ToolResult, quirks: Quirks) -> JsonObject:
    """One result as a content of its own."""
    return {"role": "user", "parts": ResultWriter([], holds_media=quirks.result_images).write([(result, True)])}
