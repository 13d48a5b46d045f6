"""The tool parsers for vLLM and SGLang, with small stand-ins for the classes of the servers.

`make test-peers` runs the same parsers inside the real servers.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
from tests.tables import each_row

from dragoman import formats
from dragoman.errors import DragomanError
from dragoman.integrations import sglang, vllm
from dragoman.integrations.server_replies import (
    DEFAULT,
    Choice,
    ServerReply,
    as_toolset,
    find_grammar,
    guess_format,
    has_grammar,
    may_hold_call,
    parser_formats,
)
from dragoman.toolset import Toolset

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        },
    },
}
TOOLS = as_toolset([WEATHER])
ONE = formats.render([("get_weather", {"city": "Paris"})], "hermes")
TWO = formats.render([("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome", "days": 2})], "hermes")
CUT = ONE[:40]


def read(text: str, format: str, size: int, tools: Toolset | None = TOOLS) -> tuple[str, list[tuple[str, Any]]]:
    reply = ServerReply(format, tools)
    pieces = [reply.feed(text[at : at + size]) for at in range(0, len(text), size)]
    pieces.append(reply.close())
    return "".join(piece.text for piece in pieces), [
        (call.name, call.arguments) for piece in pieces for call in piece.calls
    ]


@each_row(
    "text, sent",
    [
        ("Hello.\n\n", "Hello.\n\n"),
        ("  1 <", "  1 <"),
        (ONE, ""),
        (f"\n\n{ONE}\n", ""),
        (f"Let me look.\n\n{ONE}", "Let me look."),
        (f"Let me look. {ONE}", "Let me look. "),
        (f"{ONE}\nThank you!", "Thank you!"),
        (f"Intro\n{TWO}\nOutro\n", "Intro\n\nOutro"),
        (f"Look: {CUT}", f"Look: {CUT}"),
        (f"<think>Maybe {ONE}</think>\nNo.", f"<think>Maybe {ONE}</think>\nNo."),
        (f"<think>Yes.</think>\n\n{ONE}", "<think>Yes.</think>"),
        (f"Yes.\n</think>\n{ONE}<|im_end|>", "Yes.\n</think>"),
        ("Done.<|im_end|>", "Done."),
        ("<think:x1>Hm.</think:x1>Done.", "<think:x1>Hm.</think:x1>Done."),
    ],
)
def test_nothing_that_the_model_wrote_is_lost_but_markers_and_the_blanks_beside_a_call(text: str, sent: str) -> None:
    for size in (1, 3, 7, len(text)):
        assert read(text, "auto", size)[0] == sent, size


def test_any_pieces_give_the_calls_and_the_text_of_the_whole_reply_in_every_format() -> None:
    compared = 0
    for format in dict.fromkeys(formats.get(name).name for name in formats.names()):
        try:
            calls = formats.render([("get_weather", {"city": "Zürich ☃", "days": 3})], format)
        except DragomanError:
            continue
        for text in (calls, f"I will look.\n\n{calls}\n", calls[: len(calls) * 2 // 3]):
            whole = read(text, format, len(text))
            parsed = formats.parse(text, format, TOOLS)
            assert whole[1] == [(call.name, call.arguments) for call in parsed.calls], (format, text)
            for size in (1, 5):
                assert read(text, format, size) == whole, (format, text, size)
            assert may_hold_call(text) or not whole[1], (format, text)
            compared += 1
    assert compared > 150


# ---- inside a server -------------------------------------------------------------------------------------------------


class Base:
    """What both servers' base classes set up."""

    def __init__(self, tokenizer: Any = None, tools: Any = None) -> None:
        self.model_tokenizer = tokenizer
        self.tools = list(tools or ())
        self.current_tool_id = -1
        self.current_tool_name_sent = False
        self.prev_tool_call_arr: list[dict[str, Any]] = []
        self.streamed_args_for_tool: list[str] = []


class Manager:
    parsers: ClassVar[dict[str, tuple[str, str]]] = {}
    ToolCallParserEnum: ClassVar[dict[str, Any]] = {}

    @classmethod
    def register_lazy_module(cls, name: str, module: str, attribute: str) -> None:
        cls.parsers[name] = (module, attribute)


def make_type(name: str, **defaults: Any) -> Any:
    return lambda **values: SimpleNamespace(**{"type_name": name, **defaults, **values})


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules with the names that the plugins import."""
    types = {name: make_type(name) for name in ("FunctionCall", "ToolCall", "DeltaFunctionCall", "DeltaToolCall")}
    types["ExtractedToolCallInformation"] = make_type("ExtractedToolCallInformation")
    types["DeltaMessage"] = make_type("DeltaMessage", content=None, tool_calls=[])
    results = {name: make_type(name) for name in ("StreamingParseResult", "ToolCallItem")}
    tag = SimpleNamespace(model_validate=lambda value: value)
    contents: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.tool_parsers": {"ToolParser": Base, "ToolParserManager": Manager},
        "vllm.sampling_params": {"StructuredOutputsParams": make_type("StructuredOutputsParams")},
        vllm._PROTOCOLS[0]: types,
        "sglang.srt.function_call.function_call_parser": {"FunctionCallParser": Manager},
        "sglang.srt.function_call.base_format_detector": {"BaseFormatDetector": Base},
        "sglang.srt.function_call.core_types": results,
        "xgrammar": {"StructuralTag": tag},
    }
    for path, values in contents.items():
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            name = ".".join(parts[:end])
            if name not in contents or name == path:
                module = ModuleType(name)
                module.__dict__.update(values if name == path else {})
                monkeypatch.setitem(sys.modules, name, module)
    made = (vllm.make_parser, vllm._protocol, sglang.make_detector)
    for function in made:
        function.cache_clear()
    yield
    for function in made:
        function.cache_clear()


def ask(**values: Any) -> Any:
    return SimpleNamespace(
        **{
            "tools": [WEATHER],
            "tool_choice": "auto",
            "parallel_tool_calls": None,
            "skip_special_tokens": True,
            "structured_outputs": None,
            "response_format": None,
            **values,
        }
    )


def stream(parser: Any, text: str, request: Any, size: int = 4) -> list[Any]:
    deltas = [
        parser.extract_tool_calls_streaming("", "", text[at : at + size], (), (), (), request)
        for at in range(0, len(text), size)
    ]
    return [delta for delta in (*deltas, parser.finish_streaming()) if delta is not None]


@pytest.mark.usefixtures("servers")
def test_vllm_receives_each_call_once_and_its_counters_say_that_nothing_is_missing() -> None:
    vllm.register()
    vllm.register()
    assert Manager.parsers["dragoman_hermes"] == ("dragoman.integrations.vllm", "dragoman_hermes")
    assert set(Manager.parsers) == set(parser_formats()) >= {"dragoman", "dragoman_qwen3_coder", "dragoman_openai"}
    parser = vllm.dragoman(None, None)
    for _ in range(2):  # the second reply has a new state
        deltas = stream(parser, f"Look.\n{TWO}\nDone. 1 <", ask())
        calls = [call for delta in deltas for call in delta.tool_calls]
        assert [(call.index, call.function.name, call.function.arguments) for call in calls] == [
            (0, "get_weather", '{"city": "Paris"}'),
            (1, "get_weather", '{"city": "Rome", "days": 2}'),
        ]
        assert "".join(delta.content or "" for delta in deltas) == "Look.\n\nDone. 1 <"
        assert len({call.id for call in calls}) == 2
        assert parser.streamed_args_for_tool == [call["arguments"] for call in parser.prev_tool_call_arr]
        assert parser.current_tool_id == 1
    assert parser.finish_streaming() is None
    whole = parser.extract_tool_calls(f"Look.\n{TWO}\nDone. 1 <", ask())
    assert (whole.tools_called, len(whole.tool_calls), whole.content) == (True, 2, "Look.\n\nDone. 1 <")


@pytest.mark.usefixtures("servers")
@each_row("request_values", [{"tools": None}, {"tools": []}, {"tool_choice": "none"}])
def test_vllm_receives_the_text_untouched_where_it_would_throw_calls_away(request_values: dict[str, Any]) -> None:
    parser, request = vllm.dragoman_hermes(None, None), ask(**request_values)
    text = f"Look.\n{ONE}<|im_end|>\n"
    assert parser.adjust_request(request).skip_special_tokens
    assert parser.extract_tool_calls(text, request).content == text
    deltas = stream(parser, text, request)
    assert "".join(delta.content for delta in deltas) == text
    assert not any(delta.tool_calls for delta in deltas)


@pytest.mark.usefixtures("servers")
def test_a_required_or_named_call_is_held_to_the_grammar_of_the_format() -> None:
    named = SimpleNamespace(type="function", function=SimpleNamespace(name="get_weather"))
    flat = SimpleNamespace(type="function", name="get_weather")
    for choice in ("required", named, flat):
        request = vllm.dragoman_qwen3_coder(None, None).adjust_request(ask(tool_choice=choice, response_format="json"))
        assert "<function=" in request.structured_outputs.grammar, choice
        assert request.response_format is None
        assert not request.skip_special_tokens
        tag = sglang.make_detector("any", "qwen3_coder")().get_structural_tag([WEATHER], choice)
        assert tag["format"]["grammar"] == request.structured_outputs.grammar
    assert vllm.dragoman(None, None).adjust_request(ask()).structured_outputs is None
    assert sglang.make_detector("any", "auto")().get_structural_tag([WEATHER], "auto")["format"] == {"type": "any_text"}


@pytest.mark.usefixtures("servers")
def test_sglang_receives_the_same_calls_whole_and_streamed() -> None:
    sglang.register()
    detector = Manager.ToolCallParserEnum["dragoman_hermes"]()
    text = f"Look.\n{TWO}\nDone. 1 <"
    whole = detector.detect_and_parse(text, [WEATHER])
    results = [detector.parse_streaming_increment(piece, [WEATHER]) for piece in text]
    results.append(detector.finish([WEATHER]))
    assert [call for result in results for call in result.calls] == whole.calls
    assert [call.tool_index for call in whole.calls] == [0, 1]
    assert "".join(result.normal_text for result in results) == whole.normal_text == "Look.\n\nDone. 1 <"
    assert detector.streamed_args_for_tool == [call["arguments"] for call in detector.prev_tool_call_arr]
    assert detector.has_tool_call(text) and not detector.has_tool_call("It is sunny.")


@pytest.mark.usefixtures("servers")
def test_an_id_that_the_model_wrote_stays_and_a_made_one_fits_its_template() -> None:
    section = formats.render([("get_weather", {"city": "Paris"})], "kimi_k2")
    native = vllm.dragoman_kimi_k2(None, None).extract_tool_calls(section, ask()).tool_calls[0].id
    assert native.startswith("functions.get_weather:")
    mistral = formats.render([("get_weather", {"city": "Paris"})], "mistral_v11")
    made = vllm.dragoman(None, None).extract_tool_calls(mistral, ask()).tool_calls[0].id
    assert len(made) == 9 and made.isalnum()


# ---- grammars --------------------------------------------------------------------------------------------------------


@each_row(
    "template, format",
    [
        ("", "hermes"),
        ("{{ '<tool_call>\\n' }}{{ call | tojson }}\n</tool_call>", "hermes"),
        ("<tool_call>\n<function=x>\n<parameter=k>\nv\n</parameter>\n</function>\n</tool_call>", "qwen3_coder"),
        ("[TOOL_CALLS]name[ARGS]{}", "mistral_v11"),
        ("[TOOL_CALLS] [{}]", "mistral"),
        ("<|tool_call_begin|>id<|tool_call_argument_begin|>{}<|tool_call_end|>", "kimi_k2"),
    ],
)
def test_auto_takes_the_format_that_the_chat_template_shows(template: str, format: str) -> None:
    assert guess_format(template) == format


def test_every_format_has_a_grammar_for_required_calls_or_reads_those_of_another() -> None:
    assert TOOLS is not None
    default = formats.render([("get_weather", {"city": "Paris"})], DEFAULT)
    replaced = [name for name in formats.names() if not has_grammar(name)]
    assert {"kimi_k3", "minimax_m3", "perl", "xml_attributes"} <= set(replaced) and len(replaced) < 12
    for name in parser_formats().values():
        grammar = find_grammar(name, TOOLS, Choice(), is_single=True)
        assert grammar is not None and "get_weather" in grammar, name
    for name in replaced:
        piece = ServerReply(name, TOOLS, Choice()).close(default)
        assert [(call.name, call.arguments) for call in piece.calls] == [("get_weather", {"city": "Paris"})], name


# ---- installation ----------------------------------------------------------------------------------------------------


def test_the_servers_find_the_plugins_and_nothing_of_a_server_is_imported_before(root: Path) -> None:
    points = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    assert points["vllm.general_plugins"] == {"dragoman": "dragoman.integrations.vllm:register"}
    assert points["sglang.srt.plugins"] == {"dragoman": "dragoman.integrations.sglang:register"}
    program = (
        "import sys; import dragoman.integrations.vllm as v, dragoman.integrations.sglang as s;"
        "assert callable(v.register) and callable(s.register);"
        "assert not {'vllm', 'sglang', 'torch', 'xgrammar'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
