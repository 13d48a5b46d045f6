"""Read recorded outputs of models through the classes of vLLM or SGLang, whole and in tokens.

Run in the environment of the server: `python server_vectors.py vllm|sglang VECTORS`. Each output has to give the calls
of `formats.parse`, and the same calls and text whole and streamed. The last line is the result as JSON. With `--time`
it also measures the parsers of the server itself on the outputs in their formats.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from stand_in_tokenizer import make_tokenizer

from dragoman import formats

Calls = list[tuple[str, Any]]


class Vector(NamedTuple):
    """A recorded output. `format` is `auto` if the output is in no format."""

    id: str
    text: str
    format: str
    tools: list[dict[str, Any]]


class Reading(NamedTuple):
    text: str
    calls: Calls


Reader = Callable[[Vector, str], Reading]
Streamer = Callable[[Vector, str, list[str]], Reading]


def read_vectors(path: Path) -> Iterator[Vector]:
    known = set(formats.names())
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            format = "auto" if row["format"].startswith(("improvised", "?")) else row["format"]
            if format == "auto" or format in known:
                yield Vector(row["id"], row["model_output"], format, offered(row))


def offered(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the recorded tools; without any, tools with the expected names, because a server asks for tools."""
    tools = [
        tool for tool in row.get("tools") or [] if isinstance(tool, dict) and (tool.get("function") or {}).get("name")
    ]
    names = sorted({call["name"] for call in row.get("expected_calls") or [] if call.get("name")}) or ["noop"]
    return tools or [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in names
    ]


def parser_name(format: str) -> str:
    return "dragoman" if format == "auto" else f"dragoman_{format}"


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


# ---- the servers -----------------------------------------------------------------------------------------------------


def vllm_readers(tokenizer: Any) -> tuple[Reader, Streamer]:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.parser.parser_manager import ParserManager
    from vllm.plugins import load_general_plugins

    load_general_plugins()

    def open_parser(vector: Vector, name: str) -> tuple[Any, Any]:
        request = ChatCompletionRequest(messages=[], model="any", tools=vector.tools, tool_choice="auto")
        made = ParserManager.get_parser(tool_parser_name=name, enable_auto_tools=True)
        assert made is not None
        parser = made(tokenizer, request.tools)
        return parser, parser.adjust_request(request)

    def read(vector: Vector, name: str) -> Reading:
        parser, request = open_parser(vector, name)
        _, content, calls = parser.parse(vector.text, request, enable_auto_tools=True)
        return Reading(content or "", [(call.name, json.loads(call.arguments)) for call in calls or ()])

    def stream(vector: Vector, name: str, pieces: list[str]) -> Reading:
        parser, request = open_parser(vector, name)
        text, calls = "", {}
        for place, piece in enumerate(pieces):
            numbers = tokenizer.encode(piece, add_special_tokens=False)
            is_last = place == len(pieces) - 1
            delta = parser.parse_delta(piece, numbers, request, prompt_token_ids=[], finished=is_last)
            text += (delta.content or "") if delta else ""
            for call in delta.tool_calls if delta else ():
                name_so_far, arguments = calls.get(call.index, ("", ""))
                calls[call.index] = (
                    name_so_far + (call.function.name or ""),
                    arguments + (call.function.arguments or ""),
                )
        return Reading(text, [(name, json.loads(arguments)) for _, (name, arguments) in sorted(calls.items())])

    return read, stream


def sglang_readers(tokenizer: Any) -> tuple[Reader, Streamer]:
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.plugins import load_plugins

    load_plugins()

    def open_parser(vector: Vector, name: str) -> Any:
        return FunctionCallParser([Tool.model_validate(tool) for tool in vector.tools], name, tokenizer=tokenizer)

    def read(vector: Vector, name: str) -> Reading:
        parser = open_parser(vector, name)
        if not parser.has_tool_call(vector.text):
            return Reading(vector.text, [])
        text, calls = parser.parse_non_stream(vector.text)
        return Reading(text, [(call.name, json.loads(call.parameters)) for call in calls])

    def stream(vector: Vector, name: str, pieces: list[str]) -> Reading:
        parser = open_parser(vector, name)
        text, calls = "", {}
        for step in [
            *(lambda piece=piece: parser.parse_stream_chunk(piece) for piece in pieces),
            parser.parse_stream_end,
        ]:
            more, items = step()
            text += more
            for item in items:
                name_so_far, arguments = calls.get(item.tool_index, ("", ""))
                calls[item.tool_index] = (name_so_far + (item.name or ""), arguments + item.parameters)
        return Reading(text, [(name, json.loads(arguments)) for _, (name, arguments) in sorted(calls.items())])

    return read, stream


SERVERS = {"vllm": vllm_readers, "sglang": sglang_readers}


def judge(server: str, path: Path) -> dict[str, Any]:
    vectors = list(read_vectors(path))
    texts = [vector.text for vector in vectors]
    tokenizer = make_tokenizer(texts, texts)
    read, stream = SERVERS[server](tokenizer)
    counts = {"vectors": 0, "tokens": 0, "whole": 0, "streamed": 0, "same_text": 0}
    wrong: list[str] = []
    for vector in vectors:
        parsed = formats.parse(vector.text, vector.format, vector.tools)
        wanted: Calls = [(call.name, call.arguments) for call in parsed.calls]
        pieces = split_into_tokens(tokenizer, vector.text) or [""]
        name = parser_name(vector.format)
        whole, streamed = read(vector, name), stream(vector, name, pieces)
        counts["vectors"] += 1
        counts["tokens"] += len(pieces)
        counts["whole"] += whole.calls == wanted
        counts["streamed"] += streamed.calls == wanted
        # A whole answer of blanks alone has no content.
        counts["same_text"] += whole.text == streamed.text or not (whole.text + streamed.text).strip()
        if not (whole.calls == streamed.calls == wanted and whole.text.strip() == streamed.text.strip()):
            wrong.append(vector.id)
    return {**counts, "wrong": wrong}


def main() -> None:
    print(json.dumps(judge(sys.argv[1], Path(sys.argv[2]))))


if __name__ == "__main__":
    main()
