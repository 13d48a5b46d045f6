"""What the model writes when it is told how: calls as text, by a grammar, and answers by a schema."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dragoman.args.loader import validate
from dragoman.doctor.findings import Finding
from dragoman.doctor.probe import Probe, cannot_tell
from dragoman.doctor.probes.calls import WEATHER, is_sound
from dragoman.doctor.questions import Patient, Question, Sight, Sights, user
from dragoman.providers import Endpoint, Fact

_OTHERS = ("hermes", "fenced", "qwen3_coder")
_GRAMMARS: dict[str, Any] = {
    "gbnf": 'root ::= "heron-" [0-9] [0-9]',
    "lark": "start: /heron-[0-9][0-9]/",
    "json_schema": {
        "type": "object",
        "properties": {"bird": {"type": "string", "enum": ["heron"]}},
        "required": ["bird"],
        "additionalProperties": False,
    },
}
_held = re.compile(r"heron-[0-9][0-9]\s*\Z").match
_ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Lisbon"]}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}


# ---- calls as text -------------------------------------------------------------------------------------------------


def formats_to_try(patient: Patient) -> tuple[str, ...]:
    """The format that would be taught, and two others."""
    own = patient.endpoint.prompt_format
    others = tuple(name for name in _OTHERS if name != own)[:2]
    return (own,) if patient.quick else (own, *others)


def _text_questions(patient: Patient) -> tuple[Question, ...]:
    words = "What is the weather in Paris? Use the tool get_weather."
    return tuple(
        Question(f"text {name}", [user(words)], [WEATHER], mode="text", format=name) for name in formats_to_try(patient)
    )


def _judge_text(patient: Patient, sights: Sights) -> Finding:
    name = "text_formats"
    tried = formats_to_try(patient)
    understood = [format for format, sight in zip(tried, sights, strict=True) if _is_understood(sight)]
    if tried[0] in understood:
        return Finding(name, "works", f"calls come as text in {' and in '.join(understood)}", sights[0].shown)
    doubt = cannot_tell(name, sights[:1])
    if doubt is not None and not understood:
        return doubt
    if understood:
        words = f"the model writes no calls in {tried[0]}, but in {' and in '.join(understood)}"
        fix = f'teach the other one: prompt_format = "{understood[0]}" in a profile'
        return Finding(name, "broken", words, sights[0].shown, fix, Fact(format=understood[0]))
    fix = _without_text(patient)
    return Finding(name, "broken", f"the model writes no calls in {' or in '.join(tried)}", sights[0].shown, fix)


def _is_understood(sight: Sight) -> bool:
    return any(is_sound(call, WEATHER) for call in sight.extraction.calls)


def _without_text(patient: Patient) -> str:
    if patient.native:
        return "nothing to do: native calls work here"
    if patient.endpoint.quirks.grammar_field:
        return "let a grammar hold it: weak = true in a profile of this model"
    return "choose a larger model, or a server that takes a grammar (llama.cpp, vLLM, SGLang, Ollama)"


# ---- grammars ------------------------------------------------------------------------------------------------------


def _grammar_questions(patient: Patient) -> tuple[Question, ...]:
    endpoint = patient.endpoint
    if not endpoint.quirks.grammar_field:
        return ()
    words = "Say hello in one sentence."
    return (Question("grammar", [user(words)], options={endpoint.wire: grammar_fields(endpoint)}),)


def grammar_fields(endpoint: Endpoint) -> dict[str, Any]:
    """The field of a request that holds a grammar; a dot in its name is a field in a field."""
    value = _GRAMMARS[endpoint.quirks.grammar_syntax]
    for part in reversed(endpoint.quirks.grammar_field.split(".")):
        value = {part: value}
    return dict(value)


def _judge_grammar(patient: Patient, sights: Sights) -> Finding:
    name = "grammar"
    quirks = patient.endpoint.quirks
    if not sights:
        return Finding(name, "absent", "no field for a grammar is known here")
    sight = sights[0]
    text = sight.reply.text.strip()
    is_held = (
        not validate(_read(text), _GRAMMARS["json_schema"]) if quirks.grammar_syntax == "json_schema" else _held(text)
    )
    if sight.failure is None and is_held:
        return Finding(name, "works", f"the field {quirks.grammar_field} holds the reply", sight.shown)
    doubt = cannot_tell(name, sights)
    if doubt is not None and sight.is_disturbed:
        return doubt
    fact = Fact(quirks={"grammar_field": ""})
    if sight.is_refused:
        fix = "nothing to do: no grammar is sent from now on"
        return Finding(name, "absent", f"the field {quirks.grammar_field} is refused", sight.shown, fix, fact)
    fix = f"nothing to do: no grammar is sent from now on; a newer server may know {quirks.grammar_field}"
    return Finding(name, "broken", f"the field {quirks.grammar_field} is ignored", sight.shown, fix, fact)


# ---- answers by a schema -------------------------------------------------------------------------------------------


def _answer_questions(patient: Patient) -> tuple[Question, ...]:
    wanted = {"type": "json_schema", "name": "city", "schema": _ANSWER, "strict": True}
    words = "Which city is the capital of Portugal, and how many people live there? Answer as JSON."
    return (Question("answer", [user(words)], options={"response_format": wanted}),)


def _judge_answer(patient: Patient, sights: Sights) -> Finding:
    name, sight = "structured_output", sights[0]
    loss = sight.lost("response_format has no place")
    if loss is not None:
        return Finding(name, "absent", "this wire has no field for it", loss.detail)
    doubt = cannot_tell(name, sights)
    if doubt is not None:
        return doubt
    fix = "take structured answers by a tool, as Agent.run(answer=...) does"
    if sight.is_refused:
        return Finding(name, "absent", "requests with it are refused", sight.shown, fix)
    faults = validate(_read(sight.reply.text), _ANSWER)
    if not faults:
        return Finding(name, "works", "an answer keeps to its schema", sight.shown)
    return Finding(name, "broken", "the schema of an answer is ignored", sight.shown, fix)


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


PROBES = (
    Probe("text_formats", "Calls as text", _text_questions, _judge_text, quick=True, needs=("reachable",)),
    Probe("grammar", "Grammars", _grammar_questions, _judge_grammar, quick=True, needs=("reachable",)),
    Probe("structured_output", "Answers by a schema", _answer_questions, _judge_answer, needs=("reachable",)),
)
