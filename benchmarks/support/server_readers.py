"""The parsers of vLLM and SGLang behind one interface. It runs in the environment of the server, without dragoman.

A reader takes a whole output; a streamer takes it in pieces. Both return the text and the calls. Arguments that are no
JSON raise `NotJson`: the parser passed them on, and a client cannot read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, NamedTuple

Calls = list[tuple[str, Any]]
Tools = list[dict[str, Any]]


class NotJson(ValueError):
    """The arguments of a call are no JSON."""


class Reading(NamedTuple):
    text: str
    calls: Calls


Step = Callable[[str, list[int], bool], Any]
"""Takes a piece, the numbers of its tokens, and whether it is the last one. Returns what the server would send."""


class Server(NamedTuple):
    """The parsers of a server. The last argument of each function is the name of a parser."""

    read: Callable[[str, Tools, str], Reading]
    stream: Callable[[list[str], Tools, str], Reading]
    open: Callable[[Tools, str], Step]
    """Opens a stream."""
    names: Callable[[], list[str]]


def _decode(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError as error:
        raise NotJson(str(error)) from None


def split_into_tokens(tokenizer: Any, text: str) -> list[str]:
    """Return the text of each token. A token that ends inside a character adds its text to the next."""
    pieces, held = [], []
    for number in tokenizer.encode(text, add_special_tokens=False):
        held.append(number)
        piece = tokenizer.decode(held)
        if not piece.endswith("�"):
            pieces.append(piece)
            held = []
    return [*pieces, tokenizer.decode(held)] if held else pieces


class _Prepared:
    """What a server makes of the tools of a request once: it is not the work of a parser."""

    def __init__(self, make: Callable[[Tools], Any]) -> None:
        self._make = make
        self._kept: dict[int, tuple[Tools, Any]] = {}

    def get(self, tools: Tools) -> Any:
        kept = self._kept.get(id(tools))
        if kept is None or kept[0] is not tools:
            kept = self._kept[id(tools)] = (tools, self._make(tools))
        return kept[1]


def _feed(step: Step, tokenizer: Any, pieces: list[str]) -> list[Any]:
    numbers = [tokenizer.encode(piece, add_special_tokens=False) for piece in pieces]
    last = len(pieces) - 1
    return [step(piece, numbers[place], place == last) for place, piece in enumerate(pieces)]


def _join(deltas: Iterable[tuple[str, Iterable[tuple[int, str | None, str | None]]]]) -> Reading:
    """Join deltas by the index of the call, as a client does."""
    text = ""
    calls: dict[int, tuple[str, str]] = {}
    for more, parts in deltas:
        text += more
        for index, name, arguments in parts:
            name_so_far, so_far = calls.get(index, ("", ""))
            calls[index] = (name_so_far + (name or ""), so_far + (arguments or ""))
    return Reading(text, [(name, _decode(arguments)) for _, (name, arguments) in sorted(calls.items())])


def open_vllm(tokenizer: Any) -> Server:
    import_module("vllm.plugins").load_general_plugins()
    manager = import_module("vllm.parser.parser_manager").ParserManager
    make_request = import_module("vllm.entrypoints.openai.chat_completion.protocol").ChatCompletionRequest

    requests = _Prepared(lambda tools: make_request(messages=[], model="any", tools=tools, tool_choice="auto"))

    def open_parser(tools: Tools, name: str) -> tuple[Any, Any]:
        request = requests.get(tools)
        made = manager.get_parser(tool_parser_name=name, enable_auto_tools=True)
        parser = made(tokenizer, request.tools)
        return parser, parser.adjust_request(request)

    def read(text: str, tools: Tools, name: str) -> Reading:
        parser, request = open_parser(tools, name)
        _, content, calls = parser.parse(text, request, enable_auto_tools=True)
        return Reading(content or "", [(call.name, _decode(call.arguments)) for call in calls or ()])

    def open_stream(tools: Tools, name: str) -> Step:
        parser, request = open_parser(tools, name)

        def step(piece: str, numbers: list[int], is_last: bool) -> Any:
            return parser.parse_delta(piece, numbers, request, prompt_token_ids=[], finished=is_last)

        return step

    def stream(pieces: list[str], tools: Tools, name: str) -> Reading:
        deltas = _feed(open_stream(tools, name), tokenizer, pieces)
        return _join(
            (
                delta.content or "",
                [(call.index, call.function.name, call.function.arguments) for call in delta.tool_calls],
            )
            for delta in deltas
            if delta is not None
        )

    def names() -> list[str]:
        return sorted(import_module("vllm.tool_parsers").ToolParserManager.list_registered())

    return Server(read, stream, open_stream, names)


def open_sglang(tokenizer: Any) -> Server:
    import_module("sglang.srt.plugins").load_plugins()
    make_parser = import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
    make_tool = import_module("sglang.srt.entrypoints.openai.protocol").Tool.model_validate

    prepared = _Prepared(lambda tools: [make_tool(tool) for tool in tools])

    def open_parser(tools: Tools, name: str) -> Any:
        return make_parser(prepared.get(tools), name, tokenizer=tokenizer)

    def read(text: str, tools: Tools, name: str) -> Reading:
        parser = open_parser(tools, name)
        if not parser.has_tool_call(text):
            return Reading(text, [])
        rest, calls = parser.parse_non_stream(text)
        return Reading(rest, [(call.name, _decode(call.parameters)) for call in calls])

    def open_stream(tools: Tools, name: str) -> Step:
        parser = open_parser(tools, name)

        def step(piece: str, numbers: list[int], is_last: bool) -> Any:
            text, calls = parser.parse_stream_chunk(piece)
            if is_last:
                more, others = parser.parse_stream_end()
                text, calls = text + more, [*calls, *others]
            return text, calls

        return step

    def stream(pieces: list[str], tools: Tools, name: str) -> Reading:
        deltas = _feed(open_stream(tools, name), tokenizer, pieces)
        return _join(
            (text, [(call.tool_index, call.name, call.parameters) for call in calls]) for text, calls in deltas
        )

    def names() -> list[str]:
        return sorted(make_parser.ToolCallParserEnum)

    return Server(read, stream, open_stream, names)


SERVERS: dict[str, Callable[[Any], Server]] = {"vllm": open_vllm, "sglang": open_sglang}
