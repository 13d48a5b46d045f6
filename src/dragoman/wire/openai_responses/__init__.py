"""OpenAI's Responses: one flat list of items instead of messages, and reasoning that has to be handed back.

We hold the history ourselves, so a request asks the provider to store nothing (`store: false`) and to give its
reasoning in a form that can be sent back (`include`). Both are overruled by `options["openai_responses"]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from dragoman.events import Event
from dragoman.stage import Stage
from dragoman.toolset import Toolset
from dragoman.types import Failure, JsonObject, Reply, Request, Tool, ToolResult
from dragoman.wire.aliases import Aliases
from dragoman.wire.codec import Codec, Offer, Prepared, Reader, as_object, offer, read_choice, unsupported_options
from dragoman.wire.failures import Loss
from dragoman.wire.framing import SseDecoder
from dragoman.wire.history import HistoryRules, arrange
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

    # ---- client -------------------------------------------------------------------------------------------------

    def endpoint(self, model: str, *, stream: bool = False) -> str:
        return "/responses"

    def prepare(self, request: Request) -> Prepared:
        own = as_dict(request.options.get(WIRE))
        remembers = bool(own.get("previous_response_id") or own.get("conversation"))
        stored = remembers or own.get("store") is True
        messages, answers = split_remembered(request.messages) if remembers else (request.messages, [])
        offered = self._offer(request.tools)
        history = arrange(messages, RULES, offered.namer, self.quirks)
        losses = [*offered.losses, *history.losses]
        instructions, items = InputWriter(self.quirks, losses, stored=stored).write(history.messages)
        items = [*(write_result(answer, {}, losses) for answer in answers), *items]
        body: JsonObject = {"model": request.model}
        if instructions is not None:
            body["instructions"] = instructions
        body["input"] = items
        tools, taken = self._write_tools(request, offered, items, losses)
        fields, said = write_settings(request.options, self.quirks, losses)
        losses += unsupported_options(request.options, taken | said, WIRE)
        body = merge_own({**body, **tools, **fields, **({} if stored else _DEFAULTS)}, own)
        aliases = Aliases(offered.namer.back, history.identifier.back, offered.undo)
        known = [*request.tools, *custom_tools(as_list(own.get("tools")))]
        limit = request.options.get("max_tokens")
        return Prepared(
            body,
            tuple(losses),
            aliases,
            Toolset(known) if known else None,
            limit if isinstance(limit, int) else None,
        )

    def _offer(self, tools: list[Tool]) -> Offer:
        target = "openai_strict" if self.quirks.strict_tools else "openai"
        return offer(tools, RULES.names, target, self.quirks)

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

    def open_framing(self) -> Stage[bytes, Any]:
        return SseDecoder()

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
        return write_response(reply, created=created, tools=tools)

    def event_stream(
        self, *, model: str = "", id: str = "", created: int = 0, tools: Iterable[Tool] = ()
    ) -> Stage[Event, bytes]:
        """As for every wire; `tools` are those of the request, whose namespaces the calls get back."""
        return ResponseWriter(model, id, created, tools)

    def encode_failure(self, failure: Failure) -> tuple[int, JsonObject]:
        return write_failure(failure)

    # ---- verbs --------------------------------------------------------------------------------------------------

    def define(self, tools: list[Tool]) -> tuple[list[JsonObject], list[Loss], Aliases]:
        offered = self._offer(tools)
        definitions = [write_definition(entry, strict=self.quirks.strict_tools) for entry in offered.tools]
        return definitions, offered.losses, Aliases(offered.namer.back, {}, offered.undo)

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
