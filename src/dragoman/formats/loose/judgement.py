"""Which of the places that read like a call are meant as one.

The name was offered and the arguments could be read; what is left to tell apart is a call, its restatement, a
signature, a program that happens to use the name, and a conversation that the model went on to make up.
"""

from __future__ import annotations

import re
from typing import Any

from dragoman.formats.loose.found import TYPE_NAMES, Candidate, Offered, properties_of, required_of
from dragoman.formats.loose.regions import Group

# After an answer: the model plays the user's part, or starts to write a program.
ANOTHER_MATTER = re.compile(
    r"^[ \t]*(?:"
    r"#{1,6}[ \t]*(?:Instruction|User|Human)\b"
    r"|(?:User|Human|USER|HUMAN)[ \t]*:"
    r"|(?:async[ \t]+)?def[ \t]+\w+[ \t]*\(|class[ \t]+\w+[ \t]*[:(]"
    r"|\#[ \t]*[\w/\-]+\.(?:py|js|ts|md|txt)\b"
    r")"
    r"|<\|(?:im_start|start_header_id)\|>[ \t]*user|<\|user\|>|\[INST\]|<start_of_turn>[ \t]*user",
    re.MULTILINE,
)
_PLACEHOLDER = re.compile(r"<[^<>]*>|\.{3}|…|\{[^{}]*\}|\[[^\[\]]*\]|\?+|_+")
_INNER_CALL = re.compile(r"([^\W\d][\w.\\]*)\(")
_KIND_NAMES = {"string": frozenset(("string", "str", "text", "any")), "null": frozenset(("null", "none", "any"))}
_PLAIN_REGIONS = frozenset(("message", "list", "quoted"))


def judge(groups: list[Group], offered: Offered, defined: dict[str, int]) -> list[Group]:
    """The groups that are calls, without the restated ones; `defined` says where the text defines a tool itself."""
    kept: list[Group] = []
    said: set[str] = set()
    for one in groups:
        calls = [call for call in one.calls if _is_meant(call, one, offered, defined)]
        if len(groups) > 1 and calls:
            calls = [call for call in calls if _spelled(call) not in said]
            said.update(map(_spelled, calls))
        one.whole = len(calls) == len(one.calls)
        one.calls = calls
        if calls:
            kept.append(one)
    return kept


def _spelled(call: Candidate) -> str:
    return call.tool.name + repr(sorted(call.arguments.items()))


def _is_meant(call: Candidate, one: Group, offered: Offered, defined: dict[str, int]) -> bool:
    if offered.open and call.shape != "json" and "[" not in one.marks:
        # Any identifier would do for a name: only a list makes a call of what reads like Python.
        return False
    if defined.get(call.tool.name, call.start) < call.start:
        return False
    if call.template or (call.shape == "items" and one.fence is not None):
        return False
    arguments = call.arguments
    properties = properties_of(call.tool)
    for name in required_of(call.tool):
        if name not in arguments or (arguments[name] is None and not _accepts(properties.get(name), "null")):
            return False
    return "expression_as_text" not in call.repairs or _is_literal(call, one, properties, offered)


def _is_literal(call: Candidate, one: Group, properties: dict[str, Any], offered: Offered) -> bool:
    """Whether the values that are no literals can be taken as text: words and formulas, but no variables.

    In a program or a sentence a bare word is a variable or a parameter. Where the call stands for itself it may be
    text that lacks its quotes, unless it names its own parameter, a type, or the result of another call.
    """
    if one.region not in _PLAIN_REGIONS:
        return False
    for name, value in call.arguments.items():
        if not isinstance(value, str):
            continue
        if not _accepts(properties.get(name), "string") or value == name or value in TYPE_NAMES:
            return False
        inner = _INNER_CALL.search(value)
        if _PLACEHOLDER.fullmatch(value) or (inner is not None and offered.find(inner[1]) is not None):
            return False
    return True


def _accepts(schema: Any, kind: str) -> bool:
    """Whether a property's schema lets a value of that kind pass, as far as its type says."""
    if not isinstance(schema, dict):
        return True
    declared = schema.get("type")
    if declared is None or (kind == "null" and schema.get("nullable")):
        return True
    names = declared if isinstance(declared, list) else [declared]
    return any(str(name).lower() in _KIND_NAMES[kind] for name in names)
