"""How each format is written, for the sake of its grammar: most are their template; the odd ones are given one here."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.formats.grammars.notation import JSON, Notation, gemma, python
from dragoman.formats.row import Format
from dragoman.formats.writing import write_json_calls

_is_keyword = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}\Z").match
_ATEM = (
    "<|start|>assistant to={name}<|message|><atem:function_calls>\n"
    '<atem:invoke name="{name}">\n{*<atem:parameter name="{key}">{value}</atem:parameter>\n*}</atem:invoke>\n'
    "</atem:function_calls>"
)


class Shape(Struct, frozen=True):
    """A row with a template, and how the values in it are spelt."""

    row: Format
    notation: Notation = JSON
    keywords: bool = False
    """Arguments are written as in a call in Python: `(key=value)`."""
    one_or_list: bool = False
    """A single call stands alone, several stand in a list."""

    def can_be_keyword(self, key: str) -> bool:
        return not self.keywords or _is_keyword(key) is not None


def shape_of(row: Format) -> Shape:
    """The shape of a row; raises ConfigError for the few that have none."""
    if row.writer is None and row.template:
        return Shape(row)
    if row.writer is write_json_calls:
        return Shape(replace(row, template="{call}"), one_or_list=True)
    own = getattr(row.writer, "_row", None)  # the wrapper of one turn: a template with the word filled in
    if isinstance(own, Format):
        return Shape(replace(row, template=own.template, separator=own.separator))
    make = _ODD.get(row.name)
    if make is None:
        raise ConfigError(
            f"there is no grammar for the format {row.name!r}",
            hint="take one that writes JSON or tags, for example hermes, fenced or qwen3_coder",
        )
    return make(row)


def _template(template: str, **changes: Any) -> Callable[[Format], Shape]:
    return lambda row: Shape(replace(row, template=template, **changes))


def _python(
    before: str, after: str, separator: str = ", ", method: str = "", also: str = ""
) -> Callable[[Format], Shape]:
    bare = after.strip("\n]")
    markers = tuple(marker for marker in (bare, also) if marker.strip("`"))
    return lambda row: Shape(
        replace(row, template=f"{{name}}{method}{{args}}", section=(before, after), separator=separator),
        python(markers),
        keywords=True,
    )


def _gemma(opener: str, closer: str, quote: str) -> Callable[[Format], Shape]:
    template = f"{opener}call:{{name}}{{args}}{closer}"
    return lambda row: Shape(replace(row, template=template, separator=""), gemma(quote, closer))


_ODD: dict[str, Callable[[Format], Shape]] = {
    "harmony": _template(
        "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{args}<|call|>",
        separator="<|start|>assistant",
    ),
    "inkling": _template(
        "<|message_model|>{name}<|content_invoke_tool_json|>{call}<|end_message|>", separator="", keys=("name", "args")
    ),
    "muse_glimmer": _template(_ATEM, separator="<|eom|>"),
    "cohere_command_r": _template("Action: ```json\n{calls}\n```", keys=("tool_name", "parameters")),
    "react": _template("Action: {name}\nAction Input: {args}"),
    "functionary_v32": _template(">>>{name}\n{args}"),
    "glm_lines": _template("{name}/{args}"),
    "pythonic": _python("[", "]"),
    "lfm2": _python("<|tool_call_start|>[", "]<|tool_call_end|>"),
    "olmo3": _python("<function_calls>\n", "\n</function_calls>", "\n"),
    "llama3_builtin": _python("<|python_tag|>", "<|eom_id|>", "; ", ".call", "<|eot_id|>"),
    "tool_code": _python("```tool_code\n", "\n```", "\n"),
    "gemma4": _gemma("<|tool_call>", "<tool_call|>", '<|"|>'),
    "functiongemma": _gemma("<start_function_call>", "<end_function_call>", "<escape>"),
}
