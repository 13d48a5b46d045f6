"""OpenAI's Responses: one flat list of items instead of messages, and reasoning that has to be handed back.

We hold the history ourselves, so a request asks the provider to store nothing (`store: false`) and to give its
reasoning in a form that can be sent back (`include`). Both are overruled by `options["openai_responses"]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.toolset import Toolset as Toolset
from dragoman.types import Failure, JsonObject, Message, Reply, Request, Tool, ToolResult
from dragoman.wire.aliases import Aliases as Aliases
from dragoman.wire.codec import Codec, Draft, Offer, Prepared, Reader, as_object, read_choice, unsupported_options
from dragoman.wire.failures import Loss
from dragoman.wire.framing import SseDecoder as SseDecoder
from dragoman.wire.history import HistoryRules
from dragoman.wire.openai_responses.client import InputWriter, ResponsesReader, split_remembered
from dragoman.wire.openai_responses.parts import (
    IDS,
    OUTPUTS,
    WIRE,
    custom_tools,
    merge_own,
    read_failure,
    read_settings,
    read_tools,
    write_choice,
    write_definition,
    write_failure,
    write_result,
    write_settings,
    write_tools,
)
from dragoman.wire.openai_responses.server import InputReader, ResponseWriter, write_response
from dragoman.wire.values import as_dict, as_list, as_text

RULES = HistoryRules(
    WIRE,
    ids=IDS,
    result_images=True,
    result_files=True,
    text_after_calls=True,
    keeps_empty_text=True,
    error_flags=False,
)
_DEFAULTS: JsonObject = {"store": False, "include": ["reasoning.encrypted_content"]}


class OpenAIResponses(Codec):
    name: ClassVar[str] = WIRE
    rules: ClassVar[HistoryRules] = RULES

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        return "/responses"

    def _schema_target(self) -> str:
        return "openai_strict" if self.quirks.strict_tools else "openai"

    def _select_messages(self, request: Request, losses: list[Loss]) -> list[Message]:
        return split_remembered(request.messages)[0] if _remembers(request) else request.messages

    def _write_body(self, draft: Draft) -> JsonObject:
        request, losses = draft.request, draft.losses
        own = as_dict(request.options.get(WIRE))
        stored = _remembers(request) or own.get("store") is True
        instructions, items = InputWriter(self.quirks, losses, stored=stored).write(draft.history.messages)
        if _remembers(request):
            _, answers = split_remembered(request.messages)
            items = [*(write_result(answer, {}, losses) for answer in answers), *items]
        body: JsonObject = {"model": request.model}
        if instructions is not None:
            body["instructions"] = instructions
        body["input"] = items
        tools, taken = self._write_tools(request, draft.offered, items, losses)
        fields, said = write_settings(request.options, self.quirks, losses)
        losses += unsupported_options(request.options, taken | said, WIRE)
        return merge_own({**body, **tools, **fields, **({} if stored else _DEFAULTS)}, own)

    def _known_tools(self, request: Request) -> list[Tool]:
        own = as_dict(request.options.get(WIRE))
        return [*request.tools, *custom_tools(as_list(own.get("tools")))]

    def _write_tools(
        self, request: Request, offered: Offer, items: list[JsonObject], losses: list[Loss]
    ) -> tuple[JsonObject, set[str]]:
        """The fields about tools, and the options that they said."""
        taken = {"tool_choice", "parallel_tool_calls"}
        others = as_list(as_dict(request.options.get(WIRE)).get("tools"))
        tools = write_tools(offered, others, items, strict=self.quirks.strict_tools)
        choice = read_choice(request.options)
        said, only = write_choice(choice, offered, self.quirks, losses) if choice else (None, None)
        if only is not None:
            tools = [tool for tool in tools if isinstance(tool, dict) and tool.get("name") in only]
        if not tools:
            return {}, taken
        fields: JsonObject = {"tools": tools}
        if said is not None:
            fields["tool_choice"] = said
        parallel = request.options.get("parallel_tool_calls")
        if isinstance(parallel, bool):
            if self.quirks.parallel_flag:
                fields["parallel_tool_calls"] = parallel
            elif not parallel:
                losses.append(Loss("dropped", "options", "this endpoint has no switch against parallel calls"))
        return fields, taken

    def open_reader(self, sent: Prepared | None) -> Reader:
        return ResponsesReader(sent, self.quirks)

    def decode_failure(self, status: int | None, body: Any, headers: Mapping[str, str] | None = None) -> Failure:
        return read_failure(status, body, headers)

    # ---- server -------------------------------------------------------------------------------------------------

    def decode_request(self, body: JsonObject | bytes | str, *, model: str = "", stream: bool | None = None) -> Request:
        fields = as_object(body)
        reader = InputReader()
        messages = reader.read(fields.get("instructions"), fields.get("input"))
        tools, others = read_tools(fields.get("tools"), reader.added)
        options = read_settings(fields, others)
        if stream is not None:
            options["stream"] = stream
        return Request(as_text(fields.get("model")) or model, messages, tools, options)

    def encode_reply(self, reply: Reply, *, created: int = 0, tools: Iterable[Tool] = ()) -> JsonObject:
        """As for every wire; `tools` are those of the request, whose namespaces the calls get back."""
        # A response that failed is a response all the same, and says so.
        return write_response(reply, created=created, tools=tools)

    def _write_reply(self, reply: Reply, created: int) -> JsonObject:
        return write_response(reply, created=created)

    def event_stream(
        self, *, model: str = "", id: str = "", created: int = 0, tools: Iterable[Tool] = ()
    ) -> Stage[Event, bytes]:
        """As for every wire; `tools` are those of the request, whose namespaces the calls get back."""
        return ResponseWriter(model, id, created, tools)

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    # ---- verbs --------------------------------------------------------------------------------------------------

    def _write_definitions(self, offered: Offer, losses: list[Loss]) -> list[JsonObject]:
        return [write_definition(entry, strict=self.quirks.strict_tools) for entry in offered.tools]

    def find_calls(self, body: Any) -> JsonObject:
        given = as_object(body) if isinstance(body, bytes | bytearray | str) else body
        if isinstance(given, list):
            return {"output": given}
        fields = as_dict(given)
        if isinstance(fields.get("response"), dict):
            fields = fields["response"]
        if "output" in fields and fields.get("type") not in OUTPUTS.values():
            return fields
        if isinstance(fields.get("item"), dict):
            fields = fields["item"]
        return {"output": [fields]} if fields else {"output": []}

    def write_result(self, result: ToolResult) -> JsonObject:
        return write_result(result, {}, [])


def _remembers(request: Request) -> bool:
    """Whether the provider holds the earlier conversation."""
    own = as_dict(request.options.get(WIRE))
    return bool(own.get("previous_response_id") or own.get("conversation"))
