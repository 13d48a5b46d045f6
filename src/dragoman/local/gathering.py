"""The pieces of a streamed completion put together, for whoever asked for it whole."""

from __future__ import annotations

from typing import Any

from dragoman.types import JsonObject
from dragoman.wire.values import as_dict, dicts

_TEXTS = ("content", "reasoning_content")


class Gathering:
    """Takes chunks of the chat wire and gives one completion."""

    def __init__(self) -> None:
        self._head: JsonObject = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, JsonObject] = {}
        self._finish: Any = None

    def add(self, chunk: JsonObject) -> None:
        self._head |= {name: chunk[name] for name in ("id", "created", "model", "usage") if chunk.get(name)}
        for choice in dicts(chunk.get("choices")):
            self._finish = choice.get("finish_reason") or self._finish
            delta = as_dict(choice.get("delta"))
            for name in _TEXTS:
                if isinstance(delta.get(name), str):
                    self._texts.setdefault(name, []).append(delta[name])
            for call in dicts(delta.get("tool_calls")):
                self._add_call(call)

    def _add_call(self, piece: JsonObject) -> None:
        call = self._calls.setdefault(
            int(piece.get("index") or 0), {"type": "function", "function": {"name": "", "arguments": ""}}
        )
        if piece.get("id"):
            call["id"] = piece["id"]
        for name, value in as_dict(piece.get("function")).items():
            if isinstance(value, str):
                call["function"][name] = call["function"].get(name, "") + value

    def whole(self) -> JsonObject:
        """The completion as a server that does not stream would have sent it."""
        message: JsonObject = {"role": "assistant", "content": None}
        message |= {name: "".join(parts) for name, parts in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        choice = {"index": 0, "message": message, "finish_reason": self._finish}
        return {"object": "chat.completion", **self._head, "choices": [choice]}
