"""Read recorded outputs of models through the classes of vLLM or SGLang, whole and in tokens.

Run in the environment of the server: `python server_vectors.py vllm|sglang VECTORS`. Each output has to give the calls
of `formats.parse`, and the same calls and text whole and streamed. The last line is the result as JSON. With `--time`
it also measures the parsers of the server itself on the outputs in their formats.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.support.server_readers import SERVERS, split_into_tokens
from tests.peers.stand_in_tokenizer import make_tokenizer

from dragoman import formats


class Vector(NamedTuple):
    """A recorded output. `format` is `auto` if the output is in no format."""

    id: str
    text: str
    format: str
    tools: list[dict[str, Any]]


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


def judge(server: str, path: Path) -> dict[str, Any]:
    vectors = list(read_vectors(path))
    texts = [vector.text for vector in vectors]
    tokenizer = make_tokenizer(texts, texts)
    parsers = SERVERS[server](tokenizer)
    counts = {"vectors": 0, "tokens": 0, "whole": 0, "streamed": 0, "same_text": 0}
    wrong: list[str] = []
    for vector in vectors:
        parsed = formats.parse(vector.text, vector.format, vector.tools)
        wanted = [(call.name, call.arguments) for call in parsed.calls]
        pieces = split_into_tokens(tokenizer, vector.text) or [""]
        name = parser_name(vector.format)
        whole = parsers.read(vector.text, vector.tools, name)
        streamed = parsers.stream(pieces, vector.tools, name)
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
