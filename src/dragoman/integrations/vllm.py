"""Tool parsers for vLLM: `--tool-call-parser dragoman`, and `dragoman_<format>` for every format.

vLLM finds `register` by the entry point `vllm.general_plugins`, and calls it in each of its processes. The classes are
made on first use, so nothing of vLLM is imported before vLLM asks for it.

`engine_based_streaming` makes the server call `finish_streaming` at the end of a stream. It also makes the generic
reader of required calls lose streamed calls, so this parser reads them itself, and a grammar holds the model to them.
"""

from __future__ import annotations

import secrets
import string
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from dragoman.integrations.server_replies import (
    PREFIX,
    Choice,
    Piece,
    ServerReply,
    as_toolset,
    find_grammar,
    native_id,
    parser_formats,
    write_arguments,
)
from dragoman.types import ToolCall

_PROTOCOLS = ("vllm.entrypoints.generate.base.protocol", "vllm.entrypoints.openai.engine.protocol")
"""The module of the types of a reply: since 0.32, and before."""
_MISTRAL_ID = string.ascii_letters + string.digits


def register() -> None:
    """Register the parsers. vLLM calls this in every process, also more than once."""
    manager = import_module("vllm.tool_parsers").ToolParserManager
    for name in parser_formats():
        manager.register_lazy_module(name, __name__, name)


def __getattr__(name: str) -> Any:
    format = parser_formats().get(name) if name.startswith(PREFIX) else None
    if format is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return make_parser(name, format)


@cache
def make_parser(name: str, format: str) -> Any:
    """Return the class of the parser for a format."""
    base = import_module("vllm.tool_parsers").ToolParser
    body = {"format": format, "types": _protocol(), "__doc__": f"Reads calls in the format {format}."}
    return type(name, (CallParser, base), body)


@cache
def _protocol() -> Any:
    for module in _PROTOCOLS:
        try:
            return import_module(module)
        except ModuleNotFoundError:
            continue
    raise ImportError("this version of vLLM is not supported: use 0.24 or later")


def make_id(call: ToolCall) -> str:
    """Return the id for the client: the one that the model wrote, or one in the form that its template accepts."""
    written = native_id(call)
    if written is not None:
        return written
    format = call.provenance.format if call.provenance is not None else ""
    if format.startswith("mistral"):
        return "".join(secrets.choice(_MISTRAL_ID) for _ in range(9))
    return f"chatcmpl-tool-{secrets.token_hex(8)}"


class CallParser:
    """The methods of `vllm.tool_parsers.ToolParser`, its other base. The server makes one object for each reply."""

    format = "auto"
    engine_based_streaming = True
    supports_required_and_named = False
    types: Any
    """The module of vLLM with the types of a reply."""
    # What the other base has.
    model_tokenizer: Any
    tools: list[Any]
    current_tool_id: int
    current_tool_name_sent: bool
    prev_tool_call_arr: list[dict[str, Any]]
    streamed_args_for_tool: list[str]

    def __init__(self, tokenizer: Any, tools: Any = None, *arguments: Any, **options: Any) -> None:
        prepare: Any = super().__init__
        prepare(tokenizer, tools, *arguments, **options)
        self._reply: ServerReply | None = None

    # ---- the request ---------------------------------------------------------------------------------------------

    def adjust_request(self, request: Any) -> Any:
        if not _may_call(request):
            return request
        # Many formats are written with special tokens.
        request.skip_special_tokens = False
        choice, tools = Choice.of(request.tool_choice), as_toolset(self._offered(request))
        if choice is None or tools is None:
            return request
        template = getattr(self.model_tokenizer, "chat_template", None)
        grammar = find_grammar(
            self.format,
            tools,
            choice,
            is_single=request.parallel_tool_calls is False,
            template=template if isinstance(template, str) else str(template or ""),
        )
        if grammar is not None:
            constraint = import_module("vllm.sampling_params").StructuredOutputsParams
            request.structured_outputs = constraint(grammar=grammar)
            for other in ("response_format", "text"):
                if getattr(request, other, None) is not None:
                    setattr(request, other, None)
        return request

    def _offered(self, request: Any) -> Any:
        return self.tools or [tool for tool in getattr(request, "tools", None) or () if _is_function(tool)]

    def reads(self, request: Any) -> bool:
        """Whether to search the reply for calls. The server would throw them away if the request allows none."""
        return _may_call(request)

    # ---- the reply -----------------------------------------------------------------------------------------------

    def _open(self, request: Any) -> ServerReply:
        choice = Choice.of(getattr(request, "tool_choice", None))
        return ServerReply(self.format, as_toolset(self._offered(request)), choice)

    def extract_tool_calls(self, model_output: str, request: Any) -> Any:
        if not self.reads(request):
            return self.types.ExtractedToolCallInformation(tools_called=False, tool_calls=[], content=model_output)
        piece = self._open(request).close(model_output)
        calls = [
            self.types.ToolCall(
                id=make_id(call), function=self.types.FunctionCall(name=call.name, arguments=write_arguments(call))
            )
            for call in piece.calls
        ]
        return self.types.ExtractedToolCallInformation(
            tools_called=bool(calls), tool_calls=calls, content=piece.text or None
        )

    def extract_tool_calls_streaming(
        self,
        previous_text: str,
        current_text: str,
        delta_text: str,
        previous_token_ids: Sequence[int],
        current_token_ids: Sequence[int],
        delta_token_ids: Sequence[int],
        request: Any,
    ) -> Any:
        # The server accumulates the other texts only for parsers of its old kind.
        if self._reply is None:
            if not self.reads(request):
                return self.types.DeltaMessage(content=delta_text) if delta_text else None
            self._reply = self._open(request)
            self.current_tool_id = -1
            self.prev_tool_call_arr, self.streamed_args_for_tool = [], []
        return self._write(self._reply.feed(delta_text))

    def finish_streaming(self) -> Any:
        """Return what only the end of the reply decides."""
        reply, self._reply = self._reply, None
        return None if reply is None else self._write(reply.close())

    def _write(self, piece: Piece) -> Any:
        if not piece.calls:
            return self.types.DeltaMessage(content=piece.text) if piece.text else None
        deltas = []
        for call in piece.calls:
            arguments = write_arguments(call)
            self.current_tool_id += 1
            self.current_tool_name_sent = True
            # From these two lists, the server completes the arguments of the last call.
            self.prev_tool_call_arr.append({"name": call.name, "arguments": arguments})
            self.streamed_args_for_tool.append(arguments)
            function = self.types.DeltaFunctionCall(name=call.name, arguments=arguments)
            deltas.append(
                self.types.DeltaToolCall(
                    index=self.current_tool_id, id=make_id(call), type="function", function=function
                )
            )
        return self.types.DeltaMessage(content=piece.text or None, tool_calls=deltas)


def _may_call(request: Any) -> bool:
    return bool(request.tools) and request.tool_choice != "none"


def _is_function(tool: Any) -> bool:
    return getattr(tool, "type", "function") == "function"
