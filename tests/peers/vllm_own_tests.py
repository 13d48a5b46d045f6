"""A plugin of pytest that runs vLLM's own tests of tool parsers, with the parsers of dragoman in place of vLLM's.

Run in the environment of vLLM, in the folder of its source: `pytest -p vllm_own_tests tests/tool_parsers`. With
`JUDGED=vllm` the tests run with vLLM's parsers. `RESULT` names a file for the outcome of each test. In both cases:

- One stand-in tokenizer takes the place of the tokenizers of about 16 models, which would have to be downloaded. It is
  trained on the texts of the tests, and holds the markers of the formats as tokens.
- The streams end with `finish_streaming()`, as in vLLM's server, for parsers that have it. The driver of the tests
  does not call it.

Most tests pass no tools in the request. A server never returns calls for such a request, so the parsers of dragoman
leave its text alone; here they read it.
"""

from __future__ import annotations

import importlib
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from stand_in_tokenizer import make_tokenizer

RENAMED = {
    "granite-20b-fc": "granite_20b_fc",
    "phi4_mini_json": "phi4",
    "qwen3_json": "hermes",
    "qwen3_xml": "qwen3_coder",
    "llama4_json": "llama3_json",
    "openai": "harmony",
}
"""vLLM's names of formats that dragoman knows by another name."""
HELPERS = ("test_utils.py", "test_structural_tag_registry.py")
"""Tests of vLLM's helpers, not of a parser."""


def pytest_configure(config: pytest.Config) -> None:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    replace_tokenizers()
    if os.environ.get("JUDGED") != "vllm":
        replace_parsers()
    flush_streams()


_outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        # vLLM expects that its own parser fails this test, and counts it as a failure if a parser passes.
        is_better = report.outcome == "failed" and "[XPASS(strict)]" in str(report.longrepr)
        _outcomes[report.nodeid] = "better" if is_better else report.outcome


def pytest_sessionfinish() -> None:
    if "RESULT" in os.environ:
        Path(os.environ["RESULT"]).write_text(json.dumps(_outcomes), encoding="utf-8")


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if collection_path.name in HELPERS else None


def replace_parsers() -> None:
    from vllm.tool_parsers import _TOOL_PARSERS_TO_REGISTER, ToolParserManager

    from dragoman import formats

    known = set(formats.names())
    for name, (module, attribute) in _TOOL_PARSERS_TO_REGISTER.items():
        format = RENAMED.get(name, name)
        if format in known:
            ours = judged_parser(format)
            ToolParserManager.tool_parsers[name] = ours
            setattr(importlib.import_module(f"vllm.tool_parsers.{module}"), attribute, ours)


@cache
def judged_parser(format: str) -> Any:
    from dragoman.integrations import vllm

    parser = getattr(vllm, f"dragoman_{format}")
    return type(f"Judged_{format}", (parser,), {"reads": lambda self, request: True})


def flush_streams() -> None:
    """End the streams of the tests' driver as the server does."""
    from tests.tool_parsers import utils

    original = utils.run_tool_extraction_streaming

    def run(tool_parser: Any, *arguments: Any, **options: Any) -> Any:
        reconstructor = original(tool_parser, *arguments, **options)
        if getattr(tool_parser, "engine_based_streaming", False) and hasattr(tool_parser, "finish_streaming"):
            delta = tool_parser.finish_streaming()
            if delta is not None:
                reconstructor.append_delta(delta)
        return reconstructor

    utils.run_tool_extraction_streaming = run


# ---- the tokenizer ---------------------------------------------------------------------------------------------------


def replace_tokenizers() -> None:
    import transformers
    import vllm.tokenizers

    def load(*_: Any, **__: Any) -> Any:
        return stand_in()

    transformers.AutoTokenizer.from_pretrained = load
    vllm.tokenizers.get_tokenizer = load


@cache
def stand_in() -> Any:
    import vllm.tool_parsers

    def read(folder: Path) -> list[str]:
        return [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py"))]

    return make_tokenizer(read(Path("tests/tool_parsers")), read(Path(vllm.tool_parsers.__file__).parent))
