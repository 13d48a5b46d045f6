"""Ten ways in which a model writes the call of a tool with one text argument."""

from __future__ import annotations

import json

SPELLINGS = (
    "hermes",
    "fence_after_a_sentence",
    "bare_json",
    "elements",
    "qwen3_coder",
    "kimi_k2",
    "react",
    "bare_invoke",
    "call_with_braces",
    "bracketed_name",
)
"""The last three have no documentation: users reported them as leaks."""


def write_call(spelling: str, name: str, key: str, value: str) -> str:
    """Return the text of a model that calls the tool `name` with one argument."""
    arguments = json.dumps({key: value})
    whole = json.dumps({"name": name, "arguments": {key: value}})
    return {
        "hermes": f"I will do it.\n<tool_call>\n{whole}\n</tool_call>",
        "fence_after_a_sentence": f"Sure:\n```json\n{whole}\n```",
        "bare_json": whole,
        "elements": f"<{name}>\n<{key}>{value.replace('>', '&gt;')}</{key}>\n</{name}>",
        "qwen3_coder": (
            f"<tool_call>\n<function={name}>\n<parameter={key}>\n{value}\n</parameter>\n</function>\n</tool_call>"
        ),
        "kimi_k2": (
            f"<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{arguments}"
            "<|tool_call_end|><|tool_calls_section_end|>"
        ),
        "react": f"Thought: I need the tool.\nAction: {name}\nAction Input: {arguments}\n",
        "bare_invoke": f'<invoke name="{name}">\n<parameter name="{key}">{value}</parameter>\n</invoke>',
        "call_with_braces": f"call:{name}{{{key}: {json.dumps(value)}}}",
        "bracketed_name": f"[{name}]\n{arguments}\n[/{name}]",
    }[spelling]
