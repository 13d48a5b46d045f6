"""The wire `openai_chat`: OpenAI's chat completions, and compatible endpoints.

Many providers copy this wire, each with its own deviations. A deviation of an endpoint is a flag in `Quirks`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from msgspec.structs import replace

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import JsonObject, Reply, Request, Tool, ToolResult
from dragoman.wire.aliases import IdRule
from dragoman.wire.codec import Codec, Draft, Offer, Prepared
from dragoman.wire.failures import Loss
from dragoman.wire.history import HistoryRules
from dragoman.wire.openai_chat import client, parts, server
from dragoman.wire.values import as_dict, as_text, parse


def wrap_message(body: Any) -> JsonObject:
    """A message, or a body with `choices`, `message` or `error`, around a list of calls or one call."""
    if isinstance(body, bytes | str):
        body = parse(body)
    fields = {"tool_calls": body} if isinstance(body, list) else as_dict(body)
    is_call = "function" in fields or ("name" in fields and "arguments" in fields)
    known = {"tool_calls", "choices", "message", "error"}
    return {"tool_calls": [fields]} if is_call and known.isdisjoint(fields) else fields


def wrap_calls(body: Any) -> JsonObject:
    """A whole completion around a body, a message, a list of calls or one call."""
    fields = wrap_message(body)
    if "choices" in fields or "error" in fields:
        return fields
    message = fields.get("message")
    return {"choices": [{"message": message if isinstance(message, dict) else fields}]}


class OpenAIChat(Codec):
    name = "openai_chat"
    rules = HistoryRules("openai_chat", ids=IdRule(r"(?s).+", 40), keeps_empty_text=True, error_flags=False)
    path = "/chat/completions"
    reader = client.ChatReader
    has_refusals = server.ChunkWriter.has_refusals
    dialect: ClassVar[client.Dialect] = client.Dialect("openai_chat")
    decode_failure = staticmethod(parts.read_failure)
    encode_failure = staticmethod(parts.write_failure)
    find_calls = staticmethod(wrap_calls)

    # ---- client -------------------------------------------------------------------------------------------------

    def _history_rules(self) -> HistoryRules:
        replays = self.quirks.replay_reasoning != "never" and bool(self.quirks.reasoning_field)
        return self.rules if replays else replace(self.rules, thinking=False)

    def _schema_target(self) -> str:
        return "openai_strict" if self.quirks.strict_tools else "openai"

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses, dialect = draft.request, draft.losses, self.dialect
        history = [parts.settle_media(message, dialect.wire, losses) for message in draft.history.messages]
        messages = [entry for message in history for entry in client.write_message(message, dialect, self.quirks)]
        shape = draft.shape
        if shape.fields is None:
            lost: list[Loss] = []
            tools = client.write_tools(request, draft.offered, dialect, self.quirks, lost)
            shape.fields = tools | client.write_options(request, dialect, self.quirks, lost)
            shape.field_losses = tuple(lost)
        losses += shape.field_losses
        body = {"model": request.model, "messages": messages, **shape.fields}
        if self.quirks.standard_fields_only:
            return client.keep_documented(body, dialect, self.quirks, losses)
        return body

    def read_body(self, body: JsonObject, sent: Prepared) -> list[Event]:
        plain = client.read_plain(body, self.name, sent)
        return plain if plain is not None else super().read_body(body, sent)

    # ---- server -------------------------------------------------------------------------------------------------

    def _read_request(self, fields: JsonObject, model: str) -> Request:
        tools, options = self._read_rest(fields, ("messages",), self._read_settings)
        messages = server.MessageReader(self.name).read(fields.get("messages"))
        return Request(as_text(fields.get("model"), model), messages, tools, options)

    def _read_settings(self, fields: JsonObject) -> tuple[list[Tool], dict[str, Any]]:
        tools, others = server.read_tools(fields, self.name)
        return tools, server.read_options(fields, self.name, others)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return server.write_completion(reply, self.name, self.rules.ids, created)

    def event_stream(
        self, *, model: str = "", id: str = "", created: int = 0, include_usage: bool = True
    ) -> Stage[Event, bytes]:
        """As for every wire; `include_usage` is what the client said in `stream_options`."""
        return server.ChunkWriter(self.name, self.rules.ids, model, id, created, include_usage=include_usage)

    # ---- definitions, calls and results -------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return client.write_definitions(offered, self.quirks.strict_tools, self.name)

    def write_result(self, result: ToolResult) -> JsonObject:
        return client.write_result(result, self.dialect, self.quirks)
