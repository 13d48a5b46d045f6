"""Probes of native calls, tool choice and reasoning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import structs

from dragoman import formats
from dragoman.args.loader import validate
from dragoman.doctor.probe import (
    Judgement,
    Observation,
    Probe,
    Question,
    Subject,
    absent,
    broken,
    cannot_tell,
    excerpt,
    handled,
    unknown,
    user,
    works,
)
from dragoman.providers import Fact
from dragoman.providers.facts import learn_from_error
from dragoman.types import JsonObject, Message, Thinking, Tool, ToolCall, ToolResult
from dragoman.wire.registry import ROWS

# --------------------------------------------------------------------------------------------------------------------
# Native calls: one, several, their ids, their arguments, and their results.


def _one_text(name: str) -> JsonObject:
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


NATIVE = ("reachable", "native_calls")
WEATHER = Tool("get_weather", "The current weather in a city.", _one_text("city"))
CLOCK = Tool("get_time", "The current time in a city.", _one_text("city"))
_BOOKING = Tool(
    "book_table",
    "Book a table in the restaurant.",
    {
        "type": "object",
        "properties": {
            "people": {"type": "integer"},
            "area": {"type": "string", "enum": ["inside", "terrace"]},
            "guest": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "phone": {"type": "string"}},
                "required": ["name"],
            },
            "dishes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["people", "area", "guest", "dishes"],
    },
)
_ASK_WEATHER = "What is the weather in Paris? Use the tool get_weather."
_ASK_BOTH = "What is the weather in Paris, and what is it in Rome? Call get_weather once for each city, both at once."
_ASK_BOOKING = (
    "Book a table for 4 people on the terrace. The guest is Ada Lee. Dishes: soup and bread. Use the tool book_table."
)
ONE_CITY = Question("weather", [user(_ASK_WEATHER)], [WEATHER], mode="native")
FORCED = structs.replace(ONE_CITY, name="weather required", options={"tool_choice": "required"})
TWO_CITIES = Question("two cities", [user(_ASK_BOTH)], [WEATHER], mode="native")
ONE_CITY_STREAMED = structs.replace(ONE_CITY, name="weather streamed", stream=True)
TWO_CITIES_STREAMED = structs.replace(TWO_CITIES, name="two cities streamed", stream=True)
BOOKING = Question("booking", [user(_ASK_BOOKING)], [_BOOKING], mode="native")
_CODE = "7341"
_AS_TEXT = "nothing to do: calls are sent as text from now on"

SERVER_OPTIONS = {
    "vllm": "start vLLM with --enable-auto-tool-choice and --tool-call-parser for this model",
    "sglang": "start SGLang with --tool-call-parser for this model",
    "llamacpp": "start llama-server with --jinja, and with a chat template that supports tools",
    "llamafile": "start it with --jinja, and with a chat template that supports tools",
    "ollama": "choose a model whose page on ollama.com lists `tools`",
}
"""How to make a server parse calls, by provider."""


def is_sound(call: ToolCall, tool: Tool) -> bool:
    """Whether a call is for this tool and fits its schema."""
    return call.name == tool.name and not validate(call.arguments, tool.parameters)


def sound_calls(observation: Observation) -> list[ToolCall]:
    """Return the calls of the weather tool that fit its schema."""
    return [call for call in observation.reply.calls if is_sound(call, WEATHER)]


def follow_native(subject: Subject, observation: Observation) -> Question | None:
    """Without a call, ask for the same call once more, and require it: a model may prefer to talk."""
    if observation.failure is not None or observation.is_cut or sound_calls(observation):
        return None
    return FORCED


def judge_native(subject: Subject, observation: Observation, forced: Observation | None = None) -> Judgement:
    if doubt := cannot_tell(observation):
        return doubt
    if observation.is_refused:
        return _judge_refusal(subject, observation)
    if sound_calls(observation):
        return works("the call is in its own field", fact=Fact(native_tool_calls=True))
    is_forced = forced is not None and bool(sound_calls(forced))
    if is_forced and not formats.parse(observation.reply.text, tools=[WEATHER]).calls:
        words = "a required call is in its own field; without the demand the model answered with text"
        return works(words, fact=Fact(native_tool_calls=True), is_usable=True)
    server = SERVER_OPTIONS.get(subject.endpoint.provider.name, "")
    fix = "; ".join(filter(None, [_AS_TEXT, server and f"or {server}"]))
    written = formats.parse(observation.reply.text, tools=[WEATHER]).calls
    found = written[0].provenance.format if written and written[0].provenance is not None else ""
    if written and is_forced:
        words = f"the call is text ({found}) unless a call is required: the server does not parse the model's output"
    elif written:
        words = f"the call is text ({found}): the server does not parse the output of the model"
    elif observation.reply.calls or observation.reply.invalid:
        words = "the call does not fit the tool"
    else:
        words = "the model answered with text instead of a call"
    shown = observation.shown or excerpt("; ".join(call.raw for call in observation.reply.invalid))
    return handled(words, fix, Fact(native_tool_calls=False, why=words), shown, is_usable=is_forced)


def _judge_refusal(subject: Subject, observation: Observation) -> Judgement:
    failure = observation.failure
    assert failure is not None
    learned = learn_from_error(failure.body or failure.message, failure.status)
    server = SERVER_OPTIONS.get(subject.endpoint.provider.name, "")
    if learned is not None and learned.wire:
        fix = f"use its other wire: --wire {learned.wire}"
    else:
        fix = "; ".join(filter(None, [_AS_TEXT, server and f"or {server}"]))
        learned = Fact(native_tool_calls=False, why=observation.shown)
    return absent("requests with tools are rejected", fix, learned)


def judge_ids(subject: Subject, *observations: Observation) -> Judgement:
    ids = [[call.wire_id for call in observation.reply.calls] for observation in observations]
    if not any(ids):
        return cannot_tell(*observations) or unknown("no call arrived", evidence="")
    fix = "nothing to do: dragoman generates ids; other clients may fail"
    shown = excerpt(", ".join(str(each) for group in ids for each in group))
    if any(each is None for group in ids for each in group):
        if subject.wire in ROWS and not ROWS[subject.wire].call_ids:
            return works("this wire needs none", evidence="")
        return handled("calls have no ids", fix, evidence=shown)
    if any(len(set(group)) < len(group) for group in ids):
        return handled("two calls of one reply have the same id", fix, evidence=shown)
    return works("every call has its own id", evidence=shown)


def judge_parallel(subject: Subject, observation: Observation) -> Judgement:
    if doubt := cannot_tell(observation):
        return doubt
    count = len(sound_calls(observation))
    if count > 1:
        return works(f"one reply had {count} calls")
    if observation.is_refused:
        return broken("a request for two calls was rejected", "read its message; --tool-mode text avoids such requests")
    if count == 1:
        return absent("a reply has one call at a time", "nothing to do: the agent loop sends another request")
    return absent("no call arrived although two were requested", "nothing to do: the agent asks for one at a time")


def judge_schema(subject: Subject, observation: Observation) -> Judgement:
    if doubt := cannot_tell(observation):
        return doubt
    fix = "set the quirk strict_tools, or use a grammar (--tool-mode text)"
    if observation.is_refused:
        return broken("a schema with nested objects and enums is rejected", fix)
    call = next((call for call in observation.reply.calls if call.name == _BOOKING.name), None)
    if call is None:
        faulty = "; ".join(str(fault) for invalid in observation.reply.invalid for fault in invalid.faults)
        if not observation.reply.invalid and not observation.reply.calls:
            return unknown("the model answered with text instead of a call")
        return broken("no call arrived, or none that could be parsed", fix, evidence=excerpt(faulty) or None)
    faults = [str(fault) for fault in validate(call.arguments, _BOOKING.parameters)]
    mended = [f"{change.path}: {change.rule}" for change in call.changes]
    shown = excerpt("; ".join([*faults, *mended, *call.repairs]))
    if faults:
        return broken("the arguments violate the schema", fix, evidence=shown)
    if mended or call.repairs:
        return handled("the arguments needed repairs", "nothing to do: dragoman repairs them", evidence=shown)
    return works("integer, enum, nested object, array and required are respected")


def ask_result(subject: Subject) -> tuple[Question, ...]:
    lookup = Tool("get_code", "The code of a door.", _one_text("door"))
    messages = [
        user("What is the code of the north door? Use the tool get_code, then tell me the code."),
        Message("assistant", [ToolCall("call_doctor1", lookup.name, {"door": "north"})]),
        Message("tool", [ToolResult("call_doctor1", lookup.name, f"The code of the north door is {_CODE}.")]),
    ]
    return (Question("result", messages, [lookup], mode="native" if subject.native else "text"),)


def judge_result(subject: Subject, observation: Observation) -> Judgement:
    if doubt := cannot_tell(observation):
        return doubt
    if observation.is_refused:
        fix = "use text: --tool-mode text" if subject.native else "read its message, or try another model"
        return broken("a conversation with a result is rejected", fix)
    if _CODE in observation.reply.text:
        return works("a result is accepted and used")
    fix = "try --tool-mode text, or another model" if subject.native else "try a larger model"
    if observation.reply.calls or observation.extraction.calls:
        return broken("the model called again instead of using the result", fix)
    return broken("the model did not use the result", fix)


# --------------------------------------------------------------------------------------------------------------------
# Tool choice: whether the endpoint enforces none, required and a named tool.

_FIX = "dragoman now approximates it: the quirk tool_choice lists the kinds that work"


class _Choice(NamedTuple):
    """The question for one kind of tool choice, and the check whether it was respected."""

    choice: Any
    words: str
    tools: list[Tool]
    is_kept: Callable[[set[str]], bool]
    complaint: str


_CHOICES = {
    "none": _Choice(
        "none", _ASK_WEATHER, [WEATHER], lambda called: not called, "there was a call although none was allowed"
    ),
    "required": _Choice(
        "required", "Say hello in one word.", [WEATHER], bool, "there was no call although one was required"
    ),
    "named": _Choice(
        {"name": CLOCK.name},
        _ASK_WEATHER,
        [WEATHER, CLOCK],
        lambda called: called == {CLOCK.name},
        f"{CLOCK.name} was required, but not called",
    ),
}
KINDS = tuple(_CHOICES)


def choice_probe(kind: str) -> Probe:
    """Return the probe of one kind of tool choice."""
    row = _CHOICES[kind]

    def judge(subject: Subject, observation: Observation) -> Judgement:
        loss = observation.lost("tool_choice") or observation.lost("tool choice")
        if loss is not None:
            return absent("this wire has no field for it", "nothing to do: dragoman enforces it", evidence=loss.detail)
        if doubt := cannot_tell(observation):
            return doubt
        if observation.is_refused:
            return absent("requests with it are rejected", _FIX)
        called = {call.name for call in observation.reply.calls} | {call.name for call in observation.reply.invalid}
        return works("it is respected") if row.is_kept(called) else handled(row.complaint, _FIX)

    question = Question(f"tool choice {kind}", [user(row.words)], row.tools, {"tool_choice": row.choice}, "native")
    return Probe(f"tool_choice_{kind}", f"Tool choice: {kind}", (question,), judge, needs=NATIVE)


# --------------------------------------------------------------------------------------------------------------------
# Reasoning: whether it may, or must, be sent back with the result of a call.


def _thinking(observation: Observation) -> Thinking | None:
    return next((part for part in observation.reply.message.parts if isinstance(part, Thinking)), None)


def follow_reasoning(subject: Subject, observation: Observation) -> Question | None:
    if _thinking(observation) is None or not observation.reply.calls:
        return None
    results = [ToolResult(call.id, call.name, "18 degrees and sunny.") for call in observation.reply.calls]
    messages = [*ONE_CITY.messages, observation.reply.message, Message("tool", list(results))]
    return Question("reasoning sent back", messages, [WEATHER], mode="native")


def judge_reasoning(subject: Subject, first: Observation, answer: Observation | None = None) -> Judgement:
    thinking = _thinking(first)
    if thinking is None or answer is None:
        return absent("the model shows no reasoning", evidence="")
    if answer.is_refused:
        return _judge_reasoning_refusal(subject, thinking, answer)
    if doubt := cannot_tell(answer):
        return doubt
    replays = subject.endpoint.quirks.replay_reasoning
    how = "can be sent back" if replays != "never" else "need not be sent back"
    return works(f"the reasoning {how}", evidence=answer.shown)


def _judge_reasoning_refusal(subject: Subject, thinking: Thinking, observation: Observation) -> Judgement:
    quirks = subject.endpoint.quirks
    own = thinking.extra.get(subject.wire)
    field = own.get("field") if isinstance(own, dict) else None
    if quirks.replay_reasoning == "never":
        taught: dict[str, Any] = {"replay_reasoning": "calls"}
        if field in ("reasoning_content", "reasoning", "reasoning_details") and not quirks.reasoning_field:
            taught["reasoning_field"] = field
        words, fix = "a result without the reasoning is rejected", "dragoman now sends it: replay_reasoning = calls"
    else:
        taught = {"replay_reasoning": "never"}
        words, fix = "a result with the reasoning is rejected", "dragoman now omits it: replay_reasoning = never"
    return handled(words, fix, Fact(quirks=taught), observation.shown)
