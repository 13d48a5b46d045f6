"""Ten ways in which a model writes the call of a tool."""

from __future__ import annotations

import json
from html import escape
from typing import Any

SPELLINGS = (
    "hermes",
    "qwen3_coder",
    "fence_after_a_sentence",
    "bare_json",
    "elements",
    "kimi_k2",
    "react",
    "bare_invoke",
    "call_with_braces",
    "bracketed_name",
)
"""The last three have no documentation: users reported them as leaks."""


def write_call(spelling: str, name: str, arguments: dict[str, Any]) -> str:
    """Return the text of a model that calls the tool `name`."""
    written = json.dumps(arguments)
    whole = json.dumps({"name": name, "arguments": arguments})
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in arguments.items()}
    elements = "\n".join(f"<{key}>{escape(text, quote=False)}</{key}>" for key, text in texts.items())
    functions = "\n".join(f"<parameter={key}>\n{text}\n</parameter>" for key, text in texts.items())
    invoked = "\n".join(f'<parameter name="{key}">{text}</parameter>' for key, text in texts.items())
    braces = ", ".join(f"{key}: {json.dumps(value)}" for key, value in arguments.items())
    return {
        "hermes": f"I will do it.\n<tool_call>\n{whole}\n</tool_call>",
        "qwen3_coder": f"<tool_call>\n<function={name}>\n{functions}\n</function>\n</tool_call>",
        "fence_after_a_sentence": f"Sure:\n```json\n{whole}\n```",
        "bare_json": whole,
        "elements": f"<{name}>\n{elements}\n</{name}>",
        "kimi_k2": (
            f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{written}"
            "<|tool_call_end|><|tool_calls_section_end|>"
        ),
        "react": f"Thought: I need the tool.\nAction: {name}\nAction Input: {written}\n",
        "bare_invoke": f'<invoke name="{name}">\n{invoked}\n</invoke>',
        "call_with_braces": f"call:{name}{{{braces}}}",
        "bracketed_name": f"[{name}]\n{written}\n[/{name}]",
    }[spelling]
