"""Ollama's replies read: lines and whole bodies to events."""

from __future__ import annotations

from typing import Any

from dragoman.events import Event
from dragoman.types import JsonObject
from dragoman.wire.assembly import ReplyBuilder
from dragoman.wire.codec import Prepared, Reader
from dragoman.wire.failures import fail
from dragoman.wire.ndjson import LineBroken
from dragoman.wire.ollama.words import STOPS, read_usage
from dragoman.wire.values import BROKEN, as_dict, as_text, dicts, parse

_WRAPPERS = ("tool_call", "tool.call")
_PREFIX = "tool."


class OllamaReader(Reader):
    """Reads one reply. A call always comes whole, in any line; `done` ends the reply."""

    def __init__(self, wire: str, sent: Prepared | None) -> None:
        self._builder = ReplyBuilder(wire, sent)
        self._offered = frozenset(sent.tools.names) if sent is not None and sent.tools is not None else frozenset()
        self._thinking = False

    def read(self, frame: Any) -> list[Event]:
        if isinstance(frame, LineBroken):
            self._fail("a line of the stream was too large")
        else:
            body = parse(frame.text)
            if body is not BROKEN:
                self._read_body(as_dict(body))
            elif frame.complete:
                self._fail(f"a line is not JSON: {frame.text[:200]}")
        return self._builder.take()

    def read_whole(self, body: JsonObject) -> list[Event]:
        self._read_body(body)
        self._builder.terminate()
        return self.close()

    def close(self) -> list[Event]:
        self._end()
        return self._builder.take()

    def _fail(self, message: Any, body: Any = None) -> None:
        self._builder.fail(fail(message, body=body))
        self._end()

    def _read_body(self, body: JsonObject) -> None:
        builder = self._builder
        if body.get("error"):
            self._fail(body["error"], body)
            return
        builder.start(body.get("model"))
        message = as_dict(body.get("message"))
        if as_text(message.get("thinking")):
            self._thinking = True
            builder.thinking(message["thinking"])
        if as_text(message.get("content")):
            self._end_thinking()
            builder.text(message["content"])
        for entry in dicts(message.get("tool_calls")):
            self._end_thinking()
            self._read_call(entry)
        usage = read_usage(body)
        if usage is not None:
            builder.usage(usage)
        reason = as_text(body.get("done_reason"))
        if reason:
            builder.stop(STOPS.get(reason, "unknown"), {"reason": reason})
        if body.get("done") is True:
            builder.terminate()
            self._end()

    def _read_call(self, entry: JsonObject) -> None:
        function = entry.get("function")
        body = function if isinstance(function, dict) else entry
        name, arguments, repairs = unwrap(body.get("name"), body.get("arguments"), self._offered)
        self._builder.whole_call(entry.get("id"), name, arguments, repairs=repairs)

    def _end_thinking(self) -> None:
        if self._thinking:
            self._builder.end_part("thinking", {"field": "thinking"})
            self._thinking = False

    def _end(self) -> None:
        if not self._builder.ended:
            self._end_thinking()
            self._builder.end()


def unwrap(name: Any, arguments: Any, offered: frozenset[str]) -> tuple[Any, Any, tuple[str, ...]]:
    """The call inside a call: models write `tool_call` or `tool.NAME` where the name of a tool belongs.

    A tool that is really offered under such a name is left alone.
    """
    if not isinstance(name, str) or name in offered:
        return name, arguments, ()
    if name in _WRAPPERS or name.startswith(("tool_call>", "tool_call<")):
        inner = as_dict(arguments)
        if as_text(inner.get("name")):
            return inner["name"], inner.get("arguments"), ("unwrapped_call",)
    elif name.startswith(_PREFIX) and len(name) > len(_PREFIX):
        return name[len(_PREFIX) :], arguments, ("unwrapped_name",)
    return name, arguments, ()
