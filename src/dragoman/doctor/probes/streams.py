"""Probes of streams, text formats, grammars and structured answers."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from dragoman.args.loader import validate
from dragoman.doctor.probe import (
    Judgement,
    Observation,
    Question,
    Subject,
    absent,
    broken,
    cannot_tell,
    entries_of,
    excerpt,
    handled,
    unknown,
    user,
    works,
)
from dragoman.doctor.probes.calls import WEATHER, is_sound, sound_calls
from dragoman.events import ArgumentsDelta, TextDelta, ThinkingDelta
from dragoman.providers import Endpoint, Fact

# --------------------------------------------------------------------------------------------------------------------
# Streams: text in pieces, a visible end, and calls whose pieces fit together.

# The fix and the fact if streams cannot be used.
_ASK_WHOLE = (
    "dragoman now requests whole replies: the capability streaming = false",
    Fact(capabilities={"streaming": False}),
)


def judge_text(subject: Subject, observation: Observation) -> Judgement:
    pieces = [event for event in observation.events if isinstance(event, TextDelta | ThinkingDelta)]
    if len(pieces) > 1:
        return works(f"the answer arrived in {len(pieces)} pieces")
    if doubt := cannot_tell(observation):
        return doubt
    if observation.is_refused:
        return absent("streams are rejected", *_ASK_WHOLE)
    if pieces:
        fix = "nothing to do; if there is a proxy, switch off its buffer"
        return handled("the answer arrived in one piece, at its end", fix, is_usable=True)
    return handled("nothing readable arrived", *_ASK_WHOLE)


def judge_end(subject: Subject, observation: Observation) -> Judgement:
    if observation.failure is None:
        return works("the end is recognisable", evidence="")
    if not observation.was_stream_cut:
        return cannot_tell(observation) or unknown("there was no stream", evidence="")
    words = "the stream ends without its last frame"
    last = excerpt(f"last: {observation.frames[-1]}") if observation.frames else ""
    if subject.speaks_chat and _has_finish_reason(observation):
        fix = "for dragoman the finish reason is now the end: the quirk final_frame = false"
        return handled(words, fix, Fact(quirks={"final_frame": False}), last)
    return handled(words, *_ASK_WHOLE, last)


def _has_finish_reason(observation: Observation) -> bool:
    return any(
        isinstance(choice, dict) and choice.get("finish_reason")
        for frame in observation.frames
        for choice in (frame.get("choices") if isinstance(frame.get("choices"), list) else None) or ()
    )


def judge_calls(subject: Subject, observation: Observation) -> Judgement:
    doubt = cannot_tell(observation)
    if doubt and not observation.was_stream_cut:
        return doubt
    if observation.is_refused:
        return handled("streams with tools are rejected", *_ASK_WHOLE)
    pieces = [event for event in observation.events if isinstance(event, ArgumentsDelta)]
    if sound_calls(observation) or (pieces and _was_only_cut(observation)):
        how = "in pieces" if len(pieces) > 1 else "in one piece"
        return works(f"the arguments of a call arrived {how}")
    faults = "; ".join(f"{call.name}: {call.faults[0].why}" for call in observation.reply.invalid if call.faults)
    return handled(
        "a call that works in a whole reply is lost or broken in a stream", *_ASK_WHOLE, excerpt(faults) or None
    )


def _was_only_cut(observation: Observation) -> bool:
    """Whether the only fault of a call is the missing end of the stream, which another probe reports."""
    return observation.was_stream_cut and _has_finish_reason(observation)


def judge_several(subject: Subject, observation: Observation) -> Judgement:
    was_cut = observation.was_stream_cut
    doubt = cannot_tell(observation)
    if doubt and not was_cut:
        return doubt
    sound = sound_calls(observation)
    if subject.speaks_chat:
        indexes = _indexes(observation)
        if len(indexes) > 1 and (len(set(indexes)) < len(indexes) or None in indexes):
            words = "calls of one reply share an index" if None not in indexes else "calls have no index"
            if len(sound) < len(indexes) and not was_cut:
                return handled(words, *_ASK_WHOLE, f"indexes: {indexes}")
            fix = "nothing to do: dragoman separates them; other clients mix them up"
            return handled(words, fix, evidence=f"indexes: {indexes}")
    if len(sound) > 1 or _was_only_cut(observation):
        return works(f"{max(len(sound), 2)} calls are separate")
    if len(sound) == 1 and not observation.reply.invalid:
        return unknown("there was one call, although a whole reply had two")
    return handled("calls that work in a whole reply are mixed up in a stream", *_ASK_WHOLE)


def _indexes(observation: Observation) -> list[object]:
    """Return the index of the first piece of each call: a piece with a name starts one."""
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


# --------------------------------------------------------------------------------------------------------------------
# Output by instructions: calls as text, calls by a grammar, and answers by a schema.

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
ANSWER = Question(
    "answer",
    [user("Which city is the capital of Portugal, and how many people live there? Answer as JSON.")],
    options={"response_format": {"type": "json_schema", "name": "city", "schema": _ANSWER, "strict": True}},
)


def formats_to_try(subject: Subject) -> tuple[str, ...]:
    """Return the format that instructions would use, and two others."""
    own = subject.endpoint.prompt_format
    others = tuple(name for name in _OTHERS if name != own)[:2]
    return (own,) if subject.quick else (own, *others)


def ask_text(subject: Subject) -> tuple[Question, ...]:
    words = "What is the weather in Paris? Use the tool get_weather."
    return tuple(
        Question(f"text {name}", [user(words)], [WEATHER], mode="text", format=name) for name in formats_to_try(subject)
    )


def judge_text_calls(subject: Subject, *observations: Observation) -> Judgement:
    tried = formats_to_try(subject)
    understood = [
        format
        for format, observation in zip(tried, observations, strict=True)
        if any(is_sound(call, WEATHER) for call in observation.extraction.calls)
    ]
    if tried[0] in understood:
        return works(f"the model writes calls as text in {' and in '.join(understood)}")
    doubt = cannot_tell(observations[0])
    if doubt and not understood:
        return doubt
    words = f"the model writes no calls in {' or in '.join(tried)}"
    fact = None
    if understood:
        words = f"the model writes no calls in {tried[0]}, but in {' and in '.join(understood)}"
        fact = Fact(format=understood[0])
    if subject.native:
        # An endpoint with native calls does not claim that its model can write them as text.
        return absent(words, "nothing to do: native calls work here", fact)
    if understood:
        return handled(words, f"nothing to do: dragoman now uses {understood[0]} for calls as text", fact)
    if subject.endpoint.quirks.grammar_field:
        fix = "use a grammar: weak = true in a profile of this model"
    else:
        fix = "choose a larger model, or a server that accepts a grammar (llama.cpp, vLLM, SGLang, Ollama)"
    return broken(words, fix)


def ask_grammar(subject: Subject) -> tuple[Question, ...]:
    endpoint = subject.endpoint
    if not endpoint.quirks.grammar_field:
        return ()
    words = "Say hello in one sentence."
    return (Question("grammar", [user(words)], options={endpoint.wire: grammar_fields(endpoint)}),)


def grammar_fields(endpoint: Endpoint) -> dict[str, Any]:
    """Return the field of a request for a grammar; a dot in its name separates nested fields."""
    value = _GRAMMARS[endpoint.quirks.grammar_syntax]
    for part in reversed(endpoint.quirks.grammar_field.split(".")):
        value = {part: value}
    return dict(value)


def judge_grammar(subject: Subject, observation: Observation | None = None) -> Judgement:
    if observation is None:
        return absent("no field for a grammar is known")
    field, text = subject.endpoint.quirks.grammar_field, observation.reply.text.strip()
    if subject.endpoint.quirks.grammar_syntax == "json_schema":
        is_held = not validate(_read(text), _GRAMMARS["json_schema"])
    else:
        is_held = _held(text) is not None
    if observation.failure is None and is_held:
        return works(f"the field {field} constrains the reply")
    doubt = cannot_tell(observation)
    if doubt and observation.is_disturbed:
        return doubt
    fix, fact = "nothing to do: no grammar is sent from now on", Fact(quirks={"grammar_field": ""})
    if observation.is_refused:
        return absent(f"the field {field} is rejected", fix, fact)
    return handled(f"the field {field} is ignored", f"{fix}; a newer server may support {field}", fact)


def judge_answer(subject: Subject, observation: Observation) -> Judgement:
    loss = observation.lost("response_format has no place")
    if loss is not None:
        return absent("this wire has no field for it", evidence=loss.detail)
    if doubt := cannot_tell(observation):
        return doubt
    fix = "nothing to do: dragoman uses a tool for structured answers"
    if observation.is_refused:
        return absent("requests with it are rejected", fix)
    if validate(_read(observation.reply.text), _ANSWER):
        return handled("the schema of an answer is ignored", fix)
    return works("an answer follows its schema")


def _read(text: str) -> Any:
    try:
        return msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
