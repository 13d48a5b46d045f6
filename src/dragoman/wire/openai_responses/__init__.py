"""The wire `openai_responses`: OpenAI's Responses API, with a flat list of items, and reasoning to send back.

A request says of the storage of replies what its options say: `store` and `include` are fields of this wire. `ask`,
`stream` and agents keep the conversation themselves, and add `STATELESS` to the options of each request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.types import JsonObject, Message, Reply, Request, Tool, ToolResult
from dragoman.wire.codec import Codec, Draft, Offer, as_object
from dragoman.wire.failures import Loss
from dragoman.wire.history import HistoryRules
from dragoman.wire.openai_responses import client, parts, server
from dragoman.wire.openai_responses.parts import WIRE
from dragoman.wire.values import as_dict, as_list, as_text, merge_fields

STATELESS: JsonObject = {"store": False, "include": ["reasoning.encrypted_content"]}
"""The fields for a caller that keeps the conversation: the provider stores nothing, and returns its reasoning in a
form that can be sent back."""


def wrap_calls(body: Any) -> JsonObject:
    """A whole response around a response, a frame of one, a list of items or one item."""
    given = as_object(body) if isinstance(body, bytes | bytearray | str) else body
    if isinstance(given, list):
        return {"output": given}
    fields = as_dict(given)
    if isinstance(fields.get("response"), dict):
        fields = fields["response"]
    if "output" in fields and fields.get("type") not in parts.OUTPUTS.values():
        return fields
    if isinstance(fields.get("item"), dict):
        fields = fields["item"]
    return {"output": [fields] if fields else []}


def _remembers(request: Request) -> bool:
    """Whether the provider holds the earlier conversation."""
    own = as_dict(request.options.get(WIRE))
    return bool(own.get("previous_response_id") or own.get("conversation"))


class OpenAIResponses(Codec):
    name = WIRE
    rules = HistoryRules(
        WIRE,
        ids=parts.IDS,
        result_images=True,
        result_files=True,
        text_after_calls=True,
        keeps_empty_text=True,
        error_flags=False,
    )
    path = "/responses"
    reader = client.ResponsesReader
    has_refusals = server.ResponseWriter.has_refusals
    decode_failure = staticmethod(parts.read_failure)
    encode_failure = staticmethod(parts.write_failure)
    find_calls = staticmethod(wrap_calls)

    # ---- client -------------------------------------------------------------------------------------------------

    def _schema_target(self) -> str:
        return "openai_strict" if self.quirks.strict_tools else "openai"

    def _select_messages(self, request: Request, losses: list[Loss]) -> list[Message]:
        return client.split_remembered(request.messages)[0] if _remembers(request) else request.messages

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        own = as_dict(request.options.get(WIRE))
        # Unless it is told otherwise, the provider stores what it says.
        stored = _remembers(request) or own.get("store") is not False
        instructions, items = client.InputWriter(self.quirks, losses, stored=stored).write(draft.history.messages)
        if _remembers(request):
            _, answers = client.split_remembered(request.messages)
            items = [*(parts.write_result(answer, {}, losses) for answer in answers), *items]
        # A stored prompt may name the model.
        body: JsonObject = {"model": request.model} if request.model else {}
        if instructions is not None:
            body["instructions"] = instructions
        body["input"] = items
        tools = parts.write_tools(request, draft.offered, items, self.quirks, losses)
        fields = parts.write_settings(request.options, self.quirks, losses)
        return merge_fields({**body, **tools, **fields}, own)

    def keep_history(self, options: Mapping[str, Any]) -> dict[str, Any]:
        own = as_dict(options.get(WIRE))
        if own.get("store") or own.get("previous_response_id") or own.get("conversation"):
            return dict(options)
        return {**options, WIRE: {**STATELESS, **own}}

    def _known_tools(self, request: Request) -> list[Tool]:
        own = as_dict(request.options.get(WIRE))
        given = [*as_list(own.get("tools")), *parts.added_tools(request.messages)]
        return [*request.tools, *parts.custom_tools(given)]

    # ---- server -------------------------------------------------------------------------------------------------

    def _read_request(self, fields: JsonObject, model: str) -> Request:
        reader = server.InputReader()
        messages = reader.read(fields.get("instructions"), fields.get("input"))
        tools, others = parts.read_tools(fields.get("tools"), reader.added)
        return Request(as_text(fields.get("model")) or model, messages, tools, parts.read_settings(fields, others))

    def encode_reply(self, reply: Reply, *, created: int = 0, tools: Iterable[Tool] = ()) -> JsonObject:
        """As for every wire; `tools` are those of the request, whose namespaces the calls get back."""
        # A response that failed is a response all the same, and says so.
        return server.write_response(reply, created=created, tools=tools)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return server.write_response(reply, created=created)

    def event_stream(
        self, *, model: str = "", id: str = "", created: int = 0, tools: Iterable[Tool] = ()
    ) -> Stage[Event, bytes]:
        """As for every wire; `tools` are those of the request, whose namespaces the calls get back."""
        return server.ResponseWriter(model, id, created, tools)

    # ---- definitions, calls and results -------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return [parts.write_definition(entry, strict=self.quirks.strict_tools) for entry in offered.tools]

    def write_result(self, result: ToolResult) -> JsonObject:
        return parts.write_result(result, {}, [])
