"""Chat completions read: chunks and whole bodies to events."""

from __future__ import annotations

from typing import Any

from dragoman.events import Event
from dragoman.types import JsonObject
from dragoman.wire.assembly import ReplyBuilder
from dragoman.wire.codec import Prepared, Reader
from dragoman.wire.openai_chat.failures import read_failure
from dragoman.wire.openai_chat.parts import name_and_arguments
from dragoman.wire.openai_chat.reasoning import Details, find_reasoning, read_thinking_block
from dragoman.wire.openai_chat.words import STOPS, read_usage
from dragoman.wire.quirks import Quirks
from dragoman.wire.sse import SseBroken
from dragoman.wire.values import BROKEN, as_dict, as_list, as_text, parse

_WORDS = {"content"}
_CALL_FIELDS = frozenset({"tool_calls", "function_call"})


class ChatReader(Reader):
    """Reads one chat completion. Only the first choice counts: a conversation goes on from one."""

    def __init__(self, wire: str, sent: Prepared | None, quirks: Quirks) -> None:
        self._builder = ReplyBuilder(wire, sent, masks_length=quirks.masks_length)
        self._quirks = quirks
        self._field = ""  # where the open part of reasoning comes from
        self._details = Details()
        self._refusing = False
        self._reasoning: list[str] = []
        self._answered = False
        self._whole = False

    def read(self, frame: Any) -> list[Event]:
        builder = self._builder
        if type(frame) is SseBroken:
            builder.fail(read_failure(None, {"message": "a frame of the stream was too large"}))
            self._end()
        elif frame.data.startswith("[DONE]"):
            builder.terminate()
            self._end()
        else:
            chunk = parse(frame.data)
            if chunk is not BROKEN:
                self._read_chunk(as_dict(chunk), frame.event)
            elif frame.complete and frame.data.strip():  # without data it only keeps the connection alive
                builder.fail(read_failure(None, {"message": f"a frame is not JSON: {frame.data[:200]}"}))
                self._end()
        return builder.take()

    def read_whole(self, body: JsonObject) -> list[Event]:
        self._whole = True
        self._read_chunk(body, None)
        self._builder.terminate()
        self._end()
        return self._builder.take()

    def close(self) -> list[Event]:
        self._end()
        return self._builder.take()

    def _read_chunk(self, chunk: JsonObject, event: str | None) -> None:
        builder = self._builder
        if event == "error" or chunk.get("error") or chunk.get("object") == "error":
            builder.fail(read_failure(None, chunk))
            self._end()
            return
        if not builder.started:
            builder.start(chunk.get("model"), chunk.get("id"))
        for choice in as_list(chunk.get("choices")):
            if isinstance(choice, dict) and choice.get("index") in (0, None):
                self._read_choice(choice)
        usage = read_usage(chunk["usage"]) if "usage" in chunk else None
        if usage is not None:
            builder.usage(usage)

    def _read_choice(self, choice: JsonObject) -> None:
        delta = choice.get("delta")
        message = delta if isinstance(delta, dict) and delta else as_dict(choice.get("message"))
        if message.keys() == _WORDS:
            # By far the most: the next words of the answer.
            self._read_content(message["content"])
        else:
            self._read_message(message)
        reason = choice.get("finish_reason")
        if reason and isinstance(reason, str):
            self._builder.stop(STOPS.get(reason, "unknown"), {"reason": reason})
            if not self._quirks.final_frame:
                self._builder.terminate()

    def _read_message(self, message: JsonObject) -> None:
        self._read_reasoning(message)
        content = message.get("content")
        if content:
            self._read_content(content)
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            self._end_reasoning()
            self._refusing = True
            self._builder.text(refusal)
        if not _CALL_FIELDS.isdisjoint(message):
            self._read_calls(message)

    def _read_content(self, content: Any) -> None:
        if isinstance(content, str):
            if content:
                self._end_reasoning()
                self._answered = True
                self._builder.text(content)
            return
        for block in as_list(content):
            self._read_block(block)

    def _read_block(self, block: Any) -> None:
        """One block of a content that is a list: text, or thinking as Mistral gives it."""
        if isinstance(block, str):
            self._read_content(block)
        elif isinstance(block, dict) and block.get("type") == "thinking":
            text, own = read_thinking_block(block)
            self._field = "thinking"
            self._builder.thinking(text)
            if "signature" in own:
                self._end_reasoning(own)
        elif isinstance(block, dict):
            self._read_content(as_text(block.get("text")))

    def _read_reasoning(self, message: JsonObject) -> None:
        field, text = find_reasoning(message)
        if field:
            self._field = self._field or field
            self._details.add(message.get("reasoning_details"))
            self._builder.thinking(text)
            if self._quirks.reasoning_as_content:
                self._reasoning.append(text)

    def _end_reasoning(self, own: JsonObject | None = None) -> None:
        if self._field:
            details = self._details.take()
            named = {"field": self._field, **({"details": details} if details else {})}
            self._builder.end_part("thinking", {**named, **(own or {})})
            self._field = ""

    def _read_calls(self, message: JsonObject) -> None:
        for entry in as_list(message.get("tool_calls")):
            if not isinstance(entry, dict):
                continue
            self._end_reasoning()
            name, arguments, own = name_and_arguments(entry)
            identity = entry.get("id") or entry.get("call_id")
            if self._whole:
                # Each is a call of its own, also where the server gave two of them the same id or index.
                self._builder.whole_call(identity, name, arguments, own)
            else:
                self._builder.call_delta(entry.get("index"), identity, name, arguments, own)
        old = message.get("function_call")
        if isinstance(old, dict):
            self._builder.call_delta("function_call", None, old.get("name"), old.get("arguments"))

    def _end(self) -> None:
        if self._builder.ended:
            return
        self._end_reasoning()
        if self._refusing:
            self._builder.end_part("text", {"refusal": True})
        if self._reasoning and not self._answered:
            self._builder.text("".join(self._reasoning))
        self._builder.end()
