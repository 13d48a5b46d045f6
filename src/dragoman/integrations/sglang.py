"""Tool parsers for SGLang: `--tool-call-parser dragoman`, and `dragoman_<format>` for every format.

SGLang finds `register` by the entry point `sglang.srt.plugins`, and calls it in each of its processes before it reads
its arguments. There is no function to register a parser, so `register` adds to the table of the parsers.

The server asks `has_tool_call` about a whole reply before it lets a detector parse it, and does not pass the tools.
Therefore the answer is yes for every text that may contain a call in any format.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

from dragoman.integrations.server_replies import (
    NOTHING,
    Choice,
    Piece,
    ServerReply,
    as_toolset,
    find_grammar,
    may_hold_call,
    parser_formats,
    write_arguments,
)


def register() -> None:
    """Add the parsers to SGLang's table. SGLang calls this in every process."""
    table = import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser.ToolCallParserEnum
    for name, format in parser_formats().items():
        table[name] = make_detector(name, format)


@cache
def make_detector(name: str, format: str) -> Any:
    """Return the class of the detector for a format."""
    base = import_module("sglang.srt.function_call.base_format_detector").BaseFormatDetector
    types = import_module("sglang.srt.function_call.core_types")
    body = {"format": format, "types": types, "__doc__": f"Reads calls in the format {format}."}
    return type(name, (CallDetector, base), body)


class CallDetector:
    """The methods of `BaseFormatDetector`, its other base. The server makes one object for each reply."""

    format = "auto"
    types: Any
    """The module of SGLang with the types of a reply."""
    # What the other base has.
    current_tool_id: int
    prev_tool_call_arr: list[dict[str, Any]]
    streamed_args_for_tool: list[str]

    def __init__(self, tokenizer: Any = None) -> None:
        super().__init__()
        self._tokenizer = tokenizer
        self._choice: Choice | None = None
        self._reply: ServerReply | None = None
        self._nothing = self.types.StreamingParseResult(normal_text="", calls=[])

    # ---- the reply ---------------------------------------------------------------------------------------------------

    def has_tool_call(self, text: str) -> bool:
        return may_hold_call(text)

    def detect_and_parse(self, text: str, tools: Sequence[Any]) -> Any:
        piece = ServerReply(self.format, as_toolset(tools), self._choice).close(text)
        calls = [self._item(index, call.name, write_arguments(call)) for index, call in enumerate(piece.calls)]
        return self.types.StreamingParseResult(normal_text=piece.text, calls=calls)

    def parse_streaming_increment(self, new_text: str, tools: Sequence[Any]) -> Any:
        if self._reply is None:
            self._reply = ServerReply(self.format, as_toolset(tools), self._choice)
            self.current_tool_id = -1
            self.prev_tool_call_arr, self.streamed_args_for_tool = [], []
        return self._write(self._reply.feed(new_text))

    def finish(self, tools: Sequence[Any]) -> Any:
        """Return what only the end of the reply decides."""
        reply, self._reply = self._reply, None
        return self._write(NOTHING if reply is None else reply.close())

    def _write(self, piece: Piece) -> Any:
        if piece is NOTHING:
            return self._nothing
        items = []
        for call in piece.calls:
            arguments = write_arguments(call)
            self.current_tool_id += 1
            # From these two lists, the server completes the arguments of the last call.
            self.prev_tool_call_arr.append({"name": call.name, "arguments": arguments})
            self.streamed_args_for_tool.append(arguments)
            items.append(self._item(self.current_tool_id, call.name, arguments))
        return self.types.StreamingParseResult(normal_text=piece.text, calls=items)

    def _item(self, index: int, name: str, arguments: str) -> Any:
        return self.types.ToolCallItem(tool_index=index, name=name, parameters=arguments)

    # ---- required and named calls ------------------------------------------------------------------------------------

    def supports_structural_tag(self) -> bool:
        """The server leaves required and named calls to this detector, and asks for the tag that holds the model."""
        return True

    def get_required_tool_parser(self, tool_choice: Any) -> None:
        """Note the tool choice, which the server passes only here. There is no other parser."""
        self._choice = Choice.of(tool_choice)

    def get_structural_tag(
        self,
        tools: Sequence[Any] | None = None,
        tool_choice: Any = "auto",
        thinking_mode: bool = False,
        parallel_tool_calls: bool = True,
    ) -> Any:
        choice, offered = Choice.of(tool_choice), as_toolset(tools)
        grammar = None
        if choice is not None and offered is not None:
            template = str(getattr(self._tokenizer, "chat_template", None) or "")
            grammar = find_grammar(self.format, offered, choice, is_single=not parallel_tool_calls, template=template)
        held: dict[str, Any] = {"type": "any_text"} if grammar is None else {"type": "grammar", "grammar": grammar}
        return import_module("xgrammar").StructuralTag.model_validate({"type": "structural_tag", "format": held})

    def structure_info(self) -> Any:
        """Return nothing: the server asks for this only if there is no structural tag, and there always is one."""
        return None
