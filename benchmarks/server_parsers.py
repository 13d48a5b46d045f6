"""What a token costs inside vLLM or SGLang: the server's own parser and dragoman's, in the same run.

    python benchmarks/server_parsers.py [--rounds N]

Run it in an environment that has the server and dragoman; without a server it measures nothing. A reply of plain text,
and a call with a long string, arrive token by token through the classes of the server. CPU time in microseconds per
token: medians, and the median of the ratios of neighbouring runs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.peers.stand_in_tokenizer import make_tokenizer

from dragoman import formats

TOKENS = (250, 2_000)
TOOL = {
    "type": "function",
    "function": {
        "name": "write_file",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}},
    },
}
WORDS = "The tide comes in over the flats at four, and the boats that lay on their sides lift one by one. "
THEIRS = {
    "vllm": {
        "hermes": "hermes",
        "qwen3_coder": "qwen3_coder",
        "glm45": "glm45",
        "deepseek_v3": "deepseek_v3",
        "kimi_k2": "kimi_k2",
        "llama3_json": "llama3_json",
        "pythonic": "pythonic",
    },
    "sglang": {
        "hermes": "hermes",
        "qwen3_coder": "qwen3_coder",
        "glm45": "glm45",
        "deepseek_v3": "deepseekv3",
        "kimi_k2": "kimi_k2",
        "llama3_json": "llama3",
        "pythonic": "pythonic",
    },
}
"""The names of the servers' own parsers, by format."""

Token = tuple[str, list[int]]
Run = Callable[[str, list[Token]], int]
"""Reads a stream with the parser of this name, and returns how many calls came."""


def vllm_run(tokenizer: Any) -> Run:
    import_module("vllm.plugins").load_general_plugins()
    manager = import_module("vllm.parser.parser_manager").ParserManager
    make_request = import_module("vllm.entrypoints.openai.chat_completion.protocol").ChatCompletionRequest
    request = make_request(messages=[], model="any", tools=[TOOL], tool_choice="auto")

    def run(name: str, tokens: list[Token]) -> int:
        made = manager.get_parser(tool_parser_name=name, enable_auto_tools=True)
        parser = made(tokenizer, request.tools)
        calls: set[int] = set()
        for place, (text, numbers) in enumerate(tokens):
            is_last = place == len(tokens) - 1
            delta = parser.parse_delta(text, numbers, request, prompt_token_ids=[], finished=is_last)
            if delta is not None:
                calls.update(call.index for call in delta.tool_calls)
        return len(calls)

    return run


def sglang_run(tokenizer: Any) -> Run:
    import_module("sglang.srt.plugins").load_plugins()
    open_parser = import_module("sglang.srt.function_call.function_call_parser").FunctionCallParser
    tools = [import_module("sglang.srt.entrypoints.openai.protocol").Tool.model_validate(TOOL)]

    def run(name: str, tokens: list[Token]) -> int:
        parser = open_parser(tools, name, tokenizer=tokenizer)
        calls: set[int] = set()
        for text, _ in tokens:
            calls.update(call.tool_index for call in parser.parse_stream_chunk(text)[1])
        calls.update(call.tool_index for call in parser.parse_stream_end()[1])
        return len(calls)

    return run


def replies(format: str, tokens: int) -> Iterator[tuple[str, str]]:
    text = WORDS * (tokens // 12)
    yield "text", text
    yield "call", formats.render([("write_file", {"path": "a.txt", "content": text})], format)


def split(tokenizer: Any, text: str, most: int) -> list[Token]:
    found = [(tokenizer.decode([number]), [number]) for number in tokenizer.encode(text, add_special_tokens=False)]
    # The end of a call is needed as well.
    return found if len(found) <= most else [*found[: most - 40], *found[-40:]]


def measure(run: Run, ours: str, theirs: str, tokens: list[Token], rounds: int) -> tuple[float, float, float, str]:
    """Return the microseconds per token of dragoman and of the server, the ratio, and the calls that they found."""
    costs: dict[str, list[float]] = {ours: [], theirs: []}
    # The first use of a format compiles it.
    found = {name: run(name, tokens[-250:]) for name in costs}
    for _ in range(rounds):
        for name in costs:
            started = process_time()
            found[name] = run(name, tokens)
            costs[name].append((process_time() - started) / len(tokens) * 1e6)
    ratio = median(one / other for one, other in zip(costs[ours], costs[theirs], strict=True))
    return median(costs[ours]), median(costs[theirs]), ratio, f"{found[ours]}/{found[theirs]}"


def main() -> None:
    parser = argparse.ArgumentParser(description="What a token costs inside vLLM or SGLang.")
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    servers = {"vllm": vllm_run, "sglang": sglang_run}
    installed = [name for name in servers if find_spec(name) is not None]
    if not installed:
        print("neither vLLM nor SGLang is installed here: nothing to measure")
    logging.disable(logging.ERROR)
    for server in installed:
        texts = [text for name in THEIRS[server] for _, text in replies(name, 250)]
        tokenizer = make_tokenizer(texts, texts)
        run = servers[server](tokenizer)
        print(f"{server}: microseconds per token")
        print(f"{'format':13}{'reply':7}{'tokens':>7}{'dragoman':>10}{'auto':>8}{server:>9}{'ratio':>7}  calls")
        for format, theirs in THEIRS[server].items():
            for size in TOKENS:
                for kind, text in replies(format, size):
                    tokens = split(tokenizer, text, size)
                    ours, their, ratio, calls = measure(run, f"dragoman_{format}", theirs, tokens, rounds)
                    auto, *_ = measure(run, "dragoman", theirs, tokens, 1)
                    line = f"{format:13}{kind:7}{len(tokens):7}{ours:10.1f}{auto:8.1f}{their:9.1f}{ratio:7.3f}"
                    print(f"{line}  {calls}", flush=True)


if __name__ == "__main__":
    main()
