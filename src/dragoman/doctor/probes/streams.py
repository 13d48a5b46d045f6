"""Probes of streams, text formats, grammars and structured answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dragoman.args.loader import validate
from dragoman.doctor.probe import (
    Finding,
    Observation,
    Observations,
    Probe,
    Question,
    Subject,
    cannot_tell,
    entries_of,
    excerpt,
    user,
)
from dragoman.doctor.probes.basics import counting
from dragoman.doctor.probes.calls import NATIVE, WEATHER, both, is_sound, weather
from dragoman.events import ArgumentsDelta, TextDelta, ThinkingDelta
from dragoman.providers import Endpoint, Fact

# --------------------------------------------------------------------------------------------------------------------
# Streams: words as they come, an end that can be seen, and calls in pieces that fit together.

_ASK_WHOLE = "ask for whole replies: the capability streaming = false"
_NO_STREAMS = Fact(capabilities={"streaming": False})


def _judge_text(subject: Subject, observations: Observations) -> Finding:
    name, observation = "streaming", observations[0]
    pieces = [event for event in observation.events if isinstance(event, TextDelta | ThinkingDelta)]
    if len(pieces) > 1:
        return Finding(name, "works", f"the answer came in {len(pieces)} pieces", observation.shown)
    doubt = cannot_tell(name, observations)
    if doubt is not None:
        return doubt
    if observation.is_refused:
        return Finding(name, "absent", "streams are refused", observation.shown, _ASK_WHOLE, _NO_STREAMS)
    if pieces:
        fix = "nothing to do; if a proxy stands between, let it buffer nothing"
        words = "the answer came in one piece, at its end"
        return Finding(name, "broken", words, observation.shown, fix, is_usable=True)
    return Finding(name, "broken", "nothing came that could be read", observation.shown, _ASK_WHOLE, _NO_STREAMS)


def _judge_end(subject: Subject, observations: Observations) -> Finding:
    name, observation = "stream_end", observations[0]
    if observation.failure is None:
        return Finding(name, "works", "the last frame came")
    if observation.failure.kind != "stream_cut":
        return cannot_tell(name, observations) or Finding(name, "unknown", "there was no stream to look at")
    words = "the stream ends without its last frame"
    if subject.speaks_chat and _has_finish_reason(observation):
        fix = "set the quirk final_frame to false: the finish reason then counts as the end"
        return Finding(name, "broken", words, _last_frame(observation), fix, Fact(quirks={"final_frame": False}))
    return Finding(name, "broken", words, _last_frame(observation), _ASK_WHOLE, _NO_STREAMS)


def _has_finish_reason(observation: Observation) -> bool:
    return any(
        isinstance(choice, dict) and choice.get("finish_reason")
        for frame in observation.frames
        for choice in (frame.get("choices") if isinstance(frame.get("choices"), list) else None) or ()
    )


def _last_frame(observation: Observation) -> str:
    return excerpt(f"last: {observation.frames[-1]}") if observation.frames else ""


def _judge_calls(subject: Subject, observations: Observations) -> Finding:
    name, observation = "stream_calls", observations[0]
    if observation.failure is None or observation.failure.kind != "stream_cut":
        doubt = cannot_tell(name, observations)
        if doubt is not None:
            return doubt
    if observation.is_refused:
        return Finding(name, "broken", "streams with tools are refused", observation.shown, _ASK_WHOLE, _NO_STREAMS)
    pieces = [event for event in observation.events if isinstance(event, ArgumentsDelta)]
    sound = [call for call in observation.reply.calls if is_sound(call, WEATHER)]
    if sound or (pieces and _was_only_cut(observation)):
        how = "in pieces" if len(pieces) > 1 else "in one piece"
        return Finding(name, "works", f"the arguments of a call came {how}", observation.shown)
    broken = "; ".join(f"{call.name}: {call.faults[0].why}" for call in observation.reply.invalid if call.faults)
    words = "a call that comes whole is lost or broken in a stream"
    return Finding(name, "broken", words, excerpt(broken) or observation.shown, _ASK_WHOLE, _NO_STREAMS)


def _was_only_cut(observation: Observation) -> bool:
    """Whether nothing is wrong with a call but that the end of the stream was not seen: another probe tells that."""
    return (
        observation.failure is not None and observation.failure.kind == "stream_cut" and _has_finish_reason(observation)
    )


def _judge_several(subject: Subject, observations: Observations) -> Finding:
    name, observation = "stream_parallel", observations[0]
    was_cut = observation.failure is not None and observation.failure.kind == "stream_cut"
    doubt = None if was_cut else cannot_tell(name, observations)
    if doubt is not None:
        return doubt
    sound = [call for call in observation.reply.calls if is_sound(call, WEATHER)]
    if subject.speaks_chat:
        indexes = _indexes(observation)
        if len(indexes) > 1 and (len(set(indexes)) < len(indexes) or None in indexes):
            words = "calls of one reply share an index" if None not in indexes else "calls come without an index"
            fix, fact = "nothing to do here: dragoman tells them apart; other clients mix them up", None
            if len(sound) < len(indexes) and not was_cut:
                fix, fact = _ASK_WHOLE, _NO_STREAMS
            return Finding(name, "broken", words, f"indexes: {indexes}", fix, fact)
    if len(sound) > 1 or (was_cut and _was_only_cut(observation)):
        return Finding(name, "works", f"{max(len(sound), 2)} calls came apart", observation.shown)
    if len(sound) == 1 and not observation.reply.invalid:
        return Finding(name, "unknown", "one call came where a whole reply had two", observation.shown)
    return Finding(
        name, "broken", "calls that come whole are mixed up in a stream", observation.shown, _ASK_WHOLE, _NO_STREAMS
    )


def _indexes(observation: Observation) -> list[object]:
    """The index under which each call began: a piece with a name begins one."""
    begun: list[object] = []
    seen: set[tuple[object, str, str]] = set()
    for entry in entries_of(observation):
        function = entry.get("function")
        label = function.get("name") if isinstance(function, dict) else None
        # Some servers repeat index, id and name in every piece.
        place = (entry.get("index"), str(entry.get("id")), str(label))
        if label and place not in seen:
            seen.add(place)
            begun.append(entry.get("index"))
    return begun


_STREAMS = ("reachable", "streaming")
STREAM_PROBES = (
    Probe("streaming", "Streams", lambda subject: (counting(),), _judge_text, quick=True, needs=("reachable",)),
    Probe("stream_end", "The end of a stream", lambda subject: (counting(),), _judge_end, quick=True, needs=_STREAMS),
    Probe(
        "stream_calls",
        "Calls in streams",
        lambda subject: (weather(stream=True),),
        _judge_calls,
        quick=True,
        needs=(*NATIVE, "streaming"),
    ),
    Probe(
        "stream_parallel",
        "Several calls in a stream",
        lambda subject: (both(stream=True),),
        _judge_several,
        needs=(*NATIVE, "streaming", "parallel_calls"),
    ),
)


# --------------------------------------------------------------------------------------------------------------------
# What the model writes when it is told how: calls as text, by a grammar, and answers by a schema.

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


def formats_to_try(subject: Subject) -> tuple[str, ...]:
    """The format that would be taught, and two others."""
    own = subject.endpoint.prompt_format
    others = tuple(name for name in _OTHERS if name != own)[:2]
    return (own,) if subject.quick else (own, *others)


def _text_questions(subject: Subject) -> tuple[Question, ...]:
    words = "What is the weather in Paris? Use the tool get_weather."
    return tuple(
        Question(f"text {name}", [user(words)], [WEATHER], mode="text", format=name) for name in formats_to_try(subject)
    )


def _judge_text_calls(subject: Subject, observations: Observations) -> Finding:
    name = "text_formats"
    tried = formats_to_try(subject)
    understood = [
        format for format, observation in zip(tried, observations, strict=True) if _is_understood(observation)
    ]
    if tried[0] in understood:
        return Finding(name, "works", f"calls come as text in {' and in '.join(understood)}", observations[0].shown)
    doubt = cannot_tell(name, observations[:1])
    if doubt is not None and not understood:
        return doubt
    if understood:
        words = f"the model writes no calls in {tried[0]}, but in {' and in '.join(understood)}"
        fix = f'teach the other one: prompt_format = "{understood[0]}" in a profile'
        return Finding(name, "broken", words, observations[0].shown, fix, Fact(format=understood[0]))
    fix = _without_text(subject)
    return Finding(name, "broken", f"the model writes no calls in {' or in '.join(tried)}", observations[0].shown, fix)


def _is_understood(observation: Observation) -> bool:
    return any(is_sound(call, WEATHER) for call in observation.extraction.calls)


def _without_text(subject: Subject) -> str:
    if subject.native:
        return "nothing to do: native calls work here"
    if subject.endpoint.quirks.grammar_field:
        return "let a grammar hold it: weak = true in a profile of this model"
    return "choose a larger model, or a server that takes a grammar (llama.cpp, vLLM, SGLang, Ollama)"


# ---- grammars ------------------------------------------------------------------------------------------------------


def _grammar_questions(subject: Subject) -> tuple[Question, ...]:
    endpoint = subject.endpoint
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


def _judge_grammar(subject: Subject, observations: Observations) -> Finding:
    name = "grammar"
    quirks = subject.endpoint.quirks
    if not observations:
        return Finding(name, "absent", "no field for a grammar is known here")
    observation = observations[0]
    text = observation.reply.text.strip()
    is_held = (
        not validate(_read(text), _GRAMMARS["json_schema"]) if quirks.grammar_syntax == "json_schema" else _held(text)
    )
    if observation.failure is None and is_held:
        return Finding(name, "works", f"the field {quirks.grammar_field} holds the reply", observation.shown)
    doubt = cannot_tell(name, observations)
    if doubt is not None and observation.is_disturbed:
        return doubt
    fact = Fact(quirks={"grammar_field": ""})
    if observation.is_refused:
        fix = "nothing to do: no grammar is sent from now on"
        return Finding(name, "absent", f"the field {quirks.grammar_field} is refused", observation.shown, fix, fact)
    fix = f"nothing to do: no grammar is sent from now on; a newer server may know {quirks.grammar_field}"
    return Finding(name, "broken", f"the field {quirks.grammar_field} is ignored", observation.shown, fix, fact)


# ---- answers by a schema -------------------------------------------------------------------------------------------


def _answer_questions(subject: Subject) -> tuple[Question, ...]:
    wanted = {"type": "json_schema", "name": "city", "schema": _ANSWER, "strict": True}
    words = "Which city is the capital of Portugal, and how many people live there? Answer as JSON."
    return (Question("answer", [user(words)], options={"response_format": wanted}),)


def _judge_answer(subject: Subject, observations: Observations) -> Finding:
    name, observation = "structured_output", observations[0]
    loss = observation.lost("response_format has no place")
    if loss is not None:
        return Finding(name, "absent", "this wire has no field for it", loss.detail)
    doubt = cannot_tell(name, observations)
    if doubt is not None:
        return doubt
    fix = "take structured answers by a tool, as Agent.run(answer=...) does"
    if observation.is_refused:
        return Finding(name, "absent", "requests with it are refused", observation.shown, fix)
    faults = validate(_read(observation.reply.text), _ANSWER)
    if not faults:
        return Finding(name, "works", "an answer keeps to its schema", observation.shown)
    return Finding(name, "broken", "the schema of an answer is ignored", observation.shown, fix)


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


WRITING_PROBES = (
    Probe("text_formats", "Calls as text", _text_questions, _judge_text_calls, quick=True, needs=("reachable",)),
    Probe("grammar", "Grammars", _grammar_questions, _judge_grammar, quick=True, needs=("reachable",)),
    Probe("structured_output", "Answers by a schema", _answer_questions, _judge_answer, needs=("reachable",)),
)
