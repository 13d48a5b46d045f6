"""Labelled fences, and JSON without any marker."""

from __future__ import annotations

from dragoman.formats.bare import FencedMessage, JsonAnywhere, WholeMessage
from dragoman.formats.catalogue.json_rows import DEEPSEEK_DROP, DEEPSEEK_SECTION, DEEPSEEK_SPELLINGS
from dragoman.formats.improvised import NameThenBraces, NoisyTag
from dragoman.formats.row import Format
from dragoman.formats.writing import write_json_calls

_FENCES = ("```tool_call", "```tool-call", "```toolcall", "```invoke")

ROWS: tuple[Format, ...] = (
    Format(
        name="fenced",
        template="~~~tool_call\n{call}\n~~~",
        place="line",
        own_lines=True,
        aliases=("text_tagged",),
        family="I",
        models="any model that is asked to",
    ),
    # ---- I: labelled fences and bare JSON --------------------------------------------------------------------------
    Format(
        name="fenced_tool_call",
        template="```tool_call\n{call}\n```",
        also=(
            "```tool-call\n{call}\n```",
            "```toolcall\n{call}\n```",
            "```tool_code\n{call}\n```",
            "```invoke\n{call}\n```",
        ),
        spellings={"```": ("</tool_call>", "</tool-call>", "</toolcall>")},
        opens_line=True,
        entries=(NoisyTag("fenced_tool_call", _FENCES, ("```",), ends_line=True),),
        aliases=("markdown_fence",),
        family="I",
        models="local models, models behind routers",
    ),
    Format(
        name="fenced_tool_name",
        template="```tool {name}\n{args}\n```",
        spellings={"```": ("</tool_call>",)},
        place="line",
        family="I",
        models="Grok and local models",
    ),
    Format(
        name="llama3_json",
        template="<|python_tag|>{call}",
        keys=("name", "parameters"),
        separator="",
        drop=("<|eom_id|>", "<|eot_id|>"),
        named_entries=(JsonAnywhere("llama3_json"),),
        aliases=("python_tag",),
        family="I",
        models="Llama 3.1, 3.2, 3.3",
    ),
    Format(
        name="json_message",
        entries=(WholeMessage("json_message"), FencedMessage("json_message"), NameThenBraces()),
        writer=write_json_calls,
        aliases=("whole_json", "openai_json"),
        family="I",
        models="small models, Ollama's and MiniMax's tool_calls as text: the whole message is the call",
    ),
    Format(
        name="json",
        named_entries=(JsonAnywhere("json"),),
        writer=write_json_calls,
        aliases=("generic_json", "json_array"),
        family="I",
        models="any model under a JSON grammar",
        in_auto=False,
    ),
    Format(
        name="xlam",
        also=("[TOOL_CALLS] {calls}", "<tool_call>{calls}</tool_call>"),
        named_entries=(JsonAnywhere("xlam"),),
        writer=write_json_calls,
        family="B",
        models="xLAM-2",
        in_auto=False,
    ),
    Format(
        name="ollama_tools",
        template="<tool_call>\n{call}\n</tool_call>",
        also=(
            "[TOOL_CALLS] {calls}{?[/TOOL_CALLS]?}",
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```<｜tool▁call▁end｜>",
        ),
        spellings=DEEPSEEK_SPELLINGS,
        drop=(*DEEPSEEK_DROP, *DEEPSEEK_SECTION, "<|tool▁calls▁begin|>", "<|tool▁calls▁end|>"),
        entries=(WholeMessage("ollama_tools"),),
        family="I",
        models="whatever Ollama's generic parser is pointed at",
        in_auto=False,
    ),
)
