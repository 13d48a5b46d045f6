"""Rows of formats that carry JSON: in a tag, as a list after a marker, or after the tool's name."""

from __future__ import annotations

from dragoman.formats.improvised.entry import Definitions
from dragoman.formats.plan import compile_entry
from dragoman.formats.readers.python import MarkedCalls
from dragoman.formats.template import THINK, Format
from dragoman.formats.unmarked import JsonAnywhere, LoneName


def _plain_bars(*literals: str) -> dict[str, tuple[str, ...]]:
    """Return the spellings with ASCII bars, underscores or blanks, as distilled models and some hosts write them."""
    return {
        literal: tuple(
            dict.fromkeys(
                (
                    literal.replace("｜", "|"),
                    literal.replace("｜", "|").replace("▁", "_"),
                    *((literal.replace("▁", " "), literal.replace("▁", "_")) if "▁" in literal else ()),
                )
            )
        )
        for literal in literals
    }


DEEPSEEK_SECTION = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
DEEPSEEK_SPELLINGS = _plain_bars(
    *DEEPSEEK_SECTION,
    "<｜tool▁call▁begin｜>",
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
)
_FENCE_END = "```<｜tool▁call▁end｜>"
_FENCE_ENDS = (_FENCE_END, *_plain_bars(_FENCE_END)[_FENCE_END])
# Some write the end of the call on a line of its own.
DEEPSEEK_SPELLINGS[_FENCE_END] = (*_FENCE_ENDS[1:], *(end.replace("```", "```\n") for end in _FENCE_ENDS))
DEEPSEEK_DROP = ("<｜end▁of▁sentence｜>", "<|end▁of▁sentence|>", "<｜tool▁outputs▁begin｜>")
_TAG_CLOSERS = (
    "</toolcall>",
    "</tool-call>",
    "</invoke>",
    "</tool_calls>",
    "</minimax:toolcall>",
    "</minimax:tool_call>",
)

ROWS: tuple[Format, ...] = (
    # ---- A: a JSON object in a tag ---------------------------------------------------------------------------------
    Format(
        name="hermes",
        template="<tool_call>\n{call}\n</tool_call>",
        spellings={"</tool_call>": _TAG_CLOSERS},
        aliases=("qwen2.5", "trinity", "granite4", "reka_edge"),
        family="A",
        models="Hermes 2/3, Qwen2.5, QwQ, Qwen3, SmolLM3, Granite 4, Reka Edge, Bielik and many fine-tunes",
    ),
    Format(
        name="longcat",
        template="<longcat_tool_call>{call}</longcat_tool_call>",
        thinking=(("<longcat_think>", "</longcat_think>"), *THINK),
        family="A",
        models="LongCat-Flash",
    ),
    Format(
        name="ernie45",
        template="<tool_call>\n{call}\n</tool_call>",
        drop=("<response>", "</response>"),
        family="A",
        models="ERNIE 4.5",
        in_auto=False,
    ),
    Format(
        name="internlm",
        template="<|action_start|><|plugin|>\n{call}<|action_end|>",
        spellings={"<|action_start|><|plugin|>": ("<|action_start|> <|plugin|>",)},
        keys=("name", "parameters"),
        aliases=("internlm2",),
        family="A",
        models="InternLM2, 2.5, 3, Intern-S1",
    ),
    Format(
        name="tool_call_tags",
        template="<toolcall>{call}</toolcall>",
        also=(
            "<tool-call>{call}</tool-call>",
            "<invoke>{call}</invoke>",
            "<tool_code>{call}</tool_code>",
            "<FunctionCall>{call}</FunctionCall>",
            "<functioncall>{call}</functioncall>",
        ),
        spellings={
            closer: ("</tool_call>", *(other for other in _TAG_CLOSERS if other != closer))
            for closer in ("</toolcall>", "</tool-call>", "</invoke>")
        },
        entries=(
            Definitions(),
            MarkedCalls("tool_call_tags", ("<tool_call>",), ("</tool_call>",), json=False),
        ),
        aliases=("toolcall",),
        family="A",
        models="fine-tunes and small models that misspell the tag",
    ),
    Format(
        name="granite_20b_fc",
        template="<function_call> {call}{?</function_call>?}",
        strict_envelope=True,
        separator=" ",
        aliases=("function_call",),
        family="A",
        models="granite-20b-functioncalling",
    ),
    # ---- B: a JSON list after a marker -----------------------------------------------------------------------------
    Format(
        name="phi4",
        template="functools{calls}",
        entries=(compile_entry(Format(name="phi4", strict_envelope=True), "functools{call}"),),
        aliases=("functools", "firefunction_v2"),
        family="B",
        models="Phi-4-mini, FireFunction v2",
    ),
    Format(
        name="mistral",
        template="[TOOL_CALLS] {calls}{?[/TOOL_CALLS]?}",
        also=("[TOOL_CALLS]{name}{?[CALL_ID]{id}?}{?[ARGS]?}{args}",),
        entries=(LoneName("mistral", "[TOOL_CALLS]"),),
        thinking=(("[THINK]", "[/THINK]"), *THINK),
        named_entries=(JsonAnywhere("mistral"),),
        aliases=("mistral_v3",),
        family="B",
        models="Mistral-7B v0.3, Mixtral, Nemo, Small 3, Large 2",
    ),
    Format(
        name="mistral_v11",
        template="[TOOL_CALLS]{name}{?[CALL_ID]{id}?}{?[ARGS]?}{args}",
        also=("[TOOL_CALLS] {calls}{?[/TOOL_CALLS]?}",),
        entries=(LoneName("mistral_v11", "[TOOL_CALLS]"),),
        thinking=(("[THINK]", "[/THINK]"), *THINK),
        separator="",
        family="C",
        models="Mistral Small 3.2, Magistral, Devstral, Ministral 3, Large 3",
    ),
    Format(
        name="jamba",
        template="<tool_calls>{calls}</tool_calls>",
        also=("<tool_calls>{call}</tool_calls>",),
        aliases=("minimax_m1",),
        family="B",
        models="Jamba 1.5 to 1.7; MiniMax-M1 writes objects in lines",
    ),
    Format(
        name="hunyuan_a13b",
        template="<tool_calls>{calls}</tool_calls>",
        drop=("<answer>", "</answer>"),
        family="B",
        models="Hunyuan-A13B",
        in_auto=False,
    ),
    Format(
        name="apriel",
        template="<tool_calls>{calls}</tool_calls>",
        thinking=(("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"), *THINK),
        drop=("[END FINAL RESPONSE]",),
        family="B",
        models="Apriel 1.5, 1.6",
    ),
    Format(
        name="granite",
        template="<|tool_call|> {calls}",
        also=("<tool_call> {calls}{?</tool_call>?}",),
        thinking=(("Here is my thought process:", "Here is my response:"), *THINK),
        named_entries=(JsonAnywhere("granite", openers=("[",)),),
        aliases=("granite3",),
        family="B",
        models="Granite 3.0 to 3.3",
    ),
    Format(
        name="hyperclova",
        template="-> tool/function_call\n{calls}",
        aliases=("hyperclovax",),
        family="B",
        models="HyperCLOVA X SEED Think 14B",
    ),
    Format(
        name="nemotron_toolcall",
        template="<TOOLCALL>{calls}</TOOLCALL>",
        aliases=("nemotron",),
        family="B",
        models="Nemotron Nano v2, Llama-Nemotron",
    ),
    Format(
        name="apertus",
        template="<|tools_prefix|>{calls}<|tools_suffix|>",
        name_is_key=True,
        thinking=(("<|inner_prefix|>", "<|inner_suffix|>"),),
        family="B",
        models="Apertus",
    ),
    Format(
        name="sarashina",
        template="<|tool_calls|>{calls}",
        named_entries=(JsonAnywhere("sarashina", openers=("[",)),),
        family="B",
        models="Sarashina 2",
    ),
    Format(
        name="cohere_command4",
        template="<|START_ACTION|>{calls}<|END_ACTION|>",
        also=("<|START_ACTION|>{call}<|END_ACTION|>",),
        keys=("tool_name", "parameters"),
        id_key="tool_call_id",
        thinking=(("<|START_THINKING|>", "<|END_THINKING|>"),),
        drop=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>", "<|END_OF_TURN_TOKEN|>"),
        aliases=("cohere_command3", "cohere_command_r7b", "cohere2"),
        family="B",
        models="Command R7B, Command A, Command 4",
    ),
    # ---- C: a marker, the name, then JSON --------------------------------------------------------------------------
    Format(
        name="kimi_k2",
        template="<|tool_call_begin|>{id}<|tool_call_argument_begin|>{args}<|tool_call_end|>",
        section=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
        spellings={
            "<|tool_calls_section_begin|>": ("<|tool_call_section_begin|>",),
            "<|tool_calls_section_end|>": ("<|tool_call_section_end|>",),
        },
        separator="",
        family="C",
        models="Kimi K2, K2-Thinking, K2.5 and later",
    ),
    Format(
        name="deepseek_v3",
        template="<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```<｜tool▁call▁end｜>",
        # The distilled models write the tags of their base models.
        also=(
            "<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜>",
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n{args}\n<｜tool▁call▁end｜>",
            "<tool_call>\n{call}\n</tool_call>",
        ),
        section=DEEPSEEK_SECTION,
        spellings=DEEPSEEK_SPELLINGS,
        drop=DEEPSEEK_DROP,
        aliases=("deepseek_r1",),
        family="C",
        models="DeepSeek V3, R1, R1-0528 and distilled models",
    ),
    Format(
        name="deepseek_v31",
        template="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{args}<｜tool▁call▁end｜>",
        also=("<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{args}\n```<｜tool▁call▁end｜>",),
        section=DEEPSEEK_SECTION,
        spellings=DEEPSEEK_SPELLINGS,
        drop=DEEPSEEK_DROP,
        separator="",
        aliases=("cogito",),
        family="C",
        models="DeepSeek V3.1, Cogito 2",
    ),
    Format(
        name="gigachat3",
        template="function call<|role_sep|>\n{call}",
        also=("<|function_call|>{call}",),
        strict_envelope=True,
        drop=("<|message_sep|>",),
        family="C",
        models="GigaChat 3",
    ),
    Format(
        name="gigachat31",
        template="<|function_call|>{call}",
        drop=("<|message_sep|>",),
        family="C",
        models="GigaChat 3.1",
    ),
    Format(
        name="plamo3",
        template="<|plamo:begin_tool_request:plamo|><|plamo:begin_tool_name:plamo|>{name}<|plamo:end_tool_name:plamo|><|plamo:begin_tool_arguments:plamo|>{?<|plamo:constrain|>json?}{?<|plamo:msg|>?}{args}<|plamo:end_tool_arguments:plamo|><|plamo:end_tool_request:plamo|>",
        section=("<|plamo:begin_tool_requests:plamo|>", "<|plamo:end_tool_requests:plamo|>"),
        thinking=(("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),),
        separator="",
        family="C",
        models="PLaMo 3",
    ),
    Format(
        name="solar_open",
        template="<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{args}<|tool_call:end|>",
        section=("<|tool_calls|>", ""),
        separator="",
        family="C",
        models="Solar Open",
    ),
    Format(
        name="functionary_v31",
        template="<function={name}>{args}</function>",
        family="C",
        models="Functionary v3.1, Llama 3.1 with custom tags",
    ),
)
