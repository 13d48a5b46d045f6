"""Formats that write calls in Python, and Gemma's notation."""

from __future__ import annotations

from dragoman.formats.odd.gemma import GemmaCalls, GemmaWriter
from dragoman.formats.odd.python_entries import ListedCalls, MarkedCalls, MessageCalls
from dragoman.formats.odd.python_writing import writer
from dragoman.formats.row import THINK, Format

_GEMMA4 = GemmaCalls("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>')
_FUNCTIONGEMMA = GemmaCalls("functiongemma", "<start_function_call>", "<end_function_call>", "<escape>")

ROWS: tuple[Format, ...] = (
    Format(
        name="pythonic",
        entries=(
            MarkedCalls("pythonic", ("<|python_start|>",), ("<|python_end|>",), closer_required=False),
            ListedCalls("pythonic", gated=True),
        ),
        named_entries=(ListedCalls("pythonic", openers=("[",), place="anywhere", gated=False),),
        writer=writer("[", "]"),
        drop=("<|python_end|>",),
        aliases=("llama4_pythonic",),
        family="E",
        models="Llama 3.2, Llama 4, ToolACE, Gemma 2 and 3 with tool prompts",
        note="Under `auto` the list must begin a line and name offered tools; named, it may begin anywhere.",
    ),
    Format(
        name="lfm2",
        entries=(MarkedCalls("lfm2", ("<|tool_call_start|>",), ("<|tool_call_end|>",)),),
        writer=writer("<|tool_call_start|>[", "]<|tool_call_end|>"),
        family="E",
        models="Liquid LFM2, LFM2.5",
    ),
    Format(
        name="olmo3",
        entries=(
            MarkedCalls("olmo3", ("<function_calls>",), ("</function_calls>",)),
            MessageCalls("olmo3"),
        ),
        writer=writer("<function_calls>\n", "\n</function_calls>", separator="\n"),
        family="E",
        models="AI2 Olmo 3",
    ),
    Format(
        name="llama3_builtin",
        entries=(
            MarkedCalls(
                "llama3_builtin",
                ("<|python_tag|>",),
                ("<|eom_id|>", "<|eot_id|>"),
                closer_required=False,
                json=False,
                method=".call",
            ),
        ),
        writer=writer("<|python_tag|>", "<|eom_id|>", separator="; ", method=".call"),
        family="E",
        models="Llama 3.1 and later, built-in tools",
    ),
    Format(
        name="tool_code",
        entries=(
            MarkedCalls("tool_code", ("```tool_code",), ("\n```",), place="line", code=True),
            MarkedCalls("tool_code", ("<tool_code>",), ("</tool_code>",), code=True),
        ),
        writer=writer("```tool_code\n", "\n```", separator="\n"),
        aliases=("gemma_tool_code",),
        family="E",
        models="Gemma 2 and 3 when prompted, leaks of Gemini",
    ),
    Format(
        name="gemma4",
        entries=(_GEMMA4,),
        writer=GemmaWriter(_GEMMA4),
        thinking=(
            ("<|channel>thought\n", "<channel|>"),
            ("<|channel>thought", "<channel|>"),
            ("<|channel>", "<channel|>"),
            *THINK,
        ),
        drop=("<tool_call|>", "<|tool_response>"),
        family="G",
        models="Gemma 4",
    ),
    Format(
        name="functiongemma",
        entries=(_FUNCTIONGEMMA,),
        writer=GemmaWriter(_FUNCTIONGEMMA),
        drop=("<end_function_call>",),
        family="G",
        models="FunctionGemma 270M",
    ),
)
