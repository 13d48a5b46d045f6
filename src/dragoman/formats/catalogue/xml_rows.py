"""Rows of formats that write arguments as tags. Types come from the schema, or from an attribute."""

from __future__ import annotations

from dragoman.formats.template import Format
from dragoman.formats.thinking import SuffixedThink

_XML_PAIRS = "{*<parameter={key}>\n{value}\n</parameter>\n*}"
_GLM_PAIRS = "{*<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n*}"
_INVOKE = '<invoke name="{name}">\n{*<parameter name="{key}">{value}</parameter>\n*}</invoke>'
_INVOKE_SPELLINGS = {
    '<invoke name="': ("<invoke name='", "<invoke name="),
    '<parameter name="': ("<parameter name='", "<parameter name="),
    '">': ("'>", ">", '" >'),
}


def _dsml(name: str, sigil: str, block: str, *aliases: str, models: str) -> Format:
    """Return DeepSeek's tags: the sigil may have other bars, be doubled, or be followed by a blank."""
    bars = [sigil, sigil.replace("｜", "|"), sigil.replace("｜", "｜｜"), sigil.replace("｜", "‖"), sigil + " "]

    def spell(text: str) -> tuple[str, ...]:
        return tuple(text.replace(sigil, bar) for bar in bars[1:])

    opener, closer = f"<{sigil}{block}>", f"</{sigil}{block}>"
    invoke, parameter = f'<{sigil}invoke name="', f'<{sigil}parameter name="'
    blocks = ("function_calls", "tool_calls", "calls")
    return Format(
        name=name,
        template=f'{invoke}{{name}}">\n{{*{parameter}{{key}}"{{? string="{{type}}"?}}>'
        f"{{value}}</{sigil}parameter>\n*}}</{sigil}invoke>",
        also=(f'{invoke}{{name}}">\n{{args}}\n</{sigil}invoke>',),
        section=(f"{opener}\n", f"\n{closer}"),
        type_words={"string": "true", "": "false"},
        spellings={
            **{tag: spell(tag) for tag in (invoke, parameter, f"</{sigil}parameter>", f"</{sigil}invoke>")},
            opener: tuple(f"<{bar}{other}>" for bar in bars for other in blocks if f"<{bar}{other}>" != opener),
            closer: tuple(f"</{bar}{other}>" for bar in bars for other in blocks if f"</{bar}{other}>" != closer),
        },
        aliases=aliases,
        family="D",
        models=models,
    )


_STEP_INVOKE = (
    '<steptml:invoke name="{name}">\n{*<steptml:parameter name="{key}">{value}</steptml:parameter>\n*}</steptml:invoke>'
)

ROWS: tuple[Format, ...] = (
    Format(
        name="qwen3_coder",
        template="<tool_call>\n<function={name}>\n" + _XML_PAIRS + "</function>\n</tool_call>",
        also=("<function={name}>\n" + _XML_PAIRS + "</function>{?\n</tool_call>?}", _INVOKE),
        aliases=("qwen3_coder_xml",),
        family="D",
        models="Qwen3-Coder, Qwen3.5 and later, Nemotron 3 Nano, IQuest",
    ),
    # ---- D: XML parameters -----------------------------------------------------------------------------------------
    Format(
        name="mimo",
        template="<tool_call>\n<function={name}>\n" + _XML_PAIRS + "</function>\n</tool_call>",
        also=("<function={name}>\n" + _XML_PAIRS + "</function>{?\n</tool_call>?}",),
        family="D",
        models="MiMo V2",
    ),
    Format(
        name="step3p5",
        template="<tool_call>\n<function={name}>\n" + _XML_PAIRS + "</function>\n</tool_call>",
        also=("<function={name}>\n" + _XML_PAIRS + "</function>{?\n</tool_call>?}",),
        family="D",
        models="Step-3.5, 3.7",
    ),
    Format(
        name="seed_oss",
        template="<seed:tool_call>\n<function={name}>\n{*<parameter={key}>{value}</parameter>\n*}</function>\n</seed:tool_call>",
        thinking=(("<seed:think>", "</seed:think>"),),
        family="D",
        models="Seed-OSS",
    ),
    Format(
        name="hy_v3",
        template="<tool_call>{name}<tool_sep>\n" + _GLM_PAIRS + "</tool_call>",
        section=("<tool_calls>\n", "\n</tool_calls>"),
        entries=(SuffixedThink(),),
        aliases=("hy_v4",),
        family="D",
        models="Hunyuan Hy3, Hy4",
    ),
    Format(
        name="glm45",
        template="<tool_call>{name}\n" + _GLM_PAIRS + "</tool_call>",
        family="D",
        models="GLM-4.5, GLM-4.6",
    ),
    Format(
        name="glm47",
        template="<tool_call>{name}{*<arg_key>{key}</arg_key><arg_value>{value}</arg_value>*}</tool_call>",
        family="D",
        models="GLM-4.7, GLM-5",
    ),
    Format(
        name="ling3",
        template="<tool_call>{name}\n{*<arg_key>{key}</arg_key><arg_value>{value}</arg_value>*}</tool_call>",
        family="D",
        models="Ling 3",
    ),
    Format(
        name="poolside_v1",
        template="<tool_call>{name}\n" + _GLM_PAIRS + "</tool_call>",
        aliases=("laguna",),
        family="D",
        models="Laguna",
    ),
    Format(
        name="spark25",
        template="<tool_call>{name}\n" + _GLM_PAIRS + "</tool_call>",
        family="D",
        models="Spark 2.5",
    ),
    Format(
        name="iquest_q1",
        template="<iquest_tool_call>{name}{*<arg_key>{key}</arg_key><arg_value>{value}</arg_value>*}</iquest_tool_call>",
        thinking=(("<iquest_think>", "</iquest_think>"),),
        family="D",
        models="IQuest Q1",
    ),
    Format(
        name="k2_horizon",
        template="<ifm|tool_call>{name}{*<ifm|arg_key>{key}</ifm|arg_key>{?<ifm|arg_type>{type}</ifm|arg_type>?}<ifm|arg_value>{value}</ifm|arg_value>*}</ifm|tool_call>",
        also=("<ifm|tool_call>{call}</ifm|tool_call>",),
        section=("<ifm|tool_calls>", "</ifm|tool_calls>"),
        thinking=(
            ("<ifm|think>", "</ifm|think>"),
            ("<ifm|think_fast>", "</ifm|think_fast>"),
            ("<ifm|think_faster>", "</ifm|think_faster>"),
        ),
        separator="",
        aliases=("ifm",),
        family="D",
        models="K2-V3, Horizon",
    ),
    Format(
        name="minimax_m2",
        template=_INVOKE,
        section=("<minimax:tool_call>\n", "\n</minimax:tool_call>"),
        spellings=_INVOKE_SPELLINGS,
        untyped_is_text=True,
        family="D",
        models="MiniMax M2, M2.1, M2.5, M2.7",
    ),
    Format(
        name="anthropic_xml",
        template=_INVOKE,
        section=("<function_calls>\n", "\n</function_calls>"),
        spellings=_INVOKE_SPELLINGS,
        aliases=("function_calls",),
        family="D",
        models="Claude-2-style prompts, agents, fine-tunes",
    ),
    Format(
        name="dots",
        template=_INVOKE,
        also=("<dots_function_call>{call}</dots_function_call>",),
        section=("<dots_function_call>\n", "\n</dots_function_call>"),
        spellings=_INVOKE_SPELLINGS,
        family="D",
        models="dots.llm2",
    ),
    Format(
        name="step3",
        template="<｜tool_call_begin｜>function<｜tool_sep｜>" + _STEP_INVOKE + "<｜tool_call_end｜>",
        also=("<｜tool_call_begin｜>" + _STEP_INVOKE + "<｜tool_call_end｜>", _STEP_INVOKE),
        section=("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"),
        separator="",
        aliases=("steptml",),
        family="D",
        models="Step-3",
    ),
    Format(
        name="minicpm5",
        template='<function name="{name}">{*<param name="{key}">{value}</param>*}</function>',
        spellings={
            '<function name="': ('<functionname="', '<functionĠname="', "<function name='"),
            '<param name="': ('<paramname="', '<paramĠname="', "<param name='"),
            '">': ("'>",),
        },
        cdata=True,
        unique_keys=True,
        aliases=("minicpm",),
        family="D",
        models="MiniCPM-4, 5",
    ),
    _dsml("deepseek_v32", "｜DSML｜", "function_calls", models="DeepSeek V3.2"),
    _dsml("deepseek_v4", "｜DSML｜", "tool_calls", "deepseek_v41", models="DeepSeek V4, V4.1"),
    _dsml("gigachat35", "｜GCML｜", "tool_calls", "gcml", models="GigaChat 3.5"),
)
