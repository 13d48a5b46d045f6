"""Rows of formats with labelled fences, bare JSON, channels, Python notation and lines."""

from __future__ import annotations

from dragoman.formats.catalogue.json_rows import DEEPSEEK_DROP, DEEPSEEK_SECTION, DEEPSEEK_SPELLINGS
from dragoman.formats.readers.channels import (
    FirstRecipient,
    FirstWord,
    Harmony,
    HarmonyRecipient,
    InklingHeader,
    KimiK3,
    MuseGlimmer,
    MuseGlimmerRecipient,
    Recipient,
)
from dragoman.formats.readers.elements import (
    M3_TOKEN,
    BareElement,
    InlineAttributes,
    MinimaxM3,
    SelfClosing,
    TaggedElement,
    TagWithName,
)
from dragoman.formats.readers.gemma import GemmaCalls
from dragoman.formats.readers.lines import (
    CommandR,
    GlmLine,
    GlmTagged,
    Perl,
    PerlWithoutBrackets,
    React,
)
from dragoman.formats.readers.python import FencedCalls, ListedCalls, MarkedCalls, MessageCalls
from dragoman.formats.template import THINK, Format
from dragoman.formats.unmarked import FencedMessage, JsonAnywhere, WholeMessage

# --------------------------------------------------------------------------------------------------------------------
# Labelled fences, and JSON without any marker.

BARE_ROWS: tuple[Format, ...] = (
    Format(
        name="fenced",
        template="~~~tool_call\n{call}\n~~~",
        place="line",
        own_lines=True,
        aliases=("text_tagged",),
        family="I",
        models="any model with instructions",
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
        name="fenced_lines",
        template="```tool\nTOOL_NAME: {name}\n{*BEGIN_ARG: {key}\n{value}\nEND_ARG\n*}```",
        place="line",
        aliases=("continue_tool",),
        family="I",
        models="any model in Continue without native tools",
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
        template="{calls}",
        template_is_read=False,
        single_is_bare=True,
        entries=(WholeMessage("json_message"), FencedMessage("json_message")),
        aliases=("whole_json", "openai_json"),
        family="I",
        models="small models, Ollama's and MiniMax's tool_calls as text: the whole message is the call",
    ),
    Format(
        name="json",
        template="{calls}",
        template_is_read=False,
        single_is_bare=True,
        named_entries=(JsonAnywhere("json"),),
        aliases=("generic_json", "json_array"),
        family="I",
        models="any model under a JSON grammar",
        in_auto=False,
    ),
    Format(
        name="xlam",
        template="{calls}",
        template_is_read=False,
        single_is_bare=True,
        also=("[TOOL_CALLS] {calls}", "<tool_call>{calls}</tool_call>"),
        named_entries=(JsonAnywhere("xlam"),),
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
        models="models that use Ollama's generic parser",
        in_auto=False,
    ),
)


# --------------------------------------------------------------------------------------------------------------------
# Formats whose messages have channels, headers and special tokens.

CHANNEL_ROWS: tuple[Format, ...] = (
    Format(
        name="harmony",
        template="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{args}<|call|>",
        template_is_read=False,
        separator="<|start|>assistant",
        entries=(Harmony(), HarmonyRecipient()),
        thinking=(("<|channel|>analysis<|message|>", "<|end|>"),),
        drop=("<|call|>", "<|end|>", "<|return|>", "<|message|>"),
        aliases=("gpt_oss", "openai"),
        family="H",
        models="gpt-oss 20b, 120b",
    ),
    Format(
        name="kimi_k3",
        template=(
            '<|open|>call tool="{name}" index="{id}"<|sep|>'
            '{*<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>*}<|close|>call<|sep|>'
        ),
        template_is_read=False,
        section=("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
        separator="",
        entities=True,
        numbered=True,
        type_words={"integer": "number"},
        entries=(KimiK3(),),
        thinking=(("<|open|>think<|sep|>", "<|close|>think<|sep|>"),),
        aliases=("kimi_k3_xtml",),
        family="C",
        models="Kimi K3",
    ),
    Format(
        name="minimax_m3",
        template=(
            f'{M3_TOKEN}<invoke name="{{name}}">{{*{M3_TOKEN}<{{key}}>{{value}}{M3_TOKEN}</{{key}}>*}}'
            f"{M3_TOKEN}</invoke>\n"
        ),
        template_is_read=False,
        notation="elements",
        quote=M3_TOKEN,
        section=(f"{M3_TOKEN}<tool_call>\n", f"{M3_TOKEN}</tool_call>"),
        separator="",
        entries=(MinimaxM3(),),
        thinking=(("<mm:think>", "</mm:think>"), *THINK),
        family="D",
        models="MiniMax M3",
    ),
    Format(
        name="inkling",
        template="<|message_model|>{name}<|content_invoke_tool_json|>{call}<|end_message|>",
        template_is_read=False,
        also=("<|content_invoke_tool_json|>{call}<|end_message|>",),
        entries=(InklingHeader(),),
        keys=("name", "args"),
        separator="",
        thinking=(("<|content_thinking|>", "<|end_message|>"),),
        drop=("<|content_text|>", "<|end_message|>", "<|content_model_end_sampling|>"),
        family="H",
        models="Inkling",
    ),
    Format(
        name="muse_glimmer",
        template=(
            "<|start|>assistant to={name}<|message|><atem:function_calls>\n"
            '<atem:invoke name="{name}">\n{*<atem:parameter name="{key}">{value}</atem:parameter>\n*}</atem:invoke>\n'
            "</atem:function_calls>"
        ),
        template_is_read=False,
        separator="<|eom|>",
        entries=(MuseGlimmer(), MuseGlimmerRecipient()),
        thinking=(("<|start|>assistant to=self<|message|>", "<|eom|>"),),
        drop=("<|eom|>", "<|eot|>"),
        family="D",
        models="Muse Glimmer",
    ),
)


# --------------------------------------------------------------------------------------------------------------------
# Notations that no model was trained on but many improvise, and the plain words of older prompts.

LINE_ROWS: tuple[Format, ...] = (
    Format(
        name="xml_elements",
        template="<{name}>{*<{key}>{value}</{key}>*}</{name}>",
        template_is_read=False,
        entries=(TaggedElement(), BareElement("line")),
        named_entries=(BareElement(),),
        aliases=("xml_element_per_argument", "morph_xml"),
        family="I",
        models="agents in the style of Cline and Roo",
    ),
    Format(
        name="xml_attributes",
        template='<tool_call name="{name}"{* {key}="{value}"*}/>',
        template_is_read=False,
        entities=True,
        entries=(TagWithName(), InlineAttributes(), SelfClosing("line")),
        named_entries=(SelfClosing(),),
        family="I",
        models="local models",
    ),
    Format(
        name="perl",
        template='[TOOL_CALL]\n{tool => "{name}", args => {\n{*  --{key} {value}\n*}}}\n[/TOOL_CALL]',
        template_is_read=False,
        notation="quoted",
        entries=(Perl(), PerlWithoutBrackets()),
        aliases=("tool_call_perl",),
        family="I",
        models="MiniMax at some hosts, local models",
    ),
    Format(
        name="glm_lines",
        # `name/key>value` would be shorter, but a truncated line would look like a complete one.
        template="{name}/{args}",
        template_is_read=False,
        entries=(GlmLine(), GlmTagged()),
        aliases=("glm_short", "cli_line"),
        family="I",
        models="GLM in agents",
    ),
    Format(
        name="cohere_command_r",
        template="Action: ```json\n{calls}\n```",
        template_is_read=False,
        keys=("tool_name", "parameters"),
        entries=(CommandR(),),
        aliases=("command_r",),
        family="B",
        models="Command R, R+ (2024)",
    ),
    Format(
        name="react",
        template="Action: {name}\nAction Input: {args}",
        template_is_read=False,
        entries=(React(),),
        aliases=("react_text",),
        family="I",
        models="models with a ReAct prompt",
    ),
    Format(
        name="functionary_v32",
        template=">>>{name}\n{args}",
        template_is_read=False,
        entries=(Recipient(), FirstRecipient()),
        named_entries=(FirstWord(),),
        aliases=("functionary_v3.2",),
        family="I",
        models="Functionary 3.2",
    ),
)


# --------------------------------------------------------------------------------------------------------------------
# Formats that write calls in Python, and Gemma's notation.

PYTHON_ROWS: tuple[Format, ...] = (
    Format(
        name="pythonic",
        template="{calls}",
        template_is_read=False,
        notation="python",
        entries=(
            MarkedCalls("pythonic", ("<|python_start|>",), ("<|python_end|>",), closer_required=False),
            ListedCalls("pythonic", gated=True),
        ),
        named_entries=(ListedCalls("pythonic", openers=("[",), place="anywhere", gated=False),),
        drop=("<|python_end|>",),
        aliases=("llama4_pythonic",),
        family="E",
        models="Llama 3.2, Llama 4, ToolACE, Gemma 2 and 3 with tool prompts",
        note="In `auto` the list must begin a line and name offered tools; in the named format it may begin anywhere.",
    ),
    Format(
        name="lfm2",
        template="<|tool_call_start|>{calls}<|tool_call_end|>",
        template_is_read=False,
        notation="python",
        entries=(MarkedCalls("lfm2", ("<|tool_call_start|>",), ("<|tool_call_end|>",)),),
        family="E",
        models="Liquid LFM2, LFM2.5",
    ),
    Format(
        name="olmo3",
        template="{name}({args})",
        template_is_read=False,
        notation="python",
        section=("<function_calls>\n", "\n</function_calls>"),
        entries=(
            MarkedCalls("olmo3", ("<function_calls>",), ("</function_calls>",)),
            MessageCalls("olmo3"),
            FencedCalls("olmo3"),
        ),
        family="E",
        models="AI2 Olmo 3",
    ),
    Format(
        name="llama3_builtin",
        template="{name}.call({args})",
        template_is_read=False,
        notation="python",
        section=("<|python_tag|>", "<|eom_id|>"),
        separator="; ",
        spellings={"<|eom_id|>": ("<|eot_id|>",)},
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
        family="E",
        models="Llama 3.1 and later, built-in tools",
    ),
    Format(
        name="tool_code",
        template="{name}({args})",
        template_is_read=False,
        notation="python",
        section=("```tool_code\n", "\n```"),
        entries=(
            MarkedCalls("tool_code", ("```tool_code",), ("\n```",), place="line", code=True),
            MarkedCalls("tool_code", ("<tool_code>",), ("</tool_code>",), code=True),
        ),
        aliases=("gemma_tool_code",),
        family="E",
        models="Gemma 2 and 3 when prompted, leaks of Gemini",
    ),
    Format(
        name="gemma4",
        template="<|tool_call>call:{name}{args}<tool_call|>",
        template_is_read=False,
        notation="gemma",
        quote='<|"|>',
        separator="",
        entries=(GemmaCalls("gemma4", "<|tool_call>", "<tool_call|>", '<|"|>'),),
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
        template="<start_function_call>call:{name}{args}<end_function_call>",
        template_is_read=False,
        notation="gemma",
        quote="<escape>",
        separator="",
        entries=(GemmaCalls("functiongemma", "<start_function_call>", "<end_function_call>", "<escape>"),),
        drop=("<end_function_call>",),
        family="G",
        models="FunctionGemma 270M",
    ),
)
